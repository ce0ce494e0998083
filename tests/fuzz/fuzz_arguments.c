// SPDX-License-Identifier: LGPL-3.0-or-later
/* runs 30000 */
/* The command line of tarn: sizes, properties, options. What it refuses would end the program; here
   it ends the run. */
#include "fuzz.h"

#include <getopt.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "tarn.h"

#define WORDS 16

static jmp_buf refused;

/* A refusal leaves behind what the end of the program would free. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return 1;
}

_Noreturn void fail(const char *format, ...)
{
	(void)format;
	longjmp(refused, 1);
}

_Noreturn void usage_error(const struct args *args, const char *format, ...)
{
	(void)args, (void)format;
	longjmp(refused, 1);
}

static void free_args(struct args *args)
{
	if (!args)
		return;
	free(args->options);
	free(args->line);
	free(args);
}

static void parse(char **words, int n)
{
	static const struct command command = {"fs", "set", "fno:p:x:", 1, 3, "", "", NULL};
	struct args *args;

	optind = 0;
	args = parse_args(&command, n, words);
	if (args) {
		MUST(args->noperands >= 1 && args->noperands <= 3);
		json_object_put(option_props(args, 'o'));
		json_object_put(change_options(args, "f=force n=dry_run"));
		MUST(strlen(args->line) >= 4);
		option_value(args, 'p');
	}
	free_args(args);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, data + size};
	char *words[WORDS + 1] = {"tarn", "fs", "set"}, *save = NULL, *text;
	bool number = fuzz_number(&in, 1) % 2;
	int n = 3;

	text = fuzz_text(&in);
	if (setjmp(refused)) {
		free(text);
		return 0;
	}
	if (number) {
		MUST(parse_size(NULL, text) < 1ull << 63);
	} else {
		for (char *w = strtok_r(text, "\n", &save); w && n < WORDS;
		     w = strtok_r(NULL, "\n", &save))
			words[n++] = w;
		parse(words, n);
	}
	free(text);
	return 0;
}
