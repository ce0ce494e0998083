// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * fs/: files of one dataset. This header is what its own modules share.
 *
 *   key.h      keys of the dataset tree
 *   record.h   the inode record, on disk and in memory
 *   inode.c    live inodes: table, references, versions, getattr, open counts
 *   imap.c     which inode numbers are in use
 *   name.c     directories: lookup, create, link, unlink, rename, readdir
 *   attr.c     setattr, access, times, change counter
 *   acl.c      NFSv4 ACLs: evaluate, inherit, keep with the mode
 *   xattr.c    extended attributes
 *   data.c     records: read, write, dirty records
 *   range.c    truncate, punch, allocate, seek
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
#include "fs/record.h"

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
	uint64_t
	    floor; /* import_counter << 40: no change counter or generation below it is given out */
	_Atomic(uint64_t) next_gen;
};

/* The dataset's fs, made on first use (reads nothing but the root inode; starts the reaper if
   orphans exist and the pool is writable). */
int fs_get(struct tarn_dataset *ds, struct fs **out);
/* The dataset is no longer live and nobody is inside: drops all inodes (references of others stay
 * valid, dead). */
void fs_drop(struct tarn_dataset *ds);
/* A new dataset's first content: root directory (inode 2, mode 0755, root:root), inode map. In a tx
 * of its own. */
int fs_format(struct tarn_dataset *ds);

/*
 * A live inode. One object per (dataset, ino) at a time.
 *
 * rec is the authority for the inode's record. Changing it: under lock held for writing and
 * in a tx, after inode_dirty(), which makes cur a version of that txg.
 */
struct inode_version {
	struct slot_obj obj;      /* in the leaf's slot until written */
	struct tarn_inode *inode; /* counted */
	struct inode_record rec;
};

struct tarn_inode {
	struct tarn_dataset *ds; /* counted */
	uint64_t ino, gen;
	uint8_t type;     /* enum tarn_type */
	atomic_uint refs; /* 0: only in the table's list of idle inodes */
	atomic_uint opens;
	_Atomic(bool) dead;         /* removed for good, or dataset gone: -ESTALE / -ENXIO */
	pthread_rwlock_t lock;      /* record, entries, xattrs; data: see data.c */
	pthread_mutex_t space_lock; /* rec.space of cur and of the frozen version; innermost */
	struct inode_version *cur;  /* guarded by lock */
	struct file_data *data;     /* data.c: range locks, counts; NULL until first I/O */
	struct tarn_inode *hash_next, *idle_prev, *idle_next;
};

/* Pins the record's key: before changes, in the tx. -EAGAIN with *miss. */
int inode_pin(struct tx *tx, struct tarn_inode *inode, struct tree_pin *pin,
	      struct tree_miss *miss);
/* Makes inode->cur a version of tx's txg (lock held for writing, record pinned) and returns its
 * record. */
struct inode_record *inode_dirty(struct tx *tx, struct tarn_inode *inode);
/* Common ends of a change: ctime now (and mtime), next change number. */
void inode_touch(struct tarn_inode *inode, struct inode_record *rec, bool mtime);
void inode_attr(const struct tarn_inode *inode, struct tarn_attr *out); /* lock held */

/* Finds or loads; blocking. gen 0: any. -ESTALE. */
int inode_get(struct fs *fs, uint64_t ino, uint64_t gen, struct tarn_inode **out);
/* A new inode in the tx: number from imap, record pinned by the caller via inode_new_prepare().
   Returned locked for writing, referenced, findable only once its entry is in place. */
int inode_new_prepare(struct fs *fs, struct tx *tx, uint64_t *ino, struct tree_pin *pins,
		      uint32_t *npins, struct tree_miss *miss);
void inode_new_cancel(struct fs *fs, uint64_t ino);
int inode_new(struct fs *fs, struct tx *tx, uint64_t ino, const struct inode_record *rec,
	      struct tarn_inode **out);

/* nlink has reached 0 (lock held for writing, in the tx): to the list of orphans; removed once
 * nobody has it open. */
int reap_pin(struct tx *tx, struct tarn_inode *inode, struct tree_pin *pin, struct tree_miss *miss);
void reap_add(struct tx *tx, struct tarn_inode *inode);
/* The last close of an inode with nlink 0. */
void reap_kick(struct fs *fs);

/* Frees all records at and beyond `from` in bounded steps of their own txs (range.c); the caller
   holds the inode's lock for writing or is the reaper. */
int range_free(struct tarn_inode *inode, uint64_t from, uint64_t to);
/* setattr's size change, whole: lock held for writing. */
int range_truncate(struct tarn_inode *inode, uint64_t size, struct tarn_commit *token);

/* acl.c, pure: */
int acl_check(const struct tarn_acl *acl, const struct inode_record *rec,
	      const struct tarn_cred *cred, uint32_t mask);
struct tarn_acl *acl_from_mode(uint32_t mode, bool is_dir);
uint32_t acl_to_mode(const struct tarn_acl *acl, uint32_t mode);
struct tarn_acl *acl_chmod(const struct tarn_acl *acl, uint32_t mode, bool is_dir);
struct tarn_acl *acl_inherit(const struct tarn_acl *parent, bool is_dir, uint32_t mode);
/* The inode's own ACL, NULL if it has none; -EAGAIN. */
int acl_load(struct tarn_inode *inode, struct tarn_acl **out, struct tree_miss *miss);

#endif
