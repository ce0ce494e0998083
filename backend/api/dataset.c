// SPDX-License-Identifier: LGPL-3.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/engine.h"
#include "dataset/prop.h"
#include "fs/fs.h"
#include "pool/ilog.h"

/* ---- paths ---- */

/* The pool of a path ("/pool/a/b", "pool/a/b"); *below: what follows the pool's name. */
static int pool_of(struct tarn_engine *engine, const char *path, const char **below,
		   struct engine_pool **out)
{
	char name[TARN_POOL_NAME_MAX + 1];
	size_t len;

	path += strspn(path, "/");
	len = strcspn(path, "/");
	if (len == 0 || len >= sizeof(name))
		return -ENOENT;
	memcpy(name, path, len);
	name[len] = 0;
	*below = path + len;
	return engine_pool_get(engine, name, out);
}

/* The dataset that bears exactly this path, referenced, and a use of its pool. */
static int find(struct tarn_engine *engine, const char *path, struct engine_pool **pool,
		struct tarn_dataset **out, struct tarn_error *err)
{
	const char *below, *rest;
	int rc = pool_of(engine, path, &below, pool);

	if (rc)
		return fail(err, -ENOENT,
			    "there is no dataset '%s': its pool is not imported (see 'tarn pool "
			    "list')",
			    path);
	rc = catalog_find((*pool)->catalog, below, &rest, out);
	if (!rc && *rest) {
		tarn_dataset_put(*out);
		rc = -ENOENT;
	}
	if (rc) {
		engine_pool_put(engine, *pool);
		return fail(err, rc, "there is no dataset '%s'", path);
	}
	return 0;
}

static void found_put(struct tarn_engine *engine, struct engine_pool *pool, struct tarn_dataset *ds)
{
	tarn_dataset_put(ds);
	engine_pool_put(engine, pool);
}

/* Of path. */
static int check_component(const char *path, const char *name, size_t len, struct tarn_error *err)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789_.:-";

	if (len == 0)
		return fail(err, -EINVAL,
			    "'%.80s': a path of datasets is pool/dataset/dataset, with one slash "
			    "between names and none around them",
			    path);
	if (len > TARN_NAME_MAX)
		return fail(err, -ENAMETOOLONG, "'%.40s...' is longer than %d bytes", name,
			    TARN_NAME_MAX);
	if (strspn(name, allowed) < len)
		return fail(err, -EINVAL,
			    "'%.*s' holds '%c': dataset names take letters, digits and _ . : -",
			    (int)len, name, name[strspn(name, allowed)]);
	if (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')))
		return fail(err, -EINVAL, "'%.*s' is no name for a dataset", (int)len, name);
	if (len == 9 && memcmp(name, ".snapshot", 9) == 0)
		return fail(err, -EINVAL, "'.snapshot' is reserved");
	return 0;
}

static int check_path(const char *path, struct tarn_error *err)
{
	const char *at = path;

	if (strlen(path) >= TARN_PATH_MAX)
		return fail(err, -ENAMETOOLONG, "the path is longer than %d bytes",
			    TARN_PATH_MAX - 1);
	for (;;) {
		size_t len = strcspn(at, "/");
		int rc = check_component(path, at, len, err);

		if (rc)
			return rc;
		if (!at[len])
			return 0;
		at += len + 1;
	}
}

/* Splits off the last component; path has been checked. -EINVAL for a pool's name alone. */
static int split(const char *path, char parent[TARN_PATH_MAX], const char **name,
		 struct tarn_error *err)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return fail(err, -EINVAL,
			    "'%s' is a pool's name: pools are made by 'tarn pool create', renamed "
			    "by 'tarn pool import -N' and removed by 'tarn pool destroy'",
			    path);
	memcpy(parent, path, (size_t)(slash - path));
	parent[slash - path] = 0;
	*name = slash + 1;
	return 0;
}

/*
 * A child has come, gone or changed its name: so has the directory it appears in. Clients hold on
 * to their listing, and to names that they have not found, until that says so. The change of
 * the datasets stands whether this can be told or not.
 */
static void children_changed(struct engine_pool *pool, uint64_t parent_id)
{
	struct tarn_commit token = {0};
	struct tarn_dataset *parent;

	if (catalog_find_id(pool->catalog, parent_id, &parent))
		return;
	if (!fs_root_changed(parent, &token))
		(void)tarn_commit_wait(parent, token);
	tarn_dataset_put(parent);
}

/* ---- create ---- */

