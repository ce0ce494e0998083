// SPDX-License-Identifier: LGPL-3.0-or-later
/* Appending, batches, the ring, waiting. */
#include "pool/ilog_impl.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>

#include "pool/label.h"
#include "util/mem.h"

#define BATCH_BYTES (256u << 10) /* a batch is closed when it gets longer */
#define BATCH_ROOM (64u << 10)   /* at first */
#define FLIGHTS_MAX 2            /* more would only make smaller batches */
#define LOG_ID_SHIFT 40          /* an import's ids begin at its counter << that */
#define SPARES_MAX 4

/* ---- life ---- */

int ilog_create(struct pool *pool)
{
	struct ilog *log = calloc(1, sizeof(*log));

	if (!log)
		return -ENOMEM;
	log->pool = pool;
	log->flying_end = &log->flying;
	log->ready_end = &log->ready;
	pthread_mutex_init(&log->lock, NULL);
	pthread_cond_init(&log->change, NULL);
	pool->ilog = log;
	return 0;
}

static void batch_free(struct batch *b)
{
	free(b->buf);
	free(b->ios);
	free(b);
}

static void batches_free(struct batch *b)
{
	while (b) {
		struct batch *next = b->next;

		batch_free(b);
		b = next;
	}
}

void ilog_destroy(struct pool *pool)
{
	struct ilog *log = pool->ilog;

	if (!log)
		return;
	assert(!log->flying && !log->waiters);
	if (log->open)
		batch_free(log->open);
	batches_free(log->ready);
	batches_free(log->spare);
	pthread_cond_destroy(&log->change);
	pthread_mutex_destroy(&log->lock);
	free(log);
	pool->ilog = NULL;
}

int ilog_set_extents(struct pool *pool, const struct extent *extents, uint32_t n)
{
	struct ilog *log = pool->ilog;

	if (n > ILOG_EXTENTS_MAX)
		return -EIO;
	log->own_sectors = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct chunk *chunk = chunk_find(pool, extents[i].chunk);

		if (!chunk || extents[i].count != ILOG_EXTENT_SECTORS ||
		    extents[i].sector > chunk->sectors - extents[i].count)
			return -EIO;
		log->extents[i] = extents[i];
		log->chunks[i] = chunk;
		log->own_sectors += extents[i].count;
	}
	log->nextents = n;
	return 0;
}

uint32_t ilog_extents(struct pool *pool, struct extent out[ILOG_EXTENTS_MAX])
{
	memcpy(out, pool->ilog->extents, pool->ilog->nextents * sizeof(*out));
	return pool->ilog->nextents;
}

uint32_t ilog_wanted(struct pool *pool)
{
	struct pool_space space;
	uint64_t n;

	pool_space(pool, &space);
	n = space.size / 64 / (ILOG_EXTENT_SECTORS << SECTOR_SHIFT);
	return n < 4 ? 4 : n > 64 ? 64 : (uint32_t)n;
}

void ilog_open(struct pool *pool, uint64_t txg)
{
	struct ilog *log = pool->ilog;
	const struct uberblock *uber = &pool->uber;

	log->txg = txg;
	log->from = (struct ilog_state){.id = uber->log_id,
					.number = uber->log_number,
					.seq = uber->log_seq,
					.pos = uber->log_pos};
	memcpy(log->from.devs, uber->log_devs, sizeof(log->from.devs));
	log->from_txg = uber->txg;
	log->frozen = log->from;
	log->replayed = uber->log_number;
	log->replaying = uber->log_id != 0;
}

bool ilog_replaying(struct pool *pool)
{
	bool yes;

	pthread_mutex_lock(&pool->ilog->lock);
	yes = pool->ilog->replaying;
	pthread_mutex_unlock(&pool->ilog->lock);
	return yes;
}

void ilog_start(struct pool *pool)
{
	struct ilog *log = pool->ilog;

	pthread_mutex_lock(&log->lock);
	log->replaying = false;
	log->id = pool->import_counter << LOG_ID_SHIFT;
	log->next = 1;
	log->started = true;
	pthread_mutex_unlock(&log->lock);
}

/* ---- batches; lock held ---- */

static uint64_t batch_sectors(const struct batch *b)
{
	return (b->len + SECTOR_SIZE - 1) >> SECTOR_SHIFT;
}

static struct batch *batch_new(struct ilog *log)
{
	struct batch *b = log->spare;

