// SPDX-License-Identifier: LGPL-3.0-or-later
#include "bus.h"
#include "print.h"
#include "tarn.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void print_rate(const char *name, uint64_t hits, uint64_t misses)
{
	uint64_t all = hits + misses;

	printf("%-12s %" PRIu64 " hits, %" PRIu64 " misses", name, hits, misses);
	if (all)
		printf(" (%.1f%%)", 100.0 * (double)hits / (double)all);
	putchar('\n');
}

static void print_statistics(struct json_object *s)
{
	char size[32], max[32], data[32], meta[32];

	nice_size(get_number(s, "size"), size);
	nice_size(get_number(s, "max"), max);
	nice_size(get_number(s, "data_size"), data);
	nice_size(get_number(s, "meta_size"), meta);
	printf("%-12s %s of %s: data %s, metadata %s\n", "size", size, max, data, meta);
	print_rate("all", get_number(s, "hits"), get_number(s, "misses"));
	print_rate("metadata", get_number(s, "meta_hits"), get_number(s, "meta_misses"));
	printf("%-12s %" PRIu64 " inserted, %" PRIu64 " evicted\n", "blocks",
	       get_number(s, "inserted"), get_number(s, "evictions"));
}

static void cache_stats(const struct args *args)
{
	struct json_object *s =
	    json_object_array_get_idx(bus_send(bus_call("Cache", "Statistics")), 0);

	if (has_option(args, 'j'))
		print_json("cache", s);
	else
		print_statistics(s);
}

static void cache_set(const struct args *args)
{
	struct json_object *texts = json_object_new_object(), *limits = json_object_new_object();
	struct bus_call *call;

	for (int i = 0; i < args->noperands; i++)
		add_prop(args, texts, args->operands[i]);
	json_object_object_foreach(texts, name, value)
	{
		if (strcmp(name, "arc_max") && strcmp(name, "dirty_max"))
			usage_error(args, "there is no limit '%s': use arc_max or dirty_max", name);
		json_object_object_add(
		    limits, name,
		    json_object_new_uint64(parse_size(args, json_object_get_string(value))));
	}
	call = bus_call("Cache", "SetLimits");
	bus_options(call, limits);
	bus_send(call);
}

const struct command cache_commands[] = {
    {"cache", "stats", "j", 0, 0, "[-j]",
     "Shows the cache's size and how often it had what was read.\n\n"
     "  -j  JSON",
     cache_stats},
    {"cache", "set", "", 1, 2, "[arc_max=SIZE] [dirty_max=SIZE]",
     "Sets limits until the server's next start; TARN { } in ganesha.conf keeps them.\n\n"
     "  arc_max    memory for cached blocks, e.g. 16G\n"
     "  dirty_max  memory for changes not yet written",
     cache_set},
    {0},
};
