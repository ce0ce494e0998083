// SPDX-License-Identifier: LGPL-3.0-or-later
#include "pool/alog.h"

#include "pool/alloc_impl.h"
#include "util/mem.h"

#include <errno.h>
#include <inttypes.h>

/* A checkpoint for each so many chunks that lack one. */
#define CHECKPOINT_SHARE 64

/* Blocks of the log that are on the devices, oldest first. */
struct log_entry {
	uint64_t txg;
	struct bp bp;
};

/* One being written. */
struct log_buf {
	struct alog_block *block;
	uint32_t bytes;
	struct chunk *chunk;
	uint32_t sector;
};

struct alog {
	struct log_entry *entries;
	size_t n, room;
	struct log_buf *bufs;
	size_t nbufs, buf_room;
	atomic_bool failed; /* noticed by sync_wait_io() */
};

static uint32_t capacity(uint32_t bytes)
{
	return (uint32_t)((bytes - sizeof(struct alog_block)) / sizeof(struct extent));
}

struct alog *alog_new(void)
{
	return calloc(1, sizeof(struct alog));
}

static void drop_bufs(struct alog *log)
{
	for (size_t i = 0; i < log->nbufs; i++)
		free(log->bufs[i].block);
	log->nbufs = 0;
}

void alog_free(struct alog *log)
{
	if (!log)
		return;
	drop_bufs(log);
	free(log->bufs);
	free(log->entries);
	free(log);
}

void alog_committed(struct pool *pool)
{
	drop_bufs(pool->alloc->alog);
}

void alog_each_block(struct pool *pool, void (*fn)(void *arg, const struct bp *bp), void *arg)
{
	const struct alog *log = pool->alloc->alog;

	for (size_t i = 0; i < log->n; i++)
		fn(arg, &log->entries[i].bp);
}

static void add_entry(struct alog *log, uint64_t txg, const struct bp *bp)
{
	log->entries = mem_grow(log->entries, log->n, &log->room, sizeof(*log->entries));
	log->entries[log->n++] = (struct log_entry){txg, *bp};
}

/* ---- writing ---- */

/* Blocks of an earlier pass, and those that no import will read again. */
static void free_old(struct txg_sync *s, struct alog *log, uint64_t tail)
{
	size_t old = 0;

	while (log->n && log->entries[log->n - 1].txg == s->txg)
		sync_free(s, &log->entries[--log->n].bp);
	while (old < log->n && log->entries[old].txg < tail)
		sync_free(s, &log->entries[old++].bp);
	log->n -= old;
	if (old && log->n)
		memmove(log->entries, log->entries + old, log->n * sizeof(*log->entries));
}

static uint32_t bytes_for(size_t entries)
{
	size_t bytes = sizeof(struct alog_block) + entries * sizeof(struct extent);

	if (bytes > ALOG_BLOCK_MAX)
		return ALOG_BLOCK_MAX;
	return (uint32_t)(bytes + SECTOR_SIZE - 1) & ~(SECTOR_SIZE - 1);
}

/* A block with room for `left` entries or as many as a block holds; smaller where space is in
   crumbs. */
static int add_buf(struct txg_sync *s, struct alog *log, size_t left)
{
	struct log_buf b = {.bytes = bytes_for(left)};
	int rc;

	while ((rc = alloc_run(s, BLOCK_META, b.bytes / SECTOR_SIZE, &b.chunk, &b.sector))) {
		if (b.bytes == SECTOR_SIZE)
			return rc;
		b.bytes = (b.bytes / 2 + SECTOR_SIZE - 1) & ~(SECTOR_SIZE - 1);
	}
	b.block = mem_must(dev_buf_alloc(b.bytes));
	memset(b.block, 0, b.bytes);
	log->bufs = mem_grow(log->bufs, log->nbufs, &log->buf_room, sizeof(*log->bufs));
	log->bufs[log->nbufs++] = b;
	return 0;
}

/* Each block is one extent more, at most. */
static int reserve_bufs(struct txg_sync *s, struct alog *log, size_t entries)
{
	size_t room = 0;

	while (room < entries + log->nbufs || !log->nbufs) {
		int rc = add_buf(s, log, entries + log->nbufs + 1 - room);

		if (rc)
			return rc;
		room += capacity(log->bufs[log->nbufs - 1].bytes);
	}
	return 0;
}

static void fill(struct alog_block *block, uint32_t room, const struct extents *allocs,
		 const struct extents *frees, size_t *at)
{
	for (; room && *at < allocs->n; room--)
		block->extents[block->nallocs++] = allocs->e[(*at)++];
	for (; room && *at < allocs->n + frees->n; room--)
		block->extents[block->nallocs + block->nfrees++] = frees->e[(*at)++ - allocs->n];
}

