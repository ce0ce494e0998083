// SPDX-License-Identifier: LGPL-3.0-or-later
/* Listings of directories, and the child datasets that appear in them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fs/fs.h"
#include "name_rig.h"

#define MANY 10000

static void a_listing_goes_on_at_every_cookie(void **state)
{
	struct tarn_inode *dir = dir_new(root, "many", 0755);
	struct list all, part;
	bool eof;

	(void)state;
	fill(dir, "file", 0, MANY);
	all = list_from(dir, 0, MANY + 1, &eof);
	assert_true(eof);
	assert_int_equal(all.n, MANY);
	for (unsigned i = 0; i < MANY; i++) {
		char name[32];

		sprintf(name, "file%u", i);
		assert_string_equal(all.at[i].name, name);
		assert_int_equal(all.at[i].cookie, 3 + i);
	}
	for (unsigned i = 0; i < MANY; i++) {
		unsigned want = MANY - 1 - i < 5 ? MANY - 1 - i : 5;

		part = list_from(dir, all.at[i].cookie, 5, &eof);
		assert_int_equal(part.n, want);
		assert_memory_equal(part.at, all.at + i + 1, want * sizeof(*part.at));
		assert_int_equal(eof, want < 5);
		free(part.at);
	}
	/* Cookies of entries that have gone are as good. */
	for (unsigned i = 0; i < MANY; i += 2)
		empty(dir, "file", i, i + 1);
	for (unsigned i = 0; i + 1 < MANY; i += 2) {
		part = list_from(dir, all.at[i].cookie, 1, &eof);
		assert_int_equal(part.n, 1);
		assert_int_equal(part.at[0].cookie, all.at[i + 1].cookie);
		free(part.at);
	}
	free(all.at);
	for (unsigned i = 1; i < MANY; i += 2)
		empty(dir, "file", i, i + 1);
	tarn_inode_put(dir);
	assert_int_equal(drop(NULL, root, "many"), 0);
}

/* Pages of a listing with changes between them: each name that stays appears once. */
static void stable_names_appear_once_between_changes(void **state)
{
	struct tarn_inode *dir = dir_new(root, "busy", 0755);
	uint64_t seed = test_seed();
	uint8_t *seen = calloc(MANY, 1);
	unsigned low = 0, high = 2000; /* of volatile names that are there */

	(void)state;
	for (unsigned i = 0; i < MANY; i += 10) {
		fill(dir, "stable", i, i + 10);
		fill(dir, "volatile", i / 5, i / 5 + 2);
	}
	for (unsigned page = 1; page <= 1000; page *= 10) {
		uint64_t cookie = 0;
		bool eof = false;

		memset(seen, 0, MANY);
		while (!eof) {
			struct list l = list_from(dir, cookie, page, &eof);
			char from[32], to[32];
			unsigned n;

			for (unsigned i = 0; i < l.n; i++) {
				assert_true(l.at[i].cookie > cookie);
				cookie = l.at[i].cookie;
				if (sscanf(l.at[i].name, "stable%u", &n) == 1)
					seen[n]++;
			}
			free(l.at);
			if (eof || test_random(&seed) % (1000 / page + 1))
				continue;
			empty(dir, "volatile", low, low + 1);
			low++;
			fill(dir, "volatile", high, high + 1);
			high++;
			sprintf(from, "volatile%u", low);
			sprintf(to, "volatile%u", high++);
			low++;
			assert_int_equal(move(NULL, dir, from, dir, to), 0);
			/* A stable name that comes to mean another inode stays one. */
			n = test_random(&seed) % MANY;
			sprintf(from, "volatile%u", high);
			sprintf(to, "stable%u", n);
			fill(dir, "volatile", high, high + 1);
			assert_int_equal(move(NULL, dir, from, dir, to), 0);
		}
		for (unsigned i = 0; i < MANY; i++)
			assert_int_equal(seen[i], 1);
	}
	empty(dir, "stable", 0, MANY);
	empty(dir, "volatile", low, high);
	tarn_inode_put(dir);
	assert_int_equal(drop(NULL, root, "busy"), 0);
	free(seen);
}

static bool remove_it(void *arg, const struct tarn_dirent *d)
{
	assert_int_equal(drop(NULL, arg, d->name), 0);
	return true;
}

static void removing_while_listing_leaves_nothing(void **state)
{
	struct tarn_inode *dir = dir_new(root, "rmrf", 0755);
	bool eof;

	(void)state;
	fill(dir, "f", 0, 1000);
	assert_int_equal(tarn_readdir(dir, 0, remove_it, dir, &eof), 0);
	assert_true(eof);
	assert_int_equal(attr_of(dir).size, 2);
	wait_for_inodes(2);
	assert_int_equal(drop(NULL, root, "rmrf"), 0);
	tarn_inode_put(dir);
}

/* ---- child datasets ---- */

