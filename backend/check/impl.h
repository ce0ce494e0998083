// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The checker's parts. One thread walks and reports; blocks are read and verified by the work
 * queue meanwhile.
 *
 *   check.c    finds and opens the pool, the order of the checks
 *   report.c   findings and progress
 *   device.c   labels, uberblocks and slab tables of each device
 *   verify.c   every copy of a block
 *   space.c    which sectors are referenced, against what the allocator believes
 *   pool.c     the pool tree: its keys and records
 *   files.c    one dataset's tree, inode by inode
 *   links.c    what connects a dataset's inodes
 *   path.c     the path of an inode
 */
#ifndef TARN_CHECK_IMPL_H
#define TARN_CHECK_IMPL_H

#include <tarn/check.h>

#include "dataset/catalog.h"
#include "pool/pool.h"
#include "tree/tree.h"

struct chunk;    /* pool/chunk.h */
struct refs;     /* space.c */
struct verifier; /* verify.c */

struct check {
	const struct tarn_check_spec *spec;
	struct tarn_check_result *result;
	struct pool *pool;
	struct workq *wq;
	struct cache *cache;     /* of nodes: they are read ahead */
	uint32_t skip;           /* how many newer uberblocks there are */
	struct refs *refs;       /* of this state */
	struct refs *verified;   /* of the newest state; NULL while that is being checked */
	struct verifier *verify; /* of this state */
	/* Metadata could not be read: what it refers to is not known, so that neither space nor
	   links can be compared. */
	bool lost;
	bool chunks_bad;       /* chunk records cannot be true: nor can the bitmaps be known */
	uint64_t total;        /* bytes allocated in this state; 0: not known yet */
	uint64_t bytes_before; /* result->bytes when the state was begun */
	struct timespec told;  /* last progress */
};

/* Where a block was met, and who is told what is wrong with it. */
struct place {
	void (*report)(void *arg, enum tarn_finding_kind kind, uint64_t inode, const char *text);
	void *arg;
	uint64_t inode; /* 0: of no file */
};

/* ---- report.c ---- */

#define TEXT_MAX 512

/* Of the pool as a whole. */
void found(struct check *c, enum tarn_finding_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* dataset, path: printable or NULL. */
void found_in(struct check *c, enum tarn_finding_kind kind, const char *dataset, uint64_t inode,
	      const char *path, const char *text);
void found_at(const struct place *place, enum tarn_finding_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Reports of blocks that belong to no dataset. */
struct place pool_place(struct check *c);
/* Tells the progress if it is time for that. */
void tell_progress(struct check *c);
/* Copies a name, bytes that are no printable UTF-8 as \ooo; returns its length, 0 if it has no room
   (then with nothing written but a NUL). */
size_t printable(const char *name, size_t len, char *out, size_t room);

/* ---- device.c ---- */

/* Labels, uberblock rings and slab tables of all devices: they are of the pool, not of a state. */
int check_devices(struct check *c);

/* ---- verify.c ---- */

int verifier_new(struct check *c);
void verifier_free(struct check *c);
/*
 * Starts to read every copy of a block; what is wrong is reported later, at the latest in
 * verify_wait(). error: what the tree that read it said of the block, 0 if it could use it. place
 * is copied. Waits while too much is in flight.
 */
void verify_block(struct check *c, const struct bp *bp, const struct place *place, int error);
void verify_wait(struct check *c);

/* ---- space.c ---- */

int refs_new(struct refs **out);
void refs_free(struct refs *refs);
/* Marks a block as referenced; reports one that was already. */
void refs_mark(struct check *c, const struct bp *bp, const struct place *place);
bool refs_has(struct refs *refs, const struct chunk *chunk, const struct bp *bp);
/* Bytes allocated, but for frees that wait. */
uint64_t space_total(struct pool *pool);
/* Referenced and allocated must be the same. */
void check_space(struct check *c);

/* ---- pool.c ---- */

struct dataset_seen {
	uint64_t id;
	struct dataset_record rec;
	char name[TARN_NAME_MAX + 1]; /* empty: no name found */
	bool destroyed;
	char *path; /* printable */
	struct dataset_seen *next;
};
/* Walks the pool tree and hands its chunk records to the pool. *out: the datasets found. */
int check_pool_tree(struct check *c, struct dataset_seen **out);
void datasets_free(struct dataset_seen *list);

/* ---- files.c ---- */

void check_dataset(struct check *c, const struct dataset_seen *ds);

/* ---- links.c ---- */

/* What is kept of an inode number, whether it was met as an inode or in an entry. */
enum known_flags {
	KNOWN_EXISTS = 1,
	KNOWN_ORPHAN = 2,     /* in the list, as a whole */
	KNOWN_SHRINKING = 4,  /* in the list, its end */
	KNOWN_TRUNCATED = 8,  /* so says its record */
	KNOWN_USED = 16,      /* its bit in the inode map */
	KNOWN_MISNAMED = 32,  /* an entry has another generation or type */
	KNOWN_CONNECTED = 64, /* links.c */
	KNOWN_APART = 128,    /* links.c */
};
struct known {
	uint64_t gen;               /* of the inode; before that is met, of an entry */
	uint32_t nlink;             /* as its record says */
	uint32_t parent;            /* directory: as its record says */
	uint32_t names;             /* entries that name it, by name */
	uint32_t subdirs;           /* directory: entries in it that are directories */
	uint32_t in_dir, in_cookie; /* of the last entry that names it */
	uint8_t type;               /* as gen */
	uint8_t flags;
};
static_assert(sizeof(struct known) == 40, "what a million inodes take");

struct inodes;
int inodes_new(struct inodes **out);
void inodes_free(struct inodes *inodes);
/* NULL: the number is too large, or there is no memory (then inodes_complete() is false). */
struct known *inode_known(struct inodes *inodes, uint64_t ino);
const struct known *inode_lookup(const struct inodes *inodes, uint64_t ino);
bool inodes_complete(const struct inodes *inodes);

/* Compares all that the walk has gathered; report as in struct place. */
void check_links(struct inodes *inodes, const struct place *place);

/* ---- path.c ---- */

struct paths;
/* Reads entries of the tree below root (through the cache) when it is asked for a path. */
int paths_new(const struct check *c, const struct bp *root, struct paths **out);
void paths_free(struct paths *paths);
/* One of the inode's paths, printable; false if it has none that can be found. */
#define PATH_ROOM 4096
bool path_of(struct paths *paths, const struct inodes *inodes, uint64_t ino, char out[PATH_ROOM]);

#endif
