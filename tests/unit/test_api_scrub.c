// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Scrubs through the public API: everything that lies on one device is overwritten with garbage
 * under the running pool, a scrub makes it good again, and the next device's turn comes: in the end
 * nothing is left of what was written at first, and all of it can be read. Blocks without a good
 * copy are told by file. A scrub is paused, stopped, set, and goes on after an import.
 */
#include "pool_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/job.h>
#include <unistd.h>

#include <cmocka.h>

#define DEV_BYTES (96ull << 20)
#define SLABS_FROM (2ull << 20) /* behind the slab table of a device of this size */
#define LABEL_BYTES (1ull << 20)
#define FILES 24
#define FILE_MAX (1u << 20)

static uint8_t data[FILE_MAX], back[FILE_MAX];

/* Small ones, crumbs, whole records. */
static uint32_t file_size(unsigned i)
{
	static const uint32_t sizes[] = {1, 4097, 20000, 131072, 300001, FILE_MAX};

	return sizes[i % (sizeof(sizes) / sizeof(*sizes))];
}

static void content(unsigned i)
{
	uint64_t x = i + 1;

	for (uint32_t k = 0; k + 8 <= sizeof(data); k += 8) {
		uint64_t v = test_random(&x);

		memcpy(data + k, &v, 8);
	}
}

static void write_files(struct fixture *f)
{
	struct tarn_create how = {.type = TARN_REG}, dirs = {.type = TARN_DIR};
	struct tarn_inode *root, *dir, *inode;
	struct tarn_commit token;

	assert_int_equal(tarn_root(f->ds, &root), 0);
	assert_int_equal(tarn_create(NULL, root, "dir", &dirs, &dir, NULL, NULL, &token), 0);
	for (unsigned i = 0; i < FILES; i++) {
		char name[16];

		snprintf(name, sizeof(name), "file%u", i);
		content(i);
		assert_int_equal(
		    tarn_create(NULL, i % 2 ? dir : root, name, &how, &inode, NULL, NULL, &token),
		    0);
		assert_int_equal(fixture_write(inode, 0, data, file_size(i), false), 0);
		tarn_inode_put(inode);
	}
	tarn_inode_put(dir);
	tarn_inode_put(root);
	/* A task of the sync, so all of it is committed. */
	assert_int_equal(tarn_pool_history_add(f->engine, FIXTURE_POOL, "written"), 0);
}

/* The result of reading all of a file; 0: it is right. */
static int read_file(struct fixture *f, unsigned i)
{
	struct tarn_inode *root, *dir, *inode;
	char name[16];
	size_t got;
	bool eof;
	int rc;

	snprintf(name, sizeof(name), "file%u", i);
	assert_int_equal(tarn_root(f->ds, &root), 0);
	assert_int_equal(tarn_lookup(NULL, root, "dir", &dir), 0);
	assert_int_equal(tarn_lookup(NULL, i % 2 ? dir : root, name, &inode), 0);
	rc = fixture_read(inode, 0, back, file_size(i), &got, &eof);
	if (!rc) {
		content(i);
		assert_int_equal(got, file_size(i));
		assert_memory_equal(data, back, got);
	}
	tarn_inode_put(inode);
	tarn_inode_put(dir);
	tarn_inode_put(root);
	return rc;
}

static void read_files(struct fixture *f)
{
	for (unsigned i = 0; i < FILES; i++)
		assert_int_equal(read_file(f, i), 0);
}

/* Past the page cache, as the pool does: a flush fails where both have been at work. */
static int open_device(struct fixture *f, unsigned dev)
{
	int fd = open(f->path[dev], O_RDWR | O_DIRECT | O_CLOEXEC);

	if (fd < 0)
		fd = open(f->path[dev], O_RDWR | O_CLOEXEC); /* tmpfs: there is no other way */
	assert_true(fd >= 0);
	return fd;
}

/* Everything but labels and slab table. */
static void garble(struct fixture *f, unsigned dev)
{
	static _Alignas(4096) uint64_t sector[512], zeros[512];
	uint64_t x = dev + 77;
	int fd = open_device(f, dev);

	for (uint64_t at = SLABS_FROM; at < DEV_BYTES - LABEL_BYTES; at += sizeof(sector)) {
		assert_int_equal(pread(fd, sector, sizeof(sector), (off_t)at), sizeof(sector));
		if (!memcmp(sector, zeros, sizeof(sector)))
			continue;
		for (unsigned i = 0; i < 512; i++)
			sector[i] = test_random(&x);
		assert_int_equal(pwrite(fd, sector, sizeof(sector), (off_t)at), sizeof(sector));
	}
	close(fd);
}

