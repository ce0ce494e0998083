// SPDX-License-Identifier: LGPL-3.0-or-later
/* runs 100000 */
/* Images of tree nodes: raw ones, and entries made from the input with a head and offsets that fit,
   so that what comes after is reached. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "tree/node.h"

#define BIRTH 50

/* Reads all there is in a node that was accepted. */
static void use(struct tree_node *n)
{
	struct slot last = {.klen = 0};
	bool found;

	for (uint32_t i = 0; i < node_count(n); i++) {
		struct slot s = node_slot(n, i);

		MUST(s.klen <= TREE_KEY_MAX && (s.klen || (n->level && i == 0)));
		fuzz_touch(s.key, s.klen);
		fuzz_touch(s.val, s.vlen);
		MUST(node_find(n, s.key, s.klen, &found) == i && found);
		MUST(i == 0 || key_compare(last.key, last.klen, s.key, s.klen) < 0);
		if (s.kind != SLOT_VALUE)
			MUST(slot_bp(&s).birth <= BIRTH && slot_bp(&s).lsize <= BLOCK_MAX);
		last = s;
	}
	node_within(n, "a", 1, "b", 1);
}

static void fill_head(struct fuzz_input *in, struct node_head *head, unsigned level)
{
	*head = (struct node_head){
	    .magic = NODE_MAGIC, .count = fuzz_number(in, 1) % 32, .level = level, .birth = BIRTH};
}

/* Entries as the input has them, the offsets where they begin. */
static uint32_t build(struct fuzz_input *in, uint8_t *image, unsigned level)
{
	struct node_head *head = (struct node_head *)image;
	uint32_t at;

	fill_head(in, head, level);
	at = sizeof(*head) + head->count * sizeof(uint16_t);
	for (unsigned i = 0; i < head->count; i++) {
		struct node_entry *e = (struct node_entry *)(image + at);
		uint16_t offset = at;

		memcpy(image + sizeof(*head) + i * sizeof(offset), &offset, sizeof(offset));
		e->klen = fuzz_number(in, 1) % 20;
		e->kind = fuzz_number(in, 1);
		e->vlen = e->kind == SLOT_VALUE ? fuzz_number(in, 1) : sizeof(struct bp);
		e->reserved = 0;
		fuzz_bytes(in, e->bytes, e->klen + e->vlen);
		at += sizeof(*e) + e->klen + e->vlen;
	}
	return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, data + size};
	unsigned how = fuzz_number(&in, 1), level = how / 2 % 4;
	struct bp bp = {.type = BP_NODE, .level = level, .birth = BIRTH};
	uint8_t *image, *copy;
	struct cache_obj *obj;

	if (how & 1) {
		image = calloc(1, TREE_NODE_SIZE);
		bp.lsize = build(&in, image, level);
		copy = malloc(bp.lsize);
		memcpy(copy, image, bp.lsize);
		free(image);
	} else {
		bp.lsize = fuzz_left(&in);
		copy = fuzz_rest(&in);
	}
	MUST(bp.lsize <= TREE_NODE_SIZE || tree_node_validate(copy, bp.lsize, level));
	if (!cache_type_node.decode(copy, &bp, &obj)) {
		use((struct tree_node *)obj);
		cache_unref(obj);
	}
	return 0;
}
