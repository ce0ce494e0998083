// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The block pointer: where a block lies, how to prove it and when it was born.
 * 64 bytes on disk, the same in memory (Tarn runs on little-endian hosts only).
 * Anyone may read one; only pool/block.c makes one for data, bp_hole() for a hole.
 */
#ifndef TARN_POOL_BP_H
#define TARN_POOL_BP_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "dev/dev.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "on-disk structures are little-endian");

#define BLOCK_MAX (1u << 20) /* logical bytes of the largest block */

enum bp_type {
	BP_HOLE = 0,  /* chunk 0; only birth and lsize count */
	BP_DATA = 1,  /* file data */
	BP_VALUE = 2, /* a large value of a tree */
	BP_NODE = 3,  /* a tree node; level tells which */
	BP_ALLOC_LOG = 4,
	BP_TYPES
};

enum bp_comp { COMP_OFF = 0, COMP_LZ4 = 1, COMP_ZSTD = 2, COMP_TYPES };
enum bp_cksum { CKSUM_XXH3 = 1, CKSUM_SHA256 = 2, CKSUM_TYPES };

struct bp {
	uint64_t chunk;  /* chunk id, from 1; never reused */
	uint32_t sector; /* first sector in the chunk */
	uint32_t lsize;  /* logical bytes, 1 .. BLOCK_MAX */
	uint32_t psize;  /* stored bytes, 1 .. lsize; padded with zeros to a sector */
	uint8_t type;    /* enum bp_type */
	uint8_t level;   /* of a node: 0 = leaf */
	uint8_t comp;    /* enum bp_comp */
	uint8_t cksum;   /* enum bp_cksum */
	uint64_t birth;  /* txg that wrote it */
	uint8_t
	    sum[32]; /* of the stored bytes, without padding; xxh3-128 in the first 16, rest 0 */
};
static_assert(sizeof(struct bp) == 64, "block pointer");

static inline bool bp_is_hole(const struct bp *bp)
{
	return bp->type == BP_HOLE;
}

static inline uint32_t bp_sectors(const struct bp *bp)
{
	return bp_is_hole(bp) ? 0 : (bp->psize + SECTOR_SIZE - 1) >> SECTOR_SHIFT;
}

static inline struct bp bp_hole(uint64_t birth, uint32_t lsize)
{
	return (struct bp){.birth = birth, .lsize = lsize};
}

/* Everything that can be said without reading the block. max_birth: the parent's birth
   or the uberblock's txg. */
bool bp_valid(const struct bp *bp, uint64_t max_birth);

/* "type L0 chunk:sector psize/lsize lz4 xxh3 birth": for messages and tarnck. */
const char *bp_print(const struct bp *bp, char buf[128]);

#endif
