// SPDX-License-Identifier: LGPL-3.0-or-later
/* Holds, commits, waiters, epochs, reservations and what becomes of freed space. */
#include "pool_rig.h"

#include <semaphore.h>

static const unsigned single[] = {1, 0}, mirror[] = {2, 0}, two[] = {1, 1, 0};

static void test_clean_txg_is_not_written(void **state)
{
	struct rig *r = rig_create(single, 128u << 20);
	uint64_t txg, writes;

	(void)state;
	assert_int_equal(rig_commit(r), 0);
	txg = txg_open(r->pool);
	writes = atomic_load(&r->pool->devs[0].dev->stats.writes);
	assert_int_equal(txg_wait(r->pool, txg), 0);
	assert_int_equal(txg_wait(r->pool, txg + 1000), 0);
	txg_kick(r->pool, txg);
	assert_int_equal(txg_open(r->pool), txg);
	assert_int_equal(txg_committed(r->pool), txg - 1);
	/* The heartbeat writes too, but not an uberblock, tables and all. */
	assert_true(atomic_load(&r->pool->devs[0].dev->stats.writes) - writes < 10);
	rig_free(r);
}

/* ---- the barrier ---- */

struct entering {
	struct rig *r;
	uint64_t txg;
	sem_t entered;
};

static void *enter_next(void *arg)
{
	struct entering *e = arg;
	struct tx tx;

	assert_int_equal(tx_begin(e->r->pool, 0, TX_NORMAL, &tx), 0);
	e->txg = tx.txg;
	tx_end(&tx);
	sem_post(&e->entered);
	return NULL;
}

#define WAITERS 3

struct crowd {
	struct rig *r;
	atomic_bool over;
};

/* Takes the lock that the barrier and those who wait need. */
static void *be_in_the_way(void *arg)
{
	struct crowd *c = arg;

	while (!atomic_load(&c->over))
		txg_kick(c->r->pool, 0);
	return NULL;
}

static void *wait_often(void *arg)
{
	struct crowd *c = arg;
	uint64_t random = (uint64_t)pthread_self() | 1;

	for (unsigned i = 0; i < 1500; i++) {
		struct tx tx;

		if (tx_begin(c->r->pool, 0, TX_NORMAL, &tx))
			return "tx_begin";
		tx_end(&tx);
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		for (uint64_t until = txg_now() + random % 100000; txg_now() < until;)
			;
		if (txg_wait(c->r->pool, tx.txg))
			return "txg_wait";
		if (txg_committed(c->r->pool) < tx.txg)
			return "not committed";
	}
	return NULL;
}

/* However the wait falls to the barrier: it ends with the commit of that txg, not before. */
static void test_waits_for_its_own(void **state)
{
	struct rig *r = rig_create(single, 128u << 20);
	struct crowd crowd = {.r = r};
	pthread_t threads[WAITERS], other;
	const char *wrong = NULL;

	(void)state;
	assert_int_equal(pthread_create(&other, NULL, be_in_the_way, &crowd), 0);
	for (unsigned i = 0; i < WAITERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, wait_often, &crowd), 0);
	for (unsigned i = 0; i < WAITERS; i++) {
		void *result;

		pthread_join(threads[i], &result);
		wrong = result ? result : wrong;
	}
	atomic_store(&crowd.over, true);
	pthread_join(other, NULL);
	if (wrong)
		fail_msg("%s", wrong);
	rig_free(r);
}

