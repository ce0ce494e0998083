// SPDX-License-Identifier: LGPL-3.0-or-later
/* Objects: their identity, their handles on the wire, and their inodes. */
#include "tarn_fsal.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define HANDLE_VERSION 1

bool same_identity(const struct identity *a, const struct identity *b)
{
	return a->pool == b->pool && a->dataset == b->dataset && a->ino == b->ino &&
	       a->gen == b->gen;
}

struct identity inode_identity(struct tarn_inode *inode)
{
	struct tarn_dataset *ds = tarn_inode_dataset(inode);

	return (struct identity){
	    .pool = tarn_dataset_pool_guid(ds),
	    .dataset = tarn_dataset_id(ds),
	    .ino = tarn_inode_number(inode),
	    .gen = tarn_inode_generation(inode),
	};
}

struct handle_key key_of_inode(const struct identity *id)
{
	return (struct handle_key){
	    .version = HANDLE_VERSION,
	    .kind = HANDLE_INODE,
	    .id = {htole64(id->pool), htole64(id->dataset), htole64(id->ino), htole64(id->gen)},
	};
}

struct handle_key key_of_root(uint16_t export_id)
{
	return (struct handle_key){
	    .version = HANDLE_VERSION, .kind = HANDLE_ROOT, .export_id = htole16(export_id)};
}

static struct handle_key key_of_pools(void)
{
	return (struct handle_key){.version = HANDLE_VERSION, .kind = HANDLE_POOLS};
}

static struct identity identity_in(const struct handle_key *key)
{
	return (struct identity){le64toh(key->id.pool), le64toh(key->id.dataset),
				 le64toh(key->id.ino), le64toh(key->id.gen)};
}

/* ---- objects ---- */

static struct tarn_object *object_alloc(const struct handle_key *key, object_file_type_t type,
					struct fsal_obj_ops *ops)
{
	struct tarn_object *object = gsh_calloc(1, sizeof(*object));

	object->key = *key;
	fsal_obj_handle_init(&object->handle, op_ctx->fsal_export, type);
	object->handle.obj_ops = ops;
	return object;
}

static void object_identify(struct tarn_object *object, const struct identity *id)
{
	object->id = *id;
	object->handle.fsid = dataset_fsid(id->pool, id->dataset);
	object->handle.fileid = id->ino;
}

struct tarn_object *object_new(struct tarn_inode *inode)
{
	struct identity id = inode_identity(inode), root;
	struct handle_key key = key_of_inode(&id), rootkey;

	/* One directory, one object in an export, whatever way leads to it: else MDCACHE
	   would not know its root again and look for what is above. */
	if (export_root(export_of(op_ctx->fsal_export), &root, &rootkey) &&
	    same_identity(&root, &id))
		key = rootkey;
	struct tarn_object *object =
	    object_alloc(&key, type_to_fsal(tarn_inode_type(inode)), &TARN.inode_ops);
	object_identify(object, &id);
	object->epoch = atomic_load(&TARN.epoch);
	object->inode = inode;
	return object;
}

struct tarn_object *object_new_root(void)
{
	struct handle_key key = key_of_root(op_ctx->fsal_export->export_id);

	return object_alloc(&key, DIRECTORY, &TARN.inode_ops);
}

struct tarn_object *object_new_pools(void)
{
	struct handle_key key = key_of_pools();
	struct tarn_object *object = object_alloc(&key, DIRECTORY, &TARN.pools_ops);

	object->handle.fsid = dataset_fsid(0, 0);
	object->handle.fileid = 1;
	return object;
}

static int inode_of_identity(const struct identity *id, struct tarn_inode **out)
{
	struct tarn_dataset *ds;
	int r = tarn_dataset_open_id(TARN.engine, id->pool, id->dataset, &ds);

	if (r != 0)
		return r;
	r = tarn_inode_get(ds, id->ino, id->gen, out);
	tarn_dataset_put(ds);
	return r;
}

/*
 * The pool of an export has come: its root gets an identity. MDCACHE has copied fsid and
 * fileid before they were known; nobody has been told them, as every request for the
 * root's attributes was answered "try later" until now.
 */
static int root_identify(struct tarn_object *object, struct tarn_inode *inode)
{
	struct fsal_obj_handle *cached = op_ctx->ctx_export->exp_root_obj;
	struct identity id = inode_identity(inode);

	if (!cached)
		return -EAGAIN;
	export_bind(export_of(op_ctx->fsal_export), inode, &object->key);
	object_identify(object, &id);
	cached->fsid = object->handle.fsid;
	cached->fileid = object->handle.fileid;
	return 0;
}

