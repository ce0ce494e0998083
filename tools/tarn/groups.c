// SPDX-License-Identifier: LGPL-3.0-or-later
#include "pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct json_object *add_group(struct json_object *groups, const char *kind)
{
	struct json_object *group = json_object_new_object();
	struct json_object *devices = json_object_new_array();

	json_object_object_add(group, "kind", json_object_new_string(kind));
	json_object_object_add(group, "devices", devices);
	json_object_array_add(groups, group);
	return devices;
}

/* Words that mean another kind of group to those who know zpool. */
static bool is_foreign_kind(const char *word)
{
	static const char *const kinds[] = {"raidz", "draid", "spare", "cache", "special", "dedup"};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strncmp(word, kinds[i], strlen(kinds[i])) && !strchr(word, '/'))
			return true;
	return false;
}

static void add_device(struct json_object *devices, const char *word)
{
	char *path = device_path(word);

	json_object_array_add(devices, json_object_new_string(path));
	free(path);
}

/* A word that begins a group of several devices. */
struct kind {
	const char *word, *name;
	size_t least, most; /* devices */
};

static const struct kind kinds[] = {
    {"mirror", "mirror", 2, 8},  {"raidz", "raidz1", 2, 32},  {"raidz1", "raidz1", 2, 32},
    {"raidz2", "raidz2", 3, 32}, {"raidz3", "raidz3", 4, 32},
};

static const struct kind *find_kind(const char *word)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(word, kinds[i].word))
			return &kinds[i];
	return NULL;
}

static void end_group(const struct args *args, const struct kind *kind, struct json_object *devices)
{
	if (kind && json_object_array_length(devices) < kind->least)
		usage_error(args, "a %s needs at least %zu devices", kind->name, kind->least);
}

static struct json_object *add_kind(const struct args *args, struct json_object *groups,
				    const struct kind *kind, bool log)
{
	if (log && strcmp(kind->name, "mirror"))
		usage_error(args, "log devices are single ones or mirrors, not a %s", kind->name);
	return add_group(groups, log ? "log mirror" : kind->name);
}

struct json_object *parse_groups(const struct args *args, char **words, int n)
{
	struct json_object *groups = json_object_new_array(), *devices = NULL;
	const struct kind *kind = NULL;
	bool log = false;

	for (int i = 0; i < n; i++) {
		const struct kind *next = find_kind(words[i]);

		if (next || !strcmp(words[i], "log")) {
			end_group(args, kind, devices);
			log |= !next;
			kind = next;
			devices = next ? add_kind(args, groups, next, log) : NULL;
		} else if (is_foreign_kind(words[i])) {
			usage_error(args,
				    "'%s' is not a kind of group: use mirror, raidz1, raidz2, "
				    "raidz3, log, or devices alone (./%s for a file of that name)",
				    words[i], words[i]);
		} else if (kind && json_object_array_length(devices) == kind->most) {
			usage_error(args, "a %s has at most %zu devices", kind->name, kind->most);
		} else {
			add_device(kind ? devices
					: add_group(groups, log ? "log single" : "single"),
				   words[i]);
		}
	}
	end_group(args, kind, devices);
	if (n && !strcmp(words[n - 1], "log"))
		usage_error(args, "no device follows 'log'");
	return groups;
}

void print_groups(const char *pool, struct json_object *groups)
{
	bool logs = false;

	printf("\n\t%s\n", pool);
	for (size_t i = 0; i < json_object_array_length(groups); i++) {
		struct json_object *group = json_object_array_get_idx(groups, i);
		struct json_object *devices = json_object_object_get(group, "devices");
		const char *kind = get_text(group, "kind");
		bool log = !strncmp(kind, "log ", 4), alone;

		if (log && !logs)
			puts("\tlogs");
		logs |= log;
		kind += log ? 4 : 0;
		alone = !strcmp(kind, "single");
		if (!alone)
			printf("\t  %s\n", kind);
		for (size_t d = 0; d < json_object_array_length(devices); d++)
			printf("\t  %s%s\n", alone ? "" : "  ",
			       json_object_get_string(json_object_array_get_idx(devices, d)));
	}
}
