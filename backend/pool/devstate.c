// SPDX-License-Identifier: LGPL-3.0-or-later
#include "pool/devstate.h"

#include <errno.h>
#include <stdlib.h>

#include "pool/chunk.h"
#include "pool/label.h"
#include "pool/slab.h"

void dev_take_offline(struct pool_dev *dev)
{
	dev->leave_result = 0;
	dev->leaving = true;
}

int dev_left(const struct pool_dev *dev)
{
	return dev->leave_result;
}

static void leave(struct pool *pool, struct pool_dev *dev)
{
	enum tarn_dev_state faulted = TARN_DEV_FAULTED;

	dev->leaving = false;
	if (pool_dev_usable(dev))
		dev->leave_result = chunks_leave_dev(pool, dev);
	else
		atomic_compare_exchange_strong(&dev->state, &faulted, TARN_DEV_OFFLINE);
}

void devs_leave(struct pool *pool)
{
	uint32_t ndevs = __atomic_load_n(&pool->ndevs, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < ndevs; i++) {
		if (pool->devs[i].leaving)
			leave(pool, &pool->devs[i]);
	}
}

int dev_bring_back(struct txg_sync *s, struct pool_dev *dev, struct dev *opened)
{
	int rc = 0;

	if (opened) {
		beat_gate(s->pool, opened);
		dev->dev = opened;
	}
	if (dev->slabs) {
		slab_table_dirty(dev);
	} else {
		rc = slab_table_load(s->pool, dev);
		if (rc)
			return rc;
		chunks_adopt_dev(s, dev);
	}
	rc = uber_level(s->pool, dev);
	if (rc)
		return rc;
	chunks_spoil_dev(s->pool, dev->index);
	atomic_store(&dev->read_errors, 0);
	atomic_store(&dev->write_errors, 0);
	atomic_store(&dev->checksum_errors, 0);
	atomic_store(&dev->state, TARN_DEV_ONLINE);
	return 0;
}

int dev_check_label(const struct pool *pool, const struct pool_dev *dev, struct dev *opened)
{
	struct label *label = dev_buf_alloc(sizeof(*label));
	int rc = label ? label_read(opened, label) : -ENOMEM;

	if (rc != -ENOMEM && (rc || label->pool_guid != pool->guid || label->dev_guid != dev->guid))
		rc = -ENXIO;
	else if (!rc && (label->import_counter > pool->import_counter ||
			 (label->import_counter == pool->import_counter &&
			  label->host_id != pool->config->host_id)))
		rc = -EREMOTE;
	else if (!rc && opened->geo.size < dev->size)
		rc = -ENOSPC;
	free(label);
	return rc;
}

int dev_record_state(struct pool *pool, struct pool_dev *dev, bool offline)
{
	int rc;

	pthread_mutex_lock(&pool->config_lock);
	dev->offline = offline;
	rc = label_write_all(pool, LABEL_ACTIVE);
	pthread_mutex_unlock(&pool->config_lock);
	return rc;
}
