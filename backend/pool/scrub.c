// SPDX-License-Identifier: LGPL-3.0-or-later
#include "pool/scrub.h"

#include "pool/block_impl.h"
#include "pool/label.h"
#include "util/mem.h"

#include <errno.h>
#include <stddef.h>

struct scrub_col {
	struct scrub_req *req;
	struct dev_io io;
	struct iovec iov;
};

struct scrub_req {
	struct pool *pool;
	struct block_scrub *b;
	struct chunk *chunk;
	struct stripe st;   /* parity 0: the columns are copies */
	uint32_t col_bytes; /* of the block in each column */
	uint8_t *raw;       /* as read, column after column; one that was not is all anything */
	uint8_t *fixed;     /* of a stripe: as it should be */
	uint32_t asked;     /* masks of columns: on their way, */
	uint32_t bad;       /* read, and other than they should be, or not to be read */
	atomic_uint running;
	struct work work;
	struct scrub_col cols[];
};

static struct scrub_req *req_of(struct work *work)
{
	return (struct scrub_req *)((char *)work - offsetof(struct scrub_req, work));
}

static struct pool_dev *dev_of(const struct scrub_req *q, unsigned col)
{
	return &q->pool->devs[q->chunk->cols[col].dev];
}

static void finish(struct scrub_req *q, int result)
{
	struct block_scrub *b = q->b;

	free(q->raw);
	free(q->fixed);
	free(q);
	b->result = result;
	b->done(b);
}

/* ---- requests to columns ---- */

static void part_end(struct scrub_req *q)
{
	if (atomic_fetch_sub(&q->running, 1) == 1)
		workq_submit(q->pool->wq, &q->work);
}

static void part_done(struct dev_io *io)
{
	part_end(((struct scrub_col *)io->owner)->req);
}

/* data(i): the column's memory. */
static void submit(struct scrub_req *q, enum dev_op op, uint32_t mask,
		   uint8_t *(*data)(const struct scrub_req *q, unsigned i),
		   void (*fn)(struct work *work))
{
	q->asked = mask;
	q->work.fn = fn;
	atomic_store(&q->running, 1);
	for (unsigned i = 0; i < q->chunk->ncols; i++) {
		struct scrub_col *col = &q->cols[i];

		if (!(mask & 1u << i))
			continue;
		col->req = q;
		col->iov = (struct iovec){.iov_base = data(q, i), .iov_len = q->col_bytes};
		col->io =
		    (struct dev_io){.op = op,
				    .offset = chunk_offset(q->pool, q->chunk, i, q->b->bp.sector),
				    .length = q->col_bytes,
				    .iov = &col->iov,
				    .iovcnt = 1,
				    .owner = col,
				    .done = part_done};
		atomic_fetch_add(&q->running, 1);
		dev_submit(dev_of(q, i)->dev, &col->io);
	}
	part_end(q);
}

static uint8_t *column_read(const struct scrub_req *q, unsigned i)
{
	return q->raw + (size_t)i * q->col_bytes;
}

/* Of copies the good one is in column 0's place by then. */
static uint8_t *column_fixed(const struct scrub_req *q, unsigned i)
{
	return q->st.parity ? q->fixed + (size_t)i * q->col_bytes : q->raw;
}

/* ---- repair ---- */

static void repaired(struct work *work)
{
	struct scrub_req *q = req_of(work);

	for (unsigned i = 0; i < q->chunk->ncols; i++) {
		struct pool_dev *dev = dev_of(q, i);

		if (!(q->asked & 1u << i))
			continue;
		if (q->cols[i].io.result) {
			block_device_error(q->pool, dev, &dev->write_errors, "repairing",
					   q->cols[i].io.result);
			continue;
		}
		q->b->repaired += q->col_bytes;
		pool_log(q->pool, TARN_LOG_WARN, "repaired %u bytes on %s at %llu", q->col_bytes,
			 dev->path, (unsigned long long)q->cols[i].io.offset);
	}
	finish(q, 0);
}

static void repair(struct scrub_req *q)
{
	uint32_t mask = 0;

	for (unsigned i = 0; i < q->chunk->ncols; i++) {
		if (q->bad & 1u << i && block_may_repair(q->pool, q->chunk, i))
			mask |= 1u << i;
	}
	if (mask)
		submit(q, DEV_WRITE, mask, column_fixed, repaired);
	else
		finish(q, 0);
}