/* A txg is not frozen while somebody is inside; who comes meanwhile gets the next one. */
static void test_barrier(void **state)
{
	struct rig *r = rig_create(single, 128u << 20);
	struct entering e = {.r = r};
	pthread_t thread;
	struct tx tx;

	(void)state;
	assert_int_equal(rig_commit(r), 0);
	sem_init(&e.entered, 0, 0);
	assert_int_equal(tx_begin(r->pool, 0, TX_NORMAL, &tx), 0);
	txg_kick(r->pool, tx.txg);
	/* Once all shards are closed, the newcomer waits at the barrier. */
	for (bool closed = false; !closed;) {
		struct txg_shard *last = &r->pool->txgs->shards[TXG_SHARDS - 1];

		pthread_mutex_lock(&last->lock);
		closed = last->closed;
		pthread_mutex_unlock(&last->lock);
	}
	assert_int_equal(pthread_create(&thread, NULL, enter_next, &e), 0);
	assert_int_equal(txg_open(r->pool), tx.txg);
	tx_end(&tx);
	sem_wait(&e.entered);
	pthread_join(thread, NULL);
	assert_int_equal(e.txg, tx.txg + 1);
	assert_int_equal(txg_wait(r->pool, tx.txg), 0);
	sem_destroy(&e.entered);
	rig_free(r);
}

struct async_wait {
	struct txg_waiter w;
	sem_t called;
	int result;
};

static void async_called(struct txg_waiter *w, int result)
{
	struct async_wait *a = (struct async_wait *)w;

	a->result = result;
	sem_post(&a->called);
}

static void test_async_waiters(void **state)
{
	struct rig *r = rig_create(single, 128u << 20);
	struct async_wait a[3];

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		sem_init(&a[i].called, 0, 0);
		a[i].w.fn = async_called;
		assert_int_equal(rig_put_block(r, i, i + 1, 5000), 0);
		a[i].w.txg = txg_open(r->pool);
		txg_wait_async(r->pool, &a[i].w);
	}
	for (unsigned i = 0; i < 3; i++) {
		sem_wait(&a[i].called);
		assert_int_equal(a[i].result, 0);
	}
	/* Of a txg long gone: at once. */
	a[0].w.txg = 1;
	txg_wait_async(r->pool, &a[0].w);
	assert_int_equal(sem_trywait(&a[0].called), 0);
	assert_int_equal(a[0].result, 0);
	/* One that will not come. */
	sim_fail(r->sims[0], DEV_WRITE, 0, 128u << 20, -EIO, 0);
	assert_int_equal(rig_put_block(r, 9, 9, 5000), 0);
	a[1].w.txg = txg_open(r->pool);
	txg_wait_async(r->pool, &a[1].w);
	sem_wait(&a[1].called);
	assert_int_equal(a[1].result, -EIO);
	for (unsigned i = 0; i < 3; i++)
		sem_destroy(&a[i].called);
	rig_free(r);
}

/* ---- freed space ---- */

static bool allocated(struct rig *r, const struct bp *bp)
{
	struct extents runs = rig_runs(r);
	bool found = false;

	for (size_t i = 0; i < runs.n; i++) {
		found |= runs.e[i].chunk == bp->chunk && runs.e[i].sector <= bp->sector &&
			 bp->sector + bp_sectors(bp) <= runs.e[i].sector + runs.e[i].count;
	}
	extents_free(&runs);
	return found;
}

static void test_no_reuse_before_keep(void **state)
{
	struct rig *r = rig_create(single, 128u << 20);
	struct bp bp;

	(void)state;
	assert_int_equal(rig_put_block(r, 0, 1, 100000), 0);
	assert_int_equal(rig_commit(r), 0);
	bp = r->open[0].bp;
	assert_int_equal(rig_remove(r, 0), 0);
	for (unsigned i = 0; i <= TXG_KEEP; i++) {
		assert_true(allocated(r, &bp));
		/* Still what it was: any of the last uberblocks can be imported. */
		assert_int_equal(rig_read(r, &bp, 1), 0);
		assert_int_equal(rig_commit(r), 0);
	}
	assert_false(allocated(r, &bp));
	rig_free(r);
}

