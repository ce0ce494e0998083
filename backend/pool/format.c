// SPDX-License-Identifier: LGPL-3.0-or-later
#include "pool/format.h"

#include <errno.h>
#define XXH_STATIC_LINKING_ONLY /* the state on the stack */
#include <xxhash.h>

/* As if head->sum were zero. */
static void checksum(const struct disk_head *head, uint32_t length, uint8_t sum[16])
{
	static const uint8_t zero[sizeof(head->sum)];
	const uint8_t *bytes = (const uint8_t *)head;
	XXH3_state_t state;
	XXH128_canonical_t out;

	XXH3_128bits_reset(&state);
	XXH3_128bits_update(&state, bytes, offsetof(struct disk_head, sum));
	XXH3_128bits_update(&state, zero, sizeof(zero));
	XXH3_128bits_update(&state, bytes + sizeof(*head), length - sizeof(*head));
	XXH128_canonicalFromHash(&out, XXH3_128bits_digest(&state));
	memcpy(sum, out.digest, sizeof(out.digest));
}

void disk_seal(struct disk_head *head, uint64_t magic, uint32_t length)
{
	head->magic = magic;
	head->version = TARN_FORMAT_VERSION;
	head->length = length;
	checksum(head, length, head->sum);
}

int disk_check(const struct disk_head *head, uint64_t magic, uint32_t length)
{
	uint8_t sum[16];

	if (head->magic != magic)
		return -ENOENT;
	if (head->length < sizeof(*head) || head->length > length)
		return -EIO;
	checksum(head, head->length, sum);
	if (memcmp(sum, head->sum, sizeof(sum)) != 0)
		return -EIO;
	if (head->version != TARN_FORMAT_VERSION)
		return -ENOTSUP;
	return head->length == length ? 0 : -EIO;
}
