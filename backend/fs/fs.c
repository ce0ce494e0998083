// SPDX-License-Identifier: LGPL-3.0-or-later
#include "fs/fs.h"

#include <errno.h>
#include <stdlib.h>

#include "fs/op.h"
#include "pool/ilog.h"

/* ---- the pattern of a change ---- */

int op_begin(struct op *op, struct fs *fs, uint64_t bytes, enum tx_kind kind)
{
	int err;

	op->fs = fs;
	op->npins = op->ntouched = 0;
	op->freed = 0;
	op->redo = (struct redo){0};
	op->token = (struct tarn_commit){0};
	op->open = false;
	err = tx_begin(fs->ds->pool, bytes, kind, &op->tx);
	op->open = !err;
	return err;
}

/* Before anybody else can see what was changed: records come in the order of changes. */
static void op_log(struct op *op)
{
	for (unsigned i = 0; i < op->ntouched; i++)
		redo_inode(&op->redo, op->touched[i]);
	if (op->redo.len || op->redo.failed)
		op->token = redo_commit(&op->redo, op->fs->ds);
	if (op->freed)
		imap_free(op, op->freed);
}

int op_end(struct op *op, int err)
{
	if (op->open)
		op_log(op);
	while (op->npins)
		tree_unpin(&op->pin[--op->npins]);
	if (op->open)
		tx_end(&op->tx);
	return fs_fetch(op->fs, &op->miss, err);
}

int op_pin(struct op *op, const void *key, uint32_t klen)
{
	int err;

	assert(op->npins < OP_PINS);
	err = tree_pin(&op->tx, op_tree(op), key, klen, &op->pin[op->npins], &op->miss);
	if (!err)
		op->npins++;
	return err;
}

int op_pin_inode(struct op *op, struct tarn_inode *inode)
{
	int err;

	assert(op->npins < OP_PINS);
	err = inode_pin(&op->tx, inode, &op->pin[op->npins], &op->miss);
	if (!err)
		op->npins++;
	return err;
}

void op_put_unlogged(struct op *op, const void *key, uint32_t klen, const void *val, uint32_t vlen)
{
	int err = tree_put(&op->tx, op_tree(op), key, klen, val, vlen, &op->miss);

	assert(!err);
	(void)err;
}

void op_del_unlogged(struct op *op, const void *key, uint32_t klen)
{
	int err = tree_del(&op->tx, op_tree(op), key, klen, &op->miss);

	assert(!err || err == -ENOENT);
	(void)err;
}

void op_put(struct op *op, const void *key, uint32_t klen, const void *val, uint32_t vlen)
{
	op_put_unlogged(op, key, klen, val, vlen);
	redo_put(&op->redo, key, klen, val, vlen);
}

void op_del(struct op *op, const void *key, uint32_t klen)
{
	op_del_unlogged(op, key, klen);
	redo_del(&op->redo, key, klen);
}

struct inode_record *op_dirty(struct op *op, struct tarn_inode *inode)
{
	unsigned i = 0;

	while (i < op->ntouched && op->touched[i] != inode)
		i++;
	if (i == op->ntouched) {
		assert(i < OP_INODES);
		op->touched[op->ntouched++] = inode;
	}
	return inode_dirty(&op->tx, inode);
}

int fs_read(struct fs *fs, const void *key, uint32_t klen, void *buf, uint32_t min, uint32_t max,
	    uint32_t *len, struct tree_miss *miss)
{
	struct tree_val v;
	int err = tree_get(&fs->ds->tree, key, klen, buf, max, &v, miss);

	if (err)
		return err;
	if (v.obj) {
		tree_val_put(&v);
		return -EBUSY;
	}
	if (v.kind == SLOT_BLOCK || v.len < min || v.len > max)
		return -EIO;
	*len = v.len;
	return 0;
}

/* ---- life ---- */

static void fs_free(struct fs *fs)
{
	if (fs->reaper)
		reaper_destroy(fs->reaper);
	if (fs->inodes)
		inode_table_drop(fs->inodes);
	if (fs->imap)
		imap_destroy(fs->imap);
	pthread_mutex_destroy(&fs->rename_lock);
	free(fs);
}

static int fs_create(struct tarn_dataset *ds, struct fs **out)
{
	struct fs *fs = calloc(1, sizeof(*fs));
	int err;

	if (!fs)
		return -ENOMEM;
	fs->ds = ds;
	fs->floor = ds->pool->import_counter << 40;
	atomic_init(&fs->next_gen, fs->floor + 1);
	pthread_mutex_init(&fs->rename_lock, NULL);
	err = inode_table_create(&fs->inodes);
	if (!err)
		err = imap_create(fs, &fs->imap);
	if (!err)
		err = reaper_create(fs, &fs->reaper);
	if (err) {
		fs_free(fs);
		return err;
	}
	*out = fs;
	return 0;
}

/* ---- the first content ---- */

