// SPDX-License-Identifier: LGPL-3.0-or-later
#include "pool_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MUST(rc, err)                                                                              \
	do {                                                                                       \
		int rc_ = (rc);                                                                    \
		if (rc_)                                                                           \
			fail_msg("%s: %s (%s)", #rc, strerror(-rc_), (err)->text);                 \
	} while (0)

static void open_root(struct fixture *f)
{
	assert_int_equal(tarn_dataset_open(f->engine, FIXTURE_POOL, NULL, &f->ds), 0);
}

void fixture_begin(struct fixture *f, uint32_t ndevs, uint64_t dev_bytes, bool mirror,
		   const struct tarn_config *config)
{
	fixture_begin_kind(f, ndevs, dev_bytes, mirror ? TARN_GROUP_MIRROR : TARN_GROUP_SINGLE,
			   config);
}

void fixture_begin_kind(struct fixture *f, uint32_t ndevs, uint64_t dev_bytes,
			enum tarn_group_kind kind, const struct tarn_config *config)
{
	bool one = kind != TARN_GROUP_SINGLE;
	struct tarn_group_spec groups[FIXTURE_DEVS_MAX];
	struct tarn_error err = {0};

	memset(f, 0, sizeof(*f));
	strcpy(f->dir, "/var/tmp/tarn-test-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	f->ndevs = ndevs;
	for (uint32_t i = 0; i < ndevs; i++) {
		int fd;

		snprintf(f->path[i], sizeof(f->path[i]), "%s/disk%u", f->dir, i);
		f->paths[i] = f->path[i];
		fd = open(f->path[i], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		assert_int_equal(ftruncate(fd, (off_t)dev_bytes), 0);
		close(fd);
		groups[i] =
		    (struct tarn_group_spec){TARN_GROUP_SINGLE, 1, &f->paths[i], TARN_CLASS_DATA};
	}
	if (one)
		groups[0] = (struct tarn_group_spec){kind, ndevs, f->paths, TARN_CLASS_DATA};
	f->config = (struct tarn_config){.arc_max = 16 << 20, .dirty_max = 16 << 20, .threads = 2};
	if (config)
		f->config = *config;
	assert_int_equal(tarn_engine_create(&f->config, &f->engine), 0);
	MUST(tarn_pool_create(f->engine, FIXTURE_POOL, groups, one ? 1 : ndevs, NULL, 0, 0, &err),
	     &err);
	open_root(f);
}

static void print_finding(void *arg, const struct tarn_finding *finding)
{
	(void)arg;
	print_error("tarnck: %s\n", finding->text);
}

static void export_and_check(struct fixture *f)
{
	struct tarn_check_spec spec = {
	    .name = FIXTURE_POOL,
	    .paths = f->paths,
	    .npaths = f->ndevs,
	    .uberblocks = 3,
	    .finding = print_finding,
	};
	struct tarn_check_result result;
	struct tarn_error err = {0};

	tarn_dataset_put(f->ds);
	f->ds = NULL;
	MUST(tarn_pool_export(f->engine, FIXTURE_POOL, 0, &err), &err);
	MUST(tarn_check(&spec, &result, &err), &err);
	assert_int_equal(result.findings, 0);
}

void fixture_remount(struct fixture *f)
{
	struct tarn_import_spec spec = {
	    .name = FIXTURE_POOL, .paths = f->paths, .npaths = f->ndevs};
	struct tarn_error err = {0};

	export_and_check(f);
	MUST(tarn_pool_import(f->engine, &spec, &err), &err);
	open_root(f);
}

void fixture_end(struct fixture *f)
{
	export_and_check(f);
	tarn_engine_destroy(f->engine);
	for (uint32_t i = 0; i < f->ndevs; i++)
		unlink(f->path[i]);
	rmdir(f->dir);
}

/* ---- waiting for asynchronous calls ---- */

struct waiting {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done;
	int result;
};
#define WAITING                                                                                    \
	{                                                                                          \
		.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER                \
	}

static void wake(void *arg, int result)
{
	struct waiting *w = arg;

	pthread_mutex_lock(&w->lock);
	w->done = true;
	w->result = result;
	pthread_cond_signal(&w->cond);
	pthread_mutex_unlock(&w->lock);
}

static int await(struct waiting *w)
{
	pthread_mutex_lock(&w->lock);
	while (!w->done)
		pthread_cond_wait(&w->cond, &w->lock);
	pthread_mutex_unlock(&w->lock);
	return w->result;
}

static void io_done(struct tarn_io *io)
{
	wake(io->owner, io->result);
}

int fixture_read(struct tarn_inode *inode, uint64_t offset, void *buf, size_t len, size_t *done,
		 bool *eof)
{
	struct waiting w = WAITING;
	struct iovec iov = {buf, len};
	struct tarn_io io = {.inode = inode,
			     .offset = offset,
			     .iov = &iov,
			     .iovcnt = 1,
			     .length = len,
			     .done = io_done,
			     .owner = &w};

	tarn_read(&io);
	await(&w);
	*done = io.transferred;
	*eof = io.eof;
	return io.result;
}

int fixture_write(struct tarn_inode *inode, uint64_t offset, const void *buf, size_t len,
		  bool stable)
{
	struct waiting w = WAITING;
	struct iovec iov = {(void *)buf, len};
	struct tarn_io io = {.inode = inode,
			     .write = true,
			     .stable = stable,
			     .offset = offset,
			     .iov = &iov,
			     .iovcnt = 1,
			     .length = len,
			     .done = io_done,
			     .owner = &w};

	tarn_write(NULL, &io);
	await(&w);
	if (!io.result && io.transferred != len)
		return -EIO;
	return io.result;
}

int fixture_fsync(struct tarn_inode *inode)
{
	struct waiting w = WAITING;

	tarn_fsync(inode, wake, &w);
	return await(&w);
}

/* ---- chance ---- */

uint64_t test_seed(void)
{
	const char *given = getenv("TARN_TEST_SEED");
	struct timespec now;
	uint64_t seed;

	clock_gettime(CLOCK_REALTIME, &now);
	seed = given ? strtoull(given, NULL, 0)
		     : ((uint64_t)now.tv_sec << 20) ^ (uint64_t)now.tv_nsec ^ (uint64_t)getpid();
	print_message("TARN_TEST_SEED=%llu\n", (unsigned long long)seed);
	return seed ? seed : 1;
}

unsigned test_scale(void)
{
	const char *size = getenv("TARN_TEST_SIZE");

	if (size && strcmp(size, "large") == 0)
		return 100;
	return size && strcmp(size, "medium") == 0 ? 10 : 1;
}

uint64_t test_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545F4914F6CDD1Dull;
}
