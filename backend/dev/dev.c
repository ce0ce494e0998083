// SPDX-License-Identifier: LGPL-3.0-or-later
#include "dev/dev.h"
#include "dev/impl.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define POPULATE_FROM 65536
#define UNALIGNED(x) ((uintptr_t)(x) % SECTOR_SIZE != 0)

int dev_init(struct dev *dev, const struct dev_ops *ops, const char *path)
{
	dev->path = strdup(path);
	if (!dev->path)
		return -ENOMEM;
	dev->ops = ops;
	atomic_init(&dev->holds, 1);
	sem_init(&dev->idle, 0, 0);
	return 0;
}

void dev_fini(struct dev *dev)
{
	sem_destroy(&dev->idle);
	free(dev->path);
}

static void release(struct dev *dev)
{
	if (atomic_fetch_sub(&dev->holds, 1) == 1)
		sem_post(&dev->idle);
}

static void wait_for(sem_t *sem)
{
	while (sem_wait(sem))
		continue; /* interrupted */
}

void dev_close(struct dev *dev)
{
	if (!dev)
		return;
	release(dev);
	wait_for(&dev->idle);
	dev->ops->close(dev);
}

static int check_iov(const struct dev_io *io)
{
	uint64_t sum = 0;

	if (io->iovcnt < 1 || io->iovcnt > DEV_MAX_IOV)
		return -EINVAL;
	for (int i = 0; i < io->iovcnt; i++) {
		if (UNALIGNED(io->iov[i].iov_base) || UNALIGNED(io->iov[i].iov_len) ||
		    !io->iov[i].iov_len || __builtin_add_overflow(sum, io->iov[i].iov_len, &sum))
			return -EINVAL;
	}
	return sum == io->length ? 0 : -EINVAL;
}

static int check(struct dev *dev, const struct dev_io *io)
{
	uint64_t size = __atomic_load_n(&dev->geo.size, __ATOMIC_RELAXED);

	if (dev->readonly && io->op != DEV_READ)
		return -EROFS;
	if (io->op == DEV_FLUSH)
		return 0;
	if (UNALIGNED(io->offset) || UNALIGNED(io->length) || !io->length)
		return -EINVAL;
	if (io->offset > size || io->length > size - io->offset)
		return -ENXIO;
	if (io->op == DEV_DISCARD)
		return dev->geo.discard ? 0 : -EOPNOTSUPP;
	return check_iov(io);
}

void dev_submit(struct dev *dev, struct dev_io *io)
{
	io->dev = dev;
	io->next = NULL;
	io->moved = 0;
	io->result = check(dev, io);
	/* One hold for the request and one for this call: the request may complete, and its
	   owner close the device, before submit() returns. */
	atomic_fetch_add(&dev->holds, 2);
	if (dev_pass(io))
		dev->ops->submit(dev, io);
	release(dev);
}

bool dev_pass(struct dev_io *io)
{
	struct dev_gate *gate;

	/* Ungated ones may be under way when the gate is set: they do not look at it. */
	if (io->ungated || io->result || (io->op != DEV_WRITE && io->op != DEV_DISCARD))
		return true;
	gate = io->dev->gate;
	return !gate || gate->pass(gate, io);
}

void dev_resubmit(struct dev_io *io, int error)
{
	struct dev *dev = io->dev;

	io->next = NULL;
	io->result = error;
	atomic_fetch_add(&dev->holds, 1);
	if (dev_pass(io))
		dev->ops->submit(dev, io);
	release(dev);
}

static void add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static void count(struct dev_stats *stats, const struct dev_io *io, int result)
{
	switch (io->op) {
	case DEV_READ:
		add(&stats->reads, 1);
		add(result ? &stats->read_errors : &stats->read_bytes, result ? 1 : io->length);
		break;
	case DEV_WRITE:
		add(&stats->writes, 1);
		add(result ? &stats->write_errors : &stats->write_bytes, result ? 1 : io->length);
		break;
	case DEV_FLUSH:
		add(&stats->flushes, 1);
		add(&stats->flush_errors, result ? 1 : 0);
		break;
	case DEV_DISCARD:
		add(&stats->discards, 1);
		break;
	}
}

void dev_complete(struct dev_io *io, int result)
{
	struct dev *dev = io->dev;

	if (!io->result)
		count(&dev->stats, io, result);
	io->result = result;
	io->done(io);
	release(dev);
}

int dev_rest(struct dev_io *io, struct iovec **iov)
{
	uint64_t skip = io->moved;
	int i = 0;

	while (skip >= io->iov[i].iov_len)
		skip -= io->iov[i++].iov_len;
	if (!skip) {
		*iov = &io->iov[i];
		return io->iovcnt - i;
	}
	/* The caller's array is not changed: finish the broken element alone. */
	io->rest.iov_base = (char *)io->iov[i].iov_base + skip;
	io->rest.iov_len = io->iov[i].iov_len - skip;
	*iov = &io->rest;
	return 1;
}

int dev_advance(struct dev_io *io, ssize_t n)
{
	/* io_uring cancels what a thread that ended had submitted. */
	if (n == -EINTR || n == -EAGAIN || n == -ECANCELED)
		return 1;
	if (n < 0 || io->op == DEV_FLUSH)
		return n;
	if (n == 0)
		return -EIO; /* the end, where there should be none */
	io->moved += n;
	return io->moved < io->length;
}

static void wake(struct dev_io *io)
{
	sem_post(io->owner);
}

static int submit_and_wait(struct dev *dev, struct dev_io *io)
{
	sem_t done;

	sem_init(&done, 0, 0);
	io->owner = &done;
	io->done = wake;
	dev_submit(dev, io);
	wait_for(&done);
	sem_destroy(&done);
	return io->result;
}

static int transfer(struct dev *dev, enum dev_op op, uint64_t offset, void *buf, size_t length)
{
	struct iovec iov = {.iov_base = buf, .iov_len = length};
	struct dev_io io = {.op = op, .offset = offset, .length = length, .iov = &iov, .iovcnt = 1};

	return submit_and_wait(dev, &io);
}

int dev_read(struct dev *dev, uint64_t offset, void *buf, size_t length)
{
	return transfer(dev, DEV_READ, offset, buf, length);
}

int dev_write(struct dev *dev, uint64_t offset, const void *buf, size_t length)
{
	return transfer(dev, DEV_WRITE, offset, (void *)buf, length);
}

int dev_flush(struct dev *dev)
{
	struct dev_io io = {.op = DEV_FLUSH};

	return submit_and_wait(dev, &io);
}

void *dev_buf_alloc(size_t length)
{
	void *buf;

	if (posix_memalign(&buf, SECTOR_SIZE, length))
		return NULL;
	/* All pages at once cost less than a fault for each; they come one by one if this fails. */
	if (length >= POPULATE_FROM)
		madvise(buf, length / SECTOR_SIZE * SECTOR_SIZE, MADV_POPULATE_WRITE);
	return buf;
}

int dev_refresh_geometry(struct dev *dev)
{
	uint64_t size;
	int rc = dev->ops->size(dev, &size);

	if (!rc)
		__atomic_store_n(&dev->geo.size, size & ~(uint64_t)(SECTOR_SIZE - 1),
				 __ATOMIC_RELAXED);
	return rc;
}
