// SPDX-License-Identifier: LGPL-3.0-or-later
#include "simpool.h"

#define TABLE(copy) (LABEL_AREA + (uint64_t)(copy)*SECTOR_SIZE)

static struct simpool *new_tables(uint32_t nmirror, uint32_t nsingle)
{
	struct simpool *sp = simpool_new(nmirror, nsingle);

	for (uint32_t i = 0; i < sp->pool.ndevs; i++) {
		assert_int_equal(slab_table_create(&sp->pool.devs[i]), 0);
		assert_int_equal(dev_flush(sp->pool.devs[i].dev), 0);
	}
	return sp;
}

static uint32_t take(struct simpool *sp, uint64_t txg, uint64_t chunk)
{
	struct txg_sync s = {.pool = &sp->pool, .txg = txg};
	struct slab_entry entry = {
	    .chunk = chunk, .generation = 1000 + chunk, .profile = 3, .column = 1};
	uint32_t slab;

	assert_int_equal(slab_take(&sp->pool.devs[0], &s, &entry, &slab), 0);
	return slab;
}

static void release(struct simpool *sp, uint64_t txg, uint32_t slab)
{
	slab_release(&sp->pool.devs[0], &(struct txg_sync){.pool = &sp->pool, .txg = txg}, slab);
}

static int sync_slabs(struct simpool *sp, uint64_t txg)
{
	return slab_sync(&(struct txg_sync){.pool = &sp->pool, .txg = txg});
}

static void commit(struct simpool *sp, uint64_t txg)
{
	assert_int_equal(sync_slabs(sp, txg), 0);
	assert_int_equal(pool_flush_all(&sp->pool), 0);
	sp->pool.uber.txg = txg;
}

/* What a table holds, by slab. */
struct found {
	uint64_t chunk[64], generation[64], txg[64];
};

static int note(void *arg, struct pool_dev *dev, uint32_t slab, const struct slab_entry *entry)
{
	struct found *f = arg;

	(void)dev;
	assert_true(slab < dev->slab_count);
	f->chunk[slab] = entry->chunk;
	f->generation[slab] = entry->generation;
	f->txg[slab] = entry->txg;
	return 0;
}

/* Loads the table of a medium into `dev`, a copy of the pool's device. */
static void load(struct simpool *sp, struct sim *sim, struct pool_dev *dev)
{
	struct dev *opened;

	memcpy(dev, &sp->pool.devs[0], sizeof(*dev));
	dev->slabs = NULL;
	assert_int_equal(sim_open(sim, DEV_OPEN_RDONLY, &opened), 0);
	dev->dev = opened;
	assert_int_equal(slab_table_load(&sp->pool, dev), 0);
}

static void unload(struct pool_dev *dev)
{
	slab_table_free(dev);
	dev_close(dev->dev);
}

static struct found read_table(struct simpool *sp, struct sim *sim)
{
	struct found found = {0};
	struct pool_dev dev;

	load(sp, sim, &dev);
	assert_int_equal(slab_each(&dev, note, &found), 0);
	unload(&dev);
	return found;
}

static struct found after_cut(struct simpool *sp)
{
	struct sim *cut = sim_cut(sp->sims[0], SIM_CUT_NONE, 0, 0);
	struct found found = read_table(sp, cut);

	sim_destroy(cut);
	return found;
}

static void test_round_trip(void **state)
{
	struct simpool *sp = new_tables(0, 1);
	struct found found;
	uint32_t a, b;

	(void)state;
	assert_int_equal(slab_free_count(&sp->pool.devs[0]), 15);
	a = take(sp, 1, 11);
	b = take(sp, 1, 12);
	assert_int_not_equal(a, b);
	assert_int_equal(slab_free_count(&sp->pool.devs[0]), 13);
	commit(sp, 1);
	found = after_cut(sp);
	assert_int_equal(found.chunk[a], 11);
	assert_int_equal(found.generation[a], 1011);
	assert_int_equal(found.txg[a], 1);
	assert_int_equal(found.chunk[b], 12);
	simpool_free(sp);
}

