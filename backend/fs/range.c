// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Truncate, punch, allocate, seek. All block; none runs in a worker.
 *
 * Records go in steps of one tx each. A truncation is one change for all to see: its first tx
 * sets the size, zeroes what is left of the last record and frees a first step of records. If
 * there are more, it also marks the inode (INODE_TRUNCATED) and enters it under KEY_ORPHAN, and
 * the last step takes both back. A marked inode does not grow. What else a setattr changes goes
 * into the first tx: all is done, or nothing. A hole is one tx, too, if it is not too large.
 */
#include <errno.h>

#include "fs/data.h"
#include "fs/op.h"
#include "fs/piece.h"
#include "pool/ilog.h"

#define STEP_RECORDS 128
#define PUNCH_RECORDS 256 /* of a hole that is made in one tx */

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* ---- freeing records ---- */

static uint32_t range_end(uint8_t key[KEY_ROOM], uint64_t ino, uint64_t to)
{
	if (to == UINT64_MAX)
		return key_make(key, ino, KEY_RECORD + 1);
	return key_u64(key, ino, KEY_RECORD, to);
}

/* Frees records of [*from, to), at most a step of them; *more: there may be others. In the tx,
   inode dirty. On -EAGAIN what was freed before stays so, and *from tells how far that is. */
static int free_some(struct op *op, struct tarn_inode *inode, uint64_t *from, uint64_t to,
		     bool *more)
{
	uint8_t start[KEY_ROOM], end[KEY_ROOM], key[TREE_KEY_MAX];
	uint32_t elen = range_end(end, inode->ino, to), slen, klen;
	struct tree_val v;
	int err = 0;

	*more = true;
	for (unsigned i = 0; !err && i < STEP_RECORDS; i++) {
		slen = key_u64(start, inode->ino, KEY_RECORD, *from);
		err = tree_next(op_tree(op), start, slen, false, end, elen, key, &klen, NULL, 0, &v,
				&op->miss);
		if (err == -ENOENT) {
			*more = false;
			return 0;
		}
		if (err)
			return err;
		err = klen == slen && v.kind == SLOT_BLOCK
			  ? tree_del(&op->tx, op_tree(op), key, klen, &op->miss)
			  : -EIO;
		if (!err) {
			inode_space_add(inode, -(int64_t)slot_discharge(&v));
			*from = key_get_u64(key) + 1;
		}
		tree_val_put(&v);
	}
	return err;
}

static int orphan_pin(struct op *op, struct tarn_inode *inode)
{
	uint8_t key[KEY_ROOM];

	return op_pin(op, key, key_u64(key, 0, KEY_ORPHAN, inode->ino));
}

/* The list of unlinked inodes has its own entry for one with nlink 0, which stays. */
static void mark_truncated(struct op *op, struct tarn_inode *inode, struct inode_record *rec)
{
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_u64(key, 0, KEY_ORPHAN, inode->ino);

	if (rec->nlink > 0)
		op_put_unlogged(op, key, klen, &rec->size, sizeof(rec->size));
	rec->flags |= INODE_TRUNCATED;
}

static void unmark_truncated(struct op *op, struct tarn_inode *inode, struct inode_record *rec)
{
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_u64(key, 0, KEY_ORPHAN, inode->ino);

	if (rec->nlink > 0)
		op_del_unlogged(op, key, klen);
	rec->flags &= ~(uint32_t)INODE_TRUNCATED;
}

struct free_range {
	uint64_t from, to;
	bool touch;      /* the first step changes times, */
	bool strip_suid; /* and mode */
	bool more;
};

