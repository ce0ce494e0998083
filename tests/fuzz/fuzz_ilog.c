// SPDX-License-Identifier: LGPL-3.0-or-later
/* runs 100000 */
/* Blocks of the intent log, and the changes in their records. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "fs/redo.h"
#include "pool/ilog.h"

/* A record with an item of each kind. */
static uint32_t some_record(uint8_t *out)
{
	struct redo redo = {0};
	uint32_t len;

	redo_put(&redo, "key", 3, "value", 5);
	redo_del(&redo, "gone", 4);
	redo_purge(&redo, 7);
	redo_truncate(&redo, 8, 4096);
	len = redo.len;
	memset(redo.buf, 0, sizeof(struct redo_head));
	memcpy(out, redo.buf, len);
	free(redo.buf);
	return len;
}

static void read_record(const uint8_t *record, uint32_t len)
{
	struct redo_view v;
	uint32_t at = 0;
	bool bad;

	while (redo_next(record, len, &at, &v, &bad)) {
		const uint8_t *key = v.key, *val = v.val;

		MUST(!bad && at <= len);
		MUST(key >= record && v.klen <= TREE_KEY_MAX && key + v.klen == val);
		MUST(val + v.vlen <= record + len);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, data + size};
	struct ilog_block *b = calloc(1, SECTOR_SIZE);
	uint32_t at = sizeof(*b), len, n = 1 + (uint32_t)fuzz_number(&in, 1) % 4;
	const void *record;

	*b = (struct ilog_block){
	    .pool_guid = 7, .log_id = 1, .seq = 5, .first = 9, .durable = 3, .nrecords = n};
	for (uint32_t i = 0; i < n; i++) {
		len = some_record((uint8_t *)b + at + sizeof(len));
		memcpy((uint8_t *)b + at, &len, sizeof(len));
		at += (uint32_t)sizeof(len) + len;
	}
	b->head.length = at;
	fuzz_patch_all(&in, b, SECTOR_SIZE);
	/* The sum is right, so that what it covers is looked at. */
	if (b->head.length >= sizeof(*b) && b->head.length <= SECTOR_SIZE)
		disk_seal(&b->head, ILOG_MAGIC, b->head.length);
	if (ilog_block_valid(b, SECTOR_SIZE, 7)) {
		n = at = 0;
		while ((record = ilog_block_next(b, &at, &len))) {
			const uint8_t *bytes = record;

			MUST(bytes + len <= (const uint8_t *)b + b->head.length);
			read_record(record, len);
			n++;
		}
		MUST(n == b->nrecords && at == b->head.length);
	}
	free(b);
	return 0;
}
