// SPDX-License-Identifier: LGPL-3.0-or-later
#include "dbus_request.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct request_block {
	struct request_block *next;
	max_align_t data[];
};

/* Zeroed memory for n elements (and one more: 0 elements have an address too). */
static void *request_alloc(struct request *rq, uint32_t n, size_t size)
{
	struct request_block *block = calloc(1, sizeof(*block) + ((size_t)n + 1) * size);

	if (!block) {
		rq->error.code = -ENOMEM;
		return NULL;
	}
	block->next = rq->memory;
	rq->memory = block;
	return block->data;
}

void request_free_memory(struct request *rq)
{
	while (rq->memory) {
		struct request_block *block = rq->memory;

		rq->memory = block->next;
		free(block);
	}
}

static const char *next_string(DBusMessageIter *iter)
{
	const char *text = NULL;

	assert(dbus_message_iter_get_arg_type(iter) == DBUS_TYPE_STRING);
	dbus_message_iter_get_basic(iter, &text);
	dbus_message_iter_next(iter);
	return text;
}

const char *take_string(struct request *rq)
{
	return next_string(&rq->in);
}

static const char **next_strings(struct request *rq, DBusMessageIter *iter, uint32_t *n)
{
	DBusMessageIter array;
	const char **strings;

	*n = (uint32_t)dbus_message_iter_get_element_count(iter);
	strings = request_alloc(rq, *n, sizeof(*strings));
	dbus_message_iter_recurse(iter, &array);
	for (uint32_t i = 0; strings && i < *n; i++)
		strings[i] = next_string(&array);
	dbus_message_iter_next(iter);
	return strings;
}

const char **take_strings(struct request *rq, uint32_t *n)
{
	return next_strings(rq, &rq->in, n);
}

struct tarn_prop *take_props(struct request *rq, uint32_t *n)
{
	DBusMessageIter array;
	struct tarn_prop *props;

	*n = (uint32_t)dbus_message_iter_get_element_count(&rq->in);
	props = request_alloc(rq, *n, sizeof(*props));
	dbus_message_iter_recurse(&rq->in, &array);
	for (uint32_t i = 0; props && i < *n; i++) {
		DBusMessageIter entry;

		dbus_message_iter_recurse(&array, &entry);
		props[i].name = next_string(&entry);
		props[i].value = next_string(&entry);
		dbus_message_iter_next(&array);
	}
	dbus_message_iter_next(&rq->in);
	return props;
}

static int group_kind(struct request *rq, const char *name, struct tarn_group_spec *group)
{
	const char *word = name;

	if (!strncmp(name, "log ", 4)) {
		group->class = TARN_CLASS_LOG;
		word += 4;
	}
	for (unsigned kind = 0; kind < TARN_GROUP_KINDS; kind++) {
		group->kind = kind;
		if (!strcmp(word, tarn_group_kind_name(kind)))
			return 0;
	}
	return request_fail(rq, -EINVAL,
			    "unknown kind of group '%s': use single, mirror, raidz1, raidz2 or "
			    "raidz3, or one of the first two after 'log '",
			    name);
}

struct tarn_group_spec *take_groups(struct request *rq, uint32_t *n)
{
	DBusMessageIter array;
	struct tarn_group_spec *groups;

	*n = (uint32_t)dbus_message_iter_get_element_count(&rq->in);
	groups = request_alloc(rq, *n, sizeof(*groups));
	dbus_message_iter_recurse(&rq->in, &array);
	for (uint32_t i = 0; groups && i < *n; i++) {
		DBusMessageIter fields;

		dbus_message_iter_recurse(&array, &fields);
		if (group_kind(rq, next_string(&fields), &groups[i]))
			return NULL;
		groups[i].paths = next_strings(rq, &fields, &groups[i].ndevs);
		if (!groups[i].paths)
			return NULL;
		dbus_message_iter_next(&array);
	}
	dbus_message_iter_next(&rq->in);
	return groups;
}