/* ---- jobs ---- */

/* The last one; false: there is none. */
static bool last_job(struct fixture *f, struct tarn_job *out)
{
	struct tarn_job *list;
	uint32_t n;

	assert_int_equal(tarn_job_list(f->engine, FIXTURE_POOL, &list, &n), 0);
	if (n)
		*out = list[n - 1];
	for (uint32_t i = 0; i < n; i++)
		assert_true(list[i].done <= list[i].total);
	free(list);
	return n > 0;
}

static struct tarn_job wait_scrub(struct fixture *f)
{
	struct tarn_job job;

	do {
		assert_true(last_job(f, &job));
		usleep(1000);
	} while (!tarn_job_ended(job.state));
	return job;
}

static void act(struct fixture *f, enum tarn_scrub_action action, int result)
{
	struct tarn_error err = {0};
	int rc = tarn_pool_scrub(f->engine, FIXTURE_POOL, action, &err);

	if (rc != result)
		fail_msg("scrub: %d (%s), not %d", rc, err.text, result);
}

static int set(struct fixture *f, const char *name, const char *value)
{
	struct tarn_prop prop = {name, value};
	struct tarn_error err = {0};

	return tarn_job_set(f->engine, FIXTURE_POOL, &prop, 1, &err);
}

static struct tarn_job scrub(struct fixture *f)
{
	struct tarn_job job;

	act(f, TARN_SCRUB_START, 0);
	job = wait_scrub(f);
	assert_int_equal(job.kind, TARN_JOB_SCRUB);
	assert_int_equal(job.state, TARN_JOB_DONE);
	assert_int_equal(job.done, job.total);
	assert_true(job.ended >= job.started);
	return job;
}

/* So many commits that no uberblock that could be chosen is from before. */
static void commit(struct fixture *f)
{
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(tarn_pool_history_add(f->engine, FIXTURE_POOL, "later"), 0);
}

static uint64_t checksum_errors(struct fixture *f, unsigned dev)
{
	struct tarn_pool_status *s;
	uint64_t n;

	assert_int_equal(tarn_pool_status(f->engine, FIXTURE_POOL, &s), 0);
	n = s->devs[dev].checksum_errors;
	tarn_pool_status_free(s);
	return n;
}

/* ---- each device in turn ---- */

static void each_device(uint32_t ndevs, enum tarn_group_kind kind)
{
	struct tarn_error err = {0};
	struct tarn_job job;
	struct fixture f;
	uint64_t files = 0;

	fixture_begin_kind(&f, ndevs, DEV_BYTES, kind, NULL);
	write_files(&f);
	for (unsigned i = 0; i < FILES; i++)
		files += file_size(i);
	job = scrub(&f);
	assert_int_equal(job.repaired, 0);
	assert_int_equal(job.errors, 0);
	assert_true(job.done >= files);
	for (unsigned dev = 0; dev < ndevs; dev++) {
		garble(&f, dev);
		job = scrub(&f);
		assert_int_equal(job.errors, 0);
		assert_true(job.repaired >= files / ndevs);
		for (unsigned i = 0; i < ndevs; i++)
			assert_int_equal(checksum_errors(&f, i) > 0, i == dev);
		assert_int_equal(tarn_pool_clear(f.engine, FIXTURE_POOL, &err), 0);
		job = scrub(&f);
		assert_int_equal(job.repaired, 0);
		assert_int_equal(checksum_errors(&f, dev), 0);
	}
	commit(&f);
	fixture_remount(&f);
	read_files(&f);
	fixture_end(&f);
}

static void test_mirror(void **state)
{
	(void)state;
	each_device(3, TARN_GROUP_MIRROR);
}

static void test_raidz1(void **state)
{
	(void)state;
	each_device(3, TARN_GROUP_RAIDZ1);
}

static void test_raidz2(void **state)
{
	(void)state;
	each_device(4, TARN_GROUP_RAIDZ2);
}

/* ---- what is lost is told by file ---- */

struct objects {
	char text[16][200];
	uint64_t blocks[16];
	unsigned n;
};

static void on_object(void *arg, const char *object, uint64_t blocks)
{
	struct objects *o = arg;

	assert_true(o->n < 16);
	snprintf(o->text[o->n], sizeof(o->text[0]), "%s", object);
	o->blocks[o->n++] = blocks;
}

static struct objects objects(struct fixture *f)
{
	struct objects o = {.n = 0};

	assert_int_equal(tarn_pool_errors(f->engine, FIXTURE_POOL, on_object, &o), 0);
	return o;
}