/* Gets the inode, or gets it again after pools have come and gone. */
static int object_revive(struct tarn_object *object, uint64_t epoch, struct tarn_inode **out)
{
	bool nameless = object->key.kind == HANDLE_ROOT && object->id.ino == 0;
	struct tarn_inode *inode, *old;
	bool reopened = false;
	int r = nameless ? export_resolve(export_of(op_ctx->fsal_export), &inode)
			 : inode_of_identity(&object->id, &inode);

	if (r != 0)
		return r;
	PTHREAD_RWLOCK_wrlock(&object->handle.obj_lock);
	old = object->inode;
	if (nameless && object->id.ino == 0)
		r = root_identify(object, inode);
	if (r == 0 && object->opens > 0 && old != inode) {
		r = tarn_open(inode);
		reopened = r == 0;
	}
	if (r == 0) {
		object->inode = tarn_inode_ref(inode);
		object->epoch = epoch;
	}
	PTHREAD_RWLOCK_unlock(&object->handle.obj_lock);
	if (r != 0) {
		tarn_inode_put(inode);
		return r;
	}
	if (reopened)
		tarn_close(old);
	if (old)
		tarn_inode_put(old);
	*out = inode;
	return 0;
}

int object_inode(struct tarn_object *object, struct tarn_inode **out)
{
	uint64_t epoch = atomic_load(&TARN.epoch);
	struct tarn_inode *inode = NULL;

	PTHREAD_RWLOCK_rdlock(&object->handle.obj_lock);
	if (object->inode && object->epoch == epoch)
		inode = tarn_inode_ref(object->inode);
	PTHREAD_RWLOCK_unlock(&object->handle.obj_lock);
	if (!inode)
		return object_revive(object, epoch, out);
	*out = inode;
	return 0;
}

/* May be called without op_ctx, at shutdown. */
static void op_release(struct fsal_obj_handle *handle)
{
	struct tarn_object *object = object_of(handle);

	if (object->inode) {
		if (object->opens > 0)
			tarn_close(object->inode);
		tarn_inode_put(object->inode);
	}
	fsal_obj_handle_fini(handle);
	gsh_free(object);
}

fsal_status_t key_to_wire(const struct handle_key *key, struct gsh_buffdesc *out)
{
	if (out->len < sizeof(*key))
		return fsalstat(ERR_FSAL_TOOSMALL, 0);
	memcpy(out->addr, key, sizeof(*key));
	out->len = sizeof(*key);
	return ok();
}

static fsal_status_t op_handle_to_wire(const struct fsal_obj_handle *handle, fsal_digesttype_t type,
				       struct gsh_buffdesc *out)
{
	(void)type; /* the same bytes for v3 and v4 */
	return key_to_wire(&object_of(handle)->key, out);
}

static void op_handle_to_key(struct fsal_obj_handle *handle, struct gsh_buffdesc *out)
{
	struct tarn_object *object = object_of(handle);

	out->addr = &object->key;
	out->len = sizeof(object->key);
}

void handle_ops(struct fsal_obj_ops *ops)
{
	ops->release = op_release;
	ops->handle_to_wire = op_handle_to_wire;
	ops->handle_to_key = op_handle_to_key;
}

/* ---- handles from the wire: hostile until proven otherwise ---- */

static bool key_is_well_formed(const struct handle_key *key)
{
	static const struct identity none;

	if (key->version != HANDLE_VERSION || key->zero != 0)
		return false;
	switch (key->kind) {
	case HANDLE_INODE:
		return key->export_id == 0 && key->id.ino != 0;
	case HANDLE_POOLS:
		return key->export_id == 0 && same_identity(&key->id, &none);
	case HANDLE_ROOT:
		return same_identity(&key->id, &none);
	default:
		return false;
	}
}

