// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * What a pool must hold: a plain model of names, inodes, datasets and properties, and the
 * operations of the power-cut test on it. Knows nothing of the engine and of devices.
 *
 * File data is counted in units; each is zeros or bears the stamp of the operation that wrote
 * it, its number + 1.
 */
#ifndef TESTS_CUT_MODEL_H
#define TESTS_CUT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CUT_UNIT 1024
#define CUT_RECORD 128                  /* units */
#define CUT_UNITS (2 * CUT_RECORD + 50) /* of a file */
#define CUT_INODES 100
#define CUT_NAMES 160
#define CUT_XATTRS 3
#define CUT_NAME_MAX 15
#define CUT_PATH_MAX 48
#define CUT_OPS_MAX 256

enum cut_kind {
	/* token */
	CUT_CREATE,    /* n: enum tarn_type */
	CUT_EXCLUSIVE, /* n: verifier */
	CUT_WRITE,     /* n: first unit, m: count; unstable */
	CUT_TRUNCATE,  /* n: units */
	CUT_PUNCH,     /* n, m as for write */
	CUT_ALLOCATE,  /* likewise */
	CUT_MODE,      /* n */
	CUT_OWNER,     /* n: uid, n + 1: gid */
	CUT_TIMES,     /* n: seconds */
	CUT_ACL,       /* n: which; 0: none */
	CUT_XATTR,     /* n: which, m: bytes */
	CUT_XATTR_REMOVE,
	CUT_LINK, /* to */
	CUT_UNLINK,
	CUT_RENAME, /* to */
	/* durable when they return */
	CUT_STABLE, /* as write */
	CUT_FSYNC,
	CUT_FS_CREATE,
	CUT_FS_DESTROY, /* with its children */
	CUT_FS_RENAME,  /* to */
	CUT_FS_SET,     /* n: value of both properties */
	CUT_FS_INHERIT, /* n: which property */
	CUT_POOL_SET,   /* n */
	CUT_ADD,        /* the spare device */
	CUT_LOG_ADD,    /* as a log device */
	CUT_LOG_REMOVE, /* the one added last */
	CUT_EXPORT,     /* ends a run */
	/* no change */
	CUT_OPEN, /* until the run ends */
};

struct cut_op {
	enum cut_kind kind;
	char path[CUT_PATH_MAX], to[CUT_PATH_MAX]; /* of a dataset: below the pool's root */
	uint32_t n, m;
	bool wait; /* for its token */
};

/* Values that are not known, or no value at all. */
#define CUT_UNKNOWN UINT32_MAX
#define CUT_BAD (UINT32_MAX - 1)

struct cut_inode {
	bool used, dataset;
	uint8_t type;
	uint32_t serial; /* 1 + the operation that made it; 0 the pool's root */
	uint32_t mode, uid, gid, mtime, acl, verifier, rdev, target;
	uint32_t xattr[CUT_XATTRS]; /* bytes << 16 | stamp */
	uint32_t nlink;             /* not of directories */
	uint32_t values[2];         /* of a dataset's two properties */
	uint32_t units;
	uint16_t data[CUT_UNITS];
};

struct cut_name {
	bool used;
	uint8_t dir, inode;
	char name[CUT_NAME_MAX + 1];
};

struct cut_world {
	uint32_t comment, ndevs;
	struct cut_inode inodes[CUT_INODES]; /* 0: the root */
	struct cut_name names[CUT_NAMES];
};

void cut_world_init(struct cut_world *w, uint32_t ndevs);
/* For those who build a world from what they see. */
unsigned cut_inode_new(struct cut_world *w);
void cut_name_add(struct cut_world *w, unsigned dir, const char *name, unsigned inode);
/* The inode's number, -1: none. */
int cut_lookup(const struct cut_world *w, const char *path);
unsigned cut_count_names(const struct cut_world *w, unsigned dir);

/*
 * Operation number `index` happens. steps: how many of its cut_steps() parts; that is 1 but for
 * those that the API lets a crash leave in part. Returns the serial of the inode that it is about.
 */
unsigned cut_steps(const struct cut_op *op);
uint32_t cut_apply(struct cut_world *w, const struct cut_op *op, unsigned index, unsigned steps);

/* Compares a world that was found with one that is allowed; why: what differs. */
bool cut_same(const struct cut_world *found, const struct cut_world *allowed, char why[256]);

/* The content of one unit, and its stamp: 0 zeros, CUT_BAD neither. */
void cut_fill(uint32_t stamp, unsigned unit, uint8_t out[CUT_UNIT]);
uint32_t cut_stamp(const uint8_t *data, unsigned unit);

void cut_print_op(const struct cut_op *op, char out[160]);

#endif
