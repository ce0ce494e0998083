// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The engine object: what all pools share (threads, cache, limits) and the table of
 * imported pools. Internal to api/.
 *
 *   engine.c    the engine and its table of pools
 *   check.c     may this device be used?
 *   scan.c      which devices have labels?
 *   pool.c      the public functions of <tarn/pool.h>: create, add, destroy, export
 *   import.c    those for import
 *   status.c    those that inspect a pool, its properties and history
 *   job.c       those of <tarn/job.h>: jobs, see job.h
 *   dataset.c   the public functions of <tarn/dataset.h>
 *
 * Locks: `admin` serialises calls that change the table (may be held over I/O, never by file
 * operations); `table` guards the list itself and is held for moments only.
 */
#ifndef TARN_API_ENGINE_H
#define TARN_API_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "cache/cache.h"
#include "dataset/catalog.h"
#include "pool/pool.h"
#include "util/error.h"

#define POOL_COMMENT_MAX 255

struct engine_pool {
	char name[TARN_POOL_NAME_MAX + 1];
	uint64_t guid;
	struct pool *pool;
	struct catalog *catalog;
	struct jobs *jobs; /* job.h */
	/* Guarded by table: shown without any I/O. */
	char comment[POOL_COMMENT_MAX + 1];
	struct lost_changes lost;
	unsigned uses; /* guarded by table; an export waits for 0 */
	bool going;    /* no new uses */
	struct engine_pool *next;
};

struct tarn_engine {
	struct tarn_config config; /* defaults filled in */
	char host[64];             /* config.host */
	struct workq *wq;
	struct cache *cache;
	pthread_mutex_t admin;
	pthread_mutex_t table;
	pthread_cond_t unused;     /* some uses became 0 */
	struct engine_pool *pools; /* sorted by name */
	void (*on_change)(void *arg, const char *name, uint64_t guid, bool present);
	void *on_change_arg;
};

/* A use of an imported pool; -ENXIO if there is none. Every get has its put. */
int engine_pool_get(struct tarn_engine *engine, const char *name, struct engine_pool **out);
int engine_pool_get_guid(struct tarn_engine *engine, uint64_t guid, struct engine_pool **out);
/* The pool whose name follows `after` (NULL: the first); NULL at the end. */
struct engine_pool *engine_pool_next(struct tarn_engine *engine, const char *after);
void engine_pool_put(struct tarn_engine *engine, struct engine_pool *p);
/* engine_pool_get() for an administrator: says what to do if there is none. */
int engine_pool_find(struct tarn_engine *engine, const char *name, struct engine_pool **out,
		     struct tarn_error *err);
/* Refuses, with a reason, what would change a pool that can't be written. */
int engine_check_writable(const struct engine_pool *p, struct tarn_error *err);

/* For pool.c and import.c, under admin: tells tarn_pool_on_change()'s function; a pool joins the
   table (and is told of), or leaves it: then no use is left and nobody else can see it. */
void engine_pool_tell(struct tarn_engine *engine, const struct engine_pool *p, bool present);
int engine_pool_add(struct tarn_engine *engine, struct pool *pool, struct catalog *catalog);
struct engine_pool *engine_pool_remove(struct tarn_engine *engine, const char *name);
/* Writes everything and closes a removed pool; frees p. */
int engine_pool_export(struct tarn_engine *engine, struct engine_pool *p);

#endif
