// SPDX-License-Identifier: LGPL-3.0-or-later
/* The block cache: what is found, what goes, what is read how often. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>

#include "cache/cache.h"
#include "fake_pool.h"

#define BLOCK 8192

static atomic_int alive;

static void destroy(struct cache_obj *obj)
{
	free(obj);
	atomic_fetch_sub(&alive, 1);
}

static int no_decode(void *buf, const struct bp *bp, struct cache_obj **out)
{
	(void)buf, (void)bp, (void)out;
	return -EIO;
}

static const struct cache_type data_type = {CACHE_DATA, no_decode};
static const struct cache_type meta_type = {CACHE_META, no_decode};

static struct cache_key key_of(uint64_t pool, uint64_t n)
{
	return (struct cache_key){
	    .pool = pool, .chunk = n / 100 + 1, .sector = n % 100, .birth = 7};
}

static struct cache_obj *obj_new(const struct cache_type *type, uint64_t pool, uint64_t n)
{
	struct cache_obj *obj = malloc(sizeof(*obj));

	assert_non_null(obj);
	cache_obj_init(obj, type, destroy);
	obj->size = BLOCK;
	obj->key = key_of(pool, n);
	atomic_fetch_add(&alive, 1);
	return obj;
}

static void add(struct cache *c, const struct cache_type *type, uint64_t pool, uint64_t n)
{
	struct cache_obj *obj = obj_new(type, pool, n);

	assert_ptr_equal(cache_insert(c, obj), obj);
	cache_unref(obj);
}

/* Asked for, as a reader does. */
static bool ask(struct cache *c, uint64_t pool, uint64_t n)
{
	struct cache_key key = key_of(pool, n);
	struct cache_obj *obj = cache_lookup(c, &key);

	if (obj)
		cache_unref(obj);
	return obj;
}

static struct cache *cache_of(uint64_t max)
{
	struct cache *c;

	assert_int_equal(cache_create(max, &c), 0);
	return c;
}

static void test_insert(void **state)
{
	struct cache *c = cache_of(1 << 20);
	struct cache_obj *one = obj_new(&data_type, 1, 5), *two = obj_new(&data_type, 1, 5);
	struct cache_key key = key_of(1, 5), other = key_of(2, 5);

	(void)state;
	assert_null(cache_lookup(c, &key));
	assert_ptr_equal(cache_insert(c, one), one);
	assert_ptr_equal(cache_insert(c, two), one); /* referenced */
	assert_int_equal(atomic_load(&one->refs), 3);
	assert_ptr_equal(cache_lookup(c, &key), one);
	assert_null(cache_lookup(c, &other));
	other = key;
	other.birth++;
	assert_null(cache_lookup(c, &other));
	cache_unref(one);
	cache_unref(one);
	cache_unref(two);
	assert_int_equal(atomic_load(&alive), 1);

	/* Removed objects live as long as their references. */
	cache_remove(c, &key);
	assert_null(cache_lookup(c, &key));
	assert_int_equal(atomic_load(&alive), 1);
	cache_unref(one);
	assert_int_equal(atomic_load(&alive), 0);
	cache_destroy(c);
}

static void test_remove_pool(void **state)
{
	struct cache *c = cache_of(16 << 20);

	(void)state;
	for (uint64_t i = 0; i < 300; i++)
		add(c, i % 2 ? &data_type : &meta_type, 1 + i % 3, i);
	cache_remove_pool(c, 2);
	for (uint64_t i = 0; i < 300; i++)
		assert_int_equal(ask(c, 1 + i % 3, i), i % 3 != 1);
	assert_int_equal(atomic_load(&alive), 200);
	cache_destroy(c);
	assert_int_equal(atomic_load(&alive), 0);
}

static void test_bound(void **state)
{
	struct cache *c = cache_of(8 << 20);
	struct tarn_cache_stats st;

	(void)state;
	for (uint64_t i = 0; i < 5000; i++) {
		add(c, i % 3 ? &data_type : &meta_type, 1, i);
		cache_stats(c, &st);
		assert_true(st.size <= st.max);
	}
	assert_int_equal(st.inserted, 5000);
	assert_int_equal(st.evictions, 5000 - st.size / BLOCK);
	assert_int_equal(st.size, st.data_size + st.meta_size);
	assert_int_equal((uint64_t)atomic_load(&alive) * BLOCK, st.size);
	assert_true(st.size > st.max - 64 * BLOCK);

	cache_set_max(c, 6 << 20);
	cache_stats(c, &st);
	assert_int_equal(st.max, 6 << 20);
	assert_true(st.size <= st.max);
	cache_destroy(c);
}

