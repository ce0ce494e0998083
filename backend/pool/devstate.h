// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Devices of groups for data taken out of use on request, and coming back. What is written in a txg
 * is judged by one state: a device comes back in a sync; it goes when the txg in which that was
 * asked for is committed, of which it still has everything, and only if the others have, too: one
 * that failed in the same txg may have made it necessary. Labels follow, which an import goes by.
 *
 * Callers: api/device.c, under engine.admin; sync.c.
 */
#ifndef TARN_POOL_DEVSTATE_H
#define TARN_POOL_DEVSTATE_H

#include "pool/txg.h"

struct pool;
struct pool_dev;
struct dev;

/* Sync context: it goes when this txg is committed. */
void dev_take_offline(struct pool_dev *dev);
/* Once it is committed: 0 if it has gone, -ENODEV if the group cannot do without it, -EBUSY if some
   data can't. */
int dev_left(const struct pool_dev *dev);
/* The sync thread, when a txg is committed and before anybody is told. */
void devs_leave(struct pool *pool);
/* Sync context. opened: for a device that has none, taken over (NULL: the one it has goes on). */
int dev_bring_back(struct txg_sync *s, struct pool_dev *dev, struct dev *opened);
/* Whether this is the pool's device as it was left: 0, -ENXIO (another one, or unreadable),
   -EREMOTE (used by another import since), -ENOSPC (it has become smaller). Blocking. */
int dev_check_label(const struct pool *pool, const struct pool_dev *dev, struct dev *opened);
/* Writes the labels with the device's state. offline: it stays so after an import. Blocking. */
int dev_record_state(struct pool *pool, struct pool_dev *dev, bool offline);

#endif
