// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The catalog of a pool: the pool tree and all it holds (datasets with their
 * properties, live chunks, pool properties, history, the list of destroyed datasets), the datasets
 * in memory, and the client side of the sync (struct txg_client): it writes the datasets' trees,
 * runs queued administrative tasks, stores chunk records and hands the pool its root.
 *
 * The pool tree is changed in sync context only, by tasks. Callers: api/, fs/ (through dataset.h).
 */
#ifndef TARN_DATASET_CATALOG_H
#define TARN_DATASET_CATALOG_H

#include "dataset/dataset.h"
#include "pool/pool.h"

struct catalog;

/* For a pool just made by pool_create(): starts it and commits the first txg with the root dataset.
 */
int catalog_create(struct pool *pool, struct cache *cache, const struct tarn_prop *props,
		   uint32_t nprops, struct catalog **out);
/* For a pool just opened: loads chunks, datasets, replays what is pending, starts the pool (unless
 * read-only). */
int catalog_open(struct pool *pool, struct cache *cache, struct catalog **out,
		 struct tarn_error *err);
/*
 * All datasets become GONE and are waited for, gone() is called for each then; background work
 * stops; all is committed (txg_stop(), whose result is returned). Frees cat; the caller closes the
 * pool.
 */
int catalog_close(struct catalog *cat, void (*gone)(struct tarn_dataset *ds));

/* Runs fn in the sync of the next txg and waits until it is committed. fn's error undoes nothing by
   itself: check first, then change. */
int catalog_task(struct catalog *cat, int (*fn)(struct catalog *cat, struct txg_sync *s, void *arg),
		 void *arg);

/* By path below the pool ("" = root dataset), whatever its canmount. *rest: what follows the
   deepest dataset found. Referenced. */
int catalog_find(struct catalog *cat, const char *path, const char **rest,
		 struct tarn_dataset **out);
struct tarn_dataset *catalog_root(struct catalog *cat); /* not referenced: lives as long as cat */
int catalog_find_id(struct catalog *cat, uint64_t id, struct tarn_dataset **out);
/* Calls fn for ds and, with recursive, all below it, sorted by path. Under the names lock: fn
   must be quick and call nothing of the catalog but *_locked functions. */
int catalog_walk(struct catalog *cat, struct tarn_dataset *ds, bool recursive,
		 int (*fn)(void *arg, struct tarn_dataset *ds), void *arg);
void catalog_path(struct tarn_dataset *ds, char out[TARN_PATH_MAX]);
/* The same for callers that hold the names lock (inside catalog_walk()). */
void catalog_path_locked(struct tarn_dataset *ds, char out[TARN_PATH_MAX]);
uint64_t catalog_used_locked(struct tarn_dataset *ds); /* with all below it */

/* Durable when they return. props have passed prop_check(). */
int catalog_dataset_create(struct catalog *cat, struct tarn_dataset *parent, const char *name,
			   const struct tarn_prop *props, uint32_t nprops,
			   struct tarn_dataset **out);
/* recursive: children too, else -ENOTEMPTY. Returns once nobody is inside any of them; gone() is
   called for each then (fs/ drops its inodes). Space is freed in the background. */
int catalog_dataset_destroy(struct catalog *cat, struct tarn_dataset *ds, bool recursive,
			    void (*gone)(struct tarn_dataset *ds));
int catalog_dataset_rename(struct catalog *cat, struct tarn_dataset *ds,
			   struct tarn_dataset *parent, const char *name);
/* value NULL: inherit. */
int catalog_dataset_set(struct catalog *cat, struct tarn_dataset *ds, const struct tarn_prop *props,
			uint32_t nprops);

/* Bytes of destroyed datasets still to be freed. */
uint64_t catalog_freeing(struct catalog *cat);

/* Pool properties and history (pool tree). */
int catalog_pool_prop_set(struct catalog *cat, const char *name, const char *value);
int catalog_pool_prop_get(struct catalog *cat, const char *name, char *value, size_t room);
/* Changes that were acknowledged and have been lost from the intent log, until cleared. A pool
   property that is not shown. */
#define LOST_DATASETS_MAX 32
struct lost_changes {
	uint64_t total; /* at least; some of them perhaps of datasets that are not known */
	uint32_t n;
	struct {
		uint64_t dataset, changes; /* id; at least so many */
	} in[LOST_DATASETS_MAX];
};
int catalog_lost(struct catalog *cat, struct lost_changes *out);
int catalog_lost_add(struct catalog *cat, const struct lost_changes *lost);
int catalog_lost_clear(struct catalog *cat);
int catalog_history_add(struct catalog *cat, const char *text);
int catalog_history(struct catalog *cat, void (*fn)(void *arg, time_t when, const char *text),
		    void *arg);

