// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The power-cut test's use of the engine: a pool on simulated devices, a list of operations done
 * to it while a tape records the devices, and what an imported pool holds. The public API takes
 * paths: dev_open() is wrapped (see CMakeLists.txt), and the paths of the placeholders, sparse
 * files in a folder, open simulated devices in their place. One pool at a time in a process;
 * a forked process has its own.
 */
#ifndef TESTS_CUT_RUN_H
#define TESTS_CUT_RUN_H

#include <tarn/pool.h>

#include "cut_model.h"
#include "dev/sim_tape.h"

#define CUT_POOL "tank"
#define CUT_DEVS 4
#define CUT_DEV_BYTES (64ull << 20)
#define CUT_WHY 1024

struct cut_profile {
	const char *name;
	unsigned ndevs; /* of the pool, without the spare one that CUT_ADD and CUT_LOG_ADD add */
	enum tarn_group_kind kind; /* single devices: each a group */
	unsigned nlogs; /* the last ones of them: a log device, or a mirror of log devices */
};

/* The folder of placeholders; every begin has its end. */
void cut_begin(void);
void cut_end(void);
/* What the placeholders stand for from now on; NULL: nothing. */
void cut_use(struct sim *const *media, unsigned n);

/* From now on, each change that a replay makes is committed by itself, as might happen. */
void cut_replay_in_small_steps(bool yes);

/* What was done by one thread, and when by the tape. */
struct cut_record {
	const struct cut_profile *profile;
	/* Another thread's, of the same run; each then works below a directory of its own in the
	   root, and numbers its operations from `base`, so that their data differ. What belongs to
	   the run as a whole stands in the first one. */
	struct cut_record *next;
	const char *own;
	unsigned base;
	const struct cut_op *ops;
	unsigned nops;
	bool destroys; /* the pool in the end, in place of an export */
	struct tape *tape;
	uint64_t created; /* the pool was made, the operations begin */
	uint64_t end;
	uint64_t begun[CUT_OPS_MAX + 1], acked[CUT_OPS_MAX + 1]; /* UINT64_MAX: never */
	bool nothing[CUT_OPS_MAX + 1];                           /* it changed nothing */
	uint32_t serial[CUT_OPS_MAX + 1]; /* of the inodes that they were about */
	struct cut_world *worlds;         /* [i]: before operation i; nops + 1 of them */
};

/* What does not need a run: no tape, no times. After next, own and base are set. */
void cut_plan(struct cut_record *r, const struct cut_profile *profile, const struct cut_op *ops,
	      unsigned nops);
/* Makes a pool, does the operations of all plans, exports or destroys the pool (one more
   operation). What fails ends the test. */
void cut_record(struct cut_record *r);
void cut_record_free(struct cut_record *r);

/* Whether there is a pool: it is being made or destroyed, or is destroyed. */
enum cut_presence { CUT_MUST, CUT_MAY, CUT_MUST_NOT };

/* What must, and what may be there. */
struct cut_bounds {
	enum cut_presence presence;
	unsigned least, most;          /* so many of the first operations */
	bool settled[CUT_OPS_MAX + 1]; /* unstable writes that must be there if they are among
					  them; others may not */
};
#define CUT_THREADS 4
/* One for each thread; presence in the first one. */
void cut_bounds(const struct cut_record *r, uint64_t position, struct cut_bounds *out);

/*
 * The media must hold a good pool that fits the bounds, and be of use; those without a pool, to
 * make one of. why: what is wrong.
 * thorough: works on it, and checks it again after that. Recorded on tape if there is one.
 */
bool cut_verify(const struct cut_record *r, const struct cut_bounds *bounds,
		struct sim *const *media, unsigned n, bool thorough, char why[CUT_WHY]);

#endif
