// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Scripts in processes of their own, so that a crash ends only one of them; and the way from a
 * long script that fails to a short one: delta debugging, each trial a process.
 */
#ifndef TESTS_MODEL_SHRINK_H
#define TESTS_MODEL_SHRINK_H

#include <sys/types.h>

#include "model_run.h"

struct trial {
	pid_t pid;
	int fd;
};

/* A script begins in a process of its own; two may run at a time. */
struct trial trial_start(const struct script *s, enum lie (*lie)(const struct op *op), bool quiet);
/* Whether it ran without a failure. */
bool trial_end(const struct trial *trial, struct failure *f);

/* Makes a failing script as short as it can in so many trials. *f: why the short one fails. */
void model_shrink(struct script *s, enum lie (*lie)(const struct op *op), unsigned trials,
		  struct failure *f);

#endif