static int format_step(struct tarn_dataset *ds, struct tx *tx, struct tree_miss *miss)
{
	uint64_t map[IMAP_PAGE_BYTES / 8];
	struct inode_record rec = {.mode = 0755, .nlink = 2, .type = TARN_DIR};
	uint8_t inode_key[KEY_ROOM], map_key[KEY_ROOM];
	uint32_t inode_klen = key_make(inode_key, ROOT_INO, KEY_INODE);
	uint32_t map_klen = key_u64(map_key, 0, KEY_IMAP, 0);
	struct tree_pin inode_pinned, map_pinned;
	struct tree_val v;
	int err = tree_get(&ds->tree, inode_key, inode_klen, NULL, 0, &v, miss);

	if (!err)
		tree_val_put(&v); /* done before */
	if (err != -ENOENT)
		return err;
	err = tree_pin(tx, &ds->tree, inode_key, inode_klen, &inode_pinned, miss);
	if (err)
		return err;
	err = tree_pin(tx, &ds->tree, map_key, map_klen, &map_pinned, miss);
	if (!err) {
		rec.gen = ds->pool->import_counter << 40;
		rec.change = rec.gen;
		rec.parent = ROOT_INO;
		rec.next_cookie = 3;
		disk_time_now(&rec.btime);
		rec.atime = rec.mtime = rec.ctime = rec.btime;
		imap_format(map);
		err = tree_put(tx, &ds->tree, inode_key, inode_klen, &rec, sizeof(rec), miss);
		if (!err)
			err = tree_put(tx, &ds->tree, map_key, map_klen, map, sizeof(map), miss);
		if (!err)
			dataset_count_inodes(ds, tx, 1);
		ilog_break(ds->pool);
		tree_unpin(&map_pinned);
	}
	tree_unpin(&inode_pinned);
	return err;
}

/* fs_lock held. */
static int format(struct tarn_dataset *ds, uint64_t *txg)
{
	struct tree_miss miss;
	struct tx tx;
	int err;

	do {
		err = tx_begin(ds->pool, TREE_RESERVE(2), TX_NORMAL, &tx);
		if (err)
			return err;
		err = format_step(ds, &tx, &miss);
		*txg = tx.txg;
		tx_end(&tx);
		if (err == -EAGAIN) {
			int failed = tree_fetch(&ds->tree, &miss);

			if (failed)
				return failed;
		}
	} while (err == -EAGAIN);
	return err;
}

int fs_format(struct tarn_dataset *ds)
{
	uint64_t txg;
	int err;

	pthread_mutex_lock(&ds->fs_lock);
	err = format(ds, &txg);
	pthread_mutex_unlock(&ds->fs_lock);
	return err ? err : txg_wait(ds->pool, txg);
}

/* ---- use ---- */

/* A dataset that a crash met between its creation and its formatting. */
static bool is_empty(struct tarn_dataset *ds)
{
	uint8_t from = 0, key[TREE_KEY_MAX];
	struct tree_miss miss;
	struct tree_val v;
	uint32_t klen;
	int err = tree_next(&ds->tree, &from, 1, false, NULL, 0, key, &klen, NULL, 0, &v, &miss);

	if (!err)
		tree_val_put(&v);
	if (err == -EAGAIN)
		tree_miss_drop(&ds->tree, &miss);
	return err == -ENOENT;
}

/* The first thing to be read: whether this is a file system at all. */
static int fs_start(struct fs *fs)
{
	bool writable = !fs->ds->pool->read_only;
	struct tarn_inode *root;
	uint64_t txg;
	int err = inode_get(fs, ROOT_INO, 0, &root);

	if (err == -ESTALE && writable && is_empty(fs->ds)) {
		err = format(fs->ds, &txg);
		if (!err)
			err = inode_get(fs, ROOT_INO, 0, &root);
	}
	if (err == -ESTALE)
		return -EIO;
	if (err)
		return err;
	if (root->type != TARN_DIR)
		err = -EIO;
	tarn_inode_put(root);
	if (!err && writable)
		err = reaper_recover(fs);
	return err;
}

int fs_get(struct tarn_dataset *ds, struct fs **out)
{
	struct fs *fs = fs_of(ds);
	int err = 0;

	if (fs && atomic_load_explicit(&fs->ready, memory_order_acquire)) {
		*out = fs;
		return 0;
	}
	pthread_mutex_lock(&ds->fs_lock);
	fs = fs_of(ds);
	if (!fs)
		err = fs_create(ds, &fs);
	if (!err && !atomic_load(&fs->ready)) {
		/* Inodes find their fs through the dataset. Nobody else has one yet. */
		atomic_store(&ds->fs, fs);
		err = fs_start(fs);
		if (err) {
			atomic_store(&ds->fs, NULL);
			fs_free(fs);
		} else {
			atomic_store_explicit(&fs->ready, true, memory_order_release);
		}
	}
	pthread_mutex_unlock(&ds->fs_lock);
	*out = fs;
	return err;
}

void fs_drop(struct tarn_dataset *ds)
{
	struct fs *fs;

	pthread_mutex_lock(&ds->fs_lock);
	fs = fs_of(ds);
	if (fs) {
		reaper_destroy(fs->reaper);
		fs->reaper = NULL;
		atomic_store(&ds->fs, NULL);
		fs_free(fs);
	}
	pthread_mutex_unlock(&ds->fs_lock);
}
