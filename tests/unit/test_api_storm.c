// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Everything at once: datasets are created, renamed, destroyed and changed while files in them are
 * written and the pool is exported and imported beneath all that. Who comes too late gets an error
 * that says so; nothing else may happen, and the pool checks clean each time it is out.
 */
#include "pool_fixture.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ADMINS = 2, CLIENTS = 3, KEPT = 8 };

struct storm {
	struct fixture f;
	atomic_bool over;
	atomic_uint done; /* things that went well */
	_Atomic(const char *) wrong;
	atomic_int wrong_code;
};

struct one {
	struct storm *storm;
	uint64_t random;
};

static unsigned dice(struct one *one, unsigned sides)
{
	return (unsigned)(test_random(&one->random) >> 33) % sides;
}

/* Of a thing that may be gone, there already, or in the way of another. */
static bool went_well(struct one *one, int rc, const char *what)
{
	static const int late[] = {ENXIO,   ESTALE, ENOENT, EEXIST, ENOTEMPTY,
				   ENOTDIR, EISDIR, EINVAL, EXDEV,  EBUSY};

	if (!rc) {
		atomic_fetch_add(&one->storm->done, 1);
		return true;
	}
	for (size_t i = 0; i < sizeof(late) / sizeof(late[0]); i++)
		if (rc == -late[i])
			return false;
	atomic_store(&one->storm->wrong_code, rc);
	atomic_store(&one->storm->wrong, what);
	return false;
}

static void some_dataset(struct one *one, char out[64])
{
	static const char *const names[] = {"a", "b", "c", "a/x", "b/x", "a/x/y"};

	snprintf(out, 64, FIXTURE_POOL "/%s", names[dice(one, 6)]);
}

/* ---- administrators ---- */

static int seen_dataset(void *arg, const struct tarn_dataset_info *info)
{
	(void)arg;
	return strncmp(info->path, FIXTURE_POOL, strlen(FIXTURE_POOL)) ? -EPROTO : 0;
}

static int seen_property(void *arg, const char *name, const char *value,
			 enum tarn_prop_source source, const char *from)
{
	(void)arg, (void)source, (void)from;
	return name && value ? 0 : -EPROTO;
}

static void *administrate(void *arg)
{
	struct one *one = arg;
	struct tarn_engine *engine = one->storm->f.engine;

	while (!atomic_load(&one->storm->over)) {
		struct tarn_prop prop = {"user:prop", "value"};
		struct tarn_pool_status *status;
		struct tarn_error err;
		char a[64], b[64];

		some_dataset(one, a);
		some_dataset(one, b);
		switch (dice(one, 8)) {
		case 0:
		case 1:
			went_well(one, tarn_dataset_create(engine, a, &prop, 1, dice(one, 2), &err),
				  "create dataset");
			break;
		case 2:
			went_well(one, tarn_dataset_destroy(engine, a, dice(one, 2), 0, &err),
				  "destroy dataset");
			break;
		case 3:
			went_well(one, tarn_dataset_rename(engine, a, b, &err), "rename dataset");
			break;
		case 4:
			prop = (struct tarn_prop){"recordsize", dice(one, 2) ? "4K" : "1M"};
			went_well(one, tarn_dataset_set(engine, a, &prop, 1, &err), "set");
			break;
		case 5:
			went_well(one,
				  tarn_dataset_inherit(engine, a, "recordsize", dice(one, 2), &err),
				  "inherit");
			break;
		case 6:
			went_well(one, tarn_dataset_list(engine, NULL, true, seen_dataset, NULL),
				  "list");
			went_well(
			    one, tarn_dataset_get(engine, a, NULL, true, seen_property, NULL, &err),
			    "get");
			break;
		case 7:
			if (went_well(one, tarn_pool_status(engine, FIXTURE_POOL, &status),
				      "status"))
				tarn_pool_status_free(status);
			break;
		}
	}
	return NULL;
}

/* ---- clients ---- */

static bool seen_entry(void *arg, const struct tarn_dirent *entry)
{
	struct tarn_attr attr;

	(void)arg;
	tarn_getattr(entry->inode, &attr);
	return true;
}

