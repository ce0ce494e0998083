// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * What the implementations of devices share; for backend/dev alone.
 *
 * An implementation's submit() gets each request with its fields checked. It must end in one
 * dev_complete(), called by a thread of the device and holding no lock, never inside submit().
 * io->result other than 0 means that the request was refused: it is then to be completed
 * with that result and nothing else done. close() is called with nothing in flight; it ends
 * the threads and frees the device.
 */
#ifndef TARN_DEV_IMPL_H
#define TARN_DEV_IMPL_H

#include "dev/dev.h"

#include <sys/types.h>

#define DEV_OPTIMAL_DEFAULT 65536

int dev_init(struct dev *dev, const struct dev_ops *ops, const char *path);
void dev_fini(struct dev *dev);

/* Counts the request and hands it back to its owner; it is not to be touched after. */
void dev_complete(struct dev_io *io, int result);

/* False: the device's gate has the request now. */
bool dev_pass(struct dev_io *io);

/* What is left to transfer of a read or write: *iov and the returned count of elements. */
int dev_rest(struct dev_io *io, struct iovec **iov);

/* Takes the result of one transfer or flush, bytes or -errno: returns 1 when the request
   must go on (from dev_rest()), else its result. */
int dev_advance(struct dev_io *io, ssize_t n);

#endif
