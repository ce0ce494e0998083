// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The pool commands' own parts.
 */
#ifndef TARN_TOOLS_POOL_H
#define TARN_TOOLS_POOL_H

#include "tarn.h"

/* Groups from words as of zpool: devices alone, and "mirror" before the devices of one; those after
   "log" are for the intent log. An array of {"kind": ..., "devices": [...]}. */
struct json_object *parse_groups(const struct args *args, char **words, int n);
void print_groups(const char *pool, struct json_object *groups);

/* The kinds of jobs. */
#define JOB_KINDS "scrub,resilver"
void pool_scrub(const struct args *args);
void pool_resilver(const struct args *args);
void pool_job(const struct args *args);
void pool_wait(const struct args *args);
void print_jobs(struct json_object *jobs);

/* What Pool.Status says of a pool. */
struct json_object *fetch_status(const char *name);
/* tarn pool status, and the pools that tarn pool import finds. */
void pool_status(const struct args *args);
/* After an import: says so and ends with 1 if changes that were acknowledged are lost. */
void warn_of_lost(const char *name);
void print_candidates(struct json_object *pools);

#endif
