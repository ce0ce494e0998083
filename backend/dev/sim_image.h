// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The content of a simulated medium: a sparse array of sectors that are shared between
 * images until changed, so that a copy costs little. For sim.c alone. A sector never
 * changes while more than one holds it; NULL is a sector of zeros. Not locked, but images
 * that share sectors may be used by different threads. Aborts when memory is short.
 */
#ifndef TARN_DEV_SIM_IMAGE_H
#define TARN_DEV_SIM_IMAGE_H

#include "dev/dev.h"

struct sector {
	uint8_t data[SECTOR_SIZE]; /* first: aligned for fast copies */
	_Atomic unsigned holders;
};

struct sector *sector_new(const void *data);
struct sector *sector_hold(struct sector *sector); /* returns it */
void sector_drop(struct sector *sector);

/* Makes *sector the caller's alone, to change its data. */
void sector_own(struct sector **sector);

struct image;

struct image *image_new(uint64_t sectors);
struct image *image_copy(const struct image *image);
void image_free(struct image *image);

/* The place of sector n; to be changed only through image_set() and sector_own(). */
struct sector **image_at(struct image *image, uint64_t n);
const uint8_t *image_read(const struct image *image, uint64_t n);
void image_set(struct image *image, uint64_t n, struct sector *sector); /* takes a hold */

void *sim_alloc(size_t size); /* zeroed; aborts when memory is short */

#endif
