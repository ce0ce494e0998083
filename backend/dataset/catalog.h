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
/* At least so many changes that were acknowledged have been lost from the intent log, until
   cleared. A pool property that is not shown. */
int catalog_lost(struct catalog *cat, uint64_t *lost);
int catalog_lost_add(struct catalog *cat, uint64_t lost);
int catalog_lost_clear(struct catalog *cat);
int catalog_history_add(struct catalog *cat, const char *text);
int catalog_history(struct catalog *cat, void (*fn)(void *arg, time_t when, const char *text),
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

#endif
