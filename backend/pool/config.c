// SPDX-License-Identifier: LGPL-3.0-or-later
/* A pool's groups and devices, and its life: create, open, add groups, destroy, close. */
#include "pool/config.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "pool/alloc.h"
#include "pool/chunk.h"
#include "pool/ilog.h"
#include "pool/label.h"
#include "pool/logdev.h"
#include "pool/slab.h"
#include "pool/txgs.h"

/* ---- geometry ---- */

uint32_t pool_slab_shift(uint64_t size)
{
	uint32_t shift = SLAB_SHIFT_MIN;

	while (shift < SLAB_SHIFT_MAX && size >> (shift + 1) >= POOL_SLABS_AIM)
		shift++;
	return shift;
}

/* Places of table and slabs; smallest: size of the smallest device of its group. */
static void place_slabs(struct pool_dev *dev, uint64_t smallest, uint32_t slab_shift)
{
	uint64_t room = smallest >> slab_shift;

	/* The table has room for the device to grow eightfold. */
	dev->table_pages = room * 8 / SLAB_PAGE_ENTRIES + 1;
	dev->slab_start = LABEL_AREA + 2 * (uint64_t)dev->table_pages * SECTOR_SIZE;
	dev->slab_start = (dev->slab_start + LABEL_AREA - 1) / LABEL_AREA * LABEL_AREA;
	dev->slab_count = (smallest - LABEL_AREA - dev->slab_start) >> slab_shift;
}

uint64_t pool_usable_size(const struct dev *dev)
{
	return dev->geo.size / LABEL_AREA * LABEL_AREA;
}

/* ---- the object ---- */

uint64_t pool_random_guid(void)
{
	uint64_t guid;

	while (getrandom(&guid, sizeof(guid), 0) != sizeof(guid) || !guid)
		continue; /* interrupted before there was entropy */
	return guid;
}

struct pool *pool_new(const struct tarn_config *config, struct workq *wq)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->config = config;
	pool->wq = wq;
	pthread_mutex_init(&pool->config_lock, NULL);
	pthread_mutex_init(&pool->logs_lock, NULL);
	return pool;
}

void pool_free(struct pool *pool)
{
	alloc_wait_discards(pool);
	beat_stop(pool);
	ilog_destroy(pool);
	alloc_destroy(pool);
	chunks_destroy(pool);
	txgs_destroy(pool);
	for (uint32_t i = 0; i < pool->ndevs; i++) {
		slab_table_free(&pool->devs[i]);
		dev_close(pool->devs[i].dev);
	}
	logs_close(pool);
	pthread_mutex_destroy(&pool->logs_lock);
	pthread_mutex_destroy(&pool->config_lock);
	free(pool);
}

int pool_create_parts(struct pool *pool)
{
	int rc = txgs_create(pool);

	rc = rc ? rc : chunks_create(pool);
	rc = rc ? rc : alloc_create(pool);
	return rc ? rc : ilog_create(pool);
}

void pool_set_path(struct pool_dev *dev, const char *path)
{
	size_t n = strnlen(path, TARN_DEV_PATH_MAX);

	memcpy(dev->path, path, n);
	memset(dev->path + n, 0, sizeof(dev->path) - n);
}

/* ---- create, add ---- */

static void close_new(const struct pool_new_group *groups, uint32_t ngroups)
{
	for (uint32_t g = 0; g < ngroups; g++) {
		for (uint32_t i = 0; i < groups[g].ndevs; i++)
			dev_close(groups[g].devs[i].dev);
	}
}

static int check_new(const struct pool *pool, const struct pool_new_group *groups, uint32_t ngroups)
{
	/* By class. */
	uint64_t ndevs[] = {pool->ndevs, log_devs(pool)}, n[] = {pool->ngroups, pool->nlogs};

	for (uint32_t g = 0; g < ngroups; g++) {
		uint32_t members = groups[g].ndevs;

		if (!pool_kind_fits(groups[g].kind, members))
			return -EINVAL;
		for (uint32_t i = 0; i < members; i++) {
			if (pool_usable_size(groups[g].devs[i].dev) < POOL_DEV_MIN)
				return -ENOSPC;
		}
		n[groups[g].class]++;
		ndevs[groups[g].class] += members;
	}
	return ngroups && n[TARN_CLASS_DATA] && n[TARN_CLASS_DATA] <= POOL_GROUPS_MAX &&
		       n[TARN_CLASS_LOG] <= POOL_LOGS_MAX &&
		       ndevs[TARN_CLASS_DATA] <= POOL_DEVS_MAX &&
		       ndevs[TARN_CLASS_LOG] <= POOL_LOG_DEVS_MAX
		   ? 0
		   : -E2BIG;
}

