// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Resilvers on simulated devices, through the public API: a device fails, comes back, and is
 * brought up to date while files are written, in a pool so full that they must go to the chunks
 * that are being rebuilt; it, or another one, fails again at a chosen write of the rebuild; power
 * is cut at one; one is taken offline while another one fails. Whatever happened, in the end as
 * many other devices as the redundancy allows are taken away, and everything can be read from what
 * is left.
 */
#include "pool_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/job.h>
#include <unistd.h>

#include <cmocka.h>

#include "dev/sim.h"
#include "pool/slab.h"

#define DEVS_MAX 5
#define DEV_BYTES (64ull << 20)
#define FILES 48
#define FILE_MAX 600000

static struct {
	char dir[64];
	char path[DEVS_MAX][96];
	const char *paths[DEVS_MAX];
	struct sim *media[DEVS_MAX];
	unsigned ndevs, spare; /* so many may be lost */
	struct tarn_engine *engine;
	struct tarn_dataset *ds;
	uint64_t random;
	uint32_t sizes[FILES]; /* 0: there is none */
	uint64_t seeds[FILES];
	atomic_uint writes_left; /* to `watched`, until something happens */
	atomic_bool happened;
	unsigned victim;
	bool kill;       /* then the victim fails */
	bool stable;     /* what is written is to be durable at once */
	atomic_int full; /* the device that has no free slabs, or -1 */
} t;

static uint8_t data[FILE_MAX + 8], back[FILE_MAX + 8];

int __real_dev_open(const char *path, int flags, struct dev **out);
int __wrap_dev_open(const char *path, int flags, struct dev **out);

int __wrap_dev_open(const char *path, int flags, struct dev **out)
{
	for (unsigned i = 0; i < t.ndevs; i++) {
		if (strcmp(path, t.path[i]) == 0)
			return t.media[i] ? sim_open(t.media[i], flags, out) : -ENXIO;
	}
	return __real_dev_open(path, flags, out);
}

int __real_slab_take(struct pool_dev *dev, struct txg_sync *s, const struct slab_entry *entry,
		     uint32_t *slab);
int __wrap_slab_take(struct pool_dev *dev, struct txg_sync *s, const struct slab_entry *entry,
		     uint32_t *slab);
uint32_t __real_slab_free_count(const struct pool_dev *dev);
uint32_t __wrap_slab_free_count(const struct pool_dev *dev);

int __wrap_slab_take(struct pool_dev *dev, struct txg_sync *s, const struct slab_entry *entry,
		     uint32_t *slab)
{
	return (int)dev->index == atomic_load(&t.full) ? -ENOSPC
						       : __real_slab_take(dev, s, entry, slab);
}

uint32_t __wrap_slab_free_count(const struct pool_dev *dev)
{
	return (int)dev->index == atomic_load(&t.full) ? 0 : __real_slab_free_count(dev);
}

static unsigned dice(unsigned sides)
{
	return (unsigned)(test_random(&t.random) >> 33) % sides;
}

/* TSan takes ten times as long. */
static unsigned rounds(unsigned n)
{
#ifdef __SANITIZE_THREAD__
	n /= 2;
#endif
	return n * test_scale();
}

/* ---- files ---- */

static void content(unsigned i)
{
	uint64_t x = t.seeds[i];

	for (uint32_t k = 0; k < t.sizes[i]; k += 8) {
		uint64_t v = test_random(&x);

		memcpy(data + k, &v, 8);
	}
}

/* False: there is no room for it. */
static bool make_file(unsigned i, struct tarn_inode *root)
{
	struct tarn_create how = {.type = TARN_REG};
	struct tarn_inode *inode;
	struct tarn_commit token;
	char name[16];
	int rc;

	snprintf(name, sizeof(name), "file%u", i);
	if (t.sizes[i])
		assert_int_equal(tarn_unlink(NULL, root, name, 0, NULL, &token), 0);
	t.sizes[i] = 1 + dice(dice(2) ? FILE_MAX : 5000);
	t.seeds[i] = test_random(&t.random);
	content(i);
	rc = tarn_create(NULL, root, name, &how, &inode, NULL, NULL, &token);
	if (!rc) {
		rc = fixture_write(inode, 0, data, t.sizes[i], t.stable || dice(8) == 0);
		tarn_inode_put(inode);
		if (rc)
			assert_int_equal(tarn_unlink(NULL, root, name, 0, NULL, &token), 0);
	}
	if (rc)
		t.sizes[i] = 0;
	if (rc && rc != -ENOSPC)
		fail_msg("writing a file: %s", strerror(-rc));
	return !rc;
}

