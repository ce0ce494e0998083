// SPDX-License-Identifier: LGPL-3.0-or-later
/* Directories through the public API. */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/fs.h"
#include "pool_fixture.h"
#include <cmocka.h>

#define DEV_BYTES (512ull << 20)

static struct fixture f;
static struct tarn_inode *root;
static const struct tarn_cred alice = {.uid = 1000, .gid = 100};
static const struct tarn_cred bob = {.uid = 2000, .gid = 200};

static void log_line(enum tarn_log_level level, const char *text)
{
	if (level >= TARN_LOG_WARN)
		print_error("log: %s\n", text);
}

static int setup(void **state)
{
	struct tarn_config config = {
	    .arc_max = 16 << 20, .dirty_max = 16 << 20, .threads = 2, .log = log_line};

	(void)state;
	fixture_begin(&f, 1, DEV_BYTES, false, &config);
	assert_int_equal(tarn_root(f.ds, &root), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tarn_inode_put(root);
	fixture_end(&f);
	return 0;
}

static void remount(void)
{
	tarn_inode_put(root);
	fixture_remount(&f);
	assert_int_equal(tarn_root(f.ds, &root), 0);
}

/* ---- helpers ---- */

static int make(const struct tarn_cred *cred, struct tarn_inode *dir, const char *name,
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

static struct tarn_inode *dir_new(struct tarn_inode *dir, const char *name, uint32_t mode)
{
	struct tarn_inode *out = NULL;

	assert_int_equal(make(NULL, dir, name, TARN_DIR, mode, &out), 0);
	return out;
}

static struct tarn_inode *file_new(struct tarn_inode *dir, const char *name)
{
	struct tarn_inode *out = NULL;

	assert_int_equal(make(NULL, dir, name, TARN_REG, 0644, &out), 0);
	return out;
}

static struct tarn_attr attr_of(struct tarn_inode *inode)
{
	struct tarn_attr attr;

	assert_int_equal(tarn_getattr(inode, &attr), 0);
	return attr;
}

static int drop(const struct tarn_cred *cred, struct tarn_inode *dir, const char *name)
{
	struct tarn_commit token;

	return tarn_unlink(cred, dir, name, -1, NULL, &token);
}

static int move(const struct tarn_cred *cred, struct tarn_inode *from_dir, const char *from,
		struct tarn_inode *to_dir, const char *to)
{
	struct tarn_commit token;

	return tarn_rename(cred, from_dir, from, to_dir, to, NULL, NULL, &token);
}

/* The inode number behind a name; 0 if there is none. */
static uint64_t number(struct tarn_inode *dir, const char *name)
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

/* Inodes that exist, removed ones that still wait for the reaper included. */
static uint64_t inodes(void)
{
	struct tarn_statfs sf;
	struct tarn_commit token;
	struct tarn_setattr set = {.mask = TARN_SET_ATIME_NOW};

	/* Counts are as of the last commit. */
	assert_int_equal(tarn_setattr(NULL, root, &set, NULL, &token), 0);
	assert_int_equal(tarn_commit_wait(f.ds, token), 0);
	assert_int_equal(tarn_dataset_statfs(f.ds, &sf), 0);
	return sf.files - sf.ffree;
}

/* Until the reaper has left only that many. */
static void wait_for_inodes(uint64_t n)
{
	while (inodes() != n)
		;
}

/* A listing, collected. */
struct list {
	uint32_t n, max;
	struct {
		char name[TARN_NAME_MAX + 1];
		uint64_t cookie, ino;
	} * at;
};

static bool collect(void *arg, const struct tarn_dirent *d)
{
	struct list *l = arg;

	strcpy(l->at[l->n].name, d->name);
	l->at[l->n].cookie = d->cookie;
	l->at[l->n].ino = tarn_inode_number(d->inode);
	return ++l->n < l->max;
}

static struct list list_from(struct tarn_inode *dir, uint64_t cookie, uint32_t max, bool *eof)
{
	struct list l = {.max = max};

	l.at = calloc(max, sizeof(*l.at));
	assert_int_equal(tarn_readdir(dir, cookie, collect, &l, eof), 0);
	return l;
}

/* 0: no such entry. */
static uint64_t cookie_of(struct tarn_inode *dir, const char *name)
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

/* ---- lookup ---- */

static void names_are_found(void **state)
{
	struct tarn_inode *dir = dir_new(root, "names", 0755), *file = file_new(dir, "file"), *got;
	char name[TARN_NAME_MAX + 2];

	(void)state;
	assert_int_equal(tarn_lookup(NULL, dir, "file", &got), 0);
	assert_ptr_equal(got, file);
	tarn_inode_put(got);
	assert_int_equal(tarn_lookup(NULL, dir, ".", &got), 0);
	assert_ptr_equal(got, dir);
	tarn_inode_put(got);
	assert_int_equal(tarn_lookup(NULL, dir, "..", &got), 0);
	assert_ptr_equal(got, root);
	tarn_inode_put(got);
	assert_int_equal(tarn_lookup(NULL, root, "..", &got), 0);
	assert_ptr_equal(got, root);
	tarn_inode_put(got);
	assert_int_equal(tarn_lookup(NULL, dir, "nothing", &got), -ENOENT);
	assert_int_equal(tarn_lookup(NULL, file, "x", &got), -ENOTDIR);
	assert_int_equal(tarn_lookup(NULL, dir, "", &got), -EINVAL);
	assert_int_equal(tarn_lookup(NULL, dir, "a/b", &got), -EINVAL);
	memset(name, 'n', sizeof(name));
	name[TARN_NAME_MAX + 1] = 0;
	assert_int_equal(tarn_lookup(NULL, dir, name, &got), -ENAMETOOLONG);
	assert_int_equal(make(NULL, dir, name, TARN_REG, 0644, NULL), -ENAMETOOLONG);
	name[TARN_NAME_MAX] = 0;
	assert_int_equal(make(NULL, dir, name, TARN_REG, 0644, NULL), 0);
	assert_int_not_equal(number(dir, name), 0);
	assert_int_equal(drop(NULL, dir, name), 0);
	assert_int_equal(drop(NULL, dir, "file"), 0);
	assert_int_equal(drop(NULL, root, "names"), 0);
	tarn_inode_put(file);
	tarn_inode_put(dir);
}

static void handles_lead_to_their_inode_only(void **state)
{
	struct tarn_inode *file = file_new(root, "handle"), *got;
	uint64_t ino = tarn_inode_number(file), gen = tarn_inode_generation(file);

	(void)state;
	tarn_inode_put(file);
	remount();
	assert_int_equal(tarn_inode_get(f.ds, ino, gen, &got), 0);
	assert_int_equal(tarn_inode_number(got), ino);
	tarn_inode_put(got);
	assert_int_equal(tarn_inode_get(f.ds, ino, gen + 1, &got), -ESTALE);
	assert_int_equal(tarn_inode_get(f.ds, 0, gen, &got), -ESTALE);
	assert_int_equal(tarn_inode_get(f.ds, 1, gen, &got), -ESTALE);
	assert_int_equal(tarn_inode_get(f.ds, 1ull << 40, gen, &got), -ESTALE);
	assert_int_equal(tarn_inode_get(f.ds, UINT64_MAX, UINT64_MAX, &got), -ESTALE);
	assert_int_equal(drop(NULL, root, "handle"), 0);
	assert_int_equal(tarn_inode_get(f.ds, ino, gen, &got), -ESTALE);
}

/* ---- create ---- */

static void every_type_can_be_made(void **state)
{
	static const enum tarn_type types[] = {TARN_REG, TARN_DIR,  TARN_LNK, TARN_BLK,
					       TARN_CHR, TARN_FIFO, TARN_SOCK};
	struct tarn_inode *dir = dir_new(root, "types", 0755), *inode;
	struct tarn_attr attr, dir_attr;
	struct tarn_commit token;
	char name[16], *target;

	(void)state;
	for (unsigned i = 0; i < 7; i++) {
		struct tarn_create how = {.type = types[i],
					  .set = {.mask = TARN_SET_MODE, .mode = 0640},
					  .rdev_major = 8,
					  .rdev_minor = 17,
					  .target = "some/where"};

		sprintf(name, "t%u", i);
		assert_int_equal(
		    tarn_create(&alice, dir, name, &how, &inode, &attr, &dir_attr, &token),
		    -EACCES);
		assert_null(inode);
		assert_int_equal(
		    tarn_create(NULL, dir, name, &how, &inode, &attr, &dir_attr, &token), 0);
		assert_true(token.txg > 0);
		tarn_inode_put(inode);
	}
	remount();
	tarn_inode_put(dir);
	assert_int_equal(tarn_lookup(NULL, root, "types", &dir), 0);
	assert_int_equal(attr_of(dir).nlink, 3);
	assert_int_equal(attr_of(dir).size, 7 + 2);
	for (unsigned i = 0; i < 7; i++) {
		bool device = types[i] == TARN_BLK || types[i] == TARN_CHR;

		sprintf(name, "t%u", i);
		assert_int_equal(tarn_lookup(NULL, dir, name, &inode), 0);
		assert_int_equal(tarn_inode_type(inode), types[i]);
		attr = attr_of(inode);
		assert_int_equal(attr.type, types[i]);
		assert_int_equal(attr.mode, types[i] == TARN_LNK ? 0777 : 0640);
		assert_int_equal(attr.nlink, types[i] == TARN_DIR ? 2 : 1);
		assert_int_equal(attr.rdev_major, device ? 8 : 0);
		assert_int_equal(attr.rdev_minor, device ? 17 : 0);
		assert_true(attr.ino < 1ull << 32);
		if (types[i] == TARN_LNK) {
			assert_int_equal(attr.size, strlen("some/where"));
			assert_int_equal(tarn_readlink(inode, &target), 0);
			assert_string_equal(target, "some/where");
			free(target);
		} else {
			assert_int_equal(tarn_readlink(inode, &target), -EINVAL);
		}
		tarn_inode_put(inode);
		assert_int_equal(drop(NULL, dir, name), 0);
	}
	tarn_inode_put(dir);
	assert_int_equal(drop(NULL, root, "types"), 0);
}

static void a_name_is_made_once(void **state)
{
	struct tarn_inode *file = file_new(root, "once"), *got;
	struct tarn_create how = {.type = TARN_REG};
	struct tarn_commit token;

	(void)state;
	assert_int_equal(tarn_create(NULL, root, "once", &how, &got, NULL, NULL, &token), -EEXIST);
	assert_ptr_equal(got, file);
	assert_int_equal(token.txg, 0);
	tarn_inode_put(got);
	assert_int_equal(tarn_create(NULL, root, ".", &how, &got, NULL, NULL, &token), -EEXIST);
	tarn_inode_put(got);
	assert_int_equal(tarn_create(NULL, file, "x", &how, &got, NULL, NULL, &token), -ENOTDIR);
	assert_int_equal(drop(NULL, root, "once"), 0);
	tarn_inode_put(file);
}

static void bad_arguments_are_refused(void **state)
{
	char target[TARN_SYMLINK_MAX + 2];
	struct tarn_create how = {.type = 99};
	struct tarn_inode *got;
	struct tarn_commit token;

	(void)state;
	assert_int_equal(tarn_create(NULL, root, "bad", &how, &got, NULL, NULL, &token), -EINVAL);
	how = (struct tarn_create){.type = TARN_DIR, .exclusive = true};
	assert_int_equal(tarn_create(NULL, root, "bad", &how, &got, NULL, NULL, &token), -EINVAL);
	how =
	    (struct tarn_create){.type = TARN_REG, .set = {.mask = TARN_SET_MODE, .mode = 0100644}};
	assert_int_equal(tarn_create(NULL, root, "bad", &how, &got, NULL, NULL, &token), -EINVAL);
	how = (struct tarn_create){.type = TARN_LNK, .target = ""};
	assert_int_equal(tarn_create(NULL, root, "bad", &how, &got, NULL, NULL, &token), -ENOENT);
	memset(target, 't', sizeof(target));
	target[TARN_SYMLINK_MAX + 1] = 0;
	how.target = target;
	assert_int_equal(tarn_create(NULL, root, "bad", &how, &got, NULL, NULL, &token),
			 -ENAMETOOLONG);
	target[TARN_SYMLINK_MAX] = 0;
	assert_int_equal(tarn_create(NULL, root, "bad", &how, &got, NULL, NULL, &token), 0);
	tarn_inode_put(got);
	assert_int_equal(drop(NULL, root, "bad"), 0);
}

static void exclusive_create_can_be_repeated(void **state)
{
	struct tarn_create how = {.type = TARN_REG, .exclusive = true, .verifier = "verify1"};
	struct tarn_inode *first, *again;
	struct tarn_attr before, attr;
	struct tarn_commit token;
	uint64_t ino;
	bool matches;

	(void)state;
	assert_int_equal(tarn_create(NULL, root, "excl", &how, &first, &before, NULL, &token), 0);
	ino = tarn_inode_number(first);
	for (unsigned round = 0; round < 2; round++) {
		assert_int_equal(tarn_create(NULL, root, "excl", &how, &again, &attr, NULL, &token),
				 0);
		assert_int_equal(tarn_inode_number(again), ino);
		assert_int_equal(attr.change, before.change);
		assert_memory_equal(&attr.mtime, &before.mtime, sizeof(attr.mtime));
		/* The retry is as durable as the first when its token is. */
		assert_int_equal(tarn_commit_wait(f.ds, token), 0);
		assert_int_equal(tarn_verifier_matches(again, how.verifier, &matches), 0);
		assert_true(matches);
		tarn_inode_put(again);
		how.verifier[0]++;
		assert_int_equal(tarn_create(NULL, root, "excl", &how, &again, &attr, NULL, &token),
				 -EEXIST);
		assert_int_equal(tarn_verifier_matches(again, how.verifier, &matches), 0);
		assert_false(matches);
		how.verifier[0]--;
		tarn_inode_put(again);
		if (round == 0) {
			tarn_inode_put(first);
			remount();
		}
	}
	assert_int_equal(drop(NULL, root, "excl"), 0);
}

static void owners_and_groups_of_new_inodes(void **state)
{
	struct tarn_inode *dir = dir_new(root, "owned", 0777), *inode, *sub;
	struct tarn_setattr set = {.mask = TARN_SET_GID | TARN_SET_MODE, .gid = 555, .mode = 02777};
	struct tarn_commit token;

	(void)state;
	assert_int_equal(make(&alice, dir, "a", TARN_REG, 02755, &inode), 0);
	assert_int_equal(attr_of(inode).uid, 1000);
	assert_int_equal(attr_of(inode).gid, 100);
	assert_int_equal(attr_of(inode).mode, 02755);
	tarn_inode_put(inode);
	/* A setgid directory hands its group down, and to directories its setgid bit. */
	assert_int_equal(tarn_setattr(NULL, dir, &set, NULL, &token), 0);
	assert_int_equal(make(&alice, dir, "b", TARN_REG, 0644, &inode), 0);
	assert_int_equal(attr_of(inode).gid, 555);
	assert_int_equal(attr_of(inode).mode, 0644);
	tarn_inode_put(inode);
	assert_int_equal(make(&alice, dir, "s", TARN_DIR, 0755, &sub), 0);
	assert_int_equal(attr_of(sub).gid, 555);
	assert_int_equal(attr_of(sub).mode, 02755);
	/* She is no member of that group: no setgid program for her. */
	assert_int_equal(make(&alice, dir, "c", TARN_REG, 02755, &inode), 0);
	assert_int_equal(attr_of(inode).mode, 0755);
	tarn_inode_put(inode);
	tarn_inode_put(sub);
	assert_int_equal(drop(NULL, dir, "a"), 0);
	assert_int_equal(drop(NULL, dir, "b"), 0);
	assert_int_equal(drop(NULL, dir, "c"), 0);
	assert_int_equal(drop(NULL, dir, "s"), 0);
	assert_int_equal(drop(NULL, root, "owned"), 0);
	tarn_inode_put(dir);
}

/* ---- links ---- */

static void links_are_counted(void **state)
{
	struct tarn_inode *dir = dir_new(root, "links", 0755), *file = file_new(dir, "one");
	struct tarn_attr before = attr_of(file), attr, dir_attr;
	struct tarn_commit token;

	(void)state;
	assert_int_equal(tarn_link(NULL, file, dir, "two", &attr, &dir_attr, &token), 0);
	assert_int_equal(attr.nlink, 2);
	assert_true(attr.change > before.change);
	assert_int_equal(dir_attr.size, 2 + 2);
	assert_int_equal(number(dir, "two"), attr.ino);
	assert_int_equal(tarn_link(NULL, file, dir, "two", NULL, NULL, &token), -EEXIST);
	assert_int_equal(tarn_link(NULL, dir, dir, "loop", NULL, NULL, &token), -EPERM);
	assert_int_equal(tarn_link(NULL, file, file, "x", NULL, NULL, &token), -ENOTDIR);
	assert_int_equal(tarn_link(&alice, file, dir, "x", NULL, NULL, &token), -EACCES);
	assert_int_equal(drop(NULL, dir, "one"), 0);
	assert_int_equal(attr_of(file).nlink, 1);
	assert_int_equal(tarn_open(file), 0);
	assert_int_equal(drop(NULL, dir, "two"), 0);
	/* No way back into the tree for what has no name. */
	assert_int_equal(attr_of(file).nlink, 0);
	assert_int_equal(tarn_link(NULL, file, dir, "three", NULL, NULL, &token), -ENOENT);
	tarn_close(file);
	tarn_inode_put(file);
	assert_int_equal(drop(NULL, root, "links"), 0);
	tarn_inode_put(dir);
}

static void removal_respects_types(void **state)
{
	struct tarn_inode *dir = dir_new(root, "kinds", 0755), *sub = dir_new(dir, "sub", 0755);
	struct tarn_commit token;
	struct tarn_attr post;

	(void)state;
	tarn_inode_put(file_new(dir, "file"));
	tarn_inode_put(file_new(sub, "inner"));
	assert_int_equal(tarn_unlink(NULL, dir, "file", 1, NULL, &token), -ENOTDIR);
	assert_int_equal(tarn_unlink(NULL, dir, "sub", 0, NULL, &token), -EISDIR);
	assert_int_equal(tarn_unlink(NULL, dir, "sub", 1, NULL, &token), -ENOTEMPTY);
	assert_int_equal(tarn_unlink(NULL, dir, ".", 1, NULL, &token), -EINVAL);
	assert_int_equal(tarn_unlink(NULL, dir, "..", 1, NULL, &token), -ENOTEMPTY);
	assert_int_equal(tarn_unlink(NULL, dir, "none", -1, NULL, &token), -ENOENT);
	assert_int_equal(token.txg, 0);
	assert_int_equal(drop(NULL, sub, "inner"), 0);
	assert_int_equal(attr_of(dir).nlink, 3);
	assert_int_equal(tarn_unlink(NULL, dir, "sub", 1, &post, &token), 0);
	assert_int_equal(post.nlink, 2);
	assert_int_equal(tarn_unlink(NULL, dir, "file", 0, &post, &token), 0);
	assert_int_equal(post.size, 2);
	tarn_inode_put(sub);
	assert_int_equal(drop(NULL, root, "kinds"), 0);
	tarn_inode_put(dir);
}

static void nothing_is_made_in_a_removed_directory(void **state)
{
	struct tarn_inode *dir = dir_new(root, "removed", 0755), *file = file_new(root, "file"),
			  *got;
	struct tarn_commit token;
	bool eof;
	struct list l;
	int err;

	(void)state;
	assert_int_equal(tarn_open(dir), 0); /* someone's working directory */
	assert_int_equal(drop(NULL, root, "removed"), 0);
	assert_int_equal(make(NULL, dir, "x", TARN_REG, 0644, NULL), -ENOENT);
	assert_int_equal(make(NULL, dir, "x", TARN_DIR, 0755, NULL), -ENOENT);
	assert_int_equal(make(NULL, dir, ".", TARN_DIR, 0755, NULL), -EEXIST);
	assert_int_equal(make(NULL, dir, "..", TARN_DIR, 0755, NULL), -ESTALE);
	assert_int_equal(tarn_link(NULL, file, dir, "x", NULL, NULL, &token), -ENOENT);
	assert_int_equal(move(NULL, root, "file", dir, "x"), -ENOENT);
	assert_int_equal(tarn_lookup(NULL, dir, "x", &got), -ENOENT);
	assert_int_equal(tarn_lookup(NULL, dir, "..", &got), -ESTALE);
	l = list_from(dir, 0, 4, &eof);
	assert_int_equal(l.n, 0);
	assert_true(eof);
	free(l.at);
	tarn_close(dir);
	err = tarn_lookup(NULL, dir, "x", &got);
	assert_true(err == -ENOENT || err == -ESTALE);
	tarn_inode_put(dir);
	assert_int_equal(drop(NULL, root, "file"), 0);
	tarn_inode_put(file);
}

/* ---- rename ---- */

static void rename_onto_every_kind(void **state)
{
	static const enum tarn_type kinds[] = {TARN_REG, TARN_LNK, TARN_FIFO, TARN_DIR};
	struct tarn_inode *dir = dir_new(root, "onto", 0755);

	(void)state;
	for (unsigned s = 0; s < 4; s++)
		for (unsigned d = 0; d < 4; d++) {
			bool sdir = kinds[s] == TARN_DIR, ddir = kinds[d] == TARN_DIR;
			int want = sdir == ddir ? 0 : sdir ? -ENOTDIR : -EISDIR;
			uint64_t src, dst;

			assert_int_equal(make(NULL, dir, "src", kinds[s], 0755, NULL), 0);
			assert_int_equal(make(NULL, dir, "dst", kinds[d], 0755, NULL), 0);
			src = number(dir, "src");
			dst = number(dir, "dst");
			assert_int_equal(move(NULL, dir, "src", dir, "dst"), want);
			assert_int_equal(number(dir, "src"), want ? src : 0);
			assert_int_equal(number(dir, "dst"), want ? dst : src);
			if (want)
				assert_int_equal(drop(NULL, dir, "src"), 0);
			assert_int_equal(attr_of(dir).nlink, 2 + ddir);
			assert_int_equal(drop(NULL, dir, "dst"), 0);
			assert_int_equal(attr_of(dir).nlink, 2);
			assert_int_equal(attr_of(dir).size, 2);
		}
	wait_for_inodes(2);
	tarn_inode_put(dir);
	assert_int_equal(drop(NULL, root, "onto"), 0);
}

static void rename_of_a_directory_moves_its_parent(void **state)
{
	struct tarn_inode *a = dir_new(root, "a", 0755), *b = dir_new(root, "b", 0755), *got;
	struct tarn_inode *m = dir_new(a, "m", 0755), *deep = dir_new(m, "deep", 0755);
	struct tarn_attr from, to, before_a = attr_of(a), before_b = attr_of(b);
	struct tarn_commit token;

	(void)state;
	assert_int_equal(tarn_rename(NULL, a, "m", b, "n", &from, &to, &token), 0);
	assert_int_equal(from.nlink, 2);
	assert_int_equal(to.nlink, 3);
	assert_true(from.change > before_a.change);
	assert_true(to.change > before_b.change);
	assert_int_equal(tarn_lookup(NULL, m, "..", &got), 0);
	assert_ptr_equal(got, b);
	tarn_inode_put(got);
	/* Into itself and below. */
	assert_int_equal(move(NULL, b, "n", m, "x"), -EINVAL);
	assert_int_equal(move(NULL, b, "n", deep, "x"), -EINVAL);
	assert_int_equal(move(NULL, root, "b", deep, "x"), -EINVAL);
	/* Onto one that it lies in. */
	assert_int_equal(move(NULL, m, "deep", root, "b"), -ENOTEMPTY);
	assert_int_equal(move(NULL, b, "n", root, "a"), 0); /* a was empty */
	assert_int_equal(attr_of(root).nlink, 2 + 2);
	assert_int_equal(attr_of(b).nlink, 2);
	assert_int_equal(number(root, "a"), tarn_inode_number(m));
	assert_int_equal(attr_of(m).nlink, 3);
	tarn_inode_put(a);
	assert_int_equal(drop(NULL, m, "deep"), 0);
	assert_int_equal(drop(NULL, root, "a"), 0);
	assert_int_equal(drop(NULL, root, "b"), 0);
	tarn_inode_put(b);
	tarn_inode_put(m);
	tarn_inode_put(deep);
}

static void rename_special_cases(void **state)
{
	struct tarn_inode *dir = dir_new(root, "special", 0755), *file = file_new(dir, "file");
	struct tarn_inode *full = dir_new(dir, "full", 0755);
	struct tarn_commit token;
	uint64_t change = attr_of(dir).change;

	(void)state;
	tarn_inode_put(file_new(full, "inner"));
	assert_int_equal(tarn_rename(NULL, dir, "file", dir, "file", NULL, NULL, &token), 0);
	assert_int_equal(token.txg, 0);
	assert_int_equal(tarn_link(NULL, file, full, "other", NULL, NULL, &token), 0);
	/* Two names of one inode stay. */
	assert_int_equal(tarn_rename(NULL, dir, "file", full, "other", NULL, NULL, &token), 0);
	assert_int_equal(token.txg, 0);
	assert_int_equal(number(dir, "file"), tarn_inode_number(file));
	assert_int_equal(number(full, "other"), tarn_inode_number(file));
	assert_int_equal(attr_of(file).nlink, 2);
	assert_int_equal(attr_of(dir).change, change);
	assert_int_equal(move(NULL, dir, "none", dir, "x"), -ENOENT);
	assert_int_equal(move(NULL, dir, ".", dir, "x"), -EINVAL);
	assert_int_equal(move(NULL, dir, "file", dir, ".."), -EINVAL);
	assert_int_equal(move(NULL, dir, "file", file, "x"), -ENOTDIR);
	assert_int_equal(make(NULL, dir, "empty", TARN_DIR, 0755, NULL), 0);
	assert_int_equal(move(NULL, dir, "empty", dir, "full"), -ENOTEMPTY);
	assert_int_equal(move(NULL, dir, "full", dir, "empty"), 0);
	assert_int_equal(drop(NULL, full, "inner"), 0);
	assert_int_equal(drop(NULL, full, "other"), 0);
	assert_int_equal(drop(NULL, dir, "empty"), 0);
	assert_int_equal(drop(NULL, dir, "file"), 0);
	assert_int_equal(drop(NULL, root, "special"), 0);
	tarn_inode_put(full);
	tarn_inode_put(file);
	tarn_inode_put(dir);
}

static void a_replaced_name_keeps_its_cookie(void **state)
{
	struct tarn_inode *dir = dir_new(root, "cookies", 0755);
	(void)state;
	tarn_inode_put(file_new(dir, "data"));
	tarn_inode_put(file_new(dir, "data.tmp"));
	assert_int_equal(cookie_of(dir, "data"), 3);
	assert_int_equal(cookie_of(dir, "data.tmp"), 4);
	assert_int_equal(move(NULL, dir, "data.tmp", dir, "data"), 0);
	assert_int_equal(cookie_of(dir, "data"), 3);
	assert_int_equal(cookie_of(dir, "data.tmp"), 0);
	tarn_inode_put(file_new(dir, "data.tmp"));
	assert_true(cookie_of(dir, "data.tmp") > 4);
	assert_int_equal(drop(NULL, dir, "data"), 0);
	assert_int_equal(drop(NULL, dir, "data.tmp"), 0);
	assert_int_equal(drop(NULL, root, "cookies"), 0);
	tarn_inode_put(dir);
}

/* ---- permission ---- */

static void directories_want_write_and_search(void **state)
{
	static const struct {
		uint32_t mode;
		int want;
	} cases[] = {{0777, 0}, {0773, 0}, {0772, -EACCES}, {0771, -EACCES}, {0775, -EACCES}};
	struct tarn_inode *dir = dir_new(root, "perm", 0777), *file = file_new(dir, "file");
	struct tarn_commit token;

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		struct tarn_setattr set = {.mask = TARN_SET_MODE, .mode = cases[i].mode};
		int want = cases[i].want;

		assert_int_equal(tarn_setattr(NULL, dir, &set, NULL, &token), 0);
		assert_int_equal(make(&alice, dir, "f", TARN_REG, 0644, NULL), want);
		assert_int_equal(make(&alice, dir, "d", TARN_DIR, 0755, NULL), want);
		assert_int_equal(tarn_link(&alice, file, dir, "l", NULL, NULL, &token), want);
		assert_int_equal(move(&alice, dir, "file", dir, "file2"), want);
		if (!want)
			assert_int_equal(move(&alice, dir, "file2", dir, "file"), 0);
		else
			assert_int_equal(drop(&alice, dir, "file"), want);
		if (want)
			continue;
		assert_int_equal(drop(&alice, dir, "f"), 0);
		assert_int_equal(drop(&alice, dir, "d"), 0);
		assert_int_equal(drop(&alice, dir, "l"), 0);
	}
	assert_int_equal(drop(NULL, dir, "file"), 0);
	assert_int_equal(drop(NULL, root, "perm"), 0);
	tarn_inode_put(file);
	tarn_inode_put(dir);
}

static void sticky_directories_protect_their_entries(void **state)
{
	struct tarn_inode *dir = dir_new(root, "tmp", 01777);

	(void)state;
	assert_int_equal(make(&alice, dir, "hers", TARN_REG, 0666, NULL), 0);
	assert_int_equal(make(&bob, dir, "his", TARN_REG, 0666, NULL), 0);
	assert_int_equal(drop(&bob, dir, "hers"), -EPERM);
	assert_int_equal(move(&bob, dir, "hers", dir, "x"), -EPERM);
	assert_int_equal(move(&bob, dir, "his", dir, "hers"), -EPERM);
	assert_int_equal(move(&alice, dir, "hers", dir, "hers2"), 0);
	assert_int_equal(drop(&alice, dir, "hers2"), 0);
	assert_int_equal(drop(&bob, dir, "his"), 0);
	assert_int_equal(drop(NULL, root, "tmp"), 0);
	tarn_inode_put(dir);
}

static void a_directory_moves_only_if_it_can_be_written(void **state)
{
	struct tarn_inode *a = dir_new(root, "pa", 0777), *b = dir_new(root, "pb", 0777);

	(void)state;
	assert_int_equal(make(NULL, a, "sub", TARN_DIR, 0755, NULL), 0);
	assert_int_equal(move(&alice, a, "sub", a, "sub2"), 0);
	assert_int_equal(move(&alice, a, "sub2", b, "sub"), -EACCES);
	assert_int_equal(move(NULL, a, "sub2", b, "sub"), 0);
	assert_int_equal(drop(NULL, b, "sub"), 0);
	assert_int_equal(drop(NULL, root, "pa"), 0);
	assert_int_equal(drop(NULL, root, "pb"), 0);
	tarn_inode_put(a);
	tarn_inode_put(b);
}

/* ---- readdir ---- */

#define MANY 10000

static void fill(struct tarn_inode *dir, const char *prefix, unsigned from, unsigned to)
{
	char name[32];

	for (unsigned i = from; i < to; i++) {
		sprintf(name, "%s%u", prefix, i);
		assert_int_equal(make(NULL, dir, name, TARN_REG, 0644, NULL), 0);
	}
}

static void empty(struct tarn_inode *dir, const char *prefix, unsigned from, unsigned to)
{
	char name[32];

	for (unsigned i = from; i < to; i++) {
		sprintf(name, "%s%u", prefix, i);
		assert_int_equal(drop(NULL, dir, name), 0);
	}
}

static void a_listing_goes_on_at_every_cookie(void **state)
{
	struct tarn_inode *dir = dir_new(root, "many", 0755);
	struct list all, part;
	bool eof;

	(void)state;
	fill(dir, "file", 0, MANY);
	all = list_from(dir, 0, MANY + 1, &eof);
	assert_true(eof);
	assert_int_equal(all.n, MANY);
	for (unsigned i = 0; i < MANY; i++) {
		char name[32];

		sprintf(name, "file%u", i);
		assert_string_equal(all.at[i].name, name);
		assert_int_equal(all.at[i].cookie, 3 + i);
	}
	for (unsigned i = 0; i < MANY; i++) {
		unsigned want = MANY - 1 - i < 5 ? MANY - 1 - i : 5;

		part = list_from(dir, all.at[i].cookie, 5, &eof);
		assert_int_equal(part.n, want);
		assert_memory_equal(part.at, all.at + i + 1, want * sizeof(*part.at));
		assert_int_equal(eof, want < 5);
		free(part.at);
	}
	/* Cookies of entries that have gone are as good. */
	for (unsigned i = 0; i < MANY; i += 2)
		empty(dir, "file", i, i + 1);
	for (unsigned i = 0; i + 1 < MANY; i += 2) {
		part = list_from(dir, all.at[i].cookie, 1, &eof);
		assert_int_equal(part.n, 1);
		assert_int_equal(part.at[0].cookie, all.at[i + 1].cookie);
		free(part.at);
	}
	free(all.at);
	for (unsigned i = 1; i < MANY; i += 2)
		empty(dir, "file", i, i + 1);
	tarn_inode_put(dir);
	assert_int_equal(drop(NULL, root, "many"), 0);
}

/* Pages of a listing with changes between them: each name that stays appears once. */
static void stable_names_appear_once_between_changes(void **state)
{
	struct tarn_inode *dir = dir_new(root, "busy", 0755);
	uint64_t seed = test_seed();
	uint8_t *seen = calloc(MANY, 1);
	unsigned low = 0, high = 2000; /* of volatile names that are there */

	(void)state;
	for (unsigned i = 0; i < MANY; i += 10) {
		fill(dir, "stable", i, i + 10);
		fill(dir, "volatile", i / 5, i / 5 + 2);
	}
	for (unsigned page = 1; page <= 1000; page *= 10) {
		uint64_t cookie = 0;
		bool eof = false;

		memset(seen, 0, MANY);
		while (!eof) {
			struct list l = list_from(dir, cookie, page, &eof);
			char from[32], to[32];
			unsigned n;

			for (unsigned i = 0; i < l.n; i++) {
				assert_true(l.at[i].cookie > cookie);
				cookie = l.at[i].cookie;
				if (sscanf(l.at[i].name, "stable%u", &n) == 1)
					seen[n]++;
			}
			free(l.at);
			if (eof || test_random(&seed) % (1000 / page + 1))
				continue;
			empty(dir, "volatile", low, low + 1);
			low++;
			fill(dir, "volatile", high, high + 1);
			high++;
			sprintf(from, "volatile%u", low);
			sprintf(to, "volatile%u", high++);
			low++;
			assert_int_equal(move(NULL, dir, from, dir, to), 0);
			/* A stable name that comes to mean another inode stays one. */
			n = test_random(&seed) % MANY;
			sprintf(from, "volatile%u", high);
			sprintf(to, "stable%u", n);
			fill(dir, "volatile", high, high + 1);
			assert_int_equal(move(NULL, dir, from, dir, to), 0);
		}
		for (unsigned i = 0; i < MANY; i++)
			assert_int_equal(seen[i], 1);
	}
	empty(dir, "stable", 0, MANY);
	empty(dir, "volatile", low, high);
	tarn_inode_put(dir);
	assert_int_equal(drop(NULL, root, "busy"), 0);
	free(seen);
}

static bool remove_it(void *arg, const struct tarn_dirent *d)
{
	assert_int_equal(drop(NULL, arg, d->name), 0);
	return true;
}

static void removing_while_listing_leaves_nothing(void **state)
{
	struct tarn_inode *dir = dir_new(root, "rmrf", 0755);
	bool eof;

	(void)state;
	fill(dir, "f", 0, 1000);
	assert_int_equal(tarn_readdir(dir, 0, remove_it, dir, &eof), 0);
	assert_true(eof);
	assert_int_equal(attr_of(dir).size, 2);
	wait_for_inodes(2);
	assert_int_equal(drop(NULL, root, "rmrf"), 0);
	tarn_inode_put(dir);
}

/* ---- child datasets ---- */

static void child_datasets_are_crossed(void **state)
{
	struct tarn_error err = {0};
	struct tarn_inode *child, *got, *dir = dir_new(root, "plain", 0755);
	struct tarn_commit token;
	struct list l;
	bool eof;
	uint64_t cookie;

	(void)state;
	assert_int_equal(tarn_dataset_create(f.engine, FIXTURE_POOL "/kid", NULL, 0, false, &err),
			 0);
	assert_int_equal(tarn_dataset_create(f.engine, FIXTURE_POOL "/kid2", NULL, 0, false, &err),
			 0);
	assert_int_equal(tarn_lookup(NULL, root, "kid", &child), 0);
	assert_true(tarn_inode_dataset(child) != f.ds);
	assert_int_equal(attr_of(child).type, TARN_DIR);
	assert_int_equal(tarn_lookup(NULL, child, "..", &got), 0);
	assert_ptr_equal(got, root);
	tarn_inode_put(got);
	/* Not below other directories. */
	assert_int_equal(tarn_lookup(NULL, dir, "kid", &got), -ENOENT);
	/* The name is taken, and no matter for file operations. */
	assert_int_equal(make(NULL, root, "kid", TARN_DIR, 0755, NULL), -EEXIST);
	assert_int_equal(drop(NULL, root, "kid"), -ENOTEMPTY);
	assert_int_equal(move(NULL, root, "kid", root, "kid3"), -ENOTEMPTY);
	assert_int_equal(move(NULL, root, "plain", root, "kid"), -ENOTEMPTY);
	tarn_inode_put(file_new(child, "inside"));
	assert_int_equal(move(NULL, child, "inside", root, "outside"), -EXDEV);
	assert_int_equal(tarn_lookup(NULL, child, "inside", &got), 0);
	assert_int_equal(tarn_link(NULL, got, root, "outside", NULL, NULL, &token), -EXDEV);
	tarn_inode_put(got);
	/* Listed last, each at its cookie. */
	l = list_from(root, 0, 10, &eof);
	assert_true(eof);
	assert_int_equal(l.n, 3);
	assert_string_equal(l.at[0].name, "plain");
	assert_string_equal(l.at[1].name, "kid");
	assert_string_equal(l.at[2].name, "kid2");
	cookie = l.at[1].cookie;
	assert_true(l.at[2].cookie < 1ull << 31);
	free(l.at);
	l = list_from(root, cookie, 10, &eof);
	assert_int_equal(l.n, 1);
	assert_string_equal(l.at[0].name, "kid2");
	free(l.at);
	assert_int_equal(drop(NULL, child, "inside"), 0);
	tarn_inode_put(child);
	assert_int_equal(drop(NULL, root, "plain"), 0);
	tarn_inode_put(dir);
	assert_int_equal(tarn_dataset_destroy(f.engine, FIXTURE_POOL "/kid", false, 0, &err), 0);
	assert_int_equal(tarn_dataset_destroy(f.engine, FIXTURE_POOL "/kid2", false, 0, &err), 0);
	assert_int_equal(tarn_lookup(NULL, root, "kid", &got), -ENOENT);
}

/* After a billion creates in one directory. */
static void cookies_pass_over_those_of_child_datasets(void **state)
{
	struct tarn_error err = {0};
	struct tarn_inode *got;
	static const char *const order[] = {"c0", "c1", "kid", "c2", "c3"};
	static const uint64_t cookies[] = {CHILD_COOKIE - 2, CHILD_COOKIE - 1, 0, 1ull << 31,
					   (1ull << 31) + 1};
	struct list all;
	bool eof;

	(void)state;
	alock_write(&root->lock);
	pthread_mutex_lock(&root->versioned.lock); /* the sync reads the record */
	root->rec.next_cookie = CHILD_COOKIE - 2;
	pthread_mutex_unlock(&root->versioned.lock);
	alock_unlock(&root->lock);
	fill(root, "c", 0, 4);
	assert_int_equal(tarn_dataset_create(f.engine, FIXTURE_POOL "/kid", NULL, 0, false, &err),
			 0);
	remount();
	all = list_from(root, 0, 10, &eof);
	assert_true(eof);
	assert_int_equal(all.n, 5);
	for (unsigned i = 0; i < 5; i++) {
		assert_string_equal(all.at[i].name, order[i]);
		if (cookies[i])
			assert_int_equal(all.at[i].cookie, cookies[i]);
	}
	for (unsigned i = 0; i < 5; i++) {
		struct list part = list_from(root, all.at[i].cookie, 10, &eof);

		assert_true(eof);
		assert_int_equal(part.n, 4 - i);
		assert_memory_equal(part.at, all.at + i + 1, part.n * sizeof(*part.at));
		free(part.at);
	}
	free(all.at);
	empty(root, "c", 0, 4);
	assert_int_equal(tarn_dataset_destroy(f.engine, FIXTURE_POOL "/kid", false, 0, &err), 0);
	assert_int_equal(tarn_lookup(NULL, root, "kid", &got), -ENOENT);
}

/* ---- unlinked files ---- */

static void an_unlinked_file_lives_until_its_last_close(void **state)
{
	struct tarn_inode *file = file_new(root, "held"), *got;
	uint64_t gen = tarn_inode_generation(file);
	struct tarn_commit token;
	char buf[5];
	size_t done;
	bool eof;

	(void)state;
	assert_int_equal(tarn_open(file), 0);
	assert_int_equal(tarn_open(file), 0);
	assert_int_equal(fixture_write(file, 0, "hello", 5, false), 0);
	assert_int_equal(drop(NULL, root, "held"), 0);
	wait_for_inodes(1 + 1);
	tarn_close(file);
	assert_int_equal(fixture_read(file, 0, buf, 5, &done, &eof), 0);
	assert_int_equal(done, 5);
	assert_memory_equal(buf, "hello", 5);
	assert_int_equal(fixture_write(file, 5, " world", 6, false), 0);
	assert_int_equal(attr_of(file).size, 11);
	/* A handle still leads to it. */
	assert_int_equal(tarn_inode_get(f.ds, tarn_inode_number(file), gen, &got), 0);
	tarn_inode_put(got);
	tarn_close(file);
	assert_int_equal(tarn_inode_get(f.ds, tarn_inode_number(file), gen, &got), -ESTALE);
	assert_int_equal(tarn_open(file), -ESTALE);
	wait_for_inodes(1);
	assert_int_not_equal(fixture_read(file, 0, buf, 5, &done, &eof), 0);
	assert_int_equal(tarn_punch(NULL, file, 100, 5, &token), -ESTALE);
	tarn_inode_put(file);
}

static void an_import_removes_what_was_open(void **state)
{
	struct tarn_inode *file[20], *got;
	uint64_t ino, gen;
	char name[32];

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		sprintf(name, "open%u", i);
		file[i] = file_new(root, name);
		assert_int_equal(fixture_write(file[i], i * 100000, name, strlen(name), false), 0);
		assert_int_equal(tarn_open(file[i]), 0);
		assert_int_equal(drop(NULL, root, name), 0);
	}
	ino = tarn_inode_number(file[0]);
	gen = tarn_inode_generation(file[0]);
	remount();
	for (unsigned i = 0; i < 20; i++) {
		struct tarn_attr attr;

		assert_int_equal(tarn_getattr(file[i], &attr), -ENXIO);
		tarn_close(file[i]);
		tarn_inode_put(file[i]);
	}
	assert_int_equal(tarn_inode_get(f.ds, ino, gen, &got), -ESTALE);
	wait_for_inodes(1);
}

