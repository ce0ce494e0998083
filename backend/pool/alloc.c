// SPDX-License-Identifier: LGPL-3.0-or-later
#include "pool/alloc.h"

#include "pool/alloc_impl.h"
#include "pool/alog.h"
#include "pool/slab.h"
#include "pool/txgs.h"
#include "util/mem.h"

#include <errno.h>
#include <inttypes.h>

/* Sectors that a group gets before the next one's turn, if it is the one with most space. */
#define STRIPE_SECTORS 2048
/* Runs of up to this many sectors fill crumbs rather than break whole windows. */
#define SMALL_RUN 16

/* ---- lists of extents ---- */

void extents_add(struct extents *list, uint64_t chunk, uint32_t sector, uint32_t count)
{
	struct extent *last = list->n ? &list->e[list->n - 1] : NULL;

	if (last && last->chunk == chunk && last->sector + last->count == sector) {
		last->count += count;
		return;
	}
	list->e = mem_grow(list->e, list->n, &list->room, sizeof(*list->e));
	list->e[list->n++] = (struct extent){chunk, sector, count};
}

static int extent_compare(const void *a, const void *b)
{
	const struct extent *x = a, *y = b;

	if (x->chunk != y->chunk)
		return x->chunk < y->chunk ? -1 : 1;
	return (x->sector > y->sector) - (x->sector < y->sector);
}

bool extents_sort(struct extents *list)
{
	struct extents out = {.e = list->e, .room = list->room};
	bool disjoint = true;

	if (!list->n)
		return true;
	qsort(list->e, list->n, sizeof(*list->e), extent_compare);
	for (size_t i = 0; i < list->n; i++) {
		struct extent e = list->e[i];
		const struct extent *last = out.n ? &out.e[out.n - 1] : NULL;

		if (last && last->chunk == e.chunk && e.sector < last->sector + last->count)
			disjoint = false;
		extents_add(&out, e.chunk, e.sector, e.count);
	}
	list->n = out.n;
	return disjoint;
}

void extents_free(struct extents *list)
{
	free(list->e);
	*list = (struct extents){0};
}

/* ---- one chunk's bitmap ---- */

/* Columns of data of a chunk over the whole group. */
static uint32_t group_data(const struct pool_group *g)
{
	return pool_kind_parity(g->kind) ? g->ndevs - pool_kind_parity(g->kind) : 1;
}

/* Changing it needs the bits themselves; the packed form was checked when it came. */
void space_unpack(struct chunk_space *cs)
{
	if (cs->bits)
		return;
	cs->bits = mem_zalloc(cs->chunk->sectors / 8);
	bitmap_unpack(cs->packing, cs->packed, cs->packed_len, cs->bits, cs->chunk->sectors);
	free(cs->packed);
	cs->packed = NULL;
}

void space_pack(struct chunk_space *cs, uint8_t packing, const uint8_t *packed, uint32_t len)
{
	if (packing != BITMAP_RUNS || len > cs->chunk->sectors / 32)
		return;
	cs->packed = mem_must(malloc(len ? len : 1));
	memcpy(cs->packed, packed, len);
	cs->packed_len = len;
	cs->packing = packing;
	free(cs->bits);
	cs->bits = NULL;
}

static void set_empty(struct alloc *a, struct chunk_space *cs, bool empty)
{
	if (empty)
		TAILQ_INSERT_TAIL(&a->empty, cs, empty_link);
	else
		TAILQ_REMOVE(&a->empty, cs, empty_link);
}

/* The one place where bits change. */
void space_mark(struct alloc *a, struct chunk_space *cs, uint32_t sector, uint32_t n, bool set)
{
	struct group_space *g = &a->groups[cs->chunk->group];
	bool was_empty = !cs->used;

	space_unpack(cs);
	(set ? bitmap_set : bitmap_clear)(cs->bits, sector, n);
	/* What is allocated now is written to columns being filled, too; what is free need not be
	   copied. */
	if (cs->fill)
		bitmap_clear(cs->fill, sector, n);
	if (set) {
		/* Until alloc_refresh() reservations see less, never more than there is. */
		atomic_fetch_sub(&a->free, n * cs->width);
		atomic_fetch_sub(&a->small, n);
		atomic_fetch_add(&a->used, n * cs->width);
	}
	for (uint32_t at = sector, left = n; left;) {
		uint16_t *window = &cs->windows[at / cs->window];
		uint32_t room = cs->window - at % cs->window, piece = room < left ? room : left;

		if (!*window && set) {
			cs->free_windows--;
			g->free_windows--;
			atomic_fetch_sub(&a->large, WINDOW);
		}
		*window = (uint16_t)(set ? *window + piece : *window - piece);
		if (!*window) {
			cs->free_windows++;
			g->free_windows++;
		}
		at += piece;
		left -= piece;
	}
	cs->used = set ? cs->used + n : cs->used - n;
	g->used = set ? g->used + n * cs->width : g->used - n * cs->width;
	g->free_bits = set ? g->free_bits - n : g->free_bits + n;
	if (was_empty != !cs->used)
		set_empty(a, cs, !was_empty);
	if (!set)
		cs->misfit = UINT32_MAX;
}

