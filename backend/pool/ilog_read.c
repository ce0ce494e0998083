// SPDX-License-Identifier: LGPL-3.0-or-later
/* What a log holds: reading the ring, replay, what is lost of it. */
#include "pool/ilog_impl.h"

#include <errno.h>

#include "util/mem.h"

#define BLOCK_BYTES_MAX (ILOG_RECORD_MAX + 2 * SECTOR_SIZE)

/* ---- one block ---- */

bool ilog_block_valid(const struct ilog_block *block, uint32_t room, uint64_t pool_guid)
{
	uint32_t len = block->head.length;
	uint32_t at = sizeof(*block);

	if (block->head.magic != ILOG_MAGIC || len < sizeof(*block) || len > room ||
	    disk_check(&block->head, ILOG_MAGIC, len) || block->pool_guid != pool_guid ||
	    !block->seq || !block->first || !block->nrecords || block->durable >= block->seq)
		return false;
	for (uint32_t i = 0; i < block->nrecords; i++) {
		uint32_t bytes;

		if (len - at < sizeof(bytes))
			return false;
		memcpy(&bytes, (const char *)block + at, sizeof(bytes));
		at += (uint32_t)sizeof(bytes);
		if (len - at < bytes)
			return false;
		at += bytes;
	}
	return at == len;
}

const void *ilog_block_next(const struct ilog_block *block, uint32_t *at, uint32_t *len)
{
	const char *record;

	if (!*at)
		*at = sizeof(*block);
	if (*at >= block->head.length)
		return NULL;
	memcpy(len, (const char *)block + *at, sizeof(*len));
	record = (const char *)block + *at + sizeof(*len);
	*at += (uint32_t)sizeof(*len) + *len;
	return record;
}

/* Stale columns too: what they have proves itself. */
static int read_place(struct ilog *log, const struct place *p, unsigned copy, void *buf)
{
	uint64_t offset;
	struct pool_dev *dev = place_copy(log, p, copy, &offset);

	return dev ? dev_read(dev->dev, offset, buf, (size_t)p->count << SECTOR_SHIFT) : -ENODEV;
}

static bool read_copy(struct ilog *log, uint64_t pos, uint64_t sectors, unsigned copy, uint8_t *buf)
{
	struct place p;

	for (uint64_t at = 0; at < sectors; at += p.count) {
		p = ring_place(log, pos + at, sectors - at);
		if (read_place(log, &p, copy, buf + (at << SECTOR_SHIFT)))
			return false;
	}
	return true;
}

static unsigned copies(const struct ilog *log)
{
	unsigned n = 1;

	for (uint32_t i = 0; i < log->ring.nparts; i++)
		if (log->ring.parts[i].ncopies > n)
			n = log->ring.parts[i].ncopies;
	for (uint32_t i = 0; i < log->nextents && !log->ring.nparts; i++)
		if (log->chunks[i]->ncols > n)
			n = log->chunks[i]->ncols;
	return n;
}

static uint64_t block_sectors(const struct ilog_block *block)
{
	return ((uint64_t)block->head.length + SECTOR_SIZE - 1) >> SECTOR_SHIFT;
}

/* The block at pos, as one copy has it; buf: BLOCK_BYTES_MAX. */
static bool read_block_copy(struct ilog *log, uint64_t pos, unsigned copy, struct ilog_block *buf)
{
	return read_copy(log, pos, 1, copy, (uint8_t *)buf) && buf->head.magic == ILOG_MAGIC &&
	       buf->head.length <= BLOCK_BYTES_MAX && block_sectors(buf) <= log->ring.sectors &&
	       read_copy(log, pos, block_sectors(buf), copy, (uint8_t *)buf) &&
	       ilog_block_valid(buf, BLOCK_BYTES_MAX, log->pool->guid);
}

/* From whatever copy has it. */
static bool read_block(struct ilog *log, uint64_t pos, struct ilog_block *buf)
{
	for (unsigned copy = 0; copy < copies(log); copy++) {
		if (read_block_copy(log, pos, copy, buf))
			return true;
	}
	return false;
}

/* ---- what is lost ---- */

