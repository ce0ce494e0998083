// SPDX-License-Identifier: LGPL-3.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check/impl.h"
#include "pool/alloc.h"
#include "pool/bitmap.h"

/* A bitmap of referenced sectors for each chunk that is referred to, in a hash by chunk id. */
#define REFS_BUCKETS 65536
struct chunk_refs {
	uint64_t chunk;
	struct chunk_refs *next;
	uint32_t sectors;
	bool compared;
	uint64_t bits[];
};
struct refs {
	struct chunk_refs *last; /* neighbours in a tree are mostly neighbours on the devices */
	struct chunk_refs *bucket[REFS_BUCKETS];
};

int refs_new(struct refs **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void refs_free(struct refs *refs)
{
	for (unsigned i = 0; refs && i < REFS_BUCKETS; i++)
		while (refs->bucket[i]) {
			struct chunk_refs *r = refs->bucket[i];

			refs->bucket[i] = r->next;
			free(r);
		}
	free(refs);
}

static struct chunk_refs *refs_find(struct refs *refs, uint64_t chunk)
{
	struct chunk_refs *r = refs->last;

	if (!r || r->chunk != chunk)
		r = refs->bucket[chunk % REFS_BUCKETS];
	while (r && r->chunk != chunk)
		r = r->next;
	if (r)
		refs->last = r;
	return r;
}

static struct chunk_refs *refs_add(struct refs *refs, const struct chunk *chunk)
{
	struct chunk_refs **at = &refs->bucket[chunk->id % REFS_BUCKETS];
	struct chunk_refs *r = calloc(1, sizeof(*r) + chunk->sectors / 8);

	if (!r)
		return NULL;
	r->chunk = chunk->id;
	r->sectors = chunk->sectors;
	r->next = *at;
	*at = r;
	return r;
}

void refs_mark(struct check *c, const struct bp *bp, const struct place *place)
{
	struct chunk_refs *r = refs_find(c->refs, bp->chunk);
	const struct chunk *chunk = chunk_find(c->pool, bp->chunk);
	uint32_t n = chunk ? chunk_rows(chunk, bp_sectors(bp)) : 0;
	char text[128];

	c->result->blocks++;
	c->result->bytes += (uint64_t)bp_sectors(bp) << SECTOR_SHIFT;
	if (!r && chunk)
		r = refs_add(c->refs, chunk);
	if (!r || !n || n > r->sectors || bp->sector > r->sectors - n) {
		/* Then no bitmap has it: verify_block() tells that it cannot be read. */
		if (chunk && !r) {
			found_at(place, TARN_FOUND_BLOCK,
				 "out of memory: space can't be compared from block %s on",
				 bp_print(bp, text));
			c->lost = true;
		}
		return;
	}
	if (!bitmap_all_clear(r->bits, bp->sector, n))
		found_at(place, TARN_FOUND_SHARED, "block %s is referenced more than once",
			 bp_print(bp, text));
	bitmap_set(r->bits, bp->sector, n);
}

bool refs_has(struct refs *refs, const struct chunk *chunk, const struct bp *bp)
{
	struct chunk_refs *r = refs_find(refs, chunk->id);
	uint32_t n = chunk_rows(chunk, bp_sectors(bp));

	return r && n <= r->sectors && bp->sector <= r->sectors - n &&
	       bitmap_all_set(r->bits, bp->sector, n);
}

/* ---- referenced against allocated ---- */

struct compare {
	struct check *c;
	struct chunk_refs *r; /* of the chunk whose runs are coming; NULL: nothing refers to it */
	uint64_t chunk;
	uint32_t at; /* end of the last run */
};

static void report_run(struct check *c, enum tarn_finding_kind kind, const char *what,
		       uint64_t chunk, uint32_t first, uint32_t end)
{
	found(c, kind, "chunk %llu: sectors %u to %u are %s", (unsigned long long)chunk, first,
	      end - 1, what);
}

/* Nothing in [from, end) is allocated. */
static void compare_clear(struct check *c, const struct chunk_refs *r, uint32_t from, uint32_t end)
{
	uint32_t first;

	while (r && (first = bitmap_next(r->bits, end, from, true)) < end) {
		from = bitmap_next(r->bits, end, first, false);
		report_run(c, TARN_FOUND_UNALLOCATED, "referenced, but not allocated", r->chunk,
			   first, from);
	}
}

static void end_chunk(struct compare *cmp)
{
	if (!cmp->r)
		return;
	compare_clear(cmp->c, cmp->r, cmp->at, cmp->r->sectors);
	cmp->r->compared = true;
}

/* Runs come in order, chunk by chunk. */
static void compare_run(void *arg, const struct extent *run)
{
	struct compare *cmp = arg;
	uint32_t end = run->sector + run->count, at = run->sector, first;

	if (run->chunk != cmp->chunk) {
		end_chunk(cmp);
		cmp->chunk = run->chunk;
		cmp->r = refs_find(cmp->c->refs, run->chunk);
		cmp->at = 0;
	}
	if (!cmp->r) {
		report_run(cmp->c, TARN_FOUND_LEAK, "allocated, but nothing refers to them",
			   run->chunk, at, end);
		return;
	}
	compare_clear(cmp->c, cmp->r, cmp->at, at);
	while ((first = bitmap_next(cmp->r->bits, end, at, false)) < end) {
		at = bitmap_next(cmp->r->bits, end, first, true);
		report_run(cmp->c, TARN_FOUND_LEAK, "allocated, but nothing refers to them",
			   run->chunk, first, at);
	}
	cmp->at = end;
}

/* Freed in the last commits and kept for older uberblocks: this state must not refer to it. It is
   marked as if something did, as it is still allocated. */
static void mark_deferred(void *arg, const struct extent *run)
{
	struct check *c = arg;
	struct chunk_refs *r = refs_find(c->refs, run->chunk);
	uint32_t end = run->sector + run->count, at = run->sector, first;

	if (!r)
		r = refs_add(c->refs, chunk_find(c->pool, run->chunk));
	while (r && (first = bitmap_next(r->bits, end, at, true)) < end) {
		at = bitmap_next(r->bits, end, first, false);
		report_run(c, TARN_FOUND_UNALLOCATED, "referenced, but freed", run->chunk, first,
			   at);
	}
	if (r)
		bitmap_set(r->bits, run->sector, run->count);
}

/* They are not of this state after all. */
static void clear_deferred(void *arg, const struct extent *run)
{
	struct check *c = arg;
	struct chunk_refs *r = refs_find(c->refs, run->chunk);

	if (r)
		bitmap_clear(r->bits, run->sector, run->count);
}

void check_space(struct check *c)
{
	struct compare cmp = {.c = c};

	alloc_each_deferred(c->pool, mark_deferred, c);
	alloc_each_run(c->pool, compare_run, &cmp);
	end_chunk(&cmp);
	for (unsigned i = 0; i < REFS_BUCKETS; i++)
		for (struct chunk_refs *r = c->refs->bucket[i]; r; r = r->next)
			if (!r->compared)
				compare_clear(c, r, 0, r->sectors);
	alloc_each_deferred(c->pool, clear_deferred, c);
}

struct total {
	struct pool *pool;
	uint64_t bytes;
};

static void add_run(void *arg, const struct extent *run)
{
	struct total *total = arg;
	unsigned width = chunk_data_cols(chunk_find(total->pool, run->chunk));

	total->bytes += (uint64_t)run->count * width << SECTOR_SHIFT;
}

uint64_t space_total(struct pool *pool)
{
	struct total allocated = {.pool = pool}, deferred = {.pool = pool};

	alloc_each_run(pool, add_run, &allocated);
	alloc_each_deferred(pool, add_run, &deferred);
	return allocated.bytes - deferred.bytes;
}
