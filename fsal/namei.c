// SPDX-License-Identifier: LGPL-3.0-or-later
/* Names: lookup, and what makes, moves and removes entries. The lookups and listings
   of clients are in names.c. */
#include "tarn_fsal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

int name_check(const char *name)
{
	size_t len = strlen(name);

	if (len > TARN_NAME_MAX)
		return -ENAMETOOLONG;
	if (len == 0 || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return -EINVAL;
	return 0;
}

/* ---- reading ---- */

/* Whether inode is the root of its pool: what is above is no dataset. */
static bool is_pool_root(struct tarn_inode *inode)
{
	char path[TARN_PATH_MAX];

	if (!tarn_inode_is_root(inode))
		return false;
	tarn_dataset_path(tarn_inode_dataset(inode), path);
	return !strchr(path, '/');
}

/*
 * "..", the same in every export: MDCACHE keeps the answer with the directory, which exports
 * share. Ganesha itself does not ask at an export's root, but once, when it makes the export.
 */
static int lookup_parent(struct tarn_inode *dir, struct tarn_object **out)
{
	struct tarn_inode *parent;

	if (is_pool_root(dir)) {
		*out = object_new_pools();
		return 0;
	}
	int r = tarn_lookup(NULL, dir, "..", &parent);
	if (r == 0)
		*out = object_new(parent);
	return r;
}

static int lookup_child(struct tarn_inode *dir, const char *name, struct tarn_object **out)
{
	struct tarn_inode *inode;
	int r = name_check(name);

	/* Ganesha has checked that the caller may search. */
	if (r == 0)
		r = tarn_lookup(NULL, dir, name, &inode);
	if (r == 0)
		*out = object_new(inode);
	return r;
}

static fsal_status_t op_lookup(struct fsal_obj_handle *handle, const char *name,
			       struct fsal_obj_handle **out, struct fsal_attrlist *attrs)
{
	struct tarn_object *object = NULL;
	struct tarn_inode *dir;
	fsal_status_t status = ok();
	int r = object_inode(object_of(handle), &dir);

	*out = NULL;
	if (r != 0)
		return status_of(r);
	r = strcmp(name, "..") == 0 ? lookup_parent(dir, &object)
				    : lookup_child(dir, name, &object);
	tarn_inode_put(dir);
	if (r != 0)
		return status_of(r);
	if (attrs) {
		status = object->handle.obj_ops->getattrs(&object->handle, attrs);
		if (FSAL_IS_ERROR(status) && (attrs->request_mask & ATTR_RDATTR_ERR))
			status = ok();
	}
	if (FSAL_IS_ERROR(status))
		object->handle.obj_ops->release(&object->handle);
	else
		*out = &object->handle;
	return status;
}

static fsal_status_t op_readlink(struct fsal_obj_handle *handle, struct gsh_buffdesc *out,
				 bool refresh)
{
	struct tarn_inode *inode;
	char *target;
	int r = object_inode(object_of(handle), &inode);

	(void)refresh;
	if (r != 0)
		return status_of(r);
	r = tarn_readlink(inode, &target);
	tarn_inode_put(inode);
	if (r != 0)
		return status_of(r);
	/* gsh_free() is free(): the caller takes it over. */
	out->addr = target;
	out->len = strlen(target) + 1;
	return ok();
}

/* ---- making ---- */

/* Makes an entry of any type but REG and answers when it is durable. */
static fsal_status_t make(struct fsal_obj_handle *handle, const char *name, struct tarn_create *how,
			  const struct fsal_attrlist *in, struct fsal_obj_handle **out,
			  struct fsal_attrlist *attrs)
{
	struct tarn_inode *dir, *inode = NULL;
	struct tarn_cred cred = caller();
	struct tarn_commit token = {0};
	struct tarn_attr post;
	int r = name_check(name);

	*out = NULL;
	if (r != 0)
		return status_of(r);
	r = attrs_set(in, &how->set);
	if (r != 0)
		return status_of(r);
	r = object_inode(object_of(handle), &dir);
	if (r != 0) {
		attrs_set_done(&how->set);
		return status_of(r);
	}
	fsal_status_t status = try_later();
	if (durable_reserve()) {
		r = tarn_create(&cred, dir, name, how, &inode, &post, NULL, &token);
		status = durable_finish(dir, r, token);
	}
	attrs_set_done(&how->set);
	tarn_inode_put(dir);
	if (!FSAL_IS_ERROR(status))
		status = attrs_optional(inode, &post, attrs);
	if (!FSAL_IS_ERROR(status))
		*out = &object_new(inode)->handle;
	else if (inode)
		tarn_inode_put(inode);
	return status;
}

static fsal_status_t op_mkdir(struct fsal_obj_handle *dir, const char *name,
			      struct fsal_attrlist *in, struct fsal_obj_handle **out,
			      struct fsal_attrlist *attrs)
{
	struct tarn_create how = {.type = TARN_DIR};

	return make(dir, name, &how, in, out, attrs);
}

static fsal_status_t op_mknode(struct fsal_obj_handle *dir, const char *name,
			       object_file_type_t type, struct fsal_attrlist *in,
			       struct fsal_obj_handle **out, struct fsal_attrlist *attrs)
{
	struct tarn_create how = {0};

	*out = NULL;
	switch (type) {
	case BLOCK_FILE:
		how.type = TARN_BLK;
		break;
	case CHARACTER_FILE:
		how.type = TARN_CHR;
		break;
	case FIFO_FILE:
		how.type = TARN_FIFO;
		break;
	case SOCKET_FILE:
		how.type = TARN_SOCK;
		break;
	default:
		return fsalstat(ERR_FSAL_BADTYPE, 0);
	}
	if (type == BLOCK_FILE || type == CHARACTER_FILE) {
		if (op_ctx->creds.caller_uid != 0)
			return fsalstat(ERR_FSAL_PERM, EPERM);
		how.rdev_major = in->rawdev.major;
		how.rdev_minor = in->rawdev.minor;
	}
	return make(dir, name, &how, in, out, attrs);
}

static fsal_status_t op_symlink(struct fsal_obj_handle *dir, const char *name, const char *target,
				struct fsal_attrlist *in, struct fsal_obj_handle **out,
				struct fsal_attrlist *attrs)
{
	struct tarn_create how = {.type = TARN_LNK, .target = target};

	*out = NULL;
	if (target[0] == '\0')
		return fsalstat(ERR_FSAL_INVAL, EINVAL);
	if (strlen(target) > TARN_SYMLINK_MAX)
		return fsalstat(ERR_FSAL_NAMETOOLONG, ENAMETOOLONG);
	return make(dir, name, &how, in, out, attrs);
}

/* ---- moving and removing ---- */

static bool same_dataset(const struct fsal_obj_handle *a, const struct fsal_obj_handle *b)
{
	return a->fsid.major == b->fsid.major && a->fsid.minor == b->fsid.minor;
}

static fsal_status_t op_link(struct fsal_obj_handle *handle, struct fsal_obj_handle *dir_handle,
			     const char *name)
{
	struct tarn_inode *inode, *dir;
	struct tarn_cred cred = caller();
	struct tarn_commit token = {0};
	int r = name_check(name);

	if (r != 0)
		return status_of(r);
	if (!same_dataset(handle, dir_handle))
		return fsalstat(ERR_FSAL_XDEV, EXDEV);
	r = object_inode(object_of(handle), &inode);
	if (r != 0)
		return status_of(r);
	r = object_inode(object_of(dir_handle), &dir);
	if (r != 0) {
		tarn_inode_put(inode);
		return status_of(r);
	}
	fsal_status_t status = try_later();
	if (durable_reserve()) {
		r = tarn_link(&cred, inode, dir, name, NULL, NULL, &token);
		status = durable_finish(inode, r, token);
	}
	if (!FSAL_IS_ERROR(status))
		attrs_forget(dir_handle); /* MDCACHE does so for the file only */
	tarn_inode_put(dir);
	tarn_inode_put(inode);
	return status;
}

static fsal_status_t op_rename(struct fsal_obj_handle *handle, struct fsal_obj_handle *from_handle,
			       const char *from, struct fsal_obj_handle *to_handle, const char *to)
{
	struct tarn_inode *from_dir, *to_dir;
	struct tarn_cred cred = caller();
	struct tarn_commit token = {0};
	int r = name_check(from);

	if (r == 0)
		r = name_check(to);
	if (r != 0)
		return status_of(r);
	if (!same_dataset(from_handle, to_handle))
		return fsalstat(ERR_FSAL_XDEV, EXDEV);
	if (!same_dataset(handle, from_handle)) /* a dataset's root */
		return fsalstat(ERR_FSAL_NOTEMPTY, ENOTEMPTY);
	r = object_inode(object_of(from_handle), &from_dir);
	if (r != 0)
		return status_of(r);
	r = object_inode(object_of(to_handle), &to_dir);
	if (r != 0) {
		tarn_inode_put(from_dir);
		return status_of(r);
	}
	fsal_status_t status = try_later();
	if (durable_reserve()) {
		r = tarn_rename(&cred, from_dir, from, to_dir, to, NULL, NULL, &token);
		status = durable_finish(from_dir, r, token);
	}
	tarn_inode_put(to_dir);
	tarn_inode_put(from_dir);
	return status;
}

static fsal_status_t op_unlink(struct fsal_obj_handle *dir_handle, struct fsal_obj_handle *handle,
			       const char *name)
{
	struct tarn_inode *dir;
	struct tarn_cred cred = caller();
	struct tarn_commit token = {0};
	int r = name_check(name);

	if (r != 0)
		return status_of(r);
	if (!same_dataset(handle, dir_handle)) /* a dataset's root */
		return fsalstat(ERR_FSAL_NOTEMPTY, ENOTEMPTY);
	r = object_inode(object_of(dir_handle), &dir);
	if (r != 0)
		return status_of(r);
	fsal_status_t status = try_later();
	if (durable_reserve()) {
		r = tarn_unlink(&cred, dir, name, handle->type == DIRECTORY, NULL, &token);
		status = durable_finish(dir, r, token);
	}
	tarn_inode_put(dir);
	return status;
}

void namei_ops(struct fsal_obj_ops *ops)
{
	ops->lookup = op_lookup;
	ops->readlink = op_readlink;
	ops->mkdir = op_mkdir;
	ops->mknode = op_mknode;
	ops->symlink = op_symlink;
	ops->link = op_link;
	ops->rename = op_rename;
	ops->unlink = op_unlink;
}
