// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Devices taken offline, missing, and coming back: what they missed is brought up to date, so that
 * as many others as the redundancy allows can go in their turn, while files are written and
 * removed. A device that goes again in the middle of it; refusals; states that imports keep.
 */
#include "pool_fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/job.h>
#include <unistd.h>

#include <cmocka.h>

#define DEV_BYTES (96ull << 20)
#define FILES 40
#define FILE_MAX 400000

struct rig {
	struct fixture f;
	uint64_t random;
	uint32_t sizes[FILES]; /* 0: there is none */
	uint64_t seeds[FILES];
};

static uint8_t data[FILE_MAX + 8], back[FILE_MAX + 8];

static unsigned dice(struct rig *r, unsigned sides)
{
	return (unsigned)(test_random(&r->random) >> 33) % sides;
}

static void content(struct rig *r, unsigned i)
{
	uint64_t x = r->seeds[i];

	for (uint32_t k = 0; k < r->sizes[i]; k += 8) {
		uint64_t v = test_random(&x);

		memcpy(data + k, &v, 8);
	}
}

static void change_files(struct rig *r, unsigned n)
{
	struct tarn_create how = {.type = TARN_REG};
	struct tarn_inode *root, *inode;
	struct tarn_commit token;

	assert_int_equal(tarn_root(r->f.ds, &root), 0);
	while (n--) {
		unsigned i = dice(r, FILES);
		char name[16];

		snprintf(name, sizeof(name), "file%u", i);
		if (r->sizes[i])
			assert_int_equal(tarn_unlink(NULL, root, name, 0, NULL, &token), 0);
		r->sizes[i] = 0;
		if (dice(r, 4) == 0)
			continue;
		r->sizes[i] = 1 + dice(r, dice(r, 2) ? FILE_MAX : 5000);
		r->seeds[i] = test_random(&r->random);
		content(r, i);
		assert_int_equal(tarn_create(NULL, root, name, &how, &inode, NULL, NULL, &token),
				 0);
		assert_int_equal(fixture_write(inode, 0, data, r->sizes[i], dice(r, 8) == 0), 0);
		tarn_inode_put(inode);
	}
	tarn_inode_put(root);
	assert_int_equal(tarn_pool_history_add(r->f.engine, FIXTURE_POOL, "changed"), 0);
}

static void verify_files(struct rig *r)
{
	struct tarn_inode *root, *inode;

	assert_int_equal(tarn_root(r->f.ds, &root), 0);
	for (unsigned i = 0; i < FILES; i++) {
		char name[16];
		size_t got;
		bool eof;

		snprintf(name, sizeof(name), "file%u", i);
		assert_int_equal(tarn_lookup(NULL, root, name, &inode), r->sizes[i] ? 0 : -ENOENT);
		if (!r->sizes[i])
			continue;
		content(r, i);
		assert_int_equal(fixture_read(inode, 0, back, sizeof(back), &got, &eof), 0);
		assert_int_equal(got, r->sizes[i]);
		assert_memory_equal(data, back, got);
		tarn_inode_put(inode);
	}
	tarn_inode_put(root);
}

static void begin(struct rig *r, uint32_t ndevs, enum tarn_group_kind kind)
{
	memset(r, 0, sizeof(*r));
	r->random = test_seed();
	fixture_begin_kind(&r->f, ndevs, DEV_BYTES, kind, NULL);
	change_files(r, 30);
}

static void export_pool(struct rig *r)
{
	struct tarn_error err = {0};

	tarn_dataset_put(r->f.ds);
	if (tarn_pool_export(r->f.engine, FIXTURE_POOL, 0, &err))
		fail_msg("export: %s", err.text);
}

static void import_pool(struct rig *r)
{
	const char *dir[] = {r->f.dir};
	struct tarn_import_spec spec = {.name = FIXTURE_POOL, .paths = dir, .npaths = 1};
	struct tarn_error err = {0};

	if (tarn_pool_import(r->f.engine, &spec, &err))
		fail_msg("import: %s", err.text);
	assert_int_equal(tarn_dataset_open(r->f.engine, FIXTURE_POOL, NULL, &r->f.ds), 0);
}

