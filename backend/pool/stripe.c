// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Reading a block from a chunk with parity. First only the columns that hold the block, straight to
 * where it goes, or with parity in place of those that are away; then, if what came is not the
 * block, all that are left, those on faulted devices last. What turns out wrong is written anew.
 */
#include "pool/block_impl.h"
#include "pool/label.h"
#include "util/mem.h"

#include <errno.h>
#include <stddef.h>

struct stripe_col {
	struct stripe_req *req;
	struct dev_io io;
	struct iovec iov;
};

struct stripe_req {
	struct pool *pool;
	struct block_read *r;
	struct chunk *chunk;
	struct stripe st;
	void *direct;       /* the block, from its own columns alone; r->buf, or compressed */
	uint8_t *raw;       /* the stripe as read, or NULL: not yet needed */
	uint8_t *fixed;     /* as it should be */
	uint32_t reading;   /* masks of columns: on their way, */
	uint32_t have;      /* in raw, */
	uint32_t failed;    /* could not be read, */
	uint32_t repairing; /* being written anew */
	atomic_uint running;
	struct work work;
	struct stripe_col cols[];
};

static struct stripe_req *req_of(struct work *work)
{
	return (struct stripe_req *)((char *)work - offsetof(struct stripe_req, work));
}

static struct pool_dev *dev_of(const struct stripe_req *q, unsigned col)
{
	return &q->pool->devs[q->chunk->cols[col].dev];
}

static void finish(struct stripe_req *q, int result)
{
	struct block_read *r = q->r;

	if (q->direct != r->buf)
		free(q->direct);
	free(q->raw);
	free(q->fixed);
	free(q);
	r->result = result;
	r->done(r);
}

/* ---- requests to columns ---- */

/* The last answer, or whoever submitted them, goes on in a worker. */
static void part_end(struct stripe_req *q)
{
	if (atomic_fetch_sub(&q->running, 1) == 1)
		workq_submit(q->pool->wq, &q->work);
}

static void part_done(struct dev_io *io)
{
	part_end(((struct stripe_col *)io->owner)->req);
}

static void submit(struct stripe_req *q, enum dev_op op, unsigned i, void *buf, uint32_t bytes)
{
	struct stripe_col *col = &q->cols[i];

	col->req = q;
	col->iov = (struct iovec){.iov_base = buf, .iov_len = bytes};
	col->io = (struct dev_io){.op = op,
				  .offset = chunk_offset(q->pool, q->chunk, i, q->r->bp.sector),
				  .length = bytes,
				  .iov = &col->iov,
				  .iovcnt = 1,
				  .owner = col,
				  .done = part_done};
	atomic_fetch_add(&q->running, 1);
	dev_submit(dev_of(q, i)->dev, &col->io);
}

static void read_columns(struct stripe_req *q, uint32_t mask)
{
	uint32_t col = stripe_col_bytes(&q->st), sectors = bp_sectors(&q->r->bp) << SECTOR_SHIFT;

	q->reading = mask;
	atomic_store(&q->running, 1);
	for (unsigned i = 0; i < stripe_cols(&q->st); i++) {
		if (!(mask & 1u << i))
			continue;
		if (q->raw)
			submit(q, DEV_READ, i, q->raw + (size_t)i * col, col);
		else
			submit(q, DEV_READ, i, (char *)q->direct + (size_t)i * col,
			       sectors - i * col < col ? sectors - i * col : col);
	}
	part_end(q);
}

/* ---- which columns ---- */

static uint32_t good_columns(const struct stripe_req *q)
{
	uint32_t mask = 0;

	for (unsigned i = 0; i < q->chunk->ncols; i++) {
		if (chunk_col_good(q->pool, q->chunk, i))
			mask |= 1u << i;
	}
	return mask;
}

/* What a faulted device has is verified like everything else. */
static uint32_t present_columns(const struct stripe_req *q)
{
	uint32_t mask = 0;

	for (unsigned i = 0; i < q->chunk->ncols; i++) {
		if (!atomic_load(&q->chunk->cols[i].stale) && dev_of(q, i)->dev)
			mask |= 1u << i;
	}
	return mask;
}

/* The columns with the block's data, and as many of parity as of those are missing. */
static uint32_t first_columns(const struct stripe_req *q)
{
	uint32_t used = (uint32_t)((1ull << stripe_used_cols(&q->st)) - 1);
	uint32_t good = good_columns(q), mask = used & good;
	int missing = __builtin_popcount(used & ~good);

	for (unsigned i = q->st.data; i < stripe_cols(&q->st) && missing; i++) {
		if (good & 1u << i) {
			mask |= 1u << i;
			missing--;
		}
	}
	return mask;
}

