// SPDX-License-Identifier: LGPL-3.0-or-later
#include "api/scan.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define DEFAULT_DIR "/dev/disk/by-id"

static bool known(const struct scan *scan, const struct stat *st)
{
	bool block = S_ISBLK(st->st_mode);

	for (size_t i = 0; i < scan->n; i++) {
		const struct scan_dev *d = &scan->devs[i];

		if (d->block == block &&
		    (block ? d->rdev_or_dev == st->st_rdev
			   : d->rdev_or_dev == st->st_dev && d->ino == st->st_ino))
			return true;
	}
	return false;
}

static uint64_t newest_txg(struct dev *dev, const struct label *label)
{
	struct uberblock *ring = malloc(UBER_RING * sizeof(*ring));
	uint64_t txg = 0;
	uint32_t n = 0;

	if (ring && !uber_read(dev, label_own(label)->size, label->pool_guid, ring, &n) && n)
		txg = ring[0].txg;
	free(ring);
	return txg;
}

static int add(struct scan *scan, const char *path, const struct stat *st, struct label *label,
	       uint64_t txg)
{
	struct scan_dev *d;

	if (scan->n == scan->room) {
		size_t room = scan->room ? 2 * scan->room : 16;

		d = realloc(scan->devs, room * sizeof(*d));
		if (!d)
			return -ENOMEM;
		scan->devs = d;
		scan->room = room;
	}
	d = &scan->devs[scan->n++];
	*d = (struct scan_dev){.block = S_ISBLK(st->st_mode),
			       .rdev_or_dev = S_ISBLK(st->st_mode) ? st->st_rdev : st->st_dev,
			       .ino = st->st_ino,
			       .newest_txg = txg,
			       .label = label};
	strcpy(d->path, path);
	return 0;
}

static int look_at(struct scan *scan, const char *path, const struct stat *st)
{
	struct label *label;
	struct dev *dev;
	int rc;

	if ((!S_ISREG(st->st_mode) && !S_ISBLK(st->st_mode)) || known(scan, st) ||
	    strlen(path) > TARN_DEV_PATH_MAX ||
	    (S_ISREG(st->st_mode) && st->st_size < 2 * (off_t)LABEL_AREA))
		return 0;
	rc = dev_open(path, DEV_OPEN_RDONLY, &dev);
	if (rc)
		return scan_shortage(rc) ? rc : 0;
	label = dev_buf_alloc(sizeof(*label));
	rc = label ? label_read(dev, label) : -ENOMEM;
	/* The last partition of a disk may show the disk's own back label. */
	if (!rc && label_own(label)->size > dev->geo.size)
		rc = -ENOENT;
	if (!rc)
		rc = add(scan, path, st, label, newest_txg(dev, label));
	if (rc)
		free(label);
	dev_close(dev);
	return scan_shortage(rc) ? rc : 0;
}

static int look_into(struct scan *scan, const char *dir)
{
	struct dirent **names;
	int n = scandir(dir, &names, NULL, alphasort), rc = 0;

	if (n < 0)
		return -errno;
	for (int i = 0; i < n; i++) {
		char path[TARN_PATH_MAX];
		struct stat st;

		if (!rc &&
		    (size_t)snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name) <
			sizeof(path) &&
		    !stat(path, &st))
			rc = look_at(scan, path, &st);
		free(names[i]);
	}
	free(names);
	return rc;
}

static int look(struct scan *scan, const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return -errno;
	return S_ISDIR(st.st_mode) ? look_into(scan, path) : look_at(scan, path, &st);
}

int scan_paths(const char *const *paths, uint32_t npaths, struct scan *out)
{
	static const char *const by_id = DEFAULT_DIR;
	int first = 0;

	memset(out, 0, sizeof(*out));
	if (!npaths) {
		paths = &by_id;
		npaths = 1;
	}
	for (uint32_t i = 0; i < npaths; i++) {
		int rc = look(out, paths[i]);

		first = first && !scan_shortage(rc) ? first : rc;
	}
	/* A device that is not there may be a mirror's; and no disks at all is no error. */
	if (scan_shortage(first) || (first && !out->n && paths != &by_id)) {
		scan_free(out);
		return first;
	}
	return 0;
}

void scan_free(struct scan *scan)
{
	for (size_t i = 0; i < scan->n; i++)
		free(scan->devs[i].label);
	free(scan->devs);
	memset(scan, 0, sizeof(*scan));
}

const struct label *scan_best(const struct scan *scan, uint64_t guid)
{
	const struct label *best = NULL;

	for (size_t i = 0; i < scan->n; i++) {
		const struct label *label = scan->devs[i].label;

		if (label->pool_guid == guid && (!best || label_compare(label, best) > 0))
			best = label;
	}
	return best;
}
