// SPDX-License-Identifier: LGPL-3.0-or-later
#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/impl.h"
#include "pool/ilog.h"

/* ---- the pool tree's own space ---- */

static void born(struct space_owner *owner, struct txg_sync *s, const struct bp *bp)
{
	/* Not part of any dataset's usage. */
	(void)owner, (void)s, (void)bp;
}

static void freed(struct space_owner *owner, struct txg_sync *s, const struct bp *bp)
{
	(void)owner;
	sync_free(s, bp);
}

static const struct space_owner_ops owner_ops = {.born = born, .freed = freed};

static struct catalog *catalog_new(struct pool *pool, struct cache *cache, const struct bp *root)
{
	struct catalog *cat = calloc(1, sizeof(*cat));

	if (!cat)
		return NULL;
	cat->pool = pool;
	cat->cache = cache;
	cat->owner.ops = &owner_ops;
	cat->tasks_end = &cat->tasks;
	pthread_rwlock_init(&cat->names, NULL);
	pthread_mutex_init(&cat->tasks_lock, NULL);
	pthread_cond_init(&cat->task_ended, NULL);
	pthread_mutex_init(&cat->roots, NULL);
	cat->committed_root = *root;
	pthread_mutex_init(&cat->destroying, NULL);
	pthread_mutex_init(&cat->destroy_lock, NULL);
	pthread_cond_init(&cat->destroy_cond, NULL);
	tree_init(&cat->tree, pool, cache, &cat->owner, root, COMP_LZ4, CKSUM_XXH3);
	return cat;
}

static int start(struct catalog *cat)
{
	int rc;

	cat->client = catalog_client;
	cat->client.arg = cat;
	rc = txg_start(cat->pool, &cat->client);
	if (rc)
		return rc;
	cat->started = true;
	return destroyer_start(cat);
}

static void shut(struct tarn_dataset *ds, void (*gone)(struct tarn_dataset *ds))
{
	for (struct tarn_dataset *c = ds->children; c; c = c->sibling)
		shut(c, gone);
	dataset_shut(ds, DATASET_GONE);
	gone(ds);
}

int catalog_close(struct catalog *cat, void (*gone)(struct tarn_dataset *ds))
{
	int rc = 0;

	if (cat->root)
		shut(cat->root, gone);
	destroyer_stop(cat);
	if (cat->started)
		rc = txg_stop(cat->pool);
	while (cat->all) {
		struct tarn_dataset *ds = cat->all;

		cat->all = ds->all_next;
		tree_fini(&ds->tree);
		/* Whoever still has a reference finds no relatives. */
		ds->parent = ds->children = ds->sibling = NULL;
		ds->nchildren = 0;
		dataset_unref(ds);
	}
	tree_fini(&cat->tree);
	pthread_rwlock_destroy(&cat->names);
	pthread_mutex_destroy(&cat->tasks_lock);
	pthread_cond_destroy(&cat->task_ended);
	pthread_mutex_destroy(&cat->roots);
	pthread_mutex_destroy(&cat->destroying);
	pthread_mutex_destroy(&cat->destroy_lock);
	pthread_cond_destroy(&cat->destroy_cond);
	free(cat);
	return rc;
}

static void nothing(struct tarn_dataset *ds)
{
	(void)ds;
}

int catalog_create(struct pool *pool, struct cache *cache, const struct tarn_prop *props,
		   uint32_t nprops, struct catalog **out)
{
	struct bp none = bp_hole(0, 0);
	struct catalog *cat = catalog_new(pool, cache, &none);
	struct tarn_dataset *root = NULL;
	int rc;

	if (!cat)
		return -ENOMEM;
	cat->state = (struct catalog_state){.next_dataset = 1, .next_history = 1};
	rc = start(cat);
	if (!rc)
		rc = catalog_dataset_create(cat, NULL, pool->name, props, nprops, &root);
	if (rc) {
		catalog_close(cat, nothing);
		return rc;
	}
	dataset_unref(root);
	ilog_start(pool);
	*out = cat;
	return 0;
}

/* ---- loading ---- */

static uint64_t key_id(const uint8_t *key)
{
	uint64_t be;

	memcpy(&be, key + 1, 8);
	return be64toh(be);
}

