// SPDX-License-Identifier: LGPL-3.0-or-later
/* Exports: what a path serves, and what a client may know of the file system. */
#include "tarn_fsal.h"

#include "FSAL/fsal_config.h"
#include "dbus.h"
#include "export_mgr.h"
#include "nfs_exports.h"

#include <errno.h>
#include <string.h>

void export_bind(struct tarn_export *export, struct tarn_inode *dir, const struct handle_key *key)
{
	struct identity id = inode_identity(dir);

	PTHREAD_MUTEX_lock(&export->lock);
	if (!export->bound) {
		export->bound = true;
		export->root = id;
		export->whole = tarn_inode_is_root(dir);
		export->rootkey = *key;
	}
	PTHREAD_MUTEX_unlock(&export->lock);
}

bool export_root(struct tarn_export *export, struct identity *root, struct handle_key *key)
{
	PTHREAD_MUTEX_lock(&export->lock);
	bool bound = export->bound;
	*root = export->root;
	*key = export->rootkey;
	PTHREAD_MUTEX_unlock(&export->lock);
	return bound;
}

/* ---- another pool of the same name ---- */

static bool names_pool(const char *path, const char *name)
{
	size_t len = strlen(name);

	return strncmp(path + 1, name, len) == 0 && (path[len + 1] == '/' || path[len + 1] == '\0');
}

void exports_greet(const char *name, uint64_t guid)
{
	struct glist_head *at;

	PTHREAD_MUTEX_lock(&TARN.exports_lock);
	glist_for_each(at, &TARN.fsal.exports)
	{
		struct tarn_export *export =
		    export_of(glist_entry(at, struct fsal_export, exports));
		struct identity root;
		struct handle_key key;

		if (export->all || !names_pool(export->path, name) ||
		    !export_root(export, &root, &key) || root.pool == guid)
			continue;
		LogWarn(COMPONENT_FSAL,
			"Export %s stays with another pool that was called '%s', and waits for it. "
			"For the new one restart the server, or remove the export and add it.",
			export->path, name);
	}
	PTHREAD_MUTEX_unlock(&TARN.exports_lock);
}

/* Follows the components of rest, changing it, from a directory whose reference it takes. */
static int walk(struct tarn_inode *dir, char *rest, struct tarn_inode **out)
{
	char *save = NULL;
	int r = 0;

	for (char *name = strtok_r(rest, "/", &save); name && r == 0;
	     name = strtok_r(NULL, "/", &save)) {
		struct tarn_inode *next;
		r = tarn_lookup(NULL, dir, name, &next);
		if (r == 0) {
			tarn_inode_put(dir);
			dir = next;
		}
	}
	if (r == 0 && tarn_inode_type(dir) != TARN_DIR)
		r = -ENOTDIR;
	if (r != 0)
		tarn_inode_put(dir);
	else
		*out = dir;
	return r;
}

int export_resolve(struct tarn_export *export, struct tarn_inode **out)
{
	struct tarn_dataset *ds;
	struct tarn_inode *dir;
	const char *rest = "";
	int r = tarn_dataset_open(TARN.engine, export->path + 1, &rest, &ds);

	if (r != 0)
		return r;
	r = tarn_root(ds, &dir);
	tarn_dataset_put(ds);
	if (r != 0)
		return r;
	char *copy = gsh_strdup(rest ? rest : "");
	r = walk(dir, copy, out);
	gsh_free(copy);
	return r;
}

/* ---- methods ---- */

static void op_release(struct fsal_export *fsal_export)
{
	struct tarn_export *export = export_of(fsal_export);

	PTHREAD_MUTEX_lock(&TARN.exports_lock);
	fsal_detach_export(fsal_export->fsal, &fsal_export->exports);
	PTHREAD_MUTEX_unlock(&TARN.exports_lock);
	free_export_ops(fsal_export);
	PTHREAD_MUTEX_destroy(&export->lock);
	gsh_free(export->path);
	gsh_free(export);
}

/* The first export that is looked up finds the bus connected, which init_config does not. */
static void start_administration(void)
{
	if (atomic_exchange(&TARN.dbus_started, true))
		return;
	int r = tarn_dbus_start(TARN.engine);
	if (r != 0) {
		LogMajor(COMPONENT_FSAL,
			 "Tarn can't be administered: no D-Bus service (%s). Start the system "
			 "bus, then restart the server.",
			 strerror(-r));
		atomic_store(&TARN.dbus_started, false);
	}
}

