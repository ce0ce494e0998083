// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * What the rest of pool/ needs of the txg machinery beyond txg.h: its life, reader epochs as
 * the allocator sees them, and the writes of the running sync.
 *
 * Callers: config.c (life), alloc.c and chunk.c (epochs), block.c (sync_io_*).
 */
#ifndef TARN_POOL_TXGS_H
#define TARN_POOL_TXGS_H

#include "pool/pool.h"

/* Before chunks_create(); gives a pool that can be read. txg_start() starts the rest. */
int txgs_create(struct pool *pool);
void txgs_destroy(struct pool *pool); /* after txg_stop(); NULL inside allowed */

/* ---- reader epochs ----
 *
 * A number that grows with commits. A reader belongs to the one current when it entered. */

uint64_t epoch_current(struct pool *pool);
/* Moves on if it can; the sync thread. */
void epoch_advance(struct pool *pool);
/* No reader that entered in `epoch` or before is left, and none can come. */
bool epoch_passed(struct pool *pool, uint64_t epoch);

/* ---- writes of the running sync: counted from submission to completion ---- */

/* Waits while too many bytes are in flight. */
void sync_io_begin(struct pool *pool, uint64_t bytes);
void sync_io_end(struct pool *pool, uint64_t bytes, bool failed);

#endif
