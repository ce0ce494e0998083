// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The FSAL: what the modules of fsal/ share. Ganesha's MDCACHE sits above and calls every
 * method; each object handle here is what MDCACHE caches for one file.
 *
 * Locks: an object's obj_lock protects its inode, shares and counts, and is held over no
 * engine call but tarn_open(). An export's lock protects its root's identity and is a leaf.
 */
#ifndef TARN_FSAL_H
#define TARN_FSAL_H

#include "config.h" /* ganesha's; before its other headers */

#include "fsal.h"

#include "FSAL/fsal_commonlib.h"

#include "poollist.h"

#include <stdatomic.h>
#include <tarn/dataset.h>
#include <tarn/fs.h>
#include <tarn/pool.h>
#include <tarn/tarn.h>

/* The most that one READ or WRITE carries. */
#define MAX_IO ((uint64_t)1 << 20)

/* ---- the module: the one global ---- */

struct fsal_options {
	uint64_t arc_max, dirty_max; /* bytes, 0 = the engine's default */
	uint64_t io_max;             /* bytes of READ and WRITE under way */
	uint64_t threads;            /* 0 = the engine's default */
	uint64_t txg_seconds;
	char *pool_list; /* file of the pools to import at start */
};

struct tarn_module {
	struct fsal_module fsal;
	struct fsal_obj_ops inode_ops, pools_ops, listed_ops;
	struct fsal_options options;
	struct tarn_engine *engine; /* NULL: init_config has not succeeded */
	struct pool_list pools;
	uint64_t verifier;          /* differs in each run of the server */
	atomic_uint_fast64_t epoch; /* rises when a pool comes or goes */
	struct timespec started;    /* CLOCK_REALTIME */

	unsigned durable_max;        /* workers that may wait for the devices */
	atomic_uint durable_now;     /* workers that do */
	atomic_uint_fast64_t io_now; /* bytes of READ and WRITE under way */
	atomic_bool dbus_started;

	pthread_mutex_t exports_lock; /* the list fsal.exports, which ganesha does not protect */

	pthread_mutex_t ended_lock;
	struct glist_head ended; /* states that only the module refers to, or soon will */
};
extern struct tarn_module TARN;

/* ---- handles ---- */

/* What an object is, for ever: nothing that a reboot, another host or a rename changes. */
struct identity {
	uint64_t pool, dataset; /* GUID, id */
	uint64_t ino, gen;
};

enum handle_kind {
	HANDLE_INODE = 1,
	HANDLE_POOLS, /* the directory of all pools, root of an export of / */
	HANDLE_ROOT,  /* root of an export whose pool was absent when the export was made */
};

/* On the wire and as MDCACHE's key; little-endian. Unused fields are 0. */
struct handle_key {
	uint8_t version, kind;
	uint16_t export_id; /* HANDLE_ROOT */
	uint32_t zero;
	struct identity id; /* HANDLE_INODE */
};
static_assert(sizeof(struct handle_key) == 40, "fits into an NFSv3 handle (59 bytes)");

struct tarn_object {
	struct fsal_obj_handle handle;
	struct handle_key key; /* constant */
	struct identity id;    /* constant; for HANDLE_ROOT once inode is set */
	/* Under handle.obj_lock: */
	struct tarn_inode *inode; /* referenced; of use while epoch is the module's */
	uint64_t epoch;
	struct fsal_share share;
	unsigned opens;     /* with a state; the inode is open in the engine while > 0 */
	unsigned stateless; /* opens that ganesha counts and ends with close() */
};

/* An open or lock state; fsal_fd must follow, ganesha's helpers look for it there. */
struct tarn_state {
	struct state_t state;
	struct fsal_fd fd;
	struct glist_head ended; /* in the module's list, or null */
};

struct tarn_export {
	struct fsal_export export;
	char *path; /* normalised: "/", or "/pool/..." without a final slash */
	bool all;   /* path is "/" */
	pthread_mutex_t lock;
	bool bound;                /* path has led to a directory once */
	struct identity root;      /* that directory, if bound */
	bool whole;                /* it is the root of its dataset */
	struct handle_key rootkey; /* the key of the root's object */
};

static inline struct tarn_object *object_of(const struct fsal_obj_handle *handle)
{
	return container_of(handle, struct tarn_object, handle);
}

static inline struct tarn_export *export_of(struct fsal_export *export)
{
	return container_of(export, struct tarn_export, export);
}

/* state.c */

void state_export_ops(struct export_ops *ops);
/* At the end of close2(): a state that ganesha has deleted is kept until nobody refers to it. */
void state_end(struct state_t *state);
void states_init(void);
void states_fini(void);

/* handle.c. The object functions need op_ctx with this FSAL's export. */

