// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Pools: create, import, export, inspect. All are administrative calls: they may
 * take seconds, must not be made from a completion, and serialise per engine where
 * they change the set of pools.
 */
#ifndef TARN_POOL_H
#define TARN_POOL_H

#include <tarn/tarn.h>

#define TARN_POOL_NAME_MAX 63
#define TARN_DEV_PATH_MAX 255

/* Values are on disk. */
enum tarn_group_kind {
	TARN_GROUP_SINGLE,
	TARN_GROUP_MIRROR,
	TARN_GROUP_RAIDZ1, /* parity: one device may be lost, */
	TARN_GROUP_RAIDZ2, /* two, */
	TARN_GROUP_RAIDZ3, /* three */
	TARN_GROUP_KINDS
};

/* "single", "mirror", "raidz1"... */
static inline const char *tarn_group_kind_name(enum tarn_group_kind kind)
{
	static const char *const names[] = {"single", "mirror", "raidz1", "raidz2", "raidz3"};

	return names[kind];
}

/* What a group is for: data and metadata, or the intent log alone. */
enum tarn_group_class { TARN_CLASS_DATA, TARN_CLASS_LOG };

/* One group of a new pool or of pool add: a single device, a mirror of 2 to 8, or raidz of one
   more than may be lost, to 32. */
struct tarn_group_spec {
	enum tarn_group_kind kind;
	uint32_t ndevs;
	const char *const *paths;
	enum tarn_group_class class;
};

enum {
	TARN_FORCE = 1,     /* override foreign signatures, mixed redundancy, a foreign host */
	TARN_DRY_RUN = 2,   /* all checks, no change */
	TARN_READ_ONLY = 4, /* import without any write to the devices */
	TARN_REWIND = 8,    /* import: fall back to an older uberblock if the newest fails */
	TARN_DROP_LOG =
	    16, /* import: without the log devices that are missing and may hold changes */
};

struct tarn_prop {
	const char *name, *value;
};

/*
 * Checks everything (names, properties, each device: size, duplicates, use, foreign
 * signatures, sector sizes, mixed redundancy), and only then writes. Regular files must exist.
 * props: pool properties and, for the root dataset, dataset properties.
 */
int tarn_pool_create(struct tarn_engine *engine, const char *name,
		     const struct tarn_group_spec *groups, uint32_t ngroups,
		     const struct tarn_prop *props, uint32_t nprops, int flags,
		     struct tarn_error *err);

int tarn_pool_add(struct tarn_engine *engine, const char *name,
		  const struct tarn_group_spec *groups, uint32_t ngroups, int flags,
		  struct tarn_error *err);

/* Takes a group of log devices away, live: device is a single log device's path, or the name of a
   mirror as tarn_pool_status() numbers it ("mirror-2"). Other groups can't be removed. */
int tarn_pool_remove(struct tarn_engine *engine, const char *name, const char *device, int flags,
		     struct tarn_error *err);

/*
 * Takes a device out of use, while its group and everything in it can do without. temporary: until
 * the next import; else until tarn_pool_online(), also after imports. Not of log devices.
 */
int tarn_pool_offline(struct tarn_engine *engine, const char *name, const char *device,
		      bool temporary, int flags, struct tarn_error *err);
/* A device that is offline, faulted or was missing comes back into use; what it missed is brought
   up to date by a resilver, which this begins. */
int tarn_pool_online(struct tarn_engine *engine, const char *name, const char *device, int flags,
		     struct tarn_error *err);

/* Wipes the labels. The pool must be imported. */
int tarn_pool_destroy(struct tarn_engine *engine, const char *name, int flags,
		      struct tarn_error *err);

/* Writes everything, marks the pool exported and closes its devices. Later calls on its
   datasets and inodes answer -ENXIO until it is imported again. */
int tarn_pool_export(struct tarn_engine *engine, const char *name, int flags,
		     struct tarn_error *err);

/* A pool found on devices. */
struct tarn_import_candidate {
	char name[TARN_POOL_NAME_MAX + 1];
	uint64_t guid;
	uint64_t txg; /* of its newest uberblock */
	uint32_t devs_found, devs_total;
	bool importable; /* enough devices for every group */
	bool active;     /* not exported; host names who has it or had it */
	char host[64];
};

/* Looks at the given files, devices and directories (all entries of each); with none, at
   /dev/disk/by-id. *out is freed with free(). */
int tarn_pool_scan(struct tarn_engine *engine, const char *const *paths, uint32_t npaths,
		   struct tarn_import_candidate **out, uint32_t *count);

struct tarn_import_spec {
	const char *name; /* or NULL: by guid */
	uint64_t guid;
	const char *new_name;     /* NULL = keep */
	const char *const *paths; /* as for tarn_pool_scan() */
	uint32_t npaths;
	int flags; /* TARN_FORCE, TARN_READ_ONLY, TARN_REWIND, TARN_DROP_LOG, TARN_DRY_RUN */
};
/* -EREMOTE: another host has it, err names that host; -EBUSY: a device is in use here; -ENODEV:
   devices are missing, which for a log device TARN_DROP_LOG overrides. */
