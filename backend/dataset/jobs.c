// SPDX-License-Identifier: LGPL-3.0-or-later
/* What jobs need of the catalog: the trees as committed, and records that outlive them. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/job.h>

#include "dataset/impl.h"
#include "pool/alog.h"

/* ---- committed trees ---- */

bool catalog_next_root(struct catalog *cat, uint64_t after, struct catalog_root *out)
{
	const struct tarn_dataset *next = NULL;

	pthread_mutex_lock(&cat->roots);
	if (after == UINT64_MAX) {
		*out = (struct catalog_root){.root = cat->committed_root};
	} else {
		for (const struct tarn_dataset *ds = cat->all; ds; ds = ds->all_next) {
			if (ds->id > after && (!next || ds->id < next->id))
				next = ds;
		}
		if (next)
			*out = (struct catalog_root){.id = next->id,
						     .root = next->committed_root,
						     .used = atomic_load(&next->used)};
	}
	pthread_mutex_unlock(&cat->roots);
	return next || after == UINT64_MAX;
}

uint64_t catalog_used_after(struct catalog *cat, uint64_t id)
{
	uint64_t used = 0;

	pthread_mutex_lock(&cat->roots);
	for (const struct tarn_dataset *ds = cat->all; ds; ds = ds->all_next) {
		if (ds->id > id)
			used += atomic_load(&ds->used);
	}
	pthread_mutex_unlock(&cat->roots);
	return used;
}

struct log_blocks {
	void (*fn)(void *arg, const struct bp *bp);
	void *arg;
};

/* Before this sync writes its own ones: those that are there are committed. */
static int log_task(struct catalog *cat, struct txg_sync *s, void *arg)
{
	struct log_blocks *b = arg;

	(void)cat;
	alog_each_block(s->pool, b->fn, b->arg);
	return 0;
}

int catalog_log_blocks(struct catalog *cat, void (*fn)(void *arg, const struct bp *bp), void *arg)
{
	struct log_blocks b = {fn, arg};

	return catalog_task(cat, log_task, &b);
}

/* ---- jobs ---- */

bool job_record_valid(const void *record, uint32_t len)
{
	const struct job_record *r = record;

	return len == sizeof(*r) && r->kind && r->kind < TARN_JOB_KINDS &&
	       r->state < TARN_JOB_STATES && r->state != TARN_JOB_QUEUED && r->priority <= 100 &&
	       r->key_len <= JOB_POSITION_MAX && r->txg <= FORMAT_NUMBER_MAX && r->done <= r->total;
}

struct job_put {
	uint64_t id;
	const struct job_record *rec; /* NULL: it goes */
};

static int job_task(struct catalog *cat, struct txg_sync *s, void *arg)
{
	struct job_put *p = arg;
	uint8_t key[CAT_KEY_ROOM];
	uint32_t klen = cat_key_id(key, CAT_JOB, p->id);

	return p->rec ? cat_put(cat, s, key, klen, p->rec, sizeof(*p->rec))
		      : cat_del(cat, s, key, klen);
}

int catalog_job_put(struct catalog *cat, uint64_t id, const struct job_record *rec)
{
	return catalog_task(cat, job_task, &(struct job_put){id, rec});
}

int catalog_job_del(struct catalog *cat, uint64_t id)
{
	return catalog_task(cat, job_task, &(struct job_put){.id = id});
}

struct job_scan {
	void (*fn)(void *arg, uint64_t id, const struct job_record *rec);
	void *arg;
};

static uint64_t key_number(const uint8_t *at)
{
	uint64_t be;

	memcpy(&be, at, 8);
	return be64toh(be);
}

static int job_entry(void *arg, const uint8_t *key, uint32_t klen, const void *val, uint32_t vlen)
{
	struct job_scan *scan = arg;
	struct job_record rec;

	if (klen != 9 || vlen != sizeof(rec))
		return 0;
	memcpy(&rec, val, sizeof(rec));
	if (job_record_valid(&rec, sizeof(rec)))
		scan->fn(scan->arg, key_number(key + 1), &rec);
	return 0;
}

int catalog_jobs(struct catalog *cat,
		 void (*fn)(void *arg, uint64_t id, const struct job_record *rec), void *arg)
{
	struct job_scan scan = {fn, arg};

	return cat_scan(cat, &(uint8_t){CAT_JOB}, 1, job_entry, &scan);
}

