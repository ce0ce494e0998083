// SPDX-License-Identifier: LGPL-3.0-or-later
#include "model_run.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 3, SECTION_MAX = 24, MODELS_MAX = 1000 };

struct models {
	struct model **m;
	size_t n, room;
};

struct run {
	struct engine_side engine;
	struct models models;
	struct source *source;
	struct op ahead; /* taken from the source, not done yet */
	bool has_ahead;
	size_t at; /* the index of ahead */
	bool
	    lost; /* too many orders explain a section for all models to be kept: the script ends */
	struct failure *failure;
};

static void models_add(struct models *ms, struct model *m)
{
	if (ms->n == ms->room) {
		ms->room = ms->room ? 2 * ms->room : 16;
		ms->m = realloc(ms->m, ms->room * sizeof(*ms->m));
		if (!ms->m)
			abort();
	}
	ms->m[ms->n++] = m;
}

static void models_clear(struct models *ms)
{
	for (size_t i = 0; i < ms->n; i++)
		model_free(ms->m[i]);
	free(ms->m);
	*ms = (struct models){0};
}

__attribute__((format(printf, 2, 3))) static bool fail(struct run *r, const char *format, ...)
{
	char *why = r->failure->why, last[256];
	size_t room = sizeof(r->failure->why), len;
	va_list args;

	va_start(args, format);
	vsnprintf(why, room, format, args);
	va_end(args);
	len = strlen(why);
	model_pool_last_error(last, sizeof(last));
	if (last[0])
		snprintf(why + len, room - len, " (last error logged: %s)", last);
	r->failure->at = r->at;
	return false;
}

static bool pool_ok(struct run *r, int rc)
{
	return rc == 0 || fail(r, "%s", r->engine.pool.error);
}

/* ---- one operation ---- */

static bool step_all(struct run *r, const struct op *op, const struct outcome *seen)
{
	struct models left = {0};
	const char *why = "";

	for (size_t i = 0; i < r->models.n; i++) {
		const char *wrong = model_step(r->models.m[i], op, seen);

		if (wrong) {
			why = wrong;
			model_free(r->models.m[i]);
		} else {
			models_add(&left, r->models.m[i]);
		}
	}
	free(r->models.m);
	r->models = left;
	return left.n > 0 || fail(r, "%s", why);
}

static bool do_one(struct run *r, const struct op *op)
{
	struct outcome seen;
	bool ok;

	if (model_skips(r->models.m[0], op))
		return true;
	engine_do(&r->engine, op, &seen);
	ok = step_all(r, op, &seen);
	outcome_free(&seen);
	return ok;
}

/* ---- everything ---- */

static const struct node *node_of(const struct run *r, unsigned h)
{
	const struct model *m = r->models.m[0];

	return m->handle[h].node < 0 ? NULL : &m->node[m->handle[h].node];
}

static bool audit_node(struct run *r, unsigned h)
{
	static const uint8_t kinds[] = {OP_GETATTR, OP_READDIR, OP_READLINK, OP_READ,
					OP_XLIST,   OP_GETACL,  OP_GETATTR};
	bool ok = true;

	for (size_t i = 0; i < sizeof(kinds) && ok; i++) {
		struct op op = {.kind = kinds[i], .h = (uint8_t)h, .a = 7, .to = NO_HANDLE};

		if (op.kind == OP_READ) {
			op.a = 0;
			op.b = node_of(r, h)->size + 1;
		}
		ok = do_one(r, &op);
	}
	for (uint8_t x = 0; x < XATTRS && ok; x++) {
		struct op op = {.kind = OP_XGET, .h = (uint8_t)h, .name = x, .a = TARN_XATTR_MAX};

		ok = do_one(r, &op);
	}
	return ok;
}

