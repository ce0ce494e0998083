// SPDX-License-Identifier: LGPL-3.0-or-later
#include "pool.h"

#include "bus.h"
#include "print.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct json_object *first(struct json_object *values)
{
	return json_object_array_get_idx(values, 0);
}

/* Adds the -o and -O properties together: the server knows which is which, but of a comment. */
static struct json_object *create_props(const struct args *args)
{
	struct json_object *props = json_object_new_object();

	for (size_t i = 0; i < args->noptions; i++) {
		char letter = args->options[i].letter;
		const char *value = args->options[i].value;

		if (letter == 'O' && !strncmp(value, "comment=", 8))
			usage_error(args, "the root dataset's comment is set by 'tarn fs set', "
					  "the pool's by -o");
		if (letter == 'o' || letter == 'O')
			add_prop(args, props, value);
	}
	return props;
}

static void pool_create(const struct args *args)
{
	const char *name = args->operands[0];
	struct json_object *groups = parse_groups(args, args->operands + 1, args->noperands - 1);
	struct json_object *props = create_props(args);
	struct bus_call *call = bus_call("Pool", "Create");

	bus_string(call, name);
	bus_groups(call, groups);
	bus_props(call, props);
	bus_options(call, change_options(args, "f=force n=dry_run"));
	bus_send(call);
	if (has_option(args, 'n')) {
		printf("would create '%s' with the following layout:\n", name);
		print_groups(name, groups);
	}
}

static void pool_add(const struct args *args)
{
	const char *name = args->operands[0];
	struct json_object *groups = parse_groups(args, args->operands + 1, args->noperands - 1);
	struct bus_call *call = bus_call("Pool", "Add");

	bus_string(call, name);
	bus_groups(call, groups);
	bus_options(call, change_options(args, "f=force n=dry_run"));
	bus_send(call);
	if (has_option(args, 'n')) {
		printf("would add to '%s':\n", name);
		print_groups(name, groups);
	}
}

static void pool_remove(const struct args *args)
{
	for (int i = 1; i < args->noperands; i++) {
		struct bus_call *call = bus_call("Pool", "Remove");
		char *device = !strncmp(args->operands[i], "mirror-", 7)
				   ? checked(strdup(args->operands[i]))
				   : device_path(args->operands[i]);

		bus_string(call, args->operands[0]);
		bus_string(call, device);
		bus_options(call, change_options(args, "n=dry_run"));
		bus_send(call);
		if (has_option(args, 'n'))
			printf("would remove '%s' from '%s'\n", device, args->operands[0]);
		free(device);
	}
}

/* One call for each device; said with -n: what would be done. */
static void each_device(const struct args *args, const char *method, const char *letters,
			const char *said)
{
	for (int i = 1; i < args->noperands; i++) {
		struct bus_call *call = bus_call("Pool", method);
		bool guid = strspn(args->operands[i], "0123456789") == strlen(args->operands[i]);
		char *device =
		    guid ? checked(strdup(args->operands[i])) : device_path(args->operands[i]);

		bus_string(call, args->operands[0]);
		bus_string(call, device);
		bus_options(call, change_options(args, letters));
		bus_send(call);
		if (has_option(args, 'n'))
			printf("would take '%s' of '%s' %s\n", device, args->operands[0], said);
		free(device);
	}
}

static void pool_offline(const struct args *args)
{
	each_device(args, "Offline", "n=dry_run t=temporary", "offline");
}

static void pool_online(const struct args *args)
{
	each_device(args, "Online", "n=dry_run", "online");
}

static void pool_destroy(const struct args *args)
{
	struct json_object *options = change_options(args, "f=force n=dry_run");
	struct bus_call *call = bus_call("Pool", "Destroy");

	/* No history is left to write it to. */
	json_object_object_del(options, "command");
	bus_string(call, args->operands[0]);
	bus_options(call, options);
	bus_send(call);
	if (has_option(args, 'n'))
		printf("would destroy pool '%s'\n", args->operands[0]);
}

