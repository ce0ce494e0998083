// SPDX-License-Identifier: LGPL-3.0-or-later
#include "model_generate.h"

#include "model.h"

#include <stdlib.h>

struct generator {
	enum profile profile;
	uint64_t random;
	bool parallel; /* in a section */
	const struct model *m;
	struct script queue; /* operations to come, from `at` */
	size_t at;
};

static uint64_t below(struct generator *g, uint64_t n)
{
	g->random ^= g->random >> 12;
	g->random ^= g->random << 25;
	g->random ^= g->random >> 27;
	return (g->random * 0x2545F4914F6CDD1Dull >> 11) % n;
}

static bool one_in(struct generator *g, uint64_t n)
{
	return below(g, n) == 0;
}

/* ---- parts of operations ---- */

enum want { WANT_DIR, WANT_FILE, WANT_LINK, WANT_LIVE, WANT_ANY, WANT_FREE };

static bool fits(const struct generator *g, unsigned h, enum want want)
{
	int i = g->m->handle[h].node;
	const struct node *n = i < 0 ? NULL : &g->m->node[i];

	if (want == WANT_FREE)
		return !n || (!n->nlink && !n->opens);
	if (!n || want == WANT_ANY)
		return n;
	if (n->gone || (!n->nlink && !n->opens))
		return false;
	return want == WANT_LIVE || n->type == (want == WANT_DIR    ? TARN_DIR
						: want == WANT_FILE ? TARN_REG
								    : TARN_LNK);
}

/* A handle as it is wanted, mostly. */
static uint8_t handle(struct generator *g, enum want want)
{
	unsigned count = 0, n;

	if (want < WANT_ANY && one_in(g, 40))
		want = WANT_ANY;
	for (unsigned h = 0; h < MODEL_HANDLES; h++)
		count += fits(g, h, want);
	if (!count)
		return (uint8_t)below(g, MODEL_HANDLES);
	n = (unsigned)below(g, count);
	for (unsigned h = 0;; h++)
		if (fits(g, h, want) && n-- == 0)
			return (uint8_t)h;
}

/* To be bound: few directories, so that they meet. */
static uint8_t target(struct generator *g)
{
	uint8_t h = handle(g, one_in(g, 3) ? WANT_ANY : WANT_FREE);

	return h ? h : (uint8_t)(1 + below(g, MODEL_HANDLES - 1));
}

static uint8_t any_name(struct generator *g)
{
	if (!g->parallel && one_in(g, 20))
		return (uint8_t)below(g, ALL_NAMES);
	return (uint8_t)below(g, g->profile == PROFILE_PARALLEL ? 4 : NAMES);
}

/* A name in the directory of a handle: one that is there, or is not. */
static uint8_t name(struct generator *g, uint8_t h, bool there)
{
	int i = g->m->handle[h].node;
	uint8_t n = any_name(g);

	for (int tries = 0; tries < 8 && i >= 0 && n < NAMES; tries++) {
		if ((g->m->node[i].entry[n].node >= 0) == there || one_in(g, 10))
			break;
		n = any_name(g);
	}
	return n;
}

static uint8_t user(struct generator *g)
{
	return (uint8_t)(one_in(g, 6) ? below(g, MODEL_USERS) : 0);
}

static uint64_t mode(struct generator *g)
{
	static const uint16_t often[] = {0755, 0644, 0777, 01777, 0700, 02775, 04755, 0};

	if (one_in(g, 3))
		return below(g, 010000);
	return often[below(g, 8)];
}

static uint64_t size(struct generator *g, uint64_t most)
{
	static const uint64_t scales[] = {20, 200, 4096, 9000, 70000, 200000, 600000};
	uint64_t scale = scales[below(g, g->profile == PROFILE_PARALLEL ? 3 : 7)];

	if (g->profile != PROFILE_PARALLEL && one_in(g, 2))
		scale = 9000;
	scale = scale < most ? scale : most;
	if (one_in(g, 4)) /* edges */
		return (below(g, scale / 4096 + 1) * 4096 + below(g, 3)) % (scale + 1);
	return below(g, scale + 1);
}

