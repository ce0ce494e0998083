// SPDX-License-Identifier: LGPL-3.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dataset/impl.h"

/* ---- finding ---- */

int catalog_find(struct catalog *cat, const char *path, const char **rest,
		 struct tarn_dataset **out)
{
	struct tarn_dataset *ds, *child;

	pthread_rwlock_rdlock(&cat->names);
	ds = cat->root;
	for (;;) {
		size_t len;

		path += strspn(path, "/");
		len = strcspn(path, "/");
		child = len ? dataset_find_child(ds, path, len) : NULL;
		if (!child)
			break;
		ds = child;
		path += len;
	}
	dataset_ref(ds);
	pthread_rwlock_unlock(&cat->names);
	*rest = path;
	*out = ds;
	return 0;
}

struct tarn_dataset *catalog_root(struct catalog *cat)
{
	return cat->root;
}

static struct tarn_dataset *find_id(struct tarn_dataset *ds, uint64_t id)
{
	struct tarn_dataset *found = ds->id == id ? ds : NULL;

	for (struct tarn_dataset *c = ds->children; c && !found; c = c->sibling)
		found = find_id(c, id);
	return found;
}

int catalog_find_id(struct catalog *cat, uint64_t id, struct tarn_dataset **out)
{
	struct tarn_dataset *ds;

	pthread_rwlock_rdlock(&cat->names);
	ds = find_id(cat->root, id);
	if (ds)
		dataset_ref(ds);
	pthread_rwlock_unlock(&cat->names);
	*out = ds;
	return ds ? 0 : -ESTALE;
}

static int walk(struct tarn_dataset *ds, bool recursive,
		int (*fn)(void *arg, struct tarn_dataset *ds), void *arg)
{
	int rc = fn(arg, ds);

	for (struct tarn_dataset *c = recursive ? ds->children : NULL; c && !rc; c = c->sibling)
		rc = walk(c, true, fn, arg);
	return rc;
}

int catalog_walk(struct catalog *cat, struct tarn_dataset *ds, bool recursive,
		 int (*fn)(void *arg, struct tarn_dataset *ds), void *arg)
{
	int rc;

	pthread_rwlock_rdlock(&cat->names);
	rc = walk(ds, recursive, fn, arg);
	pthread_rwlock_unlock(&cat->names);
	return rc;
}

void catalog_path_locked(struct tarn_dataset *ds, char out[TARN_PATH_MAX])
{
	char *at = out + TARN_PATH_MAX - 1;

	/* Built from its end; no dataset is loaded, made or renamed to a path without room. */
	*at = 0;
	for (; ds; ds = ds->parent) {
		size_t len = strlen(ds->name);

		at -= len;
		memcpy(at, ds->name, len);
		if (ds->parent)
			*--at = '/';
	}
	memmove(out, at, strlen(at) + 1);
}

void catalog_path(struct tarn_dataset *ds, char out[TARN_PATH_MAX])
{
	pthread_rwlock_rdlock(&ds->catalog->names);
	catalog_path_locked(ds, out);
	pthread_rwlock_unlock(&ds->catalog->names);
}

uint64_t catalog_used_locked(struct tarn_dataset *ds)
{
	uint64_t used = ds->used;

	for (struct tarn_dataset *c = ds->children; c; c = c->sibling)
		used += catalog_used_locked(c);
	return used;
}

/* Bytes of the longest path below and including ds, counted from its own name. */
static size_t longest(struct tarn_dataset *ds)
{
	size_t below = 0;

	for (struct tarn_dataset *c = ds->children; c; c = c->sibling) {
		size_t len = 1 + longest(c);

		below = len > below ? len : below;
	}
	return strlen(ds->name) + below;
}

static size_t path_length(struct tarn_dataset *ds)
{
	size_t len = 0;

	for (; ds; ds = ds->parent)
		len += strlen(ds->name) + 1;
	return len;
}

/* ---- create ---- */

