// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * A tree node in memory and its page. A page is a header, an array of offsets sorted by key, and
 * entries of key and value:
 *
 *   image    (on disk, and clean nodes): entries follow the offsets in their order, no gaps; its
 *            length is the block's logical size
 *   working  (nodes being changed): TREE_NODE_SIZE bytes, entries fill it from the end down; once
 *            the sync has made the image, that is the page
 *
 * The keys of an inner node are the lower bounds of its children; the first one is empty, its
 * child's bound is the node's own. A working node may hold a reference to an object instead of
 * the final bytes of a slot.
 *
 * Three states: open (of the open txg: changed under the exclusive latch), frozen (nothing
 * changes until it is committed), clean (nothing changes any more: no latch needed).
 *
 * Private to tree/. Nothing here takes a latch.
 */
#ifndef TARN_TREE_NODE_H
#define TARN_TREE_NODE_H

#include "tree/tree.h"

#define NODE_MAGIC 0x45444f4eu /* "NODE" */
#define SLOT_CHILD 3           /* slot kind of inner nodes: a bp */
#define NODE_KINDS 4

/* On disk. */
struct node_head {
	uint32_t magic;
	uint16_t count;
	uint8_t level; /* 0: leaf */
	uint8_t reserved;
	uint64_t birth; /* as in its bp; bounds those of all bps inside */
};
static_assert(sizeof(struct node_head) == 16, "node header");

struct node_entry {
	uint16_t klen, vlen;
	uint8_t kind; /* enum slot_kind or SLOT_CHILD */
	uint8_t reserved;
	uint8_t bytes[]; /* key, value; the value of all kinds but SLOT_VALUE is a bp */
} __attribute__((packed));
static_assert(sizeof(struct node_entry) == 6, "node entry");

struct tree_node {
	struct cache_obj obj; /* its references keep the node; those to slot together hold one */
	struct slot_obj slot; /* not of clean nodes that were read */
	pthread_rwlock_t latch;
	atomic_bool clean;
	atomic_bool placed; /* its keys were seen to lie in its parent's range for it */
	uint8_t level;
	uint32_t used; /* bytes of its image */
	uint32_t heap; /* working: entries lie at and above; 0: an image */
	uint8_t *page;
	struct slot_obj **child; /* working: by slot, NULL where the bytes are final */
	uint32_t child_room;     /* slots child[] has room for; 0: no references */
};

/* A slot, read or to be stored. */
struct slot {
	const uint8_t *key, *val; /* val NULL: zeros, as obj counts */
	uint32_t klen, vlen;
	uint8_t kind;
	struct slot_obj *obj;
};

/* Memory for a change that cannot fail any more: without any the process ends. */
void *tree_alloc(size_t bytes);
void tree_no_memory(void) __attribute__((noreturn));

static inline struct node_head *node_head(const struct tree_node *n)
{
	return (struct node_head *)n->page;
}

static inline uint32_t node_count(const struct tree_node *n)
{
	return node_head(n)->count;
}

static inline struct tree_node *node_of_slot(struct slot_obj *obj)
{
	return (struct tree_node *)((char *)obj - offsetof(struct tree_node, slot));
}

static inline struct slot_obj *node_obj(const struct tree_node *n, uint32_t i)
{
	return n->child_room ? n->child[i] : NULL;
}

/* May be changed in place by this txg. */
static inline bool node_open(const struct tree_node *n, uint64_t txg)
{
	return n->slot.txg == txg && !atomic_load(&n->clean);
}

static inline uint32_t node_room(const struct tree_node *n)
{
	return TREE_NODE_SIZE - n->used;
}

/* Bytes a slot takes. */
static inline uint32_t slot_bytes(uint32_t klen, uint32_t vlen)
{
	return sizeof(uint16_t) + sizeof(struct node_entry) + klen + vlen;
}

void latch_init(pthread_rwlock_t *latch);
int key_compare(const void *a, uint32_t alen, const void *b, uint32_t blen);

/* An empty working node. One reference to its slot. */
struct tree_node *node_new(uint8_t level, uint64_t txg);
/* A working copy. What has been committed is taken as bytes. */
struct tree_node *node_clone(const struct tree_node *n, uint64_t txg);

struct slot node_slot(const struct tree_node *n, uint32_t i);
/* The bp in the bytes of a slot. */
struct bp slot_bp(const struct slot *s);
/* First slot whose key is not less. */
uint32_t node_find(const struct tree_node *n, const void *key, uint32_t klen, bool *found);
/* The child whose range holds key; with before the one that holds the keys right before it. */
uint32_t node_child(const struct tree_node *n, const void *key, uint32_t klen, bool before);

/* The reference to s->obj becomes the node's. There is room. */
void node_insert(struct tree_node *n, uint32_t i, const struct slot *s);
/* The slot's reference becomes the caller's. */
void node_remove(struct tree_node *n, uint32_t i);
void node_set_obj(struct tree_node *n, uint32_t i, struct slot_obj *obj);
/* Moves slots m and up to the empty node right. */
void node_split(struct tree_node *n, uint32_t m, struct tree_node *right);
/* Adds all slots of the right neighbour, whose range begins at low; with move takes its
   references, else adds some. */
void node_append(struct tree_node *n, struct tree_node *right, const void *low, uint32_t low_len,
		 bool move);

/* The image with final bytes of all objects: dev_buf_alloc() memory of n->used bytes, zeros up to
   the sector's end. NULL: no memory. */
uint8_t *node_image(const struct tree_node *n, uint64_t birth);
/* The image takes the place of the page. The latch is held exclusively, as for node_settle(). */
void node_set_image(struct tree_node *n, uint8_t *image);
/* A committed node becomes clean. Its references are handed out (free(*child)). */
void node_settle(struct tree_node *n, struct slot_obj ***child, uint32_t *count);
extern const struct cache_type cache_type_node;
/* All keys lie in [low, high). */
bool node_within(const struct tree_node *n, const void *low, uint32_t low_len, const void *high,
		 uint32_t high_len);

#endif
