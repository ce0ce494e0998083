// SPDX-License-Identifier: LGPL-3.0-or-later
/* tarnck: the offline check of a pool. docs/tarnck.md says what it checks. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/check.h>
#include <unistd.h>

enum { EXIT_FINDINGS = 1, EXIT_FAILED = 2 };

static const char usage_text[] =
    "usage: tarnck [-jmpq] [-u N] [-d PATH]... [POOL|GUID]\n"
    "Checks a pool that is not imported; changes nothing.\n"
    "  -d PATH  a device, file or directory of them to search (default /dev/disk/by-id)\n"
    "  -j       JSON\n"
    "  -m       metadata only: do not read file data\n"
    "  -p       show the progress (by default if the standard error is a terminal)\n"
    "  -q       print findings only\n"
    "  -u N     check the N newest uberblocks, 1 to 3 (default 1)\n"
    "  -V       print the version\n"
    "Exit status: 0 no finding, 1 findings, 2 the check could not be made.\n";

struct options {
	struct tarn_check_spec spec;
	bool json, quiet, progress;
};

/* What is printed so far. */
struct output {
	bool terminal;  /* of the progress */
	bool line_left; /* a progress line is to be wiped */
	bool any;       /* findings */
};

/* why: NULL if getopt() has said it. */
static int usage(const char *why)
{
	if (why)
		fprintf(stderr, "tarnck: %s\n", why);
	fputs(usage_text, stderr);
	return EXIT_FAILED;
}

/* ---- progress ---- */

static void wipe_progress(struct output *out)
{
	if (out->line_left)
		fputs("\r\033[K", stderr);
	out->line_left = false;
}

static void on_progress(void *arg, const struct tarn_check_progress *p)
{
	struct output *out = arg;
	char part[32] = "";

	if (p->total)
		snprintf(part, sizeof(part), " of %" PRIu64 " MiB, %u%%", p->total >> 20,
			 (unsigned)(p->done >= p->total ? 100 : p->done * 100 / p->total));
	else
		strcpy(part, " MiB");
	fprintf(stderr, "%stxg %" PRIu64 ": %" PRIu64 "%s, %" PRIu64 " findings%s",
		out->terminal ? "\r\033[K" : "", p->txg, p->done >> 20, part, p->findings,
		out->terminal ? "" : "\n");
	out->line_left = out->terminal;
}

/* ---- text ---- */

static void print_finding(void *arg, const struct tarn_finding *finding)
{
	wipe_progress(arg);
	printf("%s\n", finding->text);
}

static void print_summary(const struct tarn_check_result *r)
{
	printf("pool %s (%" PRIu64 ") at txg %" PRIu64 ", %u uberblock%s: %" PRIu64
	       " datasets, %" PRIu64 " inodes, %" PRIu64 " blocks of %" PRIu64 " bytes, %" PRIu64
	       " bytes read: ",
	       r->name, r->guid, r->txg, r->uberblocks, r->uberblocks == 1 ? "" : "s", r->datasets,
	       r->inodes, r->blocks, r->bytes, r->read);
	if (r->unreplayed)
		printf("%" PRIu64 " changes in the intent log, ", r->unreplayed);
	if (r->findings)
		printf("%" PRIu64 " finding%s\n", r->findings, r->findings == 1 ? "" : "s");
	else
		printf("no findings\n");
}

/* ---- JSON: one object, its findings printed as they come ---- */

static void print_object(struct json_object *object)
{
	fputs(json_object_to_json_string_ext(object, JSON_C_TO_STRING_NOSLASHESCAPE), stdout);
	json_object_put(object);
}

static void add_text(struct json_object *object, const char *key, const char *text)
{
	if (text)
		json_object_object_add(object, key, json_object_new_string(text));
}

static void add_number(struct json_object *object, const char *key, uint64_t number)
{
	json_object_object_add(object, key, json_object_new_uint64(number));
}

static void json_finding(void *arg, const struct tarn_finding *finding)
{
	struct json_object *object = json_object_new_object();
	struct output *out = arg;

	wipe_progress(out);
	add_text(object, "kind", tarn_finding_name(finding->kind));
	add_number(object, "txg", finding->txg);
	add_text(object, "dataset", finding->dataset);
	if (finding->inode)
		add_number(object, "inode", finding->inode);
	add_text(object, "path", finding->path);
	add_text(object, "text", finding->text);
	fputs(out->any ? ",\n" : "\n", stdout);
	out->any = true;
	print_object(object);
}

