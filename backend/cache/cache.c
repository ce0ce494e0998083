// SPDX-License-Identifier: LGPL-3.0-or-later
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <xxhash.h>

#include "cache/impl.h"

#define SHARD_MIN (4u << 20) /* bytes; small caches have fewer shards */
#define TABLE_MIN 256u
#define GHOSTS_MIN 64u
#define GHOSTS_MAX (1u << 20)
#define FREQ_MAX 3
/* A newcomer asked for more often than this goes to the main queue when its turn comes. */
#define FREQ_STAY 1

/* New metadata rests until as much has come after it: who has read a path finds it again, however
   little room there is. */
#define FRESH_MAX 16u

/* ---- keys ---- */

#define KEY_BYTES (offsetof(struct cache_key, sector) + sizeof(uint32_t))

uint64_t cache_hash(const struct cache_key *key)
{
	return XXH3_64bits(key, KEY_BYTES);
}

bool cache_key_equal(const struct cache_key *a, const struct cache_key *b)
{
	return memcmp(a, b, KEY_BYTES) == 0;
}

struct shard *shard_of(struct cache *cache, uint64_t hash)
{
	return &cache->shard[(hash >> 60) & (cache->shards - 1)];
}

struct cache_key cache_key_of(uint64_t pool_guid, const struct bp *bp)
{
	return (struct cache_key){
	    .pool = pool_guid, .chunk = bp->chunk, .birth = bp->birth, .sector = bp->sector};
}

/* ---- queues; the shard's lock is held ---- */

static void queue_add(struct queue *q, struct cache_obj *obj)
{
	obj->prev = NULL;
	obj->next = q->head;
	if (q->head)
		q->head->prev = obj;
	else
		q->tail = obj;
	q->head = obj;
	q->bytes += obj->size;
	q->count++;
}

static void queue_del(struct queue *q, struct cache_obj *obj)
{
	if (obj->prev)
		obj->prev->next = obj->next;
	else
		q->head = obj->next;
	if (obj->next)
		obj->next->prev = obj->prev;
	else
		q->tail = obj->prev;
	q->bytes -= obj->size;
	q->count--;
}

static struct queue *queue_of(struct shard *sh, struct cache_obj *obj)
{
	return &sh->queue[obj->type->kind][obj->queue];
}

static void queue_move(struct shard *sh, struct cache_obj *obj, unsigned queue)
{
	queue_del(queue_of(sh, obj), obj);
	obj->queue = queue;
	queue_add(queue_of(sh, obj), obj);
}

static struct ghost *ghost_slot(struct shard *sh, uint64_t hash)
{
	return &sh->ghosts[(hash >> 20) & sh->ghost_mask];
}

static void ghost_add(struct shard *sh, uint64_t hash)
{
	*ghost_slot(sh, hash) = (struct ghost){.tag = hash | 1, .time = sh->ghost_time++};
}

/* Keys are remembered for as many evictions as there are objects. */
static bool ghost_take(struct shard *sh, uint64_t hash)
{
	struct ghost *g = ghost_slot(sh, hash);

	if (g->tag != (uint32_t)(hash | 1))
		return false;
	g->tag = 0;
	return sh->ghost_time - g->time <= sh->count;
}

static void queue_enter(struct shard *sh, struct cache_obj *obj, bool again)
{
	struct queue *fresh = &sh->queue[obj->type->kind][FRESH];

	obj->again = again;
	obj->queue = FRESH;
	queue_add(fresh, obj);
	if (fresh->count > (obj->type->kind == CACHE_META ? FRESH_MAX : 0))
		queue_move(sh, fresh->tail, fresh->tail->again ? MAIN : SMALL);
}

/* ---- the table; the shard's lock is held ---- */

static struct cache_obj **table_find(struct shard *sh, const struct cache_key *key, uint64_t hash)
{
	struct cache_obj **p = &sh->table[hash & sh->mask];

	while (*p && !cache_key_equal(&(*p)->key, key))
		p = &(*p)->hash_next;
	return p;
}

