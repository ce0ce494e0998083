// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Datasets: named file systems of a pool, nested by path ("pool/a/b"). The root
 * dataset bears the pool's name. A child appears in its parent's root directory under
 * its last name component, and is crossed by lookup.
 *
 * Administrative calls return after the change is durable.
 */
#ifndef TARN_DATASET_H
#define TARN_DATASET_H

#include <tarn/pool.h>
#include <tarn/tarn.h>

/* parents: missing parents too, and one that exists is no error (tarn fs create -p). */
int tarn_dataset_create(struct tarn_engine *engine, const char *path, const struct tarn_prop *props,
			uint32_t nprops, bool parents, struct tarn_error *err);

/* recursive: children too, else -ENOTEMPTY. Space is freed in the background.
   Live inodes answer -ESTALE afterwards. flags: TARN_DRY_RUN. */
int tarn_dataset_destroy(struct tarn_engine *engine, const char *path, bool recursive, int flags,
			 struct tarn_error *err);

/* Within one pool. Handles, open files and children stay valid. */
int tarn_dataset_rename(struct tarn_engine *engine, const char *from, const char *to,
			struct tarn_error *err);

struct tarn_dataset_info {
	char path[TARN_PATH_MAX];
	uint64_t pool_guid, id;
	uint64_t parent_id;  /* 0 for the pool's root dataset */
	uint64_t used;       /* bytes of this dataset and its children */
	uint64_t referenced; /* bytes reachable from this dataset */
	uint64_t logical;    /* the same before compression */
	uint64_t available;  /* bytes a writer can still use */
	uint64_t inodes;
	time_t created;
	bool mounted; /* served (canmount=on) */
};

/* Calls fn for path and, with recursive, every dataset below it, sorted by path;
   path NULL: all pools. fn returning nonzero ends the walk with that value. */
int tarn_dataset_list(struct tarn_engine *engine, const char *path, bool recursive,
		      int (*fn)(void *arg, const struct tarn_dataset_info *info), void *arg);

enum tarn_prop_source {
	TARN_PROP_DEFAULT,
	TARN_PROP_LOCAL,
	TARN_PROP_INHERITED, /* from: the path it comes from */
	TARN_PROP_NONE,      /* computed, read-only */
};

typedef int (*tarn_prop_fn)(void *arg, const char *name, const char *value,
			    enum tarn_prop_source source, const char *from);

/*
 * name NULL: all. Settable: compression (lz4|zstd|zstd-1..19|off|on), checksum
 * (xxh3|sha256|on), recordsize (4K-1M, power of two), atime (on|off|relatime), readonly,
 * copies (1|2, of metadata, in groups of one device; elsewhere the group's redundancy
 * counts), xattr (on|off), acltype (nfsv4|off), snapdir (hidden|visible), canmount (on|off),
 * comment, and user properties module:name.
 * raw: sizes in bytes instead of 1.5G.
 */
int tarn_dataset_get(struct tarn_engine *engine, const char *path, const char *name, bool raw,
		     tarn_prop_fn fn, void *arg, struct tarn_error *err);
int tarn_dataset_set(struct tarn_engine *engine, const char *path, const struct tarn_prop *props,
		     uint32_t nprops, struct tarn_error *err);
int tarn_dataset_inherit(struct tarn_engine *engine, const char *path, const char *name,
			 bool recursive, struct tarn_error *err);

/*
 * A counted reference to a served dataset. By path, by path of a directory below it
 * (*rest points at the remaining components in path), or by the identity in a handle.
 * -ENXIO: the pool is not imported (it may come); -ESTALE: the dataset is gone for good;
 * -ENOENT: no such dataset in an imported pool.
 */
int tarn_dataset_open(struct tarn_engine *engine, const char *path, const char **rest,
		      struct tarn_dataset **out);
int tarn_dataset_open_id(struct tarn_engine *engine, uint64_t pool_guid, uint64_t id,
			 struct tarn_dataset **out);
struct tarn_dataset *tarn_dataset_ref(struct tarn_dataset *ds);
void tarn_dataset_put(struct tarn_dataset *ds);

/* Constant for the life of the reference. */
uint64_t tarn_dataset_pool_guid(const struct tarn_dataset *ds);
uint64_t tarn_dataset_id(const struct tarn_dataset *ds);
/* The present path; changes by rename. */
void tarn_dataset_path(struct tarn_dataset *ds, char out[TARN_PATH_MAX]);

struct tarn_statfs {
	uint64_t total, free, avail; /* bytes */
	uint64_t files, ffree;       /* inodes, kept below 2^31 for 32-bit clients */
};
int tarn_dataset_statfs(struct tarn_dataset *ds, struct tarn_statfs *out);

/* 8 bytes that differ after every import: the NFSv4 write verifier. */
uint64_t tarn_dataset_verifier(struct tarn_dataset *ds);

/* Blocks until the token's change is durable (asks for a commit at once).
   -ENXIO if the pool went away before: the change is then not known to be durable. */
int tarn_commit_wait(struct tarn_dataset *ds, struct tarn_commit token);
/* The same without blocking: fn runs in an engine thread, or at once. */
void tarn_commit_async(struct tarn_dataset *ds, struct tarn_commit token,
		       void (*fn)(void *arg, int result), void *arg);

#endif
