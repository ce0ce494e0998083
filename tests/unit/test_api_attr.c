// SPDX-License-Identifier: LGPL-3.0-or-later
/* Attributes, ACLs and extended attributes through the public API. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool_fixture.h"
#include <cmocka.h>

#define DEV_BYTES (512ull << 20)

/* RFC 7530 section 6.2.1 */
#define READ_DATA 0x1
#define WRITE_DATA 0x2
#define APPEND_DATA 0x4
#define EXECUTE 0x20
#define DELETE_CHILD 0x40
#define DELETE 0x10000
#define WRITE_ACL 0x40000
#define FILE_INHERIT 0x1
#define DIR_INHERIT 0x2

static struct fixture f;
static struct tarn_inode *root;
static const gid_t alices[] = {100, 101};
static const struct tarn_cred alice = {.uid = 1000, .gid = 100, .ngroups = 2, .groups = alices};
static const struct tarn_cred bob = {.uid = 2000, .gid = 200};
static const struct tarn_cred carol = {.uid = 3000, .gid = 300};

static int setup(void **state)
{
	(void)state;
	fixture_begin(&f, 1, DEV_BYTES, false, NULL);
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

static struct tarn_inode *make(struct tarn_inode *dir, const char *name, enum tarn_type type,
			       uint32_t mode, uid_t uid, gid_t gid)
{
	struct tarn_create how = {
	    .type = type,
	    .set = {.mask = TARN_SET_MODE | TARN_SET_UID | TARN_SET_GID,
		    .mode = mode,
		    .uid = uid,
		    .gid = gid},
	};
	struct tarn_inode *out;
	struct tarn_commit token;

	assert_int_equal(tarn_create(NULL, dir, name, &how, &out, NULL, NULL, &token), 0);
	return out;
}

static void drop(struct tarn_inode *dir, const char *name)
{
	struct tarn_commit token;

	assert_int_equal(tarn_unlink(NULL, dir, name, -1, NULL, &token), 0);
}

static struct tarn_attr attr_of(struct tarn_inode *inode)
{
	struct tarn_attr attr;

	assert_int_equal(tarn_getattr(inode, &attr), 0);
	return attr;
}

static bool same(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool same_attr(const struct tarn_attr *a, const struct tarn_attr *b)
{
	return a->type == b->type && a->mode == b->mode && a->nlink == b->nlink &&
	       a->uid == b->uid && a->gid == b->gid && a->size == b->size && a->ino == b->ino &&
	       a->gen == b->gen && a->change == b->change && same(a->atime, b->atime) &&
	       same(a->mtime, b->mtime) && same(a->ctime, b->ctime) && same(a->btime, b->btime);
}

static int set(const struct tarn_cred *cred, struct tarn_inode *inode,
	       const struct tarn_setattr *what)
{
	struct tarn_attr before = attr_of(inode), post, after;
	struct tarn_commit token;
	int err = tarn_setattr(cred, inode, what, &post, &token);

	after = attr_of(inode);
	if (err) {
		assert_true(same_attr(&before, &after));
		assert_int_equal(token.txg, 0);
	} else {
		assert_true(same_attr(&post, &after));
		assert_true(after.change > before.change);
		assert_true(token.txg > 0);
	}
	return err;
}

static int set_mode(const struct tarn_cred *cred, struct tarn_inode *inode, uint32_t mode)
{
	return set(cred, inode, &(struct tarn_setattr){.mask = TARN_SET_MODE, .mode = mode});
}

static int set_uid(const struct tarn_cred *cred, struct tarn_inode *inode, uid_t uid)
{
	return set(cred, inode, &(struct tarn_setattr){.mask = TARN_SET_UID, .uid = uid});
}

static int set_gid(const struct tarn_cred *cred, struct tarn_inode *inode, gid_t gid)
{
	return set(cred, inode, &(struct tarn_setattr){.mask = TARN_SET_GID, .gid = gid});
}

static int set_size(const struct tarn_cred *cred, struct tarn_inode *inode, uint64_t size)
{
	return set(cred, inode, &(struct tarn_setattr){.mask = TARN_SET_SIZE, .size = size});
}

/* ---- ownership and mode ---- */

static void the_owner_changes_the_mode(void **state)
{
	struct tarn_inode *file = make(root, "mode", TARN_REG, 0644, 1000, 100);

	(void)state;
	assert_int_equal(set_mode(&bob, file, 0666), -EPERM);
	assert_int_equal(set_mode(&alice, file, 0600), 0);
	assert_int_equal(attr_of(file).mode, 0600);
	assert_int_equal(set_mode(&alice, file, 06711), 0);
	assert_int_equal(attr_of(file).mode, 06711);
	assert_int_equal(set_mode(NULL, file, 01644), 0);
	assert_int_equal(attr_of(file).mode, 01644);
	assert_int_equal(set_mode(NULL, file, 0100644), -EINVAL);
	/* No setgid for a group that she is not in. */
	assert_int_equal(set_gid(NULL, file, 999), 0);
	assert_int_equal(set_mode(&alice, file, 02711), 0);
	assert_int_equal(attr_of(file).mode, 0711);
	drop(root, "mode");
	tarn_inode_put(file);
}

static void owners_change_by_the_rules(void **state)
{
	struct tarn_inode *file = make(root, "own", TARN_REG, 0644, 1000, 100);

	(void)state;
	assert_int_equal(set_uid(&alice, file, 2000), -EPERM);
	assert_int_equal(set_uid(&alice, file, 1000), 0);
	assert_int_equal(set_uid(&bob, file, 2000), -EPERM);
	assert_int_equal(set_gid(&alice, file, 101), 0);
	assert_int_equal(attr_of(file).gid, 101);
	assert_int_equal(set_gid(&alice, file, 200), -EPERM);
	assert_int_equal(set_gid(&bob, file, 200), -EPERM);
	assert_int_equal(set_uid(NULL, file, 3000000000u), 0);
	assert_int_equal(attr_of(file).uid, 3000000000u);
	drop(root, "own");
	tarn_inode_put(file);
}

static void suid_and_sgid_go_when_they_must(void **state)
{
	struct tarn_inode *file = make(root, "suid", TARN_REG, 06755, 1000, 100);
	struct tarn_inode *dir = make(root, "sdir", TARN_DIR, 02755, 1000, 100);
	struct tarn_commit token;

	(void)state;
	assert_int_equal(attr_of(file).mode, 06755);
	assert_int_equal(set_gid(&alice, file, 101), 0);
	assert_int_equal(attr_of(file).mode, 0755);
	/* Without group execution it is the mark of mandatory locking. */
	assert_int_equal(set_mode(NULL, file, 06745), 0);
	assert_int_equal(set_uid(NULL, file, 1000), 0);
	assert_int_equal(attr_of(file).mode, 02745);
	assert_int_equal(set_mode(NULL, file, 06777), 0);
	assert_int_equal(set_size(NULL, file, 10), 0);
	assert_int_equal(attr_of(file).mode, 06777);
	assert_int_equal(set_size(&bob, file, 5), 0);
	assert_int_equal(attr_of(file).mode, 0777);
	assert_int_equal(set_mode(NULL, file, 06777), 0);
	assert_int_equal(tarn_allocate(NULL, file, 0, 5, &token), 0);
	assert_int_equal(attr_of(file).mode, 06777);
	assert_int_equal(tarn_allocate(&bob, file, 0, 5, &token), 0);
	assert_int_equal(attr_of(file).mode, 0777);
	assert_int_equal(attr_of(file).size, 5);
	assert_int_equal(set_gid(&alice, dir, 101), 0);
	assert_int_equal(attr_of(dir).mode, 02755);
	drop(root, "suid");
	drop(root, "sdir");
	tarn_inode_put(file);
	tarn_inode_put(dir);
}

static void sizes_change_for_files_only(void **state)
{
	struct tarn_inode *file = make(root, "size", TARN_REG, 0644, 0, 0);
	struct tarn_inode *dir = make(root, "sizedir", TARN_DIR, 0755, 0, 0);
	struct tarn_inode *fifo = make(root, "fifo", TARN_FIFO, 0644, 0, 0);

	(void)state;
	assert_int_equal(set_size(NULL, file, 1ull << 40), 0);
	assert_int_equal(attr_of(file).size, 1ull << 40);
	assert_int_equal(set_size(NULL, file, 0), 0);
	assert_int_equal(attr_of(file).size, 0);
	assert_int_equal(set_size(NULL, file, 1ull << 63), -EFBIG);
	assert_int_equal(set_size(NULL, dir, 0), -EISDIR);
	assert_int_equal(set_size(NULL, fifo, 0), -EINVAL);
	drop(root, "size");
	drop(root, "sizedir");
	drop(root, "fifo");
	tarn_inode_put(file);
	tarn_inode_put(dir);
	tarn_inode_put(fifo);
}

/* ---- times and the change attribute ---- */

static void times_are_kept_to_the_nanosecond(void **state)
{
	struct tarn_inode *file = make(root, "times", TARN_REG, 0666, 1000, 100);
	struct tarn_setattr given = {.mask = TARN_SET_ATIME | TARN_SET_MTIME | TARN_SET_BTIME,
				     .atime = {-5, 999999999},
				     .mtime = {4102444800, 1},
				     .btime = {1, 2}};
	struct tarn_setattr now = {.mask = TARN_SET_ATIME_NOW | TARN_SET_MTIME_NOW};
	struct tarn_setattr bad = {.mask = TARN_SET_MTIME, .mtime = {0, 1000000000}};
	struct tarn_attr attr;

	(void)state;
	assert_int_equal(set(&bob, file, &given), -EPERM);
	assert_int_equal(set(&alice, file, &bad), -EINVAL);
	assert_int_equal(set(&alice, file, &given), 0);
	tarn_inode_put(file);
	tarn_inode_put(root);
	fixture_remount(&f);
	assert_int_equal(tarn_root(f.ds, &root), 0);
	assert_int_equal(tarn_lookup(NULL, root, "times", &file), 0);
	attr = attr_of(file);
	assert_true(same(attr.atime, given.atime));
	assert_true(same(attr.mtime, given.mtime));
	assert_true(same(attr.btime, given.btime));
	/* Who may write may touch, to now only. */
	assert_int_equal(set(&bob, file, &now), 0);
	attr = attr_of(file);
	assert_true(attr.mtime.tv_sec < 4102444800 && attr.mtime.tv_sec > 1600000000);
	assert_int_equal(set_mode(&alice, file, 0644), 0);
	assert_int_equal(set(&bob, file, &now), -EACCES);
	drop(root, "times");
	tarn_inode_put(file);
}

static void the_change_attribute_never_repeats(void **state)
{
	struct tarn_inode *file = make(root, "change", TARN_REG, 0666, 0, 0);
	uint64_t last = attr_of(file).change;

	(void)state;
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 10; i++) {
			assert_int_equal(set_mode(NULL, file, 0600 + i), 0);
			assert_true(attr_of(file).change > last);
			last = attr_of(file).change;
		}
		tarn_inode_put(file);
		tarn_inode_put(root);
		fixture_remount(&f);
		assert_int_equal(tarn_root(f.ds, &root), 0);
		assert_int_equal(tarn_lookup(NULL, root, "change", &file), 0);
		assert_int_equal(attr_of(file).change, last);
		/* Further on than anything that could have been seen and lost. */
		assert_int_equal(set_mode(NULL, file, 0666), 0);
		assert_true(attr_of(file).change > last + (1u << 20));
		last = attr_of(file).change;
	}
	drop(root, "change");
	tarn_inode_put(file);
}