static int offline(struct rig *r, unsigned dev, bool temporary)
{
	struct tarn_error err = {0};
	int rc = tarn_pool_offline(r->f.engine, FIXTURE_POOL, r->f.path[dev], temporary, 0, &err);

	if (rc)
		print_message("offline: %s\n", err.text);
	return rc;
}

static void online(struct rig *r, unsigned dev)
{
	struct tarn_error err = {0};

	if (tarn_pool_online(r->f.engine, FIXTURE_POOL, r->f.path[dev], 0, &err))
		fail_msg("online: %s", err.text);
}

static enum tarn_dev_state state(struct rig *r, unsigned dev)
{
	struct tarn_pool_status *s;
	enum tarn_dev_state state;

	assert_int_equal(tarn_pool_status(r->f.engine, FIXTURE_POOL, &s), 0);
	state = s->devs[dev].state;
	tarn_pool_status_free(s);
	return state;
}

static bool jobs_ended(struct rig *r)
{
	struct tarn_job *list;
	bool all = true;
	uint32_t n;

	assert_int_equal(tarn_job_list(r->f.engine, FIXTURE_POOL, &list, &n), 0);
	for (uint32_t i = 0; i < n; i++) {
		assert_true(list[i].done <= list[i].total);
		if (list[i].kind == TARN_JOB_SCRUB)
			assert_int_equal(list[i].repaired, 0);
		else if (tarn_job_ended(list[i].state) && list[i].repaired)
			assert_int_equal(n, 2); /* a scrub follows */
		all &= tarn_job_ended(list[i].state);
		if (!tarn_job_ended(list[i].state))
			continue;
		assert_int_equal(list[i].state, TARN_JOB_DONE);
		assert_int_equal(list[i].errors, 0);
	}
	free(list);
	return all;
}

/* Waits for the end of the resilver, if one was needed, and of the scrub that follows it; then no
   device lacks anything. */
static void resilvered(struct rig *r)
{
	struct tarn_pool_status *s;

	while (!jobs_ended(r))
		usleep(1000);
	assert_int_equal(tarn_pool_status(r->f.engine, FIXTURE_POOL, &s), 0);
	for (uint32_t i = 0; i < s->ndevs; i++) {
		if (s->devs[i].state == TARN_DEV_OFFLINE)
			continue;
		assert_int_equal(s->devs[i].stale, 0);
		assert_int_equal(s->devs[i].state, TARN_DEV_ONLINE);
		assert_int_equal(s->devs[i].checksum_errors, 0);
	}
	tarn_pool_status_free(s);
	/* Of older states columns may be stale, and three are checked. */
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(tarn_pool_history_add(r->f.engine, FIXTURE_POOL, "done"), 0);
}

/* Each device misses changes and comes back; then the ones that were there go, as many as may. */
static void each_device(uint32_t ndevs, enum tarn_group_kind kind, unsigned lost)
{
	struct rig r;

	begin(&r, ndevs, kind);
	for (unsigned dev = 0; dev < ndevs; dev++) {
		assert_int_equal(offline(&r, dev, dev % 2), 0);
		assert_int_equal(state(&r, dev), TARN_DEV_OFFLINE);
		change_files(&r, 15);
		verify_files(&r);
		if (dev % 2 == 0) {
			/* It stays offline. */
			export_pool(&r);
			import_pool(&r);
			assert_int_equal(state(&r, dev), TARN_DEV_OFFLINE);
			change_files(&r, 5);
		}
		online(&r, dev);
		change_files(&r, 3);
		resilvered(&r);
		fixture_remount(&r.f);
		/* It has everything: others can go. */
		for (unsigned i = 1; i <= lost; i++)
			assert_int_equal(offline(&r, (dev + i) % ndevs, true), 0);
		verify_files(&r);
		for (unsigned i = 1; i <= lost; i++)
			online(&r, (dev + i) % ndevs);
		resilvered(&r);
	}
	fixture_remount(&r.f);
	verify_files(&r);
	fixture_end(&r.f);
}

