// SPDX-License-Identifier: LGPL-3.0-or-later
#include "api/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/sysinfo.h>
#include <unistd.h>
#include <xxhash.h>

#include "api/job.h"
#include "fs/fs.h"

/* ---- defaults ---- */

static uint64_t memory(void)
{
	struct sysinfo info;

	return sysinfo(&info) ? 1ull << 30 : (uint64_t)info.totalram * info.mem_unit;
}

/* Of a file with an id, or else of the host's name. */
static uint64_t id_in(const char *path, const char *host)
{
	char text[64];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text));
	uint64_t id = n < 32 ? XXH3_64bits(host, strlen(host)) : XXH3_64bits(text, (size_t)n);

	if (fd >= 0)
		close(fd);
	return id ? id : 1;
}

static bool limits_good(uint64_t arc_max, uint64_t dirty_max)
{
	uint64_t all = memory();

	return arc_max >= TARN_LIMIT_MIN && arc_max <= all && dirty_max >= TARN_LIMIT_MIN &&
	       dirty_max <= all;
}

static void fill_config(struct tarn_engine *engine, const struct tarn_config *config)
{
	struct tarn_config *c = &engine->config;

	*c = *config;
	if (c->host)
		strncpy(engine->host, c->host, sizeof(engine->host) - 1);
	else if (gethostname(engine->host, sizeof(engine->host) - 1))
		strcpy(engine->host, "localhost");
	c->host = engine->host;
	/* The same at each start, and tells hosts of one name apart; but copies of a virtual
	   machine may have one. */
	c->host_id = c->host_id ? c->host_id : id_in("/etc/machine-id", engine->host);
	c->boot_id =
	    c->boot_id ? c->boot_id : id_in("/proc/sys/kernel/random/boot_id", engine->host);
	c->arc_max = c->arc_max ? c->arc_max : memory() / 4;
	c->dirty_max = c->dirty_max ? c->dirty_max : memory() / 8;
	c->threads = c->threads ? c->threads : (unsigned)get_nprocs();
	c->txg_seconds = c->txg_seconds ? c->txg_seconds : 5;
}

/* ---- the engine ---- */

int tarn_engine_create(const struct tarn_config *config, struct tarn_engine **out)
{
	struct tarn_engine *engine = calloc(1, sizeof(*engine));
	int rc;

	if (!engine)
		return -ENOMEM;
	fill_config(engine, config);
	rc = limits_good(engine->config.arc_max, engine->config.dirty_max) ? 0 : -EINVAL;
	rc = rc ? rc : workq_create(engine->config.threads, &engine->wq);
	rc = rc ? rc : cache_create(engine->config.arc_max, &engine->cache);
	if (rc) {
		workq_destroy(engine->wq);
		free(engine);
		return rc;
	}
	pthread_mutex_init(&engine->admin, NULL);
	pthread_mutex_init(&engine->table, NULL);
	pthread_cond_init(&engine->unused, NULL);
	*out = engine;
	return 0;
}

void tarn_engine_destroy(struct tarn_engine *engine)
{
	pthread_mutex_lock(&engine->admin);
	while (engine->pools) {
		struct engine_pool *p = engine_pool_remove(engine, engine->pools->name);

		engine_pool_export(engine, p); /* says itself what went wrong */
	}
	pthread_mutex_unlock(&engine->admin);
	cache_destroy(engine->cache);
	workq_destroy(engine->wq);
	pthread_mutex_destroy(&engine->admin);
	pthread_mutex_destroy(&engine->table);
	pthread_cond_destroy(&engine->unused);
	free(engine);
}

int tarn_engine_set_limits(struct tarn_engine *engine, uint64_t arc_max, uint64_t dirty_max)
{
	struct tarn_config *c = &engine->config;
	int rc = -EINVAL;

	pthread_mutex_lock(&engine->admin);
	arc_max = arc_max ? arc_max : c->arc_max;
	dirty_max = dirty_max ? dirty_max : c->dirty_max;
	if (limits_good(arc_max, dirty_max)) {
		c->arc_max = arc_max;
		cache_set_max(engine->cache, arc_max);
		/* Pools read it whenever they take in a change. */
		__atomic_store_n(&c->dirty_max, dirty_max, __ATOMIC_RELAXED);
		rc = 0;
	}
	pthread_mutex_unlock(&engine->admin);
	return rc;
}

void tarn_engine_cache_stats(struct tarn_engine *engine, struct tarn_cache_stats *out)
{
	cache_stats(engine->cache, out);
}

void tarn_pool_on_change(struct tarn_engine *engine,
			 void (*fn)(void *arg, const char *name, uint64_t guid, bool present),
			 void *arg)
{
	pthread_mutex_lock(&engine->admin);
	engine->on_change = fn;
	engine->on_change_arg = arg;
	pthread_mutex_unlock(&engine->admin);
}

