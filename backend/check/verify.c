// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * All copies of a block are read side by side and verified by the work queue; so are many blocks,
 * up to a number of bytes in flight. A block with nothing wrong is forgotten there; others
 * are handed to the checker's thread, which alone reports.
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
	uint64_t bytes; /* of all its buffers */
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

static const struct block_verify *good_copy(const struct job *job)
{
	for (unsigned i = 0; i < job->ncols; i++)
		if (!job->cols[i].result)
			return &job->cols[i];
	return NULL;
}

/* Without memory for it the content is taken to be what the checksum says. */
static bool decodes(const struct job *job)
{
	const struct block_verify *good = good_copy(job);
	void *content;
	int rc = 0;

	if (!good || job->bp.comp == COMP_OFF)
		return true;
	content = dev_buf_alloc(whole_sectors(job->bp.lsize));
	if (content)
		rc = block_decompress(job->bp.comp, good->buf, job->bp.psize, content,
				      job->bp.lsize);
	free(content);
	return !rc;
}

static bool all_good(const struct job *job)
{
	for (unsigned i = 0; i < job->ncols; i++)
		if (job->cols[i].result && job->cols[i].result != -ENODEV)
			return false;
	return good_copy(job) && !job->undecoded && !job->error;
}

static void column_done(struct block_verify *col)
{
	struct job *job = col->owner;
	struct verifier *v = job->v;

	if (atomic_fetch_sub(&job->left, 1) != 1)
		return;
	job->undecoded = !decodes(job);
	for (unsigned i = 0; i < job->ncols; i++)
		free(job->cols[i].buf);
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
	    &job->place, TARN_FOUND_COPY, "the copy of block %s on %s at byte %llu %s%s", block,
	    c->pool->devs[chunk->cols[col].dev].path,
	    (unsigned long long)chunk_offset(c->pool, chunk, col, job->bp.sector),
	    rc == -EBADMSG ? "is damaged" : "can't be read: ", rc == -EBADMSG ? "" : strerror(-rc));
}

static void report_job(struct check *c, const struct job *job)
{
	char block[128];

	bp_print(&job->bp, block);
	if (!good_copy(job)) {
		found_at(&job->place, TARN_FOUND_BLOCK, "no copy of block %s is good%s", block,
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
			   int error, unsigned ncols)
{
	struct job *job = calloc(1, sizeof(*job) + ncols * sizeof(job->cols[0]));
	uint32_t bytes = whole_sectors(bp->psize);
	bool memory = job;

	for (unsigned i = 0; memory && i < ncols; i++) {
		job->cols[i] = (struct block_verify){.bp = *bp,
						     .column = i,
						     .buf = dev_buf_alloc(bytes),
						     .done = column_done,
						     .owner = job};
		memory = job->cols[i].buf;
	}
	if (!memory) {
		for (unsigned i = 0; job && i < ncols; i++)
			free(job->cols[i].buf);
		free(job);
		return NULL;
	}
	job->v = c->verify;
	job->bp = *bp;
	job->place = *place;
	job->error = error;
	job->ncols = ncols;
	job->bytes = (uint64_t)bytes * ncols;
	atomic_init(&job->left, ncols);
	return job;
}

void verify_block(struct check *c, const struct bp *bp, const struct place *place, int error)
{
	const struct chunk *chunk = chunk_find(c->pool, bp->chunk);
	struct job *job;
	char block[128];

	tell_progress(c);
	if (c->verified && refs_has(c->verified, bp) && !error)
		return;
	if (!chunk || bp_sectors(bp) > chunk->sectors) {
		found_at(place, TARN_FOUND_BLOCK, "block %s lies in no chunk", bp_print(bp, block));
		return;
	}
	job = job_new(c, bp, place, error, chunk->ncols);
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
