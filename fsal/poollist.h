// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The list of pools to import when the server starts: those that were imported when it
 * ended, in whatever way. A pool leaves the list when it is exported or destroyed by a
 * command, not by the end of the server. It is kept in a text file:
 *
 *	pool GUID NAME rw|ro
 *	dev PATH
 *	...
 *
 * The module owns the one list. Its lock protects the entries and the file; the engine is
 * called without it.
 */
#ifndef TARN_POOLLIST_H
#define TARN_POOLLIST_H

#include <pthread.h>
#include <tarn/pool.h>

struct pool_entry;

struct pool_list {
	pthread_mutex_t lock;
	const char *path;
	struct pool_entry *first;
};

/* An absent file is an empty list. path must stay. */
int pool_list_open(struct pool_list *list, const char *path);
void pool_list_close(struct pool_list *list);
/* Imports what is in the list. What fails is told to complain() and stays in the list. */
void pool_list_import(struct pool_list *list, struct tarn_engine *engine,
		      void (*complain)(const char *name, const char *why));
/* A pool has come, its devices have changed, or (not present) it goes. */
int pool_list_update(struct pool_list *list, struct tarn_engine *engine, const char *name,
		     uint64_t guid, bool present);

#endif
