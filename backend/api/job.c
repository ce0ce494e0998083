// SPDX-License-Identifier: LGPL-3.0-or-later
#include "api/job.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "pool/rebuild.h"
#include "util/mem.h"

#define SECOND 1000000000ull
/* Bytes of a step; smaller ones while others want the devices. */
#define STEP_IDLE (32ull << 20)
#define STEP_BUSY (4ull << 20)
#define STEP_LEAST (256ull << 10)
/* Others are at work if they move more than this a second: not heartbeats and commits of nothing.
 */
#define BUSY_POOL (64ull << 10)
#define BUSY_DEVICE (16ull << 10)
#define SAVE_SECONDS 15
#define DELAY_MAX (10 * SECOND)
#define PRIORITY_DEFAULT 50

struct job {
	uint64_t id;
	struct job_record rec;
	uint64_t rate; /* bytes a second, lately */
	uint64_t rated_at, rated_done;
	bool again; /* asked for while it ran: its next end is none */
	struct job *next;
};

struct jobs {
	struct tarn_engine *engine;
	struct engine_pool *p;
	pthread_mutex_t saving, lock;
	pthread_cond_t change;
	/* Under lock. */
	struct job *list;   /* by id */
	uint64_t resume_at; /* CLOCK_MONOTONIC, ns: the next step */
	atomic_bool stop;
	bool runs;
	pthread_t thread;
	/* The thread's. */
	uint64_t seen_io, seen_at, saved_at;
	bool busy; /* others want the devices */
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

/* ---- the list; lock held ---- */

static struct job *add_job(struct jobs *jobs, uint64_t id, const struct job_record *rec)
{
	struct job *job = mem_zalloc(sizeof(*job)), **at = &jobs->list;

	job->id = id;
	job->rec = *rec;
	while (*at)
		at = &(*at)->next;
	*at = job;
	return job;
}

static struct job *find_job(struct jobs *jobs, uint64_t id)
{
	struct job *job = jobs->list;

	while (job && job->id != id)
		job = job->next;
	return job;
}

static void drop_job(struct jobs *jobs, uint64_t id)
{
	struct job **at = &jobs->list, *job;

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	job = *at;
	if (job) {
		*at = job->next;
		free(job);
	}
}

/* The one that has not ended; NULL if there is none. */
static struct job *open_job(struct jobs *jobs, enum tarn_job_kind kind)
{
	struct job *job = jobs->list;

	while (job && (job->rec.kind != kind || tarn_job_ended(job->rec.state)))
		job = job->next;
	return job;
}

/* Whose turn it is. */
static struct job *next_job(struct jobs *jobs)
{
	struct job *next = NULL;

	for (struct job *job = jobs->list; job; job = job->next) {
		if (job->rec.state == TARN_JOB_RUNNING && (!next || job->rec.kind > next->rec.kind))
			next = job;
	}
	return next;
}

/* ---- records ---- */

/* The job as it is now; one that has been dropped meanwhile needs no record. */
static int save(struct jobs *jobs, uint64_t id)
{
	struct job_record rec;
	struct job *job;
	int rc = 0;

	pthread_mutex_lock(&jobs->saving);
	pthread_mutex_lock(&jobs->lock);
	job = find_job(jobs, id);
	if (job)
		rec = job->rec;
	pthread_mutex_unlock(&jobs->lock);
	if (job)
		rc = catalog_job_put(jobs->p->catalog, id, &rec);
	pthread_mutex_unlock(&jobs->saving);
	return rc;
}

static void tell(struct jobs *jobs, const struct job *job, const char *what)
{
	char text[200];

	snprintf(text, sizeof(text), "[%s %s]", tarn_job_kind_name(job->rec.kind), what);
	pool_log(jobs->p->pool, TARN_LOG_INFO, "%s %s", tarn_job_kind_name(job->rec.kind), what);
	/* What has been done is done, whether that can be written down or not. */
	(void)catalog_history_add(jobs->p->catalog, text);
}

static void tell_end(struct jobs *jobs, const struct job *job)
{
	char text[150];

	if (job->rec.state == TARN_JOB_FAILED)
		snprintf(text, sizeof(text), "failed: %s", strerror(-job->rec.error));
	else
		snprintf(text, sizeof(text), "%s: %" PRIu64 " bytes repaired, %" PRIu64 " %s",
			 tarn_job_state_name(job->rec.state), job->rec.repaired, job->rec.errors,
			 job->rec.kind == TARN_JOB_SCRUB ? "blocks lost" : "chunks not rebuilt");
	tell(jobs, job, text);
}

/* ---- speed ---- */

static uint64_t device_bytes(const struct pool *pool)
{
	uint32_t ndevs = __atomic_load_n(&pool->ndevs, __ATOMIC_ACQUIRE);
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < ndevs; i++) {
		const struct dev *dev = pool->devs[i].dev;

		if (dev)
			bytes += atomic_load(&dev->stats.read_bytes) +
				 atomic_load(&dev->stats.write_bytes);
	}
	return bytes;
}

