// SPDX-License-Identifier: LGPL-3.0-or-later
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/impl.h"
#include "dataset/prop.h"
#include "pool/chunk.h"
#include "pool/ilog.h"

struct walk {
	struct check *c;
	struct place place;
	int error;
	struct dataset_seen *list;
	bool has_state;
	struct catalog_state state;
	uint64_t last_history; /* sequence number + 1 */
	uint64_t lost_slabs[POOL_DEVS_MAX], stale[POOL_DEVS_MAX];
};

static int on_node(void *arg, const struct bp *bp, unsigned level)
{
	struct walk *w = arg;

	(void)level;
	refs_mark(w->c, bp, &w->place);
	verify_block(w->c, bp, &w->place, 0);
	return 0;
}

static int on_bad(void *arg, const struct bp *bp, unsigned level, int error)
{
	struct walk *w = arg;
	char text[128];

	(void)level;
	w->c->lost = true;
	if (bp_valid(bp, bp->birth)) {
		refs_mark(w->c, bp, &w->place);
		verify_block(w->c, bp, &w->place, error);
	} else {
		found(w->c, TARN_FOUND_NODE, "block %s can't be one", bp_print(bp, text));
	}
	return 0;
}

static uint64_t id_of(const uint8_t *key)
{
	uint64_t be;

	memcpy(&be, key + 1, 8);
	return be64toh(be);
}

/* ---- datasets ---- */

static struct dataset_seen *seen(struct walk *w, uint64_t id)
{
	for (struct dataset_seen *d = w->list; d; d = d->next)
		if (d->id == id)
			return d;
	return NULL;
}

static void on_dataset(struct walk *w, const uint8_t *key, const void *val, uint32_t vlen,
		       bool destroyed)
{
	struct dataset_seen *d;

	if (vlen != sizeof(struct dataset_record)) {
		found(w->c, TARN_FOUND_POOL_TREE, "the record of dataset %llu has %u bytes",
		      (unsigned long long)id_of(key), vlen);
		return;
	}
	if (seen(w, id_of(key))) {
		found(w->c, TARN_FOUND_DATASET, "dataset %llu is both live and destroyed",
		      (unsigned long long)id_of(key));
		return;
	}
	d = calloc(1, sizeof(*d));
	if (!d) {
		w->error = -ENOMEM;
		return;
	}
	d->id = id_of(key);
	d->destroyed = destroyed;
	memcpy(&d->rec, val, sizeof(d->rec));
	d->next = w->list;
	w->list = d;
}

/* Names come after records: 'D' < 'N'. */
static void on_name(struct walk *w, const uint8_t *key, uint32_t klen, const void *val,
		    uint32_t vlen)
{
	unsigned long long parent = id_of(key);
	char name[4 * TARN_NAME_MAX + 1];
	struct dataset_seen *d;
	uint64_t id;

	if (vlen != 8 || klen < 10 || klen > 9 + TARN_NAME_MAX) {
		found(w->c, TARN_FOUND_POOL_TREE, "a malformed name below dataset %llu", parent);
		return;
	}
	memcpy(&id, val, 8);
	d = seen(w, id);
	printable((const char *)key + 9, klen - 9, name, sizeof(name));
	if (!d || d->destroyed) {
		found(w->c, TARN_FOUND_DATASET, "the name '%s' below dataset %llu leads to none",
		      name, parent);
		return;
	}
	if (d->name[0])
		found(w->c, TARN_FOUND_DATASET, "dataset %llu has two names, '%s' is one",
		      (unsigned long long)id, name);
	else if (d->rec.parent != parent)
		found(w->c, TARN_FOUND_DATASET,
		      "dataset '%s' is below dataset %llu, its record says %llu", name, parent,
		      (unsigned long long)d->rec.parent);
	memset(d->name, 0, sizeof(d->name));
	memcpy(d->name, key + 9, klen - 9);
}

