// SPDX-License-Identifier: LGPL-3.0-or-later
/* Devices of a pool taken out of use, and coming back. */
#include <errno.h>
#include <stdlib.h>

#include "api/job.h"
#include "pool/devstate.h"

/* By path, by another path to the same, or by GUID. */
static struct pool_dev *find_dev(struct pool *pool, const char *name)
{
	uint32_t ndevs = __atomic_load_n(&pool->ndevs, __ATOMIC_ACQUIRE);
	char *end, *real = realpath(name, NULL);
	uint64_t guid = strtoull(name, &end, 10);
	struct pool_dev *found = NULL;

	for (uint32_t i = 0; i < ndevs && !found; i++) {
		struct pool_dev *dev = &pool->devs[i];
		char *other = realpath(dev->path, NULL);

		if (!strcmp(dev->path, name) || (!*end && dev->guid == guid) ||
		    (real && other && !strcmp(real, other)))
			found = dev;
		free(other);
	}
	free(real);
	return found;
}

struct change {
	struct engine_pool *p;
	struct pool_dev *dev;
	struct dev *opened;
};

/* Under engine.admin, which it takes; the pool is in use until end_change(). */
static int begin_change(struct tarn_engine *engine, const char *name, const char *device,
			struct change *out, struct tarn_error *err)
{
	int rc;

	pthread_mutex_lock(&engine->admin);
	*out = (struct change){0};
	rc = engine_pool_find(engine, name, &out->p, err);
	if (rc) {
		out->p = NULL;
		return rc;
	}
	rc = engine_check_writable(out->p, err);
	if (rc)
		return rc;
	out->dev = find_dev(out->p->pool, device);
	return out->dev
		   ? 0
		   : fail(err, -ENOENT, "pool '%s' has no device '%.200s' for data", name, device);
}

static void end_change(struct tarn_engine *engine, struct change *c)
{
	if (c->p)
		engine_pool_put(engine, c->p);
	pthread_mutex_unlock(&engine->admin);
}

/* ---- offline ---- */

static int offline_task(struct catalog *cat, struct txg_sync *s, void *arg)
{
	struct change *c = arg;

	(void)cat, (void)s;
	dev_take_offline(c->dev);
	return 0;
}

static int take_offline(struct change *c, bool temporary, struct tarn_error *err)
{
	int rc = catalog_task(c->p->catalog, offline_task, c);

	rc = rc ? rc : dev_left(c->dev);
	if (rc == -ENODEV)
		return fail(err, rc, "the group of '%s' can't do without it", c->dev->path);
	if (rc == -EBUSY)
		return fail(err, rc,
			    "some data can't be read without '%s': other devices have missed it; "
			    "wait for the resilver, or start one",
			    c->dev->path);
	rc = rc ? rc : dev_record_state(c->p->pool, c->dev, !temporary);
	return rc ? fail(err, rc, "pool '%s' can't be written: %s", c->p->name, strerror(-rc)) : 0;
}

int tarn_pool_offline(struct tarn_engine *engine, const char *name, const char *device,
		      bool temporary, int flags, struct tarn_error *err)
{
	struct change c;
	int rc = begin_change(engine, name, device, &c, err);

	if (!rc && !(flags & TARN_DRY_RUN))
		rc = take_offline(&c, temporary, err);
	end_change(engine, &c);
	return rc;
}

/* ---- online ---- */

static int online_task(struct catalog *cat, struct txg_sync *s, void *arg)
{
	struct change *c = arg;

	(void)cat;
	return dev_bring_back(s, c->dev, c->opened);
}

static int check_back(struct change *c, struct tarn_error *err)
{
	const char *path = c->dev->path;
	int rc = c->dev->dev ? 0 : dev_open(path, 0, &c->opened);

	if (rc)
		return fail(err, rc, "'%s' can't be opened: %s", path, strerror(-rc));
	rc = dev_check_label(c->p->pool, c->dev, c->opened ? c->opened : c->dev->dev);
	if (rc == -EREMOTE)
		return fail(
		    err, rc,
		    "'%s' has been used with a later import of the pool: it can't come back", path);
	if (rc == -ENOSPC)
		return fail(err, rc, "'%s' has become smaller", path);
	return rc ? fail(err, rc, "'%s' does not work, or is not the device that was there", path)
		  : 0;
}

static int bring_back(struct change *c, int flags, struct tarn_error *err)
{
	int rc = check_back(c, err);

	if (!rc && !(flags & TARN_DRY_RUN)) {
		rc = catalog_task(c->p->catalog, online_task, c);
		rc = rc ? rc : dev_record_state(c->p->pool, c->dev, false);
		if (rc)
			fail(err, rc, "'%s' can't come back: %s", c->dev->path, strerror(-rc));
	}
	if (c->opened && c->dev->dev != c->opened)
		dev_close(c->opened);
	return rc;
}

int tarn_pool_online(struct tarn_engine *engine, const char *name, const char *device, int flags,
		     struct tarn_error *err)
{
	struct change c;
	int rc = begin_change(engine, name, device, &c, err);

	if (!rc && !pool_dev_usable(c.dev))
		rc = bring_back(&c, flags, err);
	if (!rc && !(flags & TARN_DRY_RUN))
		rc = jobs_resilver_stale(c.p, err);
	end_change(engine, &c);
	return rc;
}

int device_clear(struct engine_pool *p, struct pool_dev *dev, struct tarn_error *err)
{
	struct change c = {.p = p, .dev = dev};

	return bring_back(&c, 0, err);
}