/* own: bytes that the step took. */
static void look_at_others(struct jobs *jobs, uint64_t own)
{
	const struct pool *pool = jobs->p->pool;
	uint64_t io = device_bytes(pool), now = now_ns(), time = now - jobs->seen_at;
	uint64_t all = io > jobs->seen_io ? io - jobs->seen_io : 0;
	uint64_t others = all > own ? all - own : 0;
	uint64_t quiet = BUSY_POOL + BUSY_DEVICE * __atomic_load_n(&pool->ndevs, __ATOMIC_ACQUIRE);

	jobs->busy = (double)others / (double)quiet > (double)(time + SECOND) / SECOND;
	jobs->seen_io = io;
	jobs->seen_at = now;
}

/* Nanoseconds in which so many bytes are moved at that many a second. */
static uint64_t time_for(uint64_t bytes, uint64_t rate)
{
	return (uint64_t)((double)bytes * (double)SECOND / (double)rate);
}

/* How long to wait after a step that took so long. */
static uint64_t delay_after(const struct jobs *jobs, const struct job_record *rec, uint64_t bytes,
			    uint64_t took)
{
	uint64_t delay = 0, least = rec->ceiling ? time_for(bytes, rec->ceiling) : 0;

	if (jobs->busy && rec->priority < 100)
		delay = took * (100 - rec->priority) / (rec->priority ? rec->priority : 1);
	if (delay > DELAY_MAX)
		delay = DELAY_MAX;
	if (rec->floor && took + delay > time_for(bytes, rec->floor)) {
		uint64_t most = time_for(bytes, rec->floor);

		delay = most > took ? most - took : 0;
	}
	return took + delay < least ? least - took : delay;
}

static uint64_t budget(const struct jobs *jobs, const struct job_record *rec)
{
	uint64_t bytes = jobs->busy && rec->priority < 100 ? STEP_BUSY : STEP_IDLE;

	if (rec->ceiling && bytes > rec->ceiling / 4)
		bytes = rec->ceiling / 4;
	return bytes > STEP_LEAST ? bytes : STEP_LEAST;
}

/* Lock held. */
static void rate(struct job *job)
{
	uint64_t now = now_ns(), time = now - job->rated_at;
	uint64_t lately;

	if (job->rated_at && time < SECOND)
		return;
	lately = (uint64_t)((double)(job->rec.done - job->rated_done) * SECOND / (double)time);
	if (job->rated_at)
		job->rate = job->rate ? (3 * job->rate + lately) / 4 : lately;
	job->rated_at = now;
	job->rated_done = job->rec.done;
}

/* ---- the thread ---- */

static int start_job(struct jobs *jobs, enum tarn_job_kind kind, struct tarn_error *err);

