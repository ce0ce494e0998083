// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * A pool in memory for tests of cache/ and tree/: implements what these use of pool/block.h and
 * pool/txg.h, and aborts when they break its rules: a block read, freed or counted that does not
 * exist any more, freed twice, not as its bp says; a buffer changed while it is being written; a
 * wait under a tx. Linked in place of the real pool.
 */
#ifndef FAKE_POOL_H
#define FAKE_POOL_H

#include "pool/block.h"
#include "pool/pool.h"

struct fake;

struct fake_options {
	unsigned threads; /* of the work queue */
	unsigned keep;    /* commits after which freed blocks are gone (and no reader is left) */
	uint64_t seed;
	unsigned fail_writes; /* of 1000 block writes find no place */
	unsigned fail_reads;  /* of 1000 reads are -EIO */
};
struct fake *fake_new(const struct fake_options *o);
void fake_free(struct fake *f);
struct pool *fake_pool(struct fake *f);
struct workq *fake_wq(struct fake *f);
/* Counts what is born and freed, frees at once. */
struct space_owner *fake_owner(struct fake *f);

/* The barrier: waits for all holders, calls freeze(arg, txg), opens the next txg. */
void fake_barrier(struct fake *f, void (*freeze)(void *arg, uint64_t txg), void *arg);
struct txg_sync fake_sync(struct fake *f, uint64_t txg);
/* The txg is durable. */
void fake_committed(struct fake *f, uint64_t txg);

/*
 * The tree written in txg must consist of all blocks born until then and not freed by then:
 * fake_mark_begin(), fake_mark() for each block found, each once, then fake_mark_end().
 */
void fake_mark_begin(struct fake *f);
void fake_mark(struct fake *f, const struct bp *bp);
void fake_mark_end(struct fake *f, uint64_t txg);

/* Plain data written outside of any tree, readable at once. */
struct bp fake_write(struct fake *f, const void *data, uint32_t len);
unsigned long fake_reads(struct fake *f);
/* Holds all reads back until fake_reads_go(). */
void fake_reads_stop(struct fake *f);
void fake_reads_go(struct fake *f);
/* What a block holds; something else in its place. */
void fake_content(struct fake *f, const struct bp *bp, void *data);
void fake_replace(struct fake *f, const struct bp *bp, const void *data);
void fake_fail_reads(struct fake *f, unsigned of_1000);

#define FAKE_CHECK(cond)                                                                           \
	do {                                                                                       \
		if (!(cond))                                                                       \
			fake_fail(__FILE__, __LINE__, #cond);                                      \
	} while (0)
void fake_fail(const char *file, int line, const char *what) __attribute__((noreturn));

/* Seeded from TARN_TEST_SEED or the clock; printed. */
uint64_t test_seed(void);
static inline uint64_t test_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}
/* Content known by its seed. */
void test_fill(void *buf, uint32_t len, uint64_t seed);
bool test_filled(const void *buf, uint32_t len, uint64_t seed);

#endif