	if (b) {
		log->spare = b->next;
		log->nspare--;
	} else {
		b = calloc(1, sizeof(*b));
		if (b)
			b->buf = dev_buf_alloc(BATCH_ROOM);
		if (!b || !b->buf) {
			free(b);
			return NULL;
		}
		b->room = BATCH_ROOM;
	}
	b->next = NULL;
	b->log = log;
	b->txg = log->txg;
	b->first = log->next;
	b->needs_txg = log->needs_txg;
	b->nrecords = 0;
	b->len = sizeof(struct ilog_block);
	b->done = b->failed = false;
	return b;
}

static void batch_drop(struct batch *b)
{
	struct ilog *log = b->log;

	free(b->ios);
	b->ios = NULL;
	if (log->nspare < SPARES_MAX && b->room <= 4 * BATCH_BYTES) {
		b->next = log->spare;
		log->spare = b;
		log->nspare++;
	} else {
		batch_free(b);
	}
}

static bool batch_fit(struct batch *b, uint32_t len)
{
	uint32_t room = b->room;
	uint8_t *buf;

	while (b->len + sizeof(len) + len > room)
		room *= 2;
	if (room == b->room)
		return true;
	buf = dev_buf_alloc(room);
	if (!buf)
		return false;
	memcpy(buf, b->buf, b->len);
	free(b->buf);
	b->buf = buf;
	b->room = room;
	return true;
}

/* Its place in the log is fixed now. */
static void close_open(struct ilog *log)
{
	struct batch *b = log->open;

	if (!b)
		return;
	log->open = NULL;
	b->seq = log->seq++;
	b->pos = log->head;
	log->head += batch_sectors(b);
	*log->ready_end = b;
	log->ready_end = &b->next;
}

static bool fits_ring(const struct ilog *log, uint32_t len)
{
	uint64_t used = log->head - log->tail;
	uint64_t open = log->open ? log->open->len : sizeof(struct ilog_block);

	/* Should the open batch be closed before, both round up. */
	return used + ((open + sizeof(len) + len) >> SECTOR_SHIFT) + 3 <= log->ring.sectors;
}

static void break_txg(struct ilog *log)
{
	close_open(log);
	log->broken[log->txg % 4] = log->txg;
}

static bool is_broken(const struct ilog *log, uint64_t txg)
{
	return txg && log->broken[txg % 4] == txg;
}

/* ---- waiting; lock held ---- */

enum durable { DURABLE_YES, DURABLE_LATER, DURABLE_BY_TXG };

static enum durable judge(const struct ilog *log, uint64_t txg, uint64_t number)
{
	if (log->committed >= txg)
		return DURABLE_YES;
	if (!number || log->dead || atomic_load(&log->pool->suspended))
		return DURABLE_BY_TXG;
	if (log->durable < number)
		return DURABLE_LATER;
	return is_broken(log, txg - 1) && log->committed < txg - 1 ? DURABLE_LATER : DURABLE_YES;
}

static void on_txg(struct txg_waiter *t, int result)
{
	struct ilog_waiter *w = (struct ilog_waiter *)t;

	w->fn(w, result);
}

/* Takes those out that need not wait here any more. */
static struct ilog_waiter *take_waiters(struct ilog *log)
{
	struct ilog_waiter *out = NULL, *w;

	for (struct ilog_waiter **at = &log->waiters; (w = *at);) {
		enum durable now = judge(log, w->txg.txg, w->number);

		if (now == DURABLE_LATER) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		w->next = out;
		out = w;
		if (now == DURABLE_YES)
			w->txg.txg = 0; /* which is always committed */
	}
	return out;
}

/* No lock held. */
static void call_waiters(struct pool *pool, struct ilog_waiter *w)
{
	while (w) {
		struct ilog_waiter *next = w->next;

		w->txg.fn = on_txg;
		txg_wait_async(pool, &w->txg);
		w = next;
	}
}

/* ---- writing ---- */

static void pump(struct ilog *log);

/* Lock held. What a write may still be on its way to is not free. */
static void move_tail(struct ilog *log)
{
	log->tail = log->needed;
	if (log->flying && log->flying->pos < log->tail)
		log->tail = log->flying->pos;
}

/* Lock held. What was not written yet never will be. */
static void end_log(struct ilog *log)
{
	struct batch *b;

	log->dead = true;
	if (log->open)
		batch_drop(log->open);
	log->open = NULL;
	while ((b = log->ready)) {
		log->ready = b->next;
		batch_drop(b);
	}
	log->ready_end = &log->ready;
}

