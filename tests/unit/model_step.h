// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The parts of model_step(): model_name.c, model_attr.c, model_data.c and model_xattr.c have what
 * each file operation must answer and what it changes; model_step.c has what they share.
 *
 * post[0] is of the inode that the operation is about, post[1] of the directory changed; of a
 * rename they are the old and the new directory.
 */
#ifndef TESTS_MODEL_STEP_H
#define TESTS_MODEL_STEP_H

#include "model.h"

#define SUID 04000u
#define SGID 02000u
#define STICKY 01000u

enum { ADD_FILE = 0x2, ADD_DIR = 0x4, WRITE_NAMED = 0x10, SEARCH = 0x20, DELETE_CHILD = 0x40 };
enum { WRITE_ATTRIBUTES = 0x100, DELETE = 0x10000, WRITE_ACL = 0x40000, WRITE_DATA = 0x2 };
enum { FILE_INHERIT = 1, DIR_INHERIT = 2, NO_PROPAGATE = 4, INHERIT_ONLY = 8 };

/* ---- model_step.c ---- */

struct node *node_at(struct model *m, int node);
struct node *node_of_handle(struct model *m, unsigned h);
bool is_dir(const struct node *n);

/* Ends a step if what node n has is another one. */
#define MATCH(what, is, should)                                                                    \
	do {                                                                                       \
		unsigned long long is_ = (is), should_ = (should);                                 \
		if (is_ != should_)                                                                \
			return model_wrong("%s of inode %llu is %llu, should be %llu", what,       \
					   (unsigned long long)n->ino, is_, should_);              \
	} while (0)

/* The number of an inode seen for the first time. */
const char *match_number(struct model *m, struct node *n, uint64_t ino, uint64_t gen);
/* The whole of an answer. */
const char *match_attr(struct model *m, struct node *n, const struct tarn_attr *a);
const char *match_bytes(const struct outcome *seen, const uint8_t *want, size_t len, size_t offset);
/* data: contents or entries changed too. */
void touch_node(struct node *n, bool data);
/* Someone read it: relatime. Beside other threads, some time after the answer was made. */
void accessed(struct node *n, const struct op *op);
/* Of every operation on an inode. A removed one that is not open may be there still. */
void errs_inode(const struct model *m, struct errs *e, const struct node *n);
void errs_change(const struct model *m, struct errs *e, const struct node *n);
/* The inode goes with its last name, if nobody has it open; when, is the engine's affair. */
bool went(const struct node *n, int rc);
void bind_node(struct model *m, unsigned to, int node);
const char *found_node(struct model *m, const struct op *op, int node, const struct outcome *seen);

/* ---- model_attr.c, model_data.c ---- */

/* The inode's ACL as the engine shows it; it must mean the mode. masked: a mode was asked for. */
const char *adopt_acl(struct node *n, const struct tarn_acl *acl, bool masked);
uint32_t stripped(uint32_t mode);
void resize_data(struct node *n, uint64_t size);

/* ---- the operations ---- */

/* NULL, or what is wrong. */
typedef const char *step_fn(struct model *m, const struct op *op, const struct outcome *seen);

step_fn step_create;
step_fn step_lookup;
step_fn step_link;
step_fn step_unlink;
step_fn step_rename;
step_fn step_readdir;
step_fn step_readlink;
step_fn step_get;
step_fn step_open;
step_fn step_getattr;
step_fn step_setattr;
step_fn step_setacl;
step_fn step_getacl;
step_fn step_access;
step_fn step_verify;
step_fn step_writable;
step_fn step_read;
step_fn step_write;
step_fn step_punch;
step_fn step_allocate;
step_fn step_seek;
step_fn step_xset;
step_fn step_xget;
step_fn step_xlist;
step_fn step_fsync;

#endif