static void commit(void)
{
	assert_int_equal(tarn_pool_history_add(t.engine, FIXTURE_POOL, "changed"), 0);
}

static void change_files(unsigned n)
{
	struct tarn_inode *root;

	assert_int_equal(tarn_root(t.ds, &root), 0);
	while (n--)
		make_file(dice(FILES), root);
	tarn_inode_put(root);
	commit();
}

static void verify_files(void)
{
	struct tarn_inode *root, *inode;

	assert_int_equal(tarn_root(t.ds, &root), 0);
	for (unsigned i = 0; i < FILES; i++) {
		char name[16];
		size_t got;
		bool eof;

		snprintf(name, sizeof(name), "file%u", i);
		assert_int_equal(tarn_lookup(NULL, root, name, &inode), t.sizes[i] ? 0 : -ENOENT);
		if (!t.sizes[i])
			continue;
		content(i);
		assert_int_equal(fixture_read(inode, 0, back, sizeof(back), &got, &eof), 0);
		assert_int_equal(got, t.sizes[i]);
		assert_memory_equal(data, back, got);
		tarn_inode_put(inode);
	}
	tarn_inode_put(root);
}

/* ---- the pool ---- */

static void engine_start(void)
{
	struct tarn_config config = {.arc_max = 16 << 20, .dirty_max = 16 << 20, .threads = 2};

	assert_int_equal(tarn_engine_create(&config, &t.engine), 0);
}

