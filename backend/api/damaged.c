// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The files that a scrub could not repair. They are recorded by number when they are found; when
 * the scrub ends, their names are looked for in all directories of their datasets, once.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/job.h"
#include "fs/fs.h"
#include "fs/key.h"
#include "fs/record.h"
#include "util/mem.h"

/* ---- records ---- */

struct damaged {
	struct catalog_error *list; /* room for DAMAGED_MAX */
	uint32_t n;
	uint64_t job; /* of this one */
};

static int keep(void *arg, const struct catalog_error *error)
{
	struct damaged *d = arg;

	if (error->job == d->job && d->n < DAMAGED_MAX)
		d->list[d->n++] = *error;
	return 0;
}

static int damaged_load(struct catalog *cat, uint64_t job, struct damaged *out)
{
	int rc;

	*out = (struct damaged){.list = calloc(DAMAGED_MAX, sizeof(*out->list)), .job = job};
	if (!out->list)
		return -ENOMEM;
	rc = catalog_errors(cat, keep, out);
	if (rc)
		free(out->list);
	return rc;
}

static struct catalog_error *find(struct damaged *d, uint64_t dataset, uint64_t inode)
{
	for (uint32_t i = 0; i < d->n; i++) {
		if (d->list[i].dataset == dataset && d->list[i].inode == inode)
			return &d->list[i];
	}
	if (d->n == DAMAGED_MAX)
		return NULL;
	d->list[d->n] = (struct catalog_error){.dataset = dataset, .inode = inode, .job = d->job};
	return &d->list[d->n++];
}

int damaged_add(struct catalog *cat, uint64_t job, const struct damage *list, uint32_t n)
{
	struct damaged d;
	int rc = n ? damaged_load(cat, job, &d) : 0;

	if (rc || !n)
		return rc;
	for (uint32_t i = 0; i < n && !rc; i++) {
		struct catalog_error *e = find(&d, list[i].dataset, list[i].inode);

		if (!e)
			break;
		e->blocks += list[i].blocks;
		rc = catalog_errors_put(cat, e, 1);
	}
	free(d.list);
	return rc;
}

/* ---- names ---- */

/* Reading a dataset's tree key by key, blocking. */
struct names {
	struct tarn_dataset *ds;
	const atomic_bool *stop;
	struct tree_miss *miss;
	uint8_t *val;
	uint8_t key[TREE_KEY_MAX];
	uint32_t klen, vlen;
};

/* The first key at or behind `from`; it is left in n. */
static int next_key(struct names *n, const void *from, uint32_t flen, bool after)
{
	struct tree_val v;
	int rc;

	while ((rc = tree_next(&n->ds->tree, from, flen, after, NULL, 0, n->key, &n->klen, n->val,
			       TREE_INLINE_MAX, &v, n->miss)) == -EAGAIN) {
		rc = tree_fetch(&n->ds->tree, n->miss);
		if (rc)
			return rc;
	}
	if (rc)
		return rc;
	n->vlen = v.kind == SLOT_VALUE && !v.obj ? v.len : 0;
	tree_val_put(&v);
	return atomic_load(n->stop) ? -EINTR : 0;
}

static uint64_t inode_of(const struct names *n)
{
	uint64_t be;

	memcpy(&be, n->key, 8);
	return be64toh(be);
}

/* Calls fn for each entry of a directory; nonzero ends it. */
static int each_entry(struct names *n, uint64_t dir,
		      int (*fn)(void *arg, uint64_t dir, const struct entry *e, const char *name,
				uint32_t len),
		      void *arg)
{
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_make(key, dir, KEY_COOKIE);
	int rc = next_key(n, key, klen, false);

	while (!rc && n->klen == KEY_U64_LEN && !memcmp(n->key, key, klen)) {
		struct entry e;

		if (n->vlen > sizeof(e) && n->vlen <= sizeof(e) + TARN_NAME_MAX) {
			memcpy(&e, n->val, sizeof(e));
			rc = fn(arg, dir, &e, (const char *)n->val + sizeof(e),
				n->vlen - (uint32_t)sizeof(e));
		}
		rc = rc ? rc : next_key(n, n->key, n->klen, true);
	}
	return rc == -ENOENT ? 0 : rc;
}

/* Where a file was found: its directory, and its name in it. */
struct home {
	struct catalog_error *error;
	uint64_t dir;
	char name[TARN_NAME_MAX + 1];
};

struct search {
	struct home *homes;
	uint32_t n;
};

static int match(void *arg, uint64_t dir, const struct entry *e, const char *name, uint32_t len)
{
	struct search *s = arg;

	for (uint32_t i = 0; i < s->n; i++) {
		struct home *h = &s->homes[i];

		if (h->dir || h->error->inode != e->ino)
			continue;
		h->dir = dir;
		memcpy(h->name, name, len);
		h->name[len] = 0;
	}
	return 0;
}

/* All directories: from the first key of each inode to the first of the next one. */
static int search_all(struct names *n, struct search *s)
{
	uint8_t key[KEY_ROOM];
	uint64_t ino = 1;
	int rc = 0;

	while (!rc && ino) {
		struct inode_record rec = {0};

		rc = next_key(n, key, key_make(key, ino, KEY_INODE), false);
		if (rc)
			break;
		ino = inode_of(n);
		if (n->klen == 9 && n->key[8] == KEY_INODE && n->vlen == sizeof(rec))
			memcpy(&rec, n->val, sizeof(rec));
		if (rec.type == TARN_DIR || n->klen != 9 || n->key[8] != KEY_INODE || !n->vlen)
			rc = each_entry(n, ino, match, s);
		ino++;
	}
	return rc == -ENOENT ? 0 : rc;
}

