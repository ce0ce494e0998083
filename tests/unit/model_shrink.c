// SPDX-License-Identifier: LGPL-3.0-or-later
#include "model_shrink.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define HANGS_AFTER 600 /* seconds */
#define REPEATS 12      /* of a script whose failure depends on timing, until it fails */

static void child_run(struct source *source, enum lie (*lie)(const struct op *op), bool quiet,
		      int fd)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
	struct failure f;
	int null;

	/* Whatever the test program wanted to do about it. */
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]) && quiet; i++)
		signal(signals[i], SIG_DFL);
	alarm(HANGS_AFTER);
	if (quiet) {
		null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		dup2(null, STDERR_FILENO);
	}
	if (model_run(source, lie, &f)) {
		close(fd);
		exit(0); /* sanitizers look for leaks */
	}
	if (write(fd, &f, sizeof(f)) != sizeof(f))
		_exit(2);
	_exit(1);
}

static struct trial begin(struct source *source, enum lie (*lie)(const struct op *op), bool quiet)
{
	struct trial trial;
	int fds[2];

	fflush(NULL);
	strcpy(trial.dir, MODEL_POOL_DIR);
	if (!mkdtemp(trial.dir) || pipe2(fds, O_CLOEXEC))
		abort();
	trial.pid = fork();
	if (trial.pid < 0)
		abort();
	if (trial.pid == 0) {
		close(fds[0]);
		model_pool_dir = trial.dir;
		child_run(source, lie, quiet, fds[1]);
	}
	close(fds[1]);
	trial.fd = fds[0];
	return trial;
}

struct trial trial_start(const struct script *s, enum lie (*lie)(const struct op *op), bool quiet)
{
	struct script_source source = script_source(s);

	return begin(&source.source, lie, quiet);
}

/* ---- random operations ---- */

struct random_source {
	struct source source;
	struct generator *generator;
	struct recording *rec;
};

static bool next_random(struct source *source, const struct model *m, struct op *op)
{
	struct random_source *r = (struct random_source *)source;

	if (r->rec->n == r->rec->room)
		return false;
	generator_next(r->generator, m, op);
	r->rec->ops[r->rec->n++] = *op;
	return true;
}

struct trial trial_random(enum profile profile, uint64_t seed, struct recording *rec,
			  enum lie (*lie)(const struct op *op), bool quiet)
{
	struct random_source r = {{next_random}, generator_new(profile, seed), rec};
	struct trial trial;

	rec->n = 0;
	trial = begin(&r.source, lie, quiet);
	generator_free(r.generator);
	return trial;
}

struct recording *recording_new(size_t room)
{
	size_t bytes = sizeof(struct recording) + room * sizeof(struct op);
	struct recording *rec =
	    mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (rec == MAP_FAILED)
		abort();
	rec->room = room;
	return rec;
}

void recording_free(struct recording *rec)
{
	munmap(rec, sizeof(*rec) + rec->room * sizeof(struct op));
}

void recording_script(const struct recording *rec, struct script *s)
{
	for (size_t i = 0; i < rec->n; i++)
		script_add(s, &rec->ops[i]);
}

bool trial_end(const struct trial *trial, struct failure *f)
{
	bool told = read(trial->fd, f, sizeof(*f)) == sizeof(*f);
	int status;

	close(trial->fd);
	while (waitpid(trial->pid, &status, 0) < 0)
		if (errno != EINTR)
			abort();
	model_pool_dir_remove(trial->dir);
	if (told)
		return false;
	f->at = SIZE_MAX;
	if (WIFSIGNALED(status))
		snprintf(f->why, sizeof(f->why), "ended by signal %d", WTERMSIG(status));
	else
		snprintf(f->why, sizeof(f->why), "exit status %d", WEXITSTATUS(status));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- shrinking ---- */

struct shrinking {
	enum lie (*lie)(const struct op *op);
	unsigned trials;  /* left */
	unsigned repeats; /* of each script */
	struct failure *f;
};

static bool fails(struct shrinking *g, const struct script *s)
{
	struct failure f;

	for (unsigned i = 0; i < g->repeats && g->trials; i++) {
		struct trial trial = trial_start(s, g->lie, true);

		g->trials--;
		if (!trial_end(&trial, &f)) {
			*g->f = f;
			return true;
		}
	}
	return false;
}

/* Whether it may also pass. */
static bool is_unsteady(struct shrinking *g, const struct script *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->ops[i].thread)
			return true;
	for (unsigned i = 0; i < 3; i++)
		if (!fails(g, s))
			return true;
	return false;
}

/* Takes [from, to) out, if it fails without. */
static bool cut(struct shrinking *g, struct script *s, size_t from, size_t to)
{
	struct script rest = {0};
	bool shorter;

	for (size_t i = 0; i < s->n; i++)
		if (i < from || i >= to)
			script_add(&rest, &s->ops[i]);
	shorter = fails(g, &rest);
	if (shorter) {
		script_free(s);
		*s = rest;
	} else {
		script_free(&rest);
	}
	return shorter;
}

/* Larger pieces first; the last operations first, for the first ones make what they need. */
static void cut_pieces(struct shrinking *g, struct script *s)
{
	size_t piece = s->n / 2;
	bool any = false;

	while (piece && g->trials) {
		any = false;
		for (size_t end = s->n; end > 1 && g->trials;) {
			size_t from = end > piece + 1 ? end - piece : 1; /* the pool stays */

			any |= cut(g, s, from, end);
			end = from;
		}
		if (piece == 1 && !any)
			break;
		piece = piece == 1 ? 1 : piece / 2;
	}
}

static void lower_byte(struct shrinking *g, const struct script *s, uint8_t *byte)
{
	uint8_t old = *byte;

	*byte = 0;
	if (old && !fails(g, s))
		*byte = old;
}

static void lower_number(struct shrinking *g, const struct script *s, uint64_t *number)
{
	uint64_t old = *number;

	*number = 0;
	if (!old || fails(g, s))
		return;
	*number = old / 2;
	if (!fails(g, s))
		*number = old;
}

/* Handles, names and users become 0; other numbers 0, or half; threads the first. */
static void lower(struct shrinking *g, struct script *s)
{
	for (size_t i = 1; i < s->n && g->trials; i++) {
		struct op *op = &s->ops[i];

		lower_byte(g, s, &op->thread);
		lower_byte(g, s, &op->user);
		lower_byte(g, s, &op->h);
		lower_byte(g, s, &op->h2);
		lower_byte(g, s, &op->name);
		lower_byte(g, s, &op->name2);
		lower_number(g, s, &op->a);
		lower_number(g, s, &op->b);
		lower_number(g, s, &op->c);
	}
}

void model_shrink(struct script *s, enum lie (*lie)(const struct op *op), unsigned trials,
		  struct failure *f)
{
	struct shrinking g = {.lie = lie, .trials = trials, .repeats = 1, .f = f};
	struct failure first = *f;

	if (is_unsteady(&g, s))
		g.repeats = REPEATS;
	*f = first;

	/* Nothing after the operation that failed; with threads, after its section. */
	if (f->at < s->n) {
		struct op op = s->ops[f->at];
		size_t end = f->at + 1;

		while (op.thread && end < s->n && s->ops[end].thread)
			end++;
		s->n = end;
	}
	cut_pieces(&g, s);
	lower(&g, s);
	cut_pieces(&g, s);
	/* Why the script as it is now fails. */
	g.trials += REPEATS;
	if (!fails(&g, s))
		*f = first;
}
