// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * A pool on simulated devices with the smallest client there can be: a list of blocks, each of
 * content made from a seed, kept with the chunk records in one root block. Tests write and free
 * blocks under a tx, commit, cut, open the cut devices again and have everything checked.
 */
#ifndef TARN_TESTS_POOL_RIG_H
#define TARN_TESTS_POOL_RIG_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "dev/sim.h"
#include "pool/alloc_impl.h"
#include "pool/alog.h"
#include "pool/slab.h"
#include "pool/txgs_impl.h"
#include "util/mem.h"

#define RIG_DEVS 12
#define RIG_BLOCKS 4096

static inline uint64_t rig_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static inline uint64_t rig_seed(void)
{
	const char *env = getenv("TARN_TEST_SEED");
	uint64_t seed = env ? strtoull(env, NULL, 0) : (uint64_t)time(NULL);

	printf("TARN_TEST_SEED=%llu\n", (unsigned long long)seed);
	return seed * 2654435761u | 1;
}

struct rig_block {
	uint64_t seed; /* 0: none */
	struct bp bp;  /* a hole until written */
	uint32_t lsize;
	uint8_t comp, cksum;
	uint8_t class;
};

struct rig_record {
	uint64_t id;
	uint32_t len;
	uint8_t *bytes;
};

struct rig_pending {
	void *buf;
	atomic_bool failed;
};

struct rig {
	struct sim *sims[RIG_DEVS];
	unsigned nsims;
	struct workq *wq;
	struct tarn_config config;
	struct pool *pool;
	struct txg_client client;
	struct space_owner owner;

	/* The open state, changed under a tx and lock; frozen: as the sync sees it. */
	pthread_mutex_t lock;
	struct rig_block *open, *frozen;
	struct rig_pending *pending; /* of the frozen blocks */
	struct bp root;
	struct rig_pending root_io;
	struct rig_record *records;
	size_t nrecords, record_room;
	unsigned passes; /* of the last sync */
	atomic_uint commits;
};

/* Noise between runs, so that compression pays. */
static inline void rig_fill(uint64_t seed, uint32_t lsize, uint8_t *buf)
{
	uint64_t state = seed | 1;

	memset(buf, (int)seed, lsize);
	for (uint32_t i = 0; i + 8 <= lsize; i += 64) {
		uint64_t noise = rig_random(&state);

		memcpy(buf + i, &noise, sizeof(noise));
	}
}

static inline void *rig_content(uint64_t seed, uint32_t lsize)
{
	uint32_t room = (lsize + SECTOR_SIZE - 1) & ~(SECTOR_SIZE - 1);
	uint8_t *buf = dev_buf_alloc(room);

	memset(buf, 0, room);
	rig_fill(seed, lsize, buf);
	return buf;
}

/* ---- the client ---- */

static inline void rig_freeze(void *arg, uint64_t txg)
{
	struct rig *r = arg;

	(void)txg;
	memcpy(r->frozen, r->open, RIG_BLOCKS * sizeof(*r->open));
}

static inline void rig_freed(struct space_owner *owner, struct txg_sync *s, const struct bp *bp)
{
	(void)owner;
	sync_free(s, bp);
}

static inline int rig_put(void *arg, uint64_t id, const void *record, uint32_t len)
{
	struct rig *r = arg;
	size_t i = 0;

	while (i < r->nrecords && r->records[i].id != id)
		i++;
	if (i == r->nrecords) {
		if (!record)
			return 0;
		r->records =
		    mem_grow(r->records, r->nrecords, &r->record_room, sizeof(*r->records));
		r->records[r->nrecords++] = (struct rig_record){.id = id};
	}
	free(r->records[i].bytes);
	r->records[i].bytes = NULL;
	if (!record) {
		r->records[i] = r->records[--r->nrecords];
		return 0;
	}
	r->records[i].bytes = malloc(len);
	memcpy(r->records[i].bytes, record, len);
	r->records[i].len = len;
	return 0;
}

