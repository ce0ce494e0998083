// SPDX-License-Identifier: LGPL-3.0-or-later
/* Holds, the barrier, waiting, and the sync thread. */
#include "pool/txg.h"

#include <assert.h>
#include <errno.h>

#include "pool/alloc.h"
#include "pool/ilog.h"
#include "pool/txgs_impl.h"
#include "util/mem.h"
#include "util/workq.h"

/* A shard reserves so much at once while there is plenty. */
#define CREDIT_BYTES (4u << 20)
/* Of what its txs did not need: for nodes above all those that they counted. */
#define KEPT_BYTES (512u << 10)

static _Thread_local unsigned tx_held;

void tx_assert_none(void)
{
	assert(!tx_held);
}

/* ---- life ---- */

static void cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

int txgs_create(struct pool *pool)
{
	struct txgs *t = aligned_alloc(128, (sizeof(*t) + 127) & ~127ul);

	if (!t)
		return -ENOMEM;
	memset(t, 0, sizeof(*t));
	t->pool = pool;
	t->epoch = 1;
	t->tx_tail = &t->tx_head;
	pthread_mutex_init(&t->lock, NULL);
	pthread_mutex_init(&t->io_lock, NULL);
	cond_init(&t->wake);
	cond_init(&t->done);
	cond_init(&t->throttle);
	cond_init(&t->io_done);
	for (unsigned i = 0; i < TXG_SHARDS; i++) {
		pthread_mutex_init(&t->shards[i].lock, NULL);
		cond_init(&t->shards[i].change);
	}
	pool->txgs = t;
	return 0;
}

void txgs_destroy(struct pool *pool)
{
	struct txgs *t = pool->txgs;

	if (!t)
		return;
	for (unsigned i = 0; i < TXG_SHARDS; i++) {
		pthread_mutex_destroy(&t->shards[i].lock);
		pthread_cond_destroy(&t->shards[i].change);
		free(t->shards[i].frees.items);
	}
	pthread_cond_destroy(&t->wake);
	pthread_cond_destroy(&t->done);
	pthread_cond_destroy(&t->throttle);
	pthread_cond_destroy(&t->io_done);
	pthread_mutex_destroy(&t->lock);
	pthread_mutex_destroy(&t->io_lock);
	workq_destroy(t->wq);
	free(t->frozen_frees.items);
	free(t->sync_frees.items);
	free(t);
	pool->txgs = NULL;
}

/* ---- holds ---- */

/* What any tx may have, or what its kind has left over. */
static bool take_credit(struct txgs *t, struct txg_shard *shard, uint64_t bytes, enum tx_kind kind,
			struct tx *tx)
{
	uint64_t *credit = shard->credit;

	if (credit[TX_NORMAL] < bytes && bytes <= CREDIT_BYTES &&
	    alloc_reserve_ahead(t->pool, tx->txg, CREDIT_BYTES))
		credit[TX_NORMAL] += CREDIT_BYTES;
	tx->credit = credit[TX_NORMAL] < bytes ? kind : TX_NORMAL;
	if (credit[tx->credit] < bytes)
		return false;
	credit[tx->credit] -= bytes;
	return true;
}

/* In the open txg, which cannot close while the shard's lock is held and the shard is not. */
static enum reserve_result enter(struct txgs *t, uint64_t bytes, enum tx_kind kind, struct tx *tx)
{
	unsigned slot = txg_shard_here();
	struct txg_shard *shard = &t->shards[slot];
	enum reserve_result result = RESERVE_OK;

	pthread_mutex_lock(&shard->lock);
	while (shard->closed)
		pthread_cond_wait(&shard->change, &shard->lock);
	*tx = (struct tx){
	    .pool = t->pool, .txg = atomic_load(&t->open), .reserved = bytes, .slot = slot};
	if (!take_credit(t, shard, bytes, kind, tx))
		result = alloc_reserve(t->pool, tx->txg, bytes, kind);
	if (result == RESERVE_OK) {
		shard->holders++;
		if (!atomic_load_explicit(&t->used, memory_order_relaxed))
			atomic_store(&t->used, true);
	}
	pthread_mutex_unlock(&shard->lock);
	if (result == RESERVE_OK)
		tx_held++;
	return result;
}

