// SPDX-License-Identifier: LGPL-3.0-or-later
/* The inside of the intent log: ilog.c (appending, writing, waiting), ilog_ring.c (where it lies),
   ilog_read.c (replay). */
#ifndef TARN_POOL_ILOG_IMPL_H
#define TARN_POOL_ILOG_IMPL_H

#include "pool/ilog.h"

#define PIECES_MAX 4 /* extents that a block can touch */

/* Where a log lies. What it names does not change as long as the log is in use. */
struct ring {
	uint64_t sectors; /* 0: nowhere */
	uint32_t nparts;  /* on groups of log devices; 0: in the pool's own extents */
	struct ring_part {
		uint32_t ncopies;
		struct pool_dev *copies[POOL_MIRROR_MAX];
	} parts[POOL_LOGS_MAX];
};

/* Sectors in a row of the ring from a position on, at most `count`. */
struct place {
	struct chunk *chunk; /* or NULL, then part */
	const struct ring_part *part;
	uint64_t offset; /* in bytes on each of its copies */
	uint32_t sector; /* of the chunk */
	uint32_t count, ncopies;
	uint32_t skip; /* bytes of the block before it */
};

struct batch_io {
	struct dev_io io;
	struct iovec iov;
	struct pool_dev *dev;
	struct chunk *chunk; /* or NULL */
	unsigned col;
	uint32_t piece;
};

/* Records on their way into one block. Filled while it is ilog->open, then immutable. */
struct batch {
	struct batch *next;
	struct ilog *log;
	uint8_t *buf; /* head, records */
	uint32_t len, room;
	uint64_t txg, needs_txg;
	uint64_t first; /* record */
	uint32_t nrecords;
	uint64_t seq, pos;       /* from closing on: number of the block, place in the ring */
	uint64_t durable_before; /* block, when it is written */
	struct batch_io *ios;    /* PIECES_MAX * CHUNK_COLS_MAX */
	uint32_t npieces;
	atomic_uint running;
	uint32_t needed[PIECES_MAX];  /* so many copies must take it */
	atomic_uint good[PIECES_MAX]; /* so many did */
	bool done, failed;
};

struct ilog_state {
	uint64_t id, number, seq, pos; /* as in the uberblock */
	uint64_t devs[POOL_LOG_DEVS_MAX];
};

struct ilog {
	struct pool *pool;
	/* The pool's own ring: set before records come. */
	struct extent extents[ILOG_EXTENTS_MAX];
	struct chunk *chunks[ILOG_EXTENTS_MAX];
	uint32_t nextents;
	uint64_t own_sectors;
	/* The log's. Changes at a freeze, while nothing is being written to it. Positions count
	   sectors and never wrap; the place of one is its remainder by ring.sectors. */
	struct ring ring;

	pthread_mutex_t lock;  /* all below */
	pthread_cond_t change; /* something became durable, or never will */
	uint64_t id;
	bool replaying; /* the uberblocks still name the log of an earlier import */
	bool started;   /* a log may begin at a freeze */
	bool live;      /* one has: the next txg's uberblock names it */
	bool active;    /* a durable one does: records are taken */
	bool dead;      /* it has ended, a write failed: nothing more is taken or durable by it */
	bool stopped;
	uint64_t txg, committed; /* open; durable */
	uint64_t needs_txg;      /* of the open txg's blocks */
	uint64_t broken[4];      /* txgs, by txg % 4 */
	uint64_t kicked;         /* txg that was asked to close because the ring fills */
	uint64_t next, seq;      /* numbers of the next record and block */
	uint64_t want;           /* records up to this one are waited for */
	uint64_t durable, durable_seq;
	uint64_t head, tail, needed; /* positions: next block, oldest in use, oldest for a replay */
	struct ilog_state from;      /* as the import found it, in an uberblock of from_txg */
	uint64_t from_txg, replayed;
	struct ilog_state frozen; /* the frozen txg's uberblock */
	struct batch *open;
	struct batch *ready, **ready_end;   /* closed, in order */
	struct batch *flying, **flying_end; /* being written, in order */
	unsigned nflying;
	struct batch *spare;
	unsigned nspare;
	struct ilog_waiter *waiters;
};

/* Of what works now; sectors 0 if nothing does. */
void ring_choose(struct pool *pool, struct ring *out);
/* Of an uberblock's log_devs; sectors 0 if it names a device that is not the pool's. */
void ring_named(struct pool *pool, const uint64_t guids[POOL_LOG_DEVS_MAX], struct ring *out);
void ring_guids(const struct ring *ring, uint64_t out[POOL_LOG_DEVS_MAX]);

struct place ring_place(const struct ilog *log, uint64_t pos, uint64_t count);
/* The device of a copy (any number) and the place's offset there; NULL: it is missing. */
struct pool_dev *place_copy(const struct ilog *log, const struct place *p, unsigned copy,
			    uint64_t *offset);
bool place_may_write(const struct ilog *log, const struct place *p, unsigned copy);

#endif
