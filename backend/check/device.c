// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * What each device says of itself: two labels, two rings of uberblocks, two copies of its slab
 * table. The import needs one of each; here every copy is looked at.
 *
 * A power cut may tear the copy that was being written, which is no damage: the next import writes
 * it again. So in a pool that was not exported single bad copies of labels, of pages of the slab
 * table and of the newest uberblock are passed over, and older uberblocks in the place of others.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check/impl.h"
#include "pool/ilog.h"
#include "pool/label.h"
#include "pool/slab.h"

#define PAGES 64 /* of a slab table, looked at together */

struct devices {
	struct check *c;
	struct label *copy[2]; /* of the device being looked at */
	struct label *best;    /* head of the newest label */
	struct uberblock *ring[2];
	/* By slot: what this import has written there, as found on some device. */
	struct uberblock *want;
	struct slab_page *pages[2];
	/* A device that joined in this import has no uberblock from before. */
	uint64_t since[POOL_DEVS_MAX];
	bool away[POOL_DEVS_MAX];
	bool exported; /* no cut since the last writing */
};

static uint64_t area(const struct pool_dev *dev, unsigned copy)
{
	return copy ? dev->size - LABEL_AREA : 0;
}

static const char *area_name(unsigned copy)
{
	return copy ? "back" : "front";
}

/* ---- labels ---- */

static int read_label(const struct devices *d, const struct pool_dev *dev, unsigned copy)
{
	struct label *label = d->copy[copy];
	int rc = dev_read(dev->dev, area(dev, copy) + LABEL_OFFSET, label, sizeof(*label));

	rc = rc ? rc : label_validate(label);
	return rc || (label->pool_guid == d->c->pool->guid && label->dev_guid == dev->guid)
		   ? rc
		   : -ENOENT;
}

/* ---- uberblocks ---- */

/* Many sectors; those that cannot be read are zeros. */
static void read_sectors(const struct pool_dev *dev, uint64_t offset, void *out, unsigned n)
{
	uint8_t *to = out;

	if (!dev_read(dev->dev, offset, to, (size_t)n * SECTOR_SIZE))
		return;
	for (unsigned i = 0; i < n; i++, to += SECTOR_SIZE, offset += SECTOR_SIZE)
		if (dev_read(dev->dev, offset, to, SECTOR_SIZE))
			memset(to, 0, SECTOR_SIZE);
}

static void gather_ubers(struct devices *d, const struct pool_dev *dev)
{
	struct pool *pool = d->c->pool;
	uint64_t *since = &d->since[dev->index];

	*since = UINT64_MAX;
	for (unsigned copy = 0; copy < 2; copy++) {
		read_sectors(dev, area(dev, copy) + UBER_OFFSET, d->ring[copy], UBER_SLOTS);
		for (unsigned i = 0; i < UBER_SLOTS; i++) {
			const struct uberblock *u = &d->ring[copy][i];

			if (uber_validate(u, pool->guid))
				continue;
			if (u->import_counter < pool->uber.import_counter)
				*since = 0;
			if (u->import_counter != pool->uber.import_counter)
				continue;
			if (u->txg < *since)
				*since = u->txg;
			if (!d->want[i].txg || uber_compare(u, &d->want[i]) > 0)
				d->want[i] = *u;
		}
	}
}

/* A device that misses more than the newest one was not there when the pool was used. One that has
   just joined has seen what its label knows. */
static bool was_away(const struct devices *d, const struct pool_dev *dev)
{
	const struct uberblock *newest = &d->c->pool->uber;
	struct uberblock seen = {.import_counter = dev->seen_import, .txg = dev->seen_txg};

	for (unsigned copy = 0; copy < 2 && !dev->seen_txg; copy++) {
		const struct label *label = d->copy[copy];

		if (read_label(d, dev, copy) ||
		    (label->import_counter == seen.import_counter && label->txg < seen.txg))
			continue;
		seen.import_counter = label->import_counter;
		seen.txg = label->txg;
	}
	for (unsigned i = 0; i < UBER_SLOTS; i++) {
		const struct uberblock *u = &d->want[i];

		if (u->txg && uber_compare(u, newest) < 0 && uber_compare(u, &seen) > 0)
			return true;
	}
	return false;
}

/* A whole older one, or nothing: it has been missed, or is one of those that were being written to
   a device that had been away. */
static bool missed(const struct devices *d, const struct uberblock *have,
		   const struct uberblock *want)
{
	static const struct uberblock nothing;

	return !memcmp(have, &nothing, sizeof(nothing)) ||
	       (!uber_validate(have, d->c->pool->guid) && uber_compare(have, want) < 0);
}

