// SPDX-License-Identifier: LGPL-3.0-or-later
#include "print.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void nice_size(uint64_t bytes, char text[32])
{
	static const char units[] = "BKMGTPE";
	unsigned unit = 0;
	double value;

	while (bytes >> (10 * unit) >= 1024)
		unit++;
	value = (double)bytes / (double)(1ull << (10 * unit));
	if (unit == 0)
		snprintf(text, 32, "%" PRIu64 "B", bytes);
	else if ((bytes & ((1ull << (10 * unit)) - 1)) == 0)
		snprintf(text, 32, "%.0f%c", value, units[unit]);
	else
		/* As many digits as fit: 1.50G, 15.0G, 150G. */
		snprintf(text, 32, "%.*f%c",
			 value < 9.995   ? 2
			 : value < 99.95 ? 1
					 : 0,
			 value, units[unit]);
}

void nice_time(time_t when, char text[32])
{
	struct tm tm;

	localtime_r(&when, &tm);
	strftime(text, 32, "%Y-%m-%d.%H:%M:%S", &tm);
}

void print_json(const char *key, struct json_object *value)
{
	struct json_object *root = json_object_new_object();

	json_object_object_add(root, "version", json_object_new_int(1));
	json_object_object_add(root, key, value);
	puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY |
						      JSON_C_TO_STRING_SPACED |
						      JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(root);
}

struct table {
	bool plain;
	size_t ncolumns, ncells;
	struct {
		bool right;
		int width;
	} columns[32];
	char **cells;
};

struct table *table_new(bool plain)
{
	struct table *table = checked(calloc(1, sizeof(*table)));

	table->plain = plain;
	return table;
}

/* Characters, not bytes: continuation bytes of UTF-8 take no room. */
static int text_width(const char *text)
{
	int width = 0;

	for (; *text; text++)
		width += ((unsigned char)*text & 0xc0) != 0x80;
	return width;
}

void table_cell(struct table *table, const char *text)
{
	size_t column = table->ncells % table->ncolumns;
	int width = text_width(text);

	if ((table->ncells & (table->ncells + 1)) == 0)
		table->cells =
		    checked(realloc(table->cells, (table->ncells + 1) * 2 * sizeof(*table->cells)));
	table->cells[table->ncells++] = checked(strdup(text));
	if (table->columns[column].width < width)
		table->columns[column].width = width;
}

void table_column(struct table *table, const char *header, bool right)
{
	if (table->ncolumns == sizeof(table->columns) / sizeof(table->columns[0]))
		fail("too many columns");
	table->columns[table->ncolumns].right = right;
	table->columns[table->ncolumns].width = 0;
	table->ncolumns++;
	if (!table->plain)
		table_cell(table, header);
}

static void print_cell(const struct table *table, size_t i)
{
	size_t column = i % table->ncolumns;
	bool last = column + 1 == table->ncolumns;
	int pad = table->columns[column].width - text_width(table->cells[i]);

	if (table->plain)
		printf("%s%s", table->cells[i], last ? "\n" : "\t");
	else if (table->columns[column].right)
		printf("%*s%s%s", pad, "", table->cells[i], last ? "\n" : "  ");
	else
		printf("%s%*s%s", table->cells[i], last ? 0 : pad, "", last ? "\n" : "  ");
}

void table_print(struct table *table)
{
	for (size_t i = 0; i < table->ncells; i++) {
		print_cell(table, i);
		free(table->cells[i]);
	}
	free(table->cells);
	free(table);
}

static const struct column *find_column(const struct column *known, const char *name)
{
	for (; known->name; known++)
		if (!strcmp(known->name, name) || (known->alias && !strcmp(known->alias, name)))
			return known;
	return NULL;
}

static char *upper(const char *text)
{
	char *copy = checked(strdup(text));

	for (char *c = copy; *c; c++)
		*c = (char)toupper((unsigned char)*c);
	return copy;
}

struct columns choose_columns(const struct column *known, const char *names)
{
	struct columns columns = {0};
	char *copy = checked(strdup(names)), *rest = copy, *name;

	while ((name = strsep(&rest, ","))) {
		const struct column *found = find_column(known, name);
		struct chosen *chosen;

		columns.list =
		    checked(reallocarray(columns.list, columns.n + 1, sizeof(*columns.list)));
		chosen = &columns.list[columns.n++];
		chosen->known = found;
		chosen->column = found ? *found
				       : (struct column){.name = name,
							 .key = name,
							 .header = upper(name),
							 .kind = COLUMN_TEXT};
	}
	return columns;
}

