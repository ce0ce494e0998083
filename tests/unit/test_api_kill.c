// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * A process with an imported pool is killed at any moment, again and again. After each time the
 * pool must check clean in its last three states, be accepted by the same host without force,
 * and hold everything that had been answered as durable.
 *
 * A child works with many threads and tells the parent through a pipe what it begins and what was
 * acknowledged. Every object the threads work on belongs to one of them; the parent keeps the
 * states it may have: the last acknowledged one and all that were begun after it.
 */
#include "pool_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	THREADS = 6,
	SLOTS = 8, /* files of a thread */
	UNIT = 1000,
	UNITS = 300, /* of a file: more than two records */
	DATASETS = 2 /* threads that work on a dataset each */
};

/* ---- the model ---- */

enum op_kind {
	OP_CREATE,
	OP_OTHER, /* an empty file under the other name */
	OP_RENAME,
	OP_UNLINK,
	OP_WRITE,
	OP_PUNCH,
	OP_RESIZE,
	OP_MODE,
	OP_XATTR,
	OP_ACK, /* all that was begun on this slot is durable; data only if first is 1 */
};

struct message {
	uint8_t thread, slot, kind;
	uint16_t first, count; /* units */
	uint32_t stamp;        /* what is written; mode */
};

struct state {
	bool exists, alt, other; /* under the second name; an empty file under the other one */
	uint16_t units;
	uint32_t mode, xattr;
	uint32_t stamp[UNITS]; /* 0: zeros */
};

/* Data that is not synced may be lost beside a later change of something else: so names and
   attributes are as in one state, data as in the same or an earlier one. */
struct slot {
	struct state *states; /* of states[0] the data is acknowledged, */
	size_t named;         /* of this one names and attributes */
	size_t count, room;
};

struct world {
	struct fixture f;
	uint64_t random;
	uint32_t round;
	struct slot slots[THREADS + DATASETS][SLOTS];
};

static void apply(struct state *st, const struct message *m)
{
	switch (m->kind) {
	case OP_CREATE:
		*st = (struct state){.exists = true, .alt = st->alt, .mode = 0600};
		break;
	case OP_OTHER:
		st->other = true;
		break;
	case OP_RENAME:
		st->alt = !st->alt;
		st->other = false;
		break;
	case OP_UNLINK:
		st->exists = false;
		break;
	case OP_WRITE:
	case OP_PUNCH:
		for (unsigned i = m->first; i < (unsigned)m->first + m->count; i++)
			if (m->kind == OP_WRITE || i < st->units)
				st->stamp[i] = m->kind == OP_WRITE ? m->stamp : 0;
		if (m->kind == OP_WRITE && st->units < m->first + m->count)
			st->units = m->first + m->count;
		break;
	case OP_RESIZE:
		for (unsigned i = m->count; i < UNITS; i++)
			st->stamp[i] = 0;
		st->units = m->count;
		break;
	case OP_MODE:
		st->mode = m->stamp & 0777;
		break;
	case OP_XATTR:
		st->xattr = m->stamp;
		break;
	}
}

static void keep_from(struct slot *s, size_t from)
{
	s->count -= from;
	s->named = 0;
	memmove(s->states, s->states + from, s->count * sizeof(*s->states));
}

static void model_take(struct world *w, const struct message *m)
{
	struct slot *s = &w->slots[m->thread][m->slot];

	if (m->kind == OP_ACK) {
		if (m->first)
			keep_from(s, s->count - 1);
		else
			s->named = s->count - 1;
		return;
	}
	if (s->count == s->room) {
		s->room = s->room ? 2 * s->room : 4;
		s->states = realloc(s->states, s->room * sizeof(*s->states));
		assert_non_null(s->states);
	}
	s->states[s->count] = s->count ? s->states[s->count - 1] : (struct state){0};
	apply(&s->states[s->count++], m);
}

static void fill_unit(uint32_t stamp, unsigned unit, uint8_t out[UNIT])
{
	uint64_t x = ((uint64_t)stamp << 16 | unit) * 0x9E3779B97F4A7C15ull | 1;

	memset(out, 0, UNIT);
	for (unsigned i = 0; stamp && i < UNIT; i += 8) {
		uint64_t v = test_random(&x);

		memcpy(out + i, &v, 8);
	}
}

