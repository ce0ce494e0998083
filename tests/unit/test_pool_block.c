// SPDX-License-Identifier: LGPL-3.0-or-later
/* The block pipeline: what is written comes back, from whichever copy is left, or not at all. */
#include "pool_rig.h"

static const unsigned single[] = {1, 0}, mirror[] = {2, 0}, mirror3[] = {3, 0};

#define SIZE (128ull << 20)

static void test_round_trips(void **state)
{
	static const uint32_t sizes[] = {1, 511, 4095, 4096, 4097, 65536, 100001, 1u << 20};
	struct rig *r = rig_create(mirror, SIZE);
	unsigned n = 0;

	(void)state;
	for (unsigned comp = 0; comp < COMP_TYPES; comp++) {
		for (unsigned cksum = CKSUM_XXH3; cksum < CKSUM_TYPES; cksum++) {
			for (unsigned k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
				struct rig_block b = {.seed = n + 1,
						      .lsize = sizes[k],
						      .comp = (uint8_t)comp,
						      .cksum = (uint8_t)cksum,
						      .class = n % 2};

				assert_int_equal(rig_write(r, n++, &b), 0);
			}
		}
	}
	assert_int_equal(rig_commit(r), 0);
	rig_check(r);
	for (unsigned i = 0; i < n; i++) {
		const struct bp *bp = &r->open[i].bp;

		assert_true(bp_valid(bp, r->pool->uber.txg));
		assert_int_equal(bp->lsize, r->open[i].lsize);
		/* Seven eighths of the content are runs: it pays where there is a sector to save.
		 */
		assert_int_equal(bp->comp, bp->lsize > 4097    ? r->open[i].comp
					   : bp->lsize == 4097 ? r->open[i].comp
							       : COMP_OFF);
	}
	rig_free(r);
}

static void test_codec(void **state)
{
	uint8_t src[8192], dst[8192], back[8192], sum[32];
	/* From `printf abc | sha256sum` and `printf abc | xxh128sum`. */
	static const uint8_t sha[32] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea,
					0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23,
					0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c,
					0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
	static const uint8_t xxh[16] = {0x06, 0xb0, 0x5a, 0xb6, 0x73, 0x3a, 0x61, 0x85,
					0x78, 0xaf, 0x5f, 0x94, 0x89, 0x2f, 0x39, 0x50};
	uint64_t seed = rig_seed();
	uint32_t n;

	(void)state;
	block_checksum(CKSUM_SHA256, "abc", 3, sum);
	assert_memory_equal(sum, sha, 32);
	block_checksum(CKSUM_XXH3, "abc", 3, sum);
	assert_memory_equal(sum, xxh, 16);
	for (unsigned i = 16; i < 32; i++)
		assert_int_equal(sum[i], 0);

	memset(src, 7, sizeof(src));
	for (enum bp_comp comp = COMP_LZ4; comp < COMP_TYPES; comp++) {
		n = block_compress(comp, 3, src, sizeof(src), dst, sizeof(dst));
		assert_in_range(n, 1, 4096);
		assert_int_equal(block_decompress(comp, dst, n, back, sizeof(back)), 0);
		assert_memory_equal(src, back, sizeof(src));
		/* Exactly the logical length, neither more nor less. */
		assert_int_equal(block_decompress(comp, dst, n, back, sizeof(back) - 1), -EIO);
		assert_int_equal(block_decompress(comp, dst, n - 1, back, sizeof(back)), -EIO);
		assert_int_equal(block_compress(comp, 3, src, 4096, dst, sizeof(dst)), 0);
	}
	for (unsigned i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)rig_random(&seed);
	assert_int_equal(block_compress(COMP_LZ4, 0, src, sizeof(src), dst, sizeof(dst)), 0);
	assert_int_equal(block_compress(COMP_ZSTD, 3, src, sizeof(src), dst, sizeof(dst)), 0);
	for (unsigned round = 0; round < 1000; round++) {
		for (unsigned i = 0; i < 64; i++)
			src[i] = (uint8_t)rig_random(&seed);
		block_decompress(1 + round % 2, src, 64, back, sizeof(back));
	}
}

