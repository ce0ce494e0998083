// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * What the modules of dataset/ share. Nobody else includes it.
 *
 *   catalog.c   life of a catalog: create, load, close; pool properties, history
 *   sync.c      the client side of the sync: freeze, write, tasks
 *   dataset.c   dataset objects: references, enter/leave, usage, children
 *   names.c     the hierarchy: find, create, rename, set, destroy
 *   destroy.c   frees the trees of destroyed datasets in the background
 *   prop.c      properties
 *   jobs.c      committed roots; records of jobs and of damaged files
 *
 * Locks, in this order: names (the hierarchy, names, local properties), tasks_lock; roots is
 * innermost. None is held over I/O or while waiting for a commit. The list `all` belongs to the
 * sync thread (before txg_start() and after txg_stop() to the one who opens and closes), which
 * changes it, and committed roots, under roots, so that others may look.
 */
#ifndef TARN_DATASET_IMPL_H
#define TARN_DATASET_IMPL_H

#include "dataset/catalog.h"
#include "dataset/prop.h"

struct catalog_work {
	uint64_t txg;
	int (*fn)(struct catalog *cat, struct txg_sync *s, void *arg);
	void *arg;
	int result;
	struct catalog_work *next;
};

struct catalog {
	struct pool *pool;
	struct cache *cache;
	struct space_owner owner; /* of the pool tree */
	struct tree tree;         /* the pool tree */
	struct catalog_state state;
	struct tarn_dataset *all; /* live and dying ones, by all_next */
	pthread_mutex_t roots;    /* changes of all, committed roots */
	struct bp committed_root; /* of the pool tree */

	pthread_rwlock_t names;
	struct tarn_dataset *root;

	pthread_mutex_t tasks_lock;
	struct catalog_work *tasks, **tasks_end;
	struct catalog_work *task_runs; /* in the sync; guarded by tasks_lock */
	pthread_cond_t task_ended;

	struct txg_client client;
	bool started; /* txg_start() has run */
	pthread_mutex_t destroying; /* one destroy at a time; held over I/O */
	pthread_t destroyer;
	bool destroyer_runs;
	pthread_mutex_t destroy_lock;
	pthread_cond_t destroy_cond;
	bool stopping;              /* guarded by destroy_lock */
	struct tarn_dataset *dying; /* guarded by destroy_lock; by dying_next */
};

/* ---- dataset.c ---- */

struct tarn_dataset *dataset_new(struct catalog *cat, uint64_t id, const char *name,
				 const struct dataset_record *rec);
void dataset_ref(struct tarn_dataset *ds);
void dataset_unref(struct tarn_dataset *ds);
/* No new entries from now on; returns once nobody is inside. */
void dataset_shut(struct tarn_dataset *ds, enum dataset_state state);
void dataset_record_of(struct tarn_dataset *ds, const struct bp *root, struct dataset_record *rec);
/* Into the hierarchy below parent, sorted by name, and out of it: names lock held for writing. */
void dataset_link(struct tarn_dataset *ds, struct tarn_dataset *parent);
void dataset_unlink(struct tarn_dataset *ds);
struct tarn_dataset *dataset_find_child(struct tarn_dataset *ds, const char *name, size_t len);

/* ---- sync.c: the pool tree, in a task ---- */

#define CAT_KEY_ROOM 512
uint32_t cat_key(uint8_t key[CAT_KEY_ROOM], enum catalog_key kind);
uint32_t cat_key_id(uint8_t key[CAT_KEY_ROOM], enum catalog_key kind, uint64_t id);
uint32_t cat_key_id_name(uint8_t key[CAT_KEY_ROOM], enum catalog_key kind, uint64_t id,
			 const char *name);
int cat_put(struct catalog *cat, struct txg_sync *s, const void *key, uint32_t klen,
	    const void *val, uint32_t vlen);
/* 0 also if it was not there. */
int cat_del(struct catalog *cat, struct txg_sync *s, const void *key, uint32_t klen);
/* Blocking reads, from any thread. */
int cat_get(struct catalog *cat, const void *key, uint32_t klen, void *val, uint32_t room,
	    uint32_t *len);
/* Calls fn for each key that begins with prefix, in order; nonzero ends it. */
int cat_scan(struct catalog *cat, const void *prefix, uint32_t plen,
	     int (*fn)(void *arg, const uint8_t *key, uint32_t klen, const void *val,
		       uint32_t vlen),
	     void *arg);

extern const struct txg_client catalog_client; /* with arg NULL: copied and completed */

/* ---- destroy.c ---- */

int destroyer_start(struct catalog *cat);
void destroyer_stop(struct catalog *cat);
/* ds is dying and shut: free its tree, then its record. */
void destroyer_add(struct catalog *cat, struct tarn_dataset *ds);

#endif