/* ---- operations ---- */

static void create(struct generator *g, struct op *op)
{
	static const uint8_t types[] = {TARN_REG, TARN_REG, TARN_REG, TARN_REG,  TARN_REG,
					TARN_DIR, TARN_DIR, TARN_LNK, TARN_FIFO, TARN_CHR};

	op->kind = OP_CREATE;
	op->h = handle(g, WANT_DIR);
	op->name = name(g, op->h, false);
	op->a = types[below(g, 10)];
	op->b = one_in(g, 10) ? 010000 : mode(g);
	op->c = one_in(g, 6) ? 1 + below(g, 3) : 0;
	op->to = target(g);
	op->user = user(g);
}

static void lookup(struct generator *g, struct op *op)
{
	op->kind = OP_LOOKUP;
	op->h = handle(g, WANT_DIR);
	op->name = one_in(g, 8) ? NAME_DOTDOT : name(g, op->h, true);
	op->to = target(g);
}

static void names(struct generator *g, struct op *op)
{
	static const uint8_t kinds[] = {OP_LINK,   OP_UNLINK, OP_UNLINK,  OP_UNLINK, OP_RENAME,
					OP_RENAME, OP_RENAME, OP_READDIR, OP_VERIFY, OP_READLINK};

	op->kind = kinds[below(g, sizeof(kinds))];
	op->h = handle(g, op->kind == OP_LINK       ? WANT_LIVE
			  : op->kind == OP_READLINK ? WANT_LINK
			  : op->kind == OP_VERIFY   ? WANT_FILE
						    : WANT_DIR);
	op->h2 = op->kind == OP_RENAME && one_in(g, 2) ? op->h : handle(g, WANT_DIR);
	op->name = op->kind == OP_LINK ? name(g, op->h2, false) : name(g, op->h, true);
	op->name2 = name(g, op->h2, one_in(g, 2));
	op->user = user(g);
	op->a = op->kind == OP_READDIR ? 1 + below(g, 12) : below(g, 3);
	if (op->kind == OP_UNLINK && one_in(g, 2))
		op->a = 0;
	op->a += op->kind == OP_VERIFY;
}

static void inodes(struct generator *g, struct op *op)
{
	static const uint8_t kinds[] = {OP_GET,    OP_DROP,    OP_OPEN,    OP_OPEN,
					OP_CLOSE,  OP_SETATTR, OP_SETATTR, OP_GETATTR,
					OP_SETACL, OP_ACCESS,  OP_WRITABLE};
	static const uint16_t masks[] = {TARN_SET_MODE,  TARN_SET_UID | TARN_SET_GID,
					 TARN_SET_GID,   TARN_SET_ATIME,
					 TARN_SET_MTIME, TARN_SET_SIZE};

	op->kind = kinds[below(g, sizeof(kinds))];
	if (g->profile == PROFILE_PARALLEL && op->kind == OP_SETACL)
		op->kind = OP_SETATTR;
	op->h = handle(g, WANT_LIVE);
	op->to = NO_HANDLE;
	if (op->kind == OP_GET)
		op->to = one_in(g, 2) ? op->h : target(g);
	if (op->kind == OP_DROP)
		op->h = target(g);
	op->name = (uint8_t)below(g, 10);
	op->user = user(g);
	if (op->kind == OP_SETATTR) {
		op->a = one_in(g, 5) ? below(g, 512) : masks[below(g, 6)];
		op->h = op->a & TARN_SET_SIZE ? handle(g, WANT_FILE) : op->h;
		op->b = one_in(g, 50) ? 010000 : mode(g);
		op->c = op->a & TARN_SET_SIZE ? size(g, MODEL_FILE_MAX) : below(g, 1ull << 40);
		if (!(op->a & TARN_SET_SIZE) || !one_in(g, 60))
			return;
		op->c = INT64_MAX + 1ull;
	} else if (op->kind == OP_SETACL) {
		if (one_in(g, 3))
			op->kind = OP_GETACL;
		op->a = below(g, MODEL_ACES + 1);
		op->b = below(g, 1ull << 40);
	} else if (op->kind == OP_ACCESS) {
		op->a = 1ull << below(g, 9) | 1ull << below(g, 9);
	}
}