static void set_prop(const char *name, const char *value)
{
	struct tarn_prop prop = {name, value};
	struct tarn_error err = {0};

	if (tarn_dataset_set(f.engine, FIXTURE_POOL, &prop, 1, &err))
		fail_msg("%s=%s: %s", name, value, err.text);
}

static void atime_follows_its_property(void **state)
{
	struct tarn_inode *file = make(root, "atime", TARN_REG, 0644, 0, 0);
	struct tarn_setattr old = {.mask = TARN_SET_ATIME, .atime = {1000, 0}};
	struct tarn_setattr recent = {.mask = TARN_SET_ATIME_NOW};
	struct timespec before;
	uint64_t change;
	char buf[3];
	size_t done;
	bool eof;

	(void)state;
	assert_int_equal(fixture_write(file, 0, "abc", 3, false), 0);
	set_prop("atime", "off");
	assert_int_equal(set(NULL, file, &old), 0);
	assert_int_equal(fixture_read(file, 0, buf, 3, &done, &eof), 0);
	assert_true(same(attr_of(file).atime, old.atime));
	set_prop("atime", "relatime");
	change = attr_of(file).change;
	assert_int_equal(fixture_read(file, 0, buf, 3, &done, &eof), 0);
	assert_true(attr_of(file).atime.tv_sec > 1000);
	assert_int_equal(attr_of(file).change, change);
	/* Read since its last change, and lately: stays. */
	assert_int_equal(set(NULL, file, &recent), 0);
	assert_int_equal(fixture_read(file, 0, buf, 3, &done, &eof), 0);
	before = attr_of(file).atime;
	assert_int_equal(fixture_read(file, 0, buf, 3, &done, &eof), 0);
	assert_true(same(attr_of(file).atime, before));
	set_prop("atime", "on");
	assert_int_equal(fixture_read(file, 0, buf, 3, &done, &eof), 0);
	assert_false(same(attr_of(file).atime, before));
	set_prop("atime", "relatime");
	drop(root, "atime");
	tarn_inode_put(file);
}

