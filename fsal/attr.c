// SPDX-License-Identifier: LGPL-3.0-or-later
/* Attributes: the engine's to ganesha's and back. */
#include "tarn_fsal.h"

#include <errno.h>
#include <stdlib.h>

struct fsal_fsid__ dataset_fsid(uint64_t pool, uint64_t dataset)
{
	return (struct fsal_fsid__){.major = pool, .minor = dataset};
}

object_file_type_t type_to_fsal(enum tarn_type type)
{
	switch (type) {
	case TARN_REG:
		return REGULAR_FILE;
	case TARN_DIR:
		return DIRECTORY;
	case TARN_LNK:
		return SYMBOLIC_LINK;
	case TARN_BLK:
		return BLOCK_FILE;
	case TARN_CHR:
		return CHARACTER_FILE;
	case TARN_FIFO:
		return FIFO_FILE;
	case TARN_SOCK:
		return SOCKET_FILE;
	}
	return NO_FILE_TYPE;
}

/* Seconds for which MDCACHE may trust a dataset's root: administrators change its children without
   MDCACHE's knowledge. */
#define ROOT_EXPIRE 1

static void attrs_fill(const struct tarn_attr *attr, struct tarn_inode *inode,
		       struct fsal_attrlist *out)
{
	struct tarn_dataset *ds = tarn_inode_dataset(inode);

	out->supported = op_ctx->fsal_export->exp_ops.fs_supported_attrs(op_ctx->fsal_export);
	out->type = type_to_fsal(attr->type);
	out->filesize = attr->size;
	out->fsid = dataset_fsid(tarn_dataset_pool_guid(ds), tarn_dataset_id(ds));
	out->fileid = attr->ino;
	out->mode = attr->mode;
	out->numlinks = attr->nlink;
	out->owner = attr->uid;
	out->group = attr->gid;
	out->rawdev = (fsal_dev_t){.major = attr->rdev_major, .minor = attr->rdev_minor};
	out->atime = attr->atime;
	out->mtime = attr->mtime;
	out->ctime = attr->ctime;
	out->creation = attr->btime;
	out->spaceused = attr->space;
	out->change = attr->change;
	out->generation = attr->gen;
	if (tarn_inode_is_root(inode))
		out->expire_time_attr = ROOT_EXPIRE;
	out->valid_mask |= ATTRS_POSIX | ATTR_CREATION | ATTR_GENERATION;
}

/* The ACL counts as valid also when there is none: else MDCACHE asks again each time. */
static int acl_fill(struct tarn_inode *inode, struct fsal_attrlist *out)
{
	struct tarn_acl *acl;
	int r = tarn_acl_get(inode, &acl);

	if (r == -EOPNOTSUPP) {
		out->valid_mask |= ATTR_ACL;
		return 0;
	}
	if (r != 0)
		return r;
	if (out->acl != NULL)
		nfs4_acl_release_entry(out->acl);
	r = acl_to_fsal(acl, &out->acl);
	free(acl);
	if (r == 0)
		out->valid_mask |= ATTR_ACL;
	return r;
}

fsal_status_t attrs_get(struct tarn_inode *inode, const struct tarn_attr *known,
			struct fsal_attrlist *out)
{
	struct tarn_attr attr;
	int r = 0;

	if (known)
		attr = *known;
	else
		r = tarn_getattr(inode, &attr);
	if (r == 0)
		attrs_fill(&attr, inode, out);
	if (r == 0 && (out->request_mask & ATTR_ACL))
		r = acl_fill(inode, out);
	if (r != 0 && (out->request_mask & ATTR_RDATTR_ERR))
		out->valid_mask = ATTR_RDATTR_ERR;
	return status_of(r);
}

fsal_status_t attrs_optional(struct tarn_inode *inode, const struct tarn_attr *known,
			     struct fsal_attrlist *out)
{
	if (!out)
		return ok();
	fsal_status_t status = attrs_get(inode, known, out);
	if (FSAL_IS_ERROR(status) && (out->request_mask & ATTR_RDATTR_ERR))
		return ok();
	return status;
}

