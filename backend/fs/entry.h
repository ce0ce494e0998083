// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Directory entries, for what changes, finds and lists names (name.c, create.c, rename.c, dir.c).
 * A name is two keys, by name and by cookie.
 *
 * A change looks its inodes up without a lock, locks them by number, and starts again if the names
 * have come to mean something else (-ERESTART, which never leaves these files). Under the locks
 * all checks are made before the tx.
 */
#ifndef TARN_FS_ENTRY_H
#define TARN_FS_ENTRY_H

#include "fs/op.h"

#define NLINK_MAX INT32_MAX
#define COOKIE_HIGH 0x80000000 /* cookies go on here, beyond those of child datasets */

/* 1 to 255 bytes, no '/'. */
int entry_name_check(const char *name);

static inline bool is_dot(const char *name)
{
	return !strcmp(name, ".");
}

static inline bool is_dotdot(const char *name)
{
	return !strcmp(name, "..");
}

/* Lock held. A directory like that has no parent. */
static inline bool is_removed(const struct tarn_inode *inode)
{
	return atomic_load(&inode->dead) || inode->rec.nlink == 0;
}

/* A child dataset covers an entry of its name. Referenced. */
struct tarn_dataset *entry_child(struct tarn_inode *dir, const char *name);
bool entry_is_child(struct tarn_inode *dir, const char *name);

/* Lock held; blocking. */
int entry_read(struct fs *fs, struct tarn_inode *dir, const char *name, struct entry *e);
/* Under the locks: whether the name still means this inode (NULL: nothing). */
int entry_recheck(struct fs *fs, struct tarn_inode *dir, const char *name,
		  const struct tarn_inode *inode, struct entry *e);
/* No locks held; blocking: the entry and its inode, referenced. */
int entry_find(struct fs *fs, struct tarn_inode *dir, const char *name, struct entry *e,
	       struct tarn_inode **out);
/* The same for any name: also of a child dataset, "." and "..". */
int entry_lookup(struct fs *fs, struct tarn_inode *dir, const char *name, struct tarn_inode **out);

/* In the tx. */
int entry_pin(struct op *op, struct tarn_inode *dir, const char *name, uint64_t cookie);
void entry_put(struct op *op, struct tarn_inode *dir, const char *name, uint64_t cookie,
	       const struct tarn_inode *inode);
void entry_del(struct op *op, struct tarn_inode *dir, const char *name, uint64_t cookie);
/* Of the directory's next new entry. */
uint64_t cookie_next(const struct inode_record *dir);

/* Permission; lock held, blocking: an inode's ACL matters to all but the superuser. */
int may(const struct tarn_cred *cred, struct tarn_inode *inode, uint32_t mask);
/* A name may come into dir. */
int may_add(const struct tarn_cred *cred, struct tarn_inode *dir, bool is_dir);
/* A name of the inode may go from dir: the inode's own ACL can allow it, else dir decides. */
int may_remove(const struct tarn_cred *cred, struct tarn_inode *dir, struct tarn_inode *inode);

/* An inode loses a name, perhaps the last one; lock held for writing. As removal_*() in op.h. */
int drop_look(struct fs *fs, struct tarn_inode *inode, struct removal *r);
unsigned drop_changes(const struct tarn_inode *inode, const struct removal *r);
int drop_pin(struct op *op, struct tarn_inode *inode, const struct removal *r);
void drop_apply(struct op *op, struct tarn_inode *inode, const struct removal *r);

#endif
