// SPDX-License-Identifier: LGPL-3.0-or-later
#include "fake_pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <xxhash.h>

#include "tree/tree.h"

#define EPOCHS 64
#define TXGS 4
#define PER_CHUNK 1000

enum state { WRITTEN, LIVE, FREED, GONE };

struct block {
	struct bp bp;
	uint8_t *data;
	enum state state;
	uint64_t freed; /* txg */
	uint64_t epoch; /* the readers' when its txg was committed; 0: not yet */
	bool failed, marked;
	/* While being written. */
	const void *source;
	atomic_bool *flag;
};

struct free_item {
	struct space_owner *owner;
	struct bp bp;
	struct slot_obj *obj;
	struct free_item *next;
};

struct read_item {
	struct work work;
	struct fake *f;
	struct block_read *r;
	struct read_item *next;
};

struct fake {
	struct pool pool;
	struct space_owner owner;
	struct fake_options o;
	pthread_rwlock_t barrier; /* held for reading by each tx */
	pthread_mutex_t lock;     /* guards all below */
	uint64_t txg, committed;
	struct block **blocks;
	uint64_t count, room, first_dead;
	struct free_item *frees[TXGS];
	uint64_t epoch;
	uint64_t readers[EPOCHS];
	uint64_t random;
	unsigned long reads;
	bool stopped;
	struct read_item *waiting;
	bool any_failed;
};

static _Thread_local unsigned holds;

void fake_fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: broken: %s\n", file, line, what);
	abort();
}

static struct fake *fake_of(struct pool *pool)
{
	return (struct fake *)pool;
}

static uint32_t rounded(uint32_t len)
{
	return (len + SECTOR_SIZE - 1) & -SECTOR_SIZE;
}

/* ---- life ---- */

static void owner_born(struct space_owner *owner, struct txg_sync *s, const struct bp *bp);
static void owner_freed(struct space_owner *owner, struct txg_sync *s, const struct bp *bp);
static const struct space_owner_ops owner_ops = {owner_born, owner_freed};

struct fake *fake_new(const struct fake_options *o)
{
	static atomic_ulong guid = 1;
	struct fake *f = calloc(1, sizeof(*f));
	pthread_rwlockattr_t attr;

	FAKE_CHECK(f);
	f->o = *o;
	f->random = o->seed;
	f->pool.guid = atomic_fetch_add(&guid, 1);
	f->owner.ops = &owner_ops;
	f->txg = 10;
	f->committed = 9;
	f->epoch = 1;
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&f->barrier, &attr);
	pthread_rwlockattr_destroy(&attr);
	pthread_mutex_init(&f->lock, NULL);
	FAKE_CHECK(workq_create(o->threads, &f->pool.wq) == 0);
	return f;
}

