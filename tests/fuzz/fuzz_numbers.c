// SPDX-License-Identifier: LGPL-3.0-or-later
/* runs 200000 */
/* Numbers of the TARN block in ganesha.conf. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>

#include "number.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, data + size};
	char *text = fuzz_text(&in), again[32];
	uint64_t value, same;

	if (parse_number(text, &value)) {
		snprintf(again, sizeof(again), "%llu", (unsigned long long)value);
		MUST(text[0] >= '0' && text[0] <= '9');
		MUST(parse_number(again, &same) && same == value);
	}
	free(text);
	return 0;
}