/* Fills group number `index` and its devices behind those that are there. */
static void fill_group(struct pool *pool, uint32_t index, uint32_t first_dev,
		       const struct pool_new_group *from)
{
	struct pool_group *group = &pool->groups[index];
	uint64_t smallest = UINT64_MAX;

	for (uint32_t i = 0; i < from->ndevs; i++) {
		uint64_t size = pool_usable_size(from->devs[i].dev);

		smallest = size < smallest ? size : smallest;
	}
	*group = (struct pool_group){.kind = from->kind,
				     .first_dev = first_dev,
				     .ndevs = from->ndevs,
				     .slab_shift = pool_slab_shift(smallest)};
	for (uint32_t i = 0; i < from->ndevs; i++) {
		struct pool_dev *dev = &pool->devs[first_dev + i];

		memset(dev, 0, sizeof(*dev));
		dev->guid = pool_random_guid();
		dev->dev = from->devs[i].dev;
		dev->index = first_dev + i;
		dev->group = index;
		dev->size = pool_usable_size(dev->dev);
		pool_set_path(dev, from->devs[i].path);
		place_slabs(dev, smallest, group->slab_shift);
	}
}

/* Wipes old labels, writes empty slab tables, flushes: nothing that makes the device known. */
static int prepare_dev(struct pool_dev *dev)
{
	int rc = label_wipe(dev->dev, dev->size);

	rc = rc ? rc : slab_table_create(dev);
	return rc ? rc : dev_flush(dev->dev);
}

/* layout: the pool's with them. */
static int fill_groups(struct pool *pool, const struct pool_new_group *groups, uint32_t ngroups,
		       struct label_layout *layout)
{
	int rc = 0;

	label_layout(pool, layout);
	for (uint32_t g = 0; g < ngroups; g++) {
		if (groups[g].class == TARN_CLASS_LOG) {
			layout->logs[layout->nlogs] = log_fill(pool, layout, &groups[g]);
			layout->nlogs++;
			continue;
		}
		fill_group(pool, layout->ngroups++, layout->ndevs, &groups[g]);
		layout->ndevs += groups[g].ndevs;
	}
	for (uint32_t i = pool->ndevs; i < layout->ndevs && !rc; i++) {
		rc = prepare_dev(&pool->devs[i]);
		beat_gate(pool, pool->devs[i].dev);
	}
	for (uint32_t g = pool->nlogs; g < layout->nlogs && !rc; g++) {
		rc = log_wipe(layout->logs[g]);
		for (uint32_t i = 0; i < layout->logs[g]->ndevs; i++)
			beat_gate(pool, layout->logs[g]->devs[i].dev);
	}
	return rc;
}

/* From now on other threads see the new groups. */
static void publish(struct pool *pool, const struct label_layout *layout)
{
	__atomic_store_n(&pool->ndevs, layout->ndevs, __ATOMIC_RELEASE);
	__atomic_store_n(&pool->ngroups, layout->ngroups, __ATOMIC_RELEASE);
	logs_publish(pool, layout);
}

/* Whether all new devices work, from these numbers on: none is begun with fewer than was said. */
static bool new_usable(const struct pool *pool, uint32_t first_dev, uint32_t first_log,
		       const struct label_layout *layout)
{
	bool usable = true;

	for (uint32_t i = first_dev; i < layout->ndevs; i++)
		usable = usable && pool_dev_usable(&pool->devs[i]);
	for (uint32_t g = first_log; g < layout->nlogs; g++)
		usable = usable && log_usable(layout->logs[g], true);
	return usable;
}

/* No label is left. The first error. */
static int wipe_all(struct pool *pool)
{
	int rc = 0;

	for (uint32_t i = 0; i < pool->ndevs; i++) {
		struct pool_dev *dev = &pool->devs[i];
		int failed = dev->dev ? label_wipe(dev->dev, dev->size) : 0;

		rc = rc ? rc : failed;
	}
	for (uint32_t g = 0; g < pool->nlogs; g++) {
		int failed = log_wipe(pool->logs[g]);

		rc = rc ? rc : failed;
	}
	return rc;
}

static int init_new(struct pool *pool, const char *name, const struct pool_new_group *groups,
		    uint32_t ngroups)
{
	struct label_layout layout;
	int rc;

	strcpy(pool->name, name);
	pool->guid = pool_random_guid();
	pool->import_counter = 1;
	pool->first_txg = 1;
	pool->uber.pool_guid = pool->guid;
	pool->uber.import_counter = 1;
	pool->uber.next_chunk = 1;
	pool->uber.generation = 1;
	rc = fill_groups(pool, groups, ngroups, &layout);
	publish(pool, &layout);
	if (rc)
		return rc;
	rc = label_write_all(pool, LABEL_ACTIVE);
	rc = rc || new_usable(pool, 0, 0, &layout) ? rc : -EIO;
	rc = rc ? rc : pool_create_parts(pool);
	rc = rc ? rc : beat_start(pool);
	if (rc)
		wipe_all(pool);
	return rc;
}

