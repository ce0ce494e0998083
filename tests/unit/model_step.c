// SPDX-License-Identifier: LGPL-3.0-or-later
/* What the parts of the model share, and which of them an operation is of. */
#include <errno.h>

#include "model_step.h"

struct node *node_at(struct model *m, int node)
{
	return node < 0 ? NULL : &m->node[node];
}

struct node *node_of_handle(struct model *m, unsigned h)
{
	return node_at(m, m->handle[h].node);
}

bool is_dir(const struct node *n)
{
	return n->type == TARN_DIR;
}

/* ---- answers ---- */

static const char *match_time(const char *name, struct known_time *t, const struct timespec *seen)
{
	if (!t->known)
		*t = (struct known_time){*seen, true};
	else if (t->time.tv_sec != seen->tv_sec || t->time.tv_nsec != seen->tv_nsec)
		return model_wrong("%s is %lld.%09ld, should be %lld.%09ld", name,
				   (long long)seen->tv_sec, seen->tv_nsec,
				   (long long)t->time.tv_sec, t->time.tv_nsec);
	return NULL;
}

/* The number of an inode seen for the first time. */
const char *match_number(struct model *m, struct node *n, uint64_t ino, uint64_t gen)
{
	if (!n->ino) {
		for (int i = 0; i < m->nodes; i++)
			if (m->node[i].used && !m->node[i].gone && m->node[i].ino == ino &&
			    m->node[i].dataset == n->dataset &&
			    (m->node[i].nlink || m->node[i].gen == gen))
				return model_wrong("inode number %llu is in use",
						   (unsigned long long)ino);
		n->ino = ino;
	}
	if (!n->gen) /* a listing shows only the number */
		n->gen = gen;
	MATCH("number", ino, n->ino);
	if (gen)
		MATCH("generation", gen, n->gen);
	return NULL;
}

const char *match_attr(struct model *m, struct node *n, const struct tarn_attr *a)
{
	const char *why = match_number(m, n, a->ino, a->gen);

	if (why)
		return why;
	MATCH("type", a->type, n->type);
	MATCH("mode", a->mode, n->mode);
	MATCH("nlink", a->nlink, n->nlink);
	MATCH("uid", a->uid, n->uid);
	MATCH("gid", a->gid, n->gid);
	if (n->type == TARN_REG || n->type == TARN_LNK)
		MATCH("size", a->size, n->size);
	if (n->type == TARN_CHR || n->type == TARN_BLK) {
		MATCH("rdev_major", a->rdev_major, n->rdev);
		MATCH("rdev_minor", a->rdev_minor, n->rdev + 1);
	}
	if (a->change < n->change + n->changed)
		return model_wrong("change of inode %llu is %llu after %llu",
				   (unsigned long long)n->ino, (unsigned long long)a->change,
				   (unsigned long long)n->change);
	n->change = a->change;
	n->changed = false;
	why = match_time("mtime", &n->mtime, &a->mtime);
	why = why ? why : match_time("ctime", &n->ctime, &a->ctime);
	why = why ? why : match_time("btime", &n->btime, &a->btime);
	return why || n->being_read ? why : match_time("atime", &n->atime, &a->atime);
}

/* data: contents or entries changed too. */
void touch_node(struct node *n, bool data)
{
	n->changed = true;
	n->ctime.known = false;
	if (data)
		n->mtime.known = false;
}

/* Someone read it: relatime. Beside other threads, some time after the answer was made. */
void accessed(struct node *n, const struct op *op)
{
	n->atime.known = false;
	n->was_read = true;
	n->being_read |= op->thread != 0;
}

const char *match_bytes(const struct outcome *seen, const uint8_t *want, size_t len, size_t offset)
{
	if (seen->len != len)
		return model_wrong("gives %zu bytes, should give %zu", seen->len, len);
	for (size_t i = 0; i < len; i++)
		if (seen->data[i] != want[i])
			return model_wrong("byte %zu is %u, should be %u", offset + i,
					   seen->data[i], want[i]);
	return NULL;
}

/* ---- errors ---- */

/* Of every operation on an inode. A removed one that is not open may be there still. */
void errs_inode(const struct model *m, struct errs *e, const struct node *n)
{
	errs_add(e, n->gone, -ESTALE);
	(void)m;
}

void errs_change(const struct model *m, struct errs *e, const struct node *n)
{
	e->change = true;
	errs_inode(m, e, n);
	errs_add(e, m->read_only, -EROFS);
	errs_add(e, !n->gone && model_prop(m, n->dataset, PROP_READONLY, NULL) == 1, -EROFS);
}

/* The inode goes with its last name, if nobody has it open; when, is the engine's affair. */
bool went(const struct node *n, int rc)
{
	return rc == -ESTALE && !n->nlink && !n->opens;
}

/* ---- handles ---- */

