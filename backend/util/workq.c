// SPDX-License-Identifier: LGPL-3.0-or-later
#include "util/workq.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/queue.h>

/* A loop in progress, on the stack of its caller. */
struct loop {
	TAILQ_ENTRY(loop) link; /* under the queue's lock */
	unsigned helpers;       /* pool threads in it; under the queue's lock */
	pthread_cond_t left;    /* helpers became 0 */
	uint64_t n;
	_Atomic uint64_t next; /* the first index nobody took; beyond n at the end */
	void (*fn)(uint64_t i, void *arg);
	void *arg;
};

struct workq {
	pthread_mutex_t lock; /* guards all but `threads` and `thread` */
	pthread_cond_t wake;  /* work, a loop or stop came */
	struct work *head, **tail;
	TAILQ_HEAD(, loop) loops;
	bool stop;
	unsigned threads;
	pthread_t thread[];
};

static void loop_run(struct loop *loop)
{
	uint64_t i;

	while ((i = atomic_fetch_add(&loop->next, 1)) < loop->n)
		loop->fn(i, loop->arg);
}

static struct loop *open_loop(struct workq *wq)
{
	struct loop *loop = TAILQ_FIRST(&wq->loops);

	while (loop && atomic_load(&loop->next) >= loop->n)
		loop = TAILQ_NEXT(loop, link);
	return loop;
}

/* Called and returns with the lock held. */
static void help_loop(struct workq *wq, struct loop *loop)
{
	loop->helpers++;
	pthread_mutex_unlock(&wq->lock);
	loop_run(loop);
	pthread_mutex_lock(&wq->lock);
	if (--loop->helpers == 0)
		pthread_cond_signal(&loop->left);
}

/* Called and returns with the lock held. */
static void run_first(struct workq *wq)
{
	struct work *work = wq->head;

	wq->head = work->next;
	if (!wq->head)
		wq->tail = &wq->head;
	pthread_mutex_unlock(&wq->lock);
	work->fn(work);
	pthread_mutex_lock(&wq->lock);
}

static void *worker(void *arg)
{
	struct workq *wq = arg;
	struct loop *loop;

	pthread_mutex_lock(&wq->lock);
	for (;;) {
		if ((loop = open_loop(wq)))
			help_loop(wq, loop);
		else if (wq->head)
			run_first(wq);
		else if (wq->stop)
			break;
		else
			pthread_cond_wait(&wq->wake, &wq->lock);
	}
	pthread_mutex_unlock(&wq->lock);
	return NULL;
}

int workq_create(unsigned threads, struct workq **out)
{
	struct workq *wq;
	int rc;

	assert(threads > 0);
	wq = calloc(1, sizeof(*wq) + threads * sizeof(wq->thread[0]));
	if (!wq)
		return -ENOMEM;
	pthread_mutex_init(&wq->lock, NULL);
	pthread_cond_init(&wq->wake, NULL);
	wq->tail = &wq->head;
	TAILQ_INIT(&wq->loops);
	for (; wq->threads < threads; wq->threads++) {
		rc = pthread_create(&wq->thread[wq->threads], NULL, worker, wq);
		if (rc) {
			workq_destroy(wq);
			return -rc;
		}
	}
	*out = wq;
	return 0;
}

void workq_destroy(struct workq *wq)
{
	if (!wq)
		return;
	pthread_mutex_lock(&wq->lock);
	wq->stop = true;
	pthread_cond_broadcast(&wq->wake);
	pthread_mutex_unlock(&wq->lock);
	for (unsigned i = 0; i < wq->threads; i++)
		pthread_join(wq->thread[i], NULL);
	assert(!wq->head && TAILQ_EMPTY(&wq->loops));
	pthread_cond_destroy(&wq->wake);
	pthread_mutex_destroy(&wq->lock);
	free(wq);
}

void workq_submit(struct workq *wq, struct work *work)
{
	work->next = NULL;
	pthread_mutex_lock(&wq->lock);
	*wq->tail = work;
	wq->tail = &work->next;
	pthread_cond_signal(&wq->wake);
	pthread_mutex_unlock(&wq->lock);
}

void workq_for(struct workq *wq, uint64_t n, void (*fn)(uint64_t i, void *arg), void *arg)
{
	struct loop loop = {.n = n, .fn = fn, .arg = arg};

	if (n <= 1) { /* nothing to share */
		loop_run(&loop);
		return;
	}
	pthread_cond_init(&loop.left, NULL);
	pthread_mutex_lock(&wq->lock);
	TAILQ_INSERT_TAIL(&wq->loops, &loop, link);
	for (uint64_t i = 1; i < n && i <= wq->threads; i++)
		pthread_cond_signal(&wq->wake);
	pthread_mutex_unlock(&wq->lock);

	loop_run(&loop);

	pthread_mutex_lock(&wq->lock);
	TAILQ_REMOVE(&wq->loops, &loop, link);
	while (loop.helpers)
		pthread_cond_wait(&loop.left, &wq->lock);
	pthread_mutex_unlock(&wq->lock);
	pthread_cond_destroy(&loop.left);
}
