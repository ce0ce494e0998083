// SPDX-License-Identifier: LGPL-3.0-or-later
/* runs 200000 */
/* Records of inodes and directory entries. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <tarn/fs.h>

#include "fs/record.h"
#include "pool/bp.h"

static void fuzz_inode(struct fuzz_input *in)
{
	struct inode_record r = {.gen = 1,
				 .size = 5,
				 .change = 1,
				 .mode = 0644,
				 .nlink = 1,
				 .recordsize = 131072,
				 .type = 1 + fuzz_number(in, 1) % 8};

	if (r.type == TARN_DIR)
		r = (struct inode_record){.gen = 1,
					  .change = 1,
					  .parent = 1,
					  .next_cookie = 3,
					  .nlink = 2,
					  .type = TARN_DIR};
	fuzz_patch_all(in, &r, sizeof(r));
	if (inode_record_validate(&r, sizeof(r)))
		return;
	MUST(r.type >= TARN_REG && r.type <= TARN_SOCK && !(r.mode & ~07777u));
	MUST(r.mtime.nsec < 1000000000 && r.ctime.nsec < 1000000000);
	MUST(r.size <= INT64_MAX);
	if (r.type == TARN_REG)
		MUST(r.recordsize >= SECTOR_SIZE && r.recordsize <= BLOCK_MAX &&
		     !(r.recordsize & (r.recordsize - 1)));
}

static void fuzz_entry(struct fuzz_input *in)
{
	struct entry e = {.ino = 2, .gen = 1, .cookie = 3, .type = TARN_REG};

	fuzz_patch_all(in, &e, sizeof(e));
	if (entry_validate(&e, sizeof(e)))
		return;
	MUST(e.ino && e.cookie >= 3 && e.type >= TARN_REG && e.type <= TARN_SOCK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, data + size};
	unsigned how = fuzz_number(&in, 1) % 4;

	if (how == 0) {
		uint32_t len = fuzz_left(&in);
		uint8_t *raw = fuzz_rest(&in);

		/* Of any length. */
		MUST(inode_record_validate(raw, len) || len == sizeof(struct inode_record));
		MUST(entry_validate(raw, len) || len >= sizeof(struct entry));
		free(raw);
	} else if (how == 1) {
		fuzz_entry(&in);
	} else {
		fuzz_inode(&in);
	}
	return 0;
}
