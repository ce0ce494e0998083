// SPDX-License-Identifier: LGPL-3.0-or-later
#include "dbus_request.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/job.h>

static int create(struct request *rq)
{
	uint32_t ngroups, nprops;
	const char *name = take_string(rq);
	struct tarn_group_spec *groups = take_groups(rq, &ngroups);
	struct tarn_prop *props;
	int r;

	if (!groups)
		return rq->error.code ? rq->error.code : -EINVAL;
	props = take_props(rq, &nprops);
	r = props ? take_options(rq) : -ENOMEM;
	if (!r)
		r = tarn_pool_create(rq->engine, name, groups, ngroups, props, nprops,
				     request_flags(rq), &rq->error);
	if (!r)
		request_record(rq, name);
	return r;
}

static int add(struct request *rq)
{
	uint32_t ngroups;
	const char *name = take_string(rq);
	struct tarn_group_spec *groups = take_groups(rq, &ngroups);
	int r;

	if (!groups)
		return rq->error.code ? rq->error.code : -EINVAL;
	r = take_options(rq);
	if (!r)
		r = tarn_pool_add(rq->engine, name, groups, ngroups, request_flags(rq), &rq->error);
	if (!r)
		request_record(rq, name);
	return r;
}

static int remove_device(struct request *rq)
{
	const char *name = take_string(rq), *device = take_string(rq);
	int r = take_options(rq);

	if (!r)
		r = tarn_pool_remove(rq->engine, name, device, request_flags(rq), &rq->error);
	if (!r)
		request_record(rq, name);
	return r;
}

static int offline(struct request *rq)
{
	const char *name = take_string(rq), *device = take_string(rq);
	int r = take_options(rq);

	if (!r)
		r = tarn_pool_offline(rq->engine, name, device, rq->options.temporary,
				      request_flags(rq), &rq->error);
	if (!r)
		request_record(rq, name);
	return r;
}

static int online(struct request *rq)
{
	const char *name = take_string(rq), *device = take_string(rq);
	int r = take_options(rq);

	if (!r)
		r = tarn_pool_online(rq->engine, name, device, request_flags(rq), &rq->error);
	if (!r)
		request_record(rq, name);
	return r;
}

static int destroy(struct request *rq)
{
	const char *name = take_string(rq);
	int r = take_options(rq);

	return r ? r : tarn_pool_destroy(rq->engine, name, request_flags(rq), &rq->error);
}

static int export(struct request *rq)
{
	const char *name = take_string(rq);
	int r = take_options(rq);

	if (r)
		return r;
	/* Before, as nothing can be written to an exported pool. */
	request_record(rq, name);
	return tarn_pool_export(rq->engine, name, request_flags(rq), &rq->error);
}

static int scan(struct request *rq)
{
	uint32_t npaths, count;
	const char **paths = take_strings(rq, &npaths);
	struct tarn_import_candidate *found;
	struct out array;
	int r;

	if (!paths)
		return -ENOMEM;
	r = tarn_pool_scan(rq->engine, paths, npaths, &found, &count);
	if (r)
		return request_fail(rq, r, "cannot look for pools: %s", strerror(-r));
	put_open(&rq->out, DBUS_TYPE_ARRAY, "a{sv}", &array);
	for (uint32_t i = 0; i < count; i++) {
		struct out dict;

		put_open(&array, DBUS_TYPE_ARRAY, "{sv}", &dict);
		put_entry_text(&dict, "name", found[i].name);
		put_entry_u64(&dict, "guid", found[i].guid);
		put_entry_u64(&dict, "txg", found[i].txg);
		put_entry_u64(&dict, "devices_found", found[i].devs_found);
		put_entry_u64(&dict, "devices_total", found[i].devs_total);
		put_entry_bool(&dict, "importable", found[i].importable);
		put_entry_bool(&dict, "active", found[i].active);
		put_entry_text(&dict, "host", found[i].host);
		put_close(&array, &dict);
	}
	put_close(&rq->out, &array);
	free(found);
	return 0;
}

