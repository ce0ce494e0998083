// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The pool object: its devices, groups, chunks, allocator and txg machinery, and its life:
 * made or opened from labels, loaded by the client (dataset/catalog.c), started, stopped,
 * closed. Internal to pool/, except the functions under "for the layers above".
 *
 *   label.c    labels and uberblock ring: formats, read, write
 *   beat.c     heartbeat: whose pool it is
 *   config.c   groups and devices: create, add, destroy, close, states
 *   devstate.c devices taken out of use and coming back
 *   logdev.c   groups of log devices
 *   open.c     from labelled devices to a pool
 *   devio.c    the same request to many devices
 *   slab.c     slab tables: which slab belongs to which chunk column
 *   chunk.c    chunk table: (chunk, sector) -> device offsets; live-chunk records
 *   alloc.c    bitmaps, striping over groups, deferred frees, reservations
 *   alog.c     the allocation log and bitmap checkpoints
 *   block.c    the block pipeline; stripe.c reads blocks with parity
 *   scrub.c    proving and repairing one block; rebuild.c stale columns
 *   parity.c   stripes and their code
 *   ilog.c     the intent log; ilog_read.c its replay
 *   txg.c      holds, barrier, sync
 *
 * On disk: docs/format.md and pool/format.h.
 */
#ifndef TARN_POOL_POOL_H
#define TARN_POOL_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <tarn/pool.h>

#include "dev/dev.h"
#include "pool/format.h"
#include "pool/txg.h"
#include "util/workq.h"

#define POOL_DEVS_MAX 256
#define POOL_GROUPS_MAX 64
#define POOL_MIRROR_MAX 8
#define POOL_LOGS_MAX 16 /* groups of log devices */
#define POOL_RAIDZ_MAX 32

struct slab_table; /* slab.h */
struct chunks;     /* chunk.h */
struct alloc;      /* alloc.h */
struct txgs;       /* txg.c */
struct ilog;       /* ilog.h */

struct pool_dev {
	_Atomic(struct dev *) dev; /* NULL: missing; comes in a sync, before the state */
	uint64_t guid;
	char path[TARN_DEV_PATH_MAX + 1]; /* where it was found last */
	uint32_t index, group;
	uint64_t size; /* bytes, as at creation */
	uint32_t slab_count;
	uint32_t table_pages; /* room of one copy of the slab table */
	uint64_t slab_start;  /* byte offset of slab 0 */
	/* The newest uberblock found on it at import; older than the pool's if it was away. */
	uint64_t seen_import, seen_txg;
	_Atomic(enum tarn_dev_state) state;
	/* devstate.c; the sync thread's, and its caller's when the txg is committed. */
	bool leaving;
	int leave_result;
	bool offline; /* config_lock: stays so after an import */
	atomic_ulong read_errors, write_errors, checksum_errors;
	atomic_ulong stale; /* columns of chunks on it that have missed writes; chunk.c */
	atomic_bool full;   /* some of these found no free slab, and wait for one; chunk.c */
	_Atomic(struct slab_table *) slabs; /* as dev */
};

struct pool_group {
	enum tarn_group_kind kind;
	uint32_t first_dev, ndevs;
	uint32_t slab_shift; /* log2 of the slab size in bytes */
};

/* Log devices: one, or a mirror of them. They hold labels and the intent log, no slabs, no
   uberblocks and no heartbeats; the pool can be used without them. */
struct log_group {
	enum tarn_group_kind kind;
	uint32_t ndevs;
	bool leaving;  /* logs_lock: is being removed, no log begins on it */
	uint64_t size; /* bytes of the smallest device */
	struct pool_dev devs[POOL_MIRROR_MAX];
};

struct pool {
	char name[TARN_POOL_NAME_MAX + 1];
	uint64_t guid;
	bool read_only;
	atomic_bool suspended;             /* nothing more is written, waiters get -EIO */
	_Atomic(enum tarn_pool_halt) halt; /* why, if suspended */
	const struct tarn_config *config;
	struct workq *wq; /* the engine's */

	uint32_t ndevs, ngroups;
	struct pool_dev devs[POOL_DEVS_MAX];
	struct pool_group groups[POOL_GROUPS_MAX];
	pthread_mutex_t config_lock; /* devs, groups and logs change, label writes */
	/* Changed under both locks, this one for moments. A slot that is not listed is free: no log
	   lies on it. */
	pthread_mutex_t logs_lock;
	uint32_t nlogs;
	struct log_group *logs[POOL_LOGS_MAX];
	struct log_group log_slots[POOL_LOGS_MAX];

	struct uberblock uber;   /* last committed; the sync thread writes it */
	uint64_t import_counter; /* of this import, for its uberblocks */
	uint64_t first_txg;      /* of this import: above every txg seen on any device */
	uint64_t label_seq;
	bool was_exported;         /* as found by pool_open() */
	uint64_t unreplayed;       /* records of the intent log, if it is imported for reading */
	atomic_bool log_dropped;   /* opened without log devices that may have held changes */
	atomic_ulong data_errors;