static inline int rig_write_block(struct rig *r, struct txg_sync *s, unsigned i)
{
	struct rig_block *b = &r->frozen[i];
	struct rig_pending *p = &r->pending[i];
	struct block_write w = {.lsize = b->lsize,
				.type = BP_DATA,
				.comp = b->comp,
				.comp_level = b->comp == COMP_ZSTD ? 3 : 0,
				.cksum = b->cksum,
				.class = b->class,
				.failed = &p->failed};

	if (!p->buf)
		p->buf = rig_content(b->seed, b->lsize);
	w.data = p->buf;
	atomic_store(&p->failed, false);
	return block_write(s, &w, &b->bp);
}

static inline int rig_sync_blocks(struct rig *r, struct txg_sync *s)
{
	for (unsigned i = 0; i < RIG_BLOCKS; i++) {
		struct rig_block *b = &r->frozen[i];
		int rc = 0;

		if (b->seed && bp_is_hole(&b->bp)) {
			rc = rig_write_block(r, s, i);
		} else if (b->seed && atomic_load(&r->pending[i].failed)) {
			sync_free(s, &b->bp);
			rc = rig_write_block(r, s, i);
		}
		if (rc)
			return rc;
	}
	return 0;
}

static inline void rig_append(uint8_t *buf, uint32_t *at, const void *data, uint32_t len)
{
	assert_true(*at + len <= BLOCK_MAX);
	memcpy(buf + *at, data, len);
	*at += len;
}

static inline uint32_t rig_root_image(struct rig *r, uint8_t *buf)
{
	uint32_t at = 0, n = (uint32_t)r->nrecords;

	memset(buf, 0, BLOCK_MAX);
	rig_append(buf, &at, &n, sizeof(n));
	for (uint32_t i = 0; i < n; i++) {
		rig_append(buf, &at, &r->records[i].id, sizeof(uint64_t));
		rig_append(buf, &at, &r->records[i].len, sizeof(uint32_t));
		rig_append(buf, &at, r->records[i].bytes, r->records[i].len);
	}
	for (uint32_t i = 0; i < RIG_BLOCKS; i++) {
		if (!r->frozen[i].seed)
			continue;
		rig_append(buf, &at, &i, sizeof(i));
		rig_append(buf, &at, &r->frozen[i], sizeof(r->frozen[i]));
	}
	n = UINT32_MAX;
	rig_append(buf, &at, &n, sizeof(n));
	return at;
}

static inline int rig_sync(void *arg, struct txg_sync *s)
{
	struct rig *r = arg;
	struct block_write w = {.type = BP_NODE,
				.comp = COMP_LZ4,
				.cksum = CKSUM_XXH3,
				.class = BLOCK_META,
				.failed = &r->root_io.failed};
	int rc = rig_sync_blocks(r, s);

	r->passes = s->pass;
	/* So that pass 2 knows of all that failed in pass 1. */
	sync_wait_io(s);
	if (rc)
		return rc;
	txg_process_frees(s);
	rc = pool_dirty_chunks(s, rig_put, r);
	if (rc)
		return rc;
	sync_free(s, &r->root);
	if (!r->root_io.buf)
		r->root_io.buf = dev_buf_alloc(BLOCK_MAX);
	w.data = r->root_io.buf;
	w.lsize = rig_root_image(r, r->root_io.buf);
	atomic_store(&r->root_io.failed, false);
	rc = block_write(s, &w, &s->root);
	r->root = s->root;
	return rc;
}

static inline void rig_committed(void *arg, uint64_t txg)
{
	struct rig *r = arg;

	(void)txg;
	pthread_mutex_lock(&r->lock);
	for (unsigned i = 0; i < RIG_BLOCKS; i++) {
		free(r->pending[i].buf);
		r->pending[i].buf = NULL;
		atomic_store(&r->pending[i].failed, false);
		if (r->open[i].seed == r->frozen[i].seed)
			r->open[i].bp = r->frozen[i].bp;
	}
	free(r->root_io.buf);
	r->root_io.buf = NULL;
	pthread_mutex_unlock(&r->lock);
	atomic_fetch_add(&r->commits, 1);
}

