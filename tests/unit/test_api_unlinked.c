// SPDX-License-Identifier: LGPL-3.0-or-later
/* Inodes that have lost their last name: how long they live, and what becomes of their numbers. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "name_rig.h"

static void an_unlinked_file_lives_until_its_last_close(void **state)
{
	struct tarn_inode *file = file_new(root, "held"), *got;
	uint64_t gen = tarn_inode_generation(file);
	struct tarn_commit token;
	char buf[5];
	size_t done;
	bool eof;

	(void)state;
	assert_int_equal(tarn_open(file), 0);
	assert_int_equal(tarn_open(file), 0);
	assert_int_equal(fixture_write(file, 0, "hello", 5, false), 0);
	assert_int_equal(drop(NULL, root, "held"), 0);
	wait_for_inodes(1 + 1);
	tarn_close(file);
	assert_int_equal(fixture_read(file, 0, buf, 5, &done, &eof), 0);
	assert_int_equal(done, 5);
	assert_memory_equal(buf, "hello", 5);
	assert_int_equal(fixture_write(file, 5, " world", 6, false), 0);
	assert_int_equal(attr_of(file).size, 11);
	/* A handle still leads to it. */
	assert_int_equal(tarn_inode_get(f.ds, tarn_inode_number(file), gen, &got), 0);
	tarn_inode_put(got);
	tarn_close(file);
	assert_int_equal(tarn_inode_get(f.ds, tarn_inode_number(file), gen, &got), -ESTALE);
	assert_int_equal(tarn_open(file), -ESTALE);
	wait_for_inodes(1);
	assert_int_not_equal(fixture_read(file, 0, buf, 5, &done, &eof), 0);
	assert_int_equal(tarn_punch(NULL, file, 100, 5, &token), -ESTALE);
	tarn_inode_put(file);
}

static void an_import_removes_what_was_open(void **state)
{
	struct tarn_inode *file[20], *got;
	uint64_t ino, gen;
	char name[32];

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		sprintf(name, "open%u", i);
		file[i] = file_new(root, name);
		assert_int_equal(fixture_write(file[i], i * 100000, name, strlen(name), false), 0);
		assert_int_equal(tarn_open(file[i]), 0);
		assert_int_equal(drop(NULL, root, name), 0);
	}
	ino = tarn_inode_number(file[0]);
	gen = tarn_inode_generation(file[0]);
	remount();
	for (unsigned i = 0; i < 20; i++) {
		struct tarn_attr attr;

		assert_int_equal(tarn_getattr(file[i], &attr), -ENXIO);
		tarn_close(file[i]);
		tarn_inode_put(file[i]);
	}
	assert_int_equal(tarn_inode_get(f.ds, ino, gen, &got), -ESTALE);
	wait_for_inodes(1);
}

/* Removal goes in steps; an export in between leaves the rest to the next import. */
static void an_export_may_come_between_the_steps_of_a_removal(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 6; round++) {
		struct tarn_inode *file = file_new(root, "large");
		struct tarn_commit token;
		char name[16];

		for (unsigned i = 0; i < 1000; i++) {
			sprintf(name, "x%u", i);
			assert_int_equal(
			    tarn_xattr_set(NULL, file, name, name, 16, TARN_XATTR_ANY, &token), 0);
			assert_int_equal(fixture_write(file, i * 1048576ull, name, 16, false), 0);
		}
		tarn_inode_put(file);
		assert_int_equal(drop(NULL, root, "large"), 0);
		for (unsigned i = 0; i < round; i++)
			inodes(); /* commits */
		remount();
		wait_for_inodes(1);
	}
}

static void numbers_are_dense_and_come_back(void **state)
{
	struct tarn_inode *dir = dir_new(root, "dense", 0755), *file, *got;
	uint64_t most = 0, ino, gen;
	char name[32];

	(void)state;
	wait_for_inodes(2);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 3000; i++) {
			sprintf(name, "n%u", i);
			file = file_new(dir, name);
			ino = tarn_inode_number(file);
			gen = tarn_inode_generation(file);
			if (ino > most)
				most = ino;
			tarn_inode_put(file);
		}
		/* 16 windows of 64 at most lie open. */
		assert_true(most <= 3 + 1 + 3000 + 16 * 64);
		empty(dir, "n", 0, 3000);
		wait_for_inodes(2);
		assert_int_equal(tarn_inode_get(f.ds, ino, gen, &got), -ESTALE);
	}
	assert_int_equal(drop(NULL, root, "dense"), 0);
	tarn_inode_put(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_unlinked_file_lives_until_its_last_close),
	    cmocka_unit_test(an_import_removes_what_was_open),
	    cmocka_unit_test(an_export_may_come_between_the_steps_of_a_removal),
	    cmocka_unit_test(numbers_are_dense_and_come_back),
	};

	return cmocka_run_group_tests_name("api_unlinked", tests, name_setup, name_teardown);
}