/* Without memory the chains just get longer. */
static void table_grow(struct shard *sh)
{
	uint64_t mask = sh->mask * 2 + 1;
	struct cache_obj **table = calloc(mask + 1, sizeof(*table)), *obj, **to;

	if (!table)
		return;
	for (uint64_t i = 0; i <= sh->mask; i++) {
		while ((obj = sh->table[i])) {
			sh->table[i] = obj->hash_next;
			to = &table[cache_hash(&obj->key) & mask];
			obj->hash_next = *to;
			*to = obj;
		}
	}
	free(sh->table);
	sh->table = table;
	sh->mask = mask;
}

/* Takes obj out; the cache's reference becomes the caller's. */
static void shard_remove(struct cache *cache, struct shard *sh, struct cache_obj *obj,
			 uint64_t hash)
{
	*table_find(sh, &obj->key, hash) = obj->hash_next;
	queue_del(queue_of(sh, obj), obj);
	obj->hashed = false;
	sh->count--;
	atomic_fetch_sub(&cache->size[obj->type->kind], obj->size);
}

struct cache_obj *shard_insert(struct cache *cache, struct shard *sh, struct cache_obj *obj,
			       uint64_t hash)
{
	struct cache_obj **p = table_find(sh, &obj->key, hash);

	if (*p) {
		cache_ref(*p);
		return *p;
	}
	assert(!obj->hashed && !atomic_load(&obj->cache));
	cache_ref(obj);
	obj->hash_next = NULL;
	obj->hashed = true;
	*p = obj;
	queue_enter(sh, obj, ghost_take(sh, hash));
	atomic_fetch_add(&cache->size[obj->type->kind], obj->size);
	atomic_store(&obj->cache, cache);
	sh->inserted++;
	if (++sh->count > sh->mask)
		table_grow(sh);
	return obj;
}

struct cache_obj *shard_lookup(struct shard *sh, const struct cache_key *key, uint64_t hash)
{
	struct cache_obj *obj = *table_find(sh, key, hash);

	if (!obj)
		return NULL;
	if (atomic_load_explicit(&obj->freq, memory_order_relaxed) < FREQ_MAX)
		atomic_fetch_add_explicit(&obj->freq, 1, memory_order_relaxed);
	sh->hits[obj->type->kind]++;
	cache_ref(obj);
	return obj;
}

/* ---- eviction ---- */

/* Outside references can only come from a lookup, under the shard's lock. */
static bool obj_busy(struct cache_obj *obj)
{
	return atomic_load(&obj->refs) > 1;
}

/* The next object of a kind to go, or NULL if all are referenced. */
static struct cache_obj *shard_victim(struct shard *sh, enum cache_kind kind)
{
	struct queue *small = &sh->queue[kind][SMALL], *main = &sh->queue[kind][MAIN];
	/* Each is seen at most once in the small queue and FREQ_MAX + 1 times in the main one. */
	uint64_t steps = (small->count + main->count) * (FREQ_MAX + 2);

	while (steps-- > 0) {
		bool from_small = small->count && (!main->count || small->bytes * 9 >= main->bytes);
		struct cache_obj *obj = from_small ? small->tail : main->tail;
		bool busy = obj_busy(obj);
		unsigned freq = atomic_load_explicit(&obj->freq, memory_order_relaxed);

		if (from_small && !busy && freq <= FREQ_STAY)
			return obj;
		if (!from_small && !busy && freq == 0)
			return obj;
		if (from_small)
			freq = 0;
		else if (!busy)
			freq--;
		atomic_store_explicit(&obj->freq, freq, memory_order_relaxed);
		queue_move(sh, obj, MAIN);
	}
	return NULL;
}

static bool cache_over(struct cache *cache)
{
	return atomic_load(&cache->size[CACHE_DATA]) + atomic_load(&cache->size[CACHE_META]) >
	       atomic_load(&cache->max);
}

