// SPDX-License-Identifier: LGPL-3.0-or-later
#include "bus.h"
#include "print.h"
#include "tarn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Appends the datasets at path (and below it; "" is everything), page by page, with the
   properties in names ("all" or a list with commas; "" is none). */
static void fetch_datasets(struct json_object *datasets, const char *path, bool recursive,
			   const char *names, bool raw)
{
	struct json_object *after = NULL;
	char *copy = checked(strdup(names)), *rest = copy, *name, *list[256];
	size_t n = 0;

	while (names[0] && n < 256 && (name = strsep(&rest, ",")))
		list[n++] = name;
	do {
		struct bus_call *call = bus_call("Dataset", "List");
		struct json_object *options = json_object_new_object(), *values, *page;

		json_object_object_add(options, "recursive", json_object_new_boolean(recursive));
		json_object_object_add(options, "raw", json_object_new_boolean(raw));
		if (after)
			json_object_object_add(options, "after", after);
		bus_string(call, path);
		bus_strings(call, list, n);
		bus_options(call, options);
		values = bus_send(call);
		page = json_object_array_get_idx(values, 0);
		for (size_t i = 0; i < json_object_array_length(page); i++)
			json_object_array_add(datasets,
					      json_object_get(json_object_array_get_idx(page, i)));
		after = json_object_get(json_object_array_get_idx(values, 1));
		json_object_put(values);
	} while (json_object_get_string_len(after) > 0);
	free(copy);
}

/* The datasets that operands name; all without any. */
static struct json_object *fetch_operands(char **paths, int npaths, bool recursive,
					  const char *names, bool raw)
{
	struct json_object *datasets = json_object_new_array();

	for (int i = 0; i < npaths; i++)
		fetch_datasets(datasets, paths[i], recursive, names, raw);
	if (npaths == 0)
		fetch_datasets(datasets, "", true, names, raw);
	return datasets;
}

static void fs_create(const struct args *args)
{
	struct json_object *props = option_props(args, 'o');
	struct bus_call *call = bus_call("Dataset", "Create");

	bus_string(call, args->operands[0]);
	bus_props(call, props);
	bus_options(call, change_options(args, "p=parents"));
	bus_send(call);
}

static void fs_destroy(const struct args *args)
{
	const char *path = args->operands[0];
	struct json_object *doomed = NULL;
	struct bus_call *call = bus_call("Dataset", "Destroy");

	bus_string(call, path);
	bus_options(call, change_options(args, "r=recursive f=force n=dry_run"));
	bus_send(call);
	if (!has_option(args, 'n'))
		return;
	doomed = fetch_operands(args->operands, 1, has_option(args, 'r'), "", true);
	for (size_t i = 0; i < json_object_array_length(doomed); i++)
		printf("would destroy %s\n",
		       get_text(json_object_array_get_idx(doomed, i), "name"));
}

static void fs_rename(const struct args *args)
{
	struct bus_call *call = bus_call("Dataset", "Rename");

	bus_string(call, args->operands[0]);
	bus_string(call, args->operands[1]);
	bus_options(call, change_options(args, ""));
	bus_send(call);
}

static const struct column list_columns[] = {
    {"name", NULL, "NAME", "name", COLUMN_TEXT},
    {"used", NULL, "USED", "used", COLUMN_SIZE},
    {"available", "avail", "AVAIL", "available", COLUMN_SIZE},
    {"referenced", "refer", "REFER", "referenced", COLUMN_SIZE},
    {"logicalreferenced", "lrefer", "LREFER", "logicalreferenced", COLUMN_SIZE},
    {"inodes", NULL, "INODES", "inodes", COLUMN_NUMBER},
    {"creation", NULL, "CREATION", "creation", COLUMN_TIME},
    {"mounted", NULL, "MOUNTED", "mounted", COLUMN_TEXT},
    {"type", NULL, "TYPE", "type", COLUMN_TEXT},
    {"id", NULL, "ID", "id", COLUMN_NUMBER},
    {0},
};

