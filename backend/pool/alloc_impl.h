// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The allocator's inside, shared by alloc.c (bitmaps, choice of chunks), defer.c (frees and
 * discards) and reserve.c (reservations, space). Everything is under alloc->lock but the atomics.
 */
#ifndef TARN_POOL_ALLOC_IMPL_H
#define TARN_POOL_ALLOC_IMPL_H

#include <sys/queue.h>

#include "pool/alloc.h"
#include "pool/bitmap.h"

/* Sectors of the largest block. A window is a run of a chunk that holds one: as many sectors, fewer
   rows. */
#define WINDOW (BLOCK_MAX / SECTOR_SIZE)

/* What a block may become where a group has parity; elsewhere all are copies. */
enum shape { SHAPE_COPIES, SHAPE_ROWS, SHAPES };

struct chunk_space {
	struct chunk *chunk;
	/* Either the bits or, for a chunk at rest, their packed form. */
	uint64_t *bits;
	uint8_t *packed;
	uint32_t packed_len;
	uint8_t packing;
	bool touched; /* written in the running sync */
	/* While columns are being filled, else NULL: rows that are still to be copied to them. */
	uint64_t *fill;
	struct {
		uint32_t from, to;
	} copying;       /* of those the ones on their way, which nobody may be given */
	uint32_t used;   /* bits set */
	uint32_t cursor; /* where the next run is looked for first */
	uint32_t misfit; /* no run of this many sectors or more is there */
	uint32_t width;  /* sectors that a bit stands for */
	uint32_t window; /* bits of each */
	uint32_t free_windows;
	uint32_t deferred;        /* bits freed but not released */
	uint16_t *windows;        /* used bits of each */
	struct extents allocs;    /* of the running sync */
	uint64_t made;            /* txg that made the chunk; 0: imported */
	uint64_t unchecked_since; /* 0, or the oldest txg that its next import may have to replay */
	uint64_t alloc_txg, free_txg; /* import: of the checkpoint */
	TAILQ_ENTRY(chunk_space) group_link, empty_link, unchecked_link;
	SLIST_ENTRY(chunk_space) touched_link;
};

struct group_space {
	TAILQ_HEAD(, chunk_space) chunks;
	struct chunk_space *current[2][SHAPES]; /* by enum block_class */
	int64_t credit;                         /* sectors until it is another group's turn */
	/* Of its chunks; overhead: what their slabs could give beyond that, as second copies. */
	uint64_t sectors, used, overhead;
	uint64_t free_bits, free_windows;
};

/* The frees of one txg. */
struct free_batch {
	TAILQ_ENTRY(free_batch) link;
	uint64_t txg;
	uint64_t epoch; /* readers up to this one may still see the blocks */
	uint64_t sectors;
	struct extents extents;
	enum { BATCH_WAITS, BATCH_DISCARDING, BATCH_READY } state;
};

struct alloc {
	pthread_mutex_t lock;
	struct group_space groups[POOL_GROUPS_MAX];
	uint32_t rotor;
	SLIST_HEAD(, chunk_space) touched;
	TAILQ_HEAD(, chunk_space) empty;     /* used == 0 */
	TAILQ_HEAD(, chunk_space) unchecked; /* by unchecked_since */
	uint32_t nunchecked;
	struct extents frees;                            /* of the running sync */
	TAILQ_HEAD(free_batch_head, free_batch) batches; /* by txg */
	uint64_t deferred_sectors;
	uint64_t released_txg; /* all frees up to this one are released */
	struct alog *alog;     /* alog.c */
	unsigned discards;     /* running */
	pthread_cond_t discarded;

	/* Sectors; read without the lock. */
	_Atomic uint64_t free, large, small, size, used, deferred;
	_Atomic uint64_t slabs_back; /* the commit that makes the slabs of given back chunks free */
	atomic_uint cost;            /* sectors that one sector may cost */
	_Atomic uint64_t reserved_total; /* bytes */
	_Atomic uint64_t reserved[4];    /* by txg % 4 */
};

struct chunk_space *space_add(struct pool *pool, struct chunk *chunk);
void space_unpack(struct chunk_space *cs);
/* Keeps only the packed form, if that is short: a chunk at rest. */
void space_pack(struct chunk_space *cs, uint8_t packing, const uint8_t *packed, uint32_t len);
void space_mark(struct alloc *a, struct chunk_space *cs, uint32_t sector, uint32_t n, bool set);
/* Its checkpoint lacks something from txg `since` on. */
void space_changed(struct alloc *a, struct chunk_space *cs, uint64_t since);

/* Waits for discards, then forgets what is deferred. */
void defer_destroy(struct pool *pool);
/* Whether reservations can do without so much of what is free (large: in whole windows; small: in
   blocks of a sector); then it is taken off until alloc_refresh(). Lock held. */
bool reserve_spares(struct alloc *a, uint64_t sectors, uint64_t small, uint64_t large);
/* Gives the txg's reservations back. */
void reserve_settle(struct pool *pool, uint64_t txg);

#endif
