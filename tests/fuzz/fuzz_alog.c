// SPDX-License-Identifier: LGPL-3.0-or-later
/* runs 100000 */
/* Blocks of the allocation log. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "pool/alog.h"
#include "pool/chunk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, data + size};
	struct bp bp = {.chunk = 1, .type = BP_ALLOC_LOG, .cksum = CKSUM_XXH3, .birth = 9};
	struct alog_block *block;

	bp.lsize = bp.psize = SECTOR_SIZE * (1 + fuzz_number(&in, 1) % 2);
	block = malloc(bp.lsize);
	memset(block, 0, bp.lsize);
	*block = (struct alog_block){
	    .magic = ALOG_MAGIC, .pool_guid = 7, .txg = 9, .prev = bp_hole(0, 0)};
	block->nallocs = fuzz_number(&in, 1);
	for (uint32_t i = 0; i < block->nallocs && i < 247; i++)
		block->extents[i] = (struct extent){1, i, 1};
	fuzz_patch_all(&in, block, bp.lsize);
	if (alog_block_valid(block, &bp, 7)) {
		MUST(block->txg == 9 && block->prev.birth <= 9);
		for (uint64_t i = 0; i < (uint64_t)block->nallocs + block->nfrees; i++) {
			const struct extent *e = &block->extents[i];

			MUST(e->chunk && e->count);
			MUST((uint64_t)e->sector + e->count <= CHUNK_SECTORS_MAX);
		}
	}
	free(block);
	return 0;
}
