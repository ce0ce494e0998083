// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The intent log, seen from outside: what a pool's devices hold while its txg is still open. They
 * are copied as they are, the copies damaged or not, and imported.
 */
#include "pool_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "pool/ilog.h"

#define DEV_BYTES (96ull << 20)
#define FILES 20
#define BEGUN 1 /* record left by begin() */

static struct fixture f;
static struct tarn_inode *root;
static char copies[2][160];
static unsigned replayed, lost; /* as the import said */

static void heard(enum tarn_log_level level, const char *text)
{
	(void)level;
	if (strstr(text, "changes replayed"))
		sscanf(strchr(text, ':') + 1, "%u", &replayed);
	if (strstr(text, "are lost"))
		sscanf(strstr(text, "at least") + 8, "%u", &lost);
}

/* A pool whose log takes records and whose open txg stays open. */
static void begin(uint32_t ndevs, bool mirror)
{
	struct tarn_config config = {.arc_max = 16 << 20,
				     .dirty_max = 64 << 20,
				     .threads = 2,
				     .txg_seconds = 60,
				     .log = heard};
	struct tarn_setattr set = {.mask = TARN_SET_MODE, .mode = 0755};
	struct tarn_commit token = {0};

	fixture_begin(&f, ndevs, DEV_BYTES, mirror, &config);
	assert_int_equal(tarn_root(f.ds, &root), 0);
	do {
		assert_int_equal(tarn_setattr(NULL, root, &set, NULL, &token), 0);
		assert_int_equal(tarn_commit_wait(f.ds, token), 0);
	} while (!token.number);
	for (uint32_t i = 0; i < ndevs; i++)
		snprintf(copies[i], sizeof(copies[i]), "%s/copy%u", f.dir, i);
}

static void end(void)
{
	tarn_inode_put(root);
	for (uint32_t i = 0; i < f.ndevs; i++)
		unlink(copies[i]);
	fixture_end(&f);
}

static void copy_devices(void)
{
	char *buf = malloc(1 << 20);

	for (uint32_t i = 0; i < f.ndevs; i++) {
		int in = open(f.path[i], O_RDONLY | O_CLOEXEC);
		int out = open(copies[i], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		ssize_t n;

		assert_true(in >= 0 && out >= 0);
		while ((n = read(in, buf, 1 << 20)) > 0)
			assert_int_equal(write(out, buf, (size_t)n), n);
		assert_int_equal(n, 0);
		close(in);
		close(out);
	}
	free(buf);
}

/* The copies in an engine of their own. */
static struct tarn_engine *import(struct tarn_dataset **ds)
{
	const char *paths[] = {copies[0], copies[1]};
	struct tarn_import_spec spec = {.name = FIXTURE_POOL, .paths = paths, .npaths = f.ndevs};
	struct tarn_engine *engine;
	struct tarn_error err;

	replayed = lost = 0;
	assert_int_equal(tarn_engine_create(&f.config, &engine), 0);
	if (tarn_pool_import(engine, &spec, &err))
		fail_msg("%s", err.text);
	assert_int_equal(tarn_dataset_open(engine, FIXTURE_POOL, NULL, ds), 0);
	return engine;
}

static void print_finding(void *arg, const struct tarn_finding *finding)
{
	(void)arg;
	print_error("tarnck: %s\n", finding->text);
}

static void done(struct tarn_engine *engine, struct tarn_dataset *ds)
{
	const char *paths[] = {copies[0], copies[1]};
	struct tarn_check_spec spec = {
	    .name = FIXTURE_POOL, .paths = paths, .npaths = f.ndevs, .finding = print_finding};
	struct tarn_check_result result;
	struct tarn_error err;

	tarn_dataset_put(ds);
	assert_int_equal(tarn_pool_export(engine, FIXTURE_POOL, 0, &err), 0);
	tarn_engine_destroy(engine);
	assert_int_equal(tarn_check(&spec, &result, &err), 0);
	assert_int_equal(result.findings, 0);
}

/* ---- blocks of the log on a copy ---- */

/* Spoils those with numbers [first, last] of the live log; returns the greatest number there is. */
static uint64_t spoil(const char *path, uint64_t first, uint64_t last)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct ilog_block *b = malloc(ILOG_RECORD_MAX);
	uint64_t greatest = 0;

	assert_true(fd >= 0 && b);
	for (off_t at = 0; at < (off_t)DEV_BYTES; at += SECTOR_SIZE) {
		assert_int_equal(pread(fd, b, SECTOR_SIZE, at), SECTOR_SIZE);
		if (b->head.magic != ILOG_MAGIC)
			continue;
		if (b->seq > greatest)
			greatest = b->seq;
		if (b->seq < first || b->seq > last)
			continue;
		((uint8_t *)b)[sizeof(*b) + 9] ^= 1;
		assert_int_equal(pwrite(fd, b, SECTOR_SIZE, at), SECTOR_SIZE);
	}
	free(b);
	close(fd);
	return greatest;
}