static int free_step(struct fs *fs, struct tarn_inode *inode, struct free_range *r, uint64_t *txg)
{
	struct op op;
	struct inode_record *rec;
	int err = op_begin(&op, fs, RECORDS_RESERVE(STEP_RECORDS), TX_FREEING);

	if (!err)
		err = op_pin_inode(&op, inode);
	if (!err)
		err = orphan_pin(&op, inode);
	if (!err) {
		rec = inode_dirty(&op.tx, inode);
		/* A truncation is in the log as a whole; what is punched must be committed. */
		if (r->to != UINT64_MAX)
			ilog_break(op.tx.pool);
		if (r->touch)
			inode_touch(inode, rec, true);
		if (r->touch && r->strip_suid)
			rec->mode = without_suid(rec->mode);
		r->touch = false;
		*txg = op.tx.txg;
		err = free_some(&op, inode, &r->from, r->to, &r->more);
		if (!r->more && r->to == UINT64_MAX && (rec->flags & INODE_TRUNCATED))
			unmark_truncated(&op, inode, rec);
	}
	return op_end(&op, err);
}

int range_free(struct tarn_inode *inode, uint64_t from, uint64_t to)
{
	struct fs *fs = fs_of(inode->ds);
	struct free_range r = {.from = from, .to = to, .more = true};
	uint64_t txg;
	int err = 0;

	while (r.more && (!err || err == -EAGAIN))
		err = free_step(fs, inode, &r, &txg);
	return err;
}

/* ---- truncate ---- */

/* With the rest of a setattr, if there is any. */
struct resize {
	uint64_t size;
	const struct attr_change *rest; /* or NULL */
};

static uint64_t resize_reserve(const struct resize *r)
{
	return r->rest && r->rest->set_acl ? ATTR_RESERVE : TREE_RESERVE(1);
}

static int resize_pin(struct op *op, struct tarn_inode *inode, const struct resize *r)
{
	return r->rest ? attr_pin(op, inode, r->rest) : op_pin_inode(op, inode);
}

static void resized(struct op *op, struct tarn_inode *inode, const struct resize *r)
{
	struct inode_record *rec = op_dirty(op, inode);

	rec->size = r->size;
	inode_touch(inode, rec, true);
	if (r->rest)
		attr_make(op, inode, r->rest);
}

static int set_size(struct fs *fs, struct tarn_inode *inode, const struct resize *r,
		    struct tarn_commit *token)
{
	struct op op;
	int err;

	do {
		/* Alone only at replay: then it was done before. */
		err = op_begin(&op, fs, resize_reserve(r), r->rest ? TX_NORMAL : TX_FREEING);
		if (!err)
			err = resize_pin(&op, inode, r);
		if (!err)
			resized(&op, inode, r);
		err = op_end(&op, err);
		op_token(&op, token);
	} while (err == -EAGAIN);
	return err;
}

static int shrink_inline_step(struct op *op, struct tarn_inode *inode, const struct resize *r)
{
	uint8_t key[KEY_ROOM], content[INLINE_MAX];
	uint32_t klen = key_make(key, inode->ino, KEY_INLINE), len;
	struct inode_record *rec;
	int err = resize_pin(op, inode, r);

	if (!err)
		err = op_pin(op, key, klen);
	if (!err)
		err = fs_read(op->fs, key, klen, content, 0, INLINE_MAX, &len, &op->miss);
	if (err)
		return err == -ENOENT ? -EIO : err;
	rec = op_dirty(op, inode);
	if (r->size == 0) {
		op_del_unlogged(op, key, klen);
		rec->flags &= ~(uint32_t)INODE_INLINE;
	} else if (len > r->size) {
		op_put_unlogged(op, key, klen, content, (uint32_t)r->size);
	}
	redo_truncate(&op->redo, inode->ino, r->size);
	resized(op, inode, r);
	return 0;
}

static int shrink_inline(struct fs *fs, struct tarn_inode *inode, const struct resize *r,
			 struct tarn_commit *token)
{
	struct op op;
	int err;

	do {
		err = op_begin(&op, fs, TREE_RESERVE(1) + resize_reserve(r), TX_FREEING);
		if (!err)
			err = shrink_inline_step(&op, inode, r);
		err = op_end(&op, err);
		op_token(&op, token);
	} while (err == -EAGAIN);
	return err;
}

/* What the record with the new end becomes. The read, if the file was not read just now, is the
   only one of a device under an inode's lock. */