/* Where a column of the block lies. */
static uint64_t place(struct rig *r, const struct bp *bp, unsigned col, unsigned *dev)
{
	struct chunk *c = chunk_find(r->pool, bp->chunk);

	*dev = c->cols[col].dev;
	return chunk_offset(r->pool, c, col, bp->sector);
}

static void damage(struct rig *r, const struct bp *bp, unsigned col, uint64_t at)
{
	unsigned dev;
	uint64_t offset = place(r, bp, col, &dev);

	sim_flip(r->sims[dev], offset + at, 0x10);
}

static void assert_on_medium(struct rig *r, const struct bp *bp, unsigned col, uint64_t seed)
{
	uint8_t *want = rig_content(seed, bp->lsize), *have = malloc(bp->lsize);
	unsigned dev;
	uint64_t offset = place(r, bp, col, &dev);

	sim_peek(r->sims[dev], offset, have, bp->lsize);
	assert_memory_equal(have, want, bp->lsize);
	free(want);
	free(have);
}

static unsigned long checksum_errors(const struct rig *r)
{
	unsigned long n = 0;

	for (uint32_t i = 0; i < r->pool->ndevs; i++)
		n += atomic_load(&r->pool->devs[i].checksum_errors);
	return n;
}

static struct rig *one_block(const unsigned *layout, enum block_class class)
{
	struct rig *r = rig_create(layout, SIZE);
	struct rig_block b = {.seed = 42, .lsize = 30000, .cksum = CKSUM_XXH3, .class = class};

	assert_int_equal(rig_write(r, 0, &b), 0);
	assert_int_equal(rig_commit(r), 0);
	return r;
}

/* Whichever copies are bad, as long as one is good: right data, and all copies good again. */
static void repaired(const unsigned *layout, enum block_class class, unsigned ncols)
{
	for (unsigned mask = 0; mask < (1u << ncols) - 1; mask++) {
		struct rig *r = one_block(layout, class);
		const struct bp *bp = &r->open[0].bp;

		for (unsigned i = 0; i < ncols; i++) {
			if (mask & 1u << i)
				damage(r, bp, i, 29999);
		}
		/* Until no read meets a bad copy; reads begin at the same one each time. */
		assert_int_equal(rig_read(r, bp, 42), 0);
		if (checksum_errors(r)) {
			assert_int_equal(checksum_errors(r) <= (unsigned)__builtin_popcount(mask),
					 1);
			for (unsigned i = 0, n = 0; i < ncols && n < checksum_errors(r); i++) {
				if (!(mask & 1u << i))
					continue;
				assert_on_medium(r, bp, i, 42);
				n++;
			}
		} else {
			assert_false(mask & 1);
		}
		assert_int_equal(atomic_load(&r->pool->data_errors), 0);
		rig_free(r);
	}
}

static void test_repair(void **state)
{
	(void)state;
	repaired(mirror, BLOCK_DATA, 2);
	repaired(mirror3, BLOCK_DATA, 3);
	repaired(single, BLOCK_META, 2);
}

/* The two copies on one device are not neighbours. */
static void test_dup_far_apart(void **state)
{
	struct rig *r = one_block(single, BLOCK_META);
	unsigned dev;
	uint64_t a = place(r, &r->open[0].bp, 0, &dev), b = place(r, &r->open[0].bp, 1, &dev);

	(void)state;
	assert_true((a > b ? a - b : b - a) >= SIZE / 4);
	rig_free(r);
}

static void test_no_good_copy(void **state)
{
	struct rig *r = one_block(mirror, BLOCK_DATA);

	(void)state;
	damage(r, &r->open[0].bp, 0, 5);
	damage(r, &r->open[0].bp, 1, 6);
	assert_int_equal(rig_read(r, &r->open[0].bp, 42), -EIO);
	assert_int_equal(atomic_load(&r->pool->data_errors), 1);
	assert_int_equal(checksum_errors(r), 2);
	rig_free(r);

	r = one_block(single, BLOCK_DATA);
	damage(r, &r->open[0].bp, 0, 0);
	assert_int_equal(rig_read(r, &r->open[0].bp, 42), -EIO);
	rig_free(r);
}