static void child_datasets_are_crossed(void **state)
{
	struct tarn_error err = {0};
	struct tarn_inode *child, *got, *dir = dir_new(root, "plain", 0755);
	struct tarn_commit token;
	struct list l;
	bool eof;
	uint64_t cookie;

	(void)state;
	assert_int_equal(tarn_dataset_create(f.engine, FIXTURE_POOL "/kid", NULL, 0, false, &err),
			 0);
	assert_int_equal(tarn_dataset_create(f.engine, FIXTURE_POOL "/kid2", NULL, 0, false, &err),
			 0);
	assert_int_equal(tarn_lookup(NULL, root, "kid", &child), 0);
	assert_true(tarn_inode_dataset(child) != f.ds);
	assert_int_equal(attr_of(child).type, TARN_DIR);
	assert_int_equal(tarn_lookup(NULL, child, "..", &got), 0);
	assert_ptr_equal(got, root);
	tarn_inode_put(got);
	/* Not below other directories. */
	assert_int_equal(tarn_lookup(NULL, dir, "kid", &got), -ENOENT);
	/* The name is taken, and no matter for file operations. */
	assert_int_equal(make(NULL, root, "kid", TARN_DIR, 0755, NULL), -EEXIST);
	assert_int_equal(drop(NULL, root, "kid"), -ENOTEMPTY);
	assert_int_equal(move(NULL, root, "kid", root, "kid3"), -ENOTEMPTY);
	assert_int_equal(move(NULL, root, "plain", root, "kid"), -ENOTEMPTY);
	tarn_inode_put(file_new(child, "inside"));
	assert_int_equal(move(NULL, child, "inside", root, "outside"), -EXDEV);
	assert_int_equal(tarn_lookup(NULL, child, "inside", &got), 0);
	assert_int_equal(tarn_link(NULL, got, root, "outside", NULL, NULL, &token), -EXDEV);
	tarn_inode_put(got);
	/* Listed last, each at its cookie. */
	l = list_from(root, 0, 10, &eof);
	assert_true(eof);
	assert_int_equal(l.n, 3);
	assert_string_equal(l.at[0].name, "plain");
	assert_string_equal(l.at[1].name, "kid");
	assert_string_equal(l.at[2].name, "kid2");
	cookie = l.at[1].cookie;
	assert_true(l.at[2].cookie < 1ull << 31);
	free(l.at);
	l = list_from(root, cookie, 10, &eof);
	assert_int_equal(l.n, 1);
	assert_string_equal(l.at[0].name, "kid2");
	free(l.at);
	assert_int_equal(drop(NULL, child, "inside"), 0);
	tarn_inode_put(child);
	assert_int_equal(drop(NULL, root, "plain"), 0);
	tarn_inode_put(dir);
	assert_int_equal(tarn_dataset_destroy(f.engine, FIXTURE_POOL "/kid", false, 0, &err), 0);
	assert_int_equal(tarn_dataset_destroy(f.engine, FIXTURE_POOL "/kid2", false, 0, &err), 0);
	assert_int_equal(tarn_lookup(NULL, root, "kid", &got), -ENOENT);
}

/* After a billion creates in one directory. */
static void cookies_pass_over_those_of_child_datasets(void **state)
{
	struct tarn_error err = {0};
	struct tarn_inode *got;
	static const char *const order[] = {"c0", "c1", "kid", "c2", "c3"};
	static const uint64_t cookies[] = {CHILD_COOKIE - 2, CHILD_COOKIE - 1, 0, 1ull << 31,
					   (1ull << 31) + 1};
	struct list all;
	bool eof;

	(void)state;
	alock_write(&root->lock);
	pthread_mutex_lock(&root->versioned.lock); /* the sync reads the record */
	root->rec.next_cookie = CHILD_COOKIE - 2;
	pthread_mutex_unlock(&root->versioned.lock);
	alock_unlock(&root->lock);
	fill(root, "c", 0, 4);
	assert_int_equal(tarn_dataset_create(f.engine, FIXTURE_POOL "/kid", NULL, 0, false, &err),
			 0);
	remount();
	all = list_from(root, 0, 10, &eof);
	assert_true(eof);
	assert_int_equal(all.n, 5);
	for (unsigned i = 0; i < 5; i++) {
		assert_string_equal(all.at[i].name, order[i]);
		if (cookies[i])
			assert_int_equal(all.at[i].cookie, cookies[i]);
	}
	for (unsigned i = 0; i < 5; i++) {
		struct list part = list_from(root, all.at[i].cookie, 10, &eof);

		assert_true(eof);
		assert_int_equal(part.n, 4 - i);
		assert_memory_equal(part.at, all.at + i + 1, part.n * sizeof(*part.at));
		free(part.at);
	}
	free(all.at);
	empty(root, "c", 0, 4);
	assert_int_equal(tarn_dataset_destroy(f.engine, FIXTURE_POOL "/kid", false, 0, &err), 0);
	assert_int_equal(tarn_lookup(NULL, root, "kid", &got), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_listing_goes_on_at_every_cookie),
	    cmocka_unit_test(stable_names_appear_once_between_changes),
	    cmocka_unit_test(removing_while_listing_leaves_nothing),
	    cmocka_unit_test(child_datasets_are_crossed),
	    cmocka_unit_test(cookies_pass_over_those_of_child_datasets),
	};

	return cmocka_run_group_tests_name("api_list", tests, name_setup, name_teardown);
}
