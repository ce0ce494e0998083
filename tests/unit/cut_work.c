// SPDX-License-Identifier: LGPL-3.0-or-later
#include "cut_work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/fs.h>

#include "pool_fixture.h"

#define OP(what, where, ...)                                                                       \
	{                                                                                          \
		.kind = CUT_##what, .path = where, ##__VA_ARGS__                                   \
	}
#define W .wait = true

static const struct cut_op create_ops[] = {
    OP(CREATE, "f", .n = TARN_REG, W),    OP(CREATE, "d", .n = TARN_DIR, W),
    OP(CREATE, "d/l", .n = TARN_LNK, W),  OP(CREATE, "b", .n = TARN_BLK),
    OP(CREATE, "d/c", .n = TARN_CHR),     OP(CREATE, "p", .n = TARN_FIFO),
    OP(CREATE, "d/s", .n = TARN_SOCK, W), OP(EXCLUSIVE, "x", .n = 1, W),
    OP(EXCLUSIVE, "d/x", .n = 2),         OP(CREATE, "d/d", .n = TARN_DIR),
    OP(CREATE, "d/d/f", .n = TARN_REG),
};

static const struct cut_op write_ops[] = {
    OP(CREATE, "f", .n = TARN_REG),
    OP(WRITE, "f", .n = 0, .m = 1), /* inline */
    OP(FSYNC, "f"),
    OP(WRITE, "f", .n = 0, .m = 100),
    OP(WRITE, "f", .n = 40, .m = 10),
    OP(FSYNC, "f"),
    OP(CREATE, "g", .n = TARN_REG),
    OP(STABLE, "g", .n = 0, .m = 1),
    OP(STABLE, "f", .n = 120, .m = 20), /* two records */
    OP(WRITE, "f", .n = 0, .m = 300),
    OP(STABLE, "g", .n = 3, .m = 5),
    OP(FSYNC, "f"),
    OP(WRITE, "g", .n = 200, .m = 9, W), /* a hole before it */
    OP(WRITE, "f", .n = 128, .m = 128),
    OP(WRITE, "g", .n = 0, .m = 2),
    OP(MODE, "f", .n = 0600, W),
};

static const struct cut_op range_ops[] = {
    OP(CREATE, "f", .n = TARN_REG),        OP(CREATE, "g", .n = TARN_REG),
    OP(STABLE, "g", .n = 0, .m = 1),       OP(STABLE, "f", .n = 0, .m = 300),
    OP(TRUNCATE, "f", .n = 250, W),        OP(TRUNCATE, "f", .n = 290, W),
    OP(PUNCH, "f", .n = 10, .m = 20, W),   OP(WRITE, "f", .n = 5, .m = 10),
    OP(TRUNCATE, "f", .n = 100),           OP(TRUNCATE, "f", .n = 300, W),
    OP(STABLE, "f", .n = 0, .m = 300),     OP(PUNCH, "f", .n = 100, .m = 180, W),
    OP(ALLOCATE, "g", .n = 0, .m = 50, W), OP(TRUNCATE, "g", .n = 0, W),
    OP(ALLOCATE, "f", .n = 290, .m = 16),  OP(TRUNCATE, "f", .n = 0, W),
};

static const struct cut_op attr_ops[] = {
    OP(CREATE, "f", .n = TARN_REG),
    OP(CREATE, "d", .n = TARN_DIR, W),
    OP(MODE, "f", .n = 0604, W),
    OP(OWNER, "d", .n = 77),
    OP(TIMES, "f", .n = 1000000, W),
    OP(XATTR, "f", .n = 0, .m = 10, W),
    OP(XATTR, "f", .n = 1, .m = 60000, W),
    OP(XATTR, "f", .n = 0, .m = 2000),
    OP(XATTR, "f", .n = 2, .m = 5000),
    OP(XATTR_REMOVE, "f", .n = 1, W),
    OP(OWNER, "f", .n = 5),
    OP(ACL, "f", .n = 3, W),
    OP(ACL, "f", .n = 4),
    OP(XATTR_REMOVE, "f", .n = 0, W),
    OP(ACL, "f", .n = 0, W),
};

