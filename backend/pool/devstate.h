// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Devices of groups for data taken out of use on request, and coming back. The change of state is
 * made in a sync, so that what is written in its txg is judged by one state; labels follow, which
 * an import goes by.
 *
 * Callers: api/device.c, under engine.admin.
 */
#ifndef TARN_POOL_DEVSTATE_H
#define TARN_POOL_DEVSTATE_H

#include "pool/txg.h"

struct pool_dev;
struct dev;

/* Sync context. -ENODEV: the group cannot do without it; -EBUSY: some data can't. */
int dev_take_offline(struct txg_sync *s, struct pool_dev *dev);
/* Sync context. opened: for a device that has none, taken over (NULL: the one it has goes on). */
int dev_bring_back(struct txg_sync *s, struct pool_dev *dev, struct dev *opened);
/* Whether this is the pool's device as it was left: 0, -ENXIO (another one, or unreadable),
   -EREMOTE (used by another import since), -ENOSPC (it has become smaller). Blocking. */
int dev_check_label(const struct pool *pool, const struct pool_dev *dev, struct dev *opened);
/* Writes the labels with the device's state. offline: it stays so after an import. Blocking. */
int dev_record_state(struct pool *pool, struct pool_dev *dev, bool offline);

#endif
