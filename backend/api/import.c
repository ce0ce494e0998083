// SPDX-License-Identifier: LGPL-3.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/engine.h"
#include "api/job.h"
#include "api/scan.h"
#include "fs/fs.h"
#include "fs/redo.h"
#include "pool/ilog.h"

#define BUSY_TRIES 30
#define BUSY_PAUSE_MS 100

/* ---- scan ---- */

static bool present(const struct scan *scan, uint64_t pool_guid, uint64_t dev_guid)
{
	for (size_t i = 0; i < scan->n; i++) {
		if (scan->devs[i].label->pool_guid == pool_guid &&
		    scan->devs[i].label->dev_guid == dev_guid)
			return true;
	}
	return false;
}

static void put_candidate(const struct scan *scan, const struct label *label,
			  struct tarn_import_candidate *out)
{
	strcpy(out->name, label->name);
	strcpy(out->host, label->host);
	out->guid = label->pool_guid;
	out->active = label->state == LABEL_ACTIVE;
	out->devs_total = label->ndevs + label_log_devs(label);
	out->importable = true;
	for (uint32_t g = 0; g < label->ngroups; g++) {
		const struct label_group *group = &label->groups[g];
		uint32_t found = 0;

		for (uint32_t i = 0; i < group->ndevs; i++)
			found +=
			    present(scan, label->pool_guid, label->devs[group->first_dev + i].guid);
		out->devs_found += found;
		out->importable &= found >= pool_kind_needs(group->kind, group->ndevs);
	}
	for (uint32_t i = 0; i < label_log_devs(label); i++)
		out->devs_found += present(scan, label->pool_guid, label->log_devs[i].guid);
	for (size_t i = 0; i < scan->n; i++) {
		const struct scan_dev *d = &scan->devs[i];

		if (d->label->pool_guid == label->pool_guid && d->newest_txg > out->txg)
			out->txg = d->newest_txg;
	}
}

static bool imported_guid(struct tarn_engine *engine, uint64_t guid)
{
	struct engine_pool *p;

	if (engine_pool_get_guid(engine, guid, &p))
		return false;
	engine_pool_put(engine, p);
	return true;
}

/* Whether devs[i] is the first of its pool. */
static bool first_of_pool(const struct scan *scan, size_t i)
{
	for (size_t k = 0; k < i; k++) {
		if (scan->devs[k].label->pool_guid == scan->devs[i].label->pool_guid)
			return false;
	}
	return true;
}

static int by_name(const void *a, const void *b)
{
	const struct tarn_import_candidate *x = a, *y = b;
	int c = strcmp(x->name, y->name);

	return c ? c : x->guid < y->guid ? -1 : x->guid > y->guid;
}

int tarn_pool_scan(struct tarn_engine *engine, const char *const *paths, uint32_t npaths,
		   struct tarn_import_candidate **out, uint32_t *count)
{
	struct scan scan;
	uint32_t n = 0;
	int rc = scan_paths(paths, npaths, &scan);

	if (rc)
		return rc;
	*out = calloc(scan.n + 1, sizeof(**out));
	for (size_t i = 0; i < scan.n && *out; i++) {
		uint64_t guid = scan.devs[i].label->pool_guid;

		if (first_of_pool(&scan, i) && !imported_guid(engine, guid))
			put_candidate(&scan, scan_best(&scan, guid), &(*out)[n++]);
	}
	scan_free(&scan);
	if (!*out)
		return -ENOMEM;
	qsort(*out, n, sizeof(**out), by_name);
	*count = n;
	return 0;
}

/* ---- which pool ---- */

