// SPDX-License-Identifier: LGPL-3.0-or-later
#include "model_script.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/*
 * An operation's fields in the order of its line: the letter is the member (h, i = h2, t = to,
 * n, m = name2, u, a, b, c), what follows it its name in the text.
 */
static const struct {
	const char *name;
	const char *fields[8];
} kinds[OP_KINDS] = {
    [OP_CREATE] = {"create", {"hin", "nname", "tto", "atype", "bmode", "uas", "cexclusive"}},
    [OP_LOOKUP] = {"lookup", {"hin", "nname", "tto"}},
    [OP_LINK] = {"link", {"hinode", "iin", "nname", "uas"}},
    [OP_UNLINK] = {"unlink", {"hin", "nname", "ais_dir", "uas"}}, /* is_dir: 0 any, 1 no, 2 yes */
    [OP_RENAME] = {"rename", {"hin", "nname", "iinto", "mnew_name", "uas"}},
    [OP_READDIR] = {"readdir", {"hin", "aat_once"}},
    [OP_READLINK] = {"readlink", {"hinode"}},
    [OP_VERIFY] = {"verify", {"hinode", "averifier"}},
    [OP_GET] = {"get", {"hinode", "tto"}},
    [OP_DROP] = {"drop", {"hinode"}},
    [OP_OPEN] = {"open", {"hinode"}},
    [OP_CLOSE] = {"close", {"hinode"}},
    [OP_GETATTR] = {"getattr", {"hinode"}},
    [OP_SETATTR] = {"setattr", {"hinode", "amask", "bmode", "csize", "nowner", "uas"}},
    [OP_SETACL] = {"setacl", {"hinode", "aentries", "bseed", "uas"}},
    [OP_GETACL] = {"getacl", {"hinode"}},
    [OP_ACCESS] = {"access", {"hinode", "amask", "uas"}},
    [OP_WRITABLE] = {"writable", {"hinode"}},
    [OP_READ] = {"read", {"hinode", "aoffset", "blength"}},
    [OP_WRITE] = {"write", {"hinode", "aoffset", "blength", "cseed", "nstable", "uas"}},
    [OP_PUNCH] = {"punch", {"hinode", "aoffset", "blength", "uas"}},
    [OP_ALLOCATE] = {"allocate", {"hinode", "aoffset", "blength", "uas"}},
    [OP_SEEK] = {"seek", {"hinode", "aoffset", "bhole"}},
    [OP_FSYNC] = {"fsync", {"hinode"}},
    [OP_WAIT] = {"wait", {"aasync"}},
    [OP_XSET] = {"xset", {"hinode", "nname", "alength", "bseed", "chow", "uas"}},
    [OP_XGET] = {"xget", {"hinode", "nname", "aroom"}},
    [OP_XREMOVE] = {"xremove", {"hinode", "nname", "uas"}},
    [OP_XLIST] = {"xlist", {"hinode", "aat_once"}},
    [OP_DCREATE] = {"dcreate", {"ndataset", "aparents", "bvalue", "mproperty"}},
    [OP_DDESTROY] = {"ddestroy", {"ndataset", "arecursive", "bdry_run"}},
    [OP_DRENAME] = {"drename", {"ndataset", "mto_dataset"}},
    [OP_DSET] = {"dset", {"ndataset", "mproperty", "avalue"}},
    [OP_DINHERIT] = {"dinherit", {"ndataset", "mproperty", "arecursive"}},
    [OP_DGET] = {"dget", {"ndataset", "mproperty"}},
    [OP_DLIST] = {"dlist", {"ndataset", "arecursive"}},
    [OP_DROOT] = {"droot", {"ndataset", "tto"}},
    [OP_STATFS] = {"statfs", {"ndataset"}},
    [OP_POOL] = {"pool", {"alayout", "bmegabytes", "crecordsize"}},
    [OP_REMOUNT] = {"remount", {"ahow"}},
    [OP_CRASH] = {"crash", {"aseed", "bhow"}},
    [OP_AUDIT] = {"audit", {NULL}},
    [OP_FILL] = {"fill", {NULL}},
    [OP_DRAIN] = {"drain", {NULL}},
    [OP_FAULT] = {"fault", {"akind", "btimes", "cseed"}},
    [OP_REPAIR] = {"repair", {NULL}},
};

static char long_name[256];

static const char *const names[ALL_NAMES] = {"a",
					     "b",
					     "c",
					     "Makefile",
					     "\xff\xfe raw\n",
					     "x.v",
					     "lib",
					     ".hidden",
					     "top",
					     long_name,
					     [NAME_DOT] = ".",
					     [NAME_DOTDOT] = "..",
					     [NAME_EMPTY] = "",
					     [NAME_SLASH] = "a/b"};

const char *name_text(unsigned name)
{
	static char too_long[257];

	if (!long_name[0])
		memset(long_name, 'n', 255);
	if (!too_long[0])
		memset(too_long, 'n', 256);
	return name == NAME_LONG ? too_long : names[name];
}