static void test_full(void **state)
{
	struct simpool *sp = new_tables(0, 1);
	struct txg_sync s = {.pool = &sp->pool, .txg = 1};
	struct slab_entry entry = {.chunk = 99, .generation = 1};
	bool seen[15] = {0};
	uint32_t slab;

	(void)state;
	for (unsigned i = 0; i < 15; i++) {
		slab = take(sp, 1, 1 + i);
		assert_true(slab < 15 && !seen[slab]);
		seen[slab] = true;
	}
	assert_int_equal(slab_take(&sp->pool.devs[0], &s, &entry, &slab), -ENOSPC);
	assert_int_equal(slab_free_count(&sp->pool.devs[0]), 0);
	simpool_free(sp);
}

/* A released slab keeps its entry, and its data, for TXG_KEEP uberblocks. */
static void test_release(void **state)
{
	struct simpool *sp = new_tables(0, 1);
	uint32_t slab = take(sp, 1, 11);

	(void)state;
	commit(sp, 1);
	release(sp, 2, slab);
	for (uint64_t txg = 2; txg < 2 + TXG_KEEP; txg++) {
		assert_int_equal(slab_free_count(&sp->pool.devs[0]), 14);
		commit(sp, txg);
		assert_int_equal(after_cut(sp).chunk[slab], 11);
	}
	commit(sp, 2 + TXG_KEEP);
	assert_int_equal(slab_free_count(&sp->pool.devs[0]), 15);
	assert_int_equal(after_cut(sp).chunk[slab], 0);
	simpool_free(sp);
}

static void test_discard(void **state)
{
	struct simpool *sp = new_tables(0, 1);
	struct pool_dev *dev = &sp->pool.devs[0];
	uint32_t old = take(sp, 1, 11), abandoned;

	(void)state;
	commit(sp, 1);
	abandoned = take(sp, 2, 12);
	commit(sp, 2);
	/* Import at txg 1; neither entry is in the list. */
	sp->pool.uber.txg = 1;
	sp->pool.first_txg = 10;
	slab_table_free(dev);
	assert_int_equal(slab_table_load(&sp->pool, dev), 0);
	assert_int_equal(slab_free_count(dev), 13);
	slab_discard(dev, old);
	slab_discard(dev, abandoned);
	assert_int_equal(slab_free_count(dev), 14);
	commit(sp, 10);
	assert_int_equal(after_cut(sp).chunk[abandoned], 0);
	assert_int_equal(after_cut(sp).chunk[old], 11);
	commit(sp, 11);
	commit(sp, 12);
	assert_int_equal(slab_free_count(dev), 14);
	commit(sp, 13);
	assert_int_equal(slab_free_count(dev), 15);
	assert_int_equal(after_cut(sp).chunk[old], 0);
	simpool_free(sp);
}

static void test_missing_and_faulted(void **state)
{
	struct simpool *sp = new_tables(2, 0);
	struct pool_dev gone = {.state = TARN_DEV_MISSING};
	struct txg_sync s = {.pool = &sp->pool, .txg = 1};
	struct slab_entry entry = {.chunk = 9, .generation = 1};
	uint32_t slab;

	(void)state;
	assert_int_equal(slab_table_load(&sp->pool, &gone), 0);
	assert_int_equal(slab_free_count(&gone), 0);
	assert_int_equal(slab_take(&gone, &s, &entry, &slab), -ENXIO);
	slab_release(&gone, &s, 3);

	slab = take(sp, 1, 11);
	assert_int_equal(slab_take(&sp->pool.devs[1], &s, &entry, &slab), 0);
	sim_fail(sp->sims[0], DEV_WRITE, 0, SIM_SIZE, -EIO, 1);
	assert_int_equal(sync_slabs(sp, 1), 0);
	assert_int_equal(sp->pool.devs[0].state, TARN_DEV_FAULTED);
	assert_int_equal(slab_free_count(&sp->pool.devs[0]), 0);
	assert_int_equal(slab_take(&sp->pool.devs[0], &s, &entry, &slab), -ENXIO);
	commit(sp, 2);
	/* It comes back: all is written again, and it is whole after that. */
	atomic_store(&sp->pool.devs[0].state, TARN_DEV_ONLINE);
	slab_table_dirty(&sp->pool.devs[0]);
	commit(sp, 3);
	assert_int_equal(after_cut(sp).chunk[0], 11);

	sim_fail(sp->sims[0], DEV_WRITE, 0, SIM_SIZE, -EIO, 1);
	sim_fail(sp->sims[1], DEV_WRITE, 0, SIM_SIZE, -EIO, 1);
	slab_table_dirty(&sp->pool.devs[0]);
	slab_table_dirty(&sp->pool.devs[1]);
	assert_int_equal(sync_slabs(sp, 4), -EIO);
	simpool_free(sp);
}

