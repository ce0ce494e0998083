// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * One change of a dataset: a tx with all that it has pinned. For fs/ only.
 *
 * What it changes through op_*() goes to the intent log in op_end(); op.token is what to wait for.
 *
 *      struct op op;
 *      do {
 *              err = op_begin(&op, fs, TREE_RESERVE(n), TX_NORMAL);
 *              if (!err)
 *                      err = prepare(&op, ...);        reads, pins, checks
 *              if (!err)
 *                      apply(&op, ...);                cannot fail
 *              err = op_end(&op, err);
 *      } while (err == -EAGAIN);
 *
 * prepare() passes on -EAGAIN from the tree with op->miss filled; op_end() then fetches.
 */
#ifndef TARN_FS_OP_H
#define TARN_FS_OP_H

#include "fs/fs.h"
#include "fs/key.h"
#include "fs/redo.h"
#include "pool/pool.h"

#define OP_PINS 16
#define OP_INODES 4

struct op {
	struct fs *fs;
	struct tx tx;
	bool open; /* in the tx */
	unsigned npins;
	struct tree_pin pin[OP_PINS];
	struct tree_miss miss;
	struct redo redo; /* what was changed, for the log */
	struct tarn_inode *touched[OP_INODES];
	unsigned ntouched;
	uint64_t freed;           /* a number that goes, 0: none */
	struct tarn_commit token; /* after op_end(): of what was changed */
};

static inline struct tree *op_tree(struct op *op)
{
	return &op->fs->ds->tree;
}

/* tx_begin(). op_end() follows in any case. */
int op_begin(struct op *op, struct fs *fs, uint64_t bytes, enum tx_kind kind);
/* err is what went on so far. -EAGAIN: everything is left, what was missing is there, go again. */
int op_end(struct op *op, int err);

int op_pin(struct op *op, const void *key, uint32_t klen);
int op_pin_inode(struct op *op, struct tarn_inode *inode);

/* After op_end(): what to wait for, if something was changed. */
static inline void op_token(const struct op *op, struct tarn_commit *token)
{
	if (op->token.txg)
		*token = op->token;
}

/* inode_dirty(), for what the log is to know. */
struct inode_record *op_dirty(struct op *op, struct tarn_inode *inode);
/* Changes of pinned keys. */
void op_put(struct op *op, const void *key, uint32_t klen, const void *val, uint32_t vlen);
void op_del(struct op *op, const void *key, uint32_t klen);
/* The same for what the record says in other words (redo_purge(), redo_truncate()). */
void op_put_unlogged(struct op *op, const void *key, uint32_t klen, const void *val, uint32_t vlen);
void op_del_unlogged(struct op *op, const void *key, uint32_t klen);

/* tree_get() for SLOT_VALUE and SLOT_LARGE, at any time. -EIO if the length is out of bounds;
   -EBUSY for a record whose authority is in memory (versioned.h): its owner should have been found
   there. */
int fs_read(struct fs *fs, const void *key, uint32_t klen, void *buf, uint32_t min, uint32_t max,
	    uint32_t *len, struct tree_miss *miss);

/* Outside of a tx: fetches after -EAGAIN and says -EAGAIN if that succeeded. */
static inline int fs_fetch(struct fs *fs, struct tree_miss *miss, int err)
{
	if (err == -EAGAIN) {
		int failed = tree_fetch(&fs->ds->tree, miss);

		if (failed)
			return failed;
	}
	return err;
}

/* Enters the dataset of an inode whose fs is then valid until dataset_leave(). */
static inline int fs_enter(struct tarn_inode *inode, struct fs **fs)
{
	int err = dataset_enter(inode->ds);

	if (!err)
		*fs = fs_of(inode->ds);
	return err;
}

/* For changes: -EROFS if the dataset has readonly=on. */
static inline int fs_enter_write(struct tarn_inode *inode, struct fs **fs)
{
	int err = fs_enter(inode, fs);

	if (!err && (atomic_load(&inode->ds->props.readonly) || (*fs)->ds->pool->read_only)) {
		dataset_leave(inode->ds);
		err = -EROFS;
	}
	return err;
}

/* ---- between the modules ---- */

/* inode.c */
int inode_table_create(struct inode_table **out);
/* Makes all inodes dead and unfindable; the table goes with the last of them. */
void inode_table_drop(struct inode_table *table);
/* A new inode: number, memory and pins. *inode is NULL at first and kept over retries until
   inode_new() or, at the end, inode_new_cancel() (NULL allowed). */