static void nothing_changes_on_a_readonly_dataset(void **state)
{
	struct tarn_inode *file = make(root, "ro", TARN_REG, 0644, 0, 0), *out;
	struct tarn_create how = {.type = TARN_REG};
	struct tarn_commit token;
	char buf[1];
	size_t len = 1;

	(void)state;
	set_prop("readonly", "on");
	assert_int_equal(set_mode(NULL, file, 0600), -EROFS);
	assert_int_equal(set_size(NULL, file, 1), -EROFS);
	assert_int_equal(tarn_create(NULL, root, "x", &how, &out, NULL, NULL, &token), -EROFS);
	assert_int_equal(tarn_unlink(NULL, root, "ro", -1, NULL, &token), -EROFS);
	assert_int_equal(tarn_link(NULL, file, root, "x", NULL, NULL, &token), -EROFS);
	assert_int_equal(tarn_rename(NULL, root, "ro", root, "x", NULL, NULL, &token), -EROFS);
	assert_int_equal(tarn_xattr_set(NULL, file, "x", "1", 1, TARN_XATTR_ANY, &token), -EROFS);
	assert_int_equal(fixture_write(file, 0, "x", 1, false), -EROFS);
	assert_int_equal(tarn_xattr_get(file, "x", buf, &len), -ENODATA);
	set_prop("readonly", "off");
	drop(root, "ro");
	tarn_inode_put(file);
}