void space_changed(struct alloc *a, struct chunk_space *cs, uint64_t since)
{
	if (cs->unchecked_since)
		return;
	cs->unchecked_since = since;
	TAILQ_INSERT_TAIL(&a->unchecked, cs, unchecked_link);
	a->nunchecked++;
}

static void space_checked(struct alloc *a, struct chunk_space *cs)
{
	if (!cs->unchecked_since)
		return;
	cs->unchecked_since = 0;
	TAILQ_REMOVE(&a->unchecked, cs, unchecked_link);
	a->nunchecked--;
}

/* What the chunk's slabs could give in one over the whole group, less what it gives. */
static uint64_t chunk_overhead(const struct pool *pool, const struct chunk *c)
{
	const struct pool_group *g = &pool->groups[c->group];
	uint64_t could = (uint64_t)c->ncols * c->sectors * group_data(g) / g->ndevs;
	uint64_t gives = (uint64_t)c->sectors * chunk_data_cols(c);

	return could > gives ? could - gives : 0;
}

/* All that a group counts of its chunks, but what is used; sign: 1 or -1. */
static void group_count(struct pool *pool, const struct chunk_space *cs, int sign)
{
	struct group_space *g = &pool->alloc->groups[cs->chunk->group];

	g->sectors += (uint64_t)sign * cs->chunk->sectors * cs->width;
	g->free_bits += (uint64_t)sign * cs->chunk->sectors;
	g->free_windows += (uint64_t)sign * cs->free_windows;
	g->overhead += (uint64_t)sign * chunk_overhead(pool, cs->chunk);
}

/* A power of two, so that a chunk consists of them. */
static uint32_t window_bits(uint32_t width)
{
	uint32_t bits = WINDOW;

	while (bits / 2 * width >= WINDOW)
		bits /= 2;
	return bits;
}

struct chunk_space *space_add(struct pool *pool, struct chunk *chunk)
{
	struct alloc *a = pool->alloc;
	struct chunk_space *cs = mem_zalloc(sizeof(*cs));

	cs->chunk = chunk;
	cs->width = chunk_data_cols(chunk);
	cs->window = window_bits(cs->width);
	cs->windows = mem_zalloc(chunk->sectors / cs->window * sizeof(*cs->windows));
	cs->free_windows = chunk->sectors / cs->window;
	cs->misfit = UINT32_MAX;
	cs->bits = mem_zalloc(chunk->sectors / 8);
	TAILQ_INSERT_TAIL(&a->groups[chunk->group].chunks, cs, group_link);
	group_count(pool, cs, 1);
	set_empty(a, cs, true);
	chunk->space = cs;
	return cs;
}

static void space_free(struct chunk_space *cs)
{
	free(cs->bits);
	free(cs->fill);
	free(cs->packed);
	free(cs->windows);
	extents_free(&cs->allocs);
	free(cs);
}

/* ---- groups ---- */

/* What the group's usable devices have left. */
struct slabs_left {
	uint32_t devs;  /* usable ones, */
	uint32_t open;  /* of those with a free slab */
	uint32_t least; /* free slabs of one */
	uint64_t total; /* free slabs */
};

static struct slabs_left slabs_left(const struct pool *pool, uint32_t group)
{
	const struct pool_group *g = &pool->groups[group];
	struct slabs_left left = {.least = UINT32_MAX};

	for (uint32_t i = 0; i < g->ndevs; i++) {
		const struct pool_dev *dev = &pool->devs[g->first_dev + i];
		uint32_t n = slab_free_count(dev);

		if (!pool_dev_usable(dev))
			continue;
		left.devs++;
		left.open += n > 0;
		left.total += n;
		left.least = n < left.least ? n : left.least;
	}
	if (!left.devs)
		left.least = 0;
	return left;
}

/* Columns of data that a new chunk over all usable devices has; 1: it holds copies. */
static uint32_t data_left(const struct pool_group *g, const struct slabs_left *left)
{
	uint32_t parity = pool_kind_parity(g->kind);

	return parity && left->devs > parity ? left->devs - parity : 1;
}