int inode_new_prepare(struct op *op, struct tarn_inode **inode);
void inode_new_cancel(struct fs *fs, struct tarn_inode *inode);
/* Puts it into table and tree with this record, to which it adds the generation. */
void inode_new(struct op *op, struct tarn_inode *inode, const struct inode_record *rec);
/* At replay: with this number (inode_claim(), which pins too) and record as it is. */
int inode_claim(struct op *op, uint64_t ino, struct tarn_inode **inode);
void inode_restore(struct op *op, struct tarn_inode *inode, const struct inode_record *rec);
/* In the tx that removes its record and number: no longer findable. */
void inode_forget(struct tarn_inode *inode);
/* By number, each once; NULLs are skipped. */
#define INODE_LOCKS 4
void inodes_lock(struct tarn_inode *const inode[INODE_LOCKS]);
void inodes_unlock(struct tarn_inode *const inode[INODE_LOCKS]);
void disk_time_now(struct disk_time *out);

/* imap.c: which numbers are used. A number taken is used with imap_use() or given back. */
int imap_create(struct fs *fs, struct imap **out);
void imap_destroy(struct imap *imap);
int imap_take(struct op *op, uint64_t *ino);
void imap_give_back(struct fs *fs, uint64_t ino);
/* Loads the number's page and pins its key: before imap_use() and imap_free(). */
int imap_pin(struct op *op, uint64_t ino);
void imap_use(struct op *op, uint64_t ino);
void imap_free(struct op *op, uint64_t ino);
/* This one, at replay: -EEXIST if it is used. */
int imap_claim(struct op *op, uint64_t ino);
/* The first page of a new dataset. */
void imap_format(uint64_t page[64]);
#define IMAP_PAGE_BYTES 512

/* reap.c */
int reaper_create(struct fs *fs, struct reaper **out);
/* Ends truncations that a crash cut off; starts the removal of unlinked inodes. */
int reaper_recover(struct fs *fs);
void reaper_destroy(struct reaper *reaper);
/* Replay is over: what has become an orphan may go. */
void reaper_resume(struct fs *fs);
/* At replay: an inode with all its keys, in bounded steps. */
int inode_purge(struct fs *fs, struct tarn_inode *inode);

/* The last name of an inode goes; lock held for writing. At once with it, or later. */
#define REMOVAL_KEYS 4
struct removal {
	bool now;
	unsigned n; /* keys other than the record */
	uint32_t klen[REMOVAL_KEYS];
	uint8_t key[REMOVAL_KEYS][KEY_ROOM];
};
/* Blocking, before the tx. */
int removal_look(struct fs *fs, struct tarn_inode *inode, struct removal *r);
int removal_pin(struct op *op, struct tarn_inode *inode, const struct removal *r);
void removal_apply(struct op *op, struct tarn_inode *inode, const struct removal *r);
/* Keys that it changes, at most. */
static inline unsigned removal_changes(const struct removal *r)
{
	return 2 + (r->now ? r->n : 0);
}

/* An orphan may have lost its last open; no locks held, no tx. Dataset entered. */
void reap_kick(struct tarn_inode *inode);

/* attr.c. Lock held; blocking: the ACL that counts, and the one that is stored (they differ while
   acltype=off). NULL: none; else freed by the caller. */
int acl_load(struct tarn_inode *inode, struct tarn_acl **out);
int acl_stored(struct tarn_inode *inode, struct tarn_acl **out);
/* An ACL as stored, in the tx. */
int acl_pin(struct op *op, uint64_t ino);
void acl_put(struct op *op, uint64_t ino, struct inode_record *rec, const struct tarn_acl *acl);
/* Whether cred may make these changes of an inode with this record and ACL. */
int attr_check(const struct tarn_cred *cred, const struct inode_record *rec,
	       const struct tarn_acl *acl, const struct tarn_setattr *set);
/* Makes them, but for size and ACL. */
void attr_apply(struct inode_record *rec, const struct tarn_cred *cred,
		const struct tarn_setattr *set);
/* What setattr changes beside the size, in the same tx. */
struct attr_change {
	const struct tarn_cred *cred;
	const struct tarn_setattr *set;
	bool set_acl;
	struct tarn_acl *acl; /* with set_acl; NULL: none */
};
#define ATTR_RESERVE (TREE_RESERVE(2) + (1u << 16))
int attr_pin(struct op *op, struct tarn_inode *inode, const struct attr_change *c);
/* After the size; the inode is op_dirty(). */
void attr_make(struct op *op, struct tarn_inode *inode, const struct attr_change *c);
/* range.c: as range_truncate(), with the rest of a setattr. */
int range_resize(struct tarn_inode *inode, uint64_t size, const struct attr_change *rest,
		 struct tarn_commit *token);
/* tarn_setattr() under the inode's lock, held for writing. */
int attr_set(struct fs *fs, const struct tarn_cred *cred, struct tarn_inode *inode,
	     const struct tarn_setattr *set, struct tarn_commit *token);
/* A copy of the ACL to be stored, valid and as it makes sense for the type. */
int acl_for(const struct tarn_acl *acl, bool is_dir, struct tarn_acl **out);
struct disk_time disk_time_of(const struct timespec *ts);
/* The mode after a write of others than the superuser. */
uint32_t without_suid(uint32_t mode);

#endif