/* Removal goes in steps; an export in between leaves the rest to the next import. */
static void an_export_may_come_between_the_steps_of_a_removal(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 6; round++) {
		struct tarn_inode *file = file_new(root, "large");
		struct tarn_commit token;
		char name[16];

		for (unsigned i = 0; i < 1000; i++) {
			sprintf(name, "x%u", i);
			assert_int_equal(
			    tarn_xattr_set(NULL, file, name, name, 16, TARN_XATTR_ANY, &token), 0);
			assert_int_equal(fixture_write(file, i * 1048576ull, name, 16, false), 0);
		}
		tarn_inode_put(file);
		assert_int_equal(drop(NULL, root, "large"), 0);
		for (unsigned i = 0; i < round; i++)
			inodes(); /* commits */
		remount();
		wait_for_inodes(1);
	}
}

static void numbers_are_dense_and_come_back(void **state)
{
	struct tarn_inode *dir = dir_new(root, "dense", 0755), *file, *got;
	uint64_t most = 0, ino, gen;
	char name[32];

	(void)state;
	wait_for_inodes(2);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 3000; i++) {
			sprintf(name, "n%u", i);
			file = file_new(dir, name);
			ino = tarn_inode_number(file);
			gen = tarn_inode_generation(file);
			if (ino > most)
				most = ino;
			tarn_inode_put(file);
		}
		/* 16 windows of 64 at most lie open. */
		assert_true(most <= 3 + 1 + 3000 + 16 * 64);
		empty(dir, "n", 0, 3000);
		wait_for_inodes(2);
		assert_int_equal(tarn_inode_get(f.ds, ino, gen, &got), -ESTALE);
	}
	assert_int_equal(drop(NULL, root, "dense"), 0);
	tarn_inode_put(dir);
}