/* The name of the imported pool with this GUID, "" if it has gone again. */
static void name_of_guid(struct tarn_engine *engine, uint64_t guid,
			 char name[TARN_POOL_NAME_MAX + 1])
{
	char(*names)[TARN_POOL_NAME_MAX + 1];
	uint32_t count;

	name[0] = '\0';
	if (tarn_pool_list(engine, &names, &count))
		return;
	for (uint32_t i = 0; i < count; i++) {
		struct tarn_pool_status *status;

		if (tarn_pool_status(engine, names[i], &status))
			continue;
		if (status->guid == guid)
			strcpy(name, status->name);
		tarn_pool_status_free(status);
	}
	free(names);
}

/* Names of pools begin with a letter, so digits alone are a GUID. */
static bool parse_guid(const char *text, uint64_t *guid)
{
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	*guid = strtoull(text, &end, 10);
	return !errno && !*end;
}

static int import(struct request *rq)
{
	const char *pool = take_string(rq);
	struct tarn_import_spec spec = {.paths = take_strings(rq, &spec.npaths)};
	char name[TARN_POOL_NAME_MAX + 1] = "";
	int r = spec.paths ? take_options(rq) : -ENOMEM;

	if (r)
		return r;
	if (!parse_guid(pool, &spec.guid))
		spec.name = pool;
	spec.new_name = rq->options.new_name;
	spec.flags = request_flags(rq);
	r = tarn_pool_import(rq->engine, &spec, &rq->error);
	if (r)
		return r;
	if (spec.name || spec.new_name) {
		pool = spec.new_name ? spec.new_name : spec.name;
	} else if (!rq->options.dry_run) {
		name_of_guid(rq->engine, spec.guid, name);
		pool = name;
	}
	if (!rq->options.read_only)
		request_record(rq, pool);
	put_text(&rq->out, pool);
	return 0;
}

static int no_such_pool(struct request *rq, int r, const char *name)
{
	if (r == -ENOENT || r == -ENXIO)
		return request_fail(rq, r,
				    "no pool '%s' is imported; 'tarn pool import' shows which "
				    "can be",
				    name);
	return r;
}

static const char *state_name(enum tarn_dev_state state)
{
	switch (state) {
	case TARN_DEV_ONLINE:
		return "ONLINE";
	case TARN_DEV_DEGRADED:
		return "DEGRADED";
	case TARN_DEV_FAULTED:
		return "FAULTED";
	case TARN_DEV_MISSING:
		return "MISSING";
	case TARN_DEV_OFFLINE:
		return "OFFLINE";
	}
	return "UNKNOWN";
}

static const char *halt_name(enum tarn_pool_halt halt)
{
	switch (halt) {
	case TARN_HALT_NONE:
		return "";
	case TARN_HALT_CHECKS:
		return "checks";
	case TARN_HALT_TAKEN:
		return "taken";
	case TARN_HALT_HEARTBEAT:
		return "heartbeat";
	case TARN_HALT_COMMIT:
		return "commit";
	}
	return "unknown";
}

static void put_pool(struct out *dict, const struct tarn_pool_status *s)
{
	put_entry_text(dict, "name", s->name);
	put_entry_u64(dict, "guid", s->guid);
	put_entry_text(dict, "state", s->halt ? "SUSPENDED" : state_name(s->state));
	put_entry_text(dict, "halt", halt_name(s->halt));
	put_entry_bool(dict, "read_only", s->read_only);
	put_entry_u64(dict, "lost_changes", s->lost_changes);
	put_entry_u64(dict, "unreplayed", s->unreplayed);
	put_entry_bool(dict, "log_dropped", s->log_dropped);
	put_entry_u64(dict, "txg", s->txg);
	put_entry_u64(dict, "size", s->size);
	put_entry_u64(dict, "allocated", s->allocated);
	put_entry_u64(dict, "free", s->free);
	put_entry_u64(dict, "freeing", s->freeing);
	put_entry_u64(dict, "data_errors", s->data_errors);
}

