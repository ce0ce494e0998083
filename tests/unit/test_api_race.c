// SPDX-License-Identifier: LGPL-3.0-or-later
/* Many threads in one directory. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "name_rig.h"

#define THREADS 8
#define EACH 400

struct worker {
	pthread_t thread;
	unsigned number;
	uint64_t seed;
	struct tarn_inode *dir;
	uint64_t ino[EACH];
};

static void *creator(void *arg)
{
	struct worker *w = arg;
	char name[32];

	for (unsigned i = 0; i < EACH; i++) {
		struct tarn_inode *inode;

		sprintf(name, "w%u.%u", w->number, i);
		assert_int_equal(
		    make(NULL, w->dir, name, i % 8 ? TARN_REG : TARN_DIR, 0755, &inode), 0);
		w->ino[i] = tarn_inode_number(inode);
		tarn_inode_put(inode);
	}
	return NULL;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void parallel_creates_share_a_directory(void **state)
{
	struct tarn_inode *dir = dir_new(root, "shared", 0755);
	struct worker *w = calloc(THREADS, sizeof(*w));
	uint64_t all[THREADS * EACH];
	struct list l;
	bool eof;

	(void)state;
	for (unsigned i = 0; i < THREADS; i++) {
		w[i] = (struct worker){.number = i, .dir = dir};
		assert_int_equal(pthread_create(&w[i].thread, NULL, creator, &w[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(w[i].thread, NULL);
		memcpy(all + i * EACH, w[i].ino, sizeof(w[i].ino));
	}
	qsort(all, THREADS * EACH, sizeof(all[0]), by_number);
	for (unsigned i = 1; i < THREADS * EACH; i++)
		assert_true(all[i] > all[i - 1]);
	assert_int_equal(attr_of(dir).nlink, 2 + THREADS * EACH / 8);
	l = list_from(dir, 0, THREADS * EACH + 1, &eof);
	assert_int_equal(l.n, THREADS * EACH);
	free(l.at);
	for (unsigned i = 0; i < THREADS; i++)
		for (unsigned j = 0; j < EACH; j++) {
			char name[32];

			sprintf(name, "w%u.%u", i, j);
			assert_int_equal(number(dir, name), w[i].ino[j]);
			assert_int_equal(drop(NULL, dir, name), 0);
		}
	free(w);
	assert_int_equal(drop(NULL, root, "shared"), 0);
	tarn_inode_put(dir);
}

/* Numbers go to new files again and again while somebody knocks with the handles of older ones:
   they are stale, at any moment of a file's making and removal. */
static atomic_bool made;
static atomic_ullong latest; /* number */

static void *turnover(void *arg)
{
	struct worker *w = arg;
	char name[16];

	sprintf(name, "t%u", w->number);
	for (unsigned i = 0; i < 4000; i++) {
		struct tarn_inode *inode;

		assert_int_equal(make(NULL, w->dir, name, TARN_REG, 0644, &inode), 0);
		atomic_store(&latest, tarn_inode_number(inode));
		tarn_inode_put(inode);
		assert_int_equal(drop(NULL, w->dir, name), 0);
	}
	return NULL;
}

static void *knock(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load(&made))
		for (uint64_t ino = atomic_load(&latest), end = ino + 4; ino < end; ino++) {
			struct tarn_inode *got;

			if (ino != tarn_inode_number(w->dir))
				assert_int_equal(tarn_inode_get(f.ds, ino, 1, &got), -ESTALE);
		}
	return NULL;
}

static void stale_handles_stay_stale_while_numbers_are_taken(void **state)
{
	struct tarn_inode *dir = dir_new(root, "turnover", 0755);
	struct worker w[4] = {0};

	(void)state;
	atomic_store(&made, false);
	for (unsigned i = 0; i < 4; i++) {
		w[i] = (struct worker){.number = i, .dir = dir};
		assert_int_equal(
		    pthread_create(&w[i].thread, NULL, i < 2 ? turnover : knock, &w[i]), 0);
	}
	pthread_join(w[0].thread, NULL);
	pthread_join(w[1].thread, NULL);
	atomic_store(&made, true);
	pthread_join(w[2].thread, NULL);
	pthread_join(w[3].thread, NULL);
	assert_int_equal(drop(NULL, root, "turnover"), 0);
	tarn_inode_put(dir);
}

