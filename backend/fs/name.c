// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Directories. A name is two keys, by name and by cookie. A change looks its inodes up
 * without a lock, locks them by number, and starts again if the names have come to mean
 * something else (-ERESTART, which never leaves this file). Under the locks all checks are
 * made before the tx.
 */
#include <errno.h>
#include <stdlib.h>

#include "fs/op.h"
#include "pool/ilog.h"

#define NLINK_MAX INT32_MAX
#define DEPTH_MAX 1000000      /* a deeper tree is a damaged one */
#define COOKIE_HIGH 0x80000000 /* cookies go on here, beyond those of child datasets */
#define BATCH 32               /* entries read under one lock by readdir */
#define ADD_MASK(is_dir) ((is_dir) ? ACE_APPEND_DATA : ACE_WRITE_DATA)

/* ---- entries ---- */

static int name_check(const char *name)
{
	size_t len = strnlen(name, TARN_NAME_MAX + 1);

	if (len > TARN_NAME_MAX)
		return -ENAMETOOLONG;
	return len == 0 || strchr(name, '/') ? -EINVAL : 0;
}

static bool is_dot(const char *name)
{
	return !strcmp(name, ".");
}

static bool is_dotdot(const char *name)
{
	return !strcmp(name, "..");
}

/* A child dataset covers an entry of its name. Referenced. */
static struct tarn_dataset *child_dataset(struct tarn_inode *dir, const char *name)
{
	return dir->ino == ROOT_INO ? dataset_child(dir->ds, name) : NULL;
}

static bool is_child_dataset(struct tarn_inode *dir, const char *name)
{
	struct tarn_dataset *child = child_dataset(dir, name);

	if (child)
		tarn_dataset_put(child);
	return child;
}

/* Lock held. A directory like that has no parent. */
static bool is_removed(const struct tarn_inode *inode)
{
	return atomic_load(&inode->dead) || inode->rec.nlink == 0;
}

/* Lock held; blocking. */
static int entry_read(struct fs *fs, struct tarn_inode *dir, const char *name, struct entry *e)
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

/* Under the locks: whether the name still means this inode (NULL: nothing). */
static int entry_recheck(struct fs *fs, struct tarn_inode *dir, const char *name,
			 const struct tarn_inode *inode, struct entry *e)
{
	int err = entry_read(fs, dir, name, e);

	if (err == -ENOENT)
		return inode ? -ERESTART : 0;
	if (err)
		return err;
	return inode && e->ino == inode->ino && e->gen == inode->gen ? 0 : -ERESTART;
}