/* ---- what was read ---- */

/* The checksum does not cover the padding: it is zero on every good copy. */
static bool copy_good(const struct scrub_req *q, const uint8_t *stored)
{
	for (uint32_t i = q->b->bp.psize; i < q->col_bytes; i++) {
		if (stored[i])
			return false;
	}
	return block_content_good(&q->b->bp, stored);
}

/* Masks of columns that are not the block, among those that were read; false: all of them. */
static bool judge_copies(struct scrub_req *q, uint32_t have, uint32_t *wrong)
{
	const uint8_t *good = NULL;

	*wrong = 0;
	for (unsigned i = 0; i < q->chunk->ncols; i++) {
		const uint8_t *stored = q->raw + (size_t)i * q->col_bytes;

		if (!(have & 1u << i))
			continue;
		if (!copy_good(q, stored))
			*wrong |= 1u << i;
		else if (!good)
			good = stored;
	}
	if (!good) {
		/* Where only padding is wrong there is a good copy all the same. */
		for (unsigned i = 0; i < q->chunk->ncols && !good; i++) {
			uint8_t *stored = q->raw + (size_t)i * q->col_bytes;

			if (!(have & 1u << i) || !block_content_good(&q->b->bp, stored))
				continue;
			memset(stored + q->b->bp.psize, 0, q->col_bytes - q->b->bp.psize);
			good = stored;
		}
	}
	if (good && good != q->raw)
		memcpy(q->raw, good, q->col_bytes);
	return good;
}

static bool content_good(const void *bp, const void *stored)
{
	return block_content_good(bp, stored);
}

static void arrived(struct work *work)
{
	struct scrub_req *q = req_of(work);
	uint32_t failed = 0, wrong = 0;
	bool good;

	for (unsigned i = 0; i < q->chunk->ncols; i++) {
		struct pool_dev *dev = dev_of(q, i);

		if (!(q->asked & 1u << i))
			continue;
		q->b->read += q->col_bytes;
		if (!q->cols[i].io.result)
			continue;
		failed |= 1u << i;
		block_device_error(q->pool, dev, &dev->read_errors, "reading",
				   q->cols[i].io.result);
	}
	if (q->st.parity)
		good = stripe_solve(&q->st, q->raw, q->asked & ~failed, content_good, &q->b->bp,
				    q->fixed, &wrong);
	else
		good = judge_copies(q, q->asked & ~failed, &wrong);
	for (unsigned i = 0; i < q->chunk->ncols; i++) {
		if (wrong & 1u << i)
			atomic_fetch_add(&dev_of(q, i)->checksum_errors, 1);
	}
	q->bad = wrong | failed;
	if (!good)
		finish(q, block_no_good_copy(q->pool, &q->b->bp));
	else
		repair(q);
}

static void refused(struct work *work)
{
	struct scrub_req *q = req_of(work);

	finish(q, block_no_good_copy(q->pool, &q->b->bp));
}

void block_scrub(struct pool *pool, struct block_scrub *b)
{
	struct chunk *chunk = chunk_find(pool, b->bp.chunk);
	uint32_t rows = chunk ? chunk_rows(chunk, bp_sectors(&b->bp)) : 0, mask = 0;
	unsigned ncols = chunk ? chunk->ncols : 0;
	struct scrub_req *q = mem_zalloc(sizeof(*q) + ncols * sizeof(q->cols[0]));

	b->read = b->repaired = 0;
	q->pool = pool;
	q->b = b;
	q->chunk = chunk;
	q->col_bytes = rows << SECTOR_SHIFT;
	if (!chunk || rows > chunk->sectors || b->bp.sector > chunk->sectors - rows) {
		q->work.fn = refused;
		workq_submit(pool->wq, &q->work);
		return;
	}
	q->raw = mem_must(dev_buf_alloc((size_t)ncols * q->col_bytes));
	if (chunk_parity(chunk)) {
		q->st = chunk_stripe(chunk, b->bp.psize);
		q->fixed = mem_must(dev_buf_alloc((size_t)ncols * q->col_bytes));
	}
	for (unsigned i = 0; i < ncols; i++) {
		if (chunk_col_good(pool, chunk, i))
			mask |= 1u << i;
	}
	submit(q, DEV_READ, mask, column_read, arrived);
}
