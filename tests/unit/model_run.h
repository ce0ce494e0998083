// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Runs a script against a pool and the model, operation by operation.
 *
 * What has been seen may allow several models: after a parallel section, one for each order of its
 * operations that explains all answers (an operation that was answered before another was asked
 * for comes first). Later answers leave those that agree with them. None left: the
 * pool is wrong. So lost updates and torn states are found, by an answer or by what stays.
 */
#ifndef TESTS_MODEL_RUN_H
#define TESTS_MODEL_RUN_H

#include "model_engine.h"

struct failure {
	size_t at; /* the operation's index; SIZE_MAX: the script ran to its end */
	char why[1000];
};

/* lie: see model_engine.h; NULL for a test of the engine. False: *f says why. The pool is gone
   in any case. */
bool model_run(const struct script *s, enum lie (*lie)(const struct op *op), struct failure *f);

#endif
