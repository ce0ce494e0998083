// SPDX-License-Identifier: LGPL-3.0-or-later
#include "fs/piece.h"

#include <errno.h>
#include <stdlib.h>

#include "fs/key.h"
#include "pool/pool.h"

/* ---- bytes ---- */

/* The stretch of memory at *skip bytes into the iovec, at most *length long; takes both on. */
static void *iov_next(const struct iovec **iov, int *iovcnt, uint64_t *skip, size_t *length,
		      size_t *n)
{
	uint8_t *at;

	while (*skip >= (*iov)->iov_len) {
		*skip -= (*iov)->iov_len;
		(*iov)++;
		(*iovcnt)--;
		assert(*iovcnt > 0);
	}
	at = (uint8_t *)(*iov)->iov_base + *skip;
	*n = (*iov)->iov_len - *skip;
	if (*n > *length)
		*n = *length;
	*skip += *n;
	*length -= *n;
	return at;
}

void iov_fill(const struct iovec *iov, int iovcnt, uint64_t skip, const void *from, size_t length)
{
	while (length) {
		size_t n;
		void *at = iov_next(&iov, &iovcnt, &skip, &length, &n);

		if (from) {
			memcpy(at, from, n);
			from = (const uint8_t *)from + n;
		} else {
			memset(at, 0, n);
		}
	}
}

void iov_take(const struct iovec *iov, int iovcnt, uint64_t skip, void *to, size_t length)
{
	while (length) {
		size_t n;
		void *at = iov_next(&iov, &iovcnt, &skip, &length, &n);

		memcpy(to, at, n);
		to = (uint8_t *)to + n;
	}
}

static uint32_t sector_up(uint32_t n)
{
	return (n + SECTOR_SIZE - 1) & ~(SECTOR_SIZE - 1);
}

/* The record's length after the change of one that was `old` long. */
static uint32_t length_after(const struct piece *p, const struct source *src, uint32_t old)
{
	uint32_t end = sector_up(src->iov ? p->to : p->from);

	if (src->iov)
		return end > old ? end : old;
	return p->to >= old && end < old ? end : old;
}

/* ---- pieces and slots ---- */

int pieces_of(uint64_t offset, uint64_t length, uint32_t recordsize, struct piece **out,
	      uint32_t *count)
{
	uint64_t first = offset / recordsize, last = (offset + length - 1) / recordsize;
	uint64_t n = last - first + 1;
	struct piece *pieces;

	if (n > UINT32_MAX)
		return -ENOMEM;
	pieces = calloc(n, sizeof(*pieces));
	if (!pieces)
		return -ENOMEM;
	for (uint64_t i = 0; i < n; i++) {
		pieces[i].record = (first + i) * recordsize;
		pieces[i].to = recordsize;
	}
	pieces[0].from = (uint32_t)(offset - pieces[0].record);
	pieces[n - 1].to = (uint32_t)(offset + length - pieces[n - 1].record);
	*out = pieces;
	*count = (uint32_t)n;
	return 0;
}

static void drop_block(struct piece *p)
{
	if (p->block_read)
		cache_unref(p->read.obj);
	p->block_read = false;
}

void piece_reset(struct piece *p)
{
	drop_block(p);
	if (p->dirty)
		slot_obj_unref(&p->dirty->obj);
	if (p->fresh)
		slot_obj_unref(&p->fresh->obj);
	p->dirty = p->fresh = NULL;
	p->base = PIECE_UNKNOWN;
	p->built = false;
	p->growth = 0;
}

int slot_get(struct tarn_inode *inode, uint64_t record, struct tree_val *v, struct tree_miss *miss)
{
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_u64(key, inode->ino, KEY_RECORD, record);
	int err = tree_get(&inode->ds->tree, key, klen, NULL, 0, v, miss);
	const struct bp *bp = &v->bp;

	if (err == -ENOENT) {
		*v = (struct tree_val){.kind = SLOT_BLOCK};
		return 0;
	}
	if (err)
		return err;
	if (v->kind != SLOT_BLOCK) {
		tree_val_put(v);
		return -EIO;
	}
	if (!v->obj && !bp_is_hole(bp) &&
	    (bp->type != BP_DATA || bp->level || bp->lsize > inode->rec.recordsize))
		return -EIO;
	return 0;
}

uint32_t slot_discharge(const struct tree_val *v)
{
	return v->obj ? dirty_replace(dirty_of(v->obj)) : bp_sectors(&v->bp) << SECTOR_SHIFT;
}

void piece_give(const struct piece *p, const struct source *to, const uint8_t *bytes,
		uint32_t length)
{
	uint64_t skip = p->record + p->from - to->offset;
	uint32_t n = p->to - p->from, there = length > p->from ? length - p->from : 0;

	if (there > n)
		there = n;
	if (there)
		iov_fill(to->iov, to->iovcnt, skip, bytes + p->from, there);
	iov_fill(to->iov, to->iovcnt, skip + there, NULL, n - there);
}