static const struct cut_op name_ops[] = {
    OP(CREATE, "d", .n = TARN_DIR),
    OP(CREATE, "e", .n = TARN_DIR),
    OP(CREATE, "f", .n = TARN_REG),
    OP(STABLE, "f", .n = 0, .m = 30),
    OP(CREATE, "d/g", .n = TARN_REG),
    OP(STABLE, "d/g", .n = 0, .m = 140),
    OP(LINK, "f", .to = "d/h", W),
    OP(RENAME, "f", .to = "e/f", W),
    OP(RENAME, "d/g", .to = "d/h", W), /* over a linked one */
    OP(OPEN, "d/h"),
    OP(RENAME, "e/f", .to = "d/h", W), /* over an open one */
    OP(CREATE, "d/s", .n = TARN_DIR),
    OP(CREATE, "d/s/f", .n = TARN_REG),
    OP(RENAME, "d/s", .to = "e/t", W),
    OP(CREATE, "d/s", .n = TARN_DIR, W),
    OP(RENAME, "e/t", .to = "d/s", W), /* over an empty directory */
    OP(UNLINK, "d/s/f"),
    OP(UNLINK, "d/s", W),
    OP(LINK, "d/h", .to = "l"),
    OP(UNLINK, "d/h"),
    OP(OPEN, "l"),
    OP(UNLINK, "l", W), /* open */
    OP(RENAME, "d", .to = "e/d"),
    OP(UNLINK, "e/d", W),
};

static const struct cut_op dataset_ops[] = {
    OP(CREATE, "f", .n = TARN_REG),
    OP(FS_CREATE, "a"),
    OP(CREATE, "a/f", .n = TARN_REG),
    OP(STABLE, "a/f", .n = 0, .m = 20),
    OP(FS_SET, "a", .n = 3),
    OP(FS_CREATE, "a/b"),
    OP(CREATE, "a/b/g", .n = TARN_REG),
    OP(WRITE, "a/b/g", .n = 0, .m = 2),
    OP(CREATE, "g", .n = TARN_REG, W),
    OP(FS_RENAME, "a/b", .to = "c"),
    OP(FS_SET, "c", .n = 4),
    OP(FS_INHERIT, "a", .n = 0),
    OP(FS_INHERIT, "a", .n = 1),
    OP(FS_RENAME, "c", .to = "a/c"),
    OP(CREATE, "a/c/h", .n = TARN_REG),
    OP(FS_DESTROY, "a"),
    OP(UNLINK, "f", W),
};

static const struct cut_op pool_ops[] = {
    OP(CREATE, "f", .n = TARN_REG, W),
    OP(POOL_SET, "", .n = 5),
    OP(WRITE, "f", .n = 0, .m = 200),
    OP(POOL_SET, "", .n = 6),
    OP(FS_SET, "", .n = 7),
    OP(ADD, ""),
    OP(STABLE, "f", .n = 0, .m = 250),
    OP(CREATE, "g", .n = TARN_REG, W),
    OP(FS_INHERIT, "", .n = 1),
};

/* The log moves to the spare device and back. */
static const struct cut_op logdev_ops[] = {
    OP(CREATE, "f", .n = TARN_REG, W),
    OP(STABLE, "f", .n = 0, .m = 3),
    OP(LOG_ADD, ""),
    OP(CREATE, "g", .n = TARN_REG, W),
    OP(STABLE, "f", .n = 0, .m = 150),
    OP(RENAME, "g", .to = "h"),
    OP(FSYNC, "f"),
    OP(CREATE, "g", .n = TARN_REG, W),
    OP(LOG_REMOVE, ""),
    OP(CREATE, "k", .n = TARN_REG, W),
    OP(STABLE, "f", .n = 0, .m = 4),
    OP(UNLINK, "g", W),
    OP(STABLE, "h", .n = 0, .m = 1),
};