/* ---- for jobs (api/job.h) ---- */

/* The tree with the smallest id above `after` as of the last commit; the pool tree's id is 0 (after
   UINT64_MAX). Whoever entered a read epoch before may read all of it. False: there is none. */
struct catalog_root {
	uint64_t id;
	struct bp root;
	uint64_t used; /* bytes as of now; 0 for the pool tree */
};
bool catalog_next_root(struct catalog *cat, uint64_t after, struct catalog_root *out);
/* Bytes that datasets with greater ids use. */
uint64_t catalog_used_after(struct catalog *cat, uint64_t id);
/* Calls fn for the blocks of the allocation log. The caller is in a read epoch. */
int catalog_log_blocks(struct catalog *cat, void (*fn)(void *arg, const struct bp *bp), void *arg);

struct job_record;
int catalog_job_put(struct catalog *cat, uint64_t id, const struct job_record *rec);
int catalog_job_del(struct catalog *cat, uint64_t id);
/* Calls fn for each record that can be one. */
int catalog_jobs(struct catalog *cat,
		 void (*fn)(void *arg, uint64_t id, const struct job_record *rec), void *arg);

/* Files with damage that cannot be repaired, as a scrub found it; inode 0: the dataset's metadata,
   dataset 0: the pool's. path is "" until it is known. */
struct catalog_error {
	uint64_t dataset, inode;
	uint64_t job;    /* found it */
	uint64_t blocks; /* lost */
	char path[1024];
};
int catalog_errors_put(struct catalog *cat, const struct catalog_error *errors, uint32_t n);
/* Those that other jobs than this one found. */
int catalog_errors_drop(struct catalog *cat, uint64_t but_job);
/* A nonzero result of fn ends it. */
int catalog_errors(struct catalog *cat, int (*fn)(void *arg, const struct catalog_error *error),
		   void *arg);

/* ---- keys of the pool tree: one byte of kind, then as told; integers big-endian ---- */
enum catalog_key {
	CAT_STATE = 'S',     /* -> struct catalog_state */
	CAT_POOL_PROP = 'P', /* name -> value */
	CAT_CHUNK = 'C',     /* u64 chunk id -> record (pool/chunk.h) */
	CAT_DATASET = 'D',   /* u64 dataset id -> struct dataset_record */
	CAT_CHILD = 'N',     /* u64 parent id, name -> u64 dataset id */
	CAT_PROP = 'p',      /* u64 dataset id, property name -> value (local ones only) */
	CAT_HISTORY = 'H',   /* u64 sequence -> u64 time, text */
	CAT_LOG = 'L',       /* -> struct extent[]: the ring of the intent log (pool/ilog.h) */
	CAT_ERROR = 'E',     /* u64 dataset id, u64 inode -> struct error_record, path */
	CAT_JOB = 'J',       /* u64 job id -> struct job_record */
	CAT_DESTROYED = 'X', /* u64 dataset id -> struct dataset_record with the remaining root */
};

/* On disk. */
struct catalog_state {
	uint64_t next_dataset; /* ids are never reused */
	uint64_t next_history;
};
static_assert(sizeof(struct catalog_state) == 16, "catalog_state");

struct dataset_record {
	struct bp root;
	uint64_t parent;
	uint64_t created; /* seconds */
	uint64_t used;    /* bytes allocated, after compression, before redundancy */
	uint64_t logical;
	uint64_t inodes;
	uint64_t birth; /* txg */
	uint8_t reserved[80];
};
static_assert(sizeof(struct dataset_record) == 192, "dataset_record");

#define JOB_POSITION_MAX (TREE_KEY_MAX + 1)
struct job_record {
	uint8_t kind;     /* enum tarn_job_kind */
	uint8_t state;    /* enum tarn_job_state: running (its turn or not), paused, or ended */
	uint8_t priority; /* 0 to 100 */
	uint8_t zero;
	int32_t error;           /* why it failed, negative errno */
	uint64_t started, ended; /* seconds */
	uint64_t floor, ceiling; /* bytes a second; 0: none */
	uint64_t total, done;    /* bytes */
	uint64_t repaired;       /* bytes */
	uint64_t errors;         /* blocks that could not be repaired */
	uint64_t txg;            /* open when it began */
	/* Where it goes on: its kind's matter. */
	uint64_t place;
	uint32_t key_len;
	uint8_t key[JOB_POSITION_MAX];
	uint8_t reserved[147];
};
static_assert(sizeof(struct job_record) == 752, "job_record");
bool job_record_valid(const void *record, uint32_t len);

struct error_record {
	uint64_t job, blocks;
};
static_assert(sizeof(struct error_record) == 16, "error_record");
bool error_record_valid(const void *key, uint32_t klen, const void *record, uint32_t len);

#endif
