// SPDX-License-Identifier: LGPL-3.0-or-later
/* Listings. */
#include <errno.h>

#include "fs/entry.h"

#define BATCH 32 /* entries read under one lock by readdir */

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
			if (entry_is_child(l->dir, b.at[i].name))
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
