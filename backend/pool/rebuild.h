// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Rebuilding stale columns whose devices are in use, some chunks at a time. In a sync they get the
 * slabs that they lack, and from then on all that is written to their chunks; what was allocated by
 * then is noted (alloc.h). Once that sync is committed those rows are read from the good columns,
 * computed and written, in long pieces; none of the rows of a piece changes meanwhile, for nothing
 * is allocated there. In another sync, which flushes all that, the columns become current, unless
 * one has missed a write: then its turn comes again. A cut leaves the columns stale.
 *
 * The sectors of the intent log are not copied: what is in it by then is needed no more when the
 * second sync is committed, and what follows is written to the columns, too.
 *
 * A column whose device has no free slab is left out, and waits for one.
 *
 * A column that is being rebuilt is never read. What it gets is computed from columns as they are:
 * damage in these stays damage, which checksums show and a scrub repairs.
 *
 * Callers: api/resilver.c, one at a time in a pool; api/job.c.
 */
#ifndef TARN_POOL_REBUILD_H
#define TARN_POOL_REBUILD_H

#include "pool/alloc.h"

#define REBUILD_CHUNKS 8
/* Bytes in use of those that are rebuilt together; one chunk may have more. */
#define REBUILD_BYTES (64ull << 20)

struct rebuild {
	struct pool *pool;
	uint64_t after; /* chunks with greater ids are looked for */
	/* Of the last rebuild_begin(). */
	uint64_t left; /* bytes to be written to columns, of these chunks and all behind them */
	uint32_t n;
	struct rebuild_chunk {
		struct chunk *chunk;
		uint32_t targets; /* mask of columns */
		bool good;        /* all of them are written */
	} chunks[REBUILD_CHUNKS];
};

/* Sync context: chooses chunks; n is 0 if there are none. */
void rebuild_begin(struct txg_sync *s, struct rebuild *r);
/* Blocking: fills their columns. pace() is told of each piece, bytes written and all that were
   moved, and may take its time; true: give up. */
void rebuild_fill(struct rebuild *r, bool (*pace)(void *arg, uint64_t written, uint64_t moved),
		  void *arg);
/* Columns have found no slab and still wait for one. Any thread. */
bool rebuild_waits(const struct pool *pool);
/* There are slabs now; says so once. */
bool rebuild_may_go_on(struct pool *pool);
/* Sync context: what was filled becomes current. Returns how many chunks have got all of their
   columns; `after` is the last one. */
uint32_t rebuild_end(struct txg_sync *s, struct rebuild *r);

#endif
