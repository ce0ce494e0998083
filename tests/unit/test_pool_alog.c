// SPDX-License-Identifier: LGPL-3.0-or-later
/* What an import finds after a cut at any point: bitmaps as they were in memory, blocks whole. */
#include "pool_rig.h"
#include "util/mem.h"

static const unsigned single[] = {1, 0}, mirror[] = {2, 0}, stripe[] = {1, 2, 0};
static const unsigned *const layouts[] = {single, mirror, stripe};

/* A few random writes, overwrites and removals of committed blocks. */
static void random_ops(struct rig *r, uint64_t *seed, unsigned n, unsigned span)
{
	for (; n; n--) {
		unsigned i = (unsigned)(rig_random(seed) % span);
		uint64_t what = rig_random(seed);
		struct rig_block b = {.seed = rig_random(seed),
				      .lsize = (uint32_t)(what >> 8) % 150000 + 1,
				      .comp = (uint8_t)(what % COMP_TYPES),
				      .cksum = what & 16 ? CKSUM_XXH3 : CKSUM_SHA256,
				      .class = what & 32 ? BLOCK_META : BLOCK_DATA};

		/* One that was written in this txg has no place yet. */
		if (r->open[i].seed && bp_is_hole(&r->open[i].bp))
			continue;
		if (r->open[i].seed && what % 3 == 0)
			assert_int_equal(rig_remove(r, i), 0);
		else
			assert_int_equal(rig_write(r, i, &b), 0);
	}
}

static struct rig *open_cut(struct rig *r, enum sim_cut how, uint64_t arg)
{
	struct sim *sims[RIG_DEVS];
	struct rig *cut;
	int rc;

	for (unsigned i = 0; i < r->nsims; i++)
		sims[i] = sim_cut(r->sims[i], how, arg, 0);
	cut = rig_open(sims, r->nsims, r->pool->guid, 0, &rc);
	assert_int_equal(rc, 0);
	return cut;
}

/* After each commit: what replay builds is what is in memory. */
static void test_replay_equals_memory(void **state)
{
	uint64_t seed = rig_seed();

	(void)state;
	for (unsigned l = 0; l < 3; l++) {
		struct rig *r = rig_create(layouts[l], 256u << 20);

		for (unsigned txg = 0; txg < 25; txg++) {
			struct extents mine, theirs;
			struct rig *cut;

			random_ops(r, &seed, 12, 60);
			assert_int_equal(rig_commit(r), 0);
			rig_check(r);
			cut = open_cut(r, SIM_CUT_NONE, 0);
			mine = rig_runs(r);
			theirs = rig_runs(cut);
			rig_assert_same(&mine, &theirs);
			assert_int_equal(cut->pool->alloc->deferred_sectors,
					 r->pool->alloc->deferred_sectors);
			rig_check(cut);
			extents_free(&mine);
			extents_free(&theirs);
			rig_free(cut);
		}
		rig_free(r);
	}
}

/* A chain of imports, each after a cut: the log of one is continued by the next. */
static void test_import_again(void **state)
{
	uint64_t seed = rig_seed();
	struct rig *r = rig_create(stripe, 256u << 20);

	(void)state;
	for (unsigned round = 0; round < 8; round++) {
		struct rig *next;

		for (unsigned txg = 0; txg <= round % 4; txg++) {
			random_ops(r, &seed, 15, 80);
			assert_int_equal(rig_commit(r), 0);
		}
		rig_check(r);
		random_ops(r, &seed, 15, 80); /* lost */
		next = open_cut(r, SIM_CUT_NONE, 0);
		rig_free(r);
		r = next;
		rig_check(r);
		rig_start(r);
	}
	rig_free(r);
}

/* The tail moves on: the log does not grow with the number of txgs. */
static void test_log_stays_short(void **state)
{
	struct rig *r = rig_create(single, 256u << 20);
	uint64_t seed = rig_seed(), longest = 0;

	(void)state;
	for (unsigned txg = 0; txg < 60; txg++) {
		random_ops(r, &seed, 5, 40);
		assert_int_equal(rig_commit(r), 0);
		if (r->pool->uber.txg - r->pool->uber.alog_tail > longest)
			longest = r->pool->uber.txg - r->pool->uber.alog_tail;
	}
	assert_in_range(longest, 1, 20);
	rig_check(r);
	rig_free(r);
}

/* A txg with more extents than one block of the log holds. */
static void test_long_log(void **state)
{
	struct rig *r = rig_create(mirror, 256u << 20);
	uint64_t seed = rig_seed();
	struct rig *cut;

	(void)state;
	for (unsigned i = 0; i < RIG_BLOCKS; i++)
		assert_int_equal(rig_put_block(r, i, i + 1, SECTOR_SIZE), 0);
	assert_int_equal(rig_commit(r), 0);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = round; i < RIG_BLOCKS; i += 3) {
			if (rig_random(&seed) % 8)
				assert_int_equal(rig_remove(r, i), 0);
		}
		assert_int_equal(rig_commit(r), 0);
		rig_check(r);
		cut = open_cut(r, SIM_CUT_NONE, 0);
		rig_check(cut);
		rig_free(cut);
	}
	rig_free(r);
}

/* ---- cuts after each write ---- */

