// SPDX-License-Identifier: LGPL-3.0-or-later
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "pool/block.h"
#include "pool/pool.h"
#include "tree/impl.h"
#include "util/workq.h"

#define ZSTD_LEVEL 3 /* of nodes and large values */

struct node_list {
	struct tree_node **node;
	uint32_t count, room;
};

/* A pass of tree_sync(). */
struct sync_job {
	struct tree *t;
	struct txg_sync *s;
	struct node_list level[TREE_HEIGHT_MAX]; /* to be written */
	struct node_list *list;                  /* being written */
	atomic_int error;
	pthread_mutex_t lock; /* guards the rest */
	struct bp *stale;     /* written by an earlier pass of this txg, now superseded */
	uint32_t stale_count, stale_room;
};

/* ---- freeze ---- */

bool tree_freeze(struct tree *t, uint64_t txg)
{
	struct tree_node *old = t->frozen.node;

	assert(!old || old->slot.txg == txg);
	assert(!t->root.node || t->root.node->slot.txg == txg);
	t->frozen.bp = t->root.bp;
	t->frozen.node = t->root.node;
	if (t->frozen.node)
		slot_obj_ref(&t->frozen.node->slot);
	if (old)
		slot_obj_unref(&old->slot);
	return t->dirty_txg == txg;
}

/* ---- what is to be written ---- */

/* Objects of blocks may have failed; a record once filled stays so. */
static bool obj_pending(const struct slot_obj *obj)
{
	return !atomic_load(&obj->written) || atomic_load(&obj->failed);
}

static void list_add(struct sync_job *job, struct node_list *list, struct tree_node *n)
{
	if (list->count == list->room) {
		uint32_t room = list->room ? list->room * 2 : 64;
		void *more = reallocarray(list->node, room, sizeof(*list->node));

		if (!more) {
			atomic_store(&job->error, -ENOMEM);
			return;
		}
		list->node = more;
		list->room = room;
	}
	list->node[list->count++] = n;
}

/* Adds n to its level if it or anything below was changed since it was written, or has failed. */
static bool collect(struct sync_job *job, struct tree_node *n)
{
	bool pending = obj_pending(&n->slot);
	uint32_t count = n->child_room ? node_count(n) : 0;

	for (uint32_t i = 0; i < count; i++) {
		struct slot_obj *obj = n->child[i];

		if (!obj || obj->txg != job->s->txg)
			continue;
		if (n->level ? collect(job, node_of_slot(obj)) : obj_pending(obj))
			pending = true;
	}
	if (pending)
		list_add(job, &job->level[n->level], n);
	return pending;
}

/* ---- writing ---- */

static void stale_add(struct sync_job *job, const struct bp *bp)
{
	pthread_mutex_lock(&job->lock);
	if (job->stale_count == job->stale_room) {
		uint32_t room = job->stale_room ? job->stale_room * 2 : 16;
		void *more = reallocarray(job->stale, room, sizeof(*job->stale));

		if (more) {
			job->stale = more;
			job->stale_room = room;
		} else {
			atomic_store(&job->error, -ENOMEM);
		}
	}
	if (job->stale_count < job->stale_room)
		job->stale[job->stale_count++] = *bp;
	pthread_mutex_unlock(&job->lock);
}

int tree_write_block(struct tree *t, struct txg_sync *s, enum bp_type type, uint8_t level,
		     const void *data, uint32_t len, struct slot_obj *obj)
{
	struct block_write w = {.data = data,
				.lsize = len,
				.type = type,
				.level = level,
				.comp = t->comp,
				.comp_level = t->comp == COMP_ZSTD ? ZSTD_LEVEL : 0,
				.cksum = t->cksum,
				.class = t->class,
				.failed = &obj->failed};

	return block_write(s, &w, &obj->bp);
}

/* Around each write of a block: what obj was before is superseded, what it is now is born. */
static void block_again(struct sync_job *job, struct slot_obj *obj)
{
	if (!bp_is_hole(&obj->bp))
		stale_add(job, &obj->bp);
	atomic_store(&obj->failed, false);
}

static void block_done(struct sync_job *job, struct slot_obj *obj)
{
	struct space_owner *owner = job->t->owner;

	if (!bp_is_hole(&obj->bp))
		owner->ops->born(owner, job->s, &obj->bp);
	atomic_store(&obj->written, true);
}

static int write_slot(struct sync_job *job, const struct slot *s)
{
	int rc;

	if (s->kind == SLOT_VALUE) {
		rc = s->obj->ops->write(s->obj, job->s, NULL, 0);
		if (rc == 0)
			atomic_store(&s->obj->written, true);
		return rc;
	}
	block_again(job, s->obj);
	rc = s->obj->ops->write(s->obj, job->s, NULL, 0);
	if (rc == 0)
		block_done(job, s->obj);
	return rc;
}

