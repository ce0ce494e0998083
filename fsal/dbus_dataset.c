// SPDX-License-Identifier: LGPL-3.0-or-later
#include "dbus_request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/dataset.h>

static int create(struct request *rq)
{
	uint32_t nprops;
	const char *path = take_string(rq);
	struct tarn_prop *props = take_props(rq, &nprops);
	int r = props ? take_options(rq) : -ENOMEM;

	if (!r)
		r = tarn_dataset_create(rq->engine, path, props, nprops, rq->options.parents,
					&rq->error);
	if (!r)
		request_record(rq, path);
	return r;
}

static int destroy(struct request *rq)
{
	const char *path = take_string(rq);
	int r = take_options(rq);

	if (!r)
		r = tarn_dataset_destroy(rq->engine, path, rq->options.recursive, request_flags(rq),
					 &rq->error);
	if (!r)
		request_record(rq, path);
	return r;
}

static int rename_dataset(struct request *rq)
{
	const char *from = take_string(rq), *to = take_string(rq);
	int r = take_options(rq);

	if (!r)
		r = tarn_dataset_rename(rq->engine, from, to, &rq->error);
	if (!r)
		request_record(rq, to);
	return r;
}

static int set(struct request *rq)
{
	uint32_t nprops;
	const char *path = take_string(rq);
	struct tarn_prop *props = take_props(rq, &nprops);
	int r = props ? take_options(rq) : -ENOMEM;

	if (!r)
		r = tarn_dataset_set(rq->engine, path, props, nprops, &rq->error);
	if (!r)
		request_record(rq, path);
	return r;
}

static int inherit(struct request *rq)
{
	const char *path = take_string(rq), *property = take_string(rq);
	int r = take_options(rq);

	if (!r)
		r = tarn_dataset_inherit(rq->engine, path, property, rq->options.recursive,
					 &rq->error);
	if (!r)
		request_record(rq, path);
	return r;
}

static const char *source_name(enum tarn_prop_source source)
{
	switch (source) {
	case TARN_PROP_DEFAULT:
		return "default";
	case TARN_PROP_LOCAL:
		return "local";
	case TARN_PROP_INHERITED:
		return "inherited";
	case TARN_PROP_NONE:
		break;
	}
	return "-";
}

static int put_prop(void *arg, const char *name, const char *value, enum tarn_prop_source source,
		    const char *from)
{
	struct out *array = arg, row;

	put_open(array, DBUS_TYPE_STRUCT, NULL, &row);
	put_text(&row, name);
	put_text(&row, value);
	put_text(&row, source_name(source));
	put_text(&row, from ? from : "");
	put_close(array, &row);
	return 0;
}

/* The properties asked for ("all" is every one), as rows (name, value, source, from). A user
   property that is set nowhere has no row. */
static int put_props(struct request *rq, struct out *array, const char *path, const char **names,
		     uint32_t count)
{
	int r = 0;

	for (uint32_t i = 0; !r && i < count; i++) {
		const char *name = strcmp(names[i], "all") ? names[i] : NULL;

		r = tarn_dataset_get(rq->engine, path, name, rq->options.raw, put_prop, array,
				     &rq->error);
	}
	return r;
}

static int get(struct request *rq)
{
	uint32_t count;
	const char *path = take_string(rq), **names = take_strings(rq, &count);
	struct out array;
	int r = names ? take_options(rq) : -ENOMEM;

	if (r)
		return r;
	put_open(&rq->out, DBUS_TYPE_ARRAY, "(ssss)", &array);
	r = put_props(rq, &array, path, names, count);
	put_close(&rq->out, &array);
	return r;
}

/* The page of a walk behind the path `after`: the engine's locks are not held while the
   reply is written. */
struct page {
	const char *after;
	uint32_t count, limit;
	bool more;
	struct tarn_dataset_info *rows;
};

/* Order of a walk: parents before children, so '/' sorts before every other byte. */
static int path_compare(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	if (*a == *b)
		return 0;
	if (!*a || !*b)
		return *a ? 1 : -1;
	if (*a == '/' || *b == '/')
		return *a == '/' ? -1 : 1;
	return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
}

