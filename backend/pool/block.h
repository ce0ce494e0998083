// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The block pipeline: compress, checksum, allocate, write all copies or a stripe with its parity;
 * read, verify, decompress, repair what was bad from what was good. The only way from bytes to a bp
 * and back.
 *
 * Callers: cache/ (reads), tree/ and fs/ in sync context (writes). Not cached here.
 */
#ifndef TARN_POOL_BLOCK_H
#define TARN_POOL_BLOCK_H

#include <stdatomic.h>

#include "pool/bp.h"
#include "pool/txg.h"

enum block_class { BLOCK_DATA, BLOCK_META }; /* which chunks: metadata gets more copies */

struct block_write {
	const void *data; /* dev_buf_alloc() memory, zero from lsize to the sector's end; unchanged
			     until sync_wait_io() */
	uint32_t lsize;
	uint8_t type, level;      /* enum bp_type */
	uint8_t comp, comp_level; /* COMP_ZSTD: 1..19; else 0 */
	uint8_t cksum;
	enum block_class class;
	atomic_bool *failed; /* set if no copy could be written; lives until the commit */
};

/* Sets *out at once; the writes go on. -ENOSPC never happens when reservations are right: it
   suspends the pool. Any thread of the sync. */
int block_write(struct txg_sync *s, const struct block_write *w, struct bp *out);

/* Waits for all writes of this sync; true if one set its failed flag. */
bool sync_wait_io(struct txg_sync *s);

struct block_read {
	struct bp bp;
	void *buf;  /* room for lsize rounded up to a sector, from dev_buf_alloc() */
	int result; /* 0, -EIO: no good copy (counted, reported) */
	void (*done)(
	    struct block_read *r); /* in a worker of the pool's work queue; may not block */
	void *owner;
	struct read_epoch
	    epoch;     /* entered by the caller before it looked the bp up; left by the caller */
	void *priv[4]; /* the pipeline's, until done() */
};
/* bp must be bp_valid() and no hole. Never blocks. */
void block_read(struct pool *pool, struct block_read *r);

/* One column's copy of a block as it is stored, whatever the others hold: for tarnck. Nothing is
   counted, repaired or reported; the block stays allocated until done(). Of a stripe, the column's
   part, which only all of them together can prove (stripe_solve()). */
struct block_verify {
	struct bp bp;    /* bp_valid() and no hole */
	unsigned column; /* of its chunk */
	void *buf;       /* room for its sectors or rows, from dev_buf_alloc() */
	int result;      /* 0; -ENODEV: the column is stale or its device missing; -EBADMSG: not the
			    block;      any other: it could not be read */
	void (*done)(struct block_verify *v); /* in a worker of the pool's work queue */
	void *owner;
	/* The pipeline's, until done(). */
	struct pool *pool;
	bool part;
	struct dev_io io;
	struct iovec iov;
	struct work work;
};
/* Never blocks. */
void block_verify(struct pool *pool, struct block_verify *v);

/* Inside pool/ only: a block read in an epoch of its own, waited for (not in a worker of the
   work queue); a block written where its bp says, uncompressed. */
int block_read_wait(struct pool *pool, const struct bp *bp, void *buf);
struct chunk;
void block_write_at(struct txg_sync *s, const struct bp *bp, struct chunk *chunk, const void *data,
		    atomic_bool *failed);

/* Inside pool/ only: BLOCK_MAX bytes of the thread's own, or NULL. */
void *block_scratch(void);

/* The pure parts, for the pipeline, tarnck and streams. Compression gives 0 if it does not
   pay (at least one sector saved); decompression demands exactly lsize bytes. */
uint32_t block_compress(enum bp_comp comp, int level, const void *src, uint32_t lsize, void *dst,
			uint32_t room);
int block_decompress(enum bp_comp comp, const void *src, uint32_t psize, void *dst, uint32_t lsize);
void block_checksum(enum bp_cksum alg, const void *data, uint32_t len, uint8_t sum[32]);

#endif