static int prepare_tail(struct fs *fs, struct tarn_inode *inode, struct piece *tail,
			const struct source *zeros)
{
	struct pool *pool = fs->ds->pool;
	struct read_epoch epoch;
	struct tree_miss miss;
	int err;

	do {
		epoch = read_enter(pool);
		err = piece_look(inode, tail, zeros, &miss);
		if (!err && piece_must_read(tail, zeros)) {
			err = cache_read_wait(fs->ds->cache, pool, &cache_type_data, &tail->bp,
					      &tail->read.obj);
			tail->block_read = !err;
		}
		read_leave(pool, epoch);
		err = fs_fetch(fs, &miss, err);
	} while (err == -EAGAIN);
	return err ? err : piece_build(inode, tail, zeros);
}

static int shrink_step(struct op *op, struct tarn_inode *inode, struct piece *tail,
		       const struct source *zeros, struct free_range *beyond,
		       const struct resize *r)
{
	int err = resize_pin(op, inode, r);

	if (!err)
		err = orphan_pin(op, inode);
	if (!err)
		err = piece_pin(inode, tail, &op->tx, &op->miss);
	if (!err)
		err = piece_check(inode, tail, zeros, &op->tx, &op->miss);
	if (err)
		return err;
	op_dirty(op, inode);
	piece_apply(inode, tail, zeros, &op->tx);
	redo_truncate(&op->redo, inode->ino, r->size);
	resized(op, inode, r);
	err = free_some(op, inode, &beyond->from, beyond->to, &beyond->more);
	if (beyond->more)
		mark_truncated(op, inode, &inode->rec);
	return err;
}

static int shrink_records(struct fs *fs, struct tarn_inode *inode, const struct resize *r,
			  struct tarn_commit *token)
{
	uint32_t rs = inode->rec.recordsize;
	uint64_t size = r->size;
	struct source zeros = {.offset = size};
	struct piece tail = {.record = size - size % rs, .from = (uint32_t)(size % rs), .to = rs};
	struct free_range beyond = {.from = tail.record + (tail.from ? rs : 0), .to = UINT64_MAX};
	struct op op;
	int err;

	do {
		err = prepare_tail(fs, inode, &tail, &zeros);
		if (err)
			break;
		err = op_begin(&op, fs,
			       pieces_reserve(&tail, 1) + RECORDS_RESERVE(STEP_RECORDS) +
				   resize_reserve(r),
			       pieces_kind(&tail, 1));
		if (!err)
			err = shrink_step(&op, inode, &tail, &zeros, &beyond, r);
		piece_unpin(&tail);
		err = op_end(&op, err);
		op_token(&op, token);
	} while ((err == -EAGAIN || err == -EBUSY) && inode->rec.size != size);
	piece_reset(&tail);
	if ((!err || err == -EAGAIN) && beyond.more)
		err = range_free(inode, beyond.from, beyond.to);
	/* It is done for all to see; what is left goes before the file grows, or at the next
	   import. */
	return err == -ENOSPC && inode->rec.size == size ? 0 : err;
}

int range_resize(struct tarn_inode *inode, uint64_t size, const struct attr_change *rest,
		 struct tarn_commit *token)
{
	struct resize r = {.size = size, .rest = rest};
	struct fs *fs = fs_of(inode->ds);
	struct inode_record *rec = &inode->rec;
	int err = 0;

	if (inode->type != TARN_REG)
		return inode->type == TARN_DIR ? -EISDIR : -EINVAL;
	if (size > TARN_FILE_MAX)
		return -EFBIG;
	if (rec->flags & INODE_TRUNCATED)
		err = range_free(inode, round_up(rec->size, rec->recordsize), UINT64_MAX);
	if (err)
		return err;
	if (size >= rec->size)
		return set_size(fs, inode, &r, token);
	if (rec->flags & INODE_INLINE)
		return shrink_inline(fs, inode, &r, token);
	return shrink_records(fs, inode, &r, token);
}

int range_truncate(struct tarn_inode *inode, uint64_t size, struct tarn_commit *token)
{
	return range_resize(inode, size, NULL, token);
}

/* ---- punch ---- */

static int punch_records(struct fs *fs, struct tarn_inode *inode, struct free_range *r,
			 struct tarn_commit *token)
{
	int err = 0;

