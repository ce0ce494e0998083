// SPDX-License-Identifier: LGPL-3.0-or-later
#include <assert.h>
#include <errno.h>

#include "tree/impl.h"

/* A node with less in it looks for a neighbour to merge with; merged, they leave some room. */
#define SPARSE (TREE_NODE_SIZE / 4)
#define MERGED (TREE_NODE_SIZE / 4 * 3)
/* The most a change adds to an inner node: a separator for a split child. */
#define SEPARATOR_MAX                                                                              \
	(sizeof(uint16_t) + sizeof(struct node_entry) + TREE_KEY_MAX + sizeof(struct bp))
/* A level gives up at most the old versions of a node and its neighbour, and one merged away. */
#define DROPS_MAX (3 * TREE_HEIGHT_MAX + 2)

/* A reference of the tree to a block or object that a change has ended. */
struct drop {
	struct slot_obj *obj; /* else bp */
	struct bp bp;
};

/* One put or del. */
struct change {
	struct tx *tx;
	struct tree *t;
	bool del;
	struct slot slot; /* what to put; del: the key only */
	uint32_t drops;
	struct drop drop[DROPS_MAX];
};

/* ---- what the change drops: given back when no latch is held any more ---- */

static void drop_obj(struct change *c, struct slot_obj *obj)
{
	assert(c->drops < DROPS_MAX);
	c->drop[c->drops++] = (struct drop){.obj = obj};
}

static void drop_slot(struct change *c, const struct slot *s)
{
	if (s->obj) {
		drop_obj(c, s->obj);
	} else if (s->kind != SLOT_VALUE) {
		assert(c->drops < DROPS_MAX);
		c->drop[c->drops++] = (struct drop){.bp = slot_bp(s)};
	}
}

static void free_bp(struct change *c, const struct bp *bp)
{
	struct space_owner *owner = c->t->owner;

	if (bp_is_hole(bp))
		return;
	if (c->tx->sync)
		owner->ops->freed(owner, c->tx->sync, bp);
	else
		tx_free(c->tx, owner, bp);
}

static void free_obj(struct change *c, struct slot_obj *obj)
{
	bool unwritten = obj->txg == c->tx->txg && !atomic_load(&obj->written);

	if (unwritten || c->tx->sync) {
		/* Written before in this txg, in an earlier pass: the block is there. */
		if (c->tx->sync)
			free_bp(c, &obj->bp);
		slot_obj_unref(obj);
	} else {
		tx_free_obj(c->tx, c->t->owner, obj);
	}
}

static void change_end(struct change *c)
{
	while (c->drops > 0) {
		struct drop *d = &c->drop[--c->drops];

		if (d->obj)
			free_obj(c, d->obj);
		else
			free_bp(c, &d->bp);
	}
}

/* ---- nodes of this txg ---- */

static struct tree_node *new_node(struct change *c, uint8_t level)
{
	if (!c->tx->sync)
		tx_dirty(c->tx, TREE_NODE_SIZE);
	return node_new(level, c->tx->txg);
}

/* A copy of a held node that is not of this txg. */
static struct tree_node *copy_node(struct change *c, struct tree_node *n)
{
	if (!c->tx->sync)
		tx_dirty(c->tx, TREE_NODE_SIZE);
	/* It will not be asked for again, but by readers of snapshots. */
	atomic_store_explicit(&n->obj.freq, 0, memory_order_relaxed);
	return node_clone(n, c->tx->txg);
}

/* The same of a referenced one; takes the reference. */
static struct tree_node *clone_node(struct change *c, struct tree_node *n)
{
	struct hold h = hold_shared(n);
	struct tree_node *copy = copy_node(c, n);

	hold_drop(&h);
	return copy;
}

static struct hold hold_new(struct tree_node *n)
{
	cache_ref(&n->obj);
	return hold_exclusive(n);
}

static void child_replace(struct change *c, struct tree_node *parent, uint32_t i,
			  struct tree_node *n)
{
	struct slot old = node_slot(parent, i);

