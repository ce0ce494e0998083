// SPDX-License-Identifier: LGPL-3.0-or-later
#include "pool/parity.h"

#include <assert.h>
#include <isa-l.h>
#include <string.h>

struct stripe stripe_make(unsigned data, unsigned parity, uint32_t bytes)
{
	uint32_t sectors = (bytes + SECTOR_SIZE - 1) >> SECTOR_SHIFT;

	return (struct stripe){
	    .data = data, .parity = parity, .rows = (sectors + data - 1) / data, .bytes = bytes};
}

unsigned stripe_used_cols(const struct stripe *st)
{
	return (st->bytes + stripe_col_bytes(st) - 1) / stripe_col_bytes(st);
}

/* Rows of the code: the identity, then the parity's coefficients. */
static void code_matrix(const struct stripe *st, uint8_t *matrix)
{
	gf_gen_cauchy1_matrix(matrix, (int)stripe_cols(st), (int)st->data);
}

static void encode(const struct stripe *st, const void *const *data, uint8_t *parity)
{
	uint8_t matrix[PARITY_COLS_MAX * PARITY_COLS_MAX],
	    tables[32 * PARITY_COLS_MAX * PARITY_MAX];
	uint8_t *in[PARITY_COLS_MAX], *out[PARITY_MAX];

	for (unsigned i = 0; i < st->data; i++)
		in[i] = (uint8_t *)data[i];
	for (unsigned i = 0; i < st->parity; i++)
		out[i] = parity + (size_t)i * stripe_col_bytes(st);
	code_matrix(st, matrix);
	ec_init_tables((int)st->data, (int)st->parity, matrix + (size_t)st->data * st->data,
		       tables);
	ec_encode_data((int)stripe_col_bytes(st), (int)st->data, (int)st->parity, tables, in, out);
}

void *stripe_split(const struct stripe *st, const void *block, const void *cols[PARITY_COLS_MAX])
{
	size_t col = stripe_col_bytes(st);
	size_t sectors = (st->bytes + SECTOR_SIZE - 1) & ~(size_t)(SECTOR_SIZE - 1);
	unsigned whole = (unsigned)(sectors / col), tail = st->data - whole;
	uint8_t *own = dev_buf_alloc((tail + st->parity) * col);

	if (!own)
		return NULL;
	for (unsigned i = 0; i < whole; i++)
		cols[i] = (const uint8_t *)block + i * col;
	for (unsigned i = whole; i < stripe_cols(st); i++)
		cols[i] = own + (i - whole) * col;
	memcpy(own, (const uint8_t *)block + whole * col, sectors - whole * col);
	memset(own + (sectors - whole * col), 0, tail * col - (sectors - whole * col));
	encode(st, cols, own + tail * col);
	return own;
}

/* ---- solving ---- */

struct solve {
	const struct stripe *st;
	const uint8_t *raw;
	uint8_t *fixed;
	uint32_t data, parity; /* masks of the columns that are there; parity from bit 0 on */
	uint32_t missing;      /* of those that hold some of the block */
	unsigned used;
	uint8_t matrix[PARITY_COLS_MAX * PARITY_COLS_MAX];
};

/* What lies behind the block's end is known. */
static void clear_padding(const struct solve *s)
{
	memset(s->fixed + s->st->bytes, 0,
	       (size_t)s->st->data * stripe_col_bytes(s->st) - s->st->bytes);
}

static void take_as_read(const struct solve *s, unsigned i)
{
	size_t col = stripe_col_bytes(s->st);

	memcpy(s->fixed + i * col, s->raw + i * col, col);
}

/* The next greater number with as many bits set; 0 after the last one below 1 << width. */
static uint32_t next_combination(uint32_t mask, unsigned width)
{
	uint64_t low = mask & -mask, up = (uint64_t)mask + low;
	uint64_t next = up | (((mask ^ up) / (low ? low : 1)) >> 2);

	return mask && next < 1ull << width ? (uint32_t)next : 0;
}

static uint8_t coefficient(const struct solve *s, unsigned parity, unsigned data)
{
	return s->matrix[(s->st->data + parity) * s->st->data + data];
}

/* Computes the lost columns from all other data and as many columns of parity: the equations of
   that parity, solved for the lost ones. */