/* On an inode whose dataset or pool may be long gone. */
static void use(struct one *one, struct tarn_inode *inode)
{
	static __thread uint8_t data[200000];
	struct tarn_setattr set = {.mask = TARN_SET_SIZE, .size = dice(one, 300000)};
	struct tarn_commit token = {0};
	struct tarn_attr attr;
	size_t got;
	bool eof;

	switch (dice(one, 7)) {
	case 0:
	case 1:
		went_well(one,
			  fixture_write(inode, dice(one, 400000), data, 1 + dice(one, sizeof(data)),
					dice(one, 8) == 0),
			  "write");
		break;
	case 2:
		went_well(one,
			  fixture_read(inode, dice(one, 400000), data, sizeof(data), &got, &eof),
			  "read");
		break;
	case 3:
		went_well(one, tarn_setattr(NULL, inode, &set, NULL, &token), "setattr");
		break;
	case 4:
		went_well(one, tarn_getattr(inode, &attr), "getattr");
		break;
	case 5:
		went_well(one, fixture_fsync(inode), "fsync");
		break;
	case 6:
		if (went_well(one, tarn_open(inode), "open"))
			tarn_close(inode);
		break;
	}
}

static struct tarn_inode *change_names(struct one *one, struct tarn_inode *root)
{
	struct tarn_create how = {.type = dice(one, 4) ? TARN_REG : TARN_DIR};
	struct tarn_inode *inode = NULL;
	struct tarn_commit token = {0};
	char name[16], other[16];
	bool eof;
	int rc;

	snprintf(name, sizeof(name), "n%u", dice(one, 40));
	snprintf(other, sizeof(other), "n%u", dice(one, 40));
	switch (dice(one, 6)) {
	case 0:
		went_well(one, tarn_unlink(NULL, root, name, -1, NULL, &token), "unlink");
		break;
	case 1:
		went_well(one, tarn_rename(NULL, root, name, root, other, NULL, NULL, &token),
			  "rename");
		break;
	case 2:
		went_well(one, tarn_readdir(root, 0, seen_entry, NULL, &eof), "readdir");
		break;
	default:
		rc = tarn_create(NULL, root, name, &how, &inode, NULL, NULL, &token);
		if (rc && rc != -EEXIST)
			inode = NULL;
		went_well(one, rc, "create");
	}
	if (token.txg && dice(one, 10) == 0)
		went_well(one, tarn_commit_wait(tarn_inode_dataset(root), token), "commit");
	return inode;
}

static void *work(void *arg)
{
	struct one *one = arg;
	struct tarn_inode *kept[KEPT] = {0};
	struct tarn_dataset *of[KEPT] = {0}, *ds;

	while (!atomic_load(&one->storm->over)) {
		unsigned k = dice(one, KEPT);
		struct tarn_inode *root;
		struct tarn_statfs fs;
		char path[64];

		if (kept[k])
			use(one, kept[k]);
		some_dataset(one, path);
		if (!went_well(one, tarn_dataset_open(one->storm->f.engine, path, NULL, &ds),
			       "open dataset"))
			continue;
		went_well(one, tarn_dataset_statfs(ds, &fs), "statfs");
		if (went_well(one, tarn_root(ds, &root), "root")) {
			struct tarn_inode *inode = change_names(one, root);

			if (inode) {
				if (kept[k]) {
					tarn_inode_put(kept[k]);
					tarn_dataset_put(of[k]);
				}
				kept[k] = inode;
				of[k] = tarn_dataset_ref(tarn_inode_dataset(inode));
			}
			tarn_inode_put(root);
		}
		tarn_dataset_put(ds);
	}
	for (unsigned k = 0; k < KEPT; k++)
		if (kept[k]) {
			tarn_inode_put(kept[k]);
			tarn_dataset_put(of[k]);
		}
	return NULL;
}

/* ---- the weather ---- */

/* Until the others have done something in it. */
static void let_work(struct storm *storm)
{
	unsigned from = atomic_load(&storm->done);

	while (atomic_load(&storm->done) - from < 300 && !atomic_load(&storm->wrong))
		sched_yield();
}

static void test_storm(void **state)
{
	struct storm storm = {0};
	struct one ones[ADMINS + CLIENTS];
	pthread_t threads[ADMINS + CLIENTS];
	uint64_t seed = test_seed();

	(void)state;
	fixture_begin(&storm.f, 2, 256ull << 20, false, NULL);
	for (unsigned i = 0; i < ADMINS + CLIENTS; i++) {
		ones[i] = (struct one){&storm, seed + i * 7919};
		assert_int_equal(
		    pthread_create(&threads[i], NULL, i < ADMINS ? administrate : work, &ones[i]),
		    0);
	}
	for (unsigned n = 0; n < 10 * test_scale() && !atomic_load(&storm.wrong); n++) {
		let_work(&storm);
		fixture_remount(&storm.f);
	}
	atomic_store(&storm.over, true);
	for (unsigned i = 0; i < ADMINS + CLIENTS; i++)
		pthread_join(threads[i], NULL);
	if (storm.wrong)
		fail_msg("%s: %s", storm.wrong, strerror(-storm.wrong_code));
	fixture_end(&storm.f);
}

