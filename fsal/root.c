// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The directory of pools: what an export of / shows. It is made from the list of imported
 * pools at each request and can't be changed by clients. Pools come and go without anybody
 * telling MDCACHE, so its attributes are good for a second only; when its mtime has moved
 * MDCACHE forgets the names too.
 */
#include "tarn_fsal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define POOLS_EXPIRE 1 /* seconds */

/* A name's place in the listing: the same whatever other pools there are. */
static uint64_t pool_cookie(uint64_t guid)
{
	return FIRST_COOKIE + guid % ((1ULL << 31) - FIRST_COOKIE);
}

/* name's root directory; -ENOENT also when no such pool is imported. */
static int pool_root(const char *name, struct tarn_inode **out)
{
	const char *rest = NULL;
	struct tarn_dataset *ds;

	if (strlen(name) > TARN_POOL_NAME_MAX || strchr(name, '/'))
		return -ENOENT;
	int r = tarn_dataset_open(TARN.engine, name, &rest, &ds);
	if (r == -ENXIO || r == -ESTALE)
		return -ENOENT;
	if (r != 0)
		return r;
	r = tarn_root(ds, out);
	tarn_dataset_put(ds);
	return r;
}

/* A pool in the listing. */
struct entry {
	char name[TARN_POOL_NAME_MAX + 1];
	uint64_t cookie;
	struct tarn_inode *root; /* referenced */
};

static int by_cookie(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return x->cookie < y->cookie ? -1 : x->cookie > y->cookie;
}

static void entries_free(struct entry *entries, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		tarn_inode_put(entries[i].root);
	free(entries);
}

/* All served pools in order of their cookies. A pool that is going is left out. */
static int entries_get(struct entry **out, uint32_t *count)
{
	char(*names)[TARN_POOL_NAME_MAX + 1];
	uint32_t nnames;
	int r = tarn_pool_list(TARN.engine, &names, &nnames);

	*count = 0;
	if (r != 0)
		return r;
	*out = calloc(nnames + 1, sizeof(**out));
	if (!*out) {
		free(names);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < nnames; i++) {
		struct entry *entry = &(*out)[*count];
		if (pool_root(names[i], &entry->root) != 0)
			continue;
		memcpy(entry->name, names[i], sizeof(entry->name));
		entry->cookie =
		    pool_cookie(tarn_dataset_pool_guid(tarn_inode_dataset(entry->root)));
		++*count;
	}
	free(names);
	qsort(*out, *count, sizeof(**out), by_cookie);
	return 0;
}

static fsal_status_t op_lookup(struct fsal_obj_handle *dir, const char *name,
			       struct fsal_obj_handle **out, struct fsal_attrlist *attrs)
{
	struct tarn_inode *inode;

	(void)dir;
	*out = NULL;
	int r = pool_root(name, &inode);
	if (r != 0)
		return status_of(r);
	fsal_status_t status = attrs_optional(inode, NULL, attrs);
	if (FSAL_IS_ERROR(status))
		tarn_inode_put(inode);
	else
		*out = &object_new(inode)->handle;
	return status;
}

int pools_list(uint64_t after, bool (*fn)(void *arg, const struct tarn_dirent *entry), void *arg,
	       bool *eof)
{
	struct entry *entries;
	uint32_t count;
	int r = entries_get(&entries, &count);

	if (r != 0)
		return r;
	*eof = true;
	for (uint32_t i = 0; i < count && *eof; i++) {
		struct tarn_dirent dirent = {
		    .name = entries[i].name,
		    .cookie = entries[i].cookie,
		    .inode = entries[i].root,
		    .attr.type = TARN_DIR,
		};

		if (dirent.cookie > after)
			*eof = fn(arg, &dirent);
	}
	entries_free(entries, count);
	return 0;
}

static fsal_status_t op_getattrs(struct fsal_obj_handle *dir, struct fsal_attrlist *out)
{
	uint64_t epoch = atomic_load(&TARN.epoch);
	struct timespec changed = TARN.started;

	/* Each coming and going counts as a nanosecond: moved is all that matters. */
	changed.tv_nsec += (long)(epoch % 1000);
	changed.tv_sec += (time_t)(epoch / 1000);
	out->supported = op_ctx->fsal_export->exp_ops.fs_supported_attrs(op_ctx->fsal_export);
	out->type = DIRECTORY;
	out->filesize = 4096;
	out->fsid = dir->fsid;
	out->fileid = dir->fileid;
	out->mode = 0755;
	out->numlinks = 2;
	out->owner = out->group = 0;
	out->rawdev = (fsal_dev_t){0};
	out->atime = out->mtime = out->ctime = changed;
	out->creation = TARN.started;
	out->spaceused = 0;
	out->change = (uint64_t)TARN.started.tv_sec * 1000000000 + epoch;
	out->generation = 0;
	out->expire_time_attr = POOLS_EXPIRE;
	out->valid_mask |= ATTRS_POSIX | ATTR_CREATION | ATTR_GENERATION | ATTR_ACL;
	return ok();
}