/* Lock held. In order of their numbers, as far as there is no gap. */
static void settle(struct ilog *log)
{
	struct batch *b;

	while ((b = log->flying) && b->done) {
		log->flying = b->next;
		if (!log->flying)
			log->flying_end = &log->flying;
		log->nflying--;
		if (b->failed)
			end_log(log);
		if (!log->dead) {
			log->durable = b->first + b->nrecords - 1;
			log->durable_seq = b->seq;
		}
		batch_drop(b);
	}
	move_tail(log);
}

static void batch_end(struct batch *b)
{
	struct ilog *log = b->log;
	struct ilog_waiter *ready;
	bool dead;

	if (atomic_fetch_sub(&b->running, 1) != 1)
		return;
	pthread_mutex_lock(&log->lock);
	for (uint32_t i = 0; i < b->npieces; i++)
		b->failed |= atomic_load(&b->good[i]) < b->needed[i];
	b->done = true;
	dead = log->dead;
	settle(log);
	dead = log->dead && !dead;
	ready = take_waiters(log);
	pthread_cond_broadcast(&log->change);
	pthread_mutex_unlock(&log->lock);
	if (dead)
		pool_log(log->pool, TARN_LOG_ERROR,
			 "the intent log can't be written: operations wait for commits until "
			 "another one has begun");
	call_waiters(log->pool, ready);
	pump(log);
}

static void write_done(struct dev_io *io)
{
	struct batch_io *bio = (struct batch_io *)io;
	struct batch *b = io->owner;
	struct pool *pool = b->log->pool;

	if (!io->result) {
		atomic_fetch_add(&b->good[bio->piece], 1);
	} else if (pool_may_write(pool)) { /* or fenced: not its fault */
		atomic_fetch_add(&bio->dev->write_errors, 1);
		if (bio->chunk)
			chunk_set_stale(pool, bio->chunk, bio->col);
		else
			pool_dev_fault(pool, bio->dev, "writing the intent log", io->result);
	}
	batch_end(b);
}

/*
 * One piece of the ring to all its copies. The pool knows of columns that miss a write, so one of
 * them is enough. A log device has all of the log that names it or does not count: if one fails,
 * the log ends.
 */
static void write_piece(struct batch *b, uint32_t piece, const struct place *p)
{
	struct ilog *log = b->log;
	struct chunk *chunk = p->chunk;
	uint64_t offset;

	b->needed[piece] = chunk ? 1 : p->ncopies;
	for (unsigned i = 0; i < p->ncopies; i++) {
		struct batch_io *bio = &b->ios[piece * CHUNK_COLS_MAX + i];

		if (!place_may_write(log, p, i)) {
			if (chunk)
				chunk_set_stale(log->pool, chunk, i);
			continue;
		}
		*bio = (struct batch_io){.dev = place_copy(log, p, i, &offset),
					 .chunk = chunk,
					 .col = i,
					 .piece = piece};
		bio->iov = (struct iovec){.iov_base = b->buf + p->skip,
					  .iov_len = (size_t)p->count << SECTOR_SHIFT};
		bio->io = (struct dev_io){.op = DEV_WRITE,
					  .offset = offset,
					  .length = bio->iov.iov_len,
					  .iov = &bio->iov,
					  .iovcnt = 1,
					  .durable = true,
					  .owner = b,
					  .done = write_done};
		atomic_fetch_add(&b->running, 1);
		dev_submit(bio->dev->dev, &bio->io);
	}
}

static void seal(struct batch *b)
{
	struct ilog_block *block = (struct ilog_block *)b->buf;
	uint32_t end = (uint32_t)(batch_sectors(b) << SECTOR_SHIFT);

	memset(b->buf + b->len, 0, end - b->len);
	*block = (struct ilog_block){
	    .pool_guid = b->log->pool->guid,
	    .log_id = b->log->id,
	    .seq = b->seq,
	    .first = b->first,
	    .durable = b->durable_before,
	    .needs_txg = b->needs_txg,
	    .nrecords = b->nrecords,
	};
	disk_seal(&block->head, ILOG_MAGIC, b->len);
}

static void batch_write(struct batch *b)
{
	struct place p;
	uint64_t sectors = batch_sectors(b);

	seal(b);
	b->npieces = 0;
	atomic_store(&b->running, 1);
	for (uint64_t at = 0; at < sectors; at += p.count) {
		p = ring_place(b->log, b->pos + at, sectors - at);
		p.skip = (uint32_t)(at << SECTOR_SHIFT);
		assert(b->npieces < PIECES_MAX);
		atomic_store(&b->good[b->npieces], 0);
		write_piece(b, b->npieces++, &p);
	}
	batch_end(b);
}

/* Lock held: the next batch to be written, if somebody waits for it. */
static struct batch *take_ready(struct ilog *log)
{
	struct batch *b;

