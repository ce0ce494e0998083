// SPDX-License-Identifier: LGPL-3.0-or-later
#include "tree/tree.h"

#include <assert.h>
#include <errno.h>

#include "pool/pool.h"
#include "tree/impl.h"

void tree_init(struct tree *t, struct pool *pool, struct cache *cache, struct space_owner *owner,
	       const struct bp *root, uint8_t comp, uint8_t cksum)
{
	*t = (struct tree){.pool = pool,
			   .cache = cache,
			   .owner = owner,
			   .root.bp = *root,
			   .frozen.bp = *root,
			   .comp = comp,
			   .cksum = cksum,
			   .class = BLOCK_META};
	latch_init(&t->lock);
}

void tree_fini(struct tree *t)
{
	if (t->root.node)
		slot_obj_unref(&t->root.node->slot);
	if (t->frozen.node)
		slot_obj_unref(&t->frozen.node->slot);
	pthread_rwlock_destroy(&t->lock);
}

/* ---- values ---- */

static void copy_out(struct tree_val *v, const void *bytes, uint32_t len, void *buf, uint32_t room)
{
	v->len = len;
	if (room)
		memcpy(buf, bytes, len < room ? len : room);
}

static void read_inline(const struct slot *s, void *buf, uint32_t room, struct tree_val *v)
{
	struct tree_record *rec = record_of(s->obj);

	if (!s->obj) {
		copy_out(v, s->val, s->vlen, buf, room);
	} else if (atomic_load(&rec->obj.written)) {
		copy_out(v, rec->bytes, rec->len, buf, room);
	} else {
		v->obj = slot_obj_ref(rec->user);
		v->len = rec->len;
	}
}

static int read_large(struct tree *t, const struct slot *s, uint64_t max_birth, void *buf,
		      uint32_t room, struct tree_val *v, struct tree_miss *miss)
{
	struct cache_data *data;
	struct cache_key key;

	if (s->obj) {
		data = large_of(s->obj)->data;
		copy_out(v, data->data, data->length, buf, room);
		return 0;
	}
	v->bp = slot_bp(s);
	v->len = v->bp.lsize;
	if (room == 0)
		return 0;
	key = cache_key_of(t->pool->guid, &v->bp);
	data = (struct cache_data *)cache_lookup(t->cache, &key);
	if (!data) {
		miss_set(miss, &v->bp, true, max_birth);
		return -EAGAIN;
	}
	if (data->obj.type != &cache_type_value || data->obj.lsize != v->bp.lsize) {
		cache_unref(&data->obj);
		return -EIO;
	}
	copy_out(v, data->data, data->length, buf, room);
	cache_unref(&data->obj);
	return 0;
}

static int read_slot(struct tree *t, const struct tree_node *n, uint32_t i, void *buf,
		     uint32_t room, struct tree_val *v, struct tree_miss *miss)
{
	struct slot s = node_slot(n, i);

	*v = (struct tree_val){.kind = s.kind};
	if (s.kind == SLOT_VALUE) {
		read_inline(&s, buf, room, v);
		return 0;
	}
	if (s.kind == SLOT_LARGE)
		return read_large(t, &s, n->slot.txg, buf, room, v, miss);
	if (s.obj && !atomic_load(&s.obj->committed))
		v->obj = slot_obj_ref(s.obj);
	else
		v->bp = s.obj ? s.obj->bp : slot_bp(&s);
	return 0;
}

void tree_val_put(struct tree_val *v)
{
	if (v->obj)
		slot_obj_unref(v->obj);
	v->obj = NULL;
}

/* ---- reading ---- */

static int get(struct tree *t, const struct aim *aim, void *buf, uint32_t room, struct tree_val *v,
	       struct tree_miss *miss)
{
	struct hold leaf;
	bool found;
	uint32_t i;
	int rc = tree_descend(t, aim, miss, &leaf);

	if (rc)
		return rc;
	i = node_find(leaf.node, aim->key, aim->klen, &found);
	rc = found ? read_slot(t, leaf.node, i, buf, room, v, miss) : -ENOENT;
	hold_drop(&leaf);
	return rc;
}

int tree_get(struct tree *t, const void *key, uint32_t klen, void *buf, uint32_t room,
	     struct tree_val *v, struct tree_miss *miss)
{
	struct aim aim = {.key = key, .klen = klen};
	int rc;

	miss->epoch = read_enter(t->pool);
	rc = get(t, &aim, buf, room, v, miss);
	if (rc != -EAGAIN)
		read_leave(t->pool, miss->epoch);
	return rc;
}

/* A search for the nearest key on one side. */
struct scan {
	struct tree *t;
	bool backward;
	bool after; /* forward: beyond the key itself */
	const void *end;
	uint32_t elen;
	/* What to do with the slot that was found, and maybe those after it. */
	int (*found)(const struct scan *scan, const struct tree_node *n, uint32_t i);
	void *key; /* results */
	uint32_t *klen;
	void *buf;
	uint32_t room;
	struct tree_val *v;
	uint32_t *used, *last;
	struct tree_miss *miss;
};

static bool scan_beyond(const struct scan *scan, const void *key, uint32_t klen)
{
	int diff;

	if (!scan->end)
		return false;
	diff = key_compare(key, klen, scan->end, scan->elen);
	return scan->backward ? diff < 0 : diff >= 0;
}

static int scan_one(const struct scan *scan, const struct tree_node *n, uint32_t i)
{
	struct slot s = node_slot(n, i);

	if (scan_beyond(scan, s.key, s.klen))
		return -ENOENT;
	memcpy(scan->key, s.key, s.klen);
	*scan->klen = s.klen;
	return read_slot(scan->t, n, i, scan->buf, scan->room, scan->v, scan->miss);
}

