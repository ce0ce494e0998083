// SPDX-License-Identifier: LGPL-3.0-or-later
/* Regular files and block devices. */
#include "dev/dev.h"
#include "dev/impl.h"
#include "dev/uring.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define POOL_THREADS 16 /* requests in flight without io_uring */

struct file_dev {
	struct dev dev;
	int fd;
	bool block;
	struct uring *ring;    /* NULL where the kernel refuses it */
	struct workq *workers; /* one thread for what the ring cannot do, else all I/O */
};

static int transfer(struct file_dev *f, struct dev_io *io)
{
	struct iovec *iov;
	ssize_t n;
	int rc;

	do {
		int count = dev_rest(io, &iov);
		off_t offset = io->offset + io->moved;

		n = io->op == DEV_READ
			? preadv(f->fd, iov, count, offset)
			: pwritev2(f->fd, iov, count, offset, io->durable ? RWF_DSYNC : 0);
		rc = dev_advance(io, n < 0 ? -errno : n);
	} while (rc > 0);
	return rc;
}

static int discard(struct file_dev *f, struct dev_io *io)
{
	uint64_t range[2] = {io->offset, io->length};
	int rc;

	if (f->block)
		rc = ioctl(f->fd, BLKDISCARD, range);
	else
		rc = fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, io->offset,
			       io->length);
	return rc ? -errno : 0;
}

static int perform(struct file_dev *f, struct dev_io *io)
{
	if (io->result)
		return io->result;
	switch (io->op) {
	case DEV_FLUSH:
		return fdatasync(f->fd) ? -errno : 0;
	case DEV_DISCARD:
		return discard(f, io);
	default:
		return transfer(f, io);
	}
}

static void run(struct work *work)
{
	struct dev_io *io = (struct dev_io *)((char *)work - offsetof(struct dev_io, work));

	if (dev_pass(io))
		dev_complete(io, perform((struct file_dev *)io->dev, io));
}

static void file_submit(struct dev *dev, struct dev_io *io)
{
	struct file_dev *f = (struct file_dev *)dev;

	if (f->ring && io->op != DEV_DISCARD && !io->result) {
		uring_submit(f->ring, io);
	} else {
		io->work.fn = run;
		workq_submit(f->workers, &io->work);
	}
}

static int file_size(struct dev *dev, uint64_t *size)
{
	struct file_dev *f = (struct file_dev *)dev;
	struct stat st;

	if (f->block)
		return ioctl(f->fd, BLKGETSIZE64, size) ? -errno : 0;
	if (fstat(f->fd, &st))
		return -errno;
	*size = (uint64_t)st.st_size > dev->geo.size ? (uint64_t)st.st_size : dev->geo.size;
	return 0;
}

static void file_close(struct dev *dev)
{
	struct file_dev *f = (struct file_dev *)dev;

	uring_destroy(f->ring);
	workq_destroy(f->workers);
	close(f->fd);
	dev_fini(dev);
	free(f);
}

static const struct dev_ops file_ops = {
    .submit = file_submit, .size = file_size, .close = file_close};

/* An attribute of the device's queue; a partition has its disk's. 0 where there is none. */
static unsigned long long queue_attribute(dev_t device, const char *name)
{
	static const char *const places[] = {"", "/.."};
	unsigned long long value = 0;

	for (int i = 0; i < 2; i++) {
		char path[128];
		FILE *file;
		int n;

		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u%s/queue/%s", major(device),
			 minor(device), places[i], name);
		file = fopen(path, "re");
		if (!file)
			continue;
		n = fscanf(file, "%llu", &value);
		fclose(file);
		return n == 1 ? value : 0;
	}
	return 0;
}

static int block_geometry(struct file_dev *f, const struct stat *st)
{
	struct dev_geometry *geo = &f->dev.geo;
	unsigned short rotational;
	unsigned optimal;

	if (ioctl(f->fd, BLKPBSZGET, &geo->physical) || ioctl(f->fd, BLKIOOPT, &optimal) ||
	    ioctl(f->fd, BLKROTATIONAL, &rotational))
		return -errno;
	/* Some USB bridges tell a size that is no multiple of anything. */
	if (optimal && optimal % SECTOR_SIZE == 0)
		geo->optimal = optimal;
	geo->rotational = rotational;
	geo->discard = !f->dev.readonly && queue_attribute(st->st_rdev, "discard_max_bytes");
	return 0;
}

static void regular_geometry(struct file_dev *f, const struct stat *st)
{
	struct dev_geometry *geo = &f->dev.geo;

	geo->physical = SECTOR_SIZE;
	geo->rotational = queue_attribute(st->st_dev, "rotational");
	/* A hole beyond the end changes nothing, but tells whether holes can be made. */
	geo->discard =
	    !f->dev.readonly && !fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					   st->st_size + SECTOR_SIZE, SECTOR_SIZE);
}

static int claim(struct file_dev *f)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	if (f->block || f->dev.readonly) /* O_EXCL did it */
		return 0;
	if (!fcntl(f->fd, F_OFD_SETLK, &lock))
		return 0;
	return errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
}

/* Opens the descriptor, claims the device, reads its geometry. */
static int attach(struct file_dev *f)
{
	struct stat st;
	int flags = f->dev.readonly ? O_RDONLY : O_RDWR;
	int rc;

	/* Opening a pipe or a tape drive would already do things: look first. */
	if (stat(f->dev.path, &st))
		return -errno;
	f->block = S_ISBLK(st.st_mode);
	if (!f->block && !S_ISREG(st.st_mode))
		return -ENOTBLK;
	flags |= O_CLOEXEC | (f->block && !f->dev.readonly ? O_EXCL : 0);
	f->fd = open(f->dev.path, flags | O_DIRECT);
	if (f->fd < 0 && errno == EINVAL)
		f->fd = open(f->dev.path, flags);
	if (f->fd < 0 || fstat(f->fd, &st))
		return -errno;
	if (f->block ? !S_ISBLK(st.st_mode) : !S_ISREG(st.st_mode))
		return -ENOTBLK;
	rc = claim(f);
	if (rc)
		return rc;
	f->dev.geo.optimal = DEV_OPTIMAL_DEFAULT;
	if (f->block)
		rc = block_geometry(f, &st);
	else
		regular_geometry(f, &st);
	return rc ? rc : dev_refresh_geometry(&f->dev);
}

int dev_open(const char *path, int flags, struct dev **out)
{
	struct file_dev *f = calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return -ENOMEM;
	rc = dev_init(&f->dev, &file_ops, path);
	if (rc) {
		free(f);
		return rc;
	}
	f->fd = -1;
	f->dev.readonly = flags & DEV_OPEN_RDONLY;
	rc = attach(f);
	if (rc)
		goto fail;
	/* However the kernel refuses a ring, threads do the same work. */
	if (!(flags & DEV_OPEN_THREADS) && uring_create(f->fd, &f->ring))
		f->ring = NULL;
	rc = workq_create(f->ring ? 1 : POOL_THREADS, &f->workers);
	if (rc)
		goto fail;
	*out = &f->dev;
	return 0;
fail:
	dev_close(&f->dev);
	return rc;
}
