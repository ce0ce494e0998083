// SPDX-License-Identifier: LGPL-3.0-or-later
/* Renaming. */
#include <errno.h>

#include "fs/entry.h"

#define DEPTH_MAX 1000000 /* a deeper tree is a damaged one */

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
	int err = entry_name_check(from);

	*token = (struct tarn_commit){0};
	if (!err)
		err = entry_name_check(to);
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
		if (entry_is_child(from_dir, from) || entry_is_child(to_dir, to)) {
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