/* A read error is no worse than a wrong checksum. */
static void test_read_error(void **state)
{
	struct rig *r = one_block(mirror, BLOCK_DATA);
	const struct bp *bp = &r->open[0].bp;
	unsigned dev;

	(void)state;
	for (unsigned col = 0; col < 2; col++) {
		uint64_t offset = place(r, bp, col, &dev);

		sim_fail(r->sims[dev], DEV_READ, offset, SECTOR_SIZE, -ENODATA, 0);
		assert_int_equal(rig_read(r, bp, 42), 0);
		sim_fail(r->sims[dev], DEV_READ, 0, 0, 0, 0);
	}
	assert_int_equal(atomic_load(&r->pool->devs[0].read_errors) +
			     atomic_load(&r->pool->devs[1].read_errors),
			 1);
	rig_free(r);
}

/* A bp that names nothing there is. */
static void test_wild_bp(void **state)
{
	struct rig *r = one_block(mirror, BLOCK_DATA);
	struct bp bp = r->open[0].bp;

	(void)state;
	bp.chunk = 999999;
	assert_int_equal(rig_read(r, &bp, 42), -EIO);
	bp = r->open[0].bp;
	bp.sector = CHUNK_SECTORS_MAX;
	assert_int_equal(rig_read(r, &bp, 42), -EIO);
	rig_free(r);
}

/* ---- failures of writes ---- */

static unsigned stale_columns(struct rig *r, uint32_t dev)
{
	unsigned n = 0;

	for (size_t i = 0; i < r->nrecords; i++) {
		const struct chunk_record *rec = (const struct chunk_record *)r->records[i].bytes;

		for (unsigned k = 0; k < rec->ncols; k++)
			n += rec->cols[k].dev == dev && rec->cols[k].stale;
	}
	return n;
}

static struct rig *reopen(struct rig *r, unsigned without)
{
	struct sim *sims[RIG_DEVS];
	struct rig *next;
	int rc;

	for (unsigned i = 0; i < r->nsims; i++)
		sims[i] = without & 1u << i ? NULL : sim_cut(r->sims[i], SIM_CUT_NONE, 0, 0);
	next = rig_open(sims, r->nsims, r->pool->guid, 0, &rc);
	assert_int_equal(rc, 0);
	rig_free(r);
	return next;
}

/* One bad spot on one side of a mirror: that column is stale from the same txg on, nothing reads
   it, and nothing is lost. */
static void test_mirror_write_fails(void **state)
{
	struct rig *r = one_block(mirror, BLOCK_DATA);
	unsigned dev;
	uint64_t slab = place(r, &r->open[0].bp, 1, &dev);

	(void)state;
	sim_fail(r->sims[dev], DEV_WRITE, slab, 4 << 20, -EIO, 3);
	for (unsigned i = 1; i < 20; i++)
		assert_int_equal(rig_put_block(r, i, i, 20000), 0);
	assert_int_equal(rig_commit(r), 0);
	assert_in_range(atomic_load(&r->pool->devs[dev].write_errors), 1, 3);
	assert_int_equal(stale_columns(r, dev), 1);
	assert_int_equal(stale_columns(r, !dev), 0);
	rig_check(r);
	r = reopen(r, 0);
	assert_int_equal(stale_columns(r, dev), 1);
	rig_check(r);
	assert_int_equal(checksum_errors(r), 0);
	rig_free(r);
}

/* No copy could be written: the client hears of it and writes the block elsewhere. */
static void test_all_fail_then_elsewhere(void **state)
{
	struct rig *r = one_block(single, BLOCK_DATA);
	unsigned dev;
	uint64_t slab = place(r, &r->open[0].bp, 0, &dev);

	(void)state;
	sim_fail(r->sims[dev], DEV_WRITE, slab, 4 << 20, -EIO, 2);
	for (unsigned i = 1; i < 6; i++)
		assert_int_equal(rig_put_block(r, i, i, 20000), 0);
	assert_int_equal(rig_commit(r), 0);
	assert_true(r->passes > 1);
	rig_check(r);
	r = reopen(r, 0);
	rig_check(r);
	rig_free(r);
}