static void pool_export(const struct args *args)
{
	for (int i = 0; i < args->noperands; i++) {
		struct bus_call *call = bus_call("Pool", "Export");

		bus_string(call, args->operands[i]);
		bus_options(call, change_options(args, "f=force n=dry_run"));
		bus_send(call);
		if (has_option(args, 'n'))
			printf("would export pool '%s'\n", args->operands[i]);
	}
}

static char *search_path(const char *name)
{
	char *path = absolute_path(name);

	if (access(path, F_OK))
		fail("cannot look for pools in '%s': %s", name, strerror(errno));
	return path;
}

/* The -d paths of an import. */
static size_t search_paths(const struct args *args, char ***paths)
{
	size_t n = 0;

	*paths = checked(calloc(args->noptions + 1, sizeof(**paths)));
	for (size_t i = 0; i < args->noptions; i++)
		if (args->options[i].letter == 'd')
			(*paths)[n++] = search_path(args->options[i].value);
	return n;
}

static void list_importable(const struct args *args, char **paths, size_t npaths)
{
	struct bus_call *call = bus_call("Pool", "Scan");
	struct json_object *pools;

	bus_strings(call, paths, npaths);
	pools = first(bus_send(call));
	if (has_option(args, 'j'))
		print_json("pools", pools);
	else
		print_candidates(pools);
}

static void pool_import(const struct args *args)
{
	struct json_object *props = option_props(args, 'o');
	struct json_object *options = change_options(args, "f=force F=rewind m=drop_log n=dry_run");
	struct bus_call *call;
	const char *name;
	char **paths;
	size_t npaths = search_paths(args, &paths);

	json_object_object_foreach(props, property, value)
	{
		const char *text = json_object_get_string(value);

		if (strcmp(property, "readonly") || (strcmp(text, "on") && strcmp(text, "off")))
			usage_error(args, "import knows only -o readonly=on|off");
		json_object_object_add(options, "read_only",
				       json_object_new_boolean(!strcmp(text, "on")));
	}
	if (args->noperands == 0) {
		list_importable(args, paths, npaths);
		return;
	}
	if (option_value(args, 'N'))
		json_object_object_add(options, "new_name",
				       json_object_new_string(option_value(args, 'N')));
	call = bus_call("Pool", "Import");
	bus_string(call, args->operands[0]);
	bus_strings(call, paths, npaths);
	bus_options(call, options);
	name = json_object_get_string(first(bus_send(call)));
	if (has_option(args, 'n'))
		printf("would import pool '%s'\n", name);
	else
		warn_of_lost(name);
}

static const struct column list_columns[] = {
    {"name", NULL, "NAME", "name", COLUMN_TEXT},
    {"size", NULL, "SIZE", "size", COLUMN_SIZE},
    {"allocated", "alloc", "ALLOC", "allocated", COLUMN_SIZE},
    {"free", NULL, "FREE", "free", COLUMN_SIZE},
    {"freeing", NULL, "FREEING", "freeing", COLUMN_SIZE},
    {"capacity", "cap", "CAP", "capacity", COLUMN_PERCENT},
    {"health", "state", "HEALTH", "state", COLUMN_TEXT},
    {"guid", NULL, "GUID", "guid", COLUMN_NUMBER},
    {"readonly", NULL, "READONLY", "read_only", COLUMN_TEXT},
    {"txg", NULL, "TXG", "txg", COLUMN_NUMBER},
    {0},
};

static struct json_object *fetch_pools(void)
{
	struct json_object *pools = first(bus_send(bus_call("Pool", "List")));

	for (size_t i = 0; i < json_object_array_length(pools); i++) {
		struct json_object *pool = json_object_array_get_idx(pools, i);
		uint64_t size = get_number(pool, "size");
		double part =
		    size ? 100.0 * (double)get_number(pool, "allocated") / (double)size : 0;

		json_object_object_add(pool, "capacity", json_object_new_uint64((uint64_t)part));
	}
	return pools;
}

static struct json_object *find_pool(struct json_object *pools, const char *name)
{
	for (size_t i = 0; i < json_object_array_length(pools); i++) {
		struct json_object *pool = json_object_array_get_idx(pools, i);

		if (!strcmp(get_text(pool, "name"), name))
			return pool;
	}
	fail("no pool '%s' is imported; 'tarn pool import' shows which can be", name);
}