static const struct {
	const char *name;
	int type;
	size_t offset;
} option_table[] = {
#define OPTION(type, member)                                                                       \
	{                                                                                          \
#member, type, offsetof(struct request_options, member)                            \
	}
    OPTION(DBUS_TYPE_BOOLEAN, force),     OPTION(DBUS_TYPE_BOOLEAN, dry_run),
    OPTION(DBUS_TYPE_BOOLEAN, recursive), OPTION(DBUS_TYPE_BOOLEAN, parents),
    OPTION(DBUS_TYPE_BOOLEAN, raw),       OPTION(DBUS_TYPE_BOOLEAN, read_only),
    OPTION(DBUS_TYPE_BOOLEAN, rewind),    OPTION(DBUS_TYPE_BOOLEAN, drop_log),
    OPTION(DBUS_TYPE_BOOLEAN, temporary), OPTION(DBUS_TYPE_STRING, command),
    OPTION(DBUS_TYPE_STRING, new_name),   OPTION(DBUS_TYPE_STRING, after),
    OPTION(DBUS_TYPE_UINT64, first),      OPTION(DBUS_TYPE_UINT64, limit),
    OPTION(DBUS_TYPE_UINT64, arc_max),    OPTION(DBUS_TYPE_UINT64, dirty_max),
#undef OPTION
};

/* Is word one of the space-separated words of list? */
static bool word_in(const char *word, const char *list)
{
	size_t length = strlen(word);

	for (const char *at = list; *at; at += strspn(at, " ")) {
		size_t n = strcspn(at, " ");

		if (n == length && !memcmp(at, word, n))
			return true;
		at += n;
	}
	return false;
}

static int take_option(struct request *rq, const char *key, DBusMessageIter *variant)
{
	DBusMessageIter value;

	dbus_message_iter_recurse(variant, &value);
	for (size_t i = 0; i < sizeof(option_table) / sizeof(option_table[0]); i++) {
		if (strcmp(option_table[i].name, key) || !word_in(key, rq->method->options))
			continue;
		if (dbus_message_iter_get_arg_type(&value) != option_table[i].type)
			return request_fail(rq, -EINVAL, "option '%s' must be of type '%c'", key,
					    option_table[i].type);
		dbus_message_iter_get_basic(&value, (char *)&rq->options + option_table[i].offset);
		return 0;
	}
	return request_fail(rq, -EINVAL, "%s has no option '%s'; it knows: %s", rq->method->name,
			    key, rq->method->options);
}

int take_options(struct request *rq)
{
	DBusMessageIter array;
	int r = 0;

	dbus_message_iter_recurse(&rq->in, &array);
	while (!r && dbus_message_iter_get_arg_type(&array) == DBUS_TYPE_DICT_ENTRY) {
		DBusMessageIter entry;
		const char *key;

		dbus_message_iter_recurse(&array, &entry);
		key = next_string(&entry);
		r = take_option(rq, key, &entry);
		dbus_message_iter_next(&array);
	}
	dbus_message_iter_next(&rq->in);
	return r;
}

int request_flags(const struct request *rq)
{
	return (rq->options.force ? TARN_FORCE : 0) | (rq->options.dry_run ? TARN_DRY_RUN : 0) |
	       (rq->options.read_only ? TARN_READ_ONLY : 0) |
	       (rq->options.rewind ? TARN_REWIND : 0) | (rq->options.drop_log ? TARN_DROP_LOG : 0);
}

uint32_t request_limit(const struct request *rq)
{
	if (rq->options.limit == 0)
		return PAGE_DEFAULT;
	return rq->options.limit < PAGE_MAX ? (uint32_t)rq->options.limit : PAGE_MAX;
}

int request_fail(struct request *rq, int result, const char *format, ...)
{
	va_list args;

	if (rq->error.text[0])
		return result;
	va_start(args, format);
	vsnprintf(rq->error.text, sizeof(rq->error.text), format, args);
	va_end(args);
	return result;
}

void request_record(struct request *rq, const char *path)
{
	char pool[TARN_POOL_NAME_MAX + 1], text[4096];
	int length = (int)strcspn(path, "/");

	if (rq->options.dry_run ||
	    snprintf(pool, sizeof(pool), "%.*s", length, path) >= (int)sizeof(pool))
		return;
	if (rq->options.command)
		snprintf(text, sizeof(text), "%s", rq->options.command);
	else
		snprintf(text, sizeof(text), "%s.%s %s", rq->method->interface, rq->method->name,
			 path);
	/* The change itself is made: a history that cannot be written does not undo it. */
	(void)tarn_pool_history_add(rq->engine, pool, text);
}