static int load_chunk(void *arg, const uint8_t *key, uint32_t klen, const void *val, uint32_t vlen)
{
	struct catalog *cat = arg;

	return klen == 9 ? pool_load_chunk(cat->pool, key_id(key), val, vlen) : -EIO;
}

/* Datasets are linked once all are known; until then `all` holds them. */
static int load_record(struct catalog *cat, const uint8_t *key, uint32_t klen, const void *val,
		       uint32_t vlen, bool destroyed)
{
	struct dataset_record rec;
	struct tarn_dataset *ds;

	if (klen != 9 || vlen != sizeof(rec))
		return -EIO;
	memcpy(&rec, val, sizeof(rec));
	if (key_id(key) >= cat->state.next_dataset || rec.parent >= cat->state.next_dataset ||
	    (!bp_is_hole(&rec.root) && !bp_valid(&rec.root, cat->pool->uber.txg)))
		return -EIO;
	ds = dataset_new(cat, key_id(key), "", &rec);
	if (!ds)
		return -ENOMEM;
	ds->destroyed = destroyed;
	if (destroyed)
		ds->state = DATASET_DYING;
	ds->all_next = cat->all;
	cat->all = ds;
	return 0;
}

static int load_live(void *arg, const uint8_t *key, uint32_t klen, const void *val, uint32_t vlen)
{
	return load_record(arg, key, klen, val, vlen, false);
}

static int load_destroyed(void *arg, const uint8_t *key, uint32_t klen, const void *val,
			  uint32_t vlen)
{
	return load_record(arg, key, klen, val, vlen, true);
}

static struct tarn_dataset *loaded(struct catalog *cat, uint64_t id)
{
	struct tarn_dataset *ds = cat->all;

	while (ds && (ds->id != id || ds->destroyed))
		ds = ds->all_next;
	return ds;
}

static int load_name(void *arg, const uint8_t *key, uint32_t klen, const void *val, uint32_t vlen)
{
	struct catalog *cat = arg;
	struct tarn_dataset *ds, *parent;
	uint64_t id;

	if (klen < 10 || klen > 9 + TARN_NAME_MAX || vlen != 8)
		return -EIO;
	memcpy(&id, val, 8);
	ds = loaded(cat, id);
	if (!ds || ds->parent || ds == cat->root || ds->parent_id != key_id(key))
		return -EIO;
	memcpy(ds->name, key + 9, klen - 9);
	if (ds->parent_id == 0) {
		if (cat->root)
			return -EIO;
		cat->root = ds;
		/* An import may have given the pool another name. */
		snprintf(ds->name, sizeof(ds->name), "%s", cat->pool->name);
		return 0;
	}
	parent = loaded(cat, ds->parent_id);
	if (!parent || parent == ds)
		return -EIO;
	dataset_link(ds, parent);
	return 0;
}

static int load_prop(void *arg, const uint8_t *key, uint32_t klen, const void *val, uint32_t vlen)
{
	struct tarn_dataset *ds = klen > 9 ? loaded(arg, key_id(key)) : NULL;
	char name[PROP_NAME_MAX + 1] = {0}, value[PROP_VALUE_MAX + 1] = {0};
	char canonical[PROP_VALUE_MAX + 1];
	struct tarn_error err;

	if (!ds || klen - 9 > PROP_NAME_MAX || vlen > PROP_VALUE_MAX)
		return -EIO;
	memcpy(name, key + 9, klen - 9);
	memcpy(value, val, vlen);
	if (prop_check(name, value, canonical, &err))
		return -EIO;
	return prop_set_local(ds, name, canonical);
}

/* Every live dataset hangs below the root (no circle among the others), by a path that is not too
   long: with the name that an import has given the pool it may be. */
static int check_linked(struct catalog *cat)
{
	uint32_t live = 0, linked = 0;
	struct tarn_dataset *ds = cat->root;
	size_t above = 0; /* bytes of the path before the name of ds */
	bool fits = true;

	for (struct tarn_dataset *d = cat->all; d; d = d->all_next)
		live += !d->destroyed;
	while (ds) {
		linked++;
		fits = fits && above + strlen(ds->name) < TARN_PATH_MAX;
		if (ds->children) {
			above += strlen(ds->name) + 1;
			ds = ds->children;
			continue;
		}
		while (ds && !ds->sibling) {
			ds = ds->parent;
			above -= ds ? strlen(ds->name) + 1 : 0;
		}
		ds = ds ? ds->sibling : NULL;
	}
	if (live != linked)
		return -EIO;
	return fits ? 0 : -ENAMETOOLONG;
}