static fsal_status_t op_lookup_path(struct fsal_export *fsal_export, const char *path,
				    struct fsal_obj_handle **out, struct fsal_attrlist *attrs)
{
	struct tarn_export *export = export_of(fsal_export);
	struct tarn_inode *inode;
	struct tarn_object *object;

	(void)path; /* always the export's own */
	*out = NULL;
	start_administration();
	if (export->all) {
		object = object_new_pools();
	} else {
		int r = export_resolve(export, &inode);
		if (r == -ENXIO) {
			LogEvent(COMPONENT_FSAL,
				 "Export %s waits: its pool is not imported. Clients wait too.",
				 export->path);
			object = object_new_root();
		} else if (r != 0) {
			LogCrit(COMPONENT_FSAL, "Export %s: %s", export->path, strerror(-r));
			return status_of(r);
		} else {
			struct identity id = inode_identity(inode);
			struct handle_key key = key_of_inode(&id);
			export_bind(export, inode, &key);
			object = object_new(inode);
		}
	}
	if (attrs) {
		fsal_status_t status = object->handle.obj_ops->getattrs(&object->handle, attrs);
		/* An absent root is found all the same: an error would remove the export. */
		if (FSAL_IS_ERROR(status))
			attrs->valid_mask = ATTR_RDATTR_ERR;
	}
	*out = &object->handle;
	return ok();
}

static int statfs_of(struct fsal_obj_handle *handle, struct tarn_statfs *fs)
{
	struct tarn_inode *inode;
	int r = object_inode(object_of(handle), &inode);

	if (r != 0)
		return r;
	r = tarn_dataset_statfs(tarn_inode_dataset(inode), fs);
	tarn_inode_put(inode);
	return r;
}

static fsal_status_t op_get_fs_dynamic_info(struct fsal_export *export,
					    struct fsal_obj_handle *handle,
					    fsal_dynamicfsinfo_t *info)
{
	struct tarn_statfs fs = {0};
	fsal_status_t status = object_of(handle)->key.kind == HANDLE_POOLS
				   ? pools_statfs(&fs)
				   : status_of(statfs_of(handle, &fs));

	(void)export;
	*info = (fsal_dynamicfsinfo_t){
	    .total_bytes = fs.total,
	    .free_bytes = fs.free,
	    .avail_bytes = fs.avail,
	    .total_files = fs.files,
	    .free_files = fs.ffree,
	    .avail_files = fs.ffree,
	    .maxread = MAX_IO,
	    .maxwrite = MAX_IO,
	    .time_delta = {.tv_nsec = 1},
	};
	return status;
}

static attrmask_t op_fs_supported_attrs(struct fsal_export *export)
{
	attrmask_t mask = fsal_supported_attrs(&export->fsal->fs_info);

	if (op_ctx_export_has_option(EXPORT_OPTION_DISABLE_ACL))
		mask &= ~(attrmask_t)ATTR_ACL;
	return mask;
}

static fsal_aclsupp_t op_fs_acl_support(struct fsal_export *export)
{
	if (op_ctx_export_has_option(EXPORT_OPTION_DISABLE_ACL))
		return 0;
	return fsal_acl_support(&export->fsal->fs_info);
}

/* Of NFSv4. It changes also when a pool comes back, which may have lost unstable writes. */
static void op_get_write_verifier(struct fsal_export *export, struct gsh_buffdesc *out)
{
	uint64_t verifier = TARN.verifier + atomic_load(&TARN.epoch);

	(void)export;
	memset(out->addr, 0, out->len);
	memcpy(out->addr, &verifier, out->len < sizeof(verifier) ? out->len : sizeof(verifier));
}

static fsal_status_t op_get_quota(struct fsal_export *export, const char *path, int type, int id,
				  fsal_quota_t *quota)
{
	(void)export, (void)path, (void)type, (void)id, (void)quota;
	return fsalstat(ERR_FSAL_NO_QUOTA, 0);
}

static fsal_status_t op_set_quota(struct fsal_export *export, const char *path, int type, int id,
				  fsal_quota_t *quota, fsal_quota_t *result)
{
	(void)export, (void)path, (void)type, (void)id, (void)quota, (void)result;
	return fsalstat(ERR_FSAL_NO_QUOTA, 0);
}