static void check_ring(struct devices *d, const struct pool_dev *dev, unsigned copy)
{
	read_sectors(dev, area(dev, copy) + UBER_OFFSET, d->ring[copy], UBER_SLOTS);
	for (unsigned i = 0; i < UBER_SLOTS; i++) {
		const struct uberblock *want = &d->want[i], *have = &d->ring[copy][i];

		if (!want->txg || want->txg < d->since[dev->index] ||
		    !memcmp(want, have, sizeof(*want)) ||
		    (!d->exported &&
		     (missed(d, have, want) || !uber_compare(want, &d->c->pool->uber))))
			continue;
		found(d->c, TARN_FOUND_UBERBLOCK,
		      "%s: the uberblock of txg %llu in the %s label area is damaged or missing",
		      dev->path, (unsigned long long)want->txg, area_name(copy));
	}
}

/* ---- labels, compared ---- */

static void find_best(struct devices *d, const struct pool_dev *dev)
{
	for (unsigned copy = 0; copy < 2; copy++)
		if (!read_label(d, dev, copy) &&
		    (!d->best->seq || label_compare(d->copy[copy], d->best) > 0))
			memcpy(d->best, d->copy[copy], sizeof(*d->best));
}

/* An export that went through has left the same label everywhere. */
static bool labels_exported(struct devices *d, const struct pool_dev *dev)
{
	for (unsigned copy = 0; copy < 2; copy++)
		if (!read_label(d, dev, copy) && label_compare(d->copy[copy], d->best))
			return false;
	return d->best->state == LABEL_EXPORTED;
}

static void check_labels(struct devices *d, const struct pool_dev *dev)
{
	int rc[2] = {read_label(d, dev, 0), read_label(d, dev, 1)};

	for (unsigned copy = 0; copy < 2; copy++) {
		/* Each power cut while labels are written may leave one area further behind. */
		if (rc[copy] && d->exported)
			found(d->c, TARN_FOUND_LABEL, "%s: the %s label is damaged", dev->path,
			      area_name(copy));
	}
	if (!rc[0] && !rc[1] && !label_compare(d->copy[0], d->copy[1]) &&
	    memcmp(d->copy[0], d->copy[1], sizeof(struct label)))
		found(d->c, TARN_FOUND_LABEL, "%s: the two labels differ", dev->path);
}

/* ---- slab tables ---- */

static uint64_t page_offset(const struct pool_dev *dev, unsigned copy, uint32_t page)
{
	return LABEL_AREA + ((uint64_t)copy * dev->table_pages + page) * SECTOR_SIZE;
}

static void check_page(struct devices *d, const struct pool_dev *dev, uint32_t index,
		       const struct slab_page *a, const struct slab_page *b)
{
	bool good[2] = {slab_page_valid(a, dev->guid, index), slab_page_valid(b, dev->guid, index)};

	if (!good[0] && !good[1])
		found(d->c, TARN_FOUND_SLAB_TABLE,
		      "%s: both copies of page %u of the slab table are damaged", dev->path, index);
	else if (good[0] != good[1] && d->exported)
		found(d->c, TARN_FOUND_SLAB_TABLE,
		      "%s: copy %d of page %u of the slab table is damaged", dev->path, !good[1],
		      index);
	else if (good[0] && good[1] && a->seq == b->seq && memcmp(a, b, sizeof(*a)))
		found(d->c, TARN_FOUND_SLAB_TABLE,
		      "%s: the copies of page %u of the slab table differ", dev->path, index);
}

static void check_table(struct devices *d, const struct pool_dev *dev)
{
	uint32_t npages = (dev->slab_count + SLAB_PAGE_ENTRIES - 1) / SLAB_PAGE_ENTRIES;

	for (uint32_t first = 0, n; first < npages; first += n) {
		n = npages - first < PAGES ? npages - first : PAGES;
		for (unsigned copy = 0; copy < 2; copy++)
			read_sectors(dev, page_offset(dev, copy, first), d->pages[copy], n);
		for (uint32_t i = 0; i < n; i++)
			check_page(d, dev, first + i, &d->pages[0][i], &d->pages[1][i]);
	}
}

/* ---- log devices ---- */

/* An export leaves the newest label on each one that works. */
static bool log_was_away(struct devices *d, const struct pool_dev *dev)
{
	for (unsigned copy = 0; copy < 2; copy++)
		if (!read_label(d, dev, copy) && !label_compare(d->copy[copy], d->best))
			return false;
	return d->exported;
}

