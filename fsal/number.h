// SPDX-License-Identifier: LGPL-3.0-or-later
/* Numbers of the TARN block in ganesha.conf. Pure; for main.c and the tests. */
#ifndef TARN_FSAL_NUMBER_H
#define TARN_FSAL_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* A number with an optional K, M, G or T: "16G". */
bool parse_number(const char *text, uint64_t *out);

#endif
