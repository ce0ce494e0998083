// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Slab tables: which slab of a device belongs to which column of which chunk. Owns a
 * device's table, in memory and on disk.
 *
 * On disk a table is an array of one-sector pages, each with its own checksum, in two copies.
 * A sync writes a changed page into one copy only, the one that it did not write last; the
 * next sync brings the other one up to date. So, with no flush of its own, a cut can tear
 * only the copy that no durable uberblock needs yet. The valid copy with the higher sequence
 * number counts.
 *
 * An entry on disk is a claim, not the truth: the list of live chunks (chunk.h) decides which
 * claims hold. A released entry stays on disk, and its slab in nobody's hands, until none of
 * the last TXG_KEEP uberblocks can need it.
 *
 * Callers: chunk.c and alloc.c (take, release: sync context, any of its threads), txg.c
 * (slab_sync), config.c (life). One mutex a table, innermost, never held over I/O.
 */
#ifndef TARN_POOL_SLAB_H
#define TARN_POOL_SLAB_H

#include "pool/pool.h"

struct slab_entry {
	uint64_t chunk; /* 0: free */
	uint64_t generation;
	uint64_t txg; /* that made the entry */
	uint32_t profile;
	uint16_t column, ncols; /* of so many */
};
static_assert(sizeof(struct slab_entry) == 32, "slab entry");

#define SLAB_PAGE_ENTRIES 126

struct slab_page {
	struct disk_head head;
	uint64_t dev_guid;
	uint64_t seq; /* raised by each change of the page */
	uint32_t index;
	uint32_t reserved[3];
	struct slab_entry entries[SLAB_PAGE_ENTRIES];
};
static_assert(sizeof(struct slab_page) == SECTOR_SIZE, "slab page");

bool slab_page_valid(const struct slab_page *page, uint64_t dev_guid, uint32_t index);

#define SLAB_SHIFT_MIN 22
#define SLAB_SHIFT_MAX 30

static inline uint64_t slab_offset(const struct pool *pool, const struct pool_dev *dev,
				   uint32_t slab)
{
	return dev->slab_start + ((uint64_t)slab << pool->groups[dev->group].slab_shift);
}

/* Writes an empty table (both copies, no flush) to dev->dev. */
int slab_table_create(struct pool_dev *dev);

/* Reads dev's table. A page with no good copy counts as empty and is reported: the columns
   that it knew are missing. Without dev->dev the table is NULL and the device has no slabs. */
int slab_table_load(struct pool *pool, struct pool_dev *dev);
void slab_table_free(struct pool_dev *dev);

/* Slabs that slab_take() would give; any thread, no lock. */
uint32_t slab_free_count(const struct pool_dev *dev);

/* Gives a free slab to the column that entry names (entry->txg is set here). -ENOSPC,
   -ENXIO if the device is missing or faulted. */
int slab_take(struct pool_dev *dev, struct txg_sync *s, const struct slab_entry *entry,
	      uint32_t *slab);

/* The slab becomes free once TXG_KEEP uberblocks without it, this txg's the first, are
   durable. Its data may still be read until then. Nothing on a missing device. */
void slab_release(struct pool_dev *dev, struct txg_sync *s, uint32_t slab);

/* Import, before the pool starts, or of a device that comes later, in a sync: a claim that the list
   of live chunks does not know. One that is newer than the uberblock is free at once and cleared in
   the next sync; others are treated as released in it, as the last uberblocks may need them. */
void slab_discard(struct pool_dev *dev, uint32_t slab);

/* Calls fn for each claimed slab, as found on disk and changed since; fn may call
   slab_discard() for that slab. Stops at a nonzero result and returns it. */
int slab_each(struct pool_dev *dev,
	      int (*fn)(void *arg, struct pool_dev *dev, uint32_t slab,
			const struct slab_entry *entry),
	      void *arg);

/* The slab's entry is this column's. Sync context. */
bool slab_claims(const struct pool_dev *dev, uint32_t slab, uint64_t chunk, unsigned column,
		 uint64_t generation);

/* Writes the changed pages of all devices and waits for that; no flush. A device that fails
   is faulted; -EIO if a group has none left, else 0: what was written to a device that is
   faulted afterwards must be recorded stale by the caller. */
int slab_sync(struct txg_sync *s);

/* The table is written whole in the next sync: the device was faulted and has come back, and its
   last writes may be lost. */
void slab_table_dirty(struct pool_dev *dev);

#endif
