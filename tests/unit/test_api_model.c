// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The model test: random scripts of all operations of the public API against a pool on simulated
 * devices and against a plain model, in several threads, with remounts, power cuts,
 * device errors and full pools in between, and the whole pool checked after each.
 *
 * A failure is shrunk and printed as a script: test_api_model FILE runs it again. More in
 * docs/testing.md.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model_shrink.h"
#include "pool_fixture.h"
#include <cmocka.h>

enum { AT_ONCE = 2, TRIALS = 3000 };
#define EPISODE 25000 /* operations of one script */

/* Sanitizers are several times slower. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLOWER = 10 };
#else
enum { SLOWER = 1 };
#endif

static void shrink_and_fail(struct script *s, struct failure *f)
{
	print_error("operation %zu of %zu: %s\n", f->at, s->n, f->why);
	if (f->at < s->n)
		op_print(&s->ops[f->at], stderr);
	model_shrink(s, NULL, TRIALS, f);
	print_error("the shortest script found (%zu operations), %s:\n", s->n, f->why);
	script_print(s, stderr);
	fail_msg("%s", f->why);
}

/* Episodes of one profile, so many operations together. */
static void run_profile(enum profile profile, size_t operations)
{
	uint64_t seed = test_seed() + (uint64_t)profile * 1000003;
	size_t episode = operations / AT_ONCE < EPISODE ? operations / AT_ONCE : EPISODE;
	struct recording *rec[AT_ONCE];
	struct trial trials[AT_ONCE];
	struct script failed = {0};
	struct failure f, why;

	for (unsigned i = 0; i < AT_ONCE; i++)
		rec[i] = recording_new(episode);
	for (size_t done = 0; done < operations && !failed.n; done += AT_ONCE * episode) {
		for (unsigned i = 0; i < AT_ONCE; i++)
			trials[i] = trial_random(profile, seed++, rec[i], NULL, false);
		for (unsigned i = 0; i < AT_ONCE; i++)
			if (!trial_end(&trials[i], &f) && !failed.n) {
				recording_script(rec[i], &failed);
				why = f;
			}
	}
	for (unsigned i = 0; i < AT_ONCE; i++)
		recording_free(rec[i]);
	if (failed.n)
		shrink_and_fail(&failed, &why);
}

static void test_sequential(void **state)
{
	(void)state;
	run_profile(PROFILE_SEQUENTIAL, 600000ull * test_scale() / SLOWER);
}

static void test_parallel(void **state)
{
	(void)state;
	run_profile(PROFILE_PARALLEL, 250000ull * test_scale() / SLOWER);
}

static void test_faults(void **state)
{
	(void)state;
	run_profile(PROFILE_FAULTS, 100000ull * test_scale() / SLOWER);
}

static void test_full(void **state)
{
	(void)state;
	run_profile(PROFILE_FULL, 50000ull * test_scale() / SLOWER);
}

/* ---- the test itself ---- */

static enum lie forgets_removal(const struct op *op)
{
	return op->kind == OP_XREMOVE && op->name == 1 ? LIE_DROP : LIE_NOT;
}

static enum lie forgets_short_writes(const struct op *op)
{
	return op->kind == OP_WRITE && op->b < 1000 && op->c % 4 == 3 ? LIE_DROP : LIE_NOT;
}

static enum lie crashes(const struct op *op)
{
	if (op->kind == OP_RENAME && op->name2 == 3)
		abort();
	return LIE_NOT;
}

static enum lie loses_updates(const struct op *op)
{
	return op->kind == OP_XSET && op->thread == 2 ? LIE_DROP : LIE_NOT;
}

static enum lie tears_writes(const struct op *op)
{
	return op->kind == OP_WRITE && op->thread == 1 && op->b > 16 ? LIE_TEAR : LIE_NOT;
}

static void left_over(const struct script *s, const struct failure *f)
{
	script_print(s, stderr);
	fail_msg("%zu operations are left: %s", s->n, f->why);
}

/* An engine with one fault: it is found, and a script is left that one can read. */
static void must_find(enum profile profile, size_t operations, size_t most,
		      enum lie (*lie)(const struct op *op))
{
	struct recording *rec = recording_new(operations);
	struct script s = {0};
	struct failure f = {0};
	struct trial trial;
	size_t needed = 0;
	bool found = false;

	for (uint64_t seed = 7; !found && seed < 30; seed++) {
		trial = trial_random(profile, seed, rec, lie, true);
		found = !trial_end(&trial, &f);
	}
	assert_true(found);
	recording_script(rec, &s);
	recording_free(rec);
	model_shrink(&s, lie, 300, &f);
	if (s.n > most)
		left_over(&s, &f);
	/* It is the fault that is left. */
	for (size_t i = 0; i < s.n && lie != crashes; i++)
		needed += lie(&s.ops[i]) != LIE_NOT;
	assert_true(needed > 0 || lie == crashes);
	trial = trial_start(&s, NULL, true);
	if (!trial_end(&trial, &f))
		left_over(&s, &f);
	script_free(&s);
}

