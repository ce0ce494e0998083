// SPDX-License-Identifier: LGPL-3.0-or-later
/* Datasets and their properties, for the model. */
#include "model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int model_child_dataset(const struct model *m, int dataset, unsigned name)
{
	for (int i = 0; i < OBJECTS; i++)
		if (m->dataset[i].live && m->dataset[i].above == dataset &&
		    m->dataset[i].name == name)
			return i;
	return -1;
}

int model_find_dataset(const struct model *m, unsigned path)
{
	int above = dataset_above(path);

	if (above < 0)
		return 0;
	above = model_find_dataset(m, (unsigned)above);
	return above < 0 ? -1 : model_child_dataset(m, above, dataset_name(path));
}

void model_dataset_path(const struct model *m, int dataset, char out[TARN_PATH_MAX])
{
	if (dataset == 0) {
		strcpy(out, dataset_text(0));
		return;
	}
	model_dataset_path(m, m->dataset[dataset].above, out);
	strcat(out, "/");
	strcat(out, name_text(m->dataset[dataset].name));
}

/* The number of the value in force. *from (may be NULL): the dataset that sets it, or -1. */
unsigned model_prop(const struct model *m, int dataset, unsigned prop, int *from)
{
	while (dataset >= 0 && m->dataset[dataset].local[prop] < 0)
		dataset = m->dataset[dataset].above;
	if (from)
		*from = dataset;
	return dataset < 0 ? PROP_DEFAULT : (unsigned)m->dataset[dataset].local[prop];
}

/* A child dataset comes or goes: a change of the directory that it appears in. */
static void count_child(struct model *m, int above, int more)
{
	struct node *root = &m->node[m->dataset[above].root];

	root->nlink = (uint32_t)((int)root->nlink + more);
	/* Without space the directory can't tell. */
	root->changed = !m->tight;
	root->mtime.known = root->ctime.known = false;
}

static int add_dataset(struct model *m, int above, unsigned name)
{
	int i = 0, root;

	while (m->dataset[i].live)
		i++;
	if (i >= OBJECTS)
		abort();
	m->dataset[i] = (struct model_dataset){.live = true, .above = (int16_t)above, .name = name};
	memset(m->dataset[i].local, -1, sizeof(m->dataset[i].local));
	root = model_new_node(m, TARN_DIR, i);
	m->node[root].mode = 0755;
	m->dataset[i].root = (int16_t)root;
	count_child(m, above, 1);
	return i;
}

static bool is_entry(const struct model *m, int dataset, unsigned name)
{
	return m->node[m->dataset[dataset].root].entry[name].node >= 0;
}

static bool has_children(const struct model *m, int dataset)
{
	for (unsigned name = 0; name < 3; name++)
		if (model_child_dataset(m, dataset, name) >= 0)
			return true;
	return false;
}

/* It came, and went again because there was no room for its root directory. */
static void came_and_went(struct model *m, int above)
{
	struct node *root = &m->node[m->dataset[above].root];

	root->mtime.known = root->ctime.known = false;
}

static const char *create(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct errs e = {.change = true};
	int above = op->name ? model_find_dataset(m, (unsigned)dataset_above(op->name)) : -1;
	unsigned up = op->name ? (unsigned)dataset_above(op->name) : 0;
	bool there = model_find_dataset(m, op->name) >= 0;
	const char *why;

	/* With its parents it is wanted, not made. */
	if (there && op->a)
		return errs_check(m, &(struct errs){0}, seen->rc);
	errs_add(&e, !op->name, -EINVAL);
	errs_add(&e, op->name && above < 0 && !op->a, -ENOENT);
	errs_add(&e, m->read_only, -EROFS);
	errs_add(&e, above >= 0 && is_entry(m, above, dataset_name(op->name)), -EEXIST);
	errs_add(&e, there, -EEXIST);
	errs_add(&e, op->name && above < 0 && is_entry(m, 0, dataset_name(up)), -EEXIST);
	why = errs_check(m, &e, seen->rc);
	if (seen->rc == -ENOSPC && above >= 0)
		came_and_went(m, above);
	if (why || seen->rc)
		return why;
	if (above < 0)
		above = add_dataset(m, 0, dataset_name(up));
	above = add_dataset(m, above, dataset_name(op->name));
	m->dataset[above].local[op->name2 % PROPS] = (int8_t)(op->b % PROP_VALUES);
	return NULL;
}

static void destroy_tree(struct model *m, int dataset)
{
	for (int i = 0; i < OBJECTS; i++)
		if (m->dataset[i].live && m->dataset[i].above == dataset)
			destroy_tree(m, i);
	m->dataset[dataset].live = false;
	count_child(m, m->dataset[dataset].above, -1);
	for (int i = m->nodes; i-- > 0;) {
		struct node *n = &m->node[i];

		if (i >= m->nodes || !n->used || n->gone || n->dataset != dataset)
			continue;
		n->gone = true;
		n->nlink = 0;
		for (int k = 0; k < NAMES; k++)
			n->entry[k].node = -1;
		model_settle(m, i);
	}
}

static const char *destroy(struct model *m, const struct op *op, const struct outcome *seen)
{
	int dataset = model_find_dataset(m, op->name);
	struct errs e = {.change = true};
	const char *why;

	errs_add(&e, dataset < 0, -ENOENT);
	errs_add(&e, m->read_only, -EROFS);
	errs_add(&e, dataset == 0, -EINVAL);
	errs_add(&e, dataset >= 0 && has_children(m, dataset) && !op->a, -ENOTEMPTY);
	why = errs_check(m, &e, seen->rc);
	if (!why && !seen->rc && !op->b)
		destroy_tree(m, dataset);
	return why;
}