struct create_arg {
	struct tarn_dataset *parent;
	const char *name;
	const struct tarn_prop *props;
	uint32_t nprops;
	struct tarn_dataset *out;
};

static int put_state(struct catalog *cat, struct txg_sync *s)
{
	uint8_t key[CAT_KEY_ROOM];

	return cat_put(cat, s, key, cat_key(key, CAT_STATE), &cat->state, sizeof(cat->state));
}

static int put_props(struct catalog *cat, struct txg_sync *s, struct tarn_dataset *ds,
		     const struct tarn_prop *props, uint32_t nprops)
{
	uint8_t key[CAT_KEY_ROOM];
	int rc = 0;

	for (uint32_t i = 0; i < nprops && !rc; i++) {
		uint32_t klen = cat_key_id_name(key, CAT_PROP, ds->id, props[i].name);

		if (props[i].value)
			rc = cat_put(cat, s, key, klen, props[i].value,
				     (uint32_t)strlen(props[i].value));
		else
			rc = cat_del(cat, s, key, klen);
	}
	return rc;
}

static int set_props(struct tarn_dataset *ds, const struct tarn_prop *props, uint32_t nprops)
{
	int rc = 0;

	for (uint32_t i = 0; i < nprops && !rc; i++)
		rc = prop_set_local(ds, props[i].name, props[i].value);
	return rc;
}

static int put_name(struct catalog *cat, struct txg_sync *s, uint64_t parent, const char *name,
		    uint64_t id)
{
	uint8_t key[CAT_KEY_ROOM];

	return cat_put(cat, s, key, cat_key_id_name(key, CAT_CHILD, parent, name), &id, 8);
}

static int put_dataset(struct catalog *cat, struct txg_sync *s, struct tarn_dataset *ds)
{
	struct dataset_record rec;
	uint8_t key[CAT_KEY_ROOM];

	dataset_record_of(ds, &ds->synced_root, &rec);
	return cat_put(cat, s, key, cat_key_id(key, CAT_DATASET, ds->id), &rec, sizeof(rec));
}

static int create_task(struct catalog *cat, struct txg_sync *s, void *arg)
{
	struct create_arg *a = arg;
	struct dataset_record rec = {
	    .root = bp_hole(s->txg, 0),
	    .parent = a->parent ? a->parent->id : 0,
	    .created = (uint64_t)time(NULL),
	    .birth = s->txg,
	};
	struct tarn_dataset *ds;
	int rc;

	if (a->parent && dataset_find_child(a->parent, a->name, strlen(a->name)))
		return -EEXIST;
	if (a->parent && a->parent->state != DATASET_LIVE)
		return -ENOENT;
	if ((a->parent ? path_length(a->parent) : 0) + strlen(a->name) >= TARN_PATH_MAX)
		return -ENAMETOOLONG;
	ds = dataset_new(cat, cat->state.next_dataset, a->name, &rec);
	if (!ds)
		return -ENOMEM;
	rc = set_props(ds, a->props, a->nprops);
	if (rc) {
		dataset_unref(ds);
		return rc;
	}
	cat->state.next_dataset++;
	rc = put_state(cat, s);
	if (!rc)
		rc = put_dataset(cat, s, ds);
	if (!rc)
		rc = put_name(cat, s, rec.parent, a->name, ds->id);
	if (!rc)
		rc = put_props(cat, s, ds, a->props, a->nprops);
	if (rc) {
		dataset_unref(ds);
		return rc;
	}
	pthread_mutex_lock(&cat->roots);
	ds->all_next = cat->all;
	cat->all = ds;
	pthread_mutex_unlock(&cat->roots);
	pthread_rwlock_wrlock(&cat->names);
	if (a->parent)
		dataset_link(ds, a->parent);
	else
		cat->root = ds;
	prop_apply(ds);
	pthread_rwlock_unlock(&cat->names);
	dataset_ref(ds);
	a->out = ds;
	return 0;
}

