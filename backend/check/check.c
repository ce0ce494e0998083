// SPDX-License-Identifier: LGPL-3.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/scan.h"
#include "check/impl.h"
#include "pool/alog.h"
#include "pool/ilog.h"
#include "util/error.h"
#include "util/workq.h"

#define THREADS_MAX 16
#define CACHE_BYTES (16u << 20)

/* ---- one state of the pool: all that one uberblock leads to ---- */

static void check_log_block(void *arg, const struct bp *bp)
{
	struct check *c = arg;
	struct place place = pool_place(c);

	refs_mark(c, bp, &place);
	verify_block(c, bp, &place, 0);
}

/* Without all chunk records those that are there are left alone, so that their blocks are found. */
static bool load_space(struct check *c)
{
	int rc;

	if (c->lost || c->chunks_bad)
		return false;
	rc = pool_load_done(c->pool);
	if (rc)
		found(c, TARN_FOUND_ALLOC_LOG,
		      "the allocation log can't be read or contradicts the bitmaps: %s",
		      strerror(-rc));
	else
		c->total = space_total(c->pool);
	return !rc;
}

static int check_all(struct check *c)
{
	struct dataset_seen *list;
	int rc = check_pool_tree(c, &list);

	if (!rc) {
		bool space = load_space(c);

		for (struct dataset_seen *d = list; d; d = d->next)
			check_dataset(c, d);
		if (space) {
			alog_each_block(c->pool, check_log_block, c);
			verify_wait(c);
		}
		if (space && !c->lost)
			check_space(c);
	}
	datasets_free(list);
	return rc;
}

static int check_state(struct check *c)
{
	int rc;

	c->lost = c->chunks_bad = false;
	c->total = 0;
	c->bytes_before = c->result->bytes;
	rc = refs_new(&c->refs);
	if (rc)
		return rc;
	rc = verifier_new(c);
	if (!rc) {
		rc = check_all(c);
		verifier_free(c);
	}
	if (c->skip) {
		refs_free(c->refs);
	} else {
		c->verified = c->refs;
	}
	return rc;
}

/* ---- opening ---- */

struct opened {
	struct dev **devs;
	const char **paths;
	uint32_t n;
};

static void opened_close(struct opened *o)
{
	for (uint32_t i = 0; i < o->n; i++)
		dev_close(o->devs[i]);
	free(o->devs);
	free(o->paths);
}

/* flags 0 claims the devices against an import meanwhile; -EBUSY: the pool is imported. */
static int open_devs(const struct scan *scan, uint64_t guid, int flags, struct opened *o,
		     struct tarn_error *err)
{
	*o = (struct opened){.devs = calloc(scan->n, sizeof(*o->devs)),
			     .paths = calloc(scan->n, sizeof(*o->paths))};
	if (!o->devs || !o->paths)
		return fail(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < scan->n; i++) {
		const char *path = scan->devs[i].path;
		int rc;

		if (scan->devs[i].label->pool_guid != guid)
			continue;
		rc = dev_open(path, flags, &o->devs[o->n]);
		if (rc == -EROFS || rc == -EACCES || rc == -EPERM)
			rc = dev_open(path, DEV_OPEN_RDONLY, &o->devs[o->n]);
		if (rc == -EBUSY)
			return fail(err, rc,
				    "%s is in use: export the pool first ('tarn pool export')",
				    path);
		if (rc)
			return fail(err, rc, "%s can't be opened: %s", path, strerror(-rc));
		o->paths[o->n++] = path;
	}
	return 0;
}

/* Of the newest state: what an import would replay. */
static int check_log(struct check *c)
{
	uint64_t lost;
	int rc = ilog_count(c->pool, &c->result->unreplayed, &lost);
	if (!rc && lost)
		found(c, TARN_FOUND_INTENT_LOG,
		      "the intent log: at least %llu changes that were acknowledged are lost",
		      (unsigned long long)lost);
	return rc;
}

static int check_uberblock(struct check *c, const struct scan *scan, uint64_t guid,
			   struct tarn_error *err)
{
	static const struct tarn_config config; /* no cache of ours, no messages */
	struct opened o;
	int rc = open_devs(scan, guid, DEV_OPEN_RDONLY, &o, err);

