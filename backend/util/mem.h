// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Memory for state that must not be lost: where a change was promised not to fail (under a
 * tx, in a sync). When there is none the process ends: clients write again what was not durable,
 * which is better than to go on without it. Free with free().
 */
#ifndef TARN_UTIL_MEM_H
#define TARN_UTIL_MEM_H

#include <stdio.h>
#include <stdlib.h>

static inline void *mem_must(void *p)
{
	if (!p) {
		fputs("tarn: out of memory\n", stderr);
		abort();
	}
	return p;
}

static inline void *mem_zalloc(size_t size)
{
	return mem_must(calloc(1, size));
}

/* Makes room for one more element of `size` bytes in a growing array. */
static inline void *mem_grow(void *array, size_t n, size_t *room, size_t size)
{
	if (n < *room)
		return array;
	*room = *room ? *room * 2 : 16;
	return mem_must(reallocarray(array, *room, size));
}

#endif
