// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Log devices, seen from outside: made, added, removed and lost under a pool on simulated devices,
 * which is imported as a power cut leaves it, with them and without.
 */
#include "pool_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "dev/sim.h"
#include "pool/ilog.h"
#include "pool/label.h"

#define POOL "tank"
#define DEVS 5
#define DATA 2 /* the first ones */
#define DEV_BYTES (64ull << 20)

static struct {
	char dir[64];
	char path[DEVS][96];
	const char *paths[DEVS];
	struct sim *media[DEVS];
	struct tarn_engine *engine;
	struct tarn_dataset *ds;
	struct tarn_inode *root;
	unsigned files;                  /* made so far */
	unsigned replayed, lost, faults; /* as messages said */
	bool dropped;
} t;

int __real_dev_open(const char *path, int flags, struct dev **out);
int __wrap_dev_open(const char *path, int flags, struct dev **out);

int __wrap_dev_open(const char *path, int flags, struct dev **out)
{
	for (unsigned i = 0; i < DEVS; i++) {
		if (strcmp(path, t.path[i]) == 0)
			return t.media[i] ? sim_open(t.media[i], flags, out) : -ENXIO;
	}
	return __real_dev_open(path, flags, out);
}

static void heard(enum tarn_log_level level, const char *text)
{
	(void)level;
	if (strstr(text, "changes replayed"))
		sscanf(strchr(text, ':') + 1, "%u", &t.replayed);
	if (strstr(text, "are lost"))
		sscanf(strstr(text, "at least") + 8, "%u", &t.lost);
	t.faults += strstr(text, "taken out of use") != NULL;
	t.dropped |= strstr(text, "imported without its log device") != NULL;
}

/* ---- the pool ---- */

static void engine_end(void)
{
	tarn_engine_destroy(t.engine);
	t.engine = NULL;
}

static void engine_start(void)
{
	struct tarn_config config = {.arc_max = 16 << 20,
				     .dirty_max = 64 << 20,
				     .threads = 2,
				     .txg_seconds = 3600,
				     .log = heard};

	t.replayed = t.lost = t.faults = 0;
	t.dropped = false;
	assert_int_equal(tarn_engine_create(&config, &t.engine), 0);
}

static void open_root(void)
{
	assert_int_equal(tarn_dataset_open(t.engine, POOL, NULL, &t.ds), 0);
	assert_int_equal(tarn_root(t.ds, &t.root), 0);
}

static struct tarn_group_spec log_group(unsigned first, unsigned n)
{
	return (struct tarn_group_spec){n > 1 ? TARN_GROUP_MIRROR : TARN_GROUP_SINGLE, n,
					&t.paths[first], TARN_CLASS_LOG};
}