static void make_file(struct tarn_inode *dir, unsigned number)
{
	struct tarn_create how = {.type = TARN_REG};
	struct tarn_commit token;
	struct tarn_inode *inode;
	char name[16];

	snprintf(name, sizeof(name), "file%u", number);
	assert_int_equal(tarn_create(NULL, dir, name, &how, &inode, NULL, NULL, &token), 0);
	assert_true(token.number > 0);
	assert_int_equal(tarn_commit_wait(tarn_inode_dataset(dir), token), 0);
	tarn_inode_put(inode);
}

static void make_files(void)
{
	for (unsigned i = 0; i < FILES; i++)
		make_file(root, i);
}

/* How many of the files there are: those made first. */
static unsigned count_files(struct tarn_dataset *ds)
{
	struct tarn_inode *top, *inode;
	unsigned n = 0;
	char name[16];

	assert_int_equal(tarn_root(ds, &top), 0);
	for (unsigned i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "file%u", i);
		if (tarn_lookup(NULL, top, name, &inode))
			continue;
		assert_int_equal(n, i);
		n++;
		tarn_inode_put(inode);
	}
	tarn_inode_put(top);
	return n;
}

/* ---- tests ---- */

static void what_was_acknowledged_comes_back(void **state)
{
	static uint8_t data[300000], seen[300000];
	struct tarn_create how = {.type = TARN_REG};
	struct tarn_setattr set = {.mask = TARN_SET_SIZE, .size = 200000};
	struct tarn_commit token;
	struct tarn_inode *inode, *top;
	struct tarn_engine *engine;
	struct tarn_dataset *ds;
	struct tarn_attr attr;
	size_t got;
	bool eof;

	(void)state;
	begin(2, false);
	make_files();
	memset(data, 7, sizeof(data));
	assert_int_equal(tarn_lookup(NULL, root, "file3", &inode), 0);
	assert_int_equal(fixture_write(inode, 0, data, sizeof(data), false), 0);
	assert_int_equal(fixture_fsync(inode), 0);
	assert_int_equal(tarn_setattr(NULL, inode, &set, NULL, &token), 0);
	assert_int_equal(tarn_xattr_set(NULL, inode, "name", "value", 5, TARN_XATTR_ANY, &token),
			 0);
	assert_int_equal(tarn_rename(NULL, root, "file3", root, "file5", NULL, NULL, &token), 0);
	assert_int_equal(tarn_unlink(NULL, root, "file4", 0, NULL, &token), 0);
	tarn_inode_put(inode);
	how.type = TARN_DIR;
	assert_int_equal(tarn_create(NULL, root, "dir", &how, &inode, NULL, NULL, &token), 0);
	tarn_inode_put(inode);
	assert_true(token.number > 0);
	assert_int_equal(tarn_commit_wait(f.ds, token), 0);
	copy_devices();

	engine = import(&ds);
	/* Twenty creates, a sync, a truncation, and five of those after it. */
	assert_int_equal(replayed, BEGUN + FILES + 6);
	assert_int_equal(lost, 0);
	assert_int_equal(tarn_root(ds, &top), 0);
	assert_int_equal(tarn_lookup(NULL, top, "file3", &inode), -ENOENT);
	assert_int_equal(tarn_lookup(NULL, top, "file4", &inode), -ENOENT);
	assert_int_equal(tarn_lookup(NULL, top, "file5", &inode), 0);
	assert_int_equal(tarn_getattr(inode, &attr), 0);
	assert_int_equal(attr.size, 200000);
	assert_int_equal(attr.nlink, 1);
	assert_int_equal(fixture_read(inode, 0, seen, sizeof(seen), &got, &eof), 0);
	assert_int_equal(got, 200000);
	assert_memory_equal(seen, data, got);
	got = sizeof(seen);
	assert_int_equal(tarn_xattr_get(inode, "name", seen, &got), 0);
	assert_int_equal(got, 5);
	tarn_inode_put(inode);
	assert_int_equal(tarn_getattr(top, &attr), 0);
	assert_int_equal(attr.size, FILES - 2 + 1 + 2);
	assert_int_equal(attr.nlink, 3);
	tarn_inode_put(top);
	done(engine, ds);
	end();
}