/* The named pools, or all. */
static struct json_object *choose_pools(char **names, int n)
{
	struct json_object *pools = fetch_pools(), *chosen;

	if (n == 0)
		return pools;
	chosen = json_object_new_array();
	for (int i = 0; i < n; i++)
		json_object_array_add(chosen, json_object_get(find_pool(pools, names[i])));
	return chosen;
}

static void pool_list(const struct args *args)
{
	const char *names = option_value(args, 'o');
	struct columns columns =
	    choose_columns(list_columns, names ? names : "name,size,alloc,free,cap,health");
	struct json_object *pools;

	for (size_t i = 0; i < columns.n; i++)
		if (!columns.list[i].known)
			usage_error(args,
				    "there is no column '%s'; 'tarn help pool list' shows them",
				    columns.list[i].column.name);
	pools = choose_pools(args->operands, args->noperands);
	if (json_object_array_length(pools) == 0 && !has_option(args, 'j')) {
		if (!has_option(args, 'H'))
			puts("no pools available");
		return;
	}
	print_objects(args, &columns, pools, "pools");
}

static void pool_clear(const struct args *args)
{
	struct bus_call *call = bus_call("Pool", "Clear");

	bus_string(call, args->operands[0]);
	bus_options(call, change_options(args, ""));
	bus_send(call);
}

/* Every property asked for must be one of the pool's. */
static void check_names(const char *names, struct json_object *rows)
{
	char *copy = checked(strdup(names)), *rest = copy, *name;

	while ((name = strsep(&rest, ","))) {
		bool found = !strcmp(name, "all");

		for (size_t i = 0; !found && i < json_object_array_length(rows); i++) {
			struct json_object *row = json_object_array_get_idx(rows, i);

			found = !strcmp(json_object_get_string(first(row)), name);
		}
		if (!found)
			fail("pools have no property '%s'; 'tarn pool get all' shows them", name);
	}
	free(copy);
}

/* Sizes come in bytes, the capacity in percent. */
static void format_numbers(struct json_object *rows)
{
	static const char *const numbers[] = {"capacity", "size", "allocated", "free", "freeing"};

	for (size_t i = 0; i < json_object_array_length(rows); i++) {
		struct json_object *row = json_object_array_get_idx(rows, i);
		struct json_object *value = json_object_array_get_idx(row, 1);
		char text[32];

		for (size_t n = 0; n < sizeof(numbers) / sizeof(numbers[0]); n++) {
			if (strcmp(json_object_get_string(first(row)), numbers[n]))
				continue;
			if (n == 0)
				snprintf(text, sizeof(text), "%.20s%%",
					 json_object_get_string(value));
			else
				nice_size(json_object_get_uint64(value), text);
			json_object_array_put_idx(row, 1, json_object_new_string(text));
			break;
		}
	}
}

static void pool_get(const struct args *args)
{
	const char *names = args->operands[0];
	struct json_object *pools = choose_pools(args->operands + 1, args->noperands - 1);

	for (size_t i = 0; i < json_object_array_length(pools); i++) {
		struct json_object *pool = json_object_array_get_idx(pools, i), *rows;
		struct bus_call *call = bus_call("Pool", "Get");

		bus_string(call, get_text(pool, "name"));
		rows = first(bus_send(call));
		check_names(names, rows);
		if (!has_option(args, 'p') && !has_option(args, 'j'))
			format_numbers(rows);
		json_object_object_add(pool, "properties", json_object_get(rows));
	}
	print_properties(args, names, pools, "pools");
}

static void pool_set(const struct args *args)
{
	struct json_object *props = json_object_new_object();
	struct bus_call *call;

	for (int i = 0; i < args->noperands - 1; i++)
		add_prop(args, props, args->operands[i]);
	call = bus_call("Pool", "Set");
	bus_string(call, args->operands[args->noperands - 1]);
	bus_props(call, props);
	bus_options(call, change_options(args, ""));
	bus_send(call);
}

/* All events of a pool, page by page. */
static struct json_object *fetch_history(const char *name)
{
	struct json_object *events = json_object_new_array();
	uint64_t next = 0;

