// SPDX-License-Identifier: LGPL-3.0-or-later
/* The engine's ACLs and ganesha's: the same RFC 7530 numbers, other structures. */
#include "tarn_fsal.h"

#include "nfs4_acls.h"

#include <errno.h>

static void ace_to_fsal(const struct tarn_ace *ace, fsal_ace_t *out)
{
	out->type = ace->type;
	out->perm = ace->mask;
	out->flag = ace->flags;
	switch ((enum tarn_who)ace->who) {
	case TARN_WHO_OWNER:
		out->iflag = FSAL_ACE_IFLAG_SPECIAL_ID;
		out->who.uid = FSAL_ACE_SPECIAL_OWNER;
		break;
	case TARN_WHO_GROUP:
		out->iflag = FSAL_ACE_IFLAG_SPECIAL_ID;
		out->who.uid = FSAL_ACE_SPECIAL_GROUP;
		break;
	case TARN_WHO_EVERYONE:
		out->iflag = FSAL_ACE_IFLAG_SPECIAL_ID;
		out->who.uid = FSAL_ACE_SPECIAL_EVERYONE;
		break;
	case TARN_WHO_UID:
		out->who.uid = ace->id;
		break;
	case TARN_WHO_GID:
		out->flag |= FSAL_ACE_FLAG_GROUP_ID;
		out->who.gid = ace->id;
		break;
	}
}

int acl_to_fsal(const struct tarn_acl *acl, fsal_acl_t **out)
{
	fsal_acl_data_t data = {.naces = acl->count};
	fsal_acl_status_t status;

	*out = NULL;
	if (acl->count == 0)
		return 0;
	data.aces = nfs4_ace_alloc(acl->count);
	for (uint32_t i = 0; i < acl->count; i++)
		ace_to_fsal(&acl->ace[i], &data.aces[i]);
	/* Takes the entries over, also when it fails. */
	*out = nfs4_acl_new_entry(&data, &status);
	return *out ? 0 : -ENOMEM;
}

static int ace_from_fsal(const fsal_ace_t *ace, struct tarn_ace *out)
{
	if (ace->type != FSAL_ACE_TYPE_ALLOW && ace->type != FSAL_ACE_TYPE_DENY)
		return -EOPNOTSUPP;
	*out = (struct tarn_ace){.type = ace->type, .flags = ace->flag, .mask = ace->perm};
	if (!IS_FSAL_ACE_SPECIAL_ID(*ace)) {
		out->who = IS_FSAL_ACE_GROUP_ID(*ace) ? TARN_WHO_GID : TARN_WHO_UID;
		out->id = GET_FSAL_ACE_WHO(*ace);
	} else if (IS_FSAL_ACE_SPECIAL_OWNER(*ace)) {
		out->who = TARN_WHO_OWNER;
	} else if (IS_FSAL_ACE_SPECIAL_GROUP(*ace)) {
		out->who = TARN_WHO_GROUP;
	} else if (IS_FSAL_ACE_SPECIAL_EVERYONE(*ace)) {
		out->who = TARN_WHO_EVERYONE;
	} else {
		return -EINVAL;
	}
	return 0;
}

int acl_from_fsal(const fsal_acl_t *acl, struct tarn_acl **out)
{
	uint32_t count = acl ? acl->naces : 0;

	if (count > TARN_ACE_MAX)
		return -EINVAL;
	struct tarn_acl *made = malloc(sizeof(*made) + count * sizeof(made->ace[0]));
	if (!made)
		return -ENOMEM;
	made->count = count;
	for (uint32_t i = 0; i < count; i++) {
		int r = ace_from_fsal(&acl->aces[i], &made->ace[i]);
		if (r != 0) {
			free(made);
			return r;
		}
	}
	*out = made;
	return 0;
}