/* The tree below a handle, as far as there are handles. */
static bool audit_tree(struct run *r, unsigned h)
{
	struct op drop = {.kind = OP_DROP, .h = (uint8_t)(h + 1)};
	bool ok = audit_node(r, h);

	for (uint8_t name = 0; ok && name < NAMES && h + 1 < ALL_HANDLES; name++) {
		struct op op = {.kind = OP_LOOKUP, .h = (uint8_t)h, .name = name};

		if (node_of(r, h)->type != TARN_DIR)
			break;
		op.to = drop.h;
		ok = do_one(r, &op);
		if (ok && node_of(r, h + 1))
			ok = audit_tree(r, h + 1) && do_one(r, &drop);
	}
	return ok;
}

static bool audit(struct run *r)
{
	struct op root = {.kind = OP_DROOT, .to = MODEL_HANDLES};
	struct op drop = {.kind = OP_DROP, .h = MODEL_HANDLES};

	return do_one(r, &root) && audit_tree(r, MODEL_HANDLES) && do_one(r, &drop);
}

/* ---- the pool goes and comes ---- */

/* By number, generation and dataset, as a handle of NFS. */
static bool bind_node(struct run *r, unsigned h, const struct node *n)
{
	char path[TARN_PATH_MAX];
	struct tarn_dataset *ds;
	int rc;

	model_dataset_path(r->models.m[0], n->dataset, path);
	rc = tarn_dataset_open(r->engine.pool.engine, path, NULL, &ds);
	if (!rc) {
		rc = engine_bind(&r->engine, h, ds, n->ino, n->gen);
		tarn_dataset_put(ds);
	}
	return !rc ||
	       fail(r, "inode %llu of %s: %s", (unsigned long long)n->ino, path, strerror(-rc));
}

/* Handles after an import: the inodes that are there still. */
static bool bind_again(struct run *r, bool read_only, bool was_cut)
{
	for (size_t i = 0; i < r->models.n; i++)
		model_remounted(r->models.m[i], read_only, was_cut);
	for (unsigned h = 0; h < MODEL_HANDLES; h++) {
		const struct node *n = node_of(r, h);
		struct op drop = {.kind = OP_DROP, .h = (uint8_t)h};
		bool there = n && !n->gone && n->nlink && n->ino;

		if (there && !bind_node(r, h, n))
			return false;
		if (n && !there && !do_one(r, &drop))
			return false;
	}
	return true;
}

/* What was acknowledged becomes durable: each file by its own fsync, the rest by the last token. */
static bool make_durable(struct run *r)
{
	const struct model *m = r->models.m[0];
	struct op wait = {.kind = OP_WAIT};
	bool ok = do_one(r, &wait);

	for (int i = 0; i < m->nodes && ok; i++) {
		const struct node *n = &m->node[i];
		int rc;

		if (!n->used || n->gone || !n->nlink || n->type != TARN_REG)
			continue;
		ok = bind_node(r, ALL_HANDLES - 1, n);
		rc = ok ? engine_fsync(&r->engine, ALL_HANDLES - 1) : 0;
		if (rc)
			ok = fail(r, "fsync: %s", strerror(-rc));
	}
	return ok;
}

static bool repair(struct run *r)
{
	for (size_t i = 0; i < r->models.n; i++)
		r->models.m[i]->failing = false;
	return pool_ok(r, model_pool_repair(&r->engine.pool));
}

static bool come_back(struct run *r, uint64_t way, bool was_cut)
{
	struct model_pool *p = &r->engine.pool;

	return pool_ok(r, model_pool_check(p)) &&
	       pool_ok(r, model_pool_import(p, (unsigned)(way % MOUNT_WAYS))) &&
	       bind_again(r, way % MOUNT_WAYS == MOUNT_READ_ONLY, was_cut) && audit(r);
}

static bool remount(struct run *r, const struct op *op)
{
	if (!r->engine.pool.mirror && !repair(r))
		return false;
	if (!pool_ok(r, model_pool_export(&r->engine.pool)))
		return false;
	if (engine_let_go(&r->engine))
		return fail(r, "an inode of an exported pool answers");
	return come_back(r, op->a, false);
}