/* Lock held. What the step has changed; settings and state may be other ones by now. */
static void take_over(struct job *job, const struct job_record *from)
{
	job->rec.total = from->total;
	job->rec.done = from->done;
	job->rec.repaired = from->repaired;
	job->rec.errors = from->errors;
	job->rec.place = from->place;
	job->rec.key_len = from->key_len;
	memcpy(job->rec.key, from->key, sizeof(job->rec.key));
}

/* Lock held. */
static void end_job(struct job *job, enum tarn_job_state state, int error)
{
	job->rec.state = (uint8_t)state;
	job->rec.error = error;
	job->rec.ended = (uint64_t)time(NULL);
	job->rate = 0;
}

static void wait_until(struct jobs *jobs, uint64_t when)
{
	struct timespec t = {.tv_sec = (time_t)(when / SECOND), .tv_nsec = (long)(when % SECOND)};

	pthread_cond_timedwait(&jobs->change, &jobs->lock, &t);
}

/* Lock held. What the step has done since it was paced last, or began, is taken over, and the time
   for going on is set; NULL: the job has been dropped. */
static struct job *pace(struct job_step *step)
{
	struct jobs *jobs = step->jobs;
	struct job *job = find_job(jobs, step->id);
	uint64_t now = now_ns(), took = now - step->paced_at;

	look_at_others(jobs, step->io - step->paced_io);
	if (job) {
		take_over(job, &step->rec);
		rate(job);
		jobs->resume_at =
		    now + delay_after(jobs, &job->rec, step->rec.done - step->paced_done, took);
	}
	step->paced_done = step->rec.done;
	step->paced_io = step->io;
	step->paced_at = now;
	return job;
}

void job_pace(struct job_step *step)
{
	struct jobs *jobs = step->jobs;
	const struct job *job;

	pthread_mutex_lock(&jobs->lock);
	job = pace(step);
	while (job && job->rec.state == TARN_JOB_RUNNING && !atomic_load(&jobs->stop) &&
	       jobs->resume_at > now_ns()) {
		wait_until(jobs, jobs->resume_at);
		job = find_job(jobs, step->id);
	}
	step->paced_at = now_ns();
	pthread_mutex_unlock(&jobs->lock);
}

/* What a resilver has written is read again, and its checksums looked at, as it has not looked at
   them. Before it ends: a crash does not prevent that. */
static void prove(struct jobs *jobs)
{
	struct tarn_error err;
	const struct job *scrub;
	int rc;

	pthread_mutex_lock(&jobs->lock);
	scrub = open_job(jobs, TARN_JOB_SCRUB);
	pthread_mutex_unlock(&jobs->lock);
	rc = scrub ? 0 : start_job(jobs, TARN_JOB_SCRUB, &err);
	if (rc && rc != -EBUSY)
		pool_log(jobs->p->pool, TARN_LOG_WARN, "no scrub can be started: %s", err.text);
}

/* Columns that had to be left out for want of slabs may get them now. */
static void resilver_again(struct jobs *jobs)
{
	struct tarn_error err;

	if (jobs_resilver(jobs->p, &err))
		pool_log(jobs->p->pool, TARN_LOG_WARN, "no resilver can be started: %s", err.text);
}

