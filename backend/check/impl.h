// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The checker's parts. One thread.
 *
 *   check.c   finds and opens the pool, the order of the checks
 *   space.c   which sectors are referenced, against what the allocator believes
 *   pool.c    the pool tree: its keys and records
 *   files.c   one dataset's tree: inodes, entries, records, usage
 */
#ifndef TARN_CHECK_IMPL_H
#define TARN_CHECK_IMPL_H

#include <tarn/check.h>

#include "dataset/catalog.h"
#include "pool/pool.h"
#include "tree/tree.h"

struct refs; /* space.c */

struct check {
	const struct tarn_check_spec *spec;
	struct tarn_check_result *result;
	struct pool *pool;
	struct refs *refs;
};

void found(struct check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- space.c ---- */

int refs_new(struct refs **out);
void refs_free(struct refs *refs);
/* Marks a block as referenced; reports one that was already. `where` is for messages. */
void refs_mark(struct check *c, const struct bp *bp, const char *where);
/* Reads a data block in full and checks it, unless only metadata is wanted. */
void check_block(struct check *c, const struct bp *bp, const char *where);
/* Referenced and allocated must be the same. */
void check_space(struct check *c);

/* ---- pool.c ---- */

struct dataset_seen {
	uint64_t id;
	struct dataset_record rec;
	char name[TARN_NAME_MAX + 1]; /* empty: no name found */
	bool destroyed;
	struct dataset_seen *next;
};
/* Walks the pool tree and hands its chunk records to the pool. *out: the datasets found. */
int check_pool_tree(struct check *c, struct dataset_seen **out);
void datasets_free(struct dataset_seen *list);

/* ---- files.c ---- */

void check_dataset(struct check *c, const struct dataset_seen *ds);

#endif
