// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * What the modules of tree/ share. Nobody else includes it.
 *
 *   tree.c     life; get, next, prev, pin
 *   descend.c  latches and the way down
 *   change.c   put, del: in place, or cloning, splitting and merging on the way down
 *   fetch.c    loading what was missing
 *   sync.c     freeze, write, commit
 *   walk.c     reading a whole clean tree
 *   node.c     nodes, their pages and images
 *   object.c   large values and records in slots
 *
 * Lock order: a tree's lock, then latches from the root down, siblings from left to right (only
 * under their parent's exclusive latch), then the cache's.
 */
#ifndef TARN_TREE_IMPL_H
#define TARN_TREE_IMPL_H

#include "tree/node.h"
#include "tree/object.h"

/* A referenced node and perhaps its latch. */
struct hold {
	struct tree_node *node;
	bool latched;
};

/* The reference becomes the hold's. Clean nodes are not latched. */
struct hold hold_shared(struct tree_node *n);
struct hold hold_exclusive(struct tree_node *n);
void hold_drop(struct hold *h);

/*
 * The node in slot i of a held inner node or in the root, referenced. NULL: not in memory, *bp is
 * where to find it; a hole: the tree is empty. -EIO: another kind of block lies there.
 */
int node_get_child(struct tree *t, const struct tree_node *n, uint32_t i, struct tree_node **child,
		   struct bp *bp);
int node_get_root(struct tree *t, struct tree_node **root, struct bp *bp);

/* Where a descent goes and how. */
struct aim {
	const void *key;
	uint32_t klen;
	bool before;          /* to the keys less than key */
	uint64_t change;      /* not 0: a leaf of this open txg is held exclusively */
	struct tree_pin *pin; /* not NULL: references each node on the way */
};
/*
 * To the leaf, whose range is left in miss->low and high. -ENOENT: the tree is empty. The caller
 * has entered miss->epoch; with -EAGAIN it is the miss's.
 */
int tree_descend(struct tree *t, const struct aim *aim, struct tree_miss *miss, struct hold *leaf);
void miss_set(struct tree_miss *miss, const struct bp *bp, bool value, uint64_t max_birth);

/* In the sync: writes a block that obj stands for and sets obj->bp. */
int tree_write_block(struct tree *t, struct txg_sync *s, enum bp_type type, uint8_t level,
		     const void *data, uint32_t len, struct slot_obj *obj);
/* A block just committed enters the cache. */
void tree_cache_new(struct tree *t, struct cache_obj *obj, const struct bp *bp);

#endif