	if (!rc) {
		struct pool_open_args args = {.guid = guid,
					      .devs = o.devs,
					      .paths = o.paths,
					      .ndevs = o.n,
					      .flags = TARN_READ_ONLY | TARN_FORCE,
					      .skip_uberblocks = c->skip};

		rc = pool_open(&args, &config, c->wq, &c->pool, err);
		o.n = 0; /* taken over */
	}
	opened_close(&o);
	if (rc)
		return rc;
	if (!c->skip) {
		snprintf(c->result->name, sizeof(c->result->name), "%s", c->pool->name);
		c->result->guid = guid;
		c->result->txg = c->pool->uber.txg;
		rc = check_devices(c);
	}
	rc = rc ? rc : check_state(c);
	if (!rc && !c->skip)
		rc = check_log(c);
	pool_close(c->pool, false);
	c->result->uberblocks++;
	return rc ? fail(err, rc, "the check can't go on: %s", strerror(-rc)) : 0;
}

static int check_uberblocks(struct check *c, const struct scan *scan, uint64_t guid,
			    struct tarn_error *err)
{
	uint32_t states =
	    c->spec->uberblocks < TARN_CHECK_STATES ? c->spec->uberblocks : TARN_CHECK_STATES;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int rc = workq_create(cpus < 1             ? 1
			      : cpus < THREADS_MAX ? (unsigned)cpus
						   : THREADS_MAX,
			      &c->wq);

	if (rc)
		return fail(err, rc, "threads can't be started: %s", strerror(-rc));
	rc = cache_create(CACHE_BYTES, &c->cache);
	rc = rc ? fail(err, rc, "out of memory") : check_uberblock(c, scan, guid, err);
	for (c->skip = 1; !rc && c->skip < states; c->skip++)
		rc = check_uberblock(c, scan, guid, err);
	/* A young pool has no older ones. */
	if (rc == -ENOENT && c->result->uberblocks)
		rc = 0;
	refs_free(c->verified);
	workq_destroy(c->wq);
	if (c->cache)
		cache_destroy(c->cache);
	return rc;
}

static int choose(const struct tarn_check_spec *spec, const struct scan *scan, uint64_t *guid,
		  struct tarn_error *err)
{
	bool any = false;

	for (size_t i = 0; i < scan->n; i++) {
		const struct label *l = scan_best(scan, scan->devs[i].label->pool_guid);

		if (spec->name ? strcmp(l->name, spec->name) != 0
			       : spec->guid && spec->guid != l->pool_guid)
			continue;
		if (any && *guid != l->pool_guid)
			return fail(err, -EINVAL,
				    "more than one pool fits: name it by its GUID (%llu, %llu)",
				    (unsigned long long)*guid, (unsigned long long)l->pool_guid);
		*guid = l->pool_guid;
		any = true;
	}
	if (any)
		return 0;
	if (spec->name)
		return fail(err, -ENOENT, "no pool '%s' was found; -d says where to look",
			    spec->name);
	if (spec->guid)
		return fail(err, -ENOENT,
			    "no pool with the GUID %llu was found; -d says where to look",
			    (unsigned long long)spec->guid);
	return fail(err, -ENOENT, "no pool was found; -d says where to look");
}

int tarn_check(const struct tarn_check_spec *spec, struct tarn_check_result *result,
	       struct tarn_error *err)
{
	struct check c = {.spec = spec, .result = result};
	struct opened claim = {0};
	struct scan scan;
	uint64_t guid = 0;
	int rc;

	memset(result, 0, sizeof(*result));
	for (uint32_t i = 0; i < spec->npaths; i++) {
		if (access(spec->paths[i], F_OK))
			return fail(err, -errno, "cannot look for pools in '%s': %s",
				    spec->paths[i], strerror(errno));
	}
	rc = scan_paths(spec->paths, spec->npaths, &scan);
	if (rc)
		return fail(err, rc, "cannot look for pools: %s", strerror(-rc));
	rc = choose(spec, &scan, &guid, err);
	if (!rc)
		rc = open_devs(&scan, guid, 0, &claim, err);
	if (!rc)
		rc = check_uberblocks(&c, &scan, guid, err);
	opened_close(&claim);
	scan_free(&scan);
	return rc;
}
