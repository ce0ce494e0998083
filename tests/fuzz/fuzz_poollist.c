// SPDX-License-Identifier: LGPL-3.0-or-later
/* runs 5000 */
/* The file that lists the pools to import: what was read can be written, and read again. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "poollist.h"

static char path[4096];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *dir = getenv("TMPDIR");

	(void)argc, (void)argv;
	snprintf(path, sizeof(path), "%s/tarn-fuzz-%d", dir ? dir : "/tmp", (int)getpid());
	return 0;
}

static void put_file(const void *data, size_t size)
{
	FILE *file = fopen(path, "w");

	MUST(file && fwrite(data, 1, size, file) == size);
	MUST(!fclose(file));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pool_list list, again;
	int r;

	put_file(data, size);
	r = pool_list_open(&list, path);
	/* A pool that is not in it goes: the list is written as it was read. */
	MUST(pool_list_update(&list, NULL, "", 0xfeedfeedfeedfeed, false) == 0);
	pool_list_close(&list);
	MUST(pool_list_open(&again, path) == 0 || r != 0);
	pool_list_close(&again);
	unlink(path);
	return 0;
}
