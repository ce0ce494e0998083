// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Each test runs on a file and on a loop device, with io_uring and with threads, and last on
 * a file with io_uring refused. Loop devices need privileges; where they cannot be had,
 * their tests are skipped.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/loop.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "dev_request.h"

#define SECTORS 4096
#define SIZE ((uint64_t)SECTORS * SECTOR_SIZE)
#define AT(sector) ((uint64_t)(sector)*SECTOR_SIZE)

struct target {
	const char *name;
	bool loop;
	int flags;
	int (*prepare)(void **state); /* before the first test */
};

struct setup {
	struct target target;
	char file[64];
	char path[64]; /* what is opened: the file or the loop device on it */
	int loop_fd;   /* -1: none; the loop device goes when this and the test's closes */
	struct dev *dev;
};

/* Attaches a loop device that vanishes with its last user, however the test ends. */
static int loop_attach(struct setup *s)
{
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int backing = open(s->file, O_RDWR | O_CLOEXEC);
	struct loop_config config = {
	    .fd = backing, .info.lo_flags = LO_FLAGS_AUTOCLEAR, .block_size = 512};
	int number, fd = -1;

	/* Another process may take the free number first. */
	for (int tries = 0; tries < 16 && control >= 0 && fd < 0; tries++) {
		number = ioctl(control, LOOP_CTL_GET_FREE);
		if (number < 0)
			break;
		snprintf(s->path, sizeof(s->path), "/dev/loop%d", number);
		fd = open(s->path, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && ioctl(fd, LOOP_CONFIGURE, &config)) {
			close(fd);
			fd = -1;
		}
	}
	if (control >= 0)
		close(control);
	close(backing);
	return fd;
}

static int set_up(void **state)
{
	struct setup *s = calloc(1, sizeof(*s));
	int fd;

	s->target = *(struct target *)*state;
	s->loop_fd = -1;
	strcpy(s->file, "/var/tmp/tarn-test-dev-XXXXXX");
	fd = mkstemp(s->file);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, SIZE + 1000 * !s->target.loop), 0);
	close(fd);
	strcpy(s->path, s->file);
	if (s->target.loop)
		s->loop_fd = loop_attach(s);
	if (!s->target.loop || s->loop_fd >= 0)
		assert_int_equal(dev_open(s->path, s->target.flags, &s->dev), 0);
	*state = s;
	return 0;
}

static int tear_down(void **state)
{
	struct setup *s = *state;

	dev_close(s->dev);
	if (s->loop_fd >= 0)
		close(s->loop_fd);
	unlink(s->file);
	free(s);
	return 0;
}

/* The test's state; skips where there is no device. */
static struct setup *ready(void **state)
{
	struct setup *s = *state;

	if (!s->dev) {
		print_message("%s: no loop device to be had, skipped\n", s->target.name);
		skip();
	}
	return s;
}

static void fill(void *buf, size_t length, uint64_t seed)
{
	uint64_t *word = buf;

	for (size_t i = 0; i < length / 8; i++)
		word[i] = (seed << 32 | i) * 0x9e3779b97f4a7c15;
}

static bool holds(const void *buf, size_t length, uint64_t seed)
{
	uint64_t *expect = dev_buf_alloc(length);
	bool same;

	fill(expect, length, seed);
	same = !memcmp(buf, expect, length);
	free(expect);
	return same;
}

static void tells_geometry(void **state)
{
	struct setup *s = ready(state);

	assert_int_equal(s->dev->geo.size, SIZE);
	assert_in_range(s->dev->geo.physical, 512, SECTOR_SIZE);
	assert_true(s->dev->geo.optimal && s->dev->geo.optimal % SECTOR_SIZE == 0);
	assert_string_equal(s->dev->path, s->path);
}