/* One sector of the file's content, wherever that is on the device, is changed. */
static void spoil(struct fixture *f, unsigned dev, unsigned file)
{
	static _Alignas(4096) uint8_t sector[4096];
	int fd = open_device(f, dev);
	bool found = false;

	content(file);
	for (uint64_t at = SLABS_FROM; at < DEV_BYTES - LABEL_BYTES; at += sizeof(sector)) {
		assert_int_equal(pread(fd, sector, sizeof(sector), (off_t)at), sizeof(sector));
		if (memcmp(sector, data, sizeof(sector)))
			continue;
		sector[100] ^= 1;
		assert_int_equal(pwrite(fd, sector, sizeof(sector), (off_t)at), sizeof(sector));
		found = true;
	}
	close(fd);
	assert_true(found);
}

static void test_lost(void **state)
{
	struct tarn_error err = {0};
	struct tarn_job job;
	struct objects o;
	struct fixture f;

	(void)state;
	fixture_begin(&f, 2, DEV_BYTES, true, NULL);
	write_files(&f);
	spoil(&f, 0, 5);
	spoil(&f, 1, 5);
	spoil(&f, 0, 4);
	spoil(&f, 1, 4);
	spoil(&f, 1, 3); /* one copy is left */
	act(&f, TARN_SCRUB_START, 0);
	job = wait_scrub(&f);
	assert_int_equal(job.state, TARN_JOB_DONE);
	assert_int_equal(job.errors, 2);
	assert_true(job.repaired > 0);
	o = objects(&f);
	assert_int_equal(o.n, 2);
	assert_string_equal(o.text[0], FIXTURE_POOL ":/file4");
	assert_string_equal(o.text[1], FIXTURE_POOL ":/dir/file5");
	assert_int_equal(o.blocks[0], 1);
	assert_int_equal(o.blocks[1], 1);
	/* It is the last scrub that tells. */
	tarn_dataset_put(f.ds);
	assert_int_equal(tarn_pool_export(f.engine, FIXTURE_POOL, 0, &err), 0);
	struct tarn_import_spec spec = {.name = FIXTURE_POOL, .paths = f.paths, .npaths = 2};
	assert_int_equal(tarn_pool_import(f.engine, &spec, &err), 0);
	assert_int_equal(tarn_dataset_open(f.engine, FIXTURE_POOL, NULL, &f.ds), 0);
	assert_int_equal(objects(&f).n, 2);
	assert_int_equal(read_file(&f, 3), 0);
	assert_int_equal(read_file(&f, 5), -EIO);
	spoil(&f, 0, 9);
	spoil(&f, 1, 9);
	act(&f, TARN_SCRUB_START, 0);
	job = wait_scrub(&f);
	assert_int_equal(job.errors, 3);
	assert_int_equal(objects(&f).n, 3);
	/* Removed, they are no matter any more. */
	struct tarn_inode *root, *dir;
	struct tarn_commit token;
	assert_int_equal(tarn_root(f.ds, &root), 0);
	assert_int_equal(tarn_lookup(NULL, root, "dir", &dir), 0);
	assert_int_equal(tarn_unlink(NULL, root, "file4", 0, NULL, &token), 0);
	assert_int_equal(tarn_unlink(NULL, dir, "file5", 0, NULL, &token), 0);
	assert_int_equal(tarn_unlink(NULL, dir, "file9", 0, NULL, &token), 0);
	tarn_inode_put(dir);
	tarn_inode_put(root);
	commit(&f);
	/* Their blocks go in the background. */
	do {
		act(&f, TARN_SCRUB_START, 0);
		job = wait_scrub(&f);
	} while (job.errors);
	assert_int_equal(objects(&f).n, 0);
	commit(&f);
	fixture_end(&f);
}

/* ---- paused, stopped, set, gone on with ---- */

/* Starts a scrub and has it paused: one of so little may have ended before. */
static void hold(struct fixture *f)
{
	struct tarn_error err = {0};
	int rc;

	do {
		act(f, TARN_SCRUB_START, 0);
		rc = tarn_pool_scrub(f->engine, FIXTURE_POOL, TARN_SCRUB_PAUSE, &err);
	} while (rc == -ENOENT);
	assert_int_equal(rc, 0);
}

