// SPDX-License-Identifier: LGPL-3.0-or-later
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/impl.h"
#include "pool/ilog.h"

/* ---- keys and single accesses ---- */

uint32_t cat_key(uint8_t key[CAT_KEY_ROOM], enum catalog_key kind)
{
	key[0] = (uint8_t)kind;
	return 1;
}

uint32_t cat_key_id(uint8_t key[CAT_KEY_ROOM], enum catalog_key kind, uint64_t id)
{
	uint64_t be = htobe64(id);

	key[0] = (uint8_t)kind;
	memcpy(key + 1, &be, 8);
	return 9;
}

uint32_t cat_key_id_name(uint8_t key[CAT_KEY_ROOM], enum catalog_key kind, uint64_t id,
			 const char *name)
{
	uint32_t len = (uint32_t)strlen(name);

	cat_key_id(key, kind, id);
	memcpy(key + 9, name, len);
	return 9 + len;
}

/* The sync may wait for a read: nobody holds anything that it does. */
int cat_put(struct catalog *cat, struct txg_sync *s, const void *key, uint32_t klen,
	    const void *val, uint32_t vlen)
{
	struct tx tx = tree_sync_tx(s);
	struct tree_miss miss;
	int rc;

	while ((rc = tree_put(&tx, &cat->tree, key, klen, val, vlen, &miss)) == -EAGAIN)
		if ((rc = tree_fetch(&cat->tree, &miss)))
			return rc;
	return rc;
}

int cat_del(struct catalog *cat, struct txg_sync *s, const void *key, uint32_t klen)
{
	struct tx tx = tree_sync_tx(s);
	struct tree_miss miss;
	int rc;

	while ((rc = tree_del(&tx, &cat->tree, key, klen, &miss)) == -EAGAIN)
		if ((rc = tree_fetch(&cat->tree, &miss)))
			return rc;
	return rc == -ENOENT ? 0 : rc;
}

int cat_get(struct catalog *cat, const void *key, uint32_t klen, void *val, uint32_t room,
	    uint32_t *len)
{
	struct tree_miss miss;
	struct tree_val v;
	int rc;

	while ((rc = tree_get(&cat->tree, key, klen, val, room, &v, &miss)) == -EAGAIN)
		if ((rc = tree_fetch(&cat->tree, &miss)))
			return rc;
	if (rc)
		return rc;
	if (v.len > room)
		rc = -EIO;
	*len = v.len;
	tree_val_put(&v);
	return rc;
}

int cat_scan(struct catalog *cat, const void *prefix, uint32_t plen,
	     int (*fn)(void *arg, const uint8_t *key, uint32_t klen, const void *val,
		       uint32_t vlen),
	     void *arg)
{
	uint8_t key[TREE_KEY_MAX];
	uint32_t klen = plen;
	struct tree_miss *miss = malloc(sizeof(*miss));
	uint8_t *val = malloc(TREE_VALUE_MAX);
	bool after = false;
	int rc = miss && val ? 0 : -ENOMEM;

	memcpy(key, prefix, plen);
	while (!rc) {
		struct tree_val v;

		rc = tree_next(&cat->tree, key, klen, after, NULL, 0, key, &klen, val,
			       TREE_VALUE_MAX, &v, miss);
		if (rc == -EAGAIN) {
			rc = tree_fetch(&cat->tree, miss);
			continue;
		}
		if (rc)
			break;
		after = true;
		if (klen < plen || memcmp(key, prefix, plen))
			rc = -ENOENT;
		else
			rc = fn(arg, key, klen, val, v.len);
		tree_val_put(&v);
	}
	free(val);
	free(miss);
	return rc == -ENOENT ? 0 : rc;
}

/* ---- tasks ---- */

/* The wait can end before the sync does, when the pool is fenced: what it may still use stays. */
static void withdraw(struct catalog *cat, struct catalog_work *work)
{
	struct catalog_work **at = &cat->tasks;

	pthread_mutex_lock(&cat->tasks_lock);
	while (*at && *at != work)
		at = &(*at)->next;
	if (*at) {
		*at = work->next;
		if (!work->next)
			cat->tasks_end = at;
	}
	while (cat->task_runs == work)
		pthread_cond_wait(&cat->task_ended, &cat->tasks_lock);
	pthread_mutex_unlock(&cat->tasks_lock);
}

int catalog_task(struct catalog *cat, int (*fn)(struct catalog *cat, struct txg_sync *s, void *arg),
		 void *arg)
{
	struct catalog_work work = {.fn = fn, .arg = arg};
	struct tx tx;
	int rc;

	if (!cat->started)
		return -EROFS;
	/* Freeing: properties and destroys must work on a full pool. */
	rc = tx_begin(cat->pool, TREE_RESERVE(8), TX_FREEING, &tx);
	if (rc)
		return rc;
	tx_dirty(&tx, TREE_NODE_SIZE);
	tx_keep(&tx);
	work.txg = tx.txg;
	pthread_mutex_lock(&cat->tasks_lock);
	*cat->tasks_end = &work;
	cat->tasks_end = &work.next;
	pthread_mutex_unlock(&cat->tasks_lock);
	tx_end(&tx);
	rc = txg_wait(cat->pool, work.txg);
	if (!rc)
		return work.result;
	withdraw(cat, &work);
	return rc;
}

static struct catalog_work *take_task(struct catalog *cat, uint64_t txg)
{
	struct catalog_work *work;

	pthread_mutex_lock(&cat->tasks_lock);
	work = cat->tasks;
	if (work && work->txg <= txg) {
		cat->tasks = work->next;
		if (!cat->tasks)
			cat->tasks_end = &cat->tasks;
	} else {
		work = NULL;
	}
	cat->task_runs = work;
	pthread_mutex_unlock(&cat->tasks_lock);
	return work;
}

