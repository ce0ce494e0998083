// SPDX-License-Identifier: LGPL-3.0-or-later
#include "fs/data.h"

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>

#include "fs/op.h"
#include "fs/piece.h"
#include "pool/ilog.h"

#define CHANGE_AGAIN 1 /* a change function's: go on with op->next */

struct data_op {
	/* One of these at a time is waiting for something; then a worker calls next(). */
	struct work work;
	struct alock_waiter lock;
	struct tx_waiter throttle;
	struct ilog_waiter commit;
	struct tree_miss miss;
	void (*next)(struct data_op *op);
	atomic_int error; /* of a fetch or read */

	/* What is asked for. */
	struct tarn_inode *inode;
	bool write, strip_suid, stable;
	bool may_use_all;  /* of the space kept back */
	struct source src; /* a read: where to put it */
	uint64_t length;
	void (*done)(struct data_op *op, int err);
	void *owner;

	/* Pieces: n as the plan made them, those before `at` looked up. */
	struct piece *pieces;
	uint32_t npieces, at;
	atomic_uint reading; /* blocks being read, and one while looking */
	struct read_epoch epoch;
	bool missed; /* a read found that op->miss must be fetched before it begins again */

	/* A change, called under the inode's lock in a tx. */
	int (*change)(struct data_op *op, struct tx *tx);
	uint64_t reserve;
	uint64_t hungry_since; /* txg; 0: space was not short */
	uint64_t file_end;     /* zeros up to there: the size when that was planned; or 0 */
	struct dirty *spare;   /* for the record that inline content becomes */

	/* Results. */
	struct tarn_attr post;
	struct tarn_commit token;
	uint64_t transferred;
	bool eof;
};

static struct pool *pool_of(struct data_op *op)
{
	return op->inode->ds->pool;
}

static uint64_t end_of(const struct data_op *op)
{
	return op->src.offset + op->length;
}

/* ---- life, and going on ---- */

static struct data_op *op_new(struct tarn_inode *inode, uint64_t offset, uint64_t length)
{
	struct data_op *op = calloc(1, sizeof(*op));

	if (!op)
		return NULL;
	op->inode = inode;
	op->src.offset = offset;
	op->length = length;
	return op;
}

static void pieces_free(struct data_op *op)
{
	for (uint32_t i = 0; i < op->npieces; i++)
		piece_reset(&op->pieces[i]);
	free(op->pieces);
	op->pieces = NULL;
	op->npieces = 0;
}

static void finish(struct data_op *op, int err)
{
	pieces_free(op);
	if (op->spare)
		slot_obj_unref(&op->spare->obj);
	dataset_leave(op->inode->ds);
	op->done(op, err);
}

static void work_next(struct work *work)
{
	struct data_op *op = (struct data_op *)((char *)work - offsetof(struct data_op, work));

	op->next(op);
}

static void resume(struct data_op *op)
{
	op->work.fn = work_next;
	workq_submit(pool_of(op)->wq, &op->work);
}

static void on_fetched(void *arg, int result)
{
	struct data_op *op = arg;

	if (result)
		atomic_store(&op->error, result);
	resume(op);
}

/* After -EAGAIN from the tree: next(op) runs when what was missing is there, or with op->error. */
static void fetch(struct data_op *op, void (*next)(struct data_op *op))
{
	op->next = next;
	tree_fetch_async(&op->inode->ds->tree, &op->miss, on_fetched, op);
}

static void on_lock(struct alock_waiter *w)
{
	resume((struct data_op *)((char *)w - offsetof(struct data_op, lock)));
}

/* next(op) with the inode's lock held; at once if it is free. */
static void with_lock(struct data_op *op, bool write, void (*next)(struct data_op *op))
{
	op->next = next;
	op->lock.fn = on_lock;
	if (alock_async(&op->inode->lock, write, &op->lock))
		next(op);
}

/* ---- looking up and reading records; for reads and writes ---- */

static void looked(struct data_op *op);

