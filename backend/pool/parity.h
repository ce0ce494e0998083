// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The stripe: how a block lies in the columns of a parity chunk, and the code that makes up for
 * lost columns (Reed-Solomon with a Cauchy matrix, ISA-L). Pure functions; no I/O, no locks.
 *
 * A block of n sectors takes rows = ceil(n / data) rows. Column i < data holds its sectors
 * [i * rows, (i + 1) * rows), what is beyond the block's end is zero; the columns from `data` on
 * hold parity. So a stripe in one piece of memory, column after column, begins with the block.
 * Any `data` columns give all others, row by row, without knowledge of blocks.
 *
 * Callers: block.c, stripe.c; tarnck.
 */
#ifndef TARN_POOL_PARITY_H
#define TARN_POOL_PARITY_H

#include <stdbool.h>
#include <stdint.h>

#include "dev/dev.h"

#define PARITY_MAX 3
#define PARITY_COLS_MAX 32

struct stripe {
	unsigned data, parity; /* columns */
	uint32_t rows;         /* sectors of each column */
	uint32_t bytes;        /* of the block as it is stored, without padding */
};

struct stripe stripe_make(unsigned data, unsigned parity, uint32_t bytes);

static inline unsigned stripe_cols(const struct stripe *st)
{
	return st->data + st->parity;
}

static inline uint32_t stripe_col_bytes(const struct stripe *st)
{
	return st->rows << SECTOR_SHIFT;
}

/* Columns that hold some of the block; those between them and the parity are padding. */
unsigned stripe_used_cols(const struct stripe *st);

/*
 * Splits a block into columns: cols[i] points to the bytes of column i, in `block` (whole sectors,
 * zero behind the block's end) or in memory that the caller frees, which is returned.
 * NULL: no memory.
 */
void *stripe_split(const struct stripe *st, const void *block, const void *cols[PARITY_COLS_MAX]);

/*
 * What was the block? raw holds the stripe as it was read, of which only the columns in the mask
 * `have` are there, and any of those may be wrong. Tries all ways to make up for as many wrong and
 * missing columns as the parity that is there allows, until good() accepts the block at the
 * beginning of `fixed`. Then true: fixed is the whole stripe, *wrong those columns of `have` whose
 * content is another. Both buffers are stripe_cols() * stripe_col_bytes() long and not the same.
 */
bool stripe_solve(const struct stripe *st, const uint8_t *raw, uint32_t have,
		  bool (*good)(const void *arg, const void *block), const void *arg, uint8_t *fixed,
		  uint32_t *wrong);

#endif
