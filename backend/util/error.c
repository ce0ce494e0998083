// SPDX-License-Identifier: LGPL-3.0-or-later
#include "util/error.h"

#include <stdio.h>

int fail(struct tarn_error *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	err->code = code;
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	return code;
}