static void data(struct generator *g, struct op *op)
{
	static const uint8_t kinds[] = {OP_WRITE, OP_WRITE, OP_WRITE,    OP_READ, OP_READ,
					OP_READ,  OP_PUNCH, OP_ALLOCATE, OP_SEEK, OP_FSYNC};

	op->kind = kinds[below(g, 10)];
	op->h = handle(g, WANT_FILE);
	op->user = user(g);
	op->a = size(g, MODEL_FILE_MAX - 1);
	op->b = size(g, MODEL_FILE_MAX - op->a);
	op->c = below(g, 1 << 20);
	if (op->kind == OP_SEEK)
		op->b = below(g, 2);
	if (op->kind == OP_WRITE)
		op->name = one_in(g, 300);
	if (op->kind == OP_FSYNC && !one_in(g, 20))
		op->kind = OP_READ;
}

static void xattrs(struct generator *g, struct op *op)
{
	static const uint8_t kinds[] = {OP_XSET, OP_XSET, OP_XGET, OP_XREMOVE, OP_XLIST};

	op->kind = kinds[below(g, 5)];
	op->h = handle(g, WANT_LIVE);
	op->name = (uint8_t)below(g, XATTRS);
	op->user = user(g);
	op->c = below(g, 3);
	op->b = below(g, 1 << 20);
	if (op->kind == OP_XGET)
		op->a = one_in(g, 4) ? below(g, 300) : one_in(g, 8) ? 0 : TARN_XATTR_MAX;
	else if (op->kind == OP_XLIST)
		op->a = 1 + below(g, 5);
	else
		op->a = one_in(g, 30) ? below(g, TARN_XATTR_MAX + 2) : below(g, 200);
}

/* Whether a dataset is there, or can be made. */
static bool may_be(const struct generator *g, unsigned dataset, bool there)
{
	int above;

	if (there)
		return model_find_dataset(g->m, dataset) >= 0;
	above = dataset ? model_find_dataset(g->m, (unsigned)dataset_above(dataset)) : -1;
	return above >= 0 && model_find_dataset(g->m, dataset) < 0 &&
	       g->m->node[g->m->dataset[above].root].entry[dataset_name(dataset)].node < 0;
}

static uint8_t dataset(struct generator *g, bool there)
{
	unsigned dataset = (unsigned)below(g, DATASETS);

	for (int tries = 0; tries < 20 && !may_be(g, dataset, there); tries++)
		dataset = (unsigned)below(g, DATASETS);
	return (uint8_t)dataset;
}

static void datasets(struct generator *g, struct op *op)
{
	static const uint8_t kinds[] = {OP_DCREATE, OP_DCREATE, OP_DCREATE, OP_DDESTROY,
					OP_DRENAME, OP_DSET,    OP_DSET,    OP_DINHERIT,
					OP_DGET,    OP_DLIST,   OP_STATFS};

	op->kind = kinds[below(g, sizeof(kinds))];
	op->name = one_in(g, 6) ? (uint8_t)below(g, DATASETS) : dataset(g, op->kind != OP_DCREATE);
	op->name2 = op->kind == OP_DRENAME ? dataset(g, false) : (uint8_t)below(g, PROPS);
	/* What forbids much is seldom and soon taken back. */
	if (op->name2 <= PROP_ACLTYPE && op->kind == OP_DSET && one_in(g, 2)) {
		op->kind = OP_DINHERIT;
		op->name = 0;
	}
	op->a = op->kind == OP_DINHERIT && !op->name ? 1 : below(g, PROP_VALUES);
	if (op->kind == OP_DCREATE || op->kind == OP_DDESTROY || op->kind == OP_DLIST)
		op->a = below(g, 2);
	/* Those that are made on the way stay, if there is no room for the rest. */
	if (op->kind == OP_DCREATE && g->profile == PROFILE_FULL)
		op->a = 0;
	op->b = below(g, op->kind == OP_DDESTROY ? 2 : PROP_VALUES);
}