/* Evicts from one shard while it has something to give. */
static void shard_evict(struct cache *cache, struct shard *sh)
{
	struct cache_obj *obj, *victims = NULL;

	pthread_mutex_lock(&sh->lock);
	while (cache_over(cache)) {
		bool data = atomic_load(&cache->size[CACHE_DATA]) > atomic_load(&cache->max) / 4;

		obj = shard_victim(sh, data ? CACHE_DATA : CACHE_META);
		if (!obj)
			obj = shard_victim(sh, data ? CACHE_META : CACHE_DATA);
		if (!obj)
			break;
		if (obj->queue == SMALL)
			ghost_add(sh, cache_hash(&obj->key));
		shard_remove(cache, sh, obj, cache_hash(&obj->key));
		sh->evictions++;
		obj->next = victims;
		victims = obj;
	}
	pthread_mutex_unlock(&sh->lock);
	while ((obj = victims)) {
		victims = obj->next;
		cache_unref(obj);
	}
}

void cache_evict(struct cache *cache, struct shard *first)
{
	unsigned n = first - cache->shard;

	for (unsigned i = 0; i < cache->shards && cache_over(cache); i++)
		shard_evict(cache, &cache->shard[(n + i) % cache->shards]);
}

/* ---- objects ---- */

void cache_obj_init(struct cache_obj *obj, const struct cache_type *type,
		    void (*destroy)(struct cache_obj *obj))
{
	*obj = (struct cache_obj){.type = type, .destroy = destroy};
	atomic_init(&obj->refs, 1);
}

void cache_ref(struct cache_obj *obj)
{
	atomic_fetch_add(&obj->refs, 1);
}

void cache_unref(struct cache_obj *obj)
{
	struct cache *cache = atomic_load(&obj->cache);
	/* The object may be gone once its reference is. */
	struct shard *over =
	    cache && cache_over(cache) ? shard_of(cache, cache_hash(&obj->key)) : NULL;
	unsigned left = atomic_fetch_sub(&obj->refs, 1) - 1;

	if (left == 0)
		obj->destroy(obj);
	else if (left == 1 && over)
		cache_evict(cache, over);
}

struct cache_obj *cache_lookup(struct cache *cache, const struct cache_key *key)
{
	uint64_t hash = cache_hash(key);
	struct shard *sh = shard_of(cache, hash);
	struct cache_obj *obj;

	pthread_mutex_lock(&sh->lock);
	obj = shard_lookup(sh, key, hash);
	pthread_mutex_unlock(&sh->lock);
	return obj;
}

struct cache_obj *cache_insert(struct cache *cache, struct cache_obj *obj)
{
	uint64_t hash = cache_hash(&obj->key);
	struct shard *sh = shard_of(cache, hash);
	struct cache_obj *found;

	pthread_mutex_lock(&sh->lock);
	found = shard_insert(cache, sh, obj, hash);
	pthread_mutex_unlock(&sh->lock);
	cache_evict(cache, sh);
	return found;
}

void cache_remove(struct cache *cache, const struct cache_key *key)
{
	uint64_t hash = cache_hash(key);
	struct shard *sh = shard_of(cache, hash);
	struct cache_obj *obj;

	pthread_mutex_lock(&sh->lock);
	obj = *table_find(sh, key, hash);
	if (obj)
		shard_remove(cache, sh, obj, hash);
	pthread_mutex_unlock(&sh->lock);
	if (obj)
		cache_unref(obj);
}

/* pool 0: all. */
static void shard_remove_pool(struct cache *cache, struct shard *sh, uint64_t pool)
{
	struct cache_obj *obj, *next, *gone = NULL;

	pthread_mutex_lock(&sh->lock);
	for (unsigned q = 0; q < KINDS * QUEUES; q++) {
		for (obj = sh->queue[q / QUEUES][q % QUEUES].head; obj; obj = next) {
			next = obj->next;
			if (pool && obj->key.pool != pool)
				continue;
			shard_remove(cache, sh, obj, cache_hash(&obj->key));
			obj->next = gone;
			gone = obj;
		}
	}
	pthread_mutex_unlock(&sh->lock);
	while ((obj = gone)) {
		gone = obj->next;
		cache_unref(obj);
	}
}

