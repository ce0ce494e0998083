// SPDX-License-Identifier: LGPL-3.0-or-later
#include "cut_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/fs.h>

/* ---- names ---- */

void cut_world_init(struct cut_world *w, uint32_t ndevs)
{
	memset(w, 0, sizeof(*w));
	w->ndevs = ndevs;
	w->inodes[0] = (struct cut_inode){.used = true, .dataset = true, .type = TARN_DIR};
}

unsigned cut_inode_new(struct cut_world *w)
{
	unsigned i = 1;

	while (i < CUT_INODES && w->inodes[i].used)
		i++;
	if (i == CUT_INODES)
		abort();
	w->inodes[i] = (struct cut_inode){.used = true};
	return i;
}

void cut_name_add(struct cut_world *w, unsigned dir, const char *name, unsigned inode)
{
	unsigned i = 0;

	while (i < CUT_NAMES && w->names[i].used)
		i++;
	if (i == CUT_NAMES)
		abort();
	w->names[i] = (struct cut_name){.used = true, .dir = (uint8_t)dir, .inode = (uint8_t)inode};
	snprintf(w->names[i].name, sizeof(w->names[i].name), "%s", name);
	w->inodes[inode].nlink++;
}

static const struct cut_name *find(const struct cut_world *w, unsigned dir, const char *name)
{
	for (unsigned i = 0; i < CUT_NAMES; i++) {
		const struct cut_name *n = &w->names[i];

		if (n->used && n->dir == dir && strcmp(n->name, name) == 0)
			return n;
	}
	return NULL;
}

/* The directory of path's last component, which goes to `last`; -1: none. */
static int parent(const struct cut_world *w, const char *path, char last[CUT_NAME_MAX + 1])
{
	unsigned dir = 0;

	for (;;) {
		const char *slash = strchr(path, '/');
		size_t len = slash ? (size_t)(slash - path) : strlen(path);
		const struct cut_name *n;

		memcpy(last, path, len);
		last[len] = '\0';
		if (!slash)
			return (int)dir;
		n = find(w, dir, last);
		if (!n)
			return -1;
		dir = n->inode;
		path = slash + 1;
	}
}

static struct cut_name *find_path(const struct cut_world *w, const char *path)
{
	char last[CUT_NAME_MAX + 1];
	int dir = parent(w, path, last);

	return dir < 0 ? NULL : (struct cut_name *)find(w, (unsigned)dir, last);
}

int cut_lookup(const struct cut_world *w, const char *path)
{
	const struct cut_name *n;

	if (!*path)
		return 0;
	n = find_path(w, path);
	return n ? n->inode : -1;
}

unsigned cut_count_names(const struct cut_world *w, unsigned dir)
{
	unsigned count = 0;

	for (unsigned i = 0; i < CUT_NAMES; i++)
		count += w->names[i].used && w->names[i].dir == dir;
	return count;
}

static void remove_name(struct cut_world *w, struct cut_name *n)
{
	struct cut_inode *inode = &w->inodes[n->inode];

	n->used = false;
	if (--inode->nlink == 0)
		inode->used = false;
}

static void remove_below(struct cut_world *w, unsigned dir)
{
	for (unsigned i = 0; i < CUT_NAMES; i++) {
		if (!w->names[i].used || w->names[i].dir != dir)
			continue;
		remove_below(w, w->names[i].inode);
		remove_name(w, &w->names[i]);
	}
}

static void add_path(struct cut_world *w, const char *path, unsigned inode)
{
	char last[CUT_NAME_MAX + 1];
	int dir = parent(w, path, last);

	if (dir < 0)
		abort();
	cut_name_add(w, (unsigned)dir, last, inode);
}

static void rename_path(struct cut_world *w, const char *from, const char *to)
{
	struct cut_name *old = find_path(w, from), *over = find_path(w, to);
	unsigned inode = old->inode;

	if (over && over->inode == inode)
		return;
	if (over)
		remove_name(w, over);
	old->used = false;
	w->inodes[inode].nlink--;
	add_path(w, to, inode);
}

