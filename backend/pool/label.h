// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Labels: what a device says about itself and its pool (label block), which state of the pool
 * is the newest (uberblock ring), and whether somebody owns it now (heartbeat). Owns both
 * label areas of a device; format.h says where what lies.
 *
 * Every label holds the layout of the whole pool; the greatest (import_counter, seq) counts.
 * Front areas are written and flushed before back areas, so one is always good. The best
 * uberblock is the greatest (import_counter, txg).
 *
 * Fencing: the heartbeat thread writes every second while a pool is imported for writing. The
 * lease of an owner that has not succeeded for BEAT_LEASE (on one device of each group at least)
 * lapses: its gate (dev.h) keeps all writes back until it knows whether the pool is still its own.
 * Who takes over a pool by force watches BEAT_WATCH before.
 *
 * Each of the two writes one thing and then reads the other's, so at least one sees the other: the
 * owner writes a heartbeat and then reads the labels; who takes over writes its labels and then
 * reads the heartbeats, and gives up if one has moved since the watch. Labels and heartbeats of a
 * greater import count against those of a lesser one, whenever they arrive.
 *
 * Callers: config.c, devstate.c, open.c and logdev.c (all), txg.c (uber_write_all, pool_flush_all,
 * label_write_all in the sync), block.c and slab.c (pool_may_write before each write), tarnck (the
 * pure parts). Label writes under pool->config_lock; the rest needs no lock.
 */
#ifndef TARN_POOL_LABEL_H
#define TARN_POOL_LABEL_H

#include "pool/pool.h"

#define LABEL_HOST_MAX 63
/* Seconds. The watch must outlast the lease by far: requests may still be on their way. */
#define BEAT_LEASE 8
#define BEAT_WATCH 24

#define LABEL_DEV_OFFLINE 1u /* not to be used until it is asked for */

enum label_state { LABEL_ACTIVE = 1, LABEL_EXPORTED = 2 };

struct label_group {
	uint8_t kind; /* enum tarn_group_kind */
	uint8_t slab_shift;
	uint16_t first_dev, ndevs;
	uint8_t reserved[26];
};
static_assert(sizeof(struct label_group) == 32, "label group");

struct label_dev {
	uint64_t guid;
	uint64_t size;       /* bytes that Tarn uses, a multiple of LABEL_AREA */
	uint64_t slab_start; /* bytes */
	uint32_t slab_count;
	uint32_t table_pages; /* room of one copy of the slab table */
	uint32_t flags;       /* LABEL_DEV_* */
	uint8_t reserved[28];
	char path[TARN_DEV_PATH_MAX + 1];
};
static_assert(sizeof(struct label_dev) == 320, "label device");

struct label {
	struct disk_head head;
	uint64_t pool_guid, dev_guid;
	uint64_t import_counter;
	uint64_t seq; /* raised by each writing of labels */
	uint64_t txg; /* committed when written */
	uint64_t time;
	uint64_t features; /* as in the uberblock */
	uint64_t host_id;
	uint32_t state; /* enum label_state */
	uint32_t ngroups, ndevs;
	uint32_t nlogs; /* groups of log devices */
	char name[TARN_POOL_NAME_MAX + 1];
	char host[LABEL_HOST_MAX + 1];
	uint8_t reserved[4096 - 32 - 8 * 8 - 4 * 4 - 2 * 64];
	struct label_group groups[POOL_GROUPS_MAX];
	struct label_dev devs[POOL_DEVS_MAX];
	/* Their first_dev counts from 0 again; no slabs. */
	struct label_group logs[POOL_LOGS_MAX];
	struct label_dev log_devs[POOL_LOG_DEVS_MAX];
	uint8_t tail[LABEL_SIZE - 4096 - (POOL_GROUPS_MAX + POOL_LOGS_MAX) * 32 -
		     (POOL_DEVS_MAX + POOL_LOG_DEVS_MAX) * 320];
};
static_assert(sizeof(struct label) == LABEL_SIZE, "label");

/* One sector in each label area. */
struct heartbeat {
	struct disk_head head;
	uint64_t pool_guid, dev_guid;
	uint64_t import_counter;
	uint64_t host_id;
	uint64_t nonce;   /* of the import */
	uint64_t count;   /* raised each second */
	uint64_t boot_id; /* of the host; 0: not known */
	uint8_t reserved[SECTOR_SIZE - 32 - 7 * 8];
};
static_assert(sizeof(struct heartbeat) == SECTOR_SIZE, "heartbeat");