static void file_name(unsigned thread, unsigned slot, bool alt, char out[32])
{
	snprintf(out, 32, "%c%u.%u", alt ? 'b' : 'a', thread, slot);
}

static void dataset_name(unsigned thread, bool alt, char out[64])
{
	snprintf(out, 64, FIXTURE_POOL "/%c%u", alt ? 'e' : 'd', thread);
}

/* ---- the child ---- */

struct worker {
	struct world *w;
	unsigned thread;
	int pipe;
	uint64_t random;
	uint32_t stamp;
	struct tarn_inode *root;
};

static void child_must(int rc, const char *what)
{
	if (rc) {
		fprintf(stderr, "child: %s: %s\n", what, strerror(-rc));
		_exit(1);
	}
}

static void tell(struct worker *k, const struct message *m)
{
	if (write(k->pipe, m, sizeof(*m)) != (ssize_t)sizeof(*m))
		_exit(1);
}

static unsigned dice(struct worker *k, unsigned sides)
{
	return (unsigned)(test_random(&k->random) >> 33) % sides;
}

static struct tarn_inode *child_lookup(struct worker *k, unsigned slot, bool alt)
{
	struct tarn_inode *inode;
	char name[32];

	file_name(k->thread, slot, alt, name);
	child_must(tarn_lookup(NULL, k->root, name, &inode), "lookup");
	return inode;
}

static bool do_data(struct worker *k, struct tarn_inode *inode, const struct message *m,
		    struct tarn_commit *token)
{
	static __thread uint8_t data[UNITS][UNIT];
	bool stable = dice(k, 3) == 0;

	if (m->kind == OP_PUNCH) {
		child_must(tarn_punch(NULL, inode, (uint64_t)m->first * UNIT,
				      (uint64_t)m->count * UNIT, token),
			   "punch");
		return false;
	}
	for (unsigned i = 0; i < m->count; i++)
		fill_unit(m->stamp, m->first + i, data[i]);
	child_must(
	    fixture_write(inode, (uint64_t)m->first * UNIT, data, (size_t)m->count * UNIT, stable),
	    "write");
	if (!stable && dice(k, 3) == 0) {
		child_must(fixture_fsync(inode), "fsync");
		stable = true;
	}
	return stable;
}

static void do_name(struct worker *k, const struct state *st, const struct message *m,
		    struct tarn_commit *token)
{
	struct tarn_create how = {.type = TARN_REG, .set = {.mask = TARN_SET_MODE, .mode = 0600}};
	char name[32], other[32];
	struct tarn_inode *inode;

	file_name(k->thread, m->slot, st->alt, name);
	file_name(k->thread, m->slot, !st->alt, other);
	switch (m->kind) {
	case OP_CREATE:
	case OP_OTHER:
		child_must(tarn_create(NULL, k->root, m->kind == OP_CREATE ? name : other, &how,
				       &inode, NULL, NULL, token),
			   "create");
		tarn_inode_put(inode);
		break;
	case OP_RENAME:
		child_must(tarn_rename(NULL, k->root, name, k->root, other, NULL, NULL, token),
			   "rename");
		break;
	case OP_UNLINK:
		child_must(tarn_unlink(NULL, k->root, name, 0, NULL, token), "unlink");
		break;
	}
}

/* Whether it was waited for. */
static bool do_op(struct worker *k, const struct state *st, const struct message *m,
		  struct tarn_commit *token)
{
	struct tarn_setattr set = {0};
	struct tarn_inode *inode;
	bool durable = false;

	if (m->kind <= OP_UNLINK) {
		do_name(k, st, m, token);
		return false;
	}
	inode = child_lookup(k, m->slot, st->alt);
	if (m->kind == OP_WRITE || m->kind == OP_PUNCH)
		durable = do_data(k, inode, m, token);
	else if (m->kind == OP_XATTR)
		child_must(tarn_xattr_set(NULL, inode, "stamp", &m->stamp, sizeof(m->stamp),
					  TARN_XATTR_ANY, token),
			   "xattr");
	else {
		set.mask = m->kind == OP_MODE ? TARN_SET_MODE : TARN_SET_SIZE;
		set.mode = m->stamp & 0777;
		set.size = (uint64_t)m->count * UNIT;
		child_must(tarn_setattr(NULL, inode, &set, NULL, token), "setattr");
	}
	tarn_inode_put(inode);
	return durable;
}

