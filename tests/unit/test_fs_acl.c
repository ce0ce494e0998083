// SPDX-License-Identifier: LGPL-3.0-or-later
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "fs/acl.h"

#define R ACE_READ_DATA
#define W (ACE_WRITE_DATA | ACE_APPEND_DATA)
#define X ACE_EXECUTE
#define FD (ACE_FILE_INHERIT | ACE_DIR_INHERIT)

enum { OWNER_UID = 1000, GROUP_GID = 100, MEMBER_UID = 2000, OTHER_UID = 3000, NAMED_UID = 4000 };

static const struct tarn_cred owner = {.uid = OWNER_UID, .gid = GROUP_GID};
static const struct tarn_cred member = {.uid = MEMBER_UID, .gid = GROUP_GID};
static const struct tarn_cred other = {.uid = OTHER_UID, .gid = 300};
static const struct tarn_cred named = {.uid = NAMED_UID, .gid = 400};
static const struct tarn_cred root = {.uid = 0, .gid = 0};

static struct inode_record record(uint32_t mode, bool is_dir)
{
	return (struct inode_record){
	    .type = is_dir ? TARN_DIR : TARN_REG, .mode = mode, .uid = OWNER_UID, .gid = GROUP_GID};
}

static struct tarn_acl *acl_of(uint32_t n, const struct tarn_ace *ace)
{
	struct tarn_acl *acl = malloc(sizeof(*acl) + n * sizeof(*ace));

	acl->count = n;
	memcpy(acl->ace, ace, n * sizeof(*ace));
	return acl;
}
#define ACL(...)                                                                                   \
	acl_of(sizeof((struct tarn_ace[]){__VA_ARGS__}) / sizeof(struct tarn_ace),                 \
	       (struct tarn_ace[]){__VA_ARGS__})
#define ACE(t, w, f, m, i)                                                                         \
	{                                                                                          \
		.type = (t), .who = (w), .flags = (f), .mask = (m), .id = (i)                      \
	}

/* What classic mode bits give to a caller, worked out on its own. */
static bool mode_allows(uint32_t mode, const struct tarn_cred *cred, unsigned rwx)
{
	unsigned shift = cred->uid == OWNER_UID ? 6 : cred->gid == GROUP_GID ? 3 : 0;

	return (mode >> shift & rwx) == rwx;
}

static void every_mode_gives_what_its_bits_say(void **state)
{
	static const struct tarn_cred *const cred[] = {&owner, &member, &other};
	static const struct {
		unsigned rwx;
		uint32_t mask;
	} want[] = {{4, R}, {2, W}, {1, X}, {6, R | W}, {7, R | W | X}};

	(void)state;
	for (unsigned is_dir = 0; is_dir < 2; is_dir++)
		for (uint32_t mode = 0; mode < 01000; mode++) {
			struct inode_record rec = record(mode, is_dir);
			struct tarn_acl *acl = acl_from_mode(mode, is_dir);

			assert_int_equal(acl_validate(acl), 0);
			assert_int_equal(acl_to_mode(acl, 07000), mode | 07000);
			for (unsigned c = 0; c < 3; c++)
				for (unsigned i = 0; i < 5; i++) {
					int result =
					    mode_allows(mode, cred[c], want[i].rwx) ? 0 : -EACCES;

					assert_int_equal(
					    acl_check(NULL, &rec, cred[c], want[i].mask), result);
					assert_int_equal(
					    acl_check(acl, &rec, cred[c], want[i].mask), result);
				}
			free(acl);
		}
}

static void a_mode_and_its_acl_agree_on_every_bit(void **state)
{
	static const struct tarn_cred *const cred[] = {&owner, &member, &other};

	(void)state;
	for (unsigned is_dir = 0; is_dir < 2; is_dir++)
		for (uint32_t mode = 0; mode < 01000; mode++) {
			struct inode_record rec = record(mode, is_dir);
			struct tarn_acl *acl = acl_from_mode(mode, is_dir);

			for (unsigned c = 0; c < 3; c++)
				for (uint32_t bit = 1; bit <= ACE_SYNCHRONIZE; bit <<= 1)
					if (bit & ACE_MASK)
						assert_int_equal(
						    acl_check(acl, &rec, cred[c], bit),
						    acl_check(NULL, &rec, cred[c], bit));
			free(acl);
		}
}

