// SPDX-License-Identifier: LGPL-3.0-or-later
#include "number.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool parse_number(const char *text, uint64_t *out)
{
	static const char units[] = "KMGT";
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	unsigned shift = 0;
	if (*end != '\0') {
		const char *unit = strchr(units, *end);
		if (!unit || end[1] != '\0')
			return false;
		shift = 10 * (unsigned)(unit - units + 1);
	}
	*out = (uint64_t)value << shift;
	return errno == 0 && (*out >> shift) == value;
}
