// SPDX-License-Identifier: LGPL-3.0-or-later
#include "pool/block_impl.h"

#include "pool/alloc.h"
#include "pool/label.h"
#include "pool/txgs.h"
#include "util/mem.h"

#include <assert.h>
#include <errno.h>
#include <semaphore.h>
#include <stddef.h>

/* So many errors and the device is taken out of use, if the rest of its group can go on
   without it. A sole device is kept: each block that cannot be written goes elsewhere on it, and
   what can be read is read. */
#define FAULT_ERRORS 16

static uint32_t sector_bytes(uint32_t bytes)
{
	return (bytes + SECTOR_SIZE - 1) & ~(SECTOR_SIZE - 1);
}

void block_device_error(struct pool *pool, struct pool_dev *dev, atomic_ulong *counter,
			const char *what, int error)
{
	if (atomic_load(&pool->suspended))
		return; /* fenced: not its fault */
	atomic_fetch_add(counter, 1);
	/* Any error is as good a sign as another; their sum decides. */
	if (atomic_load(&dev->read_errors) + atomic_load(&dev->write_errors) >= FAULT_ERRORS &&
	    chunks_fault_dev(pool, dev))
		pool_dev_faulted(pool, dev, what, error);
}

/* ---- writing ---- */

struct write_col {
	struct write_req *req;
	bool current; /* else it is being filled, and does not count yet */
	struct dev_io io;
	struct iovec iov;
};

struct write_req {
	struct pool *pool;
	struct chunk *chunk;
	uint32_t sector;
	uint32_t bytes; /* to each column */
	uint32_t total; /* of the block */
	void *own;      /* compressed copy, or NULL */
	void *split;    /* with parity: columns that are not in the block's memory */
	atomic_bool *failed;
	atomic_uint running;
	atomic_uint good;   /* columns that took it */
	atomic_uint missed; /* mask of those that did not */
	struct write_col cols[];
};

/* The block counts as written if it is in every column that is not stale afterwards. */
static bool settle_columns(struct write_req *w)
{
	unsigned missed = atomic_load(&w->missed);
	bool ok = atomic_load(&w->good) >= chunk_data_cols(w->chunk);

	for (unsigned i = 0; ok && i < w->chunk->ncols; i++) {
		if (missed & 1u << i)
			ok = chunk_set_stale(w->pool, w->chunk, i);
	}
	return ok;
}

static void write_end(struct write_req *w)
{
	bool ok;

	if (atomic_fetch_sub(&w->running, 1) != 1)
		return;
	ok = settle_columns(w);
	if (!ok)
		atomic_store(w->failed, true);
	free(w->own);
	free(w->split);
	sync_io_end(w->pool, w->total, !ok);
	free(w);
}

static void write_done(struct dev_io *io)
{
	struct write_col *col = io->owner;
	struct write_req *w = col->req;
	unsigned i = (unsigned)(col - w->cols);
	struct pool_dev *dev = &w->pool->devs[w->chunk->cols[i].dev];

	if (io->result) {
		atomic_fetch_or(&w->missed, 1u << i);
		block_device_error(w->pool, dev, &dev->write_errors, "writing", io->result);
	} else if (col->current) {
		atomic_fetch_add(&w->good, 1);
	}
	write_end(w);
}

static void write_column(struct write_req *w, unsigned i, const void *data)
{
	struct chunk_col *c = &w->chunk->cols[i];
	struct write_col *col = &w->cols[i];

	col->current = !atomic_load(&c->stale);
	if (!chunk_col_written(w->chunk, i))
		return;
	if (!pool_dev_usable(&w->pool->devs[c->dev]) || !pool_may_write(w->pool)) {
		atomic_fetch_or(&w->missed, 1u << i);
		return;
	}
	col->req = w;
	col->iov = (struct iovec){.iov_base = (void *)data, .iov_len = w->bytes};
	col->io = (struct dev_io){.op = DEV_WRITE,
				  .offset = chunk_offset(w->pool, w->chunk, i, w->sector),
				  .length = w->bytes,
				  .iov = &col->iov,
				  .iovcnt = 1,
				  .owner = col,
				  .done = write_done};
	atomic_fetch_add(&w->running, 1);
	dev_submit(w->pool->devs[c->dev].dev, &col->io);
}