static bool crash(struct run *r, const struct op *op)
{
	if ((!r->engine.pool.mirror && !repair(r)) || !make_durable(r))
		return false;
	model_pool_cut(&r->engine.pool, op->a);
	engine_let_go(&r->engine);
	return pool_ok(r, model_pool_power_on(&r->engine.pool)) && come_back(r, op->b, true);
}

static bool fault(struct run *r, const struct op *op)
{
	/* With one copy of everything, what it had is lost: not more than an error of reading. */
	if (!r->engine.pool.mirror && op->a != FAULT_READ)
		return true;
	for (size_t i = 0; i < r->models.n; i++)
		r->models.m[i]->failing |= !r->engine.pool.mirror;
	model_pool_fault(&r->engine.pool, op);
	return true;
}

static bool space(struct run *r, const struct op *op)
{
	int rc;

	if (r->models.m[0]->read_only)
		return true;
	for (size_t i = 0; i < r->models.n; i++)
		r->models.m[i]->tight = true;
	rc = op->kind == OP_FILL ? engine_fill(&r->engine) : engine_drain(&r->engine);
	if (rc && rc != -EROFS && !(rc == -EIO && r->models.m[0]->failing))
		return fail(r, "%s", strerror(-rc));
	return true;
}

static bool start(struct run *r, const struct op *op)
{
	struct tarn_inode *root;
	int rc;

	if (!pool_ok(r, model_pool_create(&r->engine.pool, (unsigned)op->a, op->b, op->c)))
		return false;
	rc = engine_start(&r->engine);
	if (!rc)
		rc = tarn_root(r->engine.pool.ds, &root);
	if (rc)
		return fail(r, "root: %s", strerror(-rc));
	r->engine.handle[0] = root;
	models_add(&r->models, model_new(tarn_inode_number(root), tarn_inode_generation(root),
					 tarn_dataset_id(r->engine.pool.ds)));
	r->models.m[0]->dataset[0].local[PROP_RECORDSIZE] = -1;
	for (int v = 0; v < PROP_VALUES; v++)
		if (op->c == strtoull(prop_values[PROP_RECORDSIZE][v], NULL, 10))
			r->models.m[0]->dataset[0].local[PROP_RECORDSIZE] = (int8_t)v;
	r->models.m[0]->tight = op->b < 256;
	return true;
}

static bool do_alone(struct run *r, const struct op *op)
{
	switch (op->kind) {
	case OP_POOL:
		return fail(r, "a second pool");
	case OP_REMOUNT:
		return remount(r, op);
	case OP_CRASH:
		return crash(r, op);
	case OP_AUDIT:
		return audit(r);
	case OP_FILL:
	case OP_DRAIN:
		return space(r, op);
	case OP_FAULT:
		return fault(r, op);
	case OP_REPAIR:
		return repair(r);
	default:
		return do_one(r, op);
	}
}

/* ---- parallel sections ---- */

struct line {
	struct op op;
	struct outcome seen;
};

struct section {
	struct engine_side *engine;
	struct line lines[THREADS][SECTION_MAX];
	unsigned n[THREADS];
	bool torn; /* by a lie: other threads wait for the first half */
	_Atomic uint64_t clock;
	pthread_barrier_t start;
	pthread_mutex_t next; /* guards which thread comes next */
	unsigned thread;
};

static bool tears(const struct section *s, unsigned thread)
{
	for (unsigned i = 0; s->engine->lie && i < s->n[thread]; i++)
		if (s->engine->lie(&s->lines[thread][i].op) == LIE_TEAR)
			return true;
	return false;
}

