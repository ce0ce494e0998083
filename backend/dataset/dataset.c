// SPDX-License-Identifier: LGPL-3.0-or-later
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/impl.h"

/*
 * Who is inside, spread over shards so that cores do not share a line. An asynchronous request may
 * leave on another shard than it entered: only the sum counts. dataset_shut() adds the shards up one
 * by one, after the last entry that succeeded: it sees all of those, so it never finds too few,
 * whatever leaves meanwhile. An entry that fails comes and goes at any time and must do both on one
 * shard: of one that changed shards the sum could have the end without the beginning.
 */
#define INSIDE_SHARDS 16
struct dataset_inside {
	struct {
		_Alignas(64) atomic_long n;
	} shard[INSIDE_SHARDS];
	pthread_mutex_t lock;
	pthread_cond_t cond; /* somebody left while the dataset is shut */
};

/* ---- usage ---- */

static void born(struct space_owner *owner, struct txg_sync *s, const struct bp *bp)
{
	struct tarn_dataset *ds = (struct tarn_dataset *)owner;

	(void)s;
	ds->used += (uint64_t)bp_sectors(bp) << SECTOR_SHIFT;
	ds->logical += bp->lsize;
}

static void freed(struct space_owner *owner, struct txg_sync *s, const struct bp *bp)
{
	struct tarn_dataset *ds = (struct tarn_dataset *)owner;

	ds->used -= (uint64_t)bp_sectors(bp) << SECTOR_SHIFT;
	ds->logical -= bp->lsize;
	sync_free(s, bp);
}

static const struct space_owner_ops owner_ops = {.born = born, .freed = freed};

void dataset_count_inodes(struct tarn_dataset *ds, struct tx *tx, int64_t n)
{
	ds->inode_delta[tx->txg % 4] += n;
}

uint64_t dataset_inodes(struct tarn_dataset *ds)
{
	int64_t n = (int64_t)ds->inodes;

	for (unsigned i = 0; i < 4; i++)
		n += ds->inode_delta[i];
	return n > 0 ? (uint64_t)n : 0;
}

void dataset_record_of(struct tarn_dataset *ds, const struct bp *root, struct dataset_record *rec)
{
	*rec = (struct dataset_record){
	    .root = *root,
	    .parent = ds->parent_id,
	    .created = ds->created,
	    .used = ds->used,
	    .logical = ds->logical,
	    .inodes = ds->inodes,
	    .birth = ds->birth,
	};
}

/* ---- life ---- */

static struct dataset_inside *inside_new(void)
{
	struct dataset_inside *in = aligned_alloc(64, sizeof(*in));

	if (!in)
		return NULL;
	memset(in, 0, sizeof(*in));
	pthread_mutex_init(&in->lock, NULL);
	pthread_cond_init(&in->cond, NULL);
	return in;
}

struct tarn_dataset *dataset_new(struct catalog *cat, uint64_t id, const char *name,
				 const struct dataset_record *rec)
{
	struct tarn_dataset *ds = calloc(1, sizeof(*ds));

	if (!ds)
		return NULL;
	ds->inside = inside_new();
	if (!ds->inside) {
		free(ds);
		return NULL;
	}
	ds->owner.ops = &owner_ops;
	ds->catalog = cat;
	ds->pool = cat->pool;
	ds->pool_guid = cat->pool->guid;
	ds->cache = cat->cache;
	ds->id = id;
	ds->parent_id = rec->parent;
	ds->created = rec->created;
	ds->birth = rec->birth;
	ds->used = rec->used;
	ds->logical = rec->logical;
	ds->inodes = rec->inodes;
	ds->synced_root = rec->root;
	ds->committed_root = rec->root;
	ds->state = DATASET_LIVE;
	ds->refs = 1;
	strncpy(ds->name, name, TARN_NAME_MAX);
	pthread_mutex_init(&ds->fs_lock, NULL);
	prop_apply(ds); /* a destroyed one keeps the defaults */
	tree_init(&ds->tree, cat->pool, cat->cache, &ds->owner, &rec->root, COMP_LZ4, CKSUM_XXH3);
	return ds;
}

void dataset_ref(struct tarn_dataset *ds)
{
	ds->refs++;
}

void dataset_unref(struct tarn_dataset *ds)
{
	if (--ds->refs)
		return;
	prop_free_local(ds);
	pthread_mutex_destroy(&ds->fs_lock);
	pthread_mutex_destroy(&ds->inside->lock);
	pthread_cond_destroy(&ds->inside->cond);
	free(ds->inside);
	free(ds);
}

/* ---- inside ---- */