static void test_no_reuse_under_readers(void **state)
{
	struct rig *r = rig_create(single, 128u << 20);
	struct read_epoch epoch, later;
	struct bp bp;

	(void)state;
	assert_int_equal(rig_put_block(r, 0, 1, 100000), 0);
	assert_int_equal(rig_commit(r), 0);
	epoch = read_enter(r->pool);
	bp = r->open[0].bp;
	assert_int_equal(rig_remove(r, 0), 0);
	for (unsigned i = 0; i < 3 * EPOCH_SLOTS; i++) {
		assert_int_equal(rig_commit(r), 0);
		assert_true(allocated(r, &bp));
	}
	assert_int_equal(rig_read(r, &bp, 1), 0);
	/* One that came later holds nothing up. */
	later = read_enter(r->pool);
	read_leave(r->pool, epoch);
	for (unsigned i = 0; i < 3 && allocated(r, &bp); i++)
		assert_int_equal(rig_commit(r), 0);
	assert_false(allocated(r, &bp));
	read_leave(r->pool, later);
	rig_check(r);
	rig_free(r);
}

static void test_discard(void **state)
{
	struct rig *r = rig_create(single, 128u << 20);
	uint8_t sector[SECTOR_SIZE];
	uint64_t offset;
	struct bp bp;

	(void)state;
	rig_set_discard(r, true);
	assert_int_equal(rig_put_block(r, 0, 1, 100000), 0);
	assert_int_equal(rig_put_block(r, 1, 2, 100000), 0);
	assert_int_equal(rig_commit(r), 0);
	bp = r->open[0].bp;
	offset = chunk_offset(r->pool, chunk_find(r->pool, bp.chunk), 0, bp.sector);
	assert_int_equal(rig_remove(r, 0), 0);
	for (unsigned i = 0; i < TXG_KEEP + 3 || allocated(r, &bp); i++)
		assert_int_equal(rig_commit(r), 0);
	sim_peek(r->sims[0], offset, sector, sizeof(sector));
	for (unsigned i = 0; i < sizeof(sector); i++)
		assert_int_equal(sector[i], 0);
	assert_int_equal(rig_read(r, &r->open[1].bp, 2), 0);
	rig_free(r);
}

/* Empty chunks give their slabs back. */
static void test_slabs_come_back(void **state)
{
	struct rig *r = rig_create(single, 256u << 20);
	uint32_t before;
	unsigned n = 100;

	(void)state;
	assert_int_equal(rig_commit(r), 0);
	before = slab_free_count(&r->pool->devs[0]);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(rig_put_block(r, i, i + 1, 1u << 20), 0);
	assert_int_equal(rig_commit(r), 0);
	assert_true(slab_free_count(&r->pool->devs[0]) <= before - 20);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(rig_remove(r, i), 0);
	for (unsigned i = 0; i < 3 * TXG_KEEP; i++)
		assert_int_equal(rig_commit(r), 0);
	/* The chunk that data is allocated from is kept. */
	assert_true(slab_free_count(&r->pool->devs[0]) >= before - 2);
	rig_check(r);
	rig_free(r);
}

/* ---- reservations ---- */

static unsigned fill_up(struct rig *r, uint32_t lsize)
{
	unsigned i = 0;
	int rc = 0;

	for (; i < RIG_BLOCKS; i++) {
		if (r->open[i].seed)
			continue;
		rc = rig_put_block(r, i, i + 1, lsize);
		if (rc)
			break;
	}
	assert_int_equal(rc, -ENOSPC);
	return i;
}

/* Full means full, never a failed sync; removing works, and gives the space back at once to whoever
   wants it. */
static void full_pool(const unsigned *layout, uint32_t lsize)
{
	struct rig *r = rig_create(layout, 96u << 20);
	struct pool_space space;
	unsigned n;

	n = fill_up(r, lsize);
	assert_int_equal(rig_commit(r), 0);
	pool_space(r->pool, &space);
	assert_true(space.allocated > space.size / 2);
	assert_true(space.allocated <= space.size);
	rig_check(r);
	for (unsigned round = 0; round < 3; round++) {
		/* Every second block: crumbs. */
		for (unsigned i = round % 2; i < n; i += 2) {
			if (r->open[i].seed && !bp_is_hole(&r->open[i].bp))
				assert_int_equal(rig_remove(r, i), 0);
		}
		fill_up(r, lsize);
		assert_int_equal(rig_commit(r), 0);
		rig_check(r);
	}
	for (unsigned i = 0; i < RIG_BLOCKS; i++) {
		if (r->open[i].seed)
			assert_int_equal(rig_remove(r, i), 0);
	}
	assert_int_equal(rig_put_block(r, 0, 1, lsize), 0);
	assert_int_equal(rig_commit(r), 0);
	rig_check(r);
	rig_free(r);
}