static void put_device(struct out *array, const struct tarn_dev_status *dev)
{
	struct out dict;

	put_open(array, DBUS_TYPE_ARRAY, "{sv}", &dict);
	put_entry_text(&dict, "path", dev->path);
	put_entry_u64(&dict, "guid", dev->guid);
	put_entry_text(&dict, "state", state_name(dev->state));
	put_entry_u64(&dict, "size", dev->size);
	put_entry_u64(&dict, "read_errors", dev->read_errors);
	put_entry_u64(&dict, "write_errors", dev->write_errors);
	put_entry_u64(&dict, "checksum_errors", dev->checksum_errors);
	put_entry_u64(&dict, "stale", dev->stale);
	put_entry_u64(&dict, "reads", dev->reads);
	put_entry_u64(&dict, "writes", dev->writes);
	put_entry_u64(&dict, "read_bytes", dev->read_bytes);
	put_entry_u64(&dict, "write_bytes", dev->write_bytes);
	put_close(array, &dict);
}

static void put_group(struct out *array, const struct tarn_pool_status *s,
		      const struct tarn_group_status *group)
{
	struct out dict;
	struct out_array devices;

	put_open(array, DBUS_TYPE_ARRAY, "{sv}", &dict);
	put_entry_text(&dict, "kind", tarn_group_kind_name(group->kind));
	put_entry_text(&dict, "state", state_name(group->state));
	put_entry_u64(&dict, "size", group->size);
	put_entry_u64(&dict, "allocated", group->allocated);
	put_entry_open(&dict, "devices", "a{sv}", &devices);
	for (uint32_t i = 0; i < group->ndevs; i++)
		put_device(&devices.array, &s->devs[group->first_dev + i]);
	put_entry_close(&dict, &devices);
	put_close(array, &dict);
}

static int list(struct request *rq)
{
	char(*names)[TARN_POOL_NAME_MAX + 1];
	uint32_t count;
	struct out array;
	int r = tarn_pool_list(rq->engine, &names, &count);

	if (r)
		return r;
	put_open(&rq->out, DBUS_TYPE_ARRAY, "a{sv}", &array);
	for (uint32_t i = 0; i < count; i++) {
		struct tarn_pool_status *status;
		struct out dict;

		/* A pool exported since the list was made is left out. */
		if (tarn_pool_status(rq->engine, names[i], &status))
			continue;
		put_open(&array, DBUS_TYPE_ARRAY, "{sv}", &dict);
		put_pool(&dict, status);
		put_close(&array, &dict);
		tarn_pool_status_free(status);
	}
	put_close(&rq->out, &array);
	free(names);
	return 0;
}

static void put_job(struct out *array, const struct tarn_job *job)
{
	struct out dict;

	put_open(array, DBUS_TYPE_ARRAY, "{sv}", &dict);
	put_entry_u64(&dict, "id", job->id);
	put_entry_text(&dict, "kind", tarn_job_kind_name(job->kind));
	put_entry_text(&dict, "state", tarn_job_state_name(job->state));
	put_entry_u64(&dict, "priority", job->priority);
	put_entry_u64(&dict, "floor", job->floor);
	put_entry_u64(&dict, "ceiling", job->ceiling);
	put_entry_i64(&dict, "started", job->started);
	put_entry_i64(&dict, "ended", job->ended);
	put_entry_u64(&dict, "total", job->total);
	put_entry_u64(&dict, "done", job->done);
	put_entry_u64(&dict, "rate", job->rate);
	put_entry_u64(&dict, "seconds_left", job->seconds_left);
	put_entry_u64(&dict, "repaired", job->repaired);
	put_entry_u64(&dict, "errors", job->errors);
	put_entry_text(&dict, "error", job->error ? strerror(-job->error) : "");
	put_close(array, &dict);
}

static void put_lost(struct out *array, const struct tarn_lost *lost)
{
	struct out dict;

	put_open(array, DBUS_TYPE_ARRAY, "{sv}", &dict);
	put_entry_text(&dict, "dataset", lost->dataset);
	put_entry_u64(&dict, "changes", lost->changes);
	put_close(array, &dict);
}