int catalog_dataset_create(struct catalog *cat, struct tarn_dataset *parent, const char *name,
			   const struct tarn_prop *props, uint32_t nprops,
			   struct tarn_dataset **out)
{
	struct create_arg a = {.parent = parent, .name = name, .props = props, .nprops = nprops};
	int rc = catalog_task(cat, create_task, &a);

	*out = a.out;
	return rc;
}

/* ---- set ---- */

struct set_arg {
	struct tarn_dataset *ds;
	const struct tarn_prop *props;
	uint32_t nprops;
};

static int set_task(struct catalog *cat, struct txg_sync *s, void *arg)
{
	struct set_arg *a = arg;
	int rc;

	if (a->ds->destroyed)
		return -ENOENT;
	rc = put_props(cat, s, a->ds, a->props, a->nprops);
	if (rc)
		return rc;
	pthread_rwlock_wrlock(&cat->names);
	rc = set_props(a->ds, a->props, a->nprops);
	prop_apply(a->ds);
	pthread_rwlock_unlock(&cat->names);
	return rc;
}

int catalog_dataset_set(struct catalog *cat, struct tarn_dataset *ds, const struct tarn_prop *props,
			uint32_t nprops)
{
	struct set_arg a = {.ds = ds, .props = props, .nprops = nprops};

	return catalog_task(cat, set_task, &a);
}

/* ---- rename ---- */

struct rename_arg {
	struct tarn_dataset *ds, *parent;
	const char *name;
};

static int rename_check(const struct rename_arg *a)
{
	struct tarn_dataset *ds = a->ds;

	if (ds->state != DATASET_LIVE || a->parent->state != DATASET_LIVE)
		return -ENOENT;
	if (dataset_find_child(a->parent, a->name, strlen(a->name)))
		return -EEXIST;
	for (struct tarn_dataset *up = a->parent; up; up = up->parent)
		if (up == ds)
			return -EINVAL;
	if (path_length(a->parent) + longest(ds) - strlen(ds->name) + strlen(a->name) >=
	    TARN_PATH_MAX)
		return -ENAMETOOLONG;
	return 0;
}

static int rename_task(struct catalog *cat, struct txg_sync *s, void *arg)
{
	struct rename_arg *a = arg;
	struct tarn_dataset *ds = a->ds;
	uint8_t key[CAT_KEY_ROOM];
	int rc = rename_check(a);

	if (rc)
		return rc;
	rc = put_name(cat, s, a->parent->id, a->name, ds->id);
	if (!rc)
		rc = cat_del(cat, s, key, cat_key_id_name(key, CAT_CHILD, ds->parent_id, ds->name));
	if (rc)
		return rc;
	pthread_rwlock_wrlock(&cat->names);
	dataset_unlink(ds);
	snprintf(ds->name, sizeof(ds->name), "%s", a->name);
	dataset_link(ds, a->parent);
	prop_apply(ds);
	pthread_rwlock_unlock(&cat->names);
	return put_dataset(cat, s, ds);
}

int catalog_dataset_rename(struct catalog *cat, struct tarn_dataset *ds,
			   struct tarn_dataset *parent, const char *name)
{
	struct rename_arg a = {.ds = ds, .parent = parent, .name = name};

	if (!ds->parent_id)
		return -EINVAL;
	return catalog_task(cat, rename_task, &a);
}

/* ---- destroy ---- */

/* Children before parents, the root of the subtree last. Caller holds a reference on each. */
struct victims {
	struct tarn_dataset **ds;
	size_t n, room;
};