/* Referenced objects stay, and go as soon as they may. */
static void test_referenced(void **state)
{
	enum { N = 400 };
	struct cache *c = cache_of(1 << 20);
	struct cache_obj *held[N];
	struct tarn_cache_stats st;

	(void)state;
	for (int i = 0; i < N; i++) {
		held[i] = obj_new(&data_type, 1, i);
		assert_ptr_equal(cache_insert(c, held[i]), held[i]);
	}
	cache_stats(c, &st);
	assert_int_equal(st.size, N * BLOCK);
	for (int i = 0; i < N; i++)
		assert_true(ask(c, 1, i));
	for (int i = 0; i < N; i++)
		cache_unref(held[i]);
	cache_stats(c, &st);
	assert_true(st.size <= st.max && st.size > 0);
	cache_destroy(c);
}

/* What was asked for several times survives a scan of ten times the cache. */
static void scan(const struct cache_type *type)
{
	enum { HOT = 200, ROOM = 1024, SCAN = 10 * ROOM };
	struct cache *c = cache_of(ROOM * BLOCK);
	int kept = 0;

	for (uint64_t i = 0; i < HOT; i++) {
		add(c, type, 1, i);
		for (int n = 0; n < 3; n++)
			assert_true(ask(c, 1, i));
	}
	for (uint64_t i = 0; i < SCAN; i++)
		add(c, type, 1, 1000 + i);
	for (uint64_t i = 0; i < HOT; i++)
		kept += ask(c, 1, i);
	assert_int_equal(kept, HOT);
	cache_destroy(c);
}

static void test_scan(void **state)
{
	(void)state;
	scan(&data_type);
	scan(&meta_type);
}

/* A key that comes back soon after it went is taken for wanted. */
static void test_ghost(void **state)
{
	enum { ROOM = 512, LOOP = 2000 };
	struct cache *c = cache_of(ROOM * BLOCK);
	int kept = 0;

	(void)state;
	for (uint64_t i = 0; i < ROOM * 2; i++)
		add(c, &data_type, 1, i);
	/* Just gone, and read again. */
	for (uint64_t i = ROOM - 100; i < ROOM; i++) {
		if (!ask(c, 1, i))
			add(c, &data_type, 1, i);
	}
	for (uint64_t i = 0; i < LOOP; i++)
		add(c, &data_type, 1, 10000 + i);
	for (uint64_t i = ROOM - 100; i < ROOM; i++)
		kept += ask(c, 1, i);
	assert_true(kept > 50);
	cache_destroy(c);
}

/* Data streaming through leaves metadata alone down to a quarter of the cache. */
static void test_metadata_favoured(void **state)
{
	enum { ROOM = 1024 };
	struct cache *c = cache_of(ROOM * BLOCK);
	struct tarn_cache_stats st;

	(void)state;
	for (uint64_t i = 0; i < ROOM * 7 / 10; i++)
		add(c, &meta_type, 1, i);
	for (uint64_t i = 0; i < ROOM * 5; i++)
		add(c, &data_type, 1, 100000 + i);
	cache_stats(c, &st);
	assert_int_equal(st.meta_size, ROOM * 7 / 10 * BLOCK);

	/* More metadata pushes data down to its share, not further. */
	for (uint64_t i = ROOM; i < ROOM * 5; i++)
		add(c, &meta_type, 1, i);
	cache_stats(c, &st);
	assert_true(st.data_size > st.max / 5 && st.data_size <= st.max / 4 + BLOCK);
	cache_destroy(c);
}

/* ---- reading ---- */

struct reader {
	struct cache_read read;
	atomic_int done;
};

static void on_read(struct cache_read *r)
{
	atomic_fetch_add(&((struct reader *)r->owner)->done, 1);
}

static void reader_start(struct cache *c, struct pool *pool, const struct bp *bp, struct reader *r)
{
	*r = (struct reader){.read = {.bp = *bp, .done = on_read, .owner = r}};
	cache_read(c, pool, &cache_type_data, &r->read);
}

static struct fake *fake_of_seed(unsigned fail_reads)
{
	return fake_new(&(struct fake_options){.threads = 2, .seed = 1, .fail_reads = fail_reads});
}

static void test_read(void **state)
{
	struct cache *c = cache_of(1 << 20);
	struct fake *f = fake_of_seed(0);
	uint8_t bytes[5000];
	struct cache_obj *obj, *again;
	struct tarn_cache_stats st;
	struct bp bp;

	(void)state;
	test_fill(bytes, sizeof(bytes), 3);
	bp = fake_write(f, bytes, sizeof(bytes));
	assert_int_equal(cache_read_wait(c, fake_pool(f), &cache_type_data, &bp, &obj), 0);
	assert_int_equal(((struct cache_data *)obj)->length, sizeof(bytes));
	assert_memory_equal(((struct cache_data *)obj)->data, bytes, sizeof(bytes));
	assert_int_equal(cache_read_wait(c, fake_pool(f), &cache_type_data, &bp, &again), 0);
	assert_ptr_equal(obj, again);
	assert_int_equal(fake_reads(f), 1);
	cache_stats(c, &st);
	assert_int_equal(st.hits, 1);
	assert_int_equal(st.misses, 1);
	assert_int_equal(st.meta_hits + st.meta_misses, 0);

	/* The same place as something else: damaged metadata, not a wild pointer. */
	cache_unref(again);
	assert_int_equal(cache_read_wait(c, fake_pool(f), &cache_type_value, &bp, &again), -EIO);
	assert_null(again);
	bp.lsize--;
	assert_int_equal(cache_read_wait(c, fake_pool(f), &cache_type_data, &bp, &again), -EIO);
	cache_unref(obj);
	cache_destroy(c);
	fake_free(f);
}