static int tx_state(const struct pool *pool)
{
	if (pool->read_only)
		return -EROFS;
	if (atomic_load(&pool->suspended) || !atomic_load(&pool->txgs->running))
		return -ENXIO;
	return 0;
}

int tx_try_begin(struct pool *pool, uint64_t bytes, enum tx_kind kind, struct tx *tx)
{
	struct txgs *t = pool->txgs;
	int rc = tx_state(pool);

	tx_assert_none();
	if (rc)
		return rc;
	if (throttle_enter(t))
		return -EAGAIN;
	switch (enter(t, bytes, kind, tx)) {
	case RESERVE_OK:
		return 0;
	case RESERVE_WAIT:
		atomic_store(&t->hungry, true);
		return -ENOBUFS;
	default:
		return -ENOSPC;
	}
}

/* Until the open txg has been committed and settled, or the pool goes. */
static void wait_settled(struct txgs *t)
{
	uint64_t txg;

	pthread_mutex_lock(&t->lock);
	txg = atomic_load(&t->open);
	t->force = txg;
	pthread_cond_broadcast(&t->wake);
	while (t->settled < txg && !tx_state(t->pool))
		pthread_cond_wait(&t->done, &t->lock);
	pthread_mutex_unlock(&t->lock);
}

static void wait_throttle(struct txgs *t)
{
	uint64_t ns;

	while (!tx_state(t->pool) && (ns = throttle_enter(t))) {
		if (ns == UINT64_MAX) {
			wait_settled(t);
			continue;
		}
		pthread_mutex_lock(&t->lock);
		txg_timedwait(t, &t->done, ns);
		pthread_mutex_unlock(&t->lock);
	}
}

/* Frees of a txg come back TXG_KEEP commits later, with their discards; then the chunks that they
   leave empty are given up, whose slabs need as long. */
bool tx_space_settled(struct pool *pool, uint64_t since)
{
	return alloc_released_txg(pool) >= since + 2 * TXG_KEEP;
}

/* Who comes while others wait for space waits with them, so that a thread with many small changes
   does not take all that comes back. */
static enum reserve_result enter_in_turn(struct txgs *t, uint64_t bytes, enum tx_kind kind,
					 bool waited, struct tx *tx)
{
	if (!waited && atomic_load(&t->starved)) {
		tx->txg = atomic_load(&t->open);
		return RESERVE_WAIT;
	}
	return enter(t, bytes, kind, tx);
}

int tx_begin(struct pool *pool, uint64_t bytes, enum tx_kind kind, struct tx *tx)
{
	struct txgs *t = pool->txgs;
	uint64_t since = 0;
	int rc;

	tx_assert_none();
	for (;;) {
		enum reserve_result result;

		wait_throttle(t);
		if ((rc = tx_state(pool)))
			break;
		result = enter_in_turn(t, bytes, kind, since, tx);
		if (result == RESERVE_OK)
			break;
		if (result == RESERVE_FULL || (since && tx_space_settled(pool, since))) {
			rc = -ENOSPC;
			break;
		}
		if (!since) {
			since = tx->txg;
			atomic_fetch_add(&t->starved, 1);
		}
		wait_settled(t);
	}
	if (since)
		atomic_fetch_sub(&t->starved, 1);
	return rc;
}

/* Shard's lock held. What the tx reserved and did not need others of this txg may have, if they
   may reserve as it did; but each shard keeps some for what a txg costs as a whole. */
static uint64_t unused(struct txg_shard *shard, const struct tx *tx)
{
	uint64_t left = tx->reserved > tx->used ? tx->reserved - tx->used : 0;
	uint64_t kept = left < KEPT_BYTES - shard->kept ? left : KEPT_BYTES - shard->kept;

	shard->kept += kept;
	return left - kept;
}

void tx_keep(struct tx *tx)
{
	tx->used = tx->reserved;
}

void tx_end(struct tx *tx)
{
	struct txg_shard *shard = &tx->pool->txgs->shards[tx->slot];

	assert(tx_held && !tx->sync);
	tx_held--;
	pthread_mutex_lock(&shard->lock);
	shard->credit[tx->credit] += unused(shard, tx);
	if (--shard->holders == 0 && shard->closed)
		pthread_cond_broadcast(&shard->change);
	pthread_mutex_unlock(&shard->lock);
}

