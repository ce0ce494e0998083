// SPDX-License-Identifier: LGPL-3.0-or-later
/* Parity: the code itself, and pools whose devices lie, fail and go, up to as many as it allows. */
#include "pool/parity.h"
#include "pool_rig.h"

/* ---- the code ---- */

/* GF(256) by the polynomial 0x11d, bit by bit. */
static uint8_t gf_times(uint8_t a, uint8_t b)
{
	uint8_t product = 0;

	for (; b; b >>= 1) {
		if (b & 1)
			product ^= a;
		a = (uint8_t)(a << 1 ^ (a & 0x80 ? 0x1d : 0));
	}
	return product;
}

static uint8_t gf_inverse(uint8_t a)
{
	for (unsigned b = 1; b < 256; b++) {
		if (gf_times(a, (uint8_t)b) == 1)
			return (uint8_t)b;
	}
	return 0;
}

struct sample {
	struct stripe st;
	uint8_t *truth, *raw, *fixed;
	size_t col;
};

static bool same_block(const void *arg, const void *block)
{
	const struct sample *s = arg;

	return !memcmp(s->truth, block, s->st.bytes);
}

static struct sample sample_new(unsigned data, unsigned parity, uint32_t bytes, uint64_t *seed)
{
	struct sample s = {.st = stripe_make(data, parity, bytes)};
	const void *cols[PARITY_COLS_MAX];
	size_t sectors = (bytes + SECTOR_SIZE - 1) / SECTOR_SIZE;
	uint8_t *block = dev_buf_alloc(sectors * SECTOR_SIZE);
	void *own;

	s.col = stripe_col_bytes(&s.st);
	assert_int_equal(s.st.rows, (sectors + data - 1) / data);
	memset(block, 0, sectors * SECTOR_SIZE);
	for (uint32_t i = 0; i < bytes; i++)
		block[i] = (uint8_t)(rig_random(seed) >> 24);
	s.truth = dev_buf_alloc(stripe_cols(&s.st) * s.col);
	s.raw = dev_buf_alloc(stripe_cols(&s.st) * s.col);
	s.fixed = dev_buf_alloc(stripe_cols(&s.st) * s.col);
	own = stripe_split(&s.st, block, cols);
	assert_non_null(own);
	for (unsigned i = 0; i < stripe_cols(&s.st); i++)
		memcpy(s.truth + i * s.col, cols[i], s.col);
	assert_memory_equal(s.truth, block, sectors * SECTOR_SIZE);
	for (size_t i = sectors * SECTOR_SIZE; i < data * s.col; i++)
		assert_int_equal(s.truth[i], 0);
	free(own);
	free(block);
	return s;
}

static void sample_free(struct sample *s)
{
	free(s->truth);
	free(s->raw);
	free(s->fixed);
}

/* Parity row i is the sum of the data times 1 / (i ^ j), as docs/format.md says. */
static void test_code(void **state)
{
	uint64_t seed = rig_seed();

	(void)state;
	for (unsigned parity = 1; parity <= 3; parity++) {
		for (unsigned data = 1; data <= 9; data += 2) {
			struct sample s = sample_new(data, parity, 5 * SECTOR_SIZE + 77, &seed);

			for (unsigned p = data; p < data + parity; p++) {
				for (size_t at = 0; at < s.col; at += 61) {
					uint8_t sum = 0;

					for (unsigned j = 0; j < data; j++)
						sum ^= gf_times(gf_inverse((uint8_t)(p ^ j)),
								s.truth[j * s.col + at]);
					assert_int_equal(s.truth[p * s.col + at], sum);
				}
			}
			sample_free(&s);
		}
	}
}

/* Columns of `gone` are not there, those of `lie` are wrong in one byte. */
static void spoil(struct sample *s, uint32_t gone, uint32_t lie, uint64_t *seed)
{
	memcpy(s->raw, s->truth, stripe_cols(&s->st) * s->col);
	for (unsigned i = 0; i < stripe_cols(&s->st); i++) {
		uint8_t *col = s->raw + i * s->col;

		if (gone & 1u << i)
			memset(col, 0xee, s->col);
		else if (lie & 1u << i)
			col[rig_random(seed) % s->col] ^= 1u << rig_random(seed) % 8;
	}
}