struct cutter {
	struct rig *r;
	pthread_mutex_t lock;
	unsigned writes, every;
	uint64_t seed, guid;
	struct sim *cuts[400][RIG_DEVS];
	unsigned ncuts;
};

static void cut_now(struct sim *sim, uint64_t nth, void *arg)
{
	struct cutter *c = arg;

	(void)sim;
	(void)nth;
	pthread_mutex_lock(&c->lock);
	if (c->writes++ % c->every == 0 && c->ncuts < 400) {
		for (unsigned i = 0; i < c->r->nsims; i++)
			c->cuts[c->ncuts][i] =
			    sim_cut(c->r->sims[i], SIM_CUT_RANDOM, rig_random(&c->seed), 0);
		c->ncuts++;
	}
	pthread_mutex_unlock(&c->lock);
}

/* Opens what a cut left, checks it, goes on for a txg, checks again. */
static void check_cut(struct cutter *c, unsigned n)
{
	struct rig *cut;
	int rc;

	cut = rig_open(c->cuts[n], c->r->nsims, c->guid, 0, &rc);
	assert_int_equal(rc, 0);
	rig_check(cut);
	if (n % 4 == 0) {
		rig_start(cut);
		random_ops(cut, &c->seed, 5, 40);
		assert_int_equal(rig_commit(cut), 0);
		rig_check(cut);
	}
	rig_free(cut);
}

static void cuts_on(const unsigned *layout, uint64_t seed)
{
	struct cutter *c = calloc(1, sizeof(*c));

	c->seed = seed;
	c->every = 3;
	pthread_mutex_init(&c->lock, NULL);
	c->r = rig_create(layout, 128u << 20);
	assert_int_equal(rig_commit(c->r), 0);
	c->guid = c->r->pool->guid;
	for (unsigned i = 0; i < c->r->nsims; i++)
		sim_on_write(c->r->sims[i], cut_now, c);
	for (unsigned txg = 0; txg < 8; txg++) {
		random_ops(c->r, &seed, 6, 40);
		assert_int_equal(rig_commit(c->r), 0);
	}
	for (unsigned i = 0; i < c->r->nsims; i++)
		sim_on_write(c->r->sims[i], NULL, NULL);
	assert_int_equal(rig_close(c->r), 0);
	for (unsigned n = 0; n < c->ncuts; n++)
		check_cut(c, n);
	rig_free(c->r);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static void test_cuts(void **state)
{
	uint64_t seed = rig_seed();

	(void)state;
	cuts_on(single, seed);
	cuts_on(mirror, seed);
}

/* ---- hostile input ---- */

static void test_block_valid(void **state)
{
	struct alog_block *b = calloc(1, SECTOR_SIZE);
	struct bp bp = {.lsize = SECTOR_SIZE, .birth = 9};

	(void)state;
	b->magic = ALOG_MAGIC;
	b->pool_guid = 5;
	b->txg = 9;
	b->nallocs = 1;
	b->nfrees = 1;
	b->extents[0] = (struct extent){1, 0, 1};
	b->extents[1] = (struct extent){2, CHUNK_SECTORS_MAX - 1, 1};
	assert_true(alog_block_valid(b, &bp, 5));
	assert_false(alog_block_valid(b, &bp, 6));
	b->extents[1].count = 2;
	assert_false(alog_block_valid(b, &bp, 5));
	b->extents[1].count = UINT32_MAX;
	assert_false(alog_block_valid(b, &bp, 5));
	b->extents[1].count = 0;
	assert_false(alog_block_valid(b, &bp, 5));
	b->nfrees = 0;
	assert_true(alog_block_valid(b, &bp, 5));
	b->nallocs = 249; /* 248 fit */
	assert_false(alog_block_valid(b, &bp, 5));
	b->nallocs = 1;
	b->nfrees = UINT32_MAX;
	assert_false(alog_block_valid(b, &bp, 5));
	free(b);
}

static void test_record_valid(void **state)
{
	uint64_t room[64] = {0};
	struct chunk_record *r = (struct chunk_record *)room;
	uint32_t len = sizeof(*r) + 2 * sizeof(r->cols[0]) + 3;

	(void)state;
	*r = (struct chunk_record){.sectors = 1024,
				   .profile = PROFILE_DUP,
				   .class = BLOCK_META,
				   .ncols = 2,
				   .bitmap_len = 3};
	assert_true(chunk_record_valid(r, len));
	assert_false(chunk_record_valid(r, len - 1));
	assert_false(chunk_record_valid(r, len + 1));
	assert_false(chunk_record_valid(r, 20));
	r->ncols = 1;
	assert_false(chunk_record_valid(r, len));
	r->ncols = 255;
	assert_false(chunk_record_valid(r, len));
	r->ncols = 2;
	r->sectors = CHUNK_SECTORS_MAX * 2;
	assert_false(chunk_record_valid(r, len));
	r->sectors = 1024;
	r->bitmap_len = UINT32_MAX;
	assert_false(chunk_record_valid(r, len));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_replay_equals_memory),
	    cmocka_unit_test(test_import_again),
	    cmocka_unit_test(test_log_stays_short),
	    cmocka_unit_test(test_long_log),
	    cmocka_unit_test(test_cuts),
	    cmocka_unit_test(test_block_valid),
	    cmocka_unit_test(test_record_valid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