/* A punch is done record by record. Units 131 and 262 lie in two records each. */
static void keep_in_record(struct message *m)
{
	enum { STRADDLER = 131 };

	m->first += m->first % STRADDLER == 0;
	if (m->first % STRADDLER + m->count > STRADDLER)
		m->count = (uint16_t)(STRADDLER - m->first % STRADDLER);
}

static void choose(struct worker *k, const struct state *st, struct message *m)
{
	static const uint8_t kinds[] = {OP_WRITE, OP_WRITE,  OP_WRITE,  OP_WRITE,
					OP_PUNCH, OP_RESIZE, OP_RENAME, OP_OTHER,
					OP_MODE,  OP_XATTR,  OP_UNLINK};

	do {
		m->kind = st->exists ? kinds[dice(k, sizeof(kinds))] : OP_CREATE;
	} while (st->other && (m->kind == OP_OTHER || m->kind == OP_UNLINK));
	m->stamp = k->stamp++;
	m->first = (uint16_t)dice(k, UNITS);
	m->count = (uint16_t)(1 + dice(k, dice(k, 2) ? 8 : UNITS));
	if (m->kind == OP_PUNCH)
		keep_in_record(m);
	if (m->kind != OP_RESIZE && m->first + m->count > UNITS)
		m->count = (uint16_t)(UNITS - m->first);
}

static void *file_thread(void *arg)
{
	struct worker *k = arg;

	for (;;) {
		struct message m = {.thread = (uint8_t)k->thread, .slot = (uint8_t)dice(k, SLOTS)};
		struct slot *s = &k->w->slots[k->thread][m.slot];
		struct state *st = &s->states[s->count - 1]; /* the child's own copy */
		struct tarn_commit token = {0};
		bool durable;

		choose(k, st, &m);
		tell(k, &m);
		durable = do_op(k, st, &m, &token);
		apply(st, &m);
		if (!durable && token.txg && dice(k, 4) == 0) {
			child_must(tarn_commit_wait(k->w->f.ds, token), "commit");
			durable = true;
		}
		m.first = m.kind == OP_WRITE || m.kind == OP_PUNCH;
		m.kind = OP_ACK;
		if (durable)
			tell(k, &m);
	}
	return NULL;
}

/* Administrative calls are durable when they return. */
static void *dataset_thread(void *arg)
{
	struct worker *k = arg;
	struct tarn_engine *engine = k->w->f.engine;
	struct slot *s = &k->w->slots[k->thread][0];
	struct state *st = &s->states[s->count - 1];

	for (;;) {
		static const uint8_t kinds[] = {OP_XATTR, OP_RENAME, OP_UNLINK};
		struct message m = {.thread = (uint8_t)k->thread, .stamp = k->stamp++};
		char name[64], other[64], value[16];
		struct tarn_prop prop = {"comment", value};
		struct tarn_error err;

		m.kind = st->exists ? kinds[dice(k, 3)] : OP_CREATE;
		dataset_name(k->thread, st->alt, name);
		dataset_name(k->thread, !st->alt, other);
		snprintf(value, sizeof(value), "%u", m.stamp);
		tell(k, &m);
		if (m.kind == OP_CREATE)
			child_must(tarn_dataset_create(engine, name, NULL, 0, false, &err),
				   "dataset create");
		else if (m.kind == OP_RENAME)
			child_must(tarn_dataset_rename(engine, name, other, &err),
				   "dataset rename");
		else if (m.kind == OP_UNLINK)
			child_must(tarn_dataset_destroy(engine, name, true, 0, &err),
				   "dataset destroy");
		else
			child_must(tarn_dataset_set(engine, name, &prop, 1, &err), "dataset set");
		apply(st, &m);
		m.kind = OP_ACK;
		m.first = 1;
		tell(k, &m);
	}
	return NULL;
}

static void litter(struct worker *k, struct tarn_inode *dir)
{
	static __thread uint8_t data[1 << 20];
	struct tarn_create how = {.type = TARN_REG};
	struct tarn_commit token;
	struct tarn_inode *inode;
	char name[260];

	for (unsigned i = 0; i < 120; i++) {
		snprintf(name, sizeof(name), "%0*u", 1 + (int)dice(k, 250), i);
		if (tarn_create(NULL, dir, name, &how, &inode, NULL, NULL, &token))
			continue;
		if (dice(k, 10) == 0)
			child_must(fixture_write(inode, (uint64_t)dice(k, 4) << 21, data,
						 1 + dice(k, sizeof(data)), false),
				   "litter");
		if (dice(k, 10) == 0)
			tarn_open(inode); /* removed while open: removed by the next import */
		if (dice(k, 4) == 0)
			tarn_link(NULL, inode, k->root, "linked", NULL, NULL, &token);
		tarn_inode_put(inode);
		if (dice(k, 4) == 0)
			tarn_unlink(NULL, k->root, "linked", 0, NULL, &token);
	}
}