void fake_free(struct fake *f)
{
	workq_destroy(f->pool.wq);
	for (int i = 0; i < TXGS; i++) {
		struct free_item *it;

		while ((it = f->frees[i])) {
			f->frees[i] = it->next;
			if (it->obj)
				slot_obj_unref(it->obj);
			free(it);
		}
	}
	for (int i = 0; i < EPOCHS; i++)
		FAKE_CHECK(f->readers[i] == 0);
	for (uint64_t i = 0; i < f->count; i++) {
		free(f->blocks[i]->data);
		free(f->blocks[i]);
	}
	free(f->blocks);
	pthread_rwlock_destroy(&f->barrier);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

struct pool *fake_pool(struct fake *f)
{
	return &f->pool;
}

struct workq *fake_wq(struct fake *f)
{
	return f->pool.wq;
}

struct space_owner *fake_owner(struct fake *f)
{
	return &f->owner;
}

/* ---- blocks; the lock is held ---- */

static struct block *block_of(struct fake *f, const struct bp *bp)
{
	uint64_t i = (bp->chunk - 1) * PER_CHUNK + bp->sector / 300;
	struct block *b;

	FAKE_CHECK(i < f->count);
	b = f->blocks[i];
	FAKE_CHECK(memcmp(&b->bp, bp, sizeof(*bp)) == 0);
	return b;
}

static struct block *block_new(struct fake *f, const void *data, uint32_t lsize)
{
	struct block *b = calloc(1, sizeof(*b));
	XXH128_canonical_t sum;

	if (f->count == f->room) {
		f->room = f->room ? f->room * 2 : 1024;
		f->blocks = realloc(f->blocks, f->room * sizeof(*f->blocks));
	}
	FAKE_CHECK(b && f->blocks);
	b->bp = (struct bp){.chunk = f->count / PER_CHUNK + 1,
			    .sector = f->count % PER_CHUNK * 300,
			    .lsize = lsize,
			    .psize = lsize,
			    .cksum = CKSUM_XXH3};
	b->data = malloc(lsize);
	FAKE_CHECK(b->data);
	memcpy(b->data, data, lsize);
	XXH128_canonicalFromHash(&sum, XXH3_128bits(data, lsize));
	memcpy(b->bp.sum, &sum, sizeof(sum));
	f->blocks[f->count++] = b;
	return b;
}

int block_write(struct txg_sync *s, const struct block_write *w, struct bp *out)
{
	struct fake *f = fake_of(s->pool);
	const uint8_t *bytes = w->data;
	struct block *b;

	FAKE_CHECK(w->lsize > 0 && w->lsize <= BLOCK_MAX && w->failed);
	FAKE_CHECK((uintptr_t)w->data % SECTOR_SIZE == 0);
	for (uint32_t i = w->lsize; i < rounded(w->lsize); i++)
		FAKE_CHECK(bytes[i] == 0);
	pthread_mutex_lock(&f->lock);
	b = block_new(f, w->data, w->lsize);
	b->bp.type = w->type;
	b->bp.level = w->level;
	b->bp.birth = s->txg;
	b->source = w->data;
	b->flag = w->failed;
	b->failed = test_random(&f->random) % 1000 < f->o.fail_writes;
	*out = b->bp;
	pthread_mutex_unlock(&f->lock);
	return 0;
}

bool sync_wait_io(struct txg_sync *s)
{
	struct fake *f = fake_of(s->pool);
	bool failed = false;

	pthread_mutex_lock(&f->lock);
	for (uint64_t i = 0; i < f->count; i++) {
		struct block *b = f->blocks[i];

		if (!b->source)
			continue;
		FAKE_CHECK(memcmp(b->source, b->data, b->bp.lsize) == 0);
		b->source = NULL;
		if (b->failed) {
			atomic_store(b->flag, true);
			failed = true;
		}
	}
	pthread_mutex_unlock(&f->lock);
	return failed;
}

static void read_work(struct work *work)
{
	struct read_item *it = (struct read_item *)work;
	struct block_read *r = it->r;
	struct fake *f = it->f;
	struct block *b;

	pthread_mutex_lock(&f->lock);
	f->reads++;
	b = block_of(f, &r->bp);
	FAKE_CHECK(b->state != GONE && !b->failed);
	r->result = test_random(&f->random) % 1000 < f->o.fail_reads ? -EIO : 0;
	if (r->result == 0)
		memcpy(r->buf, b->data, b->bp.lsize);
	pthread_mutex_unlock(&f->lock);
	free(it);
	r->done(r);
}

/* Most reads are done at once: a wait costs more than all else on a busy machine. */
void block_read(struct pool *pool, struct block_read *r)
{
	struct fake *f = fake_of(pool);
	struct read_item *it = calloc(1, sizeof(*it));
	bool here;

	FAKE_CHECK(it && bp_valid(&r->bp, r->bp.birth) && !bp_is_hole(&r->bp));
	FAKE_CHECK((uintptr_t)r->buf % SECTOR_SIZE == 0);
	it->work.fn = read_work;
	it->f = f;
	it->r = r;
	pthread_mutex_lock(&f->lock);
	FAKE_CHECK(f->readers[r->epoch.slot] > 0);
	here = test_random(&f->random) % 8;
	if (f->stopped) {
		it->next = f->waiting;
		f->waiting = it;
		it = NULL;
	}
	pthread_mutex_unlock(&f->lock);
	if (it && here)
		read_work(&it->work);
	else if (it)
		workq_submit(f->pool.wq, &it->work);
}

void fake_reads_stop(struct fake *f)
{
	pthread_mutex_lock(&f->lock);
	f->stopped = true;
	pthread_mutex_unlock(&f->lock);
}

void fake_reads_go(struct fake *f)
{
	struct read_item *it;

	pthread_mutex_lock(&f->lock);
	f->stopped = false;
	while ((it = f->waiting)) {
		f->waiting = it->next;
		workq_submit(f->pool.wq, &it->work);
	}
	pthread_mutex_unlock(&f->lock);
}

unsigned long fake_reads(struct fake *f)
{
	unsigned long n;

	pthread_mutex_lock(&f->lock);
	n = f->reads;
	pthread_mutex_unlock(&f->lock);
	return n;
}

struct bp fake_write(struct fake *f, const void *data, uint32_t len)
{
	struct block *b;
	struct bp bp;

	pthread_mutex_lock(&f->lock);
	b = block_new(f, data, len);
	b->bp.type = BP_DATA;
	b->bp.birth = f->txg;
	b->state = LIVE;
	bp = b->bp;
	pthread_mutex_unlock(&f->lock);
	return bp;
}

void fake_content(struct fake *f, const struct bp *bp, void *data)
{
	pthread_mutex_lock(&f->lock);
	memcpy(data, block_of(f, bp)->data, bp->lsize);
	pthread_mutex_unlock(&f->lock);
}

void fake_fail_reads(struct fake *f, unsigned of_1000)
{
	pthread_mutex_lock(&f->lock);
	f->o.fail_reads = of_1000;
	pthread_mutex_unlock(&f->lock);
}

void fake_replace(struct fake *f, const struct bp *bp, const void *data)
{
	pthread_mutex_lock(&f->lock);
	memcpy(block_of(f, bp)->data, data, bp->lsize);
	pthread_mutex_unlock(&f->lock);
}

/* ---- births and frees ---- */

static void owner_born(struct space_owner *owner, struct txg_sync *s, const struct bp *bp)
{
	struct fake *f = fake_of(s->pool);
	struct block *b;

	FAKE_CHECK(owner == &f->owner && bp->birth == s->txg);
	pthread_mutex_lock(&f->lock);
	b = block_of(f, bp);
	FAKE_CHECK(b->state == WRITTEN);
	b->state = LIVE;
	pthread_mutex_unlock(&f->lock);
}

static void owner_freed(struct space_owner *owner, struct txg_sync *s, const struct bp *bp)
{
	FAKE_CHECK(owner == &fake_of(s->pool)->owner);
	sync_free(s, bp);
}

void sync_free(struct txg_sync *s, const struct bp *bp)
{
	struct fake *f = fake_of(s->pool);
	struct block *b;

	FAKE_CHECK(!bp_is_hole(bp));
	pthread_mutex_lock(&f->lock);
	b = block_of(f, bp);
	FAKE_CHECK(b->state == LIVE);
	b->state = FREED;
	b->freed = s->txg;
	pthread_mutex_unlock(&f->lock);
}

static void queue_free(struct tx *tx, struct free_item item)
{
	struct fake *f = fake_of(tx->pool);
	struct free_item *it = malloc(sizeof(*it));

	FAKE_CHECK(it && !tx->sync && holds > 0);
	*it = item;
	pthread_mutex_lock(&f->lock);
	FAKE_CHECK(tx->txg == f->txg);
	it->next = f->frees[tx->txg % TXGS];
	f->frees[tx->txg % TXGS] = it;
	pthread_mutex_unlock(&f->lock);
}

void tx_free(struct tx *tx, struct space_owner *owner, const struct bp *bp)
{
	if (!bp_is_hole(bp))
		queue_free(tx, (struct free_item){.owner = owner, .bp = *bp});
}

void tx_free_obj(struct tx *tx, struct space_owner *owner, struct slot_obj *obj)
{
	queue_free(tx, (struct free_item){.owner = owner, .obj = obj});
}

void txg_process_frees(struct txg_sync *s)
{
	struct fake *f = fake_of(s->pool);
	struct free_item *it, *list;

	pthread_mutex_lock(&f->lock);
	list = f->frees[s->txg % TXGS];
	f->frees[s->txg % TXGS] = NULL;
	pthread_mutex_unlock(&f->lock);
	while ((it = list)) {
		const struct bp *bp = it->obj ? &it->obj->bp : &it->bp;

		list = it->next;
		FAKE_CHECK(!it->obj || atomic_load(&it->obj->written));
		if (!bp_is_hole(bp))
			it->owner->ops->freed(it->owner, s, bp);
		if (it->obj)
			slot_obj_unref(it->obj);
		free(it);
	}
}

/* ---- txgs ---- */

int tx_begin(struct pool *pool, uint64_t bytes, enum tx_kind kind, struct tx *tx)
{
	struct fake *f = fake_of(pool);

	(void)kind;
	FAKE_CHECK(holds == 0);
	pthread_rwlock_rdlock(&f->barrier);
	holds++;
	*tx = (struct tx){.pool = pool, .txg = f->txg, .reserved = bytes};
	return 0;
}

void tx_end(struct tx *tx)
{
	holds--;
	pthread_rwlock_unlock(&fake_of(tx->pool)->barrier);
}

void tx_dirty(struct tx *tx, uint64_t bytes)
{
	(void)bytes;
	FAKE_CHECK(tx->txg == fake_of(tx->pool)->txg);
}

void tx_assert_none(void)
{
	FAKE_CHECK(holds == 0);
}

void fake_barrier(struct fake *f, void (*freeze)(void *arg, uint64_t txg), void *arg)
{
	pthread_rwlock_wrlock(&f->barrier);
	pthread_mutex_lock(&f->lock);
	FAKE_CHECK(f->committed == f->txg - 1);
	pthread_mutex_unlock(&f->lock);
	freeze(arg, f->txg);
	pthread_mutex_lock(&f->lock);
	f->txg++;
	pthread_mutex_unlock(&f->lock);
	pthread_rwlock_unlock(&f->barrier);
}

struct txg_sync fake_sync(struct fake *f, uint64_t txg)
{
	return (struct txg_sync){.pool = &f->pool, .txg = txg, .pass = 1, .wq = f->pool.wq};
}

static bool readers_until(struct fake *f, uint64_t epoch)
{
	uint64_t from = f->epoch > EPOCHS ? f->epoch - EPOCHS + 1 : 0;

	for (uint64_t e = from; e <= epoch; e++) {
		if (f->readers[e % EPOCHS])
			return true;
	}
	return false;
}

void fake_committed(struct fake *f, uint64_t txg)
{
	pthread_mutex_lock(&f->lock);
	FAKE_CHECK(txg == f->committed + 1);
	f->committed = txg;
	for (uint64_t i = 0; i < f->count; i++) {
		struct block *b = f->blocks[i];

		FAKE_CHECK(!b->source);
		FAKE_CHECK(b->state != WRITTEN);
		if (b->state != FREED || b->freed > txg)
			continue;
		if (!b->epoch)
			b->epoch = f->epoch;
		if (b->freed + f->o.keep <= txg && f->epoch > b->epoch &&
		    !readers_until(f, b->epoch)) {
			b->state = GONE;
			free(b->data);
			b->data = NULL;
		}
	}
	if (f->readers[(f->epoch + 1) % EPOCHS] == 0)
		f->epoch++;
	pthread_mutex_unlock(&f->lock);
}

struct read_epoch read_enter(struct pool *pool)
{
	struct fake *f = fake_of(pool);
	struct read_epoch epoch;

	pthread_mutex_lock(&f->lock);
	epoch = (struct read_epoch){.slot = f->epoch % EPOCHS};
	f->readers[epoch.slot]++;
	pthread_mutex_unlock(&f->lock);
	return epoch;
}

void read_leave(struct pool *pool, struct read_epoch epoch)
{
	struct fake *f = fake_of(pool);

	pthread_mutex_lock(&f->lock);
	FAKE_CHECK(f->readers[epoch.slot] > 0);
	f->readers[epoch.slot]--;
	pthread_mutex_unlock(&f->lock);
}

/* ---- accounting ---- */

void fake_mark_begin(struct fake *f)
{
	pthread_mutex_lock(&f->lock);
	for (uint64_t i = 0; i < f->count; i++)
		f->blocks[i]->marked = false;
	pthread_mutex_unlock(&f->lock);
}

void fake_mark(struct fake *f, const struct bp *bp)
{
	struct block *b;

	pthread_mutex_lock(&f->lock);
	b = block_of(f, bp);
	FAKE_CHECK(!b->marked);
	b->marked = true;
	pthread_mutex_unlock(&f->lock);
}

void fake_mark_end(struct fake *f, uint64_t txg)
{
	pthread_mutex_lock(&f->lock);
	for (uint64_t i = 0; i < f->count; i++) {
		struct block *b = f->blocks[i];
		bool there = b->bp.birth <= txg && (b->state == LIVE || b->freed > txg);

		FAKE_CHECK(there == b->marked);
	}
	pthread_mutex_unlock(&f->lock);
}

/* ---- random tests ---- */

uint64_t test_seed(void)
{
	const char *given = getenv("TARN_TEST_SEED");
	struct timespec now;
	uint64_t seed;

	clock_gettime(CLOCK_REALTIME, &now);
	seed = given ? strtoull(given, NULL, 0) : (uint64_t)now.tv_sec * 1000003 + now.tv_nsec;
	printf("TARN_TEST_SEED=%lu\n", seed);
	return seed;
}

void test_fill(void *buf, uint32_t len, uint64_t seed)
{
	uint8_t *to = buf;

	for (uint32_t i = 0; i < len; i += 8) {
		uint64_t word = test_random(&seed);

		memcpy(to + i, &word, len - i < 8 ? len - i : 8);
	}
}

bool test_filled(const void *buf, uint32_t len, uint64_t seed)
{
	uint8_t *want = malloc(len + 1);
	bool same;

	test_fill(want, len, seed);
	same = memcmp(buf, want, len) == 0;
	free(want);
	return same;
}
