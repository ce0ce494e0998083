// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * What each file operation must answer, and what it changes.
 *
 * post[0] is of the inode that the operation is about, post[1] of the directory changed; of a
 * rename they are the old and the new directory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define SUID 04000u
#define SGID 02000u
#define STICKY 01000u

enum { ADD_FILE = 0x2, ADD_DIR = 0x4, WRITE_NAMED = 0x10, SEARCH = 0x20, DELETE_CHILD = 0x40 };
enum { WRITE_ATTRIBUTES = 0x100, DELETE = 0x10000, WRITE_ACL = 0x40000, WRITE_DATA = 0x2 };
enum { FILE_INHERIT = 1, DIR_INHERIT = 2, NO_PROPAGATE = 4, INHERIT_ONLY = 8 };

static struct node *at(struct model *m, int node)
{
	return node < 0 ? NULL : &m->node[node];
}

static struct node *handle(struct model *m, unsigned h)
{
	return at(m, m->handle[h].node);
}

/* ---- attributes ---- */

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

#define MATCH(what, is, should)                                                                    \
	do {                                                                                       \
		unsigned long long is_ = (is), should_ = (should);                                 \
		if (is_ != should_)                                                                \
			return model_wrong("%s of inode %llu is %llu, should be %llu", what,       \
					   (unsigned long long)n->ino, is_, should_);              \
	} while (0)

/* The number of an inode seen for the first time. */
static const char *match_number(struct model *m, struct node *n, uint64_t ino, uint64_t gen)
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

static const char *match_attr(struct model *m, struct node *n, const struct tarn_attr *a)
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
static void touch(struct node *n, bool data)
{
	n->changed = true;
	n->ctime.known = false;
	if (data)
		n->mtime.known = false;
}

/* Someone read it: relatime. Beside other threads, some time after the answer was made. */
static void accessed(struct node *n, const struct op *op)
{
	n->atime.known = false;
	n->was_read = true;
	n->being_read |= op->thread != 0;
}

/* ---- errors ---- */

/* Of every operation on an inode. A removed one that is not open may be there still. */
static void errs_inode(const struct model *m, struct errs *e, const struct node *n)
{
	errs_add(e, n->gone, -ESTALE);
	(void)m;
}

static void errs_change(const struct model *m, struct errs *e, const struct node *n)
{
	e->change = true;
	errs_inode(m, e, n);
	errs_add(e, m->read_only, -EROFS);
	errs_add(e, !n->gone && model_prop(m, n->dataset, PROP_READONLY, NULL) == 1, -EROFS);
}

static void errs_name(struct errs *e, unsigned name)
{
	errs_add(e, name == NAME_EMPTY || name == NAME_SLASH, -EINVAL);
	errs_add(e, name == NAME_LONG, -ENAMETOOLONG);
}

/* The inode goes with its last name, if nobody has it open; when, is the engine's affair. */
static bool went(const struct node *n, int rc)
{
	return rc == -ESTALE && !n->nlink && !n->opens;
}

/* ---- names ---- */

/* What a name means: an inode, or -1. */
static int meaning(const struct model *m, const struct node *dir, unsigned name)
{
	int child;

	if (name == NAME_DOT)
		return (int)(dir - m->node);
	if (name == NAME_DOTDOT && dir->parent >= 0)
		return dir->parent;
	if (name == NAME_DOTDOT) {
		int above = m->dataset[dir->dataset].above;

		return m->dataset[above < 0 ? dir->dataset : above].root;
	}
	if (name >= NAMES)
		return -1;
	child = dir->parent < 0 && dir->nlink ? model_child_dataset(m, dir->dataset, name) : -1;
	return child >= 0 ? m->dataset[child].root : dir->entry[name].node;
}

static bool is_dataset(const struct model *m, const struct node *dir, unsigned name)
{
	return dir->parent < 0 && dir->nlink && name < NAMES &&
	       model_child_dataset(m, dir->dataset, name) >= 0;
}

static bool is_dir(const struct node *n)
{
	return n->type == TARN_DIR;
}

static bool is_empty(const struct node *dir)
{
	for (int i = 0; i < NAMES; i++)
		if (dir->entry[i].node >= 0)
			return false;
	return true;
}

static void bind(struct model *m, unsigned to, int node)
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

static const char *found(struct model *m, const struct op *op, int node, const struct outcome *seen)
{
	const char *why = match_number(m, &m->node[node], seen->ino, seen->gen);

	if (!why && !op->thread)
		bind(m, op->to, node);
	return why;
}

static void put_entry(struct model *m, int dir, unsigned name, int node)
{
	m->node[dir].entry[name].node = (int16_t)node;
	m->node[dir].entry[name].cookie = 0;
	touch(&m->node[dir], true);
}