static int collect(struct victims *v, struct tarn_dataset *ds)
{
	for (struct tarn_dataset *c = ds->children; c; c = c->sibling)
		if (collect(v, c))
			return -ENOMEM;
	if (v->n == v->room) {
		size_t room = v->room ? 2 * v->room : 16;
		struct tarn_dataset **more = realloc(v->ds, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		v->ds = more;
		v->room = room;
	}
	dataset_ref(ds);
	v->ds[v->n++] = ds;
	return 0;
}

static size_t count_subtree(const struct tarn_dataset *ds)
{
	size_t n = 1;

	for (const struct tarn_dataset *c = ds->children; c; c = c->sibling)
		n += count_subtree(c);
	return n;
}

/* Still the whole subtree, and nothing else? Children are made and datasets renamed in tasks, which
   do neither in what is dying, but one may have run after they were collected. */
static bool still_whole(const struct victims *v)
{
	const struct tarn_dataset *root = v->ds[v->n - 1];

	for (size_t i = 0; i < v->n; i++) {
		const struct tarn_dataset *up = v->ds[i];

		while (up && up != root)
			up = up->parent;
		if (!up)
			return false;
	}
	return count_subtree(root) == v->n;
}

static int forget(struct catalog *cat, struct txg_sync *s, struct tarn_dataset *ds)
{
	uint8_t key[CAT_KEY_ROOM];
	struct dataset_record rec;
	int rc;

	dataset_record_of(ds, &ds->synced_root, &rec);
	rc = cat_put(cat, s, key, cat_key_id(key, CAT_DESTROYED, ds->id), &rec, sizeof(rec));
	if (!rc)
		rc = cat_del(cat, s, key, cat_key_id(key, CAT_DATASET, ds->id));
	if (!rc)
		rc = cat_del(cat, s, key, cat_key_id_name(key, CAT_CHILD, ds->parent_id, ds->name));
	for (struct prop_value *p = ds->local; p && !rc; p = p->next)
		rc = cat_del(cat, s, key, cat_key_id_name(key, CAT_PROP, ds->id, p->name));
	return rc;
}

static int destroy_task(struct catalog *cat, struct txg_sync *s, void *arg)
{
	struct victims *v = arg;

	if (!still_whole(v))
		return -EAGAIN;
	for (size_t i = 0; i < v->n; i++) {
		int rc = forget(cat, s, v->ds[i]);

		if (rc)
			return rc;
		v->ds[i]->destroyed = true;
		pthread_rwlock_wrlock(&cat->names);
		dataset_unlink(v->ds[i]);
		pthread_rwlock_unlock(&cat->names);
	}
	return 0;
}

/* What could not be destroyed is as it was, with the inodes that are in use. */
static int destroy_all(struct catalog *cat, struct victims *v,
		       void (*gone)(struct tarn_dataset *ds))
{
	int rc;

	for (size_t i = 0; i < v->n; i++)
		dataset_shut(v->ds[i], DATASET_DYING);
	rc = catalog_task(cat, destroy_task, v);
	for (size_t i = 0; i < v->n; i++) {
		if (!v->ds[i]->destroyed) {
			v->ds[i]->state = DATASET_LIVE;
			continue;
		}
		gone(v->ds[i]);
		if (!rc)
			destroyer_add(cat, v->ds[i]);
	}
	return rc;
}

static int destroy_once(struct catalog *cat, struct tarn_dataset *ds, bool recursive,
			void (*gone)(struct tarn_dataset *ds))
{
	struct victims v = {0};
	int rc = -ENOENT;

	pthread_rwlock_rdlock(&cat->names);
	if (!ds->destroyed)
		rc = ds->children && !recursive ? -ENOTEMPTY : collect(&v, ds);
	pthread_rwlock_unlock(&cat->names);
	if (!rc)
		rc = destroy_all(cat, &v, gone);
	for (size_t i = 0; i < v.n; i++)
		dataset_unref(v.ds[i]);
	free(v.ds);
	return rc;
}

int catalog_dataset_destroy(struct catalog *cat, struct tarn_dataset *ds, bool recursive,
			    void (*gone)(struct tarn_dataset *ds))
{
	int rc;

	if (!ds->parent_id)
		return -EINVAL;
	/* Else one that fails would revive what another has shut. */
	pthread_mutex_lock(&cat->destroying);
	do {
		rc = destroy_once(cat, ds, recursive, gone);
	} while (rc == -EAGAIN);
	pthread_mutex_unlock(&cat->destroying);
	return rc;
}
