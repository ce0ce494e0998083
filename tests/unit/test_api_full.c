// SPDX-License-Identifier: LGPL-3.0-or-later
/* A full pool: what does not fit is refused whole, and removing always works. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool_fixture.h"
#include <cmocka.h>

#define DEV_BYTES (64ull << 20)
#define FILES_MAX 1000000 /* never reached */

static const struct tarn_cred user = {.uid = 1000, .gid = 100};
static struct fixture f;
static struct tarn_inode *dir;

static int setup(void **state)
{
	struct tarn_inode *root;
	struct tarn_create how = {.type = TARN_DIR, .set = {.mask = TARN_SET_MODE, .mode = 0777}};
	struct tarn_commit token;

	(void)state;
	fixture_begin(&f, 1, DEV_BYTES, false, NULL);
	assert_int_equal(tarn_root(f.ds, &root), 0);
	assert_int_equal(tarn_create(NULL, root, "dir", &how, &dir, NULL, NULL, &token), 0);
	tarn_inode_put(root);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tarn_inode_put(dir);
	fixture_end(&f);
	return 0;
}

static void commit(void)
{
	struct tarn_setattr set = {.mask = TARN_SET_ATIME_NOW};
	struct tarn_commit token;
	int err = tarn_setattr(NULL, dir, &set, NULL, &token);

	/* What was removed gives its space back some commits later. */
	if (err != -ENOSPC) {
		assert_int_equal(err, 0);
		assert_int_equal(tarn_commit_wait(f.ds, token), 0);
	}
}

/* Until only so many inodes and so much space are in use. */
static void wait_for_space(uint64_t inodes, uint64_t least)
{
	struct tarn_statfs sf;

	do {
		commit();
		assert_int_equal(tarn_dataset_statfs(f.ds, &sf), 0);
	} while (sf.files - sf.ffree != inodes || sf.avail < least);
}

static uint64_t available(void)
{
	struct tarn_statfs sf;

	assert_int_equal(tarn_dataset_statfs(f.ds, &sf), 0);
	return sf.avail;
}

/* Files of size bytes until no more fit: their number. */
static unsigned fill(char prefix, size_t size)
{
	struct tarn_create how = {.type = TARN_REG};
	struct tarn_commit token;
	uint64_t seed = test_seed();
	uint8_t *bytes = malloc(size);
	unsigned n;
	int err = 0;

	for (n = 0; n < FILES_MAX && !err; n++) {
		struct tarn_inode *file;
		char name[16];

		for (size_t i = 0; i < size; i++)
			bytes[i] = (uint8_t)test_random(&seed);
		sprintf(name, "%c%u", prefix, n);
		err = tarn_create(&user, dir, name, &how, &file, NULL, NULL, &token);
		if (err)
			break;
		err = fixture_write(file, 0, bytes, size, false);
		tarn_inode_put(file);
	}
	assert_int_equal(err, -ENOSPC);
	free(bytes);
	return n;
}

static void remove_files(char prefix, unsigned from, unsigned to)
{
	struct tarn_commit token;
	char name[16];

	for (unsigned i = from; i < to; i++) {
		int err;

		sprintf(name, "%c%u", prefix, i);
		err = tarn_unlink(&user, dir, name, 0, NULL, &token);
		if (err)
			fail_msg("%s of %u: %s", name, to, strerror(-err));
	}
}

static void fill_and_remove(size_t size)
{
	uint64_t before;

	wait_for_space(2, 1);
	before = available();
	for (unsigned round = 0; round < 2; round++) {
		unsigned n = fill('f', size);

		assert_true(n > 10);
		remove_files('f', 0, n);
		wait_for_space(2, before - before / 50);
	}
}

static void large_files(void **state)
{
	(void)state;
	fill_and_remove(1 << 20);
}

static void small_files(void **state)
{
	(void)state;
	fill_and_remove(5000);
}

/* A dataset that has no room for its root directory is not made. */
static void datasets_are_made_whole(void)
{
	struct tarn_error err = {0};
	struct tarn_attr before, after;
	struct tarn_dataset *ds;
	struct tarn_inode *root;
	char name[32];
	int n = 0, rc = 0;

	assert_int_equal(tarn_root(f.ds, &root), 0);
	for (; !rc && n < 1000; n++) {
		assert_int_equal(tarn_getattr(root, &before), 0);
		sprintf(name, "tank/late%d", n);
		rc = tarn_dataset_create(f.engine, name, NULL, 0, false, &err);
	}
	assert_int_equal(rc, -ENOSPC);
	assert_int_equal(tarn_dataset_open(f.engine, name, NULL, &ds), -ENOENT);
	assert_int_equal(tarn_getattr(root, &after), 0);
	assert_int_equal(after.nlink, before.nlink);
	tarn_inode_put(root);
	while (--n) {
		sprintf(name, "tank/late%d", n - 1);
		assert_int_equal(tarn_dataset_destroy(f.engine, name, false, 0, &err), 0);
	}
}

/* Nothing but metadata: in what a few large files leave, so that it does not take long. */
static void tiny_files(void **state)
{
	unsigned large = fill('l', 1 << 20), tiny;

	(void)state;
	remove_files('l', 0, 3);
	wait_for_space(2 + large - 3, 2 << 20);
	tiny = fill('t', 1);
	assert_true(tiny > 1000);
	datasets_are_made_whole();
	remove_files('t', 0, tiny);
	remove_files('l', 3, large);
	wait_for_space(2, 16 << 20);
}

static void truncation_works_on_a_full_pool(void **state)
{
	struct tarn_setattr zero = {.mask = TARN_SET_SIZE, .size = 0};
	struct tarn_commit token;
	unsigned n = fill('f', 1 << 20);

	(void)state;
	for (unsigned i = 0; i < n; i++) {
		struct tarn_inode *file;
		char name[16];

		sprintf(name, "f%u", i);
		assert_int_equal(tarn_lookup(NULL, dir, name, &file), 0);
		assert_int_equal(tarn_setattr(NULL, file, &zero, NULL, &token), 0);
		tarn_inode_put(file);
	}
	remove_files('f', 0, n);
	wait_for_space(2, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(large_files),
	    cmocka_unit_test(small_files),
	    cmocka_unit_test(tiny_files),
	    cmocka_unit_test(truncation_works_on_a_full_pool),
	};

	return cmocka_run_group_tests_name("api_full", tests, setup, teardown);
}
