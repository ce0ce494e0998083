// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Output: sizes for people, tables, lists of objects with chosen columns, properties, JSON.
 */
#ifndef TARN_TOOLS_PRINT_H
#define TARN_TOOLS_PRINT_H

#include "tarn.h"

#include <time.h>

/* 1.50G, 96K, 512: at most five characters, as zfs prints them. */
void nice_size(uint64_t bytes, char text[32]);
/* 2026-11-30.12:00:00 */
void nice_time(time_t when, char text[32]);

/* Prints {"version": 1, key: value}; takes over value. */
void print_json(const char *key, struct json_object *value);

/* Cells from left to right, row by row. With plain, no header and tabs between cells. */
struct table;
struct table *table_new(bool plain);
void table_column(struct table *table, const char *header, bool right);
void table_cell(struct table *table, const char *text);
/* Prints and frees it. */
void table_print(struct table *table);

enum column_kind { COLUMN_TEXT, COLUMN_SIZE, COLUMN_NUMBER, COLUMN_PERCENT, COLUMN_TIME };

struct column {
	const char *name, *alias; /* alias may be NULL */
	const char *header;
	const char *key; /* of the objects */
	enum column_kind kind;
};

/* Columns by their names, separated by commas. A name that is not known becomes a text
   column of that key with known = false. */
struct columns {
	struct chosen {
		struct column column;
		bool known;
	} * list;
	size_t n;
};
struct columns choose_columns(const struct column *known, const char *names);

/* Prints objects: as a table, or with -j as JSON under that key; -H, -p as everywhere. */
void print_objects(const struct args *args, const struct columns *columns,
		   struct json_object *objects, const char *key);

/* Sorts objects by -s and -S columns. */
void sort_objects(const struct args *args, const struct column *known, struct json_object *objects);

/* Prints properties of several objects: each {"name": ..., "properties": rows of (property,
   value, source[, from])}, of which those in names ("all" or a list with commas) are wanted. */
void print_properties(const struct args *args, const char *names, struct json_object *objects,
		      const char *key);

#endif
