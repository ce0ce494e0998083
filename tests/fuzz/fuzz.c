// SPDX-License-Identifier: LGPL-3.0-or-later
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fuzz_broken(const char *what, const char *file, int line)
{
	fprintf(stderr, "%s:%d: broken promise: %s\n", file, line, what);
	abort();
}

void fuzz_bytes(struct fuzz_input *in, void *to, size_t size)
{
	size_t n = fuzz_left(in) < size ? fuzz_left(in) : size;

	memset(to, 0, size);
	if (n)
		memcpy(to, in->at, n);
	in->at += n;
}

uint64_t fuzz_number(struct fuzz_input *in, unsigned bytes)
{
	uint64_t n = 0;

	fuzz_bytes(in, &n, bytes);
	return n;
}

char *fuzz_text(struct fuzz_input *in)
{
	size_t size = fuzz_left(in);
	char *text = malloc(size + 1);

	fuzz_bytes(in, text, size);
	text[size] = '\0';
	return text;
}

uint8_t *fuzz_rest(struct fuzz_input *in)
{
	size_t size = fuzz_left(in);
	uint8_t *copy = malloc(size + !size);

	fuzz_bytes(in, copy, size);
	return copy;
}

void fuzz_patch(struct fuzz_input *in, void *base, size_t size)
{
	size_t at = fuzz_number(in, 3) % size, length = 1 + fuzz_number(in, 1) % 32;

	if (length > size - at)
		length = size - at;
	if (length > fuzz_left(in))
		length = fuzz_left(in);
	fuzz_bytes(in, (uint8_t *)base + at, length);
}

void fuzz_patch_all(struct fuzz_input *in, void *base, size_t size)
{
	while (fuzz_left(in))
		fuzz_patch(in, base, size);
}

void fuzz_touch(const void *at, size_t size)
{
	for (size_t i = 0; i < size; i++)
		(void)((const volatile uint8_t *)at)[i];
}
