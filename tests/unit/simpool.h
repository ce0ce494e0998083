// SPDX-License-Identifier: LGPL-3.0-or-later
/* Simulated devices and pool objects on them, for the tests of pool/. */
#ifndef TARN_TESTS_SIMPOOL_H
#define TARN_TESTS_SIMPOOL_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "dev/sim.h"
#include "pool/label.h"
#include "pool/slab.h"

#define SIM_SIZE (64ull << 20)
#define SIM_MAX 8

static const struct tarn_config sim_config = {.host = "testhost", .host_id = 0x1234};

static inline uint64_t test_seed(void)
{
	const char *env = getenv("TARN_TEST_SEED");
	uint64_t seed = env ? strtoull(env, NULL, 0) : (uint64_t)time(NULL);

	printf("TARN_TEST_SEED=%llu\n", (unsigned long long)seed);
	return seed | 1;
}

static inline uint64_t test_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

struct simpool {
	struct sim *sims[SIM_MAX];
	struct pool pool;
};

/* A pool object with one mirror of nmirror devices and then nsingle single ones, laid out by
   hand: front area, one page of slab table twice, slabs of 4 MiB from 2 MiB on. */
static inline struct simpool *simpool_new(uint32_t nmirror, uint32_t nsingle)
{
	struct simpool *sp = calloc(1, sizeof(*sp));
	struct pool *pool = &sp->pool;

	strcpy(pool->name, "tank");
	pool->guid = 0xabcdef;
	pool->import_counter = 1;
	pool->first_txg = 1;
	pool->config = &sim_config;
	pthread_mutex_init(&pool->config_lock, NULL);
	if (nmirror)
		pool->groups[pool->ngroups++] = (struct pool_group){
		    .kind = TARN_GROUP_MIRROR, .ndevs = nmirror, .slab_shift = 22};
	for (uint32_t i = 0; i < nsingle; i++)
		pool->groups[pool->ngroups++] =
		    (struct pool_group){.first_dev = nmirror + i, .ndevs = 1, .slab_shift = 22};
	pool->ndevs = nmirror + nsingle;
	for (uint32_t i = 0; i < pool->ndevs; i++) {
		struct pool_dev *dev = &pool->devs[i];
		struct dev *opened;

		sp->sims[i] = sim_create("sim", SIM_SIZE, 512);
		assert_int_equal(sim_open(sp->sims[i], 0, &opened), 0);
		dev->dev = opened;
		dev->guid = 100 + i;
		dev->index = i;
		dev->group = i < nmirror ? 0 : (nmirror ? 1 : 0) + i - nmirror;
		dev->size = SIM_SIZE;
		dev->table_pages = 1;
		dev->slab_start = 2 << 20;
		dev->slab_count = 15;
		snprintf(dev->path, sizeof(dev->path), "/dev/sim%u", i);
	}
	return sp;
}

static inline void simpool_free(struct simpool *sp)
{
	beat_stop(&sp->pool);
	for (uint32_t i = 0; i < sp->pool.ndevs; i++) {
		slab_table_free(&sp->pool.devs[i]);
		dev_close(sp->pool.devs[i].dev);
		sim_destroy(sp->sims[i]);
	}
	pthread_mutex_destroy(&sp->pool.config_lock);
	free(sp);
}

#endif