	drop_slot(c, &old);
	node_set_obj(parent, i, &n->slot);
}

/* Child i of an exclusively held parent, of this txg. */
static struct hold child_exclusive(struct change *c, struct tree_node *parent, uint32_t i)
{
	struct tree_node *n;
	struct bp bp;
	int rc = node_get_child(c->t, parent, i, &n, &bp);

	assert(rc == 0 && n); /* pinned */
	if (node_open(n, c->tx->txg))
		return hold_exclusive(n);
	n = clone_node(c, n);
	child_replace(c, parent, i, n);
	return hold_new(n);
}

/* The tree's lock is held for writing. */
static void root_set(struct change *c, struct tree_node *root)
{
	c->t->root.node = root;
	c->t->dirty_txg = c->tx->txg;
}

/* The root, of this txg; an empty tree gets one. */
static struct hold root_exclusive(struct change *c)
{
	struct tree *t = c->t;
	struct tree_node *root, *old = t->root.node;
	struct bp bp;
	int rc = node_get_root(t, &root, &bp);

	assert(rc == 0 && (root || bp_is_hole(&bp))); /* pinned */
	if (root && node_open(root, c->tx->txg)) {
		t->dirty_txg = c->tx->txg;
		return hold_exclusive(root);
	}
	if (old)
		drop_obj(c, &old->slot);
	else if (root)
		drop_slot(c, &(struct slot){.kind = SLOT_CHILD,
					    .val = (uint8_t *)&t->root.bp,
					    .vlen = sizeof(bp)});
	root_set(c, root ? clone_node(c, root) : new_node(c, 0));
	return hold_new(t->root.node);
}

/* ---- leaves ---- */

static uint32_t bytes_needed(const struct change *c, const struct tree_node *leaf)
{
	uint32_t need = slot_bytes(c->slot.klen, c->slot.vlen), i;
	bool found;
	struct slot old;

	i = node_find(leaf, c->slot.key, c->slot.klen, &found);
	if (!found)
		return need;
	old = node_slot(leaf, i);
	need -= slot_bytes(old.klen, old.vlen) < need ? slot_bytes(old.klen, old.vlen) : need;
	return need;
}

static bool has_room(const struct change *c, const struct tree_node *n)
{
	return (n->level ? SEPARATOR_MAX : bytes_needed(c, n)) <= node_room(n);
}

static void leaf_put(struct change *c, struct tree_node *leaf)
{
	bool found;
	uint32_t i = node_find(leaf, c->slot.key, c->slot.klen, &found);
	struct slot old;

	if (found) {
		old = node_slot(leaf, i);
		drop_slot(c, &old);
		node_remove(leaf, i);
	}
	node_insert(leaf, i, &c->slot);
}

static int leaf_del(struct change *c, struct tree_node *leaf)
{
	bool found;
	uint32_t i = node_find(leaf, c->slot.key, c->slot.klen, &found);
	struct slot old;

	if (!found)
		return -ENOENT;
	old = node_slot(leaf, i);
	drop_slot(c, &old);
	node_remove(leaf, i);
	return 0;
}

/* ---- in place ---- */

#define SLOW 1

/* Deleting would make the leaf sparse or empty, so that it should look for a neighbour. */
static bool becomes_sparse(const struct change *c, const struct tree_node *leaf,
			   const struct tree_miss *miss)
{
	bool found;
	uint32_t i = node_find(leaf, c->slot.key, c->slot.klen, &found);
	struct slot s;

	if (!found || (!miss->low_len && !miss->high_len))
		return false;
	s = node_slot(leaf, i);
	return node_count(leaf) == 1 ||
	       (leaf->used >= SPARSE && leaf->used - slot_bytes(s.klen, s.vlen) < SPARSE);
}