void attrs_forget(struct fsal_obj_handle *handle)
{
	const struct fsal_up_vector *up = op_ctx->fsal_export->up_ops;
	struct gsh_buffdesc key;

	handle->obj_ops->handle_to_key(handle, &key);
	up->invalidate(up, &key, FSAL_UP_INVALIDATE_ATTRS);
}

int attrs_set(const struct fsal_attrlist *in, struct tarn_setattr *set)
{
	*set = (struct tarn_setattr){
	    .mode = in->mode & 07777,
	    .uid = in->owner,
	    .gid = in->group,
	    .size = in->filesize,
	    .atime = in->atime,
	    .mtime = in->mtime,
	    .btime = in->creation,
	};
	static const struct {
		attrmask_t fsal;
		uint32_t engine;
	} bits[] = {
	    {ATTR_MODE, TARN_SET_MODE},
	    {ATTR_OWNER, TARN_SET_UID},
	    {ATTR_GROUP, TARN_SET_GID},
	    {ATTR_SIZE, TARN_SET_SIZE},
	    {ATTR_ATIME, TARN_SET_ATIME},
	    {ATTR_MTIME, TARN_SET_MTIME},
	    {ATTR_ATIME_SERVER, TARN_SET_ATIME_NOW},
	    {ATTR_MTIME_SERVER, TARN_SET_MTIME_NOW},
	    {ATTR_CREATION, TARN_SET_BTIME},
	};

	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
		if (in->valid_mask & bits[i].fsal)
			set->mask |= bits[i].engine;
	}
	if (!(in->valid_mask & ATTR_ACL))
		return 0;
	struct tarn_acl *acl;
	int r = acl_from_fsal(in->acl, &acl);
	if (r == 0) {
		set->acl = acl;
		set->mask |= TARN_SET_ACL;
	}
	return r;
}

void attrs_set_done(struct tarn_setattr *set)
{
	free((void *)set->acl);
	set->acl = NULL;
}

static fsal_status_t op_getattrs(struct fsal_obj_handle *handle, struct fsal_attrlist *out)
{
	struct tarn_inode *inode;
	int r = object_inode(object_of(handle), &inode);

	if (r != 0) {
		if (out->request_mask & ATTR_RDATTR_ERR)
			out->valid_mask = ATTR_RDATTR_ERR;
		return status_of(r);
	}
	fsal_status_t status = attrs_get(inode, NULL, out);
	tarn_inode_put(inode);
	return status;
}

static fsal_status_t op_setattr2(struct fsal_obj_handle *handle, bool bypass, struct state_t *state,
				 struct fsal_attrlist *in)
{
	struct tarn_object *object = object_of(handle);
	struct tarn_cred cred = caller();
	struct tarn_commit token = {0};
	struct tarn_setattr set;
	struct tarn_inode *inode;

	if (in->valid_mask & ATTR_SIZE) {
		if (handle->type != REGULAR_FILE)
			return fsalstat(ERR_FSAL_INVAL, 0);
		fsal_status_t denied = share_check(object, state, bypass, FSAL_O_WRITE);
		if (FSAL_IS_ERROR(denied))
			return denied;
	}
	int r = object_inode(object, &inode);
	if (r != 0)
		return status_of(r);
	fsal_status_t status;
	r = attrs_set(in, &set);
	if (r != 0) {
		status = status_of(r);
	} else if (!durable_reserve()) {
		status = try_later();
	} else {
		r = tarn_setattr(&cred, inode, &set, NULL, &token);
		status = durable_finish(inode, r, token);
	}
	attrs_set_done(&set);
	tarn_inode_put(inode);
	/* The attribute is what is not supported: an ACL, or a kind of entry. */
	return status.major == ERR_FSAL_NOTSUPP ? fsalstat(ERR_FSAL_ATTRNOTSUPP, 0) : status;
}

void attr_ops(struct fsal_obj_ops *ops)
{
	ops->getattrs = op_getattrs;
	ops->setattr2 = op_setattr2;
}