static void on_prop(struct walk *w, const uint8_t *key, uint32_t klen, const void *val,
		    uint32_t vlen)
{
	char name[PROP_NAME_MAX + 1] = {0}, value[PROP_VALUE_MAX + 1] = {0};
	char canonical[PROP_VALUE_MAX + 1];
	unsigned long long id = id_of(key);
	struct dataset_seen *d = seen(w, id);
	struct tarn_error err;

	if (!d || d->destroyed) {
		found(w->c, TARN_FOUND_PROPERTY, "a property of dataset %llu, which does not exist",
		      id);
		return;
	}
	if (klen - 9 > PROP_NAME_MAX || vlen > PROP_VALUE_MAX) {
		found(w->c, TARN_FOUND_PROPERTY, "dataset %llu: a property that is too long", id);
		return;
	}
	memcpy(name, key + 9, klen - 9);
	memcpy(value, val, vlen);
	if (prop_check(name, value, canonical, &err))
		found(w->c, TARN_FOUND_PROPERTY, "dataset %llu: %s", id, err.text);
}

/* ---- chunks ---- */

static void count_columns(struct walk *w, const struct chunk_record *r, const struct chunk *chunk)
{
	for (unsigned i = 0; i < r->ncols; i++) {
		if (r->cols[i].stale)
			w->stale[r->cols[i].dev]++;
		else if (atomic_load(&chunk->cols[i].stale))
			w->lost_slabs[r->cols[i].dev]++;
	}
}

static bool devices_differ(const struct chunk_record *r)
{
	for (unsigned i = 0; i < r->ncols; i++)
		for (unsigned j = 0; j < i; j++)
			if (r->cols[i].dev == r->cols[j].dev)
				return false;
	return true;
}

static void on_chunk(struct walk *w, uint64_t id, const void *val, uint32_t vlen)
{
	int rc = pool_load_chunk(w->c->pool, id, val, vlen);
	struct chunk_record *r;

	if (rc == -ENOMEM) {
		w->error = rc;
		return;
	}
	if (rc) {
		found(w->c, TARN_FOUND_CHUNK, "the record of chunk %llu can't be true",
		      (unsigned long long)id);
		w->c->chunks_bad = true;
		return;
	}
	r = malloc(vlen); /* aligned */
	if (!r) {
		w->error = -ENOMEM;
		return;
	}
	memcpy(r, val, vlen);
	if (r->profile >= PROFILE_MIRROR && !devices_differ(r))
		found(w->c, TARN_FOUND_CHUNK, "chunk %llu has two columns on one device",
		      (unsigned long long)id);
	count_columns(w, r, chunk_find(w->c->pool, id));
	free(r);
}

static void report_columns(struct walk *w)
{
	for (uint32_t i = 0; i < w->c->pool->ndevs; i++) {
		const char *path = w->c->pool->devs[i].path;

		if (w->lost_slabs[i])
			found(w->c, TARN_FOUND_COLUMN,
			      "%s: the columns of %llu chunks are lost: its slab table does not "
			      "know them",
			      path, (unsigned long long)w->lost_slabs[i]);
		if (w->stale[i])
			found(w->c, TARN_FOUND_COLUMN,
			      "%s: the columns of %llu chunks have missed writes and are not used",
			      path, (unsigned long long)w->stale[i]);
	}
}

/* ---- all keys ---- */

static void on_state(struct walk *w, const void *val, uint32_t vlen)
{
	if (vlen != sizeof(w->state)) {
		found(w->c, TARN_FOUND_POOL_TREE, "the catalog's state has %u bytes", vlen);
		return;
	}
	memcpy(&w->state, val, vlen);
	w->has_state = true;
}