static const char *lookup(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *dir = handle(m, op->h);
	int node = is_dir(dir) ? meaning(m, dir, op->name) : -1;
	struct errs e = {0};
	const char *why;

	/* A removed directory has no parent. */
	if (op->name == NAME_DOTDOT && !dir->nlink && seen->rc == -ESTALE)
		return NULL;
	if (went(dir, seen->rc))
		return NULL;
	errs_inode(m, &e, dir);
	errs_add(&e, !is_dir(dir), -ENOTDIR);
	errs_name(&e, op->name);
	errs_add(&e, op->name < NAMES && node < 0, -ENOENT);
	why = errs_check(m, &e, seen->rc);
	if (why || seen->rc)
		return why;
	if (op->name == NAME_DOTDOT && !dir->nlink)
		return "a removed directory has a parent";
	return found(m, op, node, seen);
}

static void errs_add_name(struct model *m, struct errs *e, const struct node *dir, unsigned name,
			  unsigned user, bool adds_dir)
{
	errs_change(m, e, dir);
	errs_name(e, name);
	errs_add(e, !is_dir(dir), -ENOTDIR);
	errs_add(e, is_dir(dir) && meaning(m, dir, name) >= 0, -EEXIST);
	errs_add(e, !dir->nlink, -ENOENT);
	errs_add(e, !dir->nlink && (!dir->opens || name == NAME_DOTDOT), -ESTALE);
	errs_add(e, !model_may(m, dir, user, (adds_dir ? ADD_DIR : ADD_FILE) | SEARCH), -EACCES);
}

static bool inherits(const struct node *dir, bool to_dir)
{
	const struct tarn_ace *ace = dir->acl ? (struct tarn_ace *)dir->acl->data : NULL;

	for (size_t i = 0; dir->acl && i < dir->acl->len / sizeof(*ace); i++)
		if ((ace[i].flags & (to_dir ? DIR_INHERIT : FILE_INHERIT)) ||
		    (to_dir && (ace[i].flags & FILE_INHERIT) && !(ace[i].flags & NO_PROPAGATE)))
			return true;
	return false;
}

/* The inode's ACL as the engine shows it; it must mean the mode. masked: a mode was asked for. */
static const char *adopt_acl(struct node *n, const struct tarn_acl *acl, bool masked)
{
	bytes_drop(n->acl);
	n->acl = NULL;
	if (!acl)
		return NULL;
	n->acl = bytes_new(acl->ace, acl->count * sizeof(acl->ace[0]));
	if (model_acl_mode(n->acl) != (n->mode & 0777))
		return model_wrong("the ACL means mode %o, but it is %o", model_acl_mode(n->acl),
				   n->mode & 0777);
	if (masked && !model_acl_masked(n->acl, n->mode))
		return "a named user or group may do more than the group class";
	return NULL;
}

static void new_attributes(struct model *m, struct node *n, const struct node *dir,
			   const struct op *op)
{
	const struct tarn_cred *cred = model_user(op->user);
	char target[64];

	n->mode = is_dir(n) ? 0700 : 0600;
	n->uid = cred ? cred->uid : 0;
	n->gid = dir->mode & SGID ? dir->gid : cred ? cred->gid : 0;
	if (op->b < 010000)
		n->mode = (uint32_t)op->b;
	if (!model_in_group(op->user, n->gid))
		n->mode &= ~SGID;
	if (is_dir(n))
		n->mode |= dir->mode & SGID;
	if (n->type == TARN_LNK) {
		model_target(op->b, target);
		n->mode = 0777;
		n->size = strlen(target);
		n->data = bytes_new(target, n->size);
	}
	n->rdev = n->type == TARN_CHR || n->type == TARN_BLK ? (uint32_t)op->b : 0;
	n->exclusive = op->c && n->type == TARN_REG;
	n->verifier = op->c;
	n->changed = false;
	(void)m;
}

static const char *create_new(struct model *m, const struct op *op, const struct outcome *seen)
{
	int dir = m->handle[op->h].node, node;
	bool acl = model_prop(m, m->node[dir].dataset, PROP_ACLTYPE, NULL) != 1;
	struct node *n;
	const char *why;

	node = model_new_node(m, (enum tarn_type)op->a, m->node[dir].dataset);
	n = &m->node[node];
	new_attributes(m, n, &m->node[dir], op);
	put_entry(m, dir, op->name, node);
	if (is_dir(n)) {
		n->parent = (int16_t)dir;
		m->node[dir].nlink++;
	}
	why = match_number(m, n, seen->ino, seen->gen);
	if (!why && acl && n->type != TARN_LNK && inherits(&m->node[dir], is_dir(n))) {
		if (op->b < 010000 && (seen->post[0].mode & 0777 & ~n->mode))
			return "an inherited ACL gives more than the mode asked for";
		n->mode = (n->mode & ~0777u) | (seen->post[0].mode & 0777);
		if (!seen->acl)
			return "the directory's ACL was not inherited";
		why = adopt_acl(n, seen->acl, op->b < 010000);
	}
	why = why ? why : match_attr(m, n, &seen->post[0]);
	why = why ? why : match_attr(m, &m->node[dir], &seen->post[1]);
	if (!why && !op->thread)
		bind(m, op->to, node);
	return why;
}