/* Lock held on entry and return. */
static void step_job(struct jobs *jobs, struct job *job)
{
	struct job_step step = {.p = jobs->p,
				.cache = jobs->engine->cache,
				.id = job->id,
				.rec = job->rec,
				.budget = budget(jobs, &job->rec),
				.jobs = jobs,
				.paced_at = now_ns(),
				.paced_done = job->rec.done,
				.stop = &jobs->stop};
	struct job ended = {0};
	int rc;

	if (!job->rated_at)
		rate(job);
	pthread_mutex_unlock(&jobs->lock);
	rc = step.rec.kind == TARN_JOB_SCRUB ? scrub_step(&step) : resilver_step(&step);
	if (rc > 0 && step.rec.kind == TARN_JOB_RESILVER && step.rec.repaired)
		prove(jobs);
	pthread_mutex_lock(&jobs->lock);
	if (atomic_load(&jobs->stop))
		return;
	job = pace(&step);
	if (!job)
		return;
	if (rc > 0 && job->again && job->rec.kind == TARN_JOB_RESILVER)
		job->again = false;
	else if (rc && job->rec.state == TARN_JOB_RUNNING) {
		end_job(job, rc > 0 ? TARN_JOB_DONE : TARN_JOB_FAILED, rc > 0 ? 0 : rc);
		jobs->resume_at = 0;
		ended = *job;
	}
	if (!ended.id && now_ns() - jobs->saved_at <= SAVE_SECONDS * SECOND)
		return;
	jobs->saved_at = now_ns();
	pthread_mutex_unlock(&jobs->lock);
	rc = save(jobs, step.id);
	if (rc)
		pool_log(jobs->p->pool, TARN_LOG_WARN, "the state of a job can't be written: %s",
			 strerror(-rc));
	if (ended.id)
		tell_end(jobs, &ended);
	pthread_mutex_lock(&jobs->lock);
}

/* Lock held. */
static void wait_for_work(struct jobs *jobs)
{
	if (rebuild_waits(jobs->p->pool))
		wait_until(jobs, now_ns() + SECOND);
	else
		pthread_cond_wait(&jobs->change, &jobs->lock);
}

static void *run(void *arg)
{
	struct jobs *jobs = arg;

	pthread_mutex_lock(&jobs->lock);
	while (!atomic_load(&jobs->stop)) {
		struct job *job = next_job(jobs);

		if (rebuild_may_go_on(jobs->p->pool)) {
			pthread_mutex_unlock(&jobs->lock);
			resilver_again(jobs);
			pthread_mutex_lock(&jobs->lock);
		} else if (!job)
			wait_for_work(jobs);
		else if (jobs->resume_at > now_ns())
			wait_until(jobs, jobs->resume_at);
		else
			step_job(jobs, job);
	}
	pthread_mutex_unlock(&jobs->lock);
	return NULL;
}

/* ---- life ---- */

static void load_job(void *arg, uint64_t id, const struct job_record *rec)
{
	add_job(arg, id, rec);
}

static void jobs_free(struct jobs *jobs)
{
	while (jobs->list)
		drop_job(jobs, jobs->list->id);
	pthread_cond_destroy(&jobs->change);
	pthread_mutex_destroy(&jobs->lock);
	pthread_mutex_destroy(&jobs->saving);
	free(jobs);
}

int jobs_start(struct tarn_engine *engine, struct engine_pool *p)
{
	struct jobs *jobs = calloc(1, sizeof(*jobs));
	pthread_condattr_t monotonic;
	int rc;

	if (!jobs)
		return -ENOMEM;
	jobs->engine = engine;
	jobs->p = p;
	pthread_mutex_init(&jobs->saving, NULL);
	pthread_mutex_init(&jobs->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&jobs->change, &monotonic);
	pthread_condattr_destroy(&monotonic);
	jobs->seen_io = device_bytes(p->pool);
	jobs->seen_at = jobs->saved_at = now_ns();
	rc = catalog_jobs(p->catalog, load_job, jobs);
	if (!rc && !p->pool->read_only) {
		rc = -pthread_create(&jobs->thread, NULL, run, jobs);
		jobs->runs = !rc;
	}
	if (rc) {
		jobs_free(jobs);
		return rc;
	}
	p->jobs = jobs;
	return 0;
}

void jobs_stop(struct engine_pool *p)
{
	struct jobs *jobs = p->jobs;

	if (!jobs)
		return;
	pthread_mutex_lock(&jobs->lock);
	atomic_store(&jobs->stop, true);
	pthread_cond_broadcast(&jobs->change);
	pthread_mutex_unlock(&jobs->lock);
	if (jobs->runs)
		pthread_join(jobs->thread, NULL);
	/* Nobody else is left. */
	for (struct job *job = jobs->list; job && jobs->runs; job = job->next) {
		if (!tarn_job_ended(job->rec.state))
			(void)save(jobs, job->id); /* else from where it was written last */
	}
	p->jobs = NULL;
	jobs_free(jobs);
}

