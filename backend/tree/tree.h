// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The one copy-on-write B+tree: memcmp-ordered keys, variable values, nodes of up to 16 KiB.
 *
 * A node carries the txg in which it was made. A node of the open txg may be changed in
 * place under its latch; an older one is cloned first (and its old block freed). Clean
 * nodes live in the cache and are found by bp; dirty ones are referenced by their
 * parent's slot. A slot holds a value, a bp, or a counted reference to an object (struct slot_obj:
 * node, dirty record, large value, inode version) whose final bytes are known only to its
 * txg's sync. The result is stored once, in the object, so every clone of the parent sees it.
 *
 * Concurrency: reader-writer latch per node, taken top-down with coupling; writers try
 * shared latches down to the leaf first and take exclusive ones from the top, splitting
 * full nodes on the way down, only when a clone, split or merge is needed. The tree's root
 * pointer has a reader-writer lock of its own. Clean nodes never change and are read without a
 * latch. No function of an owner or a slot object is called under a latch or lock of the tree,
 * except destroy() of an object that a change drops.
 *
 * "Not in memory": no function but tree_fetch() waits for a device. Each returns -EAGAIN and fills
 * *miss when a node or large value it needs is not cached; the caller leaves its tx, calls
 * tree_fetch() or tree_fetch_async() and starts again. After tree_pin() for a key within the same
 * tx that can't happen for this key: the path is referenced, and all that others change in this txg
 * is dirty, thus in memory.
 *
 * Callers: dataset/, fs/. Sync context functions take struct txg_sync.
 */
#ifndef TARN_TREE_TREE_H
#define TARN_TREE_TREE_H

#include <pthread.h>
#include <stdatomic.h>

#include "cache/cache.h"
#include "pool/txg.h"

#define TREE_NODE_SIZE 16384
#define TREE_KEY_MAX 512
#define TREE_INLINE_MAX 3072      /* longer values go to blocks of their own */
#define TREE_VALUE_MAX (1u << 17) /* bytes of the longest value */
#define TREE_HEIGHT_MAX 12

/* Worst case bytes that changing n keys may allocate: for tx_begin(). */
#define TREE_RESERVE(n) (((uint64_t)(n)*4 + 8) * TREE_NODE_SIZE)

struct tree_node;

/* ---- objects in slots ---- */

struct slot_obj {
	atomic_uint refs;
	atomic_bool
	    written; /* its final bytes are known; set by the sync, in the txg that made it */
	atomic_bool failed;    /* its block found no place: is written again in the next pass */
	atomic_bool committed; /* set after ops->committed(): its bp counts from then on */
	uint64_t txg;          /* that made it; immutable to open context from its freeze on */
	struct bp bp;          /* valid once written, for objects that are blocks */
	const struct slot_ops *ops;
};
struct slot_ops {
	/* Sync context, any thread of it, again in a later pass only if obj->failed was set (give
	   it to block_write()): writes the block and sets obj->bp (born() is called by the tree; a
	   hole is allowed), or for a record fills value[0..len) (the room given to
	   tree_put_record()). Within a tree, records are filled after all blocks are written. */
	int (*write)(struct slot_obj *obj, struct txg_sync *s, void *value, uint32_t len);
	/* The txg is committed: passes its content to the cache before reads are sent to its bp.
	   Once, unless the slot was changed within the txg; reads that found the object may still
	   use it. May be NULL. */
	void (*committed)(struct slot_obj *obj);
	void (*destroy)(struct slot_obj *obj); /* last reference gone */
};

/* One reference, the caller's. */
static inline void slot_obj_init(struct slot_obj *obj, const struct slot_ops *ops, uint64_t txg)
{
	*obj = (struct slot_obj){.txg = txg, .ops = ops};
	atomic_init(&obj->refs, 1);
}

static inline struct slot_obj *slot_obj_ref(struct slot_obj *obj)
{
	atomic_fetch_add(&obj->refs, 1);
	return obj;
}

static inline void slot_obj_unref(struct slot_obj *obj)
{
	if (atomic_fetch_sub(&obj->refs, 1) == 1)
		obj->ops->destroy(obj);
}

/* ---- the tree ---- */