/* ---- ACLs ---- */

static struct tarn_acl *acl_of(uint32_t n, const struct tarn_ace *ace)
{
	struct tarn_acl *acl = malloc(sizeof(*acl) + n * sizeof(*ace));

	acl->count = n;
	memcpy(acl->ace, ace, n * sizeof(*ace));
	return acl;
}

static int set_acl(const struct tarn_cred *cred, struct tarn_inode *inode, uint32_t n,
		   const struct tarn_ace *ace)
{
	struct tarn_acl *acl = acl_of(n, ace);
	int err = set(cred, inode, &(struct tarn_setattr){.mask = TARN_SET_ACL, .acl = acl});

	free(acl);
	return err;
}

static struct tarn_acl *get_acl(struct tarn_inode *inode)
{
	struct tarn_acl *acl;

	assert_int_equal(tarn_acl_get(inode, &acl), 0);
	return acl;
}

static bool names_uid(const struct tarn_acl *acl, uid_t uid)
{
	for (uint32_t i = 0; i < acl->count; i++)
		if (acl->ace[i].who == TARN_WHO_UID && acl->ace[i].id == uid)
			return true;
	return false;
}

static void a_file_without_acl_shows_its_mode(void **state)
{
	struct tarn_inode *file = make(root, "plain", TARN_REG, 0640, 1000, 100);
	struct tarn_acl *acl = get_acl(file);

	(void)state;
	assert_true(acl->count >= 3);
	assert_false(names_uid(acl, 1000));
	free(acl);
	assert_int_equal(tarn_access(&alice, file, READ_DATA | WRITE_DATA), 0);
	assert_int_equal(tarn_access(&alice, file, EXECUTE), -EACCES);
	assert_int_equal(tarn_access(&bob, file, READ_DATA), -EACCES);
	assert_int_equal(tarn_access(NULL, file, READ_DATA | EXECUTE), 0);
	drop(root, "plain");
	tarn_inode_put(file);
}

static void acl_and_mode_go_together(void **state)
{
	static const struct tarn_ace ace[] = {
	    {.type = 0, .who = TARN_WHO_OWNER, .mask = READ_DATA | WRITE_DATA | APPEND_DATA},
	    {.type = 0, .who = TARN_WHO_UID, .mask = READ_DATA | WRITE_DATA, .id = 2000},
	    {.type = 0, .who = TARN_WHO_GROUP, .flags = 0x40, .mask = READ_DATA | WRITE_DATA},
	    {.type = 0, .who = TARN_WHO_EVERYONE, .mask = 0},
	};
	struct tarn_inode *file = make(root, "acl", TARN_REG, 02750, 1000, 100);
	struct tarn_acl *acl;

	(void)state;
	assert_int_equal(set_acl(&bob, file, 4, ace), -EPERM);
	assert_int_equal(set_acl(&alice, file, 4, ace), 0);
	/* The setgid bit is no matter of the ACL. */
	assert_int_equal(attr_of(file).mode, 02640);
	assert_int_equal(tarn_access(&bob, file, READ_DATA | WRITE_DATA), 0);
	acl = get_acl(file);
	assert_int_equal(acl->count, 4);
	assert_memory_equal(acl->ace, ace, sizeof(ace));
	free(acl);
	/* A chmod takes the named user's rights down to the group's ... */
	assert_int_equal(set_mode(&alice, file, 0640), 0);
	assert_int_equal(tarn_access(&bob, file, READ_DATA), 0);
	assert_int_equal(tarn_access(&bob, file, WRITE_DATA), -EACCES);
	acl = get_acl(file);
	assert_true(names_uid(acl, 2000));
	free(acl);
	/* ... and setting no ACL leaves the mode alone. */
	assert_int_equal(set(&alice, file, &(struct tarn_setattr){.mask = TARN_SET_ACL}), 0);
	assert_int_equal(attr_of(file).mode, 0640);
	assert_int_equal(tarn_access(&bob, file, READ_DATA), -EACCES);
	acl = get_acl(file);
	assert_false(names_uid(acl, 2000));
	free(acl);
	drop(root, "acl");
	tarn_inode_put(file);
}