/* The end of a log that would go on with block `seq` and record `first`. */
struct end {
	uint64_t id, seq, first;
	/* Of what lies behind it: the first block, and up to which one all were durable once. */
	uint64_t next_seq, next_pos, next_first;
	uint64_t durable;
};

static void look_behind(struct ilog *log, struct end *e, uint64_t pos, struct ilog_block *buf)
{
	if (!read_block(log, pos, buf) || buf->log_id != e->id || buf->seq <= e->seq)
		return;
	if (buf->durable > e->durable)
		e->durable = buf->durable;
	if (!e->next_seq || buf->seq < e->next_seq) {
		e->next_seq = buf->seq;
		e->next_pos = pos;
		e->next_first = buf->first;
	}
}

/* The heads in one extent's copy. */
static void look_through(struct ilog *log, struct end *e, uint64_t pos, const uint8_t *extent,
			 struct ilog_block *buf)
{
	for (uint32_t i = 0; i < ILOG_EXTENT_SECTORS; i++) {
		const struct ilog_block *b = (const void *)(extent + ((size_t)i << SECTOR_SHIFT));

		if (b->head.magic == ILOG_MAGIC && b->log_id == e->id && b->seq > e->seq)
			look_behind(log, e, pos + i, buf);
	}
}

static int find_next(struct ilog *log, struct end *e, struct ilog_block *buf)
{
	uint8_t *extent = dev_buf_alloc(ILOG_EXTENT_SECTORS << SECTOR_SHIFT);

	if (!extent)
		return -ENOMEM;
	for (uint64_t pos = 0; pos < log->ring.sectors; pos += ILOG_EXTENT_SECTORS)
		for (unsigned copy = 0; copy < copies(log); copy++)
			if (read_copy(log, pos, ILOG_EXTENT_SECTORS, copy, extent))
				look_through(log, e, pos, extent, buf);
	free(extent);
	return 0;
}

/* ---- replay ---- */

struct reader {
	struct ilog *log;
	struct ilog_block *buf;
	uint64_t seq, pos, first; /* of the next block */
	const struct ilog_replay *to;
	uint64_t count;
	void *other; /* BLOCK_BYTES_MAX, for what other copies hold */
	/* By copy: lacked this block, which counts as damage if it was durable. */
	struct pool_dev *suspect[CHUNK_COLS_MAX];
	uint64_t suspect_seq[CHUNK_COLS_MAX];
};

static void judge_suspects(struct reader *r)
{
	for (unsigned i = 0; i < CHUNK_COLS_MAX; i++) {
		if (!r->suspect[i] || r->buf->durable < r->suspect_seq[i])
			continue;
		atomic_fetch_add(&r->suspect[i]->checksum_errors, 1);
		r->suspect[i] = NULL;
	}
}

/* Writes one piece of the block where a copy has something else. The others keep theirs: a cut
   harms nothing. */
static void mend_place(struct reader *r, const struct place *p, unsigned copy)
{
	const uint8_t *good = (const uint8_t *)r->buf + p->skip;
	size_t len = (size_t)p->count << SECTOR_SHIFT;
	uint64_t offset;
	struct pool_dev *dev = place_copy(r->log, p, copy, &offset);

	if (!dev || !place_may_write(r->log, p, copy % p->ncopies) ||
	    (!dev_read(dev->dev, offset, r->other, len) && !memcmp(r->other, good, len)))
		return;
	r->suspect[copy] = dev;
	r->suspect_seq[copy] = r->seq;
	if (dev_write(dev->dev, offset, good, len))
		atomic_fetch_add(&dev->write_errors, 1);
}

/* The block just read, in all its copies. */
static void mend_block(struct reader *r)
{
	uint64_t sectors = block_sectors(r->buf);
	unsigned n = copies(r->log);
	struct place p;

	judge_suspects(r);
	for (unsigned copy = 0; copy < n && n > 1; copy++) {
		for (uint64_t at = 0; at < sectors; at += p.count) {
			p = ring_place(r->log, r->pos + at, sectors - at);
			p.skip = (uint32_t)(at << SECTOR_SHIFT);
			mend_place(r, &p, copy);
		}
	}
}