static const char *create(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *dir = handle(m, op->h);
	int is = is_dir(dir) ? meaning(m, dir, op->name) : -1;
	struct errs e = {0};
	const char *why;
	bool again;

	if (went(dir, seen->rc))
		return NULL;
	again = op->c && is >= 0 && m->node[is].exclusive && m->node[is].verifier == op->c;
	errs_add_name(m, &e, dir, op->name, op->user, op->a == TARN_DIR);
	errs_add(&e, op->a < TARN_REG || op->a > TARN_SOCK, -EINVAL);
	errs_add(&e, op->c && op->a != TARN_REG, -EINVAL);
	if (seen->rc == -EEXIST && is >= 0) {
		if (again && op->a == TARN_REG)
			return "an exclusive create was refused the second time";
		return found(m, op, is, seen);
	}
	if (!seen->rc && again && op->a == TARN_REG) {
		e = (struct errs){0};
		errs_change(m, &e, dir);
		why = errs_check(m, &e, 0);
		why = why ? why : match_attr(m, &m->node[is], &seen->post[0]);
		why = why ? why : match_attr(m, dir, &seen->post[1]);
		return why ? why : found(m, op, is, seen);
	}
	why = errs_check(m, &e, seen->rc);
	return why || seen->rc ? why : create_new(m, op, seen);
}

static const char *link_name(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = handle(m, op->h), *dir = handle(m, op->h2);
	struct errs e = {0};
	const char *why;

	if (went(n, seen->rc) || went(dir, seen->rc))
		return NULL;
	errs_add_name(m, &e, dir, op->name, op->user, false);
	errs_inode(m, &e, n);
	errs_add(&e, n->dataset != dir->dataset || n->gone || dir->gone, -EXDEV);
	errs_add(&e, is_dir(n), -EPERM);
	errs_add(&e, !n->nlink, -ENOENT);
	why = errs_check(m, &e, seen->rc);
	if (why || seen->rc)
		return why;
	put_entry(m, m->handle[op->h2].node, op->name, m->handle[op->h].node);
	n->nlink++;
	touch(n, false);
	why = match_attr(m, n, &seen->post[0]);
	return why ? why : match_attr(m, dir, &seen->post[1]);
}

static void errs_remove_name(struct model *m, struct errs *e, const struct node *dir,
			     const struct node *n, unsigned user)
{
	uint32_t owner = user ? model_user(user)->uid : 0;
	bool by_acl = n->acl && model_prop(m, n->dataset, PROP_ACLTYPE, NULL) != 1 &&
		      model_may(m, n, user, DELETE);

	if (!user)
		return;
	errs_add(e, !model_may(m, dir, user, SEARCH), -EACCES);
	errs_add(e, !by_acl && !model_may(m, dir, user, DELETE_CHILD), -EACCES);
	errs_add(e, !by_acl && (dir->mode & STICKY) && owner != dir->uid && owner != n->uid,
		 -EPERM);
}

/* One name less, which pointed there. */
static void lose_name(struct model *m, int node)
{
	struct node *n = &m->node[node];

	n->nlink = is_dir(n) ? 0 : n->nlink - 1;
	touch(n, false);
	model_settle(m, node);
}

static const char *unlink_name(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *dir = handle(m, op->h), *n;
	int node = is_dir(dir) ? meaning(m, dir, op->name) : -1;
	struct errs e = {0};
	const char *why;

	if (went(dir, seen->rc))
		return NULL;
	n = at(m, node);
	errs_change(m, &e, dir);
	errs_name(&e, op->name);
	errs_add(&e, op->name == NAME_DOT, -EINVAL);
	errs_add(&e, op->name == NAME_DOTDOT, -ENOTEMPTY);
	errs_add(&e, !is_dir(dir), -ENOTDIR);
	errs_add(&e, is_dir(dir) && op->name < NAMES && node < 0, -ENOENT);
	if (is_dir(dir) && is_dataset(m, dir, op->name)) {
		errs_add(&e, true, -ENOTEMPTY);
	} else if (n && op->name < NAMES) {
		errs_remove_name(m, &e, dir, n, op->user);
		errs_add(&e, op->a == 1 && is_dir(n), -EISDIR);
		errs_add(&e, op->a == 2 && !is_dir(n), -ENOTDIR);
		errs_add(&e, is_dir(n) && !is_empty(n), -ENOTEMPTY);
	}
	why = errs_check(m, &e, seen->rc);
	if (why || seen->rc)
		return why;
	put_entry(m, m->handle[op->h].node, op->name, -1);
	dir->nlink -= is_dir(n);
	lose_name(m, node);
	return match_attr(m, dir, &seen->post[1]);
}

static bool lies_below(const struct model *m, int node, int top)
{
	for (; node >= 0; node = m->node[node].parent)
		if (node == top)
			return true;
	return false;
}