/* ---- the public functions ---- */

static void put_job(const struct job *job, const struct job *turn, struct tarn_job *out)
{
	const struct job_record *rec = &job->rec;

	*out = (struct tarn_job){.id = job->id,
				 .kind = rec->kind,
				 .state = rec->state,
				 .priority = rec->priority,
				 .floor = rec->floor,
				 .ceiling = rec->ceiling,
				 .started = (time_t)rec->started,
				 .ended = (time_t)rec->ended,
				 .total = rec->total,
				 .done = rec->done,
				 .seconds_left = UINT64_MAX,
				 .repaired = rec->repaired,
				 .errors = rec->errors,
				 .error = rec->error};
	if (rec->state == TARN_JOB_RUNNING && job != turn)
		out->state = TARN_JOB_QUEUED;
	if (job != turn)
		return;
	out->rate = job->rate;
	if (job->rate)
		out->seconds_left = (rec->total - rec->done) / job->rate;
}

int tarn_job_list(struct tarn_engine *engine, const char *pool, struct tarn_job **out,
		  uint32_t *count)
{
	struct engine_pool *p;
	const struct job *turn;
	uint32_t n = 0;
	int rc = engine_pool_get(engine, pool, &p);

	if (rc)
		return rc;
	pthread_mutex_lock(&p->jobs->lock);
	for (const struct job *job = p->jobs->list; job; job = job->next)
		n++;
	*out = calloc(n + 1, sizeof(**out));
	turn = p->jobs->runs ? next_job(p->jobs) : NULL;
	*count = 0;
	for (const struct job *job = p->jobs->list; job && *out; job = job->next)
		put_job(job, turn, &(*out)[(*count)++]);
	pthread_mutex_unlock(&p->jobs->lock);
	engine_pool_put(engine, p);
	return *out ? 0 : -ENOMEM;
}

static void wake(struct jobs *jobs)
{
	jobs->resume_at = 0;
	pthread_cond_broadcast(&jobs->change);
}

/* A number, or one with K, M, G or T. */
static bool parse_bytes(const char *text, uint64_t *out)
{
	static const char units[] = "KMGT";
	const char *unit;
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	if (errno || end == text || text[0] == '-' || text[0] == '+')
		return false;
	unit = *end ? strchr(units, *end) : NULL;
	if (!unit)
		return !*end;
	for (const char *u = units; u <= unit; u++) {
		if (__builtin_mul_overflow(*out, (uint64_t)1024, out))
			return false;
	}
	return !end[1];
}

struct settings {
	bool has_priority, has_floor, has_ceiling;
	uint64_t priority, floor, ceiling;
};

static int parse_settings(const struct tarn_prop *props, uint32_t nprops, struct settings *out,
			  struct tarn_error *err)
{
	*out = (struct settings){0};
	for (uint32_t i = 0; i < nprops; i++) {
		const char *name = props[i].name, *value = props[i].value;
		bool good;

		if (!strcmp(name, "priority")) {
			out->has_priority = good = parse_bytes(value, &out->priority);
			good = good && out->priority <= 100;
		} else if (!strcmp(name, "floor")) {
			out->has_floor = good = parse_bytes(value, &out->floor);
		} else if (!strcmp(name, "ceiling")) {
			out->has_ceiling = good = parse_bytes(value, &out->ceiling);
		} else {
			return fail(err, -EINVAL,
				    "jobs have no setting '%s', only priority, floor and ceiling",
				    name);
		}
		if (!good)
			return fail(err, -EINVAL,
				    "'%s' is no %s: a priority is 0 to 100, floor and ceiling are "
				    "bytes a second",
				    value, name);
	}
	return 0;
}