/* Adds a name to a list with commas. */
static void add_name(char **names, const char *name)
{
	char *longer;

	if (asprintf(&longer, "%s%s%s", *names, **names ? "," : "", name) < 0)
		fail("out of memory");
	free(*names);
	*names = longer;
}

/* Columns that are properties, by -o, -s and -S. */
static char *property_names(const struct args *args, const struct columns *columns)
{
	char *names = checked(strdup(""));

	for (size_t i = 0; i < columns->n; i++)
		if (!columns->list[i].known)
			add_name(&names, columns->list[i].column.name);
	for (size_t i = 0; i < args->noptions; i++) {
		const struct option_use *use = &args->options[i];

		if ((use->letter == 's' || use->letter == 'S') &&
		    !choose_columns(list_columns, use->value).list[0].known)
			add_name(&names, use->value);
	}
	return names;
}

/* Makes the properties of each dataset members of its object. */
static void flatten(struct json_object *datasets)
{
	for (size_t i = 0; i < json_object_array_length(datasets); i++) {
		struct json_object *dataset = json_object_array_get_idx(datasets, i);
		struct json_object *rows = json_object_object_get(dataset, "properties");

		for (size_t r = 0; r < json_object_array_length(rows); r++) {
			struct json_object *row = json_object_array_get_idx(rows, r);

			json_object_object_add(
			    dataset, json_object_get_string(json_object_array_get_idx(row, 0)),
			    json_object_get(json_object_array_get_idx(row, 1)));
		}
	}
}

static void check_types(const struct args *args)
{
	const char *types = option_value(args, 't');
	char *copy = checked(strdup(types ? types : "all")), *rest = copy, *type;

	while ((type = strsep(&rest, ",")))
		if (strcmp(type, "all") && strcmp(type, "filesystem") && strcmp(type, "fs"))
			usage_error(args, "there is no type '%s': use filesystem or all", type);
	free(copy);
}

static void fs_list(const struct args *args)
{
	const char *names = option_value(args, 'o');
	struct columns columns =
	    choose_columns(list_columns, names ? names : "name,used,avail,refer,mounted");
	bool raw = has_option(args, 'p') || has_option(args, 'j');
	struct json_object *datasets;

	check_types(args);
	for (size_t i = 0; i < columns.n; i++)
		if (!strcmp(columns.list[i].column.name, "all"))
			usage_error(args, "there is no column 'all': name the properties");
	datasets = fetch_operands(args->operands, args->noperands, has_option(args, 'r'),
				  property_names(args, &columns), raw);
	flatten(datasets);
	sort_objects(args, list_columns, datasets);
	if (json_object_array_length(datasets) > 0 || has_option(args, 'j'))
		print_objects(args, &columns, datasets, "datasets");
	else if (!has_option(args, 'H'))
		puts("no datasets available");
}

static bool has_row(struct json_object *rows, const char *name)
{
	for (size_t i = 0; i < json_object_array_length(rows); i++) {
		struct json_object *row = json_object_array_get_idx(rows, i);

		if (!strcmp(json_object_get_string(json_object_array_get_idx(row, 0)), name))
			return true;
	}
	return false;
}

/* A user property that is asked for but set nowhere is shown as "-". */
static void add_unset(struct json_object *datasets, const char *names)
{
	char *copy = checked(strdup(names)), *rest = copy, *name;

	while ((name = strsep(&rest, ","))) {
		for (size_t i = 0; strchr(name, ':') && i < json_object_array_length(datasets);
		     i++) {
			struct json_object *dataset = json_object_array_get_idx(datasets, i);
			struct json_object *rows = json_object_object_get(dataset, "properties");
			struct json_object *row;

			if (has_row(rows, name))
				continue;
			row = json_object_new_array();
			json_object_array_add(row, json_object_new_string(name));
			json_object_array_add(row, json_object_new_string("-"));
			json_object_array_add(row, json_object_new_string("-"));
			json_object_array_add(rows, row);
		}
	}
	free(copy);
}