	if (log->nflying >= FLIGHTS_MAX || log->stopped || log->dead)
		return NULL;
	if (!log->ready && log->open && log->open->first <= log->want)
		close_open(log);
	b = log->ready;
	if (!b || b->first > log->want)
		return NULL;
	log->ready = b->next;
	if (!log->ready)
		log->ready_end = &log->ready;
	b->next = NULL;
	*log->flying_end = b;
	log->flying_end = &b->next;
	log->nflying++;
	b->durable_before = log->durable_seq;
	return b;
}

static void pump(struct ilog *log)
{
	struct batch *b;

	for (;;) {
		pthread_mutex_lock(&log->lock);
		b = take_ready(log);
		pthread_mutex_unlock(&log->lock);
		if (!b)
			return;
		b->ios = calloc((size_t)PIECES_MAX * CHUNK_COLS_MAX, sizeof(*b->ios));
		if (b->ios) {
			batch_write(b);
		} else {
			b->npieces = b->needed[0] = 1;
			atomic_store(&b->good[0], 0);
			atomic_store(&b->running, 1);
			batch_end(b);
		}
	}
}

/* ---- appending ---- */

uint64_t ilog_append(struct pool *pool, const void *record, uint32_t len, uint64_t *txg)
{
	struct ilog *log = pool->ilog;
	uint64_t number = 0, kick = 0;

	pthread_mutex_lock(&log->lock);
	*txg = log->txg;
	if (log->active && !log->dead && !is_broken(log, log->txg)) {
		if (log->open && log->open->nrecords && log->open->len + len > BATCH_BYTES) {
			log->want = log->next - 1;
			close_open(log);
		}
		if (len > ILOG_RECORD_MAX || !fits_ring(log, len) ||
		    (!log->open && !(log->open = batch_new(log))) || !batch_fit(log->open, len)) {
			break_txg(log);
			kick = log->txg;
		} else {
			struct batch *b = log->open;

			memcpy(b->buf + b->len, &len, sizeof(len));
			memcpy(b->buf + b->len + sizeof(len), record, len);
			b->len += (uint32_t)sizeof(len) + len;
			b->nrecords++;
			number = log->next++;
			if (log->head - log->tail > log->ring.sectors / 2 && log->kicked < log->txg)
				kick = log->kicked = log->txg;
		}
	}
	pthread_mutex_unlock(&log->lock);
	if (kick)
		txg_kick(pool, kick);
	return number;
}

void ilog_break(struct pool *pool)
{
	struct ilog *log = pool->ilog;

	pthread_mutex_lock(&log->lock);
	if (log->active && !is_broken(log, log->txg))
		break_txg(log);
	pthread_mutex_unlock(&log->lock);
}

uint64_t ilog_last(struct pool *pool, uint64_t *txg)
{
	struct ilog *log = pool->ilog;
	uint64_t number;

	pthread_mutex_lock(&log->lock);
	*txg = log->txg;
	number = log->active && !log->dead && !is_broken(log, log->txg) ? log->next - 1 : 0;
	pthread_mutex_unlock(&log->lock);
	return number;
}

/* ---- waiting ---- */

/* Lock held. */
static void want(struct ilog *log, uint64_t number)
{
	if (number > log->want)
		log->want = number;
}

int ilog_wait(struct pool *pool, uint64_t txg, uint64_t number)
{
	struct ilog *log = pool->ilog;
	enum durable now;

	tx_assert_none();
	pthread_mutex_lock(&log->lock);
	want(log, number);
	now = judge(log, txg, number);
	if (now == DURABLE_LATER) {
		pthread_mutex_unlock(&log->lock);
		pump(log);
		pthread_mutex_lock(&log->lock);
		while ((now = judge(log, txg, number)) == DURABLE_LATER)
			pthread_cond_wait(&log->change, &log->lock);
	}
	pthread_mutex_unlock(&log->lock);
	return now == DURABLE_YES ? 0 : txg_wait(pool, txg);
}

void ilog_wait_async(struct pool *pool, struct ilog_waiter *w)
{
	struct ilog *log = pool->ilog;
	enum durable now;

	pthread_mutex_lock(&log->lock);
	want(log, w->number);
	now = judge(log, w->txg.txg, w->number);
	if (now == DURABLE_LATER) {
		w->next = log->waiters;
		log->waiters = w;
	}
	pthread_mutex_unlock(&log->lock);
	if (now == DURABLE_LATER) {
		pump(log);
	} else if (now == DURABLE_YES) {
		w->fn(w, 0);
	} else {
		w->txg.fn = on_txg;
		txg_wait_async(pool, &w->txg);
	}
}

