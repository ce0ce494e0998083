// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Scripts of the model test: lists of operations as text, one a line, that say all there is to say
 * about a run. Any operation may be left out: those that need what it would have made then do
 * nothing or fail, in the model as in the pool. No locks; pure but for files.
 *
 *      0 create in=0 name=2 to=5 type=1 mode=420 as=0 exclusive=0
 *
 * The first number is a thread. Thread 0 works alone; neighbouring lines of other threads are one
 * parallel section, in which each thread does its lines in order.
 *
 * Inodes are known by handles: 0 .. MODEL_HANDLES - 1, each empty or bound to an inode by the last
 * operation with to=; 0 is at first the root directory of the pool's root dataset. Names,
 * users, datasets, properties are numbers in the tables below.
 */
#ifndef TESTS_MODEL_SCRIPT_H
#define TESTS_MODEL_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum op_kind {
	/* names */
	OP_CREATE,
	OP_LOOKUP,
	OP_LINK,
	OP_UNLINK,
	OP_RENAME,
	OP_READDIR,
	OP_READLINK,
	OP_VERIFY,
	/* inodes */
	OP_GET,
	OP_DROP,
	OP_OPEN,
	OP_CLOSE,
	OP_GETATTR,
	OP_SETATTR,
	OP_SETACL,
	OP_GETACL,
	OP_ACCESS,
	OP_WRITABLE,
	/* data */
	OP_READ,
	OP_WRITE,
	OP_PUNCH,
	OP_ALLOCATE,
	OP_SEEK,
	OP_FSYNC,
	OP_WAIT,
	/* extended attributes */
	OP_XSET,
	OP_XGET,
	OP_XREMOVE,
	OP_XLIST,
	/* datasets */
	OP_DCREATE,
	OP_DDESTROY,
	OP_DRENAME,
	OP_DSET,
	OP_DINHERIT,
	OP_DGET,
	OP_DLIST,
	OP_DROOT,
	OP_STATFS,
	/* the pool */
	OP_POOL,
	OP_REMOUNT,
	OP_CRASH,
	OP_AUDIT,
	OP_FILL,
	OP_DRAIN,
	OP_FAULT,
	OP_REPAIR,
	OP_KINDS
};

struct op {
	uint8_t kind, thread;
	uint8_t h, h2;       /* handles */
	uint8_t to;          /* the handle to be bound; NO_HANDLE: none */
	uint8_t name, name2; /* or datasets, properties */
	uint8_t user;
	uint64_t a, b, c; /* what they mean: the operation's line in model_script.c */
};

struct script {
	struct op *ops;
	size_t n, room;
};

enum { MODEL_HANDLES = 16, AUDIT_HANDLES = 16, ALL_HANDLES = MODEL_HANDLES + AUDIT_HANDLES };
enum { NO_HANDLE = 255 };

/* Names 0 .. NAMES - 1 can exist; the first three also as datasets. The others are refused. */
enum { NAMES = 10, NAME_DOT = NAMES, NAME_DOTDOT, NAME_EMPTY, NAME_SLASH, NAME_LONG, ALL_NAMES };
const char *name_text(unsigned name);

/* Datasets by number: the pool's root, 3 below it, 9 below those. */
enum { DATASETS = 13 };
int dataset_above(unsigned dataset);           /* -1 above the root */
unsigned dataset_name(unsigned dataset);       /* of its last component, not of the root */
int dataset_below(unsigned dataset, int name); /* -1 if that is too deep */
const char *dataset_text(unsigned dataset);

enum { PROPS = 6, PROP_VALUES = 3 };
enum { PROP_READONLY, PROP_XATTR, PROP_ACLTYPE, PROP_COMPRESSION, PROP_RECORDSIZE, PROP_NOTE };
extern const char *const prop_names[PROPS];
extern const char *const prop_values[PROPS][PROP_VALUES];
enum { PROP_DEFAULT = 0 }; /* the number of the default value; PROP_NOTE has none */

/* What OP_POOL's layout says. */
/* LAYOUT_LOG: a single device, and a mirror of log devices. */
enum { LAYOUT_SINGLE, LAYOUT_STRIPE, LAYOUT_MIRROR, LAYOUT_LOG, LAYOUTS };
/* What befalls a device. */
enum { FAULT_READ, FAULT_WRITE, FAULT_TORN, FAULT_FLUSH, FAULT_GONE, FAULT_FLIP, FAULT_KINDS };
/* How a pool comes back. */
enum { MOUNT_PLAIN, MOUNT_REWIND, MOUNT_READ_ONLY, MOUNT_WAYS };

void script_add(struct script *s, const struct op *op);
void script_free(struct script *s);
void script_print(const struct script *s, FILE *to);
/* False: a line that is not understood, *line says which. */
bool script_parse(FILE *from, struct script *s, size_t *line);
void op_print(const struct op *op, FILE *to);

#endif
