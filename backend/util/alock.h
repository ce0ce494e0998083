// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * A reader-writer lock that callbacks can wait for as well as threads: work that must not
 * block its thread asks with alock_async() and goes on in a function that owns the lock then. Any
 * thread may release it. First come, first served, readers next to each other together.
 *
 * One mutex inside, never held while a function runs. Owns nothing; a waiter's memory is the
 * waiter's until it has the lock.
 */
#ifndef TARN_UTIL_ALOCK_H
#define TARN_UTIL_ALOCK_H

#include <pthread.h>
#include <stdbool.h>

struct alock_waiter {
	/* The lock is held. Runs in the thread that released it: must be short. */
	void (*fn)(struct alock_waiter *w);
	bool write;                /* the lock's */
	struct alock_waiter *next; /* the lock's */
};

struct alock {
	pthread_mutex_t mutex; /* guards all below */
	unsigned readers;
	bool writer;
	struct alock_waiter *head, **tail;
};

void alock_init(struct alock *lock);
void alock_destroy(struct alock *lock);

/* Block the thread. */
void alock_read(struct alock *lock);
void alock_write(struct alock *lock);
/* True: locked. False: w->fn will be called once it is. */
bool alock_async(struct alock *lock, bool write, struct alock_waiter *w);
bool alock_try(struct alock *lock, bool write);

void alock_unlock(struct alock *lock);

#endif
