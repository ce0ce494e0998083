// SPDX-License-Identifier: LGPL-3.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "util/alock.h"
#include "util/workq.h"

/* ---- order of waiters that are callbacks ---- */

struct note {
	struct alock_waiter w;
	unsigned *count;
	unsigned at; /* the how-manieth to get the lock; 0: not yet */
};

static void got(struct alock_waiter *w)
{
	struct note *n = (struct note *)w;

	n->at = ++*n->count;
}

static bool ask(struct alock *lock, struct note *n, bool write, unsigned *count)
{
	*n = (struct note){.w.fn = got, .count = count};
	return alock_async(lock, write, &n->w);
}

static void test_order(void **state)
{
	struct alock lock;
	struct note n[6];
	unsigned count = 0;

	(void)state;
	alock_init(&lock);
	/* Readers share, a writer waits for them, and those after it wait for it. */
	assert_true(ask(&lock, &n[0], false, &count));
	assert_true(ask(&lock, &n[1], false, &count));
	assert_false(alock_try(&lock, true));
	assert_false(ask(&lock, &n[2], true, &count));
	assert_false(ask(&lock, &n[3], false, &count));
	assert_false(ask(&lock, &n[4], false, &count));
	assert_false(ask(&lock, &n[5], true, &count));
	assert_false(alock_try(&lock, false));

	alock_unlock(&lock);
	assert_int_equal(count, 0);
	alock_unlock(&lock);
	assert_int_equal(n[2].at, 1);
	assert_int_equal(count, 1);
	alock_unlock(&lock);
	/* Both readers at once. */
	assert_int_equal(n[3].at, 2);
	assert_int_equal(n[4].at, 3);
	assert_int_equal(count, 3);
	alock_unlock(&lock);
	alock_unlock(&lock);
	assert_int_equal(n[5].at, 4);
	assert_false(alock_try(&lock, false));
	alock_unlock(&lock);
	assert_true(alock_try(&lock, true));
	alock_unlock(&lock);
	alock_destroy(&lock);
}

/* ---- threads and work together ---- */

#define ROUNDS 3000
#define THREADS 3
#define ITEMS 3

struct shared {
	struct alock lock;
	struct workq *wq;
	uint64_t a, b; /* always equal but for a writer */
	atomic_uint left;
};

struct item {
	struct work work;
	struct alock_waiter w;
	struct shared *s;
	unsigned round;
	bool writing;
};

static void change(struct shared *s)
{
	s->a++;
	s->b++;
}

static void *thread(void *arg)
{
	struct shared *s = arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		if (i % 3) {
			alock_read(&s->lock);
			assert_true(s->a == s->b);
		} else {
			alock_write(&s->lock);
			change(s);
		}
		alock_unlock(&s->lock);
	}
	return NULL;
}

static void granted(struct alock_waiter *w)
{
	struct item *item = (struct item *)((char *)w - offsetof(struct item, w));

	workq_submit(item->s->wq, &item->work);
}

/* Called with the lock. */
static void work(struct work *work)
{
	struct item *item = (struct item *)work;
	struct shared *s = item->s;

	do {
		assert_true(s->a == s->b);
		if (item->writing)
			change(s);
		alock_unlock(&s->lock);
		if (++item->round == ROUNDS) {
			atomic_fetch_sub(&s->left, 1);
			return;
		}
		item->writing = item->round % 3 == 0;
	} while (alock_async(&s->lock, item->writing, &item->w));
}

static void test_threads(void **state)
{
	struct shared s = {.left = ITEMS};
	struct item items[ITEMS];
	pthread_t threads[THREADS];

	(void)state;
	alock_init(&s.lock);
	assert_int_equal(workq_create(2, &s.wq), 0);
	for (unsigned i = 0; i < ITEMS; i++) {
		items[i] =
		    (struct item){.work.fn = work, .w.fn = granted, .s = &s, .writing = true};
		if (alock_async(&s.lock, true, &items[i].w))
			workq_submit(s.wq, &items[i].work);
	}
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, thread, &s), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	while (atomic_load(&s.left)) {
		/* What waits is submitted by who unlocks: taking turns ends it. */
		alock_read(&s.lock);
		alock_unlock(&s.lock);
	}
	workq_destroy(s.wq);
	assert_int_equal(s.a, (uint64_t)(THREADS + ITEMS) * ROUNDS / 3);
	assert_int_equal(s.b, s.a);
	alock_destroy(&s.lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_order),
	    cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