int dataset_above(unsigned dataset)
{
	return dataset == 0 ? -1 : dataset < 4 ? 0 : (int)(dataset - 4) / 3 + 1;
}

unsigned dataset_name(unsigned dataset)
{
	return (dataset - 1) % 3;
}

int dataset_below(unsigned dataset, int name)
{
	return dataset < 4 && name < 3 ? (int)(dataset * 3 + 1) + name : -1;
}

const char *dataset_text(unsigned dataset)
{
	static const char *const paths[DATASETS] = {
	    "tank",     "tank/a",   "tank/b",   "tank/c",   "tank/a/a", "tank/a/b", "tank/a/c",
	    "tank/b/a", "tank/b/b", "tank/b/c", "tank/c/a", "tank/c/b", "tank/c/c"};

	return paths[dataset];
}

const char *const prop_names[PROPS] = {"readonly",    "xattr",      "acltype",
				       "compression", "recordsize", "test:note"};
const char *const prop_values[PROPS][PROP_VALUES] = {
    {"off", "on", "off"},   {"on", "off", "on"},           {"nfsv4", "off", "nfsv4"},
    {"lz4", "off", "zstd"}, {"131072", "4096", "1048576"}, {"none", "one", "another"},
};

void script_add(struct script *s, const struct op *op)
{
	if (s->n == s->room) {
		s->room = s->room ? 2 * s->room : 64;
		s->ops = realloc(s->ops, s->room * sizeof(*s->ops));
		if (!s->ops)
			abort();
	}
	s->ops[s->n++] = *op;
}

void script_free(struct script *s)
{
	free(s->ops);
	*s = (struct script){0};
}

/* ---- text ---- */

static uint64_t field_get(const struct op *op, char field)
{
	switch (field) {
	case 'h':
		return op->h;
	case 'i':
		return op->h2;
	case 't':
		return op->to;
	case 'n':
		return op->name;
	case 'm':
		return op->name2;
	case 'u':
		return op->user;
	case 'a':
		return op->a;
	case 'b':
		return op->b;
	default:
		return op->c;
	}
}

static bool field_set(struct op *op, char field, uint64_t value)
{
	uint8_t *byte = field == 'h'   ? &op->h
			: field == 'i' ? &op->h2
			: field == 't' ? &op->to
			: field == 'n' ? &op->name
			: field == 'm' ? &op->name2
			: field == 'u' ? &op->user
				       : NULL;

	if (byte) {
		*byte = (uint8_t)value;
		return value < (field == 't'          ? 256
				: strchr("hi", field) ? MODEL_HANDLES
				: strchr("nm", field) ? ALL_NAMES
						      : 3);
	}
	*(field == 'a' ? &op->a : field == 'b' ? &op->b : &op->c) = value;
	return true;
}

void op_print(const struct op *op, FILE *to)
{
	fprintf(to, "%u %s", op->thread, kinds[op->kind].name);
	for (int i = 0; i < 8 && kinds[op->kind].fields[i]; i++)
		fprintf(to, " %s=%" PRIu64, kinds[op->kind].fields[i] + 1,
			field_get(op, kinds[op->kind].fields[i][0]));
	fputc('\n', to);
}

void script_print(const struct script *s, FILE *to)
{
	for (size_t i = 0; i < s->n; i++)
		op_print(&s->ops[i], to);
}

static bool parse_field(struct op *op, const char *word)
{
	for (int i = 0; i < 8 && kinds[op->kind].fields[i]; i++) {
		const char *field = kinds[op->kind].fields[i];
		size_t len = strlen(field + 1);
		char *end;

		if (strncmp(word, field + 1, len) || word[len] != '=')
			continue;
		return field_set(op, field[0], strtoull(word + len + 1, &end, 0)) && !*end &&
		       end > word + len + 1;
	}
	return false;
}

static bool op_parse(char *line, struct op *op)
{
	char *save, *word = strtok_r(line, " \n", &save);
	unsigned kind = 0;

	*op = (struct op){.to = NO_HANDLE};
	if (!word || word[0] < '0' || word[0] > '3' || word[1])
		return false;
	op->thread = (uint8_t)(word[0] - '0');
	word = strtok_r(NULL, " \n", &save);
	while (word && kind < OP_KINDS && strcmp(kinds[kind].name, word))
		kind++;
	if (!word || kind == OP_KINDS)
		return false;
	op->kind = (uint8_t)kind;
	while ((word = strtok_r(NULL, " \n", &save)))
		if (!parse_field(op, word))
			return false;
	return true;
}

bool script_parse(FILE *from, struct script *s, size_t *line)
{
	char text[512];
	struct op op;

	for (*line = 1; fgets(text, sizeof(text), from); ++*line) {
		if (text[0] == '#' || text[0] == '\n')
			continue;
		if (!op_parse(text, &op))
			return false;
		script_add(s, &op);
	}
	return true;
}
