// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The offline checker behind tarnck(8): walks everything a pool holds and checks that
 * it agrees. Reads only. The pool must not be imported: its devices are claimed for the time.
 *
 * What is checked, and where the rule stands: docs/tarnck.md.
 */
#ifndef TARN_CHECK_H
#define TARN_CHECK_H

#include <tarn/pool.h>

enum {
	TARN_CHECK_METADATA = 1, /* do not read file data */
};

struct tarn_check_spec {
	const char *name;          /* or NULL: by guid; both unset: the only pool found */
	uint64_t guid;
	const char *const *paths;  /* devices, files, directories of them */
	uint32_t npaths;
	int flags;
	/* How many of the newest uberblocks are checked, each as if the pool were imported
	   from it; 0 = 1. Those that do not exist (yet) are left out. */
	uint32_t uberblocks;
	/* One sentence for each finding: what is wrong and where. May be called from the calling thread only. */
	void (*finding)(void *arg, const char *text);
	void *arg;
};

struct tarn_check_result {
	char name[TARN_POOL_NAME_MAX + 1];
	uint64_t guid, txg;
	uint64_t findings;
	uint64_t datasets, inodes, blocks, bytes; /* looked at */
};

/* 0: the check ran to its end (see result->findings); -errno: it could not, *err says why. */
int tarn_check(const struct tarn_check_spec *spec, struct tarn_check_result *result,
	       struct tarn_error *err);

#endif