static void put_basic(struct out *out, int type, const void *value, size_t bytes)
{
	out->bytes += bytes;
	if (!out->failed && !dbus_message_iter_append_basic(&out->iter, type, value))
		out->failed = true;
}

/* Length of the UTF-8 character at text, 0 if there is none. */
static size_t utf8_char(const char *text)
{
	for (size_t n = 1; n <= 4 && text[n - 1]; n++) {
		char part[5] = {0};

		memcpy(part, text, n);
		if (dbus_validate_utf8(part, NULL))
			return n;
	}
	return 0;
}

static char *escape(const char *text)
{
	char *copy = malloc(strlen(text) * 4 + 1), *to = copy;

	while (copy && *text) {
		size_t n = utf8_char(text);

		if (n) {
			to = mempcpy(to, text, n);
			text += n;
		} else {
			to += sprintf(to, "\\%03o", (unsigned char)*text++);
		}
	}
	if (copy)
		*to = '\0';
	return copy;
}

void put_text(struct out *out, const char *text)
{
	char *copy = NULL;

	if (!dbus_validate_utf8(text, NULL)) {
		copy = escape(text);
		text = copy ? copy : "";
		out->failed |= !copy;
	}
	put_basic(out, DBUS_TYPE_STRING, &text, strlen(text) + 8);
	free(copy);
}

void put_u64(struct out *out, uint64_t value)
{
	put_basic(out, DBUS_TYPE_UINT64, &value, 8);
}

void put_i64(struct out *out, int64_t value)
{
	put_basic(out, DBUS_TYPE_INT64, &value, 8);
}

void put_open(struct out *parent, int type, const char *signature, struct out *child)
{
	*child = (struct out){0};
	if (!parent->failed)
		child->opened =
		    dbus_message_iter_open_container(&parent->iter, type, signature, &child->iter);
	child->failed = !child->opened;
}

void put_close(struct out *parent, struct out *child)
{
	parent->bytes += child->bytes + 8;
	parent->failed |= child->failed;
	if (child->opened && child->failed)
		dbus_message_iter_abandon_container(&parent->iter, &child->iter);
	else if (child->opened && !dbus_message_iter_close_container(&parent->iter, &child->iter))
		parent->failed = true;
}

static void put_entry(struct out *dict, const char *key, int type, const char *signature,
		      const void *value)
{
	struct out entry, variant;

	put_open(dict, DBUS_TYPE_DICT_ENTRY, NULL, &entry);
	put_text(&entry, key);
	put_open(&entry, DBUS_TYPE_VARIANT, signature, &variant);
	if (type == DBUS_TYPE_STRING)
		put_text(&variant, value);
	else
		put_basic(&variant, type, value, 16);
	put_close(&entry, &variant);
	put_close(dict, &entry);
}

void put_entry_text(struct out *dict, const char *key, const char *text)
{
	put_entry(dict, key, DBUS_TYPE_STRING, "s", text);
}

void put_entry_u64(struct out *dict, const char *key, uint64_t value)
{
	put_entry(dict, key, DBUS_TYPE_UINT64, "t", &value);
}

void put_entry_i64(struct out *dict, const char *key, int64_t value)
{
	put_entry(dict, key, DBUS_TYPE_INT64, "x", &value);
}

void put_entry_bool(struct out *dict, const char *key, bool value)
{
	dbus_bool_t b = value;

	put_entry(dict, key, DBUS_TYPE_BOOLEAN, "b", &b);
}

void put_entry_open(struct out *dict, const char *key, const char *element, struct out_array *a)
{
	char signature[32];

	snprintf(signature, sizeof(signature), "a%s", element);
	put_open(dict, DBUS_TYPE_DICT_ENTRY, NULL, &a->entry);
	put_text(&a->entry, key);
	put_open(&a->entry, DBUS_TYPE_VARIANT, signature, &a->variant);
	put_open(&a->variant, DBUS_TYPE_ARRAY, element, &a->array);
}

void put_entry_close(struct out *dict, struct out_array *a)
{
	put_close(&a->variant, &a->array);
	put_close(&a->entry, &a->variant);
	put_close(dict, &a->entry);
}
