// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The power fails at any moment. Each list of operations runs once on simulated devices, with
 * all their writes and flushes recorded; then the devices are made again as a cut at each
 * recorded event may leave them: with none, all, each single one, all but each single one, the
 * first sectors and random ones of the writes that were not yet durable. Each must check clean,
 * import, and hold what had been answered as durable and nothing by half. Some are cut again while
 * they are imported and exported.
 *
 * The first case that fails is kept in a folder with the devices as files:
 *     TARN_CUT_REPLAY=FOLDER    does exactly that case again
 *     TARN_CUT_CASE=ID          runs the ID's operations anew and cuts them in the same way, which
 *                               is the same as far as the recording is
 */
#include "cut_run.h"
#include "cut_work.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "pool_fixture.h"

enum {
	WORKERS = 2,
	ID_MAX = 128,
	RANDOM_CUTS = 2, /* at each position */
	THOROUGH = 8,    /* one of so many cases */
	DOUBLE = 40,
	DOUBLE_CUTS = 12,
	SHOWN = 3, /* failures of each worker */
};

/* Cases of each work, and which works are left out for a profile: sanitizers take longer.
   Logs and parity differ from others below what the works are about. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#ifdef __SANITIZE_THREAD__
#define BUDGET 10
#else
#define BUDGET 30
#endif
#define LEFT_OUT(profile, work) ((work) % PROFILES != (profile))
#else
#define BUDGET 200
#define HALF(profile) ((profile).nlogs || (profile).kind == TARN_GROUP_RAIDZ1)
#define LEFT_OUT(profile, work) (HALF(profiles[profile]) && (work) % 2 == (profile) % 2)
#endif

static const struct cut_profile profiles[] = {
    {"single", 1, TARN_GROUP_SINGLE, 0}, {"stripe", 2, TARN_GROUP_SINGLE, 0},
    {"mirror", 2, TARN_GROUP_MIRROR, 0}, {"log", 2, TARN_GROUP_SINGLE, 1},
    {"logs", 3, TARN_GROUP_SINGLE, 2},   {"raidz", 3, TARN_GROUP_RAIDZ1, 0},
};
#define PROFILES (sizeof(profiles) / sizeof(profiles[0]))

struct cut {
	enum sim_cut how;
	uint64_t arg, arg2;
};

/* ---- the cases of a recording ---- */

struct cases {
	const struct cut_record *r;
	struct tape_cursor *c;
	uint64_t from; /* position */
	uint64_t position, number;
	bool (*visit)(struct cases *cases, const struct cut *cut); /* false ends it */
	void *arg;
};

static bool one(struct cases *k, enum sim_cut how, uint64_t arg, uint64_t arg2)
{
	struct cut cut = {how, arg, arg2};
	bool go_on = k->visit(k, &cut);

	k->number++;
	return go_on;
}

static bool torn(struct cases *k, uint64_t n)
{
	bool go_on = true;

	for (uint64_t s = 1; go_on && s < tape_cursor_length(k->c, n); s++)
		go_on = one(k, SIM_CUT_TORN, n, s);
	return go_on;
}

/* `first`: the writes before that are as they were at the last position, and nothing became
   durable meanwhile. */
static bool here(struct cases *k, uint64_t first)
{
	uint64_t n = tape_cursor_unflushed(k->c);
	bool go_on = one(k, SIM_CUT_ALL, 0, 0);

	if (go_on && !first)
		go_on = one(k, SIM_CUT_NONE, 0, 0);
	for (uint64_t i = first; go_on && n > 1 && i < n; i++)
		go_on = one(k, SIM_CUT_ONLY, i, 0);
	for (uint64_t i = 0; go_on && n > 2 && i < n - (first > 0); i++)
		go_on = one(k, SIM_CUT_BUT, i, 0);
	for (uint64_t i = first; go_on && i < n; i++)
		go_on = torn(k, i);
	for (unsigned i = 0; go_on && n > 2 && i < RANDOM_CUTS; i++)
		go_on = one(k, SIM_CUT_RANDOM, k->position * RANDOM_CUTS + i + 1, 0);
	return go_on;
}