/* A few names in a few directories, all moved, made and removed by everybody: each call may
   fail in the ways that the race allows, and tarnck has the last word. */
static void *racer(void *arg)
{
	struct worker *w = arg;
	struct tarn_inode *dirs[3] = {0};
	struct tarn_commit token;
	char name[8], to[8], d[8];

	for (unsigned i = 0; i < 3; i++) {
		sprintf(d, "d%u", i);
		assert_int_equal(tarn_lookup(NULL, w->dir, d, &dirs[i]), 0);
	}
	for (unsigned i = 0; i < 1500; i++) {
		struct tarn_inode *dir = dirs[test_random(&w->seed) % 3];
		struct tarn_inode *other = dirs[test_random(&w->seed) % 3], *inode;
		bool eof;
		int err = 0;

		sprintf(name, "n%u", (unsigned)(test_random(&w->seed) % 5));
		sprintf(to, "n%u", (unsigned)(test_random(&w->seed) % 5));
		switch (test_random(&w->seed) % 8) {
		case 0:
			err = make(NULL, dir, name, TARN_REG, 0644, NULL);
			break;
		case 1:
			err = make(NULL, dir, name, TARN_DIR, 0755, NULL);
			break;
		case 2:
			err = drop(NULL, dir, name);
			break;
		case 3:
		case 4:
			err = move(NULL, dir, name, other, to);
			break;
		case 5:
			err = tarn_lookup(NULL, dir, name, &inode);
			if (err)
				break;
			if (tarn_inode_type(inode) == TARN_DIR) {
				err = move(NULL, other, to, inode, name);
				if (!err)
					err = move(NULL, inode, name, other, to);
			} else {
				err = tarn_link(NULL, inode, other, to, NULL, NULL, &token);
			}
			tarn_inode_put(inode);
			break;
		case 6: {
			struct list l = list_from(dir, 0, 20, &eof);

			for (unsigned k = 0; k < l.n; k++)
				for (unsigned j = 0; j < k; j++)
					assert_int_not_equal(l.at[k].cookie, l.at[j].cookie);
			free(l.at);
			break;
		}
		default:
			err = tarn_lookup(NULL, dir, name, &inode);
			if (!err) {
				err = tarn_open(inode);
				if (!err)
					tarn_close(inode);
				tarn_inode_put(inode);
			}
		}
		if (err && err != -EEXIST && err != -ENOENT && err != -ENOTEMPTY &&
		    err != -EISDIR && err != -ENOTDIR && err != -EINVAL && err != -ESTALE)
			fail_msg("unexpected: %s", strerror(-err));
	}
	for (unsigned i = 0; i < 3; i++)
		tarn_inode_put(dirs[i]);
	return NULL;
}

static bool purge(void *arg, const struct tarn_dirent *d)
{
	bool eof;

	if (tarn_inode_type(d->inode) == TARN_DIR)
		assert_int_equal(tarn_readdir(d->inode, 0, purge, d->inode, &eof), 0);
	assert_int_equal(drop(NULL, arg, d->name), 0);
	return true;
}

static void everything_races_with_everything(void **state)
{
	uint64_t seed = test_seed();
	struct tarn_inode *dir = dir_new(root, "race", 0755);
	struct worker w[4] = {0};
	bool eof;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		char d[8];

		sprintf(d, "d%u", i);
		assert_int_equal(make(NULL, dir, d, TARN_DIR, 0755, NULL), 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		w[i] = (struct worker){.number = i, .dir = dir, .seed = test_random(&seed)};
		assert_int_equal(pthread_create(&w[i].thread, NULL, racer, &w[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++)
		pthread_join(w[i].thread, NULL);
	tarn_inode_put(dir);
	remount(); /* and check */
	assert_int_equal(tarn_lookup(NULL, root, "race", &dir), 0);
	assert_int_equal(tarn_readdir(dir, 0, purge, dir, &eof), 0);
	tarn_inode_put(dir);
	assert_int_equal(drop(NULL, root, "race"), 0);
	wait_for_inodes(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(parallel_creates_share_a_directory),
	    cmocka_unit_test(stale_handles_stay_stale_while_numbers_are_taken),
	    cmocka_unit_test(everything_races_with_everything),
	};

	return cmocka_run_group_tests_name("api_race", tests, name_setup, name_teardown);
}