/* ---- operations ---- */

static void create(struct cut_world *w, const struct cut_op *op, unsigned index)
{
	unsigned i = cut_inode_new(w);
	struct cut_inode *inode = &w->inodes[i];

	inode->serial = index + 1;
	inode->type = TARN_REG;
	inode->mode = 0640;
	if (op->kind == CUT_EXCLUSIVE) {
		inode->verifier = op->n;
	} else if (op->kind == CUT_FS_CREATE) {
		inode->type = TARN_DIR;
		inode->dataset = true;
	} else {
		inode->type = (uint8_t)op->n;
		if (op->n == TARN_LNK) {
			inode->target = index + 1;
			inode->mode = CUT_UNKNOWN;
		}
		if (op->n == TARN_BLK || op->n == TARN_CHR)
			inode->rdev = index + 1;
	}
	add_path(w, op->path, i);
}

static void set_data(struct cut_inode *inode, unsigned from, unsigned to, uint32_t stamp)
{
	for (unsigned i = from; i < to && i < CUT_UNITS; i++)
		inode->data[i] = (uint16_t)stamp;
}

static void resize(struct cut_inode *inode, unsigned units)
{
	set_data(inode, units, CUT_UNITS, 0);
	inode->units = units;
	inode->mtime = CUT_UNKNOWN;
}

/* Over several records: what it has of the first one, of the last one, and all between. */
static void punch(struct cut_inode *inode, const struct cut_op *op, unsigned steps)
{
	unsigned end = op->n + op->m < inode->units ? op->n + op->m : inode->units;
	unsigned from = (op->n + CUT_RECORD - 1) / CUT_RECORD * CUT_RECORD;
	unsigned to = end == inode->units ? end : end - end % CUT_RECORD;

	if (op->n >= inode->units)
		return;
	inode->mtime = CUT_UNKNOWN;
	if (from >= to || steps == 3) {
		set_data(inode, op->n, end, 0);
		return;
	}
	set_data(inode, op->n, from, 0);
	if (steps == 2)
		set_data(inode, to, end, 0);
}

static void change(struct cut_inode *inode, const struct cut_op *op, unsigned index, unsigned steps)
{
	switch (op->kind) {
	case CUT_WRITE:
	case CUT_STABLE:
		set_data(inode, op->n, op->n + op->m, index + 1);
		if (inode->units < op->n + op->m)
			inode->units = op->n + op->m;
		inode->mtime = CUT_UNKNOWN;
		break;
	case CUT_TRUNCATE:
		resize(inode, op->n);
		break;
	case CUT_PUNCH:
		punch(inode, op, steps);
		break;
	case CUT_ALLOCATE:
		resize(inode, inode->units < op->n + op->m ? op->n + op->m : inode->units);
		break;
	case CUT_MODE:
		inode->mode = op->n;
		inode->acl = inode->acl ? CUT_UNKNOWN : 0;
		break;
	case CUT_OWNER:
		inode->uid = op->n;
		inode->gid = op->n + 1;
		break;
	case CUT_TIMES:
		inode->mtime = op->n;
		break;
	case CUT_ACL:
		inode->acl = op->n;
		inode->mode = CUT_UNKNOWN;
		break;
	case CUT_XATTR:
		inode->xattr[op->n] = op->m << 16 | (index + 1);
		break;
	case CUT_XATTR_REMOVE:
		inode->xattr[op->n] = 0;
		break;
	case CUT_FS_SET:
		inode->values[0] = inode->values[1] = op->n;
		break;
	case CUT_FS_INHERIT:
		inode->values[op->n] = 0;
		break;
	default:
		break;
	}
}

unsigned cut_steps(const struct cut_op *op)
{
	return op->kind == CUT_PUNCH ? 3 : 1;
}