void tx_dirty(struct tx *tx, uint64_t bytes)
{
	struct txgs *t = tx->pool->txgs;
	uint64_t limit = dirty_max(tx->pool) / 4;
	uint64_t was = atomic_fetch_add(&t->dirty[tx->txg % 4], bytes);

	tx->used += bytes;
	atomic_fetch_add(&t->dirty_total, bytes);
	if (was < limit && was + bytes >= limit)
		txg_kick(tx->pool, tx->txg);
}

/* ---- frees ---- */

void free_list_add(struct free_list *list, const struct free_item *item)
{
	list->items = mem_grow(list->items, list->n, &list->room, sizeof(*list->items));
	list->items[list->n++] = *item;
}

static void queue_free(struct tx *tx, const struct free_item *item)
{
	struct txgs *t = tx->pool->txgs;
	struct txg_shard *shard = &t->shards[tx->slot];

	if (tx->sync) {
		pthread_mutex_lock(&t->lock);
		free_list_add(&t->sync_frees, item);
		pthread_mutex_unlock(&t->lock);
		return;
	}
	pthread_mutex_lock(&shard->lock);
	free_list_add(&shard->frees, item);
	pthread_mutex_unlock(&shard->lock);
}

void tx_free(struct tx *tx, struct space_owner *owner, const struct bp *bp)
{
	if (!bp_is_hole(bp))
		queue_free(tx, &(struct free_item){.owner = owner, .bp = *bp});
}

void tx_free_obj(struct tx *tx, struct space_owner *owner, struct slot_obj *obj)
{
	queue_free(tx, &(struct free_item){.owner = owner, .obj = obj});
}

/* Items of a sync that will not come: only references are to be dropped. */
static void drop_frees(struct txgs *t, struct free_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		if (list->items[i].obj)
			t->client->take_obj(list->items[i].obj);
	}
	list->n = 0;
}

/* ---- the barrier ---- */

static void close_shards(struct txgs *t)
{
	for (unsigned i = 0; i < TXG_SHARDS; i++) {
		pthread_mutex_lock(&t->shards[i].lock);
		t->shards[i].closed = true;
		pthread_mutex_unlock(&t->shards[i].lock);
	}
	for (unsigned i = 0; i < TXG_SHARDS; i++) {
		struct txg_shard *shard = &t->shards[i];

		pthread_mutex_lock(&shard->lock);
		while (shard->holders)
			pthread_cond_wait(&shard->change, &shard->lock);
		pthread_mutex_unlock(&shard->lock);
	}
}

static void open_shards(struct txgs *t)
{
	for (unsigned i = 0; i < TXG_SHARDS; i++) {
		struct txg_shard *shard = &t->shards[i];

		pthread_mutex_lock(&shard->lock);
		shard->closed = false;
		pthread_cond_broadcast(&shard->change);
		pthread_mutex_unlock(&shard->lock);
	}
}

/* Nobody is inside: takes what belongs to the txg as a whole. */
static void take_frees(struct txgs *t)
{
	for (unsigned i = 0; i < TXG_SHARDS; i++) {
		struct txg_shard *shard = &t->shards[i];

		for (size_t k = 0; k < shard->frees.n; k++)
			free_list_add(&t->frozen_frees, &shard->frees.items[k]);
		shard->frees.n = 0;
		memset(shard->credit, 0, sizeof(shard->credit));
		shard->kept = 0;
	}
}

static uint64_t barrier(struct txgs *t)
{
	uint64_t txg = atomic_load(&t->open);

	close_shards(t);
	t->client->freeze(t->client->arg, txg);
	take_frees(t);
	ilog_freeze(t->pool, txg);
	/* Together: who waits for txg must not see it open and clean. */
	pthread_mutex_lock(&t->lock);
	atomic_store(&t->used, false);
	atomic_store(&t->open, txg + 1);
	clock_gettime(CLOCK_MONOTONIC, &t->opened);
	pthread_mutex_unlock(&t->lock);
	open_shards(t);
	return txg;
}

/* ---- the sync thread ---- */

static uint64_t txg_seconds(const struct txgs *t)
{
	unsigned s = t->pool->config->txg_seconds;

	return s ? s : 5;
}