static void long_acls_survive(void **state)
{
	struct tarn_inode *file = make(root, "long", TARN_REG, 0644, 0, 0);
	struct tarn_ace *ace = calloc(TARN_ACE_MAX + 1, sizeof(*ace));
	struct tarn_acl *acl;

	(void)state;
	for (unsigned i = 0; i <= TARN_ACE_MAX; i++)
		ace[i] = (struct tarn_ace){.who = TARN_WHO_UID, .mask = READ_DATA, .id = i};
	assert_int_equal(set_acl(NULL, file, TARN_ACE_MAX + 1, ace), -EINVAL);
	assert_int_equal(set_acl(NULL, file, TARN_ACE_MAX, ace), 0);
	tarn_inode_put(file);
	tarn_inode_put(root);
	fixture_remount(&f);
	assert_int_equal(tarn_root(f.ds, &root), 0);
	assert_int_equal(tarn_lookup(NULL, root, "long", &file), 0);
	acl = get_acl(file);
	assert_int_equal(acl->count, TARN_ACE_MAX);
	assert_memory_equal(acl->ace, ace, TARN_ACE_MAX * sizeof(*ace));
	free(acl);
	assert_int_equal(set_mode(NULL, file, 0600), 0);
	free(ace);
	drop(root, "long");
	tarn_inode_put(file);
}

static void directories_hand_acls_down(void **state)
{
	static const struct tarn_ace ace[] = {
	    {.who = TARN_WHO_OWNER, .mask = 0x1f01ff},
	    {.who = TARN_WHO_UID,
	     .flags = FILE_INHERIT | DIR_INHERIT,
	     .mask = READ_DATA | WRITE_DATA | APPEND_DATA | EXECUTE | DELETE_CHILD,
	     .id = 2000},
	};
	struct tarn_inode *dir = make(root, "down", TARN_DIR, 0700, 1000, 100), *sub, *file;

	(void)state;
	assert_int_equal(set_acl(&alice, dir, 2, ace), 0);
	sub = make(dir, "sub", TARN_DIR, 0770, 1000, 100);
	file = make(sub, "file", TARN_REG, 0660, 1000, 100);
	assert_int_equal(attr_of(sub).mode, 0770);
	assert_int_equal(attr_of(file).mode, 0660);
	assert_int_equal(tarn_access(&bob, sub, READ_DATA | EXECUTE), 0);
	assert_int_equal(tarn_access(&bob, file, READ_DATA | WRITE_DATA), 0);
	assert_int_equal(tarn_access(&bob, file, EXECUTE), -EACCES);
	tarn_inode_put(file);
	file = make(sub, "private", TARN_REG, 0600, 1000, 100);
	assert_int_equal(tarn_access(&bob, file, READ_DATA), -EACCES);
	tarn_inode_put(file);
	file = make(sub, "link", TARN_FIFO, 0666, 1000, 100);
	tarn_inode_put(file);
	drop(sub, "file");
	drop(sub, "private");
	drop(sub, "link");
	tarn_inode_put(sub);
	drop(dir, "sub");
	tarn_inode_put(dir);
	drop(root, "down");
}

