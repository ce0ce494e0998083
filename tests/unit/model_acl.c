// SPDX-License-Identifier: LGPL-3.0-or-later
/* Who may do what (RFC 7530 section 6), for the model. */
#include <string.h>

#include "model.h"

enum { READ = 0x1, WRITE = 0x2, APPEND = 0x4, READ_NAMED = 0x8, WRITE_NAMED = 0x10 };
enum { EXECUTE = 0x20, DELETE_CHILD = 0x40, INHERIT_ONLY = 0x8 };
#define ATTRIBUTES 0x120080u  /* everybody: read attributes and ACL, synchronize */
#define OWNERS 0xc0100u       /* the owner: write attributes, ACL, owner */
#define OWNER_ALWAYS 0x60080u /* whatever the ACL says: read attributes, read and write the ACL */

bool model_in_group(unsigned user, gid_t gid)
{
	const struct tarn_cred *cred = model_user(user);

	if (!cred || cred->gid == gid)
		return true;
	for (uint32_t i = 0; i < cred->ngroups; i++)
		if (cred->groups[i] == gid)
			return true;
	return false;
}

static const struct tarn_ace *aces(const struct bytes *acl, size_t *n)
{
	*n = acl->len / sizeof(struct tarn_ace);
	return (const struct tarn_ace *)acl->data;
}

static bool speaks_of(const struct tarn_ace *ace, const struct node *n, unsigned user)
{
	uid_t uid = model_user(user)->uid;

	return ace->who == TARN_WHO_EVERYONE || (ace->who == TARN_WHO_OWNER && uid == n->uid) ||
	       (ace->who == TARN_WHO_UID && uid == ace->id) ||
	       (ace->who == TARN_WHO_GROUP && model_in_group(user, n->gid)) ||
	       (ace->who == TARN_WHO_GID && model_in_group(user, ace->id));
}

static bool acl_allows(const struct node *n, unsigned user, uint32_t wanted)
{
	size_t count;
	const struct tarn_ace *ace = aces(n->acl, &count);

	if (model_user(user)->uid == n->uid)
		wanted &= ~OWNER_ALWAYS;
	for (size_t i = 0; i < count && wanted; i++) {
		if ((ace[i].flags & INHERIT_ONLY) || ace[i].type > 1 ||
		    !speaks_of(&ace[i], n, user))
			continue;
		if (ace[i].type == 1 && (ace[i].mask & wanted))
			return false;
		if (ace[i].type == 0)
			wanted &= ~ace[i].mask;
	}
	return !wanted;
}

bool model_may(const struct model *m, const struct node *n, unsigned user, uint32_t mask)
{
	uint32_t rwx, allowed = ATTRIBUTES;

	if (!user)
		return true;
	if (n->acl && model_prop(m, n->dataset, PROP_ACLTYPE, NULL) != 1)
		return acl_allows(n, user, mask);
	if (model_user(user)->uid == n->uid) {
		rwx = n->mode >> 6;
		allowed |= OWNERS;
	} else {
		rwx = model_in_group(user, n->gid) ? n->mode >> 3 : n->mode;
	}
	if (rwx & 4)
		allowed |= READ | READ_NAMED;
	if (rwx & 2)
		allowed |= WRITE | APPEND | WRITE_NAMED | (n->type == TARN_DIR ? DELETE_CHILD : 0);
	if (rwx & 1)
		allowed |= EXECUTE;
	return !(mask & ~allowed);
}

/* What somebody gets whom only entries of this class and of everyone speak of. */
static bool class_gets(const struct bytes *acl, unsigned who, uint32_t bit)
{
	size_t count;
	const struct tarn_ace *ace = aces(acl, &count);

	for (size_t i = 0; i < count; i++)
		if (!(ace[i].flags & INHERIT_ONLY) && ace[i].type < 2 && (ace[i].mask & bit) &&
		    (ace[i].who == who || ace[i].who == TARN_WHO_EVERYONE))
			return ace[i].type == 0;
	return false;
}

uint32_t model_acl_mode(const struct bytes *acl)
{
	uint32_t mode = 0;

	for (unsigned who = TARN_WHO_OWNER; who <= TARN_WHO_EVERYONE; who++)
		mode = mode << 3 | (class_gets(acl, who, READ) ? 4u : 0) |
		       (class_gets(acl, who, WRITE) && class_gets(acl, who, APPEND) ? 2u : 0) |
		       (class_gets(acl, who, EXECUTE) ? 1u : 0);
	return mode;
}

bool model_acl_masked(const struct bytes *acl, uint32_t mode)
{
	size_t count;
	const struct tarn_ace *ace = aces(acl, &count);
	uint32_t never = (mode & 040 ? 0 : READ) | (mode & 020 ? 0 : WRITE | APPEND) |
			 (mode & 010 ? 0 : EXECUTE);

	for (size_t i = 0; i < count; i++)
		if (ace[i].type == 0 && ace[i].who >= TARN_WHO_UID &&
		    !(ace[i].flags & INHERIT_ONLY) && (ace[i].mask & never))
			return false;
	return true;
}