/* The leaf's blocks, or its records. */
static int write_slots(struct sync_job *job, struct tree_node *leaf, bool records)
{
	uint32_t count = leaf->child_room ? node_count(leaf) : 0;

	for (uint32_t i = 0; i < count; i++) {
		struct slot s = node_slot(leaf, i);
		int rc;

		if (!s.obj || (s.kind == SLOT_VALUE) != records || s.obj->txg != job->s->txg ||
		    !obj_pending(s.obj))
			continue;
		rc = write_slot(job, &s);
		if (rc)
			return rc;
	}
	return 0;
}

static void write_leaf_blocks(uint64_t i, void *arg)
{
	struct sync_job *job = arg;
	int rc = write_slots(job, job->list->node[i], false);

	if (rc)
		atomic_store(&job->error, rc);
}

/* The root of an empty tree is not written. */
static int write_empty(struct sync_job *job, struct tree_node *n)
{
	n->slot.bp = bp_hole(job->s->txg, 0);
	block_done(job, &n->slot);
	return 0;
}

static int write_image(struct sync_job *job, struct tree_node *n)
{
	struct slot_obj *obj = &n->slot;
	uint8_t *image;
	int rc;

	block_again(job, obj);
	if (n == job->t->frozen.node && node_count(n) == 0)
		return write_empty(job, n);
	image = node_image(n, job->s->txg);
	if (!image)
		return -ENOMEM;
	assert(tree_node_validate(image, n->used, n->level) == 0);
	/* Those who read or clone it meanwhile still find its objects by reference. */
	pthread_rwlock_wrlock(&n->latch);
	node_set_image(n, image);
	pthread_rwlock_unlock(&n->latch);
	rc = tree_write_block(job->t, job->s, BP_NODE, n->level, image, n->used, obj);
	if (rc == 0)
		block_done(job, obj);
	return rc;
}

static void write_node(uint64_t i, void *arg)
{
	struct sync_job *job = arg;
	struct tree_node *n = job->list->node[i];
	int rc = n->level ? 0 : write_slots(job, n, true);

	if (rc == 0)
		rc = write_image(job, n);
	if (rc)
		atomic_store(&job->error, rc);
}

static int write_all(struct sync_job *job)
{
	struct workq *wq = job->s->wq;

	for (unsigned level = 0; level < TREE_HEIGHT_MAX && !job->error; level++) {
		job->list = &job->level[level];
		if (level == 0)
			workq_for(wq, job->list->count, write_leaf_blocks, job);
		if (!job->error)
			workq_for(wq, job->list->count, write_node, job);
	}
	return job->error;
}

int tree_sync(struct tree *t, struct txg_sync *s, struct bp *root)
{
	struct sync_job job = {.t = t, .s = s};
	int rc;

	if (!t->frozen.node) {
		*root = t->frozen.bp;
		return 0;
	}
	pthread_mutex_init(&job.lock, NULL);
	collect(&job, t->frozen.node);
	rc = write_all(&job);
	for (uint32_t i = 0; i < job.stale_count && rc == 0; i++)
		t->owner->ops->freed(t->owner, s, &job.stale[i]);
	*root = t->frozen.node->slot.bp;
	for (unsigned i = 0; i < TREE_HEIGHT_MAX; i++)
		free(job.level[i].node);
	free(job.stale);
	pthread_mutex_destroy(&job.lock);
	return rc;
}

/* ---- after the commit ---- */

void tree_cache_new(struct tree *t, struct cache_obj *obj, const struct bp *bp)
{
	struct cache_obj *in;

	obj->key = cache_key_of(t->pool->guid, bp);
	in = cache_insert(t->cache, obj);
	assert(in == obj); /* nothing was read from a place that has just been written */
}

/* Children first: they are in the cache before the slots that lead to them are bps. */
static void settle(struct tree *t, struct tree_node *n, uint64_t txg)
{
	struct slot_obj **child;
	uint32_t count = n->child_room ? node_count(n) : 0;

	for (uint32_t i = 0; i < count; i++) {
		struct slot s = node_slot(n, i);

		if (!s.obj || s.obj->txg != txg)
			continue;
		if (n->level)
			settle(t, node_of_slot(s.obj), txg);
		else
			slot_committed(&s);
	}
	pthread_rwlock_wrlock(&n->latch);
	node_settle(n, &child, &count);
	pthread_rwlock_unlock(&n->latch);
	if (!bp_is_hole(&n->slot.bp))
		tree_cache_new(t, &n->obj, &n->slot.bp);
	atomic_store(&n->slot.committed, true);
	for (uint32_t i = 0; i < count; i++) {
		if (child[i])
			slot_obj_unref(child[i]);
	}
	free(child);
}

void tree_committed(struct tree *t, uint64_t txg)
{
	struct tree_node *root = t->frozen.node;
	bool unchanged;

	if (!root)
		return;
	assert(root->slot.txg == txg);
	settle(t, root, txg);
	pthread_rwlock_wrlock(&t->lock);
	unchanged = t->root.node == root;
	if (unchanged) {
		t->root.bp = root->slot.bp;
		t->root.node = NULL;
	}
	pthread_rwlock_unlock(&t->lock);
	t->frozen.bp = root->slot.bp;
	t->frozen.node = NULL;
	slot_obj_unref(&root->slot);
	if (unchanged)
		slot_obj_unref(&root->slot);
}
