// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The allocator: a bitmap per chunk, choice of group and chunk, deferred frees, and the
 * reservations by which an operation knows beforehand that its txg's sync finds room.
 *
 * Unit of account is the sector after redundancy; a row of a parity chunk counts as many as it has
 * columns of data, and a slab as much as it gives in a chunk over the whole group. Free space is
 * that of free slabs and of chunks; `large` that part of it which lies in aligned runs of a whole
 * BLOCK_MAX, so that reservations never promise a large block what is there in crumbs only; `small`
 * the number of blocks of one sector that find room. A bit is set from the
 * allocation until its deferred free is released: after TXG_KEEP commits and all readers from
 * before, and after the discard where the device has one.
 *
 * Callers: block.c (alloc_run), txg.c (reservations, commit), alog.c (the log's and the
 * checkpoints' view), rebuild.c; config.c for the life. One mutex, alloc->lock: taken after no lock
 * of pool/ but the txg shards'; before chunks->lock and the slab tables'; never held over I/O.
 */
#ifndef TARN_POOL_ALLOC_H
#define TARN_POOL_ALLOC_H

#include "pool/chunk.h"

/* Sectors of one chunk, rows of one with parity; also the entry of the allocation log. */
struct extent {
	uint64_t chunk;
	uint32_t sector, count;
};
static_assert(sizeof(struct extent) == 16, "extent");

struct extents {
	struct extent *e;
	size_t n, room;
};
/* Appends, joining with the last one if adjacent. */
void extents_add(struct extents *list, uint64_t chunk, uint32_t sector, uint32_t count);
/* Sorts by place and joins neighbours; false if two overlap. */
bool extents_sort(struct extents *list);
void extents_free(struct extents *list);

/* ---- life; see chunk.h ---- */

int alloc_create(struct pool *pool);
/* Groups were added: their space counts from now on. Any thread. */
void alloc_grown(struct pool *pool);
void alloc_destroy(struct pool *pool);

/* After txg_stop(): no discard is on its way any more. Before the lease of the pool ends: what
   it frees may be another host's to write then. */
void alloc_wait_discards(struct pool *pool);

/* ---- sync context ---- */

/* Room for a block of so many sectors: chunk_rows() of one chunk, allocated in this txg. Where the
   group has parity, in the shape that takes less of the devices: rows or copies. -ENOSPC. */
int alloc_run(struct txg_sync *s, enum block_class class, uint32_t sectors, struct chunk **chunk,
	      uint32_t *sector);
/* The same, in a chunk without parity. */
int alloc_copies(struct txg_sync *s, enum block_class class, uint32_t sectors, struct chunk **chunk,
		 uint32_t *sector);

/* sync_free() of txg.h is here too. */

/* After the uberblock of s->txg is durable: queues its frees, releases what is old enough,
   gives the txg's reservations back. */
void alloc_committed(struct txg_sync *s);

/* Makes stale the columns on `dev` of all chunks written in this txg; false if one is the last
   good one. */
bool alloc_written_stale(struct txg_sync *s, uint32_t dev);

/* Columns of the chunk get all writes from now on: notes the rows in use, but for those in `but`,
   that are still to be copied to them. Until the end it is not given back. Sync context. */
void alloc_fill_begin(struct txg_sync *s, struct chunk *chunk, const struct extent *but,
		      uint32_t n);
/* The next rows to be copied, so many at most; the last ones have been. What they hold does not
   change until then. Once the txg of the beginning is committed; one thread. */
bool alloc_fill_next(struct pool *pool, struct chunk *chunk, uint32_t most, struct extent *out);
/* The chunk counts as written in this txg: what its columns have got is flushed with that. Sync
   context. */
void alloc_fill_end(struct txg_sync *s, struct chunk *chunk);
/* Rows in use. Sync context. */
uint32_t alloc_used(struct pool *pool, const struct chunk *chunk);

/* Frees wait for commits: closing empty txgs would give space. */
bool alloc_frees_pending(struct pool *pool);

/* ---- reservations; any thread ---- */

enum reserve_result {
	RESERVE_OK,
	RESERVE_WAIT, /* might fit once commits have settled what is reserved or freed */
	RESERVE_FULL,
};
enum reserve_result alloc_reserve(struct pool *pool, uint64_t txg, uint64_t bytes,
				  enum tx_kind kind);
/* Counts anew what reservations are judged by. alloc->lock held, or before the pool starts. */
void alloc_refresh(struct pool *pool);
/* A piece for a txg shard to hand out, if there is plenty: true, else nothing is reserved. */
bool alloc_reserve_ahead(struct pool *pool, uint64_t txg, uint64_t bytes);

/* ---- the allocation log's view; the sync thread, or import ---- */

/* What this txg has allocated and freed so far. Valid until the next change. */
void alloc_txg_extents(struct txg_sync *s, struct extents *allocs, struct extents *frees);
/* Newest txg whose frees are all released. */
uint64_t alloc_released_txg(struct pool *pool);
/* Oldest txg whose log entries some chunk's checkpoint lacks; `txg` if there is none. */
uint64_t alloc_log_tail(struct pool *pool, uint64_t txg);
/* How many chunks changed since their checkpoint; the one that waits longest. */
uint32_t alloc_unchecked(struct pool *pool);
struct chunk *alloc_longest_unchecked(struct pool *pool);
/* The chunk's bitmap as the checkpoint of this txg: all allocations but the txg's own, all frees up
   to alloc_released_txg(). Packs into out; returns its length. */
uint32_t alloc_checkpoint(struct txg_sync *s, struct chunk *chunk, uint8_t *packing, uint8_t *out);
/* Takes a chunk that holds nothing out of the allocator, for chunk_remove(); NULL if there is
   none. */
struct chunk *alloc_take_empty(struct txg_sync *s);
/* Room for the rest of the sync (pool tree, log) in chunks that have a record. */
void alloc_prepare_tail(struct txg_sync *s);

/* Import: a listed chunk with its checkpoint; then the log's changes in order of effect, those
   that the checkpoint holds already are left out; then the frees that are still deferred, by
   txg; then done. -EIO if it cannot be true. */
int alloc_load_chunk(struct pool *pool, struct chunk *chunk, const struct chunk_record *record);
int alloc_load_change(struct pool *pool, uint64_t txg, const struct extent *e, bool alloc);
int alloc_load_deferred(struct pool *pool, uint64_t txg, const struct extent *e);
int alloc_load_done(struct pool *pool);

/* For tarnck and tests: calls fn for each run of allocated sectors, deferred frees among them. */
void alloc_each_run(struct pool *pool, void (*fn)(void *arg, const struct extent *run), void *arg);

/* The same for deferred frees alone. */
void alloc_each_deferred(struct pool *pool, void (*fn)(void *arg, const struct extent *run),
			 void *arg);

#endif
