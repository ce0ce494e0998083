// SPDX-License-Identifier: LGPL-3.0-or-later
/* runs 100000 */
/* Names and values of properties, and names of pools, from administrators and from devices. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "dataset/prop.h"
#include "pool/pool.h"

static void check_prop(struct fuzz_input *in)
{
	char canonical[PROP_VALUE_MAX + 1], again[PROP_VALUE_MAX + 1], shown[PROP_VALUE_MAX + 1];
	unsigned native = fuzz_number(in, 1) % 16;
	struct tarn_error err = {0};
	char *name = fuzz_text(in), *value = strchr(name, '='), *empty = name + strlen(name);

	if (value)
		*value++ = '\0';
	else
		value = empty;
	const char *known = prop_native(native);
	if (prop_check(known ? known : name, value, canonical, &err)) {
		MUST(err.code < 0 && err.text[0]);
	} else {
		/* What is stored is accepted again by the next import, and stays as it is. */
		MUST(strlen(canonical) <= PROP_VALUE_MAX);
		MUST(!prop_check(known ? known : name, canonical, again, &err));
		MUST(!strcmp(canonical, again));
		prop_format(known ? known : name, canonical, shown);
		MUST(!prop_check(known ? known : name, shown, again, &err));
		MUST(!strcmp(canonical, again));
	}
	free(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, data + size};

	if (fuzz_number(&in, 1) % 4) {
		check_prop(&in);
	} else {
		char *name = fuzz_text(&in);

		if (!pool_name_problem(name))
			MUST(*name && strlen(name) <= TARN_POOL_NAME_MAX &&
			     !strpbrk(name, "/@ \n"));
		free(name);
	}
	return 0;
}
