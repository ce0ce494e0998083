// SPDX-License-Identifier: LGPL-3.0-or-later
/* Node images that are not what they should be, with checksums that are right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tree/node.h"
#include "tree_rig.h"

/* ---- images ---- */

static struct bp child_bp(uint64_t *random, uint8_t type, uint8_t level)
{
	struct bp bp = {.chunk = 1 + test_random(random) % 1000,
			.sector = test_random(random) % 100000,
			.lsize = 1 + test_random(random) % 16000,
			.type = type,
			.level = level,
			.cksum = CKSUM_XXH3,
			.birth = 1 + test_random(random) % 50};

	bp.psize = bp.lsize;
	return bp;
}

/* A valid image of a node of txg 50. */
static uint8_t *image_new(uint64_t *random, unsigned level, uint32_t *length)
{
	struct tree_node *n = node_new(level, 50);
	uint32_t want = 1 + test_random(random) % 200;
	char key[64];
	uint8_t *image;
	struct bp bp;

	for (uint32_t i = 0; i < want; i++) {
		struct slot s = {.key = (uint8_t *)key, .val = (uint8_t *)&bp, .vlen = sizeof(bp)};

		s.klen = snprintf(key, sizeof(key), "%06u%.*s", i, (int)(test_random(random) % 20),
				  "aaaaaaaaaaaaaaaaaaaaaaaa");
		if (level && i == 0)
			s.klen = 0;
		s.kind = level ? SLOT_CHILD : test_random(random) % 3;
		bp = child_bp(random,
			      level                  ? BP_NODE
			      : s.kind == SLOT_LARGE ? BP_VALUE
						     : BP_DATA,
			      level ? level - 1 : 0);
		if (s.kind == SLOT_VALUE)
			s.vlen = test_random(random) % 65;
		if (node_room(n) < slot_bytes(s.klen, s.vlen))
			break;
		node_insert(n, i, &s);
	}
	image = node_image(n, 50);
	FAKE_CHECK(image);
	*length = n->used;
	slot_obj_unref(&n->slot);
	return image;
}

/* Reads all there is in a node that was accepted. */
static void use(struct tree_node *n)
{
	struct slot s, last = {.klen = 0};
	uint32_t sum = 0;
	bool found;

	for (uint32_t i = 0; i < node_count(n); i++) {
		s = node_slot(n, i);
		for (uint32_t k = 0; k < s.vlen; k++)
			sum += s.val[k];
		assert_int_equal(node_find(n, s.key, s.klen, &found), i);
		assert_true(found);
		if (i > 0)
			assert_true(key_compare(last.key, last.klen, s.key, s.klen) < 0);
		last = s;
	}
	assert_true(sum < UINT32_MAX);
}

/* Decodes as the cache does, from memory of just the image's length. */
static bool accepted(const uint8_t *image, uint32_t length, unsigned level)
{
	struct bp bp = {.lsize = length, .type = BP_NODE, .level = level, .birth = 50};
	uint8_t *copy = malloc(length + !length);
	struct cache_obj *obj;

	memcpy(copy, image, length);
	if (cache_type_node.decode(copy, &bp, &obj))
		return false;
	use((struct tree_node *)obj);
	cache_unref(obj);
	return true;
}

static void test_mutations(void **state)
{
	uint64_t random = *(uint64_t *)*state;
	uint32_t length, refused = 0;

	for (int n = 0; n < 3000; n++) {
		unsigned level = test_random(&random) % 3;
		uint8_t *image = image_new(&random, level, &length);

		assert_int_equal(tree_node_validate(image, length, level), 0);
		assert_true(accepted(image, length, level));
		assert_false(accepted(image, length, level + 1));
		assert_false(accepted(image, test_random(&random) % length, level));
		for (int bytes = 1 + test_random(&random) % 4; bytes > 0; bytes--) {
			/* Most hits where the structure is. */
			uint32_t end = test_random(&random) % 2 ? length : 16 + length / 20;

			image[test_random(&random) % end] = test_random(&random);
		}
		refused += !accepted(image, length, level);
		free(image);
	}
	assert_true(refused > 1000);
}