/* Whether other operations are durable than at the position before. */
static bool acknowledged(const struct cut_record *r, uint64_t position)
{
	for (; r; r = r->next) {
		for (unsigned i = 0; i <= r->nops; i++) {
			if (r->acked[i] == position)
				return true;
		}
	}
	return false;
}

/* Each case once: at a position that differs from the one before. */
static void each_case(struct cases *k)
{
	uint64_t before = 0;
	bool go_on = true;

	k->number = 0;
	for (k->position = k->from; go_on; k->position++) {
		uint64_t n;
		bool same;

		tape_cursor_seek(k->c, k->position);
		n = tape_cursor_unflushed(k->c);
		same = k->position > k->from && n >= before && !acknowledged(k->r, k->position);
		if (!same || n > before)
			go_on = here(k, same ? before : 0);
		before = n;
		go_on = go_on && k->position < k->r->end;
	}
}

static const char *const hows[] = {
    [SIM_CUT_NONE] = "none", [SIM_CUT_ALL] = "all",   [SIM_CUT_ONLY] = "only",
    [SIM_CUT_BUT] = "but",   [SIM_CUT_TORN] = "torn", [SIM_CUT_RANDOM] = "random",
};

/* ---- a job: one recording and all its cases, by several processes ---- */

struct shared {
	atomic_uint cases, doubles, failures, kept;
	char current[WORKERS][ID_MAX];
};

struct job {
	const char *work;
	const struct cut_record *r;
	bool ignore_flushes;
	uint64_t from, total, budget;
	unsigned worker;
	bool quiet;       /* failures are expected */
	const char *only; /* an ID */
	struct shared *shared;
	unsigned failures;
};

static void id_of(const struct job *job, uint64_t position, const struct cut *cut, char out[ID_MAX])
{
	snprintf(out, ID_MAX, "%s/%s@%llu:%s.%llu.%llu", job->r->profile->name, job->work,
		 (unsigned long long)position, hows[cut->how], (unsigned long long)cut->arg,
		 (unsigned long long)cut->arg2);
}

static unsigned media_of(const struct cut_record *r)
{
	return r->profile->ndevs + 1;
}

static void destroy(struct sim **media, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		sim_destroy(media[i]);
}

/* ---- keeping a case ---- */

static void keep_medium(const char *dir, unsigned i, struct sim *medium)
{
	static const uint8_t zeros[SECTOR_SIZE];
	uint8_t sector[SECTOR_SIZE];
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "%s/disk%u", dir, i);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, CUT_DEV_BYTES))
		return;
	for (uint64_t at = 0; at < CUT_DEV_BYTES; at += SECTOR_SIZE) {
		sim_peek(medium, at, sector, SECTOR_SIZE);
		if (memcmp(sector, zeros, SECTOR_SIZE) != 0 &&
		    pwrite(fd, sector, SECTOR_SIZE, (off_t)at) != SECTOR_SIZE)
			break;
	}
	close(fd);
}

static void keep(const struct job *job, const char *id, struct tape_cursor *c,
		 const struct cut *cut, const struct cut_bounds *b)
{
	struct sim *media[CUT_DEVS];
	unsigned n = media_of(job->r);
	char dir[] = "/var/tmp/tarn-cut-XXXXXX", path[64];
	FILE *file;

	if (job->quiet || atomic_exchange(&job->shared->kept, 1) || !mkdtemp(dir))
		return;
	tape_cursor_cut(c, cut->how, cut->arg, cut->arg2, media);
	for (unsigned i = 0; i < n; i++)
		keep_medium(dir, i, media[i]);
	destroy(media, n);
	snprintf(path, sizeof(path), "%s/case", dir);
	file = fopen(path, "we");
	if (file) {
		fprintf(file, "%s %d", id, b->presence);
		for (const struct cut_record *r = job->r; r; r = r->next, b++) {
			fprintf(file, " %u %u", b->least, b->most);
			for (unsigned k = 0; k < r->nops; k++)
				fprintf(file, " %d", b->settled[k]);
		}
		fprintf(file, "\n");
		fclose(file);
	}
	print_error("kept: TARN_CUT_REPLAY=%s (from tests/run: in build/test-logs)\n", dir);
}

