// SPDX-License-Identifier: LGPL-3.0-or-later
/* From labelled devices to a pool. Writes nothing before everything has been checked. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "pool/chunk.h"
#include "pool/config.h"
#include "pool/ilog.h"
#include "pool/label.h"
#include "pool/slab.h"
#include "util/error.h"

struct candidate {
	struct dev *dev; /* NULL once the pool has it */
	const char *path;
	struct label *label; /* NULL: not one of the pool's devices */
};

struct opening {
	const struct pool_open_args *args;
	struct tarn_error *err;
	struct pool *pool;
	struct candidate *cands;
	const struct label *best; /* the label whose layout counts */
	struct heartbeat *beats;  /* as they were found, of each device */
	bool foreign;             /* another host has used it last and did not export it, */
	unsigned watch;           /* or may have; seconds for which its heartbeats are watched */
	uint64_t max_import, max_txg;
};

/* ---- which devices, which layout ---- */

static int read_label(struct opening *o, struct candidate *c)
{
	int rc;

	c->label = dev_buf_alloc(sizeof(*c->label));
	if (!c->label)
		return -ENOMEM;
	rc = label_read(c->dev, c->label);
	if (!rc && c->label->pool_guid == o->args->guid)
		return 0;
	free(c->label);
	c->label = NULL;
	/* Another version may be another pool's: it matters only if it is missed. */
	return rc == -ENOTSUP ? -ENOTSUP : 0;
}

static int read_labels(struct opening *o)
{
	const char *newer = NULL;

	for (uint32_t i = 0; i < o->args->ndevs; i++) {
		struct candidate *c = &o->cands[i];
		int rc = read_label(o, c);

		if (rc == -ENOTSUP)
			newer = c->path;
		else if (rc)
			return rc;
		if (!c->label)
			continue;
		if (!o->best || label_compare(c->label, o->best) > 0)
			o->best = c->label;
		if (c->label->import_counter > o->max_import)
			o->max_import = c->label->import_counter;
		if (c->label->txg > o->max_txg)
			o->max_txg = c->label->txg;
		if (c->label->seq > o->pool->label_seq)
			o->pool->label_seq = c->label->seq;
	}
	if (o->best)
		return 0;
	if (newer)
		return fail(o->err, -ENOTSUP,
			    "the label of %s was written by a version of Tarn with another format",
			    newer);
	return fail(o->err, -ENOENT, "no device with a label of the pool was found");
}

static void fill_logs(struct pool *pool, const struct label *label)
{
	pool->nlogs = label->nlogs;
	for (uint32_t g = 0; g < pool->nlogs; g++) {
		const struct label_group *from = &label->logs[g];
		struct log_group *log = pool->logs[g] = &pool->log_slots[g];

		log->kind = from->kind;
		log->ndevs = from->ndevs;
		log->size = UINT64_MAX;
		for (uint32_t i = 0; i < log->ndevs; i++) {
			const struct label_dev *entry = &label->log_devs[from->first_dev + i];
			struct pool_dev *dev = &log->devs[i];

			dev->guid = entry->guid;
			dev->size = entry->size;
			pool_set_path(dev, entry->path);
			atomic_store(&dev->state, TARN_DEV_MISSING);
			if (dev->size < log->size)
				log->size = dev->size;
		}
	}
}

static void fill_layout(struct opening *o)
{
	const struct label *label = o->best;
	struct pool *pool = o->pool;

	pool->guid = label->pool_guid;
	strcpy(pool->name, o->args->new_name ? o->args->new_name : label->name);
	pool->ngroups = label->ngroups;
	pool->ndevs = label->ndevs;
	for (uint32_t g = 0; g < pool->ngroups; g++) {
		const struct label_group *from = &label->groups[g];

		pool->groups[g] = (struct pool_group){.kind = from->kind,
						      .first_dev = from->first_dev,
						      .ndevs = from->ndevs,
						      .slab_shift = from->slab_shift};
		for (uint32_t i = 0; i < from->ndevs; i++)
			pool->devs[from->first_dev + i].group = g;
	}
	for (uint32_t i = 0; i < pool->ndevs; i++) {
		const struct label_dev *from = &label->devs[i];
		struct pool_dev *dev = &pool->devs[i];

		dev->guid = from->guid;
		dev->index = i;
		dev->size = from->size;
		dev->slab_start = from->slab_start;
		dev->slab_count = from->slab_count;
		dev->table_pages = from->table_pages;
		dev->offline = from->flags & LABEL_DEV_OFFLINE;
		pool_set_path(dev, from->path);
		atomic_store(&dev->state, TARN_DEV_MISSING);
	}
	fill_logs(pool, label);
}