static void on_block(struct cache_read *r)
{
	struct piece *p = (struct piece *)((char *)r - offsetof(struct piece, read));
	struct data_op *op = r->owner;
	const struct cache_data *block = (struct cache_data *)r->obj;

	if (r->result) {
		atomic_store(&op->error, r->result);
	} else if (op->write) {
		p->block_read = true;
	} else {
		piece_give(p, &op->src, block->data, block->length);
		cache_unref(r->obj);
	}
	looked(op);
}

static void read_block(struct data_op *op, struct piece *p, const struct bp *bp)
{
	p->read = (struct cache_read){.bp = *bp, .done = on_block, .owner = op};
	atomic_fetch_add(&op->reading, 1);
	cache_read(op->inode->ds->cache, pool_of(op), &cache_type_data, &p->read);
}

static int look_to_write(struct data_op *op, struct piece *p)
{
	int err;

	if (p->base != PIECE_UNKNOWN)
		return 0;
	err = piece_look(op->inode, p, &op->src, &op->miss);
	if (!err && piece_must_read(p, &op->src))
		read_block(op, p, &p->bp);
	return err;
}

static int look_to_read(struct data_op *op, struct piece *p)
{
	struct tree_val v;
	int err = slot_get(op->inode, p->record, &v, &op->miss);

	if (err)
		return err;
	if (v.obj) {
		struct dirty *d = dirty_of(v.obj);

		pthread_rwlock_rdlock(&d->lock);
		piece_give(p, &op->src, d->bytes, d->length);
		pthread_rwlock_unlock(&d->lock);
	} else if (bp_is_hole(&v.bp) || p->from >= v.bp.lsize) {
		piece_give(p, &op->src, NULL, 0);
	} else {
		read_block(op, p, &v.bp);
	}
	tree_val_put(&v);
	return 0;
}

static void look(struct data_op *op)
{
	while (!atomic_load(&op->error) && op->at < op->npieces) {
		int err = look_to_write(op, &op->pieces[op->at]);

		if (err == -EAGAIN) {
			fetch(op, look);
			return;
		}
		if (err)
			atomic_store(&op->error, err);
		op->at++;
	}
	looked(op);
}

static void look_all(struct data_op *op)
{
	op->at = 0;
	atomic_store(&op->reading, 1);
	op->epoch = read_enter(pool_of(op));
	look(op);
}

static void build(struct data_op *op);
static void read_begin(struct data_op *op);
static void read_end(struct data_op *op);

static void looked(struct data_op *op)
{
	if (atomic_fetch_sub(&op->reading, 1) != 1)
		return;
	read_leave(pool_of(op), op->epoch);
	if (op->missed) {
		pieces_free(op);
		fetch(op, read_begin);
	} else if (atomic_load(&op->error)) {
		finish(op, atomic_load(&op->error));
	} else if (op->write) {
		build(op);
	} else {
		read_end(op);
	}
}

/* ---- read ---- */

static void read_end(struct data_op *op)
{
	inode_accessed(op->inode);
	finish(op, 0);
}

/* Under the lock, so that the content fits the size. */
static int read_inline(struct data_op *op)
{
	uint8_t key[KEY_ROOM], content[INLINE_MAX];
	uint32_t klen = key_make(key, op->inode->ino, KEY_INLINE), len;
	struct piece p = {.to = INLINE_MAX};
	int err = fs_read(fs_of(op->inode->ds), key, klen, content, 0, INLINE_MAX, &len, &op->miss);

	if (err)
		return err == -ENOENT ? -EIO : err;
	if (op->src.offset >= INLINE_MAX) {
		iov_fill(op->src.iov, op->src.iovcnt, 0, NULL, op->transferred);
		return 0;
	}
	p.from = (uint32_t)op->src.offset;
	if (p.to - p.from >= op->transferred)
		p.to = p.from + (uint32_t)op->transferred;
	else
		iov_fill(op->src.iov, op->src.iovcnt, p.to - p.from, NULL,
			 op->transferred - (p.to - p.from));
	piece_give(&p, &op->src, content, len);
	return 0;
}

/* Under the lock: finds all records, and takes along what is in memory. So a read shows one state,
   however many records it covers; what devices are still to bring are that state's blocks, too. */
