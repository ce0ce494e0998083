// SPDX-License-Identifier: LGPL-3.0-or-later
#include "poollist.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct pool_entry {
	struct pool_entry *next;
	uint64_t guid;
	char name[TARN_POOL_NAME_MAX + 1];
	bool read_only;
	uint32_t ndevs;
	char **devs;
};

static void entry_free(struct pool_entry *entry)
{
	if (!entry)
		return;
	for (uint32_t i = 0; i < entry->ndevs; i++)
		free(entry->devs[i]);
	free(entry->devs);
	free(entry);
}

static struct pool_entry *entry_new(uint64_t guid, const char *name, bool read_only)
{
	struct pool_entry *entry = calloc(1, sizeof(*entry));

	if (entry) {
		entry->guid = guid;
		entry->read_only = read_only;
		snprintf(entry->name, sizeof(entry->name), "%s", name);
	}
	return entry;
}

static int entry_add(struct pool_entry *entry, const char *path)
{
	char **devs = reallocarray(entry->devs, entry->ndevs + 1, sizeof(*devs));

	if (!devs)
		return -ENOMEM;
	entry->devs = devs;
	devs[entry->ndevs] = strdup(path);
	return devs[entry->ndevs] ? (entry->ndevs++, 0) : -ENOMEM;
}

static struct pool_entry **entry_find(struct pool_list *list, uint64_t guid)
{
	struct pool_entry **at = &list->first;

	while (*at && (*at)->guid != guid)
		at = &(*at)->next;
	return at;
}

/* ---- the file ---- */

/* *last: the pool that the line before was about, if it is known. */
static int read_line(struct pool_list *list, struct pool_entry **last, char *line)
{
	uint64_t guid;
	char name[TARN_POOL_NAME_MAX + 1], mode[3];
	int end = 0;

	line[strcspn(line, "\n")] = '\0';
	if (strncmp(line, "dev ", 4) == 0)
		return *last && line[4] == '/' ? entry_add(*last, line + 4) : -EINVAL;
	*last = NULL;
	/* %63s: TARN_POOL_NAME_MAX */
	if (sscanf(line, "pool %" SCNx64 " %63s %2s%n", &guid, name, mode, &end) != 3 ||
	    line[end] != '\0' || *entry_find(list, guid))
		return -EINVAL;
	*last = entry_new(guid, name, strcmp(mode, "ro") == 0);
	if (!*last)
		return -ENOMEM;
	*entry_find(list, guid) = *last;
	return 0;
}

int pool_list_open(struct pool_list *list, const char *path)
{
	struct pool_entry *last = NULL;
	char *line = NULL;
	size_t size = 0;
	int r = 0;

	*list = (struct pool_list){.path = path};
	pthread_mutex_init(&list->lock, NULL);
	FILE *file = fopen(path, "re");
	if (!file)
		return errno == ENOENT ? 0 : -errno;
	while (r != -ENOMEM && getline(&line, &size, file) >= 0) {
		int bad = read_line(list, &last, line);
		r = bad ? bad : r;
	}
	if (r != -ENOMEM && ferror(file))
		r = -EIO;
	free(line);
	fclose(file);
	return r;
}

void pool_list_close(struct pool_list *list)
{
	while (list->first) {
		struct pool_entry *entry = list->first;
		list->first = entry->next;
		entry_free(entry);
	}
	pthread_mutex_destroy(&list->lock);
}

/* Replaces the file as a whole: a crash leaves the old or the new one. */
static int write_file(struct pool_list *list)
{
	char *temp;
	int r = 0;

	if (asprintf(&temp, "%s.new", list->path) < 0)
		return -ENOMEM;
	FILE *file = fopen(temp, "we");
	if (!file) {
		r = -errno;
		free(temp);
		return r;
	}
	for (struct pool_entry *entry = list->first; entry; entry = entry->next) {
		fprintf(file, "pool %016" PRIx64 " %s %s\n", entry->guid, entry->name,
			entry->read_only ? "ro" : "rw");
		for (uint32_t i = 0; i < entry->ndevs; i++)
			fprintf(file, "dev %s\n", entry->devs[i]);
	}
	/* What a full disk did not take is missing, also if there was room for the rest. */
	if (fflush(file) != 0 || ferror(file) || fsync(fileno(file)) != 0)
		r = errno ? -errno : -EIO;
	if (fclose(file) != 0 && r == 0)
		r = -errno;
	if (r == 0 && rename(temp, list->path) != 0)
		r = -errno;
	if (r != 0)
		unlink(temp);
	free(temp);
	return r;
}

