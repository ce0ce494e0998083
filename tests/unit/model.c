// SPDX-License-Identifier: LGPL-3.0-or-later
/* The model as a value: nodes, copies, and what both sides make from an operation's numbers. */
#include "model.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct bytes *bytes_new(const void *data, size_t len)
{
	struct bytes *b = malloc(sizeof(*b) + len);

	if (!b)
		abort();
	b->holders = 1;
	b->hash = 0;
	b->len = len;
	if (data)
		memcpy(b->data, data, len);
	else
		memset(b->data, 0, len);
	return b;
}

struct bytes *bytes_hold(struct bytes *b)
{
	if (b)
		b->holders++;
	return b;
}

void bytes_drop(struct bytes *b)
{
	if (b && --b->holders == 0)
		free(b);
}

/* ---- nodes ---- */

int model_new_node(struct model *m, enum tarn_type type, int dataset)
{
	int i = 0;

	while (i < m->nodes && m->node[i].used)
		i++;
	if (i == NODES)
		abort();
	if (i == m->nodes)
		m->nodes++;
	m->node[i] = (struct node){.used = true,
				   .type = type,
				   .dataset = (int16_t)dataset,
				   .parent = -1,
				   .nlink = type == TARN_DIR ? 2 : 1};
	for (int n = 0; n < NAMES; n++)
		m->node[i].entry[n].node = -1;
	return i;
}

static void node_clear(struct node *n)
{
	bytes_drop(n->data);
	bytes_drop(n->acl);
	n->data = n->acl = NULL;
}

void model_settle(struct model *m, int node)
{
	struct node *n = &m->node[node];

	if (n->nlink && !n->gone)
		return;
	for (int i = 0; i < ALL_HANDLES; i++)
		if (m->handle[i].node == node)
			return;
	node_clear(n);
	n->used = false;
	while (m->nodes && !m->node[m->nodes - 1].used)
		m->nodes--;
}

struct model *model_new(uint64_t root_ino, uint64_t root_gen, uint64_t dataset_id)
{
	struct model *m = calloc(1, sizeof(*m));
	struct node *root;

	if (!m)
		abort();
	for (int i = 0; i < ALL_HANDLES; i++)
		m->handle[i].node = -1;
	m->dataset[0] = (struct model_dataset){.live = true, .above = -1, .id = dataset_id};
	memset(m->dataset[0].local, -1, sizeof(m->dataset[0].local));
	root = &m->node[model_new_node(m, TARN_DIR, 0)];
	root->mode = 0755;
	root->nlink++; /* the filler: model_engine.c */
	root->ino = root_ino;
	root->gen = root_gen;
	m->handle[0].node = 0;
	return m;
}

struct model *model_copy(const struct model *m)
{
	size_t bytes = offsetof(struct model, node) + (size_t)m->nodes * sizeof(struct node);
	struct model *c = malloc(sizeof(*c));

	if (!c)
		abort();
	memcpy(c, m, bytes);
	for (int i = 0; i < c->nodes; i++) {
		bytes_hold(c->node[i].data);
		bytes_hold(c->node[i].acl);
	}
	return c;
}

void model_free(struct model *m)
{
	for (int i = 0; i < m->nodes; i++)
		if (m->node[i].used)
			node_clear(&m->node[i]);
	free(m);
}

/* ---- hash ---- */

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15;
	return h ^ h >> 29;
}

/* Zeros at the end may be there or not. */
static uint64_t bytes_hash(struct bytes *b)
{
	size_t len = b ? b->len : 0;

	if (!len)
		return 1;
	if (b->hash)
		return b->hash;
	while (len && !b->data[len - 1])
		len--;
	b->hash = len ? XXH3_64bits(b->data, len) : 1;
	return b->hash += !b->hash;
}

static uint64_t mix_time(uint64_t h, const struct known_time *t)
{
	return t->known ? mix(mix(h, (uint64_t)t->time.tv_sec), (uint64_t)t->time.tv_nsec)
			: mix(h, 1);
}

/* Nodes have other numbers in another model: inodes are compared by theirs. */
static uint64_t node_hash(const struct model *m, const struct node *n)
{
	uint64_t h = mix(mix(n->ino, n->gen), n->type);

	h = mix(mix(h, n->mode), n->nlink);
	h = mix(mix(h, n->uid), n->gid);
	h = mix(mix(h, n->size), n->changed);
	h = mix(mix(h, n->gone), n->opens);
	h = mix(mix(h, n->change), n->parent < 0 ? 0 : m->node[n->parent].ino);
	h = mix_time(mix_time(h, &n->mtime), &n->ctime);
	h = mix_time(mix_time(h, &n->atime), &n->btime);
	h = mix(mix(h, n->exclusive), n->verifier);
	h = mix(mix(h, bytes_hash(n->data)), bytes_hash(n->acl));
	for (int i = 0; i < NAMES; i++)
		h = n->entry[i].node < 0
			? mix(h, 0)
			: mix(mix(h, m->node[n->entry[i].node].ino), n->entry[i].cookie);
	for (int i = 0; i < XATTRS; i++)
		h = mix(h, n->xattr[i].there ? n->xattr[i].seed + n->xattr[i].len + 1 : 0);
	return h;
}

