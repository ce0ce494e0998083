// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The inside of the txg machinery, shared by txg.c (holds, barrier, waiting, the sync thread),
 * sync.c (the sync), throttle.c (delay of writers) and epoch.c (readers).
 *
 * Locks: a shard's lock first, then txgs->lock; io_lock is innermost. None is held while a
 * function of the client or a waiter runs.
 */
#ifndef TARN_POOL_TXGS_IMPL_H
#define TARN_POOL_TXGS_IMPL_H

#include "pool/txgs.h"

#define TXG_SHARDS 64
#define EPOCH_SLOTS 16

/* A queued tx_free() or tx_free_obj(). */
struct free_item {
	struct space_owner *owner;
	struct slot_obj *obj; /* or NULL: bp */
	struct bp bp;
};
struct free_list {
	struct free_item *items;
	size_t n, room;
};
void free_list_add(struct free_list *list, const struct free_item *item);

/* Holders are counted per CPU, so that beginning and ending a tx touch no shared line. */
struct txg_shard {
	pthread_mutex_t lock;
	pthread_cond_t change; /* opened, or the last holder left a closed shard */
	bool closed;           /* at the barrier */
	unsigned holders;
	/* Bytes reserved in the open txg for whoever comes: as such txs may, so that none gets what
	   is kept back from it. */
	uint64_t credit[TX_KINDS];
	uint64_t kept; /* bytes left reserved for the txg as a whole */
	struct free_list frees;
} __attribute__((aligned(128)));

struct epoch_shard {
	atomic_uint readers[EPOCH_SLOTS]; /* by epoch % EPOCH_SLOTS */
} __attribute__((aligned(64)));

struct txgs {
	struct pool *pool;
	const struct txg_client *client;
	pthread_t sync_thread, throttle_thread;
	struct workq *wq;    /* of the sync alone: nobody's request waits behind its loops */
	atomic_bool running; /* from txg_start() to txg_stop(): tx may begin */

	_Atomic uint64_t open, committed;
	atomic_bool used; /* a tx began in the open txg, or it must be written for another reason */

	pthread_mutex_t lock; /* what follows */
	pthread_cond_t wake;  /* the sync thread has something to think about */
	pthread_cond_t done;  /* settled or suspended */
	bool stop, ended;     /* asked to end; the sync thread has */
	uint64_t want;        /* somebody waits for it or asked for it */
	uint64_t force;       /* closed even if clean: a commit is needed for space */
	uint64_t settled;     /* committed, reservations given back, frees released */
	struct timespec opened;
	struct txg_waiter *waiters;
	struct free_list frozen_frees, sync_frees;

	/* throttle.c */
	pthread_cond_t throttle;
	struct tx_waiter *tx_head, **tx_tail;
	bool throttle_stop;
	atomic_uint starved; /* threads that wait because they were refused for want of space */
	atomic_bool hungry;  /* a tx was refused for want of space: wait for the next commit */
	_Atomic uint64_t dirty[4], dirty_total; /* bytes, by txg % 4 */
	_Atomic uint64_t next_slot;             /* CLOCK_MONOTONIC ns: the next writer's turn */

	/* sync.c: writes in flight */
	pthread_mutex_t io_lock;
	pthread_cond_t io_done;
	uint64_t io_bytes, io_count;
	bool io_failed;

	_Atomic uint64_t epoch;
	struct txg_shard shards[TXG_SHARDS];
	struct epoch_shard epochs[TXG_SHARDS];
};

/* The shard of the running CPU. */
unsigned txg_shard_here(void);

/* sync.c: 0, or the pool is to be suspended. Frozen roots and frees were taken. */
int txg_sync(struct txgs *t, uint64_t txg);
/* txg.c: the txg is durable; tells those who wait for it. */
void txg_publish(struct txgs *t, uint64_t txg);

/* throttle.c */
uint64_t txg_now(void); /* CLOCK_MONOTONIC, ns */
uint64_t dirty_max(const struct pool *pool);
/* Nanoseconds until a writer may go; 0: now, and the next one's turn is set. UINT64_MAX: not before
   a commit. */
uint64_t throttle_enter(struct txgs *t);
void throttle_settle(struct txgs *t, uint64_t txg);
void *throttle_run(void *arg);
void throttle_wake(struct txgs *t);
/* On t->lock, waits for cond at most ns. */
void txg_timedwait(struct txgs *t, pthread_cond_t *cond, uint64_t ns);

#endif
