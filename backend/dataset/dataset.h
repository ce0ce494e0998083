// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * A dataset in memory: one tree, its effective properties, its usage, its place in
 * the hierarchy. Made and owned by the catalog of its pool (dataset/catalog.h); fs/ works in its
 * tree.
 *
 * Life: LIVE -> DYING (destroyed; the catalog frees its tree in the background) or
 * GONE (pool exported). References keep the memory, not the state: every use is between
 * dataset_enter() and dataset_leave(), which fail once the dataset is no longer live; export and
 * destroy wait until the last one has left.
 *
 * Locks: docs/locking.md. Effective properties are read without a lock.
 */
#ifndef TARN_DATASET_DATASET_H
#define TARN_DATASET_DATASET_H

#include <stdatomic.h>
#include <tarn/dataset.h>

#include "tree/tree.h"

struct catalog;
struct fs; /* fs/fs.h: the live inodes of a dataset */

enum dataset_state { DATASET_LIVE, DATASET_DYING, DATASET_GONE };

/* What is durable when it is answered: as the protocol says; all writes, too; nothing. */
enum dataset_sync { SYNC_STANDARD, SYNC_ALWAYS, SYNC_DISABLED };

/* Effective values, inheritance resolved. Each changes atomically; order between them is not
 * promised. */
struct dataset_props {
	_Atomic(uint8_t) comp, comp_level, cksum;
	_Atomic(uint8_t) atime; /* 0 off, 1 on, 2 relatime */
	_Atomic(uint8_t) copies;
	_Atomic(uint8_t) sync; /* enum dataset_sync */
	_Atomic(bool) readonly, xattr, acl, snapdir_visible, canmount;
	_Atomic(uint32_t) recordsize; /* for new files */
};

struct tarn_dataset {
	struct space_owner owner; /* judges births and frees, keeps usage */
	struct catalog *catalog;
	struct pool *pool;
	struct cache *cache;
	uint64_t pool_guid;     /* valid when the pool is gone, too */
	uint64_t id, parent_id; /* ids from 1, never reused; the root dataset's parent is 0 */
	struct tree tree;
	struct dataset_props props;
	_Atomic(uint32_t) state; /* enum dataset_state */
	atomic_uint refs;

	/* Usage as of the last sync; changed by the sync only. */
	_Atomic(uint64_t) used, logical, inodes;
	/* Changes of open txgs to the number of inodes, by txg % 4; folded in by the sync. */
	_Atomic(int64_t) inode_delta[4];

	/* Place in the hierarchy, local properties: guarded by the catalog's names lock. */
	char name[TARN_NAME_MAX + 1]; /* last component; the root dataset's is the pool's name */
	struct tarn_dataset *parent, *children, *sibling; /* children sorted by name */
	struct prop_value *local;
	uint64_t created, birth;
	atomic_uint nchildren; /* read without a lock: 0 saves lookups the names lock */

	/* The sync's. */
	bool sync_dirty;               /* changed in the frozen txg */
	bool destroyed;                /* its record is among the destroyed ones */
	struct bp synced_root;         /* as last written */
	struct bp committed_root;      /* as last committed; the catalog's roots lock */
	struct tarn_dataset *all_next; /* list of all datasets, dying ones too */
	struct tarn_dataset *dying_next;

	pthread_mutex_t fs_lock; /* makes fs once */
	_Atomic(struct fs *) fs;
	struct dataset_inside *inside; /* who is between enter and leave, sharded */
};

/* 0, -ESTALE (destroyed), -ENXIO (exported). Cheap; may be held over I/O and by asynchronous
 * requests. */
int dataset_enter(struct tarn_dataset *ds);
void dataset_leave(struct tarn_dataset *ds);

/* In the txg of tx: n more (or fewer) inodes. */
void dataset_count_inodes(struct tarn_dataset *ds, struct tx *tx, int64_t n);
/* As of now, those that no txg has committed among them. */
uint64_t dataset_inodes(struct tarn_dataset *ds);

/* Child datasets, for lookup and readdir in the root directory. Referenced; NULL if there is none.
   Only datasets with canmount=on. */
struct tarn_dataset *dataset_child(struct tarn_dataset *ds, const char *name);
/* The child with the smallest id greater than `after`; its name is copied. */
struct tarn_dataset *dataset_next_child(struct tarn_dataset *ds, uint64_t after,
					char name[TARN_NAME_MAX + 1]);
/* Referenced; NULL for the pool's root dataset. */
struct tarn_dataset *dataset_parent(struct tarn_dataset *ds);

#endif