/* The candidate for one device of the layout; of two, the one whose label is newer. */
static int find_candidate(struct opening *o, uint64_t guid, struct candidate **out)
{
	struct candidate *found = NULL;

	for (uint32_t i = 0; i < o->args->ndevs; i++) {
		struct candidate *c = &o->cands[i];
		int order;

		if (!c->label || c->label->dev_guid != guid)
			continue;
		order = found ? label_compare(c->label, found->label) : 1;
		if (order == 0)
			return fail(o->err, -EEXIST,
				    "%s and %s are copies of one device; leave one out",
				    found->path, c->path);
		if (order > 0)
			found = c;
	}
	*out = found;
	return 0;
}

static int attach(struct opening *o, struct pool_dev *dev)
{
	struct candidate *c = NULL;
	int rc = find_candidate(o, dev->guid, &c);

	if (rc || !c)
		return rc;
	if (c->dev->geo.size < dev->size) {
		pool_log(o->pool, TARN_LOG_WARN, "device %s has become smaller and is not used",
			 c->path);
		return 0;
	}
	dev->dev = c->dev;
	c->dev = NULL;
	pool_set_path(dev, c->path);
	atomic_store(&dev->state, dev->offline ? TARN_DEV_OFFLINE : TARN_DEV_ONLINE);
	return 0;
}

static int attach_devs(struct opening *o)
{
	struct pool *pool = o->pool;
	int rc = 0;

	for (uint32_t i = 0; i < pool->ndevs && !rc; i++)
		rc = attach(o, &pool->devs[i]);
	for (uint32_t g = 0; g < pool->nlogs; g++) {
		for (uint32_t i = 0; i < pool->logs[g]->ndevs && !rc; i++)
			rc = attach(o, &pool->logs[g]->devs[i]);
	}
	return rc;
}

/* Of whom the pool was last: who has begun to take it has written labels; whoever had it beats.
   NULL: not known. */
static const struct heartbeat *newest_beat(const struct opening *o)
{
	const struct heartbeat *newest = NULL;

	for (uint32_t i = 0; i < o->pool->ndevs; i++) {
		const struct heartbeat *beat = &o->beats[i];

		if (beat->pool_guid && (!newest || beat->import_counter > newest->import_counter))
			newest = beat;
	}
	return newest;
}

/* How long to watch for a live owner. This host before its last boot does not live; but another
   one may have its id, as copies of a virtual machine do: a shorter look, since every start after
   a crash waits for it. */
static unsigned watch_for(const struct opening *o, const struct heartbeat *beat)
{
	const struct tarn_config *config = o->pool->config;

	if (o->pool->was_exported)
		return 0;
	if (o->foreign)
		return o->args->watch_seconds;
	if (beat && beat->boot_id && config->boot_id && beat->boot_id != config->boot_id)
		return (o->args->watch_seconds + 3) / 4;
	return 0;
}

static int check_owner(struct opening *o)
{
	const struct label *label = o->best;
	bool others = label->host_id != o->pool->config->host_id, others_beat;
	const struct heartbeat *beat;

	o->pool->was_exported = label->state == LABEL_EXPORTED;
	o->beats = calloc(o->pool->ndevs, sizeof(*o->beats));
	if (!o->beats)
		return -ENOMEM;
	beat_read_all(o->pool, o->beats);
	beat = newest_beat(o);
	others_beat = beat && beat->host_id != o->pool->config->host_id;
	o->foreign = !o->pool->was_exported && (others || others_beat);
	o->watch = watch_for(o, beat);
	if (!o->foreign || (o->args->flags & TARN_FORCE))
		return 0;
	return fail(o->err, -EREMOTE,
		    "pool %s was not exported by %s%s, which may still be using it; if it is not, "
		    "import with -f",
		    label->name, others ? "host " : "another host", others ? label->host : "");
}

static int in_use(struct opening *o)
{
	bool others = o->best->host_id != o->pool->config->host_id;

	return fail(o->err, -EREMOTE, "%s%s is using pool %s now",
		    others ? "host " : "another host", others ? o->best->host : "", o->pool->name);
}

static int too_few(struct opening *o, const struct pool_group *group)
{
	const char *missing = NULL;
	uint32_t present = 0;

	for (uint32_t i = 0; i < group->ndevs; i++) {
		const struct pool_dev *dev = &o->pool->devs[group->first_dev + i];

		if (pool_dev_usable(dev))
			present++;
		else if (!missing)
			missing = dev->path;
	}
	return fail(
	    o->err, -ENODEV,
	    "device %s of pool %s is missing, and %u of the %u devices of its %s are too few",
	    missing, o->pool->name, present, group->ndevs, tarn_group_kind_name(group->kind));
}

