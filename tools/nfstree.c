// SPDX-License-Identifier: LGPL-3.0-or-later
//
// nfstree put DIR URL    copies the folder DIR to the new folder URL of an NFS server
// nfstree get URL DIR    copies the folder URL of an NFS server to the new folder DIR
//
// For the quickstart, on machines whose kernel has no NFS client. Directories, regular
// files, symbolic links and modes, through libnfs and NFSv3; URL is nfs://SERVER/EXPORT/PATH.
// The first error ends it.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <nfsc/libnfs.h>

static struct nfs_context *nfs;
static char buffer[256 * 1024];

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("nfstree: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

/* Results of libnfs calls on a path. */
static int check(int result, const char *path)
{
	if (result < 0)
		fail("%s on the server: %s", path, nfs_get_error(nfs));
	return result;
}

static int check_local(int result, const char *path)
{
	if (result < 0)
		fail("%s: %s", path, strerror(errno));
	return result;
}

static void join(char out[PATH_MAX], const char *dir, const char *name)
{
	if (snprintf(out, PATH_MAX, "%s/%s", dir, name) >= PATH_MAX)
		fail("%s/%s: path too long", dir, name);
}

static bool is_dot(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static void put_file(const char *from, const char *to, mode_t mode)
{
	struct nfsfh *file;
	ssize_t got;
	int fd = check_local(open(from, O_RDONLY | O_CLOEXEC), from);

	check(nfs_create(nfs, to, O_WRONLY, (int)mode, &file), to);
	while ((got = check_local((int)read(fd, buffer, sizeof(buffer)), from)) > 0) {
		for (ssize_t done = 0; done < got;)
			done +=
			    check(nfs_write(nfs, file, (uint64_t)(got - done), buffer + done), to);
	}
	check(nfs_fsync(nfs, file), to);
	check(nfs_close(nfs, file), to);
	close(fd);
}

static void put(const char *from, const char *to)
{
	char below[PATH_MAX], above[PATH_MAX];
	struct stat st;
	ssize_t length;

	check_local(lstat(from, &st), from);
	switch (st.st_mode & S_IFMT) {
	case S_IFREG:
		put_file(from, to, st.st_mode & 07777);
		return;
	case S_IFLNK:
		length = check_local((int)readlink(from, buffer, sizeof(buffer) - 1), from);
		buffer[length] = '\0';
		check(nfs_symlink(nfs, buffer, to), to);
		return;
	case S_IFDIR:
		break;
	default:
		fail("%s is neither file, folder nor symbolic link", from);
	}

	check(nfs_mkdir2(nfs, to, st.st_mode & 07777), to);
	DIR *dir = opendir(from);
	if (!dir)
		fail("%s: %s", from, strerror(errno));
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (is_dot(entry->d_name))
			continue;
		join(below, from, entry->d_name);
		join(above, to, entry->d_name);
		put(below, above);
	}
	closedir(dir);
}

static void get_file(const char *from, const char *to, mode_t mode)
{
	struct nfsfh *file;
	int got;
	int fd = check_local(open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode), to);

	check(nfs_open(nfs, from, O_RDONLY, &file), from);
	while ((got = check(nfs_read(nfs, file, sizeof(buffer), buffer), from)) > 0) {
		for (int done = 0; done < got;)
			done +=
			    check_local((int)write(fd, buffer + done, (size_t)(got - done)), to);
	}
	check(nfs_close(nfs, file), from);
	check_local(close(fd), to);
}

static void get(const char *from, const char *to)
{
	char above[PATH_MAX], below[PATH_MAX];
	struct nfs_stat_64 st;
	struct nfsdir *dir;

	check(nfs_lstat64(nfs, from, &st), from);
	switch (st.nfs_mode & S_IFMT) {
	case S_IFREG:
		get_file(from, to, st.nfs_mode & 07777);
		return;
	case S_IFLNK:
		check(nfs_readlink(nfs, from, buffer, sizeof(buffer)), from);
		check_local(symlink(buffer, to), to);
		return;
	case S_IFDIR:
		break;
	default:
		fail("%s on the server is neither file, folder nor symbolic link", from);
	}

	check_local(mkdir(to, st.nfs_mode & 07777), to);
	check(nfs_opendir(nfs, from, &dir), from);
	for (struct nfsdirent *entry; (entry = nfs_readdir(nfs, dir));) {
		if (is_dot(entry->name))
			continue;
		join(above, from, entry->name);
		join(below, to, entry->name);
		get(above, below);
	}
	nfs_closedir(nfs, dir);
}

/* Mounts the first component of the URL's path, an export; returns the path below it. */
static char *mount_url(const char *text)
{
	nfs = nfs_init_context();
	struct nfs_url *url = nfs ? nfs_parse_url_dir(nfs, text) : NULL;
	if (!url)
		fail("%s: no URL of the form nfs://SERVER/EXPORT/PATH", text);

	char *rest = strchr(url->path + 1, '/');
	char *below = strdup(rest ? rest : "/");
	if (!below)
		fail("no memory");
	if (rest)
		*rest = '\0';
	if (nfs_mount(nfs, url->server, url->path) < 0)
		fail("mounting %s: %s", text, nfs_get_error(nfs));
	nfs_destroy_url(url);
	return below;
}

int main(int argc, char **argv)
{
	umask(0);
	if (argc == 4 && strcmp(argv[1], "put") == 0) {
		char *path = mount_url(argv[3]);
		put(argv[2], path);
		free(path);
	} else if (argc == 4 && strcmp(argv[1], "get") == 0) {
		char *path = mount_url(argv[2]);
		get(path, argv[3]);
		free(path);
	} else {
		fputs("usage: nfstree put DIR URL\n       nfstree get URL DIR\n", stderr);
		return 2;
	}
	nfs_destroy_context(nfs);
	return 0;
}