static uint64_t inodes_in_use(void)
{
	struct tarn_statfs fs;

	assert_int_equal(tarn_dataset_statfs(f.ds, &fs), 0);
	return fs.files - fs.ffree;
}

/* Removed while it was open, and taken away after that: its place in the list of such files goes
   with it when that is replayed. */
static void what_was_an_orphan_leaves_no_trace(void **state)
{
	struct tarn_commit token;
	struct tarn_inode *inode;
	struct tarn_engine *engine;
	struct tarn_dataset *ds;
	uint64_t before;

	(void)state;
	begin(2, false);
	make_files();
	before = inodes_in_use();
	assert_int_equal(tarn_lookup(NULL, root, "file19", &inode), 0);
	assert_int_equal(tarn_open(inode), 0);
	assert_int_equal(tarn_unlink(NULL, root, "file19", 0, NULL, &token), 0);
	tarn_close(inode);
	tarn_inode_put(inode);
	while (inodes_in_use() == before)
		sched_yield();
	assert_int_equal(tarn_unlink(NULL, root, "file18", 0, NULL, &token), 0);
	assert_int_equal(tarn_commit_wait(f.ds, token), 0);
	copy_devices();

	engine = import(&ds);
	assert_int_equal(replayed, BEGUN + FILES + 3);
	assert_int_equal(count_files(ds), FILES - 2);
	done(engine, ds);
	end();
}

static void heard_finding(void *arg, const struct tarn_finding *finding)
{
	(void)arg;
	assert_int_equal(finding->kind, TARN_FOUND_INTENT_LOG);
}

/* What tarnck says of the copies before anybody imports them. */
static struct tarn_check_result check(void)
{
	const char *paths[] = {copies[0], copies[1]};
	struct tarn_check_spec spec = {
	    .name = FIXTURE_POOL, .paths = paths, .npaths = f.ndevs, .finding = heard_finding};
	struct tarn_check_result result;
	struct tarn_error err;

	assert_int_equal(tarn_check(&spec, &result, &err), 0);
	return result;
}

static struct tarn_pool_status status_of(struct tarn_engine *engine)
{
	struct tarn_pool_status *s, copy;

	assert_int_equal(tarn_pool_status(engine, FIXTURE_POOL, &s), 0);
	copy = *s;
	tarn_pool_status_free(s);
	return copy;
}

/* It writes nothing and shows the last commit, but says what is missing from that. */
static void reading_tells_of_the_log(void **state)
{
	const char *paths[] = {copies[0]};
	struct tarn_import_spec spec = {
	    .name = FIXTURE_POOL, .paths = paths, .npaths = 1, .flags = TARN_READ_ONLY};
	struct tarn_engine *engine;
	struct tarn_dataset *ds;
	struct tarn_error err;

	(void)state;
	begin(1, false);
	make_files();
	copy_devices();
	assert_int_equal(check().unreplayed, BEGUN + FILES);
	assert_int_equal(check().findings, 0);
	assert_int_equal(tarn_engine_create(&f.config, &engine), 0);
	if (tarn_pool_import(engine, &spec, &err))
		fail_msg("%s", err.text);
	assert_int_equal(status_of(engine).unreplayed, BEGUN + FILES);
	assert_int_equal(tarn_dataset_open(engine, FIXTURE_POOL, NULL, &ds), 0);
	assert_int_equal(count_files(ds), 0);
	tarn_dataset_put(ds);
	tarn_engine_destroy(engine);
	engine = import(&ds);
	assert_int_equal(replayed, BEGUN + FILES);
	assert_int_equal(status_of(engine).unreplayed, 0);
	done(engine, ds);
	end();
}