struct sweep {
	struct tarn_inode *dir;
};

static bool sweep_one(void *arg, const struct tarn_dirent *entry)
{
	struct sweep *sweep = arg;
	struct tarn_commit token;

	tarn_unlink(NULL, sweep->dir, entry->name, -1, NULL, &token);
	return true;
}

/* Directories come and go with what is in them: only the check looks at this. */
static void *litter_thread(void *arg)
{
	struct worker *k = arg;
	struct tarn_create how = {.type = TARN_DIR, .set = {.mask = TARN_SET_MODE, .mode = 0755}};

	for (unsigned n = 0;; n = (n + 1) % 4) {
		struct tarn_commit token;
		struct sweep sweep;
		char name[32];
		bool eof;

		snprintf(name, sizeof(name), "litter%u", n);
		if (tarn_lookup(NULL, k->root, name, &sweep.dir)) {
			child_must(
			    tarn_create(NULL, k->root, name, &how, &sweep.dir, NULL, NULL, &token),
			    "mkdir");
			litter(k, sweep.dir);
		} else {
			tarn_readdir(sweep.dir, 0, sweep_one, &sweep, &eof);
			tarn_unlink(NULL, k->root, name, 1, NULL, &token);
		}
		tarn_inode_put(sweep.dir);
	}
	return NULL;
}

static int import_pool(struct fixture *f)
{
	struct tarn_import_spec spec = {
	    .name = FIXTURE_POOL, .paths = f->paths, .npaths = f->ndevs};
	struct tarn_error err = {0};
	int rc = tarn_engine_create(&f->config, &f->engine);

	rc = rc ? rc : tarn_pool_import(f->engine, &spec, &err);
	rc = rc ? rc : tarn_dataset_open(f->engine, FIXTURE_POOL, NULL, &f->ds);
	if (rc)
		print_error("import: %s\n", err.text);
	return rc;
}

static _Noreturn void child_run(struct world *w, int pipe, uint64_t seed)
{
	static struct worker workers[THREADS + DATASETS + 1];
	struct tarn_inode *root;
	pthread_t id;

	signal(SIGSEGV, SIG_DFL); /* cmocka's handlers are for its own process */
	signal(SIGBUS, SIG_DFL);
	child_must(import_pool(&w->f), "import");
	child_must(tarn_root(w->f.ds, &root), "root");
	for (unsigned i = 0; i <= THREADS + DATASETS; i++) {
		workers[i] = (struct worker){.w = w,
					     .thread = i,
					     .pipe = pipe,
					     .random = seed + i * 77777 + 1,
					     .stamp = w->round << 12 | 1,
					     .root = root};
		pthread_create(&id, NULL,
			       i < THREADS              ? file_thread
			       : i < THREADS + DATASETS ? dataset_thread
							: litter_thread,
			       &workers[i]);
	}
	for (;;)
		pause();
}

/* ---- the parent ---- */

static void print_finding(void *arg, const struct tarn_finding *finding)
{
	(void)arg;
	print_error("tarnck: %s\n", finding->text);
}

static void check_pool(struct world *w)
{
	struct tarn_check_spec spec = {.name = FIXTURE_POOL,
				       .paths = w->f.paths,
				       .npaths = w->f.ndevs,
				       .uberblocks = TARN_CHECK_STATES,
				       .finding = print_finding};
	struct tarn_check_result result;
	struct tarn_error err = {0};

	int rc;

	/* The kernel may still be busy with requests of the dead. */
	while ((rc = tarn_check(&spec, &result, &err)) == -EBUSY)
		sched_yield();
	if (rc)
		fail_msg("tarnck: %s", err.text);
	assert_int_equal(result.findings, 0);
}

static bool data_is(const uint8_t *data, const struct state *st)
{
	static uint8_t want[UNIT];

	for (unsigned i = 0; i < st->units; i++) {
		fill_unit(st->stamp[i], i, want);
		if (memcmp(want, data + (size_t)i * UNIT, UNIT) != 0)
			return false;
	}
	return true;
}