static void test_noise(void **state)
{
	uint64_t random = *(uint64_t *)*state;
	uint8_t bytes[1024];

	for (int n = 0; n < 20000; n++) {
		uint32_t length = test_random(&random) % sizeof(bytes);
		struct node_head head = {
		    .magic = NODE_MAGIC, .count = test_random(&random) % 40, .birth = 50};

		test_fill(bytes, length, test_random(&random));
		if (length >= sizeof(head))
			memcpy(bytes, &head, sizeof(head));
		accepted(bytes, length, 0);
	}
}

/* ---- trees ---- */

enum { KEYS = 2000, LEN = 200 };

struct hostile {
	struct fake *f;
	struct rig r;
	struct bp root;
	struct bp child[64];
	uint32_t children;
};

static struct model_item item_of(uint32_t n)
{
	struct model_item it = {.kind = M_VALUE, .len = LEN, .seed = n};

	it.klen = snprintf((char *)it.key, sizeof(it.key), "%08u", n);
	return it;
}

/* A tree of two levels whose leaves are all equally long, committed and not in memory. */
static void hostile_open(struct hostile *h, unsigned fail_reads)
{
	struct bp empty = {.birth = 1};
	struct cache_obj *obj;

	h->f = fake_new(&(struct fake_options){.threads = 2, .keep = TXG_KEEP, .seed = 1});
	rig_open(&h->r, h->f, 8 << 20, &empty);
	for (uint32_t i = 0; i < KEYS; i++) {
		struct model_item it = item_of(i);

		rig_put(&h->r, &it, false);
	}
	h->root = rig_txg(&h->r);
	FAKE_CHECK(cache_read_wait(h->r.cache, fake_pool(h->f), &cache_type_node, &h->root, &obj) ==
		   0);
	h->children = node_count((struct tree_node *)obj);
	assert_in_range(h->children, 5, 64);
	for (uint32_t i = 0; i < h->children; i++) {
		struct slot s = node_slot((struct tree_node *)obj, i);

		h->child[i] = slot_bp(&s);
	}
	cache_unref(obj);
	rig_close(&h->r);
	rig_open(&h->r, h->f, 8 << 20, &h->root);
	fake_fail_reads(h->f, fail_reads);
}

static void hostile_close(struct hostile *h)
{
	rig_close(&h->r);
	fake_free(h->f);
}

static int read_key(struct hostile *h, uint32_t n)
{
	struct model_item it = item_of(n);
	uint8_t buf[LEN];
	struct tree_miss miss;
	struct tree_val v;
	int rc;

	while ((rc = tree_get(&h->r.tree, it.key, it.klen, buf, LEN, &v, &miss)) == -EAGAIN) {
		rc = tree_fetch(&h->r.tree, &miss);
		if (rc)
			return rc;
	}
	if (rc == 0)
		FAKE_CHECK(v.len == LEN && test_filled(buf, LEN, it.seed));
	return rc;
}

static int del_key(struct hostile *h, uint32_t n)
{
	struct model_item it = item_of(n);
	struct tree_miss miss;
	struct tx tx;
	int rc;

	do {
		FAKE_CHECK(tx_begin(fake_pool(h->f), TREE_RESERVE(1), TX_NORMAL, &tx) == 0);
		rc = tree_del(&tx, &h->r.tree, it.key, it.klen, &miss);
		tx_end(&tx);
	} while (rc == -EAGAIN && (rc = tree_fetch(&h->r.tree, &miss)) == 0);
	return rc;
}

struct bad_count {
	uint32_t bad, nodes;
};

static int count_bad(void *arg, const struct bp *bp, unsigned level, int error)
{
	FAKE_CHECK(error == -EIO && bp->level == level);
	((struct bad_count *)arg)->bad++;
	return 0;
}

static int count_node(void *arg, const struct bp *bp, unsigned level)
{
	(void)bp, (void)level;
	((struct bad_count *)arg)->nodes++;
	return 0;
}

/* Just the damaged leaf (the first) is lost. */
static void expect_first_lost(struct hostile *h)
{
	static const struct tree_walk_ops ops = {.node = count_node, .bad = count_bad};

	for (int cached = 0; cached < 2; cached++) {
		struct bad_count n = {0};

		assert_int_equal(
		    tree_walk(fake_pool(h->f), cached ? h->r.cache : NULL, &h->root, &ops, &n), 0);
		assert_int_equal(n.bad, 1);
		assert_int_equal(n.nodes, h->children);
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(read_key(h, 0), -EIO);
		assert_int_equal(del_key(h, 0), -EIO);
		assert_int_equal(read_key(h, KEYS - 1), 0);
	}
}

