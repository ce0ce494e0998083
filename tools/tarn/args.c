// SPDX-License-Identifier: LGPL-3.0-or-later
#include "tarn.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

void *checked(void *p)
{
	if (!p)
		fail("out of memory");
	return p;
}

/* The command line, quoted where a shell would need it. */
static char *join(int argc, char **argv)
{
	char *line = NULL;
	size_t size;
	FILE *stream = checked(open_memstream(&line, &size));

	fputs("tarn", stream);
	for (int i = 1; i < argc; i++) {
		bool quote = !argv[i][0] || strpbrk(argv[i], " \t\n\"'\\$`*?[](){}<>|&;#~");

		fputs(quote ? " '" : " ", stream);
		for (const char *c = argv[i]; *c; c++)
			fputs(*c == '\'' ? "'\\''" : (char[2]){*c}, stream);
		fputs(quote ? "'" : "", stream);
	}
	if (fclose(stream))
		fail("out of memory");
	return line;
}

static void check_encoding(int argc, char **argv)
{
	mbstate_t state = {0};

	setlocale(LC_CTYPE, "C.UTF-8");
	for (int i = 1; i < argc; i++) {
		const char *text = argv[i];

		if (mbsrtowcs(NULL, &text, 0, &state) == (size_t)-1)
			fail("argument %d is not valid UTF-8", i);
	}
}

static void add_option(struct args *args, int letter, const char *value)
{
	args->options =
	    checked(reallocarray(args->options, args->noptions + 1, sizeof(*args->options)));
	args->options[args->noptions++] = (struct option_use){letter, value};
}

struct args *parse_args(const struct command *command, int argc, char **argv)
{
	static const struct option long_options[] = {
	    {"help", no_argument, NULL, 'h'}, {"json", no_argument, NULL, 'j'}, {0}};
	struct args *args = checked(calloc(1, sizeof(*args)));
	char letters[64];
	int letter;

	check_encoding(argc, argv);
	args->command = command;
	args->line = join(argc, argv);
	snprintf(letters, sizeof(letters), ":h%s", command->letters);
	/* The verb stands where getopt() expects the program. */
	argc -= 2;
	argv += 2;
	while ((letter = getopt_long(argc, argv, letters, long_options, NULL)) != -1) {
		if (letter == 'h')
			return NULL;
		if (letter == ':')
			usage_error(args, "-%c needs a value", optopt);
		if (letter == '?' || !strchr(letters, letter))
			usage_error(args, "unknown option %s", argv[optind - 1]);
		add_option(args, letter, optarg);
	}
	args->operands = argv + optind;
	args->noperands = argc - optind;
	if (args->noperands < command->min)
		usage_error(args, "an argument is missing");
	if (command->max >= 0 && args->noperands > command->max)
		usage_error(args, "too many arguments: '%s'", args->operands[command->max]);
	return args;
}

bool has_option(const struct args *args, int letter)
{
	for (size_t i = 0; i < args->noptions; i++)
		if (args->options[i].letter == letter)
			return true;
	return false;
}

const char *option_value(const struct args *args, int letter)
{
	const char *value = NULL;

	for (size_t i = 0; i < args->noptions; i++)
		if (args->options[i].letter == letter)
			value = args->options[i].value;
	return value;
}

void add_prop(const struct args *args, struct json_object *props, const char *text)
{
	const char *equals = strchr(text, '=');
	char *name;

	if (!equals || equals == text)
		usage_error(args, "'%s' is not of the form property=value", text);
	name = checked(strndup(text, (size_t)(equals - text)));
	if (json_object_object_get_ex(props, name, NULL))
		usage_error(args, "property '%s' is given twice", name);
	json_object_object_add(props, name, json_object_new_string(equals + 1));
	free(name);
}

struct json_object *option_props(const struct args *args, int letter)
{
	struct json_object *props = json_object_new_object();

	for (size_t i = 0; i < args->noptions; i++)
		if (args->options[i].letter == letter)
			add_prop(args, props, args->options[i].value);
	return props;
}

struct json_object *change_options(const struct args *args, const char *letters)
{
	struct json_object *options = json_object_new_object();
	char name[64];
	int used = 0;

	json_object_object_add(options, "command", json_object_new_string(args->line));
	for (char letter; sscanf(letters, " %c=%63s%n", &letter, name, &used) == 2; letters += used)
		if (has_option(args, letter))
			json_object_object_add(options, name, json_object_new_boolean(true));
	return options;
}

char *absolute_path(const char *name)
{
	char real[PATH_MAX], *path = NULL, *copy = checked(strdup(name));
	struct stat st;

	if (!stat(name, &st) && S_ISDIR(st.st_mode)) {
		free(copy);
		return checked(realpath(name, NULL));
	}
	/* The last component of a device stays as it is: it may be a link whose name means
	   more than what it points to today. */
	if (!realpath(dirname(copy), real))
		fail("cannot find '%s': %s", name, strerror(errno));
	free(copy);
	copy = checked(strdup(name));
	if (asprintf(&path, "%s/%s", strcmp(real, "/") ? real : "", basename(copy)) < 0)
		fail("out of memory");
	free(copy);
	return path;
}

char *device_path(const char *name)
{
	char *path = NULL;

	if (name[0] == '/')
		return checked(strdup(name));
	if (!strchr(name, '/') && name[0] != '.') {
		if (asprintf(&path, "/dev/%s", name) < 0)
			fail("out of memory");
		if (!access(path, F_OK) || access(name, F_OK))
			return path;
		free(path);
	}
	return absolute_path(name);
}

uint64_t parse_size(const struct args *args, const char *text)
{
	static const char units[] = "KMGTPE";
	const char *unit;
	char *end;
	double value;
	int shift = 0;

	errno = 0;
	value = strtod(text, &end);
	if (*end && (unit = strchr(units, toupper((unsigned char)*end)))) {
		shift = 10 * (int)(unit - units + 1);
		end++;
	}
	value *= (double)(1ull << shift);
	if (!isdigit((unsigned char)text[0]) || errno || *end || value >= 0x1p63)
		usage_error(args, "'%s' is not a size such as 512M or 4G", text);
	return (uint64_t)value;
}

const char *get_text(struct json_object *object, const char *key)
{
	struct json_object *value = json_object_object_get(object, key);

	return value ? json_object_get_string(value) : "";
}

uint64_t get_number(struct json_object *object, const char *key)
{
	return json_object_get_uint64(json_object_object_get(object, key));
}

bool get_bool(struct json_object *object, const char *key)
{
	return json_object_get_boolean(json_object_object_get(object, key));
}
