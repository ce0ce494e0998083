// SPDX-License-Identifier: LGPL-3.0-or-later
#include "name_rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DEV_BYTES (512ull << 20)

struct fixture f;
struct tarn_inode *root;

static void log_line(enum tarn_log_level level, const char *text)
{
	if (level >= TARN_LOG_WARN)
		print_error("log: %s\n", text);
}

int name_setup(void **state)
{
	struct tarn_config config = {
	    .arc_max = 16 << 20, .dirty_max = 16 << 20, .threads = 2, .log = log_line};

	(void)state;
	fixture_begin(&f, 1, DEV_BYTES, false, &config);
	assert_int_equal(tarn_root(f.ds, &root), 0);
	return 0;
}

int name_teardown(void **state)
{
	(void)state;
	tarn_inode_put(root);
	fixture_end(&f);
	return 0;
}

void remount(void)
{
	tarn_inode_put(root);
	fixture_remount(&f);
	assert_int_equal(tarn_root(f.ds, &root), 0);
}

int make(const struct tarn_cred *cred, struct tarn_inode *dir, const char *name,
	 enum tarn_type type, uint32_t mode, struct tarn_inode **out)
{
	struct tarn_create how = {.type = type,
				  .set = {.mask = TARN_SET_MODE, .mode = mode},
				  .target = type == TARN_LNK ? "target" : NULL};
	struct tarn_commit token;
	struct tarn_inode *inode;
	int err = tarn_create(cred, dir, name, &how, &inode, NULL, NULL, &token);

	if (out && !err)
		*out = inode;
	else if (inode)
		tarn_inode_put(inode);
	return err;
}

struct tarn_inode *dir_new(struct tarn_inode *dir, const char *name, uint32_t mode)
{
	struct tarn_inode *out = NULL;

	assert_int_equal(make(NULL, dir, name, TARN_DIR, mode, &out), 0);
	return out;
}

struct tarn_inode *file_new(struct tarn_inode *dir, const char *name)
{
	struct tarn_inode *out = NULL;

	assert_int_equal(make(NULL, dir, name, TARN_REG, 0644, &out), 0);
	return out;
}

struct tarn_attr attr_of(struct tarn_inode *inode)
{
	struct tarn_attr attr;

	assert_int_equal(tarn_getattr(inode, &attr), 0);
	return attr;
}

int drop(const struct tarn_cred *cred, struct tarn_inode *dir, const char *name)
{
	struct tarn_commit token;

	return tarn_unlink(cred, dir, name, -1, NULL, &token);
}

int move(const struct tarn_cred *cred, struct tarn_inode *from_dir, const char *from,
	 struct tarn_inode *to_dir, const char *to)
{
	struct tarn_commit token;

	return tarn_rename(cred, from_dir, from, to_dir, to, NULL, NULL, &token);
}

uint64_t number(struct tarn_inode *dir, const char *name)
{
	struct tarn_inode *inode;
	uint64_t ino;
	int err = tarn_lookup(NULL, dir, name, &inode);

	if (err == -ENOENT)
		return 0;
	assert_int_equal(err, 0);
	ino = tarn_inode_number(inode);
	tarn_inode_put(inode);
	return ino;
}

uint64_t inodes(void)
{
	struct tarn_statfs sf;
	struct tarn_commit token;
	struct tarn_setattr set = {.mask = TARN_SET_ATIME_NOW};

	/* A commit moves its txg's count: not while it is read. */
	assert_int_equal(tarn_setattr(NULL, root, &set, NULL, &token), 0);
	assert_int_equal(tarn_commit_wait(f.ds, token), 0);
	assert_int_equal(tarn_dataset_statfs(f.ds, &sf), 0);
	return sf.files - sf.ffree;
}

void wait_for_inodes(uint64_t n)
{
	while (inodes() != n)
		;
}

static bool collect(void *arg, const struct tarn_dirent *d)
{
	struct list *l = arg;

	strcpy(l->at[l->n].name, d->name);
	l->at[l->n].cookie = d->cookie;
	l->at[l->n].ino = tarn_inode_number(d->inode);
	return ++l->n < l->max;
}

struct list list_from(struct tarn_inode *dir, uint64_t cookie, uint32_t max, bool *eof)
{
	struct list l = {.max = max};

	l.at = calloc(max, sizeof(*l.at));
	assert_int_equal(tarn_readdir(dir, cookie, collect, &l, eof), 0);
	return l;
}

uint64_t cookie_of(struct tarn_inode *dir, const char *name)
{
	uint64_t cookie = 0;
	bool eof;
	struct list l = list_from(dir, 0, 100, &eof);

	assert_true(eof);
	for (uint32_t i = 0; i < l.n; i++)
		if (strcmp(l.at[i].name, name) == 0)
			cookie = l.at[i].cookie;
	free(l.at);
	return cookie;
}

void fill(struct tarn_inode *dir, const char *prefix, unsigned from, unsigned to)
{
	char name[32];

	for (unsigned i = from; i < to; i++) {
		sprintf(name, "%s%u", prefix, i);
		assert_int_equal(make(NULL, dir, name, TARN_REG, 0644, NULL), 0);
	}
}

void empty(struct tarn_inode *dir, const char *prefix, unsigned from, unsigned to)
{
	char name[32];

	for (unsigned i = from; i < to; i++) {
		sprintf(name, "%s%u", prefix, i);
		assert_int_equal(drop(NULL, dir, name), 0);
	}
}