static void reads_back(void **state)
{
	struct setup *s = ready(state);
	uint8_t *buf = dev_buf_alloc(AT(64));

	fill(buf, AT(64), 1);
	assert_int_equal(dev_write(s->dev, AT(10), buf, AT(64)), 0);
	assert_int_equal(dev_flush(s->dev), 0);
	memset(buf, 0, AT(64));
	assert_int_equal(dev_read(s->dev, AT(10), buf, AT(64)), 0);
	assert_true(holds(buf, AT(64), 1));
	assert_int_equal(dev_read(s->dev, AT(9), buf, AT(2)), 0);
	for (unsigned i = 0; i < SECTOR_SIZE; i++)
		assert_int_equal(buf[i], 0);
	/* The device's end */
	fill(buf, AT(1), 2);
	assert_int_equal(dev_write(s->dev, SIZE - AT(1), buf, AT(1)), 0);
	assert_int_equal(dev_read(s->dev, SIZE - AT(1), buf, AT(1)), 0);
	assert_true(holds(buf, AT(1), 2));

	assert_int_equal(s->dev->stats.writes, 2);
	assert_int_equal(s->dev->stats.write_bytes, AT(65));
	assert_int_equal(s->dev->stats.reads, 3);
	assert_int_equal(s->dev->stats.read_bytes, AT(67));
	assert_int_equal(s->dev->stats.flushes, 1);
	assert_int_equal(s->dev->stats.read_errors, 0);
	free(buf);
}

/* What is written is in the file itself, for another process to see. */
static void reaches_the_file(void **state)
{
	struct setup *s = ready(state);
	uint8_t *buf = dev_buf_alloc(AT(4));
	int fd = open(s->file, O_RDONLY);

	fill(buf, AT(4), 3);
	assert_int_equal(dev_write(s->dev, AT(100), buf, AT(4)), 0);
	assert_int_equal(dev_flush(s->dev), 0);
	memset(buf, 0, AT(4));
	assert_int_equal(pread(fd, buf, AT(4), AT(100)), AT(4));
	assert_true(holds(buf, AT(4), 3));
	close(fd);
	free(buf);
}

/* How often the kernel has flushed a block device, field 16 of its statistics. */
static unsigned long long kernel_flushes(const char *path)
{
	unsigned long long flushes;
	char stats[64];
	FILE *file;

	snprintf(stats, sizeof(stats), "/sys/block/%s/stat", strrchr(path, '/') + 1);
	file = fopen(stats, "re");
	assert_non_null(file);
	assert_int_equal(fscanf(file,
				"%*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %llu",
				&flushes),
			 1);
	fclose(file);
	return flushes;
}

/* A loop device has a volatile cache and no writes that go past it: the kernel must flush for
   each durable write. */
static void durable_writes_are_flushed_by_the_kernel(void **state)
{
	struct setup *s = ready(state);
	uint8_t *buf = dev_buf_alloc(AT(4));
	struct request r;
	unsigned long long before = 0;

	fill(buf, AT(4), 8);
	if (s->target.loop)
		before = kernel_flushes(s->path);
	for (unsigned i = 0; i < 3; i++) {
		request_start_durable(&r, s->dev, AT(7 + 4 * i), buf, AT(4));
		assert_int_equal(request_wait(&r), 0);
	}
	if (s->target.loop)
		assert_true(kernel_flushes(s->path) >= before + 3);
	memset(buf, 0, AT(4));
	assert_int_equal(dev_read(s->dev, AT(15), buf, AT(4)), 0);
	assert_true(holds(buf, AT(4), 8));
	assert_int_equal(s->dev->stats.flushes, 0);
	free(buf);
}

static void scatters_and_gathers(void **state)
{
	struct setup *s = ready(state);
	uint8_t *buf = dev_buf_alloc(AT(2 * DEV_MAX_IOV));
	struct iovec iov[DEV_MAX_IOV];
	struct request r = {.io = {.op = DEV_WRITE,
				   .offset = AT(3),
				   .length = AT(DEV_MAX_IOV),
				   .iov = iov,
				   .iovcnt = DEV_MAX_IOV,
				   .done = request_done,
				   .owner = &r}};

	/* Every second sector of the buffer, backwards */
	for (unsigned i = 0; i < DEV_MAX_IOV; i++) {
		iov[i].iov_base = buf + AT(2 * (DEV_MAX_IOV - 1 - i));
		iov[i].iov_len = SECTOR_SIZE;
		fill(iov[i].iov_base, SECTOR_SIZE, i);
	}
	sem_init(&r.done, 0, 0);
	dev_submit(s->dev, &r.io);
	assert_int_equal(request_wait(&r), 0);
	memset(buf, 0, AT(2 * DEV_MAX_IOV));
	assert_int_equal(dev_read(s->dev, AT(3), buf, AT(DEV_MAX_IOV)), 0);
	for (unsigned i = 0; i < DEV_MAX_IOV; i++)
		assert_true(holds(buf + AT(i), SECTOR_SIZE, i));

	r.io.op = DEV_READ;
	sem_init(&r.done, 0, 0);
	dev_submit(s->dev, &r.io);
	assert_int_equal(request_wait(&r), 0);
	for (unsigned i = 0; i < DEV_MAX_IOV; i++)
		assert_true(holds(iov[i].iov_base, SECTOR_SIZE, i));
	free(buf);
}

