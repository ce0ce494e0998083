// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Removal of unlinked inodes. One that nobody has open and that is small goes with its last
 * name, in the same tx. Any other is entered under KEY_ORPHAN; when nobody has it open any more,
 * a thread (which lives only while there is work) takes its keys away in bounded steps, and
 * with the last one its number. When the queue grows long, those who add to it share the work.
 *
 * reaper.lock guards the queue and is taken under no other lock.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "fs/op.h"
#include "pool/ilog.h"

#define STEP_KEYS 16    /* removed in one tx; as neighbours they lie in few leaves ... */
#define STEP_LEAVES 8   /* ... of large values */
#define QUEUE_LONG 1024 /* inodes */
#define HELPER_PATIENCE 10

struct reaper {
	struct fs *fs;
	pthread_mutex_t lock;
	pthread_t thread;
	bool started; /* a thread was made and not joined */
	bool running; /* it will look at the queue again */
	bool scan;    /* orphans of an earlier import are in the tree */
	atomic_bool stop;
	struct tarn_inode *head, **tail; /* by reap_next, each referenced */
	unsigned queued;
};

/* ---- what every removal ends with ---- */

static int last_pin(struct op *op, const struct tarn_inode *inode)
{
	uint8_t key[KEY_ROOM];
	int err = op_pin(op, key, key_make(key, inode->ino, KEY_INODE));

	return err ? err : imap_pin(op, inode->ino);
}

static void last_apply(struct op *op, struct tarn_inode *inode)
{
	uint8_t key[KEY_ROOM];

	op_del_unlogged(op, key, key_make(key, inode->ino, KEY_INODE));
	dataset_count_inodes(op->fs->ds, &op->tx, -1);
	redo_purge(&op->redo, inode->ino);
	/* The number's next owner must find its place in the table free, and the log must know
	   that this one has gone: it goes in op_end(). */
	inode_forget(inode);
	op->freed = inode->ino;
}

/* ---- with the last name ---- */

/* The key after `from` of the inode other than its record. */
static int key_after(struct tree *tree, const struct tarn_inode *inode, const uint8_t *from,
		     uint32_t flen, uint8_t key[TREE_KEY_MAX], uint32_t *klen,
		     struct tree_miss *miss)
{
	uint8_t end[KEY_ROOM];
	uint32_t elen = key_make(end, inode->ino + 1, 0);
	struct tree_val v;
	int err = tree_next(tree, from, flen, true, end, elen, key, klen, NULL, 0, &v, miss);

	if (!err)
		tree_val_put(&v);
	return err;
}

int removal_look(struct fs *fs, struct tarn_inode *inode, struct removal *r)
{
	uint8_t from[KEY_ROOM], key[TREE_KEY_MAX];
	uint32_t flen = key_make(from, inode->ino, KEY_INODE), klen;
	struct tree_miss miss;
	int err = 0;

	r->n = 0;
	r->now = atomic_load(&inode->opens) == 0;
	while (r->now) {
		do {
			err = key_after(&fs->ds->tree, inode, from, flen, key, &klen, &miss);
			err = fs_fetch(fs, &miss, err);
		} while (err == -EAGAIN);
		if (err)
			break;
		r->now = r->n < REMOVAL_KEYS && klen <= KEY_ROOM;
		if (!r->now)
			break;
		memcpy(r->key[r->n], key, klen);
		r->klen[r->n++] = klen;
		memcpy(from, key, klen);
		flen = klen;
	}
	return err == -ENOENT ? 0 : err;
}

int removal_pin(struct op *op, struct tarn_inode *inode, const struct removal *r)
{
	uint8_t key[KEY_ROOM];
	int err;

	if (!r->now) {
		err = op_pin_inode(op, inode);
		return err ? err : op_pin(op, key, key_u64(key, 0, KEY_ORPHAN, inode->ino));
	}
	err = last_pin(op, inode);
	for (unsigned i = 0; !err && i < r->n; i++)
		err = op_pin(op, r->key[i], r->klen[i]);
	return err;
}

void removal_apply(struct op *op, struct tarn_inode *inode, const struct removal *r)
{
	uint8_t key[KEY_ROOM];
	uint64_t value = ORPHAN_ALL;
	struct inode_record *rec;

	if (r->now) {
		for (unsigned i = 0; i < r->n; i++)
			op_del_unlogged(op, r->key[i], r->klen[i]);
		last_apply(op, inode);
		return;
	}
	rec = op_dirty(op, inode);
	rec->nlink = 0;
	inode_touch(inode, rec, false);
	op_put(op, key, key_u64(key, 0, KEY_ORPHAN, inode->ino), &value, sizeof(value));
	atomic_store(&inode->orphan, true);
}

