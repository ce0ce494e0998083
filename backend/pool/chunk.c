// SPDX-License-Identifier: LGPL-3.0-or-later
#include "pool/chunk.h"

#include "pool/bitmap.h"
#include "pool/slab.h"
#include "pool/txgs.h"
#include "util/mem.h"

#include <errno.h>
#include <inttypes.h>

/* Ids are consecutive, so the low bits spread them evenly. */
#define BUCKETS (1u << 16)

/* A column as a slab table claims it. */
struct claim {
	uint64_t chunk, generation;
	uint32_t column, ncols, profile;
	uint32_t dev, slab;
};

struct chunks {
	pthread_mutex_t lock; /* table changes, stale flags, lists, counters */
	struct chunk *dirty, *retired;
	uint64_t next_chunk, generation;
	atomic_bool loaded;
	struct claim *claims; /* import only; sorted by chunk, column, generation */
	size_t nclaims, claim_room;
	_Atomic(struct chunk *) buckets[BUCKETS];
};

/* ---- the table ---- */

static _Atomic(struct chunk *) *bucket_of(struct chunks *t, uint64_t id)
{
	return &t->buckets[id & (BUCKETS - 1)];
}

struct chunk *chunk_find(struct pool *pool, uint64_t id)
{
	struct chunk *c = atomic_load_explicit(bucket_of(pool->chunks, id), memory_order_acquire);

	while (c && c->id != id)
		c = atomic_load_explicit(&c->hash_next, memory_order_acquire);
	return c;
}

/* Of the chunks in the table, for the status. Lock held. */
static void count_stale(struct pool *pool, const struct chunk *c, int change)
{
	for (unsigned i = 0; i < c->ncols; i++) {
		if (atomic_load(&c->cols[i].stale))
			atomic_fetch_add(&pool->devs[c->cols[i].dev].stale, change);
	}
}

/* Lock held. */
static void insert(struct pool *pool, struct chunk *c)
{
	_Atomic(struct chunk *) *head = bucket_of(pool->chunks, c->id);

	atomic_store_explicit(&c->hash_next, atomic_load(head), memory_order_relaxed);
	atomic_store_explicit(head, c, memory_order_release);
	count_stale(pool, c, 1);
}

/* Lock held. A reader in the middle of the chain still finds its way: c keeps its hash_next. */
static void unlink_chunk(struct pool *pool, struct chunk *c)
{
	struct chunks *t = pool->chunks;
	_Atomic(struct chunk *) *at = bucket_of(t, c->id);

	while (atomic_load(at) != c)
		at = &atomic_load(at)->hash_next;
	atomic_store_explicit(at, atomic_load(&c->hash_next), memory_order_release);
	count_stale(pool, c, -1);
	if (c->record_dirty) {
		struct chunk **d = &t->dirty;

		while (*d != c)
			d = &(*d)->dirty_next;
		*d = c->dirty_next;
	}
	c->retire_epoch = epoch_current(pool);
	c->retire_next = t->retired;
	t->retired = c;
}

void chunks_reap(struct pool *pool)
{
	struct chunks *t = pool->chunks;

	pthread_mutex_lock(&t->lock);
	for (struct chunk **at = &t->retired, *c; (c = *at);) {
		if (epoch_passed(pool, c->retire_epoch)) {
			*at = c->retire_next;
			free(c);
		} else {
			at = &c->retire_next;
		}
	}
	pthread_mutex_unlock(&t->lock);
}

void chunks_each(struct pool *pool, void (*fn)(void *arg, struct chunk *chunk), void *arg)
{
	for (uint32_t b = 0; b < BUCKETS; b++) {
		struct chunk *c = atomic_load(&pool->chunks->buckets[b]), *next;

		for (; c; c = next) {
			next = atomic_load(&c->hash_next);
			fn(arg, c);
		}
	}
}

uint64_t chunk_offset(const struct pool *pool, const struct chunk *chunk, unsigned col,
		      uint32_t sector)
{
	const struct chunk_col *c = &chunk->cols[col];

	return slab_offset(pool, &pool->devs[c->dev], c->slab) + ((uint64_t)sector << SECTOR_SHIFT);
}

