// SPDX-License-Identifier: LGPL-3.0-or-later
/* Listings. */
#include <errno.h>

#include "fs/entry.h"

/* Entries read under one lock, as the tree gives them. A small directory is read as a whole. */
struct batch {
	uint32_t used;
	bool end; /* there are no more */
	uint8_t items[TREE_NODE_SIZE];
};

/* Entries after `after` and below `end`; blocking. */
static int batch_read(struct fs *fs, struct tarn_inode *dir, uint64_t after, uint64_t end,
		      struct batch *b)
{
	uint8_t from[TREE_KEY_MAX], to[KEY_ROOM];
	uint32_t flen = key_u64(from, dir->ino, KEY_COOKIE, after), last, used;
	uint32_t tlen = key_u64(to, dir->ino, KEY_COOKIE, end);
	struct tree_item item;
	struct tree_miss miss;
	int err = 0;

	b->used = 0;
	alock_read(&dir->lock);
	while (!err && sizeof(b->items) - b->used >= TREE_RUN_MIN) {
		do {
			err = atomic_load(&dir->dead)
				  ? -ESTALE
				  : tree_next_run(&fs->ds->tree, from, flen, true, to, tlen,
						  b->items + b->used, sizeof(b->items) - b->used,
						  &used, &last, &miss);
			err = fs_fetch(fs, &miss, err);
		} while (err == -EAGAIN);
		if (err)
			break;
		memcpy(&item, b->items + b->used + last, sizeof(item));
		flen = item.klen;
		memcpy(from, b->items + b->used + last + sizeof(item), flen);
		b->used += used;
	}
	alock_unlock(&dir->lock);
	b->end = err == -ENOENT;
	return b->end ? 0 : err;
}

/* The entry at *at, which moves to the next one. */
static int batch_take(const struct batch *b, uint32_t *at, struct entry *e,
		      char name[TARN_NAME_MAX + 1])
{
	struct tree_item item;
	const uint8_t *key = b->items + *at + sizeof(item), *value;
	uint32_t len;

	memcpy(&item, b->items + *at, sizeof(item));
	*at += (uint32_t)sizeof(item) + item.klen + item.vlen;
	value = key + item.klen;
	len = item.vlen - (uint32_t)sizeof(*e);
	if (item.klen != KEY_U64_LEN || item.vlen <= sizeof(*e) || len > TARN_NAME_MAX)
		return -EIO;
	memcpy(e, value, sizeof(*e));
	memcpy(name, value + sizeof(*e), len);
	name[len] = 0;
	return e->cookie == key_get_u64(key) ? entry_validate(value, item.vlen) : -EIO;
}

struct listing {
	struct fs *fs;
	struct tarn_inode *dir;
	uint64_t cookie; /* of the last entry given out */
	bool (*fn)(void *arg, const struct tarn_dirent *entry);
	void *arg;
	bool stopped;
};

/* The inode with its attributes while it is there; else -ESTALE. */
static int list_inode(struct tarn_dirent *dirent, struct tarn_inode *inode)
{
	int err = 0;

	dirent->inode = inode;
	alock_read(&inode->lock);
	if (atomic_load(&inode->dead))
		err = -ESTALE;
	else
		inode_attr(inode, &dirent->attr);
	alock_unlock(&inode->lock);
	if (err)
		tarn_inode_put(inode);
	return err;
}

static void emit(struct listing *l, struct tarn_dirent *dirent)
{
	l->stopped = !l->fn(l->arg, dirent);
	tarn_inode_put(dirent->inode);
}

static int list_entry(struct listing *l, const char *name, struct entry *e)
{
	struct tarn_dirent dirent = {.name = name, .cookie = e->cookie};
	struct tarn_inode *inode;
	int err = inode_get(l->fs, e->ino, e->gen, &inode);

	if (!err)
		err = list_inode(&dirent, inode);
	/* Gone since; but the name may be another inode's by now. */
	while (err == -ESTALE) {
		err = entry_find(l->fs, l->dir, name, e, &inode);
		if (!err)
			err = list_inode(&dirent, inode);
	}
	if (!err && e->cookie == dirent.cookie)
		emit(l, &dirent);
	else if (!err)
		tarn_inode_put(inode);
	return err == -ENOENT ? 0 : err;
}

/* Entries after l->cookie and below end. */
static int list_entries(struct listing *l, uint64_t end)
{
	char name[TARN_NAME_MAX + 1];
	struct entry e;
	struct batch b;
	uint32_t at;
	int err;

	do {
		err = batch_read(l->fs, l->dir, l->cookie, end, &b);
		for (at = 0; !err && at < b.used && !l->stopped;) {
			err = batch_take(&b, &at, &e, name);
			if (err)
				break;
			l->cookie = e.cookie;
			if (!entry_is_child(l->dir, name))
				err = list_entry(l, name, &e);
		}
	} while (!err && !l->stopped && !b.end);
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
		struct tarn_dirent dirent = {.name = name, .cookie = CHILD_COOKIE + child->id};

		l->cookie = dirent.cookie;
		err = tarn_root(child, &root);
		tarn_dataset_put(child);
		if (!err)
			err = list_inode(&dirent, root);
		if (!err)
			emit(l, &dirent);
		else if (err == -ESTALE || err == -ENXIO)
			err = 0; /* destroyed since */
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