static void write_all(struct txg_sync *s, const struct bp *bp, struct chunk *chunk,
		      const void *data, void *own, atomic_bool *failed)
{
	struct write_req *w = mem_zalloc(sizeof(*w) + chunk->ncols * sizeof(w->cols[0]));
	const void *cols[CHUNK_COLS_MAX];

	w->pool = s->pool;
	w->chunk = chunk;
	w->sector = bp->sector;
	w->bytes = w->total = sector_bytes(bp->psize);
	w->own = own;
	w->failed = failed;
	atomic_init(&w->running, 1);
	for (unsigned i = 0; i < chunk->ncols; i++)
		cols[i] = data;
	if (chunk_parity(chunk)) {
		struct stripe st = chunk_stripe(chunk, bp->psize);

		w->bytes = stripe_col_bytes(&st);
		w->split = mem_must(stripe_split(&st, data, cols));
	}
	sync_io_begin(s->pool, w->total);
	for (unsigned i = 0; i < chunk->ncols; i++)
		write_column(w, i, cols[i]);
	write_end(w);
}

/* Sets what the bp says of the stored bytes; returns the compressed copy if there is one. Without
   memory for one the block is stored as it is. */
static void *encode(const struct block_write *w, struct bp *bp)
{
	void *scratch = w->comp == COMP_OFF ? NULL : block_scratch();
	char *own = NULL;
	uint32_t n = 0;

	if (scratch)
		n = block_compress(w->comp, w->comp_level, w->data, w->lsize, scratch, w->lsize);
	if (n)
		own = dev_buf_alloc(sector_bytes(n));
	if (own) {
		memcpy(own, scratch, n);
		memset(own + n, 0, sector_bytes(n) - n);
	}
	bp->comp = own ? w->comp : COMP_OFF;
	bp->psize = own ? n : w->lsize;
	block_checksum(w->cksum, own ? own : w->data, bp->psize, bp->sum);
	return own;
}

int block_write(struct txg_sync *s, const struct block_write *w, struct bp *out)
{
	struct chunk *chunk;
	void *own;
	int rc;

	assert(w->lsize > 0 && w->lsize <= BLOCK_MAX);
	*out = (struct bp){.lsize = w->lsize,
			   .type = w->type,
			   .level = w->level,
			   .cksum = w->cksum,
			   .birth = s->txg};
	own = encode(w, out);
	rc = alloc_run(s, w->class, bp_sectors(out), &chunk, &out->sector);
	if (rc) {
		free(own);
		return rc;
	}
	out->chunk = chunk->id;
	write_all(s, out, chunk, own ? own : w->data, own, w->failed);
	return 0;
}

void block_write_at(struct txg_sync *s, const struct bp *bp, struct chunk *chunk, const void *data,
		    atomic_bool *failed)
{
	write_all(s, bp, chunk, data, NULL, failed);
}

/* ---- reading ---- */

struct repair_col {
	struct read_req *req;
	struct dev_io io;
	struct iovec iov;
};

struct read_req {
	struct pool *pool;
	struct block_read *r;
	struct chunk *chunk;
	void *stored; /* r->buf if the block is not compressed */
	uint32_t bytes;
	unsigned col;   /* being read */
	unsigned tried; /* masks of columns */
	unsigned bad;   /* of those tried: not the block */
	struct dev_io io;
	struct iovec iov;
	struct work work;
	atomic_uint repairing;
	struct repair_col repairs[CHUNK_COLS_MAX];
};

static struct read_req *req_of(struct work *work)
{
	return (struct read_req *)((char *)work - offsetof(struct read_req, work));
}

static void read_finish(struct read_req *q, int result)
{
	struct block_read *r = q->r;

	if (q->stored != r->buf)
		free(q->stored);
	free(q);
	r->result = result;
	r->done(r);
}

static bool col_present(const struct read_req *q, unsigned col)
{
	const struct chunk_col *c = &q->chunk->cols[col];

	return !atomic_load(&c->stale) && q->pool->devs[c->dev].dev;
}

/* Neighbouring megabytes go to different columns, so that all devices work. A faulted device is
   asked last: what it has is verified like everything else. */
static int next_column(const struct read_req *q)
{
	unsigned n = q->chunk->ncols, first = (q->r->bp.sector >> 8) % n;
	int last_resort = -1;

	for (unsigned i = 0; i < n; i++) {
		unsigned col = (first + i) % n;

		if (q->tried & 1u << col)
			continue;
		if (chunk_col_good(q->pool, q->chunk, col))
			return (int)col;
		if (col_present(q, col))
			last_resort = (int)col;
	}
	return last_resort;
}

