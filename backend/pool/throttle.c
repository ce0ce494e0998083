// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The delay of writers when much is dirty: from a part of the limit on, one after the other
 * gets a time to go, and the distance grows without bound towards the limit, where all wait for
 * a commit. A thread calls those who wait asynchronously.
 */
#include <time.h>

#include "pool/alloc.h"
#include "pool/txgs_impl.h"

#define DELAY_FROM(max) ((max) / 10 * 6)
#define DELAY_SCALE 100000ull  /* ns between writers half way up */
#define DELAY_MAX 100000000ull /* ns */
#define DIRTY_DEFAULT (256ull << 20)

uint64_t txg_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

uint64_t dirty_max(const struct pool *pool)
{
	uint64_t max = __atomic_load_n(&pool->config->dirty_max, __ATOMIC_RELAXED);

	return max ? max : DIRTY_DEFAULT;
}

uint64_t throttle_enter(struct txgs *t)
{
	uint64_t max = dirty_max(t->pool), dirty = atomic_load(&t->dirty_total);
	uint64_t now, slot, delay;

	if (dirty <= DELAY_FROM(max))
		return 0;
	if (dirty >= max)
		return UINT64_MAX;
	delay = DELAY_SCALE * (dirty - DELAY_FROM(max)) / (max - dirty);
	if (delay > DELAY_MAX)
		delay = DELAY_MAX;
	now = txg_now();
	slot = atomic_load(&t->next_slot);
	do {
		if (slot > now)
			return slot - now;
	} while (!atomic_compare_exchange_weak(&t->next_slot, &slot, now + delay));
	return 0;
}

void throttle_settle(struct txgs *t, uint64_t txg)
{
	atomic_fetch_sub(&t->dirty_total, atomic_exchange(&t->dirty[txg % 4], 0));
}

void txg_timedwait(struct txgs *t, pthread_cond_t *cond, uint64_t ns)
{
	uint64_t until = txg_now() + ns;
	struct timespec ts = {.tv_sec = (time_t)(until / 1000000000ull),
			      .tv_nsec = (long)(until % 1000000000ull)};

	pthread_cond_timedwait(cond, &t->lock, &ts);
}

void throttle_wake(struct txgs *t)
{
	pthread_mutex_lock(&t->lock);
	pthread_cond_broadcast(&t->throttle);
	pthread_mutex_unlock(&t->lock);
}

/* The dirty limit is looked at without taking the turn, which the waiter takes itself. */
static uint64_t until_turn(struct txgs *t)
{
	uint64_t max = dirty_max(t->pool), dirty = atomic_load(&t->dirty_total);
	uint64_t now, slot;

	if (atomic_load(&t->pool->suspended) || !atomic_load(&t->running))
		return 0;
	if (atomic_load(&t->hungry) || dirty >= max)
		return UINT64_MAX;
	if (dirty <= DELAY_FROM(max))
		return 0;
	now = txg_now();
	slot = atomic_load(&t->next_slot);
	return slot > now ? slot - now : 0;
}

static void call_first(struct txgs *t)
{
	struct tx_waiter *w = t->tx_head;

	t->tx_head = w->next;
	if (!t->tx_head)
		t->tx_tail = &t->tx_head;
	pthread_mutex_unlock(&t->lock);
	w->fn(w);
	pthread_mutex_lock(&t->lock);
}

void *throttle_run(void *arg)
{
	struct txgs *t = arg;

	pthread_mutex_lock(&t->lock);
	while (t->tx_head || !t->throttle_stop) {
		uint64_t ns = t->tx_head ? until_turn(t) : UINT64_MAX;

		if (!ns)
			call_first(t);
		else if (ns == UINT64_MAX)
			pthread_cond_wait(&t->throttle, &t->lock);
		else
			txg_timedwait(t, &t->throttle, ns);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

void tx_wait_async(struct pool *pool, struct tx_waiter *w)
{
	struct txgs *t = pool->txgs;

	w->next = NULL;
	pthread_mutex_lock(&t->lock);
	*t->tx_tail = w;
	t->tx_tail = &w->next;
	/* Only a commit can help, also if nothing is dirty. */
	if (atomic_load(&t->hungry) || atomic_load(&t->dirty_total) >= dirty_max(pool)) {
		t->force = atomic_load(&t->open);
		pthread_cond_broadcast(&t->wake);
	}
	pthread_cond_broadcast(&t->throttle);
	pthread_mutex_unlock(&t->lock);
}
