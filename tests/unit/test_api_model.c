// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Random operations against a pool and against a plain model of files in memory, compared after
 * each; now and then all is compared, the pool is exported, checked and imported again. The seed
 * replays a run.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool_fixture.h"
#include <cmocka.h>

#define NAMES 12 /* few, so that operations meet */
#define NODES_MAX 400
#define FILE_MAX (700u << 10)
#define XATTRS 4

struct node {
	enum tarn_type type;
	uint32_t mode, uid, gid, nlink;
	uint64_t ino, gen, change;
	uint64_t size;
	uint8_t *data; /* REG: FILE_MAX bytes, zero beyond size */
	char *target;
	struct node *parent;       /* DIR */
	struct node *entry[NAMES]; /* DIR */
	uint8_t *xattr[XATTRS];
	uint32_t xattr_len[XATTRS];
};

struct model {
	struct fixture f;
	uint64_t random;
	uint64_t step;
	struct node *nodes[NODES_MAX]; /* those with links; [0] is the root */
	unsigned n;
	const char *last; /* what was done last, for messages */
};

static const char *const names[NAMES] = {"a",      "b",   "c",   "Makefile",     "x.v",
					 "lib",    "top", "src", "\xff\xfe raw", ".hidden",
					 "eleven", NULL};
static char long_name[256];

static const char *name_of(unsigned i)
{
	return names[i] ? names[i] : long_name;
}

static uint64_t below(struct model *m, uint64_t n)
{
	return test_random(&m->random) % n;
}