static int read_pieces(struct data_op *op)
{
	int err = pieces_of(op->src.offset, op->transferred, op->inode->rec.recordsize, &op->pieces,
			    &op->npieces);

	if (err)
		return err;
	atomic_store(&op->reading, 1);
	op->epoch = read_enter(pool_of(op));
	for (uint32_t i = 0; !err && i < op->npieces; i++)
		err = look_to_read(op, &op->pieces[i]);
	op->missed = err == -EAGAIN;
	if (err && !op->missed)
		atomic_store(&op->error, err);
	return 0;
}

static void read_locked(struct data_op *op)
{
	const struct inode_record *rec = &op->inode->rec;
	uint64_t left = rec->size > op->src.offset ? rec->size - op->src.offset : 0;
	bool is_inline = rec->flags & INODE_INLINE;
	int err = atomic_load(&op->inode->dead) ? -ESTALE : 0;

	op->eof = op->length >= left;
	op->transferred = op->eof ? left : op->length;
	if (!err && op->transferred)
		err = is_inline ? read_inline(op) : read_pieces(op);
	alock_unlock(&op->inode->lock);

	if (err == -EAGAIN)
		fetch(op, read_begin);
	else if (err)
		finish(op, err);
	else if (is_inline || !op->transferred)
		read_end(op);
	else
		looked(op);
}

static void read_begin(struct data_op *op)
{
	if (atomic_load(&op->error))
		finish(op, atomic_load(&op->error));
	else
		with_lock(op, false, read_locked);
}

/* ---- changes ---- */

static void on_throttle(struct tx_waiter *w)
{
	resume((struct data_op *)((char *)w - offsetof(struct data_op, throttle)));
}

static void on_commit(struct ilog_waiter *w, int result)
{
	struct data_op *op = (struct data_op *)((char *)w - offsetof(struct data_op, commit));

	atomic_store(&op->error, result);
	resume(op);
}

static void change_end(struct data_op *op)
{
	finish(op, atomic_load(&op->error));
}

static void changed(struct data_op *op)
{
	if (!op->stable) {
		finish(op, 0);
		return;
	}
	op->next = change_end;
	op->commit = (struct ilog_waiter){
	    .txg.txg = op->token.txg, .number = op->token.number, .fn = on_commit};
	ilog_wait_async(pool_of(op), &op->commit);
}

static void change(struct data_op *op);

/* -EAGAIN: not before dirty data is written or space has settled. */
static int enter(struct data_op *op, struct tx *tx)
{
	enum tx_kind kind = op->may_use_all ? pieces_kind(op->pieces, op->npieces) : TX_NORMAL;
	struct pool *pool = pool_of(op);
	int err = tx_try_begin(pool, op->reserve, kind, tx);

	if (err == -ENOBUFS) {
		if (!op->hungry_since)
			op->hungry_since = txg_open(pool);
		err = tx_space_settled(pool, op->hungry_since) ? -ENOSPC : -EAGAIN;
	}
	return err;
}

static void change_locked(struct data_op *op)
{
	bool throttled = false;
	struct tx tx;
	int err = -ESTALE;

	if (!atomic_load(&op->inode->dead)) {
		err = enter(op, &tx);
		throttled = err == -EAGAIN;
		if (!err) {
			err = op->change(op, &tx);
			tx_end(&tx);
		}
	}
	alock_unlock(&op->inode->lock);
	if (throttled) {
		op->next = change;
		op->throttle.fn = on_throttle;
		tx_wait_async(pool_of(op), &op->throttle);
	} else if (err == -EAGAIN) {
		fetch(op, change);
	} else if (err == CHANGE_AGAIN) {
		resume(op);
	} else if (err) {
		finish(op, err);
	} else {
		changed(op);
	}
}

static void change(struct data_op *op)
{
	if (atomic_load(&op->error))
		finish(op, atomic_load(&op->error));
	else
		with_lock(op, true, change_locked);
}

/* In the tx, after the data: all that a write does to its inode. */
static void touch(struct data_op *op, struct tx *tx, struct inode_record *rec)
{
	if (op->src.iov && end_of(op) > rec->size)
		rec->size = end_of(op);
	if (op->strip_suid)
		rec->mode = without_suid(rec->mode);
	inode_touch(op->inode, rec, true);
	inode_attr(op->inode, &op->post);
	op->transferred = op->length;
	unlogged_add(op->inode, tx->txg, op->src.offset, end_of(op));
	op->token = op->stable ? redo_sync(op->inode) : (struct tarn_commit){.txg = tx->txg};
}