uint32_t cut_apply(struct cut_world *w, const struct cut_op *op, unsigned index, unsigned steps)
{
	struct cut_name *n;
	uint32_t serial;
	int i;

	switch (op->kind) {
	case CUT_CREATE:
	case CUT_EXCLUSIVE:
	case CUT_FS_CREATE:
		create(w, op, index);
		return index + 1;
	case CUT_POOL_SET:
		w->comment = op->n;
		return 0;
	case CUT_LOG_REMOVE:
		w->ndevs--;
		return 0;
	case CUT_ADD:
	case CUT_LOG_ADD:
		w->ndevs++;
		return 0;
	case CUT_EXPORT:
		return 0;
	default:
		break;
	}
	i = cut_lookup(w, op->path);
	if (i < 0)
		abort();
	serial = w->inodes[i].serial;
	n = *op->path ? find_path(w, op->path) : NULL;
	if (op->kind == CUT_LINK) {
		add_path(w, op->to, (unsigned)i);
	} else if (op->kind == CUT_RENAME || op->kind == CUT_FS_RENAME) {
		rename_path(w, op->path, op->to);
	} else if (op->kind == CUT_UNLINK) {
		remove_name(w, n);
	} else if (op->kind == CUT_FS_DESTROY) {
		remove_below(w, (unsigned)i);
		remove_name(w, n);
	} else {
		change(&w->inodes[i], op, index, steps);
	}
	return serial;
}

/* ---- comparison ---- */

struct comparison {
	const struct cut_world *found, *allowed;
	int found_for[CUT_INODES]; /* allowed inode -> found one, -1 not met yet */
	char *why;
};

static bool differ(struct comparison *c, const char *path, const char *what, uint32_t found,
		   uint32_t allowed)
{
	snprintf(c->why, 256, "%s: %s is %d (0x%x), not %d (0x%x)", *path ? path : "/", what,
		 (int)found, found, (int)allowed, allowed);
	return false;
}

static bool same_data(struct comparison *c, const struct cut_inode *f, const struct cut_inode *a,
		      const char *path)
{
	if (f->units != a->units)
		return differ(c, path, "size in units", f->units, a->units);
	for (unsigned i = 0; i < a->units; i++) {
		if (f->data[i] != a->data[i])
			return snprintf(c->why, 256, "%s: unit %u has stamp %u, not %u", path, i,
					f->data[i], a->data[i]),
			       false;
	}
	return true;
}