static void set_sync(const char *value)
{
	struct tarn_prop prop = {"sync", value};
	struct tarn_error err;

	if (tarn_dataset_set(f.engine, FIXTURE_POOL, &prop, 1, &err))
		fail_msg("%s", err.text);
}

/* What the file has in a copy of the devices as they are; 0: there is none. */
static uint8_t first_byte(const char *name)
{
	struct tarn_inode *top, *inode;
	struct tarn_engine *engine;
	struct tarn_dataset *ds;
	uint8_t byte = 0;
	size_t got;
	bool eof;

	copy_devices();
	engine = import(&ds);
	assert_int_equal(lost, 0);
	assert_int_equal(tarn_root(ds, &top), 0);
	if (!tarn_lookup(NULL, top, name, &inode)) {
		assert_int_equal(fixture_read(inode, 0, &byte, 1, &got, &eof), 0);
		tarn_inode_put(inode);
	}
	tarn_inode_put(top);
	done(engine, ds);
	return byte;
}

/* Without a wait nothing of it is on the devices, and nobody waits. */
static void sync_disabled_waits_for_nothing(void **state)
{
	struct tarn_create how = {.type = TARN_REG};
	struct tarn_commit token;
	struct tarn_inode *inode;

	(void)state;
	begin(1, false);
	set_sync("disabled");
	assert_int_equal(tarn_create(NULL, root, "file", &how, &inode, NULL, NULL, &token), 0);
	assert_int_equal(tarn_commit_wait(f.ds, token), 0);
	assert_int_equal(fixture_write(inode, 0, "a", 1, true), 0);
	assert_int_equal(fixture_fsync(inode), 0);
	assert_int_equal(first_byte("file"), 0);
	/* What comes after, and is waited for, has it before it. */
	set_sync("standard");
	assert_int_equal(first_byte("file"), 'a');
	assert_int_equal(fixture_write(inode, 0, "b", 1, true), 0);
	assert_int_equal(first_byte("file"), 'b');
	tarn_inode_put(inode);
	end();
}

static void sync_always_makes_writes_durable(void **state)
{
	struct tarn_create how = {.type = TARN_REG};
	struct tarn_commit token;
	struct tarn_inode *inode;

	(void)state;
	begin(1, false);
	assert_int_equal(tarn_create(NULL, root, "file", &how, &inode, NULL, NULL, &token), 0);
	assert_int_equal(fixture_write(inode, 0, "a", 1, true), 0);
	assert_int_equal(fixture_write(inode, 0, "b", 1, false), 0);
	assert_int_equal(first_byte("file"), 'a');
	set_sync("always");
	assert_int_equal(fixture_write(inode, 0, "c", 1, false), 0);
	assert_int_equal(first_byte("file"), 'c');
	tarn_inode_put(inode);
	end();
}

static void a_replay_happens_once(void **state)
{
	struct tarn_engine *engine;
	struct tarn_dataset *ds;

	(void)state;
	begin(1, false);
	make_files();
	copy_devices();
	engine = import(&ds);
	assert_int_equal(replayed, BEGUN + FILES);
	done(engine, ds);
	engine = import(&ds);
	assert_int_equal(replayed, 0);
	assert_int_equal(count_files(ds), FILES);
	done(engine, ds);
	end();
}

static void one_good_copy_is_enough(void **state)
{
	struct tarn_engine *engine;
	struct tarn_dataset *ds;

	(void)state;
	begin(2, true);
	make_files();
	copy_devices();
	spoil(copies[0], 1, UINT64_MAX);
	engine = import(&ds);
	assert_int_equal(lost, 0);
	assert_int_equal(count_files(ds), FILES);
	done(engine, ds);
	end();
}