static void *work(void *arg)
{
	struct section *s = arg;
	unsigned thread;
	bool torn;

	pthread_mutex_lock(&s->next);
	thread = s->thread++;
	pthread_mutex_unlock(&s->next);
	torn = tears(s, thread);
	if (!torn)
		atomic_fetch_add(&s->engine->busy, 1);
	pthread_barrier_wait(&s->start);
	while (s->torn && !torn && !atomic_load(&s->engine->halves))
		sched_yield();
	for (unsigned i = 0; i < s->n[thread]; i++) {
		struct line *l = &s->lines[thread][i];
		uint64_t invoked = atomic_fetch_add(&s->clock, 1);

		engine_do(s->engine, &l->op, &l->seen);
		l->seen.invoked = invoked;
		l->seen.answered = atomic_fetch_add(&s->clock, 1);
	}
	if (!torn)
		atomic_fetch_sub(&s->engine->busy, 1);
	return NULL;
}

static void run_threads(struct section *s)
{
	pthread_t id[THREADS];

	atomic_store(&s->engine->halves, 0);
	for (unsigned t = 0; t < THREADS; t++)
		s->torn |= tears(s, t);
	pthread_barrier_init(&s->start, NULL, THREADS);
	pthread_mutex_init(&s->next, NULL);
	for (unsigned t = 0; t < THREADS; t++)
		if (pthread_create(&id[t], NULL, work, s))
			abort();
	for (unsigned t = 0; t < THREADS; t++)
		pthread_join(id[t], NULL);
	pthread_mutex_destroy(&s->next);
	pthread_barrier_destroy(&s->start);
}

struct search {
	const struct section *s;
	struct models found;
	uint64_t *visited; /* hashes of models with what was done, a table with 0 as empty */
	size_t nvisited, room;
	char why[400]; /* of the longest order that explains something */
	unsigned longest;
};

/* Whether it is new. */
static bool visit(struct search *q, uint64_t key)
{
	size_t i;

	key += !key;
	if (2 * q->nvisited >= q->room) {
		uint64_t *old = q->visited;
		size_t n = q->room;

		q->room = n ? 2 * n : 256;
		q->visited = calloc(q->room, sizeof(*q->visited));
		if (!q->visited)
			abort();
		q->nvisited = 0;
		while (n--)
			if (old[n])
				visit(q, old[n]);
		free(old);
	}
	for (i = key % q->room; q->visited[i]; i = (i + 1) % q->room)
		if (q->visited[i] == key)
			return false;
	q->visited[i] = key;
	q->nvisited++;
	return true;
}

/* Whether thread t's next operation may come before those that the others have left. */
static bool may_be_next(const struct section *s, const unsigned done[THREADS], unsigned t)
{
	for (unsigned u = 0; u < THREADS; u++)
		if (u != t && done[u] < s->n[u] &&
		    s->lines[u][done[u]].seen.answered < s->lines[t][done[t]].seen.invoked)
			return false;
	return true;
}

/* Takes m over: a model after the first done[] operations of each thread. */
static void search(struct search *q, struct model *m, unsigned done[THREADS])
{
	const struct section *s = q->s;
	uint64_t key = model_hash(m);
	unsigned sum = 0;

	for (unsigned t = 0; t < THREADS; t++) {
		key = (key ^ (done[t] + 1)) * 0x9e3779b97f4a7c15;
		sum += done[t];
	}
	if (!visit(q, key) || q->found.n >= MODELS_MAX) {
		model_free(m);
		return;
	}
	if (sum == s->n[0] + s->n[1] + s->n[2]) {
		models_add(&q->found, m);
		return;
	}
	for (unsigned t = 0; t < THREADS; t++) {
		const struct line *l = &s->lines[t][done[t]];
		struct model *next;
		const char *why;

		if (done[t] == s->n[t] || !may_be_next(s, done, t))
			continue;
		next = model_copy(m);
		why = model_step(next, &l->op, &l->seen);
		if (why) {
			model_free(next);
			if (sum >= q->longest) {
				snprintf(q->why, sizeof(q->why), "thread %u: %s", t + 1, why);
				q->longest = sum;
			}
			continue;
		}
		done[t]++;
		search(q, next, done);
		done[t]--;
	}
	model_free(m);
}