#define THREADS 4
#define EACH 512 /* more requests in flight than the ring takes */

struct submitter {
	pthread_t thread;
	struct dev *dev;
	unsigned number;
	int result;
};

static int pass(struct submitter *t, enum dev_op op, struct request *r, uint8_t *buf)
{
	int rc = 0;

	for (unsigned i = 0; i < EACH; i++)
		request_start(&r[i], t->dev, op, AT(t->number * EACH + i), buf + AT(i), AT(1));
	for (unsigned i = 0; i < EACH; i++)
		rc |= request_wait(&r[i]);
	return rc;
}

static void *submitter(void *arg)
{
	struct submitter *t = arg;
	struct request *r = calloc(EACH, sizeof(*r));
	uint8_t *buf = dev_buf_alloc(AT(EACH));

	for (unsigned i = 0; i < EACH; i++)
		fill(buf + AT(i), AT(1), t->number * EACH + i);
	t->result = pass(t, DEV_WRITE, r, buf);
	memset(buf, 0, AT(EACH));
	t->result |= pass(t, DEV_READ, r, buf);
	for (unsigned i = 0; i < EACH; i++) {
		if (!holds(buf + AT(i), AT(1), t->number * EACH + i))
			t->result = -EBADMSG;
	}
	free(buf);
	free(r);
	return NULL;
}