void cache_remove_pool(struct cache *cache, uint64_t pool)
{
	for (unsigned i = 0; i < cache->shards; i++)
		shard_remove_pool(cache, &cache->shard[i], pool);
}

/* ---- the cache ---- */

/* As many ghosts as there is room for objects of 8 KiB. */
static uint32_t ghosts_for(const struct cache *cache, uint64_t max)
{
	uint64_t want = max / cache->shards / 8192;
	uint32_t n = GHOSTS_MIN;

	while (n < want && n < GHOSTS_MAX)
		n *= 2;
	return n;
}

static int shard_init(struct shard *sh, uint32_t ghosts)
{

	pthread_mutex_init(&sh->lock, NULL);
	sh->mask = TABLE_MIN - 1;
	sh->ghost_mask = ghosts - 1;
	sh->table = calloc(TABLE_MIN, sizeof(*sh->table));
	sh->ghosts = calloc(ghosts, sizeof(*sh->ghosts));
	return sh->table && sh->ghosts ? 0 : -ENOMEM;
}

int cache_create(uint64_t max, struct cache **out)
{
	struct cache *cache = aligned_alloc(alignof(struct cache), sizeof(*cache));
	int rc = 0;

	if (!cache)
		return -ENOMEM;
	memset(cache, 0, sizeof(*cache));
	atomic_init(&cache->max, max);
	cache->shards = 1;
	while (cache->shards < SHARDS_MAX && cache->shards * 2 * SHARD_MIN <= max)
		cache->shards *= 2;
	for (unsigned i = 0; i < cache->shards; i++) {
		if (shard_init(&cache->shard[i], ghosts_for(cache, max)))
			rc = -ENOMEM;
	}
	if (rc) {
		cache_destroy(cache);
		return rc;
	}
	*out = cache;
	return 0;
}

void cache_destroy(struct cache *cache)
{
	if (!cache)
		return;
	cache_remove_pool(cache, 0);
	assert(cache->size[CACHE_DATA] + cache->size[CACHE_META] == 0);
	for (unsigned i = 0; i < cache->shards; i++) {
		struct shard *sh = &cache->shard[i];

		pthread_mutex_destroy(&sh->lock);
		free(sh->table);
		free(sh->ghosts);
	}
	free(cache);
}

void cache_set_max(struct cache *cache, uint64_t max)
{
	uint32_t n = ghosts_for(cache, max);

	atomic_store(&cache->max, max);
	for (unsigned i = 0; i < cache->shards; i++) {
		struct shard *sh = &cache->shard[i];
		struct ghost *ghosts = calloc(n, sizeof(*ghosts));

		if (!ghosts)
			continue; /* the old ones do, too */
		pthread_mutex_lock(&sh->lock);
		free(sh->ghosts);
		sh->ghosts = ghosts;
		sh->ghost_mask = n - 1;
		pthread_mutex_unlock(&sh->lock);
	}
	cache_evict(cache, &cache->shard[0]);
}

void cache_stats(struct cache *cache, struct tarn_cache_stats *out)
{
	*out = (struct tarn_cache_stats){.max = atomic_load(&cache->max),
					 .data_size = atomic_load(&cache->size[CACHE_DATA]),
					 .meta_size = atomic_load(&cache->size[CACHE_META])};
	out->size = out->data_size + out->meta_size;
	for (unsigned i = 0; i < cache->shards; i++) {
		struct shard *sh = &cache->shard[i];

		pthread_mutex_lock(&sh->lock);
		out->hits += sh->hits[CACHE_DATA] + sh->hits[CACHE_META];
		out->misses += sh->misses[CACHE_DATA] + sh->misses[CACHE_META];
		out->meta_hits += sh->hits[CACHE_META];
		out->meta_misses += sh->misses[CACHE_META];
		out->evictions += sh->evictions;
		out->inserted += sh->inserted;
		pthread_mutex_unlock(&sh->lock);
	}
}