/* Slabs' worth of data that the free ones give: of a mirror, one for each that all devices have.
   With parity all count, but for the last ones, which may be too few for a chunk of any shape. */
static uint64_t group_slabs(const struct pool *pool, uint32_t group)
{
	const struct pool_group *g = &pool->groups[group];
	struct slabs_left left = slabs_left(pool, group);
	uint32_t parity = pool_kind_parity(g->kind);
	uint64_t n;

	if (data_left(g, &left) == 1)
		return left.least;
	n = left.total * data_left(g, &left) / left.devs;
	return n > parity ? n - parity : 0;
}

static uint32_t slab_sectors(const struct pool *pool, uint32_t group)
{
	return 1u << (pool->groups[group].slab_shift - SECTOR_SHIFT);
}

/* Of each device. */
static uint32_t group_total_slabs(const struct pool *pool, uint32_t group)
{
	const struct pool_group *g = &pool->groups[group];
	uint32_t least = UINT32_MAX;

	for (uint32_t i = 0; i < g->ndevs; i++) {
		if (pool->devs[g->first_dev + i].slab_count < least)
			least = pool->devs[g->first_dev + i].slab_count;
	}
	return least;
}

static uint64_t group_size(const struct pool *pool, uint32_t group)
{
	return (uint64_t)group_total_slabs(pool, group) * slab_sectors(pool, group) *
	       group_data(&pool->groups[group]);
}

static uint64_t group_free(struct pool *pool, uint32_t group)
{
	const struct group_space *g = &pool->alloc->groups[group];

	return group_slabs(pool, group) * slab_sectors(pool, group) + g->sectors - g->used;
}

/* Of that, what whole windows hold of the largest blocks. */
static uint64_t group_large(struct pool *pool, uint32_t group)
{
	const struct pool_group *g = &pool->groups[group];
	struct slabs_left left = slabs_left(pool, group);
	uint32_t width = data_left(g, &left);
	uint64_t bits = group_slabs(pool, group) / width * slab_sectors(pool, group);

	return (bits / window_bits(width) + pool->alloc->groups[group].free_windows) * WINDOW;
}

/* Blocks of one sector that find room, as copies or in a row of their own. */
static uint64_t group_small(struct pool *pool, uint32_t group)
{
	uint32_t parity = pool_kind_parity(pool->groups[group].kind);
	uint64_t slabs =
	    parity ? slabs_left(pool, group).total / (parity + 1) : group_slabs(pool, group);

	return slabs * slab_sectors(pool, group) + pool->alloc->groups[group].free_bits;
}

/* Sectors that one sector may cost: metadata on a single device is there twice, a small block in a
   parity group as copies. */
static unsigned group_cost(const struct pool_group *g)
{
	return g->kind == TARN_GROUP_SINGLE ? 2 : pool_kind_parity(g->kind) + 1;
}

static uint32_t pool_ngroups(const struct pool *pool)
{
	return __atomic_load_n(&pool->ngroups, __ATOMIC_ACQUIRE);
}

/* What reservations are judged by. Between two calls alloc_run() only takes off. */
void alloc_refresh(struct pool *pool)
{
	struct alloc *a = pool->alloc;
	uint64_t free = 0, large = 0, small = 0, size = 0, used = 0;
	unsigned cost = 1;

	for (uint32_t i = 0; i < pool_ngroups(pool); i++) {
		const struct group_space *g = &a->groups[i];

		size += group_size(pool, i);
		used += g->used + g->overhead;
		if (group_cost(&pool->groups[i]) > cost)
			cost = group_cost(&pool->groups[i]);
		if (!pool_group_usable(pool, i, NULL))
			continue;
		free += group_free(pool, i);
		large += group_large(pool, i);
		small += group_small(pool, i);
	}
	atomic_store(&a->free, free);
	atomic_store(&a->large, large);
	atomic_store(&a->small, small);
	atomic_store(&a->size, size);
	atomic_store(&a->used, used - a->deferred_sectors);
	atomic_store(&a->deferred, a->deferred_sectors);
	atomic_store(&a->cost, cost);
}

void alloc_grown(struct pool *pool)
{
	pthread_mutex_lock(&pool->alloc->lock);
	alloc_refresh(pool);
	pthread_mutex_unlock(&pool->alloc->lock);
}

void pool_group_space(struct pool *pool, uint32_t group, struct pool_space *out)
{
	struct alloc *a = pool->alloc;

	pthread_mutex_lock(&a->lock);
	*out = (struct pool_space){
	    .size = group_size(pool, group) * SECTOR_SIZE,
	    .allocated = (a->groups[group].used + a->groups[group].overhead) * SECTOR_SIZE,
	};
	pthread_mutex_unlock(&a->lock);
}

