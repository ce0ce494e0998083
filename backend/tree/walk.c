// SPDX-License-Identifier: LGPL-3.0-or-later
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>

#include "pool/block.h"
#include "pool/pool.h"
#include "tree/impl.h"

/* Children that are being read while those before them are walked. */
#define READ_AHEAD 32

struct walk {
	struct pool *pool;
	struct cache *cache;
	const struct tree_walk_ops *ops;
	void *arg;
	const void *from; /* the first key of interest */
	uint32_t flen;
	unsigned begun;  /* reads ahead */
	sem_t ahead_end; /* posted by each */
};

/* A key range as in struct tree_miss. */
struct range {
	const uint8_t *low, *high;
	uint32_t low_len, high_len;
};

static void read_wake(struct block_read *r)
{
	sem_post(r->owner);
}

static int read_direct(struct pool *pool, const struct cache_type *type, const struct bp *bp,
		       struct cache_obj **out)
{
	uint32_t room = (bp->lsize + SECTOR_SIZE - 1) & -SECTOR_SIZE;
	sem_t done;
	struct block_read r = {
	    .bp = *bp, .buf = dev_buf_alloc(room), .done = read_wake, .owner = &done};

	if (!r.buf)
		return -ENOMEM;
	sem_init(&done, 0, 0);
	r.epoch = read_enter(pool);
	block_read(pool, &r);
	while (sem_wait(&done))
		;
	sem_destroy(&done);
	read_leave(pool, r.epoch);
	if (r.result == 0)
		return type->decode(r.buf, bp, out);
	free(r.buf);
	return r.result;
}

static int walk_read(struct walk *w, const struct cache_type *type, const struct bp *bp,
		     struct cache_obj **out)
{
	struct read_epoch epoch;
	int rc;

	if (!w->cache)
		return read_direct(w->pool, type, bp, out);
	epoch = read_enter(w->pool);
	rc = cache_read_wait(w->cache, w->pool, type, bp, out);
	read_leave(w->pool, epoch);
	return rc;
}

/* ---- reading ahead, into the cache ---- */

struct ahead {
	struct walk *w;
	struct cache_read read;
	struct read_epoch epoch;
};

static void ahead_done(struct cache_read *read)
{
	struct ahead *a = read->owner;
	struct walk *w = a->w;

	if (!read->result)
		cache_unref(read->obj);
	read_leave(w->pool, a->epoch);
	free(a);
	sem_post(&w->ahead_end);
}

/* Whatever comes of it, the walk reads the child when its turn is. */
static void read_ahead(struct walk *w, const struct tree_node *n, uint32_t i)
{
	struct slot s = node_slot(n, i);
	struct ahead *a = malloc(sizeof(*a));

	if (!a)
		return;
	*a = (struct ahead){.w = w};
	a->read = (struct cache_read){.bp = slot_bp(&s), .done = ahead_done, .owner = a};
	a->epoch = read_enter(w->pool);
	w->begun++;
	cache_read(w->cache, w->pool, &cache_type_node, &a->read);
}

/* Before child i is walked, the first of them being `first`. */
static void keep_ahead(struct walk *w, const struct tree_node *n, uint32_t first, uint32_t i)
{
	uint32_t from = i > first ? i + READ_AHEAD - 1 : i + 1;

	for (; w->cache && from < node_count(n) && from < i + READ_AHEAD; from++)
		read_ahead(w, n, from);
}

static int walk_bad(struct walk *w, const struct bp *bp, unsigned level, int error)
{
	if (error == -ENOMEM)
		return error;
	return w->ops->bad ? w->ops->bad(w->arg, bp, level, error) : 0;
}

