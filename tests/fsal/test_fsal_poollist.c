// SPDX-License-Identifier: LGPL-3.0-or-later
/* The list of pools to import at the next start, with a stand-in for the engine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "poollist.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the stand-in: what it has, what it was asked ---- */

struct fake_pool {
	const char *name;
	uint64_t guid;
	bool read_only;
	const char *devs[3];
};

static const struct fake_pool pools[] = {
    {"tank", 0x1111, false, {"/srv/a/0", "/srv/a/1", "/srv/b/2"}},
    {"archive", 0xffffffffffffffff, true, {"/dev/disk/by-id/x y"}},
};

static char asked[1024];      /* imports: GUID, flags and paths */
static unsigned imports_fail; /* so many of the next */
static uint32_t moved;        /* so many devices are not where they were */
static char complaints[256];
static struct pool_list *importing;

int tarn_pool_status(struct tarn_engine *engine, const char *name, struct tarn_pool_status **out)
{
	(void)engine;
	for (size_t i = 0; i < sizeof(pools) / sizeof(pools[0]); i++) {
		if (strcmp(pools[i].name, name) != 0)
			continue;
		struct tarn_pool_status *status = calloc(1, sizeof(*status));
		status->read_only = pools[i].read_only;
		status->devs = calloc(3, sizeof(*status->devs));
		for (; status->ndevs < 3 && pools[i].devs[status->ndevs]; status->ndevs++)
			strcpy(status->devs[status->ndevs].path, pools[i].devs[status->ndevs]);
		*out = status;
		return 0;
	}
	return -ENXIO;
}

void tarn_pool_status_free(struct tarn_pool_status *status)
{
	free(status->devs);
	free(status);
}

int tarn_pool_scan(struct tarn_engine *engine, const char *const *paths, uint32_t npaths,
		   struct tarn_import_candidate **out, uint32_t *count)
{
	(void)engine, (void)paths;
	*out = calloc(2, sizeof(**out));
	*count = 2;
	for (uint32_t i = 0; i < 2; i++)
		(*out)[i] = (struct tarn_import_candidate){
		    .guid = pools[i].guid, .devs_found = npaths - moved, .devs_total = npaths};
	return 0;
}

int tarn_pool_import(struct tarn_engine *engine, const struct tarn_import_spec *spec,
		     struct tarn_error *err)
{
	char *at = asked + strlen(asked);

	at += sprintf(at, "%llx %d:", (unsigned long long)spec->guid, spec->flags);
	for (uint32_t i = 0; i < spec->npaths; i++)
		at += sprintf(at, " %s", spec->paths[i]);
	strcpy(at, "\n");
	if (imports_fail > 0) {
		imports_fail--;
		strcpy(err->text, "devices are missing");
		return -ENODEV;
	}
	/* As the engine does: a pool that has come is announced during the import. */
	for (size_t i = 0; i < sizeof(pools) / sizeof(pools[0]); i++) {
		if (pools[i].guid == spec->guid)
			assert_int_equal(
			    pool_list_update(importing, engine, pools[i].name, spec->guid, true),
			    0);
	}
	return 0;
}

static void complain(const char *name, const char *why)
{
	strcat(strcat(strcat(strcat(complaints, name), ": "), why), "\n");
}

/* ---- a file of its own for each test ---- */

struct fixture {
	char folder[32], path[64];
	struct pool_list list;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->folder, "/tmp/test-poollist.XXXXXX");
	if (!mkdtemp(f->folder))
		return -1;
	sprintf(f->path, "%s/pools", f->folder);
	asked[0] = complaints[0] = '\0';
	imports_fail = moved = 0;
	importing = &f->list;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	unlink(f->path);
	int r = rmdir(f->folder); /* fails if a temporary file was left */
	free(f);
	return r;
}