/* ---- in steps ---- */

/* Takes some keys other than the record away; *more: go on. */
static int remove_some(struct op *op, struct tarn_inode *inode, bool *more)
{
	uint8_t from[KEY_ROOM], key[TREE_KEY_MAX];
	uint32_t flen = key_make(from, inode->ino, KEY_INODE), klen;
	int err = 0;

	*more = true;
	for (unsigned i = 0; !err && i < STEP_KEYS; i++) {
		err = key_after(op_tree(op), inode, from, flen, key, &klen, &op->miss);
		if (!err)
			err = tree_del(&op->tx, op_tree(op), key, klen, &op->miss);
		else if (err == -ENOENT)
			*more = false;
	}
	return err == -ENOENT ? 0 : err;
}

static int remove_last(struct op *op, struct tarn_inode *inode)
{
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_u64(key, 0, KEY_ORPHAN, inode->ino);
	int err = op_pin(op, key, klen);

	if (!err)
		err = last_pin(op, inode);
	if (err)
		return err;
	op_del_unlogged(op, key, klen);
	last_apply(op, inode);
	return 0;
}

/* The dataset is entered anew for each step, so that who waits for it to be left need not
   wait for a large file to go. */
static int remove_step(struct fs *fs, struct tarn_inode *inode, bool *more)
{
	struct op op;
	int err = dataset_enter(fs->ds);

	if (err)
		return err;
	do {
		err = op_begin(&op, fs, TREE_RESERVE(STEP_LEAVES + 3), TX_FREEING);
		if (!err && *more)
			err = remove_some(&op, inode, more);
		if (!err && !*more)
			err = remove_last(&op, inode);
		err = op_end(&op, err);
	} while (err == -EAGAIN);
	dataset_leave(fs->ds);
	return err;
}

/* In the thread, or for somebody who has added to a long queue: then not for ever. */
static int remove_all(struct fs *fs, struct tarn_inode *inode, unsigned patience)
{
	struct pool *pool = fs->ds->pool;
	bool more = true;
	int err;

	for (;;) {
		if (atomic_load(&fs->reaper->stop))
			return -ENXIO;
		err = remove_step(fs, inode, &more);
		if (err == -ENOSPC && patience--)
			err = txg_wait(pool, txg_open(pool)); /* that gives space back */
		else if (err || !more)
			return err;
	}
}

static void reap_inode(struct fs *fs, struct tarn_inode *inode, unsigned patience)
{
	bool mine;
	int err;

	alock_write(&inode->lock);
	mine = !atomic_load(&inode->dead) && atomic_load(&inode->orphan) &&
	       atomic_load(&inode->opens) == 0;
	if (mine)
		atomic_store(&inode->dead, true);
	alock_unlock(&inode->lock);
	if (!mine)
		return;
	err = remove_all(fs, inode, patience);
	/* What is left stays on the list for the next import. */
	if (err && err != -ENXIO && err != -ESTALE && err != -EROFS)
		pool_log(fs->ds->pool, TARN_LOG_ERROR,
			 "dataset %llu: unlinked inode %llu can't be removed now: %s",
			 (unsigned long long)fs->ds->id, (unsigned long long)inode->ino,
			 strerror(-err));
}

/* ---- the thread ---- */

/* The next one on the list in the tree; -ENOENT at its end. */
static int orphan_next(struct fs *fs, uint64_t after, uint64_t *ino, uint64_t *value)
{
	uint8_t from[KEY_ROOM], end[KEY_ROOM], key[TREE_KEY_MAX];
	uint32_t flen = key_u64(from, 0, KEY_ORPHAN, after);
	uint32_t elen = key_make(end, 0, KEY_ORPHAN + 1), klen;
	struct tree_val v;
	struct tree_miss miss;
	int err;

	do {
		err = tree_next(&fs->ds->tree, from, flen, true, end, elen, key, &klen, value,
				sizeof(*value), &v, &miss);
		err = fs_fetch(fs, &miss, err);
	} while (err == -EAGAIN);
	if (err)
		return err;
	tree_val_put(&v);
	if (klen != flen || v.kind != SLOT_VALUE || v.len != sizeof(*value))
		return -EIO;
	*ino = key_get_u64(key);
	return 0;
}

