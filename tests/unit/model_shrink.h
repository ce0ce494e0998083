// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Scripts in processes of their own, so that a crash ends only one of them; and the way from a
 * long script that fails to a short one: delta debugging, each trial a process.
 */
#ifndef TESTS_MODEL_SHRINK_H
#define TESTS_MODEL_SHRINK_H

#include <sys/types.h>

#include "model_generate.h"
#include "model_run.h"

struct trial {
	pid_t pid;
	int fd;
	char dir[64]; /* of its pool; also a crash leaves nothing behind */
};

/* What a random run did, readable also when its process is gone. */
struct recording {
	size_t n, room;
	struct op ops[];
};
struct recording *recording_new(size_t room);
void recording_free(struct recording *rec);
void recording_script(const struct recording *rec, struct script *s);

/* Operations begin in a process of their own; several may run at a time. */
struct trial trial_start(const struct script *s, enum lie (*lie)(const struct op *op), bool quiet);
struct trial trial_random(enum profile profile, uint64_t seed, struct recording *rec,
			  enum lie (*lie)(const struct op *op), bool quiet);
/* Whether it ran without a failure. */
bool trial_end(const struct trial *trial, struct failure *f);

/* Makes a failing script as short as it can in so many trials. *f: why the short one fails. */
void model_shrink(struct script *s, enum lie (*lie)(const struct op *op), unsigned trials,
		  struct failure *f);

#endif