static void write_list(struct fixture *f, const char *text)
{
	FILE *file = fopen(f->path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void assert_file(struct fixture *f, const char *text)
{
	char got[1024] = "";
	FILE *file = fopen(f->path, "r");

	assert_non_null(file);
	got[fread(got, 1, sizeof(got) - 1, file)] = '\0';
	fclose(file);
	assert_string_equal(got, text);
}

/* ---- tests ---- */

#define TANK "pool 0000000000001111 tank rw\ndev /srv/a/0\ndev /srv/a/1\ndev /srv/b/2\n"
#define ARCHIVE "pool ffffffffffffffff archive ro\ndev /dev/disk/by-id/x y\n"

static void test_follows_pools(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(pool_list_open(&f->list, f->path), 0);
	pool_list_import(&f->list, NULL, complain);
	assert_string_equal(asked, "");
	assert_int_equal(pool_list_update(&f->list, NULL, "tank", 0x1111, true), 0);
	assert_file(f, TANK);
	assert_int_equal(pool_list_update(&f->list, NULL, "archive", UINT64_MAX, true), 0);
	assert_file(f, ARCHIVE TANK);
	/* Told again: replaced, not doubled. */
	assert_int_equal(pool_list_update(&f->list, NULL, "tank", 0x1111, true), 0);
	assert_file(f, TANK ARCHIVE);
	assert_int_equal(pool_list_update(&f->list, NULL, "tank", 0x1111, false), 0);
	assert_file(f, ARCHIVE);
	pool_list_close(&f->list);
}

static void test_imports_what_was(void **state)
{
	struct fixture *f = *state;

	write_list(f, TANK ARCHIVE);
	assert_int_equal(pool_list_open(&f->list, f->path), 0);
	pool_list_import(&f->list, NULL, complain);
	assert_string_equal(complaints, "");
	assert_non_null(strstr(asked, "1111 0: /srv/a/0 /srv/a/1 /srv/b/2\n"));
	assert_non_null(strstr(asked, "ffffffffffffffff 4: /dev/disk/by-id/x y\n"));
	pool_list_close(&f->list);
	/* Nothing was lost on the way. */
	assert_int_equal(pool_list_open(&f->list, f->path), 0);
	asked[0] = '\0';
	pool_list_import(&f->list, NULL, complain);
	assert_non_null(strstr(asked, "1111 0:"));
	assert_non_null(strstr(asked, "ffffffffffffffff 4:"));
	pool_list_close(&f->list);
}

/* Devices that were added or renamed lie beside the others: their folders are searched. */
static void test_searches_folders(void **state)
{
	struct fixture *f = *state;

	write_list(f, TANK);
	assert_int_equal(pool_list_open(&f->list, f->path), 0);
	moved = 1;
	pool_list_import(&f->list, NULL, complain);
	assert_string_equal(asked, "1111 0: /srv/a/0 /srv/a/1 /srv/b/2 /srv/a /srv/b\n");
	assert_string_equal(complaints, "");
	pool_list_close(&f->list);
}

static void test_failed_import_stays(void **state)
{
	struct fixture *f = *state;

	write_list(f, TANK);
	assert_int_equal(pool_list_open(&f->list, f->path), 0);
	imports_fail = 1;
	pool_list_import(&f->list, NULL, complain);
	assert_string_equal(complaints, "tank: devices are missing\n");
	/* Another pool's news keeps it in the file. */
	assert_int_equal(pool_list_update(&f->list, NULL, "archive", UINT64_MAX, true), 0);
	assert_file(f, ARCHIVE TANK);
	pool_list_close(&f->list);
}

static void test_damaged_file(void **state)
{
	struct fixture *f = *state;
	static const char *const bad[] = {
	    "dev /srv/a/0\n",
	    "pool xyz tank rw\n",
	    "pool 1111 tank\n",
	    "pool 1111 tank rw trailing\n",
	    "pool 1111 tank rw\ndev relative\n",
	    "pool 1111 tank rw\npool 1111 again rw\n",
	    "\n",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		write_list(f, bad[i]);
		assert_int_equal(pool_list_open(&f->list, f->path), -EINVAL);
		pool_list_close(&f->list);
	}
	/* What stands before the damage is used, and what comes behind it: else the next change of
	   the list would forget it. */
	write_list(f, TANK "rubbish\ndev /srv/c/3\npool 22 x\ndev /srv/c/4\n" ARCHIVE);
	assert_int_equal(pool_list_open(&f->list, f->path), -EINVAL);
	pool_list_import(&f->list, NULL, complain);
	assert_non_null(strstr(asked, "1111 0: /srv/a/0 /srv/a/1 /srv/b/2\n"));
	assert_non_null(strstr(asked, "ffffffffffffffff 4: /dev/disk/by-id/x y\n"));
	pool_list_close(&f->list);
}

static void test_full_disk(void **state)
{
	struct fixture *f = *state;
	char temp[80];

	write_list(f, ARCHIVE);
	snprintf(temp, sizeof(temp), "%s.new", f->path);
	assert_int_equal(symlink("/dev/full", temp), 0);
	assert_int_equal(pool_list_open(&f->list, f->path), 0);
	assert_int_equal(pool_list_update(&f->list, NULL, "tank", 0x1111, true), -ENOSPC);
	assert_file(f, ARCHIVE);
	pool_list_close(&f->list);
}

static void test_unwritable(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(pool_list_open(&f->list, "/nonexistent/folder/pools"), 0);
	assert_int_equal(pool_list_update(&f->list, NULL, "tank", 0x1111, true), -ENOENT);
	pool_list_close(&f->list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_follows_pools, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_imports_what_was, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_searches_folders, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_failed_import_stays, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_damaged_file, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_full_disk, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_unwritable, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
