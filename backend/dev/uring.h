// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Reads, writes and flushes of one file descriptor through an io_uring; for file.c alone.
 * Owns the ring and the one thread that reaps it; the descriptor is the caller's.
 */
#ifndef TARN_DEV_URING_H
#define TARN_DEV_URING_H

#include "dev/dev.h"

struct uring;

/* Fails where the kernel refuses rings (-EPERM, -ENOSYS, -ENOMEM). */
int uring_create(int fd, struct uring **out);

/* Nothing may be in flight. NULL is allowed. */
void uring_destroy(struct uring *u);

/* Any thread. Beyond the depth of the ring, requests wait in a list, not their callers. */
void uring_submit(struct uring *u, struct dev_io *io);

#endif
