// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * A pool on files in a temporary directory, for tests of the public API. Every test ends
 * with fixture_end(), which exports the pool and has it checked (tarn_check must find nothing).
 */
#ifndef TESTS_POOL_FIXTURE_H
#define TESTS_POOL_FIXTURE_H

#include <pthread.h>
#include <tarn/check.h>
#include <tarn/fs.h>

#define FIXTURE_POOL "tank"
#define FIXTURE_DEVS_MAX 4

struct fixture {
	char dir[64];
	char path[FIXTURE_DEVS_MAX][96];
	const char *paths[FIXTURE_DEVS_MAX];
	uint32_t ndevs;
	struct tarn_config config;
	struct tarn_engine *engine;
	struct tarn_dataset *ds; /* the root dataset */
};

/* ndevs files of dev_bytes each: a mirror, or (mirror false) a stripe of single devices. Ends the
   test when something fails. config NULL: small caches. */
void fixture_begin(struct fixture *f, uint32_t ndevs, uint64_t dev_bytes, bool mirror,
		   const struct tarn_config *config);
/* The same; all of them one group, but for single devices. */
void fixture_begin_kind(struct fixture *f, uint32_t ndevs, uint64_t dev_bytes,
			enum tarn_group_kind kind, const struct tarn_config *config);
/* Export, check, import again; f->ds is a new reference. */
void fixture_remount(struct fixture *f);
void fixture_end(struct fixture *f);

/* Blocking forms of the asynchronous calls; result as io->result, bytes in *done. */
int fixture_read(struct tarn_inode *inode, uint64_t offset, void *buf, size_t len, size_t *done,
		 bool *eof);
int fixture_write(struct tarn_inode *inode, uint64_t offset, const void *buf, size_t len,
		  bool stable);
int fixture_fsync(struct tarn_inode *inode);

/* TARN_TEST_SEED or a fresh one; printed, so that the run can be repeated. */
uint64_t test_seed(void);
/* small 1, medium 10, large 100, from TARN_TEST_SIZE. */
unsigned test_scale(void);
/* xorshift64*: the same numbers everywhere. */
uint64_t test_random(uint64_t *state);

#endif