static void test_full_pool(void **state)
{
	(void)state;
	full_pool(single, 1u << 20);
	full_pool(mirror, 128u << 10);
	full_pool(two, 300000);
}

/* Full of small blocks, half of them removed here and there: large ones are refused, not failed. */
static void test_fragmented_pool(void **state)
{
	struct rig *r = rig_create(single, 64u << 20);
	unsigned n, refused = 0;

	(void)state;
	n = fill_up(r, 12000);
	assert_int_equal(rig_commit(r), 0);
	for (unsigned i = 0; i < n; i += 2)
		assert_int_equal(rig_remove(r, i), 0);
	for (unsigned i = 0; i < 2 * TXG_KEEP; i++)
		assert_int_equal(rig_commit(r), 0);
	for (unsigned i = 0; i < n; i += 2) {
		int rc = rig_put_block(r, i, i + 1, 1u << 20);

		assert_true(rc == 0 || rc == -ENOSPC);
		refused += rc != 0;
		assert_int_equal(rig_commit(r), 0);
		if (rc)
			break;
	}
	assert_int_equal(refused, 1);
	rig_check(r);
	rig_free(r);
}

/* More than there could ever be is refused at once; removing may use what writing may not. */
static void test_reserve(void **state)
{
	struct rig *r = rig_create(single, 128u << 20);
	struct tx tx;

	(void)state;
	assert_int_equal(rig_commit(r), 0);
	assert_int_equal(tx_begin(r->pool, 1ull << 40, TX_NORMAL, &tx), -ENOSPC);
	assert_int_equal(tx_try_begin(r->pool, 1ull << 40, TX_NORMAL, &tx), -ENOSPC);
	fill_up(r, 1u << 20);
	assert_int_equal(rig_commit(r), 0);
	assert_int_equal(tx_begin(r->pool, 2u << 20, TX_NORMAL, &tx), -ENOSPC);
	assert_int_equal(tx_begin(r->pool, 2u << 20, TX_FREEING, &tx), 0);
	tx_end(&tx);
	rig_free(r);
}

/* ---- the throttle ---- */

struct tx_wait {
	struct tx_waiter w;
	struct rig *r;
	sem_t called;
	int rc;
};

static void try_again(struct tx_waiter *w)
{
	struct tx_wait *a = (struct tx_wait *)w;
	struct tx tx;

	a->rc = tx_try_begin(a->r->pool, 4096, TX_NORMAL, &tx);
	if (a->rc == -EAGAIN) {
		tx_wait_async(a->r->pool, w);
		return;
	}
	if (!a->rc)
		tx_end(&tx);
	sem_post(&a->called);
}

static void *try_elsewhere(void *arg)
{
	try_again(arg);
	return NULL;
}

/* At the limit nobody gets in before a commit, which comes without being asked for. */
static void test_dirty_limit(void **state)
{
	struct rig *r = rig_create(single, 128u << 20);
	struct tx_wait a = {.w.fn = try_again, .r = r};
	pthread_t thread;
	struct tx tx;

	(void)state;
	assert_int_equal(rig_commit(r), 0);
	__atomic_store_n(&r->config.dirty_max, 1u << 20, __ATOMIC_RELAXED);
	sem_init(&a.called, 0, 0);
	assert_int_equal(tx_begin(r->pool, 0, TX_NORMAL, &tx), 0);
	tx_dirty(&tx, 2u << 20);
	/* Its own txg is still held, so it cannot commit meanwhile. */
	assert_int_equal(pthread_create(&thread, NULL, try_elsewhere, &a.w), 0);
	pthread_join(thread, NULL);
	assert_int_equal(sem_trywait(&a.called), -1);
	assert_int_equal(a.rc, -EAGAIN);
	tx_end(&tx);
	sem_wait(&a.called);
	assert_int_equal(a.rc, 0);
	assert_true(txg_committed(r->pool) >= tx.txg);
	sem_destroy(&a.called);
	rig_free(r);
}