static void the_superuser_passes(void **state)
{
	struct inode_record rec = record(0, false);
	struct tarn_acl *acl = ACL(ACE(ACE_DENY, TARN_WHO_EVERYONE, 0, ACE_MASK, 0));

	(void)state;
	assert_int_equal(acl_check(acl, &rec, &root, ACE_MASK), 0);
	assert_int_equal(acl_check(acl, &rec, NULL, ACE_MASK), 0);
	assert_int_equal(acl_check(acl, &rec, &other, R), -EACCES);
	free(acl);
}

static void the_first_entry_for_a_bit_decides(void **state)
{
	struct inode_record rec = record(0, false);
	struct tarn_acl *acl = ACL(ACE(ACE_ALLOW, TARN_WHO_UID, 0, R, NAMED_UID),
				   ACE(ACE_DENY, TARN_WHO_UID, 0, R | W, NAMED_UID),
				   ACE(ACE_AUDIT, TARN_WHO_EVERYONE, 0, R | W, 0),
				   ACE(ACE_ALLOW, TARN_WHO_EVERYONE, 0, R | W, 0));

	(void)state;
	assert_int_equal(acl_check(acl, &rec, &named, R), 0);
	assert_int_equal(acl_check(acl, &rec, &named, W), -EACCES);
	assert_int_equal(acl_check(acl, &rec, &named, R | W), -EACCES);
	assert_int_equal(acl_check(acl, &rec, &other, R | W), 0);
	assert_int_equal(acl_check(acl, &rec, &other, X), -EACCES);
	free(acl);
}

static void groups_count_beyond_the_first(void **state)
{
	static const gid_t groups[] = {7, 555};
	struct tarn_cred cred = {.uid = 1, .gid = 2, .ngroups = 2, .groups = groups};
	struct inode_record rec = record(0, false);
	struct tarn_acl *acl = ACL(ACE(ACE_ALLOW, TARN_WHO_GID, ACE_GROUP, R, 555));

	(void)state;
	assert_int_equal(acl_check(acl, &rec, &cred, R), 0);
	assert_int_equal(acl_check(acl, &rec, &other, R), -EACCES);
	free(acl);
}

static void inherit_only_entries_do_not_count_here(void **state)
{
	struct inode_record rec = record(0, true);
	struct tarn_acl *acl = ACL(ACE(ACE_DENY, TARN_WHO_EVERYONE, FD | ACE_INHERIT_ONLY, R, 0),
				   ACE(ACE_ALLOW, TARN_WHO_EVERYONE, 0, R, 0));

	(void)state;
	assert_int_equal(acl_check(acl, &rec, &other, R), 0);
	assert_int_equal(acl_to_mode(acl, 0), 0444);
	free(acl);
}

static void an_owner_can_always_mend_the_acl(void **state)
{
	struct inode_record rec = record(0, false);
	struct tarn_acl *acl = ACL(ACE(ACE_DENY, TARN_WHO_EVERYONE, 0, ACE_MASK, 0));

	(void)state;
	assert_int_equal(acl_check(acl, &rec, &owner, ACE_READ_ACL | ACE_WRITE_ACL), 0);
	assert_int_equal(acl_check(acl, &rec, &owner, R), -EACCES);
	assert_int_equal(acl_check(acl, &rec, &other, ACE_READ_ACL), -EACCES);
	free(acl);
}

static void write_needs_append_too(void **state)
{
	struct tarn_acl *acl = ACL(ACE(ACE_ALLOW, TARN_WHO_EVERYONE, 0, ACE_WRITE_DATA, 0),
				   ACE(ACE_ALLOW, TARN_WHO_GROUP, ACE_GROUP, ACE_APPEND_DATA, 0));

	(void)state;
	assert_int_equal(acl_to_mode(acl, 02000), 02020);
	free(acl);
}