static int check_groups(struct opening *o)
{
	struct pool *pool = o->pool;

	for (uint32_t g = 0; g < pool->ngroups; g++) {
		const struct pool_group *group = &pool->groups[g];

		if (pool_group_usable(pool, g, NULL))
			continue;
		if (pool_kind_parity(group->kind))
			return too_few(o, group);
		return fail(o->err, -ENODEV,
			    group->ndevs == 1
				? "device %s of pool %s is missing, and there is no copy of it"
				: "device %s of pool %s is missing, and so are all others "
				  "of its mirror",
			    pool->devs[group->first_dev].path, pool->name);
	}
	return 0;
}

/* ---- which uberblock ---- */

struct uber_list {
	struct uberblock *best; /* newest first, no two the same; room for 2 * UBER_RING */
	uint32_t n;
};

static int newest_first(const void *a, const void *b)
{
	return uber_compare(b, a);
}

static void merge(struct uber_list *list, uint32_t added)
{
	uint32_t total = list->n + added;

	qsort(list->best, total, sizeof(*list->best), newest_first);
	list->n = 0;
	for (uint32_t i = 0; i < total && list->n < UBER_RING; i++) {
		if (!list->n || uber_compare(&list->best[list->n - 1], &list->best[i]) != 0)
			list->best[list->n++] = list->best[i];
	}
}

static int read_ubers(struct opening *o, struct uber_list *list)
{
	for (uint32_t i = 0; i < o->pool->ndevs; i++) {
		struct pool_dev *dev = &o->pool->devs[i];
		struct uberblock *found = list->best + list->n;
		uint32_t n;
		int rc;

		if (!dev->dev)
			continue;
		rc = uber_read(dev->dev, dev->size, o->pool->guid, found, &n);
		if (rc == -ENOTSUP)
			return fail(o->err, rc, "pool %s uses features of a newer version of Tarn",
				    o->pool->name);
		if (rc)
			return rc;
		if (n) {
			dev->seen_import = found->import_counter;
			dev->seen_txg = found->txg;
		}
		for (uint32_t k = 0; k < n; k++) {
			if (found[k].txg > o->max_txg)
				o->max_txg = found[k].txg;
		}
		if (n && found->import_counter > o->max_import)
			o->max_import = found->import_counter;
		merge(list, n);
	}
	return 0;
}

/* Going back in time, txgs fall. One that does not was left behind by a rewind, whose own
   uberblock repeats the txg that it went back to. */
static void drop_abandoned(struct uber_list *list)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < list->n; i++) {
		if (!n || list->best[i].txg < list->best[n - 1].txg)
			list->best[n++] = list->best[i];
	}
	list->n = n;
}

static int choose_uber(struct opening *o)
{
	struct uber_list list = {.best = calloc(2 * UBER_RING, sizeof(*list.best))};
	uint32_t skip = o->args->skip_uberblocks;
	int rc;

	if (!list.best)
		return -ENOMEM;
	rc = read_ubers(o, &list);
	drop_abandoned(&list);
	/* The first txg to come must not take the slot of the one that is chosen. */
	if (!rc && (skip >= list.n || skip >= UBER_SLOTS / 2))
		rc = fail(o->err, -ENOENT, "pool %s has no %suberblock that could be used",
			  o->pool->name, skip ? "older " : "");
	if (!rc) {
		o->pool->uber = list.best[skip];
		/* The log would lead forward again. */
		if (skip)
			o->pool->uber.log_id = 0;
		if (!skip && o->best->txg > list.best[0].txg)
			pool_log(o->pool, TARN_LOG_WARN,
				 "the uberblocks of txg %lu and after are lost",
				 (unsigned long)o->best->txg);
	}
	free(list.best);
	return rc;
}

/* ---- the log ---- */