/* False: nothing is left that could help. */
static bool read_more(struct stripe_req *q)
{
	uint32_t tried = q->have | q->failed;
	uint32_t mask = good_columns(q) & ~tried;

	if (!mask)
		mask = present_columns(q) & ~tried;
	if (!mask)
		return false;
	if (!q->raw)
		q->raw =
		    mem_must(dev_buf_alloc((size_t)stripe_cols(&q->st) * stripe_col_bytes(&q->st)));
	read_columns(q, mask);
	return true;
}

/* ---- answers ---- */

static bool good(const void *arg, const void *block)
{
	return block_content_good(arg, block);
}

static void repaired(struct work *work)
{
	struct stripe_req *q = req_of(work);

	for (unsigned i = 0; i < stripe_cols(&q->st); i++) {
		const struct dev_io *io = &q->cols[i].io;
		struct pool_dev *dev = dev_of(q, i);

		if (!(q->repairing & 1u << i))
			continue;
		if (io->result)
			block_device_error(q->pool, dev, &dev->write_errors, "repairing",
					   io->result);
		else
			pool_log(q->pool, TARN_LOG_WARN, "repaired %u bytes on %s at %llu",
				 stripe_col_bytes(&q->st), dev->path,
				 (unsigned long long)io->offset);
	}
	finish(q, block_decode(q->pool, &q->r->bp, q->fixed, q->r->buf));
}

static void repair(struct stripe_req *q, uint32_t bad)
{
	uint32_t col = stripe_col_bytes(&q->st);

	q->work.fn = repaired;
	atomic_store(&q->running, 1);
	for (unsigned i = 0; i < stripe_cols(&q->st); i++) {
		if (!(bad & 1u << i) || !block_may_repair(q->pool, q->chunk, i))
			continue;
		q->repairing |= 1u << i;
		submit(q, DEV_WRITE, i, q->fixed + (size_t)i * col, col);
	}
	part_end(q);
}

static bool solve(struct stripe_req *q)
{
	uint32_t wrong;

	if (!q->fixed)
		q->fixed =
		    mem_must(dev_buf_alloc((size_t)stripe_cols(&q->st) * stripe_col_bytes(&q->st)));
	if (!stripe_solve(&q->st, q->raw, q->have, good, &q->r->bp, q->fixed, &wrong))
		return false;
	for (unsigned i = 0; i < stripe_cols(&q->st); i++) {
		if (wrong & 1u << i)
			atomic_fetch_add(&dev_of(q, i)->checksum_errors, 1);
	}
	repair(q, wrong | q->failed);
	return true;
}

static void count_failed(struct stripe_req *q, uint32_t failed)
{
	for (unsigned i = 0; i < stripe_cols(&q->st); i++) {
		struct pool_dev *dev = dev_of(q, i);

		if (failed & 1u << i)
			block_device_error(q->pool, dev, &dev->read_errors, "reading",
					   q->cols[i].io.result);
	}
}

static void arrived(struct work *work)
{
	struct stripe_req *q = req_of(work);
	uint32_t failed = 0;

	for (unsigned i = 0; i < stripe_cols(&q->st); i++) {
		if (q->reading & 1u << i && q->cols[i].io.result)
			failed |= 1u << i;
	}
	q->failed |= failed;
	count_failed(q, failed);
	if (q->raw) {
		q->have |= q->reading & ~failed;
		if (solve(q))
			return;
	} else if (!failed && block_content_good(&q->r->bp, q->direct)) {
		finish(q, block_decode(q->pool, &q->r->bp, q->direct, q->r->buf));
		return;
	}
	if (!read_more(q))
		finish(q, block_no_good_copy(q->pool, &q->r->bp));
}

static void refused(struct work *work)
{
	struct stripe_req *q = req_of(work);

	finish(q, block_no_good_copy(q->pool, &q->r->bp));
}

void stripe_read(struct pool *pool, struct chunk *chunk, struct block_read *r)
{
	struct stripe_req *q = mem_zalloc(sizeof(*q) + chunk->ncols * sizeof(q->cols[0]));
	uint32_t first, used;

	q->pool = pool;
	q->r = r;
	q->chunk = chunk;
	q->st = chunk_stripe(chunk, r->bp.psize);
	q->direct = r->buf;
	if (r->bp.comp != COMP_OFF)
		q->direct = mem_must(dev_buf_alloc((size_t)bp_sectors(&r->bp) << SECTOR_SHIFT));
	if (q->st.rows > chunk->sectors || r->bp.sector > chunk->sectors - q->st.rows) {
		q->work.fn = refused;
		workq_submit(pool->wq, &q->work);
		return;
	}
	q->work.fn = arrived;
	used = (uint32_t)((1ull << stripe_used_cols(&q->st)) - 1);
	first = first_columns(q);
	if (first != used)
		q->raw =
		    mem_must(dev_buf_alloc((size_t)stripe_cols(&q->st) * stripe_col_bytes(&q->st)));
	read_columns(q, first);
}