static void test_damage(void **state)
{
	struct simpool *sp = new_tables(0, 1);

	(void)state;
	take(sp, 1, 11);
	commit(sp, 1);
	commit(sp, 2); /* the other copy follows */
	for (unsigned copy = 0; copy < 2; copy++) {
		for (unsigned at = 0; at < SECTOR_SIZE; at += at < 128 ? 1 : 31) {
			sim_flip(sp->sims[0], TABLE(copy) + at, 0x08);
			assert_int_equal(after_cut(sp).chunk[0], 11);
			sim_flip(sp->sims[0], TABLE(copy) + at, 0x08);
		}
		sim_fail(sp->sims[0], DEV_READ, TABLE(copy), SECTOR_SIZE, -EIO, 0);
		slab_table_free(&sp->pool.devs[0]);
		assert_int_equal(slab_table_load(&sp->pool, &sp->pool.devs[0]), 0);
		assert_int_equal(slab_free_count(&sp->pool.devs[0]), 14);
		sim_fail(sp->sims[0], DEV_READ, 0, SIM_SIZE, 0, 0);
	}
	/* Both gone: empty, and usable again. */
	sim_flip(sp->sims[0], TABLE(0) + 100, 1);
	sim_flip(sp->sims[0], TABLE(1) + 100, 1);
	slab_table_free(&sp->pool.devs[0]);
	assert_int_equal(slab_table_load(&sp->pool, &sp->pool.devs[0]), 0);
	assert_int_equal(slab_free_count(&sp->pool.devs[0]), 15);
	take(sp, 3, 13);
	commit(sp, 3);
	assert_int_equal(after_cut(sp).chunk[0], 13);
	simpool_free(sp);
}

/* A damaged copy found at import is made good by the next sync. */
static void test_repair(void **state)
{
	struct simpool *sp = new_tables(0, 1);
	struct slab_page page;

	(void)state;
	take(sp, 1, 11);
	commit(sp, 1);
	commit(sp, 2);
	for (unsigned copy = 0; copy < 2; copy++) {
		sim_flip(sp->sims[0], TABLE(copy) + 500, 0xff);
		slab_table_free(&sp->pool.devs[0]);
		assert_int_equal(slab_table_load(&sp->pool, &sp->pool.devs[0]), 0);
		commit(sp, 3 + copy);
		sim_peek(sp->sims[0], TABLE(copy), &page, sizeof(page));
		assert_true(slab_page_valid(&page, 100, 0));
		assert_int_equal(page.entries[0].chunk, 11);
	}
	simpool_free(sp);
}

static void test_fuzz(void **state)
{
	struct simpool *sp = new_tables(0, 1);
	uint64_t seed = test_seed();
	struct slab_page good, page;

	(void)state;
	take(sp, 1, 11);
	commit(sp, 1);
	commit(sp, 2);
	sim_peek(sp->sims[0], TABLE(0), &good, sizeof(good));
	assert_true(slab_page_valid(&good, 100, 0));
	assert_false(slab_page_valid(&good, 101, 0));
	assert_false(slab_page_valid(&good, 100, 1));
	for (int round = 0; round < 2000; round++) {
		page = good;
		for (uint64_t n = 1 + test_random(&seed) % 5; n; n--)
			((uint8_t *)&page)[test_random(&seed) % (n & 1 ? 200 : 4096)] ^=
			    1 + test_random(&seed) % 255;
		if (memcmp(&page, &good, sizeof(page)))
			assert_false(slab_page_valid(&page, 100, 0));
		disk_seal(&page.head, SLAB_MAGIC, sizeof(page));
		sim_poke(sp->sims[0], TABLE(round & 1), &page, sizeof(page));
		read_table(sp, sp->sims[0]);
		sim_poke(sp->sims[0], TABLE(round & 1), &good, sizeof(good));
	}
	simpool_free(sp);
}

