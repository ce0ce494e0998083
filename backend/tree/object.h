// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The tree's own slot objects: large values, and the holders of records. A holder keeps the
 * record's bytes, so that clones of the leaf can take them when they are written themselves.
 *
 * Private to tree/. Contents never change but for a record's bytes, filled by the sync before
 * obj.written is set.
 */
#ifndef TARN_TREE_OBJECT_H
#define TARN_TREE_OBJECT_H

#include "tree/node.h"

struct tree_large {
	struct slot_obj obj;
	struct tree *tree;
	struct cache_data *data; /* goes into the cache when committed */
};

struct tree_record {
	struct slot_obj obj;
	struct slot_obj *user; /* the owner's, referenced */
	uint32_t len;
	uint8_t bytes[];
};

/* One reference. */
struct slot_obj *large_new(struct tree *t, uint64_t txg, const void *val, uint32_t len);
struct slot_obj *record_new(struct slot_obj *user, uint32_t len);

static inline struct tree_large *large_of(struct slot_obj *obj)
{
	return (struct tree_large *)obj;
}

static inline struct tree_record *record_of(struct slot_obj *obj)
{
	return (struct tree_record *)obj;
}

/* In the sync: the bytes of what s->obj has become. */
void slot_final(struct slot *s);
/* If the object has been committed, the slot is its bytes alone. */
void slot_settle(struct slot *s);

/* After the commit. */
void slot_committed(const struct slot *s);

#endif