/* Takes the caller's reference to inode. */
struct tarn_object *object_new(struct tarn_inode *inode);
struct tarn_object *object_new_pools(void);
struct tarn_object *object_new_root(void);
/* The object's inode with a reference for the caller, got again if its pool was away.
   -ENXIO: the pool is away. */
int object_inode(struct tarn_object *object, struct tarn_inode **out);
struct identity inode_identity(struct tarn_inode *inode);
bool same_identity(const struct identity *a, const struct identity *b);
struct handle_key key_of_inode(const struct identity *id);
struct handle_key key_of_root(uint16_t export_id);
fsal_status_t key_to_wire(const struct handle_key *key, struct gsh_buffdesc *out);
void handle_export_ops(struct export_ops *ops);
void handle_ops(struct fsal_obj_ops *ops);

/* export.c */
fsal_status_t export_create(struct fsal_module *module, void *parse_node,
			    struct config_error_type *err_type,
			    const struct fsal_up_vector *up_ops);
fsal_status_t export_update(struct fsal_module *module, void *parse_node,
			    struct config_error_type *err_type, struct fsal_export *original,
			    struct fsal_module *updated_super);
/* Follows the export's path to its root directory. */
int export_resolve(struct tarn_export *export, struct tarn_inode **out);
/* Remembers that the export's root is dir, under key; once. */
void export_bind(struct tarn_export *export, struct tarn_inode *dir, const struct handle_key *key);
/* A pool is served: says which exports of its name do not serve it. */
void exports_greet(const char *name, uint64_t guid);
/* Whether the export is bound, and to what. */
bool export_root(struct tarn_export *export, struct identity *root, struct handle_key *key);

/* root.c */
void pools_ops(struct fsal_obj_ops *ops);
/* As tarn_readdir(), of attributes the type only. */
int pools_list(uint64_t after, bool (*fn)(void *arg, const struct tarn_dirent *entry), void *arg,
	       bool *eof);
fsal_status_t pools_statfs(struct tarn_statfs *sum);

/* names.c */

void names_ops(struct fsal_obj_ops *ops);
/* Of an export being made: the one above it, which is MDCACHE's. */
void names_export(struct fsal_export *mdcache);

/* namei.c, open.c, io.c, xattr.c: their methods */
void namei_ops(struct fsal_obj_ops *ops);
void open_ops(struct fsal_obj_ops *ops);
void io_ops(struct fsal_obj_ops *ops);
void xattr_ops(struct fsal_obj_ops *ops);
/* Whether deny modes of others forbid access (FSAL_O_READ, FSAL_O_WRITE) by this state. */
fsal_status_t share_check(struct tarn_object *object, struct state_t *state, bool bypass,
			  fsal_openflags_t access);
/* INVAL or NAMETOOLONG for what can't be the name of a new or removed entry. */
int name_check(const char *name);

/* attr.c */
void attr_ops(struct fsal_obj_ops *ops);
struct fsal_fsid__ dataset_fsid(uint64_t pool, uint64_t dataset);
object_file_type_t type_to_fsal(enum tarn_type type);
/* Fills what out->request_mask asks for; the attributes may be given. */
fsal_status_t attrs_get(struct tarn_inode *inode, const struct tarn_attr *known,
			struct fsal_attrlist *out);
/* out may be NULL. An error is success with ATTR_RDATTR_ERR if the caller takes that. */
fsal_status_t attrs_optional(struct tarn_inode *inode, const struct tarn_attr *known,
			     struct fsal_attrlist *out);
/* Of an object that has changed without MDCACHE noticing. */
void attrs_forget(struct fsal_obj_handle *handle);
/* set->acl, if any, is to be freed with attrs_set_done(). */
int attrs_set(const struct fsal_attrlist *in, struct tarn_setattr *set);
void attrs_set_done(struct tarn_setattr *set);

/* acl.c */
int acl_to_fsal(const struct tarn_acl *acl, fsal_acl_t **out);   /* *out is referenced */
int acl_from_fsal(const fsal_acl_t *acl, struct tarn_acl **out); /* free() */

/* error.c: the one translation of the engine's results */
fsal_status_t status_of(int result);

/* cred.c: op_ctx's caller, after squashing */
struct tarn_cred caller(void);

/*
 * durable.c: operations that answer only when they are durable. A worker reserves its
 * place before the operation and answers "try later" if there is none, so that reads and
 * lookups always find a worker.
 */
bool durable_reserve(void);
void durable_release(void);
/* Waits if result is 0, gives the place back, and translates. */
fsal_status_t durable_finish(struct tarn_inode *inode, int result, struct tarn_commit token);

static inline fsal_status_t ok(void)
{
	return fsalstat(ERR_FSAL_NO_ERROR, 0);
}

static inline fsal_status_t try_later(void)
{
	return fsalstat(ERR_FSAL_DELAY, 0);
}

#endif