static void errs_rename(struct model *m, struct errs *e, const struct op *op, int src, int dst)
{
	struct node *from = handle(m, op->h), *to = handle(m, op->h2), *n = at(m, src);

	errs_remove_name(m, e, from, n, op->user);
	errs_add(e, !model_may(m, to, op->user, (is_dir(n) ? ADD_DIR : ADD_FILE) | SEARCH),
		 -EACCES);
	errs_add(e, !to->nlink, -ENOENT);
	errs_add(e, is_dir(n) && from != to && !model_may(m, n, op->user, WRITE_DATA), -EACCES);
	errs_add(e, is_dir(n) && lies_below(m, m->handle[op->h2].node, src), -EINVAL);
	if (dst < 0)
		return;
	errs_remove_name(m, e, to, &m->node[dst], op->user);
	errs_add(e, is_dir(n) && !is_dir(&m->node[dst]), -ENOTDIR);
	errs_add(e, !is_dir(n) && is_dir(&m->node[dst]), -EISDIR);
	errs_add(e, is_dir(&m->node[dst]) && !is_empty(&m->node[dst]), -ENOTEMPTY);
}

static void move_name(struct model *m, const struct op *op, int src, int dst)
{
	int from = m->handle[op->h].node, to = m->handle[op->h2].node;
	uint64_t cookie = m->node[to].entry[op->name2].cookie;

	put_entry(m, from, op->name, -1);
	put_entry(m, to, op->name2, src);
	if (dst >= 0) /* the name's place in a listing stays */
		m->node[to].entry[op->name2].cookie = cookie;
	touch(&m->node[src], false);
	if (is_dir(&m->node[src])) {
		m->node[from].nlink--;
		m->node[to].nlink++;
		m->node[src].parent = (int16_t)to;
	}
	if (dst >= 0) {
		m->node[to].nlink -= is_dir(&m->node[dst]);
		lose_name(m, dst);
	}
}

static const char *rename_name(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *from = handle(m, op->h), *to = handle(m, op->h2);
	struct errs e = {0};
	const char *why;
	int src, dst;

	if (went(from, seen->rc) || went(to, seen->rc))
		return NULL;
	src = is_dir(from) && op->name < NAMES ? from->entry[op->name].node : -1;
	dst = is_dir(to) && op->name2 < NAMES ? to->entry[op->name2].node : -1;
	errs_change(m, &e, from);
	errs_change(m, &e, to);
	errs_name(&e, op->name);
	errs_name(&e, op->name2);
	errs_add(&e, op->name == NAME_DOT || op->name == NAME_DOTDOT, -EINVAL);
	errs_add(&e, op->name2 == NAME_DOT || op->name2 == NAME_DOTDOT, -EINVAL);
	errs_add(&e, from->dataset != to->dataset || from->gone || to->gone, -EXDEV);
	errs_add(&e, !is_dir(from) || !is_dir(to), -ENOTDIR);
	errs_add(&e, is_dir(from) && is_dataset(m, from, op->name), -ENOTEMPTY);
	errs_add(&e, is_dir(to) && is_dataset(m, to, op->name2), -ENOTEMPTY);
	errs_add(&e, src < 0 && is_dir(from) && !is_dataset(m, from, op->name), -ENOENT);
	if (src >= 0 && is_dir(to) && src != dst)
		errs_rename(m, &e, op, src, dst);
	why = errs_check(m, &e, seen->rc);
	if (why || seen->rc)
		return why;
	if (src != dst)
		move_name(m, op, src, dst);
	why = match_attr(m, from, &seen->post[0]);
	return why ? why : match_attr(m, to, &seen->post[1]);
}

static int by_name(const char *name)
{
	for (unsigned i = 0; i < NAMES; i++)
		if (!strcmp(name_text(i), name))
			return (int)i;
	return -1;
}

static const char *match_entry(struct model *m, struct node *dir, const struct seen_entry *s,
			       uint64_t *last, bool found[NAMES])
{
	int name = by_name(s->name), node = name < 0 ? -1 : meaning(m, dir, (unsigned)name);
	struct node *n = at(m, node);
	uint64_t *cookie;

	if (node < 0 || found[name])
		return model_wrong("lists '%s'%s", s->name, node < 0 ? "" : " twice");
	found[name] = true;
	if (!n->ino)
		n->ino = s->ino;
	MATCH("number", s->ino, n->ino);
	if (s->cookie <= *last || s->cookie < 3 || s->cookie >= 0x80000000u)
		return model_wrong("lists '%s' with cookie %llu after %llu", s->name,
				   (unsigned long long)s->cookie, (unsigned long long)*last);
	*last = s->cookie;
	if (is_dataset(m, dir, (unsigned)name))
		return NULL;
	cookie = &dir->entry[name].cookie;
	if (*cookie && *cookie != s->cookie)
		return model_wrong("the cookie of '%s' is %llu, was %llu", s->name,
				   (unsigned long long)s->cookie, (unsigned long long)*cookie);
	*cookie = s->cookie;
	return NULL;
}

static const char *readdir(struct model *m, const struct op *op, const struct outcome *seen)
{
	const struct seen_entry *s = (struct seen_entry *)seen->data;
	struct node *dir = handle(m, op->h);
	bool found_[NAMES] = {0};
	struct errs e = {0};
	uint64_t last = 0;
	const char *why;

	if (went(dir, seen->rc))
		return NULL;
	errs_inode(m, &e, dir);
	errs_add(&e, !is_dir(dir), -ENOTDIR);
	why = errs_check(m, &e, seen->rc);
	if (why || seen->rc)
		return why;
	accessed(dir, op);
	for (size_t i = 0; i < seen->len / sizeof(*s); i++) {
		why = match_entry(m, dir, &s[i], &last, found_);
		if (why)
			return why;
	}
	for (unsigned i = 0; i < NAMES; i++)
		if (!found_[i] && meaning(m, dir, i) >= 0)
			return model_wrong("does not list '%s'", name_text(i));
	return NULL;
}

