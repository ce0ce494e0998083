// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * A pool on simulated devices behind the public API: this program's dev_open() gives them out under
 * the paths of empty files (the linker's --wrap). Used by one thread, but for the
 * engine's own.
 */
#ifndef TESTS_MODEL_POOL_H
#define TESTS_MODEL_POOL_H

#include <tarn/check.h>
#include <tarn/fs.h>

#include "model_script.h"

struct sim;

#define MODEL_POOL "tank"
enum { MODEL_DEVS = 3 };

struct model_pool {
	char dir[64];
	char path[MODEL_DEVS][96];
	const char *paths[MODEL_DEVS];
	uint32_t ndevs;
	bool mirror, harmed; /* the last device has a copy; harmed: it has missed something */
	struct tarn_engine *engine;
	struct tarn_dataset *ds; /* the root dataset; NULL while not imported */
	struct sim *cut[MODEL_DEVS];
	char error[800]; /* of what failed */
};

/* Where a pool's (empty) files are, in a folder of this process's. */
#define MODEL_POOL_DIR "/var/tmp/tarn-test-XXXXXX"
extern const char *model_pool_dir; /* NULL: each pool makes and removes one */
void model_pool_dir_remove(const char *dir);

/* All: 0, or -1 with p->error. */
int model_pool_create(struct model_pool *p, unsigned layout, uint64_t megabytes,
		      uint64_t recordsize);
int model_pool_export(struct model_pool *p);
/* As after a power cut now, with a part of what was not flushed. Two steps: the devices go; then,
   when nobody has an inode any more, the engine goes and another one has what the devices held. */
void model_pool_cut(struct model_pool *p, uint64_t seed);
int model_pool_power_on(struct model_pool *p);
/* Nothing wrong, but for what a harmed device explains. */
int model_pool_check(struct model_pool *p);
int model_pool_import(struct model_pool *p, unsigned way);
void model_pool_fault(struct model_pool *p, const struct op *op);
int model_pool_repair(struct model_pool *p);
/* What the engine has last logged as an error; "": nothing. */
void model_pool_last_error(char *out, size_t room);
void model_pool_remove(struct model_pool *p); /* at any time */

#endif
