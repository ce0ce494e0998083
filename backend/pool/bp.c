// SPDX-License-Identifier: LGPL-3.0-or-later
#include "pool/bp.h"

#include <inttypes.h>
#include <stdio.h>

static bool sum_valid(const struct bp *bp)
{
	static const uint8_t zero[16];

	return bp->cksum == CKSUM_SHA256 ||
	       (bp->cksum == CKSUM_XXH3 && !memcmp(bp->sum + 16, zero, sizeof(zero)));
}

bool bp_valid(const struct bp *bp, uint64_t max_birth)
{
	if (bp->birth > max_birth || bp->lsize > BLOCK_MAX)
		return false;
	if (bp_is_hole(bp)) {
		struct bp hole = bp_hole(bp->birth, bp->lsize);

		return !memcmp(bp, &hole, sizeof(hole));
	}
	if (bp->type >= BP_TYPES || (bp->level && bp->type != BP_NODE))
		return false;
	if (!bp->chunk || !bp->birth || !bp->lsize || !bp->psize || bp->psize > bp->lsize)
		return false;
	if (bp->sector > UINT32_MAX - bp_sectors(bp))
		return false;
	if (bp->comp >= COMP_TYPES || (bp->comp == COMP_OFF && bp->psize != bp->lsize))
		return false;
	return sum_valid(bp);
}

const char *bp_print(const struct bp *bp, char buf[128])
{
	static const char *const types[] = {"hole", "data", "value", "node", "log"};
	static const char *const comps[] = {"off", "lz4", "zstd"};
	static const char *const sums[] = {"none", "xxh3", "sha256"};

	if (bp_is_hole(bp))
		snprintf(buf, 128, "hole %" PRIu32 " birth %" PRIu64, bp->lsize, bp->birth);
	else
		snprintf(buf, 128,
			 "%s L%u %" PRIu64 ":%" PRIu32 " %" PRIu32 "/%" PRIu32 " %s %s %" PRIu64,
			 bp->type < BP_TYPES ? types[bp->type] : "?", bp->level, bp->chunk,
			 bp->sector, bp->psize, bp->lsize,
			 bp->comp < COMP_TYPES ? comps[bp->comp] : "?",
			 bp->cksum < CKSUM_TYPES ? sums[bp->cksum] : "?", bp->birth);
	return buf;
}
