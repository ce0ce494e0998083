// SPDX-License-Identifier: LGPL-3.0-or-later
/* Pool properties: which there are, and how those given to pool create divide. For api/ alone. */
#ifndef TARN_API_PROP_H
#define TARN_API_PROP_H

#include "dataset/prop.h"

/* Settable pool properties, checked; the others, canonical, for the root dataset. */
struct split_props {
	struct tarn_prop *pool, *dataset;
	uint32_t npool, ndataset;
	char (*values)[PROP_VALUE_MAX + 1];
};
int props_split(const struct tarn_prop *props, uint32_t nprops, struct split_props *out,
		struct tarn_error *err);
void props_split_free(struct split_props *s);

#endif
