// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Runs operations against a pool and the model, one by one.
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
	size_t at; /* the operation's index; SIZE_MAX: of none */
	char why[1000];
};

/* Where operations come from: false at the end. m: a model of the pool as it is; NULL at first,
   when OP_POOL may be given. */
struct source {
	bool (*next)(struct source *source, const struct model *m, struct op *op);
};

struct script_source {
	struct source source;
	const struct script *script;
	size_t at;
};
struct script_source script_source(const struct script *s);

/* lie: see model_engine.h; NULL for a test of the engine. False: *f says why. The pool is gone
   in any case. */
bool model_run(struct source *source, enum lie (*lie)(const struct op *op), struct failure *f);

#endif
