// SPDX-License-Identifier: LGPL-3.0-or-later
#include <errno.h>

#include "pool/pool.h"
#include "tree/impl.h"

/* ---- latches ---- */

struct hold hold_shared(struct tree_node *n)
{
	if (atomic_load(&n->clean))
		return (struct hold){n, false};
	pthread_rwlock_rdlock(&n->latch);
	return (struct hold){n, true};
}

struct hold hold_exclusive(struct tree_node *n)
{
	pthread_rwlock_wrlock(&n->latch);
	return (struct hold){n, true};
}

void hold_drop(struct hold *h)
{
	if (h->latched)
		pthread_rwlock_unlock(&h->node->latch);
	cache_unref(&h->node->obj);
	h->node = NULL;
}

/* ---- finding nodes ---- */

static struct tree_node *node_lookup(struct tree *t, const struct bp *bp)
{
	struct cache_key key = cache_key_of(t->pool->guid, bp);

	return (struct tree_node *)cache_lookup(t->cache, &key);
}

int node_get_child(struct tree *t, const struct tree_node *n, uint32_t i, struct tree_node **child,
		   struct bp *bp)
{
	struct slot s = node_slot(n, i);

	if (s.obj) {
		*child = node_of_slot(s.obj);
		cache_ref(&(*child)->obj);
		return 0;
	}
	*bp = slot_bp(&s);
	*child = node_lookup(t, bp);
	/* Metadata that passed its checksum may still name one place twice, as different things. */
	if (*child && ((*child)->obj.type != &cache_type_node || (*child)->level + 1 != n->level)) {
		cache_unref(&(*child)->obj);
		return -EIO;
	}
	return 0;
}

int node_get_root(struct tree *t, struct tree_node **root, struct bp *bp)
{
	if (t->root.node) {
		*root = t->root.node;
		cache_ref(&(*root)->obj);
		return 0;
	}
	*bp = t->root.bp;
	*root = bp_is_hole(bp) ? NULL : node_lookup(t, bp);
	if (*root && ((*root)->obj.type != &cache_type_node || (*root)->level != bp->level)) {
		cache_unref(&(*root)->obj);
		return -EIO;
	}
	return 0;
}

/* ---- the way down ---- */

void miss_set(struct tree_miss *miss, const struct bp *bp, bool value, uint64_t max_birth)
{
	miss->bp = *bp;
	miss->value = value;
	miss->max_birth = max_birth;
}

static void range_narrow(struct tree_miss *miss, const struct tree_node *n, uint32_t i)
{
	struct slot s;

	if (i > 0) {
		s = node_slot(n, i);
		memcpy(miss->low, s.key, s.klen);
		miss->low_len = s.klen;
	}
	if (i + 1 < node_count(n)) {
		s = node_slot(n, i + 1);
		memcpy(miss->high, s.key, s.klen);
		miss->high_len = s.klen;
	}
}

static struct hold hold_for(const struct aim *aim, struct tree_node *n)
{
	if (aim->pin) {
		cache_ref(&n->obj);
		aim->pin->path[aim->pin->n++] = &n->obj;
	}
	if (n->level == 0 && aim->change && node_open(n, aim->change))
		return hold_exclusive(n);
	return hold_shared(n);
}

static int hold_root(struct tree *t, const struct aim *aim, struct tree_miss *miss, struct hold *h)
{
	struct tree_node *root;
	struct bp bp;
	int rc;

	pthread_rwlock_rdlock(&t->lock);
	rc = node_get_root(t, &root, &bp);
	if (rc == 0 && root) {
		*h = hold_for(aim, root);
	} else if (rc == 0 && bp_is_hole(&bp)) {
		rc = -ENOENT;
	} else if (rc == 0) {
		miss_set(miss, &bp, false, bp.birth);
		rc = -EAGAIN;
	}
	pthread_rwlock_unlock(&t->lock);
	return rc;
}

/* A node that was read is used only where it belongs. */
static bool in_place(struct tree_node *n, const struct tree_miss *miss)
{
	if (atomic_load_explicit(&n->placed, memory_order_relaxed))
		return true;
	if (!node_within(n, miss->low, miss->low_len, miss->high, miss->high_len))
		return false;
	atomic_store_explicit(&n->placed, true, memory_order_relaxed);
	return true;
}

int tree_descend(struct tree *t, const struct aim *aim, struct tree_miss *miss, struct hold *leaf)
{
	struct tree_node *child;
	struct hold h, below;
	struct bp bp;
	uint32_t i;
	int rc;

	miss->low_len = miss->high_len = 0;
	rc = hold_root(t, aim, miss, &h);
	if (rc)
		return rc;
	while (h.node->level > 0) {
		i = node_child(h.node, aim->key, aim->klen, aim->before);
		rc = node_get_child(t, h.node, i, &child, &bp);
		range_narrow(miss, h.node, i);
		if (rc == 0 && !child) {
			miss_set(miss, &bp, false, h.node->slot.txg);
			rc = -EAGAIN;
		} else if (rc == 0 && !in_place(child, miss)) {
			cache_unref(&child->obj);
			rc = -EIO;
		}
		if (rc) {
			hold_drop(&h);
			return rc;
		}
		below = hold_for(aim, child);
		hold_drop(&h);
		h = below;
	}
	*leaf = h;
	return 0;
}