static int apply(struct job_record *rec, const struct settings *s, struct tarn_error *err)
{
	uint64_t floor = s->has_floor ? s->floor : rec->floor;
	uint64_t ceiling = s->has_ceiling ? s->ceiling : rec->ceiling;

	if (ceiling && floor > ceiling)
		return fail(err, -EINVAL, "the floor of a job can't be above its ceiling");
	rec->floor = floor;
	rec->ceiling = ceiling;
	if (s->has_priority)
		rec->priority = (uint8_t)s->priority;
	return 0;
}

/* The ids of those that have changed, *n of them, to be saved. */
static int set_jobs(struct jobs *jobs, const struct settings *s, uint64_t ids[TARN_JOB_KINDS],
		    uint32_t *n, struct tarn_error *err)
{
	int rc = 0;

	*n = 0;
	pthread_mutex_lock(&jobs->lock);
	for (unsigned kind = 1; kind < TARN_JOB_KINDS && !rc; kind++) {
		struct job *job = open_job(jobs, kind);

		if (!job)
			continue;
		rc = apply(&job->rec, s, err);
		if (!rc)
			ids[(*n)++] = job->id;
	}
	wake(jobs);
	pthread_mutex_unlock(&jobs->lock);
	if (!rc && !*n)
		rc = fail(err, -ENOENT, "pool '%s' has no job that goes on", jobs->p->name);
	return rc;
}

int tarn_job_set(struct tarn_engine *engine, const char *pool, const struct tarn_prop *props,
		 uint32_t nprops, struct tarn_error *err)
{
	uint64_t ids[TARN_JOB_KINDS];
	struct engine_pool *p;
	struct settings s;
	uint32_t n = 0;
	int rc = engine_pool_find(engine, pool, &p, err);

	if (rc)
		return rc;
	rc = engine_check_writable(p, err);
	rc = rc ? rc : parse_settings(props, nprops, &s, err);
	rc = rc ? rc : set_jobs(p->jobs, &s, ids, &n, err);
	for (uint32_t i = 0; i < n && !rc; i++) {
		rc = save(p->jobs, ids[i]);
		if (rc)
			fail(err, rc, "pool '%s' can't be written: %s", pool, strerror(-rc));
	}
	engine_pool_put(engine, p);
	return rc;
}

/* ---- start, pause, stop ---- */

/* The records of those of this kind that have ended go: one result is kept. */
static int forget_ended(struct jobs *jobs, enum tarn_job_kind kind, uint64_t but)
{
	int rc = 0;

	pthread_mutex_lock(&jobs->saving);
	while (!rc) {
		uint64_t id = 0;

		pthread_mutex_lock(&jobs->lock);
		for (const struct job *job = jobs->list; job && !id; job = job->next) {
			if (job->rec.kind == kind && job->id != but)
				id = job->id;
		}
		if (id)
			drop_job(jobs, id);
		pthread_mutex_unlock(&jobs->lock);
		if (!id)
			break;
		rc = catalog_job_del(jobs->p->catalog, id);
	}
	pthread_mutex_unlock(&jobs->saving);
	return rc;
}