/* Changes a leaf of this txg where nothing above it is concerned, else SLOW. */
static int change_leaf(struct change *c, struct tree_node *leaf, const struct tree_miss *miss)
{
	bool found;

	if (!node_open(leaf, c->tx->txg)) {
		node_find(leaf, c->slot.key, c->slot.klen, &found);
		return c->del && !found ? -ENOENT : SLOW;
	}
	if (c->del)
		return becomes_sparse(c, leaf, miss) ? SLOW : leaf_del(c, leaf);
	if (!has_room(c, leaf))
		return SLOW;
	leaf_put(c, leaf);
	return 0;
}

/* References the way to the leaf in pin: if SLOW follows, nothing on it can be missing. */
static int change_fast(struct change *c, struct tree_pin *pin, struct tree_miss *miss)
{
	struct aim aim = {
	    .key = c->slot.key, .klen = c->slot.klen, .change = c->tx->txg, .pin = pin};
	struct hold leaf;
	int rc = tree_descend(c->t, &aim, miss, &leaf);

	if (rc == -ENOENT)
		return c->del ? -ENOENT : SLOW;
	if (rc)
		return rc;
	rc = change_leaf(c, leaf.node, miss);
	hold_drop(&leaf);
	return rc;
}

/* ---- splitting ---- */

/* The shortest key that is greater than low and not greater than high. */
static uint32_t separator(const struct slot *low, const struct slot *high)
{
	uint32_t i = 0;

	while (i < low->klen && low->key[i] == high->key[i])
		i++;
	return i + 1;
}

/* Where to cut: in the middle by bytes; keys that come in order leave full nodes behind. */
static uint32_t split_point(const struct change *c, const struct tree_node *n)
{
	uint32_t count = node_count(n), m, bytes = 0,
		 half = (n->used - sizeof(struct node_head)) / 2;
	bool found;

	if (n->level && node_child(n, c->slot.key, c->slot.klen, false) == count - 1)
		return count - 1;
	if (!n->level && node_find(n, c->slot.key, c->slot.klen, &found) == count)
		return count;
	for (m = 0; m < count - 1 && bytes < half; m++) {
		struct slot s = node_slot(n, m);

		bytes += slot_bytes(s.klen, s.vlen);
	}
	return m;
}

/*
 * Splits child i of parent, both held exclusively, parent with room for a separator. *child becomes
 * the half that the key belongs to.
 */
static void split_child(struct change *c, struct tree_node *parent, uint32_t i, struct hold *child)
{
	struct tree_node *left = child->node, *right = new_node(c, left->level);
	uint32_t m = split_point(c, left);
	struct slot low, high = m < node_count(left) ? node_slot(left, m) : c->slot;
	struct slot sep = {.key = high.key,
			   .klen = high.klen,
			   .vlen = sizeof(struct bp),
			   .kind = SLOT_CHILD,
			   .obj = &right->slot};

	assert(m > 0);
	if (left->level == 0) {
		low = node_slot(left, m - 1);
		sep.klen = separator(&low, &high);
	}
	node_insert(parent, i + 1, &sep);
	node_split(left, m, right);
	if (node_child(parent, c->slot.key, c->slot.klen, false) == i)
		return;
	hold_drop(child);
	*child = hold_new(right);
}

/* A new root above the old one, which can be split then. The tree's lock is held for writing. */
static struct hold root_grow(struct change *c)
{
	struct tree_node *old = c->t->root.node, *root = new_node(c, old->level + 1);
	struct slot s = {.vlen = sizeof(struct bp), .kind = SLOT_CHILD, .obj = &old->slot};

	assert(root->level < TREE_HEIGHT_MAX);
	node_insert(root, 0, &s);
	root_set(c, root);
	return hold_new(root);
}

static int put_slow(struct change *c)
{
	struct hold h, child;
	uint32_t i;

	pthread_rwlock_wrlock(&c->t->lock);
	h = root_exclusive(c);
	if (!has_room(c, h.node)) {
		hold_drop(&h);
		h = root_grow(c);
	}
	pthread_rwlock_unlock(&c->t->lock);
	while (h.node->level > 0) {
		i = node_child(h.node, c->slot.key, c->slot.klen, false);
		child = child_exclusive(c, h.node, i);
		if (!has_room(c, child.node))
			split_child(c, h.node, i, &child);
		hold_drop(&h);
		h = child;
	}
	leaf_put(c, h.node);
	hold_drop(&h);
	return 0;
}

