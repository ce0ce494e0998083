// SPDX-License-Identifier: LGPL-3.0-or-later
#include "pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIRROR_MAX 8

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

struct json_object *parse_groups(const struct args *args, char **words, int n)
{
	struct json_object *groups = json_object_new_array(), *mirror = NULL;
	bool log = false;

	for (int i = 0; i < n; i++) {
		size_t members = mirror ? json_object_array_length(mirror) : 0;

		if (!strcmp(words[i], "mirror") || !strcmp(words[i], "log")) {
			if (mirror && members < 2)
				usage_error(args, "a mirror needs at least two devices");
			log |= words[i][0] == 'l';
			mirror = words[i][0] == 'l'
				     ? NULL
				     : add_group(groups, log ? "log mirror" : "mirror");
		} else if (is_foreign_kind(words[i])) {
			usage_error(args,
				    "'%s' is not a kind of group: use mirror, log, or devices "
				    "alone (./%s for a file of that name)",
				    words[i], words[i]);
		} else if (members == MIRROR_MAX) {
			usage_error(args, "a mirror has at most %d devices", MIRROR_MAX);
		} else {
			add_device(mirror ? mirror
					  : add_group(groups, log ? "log single" : "single"),
				   words[i]);
		}
	}
	if (mirror && json_object_array_length(mirror) < 2)
		usage_error(args, "a mirror needs at least two devices");
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
		bool log = !strncmp(get_text(group, "kind"), "log ", 4);
		bool mirror = strstr(get_text(group, "kind"), "mirror");

		if (log && !logs)
			puts("\tlogs");
		logs |= log;
		if (mirror)
			puts("\t  mirror");
		for (size_t d = 0; d < json_object_array_length(devices); d++)
			printf("\t  %s%s\n", mirror ? "  " : "",
			       json_object_get_string(json_object_array_get_idx(devices, d)));
	}
}