static void exclusive_creates_inherit_as_others_do(void **state)
{
	static const struct tarn_ace ace[] = {
	    {.who = TARN_WHO_OWNER, .mask = 0x1f01ff},
	    {.who = TARN_WHO_UID,
	     .flags = FILE_INHERIT,
	     .mask = READ_DATA | WRITE_DATA,
	     .id = 2000},
	};
	struct tarn_inode *dir = make(root, "excl", TARN_DIR, 0700, 1000, 100), *one, *two;
	struct tarn_create how = {.type = TARN_REG, .exclusive = true};
	struct tarn_acl *first, *second;
	struct tarn_commit token;

	(void)state;
	assert_int_equal(set_acl(NULL, dir, 2, ace), 0);
	/* The mode comes later. */
	assert_int_equal(tarn_create(&alice, dir, "two", &how, &two, NULL, NULL, &token), 0);
	assert_int_equal(tarn_access(&carol, two, READ_DATA), -EACCES);
	assert_int_equal(set_mode(&alice, two, 0640), 0);
	how = (struct tarn_create){.type = TARN_REG, .set = {.mask = TARN_SET_MODE, .mode = 0640}};
	assert_int_equal(tarn_create(&alice, dir, "one", &how, &one, NULL, NULL, &token), 0);
	first = get_acl(one);
	second = get_acl(two);
	assert_int_equal(first->count, second->count);
	assert_memory_equal(first->ace, second->ace, first->count * sizeof(first->ace[0]));
	assert_int_equal(attr_of(two).mode, 0640);
	assert_int_equal(tarn_access(&bob, two, READ_DATA), 0);
	assert_int_equal(tarn_access(&bob, two, WRITE_DATA), -EACCES);
	free(first);
	free(second);
	tarn_inode_put(one);
	tarn_inode_put(two);
	drop(dir, "one");
	drop(dir, "two");
	tarn_inode_put(dir);
	drop(root, "excl");
}

static void acls_decide_about_directories(void **state)
{
	static const struct tarn_ace add_only[] = {
	    {.who = TARN_WHO_UID, .mask = WRITE_DATA | EXECUTE, .id = 2000},
	};
	static const struct tarn_ace can_delete[] = {
	    {.who = TARN_WHO_UID, .mask = DELETE, .id = 2000},
	};
	struct tarn_inode *dir = make(root, "drop", TARN_DIR, 0700, 0, 0), *file;
	struct tarn_create how = {.type = TARN_REG};
	struct tarn_commit token;

	(void)state;
	assert_int_equal(set_acl(NULL, dir, 1, add_only), 0);
	assert_int_equal(tarn_create(&bob, dir, "f", &how, &file, NULL, NULL, &token), 0);
	tarn_inode_put(file);
	how.type = TARN_DIR;
	assert_int_equal(tarn_create(&bob, dir, "d", &how, &file, NULL, NULL, &token), -EACCES);
	assert_int_equal(tarn_unlink(&bob, dir, "f", 0, NULL, &token), -EACCES);
	assert_int_equal(tarn_lookup(NULL, dir, "f", &file), 0);
	assert_int_equal(set_acl(NULL, file, 1, can_delete), 0);
	assert_int_equal(tarn_unlink(&bob, dir, "f", 0, NULL, &token), 0);
	tarn_inode_put(file);
	tarn_inode_put(dir);
	drop(root, "drop");
}

static void acltype_off_means_modes_only(void **state)
{
	static const struct tarn_ace ace[] = {
	    {.who = TARN_WHO_UID, .mask = READ_DATA, .id = 2000},
	};
	struct tarn_inode *file = make(root, "off", TARN_REG, 0600, 1000, 100);

	(void)state;
	assert_int_equal(set_acl(&alice, file, 1, ace), 0);
	assert_int_equal(tarn_access(&bob, file, READ_DATA), 0);
	set_prop("acltype", "off");
	assert_int_equal(tarn_access(&bob, file, READ_DATA), -EACCES);
	assert_int_equal(set_acl(&alice, file, 1, ace), -EOPNOTSUPP);
	set_prop("acltype", "nfsv4");
	assert_int_equal(tarn_access(&bob, file, READ_DATA), 0);
	drop(root, "off");
	tarn_inode_put(file);
}

/* ---- extended attributes ---- */

struct names {
	unsigned n, max;
	char name[8][TARN_NAME_MAX + 1];
};

static bool take_name(void *arg, const char *name)
{
	struct names *names = arg;

	strcpy(names->name[names->n], name);
	return ++names->n < names->max;
}

