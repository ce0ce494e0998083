// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Dataset properties: their names, defaults, values, inheritance. One table in prop.c.
 * Callers: dataset/, api/. Functions on a dataset's local values need the names lock.
 */
#ifndef TARN_DATASET_PROP_H
#define TARN_DATASET_PROP_H

#include "dataset/dataset.h"

#define PROP_NAME_MAX 255
#define PROP_VALUE_MAX 2047

/* A local value. Owned by its dataset's list, sorted by name. */
struct prop_value {
	struct prop_value *next;
	char *value;
	char name[];
};

/* Checks a name and value and brings the value into its canonical form ("128K" -> "131072").
   -EINVAL with *err telling what is allowed. */
int prop_check(const char *name, const char *value, char canonical[PROP_VALUE_MAX + 1],
	       struct tarn_error *err);

/* Whether it can be set at all: a native settable one, or module:name. */
bool prop_settable(const char *name);
bool prop_inheritable(const char *name);

/* Sets (value NULL: removes) a local value. -ENOMEM. */
int prop_set_local(struct tarn_dataset *ds, const char *name, const char *value);
void prop_free_local(struct tarn_dataset *ds);

/* The effective value, walking up; never NULL for native properties. *from: where it is local,
 * NULL: default. */
const char *prop_effective(struct tarn_dataset *ds, const char *name, struct tarn_dataset **from);

/* Recomputes ds->props of ds and everything below it. */
void prop_apply(struct tarn_dataset *ds);

/* Native settable properties, in the order of listings; NULL at the end. */
const char *prop_native(unsigned n);

/* "131072" -> "128K" for those that are sizes; else the value as it is. */
void prop_format(const char *name, const char *value, char out[PROP_VALUE_MAX + 1]);

#endif
