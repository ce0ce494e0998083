// SPDX-License-Identifier: LGPL-3.0-or-later
//
// old32 DIR COUNT: what a 32-bit program without large file support, as they were built twenty
// years ago, must be able to do in a directory of COUNT entries: list it, stat each, and ask for
// the space and inodes of the file system. Every number that does not fit makes the C library or
// the kernel fail with EOVERFLOW.
//
// It does not go back to places of the listing: a place is not the server's cookie but a count of
// the kernel, and that of Linux 6.1 starts anew within long directories.
#include <dirent.h>
#include <err.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

_Static_assert(sizeof(off_t) == 4 && sizeof(ino_t) == 4, "compile with gcc -m32");

static struct entry {
	ino_t ino;
	char name[NAME_MAX + 1];
} * entries;

/* The number of entries, . and .. among them. */
static int list(DIR *dir, int room)
{
	struct dirent *entry;
	int n = 0;
	long at;

	while (at = telldir(dir), entry = readdir(dir)) {
		if (n == room)
			errx(1, "%s is one entry too many", entry->d_name);
		if (at < 0)
			errx(1, "cookie %ld before %s", at, entry->d_name);
		entries[n].ino = entry->d_ino;
		strcpy(entries[n++].name, entry->d_name);
	}
	if (n != room)
		err(1, "%d entries, not %d", n, room);
	return n;
}

static void stat_all(int n)
{
	ino_t highest = 0;
	struct stat st;

	for (int i = 0; i < n; i++) {
		if (lstat(entries[i].name, &st) != 0)
			err(1, "stat %s", entries[i].name);
		if (st.st_ino != entries[i].ino && strcmp(entries[i].name, ".."))
			errx(1, "%s has inode %lu and %lu", entries[i].name, entries[i].ino,
			     st.st_ino);
		highest = st.st_ino > highest ? st.st_ino : highest;
	}
	printf("highest inode %lu\n", highest);
}

int main(int argc, char **argv)
{
	struct statvfs vfs;
	struct statfs fs;
	int n = argc == 3 ? atoi(argv[2]) + 2 : 0;
	DIR *dir;

	if (n <= 0 || !(entries = calloc(n, sizeof(*entries))))
		errx(2, "usage: old32 DIR COUNT");
	if (!(dir = opendir(argv[1])) || chdir(argv[1]) != 0)
		err(1, "%s", argv[1]);
	n = list(dir, n);
	stat_all(n);
	closedir(dir);
	if (statfs(".", &fs) != 0 || statvfs(".", &vfs) != 0)
		err(1, "statfs");
	/* Programs keep them in an int. */
	if (fs.f_files > INT_MAX || fs.f_ffree > fs.f_files || vfs.f_files != fs.f_files)
		errx(1, "%lu inodes, %lu free", (unsigned long)fs.f_files,
		     (unsigned long)fs.f_ffree);
	printf("used inodes %lu\n", (unsigned long)(fs.f_files - fs.f_ffree));
	return 0;
}