/* ---- striping ---- */

/* Groups get data in proportion to their free space, in long runs. */
static void test_striping(void **state)
{
	struct rig *r = rig_create(two, 256u << 20);
	uint64_t sectors[2] = {0};
	unsigned switches = 0, last = 2;

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(rig_put_block(r, i, i + 1, 100000), 0);
	assert_int_equal(rig_commit(r), 0);
	for (unsigned i = 0; i < 1000; i++) {
		unsigned g = chunk_find(r->pool, r->open[i].bp.chunk)->group;

		sectors[g] += bp_sectors(&r->open[i].bp);
		switches += g != last;
		last = g;
	}
	assert_in_range(sectors[0] * 100 / (sectors[0] + sectors[1]), 45, 55);
	assert_in_range(switches, 2, 40);
	rig_free(r);
}

/* ---- all at once ---- */

#define THREADS 6
#define SPAN (RIG_BLOCKS / THREADS / 8)

struct worker {
	struct rig *r;
	unsigned first;
	uint64_t seed;
};

static void work_step(struct worker *w)
{
	struct rig *r = w->r;
	unsigned i = w->first + (unsigned)(rig_random(&w->seed) % SPAN);
	uint64_t what = rig_random(&w->seed);
	struct read_epoch epoch = read_enter(r->pool);
	struct rig_block b;

	pthread_mutex_lock(&r->lock);
	b = r->open[i];
	pthread_mutex_unlock(&r->lock);
	if (b.seed && !bp_is_hole(&b.bp)) {
		assert_int_equal(rig_read(r, &b.bp, b.seed), 0);
		read_leave(r->pool, epoch);
		if (what % 2) {
			assert_int_equal(rig_remove(r, i), 0);
			return;
		}
	} else {
		read_leave(r->pool, epoch);
	}
	if (b.seed && bp_is_hole(&b.bp))
		return;
	b = (struct rig_block){.seed = what | 1,
			       .lsize = (uint32_t)(what >> 20) % 60000 + 1,
			       .comp = what >> 8 & 1,
			       .cksum = CKSUM_XXH3,
			       .class = what >> 9 & 1};
	assert_int_equal(rig_write(r, i, &b), 0);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	for (unsigned n = 0; n < 400; n++) {
		work_step(w);
		if (n % 20 == 0)
			assert_int_equal(txg_wait(w->r->pool, txg_open(w->r->pool)), 0);
	}
	return NULL;
}

static void test_concurrency(void **state)
{
	struct rig *r = rig_create(mirror, 256u << 20);
	struct worker w[THREADS];
	pthread_t threads[THREADS];
	uint64_t seed = rig_seed();

	(void)state;
	rig_set_discard(r, true);
	for (unsigned i = 0; i < THREADS; i++) {
		w[i] = (struct worker){r, i * SPAN, rig_random(&seed)};
		assert_int_equal(pthread_create(&threads[i], NULL, work, &w[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(rig_commit(r), 0);
	rig_check(r);
	rig_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_clean_txg_is_not_written),
	    cmocka_unit_test(test_barrier),
	    cmocka_unit_test(test_waits_for_its_own),
	    cmocka_unit_test(test_async_waiters),
	    cmocka_unit_test(test_no_reuse_before_keep),
	    cmocka_unit_test(test_no_reuse_under_readers),
	    cmocka_unit_test(test_discard),
	    cmocka_unit_test(test_slabs_come_back),
	    cmocka_unit_test(test_full_pool),
	    cmocka_unit_test(test_fragmented_pool),
	    cmocka_unit_test(test_reserve),
	    cmocka_unit_test(test_dirty_limit),
	    cmocka_unit_test(test_striping),
	    cmocka_unit_test(test_concurrency),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