static int scan_many(const struct scan *scan, const struct tree_node *n, uint32_t i)
{
	int rc = -ENOENT;

	for (*scan->used = 0; i < node_count(n); i++) {
		struct slot s = node_slot(n, i);
		struct tree_item item = {.klen = (uint16_t)s.klen, .vlen = (uint16_t)s.vlen};
		uint8_t *to = (uint8_t *)scan->buf + *scan->used;
		uint32_t bytes = (uint32_t)sizeof(item) + s.klen + s.vlen;

		if (scan_beyond(scan, s.key, s.klen))
			break;
		if (s.kind != SLOT_VALUE || s.obj)
			return rc ? -EIO : 0;
		if (*scan->used + bytes > scan->room)
			break;
		memcpy(to, &item, sizeof(item));
		memcpy(to + sizeof(item), s.key, s.klen);
		memcpy(to + sizeof(item) + s.klen, s.val, s.vlen);
		*scan->last = *scan->used;
		*scan->used += bytes;
		rc = 0;
	}
	return rc;
}

/*
 * Looks in the leaf that covers `from`; 1: nothing there, the search goes on from the end of the
 * leaf's range, left in from.
 */
static int scan_leaf(struct scan *scan, uint8_t *from, uint32_t *flen)
{
	struct tree_miss *miss = scan->miss;
	struct aim aim = {.key = from, .klen = *flen, .before = scan->backward};
	uint8_t *next = scan->backward ? miss->low : miss->high;
	struct hold leaf;
	bool found;
	uint32_t i;
	int rc = tree_descend(scan->t, &aim, miss, &leaf);

	if (rc)
		return rc;
	i = node_find(leaf.node, from, *flen, &found);
	if (scan->backward)
		rc = i > 0 ? scan->found(scan, leaf.node, i - 1) : 1;
	else if (i += found && scan->after, i < node_count(leaf.node))
		rc = scan->found(scan, leaf.node, i);
	else
		rc = 1;
	hold_drop(&leaf);
	if (rc != 1)
		return rc;
	*flen = scan->backward ? miss->low_len : miss->high_len;
	if (*flen == 0 || (!scan->backward && scan_beyond(scan, next, *flen)))
		return -ENOENT;
	memcpy(from, next, *flen);
	scan->after = false;
	return 1;
}

static int scan_run(struct scan *scan, const void *from, uint32_t flen)
{
	uint8_t at[TREE_KEY_MAX];
	int rc;

	assert(flen <= TREE_KEY_MAX);
	if (flen)
		memcpy(at, from, flen);
	scan->miss->epoch = read_enter(scan->t->pool);
	while ((rc = scan_leaf(scan, at, &flen)) == 1)
		;
	if (rc != -EAGAIN)
		read_leave(scan->t->pool, scan->miss->epoch);
	return rc;
}

int tree_next(struct tree *t, const void *from, uint32_t flen, bool after, const void *end,
	      uint32_t elen, void *key, uint32_t *klen, void *buf, uint32_t room,
	      struct tree_val *v, struct tree_miss *miss)
{
	struct scan scan = {.t = t,
			    .after = after,
			    .end = end,
			    .elen = elen,
			    .found = scan_one,
			    .key = key,
			    .klen = klen,
			    .buf = buf,
			    .room = room,
			    .v = v,
			    .miss = miss};

	return scan_run(&scan, from, flen);
}

int tree_prev(struct tree *t, const void *from, uint32_t flen, const void *end, uint32_t elen,
	      void *key, uint32_t *klen, void *buf, uint32_t room, struct tree_val *v,
	      struct tree_miss *miss)
{
	struct scan scan = {.t = t,
			    .backward = true,
			    .end = end,
			    .elen = elen,
			    .found = scan_one,
			    .key = key,
			    .klen = klen,
			    .buf = buf,
			    .room = room,
			    .v = v,
			    .miss = miss};

	return scan_run(&scan, from, flen);
}

int tree_next_run(struct tree *t, const void *from, uint32_t flen, bool after, const void *end,
		  uint32_t elen, void *buf, uint32_t room, uint32_t *used, uint32_t *last,
		  struct tree_miss *miss)
{
	struct scan scan = {.t = t,
			    .after = after,
			    .end = end,
			    .elen = elen,
			    .found = scan_many,
			    .buf = buf,
			    .room = room,
			    .used = used,
			    .last = last,
			    .miss = miss};

	assert(room >= TREE_RUN_MIN);
	return scan_run(&scan, from, flen);
}

/* ---- pins ---- */

int tree_pin(struct tx *tx, struct tree *t, const void *key, uint32_t klen, struct tree_pin *pin,
	     struct tree_miss *miss)
{
	struct aim aim = {.key = key, .klen = klen, .pin = pin};
	struct hold leaf;
	int rc;

	assert(tx->pool == t->pool);
	pin->n = 0;
	miss->epoch = read_enter(t->pool);
	rc = tree_descend(t, &aim, miss, &leaf);
	if (rc == 0)
		hold_drop(&leaf);
	else
		tree_unpin(pin);
	if (rc != -EAGAIN)
		read_leave(t->pool, miss->epoch);
	return rc == -ENOENT ? 0 : rc; /* nothing to miss in an empty tree */
}

void tree_unpin(struct tree_pin *pin)
{
	while (pin->n > 0)
		cache_unref(pin->path[--pin->n]);
}