/* Of what a device that was away claims, the list of live chunks, which is not known yet, may say
   that it is stale. */
static bool trusted(const struct pool *pool, const struct pool_dev *dev)
{
	return chunks_loaded(pool) || dev->seen_import > pool->uber.import_counter ||
	       (dev->seen_import == pool->uber.import_counter && dev->seen_txg >= pool->uber.txg);
}

bool chunk_col_good(const struct pool *pool, const struct chunk *chunk, unsigned col)
{
	const struct pool_dev *dev = &pool->devs[chunk->cols[col].dev];

	return !atomic_load(&chunk->cols[col].stale) && pool_dev_usable(dev) && trusted(pool, dev);
}

unsigned chunk_good_cols(const struct pool *pool, const struct chunk *chunk)
{
	unsigned n = 0;

	for (unsigned i = 0; i < chunk->ncols; i++)
		n += chunk_col_good(pool, chunk, i);
	return n;
}

bool chunks_loaded(const struct pool *pool)
{
	return atomic_load(&pool->chunks->loaded);
}

void chunks_counters(struct pool *pool, uint64_t *next_chunk, uint64_t *generation)
{
	pthread_mutex_lock(&pool->chunks->lock);
	*next_chunk = pool->chunks->next_chunk;
	*generation = pool->chunks->generation;
	pthread_mutex_unlock(&pool->chunks->lock);
}

/* ---- life ---- */

int chunks_create(struct pool *pool)
{
	struct chunks *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	pthread_mutex_init(&t->lock, NULL);
	t->next_chunk = t->generation = 1;
	/* A new pool has nothing to load; chunks_assemble() takes this back. */
	atomic_init(&t->loaded, true);
	pool->chunks = t;
	return 0;
}

static void free_chunk(void *arg, struct chunk *chunk)
{
	(void)arg;
	free(chunk);
}

void chunks_destroy(struct pool *pool)
{
	struct chunks *t = pool->chunks;

	if (!t)
		return;
	chunks_each(pool, free_chunk, NULL);
	for (struct chunk *c = t->retired, *next; c; c = next) {
		next = c->retire_next;
		free(c);
	}
	pthread_mutex_destroy(&t->lock);
	free(t->claims);
	free(t);
	pool->chunks = NULL;
}

/* ---- new and gone ---- */

static void mark_dirty(struct chunks *t, struct chunk *c)
{
	if (c->record_dirty)
		return;
	c->record_dirty = true;
	c->dirty_next = t->dirty;
	t->dirty = c;
}

/* Takes a slab for one column; a device that is not there leaves a column to be rebuilt. */
static int take_column(struct txg_sync *s, struct chunk *c, unsigned col, struct pool_dev *dev)
{
	struct slab_entry entry = {.chunk = c->id,
				   .generation = s->pool->chunks->generation++,
				   .profile = c->profile,
				   .column = (uint16_t)col,
				   .ncols = c->ncols};
	struct chunk_col *out = &c->cols[col];
	int rc = -ENXIO;

	out->dev = dev->index;
	out->generation = entry.generation;
	if (pool_dev_usable(dev))
		rc = slab_take(dev, s, &entry, &out->slab);
	if (rc == -ENXIO) {
		out->slab = CHUNK_NO_SLAB;
		atomic_init(&out->stale, true);
		return 0;
	}
	return rc;
}

static void release_columns(struct txg_sync *s, struct chunk *c, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct chunk_col *col = &c->cols[i];

		if (col->slab != CHUNK_NO_SLAB)
			slab_release(&s->pool->devs[col->dev], s, col->slab);
	}
}

/* The devices of a new chunk's columns; sets their number. Copies in a parity group go to the
   devices with most free slabs; columns with parity to all that have one, each time another first,
   so that all of them get the same share of parity. */