/* ---- one case ---- */

static void failed(struct job *job, const char *id, const char *why)
{
	atomic_fetch_add(&job->shared->failures, 1);
	if (!job->quiet)
		print_error("TARN_CUT_CASE=%s: %s\n", id, why);
	job->failures++;
}

static bool verify(struct job *job, const char *id, struct tape_cursor *c, const struct cut *cut,
		   const struct cut_bounds *bounds, bool thorough)
{
	struct sim *media[CUT_DEVS];
	unsigned n = media_of(job->r);
	char why[CUT_WHY];
	bool good;

	strcpy(job->shared->current[job->worker], id);
	tape_cursor_cut(c, cut->how, cut->arg, cut->arg2, media);
	good = cut_verify(job->r, bounds, media, n, thorough, why);
	if (!good) {
		failed(job, id, why);
		keep(job, id, c, cut, bounds);
	}
	destroy(media, n);
	job->shared->current[job->worker][0] = '\0';
	return good;
}

static struct cut random_cut(struct tape_cursor *c, uint64_t *random)
{
	static const enum sim_cut kinds[] = {SIM_CUT_NONE, SIM_CUT_ALL,  SIM_CUT_ONLY,
					     SIM_CUT_BUT,  SIM_CUT_TORN, SIM_CUT_RANDOM};
	uint64_t n = tape_cursor_unflushed(c);
	struct cut cut = {.how = kinds[(test_random(random) >> 33) % 6]};

	if (!n || cut.how == SIM_CUT_NONE || cut.how == SIM_CUT_ALL)
		return cut;
	cut.arg = (test_random(random) >> 33) % n;
	if (cut.how == SIM_CUT_TORN)
		cut.arg2 = (test_random(random) >> 33) % tape_cursor_length(c, cut.arg);
	return cut;
}

/* The import and the export after a cut, themselves cut. */
static void verify_double(struct job *job, const char *id, struct tape_cursor *first,
			  const struct cut *cut, const struct cut_bounds *bounds, uint64_t random)
{
	struct sim *media[CUT_DEVS];
	struct tape *tape = tape_new();
	struct tape_cursor *c;
	unsigned n = media_of(job->r);
	char why[CUT_WHY], second_id[2 * ID_MAX];
	uint64_t at = 0, end;

	tape_cursor_cut(first, cut->how, cut->arg, cut->arg2, media);
	for (unsigned i = 0; i < n; i++)
		tape_record(tape, media[i]);
	cut_replay_in_small_steps(true);
	if (!cut_verify(job->r, bounds, media, n, false, why))
		failed(job, id, why);
	cut_replay_in_small_steps(false);
	destroy(media, n);
	end = tape_position(tape);
	c = tape_cursor_new(tape);
	for (unsigned i = 1; i <= DOUBLE_CUTS && job->failures < SHOWN; i++) {
		uint64_t next = end * i / DOUBLE_CUTS;
		struct cut second;

		at += next > at ? (test_random(&random) >> 33) % (next - at + 1) : 0;
		tape_cursor_seek(c, at);
		second = random_cut(c, &random);
		snprintf(second_id, sizeof(second_id), "%s+%llu:%s.%llu.%llu", id,
			 (unsigned long long)at, hows[second.how], (unsigned long long)second.arg,
			 (unsigned long long)second.arg2);
		atomic_fetch_add(&job->shared->doubles, 1);
		verify(job, second_id, c, &second, bounds, false);
	}
	tape_cursor_free(c);
	tape_free(tape);
}

static bool count_one(struct cases *k, const struct cut *cut)
{
	(void)k;
	(void)cut;
	return true;
}

