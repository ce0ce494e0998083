// SPDX-License-Identifier: LGPL-3.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/check.h"
#include "api/engine.h"
#include "api/job.h"
#include "api/prop.h"
#include "fs/fs.h"
#include "pool/config.h"
#include "pool/ilog.h"

static bool imported(struct tarn_engine *engine, const char *name)
{
	struct engine_pool *p;

	if (engine_pool_get(engine, name, &p))
		return false;
	engine_pool_put(engine, p);
	return true;
}

/* ---- create ---- */

static int check_name(struct tarn_engine *engine, const char *name, struct tarn_error *err)
{
	const char *problem = pool_name_problem(name);

	if (problem)
		return fail(err, -EINVAL, "'%.80s' can't be a pool's name: %s", name, problem);
	if (imported(engine, name))
		return fail(err, -EEXIST, "there is a pool '%s' already", name);
	return 0;
}

/* The root dataset with its root directory, and the pool's properties. */
static int fill(struct catalog *cat, const struct split_props *props)
{
	struct tarn_dataset *root = catalog_root(cat);
	int rc = fs_format(root);

	for (uint32_t i = 0; i < props->npool && !rc; i++)
		rc = catalog_pool_prop_set(cat, props->pool[i].name, props->pool[i].value);
	return rc ? rc : txg_wait(root->pool, txg_open(root->pool));
}

/* Made and started; c's devices belong to the pool, or are closed. */
static int make(struct tarn_engine *engine, const char *name, const struct checked_groups *c,
		const struct split_props *props)
{
	struct catalog *cat;
	struct pool *pool;
	int rc = pool_create(name, c->groups, c->ngroups, &engine->config, engine->wq, &pool);

	if (rc)
		return rc;
	rc = catalog_create(pool, engine->cache, props->dataset, props->ndataset, &cat);
	if (!rc) {
		rc = fill(cat, props);
		rc = rc ? rc : engine_pool_add(engine, pool, cat);
		if (rc)
			catalog_close(cat, fs_drop);
	}
	if (rc) {
		cache_remove_pool(engine->cache, pool->guid);
		pool_destroy(pool);
	}
	return rc;
}

static int create(struct tarn_engine *engine, const char *name, struct checked_groups *c,
		  const struct split_props *props, int flags, struct tarn_error *err)
{
	int rc;

	if (flags & TARN_DRY_RUN) {
		checked_free(c, true);
		return 0;
	}
	rc = checked_wipe(c, err);
	if (rc) {
		checked_free(c, true);
		return rc;
	}
	rc = make(engine, name, c, props);
	checked_free(c, false);
	return rc ? fail(err, rc, "pool '%s' can't be made: %s", name, strerror(-rc)) : 0;
}

int tarn_pool_create(struct tarn_engine *engine, const char *name,
		     const struct tarn_group_spec *groups, uint32_t ngroups,
		     const struct tarn_prop *props, uint32_t nprops, int flags,
		     struct tarn_error *err)
{
	struct split_props split = {0};
	struct checked_groups c;
	int rc;

	pthread_mutex_lock(&engine->admin);
	rc = check_name(engine, name, err);
	rc = rc ? rc : props_split(props, nprops, &split, err);
	rc = rc ? rc : check_groups(groups, ngroups, NULL, flags, &c, err);
	rc = rc ? rc : create(engine, name, &c, &split, flags, err);
	pthread_mutex_unlock(&engine->admin);
	props_split_free(&split);
	return rc;
}

/* ---- add ---- */

static int add(struct engine_pool *p, struct checked_groups *c, int flags, struct tarn_error *err)
{
	int rc;

	if (flags & TARN_DRY_RUN) {
		checked_free(c, true);
		return 0;
	}
	rc = checked_wipe(c, err);
	if (rc) {
		checked_free(c, true);
		return rc;
	}
	rc = pool_add_groups(p->pool, c->groups, c->ngroups);
	checked_free(c, false);
	if (rc == -E2BIG)
		return fail(err, rc,
			    "pool '%s' would have more than %d groups, %d devices, %d groups of "
			    "log devices or %d of these",
			    p->name, POOL_GROUPS_MAX, POOL_DEVS_MAX, POOL_LOGS_MAX,
			    POOL_LOG_DEVS_MAX);
	return rc ? fail(err, rc, "pool '%s' can't be extended: %s", p->name, strerror(-rc)) : 0;
}

