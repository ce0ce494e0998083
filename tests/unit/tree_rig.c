// SPDX-License-Identifier: LGPL-3.0-or-later
#include "tree_rig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tree/node.h"

atomic_int rig_objects;

/* ---- model ---- */

static void item_unref(struct model_item *item)
{
	if (--item->refs == 0)
		free(item);
}

void model_free(struct model *m)
{
	for (uint32_t i = 0; i < m->count; i++)
		item_unref(m->item[i]);
	free(m->item);
	*m = (struct model){.item = NULL};
}

struct model model_copy(const struct model *m)
{
	struct model copy = {.count = m->count, .room = m->count};

	copy.item = malloc((m->count + 1) * sizeof(*copy.item));
	FAKE_CHECK(copy.item);
	for (uint32_t i = 0; i < m->count; i++) {
		copy.item[i] = m->item[i];
		copy.item[i]->refs++;
	}
	return copy;
}

static int compare(const void *a, uint32_t alen, const void *b, uint32_t blen)
{
	int diff = memcmp(a, b, alen < blen ? alen : blen);

	return diff ? diff : (int)alen - (int)blen;
}

uint32_t model_find(const struct model *m, const void *key, uint32_t klen, bool *found)
{
	uint32_t low = 0, high = m->count;

	*found = false;
	while (low < high) {
		uint32_t mid = (low + high) / 2;
		int diff = compare(m->item[mid]->key, m->item[mid]->klen, key, klen);

		if (diff == 0)
			*found = true;
		if (diff < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

void model_put(struct model *m, const struct model_item *item)
{
	bool found;
	uint32_t i = model_find(m, item->key, item->klen, &found);

	if (!found) {
		if (m->count == m->room) {
			m->room = m->room ? m->room * 2 : 64;
			m->item = realloc(m->item, m->room * sizeof(*m->item));
			FAKE_CHECK(m->item);
		}
		memmove(m->item + i + 1, m->item + i, (m->count - i) * sizeof(*m->item));
		m->count++;
	} else {
		item_unref(m->item[i]);
	}
	m->item[i] = malloc(sizeof(*item));
	FAKE_CHECK(m->item[i]);
	*m->item[i] = *item;
	m->item[i]->refs = 1;
}

void model_del(struct model *m, uint32_t i)
{
	item_unref(m->item[i]);
	m->count--;
	memmove(m->item + i, m->item + i + 1, (m->count - i) * sizeof(*m->item));
}

/* ---- objects ---- */

static int block_obj_write(struct slot_obj *obj, struct txg_sync *s, void *value, uint32_t len)
{
	struct rig_obj *o = (struct rig_obj *)obj;
	struct block_write w = {.data = o->data,
				.lsize = o->len,
				.type = BP_DATA,
				.cksum = CKSUM_XXH3,
				.class = BLOCK_DATA,
				.failed = &obj->failed};

	FAKE_CHECK(!value && !len && obj->txg == s->txg);
	FAKE_CHECK(s->pass > 1 || atomic_load(&o->writes) == 0);
	atomic_fetch_add(&o->writes, 1);
	return block_write(s, &w, &obj->bp);
}

static int record_obj_write(struct slot_obj *obj, struct txg_sync *s, void *value, uint32_t len)
{
	struct rig_obj *o = (struct rig_obj *)obj;

	FAKE_CHECK(len == o->len && obj->txg == s->txg);
	FAKE_CHECK(atomic_fetch_add(&o->writes, 1) == 0);
	test_fill(value, len, o->seed);
	return 0;
}

static void obj_committed(struct slot_obj *obj)
{
	struct rig_obj *o = (struct rig_obj *)obj;

	FAKE_CHECK(atomic_load(&obj->written) && atomic_load(&o->writes) > 0);
	FAKE_CHECK(atomic_fetch_add(&o->commits, 1) == 0);
}

static void obj_destroy(struct slot_obj *obj)
{
	free(((struct rig_obj *)obj)->data);
	free(obj);
	atomic_fetch_sub(&rig_objects, 1);
}

static const struct slot_ops block_obj_ops = {block_obj_write, obj_committed, obj_destroy};
static const struct slot_ops record_obj_ops = {record_obj_write, obj_committed, obj_destroy};

struct rig_obj *rig_obj_new(uint64_t txg, bool record, uint32_t len, uint64_t seed)
{
	struct rig_obj *o = calloc(1, sizeof(*o));
	uint32_t room = (len + SECTOR_SIZE - 1) & -SECTOR_SIZE;

	FAKE_CHECK(o);
	slot_obj_init(&o->obj, record ? &record_obj_ops : &block_obj_ops, txg);
	o->len = len;
	o->seed = seed;
	if (!record) {
		o->data = dev_buf_alloc(room);
		FAKE_CHECK(o->data);
		memset(o->data, 0, room);
		test_fill(o->data, len, seed);
	}
	atomic_fetch_add(&rig_objects, 1);
	return o;
}

/* ---- rig ---- */

void rig_open(struct rig *r, struct fake *f, uint64_t cache_max, const struct bp *root)
{
	r->f = f;
	FAKE_CHECK(cache_create(cache_max, &r->cache) == 0);
	tree_init(&r->tree, fake_pool(f), r->cache, fake_owner(f), root, COMP_OFF, CKSUM_XXH3);
}

void rig_close(struct rig *r)
{
	tree_fini(&r->tree);
	cache_destroy(r->cache);
}

static uint32_t value_length(uint64_t *random)
{
	switch (test_random(random) % 16) {
	case 0:
		return test_random(random) % (TREE_INLINE_MAX + 1);
	case 1:
		return TREE_INLINE_MAX - 1 + test_random(random) % 4;
	case 2:
		return test_random(random) % 32 == 0 ? TREE_VALUE_MAX : test_random(random) % 20000;
	case 3:
		return 0;
	default:
		return test_random(random) % 200;
	}
}

struct model_item rig_item(uint64_t *random, uint32_t keys, const char *prefix)
{
	struct model_item it = {.seed = test_random(random), .kind = M_VALUE};
	uint64_t k = test_random(random) % keys;

	it.klen = snprintf((char *)it.key, sizeof(it.key), "%s%lu", prefix, k * 7919);
	if (k % 5 == 0)
		while (it.klen < k % 40 + 12)
			it.key[it.klen++] = 'x';
	if (k % 37 == 0)
		while (it.klen < TREE_KEY_MAX)
			it.key[it.klen++] = 'y';
	it.len = value_length(random);
	switch (test_random(random) % 8) {
	case 0:
		it.kind = M_BLOCK;
		it.len = 1 + test_random(random) % 9000;
		break;
	case 1:
		it.kind = M_HOLE;
		break;
	case 2:
		it.kind = M_RECORD;
		it.len = test_random(random) % 300;
		break;
	}
	return it;
}

static int put_item(struct rig *r, struct tx *tx, const struct model_item *it,
		    struct tree_miss *miss)
{
	struct rig_obj *o;
	struct bp hole;
	uint8_t *val;
	int rc;

	switch (it->kind) {
	case M_HOLE:
		hole = bp_hole(it->seed % tx->txg, it->len);
		return tree_put_bp(tx, &r->tree, it->key, it->klen, &hole, miss);
	case M_BLOCK:
		o = rig_obj_new(tx->txg, false, it->len, it->seed);
		rc = tree_put_block(tx, &r->tree, it->key, it->klen, &o->obj, miss);
		slot_obj_unref(&o->obj);
		return rc;
	case M_RECORD:
		o = rig_obj_new(tx->txg, true, it->len, it->seed);
		rc = tree_put_record(tx, &r->tree, it->key, it->klen, &o->obj, it->len, miss);
		slot_obj_unref(&o->obj);
		return rc;
	default:
		val = malloc(it->len + 1);
		FAKE_CHECK(val);
		test_fill(val, it->len, it->seed);
		rc = tree_put(tx, &r->tree, it->key, it->klen, val, it->len, miss);
		free(val);
		return rc;
	}
}

/* Enters a tx with the key pinned, or not pinned. */
static void begin(struct rig *r, struct tx *tx, const void *key, uint32_t klen, bool pinned,
		  struct tree_pin *pin)
{
	struct tree_miss miss;
	int rc;

	pin->n = 0;
	for (;;) {
		FAKE_CHECK(tx_begin(fake_pool(r->f), TREE_RESERVE(1), TX_NORMAL, tx) == 0);
		if (!pinned)
			return;
		rc = tree_pin(tx, &r->tree, key, klen, pin, &miss);
		if (rc == 0)
			return;
		tx_end(tx);
		FAKE_CHECK(rc == -EAGAIN);
		FAKE_CHECK(tree_fetch(&r->tree, &miss) == 0);
	}
}

static void end(struct tx *tx, struct tree_pin *pin)
{
	tree_unpin(pin);
	tx_end(tx);
}

void rig_put(struct rig *r, const struct model_item *item, bool pinned)
{
	struct tree_miss miss;
	struct tree_pin pin;
	struct tx tx;
	int rc;

	for (;;) {
		begin(r, &tx, item->key, item->klen, pinned, &pin);
		rc = put_item(r, &tx, item, &miss);
		end(&tx, &pin);
		if (rc == 0)
			return;
		FAKE_CHECK(rc == -EAGAIN && !pinned);
		FAKE_CHECK(tree_fetch(&r->tree, &miss) == 0);
	}
}

int rig_del(struct rig *r, const void *key, uint32_t klen, bool pinned)
{
	struct tree_miss miss;
	struct tree_pin pin;
	struct tx tx;
	int rc;

	for (;;) {
		begin(r, &tx, key, klen, pinned, &pin);
		rc = tree_del(&tx, &r->tree, key, klen, &miss);
		end(&tx, &pin);
		if (rc == 0 || rc == -ENOENT)
			return rc;
		FAKE_CHECK(rc == -EAGAIN && !pinned);
		FAKE_CHECK(tree_fetch(&r->tree, &miss) == 0);
	}
}

/* ---- comparing ---- */

static void expect_bp(struct rig *r, const struct bp *bp, const struct model_item *it)
{
	struct cache_obj *obj;

	FAKE_CHECK(bp->lsize == it->len);
	FAKE_CHECK(bp_is_hole(bp) == (it->kind == M_HOLE));
	if (bp_is_hole(bp))
		return;
	FAKE_CHECK(cache_read_wait(r->cache, fake_pool(r->f), &cache_type_data, bp, &obj) == 0);
	FAKE_CHECK(test_filled(((struct cache_data *)obj)->data, it->len, it->seed));
	cache_unref(obj);
}

static void expect_val(struct rig *r, struct tree_val *v, const uint8_t *buf,
		       const struct model_item *it)
{
	struct rig_obj *o = (struct rig_obj *)v->obj;
	bool block = it->kind == M_BLOCK || it->kind == M_HOLE;

	FAKE_CHECK((v->kind == SLOT_BLOCK) == block);
	if (o) {
		FAKE_CHECK(it->kind == M_BLOCK || it->kind == M_RECORD);
		FAKE_CHECK(o->seed == it->seed && o->len == it->len);
	} else if (block) {
		expect_bp(r, &v->bp, it);
	} else {
		FAKE_CHECK((v->kind == SLOT_LARGE) == (it->len > TREE_INLINE_MAX));
		FAKE_CHECK(v->len == it->len && test_filled(buf, it->len, it->seed));
	}
	tree_val_put(v);
}

void rig_expect(struct rig *r, const void *key, uint32_t klen, const struct model_item *item)
{
	uint8_t *buf = malloc(TREE_VALUE_MAX);
	struct read_epoch epoch = read_enter(fake_pool(r->f));
	struct tree_miss miss;
	struct tree_val v;
	int rc;

	while ((rc = tree_get(&r->tree, key, klen, buf, TREE_VALUE_MAX, &v, &miss)) == -EAGAIN)
		FAKE_CHECK(tree_fetch(&r->tree, &miss) == 0);
	FAKE_CHECK(rc == (item ? 0 : -ENOENT));
	if (item)
		expect_val(r, &v, buf, item);
	read_leave(fake_pool(r->f), epoch);
	free(buf);
}

static void expect_found(struct rig *r, int rc, const uint8_t *key, uint32_t klen,
			 struct tree_val *v, const uint8_t *buf, const struct model *m, uint32_t i)
{
	FAKE_CHECK(rc == (i < m->count ? 0 : -ENOENT));
	if (rc)
		return;
	FAKE_CHECK(compare(key, klen, m->item[i]->key, m->item[i]->klen) == 0);
	expect_val(r, v, buf, m->item[i]);
}

void rig_expect_next(struct rig *r, const struct model *m, const void *key, uint32_t klen,
		     bool after)
{
	uint8_t *buf = malloc(TREE_VALUE_MAX), got[TREE_KEY_MAX];
	struct read_epoch epoch = read_enter(fake_pool(r->f));
	struct tree_miss miss;
	struct tree_val v;
	uint32_t glen, i;
	bool found;
	int rc;

	while ((rc = tree_next(&r->tree, key, klen, after, NULL, 0, got, &glen, buf, TREE_VALUE_MAX,
			       &v, &miss)) == -EAGAIN)
		FAKE_CHECK(tree_fetch(&r->tree, &miss) == 0);
	i = model_find(m, key, klen, &found);
	i += found && after;
	expect_found(r, rc, got, glen, &v, buf, m, i);
	if (i < m->count) {
		/* The bound is exclusive. */
		while ((rc = tree_next(&r->tree, key, klen, after, m->item[i]->key,
				       m->item[i]->klen, got, &glen, NULL, 0, &v, &miss)) ==
		       -EAGAIN)
			FAKE_CHECK(tree_fetch(&r->tree, &miss) == 0);
		FAKE_CHECK(rc == -ENOENT);
	}
	read_leave(fake_pool(r->f), epoch);
	free(buf);
}

/* Whether the model's item lies in its leaf as bytes; 1 yes, 0 no, -1 as it may be. */
static int in_bytes(const struct model_item *it)
{
	if (it->kind == M_RECORD)
		return -1;
	return it->kind == M_VALUE && it->len <= TREE_INLINE_MAX;
}

/* Items one after the other as in the model, from i on and below end. */
static void expect_items(const uint8_t *buf, uint32_t used, uint32_t last, const struct model *m,
			 uint32_t i, uint32_t end)
{
	struct tree_item item;
	uint32_t at = 0, begin = 0;

	for (; at < used; i++) {
		const uint8_t *key = buf + at + sizeof(item);

		FAKE_CHECK(i < end && in_bytes(m->item[i]));
		memcpy(&item, buf + at, sizeof(item));
		begin = at;
		FAKE_CHECK(compare(key, item.klen, m->item[i]->key, m->item[i]->klen) == 0);
		FAKE_CHECK(item.vlen == m->item[i]->len);
		FAKE_CHECK(test_filled(key + item.klen, item.vlen, m->item[i]->seed));
		at += (uint32_t)sizeof(item) + item.klen + item.vlen;
	}
	FAKE_CHECK(at == used && begin == last);
}

void rig_expect_run(struct rig *r, const struct model *m, const void *key, uint32_t klen,
		    bool after, uint32_t most, uint32_t room)
{
	uint8_t *buf = malloc(room);
	const struct model_item *bound;
	struct tree_miss miss;
	uint32_t i, end, used, last;
	bool found;
	int rc;

	i = model_find(m, key, klen, &found);
	i += found && after;
	end = m->count - i > most ? i + most : m->count;
	bound = end < m->count ? m->item[end] : NULL;
	while ((rc = tree_next_run(&r->tree, key, klen, after, bound ? bound->key : NULL,
				   bound ? bound->klen : 0, buf, room, &used, &last, &miss)) ==
	       -EAGAIN)
		FAKE_CHECK(tree_fetch(&r->tree, &miss) == 0);
	if (i == end)
		FAKE_CHECK(rc == -ENOENT);
	else if (in_bytes(m->item[i]) >= 0)
		FAKE_CHECK(rc == (in_bytes(m->item[i]) ? 0 : -EIO));
	else
		FAKE_CHECK(rc == 0 || rc == -EIO);
	if (rc == 0) {
		FAKE_CHECK(used > 0 && used <= room);
		expect_items(buf, used, last, m, i, end);
	}
	free(buf);
}

void rig_expect_prev(struct rig *r, const struct model *m, const void *key, uint32_t klen)
{
	uint8_t *buf = malloc(TREE_VALUE_MAX), got[TREE_KEY_MAX];
	struct read_epoch epoch = read_enter(fake_pool(r->f));
	struct tree_miss miss;
	struct tree_val v;
	uint32_t glen, i;
	bool found;
	int rc;

	while ((rc = tree_prev(&r->tree, key, klen, NULL, 0, got, &glen, buf, TREE_VALUE_MAX, &v,
			       &miss)) == -EAGAIN)
		FAKE_CHECK(tree_fetch(&r->tree, &miss) == 0);
	i = model_find(m, key, klen, &found);
	expect_found(r, rc, got, glen, &v, buf, m, i - 1 < m->count ? i - 1 : m->count);
	if (i > 0) {
		/* The bound is inclusive. */
		while ((rc = tree_prev(&r->tree, key, klen, m->item[i - 1]->key,
				       m->item[i - 1]->klen, got, &glen, NULL, 0, &v, &miss)) ==
		       -EAGAIN)
			FAKE_CHECK(tree_fetch(&r->tree, &miss) == 0);
		FAKE_CHECK(rc == 0);
		tree_val_put(&v);
	}
	read_leave(fake_pool(r->f), epoch);
	free(buf);
}

struct walk_state {
	struct rig *r;
	const struct model *m;
	uint32_t at;
	bool account;
};

static int walk_node(void *arg, const struct bp *bp, unsigned level)
{
	struct walk_state *w = arg;

	FAKE_CHECK(bp->level == level && bp->type == BP_NODE);
	if (w->account)
		fake_mark(w->r->f, bp);
	return 0;
}

static int walk_slot(void *arg, const void *key, uint32_t klen, enum slot_kind kind,
		     const void *val, uint32_t vlen, const struct bp *bp)
{
	struct walk_state *w = arg;
	const struct model_item *it;

	FAKE_CHECK(w->at < w->m->count);
	it = w->m->item[w->at];
	FAKE_CHECK(compare(key, klen, it->key, it->klen) == 0);
	if (w->account && bp && !bp_is_hole(bp))
		fake_mark(w->r->f, bp);
	if (kind == SLOT_BLOCK) {
		expect_bp(w->r, bp, it);
	} else {
		FAKE_CHECK(it->kind == M_VALUE || it->kind == M_RECORD);
		FAKE_CHECK(vlen == it->len && test_filled(val, vlen, it->seed));
	}
	w->at++;
	return 0;
}

void rig_expect_walk(struct rig *r, const struct bp *root, const struct model *m, uint64_t txg,
		     bool account)
{
	static const struct tree_walk_ops ops = {.node = walk_node, .slot = walk_slot};
	struct walk_state w = {.r = r, .m = m, .account = account};

	if (account)
		fake_mark_begin(r->f);
	FAKE_CHECK(tree_walk(fake_pool(r->f), txg % 2 ? r->cache : NULL, root, &ops, &w) == 0);
	FAKE_CHECK(w.at == m->count);
	if (account)
		fake_mark_end(r->f, txg);
}

/* ---- txgs ---- */

struct bp rig_sync(struct rig *r, uint64_t txg)
{
	struct txg_sync s = fake_sync(r->f, txg);
	struct bp root;

	do {
		FAKE_CHECK(tree_sync(&r->tree, &s, &root) == 0);
		if (s.pass++ == 1)
			txg_process_frees(&s);
	} while (sync_wait_io(&s));
	fake_committed(r->f, txg);
	tree_committed(&r->tree, txg);
	return root;
}

static void freeze(void *arg, uint64_t txg)
{
	void **args = arg;

	*(uint64_t *)args[1] = txg;
	tree_freeze(&((struct rig *)args[0])->tree, txg);
}

struct bp rig_txg(struct rig *r)
{
	uint64_t txg;
	void *args[] = {r, &txg};

	fake_barrier(r->f, freeze, args);
	return rig_sync(r, txg);
}
