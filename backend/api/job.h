// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * A pool's jobs: their list, and the thread that works on the one whose turn it is, step by step.
 * Between steps it waits as the job's settings say. A record of each job lies in the pool tree; it
 * is written when something is decided, and its position now and then, so that after a crash some
 * work is done again.
 *
 *   job.c       list, records, turns, speed; the public functions of <tarn/job.h>
 *   scrub.c     what a scrub does in a step
 *   resilver.c  what a resilver does in a step
 *   damaged.c   the files that a scrub could not repair: records and paths
 *
 * Locks: `saving` (held over a commit, so that records are written in order), then `lock`, held for
 * moments. Steps run without either.
 */
#ifndef TARN_API_JOB_H
#define TARN_API_JOB_H

#include <tarn/job.h>

#include "api/engine.h"

/* When a pool has joined the engine's table, and before it is closed. jobs_stop() waits for the
   step that runs; NULL jobs (of a pool that never had them) are allowed. */
int jobs_start(struct tarn_engine *engine, struct engine_pool *p);
void jobs_stop(struct engine_pool *p);

/* One step of a job; the runner's own copy of what it changes. */
struct job_step {
	struct engine_pool *p;
	struct cache *cache;
	uint64_t id;
	struct job_record rec; /* position, bytes, counters: the step's; the rest is not */
	uint64_t budget;       /* bytes of the pool's data, about */
	uint64_t io;           /* bytes on devices that it took */
	struct jobs *jobs;     /* the runner's */
	uint64_t paced_at, paced_done, paced_io;
	const atomic_bool *stop; /* give up soon; the step counts as not made */
};
/* 0: there is more to do; 1: all is done; negative: the job has failed. */
int scrub_step(struct job_step *step);
int resilver_step(struct job_step *step);
/* Within a step that takes long: what it has done by now is shown, and it waits as its settings
 * say. */
void job_pace(struct job_step *step);

/* Starts a resilver, if none runs; one that does begins anew when it has ended. */
int jobs_resilver(struct engine_pool *p, struct tarn_error *err);
/* The same if a device in use has missed writes. */
int jobs_resilver_stale(struct engine_pool *p, struct tarn_error *err);

/* ---- device.c ---- */

/* A faulted device comes back into use. engine.admin held. */
int device_clear(struct engine_pool *p, struct pool_dev *dev, struct tarn_error *err);

/* ---- damaged.c ---- */

struct damage {
	uint64_t dataset, inode; /* as in struct catalog_error */
	uint64_t blocks;
};
/* More are counted, but not listed. */
#define DAMAGED_MAX 1000
/* Adds to what is recorded of the job. */
int damaged_add(struct catalog *cat, uint64_t job, const struct damage *list, uint32_t n);
/* The job has seen all: finds the paths of its files, forgets those of other jobs. */
int damaged_finish(const struct job_step *step);

#endif