static void json_begin(void)
{
	fputs("{\"version\":1,\"findings\":[", stdout);
}

/* error: the check did not end, then there is no result. */
static void json_end(const struct tarn_check_result *r, const char *error)
{
	struct json_object *object;

	if (error) {
		fputs("],\n\"error\":", stdout);
		print_object(json_object_new_string(error));
		puts("}");
		return;
	}
	object = json_object_new_object();
	add_text(object, "pool", r->name);
	add_number(object, "guid", r->guid);
	add_number(object, "txg", r->txg);
	add_number(object, "uberblocks", r->uberblocks);
	add_number(object, "unreplayed", r->unreplayed);
	add_number(object, "findings", r->findings);
	add_number(object, "datasets", r->datasets);
	add_number(object, "inodes", r->inodes);
	add_number(object, "blocks", r->blocks);
	add_number(object, "bytes", r->bytes);
	add_number(object, "read", r->read);
	fputs("],\n\"result\":", stdout);
	print_object(object);
	puts("}");
}

/* ---- the command line ---- */

/* A name, or a GUID: decimal digits only (no pool's name begins with one). */
static void set_pool(struct tarn_check_spec *spec, const char *text)
{
	char *end;

	spec->guid = strtoull(text, &end, 10);
	if (*end || end == text)
		spec->name = text;
}

static bool set_uberblocks(struct tarn_check_spec *spec, const char *text)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	spec->uberblocks = (uint32_t)n;
	return end != text && !*end && n >= 1 && n <= TARN_CHECK_STATES;
}

static int parse(int argc, char **argv, struct options *options, const char **paths)
{
	static const struct option long_options[] = {
	    {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {0}};
	struct tarn_check_spec *spec = &options->spec;
	int c;

	while ((c = getopt_long(argc, argv, "d:jmpqu:hV", long_options, NULL)) != -1) {
		if (c == 'd') {
			paths[spec->npaths++] = optarg;
		} else if (c == 'j') {
			options->json = true;
		} else if (c == 'm') {
			spec->flags |= TARN_CHECK_METADATA;
		} else if (c == 'p') {
			options->progress = true;
		} else if (c == 'q') {
			options->quiet = true;
		} else if (c == 'h') {
			fputs(usage_text, stdout);
			exit(0);
		} else if (c == 'V') {
			puts("tarnck " TARN_VERSION);
			exit(0);
		} else if (c != 'u') {
			return usage(NULL);
		} else if (!set_uberblocks(spec, optarg)) {
			return usage("-u takes a number from 1 to 3");
		}
	}
	if (argc - optind > 1)
		return usage("one pool is checked at a time");
	if (optind < argc)
		set_pool(spec, argv[optind]);
	return 0;
}

static int check(struct options *options)
{
	struct output out = {.terminal = isatty(STDERR_FILENO)};
	struct tarn_check_result result;
	struct tarn_error err = {0};
	int rc;

	options->spec.arg = &out;
	options->spec.finding = options->json ? json_finding : print_finding;
	if (options->progress || (out.terminal && !options->quiet))
		options->spec.progress = on_progress;
	if (options->json)
		json_begin();
	rc = tarn_check(&options->spec, &result, &err);
	wipe_progress(&out);
	if (options->json)
		json_end(&result, rc ? err.text : NULL);
	if (rc)
		fprintf(stderr, "tarnck: %s\n", err.text);
	else if (!options->json && !options->quiet)
		print_summary(&result);
	/* Who did not get all of it must not take it for a good pool. */
	if (fflush(stdout) || ferror(stdout)) {
		perror("tarnck: standard output");
		return EXIT_FAILED;
	}
	if (rc)
		return EXIT_FAILED;
	return result.findings ? EXIT_FINDINGS : 0;
}

int main(int argc, char **argv)
{
	const char **paths = calloc((size_t)argc, sizeof(*paths));
	struct options options = {.spec = {.paths = paths}};
	int status = paths ? parse(argc, argv, &options, paths) : EXIT_FAILED;

	if (!status)
		status = check(&options);
	free(paths);
	return status;
}