/* Canonical copies of property values. */
struct checked_props {
	struct tarn_prop *props;
	char (*values)[PROP_VALUE_MAX + 1];
};

static int check_props(const struct tarn_prop *props, uint32_t n, struct checked_props *out,
		       struct tarn_error *err)
{
	int rc = 0;

	out->props = calloc(n + 1, sizeof(*out->props));
	out->values = calloc(n + 1, sizeof(*out->values));
	if (!out->props || !out->values)
		rc = fail(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < n && !rc; i++) {
		rc = prop_check(props[i].name, props[i].value, out->values[i], err);
		out->props[i] = (struct tarn_prop){props[i].name, out->values[i]};
	}
	return rc;
}

static void checked_props_free(struct checked_props *p)
{
	free(p->props);
	free(p->values);
}

/* A directory entry of that name would be hidden by the dataset. */
static int check_no_entry(struct tarn_dataset *parent, const char *path, const char *name,
			  struct tarn_error *err)
{
	struct tarn_inode *root, *entry;
	int rc = tarn_root(parent, &root);

	if (!rc) {
		rc = tarn_lookup(NULL, root, name, &entry);
		tarn_inode_put(root);
	}
	if (rc == -ENOENT)
		return 0;
	if (rc == -ESTALE)
		return fail(err, -ENOENT, "the dataset above '%s' is being destroyed", path);
	if (rc)
		return fail(err, rc, "'%s' can't be looked up: %s", path, strerror(-rc));
	rc = tarn_inode_dataset(entry) == parent
		 ? fail(err, -EEXIST,
			"there is a file or directory '%s' in the parent dataset: move it away "
			"first",
			path)
		 : fail(err, -EEXIST, "dataset '%s' exists already", path);
	tarn_inode_put(entry);
	return rc;
}

static bool pool_imported(struct tarn_engine *engine, const char *path)
{
	struct engine_pool *pool;
	const char *below;

	if (pool_of(engine, path, &below, &pool))
		return false;
	engine_pool_put(engine, pool);
	return true;
}

static int create_one(struct tarn_engine *engine, const char *path, const struct tarn_prop *props,
		      uint32_t nprops, struct tarn_error *err)
{
	struct engine_pool *pool;
	struct tarn_dataset *parent, *ds;
	char parent_path[TARN_PATH_MAX];
	const char *name;
	int rc = split(path, parent_path, &name, err);

	if (rc)
		return rc;
	rc = find(engine, parent_path, &pool, &parent, err);
	/* -p makes no pools. */
	if (rc == -ENOENT && pool_imported(engine, parent_path))
		return fail(err, rc, "there is no parent dataset '%s'; -p creates missing ones",
			    parent_path);
	if (rc)
		return rc;
	rc = engine_check_writable(pool, err);
	if (!rc)
		rc = check_no_entry(parent, path, name, err);
	if (!rc) {
		rc = catalog_dataset_create(pool->catalog, parent, name, props, nprops, &ds);
		if (!rc) {
			rc = fs_format(ds);
			/* Without its first content it is no dataset: a full pool has no room. */
			if (rc)
				catalog_dataset_destroy(pool->catalog, ds, false, fs_drop);
			tarn_dataset_put(ds);
			children_changed(pool, parent->id);
		}
		if (rc)
			fail(err, rc,
			     rc == -EEXIST ? "dataset '%s' exists already (%s)"
					   : "dataset '%s' can't be created: %s",
			     path, strerror(-rc));
	}
	found_put(engine, pool, parent);
	return rc;
}

static bool exists(struct tarn_engine *engine, const char *path)
{
	struct engine_pool *pool;
	struct tarn_dataset *ds;

	if (find(engine, path, &pool, &ds, NULL))
		return false;
	found_put(engine, pool, ds);
	return true;
}

int tarn_dataset_create(struct tarn_engine *engine, const char *path, const struct tarn_prop *props,
			uint32_t nprops, bool parents, struct tarn_error *err)
{
	struct checked_props checked = {0};
	int rc = check_path(path, err);

	if (!rc)
		rc = check_props(props, nprops, &checked, err);
	for (const char *slash = strchr(path, '/'); parents && !rc && slash;
	     slash = strchr(slash + 1, '/')) {
		char above[TARN_PATH_MAX];

		snprintf(above, sizeof(above), "%.*s", (int)(slash - path), path);
		if (strchr(above, '/') && !exists(engine, above))
			rc = create_one(engine, above, NULL, 0, err);
	}
	if (!rc && !(parents && exists(engine, path)))
		rc = create_one(engine, path, checked.props, nprops, err);
	checked_props_free(&checked);
	return rc;
}

