// SPDX-License-Identifier: LGPL-3.0-or-later
#include "fake_engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/job.h>

void fake_init(struct tarn_engine *engine)
{
	memset(engine, 0, sizeof(*engine));
	pthread_mutex_init(&engine->lock, NULL);
	pthread_cond_init(&engine->changed, NULL);
}

void fake_release(struct tarn_engine *engine)
{
	pthread_mutex_lock(&engine->lock);
	engine->released = true;
	pthread_cond_broadcast(&engine->changed);
	pthread_mutex_unlock(&engine->lock);
}

void fake_wait_hanging(struct tarn_engine *engine, unsigned n)
{
	pthread_mutex_lock(&engine->lock);
	while (engine->hanging < n)
		pthread_cond_wait(&engine->changed, &engine->lock);
	pthread_mutex_unlock(&engine->lock);
}

static void hang(struct tarn_engine *engine)
{
	pthread_mutex_lock(&engine->lock);
	engine->hanging++;
	pthread_cond_broadcast(&engine->changed);
	while (!engine->released)
		pthread_cond_wait(&engine->changed, &engine->lock);
	pthread_mutex_unlock(&engine->lock);
}

static void remember(struct tarn_engine *engine, const char *text)
{
	pthread_mutex_lock(&engine->lock);
	snprintf(engine->last, sizeof(engine->last), "%s", text);
	pthread_mutex_unlock(&engine->lock);
}

/* The failure that the name asks for. */
static int steer(const char *name, struct tarn_error *err)
{
	int code = 0;

	if (sscanf(name, "error-%d", &code) == 1) {
		err->code = -code;
		snprintf(err->text, sizeof(err->text), "Refused '%s'", name);
	} else {
		sscanf(name, "bare-%d", &code);
	}
	return -code;
}

static void describe(FILE *text, const struct tarn_group_spec *groups, uint32_t ngroups,
		     const struct tarn_prop *props, uint32_t nprops, int flags)
{
	for (uint32_t i = 0; i < ngroups; i++) {
		fprintf(text, " %s%s(", groups[i].class == TARN_CLASS_LOG ? "log " : "",
			groups[i].kind == TARN_GROUP_MIRROR ? "mirror" : "single");
		for (uint32_t d = 0; d < groups[i].ndevs; d++)
			fprintf(text, "%s%s", d ? "," : "", groups[i].paths[d]);
		fputc(')', text);
	}
	for (uint32_t i = 0; i < nprops; i++)
		fprintf(text, " %s=%s", props[i].name, props[i].value);
	fprintf(text, " flags=%d", flags);
}

static int change(struct tarn_engine *engine, const char *verb, const char *name,
		  const struct tarn_group_spec *groups, uint32_t ngroups,
		  const struct tarn_prop *props, uint32_t nprops, int flags, struct tarn_error *err)
{
	char text[1024] = "";
	FILE *stream = fmemopen(text, sizeof(text), "w");

	if (!strncmp(name, "hang", 4))
		hang(engine);
	fprintf(stream, "%s %s", verb, name);
	describe(stream, groups, ngroups, props, nprops, flags);
	fclose(stream);
	remember(engine, text);
	return steer(name, err);
}

int tarn_pool_create(struct tarn_engine *engine, const char *name,
		     const struct tarn_group_spec *groups, uint32_t ngroups,
		     const struct tarn_prop *props, uint32_t nprops, int flags,
		     struct tarn_error *err)
{
	return change(engine, "create", name, groups, ngroups, props, nprops, flags, err);
}

int tarn_pool_add(struct tarn_engine *engine, const char *name,
		  const struct tarn_group_spec *groups, uint32_t ngroups, int flags,
		  struct tarn_error *err)
{
	return change(engine, "add", name, groups, ngroups, NULL, 0, flags, err);
}

int tarn_pool_remove(struct tarn_engine *engine, const char *name, const char *device, int flags,
		     struct tarn_error *err)
{
	struct tarn_group_spec group = {TARN_GROUP_SINGLE, 1, &device, TARN_CLASS_LOG};

	return change(engine, "remove", name, &group, 1, NULL, 0, flags, err);
}

int tarn_pool_offline(struct tarn_engine *engine, const char *name, const char *device,
		      bool temporary, int flags, struct tarn_error *err)
{
	struct tarn_group_spec group = {TARN_GROUP_SINGLE, 1, &device, TARN_CLASS_DATA};

	return change(engine, temporary ? "offline-t" : "offline", name, &group, 1, NULL, 0, flags,
		      err);
}

int tarn_pool_online(struct tarn_engine *engine, const char *name, const char *device, int flags,
		     struct tarn_error *err)
{
	struct tarn_group_spec group = {TARN_GROUP_SINGLE, 1, &device, TARN_CLASS_DATA};

	return change(engine, "online", name, &group, 1, NULL, 0, flags, err);
}

int tarn_pool_destroy(struct tarn_engine *engine, const char *name, int flags,
		      struct tarn_error *err)
{
	return change(engine, "destroy", name, NULL, 0, NULL, 0, flags, err);
}