static void choose_devs(struct pool *pool, struct chunk *c, struct pool_dev *out[CHUNK_COLS_MAX])
{
	const struct pool_group *group = &pool->groups[c->group];
	struct pool_dev *first = &pool->devs[group->first_dev];
	unsigned parity = pool_kind_parity(group->kind), n = 0;

	if (!parity) {
		c->ncols = (uint8_t)(c->profile == PROFILE_MIRROR ? group->ndevs : c->profile);
		for (unsigned i = 0; i < c->ncols; i++)
			out[i] = c->profile == PROFILE_MIRROR ? first + i : first;
		return;
	}
	for (uint32_t i = 0; i < group->ndevs; i++) {
		struct pool_dev *dev = first + (c->id + i) % group->ndevs;
		unsigned at = n;

		if (chunk_parity(c) && !slab_free_count(dev))
			continue;
		for (;
		     !chunk_parity(c) && at && slab_free_count(out[at - 1]) < slab_free_count(dev);
		     at--)
			out[at] = out[at - 1];
		out[at] = dev;
		n++;
	}
	c->ncols = (uint8_t)(chunk_parity(c) ? n : parity + 1);
}

/* Lock held. */
static int take_columns(struct txg_sync *s, struct chunk *c)
{
	struct pool_dev *devs[CHUNK_COLS_MAX];
	unsigned taken = 0;

	choose_devs(s->pool, c, devs);
	if (c->ncols <= chunk_parity(c))
		return -ENOSPC;
	for (unsigned i = 0; i < c->ncols; i++) {
		int rc = take_column(s, c, i, devs[i]);

		if (rc) {
			release_columns(s, c, i);
			return rc;
		}
		taken += c->cols[i].slab != CHUNK_NO_SLAB;
	}
	if (taken >= chunk_data_cols(c))
		return 0;
	release_columns(s, c, c->ncols);
	return -ENOSPC;
}

int chunk_new(struct txg_sync *s, uint32_t group, enum chunk_profile profile,
	      enum block_class class, struct chunk **out)
{
	struct chunks *t = s->pool->chunks;
	struct chunk *c = mem_zalloc(sizeof(*c));
	int rc;

	c->group = group;
	c->sectors = 1u << (s->pool->groups[group].slab_shift - SECTOR_SHIFT);
	c->profile = (uint8_t)profile;
	c->class = (uint8_t) class;
	c->listed = true;
	pthread_mutex_lock(&t->lock);
	c->id = t->next_chunk++;
	rc = take_columns(s, c);
	if (!rc) {
		insert(s->pool, c);
		mark_dirty(t, c);
	}
	pthread_mutex_unlock(&t->lock);
	if (rc) {
		free(c);
		return rc;
	}
	*out = c;
	return 0;
}

void chunk_remove(struct txg_sync *s, struct chunk *chunk)
{
	pthread_mutex_lock(&s->pool->chunks->lock);
	release_columns(s, chunk, chunk->ncols);
	unlink_chunk(s->pool, chunk);
	pthread_mutex_unlock(&s->pool->chunks->lock);
}

/* ---- stale columns ---- */

/* Lock held. */
static void make_stale(struct pool *pool, struct chunk *chunk, unsigned col)
{
	if (!atomic_exchange(&chunk->cols[col].stale, true))
		atomic_fetch_add(&pool->devs[chunk->cols[col].dev].stale, 1);
	mark_dirty(pool->chunks, chunk);
}

/* Lock held. Each block that counts as written is in every column that is not stale; so a
   column may be given up only while others suffice. */
static bool set_stale(struct pool *pool, struct chunk *chunk, unsigned col)
{
	unsigned others;

	atomic_store(&chunk->cols[col].filling, false);
	if (atomic_load(&chunk->cols[col].stale))
		return true;
	others = chunk_good_cols(pool, chunk) - chunk_col_good(pool, chunk, col);
	if (others < chunk_data_cols(chunk))
		return false;
	make_stale(pool, chunk, col);
	return true;
}

bool chunk_set_stale(struct pool *pool, struct chunk *chunk, unsigned col)
{
	bool done;

	pthread_mutex_lock(&pool->chunks->lock);
	done = set_stale(pool, chunk, col);
	pthread_mutex_unlock(&pool->chunks->lock);
	return done;
}

