// SPDX-License-Identifier: LGPL-3.0-or-later
#include "pool/logdev.h"

#include <errno.h>

#include "pool/config.h"
#include "pool/ilog.h"

uint32_t log_devs(const struct pool *pool)
{
	uint32_t n = 0;

	for (uint32_t g = 0; g < pool->nlogs; g++)
		n += pool->logs[g]->ndevs;
	return n;
}

bool log_usable(const struct log_group *log, bool all)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < log->ndevs; i++)
		n += pool_dev_usable(&log->devs[i]);
	return all ? n == log->ndevs : n > 0;
}

/* ---- new ---- */

static bool in_layout(const struct label_layout *layout, const struct log_group *log)
{
	for (uint32_t g = 0; g < layout->nlogs; g++) {
		if (layout->logs[g] == log)
			return true;
	}
	return false;
}

struct log_group *log_fill(struct pool *pool, const struct label_layout *layout,
			   const struct pool_new_group *from)
{
	struct log_group *log = pool->log_slots;

	while (in_layout(layout, log))
		log++;
	memset(log, 0, sizeof(*log));
	log->kind = from->kind;
	log->ndevs = from->ndevs;
	log->size = UINT64_MAX;
	for (uint32_t i = 0; i < from->ndevs; i++) {
		struct pool_dev *dev = &log->devs[i];

		dev->guid = pool_random_guid();
		dev->dev = from->devs[i].dev;
		dev->size = pool_usable_size(dev->dev);
		pool_set_path(dev, from->devs[i].path);
		if (dev->size < log->size)
			log->size = dev->size;
	}
	return log;
}

int log_wipe(struct log_group *log)
{
	int rc = 0;

	for (uint32_t i = 0; i < log->ndevs; i++) {
		struct pool_dev *dev = &log->devs[i];
		int failed = dev->dev ? label_wipe(dev->dev, dev->size) : 0;

		rc = rc ? rc : failed;
	}
	return rc;
}

void logs_publish(struct pool *pool, const struct label_layout *layout)
{
	pthread_mutex_lock(&pool->logs_lock);
	pool->nlogs = layout->nlogs;
	memcpy(pool->logs, layout->logs, sizeof(pool->logs));
	pthread_mutex_unlock(&pool->logs_lock);
}

/* ---- gone ---- */

static void close_devs(struct log_group *log)
{
	for (uint32_t i = 0; i < log->ndevs; i++)
		dev_close(log->devs[i].dev);
}

void logs_close(struct pool *pool)
{
	for (uint32_t g = 0; g < pool->nlogs; g++)
		close_devs(pool->logs[g]);
}

static void set_leaving(struct pool *pool, struct log_group *log, bool leaving)
{
	pthread_mutex_lock(&pool->logs_lock);
	log->leaving = leaving;
	pthread_mutex_unlock(&pool->logs_lock);
}

/* A cut while the labels are written leaves the group in the pool, or its devices with labels that
   are older than all others. */
static int unlist(struct pool *pool, uint32_t index)
{
	struct label_layout layout;
	int rc;

	label_layout(pool, &layout);
	layout.nlogs--;
	for (uint32_t g = index; g < layout.nlogs; g++)
		layout.logs[g] = layout.logs[g + 1];
	rc = label_write_layout(pool, LABEL_ACTIVE, &layout, false);
	if (!rc)
		logs_publish(pool, &layout);
	return rc;
}

int pool_remove_log(struct pool *pool, uint32_t index)
{
	struct log_group *log = pool->logs[index];
	int rc;

	set_leaving(pool, log, true);
	rc = ilog_renew(pool);
	pthread_mutex_lock(&pool->config_lock);
	rc = rc ? rc : unlist(pool, index);
	pthread_mutex_unlock(&pool->config_lock);
	if (rc) {
		set_leaving(pool, log, false);
		return rc;
	}
	/* It is no part of the pool any more, whether its labels can be wiped or not. */
	if (log_wipe(log))
		pool_log(pool, TARN_LOG_WARN, "the labels of a removed log device can't be wiped");
	close_devs(log);
	return 0;
}
