// SPDX-License-Identifier: LGPL-3.0-or-later
#include "pool/slab.h"

#include <errno.h>
#include <stdlib.h>

#include "pool/chunk.h"
#include "pool/devio.h"
#include "pool/label.h"

struct page_state {
	uint64_t seq;
	uint64_t txg; /* of the last write, 0: before this import */
	uint8_t last; /* the copy written last */
	bool dirty;   /* entries changed since */
	bool behind;  /* the other copy is older, or damaged */
};

struct release {
	uint32_t slab;
	uint64_t txg;
};

struct slab_table {
	pthread_mutex_t lock;
	uint64_t uber_txg; /* at import */
	uint64_t first_txg;
	uint32_t count, npages;
	atomic_uint free;
	uint32_t cursor; /* where the search for a free slab goes on */
	struct slab_entry *entries;
	struct page_state *pages;
	/* Released slabs in the order of their txgs: a ring with room for all. */
	struct release *released;
	uint32_t first_released, nreleased;
};

static uint32_t pages_for(uint32_t slabs)
{
	return (slabs + SLAB_PAGE_ENTRIES - 1) / SLAB_PAGE_ENTRIES;
}

static uint64_t page_offset(const struct pool_dev *dev, unsigned copy, uint32_t page)
{
	return LABEL_AREA + ((uint64_t)copy * dev->table_pages + page) * SECTOR_SIZE;
}

bool slab_page_valid(const struct slab_page *page, uint64_t dev_guid, uint32_t index)
{
	return !disk_check(&page->head, SLAB_MAGIC, sizeof(*page)) && page->dev_guid == dev_guid &&
	       page->index == index && page->seq;
}

static void fill_page(const struct pool_dev *dev, uint32_t index, struct slab_page *page)
{
	const struct slab_table *table = dev->slabs;

	memset(page, 0, sizeof(*page));
	page->dev_guid = dev->guid;
	page->index = index;
	page->seq = table->pages[index].seq;
	memcpy(page->entries, &table->entries[index * SLAB_PAGE_ENTRIES], sizeof(page->entries));
	disk_seal(&page->head, SLAB_MAGIC, sizeof(*page));
}

/* ---- life ---- */

static struct slab_table *new_table(uint32_t count)
{
	struct slab_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->count = count;
	table->npages = pages_for(count);
	table->entries = calloc((size_t)table->npages * SLAB_PAGE_ENTRIES, sizeof(*table->entries));
	table->pages = calloc(table->npages, sizeof(*table->pages));
	table->released = calloc(count, sizeof(*table->released));
	if (!table->entries || !table->pages || !table->released) {
		free(table->entries);
		free(table->pages);
		free(table->released);
		free(table);
		return NULL;
	}
	pthread_mutex_init(&table->lock, NULL);
	atomic_init(&table->free, count);
	return table;
}

void slab_table_free(struct pool_dev *dev)
{
	struct slab_table *table = dev->slabs;

	if (!table)
		return;
	dev->slabs = NULL;
	pthread_mutex_destroy(&table->lock);
	free(table->entries);
	free(table->pages);
	free(table->released);
	free(table);
}

int slab_table_create(struct pool_dev *dev)
{
	struct slab_page *pages;
	int rc = 0;

	dev->slabs = new_table(dev->slab_count);
	if (!dev->slabs)
		return -ENOMEM;
	uint32_t npages = dev->slabs->npages;
	pages = dev_buf_alloc((size_t)npages * sizeof(*pages));
	if (!pages) {
		slab_table_free(dev);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < npages; i++) {
		dev->slabs->pages[i].seq = 1;
		fill_page(dev, i, &pages[i]);
	}
	for (unsigned copy = 0; copy < 2 && !rc; copy++)
		rc = dev_write(dev->dev, page_offset(dev, copy, 0), pages, npages * sizeof(*pages));
	free(pages);
	if (rc)
		slab_table_free(dev);
	return rc;
}

/* One copy of the table; pages that cannot be read are zeros. */
static void read_copy(struct pool_dev *dev, unsigned copy, struct slab_page *pages, uint32_t npages)
{
	if (!dev_read(dev->dev, page_offset(dev, copy, 0), pages, npages * sizeof(*pages)))
		return;
	for (uint32_t i = 0; i < npages; i++) {
		if (dev_read(dev->dev, page_offset(dev, copy, i), &pages[i], sizeof(*pages)))
			memset(&pages[i], 0, sizeof(*pages));
	}
}

/* Takes the newer good copy of a page; false if there is none. */
static bool load_page(struct pool_dev *dev, uint32_t index, const struct slab_page *a,
		      const struct slab_page *b)
{
	struct slab_table *table = dev->slabs;
	struct page_state *state = &table->pages[index];
	const struct slab_page *best;
	bool a_good = slab_page_valid(a, dev->guid, index);
	bool b_good = slab_page_valid(b, dev->guid, index);

	if (!a_good && !b_good) {
		*state = (struct page_state){.dirty = true};
		return false;
	}
	best = !b_good || (a_good && a->seq >= b->seq) ? a : b;
	*state = (struct page_state){
	    .seq = best->seq, .last = best == b, .behind = !a_good || !b_good || a->seq != b->seq};
	memcpy(&table->entries[index * SLAB_PAGE_ENTRIES], best->entries, sizeof(best->entries));
	return true;
}