static void many_threads_many_requests(void **state)
{
	struct setup *s = ready(state);
	struct submitter t[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		t[i] = (struct submitter){.dev = s->dev, .number = i};
		assert_int_equal(pthread_create(&t[i].thread, NULL, submitter, &t[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(t[i].thread, NULL);
		assert_int_equal(t[i].result, 0);
	}
	assert_int_equal(s->dev->stats.writes, THREADS * EACH);
	assert_int_equal(s->dev->stats.read_bytes, THREADS * AT(EACH));
}

static void *submit_and_leave(void *arg)
{
	struct request *r = arg;

	for (unsigned i = 0; i < EACH; i++)
		dev_submit(r[i].io.dev, &r[i].io);
	return NULL;
}

/* A thread's end does not take its requests with it. */
static void requests_outlive_their_thread(void **state)
{
	struct setup *s = ready(state);
	struct request *r = calloc(EACH, sizeof(*r));
	uint8_t *buf = dev_buf_alloc(AT(1));
	pthread_t thread;

	fill(buf, AT(1), 5);
	for (unsigned i = 0; i < EACH; i++) {
		r[i].iov = (struct iovec){.iov_base = buf, .iov_len = AT(1)};
		r[i].io = (struct dev_io){.op = i % 8 ? DEV_WRITE : DEV_FLUSH,
					  .offset = AT(i),
					  .length = AT(1),
					  .iov = &r[i].iov,
					  .iovcnt = 1,
					  .done = request_done,
					  .owner = &r[i],
					  .dev = s->dev};
		sem_init(&r[i].done, 0, 0);
	}
	assert_int_equal(pthread_create(&thread, NULL, submit_and_leave, r), 0);
	pthread_join(thread, NULL);
	for (unsigned i = 0; i < EACH; i++)
		assert_int_equal(request_wait(&r[i]), 0);
	free(buf);
	free(r);
}

struct chain {
	struct dev_io io;
	struct iovec iov;
	struct dev *dev;
	unsigned left;
	int result;
};

static void go_on(struct dev_io *io)
{
	struct chain *c = io->owner;

	c->result |= io->result;
	if (!c->left--)
		return;
	/* All kinds, so that the ring and the workers submit to each other. */
	io->op = c->left % 3 == 0 ? DEV_DISCARD : c->left % 3 == 1 ? DEV_WRITE : DEV_FLUSH;
	io->offset += SECTOR_SIZE;
	dev_submit(c->dev, io);
}

static void close_waits_for_chains_of_requests(void **state)
{
	struct setup *s = ready(state);
	uint8_t *buf = dev_buf_alloc(AT(1));
	struct chain chains[8];

	if (!s->dev->geo.discard) {
		free(buf);
		skip();
	}
	fill(buf, AT(1), 6);
	for (unsigned i = 0; i < 8; i++) {
		struct chain *c = &chains[i];

		*c = (struct chain){.dev = s->dev, .left = 64};
		c->iov = (struct iovec){.iov_base = buf, .iov_len = AT(1)};
		c->io = (struct dev_io){.op = DEV_WRITE,
					.offset = AT(i * 100),
					.length = AT(1),
					.iov = &c->iov,
					.iovcnt = 1,
					.done = go_on,
					.owner = c};
		dev_submit(s->dev, &c->io);
	}
	dev_close(s->dev);
	s->dev = NULL;
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(chains[i].left, UINT32_MAX);
		assert_int_equal(chains[i].result, 0);
	}
	free(buf);
}

static uint64_t blocks(const char *file)
{
	struct stat st;

	assert_int_equal(stat(file, &st), 0);
	return st.st_blocks * UINT64_C(512);
}

static void discard_frees_space(void **state)
{
	struct setup *s = ready(state);
	uint8_t *buf = dev_buf_alloc(AT(1024));
	uint64_t used;

	if (!s->dev->geo.discard) {
		free(buf);
		skip();
	}
	fill(buf, AT(1024), 7);
	assert_int_equal(dev_write(s->dev, 0, buf, AT(1024)), 0);
	assert_int_equal(dev_flush(s->dev), 0);
	used = blocks(s->file);
	assert_int_equal(request_run(s->dev, DEV_DISCARD, AT(256), NULL, AT(512)), 0);
	assert_int_equal(dev_flush(s->dev), 0);
	assert_in_range(blocks(s->file), 1, used - AT(500));
	assert_int_equal(dev_read(s->dev, 0, buf, AT(1024)), 0);
	assert_true(holds(buf, AT(256), 7));
	for (uint64_t i = AT(256); i < AT(768); i++)
		assert_int_equal(buf[i], 0);
	assert_int_equal(s->dev->stats.discards, 1);
	free(buf);
}

static void one_holder_for_writing(void **state)
{
	struct setup *s = ready(state);
	uint8_t *buf = dev_buf_alloc(AT(1));
	struct dev *other;

	assert_int_equal(dev_open(s->path, s->target.flags, &other), -EBUSY);
	assert_int_equal(dev_open(s->path, s->target.flags | DEV_OPEN_RDONLY, &other), 0);
	assert_int_equal(other->geo.size, SIZE);
	assert_int_equal(dev_read(other, 0, buf, AT(1)), 0);
	assert_int_equal(dev_write(other, 0, buf, AT(1)), -EROFS);
	assert_int_equal(dev_flush(other), -EROFS);
	assert_int_equal(request_run(other, DEV_DISCARD, 0, NULL, AT(1)), -EROFS);
	dev_close(other);
	dev_close(s->dev);
	assert_int_equal(dev_open(s->path, s->target.flags, &s->dev), 0);
	free(buf);
}

static void refuses_what_breaks_the_rules(void **state)
{
	struct setup *s = ready(state);
	uint8_t *buf = dev_buf_alloc(AT(2));

	assert_int_equal(dev_read(s->dev, 0, buf + 512, 512), -EINVAL);
	assert_int_equal(dev_write(s->dev, 512, buf, AT(1)), -EINVAL);
	assert_int_equal(dev_read(s->dev, SIZE, buf, AT(1)), -ENXIO);
	assert_int_equal(dev_write(s->dev, SIZE - AT(1), buf, AT(2)), -ENXIO);
	assert_int_equal(request_run(s->dev, DEV_DISCARD, SIZE, NULL, AT(1)), -ENXIO);
	assert_int_equal(s->dev->stats.reads, 0);
	assert_int_equal(s->dev->stats.writes, 0);
	free(buf);
}

static void early_end_is_an_error(void **state)
{
	struct setup *s = ready(state);
	uint8_t *buf = dev_buf_alloc(AT(8));

	if (s->target.loop) {
		free(buf);
		skip();
	}
	assert_int_equal(truncate(s->file, AT(4)), 0);
	assert_int_equal(dev_read(s->dev, 0, buf, AT(8)), -EIO); /* half of it there */
	assert_int_equal(dev_read(s->dev, AT(8), buf, AT(8)), -EIO);
	assert_int_equal(dev_read(s->dev, 0, buf, AT(4)), 0);
	assert_int_equal(s->dev->stats.read_errors, 2);
	assert_int_equal(s->dev->stats.read_bytes, AT(4));
	free(buf);
}

static void notices_growth(void **state)
{
	struct setup *s = ready(state);
	uint8_t *buf = dev_buf_alloc(AT(1));

	assert_int_equal(truncate(s->file, 2 * SIZE), 0);
	if (s->target.loop)
		assert_int_equal(ioctl(s->loop_fd, LOOP_SET_CAPACITY, 0), 0);
	assert_int_equal(dev_read(s->dev, SIZE, buf, AT(1)), -ENXIO);
	assert_int_equal(dev_refresh_geometry(s->dev), 0);
	assert_int_equal(s->dev->geo.size, 2 * SIZE);
	assert_int_equal(dev_read(s->dev, SIZE, buf, AT(1)), 0);
	if (!s->target.loop) {
		assert_int_equal(truncate(s->file, SIZE), 0);
		assert_int_equal(dev_refresh_geometry(s->dev), 0);
		assert_int_equal(s->dev->geo.size, 2 * SIZE);
	}
	free(buf);
}

static void opens_nothing_else(void **state)
{
	(void)state;
	char dir[] = "/var/tmp/tarn-test-dev-XXXXXX", fifo[64];
	struct dev *dev;

	assert_non_null(mkdtemp(dir));
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(dev_open(dir, 0, &dev), -ENOTBLK);
	assert_int_equal(dev_open(fifo, DEV_OPEN_RDONLY, &dev), -ENOTBLK);
	assert_int_equal(dev_open("/dev/null", 0, &dev), -ENOTBLK);
	unlink(fifo);
	assert_int_equal(dev_open(fifo, 0, &dev), -ENOENT);
	rmdir(dir);
	dev_close(NULL);
}

/* As container runtimes do; for the rest of this process. */
static int refuse_rings(void **state)
{
	(void)state;
	struct sock_filter filter[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = 4, .filter = filter};

	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
	assert_int_equal(syscall(SYS_io_uring_setup, 1, NULL), -1);
	assert_int_equal(errno, EPERM);
	return 0;
}

static struct target targets[] = {
    {"file, io_uring", false, 0, NULL},
    {"file, threads", false, DEV_OPEN_THREADS, NULL},
    {"loop device, io_uring", true, 0, NULL},
    {"loop device, threads", true, DEV_OPEN_THREADS, NULL},
    {"file, io_uring refused", false, 0, refuse_rings},
};

#define T(name, target)                                                                            \
	{                                                                                          \
#name, name, set_up, tear_down, target                                             \
	}

int main(void)
{
	const struct CMUnitTest once[] = {cmocka_unit_test(opens_nothing_else)};
	int failed = cmocka_run_group_tests_name("any", once, NULL, NULL);

	for (unsigned i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		struct target *t = &targets[i];
		const struct CMUnitTest tests[] = {
		    T(tells_geometry, t),
		    T(reads_back, t),
		    T(reaches_the_file, t),
		    T(durable_writes_are_flushed_by_the_kernel, t),
		    T(scatters_and_gathers, t),
		    T(many_threads_many_requests, t),
		    T(requests_outlive_their_thread, t),
		    T(close_waits_for_chains_of_requests, t),
		    T(discard_frees_space, t),
		    T(one_holder_for_writing, t),
		    T(refuses_what_breaks_the_rules, t),
		    T(early_end_is_an_error, t),
		    T(notices_growth, t),
		};

		failed += cmocka_run_group_tests_name(t->name, tests, t->prepare, NULL);
	}
	return failed;
}