/* ---- the engine's pools ---- */

/* The present devices of an imported pool. A path that the file can't hold is left out:
   its folder will be searched. */
static int entry_of(struct tarn_engine *engine, const char *name, uint64_t guid,
		    struct pool_entry **out)
{
	struct tarn_pool_status *status;
	int r = tarn_pool_status(engine, name, &status);

	if (r != 0)
		return r;
	struct pool_entry *entry = entry_new(guid, name, status->read_only);
	if (!entry)
		r = -ENOMEM;
	for (uint32_t i = 0; r == 0 && i < status->ndevs; i++) {
		const char *path = status->devs[i].path;
		if (path[0] == '/' && !strchr(path, '\n'))
			r = entry_add(entry, path);
	}
	tarn_pool_status_free(status);
	if (r != 0)
		entry_free(entry);
	else
		*out = entry;
	return r;
}

int pool_list_update(struct pool_list *list, struct tarn_engine *engine, const char *name,
		     uint64_t guid, bool present)
{
	struct pool_entry *entry = NULL, *old;
	int r = present ? entry_of(engine, name, guid, &entry) : 0;

	if (r != 0)
		return r;
	pthread_mutex_lock(&list->lock);
	struct pool_entry **at = entry_find(list, guid);
	old = *at;
	if (old)
		*at = old->next;
	if (entry) {
		entry->next = list->first;
		list->first = entry;
	}
	r = write_file(list);
	pthread_mutex_unlock(&list->lock);
	entry_free(old);
	return r;
}

/* All devices lie where they were. Else a mirror would be imported without one that is there. */
static bool entry_complete(const struct pool_entry *entry, struct tarn_engine *engine)
{
	struct tarn_import_candidate *found;
	bool complete = false;
	uint32_t n;

	if (tarn_pool_scan(engine, (const char *const *)entry->devs, entry->ndevs, &found, &n) != 0)
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (found[i].guid == entry->guid)
			complete = found[i].devs_found == found[i].devs_total;
	free(found);
	return complete;
}

/* The folders of the devices, for those that were added or have other names now. */
static int entry_widen(struct pool_entry *entry)
{
	uint32_t ndevs = entry->ndevs;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < ndevs; i++) {
		char *copy = strdup(entry->devs[i]);
		if (!copy)
			return -ENOMEM;
		char *folder = dirname(copy);
		bool known = false;
		for (uint32_t j = ndevs; j < entry->ndevs; j++)
			known = known || strcmp(entry->devs[j], folder) == 0;
		if (!known)
			r = entry_add(entry, folder);
		free(copy);
	}
	return r;
}

static int entry_import(const struct pool_entry *entry, struct tarn_engine *engine,
			struct tarn_error *err)
{
	struct tarn_import_spec spec = {.guid = entry->guid,
					.paths = (const char *const *)entry->devs,
					.npaths = entry->ndevs,
					.flags = entry->read_only ? TARN_READ_ONLY : 0};

	return tarn_pool_import(engine, &spec, err);
}

static struct pool_entry *entry_copy(const struct pool_entry *entry)
{
	struct pool_entry *copy = entry_new(entry->guid, entry->name, entry->read_only);

	for (uint32_t i = 0; copy && i < entry->ndevs; i++) {
		if (entry_add(copy, entry->devs[i]) != 0) {
			entry_free(copy);
			copy = NULL;
		}
	}
	return copy;
}

void pool_list_import(struct pool_list *list, struct tarn_engine *engine,
		      void (*complain)(const char *name, const char *why))
{
	struct pool_entry *todo = NULL;

	/* Each import changes the list. */
	pthread_mutex_lock(&list->lock);
	for (struct pool_entry *entry = list->first; entry; entry = entry->next) {
		struct pool_entry *copy = entry_copy(entry);
		if (copy) {
			copy->next = todo;
			todo = copy;
		}
	}
	pthread_mutex_unlock(&list->lock);
	while (todo) {
		struct pool_entry *entry = todo;
		struct tarn_error err = {0};
		todo = entry->next;
		if (!entry_complete(entry, engine) && entry_widen(entry) != 0)
			complain(entry->name, "out of memory");
		else if (entry_import(entry, engine, &err) != 0)
			complain(entry->name, err.text);
		entry_free(entry);
	}
}