/* Records of a truncation that could not be ended would come back into the file. */
static bool exposes_stale(const struct data_op *op)
{
	const struct inode_record *rec = &op->inode->rec;

	return (rec->flags & INODE_TRUNCATED) && op->src.iov && end_of(op) > rec->size;
}

/* ---- write: inline content ---- */

static void plan(struct data_op *op);

static bool goes_inline(const struct data_op *op)
{
	const struct inode_record *rec = &op->inode->rec;

	if (!op->src.iov)
		return rec->flags & INODE_INLINE;
	return end_of(op) <= INLINE_MAX && ((rec->flags & INODE_INLINE) || rec->size == 0);
}

static int get_inline(struct data_op *op, uint8_t *content, uint32_t *len)
{
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_make(key, op->inode->ino, KEY_INLINE);
	int err = fs_read(fs_of(op->inode->ds), key, klen, content, 0, INLINE_MAX, len, &op->miss);

	return err == -ENOENT ? -EIO : err;
}

static void put_inline(struct data_op *op, struct tx *tx, uint8_t *content, uint32_t len)
{
	struct tarn_inode *inode = op->inode;
	struct inode_record *rec = inode_dirty(tx, inode);
	uint64_t from = op->src.offset, to = end_of(op);
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_make(key, inode->ino, KEY_INLINE);
	int err;

	if (op->src.iov) {
		if (from > len)
			memset(content + len, 0, from - len);
		iov_take(op->src.iov, op->src.iovcnt, 0, content + from, to - from);
		if (to > len)
			len = (uint32_t)to;
	} else if (from < len) {
		memset(content + from, 0, (to < len ? to : len) - from);
	}
	rec->flags |= INODE_INLINE;
	err = tree_put(tx, &inode->ds->tree, key, klen, content, len, &op->miss);
	assert(!err);
	(void)err;
	touch(op, tx, rec);
}

static int change_inline(struct data_op *op, struct tx *tx)
{
	struct tarn_inode *inode = op->inode;
	uint8_t key[KEY_ROOM], content[INLINE_MAX];
	uint32_t klen = key_make(key, inode->ino, KEY_INLINE), len = 0;
	struct tree_pin inode_pinned, pinned;
	int err;

	op->next = plan;
	if (!goes_inline(op))
		return CHANGE_AGAIN;
	if (exposes_stale(op))
		return -EIO;
	err = inode_pin(tx, inode, &inode_pinned, &op->miss);
	if (err)
		return err;
	err = tree_pin(tx, &inode->ds->tree, key, klen, &pinned, &op->miss);
	if (!err) {
		if (inode->rec.flags & INODE_INLINE)
			err = get_inline(op, content, &len);
		if (!err)
			put_inline(op, tx, content, len);
		tree_unpin(&pinned);
	}
	tree_unpin(&inode_pinned);
	return err;
}

/* ---- write: inline content becomes a record ---- */

static void move_inline(struct data_op *op, struct tx *tx, uint32_t len)
{
	struct tarn_inode *inode = op->inode;
	struct dirty *d = op->spare;
	struct inode_record *rec = inode_dirty(tx, inode);
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_make(key, inode->ino, KEY_INLINE);
	int err = tree_del(tx, &inode->ds->tree, key, klen, &op->miss);

	assert(!err);
	(void)err;
	rec->flags &= ~(uint32_t)INODE_INLINE;
	memset(d->bytes + len, 0, d->room - len);
	d->length = SECTOR_SIZE;
	klen = key_u64(key, inode->ino, KEY_RECORD, 0);
	dirty_put(d, tx, key, klen);
	slot_obj_unref(&d->obj);
	op->spare = NULL;
}

