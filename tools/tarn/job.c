// SPDX-License-Identifier: LGPL-3.0-or-later
/* The long work of pools: started, set, waited for, shown. */
#include "pool.h"

#include "bus.h"
#include "print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAIT_MICROSECONDS 300000

void pool_scrub(const struct args *args)
{
	const char *action = "start";

	if (has_option(args, 'p') && has_option(args, 's'))
		usage_error(args, "-p and -s exclude each other");
	if (has_option(args, 'p'))
		action = "pause";
	if (has_option(args, 's'))
		action = "stop";
	for (int i = 0; i < args->noperands; i++) {
		struct bus_call *call = bus_call("Pool", "Scrub");

		bus_string(call, args->operands[i]);
		bus_string(call, action);
		bus_options(call, change_options(args, ""));
		bus_send(call);
	}
}

void pool_resilver(const struct args *args)
{
	for (int i = 0; i < args->noperands; i++) {
		struct bus_call *call = bus_call("Pool", "Resilver");

		bus_string(call, args->operands[i]);
		bus_options(call, change_options(args, ""));
		bus_send(call);
	}
}

void pool_job(const struct args *args)
{
	struct json_object *props = json_object_new_object();
	struct bus_call *call = bus_call("Pool", "SetJobs");

	for (int i = 0; i < args->noperands - 1; i++)
		add_prop(args, props, args->operands[i]);
	bus_string(call, args->operands[args->noperands - 1]);
	bus_props(call, props);
	bus_options(call, change_options(args, ""));
	bus_send(call);
}

/* ---- waiting ---- */

static bool ended(struct json_object *job)
{
	const char *state = get_text(job, "state");

	return strcmp(state, "running") && strcmp(state, "queued") && strcmp(state, "paused");
}

/* Whether a list with commas, or none, has the word. */
static bool listed(const char *list, const char *word)
{
	char *copy, *rest, *item;
	bool found = !list;

	if (!list)
		return true;
	copy = rest = checked(strdup(list));
	while ((item = strsep(&rest, ",")))
		found |= !strcmp(item, word);
	free(copy);
	return found;
}

static void check_kinds(const struct args *args, const char *list)
{
	char *copy = checked(strdup(list)), *rest = copy, *item;

	while ((item = strsep(&rest, ",")))
		if (!listed(JOB_KINDS, item))
			usage_error(args, "there is no job '%s', only " JOB_KINDS, item);
	free(copy);
}

void pool_wait(const struct args *args)
{
	const char *kinds = option_value(args, 't');
	bool more = true;

	if (kinds)
		check_kinds(args, kinds);
	while (more) {
		struct json_object *pool = fetch_status(args->operands[0]);
		struct json_object *jobs = json_object_object_get(pool, "jobs");

		more = false;
		for (size_t i = 0; i < json_object_array_length(jobs); i++) {
			struct json_object *job = json_object_array_get_idx(jobs, i);

			more |= !ended(job) && listed(kinds, get_text(job, "kind"));
		}
		if (more)
			usleep(WAIT_MICROSECONDS);
	}
}

/* ---- showing ---- */

/* 1 days 02:03:04 */
static void nice_span(uint64_t seconds, char text[40])
{
	uint64_t days = seconds / 86400;
	int n = days ? snprintf(text, 40, "%" PRIu64 " days ", days) : 0;

	snprintf(text + n, (size_t)(40 - n), "%02d:%02d:%02d", (int)(seconds / 3600 % 24),
		 (int)(seconds / 60 % 60), (int)(seconds % 60));
}

/* What "errors" counts. */
static const char *lost_things(struct json_object *job)
{
	return strcmp(get_text(job, "kind"), "resilver") ? "blocks lost" : "chunks not rebuilt";
}

static void print_open(struct json_object *job)
{
	uint64_t total = get_number(job, "total"), done = get_number(job, "done");
	uint64_t left = get_number(job, "seconds_left");
	char since[32], sizes[3][32], span[40] = "";

	nice_time((time_t)get_number(job, "started"), since);
	nice_size(done, sizes[0]);
	nice_size(total, sizes[1]);
	nice_size(get_number(job, "rate"), sizes[2]);
	printf("  scan: %s %s since %s\n", get_text(job, "kind"), get_text(job, "state"), since);
	printf("\t%s of %s done (%.2f%%)", sizes[0], sizes[1],
	       total ? 100.0 * (double)done / (double)total : 0.0);
	if (get_number(job, "rate") && left != UINT64_MAX) {
		nice_span(left, span);
		printf(", %s/s, %s to go", sizes[2], span);
	}
	nice_size(get_number(job, "repaired"), sizes[0]);
	printf("\n\t%s repaired, %" PRIu64 " %s, priority %" PRIu64 "\n", sizes[0],
	       get_number(job, "errors"), lost_things(job), get_number(job, "priority"));
}

static void print_ended(struct json_object *job)
{
	uint64_t started = get_number(job, "started"), end = get_number(job, "ended");
	char when[32], size[32], span[40];

	nice_time((time_t)end, when);
	nice_size(get_number(job, "repaired"), size);
	nice_span(end > started ? end - started : 0, span);
	if (!strcmp(get_text(job, "state"), "failed"))
		printf("  scan: %s failed on %s: %s\n", get_text(job, "kind"), when,
		       get_text(job, "error"));
	else
		printf("  scan: %s %s on %s after %s: %s repaired, %" PRIu64 " %s\n",
		       get_text(job, "kind"), get_text(job, "state"), when, span, size,
		       get_number(job, "errors"), lost_things(job));
}

void print_jobs(struct json_object *jobs)
{
	for (size_t i = 0; i < json_object_array_length(jobs); i++) {
		struct json_object *job = json_object_array_get_idx(jobs, i);

		if (ended(job))
			print_ended(job);
		else
			print_open(job);
	}
}
