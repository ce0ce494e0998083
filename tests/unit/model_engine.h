// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The engine's side of the model test: does an operation through the public API and notes the
 * answer. Several threads may do operations that bind no handle.
 */
#ifndef TESTS_MODEL_ENGINE_H
#define TESTS_MODEL_ENGINE_H

#include <pthread.h>

#include "model.h"
#include "model_pool.h"

/* An engine that lies, to prove that the test would notice: asked before each operation. */
enum lie {
	LIE_NOT,
	LIE_DROP, /* says that it did it */
	LIE_TEAR, /* a write in two halves, all of the section's other threads between */
};

struct engine_side {
	struct model_pool pool;
	struct tarn_inode *handle[ALL_HANDLES];
	bool open[ALL_HANDLES];
	pthread_mutex_t token_lock;
	struct tarn_commit logged, unlogged; /* the newest token of each kind */
	enum lie (*lie)(const struct op *op);
	/* In a parallel section: torn writes half done; threads without any that are not done. */
	_Atomic unsigned halves, busy;
};

/* Makes what the model does not see: a dataset to fill the pool with. 0 or -errno. */
int engine_start(struct engine_side *e);
void engine_do(struct engine_side *e, const struct op *op, struct outcome *out);
void outcome_free(struct outcome *out);

/* Old inodes of an exported pool are answered -ENXIO for; lets them go. -1: they were not. */
int engine_let_go(struct engine_side *e);
/* The inode again, by its number. 0 or -errno. */
int engine_bind(struct engine_side *e, unsigned h, struct tarn_dataset *ds, uint64_t ino,
		uint64_t gen);
/* Makes what is acknowledged durable: the file by fsync. */
int engine_fsync(struct engine_side *e, unsigned h);
/* Writes until nothing fits; gives the space back. 0 or -errno. */
int engine_fill(struct engine_side *e);
int engine_drain(struct engine_side *e);

#endif