static void test_mirror(void **st)
{
	(void)st;
	each_device(2, TARN_GROUP_MIRROR, 1);
}

static void test_raidz1(void **st)
{
	(void)st;
	each_device(3, TARN_GROUP_RAIDZ1, 1);
}

static void test_raidz2(void **st)
{
	(void)st;
	each_device(4, TARN_GROUP_RAIDZ2, 2);
}

/* ---- missing at the import ---- */

static void test_missing(void **st)
{
	char away[120];
	struct rig r;

	(void)st;
	begin(&r, 3, TARN_GROUP_RAIDZ1);
	snprintf(away, sizeof(away), "%s.away", r.f.dir);
	export_pool(&r);
	assert_int_equal(rename(r.f.path[1], away), 0);
	import_pool(&r);
	assert_int_equal(state(&r, 1), TARN_DEV_MISSING);
	change_files(&r, 20);
	struct tarn_error err = {0};
	assert_int_equal(tarn_pool_online(r.f.engine, FIXTURE_POOL, r.f.path[1], 0, &err), -ENOENT);
	assert_int_equal(rename(away, r.f.path[1]), 0);
	online(&r, 1);
	change_files(&r, 5);
	resilvered(&r);
	fixture_remount(&r.f);
	assert_int_equal(offline(&r, 0, true), 0);
	verify_files(&r);
	online(&r, 0);
	resilvered(&r);
	fixture_end(&r.f);
}

/* ---- what can't be done without ---- */

static void test_refused(void **st)
{
	struct tarn_error err = {0};
	struct rig r;

	(void)st;
	begin(&r, 2, TARN_GROUP_MIRROR);
	assert_int_equal(tarn_pool_offline(r.f.engine, FIXTURE_POOL, "/nowhere", false, 0, &err),
			 -ENOENT);
	assert_int_equal(tarn_pool_offline(r.f.engine, "none", r.f.path[0], false, 0, &err),
			 -ENXIO);
	assert_int_equal(offline(&r, 0, false), 0);
	assert_int_equal(offline(&r, 1, false), -ENODEV);
	change_files(&r, 10);
	online(&r, 0);
	/* Either what 0 has missed is on 1 alone, or it is up to date by now. */
	int rc = offline(&r, 1, true);
	assert_true(rc == 0 || rc == -EBUSY);
	verify_files(&r);
	if (!rc)
		online(&r, 1);
	resilvered(&r);
	fixture_end(&r.f);

	begin(&r, 1, TARN_GROUP_SINGLE);
	assert_int_equal(offline(&r, 0, false), -ENODEV);
	fixture_end(&r.f);
}

/* ---- gone again while it is brought up to date, and changes all the time ---- */

static void test_again(void **st)
{
	struct rig r;

	(void)st;
	begin(&r, 4, TARN_GROUP_RAIDZ2);
	for (unsigned round = 0; round < 6 * test_scale(); round++) {
		unsigned dev = dice(&r, 4);

		assert_int_equal(offline(&r, dev, true), 0);
		change_files(&r, 8);
		online(&r, dev);
		if (dice(&r, 2))
			assert_int_equal(offline(&r, dev, true), 0);
		change_files(&r, 4);
		online(&r, dev);
		if (dice(&r, 3) == 0) {
			export_pool(&r);
			import_pool(&r);
		}
		verify_files(&r);
		resilvered(&r);
	}
	fixture_remount(&r.f);
	verify_files(&r);
	fixture_end(&r.f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_mirror),  cmocka_unit_test(test_raidz1),
	    cmocka_unit_test(test_raidz2),  cmocka_unit_test(test_missing),
	    cmocka_unit_test(test_refused), cmocka_unit_test(test_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
