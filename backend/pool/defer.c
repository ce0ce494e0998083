// SPDX-License-Identifier: LGPL-3.0-or-later
/* Frees: queued in their txg, released after TXG_KEEP commits and all readers, discarded before
   that. And the allocator's part of an import, where the deferred ones come back. */
#include "pool/alloc_impl.h"
#include "pool/label.h"
#include "pool/txgs.h"
#include "util/mem.h"

#include <errno.h>
#include <inttypes.h>

/* Shorter runs are not worth a command to the device. */
#define DISCARD_SECTORS 16
#define DISCARDS_IN_FLIGHT 8

/* ---- queueing ---- */

static struct chunk_space *find_space(struct pool *pool, uint64_t id, uint32_t sector, uint32_t n)
{
	struct chunk *c = chunk_find(pool, id);

	if (!c || !c->space || !n || sector >= c->sectors || n > c->sectors - sector)
		return NULL;
	return c->space;
}

void sync_free(struct txg_sync *s, const struct bp *bp)
{
	struct alloc *a = s->pool->alloc;
	struct chunk_space *cs;
	const struct chunk *c = chunk_find(s->pool, bp->chunk);
	uint32_t n = c ? chunk_rows(c, bp_sectors(bp)) : 0;
	char text[128];

	if (bp_is_hole(bp))
		return;
	pthread_mutex_lock(&a->lock);
	cs = find_space(s->pool, bp->chunk, bp->sector, n);
	if (cs)
		space_unpack(cs);
	if (cs && bitmap_all_set(cs->bits, bp->sector, n)) {
		extents_add(&a->frees, bp->chunk, bp->sector, n);
		cs->deferred += n;
		a->deferred_sectors += n * cs->width;
		space_changed(a, cs, a->released_txg + 1);
	} else {
		pool_log(s->pool, TARN_LOG_ERROR, "free of a block that is not allocated: %s",
			 bp_print(bp, text));
	}
	pthread_mutex_unlock(&a->lock);
}

static uint64_t extents_sectors(struct pool *pool, const struct extents *list)
{
	uint64_t n = 0;

	for (size_t i = 0; i < list->n; i++)
		n += (uint64_t)list->e[i].count *
		     chunk_data_cols(chunk_find(pool, list->e[i].chunk));
	return n;
}

/* Lock held. */
static void queue_frees(struct pool *pool, uint64_t txg)
{
	struct alloc *a = pool->alloc;
	struct free_batch *b;

	if (!a->frees.n)
		return;
	b = mem_zalloc(sizeof(*b));
	b->txg = txg;
	b->epoch = epoch_current(pool);
	b->extents = a->frees;
	a->frees = (struct extents){0};
	extents_sort(&b->extents);
	b->sectors = extents_sectors(pool, &b->extents);
	TAILQ_INSERT_TAIL(&a->batches, b, link);
}

/* ---- discarding ---- */

struct discard {
	struct pool *pool;
	struct free_batch *batch;
	struct {
		struct dev *dev;
		uint64_t offset, length;
	} * items;
	size_t n, room;
	atomic_size_t next;
	atomic_uint running;
	struct dev_io io[DISCARDS_IN_FLIGHT];
};

static void add_discards(struct discard *d, const struct extent *e)
{
	const struct chunk *c = chunk_find(d->pool, e->chunk);

	for (unsigned i = 0; i < c->ncols; i++) {
		struct dev *dev = d->pool->devs[c->cols[i].dev].dev;

		if (c->cols[i].slab == CHUNK_NO_SLAB || !dev || !dev->geo.discard ||
		    !pool_dev_usable(&d->pool->devs[c->cols[i].dev]))
			continue;
		d->items = mem_grow(d->items, d->n, &d->room, sizeof(*d->items));
		d->items[d->n].dev = dev;
		d->items[d->n].offset = chunk_offset(d->pool, c, i, e->sector);
		d->items[d->n++].length = (uint64_t)e->count << SECTOR_SHIFT;
	}
}

static void discard_end(struct discard *d)
{
	struct alloc *a = d->pool->alloc;

	if (atomic_fetch_sub(&d->running, 1) != 1)
		return;
	pthread_mutex_lock(&a->lock);
	d->batch->state = BATCH_READY;
	a->discards--;
	pthread_cond_broadcast(&a->discarded);
	pthread_mutex_unlock(&a->lock);
	free(d->items);
	free(d);
}

/* A discard is a favour to the device: its failure changes nothing. */
static void discard_next(struct dev_io *io)
{
	struct discard *d = io->owner;
	size_t i = atomic_fetch_add(&d->next, 1);

	if (i >= d->n || !pool_may_write(d->pool)) {
		discard_end(d);
		return;
	}
	io->offset = d->items[i].offset;
	io->length = d->items[i].length;
	dev_submit(d->items[i].dev, io);
}

