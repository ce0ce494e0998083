// SPDX-License-Identifier: LGPL-3.0-or-later
/* Bitmaps and block pointers against one-bit-at-a-time answers. */
#include "pool_rig.h"

#define BITS 512

static void naive_to_bits(const bool *naive, uint64_t *bits)
{
	memset(bits, 0, BITS / 8);
	for (uint32_t i = 0; i < BITS; i++)
		bits[i / 64] |= (uint64_t)naive[i] << i % 64;
}

static void random_bits(uint64_t *state, bool *naive)
{
	uint32_t at = 0;
	bool value = rig_random(state) & 1;

	while (at < BITS) {
		uint32_t n = (uint32_t)(rig_random(state) % (rig_random(state) % 2 ? 4 : 200)) + 1;

		for (; n && at < BITS; n--)
			naive[at++] = value;
		value = !value;
	}
}

static uint32_t naive_find(const bool *naive, uint32_t from, uint32_t end, uint32_t n)
{
	for (uint32_t at = from; at + n <= end; at++) {
		uint32_t k = 0;

		while (k < n && !naive[at + k])
			k++;
		if (k == n)
			return at;
	}
	return end;
}

static void test_runs(void **state)
{
	uint64_t seed = rig_seed(), bits[BITS / 64];
	bool naive[BITS];

	(void)state;
	for (unsigned round = 0; round < 3000; round++) {
		uint32_t first = (uint32_t)(rig_random(&seed) % BITS);
		uint32_t n = (uint32_t)(rig_random(&seed) % (BITS - first)) + 1, count = 0;

		random_bits(&seed, naive);
		naive_to_bits(naive, bits);
		for (uint32_t i = first; i < first + n; i++)
			count += naive[i];
		assert_int_equal(bitmap_count(bits, first, n), count);
		assert_int_equal(bitmap_all_set(bits, first, n), count == n);
		assert_int_equal(bitmap_all_clear(bits, first, n), count == 0);
		assert_int_equal(bitmap_find_clear(bits, first, first + n, n % 9 + 1),
				 naive_find(naive, first, first + n, n % 9 + 1));
		for (uint32_t i = first; i < first + n; i++)
			naive[i] = round & 1;
		(round & 1 ? bitmap_set : bitmap_clear)(bits, first, n);
		for (uint32_t i = 0; i < BITS; i++)
			assert_int_equal(bits[i / 64] >> i % 64 & 1, naive[i]);
	}
}

static void test_pack(void **state)
{
	uint64_t seed = rig_seed(), bits[BITS / 64], back[BITS / 64];
	uint8_t packed[BITS / 8], packing;
	bool naive[BITS];

	(void)state;
	for (unsigned round = 0; round < 3000; round++) {
		uint32_t len;

		random_bits(&seed, naive);
		if (round == 0)
			memset(naive, 0, sizeof(naive));
		if (round == 1)
			memset(naive, 1, sizeof(naive));
		naive_to_bits(naive, bits);
		len = bitmap_pack(bits, BITS, &packing, packed);
		assert_true(len <= BITS / 8);
		memset(back, 0, sizeof(back));
		assert_true(bitmap_unpack(packing, packed, len, back, BITS));
		assert_memory_equal(bits, back, sizeof(bits));
	}
}

static void test_pack_hostile(void **state)
{
	static const uint8_t too_long[] = {0, 0x80, 0x08};            /* 1024 set bits */
	static const uint8_t no_end[] = {0x80};                       /* number goes on */
	static const uint8_t huge[] = {0xff, 0xff, 0xff, 0xff, 0x0f}; /* more than fits */
	static const uint8_t empty_run[] = {5, 0, 3};                 /* an empty set run */
	uint64_t bits[BITS / 64] = {0}, seed = rig_seed();
	uint8_t noise[64];

	(void)state;
	assert_false(bitmap_unpack(BITMAP_RUNS, too_long, sizeof(too_long), bits, BITS));
	assert_false(bitmap_unpack(BITMAP_RUNS, no_end, sizeof(no_end), bits, BITS));
	assert_false(bitmap_unpack(BITMAP_RUNS, huge, sizeof(huge), bits, BITS));
	assert_false(bitmap_unpack(BITMAP_RUNS, empty_run, sizeof(empty_run), bits, BITS));
	assert_false(bitmap_unpack(BITMAP_RAW, noise, 63, bits, BITS));
	assert_false(bitmap_unpack(9, noise, 64, bits, BITS));
	for (unsigned round = 0; round < 10000; round++) {
		for (unsigned i = 0; i < sizeof(noise); i++)
			noise[i] = (uint8_t)rig_random(&seed);
		memset(bits, 0, sizeof(bits));
		bitmap_unpack(BITMAP_RUNS, noise, rig_random(&seed) % 65, bits, BITS);
	}
}

static struct bp good_bp(void)
{
	return (struct bp){.chunk = 1,
			   .lsize = 8192,
			   .psize = 5000,
			   .type = BP_DATA,
			   .comp = COMP_LZ4,
			   .cksum = CKSUM_XXH3,
			   .birth = 7};
}

static void test_bp(void **state)
{
	struct bp bp = good_bp();
	char text[128];

	(void)state;
	assert_true(bp_valid(&bp, 7));
	assert_string_equal(bp_print(&bp, text), "data L0 1:0 5000/8192 lz4 xxh3 7");
	assert_false(bp_valid(&bp, 6));
	assert_int_equal(bp_sectors(&bp), 2);
#define BAD(field, value)                                                                          \
	do {                                                                                       \
		bp = good_bp();                                                                    \
		bp.field = value;                                                                  \
		assert_false(bp_valid(&bp, 7));                                                    \
	} while (0)
	BAD(chunk, 0);
	BAD(birth, 0);
	BAD(psize, 0);
	BAD(psize, 8193);
	BAD(lsize, BLOCK_MAX + 1);
	BAD(type, BP_TYPES);
	BAD(level, 1);
	BAD(comp, COMP_TYPES);
	BAD(comp, COMP_OFF);
	BAD(cksum, 0);
	BAD(cksum, CKSUM_TYPES);
	BAD(sum[16], 1);
	BAD(sector, UINT32_MAX);
	BAD(type, BP_HOLE);
	bp = bp_hole(3, 4096);
	assert_true(bp_valid(&bp, 3));
	assert_int_equal(bp_sectors(&bp), 0);
	bp.chunk = 1;
	assert_false(bp_valid(&bp, 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_runs),
	    cmocka_unit_test(test_pack),
	    cmocka_unit_test(test_pack_hostile),
	    cmocka_unit_test(test_bp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
