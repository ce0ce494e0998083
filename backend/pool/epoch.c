// SPDX-License-Identifier: LGPL-3.0-or-later
/* Reader epochs. */
#include <sched.h>

#include "pool/txgs_impl.h"

unsigned txg_shard_here(void)
{
	int cpu = sched_getcpu();

	return cpu < 0 ? 0 : (unsigned)cpu % TXG_SHARDS;
}

struct read_epoch read_enter(struct pool *pool)
{
	struct txgs *t = pool->txgs;
	unsigned shard = txg_shard_here();

	for (;;) {
		uint64_t epoch = atomic_load(&t->epoch);
		atomic_uint *readers = &t->epochs[shard].readers[epoch % EPOCH_SLOTS];

		/* If the epoch is still the same after the count went up, whoever moves it on sees
		   the count. */
		atomic_fetch_add(readers, 1);
		if (atomic_load(&t->epoch) == epoch)
			return (struct read_epoch){.slot = (uint16_t)(epoch % EPOCH_SLOTS),
						   .shard = (uint16_t)shard};
		atomic_fetch_sub(readers, 1);
	}
}

void read_leave(struct pool *pool, struct read_epoch epoch)
{
	atomic_fetch_sub(&pool->txgs->epochs[epoch.shard].readers[epoch.slot], 1);
}

static bool slot_empty(struct txgs *t, uint64_t epoch)
{
	for (unsigned i = 0; i < TXG_SHARDS; i++) {
		if (atomic_load(&t->epochs[i].readers[epoch % EPOCH_SLOTS]))
			return false;
	}
	return true;
}

uint64_t epoch_current(struct pool *pool)
{
	return atomic_load(&pool->txgs->epoch);
}

/* A slot is used again only when its last reader has left. */
void epoch_advance(struct pool *pool)
{
	struct txgs *t = pool->txgs;
	uint64_t epoch = atomic_load(&t->epoch);

	if (slot_empty(t, epoch + 1))
		atomic_store(&t->epoch, epoch + 1);
}

bool epoch_passed(struct pool *pool, uint64_t epoch)
{
	struct txgs *t = pool->txgs;
	uint64_t now = atomic_load(&t->epoch);
	uint64_t first = now >= EPOCH_SLOTS ? now - EPOCH_SLOTS + 1 : 0;

	if (now <= epoch)
		return false;
	for (uint64_t e = first; e <= epoch; e++) {
		if (!slot_empty(t, e))
			return false;
	}
	return true;
}
