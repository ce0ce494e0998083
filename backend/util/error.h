// SPDX-License-Identifier: LGPL-3.0-or-later
/* Filling in struct tarn_error. For every layer; no state. */
#ifndef TARN_UTIL_ERROR_H
#define TARN_UTIL_ERROR_H

#include <tarn/tarn.h>

/* Returns code (-errno), so that a refusal is one statement. err may be NULL. A sentence
   without final newline; what is too long is cut. */
int fail(struct tarn_error *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
