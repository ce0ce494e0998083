// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * What the fuzz programs share. Each feeds the bytes that libFuzzer makes up to one parser, and
 * checks what an accepted result promises with MUST(). Where a checksum would stop everything,
 * the program starts from a valid structure, changes it as the input says, and seals it again.
 */
#ifndef TARN_TESTS_FUZZ_H
#define TARN_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* libFuzzer's entry points. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A promise of the code under test. */
#define MUST(x) ((x) ? (void)0 : fuzz_broken(#x, __FILE__, __LINE__))
_Noreturn void fuzz_broken(const char *what, const char *file, int line);

struct fuzz_input {
	const uint8_t *at, *end;
};

static inline size_t fuzz_left(const struct fuzz_input *in)
{
	return (size_t)(in->end - in->at);
}

/* A little-endian number of so many bytes; what the input lacks is zero. */
uint64_t fuzz_number(struct fuzz_input *in, unsigned bytes);
/* Fills to; what the input lacks is zero. */
void fuzz_bytes(struct fuzz_input *in, void *to, size_t size);
/* The rest of the input as text, up to its end or a NUL: free(). */
char *fuzz_text(struct fuzz_input *in);
/* A copy of the rest in memory of just its length, so that the sanitizer sees what lies behind:
   free(). */
uint8_t *fuzz_rest(struct fuzz_input *in);

/* One change of base: its offset (3 bytes, modulo size), its length (5 bits of one byte) and its
   bytes. */
void fuzz_patch(struct fuzz_input *in, void *base, size_t size);
/* All changes until the input ends. */
void fuzz_patch_all(struct fuzz_input *in, void *base, size_t size);

/* Reads all of a range, so that the sanitizers see it. */
void fuzz_touch(const void *at, size_t size);

#endif