static void refill_credit(struct pool *pool)
{
	uint64_t most = 1;

	for (uint32_t i = 0; i < pool_ngroups(pool); i++) {
		if (group_free(pool, i) > most)
			most = group_free(pool, i);
	}
	for (uint32_t i = 0; i < pool_ngroups(pool); i++)
		pool->alloc->groups[i].credit +=
		    (int64_t)(STRIPE_SECTORS * group_free(pool, i) / most) + 1;
}

/* The group whose turn it is: each gets sectors in proportion to its free space, in long pieces. */
static uint32_t pick_group(struct pool *pool)
{
	struct alloc *a = pool->alloc;
	uint32_t n = pool_ngroups(pool);

	for (;;) {
		for (uint32_t i = 0; i < n; i++) {
			uint32_t g = (a->rotor + i) % n;

			if (a->groups[g].credit > 0)
				return a->rotor = g;
		}
		refill_credit(pool);
	}
}

/* ---- choosing a chunk ---- */

/* How far alloc_run() goes; each step allows what the ones before do. */
enum effort {
	EFFORT_LONG, /* healthy chunks with much room, new chunks outside of the reserve */
	EFFORT_FIT,  /* any healthy chunk of the class */
	EFFORT_LAST, /* degraded ones, the last slabs */
	EFFORT_ANY,  /* those of other classes */
	EFFORTS
};

/* A new chunk over all its devices would have a good column where this one is stale: the device is
   back. One that fails writes would only spoil the new chunk, too. */
static bool col_outdated(const struct pool *pool, const struct chunk *c, unsigned col)
{
	const struct pool_dev *dev = &pool->devs[c->cols[col].dev];

	return atomic_load(&c->cols[col].stale) && pool_dev_usable(dev) &&
	       !atomic_load(&dev->write_errors);
}

/* Nothing better can be had. A mirror whose devices are away goes on in its chunks; a parity group
   makes new ones over those that are left. */
static bool chunk_healthy(const struct pool *pool, const struct chunk *c)
{
	if (pool_kind_parity(pool->groups[c->group].kind)) {
		uint32_t devs = slabs_left(pool, c->group).devs;
		uint32_t best = chunk_parity(c) || c->ncols < devs ? c->ncols : devs;

		return chunk_good_cols(pool, c) >= best;
	}
	for (unsigned i = 0; i < c->ncols; i++) {
		if (col_outdated(pool, c, i) || (!atomic_load(&c->cols[i].stale) &&
						 !pool_dev_usable(&pool->devs[c->cols[i].dev])))
			return false;
	}
	return true;
}

static bool chunk_writable(const struct pool *pool, const struct chunk *c)
{
	return chunk_good_cols(pool, c) >= chunk_data_cols(c);
}

static enum shape shape_of(const struct chunk *c)
{
	return chunk_parity(c) ? SHAPE_ROWS : SHAPE_COPIES;
}

/* Which takes fewer sectors of the devices. */
static enum shape best_shape(const struct pool *pool, uint32_t group, uint32_t sectors)
{
	const struct pool_group *g = &pool->groups[group];
	uint32_t parity = pool_kind_parity(g->kind), data;
	struct slabs_left left;

	if (!parity)
		return SHAPE_COPIES;
	left = slabs_left(pool, group);
	data = data_left(g, &left);
	if (data == 1 || sectors * (parity + 1) < (sectors + data - 1) / data * (data + parity))
		return SHAPE_COPIES;
	return SHAPE_ROWS;
}

/* A block as the allocator sees it in one group. */
struct want {
	enum block_class class;
	enum shape shape;
	uint32_t sectors;
};

static uint32_t bits_of(const struct chunk_space *cs, uint32_t sectors)
{
	return (sectors + cs->width - 1) / cs->width;
}

static bool may_use(const struct pool *pool, const struct chunk_space *cs, const struct want *w,
		    enum effort effort)
{
	const struct chunk *c = cs->chunk;
	uint32_t n = bits_of(cs, w->sectors);

	if (shape_of(c) != w->shape || n >= cs->misfit || c->sectors - cs->used < n)
		return false;
	if (c->class != w->class && effort < EFFORT_ANY)
		return false;
	if (effort == EFFORT_LONG && cs->free_windows * 4 < c->sectors / cs->window)
		return false;
	return (effort >= EFFORT_LAST || chunk_healthy(pool, c)) && chunk_writable(pool, c);
}

/* Large runs go where most whole windows are; small ones where they break the fewest, unless
   there is plenty. */
