// SPDX-License-Identifier: LGPL-3.0-or-later
/* What a txg writes: order, passes, trees that only the sync changes, ranges of leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tree/node.h"
#include "tree_rig.h"

static const struct bp empty = {.birth = 1};

static struct fake *fake_plain(void)
{
	return fake_new(&(struct fake_options){.threads = 2, .keep = TXG_KEEP, .seed = 1});
}

static struct model_item value_item(uint32_t n, uint32_t len)
{
	struct model_item it = {.kind = M_VALUE, .len = len, .seed = n * 31 + len};

	it.klen = snprintf((char *)it.key, sizeof(it.key), "%08u", n);
	return it;
}

/* ---- an empty tree ---- */

static void test_empty(void **state)
{
	struct fake *f = fake_plain();
	struct model_item it = value_item(1, 100);
	struct model m = {.count = 0};
	struct rig r;
	struct bp root;

	(void)state;
	rig_open(&r, f, 1 << 20, &empty);
	rig_expect(&r, it.key, it.klen, NULL);
	rig_expect_next(&r, &m, it.key, it.klen, false);
	rig_expect_run(&r, &m, it.key, it.klen, false, 1, TREE_RUN_MIN);
	rig_expect_prev(&r, &m, it.key, it.klen);
	assert_int_equal(rig_del(&r, it.key, it.klen, true), -ENOENT);
	root = rig_txg(&r);
	assert_true(bp_is_hole(&root));
	assert_int_equal(root.birth, empty.birth);

	rig_put(&r, &it, true);
	root = rig_txg(&r);
	assert_false(bp_is_hole(&root));
	rig_expect(&r, it.key, it.klen, &it);
	assert_int_equal(rig_del(&r, it.key, it.klen, false), 0);
	root = rig_txg(&r);
	assert_true(bp_is_hole(&root));
	rig_expect_walk(&r, &root, &m, 12, true);
	rig_put(&r, &it, false);
	rig_expect(&r, it.key, it.klen, &it);
	rig_close(&r);
	fake_free(f);
}

/* ---- freeze ---- */

static void freeze_result(void *arg, uint64_t txg)
{
	void **args = arg;

	*(bool *)args[1] = tree_freeze(&((struct rig *)args[0])->tree, txg);
}

static void test_unchanged(void **state)
{
	struct fake *f = fake_plain();
	struct model_item it = value_item(1, 100);
	struct rig r;
	struct bp root, same;
	bool changed;
	void *args[] = {&r, &changed};

	(void)state;
	rig_open(&r, f, 1 << 20, &empty);
	fake_barrier(f, freeze_result, args);
	assert_false(changed);
	rig_sync(&r, 10);
	rig_put(&r, &it, true);
	fake_barrier(f, freeze_result, args);
	assert_true(changed);
	root = rig_sync(&r, 11);
	rig_expect(&r, it.key, it.klen, &it);
	fake_barrier(f, freeze_result, args);
	assert_false(changed);
	same = rig_sync(&r, 12);
	assert_memory_equal(&root, &same, sizeof(root));
	rig_close(&r);
	fake_free(f);
}

/* ---- records after blocks ---- */

struct ordered {
	struct slot_obj obj;
	bool record;
	atomic_int *blocks;
	uint8_t *data;
};

static int ordered_write(struct slot_obj *obj, struct txg_sync *s, void *value, uint32_t len)
{
	struct ordered *o = (struct ordered *)obj;
	struct block_write w = {.data = o->data,
				.lsize = SECTOR_SIZE,
				.type = BP_DATA,
				.cksum = CKSUM_XXH3,
				.failed = &obj->failed};

	if (!o->record) {
		atomic_fetch_add(o->blocks, 1);
		return block_write(s, &w, &obj->bp);
	}
	assert_int_equal(len, sizeof(int));
	memcpy(value, o->blocks, sizeof(int));
	return 0;
}

static void ordered_destroy(struct slot_obj *obj)
{
	free(((struct ordered *)obj)->data);
	free(obj);
}

static const struct slot_ops ordered_ops = {.write = ordered_write, .destroy = ordered_destroy};