int tarn_pool_import(struct tarn_engine *engine, const struct tarn_import_spec *spec,
		     struct tarn_error *err);

enum tarn_dev_state {
	TARN_DEV_ONLINE,
	TARN_DEV_DEGRADED,
	TARN_DEV_FAULTED,
	TARN_DEV_MISSING,
	TARN_DEV_OFFLINE, /* taken out of use by tarn_pool_offline() */
};

struct tarn_dev_status {
	uint64_t guid;
	char path[TARN_DEV_PATH_MAX + 1];
	enum tarn_dev_state state; /* DEGRADED: online, but it has missed writes */
	uint64_t size;             /* bytes */
	uint64_t read_errors, write_errors, checksum_errors;
	uint64_t
	    stale; /* chunks of which it has a column that has missed writes, and is not used */
	uint64_t reads, writes, read_bytes, write_bytes; /* since import */
};

struct tarn_group_status {
	enum tarn_group_kind kind;
	uint32_t first_dev, ndevs; /* range in devs[] */
	uint64_t size, allocated;  /* usable bytes, after redundancy */
	enum tarn_dev_state state; /* DEGRADED: redundancy is reduced */
};

/* Why nothing is written. All but the first two last until the pool is imported again. */
enum tarn_pool_halt {
	TARN_HALT_NONE,
	TARN_HALT_CHECKS,    /* the server stood still too long; it looks whether the pool is still
				its own, writes wait */
	TARN_HALT_TAKEN,     /* another host has imported it */
	TARN_HALT_HEARTBEAT, /* devices do not take the heartbeat */
	TARN_HALT_COMMIT,    /* devices do not take a commit */
};

struct tarn_pool_status {
	char name[TARN_POOL_NAME_MAX + 1];
	uint64_t guid;
	uint64_t txg; /* last committed */
	bool read_only;
	enum tarn_pool_halt halt;
	bool log_dropped; /* imported with TARN_DROP_LOG, which was needed; until tarn_pool_clear()
			   */
	uint64_t lost_changes;     /* acknowledged ones that the intent log had and could not be
				      replayed: at least so many; until tarn_pool_clear() */
	uint64_t unreplayed;       /* changes in the log of a pool that is imported for reading */
	enum tarn_dev_state state; /* worst that matters */
	uint64_t size, allocated, free; /* usable bytes; free = size - allocated */
	uint64_t freeing;               /* bytes of destroyed datasets still to be freed */
	uint64_t data_errors;           /* blocks found with no good copy since import */
	uint32_t ngroups, nlogs, ndevs;
	struct tarn_group_status *groups;
	struct tarn_group_status *logs; /* size: of the log; a mirror is called mirror-N, N going on
					   from the groups */
	struct tarn_dev_status *devs;   /* of groups, then of logs */
};

/* Never waits for a device. Free with tarn_pool_status_free(). */
int tarn_pool_status(struct tarn_engine *engine, const char *name, struct tarn_pool_status **out);
void tarn_pool_status_free(struct tarn_pool_status *status);

/* Where lost_changes were, as far as that is known: datasets that still are, in the order of their
   first one. *out: free(). */
struct tarn_lost {
	char dataset[TARN_PATH_MAX];
	uint64_t changes; /* at least */
};
int tarn_pool_lost(struct tarn_engine *engine, const char *name, struct tarn_lost **out,
		   uint32_t *count);

/* Names of imported pools, sorted; *out freed with free(). */
int tarn_pool_list(struct tarn_engine *engine, char (**out)[TARN_POOL_NAME_MAX + 1],
		   uint32_t *count);

/* Resets error counters, lost_changes and log_dropped, and brings faulted devices that answer again
 * back. */
int tarn_pool_clear(struct tarn_engine *engine, const char *name, struct tarn_error *err);

/*
 * Pool properties: comment, plus read-only size, allocated, free, capacity, guid, health,
 * version, readonly. list calls fn for each.
 */
int tarn_pool_prop_set(struct tarn_engine *engine, const char *name, const char *prop,
		       const char *value, struct tarn_error *err);
int tarn_pool_prop_list(struct tarn_engine *engine, const char *name,
			void (*fn)(void *arg, const char *prop, const char *value,
				   const char *source),
			void *arg);

/* Appends a command line to the pool's history (durable with the next txg), or reads it. */
int tarn_pool_history_add(struct tarn_engine *engine, const char *name, const char *text);
int tarn_pool_history(struct tarn_engine *engine, const char *name,
		      void (*fn)(void *arg, time_t when, const char *text), void *arg);

/* Told after a pool has come (present; again when it has got devices) or before it goes; for the
   server's exports. */
void tarn_pool_on_change(struct tarn_engine *engine,
			 void (*fn)(void *arg, const char *name, uint64_t guid, bool present),
			 void *arg);

#endif