static void fs_get(const struct args *args)
{
	const char *names = args->operands[0];
	bool raw = has_option(args, 'p') || has_option(args, 'j');
	struct json_object *datasets = fetch_operands(args->operands + 1, args->noperands - 1,
						      has_option(args, 'r'), names, raw);

	if (!has_option(args, 'j'))
		add_unset(datasets, names);
	print_properties(args, names, datasets, "datasets");
}

static void fs_set(const struct args *args)
{
	struct json_object *props = json_object_new_object();
	int i = 0;

	while (i < args->noperands && strchr(args->operands[i], '='))
		add_prop(args, props, args->operands[i++]);
	if (i == 0)
		usage_error(args, "'%s' is not of the form property=value", args->operands[0]);
	if (i == args->noperands)
		usage_error(args, "the dataset is missing");
	for (; i < args->noperands; i++) {
		struct bus_call *call = bus_call("Dataset", "Set");

		bus_string(call, args->operands[i]);
		bus_props(call, props);
		bus_options(call, change_options(args, ""));
		bus_send(call);
	}
}

static void fs_inherit(const struct args *args)
{
	for (int i = 1; i < args->noperands; i++) {
		struct bus_call *call = bus_call("Dataset", "Inherit");

		bus_string(call, args->operands[i]);
		bus_string(call, args->operands[0]);
		bus_options(call, change_options(args, "r=recursive"));
		bus_send(call);
	}
}

const struct command fs_commands[] = {
    {"fs", "create", "po:", 1, 1, "[-p] [-o property=value]... PATH",
     "Makes a dataset, e.g. edastore/projects/a.\n\n"
     "  -p  make missing parents too; nothing is done if it exists\n"
     "  -o  a property, e.g. compression=zstd",
     fs_create},
    {"fs", "destroy", "rfn", 1, 1, "[-rfn] PATH",
     "Destroys a dataset with all its files. Space is freed in the background.\n\n"
     "  -r  the datasets below it too\n"
     "  -f  although it is in use\n"
     "  -n  say what would be destroyed, change nothing",
     fs_destroy},
    {"fs", "rename", "", 2, 2, "PATH NEWPATH",
     "Renames a dataset, or moves it within its pool. Open files stay open.", fs_rename},
    {"fs", "list", "rHpjo:s:S:t:", 0, -1,
     "[-rHpj] [-o COLUMN,...] [-s COLUMN]... [-S COLUMN]... [-t TYPE] [PATH]...",
     "Lists datasets; all of them without a path.\n\n"
     "  -r  the datasets below PATH too\n"
     "  -H  no header, tabs between columns\n"
     "  -p  exact numbers\n"
     "  -j  JSON\n"
     "  -o  columns: name,used,available,referenced,logicalreferenced,inodes,creation,\n"
     "      mounted,type,id and any property\n"
     "  -s  sort by this column, -S in descending order\n"
     "  -t  filesystem or all",
     fs_list},
    {"fs", "get", "rHpjo:", 1, -1, "[-rHpj] [-o FIELD,...] all|PROPERTY[,...] [PATH]...",
     "Shows properties of datasets; of all without a path.\n\n"
     "  -r  the datasets below PATH too\n"
     "  -H  no header, tabs between columns\n"
     "  -p  exact numbers\n"
     "  -j  JSON\n"
     "  -o  fields: name,property,value,source",
     fs_get},
    {"fs", "set", "", 2, -1, "PROPERTY=VALUE... PATH...",
     "Sets properties of datasets. Those below inherit them.\n\n"
     "compression=lz4|zstd|zstd-1..19|off|on  checksum=xxh3|sha256|on\n"
     "recordsize=4K..1M  atime=on|off|relatime  readonly=on|off  copies=1|2\n"
     "sync=standard|always|disabled\n"
     "xattr=on|off  acltype=nfsv4|off  snapdir=hidden|visible  canmount=on|off\n"
     "comment=text  module:name=text",
     fs_set},
    {"fs", "inherit", "r", 2, -1, "[-r] PROPERTY PATH...",
     "Removes a property that is set, so that the parent's value or the default counts.\n\n"
     "  -r  in the datasets below it too",
     fs_inherit},
    {0},
};
