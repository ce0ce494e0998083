// SPDX-License-Identifier: LGPL-3.0-or-later
/* Names of inodes that exist: lookup, readlink, link, unlink. */
#include <errno.h>
#include <stdlib.h>

#include "fs/entry.h"

/* ---- lookup ---- */

static int lookup_parent(struct fs *fs, struct tarn_inode *dir, struct tarn_inode **out)
{
	struct tarn_dataset *above;
	uint64_t parent, now;
	int err;

	if (dir->ino == ROOT_INO) {
		above = dataset_parent(dir->ds);
		if (!above) {
			*out = tarn_inode_ref(dir);
			return 0;
		}
		err = tarn_root(above, out);
		tarn_dataset_put(above);
		return err;
	}
	for (;;) {
		alock_read(&dir->lock);
		parent = dir->rec.parent;
		err = is_removed(dir) ? -ESTALE : 0;
		alock_unlock(&dir->lock);
		if (err)
			return err;
		err = inode_get(fs, parent, 0, out);
		if (err && err != -ESTALE)
			return err;
		/* The number means the parent only while dir is there. */
		alock_read(&dir->lock);
		now = is_removed(dir) ? 0 : dir->rec.parent;
		alock_unlock(&dir->lock);
		if (now == parent)
			return err == -ESTALE ? -EIO : 0;
		if (!err)
			tarn_inode_put(*out);
		*out = NULL;
	}
}

int entry_lookup(struct fs *fs, struct tarn_inode *dir, const char *name, struct tarn_inode **out)
{
	struct tarn_dataset *child;
	struct entry e;
	int err;

	if (dir->type != TARN_DIR)
		return -ENOTDIR;
	if (is_dot(name)) {
		*out = tarn_inode_ref(dir);
		return 0;
	}
	if (is_dotdot(name))
		return lookup_parent(fs, dir, out);
	child = entry_child(dir, name);
	if (!child)
		return entry_find(fs, dir, name, &e, out);
	err = tarn_root(child, out);
	tarn_dataset_put(child);
	return err;
}

int tarn_lookup(const struct tarn_cred *cred, struct tarn_inode *dir, const char *name,
		struct tarn_inode **out)
{
	struct fs *fs;
	int err = entry_name_check(name);

	(void)cred; /* the caller has checked the right to search */
	*out = NULL;
	if (!err)
		err = fs_enter(dir, &fs);
	if (err)
		return err;
	err = entry_lookup(fs, dir, name, out);
	dataset_leave(dir->ds);
	return err;
}

/* ---- readlink ---- */

int tarn_readlink(struct tarn_inode *inode, char **out)
{
	struct tree_miss miss;
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_make(key, inode->ino, KEY_TARGET), len;
	char *target;
	struct fs *fs;
	int err;

	*out = NULL;
	if (inode->type != TARN_LNK)
		return -EINVAL;
	target = malloc(TARN_SYMLINK_MAX + 1);
	if (!target)
		return -ENOMEM;
	err = fs_enter(inode, &fs);
	if (err) {
		free(target);
		return err;
	}
	alock_read(&inode->lock);
	do {
		err = atomic_load(&inode->dead)
			  ? -ESTALE
			  : fs_read(fs, key, klen, target, 1, TARN_SYMLINK_MAX, &len, &miss);
		err = fs_fetch(fs, &miss, err);
	} while (err == -EAGAIN);
	alock_unlock(&inode->lock);
	if (err == -ENOENT)
		err = -EIO;
	if (err) {
		free(target);
	} else {
		target[len] = 0;
		*out = target;
		inode_accessed(inode);
	}
	dataset_leave(inode->ds);
	return err;
}

/* ---- link ---- */

static int link_check(struct fs *fs, const struct tarn_cred *cred, struct tarn_inode *inode,
		      struct tarn_inode *dir, const char *name)
{
	struct entry e;
	int err;

	if (atomic_load(&inode->dead))
		return -ESTALE;
	if (inode->rec.nlink == 0)
		return -ENOENT;
	err = entry_read(fs, dir, name, &e);
	if (err != -ENOENT)
		return err ? err : -EEXIST;
	if (inode->rec.nlink >= NLINK_MAX)
		return -EMLINK;
	return may_add(cred, dir, false);
}

static void link_apply(struct op *op, struct tarn_inode *inode, struct tarn_inode *dir,
		       const char *name)
{
	struct inode_record *drec = op_dirty(op, dir);
	struct inode_record *rec = op_dirty(op, inode);
	uint64_t cookie = cookie_next(drec);

	entry_put(op, dir, name, cookie, inode);
	drec->next_cookie = cookie + 1;
	drec->entries++;
	rec->nlink++;
	inode_touch(dir, drec, true);
	inode_touch(inode, rec, false);
}

static int link_locked(struct fs *fs, const struct tarn_cred *cred, struct tarn_inode *inode,
		       struct tarn_inode *dir, const char *name, struct tarn_commit *token)
{
	struct op op;
	int err = link_check(fs, cred, inode, dir, name);