static int status(struct request *rq)
{
	const char *name = take_string(rq);
	struct tarn_pool_status *s;
	struct tarn_job *jobs = NULL;
	struct tarn_lost *lost = NULL;
	uint32_t njobs, nlost;
	struct out dict;
	struct out_array groups, logs, list;
	int r = tarn_job_list(rq->engine, name, &jobs, &njobs);

	r = r ? r : tarn_pool_lost(rq->engine, name, &lost, &nlost);
	r = r ? r : tarn_pool_status(rq->engine, name, &s);
	if (r) {
		free(jobs);
		free(lost);
		return no_such_pool(rq, r, name);
	}
	put_open(&rq->out, DBUS_TYPE_ARRAY, "{sv}", &dict);
	put_pool(&dict, s);
	put_entry_open(&dict, "groups", "a{sv}", &groups);
	for (uint32_t i = 0; i < s->ngroups; i++)
		put_group(&groups.array, s, &s->groups[i]);
	put_entry_close(&dict, &groups);
	put_entry_open(&dict, "logs", "a{sv}", &logs);
	for (uint32_t i = 0; i < s->nlogs; i++)
		put_group(&logs.array, s, &s->logs[i]);
	put_entry_close(&dict, &logs);
	put_entry_open(&dict, "jobs", "a{sv}", &list);
	for (uint32_t i = 0; i < njobs; i++)
		put_job(&list.array, &jobs[i]);
	put_entry_close(&dict, &list);
	put_entry_open(&dict, "lost_in", "a{sv}", &list);
	for (uint32_t i = 0; i < nlost; i++)
		put_lost(&list.array, &lost[i]);
	put_entry_close(&dict, &list);
	put_close(&rq->out, &dict);
	tarn_pool_status_free(s);
	free(jobs);
	free(lost);
	return 0;
}

static int scrub(struct request *rq)
{
	static const char *const actions[] = {"start", "pause", "stop"};
	const char *name = take_string(rq), *word = take_string(rq);
	int r = take_options(rq);
	unsigned action = TARN_SCRUB_START;

	if (r)
		return r;
	while (action <= TARN_SCRUB_STOP && strcmp(word, actions[action]))
		action++;
	if (action > TARN_SCRUB_STOP)
		return request_fail(rq, -EINVAL,
				    "a scrub has no action '%s', only start, pause and stop", word);
	r = tarn_pool_scrub(rq->engine, name, action, &rq->error);
	if (!r)
		request_record(rq, name);
	return r;
}

static int set_jobs(struct request *rq)
{
	uint32_t nprops;
	const char *name = take_string(rq);
	struct tarn_prop *props = take_props(rq, &nprops);
	int r = props ? take_options(rq) : -ENOMEM;

	if (!r)
		r = tarn_job_set(rq->engine, name, props, nprops, &rq->error);
	if (!r)
		request_record(rq, name);
	return r;
}

static void put_object(void *arg, const char *object, uint64_t blocks)
{
	struct out *array = arg, row;

	put_open(array, DBUS_TYPE_STRUCT, NULL, &row);
	put_text(&row, object);
	put_u64(&row, blocks);
	put_close(array, &row);
}

static int errors(struct request *rq)
{
	const char *name = take_string(rq);
	struct out array;
	int r;

	put_open(&rq->out, DBUS_TYPE_ARRAY, "(st)", &array);
	r = tarn_pool_errors(rq->engine, name, put_object, &array);
	put_close(&rq->out, &array);
	return no_such_pool(rq, r, name);
}

static int resilver(struct request *rq)
{
	const char *name = take_string(rq);
	int r = take_options(rq);

	if (!r)
		r = tarn_pool_resilver(rq->engine, name, &rq->error);
	if (!r)
		request_record(rq, name);
	return no_such_pool(rq, r, name);
}

static int clear(struct request *rq)
{
	const char *name = take_string(rq);
	int r = take_options(rq);

	if (!r)
		r = tarn_pool_clear(rq->engine, name, &rq->error);
	if (!r)
		request_record(rq, name);
	return no_such_pool(rq, r, name);
}

static void put_pool_prop(void *arg, const char *prop, const char *value, const char *source)
{
	struct out *array = arg, row;

	put_open(array, DBUS_TYPE_STRUCT, NULL, &row);
	put_text(&row, prop);
	put_text(&row, value);
	put_text(&row, source);
	put_close(array, &row);
}

static int get(struct request *rq)
{
	const char *name = take_string(rq);
	struct out array;
	int r;

	put_open(&rq->out, DBUS_TYPE_ARRAY, "(sss)", &array);
	r = tarn_pool_prop_list(rq->engine, name, put_pool_prop, &array);
	put_close(&rq->out, &array);
	return no_such_pool(rq, r, name);
}