static void test_read_joined(void **state)
{
	enum { N = 10 };
	struct cache *c = cache_of(1 << 20);
	struct fake *f = fake_of_seed(0);
	struct reader reader[N];
	uint8_t bytes[100] = "joined";
	struct bp bp = fake_write(f, bytes, sizeof(bytes));

	(void)state;
	fake_reads_stop(f);
	for (int i = 0; i < N; i++)
		reader_start(c, fake_pool(f), &bp, &reader[i]);
	for (int i = 0; i < N; i++)
		assert_int_equal(atomic_load(&reader[i].done), 0);
	fake_reads_go(f);
	for (int i = 0; i < N; i++) {
		while (!atomic_load(&reader[i].done))
			sched_yield();
		assert_int_equal(reader[i].read.result, 0);
		assert_ptr_equal(reader[i].read.obj, reader[0].read.obj);
	}
	assert_int_equal(fake_reads(f), 1);
	for (int i = 0; i < N; i++)
		cache_unref(reader[i].read.obj);
	cache_destroy(c);
	fake_free(f);
}

static void test_read_error(void **state)
{
	enum { N = 4 };
	struct cache *c = cache_of(1 << 20);
	struct fake *f = fake_of_seed(1000);
	struct reader reader[N];
	uint8_t bytes[100] = "lost";
	struct bp bp = fake_write(f, bytes, sizeof(bytes));
	struct tarn_cache_stats st;

	(void)state;
	fake_reads_stop(f);
	for (int i = 0; i < N; i++)
		reader_start(c, fake_pool(f), &bp, &reader[i]);
	fake_reads_go(f);
	for (int i = 0; i < N; i++) {
		while (!atomic_load(&reader[i].done))
			sched_yield();
		assert_int_equal(reader[i].read.result, -EIO);
		assert_null(reader[i].read.obj);
	}
	cache_stats(c, &st);
	assert_int_equal(st.size, 0);
	cache_destroy(c);
	fake_free(f);
}

/* ---- threads ---- */

#define BLOCKS 300

struct crowd {
	struct cache *cache;
	struct fake *f;
	struct bp bp[BLOCKS];
	atomic_uint threads;
};

static void *crowd_thread(void *arg)
{
	struct crowd *crowd = arg;
	uint64_t random = atomic_fetch_add(&crowd->threads, 1);

	for (int i = 0; i < 2000; i++) {
		uint64_t n = test_random(&random) % BLOCKS;
		struct read_epoch epoch = read_enter(fake_pool(crowd->f));
		struct cache_obj *obj;

		FAKE_CHECK(cache_read_wait(crowd->cache, fake_pool(crowd->f), &cache_type_data,
					   &crowd->bp[n], &obj) == 0);
		FAKE_CHECK(test_filled(((struct cache_data *)obj)->data, crowd->bp[n].lsize, n));
		if (i % 50 == 0)
			cache_remove(crowd->cache, &obj->key);
		cache_unref(obj);
		read_leave(fake_pool(crowd->f), epoch);
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct crowd crowd = {.cache = cache_of(BLOCKS / 2 * 8192), .f = fake_of_seed(0)};
	struct tarn_cache_stats st;
	pthread_t thread[4];
	uint8_t bytes[12000];

	(void)state;
	for (uint64_t i = 0; i < BLOCKS; i++) {
		test_fill(bytes, 4000 + i * 20, i);
		crowd.bp[i] = fake_write(crowd.f, bytes, 4000 + i * 20);
	}
	for (int i = 0; i < 4; i++)
		FAKE_CHECK(pthread_create(&thread[i], NULL, crowd_thread, &crowd) == 0);
	for (int i = 0; i < 50; i++)
		cache_set_max(crowd.cache, (i % 10 + 1) << 17);
	cache_set_max(crowd.cache, 1 << 20);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	cache_stats(crowd.cache, &st);
	assert_int_equal(st.hits + st.misses, 4 * 2000);
	assert_true(st.size <= st.max);
	assert_true(fake_reads(crowd.f) <= st.misses);
	cache_destroy(crowd.cache);
	fake_free(crowd.f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_insert),
	    cmocka_unit_test(test_remove_pool),
	    cmocka_unit_test(test_bound),
	    cmocka_unit_test(test_referenced),
	    cmocka_unit_test(test_scan),
	    cmocka_unit_test(test_ghost),
	    cmocka_unit_test(test_metadata_favoured),
	    cmocka_unit_test(test_read),
	    cmocka_unit_test(test_read_joined),
	    cmocka_unit_test(test_read_error),
	    cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