static struct bp write_buf(struct txg_sync *s, struct alog *log, struct log_buf *b)
{
	struct bp bp = {.chunk = b->chunk->id,
			.sector = b->sector,
			.lsize = b->bytes,
			.psize = b->bytes,
			.type = BP_ALLOC_LOG,
			.comp = COMP_OFF,
			.cksum = CKSUM_XXH3,
			.birth = s->txg};

	block_checksum(CKSUM_XXH3, b->block, b->bytes, bp.sum);
	block_write_at(s, &bp, b->chunk, b->block, &log->failed);
	return bp;
}

static void write_bufs(struct txg_sync *s, struct alog *log, const struct extents *allocs,
		       const struct extents *frees, struct bp *newest)
{
	size_t at = 0;

	for (size_t i = 0; i < log->nbufs; i++) {
		struct log_buf *b = &log->bufs[i];

		b->block->magic = ALOG_MAGIC;
		b->block->pool_guid = s->pool->guid;
		b->block->txg = s->txg;
		b->block->index = (uint32_t)i;
		b->block->prev = *newest;
		fill(b->block, capacity(b->bytes), allocs, frees, &at);
		*newest = write_buf(s, log, b);
		add_entry(log, s->txg, newest);
	}
	assert(at == allocs->n + frees->n);
}

int alog_write(struct txg_sync *s, struct bp *newest, uint64_t *tail)
{
	struct alog *log = s->pool->alloc->alog;
	struct extents allocs = {0}, frees = {0};
	int rc;

	*tail = alloc_log_tail(s->pool, s->txg);
	drop_bufs(log);
	free_old(s, log, *tail);
	alloc_txg_extents(s, &allocs, &frees);
	rc = reserve_bufs(s, log, allocs.n + frees.n);
	allocs.n = frees.n = 0;
	if (!rc) {
		alloc_txg_extents(s, &allocs, &frees);
		*newest = s->pool->uber.alog;
		write_bufs(s, log, &allocs, &frees, newest);
	}
	extents_free(&allocs);
	extents_free(&frees);
	return rc;
}

/* ---- chunk records ---- */

struct put_args {
	struct txg_sync *s;
	int (*put)(void *arg, uint64_t id, const void *record, uint32_t len);
	void *arg;
	struct chunk_record *record; /* CHUNK_RECORD_MAX bytes */
};

static int put_record(const struct put_args *p, struct chunk *chunk)
{
	uint32_t len = chunk_record_fill(chunk, p->record);

	p->record->alloc_txg = p->s->txg - 1;
	p->record->free_txg = alloc_released_txg(p->s->pool);
	p->record->bitmap_len =
	    alloc_checkpoint(p->s, chunk, &p->record->packing, (uint8_t *)p->record + len);
	return p->put(p->arg, chunk->id, p->record, len + p->record->bitmap_len);
}

static int put_all(const struct put_args *p)
{
	struct pool *pool = p->s->pool;
	uint32_t checkpoints;
	struct chunk *c;
	int rc = 0;

	while (!rc && (c = alloc_take_empty(p->s))) {
		rc = p->put(p->arg, c->id, NULL, 0);
		chunk_remove(p->s, c);
	}
	alloc_prepare_tail(p->s);
	while (!rc && (c = chunk_take_dirty(pool)))
		rc = put_record(p, c);
	/* Later passes only repeat what has to be repeated. */
	checkpoints = p->s->pass > 1 ? 0 : alloc_unchecked(pool);
	checkpoints = (checkpoints + CHECKPOINT_SHARE - 1) / CHECKPOINT_SHARE;
	for (; !rc && checkpoints && (c = alloc_longest_unchecked(pool)); checkpoints--)
		rc = put_record(p, c);
	return rc;
}

int pool_dirty_chunks(struct txg_sync *s,
		      int (*put)(void *arg, uint64_t id, const void *record, uint32_t len),
		      void *arg)
{
	struct put_args p = {
	    .s = s, .put = put, .arg = arg, .record = mem_must(malloc(CHUNK_RECORD_MAX))};
	int rc = put_all(&p);

	free(p.record);
	return rc;
}

/* ---- import ---- */

int pool_load_chunk(struct pool *pool, uint64_t id, const void *record, uint32_t len)
{
	struct chunk_record *copy;
	struct chunk *chunk;
	int rc = -EIO;

	if (len > CHUNK_RECORD_MAX)
		return -EIO;
	copy = malloc(CHUNK_RECORD_MAX);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, record, len);
	if (chunk_record_valid(copy, len))
		rc = chunk_load(pool, id, copy, &chunk);
	if (!rc)
		rc = alloc_load_chunk(pool, chunk, copy);
	free(copy);
	return rc;
}