static void count_free(struct slab_table *table)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < table->count; i++)
		n += table->entries[i].chunk == 0;
	atomic_store(&table->free, n);
}

int slab_table_load(struct pool *pool, struct pool_dev *dev)
{
	struct slab_page *pages;
	uint32_t npages, lost = 0;

	if (!dev->dev)
		return 0;
	dev->slabs = new_table(dev->slab_count);
	if (!dev->slabs)
		return -ENOMEM;
	npages = dev->slabs->npages;
	pages = dev_buf_alloc(2 * (size_t)npages * sizeof(*pages));
	if (!pages) {
		slab_table_free(dev);
		return -ENOMEM;
	}
	dev->slabs->uber_txg = pool->uber.txg;
	/* Of a device that comes later: the running sync's. */
	dev->slabs->first_txg =
	    pool->uber.txg < pool->first_txg ? pool->first_txg : pool->uber.txg + 1;
	read_copy(dev, 0, pages, npages);
	read_copy(dev, 1, pages + npages, npages);
	for (uint32_t i = 0; i < npages; i++)
		lost += !load_page(dev, i, &pages[i], &pages[npages + i]);
	free(pages);
	count_free(dev->slabs);
	if (lost)
		pool_log(pool, TARN_LOG_ERROR,
			 "device %s: both copies of %u pages of the slab table are damaged; "
			 "what they named is lost there",
			 dev->path, lost);
	return 0;
}

/* ---- taking and giving back ---- */

static void mark(struct slab_table *table, uint32_t slab)
{
	table->pages[slab / SLAB_PAGE_ENTRIES].dirty = true;
}

static void make_free(struct slab_table *table, uint32_t slab)
{
	table->entries[slab] = (struct slab_entry){0};
	mark(table, slab);
	atomic_fetch_add(&table->free, 1);
}

static void queue_release(struct slab_table *table, uint32_t slab, uint64_t txg)
{
	uint32_t at = (table->first_released + table->nreleased++) % table->count;

	assert(table->nreleased <= table->count);
	table->released[at] = (struct release){.slab = slab, .txg = txg};
}

uint32_t slab_free_count(const struct pool_dev *dev)
{
	const struct slab_table *table = pool_dev_usable(dev) ? dev->slabs : NULL;

	return table ? atomic_load(&table->free) : 0;
}

int slab_take(struct pool_dev *dev, struct txg_sync *s, const struct slab_entry *entry,
	      uint32_t *slab)
{
	struct slab_table *table = dev->slabs;
	/* Two columns on one device lie far apart: what damages one spares the other. */
	bool second = entry->profile == PROFILE_DUP && entry->column;
	uint32_t away = table && second ? table->count / 2 : 0;
	int rc = -ENOSPC;

	if (!table || !pool_dev_usable(dev))
		return -ENXIO;
	pthread_mutex_lock(&table->lock);
	for (uint32_t i = 0; i < table->count && rc; i++) {
		uint32_t n = (table->cursor + away + i) % table->count;

		if (table->entries[n].chunk)
			continue;
		table->entries[n] = *entry;
		table->entries[n].txg = s->txg;
		mark(table, n);
		atomic_fetch_sub(&table->free, 1);
		if (!away)
			table->cursor = n + 1;
		*slab = n;
		rc = 0;
	}
	pthread_mutex_unlock(&table->lock);
	return rc;
}

void slab_release(struct pool_dev *dev, struct txg_sync *s, uint32_t slab)
{
	struct slab_table *table = dev->slabs;

	if (!table)
		return;
	pthread_mutex_lock(&table->lock);
	assert(slab < table->count && table->entries[slab].chunk);
	queue_release(table, slab, s->txg);
	pthread_mutex_unlock(&table->lock);
}

void slab_discard(struct pool_dev *dev, uint32_t slab)
{
	struct slab_table *table = dev->slabs;

	pthread_mutex_lock(&table->lock);
	/* An older claim may be one of the last uberblocks' still. One from after the uberblock
	   must not be there when later uberblocks make it look old. */
	if (table->entries[slab].txg <= table->uber_txg)
		queue_release(table, slab, table->first_txg);
	else
		make_free(table, slab);
	pthread_mutex_unlock(&table->lock);
}

int slab_each(struct pool_dev *dev,
	      int (*fn)(void *arg, struct pool_dev *dev, uint32_t slab,
			const struct slab_entry *entry),
	      void *arg)
{
	struct slab_table *table = dev->slabs;
	int rc = 0;

	for (uint32_t i = 0; table && i < table->count && !rc; i++) {
		struct slab_entry entry = table->entries[i];

		if (entry.chunk)
			rc = fn(arg, dev, i, &entry);
	}
	return rc;
}

