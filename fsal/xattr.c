// SPDX-License-Identifier: LGPL-3.0-or-later
/* Extended attributes (RFC 8276). The core checks no permission for them: done here. */
#include "tarn_fsal.h"

#include <errno.h>
#include <string.h>

/* What ganesha takes; it drops the connection of a reply with much more. */
#define VALUE_MAX (XDR_STRING_MAXLEN - 1)

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
	if (r == 0 && len > VALUE_MAX)
		r = -E2BIG;
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
	if (value->utf8string_len > VALUE_MAX)
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
		attrs_forget(handle);
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
		attrs_forget(handle);
	return status;
}

/* XDR's array of names; ganesha drops the connection of a reply with more. */
#define LIST_MAX XDR_ARRAY_MAXLEN

/* One reply of LISTXATTRS. Cookies count the names before. */
struct names {
	nfs_cookie4 skip, cookie;
	uint32_t room; /* bytes of XDR */
	xattrkey4 *names;
	uint32_t count;
};

static bool add_name(void *arg, const char *name)
{
	struct names *names = arg;
	size_t len = strlen(name);
	uint32_t bytes = (uint32_t)(sizeof(uint32_t) + RNDUP(len));

	if (names->cookie < names->skip) {
		names->cookie++;
		return true;
	}
	if (bytes > names->room || names->count == LIST_MAX)
		return false;
	names->room -= bytes;
	names->cookie++;
	names->names[names->count++] = (xattrkey4){len, gsh_memdup(name, len)};
	return true;
}

static void names_free(struct names *names)
{
	for (uint32_t i = 0; i < names->count; i++)
		gsh_free(names->names[i].utf8string_val);
	gsh_free(names->names);
}

static fsal_status_t op_listxattrs(struct fsal_obj_handle *handle, count4 max, nfs_cookie4 *cookie,
				   bool_t *eof, xattrlist4 *out)
{
	struct tarn_inode *inode;
	bool complete = false;
	int r = inode_for(handle, FSAL_ACE_PERM_READ_DATA, &inode);

	if (r != 0)
		return status_of(r);
	/* max is without cookie and eof, but not without the number of names. */
	struct names names = {
	    .skip = *cookie,
	    .room = max < sizeof(uint32_t) ? 0 : (uint32_t)(max - sizeof(uint32_t)),
	    .names = gsh_calloc(LIST_MAX, sizeof(xattrkey4)),
	};
	r = tarn_xattr_list(inode, NULL, add_name, &names, &complete);
	tarn_inode_put(inode);
	if (r != 0 || (names.count == 0 && !complete)) {
		names_free(&names);
		return r != 0 ? status_of(r) : fsalstat(ERR_FSAL_TOOSMALL, 0);
	}
	*cookie = names.cookie;
	*eof = complete;
	out->xl4_entries = names.names;
	out->xl4_count = names.count;
	return ok();
}

void xattr_ops(struct fsal_obj_ops *ops)
{
	ops->getxattrs = op_getxattrs;
	ops->setxattrs = op_setxattrs;
	ops->removexattrs = op_removexattrs;
	ops->listxattrs = op_listxattrs;
}
