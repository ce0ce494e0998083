// SPDX-License-Identifier: LGPL-3.0-or-later
/* New names of new inodes. */
#include <errno.h>
#include <stdlib.h>

#include "fs/entry.h"
#include "pool/ilog.h"

struct creation {
	const struct tarn_cred *cred;
	struct tarn_inode *dir;
	const char *name;
	const struct tarn_create *how;
	struct inode_record rec;
	struct tarn_acl *acl;
	struct tarn_inode *inode;
};

static int create_args(const char *name, const struct tarn_create *how)
{
	int err = entry_name_check(name);
	size_t len;

	if (err)
		return err;
	if (how->type < TARN_REG || how->type > TARN_SOCK)
		return -EINVAL;
	if (how->exclusive && how->type != TARN_REG)
		return -EINVAL;
	if (how->type != TARN_LNK)
		return 0;
	len = how->target ? strnlen(how->target, TARN_SYMLINK_MAX + 1) : 0;
	if (len == 0)
		return -ENOENT;
	return len > TARN_SYMLINK_MAX ? -ENAMETOOLONG : 0;
}

static void create_record(struct creation *c)
{
	const struct inode_record *dir = &c->dir->rec;
	const struct tarn_create *how = c->how;
	struct inode_record *rec = &c->rec;
	bool is_dir = how->type == TARN_DIR;

	*rec = (struct inode_record){
	    .type = (uint8_t)how->type,
	    .mode = is_dir ? 0700 : 0600,
	    .nlink = is_dir ? 2 : 1,
	    .uid = c->cred ? c->cred->uid : 0,
	    .gid = c->cred ? c->cred->gid : 0,
	    .project = dir->project,
	    .parent = is_dir ? c->dir->ino : 0,
	    .next_cookie = is_dir ? 3 : 0,
	};
	if (dir->mode & 02000)
		rec->gid = dir->gid;
	if (how->type == TARN_REG) {
		rec->recordsize = atomic_load(&c->dir->ds->props.recordsize);
		rec->size = how->set.mask & TARN_SET_SIZE ? how->set.size : 0;
	}
	if (how->type == TARN_BLK || how->type == TARN_CHR) {
		rec->rdev_major = how->rdev_major;
		rec->rdev_minor = how->rdev_minor;
	}
	if (how->type == TARN_LNK)
		rec->size = strlen(how->target);
	if (how->exclusive) {
		rec->flags |= INODE_VERIFIER;
		memcpy(rec->verifier, how->verifier, sizeof(rec->verifier));
	}
	disk_time_now(&rec->btime);
	rec->atime = rec->mtime = rec->ctime = rec->btime;
}

/* What the directory hands down, within the mode if one is asked for. Without (an exclusive
   create can't carry one) the mode that comes later finds all of it. */
static int create_inherit(struct creation *c, bool is_dir)
{
	struct tarn_acl *above, *inherited = NULL;
	int err = acl_load(c->dir, &above);

	if (!err)
		err = acl_inherit(above, is_dir, &inherited);
	free(above);
	if (!inherited || !(c->how->set.mask & TARN_SET_MODE)) {
		c->acl = inherited;
		return err;
	}
	c->acl = acl_chmod(inherited, c->rec.mode, is_dir);
	free(inherited);
	return c->acl ? 0 : -ENOMEM;
}

/* The new inode's ACL: the one given, or an inherited one. */
static int create_acl(struct creation *c)
{
	bool is_dir = c->how->type == TARN_DIR;
	int err;

	if (c->how->set.mask & TARN_SET_ACL) {
		if (!atomic_load(&c->dir->ds->props.acl))
			return -EOPNOTSUPP;
		err = acl_for(c->how->set.acl, is_dir, &c->acl);
	} else if (c->how->type == TARN_LNK) {
		return 0;
	} else {
		err = create_inherit(c, is_dir);
	}
	if (!err && c->acl)
		c->rec.mode = acl_to_mode(c->acl, c->rec.mode);
	return err;
}

/* Lock held for writing. */
static int create_check(struct fs *fs, struct creation *c)
{
	bool is_dir = c->how->type == TARN_DIR;
	struct entry e;
	int err = entry_read(fs, c->dir, c->name, &e);

	if (err != -ENOENT)
		return err ? err : -EEXIST;
	err = may_add(c->cred, c->dir, is_dir);
	if (err)
		return err;
	if (is_dir && c->dir->rec.nlink >= NLINK_MAX)
		return -EMLINK;
	create_record(c);
	err = attr_check(c->cred, &c->rec, NULL, &c->how->set);
	if (err)
		return err;
	attr_apply(&c->rec, c->cred, &c->how->set);
	if (is_dir)
		c->rec.mode |= c->dir->rec.mode & 02000;
	if (c->how->type == TARN_LNK)
		c->rec.mode = 0777;
	return create_acl(c);
}

