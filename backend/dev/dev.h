// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * A device: a regular file, a block device or a simulated one, behind one small
 * table of functions. Owns the file descriptor and the I/O queue; knows nothing of
 * labels, chunks or redundancy.
 *
 * Callers: pool/ and the tests. Any thread may submit; submission never blocks on
 * the device (it may wait for a queue slot only if called outside a txg hold).
 * Completions run in the device's own threads, must be short, must not block and
 * may submit further I/O. Every submitted request completes exactly once. A buffer
 * belongs to the device from submission to completion.
 *
 * Requests may complete in any order; a flush covers the writes that had completed
 * before it was submitted, and nothing else. A durable write covers itself alone. Errors are -errno
 * as the kernel gave them (a media error may be -ENODATA, a vanished drive -ENXIO or -ENOSPC):
 * callers must treat every error alike and never take one for "no space".
 */
#ifndef TARN_DEV_DEV_H
#define TARN_DEV_DEV_H

#include "util/workq.h"

#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define SECTOR_SHIFT 12
#define SECTOR_SIZE (1u << SECTOR_SHIFT)

enum dev_op { DEV_READ, DEV_WRITE, DEV_FLUSH, DEV_DISCARD };

struct dev;

struct dev_io {
	enum dev_op op;
	uint64_t offset;   /* bytes, multiple of SECTOR_SIZE */
	uint64_t length;   /* bytes, multiple of SECTOR_SIZE; sum of iov for read and write */
	struct iovec *iov; /* read, write: each base and length a multiple of SECTOR_SIZE;
			      the array must live until completion */
	int iovcnt;        /* at most DEV_MAX_IOV */
	bool durable;      /* write: completes only when on stable storage, without a flush */
	bool ungated;      /* the device's gate is not asked */
	int result;        /* set before done(): 0 or -errno; short transfers are -EIO */
	void (*done)(struct dev_io *io);
	void *owner; /* the caller's */

	/* The device's, between submission and completion. */
	struct dev *dev;
	struct dev_io *next;
	struct work work;
	uint64_t moved;    /* bytes transferred so far */
	struct iovec rest; /* of the element that a short transfer ended in */
};

#define DEV_MAX_IOV 256

struct dev_geometry {
	uint64_t size;     /* bytes, rounded down to SECTOR_SIZE */
	uint32_t physical; /* physical block size, bytes */
	uint32_t optimal;  /* optimal I/O size, bytes; 65536 where the kernel tells none */
	bool rotational;
	bool discard; /* DEV_DISCARD frees space (TRIM, hole punching) */
};

/* Counters since open; read without a lock, each exact. */
struct dev_stats {
	_Atomic uint64_t reads, writes, flushes, discards; /* completed, failed ones too */
	_Atomic uint64_t read_bytes, write_bytes;          /* of those that succeeded */
	_Atomic uint64_t read_errors, write_errors, flush_errors;
};

/*
 * Asked about each write and discard, in dev_submit() and again when the system gets it: a process
 * may stand still in between. A gate that says no has the request then, and gives it back with
 * dev_resubmit(). Any thread may ask, holding locks of the device.
 */
struct dev_gate {
	bool (*pass)(struct dev_gate *gate, struct dev_io *io);
};

/* What an implementation supplies; its own side of the bargain is in dev/impl.h. */
struct dev_ops {
	void (*submit)(struct dev *dev, struct dev_io *io);
	int (*size)(struct dev *dev, uint64_t *size); /* as it is now, bytes */
	void (*close)(struct dev *dev);
};

/* The common part; each implementation embeds it as its first member. */
struct dev {
	const struct dev_ops *ops;
	char *path;
	struct dev_geometry geo;
	bool readonly;
	struct dev_stats stats;
	struct dev_gate *gate;  /* NULL: none; set by the pool while nobody submits changes */
	_Atomic uint64_t holds; /* requests in flight, calls of dev_submit(), and one until
				   dev_close() */
	sem_t idle;             /* posted when holds becomes 0 */
};

enum {
	DEV_OPEN_RDONLY = 1,  /* no write, flush or discard; no exclusive claim */
	DEV_OPEN_THREADS = 2, /* thread pool instead of io_uring (tests of the fallback) */
};

/*
 * Opens a regular file or block device with O_DIRECT (buffered where the file
 * system refuses it). For writing, block devices are opened O_EXCL and files
 * OFD-locked for writing: -EBUSY if another holds them. -ENOTBLK for anything
 * else than a file or block device. Uses io_uring, else a thread pool.
 */
int dev_open(const char *path, int flags, struct dev **out);

/* Waits for requests in flight, then closes. NULL is allowed. */
void dev_close(struct dev *dev);

/* Checks alignment and bounds, submits. A request that breaks the rules completes with
   -EINVAL, one beyond the end with -ENXIO, a change of a read-only device with -EROFS, a
   discard where there is none with -EOPNOTSUPP: not inside the call either, not counted. */
void dev_submit(struct dev *dev, struct dev_io *io);

/* A request that a gate has stopped: it is asked about anew, or completes with that error. */
void dev_resubmit(struct dev_io *io, int error);

/* Blocking forms for labels and tools; never from a completion or a txg hold. */
int dev_read(struct dev *dev, uint64_t offset, void *buf, size_t length);
int dev_write(struct dev *dev, uint64_t offset, const void *buf, size_t length);
int dev_flush(struct dev *dev);

/* Sector-aligned memory for I/O; free with free(). NULL when memory is short. */
void *dev_buf_alloc(size_t length);

/* Reads the size anew, for a device or file that grew; a file's size here never shrinks. */
int dev_refresh_geometry(struct dev *dev);

#endif