static void chmod_gives_that_mode(void **state)
{
	struct tarn_acl *acl = ACL(ACE(ACE_DENY, TARN_WHO_GROUP, ACE_GROUP, W, 0),
				   ACE(ACE_ALLOW, TARN_WHO_UID, 0, R | W, NAMED_UID),
				   ACE(ACE_ALLOW, TARN_WHO_EVERYONE, 0, R | W | X, 0));

	(void)state;
	for (uint32_t mode = 0; mode < 01000; mode++) {
		struct inode_record rec = record(mode, false);
		struct tarn_acl *now = acl_chmod(acl, mode, false);
		struct tarn_acl *again = acl_chmod(now, mode, false);

		assert_int_equal(acl_validate(now), 0);
		assert_int_equal(acl_to_mode(now, 0), mode);
		/* The named user: never more than before, nor than the group class. */
		assert_int_equal(acl_check(now, &rec, &named, R), mode & 044 ? 0 : -EACCES);
		if (!(mode & 020) && !(mode & 02))
			assert_int_equal(acl_check(now, &rec, &named, ACE_WRITE_DATA), -EACCES);
		if (mode & 020)
			assert_int_equal(acl_check(now, &rec, &named, W), 0);
		/* The same chmod again changes nothing. */
		assert_int_equal(again->count, now->count);
		assert_memory_equal(again->ace, now->ace, now->count * sizeof(now->ace[0]));
		free(now);
		free(again);
	}
	free(acl);
}

static unsigned count_who(const struct tarn_acl *acl, uint8_t who)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < acl->count; i++)
		n += acl->ace[i].who == who;
	return n;
}

/* What a create with a mode does. */
static int inherit(const struct tarn_acl *dir, bool is_dir, uint32_t mode, struct tarn_acl **out)
{
	struct tarn_acl *plain;
	int err = acl_inherit(dir, is_dir, &plain);

	*out = err || !plain ? NULL : acl_chmod(plain, mode, is_dir);
	free(plain);
	return err;
}

static void chmod_keeps_what_a_directory_hands_down(void **state)
{
	struct tarn_acl *acl = ACL(ACE(ACE_ALLOW, TARN_WHO_UID, FD, R | W | X, NAMED_UID),
				   ACE(ACE_ALLOW, TARN_WHO_EVERYONE, FD, R | X, 0));
	struct tarn_acl *now = acl_chmod(acl, 0700, true), *file;
	struct inode_record rec = record(0700, true);

	(void)state;
	assert_int_equal(acl_to_mode(now, 0), 0700);
	assert_int_equal(acl_check(now, &rec, &named, R), -EACCES);
	/* A file made in it with mode 0666 still has the named user's entry in full. */
	assert_int_equal(inherit(now, false, 0666, &file), 0);
	rec = record(0666, false);
	assert_int_equal(acl_check(file, &rec, &named, R | W), 0);
	assert_int_equal(count_who(file, TARN_WHO_UID), 1);
	free(file);
	free(now);
	free(acl);
}

static void repeated_chmod_and_inheritance_do_not_grow(void **state)
{
	struct tarn_acl *acl = ACL(ACE(ACE_ALLOW, TARN_WHO_UID, FD, R | W | X, NAMED_UID),
				   ACE(ACE_DENY, TARN_WHO_GID, FD, W, 9),
				   ACE(ACE_ALLOW, TARN_WHO_GROUP, FD | ACE_GROUP, R | W, 0),
				   ACE(ACE_ALLOW, TARN_WHO_EVERYONE, FD, R | X, 0));

	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		struct tarn_acl *next = NULL;

		if (i % 2)
			next = acl_chmod(acl, i % 4 == 1 ? 0700 : 0775, true);
		else
			assert_int_equal(inherit(acl, true, 0750, &next), 0);
		assert_non_null(next);
		free(acl);
		acl = next;
		assert_true(acl->count <= 2 * 4 + 5);
	}
	free(acl);
}

static void inheritance_respects_the_create_mode(void **state)
{
	struct tarn_acl *dir = ACL(ACE(ACE_ALLOW, TARN_WHO_UID, FD, R | W, NAMED_UID),
				   ACE(ACE_ALLOW, TARN_WHO_EVERYONE, FD, R, 0));
	struct inode_record rec = record(0600, false);
	struct tarn_acl *file;

	(void)state;
	assert_int_equal(inherit(dir, false, 0600, &file), 0);
	assert_int_equal(acl_to_mode(file, 0), 0600);
	assert_int_equal(acl_check(file, &rec, &named, R), -EACCES);
	assert_int_equal(acl_check(file, &rec, &other, R), -EACCES);
	assert_int_equal(acl_check(file, &rec, &owner, R | W), 0);
	for (uint32_t i = 0; i < file->count; i++)
		assert_false(file->ace[i].flags & (FD | ACE_INHERIT_ONLY | ACE_NO_PROPAGATE));
	free(file);
	free(dir);
}