static int create_pin(struct op *op, struct creation *c)
{
	uint8_t key[KEY_ROOM];
	int err = op_pin_inode(op, c->dir);

	if (!err)
		err = entry_pin(op, c->dir, c->name, cookie_next(&c->dir->rec));
	if (!err)
		err = inode_new_prepare(op, &c->inode);
	if (!err && c->acl)
		err = acl_pin(op, c->inode->ino);
	if (!err && c->how->type == TARN_LNK)
		err = op_pin(op, key, key_make(key, c->inode->ino, KEY_TARGET));
	return err;
}

static void create_apply(struct op *op, struct creation *c)
{
	struct inode_record *dir = op_dirty(op, c->dir);
	struct tarn_inode *inode = c->inode;
	uint64_t cookie = cookie_next(dir);
	uint8_t key[KEY_ROOM];

	if (c->acl)
		acl_put(op, inode->ino, &c->rec, c->acl);
	if (c->how->type == TARN_LNK)
		op_put(op, key, key_make(key, inode->ino, KEY_TARGET), c->how->target,
		       (uint32_t)c->rec.size);
	inode_new(op, inode, &c->rec);
	entry_put(op, c->dir, c->name, cookie, inode);
	dir->next_cookie = cookie + 1;
	dir->entries++;
	if (c->how->type == TARN_DIR)
		dir->nlink++;
	inode_touch(c->dir, dir, true);
}

/* Lock held for writing. */
static int create_locked(struct fs *fs, struct creation *c, struct tarn_attr *post,
			 struct tarn_attr *dir_post, struct tarn_commit *token)
{
	struct op op;
	int err = create_check(fs, c);

	if (err)
		return err;
	do {
		err = op_begin(&op, fs, TREE_RESERVE(7) + (1u << 16), TX_NORMAL);
		if (!err)
			err = create_pin(&op, c);
		if (!err)
			create_apply(&op, c);
		err = op_end(&op, err);
		op_token(&op, token);
	} while (err == -EAGAIN);
	if (err) {
		inode_new_cancel(fs, c->inode);
		return err;
	}
	/* Nobody else can know the inode as long as the directory is locked. */
	if (post)
		inode_attr(c->inode, post);
	if (dir_post)
		inode_attr(c->dir, dir_post);
	return 0;
}

/* An exclusive create again: a success once more, durable like the first. */
static int create_again(struct creation *c, struct tarn_inode *inode, struct tarn_attr *post,
			struct tarn_attr *dir_post, struct tarn_commit *token)
{
	bool matches;
	int err = tarn_verifier_matches(inode, c->how->verifier, &matches);

	if (!err && !matches)
		err = -EEXIST;
	if (!err && post)
		err = tarn_getattr(inode, post);
	if (!err && dir_post)
		err = tarn_getattr(c->dir, dir_post);
	if (!err)
		token->number = ilog_last(c->dir->ds->pool, &token->txg);
	return err;
}

static int create(struct fs *fs, struct creation *c, struct tarn_inode **out,
		  struct tarn_attr *post, struct tarn_attr *dir_post, struct tarn_commit *token)
{
	bool stays = is_dot(c->name) || is_dotdot(c->name);
	int err;

	if (c->dir->type != TARN_DIR)
		return -ENOTDIR;
	for (;;) {
		if (stays || entry_is_child(c->dir, c->name)) {
			err = -EEXIST;
		} else {
			c->inode = NULL;
			c->acl = NULL;
			alock_write(&c->dir->lock);
			err = create_locked(fs, c, post, dir_post, token);
			alock_unlock(&c->dir->lock);
			free(c->acl);
		}
		if (err != -EEXIST) {
			*out = err ? NULL : c->inode;
			return err;
		}
		err = entry_lookup(fs, c->dir, c->name, out);
		if (!err)
			err = c->how->exclusive ? create_again(c, *out, post, dir_post, token)
						: -EEXIST;
		if (stays || (err != -ENOENT && err != -ESTALE))
			return err;
		/* It has gone again. */
		if (*out)
			tarn_inode_put(*out);
		*out = NULL;
	}
}

int tarn_create(const struct tarn_cred *cred, struct tarn_inode *dir, const char *name,
		const struct tarn_create *how, struct tarn_inode **out, struct tarn_attr *post,
		struct tarn_attr *dir_post, struct tarn_commit *token)
{
	struct creation c = {.cred = cred, .dir = dir, .name = name, .how = how};
	struct fs *fs;
	int err = create_args(name, how);

	*out = NULL;
	*token = (struct tarn_commit){0};
	if (!err)
		err = fs_enter_write(dir, &fs);
	if (err)
		return err;
	err = create(fs, &c, out, post, dir_post, token);
	dataset_leave(dir->ds);
	return err;
}

int tarn_verifier_matches(struct tarn_inode *inode, const uint8_t verifier[8], bool *matches)
{
	const struct inode_record *rec = &inode->rec;
	int err = dataset_enter(inode->ds);

	if (err)
		return err;
	alock_read(&inode->lock);
	if (atomic_load(&inode->dead))
		err = -ESTALE;
	*matches = (rec->flags & INODE_VERIFIER) &&
		   !memcmp(rec->verifier, verifier, sizeof(rec->verifier));
	alock_unlock(&inode->lock);
	dataset_leave(inode->ds);
	return err;
}
