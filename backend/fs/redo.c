// SPDX-License-Identifier: LGPL-3.0-or-later
#include "fs/redo.h"

#include <errno.h>
#include <stdlib.h>

#include "fs/data.h"
#include "fs/op.h"
#include "fs/piece.h"
#include "pool/ilog.h"

#define REDO_ROOM 1024 /* at first */

/* ---- items ---- */

/* Room for a further item, its key and value to be filled in by the caller; NULL: no memory. */
static uint8_t *add(struct redo *r, enum redo_kind kind, uint32_t klen, uint32_t vlen)
{
	struct redo_item item = {.kind = (uint8_t)kind, .klen = (uint16_t)klen, .vlen = vlen};
	uint32_t bytes = (uint32_t)sizeof(item) + klen + vlen, at = r->len;

	if (!at)
		at = sizeof(struct redo_head);
	if (at + bytes > r->room) {
		uint32_t room = r->room ? r->room : REDO_ROOM;
		uint8_t *buf;

		while (at + bytes > room)
			room *= 2;
		buf = realloc(r->buf, room);
		if (!buf) {
			r->failed = true;
			return NULL;
		}
		r->buf = buf;
		r->room = room;
	}
	memcpy(r->buf + at, &item, sizeof(item));
	r->len = at + bytes;
	return r->buf + at + sizeof(item);
}

void redo_put(struct redo *r, const void *key, uint32_t klen, const void *val, uint32_t vlen)
{
	uint8_t *to = add(r, REDO_PUT, klen, vlen);

	if (!to)
		return;
	memcpy(to, key, klen);
	memcpy(to + klen, val, vlen);
}

void redo_del(struct redo *r, const void *key, uint32_t klen)
{
	uint8_t *to = add(r, REDO_DEL, klen, 0);

	if (to)
		memcpy(to, key, klen);
}

void redo_purge(struct redo *r, uint64_t ino)
{
	uint8_t *to = add(r, REDO_PURGE, 0, sizeof(ino));

	if (to)
		memcpy(to, &ino, sizeof(ino));
}

void redo_truncate(struct redo *r, uint64_t ino, uint64_t size)
{
	struct redo_data data = {.ino = ino, .offset = size};
	uint8_t *to = add(r, REDO_TRUNCATE, 0, sizeof(data));

	if (to)
		memcpy(to, &data, sizeof(data));
}

bool redo_next(const void *record, uint32_t len, uint32_t *at, struct redo_view *v, bool *bad)
{
	const uint8_t *bytes = record;
	struct redo_item item;

	if (!*at)
		*at = sizeof(struct redo_head);
	*bad = len < *at;
	if (len <= *at)
		return false;
	*bad = true;
	if (len - *at < sizeof(item))
		return false;
	memcpy(&item, bytes + *at, sizeof(item));
	*at += (uint32_t)sizeof(item);
	if (item.zero || item.klen > TREE_KEY_MAX || len - *at < item.klen ||
	    len - *at - item.klen < item.vlen)
		return false;
	*v = (struct redo_view){.kind = item.kind,
				.key = bytes + *at,
				.klen = item.klen,
				.val = bytes + *at + item.klen,
				.vlen = item.vlen};
	*at += item.klen + item.vlen;
	*bad = false;
	return true;
}

/* ---- unlogged data ---- */

static bool is_unlogged(struct tarn_inode *inode)
{
	return inode->unlogged.txg > txg_committed(inode->ds->pool);
}

static void unlogged_clear(struct tarn_inode *inode)
{
	inode->unlogged.txg = 0;
	inode->unlogged.n = 0;
	inode->unlogged.many = false;
}

void unlogged_add(struct tarn_inode *inode, uint64_t txg, uint64_t from, uint64_t to)
{
	struct unlogged *u = &inode->unlogged;

	if (!is_unlogged(inode))
		unlogged_clear(inode);
	u->txg = txg;
	for (unsigned i = 0; i < u->n; i++) {
		if (from > u->range[i].to || to < u->range[i].from)
			continue;
		if (from < u->range[i].from)
			u->range[i].from = from;
		if (to > u->range[i].to)
			u->range[i].to = to;
		return;
	}
	if (u->n == UNLOGGED_RANGES)
		u->many = true;
	else
		u->range[u->n++] = (struct unlogged_range){from, to};
}

/* In bytes; UINT64_MAX: unknown. */
static uint64_t unlogged_bytes(const struct tarn_inode *inode)
{
	const struct unlogged *u = &inode->unlogged;
	uint64_t bytes = 0;

	if (u->many)
		return UINT64_MAX;
	for (unsigned i = 0; i < u->n; i++)
		bytes += u->range[i].to - u->range[i].from;
	return bytes;
}

static uint8_t *add_data(struct redo *r, uint64_t ino, uint64_t offset, uint32_t bytes)
{
	struct redo_data data = {.ino = ino, .offset = offset};
	uint8_t *to = add(r, REDO_DATA, 0, (uint32_t)sizeof(data) + bytes);

	if (!to)
		return NULL;
	memcpy(to, &data, sizeof(data));
	return to + sizeof(data);
}