static inline struct bp rig_take_obj(struct slot_obj *obj)
{
	(void)obj;
	return bp_hole(0, 0);
}

static const struct space_owner_ops rig_owner_ops = {.freed = rig_freed};

/* ---- life ---- */

static inline void rig_log(enum tarn_log_level level, const char *text)
{
	if (getenv("RIG_VERBOSE"))
		fprintf(stderr, "[%d] %s\n", level, text);
}

static inline struct rig *rig_new(unsigned nsims)
{
	struct rig *r = calloc(1, sizeof(*r));

	r->nsims = nsims;
	r->config = (struct tarn_config){
	    .host = "testhost", .host_id = 1, .txg_seconds = 3600, .log = rig_log};
	assert_int_equal(workq_create(2, &r->wq), 0);
	pthread_mutex_init(&r->lock, NULL);
	r->open = calloc(RIG_BLOCKS, sizeof(*r->open));
	r->frozen = calloc(RIG_BLOCKS, sizeof(*r->frozen));
	r->pending = calloc(RIG_BLOCKS, sizeof(*r->pending));
	r->owner.ops = &rig_owner_ops;
	r->root = bp_hole(0, 0);
	r->client = (struct txg_client){.arg = r,
					.freeze = rig_freeze,
					.sync = rig_sync,
					.committed = rig_committed,
					.take_obj = rig_take_obj};
	return r;
}

/* Stops and frees the pool, keeps the media. */
static inline int rig_close(struct rig *r)
{
	int rc = r->pool ? pool_close(r->pool, false) : 0;

	r->pool = NULL;
	return rc;
}