bool chunk_set_dev_stale(struct pool *pool, struct chunk *chunk, uint32_t dev)
{
	bool done = true;

	pthread_mutex_lock(&pool->chunks->lock);
	for (unsigned i = 0; i < chunk->ncols; i++) {
		if (chunk->cols[i].dev == dev)
			done &= set_stale(pool, chunk, i);
	}
	pthread_mutex_unlock(&pool->chunks->lock);
	return done;
}

struct adoption {
	struct pool *pool;
	struct pool_dev *dev;
	bool spare;
};

static void lose_unclaimed(void *arg, struct chunk *chunk)
{
	struct adoption *a = arg;

	for (unsigned i = 0; i < chunk->ncols; i++) {
		struct chunk_col *col = &chunk->cols[i];

		if (col->dev != a->dev->index || col->slab == CHUNK_NO_SLAB ||
		    slab_claims(a->dev, col->slab, chunk->id, i, col->generation))
			continue;
		make_stale(a->pool, chunk, i);
		col->slab = CHUNK_NO_SLAB;
	}
}

static int discard_unlisted(void *arg, struct pool_dev *dev, uint32_t slab,
			    const struct slab_entry *e);

void chunks_adopt_dev(struct txg_sync *s, struct pool_dev *dev)
{
	struct adoption a = {.pool = s->pool, .dev = dev};

	pthread_mutex_lock(&s->pool->chunks->lock);
	chunks_each(s->pool, lose_unclaimed, &a);
	pthread_mutex_unlock(&s->pool->chunks->lock);
	slab_each(dev, discard_unlisted, s->pool);
}

static void needs_dev(void *arg, struct chunk *chunk)
{
	struct adoption *a = arg;
	unsigned others = chunk_good_cols(a->pool, chunk);

	for (unsigned i = 0; i < chunk->ncols; i++) {
		if (chunk->cols[i].dev != a->dev->index)
			continue;
		others -= chunk_col_good(a->pool, chunk, i);
		a->spare &= others >= chunk_data_cols(chunk);
	}
}

int chunks_leave_dev(struct pool *pool, struct pool_dev *dev)
{
	struct adoption a = {.pool = pool, .dev = dev, .spare = true};
	int rc = 0;

	pthread_mutex_lock(&pool->chunks->lock);
	if (!pool_group_usable(pool, dev->group, dev))
		rc = -ENODEV;
	else
		chunks_each(pool, needs_dev, &a);
	if (!rc && !a.spare)
		rc = -EBUSY;
	if (!rc)
		pool_dev_leave(dev, TARN_DEV_OFFLINE);
	pthread_mutex_unlock(&pool->chunks->lock);
	return rc;
}

bool chunks_fault_dev(struct pool *pool, struct pool_dev *dev)
{
	bool left;

	pthread_mutex_lock(&pool->chunks->lock);
	left = pool_group_usable(pool, dev->group, dev) && pool_dev_leave(dev, TARN_DEV_FAULTED);
	pthread_mutex_unlock(&pool->chunks->lock);
	return left;
}

static void spoil(void *arg, struct chunk *chunk)
{
	const struct adoption *a = arg;

	for (unsigned i = 0; i < chunk->ncols; i++) {
		if (chunk->cols[i].dev == a->dev->index)
			atomic_store(&chunk->cols[i].filling, false);
	}
}

void chunks_spoil_dev(struct pool *pool, uint32_t dev)
{
	struct adoption a = {.pool = pool, .dev = &pool->devs[dev]};

	pthread_mutex_lock(&pool->chunks->lock);
	chunks_each(pool, spoil, &a);
	pthread_mutex_unlock(&pool->chunks->lock);
}