uint64_t model_hash(const struct model *m)
{
	uint64_t sum = 0;

	for (int i = 0; i < m->nodes; i++)
		if (m->node[i].used)
			sum += node_hash(m, &m->node[i]);
	return sum;
}

/* ---- errors ---- */

void errs_add(struct errs *e, bool applies, int code)
{
	if (applies && e->n < ERRS)
		e->code[e->n++] = code;
}

const char *model_wrong(const char *format, ...)
{
	static char text[400];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return text;
}

const char *errs_check(const struct model *m, const struct errs *e, int rc)
{
	if (rc == -EIO && m->failing)
		return NULL;
	if (rc == -ENOSPC && m->tight && e->change)
		return NULL;
	for (int i = 0; i < e->n; i++)
		if (e->code[i] == rc)
			return NULL;
	if (!e->n && !rc)
		return NULL;
	if (!e->n)
		return model_wrong("answered %s (%d), should succeed", strerror(-rc), rc);
	return model_wrong("answered %s (%d), should fail with %s (%d)%s", rc ? strerror(-rc) : "0",
			   rc, strerror(-e->code[0]), e->code[0],
			   e->n > 1 ? " or another error" : "");
}

/* ---- what both sides need ---- */

void model_fill(uint8_t *buf, size_t len, uint64_t seed)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15 + 1;

	memset(buf, (int)(1 + seed % 255), len);
	/* Some of it does not compress, all of it tells where it belongs. */
	for (size_t at = 0; at + 8 <= len; at += seed % 3 ? 512 : 8) {
		x ^= x >> 12;
		x ^= x << 25;
		x ^= x >> 27;
		memcpy(buf + at, &x, 8);
	}
}

const struct tarn_cred *model_user(unsigned user)
{
	static const gid_t groups[] = {200, 300};
	static const struct tarn_cred users[] = {
	    {.uid = 1000, .gid = 100, .ngroups = 2, .groups = groups}, {.uid = 2000, .gid = 200}};

	return user ? &users[user - 1] : NULL;
}

void model_make_acl(uint32_t count, uint64_t seed, struct tarn_acl *acl)
{
	static const uint32_t masks[] = {0x1,      0x2,  0x4,   0x6,     0x20,    0x21,
					 0x1f01ff, 0x40, 0x1e7, 0x10000, 0xc0100, 0x18};
	static const uint32_t ids[2][2] = {{1000, 2000}, {100, 200}};

	acl->count = count;
	for (uint32_t i = 0; i < count; i++) {
		struct tarn_ace *ace = &acl->ace[i];

		seed = seed * 6364136223846793005 + 1442695040888963407;
		*ace =
		    (struct tarn_ace){.type = (seed >> 20) % 4 == 0,
				      .who = (uint8_t)((seed >> 24) % 5),
				      .flags = (seed >> 28) % 3 ? 0 : (uint32_t)(seed >> 32) % 16,
				      .mask = masks[(seed >> 40) % 12] | masks[(seed >> 48) % 12]};
		if (ace->who >= TARN_WHO_UID)
			ace->id = ids[ace->who == TARN_WHO_GID][(seed >> 60) % 2];
		if (ace->who == TARN_WHO_GROUP || ace->who == TARN_WHO_GID)
			ace->flags |= 0x40;
	}
}

void model_make_set(const struct op *op, struct tarn_setattr *set)
{
	static const struct {
		uid_t uid;
		gid_t gid;
	} owners[] = {{0, 0},      {1000, 100},  {2000, 200},       {1000, 200}, {1000, 300},
		      {2000, 100}, {0, 4000000}, {0xfffffffe, 100}, {1000, 0},   {0, 100}};

	*set = (struct tarn_setattr){
	    .mask = (uint32_t)op->a,
	    .mode = (uint32_t)op->b,
	    .uid = owners[op->name % 10].uid,
	    .gid = owners[op->name % 10].gid,
	    .size = op->c,
	    .atime = {(time_t)(op->c * 977 % 4000000000) - 1000000000, (long)(op->c % 1000000000)},
	    .mtime = {(time_t)(op->c * 997 % 4000000000) - 1000000000, (long)(op->c % 999999999)},
	    .btime = {(time_t)(op->c * 991 % 4000000000), 7},
	};
}

void model_target(uint64_t mode, char target[64])
{
	snprintf(target, 64, "%.*s", (int)(1 + mode % 50),
		 "../some/where/else/where/nobody/has/ever/been/before/or/after");
}

const char *model_xattr(unsigned name)
{
	static const char *const names[XATTRS] = {"one", "a.longer.name", "\x01\xff", "two"};

	return names[name % XATTRS];
}
