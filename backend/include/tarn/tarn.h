// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * libtarn: common types and the engine object. Include <tarn/pool.h>,
 * <tarn/dataset.h> and <tarn/fs.h> for the rest of the public API.
 *
 * Conventions: functions return 0 or -errno and may be called from any thread
 * unless a header says otherwise. Administrative functions also fill a struct tarn_error
 * that names the thing and the remedy. Sizes and offsets are bytes; times are
 * CLOCK_REALTIME. Strings are NUL-terminated; names of files may hold any byte but
 * NUL and '/', names of pools and datasets are plain ASCII.
 */
#ifndef TARN_TARN_H
#define TARN_TARN_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#define TARN_NAME_MAX 255                 /* bytes of a file name */
#define TARN_PATH_MAX 1024                /* bytes of a dataset path, pool name included */
#define TARN_XATTR_MAX 65536              /* bytes of an extended attribute's value */
#define TARN_SYMLINK_MAX 4095             /* bytes of a symbolic link's target */
#define TARN_FILE_MAX ((uint64_t)1 << 62) /* bytes */

struct tarn_engine;
struct tarn_dataset;
struct tarn_inode;

/* Why an administrative call was refused. code is the function's result (-errno). */
struct tarn_error {
	int code;
	char text[512]; /* one sentence for the administrator, without a final newline */
};

enum tarn_log_level { TARN_LOG_DEBUG, TARN_LOG_INFO, TARN_LOG_WARN, TARN_LOG_ERROR };

struct tarn_config {
	uint64_t arc_max;     /* bytes for cached blocks, 0 = a quarter of memory */
	uint64_t dirty_max;   /* bytes of changes not yet written, 0 = an eighth of memory */
	unsigned threads;     /* of the sync and of background work, 0 = one per core */
	const char *host;     /* the name written into labels, NULL = gethostname() */
	uint64_t host_id;     /* 0 = from /etc/machine-id */
	uint64_t boot_id;     /* another one after each boot of the host, 0 = the kernel's */
	unsigned txg_seconds; /* a txg closes at least this often, 0 = 5 */
	/* Messages for the log; may be called from any thread. NULL = none. */
	void (*log)(enum tarn_log_level level, const char *text);
};

int tarn_engine_create(const struct tarn_config *config, struct tarn_engine **out);

/* Exports every pool, then frees the engine. */
void tarn_engine_destroy(struct tarn_engine *engine);

#define TARN_LIMIT_MIN (8ull << 20) /* bytes: the least arc_max and dirty_max */

/* Live limits; a value of 0 leaves that limit as it is. -EINVAL if out of range. */
int tarn_engine_set_limits(struct tarn_engine *engine, uint64_t arc_max, uint64_t dirty_max);

struct tarn_cache_stats {
	uint64_t size, max;            /* bytes */
	uint64_t data_size, meta_size; /* bytes */
	uint64_t hits, misses, meta_hits, meta_misses;
	uint64_t evictions, inserted;
};
void tarn_engine_cache_stats(struct tarn_engine *engine, struct tarn_cache_stats *out);

/*
 * The identity of a caller of file operations, after squashing. NULL in its place
 * means the superuser. uid 0 passes every permission check.
 */
struct tarn_cred {
	uid_t uid;
	gid_t gid;
	uint32_t ngroups;
	const gid_t *groups;
};

/*
 * What an operation must wait for before it may be called durable. Made by every
 * change; passed to tarn_commit_wait(). A zero token is durable already.
 */
struct tarn_commit {
	uint64_t txg;
	uint64_t number; /* in the intent log; 0: not there */
};

#endif