static int choose(struct tarn_engine *engine, const struct tarn_import_spec *spec,
		  const struct scan *scan, const struct label **out, struct tarn_error *err)
{
	bool here = false;

	*out = NULL;
	for (size_t i = 0; i < scan->n; i++) {
		const struct label *best = scan_best(scan, scan->devs[i].label->pool_guid);

		if (spec->name ? strcmp(best->name, spec->name) != 0
			       : best->pool_guid != spec->guid)
			continue;
		if (spec->name && imported_guid(engine, best->pool_guid)) {
			here = true;
			continue; /* its name may be another one now */
		}
		if (*out && (*out)->pool_guid != best->pool_guid)
			return fail(err, -EEXIST,
				    "there are several pools '%s'; name one by its GUID",
				    spec->name);
		*out = best;
	}
	if (*out)
		return 0;
	if (here)
		return fail(err, -EEXIST, "pool '%s' is imported already", spec->name);
	if (spec->name)
		return fail(err, -ENOENT, "no pool '%s' was found; -d says where to look",
			    spec->name);
	return fail(err, -ENOENT, "no pool with the GUID %llu was found",
		    (unsigned long long)spec->guid);
}

static int check_free(struct tarn_engine *engine, const struct label *label, const char *name,
		      struct tarn_error *err)
{
	const char *problem = pool_name_problem(name);
	struct engine_pool *p;

	if (problem)
		return fail(err, -EINVAL, "'%.80s' can't be a pool's name: %s", name, problem);
	if (imported_guid(engine, label->pool_guid))
		return fail(err, -EEXIST, "pool '%s' is imported already", label->name);
	if (engine_pool_get(engine, name, &p))
		return 0;
	engine_pool_put(engine, p);
	return fail(err, -EEXIST, "a pool '%s' is imported already; -N gives this one another name",
		    name);
}

/* ---- devices ---- */

struct opened {
	struct dev **devs;
	const char **paths;
	uint32_t n;
};

static void opened_free(struct opened *o, bool close)
{
	for (uint32_t i = 0; i < o->n && close; i++)
		dev_close(o->devs[i]);
	free(o->devs);
	free(o->paths);
	memset(o, 0, sizeof(*o));
}

static bool other_path_opened(const struct scan *scan, const struct opened *o, size_t busy)
{
	const struct label *label = scan->devs[busy].label;

	for (size_t i = 0; i < scan->n; i++) {
		if (scan->devs[i].label->pool_guid != label->pool_guid ||
		    scan->devs[i].label->dev_guid != label->dev_guid)
			continue;
		for (uint32_t k = 0; k < o->n; k++) {
			if (o->paths[k] == scan->devs[i].path)
				return true;
		}
	}
	return false;
}

/* Somebody holds it, and not because it is below another path to the same device (multipath). */
static const char *held_by_others(const struct scan *scan, const struct opened *o,
				  const int *result)
{
	for (size_t i = 0; i < scan->n; i++) {
		if (result[i] == -EBUSY && !other_path_opened(scan, o, i))
			return scan->devs[i].path;
	}
	return NULL;
}

/* What does not open is missing; but what somebody else holds is no pool to be imported, and what
   this process has no descriptors or memory for is there. */
static int try_open_devs(const struct scan *scan, uint64_t guid, bool read_only, struct opened *out,
			 struct tarn_error *err)
{
	int *result = calloc(scan->n, sizeof(*result)), rc = 0;
	const char *held;

	*out = (struct opened){.devs = calloc(scan->n, sizeof(*out->devs)),
			       .paths = calloc(scan->n, sizeof(*out->paths))};
	if (!out->devs || !out->paths || !result) {
		opened_free(out, true);
		free(result);
		return fail(err, -ENOMEM, "out of memory");
	}
	for (size_t i = 0; i < scan->n && !rc; i++) {
		const char *path = scan->devs[i].path;

		if (scan->devs[i].label->pool_guid != guid)
			continue;
		result[i] = dev_open(path, read_only ? DEV_OPEN_RDONLY : 0, &out->devs[out->n]);
		if (!result[i])
			out->paths[out->n++] = path;
		else if (scan_shortage(result[i]))
			rc = fail(err, result[i], "'%s' can't be opened: %s", path,
				  strerror(-result[i]));
	}
	held = rc ? NULL : held_by_others(scan, out, result);
	free(result);
	if (held)
		rc = fail(err, -EBUSY, "'%s' is in use by another program", held);
	if (rc)
		opened_free(out, true);
	return rc;
}

/* The kernel keeps the devices of a process that was killed until its last request has ended:
   a server that starts again at once must not give its pools up for that. */
