// SPDX-License-Identifier: LGPL-3.0-or-later
#include "fs/acl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define R_BITS (ACE_READ_DATA | ACE_READ_NAMED_ATTRS)
#define W_BITS (ACE_WRITE_DATA | ACE_APPEND_DATA | ACE_WRITE_NAMED_ATTRS)
#define EVERYONE_BITS (ACE_READ_ATTRIBUTES | ACE_READ_ACL | ACE_SYNCHRONIZE)
#define OWNER_BITS (ACE_WRITE_ATTRIBUTES | ACE_WRITE_ACL | ACE_WRITE_OWNER)
/* Nobody can lock himself out of his own file's ACL. */
#define OWNER_ALWAYS (ACE_READ_ATTRIBUTES | ACE_READ_ACL | ACE_WRITE_ACL)
#define INHERIT_FLAGS (ACE_FILE_INHERIT | ACE_DIR_INHERIT | ACE_NO_PROPAGATE | ACE_INHERIT_ONLY)

#define CHMOD_EXTRA 5 /* entries that make the three classes */

bool cred_in_group(const struct tarn_cred *cred, gid_t gid)
{
	if (cred->gid == gid)
		return true;
	for (uint32_t i = 0; i < cred->ngroups; i++)
		if (cred->groups[i] == gid)
			return true;
	return false;
}

/* What three mode bits mean. */
static uint32_t class_bits(uint32_t rwx, bool is_dir)
{
	return (rwx & 4 ? R_BITS : 0) | (rwx & 2 ? W_BITS | (is_dir ? ACE_DELETE_CHILD : 0) : 0) |
	       (rwx & 1 ? ACE_EXECUTE : 0);
}

static int check_mode(const struct inode_record *rec, const struct tarn_cred *cred, uint32_t mask)
{
	bool is_dir = rec->type == TARN_DIR;
	uint32_t granted = EVERYONE_BITS;

	if (cred->uid == rec->uid)
		granted |= OWNER_BITS | class_bits(rec->mode >> 6, is_dir);
	else if (cred_in_group(cred, rec->gid))
		granted |= class_bits(rec->mode >> 3, is_dir);
	else
		granted |= class_bits(rec->mode, is_dir);
	return mask & ~granted ? -EACCES : 0;
}

static bool is_who(const struct tarn_ace *ace, const struct inode_record *rec,
		   const struct tarn_cred *cred)
{
	switch (ace->who) {
	case TARN_WHO_OWNER:
		return cred->uid == rec->uid;
	case TARN_WHO_GROUP:
		return cred_in_group(cred, rec->gid);
	case TARN_WHO_EVERYONE:
		return true;
	case TARN_WHO_UID:
		return cred->uid == ace->id;
	default:
		return cred_in_group(cred, ace->id);
	}
}

int acl_check(const struct tarn_acl *acl, const struct inode_record *rec,
	      const struct tarn_cred *cred, uint32_t mask)
{
	if (cred_super(cred))
		return 0;
	if (!acl)
		return check_mode(rec, cred, mask);
	if (cred->uid == rec->uid)
		mask &= ~(uint32_t)OWNER_ALWAYS;
	for (uint32_t i = 0; i < acl->count && mask; i++) {
		const struct tarn_ace *ace = &acl->ace[i];

		if (ace->type > ACE_DENY || (ace->flags & ACE_INHERIT_ONLY) ||
		    !is_who(ace, rec, cred))
			continue;
		if (ace->type == ACE_ALLOW)
			mask &= ~ace->mask;
		else if (mask & ace->mask)
			return -EACCES;
	}
	return mask ? -EACCES : 0;
}

int acl_validate(const struct tarn_acl *acl)
{
	if (acl->count > TARN_ACE_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < acl->count; i++) {
		const struct tarn_ace *ace = &acl->ace[i];

		if (ace->type > ACE_ALARM || ace->who > TARN_WHO_GID || ace->pad ||
		    (ace->flags & ~(uint32_t)ACE_FLAGS) || (ace->mask & ~(uint32_t)ACE_MASK))
			return -EINVAL;
	}
	return 0;
}

static struct tarn_acl *acl_new(uint32_t room)
{
	return calloc(1, sizeof(struct tarn_acl) + room * sizeof(struct tarn_ace));
}

static void acl_add(struct tarn_acl *acl, uint8_t type, uint8_t who, uint32_t mask)
{
	if (mask)
		acl->ace[acl->count++] = (struct tarn_ace){
		    .type = type,
		    .who = who,
		    .flags = who == TARN_WHO_GROUP ? ACE_GROUP : 0,
		    .mask = mask,
		};
}

/*
 * The classes as entries. A deny follows an allow of the same class for what a later class
 * would give: the mode's classes exclude each other.
 */
static void add_owner(struct tarn_acl *acl, uint32_t mode, bool is_dir)
{
	uint32_t later = class_bits(mode >> 3, is_dir) | class_bits(mode, is_dir);
	uint32_t owner = class_bits(mode >> 6, is_dir);

	acl_add(acl, ACE_ALLOW, TARN_WHO_OWNER, owner | OWNER_BITS | EVERYONE_BITS);
	acl_add(acl, ACE_DENY, TARN_WHO_OWNER, later & ~owner);
}