/* What the status says: total, and of which only dataset, if any, how many. */
static void check_lost(struct tarn_engine *engine, uint64_t total, const char *dataset, uint64_t in)
{
	struct tarn_lost *list;
	uint32_t n;

	assert_int_equal(status_of(engine).lost_changes, total);
	assert_int_equal(tarn_pool_lost(engine, FIXTURE_POOL, &list, &n), 0);
	assert_int_equal(n, dataset ? 1 : 0);
	if (dataset) {
		assert_string_equal(list[0].dataset, dataset);
		assert_int_equal(list[0].changes, in);
	}
	free(list);
}

static void damage_is_told_apart_from_the_end(void **state)
{
	struct tarn_engine *engine;
	struct tarn_dataset *ds;
	struct tarn_error err;
	uint64_t last;

	(void)state;
	begin(1, false);
	make_files();
	copy_devices();
	/* A block each: the tenth from the end is the one of file10. */
	last = spoil(copies[0], 0, 0);
	spoil(copies[0], last - 9, last - 9);
	assert_int_equal(check().unreplayed, BEGUN + FILES - 10);
	assert_int_equal(check().findings, 1);
	engine = import(&ds);
	/* Nothing says of the last one that it was answered. */
	assert_int_equal(lost, 9);
	assert_int_equal(count_files(ds), FILES - 10);
	check_lost(engine, 9, FIXTURE_POOL, 8);
	done(engine, ds);
	/* It is kept until somebody has seen it. */
	engine = import(&ds);
	check_lost(engine, 9, FIXTURE_POOL, 8);
	assert_int_equal(tarn_pool_clear(engine, FIXTURE_POOL, &err), 0);
	check_lost(engine, 0, NULL, 0);
	done(engine, ds);
	engine = import(&ds);
	assert_int_equal(status_of(engine).lost_changes, 0);
	done(engine, ds);

	/* A torn end is none. */
	copy_devices();
	spoil(copies[0], last, last);
	engine = import(&ds);
	assert_int_equal(lost, 0);
	assert_int_equal(count_files(ds), FILES - 1);
	done(engine, ds);
	end();
}

static void what_is_lost_is_told_by_dataset(void **state)
{
	struct tarn_engine *engine;
	struct tarn_dataset *ds;
	struct tarn_inode *child;
	struct tarn_error err;
	struct tarn_lost *list;
	uint64_t last;
	uint32_t n;

	(void)state;
	begin(1, false);
	assert_int_equal(tarn_dataset_create(f.engine, FIXTURE_POOL "/child", NULL, 0, false, &err),
			 0);
	assert_int_equal(tarn_dataset_open(f.engine, FIXTURE_POOL "/child", NULL, &ds), 0);
	assert_int_equal(tarn_root(ds, &child), 0);
	for (unsigned i = 0; i < 4; i++)
		make_file(root, i);
	for (unsigned i = 0; i < 3; i++)
		make_file(child, i);
	tarn_inode_put(child);
	tarn_dataset_put(ds);
	copy_devices();
	last = spoil(copies[0], 0, 0);
	/* file1 of the root: two more of that, and two of three of the child that are certain. */
	spoil(copies[0], last - 5, last - 5);
	engine = import(&ds);
	assert_int_equal(lost, 5);
	assert_int_equal(tarn_pool_lost(engine, FIXTURE_POOL, &list, &n), 0);
	assert_int_equal(n, 2);
	assert_string_equal(list[0].dataset, FIXTURE_POOL);
	assert_int_equal(list[0].changes, 2);
	assert_string_equal(list[1].dataset, FIXTURE_POOL "/child");
	assert_int_equal(list[1].changes, 2);
	free(list);
	done(engine, ds);
	end();
}

