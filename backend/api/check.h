// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * May these devices become part of a pool? All questions are asked, and the devices opened,
 * before anything is written. For api/ alone; no state of its own.
 */
#ifndef TARN_API_CHECK_H
#define TARN_API_CHECK_H

#include "pool/pool.h"

/* Devices opened and found good, in the shape that pool_create() takes. */
struct checked_groups {
	struct pool_new_group *groups;
	struct pool_new_dev *devs;
	char (*paths)[TARN_DEV_PATH_MAX + 1];
	uint32_t ngroups, ndevs;
	bool foreign; /* some have signatures that TARN_FORCE overrode */
};

/*
 * like: a group that the pool has already, NULL for a new pool; without TARN_FORCE the new ones
 * must have its redundancy, but for log devices. On failure nothing is left open.
 */
int check_groups(const struct tarn_group_spec *specs, uint32_t n, const struct pool_group *like,
		 int flags, struct checked_groups *out, struct tarn_error *err);

/* The first write: removes foreign signatures, so that no tool takes the devices for theirs. */
int checked_wipe(struct checked_groups *c, struct tarn_error *err);

/* Frees; with `close` the devices too (pool_create() and pool_add_groups() take them over). */
void checked_free(struct checked_groups *c, bool close);

#endif