static void export_ops_init(struct export_ops *ops)
{
	ops->release = op_release;
	ops->lookup_path = op_lookup_path;
	ops->get_fs_dynamic_info = op_get_fs_dynamic_info;
	ops->fs_supported_attrs = op_fs_supported_attrs;
	ops->fs_acl_support = op_fs_acl_support;
	ops->get_write_verifier = op_get_write_verifier;
	ops->get_quota = op_get_quota;
	ops->set_quota = op_set_quota;
	handle_export_ops(ops);
	state_export_ops(ops);
}

/* ---- configuration ---- */

static struct config_item export_items[] = {CONF_ITEM_NOOP("name"), CONFIG_EOL};

static struct config_block export_block = {
    .dbus_interface_name = "org.ganesha.nfsd.config.fsal.tarn-export%d",
    .blk_desc.name = "FSAL",
    .blk_desc.type = CONFIG_BLOCK,
    .blk_desc.u.blk.init = noop_conf_init,
    .blk_desc.u.blk.params = export_items,
    .blk_desc.u.blk.commit = noop_conf_commit,
};

/* err_type gathers what went wrong anywhere in the file: only what this block adds counts. */
static bool export_block_ok(void *parse_node, struct config_error_type *err_type)
{
	struct tarn_export unused;
	bool before = err_type->bogus;

	err_type->bogus = false;
	int r = load_config_from_node(parse_node, &export_block, &unused, true, err_type);
	bool good = r == 0 && !err_type->bogus;
	err_type->bogus |= before;
	return good;
}

/* Without empty components and a final slash; NULL if it can't name an export. */
static char *normal_path(const char *path)
{
	if (path[0] != '/')
		return NULL;
	char *copy = gsh_strdup(path), *save = NULL;
	char *out = gsh_calloc(1, strlen(path) + 2);
	size_t len = 0;
	bool good = true;

	for (char *name = strtok_r(copy, "/", &save); name; name = strtok_r(NULL, "/", &save)) {
		good = good && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
		out[len++] = '/';
		memcpy(out + len, name, strlen(name));
		len += strlen(name);
	}
	if (len == 0)
		out[0] = '/';
	gsh_free(copy);
	if (good)
		return out;
	gsh_free(out);
	return NULL;
}

fsal_status_t export_create(struct fsal_module *module, void *parse_node,
			    struct config_error_type *err_type, const struct fsal_up_vector *up_ops)
{
	char *path;

	if (!TARN.engine) {
		LogCrit(COMPONENT_FSAL, "Export %s: Tarn has not started, see the errors above",
			CTX_FULLPATH(op_ctx));
		return fsalstat(ERR_FSAL_BAD_INIT, 0);
	}
	if (!export_block_ok(parse_node, err_type)) {
		LogCrit(COMPONENT_FSAL, "Export %s: its FSAL block takes nothing but Name",
			CTX_FULLPATH(op_ctx));
		return fsalstat(ERR_FSAL_INVAL, EINVAL);
	}
	path = normal_path(CTX_FULLPATH(op_ctx));
	if (!path) {
		LogCrit(COMPONENT_FSAL,
			"Path %s: give /, or /POOL, /POOL/DATASET or a directory below",
			CTX_FULLPATH(op_ctx));
		return fsalstat(ERR_FSAL_INVAL, EINVAL);
	}
	struct tarn_export *export = gsh_calloc(1, sizeof(*export));
	export->path = path;
	export->all = strcmp(path, "/") == 0;
	PTHREAD_MUTEX_init(&export->lock, NULL);
	fsal_export_init(&export->export);
	export_ops_init(&export->export.exp_ops);
	export->export.fsal = module;
	export->export.up_ops = up_ops;
	PTHREAD_MUTEX_lock(&TARN.exports_lock);
	int r = fsal_attach_export(module, &export->export.exports);
	PTHREAD_MUTEX_unlock(&TARN.exports_lock);
	if (r != 0) {
		free_export_ops(&export->export);
		PTHREAD_MUTEX_destroy(&export->lock);
		gsh_free(path);
		gsh_free(export);
		return fsalstat(ERR_FSAL_BAD_INIT, r);
	}
	names_export(up_ops->up_fsal_export);
	op_ctx->fsal_export = &export->export;
	return ok();
}

fsal_status_t export_update(struct fsal_module *module, void *parse_node,
			    struct config_error_type *err_type, struct fsal_export *original,
			    struct fsal_module *updated_super)
{
	fsal_status_t status = update_export(module, parse_node, err_type, original, updated_super);

	if (!FSAL_IS_ERROR(status) && !export_block_ok(parse_node, err_type))
		status = fsalstat(ERR_FSAL_INVAL, EINVAL);
	return status;
}
