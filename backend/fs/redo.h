// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * What fs/ writes to the intent log, and what it makes of that after a crash.
 *
 * A record is one change: the keys that it put and deleted, the inodes' records as it left them,
 * and what is bigger than keys (data, a truncation, the end of an inode). Changes that nobody
 * waits for and that lose nothing but themselves (atime, unstable writes) are not logged; but a
 * record of an inode brings along the data that it counts (inode->unlogged). What can't be said in
 * a record breaks its txg in the log (ilog_break()).
 *
 * Callers: op.h's functions and data.c under the locks of the inodes concerned and in the tx of the
 * change, so that records come in the order of changes; redo_replay() at import, before anybody
 * else is there.
 */
#ifndef TARN_FS_REDO_H
#define TARN_FS_REDO_H

#include "fs/fs.h"

/* Data in one record. */
#define REDO_DATA_MAX (1u << 20)

/* ---- on disk ---- */

struct redo_head {
	uint64_t dataset;
};

enum redo_kind {
	REDO_PUT = 1,   /* key, value */
	REDO_DEL = 2,   /* key */
	REDO_INODE = 3, /* value: struct redo_inode */
	REDO_PURGE = 4, /* value: u64 ino: with all its keys */
	REDO_DATA = 5,  /* value: struct redo_data, then the bytes; written before the rest */
	REDO_TRUNCATE =
	    6, /* value: struct redo_data: size in offset; after data, before the rest */
};

/* Followed by the key and the value. */
struct redo_item {
	uint8_t kind;
	uint8_t zero;
	uint16_t klen;
	uint32_t vlen;
};
static_assert(sizeof(struct redo_item) == 8, "redo item");

struct redo_inode {
	uint64_t ino;
	struct inode_record rec; /* its space, and how its content lies, do not count */
};

struct redo_data {
	uint64_t ino, offset;
};

/* The item at *at (0 at first) of a record, which is moved on; false at the end. *bad: it can't be
   true. */
struct redo_view {
	enum redo_kind kind;
	const void *key, *val;
	uint32_t klen, vlen;
};
bool redo_next(const void *record, uint32_t len, uint32_t *at, struct redo_view *v, bool *bad);

/* ---- making a record ---- */

struct redo {
	uint8_t *buf; /* NULL: empty */
	uint32_t len, room;
	bool failed; /* no memory */
};

void redo_put(struct redo *r, const void *key, uint32_t klen, const void *val, uint32_t vlen);
void redo_del(struct redo *r, const void *key, uint32_t klen);
void redo_purge(struct redo *r, uint64_t ino);
void redo_truncate(struct redo *r, uint64_t ino, uint64_t size);
/* Its record as it is, and unlogged data. */
void redo_inode(struct redo *r, struct tarn_inode *inode);
/* Appends it; nothing is left of it. A token for it. */
struct tarn_commit redo_commit(struct redo *r, struct tarn_dataset *ds);

/* ---- data ---- */

/* Bytes [from, to) of the inode have changed in the tx. Lock held for writing. */
void unlogged_add(struct tarn_inode *inode, uint64_t txg, uint64_t from, uint64_t to);
/* Logs the inode with its unlogged data. Lock held for writing. What to wait for; if it is too
   much for the log, the txg of its last change. */
struct tarn_commit redo_sync(struct tarn_inode *inode);

/* ---- replay ---- */

/* Does what the log says and no txg holds yet; then the log is ilog_start()ed. *count: changes;
   what is lost is kept by the catalog, too. */
struct catalog;
struct lost_changes;
int redo_replay(struct catalog *cat, struct pool *pool, uint64_t *count, struct lost_changes *lost);

#endif
