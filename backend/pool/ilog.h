// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The intent log: what open txgs change, in records that become durable long before their txg
 * commits. State after a crash = the last committed txg + the records after it, in order.
 *
 * Records are the caller's bytes. They are numbered from 1 on in the order in which they are
 * appended, gathered in batches, and written as blocks to a ring of sectors that the pool has set
 * aside (extents named in the pool tree); one write carries all that waited meanwhile, several are
 * in flight. A record is durable when its block and all before it are. No block holds records of
 * two txgs; a txg's freeze notes the next number and place, which its uberblock names: where a
 * replay begins. What lies before that is free when the uberblock is durable.
 *
 * A txg is whole in the log or broken: after ilog_break() nothing more of it is taken, who waits
 * waits for its commit, and blocks of the next txg count only if that commit is there
 * (needs_txg). So everything that can't be logged, or finds no room, is still right, only slower.
 *
 * The ring lies on log devices if there are any, else in the pool. A log stays where it began: when
 * a device fails, comes or goes, it ends, and the next txg's uberblock names another one, with an
 * id of its own, that begins then. What waits meanwhile waits for that commit.
 *
 * Callers: logdev.c, api/ (renew), fs/ (append, break, wait, and replay at import), txg.c (freeze,
 * committed), sync.c (the uberblock's part), dataset/catalog.c (the extents). One mutex,
 * ilog->lock, taken after inode locks and txg shards', before none; no I/O under it.
 */
#ifndef TARN_POOL_ILOG_H
#define TARN_POOL_ILOG_H

#include "pool/alloc.h"

#define ILOG_RECORD_MAX (2u << 20) /* bytes; longer ones are refused */
#define ILOG_EXTENT_SECTORS 256u   /* of each part of the ring */
#define ILOG_EXTENTS_MAX 128

/* Heads a block; records follow, each as a u32 length (itself not counted) and its bytes, then
   zeros up to the sector's end. */
struct ilog_block {
	struct disk_head head; /* length: without the zeros */
	uint64_t pool_guid;
	uint64_t log_id;    /* never reused; an import's begin at its counter << 40 */
	uint64_t seq;       /* of the block in its log, from 1, without gaps */
	uint64_t first;     /* number of its first record */
	uint64_t durable;   /* all blocks up to this one were durable when it was written */
	uint64_t needs_txg; /* not 0: counts only on top of an uberblock of this txg or later */
	uint32_t nrecords;
	uint32_t reserved0;
	uint8_t reserved[8];
};
static_assert(sizeof(struct ilog_block) == 96, "log block");
#define ILOG_MAGIC 0x676f6c696e726174ull /* "tarnilog" */

/* Whether `room` bytes begin with a block that can be true, all but its place in a log. */
bool ilog_block_valid(const struct ilog_block *block, uint32_t room, uint64_t pool_guid);
/* The record at *at (0 at first), which is moved on; NULL after the last one. Of a valid block. */
const void *ilog_block_next(const struct ilog_block *block, uint32_t *at, uint32_t *len);

/* ---- life ---- */

int ilog_create(struct pool *pool);
void ilog_destroy(struct pool *pool); /* NULL is allowed */
/* Import, or the sync that has allocated them: where the ring lies. -EIO: it can't lie there. */
int ilog_set_extents(struct pool *pool, const struct extent *extents, uint32_t n);
uint32_t ilog_extents(struct pool *pool, struct extent out[ILOG_EXTENTS_MAX]);
/* How many sectors a pool of this size is to have. */
uint32_t ilog_wanted(struct pool *pool);
/* The first txg is open. */
void ilog_open(struct pool *pool, uint64_t txg);
/* Nothing is to be replayed (any more): records are taken once a txg of this import that begins
   later has committed. */
void ilog_start(struct pool *pool);
/* Between ilog_open() and ilog_start(), if an earlier import has left a log. */
bool ilog_replaying(struct pool *pool);
/* Ends the log, so that another one begins on the devices that there are now. Returns when that is
   durable, and the last one's devices are needed no more. Nobody else adds or removes any. */
int ilog_renew(struct pool *pool);
/* After txg_stop(): nothing more is written. */
void ilog_stop(struct pool *pool);

/* Whether the log that the pool's uberblock names has a device for all its parts; else the path of
   one that lacks, "" if that is not known. */
bool ilog_readable(struct pool *pool, const char **missing);

/* ---- appending; any thread ---- */

/* In a tx, or with what the record says unchangeable meanwhile. Returns its number and the open
   txg; 0: not taken, that txg must be committed instead. Copies the bytes; never blocks. */
uint64_t ilog_append(struct pool *pool, const void *record, uint32_t len, uint64_t *txg);
/* In a tx: it has changed what is not logged and later records might build on. */
void ilog_break(struct pool *pool);

/* What must be durable: record `number`, or if that is 0 all of txg; else whichever comes first. */
struct ilog_waiter {
	struct txg_waiter txg; /* txg.txg, set by the caller, with number and fn */
	uint64_t number;
	void (*fn)(struct ilog_waiter *w, int result); /* must not block */
	struct ilog_waiter *next;
};
int ilog_wait(struct pool *pool, uint64_t txg, uint64_t number);
void ilog_wait_async(struct pool *pool, struct ilog_waiter *w);
/* What to wait for so that all that has been done is durable: as ilog_append(). */
uint64_t ilog_last(struct pool *pool, uint64_t *txg);

/* ---- the sync ---- */

/* At the barrier, no holder inside. */
void ilog_freeze(struct pool *pool, uint64_t txg);
/* What the frozen txg's uberblock says. */
void ilog_uberblock(struct pool *pool, struct uberblock *uber);
/* The txg is durable, or nothing will be any more. */
void ilog_committed(struct pool *pool, uint64_t txg);
void ilog_suspended(struct pool *pool);

/* ---- replay; import, before ilog_start() ---- */

/* Where a replay leads. */
struct ilog_replay {
	/* An error ends it. */
	int (*record)(void *arg, const void *record, uint32_t len);
	/* One that was acknowledged, but something before it is gone. NULL: not wanted. */
	void (*lost)(void *arg, const void *record, uint32_t len);
	void *arg;
};
/*
 * Each record that the uberblock's state lacks, in order. While it lasts, uberblocks say that those
 * up to ilog_replayed() are contained. *lost: records that were acknowledged and are not replayed,
 * as they, or some before them, can't be found any more: at least so many.
 */
int ilog_replay(struct pool *pool, const struct ilog_replay *to, uint64_t *count, uint64_t *lost);
/* The same without doing anything, of a pool that is open for reading and has no open txg. */
int ilog_count(struct pool *pool, uint64_t *count, uint64_t *lost);

#endif
