// SPDX-License-Identifier: LGPL-3.0-or-later
#include "pool/rebuild.h"

#include "pool/block_impl.h"
#include "pool/devio.h"
#include "pool/ilog.h"
#include "pool/label.h"
#include "pool/slab.h"

#include <errno.h>
#include <stdlib.h>

#define PIECE_ROWS 256

/* ---- which chunks ---- */

/* Columns that could be rebuilt. */
static uint32_t targets_of(const struct pool *pool, const struct chunk *chunk)
{
	uint32_t mask = 0;

	if (chunk_good_cols(pool, chunk) < chunk_data_cols(chunk))
		return 0;
	for (unsigned i = 0; i < chunk->ncols; i++) {
		const struct pool_dev *dev = &pool->devs[chunk->cols[i].dev];

		if (atomic_load(&chunk->cols[i].stale) && dev->slabs && pool_dev_usable(dev))
			mask |= 1u << i;
	}
	return mask;
}

static uint64_t work(struct pool *pool, const struct chunk *chunk, uint32_t targets)
{
	return ((uint64_t)alloc_used(pool, chunk) << SECTOR_SHIFT) *
	       (unsigned)__builtin_popcount(targets);
}

/* Keeps those with the smallest ids. */
static void consider(void *arg, struct chunk *chunk)
{
	struct rebuild *r = arg;
	uint32_t targets = chunk->id > r->after ? targets_of(r->pool, chunk) : 0, at;

	if (!targets)
		return;
	r->left += work(r->pool, chunk, targets);
	for (at = r->n; at && r->chunks[at - 1].chunk->id > chunk->id; at--)
		continue;
	if (at == REBUILD_CHUNKS)
		return;
	if (r->n == REBUILD_CHUNKS)
		r->n--;
	memmove(&r->chunks[at + 1], &r->chunks[at], (r->n - at) * sizeof(r->chunks[0]));
	r->chunks[at] = (struct rebuild_chunk){.chunk = chunk, .targets = targets};
	r->n++;
}

static void limit_bytes(struct rebuild *r)
{
	uint64_t bytes = 0;
	uint32_t n = 0;

	while (n < r->n && (!n || bytes < REBUILD_BYTES)) {
		bytes += work(r->pool, r->chunks[n].chunk, r->chunks[n].targets);
		n++;
	}
	r->n = n;
}

void rebuild_begin(struct txg_sync *s, struct rebuild *r)
{
	struct extent log[ILOG_EXTENTS_MAX];
	uint32_t nlog = ilog_extents(r->pool, log);

	r->n = 0;
	r->left = 0;
	chunks_each(r->pool, consider, r);
	limit_bytes(r);
	for (uint32_t c = 0; c < r->n; c++) {
		struct rebuild_chunk *rc = &r->chunks[c];

		for (unsigned i = 0; i < rc->chunk->ncols; i++) {
			if (rc->targets & 1u << i && chunk_fill_begin(s, rc->chunk, i))
				rc->targets &= ~(1u << i);
		}
		if (rc->targets)
			alloc_fill_begin(s, rc->chunk, log, nlog);
	}
}

/* Out of use, its columns wait for more than a slab. */
static bool waits(const struct pool_dev *dev)
{
	return atomic_load(&dev->full) && atomic_load(&dev->stale) && pool_dev_usable(dev);
}

bool rebuild_waits(const struct pool *pool)
{
	uint32_t ndevs = __atomic_load_n(&pool->ndevs, __ATOMIC_ACQUIRE);
	bool any = false;

	for (uint32_t i = 0; i < ndevs; i++)
		any |= waits(&pool->devs[i]);
	return any;
}

bool rebuild_may_go_on(struct pool *pool)
{
	uint32_t ndevs = __atomic_load_n(&pool->ndevs, __ATOMIC_ACQUIRE);
	bool any = false;

	for (uint32_t i = 0; i < ndevs; i++) {
		struct pool_dev *dev = &pool->devs[i];

		if (waits(dev) && slab_free_count(dev))
			any |= atomic_exchange(&dev->full, false);
	}
	return any;
}

/* ---- filling ---- */

struct piece {
	struct rebuild *r;
	struct chunk *chunk;
	struct stripe st;
	uint32_t targets, have; /* masks */
	size_t col_bytes;
	uint8_t *raw, *fixed; /* room for all columns of a whole piece */
};

/* Requests to the columns of a mask, in memory at `data`, as much as a piece has; of those that
   fail the mask is returned, and it is counted. */
