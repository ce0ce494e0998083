// SPDX-License-Identifier: LGPL-3.0-or-later
/* Reservations and what a pool says about its space. */
#include "pool/alloc_impl.h"

static uint64_t slop_sectors(uint64_t size)
{
	uint64_t least = (16u << 20) / SECTOR_SIZE;

	if (least > size / 4)
		least = size / 4;
	return size / 32 > least ? size / 32 : least;
}

/* Sectors that must stay free: half of the slop is for freeing on a full pool, the other half
   for what the sync writes of its own. */
static uint64_t kept_back(const struct alloc *a, enum tx_kind kind)
{
	uint64_t slop = slop_sectors(atomic_load(&a->size));

	return kind == TX_NORMAL ? slop : slop / 2;
}

static bool fits(const struct alloc *a, uint64_t reserved, enum tx_kind kind, uint64_t spare)
{
	uint64_t sectors = reserved / SECTOR_SIZE + 1;

	/* A window may take just one block of half its size and a bit: two windows for each. */
	if (kind != TX_FREEING && 2 * sectors + spare > atomic_load(&a->large))
		return false;
	/* Each sector may be a block of its own. */
	if (sectors > atomic_load(&a->small))
		return false;
	return sectors + kept_back(a, kind) + spare <= atomic_load(&a->free);
}

/* Groups and devices may have come since the last commit. */
static bool fits_now(struct pool *pool, uint64_t reserved, enum tx_kind kind)
{
	struct alloc *a = pool->alloc;

	pthread_mutex_lock(&a->lock);
	alloc_refresh(pool);
	pthread_mutex_unlock(&a->lock);
	return fits(a, reserved, kind, 0);
}

/* Whether it would fit if everything unsettled came back. */
static enum reserve_result wait_or_full(struct pool *pool, uint64_t others, uint64_t cost,
					enum tx_kind kind)
{
	struct alloc *a = pool->alloc;
	uint64_t used = atomic_load(&a->used), size = atomic_load(&a->size);
	bool unsettled = others || atomic_load(&a->deferred) ||
			 txg_committed(pool) < atomic_load(&a->slabs_back);

	if (!unsettled || used + kept_back(a, kind) + cost / SECTOR_SIZE + 1 > size)
		return RESERVE_FULL;
	return RESERVE_WAIT;
}

enum reserve_result alloc_reserve(struct pool *pool, uint64_t txg, uint64_t bytes,
				  enum tx_kind kind)
{
	struct alloc *a = pool->alloc;
	uint64_t cost = bytes * atomic_load(&a->cost);
	uint64_t others = atomic_fetch_add(&a->reserved_total, cost);

	if (!fits(a, others + cost, kind, 0) && !fits_now(pool, others + cost, kind)) {
		atomic_fetch_sub(&a->reserved_total, cost);
		return wait_or_full(pool, others, cost, kind);
	}
	atomic_fetch_add(&a->reserved[txg % 4], cost);
	return RESERVE_OK;
}

bool alloc_reserve_ahead(struct pool *pool, uint64_t txg, uint64_t bytes)
{
	struct alloc *a = pool->alloc;
	uint64_t cost = bytes * atomic_load(&a->cost);
	uint64_t others = atomic_fetch_add(&a->reserved_total, cost);

	if (!fits(a, others + cost, TX_NORMAL, atomic_load(&a->size) / 8)) {
		atomic_fetch_sub(&a->reserved_total, cost);
		return false;
	}
	atomic_fetch_add(&a->reserved[txg % 4], cost);
	return true;
}

bool reserve_spares(struct alloc *a, uint64_t sectors, uint64_t small, uint64_t large)
{
	uint64_t slop = slop_sectors(atomic_load(&a->size)), reserved;
	/* Who reserves from now on sees what is left, or is seen here. */
	uint64_t free_left = atomic_fetch_sub(&a->free, sectors) - sectors;
	uint64_t small_left = atomic_fetch_sub(&a->small, small) - small;
	uint64_t large_left = atomic_fetch_sub(&a->large, large) - large;

	reserved = atomic_load(&a->reserved_total) / SECTOR_SIZE + 1;
	if (free_left >= reserved + slop && small_left >= reserved && large_left >= 2 * reserved)
		return true;
	atomic_fetch_add(&a->free, sectors);
	atomic_fetch_add(&a->small, small);
	atomic_fetch_add(&a->large, large);
	return false;
}

void reserve_settle(struct pool *pool, uint64_t txg)
{
	struct alloc *a = pool->alloc;

	atomic_fetch_sub(&a->reserved_total, atomic_exchange(&a->reserved[txg % 4], 0));
}

bool alloc_frees_pending(struct pool *pool)
{
	struct alloc *a = pool->alloc;

	return atomic_load(&a->deferred) || txg_committed(pool) < atomic_load(&a->slabs_back);
}

void pool_space(struct pool *pool, struct pool_space *out)
{
	struct alloc *a = pool->alloc;
	uint64_t size, used, kept;

	pthread_mutex_lock(&a->lock);
	alloc_refresh(pool);
	size = atomic_load(&a->size);
	used = atomic_load(&a->used);
	pthread_mutex_unlock(&a->lock);
	kept = slop_sectors(size);
	*out = (struct pool_space){
	    .size = size * SECTOR_SIZE,
	    .allocated = used * SECTOR_SIZE,
	    .avail = used + kept < size ? (size - used - kept) * SECTOR_SIZE : 0,
	};
}