static int setup(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	strcpy(t.dir, "/var/tmp/tarn-test-XXXXXX");
	assert_non_null(mkdtemp(t.dir));
	for (unsigned i = 0; i < DEVS; i++) {
		int fd;

		snprintf(t.path[i], sizeof(t.path[i]), "%s/disk%u", t.dir, i);
		t.paths[i] = t.path[i];
		fd = open(t.path[i], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		assert_int_equal(ftruncate(fd, (off_t)DEV_BYTES), 0);
		close(fd);
		t.media[i] = sim_create(t.path[i], DEV_BYTES, SECTOR_SIZE);
	}
	return 0;
}

/* A mirror with these groups of log devices behind it. */
static void begin(const struct tarn_group_spec *logs, unsigned n)
{
	struct tarn_group_spec groups[4] = {{TARN_GROUP_MIRROR, DATA, t.paths, TARN_CLASS_DATA}};
	struct tarn_error err = {0};

	for (unsigned i = 0; i < n; i++)
		groups[i + 1] = logs[i];
	engine_start();
	if (tarn_pool_create(t.engine, POOL, groups, n + 1, NULL, 0, 0, &err))
		fail_msg("%s", err.text);
	open_root();
}

static int teardown(void **state)
{
	(void)state;
	for (unsigned i = 0; i < DEVS; i++) {
		unlink(t.path[i]);
		if (t.media[i] && !t.engine) /* else the test has failed */
			sim_destroy(t.media[i]);
	}
	rmdir(t.dir);
	return 0;
}

static void put(void)
{
	tarn_inode_put(t.root);
	tarn_dataset_put(t.ds);
}

static void note_finding(void *arg, const struct tarn_finding *finding)
{
	*(unsigned *)arg |= 1u << finding->kind;
	print_message("tarnck: %s\n", finding->text);
}

#define KIND(name) (1u << TARN_FOUND_##name)

/* Their kinds. */
static unsigned findings(void)
{
	unsigned kinds = 0;
	struct tarn_check_spec spec = {.name = POOL,
				       .paths = t.paths,
				       .npaths = DEVS,
				       .uberblocks = 3,
				       .finding = note_finding,
				       .arg = &kinds};
	struct tarn_check_result result;
	struct tarn_error err = {0};

	if (tarn_check(&spec, &result, &err))
		fail_msg("tarnck: %s", err.text);
	assert_int_equal(result.findings > 0, kinds != 0);
	return kinds;
}

static void export(void)
{
	struct tarn_error err = {0};

	put();
	if (tarn_pool_export(t.engine, POOL, 0, &err))
		fail_msg("%s", err.text);
	engine_end();
}

static int import(int flags, struct tarn_error *err)
{
	struct tarn_import_spec spec = {
	    .name = POOL, .paths = t.paths, .npaths = DEVS, .flags = flags};
	int rc;

	engine_start();
	rc = tarn_pool_import(t.engine, &spec, err);
	if (rc)
		engine_end();
	else if (!(flags & TARN_DRY_RUN))
		open_root();
	return rc;
}

static void must_import(int flags)
{
	struct tarn_error err = {0};

	if (import(flags, &err))
		fail_msg("%s", err.text);
}

/* The devices are those that a power cut leaves. */
static void cut(enum sim_cut how)
{
	struct sim *left[DEVS];

	for (unsigned i = 0; i < DEVS; i++)
		left[i] = t.media[i] ? sim_cut(t.media[i], how, 1, 0) : NULL;
	for (unsigned i = 0; i < DEVS; i++) {
		if (t.media[i])
			sim_gone(t.media[i], true);
	}
	put();
	engine_end();
	for (unsigned i = 0; i < DEVS; i++) {
		if (t.media[i])
			sim_destroy(t.media[i]);
		t.media[i] = left[i];
	}
}

static struct sim *take_away(unsigned i)
{
	struct sim *medium = t.media[i];

	t.media[i] = NULL;
	return medium;
}

/* ---- what is done to it ---- */

/* One more file; whether the log took it. */
static bool make_file(void)
{
	struct tarn_create how = {.type = TARN_REG};
	struct tarn_commit token;
	struct tarn_inode *inode;
	char name[16];

	snprintf(name, sizeof(name), "file%u", t.files++);
	assert_int_equal(tarn_create(NULL, t.root, name, &how, &inode, NULL, NULL, &token), 0);
	tarn_inode_put(inode);
	assert_int_equal(tarn_commit_wait(t.ds, token), 0);
	return token.number != 0;
}

/* In the log, whose txg stays open. */
static void make_files(unsigned n)
{
	while (!make_file())
		continue;
	for (unsigned i = 1; i < n; i++)
		assert_true(make_file());
}

static unsigned count_files(void)
{
	struct tarn_inode *inode;
	unsigned n = 0;
	char name[16];

	for (unsigned i = 0; i < t.files; i++) {
		snprintf(name, sizeof(name), "file%u", i);
		if (tarn_lookup(NULL, t.root, name, &inode))
			continue;
		tarn_inode_put(inode);
		n++;
	}
	return n;
}

/* Blocks of the newest log on a device. */
static unsigned log_blocks(unsigned i, uint64_t *id)
{
	struct ilog_block b[SECTOR_SIZE / sizeof(struct ilog_block)];
	unsigned n = 0;

	*id = 0;
	for (uint64_t at = 0; t.media[i] && at < DEV_BYTES; at += SECTOR_SIZE) {
		sim_peek(t.media[i], at, b, sizeof(b));
		if (b->head.magic != ILOG_MAGIC || b->log_id < *id)
			continue;
		n = b->log_id > *id ? 1 : n + 1;
		*id = b->log_id;
	}
	return n;
}

static uint64_t newest_on(unsigned i)
{
	uint64_t id;

	log_blocks(i, &id);
	return id;
}

/* Spoils those of the newest log with these numbers; the greatest there is. */
static uint64_t spoil(unsigned i, uint64_t first, uint64_t last)
{
	struct ilog_block b[SECTOR_SIZE / sizeof(struct ilog_block)];
	uint64_t id = newest_on(i), greatest = 0;

	for (uint64_t at = 0; at < DEV_BYTES; at += SECTOR_SIZE) {
		sim_peek(t.media[i], at, b, sizeof(b));
		if (b->head.magic != ILOG_MAGIC || b->log_id != id)
			continue;
		if (b->seq > greatest)
			greatest = b->seq;
		if (b->seq >= first && b->seq <= last)
			sim_flip(t.media[i], at + sizeof(*b) + 9, 1);
	}
	return greatest;
}

static struct tarn_pool_status *status(void)
{
	struct tarn_pool_status *s;

	assert_int_equal(tarn_pool_status(t.engine, POOL, &s), 0);
	return s;
}

static bool dropped(void)
{
	struct tarn_pool_status *s = status();
	bool yes = s->log_dropped;

	tarn_pool_status_free(s);
	return yes;
}

static void expect_states(enum tarn_dev_state pool, enum tarn_dev_state first_log)
{
	struct tarn_pool_status *s = status();

	assert_int_equal(s->state, pool);
	assert_int_equal(s->devs[s->logs[0].first_dev].state, first_log);
	tarn_pool_status_free(s);
}

static void add(struct tarn_group_spec log)
{
	struct tarn_error err = {0};

	if (tarn_pool_add(t.engine, POOL, &log, 1, 0, &err))
		fail_msg("%s", err.text);
}

/* ---- tests ---- */

static void the_log_lies_on_its_device(void **state)
{
	struct tarn_group_spec log = log_group(2, 1);
	struct tarn_pool_status *s;

	(void)state;
	begin(&log, 1);
	make_files(20);
	assert_true(newest_on(2) > 0);
	assert_int_equal(newest_on(0), 0);
	s = status();
	assert_int_equal(s->ngroups, 1);
	assert_int_equal(s->nlogs, 1);
	assert_int_equal(s->ndevs, 3);
	assert_int_equal(s->logs[0].kind, TARN_GROUP_SINGLE);
	assert_int_equal(s->logs[0].first_dev, 2);
	assert_int_equal(s->logs[0].size, DEV_BYTES - (2 << 20));
	assert_string_equal(s->devs[2].path, t.path[2]);
	assert_int_equal(s->state, TARN_DEV_ONLINE);
	tarn_pool_status_free(s);
	cut(SIM_CUT_NONE);
	must_import(0);
	assert_true(t.replayed >= 20);
	assert_int_equal(t.lost, 0);
	assert_int_equal(count_files(), t.files);
	export();
	assert_int_equal(findings(), 0);
}

static void copies_are_the_same(void **state)
{
	struct tarn_group_spec log = log_group(2, 2);
	uint64_t ids[2];

	(void)state;
	begin(&log, 1);
	make_files(20);
	assert_int_equal(log_blocks(2, &ids[0]), log_blocks(3, &ids[1]));
	assert_int_equal(ids[0], ids[1]);
	export();
	assert_int_equal(findings(), 0);
}

static void groups_take_turns(void **state)
{
	static uint8_t data[600000];
	struct tarn_group_spec logs[] = {log_group(2, 1), log_group(3, 2)};
	struct tarn_inode *inode;
	uint64_t id;

	(void)state;
	begin(logs, 2);
	make_files(1);
	assert_int_equal(tarn_lookup(NULL, t.root, "file0", &inode), 0);
	for (unsigned i = 0; i < 8; i++) {
		memset(data, (int)i, sizeof(data));
		assert_int_equal(fixture_write(inode, i * sizeof(data), data, sizeof(data), true),
				 0);
	}
	tarn_inode_put(inode);
	assert_true(log_blocks(2, &id) > 0);
	assert_true(log_blocks(3, &id) > 0);
	assert_int_equal(log_blocks(4, &id), log_blocks(3, &id));
	cut(SIM_CUT_NONE);
	sim_destroy(take_away(3));
	must_import(0);
	assert_int_equal(count_files(), t.files);
	assert_int_equal(tarn_lookup(NULL, t.root, "file0", &inode), 0);
	for (unsigned i = 0; i < 8; i++) {
		static uint8_t seen[sizeof(data)];
		size_t got;
		bool eof;

		memset(data, (int)i, sizeof(data));
		assert_int_equal(
		    fixture_read(inode, i * sizeof(data), seen, sizeof(seen), &got, &eof), 0);
		assert_memory_equal(seen, data, sizeof(data));
	}
	tarn_inode_put(inode);
	export();
}

static void a_live_pool_gets_and_loses_one(void **state)
{
	struct tarn_error err = {0};
	struct tarn_pool_status *s;
	uint64_t id;

	(void)state;
	begin(NULL, 0);
	make_files(5);
	assert_int_equal(newest_on(2), 0);
	add(log_group(2, 1));
	make_files(5);
	assert_true(newest_on(2) > newest_on(0));
	assert_int_equal(tarn_pool_remove(t.engine, POOL, t.path[0], 0, &err), -ENOENT);
	assert_int_equal(tarn_pool_remove(t.engine, POOL, t.path[2], TARN_DRY_RUN, &err), 0);
	id = newest_on(2);
	assert_int_equal(tarn_pool_remove(t.engine, POOL, t.path[2], 0, &err), 0);
	s = status();
	assert_int_equal(s->nlogs, 0);
	assert_int_equal(s->ndevs, DATA);
	tarn_pool_status_free(s);
	make_files(5);
	assert_int_equal(newest_on(2), id);
	assert_true(newest_on(0) > id);
	sim_destroy(take_away(2));
	cut(SIM_CUT_NONE);
	must_import(0);
	assert_int_equal(count_files(), t.files);
	export();
	assert_int_equal(findings(), 0);
}

static void a_mirror_is_removed_as_a_whole(void **state)
{
	struct tarn_group_spec logs[] = {log_group(2, 1), log_group(3, 2)};
	struct tarn_error err = {0};
	struct tarn_pool_status *s;

	(void)state;
	begin(logs, 2);
	make_files(5);
	assert_int_equal(tarn_pool_remove(t.engine, POOL, t.path[3], 0, &err), -EINVAL);
	assert_non_null(strstr(err.text, "mirror-2"));
	assert_int_equal(tarn_pool_remove(t.engine, POOL, "mirror-0", 0, &err), -ENOENT);
	assert_int_equal(tarn_pool_remove(t.engine, POOL, "mirror-2", 0, &err), 0);
	s = status();
	assert_int_equal(s->nlogs, 1);
	assert_string_equal(s->devs[s->logs[0].first_dev].path, t.path[2]);
	tarn_pool_status_free(s);
	make_files(5);
	add(log_group(3, 2)); /* again, without force: nothing of the pool is left there */
	make_files(5);
	assert_true(newest_on(4) == newest_on(3));
	cut(SIM_CUT_NONE);
	must_import(0);
	assert_int_equal(count_files(), t.files);
	export();
	assert_int_equal(findings(), 0);
}

static void a_pool_goes_on_without_its_log_device(void **state)
{
	struct tarn_group_spec log = log_group(2, 1);
	struct tarn_error err = {0};
	uint64_t id;

	(void)state;
	begin(&log, 1);
	make_files(5);
	id = newest_on(2);
	sim_fail(t.media[2], DEV_WRITE, 0, DEV_BYTES, -EIO, 0);
	make_file();
	assert_int_equal(t.faults, 1);
	expect_states(TARN_DEV_DEGRADED, TARN_DEV_FAULTED);
	make_files(5);
	assert_true(newest_on(0) > id);
	cut(SIM_CUT_NONE);
	sim_destroy(take_away(2));
	must_import(0);
	assert_false(t.dropped);
	assert_int_equal(count_files(), t.files);
	expect_states(TARN_DEV_DEGRADED, TARN_DEV_MISSING);
	make_files(5);
	assert_int_equal(tarn_pool_remove(t.engine, POOL, t.path[2], 0, &err), 0);
	export();
	assert_int_equal(findings(), 0);
}

static void a_device_comes_back(void **state)
{
	struct tarn_group_spec log = log_group(2, 1);
	struct tarn_error err = {0};
	uint64_t id;

	(void)state;
	begin(&log, 1);
	make_files(5);
	sim_fail(t.media[2], DEV_WRITE, 0, DEV_BYTES, -EIO, 0);
	make_file();
	make_files(5);
	assert_int_equal(tarn_pool_clear(t.engine, POOL, &err), -ENXIO);
	sim_fail(t.media[2], DEV_WRITE, 0, 0, 0, 0);
	id = newest_on(2);
	assert_int_equal(tarn_pool_clear(t.engine, POOL, &err), 0);
	expect_states(TARN_DEV_ONLINE, TARN_DEV_ONLINE);
	make_files(5);
	assert_true(newest_on(2) > id);
	cut(SIM_CUT_NONE);
	must_import(0);
	assert_int_equal(count_files(), t.files);
	export();
	assert_int_equal(findings(), 0);
}

static void the_healthy_half_goes_on(void **state)
{
	struct tarn_group_spec log = log_group(2, 2);
	struct tarn_error err = {0};

	(void)state;
	begin(&log, 1);
	make_files(5);
	sim_fail(t.media[2], DEV_WRITE, 0, DEV_BYTES, -EIO, 0);
	make_file();
	make_files(5);
	assert_int_equal(t.faults, 1);
	expect_states(TARN_DEV_DEGRADED, TARN_DEV_FAULTED);
	assert_true(newest_on(3) > newest_on(2));
	assert_true(newest_on(3) > newest_on(0));
	cut(SIM_CUT_NONE);
	/* What the half that failed holds is old, and does not pass for the log. */
	sim_destroy(take_away(3));
	assert_int_equal(import(0, &err), -ENODEV);
	assert_non_null(strstr(err.text, t.path[3]));
}

static void a_log_device_that_is_needed_must_be_there(void **state)
{
	struct tarn_group_spec log = log_group(2, 1);
	struct tarn_error err = {0};
	struct sim *away;
	unsigned committed;

	(void)state;
	begin(&log, 1);
	make_files(5);
	committed = t.files - 5;
	cut(SIM_CUT_NONE);
	away = take_away(2);
	assert_int_equal(import(0, &err), -ENODEV);
	assert_non_null(strstr(err.text, "log device"));
	assert_non_null(strstr(err.text, t.path[2]));
	assert_non_null(strstr(err.text, "-m"));
	assert_int_equal(import(TARN_DRY_RUN, &err), -ENODEV);
	assert_int_equal(import(TARN_DRY_RUN | TARN_DROP_LOG, &err), 0);
	engine_end();
	/* Which reads the last commit only. */
	must_import(TARN_READ_ONLY);
	assert_int_equal(count_files(), committed);
	export();
	/* None of that has changed anything. */
	t.media[2] = away;
	must_import(0);
	assert_int_equal(count_files(), t.files);
	make_files(5);
	committed = t.files - 5;
	cut(SIM_CUT_NONE);
	sim_destroy(take_away(2));
	must_import(TARN_DROP_LOG);
	assert_true(t.dropped);
	assert_true(dropped());
	assert_int_equal(tarn_pool_clear(t.engine, POOL, &err), 0);
	assert_false(dropped());
	assert_int_equal(count_files(), committed);
	expect_states(TARN_DEV_DEGRADED, TARN_DEV_MISSING);
	committed -= t.files;
	make_files(5);
	committed += t.files;
	cut(SIM_CUT_NONE);
	must_import(0);
	assert_int_equal(count_files(), committed);
	export();
}

static void after_an_export_it_is_not_needed(void **state)
{
	struct tarn_group_spec log = log_group(2, 1);

	(void)state;
	begin(&log, 1);
	make_files(5);
	export();
	sim_destroy(take_away(2));
	must_import(0);
	assert_false(t.dropped);
	assert_int_equal(count_files(), t.files);
	expect_states(TARN_DEV_DEGRADED, TARN_DEV_MISSING);
	make_files(5);
	export();
}

static void a_damaged_copy_is_mended(void **state)
{
	struct tarn_group_spec log = log_group(2, 2);
	struct tarn_pool_status *s;
	uint64_t last;

	(void)state;
	begin(&log, 1);
	make_files(20);
	last = spoil(2, 0, 0);
	spoil(2, last - 9, last - 5);
	spoil(3, last - 4, last - 2);
	cut(SIM_CUT_NONE);
	must_import(0);
	assert_int_equal(t.lost, 0);
	assert_int_equal(count_files(), t.files);
	s = status();
	assert_int_equal(s->state, TARN_DEV_ONLINE);
	assert_true(s->devs[2].checksum_errors > 0);
	assert_true(s->devs[3].checksum_errors > 0);
	tarn_pool_status_free(s);
	export();
}

static void damage_of_all_copies_is_told(void **state)
{
	struct tarn_group_spec log = log_group(2, 2);
	uint64_t last;

	(void)state;
	begin(&log, 1);
	make_files(20);
	last = spoil(2, 0, 0);
	spoil(2, last - 9, last - 9);
	spoil(3, last - 9, last - 9);
	cut(SIM_CUT_NONE);
	must_import(0);
	assert_true(t.lost > 0);
	assert_int_equal(count_files(), t.files - 10);
	export();
}

static void reseal_newest_uberblock(struct sim *medium)
{
	struct uberblock *ring = dev_buf_alloc(UBER_SLOTS * sizeof(*ring));
	uint64_t areas[] = {UBER_OFFSET, DEV_BYTES - LABEL_AREA + UBER_OFFSET};

	for (unsigned a = 0; a < 2; a++) {
		unsigned newest = 0;

		sim_peek(medium, areas[a], ring, UBER_SLOTS * sizeof(*ring));
		for (unsigned i = 1; i < UBER_SLOTS; i++) {
			if (ring[i].txg > ring[newest].txg)
				newest = i;
		}
		ring[newest].log_devs[0] ^= 1;
		disk_seal(&ring[newest].head, UBER_MAGIC, sizeof(*ring));
		sim_poke(medium, areas[a] + newest * sizeof(*ring), &ring[newest], sizeof(*ring));
	}
	free(ring);
}

static void tarnck_looks_at_log_devices(void **state)
{
	struct tarn_group_spec log = log_group(2, 2);
	struct sim *away;

	(void)state;
	begin(&log, 1);
	make_files(5);
	export();
	assert_int_equal(findings(), 0);
	sim_flip(t.media[2], LABEL_OFFSET + 100, 1);
	assert_int_equal(findings(), KIND(LABEL));
	sim_flip(t.media[2], LABEL_OFFSET + 100, 1);
	sim_flip(t.media[3], DEV_BYTES - LABEL_AREA + LABEL_OFFSET + 40000, 1);
	assert_int_equal(findings(), KIND(LABEL));
	sim_flip(t.media[3], DEV_BYTES - LABEL_AREA + LABEL_OFFSET + 40000, 1);
	away = take_away(3);
	assert_int_equal(findings(), KIND(DEVICE));
	must_import(0);
	export();
	t.media[3] = away;
	assert_int_equal(findings(), KIND(DEVICE));
	must_import(0);
	export();
	assert_int_equal(findings(), 0);
	for (unsigned i = 0; i < DATA; i++)
		reseal_newest_uberblock(t.media[i]);
	assert_int_equal(findings(), KIND(UBERBLOCK));
}

#define WORKERS 4

struct worker {
	pthread_t thread;
	unsigned number;
	atomic_bool stop;
	atomic_uint made; /* acknowledged */
};

static void worker_file(const struct worker *w, unsigned i, char name[32])
{
	snprintf(name, 32, "worker%u.%u", w->number, i);
}

static void *work(void *arg)
{
	struct tarn_create how = {.type = TARN_REG};
	struct worker *w = arg;
	struct tarn_commit token;
	struct tarn_inode *inode;
	char name[32];

	while (!atomic_load(&w->stop)) {
		worker_file(w, w->made, name);
		if (tarn_create(NULL, t.root, name, &how, &inode, NULL, NULL, &token))
			break;
		tarn_inode_put(inode);
		if (tarn_commit_wait(t.ds, token))
			break;
		atomic_fetch_add(&w->made, 1);
	}
	return NULL;
}

/* All have gone on. */
static void await_work(struct worker *workers, unsigned more)
{
	for (unsigned i = 0; i < WORKERS; i++) {
		unsigned until = atomic_load(&workers[i].made) + more;

		while (atomic_load(&workers[i].made) < until)
			sched_yield();
	}
}

static void change_logs(struct worker *workers)
{
	struct tarn_error err = {0};

	add(log_group(2, 2));
	await_work(workers, 5);
	sim_fail(t.media[3], DEV_WRITE, 0, DEV_BYTES, -EIO, 0);
	await_work(workers, 5);
	tarn_pool_status_free(status());
	sim_fail(t.media[3], DEV_WRITE, 0, 0, 0, 0);
	assert_int_equal(tarn_pool_clear(t.engine, POOL, &err), 0);
	add(log_group(4, 1));
	await_work(workers, 5);
	assert_int_equal(tarn_pool_remove(t.engine, POOL, "mirror-1", 0, &err), 0);
	await_work(workers, 5);
	assert_int_equal(tarn_pool_remove(t.engine, POOL, t.path[4], 0, &err), 0);
	await_work(workers, 5);
}

static void work_goes_on_meanwhile(void **state)
{
	struct worker workers[WORKERS] = {0};
	struct tarn_inode *inode;
	char name[32];

	(void)state;
	begin(NULL, 0);
	for (unsigned i = 0; i < WORKERS; i++) {
		workers[i].number = i;
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < 3; i++)
		change_logs(workers);
	add(log_group(2, 2));
	await_work(workers, 5);
	for (unsigned i = 0; i < WORKERS; i++)
		atomic_store(&workers[i].stop, true);
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_join(workers[i].thread, NULL);
	cut(SIM_CUT_NONE);
	sim_destroy(take_away(2));
	must_import(0);
	for (unsigned i = 0; i < WORKERS; i++) {
		for (unsigned k = 0; k < workers[i].made; k++) {
			worker_file(&workers[i], k, name);
			assert_int_equal(tarn_lookup(NULL, t.root, name, &inode), 0);
			tarn_inode_put(inode);
		}
	}
	export();
}

static void *make_one(void *arg)
{
	*(bool *)arg = make_file();
	return NULL;
}

static void a_log_device_that_hangs_is_not_waited_for(void **state)
{
	struct tarn_group_spec log = log_group(2, 1);
	struct tarn_error err = {0};
	pthread_t thread;
	bool logged;

	(void)state;
	begin(&log, 1);
	make_files(5);
	sim_hold(t.media[2], true);
	assert_int_equal(pthread_create(&thread, NULL, make_one, &logged), 0);
	/* A commit, as there is one every few seconds, answers as well. */
	while (pthread_tryjoin_np(thread, NULL))
		assert_int_equal(tarn_pool_prop_set(t.engine, POOL, "comment", "x", &err), 0);
	tarn_pool_status_free(status());
	sim_hold(t.media[2], false);
	make_files(5);
	cut(SIM_CUT_NONE);
	must_import(0);
	assert_int_equal(t.lost, 0);
	assert_int_equal(count_files(), t.files);
	export();
	assert_int_equal(findings(), 0);
}

static void what_is_no_log_is_refused(void **state)
{
	struct tarn_group_spec log = log_group(2, 1);
	struct tarn_error err = {0};

	(void)state;
	engine_start();
	assert_int_equal(tarn_pool_create(t.engine, POOL, &log, 1, NULL, 0, 0, &err), -EINVAL);
	assert_non_null(strstr(err.text, "no devices for data"));
	engine_end();
	begin(&log, 1);
	assert_int_equal(tarn_pool_add(t.engine, POOL, &log, 1, 0, &err), -EBUSY);
	export();
	assert_int_equal(findings(), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(the_log_lies_on_its_device),
	    TEST(copies_are_the_same),
	    TEST(groups_take_turns),
	    TEST(a_live_pool_gets_and_loses_one),
	    TEST(a_mirror_is_removed_as_a_whole),
	    TEST(a_pool_goes_on_without_its_log_device),
	    TEST(a_device_comes_back),
	    TEST(the_healthy_half_goes_on),
	    TEST(a_log_device_that_is_needed_must_be_there),
	    TEST(after_an_export_it_is_not_needed),
	    TEST(a_damaged_copy_is_mended),
	    TEST(damage_of_all_copies_is_told),
	    TEST(tarnck_looks_at_log_devices),
	    TEST(work_goes_on_meanwhile),
	    TEST(a_log_device_that_hangs_is_not_waited_for),
	    TEST(what_is_no_log_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
