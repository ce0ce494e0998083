// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Keys of a dataset's tree: inode number (big-endian u64), kind (one byte), then as
 * told. All of an inode lies together; neighbours in number share leaves.
 */
#ifndef TARN_FS_KEY_H
#define TARN_FS_KEY_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

enum key_kind {
	/* inode 0: the dataset's own */
	KEY_IMAP = 1, /* u64 index -> bitmap of 4096 inode numbers in use, 1 = used */
	/* u64 ino -> u64: size from which on its records go, ORPHAN_ALL: the whole inode */
	KEY_ORPHAN = 2,
	/* any other inode */
	KEY_INODE = 16,  /* -> struct inode_record */
	KEY_ACL = 17,    /* -> array of struct tarn_ace */
	KEY_TARGET = 18, /* symbolic link's target */
	KEY_INLINE = 19, /* whole content of a tiny file; then it has no KEY_RECORD */
	KEY_XATTR = 20,  /* name -> value */
	KEY_ENTRY = 24,  /* name -> struct entry */
	KEY_COOKIE = 25, /* u64 cookie -> struct entry without cookie meaning, then the name */
	KEY_RECORD = 32, /* u64 offset, a multiple of the file's recordsize -> bp */
};

#define ORPHAN_ALL UINT64_MAX

#define KEY_ROOM (8 + 1 + 256)
#define KEY_U64_LEN (8 + 1 + 8)

static inline uint32_t key_make(uint8_t key[KEY_ROOM], uint64_t ino, enum key_kind kind)
{
	uint64_t be = htobe64(ino);

	memcpy(key, &be, 8);
	key[8] = (uint8_t)kind;
	return 9;
}

static inline uint32_t key_u64(uint8_t key[KEY_ROOM], uint64_t ino, enum key_kind kind, uint64_t n)
{
	uint64_t be = htobe64(n);

	key_make(key, ino, kind);
	memcpy(key + 9, &be, 8);
	return KEY_U64_LEN;
}

/* name: at most 255 bytes. */
static inline uint32_t key_name(uint8_t key[KEY_ROOM], uint64_t ino, enum key_kind kind,
				const char *name)
{
	size_t len = strlen(name);

	key_make(key, ino, kind);
	memcpy(key + 9, name, len);
	return 9 + (uint32_t)len;
}

static inline uint64_t key_get_u64(const uint8_t *key)
{
	uint64_t be;

	memcpy(&be, key + 9, 8);
	return be64toh(be);
}

#endif
