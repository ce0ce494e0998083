// SPDX-License-Identifier: LGPL-3.0-or-later
#include <errno.h>
#include <stdlib.h>

#include "fs/op.h"

static int xattr_key(struct tarn_inode *inode, const char *name, uint8_t key[KEY_ROOM],
		     uint32_t *klen)
{
	size_t len = strnlen(name, TARN_NAME_MAX + 1);

	if (!atomic_load(&inode->ds->props.xattr))
		return -EOPNOTSUPP;
	if (len == 0)
		return -EINVAL;
	if (len > TARN_NAME_MAX)
		return -ENAMETOOLONG;
	*klen = key_name(key, inode->ino, KEY_XATTR, name);
	return 0;
}

/* Lock held; blocking. The value's length, and its first *len bytes. */
static int xattr_read(struct fs *fs, const uint8_t *key, uint32_t klen, void *value, uint32_t room,
		      uint32_t *len)
{
	struct tree_miss miss;
	struct tree_val v;
	int err;

	do {
		err = tree_get(&fs->ds->tree, key, klen, value, room, &v, &miss);
		err = fs_fetch(fs, &miss, err);
	} while (err == -EAGAIN);
	if (err)
		return err == -ENOENT ? -ENODATA : err;
	if (v.obj || v.kind == SLOT_BLOCK || v.len > TARN_XATTR_MAX) {
		tree_val_put(&v);
		return -EIO;
	}
	*len = v.len;
	return 0;
}

int tarn_xattr_get(struct tarn_inode *inode, const char *name, void *value, size_t *len)
{
	uint32_t room = *len > TARN_XATTR_MAX ? TARN_XATTR_MAX : (uint32_t)*len;
	uint8_t key[KEY_ROOM];
	uint32_t klen, have;
	struct fs *fs;
	int err = xattr_key(inode, name, key, &klen);

	if (!err)
		err = fs_enter(inode, &fs);
	if (err)
		return err;
	alock_read(&inode->lock);
	err = atomic_load(&inode->dead) ? -ESTALE : xattr_read(fs, key, klen, value, room, &have);
	alock_unlock(&inode->lock);
	dataset_leave(inode->ds);
	if (err)
		return err;
	*len = have;
	return room && have > room ? -ERANGE : 0;
}

/* Lock held for writing; blocking: whether the change may be made, and whether it is one. */
static int xattr_check(struct fs *fs, const struct tarn_cred *cred, struct tarn_inode *inode,
		       const uint8_t *key, uint32_t klen, enum tarn_xattr_how how)
{
	struct tarn_acl *acl = NULL;
	uint32_t len;
	int err = atomic_load(&inode->dead) ? -ESTALE : acl_load(inode, &acl);

	if (!err)
		err = acl_check(acl, &inode->rec, cred, ACE_WRITE_NAMED_ATTRS);
	free(acl);
	if (err || how == TARN_XATTR_ANY)
		return err;
	err = xattr_read(fs, key, klen, NULL, 0, &len);
	if (how == TARN_XATTR_REPLACE)
		return err;
	return err == -ENODATA ? 0 : err ? err : -EEXIST;
}

/* value NULL: removes it. */
static int xattr_change(const struct tarn_cred *cred, struct tarn_inode *inode, const char *name,
			const void *value, uint32_t len, enum tarn_xattr_how how,
			struct tarn_commit *token)
{
	uint64_t bytes = TREE_RESERVE(2) + (value ? TARN_XATTR_MAX : 0);
	uint8_t key[KEY_ROOM];
	uint32_t klen;
	struct fs *fs;
	struct op op;
	int err = xattr_key(inode, name, key, &klen);

	*token = (struct tarn_commit){0};
	if (!err)
		err = fs_enter_write(inode, &fs);
	if (err)
		return err;
	alock_write(&inode->lock);
	err = xattr_check(fs, cred, inode, key, klen, how);
	if (!err)
		do {
			err = op_begin(&op, fs, bytes, value ? TX_NORMAL : TX_FREEING);
			if (!err)
				err = op_pin_inode(&op, inode);
			if (!err)
				err = op_pin(&op, key, klen);
			if (!err) {
				inode_touch(inode, op_dirty(&op, inode), false);
				if (value)
					op_put(&op, key, klen, value, len);
				else
					op_del(&op, key, klen);
			}
			err = op_end(&op, err);
			op_token(&op, token);
		} while (err == -EAGAIN);
	alock_unlock(&inode->lock);
	dataset_leave(inode->ds);
	return err;
}

int tarn_xattr_set(const struct tarn_cred *cred, struct tarn_inode *inode, const char *name,
		   const void *value, size_t len, enum tarn_xattr_how how,
		   struct tarn_commit *token)
{
	*token = (struct tarn_commit){0};
	if (len > TARN_XATTR_MAX)
		return -E2BIG;
	return xattr_change(cred, inode, name, len ? value : "", (uint32_t)len, how, token);
}

int tarn_xattr_remove(const struct tarn_cred *cred, struct tarn_inode *inode, const char *name,
		      struct tarn_commit *token)
{
	return xattr_change(cred, inode, name, NULL, 0, TARN_XATTR_REPLACE, token);
}

/* The name after key in *key; -ENOENT at the end. */
static int xattr_next(struct fs *fs, struct tarn_inode *inode, uint8_t key[TREE_KEY_MAX],
		      uint32_t *klen, char name[TARN_NAME_MAX + 1])
{
	uint8_t from[TREE_KEY_MAX], end[KEY_ROOM];
	uint32_t flen = *klen, elen = key_make(end, inode->ino, KEY_XATTR + 1);
	struct tree_miss miss;
	struct tree_val v;
	int err;

	memcpy(from, key, flen);
	alock_read(&inode->lock);
	do {
		err = atomic_load(&inode->dead) ? -ESTALE
						: tree_next(&fs->ds->tree, from, flen, true, end,
							    elen, key, klen, NULL, 0, &v, &miss);
		err = fs_fetch(fs, &miss, err);
	} while (err == -EAGAIN);
	alock_unlock(&inode->lock);
	if (err)
		return err;
	tree_val_put(&v);
	if (*klen <= 9 || *klen > 9 + TARN_NAME_MAX)
		return -EIO;
	memcpy(name, key + 9, *klen - 9);
	name[*klen - 9] = 0;
	return 0;
}

int tarn_xattr_list(struct tarn_inode *inode, const char *after,
		    bool (*fn)(void *arg, const char *name), void *arg, bool *eof)
{
	char name[TARN_NAME_MAX + 1];
	uint8_t key[TREE_KEY_MAX];
	uint32_t klen = key_make(key, inode->ino, KEY_XATTR);
	struct fs *fs;
	int err = 0;

	*eof = true;
	if (!atomic_load(&inode->ds->props.xattr))
		return 0;
	if (after)
		err = xattr_key(inode, after, key, &klen);
	if (!err)
		err = fs_enter(inode, &fs);
	if (err)
		return err;
	while (!(err = xattr_next(fs, inode, key, &klen, name)))
		if (!fn(arg, name)) {
			*eof = false;
			break;
		}
	dataset_leave(inode->ds);
	return err == -ENOENT ? 0 : err;
}
