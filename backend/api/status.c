// SPDX-License-Identifier: LGPL-3.0-or-later
/* Inspecting pools, their properties and history. Nothing here waits for a device, but history. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/engine.h"
#include "api/prop.h"
#include "pool/label.h"
#include "pool/logdev.h"

/* ---- status ---- */

/* Whether what should be on it is. */
static bool dev_whole(const struct pool_dev *dev)
{
	return pool_dev_usable(dev) && !atomic_load(&dev->stale);
}

static void put_dev(const struct pool_dev *dev, struct tarn_dev_status *out)
{
	out->guid = dev->guid;
	strcpy(out->path, dev->path);
	out->state = atomic_load(&dev->state);
	out->size = dev->size;
	out->read_errors = atomic_load(&dev->read_errors);
	out->write_errors = atomic_load(&dev->write_errors);
	out->checksum_errors = atomic_load(&dev->checksum_errors);
	out->stale = atomic_load(&dev->stale);
	if (out->stale && out->state == TARN_DEV_ONLINE)
		out->state = TARN_DEV_DEGRADED;
	if (!dev->dev)
		return;
	out->reads = atomic_load(&dev->dev->stats.reads);
	out->writes = atomic_load(&dev->dev->stats.writes);
	out->read_bytes = atomic_load(&dev->dev->stats.read_bytes);
	out->write_bytes = atomic_load(&dev->dev->stats.write_bytes);
}

static void put_group(struct pool *pool, uint32_t index, struct tarn_group_status *out)
{
	const struct pool_group *group = &pool->groups[index];
	struct pool_space space;
	uint32_t usable = 0, whole = 0;

	for (uint32_t i = 0; i < group->ndevs; i++) {
		usable += pool_dev_usable(&pool->devs[group->first_dev + i]);
		whole += dev_whole(&pool->devs[group->first_dev + i]);
	}
	pool_group_space(pool, index, &space);
	*out = (struct tarn_group_status){.kind = group->kind,
					  .first_dev = group->first_dev,
					  .ndevs = group->ndevs,
					  .size = space.size,
					  .allocated = space.allocated,
					  .state = TARN_DEV_FAULTED};
	if (whole == group->ndevs)
		out->state = TARN_DEV_ONLINE;
	else if (usable >= pool_kind_needs(group->kind, group->ndevs))
		out->state = TARN_DEV_DEGRADED;
}

/* Of first_dev on: where its devices stand in the status. logs_lock held. */
static void put_log(const struct log_group *log, uint32_t first_dev, struct tarn_pool_status *out,
		    struct tarn_group_status *status)
{
	*status = (struct tarn_group_status){.kind = log->kind,
					     .first_dev = first_dev,
					     .ndevs = log->ndevs,
					     .size = log->size - 2 * LABEL_AREA,
					     .state = log_usable(log, true)    ? TARN_DEV_ONLINE
						      : log_usable(log, false) ? TARN_DEV_DEGRADED
									       : TARN_DEV_FAULTED};
	for (uint32_t i = 0; i < log->ndevs; i++)
		put_dev(&log->devs[i], &out->devs[first_dev + i]);
}

/* Without its logs. ONLINE, DEGRADED or FAULTED. */
static enum tarn_dev_state pool_state(struct pool *pool)
{
	uint32_t ndevs = __atomic_load_n(&pool->ndevs, __ATOMIC_ACQUIRE);

	if (atomic_load(&pool->suspended) || !pool_groups_usable(pool))
		return TARN_DEV_FAULTED;
	for (uint32_t i = 0; i < ndevs; i++) {
		if (!dev_whole(&pool->devs[i]))
			return TARN_DEV_DEGRADED;
	}
	return TARN_DEV_ONLINE;
}

static void put_pool(struct engine_pool *p, struct tarn_pool_status *out)
{
	struct pool *pool = p->pool;
	struct pool_space space;

	pool_space(pool, &space);
	strcpy(out->name, p->name);
	out->guid = p->guid;
	out->txg = pool->read_only ? pool->uber.txg : txg_committed(pool);
	out->read_only = pool->read_only;
	out->halt = atomic_load(&pool->suspended) ? atomic_load(&pool->halt)
		    : beat_lapsed(pool)           ? TARN_HALT_CHECKS
						  : TARN_HALT_NONE;
	out->unreplayed = pool->unreplayed;
	out->log_dropped = atomic_load(&pool->log_dropped);
	out->state = pool_state(pool);
	for (uint32_t g = 0; g < out->nlogs && out->state == TARN_DEV_ONLINE; g++) {
		if (out->logs[g].state != TARN_DEV_ONLINE)
			out->state = TARN_DEV_DEGRADED;
	}
	out->size = space.size;
	out->allocated = space.allocated;
	out->free = space.size - space.allocated;
	out->freeing = catalog_freeing(p->catalog);
	out->data_errors = atomic_load(&pool->data_errors);
	for (uint32_t g = 0; g < out->ngroups; g++)
		put_group(pool, g, &out->groups[g]);
}