static void test_control(void **state)
{
	struct fixture f;
	struct tarn_job job;
	uint64_t id, before;

	(void)state;
	fixture_begin(&f, 2, DEV_BYTES, true, NULL);
	write_files(&f);
	assert_false(last_job(&f, &job));
	act(&f, TARN_SCRUB_PAUSE, -ENOENT);
	act(&f, TARN_SCRUB_STOP, -ENOENT);
	assert_int_equal(set(&f, "priority", "3"), -ENOENT);

	hold(&f);
	assert_int_equal(set(&f, "ceiling", "1K"), 0);
	assert_int_equal(set(&f, "priority", "101"), -EINVAL);
	assert_int_equal(set(&f, "priority", "-1"), -EINVAL);
	assert_int_equal(set(&f, "floor", "2K"), -EINVAL);
	assert_int_equal(set(&f, "colour", "1"), -EINVAL);
	assert_true(last_job(&f, &job));
	id = job.id;
	assert_int_equal(job.state, TARN_JOB_PAUSED);
	assert_int_equal(set(&f, "priority", "0"), 0);
	assert_int_equal(set(&f, "ceiling", "16K"), 0);
	assert_int_equal(set(&f, "floor", "1K"), 0);
	act(&f, TARN_SCRUB_PAUSE, 0);

	/* Paused or not, it survives an import with all that was set. */
	fixture_remount(&f);
	assert_true(last_job(&f, &job));
	assert_int_equal(job.id, id);
	assert_int_equal(job.state, TARN_JOB_PAUSED);
	assert_int_equal(job.priority, 0);
	assert_int_equal(job.ceiling, 16384);
	assert_int_equal(job.floor, 1024);
	act(&f, TARN_SCRUB_START, 0);
	fixture_remount(&f);
	assert_true(last_job(&f, &job));
	assert_int_equal(job.id, id);
	assert_int_equal(job.state, TARN_JOB_RUNNING);
	act(&f, TARN_SCRUB_START, -EBUSY);
	before = job.done;
	assert_int_equal(set(&f, "ceiling", "0"), 0);
	job = wait_scrub(&f);
	assert_int_equal(job.state, TARN_JOB_DONE);
	assert_true(job.done >= before);
	assert_int_equal(job.done, job.total);

	/* Stopped, it ends; the next one begins anew, and one result is kept. */
	hold(&f);
	act(&f, TARN_SCRUB_STOP, 0);
	assert_true(last_job(&f, &job));
	assert_true(job.id > id);
	id = job.id;
	assert_int_equal(job.state, TARN_JOB_CANCELLED);
	assert_int_equal(scrub(&f).id, id + 1);
	fixture_remount(&f);
	assert_true(last_job(&f, &job));
	assert_int_equal(job.id, id + 1);
	assert_int_equal(job.state, TARN_JOB_DONE);
	read_files(&f);
	fixture_end(&f);
}

/* ---- while it is written ---- */

/* Files are replaced over and over, so that blocks are freed and their places used again under a
   scrub that never ends; not one is called bad. */
static void test_changes(void **state)
{
	struct tarn_create how = {.type = TARN_REG};
	struct tarn_inode *root, *inode;
	struct tarn_commit token;
	struct tarn_job job;
	struct fixture f;
	unsigned rounds = 60 * test_scale(), scrubs = 0;

	(void)state;
	fixture_begin_kind(&f, 4, DEV_BYTES, TARN_GROUP_RAIDZ1, NULL);
	write_files(&f);
	assert_int_equal(tarn_root(f.ds, &root), 0);
	for (unsigned r = 0; r < rounds; r++) {
		char name[16];

		if (!last_job(&f, &job) || tarn_job_ended(job.state)) {
			act(&f, TARN_SCRUB_START, 0);
			set(&f, "priority", "100"); /* unless it has ended */
			scrubs++;
		}
		snprintf(name, sizeof(name), "new%u", r % 5);
		content(r % FILES);
		if (r >= 5)
			assert_int_equal(tarn_unlink(NULL, root, name, 0, NULL, &token), 0);
		assert_int_equal(tarn_create(NULL, root, name, &how, &inode, NULL, NULL, &token),
				 0);
		assert_int_equal(fixture_write(inode, 0, data, FILE_MAX, r % 3 == 0), 0);
		tarn_inode_put(inode);
		if (r % 4 == 0)
			commit(&f);
	}
	tarn_inode_put(root);
	job = wait_scrub(&f);
	assert_int_equal(job.errors, 0);
	assert_int_equal(job.repaired, 0);
	assert_true(scrubs > 0);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(checksum_errors(&f, i), 0);
	fixture_remount(&f);
	read_files(&f);
	fixture_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_mirror),  cmocka_unit_test(test_raidz1),
	    cmocka_unit_test(test_raidz2),  cmocka_unit_test(test_lost),
	    cmocka_unit_test(test_control), cmocka_unit_test(test_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