/* Lock held. The sectors stay allocated until all discards are answered. */
static struct discard *prepare_discard(struct pool *pool, struct free_batch *b)
{
	struct discard *d = mem_zalloc(sizeof(*d));

	d->pool = pool;
	d->batch = b;
	for (size_t i = 0; i < b->extents.n; i++) {
		if (b->extents.e[i].count >= DISCARD_SECTORS)
			add_discards(d, &b->extents.e[i]);
	}
	if (!d->n) {
		b->state = BATCH_READY;
		free(d);
		return NULL;
	}
	b->state = BATCH_DISCARDING;
	pool->alloc->discards++;
	return d;
}

static void run_discard(struct discard *d)
{
	atomic_init(&d->running, DISCARDS_IN_FLIGHT);
	for (unsigned i = 0; i < DISCARDS_IN_FLIGHT; i++) {
		d->io[i] = (struct dev_io){.op = DEV_DISCARD, .owner = d, .done = discard_next};
		discard_next(&d->io[i]);
	}
}

/* ---- releasing ---- */

/* Lock held. */
static void release(struct pool *pool, struct free_batch *b)
{
	struct alloc *a = pool->alloc;

	for (size_t i = 0; i < b->extents.n; i++) {
		const struct extent *e = &b->extents.e[i];
		struct chunk_space *cs = chunk_find(pool, e->chunk)->space;

		space_mark(a, cs, e->sector, e->count, false);
		cs->deferred -= e->count;
	}
	a->deferred_sectors -= b->sectors;
	a->released_txg = b->txg;
	TAILQ_REMOVE(&a->batches, b, link);
	extents_free(&b->extents);
	free(b);
}

/* Lock held; in order of txgs, for released_txg. Returns a discard to be started. */
static struct discard *release_old(struct pool *pool, uint64_t committed)
{
	struct alloc *a = pool->alloc;
	struct discard *d = NULL;
	struct free_batch *b;

	while ((b = TAILQ_FIRST(&a->batches)) && b->txg + TXG_KEEP <= committed) {
		if (b->state == BATCH_WAITS && epoch_passed(pool, b->epoch))
			d = prepare_discard(pool, b);
		if (b->state != BATCH_READY)
			return d;
		release(pool, b);
	}
	/* No frees are left up to there. */
	if (committed >= TXG_KEEP && a->released_txg < committed - TXG_KEEP)
		a->released_txg = committed - TXG_KEEP;
	return NULL;
}

void alloc_committed(struct txg_sync *s)
{
	struct alloc *a = s->pool->alloc;
	struct discard *discard;
	struct chunk_space *cs;

	pthread_mutex_lock(&a->lock);
	queue_frees(s->pool, s->txg);
	while ((cs = SLIST_FIRST(&a->touched))) {
		SLIST_REMOVE_HEAD(&a->touched, touched_link);
		cs->touched = false;
		extents_free(&cs->allocs);
	}
	pthread_mutex_unlock(&a->lock);

	epoch_advance(s->pool);

	pthread_mutex_lock(&a->lock);
	discard = release_old(s->pool, s->txg);
	alloc_refresh(s->pool);
	pthread_mutex_unlock(&a->lock);
	if (discard)
		run_discard(discard);
	reserve_settle(s->pool, s->txg);
}

void alloc_wait_discards(struct pool *pool)
{
	struct alloc *a = pool->alloc;

	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	while (a->discards)
		pthread_cond_wait(&a->discarded, &a->lock);
	pthread_mutex_unlock(&a->lock);
}

void defer_destroy(struct pool *pool)
{
	struct alloc *a = pool->alloc;
	struct free_batch *b;

	alloc_wait_discards(pool);
	pthread_mutex_lock(&a->lock);
	while ((b = TAILQ_FIRST(&a->batches))) {
		TAILQ_REMOVE(&a->batches, b, link);
		extents_free(&b->extents);
		free(b);
	}
	extents_free(&a->frees);
	pthread_mutex_unlock(&a->lock);
}

/* ---- import ---- */