/* Bytes [from, to) of one record, unless a txg that is durable has them. */
static int add_piece(struct redo *r, struct tarn_inode *inode, uint64_t record, uint32_t from,
		     uint32_t to)
{
	struct tree_miss miss;
	struct tree_val v;
	int err = slot_get(inode, record, &v, &miss);
	uint8_t *out;

	if (err == -EAGAIN)
		tree_miss_drop(&inode->ds->tree, &miss);
	if (err)
		return err;
	if (!v.obj && !bp_is_hole(&v.bp)) {
		tree_val_put(&v);
		return 0;
	}
	out = add_data(r, inode->ino, record + from, to - from);
	if (out && v.obj) {
		struct dirty *d = dirty_of(v.obj);
		uint32_t have;

		pthread_rwlock_rdlock(&d->lock);
		have = d->length > from ? d->length - from : 0;
		if (have > to - from)
			have = to - from;
		memcpy(out, d->bytes + from, have);
		memset(out + have, 0, to - from - have);
		pthread_rwlock_unlock(&d->lock);
	} else if (out) {
		memset(out, 0, to - from);
	}
	tree_val_put(&v);
	return 0;
}

static int add_range(struct redo *r, struct tarn_inode *inode, uint64_t from, uint64_t to)
{
	uint32_t rs = inode->rec.recordsize;
	int err = 0;

	if (to > inode->rec.size)
		to = inode->rec.size;
	while (!err && from < to) {
		uint64_t record = from - from % rs, end = record + rs < to ? record + rs : to;

		err = add_piece(r, inode, record, (uint32_t)(from - record),
				(uint32_t)(end - record));
		from = end;
	}
	return err;
}

static int add_inline(struct redo *r, struct tarn_inode *inode)
{
	uint8_t key[KEY_ROOM], content[INLINE_MAX];
	uint32_t klen = key_make(key, inode->ino, KEY_INLINE), len;
	struct tree_miss miss;
	int err = fs_read(fs_of(inode->ds), key, klen, content, 0, INLINE_MAX, &len, &miss);
	uint8_t *out;

	if (err == -EAGAIN)
		tree_miss_drop(&inode->ds->tree, &miss);
	if (err || !len)
		return err;
	out = add_data(r, inode->ino, 0, len);
	if (out)
		memcpy(out, content, len);
	return 0;
}

/* -E2BIG: not for the log. */
static int add_unlogged(struct redo *r, struct tarn_inode *inode)
{
	int err = 0;

	if (!is_unlogged(inode))
		return 0;
	if (inode->rec.flags & INODE_TRUNCATED)
		return -E2BIG;
	if (inode->rec.flags & INODE_INLINE)
		return add_inline(r, inode);
	if (unlogged_bytes(inode) > REDO_DATA_MAX)
		return -E2BIG;
	for (unsigned i = 0; !err && i < inode->unlogged.n; i++)
		err =
		    add_range(r, inode, inode->unlogged.range[i].from, inode->unlogged.range[i].to);
	return err;
}

static void add_record(struct redo *r, struct tarn_inode *inode)
{
	struct redo_inode value = {.ino = inode->ino};
	uint8_t *to = add(r, REDO_INODE, 0, sizeof(value));

	if (!to)
		return;
	pthread_mutex_lock(&inode->versioned.lock);
	value.rec = inode->rec;
	pthread_mutex_unlock(&inode->versioned.lock);
	memcpy(to, &value, sizeof(value));
}

void redo_inode(struct redo *r, struct tarn_inode *inode)
{
	if (add_unlogged(r, inode))
		r->failed = true;
	else
		unlogged_clear(inode);
	add_record(r, inode);
}

/* ---- to the log ---- */

static void reset(struct redo *r)
{
	free(r->buf);
	*r = (struct redo){0};
}

struct tarn_commit redo_commit(struct redo *r, struct tarn_dataset *ds)
{
	struct redo_head head = {.dataset = ds->id};
	struct tarn_commit token;

	if (r->failed) {
		ilog_break(ds->pool);
		token.number = ilog_last(ds->pool, &token.txg);
	} else {
		memcpy(r->buf, &head, sizeof(head));
		token.number = ilog_append(ds->pool, r->buf, r->len, &token.txg);
	}
	reset(r);
	return token;
}

struct tarn_commit redo_sync(struct tarn_inode *inode)
{
	struct redo r = {0};
	struct tarn_commit token;

	if (add_unlogged(&r, inode) || r.failed) {
		reset(&r);
		token = (struct tarn_commit){.txg = inode->unlogged.txg};
	} else {
		add_record(&r, inode);
		token = redo_commit(&r, inode->ds);
		if (token.number)
			unlogged_clear(inode);
	}
	return token;
}