/* Lock held. */
static int place_column(struct txg_sync *s, struct chunk *chunk, unsigned col)
{
	struct chunk_col *c = &chunk->cols[col];
	struct slab_entry entry = {.chunk = chunk->id,
				   .generation = s->pool->chunks->generation++,
				   .profile = chunk->profile,
				   .column = (uint16_t)col,
				   .ncols = chunk->ncols};
	int rc = slab_take(&s->pool->devs[c->dev], s, &entry, &c->slab);

	if (rc)
		return rc;
	c->generation = entry.generation;
	mark_dirty(s->pool->chunks, chunk);
	return 0;
}

int chunk_fill_begin(struct txg_sync *s, struct chunk *chunk, unsigned col)
{
	struct chunk_col *c = &chunk->cols[col];
	int rc = 0;

	pthread_mutex_lock(&s->pool->chunks->lock);
	if (c->slab == CHUNK_NO_SLAB)
		rc = place_column(s, chunk, col);
	if (!rc)
		atomic_store(&c->filling, true);
	else if (rc == -ENOSPC)
		atomic_store(&s->pool->devs[c->dev].full, true);
	pthread_mutex_unlock(&s->pool->chunks->lock);
	return rc;
}

bool chunk_fill_end(struct txg_sync *s, struct chunk *chunk, unsigned col, bool good)
{
	struct chunk_col *c = &chunk->cols[col];

	pthread_mutex_lock(&s->pool->chunks->lock);
	good = good && atomic_load(&c->filling) && pool_dev_usable(&s->pool->devs[c->dev]);
	if (good) {
		/* Who sees it filling still, writes to it all the same. */
		atomic_store(&c->stale, false);
		atomic_fetch_sub(&s->pool->devs[c->dev].stale, 1);
		mark_dirty(s->pool->chunks, chunk);
	} else {
		atomic_store(&c->filling, false);
	}
	pthread_mutex_unlock(&s->pool->chunks->lock);
	return good;
}

struct chunk *chunk_take_dirty(struct pool *pool)
{
	struct chunk *c;

	pthread_mutex_lock(&pool->chunks->lock);
	c = pool->chunks->dirty;
	if (c) {
		pool->chunks->dirty = c->dirty_next;
		c->record_dirty = false;
	}
	pthread_mutex_unlock(&pool->chunks->lock);
	return c;
}

bool chunks_any_dirty(struct pool *pool)
{
	bool any;

	pthread_mutex_lock(&pool->chunks->lock);
	any = pool->chunks->dirty != NULL;
	pthread_mutex_unlock(&pool->chunks->lock);
	return any;
}

/* ---- import ---- */

static int claim_compare(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;

	if (x->chunk != y->chunk)
		return x->chunk < y->chunk ? -1 : 1;
	if (x->column != y->column)
		return x->column < y->column ? -1 : 1;
	return (x->generation > y->generation) - (x->generation < y->generation);
}

static bool shape_good(unsigned profile, unsigned ncols)
{
	if (profile < PROFILE_SINGLE || profile >= PROFILES_END || ncols > CHUNK_COLS_MAX)
		return false;
	if (profile < PROFILE_MIRROR)
		return ncols == profile;
	return ncols > profile_parity(profile);
}

/* If it may be true, its numbers are taken; it counts if the uberblock may know it. */
static int add_claim(void *arg, struct pool_dev *dev, uint32_t slab, const struct slab_entry *e)
{
	struct pool *pool = arg;
	struct chunks *t = pool->chunks;

	if (e->chunk > FORMAT_NUMBER_MAX || e->generation > FORMAT_NUMBER_MAX)
		return 0;
	if (e->chunk >= t->next_chunk)
		t->next_chunk = e->chunk + 1;
	if (e->generation >= t->generation)
		t->generation = e->generation + 1;
	if (e->txg > pool->uber.txg || !e->chunk || !shape_good(e->profile, e->ncols) ||
	    e->column >= e->ncols)
		return 0;
	t->claims = mem_grow(t->claims, t->nclaims, &t->claim_room, sizeof(*t->claims));
	t->claims[t->nclaims++] = (struct claim){.chunk = e->chunk,
						 .generation = e->generation,
						 .column = e->column,
						 .ncols = e->ncols,
						 .profile = e->profile,
						 .dev = dev->index,
						 .slab = slab};
	return 0;
}

