// SPDX-License-Identifier: LGPL-3.0-or-later
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "util/workq.h"

#define ITEMS 1000

static atomic_uint ran;
static unsigned order[ITEMS];

struct item {
	struct work work; /* first, so that the item is found from it */
	struct workq *wq;
	unsigned number;
	unsigned children;
};

static void note_order(struct work *work)
{
	order[atomic_fetch_add(&ran, 1)] = ((struct item *)work)->number;
}

static void one_thread_keeps_the_order(void **state)
{
	(void)state;
	static struct item items[ITEMS];
	struct workq *wq;

	atomic_store(&ran, 0);
	assert_int_equal(workq_create(1, &wq), 0);
	for (unsigned i = 0; i < ITEMS; i++) {
		items[i] = (struct item){.work.fn = note_order, .number = i};
		workq_submit(wq, &items[i].work);
	}
	workq_destroy(wq);
	assert_int_equal(atomic_load(&ran), ITEMS);
	for (unsigned i = 0; i < ITEMS; i++)
		assert_int_equal(order[i], i);
}

static void spawn(struct work *work)
{
	struct item *item = (struct item *)work;

	for (unsigned i = 0; i < item->children; i++) {
		struct item *child = malloc(sizeof(*child));

		*child = (struct item){.work.fn = spawn, .wq = item->wq};
		child->children = item->children - 1;
		workq_submit(item->wq, &child->work);
	}
	atomic_fetch_add(&ran, 1);
	free(item);
}

static void destroy_drains_work_submitted_by_work(void **state)
{
	(void)state;
	struct item *root = malloc(sizeof(*root));
	struct workq *wq;

	atomic_store(&ran, 0);
	assert_int_equal(workq_create(4, &wq), 0);
	*root = (struct item){.work.fn = spawn, .wq = wq, .children = 5};
	workq_submit(wq, &root->work);
	workq_destroy(wq);
	/* t(0) = 1, t(n) = 1 + n t(n-1): 2, 5, 16, 65, 326 */
	assert_int_equal(atomic_load(&ran), 326);
}

static void destroy_takes_null(void **state)
{
	(void)state;
	workq_destroy(NULL);
}

static void count(uint64_t i, void *arg)
{
	atomic_uint *counts = arg;

	atomic_fetch_add(&counts[i], 1);
}

static void loop_calls_each_index_once(void **state)
{
	(void)state;
	static const uint64_t sizes[] = {0, 1, 2, 3, 4, 5, 64, ITEMS};
	struct workq *wq;

	assert_int_equal(workq_create(3, &wq), 0);
	for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		atomic_uint counts[ITEMS + 1] = {0};

		workq_for(wq, sizes[s], count, counts);
		for (unsigned i = 0; i <= ITEMS; i++)
			assert_int_equal(counts[i], i < sizes[s] ? 1 : 0);
	}
	workq_destroy(wq);
}

static void meet(uint64_t i, void *arg)
{
	(void)i;
	pthread_barrier_wait(arg);
}

static void loop_uses_all_threads_and_the_caller(void **state)
{
	(void)state;
	pthread_barrier_t barrier;
	struct workq *wq;

	/* Each call waits for three others: only four threads at once get through. */
	pthread_barrier_init(&barrier, NULL, 4);
	assert_int_equal(workq_create(3, &wq), 0);
	workq_for(wq, 4, meet, &barrier);
	workq_destroy(wq);
	pthread_barrier_destroy(&barrier);
}

struct nest {
	struct workq *wq;
	atomic_uint calls;
};

static void nest_inner(uint64_t i, void *arg)
{
	(void)i;
	atomic_fetch_add(&((struct nest *)arg)->calls, 1);
}

static void nest_outer(uint64_t i, void *arg)
{
	(void)i;
	workq_for(((struct nest *)arg)->wq, 10, nest_inner, arg);
}

static void loops_nest(void **state)
{
	(void)state;
	struct nest nest = {0};

	assert_int_equal(workq_create(2, &nest.wq), 0);
	workq_for(nest.wq, 100, nest_outer, &nest);
	assert_int_equal(atomic_load(&nest.calls), 1000);
	workq_destroy(nest.wq);
}

struct looper {
	struct work work;
	struct nest *nest;
};

static void loop_in_work(struct work *work)
{
	nest_outer(0, ((struct looper *)work)->nest);
}

static void loops_run_inside_work_on_a_busy_pool(void **state)
{
	(void)state;
	struct nest nest = {0};
	struct looper loopers[100];

	assert_int_equal(workq_create(2, &nest.wq), 0);
	for (unsigned i = 0; i < 100; i++) {
		loopers[i] = (struct looper){.work.fn = loop_in_work, .nest = &nest};
		workq_submit(nest.wq, &loopers[i].work);
	}
	workq_destroy(nest.wq);
	assert_int_equal(atomic_load(&nest.calls), 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_thread_keeps_the_order),
	    cmocka_unit_test(destroy_drains_work_submitted_by_work),
	    cmocka_unit_test(destroy_takes_null),
	    cmocka_unit_test(loop_calls_each_index_once),
	    cmocka_unit_test(loop_uses_all_threads_and_the_caller),
	    cmocka_unit_test(loops_nest),
	    cmocka_unit_test(loops_run_inside_work_on_a_busy_pool),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
