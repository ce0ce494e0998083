// SPDX-License-Identifier: LGPL-3.0-or-later
/* Data of regular files. */
#include <errno.h>
#include <string.h>

#include "model_step.h"

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

void resize_data(struct node *n, uint64_t size)
{
	if (size < n->size)
		zero(n, size, n->size);
	n->size = size;
}

static void errs_file(struct errs *e, const struct node *n)
{
	errs_add(e, is_dir(n), -EISDIR);
	errs_add(e, !is_dir(n) && n->type != TARN_REG, -EINVAL);
}

const char *step_read(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = node_of_handle(m, op->h);
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

const char *step_write(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = node_of_handle(m, op->h);
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
		touch_node(n, true);
	}
	return match_attr(m, n, &seen->post[0]);
}

const char *step_punch(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = node_of_handle(m, op->h);
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
	touch_node(n, true);
	return NULL;
}

const char *step_allocate(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = node_of_handle(m, op->h);
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
	touch_node(n, true);
	return NULL;
}

static bool is_zero(const struct node *n, uint64_t from, uint64_t to)
{
	for (; n->data && from < to && from < n->data->len; from++)
		if (n->data->data[from])
			return false;
	return true;
}

const char *step_seek(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct node *n = node_of_handle(m, op->h);
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

const char *step_fsync(struct model *m, const struct op *op, const struct outcome *seen)
{
	const struct node *n = node_of_handle(m, op->h);
	struct errs e = {0};

	/* Nothing of what is gone is left to be written. */
	if (went(n, seen->rc) || (n->gone && seen->rc == -ESTALE))
		return NULL;
	return errs_check(m, &e, seen->rc);
}
