// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Bitmaps of a chunk's sectors: runs of bits, and the packed form that checkpoints hold. Pure
 * functions; bits beyond `nbits` in the last word are zero. nbits is a multiple of 64.
 */
#ifndef TARN_POOL_BITMAP_H
#define TARN_POOL_BITMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Values are on disk. Runs: lengths as LEB128, of clear and set bits in turn, clear first, up to
   the last set bit; raw: the words. */
enum bitmap_packing { BITMAP_RUNS = 1, BITMAP_RAW = 2 };

void bitmap_set(uint64_t *bits, uint32_t first, uint32_t n);
void bitmap_clear(uint64_t *bits, uint32_t first, uint32_t n);
bool bitmap_all_set(const uint64_t *bits, uint32_t first, uint32_t n);
bool bitmap_all_clear(const uint64_t *bits, uint32_t first, uint32_t n);
uint32_t bitmap_count(const uint64_t *bits, uint32_t first, uint32_t n);

/* First bit at or after `from` with the given value; nbits if none. */
uint32_t bitmap_next(const uint64_t *bits, uint32_t nbits, uint32_t from, bool value);
/* First run of n clear bits within [from, end); end if none. */
uint32_t bitmap_find_clear(const uint64_t *bits, uint32_t from, uint32_t end, uint32_t n);

/* The shorter form, at most nbits / 8 bytes; returns its length. */
uint32_t bitmap_pack(const uint64_t *bits, uint32_t nbits, uint8_t *packing, uint8_t *out);
/* bits come zeroed. False if the packed form is not one of nbits bits. */
bool bitmap_unpack(uint8_t packing, const uint8_t *in, uint32_t len, uint64_t *bits,
		   uint32_t nbits);

#endif