void bind_node(struct model *m, unsigned to, int node)
{
	int old;

	if (to == NO_HANDLE)
		return;
	old = m->handle[to].node;
	if (old >= 0 && m->handle[to].open)
		m->node[old].opens--;
	m->handle[to].open = false;
	m->handle[to].node = (int16_t)node;
	if (old >= 0 && old != node)
		model_settle(m, old);
}

const char *found_node(struct model *m, const struct op *op, int node, const struct outcome *seen)
{
	const char *why = match_number(m, &m->node[node], seen->ino, seen->gen);

	if (!why && !op->thread)
		bind_node(m, op->to, node);
	return why;
}

/* ---- all ---- */

static const char *droot(struct model *m, const struct op *op, const struct outcome *seen)
{
	int dataset = model_find_dataset(m, op->name);
	struct model_dataset *d = dataset < 0 ? NULL : &m->dataset[dataset];
	struct errs e = {0};
	const char *why;

	errs_add(&e, !d, -ENOENT);
	why = errs_check(m, &e, seen->rc);
	if (why || seen->rc)
		return why;
	if (!d->id)
		d->id = seen->value;
	if (d->id != seen->value)
		return model_wrong("dataset %llu is now %llu", (unsigned long long)d->id,
				   (unsigned long long)seen->value);
	return found_node(m, op, d->root, seen);
}

static const char *(*const steps[OP_KINDS])(struct model *, const struct op *,
					    const struct outcome *) = {
    [OP_CREATE] = step_create,     [OP_LOOKUP] = step_lookup,
    [OP_LINK] = step_link,         [OP_UNLINK] = step_unlink,
    [OP_RENAME] = step_rename,     [OP_READDIR] = step_readdir,
    [OP_READLINK] = step_readlink, [OP_VERIFY] = step_verify,
    [OP_GET] = step_get,           [OP_DROP] = step_open,
    [OP_OPEN] = step_open,         [OP_CLOSE] = step_open,
    [OP_GETATTR] = step_getattr,   [OP_SETATTR] = step_setattr,
    [OP_SETACL] = step_setacl,     [OP_GETACL] = step_getacl,
    [OP_WRITABLE] = step_writable, [OP_ACCESS] = step_access,
    [OP_READ] = step_read,         [OP_WRITE] = step_write,
    [OP_PUNCH] = step_punch,       [OP_ALLOCATE] = step_allocate,
    [OP_SEEK] = step_seek,         [OP_XSET] = step_xset,
    [OP_XGET] = step_xget,         [OP_XREMOVE] = step_xset,
    [OP_XLIST] = step_xlist,       [OP_DROOT] = droot,
    [OP_FSYNC] = step_fsync,
};

/* What needs no handle but must succeed. */
static const char *other(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct errs e = {.change = true};

	if (op->kind >= OP_DCREATE && op->kind <= OP_STATFS)
		return model_step_dataset(m, op, seen);
	return errs_check(m, &e, seen->rc);
}

const char *model_step(struct model *m, const struct op *op, const struct outcome *seen)
{
	return steps[op->kind] ? steps[op->kind](m, op, seen) : other(m, op, seen);
}

bool model_skips(const struct model *m, const struct op *op)
{
	bool two = op->kind == OP_LINK || op->kind == OP_RENAME;
	int datasets = 0;

	for (int i = 0; i < OBJECTS; i++)
		datasets += m->dataset[i].live;
	if (op->kind == OP_DCREATE)
		return datasets + 2 > OBJECTS || m->nodes > NODES - 32;
	if (op->kind == OP_CREATE && m->nodes > NODES - 30)
		return true;
	if (op->kind >= OP_DCREATE || op->kind == OP_WAIT)
		return false;
	/* An ACL that is not in force follows the mode, but cannot be looked at. */
	if (op->kind == OP_SETATTR && (op->a & TARN_SET_MODE) && m->handle[op->h].node >= 0) {
		const struct node *n = &m->node[m->handle[op->h].node];

		if (n->acl && !n->gone && model_prop(m, n->dataset, PROP_ACLTYPE, NULL) == 1)
			return true;
	}
	return m->handle[op->h].node < 0 || (two && m->handle[op->h2].node < 0);
}

void model_section_ended(struct model *m)
{
	for (int i = 0; i < m->nodes; i++) {
		m->node[i].atime.known &= !m->node[i].being_read;
		m->node[i].being_read = false;
	}
}

void model_remounted(struct model *m, bool read_only, bool was_cut)
{
	m->read_only = read_only;
	for (int i = 0; i < m->nodes; i++)
		if (was_cut && m->node[i].was_read)
			m->node[i].atime.known = false;
	for (int i = 0; i < ALL_HANDLES; i++) {
		if (m->handle[i].node >= 0 && m->handle[i].open)
			m->node[m->handle[i].node].opens--;
		m->handle[i].open = false;
	}
}
