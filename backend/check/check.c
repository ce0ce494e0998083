// SPDX-License-Identifier: LGPL-3.0-or-later
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/scan.h"
#include "check/impl.h"
#include "pool/alog.h"
#include "util/error.h"

void found(struct check *c, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	c->result->findings++;
	c->spec->finding(c->spec->arg, text);
}

/* ---- one state of the pool: all that one uberblock leads to ---- */

static void mark_log(void *arg, const struct bp *bp)
{
	struct check *c = arg;

	c->result->blocks++;
	refs_mark(c, bp, "allocation log");
}

static int check_state(struct check *c)
{
	struct dataset_seen *list = NULL;
	int rc = refs_new(&c->refs);

	if (rc)
		return rc;
	rc = check_pool_tree(c, &list);
	if (rc)
		found(c, "the pool tree can't be walked: %s", strerror(-rc));
	else if ((rc = pool_load_done(c->pool)))
		found(c, "allocation log and bitmaps do not agree: %s", strerror(-rc));
	for (struct dataset_seen *d = list; d; d = d->next)
		check_dataset(c, d);
	if (!rc) {
		alog_each_block(c->pool, mark_log, c);
		check_space(c);
	}
	datasets_free(list);
	refs_free(c->refs);
	return 0;
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

/* Older states that cannot be opened do not exist. */
static int check_uberblock(struct check *c, const struct scan *scan, uint64_t guid, uint32_t skip,
			   struct workq *wq, struct tarn_error *err)
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
					      .skip_uberblocks = skip};

		rc = pool_open(&args, &config, wq, &c->pool, err);
		o.n = 0; /* taken over */
	}
	opened_close(&o);
	if (rc)
		return rc;
	if (skip == 0) {
		snprintf(c->result->name, sizeof(c->result->name), "%s", c->pool->name);
		c->result->guid = guid;
		c->result->txg = c->pool->uber.txg;
	}
	rc = check_state(c);
	pool_close(c->pool, false);
	return rc;
}

static int check_uberblocks(struct check *c, const struct scan *scan, uint64_t guid,
			    struct tarn_error *err)
{
	struct tarn_error older;
	struct workq *wq;
	int rc = workq_create(2, &wq);

	if (rc)
		return fail(err, rc, "threads can't be started: %s", strerror(-rc));
	rc = check_uberblock(c, scan, guid, 0, wq, err);
	for (uint32_t i = 1; !rc && i < c->spec->uberblocks; i++)
		if (check_uberblock(c, scan, guid, i, wq, &older))
			break;
	workq_destroy(wq);
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
	if (!any)
		return fail(err, -ENOENT, "no pool of that name was found on the given devices");
	return 0;
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
	rc = scan_paths(spec->paths, spec->npaths, &scan);
	if (rc)
		return fail(err, rc, "the given devices can't be searched: %s", strerror(-rc));
	rc = choose(spec, &scan, &guid, err);
	if (!rc)
		rc = open_devs(&scan, guid, 0, &claim, err);
	if (!rc)
		rc = check_uberblocks(&c, &scan, guid, err);
	opened_close(&claim);
	scan_free(&scan);
	return rc;
}