int tarn_pool_export(struct tarn_engine *engine, const char *name, int flags,
		     struct tarn_error *err)
{
	return change(engine, "export", name, NULL, 0, NULL, 0, flags, err);
}

int tarn_pool_scan(struct tarn_engine *engine, const char *const *paths, uint32_t npaths,
		   struct tarn_import_candidate **out, uint32_t *count)
{
	(void)engine;
	if (npaths == 0)
		return -ENOENT;
	*out = calloc(1, sizeof(**out));
	**out = (struct tarn_import_candidate){.guid = FAKE_GUID,
					       .txg = 9,
					       .devs_found = 1,
					       .devs_total = 2,
					       .importable = true,
					       .active = true,
					       .host = "elsewhere"};
	snprintf((*out)->name, sizeof((*out)->name), "%s", paths[0]);
	*count = 1;
	return 0;
}

int tarn_pool_import(struct tarn_engine *engine, const struct tarn_import_spec *spec,
		     struct tarn_error *err)
{
	char text[512];

	snprintf(text, sizeof(text), "import %s guid=%llu new=%s paths=%u flags=%d",
		 spec->name ? spec->name : "-", (unsigned long long)spec->guid,
		 spec->new_name ? spec->new_name : "-", spec->npaths, spec->flags);
	remember(engine, text);
	return spec->name ? steer(spec->name, err) : 0;
}

int tarn_pool_status(struct tarn_engine *engine, const char *name, struct tarn_pool_status **out)
{
	struct tarn_pool_status *s = calloc(1, sizeof(*s));

	(void)engine;
	if (strcmp(name, "p")) {
		free(s);
		return -ENOENT;
	}
	s->guid = FAKE_GUID;
	s->state = TARN_DEV_DEGRADED;
	s->size = 3000;
	s->allocated = 1000;
	s->free = 2000;
	s->ngroups = 2;
	s->nlogs = 1;
	s->ndevs = 4;
	s->groups = calloc(s->ngroups + s->nlogs, sizeof(*s->groups));
	s->logs = s->groups + s->ngroups;
	s->devs = calloc(s->ndevs, sizeof(*s->devs));
	strcpy(s->name, name);
	s->groups[0] =
	    (struct tarn_group_status){TARN_GROUP_MIRROR, 0, 2, 2000, 700, TARN_DEV_DEGRADED};
	s->groups[1] =
	    (struct tarn_group_status){TARN_GROUP_SINGLE, 2, 1, 1000, 300, TARN_DEV_ONLINE};
	s->logs[0] = (struct tarn_group_status){TARN_GROUP_SINGLE, 3, 1, 500, 0, TARN_DEV_ONLINE};
	strcpy(s->devs[0].path, FAKE_DEVICE);
	strcpy(s->devs[3].path, "/dev/log");
	strcpy(s->devs[1].path, "/dev/b");
	strcpy(s->devs[2].path, "/dev/c");
	s->devs[1].state = TARN_DEV_FAULTED;
	s->devs[1].checksum_errors = 7;
	*out = s;
	return 0;
}

int tarn_pool_lost(struct tarn_engine *engine, const char *name, struct tarn_lost **out,
		   uint32_t *count)
{
	(void)engine;
	if (strcmp(name, "p"))
		return -ENOENT;
	*out = calloc(1, sizeof(**out));
	strcpy((*out)->dataset, "p/lossy");
	(*out)->changes = 9;
	*count = 1;
	return 0;
}

void tarn_pool_status_free(struct tarn_pool_status *status)
{
	free(status->groups);
	free(status->devs);
	free(status);
}

int tarn_pool_list(struct tarn_engine *engine, char (**out)[TARN_POOL_NAME_MAX + 1],
		   uint32_t *count)
{
	(void)engine;
	*out = calloc(1, sizeof(**out));
	strcpy((*out)[0], "p");
	*count = 1;
	return 0;
}

int tarn_pool_clear(struct tarn_engine *engine, const char *name, struct tarn_error *err)
{
	return change(engine, "clear", name, NULL, 0, NULL, 0, 0, err);
}

int tarn_job_list(struct tarn_engine *engine, const char *pool, struct tarn_job **out,
		  uint32_t *count)
{
	(void)engine;
	if (strcmp(pool, "p"))
		return -ENOENT;
	*out = calloc(1, sizeof(**out));
	**out = (struct tarn_job){.id = 3,
				  .kind = TARN_JOB_SCRUB,
				  .state = TARN_JOB_RUNNING,
				  .priority = 50,
				  .total = 200,
				  .done = 100,
				  .rate = 10,
				  .seconds_left = 10};
	*count = 1;
	return 0;
}

int tarn_job_set(struct tarn_engine *engine, const char *pool, const struct tarn_prop *props,
		 uint32_t nprops, struct tarn_error *err)
{
	return change(engine, "jobs", pool, NULL, 0, props, nprops, 0, err);
}

int tarn_pool_scrub(struct tarn_engine *engine, const char *pool, enum tarn_scrub_action action,
		    struct tarn_error *err)
{
	static const char *const verbs[] = {"scrub", "pause", "stop"};

	return change(engine, verbs[action], pool, NULL, 0, NULL, 0, 0, err);
}

