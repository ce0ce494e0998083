// SPDX-License-Identifier: LGPL-3.0-or-later
#include "tree/object.h"

#include <assert.h>
#include <stdlib.h>

#include "tree/impl.h"

/* ---- large values ---- */

static int large_write(struct slot_obj *obj, struct txg_sync *s, void *value, uint32_t len)
{
	struct cache_data *data = large_of(obj)->data;

	(void)value, (void)len;
	return tree_write_block(large_of(obj)->tree, s, BP_VALUE, 0, data->data, data->length, obj);
}

static void large_committed(struct slot_obj *obj)
{
	tree_cache_new(large_of(obj)->tree, &large_of(obj)->data->obj, &obj->bp);
}

static void large_destroy(struct slot_obj *obj)
{
	cache_unref(&large_of(obj)->data->obj);
	free(obj);
}

static const struct slot_ops large_ops = {large_write, large_committed, large_destroy};

struct slot_obj *large_new(struct tree *t, uint64_t txg, const void *val, uint32_t len)
{
	uint32_t room = (len + SECTOR_SIZE - 1) & -SECTOR_SIZE;
	struct tree_large *large = tree_alloc(sizeof(*large));
	uint8_t *buf = dev_buf_alloc(room);

	large->tree = t;
	large->data = buf ? cache_value_new(buf, len) : NULL;
	if (!large->data)
		tree_no_memory();
	memcpy(buf, val, len);
	memset(buf + len, 0, room - len);
	slot_obj_init(&large->obj, &large_ops, txg);
	return &large->obj;
}

/* ---- records ---- */

static int record_write(struct slot_obj *obj, struct txg_sync *s, void *value, uint32_t len)
{
	struct tree_record *rec = record_of(obj);
	int rc = rec->user->ops->write(rec->user, s, rec->bytes, rec->len);

	(void)value, (void)len;
	if (rc == 0)
		atomic_store(&rec->user->written, true);
	return rc;
}

static void record_committed(struct slot_obj *obj)
{
	struct slot_obj *user = record_of(obj)->user;

	if (user->ops->committed)
		user->ops->committed(user);
	atomic_store(&user->committed, true);
}

static void record_destroy(struct slot_obj *obj)
{
	slot_obj_unref(record_of(obj)->user);
	free(obj);
}

static const struct slot_ops record_ops = {record_write, record_committed, record_destroy};

struct slot_obj *record_new(struct slot_obj *user, uint32_t len)
{
	struct tree_record *rec = tree_alloc(sizeof(*rec) + len);

	slot_obj_init(&rec->obj, &record_ops, user->txg);
	rec->user = slot_obj_ref(user);
	rec->len = len;
	return &rec->obj;
}

/* ---- any object in a slot ---- */

void slot_final(struct slot *s)
{
	assert(atomic_load(&s->obj->written));
	s->val = s->kind == SLOT_VALUE ? record_of(s->obj)->bytes : (uint8_t *)&s->obj->bp;
}

void slot_settle(struct slot *s)
{
	if (!atomic_load(&s->obj->committed))
		return;
	slot_final(s);
	s->obj = NULL;
}

void slot_committed(const struct slot *s)
{
	if (s->obj->ops->committed)
		s->obj->ops->committed(s->obj);
	/* Only now do others go by its bp: a large value is in the cache by then. */
	atomic_store(&s->obj->committed, true);
}
