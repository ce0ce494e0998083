// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The inside of the block pipeline: block.c (writing, reading of copies) and stripe.c (reading of
 * blocks with parity).
 */
#ifndef TARN_POOL_BLOCK_IMPL_H
#define TARN_POOL_BLOCK_IMPL_H

#include "pool/chunk.h"

/* Counts an error, and takes the device out of use after too many. */
void block_device_error(struct pool *pool, struct pool_dev *dev, atomic_ulong *counter,
			const char *what, int error);
/* Counts and reports a block that is lost; returns -EIO. */
int block_no_good_copy(struct pool *pool, const struct bp *bp);
bool block_content_good(const struct bp *bp, const void *stored);
/* From the stored bytes, which have proved good, to the content; they may be in buf already. 0 or
   -EIO, which has been reported. */
int block_decode(struct pool *pool, const struct bp *bp, const void *stored, void *buf);
/*
 * The gate for writing over a live location. The block is still allocated, for its bp was found
 * inside the caller's epoch, which lasts until done(); its place is written once, so nobody
 * else writes there but another repair with the same bytes; the column is still the one that
 * was read; the source was verified against the bp.
 */
bool block_may_repair(struct pool *pool, const struct chunk *chunk, unsigned col);

/* block_read() of a block in a chunk with parity. */
void stripe_read(struct pool *pool, struct chunk *chunk, struct block_read *r);

#endif