/* ---- the table ---- */

static struct engine_pool *use(struct engine_pool *p)
{
	if (!p || p->going)
		return NULL;
	p->uses++;
	return p;
}

int engine_pool_get(struct tarn_engine *engine, const char *name, struct engine_pool **out)
{
	struct engine_pool *p;

	pthread_mutex_lock(&engine->table);
	p = engine->pools;
	while (p && strcmp(p->name, name) != 0)
		p = p->next;
	*out = use(p);
	pthread_mutex_unlock(&engine->table);
	return *out ? 0 : -ENXIO;
}

int engine_pool_get_guid(struct tarn_engine *engine, uint64_t guid, struct engine_pool **out)
{
	struct engine_pool *p;

	pthread_mutex_lock(&engine->table);
	p = engine->pools;
	while (p && p->guid != guid)
		p = p->next;
	*out = use(p);
	pthread_mutex_unlock(&engine->table);
	return *out ? 0 : -ENXIO;
}

struct engine_pool *engine_pool_next(struct tarn_engine *engine, const char *after)
{
	struct engine_pool *p, *found = NULL;

	pthread_mutex_lock(&engine->table);
	for (p = engine->pools; p && !found; p = p->next) {
		if (!after || strcmp(p->name, after) > 0)
			found = use(p);
	}
	pthread_mutex_unlock(&engine->table);
	return found;
}

void engine_pool_put(struct tarn_engine *engine, struct engine_pool *p)
{
	pthread_mutex_lock(&engine->table);
	if (--p->uses == 0)
		pthread_cond_broadcast(&engine->unused);
	pthread_mutex_unlock(&engine->table);
}

int engine_pool_find(struct tarn_engine *engine, const char *name, struct engine_pool **out,
		     struct tarn_error *err)
{
	if (!engine_pool_get(engine, name, out))
		return 0;
	return fail(err, -ENXIO, "no pool '%s' is imported; 'tarn pool import' shows which can be",
		    name);
}

int engine_check_writable(const struct engine_pool *p, struct tarn_error *err)
{
	if (p->pool->read_only)
		return fail(err, -EROFS, "pool '%s' is imported read-only", p->name);
	if (atomic_load(&p->pool->suspended))
		return fail(err, -EIO,
			    "pool '%s' is suspended: it could not be written; export and import it",
			    p->name);
	return 0;
}

void engine_pool_tell(struct tarn_engine *engine, const struct engine_pool *p, bool present)
{
	if (engine->on_change)
		engine->on_change(engine->on_change_arg, p->name, p->guid, present);
}

int engine_pool_add(struct tarn_engine *engine, struct pool *pool, struct catalog *catalog)
{
	struct engine_pool *p = calloc(1, sizeof(*p)), **at;
	int rc;

	if (!p)
		return -ENOMEM;
	rc = catalog_pool_prop_get(catalog, "comment", p->comment, sizeof(p->comment));
	rc = rc == -ENOENT ? 0 : rc;
	rc = rc ? rc : catalog_lost(catalog, &p->lost);
	if (rc) {
		free(p);
		return rc;
	}
	strcpy(p->name, pool->name);
	p->guid = pool->guid;
	p->pool = pool;
	p->catalog = catalog;
	rc = jobs_start(engine, p);
	if (rc) {
		free(p);
		return rc;
	}
	pthread_mutex_lock(&engine->table);
	for (at = &engine->pools; *at && strcmp((*at)->name, p->name) < 0;)
		at = &(*at)->next;
	p->next = *at;
	*at = p;
	pthread_mutex_unlock(&engine->table);
	engine_pool_tell(engine, p, true);
	return 0;
}

struct engine_pool *engine_pool_remove(struct tarn_engine *engine, const char *name)
{
	struct engine_pool *p, **at;

	pthread_mutex_lock(&engine->table);
	p = engine->pools;
	while (p && strcmp(p->name, name) != 0)
		p = p->next;
	if (p)
		p->going = true;
	pthread_mutex_unlock(&engine->table);
	if (!p)
		return NULL;
	engine_pool_tell(engine, p, false);
	pthread_mutex_lock(&engine->table);
	while (p->uses)
		pthread_cond_wait(&engine->unused, &engine->table);
	for (at = &engine->pools; *at != p;)
		at = &(*at)->next;
	*at = p->next;
	pthread_mutex_unlock(&engine->table);
	return p;
}

int engine_pool_export(struct tarn_engine *engine, struct engine_pool *p)
{
	int rc, closed;

	jobs_stop(p);
	rc = catalog_close(p->catalog, fs_drop);
	cache_remove_pool(engine->cache, p->guid);
	closed = pool_close(p->pool, rc == 0);
	free(p);
	return rc ? rc : closed;
}