	if (err)
		return err;
	do {
		err = op_begin(&op, fs, TREE_RESERVE(4), TX_NORMAL);
		if (!err)
			err = op_pin_inode(&op, dir);
		if (!err)
			err = op_pin_inode(&op, inode);
		if (!err)
			err = entry_pin(&op, dir, name, cookie_next(&dir->rec));
		if (!err)
			link_apply(&op, inode, dir, name);
		err = op_end(&op, err);
		op_token(&op, token);
	} while (err == -EAGAIN);
	return err;
}

int tarn_link(const struct tarn_cred *cred, struct tarn_inode *inode, struct tarn_inode *dir,
	      const char *name, struct tarn_attr *post, struct tarn_attr *dir_post,
	      struct tarn_commit *token)
{
	struct tarn_inode *const locks[INODE_LOCKS] = {dir, inode};
	struct fs *fs;
	int err = entry_name_check(name);

	*token = (struct tarn_commit){0};
	if (err)
		return err;
	if (dir->ds != inode->ds)
		return -EXDEV;
	if (dir->type != TARN_DIR)
		return -ENOTDIR;
	if (inode->type == TARN_DIR)
		return -EPERM;
	err = fs_enter_write(dir, &fs);
	if (err)
		return err;
	if (is_dot(name) || is_dotdot(name) || entry_is_child(dir, name)) {
		err = -EEXIST;
	} else {
		inodes_lock(locks);
		err = link_locked(fs, cred, inode, dir, name, token);
		if (!err && post)
			inode_attr(inode, post);
		if (!err && dir_post)
			inode_attr(dir, dir_post);
		inodes_unlock(locks);
	}
	dataset_leave(dir->ds);
	return err;
}

/* ---- unlink ---- */

static int unlink_check(struct fs *fs, const struct tarn_cred *cred, struct tarn_inode *dir,
			const char *name, struct tarn_inode *inode, int is_dir, struct entry *e)
{
	int err = entry_recheck(fs, dir, name, inode, e);

	if (!err)
		err = may_remove(cred, dir, inode);
	if (err)
		return err;
	if (is_dir == 0 && inode->type == TARN_DIR)
		return -EISDIR;
	if (is_dir == 1 && inode->type != TARN_DIR)
		return -ENOTDIR;
	return inode->type == TARN_DIR && inode->rec.entries ? -ENOTEMPTY : 0;
}

static void unlink_apply(struct op *op, struct tarn_inode *dir, const char *name,
			 struct tarn_inode *inode, uint64_t cookie, const struct removal *r)
{
	struct inode_record *drec = op_dirty(op, dir);

	entry_del(op, dir, name, cookie);
	drec->entries--;
	if (inode->type == TARN_DIR)
		drec->nlink--;
	inode_touch(dir, drec, true);
	drop_apply(op, inode, r);
}

static int unlink_locked(struct fs *fs, const struct tarn_cred *cred, struct tarn_inode *dir,
			 const char *name, struct tarn_inode *inode, int is_dir,
			 struct tarn_commit *token)
{
	struct removal removal;
	struct entry e;
	struct op op;
	int err = unlink_check(fs, cred, dir, name, inode, is_dir, &e);

	if (!err)
		err = drop_look(fs, inode, &removal);
	if (err)
		return err;
	do {
		err =
		    op_begin(&op, fs, TREE_RESERVE(3 + drop_changes(inode, &removal)), TX_FREEING);
		if (!err)
			err = op_pin_inode(&op, dir);
		if (!err)
			err = entry_pin(&op, dir, name, e.cookie);
		if (!err)
			err = drop_pin(&op, inode, &removal);
		if (!err)
			unlink_apply(&op, dir, name, inode, e.cookie, &removal);
		err = op_end(&op, err);
		op_token(&op, token);
	} while (err == -EAGAIN);
	return err;
}

int tarn_unlink(const struct tarn_cred *cred, struct tarn_inode *dir, const char *name, int is_dir,
		struct tarn_attr *dir_post, struct tarn_commit *token)
{
	struct fs *fs;
	int err = entry_name_check(name);

	*token = (struct tarn_commit){0};
	if (err)
		return err;
	if (is_dot(name))
		return -EINVAL;
	if (is_dotdot(name))
		return -ENOTEMPTY;
	err = fs_enter_write(dir, &fs);
	if (err)
		return err;
	do {
		struct tarn_inode *locks[INODE_LOCKS] = {dir};
		struct entry e;

		if (entry_is_child(dir, name)) {
			err = -ENOTEMPTY;
			break;
		}
		err = entry_find(fs, dir, name, &e, &locks[1]);
		if (err)
			break;
		inodes_lock(locks);
		err = unlink_locked(fs, cred, dir, name, locks[1], is_dir, token);
		if (!err && dir_post)
			inode_attr(dir, dir_post);
		inodes_unlock(locks);
		if (!err && atomic_load(&locks[1]->orphan))
			reap_kick(locks[1]);
		tarn_inode_put(locks[1]);
	} while (err == -ERESTART);
	dataset_leave(dir->ds);
	return err;
}
