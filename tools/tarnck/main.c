// SPDX-License-Identifier: LGPL-3.0-or-later
/* tarnck: the offline check of a pool. docs/tarnck.md says what it checks. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/check.h>

enum { EXIT_FINDINGS = 1, EXIT_FAILED = 2 };

static const char usage_text[] =
    "usage: tarnck [-mq] [-u N] [-d PATH]... [POOL|GUID]\n"
    "Checks a pool that is not imported; changes nothing.\n"
    "  -d PATH  a device, file or directory of them to search (default /dev/disk/by-id)\n"
    "  -m       metadata only: do not read file data\n"
    "  -q       print findings only\n"
    "  -u N     check the N newest uberblocks (default 1)\n"
    "Exit status: 0 no finding, 1 findings, 2 the check could not be made.\n";

static void print_finding(void *arg, const char *text)
{
	(void)arg;
	printf("%s\n", text);
}

static int usage(void)
{
	fputs(usage_text, stderr);
	return EXIT_FAILED;
}

/* A name, or a GUID: decimal digits only (no pool's name begins with one). */
static void set_pool(struct tarn_check_spec *spec, const char *text)
{
	char *end;

	spec->guid = strtoull(text, &end, 10);
	if (*end || end == text)
		spec->name = text;
}

static void print_summary(const struct tarn_check_result *r)
{
	printf("pool %s (%" PRIu64 ") at txg %" PRIu64 ": %" PRIu64 " datasets, %" PRIu64
	       " inodes, %" PRIu64 " blocks, %" PRIu64 " bytes of data read: ",
	       r->name, r->guid, r->txg, r->datasets, r->inodes, r->blocks, r->bytes);
	if (r->findings)
		printf("%" PRIu64 " findings\n", r->findings);
	else
		printf("no findings\n");
}

static int parse(int argc, char **argv, struct tarn_check_spec *spec, const char **paths,
		 bool *quiet)
{
	int c;

	while ((c = getopt(argc, argv, "d:mqu:h")) != -1) {
		char *end = "";

		if (c == 'd') {
			paths[spec->npaths++] = optarg;
		} else if (c == 'm') {
			spec->flags |= TARN_CHECK_METADATA;
		} else if (c == 'q') {
			*quiet = true;
		} else if (c == 'u') {
			spec->uberblocks = (uint32_t)strtoul(optarg, &end, 10);
			if (*end || !spec->uberblocks)
				return usage();
		} else if (c == 'h') {
			fputs(usage_text, stdout);
			exit(0);
		} else {
			return usage();
		}
	}
	if (argc - optind > 1)
		return usage();
	if (optind < argc)
		set_pool(spec, argv[optind]);
	return 0;
}

int main(int argc, char **argv)
{
	const char **paths = calloc((size_t)argc, sizeof(*paths));
	struct tarn_check_spec spec = {.paths = paths, .finding = print_finding};
	struct tarn_check_result result;
	struct tarn_error err = {0};
	bool quiet = false;
	int rc = paths ? parse(argc, argv, &spec, paths, &quiet) : EXIT_FAILED;

	if (rc)
		return rc;
	if (tarn_check(&spec, &result, &err)) {
		fprintf(stderr, "tarnck: %s\n", err.text);
		return EXIT_FAILED;
	}
	free(paths);
	if (!quiet)
		print_summary(&result);
	return result.findings ? EXIT_FINDINGS : 0;
}