static int load_log(struct catalog *cat)
{
	struct extent extents[ILOG_EXTENTS_MAX];
	uint8_t key[CAT_KEY_ROOM];
	uint32_t len;
	int rc = cat_get(cat, key, cat_key(key, CAT_LOG), extents, sizeof(extents), &len);

	if (rc)
		return rc == -ENOENT ? 0 : rc;
	return len % sizeof(*extents)
		   ? -EIO
		   : ilog_set_extents(cat->pool, extents, len / (uint32_t)sizeof(*extents));
}

static int load(struct catalog *cat)
{
	static const struct {
		uint8_t kind;
		int (*fn)(void *arg, const uint8_t *key, uint32_t klen, const void *val,
			  uint32_t vlen);
	} steps[] = {
	    {CAT_DATASET, load_live},
	    {CAT_DESTROYED, load_destroyed},
	    {CAT_CHILD, load_name},
	    {CAT_PROP, load_prop},
	};
	uint8_t key[CAT_KEY_ROOM];
	uint32_t len;
	int rc;

	rc = cat_scan(cat, &(uint8_t){CAT_CHUNK}, 1, load_chunk, cat);
	if (!rc)
		rc = pool_load_done(cat->pool);
	if (!rc)
		rc = load_log(cat);
	if (!rc)
		rc = cat_get(cat, key, cat_key(key, CAT_STATE), &cat->state, sizeof(cat->state),
			     &len);
	if (!rc && (len != sizeof(cat->state) || cat->state.next_dataset > FORMAT_NUMBER_MAX ||
		    cat->state.next_history > FORMAT_NUMBER_MAX))
		rc = -EIO;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && !rc; i++)
		rc = cat_scan(cat, &steps[i].kind, 1, steps[i].fn, cat);
	if (!rc)
		rc = cat->root ? check_linked(cat) : -EIO;
	if (!rc)
		prop_apply(cat->root);
	return rc == -ENOENT ? -EIO : rc;
}

int catalog_open(struct pool *pool, struct cache *cache, struct catalog **out,
		 struct tarn_error *err)
{
	struct catalog *cat = catalog_new(pool, cache, &pool->uber.root);
	int rc = cat ? load(cat) : -ENOMEM;

	if (rc == -ENAMETOOLONG) {
		err->code = rc;
		snprintf(err->text, sizeof(err->text),
			 "pool '%s': with this name the path of a dataset would be longer than %d "
			 "bytes; -N gives it a shorter one",
			 pool->name, TARN_PATH_MAX - 1);
	} else if (rc) {
		err->code = rc;
		snprintf(
		    err->text, sizeof(err->text),
		    "pool '%s': its metadata can't be read at txg %llu (%s); -F goes back to an "
		    "older state",
		    pool->name, (unsigned long long)pool->uber.txg, strerror(-rc));
	} else if (!pool->read_only) {
		/* Once it runs, the destroyer takes from the list of all what it is done with. */
		for (struct tarn_dataset *ds = cat->all; ds; ds = ds->all_next)
			if (ds->destroyed)
				destroyer_add(cat, ds);
		rc = start(cat);
	}
	if (rc) {
		if (cat)
			catalog_close(cat, nothing);
		return rc;
	}
	*out = cat;
	return 0;
}

/* ---- pool properties and history ---- */

struct put_arg {
	const char *name, *value;
};

static int prop_task(struct catalog *cat, struct txg_sync *s, void *arg)
{
	struct put_arg *a = arg;
	uint8_t key[CAT_KEY_ROOM];
	uint32_t len = (uint32_t)strlen(a->name);

	cat_key(key, CAT_POOL_PROP);
	memcpy(key + 1, a->name, len);
	return cat_put(cat, s, key, 1 + len, a->value, (uint32_t)strlen(a->value));
}

int catalog_pool_prop_set(struct catalog *cat, const char *name, const char *value)
{
	struct put_arg a = {name, value};

	if (strlen(name) > PROP_NAME_MAX || strlen(value) > PROP_VALUE_MAX)
		return -EINVAL;
	return catalog_task(cat, prop_task, &a);
}

