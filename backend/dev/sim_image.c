// SPDX-License-Identifier: LGPL-3.0-or-later
#include "dev/sim_image.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LEAF_SECTORS 512

struct leaf {
	struct sector *sectors[LEAF_SECTORS];
};

struct image {
	uint64_t sectors, leaves;
	struct leaf *leaf[]; /* NULL where all is zeros */
};

void *sim_alloc(size_t size)
{
	void *p = calloc(1, size);

	if (!p)
		abort();
	return p;
}

struct sector *sector_new(const void *data)
{
	struct sector *sector = sim_alloc(sizeof(*sector));

	atomic_init(&sector->holders, 1);
	if (data)
		memcpy(sector->data, data, SECTOR_SIZE);
	return sector;
}

struct sector *sector_hold(struct sector *sector)
{
	if (sector)
		atomic_fetch_add(&sector->holders, 1);
	return sector;
}

void sector_drop(struct sector *sector)
{
	if (sector && atomic_fetch_sub(&sector->holders, 1) == 1)
		free(sector);
}

void sector_own(struct sector **sector)
{
	struct sector *shared = *sector;

	if (shared && atomic_load(&shared->holders) == 1)
		return;
	*sector = sector_new(shared ? shared->data : NULL);
	sector_drop(shared);
}

struct image *image_new(uint64_t sectors)
{
	uint64_t leaves = (sectors + LEAF_SECTORS - 1) / LEAF_SECTORS;
	struct image *image = sim_alloc(sizeof(*image) + leaves * sizeof(image->leaf[0]));

	image->sectors = sectors;
	image->leaves = leaves;
	return image;
}

struct image *image_copy(const struct image *image)
{
	struct image *copy = image_new(image->sectors);

	for (uint64_t i = 0; i < image->leaves; i++) {
		if (!image->leaf[i])
			continue;
		copy->leaf[i] = sim_alloc(sizeof(struct leaf));
		for (unsigned s = 0; s < LEAF_SECTORS; s++)
			copy->leaf[i]->sectors[s] = sector_hold(image->leaf[i]->sectors[s]);
	}
	return copy;
}

void image_free(struct image *image)
{
	for (uint64_t i = 0; i < image->leaves; i++) {
		for (unsigned s = 0; image->leaf[i] && s < LEAF_SECTORS; s++)
			sector_drop(image->leaf[i]->sectors[s]);
		free(image->leaf[i]);
	}
	free(image);
}

struct sector **image_at(struct image *image, uint64_t n)
{
	struct leaf **leaf;

	assert(n < image->sectors);
	leaf = &image->leaf[n / LEAF_SECTORS];
	if (!*leaf)
		*leaf = sim_alloc(sizeof(**leaf));
	return &(*leaf)->sectors[n % LEAF_SECTORS];
}

const uint8_t *image_read(const struct image *image, uint64_t n)
{
	static const uint8_t zeros[SECTOR_SIZE];
	const struct leaf *leaf;
	const struct sector *sector;

	assert(n < image->sectors);
	leaf = image->leaf[n / LEAF_SECTORS];
	sector = leaf ? leaf->sectors[n % LEAF_SECTORS] : NULL;
	return sector ? sector->data : zeros;
}

void image_set(struct image *image, uint64_t n, struct sector *sector)
{
	struct sector **place = image_at(image, n);

	sector_hold(sector);
	sector_drop(*place);
	*place = sector;
}