/* A section's operations are those that are one step for all to see. */
static bool in_steps(const struct op *op)
{
	return op->kind == OP_XLIST || (op->kind >= OP_DCREATE && op->kind <= OP_DRENAME) ||
	       op->kind == OP_DINHERIT;
}

static void usual(struct generator *g, struct op *op)
{
	uint64_t dice = below(g, 1000);

	/* The root is the way to all that is lost. */
	if (g->m->handle[0].node != g->m->dataset[0].root) {
		*op = (struct op){.kind = OP_DROOT};
		return;
	}

	/* A tree of moderate size: many directories can't be removed. */
	if (dice < 220 && g->m->nodes > 80 + (int)below(g, 40)) {
		*op = (struct op){.kind = OP_UNLINK, .h = handle(g, WANT_DIR)};
		op->name = name(g, op->h, true);
	} else if (dice < 220)
		create(g, op);
	else if (dice < 330)
		lookup(g, op);
	else if (dice < 480)
		names(g, op);
	else if (dice < 620)
		inodes(g, op);
	else if (dice < 900)
		data(g, op);
	else if (dice < 994)
		xattrs(g, op);
	else if (dice < 999)
		datasets(g, op);
	else if (one_in(g, 3))
		*op = (struct op){.kind = OP_WAIT, .a = below(g, 2)};
	else
		*op = (struct op){
		    .kind = OP_DROOT, .name = (uint8_t)below(g, DATASETS), .to = target(g)};
}

static void mount(struct generator *g, struct op *op)
{
	*op = (struct op){.kind = OP_REMOUNT, .a = one_in(g, 3) ? MOUNT_REWIND : MOUNT_PLAIN};
	if (one_in(g, 2))
		*op = (struct op){.kind = OP_CRASH, .a = below(g, 1 << 20), .b = op->a};
}

static void fault(struct generator *g, struct op *op)
{
	*op = (struct op){.kind = one_in(g, 2) ? OP_REPAIR : OP_FAULT,
			  .a = below(g, FAULT_KINDS),
			  .b = 1 + below(g, 20),
			  .c = below(g, 1 << 20)};
	if (op->kind == OP_FAULT && op->a != FAULT_FLIP && one_in(g, 2))
		op->b = 0;
}

/* ---- scripts ---- */

/* What a section has of what is not one step beside something else. */
struct mix {
	unsigned listings, names; /* changes of names */
	unsigned punches, sizes;  /* what may change a size */
};

static void mix_add(struct mix *mix, const struct op *op)
{
	mix->listings += op->kind == OP_READDIR;
	mix->names += op->kind == OP_CREATE || op->kind == OP_LINK || op->kind == OP_UNLINK ||
		      op->kind == OP_RENAME;
	mix->punches += op->kind == OP_PUNCH;
	mix->sizes += op->kind == OP_WRITE || op->kind == OP_SETATTR || op->kind == OP_ALLOCATE;
}

/* A listing leaves out what has gone since it looked at the directory: beside more than one change
   of names it shows a state that never was. A hole ends where the file ended when it was begun. */
static bool one_step(struct mix mix, const struct op *op)
{
	mix_add(&mix, op);
	return !(mix.listings && mix.names > 1) && !(mix.punches && mix.sizes);
}

