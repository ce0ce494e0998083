// SPDX-License-Identifier: LGPL-3.0-or-later
/* One asynchronous device request of one buffer, for tests. */
#ifndef TARN_TESTS_DEV_REQUEST_H
#define TARN_TESTS_DEV_REQUEST_H

#include <semaphore.h>

#include "dev/dev.h"

struct request {
	struct dev_io io;
	struct iovec iov;
	sem_t done;
};

static inline void request_done(struct dev_io *io)
{
	sem_post(&((struct request *)io->owner)->done);
}

static inline void request_prepare(struct request *r, enum dev_op op, uint64_t offset, void *buf,
				   size_t length)
{
	r->iov = (struct iovec){.iov_base = buf, .iov_len = length};
	r->io = (struct dev_io){.op = op,
				.offset = offset,
				.length = length,
				.iov = &r->iov,
				.iovcnt = 1,
				.done = request_done,
				.owner = r};
	sem_init(&r->done, 0, 0);
}

static inline void request_start(struct request *r, struct dev *dev, enum dev_op op,
				 uint64_t offset, void *buf, size_t length)
{
	request_prepare(r, op, offset, buf, length);
	dev_submit(dev, &r->io);
}

static inline void request_start_durable(struct request *r, struct dev *dev, uint64_t offset,
					 void *buf, size_t length)
{
	request_prepare(r, DEV_WRITE, offset, buf, length);
	r->io.durable = true;
	dev_submit(dev, &r->io);
}

static inline int request_wait(struct request *r)
{
	while (sem_wait(&r->done))
		continue;
	sem_destroy(&r->done);
	return r->io.result;
}

static inline int request_run(struct dev *dev, enum dev_op op, uint64_t offset, void *buf,
			      size_t length)
{
	struct request r;

	request_start(&r, dev, op, offset, buf, length);
	return request_wait(&r);
}

#endif