/* The same content in another form: nothing that anybody could see. */
static int change_form(struct data_op *op, struct tx *tx)
{
	struct tree *tree = &op->inode->ds->tree;
	uint8_t key[KEY_ROOM];
	uint32_t klen, len;
	struct tree_pin pin[3];
	unsigned n = 0;
	int err;

	op->next = plan;
	if (!(op->inode->rec.flags & INODE_INLINE))
		return CHANGE_AGAIN;
	err = inode_pin(tx, op->inode, &pin[n], &op->miss);
	n += !err;
	if (!err) {
		klen = key_make(key, op->inode->ino, KEY_INLINE);
		err = tree_pin(tx, tree, key, klen, &pin[n], &op->miss);
		n += !err;
	}
	if (!err) {
		klen = key_u64(key, op->inode->ino, KEY_RECORD, 0);
		err = tree_pin(tx, tree, key, klen, &pin[n], &op->miss);
		n += !err;
	}
	if (!err)
		err = get_inline(op, op->spare->bytes, &len);
	if (!err)
		move_inline(op, tx, len);
	while (n)
		tree_unpin(&pin[--n]);
	return err ? err : CHANGE_AGAIN;
}

/* ---- write: records ---- */

static int check_pieces(struct data_op *op, struct tx *tx)
{
	bool busy = false;
	int err = 0;

	for (uint32_t i = 0; !err && i < op->npieces; i++)
		err = piece_pin(op->inode, &op->pieces[i], tx, &op->miss);
	for (uint32_t i = 0; !err && i < op->npieces; i++) {
		err = piece_check(op->inode, &op->pieces[i], &op->src, tx, &op->miss);
		if (err == -EBUSY) {
			busy = true;
			err = 0;
		}
	}
	if (!err && busy) {
		op->next = look_all;
		err = CHANGE_AGAIN;
	}
	return err;
}

static int change_records(struct data_op *op, struct tx *tx)
{
	struct tree_pin inode_pinned;
	int err;

	op->next = plan;
	if ((op->inode->rec.flags & INODE_INLINE) ||
	    (op->file_end && op->file_end != op->inode->rec.size))
		return CHANGE_AGAIN;
	if (exposes_stale(op))
		return -EIO;
	err = inode_pin(tx, op->inode, &inode_pinned, &op->miss);
	if (err)
		return err;
	err = check_pieces(op, tx);
	if (!err) {
		struct inode_record *rec = inode_dirty(tx, op->inode);

		for (uint32_t i = 0; i < op->npieces; i++)
			piece_apply(op->inode, &op->pieces[i], &op->src, tx);
		touch(op, tx, rec);
	}
	for (uint32_t i = 0; i < op->npieces; i++)
		piece_unpin(&op->pieces[i]);
	tree_unpin(&inode_pinned);
	return err;
}

static void build(struct data_op *op)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < op->npieces; i++)
		err = piece_build(op->inode, &op->pieces[i], &op->src);
	if (err) {
		finish(op, err);
		return;
	}
	op->change = change_records;
	op->reserve = pieces_reserve(op->pieces, op->npieces);
	change(op);
}

/* ---- write: which way ---- */

static void plan_inline(struct data_op *op)
{
	op->change = change_inline;
	op->reserve = TREE_RESERVE(2);
	change(op);
}

static void plan_form(struct data_op *op, uint32_t recordsize)
{
	uint64_t room = end_of(op) < recordsize ? end_of(op) : recordsize;

	room = (room + SECTOR_SIZE - 1) & ~(uint64_t)(SECTOR_SIZE - 1);
	if (!op->spare)
		op->spare = dirty_new(op->inode, (uint32_t)room);
	if (!op->spare) {
		finish(op, -ENOMEM);
		return;
	}
	op->change = change_form;
	op->reserve = SECTOR_SIZE + TREE_RESERVE(3);
	change(op);
}

static void plan_records(struct data_op *op, uint32_t recordsize)
{
	int err = pieces_of(op->src.offset, op->length, recordsize, &op->pieces, &op->npieces);

	if (err) {
		finish(op, err);
		return;
	}
	/* Zeros follow, so that the last record can be shortened, or go. */
	if (op->file_end)
		op->pieces[op->npieces - 1].to = recordsize;
	look_all(op);
}