/* No locks held; blocking: the entry and its inode, referenced. */
static int entry_find(struct fs *fs, struct tarn_inode *dir, const char *name, struct entry *e,
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

static int entry_pin(struct op *op, struct tarn_inode *dir, const char *name, uint64_t cookie)
{
	uint8_t key[KEY_ROOM];
	int err = op_pin(op, key, key_name(key, dir->ino, KEY_ENTRY, name));

	return err ? err : op_pin(op, key, key_u64(key, dir->ino, KEY_COOKIE, cookie));
}

static void entry_put(struct op *op, struct tarn_inode *dir, const char *name, uint64_t cookie,
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

static void entry_del(struct op *op, struct tarn_inode *dir, const char *name, uint64_t cookie)
{
	uint8_t key[KEY_ROOM];

	op_del(op, key, key_name(key, dir->ino, KEY_ENTRY, name));
	op_del(op, key, key_u64(key, dir->ino, KEY_COOKIE, cookie));
}

/* Of the directory's next new entry. */
static uint64_t cookie_next(const struct inode_record *dir)
{
	uint64_t cookie = dir->next_cookie;

	return cookie >= CHILD_COOKIE && cookie < COOKIE_HIGH ? COOKIE_HIGH : cookie;
}

/* ---- permission ---- */

/* Lock held; blocking: an inode's ACL matters to all but the superuser. */
static int may(const struct tarn_cred *cred, struct tarn_inode *inode, uint32_t mask)
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

/* A name may come into dir. */
static int may_add(const struct tarn_cred *cred, struct tarn_inode *dir, bool is_dir)
{
	if (dir->rec.nlink == 0)
		return -ENOENT;
	return may(cred, dir, ADD_MASK(is_dir) | ACE_EXECUTE);
}

/* A name of the inode may go from dir: the inode's own ACL can allow it, else dir decides. */
static int may_remove(const struct tarn_cred *cred, struct tarn_inode *dir,
		      struct tarn_inode *inode)
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

static int lookup(struct fs *fs, struct tarn_inode *dir, const char *name, struct tarn_inode **out)
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
	child = child_dataset(dir, name);
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
	int err = name_check(name);

	(void)cred; /* the caller has checked the right to search */
	*out = NULL;
	if (!err)
		err = fs_enter(dir, &fs);
	if (err)
		return err;
	err = lookup(fs, dir, name, out);
	dataset_leave(dir->ds);
	return err;
}

/* ---- create ---- */

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
	int err = name_check(name);
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
	int err;

	if (c->dir->type != TARN_DIR)
		return -ENOTDIR;
	do {
		if (is_dot(c->name) || is_dotdot(c->name) || is_child_dataset(c->dir, c->name)) {
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
		err = lookup(fs, c->dir, c->name, out);
	} while (err == -ENOENT); /* it has gone again */
	if (!err)
		err = c->how->exclusive ? create_again(c, *out, post, dir_post, token) : -EEXIST;
	return err;
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
	int err = name_check(name);

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
	if (is_dot(name) || is_dotdot(name) || is_child_dataset(dir, name)) {
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

/* Whether this inode loses its last link with one name. */
static bool last_link(const struct tarn_inode *inode)
{
	return inode->type == TARN_DIR || inode->rec.nlink <= 1;
}

static int drop_look(struct fs *fs, struct tarn_inode *inode, struct removal *r)
{
	return last_link(inode) ? removal_look(fs, inode, r) : 0;
}

static unsigned drop_changes(const struct tarn_inode *inode, const struct removal *r)
{
	return last_link(inode) ? removal_changes(r) : 1;
}

static int drop_pin(struct op *op, struct tarn_inode *inode, const struct removal *r)
{
	return last_link(inode) ? removal_pin(op, inode, r) : op_pin_inode(op, inode);
}

/* A name of the inode has gone. */
static void drop_apply(struct op *op, struct tarn_inode *inode, const struct removal *r)
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
	int err = name_check(name);

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

		if (is_child_dataset(dir, name)) {
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

/* ---- rename ---- */

struct renaming {
	const struct tarn_cred *cred;
	struct tarn_inode *from_dir, *to_dir;
	const char *from, *to;
	struct tarn_inode *src, *dst; /* dst NULL: the name is new */
	uint64_t from_cookie, to_cookie;
	bool moves; /* a directory, to another parent */
	struct removal removal;
};

/* rename_lock held, so that no directory changes its place: to_dir does not lie in src. */
static int rename_loop(struct fs *fs, const struct renaming *r)
{
	struct tarn_inode *at = tarn_inode_ref(r->to_dir), *up;
	unsigned depth = 0;
	int err = 0;

	while (!err && at->ino != ROOT_INO) {
		uint64_t parent;

		if (at == r->src) {
			err = -EINVAL;
			break;
		}
		alock_read(&at->lock);
		parent = is_removed(at) ? 0 : at->rec.parent;
		alock_unlock(&at->lock);
		err = parent ? inode_get(fs, parent, 0, &up) : -ENOENT;
		if (!err && ++depth > DEPTH_MAX) {
			tarn_inode_put(up);
			err = -EIO;
		}
		if (!err) {
			tarn_inode_put(at);
			at = up;
		}
	}
	tarn_inode_put(at);
	return err == -ESTALE ? -ENOENT : err;
}

static int rename_types(const struct renaming *r)
{
	bool src_dir = r->src->type == TARN_DIR;

	if (r->dst) {
		bool dst_dir = r->dst->type == TARN_DIR;

		if (src_dir != dst_dir)
			return src_dir ? -ENOTDIR : -EISDIR;
		if (dst_dir && r->dst->rec.entries)
			return -ENOTEMPTY;
	} else if (r->moves && r->to_dir->rec.nlink >= NLINK_MAX) {
		return -EMLINK;
	}
	return 0;
}

static int rename_check(struct fs *fs, struct renaming *r)
{
	struct entry e;
	int err = entry_recheck(fs, r->from_dir, r->from, r->src, &e);

	if (err)
		return err;
	r->from_cookie = e.cookie;
	err = entry_recheck(fs, r->to_dir, r->to, r->dst, &e);
	if (err)
		return err;
	/* A name keeps its cookie when it comes to mean another inode: a listing under way
	   shows it once. */
	r->to_cookie = r->dst ? e.cookie : cookie_next(&r->to_dir->rec);
	if (r->src == r->dst)
		return 0;
	err = may_remove(r->cred, r->from_dir, r->src);
	if (!err)
		err = may_add(r->cred, r->to_dir, r->src->type == TARN_DIR);
	if (!err && r->dst)
		err = may_remove(r->cred, r->to_dir, r->dst);
	if (!err && r->moves)
		err = may(r->cred, r->src, ACE_WRITE_DATA); /* its ".." changes */
	return err ? err : rename_types(r);
}

static int rename_pin(struct op *op, struct renaming *r)
{
	int err = op_pin_inode(op, r->from_dir);

	if (!err && r->to_dir != r->from_dir)
		err = op_pin_inode(op, r->to_dir);
	if (!err)
		err = op_pin_inode(op, r->src);
	if (!err && r->dst)
		err = drop_pin(op, r->dst, &r->removal);
	if (!err)
		err = entry_pin(op, r->from_dir, r->from, r->from_cookie);
	return err ? err : entry_pin(op, r->to_dir, r->to, r->to_cookie);
}

static void rename_apply(struct op *op, struct renaming *r)
{
	struct inode_record *from = op_dirty(op, r->from_dir);
	struct inode_record *to = op_dirty(op, r->to_dir);
	struct inode_record *src = op_dirty(op, r->src);

	entry_del(op, r->from_dir, r->from, r->from_cookie);
	entry_put(op, r->to_dir, r->to, r->to_cookie, r->src);
	from->entries--;
	if (r->dst) {
		if (r->dst->type == TARN_DIR)
			to->nlink--;
		drop_apply(op, r->dst, &r->removal);
	} else {
		to->entries++;
		to->next_cookie = r->to_cookie + 1;
	}
	if (r->moves) {
		from->nlink--;
		to->nlink++;
		src->parent = r->to_dir->ino;
	}
	inode_touch(r->src, src, false);
	inode_touch(r->from_dir, from, true);
	if (r->to_dir != r->from_dir)
		inode_touch(r->to_dir, to, true);
}

static int rename_locked(struct fs *fs, struct renaming *r, struct tarn_commit *token)
{
	unsigned changes;
	struct op op;
	int err = rename_check(fs, r);

	/* Two names of one inode: POSIX wants nothing to happen. */
	if (err || r->src == r->dst)
		return err;
	if (r->dst)
		err = drop_look(fs, r->dst, &r->removal);
	if (err)
		return err;
	changes = 7 + (r->dst ? drop_changes(r->dst, &r->removal) : 0);
	do {
		err = op_begin(&op, fs, TREE_RESERVE(changes), TX_NORMAL);
		if (!err)
			err = rename_pin(&op, r);
		if (!err)
			rename_apply(&op, r);
		err = op_end(&op, err);
		op_token(&op, token);
	} while (err == -EAGAIN);
	return err;
}

/* Once, with what the names mean now. */
static int rename_try(struct fs *fs, struct renaming *r, struct tarn_attr *from_post,
		      struct tarn_attr *to_post, struct tarn_commit *token)
{
	struct tarn_inode *const locks[INODE_LOCKS] = {r->from_dir, r->to_dir, r->src, r->dst};
	int err = 0;

	r->moves = r->src->type == TARN_DIR && r->from_dir != r->to_dir;
	if (r->moves) {
		pthread_mutex_lock(&fs->rename_lock);
		err = rename_loop(fs, r);
	}
	if (!err) {
		inodes_lock(locks);
		err = rename_locked(fs, r, token);
		if (!err && from_post)
			inode_attr(r->from_dir, from_post);
		if (!err && to_post)
			inode_attr(r->to_dir, to_post);
		inodes_unlock(locks);
	}
	if (r->moves)
		pthread_mutex_unlock(&fs->rename_lock);
	if (!err && r->dst && atomic_load(&r->dst->orphan))
		reap_kick(r->dst);
	return err;
}

int tarn_rename(const struct tarn_cred *cred, struct tarn_inode *from_dir, const char *from,
		struct tarn_inode *to_dir, const char *to, struct tarn_attr *from_post,
		struct tarn_attr *to_post, struct tarn_commit *token)
{
	struct renaming r = {
	    .cred = cred, .from_dir = from_dir, .from = from, .to_dir = to_dir, .to = to};
	struct entry e;
	struct fs *fs;
	int err = name_check(from);

	*token = (struct tarn_commit){0};
	if (!err)
		err = name_check(to);
	if (err)
		return err;
	if (is_dot(from) || is_dotdot(from) || is_dot(to) || is_dotdot(to))
		return -EINVAL;
	if (from_dir->ds != to_dir->ds)
		return -EXDEV;
	err = fs_enter_write(from_dir, &fs);
	if (err)
		return err;
	do {
		if (is_child_dataset(from_dir, from) || is_child_dataset(to_dir, to)) {
			err = -ENOTEMPTY;
			break;
		}
		err = entry_find(fs, from_dir, from, &e, &r.src);
		if (err)
			break;
		err = entry_find(fs, to_dir, to, &e, &r.dst);
		if (!err || err == -ENOENT)
			err = rename_try(fs, &r, from_post, to_post, token);
		tarn_inode_put(r.src);
		if (r.dst)
			tarn_inode_put(r.dst);
	} while (err == -ERESTART);
	dataset_leave(from_dir->ds);
	return err;
}

/* ---- reading ---- */

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

struct batch {
	unsigned n;
	struct {
		struct entry e;
		char name[TARN_NAME_MAX + 1];
	} at[BATCH];
};

/* One entry after `after` and below `end`; lock held, blocking. */
static int cookie_read(struct fs *fs, struct tarn_inode *dir, uint64_t after, uint64_t end,
		       struct entry *e, char name[TARN_NAME_MAX + 1])
{
	uint8_t from[KEY_ROOM], to[KEY_ROOM], key[TREE_KEY_MAX];
	uint32_t flen = key_u64(from, dir->ino, KEY_COOKIE, after), klen;
	uint32_t tlen = key_u64(to, dir->ino, KEY_COOKIE, end), len;
	uint8_t value[sizeof(*e) + TARN_NAME_MAX];
	struct tree_miss miss;
	struct tree_val v;
	int err;

	do {
		err = tree_next(&fs->ds->tree, from, flen, true, to, tlen, key, &klen, value,
				sizeof(value), &v, &miss);
		err = fs_fetch(fs, &miss, err);
	} while (err == -EAGAIN);
	if (err)
		return err;
	tree_val_put(&v);
	len = v.len - (uint32_t)sizeof(*e);
	if (klen != flen || v.kind != SLOT_VALUE || v.len <= sizeof(*e) || len > TARN_NAME_MAX)
		return -EIO;
	memcpy(e, value, sizeof(*e));
	memcpy(name, value + sizeof(*e), len);
	name[len] = 0;
	return e->cookie == key_get_u64(key) ? entry_validate(value, v.len) : -EIO;
}

static int batch_read(struct fs *fs, struct tarn_inode *dir, uint64_t after, uint64_t end,
		      struct batch *b)
{
	int err = 0;

	b->n = 0;
	alock_read(&dir->lock);
	if (atomic_load(&dir->dead))
		err = -ESTALE;
	while (!err && b->n < BATCH) {
		err = cookie_read(fs, dir, after, end, &b->at[b->n].e, b->at[b->n].name);
		if (!err)
			after = b->at[b->n++].e.cookie;
	}
	alock_unlock(&dir->lock);
	return err == -ENOENT ? 0 : err;
}

struct listing {
	struct fs *fs;
	struct tarn_inode *dir;
	uint64_t cookie; /* of the last entry given out */
	bool (*fn)(void *arg, const struct tarn_dirent *entry);
	void *arg;
	bool stopped;
};

static void emit(struct listing *l, const char *name, uint64_t cookie, struct tarn_inode *inode)
{
	struct tarn_dirent dirent = {.name = name, .cookie = cookie, .inode = inode};

	l->stopped = !l->fn(l->arg, &dirent);
	l->cookie = cookie;
	tarn_inode_put(inode);
}

/* Entries after l->cookie and below end. */
static int list_entries(struct listing *l, uint64_t end)
{
	struct batch b;
	int err;

	do {
		err = batch_read(l->fs, l->dir, l->cookie, end, &b);
		for (unsigned i = 0; !err && i < b.n && !l->stopped; i++) {
			struct entry e = b.at[i].e;
			struct tarn_inode *inode;

			l->cookie = e.cookie;
			if (is_child_dataset(l->dir, b.at[i].name))
				continue;
			err = inode_get(l->fs, e.ino, e.gen, &inode);
			/* Gone since; but the name may be another inode's by now. */
			if (err == -ESTALE)
				err = entry_find(l->fs, l->dir, b.at[i].name, &e, &inode);
			if (!err && e.cookie == b.at[i].e.cookie)
				emit(l, b.at[i].name, e.cookie, inode);
			else if (!err)
				tarn_inode_put(inode);
			else if (err == -ENOENT)
				err = 0;
		}
	} while (!err && !l->stopped && b.n == BATCH);
	return err;
}

static int list_children(struct listing *l)
{
	char name[TARN_NAME_MAX + 1];
	struct tarn_dataset *child;
	struct tarn_inode *root;
	int err = 0;

	while (!err && !l->stopped &&
	       (child = dataset_next_child(l->dir->ds, l->cookie - CHILD_COOKIE, name))) {
		uint64_t cookie = CHILD_COOKIE + child->id;

		err = tarn_root(child, &root);
		tarn_dataset_put(child);
		if (!err)
			emit(l, name, cookie, root);
		else if (err == -ESTALE || err == -ENXIO)
			err = 0; /* destroyed since */
		l->cookie = cookie;
	}
	return err;
}

int tarn_readdir(struct tarn_inode *dir, uint64_t cookie,
		 bool (*fn)(void *arg, const struct tarn_dirent *entry), void *arg, bool *eof)
{
	struct listing l = {.dir = dir, .cookie = cookie, .fn = fn, .arg = arg};
	int err;

	*eof = false;
	if (dir->type != TARN_DIR)
		return -ENOTDIR;
	err = fs_enter(dir, &l.fs);
	if (err)
		return err;
	if (l.cookie < CHILD_COOKIE) {
		err = list_entries(&l, CHILD_COOKIE);
		if (!err && !l.stopped)
			l.cookie = CHILD_COOKIE;
	}
	if (!err && !l.stopped && l.cookie < COOKIE_HIGH) {
		if (dir->ino == ROOT_INO)
			err = list_children(&l);
		if (!l.stopped)
			l.cookie = COOKIE_HIGH - 1;
	}
	if (!err && !l.stopped)
		err = list_entries(&l, UINT64_MAX);
	if (!err) {
		*eof = !l.stopped;
		inode_accessed(dir);
	}
	dataset_leave(dir->ds);
	return err;
}