/* ---- formats; no I/O ---- */

/* Good in itself: checksum, bounds, layout without contradiction. 0, -ENOENT (no label),
   -EIO (damaged), -ENOTSUP (a newer format or unknown features). */
int label_validate(const struct label *label);
int uber_validate(const struct uberblock *uber, uint64_t pool_guid);
int heartbeat_validate(const struct heartbeat *beat, uint64_t pool_guid, uint64_t dev_guid);
/* <0, 0, >0: a is older, the same, newer. */
int uber_compare(const struct uberblock *a, const struct uberblock *b);
int label_compare(const struct label *a, const struct label *b);

/* How many log devices there are; the entry of the device itself. Of a valid label. */
uint32_t label_log_devs(const struct label *label);
const struct label_dev *label_own(const struct label *label);

/* ---- one device ---- */

/* The better valid label of a device. Results as label_validate(). */
int label_read(struct dev *dev, struct label *out);
/* All valid uberblocks of a device of `size` bytes (label_dev.size), newest first, no two the
   same. out has room for UBER_RING entries. */
#define UBER_RING (2 * UBER_SLOTS)
int uber_read(struct dev *dev, uint64_t size, uint64_t pool_guid, struct uberblock *out,
	      uint32_t *count);
/* The newer valid heartbeat; -ENOENT if none. */
int heartbeat_read(struct dev *dev, uint64_t size, uint64_t pool_guid, uint64_t dev_guid,
		   struct heartbeat *out);
/* Overwrites everything in both label areas by which the device could be known. */
int label_wipe(struct dev *dev, uint64_t size);

/* ---- the devices of a pool ---- */

/* Writes labels to all usable devices: front areas, flush, back areas, flush. A device that
   fails is faulted. -EIO if a group has none left. pool->config_lock held. */
int label_write_all(struct pool *pool, enum label_state state);

/* What labels are to tell, while groups are being added or removed: so many of the pool's groups
   and devices, and these groups of log devices. */
struct label_layout {
	uint32_t ngroups, ndevs, nlogs;
	struct log_group *logs[POOL_LOGS_MAX];
};
void label_layout(const struct pool *pool, struct label_layout *out);
/* Writes it as label_write_all() does, to all devices of the layout or only to those that the pool
   does not have yet; does not judge whether those left suffice. */
int label_write_layout(struct pool *pool, enum label_state state, const struct label_layout *layout,
		       bool only_new);

/* Writes uber (sealing its head) to both areas of all usable devices; no flush. A device that
   fails is faulted. -EIO if a group has none left. */
int uber_write_all(struct pool *pool, struct uberblock *uber);
/* The same to the slot of another txg's. */
int uber_write_slot(struct pool *pool, struct uberblock *uber, uint64_t txg);

/* Writes the uberblocks that any usable device has to those that lack them, or to this one alone,
   which is about to be used: it was away, or a cut came while they were written. None is written
   meanwhile: in a sync, or before the first one. 0, -ENOMEM, or what failed on that one. */
int uber_level(struct pool *pool, struct pool_dev *only);

/* Flushes all usable devices at once. A failed flush is never retried: it faults the device, and
   what was written to it since its last good flush is not to be trusted. 0: all that were
   usable; -ESTALE: some device was faulted, each group has one left; -EIO: a group has none. */
int pool_flush_all(struct pool *pool);

/* ---- owning a pool ---- */

/* The heartbeats of all devices, zeros where there is none; beats has room for each device. */
void beat_read_all(struct pool *pool, struct heartbeat *beats);
/* Watches them for that many seconds: true as soon as one differs from beats. */
bool beat_moves(struct pool *pool, const struct heartbeat *beats, unsigned seconds);

/* Starts the heartbeat, after a first one has been written, and the gate of all devices. */
int beat_start(struct pool *pool);
/* A device that is about to join the pool. */
void beat_gate(struct pool *pool, struct dev *dev);
/* Waits for beats in flight. The lease ends with it: nobody may write any more but the caller. */
void beat_stop(struct pool *pool);
/* The lease has lapsed, and it is not known yet whether the pool is still this host's. */
bool beat_lapsed(struct pool *pool);

/* To be asked before each write is submitted: false once the pool is suspended, or read-only. */
bool pool_may_write(struct pool *pool);

#endif
