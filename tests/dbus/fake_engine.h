// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * A stand-in for the engine: remembers how it was called, and answers as the test says.
 * Names steer it: "error-28" fails with -28 and a text, "bare-28" without one, and a pool
 * named "hang..." is created only once fake_release() is called.
 */
#ifndef TARN_TESTS_FAKE_ENGINE_H
#define TARN_TESTS_FAKE_ENGINE_H

#include <pthread.h>
#include <tarn/dataset.h>
#include <tarn/pool.h>

#define FAKE_DEVICE "/dev/\xff\xc3\xa4"        /* not UTF-8, then an a umlaut */
#define FAKE_DEVICE_SHOWN "/dev/\\377\xc3\xa4" /* as the service must show it */
#define FAKE_GUID 12345678901234567890u

struct tarn_engine {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool released;
	unsigned hanging;
	char last[1024]; /* the last change, with all its arguments */
	char history[3000][64];
	unsigned nhistory;
	const char *const *datasets; /* sorted as the engine sorts them */
	unsigned ndatasets;
	uint64_t arc_max, dirty_max;
};

void fake_init(struct tarn_engine *engine);
void fake_release(struct tarn_engine *engine);
/* Until so many calls hang. */
void fake_wait_hanging(struct tarn_engine *engine, unsigned n);

#endif