	/* The lock is free between the steps: nobody waits for the whole of a large range. */
	do {
		alock_write(&inode->lock);
		err = atomic_load(&inode->dead) ? -ESTALE : free_step(fs, inode, r, &token->txg);
		alock_unlock(&inode->lock);
	} while (err == -EAGAIN || (!err && r->more));
	return err;
}

/* More records than a hole makes in one tx: the edges, then steps. With an error, or after a cut, a
   part of it may be done. */
static int punch_large(struct fs *fs, struct tarn_inode *inode, uint64_t offset, uint64_t end,
		       bool strip_suid, struct tarn_commit *token)
{
	uint32_t rs = inode->rec.recordsize;
	struct free_range r = {.from = round_up(offset, rs),
			       .to = end - end % rs,
			       .touch = true,
			       .strip_suid = strip_suid};
	int err = 0;

	/* They need space, and if there is none, nothing has changed. */
	if (offset < r.from)
		err = data_zero(inode, offset, r.from - offset, strip_suid, token);
	if (!err && end > r.to)
		err = data_zero(inode, r.to, end - r.to, strip_suid, token);
	return err ? err : punch_records(fs, inode, &r, token);
}

static int punch(const struct tarn_cred *cred, struct fs *fs, struct tarn_inode *inode,
		 uint64_t offset, uint64_t length, struct tarn_commit *token)
{
	uint64_t size, end, most;
	bool is_inline, strip_suid = !cred_super(cred);
	int err = 0;

	alock_read(&inode->lock);
	size = inode->rec.size;
	is_inline = inode->rec.flags & INODE_INLINE;
	err = atomic_load(&inode->dead) ? -ESTALE : 0;
	alock_unlock(&inode->lock);
	if (err || offset >= size)
		return err;
	end = length < size - offset ? offset + length : size;
	/* Beyond what lies inline is a hole already; times and suid are to change. */
	most = offset < INLINE_MAX ? INLINE_MAX : offset + 1;
	if (is_inline && end > most)
		end = most;
	if ((end - offset) / inode->rec.recordsize > PUNCH_RECORDS)
		return punch_large(fs, inode, offset, end, strip_suid, token);
	return data_zero(inode, offset, end - offset, strip_suid, token);
}

static int range_check(struct tarn_inode *inode, uint64_t length)
{
	if (inode->type != TARN_REG)
		return inode->type == TARN_DIR ? -EISDIR : -EINVAL;
	if (length == 0)
		return -EINVAL;
	return 0;
}

int tarn_punch(const struct tarn_cred *cred, struct tarn_inode *inode, uint64_t offset,
	       uint64_t length, struct tarn_commit *token)
{
	struct fs *fs;
	int err = range_check(inode, length);

	*token = (struct tarn_commit){0};
	if (!err)
		err = fs_enter_write(inode, &fs);
	if (err)
		return err;
	err = punch(cred, fs, inode, offset, length, token);
	dataset_leave(inode->ds);
	return err;
}

/* ---- seek ---- */

struct stretch {
	uint64_t from, to; /* data; both TARN_FILE_MAX at the end */
};

/* The first stretch of data of one record that ends after offset. */
static int next_data(struct fs *fs, struct tarn_inode *inode, uint64_t offset, struct stretch *e)
{
	uint8_t start[KEY_ROOM], end[KEY_ROOM], key[TREE_KEY_MAX];
	uint32_t rs = inode->rec.recordsize;
	uint32_t elen = key_make(end, inode->ino, KEY_RECORD + 1), slen, klen;
	uint64_t record = offset - offset % rs;
	struct tree_val v;
	struct tree_miss miss;
	int err;

	for (;;) {
		slen = key_u64(start, inode->ino, KEY_RECORD, record);
		err = tree_next(&fs->ds->tree, start, slen, false, end, elen, key, &klen, NULL, 0,
				&v, &miss);
		err = fs_fetch(fs, &miss, err);
		if (err == -EAGAIN)
			continue;
		if (err == -ENOENT) {
			*e = (struct stretch){TARN_FILE_MAX, TARN_FILE_MAX};
			return 0;
		}
		if (err)
			return err;
		e->from = e->to = record = key_get_u64(key);
		if (v.obj)
			e->to += dirty_length(dirty_of(v.obj));
		else if (v.kind == SLOT_BLOCK && !bp_is_hole(&v.bp))
			e->to += v.bp.lsize;
		tree_val_put(&v);
		if (e->to > e->from && e->to > offset)
			return 0;
		record++;
	}
}

