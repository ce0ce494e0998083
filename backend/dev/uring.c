// SPDX-License-Identifier: LGPL-3.0-or-later
#include "dev/uring.h"
#include "dev/impl.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#define DEPTH 256 /* requests in the ring; its completion side holds twice that */
#define BATCH 64  /* completions reaped at once */

/*
 * Only the one thread that set `submitting` touches the ring's submission side, and it
 * enters the kernel without the lock: meanwhile the others just append to `waiting`, which
 * it looks at again before it leaves. Only the reaper touches the completion side.
 */
struct uring {
	struct io_uring ring;
	int fd;
	pthread_t reaper;
	pthread_mutex_t lock; /* guards what follows */
	struct dev_io *waiting, **tail;
	unsigned in_ring; /* at most DEPTH */
	bool submitting;
};

static void prepare(struct uring *u, struct dev_io *io)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
	struct iovec *iov;
	int n;

	assert(sqe); /* at most DEPTH are prepared between two submissions */
	if (io->op == DEV_FLUSH) {
		io_uring_prep_fsync(sqe, u->fd, IORING_FSYNC_DATASYNC);
	} else {
		n = dev_rest(io, &iov);
		if (io->op == DEV_READ)
			io_uring_prep_readv(sqe, u->fd, iov, n, io->offset + io->moved);
		else
			io_uring_prep_writev2(sqe, u->fd, iov, n, io->offset + io->moved,
					      io->durable ? RWF_DSYNC : 0);
	}
	io_uring_sqe_set_data(sqe, io);
}

static void enter(struct uring *u)
{
	/* The kernel may stop early or be short of memory for a moment. */
	while (io_uring_submit(&u->ring), io_uring_sq_ready(&u->ring))
		sched_yield();
}

/* Called and returns with the lock held. */
static void submit_waiting(struct uring *u)
{
	struct dev_io *io;

	if (u->submitting)
		return;
	u->submitting = true;
	while (u->waiting && u->in_ring < DEPTH) {
		while ((io = u->waiting) && u->in_ring < DEPTH) {
			u->waiting = io->next;
			if (!dev_pass(io))
				continue;
			prepare(u, io);
			u->in_ring++;
		}
		if (!u->waiting)
			u->tail = &u->waiting;
		pthread_mutex_unlock(&u->lock);
		enter(u);
		pthread_mutex_lock(&u->lock);
	}
	u->submitting = false;
}

/* Called with the lock held. */
static void append(struct uring *u, struct dev_io *io)
{
	io->next = NULL;
	*u->tail = io;
	u->tail = &io->next;
}

void uring_submit(struct uring *u, struct dev_io *io)
{
	pthread_mutex_lock(&u->lock);
	append(u, io);
	submit_waiting(u);
	pthread_mutex_unlock(&u->lock);
}

/* Reaps up to BATCH completions. Room in the ring is used again before the owners are told,
   so that the device stays busy. Returns false when told to stop. */
static bool reap_batch(struct uring *u)
{
	struct io_uring_cqe *cqes[BATCH];
	struct {
		struct dev_io *io;
		int result;
	} ended[BATCH];
	unsigned n = io_uring_peek_batch_cqe(&u->ring, cqes, BATCH), count = 0;
	bool go_on = true;

	pthread_mutex_lock(&u->lock);
	for (unsigned i = 0; i < n; i++) {
		struct dev_io *io = io_uring_cqe_get_data(cqes[i]);
		int result;

		if (!io) {
			go_on = false;
			continue;
		}
		u->in_ring--;
		result = dev_advance(io, cqes[i]->res);
		if (result > 0) {
			append(u, io);
		} else {
			ended[count].io = io;
			ended[count++].result = result;
		}
	}
	io_uring_cq_advance(&u->ring, n);
	submit_waiting(u);
	pthread_mutex_unlock(&u->lock);

	for (unsigned i = 0; i < count; i++)
		dev_complete(ended[i].io, ended[i].result);
	return go_on;
}

static void *reaper(void *arg)
{
	struct uring *u = arg;
	struct io_uring_cqe *cqe;

	do {
		while (io_uring_wait_cqe(&u->ring, &cqe))
			continue; /* interrupted */
	} while (reap_batch(u));
	return NULL;
}

int uring_create(int fd, struct uring **out)
{
	struct uring *u = calloc(1, sizeof(*u));
	int rc;

	if (!u)
		return -ENOMEM;
	rc = io_uring_queue_init(DEPTH, &u->ring, 0);
	if (rc)
		goto fail;
	u->fd = fd;
	u->tail = &u->waiting;
	pthread_mutex_init(&u->lock, NULL);
	rc = -pthread_create(&u->reaper, NULL, reaper, u);
	if (rc) {
		pthread_mutex_destroy(&u->lock);
		io_uring_queue_exit(&u->ring);
		goto fail;
	}
	*out = u;
	return 0;
fail:
	free(u);
	return rc;
}

void uring_destroy(struct uring *u)
{
	struct io_uring_sqe *sqe;

	if (!u)
		return;
	pthread_mutex_lock(&u->lock);
	assert(!u->waiting && !u->in_ring && !u->submitting);
	pthread_mutex_unlock(&u->lock);
	sqe = io_uring_get_sqe(&u->ring);
	io_uring_prep_nop(sqe);
	io_uring_sqe_set_data(sqe, NULL); /* tells the reaper to stop */
	enter(u);
	pthread_join(u->reaper, NULL);
	pthread_mutex_destroy(&u->lock);
	io_uring_queue_exit(&u->ring);
	free(u);
}