static void add_others(struct tarn_acl *acl, uint32_t mode, bool is_dir)
{
	uint32_t group = class_bits(mode >> 3, is_dir);
	uint32_t other = class_bits(mode, is_dir);

	acl_add(acl, ACE_ALLOW, TARN_WHO_GROUP, group | EVERYONE_BITS);
	acl_add(acl, ACE_DENY, TARN_WHO_GROUP, other & ~group);
	acl_add(acl, ACE_ALLOW, TARN_WHO_EVERYONE, other | EVERYONE_BITS);
}

struct tarn_acl *acl_from_mode(uint32_t mode, bool is_dir)
{
	struct tarn_acl *acl = acl_new(CHMOD_EXTRA);

	if (acl) {
		add_owner(acl, mode, is_dir);
		add_others(acl, mode, is_dir);
	}
	return acl;
}

/* Whether all bits are allowed, going by entries for who and for everyone. */
static bool class_has(const struct tarn_acl *acl, uint8_t who, uint32_t bits)
{
	for (uint32_t i = 0; i < acl->count && bits; i++) {
		const struct tarn_ace *ace = &acl->ace[i];

		if (ace->type > ACE_DENY || (ace->flags & ACE_INHERIT_ONLY) ||
		    (ace->who != who && ace->who != TARN_WHO_EVERYONE))
			continue;
		if (ace->type == ACE_ALLOW)
			bits &= ~ace->mask;
		else if (bits & ace->mask)
			return false;
	}
	return !bits;
}

uint32_t acl_to_mode(const struct tarn_acl *acl, uint32_t mode)
{
	static const uint8_t who[] = {TARN_WHO_OWNER, TARN_WHO_GROUP, TARN_WHO_EVERYONE};

	mode &= 07000;
	for (unsigned i = 0; i < 3; i++) {
		unsigned shift = 6 - 3 * i;

		if (class_has(acl, who[i], ACE_READ_DATA))
			mode |= 4u << shift;
		if (class_has(acl, who[i], ACE_WRITE_DATA | ACE_APPEND_DATA))
			mode |= 2u << shift;
		if (class_has(acl, who[i], ACE_EXECUTE))
			mode |= 1u << shift;
	}
	return mode;
}

/* One entry of the old ACL under a new mode. */
static void chmod_entry(struct tarn_acl *acl, const struct tarn_ace *old, uint32_t group_lacks,
			bool is_dir)
{
	bool inherited = is_dir && (old->flags & (ACE_FILE_INHERIT | ACE_DIR_INHERIT));
	bool named = old->who == TARN_WHO_UID || old->who == TARN_WHO_GID;
	struct tarn_ace ace = *old;

	/* As it was: what does not give access here, and what the new mode does not limit. */
	if (old->type > ACE_DENY || (old->flags & ACE_INHERIT_ONLY) ||
	    (named && (old->type == ACE_DENY || !(old->mask & group_lacks)))) {
		acl->ace[acl->count++] = ace;
		return;
	}
	if (inherited) {
		ace.flags |= ACE_INHERIT_ONLY;
		acl->ace[acl->count++] = ace;
	}
	if (named && (old->mask & ~group_lacks)) {
		ace.flags = old->flags & ~(uint32_t)INHERIT_FLAGS;
		ace.mask = old->mask & ~group_lacks;
		acl->ace[acl->count++] = ace;
	}
}

struct tarn_acl *acl_chmod(const struct tarn_acl *old, uint32_t mode, bool is_dir)
{
	uint32_t group_lacks = class_bits(7, true) & ~class_bits(mode >> 3, true);
	struct tarn_acl *acl = acl_new(2 * old->count + CHMOD_EXTRA);

	if (!acl)
		return NULL;
	add_owner(acl, mode, is_dir);
	for (uint32_t i = 0; i < old->count; i++)
		chmod_entry(acl, &old->ace[i], group_lacks, is_dir);
	add_others(acl, mode, is_dir);
	return acl;
}

int acl_inherit(const struct tarn_acl *parent, bool is_dir, struct tarn_acl **out)
{
	struct tarn_acl *acl;

	*out = NULL;
	if (!parent)
		return 0;
	acl = acl_new(parent->count);
	if (!acl)
		return -ENOMEM;
	for (uint32_t i = 0; i < parent->count; i++) {
		struct tarn_ace ace = parent->ace[i];
		bool end = ace.flags & ACE_NO_PROPAGATE;

		if (ace.flags & (is_dir ? ACE_DIR_INHERIT : ACE_FILE_INHERIT))
			ace.flags &= ~(uint32_t)(is_dir && !end ? ACE_INHERIT_ONLY : INHERIT_FLAGS);
		else if (is_dir && (ace.flags & ACE_FILE_INHERIT) && !end)
			ace.flags |= ACE_INHERIT_ONLY; /* for the files in it */
		else
			continue;
		acl->ace[acl->count++] = ace;
	}
	if (acl->count)
		*out = acl;
	else
		free(acl);
	return 0;
}
