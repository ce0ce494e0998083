// SPDX-License-Identifier: LGPL-3.0-or-later
#include "fs/dirty.h"

#include <errno.h>
#include <stdlib.h>

#include "pool/pool.h"

static bool all_zero(const uint8_t *bytes, uint32_t length)
{
	return bytes[0] == 0 && !memcmp(bytes, bytes + 1, length - 1);
}

/* The space it takes is known now. A version of the slot that came after this txg has taken
   the old figure off and keeps doing so. */
static void settle(struct dirty *d, uint64_t txg)
{
	uint32_t stored = bp_sectors(&d->obj.bp) << SECTOR_SHIFT;
	int64_t delta;

	pthread_rwlock_wrlock(&d->lock);
	delta = (int64_t)stored - d->charged;
	d->charged = stored;
	inode_space_settle(d->inode, txg, delta);
	if (d->replaced)
		inode_space_add(d->inode, -delta);
	pthread_rwlock_unlock(&d->lock);
}

static int dirty_write(struct slot_obj *obj, struct txg_sync *s, void *value, uint32_t len)
{
	struct dirty *d = dirty_of(obj);
	struct dataset_props *props = &d->inode->ds->props;
	struct block_write w = {.data = d->bytes,
				.lsize = d->length,
				.type = BP_DATA,
				.comp = atomic_load(&props->comp),
				.comp_level = atomic_load(&props->comp_level),
				.cksum = atomic_load(&props->cksum),
				.class = BLOCK_DATA,
				.failed = &obj->failed};
	int err = 0;

	(void)value;
	(void)len;
	if (w.comp != COMP_OFF && all_zero(d->bytes, d->length))
		obj->bp = bp_hole(s->txg, d->length);
	else
		err = block_write(s, &w, &obj->bp);
	if (!err)
		settle(d, s->txg);
	return err;
}

static void cache_content(struct dirty *d)
{
	struct cache *cache = d->inode->ds->cache;
	struct cache_obj *kept;

	d->cached = cache_data_new(d->bytes, d->length);
	if (!d->cached)
		return;
	d->cached->obj.key = cache_key_of(d->inode->ds->pool_guid, &d->obj.bp);
	kept = cache_insert(cache, &d->cached->obj);
	if (kept != &d->cached->obj)
		cache_unref(kept);
}

static void dirty_committed(struct slot_obj *obj)
{
	struct dirty *d = dirty_of(obj);
	struct tarn_inode *inode = d->inode;

	pthread_rwlock_wrlock(&d->lock);
	if (!d->replaced && !bp_is_hole(&obj->bp))
		cache_content(d);
	d->inode = NULL;
	pthread_rwlock_unlock(&d->lock);
	tarn_inode_put(inode);
}

static void dirty_destroy(struct slot_obj *obj)
{
	struct dirty *d = dirty_of(obj);

	if (d->inode)
		tarn_inode_put(d->inode);
	if (d->cached)
		cache_unref(&d->cached->obj);
	else
		free(d->bytes);
	pthread_rwlock_destroy(&d->lock);
	free(d);
}

static const struct slot_ops dirty_ops = {
    .write = dirty_write, .committed = dirty_committed, .destroy = dirty_destroy};

struct dirty *dirty_new(struct tarn_inode *inode, uint32_t room)
{
	struct dirty *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->bytes = dev_buf_alloc(room);
	if (!d->bytes) {
		free(d);
		return NULL;
	}
	slot_obj_init(&d->obj, &dirty_ops, 0);
	pthread_rwlock_init(&d->lock, NULL);
	d->inode = tarn_inode_ref(inode);
	d->room = room;
	return d;
}

void dirty_put(struct dirty *d, struct tx *tx, const void *key, uint32_t klen)
{
	struct tree_miss miss;
	int err;

	assert(d->length > 0 && d->length <= d->room);
	d->obj.txg = tx->txg;
	d->charged = d->length;
	inode_space_add(d->inode, d->length);
	tx_dirty(tx, d->room + sizeof(*d));
	err = tree_put_block(tx, &d->inode->ds->tree, key, klen, &d->obj, &miss);
	assert(!err);
	(void)err;
}

uint32_t dirty_length(struct dirty *d)
{
	uint32_t length;

	pthread_rwlock_rdlock(&d->lock);
	length = d->length;
	pthread_rwlock_unlock(&d->lock);
	return length;
}

uint32_t dirty_replace(struct dirty *d)
{
	uint32_t charged;

	pthread_rwlock_wrlock(&d->lock);
	charged = d->charged;
	d->replaced = true;
	pthread_rwlock_unlock(&d->lock);
	return charged;
}
