// SPDX-License-Identifier: LGPL-3.0-or-later
/* Looking for devices with Tarn labels. For api/ and check/; reads only, no state of its own. */
#ifndef TARN_API_SCAN_H
#define TARN_API_SCAN_H

#include <errno.h>

#include "pool/label.h"

struct scan_dev {
	char path[TARN_DEV_PATH_MAX + 1];
	uint64_t rdev_or_dev, ino; /* identity: one device may have many paths */
	bool block;
	uint64_t newest_txg; /* of its uberblocks */
	struct label *label;
};

struct scan {
	struct scan_dev *devs;
	size_t n, room;
};

/* What says that this process lacks something, not what is wrong with a device. */
static inline bool scan_shortage(int rc)
{
	return rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM || rc == -EAGAIN;
}

/* The given files, devices and directories' entries; with none, /dev/disk/by-id. What cannot be
   opened or has no label is left out. The first error of a given path, if nothing was found; always
   a shortage. */
int scan_paths(const char *const *paths, uint32_t npaths, struct scan *out);
void scan_free(struct scan *scan);

/* The newest label of a pool in the scan; NULL if there is none. */
const struct label *scan_best(const struct scan *scan, uint64_t guid);

#endif