int catalog_pool_prop_get(struct catalog *cat, const char *name, char *value, size_t room)
{
	uint8_t key[CAT_KEY_ROOM];
	uint32_t len = (uint32_t)strlen(name);
	int rc;

	if (len > PROP_NAME_MAX)
		return -EINVAL;
	cat_key(key, CAT_POOL_PROP);
	memcpy(key + 1, name, len);
	rc = cat_get(cat, key, 1 + len, value, (uint32_t)room - 1, &len);
	if (!rc)
		value[len] = 0;
	return rc;
}

#define LOST "lost_changes"

int catalog_lost(struct catalog *cat, struct lost_changes *out)
{
	char text[PROP_VALUE_MAX + 1];
	int rc = catalog_pool_prop_get(cat, LOST, text, sizeof(text));
	char *at = text;

	*out = (struct lost_changes){0};
	if (rc)
		return rc == -ENOENT ? 0 : rc;
	out->total = strtoull(text, &at, 10);
	while (*at == ' ' && out->n < LOST_DATASETS_MAX) {
		out->in[out->n].dataset = strtoull(at, &at, 10);
		if (*at++ != ':')
			break;
		out->in[out->n++].changes = strtoull(at, &at, 10);
	}
	return 0;
}

/* Once more after a crash in the same replay it is the same number. */
int catalog_lost_add(struct catalog *cat, const struct lost_changes *lost)
{
	char text[PROP_VALUE_MAX + 1];
	struct lost_changes before;
	int len, rc = catalog_lost(cat, &before);

	if (rc || before.total >= lost->total)
		return rc;
	static_assert(sizeof(text) > 21 + LOST_DATASETS_MAX * 2 * 21, "two numbers each");
	len = sprintf(text, "%llu", (unsigned long long)lost->total);
	for (uint32_t i = 0; i < lost->n; i++)
		len += sprintf(text + len, " %llu:%llu", (unsigned long long)lost->in[i].dataset,
			       (unsigned long long)lost->in[i].changes);
	return catalog_pool_prop_set(cat, LOST, text);
}

int catalog_lost_clear(struct catalog *cat)
{
	return catalog_pool_prop_set(cat, LOST, "0");
}

#define HISTORY_TEXT_MAX 2000

static int history_task(struct catalog *cat, struct txg_sync *s, void *arg)
{
	const char *text = arg;
	uint8_t key[CAT_KEY_ROOM], val[8 + HISTORY_TEXT_MAX];
	uint64_t now = (uint64_t)time(NULL);
	uint32_t len = (uint32_t)strnlen(text, HISTORY_TEXT_MAX);
	int rc;

	memcpy(val, &now, 8);
	memcpy(val + 8, text, len);
	rc = cat_put(cat, s, key, cat_key_id(key, CAT_HISTORY, cat->state.next_history), val,
		     8 + len);
	if (rc)
		return rc;
	cat->state.next_history++;
	return cat_put(cat, s, key, cat_key(key, CAT_STATE), &cat->state, sizeof(cat->state));
}

int catalog_history_add(struct catalog *cat, const char *text)
{
	return catalog_task(cat, history_task, (void *)text);
}

struct history_arg {
	void (*fn)(void *arg, time_t when, const char *text);
	void *arg;
};

static int history_entry(void *arg, const uint8_t *key, uint32_t klen, const void *val,
			 uint32_t vlen)
{
	struct history_arg *a = arg;
	char text[HISTORY_TEXT_MAX + 1] = {0};
	uint64_t when;

	(void)key;
	if (klen != 9 || vlen < 8 || vlen > 8 + HISTORY_TEXT_MAX)
		return -EIO;
	memcpy(&when, val, 8);
	memcpy(text, (const char *)val + 8, vlen - 8);
	a->fn(a->arg, (time_t)when, text);
	return 0;
}

int catalog_history(struct catalog *cat, void (*fn)(void *arg, time_t when, const char *text),
		    void *arg)
{
	struct history_arg a = {fn, arg};

	return cat_scan(cat, &(uint8_t){CAT_HISTORY}, 1, history_entry, &a);
}