/* Nobody waits but in the end. */
static const struct cut_op unwaited_ops[] = {
    OP(CREATE, "f", .n = TARN_REG, W),
    OP(WRITE, "f", .n = 0, .m = 200),
    OP(RENAME, "f", .to = "g"),
    OP(CREATE, "f", .n = TARN_REG),
    OP(WRITE, "f", .n = 0, .m = 3),
    OP(RENAME, "f", .to = "g"),
    OP(CREATE, "d", .n = TARN_DIR),
    OP(RENAME, "g", .to = "d/f"),
    OP(TIMES, "d/f", .n = 12345),
    OP(CREATE, "h", .n = TARN_REG, W),
    OP(LINK, "d/f", .to = "k"),
    OP(TRUNCATE, "k", .n = 1),
    OP(UNLINK, "d/f"),
    OP(UNLINK, "d"),
};

static const struct cut_op destroy_ops[] = {
    OP(CREATE, "f", .n = TARN_REG, W),
    OP(WRITE, "f", .n = 0, .m = 200),
};

#define WORK(list, first, ...)                                                                     \
	{                                                                                          \
		.name = #list, .from = first, .nops = sizeof(list##_ops) / sizeof(list##_ops[0]),  \
		.ops = list##_ops, ##__VA_ARGS__                                                   \
	}

const struct cut_work cut_works[] = {
    WORK(create, 0),
    WORK(write, 0),
    WORK(range, 4),
    WORK(attr, 2),
    WORK(name, 6),
    WORK(dataset, 1),
    WORK(pool, 1),
    WORK(logdev, 1),
    WORK(unwaited, 1),
    {.name = "young"},
    WORK(destroy, 1, .destroys = true),
};
const unsigned cut_nworks = sizeof(cut_works) / sizeof(cut_works[0]);

/* ---- random ---- */

#define UNSETTLED 4 /* unstable writes: what a cut may leave of them multiplies */

struct maker {
	uint64_t random;
	struct cut_world w;
	uint32_t unsettled[UNSETTLED]; /* inodes, for each unstable write */
	unsigned nunsettled;
};

static unsigned dice(struct maker *k, unsigned sides)
{
	return (unsigned)(test_random(&k->random) >> 33) % sides;
}

static void random_name(struct maker *k, char out[CUT_PATH_MAX])
{
	static const char *const dirs[] = {"", "", "d0/", "d1/"};

	snprintf(out, CUT_PATH_MAX, "%s%c", dirs[dice(k, 4)], 'a' + (int)dice(k, 5));
}

/* A directory to work in, once: false if it is there. */
static bool make_dir(struct maker *k, struct cut_op *op)
{
	for (unsigned i = 0; i < 2; i++) {
		snprintf(op->path, sizeof(op->path), "d%u", i);
		if (cut_lookup(&k->w, op->path) < 0) {
			op->kind = CUT_CREATE;
			op->n = TARN_DIR;
			return true;
		}
	}
	return false;
}

static bool try_rename(struct maker *k, struct cut_op *op, int from)
{
	int to;

	random_name(k, op->to);
	to = cut_lookup(&k->w, op->to);
	if (to == from)
		return false;
	op->kind = op->kind == CUT_LINK && to < 0 ? CUT_LINK : CUT_RENAME;
	return true;
}

static void choose_data(struct maker *k, struct cut_op *op)
{
	op->n = dice(k, CUT_UNITS - 1);
	op->m = 1 + dice(k, dice(k, 2) ? 8 : CUT_UNITS);
	if (op->n + op->m > CUT_UNITS)
		op->m = CUT_UNITS - op->n;
}

static bool choose_inode(struct maker *k, struct cut_op *op, int i)
{
	static const enum cut_kind kinds[] = {
	    CUT_WRITE,    CUT_WRITE,    CUT_WRITE,  CUT_STABLE, CUT_FSYNC, CUT_PUNCH,
	    CUT_TRUNCATE, CUT_ALLOCATE, CUT_MODE,   CUT_OWNER,  CUT_TIMES, CUT_XATTR,
	    CUT_LINK,     CUT_RENAME,   CUT_RENAME, CUT_UNLINK, CUT_UNLINK};

	op->kind = kinds[dice(k, sizeof(kinds) / sizeof(kinds[0]))];
	switch (op->kind) {
	case CUT_LINK:
	case CUT_RENAME:
		return try_rename(k, op, i);
	case CUT_UNLINK:
		return true;
	case CUT_MODE:
		op->n = dice(k, 0777);
		return true;
	case CUT_OWNER:
	case CUT_TIMES:
		op->n = 1 + dice(k, 100000);
		return true;
	case CUT_XATTR:
		op->n = dice(k, CUT_XATTRS);
		op->m = 2 + 2 * dice(k, 3000);
		return true;
	case CUT_TRUNCATE:
		op->n = dice(k, CUT_UNITS);
		return true;
	default:
		choose_data(k, op);
		return true;
	}
}