static void run_tasks(struct catalog *cat, struct txg_sync *s)
{
	struct catalog_work *work;

	while ((work = take_task(cat, s->txg))) {
		work->result = work->fn(cat, s, work->arg);
		pthread_mutex_lock(&cat->tasks_lock);
		cat->task_runs = NULL;
		pthread_cond_broadcast(&cat->task_ended);
		pthread_mutex_unlock(&cat->tasks_lock);
	}
}

/* ---- the client of the sync ---- */

static void freeze(void *arg, uint64_t txg)
{
	struct catalog *cat = arg;

	for (struct tarn_dataset *ds = cat->all; ds; ds = ds->all_next)
		ds->sync_dirty = tree_freeze(&ds->tree, txg);
}

static int put_record(struct catalog *cat, struct txg_sync *s, struct tarn_dataset *ds,
		      const struct bp *root)
{
	struct dataset_record rec;
	uint8_t key[CAT_KEY_ROOM];
	uint32_t klen = cat_key_id(key, ds->destroyed ? CAT_DESTROYED : CAT_DATASET, ds->id);

	dataset_record_of(ds, root, &rec);
	return cat_put(cat, s, key, klen, &rec, sizeof(rec));
}

static int sync_datasets(struct catalog *cat, struct txg_sync *s)
{
	for (struct tarn_dataset *ds = cat->all; ds; ds = ds->all_next) {
		int rc;

		if (!ds->sync_dirty)
			continue;
		/* copies=1: metadata lies like data, with its redundancy only. */
		ds->tree.cksum = ds->props.cksum;
		ds->tree.class = ds->props.copies > 1 ? BLOCK_META : BLOCK_DATA;
		rc = tree_sync(&ds->tree, s, &ds->synced_root);
		if (rc)
			return rc;
	}
	return 0;
}

static int put_records(struct catalog *cat, struct txg_sync *s)
{
	for (struct tarn_dataset *ds = cat->all; ds; ds = ds->all_next) {
		int rc;

		if (!ds->sync_dirty)
			continue;
		if (s->pass == 1)
			ds->inodes += (uint64_t)atomic_exchange(&ds->inode_delta[s->txg % 4], 0);
		rc = put_record(cat, s, ds, &ds->synced_root);
		if (rc)
			return rc;
	}
	return 0;
}

static int put_chunk(void *arg, uint64_t id, const void *record, uint32_t len)
{
	struct txg_sync *s = ((void **)arg)[0];
	struct catalog *cat = ((void **)arg)[1];
	uint8_t key[CAT_KEY_ROOM];
	uint32_t klen = cat_key_id(key, CAT_CHUNK, id);

	return record ? cat_put(cat, s, key, klen, record, len) : cat_del(cat, s, key, klen);
}

/* Room for the intent log, as large as can be had. */
static int make_log(struct catalog *cat, struct txg_sync *s)
{
	struct extent extents[ILOG_EXTENTS_MAX];
	uint32_t wanted = ilog_wanted(s->pool), n = 0;
	uint8_t key[CAT_KEY_ROOM];
	struct chunk *chunk;
	int rc = 0;

	if (ilog_extents(s->pool, extents))
		return 0;
	while (n < wanted &&
	       !alloc_copies(s, BLOCK_META, ILOG_EXTENT_SECTORS, &chunk, &extents[n].sector)) {
		extents[n].chunk = chunk->id;
		extents[n++].count = ILOG_EXTENT_SECTORS;
	}
	if (n)
		rc = cat_put(cat, s, key, cat_key(key, CAT_LOG), extents,
			     n * (uint32_t)sizeof(*extents));
	return rc || !n ? rc : ilog_set_extents(s->pool, extents, n);
}

/*
 * Order: the datasets' trees; the frees of this txg, which settle usage; tasks, which see
 * both; records; chunks; last the pool tree, whose own frees touch only the allocator.
 */
static int sync_client(void *arg, struct txg_sync *s)
{
	struct catalog *cat = arg;
	void *chunk_arg[] = {s, cat};
	int rc = sync_datasets(cat, s);

	if (rc)
		return rc;
	if (s->pass == 1) {
		txg_process_frees(s);
		run_tasks(cat, s);
	}
	rc = make_log(cat, s);
	if (!rc)
		rc = put_records(cat, s);
	if (!rc)
		rc = pool_dirty_chunks(s, put_chunk, chunk_arg);
	if (rc)
		return rc;
	tree_freeze(&cat->tree, s->txg);
	rc = tree_sync(&cat->tree, s, &s->root);
	if (!rc)
		txg_process_frees(s);
	return rc;
}

static void committed(void *arg, uint64_t txg)
{
	struct catalog *cat = arg;

	for (struct tarn_dataset *ds = cat->all; ds; ds = ds->all_next) {
		if (ds->sync_dirty)
			tree_committed(&ds->tree, txg);
		ds->sync_dirty = false;
	}
	tree_committed(&cat->tree, txg);
	pthread_mutex_lock(&cat->roots);
	for (struct tarn_dataset *ds = cat->all; ds; ds = ds->all_next)
		ds->committed_root = ds->synced_root;
	cat->committed_root = cat->pool->uber.root;
	pthread_mutex_unlock(&cat->roots);
}

static struct bp take_obj(struct slot_obj *obj)
{
	struct bp bp = obj->bp;

	slot_obj_unref(obj);
	return bp;
}

const struct txg_client catalog_client = {
    .freeze = freeze,
    .sync = sync_client,
    .committed = committed,
    .take_obj = take_obj,
};
