// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * A dirty record: the whole of a file's record, new in an unwritten txg, as the object in
 * its KEY_RECORD slot. Its bytes change in place while its txg is open and never after;
 * the sync writes them as a block (or makes them a hole), the commit gives them to the cache.
 *
 * A record is stored as long as it needs to be: `length` is a multiple of the sector, all bytes
 * of the record beyond it are zeros.
 *
 * Locks: changes in place under the inode's lock for writing, in a tx of the record's
 * txg, and under `lock`, which orders them against readers. Callers: piece.c, range.c.
 */
#ifndef TARN_FS_DIRTY_H
#define TARN_FS_DIRTY_H

#include "fs/fs.h"

struct dirty {
	struct slot_obj obj;
	struct tarn_inode *inode; /* counted until the commit */
	pthread_rwlock_t lock;    /* bytes and all below */
	uint8_t *bytes;           /* zeros from length to room */
	uint32_t room, length;
	uint32_t charged;          /* what rec.space counts for it */
	bool replaced;             /* a later version of the slot has taken that off again */
	struct cache_data *cached; /* after the commit: owns bytes */
};

/* The object of a slot of kind SLOT_BLOCK. */
static inline struct dirty *dirty_of(struct slot_obj *obj)
{
	return (struct dirty *)obj;
}

/* Not in a slot yet, contents undefined; one reference. NULL: no memory. */
struct dirty *dirty_new(struct tarn_inode *inode, uint32_t room);
/* Into the slot of `key`, which is pinned: filled, of tx's txg. Charges its length. */
void dirty_put(struct dirty *d, struct tx *tx, const void *key, uint32_t klen);
uint32_t dirty_length(struct dirty *d);
/* The slot gets another content: what it was charged, which the caller takes off. */
uint32_t dirty_replace(struct dirty *d);

#endif
