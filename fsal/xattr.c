// SPDX-License-Identifier: LGPL-3.0-or-later
/* Extended attributes (RFC 8276). The core checks no permission for them: done here. */
#include "tarn_fsal.h"

#include <errno.h>
#include <string.h>

struct xname {
	char name[TARN_NAME_MAX + 1];
};

static int xname_of(const xattrkey4 *key, struct xname *out)
{
	if (key->utf8string_len == 0 || memchr(key->utf8string_val, '\0', key->utf8string_len))
		return -EINVAL;
	if (key->utf8string_len > TARN_NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(out->name, key->utf8string_val, key->utf8string_len);
	out->name[key->utf8string_len] = '\0';
	return 0;
}

/* The object's inode, if the caller may read or write its data. */
static int inode_for(struct fsal_obj_handle *handle, uint32_t access, struct tarn_inode **out)
{
	struct tarn_cred cred = caller();
	int r = object_inode(object_of(handle), out);

	if (r != 0)
		return r;
	r = tarn_access(&cred, *out, access);
	if (r != 0)
		tarn_inode_put(*out);
	return r;
}

static int getxattr(struct fsal_obj_handle *handle, const xattrkey4 *key, xattrvalue4 *value)
{
	struct xname name;
	struct tarn_inode *inode;
	size_t len = value->utf8string_len;
	int r = xname_of(key, &name);

	if (r == 0)
		r = inode_for(handle, FSAL_ACE_PERM_READ_DATA, &inode);
	if (r != 0)
		return r;
	r = tarn_xattr_get(inode, name.name, value->utf8string_val, &len);
	tarn_inode_put(inode);
	if (r == 0)
		value->utf8string_len = len;
	return r;
}

/* Ganesha 4.3 forgets the room that it gave, but for when it is too small. */
static fsal_status_t op_getxattrs(struct fsal_obj_handle *handle, xattrkey4 *key,
				  xattrvalue4 *value)
{
	fsal_status_t status = status_of(getxattr(handle, key, value));

	if (FSAL_IS_ERROR(status) && status.major != ERR_FSAL_XATTR2BIG) {
		gsh_free(value->utf8string_val);
		value->utf8string_val = NULL;
	}
	return status;
}

/* MDCACHE keeps the old change attribute and ctime otherwise. */
static void forget_attrs(struct fsal_obj_handle *handle)
{
	const struct fsal_up_vector *up = op_ctx->fsal_export->up_ops;
	struct gsh_buffdesc key;

	handle->obj_ops->handle_to_key(handle, &key);
	up->invalidate(up, &key, FSAL_UP_INVALIDATE_ATTRS);
}

static fsal_status_t op_setxattrs(struct fsal_obj_handle *handle, setxattr_option4 option,
				  xattrkey4 *key, xattrvalue4 *value)
{
	static const enum tarn_xattr_how hows[] = {
	    [SETXATTR4_EITHER] = TARN_XATTR_ANY,
	    [SETXATTR4_CREATE] = TARN_XATTR_CREATE,
	    [SETXATTR4_REPLACE] = TARN_XATTR_REPLACE,
	};
	struct tarn_cred cred = caller();
	struct tarn_commit token = {0};
	struct xname name;
	struct tarn_inode *inode;
	int r = xname_of(key, &name);

	if ((unsigned)option >= sizeof(hows) / sizeof(hows[0]))
		return fsalstat(ERR_FSAL_INVAL, EINVAL);
	if (value->utf8string_len > TARN_XATTR_MAX)
		return fsalstat(ERR_FSAL_XATTR2BIG, E2BIG);
	if (r == 0)
		r = inode_for(handle, FSAL_ACE_PERM_WRITE_DATA, &inode);
	if (r != 0)
		return status_of(r);
	fsal_status_t status = try_later();
	if (durable_reserve()) {
		r = tarn_xattr_set(&cred, inode, name.name, value->utf8string_val,
				   value->utf8string_len, hows[option], &token);
		status = durable_finish(inode, r, token);
	}
	tarn_inode_put(inode);
	if (!FSAL_IS_ERROR(status))
		forget_attrs(handle);
	return status;
}

static fsal_status_t op_removexattrs(struct fsal_obj_handle *handle, xattrkey4 *key)
{
	struct tarn_cred cred = caller();
	struct tarn_commit token = {0};
	struct xname name;
	struct tarn_inode *inode;
	int r = xname_of(key, &name);

	if (r == 0)
		r = inode_for(handle, FSAL_ACE_PERM_WRITE_DATA, &inode);
	if (r != 0)
		return status_of(r);
	fsal_status_t status = try_later();
	if (durable_reserve()) {
		r = tarn_xattr_remove(&cred, inode, name.name, &token);
		status = durable_finish(inode, r, token);
	}
	tarn_inode_put(inode);
	if (!FSAL_IS_ERROR(status))
		forget_attrs(handle);
	return status;
}

/* All names, as ganesha's helper wants them: with "user.", each ended by NUL. */
struct names {
	FILE *stream;
};

static bool add_name(void *arg, const char *name)
{
	struct names *names = arg;

	fprintf(names->stream, "user.%s", name);
	return fputc('\0', names->stream) != EOF;
}

static fsal_status_t op_listxattrs(struct fsal_obj_handle *handle, count4 max, nfs_cookie4 *cookie,
				   bool_t *eof, xattrlist4 *out)
{
	struct tarn_inode *inode;
	struct names names;
	char *buffer = NULL;
	size_t len = 0;
	bool complete = false;
	int r = inode_for(handle, FSAL_ACE_PERM_READ_DATA, &inode);

	if (r != 0)
		return status_of(r);
	names.stream = open_memstream(&buffer, &len);
	if (!names.stream) {
		tarn_inode_put(inode);
		return try_later();
	}
	r = tarn_xattr_list(inode, NULL, add_name, &names, &complete);
	tarn_inode_put(inode);
	if (fclose(names.stream) != 0 || (r == 0 && !complete))
		r = -ENOMEM;
	fsal_status_t status = status_of(r);
	if (r == 0)
		status = fsal_listxattr_helper(buffer, len, max, cookie, eof, out);
	free(buffer);
	return status;
}

void xattr_ops(struct fsal_obj_ops *ops)
{
	ops->getxattrs = op_getxattrs;
	ops->setxattrs = op_setxattrs;
	ops->removexattrs = op_removexattrs;
	ops->listxattrs = op_listxattrs;
}