static void replace_first(struct hostile *h, void (*change)(uint8_t *image))
{
	uint32_t length = h->child[0].lsize;
	uint8_t *image = malloc(length);

	fake_content(h->f, &h->child[0], image);
	change(image);
	fake_replace(h->f, &h->child[0], image);
	free(image);
	expect_first_lost(h);
}

static void later_birth(uint8_t *image)
{
	((struct node_head *)image)->birth++;
}

static void other_level(uint8_t *image)
{
	((struct node_head *)image)->level = 1;
}

static void swapped_offsets(uint8_t *image)
{
	uint16_t *offset = (uint16_t *)(image + sizeof(struct node_head)), first = offset[0];

	offset[0] = offset[1];
	offset[1] = first;
}

static void test_damaged_leaf(void **state)
{
	void (*const changes[])(uint8_t *) = {later_birth, other_level, swapped_offsets};

	(void)state;
	for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
		struct hostile h;

		hostile_open(&h, 0);
		replace_first(&h, changes[i]);
		hostile_close(&h);
	}
}

/* A good leaf in a wrong place: its keys are not in the range of its parent's slot. */
static void test_wrong_range(void **state)
{
	struct hostile h;
	uint8_t *other;

	(void)state;
	hostile_open(&h, 0);
	assert_int_equal(h.child[0].lsize, h.child[1].lsize);
	other = malloc(h.child[1].lsize);
	fake_content(h.f, &h.child[1], other);
	fake_replace(h.f, &h.child[0], other);
	free(other);
	expect_first_lost(&h);
	hostile_close(&h);
}

/* ---- errors ---- */

static void test_read_errors(void **state)
{
	struct hostile h;
	int errors = 0;

	(void)state;
	hostile_open(&h, 500);
	for (uint32_t i = 0; i < KEYS; i += 50) {
		int rc = read_key(&h, i);

		assert_true(rc == 0 || rc == -EIO);
		errors += rc != 0;
	}
	assert_true(errors > 0);
	fake_fail_reads(h.f, 0);
	for (uint32_t i = 0; i < KEYS; i++)
		assert_int_equal(read_key(&h, i), 0);
	hostile_close(&h);
}

static void on_fetched(void *arg, int result)
{
	atomic_store((atomic_int *)arg, result);
}

static void test_fetch_async(void **state)
{
	struct model_item it = item_of(77);
	uint8_t buf[LEN];
	struct tree_miss miss;
	struct hostile h;
	struct tree_val v;
	atomic_int result;
	int rc, fetches = 0;

	(void)state;
	hostile_open(&h, 0);
	while ((rc = tree_get(&h.r.tree, it.key, it.klen, buf, LEN, &v, &miss)) == -EAGAIN) {
		atomic_store(&result, 1);
		fake_reads_stop(h.f);
		tree_fetch_async(&h.r.tree, &miss, on_fetched, &result);
		assert_int_equal(atomic_load(&result), 1);
		fake_reads_go(h.f);
		while (atomic_load(&result) == 1)
			sched_yield();
		assert_int_equal(atomic_load(&result), 0);
		fetches++;
	}
	assert_int_equal(rc, 0);
	assert_int_equal(fetches, 2);

	/* Giving up leaves nothing behind. */
	it = item_of(KEYS - 1);
	assert_int_equal(tree_get(&h.r.tree, it.key, it.klen, buf, LEN, &v, &miss), -EAGAIN);
	tree_miss_drop(&h.r.tree, &miss);
	hostile_close(&h);
}

int main(void)
{
	static uint64_t seed;
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_prestate(test_mutations, &seed),
	    cmocka_unit_test_prestate(test_noise, &seed),
	    cmocka_unit_test(test_damaged_leaf),
	    cmocka_unit_test(test_wrong_range),
	    cmocka_unit_test(test_read_errors),
	    cmocka_unit_test(test_fetch_async),
	};

	seed = test_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