/* ---- looking and building ---- */

int piece_look(struct tarn_inode *inode, struct piece *p, const struct source *src,
	       struct tree_miss *miss)
{
	struct tree_val v;
	int err;

	piece_reset(p);
	if (src->iov && p->from == 0 && p->to == inode->rec.recordsize) {
		p->base = PIECE_ANY;
		return 0;
	}
	err = slot_get(inode, p->record, &v, miss);
	if (err)
		return err;
	if (v.obj) {
		p->base = PIECE_DIRTY;
		p->dirty = dirty_of(v.obj);
	} else {
		p->base = PIECE_BLOCK;
		p->bp = v.bp;
	}
	return 0;
}

static uint32_t base_length(const struct piece *p)
{
	if (p->base == PIECE_DIRTY)
		return dirty_length(p->dirty);
	return p->base == PIECE_BLOCK && !bp_is_hole(&p->bp) ? p->bp.lsize : 0;
}

bool piece_must_read(const struct piece *p, const struct source *src)
{
	if (p->base != PIECE_BLOCK || bp_is_hole(&p->bp))
		return false;
	if (!src->iov && p->from >= p->bp.lsize)
		return false;
	return p->from > 0 || p->to < p->bp.lsize;
}

/* The record's bytes up to its room: the base's [0, old), then zeros, the source over both. */
static void compose(const struct piece *p, const struct source *src, struct dirty *d,
		    const uint8_t *base, uint32_t old)
{
	uint32_t head = old < p->from ? old : p->from;
	uint32_t end = p->to < d->room ? p->to : d->room;

	if (head)
		memcpy(d->bytes, base, head);
	memset(d->bytes + head, 0, p->from - head);
	if (src->iov)
		iov_take(src->iov, src->iovcnt, p->record + p->from - src->offset,
			 d->bytes + p->from, p->to - p->from);
	else
		memset(d->bytes + p->from, 0, end - p->from);
	if (old > p->to) {
		memcpy(d->bytes + p->to, base + p->to, old - p->to);
		end = old;
	}
	memset(d->bytes + end, 0, d->room - end);
}

static int build_fresh(struct tarn_inode *inode, struct piece *p, const struct source *src,
		       uint32_t old, uint32_t length)
{
	struct dirty *d = dirty_new(inode, length);

	if (!d)
		return -ENOMEM;
	if (p->base == PIECE_DIRTY) {
		pthread_rwlock_rdlock(&p->dirty->lock);
		compose(p, src, d, p->dirty->bytes, old);
		pthread_rwlock_unlock(&p->dirty->lock);
	} else if (p->block_read) {
		compose(p, src, d, ((struct cache_data *)p->read.obj)->data, old);
	} else {
		/* Nothing of the base is left. */
		assert(old == 0 || (p->from == 0 && p->to >= old));
		compose(p, src, d, NULL, 0);
	}
	d->length = length;
	p->fresh = d;
	p->action = PIECE_PUT;
	return 0;
}

/* A dirty record of what seemed to be the open txg: it is changed under the lock. */
static int build_in_place(struct tarn_inode *inode, struct piece *p, uint32_t old, uint32_t length)
{
	uint32_t room = old * 2 > length ? old * 2 : length;

	p->action = PIECE_IN_PLACE;
	p->growth = length > old ? length - old : 0;
	if (length <= p->dirty->room)
		return 0;
	if (room > inode->rec.recordsize)
		room = inode->rec.recordsize;
	p->action = PIECE_GROW;
	p->fresh = dirty_new(inode, room);
	return p->fresh ? 0 : -ENOMEM;
}

int piece_build(struct tarn_inode *inode, struct piece *p, const struct source *src)
{
	uint32_t old = base_length(p), length = length_after(p, src, old);
	int err = 0;

	if (p->built)
		return 0;
	if (!src->iov && p->from >= old)
		p->action = PIECE_NOTHING;
	else if (length == 0)
		p->action = PIECE_REMOVE;
	else if (p->base == PIECE_DIRTY && p->dirty->obj.txg >= txg_open(inode->ds->pool))
		err = build_in_place(inode, p, old, length);
	else
		err = build_fresh(inode, p, src, old, length);
	drop_block(p);
	p->built = !err;
	return err;
}

/* ---- changing ---- */

uint64_t pieces_reserve(const struct piece *p, uint32_t n)
{
	uint64_t bytes = 0;
	bool in_place = true;

	for (uint32_t i = 0; i < n; i++) {
		if (p[i].action == PIECE_PUT)
			bytes += p[i].fresh->length;
		else
			bytes += p[i].growth;
		in_place = in_place && p[i].action == PIECE_IN_PLACE;
	}
	/* With a record of this txg, its inode and leaf are of this txg, too. */
	return in_place ? bytes : bytes + RECORDS_RESERVE(n);
}