static bool is_below(const struct model *m, int dataset, int top)
{
	while (dataset >= 0 && dataset != top)
		dataset = m->dataset[dataset].above;
	return dataset >= 0;
}

static const char *rename_dataset(struct model *m, const struct op *op, const struct outcome *seen)
{
	int dataset = model_find_dataset(m, op->name), into = -1;
	unsigned name = 0;
	struct errs e = {.change = true};
	const char *why;

	if (op->name2) {
		into = model_find_dataset(m, (unsigned)dataset_above(op->name2));
		name = dataset_name(op->name2);
	}
	errs_add(&e, !op->name || !op->name2, -EINVAL);
	errs_add(&e, dataset < 0 || (op->name2 && into < 0), -ENOENT);
	errs_add(&e, m->read_only, -EROFS);
	errs_add(&e, dataset >= 0 && into >= 0 && is_below(m, into, dataset), -EINVAL);
	errs_add(&e, into >= 0 && is_entry(m, into, name), -EEXIST);
	errs_add(&e, into >= 0 && model_child_dataset(m, into, name) >= 0, -EEXIST);
	why = errs_check(m, &e, seen->rc);
	if (why || seen->rc)
		return why;
	count_child(m, m->dataset[dataset].above, -1);
	count_child(m, into, 1);
	m->dataset[dataset].above = (int16_t)into;
	m->dataset[dataset].name = name;
	return NULL;
}

static void inherit(struct model *m, int dataset, unsigned prop, bool recursive)
{
	m->dataset[dataset].local[prop] = -1;
	for (int i = 0; recursive && i < OBJECTS; i++)
		if (m->dataset[i].live && m->dataset[i].above == dataset)
			inherit(m, i, prop, true);
}

static const char *set(struct model *m, const struct op *op, const struct outcome *seen)
{
	int dataset = model_find_dataset(m, op->name);
	unsigned prop = op->name2 % PROPS;
	struct errs e = {.change = true};
	const char *why;

	errs_add(&e, dataset < 0, -ENOENT);
	errs_add(&e, m->read_only, -EROFS);
	why = errs_check(m, &e, seen->rc);
	if (why || seen->rc)
		return why;
	if (op->kind == OP_DINHERIT)
		inherit(m, dataset, prop, op->a);
	else
		m->dataset[dataset].local[prop] = (int8_t)(op->a % PROP_VALUES);
	return NULL;
}

/* seen->data: "value source from\n", or nothing. */
static const char *get(struct model *m, const struct op *op, const struct outcome *seen)
{
	int dataset = model_find_dataset(m, op->name), from;
	unsigned prop = op->name2 % PROPS, value;
	char path[TARN_PATH_MAX] = "", want[TARN_PATH_MAX + 64] = "";
	struct errs e = {0};
	const char *why;

	errs_add(&e, dataset < 0, -ENOENT);
	why = errs_check(m, &e, seen->rc);
	if (why || seen->rc)
		return why;
	value = model_prop(m, dataset, prop, &from);
	if (from >= 0 && from != dataset)
		model_dataset_path(m, from, path);
	if (from >= 0 || prop != PROP_NOTE)
		snprintf(want, sizeof(want), "%s %d %s\n", prop_values[prop][value],
			 from < 0          ? TARN_PROP_DEFAULT
			 : from == dataset ? TARN_PROP_LOCAL
					   : TARN_PROP_INHERITED,
			 path);
	if (strlen(want) != seen->len || (seen->len && memcmp(want, seen->data, seen->len)))
		return model_wrong("says '%.*s', should say '%s'", (int)seen->len,
				   (char *)seen->data, want);
	return NULL;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* seen->data: paths, one a line. */
static const char *list(struct model *m, const struct op *op, const struct outcome *seen)
{
	int top = model_find_dataset(m, op->name);
	char paths[OBJECTS][TARN_PATH_MAX], want[OBJECTS * 64] = "";
	struct errs e = {0};
	const char *why;
	size_t n = 0;

	errs_add(&e, top < 0, -ENOENT);
	why = errs_check(m, &e, seen->rc);
	if (why || seen->rc)
		return why;
	for (int i = 0; i < OBJECTS; i++)
		if (m->dataset[i].live && (op->a ? is_below(m, i, top) : i == top))
			model_dataset_path(m, i, paths[n++]);
	qsort(paths, n, TARN_PATH_MAX, by_text);
	for (size_t i = 0; i < n; i++) {
		strcat(want, paths[i]);
		strcat(want, "\n");
	}
	if (strlen(want) != seen->len || (seen->len && memcmp(want, seen->data, seen->len)))
		return model_wrong("lists '%.*s', should list '%s'", (int)seen->len,
				   (char *)seen->data, want);
	return NULL;
}

const char *model_step_dataset(struct model *m, const struct op *op, const struct outcome *seen)
{
	struct errs e = {0};

	switch (op->kind) {
	case OP_DCREATE:
		return create(m, op, seen);
	case OP_DDESTROY:
		return destroy(m, op, seen);
	case OP_DRENAME:
		return rename_dataset(m, op, seen);
	case OP_DSET:
	case OP_DINHERIT:
		return set(m, op, seen);
	case OP_DGET:
		return get(m, op, seen);
	case OP_DLIST:
		return list(m, op, seen);
	default: /* OP_STATFS: free <= avail <= total in value */
		errs_add(&e, model_find_dataset(m, op->name) < 0, -ENOENT);
		if (!seen->rc && !seen->value)
			return "space does not add up";
		return errs_check(m, &e, seen->rc);
	}
}