static int seek(struct fs *fs, struct tarn_inode *inode, uint64_t offset, bool hole, uint64_t size,
		uint64_t *out)
{
	struct stretch e;
	int err;

	for (;;) {
		err = next_data(fs, inode, offset, &e);
		if (err)
			return err;
		if (!hole) {
			*out = e.from > offset ? e.from : offset;
			return 0;
		}
		if (e.from > offset || offset >= size) {
			*out = offset < size ? offset : size;
			return 0;
		}
		offset = e.to;
	}
}

int tarn_seek(struct tarn_inode *inode, uint64_t offset, bool hole, uint64_t *out, bool *eof)
{
	struct fs *fs;
	uint64_t size;
	bool is_inline;
	int err;

	if (inode->type != TARN_REG)
		return inode->type == TARN_DIR ? -EISDIR : -EINVAL;
	err = fs_enter(inode, &fs);
	if (err)
		return err;
	alock_read(&inode->lock);
	size = inode->rec.size;
	is_inline = inode->rec.flags & INODE_INLINE;
	err = atomic_load(&inode->dead) ? -ESTALE : 0;
	alock_unlock(&inode->lock);

	*eof = offset >= size;
	*out = size;
	if (!err && !*eof) {
		if (is_inline)
			/* As data from end to end: small enough. */
			*out = hole ? size : offset;
		else
			err = seek(fs, inode, offset, hole, size, out);
		*eof = !hole && *out >= size;
	}
	dataset_leave(inode->ds);
	return err;
}

/* ---- allocate ---- */

/* Bytes of the range that are no data yet. */
static int missing(struct fs *fs, struct tarn_inode *inode, uint64_t offset, uint64_t end,
		   uint64_t *bytes)
{
	struct stretch e;
	int err = 0;

	*bytes = 0;
	while (offset < end) {
		err = next_data(fs, inode, offset, &e);
		if (err)
			break;
		if (e.from > offset)
			*bytes += (e.from < end ? e.from : end) - offset;
		offset = e.to;
	}
	return err;
}

/*
 * New data always takes new space, so no block can be set aside for a range. What can be had is
 * an answer now: -ENOSPC if the pool has no room for it.
 */
static int allocate(struct fs *fs, const struct tarn_cred *cred, struct tarn_inode *inode,
		    uint64_t offset, uint64_t end, struct tarn_commit *token)
{
	struct tarn_setattr set = {.mask = TARN_SET_SIZE, .size = end};
	struct pool_space space;
	uint64_t bytes;
	int err = missing(fs, inode, offset, end, &bytes);

	if (err)
		return err;
	pool_space(fs->ds->pool, &space);
	if (bytes > space.avail)
		return -ENOSPC;
	alock_write(&inode->lock);
	/* Like a write: times change and suid goes, also if the size stays. */
	if (end < inode->rec.size)
		set.size = inode->rec.size;
	err = attr_set(fs, cred, inode, &set, token);
	alock_unlock(&inode->lock);
	return err;
}

int tarn_allocate(const struct tarn_cred *cred, struct tarn_inode *inode, uint64_t offset,
		  uint64_t length, struct tarn_commit *token)
{
	struct fs *fs;
	int err = range_check(inode, length);

	*token = (struct tarn_commit){0};
	if (!err && (offset > TARN_FILE_MAX || length > TARN_FILE_MAX - offset))
		err = -EFBIG;
	if (!err)
		err = fs_enter_write(inode, &fs);
	if (err)
		return err;
	err = allocate(fs, cred, inode, offset, offset + length, token);
	dataset_leave(inode->ds);
	return err;
}