int tarn_pool_add(struct tarn_engine *engine, const char *name,
		  const struct tarn_group_spec *groups, uint32_t ngroups, int flags,
		  struct tarn_error *err)
{
	struct engine_pool *p;
	struct checked_groups c;
	int rc;

	pthread_mutex_lock(&engine->admin);
	rc = engine_pool_find(engine, name, &p, err);
	if (!rc) {
		rc = engine_check_writable(p, err);
		rc = rc ? rc : check_groups(groups, ngroups, &p->pool->groups[0], flags, &c, err);
		rc = rc ? rc : add(p, &c, flags, err);
		if (!rc && !(flags & TARN_DRY_RUN))
			engine_pool_tell(engine, p, true);
		engine_pool_put(engine, p);
	}
	pthread_mutex_unlock(&engine->admin);
	return rc;
}

/* ---- remove ---- */

/* A device may have many names. */
static bool same_path(const char *a, const char *b)
{
	char *real_a, *real_b;
	bool same = strcmp(a, b) == 0;

	if (same)
		return true;
	real_a = realpath(a, NULL);
	real_b = realpath(b, NULL);
	same = real_a && real_b && strcmp(real_a, real_b) == 0;
	free(real_a);
	free(real_b);
	return same;
}

/* The group that is called so: by its only device, or as a mirror. */
static int find_log(const struct pool *pool, const char *device, uint32_t *out,
		    struct tarn_error *err)
{
	char name[32];

	for (uint32_t g = 0; g < pool->nlogs; g++) {
		const struct log_group *log = pool->logs[g];

		*out = g;
		snprintf(name, sizeof(name), "mirror-%u", pool->ngroups + g);
		if (log->ndevs == 1 ? same_path(log->devs[0].path, device)
				    : strcmp(name, device) == 0)
			return 0;
		for (uint32_t i = 0; i < log->ndevs; i++) {
			if (same_path(log->devs[i].path, device))
				return fail(err, -EINVAL,
					    "'%s' is one half of a mirror; '%s' removes all of it",
					    device, name);
		}
	}
	return fail(err, -ENOENT,
		    "'%.200s' is no log device of pool '%s'; only log devices can be removed",
		    device, pool->name);
}

int tarn_pool_remove(struct tarn_engine *engine, const char *name, const char *device, int flags,
		     struct tarn_error *err)
{
	struct engine_pool *p;
	uint32_t index = 0;
	int rc;

	pthread_mutex_lock(&engine->admin);
	rc = engine_pool_find(engine, name, &p, err);
	if (!rc) {
		rc = engine_check_writable(p, err);
		rc = rc ? rc : find_log(p->pool, device, &index, err);
		if (!rc && !(flags & TARN_DRY_RUN)) {
			rc = pool_remove_log(p->pool, index);
			if (rc)
				fail(err, rc, "'%s' can't be removed: %s", device, strerror(-rc));
			else
				engine_pool_tell(engine, p, true);
		}
		engine_pool_put(engine, p);
	}
	pthread_mutex_unlock(&engine->admin);
	return rc;
}

/* ---- destroy, export ---- */

static int destroy(struct tarn_engine *engine, struct engine_pool *p)
{
	int rc;

	jobs_stop(p);
	catalog_close(p->catalog, fs_drop);
	cache_remove_pool(engine->cache, p->guid);
	rc = pool_destroy(p->pool);
	free(p);
	return rc;
}

int tarn_pool_destroy(struct tarn_engine *engine, const char *name, int flags,
		      struct tarn_error *err)
{
	struct engine_pool *p;
	int rc;

