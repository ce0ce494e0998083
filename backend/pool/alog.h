// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The allocation log: what each txg allocated and freed, as extents, in a chain of blocks that
 * the uberblock names. With the bitmap checkpoints in the chunks' records it gives back every
 * bitmap as of the uberblock.
 *
 * A txg's blocks are allocated before its extents are collected, with room for their own:
 * so the log contains itself. alog_tail is the oldest txg whose entries some checkpoint lacks;
 * blocks before it are freed, and whoever reads the chain stops there. A few checkpoints in
 * each txg, of the chunks that have waited longest, keep the log short.
 *
 * Replay is in the order of effect: an allocation of txg a sets its bits at a, a free of txg f
 * clears them at f + TXG_KEEP; what takes effect after the uberblock's txg is deferred again.
 * A checkpoint tells up to which txg it holds either.
 *
 * Callers: txg.c (alog_write, alog_committed), alloc.c (life); pool_dirty_chunks() and the import
 * functions of pool.h are here too. The sync thread, or import: no lock.
 */
#ifndef TARN_POOL_ALOG_H
#define TARN_POOL_ALOG_H

#include "pool/alloc.h"

#define ALOG_MAGIC 0x676f6c616e726174ull /* "tarnalog" */
#define ALOG_BLOCK_MAX (64u << 10)

/* Followed by the extents, allocations first; the rest of the block is zero. */
struct alog_block {
	uint64_t magic;
	uint64_t pool_guid;
	uint64_t txg;
	uint32_t index; /* of the block in its txg */
	uint32_t nallocs, nfrees;
	uint32_t reserved0;
	struct bp prev; /* the block before; a hole: the first one ever */
	uint8_t reserved[24];
	struct extent extents[];
};
static_assert(sizeof(struct alog_block) == 128, "log block");

/* Whether the bytes of the block at bp can be true. */
bool alog_block_valid(const struct alog_block *block, const struct bp *bp, uint64_t pool_guid);

struct alog *alog_new(void);
void alog_free(struct alog *log); /* NULL is allowed */

/* Writes the log of this txg, in place of what an earlier pass wrote; *newest and *tail are for
   the uberblock. Nothing may be allocated or freed afterwards in this pass. */
int alog_write(struct txg_sync *s, struct bp *newest, uint64_t *tail);
/* The blocks of the log that the uberblock needs; while no sync runs. For tarnck. */
void alog_each_block(struct pool *pool, void (*fn)(void *arg, const struct bp *bp), void *arg);
/* All writes of the sync have been answered. */
void alog_committed(struct pool *pool);

#endif