static void xattrs_are_kept(void **state)
{
	struct tarn_inode *file = make(root, "xattr", TARN_REG, 0644, 1000, 100);
	uint8_t *big = malloc(TARN_XATTR_MAX + 1), *got = malloc(TARN_XATTR_MAX);
	struct names names = {.max = 8};
	struct tarn_commit token;
	uint64_t seed = test_seed(), change;
	size_t len;
	bool eof;

	(void)state;
	for (unsigned i = 0; i <= TARN_XATTR_MAX; i++)
		big[i] = (uint8_t)test_random(&seed);
	change = attr_of(file).change;
	assert_int_equal(tarn_xattr_set(NULL, file, "small", "value", 5, TARN_XATTR_CREATE, &token),
			 0);
	assert_true(attr_of(file).change > change);
	assert_int_equal(tarn_xattr_set(NULL, file, "small", "other", 5, TARN_XATTR_CREATE, &token),
			 -EEXIST);
	assert_int_equal(tarn_xattr_set(NULL, file, "none", "x", 1, TARN_XATTR_REPLACE, &token),
			 -ENODATA);
	assert_int_equal(token.txg, 0);
	assert_int_equal(
	    tarn_xattr_set(NULL, file, "big", big, TARN_XATTR_MAX, TARN_XATTR_ANY, &token), 0);
	assert_int_equal(
	    tarn_xattr_set(NULL, file, "huge", big, TARN_XATTR_MAX + 1, TARN_XATTR_ANY, &token),
	    -E2BIG);
	assert_int_equal(tarn_xattr_set(NULL, file, "empty", NULL, 0, TARN_XATTR_ANY, &token), 0);
	assert_int_equal(tarn_xattr_set(NULL, file, "", "x", 1, TARN_XATTR_ANY, &token), -EINVAL);
	assert_int_equal(tarn_xattr_set(&bob, file, "x", "x", 1, TARN_XATTR_ANY, &token), -EACCES);
	for (unsigned round = 0; round < 2; round++) {
		len = 0;
		assert_int_equal(tarn_xattr_get(file, "small", NULL, &len), 0);
		assert_int_equal(len, 5);
		len = 4;
		assert_int_equal(tarn_xattr_get(file, "small", got, &len), -ERANGE);
		len = TARN_XATTR_MAX;
		assert_int_equal(tarn_xattr_get(file, "small", got, &len), 0);
		assert_int_equal(len, 5);
		assert_memory_equal(got, "value", 5);
		len = TARN_XATTR_MAX;
		assert_int_equal(tarn_xattr_get(file, "big", got, &len), 0);
		assert_int_equal(len, TARN_XATTR_MAX);
		assert_memory_equal(got, big, len);
		len = TARN_XATTR_MAX;
		assert_int_equal(tarn_xattr_get(file, "empty", got, &len), 0);
		assert_int_equal(len, 0);
		len = TARN_XATTR_MAX;
		assert_int_equal(tarn_xattr_get(file, "none", got, &len), -ENODATA);
		if (round)
			break;
		tarn_inode_put(file);
		tarn_inode_put(root);
		fixture_remount(&f);
		assert_int_equal(tarn_root(f.ds, &root), 0);
		assert_int_equal(tarn_lookup(NULL, root, "xattr", &file), 0);
	}
	assert_int_equal(tarn_xattr_list(file, NULL, take_name, &names, &eof), 0);
	assert_true(eof);
	assert_int_equal(names.n, 3);
	assert_string_equal(names.name[0], "big");
	assert_string_equal(names.name[1], "empty");
	assert_string_equal(names.name[2], "small");
	names = (struct names){.max = 1};
	assert_int_equal(tarn_xattr_list(file, "big", take_name, &names, &eof), 0);
	assert_false(eof);
	assert_string_equal(names.name[0], "empty");
	assert_int_equal(tarn_xattr_remove(NULL, file, "big", &token), 0);
	assert_int_equal(tarn_xattr_remove(NULL, file, "big", &token), -ENODATA);
	names = (struct names){.max = 8};
	assert_int_equal(tarn_xattr_list(file, NULL, take_name, &names, &eof), 0);
	assert_int_equal(names.n, 2);
	/* The rest goes with the file. */
	drop(root, "xattr");
	tarn_inode_put(file);
	free(big);
	free(got);
}

/* Name i, longer and longer, up to 255 bytes of anything. */
static void long_name(unsigned i, char name[TARN_NAME_MAX + 1])
{
	size_t len = i % TARN_NAME_MAX + 1;

	memset(name, 0x80 + (int)(i % 120), len < 5 ? 5 : len);
	for (unsigned digit = 0, rest = i; digit < 4; digit++, rest /= 16)
		name[3 - digit] = (char)('A' + rest % 16);
	name[len < 5 ? 5 : len] = 0;
}

struct counted {
	unsigned n;
	char last[TARN_NAME_MAX + 1];
};

static bool count_name(void *arg, const char *name)
{
	struct counted *counted = arg;

	assert_true(strcmp(name, counted->last) > 0);
	strcpy(counted->last, name);
	return ++counted->n < UINT32_MAX;
}

