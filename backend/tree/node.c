// SPDX-License-Identifier: LGPL-3.0-or-later
#include "tree/node.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tree/object.h"

#define HEAD sizeof(struct node_head)

void tree_no_memory(void)
{
	fputs("tarn: out of memory in the middle of a change\n", stderr);
	abort();
}

void *tree_alloc(size_t bytes)
{
	void *p = malloc(bytes);

	if (!p)
		tree_no_memory();
	return p;
}

int key_compare(const void *a, uint32_t alen, const void *b, uint32_t blen)
{
	uint32_t common = alen < blen ? alen : blen;
	int diff = common ? memcmp(a, b, common) : 0;

	return diff ? diff : (alen > blen) - (alen < blen);
}

/* ---- page access ---- */

static uint16_t *offsets(const struct tree_node *n)
{
	return (uint16_t *)(n->page + HEAD);
}

static struct node_entry *entry(const struct tree_node *n, uint32_t i)
{
	return (struct node_entry *)(n->page + offsets(n)[i]);
}

static uint32_t entry_bytes(const struct node_entry *e)
{
	return sizeof(*e) + e->klen + e->vlen;
}

struct slot node_slot(const struct tree_node *n, uint32_t i)
{
	const struct node_entry *e = entry(n, i);

	return (struct slot){.key = e->bytes,
			     .val = e->bytes + e->klen,
			     .klen = e->klen,
			     .vlen = e->vlen,
			     .kind = e->kind,
			     .obj = node_obj(n, i)};
}

struct bp slot_bp(const struct slot *s)
{
	struct bp bp;

	assert(s->vlen == sizeof(bp));
	memcpy(&bp, s->val, sizeof(bp));
	return bp;
}

