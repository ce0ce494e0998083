// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * A piece: the part of a read, a write or a zeroing that falls into one record.
 *
 * Changing a record takes two steps. First, without locks and tx: piece_look() notes what the
 * slot holds (the base), the old content is read if it is needed, and piece_build() makes the
 * record's next version. Then, under the inode's lock for writing and in a tx: piece_pin(),
 * piece_check() whether the slot still holds the base (-EBUSY: begin again), and piece_apply(),
 * which cannot fail. Nobody waits for anybody's reads; who is late looks again and finds a
 * dirty record, which is changed in place.
 *
 * Copies are made of content that cannot change: blocks, and dirty records of a txg that is not
 * open any more.
 *
 * Callers: data.c, range.c.
 */
#ifndef TARN_FS_PIECE_H
#define TARN_FS_PIECE_H

#include "fs/dirty.h"

/* What a change puts there. iov NULL: zeros. */
struct source {
	const struct iovec *iov;
	int iovcnt;
	uint64_t offset; /* in the file, of its first byte */
};

enum piece_base {
	PIECE_UNKNOWN,
	PIECE_ANY,   /* whole record overwritten: it does not matter */
	PIECE_BLOCK, /* bp; an absent slot is a hole of birth 0 */
	PIECE_DIRTY, /* dirty */
};

enum piece_action {
	PIECE_NOTHING,  /* zeros where zeros are */
	PIECE_PUT,      /* fresh, complete */
	PIECE_IN_PLACE, /* into dirty */
	PIECE_GROW,     /* into dirty, which moves to fresh, empty yet */
	PIECE_REMOVE,   /* only zeros are left */
};

struct piece {
	uint64_t record;   /* offset in the file */
	uint32_t from, to; /* bytes of the record */
	enum piece_base base;
	struct bp bp;
	struct dirty *dirty; /* referenced */
	bool block_read;     /* read.obj is the base's content, referenced */
	bool built;
	enum piece_action action;
	struct dirty *fresh; /* referenced */
	uint32_t growth;     /* bytes that the change adds at most to those reserved before */
	bool pinned;
	struct tree_pin pin;
	struct tree_val now; /* the slot as piece_check() found it */
	struct cache_read read;
};

/* The pieces of a range: *out is malloc'ed. -ENOMEM. */
int pieces_of(uint64_t offset, uint64_t length, uint32_t recordsize, struct piece **out,
	      uint32_t *count);
/* Forgets what piece_look() and piece_build() found. */
void piece_reset(struct piece *p);

/* What the slot of a record holds: SLOT_BLOCK, sane; tree_val_put() it. An absent slot is a
   hole of birth 0. -EAGAIN, -EIO. */
int slot_get(struct tarn_inode *inode, uint64_t record, struct tree_val *v, struct tree_miss *miss);
/* It gets another content or goes: what rec.space counts for it. */
uint32_t slot_discharge(const struct tree_val *v);

/* In a read epoch that lasts until the block has been read. */
int piece_look(struct tarn_inode *inode, struct piece *p, const struct source *src,
	       struct tree_miss *miss);
/* The change needs the base's content: p->read.bp is to be read, the result kept in
   p->read.obj and block_read set, before piece_build(). */
bool piece_must_read(const struct piece *p, const struct source *src);
int piece_build(struct tarn_inode *inode, struct piece *p, const struct source *src);

/* Bytes to be reserved for n built pieces and the inode's record. */
uint64_t pieces_reserve(const struct piece *p, uint32_t n);
/* The kind of tx for that, where it may use the space kept back. */
enum tx_kind pieces_kind(const struct piece *p, uint32_t n);
int piece_pin(struct tarn_inode *inode, struct piece *p, struct tx *tx, struct tree_miss *miss);
void piece_unpin(struct piece *p);
int piece_check(struct tarn_inode *inode, struct piece *p, const struct source *src, struct tx *tx,
		struct tree_miss *miss);
void piece_apply(struct tarn_inode *inode, struct piece *p, const struct source *src,
		 struct tx *tx);

/* A read: copies its bytes of a record of this content (NULL: a hole) to where they are wanted. */
void piece_give(const struct piece *p, const struct source *to, const uint8_t *bytes,
		uint32_t length);

/* Worst case bytes for changing n neighbouring records and their inode: leaves with less than a
   quarter in them are merged, so that neighbours share leaves. */
#define RECORDS_RESERVE(n) (TREE_RESERVE(2) + (uint64_t)(n) / 8 * TREE_NODE_SIZE)

/* Bytes between an iovec, `skip` bytes into it, and memory; from NULL: zeros. */
void iov_fill(const struct iovec *iov, int iovcnt, uint64_t skip, const void *from, size_t length);
void iov_take(const struct iovec *iov, int iovcnt, uint64_t skip, void *to, size_t length);

#endif
