// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Scrubbing one block: all its copies, or all columns of its stripe with their parity and padding,
 * are read and proved, and what is wrong is written anew. Errors are counted by device as reads
 * count them. Columns that are stale or whose device is out of use are left out.
 *
 * Callers: api/scrub.c. No lock; never blocks.
 */
#ifndef TARN_POOL_SCRUB_H
#define TARN_POOL_SCRUB_H

#include "pool/block.h"

struct scrub_req;

struct block_scrub {
	struct bp
	    bp;     /* bp_valid() and no hole; found inside a read epoch that lasts until done() */
	int result; /* 0: good, perhaps by now; -EIO: no good copy (counted, reported) */
	uint32_t read, repaired; /* bytes on devices */
	/* In a worker of the pool's work queue; may not block. */
	void (*done)(struct block_scrub *b);
	void *owner;
	struct scrub_req *req; /* the pipeline's, until done() */
};
void block_scrub(struct pool *pool, struct block_scrub *b);

#endif