static int replay_block(struct reader *r)
{
	struct ilog *log = r->log;
	uint64_t number = r->buf->first;
	const void *record;
	uint32_t at = 0, len;
	int rc = 0;

	for (; !rc && (record = ilog_block_next(r->buf, &at, &len)); number++) {
		if (number <= log->replayed)
			continue;
		rc = r->to->record(r->to->arg, record, len);
		r->count += !rc;
		pthread_mutex_lock(&log->lock);
		if (!rc)
			log->replayed = number;
		pthread_mutex_unlock(&log->lock);
	}
	return rc;
}

/* The block that goes on where the last one ended. */
static bool next_block(struct reader *r)
{
	const struct ilog_state *from = &r->log->from;
	struct ilog_block *b = r->buf;

	return read_block(r->log, r->pos, b) && b->log_id == from->id && b->seq == r->seq &&
	       (r->first ? b->first == r->first : b->first <= from->number + 1) &&
	       b->needs_txg <= r->log->from_txg;
}

/* Behind the missing one, blocks that were durable, and so acknowledged, as far as they follow each
   other. */
static uint64_t lose_blocks(struct reader *r, const struct end *e)
{
	uint64_t pos = e->next_pos, lost = 0;
	const void *record;

	for (uint64_t seq = e->next_seq; seq <= e->durable; seq++) {
		uint32_t at = 0, len;

		if (!read_block(r->log, pos, r->buf) || r->buf->log_id != e->id ||
		    r->buf->seq != seq || r->buf->needs_txg > r->log->from_txg)
			break;
		while (r->to->lost && (record = ilog_block_next(r->buf, &at, &len)))
			r->to->lost(r->to->arg, record, len);
		lost += r->buf->nrecords;
		pos += block_sectors(r->buf);
	}
	return lost;
}

/* Whether it is damage that ended the replay. */
static int find_lost(struct reader *r, uint64_t *lost)
{
	const struct ilog_state *from = &r->log->from;
	struct end e = {
	    .id = from->id, .seq = r->seq, .first = r->first ? r->first : from->number + 1};
	int rc = find_next(r->log, &e, r->buf);

	if (rc || !e.next_seq || e.durable < e.seq)
		return rc;
	*lost = e.durable + 1 >= e.next_seq && e.next_first > e.first ? e.next_first - e.first : 1;
	*lost += lose_blocks(r, &e);
	return 0;
}

static int replay(struct reader *r, uint64_t *lost)
{
	bool needs_more;
	int rc = 0;

	while (!rc && next_block(r)) {
		r->first = r->buf->first + r->buf->nrecords;
		mend_block(r);
		r->pos += block_sectors(r->buf);
		r->seq++;
		rc = replay_block(r);
	}
	/* A block that needs a txg which is not there was never acknowledged. */
	needs_more = read_block(r->log, r->pos, r->buf) && r->buf->log_id == r->log->from.id &&
		     r->buf->seq == r->seq && r->buf->needs_txg > r->log->from_txg;
	return rc || needs_more ? rc : find_lost(r, lost);
}

int ilog_replay(struct pool *pool, const struct ilog_replay *to, uint64_t *count, uint64_t *lost)
{
	struct ilog *log = pool->ilog;
	const struct ilog_state *from = &log->from;
	struct reader r = {.log = log, .seq = from->seq, .pos = from->pos, .to = to};
	int rc;

	*count = *lost = 0;
	/* An export has committed everything. */
	if (!from->id || pool->was_exported)
		return 0;
	ring_named(pool, from->devs, &log->ring);
	if (!log->ring.sectors)
		return 0;
	r.buf = dev_buf_alloc(2 * (size_t)BLOCK_BYTES_MAX);
	if (!r.buf)
		return -ENOMEM;
	r.other = (uint8_t *)r.buf + BLOCK_BYTES_MAX;
	rc = replay(&r, lost);
	*count = r.count;
	free(r.buf);
	return rc;
}

static int pass_over(void *arg, const void *record, uint32_t len)
{
	(void)arg, (void)record, (void)len;
	return 0;
}

int ilog_count(struct pool *pool, uint64_t *count, uint64_t *lost)
{
	static const struct ilog_replay nowhere = {.record = pass_over};

	ilog_open(pool, pool->uber.txg + 1);
	return ilog_replay(pool, &nowhere, count, lost);
}