/* ---- directories moved into each other ---- */

enum { DIRS = 6, MOVERS = 4 };

struct mover {
	struct one one; /* its storm only counts */
	struct tarn_inode **dirs;
	unsigned moves;
};

static void *move(void *arg)
{
	struct mover *m = arg;

	for (unsigned n = 0; n < m->moves; n++) {
		unsigned i = dice(&m->one, DIRS), to = dice(&m->one, DIRS + 1);
		struct tarn_inode *parent;
		struct tarn_commit token;
		char name[8];

		snprintf(name, sizeof(name), "d%u", i);
		if (!went_well(&m->one, tarn_lookup(NULL, m->dirs[i], "..", &parent), "lookup .."))
			continue;
		went_well(&m->one,
			  tarn_rename(NULL, parent, name, m->dirs[to], name, NULL, NULL, &token),
			  "move");
		tarn_inode_put(parent);
	}
	return NULL;
}

/* From the inode up to the root: no circle. */
static void check_reaches(struct tarn_inode *inode, struct tarn_inode *root)
{
	struct tarn_inode *at = tarn_inode_ref(inode), *up;

	for (unsigned depth = 0; tarn_inode_number(at) != tarn_inode_number(root); depth++) {
		assert_true(depth <= DIRS);
		assert_int_equal(tarn_lookup(NULL, at, "..", &up), 0);
		tarn_inode_put(at);
		at = up;
	}
	tarn_inode_put(at);
}

static void test_moves(void **state)
{
	struct storm storm = {0};
	struct tarn_create how = {.type = TARN_DIR};
	struct tarn_inode *dirs[DIRS + 1];
	struct mover movers[MOVERS];
	pthread_t threads[MOVERS];
	struct tarn_commit token;
	uint64_t seed = test_seed();

	(void)state;
	fixture_begin(&storm.f, 1, 128ull << 20, false, NULL);
	assert_int_equal(tarn_root(storm.f.ds, &dirs[DIRS]), 0);
	for (unsigned i = 0; i < DIRS; i++) {
		char name[8];

		snprintf(name, sizeof(name), "d%u", i);
		assert_int_equal(
		    tarn_create(NULL, dirs[DIRS], name, &how, &dirs[i], NULL, NULL, &token), 0);
	}
	for (unsigned i = 0; i < MOVERS; i++) {
		movers[i] = (struct mover){{&storm, seed + i * 7919}, dirs, 20000 * test_scale()};
		assert_int_equal(pthread_create(&threads[i], NULL, move, &movers[i]), 0);
	}
	for (unsigned i = 0; i < MOVERS; i++)
		pthread_join(threads[i], NULL);
	if (storm.wrong)
		fail_msg("%s: %s", storm.wrong, strerror(-storm.wrong_code));
	assert_true(storm.done > MOVERS * 20000);
	for (unsigned i = 0; i <= DIRS; i++) {
		check_reaches(dirs[i], dirs[DIRS]);
		tarn_inode_put(dirs[i]);
	}
	fixture_end(&storm.f);
}

/* ---- a tree destroyed while it changes ---- */

enum { ROUNDS = 40 };

struct uproot {
	struct fixture f;
	struct tarn_inode *kept; /* in tank/a */
	atomic_bool over;
	_Atomic(const char *) wrong;
	atomic_int wrong_code;
	atomic_uint round, done; /* begun, and by how many of the two changers ended */
	int renamed;
};

static void uproot_wrong(struct uproot *u, const char *what, int rc)
{
	atomic_store(&u->wrong_code, rc);
	atomic_store(&u->wrong, what);
}

/* One of a file in tank/a, all the time: there it is or there it was. */
static void *keep_using(void *arg)
{
	struct uproot *u = arg;
	struct tarn_attr attr;

	while (!atomic_load(&u->over)) {
		int rc = tarn_getattr(u->kept, &attr);
		int written = fixture_write(u->kept, 0, "x", 1, false);

		if (rc && rc != -ESTALE)
			uproot_wrong(u, "getattr", rc);
		if (written && written != -ESTALE)
			uproot_wrong(u, "write", written);
	}
	return NULL;
}