	do {
		struct bus_call *call = bus_call("Pool", "History");
		struct json_object *options = json_object_new_object(), *values, *page;

		json_object_object_add(options, "first", json_object_new_uint64(next));
		bus_string(call, name);
		bus_options(call, options);
		values = bus_send(call);
		page = first(values);
		for (size_t i = 0; i < json_object_array_length(page); i++) {
			struct json_object *row = json_object_array_get_idx(page, i);
			struct json_object *event = json_object_new_object();

			json_object_object_add(event, "time", json_object_get(first(row)));
			json_object_object_add(event, "command",
					       json_object_get(json_object_array_get_idx(row, 1)));
			json_object_array_add(events, event);
		}
		next = json_object_get_uint64(json_object_array_get_idx(values, 1));
		json_object_put(values);
	} while (next);
	return events;
}

static void print_history(const char *name, struct json_object *events)
{
	printf("History for '%s':\n", name);
	for (size_t i = 0; i < json_object_array_length(events); i++) {
		struct json_object *event = json_object_array_get_idx(events, i);
		char when[32];

		nice_time((time_t)get_number(event, "time"), when);
		printf("%s %s\n", when, get_text(event, "command"));
	}
}

static void pool_history(const struct args *args)
{
	struct json_object *pools = choose_pools(args->operands, args->noperands);
	struct json_object *result = json_object_new_array();

	for (size_t i = 0; i < json_object_array_length(pools); i++) {
		const char *name = get_text(json_object_array_get_idx(pools, i), "name");
		struct json_object *events = fetch_history(name), *pool;

		if (!has_option(args, 'j')) {
			print_history(name, events);
			continue;
		}
		pool = json_object_new_object();
		json_object_object_add(pool, "name", json_object_new_string(name));
		json_object_object_add(pool, "events", events);
		json_object_array_add(result, pool);
	}
	if (has_option(args, 'j'))
		print_json("pools", result);
}