/* ---- another log ---- */

/* A txg of its own for what has no other. */
static int commit_now(struct pool *pool)
{
	struct tx tx;
	int rc = tx_begin(pool, 0, TX_FREEING, &tx);

	if (rc)
		return rc;
	tx_end(&tx);
	return txg_wait(pool, tx.txg);
}

int ilog_renew(struct pool *pool)
{
	struct ilog *log = pool->ilog;
	struct ilog_waiter *ready;
	bool begun = false;
	uint64_t id;
	int rc = 0;

	pthread_mutex_lock(&log->lock);
	end_log(log);
	id = log->id;
	ready = take_waiters(log);
	pthread_cond_broadcast(&log->change);
	pthread_mutex_unlock(&log->lock);
	call_waiters(pool, ready);
	while (!rc && !begun) {
		pthread_mutex_lock(&log->lock);
		while (log->flying)
			pthread_cond_wait(&log->change, &log->lock);
		pthread_mutex_unlock(&log->lock);
		rc = commit_now(pool);
		pthread_mutex_lock(&log->lock);
		begun = log->id != id;
		pthread_mutex_unlock(&log->lock);
	}
	return rc;
}

/* ---- the sync ---- */

/*
 * Lock held. A log that begins on what works now, if the last one has ended and can't be written to
 * any more. Records come once the txg being frozen has committed, and all numbers given before are
 * its or older.
 */
static void begin_log(struct ilog *log)
{
	if (!log->started || (log->live && !log->dead) || log->flying)
		return;
	ring_choose(log->pool, &log->ring);
	log->live = log->ring.sectors > 0;
	log->active = log->dead = false;
	log->id++;
	log->seq = 1;
	log->durable_seq = 0;
	log->head = log->tail = log->needed = 0;
}

void ilog_freeze(struct pool *pool, uint64_t txg)
{
	struct ilog *log = pool->ilog;

	pthread_mutex_lock(&log->lock);
	close_open(log);
	log->needs_txg = is_broken(log, txg) ? txg : 0;
	log->txg = txg + 1;
	if (log->replaying) {
		log->frozen.number = log->replayed;
	} else {
		begin_log(log);
		log->frozen = (struct ilog_state){
		    .id = log->live && !log->dead ? log->id : 0,
		    .number = log->next - 1,
		    .seq = log->seq,
		    .pos = log->head,
		};
		if (log->frozen.id)
			ring_guids(&log->ring, log->frozen.devs);
	}
	pthread_mutex_unlock(&log->lock);
}

void ilog_uberblock(struct pool *pool, struct uberblock *uber)
{
	const struct ilog_state *s = &pool->ilog->frozen;

	uber->log_id = s->id;
	uber->log_number = s->number;
	uber->log_seq = s->seq;
	uber->log_pos = s->pos;
	memcpy(uber->log_devs, s->devs, sizeof(uber->log_devs));
}

/* Lock held: their places may be another's before long. */
static void drop_committed(struct ilog *log)
{
	struct batch *b;

	while ((b = log->ready) && b->txg <= log->committed) {
		log->ready = b->next;
		batch_drop(b);
	}
	if (!log->ready)
		log->ready_end = &log->ready;
}

void ilog_committed(struct pool *pool, uint64_t txg)
{
	struct ilog *log = pool->ilog;
	struct ilog_waiter *ready;

	pthread_mutex_lock(&log->lock);
	log->committed = txg;
	if (!log->replaying && log->frozen.id && log->frozen.id == log->id && !log->dead) {
		log->needed = log->frozen.pos;
		drop_committed(log);
		move_tail(log);
		if (!log->active) {
			/* What the open txg has changed until now is not in the log. */
			log->active = true;
			break_txg(log);
		}
	}
	ready = take_waiters(log);
	pthread_cond_broadcast(&log->change);
	pthread_mutex_unlock(&log->lock);
	call_waiters(pool, ready);
}

void ilog_suspended(struct pool *pool)
{
	struct ilog *log = pool->ilog;
	struct ilog_waiter *ready;

	pthread_mutex_lock(&log->lock);
	ready = take_waiters(log);
	pthread_cond_broadcast(&log->change);
	pthread_mutex_unlock(&log->lock);
	call_waiters(pool, ready);
}

void ilog_stop(struct pool *pool)
{
	struct ilog *log = pool->ilog;

	pthread_mutex_lock(&log->lock);
	log->stopped = true;
	while (log->flying)
		pthread_cond_wait(&log->change, &log->lock);
	pthread_mutex_unlock(&log->lock);
}