/* ---- destroy, rename ---- */

int tarn_dataset_destroy(struct tarn_engine *engine, const char *path, bool recursive, int flags,
			 struct tarn_error *err)
{
	struct engine_pool *pool;
	struct tarn_dataset *ds;
	uint64_t parent_id;
	int rc = find(engine, path, &pool, &ds, err);

	if (rc)
		return rc;
	parent_id = ds->parent_id;
	rc = engine_check_writable(pool, err);
	if (!rc && !parent_id)
		rc = fail(err, -EINVAL,
			  "'%s' is the pool's root dataset: 'tarn pool destroy' destroys the pool",
			  path);
	if (!rc && ds->nchildren && !recursive)
		rc = fail(err, -ENOTEMPTY, "dataset '%s' has children; -r destroys them too", path);
	if (!rc && !(flags & TARN_DRY_RUN)) {
		rc = catalog_dataset_destroy(pool->catalog, ds, recursive, fs_drop);
		if (rc)
			fail(err, rc, "dataset '%s' can't be destroyed: %s", path, strerror(-rc));
		else
			children_changed(pool, parent_id);
	}
	found_put(engine, pool, ds);
	return rc;
}

static int rename_into(struct engine_pool *pool, struct tarn_dataset *ds,
		       struct tarn_dataset *parent, const char *to, struct tarn_error *err)
{
	const char *name = strrchr(to, '/') + 1;
	uint64_t from_id = ds->parent_id;
	int rc = check_no_entry(parent, to, name, err);

	if (rc)
		return rc;
	rc = catalog_dataset_rename(pool->catalog, ds, parent, name);
	if (rc == -EINVAL)
		return fail(err, rc, "'%s' lies below the dataset itself", to);
	if (rc)
		return fail(err, rc, "the dataset can't be renamed to '%s': %s", to, strerror(-rc));
	children_changed(pool, from_id);
	if (parent->id != from_id)
		children_changed(pool, parent->id);
	return 0;
}

int tarn_dataset_rename(struct tarn_engine *engine, const char *from, const char *to,
			struct tarn_error *err)
{
	struct engine_pool *pool, *to_pool;
	struct tarn_dataset *ds, *parent;
	char parent_path[TARN_PATH_MAX];
	const char *name;
	int rc = check_path(to, err);

	if (!rc)
		rc = split(to, parent_path, &name, err);
	if (!rc)
		rc = find(engine, from, &pool, &ds, err);
	if (rc)
		return rc;
	rc = engine_check_writable(pool, err);
	if (!rc && !ds->parent_id)
		rc = fail(err, -EINVAL,
			  "'%s' is the pool's root dataset: export the pool and import it with -N",
			  from);
	if (!rc)
		rc = find(engine, parent_path, &to_pool, &parent, err);
	if (!rc) {
		rc = to_pool == pool
			 ? rename_into(pool, ds, parent, to, err)
			 : fail(err, -EXDEV, "a dataset can't be renamed into another pool");
		found_put(engine, to_pool, parent);
	}
	found_put(engine, pool, ds);
	return rc;
}

/* ---- list ---- */

struct list_arg {
	struct tarn_dataset_info *infos;
	size_t n, room;
	uint64_t avail;
};

static int add_info(void *arg, struct tarn_dataset *ds)
{
	struct list_arg *a = arg;
	struct tarn_dataset_info *info;

	if (a->n == a->room) {
		size_t room = a->room ? 2 * a->room : 64;

		info = realloc(a->infos, room * sizeof(*info));
		if (!info)
			return -ENOMEM;
		a->infos = info;
		a->room = room;
	}
	info = &a->infos[a->n++];
	memset(info, 0, sizeof(*info));
	catalog_path_locked(ds, info->path);
	info->pool_guid = ds->pool_guid;
	info->id = ds->id;
	info->parent_id = ds->parent_id;
	info->used = catalog_used_locked(ds);
	info->referenced = ds->used;
	info->logical = ds->logical;
	info->available = a->avail;
	info->inodes = dataset_inodes(ds);
	info->created = (time_t)ds->created;
	info->mounted = ds->props.canmount;
	return 0;
}

static int list_pool(struct engine_pool *pool, struct tarn_dataset *ds, bool recursive,
		     int (*fn)(void *arg, const struct tarn_dataset_info *info), void *arg)
{
	struct list_arg a = {0};
	struct pool_space space;
	int rc;

	pool_space(pool->pool, &space);
	a.avail = space.avail;
	rc = catalog_walk(pool->catalog, ds, recursive, add_info, &a);
	for (size_t i = 0; i < a.n && !rc; i++)
		rc = fn(arg, &a.infos[i]);
	free(a.infos);
	return rc;
}