bool alog_block_valid(const struct alog_block *block, const struct bp *bp, uint64_t pool_guid)
{
	uint32_t room = capacity(bp->lsize);

	if (block->magic != ALOG_MAGIC || block->pool_guid != pool_guid || block->txg != bp->birth)
		return false;
	if (block->nallocs > room || block->nfrees > room - block->nallocs)
		return false;
	for (uint32_t i = 0; i < block->nallocs + block->nfrees; i++) {
		const struct extent *e = &block->extents[i];

		if (!e->chunk || !e->count || e->sector >= CHUNK_SECTORS_MAX ||
		    e->count > CHUNK_SECTORS_MAX - e->sector)
			return false;
	}
	return bp_valid(&block->prev, bp->birth);
}

/* A change and when it takes effect. */
struct change {
	uint64_t effect, txg;
	struct extent e;
	bool alloc;
};
struct changes {
	struct change *c;
	size_t n, room;
};

static void add_changes(struct changes *list, const struct alog_block *block)
{
	for (uint32_t i = 0; i < block->nallocs + block->nfrees; i++) {
		bool alloc = i < block->nallocs;

		list->c = mem_grow(list->c, list->n, &list->room, sizeof(*list->c));
		list->c[list->n++] = (struct change){.effect = block->txg + (alloc ? 0 : TXG_KEEP),
						     .txg = block->txg,
						     .e = block->extents[i],
						     .alloc = alloc};
	}
}

/* By effect; what a txg allocates comes before what it frees, should it free that again. */
static int change_compare(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	if (x->effect != y->effect)
		return x->effect < y->effect ? -1 : 1;
	if (x->txg != y->txg)
		return x->txg < y->txg ? -1 : 1;
	return (int)y->alloc - (int)x->alloc;
}

static int replay(struct pool *pool, const struct changes *list)
{
	for (size_t i = 0; i < list->n; i++) {
		const struct change *c = &list->c[i];
		int rc = c->effect <= pool->uber.txg
			     ? alloc_load_change(pool, c->txg, &c->e, c->alloc)
			     : alloc_load_deferred(pool, c->txg, &c->e);

		if (rc) {
			pool_log(pool, TARN_LOG_ERROR,
				 "allocation log of txg %" PRIu64
				 " contradicts the bitmap of chunk %" PRIu64 " at sector %u",
				 c->txg, c->e.chunk, c->e.sector);
			return rc;
		}
	}
	return 0;
}

/* bp is the block that `next` (NULL: the uberblock) names. */
static bool follows(const struct bp *bp, const struct alog_block *next, uint64_t max_birth)
{
	if (!bp_valid(bp, max_birth) || bp->type != BP_ALLOC_LOG || bp->lsize > ALOG_BLOCK_MAX ||
	    bp->lsize % SECTOR_SIZE || bp->comp != COMP_OFF)
		return false;
	/* Within a txg indices go down one by one, and the next txg starts at 0: the chain ends. */
	return !next || (bp->birth == next->txg) == (next->index > 0);
}

static int read_chain(struct pool *pool, struct alog *log, struct changes *list)
{
	struct alog_block *block = dev_buf_alloc(ALOG_BLOCK_MAX);
	struct bp bp = pool->uber.alog;
	uint32_t index = 0;
	bool first = true;
	int rc = block ? 0 : -ENOMEM;

	while (!rc && !bp_is_hole(&bp) && bp.birth >= pool->uber.alog_tail) {
		if (!follows(&bp, first ? NULL : block, pool->uber.txg))
			rc = -EIO;
		rc = rc ? rc : block_read_wait(pool, &bp, block);
		if (!rc && (!alog_block_valid(block, &bp, pool->guid) ||
			    (index && block->index != index - 1)))
			rc = -EIO;
		if (rc)
			break;
		index = block->index;
		first = false;
		add_changes(list, block);
		add_entry(log, block->txg, &bp);
		bp = block->prev;
	}
	free(block);
	return rc;
}

static void oldest_first(struct alog *log)
{
	for (size_t i = 0; i < log->n / 2; i++) {
		struct log_entry e = log->entries[i];

		log->entries[i] = log->entries[log->n - 1 - i];
		log->entries[log->n - 1 - i] = e;
	}
}

int pool_load_done(struct pool *pool)
{
	struct alog *log = pool->alloc->alog;
	struct changes list = {0};
	int rc = read_chain(pool, log, &list);

	oldest_first(log);
	if (list.n)
		qsort(list.c, list.n, sizeof(*list.c), change_compare);
	rc = rc ? rc : replay(pool, &list);
	free(list.c);
	rc = rc ? rc : alloc_load_done(pool);
	if (!rc)
		chunks_load_done(pool);
	return rc;
}