static struct chunk_space *choose_chunk(struct pool *pool, uint32_t group, const struct want *w,
					enum effort effort)
{
	struct chunk_space *best = NULL, *cs;
	bool fewest = w->sectors <= SMALL_RUN && effort > EFFORT_LONG;

	TAILQ_FOREACH(cs, &pool->alloc->groups[group].chunks, group_link)
	{
		if (!may_use(pool, cs, w, effort))
			continue;
		if (!best || (fewest ? cs->free_windows < best->free_windows
				     : cs->free_windows > best->free_windows))
			best = cs;
	}
	return best;
}

/* Slabs of each device that data leaves to metadata, which wants two at a time on a single device,
   and some of the devices only where there is parity. */
static uint32_t slab_reserve(const struct pool *pool, uint32_t group)
{
	const struct pool_group *g = &pool->groups[group];
	uint32_t total = group_total_slabs(pool, group), n = total / 64;
	uint32_t parity = pool_kind_parity(g->kind);

	n = n > 4 ? n : total / 4 < 4 ? total / 4 : 4;
	return parity ? n * (parity + 1) / g->ndevs + 1 : n;
}

/* The profile of a new chunk; false if there are too few slabs for it. */
static bool new_profile(const struct pool *pool, uint32_t group, const struct want *w,
			enum effort effort, enum chunk_profile *out)
{
	const struct pool_group *g = &pool->groups[group];
	struct slabs_left left = slabs_left(pool, group);
	uint32_t parity = pool_kind_parity(g->kind), needs;

	if (w->class == BLOCK_DATA && effort < EFFORT_LAST &&
	    left.least <= slab_reserve(pool, group))
		return false;
	*out = PROFILE_MIRROR;
	if (parity && w->shape == SHAPE_ROWS) {
		*out = PROFILE_PARITY1 + parity - 1;
		/* In the end over fewer devices. */
		needs = effort < EFFORT_LAST ? left.devs : 0;
		return left.open >= needs && left.open >= parity + 2;
	}
	if (parity)
		return left.open && left.open >= (left.devs < parity + 1 ? left.devs : parity + 1);
	if (g->kind == TARN_GROUP_MIRROR)
		return left.least >= 1;
	/* Metadata with one copy is better than none. */
	*out = w->class == BLOCK_META && (left.least > 1 || effort < EFFORT_LAST) ? PROFILE_DUP
										  : PROFILE_SINGLE;
	return left.least >= *out;
}

static struct chunk_space *new_chunk(struct txg_sync *s, uint32_t group, const struct want *w,
				     enum effort effort)
{
	enum chunk_profile profile;
	struct chunk_space *cs;
	struct chunk *chunk;

	if (!new_profile(s->pool, group, w, effort, &profile) ||
	    chunk_new(s, group, profile, w->class, &chunk))
		return NULL;
	cs = space_add(s->pool, chunk);
	cs->made = s->txg;
	alloc_refresh(s->pool);
	return cs;
}

/* Free rows, but none of those that are being copied: they may have become free meanwhile. */
static uint32_t find_clear(const struct chunk_space *cs, uint32_t from, uint32_t n)
{
	uint32_t end = cs->chunk->sectors, at;

	if (from < cs->copying.from) {
		at = bitmap_find_clear(cs->bits, from, cs->copying.from, n);
		if (at < cs->copying.from)
			return at;
	}
	return bitmap_find_clear(cs->bits, from > cs->copying.to ? from : cs->copying.to, end, n);
}

static bool take_run(struct alloc *a, struct chunk_space *cs, uint32_t n, uint32_t *sector)
{
	uint32_t end = cs->chunk->sectors, at;

	space_unpack(cs);
	at = find_clear(cs, cs->cursor, n);
	if (at == end)
		at = find_clear(cs, 0, n);
	if (at == end) {
		cs->misfit = n;
		return false;
	}
	space_mark(a, cs, at, n, true);
	cs->cursor = at + n;
	*sector = at;
	return true;
}

/* Also the chunk that the class goes on with in this group. */
static struct chunk_space *run_in_group(struct txg_sync *s, uint32_t group, const struct want *w,
					enum effort effort, uint32_t *sector)
{
	struct alloc *a = s->pool->alloc;
	struct chunk_space **current = &a->groups[group].current[w->class][w->shape];
	struct chunk_space *cs = *current;
	bool made = false;

	if (cs && chunk_healthy(s->pool, cs->chunk) && chunk_writable(s->pool, cs->chunk) &&
	    bits_of(cs, w->sectors) < cs->misfit &&
	    take_run(a, cs, bits_of(cs, w->sectors), sector))
		return cs;
	while (!made) {
		cs = choose_chunk(s->pool, group, w, effort);
		if (!cs && effort != EFFORT_FIT) {
			cs = new_chunk(s, group, w, effort);
			made = true;
		}
		if (!cs)
			break;
		if (take_run(a, cs, bits_of(cs, w->sectors), sector)) {
			*current = cs;
			return cs;
		}
	}
	return NULL;
}