static const char *match_bytes(const struct outcome *seen, const uint8_t *want, size_t len,
			       size_t offset)
{
	if (seen->len != len)
		return model_wrong("gives %zu bytes, should give %zu", seen->len, len);
	for (size_t i = 0; i < len; i++)
		if (seen->data[i] != want[i])
			return model_wrong("byte %zu is %u, should be %u", offset + i,
					   seen->data[i], want[i]);
	return NULL;
}

static const char *readlink(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = handle(m, op->h);
	struct errs e = {0};
	const char *why;

	if (went(n, seen->rc))
		return NULL;
	errs_inode(m, &e, n);
	errs_add(&e, n->type != TARN_LNK, -EINVAL);
	why = errs_check(m, &e, seen->rc);
	if (why || seen->rc)
		return why;
	accessed(n, op);
	return match_bytes(seen, n->data->data, n->data->len, 0);
}

/* ---- inodes ---- */

static const char *get(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = handle(m, op->h);
	struct errs e = {0};
	const char *why;

	if (went(n, seen->rc))
		return NULL;
	errs_inode(m, &e, n);
	why = errs_check(m, &e, seen->rc);
	return why || seen->rc ? why : found(m, op, m->handle[op->h].node, seen);
}

static const char *open_close(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = handle(m, op->h);
	bool *open = &m->handle[op->h].open;
	struct errs e = {0};
	const char *why;

	if (op->kind == OP_CLOSE || op->kind == OP_DROP) {
		n->opens -= *open;
		*open = false;
		if (op->kind == OP_DROP)
			bind(m, op->h, -1);
		return NULL;
	}
	if (*open || went(n, seen->rc))
		return NULL;
	errs_inode(m, &e, n);
	why = errs_check(m, &e, seen->rc);
	if (!why && !seen->rc) {
		*open = true;
		n->opens++;
	}
	return why;
}

static const char *getattr(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = handle(m, op->h);
	struct errs e = {0};
	const char *why;

	if (went(n, seen->rc))
		return NULL;
	errs_inode(m, &e, n);
	why = errs_check(m, &e, seen->rc);
	return why || seen->rc ? why : match_attr(m, n, &seen->post[0]);
}

/* The bytes of [0, len), for a change of them. */
static uint8_t *own_data(struct node *n, size_t len)
{
	struct bytes *old = n->data, *own;

	if (old && old->holders == 1 && old->len >= len) {
		old->hash = 0;
		return old->data;
	}
	if (old && old->len > len)
		len = old->len;
	/* Room for more, so that a growing file is not copied each time. */
	own = bytes_new(NULL, len + len / 4);
	if (old)
		memcpy(own->data, old->data, old->len);
	bytes_drop(old);
	n->data = own;
	return own->data;
}

static void zero(struct node *n, uint64_t from, uint64_t to)
{
	size_t have = n->data ? n->data->len : 0;

	if (to > have)
		to = have;
	if (from < to)
		memset(own_data(n, 0) + from, 0, to - from);
}

static void resize(struct node *n, uint64_t size)
{
	if (size < n->size)
		zero(n, size, n->size);
	n->size = size;
}

static uint32_t stripped(uint32_t mode)
{
	return mode & ~(SUID | (mode & 010 ? SGID : 0));
}

static void errs_setattr(struct model *m, struct errs *e, const struct node *n,
			 const struct tarn_setattr *s, unsigned user)
{
	const struct tarn_cred *cred = model_user(user);
	bool owner = !cred || cred->uid == n->uid;

	errs_change(m, e, n);
	errs_add(e, (s->mask & TARN_SET_MODE) && s->mode > 07777, -EINVAL);
	if (s->mask & TARN_SET_SIZE) {
		errs_add(e, is_dir(n), -EISDIR);
		errs_add(e, !is_dir(n) && n->type != TARN_REG, -EINVAL);
		errs_add(e, s->size > TARN_FILE_MAX, -EFBIG);
	}
	if (!cred)
		return;
	errs_add(e, (s->mask & TARN_SET_UID) && !(owner && s->uid == n->uid), -EPERM);
	errs_add(e,
		 (s->mask & TARN_SET_GID) &&
		     !(owner && (s->gid == n->gid || model_in_group(user, s->gid))),
		 -EPERM);
	errs_add(e,
		 (s->mask & (TARN_SET_MODE | TARN_SET_ACL)) && !owner &&
		     !model_may(m, n, user, WRITE_ACL),
		 -EPERM);
	errs_add(e,
		 (s->mask & (TARN_SET_ATIME | TARN_SET_MTIME | TARN_SET_BTIME)) && !owner &&
		     !model_may(m, n, user, WRITE_ATTRIBUTES),
		 -EPERM);
	errs_add(e,
		 (s->mask & (TARN_SET_ATIME_NOW | TARN_SET_MTIME_NOW)) && !owner &&
		     !model_may(m, n, user, WRITE_DATA),
		 -EACCES);
}