static void reap_scan(struct fs *fs)
{
	uint64_t ino = 0, value;

	while (!atomic_load(&fs->reaper->stop) && !dataset_enter(fs->ds)) {
		struct tarn_inode *inode = NULL;
		int err = orphan_next(fs, ino, &ino, &value);

		if (!err && value == ORPHAN_ALL && inode_get(fs, ino, 0, &inode))
			inode = NULL;
		dataset_leave(fs->ds);
		if (err)
			break;
		if (!inode)
			continue;
		reap_inode(fs, inode, UINT_MAX);
		tarn_inode_put(inode);
	}
}

/* Lock held. */
static struct tarn_inode *queue_pop(struct reaper *r)
{
	struct tarn_inode *inode = r->head;

	if (inode) {
		r->head = inode->reap_next;
		if (!r->head)
			r->tail = &r->head;
		inode->reap_queued = false;
		r->queued--;
	}
	return inode;
}

static void *reaper_main(void *arg)
{
	struct reaper *r = arg;
	struct tarn_inode *inode;

	pthread_mutex_lock(&r->lock);
	while (!atomic_load(&r->stop)) {
		if (r->scan) {
			r->scan = false;
			pthread_mutex_unlock(&r->lock);
			reap_scan(r->fs);
		} else {
			inode = queue_pop(r);
			if (!inode)
				break;
			pthread_mutex_unlock(&r->lock);
			reap_inode(r->fs, inode, UINT_MAX);
			tarn_inode_put(inode);
		}
		pthread_mutex_lock(&r->lock);
	}
	r->running = false;
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* Lock held. Without a thread the work waits for the next call. */
static void reaper_start(struct reaper *r)
{
	if (r->running || atomic_load(&r->stop) || ilog_replaying(r->fs->ds->pool))
		return;
	if (r->started)
		pthread_join(r->thread, NULL);
	r->started = !pthread_create(&r->thread, NULL, reaper_main, r);
	r->running = r->started;
}

void reap_kick(struct tarn_inode *inode)
{
	struct fs *fs = fs_of(inode->ds);
	struct reaper *r = fs->reaper;
	struct tarn_inode *mine = NULL;

	if (atomic_load(&inode->opens))
		return;
	pthread_mutex_lock(&r->lock);
	if (!inode->reap_queued) {
		inode->reap_queued = true;
		inode->reap_next = NULL;
		*r->tail = tarn_inode_ref(inode);
		r->tail = &inode->reap_next;
		r->queued++;
	}
	reaper_start(r);
	if (r->queued > QUEUE_LONG)
		mine = queue_pop(r);
	pthread_mutex_unlock(&r->lock);
	if (mine) {
		reap_inode(fs, mine, HELPER_PATIENCE);
		tarn_inode_put(mine);
	}
}

void reaper_resume(struct fs *fs)
{
	pthread_mutex_lock(&fs->reaper->lock);
	fs->reaper->scan = true;
	reaper_start(fs->reaper);
	pthread_mutex_unlock(&fs->reaper->lock);
}

int inode_purge(struct fs *fs, struct tarn_inode *inode)
{
	atomic_store(&inode->dead, true);
	return remove_all(fs, inode, UINT_MAX);
}

int reaper_create(struct fs *fs, struct reaper **out)
{
	struct reaper *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->fs = fs;
	r->tail = &r->head;
	pthread_mutex_init(&r->lock, NULL);
	*out = r;
	return 0;
}

void reaper_destroy(struct reaper *r)
{
	struct tarn_inode *inode;

	pthread_mutex_lock(&r->lock);
	atomic_store(&r->stop, true);
	pthread_mutex_unlock(&r->lock);
	if (r->started)
		pthread_join(r->thread, NULL);
	while ((inode = queue_pop(r)))
		tarn_inode_put(inode);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

/* ---- after an import ---- */

int reaper_recover(struct fs *fs)
{
	struct reaper *r = fs->reaper;
	uint64_t ino = 0, value;
	int err;

	while (!(err = orphan_next(fs, ino, &ino, &value))) {
		struct tarn_inode *inode;

		if (value == ORPHAN_ALL) {
			r->scan = true;
			continue;
		}
		err = inode_get(fs, ino, 0, &inode);
		if (!err) {
			err = range_free(inode, value, UINT64_MAX); /* and the entry */
			tarn_inode_put(inode);
		}
		if (err)
			return err;
	}
	if (err != -ENOENT)
		return err;
	if (r->scan) {
		pthread_mutex_lock(&r->lock);
		reaper_start(r);
		pthread_mutex_unlock(&r->lock);
	}
	return 0;
}