struct tree {
	struct pool *pool;
	struct cache *cache;
	struct space_owner *owner;
	pthread_rwlock_t lock; /* guards root */
	struct {
		struct bp bp;           /* hole: empty tree */
		struct tree_node *node; /* not NULL: dirty, counts instead of bp */
	} root, frozen;
	uint64_t dirty_txg; /* last txg in which the open root changed */
	/* Of its nodes and large values; the sync's: changed between syncs only. */
	uint8_t comp, cksum;
	enum block_class class; /* BLOCK_META at first */
};

void tree_init(struct tree *t, struct pool *pool, struct cache *cache, struct space_owner *owner,
	       const struct bp *root, uint8_t comp, uint8_t cksum);
void tree_fini(struct tree *t);

struct tree_miss {
	struct bp bp;
	struct read_epoch epoch; /* held from the failed call to the end of the fetch */
	bool value;              /* a large value, not a node */
	uint64_t max_birth;
	uint16_t low_len, high_len; /* key range that was reached; high_len 0: no bound */
	uint8_t low[TREE_KEY_MAX], high[TREE_KEY_MAX];
	/* tree_fetch_async()'s. */
	struct cache_read read;
	struct tree *tree;
	void (*fn)(void *arg, int result);
	void *arg;
};
/* Loads what was missing; 0: try again; -EIO, -ENOMEM. tree_miss_drop(): gives up instead. One of
   the three follows each -EAGAIN. fn may be called before tree_fetch_async() returns; miss lives
   until then. */
int tree_fetch(struct tree *t, struct tree_miss *miss);
void tree_fetch_async(struct tree *t, struct tree_miss *miss, void (*fn)(void *arg, int result),
		      void *arg);
void tree_miss_drop(struct tree *t, struct tree_miss *miss);

/* What lies in a slot. */
enum slot_kind {
	SLOT_VALUE = 0, /* bytes in the node */
	SLOT_LARGE = 1, /* value in a block of its own; the tree reads through it */
	SLOT_BLOCK = 2, /* a bp (file data): the tree frees the block when the slot goes */
};
struct tree_val {
	enum slot_kind kind;
	struct bp bp;         /* SLOT_BLOCK without obj */
	struct slot_obj *obj; /* SLOT_BLOCK: a dirty record whose txg has not committed; SLOT_VALUE:
				 a record that is not filled yet (referenced). Else NULL */
	uint32_t len;         /* of the value copied into the caller's buffer; may exceed its room
				 (then only room bytes were copied) */
};

/* -ENOENT if absent; -EIO: damaged metadata. Pairs with tree_val_put() when v->obj. The bp is safe
   to read only inside a read epoch that the caller entered before the call. */
int tree_get(struct tree *t, const void *key, uint32_t klen, void *buf, uint32_t room,
	     struct tree_val *v, struct tree_miss *miss);
void tree_val_put(struct tree_val *v);

/* Smallest key >= from (> from with after) and < end (end NULL: no bound): copied to key (room
   TREE_KEY_MAX), length to *klen. -ENOENT at the end. tree_prev: largest key < from and >= end. */
int tree_next(struct tree *t, const void *from, uint32_t flen, bool after, const void *end,
	      uint32_t elen, void *key, uint32_t *klen, void *buf, uint32_t room,
	      struct tree_val *v, struct tree_miss *miss);
int tree_prev(struct tree *t, const void *from, uint32_t flen, const void *end, uint32_t elen,
	      void *key, uint32_t *klen, void *buf, uint32_t room, struct tree_val *v,
	      struct tree_miss *miss);

/* As tree_next() for slots that hold bytes: also copies those that follow in the same leaf, as many
   as fit, to buf (room TREE_RUN_MIN at least), one item after the other, *used bytes, the last one
   at *last. -EIO if the first slot holds something else; a run ends before a later one. */
struct tree_item {
	uint16_t klen, vlen;
	uint8_t bytes[]; /* key, value */
} __attribute__((packed));
#define TREE_RUN_MIN (sizeof(struct tree_item) + TREE_KEY_MAX + TREE_INLINE_MAX)
int tree_next_run(struct tree *t, const void *from, uint32_t flen, bool after, const void *end,
		  uint32_t elen, void *buf, uint32_t room, uint32_t *used, uint32_t *last,
		  struct tree_miss *miss);

