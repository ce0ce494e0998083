// SPDX-License-Identifier: LGPL-3.0-or-later
#include <errno.h>
#include <stdlib.h>

#include "fs/entry.h"

#define ADD_MASK(is_dir) ((is_dir) ? ACE_APPEND_DATA : ACE_WRITE_DATA)

/* ---- entries ---- */

int entry_name_check(const char *name)
{
	size_t len = strnlen(name, TARN_NAME_MAX + 1);

	if (len > TARN_NAME_MAX)
		return -ENAMETOOLONG;
	return len == 0 || strchr(name, '/') ? -EINVAL : 0;
}

struct tarn_dataset *entry_child(struct tarn_inode *dir, const char *name)
{
	return dir->ino == ROOT_INO ? dataset_child(dir->ds, name) : NULL;
}

bool entry_is_child(struct tarn_inode *dir, const char *name)
{
	struct tarn_dataset *child = entry_child(dir, name);

	if (child)
		tarn_dataset_put(child);
	return child;
}

int entry_read(struct fs *fs, struct tarn_inode *dir, const char *name, struct entry *e)
{
	struct tree_miss miss;
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_name(key, dir->ino, KEY_ENTRY, name), len;
	int err;

	if (atomic_load(&dir->dead))
		return -ESTALE;
	do {
		err = fs_read(fs, key, klen, e, sizeof(*e), sizeof(*e), &len, &miss);
		err = fs_fetch(fs, &miss, err);
	} while (err == -EAGAIN);
	return err ? err : entry_validate(e, len);
}

int entry_recheck(struct fs *fs, struct tarn_inode *dir, const char *name,
		  const struct tarn_inode *inode, struct entry *e)
{
	int err = entry_read(fs, dir, name, e);

	if (err == -ENOENT)
		return inode ? -ERESTART : 0;
	if (err)
		return err;
	return inode && e->ino == inode->ino && e->gen == inode->gen ? 0 : -ERESTART;
}

int entry_find(struct fs *fs, struct tarn_inode *dir, const char *name, struct entry *e,
	       struct tarn_inode **out)
{
	struct entry last = {0};
	int err;

	*out = NULL;
	if (dir->type != TARN_DIR)
		return -ENOTDIR;
	for (;;) {
		alock_read(&dir->lock);
		err = entry_read(fs, dir, name, e);
		alock_unlock(&dir->lock);
		if (err)
			return err;
		err = inode_get(fs, e->ino, e->gen, out);
		if (err != -ESTALE)
			return err;
		/* Removed in between: then the name has gone or means another one. */
		if (!memcmp(&last, e, sizeof(last)))
			return -EIO;
		last = *e;
	}
}

int entry_pin(struct op *op, struct tarn_inode *dir, const char *name, uint64_t cookie)
{
	uint8_t key[KEY_ROOM];
	int err = op_pin(op, key, key_name(key, dir->ino, KEY_ENTRY, name));

	return err ? err : op_pin(op, key, key_u64(key, dir->ino, KEY_COOKIE, cookie));
}

void entry_put(struct op *op, struct tarn_inode *dir, const char *name, uint64_t cookie,
	       const struct tarn_inode *inode)
{
	struct {
		struct entry e;
		char name[TARN_NAME_MAX];
	} value = {{.ino = inode->ino, .gen = inode->gen, .cookie = cookie, .type = inode->type},
		   {0}};
	uint32_t len = (uint32_t)strlen(name);
	uint8_t key[KEY_ROOM];

	memcpy(value.name, name, len);
	op_put(op, key, key_name(key, dir->ino, KEY_ENTRY, name), &value, sizeof(value.e));
	op_put(op, key, key_u64(key, dir->ino, KEY_COOKIE, cookie), &value, sizeof(value.e) + len);
}

void entry_del(struct op *op, struct tarn_inode *dir, const char *name, uint64_t cookie)
{
	uint8_t key[KEY_ROOM];

	op_del(op, key, key_name(key, dir->ino, KEY_ENTRY, name));
	op_del(op, key, key_u64(key, dir->ino, KEY_COOKIE, cookie));
}

uint64_t cookie_next(const struct inode_record *dir)
{
	uint64_t cookie = dir->next_cookie;

	return cookie >= CHILD_COOKIE && cookie < COOKIE_HIGH ? COOKIE_HIGH : cookie;
}

/* ---- permission ---- */

int may(const struct tarn_cred *cred, struct tarn_inode *inode, uint32_t mask)
{
	struct tarn_acl *acl;
	int err;

	if (cred_super(cred))
		return 0;
	err = acl_load(inode, &acl);
	if (!err)
		err = acl_check(acl, &inode->rec, cred, mask);
	free(acl);
	return err;
}

int may_add(const struct tarn_cred *cred, struct tarn_inode *dir, bool is_dir)
{
	if (dir->rec.nlink == 0)
		return -ENOENT;
	return may(cred, dir, ADD_MASK(is_dir) | ACE_EXECUTE);
}

int may_remove(const struct tarn_cred *cred, struct tarn_inode *dir, struct tarn_inode *inode)
{
	struct tarn_acl *acl;
	int err;

	if (cred_super(cred))
		return 0;
	err = may(cred, dir, ACE_EXECUTE);
	if (!err)
		err = acl_load(inode, &acl);
	if (err)
		return err;
	err = acl ? acl_check(acl, &inode->rec, cred, ACE_DELETE) : -EACCES;
	free(acl);
	if (!err)
		return 0;
	err = may(cred, dir, ACE_DELETE_CHILD);
	if (!err && (dir->rec.mode & 01000) && cred->uid != dir->rec.uid &&
	    cred->uid != inode->rec.uid)
		err = -EPERM;
	return err;
}

/* ---- the end of a name ---- */

/* Whether this inode loses its last link with one name. */
static bool last_link(const struct tarn_inode *inode)
{
	return inode->type == TARN_DIR || inode->rec.nlink <= 1;
}

int drop_look(struct fs *fs, struct tarn_inode *inode, struct removal *r)
{
	return last_link(inode) ? removal_look(fs, inode, r) : 0;
}

unsigned drop_changes(const struct tarn_inode *inode, const struct removal *r)
{
	return last_link(inode) ? removal_changes(r) : 1;
}

int drop_pin(struct op *op, struct tarn_inode *inode, const struct removal *r)
{
	return last_link(inode) ? removal_pin(op, inode, r) : op_pin_inode(op, inode);
}

void drop_apply(struct op *op, struct tarn_inode *inode, const struct removal *r)
{
	struct inode_record *rec;

	if (last_link(inode)) {
		removal_apply(op, inode, r);
		return;
	}
	rec = op_dirty(op, inode);
	rec->nlink--;
	inode_touch(inode, rec, false);
}