	pthread_mutex_lock(&engine->admin);
	rc = engine_pool_find(engine, name, &p, err);
	if (!rc) {
		rc = engine_check_writable(p, err);
		engine_pool_put(engine, p);
	}
	if (!rc && !(flags & TARN_DRY_RUN)) {
		rc = destroy(engine, engine_pool_remove(engine, name));
		if (rc)
			fail(err, rc, "not all labels of pool '%s' could be wiped: %s", name,
			     strerror(-rc));
	}
	pthread_mutex_unlock(&engine->admin);
	return rc;
}

int tarn_pool_export(struct tarn_engine *engine, const char *name, int flags,
		     struct tarn_error *err)
{
	struct engine_pool *p;
	int rc;

	pthread_mutex_lock(&engine->admin);
	rc = engine_pool_find(engine, name, &p, err);
	if (!rc) {
		engine_pool_put(engine, p);
		if (!(flags & TARN_DRY_RUN)) {
			rc = engine_pool_export(engine, engine_pool_remove(engine, name));
			if (rc)
				fail(err, rc,
				     "pool '%s' is closed, but its last changes could not be "
				     "written: %s",
				     name, strerror(-rc));
		}
	}
	pthread_mutex_unlock(&engine->admin);
	return rc;
}

/* ---- clear ---- */

static bool clear_errors(struct pool_dev *dev)
{
	atomic_store(&dev->read_errors, 0);
	atomic_store(&dev->write_errors, 0);
	atomic_store(&dev->checksum_errors, 0);
	return atomic_load(&dev->state) == TARN_DEV_FAULTED;
}

/* Whether it came back into use. */
static bool clear_log(struct pool *pool, struct pool_dev *dev, int *result, struct tarn_error *err)
{
	if (!clear_errors(dev))
		return false;
	if (!pool_dev_restore(pool, dev))
		return true;
	*result = fail(err, -ENXIO, "device '%s' still does not work", dev->path);
	return false;
}

static int clear(struct engine_pool *p, struct tarn_error *err)
{
	struct pool *pool = p->pool;
	uint32_t ndevs = __atomic_load_n(&pool->ndevs, __ATOMIC_ACQUIRE);
	bool log_back = false;
	int rc = 0;

	for (uint32_t i = 0; i < ndevs; i++) {
		int failed =
		    clear_errors(&pool->devs[i]) ? device_clear(p, &pool->devs[i], err) : 0;

		rc = rc ? rc : failed;
	}
	for (uint32_t g = 0; g < pool->nlogs; g++) {
		for (uint32_t i = 0; i < pool->logs[g]->ndevs; i++)
			log_back |= clear_log(pool, &pool->logs[g]->devs[i], &rc, err);
	}
	atomic_store(&pool->data_errors, 0);
	atomic_store(&pool->log_dropped, false);
	if (log_back && !rc) {
		rc = ilog_renew(pool);
		if (rc)
			fail(err, rc, "the intent log can't be moved: %s", strerror(-rc));
	}
	return rc;
}

/* What has come back is brought up to date, though others have not. */
static int clear_and_resilver(struct engine_pool *p, struct tarn_error *err)
{
	struct tarn_error other;
	int rc = clear(p, err);
	int failed = jobs_resilver_stale(p, rc ? &other : err);

	return rc ? rc : failed;
}

static int forget_lost(struct tarn_engine *engine, struct engine_pool *p, struct tarn_error *err)
{
	int rc = p->lost.total ? catalog_lost_clear(p->catalog) : 0;

	if (rc)
		return fail(err, rc, "pool '%s' can't be written: %s", p->name, strerror(-rc));
	pthread_mutex_lock(&engine->table);
	p->lost = (struct lost_changes){0};
	pthread_mutex_unlock(&engine->table);
	return 0;
}

int tarn_pool_clear(struct tarn_engine *engine, const char *name, struct tarn_error *err)
{
	struct engine_pool *p;
	int rc;

	pthread_mutex_lock(&engine->admin);
	rc = engine_pool_find(engine, name, &p, err);
	if (!rc) {
		rc = engine_check_writable(p, err);
		rc = rc ? rc : clear_and_resilver(p, err);
		rc = rc ? rc : forget_lost(engine, p, err);
		engine_pool_put(engine, p);
	}
	pthread_mutex_unlock(&engine->admin);
	return rc;
}
