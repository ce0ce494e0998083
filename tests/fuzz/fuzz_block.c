// SPDX-License-Identifier: LGPL-3.0-or-later
/* runs 50000 */
/* Decompression of blocks whose checksum is right, and block pointers. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "pool/block.h"

static void decompress(struct fuzz_input *in)
{
	enum bp_comp comp = fuzz_number(in, 1) % (COMP_TYPES + 1);
	uint32_t lsize = 1 + fuzz_number(in, 2), psize;
	uint8_t *src, *dst = malloc(lsize);

	psize = fuzz_left(in);
	src = fuzz_rest(in);
	if (psize && psize <= lsize && !block_decompress(comp, src, psize, dst, lsize))
		fuzz_touch(dst, lsize);
	free(src);
	free(dst);
}

static void round_trip(struct fuzz_input *in)
{
	enum bp_comp comp = 1 + fuzz_number(in, 1) % 2;
	int level = comp == COMP_ZSTD ? 1 + fuzz_number(in, 1) % 19 : 0;
	uint32_t lsize = 1 + fuzz_number(in, 2), n;
	uint8_t *src = calloc(1, lsize), *packed = malloc(lsize), *dst = malloc(lsize);

	fuzz_bytes(in, src, lsize < fuzz_left(in) ? lsize : fuzz_left(in));
	n = block_compress(comp, level, src, lsize, packed, lsize);
	if (n) {
		MUST(n < lsize && !block_decompress(comp, packed, n, dst, lsize));
		MUST(!memcmp(src, dst, lsize));
	}
	free(src);
	free(packed);
	free(dst);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, data + size};
	char text[128];
	struct bp bp;

	switch (fuzz_number(&in, 1) % 4) {
	case 0:
		round_trip(&in);
		break;
	case 1:
		fuzz_bytes(&in, &bp, sizeof(bp));
		if (bp_valid(&bp, 50)) {
			MUST(bp.birth <= 50 && bp.lsize <= BLOCK_MAX && bp.psize <= bp.lsize);
			MUST((uint64_t)bp.sector + bp_sectors(&bp) <= UINT32_MAX);
			MUST(bp_is_hole(&bp) || (bp.chunk && bp.psize));
		}
		MUST(strlen(bp_print(&bp, text)) < sizeof(text));
		break;
	default:
		decompress(&in);
	}
	return 0;
}