static void plan_locked(struct data_op *op)
{
	const struct inode_record *rec = &op->inode->rec;
	bool to_inline = goes_inline(op), is_inline = rec->flags & INODE_INLINE;
	int err = atomic_load(&op->inode->dead) ? -ESTALE : 0;

	if (!op->src.iov && end_of(op) > rec->size)
		op->length = rec->size > op->src.offset ? rec->size - op->src.offset : 0;
	op->file_end = !op->src.iov && end_of(op) == rec->size ? rec->size : 0;
	if (op->length == 0)
		inode_attr(op->inode, &op->post);
	alock_unlock(&op->inode->lock);

	if (err || op->length == 0)
		finish(op, err);
	else if (to_inline)
		plan_inline(op);
	else if (is_inline)
		plan_form(op, rec->recordsize);
	else
		plan_records(op, rec->recordsize);
}

static void plan(struct data_op *op)
{
	pieces_free(op);
	with_lock(op, false, plan_locked);
}

/* ---- public ---- */

static void io_done(struct data_op *op, int err)
{
	struct tarn_io *io = op->owner;

	io->result = err;
	io->transferred = err ? 0 : op->transferred;
	io->eof = op->eof;
	io->post = op->post;
	io->token = op->token;
	free(op);
	io->done(io);
}

static void io_fail(struct tarn_io *io, int err)
{
	io->result = err;
	io->transferred = 0;
	io->eof = false;
	io->token = (struct tarn_commit){0};
	io->done(io);
}

static int io_check(const struct tarn_io *io)
{
	if (io->inode->type == TARN_DIR)
		return -EISDIR;
	if (io->inode->type != TARN_REG)
		return -EINVAL;
	if (io->write && (io->offset > TARN_FILE_MAX || io->length > TARN_FILE_MAX - io->offset))
		return -EFBIG;
	return 0;
}

static struct data_op *io_op(struct tarn_io *io)
{
	struct data_op *op = op_new(io->inode, io->offset, io->length);
	enum dataset_sync sync = io->inode->ds->props.sync;

	if (!op)
		return NULL;
	io->stable |= io->write && sync == SYNC_ALWAYS;
	op->src.iov = io->iov;
	op->src.iovcnt = io->iovcnt;
	op->write = io->write;
	op->stable = io->stable && sync != SYNC_DISABLED;
	op->done = io_done;
	op->owner = io;
	return op;
}

void tarn_read(struct tarn_io *io)
{
	struct fs *fs;
	struct data_op *op = NULL;
	int err = io_check(io);

	if (!err)
		err = fs_enter(io->inode, &fs);
	if (!err) {
		op = io_op(io);
		if (!op) {
			dataset_leave(io->inode->ds);
			err = -ENOMEM;
		}
	}
	if (err)
		io_fail(io, err);
	else
		read_begin(op);
}

void tarn_write(const struct tarn_cred *cred, struct tarn_io *io)
{
	struct fs *fs;
	struct data_op *op = NULL;
	int err = io_check(io);

	if (!err)
		err = fs_enter_write(io->inode, &fs);
	if (!err) {
		op = io_op(io);
		if (!op) {
			dataset_leave(io->inode->ds);
			err = -ENOMEM;
		}
	}
	if (err) {
		io_fail(io, err);
		return;
	}
	op->strip_suid = !cred_super(cred);
	plan(op);
}

struct put_wait {
	sem_t done;
	int err;
	struct tarn_commit token;
};

static void put_done(struct data_op *op, int err)
{
	struct put_wait *wait = op->owner;

	wait->err = err;
	wait->token = op->token;
	free(op);
	sem_post(&wait->done);
}

/* iov NULL: zeros. What is put frees space, or was written before. */
static int put_wait(struct tarn_inode *inode, const struct iovec *iov, uint64_t offset,
		    uint64_t length, bool strip_suid, struct tarn_commit *token)
{
	struct put_wait wait = {0};
	struct data_op *op;
	int err = dataset_enter(inode->ds);

	if (err)
		return err;
	op = op_new(inode, offset, length);
	if (!op) {
		dataset_leave(inode->ds);
		return -ENOMEM;
	}
	sem_init(&wait.done, 0, 0);
	op->write = op->may_use_all = true;
	op->src.iov = iov;
	op->src.iovcnt = iov ? 1 : 0;
	op->strip_suid = strip_suid;
	op->done = put_done;
	op->owner = &wait;
	plan(op);
	while (sem_wait(&wait.done))
		; /* interrupted by a signal */
	sem_destroy(&wait.done);
	if (wait.token.txg)
		*token = wait.token;
	return wait.err;
}