/* In state n, but for data: *data_of tells whose. */
static bool file_is(struct tarn_inode *root, unsigned thread, unsigned slot, const struct slot *s,
		    size_t n, size_t *data_of)
{
	static uint8_t data[UNITS * UNIT];
	const struct state *st = &s->states[n];
	struct tarn_inode *inode, *other;
	struct tarn_attr attr;
	size_t got = sizeof(uint32_t);
	uint32_t xattr = 0;
	char name[32];
	bool eof, same;
	int rc;

	file_name(thread, slot, !st->alt, name);
	rc = tarn_lookup(NULL, root, name, &other);
	if (rc != 0 && rc != -ENOENT)
		fail_msg("%s: %s", name, strerror(-rc));
	if (rc == 0)
		tarn_inode_put(other);
	if ((rc == 0) != st->other)
		return false;
	file_name(thread, slot, st->alt, name);
	rc = tarn_lookup(NULL, root, name, &inode);
	if (rc != 0 && rc != -ENOENT)
		fail_msg("%s: %s", name, strerror(-rc));
	if (rc || !st->exists) {
		if (rc == 0)
			tarn_inode_put(inode);
		return rc == -ENOENT && !st->exists;
	}
	assert_int_equal(tarn_getattr(inode, &attr), 0);
	rc = tarn_xattr_get(inode, "stamp", &xattr, &got);
	assert_true(rc == 0 || rc == -ENODATA);
	same = attr.mode == st->mode && xattr == st->xattr && attr.nlink == 1;
	assert_int_equal(fixture_read(inode, 0, data, sizeof(data), &got, &eof), 0);
	assert_int_equal(got, attr.size);
	tarn_inode_put(inode);
	for (*data_of = n + 1; same && (*data_of)-- > 0;)
		if (got == (uint64_t)s->states[*data_of].units * UNIT &&
		    data_is(data, &s->states[*data_of]))
			return true;
	return false;
}

static int take_value(void *arg, const char *name, const char *value, enum tarn_prop_source source,
		      const char *from)
{
	(void)name;
	(void)from;
	*(uint32_t *)arg = source == TARN_PROP_LOCAL ? (uint32_t)strtoul(value, NULL, 10) : 0;
	return 0;
}

static bool dataset_is(struct world *w, unsigned thread, const struct state *st)
{
	struct tarn_dataset *ds;
	struct tarn_error err;
	uint32_t comment;
	char name[64];
	int rc;

	dataset_name(thread, !st->alt, name);
	if (tarn_dataset_open(w->f.engine, name, NULL, &ds) == 0) {
		tarn_dataset_put(ds);
		return false;
	}
	dataset_name(thread, st->alt, name);
	rc = tarn_dataset_open(w->f.engine, name, NULL, &ds);
	if (rc)
		return rc == -ENOENT && !st->exists;
	tarn_dataset_put(ds);
	if (!st->exists)
		return false;
	assert_int_equal(
	    tarn_dataset_get(w->f.engine, name, "comment", true, take_value, &comment, &err), 0);
	return comment == st->xattr;
}

/* What is there, and which of the possible states it resembles. */
static void explain(struct tarn_inode *root, unsigned thread, unsigned slot, const struct slot *s)
{
	static uint8_t data[UNITS * UNIT], want[UNIT];

	for (size_t i = 0; i < s->count; i++)
		print_error("possible: exists %d, alt %d, other %d, units %u, mode %o, xattr %x\n",
			    s->states[i].exists, s->states[i].alt, s->states[i].other,
			    s->states[i].units, s->states[i].mode, s->states[i].xattr);
	for (int alt = 0; alt < 2; alt++) {
		struct tarn_inode *inode;
		struct tarn_attr attr;
		uint32_t xattr = 0;
		size_t got = sizeof(xattr);
		char name[32];
		bool eof;

		file_name(thread, slot, alt, name);
		if (tarn_lookup(NULL, root, name, &inode))
			continue;
		tarn_xattr_get(inode, "stamp", &xattr, &got);
		tarn_getattr(inode, &attr);
		print_error("found: alt %d, size %u, mode %o, xattr %x\n", alt, (unsigned)attr.size,
			    attr.mode, xattr);
		fixture_read(inode, 0, data, sizeof(data), &got, &eof);
		for (size_t i = 0; i < s->count; i++) {
			unsigned n = 0;

			for (unsigned u = 0; u < got / UNIT; u++) {
				fill_unit(s->states[i].stamp[u], u, want);
				n += memcmp(want, data + (size_t)u * UNIT, UNIT) != 0;
			}
			print_error("%u units differ from state %zu\n", n, i);
		}
		tarn_inode_put(inode);
	}
}