/* The claims [first, end) of one chunk: its candidate. */
static void map_candidate(struct pool *pool, const struct claim *first, const struct claim *end)
{
	struct chunk *c = mem_zalloc(sizeof(*c));

	c->id = first->chunk;
	c->group = pool->devs[first->dev].group;
	c->profile = (uint8_t)first->profile;
	c->sectors = 1u << (pool->groups[c->group].slab_shift - SECTOR_SHIFT);
	c->ncols = (uint8_t)first->ncols;
	for (unsigned i = 0; i < c->ncols; i++) {
		c->cols[i].slab = CHUNK_NO_SLAB;
		c->cols[i].dev = pool->groups[c->group].first_dev;
		atomic_init(&c->cols[i].stale, true);
	}
	for (; first < end; first++) {
		struct chunk_col *col = &c->cols[first->column];

		if (pool->devs[first->dev].group != c->group || first->ncols != c->ncols ||
		    first->profile != c->profile)
			continue;
		col->dev = first->dev;
		col->slab = first->slab;
		col->generation = first->generation;
		atomic_init(&col->stale, false);
	}
	insert(pool, c);
}

int chunks_assemble(struct pool *pool)
{
	struct chunks *t = pool->chunks;

	atomic_store(&t->loaded, false);
	t->next_chunk = pool->uber.next_chunk;
	t->generation = pool->uber.generation;
	for (uint32_t i = 0; i < pool->ndevs; i++) {
		if (pool->devs[i].slabs)
			slab_each(&pool->devs[i], add_claim, pool);
	}
	if (t->nclaims)
		qsort(t->claims, t->nclaims, sizeof(*t->claims), claim_compare);
	for (size_t i = 0, end; i < t->nclaims; i = end) {
		for (end = i + 1; end < t->nclaims && t->claims[end].chunk == t->claims[i].chunk;)
			end++;
		map_candidate(pool, t->claims + i, t->claims + end);
	}
	return 0;
}

static bool claimed(struct chunks *t, const struct chunk *c, unsigned col)
{
	struct claim key = {.chunk = c->id, .column = col, .generation = c->cols[col].generation};
	const struct claim *found =
	    t->nclaims ? bsearch(&key, t->claims, t->nclaims, sizeof(*t->claims), claim_compare)
		       : NULL;

	return found && found->dev == c->cols[col].dev && found->slab == c->cols[col].slab &&
	       found->profile == c->profile && found->ncols == c->ncols;
}

static bool record_fits_pool(const struct pool *pool, const struct chunk_record *r)
{
	const struct pool_group *group;

	if (r->group >= pool->ngroups)
		return false;
	group = &pool->groups[r->group];
	if (r->sectors != 1u << (group->slab_shift - SECTOR_SHIFT))
		return false;
	if (profile_parity(r->profile) &&
	    profile_parity(r->profile) != pool_kind_parity(group->kind))
		return false;
	for (unsigned i = 0; i < r->ncols; i++) {
		const struct chunk_record_col *col = &r->cols[i];

		if (col->dev < group->first_dev || col->dev - group->first_dev >= group->ndevs)
			return false;
		if (col->slab >= pool->devs[col->dev].slab_count &&
		    (col->slab != CHUNK_NO_SLAB || !col->stale))
			return false;
	}
	return true;
}

static struct chunk *chunk_of_record(struct pool *pool, uint64_t id, const struct chunk_record *r)
{
	struct chunk *c = mem_zalloc(sizeof(*c));

	c->id = id;
	c->group = r->group;
	c->sectors = r->sectors;
	c->profile = r->profile;
	c->class = r->class;
	c->ncols = r->ncols;
	for (unsigned i = 0; i < c->ncols; i++) {
		struct chunk_col *col = &c->cols[i];

		col->dev = r->cols[i].dev;
		col->slab = r->cols[i].slab;
		col->generation = r->cols[i].generation;
		atomic_init(&col->stale, r->cols[i].stale);
		/* A column whose device is here without the claim has lost its slab: it may be
		   another chunk's by now. */
		if (col->slab != CHUNK_NO_SLAB && pool->devs[col->dev].slabs &&
		    !claimed(pool->chunks, c, i)) {
			col->slab = CHUNK_NO_SLAB;
			atomic_store(&col->stale, true);
			mark_dirty(pool->chunks, c);
		}
	}
	return c;
}

