// SPDX-License-Identifier: LGPL-3.0-or-later
/* Names: what a directory's operations must answer, and what they change. */
#include <errno.h>
#include <string.h>

#include "model_step.h"

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

static bool is_empty(const struct node *dir)
{
	for (int i = 0; i < NAMES; i++)
		if (dir->entry[i].node >= 0)
			return false;
	return true;
}

static void put_entry(struct model *m, int dir, unsigned name, int node)
{
	m->node[dir].entry[name].node = (int16_t)node;
	m->node[dir].entry[name].cookie = 0;
	touch_node(&m->node[dir], true);
}

static void errs_name(struct errs *e, unsigned name)
{
	errs_add(e, name == NAME_EMPTY || name == NAME_SLASH, -EINVAL);
	errs_add(e, name == NAME_LONG, -ENAMETOOLONG);
}

const char *step_lookup(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *dir = node_of_handle(m, op->h);
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
	return found_node(m, op, node, seen);
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
		bind_node(m, op->to, node);
	return why;
}

const char *step_create(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *dir = node_of_handle(m, op->h);
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
		return found_node(m, op, is, seen);
	}
	if (!seen->rc && again && op->a == TARN_REG) {
		e = (struct errs){0};
		errs_change(m, &e, dir);
		why = errs_check(m, &e, 0);
		why = why ? why : match_attr(m, &m->node[is], &seen->post[0]);
		why = why ? why : match_attr(m, dir, &seen->post[1]);
		return why ? why : found_node(m, op, is, seen);
	}
	why = errs_check(m, &e, seen->rc);
	return why || seen->rc ? why : create_new(m, op, seen);
}

const char *step_link(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = node_of_handle(m, op->h), *dir = node_of_handle(m, op->h2);
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
	touch_node(n, false);
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
	touch_node(n, false);
	model_settle(m, node);
}

const char *step_unlink(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *dir = node_of_handle(m, op->h), *n;
	int node = is_dir(dir) ? meaning(m, dir, op->name) : -1;
	struct errs e = {0};
	const char *why;

	if (went(dir, seen->rc))
		return NULL;
	n = node_at(m, node);
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
	struct node *from = node_of_handle(m, op->h), *to = node_of_handle(m, op->h2),
		    *n = node_at(m, src);

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
	touch_node(&m->node[src], false);
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

const char *step_rename(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *from = node_of_handle(m, op->h), *to = node_of_handle(m, op->h2);
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
	struct node *n = node_at(m, node);
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

const char *step_readdir(struct model *m, const struct op *op, const struct outcome *seen)
{
	const struct seen_entry *s = (struct seen_entry *)seen->data;
	struct node *dir = node_of_handle(m, op->h);
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

const char *step_readlink(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = node_of_handle(m, op->h);
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