static void compute(const struct solve *s, uint32_t lost, uint32_t parity)
{
	uint8_t a[PARITY_MAX * PARITY_MAX], inverse[PARITY_MAX * PARITY_MAX];
	uint8_t rows[PARITY_MAX * PARITY_COLS_MAX], tables[32 * PARITY_COLS_MAX * PARITY_MAX];
	unsigned l[PARITY_MAX], p[PARITY_MAX], k = 0, np = 0, n = 0;
	uint8_t *in[PARITY_COLS_MAX], *out[PARITY_MAX];
	size_t col = stripe_col_bytes(s->st);

	for (unsigned i = 0; i < s->used; i++) {
		if (lost & 1u << i)
			l[k++] = i;
	}
	for (unsigned i = 0; i < s->st->parity; i++) {
		if (parity & 1u << i)
			p[np++] = i;
	}
	for (unsigned i = 0; i < k; i++) {
		for (unsigned j = 0; j < k; j++)
			a[i * k + j] = coefficient(s, p[i], l[j]);
	}
	/* Each square part of a Cauchy matrix has an inverse. */
	if (gf_invert_matrix(a, inverse, (int)k))
		assert(false);
	for (unsigned i = 0; i < s->used; i++)
		n += !(lost & 1u << i);
	for (unsigned i = 0; i < k; i++) {
		unsigned at = 0;

		for (unsigned j = 0; j < s->used; j++) {
			uint8_t c = 0;

			if (lost & 1u << j)
				continue;
			for (unsigned t = 0; t < k; t++)
				c ^= gf_mul(inverse[i * k + t], coefficient(s, p[t], j));
			in[at] = s->fixed + j * col;
			rows[i * (n + k) + at++] = c;
		}
		for (unsigned t = 0; t < k; t++) {
			in[at] = (uint8_t *)s->raw + (s->st->data + p[t]) * col;
			rows[i * (n + k) + at++] = inverse[i * k + t];
		}
		out[i] = s->fixed + l[i] * col;
	}
	ec_init_tables((int)(n + k), (int)k, rows, tables);
	ec_encode_data((int)col, (int)(n + k), (int)k, tables, in, out);
}

/* All ways to take k columns, the missing ones among them, for lost. */
static bool solve_for(const struct solve *s, unsigned k,
		      bool (*good)(const void *arg, const void *block), const void *arg)
{
	if (!k)
		return !s->missing && good(arg, s->fixed);
	for (uint32_t lost = (1u << k) - 1; lost; lost = next_combination(lost, s->used)) {
		if (s->missing & ~lost)
			continue;
		for (uint32_t p = (1u << k) - 1; p; p = next_combination(p, s->st->parity)) {
			if (p & ~s->parity)
				continue;
			compute(s, lost, p);
			if (good(arg, s->fixed))
				return true;
		}
		for (unsigned i = 0; i < s->used; i++) {
			if (lost & s->data & 1u << i)
				take_as_read(s, i);
		}
		clear_padding(s);
	}
	return false;
}

static uint32_t differing(const struct solve *s, uint32_t have)
{
	size_t col = stripe_col_bytes(s->st);
	uint32_t wrong = 0;

	for (unsigned i = 0; i < stripe_cols(s->st); i++) {
		if (have & 1u << i && memcmp(s->raw + i * col, s->fixed + i * col, col) != 0)
			wrong |= 1u << i;
	}
	return wrong;
}

bool stripe_solve(const struct stripe *st, const uint8_t *raw, uint32_t have,
		  bool (*good)(const void *arg, const void *block), const void *arg, uint8_t *fixed,
		  uint32_t *wrong)
{
	struct solve s = {.st = st, .raw = raw, .fixed = fixed, .used = stripe_used_cols(st)};
	const void *cols[PARITY_COLS_MAX];
	unsigned k, most;

	s.data = have & (uint32_t)((1ull << s.used) - 1);
	s.parity = have >> st->data & ((1u << st->parity) - 1);
	s.missing = (uint32_t)((1ull << s.used) - 1) & ~s.data;
	code_matrix(st, s.matrix);
	for (unsigned i = 0; i < s.used; i++) {
		if (s.data & 1u << i)
			take_as_read(&s, i);
	}
	clear_padding(&s);
	k = (unsigned)__builtin_popcount(s.missing);
	most = (unsigned)__builtin_popcount(s.parity);
	most = most < s.used ? most : s.used;
	while (k <= most && !solve_for(&s, k, good, arg))
		k++;
	if (k > most)
		return false;
	clear_padding(&s);
	for (unsigned i = 0; i < st->data; i++)
		cols[i] = fixed + (size_t)i * stripe_col_bytes(st);
	encode(st, cols, fixed + (size_t)st->data * stripe_col_bytes(st));
	*wrong = differing(&s, have);
	return true;
}