static uint64_t open_for(const struct txgs *t)
{
	return txg_now() -
	       ((uint64_t)t->opened.tv_sec * 1000000000ull + (uint64_t)t->opened.tv_nsec);
}

/* Lock held. */
static bool should_close(struct txgs *t)
{
	uint64_t open = atomic_load(&t->open);

	if (atomic_load(&t->pool->suspended))
		return false;
	if (t->force >= open)
		return true;
	return atomic_load(&t->used) &&
	       (t->stop || t->want >= open || open_for(t) >= txg_seconds(t) * 1000000000ull);
}

/* Lock held. Why nothing more will be committed; 0 if it will. */
static int wait_failed(const struct txgs *t)
{
	if (atomic_load(&t->pool->suspended))
		return -EIO;
	return t->ended ? -ENXIO : 0;
}

/* Calls those whose txg is durable; all when that cannot be any more. */
static void call_waiters(struct txgs *t)
{
	struct txg_waiter *ready = NULL, *w;
	int result;

	pthread_mutex_lock(&t->lock);
	result = wait_failed(t);
	for (struct txg_waiter **at = &t->waiters; (w = *at);) {
		if (!result && w->txg > atomic_load(&t->committed)) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		w->next = ready;
		ready = w;
	}
	pthread_mutex_unlock(&t->lock);
	while ((w = ready)) {
		ready = w->next;
		w->fn(w, w->txg <= atomic_load(&t->committed) ? 0 : result);
	}
}

static void suspend(struct txgs *t, uint64_t txg, int error)
{
	if (atomic_exchange(&t->pool->suspended, true))
		return; /* fenced, which has been told */
	atomic_store(&t->pool->halt, TARN_HALT_COMMIT);
	pool_log(t->pool, TARN_LOG_ERROR,
		 "txg %llu cannot be committed (%s): nothing more is written; reads go on",
		 (unsigned long long)txg, strerror(-error));
}

/* Nothing more will be committed, whoever decided that. */
static void tell_gone(struct txgs *t)
{
	pthread_mutex_lock(&t->lock);
	pthread_cond_broadcast(&t->done);
	pthread_cond_broadcast(&t->throttle);
	pthread_mutex_unlock(&t->lock);
	call_waiters(t);
	ilog_suspended(t->pool);
}

static void commit_one(struct txgs *t)
{
	uint64_t txg = barrier(t);
	int rc = txg_sync(t, txg);

	if (rc) {
		suspend(t, txg, rc);
		tell_gone(t);
		return;
	}
	atomic_store(&t->hungry, false);
	pthread_mutex_lock(&t->lock);
	t->settled = txg;
	pthread_cond_broadcast(&t->done);
	pthread_cond_broadcast(&t->throttle);
	pthread_mutex_unlock(&t->lock);
}

void txg_publish(struct txgs *t, uint64_t txg)
{
	pthread_mutex_lock(&t->lock);
	atomic_store(&t->committed, txg);
	pthread_cond_broadcast(&t->done);
	pthread_mutex_unlock(&t->lock);
	call_waiters(t);
	ilog_committed(t->pool, txg);
}