/* What a log device holds that is not there may have been acknowledged. */
static int check_log(struct opening *o)
{
	struct pool *pool = o->pool;
	const char *path;
	char when[32] = "its last commit";
	time_t time = (time_t)pool->uber.time;
	struct tm tm;

	if (pool->was_exported || !pool->uber.log_id || ilog_readable(pool, &path))
		return 0;
	if (localtime_r(&time, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	path = path[0] ? path : "of unknown name";
	if (o->args->flags & TARN_DROP_LOG) {
		atomic_store(&pool->log_dropped, !pool->read_only);
		pool_log(pool, TARN_LOG_ERROR,
			 "imported without its log device %s: what was acknowledged after %s may "
			 "be lost",
			 path, when);
		return 0;
	}
	if (pool->read_only && !(o->args->flags & TARN_DRY_RUN))
		return 0;
	return fail(o->err, -ENODEV,
		    "log device %s of pool %s is missing: it may hold changes that were "
		    "acknowledged after %s; attach it, or import with -m without them",
		    path, pool->name, when);
}

/* ---- the claim ---- */

static void number(struct opening *o)
{
	struct pool *pool = o->pool;
	struct uberblock *uber = &pool->uber;

	/* One txg beyond the newest may have been written without its uberblock, so may its
	   number be on blocks and slab entries; leave it out. */
	pool->first_txg = o->max_txg + 2;
	pool->import_counter = pool->read_only ? uber->import_counter : o->max_import + 1;
	if (pool->read_only)
		return;
	/* A device that is away may hold ids and generations from a state that was abandoned; those
	   of this import differ from any of an earlier one. */
	if (uber->next_chunk < pool->import_counter << 40)
		uber->next_chunk = pool->import_counter << 40;
	if (uber->generation < pool->import_counter << 40)
		uber->generation = pool->import_counter << 40;
}

/*
 * A rewind overwrites what only the newer states need. Before that the older one becomes the
 * newest, by its import counter. Its txg stays: slab entries from after it do not count.
 */
static int make_newest(struct pool *pool)
{
	struct uberblock uber = pool->uber;
	int rc;

	uber.import_counter = pool->import_counter;
	rc = uber_write_slot(pool, &uber, pool->first_txg - 1);
	if (!rc)
		rc = pool_flush_all(pool);
	return rc == -ESTALE ? 0 : rc;
}

static int claim(struct opening *o)
{
	struct pool *pool = o->pool;
	struct label *label = dev_buf_alloc(sizeof(*label));
	int rc;

	if (!label)
		return -ENOMEM;
	rc = label_write_all(pool, LABEL_ACTIVE);
	for (uint32_t i = 0; i < pool->ndevs && !rc; i++) {
		struct pool_dev *dev = &pool->devs[i];

		if (!pool_dev_usable(dev))
			continue;
		rc = label_read(dev->dev, label);
		if (!rc && (label->import_counter != pool->import_counter ||
			    label->host_id != pool->config->host_id))
			rc = fail(o->err, -EREMOTE, "host %s has just imported pool %s",
				  label->host, pool->name);
	}
	free(label);
	/* An owner that was away may have gone on before it could see these labels (label.h). */
	if (!rc && o->watch && beat_moves(pool, o->beats, 0))
		rc = in_use(o);
	if (!rc) {
		rc = beat_start(pool);
		if (rc == -EREMOTE)
			fail(o->err, rc, "another host has just imported pool %s", pool->name);
	}
	if (rc)
		return rc;
	return o->args->skip_uberblocks ? make_newest(pool) : uber_level(pool, NULL);
}

static int open_pool(struct opening *o)
{
	struct pool *pool = o->pool;
	int rc = read_labels(o);

	if (rc)
		return rc;
	fill_layout(o);
	rc = attach_devs(o);
	rc = rc ? rc : check_owner(o);
	rc = rc ? rc : check_groups(o);
	rc = rc ? rc : choose_uber(o);
	rc = rc ? rc : check_log(o);
	if (rc)
		return rc;
	if (o->watch && !pool->read_only && beat_moves(pool, o->beats, o->watch))
		return in_use(o);
	number(o);
	rc = pool_create_parts(pool);
	for (uint32_t i = 0; i < pool->ndevs && !rc; i++)
		rc = slab_table_load(pool, &pool->devs[i]);
	rc = rc ? rc : chunks_assemble(pool);
	return rc || pool->read_only ? rc : claim(o);
}

int pool_open(const struct pool_open_args *args, const struct tarn_config *config, struct workq *wq,
	      struct pool **out, struct tarn_error *err)
{
	struct opening o = {.args = args, .err = err, .pool = pool_new(config, wq)};
	int rc = -ENOMEM;

	if (err)
		err->code = 0;
	o.cands = calloc(args->ndevs + 1, sizeof(*o.cands));
	for (uint32_t i = 0; i < args->ndevs && o.cands; i++)
		o.cands[i] = (struct candidate){.dev = args->devs[i], .path = args->paths[i]};
	if (o.pool && o.cands) {
		o.pool->read_only = args->flags & TARN_READ_ONLY;
		rc = open_pool(&o);
	}
	if (rc && err && !err->code)
		fail(err, rc, "the pool cannot be opened: %s", strerror(-rc));
	for (uint32_t i = 0; i < args->ndevs; i++) {
		dev_close(o.cands ? o.cands[i].dev : args->devs[i]);
		if (o.cands)
			free(o.cands[i].label);
	}
	free(o.cands);
	free(o.beats);
	if (rc && o.pool)
		pool_free(o.pool);
	else
		*out = o.pool;
	return rc;
}
