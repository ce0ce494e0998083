// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * What the modules of cache/ share. Nobody else includes it.
 *
 *   cache.c   objects: the table, queues and eviction, limits and statistics
 *   read.c    reading through the cache: loads in flight and who waits for them
 */
#ifndef TARN_CACHE_IMPL_H
#define TARN_CACHE_IMPL_H

#include <pthread.h>
#include <stdalign.h>

#include "cache/cache.h"

#define SHARDS_MAX 16u
#define LOAD_BUCKETS 64u
#define KINDS 2

struct load; /* read.c */

enum { FRESH, SMALL, MAIN, QUEUES };

/* New objects enter at the head; the tail is next to go. */
struct queue {
	struct cache_obj *head, *tail;
	uint64_t bytes, count;
};

/* A key that left the small queue. Direct-mapped: a collision forgets the older one. */
struct ghost {
	uint32_t tag, time;
};

struct shard {
	alignas(64) pthread_mutex_t lock; /* guards all below */
	struct cache_obj **table;
	uint64_t mask, count;
	struct queue queue[KINDS][QUEUES];
	struct load *loads[LOAD_BUCKETS];
	struct ghost *ghosts;
	uint32_t ghost_mask, ghost_time;
	uint64_t hits[KINDS], misses[KINDS], evictions, inserted;
};

struct cache {
	atomic_ulong max;
	atomic_ulong size[KINDS];
	unsigned shards; /* a power of two */
	struct shard shard[SHARDS_MAX];
};

uint64_t cache_hash(const struct cache_key *key);
bool cache_key_equal(const struct cache_key *a, const struct cache_key *b);
struct shard *shard_of(struct cache *cache, uint64_t hash);

/* Under the shard's lock; the object comes back referenced. */
struct cache_obj *shard_lookup(struct shard *sh, const struct cache_key *key, uint64_t hash);
struct cache_obj *shard_insert(struct cache *cache, struct shard *sh, struct cache_obj *obj,
			       uint64_t hash);

/* Without locks: until the cache is within its maximum, beginning at the shard that grew, so that
   all stay about equal. */
void cache_evict(struct cache *cache, struct shard *first);

#endif