static void test_records_last(void **state)
{
	enum { N = 600 };
	struct fake *f = fake_plain();
	atomic_int blocks = 0;
	struct tree_miss miss;
	struct tree_val v;
	struct rig r;
	struct tx tx;
	char key[16];
	int n;

	(void)state;
	rig_open(&r, f, 4 << 20, &empty);
	assert_int_equal(tx_begin(fake_pool(f), 0, TX_NORMAL, &tx), 0);
	for (int i = 0; i < N; i++) {
		struct ordered *o = calloc(1, sizeof(*o));

		slot_obj_init(&o->obj, &ordered_ops, tx.txg);
		o->record = i % 2;
		o->blocks = &blocks;
		o->data = dev_buf_alloc(SECTOR_SIZE);
		memset(o->data, 0, SECTOR_SIZE);
		snprintf(key, sizeof(key), "%010d", i);
		if (o->record)
			n = tree_put_record(&tx, &r.tree, key, 10, &o->obj, sizeof(int), &miss);
		else
			n = tree_put_block(&tx, &r.tree, key, 10, &o->obj, &miss);
		assert_int_equal(n, 0);
		slot_obj_unref(&o->obj);
	}
	tx_end(&tx);
	rig_txg(&r);
	for (int i = 1; i < N; i += 2) {
		snprintf(key, sizeof(key), "%010d", i);
		while ((n = tree_get(&r.tree, key, 10, &n, sizeof(n), &v, &miss)) == -EAGAIN)
			assert_int_equal(tree_fetch(&r.tree, &miss), 0);
		assert_int_equal(v.len, sizeof(int));
		assert_null(v.obj);
	}
	assert_int_equal(tree_get(&r.tree, "0000000001", 10, &n, sizeof(n), &v, &miss), 0);
	assert_int_equal(n, N / 2);
	rig_close(&r);
	fake_free(f);
}

/* ---- a tree that only the sync changes ---- */

static void sync_put(struct rig *r, struct txg_sync *s, const struct model_item *it)
{
	struct tx tx = tree_sync_tx(s);
	struct tree_miss miss;
	uint8_t *val = malloc(it->len + 1);
	int rc;

	test_fill(val, it->len, it->seed);
	while ((rc = tree_put(&tx, &r->tree, it->key, it->klen, val, it->len, &miss)) == -EAGAIN)
		FAKE_CHECK(tree_fetch(&r->tree, &miss) == 0);
	FAKE_CHECK(rc == 0);
	free(val);
}

static int sync_del(struct rig *r, struct txg_sync *s, const struct model_item *it)
{
	struct tx tx = tree_sync_tx(s);
	struct tree_miss miss;
	int rc;

	while ((rc = tree_del(&tx, &r->tree, it->key, it->klen, &miss)) == -EAGAIN)
		FAKE_CHECK(tree_fetch(&r->tree, &miss) == 0);
	return rc;
}

static void sync_changes(struct rig *r, struct txg_sync *s, struct model *m, uint64_t *random)
{
	for (int n = test_random(random) % 60; n > 0; n--) {
		struct model_item it = rig_item(random, 900, "c");
		bool found;
		uint32_t i = model_find(m, it.key, it.klen, &found);

		it.kind = M_VALUE;
		if (test_random(random) % 3) {
			sync_put(r, s, &it);
			model_put(m, &it);
		} else {
			FAKE_CHECK(sync_del(r, s, &it) == (found ? 0 : -ENOENT));
			if (found)
				model_del(m, i);
		}
	}
}

static void nothing(void *arg, uint64_t txg)
{
	*(uint64_t *)arg = txg;
}

/* Changed again in each pass, written in each, all it leaves behind accounted for. */
static void test_sync_tree(void **state)
{
	uint64_t seed = *(uint64_t *)*state, txg, random = seed;
	struct fake *f = fake_new(&(struct fake_options){
	    .threads = 2, .keep = TXG_KEEP, .seed = seed, .fail_writes = 30});
	struct model m = {.count = 0};
	struct rig r;
	struct bp root;

	rig_open(&r, f, 700 << 10, &empty);
	for (int n = 0; n < 60; n++) {
		struct txg_sync s;

		fake_barrier(f, nothing, &txg);
		s = fake_sync(f, txg);
		do {
			if (s.pass == 1 || test_random(&random) % 2)
				sync_changes(&r, &s, &m, &random);
			tree_freeze(&r.tree, txg);
			FAKE_CHECK(tree_sync(&r.tree, &s, &root) == 0);
			s.pass++;
		} while (sync_wait_io(&s) || test_random(&random) % 3 == 0);
		fake_committed(f, txg);
		tree_committed(&r.tree, txg);
		rig_expect_walk(&r, &root, &m, txg, true);
	}
	model_free(&m);
	rig_close(&r);
	fake_free(f);
}

/* ---- leaves and their ranges ---- */

struct leaf {
	struct bp bp;
	uint32_t low_len, high_len;
	uint8_t low[TREE_KEY_MAX], high[TREE_KEY_MAX];
};

struct leaves {
	struct leaf *leaf;
	uint32_t count, room;
};

static void leaves_add(struct rig *r, const struct leaf *at, struct leaves *out)
{
	struct cache_obj *obj;
	struct tree_node *n;

	if (at->bp.level == 0) {
		if (out->count == out->room) {
			out->room = out->room ? out->room * 2 : 64;
			out->leaf = realloc(out->leaf, out->room * sizeof(*out->leaf));
			FAKE_CHECK(out->leaf);
		}
		out->leaf[out->count++] = *at;
		return;
	}
	FAKE_CHECK(cache_read_wait(r->cache, fake_pool(r->f), &cache_type_node, &at->bp, &obj) ==
		   0);
	n = (struct tree_node *)obj;
	for (uint32_t i = 0; i < node_count(n); i++) {
		struct leaf below = *at;
		struct slot s = node_slot(n, i);

		below.bp = slot_bp(&s);
		if (i > 0)
			memcpy(below.low, s.key, below.low_len = s.klen);
		if (i + 1 < node_count(n)) {
			s = node_slot(n, i + 1);
			memcpy(below.high, s.key, below.high_len = s.klen);
		}
		leaves_add(r, &below, out);
	}
	cache_unref(obj);
}