static void nothing_to_inherit_gives_no_acl(void **state)
{
	struct tarn_acl *dir = ACL(ACE(ACE_ALLOW, TARN_WHO_EVERYONE, 0, R, 0),
				   ACE(ACE_ALLOW, TARN_WHO_UID, ACE_DIR_INHERIT, R, NAMED_UID));
	struct tarn_acl *got;

	(void)state;
	assert_int_equal(inherit(NULL, true, 0777, &got), 0);
	assert_null(got);
	assert_int_equal(inherit(dir, false, 0777, &got), 0);
	assert_null(got);
	assert_int_equal(inherit(dir, true, 0777, &got), 0);
	assert_non_null(got);
	free(got);
	free(dir);
}

static const struct tarn_ace *find_uid(const struct tarn_acl *acl)
{
	for (uint32_t i = 0; acl && i < acl->count; i++)
		if (acl->ace[i].who == TARN_WHO_UID)
			return &acl->ace[i];
	return NULL;
}

static void flags_pass_down_as_they_should(void **state)
{
	/* flags in the directory; in a file of it, in a directory of it; -1: no entry */
	static const int flags[][3] = {
	    {ACE_FILE_INHERIT, 0, ACE_FILE_INHERIT | ACE_INHERIT_ONLY},
	    {ACE_DIR_INHERIT, -1, ACE_DIR_INHERIT},
	    {FD, 0, FD},
	    {FD | ACE_INHERIT_ONLY, 0, FD},
	    {FD | ACE_NO_PROPAGATE, 0, 0},
	    {ACE_FILE_INHERIT | ACE_NO_PROPAGATE, 0, -1},
	    {ACE_DIR_INHERIT | ACE_NO_PROPAGATE | ACE_INHERIT_ONLY, -1, 0},
	    {0, -1, -1},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		for (unsigned is_dir = 0; is_dir < 2; is_dir++) {
			int want = flags[i][1 + is_dir];
			struct tarn_acl *dir =
			    ACL(ACE(ACE_ALLOW, TARN_WHO_UID, (uint32_t)flags[i][0], R, NAMED_UID));
			struct tarn_acl *got;
			const struct tarn_ace *ace;

			assert_int_equal(inherit(dir, is_dir, 0777, &got), 0);
			ace = find_uid(got);
			if (want < 0) {
				assert_null(ace);
			} else {
				assert_non_null(ace);
				assert_int_equal(ace->flags, want);
			}
			free(got);
			free(dir);
		}
}

static void bad_acls_are_refused(void **state)
{
	static const struct tarn_ace bad[] = {
	    ACE(4, TARN_WHO_OWNER, 0, R, 0),
	    ACE(ACE_ALLOW, TARN_WHO_GID + 1, 0, R, 0),
	    ACE(ACE_ALLOW, TARN_WHO_OWNER, 0x100, R, 0),
	    ACE(ACE_ALLOW, TARN_WHO_OWNER, 0, 0x200, 0),
	    ACE(ACE_ALLOW, TARN_WHO_OWNER, 0, 0x80000000, 0),
	};
	struct tarn_acl *acl;

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		acl = acl_of(1, &bad[i]);
		assert_int_equal(acl_validate(acl), -EINVAL);
		free(acl);
	}
	acl = calloc(1, sizeof(*acl) + (TARN_ACE_MAX + 1) * sizeof(acl->ace[0]));
	acl->count = TARN_ACE_MAX;
	assert_int_equal(acl_validate(acl), 0);
	acl->count++;
	assert_int_equal(acl_validate(acl), -EINVAL);
	free(acl);
}