static void format_cell(enum column_kind kind, struct json_object *value, bool parsable, char *text,
			size_t size)
{
	uint64_t number = json_object_get_uint64(value);

	if (!value)
		snprintf(text, size, "-");
	else if (json_object_is_type(value, json_type_boolean))
		snprintf(text, size, "%s", json_object_get_boolean(value) ? "yes" : "no");
	else if (kind == COLUMN_TEXT || parsable)
		snprintf(text, size, "%s", json_object_get_string(value));
	else if (kind == COLUMN_SIZE)
		nice_size(number, text);
	else if (kind == COLUMN_PERCENT)
		snprintf(text, size, "%" PRIu64 "%%", number);
	else if (kind == COLUMN_TIME)
		nice_time((time_t)number, text);
	else
		snprintf(text, size, "%" PRIu64, number);
}

static void print_table(const struct args *args, const struct columns *columns,
			struct json_object *objects)
{
	struct table *table = table_new(has_option(args, 'H'));
	bool parsable = has_option(args, 'p');

	for (size_t c = 0; c < columns->n; c++)
		table_column(table, columns->list[c].column.header,
			     columns->list[c].column.kind != COLUMN_TEXT);
	for (size_t i = 0; i < json_object_array_length(objects); i++) {
		struct json_object *object = json_object_array_get_idx(objects, i);

		for (size_t c = 0; c < columns->n; c++) {
			const struct column *column = &columns->list[c].column;
			char text[8192];

			format_cell(column->kind, json_object_object_get(object, column->key),
				    parsable, text, sizeof(text));
			table_cell(table, text);
		}
	}
	table_print(table);
}

/* A property's value for JSON: integers as numbers. What a user wrote stays text. */
static struct json_object *json_value(const char *property, struct json_object *value)
{
	const char *text = json_object_get_string(value);
	uint64_t number;
	char *end;

	if (!json_object_is_type(value, json_type_string) || strchr(property, ':') ||
	    !strcmp(property, "comment") || !isdigit((unsigned char)text[0]))
		return json_object_get(value);
	errno = 0;
	number = strtoull(text, &end, 10);
	return errno || *end ? json_object_get(value) : json_object_new_uint64(number);
}

void print_objects(const struct args *args, const struct columns *columns,
		   struct json_object *objects, const char *key)
{
	struct json_object *array;

	if (!has_option(args, 'j')) {
		print_table(args, columns, objects);
		return;
	}
	array = json_object_new_array();
	for (size_t i = 0; i < json_object_array_length(objects); i++) {
		struct json_object *object = json_object_array_get_idx(objects, i);
		struct json_object *copy = json_object_new_object();

		for (size_t c = 0; c < columns->n; c++) {
			const struct column *column = &columns->list[c].column;
			struct json_object *value = json_object_object_get(object, column->key);

			json_object_object_add(copy, column->key,
					       value ? json_value(column->key, value) : NULL);
		}
		json_object_array_add(array, copy);
	}
	print_json(key, array);
}

struct sort_order {
	const struct args *args;
	const struct column *known;
};

/* The number that text such as 128K stands for; false if it is none. */
static bool text_number(const char *text, double *number)
{
	static const char units[] = "KMGTPE";
	const char *unit;
	char *end;

	*number = strtod(text, &end);
	if (end == text)
		return false;
	unit = *end ? strchr(units, *end) : NULL;
	if (unit) {
		*number *= (double)(1ull << (10 * (unit - units + 1)));
		end++;
	}
	return !*end;
}

static int compare_values(struct json_object *a, struct json_object *b)
{
	const char *s = a ? json_object_get_string(a) : "", *t = b ? json_object_get_string(b) : "";
	double x, y;

	if (json_object_is_type(a, json_type_int) && json_object_is_type(b, json_type_int)) {
		uint64_t m = json_object_get_uint64(a), n = json_object_get_uint64(b);

		return (m > n) - (m < n);
	}
	if (text_number(s, &x) && text_number(t, &y))
		return (x > y) - (x < y);
	return strcmp(s, t);
}

struct sorted {
	struct json_object *object;
	size_t place; /* before sorting: equal ones keep their order */
};

static int compare_objects(const void *a, const void *b, void *arg)
{
	const struct sort_order *order = arg;
	const struct sorted *x = a, *y = b;

	for (size_t i = 0; i < order->args->noptions; i++) {
		const struct option_use *use = &order->args->options[i];
		const struct column *column;
		const char *key;
		int difference;

		if (use->letter != 's' && use->letter != 'S')
			continue;
		column = find_column(order->known, use->value);
		key = column ? column->key : use->value;
		difference = compare_values(json_object_object_get(x->object, key),
					    json_object_object_get(y->object, key));
		if (difference)
			return use->letter == 's' ? difference : -difference;
	}
	return (x->place > y->place) - (x->place < y->place);
}

void sort_objects(const struct args *args, const struct column *known, struct json_object *objects)
{
	size_t n = json_object_array_length(objects);
	struct sort_order order = {args, known};
	struct sorted *list;

	if (n == 0 || (!has_option(args, 's') && !has_option(args, 'S')))
		return;
	list = checked(calloc(n, sizeof(*list)));
	for (size_t i = 0; i < n; i++)
		list[i] =
		    (struct sorted){json_object_get(json_object_array_get_idx(objects, i)), i};
	qsort_r(list, n, sizeof(*list), compare_objects, &order);
	for (size_t i = 0; i < n; i++)
		json_object_array_put_idx(objects, i, list[i].object);
	free(list);
}