static struct leaves leaves_of(struct rig *r, const struct bp *root)
{
	struct leaves out = {.count = 0};
	struct leaf all = {.bp = *root};

	if (!bp_is_hole(root))
		leaves_add(r, &all, &out);
	return out;
}

/* A leaf of the new tree that is not new covers what it covered. */
static void expect_ranges(const struct leaves *old, const struct leaves *new, uint64_t txg)
{
	uint32_t k = 0;

	for (uint32_t i = 0; i < new->count; i++) {
		const struct leaf *leaf = &new->leaf[i];

		if (leaf->bp.birth == txg)
			continue;
		while (k < old->count && memcmp(&old->leaf[k].bp, &leaf->bp, sizeof(leaf->bp)))
			k++;
		FAKE_CHECK(k < old->count);
		FAKE_CHECK(key_compare(leaf->low, leaf->low_len, old->leaf[k].low,
				       old->leaf[k].low_len) == 0);
		FAKE_CHECK(key_compare(leaf->high, leaf->high_len, old->leaf[k].high,
				       old->leaf[k].high_len) == 0);
	}
}

/* Deletes in runs and at random, so that leaves empty, merge and stay empty (with a small cache).
 */
static void delete_some(struct rig *r, uint32_t keys, uint64_t *random)
{
	uint32_t from = test_random(random) % keys, n = test_random(random) % (keys / 8);

	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = test_random(random) % 4 ? from + i : test_random(random) % keys;
		struct model_item it = value_item(k, 0);

		rig_del(r, it.key, it.klen, false);
	}
}

static void ranges_run(uint64_t random, uint64_t cache_max)
{
	enum { KEYS = 4000 };
	struct fake *f = fake_plain();
	struct leaves old = {.count = 0}, new;
	struct rig r;
	struct bp root;

	rig_open(&r, f, cache_max, &empty);
	for (uint32_t i = 0; i < KEYS; i++) {
		struct model_item it = value_item(i, 50 + i % 300);

		rig_put(&r, &it, false);
	}
	for (uint64_t txg = 10; txg < 60; txg++) {
		if (txg > 10)
			delete_some(&r, KEYS, &random);
		if (txg % 5 == 0) {
			struct model_item it = value_item(test_random(&random) % KEYS, 1000);

			rig_put(&r, &it, false);
		}
		root = rig_txg(&r);
		new = leaves_of(&r, &root);
		expect_ranges(&old, &new, txg);
		free(old.leaf);
		old = new;
	}
	free(old.leaf);
	rig_close(&r);
	fake_free(f);
}

static void test_ranges(void **state)
{
	ranges_run(*(uint64_t *)*state, 8 << 20);
	ranges_run(*(uint64_t *)*state + 1, 100 << 10);
}

/* In order of keys, nodes are left nearly full; after deletion of most, few are left. */
static void test_fill_and_empty(void **state)
{
	enum { KEYS = 20000, LEN = 100, BYTES = LEN + 8 + 8 };
	struct fake *f = fake_plain();
	struct leaves leaves;
	struct rig r;
	struct bp root;

	(void)state;
	rig_open(&r, f, 32 << 20, &empty);
	for (uint32_t i = 0; i < KEYS; i++) {
		struct model_item it = value_item(i, LEN);

		rig_put(&r, &it, false);
	}
	root = rig_txg(&r);
	leaves = leaves_of(&r, &root);
	assert_true(leaves.count <= KEYS * BYTES / (TREE_NODE_SIZE * 98 / 100) + 1);
	free(leaves.leaf);
	for (uint32_t i = 0; i < KEYS; i++) {
		struct model_item it = value_item(i, LEN);

		if (i % 100)
			assert_int_equal(rig_del(&r, it.key, it.klen, false), 0);
	}
	root = rig_txg(&r);
	leaves = leaves_of(&r, &root);
	assert_true(leaves.count <= 6);
	free(leaves.leaf);
	for (uint32_t i = 0; i < KEYS; i += 100) {
		struct model_item it = value_item(i, LEN);

		assert_int_equal(rig_del(&r, it.key, it.klen, false), 0);
	}
	root = rig_txg(&r);
	assert_true(bp_is_hole(&root));
	rig_close(&r);
	fake_free(f);
}

int main(void)
{
	static uint64_t seed;
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_empty),
	    cmocka_unit_test(test_unchanged),
	    cmocka_unit_test(test_records_last),
	    cmocka_unit_test_prestate(test_sync_tree, &seed),
	    cmocka_unit_test_prestate(test_ranges, &seed),
	    cmocka_unit_test(test_fill_and_empty),
	};

	seed = test_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