int tarn_pool_resilver(struct tarn_engine *engine, const char *pool, struct tarn_error *err)
{
	return change(engine, "resilver", pool, NULL, 0, NULL, 0, 0, err);
}

int tarn_pool_errors(struct tarn_engine *engine, const char *pool,
		     void (*fn)(void *arg, const char *object, uint64_t blocks), void *arg)
{
	(void)engine;
	if (strcmp(pool, "p"))
		return -ENOENT;
	fn(arg, "p:/caf\xe9", 2);
	return 0;
}

int tarn_pool_prop_set(struct tarn_engine *engine, const char *name, const char *prop,
		       const char *value, struct tarn_error *err)
{
	struct tarn_prop p = {prop, value};

	return change(engine, "set", name, NULL, 0, &p, 1, 0, err);
}

int tarn_pool_prop_list(struct tarn_engine *engine, const char *name,
			void (*fn)(void *arg, const char *prop, const char *value,
				   const char *source),
			void *arg)
{
	(void)engine;
	if (strcmp(name, "p"))
		return -ENOENT;
	fn(arg, "comment", "caf\xe9", "local");
	fn(arg, "size", "3000", "-");
	return 0;
}

int tarn_pool_history_add(struct tarn_engine *engine, const char *name, const char *text)
{
	pthread_mutex_lock(&engine->lock);
	snprintf(engine->history[engine->nhistory++], sizeof(engine->history[0]), "%s: %s", name,
		 text);
	pthread_mutex_unlock(&engine->lock);
	return 0;
}

int tarn_pool_history(struct tarn_engine *engine, const char *name,
		      void (*fn)(void *arg, time_t when, const char *text), void *arg)
{
	if (strcmp(name, "p"))
		return -ENOENT;
	for (unsigned i = 0; i < engine->nhistory; i++)
		fn(arg, (time_t)i, engine->history[i]);
	return 0;
}

int tarn_engine_set_limits(struct tarn_engine *engine, uint64_t arc_max, uint64_t dirty_max)
{
	if (arc_max == 1)
		return -EINVAL;
	engine->arc_max = arc_max;
	engine->dirty_max = dirty_max;
	return 0;
}

void tarn_engine_cache_stats(struct tarn_engine *engine, struct tarn_cache_stats *out)
{
	(void)engine;
	*out = (struct tarn_cache_stats){.size = 11, .max = 12, .hits = 13, .misses = 14};
}

int tarn_dataset_create(struct tarn_engine *engine, const char *path, const struct tarn_prop *props,
			uint32_t nprops, bool parents, struct tarn_error *err)
{
	return change(engine, parents ? "fs-create-p" : "fs-create", path, NULL, 0, props, nprops,
		      0, err);
}

int tarn_dataset_destroy(struct tarn_engine *engine, const char *path, bool recursive, int flags,
			 struct tarn_error *err)
{
	return change(engine, recursive ? "fs-destroy-r" : "fs-destroy", path, NULL, 0, NULL, 0,
		      flags, err);
}

int tarn_dataset_rename(struct tarn_engine *engine, const char *from, const char *to,
			struct tarn_error *err)
{
	struct tarn_prop p = {"to", to};

	return change(engine, "fs-rename", from, NULL, 0, &p, 1, 0, err);
}

int tarn_dataset_list(struct tarn_engine *engine, const char *path, bool recursive,
		      int (*fn)(void *arg, const struct tarn_dataset_info *info), void *arg)
{
	if (path && strcmp(path, "p"))
		return -ENOENT;
	for (unsigned i = 0; i < (recursive ? engine->ndatasets : 1); i++) {
		struct tarn_dataset_info info = {.id = i + 1, .used = 100, .created = 5};
		int r;

		snprintf(info.path, sizeof(info.path), "%s", engine->datasets[i]);
		r = fn(arg, &info);
		if (r)
			return r;
	}
	return 0;
}

int tarn_dataset_get(struct tarn_engine *engine, const char *path, const char *name, bool raw,
		     tarn_prop_fn fn, void *arg, struct tarn_error *err)
{
	(void)engine;
	(void)path;
	if (!name || !strcmp(name, "recordsize"))
		fn(arg, "recordsize", raw ? "131072" : "128K", TARN_PROP_INHERITED, "p");
	if (!name || !strcmp(name, "compression"))
		fn(arg, "compression", "lz4", TARN_PROP_DEFAULT, NULL);
	return name && strcmp(name, "recordsize") && strcmp(name, "compression") &&
		       !strchr(name, ':')
		   ? steer("error-22", err)
		   : 0;
}

int tarn_dataset_set(struct tarn_engine *engine, const char *path, const struct tarn_prop *props,
		     uint32_t nprops, struct tarn_error *err)
{
	return change(engine, "fs-set", path, NULL, 0, props, nprops, 0, err);
}

int tarn_dataset_inherit(struct tarn_engine *engine, const char *path, const char *name,
			 bool recursive, struct tarn_error *err)
{
	struct tarn_prop p = {name, ""};

	return change(engine, recursive ? "fs-inherit-r" : "fs-inherit", path, NULL, 0, &p, 1, 0,
		      err);
}
