// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Destroyed datasets: a thread deletes their trees key by key, in steps each of which is
 * one tx, so that no commit gets long and a crash costs nothing: the record among the
 * destroyed ones always names what is left.
 */
#include <errno.h>
#include <stdlib.h>

#include "dataset/impl.h"

#define STEP_KEYS 64

/* Deletes the first keys of the tree. 0: more to do; -ENOENT: empty. */
static int delete_some(struct tarn_dataset *ds, struct tx *tx, struct tree_miss *miss)
{
	uint8_t key[TREE_KEY_MAX];
	uint32_t klen;
	int rc = 0;

	for (int i = 0; i < STEP_KEYS && !rc; i++) {
		struct tree_pin pin;
		struct tree_val v;

		rc = tree_next(&ds->tree, "", 0, false, NULL, 0, key, &klen, NULL, 0, &v, miss);
		if (rc)
			break;
		tree_val_put(&v);
		rc = tree_pin(tx, &ds->tree, key, klen, &pin, miss);
		if (rc)
			break;
		rc = tree_del(tx, &ds->tree, key, klen, miss);
		tree_unpin(&pin);
	}
	return rc;
}

static int step(struct tarn_dataset *ds, struct tree_miss *miss)
{
	struct tx tx;
	int rc = tx_begin(ds->pool, TREE_RESERVE(2), TX_FREEING, &tx);

	if (rc)
		return rc;
	rc = delete_some(ds, &tx, miss);
	tx_end(&tx);
	return rc == -EAGAIN ? tree_fetch(&ds->tree, miss) : rc;
}

struct forgetting {
	struct tarn_dataset *ds;
	bool done; /* it is on no list any more, also if the txg does not commit */
};

static int forget_task(struct catalog *cat, struct txg_sync *s, void *arg)
{
	struct forgetting *f = arg;
	struct tarn_dataset *ds = f->ds, **at = &cat->all;
	uint8_t key[CAT_KEY_ROOM];
	int rc = cat_del(cat, s, key, cat_key_id(key, CAT_DESTROYED, ds->id));

	if (rc)
		return rc;
	while (*at != ds)
		at = &(*at)->all_next;
	pthread_mutex_lock(&cat->roots);
	*at = ds->all_next;
	pthread_mutex_unlock(&cat->roots);
	f->done = true;
	return 0;
}

/* The last steps' frees must be committed before the record goes. Whether ds is on no list then. */
static bool finish(struct catalog *cat, struct tarn_dataset *ds)
{
	struct forgetting f = {.ds = ds};

	if (!txg_wait(cat->pool, txg_open(cat->pool)))
		catalog_task(cat, forget_task, &f);
	return f.done;
}

static struct tarn_dataset *next_dying(struct catalog *cat)
{
	struct tarn_dataset *ds;

	pthread_mutex_lock(&cat->destroy_lock);
	while (!cat->dying && !cat->stopping)
		pthread_cond_wait(&cat->destroy_cond, &cat->destroy_lock);
	ds = cat->stopping ? NULL : cat->dying;
	pthread_mutex_unlock(&cat->destroy_lock);
	return ds;
}

static bool stopping(struct catalog *cat)
{
	bool yes;

	pthread_mutex_lock(&cat->destroy_lock);
	yes = cat->stopping;
	pthread_mutex_unlock(&cat->destroy_lock);
	return yes;
}

static void drop_dying(struct catalog *cat)
{
	pthread_mutex_lock(&cat->destroy_lock);
	cat->dying = cat->dying->dying_next;
	pthread_mutex_unlock(&cat->destroy_lock);
}

static void *destroyer(void *arg)
{
	struct catalog *cat = arg;
	struct tree_miss *miss = malloc(sizeof(*miss));
	struct tarn_dataset *ds;

	while (miss && (ds = next_dying(cat))) {
		bool gone = false;
		int rc = 0;

		while (!rc && !stopping(cat))
			rc = step(ds, miss);
		if (!rc)
			break;
		if (rc == -ENOENT)
			gone = finish(cat, ds);
		else
			pool_log(cat->pool, TARN_LOG_ERROR,
				 "pool %s: freeing destroyed dataset %llu stops until the next "
				 "import: error %d",
				 cat->pool->name, (unsigned long long)ds->id, -rc);
		drop_dying(cat);
		if (!gone)
			continue; /* stays on the list of all, still listed as destroyed */
		tree_fini(&ds->tree);
		dataset_unref(ds);
	}
	free(miss);
	return NULL;
}

void destroyer_add(struct catalog *cat, struct tarn_dataset *ds)
{
	struct tarn_dataset **at;

	pthread_mutex_lock(&cat->destroy_lock);
	for (at = &cat->dying; *at; at = &(*at)->dying_next)
		;
	ds->dying_next = NULL;
	*at = ds;
	pthread_cond_signal(&cat->destroy_cond);
	pthread_mutex_unlock(&cat->destroy_lock);
}

int destroyer_start(struct catalog *cat)
{
	int rc = pthread_create(&cat->destroyer, NULL, destroyer, cat);

	cat->destroyer_runs = !rc;
	return -rc;
}

void destroyer_stop(struct catalog *cat)
{
	if (!cat->destroyer_runs)
		return;
	pthread_mutex_lock(&cat->destroy_lock);
	cat->stopping = true;
	pthread_cond_signal(&cat->destroy_cond);
	pthread_mutex_unlock(&cat->destroy_lock);
	pthread_join(cat->destroyer, NULL);
	cat->destroyer_runs = false;
}

uint64_t catalog_freeing(struct catalog *cat)
{
	uint64_t bytes = 0;

	pthread_mutex_lock(&cat->destroy_lock);
	for (struct tarn_dataset *ds = cat->dying; ds; ds = ds->dying_next)
		bytes += ds->used;
	pthread_mutex_unlock(&cat->destroy_lock);
	return bytes;
}