uint32_t node_find(const struct tree_node *n, const void *key, uint32_t klen, bool *found)
{
	uint32_t low = 0, high = node_count(n);

	*found = false;
	while (low < high) {
		uint32_t mid = (low + high) / 2;
		const struct node_entry *e = entry(n, mid);
		int diff = key_compare(e->bytes, e->klen, key, klen);

		if (diff == 0) {
			*found = true;
			return mid;
		}
		if (diff < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

uint32_t node_child(const struct tree_node *n, const void *key, uint32_t klen, bool before)
{
	bool found;
	uint32_t i = node_find(n, key, klen, &found);

	return (found && !before) || i == 0 ? i : i - 1;
}

/* ---- life ---- */

static void node_free(struct cache_obj *obj)
{
	struct tree_node *n = (struct tree_node *)obj;

	for (uint32_t i = 0; n->child_room && i < node_count(n); i++) {
		if (n->child[i])
			slot_obj_unref(n->child[i]);
	}
	pthread_rwlock_destroy(&n->latch);
	free(n->child);
	free(n->page);
	free(n);
}

static void node_slot_gone(struct slot_obj *slot)
{
	cache_unref(&node_of_slot(slot)->obj);
}

static const struct slot_ops node_slot_ops = {.destroy = node_slot_gone};

void latch_init(pthread_rwlock_t *latch)
{
	pthread_rwlockattr_t attr;

	pthread_rwlockattr_init(&attr);
	/* No thread takes one twice, so writers need not starve. */
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(latch, &attr);
	pthread_rwlockattr_destroy(&attr);
}

static void node_init(struct tree_node *n, uint8_t level, uint64_t txg)
{
	memset(n, 0, sizeof(*n));
	cache_obj_init(&n->obj, &cache_type_node, node_free);
	slot_obj_init(&n->slot, &node_slot_ops, txg);
	latch_init(&n->latch);
	n->level = level;
}

struct tree_node *node_new(uint8_t level, uint64_t txg)
{
	struct tree_node *n = tree_alloc(sizeof(*n));

	node_init(n, level, txg);
	atomic_init(&n->placed, true);
	n->page = tree_alloc(TREE_NODE_SIZE);
	*node_head(n) = (struct node_head){.magic = NODE_MAGIC, .level = level};
	n->used = HEAD;
	n->heap = TREE_NODE_SIZE;
	return n;
}

struct tree_node *node_clone(const struct tree_node *n, uint64_t txg)
{
	struct tree_node *copy = node_new(n->level, txg);

	node_append(copy, (struct tree_node *)n, NULL, 0, false);
	return copy;
}

/* ---- changes ---- */

static void child_reserve(struct tree_node *n, uint32_t count)
{
	uint32_t room = n->child_room ? n->child_room : 32;
	struct slot_obj **child;

	if (count <= n->child_room)
		return;
	while (room < count)
		room *= 2;
	child = tree_alloc(room * sizeof(*child));
	memset(child, 0, room * sizeof(*child));
	if (n->child_room)
		memcpy(child, n->child, n->child_room * sizeof(*child));
	free(n->child);
	n->child = child;
	n->child_room = room;
}

/* Closes the gaps that removed entries left. */
static void node_compact(struct tree_node *n)
{
	uint8_t *page = tree_alloc(TREE_NODE_SIZE);
	uint32_t count = node_count(n), heap = TREE_NODE_SIZE;
	uint16_t *to = (uint16_t *)(page + HEAD);

	memcpy(page, n->page, HEAD);
	for (uint32_t i = 0; i < count; i++) {
		const struct node_entry *e = entry(n, i);

		heap -= entry_bytes(e);
		memcpy(page + heap, e, entry_bytes(e));
		to[i] = heap;
	}
	free(n->page);
	n->page = page;
	n->heap = heap;
}

void node_insert(struct tree_node *n, uint32_t i, const struct slot *s)
{
	uint32_t bytes = slot_bytes(s->klen, s->vlen) - sizeof(uint16_t), count = node_count(n);
	struct node_entry *e;

	assert(bytes + sizeof(uint16_t) <= node_room(n) && i <= count);
	if (n->heap < HEAD + (count + 1) * sizeof(uint16_t) + bytes)
		node_compact(n); /* an image, too, becomes a working page */
	n->heap -= bytes;
	e = (struct node_entry *)(n->page + n->heap);
	*e = (struct node_entry){.klen = s->klen, .vlen = s->vlen, .kind = s->kind};
	if (s->klen)
		memcpy(e->bytes, s->key, s->klen);
	if (s->val && s->vlen)
		memcpy(e->bytes + s->klen, s->val, s->vlen);
	else
		memset(e->bytes + s->klen, 0, s->vlen);
	memmove(offsets(n) + i + 1, offsets(n) + i, (count - i) * sizeof(uint16_t));
	offsets(n)[i] = n->heap;
	if (s->obj || n->child_room) {
		child_reserve(n, count + 1);
		memmove(n->child + i + 1, n->child + i, (count - i) * sizeof(*n->child));
		n->child[i] = s->obj;
	}
	node_head(n)->count++;
	n->used += bytes + sizeof(uint16_t);
	atomic_store(&n->slot.written, false);
}

void node_remove(struct tree_node *n, uint32_t i)
{
	uint32_t count = node_count(n);

	assert(i < count);
	n->used -= entry_bytes(entry(n, i)) + sizeof(uint16_t);
	memmove(offsets(n) + i, offsets(n) + i + 1, (count - i - 1) * sizeof(uint16_t));
	if (n->child_room) {
		memmove(n->child + i, n->child + i + 1, (count - i - 1) * sizeof(*n->child));
		n->child[count - 1] = NULL;
	}
	node_head(n)->count--;
	atomic_store(&n->slot.written, false);
}

void node_set_obj(struct tree_node *n, uint32_t i, struct slot_obj *obj)
{
	assert(i < node_count(n));
	child_reserve(n, node_count(n));
	n->child[i] = obj;
	atomic_store(&n->slot.written, false);
}

void node_split(struct tree_node *n, uint32_t m, struct tree_node *right)
{
	uint32_t count = node_count(n);

	for (uint32_t i = m; i < count; i++) {
		struct slot s = node_slot(n, i);

		if (n->level && i == m)
			s.klen = 0;
		node_insert(right, i - m, &s);
	}
	while (count > m)
		node_remove(n, --count);
}

void node_append(struct tree_node *n, struct tree_node *right, const void *low, uint32_t low_len,
		 bool move)
{
	uint32_t count = node_count(right), have = node_count(n);

	for (uint32_t i = 0; i < count; i++) {
		struct slot s = node_slot(right, i);

		if (right->level && i == 0) {
			s.key = low;
			s.klen = low_len;
		}
		if (s.obj && !move) {
			slot_settle(&s);
			if (s.obj)
				slot_obj_ref(s.obj);
		}
		node_insert(n, have + i, &s);
		if (s.obj && move)
			right->child[i] = NULL;
	}
}

/* ---- images ---- */

static uint32_t sector_round(uint32_t bytes)
{
	return (bytes + SECTOR_SIZE - 1) & -SECTOR_SIZE;
}

uint8_t *node_image(const struct tree_node *n, uint64_t birth)
{
	uint32_t room = sector_round(n->used), count = node_count(n);
	uint32_t at = HEAD + count * sizeof(uint16_t);
	uint8_t *image = dev_buf_alloc(room);
	uint16_t *to = (uint16_t *)(image + HEAD);

	if (!image)
		return NULL;
	memcpy(image, n->page, HEAD);
	((struct node_head *)image)->birth = birth;
	for (uint32_t i = 0; i < count; i++) {
		const struct node_entry *from = entry(n, i);
		struct slot s = node_slot(n, i);

		if (s.obj)
			slot_final(&s);
		to[i] = at;
		memcpy(image + at, from, sizeof(*from) + s.klen);
		memcpy(image + at + sizeof(*from) + s.klen, s.val, s.vlen);
		at += entry_bytes(from);
	}
	assert(at == n->used);
	memset(image + at, 0, room - at);
	return image;
}

void node_set_image(struct tree_node *n, uint8_t *image)
{
	free(n->page);
	n->page = image;
	n->heap = 0;
}

static void node_set_clean(struct tree_node *n)
{
	n->obj.lsize = n->used;
	n->obj.size = sizeof(*n) + sector_round(n->used);
	atomic_store(&n->clean, true);
}

void node_settle(struct tree_node *n, struct slot_obj ***child, uint32_t *count)
{
	*child = n->child;
	*count = n->child_room ? node_count(n) : 0;
	n->child = NULL;
	n->child_room = 0;
	node_set_clean(n);
}

static bool entry_valid(const struct node_entry *e, unsigned level, uint32_t i, uint64_t birth)
{
	struct bp bp;

	if (e->klen > TREE_KEY_MAX || e->reserved || (e->klen == 0) != (level && i == 0))
		return false;
	if (level ? e->kind != SLOT_CHILD : e->kind > SLOT_BLOCK)
		return false;
	if (e->kind == SLOT_VALUE)
		return e->vlen <= TREE_INLINE_MAX;
	if (e->vlen != sizeof(bp))
		return false;
	memcpy(&bp, e->bytes + e->klen, sizeof(bp));
	if (!bp_valid(&bp, birth))
		return false;
	switch (e->kind) {
	case SLOT_CHILD:
		return bp.type == BP_NODE && bp.level == level - 1 && bp.lsize <= TREE_NODE_SIZE;
	case SLOT_LARGE:
		return bp.type == BP_VALUE && bp.lsize <= TREE_VALUE_MAX;
	default:
		return bp.type == BP_HOLE || bp.type == BP_DATA;
	}
}

int tree_node_validate(const void *image, uint32_t length, unsigned level)
{
	const struct node_head *head = image;
	const uint16_t *offset = (const uint16_t *)((const uint8_t *)image + HEAD);
	const struct node_entry *e, *prev = NULL;
	uint32_t at;

	if (length < HEAD || length > TREE_NODE_SIZE || level >= TREE_HEIGHT_MAX)
		return -EIO;
	if (head->magic != NODE_MAGIC || head->level != level || head->reserved ||
	    (level && head->count == 0))
		return -EIO;
	at = HEAD + head->count * sizeof(uint16_t);
	for (uint32_t i = 0; i < head->count; i++) {
		/* The first check keeps the offsets themselves inside, too. */
		if (at + sizeof(*e) > length || offset[i] != at)
			return -EIO;
		e = (const struct node_entry *)((const uint8_t *)image + at);
		if (entry_bytes(e) > length - at || !entry_valid(e, level, i, head->birth))
			return -EIO;
		if (prev && key_compare(prev->bytes, prev->klen, e->bytes, e->klen) >= 0)
			return -EIO;
		at += entry_bytes(e);
		prev = e;
	}
	return at == length ? 0 : -EIO;
}

static int node_decode(void *buf, const struct bp *bp, struct cache_obj **out)
{
	const struct node_head *head = buf;
	struct tree_node *n;

	if (tree_node_validate(buf, bp->lsize, bp->level) || head->birth != bp->birth) {
		free(buf);
		return -EIO;
	}
	n = malloc(sizeof(*n));
	if (!n) {
		free(buf);
		return -ENOMEM;
	}
	node_init(n, bp->level, bp->birth);
	n->page = buf;
	n->used = bp->lsize;
	node_set_clean(n);
	*out = &n->obj;
	return 0;
}

const struct cache_type cache_type_node = {CACHE_META, node_decode};

bool node_within(const struct tree_node *n, const void *low, uint32_t low_len, const void *high,
		 uint32_t high_len)
{
	uint32_t count = node_count(n), first = n->level ? 1 : 0;
	struct slot s;

	if (count <= first)
		return true;
	s = node_slot(n, first);
	if (key_compare(s.key, s.klen, low, low_len) < (n->level ? 1 : 0))
		return false;
	s = node_slot(n, count - 1);
	return !high_len || key_compare(s.key, s.klen, high, high_len) < 0;
}