int tarn_dataset_list(struct tarn_engine *engine, const char *path, bool recursive,
		      int (*fn)(void *arg, const struct tarn_dataset_info *info), void *arg)
{
	struct engine_pool *pool;
	struct tarn_dataset *ds;
	int rc = 0;

	if (path) {
		rc = find(engine, path, &pool, &ds, NULL);
		if (rc)
			return rc;
		rc = list_pool(pool, ds, recursive, fn, arg);
		found_put(engine, pool, ds);
		return rc;
	}
	pool = engine_pool_next(engine, NULL);
	while (pool) {
		struct engine_pool *next;

		if (!rc)
			rc = list_pool(pool, catalog_root(pool->catalog), recursive, fn, arg);
		next = engine_pool_next(engine, pool->name);
		engine_pool_put(engine, pool);
		pool = next;
	}
	return rc;
}

/* ---- properties ---- */

static void format_size(char out[32], uint64_t n, bool raw)
{
	static const char units[] = "BKMGTPE";
	double v = (double)n;
	int unit = 0;

	if (raw) {
		snprintf(out, 32, "%" PRIu64, n);
		return;
	}
	while (v >= 1024 && unit < 6) {
		v /= 1024;
		unit++;
	}
	if (unit == 0)
		snprintf(out, 32, "%" PRIu64 "B", n);
	else
		snprintf(out, 32,
			 v == (double)(uint64_t)v ? "%.0f%c"
			 : v < 9.995              ? "%.2f%c"
			 : v < 99.95              ? "%.1f%c"
						  : "%.0f%c",
			 v, units[unit]);
}

struct prop_out {
	const char *name;
	char value[PROP_VALUE_MAX + 1];
	enum tarn_prop_source source;
	char from[TARN_PATH_MAX];
	struct prop_out *next;
};

struct get_arg {
	const char *name; /* NULL: all */
	bool raw;
	uint64_t avail;
	struct prop_out *list, **end;
};

static int add_prop(struct get_arg *a, const char *name, const char *value,
		    enum tarn_prop_source source, struct tarn_dataset *from)
{
	struct prop_out *p;

	if (a->name && strcmp(a->name, name))
		return 0;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->name = strdup(name);
	if (!p->name) {
		free(p);
		return -ENOMEM;
	}
	snprintf(p->value, sizeof(p->value), "%s", value);
	p->source = source;
	if (from)
		catalog_path_locked(from, p->from);
	*a->end = p;
	a->end = &p->next;
	return 0;
}

static int add_computed(struct get_arg *a, struct tarn_dataset *ds)
{
	char text[64];
	uint64_t sizes[] = {catalog_used_locked(ds), a->avail, ds->used, ds->logical};
	static const char *const names[] = {"used", "available", "referenced", "logicalreferenced"};
	int rc = add_prop(a, "type", "filesystem", TARN_PROP_NONE, NULL);

	snprintf(text, sizeof(text), "%" PRIu64, ds->created);
	if (!a->raw) {
		time_t when = (time_t)ds->created;
		struct tm tm;

		strftime(text, sizeof(text), "%a %b %e %H:%M %Y", localtime_r(&when, &tm));
	}
	if (!rc)
		rc = add_prop(a, "creation", text, TARN_PROP_NONE, NULL);
	for (int i = 0; i < 4 && !rc; i++) {
		format_size(text, sizes[i], a->raw);
		rc = add_prop(a, names[i], text, TARN_PROP_NONE, NULL);
	}
	snprintf(text, sizeof(text), a->raw ? "%.2f" : "%.2fx",
		 ds->used && ds->logical > ds->used ? (double)ds->logical / (double)ds->used : 1.0);
	if (!rc)
		rc = add_prop(a, "compressratio", text, TARN_PROP_NONE, NULL);
	snprintf(text, sizeof(text), "%" PRIu64, dataset_inodes(ds));
	if (!rc)
		rc = add_prop(a, "inodes", text, TARN_PROP_NONE, NULL);
	if (!rc)
		rc =
		    add_prop(a, "mounted", ds->props.canmount ? "yes" : "no", TARN_PROP_NONE, NULL);
	return rc;
}

