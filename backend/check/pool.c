// SPDX-License-Identifier: LGPL-3.0-or-later
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check/impl.h"
#include "dataset/prop.h"

struct walk {
	struct check *c;
	int error;
	struct dataset_seen *list;
	uint64_t next_dataset;
};

static const char where[] = "pool tree";

static int on_node(void *arg, const struct bp *bp, unsigned level)
{
	struct walk *w = arg;

	(void)level;
	w->c->result->blocks++;
	refs_mark(w->c, bp, where);
	return 0;
}

static int on_bad(void *arg, const struct bp *bp, unsigned level, int error)
{
	struct walk *w = arg;
	char text[128];

	found(w->c, "%s: level %u block %s: %s", where, level, bp_print(bp, text),
	      strerror(-error));
	return 0;
}

static uint64_t id_of(const uint8_t *key)
{
	uint64_t be;

	memcpy(&be, key + 1, 8);
	return be64toh(be);
}

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
		found(w->c, "%s: a dataset record of %u bytes", where, vlen);
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
	if (seen(w, d->id))
		found(w->c, "dataset %llu is both live and destroyed", (unsigned long long)d->id);
	d->next = w->list;
	w->list = d;
}

/* Names come after records: 'D' < 'N'. */
static void on_name(struct walk *w, const uint8_t *key, uint32_t klen, const void *val,
		    uint32_t vlen)
{
	struct dataset_seen *d;
	uint64_t id;

	if (vlen != 8 || klen < 10 || klen > 9 + TARN_NAME_MAX) {
		found(w->c, "%s: a malformed dataset name", where);
		return;
	}
	memcpy(&id, val, 8);
	d = seen(w, id);
	if (!d || d->destroyed) {
		found(w->c, "the name '%.*s' leads to no dataset (%llu)", (int)(klen - 9), key + 9,
		      (unsigned long long)id);
		return;
	}
	if (d->name[0])
		found(w->c, "dataset %llu has two names", (unsigned long long)id);
	if (d->rec.parent != id_of(key))
		found(w->c, "dataset '%.*s' is below %llu, its record says %llu", (int)(klen - 9),
		      key + 9, (unsigned long long)id_of(key), (unsigned long long)d->rec.parent);
	memcpy(d->name, key + 9, klen - 9);
}

static void on_prop(struct walk *w, const uint8_t *key, uint32_t klen, const void *val,
		    uint32_t vlen)
{
	char name[PROP_NAME_MAX + 1] = {0}, value[PROP_VALUE_MAX + 1] = {0};
	char canonical[PROP_VALUE_MAX + 1];
	struct dataset_seen *d = seen(w, id_of(key));
	struct tarn_error err;

	if (!d || d->destroyed) {
		found(w->c, "a property of dataset %llu, which does not exist",
		      (unsigned long long)id_of(key));
		return;
	}
	if (klen - 9 > PROP_NAME_MAX || vlen > PROP_VALUE_MAX) {
		found(w->c, "dataset '%s': a property that is too long", d->name);
		return;
	}
	memcpy(name, key + 9, klen - 9);
	memcpy(value, val, vlen);
	if (prop_check(name, value, canonical, &err))
		found(w->c, "dataset '%s': %s", d->name, err.text);
}

static void on_state(struct walk *w, const void *val, uint32_t vlen)
{
	struct catalog_state state;

	if (vlen != sizeof(state)) {
		found(w->c, "%s: the catalog's state has %u bytes", where, vlen);
		return;
	}
	memcpy(&state, val, vlen);
	w->next_dataset = state.next_dataset;
}

static int on_slot(void *arg, const void *key_, uint32_t klen, enum slot_kind kind, const void *val,
		   uint32_t vlen, const struct bp *bp)
{
	struct walk *w = arg;
	const uint8_t *key = key_;
	bool has_id = klen >= 9;

	if (kind == SLOT_LARGE)
		refs_mark(w->c, bp, where);
	if (kind == SLOT_BLOCK) {
		found(w->c, "%s: a file block under a key of kind '%c'", where, key[0]);
		return 0;
	}
	if (key[0] == CAT_POOL_PROP)
		return 0;
	if (key[0] == CAT_STATE)
		on_state(w, val, vlen);
	else if (key[0] == CAT_CHUNK && klen == 9)
		w->error = pool_load_chunk(w->c->pool, id_of(key), val, vlen);
	else if (key[0] == CAT_DATASET && klen == 9)
		on_dataset(w, key, val, vlen, false);
	else if (key[0] == CAT_DESTROYED && klen == 9)
		on_dataset(w, key, val, vlen, true);
	else if (key[0] == CAT_CHILD && has_id)
		on_name(w, key, klen, val, vlen);
	else if (key[0] == CAT_PROP && klen > 9)
		on_prop(w, key, klen, val, vlen);
	else if (key[0] != CAT_HISTORY || klen != 9)
		found(w->c, "%s: a key of unknown kind %u", where, key[0]);
	return w->error;
}

static void check_hierarchy(struct walk *w)
{
	unsigned roots = 0;

	for (struct dataset_seen *d = w->list; d; d = d->next) {
		struct dataset_seen *up = d->destroyed ? NULL : seen(w, d->rec.parent);

		if (d->id >= w->next_dataset)
			found(w->c, "dataset %llu: ids below %llu only have been given",
			      (unsigned long long)d->id, (unsigned long long)w->next_dataset);
		if (d->destroyed)
			continue;
		roots += !d->rec.parent;
		if (!d->name[0])
			found(w->c, "dataset %llu has no name", (unsigned long long)d->id);
		if (d->rec.parent && (!up || up->destroyed))
			found(w->c, "dataset '%s' has no parent", d->name);
	}
	if (roots != 1)
		found(w->c, "%s: %u root datasets", where, roots);
}

int check_pool_tree(struct check *c, struct dataset_seen **out)
{
	static const struct tree_walk_ops ops = {on_node, on_slot, on_bad};
	struct walk w = {.c = c};
	int rc = tree_walk(c->pool, NULL, &c->pool->uber.root, &ops, &w);

	*out = w.list;
	if (!rc)
		check_hierarchy(&w);
	return rc;
}

void datasets_free(struct dataset_seen *list)
{
	while (list) {
		struct dataset_seen *d = list;

		list = d->next;
		free(d);
	}
}
