// SPDX-License-Identifier: LGPL-3.0-or-later
#include "tarn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *noun;
	const struct command *commands;
} nouns[] = {
    {"pool", pool_commands},
    {"fs", fs_commands},
    {"cache", cache_commands},
};
#define N_NOUNS (sizeof(nouns) / sizeof(nouns[0]))

static const struct command *noun_commands(const char *noun)
{
	for (size_t i = 0; i < N_NOUNS; i++)
		if (!strcmp(nouns[i].noun, noun))
			return nouns[i].commands;
	return NULL;
}

static void list_commands(FILE *to, const struct command *commands)
{
	for (; commands->noun; commands++)
		fprintf(to, "  tarn %s %s %s\n", commands->noun, commands->verb,
			commands->synopsis);
}

static void list_all(FILE *to)
{
	fputs("usage: tarn NOUN VERB [OPTION]... [ARGUMENT]...\n", to);
	for (size_t i = 0; i < N_NOUNS; i++)
		list_commands(to, nouns[i].commands);
	fputs("More about one of them: tarn help NOUN VERB\n", to);
}

static void print_help(const struct command *command)
{
	printf("usage: tarn %s %s %s\n\n%s\n", command->noun, command->verb, command->synopsis,
	       command->help);
}

static const struct command *find_command(const char *noun, const char *verb)
{
	const struct command *commands = noun_commands(noun);

	if (!commands) {
		fprintf(stderr, "tarn: there is no '%s'; use pool, fs or cache\n", noun);
		list_all(stderr);
		exit(2);
	}
	for (const struct command *c = commands; verb && c->noun; c++)
		if (!strcmp(c->verb, verb))
			return c;
	if (verb)
		fprintf(stderr, "tarn: 'tarn %s' has no verb '%s'\n", noun, verb);
	fputs("usage:\n", stderr);
	list_commands(stderr, commands);
	exit(2);
}

static void help(int argc, char **argv)
{
	if (argc == 0)
		list_all(stdout);
	else if (argc == 1 && noun_commands(argv[0]))
		list_commands(stdout, noun_commands(argv[0]));
	else
		print_help(find_command(argv[0], argc > 1 ? argv[1] : NULL));
}

_Noreturn void usage_error(const struct args *args, const char *format, ...)
{
	const struct command *command = args->command;
	va_list list;

	fputs("tarn: ", stderr);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fprintf(stderr, "\nusage: tarn %s %s %s\n", command->noun, command->verb,
		command->synopsis);
	exit(2);
}

_Noreturn void fail(const char *format, ...)
{
	va_list list;

	fflush(stdout);
	fputs("tarn: ", stderr);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	exit(1);
}

int main(int argc, char **argv)
{
	const struct command *command;
	struct args *args;

	if (argc < 2) {
		list_all(stderr);
		return 2;
	}
	if (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		help(argc - 2, argv + 2);
		return 0;
	}
	if (!strcmp(argv[1], "--version")) {
		puts("tarn " TARN_VERSION);
		return 0;
	}
	if (argc > 2 && !strcmp(argv[2], "--help") && noun_commands(argv[1])) {
		list_commands(stdout, noun_commands(argv[1]));
		return 0;
	}
	command = find_command(argv[1], argc > 2 ? argv[2] : NULL);
	args = parse_args(command, argc, argv);
	if (!args)
		print_help(command);
	else
		command->run(args);
	if (fflush(stdout) || ferror(stdout))
		fail("cannot write the output");
	return 0;
}