static bool explain(struct run *r, const struct section *s)
{
	struct search q = {.s = s};

	for (size_t i = 0; i < r->models.n; i++) {
		unsigned done[THREADS] = {0};

		search(&q, r->models.m[i], done);
	}
	free(q.visited);
	free(r->models.m);
	r->models = q.found;
	return q.found.n > 0 ||
	       fail(r, "no order of these operations explains their answers (%s)", q.why);
}

static bool take(struct run *r)
{
	if (!r->has_ahead)
		r->has_ahead =
		    r->source->next(r->source, r->models.n ? r->models.m[0] : NULL, &r->ahead);
	return r->has_ahead;
}

static void done(struct run *r)
{
	r->has_ahead = false;
	r->at++;
}

static void collect(struct run *r, struct section *s)
{
	for (; take(r) && r->ahead.thread; done(r)) {
		const struct op *op = &r->ahead;
		unsigned t = op->thread - 1;

		if (s->n[t] < SECTION_MAX && op->kind < OP_POOL && op->kind != OP_OPEN &&
		    op->kind != OP_CLOSE && op->kind != OP_DROP && !model_skips(r->models.m[0], op))
			s->lines[t][s->n[t]++].op = *op;
	}
}

/* A look at everything, as long as several orders explain what was seen. */
static bool look_closer(struct run *r)
{
	bool ok = true;

	for (unsigned h = 0; ok && h < MODEL_HANDLES && r->models.n > 1; h++)
		if (node_of(r, h))
			ok = audit_node(r, h);
	return ok && (r->models.n == 1 || audit(r));
}

static bool do_section(struct run *r)
{
	struct section *s = calloc(1, sizeof(*s));
	bool ok;

	if (!s)
		abort();
	s->engine = &r->engine;
	collect(r, s);
	run_threads(s);
	ok = explain(r, s);
	r->lost = r->models.n == MODELS_MAX;
	for (size_t i = 0; i < r->models.n; i++)
		model_section_ended(r->models.m[i]);
	ok = r->lost || (ok && look_closer(r));
	for (unsigned t = 0; t < THREADS; t++)
		for (unsigned i = 0; i < s->n[t]; i++)
			outcome_free(&s->lines[t][i].seen);
	free(s);
	return ok;
}

/* ---- all ---- */

static bool end(struct run *r)
{
	struct op last = {.kind = OP_REMOUNT};

	return repair(r) && audit(r) && remount(r, &last);
}

static bool next_of_script(struct source *source, const struct model *m, struct op *op)
{
	struct script_source *s = (struct script_source *)source;

	(void)m;
	if (s->at == s->script->n)
		return false;
	*op = s->script->ops[s->at++];
	return true;
}

struct script_source script_source(const struct script *s)
{
	return (struct script_source){{next_of_script}, s, 0};
}

static bool run_all(struct run *r)
{
	static const struct op pool = {.kind = OP_POOL, .a = LAYOUT_MIRROR, .b = 512, .c = 131072};
	bool given = take(r) && r->ahead.kind == OP_POOL;
	bool ok = start(r, given ? &r->ahead : &pool);

	if (ok && given)
		done(r);
	while (ok && !r->lost && take(r)) {
		if (r->ahead.thread) {
			ok = do_section(r);
		} else {
			ok = do_alone(r, &r->ahead);
			if (ok)
				done(r);
		}
	}
	return ok && (r->lost || end(r));
}

bool model_run(struct source *source, enum lie (*lie)(const struct op *op), struct failure *f)
{
	struct run r = {.source = source, .failure = f};
	bool ok;

	*f = (struct failure){.at = SIZE_MAX};
	r.engine.lie = lie;
	ok = run_all(&r);
	engine_let_go(&r.engine);
	model_pool_remove(&r.engine.pool);
	models_clear(&r.models);
	return ok;
}