static inline void rig_free(struct rig *r)
{
	rig_close(r);
	for (unsigned i = 0; i < r->nsims; i++) {
		if (r->sims[i])
			sim_destroy(r->sims[i]);
	}
	workq_destroy(r->wq);
	for (unsigned i = 0; i < RIG_BLOCKS; i++)
		free(r->pending[i].buf);
	free(r->root_io.buf);
	for (size_t i = 0; i < r->nrecords; i++)
		free(r->records[i].bytes);
	free(r->records);
	free(r->open);
	free(r->frozen);
	free(r->pending);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

static inline void rig_set_discard(struct rig *r, bool on)
{
	for (uint32_t i = 0; i < r->pool->ndevs; i++) {
		if (r->pool->devs[i].dev)
			r->pool->devs[i].dev->geo.discard = on;
	}
}

/* In a layout: a raidz group. */
#define RIG_RAIDZ(parity, ndevs) ((parity) << 8 | (ndevs))

/* groups: numbers of devices, 0-terminated; 1: a single device, more: a mirror. */
static inline struct rig *rig_create(const unsigned *groups, uint64_t size)
{
	struct pool_new_dev devs[RIG_DEVS];
	struct pool_new_group spec[RIG_DEVS];
	struct rig *r;
	unsigned n = 0, g = 0;

	for (; groups[g]; g++) {
		unsigned ndevs = groups[g] & 0xff, parity = groups[g] >> 8;

		spec[g] = (struct pool_new_group){.kind = parity      ? TARN_GROUP_MIRROR + parity
							  : ndevs > 1 ? TARN_GROUP_MIRROR
								      : TARN_GROUP_SINGLE,
						  .ndevs = ndevs,
						  .devs = devs + n};
		n += ndevs;
	}
	r = rig_new(n);
	for (unsigned i = 0; i < n; i++) {
		r->sims[i] = sim_create("sim", size, 4096);
		assert_int_equal(sim_open(r->sims[i], 0, &devs[i].dev), 0);
		devs[i].path = "sim";
	}
	assert_int_equal(pool_create("tank", spec, g, &r->config, r->wq, &r->pool), 0);
	rig_set_discard(r, false);
	assert_int_equal(txg_start(r->pool, &r->client), 0);
	return r;
}

/* Reads the root and gives the pool its chunks. */
static inline int rig_load(struct rig *r)
{
	uint8_t *buf = dev_buf_alloc(BLOCK_MAX);
	const uint8_t *at = buf;
	uint32_t n, len;
	uint64_t id;
	int rc;

	r->root = r->pool->uber.root;
	assert_true(bp_valid(&r->root, r->pool->uber.txg));
	rc = block_read_wait(r->pool, &r->root, buf);
	memcpy(&n, at, sizeof(n));
	at += sizeof(n);
	for (uint32_t i = 0; !rc && i < n; i++) {
		memcpy(&id, at, sizeof(id));
		memcpy(&len, at + 8, sizeof(len));
		rc = pool_load_chunk(r->pool, id, at + 12, len);
		rig_put(r, id, at + 12, len);
		at += 12 + len;
	}
	while (!rc) {
		memcpy(&n, at, sizeof(n));
		if (n == UINT32_MAX)
			break;
		memcpy(&r->open[n], at + 4, sizeof(r->open[n]));
		at += 4 + sizeof(r->open[n]);
	}
	free(buf);
	return rc ? rc : pool_load_done(r->pool);
}

/* A rig on the given media (taken over, NULL: missing), opened and loaded, not started. */
static inline struct rig *rig_open(struct sim **sims, unsigned nsims, uint64_t guid, int flags,
				   int *rc)
{
	struct rig *r = rig_new(nsims);
	struct dev *devs[RIG_DEVS];
	const char *paths[RIG_DEVS];
	struct tarn_error err;
	struct pool_open_args args = {
	    .guid = guid, .devs = devs, .paths = paths, .flags = flags | TARN_FORCE};

	for (unsigned i = 0; i < nsims; i++) {
		r->sims[i] = sims[i];
		if (!sims[i])
			continue;
		assert_int_equal(sim_open(sims[i], flags & TARN_READ_ONLY ? DEV_OPEN_RDONLY : 0,
					  &devs[args.ndevs]),
				 0);
		paths[args.ndevs++] = "sim";
	}
	*rc = pool_open(&args, &r->config, r->wq, &r->pool, &err);
	if (*rc) {
		r->pool = NULL;
		return r;
	}
	rig_set_discard(r, false);
	*rc = rig_load(r);
	return r;
}

static inline void rig_start(struct rig *r)
{
	assert_int_equal(txg_start(r->pool, &r->client), 0);
}

/* ---- operations ---- */

static inline uint32_t rig_cost(uint32_t lsize)
{
	/* The block, the root, the log. */
	return lsize + 3 * SECTOR_SIZE;
}

static inline int rig_write(struct rig *r, unsigned i, const struct rig_block *b)
{
	struct tx tx;
	int rc = tx_begin(r->pool, rig_cost(b->lsize), TX_NORMAL, &tx);

	if (rc)
		return rc;
	pthread_mutex_lock(&r->lock);
	if (r->open[i].seed)
		tx_free(&tx, &r->owner, &r->open[i].bp);
	r->open[i] = *b;
	r->open[i].bp = bp_hole(0, 0);
	pthread_mutex_unlock(&r->lock);
	tx_keep(&tx);
	tx_end(&tx);
	return 0;
}

static inline int rig_put_block(struct rig *r, unsigned i, uint64_t seed, uint32_t lsize)
{
	return rig_write(r, i,
			 &(struct rig_block){.seed = seed,
					     .lsize = lsize,
					     .comp = COMP_OFF,
					     .cksum = CKSUM_XXH3,
					     .class = BLOCK_DATA});
}

/* Only blocks that have been committed. */
static inline int rig_remove(struct rig *r, unsigned i)
{
	struct tx tx;
	int rc = tx_begin(r->pool, 4 * SECTOR_SIZE, TX_FREEING, &tx);

	if (rc)
		return rc;
	pthread_mutex_lock(&r->lock);
	tx_free(&tx, &r->owner, &r->open[i].bp);
	memset(&r->open[i], 0, sizeof(r->open[i]));
	pthread_mutex_unlock(&r->lock);
	tx_keep(&tx);
	tx_end(&tx);
	return 0;
}

/* Commits what is open, and waits until that has settled. */
static inline int rig_commit(struct rig *r)
{
	struct txgs *t = r->pool->txgs;
	struct tx tx;
	int rc = tx_begin(r->pool, 0, TX_FREEING, &tx);

	if (rc)
		return rc;
	tx_end(&tx);
	rc = txg_wait(r->pool, tx.txg);
	if (rc)
		return rc;
	pthread_mutex_lock(&t->lock);
	while (t->settled < tx.txg)
		pthread_cond_wait(&t->done, &t->lock);
	pthread_mutex_unlock(&t->lock);
	return 0;
}

static inline int rig_read(struct rig *r, const struct bp *bp, uint64_t seed)
{
	uint32_t room = (bp->lsize + SECTOR_SIZE - 1) & ~(SECTOR_SIZE - 1);
	void *buf = dev_buf_alloc(room), *want = rig_content(seed, bp->lsize);
	int rc = block_read_wait(r->pool, bp, buf);

	if (!rc)
		assert_memory_equal(buf, want, room);
	free(buf);
	free(want);
	return rc;
}

/* ---- checks ---- */

static inline void rig_mark_run(void *arg, const struct extent *run)
{
	extents_add(arg, run->chunk, run->sector, run->count);
}

static inline struct extents rig_runs(struct rig *r)
{
	struct extents all = {0};

	alloc_each_run(r->pool, rig_mark_run, &all);
	extents_sort(&all);
	return all;
}

static inline void rig_add_bp(struct rig *r, struct extents *list, const struct bp *bp)
{
	const struct chunk *chunk = chunk_find(r->pool, bp->chunk);

	assert_non_null(chunk);
	extents_add(list, bp->chunk, bp->sector, chunk_rows(chunk, bp_sectors(bp)));
}

/* What the root, the log and the deferred frees account for. */
static inline struct extents rig_reachable(struct rig *r)
{
	struct alog_block *block = dev_buf_alloc(ALOG_BLOCK_MAX);
	struct bp log = r->pool->uber.alog;
	struct extents all = {0};
	struct free_batch *b;

	rig_add_bp(r, &all, &r->root);
	for (unsigned i = 0; i < RIG_BLOCKS; i++) {
		if (r->open[i].seed)
			rig_add_bp(r, &all, &r->open[i].bp);
	}
	while (!bp_is_hole(&log) && log.birth >= r->pool->uber.alog_tail) {
		rig_add_bp(r, &all, &log);
		assert_int_equal(block_read_wait(r->pool, &log, block), 0);
		log = block->prev;
	}
	free(block);
	TAILQ_FOREACH(b, &r->pool->alloc->batches, link)
	{
		for (size_t i = 0; i < b->extents.n; i++)
			rig_mark_run(&all, &b->extents.e[i]);
	}
	return all;
}

static inline void rig_assert_same(const struct extents *a, const struct extents *b)
{
	assert_int_equal(a->n, b->n);
	for (size_t i = 0; i < a->n; i++) {
		assert_int_equal(a->e[i].chunk, b->e[i].chunk);
		assert_int_equal(a->e[i].sector, b->e[i].sector);
		assert_int_equal(a->e[i].count, b->e[i].count);
	}
}

/* Nothing leaks, nothing is shared, everything reads back. The pool is at rest. */
static inline void rig_check(struct rig *r)
{
	struct extents runs = rig_runs(r), reach = rig_reachable(r);

	assert_true(extents_sort(&reach));
	rig_assert_same(&runs, &reach);
	extents_free(&runs);
	extents_free(&reach);
	for (unsigned i = 0; i < RIG_BLOCKS; i++) {
		if (r->open[i].seed)
			assert_int_equal(rig_read(r, &r->open[i].bp, r->open[i].seed), 0);
	}
}

#endif