#define CHECK(m, cond)                                                                             \
	do {                                                                                       \
		if (!(cond))                                                                       \
			fail_msg("step %llu (%s): %s", (unsigned long long)(m)->step, (m)->last,   \
				 #cond);                                                           \
	} while (0)
#define EQUAL(m, a, b)                                                                             \
	do {                                                                                       \
		long long a_ = (long long)(a), b_ = (long long)(b);                                \
		if (a_ != b_)                                                                      \
			fail_msg("step %llu (%s): %s is %lld, the model says %lld",                \
				 (unsigned long long)(m)->step, (m)->last, #a, a_, b_);            \
	} while (0)

/* ---- the model ---- */

static struct node *node_new(struct model *m, enum tarn_type type, uint32_t mode)
{
	struct node *n = calloc(1, sizeof(*n));

	n->type = type;
	n->mode = mode;
	n->nlink = type == TARN_DIR ? 2 : 1;
	if (type == TARN_REG)
		n->data = calloc(1, FILE_MAX);
	m->nodes[m->n++] = n;
	return n;
}

static void node_free(struct node *n)
{
	for (int i = 0; i < XATTRS; i++)
		free(n->xattr[i]);
	free(n->data);
	free(n->target);
	free(n);
}

static void node_drop(struct model *m, struct node *n)
{
	for (unsigned i = 0; i < m->n; i++)
		if (m->nodes[i] == n)
			m->nodes[i] = m->nodes[--m->n];
	node_free(n);
}

static bool is_empty(const struct node *dir)
{
	for (int i = 0; i < NAMES; i++)
		if (dir->entry[i])
			return false;
	return true;
}

static bool is_below(const struct node *n, const struct node *top)
{
	for (; n; n = n->parent)
		if (n == top)
			return true;
	return false;
}

static struct node *pick(struct model *m)
{
	return m->nodes[below(m, m->n)];
}

static struct node *pick_type(struct model *m, enum tarn_type type)
{
	struct node *n = NULL;

	for (int i = 0; i < 40 && (!n || n->type != type); i++)
		n = pick(m);
	return n->type == type ? n : NULL;
}

static struct node *pick_dir(struct model *m)
{
	struct node *n = pick_type(m, TARN_DIR);

	return n ? n : m->nodes[0];
}

static struct tarn_inode *get(struct model *m, const struct node *n)
{
	struct tarn_inode *inode = NULL;

	EQUAL(m, tarn_inode_get(m->f.ds, n->ino, n->gen, &inode), 0);
	return inode;
}

static void compare_attr(struct model *m, struct node *n, const struct tarn_attr *a)
{
	EQUAL(m, a->type, n->type);
	EQUAL(m, a->mode, n->mode);
	EQUAL(m, a->nlink, n->nlink);
	EQUAL(m, a->uid, n->uid);
	EQUAL(m, a->gid, n->gid);
	EQUAL(m, a->ino, n->ino);
	EQUAL(m, a->gen, n->gen);
	if (n->type == TARN_REG)
		EQUAL(m, a->size, n->size);
	CHECK(m, a->change >= n->change);
}

/* After a change: attributes as the model says, change number risen. */
static void changed(struct model *m, struct node *n, const struct tarn_attr *a)
{
	compare_attr(m, n, a);
	CHECK(m, a->change > n->change);
	n->change = a->change;
}

static void check_now(struct model *m, struct node *n)
{
	struct tarn_inode *inode = get(m, n);
	struct tarn_attr a;

	EQUAL(m, tarn_getattr(inode, &a), 0);
	compare_attr(m, n, &a);
	n->change = a.change;
	tarn_inode_put(inode);
}

/* ---- operations on names ---- */

static void op_create(struct model *m)
{
	static const enum tarn_type types[] = {TARN_REG, TARN_REG, TARN_REG,  TARN_DIR,
					       TARN_DIR, TARN_LNK, TARN_FIFO, TARN_CHR};
	struct node *dir = pick_dir(m), *n;
	unsigned name = (unsigned)below(m, NAMES);
	struct tarn_create how = {.type = types[below(m, 8)],
				  .set = {.mask = TARN_SET_MODE, .mode = below(m, 010000) & 0777}};
	struct tarn_inode *d, *inode = NULL;
	struct tarn_attr post, dir_post;
	struct tarn_commit token;
	int rc;

	m->last = "create";
	if (m->n == NODES_MAX)
		return;
	if (how.type == TARN_LNK)
		how.target = "some/where/else";
	if (how.type == TARN_CHR)
		how.rdev_major = 5, how.rdev_minor = 1;
	d = get(m, dir);
	rc = tarn_create(NULL, d, name_of(name), &how, &inode, &post, &dir_post, &token);
	EQUAL(m, rc, dir->entry[name] ? -EEXIST : 0);
	if (!rc) {
		n = node_new(m, how.type, how.set.mode);
		n->ino = tarn_inode_number(inode);
		n->gen = tarn_inode_generation(inode);
		if (how.type == TARN_LNK) {
			n->target = strdup(how.target);
			n->mode = post.mode;
		}
		dir->entry[name] = n;
		if (how.type == TARN_DIR) {
			n->parent = dir;
			dir->nlink++;
		}
		changed(m, n, &post);
		changed(m, dir, &dir_post);
	}
	if (inode) {
		EQUAL(m, tarn_inode_number(inode), dir->entry[name]->ino);
		tarn_inode_put(inode);
	}
	tarn_inode_put(d);
}

static void op_lookup(struct model *m)
{
	struct node *dir = pick_dir(m);
	unsigned name = (unsigned)below(m, NAMES);
	struct tarn_inode *d = get(m, dir), *inode;
	int rc = tarn_lookup(NULL, d, name_of(name), &inode);

	m->last = "lookup";
	EQUAL(m, rc, dir->entry[name] ? 0 : -ENOENT);
	if (!rc) {
		EQUAL(m, tarn_inode_number(inode), dir->entry[name]->ino);
		tarn_inode_put(inode);
	}
	EQUAL(m, tarn_lookup(NULL, d, "..", &inode), 0);
	EQUAL(m, tarn_inode_number(inode), dir->parent ? dir->parent->ino : dir->ino);
	tarn_inode_put(inode);
	tarn_inode_put(d);
}

/* One name of n less. */
static void lose_name(struct model *m, struct node *n)
{
	if (n->type == TARN_DIR || --n->nlink == 0)
		node_drop(m, n);
}

static void op_unlink(struct model *m)
{
	struct node *dir = pick_dir(m), *n;
	unsigned name = (unsigned)below(m, NAMES);
	int is_dir = (int)below(m, 3) - 1, want = 0, rc;
	struct tarn_inode *d = get(m, dir);
	struct tarn_attr post;
	struct tarn_commit token;

	m->last = "unlink";
	n = dir->entry[name];
	if (!n)
		want = -ENOENT;
	else if (is_dir == 0 && n->type == TARN_DIR)
		want = -EISDIR;
	else if (is_dir == 1 && n->type != TARN_DIR)
		want = -ENOTDIR;
	else if (n->type == TARN_DIR && !is_empty(n))
		want = -ENOTEMPTY;
	rc = tarn_unlink(NULL, d, name_of(name), is_dir, &post, &token);
	EQUAL(m, rc, want);
	if (!rc) {
		dir->entry[name] = NULL;
		dir->nlink -= n->type == TARN_DIR;
		lose_name(m, n);
		changed(m, dir, &post);
	}
	tarn_inode_put(d);
}

static void op_link(struct model *m)
{
	struct node *n = pick(m), *dir = pick_dir(m);
	unsigned name = (unsigned)below(m, NAMES);
	struct tarn_inode *inode = get(m, n), *d = get(m, dir);
	struct tarn_attr post, dir_post;
	struct tarn_commit token;
	int rc = tarn_link(NULL, inode, d, name_of(name), &post, &dir_post, &token);

	m->last = "link";
	if (n->type == TARN_DIR && dir->entry[name])
		CHECK(m, rc == -EPERM || rc == -EEXIST || rc == -EISDIR);
	else if (n->type == TARN_DIR)
		CHECK(m, rc == -EPERM || rc == -EISDIR);
	else
		EQUAL(m, rc, dir->entry[name] ? -EEXIST : 0);
	if (!rc) {
		n->nlink++;
		dir->entry[name] = n;
		changed(m, n, &post);
		changed(m, dir, &dir_post);
	}
	tarn_inode_put(d);
	tarn_inode_put(inode);
}

/* The error that rename must give, 0 for success. *either: another one is as right. */
static int rename_error(const struct node *from, unsigned a, const struct node *to, unsigned b,
			int *either)
{
	struct node *n = from->entry[a], *t = to->entry[b];

	*either = 0;
	if (!n)
		return -ENOENT;
	if (n == t)
		return 0;
	if (n->type == TARN_DIR && is_below(to, n)) {
		*either = t ? -ENOTEMPTY : -EINVAL;
		return -EINVAL;
	}
	if (!t)
		return 0;
	if (n->type == TARN_DIR && t->type != TARN_DIR)
		return -ENOTDIR;
	if (n->type != TARN_DIR && t->type == TARN_DIR) {
		*either = is_empty(t) ? -EISDIR : -ENOTEMPTY;
		return -EISDIR;
	}
	if (t->type == TARN_DIR && !is_empty(t))
		return -ENOTEMPTY;
	return 0;
}

static void model_rename(struct model *m, struct node *from, unsigned a, struct node *to,
			 unsigned b)
{
	struct node *n = from->entry[a], *t = to->entry[b];

	if (n == t)
		return;
	from->entry[a] = NULL;
	to->entry[b] = n;
	if (n->type == TARN_DIR) {
		from->nlink--;
		to->nlink++;
		n->parent = to;
	}
	if (t) {
		to->nlink -= t->type == TARN_DIR;
		lose_name(m, t);
	}
}

static void op_rename(struct model *m)
{
	struct node *from = pick_dir(m), *to = below(m, 2) ? pick_dir(m) : from;
	unsigned a = (unsigned)below(m, NAMES), b = (unsigned)below(m, NAMES);
	struct tarn_inode *fd = get(m, from), *td = get(m, to);
	struct tarn_attr from_post, to_post;
	struct tarn_commit token;
	int either, want = rename_error(from, a, to, b, &either), rc;
	bool same = from->entry[a] && from->entry[a] == to->entry[b];

	m->last = "rename";
	rc = tarn_rename(NULL, fd, name_of(a), td, name_of(b), &from_post, &to_post, &token);
	if (!either || rc != either)
		EQUAL(m, rc, want);
	if (!rc) {
		struct node *moved = from->entry[a];

		model_rename(m, from, a, to, b);
		if (!same) {
			compare_attr(m, from, &from_post);
			changed(m, to, &to_post);
			check_now(m, moved);
		}
	}
	tarn_inode_put(fd);
	tarn_inode_put(td);
}

/* ---- operations on data ---- */

static void op_write(struct model *m)
{
	struct node *n = pick_type(m, TARN_REG);
	uint64_t offset = below(m, 3) ? below(m, 20000) : below(m, FILE_MAX - 1);
	size_t len = 1 + (below(m, 4) ? below(m, 9000) : below(m, 300000));
	struct tarn_inode *inode;
	uint8_t *buf;

	m->last = "write";
	if (!n)
		return;
	if (offset + len > FILE_MAX)
		len = FILE_MAX - offset;
	buf = malloc(len);
	memset(buf, (int)(1 + m->step % 255), len);
	memcpy(buf, &m->step, len < 8 ? len : 8);
	inode = get(m, n);
	EQUAL(m, fixture_write(inode, offset, buf, len, below(m, 50) == 0), 0);
	memcpy(n->data + offset, buf, len);
	if (offset + len > n->size)
		n->size = offset + len;
	free(buf);
	tarn_inode_put(inode);
	check_now(m, n);
}

static void compare_data(struct model *m, struct node *n, uint64_t offset, size_t len)
{
	struct tarn_inode *inode = get(m, n);
	uint8_t *buf = malloc(len + 1);
	uint64_t want = offset >= n->size ? 0 : n->size - offset < len ? n->size - offset : len;
	size_t done;
	bool eof;

	memset(buf, 0xEE, len);
	EQUAL(m, fixture_read(inode, offset, buf, len, &done, &eof), 0);
	EQUAL(m, done, want);
	EQUAL(m, eof, offset + want >= n->size);
	for (size_t i = 0; i < done; i++)
		if (buf[i] != n->data[offset + i])
			fail_msg("step %llu (%s): inode %llu byte %llu is %u, the model says %u",
				 (unsigned long long)m->step, m->last, (unsigned long long)n->ino,
				 (unsigned long long)offset + i, buf[i], n->data[offset + i]);
	free(buf);
	tarn_inode_put(inode);
}

static void op_read(struct model *m)
{
	struct node *n = pick_type(m, TARN_REG);

	m->last = "read";
	if (n)
		compare_data(m, n, below(m, n->size + 5000), 1 + below(m, 200000));
}

static void op_truncate(struct model *m)
{
	struct node *n = pick_type(m, TARN_REG);
	struct tarn_setattr set = {.mask = TARN_SET_SIZE};
	struct tarn_inode *inode;
	struct tarn_attr post;
	struct tarn_commit token;

	m->last = "truncate";
	if (!n)
		return;
	set.size = below(m, 2) ? below(m, n->size + 1) : below(m, FILE_MAX);
	inode = get(m, n);
	EQUAL(m, tarn_setattr(NULL, inode, &set, &post, &token), 0);
	if (set.size < n->size)
		memset(n->data + set.size, 0, n->size - set.size);
	n->size = set.size;
	changed(m, n, &post);
	tarn_inode_put(inode);
}

static void op_punch(struct model *m)
{
	struct node *n = pick_type(m, TARN_REG);
	uint64_t offset, len, end;
	struct tarn_inode *inode;
	struct tarn_commit token;

	m->last = "punch";
	if (!n)
		return;
	offset = below(m, FILE_MAX);
	len = 1 + below(m, FILE_MAX - offset);
	inode = get(m, n);
	EQUAL(m, tarn_punch(NULL, inode, offset, len, &token), 0);
	end = offset + len < n->size ? offset + len : n->size;
	if (offset < end)
		memset(n->data + offset, 0, end - offset);
	tarn_inode_put(inode);
	check_now(m, n);
}

static void op_allocate(struct model *m)
{
	struct node *n = pick_type(m, TARN_REG);
	uint64_t offset = below(m, 100000), len = 1 + below(m, 100000);
	struct tarn_inode *inode;
	struct tarn_commit token;

	m->last = "allocate";
	if (!n)
		return;
	inode = get(m, n);
	EQUAL(m, tarn_allocate(NULL, inode, offset, len, &token), 0);
	if (offset + len > n->size)
		n->size = offset + len;
	tarn_inode_put(inode);
	check_now(m, n);
}

static bool all_zero(const struct node *n, uint64_t from, uint64_t to)
{
	for (; from < to; from++)
		if (n->data[from])
			return false;
	return true;
}

static void op_seek(struct model *m)
{
	struct node *n = pick_type(m, TARN_REG);
	struct tarn_inode *inode;
	uint64_t offset, data, hole;
	bool eof;

	m->last = "seek";
	if (!n || !n->size)
		return;
	offset = below(m, n->size);
	inode = get(m, n);
	EQUAL(m, tarn_seek(inode, offset, false, &data, &eof), 0);
	if (eof)
		data = n->size;
	CHECK(m, data >= offset && data <= n->size);
	CHECK(m, all_zero(n, offset, data));
	EQUAL(m, tarn_seek(inode, offset, true, &hole, &eof), 0);
	CHECK(m, !eof && hole >= offset && hole <= n->size);
	if (hole < n->size)
		CHECK(m, n->data[hole] == 0);
	tarn_inode_put(inode);
}

/* ---- attributes ---- */

static void op_setattr(struct model *m)
{
	struct node *n = pick(m);
	struct tarn_setattr set = {
	    .mode = below(m, 010000) & 0777,
	    .uid = (uid_t)below(m, 5000000000ull),
	    .gid = (gid_t)below(m, 1000),
	    .mtime = {(time_t)below(m, 2000000000), (long)below(m, 1000000000)}};
	struct tarn_inode *inode = get(m, n);
	struct tarn_attr post;
	struct tarn_commit token;

	m->last = "setattr";
	set.mask = below(m, 8) | (below(m, 2) ? TARN_SET_MTIME : 0);
	if (!set.mask)
		set.mask = TARN_SET_MODE;
	EQUAL(m, tarn_setattr(NULL, inode, &set, &post, &token), 0);
	if (set.mask & TARN_SET_MODE)
		n->mode = set.mode;
	if (set.mask & TARN_SET_UID)
		n->uid = set.uid;
	if (set.mask & TARN_SET_GID)
		n->gid = set.gid;
	if (set.mask & TARN_SET_MTIME) {
		EQUAL(m, post.mtime.tv_sec, set.mtime.tv_sec);
		EQUAL(m, post.mtime.tv_nsec, set.mtime.tv_nsec);
	}
	changed(m, n, &post);
	tarn_inode_put(inode);
}

static const char *const xattr_names[XATTRS] = {"one", "two", "three", "a.longer.name"};

static void op_xattr(struct model *m)
{
	struct node *n = pick(m);
	unsigned x = (unsigned)below(m, XATTRS);
	enum tarn_xattr_how how = (enum tarn_xattr_how)below(m, 3);
	size_t len = below(m, 5) ? below(m, 200) : below(m, TARN_XATTR_MAX + 1);
	struct tarn_inode *inode = get(m, n);
	struct tarn_commit token;
	uint8_t *buf = malloc(len + 1);
	int want = 0;

	m->last = "xattr set";
	memset(buf, (int)(m->step % 251), len);
	if (how == TARN_XATTR_CREATE && n->xattr[x])
		want = -EEXIST;
	if (how == TARN_XATTR_REPLACE && !n->xattr[x])
		want = -ENODATA;
	EQUAL(m, tarn_xattr_set(NULL, inode, xattr_names[x], buf, len, how, &token), want);
	if (!want) {
		free(n->xattr[x]);
		n->xattr[x] = buf;
		n->xattr_len[x] = (uint32_t)len;
	} else {
		free(buf);
	}
	tarn_inode_put(inode);
}

static void op_xattr_remove(struct model *m)
{
	struct node *n = pick(m);
	unsigned x = (unsigned)below(m, XATTRS);
	struct tarn_inode *inode = get(m, n);
	struct tarn_commit token;

	m->last = "xattr remove";
	EQUAL(m, tarn_xattr_remove(NULL, inode, xattr_names[x], &token),
	      n->xattr[x] ? 0 : -ENODATA);
	free(n->xattr[x]);
	n->xattr[x] = NULL;
	tarn_inode_put(inode);
}

/* ---- everything ---- */

static void compare_xattrs(struct model *m, struct node *n, struct tarn_inode *inode)
{
	uint8_t *buf = malloc(TARN_XATTR_MAX);

	for (int x = 0; x < XATTRS; x++) {
		size_t len = TARN_XATTR_MAX;
		int rc = tarn_xattr_get(inode, xattr_names[x], buf, &len);

		EQUAL(m, rc, n->xattr[x] ? 0 : -ENODATA);
		if (rc)
			continue;
		EQUAL(m, len, n->xattr_len[x]);
		CHECK(m, memcmp(buf, n->xattr[x], len) == 0);
	}
	free(buf);
}

struct listing {
	struct model *m;
	struct node *dir;
	unsigned seen;
	uint64_t cookie, stop_after;
};

static bool on_entry(void *arg, const struct tarn_dirent *e)
{
	struct listing *l = arg;
	struct model *m = l->m;
	int found = -1;

	for (int i = 0; i < NAMES; i++)
		if (strcmp(name_of((unsigned)i), e->name) == 0)
			found = i;
	CHECK(m, found >= 0 && l->dir->entry[found]);
	EQUAL(m, tarn_inode_number(e->inode), l->dir->entry[found]->ino);
	CHECK(m, e->cookie > l->cookie && e->cookie < 0x80000000u);
	l->cookie = e->cookie;
	l->seen++;
	return --l->stop_after != 0;
}

static void compare_dir(struct model *m, struct node *dir, struct tarn_inode *inode)
{
	struct listing l = {.m = m, .dir = dir};
	unsigned want = 0;
	bool eof = false;

	while (!eof) {
		l.stop_after = 1 + below(m, 4);
		EQUAL(m, tarn_readdir(inode, l.cookie, on_entry, &l, &eof), 0);
	}
	for (int i = 0; i < NAMES; i++)
		want += dir->entry[i] != NULL;
	EQUAL(m, l.seen, want);
}

static void compare_all(struct model *m)
{
	m->last = "compare";
	for (unsigned i = 0; i < m->n; i++) {
		struct node *n = m->nodes[i];
		struct tarn_inode *inode = get(m, n);
		struct tarn_attr a;

		EQUAL(m, tarn_getattr(inode, &a), 0);
		compare_attr(m, n, &a);
		compare_xattrs(m, n, inode);
		if (n->type == TARN_REG)
			compare_data(m, n, 0, FILE_MAX);
		if (n->type == TARN_DIR)
			compare_dir(m, n, inode);
		if (n->type == TARN_LNK) {
			char *target;

			EQUAL(m, tarn_readlink(inode, &target), 0);
			CHECK(m, strcmp(target, n->target) == 0);
			free(target);
		}
		tarn_inode_put(inode);
	}
}

static void adopt_root(struct model *m)
{
	struct node *root = node_new(m, TARN_DIR, 0755);
	struct tarn_inode *inode;

	assert_int_equal(tarn_root(m->f.ds, &inode), 0);
	root->ino = tarn_inode_number(inode);
	root->gen = tarn_inode_generation(inode);
	tarn_inode_put(inode);
	check_now(m, root);
}

static void (*const ops[])(struct model *m) = {
    op_create,   op_create, op_create, op_lookup,   op_unlink,  op_unlink, op_link,
    op_rename,   op_rename, op_write,  op_write,    op_write,   op_read,   op_read,
    op_truncate, op_punch,  op_seek,   op_allocate, op_setattr, op_xattr,  op_xattr_remove,
};

static void run(uint64_t steps, uint32_t recordsize, bool mirror)
{
	struct model m = {.random = test_seed()};
	struct tarn_error err = {0};
	char value[16];
	struct tarn_prop prop = {"recordsize", value};

	memset(long_name, 'n', 255);
	fixture_begin(&m.f, 2, 512 << 20, mirror, NULL);
	snprintf(value, sizeof(value), "%u", recordsize);
	assert_int_equal(tarn_dataset_set(m.f.engine, FIXTURE_POOL, &prop, 1, &err), 0);
	adopt_root(&m);
	for (m.step = 1; m.step <= steps; m.step++) {
		ops[below(&m, sizeof(ops) / sizeof(ops[0]))](&m);
		if (m.step % 1000 == 0)
			compare_all(&m);
		if (m.step % 2500 == 0) {
			m.last = "remount";
			fixture_remount(&m.f);
			compare_all(&m);
		}
	}
	compare_all(&m);
	fixture_end(&m.f);
	while (m.n)
		node_drop(&m, m.nodes[m.n - 1]);
}

static void test_small_records(void **state)
{
	(void)state;
	run(6000ull * test_scale(), 4096, true);
}

static void test_default_records(void **state)
{
	(void)state;
	run(6000ull * test_scale(), 131072, false);
}

static void test_large_records(void **state)
{
	(void)state;
	run(3000ull * test_scale(), 1 << 20, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_small_records),
	    cmocka_unit_test(test_default_records),
	    cmocka_unit_test(test_large_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
