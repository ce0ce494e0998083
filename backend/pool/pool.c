// SPDX-License-Identifier: LGPL-3.0-or-later
/* The small things that all of pool/ needs of the pool object. */
#include "pool/pool.h"

#include <ctype.h>
#include <stdio.h>

void pool_log(struct pool *pool, enum tarn_log_level level, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	int n;

	if (!pool->config->log)
		return;
	n = snprintf(text, sizeof(text), "pool %s: ", pool->name);
	va_start(ap, fmt);
	vsnprintf(text + n, sizeof(text) - n, fmt, ap);
	va_end(ap);
	pool->config->log(level, text);
}

bool pool_dev_usable(const struct pool_dev *dev)
{
	enum tarn_dev_state state = atomic_load(&dev->state);

	return state == TARN_DEV_ONLINE || state == TARN_DEV_DEGRADED;
}

bool pool_dev_leave(struct pool_dev *dev, enum tarn_dev_state state)
{
	enum tarn_dev_state was = atomic_load(&dev->state);

	do {
		if (was == TARN_DEV_FAULTED || was == TARN_DEV_MISSING || was == TARN_DEV_OFFLINE)
			return false;
	} while (!atomic_compare_exchange_weak(&dev->state, &was, state));
	return true;
}

void pool_dev_faulted(struct pool *pool, const struct pool_dev *dev, const char *what, int error)
{
	pool_log(pool, TARN_LOG_ERROR, "device %s is taken out of use: %s failed: %s", dev->path,
		 what, strerror(-error));
}

void pool_dev_fault(struct pool *pool, struct pool_dev *dev, const char *what, int error)
{
	if (pool_dev_leave(dev, TARN_DEV_FAULTED))
		pool_dev_faulted(pool, dev, what, error);
}

/* ---- kinds of groups ---- */

unsigned pool_kind_parity(enum tarn_group_kind kind)
{
	return kind < TARN_GROUP_RAIDZ1 ? 0 : kind - TARN_GROUP_RAIDZ1 + 1;
}

bool pool_kind_fits(enum tarn_group_kind kind, uint32_t ndevs)
{
	if (kind == TARN_GROUP_SINGLE)
		return ndevs == 1;
	if (kind == TARN_GROUP_MIRROR)
		return ndevs >= 2 && ndevs <= POOL_MIRROR_MAX;
	return ndevs > pool_kind_parity(kind) && ndevs <= POOL_RAIDZ_MAX;
}

uint32_t pool_kind_needs(enum tarn_group_kind kind, uint32_t ndevs)
{
	return kind < TARN_GROUP_RAIDZ1 ? 1 : ndevs - pool_kind_parity(kind);
}

bool pool_group_usable(const struct pool *pool, uint32_t group, const struct pool_dev *without)
{
	const struct pool_group *g = &pool->groups[group];
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->ndevs; i++) {
		const struct pool_dev *dev = &pool->devs[g->first_dev + i];

		n += dev != without && pool_dev_usable(dev);
	}
	return n >= pool_kind_needs(g->kind, g->ndevs);
}

bool pool_groups_usable(const struct pool *pool)
{
	uint32_t ngroups = __atomic_load_n(&pool->ngroups, __ATOMIC_ACQUIRE);

	for (uint32_t g = 0; g < ngroups; g++) {
		if (!pool_group_usable(pool, g, NULL))
			return false;
	}
	return true;
}

/* ---- names ---- */

static bool reserved(const char *name)
{
	static const char *const prefixes[] = {"mirror", "raidz", "draid", "spare"};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++) {
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	}
	return strcmp(name, "log") == 0 || strcmp(name, "cache") == 0;
}

const char *pool_name_problem(const char *name)
{
	if (!isalpha((unsigned char)name[0]))
		return "it must begin with a letter";
	if (strnlen(name, TARN_POOL_NAME_MAX + 1) > TARN_POOL_NAME_MAX)
		return "it is longer than 63 characters";
	for (const char *c = name; *c; c++) {
		if (!isalnum((unsigned char)*c) && !strchr("_.:-", *c))
			return "only letters, digits and _ . : - may be used";
	}
	if (reserved(name))
		return "it begins with a word of the command line (mirror, raidz, draid, spare) or "
		       "is one (log, cache)";
	return NULL;
}
