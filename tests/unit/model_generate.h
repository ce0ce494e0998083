// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Random operations, most of which can succeed: chosen by what the model says is there. One
 * thread at a time.
 */
#ifndef TESTS_MODEL_GENERATE_H
#define TESTS_MODEL_GENERATE_H

#include "model.h"

enum profile {
	PROFILE_SEQUENTIAL, /* all operations, remounts, power cuts */
	PROFILE_PARALLEL,   /* sections of three threads on few objects */
	PROFILE_FAULTS,     /* devices that err */
	PROFILE_FULL,       /* a small pool that is full now and then */
	PROFILES
};

struct generator;

struct generator *generator_new(enum profile profile, uint64_t seed);
/* The next operation for a pool like m; NULL: there is none yet. */
void generator_next(struct generator *g, const struct model *m, struct op *op);
void generator_free(struct generator *g);

#endif