static void test_finds_what_is_not_done(void **state)
{
	(void)state;
	must_find(PROFILE_SEQUENTIAL, 1500, 4, forgets_removal);
	must_find(PROFILE_SEQUENTIAL, 1500, 6, forgets_short_writes);
}

static void test_finds_crashes(void **state)
{
	(void)state;
	must_find(PROFILE_SEQUENTIAL, 1500, 4, crashes);
}

/* Whether threads meet is the machine's affair, so that a step of the shrinker may miss the fault.
 */
#define ANY_LENGTH SIZE_MAX

static void test_finds_lost_updates(void **state)
{
	(void)state;
	if (SLOWER > 1)
		skip(); /* it proves the test, not the engine, and takes long */
	must_find(PROFILE_PARALLEL, 600, ANY_LENGTH, loses_updates);
}

static void test_finds_torn_writes(void **state)
{
	(void)state;
	if (SLOWER > 1)
		skip(); /* it proves the test, not the engine, and takes long */
	must_find(PROFILE_PARALLEL, 1000, ANY_LENGTH, tears_writes);
}

/* A script says all there is to say. */
static void test_scripts_are_text(void **state)
{
	struct script s = {0}, again = {0};
	FILE *file = tmpfile();
	size_t line;

	(void)state;
	for (unsigned kind = 0; kind < OP_KINDS; kind++) {
		struct op op = {.kind = (uint8_t)kind, .thread = kind % 4, .h = 1, .h2 = 2};

		op.to = 3 + (kind % 2) * (NO_HANDLE - 3);
		op.name = 4;
		op.name2 = 5;
		op.user = 2;
		op.a = 1ull << kind;
		op.b = UINT64_MAX - kind;
		op.c = kind;
		script_add(&s, &op);
	}
	script_print(&s, file);
	rewind(file);
	assert_true(script_parse(file, &again, &line));
	assert_int_equal(again.n, s.n);
	rewind(file);
	for (size_t i = 0; i < s.n; i++) {
		char is[300] = "", was[300] = "";
		FILE *a = fmemopen(was, sizeof(was), "w"), *b = fmemopen(is, sizeof(is), "w");

		op_print(&s.ops[i], a);
		op_print(&again.ops[i], b);
		fclose(a);
		fclose(b);
		assert_string_equal(is, was);
	}
	fclose(file);
	script_free(&s);
	script_free(&again);
}

/* ---- by hand ---- */

static bool read_script(const char *path, struct script *s)
{
	FILE *file = fopen(path, "re");
	size_t line = 0;
	bool ok;

	if (!file) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return false;
	}
	ok = script_parse(file, s, &line);
	fclose(file);
	if (!ok)
		fprintf(stderr, "%s, line %zu: not understood\n", path, line);
	return ok;
}

static int tell(const struct script *s, const struct failure *f)
{
	fprintf(stderr, "operation %zu: %s\n", f->at, f->why);
	if (f->at < s->n)
		op_print(&s->ops[f->at], stderr);
	return 1;
}

/* In this process, for a debugger. */
static int replay(const char *path)
{
	struct script s = {0};
	struct failure f;
	int rc = 2;

	if (read_script(path, &s)) {
		struct script_source source = script_source(&s);

		rc = model_run(&source.source, NULL, &f) ? 0 : tell(&s, &f);
	}
	script_free(&s);
	return rc;
}

static int shrink(const char *path)
{
	struct failure f = {.at = SIZE_MAX, .why = "does not fail"};
	struct script s = {0};
	int rc = 2;

	if (read_script(path, &s)) {
		model_shrink(&s, NULL, TRIALS, &f);
		script_print(&s, stdout);
		rc = tell(&s, &f);
	}
	script_free(&s);
	return rc;
}

/* Prints what was done if it fails. */
static int run_random(char **argv)
{
	unsigned long profile = strtoul(argv[0], NULL, 10);
	struct recording *rec = recording_new(strtoul(argv[2], NULL, 10));
	struct script s = {0};
	struct trial trial;
	struct failure f;
	int rc = 2;

	if (profile < PROFILES) {
		trial = trial_random((enum profile)profile, strtoull(argv[1], NULL, 10), rec, NULL,
				     false);
		rc = trial_end(&trial, &f) ? 0 : 1;
	}
	if (rc == 1) {
		recording_script(rec, &s);
		script_print(&s, stdout);
		tell(&s, &f);
		script_free(&s);
	}
	recording_free(rec);
	return rc;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_scripts_are_text),
	    cmocka_unit_test(test_finds_what_is_not_done),
	    cmocka_unit_test(test_finds_crashes),
	    cmocka_unit_test(test_finds_lost_updates),
	    cmocka_unit_test(test_finds_torn_writes),
	    cmocka_unit_test(test_sequential),
	    cmocka_unit_test(test_parallel),
	    cmocka_unit_test(test_faults),
	    cmocka_unit_test(test_full),
	};

	if (argc == 2)
		return replay(argv[1]);
	if (argc == 3 && !strcmp(argv[1], "-s"))
		return shrink(argv[2]);
	if (argc == 5 && !strcmp(argv[1], "-r"))
		return run_random(argv + 2);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
