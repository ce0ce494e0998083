// SPDX-License-Identifier: LGPL-3.0-or-later
#include "pool.h"

#include "bus.h"
#include "print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What an administrator should know and do in a state; NULL if nothing. */
struct advice {
	const char *state, *meaning, *action;
};

#define BRING_BACK                                                                                 \
	"Make the devices available again, then run 'tarn pool clear'; for those that are\n"       \
	"\tMISSING or OFFLINE 'tarn pool online'. What they lack is rebuilt then."

static const struct advice pool_advice[] = {
    {"FAULTED", "Devices of the pool have failed; some data may be out of reach.", BRING_BACK},
    {"DEGRADED",
     "Devices have failed, are offline or missing, or lack what was written while they\n"
     "\twere away (DEGRADED). All data is there, with fewer copies.",
     BRING_BACK},
    {0},
};

/* By "halt", for SUSPENDED. */
static const struct advice halt_advice[] = {
    {"checks",
     "The server or its devices stood still; writes wait until all devices have said\n"
     "\tthat no other host has taken the pool meanwhile.",
     "Wait. If this stays, a device does not answer: make it available again."},
    {"taken",
     "Another host has imported the pool while this one stood still. What was not\n"
     "\twritten here before is lost.",
     "Run 'tarn pool export' here; use the pool on the other host."},
    {"heartbeat", "The devices took no heartbeat for too long: nothing is written any more.",
     "Make the devices available again, then export and import the pool."},
    {"commit", "Nothing can be written to the pool: too many devices have failed.",
     "Make the devices available again, then export and import the pool."},
    {0},
};

static const struct advice candidate_advice[] = {
    {"MISSING", NULL,
     "The pool cannot be imported: attach the missing devices, or name the\n"
     "\tdirectories they are in with -d."},
    {"DEGRADED", NULL,
     "The pool can be imported using its name or numeric identifier; some of\n"
     "\tits devices are missing."},
    {"ONLINE", NULL, "The pool can be imported using its name or numeric identifier."},
    {0},
};

static void print_advice(const struct advice *advice, const char *state)
{
	for (; advice->state; advice++) {
		if (strcmp(advice->state, state))
			continue;
		if (advice->meaning)
			printf("status: %s\n", advice->meaning);
		printf("action: %s\n", advice->action);
	}
}

/* One line of the tree: NAME STATE READ WRITE CKSUM, counters of a device only. */
static void tree_row(struct table *table, int depth, const char *name, struct json_object *object,
		     const char *const counters[3])
{
	char text[512];

	snprintf(text, sizeof(text), "\t%*s%s", depth * 2, "", name);
	table_cell(table, text);
	table_cell(table, get_text(object, "state"));
	for (int i = 0; i < 3; i++) {
		if (counters)
			snprintf(text, sizeof(text), "%" PRIu64, get_number(object, counters[i]));
		table_cell(table, counters ? text : "-");
	}
}

static void group_rows(struct table *table, struct json_object *group, size_t number)
{
	static const char *const counters[3] = {"read_errors", "write_errors", "checksum_errors"};
	struct json_object *devices = json_object_object_get(group, "devices");
	bool alone = !strcmp(get_text(group, "kind"), "single");
	char name[64];

	snprintf(name, sizeof(name), "%s-%zu", get_text(group, "kind"), number);
	if (!alone)
		tree_row(table, 1, name, group, NULL);
	for (size_t d = 0; d < json_object_array_length(devices); d++) {
		struct json_object *device = json_object_array_get_idx(devices, d);

		tree_row(table, alone ? 1 : 2, get_text(device, "path"), device, counters);
	}
}

static void print_damaged(struct json_object *objects)
{
	if (json_object_array_length(objects))
		puts("\nerrors: The last scrub could not repair these files:\n");
	for (size_t i = 0; i < json_object_array_length(objects); i++)
		printf("\t%s\n", get_text(json_object_array_get_idx(objects, i), "object"));
}

static void print_lost(uint64_t total, struct json_object *datasets)
{
	printf("\nerrors: at least %" PRIu64
	       " changes that were acknowledged are lost: the intent log was damaged.\n",
	       total);
	for (size_t i = 0; i < json_object_array_length(datasets); i++) {
		struct json_object *in = json_object_array_get_idx(datasets, i);

		printf("\tat least %" PRIu64 " in dataset %s\n", get_number(in, "changes"),
		       get_text(in, "dataset"));
	}
	puts("\t'tarn pool clear' forgets this.");
}