static void apply_set(struct node *n, const struct tarn_setattr *s, unsigned user)
{
	if (s->mask & TARN_SET_SIZE)
		resize(n, s->size);
	if (s->mask & TARN_SET_UID)
		n->uid = s->uid;
	if (s->mask & TARN_SET_GID)
		n->gid = s->gid;
	if (s->mask & TARN_SET_MODE)
		n->mode = model_in_group(user, n->gid) ? s->mode : s->mode & ~SGID;
	else if (!is_dir(n) &&
		 ((s->mask & (TARN_SET_UID | TARN_SET_GID)) || ((s->mask & TARN_SET_SIZE) && user)))
		n->mode = stripped(n->mode);
	touch(n, (s->mask & TARN_SET_SIZE) || (s->mask & TARN_SET_MTIME_NOW));
	if (s->mask & (TARN_SET_ATIME | TARN_SET_ATIME_NOW))
		n->was_read = n->atime.known = false;
	if (s->mask & TARN_SET_ATIME)
		n->atime = (struct known_time){s->atime, !(s->mask & TARN_SET_ATIME_NOW)};
	if (s->mask & TARN_SET_MTIME)
		n->mtime = (struct known_time){s->mtime, !(s->mask & TARN_SET_MTIME_NOW)};
	if (s->mask & TARN_SET_BTIME)
		n->btime = (struct known_time){s->btime, true};
}

static const char *setattr(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = handle(m, op->h);
	struct tarn_setattr s;
	struct errs e = {0};
	const char *why;

	model_make_set(op, &s);
	if (went(n, seen->rc))
		return NULL;
	errs_setattr(m, &e, n, &s, op->user);
	why = errs_check(m, &e, seen->rc);
	if (why || seen->rc)
		return why;
	if (s.mask)
		apply_set(n, &s, op->user);
	why = match_attr(m, n, &seen->post[0]);
	if (!why && n->acl && (s.mask & TARN_SET_MODE))
		why = adopt_acl(n, seen->acl, true);
	return why;
}

/* As it was given; for others than directories without what is for directories. */
static const char *match_acl(const struct node *n, const struct tarn_acl *want,
			     const struct tarn_acl *is)
{
	if (!is || is->count != want->count)
		return model_wrong("the ACL has %u entries, should have %u", is ? is->count : 0,
				   want->count);
	for (uint32_t i = 0; i < want->count; i++) {
		struct tarn_ace ace = want->ace[i];

		if (!is_dir(n))
			ace.flags &= ~15u;
		if (memcmp(&ace, &is->ace[i], sizeof(ace)))
			return model_wrong("entry %u of the ACL is another one", i);
	}
	return NULL;
}

static const char *setacl(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct {
		struct tarn_acl acl;
		struct tarn_ace room[MODEL_ACES];
	} given;
	struct tarn_setattr s = {.mask = TARN_SET_ACL};
	struct node *n = handle(m, op->h);
	struct errs e = {0};
	const char *why;

	model_make_acl((uint32_t)op->a, op->b, &given.acl);
	if (went(n, seen->rc))
		return NULL;
	errs_setattr(m, &e, n, &s, op->user);
	errs_add(&e, !n->gone && model_prop(m, n->dataset, PROP_ACLTYPE, NULL) == 1, -EOPNOTSUPP);
	why = errs_check(m, &e, seen->rc);
	if (why || seen->rc)
		return why;
	touch(n, false);
	bytes_drop(n->acl);
	n->acl = NULL;
	if (given.acl.count) {
		why = match_acl(n, &given.acl, seen->acl);
		if (why)
			return why;
		n->acl = bytes_new(seen->acl->ace, seen->acl->count * sizeof(struct tarn_ace));
		n->mode = (n->mode & 07000) | model_acl_mode(n->acl);
	}
	return match_attr(m, n, &seen->post[0]);
}

static const char *getacl(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = handle(m, op->h);
	struct errs e = {0};
	struct bytes *is;
	const char *why;

	if (went(n, seen->rc))
		return NULL;
	errs_inode(m, &e, n);
	why = errs_check(m, &e, seen->rc);
	if (why || seen->rc)
		return why;
	if (n->acl && model_prop(m, n->dataset, PROP_ACLTYPE, NULL) != 1)
		return match_bytes(seen, n->acl->data, n->acl->len, 0);
	is = bytes_new(seen->data, seen->len);
	if (model_acl_mode(is) != (n->mode & 0777))
		why = model_wrong("the ACL means mode %o, but it is %o", model_acl_mode(is),
				  n->mode & 0777);
	bytes_drop(is);
	return why;
}

static const char *access_(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = handle(m, op->h);
	struct errs e = {0};

	if (went(n, seen->rc))
		return NULL;
	errs_inode(m, &e, n);
	errs_add(&e, !n->gone && !model_may(m, n, op->user, (uint32_t)op->a), -EACCES);
	return errs_check(m, &e, seen->rc);
}

