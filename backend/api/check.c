// SPDX-License-Identifier: LGPL-3.0-or-later
#include "api/check.h"

#include <blkid/blkid.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/config.h"
#include "pool/label.h"
#include "util/error.h"

/* ---- shape ---- */

static int wrong_count(const struct tarn_group_spec *spec, struct tarn_error *err)
{
	if (spec->kind == TARN_GROUP_MIRROR)
		return fail(err, -EINVAL, "a mirror has 2 to %d devices, not %u", POOL_MIRROR_MAX,
			    spec->ndevs);
	return fail(err, -EINVAL, "a %s has %u to %d devices, not %u",
		    tarn_group_kind_name(spec->kind), pool_kind_parity(spec->kind) + 1,
		    POOL_RAIDZ_MAX, spec->ndevs);
}

static int check_shape(const struct tarn_group_spec *specs, uint32_t n,
		       const struct pool_group *like, struct tarn_error *err)
{
	uint32_t ndevs[] = {0, 0}, groups[] = {0, 0}; /* by class */

	if (n < 1)
		return fail(err, -EINVAL, "no devices were given");
	for (uint32_t g = 0; g < n && g <= POOL_GROUPS_MAX + POOL_LOGS_MAX; g++) {
		if (specs[g].kind == TARN_GROUP_SINGLE && specs[g].ndevs != 1)
			return fail(err, -EINVAL, "a single device stands for itself");
		if (!pool_kind_fits(specs[g].kind, specs[g].ndevs))
			return wrong_count(&specs[g], err);
		if (specs[g].class == TARN_CLASS_LOG && specs[g].kind > TARN_GROUP_MIRROR)
			return fail(err, -EINVAL, "log devices are single ones or mirrors");
		ndevs[specs[g].class] += specs[g].ndevs;
		groups[specs[g].class]++;
	}
	if (groups[TARN_CLASS_LOG] > POOL_LOGS_MAX || ndevs[TARN_CLASS_LOG] > POOL_LOG_DEVS_MAX)
		return fail(err, -E2BIG, "a pool has at most %d groups of %d log devices in all",
			    POOL_LOGS_MAX, POOL_LOG_DEVS_MAX);
	if (groups[TARN_CLASS_DATA] > POOL_GROUPS_MAX || ndevs[TARN_CLASS_DATA] > POOL_DEVS_MAX)
		return fail(err, -E2BIG, "a pool has at most %d groups and %d devices",
			    POOL_GROUPS_MAX, POOL_DEVS_MAX);
	if (!like && !groups[TARN_CLASS_DATA])
		return fail(err, -EINVAL, "no devices for data were given, only log devices");
	return 0;
}

static void put_redundancy(enum tarn_group_kind kind, uint32_t ndevs, char out[32])
{
	static const char *const texts[] = {"a single device", "a mirror of %u", "a raidz1 of %u",
					    "a raidz2 of %u", "a raidz3 of %u"};

	snprintf(out, 32, texts[kind], ndevs);
}

static int check_same_redundancy(const struct tarn_group_spec *specs, uint32_t n,
				 const struct pool_group *like, struct tarn_error *err)
{
	struct pool_group first = like ? *like : (struct pool_group){0};
	char one[32], other[32];

	for (uint32_t g = 0; g < n; g++) {
		if (specs[g].class == TARN_CLASS_LOG)
			continue;
		if (!first.ndevs)
			first = (struct pool_group){.kind = specs[g].kind, .ndevs = specs[g].ndevs};
		if (specs[g].kind == first.kind && specs[g].ndevs == first.ndevs)
			continue;
		put_redundancy(first.kind, first.ndevs, one);
		put_redundancy(specs[g].kind, specs[g].ndevs, other);
		return fail(err, -EINVAL,
			    "mixed redundancy: %s and %s in one pool; -f does it all the same", one,
			    other);
	}
	return 0;
}

/* ---- one device ---- */

static int check_path(const char *path, char out[TARN_DEV_PATH_MAX + 1], struct stat *st,
		      struct tarn_error *err)
{
	char *full = path[0] == '/' ? strdup(path) : realpath(path, NULL);
	int rc = 0;