struct child {
	uint64_t ino;
	char name[TARN_NAME_MAX + 1];
};

static int match_child(void *arg, uint64_t dir, const struct entry *e, const char *name,
		       uint32_t len)
{
	struct child *c = arg;

	(void)dir;
	if (e->ino != c->ino)
		return 0;
	memcpy(c->name, name, len);
	c->name[len] = 0;
	return 1;
}

/* The parent of a directory, 0 if that is not known. */
static uint64_t parent_of(struct names *n, uint64_t dir)
{
	struct inode_record rec;
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_make(key, dir, KEY_INODE);

	if (next_key(n, key, klen, false) || n->klen != klen || memcmp(n->key, key, klen) ||
	    n->vlen != sizeof(rec))
		return 0;
	memcpy(&rec, n->val, sizeof(rec));
	return rec.parent;
}

/* Puts "/name" before what is in path from *at on; false: it has no room. */
static bool prepend(char *path, size_t *at, const char *name)
{
	size_t len = strlen(name);

	if (len + 1 > *at)
		return false;
	*at -= len;
	memcpy(path + *at, name, len);
	path[--*at] = '/';
	return true;
}

/* A path too long, or one that cannot be read, is none. */
static void find_path(struct names *n, const struct home *home)
{
	char path[sizeof(home->error->path)];
	size_t at = sizeof(path) - 1;
	uint64_t dir = home->dir;

	path[at] = 0;
	if (home->error->inode == ROOT_INO) {
		strcpy(home->error->path, "/");
		return;
	}
	if (!dir || !prepend(path, &at, home->name))
		return;
	while (dir != ROOT_INO) {
		struct child c = {.ino = dir};
		uint64_t parent = parent_of(n, dir);

		if (!parent || each_entry(n, parent, match_child, &c) != 1 ||
		    !prepend(path, &at, c.name))
			return;
		dir = parent;
	}
	memmove(home->error->path, path + at, sizeof(path) - at);
}

static int name_files(struct names *n, struct search *s)
{
	int rc = search_all(n, s);

	for (uint32_t i = 0; i < s->n && !rc && !atomic_load(n->stop); i++)
		find_path(n, &s->homes[i]);
	return rc;
}

/* The files of one dataset, [first, first + n) of the list. What can't be read has no names. */
static int name_dataset(const struct job_step *step, struct catalog_error *first, uint32_t n)
{
	struct search s = {.homes = calloc(n, sizeof(*s.homes)), .n = n};
	struct names names = {.stop = step->stop,
			      .miss = malloc(sizeof(*names.miss)),
			      .val = malloc(TREE_INLINE_MAX)};
	int rc = s.homes && names.miss && names.val ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < n && s.homes; i++)
		s.homes[i].error = &first[i];
	if (!rc && !catalog_find_id(step->p->catalog, first->dataset, &names.ds)) {
		if (!dataset_enter(names.ds)) {
			rc = name_files(&names, &s);
			dataset_leave(names.ds);
		}
		tarn_dataset_put(names.ds);
	}
	free(s.homes);
	free(names.miss);
	free(names.val);
	return rc == -EIO ? 0 : rc;
}

int damaged_finish(const struct job_step *step)
{
	struct damaged d;
	int rc = damaged_load(step->p->catalog, step->id, &d);

	if (rc)
		return rc;
	/* They come in the order of datasets. */
	for (uint32_t i = 0, end; i < d.n && !rc; i = end) {
		for (end = i + 1; end < d.n && d.list[end].dataset == d.list[i].dataset;)
			end++;
		if (d.list[i].dataset)
			rc = name_dataset(step, &d.list[i], end - i);
	}
	rc = rc ? rc : catalog_errors_put(step->p->catalog, d.list, d.n);
	rc = rc ? rc : catalog_errors_drop(step->p->catalog, step->id);
	free(d.list);
	return rc;
}

/* ---- showing them ---- */

struct shown {
	struct engine_pool *p;
	void (*fn)(void *arg, const char *object, uint64_t blocks);
	void *arg;
};

static int show(void *arg, const struct catalog_error *error)
{
	char text[TARN_PATH_MAX + sizeof(error->path) + 32], path[TARN_PATH_MAX];
	struct shown *s = arg;
	struct tarn_dataset *ds;

	if (!error->dataset) {
		snprintf(path, sizeof(path), "%s", s->p->name);
	} else if (!catalog_find_id(s->p->catalog, error->dataset, &ds)) {
		catalog_path(ds, path);
		tarn_dataset_put(ds);
	} else {
		return 0; /* destroyed */
	}
	if (!error->inode)
		snprintf(text, sizeof(text), "%s:<metadata>", path);
	else if (!error->path[0])
		snprintf(text, sizeof(text), "%s:<0x%" PRIx64 ">", path, error->inode);
	else
		snprintf(text, sizeof(text), "%s:%s", path, error->path);
	s->fn(s->arg, text, error->blocks);
	return 0;
}

int tarn_pool_errors(struct tarn_engine *engine, const char *pool,
		     void (*fn)(void *arg, const char *object, uint64_t blocks), void *arg)
{
	struct shown s = {.fn = fn, .arg = arg};
	int rc = engine_pool_get(engine, pool, &s.p);

	if (rc)
		return rc;
	rc = catalog_errors(s.p->catalog, show, &s);
	engine_pool_put(engine, s.p);
	return rc;
}
