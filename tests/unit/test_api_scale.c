// SPDX-License-Identifier: LGPL-3.0-or-later
/* What must not grow with the number of files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "pool_fixture.h"
#include <cmocka.h>
#include <tarn/pool.h>

#define DIR_FILES 1000

static struct fixture f;

static void make_directory(struct tarn_inode *root, unsigned number)
{
	struct tarn_create how = {.type = TARN_DIR};
	struct tarn_inode *dir, *file;
	struct tarn_commit token;
	char name[32];

	snprintf(name, sizeof(name), "dir%u", number);
	assert_int_equal(tarn_create(NULL, root, name, &how, &dir, NULL, NULL, &token), 0);
	how.type = TARN_REG;
	for (unsigned i = 0; i < DIR_FILES; i++) {
		snprintf(name, sizeof(name), "file%u", i);
		assert_int_equal(tarn_create(NULL, dir, name, &how, &file, NULL, NULL, &token), 0);
		tarn_inode_put(file);
	}
	tarn_inode_put(dir);
}

/* Bytes read from the device by an import and the first lookup. */
static uint64_t import_reads(void)
{
	struct tarn_pool_status *status;
	struct tarn_inode *root, *dir;
	uint64_t bytes;

	fixture_remount(&f);
	assert_int_equal(tarn_root(f.ds, &root), 0);
	assert_int_equal(tarn_lookup(NULL, root, "dir0", &dir), 0);
	assert_int_equal(tarn_pool_status(f.engine, FIXTURE_POOL, &status), 0);
	bytes = status->devs[0].read_bytes;
	tarn_pool_status_free(status);
	tarn_inode_put(dir);
	tarn_inode_put(root);
	return bytes;
}

static void test_import(void **state)
{
	unsigned directories = 20 * test_scale();
	struct tarn_inode *root;
	uint64_t few, many;

	(void)state;
	fixture_begin(&f, 1, 4ull << 30, false, NULL);
	assert_int_equal(tarn_root(f.ds, &root), 0);
	make_directory(root, 0);
	tarn_inode_put(root);
	few = import_reads();
	assert_int_equal(tarn_root(f.ds, &root), 0);
	for (unsigned i = 1; i < directories; i++)
		make_directory(root, i);
	tarn_inode_put(root);
	many = import_reads();
	print_message("%u files: %llu bytes read, %u files: %llu\n", DIR_FILES,
		      (unsigned long long)few, directories * DIR_FILES, (unsigned long long)many);
	/* A level or two of the tree, and how full the allocation log happens to be. */
	assert_in_range(many, 0, few + (512u << 10));
	fixture_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_import)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
