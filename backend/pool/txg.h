// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Transaction groups: the open txg, the barrier, the sync.
 *
 * At any time one txg is open and at most one is frozen (being synced). Operations change
 * state under a hold of the open txg (struct tx). At a barrier new holds wait until the
 * last holder has left; the client takes all its roots; the next txg opens; the frozen one
 * is written by the sync thread and the pool's work queue.
 *
 * THE RULE: between tx_begin() and tx_end() a thread never waits for a device, memory
 * throttling or another operation's reply (debug builds assert it: tx_assert_none()).
 * It reserves and pins first, then changes state and cannot fail.
 *
 * Two kinds of context, told apart by type: open context has a struct tx, sync context a
 * struct txg_sync. Births, frees and usage belong to the sync.
 *
 * Callers: tree/, dataset/, fs/. Locks: see docs/locking.md; a hold is taken before any
 * node latch and after no lock but inode locks.
 */
#ifndef TARN_POOL_TXG_H
#define TARN_POOL_TXG_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/bp.h"

struct pool;
struct workq;
struct slot_obj; /* tree/tree.h: something whose bp is known after its txg's sync */

/* K: a freed sector is reused only after this many further txgs have committed, so each of the
   last K uberblocks can be imported. */
#define TXG_KEEP 3

/* ---- open context ---- */

struct tx {
	struct pool *pool;
	uint64_t txg;
	uint64_t reserved;     /* bytes, settled when the txg has synced */
	uint64_t used;         /* of these: tx_dirty(), tx_use() */
	unsigned slot;         /* which holder counter */
	unsigned credit;       /* which of its credits they are of: an enum tx_kind */
	struct txg_sync *sync; /* NULL here; tree_sync_tx(): a change made by the sync itself */
};

enum tx_kind {
	TX_NORMAL,
	TX_ZEROING, /* punch, truncate: writes records, in the space kept back for freeing */
	TX_FREEING, /* remove, truncate: writes nothing larger than nodes there */
	TX_KINDS
};

/*
 * Enters the open txg with a reservation of worst-case bytes to be allocated. May block: at
 * the barrier, while too much is dirty, and (once) for a commit if space seems short
 * while reservations are unsettled. -ENOSPC, -EROFS, -ENXIO (pool going or suspended).
 */
int tx_begin(struct pool *pool, uint64_t bytes, enum tx_kind kind, struct tx *tx);

/*
 * Never blocks but at the barrier: -EAGAIN if it would have to wait for dirty data to be written,
 * -ENOBUFS for space to settle. Then tx_wait_async() calls fn (from an engine thread) when trying
 * again makes sense. Once tx_space_settled() for the txg open at the first -ENOBUFS, another one
 * means -ENOSPC.
 */
int tx_try_begin(struct pool *pool, uint64_t bytes, enum tx_kind kind, struct tx *tx);
/* All that was freed before txg `since` can be had again, emptied chunks as well. */
bool tx_space_settled(struct pool *pool, uint64_t since);
struct tx_waiter {
	void (*fn)(struct tx_waiter *w);
	struct tx_waiter *next;
};
void tx_wait_async(struct pool *pool, struct tx_waiter *w);

void tx_end(struct tx *tx);

/* Memory made dirty in this txg (settled at its commit). */
void tx_dirty(struct tx *tx, uint64_t bytes);

/* Of what was reserved, bytes of dirty memory that were not to be written before. */
static inline void tx_use(struct tx *tx, uint64_t bytes)
{
	tx->used += bytes;
}

/* All that was reserved is for the sync (a task), or else what is not dirty at tx_end() goes to
   others. */
void tx_keep(struct tx *tx);

/* This thread holds no tx (asserted before anything that may wait). */
void tx_assert_none(void);

/*
 * What a freed block belonged to; judges births and frees in the sync. Embedded in a
 * dataset or in the pool tree's owner.
 */
struct space_owner {
	const struct space_owner_ops *ops;
};
struct txg_sync;
struct space_owner_ops {
	/* A block was written for this owner. Sync context, any of its threads. */
	void (*born)(struct space_owner *owner, struct txg_sync *s, const struct bp *bp);
	/* A block is no longer referenced by the live tree: free it now or keep it
	   for a snapshot. Sync context, the sync thread. */
	void (*freed)(struct space_owner *owner, struct txg_sync *s, const struct bp *bp);
};

/* Queues a free of the open txg. A bp, or an object whose bp is known by then (one reference is
   taken over). Holes are ignored. */
void tx_free(struct tx *tx, struct space_owner *owner, const struct bp *bp);
void tx_free_obj(struct tx *tx, struct space_owner *owner, struct slot_obj *obj);

/* ---- waiting ---- */

uint64_t txg_open(struct pool *pool);
uint64_t txg_committed(struct pool *pool);
/* Asks for the txg to be closed now; returns at once. */
void txg_kick(struct pool *pool, uint64_t txg);
/* Until txg is committed, asking for it. 0, -ENXIO (pool gone), -EIO (suspended). */
int txg_wait(struct pool *pool, uint64_t txg);
struct txg_waiter {
	uint64_t txg;
	void (*fn)(struct txg_waiter *w,
		   int result); /* in the sync thread or at once; must not block */
	struct txg_waiter *next;
};
void txg_wait_async(struct pool *pool, struct txg_waiter *w);

/* ---- reader epochs: no sector seen by a reader is reused before it has left ---- */

/* Around "look a bp up, then read it". May be held over I/O. Cheap, scales with cores. */
struct read_epoch {
	uint16_t slot, shard;
};
struct read_epoch read_enter(struct pool *pool);
void read_leave(struct pool *pool, struct read_epoch epoch);

/* ---- sync context ---- */

struct txg_sync {
	struct pool *pool;
	uint64_t txg;
	unsigned pass;    /* 1.. : a pass is repeated when a block found no place to be written */
	struct bp root;   /* out of client->sync(): the pool tree's root */
	struct workq *wq; /* for parallel loops */
};

/* The layer above (dataset/catalog.c). */
struct txg_client {
	void *arg;
	/* At the barrier, no holder inside: take all roots. Must be quick, cannot fail. */
	void (*freeze)(void *arg, uint64_t txg);
	/*
	 * Writes all of the frozen txg: datasets, queued tasks, dirty chunk records, the pool tree;
	 * sets s->root. Called again with a higher pass after write failures, before anything
	 * is committed. Nonzero: the pool is suspended.
	 */
	int (*sync)(void *arg, struct txg_sync *s);
	/* The uberblock is durable. Nonblocking. */
	void (*committed)(void *arg, uint64_t txg);
	/* Drops the reference of a queued tx_free_obj() and returns the object's bp (a hole if
	   none was ever written). */
	struct bp (*take_obj)(struct slot_obj *obj);
};

/* Calls owner->ops->freed() for all frees queued in the txg, those that this queues too; the client
   calls it in its sync after the datasets' trees are written. May be called again: frees that the
   sync queued itself (a struct tx of this txg) after the last call are judged before the commit. */
void txg_process_frees(struct txg_sync *s);

/* Frees a block for good (its sectors are reusable after TXG_KEEP commits and all readers). */
void sync_free(struct txg_sync *s, const struct bp *bp);

/* A txg in which no tx was begun is clean: it is not written, and who waits for it waits for the
   one before. So a task for the sync is queued under a tx. */

/* Starts / stops the pool's sync thread; client must live until then. The first txg counts as
   dirty. stop commits everything first unless the pool is suspended or read-only. */
int txg_start(struct pool *pool, const struct txg_client *client);
int txg_stop(struct pool *pool);

#endif