/* A child is made and another one moved out, both within the time of the destroy. */
static void *change_tree(void *arg)
{
	struct uproot *u = arg;
	struct tarn_error err;

	for (unsigned n = 1; n <= ROUNDS; n++) {
		char to[64];
		int rc;

		while (atomic_load(&u->round) < n)
			sched_yield();
		snprintf(to, sizeof(to), FIXTURE_POOL "/saved%u", n);
		rc = tarn_dataset_create(u->f.engine, FIXTURE_POOL "/a/new", NULL, 0, false, &err);
		if (rc && rc != -ENOENT)
			uproot_wrong(u, "create below", rc);
		u->renamed = tarn_dataset_rename(u->f.engine, FIXTURE_POOL "/a/x", to, &err);
		if (u->renamed && u->renamed != -ENOENT)
			uproot_wrong(u, "rename out", u->renamed);
		atomic_fetch_add(&u->done, 1);
	}
	return NULL;
}

static void new_tree(struct uproot *u, bool child)
{
	struct tarn_create how = {.type = TARN_REG};
	struct tarn_dataset *ds;
	struct tarn_commit token;
	struct tarn_inode *root;
	struct tarn_error err;

	assert_int_equal(tarn_dataset_create(u->f.engine,
					     child ? FIXTURE_POOL "/a/x" : FIXTURE_POOL "/a", NULL,
					     0, true, &err),
			 0);
	assert_int_equal(tarn_dataset_open(u->f.engine, FIXTURE_POOL "/a", NULL, &ds), 0);
	assert_int_equal(tarn_root(ds, &root), 0);
	assert_int_equal(tarn_create(NULL, root, "file", &how, &u->kept, NULL, NULL, &token), 0);
	tarn_inode_put(root);
	tarn_dataset_put(ds);
}

/* A destroy without -r that comes too late for a child takes nothing from those who use the
   dataset; one with -r takes all that is there, but not what was moved out before. */
static void test_uproot(void **state)
{
	struct uproot u = {0};
	pthread_t user, changer;
	struct tarn_error err;

	(void)state;
	fixture_begin(&u.f, 1, 256ull << 20, false, NULL);
	new_tree(&u, true);
	assert_int_equal(pthread_create(&changer, NULL, change_tree, &u), 0);
	for (unsigned n = 1; n <= ROUNDS; n++) {
		struct tarn_dataset *ds = tarn_dataset_ref(tarn_inode_dataset(u.kept));
		struct tarn_attr attr;
		char saved[64];
		int rc;

		atomic_store(&u.over, false);
		assert_int_equal(pthread_create(&user, NULL, keep_using, &u), 0);
		atomic_store(&u.round, n);
		rc = tarn_dataset_destroy(u.f.engine, FIXTURE_POOL "/a", n % 2, 0, &err);
		while (atomic_load(&u.done) < n)
			sched_yield();
		atomic_store(&u.over, true);
		pthread_join(user, NULL);
		assert_true(rc == 0 || (n % 2 == 0 && rc == -ENOTEMPTY));
		assert_int_equal(tarn_getattr(u.kept, &attr), rc ? 0 : -ESTALE);
		tarn_inode_put(u.kept);
		tarn_dataset_put(ds);
		snprintf(saved, sizeof(saved), FIXTURE_POOL "/saved%u", n);
		assert_int_equal(tarn_dataset_open(u.f.engine, saved, NULL, &ds), u.renamed);
		if (!u.renamed)
			tarn_dataset_put(ds);
		if (rc)
			assert_int_equal(
			    tarn_dataset_destroy(u.f.engine, FIXTURE_POOL "/a", true, 0, &err), 0);
		assert_int_equal(tarn_dataset_open(u.f.engine, FIXTURE_POOL "/a", NULL, &ds),
				 -ENOENT);
		if (u.wrong)
			fail_msg("%s: %s", u.wrong, strerror(-u.wrong_code));
		new_tree(&u, n % 2 == 0);
	}
	pthread_join(changer, NULL);
	tarn_inode_put(u.kept);
	fixture_end(&u.f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_storm),
	    cmocka_unit_test(test_moves),
	    cmocka_unit_test(test_uproot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
