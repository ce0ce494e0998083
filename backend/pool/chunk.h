// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The chunk table: (chunk id, sector) -> places on devices. Owns the chunks, their columns and
 * their records in the list of live chunks.
 *
 * A chunk is found without a lock, inside a read epoch or in sync context. Its id, group, profile
 * and the places of columns that are not stale never change. `stale` becomes true under
 * chunks->lock, and false again in a sync, when the column has been rebuilt (rebuild.h). A chunk
 * that is given back is unlinked in a sync and its memory freed when all epochs that were entered
 * before have left.
 *
 * A column is current when its slab's claim is there and nothing was written to the chunk
 * without it; else it is stale, which its record says in the same txg, and it is never read.
 * No column becomes stale if fewer good ones than the data needs were left: a write that would need
 * that has failed and its block goes elsewhere.
 *
 * Callers: alloc.c, alog.c, block.c, ilog.c, txg.c, rebuild.c, devstate.c; config.c for the life.
 * Locks: chunks->lock, inside alloc->lock; never held over I/O.
 */
#ifndef TARN_POOL_CHUNK_H
#define TARN_POOL_CHUNK_H

#include "pool/block.h"
#include "pool/parity.h"
#include "pool/pool.h"

/* Values are on disk. Mirror: all columns hold the same; so many, P + 1, for the small blocks of a
   parity group. Parity: the last 1, 2 or 3 columns hold parity (parity.h). */
enum chunk_profile {
	PROFILE_SINGLE = 1,
	PROFILE_DUP = 2,
	PROFILE_MIRROR = 3,
	PROFILE_PARITY1 = 4,
	PROFILE_PARITY2 = 5,
	PROFILE_PARITY3 = 6,
	PROFILES_END
};

#define CHUNK_COLS_MAX PARITY_COLS_MAX
#define CHUNK_SECTORS_MAX (1u << 18) /* of the largest slab */
#define CHUNK_NO_SLAB UINT32_MAX     /* a column made while its device was missing */

struct chunk_col {
	uint32_t dev; /* index in pool->devs */
	uint32_t slab;
	uint64_t generation;
	atomic_bool stale;
	/* While it is stale: it takes all writes, and has got each one since this became true. */
	atomic_bool filling;
};

struct chunk_space; /* alloc.c's part */

struct chunk {
	uint64_t id;
	uint32_t group;
	uint32_t sectors; /* of each column: rows, if it has parity */
	uint8_t profile;  /* enum chunk_profile */
	uint8_t class;    /* enum block_class: who allocates here first */
	uint8_t ncols;
	bool listed; /* import: its record has been loaded */
	struct chunk_col cols[CHUNK_COLS_MAX];
	struct chunk_space *space;

	_Atomic(struct chunk *) hash_next;
	bool record_dirty;         /* chunks->lock; columns differ from the record written last */
	struct chunk *dirty_next;  /* list of those */
	struct chunk *retire_next; /* unlinked, waits for readers */
	uint64_t retire_epoch;
};

/* ---- life; config.c ----
 *
 * pool_create() and pool_open(): txgs_create() (txg.c), chunks_create(), alloc_create(), and on
 * open, once the slab tables are loaded and pool->uber, first_txg are set, chunks_assemble().
 * Closing, after txg_stop() and before devices are closed: alloc_destroy() (waits for discards),
 * chunks_destroy(), txgs_destroy(); each allows NULL (not created).
 */
int chunks_create(struct pool *pool);
void chunks_destroy(struct pool *pool);
/* Maps every chunk that slab tables know as of the uberblock, columns by their highest
   generation: enough to read the pool tree. */
int chunks_assemble(struct pool *pool);

/* ---- shape ---- */

/* Columns of parity that a profile has. */
static inline unsigned profile_parity(unsigned profile)
{
	return profile < PROFILE_PARITY1 ? 0 : profile - PROFILE_PARITY1 + 1;
}

static inline unsigned chunk_parity(const struct chunk *chunk)
{
	return profile_parity(chunk->profile);
}

/* Columns with data of their own; so many must be good for all blocks to be there. */
static inline unsigned chunk_data_cols(const struct chunk *chunk)
{
	return chunk_parity(chunk) ? chunk->ncols - chunk_parity(chunk) : 1;
}

/* What a block of so many sectors takes of each column: blocks are addressed, allocated and freed
   in this unit. */
static inline uint32_t chunk_rows(const struct chunk *chunk, uint32_t sectors)
{
	return (sectors + chunk_data_cols(chunk) - 1) / chunk_data_cols(chunk);
}

/* How a block lies in a chunk with parity. */
static inline struct stripe chunk_stripe(const struct chunk *chunk, uint32_t bytes)
{
	return stripe_make(chunk_data_cols(chunk), chunk_parity(chunk), bytes);
}

/* ---- lookup ---- */

struct chunk *chunk_find(struct pool *pool, uint64_t id);

/* Byte offset of a sector on the column's device. */
uint64_t chunk_offset(const struct pool *pool, const struct chunk *chunk, unsigned col,
		      uint32_t sector);