static void thousands_of_xattrs(void **state)
{
	enum { COUNT = 3000 };
	struct tarn_inode *file = make(root, "many", TARN_REG, 0644, 1000, 100);
	char name[TARN_NAME_MAX + 2];
	struct counted counted = {0};
	struct tarn_commit token;
	bool eof;

	(void)state;
	for (unsigned i = 0; i < COUNT; i++) {
		long_name(i, name);
		assert_int_equal(
		    tarn_xattr_set(NULL, file, name, &i, sizeof(i), TARN_XATTR_CREATE, &token), 0);
	}
	memset(name, 'n', TARN_NAME_MAX + 1);
	name[TARN_NAME_MAX + 1] = 0;
	assert_int_equal(tarn_xattr_set(NULL, file, name, "x", 1, TARN_XATTR_ANY, &token),
			 -ENAMETOOLONG);
	tarn_inode_put(file);
	tarn_inode_put(root);
	fixture_remount(&f);
	assert_int_equal(tarn_root(f.ds, &root), 0);
	assert_int_equal(tarn_lookup(NULL, root, "many", &file), 0);
	assert_int_equal(tarn_xattr_list(file, NULL, count_name, &counted, &eof), 0);
	assert_true(eof);
	assert_int_equal(counted.n, COUNT);
	for (unsigned i = 0; i < COUNT; i += 2) {
		unsigned value;
		size_t len = sizeof(value);

		long_name(i, name);
		assert_int_equal(tarn_xattr_get(file, name, &value, &len), 0);
		assert_int_equal(value, i);
		assert_int_equal(tarn_xattr_remove(NULL, file, name, &token), 0);
	}
	counted = (struct counted){0};
	assert_int_equal(tarn_xattr_list(file, NULL, count_name, &counted, &eof), 0);
	assert_int_equal(counted.n, COUNT / 2);
	tarn_inode_put(file);
	drop(root, "many");
}

static void xattr_off_means_none(void **state)
{
	struct tarn_inode *file = make(root, "noxattr", TARN_REG, 0644, 0, 0);
	struct tarn_commit token;
	struct names names = {.max = 8};
	bool eof;

	(void)state;
	set_prop("xattr", "off");
	assert_int_equal(tarn_xattr_set(NULL, file, "x", "x", 1, TARN_XATTR_ANY, &token),
			 -EOPNOTSUPP);
	assert_int_equal(tarn_xattr_list(file, NULL, take_name, &names, &eof), 0);
	assert_int_equal(names.n, 0);
	set_prop("xattr", "on");
	drop(root, "noxattr");
	tarn_inode_put(file);
}

/* Clients hold on to a listing until the change attribute moves. */
static void children_change_a_read_only_parent(void **state)
{
	static const struct tarn_prop readonly = {"readonly", "on"};
	struct tarn_attr before, after;
	struct tarn_error err = {0};
	struct tarn_dataset *ds;
	struct tarn_inode *top;

	(void)state;
	assert_int_equal(tarn_dataset_create(f.engine, "tank/ro", &readonly, 1, false, &err), 0);
	assert_int_equal(tarn_dataset_open(f.engine, "tank/ro", NULL, &ds), 0);
	assert_int_equal(tarn_root(ds, &top), 0);
	assert_int_equal(tarn_getattr(top, &before), 0);
	assert_int_equal(tarn_dataset_create(f.engine, "tank/ro/child", NULL, 0, false, &err), 0);
	assert_int_equal(tarn_getattr(top, &after), 0);
	assert_int_equal(after.nlink, before.nlink + 1);
	assert_true(after.change > before.change);
	assert_int_equal(tarn_dataset_destroy(f.engine, "tank/ro/child", false, 0, &err), 0);
	assert_int_equal(tarn_getattr(top, &before), 0);
	assert_true(before.change > after.change);
	tarn_inode_put(top);
	tarn_dataset_put(ds);
	assert_int_equal(tarn_dataset_destroy(f.engine, "tank/ro", false, 0, &err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_owner_changes_the_mode),
	    cmocka_unit_test(owners_change_by_the_rules),
	    cmocka_unit_test(suid_and_sgid_go_when_they_must),
	    cmocka_unit_test(sizes_change_for_files_only),
	    cmocka_unit_test(times_are_kept_to_the_nanosecond),
	    cmocka_unit_test(the_change_attribute_never_repeats),
	    cmocka_unit_test(atime_follows_its_property),
	    cmocka_unit_test(nothing_changes_on_a_readonly_dataset),
	    cmocka_unit_test(a_file_without_acl_shows_its_mode),
	    cmocka_unit_test(acl_and_mode_go_together),
	    cmocka_unit_test(long_acls_survive),
	    cmocka_unit_test(directories_hand_acls_down),
	    cmocka_unit_test(exclusive_creates_inherit_as_others_do),
	    cmocka_unit_test(acls_decide_about_directories),
	    cmocka_unit_test(acltype_off_means_modes_only),
	    cmocka_unit_test(xattrs_are_kept),
	    cmocka_unit_test(thousands_of_xattrs),
	    cmocka_unit_test(xattr_off_means_none),
	    cmocka_unit_test(children_change_a_read_only_parent),
	};

	return cmocka_run_group_tests_name("api_attr", tests, setup, teardown);
}
