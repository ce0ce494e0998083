// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The inode record and the directory entry, on disk and in memory.
 */
#ifndef TARN_FS_RECORD_H
#define TARN_FS_RECORD_H

#include <assert.h>
#include <stdint.h>

struct disk_time {
	int64_t sec;
	uint32_t nsec;
	uint32_t zero;
};

enum inode_flags {
	INODE_ACL = 1,      /* KEY_ACL exists */
	INODE_VERIFIER = 2, /* verifier is that of an exclusive create */
	INODE_INLINE = 4,   /* content is in KEY_INLINE; beyond it are zeros */
	/* records beyond the size remain: it may not grow before they have gone (KEY_ORPHAN) */
	INODE_TRUNCATED = 8,
};

struct inode_record {
	uint64_t gen;
	uint64_t size;  /* REG, LNK: bytes; else 0 (a directory shows entries + 2) */
	uint64_t space; /* bytes allocated for records, as stored; dirty ones at lsize */
	uint64_t change;
	uint64_t parent;      /* directory: inode number of its parent (itself for the root) */
	uint64_t next_cookie; /* directory: from 3 */
	uint64_t entries;     /* directory: number of names */
	uint32_t mode;        /* 07777 */
	uint32_t nlink;
	uint32_t uid, gid;
	uint32_t project;
	uint32_t rdev_major, rdev_minor;
	uint32_t recordsize; /* REG: fixed at creation */
	uint8_t type;        /* enum tarn_type */
	uint8_t zero[3];
	uint32_t flags;
	uint8_t verifier[8];
	struct disk_time atime, mtime, ctime, btime;
	uint8_t reserved[56];
};
static_assert(sizeof(struct inode_record) == 224, "inode_record");

/* Value of KEY_ENTRY; that of KEY_COOKIE is the same, then the name. */
struct entry {
	uint64_t ino;
	uint64_t gen;
	uint64_t cookie;
	uint8_t type;
	uint8_t zero[7];
};
static_assert(sizeof(struct entry) == 32, "entry");

/* -EIO if a record that was read can't be right: type, sizes, times, reserved bytes. */
int inode_record_validate(const void *bytes, uint32_t len);
int entry_validate(const void *bytes, uint32_t len);

#endif
