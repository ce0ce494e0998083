// SPDX-License-Identifier: LGPL-3.0-or-later
/* Inodes, their attributes and ACLs. */
#include <errno.h>
#include <string.h>

#include "model_step.h"

const char *step_get(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = node_of_handle(m, op->h);
	struct errs e = {0};
	const char *why;

	if (went(n, seen->rc))
		return NULL;
	errs_inode(m, &e, n);
	why = errs_check(m, &e, seen->rc);
	return why || seen->rc ? why : found_node(m, op, m->handle[op->h].node, seen);
}

const char *step_open(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = node_of_handle(m, op->h);
	bool *open = &m->handle[op->h].open;
	struct errs e = {0};
	const char *why;

	if (op->kind == OP_CLOSE || op->kind == OP_DROP) {
		n->opens -= *open;
		*open = false;
		if (op->kind == OP_DROP)
			bind_node(m, op->h, -1);
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

const char *step_getattr(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = node_of_handle(m, op->h);
	struct errs e = {0};
	const char *why;

	if (went(n, seen->rc))
		return NULL;
	errs_inode(m, &e, n);
	why = errs_check(m, &e, seen->rc);
	return why || seen->rc ? why : match_attr(m, n, &seen->post[0]);
}

uint32_t stripped(uint32_t mode)
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
		resize_data(n, s->size);
	if (s->mask & TARN_SET_UID)
		n->uid = s->uid;
	if (s->mask & TARN_SET_GID)
		n->gid = s->gid;
	if (s->mask & TARN_SET_MODE)
		n->mode = model_in_group(user, n->gid) ? s->mode : s->mode & ~SGID;
	else if (!is_dir(n) &&
		 ((s->mask & (TARN_SET_UID | TARN_SET_GID)) || ((s->mask & TARN_SET_SIZE) && user)))
		n->mode = stripped(n->mode);
	touch_node(n, (s->mask & TARN_SET_SIZE) || (s->mask & TARN_SET_MTIME_NOW));
	if (s->mask & (TARN_SET_ATIME | TARN_SET_ATIME_NOW))
		n->was_read = n->atime.known = false;
	if (s->mask & TARN_SET_ATIME)
		n->atime = (struct known_time){s->atime, !(s->mask & TARN_SET_ATIME_NOW)};
	if (s->mask & TARN_SET_MTIME)
		n->mtime = (struct known_time){s->mtime, !(s->mask & TARN_SET_MTIME_NOW)};
	if (s->mask & TARN_SET_BTIME)
		n->btime = (struct known_time){s->btime, true};
}

const char *step_setattr(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = node_of_handle(m, op->h);
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

/* The inode's ACL as the engine shows it; it must mean the mode. masked: a mode was asked for. */
const char *adopt_acl(struct node *n, const struct tarn_acl *acl, bool masked)
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

const char *step_setacl(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct {
		struct tarn_acl acl;
		struct tarn_ace room[MODEL_ACES];
	} given;
	struct tarn_setattr s = {.mask = TARN_SET_ACL};
	struct node *n = node_of_handle(m, op->h);
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
	touch_node(n, false);
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

const char *step_getacl(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = node_of_handle(m, op->h);
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

const char *step_access(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = node_of_handle(m, op->h);
	struct errs e = {0};

	if (went(n, seen->rc))
		return NULL;
	errs_inode(m, &e, n);
	errs_add(&e, !n->gone && !model_may(m, n, op->user, (uint32_t)op->a), -EACCES);
	return errs_check(m, &e, seen->rc);
}

const char *step_verify(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = node_of_handle(m, op->h);
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

const char *step_writable(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = node_of_handle(m, op->h);
	struct errs e = {0};

	if (n->gone || went(n, seen->rc))
		return NULL;
	errs_add(&e, m->read_only || model_prop(m, n->dataset, PROP_READONLY, NULL) == 1, -EROFS);
	return errs_check(m, &e, seen->rc);
}