/* Every way in which columns can be gone or lie. */
static void all_losses(unsigned data, unsigned parity, uint32_t bytes, uint64_t *seed)
{
	struct sample s = sample_new(data, parity, bytes, seed);
	uint32_t all = (1u << (data + parity)) - 1;

	for (uint32_t gone = 0; gone <= all; gone++) {
		for (uint32_t lie = 0; lie <= all; lie++) {
			uint32_t wrong = 0;

			if (gone & lie || (unsigned)__builtin_popcount(gone | lie) > parity)
				continue;
			spoil(&s, gone, lie, seed);
			assert_true(stripe_solve(&s.st, s.raw, all & ~gone, same_block, &s, s.fixed,
						 &wrong));
			assert_int_equal(wrong, lie);
			assert_memory_equal(s.fixed, s.truth, stripe_cols(&s.st) * s.col);
		}
	}
	sample_free(&s);
}

static void test_losses(void **state)
{
	uint64_t seed = rig_seed();

	(void)state;
	for (unsigned parity = 1; parity <= 3; parity++) {
		for (unsigned data = 1; data <= 5; data++) {
			all_losses(data, parity, 1, &seed);
			all_losses(data, parity, data * SECTOR_SIZE, &seed);
			all_losses(data, parity, data * SECTOR_SIZE + 1, &seed);
			all_losses(data, parity, (2 * data - 1) * SECTOR_SIZE - 1, &seed);
		}
	}
}

/* One more than there is parity for is never solved; padding is known, so it does not count. */
static void test_too_many(void **state)
{
	uint64_t seed = rig_seed();

	(void)state;
	for (unsigned parity = 1; parity <= 3; parity++) {
		struct sample s = sample_new(4, parity, 7 * SECTOR_SIZE + 5, &seed);
		uint32_t all = (1u << (4 + parity)) - 1, wrong;

		for (uint32_t lie = 0; lie <= all; lie++) {
			if ((unsigned)__builtin_popcount(lie) != parity + 1)
				continue;
			memcpy(s.raw, s.truth, stripe_cols(&s.st) * s.col);
			for (unsigned i = 0; i < 4 + parity; i++) {
				if (lie & 1u << i)
					s.raw[i * s.col] ^= 1;
			}
			assert_false(
			    stripe_solve(&s.st, s.raw, all, same_block, &s, s.fixed, &wrong));
			assert_false(stripe_solve(&s.st, s.raw, all & ~lie, same_block, &s, s.fixed,
						  &wrong));
		}
		sample_free(&s);

		/* Of one sector in four columns, three are padding. */
		s = sample_new(4, parity, 100, &seed);
		spoil(&s, 0, 0x0e | ((1u << (parity - 1)) - 1) << 4, &seed);
		assert_true(stripe_solve(&s.st, s.raw, all, same_block, &s, s.fixed, &wrong));
		assert_int_equal(wrong, 0x0e | ((1u << (parity - 1)) - 1) << 4);
		assert_memory_equal(s.fixed, s.truth, stripe_cols(&s.st) * s.col);
		sample_free(&s);
	}
}

static void test_wide(void **state)
{
	uint64_t seed = rig_seed();

	(void)state;
	for (unsigned parity = 1; parity <= 3; parity++) {
		unsigned data = PARITY_COLS_MAX - parity;
		struct sample s = sample_new(data, parity, BLOCK_MAX, &seed);

		for (unsigned round = 0; round < 8; round++) {
			uint32_t lie = 0, wrong;

			while ((unsigned)__builtin_popcount(lie) < parity)
				lie |= 1u << rig_random(&seed) % PARITY_COLS_MAX;
			spoil(&s, round & 1 ? lie : 0, lie, &seed);
			assert_true(stripe_solve(&s.st, s.raw, round & 1 ? ~lie : UINT32_MAX,
						 same_block, &s, s.fixed, &wrong));
			assert_int_equal(wrong, round & 1 ? 0 : lie);
			assert_memory_equal(s.fixed, s.truth, stripe_cols(&s.st) * s.col);
		}
		sample_free(&s);
	}
}

/* ---- pools ---- */

#define SIZE (96ull << 20)

struct layout {
	unsigned groups[2], parity, ndevs;
};
#define LAYOUT(parity, ndevs)                                                                      \
	{                                                                                          \
		{RIG_RAIDZ(parity, ndevs), 0}, parity, ndevs                                       \
	}

