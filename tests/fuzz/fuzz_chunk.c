// SPDX-License-Identifier: LGPL-3.0-or-later
/* runs 100000 */
/* Records of chunks and the bitmaps in them. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "pool/alloc.h"
#include "pool/bitmap.h"
#include "pool/chunk.h"

static void check_bitmap(const struct chunk_record *r)
{
	uint64_t *bits = calloc(1, r->sectors / 8), *again = calloc(1, r->sectors / 8);
	uint8_t *packed = malloc(r->sectors / 8), packing;
	uint32_t len;

	if (bitmap_unpack(r->packing, (const uint8_t *)&r->cols[r->ncols], r->bitmap_len, bits,
			  r->sectors)) {
		MUST(bitmap_count(bits, 0, r->sectors) <= r->sectors);
		len = bitmap_pack(bits, r->sectors, &packing, packed);
		MUST(len <= r->sectors / 8);
		MUST(bitmap_unpack(packing, packed, len, again, r->sectors));
		MUST(!memcmp(bits, again, r->sectors / 8));
	}
	free(packed);
	free(again);
	free(bits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, data + size};
	struct chunk_record *r;
	size_t room;

	if (fuzz_number(&in, 1) % 2) {
		/* Of the right shape. */
		struct chunk_record head = {
		    .sectors = 64 * (1 + fuzz_number(&in, 1)),
		    .profile = 1 + fuzz_number(&in, 1) % (PROFILES_END - 1),
		    .packing = 1 + fuzz_number(&in, 1) % 2,
		    .alloc_txg = 9,
		};

		head.ncols = head.profile < PROFILE_MIRROR ? head.profile : 4;
		head.bitmap_len = fuzz_left(&in);
		room = sizeof(head) + head.ncols * sizeof(r->cols[0]) + head.bitmap_len;
		r = calloc(1, room);
		*r = head;
		fuzz_bytes(&in, &r->cols[r->ncols], head.bitmap_len);
	} else {
		room = fuzz_left(&in);
		r = (struct chunk_record *)fuzz_rest(&in);
	}
	if (chunk_record_valid(r, room)) {
		MUST(r->ncols >= 1 && r->ncols <= CHUNK_COLS_MAX);
		MUST(r->sectors && r->sectors <= CHUNK_SECTORS_MAX);
		MUST((const uint8_t *)&r->cols[r->ncols] + r->bitmap_len ==
		     (const uint8_t *)r + room);
		check_bitmap(r);
	}
	free(r);
	return 0;
}