	if (!full)
		return fail(err, -errno, "'%s': %s", path, strerror(errno));
	if (strlen(full) > TARN_DEV_PATH_MAX)
		rc = fail(err, -ENAMETOOLONG, "'%s' is longer than %d bytes", path,
			  TARN_DEV_PATH_MAX);
	else if (stat(full, st))
		rc = fail(err, -errno, "'%s': %s", path, strerror(errno));
	else if (!S_ISREG(st->st_mode) && !S_ISBLK(st->st_mode))
		rc = fail(err, -ENOTBLK, "'%s' is neither a block device nor a regular file", path);
	else
		strcpy(out, full);
	free(full);
	return rc;
}

static bool same_device(const struct stat *a, const struct stat *b)
{
	if (S_ISBLK(a->st_mode) && S_ISBLK(b->st_mode))
		return a->st_rdev == b->st_rdev;
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static int open_dev(const char *path, struct dev **out, struct tarn_error *err)
{
	int rc = dev_open(path, 0, out);

	if (rc == -EBUSY)
		return fail(err, rc,
			    "'%s' is in use: mounted, part of an array, or of an imported pool",
			    path);
	return rc ? fail(err, rc, "'%s' can't be opened: %s", path, strerror(-rc)) : 0;
}

static int check_geometry(const struct dev *dev, const char *path, struct tarn_error *err)
{
	if (dev->geo.physical > SECTOR_SIZE)
		return fail(err, -EINVAL, "'%s' has sectors of %u bytes; at most %u are supported",
			    path, dev->geo.physical, SECTOR_SIZE);
	if (dev->geo.size < POOL_DEV_MIN)
		return fail(err, -ENOSPC, "'%s' is too small: a device has at least %u MiB", path,
			    (unsigned)(POOL_DEV_MIN >> 20));
	return 0;
}

/* Our own labels; libblkid does not know them. */
static int check_label(struct dev *dev, const char *path, bool force, struct tarn_error *err)
{
	struct label *label = dev_buf_alloc(sizeof(*label));
	int rc = label ? label_read(dev, label) : -ENOMEM;

	if (rc == 0 && !force)
		rc =
		    fail(err, -EEXIST, "'%s' belongs to pool '%s' (%s, host %s); -f overwrites it",
			 path, label->name,
			 label->state == LABEL_EXPORTED ? "exported" : "not exported", label->host);
	else if ((rc == -EIO || rc == -ENOTSUP) && !force)
		rc = fail(err, -EEXIST,
			  "'%s' has a Tarn label that can't be read (%s); -f overwrites it", path,
			  rc == -EIO ? "damaged" : "of another format version");
	else if (rc == -ENOMEM)
		fail(err, rc, "out of memory");
	else
		rc = 0;
	free(label);
	return rc;
}

static blkid_probe new_probe(const char *path, int *fd)
{
	blkid_probe probe;

	*fd = open(path, O_RDWR | O_CLOEXEC);
	if (*fd < 0)
		return NULL;
	probe = blkid_new_probe();
	if (!probe || blkid_probe_set_device(probe, *fd, 0, 0)) {
		blkid_free_probe(probe);
		close(*fd);
		return NULL;
	}
	blkid_probe_enable_superblocks(probe, 1);
	blkid_probe_set_superblocks_flags(probe, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_MAGIC);
	blkid_probe_enable_partitions(probe, 1);
	blkid_probe_set_partitions_flags(probe, BLKID_PARTS_MAGIC);
	return probe;
}

/* File systems, partition tables, md, LVM, ZFS and the like. */
static int check_foreign(const char *path, bool force, bool *foreign, struct tarn_error *err)
{
	const char *what = "something";
	int fd, rc = 0;
	blkid_probe probe = new_probe(path, &fd);

	if (!probe)
		return fail(err, -EIO, "'%s' can't be examined for what is on it", path);
	switch (blkid_do_probe(probe)) {
	case 0:
		if (blkid_probe_lookup_value(probe, "TYPE", &what, NULL))
			blkid_probe_lookup_value(probe, "PTTYPE", &what, NULL);
		*foreign = true;
		if (!force)
			rc = fail(err, -EEXIST, "'%s' holds %s; -f overwrites it", path, what);
		break;
	case 1:
		break;
	default:
		rc = fail(err, -EIO, "'%s' can't be examined for what is on it", path);
	}
	blkid_free_probe(probe);
	close(fd);
	return rc;
}

static int check_dev(struct checked_groups *c, struct dev **dev, const char *path, int flags,
		     struct tarn_error *err)
{
	int rc = open_dev(path, dev, err);

	rc = rc ? rc : check_geometry(*dev, path, err);
	rc = rc ? rc : check_label(*dev, path, flags & TARN_FORCE, err);
	return rc ? rc : check_foreign(path, flags & TARN_FORCE, &c->foreign, err);
}

/* ---- all ---- */

static int check_paths(const struct tarn_group_spec *specs, struct checked_groups *c,
		       struct tarn_error *err)
{
	struct stat *stats = calloc(c->ndevs, sizeof(*stats));
	uint32_t n = 0;
	int rc = stats ? 0 : fail(err, -ENOMEM, "out of memory");

	for (uint32_t g = 0; g < c->ngroups && !rc; g++) {
		for (uint32_t i = 0; i < specs[g].ndevs && !rc; i++, n++) {
			rc = check_path(specs[g].paths[i], c->paths[n], &stats[n], err);
			for (uint32_t k = 0; k < n && !rc; k++) {
				if (same_device(&stats[k], &stats[n]))
					rc = fail(err, -EINVAL, "'%s' and '%s' are the same device",
						  c->paths[k], c->paths[n]);
			}
		}
	}
	free(stats);
	return rc;
}

static int allocate(const struct tarn_group_spec *specs, uint32_t n, struct checked_groups *c,
		    struct tarn_error *err)
{
	uint32_t at = 0;

	for (uint32_t g = 0; g < n; g++)
		c->ndevs += specs[g].ndevs;
	c->ngroups = n;
	c->groups = calloc(n, sizeof(*c->groups));
	c->devs = calloc(c->ndevs, sizeof(*c->devs));
	c->paths = calloc(c->ndevs, sizeof(*c->paths));
	if (!c->groups || !c->devs || !c->paths)
		return fail(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < c->ndevs; i++)
		c->devs[i].path = c->paths[i];
	for (uint32_t g = 0; g < n; at += specs[g++].ndevs)
		c->groups[g] = (struct pool_new_group){.kind = specs[g].kind,
						       .ndevs = specs[g].ndevs,
						       .devs = &c->devs[at],
						       .class = specs[g].class};
	return 0;
}

int check_groups(const struct tarn_group_spec *specs, uint32_t n, const struct pool_group *like,
		 int flags, struct checked_groups *out, struct tarn_error *err)
{
	int rc = check_shape(specs, n, like, err);

	memset(out, 0, sizeof(*out));
	if (!rc && !(flags & TARN_FORCE))
		rc = check_same_redundancy(specs, n, like, err);
	rc = rc ? rc : allocate(specs, n, out, err);
	rc = rc ? rc : check_paths(specs, out, err);
	for (uint32_t i = 0; i < out->ndevs && !rc; i++)
		rc = check_dev(out, &out->devs[i].dev, out->paths[i], flags, err);
	if (rc)
		checked_free(out, true);
	return rc;
}

/* Removes one signature after the other until none is found. */
static int wipe_foreign(const char *path)
{
	int fd, rc;
	blkid_probe probe = new_probe(path, &fd);

	if (!probe)
		return -EIO;
	while ((rc = blkid_do_probe(probe)) == 0) {
		if (blkid_do_wipe(probe, 0)) {
			rc = -1;
			break;
		}
	}
	if (rc == 1 && !fsync(fd))
		rc = 0;
	blkid_free_probe(probe);
	close(fd);
	return rc ? -EIO : 0;
}

int checked_wipe(struct checked_groups *c, struct tarn_error *err)
{
	for (uint32_t i = 0; i < c->ndevs && c->foreign; i++) {
		int rc = wipe_foreign(c->paths[i]);

		if (rc)
			return fail(err, rc, "the old signature on '%s' can't be removed",
				    c->paths[i]);
	}
	return 0;
}

void checked_free(struct checked_groups *c, bool close)
{
	for (uint32_t i = 0; i < c->ndevs && close && c->devs; i++)
		dev_close(c->devs[i].dev);
	free(c->groups);
	free(c->devs);
	free(c->paths);
	memset(c, 0, sizeof(*c));
}