int block_no_good_copy(struct pool *pool, const struct bp *bp)
{
	char text[128];

	atomic_fetch_add(&pool->data_errors, 1);
	pool_log(pool, TARN_LOG_ERROR, "no good copy of block %s", bp_print(bp, text));
	return -EIO;
}

static void no_good_copy(struct read_req *q)
{
	read_finish(q, block_no_good_copy(q->pool, &q->r->bp));
}

static void read_arrived(struct dev_io *io)
{
	struct read_req *q = io->owner;

	workq_submit(q->pool->wq, &q->work);
}

/* False: no column is left to be tried. */
static bool read_try(struct read_req *q)
{
	int col = next_column(q);

	if (col < 0)
		return false;
	q->col = (unsigned)col;
	q->tried |= 1u << col;
	q->iov = (struct iovec){.iov_base = q->stored, .iov_len = q->bytes};
	q->io = (struct dev_io){.op = DEV_READ,
				.offset = chunk_offset(q->pool, q->chunk, q->col, q->r->bp.sector),
				.length = q->bytes,
				.iov = &q->iov,
				.iovcnt = 1,
				.owner = q,
				.done = read_arrived};
	dev_submit(q->pool->devs[q->chunk->cols[col].dev].dev, &q->io);
	return true;
}

bool block_content_good(const struct bp *bp, const void *stored)
{
	uint8_t sum[32];

	block_checksum(bp->cksum, stored, bp->psize, sum);
	return !memcmp(sum, bp->sum, sizeof(sum));
}

int block_decode(struct pool *pool, const struct bp *bp, const void *stored, void *buf)
{
	int rc = 0;

	if (bp->comp != COMP_OFF)
		rc = block_decompress(bp->comp, stored, bp->psize, buf, bp->lsize);
	else if (stored != buf)
		memcpy(buf, stored, bp->lsize);
	memset((char *)buf + bp->lsize, 0, sector_bytes(bp->lsize) - bp->lsize);
	return rc ? block_no_good_copy(pool, bp) : 0;
}

static void read_decode(struct read_req *q)
{
	read_finish(q, block_decode(q->pool, &q->r->bp, q->stored, q->r->buf));
}

/* ---- repairing ---- */

static void repairs_done(struct work *work)
{
	read_decode(req_of(work));
}

static void repair_end(struct read_req *q)
{
	if (atomic_fetch_sub(&q->repairing, 1) != 1)
		return;
	q->work.fn = repairs_done;
	workq_submit(q->pool->wq, &q->work);
}

static void repair_written(struct dev_io *io)
{
	struct repair_col *col = io->owner;
	struct read_req *q = col->req;
	struct pool_dev *dev = &q->pool->devs[q->chunk->cols[col - q->repairs].dev];

	if (io->result)
		block_device_error(q->pool, dev, &dev->write_errors, "repairing", io->result);
	else
		pool_log(q->pool, TARN_LOG_WARN, "repaired %u bytes on %s at %llu", q->bytes,
			 dev->path, (unsigned long long)io->offset);
	repair_end(q);
}

bool block_may_repair(struct pool *pool, const struct chunk *chunk, unsigned col)
{
	return chunks_loaded(pool) && chunk_col_good(pool, chunk, col) && pool_may_write(pool);
}

static void repair(struct read_req *q)
{
	/* The checksum does not cover the padding: it is zero on every good copy. */
	memset((char *)q->stored + q->r->bp.psize, 0, q->bytes - q->r->bp.psize);
	atomic_init(&q->repairing, 1);
	for (unsigned i = 0; i < q->chunk->ncols; i++) {
		struct repair_col *col = &q->repairs[i];

		if (!(q->bad & 1u << i) || !block_may_repair(q->pool, q->chunk, i))
			continue;
		col->req = q;
		col->iov = q->iov;
		col->io =
		    (struct dev_io){.op = DEV_WRITE,
				    .offset = chunk_offset(q->pool, q->chunk, i, q->r->bp.sector),
				    .length = q->bytes,
				    .iov = &col->iov,
				    .iovcnt = 1,
				    .owner = col,
				    .done = repair_written};
		atomic_fetch_add(&q->repairing, 1);
		dev_submit(q->pool->devs[q->chunk->cols[i].dev].dev, &col->io);
	}
	repair_end(q);
}

