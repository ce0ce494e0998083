// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * All copies of a block, or all columns of its stripe, are read side by side and verified by the
 * work queue; so are many blocks, up to a number of bytes in flight. A block with nothing wrong is
 * forgotten there; others are handed to the checker's thread, which alone reports.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check/impl.h"
#include "pool/block.h"
#include "pool/chunk.h"

#define FLIGHT_BYTES (32u << 20)
#define FLIGHT_BLOCKS 256

struct job {
	struct verifier *v;
	struct job *next;
	struct bp bp;
	struct place place;
	int error;      /* the tree's */
	bool undecoded; /* a good copy has no good content */
	atomic_uint left;
	unsigned ncols;
	struct stripe stripe; /* parity 0: they are copies */
	uint32_t col_bytes;
	uint64_t bytes;       /* of all columns */
	uint8_t *raw, *fixed; /* the columns; of a stripe, also as they should be */
	const void *stored;   /* the block, from a good copy or the stripe; NULL: it is lost */
	struct block_verify cols[];
};

struct verifier {
	struct pool *pool;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	/* Under lock. */
	uint64_t bytes;
	unsigned blocks;
	struct job *bad;
};

int verifier_new(struct check *c)
{
	struct verifier *v = calloc(1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	v->pool = c->pool;
	pthread_mutex_init(&v->lock, NULL);
	pthread_cond_init(&v->cond, NULL);
	c->verify = v;
	return 0;
}

void verifier_free(struct check *c)
{
	pthread_cond_destroy(&c->verify->cond);
	pthread_mutex_destroy(&c->verify->lock);
	free(c->verify);
	c->verify = NULL;
}

static uint32_t whole_sectors(uint32_t bytes)
{
	return (bytes + SECTOR_SIZE - 1) & ~(SECTOR_SIZE - 1);
}

/* ---- in the work queue ---- */

static void judge_copies(struct job *job)
{
	for (unsigned i = 0; i < job->ncols && !job->stored; i++)
		if (!job->cols[i].result)
			job->stored = job->cols[i].buf;
}

static bool is_block(const void *bp_, const void *stored)
{
	const struct bp *bp = bp_;
	uint8_t sum[32];

	block_checksum(bp->cksum, stored, bp->psize, sum);
	return !memcmp(sum, bp->sum, sizeof(sum));
}

/* A column that was read is wrong if it is another than the block and its parity want. */
static void judge_stripe(struct job *job)
{
	uint32_t have = 0, wrong = UINT32_MAX;

	for (unsigned i = 0; i < job->ncols; i++)
		if (!job->cols[i].result)
			have |= 1u << i;
	if (stripe_solve(&job->stripe, job->raw, have, is_block, &job->bp, job->fixed, &wrong))
		job->stored = job->fixed;
	for (unsigned i = 0; i < job->ncols; i++)
		if (have & wrong & 1u << i)
			job->cols[i].result = -EBADMSG;
}

/* Without memory for it the content is taken to be what the checksum says. */
static bool decodes(const struct job *job)
{
	void *content;
	int rc = 0;

	if (!job->stored || job->bp.comp == COMP_OFF)
		return true;
	content = dev_buf_alloc(whole_sectors(job->bp.lsize));
	if (content)
		rc = block_decompress(job->bp.comp, job->stored, job->bp.psize, content,
				      job->bp.lsize);
	free(content);
	return !rc;
}

static bool all_good(const struct job *job)
{
	for (unsigned i = 0; i < job->ncols; i++)
		if (job->cols[i].result && job->cols[i].result != -ENODEV)
			return false;
	return job->stored && !job->undecoded && !job->error;
}

static void column_done(struct block_verify *col)
{
	struct job *job = col->owner;
	struct verifier *v = job->v;

	if (atomic_fetch_sub(&job->left, 1) != 1)
		return;
	if (job->stripe.parity)
		judge_stripe(job);
	else
		judge_copies(job);
	job->undecoded = !decodes(job);
	free(job->raw);
	free(job->fixed);
	job->raw = job->fixed = NULL;
	pthread_mutex_lock(&v->lock);
	v->bytes -= job->bytes;
	v->blocks--;
	if (all_good(job)) {
		free(job);
	} else {
		job->next = v->bad;
		v->bad = job;
	}
	pthread_cond_signal(&v->cond);
	pthread_mutex_unlock(&v->lock);
}

/* ---- in the checker's thread ---- */

static void report_copy(struct check *c, const struct job *job, unsigned col, const char *block)
{
	const struct chunk *chunk = chunk_find(c->pool, job->bp.chunk);
	int rc = job->cols[col].result;

	found_at(
	    &job->place, TARN_FOUND_COPY, "the %s of block %s on %s at byte %llu %s%s",
	    !job->stripe.parity      ? "copy"
	    : col < job->stripe.data ? "data"
				     : "parity",
	    block, c->pool->devs[chunk->cols[col].dev].path,
	    (unsigned long long)chunk_offset(c->pool, chunk, col, job->bp.sector),
	    rc == -EBADMSG ? "is damaged" : "can't be read: ", rc == -EBADMSG ? "" : strerror(-rc));
}

static void report_job(struct check *c, const struct job *job)
{
	char block[128];

	bp_print(&job->bp, block);
	if (!job->stored) {
		found_at(&job->place, TARN_FOUND_BLOCK, "%s block %s %s%s",
			 job->stripe.parity ? "too much of" : "no copy of", block,
			 job->stripe.parity ? "is lost" : "is good",
			 job->error ? "; what lies below it is lost" : "");
		return;
	}
	for (unsigned i = 0; i < job->ncols; i++)
		if (job->cols[i].result && job->cols[i].result != -ENODEV)
			report_copy(c, job, i, block);
	if (job->undecoded)
		found_at(&job->place, TARN_FOUND_BLOCK, "block %s can't be decompressed", block);
	else if (job->error)
		found_at(&job->place, TARN_FOUND_NODE,
			 "the content of block %s can't be true (%s); what lies below it is lost",
			 block, strerror(-job->error));
}

/* Lock held on entry and return. */
static void report_bad(struct check *c)
{
	struct verifier *v = c->verify;

	while (v->bad) {
		struct job *job = v->bad;

		v->bad = job->next;
		pthread_mutex_unlock(&v->lock);
		report_job(c, job);
		free(job);
		pthread_mutex_lock(&v->lock);
	}
}

static void wait_room(struct check *c, uint64_t bytes)
{
	struct verifier *v = c->verify;

	pthread_mutex_lock(&v->lock);
	report_bad(c);
	while (v->blocks && (v->blocks >= FLIGHT_BLOCKS || v->bytes + bytes > FLIGHT_BYTES)) {
		pthread_cond_wait(&v->cond, &v->lock);
		report_bad(c);
	}
	v->bytes += bytes;
	v->blocks++;
	pthread_mutex_unlock(&v->lock);
}

void verify_wait(struct check *c)
{
	struct verifier *v = c->verify;

	pthread_mutex_lock(&v->lock);
	report_bad(c);
	while (v->blocks) {
		pthread_cond_wait(&v->cond, &v->lock);
		report_bad(c);
	}
	pthread_mutex_unlock(&v->lock);
}

static struct job *job_new(struct check *c, const struct bp *bp, const struct place *place,
			   int error, const struct chunk *chunk)
{
	struct job *job = calloc(1, sizeof(*job) + chunk->ncols * sizeof(job->cols[0]));

	if (!job)
		return NULL;
	job->v = c->verify;
	job->bp = *bp;
	job->place = *place;
	job->error = error;
	job->ncols = chunk->ncols;
	job->col_bytes = chunk_rows(chunk, bp_sectors(bp)) << SECTOR_SHIFT;
	job->bytes = (uint64_t)job->col_bytes * job->ncols;
	atomic_init(&job->left, job->ncols);
	job->raw = dev_buf_alloc(job->bytes);
	if (chunk_parity(chunk)) {
		job->stripe = chunk_stripe(chunk, bp->psize);
		job->fixed = dev_buf_alloc(job->bytes);
	}
	if (!job->raw || (chunk_parity(chunk) && !job->fixed)) {
		free(job->raw);
		free(job->fixed);
		free(job);
		return NULL;
	}
	for (unsigned i = 0; i < job->ncols; i++)
		job->cols[i] = (struct block_verify){.bp = *bp,
						     .column = i,
						     .buf = job->raw + (size_t)i * job->col_bytes,
						     .done = column_done,
						     .owner = job};
	return job;
}

void verify_block(struct check *c, const struct bp *bp, const struct place *place, int error)
{
	const struct chunk *chunk = chunk_find(c->pool, bp->chunk);
	struct job *job;
	char block[128];

	tell_progress(c);
	if (chunk && c->verified && refs_has(c->verified, chunk, bp) && !error)
		return;
	if (!chunk || chunk_rows(chunk, bp_sectors(bp)) > chunk->sectors) {
		found_at(place, TARN_FOUND_BLOCK, "block %s lies in no chunk", bp_print(bp, block));
		return;
	}
	job = job_new(c, bp, place, error, chunk);
	if (!job) {
		found_at(place, TARN_FOUND_BLOCK, "block %s can't be read: out of memory",
			 bp_print(bp, block));
		return;
	}
	c->result->read += job->bytes;
	wait_room(c, job->bytes);
	for (unsigned i = 0, n = job->ncols; i < n; i++)
		block_verify(c->pool, &job->cols[i]);
}
