// SPDX-License-Identifier: LGPL-3.0-or-later
#include "fs/versioned.h"

#include <errno.h>
#include <stdlib.h>

static int version_write(struct slot_obj *obj, struct txg_sync *s, void *value, uint32_t len)
{
	struct version *version = (struct version *)obj;
	struct versioned *v = version->of;

	(void)s;
	assert(len == v->len);
	/* While it is the newest, nobody changes the content: a change would come in a later txg
	   and make a newer version first. */
	pthread_mutex_lock(&v->lock);
	memcpy(value, v->cur == version ? v->bytes : version->bytes, len);
	pthread_mutex_unlock(&v->lock);
	return 0;
}

static void version_destroy(struct slot_obj *obj)
{
	struct version *version = (struct version *)obj;
	struct versioned *v = version->of;

	pthread_mutex_lock(&v->lock);
	if (v->cur == version)
		v->cur = NULL;
	if (v->prev == version)
		v->prev = NULL;
	pthread_mutex_unlock(&v->lock);
	v->unref(v);
	free(version);
}

static const struct slot_ops version_ops = {.write = version_write, .destroy = version_destroy};

void versioned_init(struct versioned *v, void *bytes, uint32_t len, void (*ref)(struct versioned *),
		    void (*unref)(struct versioned *))
{
	*v = (struct versioned){.bytes = bytes, .len = len, .ref = ref, .unref = unref};
	pthread_mutex_init(&v->lock, NULL);
}

void versioned_fini(struct versioned *v)
{
	assert(!v->cur && !v->prev);
	free(v->spare);
	pthread_mutex_destroy(&v->lock);
}

static bool has_version(struct versioned *v, uint64_t txg)
{
	bool has;

	pthread_mutex_lock(&v->lock);
	has = v->cur && v->cur->obj.txg == txg;
	pthread_mutex_unlock(&v->lock);
	return has;
}

int versioned_prepare(struct versioned *v, uint64_t txg)
{
	if (has_version(v, txg))
		return 0;
	if (!v->spare)
		v->spare = malloc(sizeof(*v->spare) + v->len);
	return v->spare ? 0 : -ENOMEM;
}

void versioned_dirty(struct versioned *v, struct tx *tx, struct tree *tree, const void *key,
		     uint32_t klen)
{
	struct version *version = NULL;
	struct tree_miss miss;
	int err;

	pthread_mutex_lock(&v->lock);
	if (!v->cur || v->cur->obj.txg != tx->txg) {
		version = v->spare;
		assert(version);
		v->spare = NULL;
		slot_obj_init(&version->obj, &version_ops, tx->txg);
		version->of = v;
		if (v->cur)
			memcpy(v->cur->bytes, v->bytes, v->len);
		v->prev = v->cur;
		v->cur = version;
	}
	pthread_mutex_unlock(&v->lock);
	if (!version)
		return;
	v->ref(v);
	err = tree_put_record(tx, tree, key, klen, &version->obj, v->len, &miss);
	assert(!err);
	(void)err;
	tx_dirty(tx, sizeof(*version) + v->len);
	slot_obj_unref(&version->obj);
}

void versioned_settle(struct versioned *v, uint64_t txg, uint32_t at, int64_t delta)
{
	uint64_t *now = (uint64_t *)((char *)v->bytes + at);

	pthread_mutex_lock(&v->lock);
	*now += (uint64_t)delta;
	if (v->prev && v->prev->obj.txg == txg) {
		uint64_t then;

		memcpy(&then, v->prev->bytes + at, sizeof(then));
		then += (uint64_t)delta;
		memcpy(v->prev->bytes + at, &then, sizeof(then));
	}
	pthread_mutex_unlock(&v->lock);
}
