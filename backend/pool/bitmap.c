// SPDX-License-Identifier: LGPL-3.0-or-later
#include "pool/bitmap.h"

#include <string.h>

/* The part of word w that lies in [first, first + n). */
static uint64_t word_mask(uint32_t w, uint32_t first, uint32_t n)
{
	uint64_t mask = ~0ull;
	uint32_t end = first + n;

	if (first > w * 64)
		mask &= ~0ull << (first - w * 64);
	if (end < (w + 1) * 64)
		mask &= ~0ull >> ((w + 1) * 64 - end);
	return mask;
}

#define FOR_WORDS(w, first, n)                                                                     \
	for (uint32_t w = (first) / 64, last_ = ((first) + (n)-1) / 64; (n) && w <= last_; w++)

void bitmap_set(uint64_t *bits, uint32_t first, uint32_t n)
{
	FOR_WORDS(w, first, n)
	bits[w] |= word_mask(w, first, n);
}

void bitmap_clear(uint64_t *bits, uint32_t first, uint32_t n)
{
	FOR_WORDS(w, first, n)
	bits[w] &= ~word_mask(w, first, n);
}

bool bitmap_all_set(const uint64_t *bits, uint32_t first, uint32_t n)
{
	FOR_WORDS(w, first, n)
	{
		if (~bits[w] & word_mask(w, first, n))
			return false;
	}
	return true;
}

bool bitmap_all_clear(const uint64_t *bits, uint32_t first, uint32_t n)
{
	FOR_WORDS(w, first, n)
	{
		if (bits[w] & word_mask(w, first, n))
			return false;
	}
	return true;
}

uint32_t bitmap_count(const uint64_t *bits, uint32_t first, uint32_t n)
{
	uint32_t count = 0;

	FOR_WORDS(w, first, n)
	count += (uint32_t)__builtin_popcountll(bits[w] & word_mask(w, first, n));
	return count;
}

uint32_t bitmap_next(const uint64_t *bits, uint32_t nbits, uint32_t from, bool value)
{
	uint64_t flip = value ? 0 : ~0ull;

	for (uint32_t w = from / 64; from < nbits; w++, from = w * 64) {
		uint64_t word = (bits[w] ^ flip) & (~0ull << from % 64);

		if (word)
			return w * 64 + (uint32_t)__builtin_ctzll(word);
	}
	return nbits;
}

uint32_t bitmap_find_clear(const uint64_t *bits, uint32_t from, uint32_t end, uint32_t n)
{
	while (from < end && end - from >= n) {
		uint32_t start = bitmap_next(bits, end, from, false);

		/* bitmap_next() looks at whole words, so it may see beyond end. */
		if (start >= end || end - start < n)
			break;
		from = bitmap_next(bits, start + n, start, true);
		if (from >= start + n)
			return start;
	}
	return end;
}

/* Appends v; NULL when it would pass end. */
static uint8_t *put_leb(uint8_t *p, const uint8_t *end, uint32_t v)
{
	do {
		if (p == end)
			return NULL;
		*p++ = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
		v >>= 7;
	} while (v);
	return p;
}

static const uint8_t *get_leb(const uint8_t *p, const uint8_t *end, uint32_t *v)
{
	*v = 0;
	for (unsigned shift = 0; shift < 28; shift += 7) {
		if (p == end)
			return NULL;
		*v |= (uint32_t)(*p & 0x7f) << shift;
		if (!(*p++ & 0x80))
			return p;
	}
	return NULL;
}

uint32_t bitmap_pack(const uint64_t *bits, uint32_t nbits, uint8_t *packing, uint8_t *out)
{
	uint8_t *p = out, *end = out + nbits / 8;
	bool value = false;

	for (uint32_t at = 0; p;) {
		uint32_t next;

		if (!value && bitmap_next(bits, nbits, at, true) == nbits) {
			*packing = BITMAP_RUNS;
			return (uint32_t)(p - out);
		}
		next = bitmap_next(bits, nbits, at, !value);
		p = put_leb(p, end, next - at);
		at = next;
		value = !value;
	}
	*packing = BITMAP_RAW;
	memcpy(out, bits, nbits / 8);
	return nbits / 8;
}

bool bitmap_unpack(uint8_t packing, const uint8_t *in, uint32_t len, uint64_t *bits, uint32_t nbits)
{
	const uint8_t *end = in + len;
	uint32_t at = 0, n;

	if (packing == BITMAP_RAW) {
		if (len != nbits / 8)
			return false;
		memcpy(bits, in, len);
		return true;
	}
	if (packing != BITMAP_RUNS)
		return false;
	for (bool value = false; in != end; value = !value) {
		in = get_leb(in, end, &n);
		/* Only the first run, of clear bits, may be empty. */
		if (!in || n > nbits - at || (!n && at))
			return false;
		if (value)
			bitmap_set(bits, at, n);
		at += n;
	}
	return true;
}