static const char *verify(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = handle(m, op->h);
	struct errs e = {0};
	const char *why;

	if (went(n, seen->rc))
		return NULL;
	errs_inode(m, &e, n);
	why = errs_check(m, &e, seen->rc);
	if (!why && !seen->rc && seen->value != (n->exclusive && n->verifier == op->a))
		why = model_wrong("says %d", (int)seen->value);
	return why;
}

static const char *writable(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = handle(m, op->h);
	struct errs e = {0};

	if (n->gone || went(n, seen->rc))
		return NULL;
	errs_add(&e, m->read_only || model_prop(m, n->dataset, PROP_READONLY, NULL) == 1, -EROFS);
	return errs_check(m, &e, seen->rc);
}

/* ---- data ---- */

static void errs_file(struct errs *e, const struct node *n)
{
	errs_add(e, is_dir(n), -EISDIR);
	errs_add(e, !is_dir(n) && n->type != TARN_REG, -EINVAL);
}

static const char *read_(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = handle(m, op->h);
	struct errs e = {0};
	uint64_t left, len, have;
	const char *why;

	if (went(n, seen->rc))
		return NULL;
	errs_inode(m, &e, n);
	errs_file(&e, n);
	why = errs_check(m, &e, seen->rc);
	if (why || seen->rc)
		return why;
	accessed(n, op);
	left = n->size > op->a ? n->size - op->a : 0;
	len = op->b < left ? op->b : left;
	if (seen->eof != (op->b >= left))
		return model_wrong("%s the end of a file of %llu bytes",
				   seen->eof ? "reports" : "does not report",
				   (unsigned long long)n->size);
	have = n->data && n->data->len > op->a ? n->data->len - op->a : 0;
	if (have >= len)
		return match_bytes(seen, have ? n->data->data + op->a : NULL, len, op->a);
	for (uint64_t i = have; i < seen->len && seen->len == len; i++)
		if (seen->data[i])
			return model_wrong("byte %llu is %u, should be 0",
					   (unsigned long long)(op->a + i), seen->data[i]);
	if (seen->len != len)
		return model_wrong("gives %zu bytes, should give %llu", seen->len,
				   (unsigned long long)len);
	for (uint64_t i = 0; i < have; i++)
		if (seen->data[i] != n->data->data[op->a + i])
			return model_wrong("byte %llu is %u, should be %u",
					   (unsigned long long)(op->a + i), seen->data[i],
					   n->data->data[op->a + i]);
	return NULL;
}

static const char *write_(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = handle(m, op->h);
	struct errs e = {0};
	const char *why;

	if (went(n, seen->rc))
		return NULL;
	errs_change(m, &e, n);
	errs_file(&e, n);
	why = errs_check(m, &e, seen->rc);
	if (why || seen->rc)
		return why;
	if (seen->value != op->b)
		return model_wrong("%llu of %llu bytes written", (unsigned long long)seen->value,
				   (unsigned long long)op->b);
	if (op->b) {
		model_fill(own_data(n, op->a + op->b) + op->a, op->b, op->c);
		if (op->a + op->b > n->size)
			n->size = op->a + op->b;
		if (op->user)
			n->mode = stripped(n->mode);
		touch(n, true);
	}
	return match_attr(m, n, &seen->post[0]);
}

static const char *punch(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = handle(m, op->h);
	struct errs e = {0};
	const char *why;

	if (went(n, seen->rc))
		return NULL;
	errs_change(m, &e, n);
	errs_file(&e, n);
	errs_add(&e, !op->b, -EINVAL);
	why = errs_check(m, &e, seen->rc);
	if (why || seen->rc || op->a >= n->size)
		return why;
	zero(n, op->a, op->a + op->b);
	if (op->user)
		n->mode = stripped(n->mode);
	touch(n, true);
	return NULL;
}

static const char *allocate(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = handle(m, op->h);
	struct errs e = {0};
	const char *why;

	if (went(n, seen->rc))
		return NULL;
	errs_change(m, &e, n);
	errs_file(&e, n);
	errs_add(&e, !op->b, -EINVAL);
	why = errs_check(m, &e, seen->rc);
	if (why || seen->rc)
		return why;
	if (op->a + op->b > n->size)
		n->size = op->a + op->b;
	if (op->user)
		n->mode = stripped(n->mode);
	touch(n, true);
	return NULL;
}

static bool is_zero(const struct node *n, uint64_t from, uint64_t to)
{
	for (; n->data && from < to && from < n->data->len; from++)
		if (n->data->data[from])
			return false;
	return true;
}

static const char *seek(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = handle(m, op->h);
	uint64_t to = seen->value;
	struct errs e = {0};
	const char *why;

	if (went(n, seen->rc))
		return NULL;
	errs_inode(m, &e, n);
	errs_file(&e, n);
	why = errs_check(m, &e, seen->rc);
	if (why || seen->rc)
		return why;
	if (op->a >= n->size)
		return seen->eof ? NULL : "finds something behind the end";
	if (op->b)
		return seen->eof || to < op->a || to > n->size ||
			       (to < n->size && !is_zero(n, to, to + 1))
			   ? model_wrong("finds a hole at %llu", (unsigned long long)to)
			   : NULL;
	if (seen->eof)
		to = n->size;
	return to < op->a || to > n->size || !is_zero(n, op->a, to)
		   ? model_wrong("finds data at %llu", (unsigned long long)to)
		   : NULL;
}