/* Which cases are done if there are too many: the same ones in each process. Those without any
   unflushed write, which prove the most, four times as often. */
static bool chosen(const struct job *job, uint64_t number, const struct cut *cut)
{
	uint64_t random = number + 1;
	uint64_t budget = job->budget * (cut->how == SIM_CUT_NONE ? 4 : 1);

	return (test_random(&random) >> 20) % job->total < budget;
}

static bool do_one(struct cases *k, const struct cut *cut)
{
	struct job *job = k->arg;
	uint64_t random = k->number * 7919 + 1;
	struct cut_bounds bounds[CUT_THREADS];
	char id[ID_MAX];

	id_of(job, k->position, cut, id);
	if (k->number / 16 % WORKERS != job->worker ||
	    (job->only ? strcmp(id, job->only) != 0 : !chosen(job, k->number, cut)))
		return true;
	cut_bounds(job->r, k->position, bounds);
	random = test_random(&random) >> 33;
	atomic_fetch_add(&job->shared->cases, 1);
	if (verify(job, id, k->c, cut, bounds, job->only || random % THOROUGH == 0) &&
	    random % DOUBLE == 1 && bounds[0].presence == CUT_MUST && !job->quiet)
		verify_double(job, id, k->c, cut, bounds, random);
	return job->failures < SHOWN;
}

static uint64_t walk_cases(struct job *job, bool (*visit)(struct cases *, const struct cut *))
{
	struct cases k = {.r = job->r, .from = job->from, .visit = visit, .arg = job};

	k.c = tape_cursor_new(job->r->tape);
	tape_cursor_seek(k.c, k.from);
	if (job->ignore_flushes)
		tape_cursor_ignore_flushes(k.c);
	each_case(&k);
	tape_cursor_free(k.c);
	return k.number;
}

/* ---- jobs ---- */

static pid_t start_worker(struct job *job, unsigned worker)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	signal(SIGSEGV, SIG_DFL); /* cmocka's handlers are for its own process */
	signal(SIGBUS, SIG_DFL);
	signal(SIGABRT, SIG_DFL);
	job->worker = worker;
	walk_cases(job, do_one);
	_exit(0);
}

static void run_workers(struct job *job)
{
	pid_t pids[WORKERS];

	for (unsigned i = 0; i < WORKERS; i++)
		pids[i] = start_worker(job, i);
	for (unsigned i = 0; i < WORKERS; i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		if (!status)
			continue;
		print_error("TARN_CUT_CASE=%s: the process ended with status 0x%x\n",
			    job->shared->current[i], (unsigned)status);
		atomic_fetch_add(&job->shared->failures, 1);
	}
}

static struct shared *shared_new(void)
{
	struct shared *shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(shared != MAP_FAILED);
	return shared;
}

/* Returns the number of failures. */
static unsigned do_cases(struct job *job)
{
	job->total = walk_cases(job, count_one);
	run_workers(job);
	return atomic_load(&job->shared->failures);
}

static const char *const own_dirs[CUT_THREADS] = {"t0", "t1", "t2", "t3"};

/* One record for each thread, linked. */
static void plan(const struct cut_profile *profile, const struct cut_work *work,
		 struct cut_record records[CUT_THREADS])
{
	memset(records, 0, CUT_THREADS * sizeof(*records));
	records[0].destroys = work->destroys;
	for (unsigned i = 0; i < (work->threads ? work->threads : 1); i++) {
		if (i)
			records[i - 1].next = &records[i];
		if (work->threads)
			records[i].own = own_dirs[i];
		records[i].base = i * CUT_OPS_MAX;
		cut_plan(&records[i], profile, work->ops + i * CUT_OPS_MAX, work->nops);
	}
}

