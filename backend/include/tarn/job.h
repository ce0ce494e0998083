// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Jobs: long work on a whole pool in the background, one at a time in each pool. A job's state,
 * settings and position are kept in the pool: it goes on after a restart. It yields to what clients
 * do as its priority says.
 */
#ifndef TARN_JOB_H
#define TARN_JOB_H

#include <tarn/tarn.h>

/* Values are on disk. A pool's job of the greater kind goes first. */
enum tarn_job_kind { TARN_JOB_SCRUB = 1, TARN_JOB_RESILVER = 2, TARN_JOB_KINDS };

/* Values are on disk. */
enum tarn_job_state {
	TARN_JOB_QUEUED, /* another one's turn */
	TARN_JOB_RUNNING,
	TARN_JOB_PAUSED,
	TARN_JOB_CANCELLED,
	TARN_JOB_DONE,
	TARN_JOB_FAILED,
	TARN_JOB_STATES
};

/* "scrub"... */
static inline const char *tarn_job_kind_name(enum tarn_job_kind kind)
{
	static const char *const names[] = {"", "scrub", "resilver"};

	return names[kind];
}

static inline const char *tarn_job_state_name(enum tarn_job_state state)
{
	static const char *const names[] = {"queued",    "running", "paused",
					    "cancelled", "done",    "failed"};

	return names[state];
}

static inline bool tarn_job_ended(enum tarn_job_state state)
{
	return state >= TARN_JOB_CANCELLED;
}

struct tarn_job {
	uint64_t id;
	enum tarn_job_kind kind;
	enum tarn_job_state state;
	unsigned priority; /* 0 (when nobody else wants the devices) to 100 (yields to none) */
	uint64_t floor, ceiling; /* bytes a second, 0: none; the floor counts more than yielding */
	time_t started, ended;   /* ended 0: it has not */
	uint64_t total, done;    /* bytes; total follows what is written and freed meanwhile */
	uint64_t rate;           /* bytes a second, lately */
	uint64_t seconds_left;   /* UINT64_MAX: not known */
	uint64_t repaired;       /* bytes on devices that were wrong or missing and were written */
	uint64_t errors;         /* blocks, of a resilver chunks, that could not be repaired */
	int error;               /* why it failed */
};

/* Those that have not ended, and the last one that has of each kind, oldest first. Never waits for
   a device. *out is freed with free(). */
int tarn_job_list(struct tarn_engine *engine, const char *pool, struct tarn_job **out,
		  uint32_t *count);

/* Changes jobs that have not ended: "priority" 0 to 100, "floor" and "ceiling" in bytes a second.
 */
struct tarn_prop;
int tarn_job_set(struct tarn_engine *engine, const char *pool, const struct tarn_prop *props,
		 uint32_t nprops, struct tarn_error *err);

/*
 * A scrub reads every block that was written before it began, all copies and all parity, and writes
 * anew what is wrong. start also goes on with a paused one; -EBUSY: one is running. -ENOENT: there
 * is none to be paused or stopped.
 */
enum tarn_scrub_action { TARN_SCRUB_START, TARN_SCRUB_PAUSE, TARN_SCRUB_STOP };
int tarn_pool_scrub(struct tarn_engine *engine, const char *pool, enum tarn_scrub_action action,
		    struct tarn_error *err);

/* Brings columns that missed writes, or lost their slabs, up to date on the devices that are in
   use: also begun by tarn_pool_online() and tarn_pool_clear(). No error if one runs. */
int tarn_pool_resilver(struct tarn_engine *engine, const char *pool, struct tarn_error *err);

/* Calls fn for each file with blocks that the last scrub could not repair: "pool/dataset:/path", or
   ":<0xINODE>" and ":<metadata>" where there is no path. */
int tarn_pool_errors(struct tarn_engine *engine, const char *pool,
		     void (*fn)(void *arg, const char *object, uint64_t blocks), void *arg);

#endif
