// SPDX-License-Identifier: LGPL-3.0-or-later
/* Extended attributes. */
#include <errno.h>
#include <stdlib.h>

#include "model_step.h"

/* A dataset that is gone may have had them switched off. */
static void errs_xattr(const struct model *m, struct errs *e, const struct node *n)
{
	errs_add(e, n->gone || model_prop(m, n->dataset, PROP_XATTR, NULL) == 1, -EOPNOTSUPP);
}

const char *step_xset(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = node_of_handle(m, op->h);
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
	touch_node(n, false);
	return NULL;
}

const char *step_xget(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = node_of_handle(m, op->h);
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
const char *step_xlist(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = node_of_handle(m, op->h);
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