static void what_is_not_logged_is_waited_for(void **state)
{
	struct tarn_setattr size = {.mask = TARN_SET_SIZE, .size = 64 << 20};
	struct tarn_commit token;
	struct tarn_engine *engine;
	struct tarn_dataset *ds;
	struct tarn_inode *inode;
	static uint8_t data[300000], seen[300000];
	size_t got;
	bool eof;

	(void)state;
	begin(1, false);
	make_files();
	assert_int_equal(tarn_lookup(NULL, root, "file0", &inode), 0);
	memset(data, 3, sizeof(data));
	assert_int_equal(fixture_write(inode, 0, data, sizeof(data), true), 0);
	/* A hole that is made in steps. */
	assert_int_equal(tarn_setattr(NULL, inode, &size, NULL, &token), 0);
	assert_int_equal(tarn_punch(NULL, inode, 131072, 40 << 20, &token), 0);
	assert_int_equal(token.number, 0);
	assert_int_equal(tarn_unlink(NULL, root, "file1", 0, NULL, &token), 0);
	assert_int_equal(token.number, 0); /* the log is broken */
	assert_int_equal(tarn_commit_wait(f.ds, token), 0);
	assert_int_equal(tarn_unlink(NULL, root, "file2", 0, NULL, &token), 0);
	assert_true(token.number > 0);
	assert_int_equal(tarn_commit_wait(f.ds, token), 0);
	copy_devices();
	engine = import(&ds);
	assert_int_equal(replayed, 1);
	tarn_inode_put(inode);
	tarn_inode_put(root);
	assert_int_equal(tarn_root(ds, &root), 0);
	assert_int_equal(tarn_lookup(NULL, root, "file1", &inode), -ENOENT);
	assert_int_equal(tarn_lookup(NULL, root, "file2", &inode), -ENOENT);
	assert_int_equal(tarn_lookup(NULL, root, "file0", &inode), 0);
	assert_int_equal(fixture_read(inode, 0, seen, sizeof(seen), &got, &eof), 0);
	memset(data + 131072, 0, sizeof(data) - 131072);
	assert_memory_equal(seen, data, sizeof(data));
	tarn_inode_put(inode);
	tarn_inode_put(root);
	done(engine, ds);
	assert_int_equal(tarn_root(f.ds, &root), 0);
	end();
}

static void blocks_are_checked(void **state)
{
	struct ilog_block *b = calloc(1, 2 * SECTOR_SIZE);
	const uint32_t len = 5;
	uint32_t at = 0, got;

	(void)state;
	*b = (struct ilog_block){.pool_guid = 1, .log_id = 2, .seq = 3, .first = 4, .nrecords = 1};
	memcpy(b + 1, &len, sizeof(len));
	memcpy((char *)(b + 1) + sizeof(len), "hello", len);
	disk_seal(&b->head, ILOG_MAGIC, sizeof(*b) + sizeof(len) + len);
	assert_true(ilog_block_valid(b, SECTOR_SIZE, 1));
	assert_false(ilog_block_valid(b, SECTOR_SIZE, 2));
	assert_false(ilog_block_valid(b, sizeof(*b), 1));
	assert_memory_equal(ilog_block_next(b, &at, &got), "hello", 5);
	assert_int_equal(got, 5);
	assert_null(ilog_block_next(b, &at, &got));
	b->nrecords = 2;
	disk_seal(&b->head, ILOG_MAGIC, sizeof(*b) + sizeof(len) + len);
	assert_false(ilog_block_valid(b, SECTOR_SIZE, 1));
	b->nrecords = 1;
	b->durable = 3;
	disk_seal(&b->head, ILOG_MAGIC, sizeof(*b) + sizeof(len) + len);
	assert_false(ilog_block_valid(b, SECTOR_SIZE, 1));
	free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_was_acknowledged_comes_back),
	    cmocka_unit_test(what_was_an_orphan_leaves_no_trace),
	    cmocka_unit_test(sync_disabled_waits_for_nothing),
	    cmocka_unit_test(sync_always_makes_writes_durable),
	    cmocka_unit_test(reading_tells_of_the_log),
	    cmocka_unit_test(a_replay_happens_once),
	    cmocka_unit_test(one_good_copy_is_enough),
	    cmocka_unit_test(damage_is_told_apart_from_the_end),
	    cmocka_unit_test(what_is_lost_is_told_by_dataset),
	    cmocka_unit_test(what_is_not_logged_is_waited_for),
	    cmocka_unit_test(blocks_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
