// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * A record of fixed length whose authority is in memory (inodes, pages of the inode
 * map). Its first change in a txg puts a version, a slot_obj, into the tree; later changes
 * in that txg touch the memory only. The first change in the next txg leaves the content
 * behind in the older version, which is immutable from then on but for
 * versioned_settle(). A version counts a reference to its owner for as long as a slot
 * refers to it.
 *
 * Locks: the owner's own lock serialises versioned_prepare() and versioned_dirty();
 * `lock` is innermost and orders them against the sync.
 */
#ifndef TARN_FS_VERSIONED_H
#define TARN_FS_VERSIONED_H

#include "tree/tree.h"

struct versioned;

struct version {
	struct slot_obj obj;
	struct versioned *of; /* counted in its owner */
	uint8_t bytes[];      /* valid once it is no longer of->cur */
};

struct versioned {
	void *bytes; /* the authority; changed under the owner's lock, in a tx, after
			versioned_dirty() */
	uint32_t len;
	pthread_mutex_t lock;
	struct version *cur;  /* newest one in a slot; its content is `bytes`. Not counted. */
	struct version *prev; /* the one before. Not counted. */
	struct version *spare;
	void (*ref)(struct versioned *v); /* of the owner */
	void (*unref)(struct versioned *v);
};

void versioned_init(struct versioned *v, void *bytes, uint32_t len, void (*ref)(struct versioned *),
		    void (*unref)(struct versioned *));
void versioned_fini(struct versioned *v);

/* Memory for txg's version, if there is none: before changes. -ENOMEM. */
int versioned_prepare(struct versioned *v, uint64_t txg);
/* Makes cur a version of tx's txg; key is pinned, versioned_prepare() was called. */
void versioned_dirty(struct versioned *v, struct tx *tx, struct tree *tree, const void *key,
		     uint32_t klen);
/* Sync context: the u64 at `at` was by `delta` wrong in txg and ever since. */
void versioned_settle(struct versioned *v, uint64_t txg, uint32_t at, int64_t delta);

#endif