/* ---- merging ---- */

static bool merge_fits(const struct tree_node *left, const struct tree_node *right, uint32_t seplen)
{
	uint32_t total = left->used + right->used - sizeof(struct node_head);

	if (left->level)
		total += seplen;
	if (node_count(left) == 0 || node_count(right) == 0)
		return total <= TREE_NODE_SIZE;
	return total <= MERGED;
}

/* Latches a neighbour, whatever its state, to read or empty it. */
static struct hold hold_neighbour(struct change *c, struct tree_node *n)
{
	return node_open(n, c->tx->txg) ? hold_exclusive(n) : hold_shared(n);
}

/*
 * Children l and l + 1 of parent, held, become one: l, which takes over the other's range and is
 * therefore of this txg. It ends up exclusively held in *left; right is let go.
 */
static void merge(struct change *c, struct tree_node *parent, uint32_t l, struct hold *left,
		  struct hold *right)
{
	struct slot gone = node_slot(parent, l + 1);
	struct tree_node *into = left->node;

	if (!node_open(into, c->tx->txg)) {
		into = copy_node(c, into);
		child_replace(c, parent, l, into);
		hold_drop(left);
		*left = hold_new(into);
	}
	node_append(into, right->node, gone.key, gone.klen, node_open(right->node, c->tx->txg));
	drop_slot(c, &gone);
	node_remove(parent, l + 1);
	hold_drop(right);
}

/*
 * Merges child i of parent, both held exclusively, with its neighbour l or l + 1 if that is in
 * memory and both fit. *child becomes the merged node.
 */
static bool merge_pair(struct change *c, struct tree_node *parent, uint32_t l, uint32_t i,
		       struct hold *child)
{
	struct hold left, right;
	struct tree_node *other, *self = child->node;
	struct bp bp;
	struct slot sep;
	bool fits;

	if (node_get_child(c->t, parent, l == i ? l + 1 : l, &other, &bp) || !other)
		return false;
	if (!atomic_load(&other->placed)) {
		cache_unref(&other->obj);
		return false;
	}
	/* Let go to keep the order of latches; nobody can get in, as the parent is held. */
	cache_ref(&self->obj);
	hold_drop(child);
	left = l == i ? hold_exclusive(self) : hold_neighbour(c, other);
	right = l == i ? hold_neighbour(c, other) : hold_exclusive(self);
	sep = node_slot(parent, l + 1);
	fits = merge_fits(left.node, right.node, sep.klen);
	if (fits) {
		merge(c, parent, l, &left, &right);
		*child = left;
	} else {
		hold_drop(l == i ? &right : &left);
		*child = l == i ? left : right;
	}
	return fits;
}

static void merge_sparse(struct change *c, struct tree_node *parent, uint32_t i, struct hold *child)
{
	if (child->node->used >= SPARSE)
		return;
	if (i > 0 && merge_pair(c, parent, i - 1, i, child))
		return;
	if (i + 1 < node_count(parent))
		merge_pair(c, parent, i, i, child);
}

/* A root with one child, both held exclusively, gives its place to it. The tree's lock is held for
   writing. */
static void root_shrink(struct change *c, struct tree_node *root)
{
	struct slot s = node_slot(root, 0);

	node_remove(root, 0);
	drop_obj(c, &root->slot);
	root_set(c, node_of_slot(s.obj));
}