/* In the better shape, or in the other one: a small block takes rows before it takes what is kept
   back, a large one is copied when nothing else is left. */
static struct chunk_space *run_in_shape(struct txg_sync *s, uint32_t group, enum block_class class,
					uint32_t sectors, enum effort effort, uint32_t *sector)
{
	enum shape best = best_shape(s->pool, group, sectors);
	struct want w = {.class = class, .shape = best, .sectors = sectors};
	struct chunk_space *cs = run_in_group(s, group, &w, effort, sector);

	if (cs || !pool_kind_parity(s->pool->groups[group].kind) ||
	    effort < (best == SHAPE_COPIES ? EFFORT_FIT : EFFORT_ANY))
		return cs;
	w.shape = best == SHAPE_COPIES ? SHAPE_ROWS : SHAPE_COPIES;
	return run_in_group(s, group, &w, effort, sector);
}

static struct chunk_space *find_run(struct txg_sync *s, enum block_class class, uint32_t sectors,
				    bool copies, uint32_t *sector)
{
	uint32_t first = pick_group(s->pool), ngroups = pool_ngroups(s->pool);
	struct want w = {.class = class, .shape = SHAPE_COPIES, .sectors = sectors};

	for (enum effort effort = 0; effort < EFFORTS; effort++) {
		for (uint32_t i = 0; i < ngroups; i++) {
			uint32_t group = (first + i) % ngroups;
			struct chunk_space *cs =
			    copies ? run_in_group(s, group, &w, effort, sector)
				   : run_in_shape(s, group, class, sectors, effort, sector);

			if (cs)
				return cs;
		}
	}
	return NULL;
}

static void touch(struct alloc *a, struct chunk_space *cs)
{
	if (cs->touched)
		return;
	cs->touched = true;
	SLIST_INSERT_HEAD(&a->touched, cs, touched_link);
}

static int take(struct txg_sync *s, enum block_class class, uint32_t sectors, bool copies,
		struct chunk **chunk, uint32_t *sector)
{
	struct alloc *a = s->pool->alloc;
	struct chunk_space *cs;

	pthread_mutex_lock(&a->lock);
	cs = find_run(s, class, sectors, copies, sector);
	if (cs) {
		uint32_t n = bits_of(cs, sectors);

		*chunk = cs->chunk;
		a->groups[cs->chunk->group].credit -= n * cs->width;
		touch(a, cs);
		extents_add(&cs->allocs, cs->chunk->id, *sector, n);
		space_changed(a, cs, a->released_txg + 1);
	}
	pthread_mutex_unlock(&a->lock);
	return cs ? 0 : -ENOSPC;
}

int alloc_run(struct txg_sync *s, enum block_class class, uint32_t sectors, struct chunk **chunk,
	      uint32_t *sector)
{
	return take(s, class, sectors, false, chunk, sector);
}

int alloc_copies(struct txg_sync *s, enum block_class class, uint32_t sectors, struct chunk **chunk,
		 uint32_t *sector)
{
	return take(s, class, sectors, true, chunk, sector);
}

static void prepare_shape(struct txg_sync *s, uint32_t group, enum shape shape)
{
	const struct chunk_space *cs = s->pool->alloc->groups[group].current[BLOCK_META][shape];
	uint32_t slab = slab_sectors(s->pool, group);
	struct want w = {.class = BLOCK_META, .shape = shape};

	if (!cs)
		return;
	w.sectors = slab / 4 < 1024 ? slab / 4 : 1024;
	/* An empty chunk is found by choose_chunk() when the current one is full. */
	if (cs->chunk->sectors - cs->used < bits_of(cs, w.sectors) &&
	    !choose_chunk(s->pool, group, &w, EFFORT_LONG))
		new_chunk(s, group, &w, EFFORT_LONG);
}

void alloc_prepare_tail(struct txg_sync *s)
{
	uint32_t group;

	pthread_mutex_lock(&s->pool->alloc->lock);
	group = pick_group(s->pool);
	prepare_shape(s, group, SHAPE_COPIES);
	prepare_shape(s, group, SHAPE_ROWS);
	pthread_mutex_unlock(&s->pool->alloc->lock);
}

static bool is_current(const struct group_space *g, const struct chunk_space *cs)
{
	for (unsigned class = BLOCK_DATA; class <= BLOCK_META; class ++) {
		if (cs == g->current[class][shape_of(cs->chunk)])
			return true;
	}
	return false;
}