/* Random ACLs: evaluation against a plain reading of RFC 7530 6.2.1, bit by bit. */
static int plain_check(const struct tarn_acl *acl, const struct inode_record *rec,
		       const struct tarn_cred *cred, uint32_t bit)
{
	if (cred->uid == rec->uid && (bit & (ACE_READ_ACL | ACE_WRITE_ACL | ACE_READ_ATTRIBUTES)))
		return 0;
	for (uint32_t i = 0; i < acl->count; i++) {
		const struct tarn_ace *a = &acl->ace[i];
		bool who = (a->who == TARN_WHO_OWNER && cred->uid == rec->uid) ||
			   (a->who == TARN_WHO_GROUP && cred->gid == rec->gid) ||
			   a->who == TARN_WHO_EVERYONE ||
			   (a->who == TARN_WHO_UID && a->id == cred->uid) ||
			   (a->who == TARN_WHO_GID && a->id == cred->gid);

		if (who && a->type <= ACE_DENY && !(a->flags & ACE_INHERIT_ONLY) && (a->mask & bit))
			return a->type == ACE_ALLOW ? 0 : -EACCES;
	}
	return -EACCES;
}

static void random_acls_keep_the_rules(void **state)
{
	static const uint32_t ids[] = {OWNER_UID, MEMBER_UID, OTHER_UID, NAMED_UID, 100, 300};
	static const struct tarn_cred *const cred[] = {&owner, &member, &other, &named};
	const char *env = getenv("TARN_TEST_SEED");
	unsigned seed = env ? (unsigned)strtoul(env, NULL, 0) : (unsigned)time(NULL);

	(void)state;
	print_message("TARN_TEST_SEED=%u\n", seed);
	srandom(seed);
	for (unsigned round = 0; round < 5000; round++) {
		uint32_t n = 1 + (uint32_t)random() % 8, mode = (uint32_t)random() & 0777;
		bool is_dir = random() & 1;
		struct tarn_acl *acl = malloc(sizeof(*acl) + n * sizeof(acl->ace[0])), *now;
		struct inode_record rec = record(mode, is_dir);

		acl->count = n;
		for (uint32_t i = 0; i < n; i++)
			acl->ace[i] = (struct tarn_ace){
			    .type = (uint8_t)(random() % 4),
			    .who = (uint8_t)(random() % 5),
			    .flags = is_dir ? (uint32_t)random() & 0xf : 0,
			    .mask = (uint32_t)random() & ACE_MASK,
			    .id = ids[random() % 6],
			};
		now = acl_chmod(acl, mode, is_dir);
		assert_int_equal(acl_to_mode(now, 0), mode);
		for (unsigned c = 0; c < 4; c++)
			for (uint32_t bit = 1; bit <= ACE_SYNCHRONIZE; bit <<= 1) {
				if (!(bit & ACE_MASK))
					continue;
				assert_int_equal(acl_check(acl, &rec, cred[c], bit),
						 plain_check(acl, &rec, cred[c], bit));
				assert_int_equal(acl_check(now, &rec, cred[c], bit),
						 plain_check(now, &rec, cred[c], bit));
			}
		free(now);
		free(acl);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_mode_gives_what_its_bits_say),
	    cmocka_unit_test(a_mode_and_its_acl_agree_on_every_bit),
	    cmocka_unit_test(the_superuser_passes),
	    cmocka_unit_test(the_first_entry_for_a_bit_decides),
	    cmocka_unit_test(groups_count_beyond_the_first),
	    cmocka_unit_test(inherit_only_entries_do_not_count_here),
	    cmocka_unit_test(an_owner_can_always_mend_the_acl),
	    cmocka_unit_test(write_needs_append_too),
	    cmocka_unit_test(chmod_gives_that_mode),
	    cmocka_unit_test(chmod_keeps_what_a_directory_hands_down),
	    cmocka_unit_test(repeated_chmod_and_inheritance_do_not_grow),
	    cmocka_unit_test(inheritance_respects_the_create_mode),
	    cmocka_unit_test(nothing_to_inherit_gives_no_acl),
	    cmocka_unit_test(flags_pass_down_as_they_should),
	    cmocka_unit_test(bad_acls_are_refused),
	    cmocka_unit_test(random_acls_keep_the_rules),
	};

	return cmocka_run_group_tests_name("fs_acl", tests, NULL, NULL);
}