/* Three threads on a few things, then a look at what is left. */
static void add_section(struct generator *g, struct script *s)
{
	static const uint8_t looks[] = {OP_GETATTR, OP_READ, OP_READDIR, OP_XGET};
	uint64_t n = 3 + below(g, 7);
	uint8_t common = handle(g, WANT_LIVE);
	struct mix mix = {0};
	struct op op;

	g->parallel = true;
	while (n--) {
		do {
			op = (struct op){.to = NO_HANDLE};
			usual(g, &op);
		} while (in_steps(&op) || !one_step(mix, &op));
		mix_add(&mix, &op);
		if (op.kind == OP_READDIR)
			op.a = NAMES + DATASETS;
		if (one_in(g, 2))
			op.h = common;
		op.thread = (uint8_t)(1 + below(g, 3));
		op.to = NO_HANDLE;
		script_add(s, &op);
	}
	g->parallel = false;
	for (unsigned i = 0; i < 4; i++) {
		op = (struct op){.kind = looks[i], .h = common, .to = NO_HANDLE};
		op.a = looks[i] == OP_READ ? 0 : looks[i] == OP_XGET ? TARN_XATTR_MAX : 5;
		op.b = looks[i] == OP_READ ? 20000 : 0;
		op.name = (uint8_t)(i % XATTRS);
		script_add(s, &op);
	}
}

/* Back to where things can be changed. */
static void add_mount(struct generator *g, struct script *s)
{
	struct op op;

	mount(g, &op);
	script_add(s, &op);
	if (!one_in(g, 8))
		return;
	op = (struct op){.kind = OP_REMOUNT, .a = MOUNT_READ_ONLY};
	script_add(s, &op);
	for (unsigned i = 0; i < 60; i++) {
		op = (struct op){.to = NO_HANDLE};
		usual(g, &op);
		script_add(s, &op);
	}
	op = (struct op){.kind = OP_REMOUNT};
	script_add(s, &op);
}

static void add_pool(struct generator *g, struct script *s)
{
	static const uint32_t recordsizes[] = {4096, 131072, 1 << 20};
	struct op op = {.kind = OP_POOL,
			.a = below(g, g->profile == PROFILE_PARALLEL ? LAYOUT_LOG : LAYOUTS),
			.b = g->profile == PROFILE_FULL ? 64 + 32 * below(g, 2) : 1024,
			.c = recordsizes[below(g, 3)]};

	/* Reads and holes are one step only within a record. */
	if (g->profile == PROFILE_PARALLEL)
		op.c = recordsizes[1 + below(g, 2)];
	if (g->profile == PROFILE_FAULTS)
		op.a = one_in(g, 4) ? LAYOUT_SINGLE : one_in(g, 3) ? LAYOUT_LOG : LAYOUT_MIRROR;
	script_add(s, &op);
}

static void refill(struct generator *g)
{
	static const uint64_t mounts[PROFILES] = {3000, 3000, 1200, 2000};
	struct op op = {.to = NO_HANDLE};

	if (!g->m) {
		add_pool(g, &g->queue);
		return;
	}
	usual(g, &op);
	if (g->profile == PROFILE_FAULTS && one_in(g, 150))
		fault(g, &op);
	if (g->profile == PROFILE_FULL && one_in(g, 150))
		op = (struct op){.kind = one_in(g, 2) ? OP_FILL : OP_DRAIN};
	script_add(&g->queue, &op);
	if (g->profile == PROFILE_PARALLEL && one_in(g, 6))
		add_section(g, &g->queue);
	if (one_in(g, mounts[g->profile]))
		add_mount(g, &g->queue);
}

struct generator *generator_new(enum profile profile, uint64_t seed)
{
	struct generator *g = calloc(1, sizeof(*g));

	if (!g)
		abort();
	g->profile = profile;
	g->random = seed * 0x9e3779b97f4a7c15 | 1;
	return g;
}

void generator_next(struct generator *g, const struct model *m, struct op *op)
{
	g->m = m;
	if (g->at == g->queue.n) {
		g->at = g->queue.n = 0;
		refill(g);
	}
	*op = g->queue.ops[g->at++];
}

void generator_free(struct generator *g)
{
	script_free(&g->queue);
	free(g);
}