static void check_log_dev(struct devices *d, const struct pool_dev *dev)
{
	if (!dev->dev)
		found(d->c, TARN_FOUND_DEVICE, "%s: the log device is missing", dev->path);
	else if (log_was_away(d, dev))
		found(d->c, TARN_FOUND_DEVICE, "%s: the log device was away or faulted", dev->path);
	else
		check_labels(d, dev);
}

static void each_log_dev(struct devices *d,
			 void (*fn)(struct devices *d, const struct pool_dev *dev))
{
	struct pool *pool = d->c->pool;

	for (uint32_t g = 0; g < pool->nlogs; g++)
		for (uint32_t i = 0; i < pool->logs[g]->ndevs; i++)
			fn(d, &pool->logs[g]->devs[i]);
}

static void find_best_log(struct devices *d, const struct pool_dev *dev)
{
	if (dev->dev)
		find_best(d, dev);
}

static void judge_export(struct devices *d, const struct pool_dev *dev)
{
	if (dev->dev && !log_was_away(d, dev))
		d->exported &= labels_exported(d, dev);
}

static void check_named_logs(struct devices *d)
{
	const struct uberblock *uber = &d->c->pool->uber;
	const char *missing;

	if (uber->log_id && !ilog_readable(d->c->pool, &missing) && !missing[0])
		found(d->c, TARN_FOUND_UBERBLOCK,
		      "the newest uberblock names log devices that the pool does not have");
}

/* ---- all ---- */

static void check_present(struct devices *d)
{
	struct pool *pool = d->c->pool;

	for (uint32_t i = 0; i < pool->ndevs; i++) {
		const struct pool_dev *dev = &pool->devs[i];

		if (!dev->dev)
			found(d->c, TARN_FOUND_DEVICE, "%s: the device is missing", dev->path);
		else if (d->away[i])
			found(d->c, TARN_FOUND_DEVICE,
			      "%s: the device was away or faulted since txg %llu", dev->path,
			      (unsigned long long)dev->seen_txg);
		else {
			check_labels(d, dev);
			check_ring(d, dev, 0);
			check_ring(d, dev, 1);
		}
		if (dev->dev)
			check_table(d, dev);
	}
	each_log_dev(d, check_log_dev);
	check_named_logs(d);
	if (d->best->txg > pool->uber.txg)
		found(d->c, TARN_FOUND_UBERBLOCK,
		      "the uberblocks after txg %llu, up to %llu, are lost",
		      (unsigned long long)pool->uber.txg, (unsigned long long)d->best->txg);
}

static void look_around(struct devices *d)
{
	struct pool *pool = d->c->pool;

	for (uint32_t i = 0; i < pool->ndevs; i++)
		if (pool->devs[i].dev)
			gather_ubers(d, &pool->devs[i]);
	for (uint32_t i = 0; i < pool->ndevs; i++) {
		const struct pool_dev *dev = &pool->devs[i];

		d->away[i] = dev->dev && was_away(d, dev);
		if (dev->dev && !d->away[i])
			find_best(d, dev);
	}
	each_log_dev(d, find_best_log);
	d->exported = true;
	for (uint32_t i = 0; i < pool->ndevs; i++)
		if (pool->devs[i].dev && !d->away[i])
			d->exported &= labels_exported(d, &pool->devs[i]);
	each_log_dev(d, judge_export);
}

int check_devices(struct check *c)
{
	size_t ring = UBER_SLOTS * sizeof(struct uberblock),
	       pages = PAGES * sizeof(struct slab_page);
	char *memory = dev_buf_alloc(3 * sizeof(struct label) + 3 * ring + 2 * pages);
	struct devices *d = calloc(1, sizeof(*d));
	char *at = memory;

	if (memory && d) {
		*d = (struct devices){.c = c};
		memset(memory, 0, 3 * sizeof(struct label) + 3 * ring);
		d->copy[0] = (struct label *)at;
		d->copy[1] = d->copy[0] + 1;
		d->best = d->copy[0] + 2;
		at += 3 * sizeof(struct label);
		d->ring[0] = (struct uberblock *)at;
		d->ring[1] = d->ring[0] + UBER_SLOTS;
		d->want = d->ring[0] + 2 * UBER_SLOTS;
		at += 3 * ring;
		d->pages[0] = (struct slab_page *)at;
		d->pages[1] = d->pages[0] + PAGES;
		look_around(d);
		check_present(d);
	}
	free(memory);
	free(d);
	return memory && d ? 0 : -ENOMEM;
}
