// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The offline checker behind tarnck(8): reads everything that a pool holds, every copy of it, and
 * checks that it agrees. Writes nothing. The pool must not be imported: its devices are claimed
 * for the time.
 *
 * What is checked, where the rule stands and how much memory it takes: docs/tarnck.md.
 */
#ifndef TARN_CHECK_H
#define TARN_CHECK_H

#include <stdbool.h>
#include <tarn/pool.h>

enum {
	TARN_CHECK_METADATA = 1, /* do not read file data */
};

/* A pool's last so many states are whole at any time: older ones cannot be checked. */
#define TARN_CHECK_STATES 3

enum tarn_finding_kind {
	/* devices */
	TARN_FOUND_DEVICE,     /* missing, or it was away while the pool was used */
	TARN_FOUND_LABEL,      /* a copy of a device's label is damaged or contradicts the other */
	TARN_FOUND_UBERBLOCK,  /* a copy of an uberblock is damaged, or the newest ones are lost */
	TARN_FOUND_SLAB_TABLE, /* a copy of a page is damaged or contradicts the other */
	TARN_FOUND_COLUMN,     /* copies that are not there: writes were missed, slabs lost */
	/* blocks */
	TARN_FOUND_COPY,  /* a copy is damaged, another one is good */
	TARN_FOUND_BLOCK, /* no copy is good */
	TARN_FOUND_NODE,  /* metadata that verifies but cannot be true */
	/* the pool */
	TARN_FOUND_POOL_TREE, /* keys and records of the pool tree */
	TARN_FOUND_DATASET,   /* names and places of datasets */
	TARN_FOUND_PROPERTY,
	TARN_FOUND_CHUNK,       /* records of chunks */
	TARN_FOUND_INTENT_LOG,  /* acknowledged changes that it had are missing */
	TARN_FOUND_ALLOC_LOG,   /* it contradicts the bitmaps */
	TARN_FOUND_LEAK,        /* allocated, but nothing refers to it */
	TARN_FOUND_UNALLOCATED, /* referenced, but not allocated or freed */
	TARN_FOUND_SHARED,      /* referenced more than once */
	TARN_FOUND_USAGE,       /* of a dataset */
	/* files */
	TARN_FOUND_INODE,     /* records, and whether what an inode has fits its type and flags */
	TARN_FOUND_INODE_MAP, /* numbers in use */
	TARN_FOUND_ORPHAN,    /* the list of removed and truncated inodes */
	TARN_FOUND_DATA,      /* file data: places, space */
	TARN_FOUND_ATTRIBUTE, /* ACLs, extended attributes */
	TARN_FOUND_ENTRY,     /* directory entries, by name and by cookie */
	TARN_FOUND_LINKS,     /* link counts */
	TARN_FOUND_PARENT,    /* directories: one name, `..`, connected to the root */
	TARN_FOUND_KINDS
};

/* "device", "uberblock", ...: for programs; stays what it is. */
const char *tarn_finding_name(enum tarn_finding_kind kind);

struct tarn_finding {
	enum tarn_finding_kind kind;
	uint64_t txg;        /* the state that was being checked */
	const char *dataset; /* its path; NULL: of the pool */
	uint64_t inode;      /* 0: of no file */
	const char *path;    /* of the file in the dataset, from "/"; NULL: not known */
	const char *text;    /* one line: what is wrong, and where */
};
/* Strings are printable UTF-8: other bytes of names are \ooo. They live until the call returns. */

struct tarn_check_progress {
	uint64_t txg;
	uint64_t done, total; /* bytes of blocks in this state; total 0: not known yet */
	uint64_t findings;
};

struct tarn_check_spec {
	const char *name; /* or NULL: by guid; both unset: the only pool found */
	uint64_t guid;
	const char *const *paths; /* devices, files, directories of them */
	uint32_t npaths;
	int flags;
	/* How many of the newest uberblocks are checked, each as if the pool were imported from it:
	   0 = 1, at most TARN_CHECK_STATES. Those that do not exist (yet) are left out. What the
	   newest state holds is read once. */
	uint32_t uberblocks;
	/* Both from the calling thread only; progress may be NULL, and comes about twice a second.
	 */
	void (*finding)(void *arg, const struct tarn_finding *finding);
	void (*progress)(void *arg, const struct tarn_check_progress *progress);
	void *arg;
};

struct tarn_check_result {
	char name[TARN_POOL_NAME_MAX + 1];
	uint64_t guid, txg;
	uint32_t uberblocks; /* checked */
	uint64_t findings;
	uint64_t unreplayed;       /* changes in the intent log, which the check does not see */
	uint64_t datasets, inodes; /* looked at */
	uint64_t blocks, bytes;    /* that are referenced */
	uint64_t read;             /* bytes read to verify them, all copies */
};

/* 0: the check ran to its end (see result->findings); -errno: it could not, *err says why. */
int tarn_check(const struct tarn_check_spec *spec, struct tarn_check_result *result,
	       struct tarn_error *err);

#endif