/* With its devices, and groups of log devices. logs_lock held. */
static int new_status(struct pool *pool, struct tarn_pool_status **out)
{
	/* Groups are published after their devices. */
	uint32_t ngroups = __atomic_load_n(&pool->ngroups, __ATOMIC_ACQUIRE);
	uint32_t ndevs = __atomic_load_n(&pool->ndevs, __ATOMIC_ACQUIRE);
	struct tarn_pool_status *s;

	s = calloc(1, sizeof(*s) + (ngroups + pool->nlogs) * sizeof(*s->groups) +
			  (ndevs + log_devs(pool)) * sizeof(*s->devs));
	if (!s)
		return -ENOMEM;
	s->devs = (struct tarn_dev_status *)(s + 1);
	s->groups = (struct tarn_group_status *)(s->devs + ndevs + log_devs(pool));
	s->logs = s->groups + ngroups;
	s->ngroups = ngroups;
	for (uint32_t i = 0; i < ndevs; i++)
		put_dev(&pool->devs[i], &s->devs[s->ndevs++]);
	for (uint32_t g = 0; g < pool->nlogs; g++) {
		put_log(pool->logs[g], s->ndevs, s, &s->logs[s->nlogs++]);
		s->ndevs += pool->logs[g]->ndevs;
	}
	*out = s;
	return 0;
}

int tarn_pool_status(struct tarn_engine *engine, const char *name, struct tarn_pool_status **out)
{
	struct engine_pool *p;
	int rc = engine_pool_get(engine, name, &p);

	if (rc)
		return rc;
	pthread_mutex_lock(&p->pool->logs_lock);
	rc = new_status(p->pool, out);
	pthread_mutex_unlock(&p->pool->logs_lock);
	if (!rc) {
		put_pool(p, *out);
		pthread_mutex_lock(&engine->table);
		(*out)->lost_changes = p->lost.total;
		pthread_mutex_unlock(&engine->table);
	}
	engine_pool_put(engine, p);
	return rc;
}

void tarn_pool_status_free(struct tarn_pool_status *status)
{
	free(status);
}

int tarn_pool_lost(struct tarn_engine *engine, const char *name, struct tarn_lost **out,
		   uint32_t *count)
{
	struct lost_changes lost;
	struct engine_pool *p;
	int rc = engine_pool_get(engine, name, &p);

	if (rc)
		return rc;
	pthread_mutex_lock(&engine->table);
	lost = p->lost;
	pthread_mutex_unlock(&engine->table);
	*count = 0;
	*out = calloc(lost.n + 1, sizeof(**out));
	for (uint32_t i = 0; i < lost.n && *out; i++) {
		struct tarn_lost *l = &(*out)[*count];
		struct tarn_dataset *ds;

		if (catalog_find_id(p->catalog, lost.in[i].dataset, &ds))
			continue;
		catalog_path(ds, l->dataset);
		l->changes = lost.in[i].changes;
		++*count;
		tarn_dataset_put(ds);
	}
	engine_pool_put(engine, p);
	return *out ? 0 : -ENOMEM;
}

int tarn_pool_list(struct tarn_engine *engine, char (**out)[TARN_POOL_NAME_MAX + 1],
		   uint32_t *count)
{
	uint32_t n = 0;

	pthread_mutex_lock(&engine->table);
	for (struct engine_pool *p = engine->pools; p; p = p->next)
		n++;
	*out = calloc(n + 1, sizeof(**out));
	n = 0;
	for (struct engine_pool *p = engine->pools; p && *out; p = p->next) {
		if (!p->going)
			strcpy((*out)[n++], p->name);
	}
	pthread_mutex_unlock(&engine->table);
	*count = n;
	return *out ? 0 : -ENOMEM;
}

/* ---- properties ---- */

static bool computed(const char *name)
{
	static const char *const names[] = {"size", "allocated", "free",    "freeing", "capacity",
					    "guid", "health",    "version", "readonly"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (strcmp(names[i], name) == 0)
			return true;
	}
	return false;
}

static int check_comment(const char *value, struct tarn_error *err)
{
	if (strlen(value) > POOL_COMMENT_MAX)
		return fail(err, -EINVAL, "a comment has at most %d bytes", POOL_COMMENT_MAX);
	for (const char *c = value; *c; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return fail(err, -EINVAL, "a comment has no control characters");
	}
	return 0;
}

int props_split(const struct tarn_prop *props, uint32_t nprops, struct split_props *out,
		struct tarn_error *err)
{
	int rc = 0;

