// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Preloaded into a server: files in the folder FORGET_DIR lose, when the process is killed, what
 * was written and not made durable. What a write replaces is first kept in FILE.undo, which a flush
 * empties; a durable write is kept there, too. forget.py undoes what is in it. io_uring, which goes
 * past this, is refused.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct undo {
	uint64_t durable, offset, length; /* then its bytes */
};

int io_uring_queue_init(unsigned entries, void *ring, unsigned flags);

int io_uring_queue_init(unsigned entries, void *ring, unsigned flags)
{
	(void)entries, (void)ring, (void)flags;
	return -ENOSYS;
}

/* Ganesha lets its modules find the functions of their own libraries first. */
void *dlopen(const char *path, int flags)
{
	void *(*real)(const char *, int) = dlsym(RTLD_NEXT, "dlopen");

	return real(path, flags & ~RTLD_DEEPBIND);
}

/* Lock held. The undo file of a file in the folder; -1: it is none. */
static int undo_of(int fd)
{
	const char *dir = getenv("FORGET_DIR");
	char link[64], path[4096];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 8);
	if (!dir || n < 0)
		return -1;
	path[n] = '\0';
	if (strncmp(path, dir, strlen(dir)) != 0)
		return -1;
	strcpy(path + n, ".undo");
	return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void must(int ok)
{
	if (!ok)
		abort();
}

/* Lock held. Before the write, or of a durable one. */
static void keep(int undo, int fd, const struct iovec *iov, int count, off_t offset, int durable)
{
	struct undo head = {.durable = (uint64_t)durable, .offset = (uint64_t)offset};
	char *buf;

	for (int i = 0; i < count; i++)
		head.length += iov[i].iov_len;
	must(!posix_memalign((void **)&buf, 4096, head.length + 4096));
	memcpy(buf + 4096 - sizeof(head), &head, sizeof(head));
	if (durable) {
		char *to = buf + 4096;

		for (int i = 0; i < count; to += iov[i++].iov_len)
			memcpy(to, iov[i].iov_base, iov[i].iov_len);
	} else {
		must(pread(fd, buf + 4096, head.length, offset) == (ssize_t)head.length);
	}
	head.length += sizeof(head);
	must(write(undo, buf + 4096 - sizeof(head), head.length) == (ssize_t)head.length);
	free(buf);
}

ssize_t pwritev2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	ssize_t (*real)(int, const struct iovec *, int, off_t, int) = dlsym(RTLD_NEXT, "pwritev2");
	int undo;
	ssize_t n;

	pthread_mutex_lock(&lock);
	undo = undo_of(fd);
	if (undo >= 0)
		keep(undo, fd, iov, count, offset, !!(flags & RWF_DSYNC));
	n = real(fd, iov, count, offset, 0);
	if (undo >= 0)
		close(undo);
	pthread_mutex_unlock(&lock);
	return n;
}

int fdatasync(int fd)
{
	int undo;

	pthread_mutex_lock(&lock);
	undo = undo_of(fd);
	if (undo >= 0) {
		must(!ftruncate(undo, 0));
		close(undo);
	}
	pthread_mutex_unlock(&lock);
	return 0;
}