const struct command pool_commands[] = {
    {"pool", "create", "fno:O:", 2, -1,
     "[-fn] [-o property=value]... [-O fsproperty=value]... NAME "
     "[log] [mirror|raidz1|raidz2|raidz3] DEVICE...",
     "Makes a pool on devices: disks, partitions or existing files. Devices alone are\n"
     "striped without redundancy; 'mirror a b mirror c d' stripes over two mirrors; of\n"
     "the devices after raidz1, 2 or 3 as many may be lost. What follows 'log' is for the\n"
     "intent log alone: 'a b log c', 'a b log mirror c d'.\n"
     "All checks are made before anything is written.\n\n"
     "  -f  use devices although they hold something else, and mixed redundancy\n"
     "  -n  check and show the layout, change nothing\n"
     "  -o  a property of the pool, e.g. comment=text\n"
     "  -O  a property of its root dataset, e.g. compression=zstd",
     pool_create},
    {"pool", "add", "fn", 2, -1, "[-fn] NAME [log] [mirror|raidz1|raidz2|raidz3] DEVICE...",
     "Adds groups of devices to a pool, in the words of pool create. Only log devices can\n"
     "be taken away again.\n\n"
     "  -f  use devices although they hold something else, and mixed redundancy\n"
     "  -n  check and show what would be added, change nothing",
     pool_add},
    {"pool", "remove", "n", 2, -1, "[-n] NAME DEVICE...",
     "Takes log devices away from a pool while it is used: a device, or a mirror by the\n"
     "name that pool status shows (mirror-2).\n\n"
     "  -n  say what would be removed, change nothing",
     pool_remove},
    {"pool", "offline", "nt", 2, -1, "[-nt] NAME DEVICE...",
     "Takes devices, given by path or GUID, out of use, while the pool can do without them.\n"
     "They stay offline, also after an import, until pool online.\n\n"
     "  -n  check, change nothing\n"
     "  -t  only until the next import",
     pool_offline},
    {"pool", "online", "n", 2, -1, "[-n] NAME DEVICE...",
     "Takes devices that are OFFLINE, FAULTED or MISSING into use again. What they have\n"
     "missed is rebuilt: see pool resilver.\n\n"
     "  -n  check, change nothing",
     pool_online},
    {"pool", "destroy", "fn", 1, 1, "[-fn] NAME",
     "Destroys a pool and everything in it. Its devices are free afterwards.\n\n"
     "  -f  although it is in use\n"
     "  -n  say what would be destroyed, change nothing",
     pool_destroy},
    {"pool", "import", "d:fFmnN:o:j", 0, 1,
     "[-d PATH]... [-fFmn] [-N NEWNAME] [-o readonly=on] [-j] [NAME|GUID]",
     "Opens a pool that was exported, or that another host used. Without a name, shows\n"
     "the pools that can be imported.\n\n"
     "  -d  look at this device, file or directory (default /dev/disk/by-id); repeatable\n"
     "  -f  although another host used it last and did not export it\n"
     "  -F  go back to an older state of the pool if the newest is damaged\n"
     "  -m  although log devices are missing; changes that only they hold are lost\n"
     "  -n  check, import nothing\n"
     "  -N  give the pool another name\n"
     "  -o  readonly=on: write nothing to the devices\n"
     "  -j  JSON",
     pool_import},
    {"pool", "export", "fn", 1, -1, "[-fn] NAME...",
     "Writes everything to the devices and closes the pool, so that any host may import\n"
     "it.\n\n"
     "  -f  although it is in use\n"
     "  -n  check, change nothing",
     pool_export},
    {"pool", "list", "Hpjo:", 0, -1, "[-Hpj] [-o COLUMN,...] [NAME]...",
     "Lists pools.\n\n"
     "  -H  no header, tabs between columns\n"
     "  -p  exact numbers\n"
     "  -j  JSON\n"
     "  -o  columns: name,size,allocated,free,freeing,capacity,health,guid,readonly,txg",
     pool_list},
    {"pool", "status", "jv", 0, -1, "[-jv] [NAME]...",
     "Shows the groups and devices of pools, their states and error counters, and jobs.\n\n"
     "  -j  JSON, with I/O counters\n"
     "  -v  also the files that the last scrub could not repair",
     pool_status},
    {"pool", "scrub", "ps", 1, -1, "[-ps] NAME...",
     "Begins to read everything in a pool, all copies and parity, and to repair what is\n"
     "wrong; or goes on after a pause. 'tarn pool status' shows how far it is.\n\n"
     "  -p  pause it\n"
     "  -s  stop it",
     pool_scrub},
    {"pool", "resilver", "", 1, -1, "NAME...",
     "Begins to rebuild what devices in use have missed, unless that is going on. It begins\n"
     "by itself when devices come back: at an import, pool online, and pool clear.",
     pool_resilver},
    {"pool", "wait", "t:", 1, 1, "[-t JOB,...] NAME",
     "Waits until a pool has no jobs, paused ones among them.\n\n"
     "  -t  only for jobs of these kinds: scrub,resilver",
     pool_wait},
    {"pool", "job", "", 2, -1, "SETTING=VALUE... NAME",
     "Sets how the jobs of a pool go on, now and until they end: priority=0 (yields to all\n"
     "else) to 100 (to nothing), 50 at first; floor=SIZE and ceiling=SIZE a second.",
     pool_job},
    {"pool", "clear", "", 1, 1, "NAME",
     "Resets the error counters, forgets lost changes, and brings failed devices that\n"
     "answer again back; what they have missed is rebuilt.",
     pool_clear},
    {"pool", "get", "Hpjo:", 1, -1, "[-Hpj] [-o FIELD,...] all|PROPERTY[,...] [NAME]...",
     "Shows properties of pools.\n\n"
     "  -H  no header, tabs between columns\n"
     "  -p  exact numbers\n"
     "  -j  JSON\n"
     "  -o  fields: name,property,value,source",
     pool_get},
    {"pool", "set", "", 2, -1, "PROPERTY=VALUE... NAME", "Sets properties of a pool: comment.",
     pool_set},
    {"pool", "history", "j", 0, -1, "[-j] [NAME]...",
     "Shows the commands that changed pools.\n\n"
     "  -j  JSON",
     pool_history},
    {0},
};
