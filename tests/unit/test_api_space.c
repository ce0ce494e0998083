// SPDX-License-Identifier: LGPL-3.0-or-later
/* What is reserved is what is written: a pool that fills up answers -ENOSPC and goes on. */
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

#define FILES_MAX 1000 /* never reached */
#define HEAD 100
#define HOLES 200 /* records */
#define BYTES (1020u << 10)

static struct fixture f;

/* Large txgs: much is reserved before anything of it is allocated. A mirror: what is reserved for
   data is no more than it takes. */
static int setup(void **state)
{
	struct tarn_config config = {
	    .arc_max = 16 << 20, .dirty_max = 1u << 30, .threads = 2, .txg_seconds = 600};
	struct tarn_prop prop = {"recordsize", "1M"};
	struct tarn_error err = {0};

	(void)state;
	fixture_begin(&f, 2, 128 << 20, true, &config);
	assert_int_equal(tarn_dataset_set(f.engine, FIXTURE_POOL, &prop, 1, &err), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fixture_end(&f);
	return 0;
}

static struct tarn_inode *make(struct tarn_inode *root, unsigned n, int *err)
{
	struct tarn_create how = {.type = TARN_REG};
	struct tarn_inode *file = NULL;
	struct tarn_commit token;
	char name[16];

	snprintf(name, sizeof(name), "f%u", n);
	*err = tarn_create(NULL, root, name, &how, &file, NULL, NULL, &token);
	return file;
}

/* A few bytes, then the rest: the second write grows the dirty record of the first one in its
   place. */
static void records_grow_in_place(void **state)
{
	uint64_t seed = test_seed();
	uint8_t *bytes = malloc(BYTES);
	struct tarn_inode *root;
	unsigned n;
	int err = 0;

	(void)state;
	for (size_t i = 0; i < BYTES; i++)
		bytes[i] = (uint8_t)test_random(&seed);
	assert_int_equal(tarn_root(f.ds, &root), 0);
	for (n = 0; n < FILES_MAX && !err; n++) {
		struct tarn_inode *file = make(root, n, &err);

		if (err)
			break;
		err = fixture_write(file, 0, bytes, HEAD, false);
		if (!err)
			err = fixture_write(file, HEAD, bytes + HEAD, BYTES - HEAD, false);
		tarn_inode_put(file);
	}
	print_message("%u files\n", n);
	assert_int_equal(err, -ENOSPC);
	assert_true(n > 50);
	tarn_inode_put(root);
	free(bytes);
}

/* Files of random bytes, from number n on, until no more fit: the next number. */
static unsigned fill(struct tarn_inode *root, unsigned n, size_t size)
{
	uint64_t seed = test_seed();
	uint8_t *bytes = malloc(size);
	int err = 0;

	for (; n < FILES_MAX && !err; n++) {
		struct tarn_inode *file = make(root, n, &err);

		if (err)
			break;
		for (size_t i = 0; i < size; i++)
			bytes[i] = (uint8_t)test_random(&seed);
		err = fixture_write(file, 0, bytes, size, false);
		tarn_inode_put(file);
	}
	assert_int_equal(err, -ENOSPC);
	free(bytes);
	return n;
}

/* What is kept back for freeing stays that, however many writes come between. */
static void writers_get_nothing_of_what_is_kept_back(void **state)
{
	struct tarn_setattr size = {.mask = TARN_SET_SIZE, .size = (uint64_t)HOLES << 20};
	uint8_t bytes[64 << 10];
	struct tarn_inode *root, *holes, *file;
	struct tarn_commit token;
	uint64_t seed = test_seed();
	unsigned n, written = 0;
	int err;

	(void)state;
	assert_int_equal(tarn_root(f.ds, &root), 0);
	holes = make(root, FILES_MAX, &err);
	assert_int_equal(err, 0);
	file = make(root, FILES_MAX + 1, &err);
	assert_int_equal(err, 0);
	assert_int_equal(tarn_setattr(NULL, holes, &size, NULL, &token), 0);
	assert_int_equal(fixture_write(holes, 0, "hole?", 5, false), 0);
	n = fill(root, 0, 4 << 20);
	n = fill(root, n, 64 << 10);
	for (unsigned i = 0; i < 100; i++) {
		for (size_t k = 0; k < sizeof(bytes); k++)
			bytes[k] = (uint8_t)test_random(&seed);
		assert_int_equal(
		    tarn_punch(NULL, holes, 1 << 20, (uint64_t)(HOLES - 1) << 20, &token), 0);
		err = fixture_write(file, written * sizeof(bytes), bytes, sizeof(bytes), false);
		assert_true(!err || err == -ENOSPC);
		written += !err;
	}
	print_message("%u files, then %u writes\n", n, written);
	assert_true(written * sizeof(bytes) < 2 << 20);
	tarn_inode_put(file);
	tarn_inode_put(holes);
	tarn_inode_put(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(records_grow_in_place, setup, teardown),
	    cmocka_unit_test_setup_teardown(writers_get_nothing_of_what_is_kept_back, setup,
					    teardown),
	};

	return cmocka_run_group_tests_name("api_space", tests, NULL, NULL);
}
