// SPDX-License-Identifier: LGPL-3.0-or-later
#include <errno.h>
#include <stdlib.h>

#include "fs/op.h"

#define SUID 04000u
#define SGID 02000u
#define RELATIME_SECONDS (24 * 3600)

/* ---- ACLs of inodes ---- */

int acl_stored(struct tarn_inode *inode, struct tarn_acl **out)
{
	struct fs *fs = fs_of(inode->ds);
	struct tarn_acl *acl;
	struct tree_miss miss;
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_make(key, inode->ino, KEY_ACL), len;
	int err;

	*out = NULL;
	if (!(inode->rec.flags & INODE_ACL))
		return 0;
	acl = malloc(sizeof(*acl) + ACL_STORED_MAX * sizeof(struct tarn_ace));
	if (!acl)
		return -ENOMEM;
	do {
		err = fs_read(fs, key, klen, acl->ace, sizeof(struct tarn_ace),
			      ACL_STORED_MAX * sizeof(struct tarn_ace), &len, &miss);
		err = fs_fetch(fs, &miss, err);
	} while (err == -EAGAIN);
	if (err == -ENOENT || (!err && len % sizeof(struct tarn_ace)))
		err = -EIO;
	if (!err) {
		acl->count = len / sizeof(struct tarn_ace);
		*out = acl;
		return 0;
	}
	free(acl);
	return err;
}

int acl_load(struct tarn_inode *inode, struct tarn_acl **out)
{
	*out = NULL;
	return atomic_load(&inode->ds->props.acl) ? acl_stored(inode, out) : 0;
}

int acl_pin(struct op *op, uint64_t ino)
{
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_make(key, ino, KEY_ACL);

	return op_pin(op, key, klen);
}

void acl_put(struct op *op, uint64_t ino, struct inode_record *rec, const struct tarn_acl *acl)
{
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_make(key, ino, KEY_ACL);

	if (acl) {
		op_put(op, key, klen, acl->ace, acl->count * sizeof(struct tarn_ace));
		rec->flags |= INODE_ACL;
	} else {
		op_del(op, key, klen);
		rec->flags &= ~(uint32_t)INODE_ACL;
	}
}

int acl_for(const struct tarn_acl *acl, bool is_dir, struct tarn_acl **out)
{
	struct tarn_acl *copy;
	size_t bytes;
	int err;

	*out = NULL;
	if (!acl || !acl->count)
		return 0;
	err = acl_validate(acl);
	if (err)
		return err;
	bytes = sizeof(*acl) + acl->count * sizeof(struct tarn_ace);
	copy = malloc(bytes);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, acl, bytes);
	for (uint32_t i = 0; i < copy->count && !is_dir; i++)
		copy->ace[i].flags &= ~(uint32_t)(ACE_FILE_INHERIT | ACE_DIR_INHERIT |
						  ACE_NO_PROPAGATE | ACE_INHERIT_ONLY);
	*out = copy;
	return 0;
}

int tarn_acl_get(struct tarn_inode *inode, struct tarn_acl **out)
{
	struct fs *fs;
	int err = fs_enter(inode, &fs);

	*out = NULL;
	if (err)
		return err;
	alock_read(&inode->lock);
	err = atomic_load(&inode->dead) ? -ESTALE : acl_load(inode, out);
	if (!err && !*out) {
		*out = acl_from_mode(inode->rec.mode, inode->type == TARN_DIR);
		err = *out ? 0 : -ENOMEM;
	}
	alock_unlock(&inode->lock);
	dataset_leave(inode->ds);
	return err;
}

int tarn_access(const struct tarn_cred *cred, struct tarn_inode *inode, uint32_t mask)
{
	struct tarn_acl *acl = NULL;
	struct fs *fs;
	int err = fs_enter(inode, &fs);

	if (err)
		return err;
	alock_read(&inode->lock);
	err = atomic_load(&inode->dead) ? -ESTALE : acl_load(inode, &acl);
	if (!err)
		err = acl_check(acl, &inode->rec, cred, mask);
	alock_unlock(&inode->lock);
	free(acl);
	dataset_leave(inode->ds);
	return err;
}

int tarn_writable(struct tarn_inode *inode)
{
	struct fs *fs;
	int err = fs_enter_write(inode, &fs);

	if (!err)
		dataset_leave(inode->ds);
	return err;
}

/* ---- setattr ---- */

static bool times_valid(const struct tarn_setattr *set)
{
	return (!(set->mask & TARN_SET_ATIME) || (unsigned long)set->atime.tv_nsec < 1000000000) &&
	       (!(set->mask & TARN_SET_MTIME) || (unsigned long)set->mtime.tv_nsec < 1000000000) &&
	       (!(set->mask & TARN_SET_BTIME) || (unsigned long)set->btime.tv_nsec < 1000000000);
}