int alloc_load_chunk(struct pool *pool, struct chunk *chunk, const struct chunk_record *record)
{
	const uint8_t *packed = (const uint8_t *)&record->cols[record->ncols];
	struct alloc *a = pool->alloc;
	uint64_t *bits = mem_zalloc(chunk->sectors / 8);
	struct chunk_space *cs;
	uint32_t at, to = 0;
	int rc = -EIO;

	pthread_mutex_lock(&a->lock);
	cs = space_add(pool, chunk);
	cs->alloc_txg = record->alloc_txg;
	cs->free_txg = record->free_txg;
	if (bitmap_unpack(record->packing, packed, record->bitmap_len, bits, chunk->sectors) &&
	    record->alloc_txg <= pool->uber.txg) {
		while ((at = bitmap_next(bits, chunk->sectors, to, true)) < chunk->sectors) {
			to = bitmap_next(bits, chunk->sectors, at, false);
			space_mark(a, cs, at, to - at, true);
		}
		space_pack(cs, record->packing, packed, record->bitmap_len);
		rc = 0;
	}
	pthread_mutex_unlock(&a->lock);
	free(bits);
	return rc;
}

/* Entries of chunks that have been given back since are of no account. */
static int find_listed(struct pool *pool, const struct extent *e, struct chunk_space **out)
{
	struct chunk *c = chunk_find(pool, e->chunk);

	*out = NULL;
	if (!c || !c->listed)
		return 0;
	*out = find_space(pool, e->chunk, e->sector, e->count);
	if (!*out)
		return -EIO;
	space_unpack(*out);
	return 0;
}

/* All frees up to this one have taken effect as of the uberblock. */
static uint64_t released_before(const struct pool *pool)
{
	return pool->uber.txg > TXG_KEEP ? pool->uber.txg - TXG_KEEP : 0;
}

static uint64_t first_replayed(const struct pool *pool)
{
	uint64_t next = released_before(pool) + 1;

	return pool->uber.alog_tail < next ? pool->uber.alog_tail : next;
}

int alloc_load_change(struct pool *pool, uint64_t txg, const struct extent *e, bool alloc)
{
	struct alloc *a = pool->alloc;
	struct chunk_space *cs;
	int rc;

	pthread_mutex_lock(&a->lock);
	rc = find_listed(pool, e, &cs);
	if (!rc && cs && txg > (alloc ? cs->alloc_txg : cs->free_txg)) {
		if ((alloc ? bitmap_all_clear : bitmap_all_set)(cs->bits, e->sector, e->count)) {
			space_mark(a, cs, e->sector, e->count, alloc);
			space_changed(a, cs, first_replayed(pool));
		} else {
			rc = -EIO;
		}
	}
	pthread_mutex_unlock(&a->lock);
	return rc;
}

int alloc_load_deferred(struct pool *pool, uint64_t txg, const struct extent *e)
{
	struct alloc *a = pool->alloc;
	struct chunk_space *cs;
	struct free_batch *b;
	int rc;

	pthread_mutex_lock(&a->lock);
	b = TAILQ_LAST(&a->batches, free_batch_head);
	rc = find_listed(pool, e, &cs);
	if (!rc && cs && !bitmap_all_set(cs->bits, e->sector, e->count))
		rc = -EIO;
	if (!rc && cs) {
		if (!b || b->txg != txg) {
			b = mem_zalloc(sizeof(*b));
			b->txg = txg;
			TAILQ_INSERT_TAIL(&a->batches, b, link);
		}
		extents_add(&b->extents, e->chunk, e->sector, e->count);
		b->sectors += (uint64_t)e->count * cs->width;
		cs->deferred += e->count;
		a->deferred_sectors += (uint64_t)e->count * cs->width;
		space_changed(a, cs, first_replayed(pool));
	}
	pthread_mutex_unlock(&a->lock);
	return rc;
}

int alloc_load_done(struct pool *pool)
{
	struct alloc *a = pool->alloc;
	struct extents all = {0};
	struct free_batch *b;
	bool disjoint;

	pthread_mutex_lock(&a->lock);
	TAILQ_FOREACH(b, &a->batches, link)
	{
		for (size_t i = 0; i < b->extents.n; i++)
			extents_add(&all, b->extents.e[i].chunk, b->extents.e[i].sector,
				    b->extents.e[i].count);
		/* No reader of this import can know them. */
		b->epoch = 0;
	}
	disjoint = extents_sort(&all);
	extents_free(&all);
	a->released_txg = released_before(pool);
	alloc_refresh(pool);
	pthread_mutex_unlock(&a->lock);
	return disjoint ? 0 : -EIO;
}

void alloc_each_deferred(struct pool *pool, void (*fn)(void *arg, const struct extent *run),
			 void *arg)
{
	struct alloc *a = pool->alloc;
	struct free_batch *b;

	pthread_mutex_lock(&a->lock);
	TAILQ_FOREACH(b, &a->batches, link)
	{
		for (size_t i = 0; i < b->extents.n; i++)
			fn(arg, &b->extents.e[i]);
	}
	pthread_mutex_unlock(&a->lock);
}
