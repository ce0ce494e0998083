// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The block cache (ARC of the vocabulary): decoded blocks by block identity, one per engine,
 * bounded, scan-resistant, sharded. Owns its objects' memory while they are in it.
 *
 * Objects are immutable once inserted and found by (pool, chunk, sector, birth); locations are
 * written once per birth, so a hit is the content that was asked for. An object in the cache
 * holds one reference for it; one with more is not evicted.
 *
 * Bound: whatever adds an object or gives up the last outside reference to one evicts until the
 * cache is within its maximum or all that is left is referenced, but for the newest metadata (16
 * objects a shard: a path that was just read is there when it is walked again). Data goes first
 * while it takes more than a quarter of the maximum, then metadata.
 *
 * Scan resistance: S3-FIFO (Yang et al., "FIFO Queues are All You Need for Cache Eviction", SOSP
 * 2023), for data and metadata apart: a small queue for newcomers, a main queue for what was
 * asked for again, and a memory of keys that left the small queue.
 *
 * Callers: tree/, fs/. Locks: one mutex a shard, innermost of all; never held while a decode,
 * done or destroy function runs.
 */
#ifndef TARN_CACHE_CACHE_H
#define TARN_CACHE_CACHE_H

#include <stdatomic.h>
#include <tarn/tarn.h>

#include "pool/block.h"

struct cache;

struct cache_key {
	uint64_t pool; /* pool GUID */
	uint64_t chunk;
	uint64_t birth;
	uint32_t sector;
};

enum cache_kind { CACHE_DATA, CACHE_META };

struct cache_obj {
	struct cache_key key;
	atomic_uint refs;
	uint32_t size;     /* bytes charged */
	uint32_t lsize;    /* of the block */
	atomic_uchar freq; /* 0..3 */
	uint8_t queue;     /* the cache's */
	bool again;        /* the cache's: it was here before */
	bool hashed;       /* the cache's: findable */
	const struct cache_type *type;
	void (*destroy)(struct cache_obj *obj); /* last reference gone and not in the cache */
	struct cache_obj *hash_next, *prev, *next;
	struct cache *_Atomic cache; /* NULL before insertion */
};
void cache_obj_init(struct cache_obj *obj, const struct cache_type *type,
		    void (*destroy)(struct cache_obj *obj)); /* one reference, the caller's */

int cache_create(uint64_t max, struct cache **out);
void cache_destroy(struct cache *cache); /* no references may be left */
void cache_set_max(struct cache *cache, uint64_t max);
/* hits and misses count all, meta_* the metadata among them. A hit was found at once; a miss is a
   read through cache_read() that had to wait for a device. */
void cache_stats(struct cache *cache, struct tarn_cache_stats *out);

/* Referenced object or NULL (not counted as a miss: a read follows if it is one). */
struct cache_obj *cache_lookup(struct cache *cache, const struct cache_key *key);
/* Inserts obj, whose key is set, and returns it (the caller's reference stays the caller's); if
   the key is there already, returns that object referenced instead and leaves obj alone. */
struct cache_obj *cache_insert(struct cache *cache, struct cache_obj *obj);
void cache_ref(struct cache_obj *obj);
void cache_unref(struct cache_obj *obj);
/* Freed blocks and exported pools: no longer findable; gone with the last reference. */
void cache_remove(struct cache *cache, const struct cache_key *key);
void cache_remove_pool(struct cache *cache, uint64_t pool);

/* ---- reading through the cache ---- */

/* What a block becomes in memory. */
struct cache_type {
	enum cache_kind kind;
	/* Takes over buf (dev_buf_alloc memory, bp->lsize bytes), also when it fails; the object
	   has one reference. -EIO if the content is not valid, -ENOMEM. */
	int (*decode)(void *buf, const struct bp *bp, struct cache_obj **out);
};
/* Plain data blocks; the same as metadata: large values of trees. */
extern const struct cache_type cache_type_data, cache_type_value;
struct cache_data {
	struct cache_obj obj;
	void *data; /* lsize bytes */
	uint32_t length;
};
/* Wraps data (taken over, dev_buf_alloc memory) as an object with one reference, not yet inserted.
 * NULL: no memory. */
struct cache_data *cache_data_new(void *data, uint32_t length);
struct cache_data *cache_value_new(void *data, uint32_t length);

struct cache_read {
	struct bp bp;
	struct cache_obj *obj; /* result: referenced for the caller */
	int result;
	void (*done)(struct cache_read *r); /* in a worker of the pool, or before return on a hit */
	void *owner;
	const struct cache_type *type; /* the cache's, as the next one */
	struct cache_read *next;
};
/* Hit: done() before return. Miss: one device read however many ask (waiters join). Takes its own
   read epoch hold for the device read; the caller has entered one before looking bp up and holds it
   until done(). bp is bp_valid() and no hole. -EIO also if what lies at its place was written for
   another kind of bp (damaged metadata). */
void cache_read(struct cache *cache, struct pool *pool, const struct cache_type *type,
		struct cache_read *r);
/* Blocking form; never under a tx. */
int cache_read_wait(struct cache *cache, struct pool *pool, const struct cache_type *type,
		    const struct bp *bp, struct cache_obj **out);

struct cache_key cache_key_of(uint64_t pool_guid, const struct bp *bp);

#endif
