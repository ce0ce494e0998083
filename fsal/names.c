// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * LOOKUP and READDIR, past MDCACHE's cache of directory entries.
 *
 * In ganesha 4.3 that cache is no place for a directory that changes or has several readers.
 * What makes a name adds it to the cache once it is durable; if another client has moved or
 * removed it by then, the cache keeps a name that is no more. A reader that waits for the
 * directory's lock while another fills the next chunks links the wrong ones afterwards
 * (mdcache_readdir_chunked()), and a removed entry whose chunk is read anew takes the rest of it
 * along: listings then lack names, silently, or fail as a whole with ESTALE. Without chunks
 * (Dir_Chunk = 0) LOOKUP and READDIR overwrite cached attributes with older ones. The cached
 * attributes and objects themselves are sound.
 *
 * So MDCACHE caches no entries, and its objects' lookup() and readdir() are replaced: names come
 * from the engine, the objects and attributes for them from MDCACHE. Ganesha has no place for
 * that. The export above ours is made to look up its root through a function of ours; what it
 * finds shows the methods.
 *
 * In listings, what is no directory comes from the engine with its attributes, in an object of its
 * own that lasts for one call: who lists a million files does not fill MDCACHE with them.
 */
#include "tarn_fsal.h"

#include "mdcache_ext.h"

#include <errno.h>
#include <string.h>

typedef fsal_status_t (*lookup_path_fn)(struct fsal_export *export, const char *path,
					struct fsal_obj_handle **out, struct fsal_attrlist *attrs);
typedef fsal_status_t (*readdir_fn)(struct fsal_obj_handle *dir, fsal_cookie_t *whence,
				    void *dir_state, fsal_readdir_cb cb, attrmask_t attrmask,
				    bool *eof);
typedef fsal_status_t (*lookup_fn)(struct fsal_obj_handle *dir, const char *name,
				   struct fsal_obj_handle **out, struct fsal_attrlist *attrs);

/* MDCACHE's own. Set when exports are made, before clients can reach them. */
static lookup_path_fn mdcache_lookup_path;
static _Atomic(readdir_fn) mdcache_readdir;
static _Atomic(lookup_fn) mdcache_lookup;

struct listing {
	fsal_readdir_cb cb;
	void *dir_state;
	attrmask_t attrmask;
	fsal_status_t status;
};

/* MDCACHE's object for inode, with attributes unless that is NULL. STALE: removed meanwhile. */
static fsal_status_t object_above(struct tarn_inode *inode, struct fsal_attrlist *attrs,
				  struct fsal_obj_handle **out)
{
	struct identity id = inode_identity(inode);
	struct handle_key key = key_of_inode(&id);
	struct gsh_buffdesc fh = {.addr = &key, .len = sizeof(key)};
	struct fsal_export *mdcache = op_ctx->fsal_export;
	/* It would not let go of the object when it can't get the attributes. */
	fsal_status_t status = mdcache->exp_ops.create_handle(mdcache, &fh, out, NULL);

	if (FSAL_IS_ERROR(status) || !attrs)
		return status;
	status = (*out)->obj_ops->getattrs(*out, attrs);
	if (FSAL_IS_ERROR(status) && !(attrs->request_mask & ATTR_RDATTR_ERR)) {
		(*out)->obj_ops->put_ref(*out);
		*out = NULL;
		return status;
	}
	return ok();
}

/* An object that stands for an entry while it is listed. */
struct listed {
	struct fsal_obj_handle handle;
	struct handle_key key;
	struct fsal_attrlist *attrs;
};

static struct listed *listed_of(const struct fsal_obj_handle *handle)
{
	return container_of(handle, struct listed, handle);
}

static void listed_ref(struct fsal_obj_handle *handle)
{
	(void)handle;
}

static fsal_status_t listed_to_wire(const struct fsal_obj_handle *handle, fsal_digesttype_t type,
				    struct gsh_buffdesc *out)
{
	(void)type;
	return key_to_wire(&listed_of(handle)->key, out);
}

static fsal_status_t listed_getattrs(struct fsal_obj_handle *handle, struct fsal_attrlist *out)
{
	fsal_copy_attrs(out, listed_of(handle)->attrs, false);
	return ok();
}

void names_ops(struct fsal_obj_ops *ops)
{
	ops->get_ref = listed_ref;
	ops->put_ref = listed_ref;
	ops->handle_to_wire = listed_to_wire;
	ops->getattrs = listed_getattrs;
}

/* Only directories need MDCACHE's object: an export may be joined there. */
static fsal_status_t listed_make(const struct tarn_dirent *entry, struct fsal_attrlist *attrs,
				 struct listed *listed, struct fsal_obj_handle **out)
{
	struct identity id;
	fsal_status_t status;

	if (entry->attr.type == TARN_DIR)
		return object_above(entry->inode, attrs, out);
	id = inode_identity(entry->inode);
	*listed = (struct listed){
	    .handle = {.obj_ops = &TARN.listed_ops,
		       .type = type_to_fsal(entry->attr.type),
		       .fsid = dataset_fsid(id.pool, id.dataset),
		       .fileid = id.ino},
	    .key = key_of_inode(&id),
	    .attrs = attrs,
	};
	*out = &listed->handle;
	status = attrs_get(entry->inode, &entry->attr, attrs);
	return attrs->request_mask & ATTR_RDATTR_ERR ? ok() : status;
}