struct chunk *alloc_take_empty(struct txg_sync *s)
{
	struct alloc *a = s->pool->alloc;
	struct chunk *chunk = NULL;
	struct chunk_space *cs;

	pthread_mutex_lock(&a->lock);
	alloc_refresh(s->pool);
	TAILQ_FOREACH(cs, &a->empty, empty_link)
	{
		struct group_space *g = &a->groups[cs->chunk->group];

		/* One that was made in this txg is about to be used. */
		if (cs->touched || cs->fill || cs->made == s->txg || is_current(g, cs))
			continue;
		/* Its slabs are nobody's for some commits. */
		if (pool_group_usable(s->pool, cs->chunk->group, NULL) &&
		    !reserve_spares(a, cs->chunk->sectors * cs->width, cs->chunk->sectors,
				    (uint64_t)cs->free_windows * WINDOW))
			break;
		chunk = cs->chunk;
		space_checked(a, cs);
		set_empty(a, cs, false);
		TAILQ_REMOVE(&g->chunks, cs, group_link);
		group_count(s->pool, cs, -1);
		chunk->space = NULL;
		space_free(cs);
		atomic_store(&a->slabs_back, s->txg + TXG_KEEP + 1);
		alloc_refresh(s->pool);
		break;
	}
	pthread_mutex_unlock(&a->lock);
	return chunk;
}

bool alloc_written_stale(struct txg_sync *s, uint32_t dev)
{
	struct alloc *a = s->pool->alloc;
	struct chunk_space *cs;
	bool done = true;

	pthread_mutex_lock(&a->lock);
	SLIST_FOREACH(cs, &a->touched, touched_link)
	done &= chunk_set_dev_stale(s->pool, cs->chunk, dev);
	pthread_mutex_unlock(&a->lock);
	return done;
}

/* ---- filling columns ---- */

void alloc_fill_begin(struct txg_sync *s, struct chunk *chunk, const struct extent *but, uint32_t n)
{
	struct chunk_space *cs = chunk->space;
	uint32_t bytes = chunk->sectors / 8;

	pthread_mutex_lock(&s->pool->alloc->lock);
	space_unpack(cs);
	cs->fill = mem_must(malloc(bytes));
	memcpy(cs->fill, cs->bits, bytes);
	for (uint32_t i = 0; i < n; i++) {
		if (but[i].chunk == chunk->id)
			bitmap_clear(cs->fill, but[i].sector, but[i].count);
	}
	pthread_mutex_unlock(&s->pool->alloc->lock);
}

bool alloc_fill_next(struct pool *pool, struct chunk *chunk, uint32_t most, struct extent *out)
{
	struct chunk_space *cs = chunk->space;
	uint32_t end = chunk->sectors, from, to;

	pthread_mutex_lock(&pool->alloc->lock);
	from = bitmap_next(cs->fill, end, cs->copying.to, true);
	to = from < end ? bitmap_next(cs->fill, end, from, false) : end;
	to = to - from < most ? to : from + most;
	if (from < end) {
		cs->copying.from = from;
		cs->copying.to = to;
	}
	pthread_mutex_unlock(&pool->alloc->lock);
	*out = (struct extent){chunk->id, from, to - from};
	return from < end;
}

void alloc_fill_end(struct txg_sync *s, struct chunk *chunk)
{
	struct chunk_space *cs = chunk->space;

	pthread_mutex_lock(&s->pool->alloc->lock);
	free(cs->fill);
	cs->fill = NULL;
	cs->copying.from = cs->copying.to = 0;
	cs->misfit = UINT32_MAX;
	touch(s->pool->alloc, cs);
	pthread_mutex_unlock(&s->pool->alloc->lock);
}

uint32_t alloc_used(struct pool *pool, const struct chunk *chunk)
{
	uint32_t used;

	pthread_mutex_lock(&pool->alloc->lock);
	used = chunk->space->used;
	pthread_mutex_unlock(&pool->alloc->lock);
	return used;
}

/* ---- the log's view ---- */

void alloc_txg_extents(struct txg_sync *s, struct extents *allocs, struct extents *frees)
{
	struct alloc *a = s->pool->alloc;
	struct chunk_space *cs;

	pthread_mutex_lock(&a->lock);
	SLIST_FOREACH(cs, &a->touched, touched_link)
	{
		for (size_t i = 0; i < cs->allocs.n; i++)
			extents_add(allocs, cs->allocs.e[i].chunk, cs->allocs.e[i].sector,
				    cs->allocs.e[i].count);
	}
	if (!extents_sort(&a->frees))
		pool_log(s->pool, TARN_LOG_ERROR, "txg %" PRIu64 " freed a block twice", s->txg);
	for (size_t i = 0; i < a->frees.n; i++)
		extents_add(frees, a->frees.e[i].chunk, a->frees.e[i].sector, a->frees.e[i].count);
	pthread_mutex_unlock(&a->lock);
}