/* Whether path is below (or is) the dataset above. */
static bool path_below(const char *path, const char *above)
{
	size_t len = strlen(above);

	return strncmp(path, above, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

/* Whether the dataset of id is root's or below it. */
static int dataset_below(const struct identity *id, const struct identity *root)
{
	struct tarn_dataset *ds;
	char path[TARN_PATH_MAX], above[TARN_PATH_MAX];

	if (id->pool != root->pool)
		return -ESTALE;
	if (id->dataset == root->dataset)
		return 0;
	int r = tarn_dataset_open_id(TARN.engine, root->pool, root->dataset, &ds);
	if (r != 0)
		return r;
	tarn_dataset_path(ds, above);
	tarn_dataset_put(ds);
	r = tarn_dataset_open_id(TARN.engine, id->pool, id->dataset, &ds);
	if (r != 0)
		return r;
	tarn_dataset_path(ds, path);
	tarn_dataset_put(ds);
	return path_below(path, above) ? 0 : -ESTALE;
}

/*
 * For an export of a directory that is no dataset's root: whether the directory of id is
 * below it. From a directory outside one could walk up, also to other datasets. Files are not
 * looked for: who guesses the handle of a file in the same dataset may use it.
 */
static int directory_below(const struct identity *id, const struct identity *root)
{
	struct tarn_inode *dir, *up;
	int r = inode_of_identity(id, &dir);

	if (r != 0)
		return r;
	while (r == 0 && tarn_inode_type(dir) == TARN_DIR && tarn_inode_number(dir) != root->ino) {
		r = tarn_lookup(NULL, dir, "..", &up);
		if (r != 0)
			break;
		/* The dataset's root: its ".." leads to another dataset or to itself. */
		if (tarn_dataset_id(tarn_inode_dataset(up)) != id->dataset ||
		    tarn_inode_number(up) == tarn_inode_number(dir))
			r = -ESTALE;
		tarn_inode_put(dir);
		dir = up;
	}
	tarn_inode_put(dir);
	return r;
}

/* Whether the export serves what id names. MDCACHE knows objects by their key alone, so a
   handle with another export's id in front must be caught here. */
static fsal_status_t export_serves(struct tarn_export *export, const struct identity *id)
{
	struct identity root;
	struct handle_key rootkey;

	if (export->all)
		return ok();
	if (!export_root(export, &root, &rootkey))
		return try_later();
	int r = dataset_below(id, &root);
	if (r == 0 && !export->whole)
		r = id->dataset == root.dataset ? directory_below(id, &root) : -ESTALE;
	return status_of(r);
}

/* Whether the export serves what a well-formed key names. The handle of a root from the time
   when its pool was absent is replaced by what it is now. */
static fsal_status_t key_admit(struct tarn_export *export, struct handle_key *key)
{
	struct identity id = identity_in(key), root;
	struct handle_key rootkey;

	switch ((enum handle_kind)key->kind) {
	case HANDLE_POOLS:
		return export->all ? ok() : fsalstat(ERR_FSAL_STALE, 0);
	case HANDLE_ROOT:
		if (le16toh(key->export_id) != export->export.export_id || export->all)
			return fsalstat(ERR_FSAL_STALE, 0);
		if (export_root(export, &root, &rootkey))
			*key = rootkey;
		return ok();
	case HANDLE_INODE:
		break;
	}
	return export_serves(export, &id);
}

static fsal_status_t op_wire_to_host(struct fsal_export *export, fsal_digesttype_t type,
				     struct gsh_buffdesc *fh, int flags)
{
	struct handle_key key;

	(void)type;
	(void)flags; /* the byte order is always ours */
	if (fh->len != sizeof(key))
		return fsalstat(ERR_FSAL_BADHANDLE, 0);
	memcpy(&key, fh->addr, sizeof(key));
	if (!key_is_well_formed(&key))
		return fsalstat(ERR_FSAL_BADHANDLE, 0);
	fsal_status_t status = key_admit(export_of(export), &key);
	if (!FSAL_IS_ERROR(status))
		memcpy(fh->addr, &key, sizeof(key));
	return status;
}

/* Also for handles that MDCACHE has kept, such as a directory's "..", from other exports. */
static fsal_status_t op_host_to_key(struct fsal_export *export, struct gsh_buffdesc *fh)
{
	struct handle_key key, rootkey;
	struct identity id, root;

	if (fh->len != sizeof(key))
		return fsalstat(ERR_FSAL_BADHANDLE, 0);
	memcpy(&key, fh->addr, sizeof(key));
	id = identity_in(&key);
	if (key.kind == HANDLE_INODE && export_root(export_of(export), &root, &rootkey) &&
	    same_identity(&root, &id))
		memcpy(fh->addr, &rootkey, sizeof(rootkey));
	return ok();
}

static fsal_status_t op_create_handle(struct fsal_export *fsal_export, struct gsh_buffdesc *fh,
				      struct fsal_obj_handle **out, struct fsal_attrlist *attrs)
{
	struct handle_key key;
	struct tarn_object *object;
	struct tarn_inode *inode;

	(void)fsal_export;
	*out = NULL;
	if (fh->len != sizeof(key))
		return fsalstat(ERR_FSAL_BADHANDLE, 0);
	memcpy(&key, fh->addr, sizeof(key));
	switch ((enum handle_kind)key.kind) {
	case HANDLE_POOLS:
		object = object_new_pools();
		break;
	case HANDLE_ROOT:
		object = object_new_root();
		break;
	case HANDLE_INODE: {
		struct identity id = identity_in(&key);
		int r = inode_of_identity(&id, &inode);
		if (r != 0)
			return status_of(r);
		object = object_new(inode);
		break;
	}
	default:
		return fsalstat(ERR_FSAL_BADHANDLE, 0);
	}
	if (attrs) {
		fsal_status_t status = object->handle.obj_ops->getattrs(&object->handle, attrs);
		if (FSAL_IS_ERROR(status)) {
			object->handle.obj_ops->release(&object->handle);
			return status;
		}
	}
	*out = &object->handle;
	return ok();
}

void handle_export_ops(struct export_ops *ops)
{
	ops->wire_to_host = op_wire_to_host;
	ops->host_to_key = op_host_to_key;
	ops->create_handle = op_create_handle;
}