static int del_slow(struct change *c)
{
	struct hold h, child;
	uint32_t i;
	bool locked; /* the tree, as the root may lose its place */
	int rc = 0;

	pthread_rwlock_wrlock(&c->t->lock);
	h = root_exclusive(c);
	locked = h.node->level > 0 && node_count(h.node) <= 2;
	if (!locked)
		pthread_rwlock_unlock(&c->t->lock);
	if (h.node->level == 0)
		rc = leaf_del(c, h.node);
	while (h.node->level > 0) {
		i = node_child(h.node, c->slot.key, c->slot.klen, false);
		child = child_exclusive(c, h.node, i);
		if (child.node->level == 0)
			rc = leaf_del(c, child.node);
		merge_sparse(c, h.node, i, &child);
		if (locked) {
			if (node_count(h.node) == 1)
				root_shrink(c, h.node);
			pthread_rwlock_unlock(&c->t->lock);
			locked = false;
		}
		hold_drop(&h);
		h = child;
	}
	hold_drop(&h);
	return rc;
}

/* ---- interface ---- */

static int change_run(struct change *c, struct tree_miss *miss)
{
	struct tree_pin pin = {.n = 0};
	int rc;

	assert(c->tx->pool == c->t->pool);
	assert(c->slot.klen > 0 && c->slot.klen <= TREE_KEY_MAX);
	miss->epoch = read_enter(c->t->pool);
	rc = change_fast(c, &pin, miss);
	if (rc == SLOW)
		rc = c->del ? del_slow(c) : put_slow(c);
	tree_unpin(&pin);
	change_end(c);
	if (rc != -EAGAIN)
		read_leave(c->t->pool, miss->epoch);
	return rc;
}

/* Takes the reference to the slot's object if it succeeds, else gives it back. */
static int put(struct tx *tx, struct tree *t, struct slot slot, struct tree_miss *miss)
{
	struct change c = {.tx = tx, .t = t, .slot = slot};
	int rc = change_run(&c, miss);

	if (rc && slot.obj)
		slot_obj_unref(slot.obj);
	return rc;
}

int tree_put(struct tx *tx, struct tree *t, const void *key, uint32_t klen, const void *val,
	     uint32_t vlen, struct tree_miss *miss)
{
	struct slot slot = {.key = key, .klen = klen, .val = val, .vlen = vlen};

	assert(vlen <= TREE_VALUE_MAX);
	if (vlen > TREE_INLINE_MAX) {
		if (!tx->sync)
			tx_dirty(tx, vlen);
		slot.kind = SLOT_LARGE;
		slot.val = NULL;
		slot.vlen = sizeof(struct bp);
		slot.obj = large_new(t, tx->txg, val, vlen);
	}
	return put(tx, t, slot, miss);
}

int tree_put_block(struct tx *tx, struct tree *t, const void *key, uint32_t klen,
		   struct slot_obj *obj, struct tree_miss *miss)
{
	struct slot slot = {.key = key,
			    .klen = klen,
			    .vlen = sizeof(struct bp),
			    .kind = SLOT_BLOCK,
			    .obj = slot_obj_ref(obj)};

	assert(obj->txg == tx->txg);
	return put(tx, t, slot, miss);
}

int tree_put_bp(struct tx *tx, struct tree *t, const void *key, uint32_t klen, const struct bp *bp,
		struct tree_miss *miss)
{
	struct slot slot = {.key = key,
			    .klen = klen,
			    .val = (const uint8_t *)bp,
			    .vlen = sizeof(*bp),
			    .kind = SLOT_BLOCK};

	assert(bp->type == BP_HOLE || bp->type == BP_DATA);
	return put(tx, t, slot, miss);
}

int tree_put_record(struct tx *tx, struct tree *t, const void *key, uint32_t klen,
		    struct slot_obj *obj, uint32_t len, struct tree_miss *miss)
{
	struct slot slot = {.key = key, .klen = klen, .vlen = len};

	assert(obj->txg == tx->txg && len <= TREE_INLINE_MAX);
	slot.obj = record_new(obj, len);
	return put(tx, t, slot, miss);
}

int tree_del(struct tx *tx, struct tree *t, const void *key, uint32_t klen, struct tree_miss *miss)
{
	struct change c = {.tx = tx, .t = t, .del = true, .slot = {.key = key, .klen = klen}};

	return change_run(&c, miss);
}
