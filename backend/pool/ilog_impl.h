// SPDX-License-Identifier: LGPL-3.0-or-later
/* The inside of the intent log: ilog.c (appending, writing, waiting), ilog_read.c (replay). */
#ifndef TARN_POOL_ILOG_IMPL_H
#define TARN_POOL_ILOG_IMPL_H

#include "pool/ilog.h"

#define PIECES_MAX 4 /* extents that a block can touch */

struct batch_io {
	struct dev_io io;
	struct iovec iov;
	struct chunk *chunk;
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
	atomic_uint good[PIECES_MAX]; /* columns that took it */
	bool done, failed;
};

struct ilog_state {
	uint64_t id, number, seq, pos; /* as in the uberblock */
};

struct ilog {
	struct pool *pool;
	/* The ring: set before records come. Positions count sectors and never wrap; the place of
	   one is its remainder by `sectors`. */
	struct extent extents[ILOG_EXTENTS_MAX];
	struct chunk *chunks[ILOG_EXTENTS_MAX];
	uint32_t nextents;
	uint64_t sectors;

	pthread_mutex_t lock;  /* all below */
	pthread_cond_t change; /* something became durable, or never will */
	uint64_t id;
	bool replaying; /* the uberblocks still name the log of an earlier import */
	bool started;   /* the next txg's uberblock names this one */
	bool active;    /* a durable one does: records are taken */
	bool dead;      /* a write failed in all copies: no more records, nothing more is durable */
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

/* Sectors in a row of the ring from a position on, at most `count`. */
struct place {
	struct chunk *chunk;
	uint32_t sector, count;
	uint32_t skip; /* bytes of the block before it */
};
struct place ring_place(const struct ilog *log, uint64_t pos, uint64_t count);

#endif