static atomic_long *my_shard(struct tarn_dataset *ds)
{
	return &ds->inside->shard[(unsigned)sched_getcpu() % INSIDE_SHARDS].n;
}

static void leave(struct tarn_dataset *ds, atomic_long *shard)
{
	(*shard)--;
	if (ds->state == DATASET_LIVE)
		return;
	pthread_mutex_lock(&ds->inside->lock);
	pthread_cond_broadcast(&ds->inside->cond);
	pthread_mutex_unlock(&ds->inside->lock);
}

int dataset_enter(struct tarn_dataset *ds)
{
	atomic_long *shard = my_shard(ds);
	uint32_t state;

	/* Counted first, looked at second: dataset_shut() does it the other way round. */
	(*shard)++;
	state = ds->state;
	if (state == DATASET_LIVE)
		return 0;
	leave(ds, shard);
	return state == DATASET_DYING ? -ESTALE : -ENXIO;
}

void dataset_leave(struct tarn_dataset *ds)
{
	leave(ds, my_shard(ds));
}

static long count_inside(struct tarn_dataset *ds)
{
	long n = 0;

	for (unsigned i = 0; i < INSIDE_SHARDS; i++)
		n += ds->inside->shard[i].n;
	return n;
}

void dataset_shut(struct tarn_dataset *ds, enum dataset_state state)
{
	ds->state = state;
	pthread_mutex_lock(&ds->inside->lock);
	while (count_inside(ds) > 0)
		pthread_cond_wait(&ds->inside->cond, &ds->inside->lock);
	pthread_mutex_unlock(&ds->inside->lock);
}

/* ---- hierarchy ---- */

void dataset_link(struct tarn_dataset *ds, struct tarn_dataset *parent)
{
	struct tarn_dataset **at = &parent->children;

	while (*at && strcmp((*at)->name, ds->name) < 0)
		at = &(*at)->sibling;
	ds->sibling = *at;
	*at = ds;
	ds->parent = parent;
	ds->parent_id = parent->id;
	parent->nchildren++;
}

void dataset_unlink(struct tarn_dataset *ds)
{
	struct tarn_dataset **at = &ds->parent->children;

	while (*at != ds)
		at = &(*at)->sibling;
	*at = ds->sibling;
	ds->parent->nchildren--;
	ds->parent = NULL;
	ds->sibling = NULL;
}

struct tarn_dataset *dataset_find_child(struct tarn_dataset *ds, const char *name, size_t len)
{
	for (struct tarn_dataset *c = ds->children; c; c = c->sibling)
		if (strlen(c->name) == len && memcmp(c->name, name, len) == 0)
			return c;
	return NULL;
}

static bool served(const struct tarn_dataset *ds)
{
	return ds->props.canmount && ds->state == DATASET_LIVE;
}

struct tarn_dataset *dataset_child(struct tarn_dataset *ds, const char *name)
{
	struct tarn_dataset *child;

	if (!ds->nchildren)
		return NULL;
	pthread_rwlock_rdlock(&ds->catalog->names);
	child = dataset_find_child(ds, name, strlen(name));
	if (child && served(child))
		dataset_ref(child);
	else
		child = NULL;
	pthread_rwlock_unlock(&ds->catalog->names);
	return child;
}

struct tarn_dataset *dataset_next_child(struct tarn_dataset *ds, uint64_t after,
					char name[TARN_NAME_MAX + 1])
{
	struct tarn_dataset *best = NULL;

	if (!ds->nchildren)
		return NULL;
	pthread_rwlock_rdlock(&ds->catalog->names);
	for (struct tarn_dataset *c = ds->children; c; c = c->sibling)
		if (served(c) && c->id > after && (!best || c->id < best->id))
			best = c;
	if (best) {
		dataset_ref(best);
		strcpy(name, best->name);
	}
	pthread_rwlock_unlock(&ds->catalog->names);
	return best;
}

struct tarn_dataset *dataset_parent(struct tarn_dataset *ds)
{
	struct tarn_dataset *parent;

	pthread_rwlock_rdlock(&ds->catalog->names);
	parent = ds->parent;
	if (parent)
		dataset_ref(parent);
	pthread_rwlock_unlock(&ds->catalog->names);
	return parent;
}

/* ---- public ---- */

struct tarn_dataset *tarn_dataset_ref(struct tarn_dataset *ds)
{
	dataset_ref(ds);
	return ds;
}

void tarn_dataset_put(struct tarn_dataset *ds)
{
	if (ds)
		dataset_unref(ds);
}

uint64_t tarn_dataset_pool_guid(const struct tarn_dataset *ds)
{
	return ds->pool_guid;
}

uint64_t tarn_dataset_id(const struct tarn_dataset *ds)
{
	return ds->id;
}