int pool_create(const char *name, const struct pool_new_group *groups, uint32_t ngroups,
		const struct tarn_config *config, struct workq *wq, struct pool **out)
{
	struct pool *pool;
	int rc = pool_name_problem(name) ? -EINVAL : 0;

	pool = rc ? NULL : pool_new(config, wq);
	rc = rc ? rc : pool ? check_new(pool, groups, ngroups) : -ENOMEM;
	if (rc) {
		free(pool);
		close_new(groups, ngroups);
		return rc;
	}
	rc = init_new(pool, name, groups, ngroups);
	if (rc) {
		pool_free(pool);
		return rc;
	}
	*out = pool;
	return 0;
}

static void drop_new(struct pool *pool, const struct label_layout *layout)
{
	for (uint32_t g = pool->nlogs; g < layout->nlogs; g++)
		log_wipe(layout->logs[g]);
	for (uint32_t i = pool->ndevs; i < layout->ndevs; i++) {
		struct pool_dev *dev = &pool->devs[i];

		if (dev->dev)
			label_wipe(dev->dev, dev->size);
		slab_table_free(dev);
		memset(dev, 0, sizeof(*dev));
	}
}

static bool has_log(const struct pool_new_group *groups, uint32_t ngroups)
{
	while (ngroups && groups[ngroups - 1].class != TARN_CLASS_LOG)
		ngroups--;
	return ngroups > 0;
}

int pool_add_groups(struct pool *pool, const struct pool_new_group *groups, uint32_t ngroups)
{
	struct label_layout layout;
	int rc;

	pthread_mutex_lock(&pool->config_lock);
	rc = pool->read_only ? -EROFS : check_new(pool, groups, ngroups);
	if (!rc) {
		rc = fill_groups(pool, groups, ngroups, &layout);
		/* A cut from here on finds the new layout only together with the devices that it
		   names: theirs are the first labels that tell it. */
		rc = rc ? rc : label_write_layout(pool, LABEL_ACTIVE, &layout, true);
		rc = rc ? rc : label_write_layout(pool, LABEL_ACTIVE, &layout, false);
		rc = rc || new_usable(pool, pool->ndevs, pool->nlogs, &layout) ? rc : -EIO;
		if (rc)
			drop_new(pool, &layout);
		else
			publish(pool, &layout);
	}
	pthread_mutex_unlock(&pool->config_lock);
	if (rc) {
		close_new(groups, ngroups);
		return rc;
	}
	alloc_grown(pool);
	return has_log(groups, ngroups) ? ilog_renew(pool) : 0;
}

/* ---- close, destroy ---- */

int pool_close(struct pool *pool, bool exported)
{
	int rc = txg_stop(pool);

	ilog_stop(pool);
	alloc_wait_discards(pool);
	/* No beat may follow the label that says "exported": another host may own the pool then. */
	beat_stop(pool);
	if (exported && !rc && !pool->read_only) {
		pthread_mutex_lock(&pool->config_lock);
		rc = label_write_all(pool, LABEL_EXPORTED);
		pthread_mutex_unlock(&pool->config_lock);
	}
	pool_free(pool);
	return rc;
}

int pool_destroy(struct pool *pool)
{
	int rc;

	txg_stop(pool);
	ilog_stop(pool);
	alloc_wait_discards(pool);
	beat_stop(pool);
	rc = pool_may_write(pool) ? wipe_all(pool) : -EROFS;
	pool_free(pool);
	return rc;
}

int pool_dev_restore(struct pool *pool, struct pool_dev *dev)
{
	struct label *label;
	int rc;

	if (!dev->dev || pool->read_only)
		return -ENXIO;
	label = dev_buf_alloc(sizeof(*label));
	if (!label)
		return -ENOMEM;
	rc = label_read(dev->dev, label);
	if (rc || label->pool_guid != pool->guid || label->dev_guid != dev->guid) {
		free(label);
		return -ENXIO;
	}
	free(label);
	pthread_mutex_lock(&pool->config_lock);
	atomic_store(&dev->state, TARN_DEV_ONLINE);
	rc = label_write_all(pool, LABEL_ACTIVE);
	pthread_mutex_unlock(&pool->config_lock);
	return rc ? rc : pool_dev_usable(dev) ? 0 : -ENXIO;
}