/* After the chunks: 'C' < 'L'. */
static void on_log(struct walk *w, const void *val, uint32_t vlen)
{
	struct extent extents[ILOG_EXTENTS_MAX];
	uint32_t n = vlen / (uint32_t)sizeof(*extents);

	if (vlen % sizeof(*extents) || !n || n > ILOG_EXTENTS_MAX) {
		found(w->c, TARN_FOUND_POOL_TREE, "the place of the intent log has %u bytes", vlen);
		return;
	}
	memcpy(extents, val, vlen);
	if (ilog_set_extents(w->c->pool, extents, n))
		found(w->c, TARN_FOUND_POOL_TREE, "the intent log lies where it can't");
	for (uint32_t i = 0; i < n; i++) {
		struct bp bp = {.chunk = extents[i].chunk,
				.sector = extents[i].sector,
				.psize = extents[i].count << SECTOR_SHIFT,
				.type = BP_VALUE};

		refs_mark(w->c, &bp, &w->place);
	}
}

static void on_history(struct walk *w, const uint8_t *key, uint32_t vlen)
{
	if (vlen < 8)
		found(w->c, TARN_FOUND_POOL_TREE, "entry %llu of the history is malformed",
		      (unsigned long long)id_of(key));
	w->last_history = id_of(key) + 1;
}

static void on_job(struct walk *w, const uint8_t *key, const void *val, uint32_t vlen)
{
	struct job_record rec;

	if (vlen == sizeof(rec)) {
		memcpy(&rec, val, vlen); /* aligned */
		if (job_record_valid(&rec, vlen))
			return;
	}
	found(w->c, TARN_FOUND_POOL_TREE, "the record of job %llu can't be one",
	      (unsigned long long)id_of(key));
}

static void on_error(struct walk *w, const uint8_t *key, uint32_t klen, const void *val,
		     uint32_t vlen)
{
	if (!error_record_valid(key, klen, val, vlen))
		found(w->c, TARN_FOUND_POOL_TREE, "an entry of the damaged files is malformed");
}

static void on_key(struct walk *w, const uint8_t *key, uint32_t klen, const void *val,
		   uint32_t vlen)
{
	if (key[0] == CAT_POOL_PROP && klen > 1)
		return;
	if (key[0] == CAT_STATE && klen == 1)
		on_state(w, val, vlen);
	else if (key[0] == CAT_LOG && klen == 1)
		on_log(w, val, vlen);
	else if (key[0] == CAT_CHUNK && klen == 9)
		on_chunk(w, id_of(key), val, vlen);
	else if (key[0] == CAT_DATASET && klen == 9)
		on_dataset(w, key, val, vlen, false);
	else if (key[0] == CAT_DESTROYED && klen == 9)
		on_dataset(w, key, val, vlen, true);
	else if (key[0] == CAT_CHILD && klen >= 9)
		on_name(w, key, klen, val, vlen);
	else if (key[0] == CAT_PROP && klen > 9)
		on_prop(w, key, klen, val, vlen);
	else if (key[0] == CAT_HISTORY && klen == 9)
		on_history(w, key, vlen);
	else if (key[0] == CAT_JOB && klen == 9)
		on_job(w, key, val, vlen);
	else if (key[0] == CAT_ERROR)
		on_error(w, key, klen, val, vlen);
	else
		found(w->c, TARN_FOUND_POOL_TREE, "a key of unknown kind %u", key[0]);
}

static int on_slot(void *arg, const void *key_, uint32_t klen, enum slot_kind kind, const void *val,
		   uint32_t vlen, const struct bp *bp)
{
	struct walk *w = arg;
	const uint8_t *key = key_;

	if (kind != SLOT_VALUE && !bp_is_hole(bp)) {
		refs_mark(w->c, bp, &w->place);
		verify_block(w->c, bp, &w->place, 0);
	}
	if (kind == SLOT_BLOCK)
		found(w->c, TARN_FOUND_POOL_TREE, "a file block under a key of kind %u", key[0]);
	else
		on_key(w, key, klen, val, vlen);
	return w->error;
}

/* ---- the hierarchy ---- */