#define SAME(field)                                                                                \
	do {                                                                                       \
		if (a->field != CUT_UNKNOWN && f->field != a->field)                               \
			return differ(c, path, #field, f->field, a->field);                        \
	} while (0)

static bool same_inode(struct comparison *c, const struct cut_inode *f, const struct cut_inode *a,
		       const char *path)
{
	if (f->dataset != a->dataset)
		return differ(c, path, "dataset", f->dataset, a->dataset);
	if (f->type != a->type)
		return differ(c, path, "type", f->type, a->type);
	if (a->dataset) {
		SAME(values[0]);
		SAME(values[1]);
		return true;
	}
	SAME(mode);
	SAME(uid);
	SAME(gid);
	if (a->type == TARN_DIR)
		return true;
	SAME(nlink);
	SAME(rdev);
	SAME(target);
	if (a->mtime)
		SAME(mtime);
	SAME(acl);
	SAME(verifier);
	for (unsigned i = 0; i < CUT_XATTRS; i++)
		SAME(xattr[i]);
	return same_data(c, f, a, path);
}

static bool same_dir(struct comparison *c, unsigned found, unsigned allowed, const char *path)
{
	unsigned nf = cut_count_names(c->found, found), na = cut_count_names(c->allowed, allowed);

	for (unsigned i = 0; i < CUT_NAMES; i++) {
		const struct cut_name *a = &c->allowed->names[i], *f;
		char below[CUT_PATH_MAX + CUT_NAME_MAX + 2];

		if (!a->used || a->dir != allowed)
			continue;
		snprintf(below, sizeof(below), "%.*s/%s", CUT_PATH_MAX, path, a->name);
		f = find(c->found, found, a->name);
		if (!f)
			return snprintf(c->why, 256, "%s is not there", below), false;
		if (c->found_for[a->inode] >= 0 && c->found_for[a->inode] != f->inode)
			return snprintf(c->why, 256, "%s: another inode than its other name",
					below),
			       false;
		c->found_for[a->inode] = f->inode;
		if (!same_inode(c, &c->found->inodes[f->inode], &c->allowed->inodes[a->inode],
				below) ||
		    !same_dir(c, f->inode, a->inode, below))
			return false;
	}
	return nf == na || differ(c, path, "number of names", nf, na);
}

bool cut_same(const struct cut_world *found, const struct cut_world *allowed, char why[256])
{
	struct comparison c = {.found = found, .allowed = allowed, .why = why};

	memset(c.found_for, -1, sizeof(c.found_for));
	if (found->comment != allowed->comment)
		return differ(&c, "pool", "comment", found->comment, allowed->comment);
	if (found->ndevs != allowed->ndevs)
		return differ(&c, "pool", "number of devices", found->ndevs, allowed->ndevs);
	return same_inode(&c, &found->inodes[0], &allowed->inodes[0], "") && same_dir(&c, 0, 0, "");
}

/* ---- content ---- */

void cut_fill(uint32_t stamp, unsigned unit, uint8_t out[CUT_UNIT])
{
	uint64_t x = (uint64_t)stamp << 32 | unit;

	memset(out, 0, CUT_UNIT);
	for (unsigned i = 0; stamp && i < CUT_UNIT; i += 8) {
		memcpy(out + i, &x, 8);
		x = x * 6364136223846793005ull + 1442695040888963407ull;
	}
}

uint32_t cut_stamp(const uint8_t *data, unsigned unit)
{
	uint8_t want[CUT_UNIT];
	uint64_t x;

	memcpy(&x, data, 8);
	if (x && (uint32_t)x != unit)
		return CUT_BAD;
	cut_fill((uint32_t)(x >> 32), unit, want);
	return memcmp(data, want, CUT_UNIT) == 0 ? (uint32_t)(x >> 32) : CUT_BAD;
}

void cut_print_op(const struct cut_op *op, char out[160])
{
	static const char *const names[] = {
	    [CUT_CREATE] = "create",
	    [CUT_EXCLUSIVE] = "exclusive create",
	    [CUT_WRITE] = "write",
	    [CUT_TRUNCATE] = "truncate",
	    [CUT_PUNCH] = "punch",
	    [CUT_ALLOCATE] = "allocate",
	    [CUT_MODE] = "chmod",
	    [CUT_OWNER] = "chown",
	    [CUT_TIMES] = "utimes",
	    [CUT_ACL] = "set acl",
	    [CUT_XATTR] = "set xattr",
	    [CUT_XATTR_REMOVE] = "remove xattr",
	    [CUT_LINK] = "link",
	    [CUT_UNLINK] = "unlink",
	    [CUT_RENAME] = "rename",
	    [CUT_STABLE] = "stable write",
	    [CUT_FSYNC] = "fsync",
	    [CUT_FS_CREATE] = "fs create",
	    [CUT_FS_DESTROY] = "fs destroy",
	    [CUT_FS_RENAME] = "fs rename",
	    [CUT_FS_SET] = "fs set",
	    [CUT_FS_INHERIT] = "fs inherit",
	    [CUT_POOL_SET] = "pool set",
	    [CUT_ADD] = "pool add",
	    [CUT_LOG_ADD] = "pool add log",
	    [CUT_LOG_REMOVE] = "pool remove",
	    [CUT_EXPORT] = "export",
	    [CUT_OPEN] = "open",
	};

	snprintf(out, 160, "%s %s %s %u %u%s", names[op->kind], op->path, op->to, op->n, op->m,
		 op->wait ? ", waited for" : "");
}
