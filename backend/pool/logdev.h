// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Groups of log devices: their slots in the pool object, their labels' part in being added and
 * removed. What is written to them is ilog.c's.
 *
 * A slot keeps its place in memory as long as it is listed. The list changes under
 * pool->config_lock and, for moments, pool->logs_lock; it is read under either of them.
 *
 * Callers: config.c, open.c; ilog.c (which groups there are).
 */
#ifndef TARN_POOL_LOGDEV_H
#define TARN_POOL_LOGDEV_H

#include "pool/label.h"

/* Log devices in all. */
uint32_t log_devs(const struct pool *pool);
/* Any of its devices can be used, or all of them. */
bool log_usable(const struct log_group *log, bool all);

/* A free slot, filled from new devices. */
struct log_group *log_fill(struct pool *pool, const struct label_layout *layout,
			   const struct pool_new_group *from);
/* Wipes the labels of those that are there. */
int log_wipe(struct log_group *log);
/* The pool's groups are those of the layout from now on. */
void logs_publish(struct pool *pool, const struct label_layout *layout);
/* The pool ends. */
void logs_close(struct pool *pool);

#endif