static int open_devs(const struct scan *scan, uint64_t guid, bool read_only, struct opened *out,
		     struct tarn_error *err)
{
	int rc = try_open_devs(scan, guid, read_only, out, err);

	for (int i = 0; rc == -EBUSY && i < BUSY_TRIES; i++) {
		usleep(BUSY_PAUSE_MS * 1000);
		rc = try_open_devs(scan, guid, read_only, out, err);
	}
	return rc;
}

/* ---- one attempt ---- */

struct attempt {
	struct tarn_engine *engine;
	const struct scan *scan;
	const struct label *label;
	const char *name;
	int flags;
	uint32_t skip; /* newest uberblocks to leave out */
};

static int open_pool(const struct attempt *a, struct pool **out, struct tarn_error *err)
{
	struct opened o;
	int rc = open_devs(a->scan, a->label->pool_guid, a->flags & TARN_READ_ONLY, &o, err);

	if (rc)
		return rc;
	struct pool_open_args args = {
	    .guid = a->label->pool_guid,
	    .new_name = a->name,
	    .devs = o.devs,
	    .paths = o.paths,
	    .ndevs = o.n,
	    .flags = a->flags,
	    .skip_uberblocks = a->skip,
	    .watch_seconds = BEAT_WATCH,
	};
	rc = pool_open(&args, &a->engine->config, a->engine->wq, out, err);
	opened_free(&o, false);
	return rc;
}

/* *opened: the pool itself could be opened, what failed was its metadata. */
static int attempt(const struct attempt *a, struct pool **pool, struct catalog **cat, bool *opened,
		   struct tarn_error *err)
{
	int rc = open_pool(a, pool, err);

	*opened = !rc;
	if (rc)
		return rc;
	rc = catalog_open(*pool, a->engine->cache, cat, err);
	if (rc) {
		cache_remove_pool(a->engine->cache, a->label->pool_guid);
		pool_close(*pool, (*pool)->was_exported);
	}
	return rc;
}

static void close_attempt(const struct attempt *a, struct pool *pool, struct catalog *cat)
{
	catalog_close(cat, fs_drop);
	cache_remove_pool(a->engine->cache, a->label->pool_guid);
	pool_close(pool, false);
}

/* Reads only: finds the newest uberblock whose metadata can be read, from a->skip on. */
static int try_read_only(struct attempt *a, struct tarn_error *err)
{
	struct attempt reading = *a;
	struct tarn_error first = {0}, now;
	struct catalog *cat;
	struct pool *pool;
	bool opened;
	int rc;

	reading.flags = (a->flags & (TARN_FORCE | TARN_DROP_LOG)) | TARN_READ_ONLY;
	if (!(a->flags & TARN_READ_ONLY))
		reading.flags |= TARN_DRY_RUN;
	for (;; reading.skip++) {
		if (reading.skip)
			reading.flags |= TARN_REWIND;
		rc = attempt(&reading, &pool, &cat, &opened, &now);
		if (!rc) {
			close_attempt(&reading, pool, cat);
			a->skip = reading.skip;
			a->flags |= reading.flags & TARN_REWIND;
			return 0;
		}
		if (!first.code)
			first = now;
		if (!opened || !(a->flags & TARN_REWIND))
			break;
	}
	*err = first;
	return rc;
}

/* ---- import ---- */

static void tell_lost(struct pool *pool, uint64_t lost)
{
	if (lost)
		pool_log(pool, TARN_LOG_ERROR,
			 "the intent log is damaged: at least %llu changes that were acknowledged "
			 "are lost",
			 (unsigned long long)lost);
}

static void record_lost(struct pool *pool, struct catalog *cat, const struct lost_changes *lost)
{
	char path[TARN_PATH_MAX], text[100];
	struct tarn_dataset *ds;

	tell_lost(pool, lost->total);
	for (uint32_t i = 0; i < lost->n; i++) {
		if (catalog_find_id(cat, lost->in[i].dataset, &ds))
			continue;
		catalog_path(ds, path);
		pool_log(pool, TARN_LOG_ERROR, "at least %llu of them in dataset %s",
			 (unsigned long long)lost->in[i].changes, path);
		tarn_dataset_put(ds);
	}
	snprintf(text, sizeof(text), "[import: at least %llu acknowledged changes are lost]",
		 (unsigned long long)lost->total);
	/* It stays in the status, too. */
	if (lost->total)
		(void)catalog_history_add(cat, text);
}