/* The column is to get what is written: it is current, or is being filled. */
static inline bool chunk_col_written(const struct chunk *chunk, unsigned col)
{
	return !atomic_load(&chunk->cols[col].stale) || atomic_load(&chunk->cols[col].filling);
}

/* The column is current and its device usable. */
bool chunk_col_good(const struct pool *pool, const struct chunk *chunk, unsigned col);
unsigned chunk_good_cols(const struct pool *pool, const struct chunk *chunk);

/* Calls fn for all chunks of the table; import and sync thread only. */
void chunks_each(struct pool *pool, void (*fn)(void *arg, struct chunk *chunk), void *arg);

/* ---- sync context ---- */

/*
 * A new chunk of a group with slabs of its usable devices, in the table and in the next list
 * of records: of a mirror, on all devices; of a parity group, with parity on all that have a free
 * slab, else the copies on those that have most. -ENOSPC if a slab is lacking. The sync thread or
 * under alloc->lock.
 */
int chunk_new(struct txg_sync *s, uint32_t group, enum chunk_profile profile,
	      enum block_class class, struct chunk **out);
/* Releases the slabs and unlinks the chunk. Nothing in it is allocated or being read. */
void chunk_remove(struct txg_sync *s, struct chunk *chunk);
/* Frees what chunk_remove() unlinked and nobody can see any more. */
void chunks_reap(struct pool *pool);

/* The column missed a write. False: the others would be too few, so it stays as it is. One that is
   being filled is filled in vain. Any thread; a completion too. */
bool chunk_set_stale(struct pool *pool, struct chunk *chunk, unsigned col);
/* As chunk_set_stale() for every column of the chunk on this device. */
bool chunk_set_dev_stale(struct pool *pool, struct chunk *chunk, uint32_t dev);

/* A device has come that was missing at the import, its slab table is loaded: columns that it does
   not claim have lost their slabs, claims of others are forgotten. Sync context. */
void chunks_adopt_dev(struct txg_sync *s, struct pool_dev *dev);
/* Takes the device offline, unless its group cannot do without it (-ENODEV), or what some chunk
   holds (-EBUSY). A completion that finds a column stale, or a device faulty, does so before or
   after that, not meanwhile. The sync thread, between syncs. */
int chunks_leave_dev(struct pool *pool, struct pool_dev *dev);
/* Faults the device, unless it is out of use or its group cannot do without it. Any thread. */
bool chunks_fault_dev(struct pool *pool, struct pool_dev *dev);

/* Columns on the device that are being filled may lack what it was sent: they are filled in vain.
   Sync context, before a device that was out of use is used again. */
void chunks_spoil_dev(struct pool *pool, uint32_t dev);

/* The stale column gets a slab if it has none, and all that is written to the chunk from now on;
   -ENXIO, -ENOSPC. Sync context. */
int chunk_fill_begin(struct txg_sync *s, struct chunk *chunk, unsigned col);
/* good: all else has been written to it, too. Then it is current, unless it missed a write
   meanwhile; true if it is. Sync context, before the flush of the devices. */
bool chunk_fill_end(struct txg_sync *s, struct chunk *chunk, unsigned col, bool good);

/* Takes a chunk whose columns changed since its record was written; NULL if there is none. */
struct chunk *chunk_take_dirty(struct pool *pool);
bool chunks_any_dirty(struct pool *pool);

/* What the next uberblock says about ids and generations in use. */
void chunks_counters(struct pool *pool, uint64_t *next_chunk, uint64_t *generation);

/* The import has loaded all records: repairs are allowed. */
bool chunks_loaded(const struct pool *pool);

/* ---- records; alog.c adds the bitmap ---- */

struct chunk_record_col {
	uint32_t dev, slab;
	uint64_t generation;
	uint32_t stale;
	uint32_t reserved;
};
static_assert(sizeof(struct chunk_record_col) == 24, "chunk record column");

struct chunk_record {
	uint32_t group;
	uint32_t sectors;
	uint8_t profile, class, ncols;
	uint8_t packing;     /* enum bitmap_packing (bitmap.h) */
	uint32_t bitmap_len; /* bytes of it, at the record's end */
	/* The bitmap holds all allocations up to alloc_txg and all frees up to free_txg. */
	uint64_t alloc_txg, free_txg;
	struct chunk_record_col cols[]; /* ncols, then the bitmap */
};
static_assert(sizeof(struct chunk_record) == 32, "chunk record");

/* Fills a record's fixed part and columns; returns its bytes up to the bitmap. */
uint32_t chunk_record_fill(const struct chunk *chunk, struct chunk_record *record);
/* Whether the bytes are a record that can be true, all but the bitmap's content. */
bool chunk_record_valid(const void *record, uint32_t len);
/* Import: the listed chunk, its columns checked against the claims; made if no claim is left. */
int chunk_load(struct pool *pool, uint64_t id, const struct chunk_record *record,
	       struct chunk **out);
/* Import: forgets unlisted chunks and claims. */
void chunks_load_done(struct pool *pool);

#endif
