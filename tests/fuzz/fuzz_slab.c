// SPDX-License-Identifier: LGPL-3.0-or-later
/* runs 500 */
/* Slab tables whose checksums are right: loading them, making chunks of the claims, and a record of
   a chunk on top. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "dev/sim.h"
#include "pool/chunk.h"
#include "pool/label.h"
#include "pool/slab.h"
#include "pool/txgs.h"

#define DEVS 2
#define SLABS 15
#define DEV_SIZE (64ull << 20)

static const struct tarn_config config = {.host = "host", .host_id = 1};

static struct pool *pool_of(struct sim **sims)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	pool->config = &config;
	pool->guid = 7;
	pool->first_txg = 12;
	pool->uber = (struct uberblock){.txg = 10, .next_chunk = 5, .generation = 9};
	pool->ngroups = 1;
	pool->groups[0] = (struct pool_group){.kind = TARN_GROUP_MIRROR, .ndevs = DEVS};
	pool->groups[0].slab_shift = SLAB_SHIFT_MIN;
	pool->ndevs = DEVS;
	pthread_mutex_init(&pool->config_lock, NULL);
	for (unsigned i = 0; i < DEVS; i++) {
		struct pool_dev *dev = &pool->devs[i];
		struct dev *opened;

		sims[i] = sim_create("sim", DEV_SIZE, 4096);
		MUST(!sim_open(sims[i], 0, &opened));
		dev->dev = opened;
		dev->guid = 100 + i;
		dev->index = i;
		dev->size = DEV_SIZE;
		dev->table_pages = 1;
		dev->slab_start = 2 << 20;
		dev->slab_count = SLABS;
	}
	MUST(!txgs_create(pool) && !chunks_create(pool));
	return pool;
}

static void pool_done(struct pool *pool, struct sim **sims)
{
	chunks_destroy(pool);
	txgs_destroy(pool);
	for (unsigned i = 0; i < DEVS; i++) {
		slab_table_free(&pool->devs[i]);
		dev_close(pool->devs[i].dev);
		sim_destroy(sims[i]);
	}
	pthread_mutex_destroy(&pool->config_lock);
	free(pool);
}

static void put_page(struct fuzz_input *in, struct sim *sim, const struct pool_dev *dev,
		     unsigned copy)
{
	struct slab_page page = {.dev_guid = dev->guid, .seq = 1};

	for (unsigned i = 0; i < 3; i++)
		page.entries[i] =
		    (struct slab_entry){1 + i, 1 + i, 5, PROFILE_MIRROR, dev->index, DEVS};
	for (unsigned n = fuzz_number(in, 1) % 8; n; n--)
		fuzz_patch(in, &page.dev_guid, sizeof(page) - sizeof(page.head));
	disk_seal(&page.head, SLAB_MAGIC, sizeof(page));
	sim_poke(sim, LABEL_AREA + copy * SECTOR_SIZE, &page, sizeof(page));
}

/* Every column of a chunk lies in a slab that is there. */
static void check_chunk(void *arg, struct chunk *c)
{
	const struct pool *pool = arg;

	MUST(c->id && c->ncols >= 1 && c->ncols <= CHUNK_COLS_MAX && c->group < pool->ngroups);
	for (unsigned i = 0; i < c->ncols; i++) {
		const struct chunk_col *col = &c->cols[i];

		MUST(col->dev < pool->ndevs);
		MUST(atomic_load(&col->stale) || col->slab < pool->devs[col->dev].slab_count);
	}
}

static void load_record(struct fuzz_input *in, struct pool *pool)
{
	union {
		struct chunk_record r;
		uint8_t bytes[sizeof(struct chunk_record) + 2 * sizeof(struct chunk_record_col)];
	} u = {.r = {.sectors = 1024, .profile = PROFILE_MIRROR, .ncols = 2, .alloc_txg = 9}};
	uint64_t id = fuzz_number(in, 1);
	struct chunk *c;

	for (unsigned i = 0; i < 2; i++)
		u.r.cols[i] = (struct chunk_record_col){.dev = i, .generation = 1};
	fuzz_patch(in, u.bytes, sizeof(u.bytes));
	if (chunk_record_valid(u.bytes, sizeof(u.bytes)))
		chunk_load(pool, id, &u.r, &c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, data + size};
	uint64_t next_chunk, generation;
	struct sim *sims[DEVS];
	struct pool *pool = pool_of(sims);

	for (unsigned i = 0; i < 2 * DEVS; i++)
		put_page(&in, sims[i / 2], &pool->devs[i / 2], i % 2);
	for (unsigned i = 0; i < DEVS; i++) {
		MUST(!slab_table_load(pool, &pool->devs[i]));
		MUST(slab_free_count(&pool->devs[i]) <= SLABS);
	}
	MUST(!chunks_assemble(pool));
	chunks_each(pool, check_chunk, pool);
	load_record(&in, pool);
	load_record(&in, pool);
	chunks_each(pool, check_chunk, pool);
	chunks_load_done(pool);
	chunks_each(pool, check_chunk, pool);
	chunks_counters(pool, &next_chunk, &generation);
	MUST(next_chunk >= pool->uber.next_chunk && generation >= pool->uber.generation);
	pool_done(pool, sims);
	return 0;
}