static void cut_work(const struct cut_profile *profile, const struct cut_work *work,
		     uint64_t budget)
{
	static struct cut_record r[CUT_THREADS];
	struct job job = {.work = work->name,
			  .r = r,
			  .budget = budget,
			  .only = getenv("TARN_CUT_CASE"),
			  .shared = shared_new()};
	unsigned failures, cases;

	plan(profile, work, r);
	cut_record(r);
	job.from = work->nops ? r->begun[work->from] : 0;
	failures = do_cases(&job);
	cases = atomic_load(&job.shared->cases);
	print_message("%s/%s: %u of %llu cases, %u cut twice\n", profile->name, work->name, cases,
		      (unsigned long long)job.total, atomic_load(&job.shared->doubles));
	cut_record_free(r);
	munmap(job.shared, sizeof(*job.shared));
	assert_int_equal(failures, 0);
	assert_true(cases > 0);
}

/* ---- by name ---- */

static struct cut_op random_ops[CUT_THREADS * CUT_OPS_MAX];

/* "random" and the seed, or "threads" and that. */
static struct cut_work random_work(bool threads, uint64_t seed, char name[ID_MAX])
{
	struct cut_work work = {.name = name,
				.nops = threads ? 60 : 150,
				.ops = random_ops,
				.threads = threads ? CUT_THREADS : 0};

	snprintf(name, ID_MAX, "%s%llu", threads ? "threads" : "random", (unsigned long long)seed);
	for (unsigned i = 0; i < (threads ? CUT_THREADS : 1); i++)
		cut_random_work(seed + i * 1000003, work.nops, threads ? own_dirs[i] : NULL,
				random_ops + i * CUT_OPS_MAX);
	return work;
}

/* What an ID begins with: PROFILE/WORK@ */
static void find(const char *id, const struct cut_profile **profile, struct cut_work *work,
		 char name[ID_MAX])
{
	char profile_name[16], work_name[64];

	if (sscanf(id, "%15[^/]/%63[^@]@", profile_name, work_name) != 2)
		fail_msg("%s is no ID", id);
	*profile = NULL;
	for (unsigned i = 0; i < PROFILES; i++) {
		if (strcmp(profiles[i].name, profile_name) == 0)
			*profile = &profiles[i];
	}
	work->name = NULL;
	for (unsigned i = 0; i < cut_nworks; i++) {
		if (strcmp(cut_works[i].name, work_name) == 0)
			*work = cut_works[i];
	}
	if (strncmp(work_name, "random", 6) == 0)
		*work = random_work(false, strtoull(work_name + 6, NULL, 10), name);
	if (strncmp(work_name, "threads", 7) == 0)
		*work = random_work(true, strtoull(work_name + 7, NULL, 10), name);
	if (!*profile || !work->name)
		fail_msg("%s: no such work", id);
}

static void case_again(void **state)
{
	(void)state;
	const struct cut_profile *profile;
	struct cut_work work;
	char name[ID_MAX];

	find(getenv("TARN_CUT_CASE"), &profile, &work, name);
	cut_work(profile, &work, 0);
}

static struct sim *load_medium(const char *dir, unsigned i)
{
	struct sim *medium = sim_create("kept", CUT_DEV_BYTES, 512);
	uint8_t sector[SECTOR_SIZE];
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/disk%u", dir, i);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	for (uint64_t at = 0; at < CUT_DEV_BYTES; at += SECTOR_SIZE) {
		assert_int_equal(pread(fd, sector, SECTOR_SIZE, (off_t)at), SECTOR_SIZE);
		sim_poke(medium, at, sector, SECTOR_SIZE);
	}
	close(fd);
	return medium;
}

static void load_bounds(FILE *file, const struct cut_record *r, struct cut_bounds *out)
{
	int number;

	assert_int_equal(fscanf(file, "%d", &number), 1);
	out->presence = (enum cut_presence)number;
	for (; r; r = r->next, out++) {
		assert_int_equal(fscanf(file, "%u %u", &out->least, &out->most), 2);
		for (unsigned i = 0; i < r->nops; i++) {
			assert_int_equal(fscanf(file, "%d", &number), 1);
			out->settled[i] = number;
		}
	}
}