static int count_log(struct pool *pool, struct tarn_error *err)
{
	uint64_t lost;
	int rc = ilog_count(pool, &pool->unreplayed, &lost);

	if (rc)
		return fail(err, rc, "pool '%s': its intent log can't be read: %s", pool->name,
			    strerror(-rc));
	if (pool->unreplayed)
		pool_log(pool, TARN_LOG_WARN,
			 "%llu changes in the intent log are not shown: an import for writing "
			 "replays them",
			 (unsigned long long)pool->unreplayed);
	tell_lost(pool, lost);
	return 0;
}

static int replay(struct pool *pool, struct catalog *cat, struct tarn_error *err)
{
	struct lost_changes lost;
	uint64_t count;
	int rc = redo_replay(cat, pool, &count, &lost);

	if (rc)
		return fail(err, rc,
			    "pool '%s': its intent log can't be replayed (%s); -F leaves it out",
			    pool->name, strerror(-rc));
	if (count)
		pool_log(pool, TARN_LOG_INFO, "%llu changes replayed from the intent log",
			 (unsigned long long)count);
	record_lost(pool, cat, &lost);
	return 0;
}

/* What its devices have missed is rebuilt. */
static void begin_resilver(struct tarn_engine *engine, const struct pool *pool)
{
	struct engine_pool *p;
	struct tarn_error err;

	if (pool->read_only || engine_pool_get(engine, pool->name, &p))
		return;
	if (jobs_resilver_stale(p, &err))
		pool_log(p->pool, TARN_LOG_WARN, "no resilver can be started: %s", err.text);
	engine_pool_put(engine, p);
}

static int import(struct attempt *a, int flags, struct tarn_error *err)
{
	struct catalog *cat;
	struct pool *pool;
	bool opened;
	int rc = 0;

	/* With another name paths of datasets may become too long, and labels would have it then.
	 */
	if (flags & (TARN_DRY_RUN | TARN_REWIND) || strcmp(a->name, a->label->name) != 0)
		rc = try_read_only(a, err);
	if (rc || (flags & TARN_DRY_RUN))
		return rc;
	rc = attempt(a, &pool, &cat, &opened, err);
	if (rc)
		return rc;
	if (a->skip)
		pool_log(pool, TARN_LOG_WARN, "rewound to txg %llu: %u newer uberblocks left out",
			 (unsigned long long)pool->uber.txg, a->skip);
	rc = pool->read_only ? count_log(pool, err) : replay(pool, cat, err);
	if (rc) {
		close_attempt(a, pool, cat);
		return rc;
	}
	rc = engine_pool_add(a->engine, pool, cat);
	if (rc) {
		close_attempt(a, pool, cat);
		return fail(err, rc, "out of memory");
	}
	begin_resilver(a->engine, pool);
	return 0;
}

int tarn_pool_import(struct tarn_engine *engine, const struct tarn_import_spec *spec,
		     struct tarn_error *err)
{
	struct tarn_error local;
	struct scan scan;
	const struct label *label;
	int rc = scan_paths(spec->paths, spec->npaths, &scan);

	err = err ? err : &local;
	if (rc)
		return fail(err, rc, "the devices can't be looked for: %s", strerror(-rc));
	pthread_mutex_lock(&engine->admin);
	rc = choose(engine, spec, &scan, &label, err);
	if (!rc) {
		struct attempt a = {.engine = engine,
				    .scan = &scan,
				    .label = label,
				    .name = spec->new_name ? spec->new_name : label->name,
				    .flags = spec->flags & ~TARN_DRY_RUN};

		rc = check_free(engine, label, a.name, err);
		rc = rc ? rc : import(&a, spec->flags, err);
	}
	pthread_mutex_unlock(&engine->admin);
	scan_free(&scan);
	return rc;
}
