// SPDX-License-Identifier: LGPL-3.0-or-later
/* Random scripts: the same for the same seed, whatever the engine does. */
#ifndef TESTS_MODEL_GENERATE_H
#define TESTS_MODEL_GENERATE_H

#include "model_script.h"

enum profile {
	PROFILE_SEQUENTIAL, /* all operations, remounts, power cuts */
	PROFILE_PARALLEL,   /* sections of three threads on few objects */
	PROFILE_FAULTS,     /* devices that err */
	PROFILE_FULL,       /* a small pool that is full now and then */
	PROFILES
};

void model_generate(enum profile profile, uint64_t seed, size_t n, struct script *s);

#endif