static int add_row(void *arg, const struct tarn_dataset_info *info)
{
	struct page *page = arg;

	if (page->after && path_compare(info->path, page->after) <= 0)
		return 0;
	if (page->count == page->limit) {
		page->more = true;
		return 1;
	}
	page->rows[page->count++] = *info;
	return 0;
}

static int put_dataset(struct request *rq, struct out *array, const struct tarn_dataset_info *info,
		       const char **names, uint32_t nnames)
{
	struct out dict;
	struct out_array props;
	int r;

	put_open(array, DBUS_TYPE_ARRAY, "{sv}", &dict);
	put_entry_text(&dict, "name", info->path);
	put_entry_text(&dict, "type", "filesystem");
	put_entry_u64(&dict, "id", info->id);
	put_entry_u64(&dict, "used", info->used);
	put_entry_u64(&dict, "available", info->available);
	put_entry_u64(&dict, "referenced", info->referenced);
	put_entry_u64(&dict, "logicalreferenced", info->logical);
	put_entry_u64(&dict, "inodes", info->inodes);
	put_entry_i64(&dict, "creation", info->created);
	put_entry_bool(&dict, "mounted", info->mounted);
	put_entry_open(&dict, "properties", "(ssss)", &props);
	r = put_props(rq, &props.array, info->path, names, nnames);
	put_entry_close(&dict, &props);
	put_close(array, &dict);
	return r;
}

static int put_page(struct request *rq, const struct page *page, const char **names,
		    uint32_t nnames)
{
	struct out array;
	uint32_t i;
	int r = 0;

	put_open(&rq->out, DBUS_TYPE_ARRAY, "a{sv}", &array);
	for (i = 0; !r && i < page->count && array.bytes < PAGE_BYTES; i++) {
		r = put_dataset(rq, &array, &page->rows[i], names, nnames);
		/* Destroyed since the walk: shown without properties. */
		if (r == -ENOENT)
			r = 0;
	}
	put_close(&rq->out, &array);
	put_text(&rq->out, page->more || i < page->count ? page->rows[i - 1].path : "");
	return r;
}

static int list(struct request *rq)
{
	uint32_t nnames;
	const char *path = take_string(rq), **names = take_strings(rq, &nnames);
	struct page page = {0};
	int r = names ? take_options(rq) : -ENOMEM;

	if (r)
		return r;
	page.after = rq->options.after;
	page.limit = request_limit(rq);
	page.rows = malloc(page.limit * sizeof(*page.rows));
	if (!page.rows)
		return -ENOMEM;
	r = tarn_dataset_list(rq->engine, path[0] ? path : NULL, rq->options.recursive, add_row,
			      &page);
	if (r >= 0)
		r = put_page(rq, &page, names, nnames);
	else if (r == -ENOENT || r == -ENXIO)
		request_fail(rq, r, "there is no dataset '%s'; 'tarn fs list' shows all", path);
	free(page.rows);
	return r;
}

#define INTERFACE "org.ganesha.nfsd.tarn.Dataset"
#define OPTIONS "options:a{sv}"

const struct method dbus_dataset_methods[] = {
    {INTERFACE, "Create", "path:s properties:a{ss} " OPTIONS, "", "parents command", false, create},
    {INTERFACE, "Destroy", "path:s " OPTIONS, "", "recursive force dry_run command", false,
     destroy},
    {INTERFACE, "Rename", "from:s to:s " OPTIONS, "", "command", false, rename_dataset},
    {INTERFACE, "List", "path:s properties:as " OPTIONS, "datasets:aa{sv} next:s",
     "recursive raw after limit", false, list},
    {INTERFACE, "Get", "path:s properties:as " OPTIONS, "properties:a(ssss)", "raw", false, get},
    {INTERFACE, "Set", "path:s properties:a{ss} " OPTIONS, "", "command", false, set},
    {INTERFACE, "Inherit", "path:s property:s " OPTIONS, "", "recursive command", false, inherit},
    {0},
};