static bool list_entry(void *arg, const struct tarn_dirent *entry)
{
	struct listing *listing = arg;
	struct fsal_obj_handle *object;
	struct fsal_attrlist attrs;
	struct listed listed;
	bool more = true;

	fsal_prepare_attrs(&attrs, listing->attrmask);
	fsal_status_t status = listed_make(entry, &attrs, &listed, &object);
	if (!FSAL_IS_ERROR(status)) {
		/* It takes the reference to the object. */
		more = listing->cb(entry->name, object, &attrs, listing->dir_state, entry->cookie) <
		       DIR_TERMINATE;
	} else if (status.major != ERR_FSAL_STALE) {
		listing->status = status;
		more = false;
	}
	fsal_release_attrs(&attrs);
	return more;
}

/* Ours beneath MDCACHE's: the key that it tells lies in it. */
static struct tarn_object *object_beneath(struct fsal_obj_handle *handle)
{
	struct gsh_buffdesc key;

	handle->obj_ops->handle_to_key(handle, &key);
	return container_of(key.addr, struct tarn_object, key);
}

static int inode_beneath(struct tarn_object *object, struct tarn_inode **out)
{
	struct fsal_export *mdcache = op_ctx->fsal_export;

	op_ctx->fsal_export = mdcache->sub_export;
	int r = object_inode(object, out);
	op_ctx->fsal_export = mdcache;
	return r;
}

/* MDCACHE serves the exports of other FSALs with the same method. */
static bool is_ours(void)
{
	struct fsal_export *beneath = op_ctx->fsal_export->sub_export;

	return beneath && beneath->fsal == &TARN.fsal;
}

static fsal_status_t readdir_above(struct fsal_obj_handle *dir, fsal_cookie_t *whence,
				   void *dir_state, fsal_readdir_cb cb, attrmask_t attrmask,
				   bool *eof)
{
	struct listing listing = {
	    .cb = cb, .dir_state = dir_state, .attrmask = attrmask, .status = ok()};
	uint64_t after = whence ? *whence : 0;
	struct tarn_object *object;
	struct tarn_inode *inode;
	int r;

	if (!is_ours())
		return atomic_load(&mdcache_readdir)(dir, whence, dir_state, cb, attrmask, eof);
	*eof = false;
	object = object_beneath(dir);
	if (object->key.kind == HANDLE_POOLS) {
		r = pools_list(after, list_entry, &listing, eof);
	} else {
		r = inode_beneath(object, &inode);
		if (r == 0) {
			r = tarn_readdir(inode, after, list_entry, &listing, eof);
			tarn_inode_put(inode);
		}
	}
	return r != 0 ? status_of(r) : listing.status;
}

/* Ganesha has checked that the caller may search. ".." is no entry: MDCACHE's own. */
static fsal_status_t lookup_above(struct fsal_obj_handle *dir, const char *name,
				  struct fsal_obj_handle **out, struct fsal_attrlist *attrs)
{
	struct tarn_inode *inode, *found;
	struct tarn_object *object;

	if (!is_ours() || strcmp(name, "..") == 0)
		return atomic_load(&mdcache_lookup)(dir, name, out, attrs);
	*out = NULL;
	object = object_beneath(dir);
	if (object->key.kind == HANDLE_POOLS)
		return atomic_load(&mdcache_lookup)(dir, name, out, attrs);
	int r = inode_beneath(object, &inode);
	if (r != 0)
		return status_of(r);
	r = name_check(name);
	if (r == 0)
		r = tarn_lookup(NULL, inode, name, &found);
	tarn_inode_put(inode);
	if (r != 0)
		return status_of(r);
	fsal_status_t status = object_above(found, attrs, out);
	tarn_inode_put(found);
	/* The directory is there: what is stale is what the name stood for. */
	return status.major == ERR_FSAL_STALE ? fsalstat(ERR_FSAL_NOENT, ENOENT) : status;
}

static fsal_status_t lookup_path_above(struct fsal_export *export, const char *path,
				       struct fsal_obj_handle **out, struct fsal_attrlist *attrs)
{
	fsal_status_t status = mdcache_lookup_path(export, path, out, attrs);

	if (!FSAL_IS_ERROR(status) && (*out)->obj_ops->readdir != readdir_above) {
		atomic_store(&mdcache_readdir, (*out)->obj_ops->readdir);
		(*out)->obj_ops->readdir = readdir_above;
		atomic_store(&mdcache_lookup, (*out)->obj_ops->lookup);
		(*out)->obj_ops->lookup = lookup_above;
	}
	return status;
}

void names_export(struct fsal_export *mdcache)
{
	mdcache_param.dir.avl_chunk = 0;
	mdcache_lookup_path = mdcache->exp_ops.lookup_path;
	mdcache->exp_ops.lookup_path = lookup_path_above;
}
