// SPDX-License-Identifier: LGPL-3.0-or-later
/* What the power-cut test does to a pool before the cuts: short lists that together have every
   operation of the public API, and long random ones. */
#ifndef TESTS_CUT_WORK_H
#define TESTS_CUT_WORK_H

#include "cut_model.h"

struct cut_work {
	const char *name;
	unsigned from; /* the first operation that is to be cut; those before prepare */
	unsigned nops; /* none: the pool's creation is cut */
	const struct cut_op *ops;
	bool destroys;    /* the pool in the end */
	unsigned threads; /* at once, the operations of each CUT_OPS_MAX after those of the one
			     before; 0: one */
};

extern const struct cut_work cut_works[];
extern const unsigned cut_nworks;

/* n operations on files that are possible one after the other; with `own`, below that directory,
   which the first one makes. */
void cut_random_work(uint64_t seed, unsigned n, const char *own, struct cut_op *ops);

#endif