uint64_t alloc_released_txg(struct pool *pool)
{
	uint64_t txg;

	pthread_mutex_lock(&pool->alloc->lock);
	txg = pool->alloc->released_txg;
	pthread_mutex_unlock(&pool->alloc->lock);
	return txg;
}

uint64_t alloc_log_tail(struct pool *pool, uint64_t txg)
{
	struct alloc *a = pool->alloc;
	const struct chunk_space *cs;

	pthread_mutex_lock(&a->lock);
	cs = TAILQ_FIRST(&a->unchecked);
	if (cs && cs->unchecked_since < txg)
		txg = cs->unchecked_since;
	pthread_mutex_unlock(&a->lock);
	return txg;
}

uint32_t alloc_unchecked(struct pool *pool)
{
	uint32_t n;

	pthread_mutex_lock(&pool->alloc->lock);
	n = pool->alloc->nunchecked;
	pthread_mutex_unlock(&pool->alloc->lock);
	return n;
}

struct chunk *alloc_longest_unchecked(struct pool *pool)
{
	struct chunk_space *cs;

	pthread_mutex_lock(&pool->alloc->lock);
	cs = TAILQ_FIRST(&pool->alloc->unchecked);
	pthread_mutex_unlock(&pool->alloc->lock);
	return cs ? cs->chunk : NULL;
}

uint32_t alloc_checkpoint(struct txg_sync *s, struct chunk *chunk, uint8_t *packing, uint8_t *out)
{
	struct alloc *a = s->pool->alloc;
	struct chunk_space *cs = chunk->space;
	uint32_t bytes = chunk->sectors / 8, len;
	uint64_t *bits = mem_must(malloc(bytes));

	pthread_mutex_lock(&a->lock);
	space_unpack(cs);
	memcpy(bits, cs->bits, bytes);
	for (size_t i = 0; i < cs->allocs.n; i++)
		bitmap_clear(bits, cs->allocs.e[i].sector, cs->allocs.e[i].count);
	len = bitmap_pack(bits, chunk->sectors, packing, out);
	space_checked(a, cs);
	if (cs->touched || cs->deferred)
		space_changed(a, cs, a->released_txg + 1);
	else
		space_pack(cs, *packing, out, len);
	pthread_mutex_unlock(&a->lock);
	free(bits);
	return len;
}

void alloc_each_run(struct pool *pool, void (*fn)(void *arg, const struct extent *run), void *arg)
{
	struct alloc *a = pool->alloc;
	struct chunk_space *cs;

	pthread_mutex_lock(&a->lock);
	for (uint32_t g = 0; g < pool_ngroups(pool); g++) {
		TAILQ_FOREACH(cs, &a->groups[g].chunks, group_link)
		{
			uint32_t end = cs->chunk->sectors, to = 0, at;

			space_unpack(cs);
			while ((at = bitmap_next(cs->bits, end, to, true)) < end) {
				to = bitmap_next(cs->bits, end, at, false);
				fn(arg, &(struct extent){cs->chunk->id, at, to - at});
			}
		}
	}
	pthread_mutex_unlock(&a->lock);
}

/* ---- life ---- */

int alloc_create(struct pool *pool)
{
	struct alloc *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->discarded, NULL);
	for (uint32_t i = 0; i < POOL_GROUPS_MAX; i++)
		TAILQ_INIT(&a->groups[i].chunks);
	TAILQ_INIT(&a->empty);
	TAILQ_INIT(&a->unchecked);
	TAILQ_INIT(&a->batches);
	SLIST_INIT(&a->touched);
	a->alog = alog_new();
	pool->alloc = a;
	return a->alog ? 0 : -ENOMEM;
}

void alloc_destroy(struct pool *pool)
{
	struct alloc *a = pool->alloc;
	struct chunk_space *cs;

	if (!a)
		return;
	defer_destroy(pool);
	alog_free(a->alog);
	for (uint32_t i = 0; i < POOL_GROUPS_MAX; i++) {
		while ((cs = TAILQ_FIRST(&a->groups[i].chunks))) {
			TAILQ_REMOVE(&a->groups[i].chunks, cs, group_link);
			space_free(cs);
		}
	}
	pthread_cond_destroy(&a->discarded);
	pthread_mutex_destroy(&a->lock);
	free(a);
	pool->alloc = NULL;
}