int attr_check(const struct tarn_cred *cred, const struct inode_record *rec,
	       const struct tarn_acl *acl, const struct tarn_setattr *set)
{
	bool owner;

	if (((set->mask & TARN_SET_MODE) && (set->mode & ~07777u)) || !times_valid(set))
		return -EINVAL;
	if (set->mask & TARN_SET_SIZE) {
		if (rec->type != TARN_REG)
			return rec->type == TARN_DIR ? -EISDIR : -EINVAL;
		if (set->size > TARN_FILE_MAX)
			return -EFBIG;
	}
	if (cred_super(cred))
		return 0;
	owner = cred->uid == rec->uid;
	if ((set->mask & TARN_SET_UID) && !(owner && set->uid == rec->uid))
		return -EPERM;
	if ((set->mask & TARN_SET_GID) &&
	    !(owner && (set->gid == rec->gid || cred_in_group(cred, set->gid))))
		return -EPERM;
	if ((set->mask & (TARN_SET_MODE | TARN_SET_ACL)) && !owner &&
	    acl_check(acl, rec, cred, ACE_WRITE_ACL))
		return -EPERM;
	if ((set->mask & (TARN_SET_ATIME | TARN_SET_MTIME | TARN_SET_BTIME)) && !owner &&
	    acl_check(acl, rec, cred, ACE_WRITE_ATTRIBUTES))
		return -EPERM;
	if ((set->mask & (TARN_SET_ATIME_NOW | TARN_SET_MTIME_NOW)) && !owner &&
	    acl_check(acl, rec, cred, ACE_WRITE_DATA))
		return -EACCES;
	return 0;
}

/* What a change by somebody else than the superuser, or of the owner, takes away. */
uint32_t without_suid(uint32_t mode)
{
	return mode & ~(SUID | (mode & 010 ? SGID : 0));
}

void attr_apply(struct inode_record *rec, const struct tarn_cred *cred,
		const struct tarn_setattr *set)
{
	uint32_t mask = set->mask;
	struct disk_time now;

	if (mask & TARN_SET_UID)
		rec->uid = set->uid;
	if (mask & TARN_SET_GID)
		rec->gid = set->gid;
	if (mask & TARN_SET_MODE) {
		rec->mode = set->mode;
		if (!cred_super(cred) && !cred_in_group(cred, rec->gid))
			rec->mode &= ~SGID;
	} else if (rec->type != TARN_DIR && ((mask & (TARN_SET_UID | TARN_SET_GID)) ||
					     ((mask & TARN_SET_SIZE) && !cred_super(cred)))) {
		rec->mode = without_suid(rec->mode);
	}
	disk_time_now(&now);
	if (mask & TARN_SET_ATIME)
		rec->atime = disk_time_of(&set->atime);
	if (mask & TARN_SET_ATIME_NOW)
		rec->atime = now;
	if (mask & TARN_SET_MTIME)
		rec->mtime = disk_time_of(&set->mtime);
	if (mask & TARN_SET_MTIME_NOW)
		rec->mtime = now;
	if (mask & TARN_SET_BTIME)
		rec->btime = disk_time_of(&set->btime);
}

/* The ACL to be stored, if that changes; *change tells. */
static int new_acl(struct tarn_inode *inode, const struct tarn_setattr *set,
		   const struct tarn_acl *stored, struct tarn_acl **out, bool *change)
{
	bool is_dir = inode->type == TARN_DIR;

	*out = NULL;
	*change = true;
	if (set->mask & TARN_SET_ACL) {
		if (!atomic_load(&inode->ds->props.acl))
			return -EOPNOTSUPP;
		return acl_for(set->acl, is_dir, out);
	}
	*change = (set->mask & TARN_SET_MODE) && stored;
	if (!*change)
		return 0;
	*out = acl_chmod(stored, set->mode, is_dir);
	return *out ? 0 : -ENOMEM;
}

int attr_pin(struct op *op, struct tarn_inode *inode, const struct attr_change *c)
{
	int err = op_pin_inode(op, inode);

	return err || !c->set_acl ? err : acl_pin(op, inode->ino);
}

void attr_make(struct op *op, struct tarn_inode *inode, const struct attr_change *c)
{
	struct inode_record *rec = op_dirty(op, inode);

	attr_apply(rec, c->cred, c->set);
	if (c->set_acl)
		acl_put(op, inode->ino, rec, c->acl);
	if (c->set_acl && c->acl)
		rec->mode = acl_to_mode(c->acl, rec->mode);
	inode_touch(inode, rec, false);
}

