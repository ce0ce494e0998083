// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * tarn, the administrator's command: commands, their arguments, and what all share.
 * Exit status: 0 done, 1 failed, 2 used wrongly.
 */
#ifndef TARN_TOOLS_TARN_H
#define TARN_TOOLS_TARN_H

#include <json-c/json.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct args;

struct command {
	const char *noun, *verb;
	const char *letters; /* of its options, as for getopt() */
	int min, max;        /* operands; max -1 = any number */
	const char *synopsis;
	const char *help;
	void (*run)(const struct args *args);
};

/* End with a zeroed element. */
extern const struct command pool_commands[];
extern const struct command fs_commands[];
extern const struct command cache_commands[];

/* A parsed command line. */
struct args {
	const struct command *command;
	struct option_use {
		int letter;
		const char *value;
	} * options; /* in their order */
	size_t noptions;
	char **operands;
	int noperands;
	char *line; /* as typed, for the pool's history */
};

/* Ends the program with a message on bad usage; NULL: help is asked for. */
struct args *parse_args(const struct command *command, int argc, char **argv);

bool has_option(const struct args *args, int letter);
/* The value of its last use, NULL without one. */
const char *option_value(const struct args *args, int letter);
/* The uses of an option with a "property=value" as one object. */
struct json_object *option_props(const struct args *args, int letter);
/* Adds a "property=value" to props. */
void add_prop(const struct args *args, struct json_object *props, const char *text);

/* The options of a request that changes a pool: the command line, and a boolean for each use
   of a letter, e.g. "f=force n=dry_run". */
struct json_object *change_options(const struct args *args, const char *letters);

/* A path as the server, whose directory is /, finds it. */
char *absolute_path(const char *name);
/* The same for a device: sda is /dev/sda. */
char *device_path(const char *name);

/* "1.5G", "512K", "4096" in bytes. */
uint64_t parse_size(const struct args *args, const char *text);

/* The text of an object's member. */
const char *get_text(struct json_object *object, const char *key);
uint64_t get_number(struct json_object *object, const char *key);
bool get_bool(struct json_object *object, const char *key);

/* p, which must not be NULL. */
void *checked(void *p);

_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void usage_error(const struct args *args, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