static int set(struct request *rq)
{
	uint32_t nprops;
	const char *name = take_string(rq);
	struct tarn_prop *props = take_props(rq, &nprops);
	int r = props ? take_options(rq) : -ENOMEM;

	for (uint32_t i = 0; !r && i < nprops; i++)
		r = tarn_pool_prop_set(rq->engine, name, props[i].name, props[i].value, &rq->error);
	if (!r)
		request_record(rq, name);
	return no_such_pool(rq, r, name);
}

/* The rows [first, end) of a history. */
struct history_page {
	struct out array;
	uint64_t first, end, seen;
};

static void put_event(void *arg, time_t when, const char *text)
{
	struct history_page *page = arg;
	uint64_t row = page->seen++;
	struct out fields;

	if (row < page->first || row >= page->end)
		return;
	if (page->array.bytes > PAGE_BYTES) {
		page->end = row;
		return;
	}
	put_open(&page->array, DBUS_TYPE_STRUCT, NULL, &fields);
	put_i64(&fields, when);
	put_text(&fields, text);
	put_close(&page->array, &fields);
}

static int history(struct request *rq)
{
	const char *name = take_string(rq);
	struct history_page page;
	int r = take_options(rq);

	if (r)
		return r;
	page.first = rq->options.first;
	page.seen = 0;
	if (__builtin_add_overflow(page.first, request_limit(rq), &page.end))
		page.end = UINT64_MAX;
	put_open(&rq->out, DBUS_TYPE_ARRAY, "(xs)", &page.array);
	r = tarn_pool_history(rq->engine, name, put_event, &page);
	put_close(&rq->out, &page.array);
	put_u64(&rq->out, page.seen > page.end ? page.end : 0);
	return no_such_pool(rq, r, name);
}

#define INTERFACE "org.ganesha.nfsd.tarn.Pool"
#define GROUPS "groups:a(sas)"
#define OPTIONS "options:a{sv}"

const struct method dbus_pool_methods[] = {
    {INTERFACE, "Create", "name:s " GROUPS " properties:a{ss} " OPTIONS, "",
     "force dry_run command", false, create},
    {INTERFACE, "Add", "name:s " GROUPS " " OPTIONS, "", "force dry_run command", false, add},
    {INTERFACE, "Remove", "name:s device:s " OPTIONS, "", "dry_run command", false, remove_device},
    {INTERFACE, "Offline", "name:s device:s " OPTIONS, "", "temporary dry_run command", false,
     offline},
    {INTERFACE, "Online", "name:s device:s " OPTIONS, "", "dry_run command", false, online},
    {INTERFACE, "Destroy", "name:s " OPTIONS, "", "force dry_run", false, destroy},
    {INTERFACE, "Scan", "paths:as", "pools:aa{sv}", NULL, false, scan},
    {INTERFACE, "Import", "pool:s paths:as " OPTIONS, "name:s",
     "force dry_run read_only rewind drop_log new_name command", false, import},
    {INTERFACE, "Export", "name:s " OPTIONS, "", "force dry_run command", false, export},
    {INTERFACE, "List", "", "pools:aa{sv}", NULL, true, list},
    {INTERFACE, "Status", "name:s", "pool:a{sv}", NULL, true, status},
    {INTERFACE, "Scrub", "name:s action:s " OPTIONS, "", "command", false, scrub},
    {INTERFACE, "Resilver", "name:s " OPTIONS, "", "command", false, resilver},
    {INTERFACE, "SetJobs", "name:s settings:a{ss} " OPTIONS, "", "command", false, set_jobs},
    {INTERFACE, "Errors", "name:s", "objects:a(st)", NULL, false, errors},
    {INTERFACE, "Clear", "name:s " OPTIONS, "", "command", false, clear},
    {INTERFACE, "Get", "name:s", "properties:a(sss)", NULL, false, get},
    {INTERFACE, "Set", "name:s properties:a{ss} " OPTIONS, "", "command", false, set},
    {INTERFACE, "History", "name:s " OPTIONS, "events:a(xs) next:t", "first limit", false, history},
    {0},
};