static int start_job(struct jobs *jobs, enum tarn_job_kind kind, struct tarn_error *err)
{
	struct job_record rec = {.kind = (uint8_t)kind,
				 .state = TARN_JOB_RUNNING,
				 .priority = PRIORITY_DEFAULT,
				 .started = (uint64_t)time(NULL),
				 .txg = txg_open(jobs->p->pool)};
	struct job *job, told = {.rec = rec};
	uint64_t id = 1;
	bool resumed = false;
	int rc = 0;

	pthread_mutex_lock(&jobs->lock);
	job = open_job(jobs, kind);
	if (job && job->rec.state == TARN_JOB_PAUSED) {
		job->rec.state = TARN_JOB_RUNNING;
		id = job->id;
		resumed = true;
	} else if (job) {
		job->again = true;
		rc = -EBUSY;
	} else {
		for (job = jobs->list; job; job = job->next)
			id = job->id + 1;
		if (kind == TARN_JOB_SCRUB) /* of others the first step says so */
			rec.total = catalog_used_after(jobs->p->catalog, 0);
		add_job(jobs, id, &rec);
	}
	wake(jobs);
	pthread_mutex_unlock(&jobs->lock);
	if (rc)
		return fail(err, rc, "a %s of pool '%s' is running", tarn_job_kind_name(kind),
			    jobs->p->name);
	rc = save(jobs, id);
	if (!rc && !resumed)
		rc = forget_ended(jobs, kind, id);
	if (rc)
		return fail(err, rc, "pool '%s' can't be written: %s", jobs->p->name,
			    strerror(-rc));
	tell(jobs, &told, resumed ? "resumed" : "started");
	return 0;
}

static int halt_job(struct jobs *jobs, enum tarn_job_kind kind, enum tarn_job_state state,
		    struct tarn_error *err)
{
	struct job *job, halted = {0};
	int rc;

	pthread_mutex_lock(&jobs->lock);
	job = open_job(jobs, kind);
	if (job && state == TARN_JOB_CANCELLED)
		end_job(job, state, 0);
	else if (job)
		job->rec.state = (uint8_t)state;
	if (job) {
		job->rate = job->rated_at = 0;
		halted = *job;
	}
	wake(jobs);
	pthread_mutex_unlock(&jobs->lock);
	if (!job)
		return fail(err, -ENOENT, "no %s of pool '%s' is running", tarn_job_kind_name(kind),
			    jobs->p->name);
	rc = save(jobs, halted.id);
	if (rc)
		return fail(err, rc, "pool '%s' can't be written: %s", jobs->p->name,
			    strerror(-rc));
	if (state == TARN_JOB_CANCELLED)
		tell_end(jobs, &halted);
	else
		tell(jobs, &halted, tarn_job_state_name(state));
	return 0;
}

int tarn_pool_scrub(struct tarn_engine *engine, const char *pool, enum tarn_scrub_action action,
		    struct tarn_error *err)
{
	struct engine_pool *p;
	int rc = engine_pool_find(engine, pool, &p, err);

	if (rc)
		return rc;
	rc = engine_check_writable(p, err);
	if (!rc && action == TARN_SCRUB_START)
		rc = start_job(p->jobs, TARN_JOB_SCRUB, err);
	else if (!rc)
		rc = halt_job(p->jobs, TARN_JOB_SCRUB,
			      action == TARN_SCRUB_PAUSE ? TARN_JOB_PAUSED : TARN_JOB_CANCELLED,
			      err);
	engine_pool_put(engine, p);
	return rc;
}

/* ---- resilver ---- */

int jobs_resilver(struct engine_pool *p, struct tarn_error *err)
{
	int rc = start_job(p->jobs, TARN_JOB_RESILVER, err);

	/* One that runs finds what has become stale, or can be rebuilt, since it began. */
	return rc == -EBUSY ? 0 : rc;
}

int jobs_resilver_stale(struct engine_pool *p, struct tarn_error *err)
{
	const struct pool *pool = p->pool;
	uint32_t ndevs = __atomic_load_n(&pool->ndevs, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < ndevs; i++) {
		if (pool_dev_usable(&pool->devs[i]) && atomic_load(&pool->devs[i].stale))
			return jobs_resilver(p, err);
	}
	return 0;
}

int tarn_pool_resilver(struct tarn_engine *engine, const char *pool, struct tarn_error *err)
{
	struct engine_pool *p;
	int rc = engine_pool_find(engine, pool, &p, err);

	if (rc)
		return rc;
	rc = engine_check_writable(p, err);
	rc = rc ? rc : jobs_resilver(p, err);
	engine_pool_put(engine, p);
	return rc;
}
