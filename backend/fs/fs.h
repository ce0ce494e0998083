// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * fs/: files of one dataset. This header is what its own modules share.
 *
 *   key.h      keys of the dataset tree
 *   record.h   the inode record, on disk and in memory
 *   fs.c       a dataset's fs: made, formatted, dropped
 *   op.h       the pattern of a change (below) as functions
 *   versioned.h  records with a version per unwritten txg
 *   inode.c    live inodes: table, references, records, getattr, open counts
 *   imap.c     which inode numbers are in use
 *   entry.c    directory entries: found, changed; who may
 *   name.c     lookup, readlink, link, unlink; create.c, rename.c the rest
 *   dir.c      listings
 *   attr.c     setattr, access, times, change counter
 *   acl.c      NFSv4 ACLs: evaluate, inherit, keep with the mode
 *   xattr.c    extended attributes
 *   data.c     records: read, write, dirty records
 *   range.c    truncate, punch, allocate, seek
 *   redo.c     records for the intent log; replay.c what they do after a crash
 *   reap.c     unlinked inodes: the list of orphans and their removal in bounded steps
 *
 * Pattern of every change:
 *      lock the inodes concerned (by number, lowest first)
 *   again:
 *      tx_begin(reservation)
 *      read what is needed, pin each key that will change: on -EAGAIN tx_end, tree_fetch, again
 *      check everything (permission, existence, limits): on failure tx_end, unlock, -errno
 *      change: cannot fail
 *      tx_end, unlock; token = tx.txg
 * A thread holds inode locks over a tree_fetch() of cold metadata of those inodes, never over data
 * I/O.
 */
#ifndef TARN_FS_FS_H
#define TARN_FS_FS_H

#include <tarn/fs.h>

#include "dataset/dataset.h"
#include "fs/acl.h"
#include "fs/record.h"
#include "fs/versioned.h"
#include "util/alock.h"

#define ROOT_INO 2u /* of each dataset */
#define FIRST_INO 3u
#define CHILD_COOKIE 0x40000000u /* readdir cookie of a child dataset: this + its id */

struct inode_table; /* inode.c: hash of live inodes, sharded */
struct imap;        /* imap.c */
struct reaper;      /* reap.c */

struct fs {
	struct tarn_dataset *ds;
	struct inode_table *inodes;
	struct imap *imap;
	struct reaper *reaper;
	pthread_mutex_t rename_lock; /* directories moving to another parent; before inode locks */
	/* import_counter << 40: no change number or generation below it is given out. */
	uint64_t floor;
	_Atomic(uint64_t) next_gen;
	atomic_bool ready;
};

/* Of a dataset between dataset_enter() and dataset_leave() that has given out an inode. */
static inline struct fs *fs_of(struct tarn_dataset *ds)
{
	return atomic_load_explicit(&ds->fs, memory_order_acquire);
}

/* The dataset's fs, made on first use (reads nothing but the root inode; starts the reaper if
   orphans exist and the pool is writable). */
int fs_get(struct tarn_dataset *ds, struct fs **out);
/* The dataset is no longer live and nobody is inside: drops all inodes (references of others stay
 * valid, dead). */
void fs_drop(struct tarn_dataset *ds);
/* A new dataset's first content: root directory (inode 2, mode 0755, root:root), inode map. Durable
   when it returns; harmless when done before. */
int fs_format(struct tarn_dataset *ds);
/* What appears in the root directory has changed (children): its times and change attribute do
   too, also if the dataset has readonly=on. */
int fs_root_changed(struct tarn_dataset *ds, struct tarn_commit *token);

/* Data that has changed and is not in the log: what a record of the inode has to bring along. Nothing
   if its last txg is durable. */
#define UNLOGGED_RANGES 8
struct unlogged_range {
	uint64_t from, to;
};
struct unlogged {
	uint64_t txg; /* of the last change */
	unsigned n;
	bool many; /* there are more ranges than these */
	struct unlogged_range range[UNLOGGED_RANGES];
};

/*
 * A live inode. One object per (dataset, ino) at a time.
 *
 * rec is the authority for the inode's record. Changing it: under lock held for writing
 * and in a tx, after inode_pin() and inode_dirty(). rec.space has two writers, the
 * operations and the sync: read it through inode_attr(), change it through
 * inode_space_add() and inode_space_settle().
 */
struct tarn_inode {
	struct tarn_dataset *ds;   /* counted */
	struct inode_table *table; /* counted */
	uint64_t ino, gen;
	uint8_t type;         /* enum tarn_type */
	bool hashed, loading; /* the table's */
	int load_error;       /* the table's */
	atomic_uint refs;     /* 0: only in the table's list of idle inodes */
	atomic_uint opens;
	_Atomic(bool) dead;   /* removed for good, or dataset gone: -ESTALE / -ENXIO */
	_Atomic(bool) orphan; /* nlink is 0 */
	/* Record, entries, xattrs, which blocks make up the data (data.h). Threads that may wait
	   use alock_read(), alock_write(); workers must not: a holder may be waiting for a commit
	   that needs them. */
	struct alock lock;
	struct inode_record rec;
	struct versioned versioned; /* of rec */
	struct unlogged unlogged;   /* lock held for writing */
	struct tarn_inode *hash_next, *idle_prev, *idle_next;
	struct tarn_inode *reap_next; /* reap.c, with reap_queued */
	bool reap_queued;
};

/* Pins the record's key: before changes, in the tx, lock held for writing. -EAGAIN with *miss,
   -ENOMEM. */
int inode_pin(struct tx *tx, struct tarn_inode *inode, struct tree_pin *pin,
	      struct tree_miss *miss);
/* Prepares for changes of the record in tx's txg (lock held for writing, inode_pin() done) and
   returns it. Cannot fail. */
struct inode_record *inode_dirty(struct tx *tx, struct tarn_inode *inode);
/* Common ends of a change: ctime now (and mtime), next change number. */
void inode_touch(struct tarn_inode *inode, struct inode_record *rec, bool mtime);
void inode_attr(const struct tarn_inode *inode, struct tarn_attr *out); /* lock held */

/* Finds or loads; blocking; also an orphan. gen 0: any. -ESTALE. */
int inode_get(struct fs *fs, uint64_t ino, uint64_t gen, struct tarn_inode **out);
/* rec.space by operations: lock held for writing, after inode_dirty(). */
void inode_space_add(struct tarn_inode *inode, int64_t bytes);
/* rec.space by the sync: a block written in txg took that much more (or less) than counted. */
void inode_space_settle(struct tarn_inode *inode, uint64_t txg, int64_t bytes);
/* After a read: updates atime if the dataset's property says so and it is possible without
   waiting; no locks held, no tx. attr.c. */
void inode_accessed(struct tarn_inode *inode);

/* Frees all records at and beyond `from` in bounded steps of their own txs (range.c); the caller
   holds the inode's lock for writing or is the reaper. */
int range_free(struct tarn_inode *inode, uint64_t from, uint64_t to);
/* setattr's size change, whole: lock held for writing. A truncation of several txs puts the new
   size into KEY_ORPHAN while it lasts, so that the next import ends it by range_free(inode, size,
   UINT64_MAX), which takes the entry away; that of an inode with nlink 0 stays as it is. */
int range_truncate(struct tarn_inode *inode, uint64_t size, struct tarn_commit *token);

#endif