static const struct layout layouts[] = {
    LAYOUT(1, 2), LAYOUT(1, 3), LAYOUT(1, 4), LAYOUT(2, 3),
    LAYOUT(2, 5), LAYOUT(3, 4), LAYOUT(3, 7),
};
/* Sanitizers take several times longer. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NLAYOUTS 5
#define NFULL 1
#else
#define NLAYOUTS (sizeof(layouts) / sizeof(layouts[0]))
#define NFULL 4
#endif

/* One sector to many, none of them whole rows only. */
static const uint32_t sizes[] = {500, 4096, 9000, 30000, 131072, 1048000};
#define NSIZES (sizeof(sizes) / sizeof(sizes[0]))

static void put_all(struct rig *r, unsigned first)
{
	for (unsigned i = 0; i < NSIZES; i++)
		assert_int_equal(rig_put_block(r, first + i, first + i + 1, sizes[i]), 0);
	assert_int_equal(rig_commit(r), 0);
}

static unsigned long errors(const struct rig *r, bool of_reads)
{
	unsigned long n = 0;

	for (uint32_t i = 0; i < r->pool->ndevs; i++)
		n += atomic_load(of_reads ? &r->pool->devs[i].read_errors
					  : &r->pool->devs[i].checksum_errors);
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

/* Where column `col` of the block lies, and how many bytes of it. */
static uint64_t place(struct rig *r, const struct bp *bp, unsigned col, unsigned *dev,
		      uint32_t *bytes)
{
	const struct chunk *c = chunk_find(r->pool, bp->chunk);

	*dev = c->cols[col].dev;
	*bytes = chunk_rows(c, bp_sectors(bp)) << SECTOR_SHIFT;
	return chunk_offset(r->pool, c, col, bp->sector);
}

/* What is cheaper: rows with parity, or as many copies as devices may be lost and one more. */
static void test_shape(void **state)
{
	(void)state;
	for (unsigned l = 0; l < NLAYOUTS; l++) {
		struct rig *r = rig_create(layouts[l].groups, SIZE);
		unsigned parity = layouts[l].parity, data = layouts[l].ndevs - parity;

		put_all(r, 0);
		for (unsigned i = 0; i < NSIZES; i++) {
			const struct chunk *c = chunk_find(r->pool, r->open[i].bp.chunk);
			unsigned n = (sizes[i] + 4095) / 4096;
			unsigned rows = (n + data - 1) / data * (data + parity);

			if (data == 1 || n * (parity + 1) < rows) {
				assert_int_equal(c->profile, PROFILE_MIRROR);
				assert_int_equal(c->ncols, parity + 1);
			} else {
				assert_int_equal(c->profile, PROFILE_PARITY1 + parity - 1);
				assert_int_equal(c->ncols, layouts[l].ndevs);
			}
			for (unsigned a = 0; a < c->ncols; a++) {
				for (unsigned b = 0; b < a; b++)
					assert_int_not_equal(c->cols[a].dev, c->cols[b].dev);
			}
		}
		rig_check(r);
		r = reopen(r, 0);
		rig_check(r);
		rig_free(r);
	}
}

struct columns {
	unsigned n;
	uint8_t *bytes[CHUNK_COLS_MAX];
};

static struct columns peek(struct rig *r, const struct bp *bp)
{
	struct columns c = {.n = chunk_find(r->pool, bp->chunk)->ncols};

	for (unsigned i = 0; i < c.n; i++) {
		unsigned dev;
		uint32_t bytes;
		uint64_t at = place(r, bp, i, &dev, &bytes);

		c.bytes[i] = malloc(bytes);
		sim_peek(r->sims[dev], at, c.bytes[i], bytes);
	}
	return c;
}

static void poke(struct rig *r, const struct bp *bp, const struct columns *c)
{
	for (unsigned i = 0; i < c->n; i++) {
		unsigned dev;
		uint32_t bytes;
		uint64_t at = place(r, bp, i, &dev, &bytes);

		sim_poke(r->sims[dev], at, c->bytes[i], bytes);
	}
}

static void assert_columns(struct rig *r, const struct bp *bp, const struct columns *want)
{
	struct columns have = peek(r, bp);

	for (unsigned i = 0; i < have.n; i++) {
		unsigned dev;
		uint32_t bytes;

		place(r, bp, i, &dev, &bytes);
		assert_memory_equal(have.bytes[i], want->bytes[i], bytes);
		free(have.bytes[i]);
	}
}

static void columns_free(struct columns *c)
{
	for (unsigned i = 0; i < c->n; i++)
		free(c->bytes[i]);
}

static void flip(struct rig *r, const struct bp *bp, uint32_t mask)
{
	for (unsigned i = 0; i < CHUNK_COLS_MAX; i++) {
		unsigned dev;
		uint32_t bytes;

		if (!(mask & 1u << i))
			continue;
		uint64_t at = place(r, bp, i, &dev, &bytes);

		sim_flip(r->sims[dev], at, 0x10);
	}
}

/* Any columns of the block lie: it comes right if the parity allows that, or not at all; and then
   all of them are right again, parity and padding too. A read that is content with the columns it
   needs does not look at others. */
static void lying(struct rig *r, unsigned n)
{
	const struct bp *bp = &r->open[n].bp;
	const struct chunk *c = chunk_find(r->pool, bp->chunk);
	struct stripe st = chunk_stripe(c, bp->psize);
	uint32_t used = (1u << stripe_used_cols(&st)) - 1;
	uint32_t padding = ((1u << st.data) - 1) & ~used;
	struct columns good = peek(r, bp);

	for (uint32_t mask = 1; mask < 1u << c->ncols; mask++) {
		unsigned lies = (unsigned)__builtin_popcount(mask & ~padding);
		unsigned long had = errors(r, false);

		if ((unsigned)__builtin_popcount(mask) > st.parity + 1)
			continue;
		flip(r, bp, mask);
		if (!(mask & used)) {
			assert_int_equal(rig_read(r, bp, n + 1), 0);
			assert_int_equal(errors(r, false), had);
		} else if (lies <= st.parity) {
			assert_int_equal(rig_read(r, bp, n + 1), 0);
			assert_int_equal(errors(r, false), had + __builtin_popcount(mask));
			assert_columns(r, bp, &good);
		} else {
			assert_int_equal(rig_read(r, bp, n + 1), -EIO);
		}
		poke(r, bp, &good);
	}
	columns_free(&good);
}

static void test_lying(void **state)
{
	(void)state;
	for (unsigned l = 0; l < NLAYOUTS; l++) {
		struct rig *r = rig_create(layouts[l].groups, SIZE);

		put_all(r, 0);
		for (unsigned i = 0; i < NSIZES; i++) {
			/* The largest lies as the one before. */
			if (sizes[i] <= 131072 &&
			    chunk_parity(chunk_find(r->pool, r->open[i].bp.chunk)))
				lying(r, i);
		}
		rig_check(r);
		rig_free(r);
	}
}

/* Sectors that cannot be read, in each column in turn: made good by others, and written anew. */
static void test_read_errors(void **state)
{
	(void)state;
	for (unsigned l = 0; l < NLAYOUTS; l++) {
		struct rig *r = rig_create(layouts[l].groups, SIZE);

		put_all(r, 0);
		for (unsigned i = 0; i < NSIZES; i++) {
			const struct bp *bp = &r->open[i].bp;
			const struct chunk *c = chunk_find(r->pool, bp->chunk);
			struct stripe st = chunk_stripe(c, bp->psize);

			for (unsigned col = 0; col < c->ncols; col++) {
				unsigned long had = errors(r, true);
				unsigned dev;
				uint32_t bytes;
				uint64_t at = place(r, bp, col, &dev, &bytes);

				sim_fail(r->sims[dev], DEV_READ, at, SECTOR_SIZE, -ENODATA, 0);
				assert_int_equal(rig_read(r, bp, i + 1), 0);
				if (chunk_parity(c))
					assert_int_equal(errors(r, true) - had,
							 col < stripe_used_cols(&st));
				sim_fail(r->sims[dev], DEV_READ, 0, 0, 0, 0);
				atomic_store(&r->pool->devs[dev].read_errors, 0);
			}
		}
		rig_free(r);
	}
}

/* ---- devices that go ---- */

static void gone(struct rig *r, unsigned mask, bool on)
{
	for (unsigned i = 0; i < r->nsims; i++) {
		if (mask & 1u << i)
			sim_gone(r->sims[i], on);
	}
}

/* Devices go while blocks are written, stay away over an import, and come back behind the times. */
static void go_and_return(const struct layout *layout, unsigned mask)
{
	struct rig *r = rig_create(layout->groups, SIZE);

	put_all(r, 0);
	gone(r, mask, true);
	for (unsigned txg = 1; txg < 4; txg++) {
		put_all(r, txg * 10);
		rig_check(r);
	}
	/* What is old must come without them, what is new too. */
	r = reopen(r, mask);
	rig_check(r);
	rig_start(r);
	put_all(r, 50);
	assert_int_equal(rig_remove(r, 0), 0);
	assert_int_equal(rig_commit(r), 0);
	rig_check(r);
	/* The devices that were away have an old state, which nobody believes. */
	r = reopen(r, mask);
	rig_check(r);
	rig_free(r);
}

static void test_devices_go(void **state)
{
	(void)state;
	for (unsigned l = 0; l < NLAYOUTS; l++) {
		for (unsigned mask = 1; mask < 1u << layouts[l].ndevs; mask++) {
			if ((unsigned)__builtin_popcount(mask) <= layouts[l].parity)
				go_and_return(&layouts[l], mask);
		}
	}
}

static void test_devices_return(void **state)
{
	(void)state;
	for (unsigned l = 0; l < NLAYOUTS; l++) {
		unsigned mask = (1u << layouts[l].parity) - 1;
		struct rig *r = rig_create(layouts[l].groups, SIZE);

		put_all(r, 0);
		gone(r, mask, true);
		put_all(r, 10);
		gone(r, mask, false);
		r = reopen(r, 0);
		rig_check(r);
		rig_start(r);
		put_all(r, 20);
		rig_check(r);
		assert_int_equal(errors(r, false), 0);
		r = reopen(r, 0);
		rig_check(r);
		assert_int_equal(errors(r, false), 0);
		rig_free(r);
	}
}

/* With fewer devices new chunks have fewer columns, and all the parity. */
static void test_narrower(void **state)
{
	static const struct layout layout = LAYOUT(2, 6);
	struct rig *r = rig_create(layout.groups, SIZE);
	const struct chunk *c;

	(void)state;
	put_all(r, 0);
	gone(r, 1, true);
	put_all(r, 10);
	put_all(r, 20);
	c = chunk_find(r->pool, r->open[25].bp.chunk);
	assert_int_equal(c->profile, PROFILE_PARITY2);
	assert_int_equal(c->ncols, 5);
	assert_int_equal(chunk_good_cols(r->pool, c), 5);
	/* So two more may go, of what is new. */
	gone(r, 6, true);
	for (unsigned i = 20; i < 20 + NSIZES; i++)
		assert_int_equal(rig_read(r, &r->open[i].bp, i + 1), 0);
	rig_free(r);
}

/* More than the parity allows: nothing is committed, what cannot be read is an error. */
static void test_too_many_gone(void **state)
{
	static const struct layout layout = LAYOUT(1, 4);
	struct rig *r = rig_create(layout.groups, SIZE);
	struct sim *sims[RIG_DEVS];
	struct rig *next;
	int rc;

	(void)state;
	put_all(r, 0);
	gone(r, 3, true);
	assert_int_equal(rig_put_block(r, 10, 11, 50000), 0);
	assert_int_equal(rig_commit(r), -EIO);
	assert_true(atomic_load(&r->pool->suspended));
	assert_int_equal(rig_read(r, &r->open[4].bp, 5), -EIO);
	gone(r, 3, false);
	for (unsigned i = 0; i < r->nsims; i++)
		sims[i] = i < 2 ? NULL : sim_cut(r->sims[i], SIM_CUT_NONE, 0, 0);
	next = rig_open(sims, r->nsims, r->pool->guid, 0, &rc);
	assert_int_equal(rc, -ENODEV);
	rig_free(next);
	/* With all of them everything is there again. */
	r = reopen(r, 0);
	rig_check(r);
	rig_free(r);
}

/* What was written before a failed flush is not trusted. */
static void test_flush_fails(void **state)
{
	static const struct layout layout = LAYOUT(2, 5);
	struct rig *r = rig_create(layout.groups, SIZE);

	(void)state;
	put_all(r, 0);
	sim_fail(r->sims[1], DEV_FLUSH, 0, SIZE, -EIO, 1);
	put_all(r, 10);
	assert_int_equal(atomic_load(&r->pool->devs[1].state), TARN_DEV_FAULTED);
	rig_check(r);
	r = reopen(r, 0);
	rig_check(r);
	assert_int_equal(errors(r, false), 0);
	rig_free(r);
}

/* Bad spots in so many columns that a block cannot stay: it goes elsewhere. */
static void test_writes_fail(void **state)
{
	(void)state;
	for (unsigned l = 0; l < NLAYOUTS; l++) {
		struct rig *r = rig_create(layouts[l].groups, SIZE);
		const struct chunk *c;

		put_all(r, 0);
		c = chunk_find(r->pool, r->open[4].bp.chunk);
		for (unsigned i = 0; i < c->ncols - chunk_data_cols(c) + 1; i++)
			sim_fail(r->sims[c->cols[i].dev], DEV_WRITE, chunk_offset(r->pool, c, i, 0),
				 4 << 20, -EIO, 2);
		put_all(r, 10);
		put_all(r, 20);
		rig_check(r);
		r = reopen(r, 0);
		rig_check(r);
		assert_int_equal(errors(r, false), 0);
		rig_free(r);
	}
}

/* ---- space ---- */

/* Fills the pool with blocks of `lsize`; how many there was room for. */
static unsigned fill(struct rig *r, unsigned first, uint32_t lsize)
{
	unsigned n = 0;
	int rc;

	while (first + n < RIG_BLOCKS) {
		rc = rig_put_block(r, first + n, first + n + 1, lsize);
		if (rc)
			break;
		n++;
		if (n % 16 == 0)
			assert_int_equal(rig_commit(r), 0);
	}
	if (first + n < RIG_BLOCKS)
		assert_int_equal(rc, -ENOSPC);
	assert_int_equal(rig_commit(r), 0);
	return n;
}

static void empty(struct rig *r)
{
	for (unsigned i = 0; i < RIG_BLOCKS; i++) {
		if (r->open[i].seed)
			assert_int_equal(rig_remove(r, i), 0);
		if (i % 256 == 0)
			assert_int_equal(rig_commit(r), 0);
	}
	for (unsigned i = 0; i < 2 * TXG_KEEP + 2; i++) {
		txg_wait(r->pool, txg_open(r->pool));
		assert_int_equal(rig_commit(r), 0);
	}
}

/* A full pool says so and never fails a sync, healthy or not; what is removed comes back. */
static void full(const struct layout *layout, uint32_t lsize, bool degraded)
{
	struct rig *r = rig_create(layout->groups, 64 << 20);
	struct pool_space space;
	unsigned n;

	pool_space(r->pool, &space);
	n = fill(r, 0, lsize);
	/* Half at least of what it says. */
	assert_true((uint64_t)n * lsize > space.size / 2);
	if (degraded)
		gone(r, 1, true);
	fill(r, n, 3000);
	assert_false(atomic_load(&r->pool->suspended));
	rig_check(r);
	empty(r);
	if (!degraded)
		assert_in_range(fill(r, 0, lsize), n - n / 4, n + n / 4);
	/* Many small ones where large ones have been. */
	empty(r);
	fill(r, 0, lsize);
	for (unsigned i = 0; i < n; i += 2)
		assert_int_equal(r->open[i].seed ? rig_remove(r, i) : 0, 0);
	assert_int_equal(rig_commit(r), 0);
	fill(r, n + 1, 3000);
	assert_false(atomic_load(&r->pool->suspended));
	rig_check(r);
	rig_free(r);
}

static void test_full(void **state)
{
	static const struct layout some[4] = {LAYOUT(1, 3), LAYOUT(2, 5), LAYOUT(3, 4),
					      LAYOUT(3, 7)};

	(void)state;
	for (unsigned l = 0; l < NFULL; l++) {
		full(&some[l], 1 << 20, l % 2);
		full(&some[l], 131072, !(l % 2));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_code),           cmocka_unit_test(test_losses),
	    cmocka_unit_test(test_too_many),       cmocka_unit_test(test_wide),
	    cmocka_unit_test(test_shape),          cmocka_unit_test(test_lying),
	    cmocka_unit_test(test_read_errors),    cmocka_unit_test(test_devices_go),
	    cmocka_unit_test(test_devices_return), cmocka_unit_test(test_narrower),
	    cmocka_unit_test(test_too_many_gone),  cmocka_unit_test(test_flush_fails),
	    cmocka_unit_test(test_writes_fail),    cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
