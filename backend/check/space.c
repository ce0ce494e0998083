// SPDX-License-Identifier: LGPL-3.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check/impl.h"
#include "pool/alloc.h"
#include "pool/alog.h"
#include "pool/block.h"

/* A bitmap of referenced sectors per chunk, in a hash by chunk id. */
#define REFS_BUCKETS 4096
struct chunk_refs {
	uint64_t chunk;
	struct chunk_refs *next;
	uint64_t bits[CHUNK_SECTORS_MAX / 64];
};
struct refs {
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

static struct chunk_refs *chunk_refs(struct refs *refs, uint64_t chunk, bool make)
{
	struct chunk_refs **at = &refs->bucket[chunk % REFS_BUCKETS];

	while (*at && (*at)->chunk != chunk)
		at = &(*at)->next;
	if (!*at && make) {
		*at = calloc(1, sizeof(**at));
		if (*at)
			(*at)->chunk = chunk;
	}
	return *at;
}

static bool test(const struct chunk_refs *r, uint32_t sector)
{
	return r->bits[sector / 64] >> (sector % 64) & 1;
}

void refs_mark(struct check *c, const struct bp *bp, const char *where)
{
	struct chunk_refs *r = chunk_refs(c->refs, bp->chunk, true);
	uint32_t n = bp_sectors(bp), twice = 0;
	char text[128];

	if (!r) {
		found(c, "%s: out of memory, the rest is not counted", where);
		return;
	}
	if ((uint64_t)bp->sector + n > CHUNK_SECTORS_MAX) {
		found(c, "%s: block %s lies outside of its chunk", where, bp_print(bp, text));
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		twice += test(r, bp->sector + i);
		r->bits[(bp->sector + i) / 64] |= 1ull << ((bp->sector + i) % 64);
	}
	if (twice)
		found(c, "%s: block %s is referenced more than once", where, bp_print(bp, text));
}

struct sync_read {
	struct block_read read;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done;
};

static void read_done(struct block_read *read)
{
	struct sync_read *r = read->owner;

	pthread_mutex_lock(&r->lock);
	r->done = true;
	pthread_cond_signal(&r->cond);
	pthread_mutex_unlock(&r->lock);
}

static int read_block(struct check *c, const struct bp *bp)
{
	struct sync_read r = {
	    .read = {.bp = *bp, .done = read_done, .owner = &r},
	    .lock = PTHREAD_MUTEX_INITIALIZER,
	    .cond = PTHREAD_COND_INITIALIZER,
	};

	r.read.buf = dev_buf_alloc((bp->lsize + SECTOR_SIZE - 1) & ~(size_t)(SECTOR_SIZE - 1));
	if (!r.read.buf)
		return -ENOMEM;
	r.read.epoch = read_enter(c->pool);
	block_read(c->pool, &r.read);
	pthread_mutex_lock(&r.lock);
	while (!r.done)
		pthread_cond_wait(&r.cond, &r.lock);
	pthread_mutex_unlock(&r.lock);
	read_leave(c->pool, r.read.epoch);
	free(r.read.buf);
	return r.read.result;
}

void check_block(struct check *c, const struct bp *bp, const char *where)
{
	char text[128];
	int rc;

	c->result->blocks++;
	if (c->spec->flags & TARN_CHECK_METADATA)
		return;
	c->result->bytes += bp->psize;
	rc = read_block(c, bp);
	if (rc)
		found(c, "%s: block %s can't be read: %s", where, bp_print(bp, text),
		      strerror(-rc));
}

/* ---- referenced against allocated ---- */

static void report_run(struct check *c, const char *what, uint64_t chunk, uint32_t first,
		       uint32_t end)
{
	found(c, "chunk %llu: sectors %u to %u are %s", (unsigned long long)chunk, first, end - 1,
	      what);
}

/* Takes the run's marks away; what is left at the end is referenced without being allocated. */
static void compare_run(void *arg, const struct extent *run)
{
	struct check *c = arg;
	struct chunk_refs *r = chunk_refs(c->refs, run->chunk, false);
	uint32_t end = run->sector + run->count, leak = end;

	for (uint32_t s = run->sector; s < end; s++) {
		bool referenced = r && test(r, s);

		if (referenced)
			r->bits[s / 64] &= ~(1ull << (s % 64));
		if (referenced && leak < end) {
			report_run(c, "allocated, but nothing refers to them", run->chunk, leak, s);
			leak = end;
		} else if (!referenced && leak == end) {
			leak = s;
		}
	}
	if (leak < end)
		report_run(c, "allocated, but nothing refers to them", run->chunk, leak, end);
}

static void mark_deferred(void *arg, const struct extent *run)
{
	struct check *c = arg;
	struct chunk_refs *r = chunk_refs(c->refs, run->chunk, true);

	for (uint32_t s = run->sector; r && s < run->sector + run->count; s++)
		r->bits[s / 64] |= 1ull << (s % 64);
}

static void report_rest(struct check *c, const struct chunk_refs *r)
{
	for (uint32_t s = 0; s < CHUNK_SECTORS_MAX; s++) {
		uint32_t first = s;

		if (!r->bits[s / 64]) {
			s |= 63;
			continue;
		}
		while (s < CHUNK_SECTORS_MAX && test(r, s))
			s++;
		if (s > first)
			report_run(c, "referenced, but not allocated", r->chunk, first, s);
	}
}

void check_space(struct check *c)
{
	/* Freed in the last commits: kept for older uberblocks, referenced by them or not at all.
	 */
	alloc_each_deferred(c->pool, mark_deferred, c);
	alloc_each_run(c->pool, compare_run, c);
	for (unsigned i = 0; i < REFS_BUCKETS; i++)
		for (struct chunk_refs *r = c->refs->bucket[i]; r; r = r->next)
			report_rest(c, r);
}