static enum tarn_prop_source source_of(struct tarn_dataset *ds, struct tarn_dataset *from)
{
	if (!from)
		return TARN_PROP_DEFAULT;
	return from == ds ? TARN_PROP_LOCAL : TARN_PROP_INHERITED;
}

static int add_effective(struct get_arg *a, struct tarn_dataset *ds, const char *name)
{
	char text[PROP_VALUE_MAX + 1];
	struct tarn_dataset *from;
	const char *value = prop_effective(ds, name, &from);

	if (!value)
		return 0;
	if (a->raw)
		snprintf(text, sizeof(text), "%s", value);
	else
		prop_format(name, value, text);
	return add_prop(a, name, text, source_of(ds, from), from == ds ? NULL : from);
}

static bool listed(struct get_arg *a, const char *name)
{
	for (struct prop_out *p = a->list; p; p = p->next)
		if (strcmp(p->name, name) == 0)
			return true;
	return false;
}

/* Local user properties of ds and of all above it, the nearest winning. */
static int add_user(struct get_arg *a, struct tarn_dataset *ds)
{
	int rc = 0;

	for (struct tarn_dataset *up = ds; up && !rc; up = up->parent)
		for (struct prop_value *v = up->local; v && !rc; v = v->next)
			if (strchr(v->name, ':') && !listed(a, v->name))
				rc = add_effective(a, ds, v->name);
	return rc;
}

static int collect_props(void *arg, struct tarn_dataset *ds)
{
	struct get_arg *a = arg;
	int rc = add_computed(a, ds);

	for (unsigned i = 0; prop_native(i) && !rc; i++)
		rc = add_effective(a, ds, prop_native(i));
	return rc ? rc : add_user(a, ds);
}

int tarn_dataset_get(struct tarn_engine *engine, const char *path, const char *name, bool raw,
		     tarn_prop_fn fn, void *arg, struct tarn_error *err)
{
	struct get_arg a = {.name = name, .raw = raw};
	struct engine_pool *pool;
	struct tarn_dataset *ds;
	struct pool_space space;
	int rc = find(engine, path, &pool, &ds, err);

	if (rc)
		return rc;
	a.end = &a.list;
	pool_space(pool->pool, &space);
	a.avail = space.avail;
	rc = catalog_walk(pool->catalog, ds, false, collect_props, &a);
	found_put(engine, pool, ds);
	if (!rc && name && !a.list && !strchr(name, ':'))
		rc = fail(err, -EINVAL, "there is no property '%s'; 'tarn fs get all' shows them",
			  name);
	while (a.list) {
		struct prop_out *p = a.list;

		if (!rc)
			rc = fn(arg, p->name, p->value, p->source, p->from);
		a.list = p->next;
		free((char *)p->name);
		free(p);
	}
	return rc;
}

static int set_one(struct tarn_engine *engine, const char *path, const struct tarn_prop *props,
		   uint32_t nprops, struct tarn_error *err)
{
	struct engine_pool *pool;
	struct tarn_dataset *ds;
	int rc = find(engine, path, &pool, &ds, err);

	if (rc)
		return rc;
	rc = engine_check_writable(pool, err);
	if (!rc) {
		bool shown = ds->props.canmount;

		rc = catalog_dataset_set(pool->catalog, ds, props, nprops);
		if (ds->props.canmount != shown)
			children_changed(pool, ds->parent_id);
		if (rc)
			fail(err, rc, "properties of '%s' can't be set: %s", path, strerror(-rc));
	}
	found_put(engine, pool, ds);
	return rc;
}

int tarn_dataset_set(struct tarn_engine *engine, const char *path, const struct tarn_prop *props,
		     uint32_t nprops, struct tarn_error *err)
{
	struct checked_props checked;
	int rc = check_props(props, nprops, &checked, err);

	if (!rc)
		rc = set_one(engine, path, checked.props, nprops, err);
	checked_props_free(&checked);
	return rc;
}

struct paths {
	char (*path)[TARN_PATH_MAX];
	size_t n;
};

