// SPDX-License-Identifier: LGPL-3.0-or-later
#include <assert.h>
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>

#include "cache/impl.h"
#include "pool/pool.h"

/* A read in flight and all who wait for it. */
struct load {
	struct block_read read;
	struct cache *cache;
	struct pool *pool;
	const struct cache_type *type;
	struct cache_key key;
	uint64_t hash;
	struct cache_read *waiters;
	struct load *next;
};

static uint32_t sector_round(uint32_t bytes)
{
	return (bytes + SECTOR_SIZE - 1) & -SECTOR_SIZE;
}

static struct load **load_find(struct shard *sh, const struct cache_key *key, uint64_t hash)
{
	struct load **p = &sh->loads[hash % LOAD_BUCKETS];

	while (*p && !cache_key_equal(&(*p)->key, key))
		p = &(*p)->next;
	return p;
}

static void read_done(struct cache_read *r, struct cache_obj *obj, int result)
{
	r->obj = obj;
	r->result = result;
	r->done(r);
}

static void read_hit(struct cache_read *r, struct cache_obj *obj)
{
	if (obj->type == r->type && obj->lsize == r->bp.lsize) {
		read_done(r, obj, 0);
		return;
	}
	cache_unref(obj);
	read_done(r, NULL, -EIO);
}

/* Everyone who waits gets a reference or the error; the load is over. Nothing of the cache is
   touched after the last done(): its reader may be what kept the cache. */
static void load_finish(struct load *load, struct cache_obj *obj, int result)
{
	struct shard *sh = shard_of(load->cache, load->hash);
	struct cache_obj *found = NULL;
	struct cache_read *r, *next;

	/* Out of the table of loads and into that of objects in one step: nobody reads it again. */
	pthread_mutex_lock(&sh->lock);
	*load_find(sh, &load->key, load->hash) = load->next;
	if (obj)
		found = shard_insert(load->cache, sh, obj, load->hash);
	pthread_mutex_unlock(&sh->lock);
	if (found && found != obj) {
		cache_unref(obj);
		obj = found;
	}
	cache_evict(load->cache, sh);
	r = load->waiters;
	free(load);

	for (; r; r = next) {
		next = r->next;
		if (!obj) {
			read_done(r, NULL, result);
			continue;
		}
		if (next)
			cache_ref(obj);
		read_hit(r, obj);
	}
}

static void load_done(struct block_read *read)
{
	struct load *load = read->owner;
	struct cache_obj *obj = NULL;
	int rc = read->result;

	read_leave(load->pool, read->epoch);
	if (rc == 0)
		rc = load->type->decode(read->buf, &read->bp, &obj);
	else
		free(read->buf);
	if (obj) {
		obj->key = load->key;
		assert(obj->type == load->type && obj->lsize == read->bp.lsize);
	}
	load_finish(load, obj, rc);
}

static void load_start(struct load *load)
{
	load->read.buf = dev_buf_alloc(sector_round(load->read.bp.lsize));
	load->read.done = load_done;
	load->read.owner = load;
	if (!load->read.buf) {
		load_finish(load, NULL, -ENOMEM);
		return;
	}
	load->read.epoch = read_enter(load->pool);
	block_read(load->pool, &load->read);
}

void cache_read(struct cache *cache, struct pool *pool, const struct cache_type *type,
		struct cache_read *r)
{
	struct cache_key key = cache_key_of(pool->guid, &r->bp);
	uint64_t hash = cache_hash(&key);
	struct shard *sh = shard_of(cache, hash);
	struct load **p, *load = NULL;
	struct cache_obj *obj;
	bool mine = false;

	r->type = type;
	pthread_mutex_lock(&sh->lock);
	obj = shard_lookup(sh, &key, hash);
	if (!obj) {
		sh->misses[type->kind]++;
		p = load_find(sh, &key, hash);
		mine = !*p;
		if (mine && (*p = calloc(1, sizeof(**p)))) {
			**p = (struct load){.cache = cache,
					    .pool = pool,
					    .type = type,
					    .key = key,
					    .hash = hash,
					    .read.bp = r->bp};
		}
		load = *p;
		if (load) {
			r->next = load->waiters;
			load->waiters = r;
		}
	}
	pthread_mutex_unlock(&sh->lock);

	if (obj)
		read_hit(r, obj);
	else if (!load)
		read_done(r, NULL, -ENOMEM);
	else if (mine)
		load_start(load);
}

static void wait_done(struct cache_read *r)
{
	sem_post(r->owner);
}

int cache_read_wait(struct cache *cache, struct pool *pool, const struct cache_type *type,
		    const struct bp *bp, struct cache_obj **out)
{
	sem_t sem;
	struct cache_read r = {.bp = *bp, .done = wait_done, .owner = &sem};

	tx_assert_none();
	sem_init(&sem, 0, 0);
	cache_read(cache, pool, type, &r);
	while (sem_wait(&sem))
		;
	sem_destroy(&sem);
	*out = r.obj;
	return r.result;
}

/* ---- data blocks ---- */

static void data_destroy(struct cache_obj *obj)
{
	struct cache_data *data = (struct cache_data *)obj;

	free(data->data);
	free(data);
}

static struct cache_data *bytes_new(const struct cache_type *type, void *data, uint32_t length)
{
	struct cache_data *new = malloc(sizeof(*new));

	if (!new)
		return NULL;
	cache_obj_init(&new->obj, type, data_destroy);
	new->obj.lsize = length;
	new->obj.size = sizeof(*new) + sector_round(length);
	new->data = data;
	new->length = length;
	return new;
}

struct cache_data *cache_data_new(void *data, uint32_t length)
{
	return bytes_new(&cache_type_data, data, length);
}

struct cache_data *cache_value_new(void *data, uint32_t length)
{
	return bytes_new(&cache_type_value, data, length);
}

static int bytes_decode(struct cache_data *data, void *buf, struct cache_obj **out)
{
	if (!data) {
		free(buf);
		return -ENOMEM;
	}
	*out = &data->obj;
	return 0;
}

static int data_decode(void *buf, const struct bp *bp, struct cache_obj **out)
{
	return bytes_decode(cache_data_new(buf, bp->lsize), buf, out);
}

static int value_decode(void *buf, const struct bp *bp, struct cache_obj **out)
{
	return bytes_decode(cache_value_new(buf, bp->lsize), buf, out);
}

const struct cache_type cache_type_data = {CACHE_DATA, data_decode};
const struct cache_type cache_type_value = {CACHE_META, value_decode};
