// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * What pool/ puts on devices, bit by bit. docs/format.md tells it in prose; tarnck and the
 * fuzz targets use the validate functions beside each format.
 *
 * A device:
 *   0        front label area (LABEL_AREA bytes)
 *   ...      slab table, copy 0 and 1
 *   ...      slabs
 *   end      back label area (LABEL_AREA bytes, aligned down to it)
 * A label area:
 *   0        nothing (a partition table or boot block may survive here): 64 KiB
 *   64 KiB   label block, LABEL_SIZE bytes
 *   +        heartbeat block, one sector
 *   +        uberblock ring, UBER_SLOTS sectors; txg t goes to slot t % UBER_SLOTS
 */
#ifndef TARN_POOL_FORMAT_H
#define TARN_POOL_FORMAT_H

#include "pool/bp.h"

#define LABEL_AREA (1u << 20)
#define LABEL_OFFSET (64u << 10)
#define LABEL_SIZE (128u << 10)
#define BEAT_OFFSET (LABEL_OFFSET + LABEL_SIZE)
#define UBER_OFFSET (BEAT_OFFSET + SECTOR_SIZE)
#define UBER_SLOTS 64

#define TARN_FORMAT_VERSION 2

/* Greater ones are refused, so that no number that goes on from one wraps around. Ids and
   generations of an import start at its counter << 40. */
#define FORMAT_IMPORT_MAX (1u << 22)
#define FORMAT_NUMBER_MAX (1ull << 62) /* txgs, ids, generations */

#define POOL_LOG_DEVS_MAX 64

/* First bytes of every checked sector-based structure. sum: xxh3-128 of the whole structure with
 * sum zeroed. */
struct disk_head {
	uint64_t magic;
	uint32_t version;
	uint32_t length; /* bytes covered by sum */
	uint8_t sum[16];
};
static_assert(sizeof(struct disk_head) == 32, "disk_head");

/* Fills the head of a structure of `length` bytes whose first member it is. */
void disk_seal(struct disk_head *head, uint64_t magic, uint32_t length);
/* 0; -ENOENT: another magic; -ENOTSUP: another version; -EIO: wrong length or sum. */
int disk_check(const struct disk_head *head, uint64_t magic, uint32_t length);

#define LABEL_MAGIC 0x6c6562616c6e7274ull /* "trnlabel" */
#define UBER_MAGIC 0x726562756e726174ull  /* "tarnuber" */
#define BEAT_MAGIC 0x746165626e726174ull  /* "tarnbeat" */
#define SLAB_MAGIC 0x62616c736e726174ull  /* "tarnslab" */
#define POOL_FEATURES 0ull                /* that this version knows */

/* One sector. Valid by its sum; the best is the greatest (import_counter, txg). */
struct uberblock {
	struct disk_head head;
	uint64_t pool_guid;
	uint64_t import_counter; /* raised by each import */
	uint64_t txg;
	uint64_t time;       /* seconds since 1970 */
	uint64_t features;   /* needed to read the pool; unknown bits refuse the import */
	uint64_t next_chunk; /* never reused */
	uint64_t generation; /* next column generation, pool-wide */
	struct bp root;      /* the pool tree */
	struct bp alog;      /* newest block of the allocation log */
	uint64_t alog_tail;  /* oldest txg in the log that still counts */
	/* The intent log (ilog.h); log_id 0: there is none. */
	uint64_t log_id;
	uint64_t log_number; /* records up to this one are contained */
	uint64_t log_seq;    /* block with which a replay begins, */
	uint64_t log_pos;    /* and its place in the ring */
	/* GUIDs of the log devices that it lies on, each holding all of its group's part; 0 after
	   the last one. None: it lies in the pool. */
	uint64_t log_devs[POOL_LOG_DEVS_MAX];
	uint8_t reserved[SECTOR_SIZE - 32 - 7 * 8 - 2 * 64 - (5 + POOL_LOG_DEVS_MAX) * 8];
};
static_assert(sizeof(struct uberblock) == SECTOR_SIZE, "uberblock");

#endif