static int add_path(void *arg, const struct tarn_dataset_info *info)
{
	struct paths *p = arg;
	char(*more)[TARN_PATH_MAX] = realloc(p->path, (p->n + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	p->path = more;
	strcpy(p->path[p->n++], info->path);
	return 0;
}

int tarn_dataset_inherit(struct tarn_engine *engine, const char *path, const char *name,
			 bool recursive, struct tarn_error *err)
{
	struct tarn_prop prop = {name, NULL};
	struct paths paths = {0};
	int rc;

	if (!prop_settable(name))
		return fail(err, -EINVAL, "there is no settable property '%s'", name);
	rc = tarn_dataset_list(engine, path, recursive, add_path, &paths);
	if (rc)
		rc = fail(err, rc, "there is no dataset '%s'", path);
	for (size_t i = 0; i < paths.n && !rc; i++)
		rc = set_one(engine, paths.path[i], &prop, 1, err);
	free(paths.path);
	return rc;
}

/* ---- references ---- */

int tarn_dataset_open(struct tarn_engine *engine, const char *path, const char **rest,
		      struct tarn_dataset **out)
{
	struct engine_pool *pool;
	const char *below, *after;
	int rc = pool_of(engine, path, &below, &pool);

	if (rc)
		return rc;
	rc = catalog_find(pool->catalog, below, &after, out);
	engine_pool_put(engine, pool);
	if (!rc && *after && !rest) {
		tarn_dataset_put(*out);
		return -ENOENT;
	}
	if (!rc && rest)
		*rest = after;
	return rc;
}

int tarn_dataset_open_id(struct tarn_engine *engine, uint64_t pool_guid, uint64_t id,
			 struct tarn_dataset **out)
{
	struct engine_pool *pool;
	int rc = engine_pool_get_guid(engine, pool_guid, &pool);

	if (rc)
		return rc;
	rc = catalog_find_id(pool->catalog, id, out);
	engine_pool_put(engine, pool);
	return rc;
}

void tarn_dataset_path(struct tarn_dataset *ds, char out[TARN_PATH_MAX])
{
	if (dataset_enter(ds)) {
		out[0] = 0;
		return;
	}
	catalog_path(ds, out);
	dataset_leave(ds);
}

/* Bytes of tree that a small file costs: an estimate for the number of inodes that still fit. */
#define BYTES_PER_INODE 1024
/* Used and free inodes; their sum stays below 2^31 for 32-bit clients. */
#define FILES_MAX (((uint64_t)1 << 30) - 1)

int tarn_dataset_statfs(struct tarn_dataset *ds, struct tarn_statfs *out)
{
	struct pool_space space;
	uint64_t ffree, used;
	int rc = dataset_enter(ds);

	if (rc)
		return rc;
	pool_space(ds->pool, &space);
	ffree = space.avail / BYTES_PER_INODE;
	out->avail = out->free = space.avail;
	out->total = ds->used + space.avail;
	out->ffree = ffree < FILES_MAX ? ffree : FILES_MAX;
	used = dataset_inodes(ds);
	out->files = (used < FILES_MAX ? used : FILES_MAX) + out->ffree;
	dataset_leave(ds);
	return 0;
}

uint64_t tarn_dataset_verifier(struct tarn_dataset *ds)
{
	uint64_t v = 0;

	if (!dataset_enter(ds)) {
		v = ds->pool->guid ^ ds->pool->import_counter << 48 ^ ds->pool->import_counter;
		dataset_leave(ds);
	}
	return v;
}

/* ---- durability ---- */

int tarn_commit_wait(struct tarn_dataset *ds, struct tarn_commit token)
{
	int rc = dataset_enter(ds);

	if (rc)
		return rc;
	if (token.txg && ds->props.sync != SYNC_DISABLED)
		rc = ilog_wait(ds->pool, token.txg, token.number);
	dataset_leave(ds);
	return rc;
}

struct async_commit {
	struct ilog_waiter waiter;
	struct tarn_dataset *ds;
	void (*fn)(void *arg, int result);
	void *arg;
};

static void async_done(struct ilog_waiter *w, int result)
{
	struct async_commit *a = (struct async_commit *)w;

	a->fn(a->arg, result);
	dataset_leave(a->ds);
	tarn_dataset_put(a->ds);
	free(a);
}

void tarn_commit_async(struct tarn_dataset *ds, struct tarn_commit token,
		       void (*fn)(void *arg, int result), void *arg)
{
	struct async_commit *a;
	int rc = dataset_enter(ds);

	if (rc || !token.txg || ds->props.sync == SYNC_DISABLED) {
		fn(arg, rc);
		if (!rc)
			dataset_leave(ds);
		return;
	}
	a = malloc(sizeof(*a));
	if (!a) {
		dataset_leave(ds);
		fn(arg, -ENOMEM);
		return;
	}
	*a = (struct async_commit){{.txg.txg = token.txg, .number = token.number, .fn = async_done},
				   tarn_dataset_ref(ds),
				   fn,
				   arg};
	ilog_wait_async(ds->pool, &a->waiter);
}