int data_zero(struct tarn_inode *inode, uint64_t offset, uint64_t length, bool strip_suid,
	      struct tarn_commit *token)
{
	return put_wait(inode, NULL, offset, length, strip_suid, token);
}

int data_restore(struct tarn_inode *inode, uint64_t offset, const void *bytes, uint64_t length)
{
	struct iovec iov = {.iov_base = (void *)bytes, .iov_len = length};
	struct tarn_commit token;

	if (inode->type != TARN_REG || offset > TARN_FILE_MAX || length > TARN_FILE_MAX - offset)
		return -EIO;
	return length ? put_wait(inode, &iov, offset, length, false, &token) : 0;
}

/* ---- fsync ---- */

struct sync_wait {
	struct alock_waiter lock;
	struct ilog_waiter waiter;
	struct work work;
	struct tarn_inode *inode; /* referenced */
	int result;
	void (*fn)(void *arg, int result);
	void *arg;
};

static void sync_end(struct work *work)
{
	struct sync_wait *wait =
	    (struct sync_wait *)((char *)work - offsetof(struct sync_wait, work));

	dataset_leave(wait->inode->ds);
	wait->fn(wait->arg, wait->result);
	tarn_inode_put(wait->inode);
	free(wait);
}

static void on_synced(struct ilog_waiter *w, int result)
{
	struct sync_wait *wait =
	    (struct sync_wait *)((char *)w - offsetof(struct sync_wait, waiter));

	wait->result = result;
	wait->work.fn = sync_end;
	workq_submit(wait->inode->ds->pool->wq, &wait->work);
}

/* The last txg that changed the inode, if it is not written yet. Data never changes alone. */
static uint64_t dirty_txg(struct tarn_inode *inode)
{
	uint64_t txg;

	pthread_mutex_lock(&inode->versioned.lock);
	txg = inode->versioned.cur ? inode->versioned.cur->obj.txg : 0;
	pthread_mutex_unlock(&inode->versioned.lock);
	return txg;
}

/* Lock held for writing. Changes of names and attributes are in the log, if not in a txg. */
static void sync_locked(struct sync_wait *wait)
{
	struct tarn_inode *inode = wait->inode;
	struct pool *pool = inode->ds->pool;
	struct tarn_commit token;

	if (inode->unlogged.txg > txg_committed(pool))
		token = redo_sync(inode);
	else
		token.number = ilog_last(pool, &token.txg);
	if (!token.number)
		token.txg = dirty_txg(inode);
	alock_unlock(&inode->lock);
	wait->waiter =
	    (struct ilog_waiter){.txg.txg = token.txg, .number = token.number, .fn = on_synced};
	ilog_wait_async(pool, &wait->waiter);
}

static void sync_work(struct work *work)
{
	sync_locked((struct sync_wait *)((char *)work - offsetof(struct sync_wait, work)));
}

static void on_sync_lock(struct alock_waiter *w)
{
	struct sync_wait *wait = (struct sync_wait *)((char *)w - offsetof(struct sync_wait, lock));

	wait->work.fn = sync_work;
	workq_submit(wait->inode->ds->pool->wq, &wait->work);
}

void tarn_fsync(struct tarn_inode *inode, void (*fn)(void *arg, int result), void *arg)
{
	struct sync_wait *wait = NULL;
	int err = dataset_enter(inode->ds);

	if (err) {
		fn(arg, err);
		return;
	}
	if (inode->ds->props.sync != SYNC_DISABLED &&
	    dirty_txg(inode) > txg_committed(inode->ds->pool)) {
		wait = malloc(sizeof(*wait));
		err = wait ? 0 : -ENOMEM;
	}
	if (!wait) {
		dataset_leave(inode->ds);
		fn(arg, err);
		return;
	}
	*wait = (struct sync_wait){.inode = tarn_inode_ref(inode), .fn = fn, .arg = arg};
	wait->lock.fn = on_sync_lock;
	if (alock_async(&inode->lock, true, &wait->lock))
		sync_locked(wait);
}