static void read_check(struct work *work)
{
	struct read_req *q = req_of(work);
	struct pool_dev *dev = &q->pool->devs[q->chunk->cols[q->col].dev];

	if (!q->io.result && block_content_good(&q->r->bp, q->stored)) {
		if (q->bad)
			repair(q);
		else
			read_decode(q);
		return;
	}
	if (q->io.result)
		block_device_error(q->pool, dev, &dev->read_errors, "reading", q->io.result);
	else
		atomic_fetch_add(&dev->checksum_errors, 1);
	q->bad |= 1u << q->col;
	if (!read_try(q))
		no_good_copy(q);
}

static void read_refused(struct work *work)
{
	no_good_copy(req_of(work));
}

void block_read(struct pool *pool, struct block_read *r)
{
	struct chunk *chunk = chunk_find(pool, r->bp.chunk);
	uint32_t sectors = bp_sectors(&r->bp);
	struct read_req *q;

	if (chunk && chunk_parity(chunk)) {
		stripe_read(pool, chunk, r);
		return;
	}
	q = mem_zalloc(sizeof(*q));
	q->pool = pool;
	q->r = r;
	q->bytes = sectors << SECTOR_SHIFT;
	q->chunk = chunk;
	q->stored = r->bp.comp == COMP_OFF ? r->buf : mem_must(dev_buf_alloc(q->bytes));
	q->work.fn = read_check;
	if (!q->chunk || sectors > q->chunk->sectors ||
	    r->bp.sector > q->chunk->sectors - sectors || !read_try(q)) {
		q->work.fn = read_refused;
		workq_submit(pool->wq, &q->work);
	}
}

/* ---- one copy ---- */

/* The checksum does not cover the padding: it is zero on every good copy. */
static bool padding_good(const struct bp *bp, const char *stored)
{
	for (uint32_t i = bp->psize; i < sector_bytes(bp->psize); i++) {
		if (stored[i])
			return false;
	}
	return true;
}

static void verify_check(struct work *work)
{
	struct block_verify *v =
	    (struct block_verify *)((char *)work - offsetof(struct block_verify, work));

	if (!v->result && !v->part &&
	    !(block_content_good(&v->bp, v->buf) && padding_good(&v->bp, v->buf)))
		v->result = -EBADMSG;
	v->done(v);
}

static void verify_arrived(struct dev_io *io)
{
	struct block_verify *v = io->owner;

	v->result = io->result;
	workq_submit(v->pool->wq, &v->work);
}

void block_verify(struct pool *pool, struct block_verify *v)
{
	const struct chunk *c = chunk_find(pool, v->bp.chunk);
	uint32_t sectors = c ? chunk_rows(c, bp_sectors(&v->bp)) : 0;

	v->part = c && chunk_parity(c);
	v->work.fn = verify_check;
	v->result = 0;
	if (!c || v->column >= c->ncols || atomic_load(&c->cols[v->column].stale) ||
	    !pool->devs[c->cols[v->column].dev].dev)
		v->result = -ENODEV;
	else if (sectors > c->sectors || v->bp.sector > c->sectors - sectors)
		v->result = -EINVAL;
	if (v->result) {
		workq_submit(pool->wq, &v->work);
		return;
	}
	v->pool = pool;
	v->iov = (struct iovec){.iov_base = v->buf, .iov_len = (size_t)sectors << SECTOR_SHIFT};
	v->io = (struct dev_io){.op = DEV_READ,
				.offset = chunk_offset(pool, c, v->column, v->bp.sector),
				.length = v->iov.iov_len,
				.iov = &v->iov,
				.iovcnt = 1,
				.owner = v,
				.done = verify_arrived};
	dev_submit(pool->devs[c->cols[v->column].dev].dev, &v->io);
}

/* ---- waiting for a block; import and the sync thread ---- */

static void posted(struct block_read *r)
{
	sem_post(r->owner);
}

int block_read_wait(struct pool *pool, const struct bp *bp, void *buf)
{
	struct block_read r = {.bp = *bp, .buf = buf, .done = posted};
	sem_t done;

	sem_init(&done, 0, 0);
	r.owner = &done;
	r.epoch = read_enter(pool);
	block_read(pool, &r);
	while (sem_wait(&done))
		continue; /* interrupted */
	read_leave(pool, r.epoch);
	sem_destroy(&done);
	return r.result;
}