static bool try_op(struct maker *k, struct cut_op *op)
{
	int i;

	*op = (struct cut_op){.wait = dice(k, 4) == 0};
	if (make_dir(k, op))
		return true;
	random_name(k, op->path);
	i = cut_lookup(&k->w, op->path);
	if (i >= 0)
		return choose_inode(k, op, i);
	op->kind = CUT_CREATE;
	op->n = TARN_REG;
	return true;
}

/* The name of a file in the root or in a directory of that; false: it has none left. */
static bool path_of(const struct maker *k, uint32_t serial, char out[CUT_PATH_MAX])
{
	for (unsigned i = 0; i < CUT_NAMES; i++) {
		const struct cut_name *n = &k->w.names[i], *dir = k->w.names;

		if (!n->used || k->w.inodes[n->inode].serial != serial)
			continue;
		while (n->dir && (!dir->used || dir->inode != n->dir))
			dir++;
		snprintf(out, CUT_PATH_MAX, "%s%s%s", n->dir ? dir->name : "", n->dir ? "/" : "",
			 n->name);
		return true;
	}
	return false;
}

static void forget_unsettled(struct maker *k, uint32_t serial)
{
	unsigned n = 0;

	for (unsigned i = 0; i < k->nunsettled; i++) {
		if (k->unsettled[i] != serial)
			k->unsettled[n++] = k->unsettled[i];
	}
	k->nunsettled = n;
}

static bool must_settle(struct maker *k, struct cut_op *op)
{
	while (k->nunsettled == UNSETTLED) {
		if (path_of(k, k->unsettled[0], op->path)) {
			op->kind = CUT_FSYNC;
			return true;
		}
		forget_unsettled(k, k->unsettled[0]);
	}
	return false;
}

static void make_op(struct maker *k, struct cut_op *op, unsigned index)
{
	uint32_t serial;

	*op = (struct cut_op){0};
	if (!must_settle(k, op)) {
		while (!try_op(k, op))
			continue;
	}
	if (op->kind >= CUT_STABLE)
		op->wait = false;
	/* It may be data like an unstable write, which no later answer makes durable. */
	if (op->kind == CUT_PUNCH)
		op->wait = true;
	serial = cut_apply(&k->w, op, index, cut_steps(op));
	if (op->kind == CUT_FSYNC)
		forget_unsettled(k, serial);
	if (op->kind == CUT_WRITE && !op->wait)
		k->unsettled[k->nunsettled++] = serial;
}

static void prefix(const char *own, char path[CUT_PATH_MAX])
{
	char old[CUT_PATH_MAX];

	memcpy(old, path, sizeof(old));
	if (*old)
		snprintf(path, CUT_PATH_MAX, "%s/%.40s", own, old);
}

void cut_random_work(uint64_t seed, unsigned n, const char *own, struct cut_op *ops)
{
	struct maker *k = calloc(1, sizeof(*k));
	unsigned first = own ? 1 : 0;

	if (!k)
		abort();
	k->random = seed;
	cut_world_init(&k->w, 1);
	for (unsigned i = first; i < n; i++)
		make_op(k, &ops[i], i);
	free(k);
	if (!own)
		return;
	ops[0] = (struct cut_op){.kind = CUT_CREATE, .n = TARN_DIR};
	snprintf(ops[0].path, CUT_PATH_MAX, "%s", own);
	for (unsigned i = 1; i < n; i++) {
		prefix(own, ops[i].path);
		prefix(own, ops[i].to);
	}
}