	memset(out, 0, sizeof(*out));
	out->pool = calloc(nprops + 1, sizeof(*out->pool));
	out->dataset = calloc(nprops + 1, sizeof(*out->dataset));
	out->values = calloc(nprops + 1, sizeof(*out->values));
	if (!out->pool || !out->dataset || !out->values)
		rc = fail(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < nprops && !rc; i++) {
		const char *name = props[i].name;

		if (strcmp(name, "comment") == 0) {
			rc = check_comment(props[i].value, err);
			out->pool[out->npool++] = props[i];
		} else if (strcmp(name, "readonly") && computed(name)) {
			rc = fail(err, -EINVAL, "property '%s' can't be set", name);
		} else {
			rc = prop_check(name, props[i].value, out->values[i], err);
			out->dataset[out->ndataset++] = (struct tarn_prop){name, out->values[i]};
		}
	}
	return rc;
}

void props_split_free(struct split_props *s)
{
	free(s->pool);
	free(s->dataset);
	free(s->values);
}

int tarn_pool_prop_set(struct tarn_engine *engine, const char *name, const char *prop,
		       const char *value, struct tarn_error *err)
{
	struct engine_pool *p;
	int rc;

	if (computed(prop))
		return fail(err, -EINVAL, "pool property '%s' can't be set", prop);
	if (strcmp(prop, "comment") != 0)
		return fail(err, -EINVAL, "there is no pool property '%s'", prop);
	rc = check_comment(value, err);
	if (rc)
		return rc;
	rc = engine_pool_find(engine, name, &p, err);
	if (rc)
		return rc;
	rc = engine_check_writable(p, err);
	if (!rc) {
		rc = catalog_pool_prop_set(p->catalog, prop, value);
		if (rc)
			fail(err, rc, "'%s' of pool '%s' can't be set: %s", prop, name,
			     strerror(-rc));
	}
	if (!rc) {
		pthread_mutex_lock(&engine->table);
		strcpy(p->comment, value);
		pthread_mutex_unlock(&engine->table);
	}
	engine_pool_put(engine, p);
	return rc;
}

static const char *health(const struct tarn_pool_status *s)
{
	if (s->halt)
		return "SUSPENDED";
	return s->state == TARN_DEV_ONLINE     ? "ONLINE"
	       : s->state == TARN_DEV_DEGRADED ? "DEGRADED"
					       : "FAULTED";
}

static void list_computed(const struct tarn_pool_status *s,
			  void (*fn)(void *arg, const char *prop, const char *value,
				     const char *source),
			  void *arg)
{
	struct {
		const char *name;
		uint64_t value;
	} numbers[] = {
	    {"size", s->size},
	    {"allocated", s->allocated},
	    {"free", s->free},
	    {"freeing", s->freeing},
	    {"capacity", s->size ? s->allocated * 100 / s->size : 0},
	    {"guid", s->guid},
	    {"version", TARN_FORMAT_VERSION},
	};
	char text[32];

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		snprintf(text, sizeof(text), "%" PRIu64, numbers[i].value);
		fn(arg, numbers[i].name, text, "-");
	}
	fn(arg, "health", health(s), "-");
	fn(arg, "readonly", s->read_only ? "on" : "off", "-");
}

int tarn_pool_prop_list(struct tarn_engine *engine, const char *name,
			void (*fn)(void *arg, const char *prop, const char *value,
				   const char *source),
			void *arg)
{
	char comment[POOL_COMMENT_MAX + 1];
	struct tarn_pool_status *s;
	struct engine_pool *p;
	int rc = tarn_pool_status(engine, name, &s);

	if (rc)
		return rc;
	list_computed(s, fn, arg);
	tarn_pool_status_free(s);
	rc = engine_pool_get(engine, name, &p);
	if (rc)
		return rc;
	pthread_mutex_lock(&engine->table);
	strcpy(comment, p->comment);
	pthread_mutex_unlock(&engine->table);
	engine_pool_put(engine, p);
	fn(arg, "comment", comment, comment[0] ? "local" : "default");
	return 0;
}

/* ---- history ---- */

int tarn_pool_history_add(struct tarn_engine *engine, const char *name, const char *text)
{
	struct engine_pool *p;
	int rc = engine_pool_get(engine, name, &p);

	if (rc)
		return rc;
	rc = p->pool->read_only ? -EROFS : catalog_history_add(p->catalog, text);
	engine_pool_put(engine, p);
	return rc;
}

int tarn_pool_history(struct tarn_engine *engine, const char *name,
		      void (*fn)(void *arg, time_t when, const char *text), void *arg)
{
	struct engine_pool *p;
	int rc = engine_pool_get(engine, name, &p);

	if (rc)
		return rc;
	rc = catalog_history(p->catalog, fn, arg);
	engine_pool_put(engine, p);
	return rc;
}
