// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * A plain model of a pool: what each operation of the public API must answer and leave. A model is
 * a value that can be copied, so that several may be kept: those that what was seen
 * so far allows. Used by one thread at a time.
 *
 * model_step() compares, and takes over what only the engine can know: numbers, times, cookies.
 * Errors are sets: where several apply, each is right.
 */
#ifndef TESTS_MODEL_H
#define TESTS_MODEL_H

#include <tarn/fs.h>

#include "model_script.h"

enum { NODES = 200, XATTRS = 4, OBJECTS = 20, MODEL_ACES = 4 };
enum { MODEL_USERS = 3 };
#define MODEL_FILE_MAX (600u << 10)

/* Shared by copies; changed only by its one holder. */
struct bytes {
	unsigned holders;
	uint64_t hash; /* 0: not known */
	size_t len;
	uint8_t data[];
};

struct known_time {
	struct timespec time;
	bool known;
};

struct node {
	bool used, gone; /* gone: -ESTALE for ever */
	enum tarn_type type;
	int16_t dataset; /* its number in model.dataset */
	int16_t parent;  /* of a directory; -1: the dataset's root */
	uint32_t mode, nlink, uid, gid, rdev;
	uint64_t ino, gen;
	uint64_t change; /* last seen; `changed` since */
	bool changed;
	struct known_time atime, mtime, ctime, btime;
	bool was_read;   /* atime is of a read: a power cut may undo it */
	bool being_read; /* in a parallel section: atime is not looked at */
	uint64_t size;
	struct bytes *data; /* REG: as long as size, or shorter: then zeros; LNK: the target */
	struct bytes *acl;  /* its entries, or NULL */
	struct {
		int16_t node;    /* -1: none */
		uint64_t cookie; /* 0: not seen yet */
	} entry[NAMES];
	struct {
		bool there;
		uint32_t len;
		uint64_t seed;
	} xattr[XATTRS];
	bool exclusive;
	uint64_t verifier;
	unsigned opens; /* handles that opened it */
};

struct model_dataset {
	bool live;
	int16_t above, root;
	unsigned name;
	uint64_t id;
	int8_t local[PROPS]; /* -1: not set here */
};

struct model {
	int nodes; /* used ones have lower numbers */
	struct model_dataset dataset[OBJECTS];
	struct {
		int16_t node;
		bool open;
	} handle[ALL_HANDLES];
	bool read_only; /* the pool */
	bool tight;     /* -ENOSPC is an answer */
	bool failing;   /* -EIO is an answer */
	struct node node[NODES];
};

struct seen_entry {
	char name[TARN_NAME_MAX + 1];
	uint64_t cookie, ino;
};

/* What the engine answered. */
struct outcome {
	int rc;
	struct tarn_attr post[2]; /* what they are of: model_step.h */
	bool has_post;
	uint64_t ino, gen, value;
	bool eof;
	uint8_t *data; /* or struct seen_entry[]; freed with free() */
	size_t len;
	struct tarn_acl *acl;       /* the inode's after a change of mode or ACL by thread 0 */
	uint64_t invoked, answered; /* order among those of a parallel section */
};

struct model *model_new(uint64_t root_ino, uint64_t root_gen, uint64_t dataset_id);
struct model *model_copy(const struct model *m);
void model_free(struct model *m);
/* Equal for models that nobody can tell apart. */
uint64_t model_hash(const struct model *m);

/* Whether the operation does nothing here: a handle is empty, or the model has no room. */
bool model_skips(const struct model *m, const struct op *op);
/* NULL, or why the model's pool could not have answered so; then the model is of no use. */
const char *model_step(struct model *m, const struct op *op, const struct outcome *seen);

/* After a parallel section. */
void model_section_ended(struct model *m);

/* The pool has come back: what was removed while open is gone, handles are closed. */
void model_remounted(struct model *m, bool read_only, bool was_cut);

/* ---- what both sides need ---- */

/* The bytes that an operation with this seed writes. */
void model_fill(uint8_t *buf, size_t len, uint64_t seed);
const struct tarn_cred *model_user(unsigned user);
/* For OP_SETACL. *acl has room for MODEL_ACES entries. */
void model_make_acl(uint32_t count, uint64_t seed, struct tarn_acl *acl);
/* For OP_SETATTR. */
void model_make_set(const struct op *op, struct tarn_setattr *set);
/* The size of a symbolic link made with this mode, and its target. */
void model_target(uint64_t mode, char target[64]);
const char *model_xattr(unsigned name);

/* ---- model_acl.c, for the model ---- */

bool model_may(const struct model *m, const struct node *n, unsigned user, uint32_t mask);
bool model_in_group(unsigned user, gid_t gid);
/* The nine bits that an ACL means. */
uint32_t model_acl_mode(const struct bytes *acl);
/* Whether named users and groups get no more than the group class does. */
bool model_acl_masked(const struct bytes *acl, uint32_t mode);

/* ---- model_dataset.c, for model_step.c ---- */

int model_find_dataset(const struct model *m, unsigned path);
int model_child_dataset(const struct model *m, int dataset, unsigned name);
unsigned model_prop(const struct model *m, int dataset, unsigned prop, int *from);
void model_dataset_path(const struct model *m, int dataset, char out[TARN_PATH_MAX]);

/* ---- for the parts of the model ---- */

struct bytes *bytes_new(const void *data, size_t len);
struct bytes *bytes_hold(struct bytes *b);
void bytes_drop(struct bytes *b);
int model_new_node(struct model *m, enum tarn_type type, int dataset);
/* Frees the node if nothing leads to it any more. */
void model_settle(struct model *m, int node);

#define ERRS 12
struct errs {
	int n, code[ERRS]; /* one of them must be answered, if there are any */
	bool change;       /* of a pool that may be full */
};
void errs_add(struct errs *e, bool applies, int code);
/* NULL if rc is right. */
const char *errs_check(const struct model *m, const struct errs *e, int rc);
const char *model_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

const char *model_step_dataset(struct model *m, const struct op *op, const struct outcome *seen);

#endif