	struct chunks *chunks;
	struct alloc *alloc;
	struct txgs *txgs;
	struct ilog *ilog;
	struct label_beat *beat; /* heartbeat thread, beat.c */
};

/* NULL, or why a pool may not be called that (zpool's rules). */
const char *pool_name_problem(const char *name);

/* Takes dev out of use after an error that cannot be repeated away; says so once. */
void pool_dev_fault(struct pool *pool, struct pool_dev *dev, const char *what, int error);
/* Says so. */
void pool_dev_faulted(struct pool *pool, const struct pool_dev *dev, const char *what, int error);
/* The change alone; state: FAULTED or OFFLINE. False if it was out of use. */
bool pool_dev_leave(struct pool_dev *dev, enum tarn_dev_state state);
/* Present and not faulted: may be read and written. */
bool pool_dev_usable(const struct pool_dev *dev);
/* Devices of parity that a group of this kind has, 0 if it has none. */
unsigned pool_kind_parity(enum tarn_group_kind kind);
/* Whether a group of this kind may have so many devices. */
bool pool_kind_fits(enum tarn_group_kind kind, uint32_t ndevs);
/* How many of its devices a group cannot do without. */
uint32_t pool_kind_needs(enum tarn_group_kind kind, uint32_t ndevs);
/* So many devices of the group are usable as it needs; `without` (or NULL) counts as not. */
bool pool_group_usable(const struct pool *pool, uint32_t group, const struct pool_dev *without);
/* All groups are. */
bool pool_groups_usable(const struct pool *pool);

void pool_log(struct pool *pool, enum tarn_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- for the layers above ---- */

/*
 * A new pool on checked, opened devices: writes labels and empty slab tables, but no
 * uberblock: the pool exists once its first txg has committed. Devices are taken over (closed on
 * failure). The client then starts it with an empty root.
 */
struct pool_new_dev {
	struct dev *dev;
	const char *path;
};
struct pool_new_group {
	enum tarn_group_kind kind;
	uint32_t ndevs;
	const struct pool_new_dev *devs;
	enum tarn_group_class class;
};
int pool_create(const char *name, const struct pool_new_group *groups, uint32_t ngroups,
		const struct tarn_config *config, struct workq *wq, struct pool **out);

/*
 * Opens a pool from devices that carry its labels: chooses the uberblock, loads slab tables, maps
 * chunks. After it the root (pool->uber.root) can be read. The client loads the live
 * chunks (pool_load_chunk() for each, pool_load_done()), then starts the pool.
 */
struct pool_open_args {
	uint64_t guid;
	const char *new_name; /* NULL: keep */
	struct dev **devs;    /* candidates, taken over */
	const char **paths;
	uint32_t ndevs;
	int flags;                /* TARN_FORCE, TARN_READ_ONLY, TARN_REWIND, TARN_DROP_LOG;
				     TARN_DRY_RUN: read-only, but asking what else would be asked */
	uint32_t skip_uberblocks; /* TARN_REWIND: ignore that many newest ones; -ENOENT when
				     there are no more */
	unsigned watch_seconds;   /* TARN_FORCE: how long a foreign owner's heartbeat is
				     watched, BEAT_WATCH (label.h) outside tests; a quarter
				     of it after a boot of the owner */
};
int pool_open(const struct pool_open_args *args, const struct tarn_config *config, struct workq *wq,
	      struct pool **out, struct tarn_error *err);

/* A live-chunk record and its bitmap checkpoint, as the client kept them (see pool_dirty_chunks).
 */
int pool_load_chunk(struct pool *pool, uint64_t id, const void *record, uint32_t len);
/* After the last one: replays the allocation log; unlisted slabs become free; refuses what does not
 * agree. */
int pool_load_done(struct pool *pool);

/*
 * Sync context: records of chunks that changed (or whose turn for a bitmap checkpoint it is) to be
 * stored in the pool tree; record NULL: the chunk is gone. Called before the pool tree is written;
 * afterwards this sync makes no new chunk and checkpoints no bitmap.
 */
int pool_dirty_chunks(struct txg_sync *s,
		      int (*put)(void *arg, uint64_t id, const void *record, uint32_t len),
		      void *arg);
#define CHUNK_RECORD_MAX 65536

/* Stops (txg_stop()), marks exported if clean, closes devices, frees. */
int pool_close(struct pool *pool, bool exported);
/* Wipes labels, then as pool_close(). */
int pool_destroy(struct pool *pool);
/* New groups become part of the pool: durably so when this returns. */
int pool_add_groups(struct pool *pool, const struct pool_new_group *groups, uint32_t ngroups);
/* The pool's index-th group of log devices leaves it. Its txg runs. */
int pool_remove_log(struct pool *pool, uint32_t index);

/* Space in bytes, after redundancy and with the reserve for deletion (slop) taken off avail. */
struct pool_space {
	uint64_t size, allocated, avail;
};
void pool_space(struct pool *pool, struct pool_space *out);
/* One group's size and allocated (avail is 0). */
void pool_group_space(struct pool *pool, uint32_t group, struct pool_space *out);

#endif