/* Without a size; lock held. */
static int attr_only(struct fs *fs, struct tarn_inode *inode, const struct attr_change *c,
		     struct tarn_commit *token)
{
	struct op op;
	int err;

	do {
		err = op_begin(&op, fs, ATTR_RESERVE, TX_NORMAL);
		if (!err)
			err = attr_pin(&op, inode, c);
		if (!err)
			attr_make(&op, inode, c);
		err = op_end(&op, err);
		op_token(&op, token);
	} while (err == -EAGAIN);
	return err;
}

int attr_set(struct fs *fs, const struct tarn_cred *cred, struct tarn_inode *inode,
	     const struct tarn_setattr *set, struct tarn_commit *token)
{
	struct attr_change change = {.cred = cred, .set = set};
	bool counts = atomic_load(&inode->ds->props.acl);
	struct tarn_acl *stored = NULL;
	int err = atomic_load(&inode->dead) ? -ESTALE : acl_stored(inode, &stored);

	if (!err)
		err = attr_check(cred, &inode->rec, counts ? stored : NULL, set);
	if (!err)
		err = new_acl(inode, set, stored, &change.acl, &change.set_acl);
	if (!err && (set->mask & TARN_SET_SIZE))
		err = range_resize(inode, set->size, &change, token);
	else if (!err && set->mask)
		err = attr_only(fs, inode, &change, token);
	free(stored);
	free(change.acl);
	return err;
}

int tarn_setattr(const struct tarn_cred *cred, struct tarn_inode *inode,
		 const struct tarn_setattr *set, struct tarn_attr *post, struct tarn_commit *token)
{
	struct fs *fs;
	int err = fs_enter_write(inode, &fs);

	*token = (struct tarn_commit){0};
	if (err)
		return err;
	alock_write(&inode->lock);
	err = attr_set(fs, cred, inode, set, token);
	if (!err && post)
		inode_attr(inode, post);
	alock_unlock(&inode->lock);
	dataset_leave(inode->ds);
	return err;
}

int fs_root_changed(struct tarn_dataset *ds, struct tarn_commit *token)
{
	static const struct tarn_setattr now = {.mask = TARN_SET_MTIME_NOW};
	struct tarn_inode *root;
	struct fs *fs;
	int err = tarn_root(ds, &root);

	if (err)
		return err;
	err = fs_enter(root, &fs);
	if (!err) {
		alock_write(&root->lock);
		err = attr_set(fs, NULL, root, &now, token);
		alock_unlock(&root->lock);
		dataset_leave(ds);
	}
	tarn_inode_put(root);
	return err;
}

/* ---- access times ---- */

static bool atime_due(const struct inode_record *rec, uint8_t how, const struct disk_time *now)
{
	const struct disk_time *a = &rec->atime, *m = &rec->mtime, *c = &rec->ctime;

	if (how == 1)
		return a->sec != now->sec || a->nsec != now->nsec;
	return a->sec < m->sec || (a->sec == m->sec && a->nsec <= m->nsec) || a->sec < c->sec ||
	       (a->sec == c->sec && a->nsec <= c->nsec) || now->sec - a->sec >= RELATIME_SECONDS;
}

/* Lock held for writing. What would have to wait is left undone: the next read tries again. */
static void atime_set(struct tarn_inode *inode, const struct disk_time *now)
{
	struct tree_miss miss;
	struct tree_pin pin;
	struct tx tx;
	int err;

	if (tx_try_begin(inode->ds->pool, TREE_RESERVE(1), TX_NORMAL, &tx))
		return;
	err = inode_pin(&tx, inode, &pin, &miss);
	if (!err) {
		inode_dirty(&tx, inode)->atime = *now;
		tree_unpin(&pin);
	}
	tx_end(&tx);
	if (err == -EAGAIN)
		tree_miss_drop(&inode->ds->tree, &miss);
}

void inode_accessed(struct tarn_inode *inode)
{
	uint8_t how = atomic_load(&inode->ds->props.atime);
	struct disk_time now;
	bool due;

	if (how == 0 || atomic_load(&inode->ds->props.readonly) || inode->ds->pool->read_only)
		return;
	disk_time_now(&now);
	if (!alock_try(&inode->lock, false))
		return;
	due = atime_due(&inode->rec, how, &now);
	alock_unlock(&inode->lock);
	if (!due || !alock_try(&inode->lock, true))
		return;
	if (!atomic_load(&inode->dead))
		atime_set(inode, &now);
	alock_unlock(&inode->lock);
}