enum tx_kind pieces_kind(const struct piece *p, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (p[i].action == PIECE_PUT || p[i].growth)
			return TX_ZEROING;
	}
	return TX_FREEING;
}

int piece_pin(struct tarn_inode *inode, struct piece *p, struct tx *tx, struct tree_miss *miss)
{
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_u64(key, inode->ino, KEY_RECORD, p->record);
	int err = tree_pin(tx, &inode->ds->tree, key, klen, &p->pin, miss);

	p->pinned = !err;
	return err;
}

void piece_unpin(struct piece *p)
{
	if (p->pinned) {
		tree_unpin(&p->pin);
		tree_val_put(&p->now);
		p->now = (struct tree_val){0};
	}
	p->pinned = false;
}

static bool same_base(const struct piece *p)
{
	const struct tree_val *now = &p->now;

	switch (p->base) {
	case PIECE_ANY:
		return true;
	case PIECE_BLOCK:
		return !now->obj && !memcmp(&now->bp, &p->bp, sizeof(now->bp));
	case PIECE_DIRTY:
		if (atomic_load(&p->dirty->obj.committed) && !now->obj)
			return !memcmp(&now->bp, &p->dirty->obj.bp, sizeof(now->bp));
		return now->obj == &p->dirty->obj;
	default:
		return false;
	}
}

/* The inode's lock is held: nobody else changes the record. */
static bool still_fits(const struct piece *p, const struct source *src, uint64_t txg)
{
	uint32_t old = base_length(p), length = length_after(p, src, old);
	uint32_t growth = length > old ? length - old : 0;

	switch (p->action) {
	case PIECE_NOTHING:
		return p->from >= old;
	case PIECE_REMOVE:
		return length == 0;
	case PIECE_IN_PLACE:
		return p->dirty->obj.txg == txg && length > 0 && length <= p->dirty->room &&
		       growth <= p->growth && (src->iov || p->from < old);
	case PIECE_GROW:
		return p->dirty->obj.txg == txg && length > 0 && length <= p->fresh->room &&
		       growth <= p->growth;
	case PIECE_PUT:
		return p->base != PIECE_DIRTY || p->dirty->obj.txg != txg;
	}
	return false;
}

int piece_check(struct tarn_inode *inode, struct piece *p, const struct source *src, struct tx *tx,
		struct tree_miss *miss)
{
	int err;

	if (p->base == PIECE_UNKNOWN)
		return -EBUSY;
	err = slot_get(inode, p->record, &p->now, miss);
	if (err) {
		p->now = (struct tree_val){0};
		return err;
	}
	if (!same_base(p) || !still_fits(p, src, tx->txg)) {
		piece_reset(p);
		return -EBUSY;
	}
	return 0;
}

static void apply_in_place(struct tarn_inode *inode, struct piece *p, const struct source *src,
			   struct tx *tx)
{
	struct dirty *d = p->dirty;
	uint32_t old = d->length;

	pthread_rwlock_wrlock(&d->lock);
	d->length = length_after(p, src, old);
	if (src->iov)
		iov_take(src->iov, src->iovcnt, p->record + p->from - src->offset,
			 d->bytes + p->from, p->to - p->from);
	else
		memset(d->bytes + p->from, 0, (p->to < old ? p->to : old) - p->from);
	if (d->length > old)
		tx_use(tx, d->length - old);
	d->charged = d->length;
	inode_space_add(inode, (int64_t)d->length - old);
	pthread_rwlock_unlock(&d->lock);
}

void piece_apply(struct tarn_inode *inode, struct piece *p, const struct source *src, struct tx *tx)
{
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_u64(key, inode->ino, KEY_RECORD, p->record);
	struct tree_miss miss;
	int err;

	switch (p->action) {
	case PIECE_NOTHING:
		return;
	case PIECE_IN_PLACE:
		apply_in_place(inode, p, src, tx);
		return;
	case PIECE_REMOVE:
		inode_space_add(inode, -(int64_t)slot_discharge(&p->now));
		err = tree_del(tx, &inode->ds->tree, key, klen, &miss);
		assert(!err);
		(void)err;
		return;
	case PIECE_GROW:
		compose(p, src, p->fresh, p->dirty->bytes, p->dirty->length);
		p->fresh->length = length_after(p, src, p->dirty->length);
		break;
	case PIECE_PUT:
		break;
	}
	inode_space_add(inode, -(int64_t)slot_discharge(&p->now));
	dirty_put(p->fresh, tx, key, klen);
}