/*
 * Random takes and releases; at random points of each sync a power cut of any kind. What the last
 * durable uberblock knew, and the TXG_KEEP - 1 before it, must be found after each.
 */
struct history {
	struct found at[256]; /* by txg: what the list of live chunks would say */
	uint64_t committed;
};

static void check_history(struct simpool *sp, const struct history *h, struct sim *cut)
{
	struct found found = read_table(sp, cut);

	for (unsigned back = 0; back < TXG_KEEP && back < h->committed; back++) {
		const struct found *want = &h->at[h->committed - back];

		for (unsigned slab = 0; slab < 15; slab++) {
			if (!want->chunk[slab])
				continue;
			assert_int_equal(found.chunk[slab], want->chunk[slab]);
			assert_int_equal(found.generation[slab], want->generation[slab]);
		}
	}
	sim_destroy(cut);
}

static void check_cuts(struct simpool *sp, const struct history *h, uint64_t *seed)
{
	struct sim *sim = sp->sims[0];

	check_history(sp, h, sim_cut(sim, SIM_CUT_NONE, 0, 0));
	check_history(sp, h, sim_cut(sim, SIM_CUT_ALL, 0, 0));
	for (int i = 0; i < 6; i++)
		check_history(sp, h, sim_cut(sim, SIM_CUT_RANDOM, test_random(seed), 0));
}

/* One sector torn in the middle, as 512-byte media do it. */
static void check_torn_sector(struct simpool *sp, const struct history *h, const uint8_t *before,
			      uint64_t *seed)
{
	struct sim *cut = sim_cut(sp->sims[0], SIM_CUT_ALL, 0, 0);
	uint8_t after[2 * SECTOR_SIZE];
	size_t keep = 512 * (1 + test_random(seed) % 7);

	sim_peek(cut, TABLE(0), after, sizeof(after));
	for (unsigned copy = 0; copy < 2; copy++)
		memcpy(after + copy * SECTOR_SIZE + keep, before + copy * SECTOR_SIZE + keep,
		       SECTOR_SIZE - keep);
	sim_poke(cut, TABLE(0), after, sizeof(after));
	check_history(sp, h, cut);
}

static void change(struct simpool *sp, struct found *now, uint64_t txg, uint64_t *next_chunk,
		   uint64_t *seed)
{
	for (uint64_t n = test_random(seed) % 4; n; n--) {
		uint32_t slab = test_random(seed) % 15;

		if (now->chunk[slab]) {
			release(sp, txg, slab);
			now->chunk[slab] = 0;
		} else if (slab_free_count(&sp->pool.devs[0])) {
			slab = take(sp, txg, *next_chunk);
			now->chunk[slab] = *next_chunk;
			now->generation[slab] = 1000 + (*next_chunk)++;
		}
	}
}

static void test_power_cuts(void **state)
{
	struct simpool *sp = new_tables(0, 1);
	struct history *h = calloc(1, sizeof(*h));
	uint64_t seed = test_seed(), next_chunk = 1;
	struct found now = {0};

	(void)state;
	for (uint64_t txg = 1; txg < 250; txg++) {
		uint8_t before[2 * SECTOR_SIZE];
		unsigned passes = 1 + test_random(&seed) % 2;

		sim_peek(sp->sims[0], TABLE(0), before, sizeof(before));
		for (unsigned pass = 0; pass < passes; pass++) {
			change(sp, &now, txg, &next_chunk, &seed);
			assert_int_equal(sync_slabs(sp, txg), 0);
			check_cuts(sp, h, &seed);
			check_torn_sector(sp, h, before, &seed);
		}
		assert_int_equal(pool_flush_all(&sp->pool), 0);
		h->at[txg] = now;
		h->committed = txg;
		sp->pool.uber.txg = txg;
		check_cuts(sp, h, &seed);
	}
	free(h);
	simpool_free(sp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_round_trip), cmocka_unit_test(test_full),
	    cmocka_unit_test(test_release),    cmocka_unit_test(test_discard),
	    cmocka_unit_test(test_damage),     cmocka_unit_test(test_missing_and_faulted),
	    cmocka_unit_test(test_repair),     cmocka_unit_test(test_fuzz),
	    cmocka_unit_test(test_power_cuts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