/* References the path to key (present or not) so that changing it cannot miss in this tx. */
struct tree_pin {
	struct cache_obj *path[TREE_HEIGHT_MAX];
	uint32_t n;
};
int tree_pin(struct tx *tx, struct tree *t, const void *key, uint32_t klen, struct tree_pin *pin,
	     struct tree_miss *miss);
void tree_unpin(struct tree_pin *pin);

/*
 * Keys have 1 .. TREE_KEY_MAX bytes. Insert or replace: what the slot held before is freed (its
 * block, its object). -EAGAIN or -EIO only if not pinned; on failure nothing has changed.
 */
int tree_put(struct tx *tx, struct tree *t, const void *key, uint32_t klen, const void *val,
	     uint32_t vlen, struct tree_miss *miss);
/* A dirty record: obj, of tx's txg, becomes a block of its own in the sync. The slot takes a
   reference of its own; the caller's stays the caller's. */
int tree_put_block(struct tx *tx, struct tree *t, const void *key, uint32_t klen,
		   struct slot_obj *obj, struct tree_miss *miss);
/* A hole or any bp as it is (holes keep their birth). */
int tree_put_bp(struct tx *tx, struct tree *t, const void *key, uint32_t klen, const struct bp *bp,
		struct tree_miss *miss);
/* A record of fixed length (at most TREE_INLINE_MAX) whose bytes obj->ops->write() fills in the
   sync; until then readers get obj. References as above. */
int tree_put_record(struct tx *tx, struct tree *t, const void *key, uint32_t klen,
		    struct slot_obj *obj, uint32_t len, struct tree_miss *miss);
/* -ENOENT if absent. */
int tree_del(struct tx *tx, struct tree *t, const void *key, uint32_t klen, struct tree_miss *miss);

/* ---- txg ---- */

/* At the barrier: the root as it is now is what tree_sync() writes. False: unchanged in this txg.
 */
bool tree_freeze(struct tree *t, uint64_t txg);
/* Writes all dirty objects and nodes of the frozen root, leaves first, in parallel on s->wq; *root
   is its bp (a hole for an empty tree). Again in later passes: writes what failed and its
   ancestors; what it wrote for these before goes to owner->ops->freed(), which must therefore count
   in a block of this txg as born and free. An error is the pool's end. */
int tree_sync(struct tree *t, struct txg_sync *s, struct bp *root);
/* After the commit of a txg whose tree_freeze() was true: written nodes go to the cache, slots take
 * bps. Before the next tree_freeze(); nonblocking. */
void tree_committed(struct tree *t, uint64_t txg);

/*
 * A tree that only the sync changes (the pool tree): a struct tx made from the sync, not to be
 * ended. Its holder may call tree_fetch(). What such a change frees goes to owner->ops->freed() at
 * once. In a later pass the tree may be changed, frozen and written again: what it wrote before
 * and is not part of it any more is freed.
 */
static inline struct tx tree_sync_tx(struct txg_sync *s)
{
	return (struct tx){.pool = s->pool, .txg = s->txg, .sync = s};
}

/* ---- walking, for tarnck, destroy and streams ---- */

struct tree_walk_ops {
	/* Each node before its content; nonzero: stop with it. */
	int (*node)(void *arg, const struct bp *bp, unsigned level);
	/* Each slot of each leaf. val: SLOT_VALUE bytes; for SLOT_LARGE the content read through,
	 * bp its block. */
	int (*slot)(void *arg, const void *key, uint32_t klen, enum slot_kind kind, const void *val,
		    uint32_t vlen, const struct bp *bp);
	/* A node or large value that can't be read or is not valid; 0: go on without it. */
	int (*bad)(void *arg, const struct bp *bp, unsigned level, int error);
};
/* Clean tree below root, which nobody frees meanwhile; blocking; reads through cache if not
   NULL, then some nodes ahead.
   Returns what a function returned, -ENOMEM or 0. */
int tree_walk(struct pool *pool, struct cache *cache, const struct bp *root,
	      const struct tree_walk_ops *ops, void *arg);
/* The same without what comes before a key: no slots before it, and no nodes whose range begins
   before it (these belong to the walk that ended there). */
int tree_walk_from(struct pool *pool, struct cache *cache, const struct bp *root, const void *from,
		   uint32_t flen, const struct tree_walk_ops *ops, void *arg);

/* A node's image as on disk is valid (for fuzzing and decoding). */
int tree_node_validate(const void *image, uint32_t length, unsigned level);

#endif