static void test_device_gone(void **state)
{
	struct rig *r = one_block(mirror, BLOCK_DATA);

	(void)state;
	sim_gone(r->sims[1], true);
	for (unsigned txg = 0; txg < 5; txg++) {
		for (unsigned i = 0; i < 10; i++) {
			unsigned at = 1 + txg * 10 + i;

			assert_int_equal(rig_put_block(r, at, at, 50000), 0);
		}
		assert_int_equal(rig_commit(r), 0);
		rig_check(r);
	}
	assert_int_equal(atomic_load(&r->pool->devs[1].state), TARN_DEV_FAULTED);
	assert_true(stale_columns(r, 1) > 0);
	assert_int_equal(stale_columns(r, 0), 0);
	/* Without it. */
	r = reopen(r, 2);
	rig_check(r);
	rig_start(r);
	assert_int_equal(rig_put_block(r, 99, 99, 50000), 0);
	assert_int_equal(rig_commit(r), 0);
	rig_check(r);
	rig_free(r);
}

/* The device that was away comes back: its stale columns are not read. */
static void test_device_returns(void **state)
{
	struct rig *r = one_block(mirror, BLOCK_DATA);

	(void)state;
	sim_gone(r->sims[1], true);
	for (unsigned i = 1; i < 40; i++)
		assert_int_equal(rig_put_block(r, i, i, 50000), 0);
	assert_int_equal(rig_commit(r), 0);
	sim_gone(r->sims[1], false);
	r = reopen(r, 0);
	rig_check(r);
	rig_start(r);
	for (unsigned i = 40; i < 60; i++)
		assert_int_equal(rig_put_block(r, i, i, 50000), 0);
	assert_int_equal(rig_commit(r), 0);
	rig_check(r);
	assert_int_equal(checksum_errors(r), 0);
	r = reopen(r, 0);
	rig_check(r);
	assert_int_equal(checksum_errors(r), 0);
	rig_free(r);
}

/* What was written before a failed flush is not trusted. */
static void test_flush_fails(void **state)
{
	struct rig *r = one_block(mirror, BLOCK_DATA);

	(void)state;
	sim_fail(r->sims[1], DEV_FLUSH, 0, SIZE, -EIO, 1);
	for (unsigned i = 1; i < 20; i++)
		assert_int_equal(rig_put_block(r, i, i, 50000), 0);
	assert_int_equal(rig_commit(r), 0);
	assert_int_equal(atomic_load(&r->pool->devs[1].state), TARN_DEV_FAULTED);
	assert_true(stale_columns(r, 1) > 0);
	rig_check(r);
	r = reopen(r, 0);
	rig_check(r);
	assert_int_equal(checksum_errors(r), 0);
	rig_free(r);
}

/* A pool that cannot commit: waiters hear of it, nothing more begins, reads go on. */
static void test_suspended(void **state)
{
	struct rig *r = one_block(single, BLOCK_DATA);
	struct tx tx;

	(void)state;
	sim_fail(r->sims[0], DEV_WRITE, 0, SIZE, -EIO, 0);
	assert_int_equal(rig_put_block(r, 1, 1, 50000), 0);
	assert_int_equal(rig_commit(r), -EIO);
	assert_true(atomic_load(&r->pool->suspended));
	assert_int_equal(tx_begin(r->pool, 4096, TX_NORMAL, &tx), -ENXIO);
	assert_int_equal(tx_try_begin(r->pool, 4096, TX_NORMAL, &tx), -ENXIO);
	assert_int_equal(rig_read(r, &r->open[0].bp, 42), 0);
	assert_int_equal(rig_close(r), -EIO);
	rig_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_round_trips),
	    cmocka_unit_test(test_codec),
	    cmocka_unit_test(test_repair),
	    cmocka_unit_test(test_dup_far_apart),
	    cmocka_unit_test(test_no_good_copy),
	    cmocka_unit_test(test_read_error),
	    cmocka_unit_test(test_wild_bp),
	    cmocka_unit_test(test_mirror_write_fails),
	    cmocka_unit_test(test_all_fail_then_elsewhere),
	    cmocka_unit_test(test_device_gone),
	    cmocka_unit_test(test_device_returns),
	    cmocka_unit_test(test_flush_fails),
	    cmocka_unit_test(test_suspended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
