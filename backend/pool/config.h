// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Groups and devices of a pool beyond pool.h: what config.c, logdev.c and open.c share, and what
 * api/ asks before it makes a pool.
 */
#ifndef TARN_POOL_CONFIG_H
#define TARN_POOL_CONFIG_H

#include "pool/pool.h"

#define POOL_DEV_MIN (64ull << 20)
#define POOL_SLABS_AIM 16384

/* log2 of the slab size for a group whose smallest device has `size` bytes. */
uint32_t pool_slab_shift(uint64_t size);

/* Brings a faulted log device back: its label can be read and is written anew. -ENXIO: it still
   fails. */
int pool_dev_restore(struct pool *pool, struct pool_dev *dev);

/* For open.c and logdev.c. */
uint64_t pool_random_guid(void);
uint64_t pool_usable_size(const struct dev *dev);
struct pool *pool_new(const struct tarn_config *config, struct workq *wq);
int pool_create_parts(struct pool *pool);
void pool_set_path(struct pool_dev *dev, const char *path);
/* Ends everything but the sync thread, closes the devices, frees. */
void pool_free(struct pool *pool);

#endif