static void kept_again(void **state)
{
	(void)state;
	static struct cut_record r[CUT_THREADS];
	const char *dir = getenv("TARN_CUT_REPLAY");
	const struct cut_profile *profile;
	struct cut_bounds bounds[CUT_THREADS];
	struct sim *media[CUT_DEVS];
	struct cut_work work;
	char path[128], id[2 * ID_MAX], name[ID_MAX], why[CUT_WHY];
	FILE *file;

	snprintf(path, sizeof(path), "%s/case", dir);
	file = fopen(path, "re");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%255s", id), 1);
	find(id, &profile, &work, name);
	plan(profile, &work, r);
	load_bounds(file, r, bounds);
	fclose(file);
	for (unsigned i = 0; i < media_of(r); i++)
		media[i] = load_medium(dir, i);
	if (!cut_verify(r, bounds, media, media_of(r), true, why))
		fail_msg("%s: %s", id, why);
	destroy(media, media_of(r));
	cut_record_free(r);
}

/* ---- tests ---- */

static void each_operation(void **state)
{
	(void)state;
	for (unsigned p = 0; p < PROFILES; p++) {
		for (unsigned w = 0; w < cut_nworks; w++) {
			if (!LEFT_OUT(p, w))
				cut_work(&profiles[p], &cut_works[w], BUDGET * test_scale());
		}
	}
}

static void random_operations(void **state)
{
	(void)state;
	uint64_t seed = test_seed();

	for (unsigned i = 0; i < PROFILES; i++) {
		char name[ID_MAX];
		struct cut_work work = random_work(false, seed + i, name);

		cut_work(&profiles[i], &work, BUDGET * test_scale());
	}
}

static void threads_at_once(void **state)
{
	(void)state;
	uint64_t seed = test_seed();

	for (unsigned i = 0; i < PROFILES; i++) {
		char name[ID_MAX];
		struct cut_work work = random_work(true, seed + i, name);

		cut_work(&profiles[i], &work, BUDGET * test_scale());
	}
}

static void must_fail(const struct cut_work *work, bool ignore_flushes)
{
	static struct cut_record r[CUT_THREADS];
	struct job job = {.work = work->name,
			  .r = r,
			  .budget = 200,
			  .ignore_flushes = ignore_flushes,
			  .quiet = true,
			  .shared = shared_new()};

	plan(&profiles[0], work, r);
	cut_record(r);
	job.from = r->begun[work->from];
	for (struct cut_record *lane = r; lane && !ignore_flushes; lane = lane->next)
		memcpy(lane->acked, lane->begun, sizeof(lane->acked));
	assert_true(do_cases(&job) > 0);
	cut_record_free(r);
	munmap(job.shared, sizeof(*job.shared));
}

/* The test itself: pools on devices that ignore flushes, and answers that come too early, must
   not pass. */
static void catches_faults(void **state)
{
	(void)state;
	char name[ID_MAX];
	struct cut_work threads = random_work(true, 1, name);

	for (int ignore_flushes = 0; ignore_flushes < 2; ignore_flushes++) {
		must_fail(&cut_works[0], ignore_flushes);
		must_fail(&threads, ignore_flushes);
	}
}

static int begin(void **state)
{
	(void)state;
	cut_begin();
	return 0;
}

static int end(void **state)
{
	(void)state;
	cut_end();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(catches_faults),
	    cmocka_unit_test(each_operation),
	    cmocka_unit_test(random_operations),
	    cmocka_unit_test(threads_at_once),
	};
	const struct CMUnitTest again[] = {cmocka_unit_test(case_again)};
	const struct CMUnitTest kept[] = {cmocka_unit_test(kept_again)};

	/* Large sparse tables of the checker come as untouched pages, not as cleared memory. */
	mallopt(M_MMAP_THRESHOLD, 4 << 20);
	if (getenv("TARN_CUT_REPLAY"))
		return cmocka_run_group_tests(kept, begin, end);
	if (getenv("TARN_CUT_CASE"))
		return cmocka_run_group_tests(again, begin, end);
	return cmocka_run_group_tests(tests, begin, end);
}