static void check_counters(struct walk *w)
{
	if (!w->has_state) {
		found(w->c, TARN_FOUND_POOL_TREE, "the catalog's state is missing");
		return;
	}
	for (struct dataset_seen *d = w->list; d; d = d->next)
		if (d->id >= w->state.next_dataset)
			found(w->c, TARN_FOUND_POOL_TREE,
			      "dataset %llu: ids below %llu only have been given",
			      (unsigned long long)d->id, (unsigned long long)w->state.next_dataset);
	if (w->last_history > w->state.next_history)
		found(w->c, TARN_FOUND_POOL_TREE,
		      "entry %llu of the history: numbers below %llu only have been given",
		      (unsigned long long)w->last_history - 1,
		      (unsigned long long)w->state.next_history);
}

/* Up to a root, each parent once at most. */
static bool connected(struct walk *w, const struct dataset_seen *d)
{
	uint64_t steps = 0, datasets = 0;

	for (const struct dataset_seen *i = w->list; i; i = i->next)
		datasets++;
	while (d && !d->destroyed && d->rec.parent && steps++ <= datasets)
		d = seen(w, d->rec.parent);
	return d && !d->destroyed && !d->rec.parent;
}

static void check_hierarchy(struct walk *w)
{
	unsigned roots = 0;

	for (struct dataset_seen *d = w->list; d; d = d->next) {
		if (d->destroyed)
			continue;
		roots += !d->rec.parent;
		if (!d->name[0])
			found(w->c, TARN_FOUND_DATASET, "dataset %llu has no name",
			      (unsigned long long)d->id);
		if (!connected(w, d))
			found(w->c, TARN_FOUND_DATASET,
			      "dataset %llu is not connected to the root dataset",
			      (unsigned long long)d->id);
	}
	if (roots != 1)
		found(w->c, TARN_FOUND_DATASET, "there are %u root datasets", roots);
}

/* "pool/a/b"; what cannot be named by its id. */
static void set_path(struct walk *w, struct dataset_seen *d)
{
	char path[4 * TARN_PATH_MAX], name[4 * TARN_NAME_MAX + 1];
	const struct dataset_seen *at = d;
	size_t from = sizeof(path) - 1;

	path[from] = '\0';
	for (unsigned steps = 0; at && steps < TARN_PATH_MAX / 2; steps++) {
		const char *text = at->rec.parent ? at->name : w->c->pool->name;
		size_t len = printable(text, strlen(text), name, sizeof(name));

		if (!len)
			len = (size_t)snprintf(name, sizeof(name), "%sdataset %llu",
					       at->destroyed ? "destroyed " : "",
					       (unsigned long long)at->id);
		if (len + 1 > from)
			break;
		if (at != d)
			path[--from] = '/';
		from -= len;
		memcpy(path + from, name, len);
		at = at->destroyed ? NULL : seen(w, at->rec.parent);
	}
	d->path = strdup(path + from);
	if (!d->path)
		w->error = -ENOMEM;
}

int check_pool_tree(struct check *c, struct dataset_seen **out)
{
	static const struct tree_walk_ops ops = {on_node, on_slot, on_bad};
	struct walk *w = calloc(1, sizeof(*w));
	int rc = w ? 0 : -ENOMEM;

	*out = NULL;
	if (!rc) {
		w->c = c;
		w->place = pool_place(c);
		rc = tree_walk(c->pool, c->cache, &c->pool->uber.root, &ops, w);
		verify_wait(c);
		report_columns(w);
	}
	if (!rc && !c->lost) {
		check_counters(w);
		check_hierarchy(w);
	}
	for (struct dataset_seen *d = w ? w->list : NULL; d && !rc; d = d->next) {
		set_path(w, d);
		rc = w->error;
	}
	*out = w ? w->list : NULL;
	free(w);
	return rc;
}

void datasets_free(struct dataset_seen *list)
{
	while (list) {
		struct dataset_seen *d = list;

		list = d->next;
		free(d->path);
		free(d);
	}
}
