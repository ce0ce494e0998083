// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * A step of a resilver: rebuilds some chunks. It goes through all chunks by id again and again,
 * until nothing is left that could be rebuilt, or a whole round has rebuilt nothing. The chunks say
 * themselves what is stale, so a position is kept only for the round.
 */
#include <errno.h>

#include "api/job.h"
#include "pool/rebuild.h"

struct resilver {
	struct job_step *step;
	struct rebuild rebuild;
	uint32_t chunks; /* whose columns are current now */
};

static int begin_task(struct catalog *cat, struct txg_sync *s, void *arg)
{
	struct resilver *r = arg;

	(void)cat;
	rebuild_begin(s, &r->rebuild);
	return 0;
}

static int end_task(struct catalog *cat, struct txg_sync *s, void *arg)
{
	struct resilver *r = arg;

	(void)cat;
	r->chunks = rebuild_end(s, &r->rebuild);
	return 0;
}

static bool pace(void *arg, uint64_t written, uint64_t moved)
{
	struct resilver *r = arg;
	struct job_record *rec = &r->step->rec;

	rec->done += written;
	rec->repaired += written;
	if (rec->total < rec->done)
		rec->total = rec->done;
	r->step->io += moved;
	job_pace(r->step);
	return atomic_load(r->step->stop);
}

/* place: the last chunk of this round. key_len: 1 if the round has rebuilt something. errors: the
   chunks of the round that could not be rebuilt. */
int resilver_step(struct job_step *step)
{
	struct resilver r = {.step = step,
			     .rebuild = {.pool = step->p->pool, .after = step->rec.place}};
	struct job_record *rec = &step->rec;
	uint32_t chunks;
	int rc;

	if (!rec->place)
		rec->errors = 0;
	rc = catalog_task(step->p->catalog, begin_task, &r);
	if (rc)
		return rc;
	chunks = r.rebuild.n;
	rec->total = rec->done + r.rebuild.left;
	if (!chunks) {
		bool rebuilt = rec->key_len;

		rec->total = rec->done;
		rec->place = rec->key_len = 0;
		return !rebuilt;
	}
	rebuild_fill(&r.rebuild, pace, &r);
	rc = catalog_task(step->p->catalog, end_task, &r);
	if (rc)
		return rc;
	rec->place = r.rebuild.after;
	rec->key_len |= r.chunks > 0;
	rec->errors += chunks - r.chunks;
	return 0;
}