static int walk_slot(struct walk *w, const struct slot *s)
{
	struct cache_obj *obj;
	struct bp bp;
	int rc;

	if (!w->ops->slot || key_compare(s->key, s->klen, w->from, w->flen) < 0)
		return 0;
	if (s->kind == SLOT_VALUE)
		return w->ops->slot(w->arg, s->key, s->klen, SLOT_VALUE, s->val, s->vlen, NULL);
	bp = slot_bp(s);
	if (s->kind == SLOT_BLOCK)
		return w->ops->slot(w->arg, s->key, s->klen, SLOT_BLOCK, NULL, 0, &bp);
	rc = walk_read(w, &cache_type_value, &bp, &obj);
	if (rc)
		return walk_bad(w, &bp, 0, rc);
	rc = w->ops->slot(w->arg, s->key, s->klen, SLOT_LARGE, ((struct cache_data *)obj)->data,
			  bp.lsize, &bp);
	cache_unref(obj);
	return rc;
}

static int walk_node(struct walk *w, const struct bp *bp, const struct range *range);

/* The first child with keys of interest: the last one that begins at or before the first of them.
 */
static uint32_t first_child(const struct walk *w, const struct tree_node *n)
{
	uint32_t i = 0;

	for (; i + 1 < node_count(n); i++) {
		struct slot next = node_slot(n, i + 1);

		if (key_compare(next.key, next.klen, w->from, w->flen) > 0)
			break;
	}
	return i;
}

static int walk_slots(struct walk *w, const struct tree_node *n, const struct range *range)
{
	uint32_t first = n->level && w->flen ? first_child(w, n) : 0;
	int rc = 0;

	for (uint32_t i = first; i < node_count(n) && rc == 0; i++) {
		struct slot s = node_slot(n, i), next;
		struct range below = *range;
		struct bp bp;

		if (n->level == 0) {
			rc = walk_slot(w, &s);
			continue;
		}
		keep_ahead(w, n, first, i);
		if (i > 0) {
			below.low = s.key;
			below.low_len = s.klen;
		}
		if (i + 1 < node_count(n)) {
			next = node_slot(n, i + 1);
			below.high = next.key;
			below.high_len = next.klen;
		}
		bp = slot_bp(&s);
		rc = walk_node(w, &bp, &below);
	}
	return rc;
}

static int walk_node(struct walk *w, const struct bp *bp, const struct range *range)
{
	struct cache_obj *obj;
	struct tree_node *n;
	int rc = walk_read(w, &cache_type_node, bp, &obj);

	if (rc)
		return walk_bad(w, bp, bp->level, rc);
	n = (struct tree_node *)obj;
	if (n->level != bp->level ||
	    !node_within(n, range->low, range->low_len, range->high, range->high_len)) {
		rc = walk_bad(w, bp, bp->level, -EIO);
	} else {
		if (w->ops->node && key_compare(range->low, range->low_len, w->from, w->flen) >= 0)
			rc = w->ops->node(w->arg, bp, bp->level);
		if (rc == 0)
			rc = walk_slots(w, n, range);
	}
	cache_unref(obj);
	return rc;
}

int tree_walk_from(struct pool *pool, struct cache *cache, const struct bp *root, const void *from,
		   uint32_t flen, const struct tree_walk_ops *ops, void *arg)
{
	struct walk w = {
	    .pool = pool, .cache = cache, .ops = ops, .arg = arg, .from = from, .flen = flen};
	struct range all = {.low_len = 0};
	int rc;

	if (bp_is_hole(root))
		return 0;
	if (!bp_valid(root, root->birth) || root->type != BP_NODE)
		return walk_bad(&w, root, root->level, -EIO);
	sem_init(&w.ahead_end, 0, 0);
	rc = walk_node(&w, root, &all);
	while (w.begun)
		if (!sem_wait(&w.ahead_end))
			w.begun--;
	sem_destroy(&w.ahead_end);
	return rc;
}

int tree_walk(struct pool *pool, struct cache *cache, const struct bp *root,
	      const struct tree_walk_ops *ops, void *arg)
{
	return tree_walk_from(pool, cache, root, "", 0, ops, arg);
}
