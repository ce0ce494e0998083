// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * NFSv4 ACLs (RFC 7530 section 6): pure functions, no locks. ACLs that they return are
 * freed with free(); NULL means no memory unless told otherwise.
 */
#ifndef TARN_FS_ACL_H
#define TARN_FS_ACL_H

#include <tarn/fs.h>

#include "fs/record.h"

/* chmod of a long ACL adds entries; acl_chmod() never makes more. */
#define ACL_STORED_MAX (2 * TARN_ACE_MAX + 5)
static_assert(sizeof(struct tarn_ace) == 16, "struct tarn_ace is stored as it is");

enum ace_type { ACE_ALLOW, ACE_DENY, ACE_AUDIT, ACE_ALARM };

enum ace_flag {
	ACE_FILE_INHERIT = 0x1,
	ACE_DIR_INHERIT = 0x2,
	ACE_NO_PROPAGATE = 0x4,
	ACE_INHERIT_ONLY = 0x8,
	ACE_SUCCESSFUL_ACCESS = 0x10,
	ACE_FAILED_ACCESS = 0x20,
	ACE_GROUP = 0x40,
	ACE_INHERITED = 0x80,
	ACE_FLAGS = 0xff,
};

enum ace_mask {
	ACE_READ_DATA = 0x1,   /* LIST_DIRECTORY */
	ACE_WRITE_DATA = 0x2,  /* ADD_FILE */
	ACE_APPEND_DATA = 0x4, /* ADD_SUBDIRECTORY */
	ACE_READ_NAMED_ATTRS = 0x8,
	ACE_WRITE_NAMED_ATTRS = 0x10,
	ACE_EXECUTE = 0x20, /* search */
	ACE_DELETE_CHILD = 0x40,
	ACE_READ_ATTRIBUTES = 0x80,
	ACE_WRITE_ATTRIBUTES = 0x100,
	ACE_DELETE = 0x10000,
	ACE_READ_ACL = 0x20000,
	ACE_WRITE_ACL = 0x40000,
	ACE_WRITE_OWNER = 0x80000,
	ACE_SYNCHRONIZE = 0x100000,
	ACE_MASK = 0x1f01ff,
};

static inline bool cred_super(const struct tarn_cred *cred)
{
	return !cred || cred->uid == 0;
}

bool cred_in_group(const struct tarn_cred *cred, gid_t gid);

/* 0 or -EACCES. acl NULL: the mode decides. */
int acl_check(const struct tarn_acl *acl, const struct inode_record *rec,
	      const struct tarn_cred *cred, uint32_t mask);
/* -EINVAL: unknown types, flags, bits; too many entries. */
int acl_validate(const struct tarn_acl *acl);
/* An ACL that says what the mode says. */
struct tarn_acl *acl_from_mode(uint32_t mode, bool is_dir);
/* The mode's low nine bits from the ACL, the others from mode (6.3.2). */
uint32_t acl_to_mode(const struct tarn_acl *acl, uint32_t mode);
/* The ACL after a chmod (6.4.1.1): acl_to_mode() of it gives mode, named users and groups get
   no more than the group class. May have up to 2n + 5 entries. */
struct tarn_acl *acl_chmod(const struct tarn_acl *acl, uint32_t mode, bool is_dir);
/* What a new inode inherits (6.4.3); *out NULL if nothing. -ENOMEM. If a mode is asked for,
   acl_chmod() follows. */
int acl_inherit(const struct tarn_acl *parent, bool is_dir, struct tarn_acl **out);

#endif
