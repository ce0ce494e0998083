// SPDX-License-Identifier: LGPL-3.0-or-later
/* Names through the public API: lookup, create, link, unlink, rename, and who may. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "name_rig.h"

static const struct tarn_cred alice = {.uid = 1000, .gid = 100};
static const struct tarn_cred bob = {.uid = 2000, .gid = 200};

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
	};

	return cmocka_run_group_tests_name("api_name", tests, name_setup, name_teardown);
}
