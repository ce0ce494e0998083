// SPDX-License-Identifier: LGPL-3.0-or-later
#include "util/alock.h"

#include <assert.h>
#include <semaphore.h>
#include <stddef.h>

struct sleeper {
	struct alock_waiter waiter;
	sem_t woken;
};

void alock_init(struct alock *lock)
{
	*lock = (struct alock){0};
	pthread_mutex_init(&lock->mutex, NULL);
	lock->tail = &lock->head;
}

void alock_destroy(struct alock *lock)
{
	assert(!lock->readers && !lock->writer && !lock->head);
	pthread_mutex_destroy(&lock->mutex);
}

/* Under the mutex. */
static bool take(struct alock *lock, bool write)
{
	if (lock->writer || (write && lock->readers))
		return false;
	if (write)
		lock->writer = true;
	else
		lock->readers++;
	return true;
}

bool alock_async(struct alock *lock, bool write, struct alock_waiter *w)
{
	bool got;

	pthread_mutex_lock(&lock->mutex);
	got = !lock->head && take(lock, write);
	if (!got) {
		w->write = write;
		w->next = NULL;
		*lock->tail = w;
		lock->tail = &w->next;
	}
	pthread_mutex_unlock(&lock->mutex);
	return got;
}

bool alock_try(struct alock *lock, bool write)
{
	bool got;

	pthread_mutex_lock(&lock->mutex);
	got = !lock->head && take(lock, write);
	pthread_mutex_unlock(&lock->mutex);
	return got;
}

static void wake(struct alock_waiter *w)
{
	sem_post(&((struct sleeper *)w)->woken);
}

static void block(struct alock *lock, bool write)
{
	struct sleeper self = {.waiter.fn = wake};

	static_assert(offsetof(struct sleeper, waiter) == 0, "cast in wake()");
	sem_init(&self.woken, 0, 0);
	if (!alock_async(lock, write, &self.waiter))
		while (sem_wait(&self.woken))
			; /* interrupted by a signal */
	sem_destroy(&self.woken);
}

void alock_read(struct alock *lock)
{
	block(lock, false);
}

void alock_write(struct alock *lock)
{
	block(lock, true);
}

void alock_unlock(struct alock *lock)
{
	struct alock_waiter *granted, **end = &granted, *w;

	pthread_mutex_lock(&lock->mutex);
	if (lock->writer)
		lock->writer = false;
	else
		lock->readers--;
	while (lock->head && take(lock, lock->head->write)) {
		*end = lock->head;
		end = &lock->head->next;
		lock->head = lock->head->next;
	}
	if (!lock->head)
		lock->tail = &lock->head;
	*end = NULL;
	pthread_mutex_unlock(&lock->mutex);

	while ((w = granted)) {
		granted = w->next; /* w is gone once it runs */
		w->fn(w);
	}
}