static void *sync_run(void *arg)
{
	struct txgs *t = arg;
	bool told = false;

	pthread_mutex_lock(&t->lock);
	for (;;) {
		if (should_close(t)) {
			pthread_mutex_unlock(&t->lock);
			commit_one(t);
			pthread_mutex_lock(&t->lock);
			continue;
		}
		if (t->stop)
			break;
		if (atomic_load(&t->pool->suspended) && !told) {
			told = true;
			pthread_mutex_unlock(&t->lock);
			tell_gone(t);
			pthread_mutex_lock(&t->lock);
			continue;
		}
		txg_timedwait(t, &t->wake, 1000000000ull);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

int txg_start(struct pool *pool, const struct txg_client *client)
{
	struct txgs *t = pool->txgs;
	int rc;

	t->client = client;
	atomic_store(&t->committed, pool->uber.txg);
	t->settled = pool->uber.txg;
	atomic_store(&t->open, pool->read_only ? pool->uber.txg + 1 : pool->first_txg);
	ilog_open(pool, atomic_load(&t->open));
	alloc_refresh(pool);
	if (pool->read_only)
		return 0;
	/* The import itself, or the new pool, is what the first txg makes durable. */
	atomic_store(&t->used, true);
	clock_gettime(CLOCK_MONOTONIC, &t->opened);
	rc = workq_create(pool->config->threads ? pool->config->threads : 1, &t->wq);
	if (rc)
		return rc;
	rc = pthread_create(&t->sync_thread, NULL, sync_run, t);
	if (rc)
		return -rc;
	rc = pthread_create(&t->throttle_thread, NULL, throttle_run, t);
	if (rc) {
		t->stop = true;
		atomic_store(&pool->suspended, true);
		pthread_join(t->sync_thread, NULL);
		return -rc;
	}
	atomic_store(&t->running, true);
	return 0;
}

int txg_stop(struct pool *pool)
{
	struct txgs *t = pool->txgs;

	if (!t || !atomic_exchange(&t->running, false))
		return 0;
	pthread_mutex_lock(&t->lock);
	t->stop = t->throttle_stop = true;
	pthread_cond_broadcast(&t->wake);
	pthread_cond_broadcast(&t->throttle);
	pthread_cond_broadcast(&t->done);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->sync_thread, NULL);
	pthread_mutex_lock(&t->lock);
	t->ended = true;
	pthread_mutex_unlock(&t->lock);
	tell_gone(t);
	pthread_join(t->throttle_thread, NULL);
	for (unsigned i = 0; i < TXG_SHARDS; i++)
		drop_frees(t, &t->shards[i].frees);
	drop_frees(t, &t->frozen_frees);
	drop_frees(t, &t->sync_frees);
	return atomic_load(&pool->suspended) ? -EIO : 0;
}

/* ---- waiting ---- */

uint64_t txg_open(struct pool *pool)
{
	return atomic_load(&pool->txgs->open);
}

uint64_t txg_committed(struct pool *pool)
{
	return atomic_load(&pool->txgs->committed);
}

/* Lock held. */
static void ask(struct txgs *t, uint64_t txg)
{
	if (txg > atomic_load(&t->open))
		txg = atomic_load(&t->open);
	if (txg > t->want) {
		t->want = txg;
		pthread_cond_signal(&t->wake);
	}
}

void txg_kick(struct pool *pool, uint64_t txg)
{
	pthread_mutex_lock(&pool->txgs->lock);
	ask(pool->txgs, txg);
	pthread_mutex_unlock(&pool->txgs->lock);
}

/* Lock held. What must be committed for txg to be durable: not the open one if it is clean. */
static uint64_t wait_target(struct txgs *t, uint64_t txg)
{
	uint64_t open = atomic_load(&t->open);

	if (txg >= open)
		txg = atomic_load(&t->used) ? open : open - 1;
	/* The numbers between the last uberblock and this import's first txg hold nothing. */
	return open == t->pool->first_txg && txg < open ? atomic_load(&t->committed) : txg;
}

/* Lock held. -EAGAIN: not yet. */
static int wait_result(const struct txgs *t, uint64_t txg)
{
	int rc = wait_failed(t);

	if (atomic_load(&t->committed) >= txg)
		return 0;
	return rc ? rc : -EAGAIN;
}

int txg_wait(struct pool *pool, uint64_t txg)
{
	struct txgs *t = pool->txgs;
	int rc;

	tx_assert_none();
	pthread_mutex_lock(&t->lock);
	txg = wait_target(t, txg);
	ask(t, txg);
	while ((rc = wait_result(t, txg)) == -EAGAIN)
		pthread_cond_wait(&t->done, &t->lock);
	pthread_mutex_unlock(&t->lock);
	return rc;
}

void txg_wait_async(struct pool *pool, struct txg_waiter *w)
{
	struct txgs *t = pool->txgs;
	int rc;

	pthread_mutex_lock(&t->lock);
	w->txg = wait_target(t, w->txg);
	ask(t, w->txg);
	rc = wait_result(t, w->txg);
	if (rc == -EAGAIN) {
		w->next = t->waiters;
		t->waiters = w;
	}
	pthread_mutex_unlock(&t->lock);
	if (rc != -EAGAIN)
		w->fn(w, rc);
}