/* Position of row in the comma-separated names; -1 if it is not wanted. */
static bool wanted(const char *property, const char *names)
{
	size_t length = strlen(property);

	for (const char *at = names; *at; at += *at == ',') {
		size_t n = strcspn(at, ",");

		if ((n == 3 && !memcmp(at, "all", 3)) || (n == length && !memcmp(at, property, n)))
			return true;
		at += n;
	}
	return false;
}

static const char *row_text(struct json_object *row, size_t i)
{
	struct json_object *value = json_object_array_get_idx(row, i);

	return value ? json_object_get_string(value) : "";
}

/* Writes the row as the object of -j; "from" only where it is inherited. */
static struct json_object *property_json(struct json_object *row)
{
	struct json_object *property = json_object_new_object();

	json_object_object_add(property, "value",
			       json_value(row_text(row, 0), json_object_array_get_idx(row, 1)));
	json_object_object_add(property, "source", json_object_new_string(row_text(row, 2)));
	if (row_text(row, 3)[0])
		json_object_object_add(property, "from", json_object_new_string(row_text(row, 3)));
	return property;
}

static void print_properties_json(const char *names, struct json_object *objects, const char *key)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < json_object_array_length(objects); i++) {
		struct json_object *object = json_object_array_get_idx(objects, i);
		struct json_object *rows = json_object_object_get(object, "properties");
		struct json_object *copy = json_object_new_object();
		struct json_object *properties = json_object_new_object();

		for (size_t r = 0; r < json_object_array_length(rows); r++) {
			struct json_object *row = json_object_array_get_idx(rows, r);

			if (wanted(row_text(row, 0), names))
				json_object_object_add(properties, row_text(row, 0),
						       property_json(row));
		}
		json_object_object_add(copy, "name",
				       json_object_get(json_object_object_get(object, "name")));
		json_object_object_add(copy, "properties", properties);
		json_object_array_add(array, copy);
	}
	print_json(key, array);
}

enum property_field { FIELD_NAME, FIELD_PROPERTY, FIELD_VALUE, FIELD_SOURCE, N_FIELDS };

static size_t choose_fields(const struct args *args, enum property_field fields[N_FIELDS])
{
	static const char *const names[] = {"name", "property", "value", "source"};
	const char *chosen = option_value(args, 'o');
	char *copy = checked(strdup(chosen ? chosen : "name,property,value,source"));
	char *rest = copy, *name;
	size_t n = 0;

	while ((name = strsep(&rest, ","))) {
		enum property_field f = FIELD_NAME;

		while (f < N_FIELDS && strcmp(names[f], name))
			f++;
		if (f == N_FIELDS || n == N_FIELDS)
			usage_error(args, "-o takes fields of: name,property,value,source");
		fields[n++] = f;
	}
	free(copy);
	return n;
}

static void property_cells(struct table *table, const enum property_field *fields, size_t nfields,
			   const char *name, struct json_object *row)
{
	char source[1200];

	snprintf(source, sizeof(source), "%s%s%s", row_text(row, 2),
		 row_text(row, 3)[0] ? " from " : "", row_text(row, 3));
	for (size_t f = 0; f < nfields; f++) {
		switch (fields[f]) {
		case FIELD_NAME:
			table_cell(table, name);
			break;
		case FIELD_PROPERTY:
			table_cell(table, row_text(row, 0));
			break;
		case FIELD_VALUE:
			table_cell(table, row_text(row, 1)[0] ? row_text(row, 1) : "-");
			break;
		default:
			table_cell(table, source);
		}
	}
}

void print_properties(const struct args *args, const char *names, struct json_object *objects,
		      const char *key)
{
	static const char *const headers[] = {"NAME", "PROPERTY", "VALUE", "SOURCE"};
	enum property_field fields[N_FIELDS];
	size_t nfields = choose_fields(args, fields);
	struct table *table;

	if (has_option(args, 'j')) {
		print_properties_json(names, objects, key);
		return;
	}
	table = table_new(has_option(args, 'H'));
	for (size_t f = 0; f < nfields; f++)
		table_column(table, headers[fields[f]], false);
	for (size_t i = 0; i < json_object_array_length(objects); i++) {
		struct json_object *object = json_object_array_get_idx(objects, i);
		struct json_object *rows = json_object_object_get(object, "properties");

		for (size_t r = 0; r < json_object_array_length(rows); r++) {
			struct json_object *row = json_object_array_get_idx(rows, r);

			if (wanted(row_text(row, 0), names))
				property_cells(table, fields, nfields, get_text(object, "name"),
					       row);
		}
	}
	table_print(table);
}