int chunk_load(struct pool *pool, uint64_t id, const struct chunk_record *record,
	       struct chunk **out)
{
	struct chunks *t = pool->chunks;
	struct chunk *old, *c;

	if (!id || id >= pool->uber.next_chunk || !record_fits_pool(pool, record)) {
		pool_log(pool, TARN_LOG_ERROR, "record of chunk %" PRIu64 " cannot be true", id);
		return -EIO;
	}
	pthread_mutex_lock(&t->lock);
	old = chunk_find(pool, id);
	if (old && old->listed) {
		pthread_mutex_unlock(&t->lock);
		return -EIO;
	}
	/* Readers of the pool tree may be using the candidate: it is not changed but replaced. */
	c = chunk_of_record(pool, id, record);
	if (old)
		unlink_chunk(pool, old);
	insert(pool, c);
	c->listed = true;
	pthread_mutex_unlock(&t->lock);
	*out = c;
	return 0;
}

static void unlist(void *arg, struct chunk *chunk)
{
	if (!chunk->listed)
		unlink_chunk(arg, chunk);
}

static int discard_unlisted(void *arg, struct pool_dev *dev, uint32_t slab,
			    const struct slab_entry *e)
{
	const struct chunk *c = chunk_find(arg, e->chunk);
	const struct chunk_col *col;

	if (c && e->column < c->ncols) {
		col = &c->cols[e->column];
		if (col->dev == dev->index && col->slab == slab && col->generation == e->generation)
			return 0;
	}
	slab_discard(dev, slab);
	return 0;
}

void chunks_load_done(struct pool *pool)
{
	struct chunks *t = pool->chunks;

	pthread_mutex_lock(&t->lock);
	chunks_each(pool, unlist, pool);
	pthread_mutex_unlock(&t->lock);
	for (uint32_t i = 0; i < pool->ndevs; i++) {
		if (pool->devs[i].slabs)
			slab_each(&pool->devs[i], discard_unlisted, pool);
	}
	free(t->claims);
	t->claims = NULL;
	t->nclaims = t->claim_room = 0;
	atomic_store(&t->loaded, true);
}

/* ---- records ---- */

uint32_t chunk_record_fill(const struct chunk *chunk, struct chunk_record *record)
{
	*record = (struct chunk_record){.group = chunk->group,
					.sectors = chunk->sectors,
					.profile = chunk->profile,
					.class = chunk->class,
					.ncols = chunk->ncols};
	for (unsigned i = 0; i < chunk->ncols; i++) {
		const struct chunk_col *col = &chunk->cols[i];

		record->cols[i] = (struct chunk_record_col){.dev = col->dev,
							    .slab = col->slab,
							    .generation = col->generation,
							    .stale = atomic_load(&col->stale)};
	}
	return (uint32_t)(sizeof(*record) + chunk->ncols * sizeof(record->cols[0]));
}

bool chunk_record_valid(const void *record, uint32_t len)
{
	const struct chunk_record *r = record;

	if (len < sizeof(*r) || len > CHUNK_RECORD_MAX)
		return false;
	if (r->sectors > CHUNK_SECTORS_MAX || !r->sectors || r->sectors % 64)
		return false;
	if (r->class > BLOCK_META || !shape_good(r->profile, r->ncols))
		return false;
	for (unsigned i = 0; i < r->ncols; i++) {
		if (len < sizeof(*r) + (i + 1) * sizeof(r->cols[0]) || r->cols[i].stale > 1 ||
		    r->cols[i].reserved)
			return false;
	}
	return r->bitmap_len == len - sizeof(*r) - r->ncols * sizeof(r->cols[0]) &&
	       r->free_txg <= r->alloc_txg;
}
