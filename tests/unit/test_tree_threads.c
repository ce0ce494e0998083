// SPDX-License-Identifier: LGPL-3.0-or-later
/* Threads change keys of their own in one tree, others read, while txgs are frozen and written.
   Freed blocks vanish as soon as no reader is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tree_rig.h"

#define WRITERS 3
#define READERS 2
#define KEYS 400

struct writer {
	struct run *run;
	struct model m; /* of its keys; changed inside a tx as the tree is */
	uint64_t random;
	char prefix[16];
	pthread_t thread;
};

struct run {
	struct rig r;
	struct writer writer[WRITERS];
	pthread_rwlock_t models; /* writers hold it for reading around a change and its model's */
	struct model frozen;
	uint64_t txg;
	int steps;
	atomic_int writing;
	atomic_bool stop;
};

static void writer_step(struct writer *w)
{
	struct model_item it = rig_item(&w->random, KEYS, w->prefix);
	bool found, pin = test_random(&w->random) % 4 == 0;
	uint32_t i = model_find(&w->m, it.key, it.klen, &found);
	struct rig *r = &w->run->r;

	if (test_random(&w->random) % 4 == 0) {
		rig_expect(r, it.key, it.klen, found ? w->m.item[i] : NULL);
		return;
	}
	/* The barrier must not come between the change and the model's. */
	pthread_rwlock_rdlock(&w->run->models);
	if (test_random(&w->random) % 5 < 2) {
		FAKE_CHECK(rig_del(r, it.key, it.klen, pin) == (found ? 0 : -ENOENT));
		if (found)
			model_del(&w->m, i);
	} else {
		rig_put(r, &it, pin);
		model_put(&w->m, &it);
	}
	pthread_rwlock_unlock(&w->run->models);
}

static void *writer_thread(void *arg)
{
	struct writer *w = arg;

	for (int i = 0; i < w->run->steps; i++)
		writer_step(w);
	atomic_fetch_sub(&w->run->writing, 1);
	return NULL;
}

/* Keys come in order, whatever happens meanwhile. */
static void *reader_thread(void *arg)
{
	struct run *run = arg;
	uint8_t key[TREE_KEY_MAX], last[TREE_KEY_MAX], buf[64];
	uint32_t klen = 0, last_len;
	struct tree_miss miss;
	struct tree_val v;
	int rc;

	while (!atomic_load(&run->stop)) {
		memcpy(last, key, klen);
		last_len = klen;
		rc = tree_next(&run->r.tree, last, last_len, true, NULL, 0, key, &klen, buf,
			       sizeof(buf), &v, &miss);
		if (rc == 0) {
			uint32_t n = klen < last_len ? klen : last_len;
			int diff = memcmp(last, key, n);

			FAKE_CHECK(diff < 0 || (diff == 0 && klen > last_len));
			tree_val_put(&v);
		} else if (rc == -EAGAIN) {
			FAKE_CHECK(tree_fetch(&run->r.tree, &miss) == 0);
			klen = last_len;
		} else {
			FAKE_CHECK(rc == -ENOENT);
			klen = 0;
		}
	}
	return NULL;
}

static void freeze(void *arg, uint64_t txg)
{
	struct run *run = arg;

	tree_freeze(&run->r.tree, txg);
	run->txg = txg;
	for (int i = 0; i < WRITERS; i++) {
		struct model *m = &run->writer[i].m;

		for (uint32_t k = 0; k < m->count; k++)
			model_put(&run->frozen, m->item[k]);
	}
}

static void one_txg(struct run *run)
{
	struct bp root;

	pthread_rwlock_wrlock(&run->models);
	fake_barrier(run->r.f, freeze, run);
	pthread_rwlock_unlock(&run->models);
	root = rig_sync(&run->r, run->txg);
	rig_expect_walk(&run->r, &root, &run->frozen, run->txg, true);
	model_free(&run->frozen);
}

static void threads_run(uint64_t seed, uint64_t cache_max, unsigned fail, int steps)
{
	struct bp empty = bp_hole(1, 0);
	struct run run = {.steps = steps, .writing = WRITERS};
	pthread_t reader[READERS];
	pthread_rwlockattr_t attr;
	struct fake *f = fake_new(
	    &(struct fake_options){.threads = 2, .keep = 0, .seed = seed, .fail_writes = fail});

	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&run.models, &attr);
	pthread_rwlockattr_destroy(&attr);
	rig_open(&run.r, f, cache_max, &empty);
	for (int i = 0; i < WRITERS; i++) {
		run.writer[i] = (struct writer){.run = &run, .random = seed + i * 1000003};
		/* Keys of all writers mixed in the leaves. */
		snprintf(run.writer[i].prefix, sizeof(run.writer[i].prefix), "%s%d",
			 i % 2 ? "a" : "b", i);
		FAKE_CHECK(pthread_create(&run.writer[i].thread, NULL, writer_thread,
					  &run.writer[i]) == 0);
	}
	for (int i = 0; i < READERS; i++)
		FAKE_CHECK(pthread_create(&reader[i], NULL, reader_thread, &run) == 0);
	while (atomic_load(&run.writing))
		one_txg(&run);
	for (int i = 0; i < WRITERS; i++)
		pthread_join(run.writer[i].thread, NULL);
	one_txg(&run);
	atomic_store(&run.stop, true);
	for (int i = 0; i < READERS; i++)
		pthread_join(reader[i], NULL);
	one_txg(&run);
	for (int i = 0; i < WRITERS; i++)
		model_free(&run.writer[i].m);
	pthread_rwlock_destroy(&run.models);
	rig_close(&run.r);
	fake_free(f);
	assert_int_equal(atomic_load(&rig_objects), 0);
}

static void test_threads(void **state)
{
	threads_run(*(uint64_t *)*state, 8 << 20, 0, 4000);
}

static void test_threads_small_cache(void **state)
{
	threads_run(*(uint64_t *)*state + 1, 100 << 10, 10, 3000);
}

int main(void)
{
	static uint64_t seed;
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_prestate(test_threads, &seed),
	    cmocka_unit_test_prestate(test_threads_small_cache, &seed),
	};

	seed = test_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