fsal_status_t pools_statfs(struct tarn_statfs *sum)
{
	struct entry *entries;
	uint32_t count;
	int r = entries_get(&entries, &count);

	if (r != 0)
		return status_of(r);
	for (uint32_t i = 0; i < count; i++) {
		struct tarn_statfs fs;
		if (tarn_dataset_statfs(tarn_inode_dataset(entries[i].root), &fs) != 0)
			continue;
		sum->total += fs.total;
		sum->free += fs.free;
		sum->avail += fs.avail;
	}
	entries_free(entries, count);
	return ok();
}

/* ---- what would change it ---- */

static fsal_status_t refused(void)
{
	return fsalstat(ERR_FSAL_ROFS, EROFS);
}

static fsal_status_t op_mkdir(struct fsal_obj_handle *dir, const char *name,
			      struct fsal_attrlist *in, struct fsal_obj_handle **out,
			      struct fsal_attrlist *attrs)
{
	(void)dir, (void)name, (void)in, (void)out, (void)attrs;
	return refused();
}

static fsal_status_t op_mknode(struct fsal_obj_handle *dir, const char *name,
			       object_file_type_t type, struct fsal_attrlist *in,
			       struct fsal_obj_handle **out, struct fsal_attrlist *attrs)
{
	(void)dir, (void)name, (void)type, (void)in, (void)out, (void)attrs;
	return refused();
}

static fsal_status_t op_symlink(struct fsal_obj_handle *dir, const char *name, const char *target,
				struct fsal_attrlist *in, struct fsal_obj_handle **out,
				struct fsal_attrlist *attrs)
{
	(void)dir, (void)name, (void)target, (void)in, (void)out, (void)attrs;
	return refused();
}

static fsal_status_t op_rename(struct fsal_obj_handle *handle, struct fsal_obj_handle *from_dir,
			       const char *from, struct fsal_obj_handle *to_dir, const char *to)
{
	(void)handle, (void)from_dir, (void)from, (void)to_dir, (void)to;
	return refused();
}

/* The names here are datasets' roots: they go with tarn, not with rmdir. */
static fsal_status_t op_unlink(struct fsal_obj_handle *dir, struct fsal_obj_handle *handle,
			       const char *name)
{
	(void)dir, (void)handle, (void)name;
	return fsalstat(ERR_FSAL_NOTEMPTY, ENOTEMPTY);
}

static fsal_status_t op_open2(struct fsal_obj_handle *dir, struct state_t *state,
			      fsal_openflags_t flags, enum fsal_create_mode mode, const char *name,
			      struct fsal_attrlist *in, fsal_verifier_t verifier,
			      struct fsal_obj_handle **out, struct fsal_attrlist *attrs,
			      bool *perm_check)
{
	(void)dir, (void)state, (void)flags, (void)name, (void)in, (void)verifier, (void)out;
	(void)attrs, (void)perm_check;
	return mode == FSAL_NO_CREATE ? fsalstat(ERR_FSAL_ISDIR, EISDIR) : refused();
}

static fsal_status_t op_setattr2(struct fsal_obj_handle *dir, bool bypass, struct state_t *state,
				 struct fsal_attrlist *in)
{
	(void)dir, (void)bypass, (void)state, (void)in;
	return refused();
}

static fsal_status_t op_setxattrs(struct fsal_obj_handle *dir, setxattr_option4 option,
				  xattrkey4 *name, xattrvalue4 *value)
{
	(void)dir, (void)option, (void)name, (void)value;
	return refused();
}

static fsal_status_t op_removexattrs(struct fsal_obj_handle *dir, xattrkey4 *name)
{
	(void)dir, (void)name;
	return refused();
}

static fsal_status_t op_getxattrs(struct fsal_obj_handle *dir, xattrkey4 *name, xattrvalue4 *value)
{
	(void)dir, (void)name, (void)value;
	return fsalstat(ERR_FSAL_NOXATTR, ENODATA);
}

static fsal_status_t op_listxattrs(struct fsal_obj_handle *dir, count4 max, nfs_cookie4 *cookie,
				   bool_t *eof, xattrlist4 *names)
{
	(void)dir;
	return fsal_listxattr_helper("", 0, max, cookie, eof, names);
}

void pools_ops(struct fsal_obj_ops *ops)
{
	ops->lookup = op_lookup;
	ops->getattrs = op_getattrs;
	ops->mkdir = op_mkdir;
	ops->mknode = op_mknode;
	ops->symlink = op_symlink;
	ops->rename = op_rename;
	ops->unlink = op_unlink;
	ops->open2 = op_open2;
	ops->setattr2 = op_setattr2;
	ops->setxattrs = op_setxattrs;
	ops->removexattrs = op_removexattrs;
	ops->getxattrs = op_getxattrs;
	ops->listxattrs = op_listxattrs;
}
