// SPDX-License-Identifier: LGPL-3.0-or-later
/* runs 30000 */
/* Labels, uberblocks and heartbeats whose checksum is right. */
#include "fuzz.h"

#include <string.h>

#include "pool/label.h"
#include "pool/slab.h"

static struct label label;

/* A mirror of two and a single device, as a pool of three devices of 64 MiB has. */
static void good_label(void)
{
	memset(&label, 0, sizeof(label));
	label.pool_guid = 7;
	label.dev_guid = 100;
	label.import_counter = label.seq = label.txg = 1;
	label.state = LABEL_ACTIVE;
	label.ngroups = 2;
	label.ndevs = 3;
	strcpy(label.name, "tank");
	strcpy(label.host, "host");
	label.groups[0] = (struct label_group){
	    .kind = TARN_GROUP_MIRROR, .slab_shift = SLAB_SHIFT_MIN, .ndevs = 2};
	label.groups[1] =
	    (struct label_group){.slab_shift = SLAB_SHIFT_MIN, .first_dev = 2, .ndevs = 1};
	label.nlogs = 1;
	label.logs[0] = (struct label_group){.kind = TARN_GROUP_MIRROR, .ndevs = 2};
	for (unsigned i = 0; i < 2; i++)
		label.log_devs[i] =
		    (struct label_dev){.guid = 200 + i, .size = 64 << 20, .path = "/dev/nvme"};
	for (unsigned i = 0; i < 3; i++)
		label.devs[i] = (struct label_dev){.guid = 100 + i,
						   .size = 64 << 20,
						   .slab_start = 2 << 20,
						   .slab_count = 15,
						   .table_pages = 1,
						   .path = "/dev/sd"};
}

/* What config.c, open.c and slab.c rely on. */
static void check_label(void)
{
	uint32_t devs = 0;

	MUST(label.pool_guid && label.import_counter);
	MUST(strlen(label.name) <= TARN_POOL_NAME_MAX && strlen(label.host) <= LABEL_HOST_MAX);
	MUST(label.ngroups >= 1 && label.ngroups <= POOL_GROUPS_MAX);
	MUST(label.ndevs >= 1 && label.ndevs <= POOL_DEVS_MAX);
	for (uint32_t g = 0; g < label.ngroups; g++) {
		const struct label_group *group = &label.groups[g];

		MUST(group->first_dev == devs && group->ndevs >= 1);
		MUST(group->first_dev + group->ndevs <= label.ndevs);
		for (uint32_t i = 0; i < group->ndevs; i++) {
			const struct label_dev *dev = &label.devs[group->first_dev + i];
			unsigned __int128 end = dev->slab_start;

			end += (unsigned __int128)dev->slab_count << group->slab_shift;
			MUST(strlen(dev->path) <= TARN_DEV_PATH_MAX);
			MUST(end + LABEL_AREA <= dev->size && dev->size <= INT64_MAX);
			MUST(dev->slab_start >=
			     LABEL_AREA + 2 * (uint64_t)dev->table_pages * SECTOR_SIZE);
		}
		devs += group->ndevs;
	}
	MUST(devs == label.ndevs);
	MUST(label.nlogs <= POOL_LOGS_MAX && label_log_devs(&label) <= POOL_LOG_DEVS_MAX);
	for (uint32_t i = 0; i < label_log_devs(&label); i++) {
		MUST(strlen(label.log_devs[i].path) <= TARN_DEV_PATH_MAX);
		MUST(label.log_devs[i].size > 2 * LABEL_AREA);
	}
	MUST(label_own(&label)->guid == label.dev_guid);
}

static void fuzz_uber(struct fuzz_input *in)
{
	struct uberblock uber = {.pool_guid = 7,
				 .import_counter = 1,
				 .txg = 9,
				 .next_chunk = 2,
				 .generation = 2,
				 .alog_tail = 5,
				 .root = {.chunk = 1,
					  .lsize = 4096,
					  .psize = 4096,
					  .type = BP_NODE,
					  .cksum = CKSUM_XXH3,
					  .birth = 9}};

	fuzz_patch_all(in, &uber, sizeof(uber));
	disk_seal(&uber.head, UBER_MAGIC, sizeof(uber));
	if (uber_validate(&uber, 7))
		return;
	MUST(uber.pool_guid == 7 && uber.txg && uber.alog_tail <= uber.txg);
	MUST(uber.root.type == BP_NODE && uber.root.birth <= uber.txg);
	MUST(uber.root.psize <= uber.root.lsize && uber.root.lsize <= BLOCK_MAX);
	MUST(uber_compare(&uber, &uber) == 0);
}

static void fuzz_beat(struct fuzz_input *in)
{
	struct heartbeat beat = {.pool_guid = 7, .dev_guid = 100, .import_counter = 1, .nonce = 1};

	fuzz_patch_all(in, &beat, sizeof(beat));
	disk_seal(&beat.head, BEAT_MAGIC, sizeof(beat));
	if (!heartbeat_validate(&beat, 7, 100))
		MUST(beat.pool_guid == 7 && beat.dev_guid == 100);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, data + size};

	switch (fuzz_number(&in, 1) % 4) {
	case 0:
		fuzz_uber(&in);
		break;
	case 1:
		fuzz_beat(&in);
		break;
	default:
		good_label();
		fuzz_patch_all(&in, &label, sizeof(label));
		disk_seal(&label.head, LABEL_MAGIC, sizeof(label));
		if (!label_validate(&label))
			check_label();
	}
	return 0;
}
