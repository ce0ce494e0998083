// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * A tree on the fake pool and a plain sorted array beside it, for the tests of tree/.
 */
#ifndef TREE_RIG_H
#define TREE_RIG_H

#include "fake_pool.h"
#include "tree/tree.h"

enum model_kind { M_VALUE, M_BLOCK, M_HOLE, M_RECORD };

/* What a key is bound to. Content follows from seed and len. */
struct model_item {
	uint32_t refs; /* the models' that share it */
	uint16_t klen;
	uint8_t kind; /* enum model_kind */
	uint32_t len;
	uint64_t seed;
	uint8_t key[TREE_KEY_MAX];
};

/* Sorted by key. */
struct model {
	struct model_item **item;
	uint32_t count, room;
};
void model_free(struct model *m);
struct model model_copy(const struct model *m);
/* The first item not less than key. */
uint32_t model_find(const struct model *m, const void *key, uint32_t klen, bool *found);
void model_put(struct model *m, const struct model_item *item);
void model_del(struct model *m, uint32_t i);

/* A dirty record or a record object. */
struct rig_obj {
	struct slot_obj obj;
	uint32_t len;
	uint64_t seed;
	uint8_t *data;
	atomic_int writes, commits;
};
struct rig_obj *rig_obj_new(uint64_t txg, bool record, uint32_t len, uint64_t seed);
extern atomic_int rig_objects; /* alive */

struct rig {
	struct fake *f;
	struct cache *cache;
	struct tree tree;
};
void rig_open(struct rig *r, struct fake *f, uint64_t cache_max, const struct bp *root);
void rig_close(struct rig *r);

/* A random item with a key of the given space; kinds and lengths of all sorts. */
struct model_item rig_item(uint64_t *random, uint32_t keys, const char *prefix);
/* In a tx of their own; fetch what misses. With pin the key is pinned first and must not miss. */
void rig_put(struct rig *r, const struct model_item *item, bool pin);
int rig_del(struct rig *r, const void *key, uint32_t klen, bool pin);
/* tree_get() gives what item says; NULL: -ENOENT. */
void rig_expect(struct rig *r, const void *key, uint32_t klen, const struct model_item *item);
/* Nearest keys on both sides agree with the model. */
void rig_expect_next(struct rig *r, const struct model *m, const void *key, uint32_t klen,
		     bool after);
/* tree_next_run() gives what the model has, of `most` keys at most. */
void rig_expect_run(struct rig *r, const struct model *m, const void *key, uint32_t klen,
		    bool after, uint32_t most, uint32_t room);
void rig_expect_prev(struct rig *r, const struct model *m, const void *key, uint32_t klen);
/* The committed tree below root is the model, and its blocks are all there are in txg. */
void rig_expect_walk(struct rig *r, const struct bp *root, const struct model *m, uint64_t txg,
		     bool account);

/* Writes a frozen txg in as many passes as it takes and commits it. */
struct bp rig_sync(struct rig *r, uint64_t txg);
/* Barrier and rig_sync() in one. */
struct bp rig_txg(struct rig *r);

#endif