static void begin(unsigned ndevs, enum tarn_group_kind kind)
{
	struct tarn_group_spec group = {kind, ndevs, t.paths, TARN_CLASS_DATA};
	struct tarn_error err = {0};

	memset(&t, 0, sizeof(t));
	t.random = test_seed();
	atomic_store(&t.full, -1);
	t.ndevs = ndevs;
	t.spare = kind == TARN_GROUP_MIRROR ? ndevs - 1 : kind - TARN_GROUP_MIRROR;
	strcpy(t.dir, "/var/tmp/tarn-test-XXXXXX");
	assert_non_null(mkdtemp(t.dir));
	for (unsigned i = 0; i < ndevs; i++) {
		int fd;

		snprintf(t.path[i], sizeof(t.path[i]), "%s/disk%u", t.dir, i);
		t.paths[i] = t.path[i];
		fd = open(t.path[i], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		assert_int_equal(ftruncate(fd, (off_t)DEV_BYTES), 0);
		close(fd);
		t.media[i] = sim_create(t.path[i], DEV_BYTES, SECTOR_SIZE);
	}
	engine_start();
	if (tarn_pool_create(t.engine, FIXTURE_POOL, &group, 1, NULL, 0, 0, &err))
		fail_msg("%s", err.text);
	assert_int_equal(tarn_dataset_open(t.engine, FIXTURE_POOL, NULL, &t.ds), 0);
}

static void import_pool(void)
{
	struct tarn_import_spec spec = {.name = FIXTURE_POOL, .paths = t.paths, .npaths = t.ndevs};
	struct tarn_error err = {0};

	engine_start();
	if (tarn_pool_import(t.engine, &spec, &err))
		fail_msg("import: %s", err.text);
	assert_int_equal(tarn_dataset_open(t.engine, FIXTURE_POOL, NULL, &t.ds), 0);
}

/* What has been read, by scrubs too, may not have been there, but was never another content: to be
   asked before the counters are reset. */
static void no_wrong_content(void)
{
	struct tarn_pool_status *s;

	assert_int_equal(tarn_pool_status(t.engine, FIXTURE_POOL, &s), 0);
	for (uint32_t i = 0; i < s->ndevs; i++)
		assert_int_equal(s->devs[i].checksum_errors, 0);
	tarn_pool_status_free(s);
}

static void export_pool(void)
{
	struct tarn_error err = {0};

	no_wrong_content();
	tarn_dataset_put(t.ds);
	if (tarn_pool_export(t.engine, FIXTURE_POOL, 0, &err))
		fail_msg("export: %s", err.text);
	tarn_engine_destroy(t.engine);
}

static void print_finding(void *arg, const struct tarn_finding *finding)
{
	(void)arg;
	print_error("tarnck: %s\n", finding->text);
}

/* Exported; everything must be whole. */
static void check(void)
{
	struct tarn_check_spec spec = {.name = FIXTURE_POOL,
				       .paths = t.paths,
				       .npaths = t.ndevs,
				       .uberblocks = 3,
				       .finding = print_finding};
	struct tarn_check_result result;
	struct tarn_error err = {0};

	if (tarn_check(&spec, &result, &err))
		fail_msg("tarnck: %s", err.text);
	assert_int_equal(result.findings, 0);
}

/* Power is cut: what was not flushed may have arrived or not. Held devices answer nothing, so that
   none has anything that followed from an answer which another one has not given. */
static void cut(void)
{
	struct sim *left[DEVS_MAX];

	for (unsigned i = 0; i < t.ndevs; i++) {
		sim_on_write(t.media[i], NULL, NULL);
		sim_hold(t.media[i], true);
	}
	for (unsigned i = 0; i < t.ndevs; i++)
		left[i] = sim_cut(t.media[i], SIM_CUT_RANDOM, test_random(&t.random) | 1, 0);
	for (unsigned i = 0; i < t.ndevs; i++) {
		sim_gone(t.media[i], true);
		sim_hold(t.media[i], false);
	}
	tarn_dataset_put(t.ds);
	tarn_engine_destroy(t.engine);
	for (unsigned i = 0; i < t.ndevs; i++) {
		sim_destroy(t.media[i]);
		t.media[i] = left[i];
	}
}

static bool ended(enum tarn_job_kind kind)
{
	struct tarn_job *list;
	bool all = true;
	uint32_t n;

	assert_int_equal(tarn_job_list(t.engine, FIXTURE_POOL, &list, &n), 0);
	for (uint32_t i = 0; i < n; i++) {
		if (list[i].kind == TARN_JOB_SCRUB)
			assert_int_equal(list[i].errors, 0);
		if (list[i].kind != kind)
			continue;
		all &= tarn_job_ended(list[i].state);
		if (tarn_job_ended(list[i].state))
			assert_int_equal(list[i].state, TARN_JOB_DONE);
	}
	free(list);
	return all;
}

static bool resilver_ended(void)
{
	return ended(TARN_JOB_RESILVER);
}

static void resilvered(void)
{
	struct tarn_pool_status *s;

	while (!resilver_ended() || !ended(TARN_JOB_SCRUB))
		usleep(1000);
	assert_int_equal(tarn_pool_status(t.engine, FIXTURE_POOL, &s), 0);
	for (uint32_t i = 0; i < s->ndevs; i++) {
		assert_int_equal(s->devs[i].state, TARN_DEV_ONLINE);
		assert_int_equal(s->devs[i].stale, 0);
		assert_int_equal(s->devs[i].checksum_errors, 0);
	}
	tarn_pool_status_free(s);
}

/* Columns of all devices that are not up to date, of which the states tell. */
static uint64_t lacking(void)
{
	struct tarn_pool_status *s;
	uint64_t n = 0;

	assert_int_equal(tarn_pool_status(t.engine, FIXTURE_POOL, &s), 0);
	for (uint32_t i = 0; i < s->ndevs; i++) {
		n += s->devs[i].stale;
		assert_true(!s->devs[i].stale || s->devs[i].state != TARN_DEV_ONLINE);
	}
	assert_true(!n || s->state != TARN_DEV_ONLINE);
	tarn_pool_status_free(s);
	return n;
}

static void clear(void)
{
	struct tarn_error err = {0};

	no_wrong_content();
	/* A device may fail while it comes back. */
	if (tarn_pool_clear(t.engine, FIXTURE_POOL, &err) && !atomic_load(&t.happened))
		fail_msg("clear: %s", err.text);
}

static int take_offline(unsigned dev)
{
	struct tarn_error err;

	return tarn_pool_offline(t.engine, FIXTURE_POOL, t.path[dev], true, 0, &err);
}

static void bring_online(unsigned dev)
{
	struct tarn_error err = {0};

	no_wrong_content();
	if (tarn_pool_online(t.engine, FIXTURE_POOL, t.path[dev], 0, &err))
		fail_msg("online: %s", err.text);
}

static bool faulted(unsigned dev)
{
	struct tarn_pool_status *s;
	bool yes;

	assert_int_equal(tarn_pool_status(t.engine, FIXTURE_POOL, &s), 0);
	yes = s->devs[dev].state == TARN_DEV_FAULTED;
	tarn_pool_status_free(s);
	return yes;
}

/* It is gone, and misses changes. */
static void lose(unsigned dev, unsigned changes)
{
	sim_gone(t.media[dev], true);
	do
		change_files(changes);
	while (!faulted(dev));
}

/* All others that may go are gone: what is left is enough. Then the next ones, until each device
   has been alone as far as that is possible. */
static void verify_without_others(void)
{
	for (unsigned first = 0; first < t.ndevs; first++) {
		struct sim *away[DEVS_MAX] = {0};

		for (unsigned i = 0; i < t.spare; i++) {
			unsigned dev = (first + i) % t.ndevs;

			away[dev] = t.media[dev];
			t.media[dev] = NULL;
		}
		import_pool();
		verify_files();
		export_pool();
		for (unsigned i = 0; i < t.ndevs; i++) {
			if (away[i])
				t.media[i] = away[i];
		}
		/* They have missed the last import. */
		import_pool();
		resilvered();
		for (unsigned i = 0; i < 3; i++)
			commit();
		export_pool();
	}
}

static void end(void)
{
	/* Of older states columns may be stale, and three are checked. */
	for (unsigned i = 0; i < 3; i++)
		commit();
	export_pool();
	check();
	verify_without_others();
	check();
	for (unsigned i = 0; i < t.ndevs; i++) {
		sim_destroy(t.media[i]);
		unlink(t.path[i]);
	}
	rmdir(t.dir);
}

/* ---- moments ---- */

static void count_write(struct sim *sim, uint64_t nth, void *arg)
{
	unsigned left = atomic_load(&t.writes_left);

	(void)sim, (void)nth, (void)arg;
	while (left && !atomic_compare_exchange_weak(&t.writes_left, &left, left - 1))
		continue;
	if (left != 1)
		return;
	if (t.kill)
		sim_gone(t.media[t.victim], true);
	atomic_store(&t.happened, true);
}

/* At the n-th write to dev from now on something happens; kill: the victim fails. */
static void watch(unsigned dev, unsigned n, bool kill, unsigned victim)
{
	atomic_store(&t.happened, false);
	t.kill = kill;
	t.victim = victim;
	atomic_store(&t.writes_left, n);
	sim_on_write(t.media[dev], count_write, NULL);
}

static void unwatch(unsigned dev)
{
	sim_on_write(t.media[dev], NULL, NULL);
	atomic_store(&t.writes_left, 0);
	atomic_store(&t.happened, false);
}

/* ---- tests ---- */

/* The pool is filled until nothing more finds room, so that what is written during the rebuild has
   to share the chunks with it. */
static void fill_pool(void)
{
	struct tarn_create how = {.type = TARN_REG};
	struct tarn_inode *root, *inode;
	struct tarn_commit token;
	uint64_t at = 0;

	assert_int_equal(tarn_root(t.ds, &root), 0);
	assert_int_equal(tarn_create(NULL, root, "filler", &how, &inode, NULL, NULL, &token), 0);
	memset(data, 0, sizeof(data));
	for (unsigned i = 0; i < sizeof(data); i += 8)
		*(uint64_t *)(data + i) = test_random(&t.random);
	while (!fixture_write(inode, at, data, FILE_MAX, false))
		at += FILE_MAX;
	assert_true(at > DEV_BYTES / 4);
	tarn_inode_put(inode);
	tarn_inode_put(root);
	commit();
}

static void remove_filler(void)
{
	struct tarn_inode *root;
	struct tarn_commit token;

	assert_int_equal(tarn_root(t.ds, &root), 0);
	assert_int_equal(tarn_unlink(NULL, root, "filler", 0, NULL, &token), 0);
	tarn_inode_put(root);
}

static void full(unsigned ndevs, enum tarn_group_kind kind)
{
	begin(ndevs, kind);
	change_files(40);
	fill_pool();
	for (unsigned round = 0; round < rounds(2); round++) {
		unsigned dev = dice(ndevs);

		lose(dev, 6);
		sim_gone(t.media[dev], false);
		clear();
		while (!resilver_ended())
			change_files(2);
		verify_files();
	}
	/* A column that was made while its device was away may have found no slab there since. It
	   gets one when there is one. */
	remove_filler();
	while (lacking()) {
		commit();
		usleep(1000);
	}
	resilvered();
	end();
}

static void test_full_mirror(void **st)
{
	(void)st;
	full(3, TARN_GROUP_MIRROR);
}

static void test_full_raidz1(void **st)
{
	(void)st;
	full(3, TARN_GROUP_RAIDZ1);
}

static void test_full_raidz3(void **st)
{
	(void)st;
	full(5, TARN_GROUP_RAIDZ3);
}

/* What was made while a device was away finds no slab on it. The states tell, and it gets one when
   there is one. */
static void test_no_slab(void **st)
{
	struct sim *away;

	(void)st;
	begin(2, TARN_GROUP_MIRROR);
	change_files(10);
	export_pool();
	away = t.media[0];
	t.media[0] = NULL;
	import_pool();
	fill_pool();
	t.media[0] = away;
	atomic_store(&t.full, 0);
	bring_online(0);
	while (!resilver_ended())
		usleep(1000);
	for (unsigned i = 0; i < 5; i++) {
		assert_true(lacking() > 0);
		commit();
	}
	verify_files();
	atomic_store(&t.full, -1);
	while (lacking())
		usleep(1000);
	resilvered();
	verify_files();
	end();
}

/* The device that is being rebuilt fails again, or one that it is rebuilt from. */
static void fails(unsigned ndevs, enum tarn_group_kind kind, bool source)
{
	begin(ndevs, kind);
	change_files(40);
	for (unsigned round = 0; round < rounds(4); round++) {
		unsigned dev = dice(ndevs);
		unsigned victim = source ? (dev + 1 + dice(ndevs - 1)) % ndevs : dev;

		lose(dev, 8);
		sim_gone(t.media[dev], false);
		watch(dev, 1 + dice(60), true, victim);
		clear();
		while (!resilver_ended())
			change_files(1);
		verify_files();
		unwatch(dev);
		sim_gone(t.media[victim], false);
		clear();
		resilvered();
		verify_files();
	}
	end();
}

static void test_target_fails_mirror(void **st)
{
	(void)st;
	fails(2, TARN_GROUP_MIRROR, false);
}

static void test_target_fails_raidz2(void **st)
{
	(void)st;
	fails(4, TARN_GROUP_RAIDZ2, false);
}

static void test_source_fails_mirror(void **st)
{
	(void)st;
	fails(3, TARN_GROUP_MIRROR, true);
}

static void test_source_fails_raidz2(void **st)
{
	(void)st;
	fails(4, TARN_GROUP_RAIDZ2, true);
}

static void cuts(unsigned ndevs, enum tarn_group_kind kind)
{
	begin(ndevs, kind);
	change_files(40);
	for (unsigned round = 0; round < rounds(4); round++) {
		unsigned dev = dice(ndevs);

		lose(dev, 8);
		sim_gone(t.media[dev], false);
		watch(dev, 1 + dice(60), false, 0);
		clear();
		while (!atomic_load(&t.happened) && !resilver_ended())
			usleep(100);
		cut();
		import_pool();
		verify_files();
		resilvered();
	}
	end();
}

/* What was acknowledged as durable since the last commit is in the intent log only, also on a
   device whose columns have just been rebuilt: after a cut it is enough alone. */
static void test_log(void **st)
{
	struct tarn_inode *root;

	(void)st;
	begin(2, TARN_GROUP_MIRROR);
	change_files(40);
	t.stable = true;
	for (unsigned round = 0; round < rounds(4); round++) {
		unsigned dev = dice(2);
		struct sim *away;

		lose(dev, 8);
		sim_gone(t.media[dev], false);
		clear();
		assert_int_equal(tarn_root(t.ds, &root), 0);
		do
			make_file(dice(FILES), root);
		while (!resilver_ended());
		for (unsigned i = dice(4); i; i--)
			make_file(dice(FILES), root);
		tarn_inode_put(root);
		cut();
		away = t.media[!dev];
		t.media[!dev] = NULL;
		import_pool();
		verify_files();
		export_pool();
		t.media[!dev] = away;
		import_pool();
		resilvered();
		verify_files();
	}
	end();
}

static void test_cut_mirror(void **st)
{
	(void)st;
	cuts(2, TARN_GROUP_MIRROR);
}

static void test_cut_raidz1(void **st)
{
	(void)st;
	cuts(4, TARN_GROUP_RAIDZ1);
}

static void test_cut_raidz2(void **st)
{
	(void)st;
	cuts(5, TARN_GROUP_RAIDZ2);
}

/* ---- one is taken offline while another one fails ---- */

/* Not committed. */
static void write_files(unsigned n)
{
	struct tarn_inode *root;

	assert_int_equal(tarn_root(t.ds, &root), 0);
	while (n--)
		make_file(dice(FILES), root);
	tarn_inode_put(root);
}

/* In the sync that is to take one side of a mirror offline the other side fails for a while. One
   of them has everything, and the pool goes on with it. */
static void test_offline_or_failed(void **st)
{
	(void)st;
	begin(2, TARN_GROUP_MIRROR);
	change_files(40);
	for (unsigned round = 0; round < rounds(24); round++) {
		unsigned dev = dice(2);
		struct sim *other = t.media[!dev];
		enum dev_op op = dice(4) ? DEV_WRITE : DEV_FLUSH;
		int rc;

		write_files(1 + dice(6));
		sim_fail(other, op, 0, DEV_BYTES, -EIO, 1 + dice(dice(2) ? 4 : 40));
		rc = take_offline(dev);
		sim_fail(other, op, 0, 0, 0, 0);
		assert_true(rc == 0 || rc == -ENODEV || rc == -EBUSY);
		assert_true(rc == 0 || !faulted(dev));
		change_files(2);
		verify_files();
		if (!rc)
			bring_online(dev);
		clear();
		resilvered();
	}
	end();
}

static void *offline_thread(void *arg)
{
	assert_int_equal(take_offline(*(unsigned *)arg), 0);
	return NULL;
}

/* Two may be lost: one is taken offline while another one fails, in the same sync or in another
   one. */
static void offline_and_failed(unsigned ndevs, enum tarn_group_kind kind)
{
	begin(ndevs, kind);
	change_files(40);
	for (unsigned round = 0; round < rounds(8); round++) {
		unsigned dev = dice(ndevs), victim = (dev + 1 + dice(ndevs - 1)) % ndevs;
		pthread_t thread;

		watch(victim, 1 + dice(40), true, victim);
		assert_int_equal(pthread_create(&thread, NULL, offline_thread, &dev), 0);
		while (!atomic_load(&t.happened))
			change_files(1);
		pthread_join(thread, NULL);
		verify_files();
		unwatch(victim);
		sim_gone(t.media[victim], false);
		bring_online(dev);
		clear();
		resilvered();
		verify_files();
	}
	end();
}

static void test_offline_and_failed_mirror(void **st)
{
	(void)st;
	offline_and_failed(3, TARN_GROUP_MIRROR);
}

static void test_offline_and_failed_raidz2(void **st)
{
	(void)st;
	offline_and_failed(4, TARN_GROUP_RAIDZ2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_full_mirror),
	    cmocka_unit_test(test_full_raidz1),
	    cmocka_unit_test(test_full_raidz3),
	    cmocka_unit_test(test_no_slab),
	    cmocka_unit_test(test_target_fails_mirror),
	    cmocka_unit_test(test_target_fails_raidz2),
	    cmocka_unit_test(test_source_fails_mirror),
	    cmocka_unit_test(test_source_fails_raidz2),
	    cmocka_unit_test(test_log),
	    cmocka_unit_test(test_cut_mirror),
	    cmocka_unit_test(test_cut_raidz1),
	    cmocka_unit_test(test_cut_raidz2),
	    cmocka_unit_test(test_offline_or_failed),
	    cmocka_unit_test(test_offline_and_failed_mirror),
	    cmocka_unit_test(test_offline_and_failed_raidz2),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
