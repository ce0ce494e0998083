// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Where a log lies. On log devices it is striped over their groups, extent by extent; a group's
 * part is the same on each of the copies that it began with.
 */
#include "pool/ilog_impl.h"

#include "pool/logdev.h"

#define EXTENT_BYTES (ILOG_EXTENT_SECTORS << SECTOR_SHIFT)
/* More would not be filled between two commits, and has to be looked through after a crash. */
#define RING_EXTENTS_MAX 2048

/* Of all groups as much as the smallest has. */
static void set_size(struct ring *ring, uint64_t smallest)
{
	uint64_t each = (smallest - 2 * LABEL_AREA) / EXTENT_BYTES;

	if (each * ring->nparts > RING_EXTENTS_MAX)
		each = RING_EXTENTS_MAX / ring->nparts;
	ring->sectors = each * ring->nparts * ILOG_EXTENT_SECTORS;
}

static struct log_group *find(struct pool *pool, uint64_t guid, struct pool_dev **dev)
{
	for (uint32_t g = 0; g < pool->nlogs; g++) {
		for (uint32_t i = 0; i < pool->logs[g]->ndevs; i++) {
			*dev = &pool->logs[g]->devs[i];
			if ((*dev)->guid == guid)
				return pool->logs[g];
		}
	}
	return NULL;
}

void ring_named(struct pool *pool, const uint64_t guids[POOL_LOG_DEVS_MAX], struct ring *out)
{
	struct log_group *last = NULL, *log;
	uint64_t smallest = UINT64_MAX;
	struct ring_part *part = NULL;
	struct pool_dev *dev;

	*out = (struct ring){0};
	if (!guids[0]) {
		out->sectors = pool->ilog->own_sectors;
		return;
	}
	for (uint32_t i = 0; i < POOL_LOG_DEVS_MAX && guids[i]; i++) {
		log = find(pool, guids[i], &dev);
		if (!log)
			return; /* nor is it known how large its part was */
		if (log != last) {
			if (out->nparts == POOL_LOGS_MAX)
				return;
			part = &out->parts[out->nparts++];
		}
		if (part->ncopies == POOL_MIRROR_MAX)
			return;
		part->copies[part->ncopies++] = dev;
		smallest = log->size < smallest ? log->size : smallest;
		last = log;
	}
	set_size(out, smallest);
}

void ring_choose(struct pool *pool, struct ring *out)
{
	uint64_t smallest = UINT64_MAX;

	*out = (struct ring){0};
	pthread_mutex_lock(&pool->logs_lock);
	for (uint32_t g = 0; g < pool->nlogs; g++) {
		struct log_group *log = pool->logs[g];
		struct ring_part *part = &out->parts[out->nparts];

		if (log->leaving || !log_usable(log, false))
			continue;
		for (uint32_t i = 0; i < log->ndevs; i++) {
			if (pool_dev_usable(&log->devs[i]))
				part->copies[part->ncopies++] = &log->devs[i];
		}
		out->nparts += part->ncopies > 0;
		smallest = log->size < smallest ? log->size : smallest;
	}
	pthread_mutex_unlock(&pool->logs_lock);
	if (out->nparts)
		set_size(out, smallest);
	else
		out->sectors = pool->ilog->own_sectors;
}

void ring_guids(const struct ring *ring, uint64_t out[POOL_LOG_DEVS_MAX])
{
	uint32_t n = 0;

	memset(out, 0, POOL_LOG_DEVS_MAX * sizeof(*out));
	for (uint32_t p = 0; p < ring->nparts; p++) {
		for (uint32_t i = 0; i < ring->parts[p].ncopies; i++)
			out[n++] = ring->parts[p].copies[i]->guid;
	}
}

struct place ring_place(const struct ilog *log, uint64_t pos, uint64_t count)
{
	uint64_t at = pos % log->ring.sectors;
	uint32_t i = (uint32_t)(at / ILOG_EXTENT_SECTORS);
	uint32_t in = (uint32_t)(at % ILOG_EXTENT_SECTORS);
	uint64_t left = ILOG_EXTENT_SECTORS - in, row;
	struct place p = {.count = (uint32_t)(count < left ? count : left)};

	if (!log->ring.nparts) {
		p.chunk = log->chunks[i];
		p.sector = log->extents[i].sector + in;
		p.ncopies = p.chunk->ncols;
		return p;
	}
	row = i / log->ring.nparts;
	p.part = &log->ring.parts[i % log->ring.nparts];
	p.offset = LABEL_AREA + row * EXTENT_BYTES + ((uint64_t)in << SECTOR_SHIFT);
	p.ncopies = p.part->ncopies;
	return p;
}

struct pool_dev *place_copy(const struct ilog *log, const struct place *p, unsigned copy,
			    uint64_t *offset)
{
	struct pool_dev *dev;

	copy %= p->ncopies;
	if (p->part) {
		*offset = p->offset;
		dev = p->part->copies[copy];
	} else {
		if (p->chunk->cols[copy].slab == CHUNK_NO_SLAB)
			return NULL;
		*offset = chunk_offset(log->pool, p->chunk, copy, p->sector);
		dev = &log->pool->devs[p->chunk->cols[copy].dev];
	}
	return dev->dev ? dev : NULL;
}

bool place_may_write(const struct ilog *log, const struct place *p, unsigned copy)
{
	const struct pool_dev *dev =
	    p->part ? p->part->copies[copy] : &log->pool->devs[p->chunk->cols[copy].dev];

	return pool_may_write(log->pool) && pool_dev_usable(dev) &&
	       (p->part || chunk_col_written(p->chunk, copy));
}

static const char *part_missing(const struct ring_part *part)
{
	for (uint32_t i = 0; i < part->ncopies; i++) {
		if (pool_dev_usable(part->copies[i]))
			return NULL;
	}
	return part->copies[0]->path;
}

bool ilog_readable(struct pool *pool, const char **missing)
{
	struct ring ring;

	*missing = NULL;
	if (!pool->uber.log_devs[0])
		return true;
	ring_named(pool, pool->uber.log_devs, &ring);
	if (!ring.sectors)
		*missing = "";
	for (uint32_t i = 0; i < ring.nparts && !*missing; i++)
		*missing = part_missing(&ring.parts[i]);
	return !*missing;
}