/* ---- extended attributes ---- */

/* A dataset that is gone may have had them switched off. */
static void errs_xattr(const struct model *m, struct errs *e, const struct node *n)
{
	errs_add(e, n->gone || model_prop(m, n->dataset, PROP_XATTR, NULL) == 1, -EOPNOTSUPP);
}

static const char *xset(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = handle(m, op->h);
	unsigned x = op->name % XATTRS;
	bool there = n->xattr[x].there, removes = op->kind == OP_XREMOVE;
	struct errs e = {0};
	const char *why;

	if (went(n, seen->rc))
		return NULL;
	errs_change(m, &e, n);
	errs_xattr(m, &e, n);
	errs_add(&e, !n->gone && !model_may(m, n, op->user, WRITE_NAMED), -EACCES);
	errs_add(&e, !removes && op->a > TARN_XATTR_MAX, -E2BIG);
	errs_add(&e, !removes && op->c == TARN_XATTR_CREATE && there, -EEXIST);
	errs_add(&e, (removes || op->c == TARN_XATTR_REPLACE) && !there, -ENODATA);
	why = errs_check(m, &e, seen->rc);
	if (why || seen->rc)
		return why;
	n->xattr[x].there = !removes;
	n->xattr[x].len = (uint32_t)op->a;
	n->xattr[x].seed = op->b;
	touch(n, false);
	return NULL;
}

static const char *xget(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = handle(m, op->h);
	unsigned x = op->name % XATTRS;
	uint32_t len = n->xattr[x].len;
	struct errs e = {0};
	uint8_t *want;
	const char *why;

	if (went(n, seen->rc))
		return NULL;
	errs_inode(m, &e, n);
	errs_xattr(m, &e, n);
	errs_add(&e, !n->xattr[x].there, -ENODATA);
	errs_add(&e, n->xattr[x].there && op->a && op->a < len, -ERANGE);
	why = errs_check(m, &e, seen->rc);
	if (why || seen->rc)
		return why;
	if (seen->value != len)
		return model_wrong("its length is %llu, should be %u",
				   (unsigned long long)seen->value, len);
	if (!op->a)
		return NULL;
	want = malloc(len + 1);
	model_fill(want, len, n->xattr[x].seed);
	why = match_bytes(seen, want, len, 0);
	free(want);
	return why;
}

/* seen->data: bit x for each attribute in value, in the order of bytes in data. */
static const char *xlist(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = handle(m, op->h);
	bool off = !n->gone && model_prop(m, n->dataset, PROP_XATTR, NULL) == 1;
	uint64_t want = 0;
	struct errs e = {0};
	const char *why;

	if (went(n, seen->rc))
		return NULL;
	if (!off)
		errs_inode(m, &e, n);
	if (n->gone && !seen->rc)
		return NULL; /* where attributes are off, nobody looks */
	why = errs_check(m, &e, seen->rc);
	if (why || seen->rc)
		return why;
	for (unsigned x = 0; x < XATTRS && !off; x++)
		want |= (uint64_t)n->xattr[x].there << x;
	if (seen->value != want)
		return model_wrong("lists set %llx, should list set %llx",
				   (unsigned long long)seen->value, (unsigned long long)want);
	return NULL;
}

static const char *fsync_(struct model *m, const struct op *op, const struct outcome *seen)
{
	const struct node *n = handle(m, op->h);
	struct errs e = {0};

	/* Nothing of what is gone is left to be written. */
	if (went(n, seen->rc) || (n->gone && seen->rc == -ESTALE))
		return NULL;
	return errs_check(m, &e, seen->rc);
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
	return found(m, op, d->root, seen);
}

static const char *(*const steps[OP_KINDS])(struct model *, const struct op *,
					    const struct outcome *) = {
    [OP_CREATE] = create,      [OP_LOOKUP] = lookup,      [OP_LINK] = link_name,
    [OP_UNLINK] = unlink_name, [OP_RENAME] = rename_name, [OP_READDIR] = readdir,
    [OP_READLINK] = readlink,  [OP_VERIFY] = verify,      [OP_GET] = get,
    [OP_DROP] = open_close,    [OP_OPEN] = open_close,    [OP_CLOSE] = open_close,
    [OP_GETATTR] = getattr,    [OP_SETATTR] = setattr,    [OP_SETACL] = setacl,
    [OP_GETACL] = getacl,      [OP_WRITABLE] = writable,  [OP_ACCESS] = access_,
    [OP_READ] = read_,         [OP_WRITE] = write_,       [OP_PUNCH] = punch,
    [OP_ALLOCATE] = allocate,  [OP_SEEK] = seek,          [OP_XSET] = xset,
    [OP_XGET] = xget,          [OP_XREMOVE] = xset,       [OP_XLIST] = xlist,
    [OP_DROOT] = droot,        [OP_FSYNC] = fsync_,
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