static void print_status(struct json_object *pool)
{
	struct json_object *groups = json_object_object_get(pool, "groups");
	struct json_object *logs = json_object_object_get(pool, "logs");
	struct json_object *damaged = json_object_object_get(pool, "damaged"); /* with -v */
	struct table *table = table_new(false);
	uint64_t errors = get_number(pool, "data_errors"), lost = get_number(pool, "lost_changes");

	printf("  pool: %s\n state: %s%s\n", get_text(pool, "name"), get_text(pool, "state"),
	       get_bool(pool, "read_only") ? " (read-only)" : "");
	print_advice(pool_advice, get_text(pool, "state"));
	print_advice(halt_advice, get_text(pool, "halt"));
	if (lost)
		print_lost(lost, json_object_object_get(pool, "lost_in"));
	if (get_number(pool, "unreplayed"))
		printf("\nlog: %" PRIu64
		       " changes in the intent log are not shown; an import for writing "
		       "replays them\n",
		       get_number(pool, "unreplayed"));
	if (get_bool(pool, "log_dropped"))
		puts("   log: Imported without a log device that was missing; changes that were\n"
		     "\tacknowledged last may be lost. 'tarn pool clear' ends this message.");
	print_jobs(json_object_object_get(pool, "jobs"));
	puts("config:\n");
	table_column(table, "\tNAME", false);
	table_column(table, "STATE", false);
	table_column(table, "READ", true);
	table_column(table, "WRITE", true);
	table_column(table, "CKSUM", true);
	tree_row(table, 0, get_text(pool, "name"), pool, NULL);
	for (size_t i = 0; i < json_object_array_length(groups); i++)
		group_rows(table, json_object_array_get_idx(groups, i), i);
	for (int i = 0; i < 5 && json_object_array_length(logs); i++)
		table_cell(table, i ? "" : "\tlogs");
	for (size_t i = 0; i < json_object_array_length(logs); i++)
		group_rows(table, json_object_array_get_idx(logs, i),
			   json_object_array_length(groups) + i);
	table_print(table);
	if (errors)
		printf("\nerrors: %" PRIu64 " blocks had no good copy%s\n", errors,
		       damaged ? "" : "; -v lists files");
	else if (!damaged || !json_object_array_length(damaged))
		puts("\nerrors: No known data errors");
	if (damaged)
		print_damaged(damaged);
}

struct json_object *fetch_status(const char *name)
{
	struct bus_call *call = bus_call("Pool", "Status");

	bus_string(call, name);
	return json_object_array_get_idx(bus_send(call), 0);
}

/* With -v, "damaged": objects with "object", "blocks". */
static struct json_object *fetch_pool(const struct args *args, const char *name)
{
	struct json_object *pool = fetch_status(name), *rows, *damaged;
	struct bus_call *call;

	if (!has_option(args, 'v'))
		return pool;
	call = bus_call("Pool", "Errors");
	bus_string(call, name);
	rows = json_object_array_get_idx(bus_send(call), 0);
	damaged = json_object_new_array();
	for (size_t i = 0; i < json_object_array_length(rows); i++) {
		struct json_object *row = json_object_array_get_idx(rows, i);
		struct json_object *object = json_object_new_object();

		json_object_object_add(object, "object",
				       json_object_get(json_object_array_get_idx(row, 0)));
		json_object_object_add(object, "blocks",
				       json_object_get(json_object_array_get_idx(row, 1)));
		json_object_array_add(damaged, object);
	}
	json_object_object_add(pool, "damaged", damaged);
	return pool;
}

void warn_of_lost(const char *name)
{
	uint64_t lost = get_number(fetch_status(name), "lost_changes");

	if (!lost)
		return;
	fprintf(stderr,
		"tarn: pool '%s' is imported, but its intent log was damaged: at least %" PRIu64
		" changes that were acknowledged are lost ('tarn pool clear' forgets this)\n",
		name, lost);
	exit(1);
}

void pool_status(const struct args *args)
{
	struct json_object *pools = json_object_new_array();

	for (int i = 0; i < args->noperands; i++)
		json_object_array_add(pools, fetch_pool(args, args->operands[i]));
	if (args->noperands == 0) {
		struct json_object *list =
		    json_object_array_get_idx(bus_send(bus_call("Pool", "List")), 0);

		for (size_t i = 0; i < json_object_array_length(list); i++)
			json_object_array_add(
			    pools,
			    fetch_pool(args, get_text(json_object_array_get_idx(list, i), "name")));
	}
	if (has_option(args, 'j')) {
		print_json("pools", pools);
		return;
	}
	if (json_object_array_length(pools) == 0)
		puts("no pools available");
	for (size_t i = 0; i < json_object_array_length(pools); i++) {
		if (i)
			putchar('\n');
		print_status(json_object_array_get_idx(pools, i));
	}
}

static void print_candidate(struct json_object *pool)
{
	uint64_t found = get_number(pool, "devices_found"), all = get_number(pool, "devices_total");
	const char *state = !get_bool(pool, "importable") ? "MISSING"
			    : found < all                 ? "DEGRADED"
							  : "ONLINE";

	printf("   pool: %s\n     id: %" PRIu64 "\n  state: %s\ndevices: %" PRIu64 " of %" PRIu64
	       "\n",
	       get_text(pool, "name"), get_number(pool, "guid"), state, found, all);
	if (get_bool(pool, "active"))
		printf(" status: The pool was last used by host '%s' and not exported; importing\n"
		       "\tit needs -f unless this is that host.\n",
		       get_text(pool, "host"));
	printf(" ");
	print_advice(candidate_advice, state);
}

void print_candidates(struct json_object *pools)
{
	if (json_object_array_length(pools) == 0)
		puts("no pools available to import; -d says where to look");
	for (size_t i = 0; i < json_object_array_length(pools); i++) {
		if (i)
			putchar('\n');
		print_candidate(json_object_array_get_idx(pools, i));
	}
}