bool slab_claims(const struct pool_dev *dev, uint32_t slab, uint64_t chunk, unsigned column,
		 uint64_t generation)
{
	const struct slab_entry *e = slab < dev->slabs->count ? &dev->slabs->entries[slab] : NULL;

	return e && e->chunk == chunk && e->column == column && e->generation == generation;
}

/* What was written last may not have arrived: it is to be written again, in the same place. */
static void rewrite_page(struct page_state *state)
{
	state->last = !state->last;
	state->txg = 0;
	state->dirty = true;
}

void slab_table_dirty(struct pool_dev *dev)
{
	struct slab_table *table = dev->slabs;

	pthread_mutex_lock(&table->lock);
	for (uint32_t i = 0; i < table->npages; i++)
		rewrite_page(&table->pages[i]);
	pthread_mutex_unlock(&table->lock);
}

/* ---- sync ---- */

/* In this sync the last TXG_KEEP uberblocks are those of txg - TXG_KEEP and after; none of
   them names a slab released in or before the first of their txgs. */
static void mature(struct slab_table *table, uint64_t txg)
{
	while (table->nreleased) {
		struct release *r = &table->released[table->first_released];

		if (r->txg + TXG_KEEP > txg)
			break;
		make_free(table, r->slab);
		table->first_released = (table->first_released + 1) % table->count;
		table->nreleased--;
	}
}

/* The copy that this txg may overwrite: a second pass goes to the same one again. */
static unsigned target(const struct page_state *state, uint64_t txg)
{
	return state->txg == txg ? state->last : !state->last;
}

static bool due(const struct page_state *state, uint64_t txg)
{
	return state->dirty || (state->behind && state->txg != txg);
}

struct dev_pages {
	struct pool_dev *dev;
	struct slab_page *pages;
	uint32_t *index;
	uint32_t n;
};

/* Copies the pages that are due; they count as written. */
static int collect(struct pool_dev *dev, uint64_t txg, struct dev_pages *out)
{
	struct slab_table *table = dev->slabs;
	uint32_t n = 0, room = 0;

	*out = (struct dev_pages){.dev = dev};
	pthread_mutex_lock(&table->lock);
	mature(table, txg);
	for (uint32_t i = 0; i < table->npages; i++)
		room += due(&table->pages[i], txg);
	if (room) {
		out->pages = dev_buf_alloc((size_t)room * sizeof(*out->pages));
		out->index = malloc(room * sizeof(*out->index));
	}
	for (uint32_t i = 0; i < table->npages && out->pages && out->index; i++) {
		struct page_state *state = &table->pages[i];

		if (!due(state, txg))
			continue;
		state->seq += state->dirty;
		fill_page(dev, i, &out->pages[n]);
		out->index[n++] = i;
		state->last = target(state, txg);
		state->behind = state->dirty;
		state->dirty = false;
		state->txg = txg;
	}
	pthread_mutex_unlock(&table->lock);
	out->n = n;
	return n == room ? 0 : -ENOMEM;
}

/* Writes what collect() gave, neighbours in one request. */
static int write_pages(struct dev_pages *p)
{
	const struct page_state *state = p->dev->slabs->pages;
	struct devio *ios = malloc(p->n * sizeof(*ios));
	uint32_t nios = 0;
	int rc = 0;

	if (!ios)
		return -ENOMEM;
	for (uint32_t i = 0, n; i < p->n; i += n) {
		unsigned copy = state[p->index[i]].last;

		for (n = 1; i + n < p->n && p->index[i + n] == p->index[i] + n &&
			    state[p->index[i + n]].last == copy;)
			n++;
		ios[nios++] = devio(p->dev->dev, DEV_WRITE, page_offset(p->dev, copy, p->index[i]),
				    &p->pages[i], n * sizeof(*p->pages));
	}
	devio_run(ios, nios);
	for (uint32_t i = 0; i < nios; i++)
		rc = rc ? rc : ios[i].io.result;
	free(ios);
	return rc;
}

static int sync_dev(struct pool *pool, struct pool_dev *dev, uint64_t txg)
{
	struct dev_pages p;
	int rc = collect(dev, txg, &p);
	int failed = rc || !p.n ? 0 : write_pages(&p);

	if (failed) {
		atomic_fetch_add(&dev->write_errors, 1);
		pool_dev_fault(pool, dev, "writing the slab table", failed);
	}
	free(p.pages);
	free(p.index);
	return rc;
}

int slab_sync(struct txg_sync *s)
{
	struct pool *pool = s->pool;
	uint32_t ndevs = __atomic_load_n(&pool->ndevs, __ATOMIC_ACQUIRE);

	if (!pool_may_write(pool))
		return -EIO;
	for (uint32_t i = 0; i < ndevs; i++) {
		struct pool_dev *dev = &pool->devs[i];
		int rc = dev->slabs && pool_dev_usable(dev) ? sync_dev(pool, dev, s->txg) : 0;

		if (rc)
			return rc;
	}
	return pool_groups_usable(pool) ? 0 : -EIO;
}
