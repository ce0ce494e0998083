// SPDX-License-Identifier: LGPL-3.0-or-later
//
// fsx FILE OPERATIONS SEED: random reads, writes, mappings, truncations, holes and copies in one
// file, compared with a copy in memory at each read. The last operations are shown when a byte
// differs; the same seed does the same again.
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (1 << 20)
#define PIECE_MAX (160 << 10)
#define LOG 64

static const char *path;
static int fd;
static uint8_t shadow[FILE_MAX], buffer[FILE_MAX];
static size_t size;
static uint64_t seed;
static char history[LOG][80];
static unsigned long step;

static uint64_t any(uint64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (seed >> 11) % n;
}

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(history[step % LOG], sizeof(history[0]), format, args);
	va_end(args);
}

__attribute__((noreturn, format(printf, 1, 2))) static void wrong(const char *format, ...)
{
	int error = errno;
	va_list args;

	for (unsigned long i = step < LOG ? 0 : step - LOG + 1; i <= step; i++)
		fprintf(stderr, "%lu: %s\n", i, history[i % LOG]);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	errx(1, " (%s; size %zu, errno %d)", path, size, error);
}

/* A place and a length, often at the edge of a page or a record. */
static void choose(size_t limit, size_t *at, size_t *length)
{
	static const size_t grain[] = {1, 1, 512, 4096, 65536, 131072};

	*at = any(limit);
	*length = 1 + any(any(2) ? PIECE_MAX : 5000);
	*at -= *at % grain[any(6)];
	if (any(4) == 0)
		*length += 4096 - *length % 4096;
	if (*length > limit - *at)
		*length = limit - *at;
}

static void compare(const uint8_t *found, size_t at, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (found[i] != shadow[at + i])
			wrong("offset %zu holds %02x, not %02x", at + i, found[i], shadow[at + i]);
}

static void fill(uint8_t *to, size_t length)
{
	for (size_t i = 0; i < length; i++)
		to[i] = (uint8_t)(i % 8 ? i + step : any(256));
}

static void grown(size_t end)
{
	if (end > size)
		size = end;
}

static void do_read(void)
{
	size_t at, length;
	ssize_t n;

	if (!size)
		return;
	choose(size, &at, &length);
	note("read %zu+%zu", at, length);
	n = pread(fd, buffer, length, (off_t)at);
	if (n != (ssize_t)length)
		wrong("read %zd bytes of %zu", n, length);
	compare(buffer, at, length);
}

static void do_write(void)
{
	size_t at, length;

	choose(FILE_MAX, &at, &length);
	note("write %zu+%zu", at, length);
	fill(shadow + at, length);
	if (pwrite(fd, shadow + at, length, (off_t)at) != (ssize_t)length)
		wrong("write");
	grown(at + length);
}

static uint8_t *map(size_t length, int protection)
{
	void *at = mmap(NULL, length, protection, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		wrong("mmap");
	return at;
}

static void do_map_read(void)
{
	size_t at, length;

	if (!size)
		return;
	choose(size, &at, &length);
	note("map read %zu+%zu", at, length);
	uint8_t *mapped = map(size, PROT_READ);
	compare(mapped + at, at, length);
	munmap(mapped, size);
}

static void do_map_write(void)
{
	size_t at, length;

	if (!size)
		return;
	choose(size, &at, &length);
	note("map write %zu+%zu", at, length);
	uint8_t *mapped = map(size, PROT_READ | PROT_WRITE);
	fill(shadow + at, length);
	memcpy(mapped + at, shadow + at, length);
	if (any(2) && msync(mapped, size, MS_SYNC) != 0)
		wrong("msync");
	munmap(mapped, size);
}

static void do_truncate(void)
{
	size_t to = any(8) ? any(FILE_MAX) : 0;

	note("truncate %zu to %zu", size, to);
	if (any(2) ? ftruncate(fd, (off_t)to) : truncate(path, (off_t)to))
		wrong("truncate");
	if (to < size)
		memset(shadow + to, 0, size - to);
	size = to;
}

/* Before version 4.2 there is neither. */
static void do_allocate(int mode)
{
	size_t at, length;

	choose(FILE_MAX, &at, &length);
	note("fallocate mode %d, %zu+%zu", mode, at, length);
	if (fallocate(fd, mode, (off_t)at, (off_t)length) != 0) {
		if (errno != EOPNOTSUPP)
			wrong("fallocate");
		return;
	}
	if (!mode)
		grown(at + length);
	else if (at < size)
		memset(shadow + at, 0, at + length < size ? length : size - at);
}

static void do_copy(void)
{
	size_t from, to, length;
	loff_t in, out;

	if (!size)
		return;
	choose(size, &from, &length);
	to = any(FILE_MAX - length + 1);
	if (from < to + length && to < from + length)
		return;
	note("copy %zu+%zu to %zu", from, length, to);
	for (size_t done = 0; done < length;) {
		in = (loff_t)(from + done);
		out = (loff_t)(to + done);
		ssize_t n = copy_file_range(fd, &in, fd, &out, length - done, 0);
		if (n <= 0)
			wrong("copy_file_range said %zd", n);
		done += (size_t)n;
	}
	memcpy(shadow + to, shadow + from, length);
	grown(to + length);
}

static void do_sync(void)
{
	note("fsync");
	if (fsync(fd) != 0)
		wrong("fsync");
}

static void reopen(int flags)
{
	if (fd >= 0 && close(fd) != 0)
		wrong("close");
	fd = open(path, O_RDWR | flags, 0644);
	if (fd < 0)
		wrong("open");
}

/* Sometimes nothing that the client still knows may help. */
static void do_reopen(void)
{
	bool forget = any(2);

	note("open again%s", forget ? ", nothing cached" : "");
	reopen(0);
	if (forget && (fsync(fd) != 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0))
		wrong("forget");
}

static void check_all(void)
{
	struct stat st;

	note("compare all");
	if (fstat(fd, &st) != 0 || (size_t)st.st_size != size)
		wrong("the size is %lld", (long long)st.st_size);
	if (pread(fd, buffer, FILE_MAX, 0) != (ssize_t)size)
		wrong("read of all");
	compare(buffer, 0, size);
}

static void operate(void)
{
	switch (any(16)) {
	case 0 ... 3:
		do_read();
		break;
	case 4 ... 7:
		do_write();
		break;
	case 8:
		do_map_read();
		break;
	case 9:
		do_map_write();
		break;
	case 10:
		do_truncate();
		break;
	case 11:
		do_allocate(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
		break;
	case 12:
		do_allocate(0);
		break;
	case 13:
		do_copy();
		break;
	case 14:
		do_sync();
		break;
	default:
		do_reopen();
	}
}

int main(int argc, char **argv)
{
	unsigned long operations;

	if (argc != 4)
		errx(2, "usage: fsx FILE OPERATIONS SEED");
	path = argv[1];
	operations = strtoul(argv[2], NULL, 0);
	seed = strtoull(argv[3], NULL, 0) * 2654435761u + 1;
	fd = -1;
	reopen(O_CREAT | O_TRUNC);
	for (step = 0; step < operations; step++) {
		operate();
		if (step % 100 == 99)
			check_all();
	}
	reopen(0);
	check_all();
	return 0;
}