/* ---- many at once ---- */

#define THREADS 8
#define EACH 400

struct worker {
	pthread_t thread;
	unsigned number;
	uint64_t seed;
	struct tarn_inode *dir;
	uint64_t ino[EACH];
};

static void *creator(void *arg)
{
	struct worker *w = arg;
	char name[32];

	for (unsigned i = 0; i < EACH; i++) {
		struct tarn_inode *inode;

		sprintf(name, "w%u.%u", w->number, i);
		assert_int_equal(
		    make(NULL, w->dir, name, i % 8 ? TARN_REG : TARN_DIR, 0755, &inode), 0);
		w->ino[i] = tarn_inode_number(inode);
		tarn_inode_put(inode);
	}
	return NULL;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void parallel_creates_share_a_directory(void **state)
{
	struct tarn_inode *dir = dir_new(root, "shared", 0755);
	struct worker *w = calloc(THREADS, sizeof(*w));
	uint64_t all[THREADS * EACH];
	struct list l;
	bool eof;

	(void)state;
	for (unsigned i = 0; i < THREADS; i++) {
		w[i] = (struct worker){.number = i, .dir = dir};
		assert_int_equal(pthread_create(&w[i].thread, NULL, creator, &w[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(w[i].thread, NULL);
		memcpy(all + i * EACH, w[i].ino, sizeof(w[i].ino));
	}
	qsort(all, THREADS * EACH, sizeof(all[0]), by_number);
	for (unsigned i = 1; i < THREADS * EACH; i++)
		assert_true(all[i] > all[i - 1]);
	assert_int_equal(attr_of(dir).nlink, 2 + THREADS * EACH / 8);
	l = list_from(dir, 0, THREADS * EACH + 1, &eof);
	assert_int_equal(l.n, THREADS * EACH);
	free(l.at);
	for (unsigned i = 0; i < THREADS; i++)
		for (unsigned j = 0; j < EACH; j++) {
			char name[32];

			sprintf(name, "w%u.%u", i, j);
			assert_int_equal(number(dir, name), w[i].ino[j]);
			assert_int_equal(drop(NULL, dir, name), 0);
		}
	free(w);
	assert_int_equal(drop(NULL, root, "shared"), 0);
	tarn_inode_put(dir);
}

/* Numbers go to new files again and again while somebody knocks with the handles of older ones:
   they are stale, at any moment of a file's making and removal. */
static atomic_bool made;
static atomic_ullong latest; /* number */

static void *turnover(void *arg)
{
	struct worker *w = arg;
	char name[16];

	sprintf(name, "t%u", w->number);
	for (unsigned i = 0; i < 4000; i++) {
		struct tarn_inode *inode;

		assert_int_equal(make(NULL, w->dir, name, TARN_REG, 0644, &inode), 0);
		atomic_store(&latest, tarn_inode_number(inode));
		tarn_inode_put(inode);
		assert_int_equal(drop(NULL, w->dir, name), 0);
	}
	return NULL;
}

static void *knock(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load(&made))
		for (uint64_t ino = atomic_load(&latest), end = ino + 4; ino < end; ino++) {
			struct tarn_inode *got;

			if (ino != tarn_inode_number(w->dir))
				assert_int_equal(tarn_inode_get(f.ds, ino, 1, &got), -ESTALE);
		}
	return NULL;
}

static void stale_handles_stay_stale_while_numbers_are_taken(void **state)
{
	struct tarn_inode *dir = dir_new(root, "turnover", 0755);
	struct worker w[4] = {0};

	(void)state;
	atomic_store(&made, false);
	for (unsigned i = 0; i < 4; i++) {
		w[i] = (struct worker){.number = i, .dir = dir};
		assert_int_equal(
		    pthread_create(&w[i].thread, NULL, i < 2 ? turnover : knock, &w[i]), 0);
	}
	pthread_join(w[0].thread, NULL);
	pthread_join(w[1].thread, NULL);
	atomic_store(&made, true);
	pthread_join(w[2].thread, NULL);
	pthread_join(w[3].thread, NULL);
	assert_int_equal(drop(NULL, root, "turnover"), 0);
	tarn_inode_put(dir);
}

/* A few names in a few directories, all moved, made and removed by everybody: each call may
   fail in the ways that the race allows, and tarnck has the last word. */
static void *racer(void *arg)
{
	struct worker *w = arg;
	struct tarn_inode *dirs[3] = {0};
	struct tarn_commit token;
	char name[8], to[8], d[8];

	for (unsigned i = 0; i < 3; i++) {
		sprintf(d, "d%u", i);
		assert_int_equal(tarn_lookup(NULL, w->dir, d, &dirs[i]), 0);
	}
	for (unsigned i = 0; i < 1500; i++) {
		struct tarn_inode *dir = dirs[test_random(&w->seed) % 3];
		struct tarn_inode *other = dirs[test_random(&w->seed) % 3], *inode;
		bool eof;
		int err = 0;

		sprintf(name, "n%u", (unsigned)(test_random(&w->seed) % 5));
		sprintf(to, "n%u", (unsigned)(test_random(&w->seed) % 5));
		switch (test_random(&w->seed) % 8) {
		case 0:
			err = make(NULL, dir, name, TARN_REG, 0644, NULL);
			break;
		case 1:
			err = make(NULL, dir, name, TARN_DIR, 0755, NULL);
			break;
		case 2:
			err = drop(NULL, dir, name);
			break;
		case 3:
		case 4:
			err = move(NULL, dir, name, other, to);
			break;
		case 5:
			err = tarn_lookup(NULL, dir, name, &inode);
			if (err)
				break;
			if (tarn_inode_type(inode) == TARN_DIR) {
				err = move(NULL, other, to, inode, name);
				if (!err)
					err = move(NULL, inode, name, other, to);
			} else {
				err = tarn_link(NULL, inode, other, to, NULL, NULL, &token);
			}
			tarn_inode_put(inode);
			break;
		case 6: {
			struct list l = list_from(dir, 0, 20, &eof);

			for (unsigned k = 0; k < l.n; k++)
				for (unsigned j = 0; j < k; j++)
					assert_int_not_equal(l.at[k].cookie, l.at[j].cookie);
			free(l.at);
			break;
		}
		default:
			err = tarn_lookup(NULL, dir, name, &inode);
			if (!err) {
				err = tarn_open(inode);
				if (!err)
					tarn_close(inode);
				tarn_inode_put(inode);
			}
		}
		if (err && err != -EEXIST && err != -ENOENT && err != -ENOTEMPTY &&
		    err != -EISDIR && err != -ENOTDIR && err != -EINVAL && err != -ESTALE)
			fail_msg("unexpected: %s", strerror(-err));
	}
	for (unsigned i = 0; i < 3; i++)
		tarn_inode_put(dirs[i]);
	return NULL;
}

static bool purge(void *arg, const struct tarn_dirent *d)
{
	bool eof;

	if (tarn_inode_type(d->inode) == TARN_DIR)
		assert_int_equal(tarn_readdir(d->inode, 0, purge, d->inode, &eof), 0);
	assert_int_equal(drop(NULL, arg, d->name), 0);
	return true;
}

static void everything_races_with_everything(void **state)
{
	uint64_t seed = test_seed();
	struct tarn_inode *dir = dir_new(root, "race", 0755);
	struct worker w[4] = {0};
	bool eof;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		char d[8];

		sprintf(d, "d%u", i);
		assert_int_equal(make(NULL, dir, d, TARN_DIR, 0755, NULL), 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		w[i] = (struct worker){.number = i, .dir = dir, .seed = test_random(&seed)};
		assert_int_equal(pthread_create(&w[i].thread, NULL, racer, &w[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++)
		pthread_join(w[i].thread, NULL);
	tarn_inode_put(dir);
	remount(); /* and check */
	assert_int_equal(tarn_lookup(NULL, root, "race", &dir), 0);
	assert_int_equal(tarn_readdir(dir, 0, purge, dir, &eof), 0);
	tarn_inode_put(dir);
	assert_int_equal(drop(NULL, root, "race"), 0);
	wait_for_inodes(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names_are_found),
	    cmocka_unit_test(handles_lead_to_their_inode_only),
	    cmocka_unit_test(every_type_can_be_made),
	    cmocka_unit_test(a_name_is_made_once),
	    cmocka_unit_test(bad_arguments_are_refused),
	    cmocka_unit_test(exclusive_create_can_be_repeated),
	    cmocka_unit_test(owners_and_groups_of_new_inodes),
	    cmocka_unit_test(links_are_counted),
	    cmocka_unit_test(removal_respects_types),
	    cmocka_unit_test(nothing_is_made_in_a_removed_directory),
	    cmocka_unit_test(rename_onto_every_kind),
	    cmocka_unit_test(rename_of_a_directory_moves_its_parent),
	    cmocka_unit_test(rename_special_cases),
	    cmocka_unit_test(a_replaced_name_keeps_its_cookie),
	    cmocka_unit_test(directories_want_write_and_search),
	    cmocka_unit_test(sticky_directories_protect_their_entries),
	    cmocka_unit_test(a_directory_moves_only_if_it_can_be_written),
	    cmocka_unit_test(a_listing_goes_on_at_every_cookie),
	    cmocka_unit_test(stable_names_appear_once_between_changes),
	    cmocka_unit_test(removing_while_listing_leaves_nothing),
	    cmocka_unit_test(child_datasets_are_crossed),
	    cmocka_unit_test(cookies_pass_over_those_of_child_datasets),
	    cmocka_unit_test(an_unlinked_file_lives_until_its_last_close),
	    cmocka_unit_test(an_import_removes_what_was_open),
	    cmocka_unit_test(an_export_may_come_between_the_steps_of_a_removal),
	    cmocka_unit_test(numbers_are_dense_and_come_back),
	    cmocka_unit_test(parallel_creates_share_a_directory),
	    cmocka_unit_test(stale_handles_stay_stale_while_numbers_are_taken),
	    cmocka_unit_test(everything_races_with_everything),
	};

	return cmocka_run_group_tests_name("api_name", tests, setup, teardown);
}
