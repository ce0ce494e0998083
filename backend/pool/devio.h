// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The same request to many devices at once, waited for: labels, uberblocks, slab tables,
 * flushes. Owns nothing; the requests and buffers are the caller's. Never from a completion
 * or under a tx.
 */
#ifndef TARN_POOL_DEVIO_H
#define TARN_POOL_DEVIO_H

#include "dev/dev.h"

struct devio_batch;

struct devio {
	struct dev *dev;
	struct dev_io io; /* op, offset, length are the caller's; io.result the answer */
	struct iovec iov;
	struct devio_batch *batch;
};

static inline struct devio devio(struct dev *dev, enum dev_op op, uint64_t offset, void *buf,
				 uint64_t length)
{
	return (struct devio){.dev = dev,
			      .io = {.op = op, .offset = offset, .length = length},
			      .iov = {.iov_base = buf, .iov_len = length}};
}

/* Returns when all n have completed. */
void devio_run(struct devio *ios, uint32_t n);

#endif
