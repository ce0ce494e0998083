// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * A pool of threads with one queue: single pieces of work, and loops spread over the
 * threads. Owns its threads; the work items belong to the callers.
 *
 * Any thread may submit and loop, those of the pool too. Work starts in the order of
 * submission; loops go before queued work, as somebody waits for them. One mutex inside,
 * never held while a caller's function runs.
 */
#ifndef TARN_UTIL_WORKQ_H
#define TARN_UTIL_WORKQ_H

#include <stdint.h>

struct workq;

/* Embedded in the caller's own object, which fn may free. */
struct work {
	void (*fn)(struct work *work);
	struct work *next; /* the queue's, from submission until fn is called */
};

/* Starts `threads` (at least 1) threads. */
int workq_create(unsigned threads, struct workq **out);

/* Runs all work that is queued, and what that submits in turn; then ends the threads.
   NULL is allowed. Not from the pool's own threads. */
void workq_destroy(struct workq *wq);

/* Never blocks, never fails. */
void workq_submit(struct workq *wq, struct work *work);

/* Calls fn(i, arg) once for each i < n, in any order, on the caller's thread and the idle
   ones of the pool; returns when all calls have. The caller alone can do it all, so loops
   in work and in loops cannot deadlock. */
void workq_for(struct workq *wq, uint64_t n, void (*fn)(uint64_t i, void *arg), void *arg);

#endif
