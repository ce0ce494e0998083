// SPDX-License-Identifier: LGPL-3.0-or-later
/* Random operations on a tree and on a sorted array; txgs frozen at random points are written by
   another thread meanwhile. Old roots keep what they had. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>

#include "tree_rig.h"

#define HISTORY TXG_KEEP

struct version {
	uint64_t txg;
	struct bp root;
	struct model m;
};

struct run {
	struct rig r;
	struct model m;
	uint64_t random;
	uint32_t keys;
	const char *prefix;
	bool syncing;
	pthread_t thread;
	struct version writing, old[HISTORY];
	uint32_t nold;
};

static void freeze(void *arg, uint64_t txg)
{
	struct run *run = arg;

	tree_freeze(&run->r.tree, txg);
	run->writing = (struct version){.txg = txg, .m = model_copy(&run->m)};
}

static void *sync_thread(void *arg)
{
	struct run *run = arg;

	run->writing.root = rig_sync(&run->r, run->writing.txg);
	return NULL;
}

static void sync_join(struct run *run)
{
	struct version *slot;

	if (!run->syncing)
		return;
	pthread_join(run->thread, NULL);
	run->syncing = false;
	slot = &run->old[run->nold++ % HISTORY];
	model_free(&slot->m);
	*slot = run->writing;
}

static void sync_start(struct run *run)
{
	sync_join(run);
	fake_barrier(run->r.f, freeze, run);
	run->syncing = true;
	FAKE_CHECK(pthread_create(&run->thread, NULL, sync_thread, run) == 0);
}

/* Each kept root as an import would see it: with nothing in memory. */
static void check_history(struct run *run)
{
	struct rig fresh;

	sync_join(run);
	for (uint32_t i = 0; i < HISTORY; i++) {
		struct version *v = &run->old[i];

		if (!v->txg)
			continue;
		rig_open(&fresh, run->r.f, 1 << 20, &v->root);
		rig_expect_walk(&fresh, &v->root, &v->m, v->txg, true);
		for (uint32_t k = 0; k < v->m.count; k += 17)
			rig_expect(&fresh, v->m.item[k]->key, v->m.item[k]->klen, v->m.item[k]);
		rig_close(&fresh);
	}
}

static void one_change(struct run *run)
{
	struct model_item it = rig_item(&run->random, run->keys, run->prefix);
	bool found, pin = test_random(&run->random) % 3 == 0;
	uint32_t i = model_find(&run->m, it.key, it.klen, &found);

	if (test_random(&run->random) % 3) {
		rig_put(&run->r, &it, pin);
		model_put(&run->m, &it);
	} else {
		FAKE_CHECK(rig_del(&run->r, it.key, it.klen, pin) == (found ? 0 : -ENOENT));
		if (found)
			model_del(&run->m, i);
	}
}

/* A whole range of keys goes, as in rm -rf. */
static void many_deletes(struct run *run)
{
	uint32_t n = run->m.count / 2 + 1, i;

	if (run->m.count == 0)
		return;
	i = test_random(&run->random) % run->m.count;
	while (n-- && i < run->m.count) {
		FAKE_CHECK(rig_del(&run->r, run->m.item[i]->key, run->m.item[i]->klen, false) == 0);
		model_del(&run->m, i);
	}
}

static void one_look(struct run *run)
{
	struct model_item it = rig_item(&run->random, run->keys, run->prefix);
	bool found;
	uint32_t i = model_find(&run->m, it.key, it.klen, &found);

	switch (test_random(&run->random) % 4) {
	case 0:
		rig_expect(&run->r, it.key, it.klen, found ? run->m.item[i] : NULL);
		break;
	case 1:
		rig_expect_next(&run->r, &run->m, it.key, it.klen, test_random(&run->random) % 2);
		break;
	case 2:
		rig_expect_run(&run->r, &run->m, it.key, it.klen, test_random(&run->random) % 2,
			       (uint32_t)test_random(&run->random) % 300,
			       TREE_RUN_MIN + (uint32_t)test_random(&run->random) % TREE_NODE_SIZE);
		break;
	default:
		rig_expect_prev(&run->r, &run->m, it.key, it.klen);
	}
}

static void model_run(uint64_t seed, uint32_t keys, const char *prefix, uint64_t cache_max,
		      unsigned fail, int steps)
{
	struct bp empty = bp_hole(1, 0);
	struct run run = {.random = seed, .keys = keys, .prefix = prefix};
	struct fake *f = fake_new(&(struct fake_options){
	    .threads = 2, .keep = TXG_KEEP, .seed = seed, .fail_writes = fail});

	rig_open(&run.r, f, cache_max, &empty);
	for (int i = 0; i < steps; i++) {
		uint64_t dice = test_random(&run.random) % 1000;

		if (dice < 600)
			one_change(&run);
		else if (dice < 980)
			one_look(&run);
		else if (dice < 995)
			sync_start(&run);
		else if (dice < 997)
			many_deletes(&run);
		else
			check_history(&run);
	}
	sync_start(&run);
	check_history(&run);
	while (run.m.count)
		many_deletes(&run);
	sync_start(&run);
	check_history(&run);
	for (int i = 0; i < HISTORY; i++)
		model_free(&run.old[i].m);
	model_free(&run.m);
	rig_close(&run.r);
	fake_free(f);
	assert_int_equal(atomic_load(&rig_objects), 0);
}

static void test_small(void **state)
{
	model_run(*(uint64_t *)*state, 60, "k", 4 << 20, 0, 6000);
}

static void test_medium(void **state)
{
	model_run(*(uint64_t *)*state + 1, 3000, "k", 8 << 20, 0, 12000);
}

/* Misses all the time. */
static void test_tiny_cache(void **state)
{
	model_run(*(uint64_t *)*state + 2, 2000, "k", 600 << 10, 0, 8000);
}

static void test_failing_writes(void **state)
{
	model_run(*(uint64_t *)*state + 3, 2000, "k", 2 << 20, 20, 8000);
}

/* Long separators make a tree of many levels. */
static void test_deep(void **state)
{
	char prefix[481];

	memset(prefix, 'p', sizeof(prefix) - 1);
	prefix[sizeof(prefix) - 1] = 0;
	model_run(*(uint64_t *)*state + 4, 8000, prefix, 4 << 20, 5, 12000);
}

int main(void)
{
	static uint64_t seed;
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_prestate(test_small, &seed),
	    cmocka_unit_test_prestate(test_medium, &seed),
	    cmocka_unit_test_prestate(test_tiny_cache, &seed),
	    cmocka_unit_test_prestate(test_failing_writes, &seed),
	    cmocka_unit_test_prestate(test_deep, &seed),
	};

	seed = test_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