static void verify_slot(struct world *w, struct tarn_inode *root, unsigned thread, unsigned slot)
{
	struct slot *s = &w->slots[thread][slot];

	for (size_t i = s->count; i-- > s->named;) {
		size_t data_of = i;
		bool is = root ? file_is(root, thread, slot, s, i, &data_of)
			       : dataset_is(w, thread, &s->states[i]);

		if (is) {
			s->states[i].units = s->states[data_of].units;
			memcpy(s->states[i].stamp, s->states[data_of].stamp,
			       sizeof(s->states[i].stamp));
			keep_from(s, i);
			s->count = 1;
			return;
		}
	}
	if (root)
		explain(root, thread, slot, s);
	fail_msg("thread %u, slot %u: not as acknowledged, nor as after any of %zu later "
		 "operations",
		 thread, slot, s->count - 1);
}

static void verify(struct world *w)
{
	struct tarn_inode *root;

	assert_int_equal(import_pool(&w->f), 0);
	assert_int_equal(tarn_root(w->f.ds, &root), 0);
	for (unsigned t = 0; t < THREADS; t++)
		for (unsigned s = 0; s < SLOTS; s++)
			verify_slot(w, root, t, s);
	for (unsigned t = THREADS; t < THREADS + DATASETS; t++)
		verify_slot(w, NULL, t, 0);
	tarn_inode_put(root);
	tarn_dataset_put(w->f.ds);
	tarn_engine_destroy(w->f.engine);
}

static unsigned parent_dice(struct world *w, unsigned sides)
{
	return (unsigned)(test_random(&w->random) >> 33) % sides;
}

/* Lets a child work until it has told `messages` things, and kills it. 0: it is killed while it
   imports, or shortly after. */
static void run_and_kill(struct world *w, unsigned messages)
{
	struct timespec pause = {0, (long)parent_dice(w, 40) * 1000000};
	uint64_t seed = test_random(&w->random);
	struct message m;
	int fds[2], status;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(fds[0]);
		child_run(w, fds[1], seed);
	}
	close(fds[1]);
	if (!messages)
		nanosleep(&pause, NULL);
	for (unsigned n = 0; n < messages && read(fds[0], &m, sizeof(m)) == sizeof(m); n++)
		model_take(w, &m);
	kill(pid, SIGKILL);
	while (read(fds[0], &m, sizeof(m)) == sizeof(m))
		model_take(w, &m);
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, SIGKILL);
}

static void kill_rounds(uint32_t ndevs, bool mirror)
{
	struct tarn_config config = {
	    .arc_max = 16 << 20, .dirty_max = 16 << 20, .threads = 2, .txg_seconds = 1};
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->random = test_seed();
	fixture_begin(&w->f, ndevs, 512ull << 20, mirror, &config);
	tarn_dataset_put(w->f.ds);
	tarn_engine_destroy(w->f.engine);
	for (unsigned t = 0; t < THREADS + DATASETS; t++)
		for (unsigned s = 0; s < SLOTS; s++) {
			struct message none = {
			    .thread = (uint8_t)t, .slot = (uint8_t)s, .kind = OP_UNLINK};

			model_take(w, &none);
		}
	for (w->round = 1; w->round <= 6 * test_scale(); w->round++) {
		run_and_kill(w, parent_dice(w, 5) ? 1 + parent_dice(w, 1500) : 0);
		check_pool(w);
		verify(w);
	}
	assert_int_equal(import_pool(&w->f), 0);
	fixture_end(&w->f);
	for (unsigned t = 0; t < THREADS + DATASETS; t++)
		for (unsigned s = 0; s < SLOTS; s++)
			free(w->slots[t][s].states);
	free(w);
}

static void test_stripe(void **state)
{
	(void)state;
	kill_rounds(2, false);
}

static void test_mirror(void **state)
{
	(void)state;
	kill_rounds(2, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_stripe),
	    cmocka_unit_test(test_mirror),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