/* ---- damaged files ---- */

#define ERROR_KEY 17

bool error_record_valid(const void *key, uint32_t klen, const void *record, uint32_t len)
{
	(void)key, (void)record;
	return klen == ERROR_KEY && len >= sizeof(struct error_record) &&
	       len - sizeof(struct error_record) < sizeof(((struct catalog_error *)0)->path);
}

static uint32_t error_key(uint8_t key[CAT_KEY_ROOM], uint64_t dataset, uint64_t inode)
{
	uint64_t be = htobe64(inode);

	cat_key_id(key, CAT_ERROR, dataset);
	memcpy(key + 9, &be, 8);
	return ERROR_KEY;
}

struct errors_put {
	const struct catalog_error *errors;
	uint32_t n;
};

static int errors_task(struct catalog *cat, struct txg_sync *s, void *arg)
{
	const struct errors_put *p = arg;
	int rc = 0;

	for (uint32_t i = 0; i < p->n && !rc; i++) {
		const struct catalog_error *e = &p->errors[i];
		struct error_record rec = {e->job, e->blocks};
		uint8_t key[CAT_KEY_ROOM], val[sizeof(rec) + sizeof(e->path)];
		uint32_t len = (uint32_t)strlen(e->path);

		memcpy(val, &rec, sizeof(rec));
		memcpy(val + sizeof(rec), e->path, len);
		rc = cat_put(cat, s, key, error_key(key, e->dataset, e->inode), val,
			     (uint32_t)sizeof(rec) + len);
	}
	return rc;
}

/* What one task may change is what it has reserved. */
#define ERRORS_A_TASK 4

int catalog_errors_put(struct catalog *cat, const struct catalog_error *errors, uint32_t n)
{
	int rc = 0;

	for (uint32_t i = 0; i < n && !rc; i += ERRORS_A_TASK) {
		struct errors_put p = {errors + i, n - i < ERRORS_A_TASK ? n - i : ERRORS_A_TASK};

		rc = catalog_task(cat, errors_task, &p);
	}
	return rc;
}

struct error_scan {
	int (*fn)(void *arg, const struct catalog_error *error);
	void *arg;
};

static int error_entry(void *arg, const uint8_t *key, uint32_t klen, const void *val, uint32_t vlen)
{
	struct error_scan *scan = arg;
	struct catalog_error error = {0};
	struct error_record rec;

	if (!error_record_valid(key, klen, val, vlen))
		return 0;
	memcpy(&rec, val, sizeof(rec));
	error.dataset = key_number(key + 1);
	error.inode = key_number(key + 9);
	error.job = rec.job;
	error.blocks = rec.blocks;
	memcpy(error.path, (const char *)val + sizeof(rec), vlen - sizeof(rec));
	return scan->fn(scan->arg, &error);
}

int catalog_errors(struct catalog *cat, int (*fn)(void *arg, const struct catalog_error *error),
		   void *arg)
{
	struct error_scan scan = {fn, arg};

	return cat_scan(cat, &(uint8_t){CAT_ERROR}, 1, error_entry, &scan);
}

struct drop {
	uint64_t but_job;
	uint32_t n;
	struct {
		uint64_t dataset, inode;
	} found[ERRORS_A_TASK];
};

static int drop_task(struct catalog *cat, struct txg_sync *s, void *arg)
{
	const struct drop *d = arg;
	uint8_t key[CAT_KEY_ROOM];
	int rc = 0;

	for (uint32_t i = 0; i < d->n && !rc; i++)
		rc = cat_del(cat, s, key, error_key(key, d->found[i].dataset, d->found[i].inode));
	return rc;
}

static int drop_find(void *arg, const struct catalog_error *error)
{
	struct drop *d = arg;

	if (error->job == d->but_job)
		return 0;
	d->found[d->n].dataset = error->dataset;
	d->found[d->n++].inode = error->inode;
	return d->n == ERRORS_A_TASK ? 1 : 0;
}

int catalog_errors_drop(struct catalog *cat, uint64_t but_job)
{
	struct drop d = {.but_job = but_job};
	int rc = catalog_errors(cat, drop_find, &d);

	while (rc >= 0 && d.n) {
		rc = catalog_task(cat, drop_task, &d);
		d.n = 0;
		if (!rc)
			rc = catalog_errors(cat, drop_find, &d);
	}
	return rc < 0 ? rc : 0;
}