static uint32_t run(struct piece *p, enum dev_op op, uint32_t mask, uint8_t *data, uint32_t row)
{
	struct pool *pool = p->r->pool;
	struct devio ios[CHUNK_COLS_MAX];
	unsigned cols[CHUNK_COLS_MAX];
	uint32_t n = 0, failed = 0;

	for (unsigned i = 0; i < p->chunk->ncols; i++) {
		if (!(mask & 1u << i))
			continue;
		cols[n] = i;
		ios[n++] = devio(pool->devs[p->chunk->cols[i].dev].dev, op,
				 chunk_offset(pool, p->chunk, i, row), data + i * p->col_bytes,
				 p->col_bytes);
	}
	devio_run(ios, n);
	for (uint32_t i = 0; i < n; i++) {
		struct pool_dev *dev = &pool->devs[p->chunk->cols[cols[i]].dev];

		if (!ios[i].io.result)
			continue;
		failed |= 1u << cols[i];
		block_device_error(pool, dev,
				   op == DEV_READ ? &dev->read_errors : &dev->write_errors,
				   op == DEV_READ ? "reading" : "rebuilding", ios[i].io.result);
	}
	return failed;
}

static bool any(const void *arg, const void *block)
{
	(void)arg, (void)block;
	return true;
}

/* What all columns should hold, from those that were read: in p->fixed. */
static bool compute(struct piece *p)
{
	uint32_t wrong;

	if (p->st.parity)
		return stripe_solve(&p->st, p->raw, p->have, any, NULL, p->fixed, &wrong);
	if (!p->have)
		return false;
	for (unsigned i = 0; i < p->chunk->ncols; i++) {
		if (p->targets & 1u << i)
			memcpy(p->fixed + i * p->col_bytes,
			       p->raw + (size_t)__builtin_ctz(p->have) * p->col_bytes,
			       p->col_bytes);
	}
	return true;
}

/* Good columns; of copies one is enough. */
static uint32_t sources(const struct piece *p, uint32_t tried)
{
	uint32_t mask = 0;

	for (unsigned i = 0; i < p->chunk->ncols; i++) {
		if (chunk_col_good(p->r->pool, p->chunk, i))
			mask |= 1u << i;
	}
	mask &= ~tried;
	return p->st.parity ? mask : mask & -mask;
}

static bool fill_piece(struct piece *p, const struct extent *run_of_rows)
{
	uint32_t tried = 0, mask;

	p->col_bytes = (size_t)run_of_rows->count << SECTOR_SHIFT;
	if (chunk_parity(p->chunk))
		p->st = stripe_make(chunk_data_cols(p->chunk), chunk_parity(p->chunk),
				    (uint32_t)p->col_bytes * chunk_data_cols(p->chunk));
	do {
		mask = sources(p, tried);
		if (!mask)
			return false;
		tried |= mask;
		p->have = mask & ~run(p, DEV_READ, mask, p->raw, run_of_rows->sector);
	} while (!compute(p));
	return pool_may_write(p->r->pool) &&
	       !run(p, DEV_WRITE, p->targets, p->fixed, run_of_rows->sector);
}

static bool fill_chunk(struct piece *p, bool (*pace)(void *arg, uint64_t written, uint64_t moved),
		       void *arg)
{
	struct extent rows;

	while (alloc_fill_next(p->r->pool, p->chunk, PIECE_ROWS, &rows)) {
		uint64_t written;

		if (!fill_piece(p, &rows))
			return false;
		written = p->col_bytes * (unsigned)__builtin_popcount(p->targets);
		if (pace(arg, written,
			 written + p->col_bytes * (unsigned)__builtin_popcount(p->have)))
			return false;
	}
	return true;
}

void rebuild_fill(struct rebuild *r, bool (*pace)(void *arg, uint64_t written, uint64_t moved),
		  void *arg)
{
	for (uint32_t c = 0; c < r->n; c++) {
		struct rebuild_chunk *rc = &r->chunks[c];
		size_t room = (size_t)rc->chunk->ncols * PIECE_ROWS * SECTOR_SIZE;
		struct piece p = {.r = r,
				  .chunk = rc->chunk,
				  .targets = rc->targets,
				  .raw = dev_buf_alloc(room),
				  .fixed = dev_buf_alloc(room)};

		rc->good = rc->targets && p.raw && p.fixed && fill_chunk(&p, pace, arg);
		free(p.raw);
		free(p.fixed);
	}
}

/* ---- the end ---- */

static bool end_chunk(struct txg_sync *s, const struct rebuild_chunk *rc)
{
	bool all = rc->good;

	if (!rc->targets)
		return false;
	alloc_fill_end(s, rc->chunk);
	for (unsigned i = 0; i < rc->chunk->ncols; i++) {
		if (rc->targets & 1u << i)
			all &= chunk_fill_end(s, rc->chunk, i, rc->good);
	}
	return all;
}

uint32_t rebuild_end(struct txg_sync *s, struct rebuild *r)
{
	uint32_t chunks = 0;

	for (uint32_t c = 0; c < r->n; c++) {
		r->after = r->chunks[c].chunk->id;
		chunks += end_chunk(s, &r->chunks[c]);
	}
	r->n = 0;
	return chunks;
}
