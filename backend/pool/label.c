// SPDX-License-Identifier: LGPL-3.0-or-later
#include "pool/label.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "pool/devio.h"
#include "pool/slab.h"

/* ---- formats ---- */

static bool terminated(const char *s, size_t room)
{
	return memchr(s, '\0', room) != NULL;
}

static bool groups_good(const struct label *label)
{
	uint32_t next = 0;

	if (label->ngroups < 1 || label->ngroups > POOL_GROUPS_MAX || label->ndevs < 1 ||
	    label->ndevs > POOL_DEVS_MAX)
		return false;
	for (uint32_t g = 0; g < label->ngroups; g++) {
		const struct label_group *group = &label->groups[g];

		if (group->kind >= TARN_GROUP_KINDS || !pool_kind_fits(group->kind, group->ndevs) ||
		    group->first_dev != next || group->slab_shift < SLAB_SHIFT_MIN ||
		    group->slab_shift > SLAB_SHIFT_MAX)
			return false;
		next += group->ndevs;
	}
	return next == label->ndevs;
}

static bool dev_good(const struct label_dev *dev, uint32_t slab_shift)
{
	uint64_t table = 2 * (uint64_t)dev->table_pages * SECTOR_SIZE;

	return dev->guid && terminated(dev->path, sizeof(dev->path)) &&
	       !(dev->flags & ~LABEL_DEV_OFFLINE) && dev->size % LABEL_AREA == 0 &&
	       dev->size <= INT64_MAX && dev->slab_count &&
	       (uint64_t)dev->table_pages * SLAB_PAGE_ENTRIES >= dev->slab_count &&
	       dev->slab_start % LABEL_AREA == 0 && dev->slab_start >= LABEL_AREA + table &&
	       dev->slab_start < dev->size &&
	       ((uint64_t)dev->slab_count << slab_shift) + LABEL_AREA <=
		   dev->size - dev->slab_start;
}

/* Room for a log of a mebibyte at least; no slabs. */
static bool log_dev_good(const struct label_dev *dev)
{
	return dev->guid && terminated(dev->path, sizeof(dev->path)) &&
	       dev->size % LABEL_AREA == 0 && dev->size <= INT64_MAX &&
	       dev->size >= 3 * (uint64_t)LABEL_AREA && !dev->slab_start && !dev->slab_count &&
	       !dev->table_pages && !dev->flags;
}

static bool logs_good(const struct label *label)
{
	uint32_t next = 0;

	if (label->nlogs > POOL_LOGS_MAX)
		return false;
	for (uint32_t g = 0; g < label->nlogs; g++) {
		const struct label_group *log = &label->logs[g];
		bool count_good = log->kind == TARN_GROUP_SINGLE
				      ? log->ndevs == 1
				      : log->ndevs >= 2 && log->ndevs <= POOL_MIRROR_MAX;

		if (log->kind > TARN_GROUP_MIRROR || !count_good || log->first_dev != next ||
		    log->slab_shift || log->ndevs > POOL_LOG_DEVS_MAX - next)
			return false;
		for (uint32_t i = 0; i < log->ndevs; i++) {
			if (!log_dev_good(&label->log_devs[next + i]))
				return false;
		}
		next += log->ndevs;
	}
	return true;
}

uint32_t label_log_devs(const struct label *label)
{
	const struct label_group *last;

	if (!label->nlogs)
		return 0;
	last = &label->logs[label->nlogs - 1];
	return last->first_dev + (uint32_t)last->ndevs;
}

/* Data devices, then log devices. */
static const struct label_dev *any_dev(const struct label *label, uint32_t i)
{
	return i < label->ndevs ? &label->devs[i] : &label->log_devs[i - label->ndevs];
}

const struct label_dev *label_own(const struct label *label)
{
	uint32_t i = 0;

	while (any_dev(label, i)->guid != label->dev_guid) /* label_validate() has seen it */
		i++;
	return any_dev(label, i);
}

static bool devs_good(const struct label *label)
{
	uint32_t n = label->ndevs + label_log_devs(label);
	bool own = false;

	for (uint32_t g = 0; g < label->ngroups; g++) {
		const struct label_group *group = &label->groups[g];

		for (uint32_t i = 0; i < group->ndevs; i++) {
			if (!dev_good(&label->devs[group->first_dev + i], group->slab_shift))
				return false;
		}
	}
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t j = 0; j < i; j++) {
			if (any_dev(label, i)->guid == any_dev(label, j)->guid)
				return false;
		}
		own |= any_dev(label, i)->guid == label->dev_guid;
	}
	return own;
}

int label_validate(const struct label *label)
{
	int rc = disk_check(&label->head, LABEL_MAGIC, sizeof(*label));

	if (rc)
		return rc;
	if (label->features & ~POOL_FEATURES)
		return -ENOTSUP;
	if (!label->pool_guid || !label->import_counter ||
	    label->import_counter > FORMAT_IMPORT_MAX || label->seq > FORMAT_NUMBER_MAX ||
	    label->txg > FORMAT_NUMBER_MAX ||
	    (label->state != LABEL_ACTIVE && label->state != LABEL_EXPORTED) ||
	    !terminated(label->name, sizeof(label->name)) ||
	    !terminated(label->host, sizeof(label->host)) || pool_name_problem(label->name) ||
	    !groups_good(label) || !logs_good(label) || !devs_good(label))
		return -EIO;
	return 0;
}

int uber_validate(const struct uberblock *uber, uint64_t pool_guid)
{
	int rc = disk_check(&uber->head, UBER_MAGIC, sizeof(*uber));

	if (rc)
		return rc;
	if (uber->pool_guid != pool_guid)
		return -ENOENT; /* left by an older pool */
	if (uber->features & ~POOL_FEATURES)
		return -ENOTSUP;
	if (!uber->txg || uber->txg > FORMAT_NUMBER_MAX || !uber->import_counter ||
	    uber->import_counter > FORMAT_IMPORT_MAX || !uber->next_chunk ||
	    uber->next_chunk > FORMAT_NUMBER_MAX || !uber->generation ||
	    uber->generation > FORMAT_NUMBER_MAX || uber->alog_tail > uber->txg ||
	    bp_is_hole(&uber->root) || !bp_valid(&uber->root, uber->txg) ||
	    uber->root.type != BP_NODE ||
	    (!bp_is_hole(&uber->alog) &&
	     (!bp_valid(&uber->alog, uber->txg) || uber->alog.type != BP_ALLOC_LOG)))
		return -EIO;
	return 0;
}

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

int uber_compare(const struct uberblock *a, const struct uberblock *b)
{
	int c = compare(a->import_counter, b->import_counter);

	return c ? c : compare(a->txg, b->txg);
}

int label_compare(const struct label *a, const struct label *b)
{
	int c = compare(a->import_counter, b->import_counter);

	return c ? c : compare(a->seq, b->seq);
}

/* ---- one device ---- */

static uint64_t back_area(uint64_t size)
{
	return size / LABEL_AREA * LABEL_AREA - LABEL_AREA;
}

static int read_one(struct dev *dev, uint64_t area, struct label *out)
{
	int rc = dev_read(dev, area + LABEL_OFFSET, out, sizeof(*out));

	return rc ? -EIO : label_validate(out);
}

/* Of two failures the one that says more. */
static int worse(int a, int b)
{
	if (a == -ENOTSUP || b == -ENOTSUP)
		return -ENOTSUP;
	return a == -EIO || b == -EIO ? -EIO : -ENOENT;
}

int label_read(struct dev *dev, struct label *out)
{
	struct label *back;
	int front_rc, back_rc;

	if (dev->geo.size < 2 * LABEL_AREA)
		return -ENOENT;
	back = dev_buf_alloc(2 * sizeof(*back));
	if (!back)
		return -ENOMEM;
	struct label *front = back + 1;
	front_rc = read_one(dev, 0, front);
	/* A device may have grown since; the front label knows where the back one is. */
	uint64_t size = front_rc ? dev->geo.size : label_own(front)->size;
	back_rc = read_one(dev, back_area(size), back);
	if (!front_rc && (back_rc || back->pool_guid != front->pool_guid ||
			  back->dev_guid != front->dev_guid || label_compare(front, back) >= 0))
		memcpy(out, front, sizeof(*out));
	else if (!back_rc)
		memcpy(out, back, sizeof(*out));
	free(back);
	return !front_rc || !back_rc ? 0 : worse(front_rc, back_rc);
}

/* A ring; sectors that cannot be read are zeros. */
static void read_ring(struct dev *dev, uint64_t area, struct uberblock *ring)
{
	if (!dev_read(dev, area + UBER_OFFSET, ring, UBER_SLOTS * sizeof(*ring)))
		return;
	for (uint32_t i = 0; i < UBER_SLOTS; i++) {
		if (dev_read(dev, area + UBER_OFFSET + i * sizeof(*ring), &ring[i], sizeof(*ring)))
			memset(&ring[i], 0, sizeof(*ring));
	}
}

static int newest_first(const void *a, const void *b)
{
	return uber_compare(b, a);
}

int uber_read(struct dev *dev, uint64_t size, uint64_t pool_guid, struct uberblock *out,
	      uint32_t *count)
{
	struct uberblock *ring = dev_buf_alloc(UBER_RING * sizeof(*ring));
	uint32_t n = 0, unique = 0;
	int rc = 0;

	if (!ring)
		return -ENOMEM;
	read_ring(dev, 0, ring);
	read_ring(dev, back_area(size), ring + UBER_SLOTS);
	for (uint32_t i = 0; i < UBER_RING; i++) {
		int valid = uber_validate(&ring[i], pool_guid);

		if (!valid)
			out[n++] = ring[i];
		else if (valid == -ENOTSUP)
			rc = -ENOTSUP;
	}
	free(ring);
	qsort(out, n, sizeof(*out), newest_first);
	for (uint32_t i = 0; i < n; i++) {
		if (!unique || uber_compare(&out[unique - 1], &out[i]) != 0)
			out[unique++] = out[i];
	}
	*count = unique;
	return rc;
}

int label_wipe(struct dev *dev, uint64_t size)
{
	size_t length = LABEL_AREA - LABEL_OFFSET;
	uint64_t areas[2] = {0, back_area(size)};
	void *zeros = dev_buf_alloc(length);
	int rc = 0;

	if (!zeros)
		return -ENOMEM;
	memset(zeros, 0, length);
	for (int i = 0; i < 2; i++) {
		int failed = dev_write(dev, areas[i] + LABEL_OFFSET, zeros, length);

		rc = rc ? rc : failed;
	}
	free(zeros);
	return rc ? rc : dev_flush(dev);
}

/* ---- the devices of a pool ---- */

#define ALL_DEVS_MAX (POOL_DEVS_MAX + POOL_LOG_DEVS_MAX)

/* Devices to be written to. */
struct targets {
	struct pool_dev *devs[ALL_DEVS_MAX];
	uint32_t n;
};

static void keep_usable(struct targets *t)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		if (pool_dev_usable(t->devs[i]))
			t->devs[n++] = t->devs[i];
	}
	t->n = n;
}

/* Those that hold data. */
static void usable(struct pool *pool, struct targets *out)
{
	uint32_t ndevs = __atomic_load_n(&pool->ndevs, __ATOMIC_ACQUIRE);

	out->n = 0;
	for (uint32_t i = 0; i < ndevs; i++)
		out->devs[out->n++] = &pool->devs[i];
	keep_usable(out);
}

static void copy_text(char *to, size_t room, const char *from)
{
	size_t n = strnlen(from, room - 1);

	memcpy(to, from, n);
	memset(to + n, 0, room - n);
}

static void fill_dev(const struct pool_dev *dev, struct label_dev *out)
{
	*out = (struct label_dev){.guid = dev->guid,
				  .size = dev->size,
				  .slab_start = dev->slab_start,
				  .slab_count = dev->slab_count,
				  .table_pages = dev->table_pages,
				  .flags = dev->offline ? LABEL_DEV_OFFLINE : 0};
	copy_text(out->path, sizeof(out->path), dev->path);
}

static void fill_logs(const struct label_layout *layout, struct label *label)
{
	uint16_t next = 0;

	label->nlogs = layout->nlogs;
	for (uint32_t g = 0; g < layout->nlogs; g++) {
		const struct log_group *log = layout->logs[g];

		label->logs[g] = (struct label_group){
		    .kind = log->kind, .first_dev = next, .ndevs = (uint16_t)log->ndevs};
		for (uint32_t i = 0; i < log->ndevs; i++)
			fill_dev(&log->devs[i], &label->log_devs[next++]);
	}
}

static void fill_layout(const struct pool *pool, const struct label_layout *layout,
			struct label *label)
{
	label->ngroups = layout->ngroups;
	label->ndevs = layout->ndevs;
	for (uint32_t g = 0; g < layout->ngroups; g++) {
		const struct pool_group *group = &pool->groups[g];

		label->groups[g] = (struct label_group){.kind = group->kind,
							.slab_shift = group->slab_shift,
							.first_dev = group->first_dev,
							.ndevs = group->ndevs};
	}
	for (uint32_t i = 0; i < layout->ndevs; i++)
		fill_dev(&pool->devs[i], &label->devs[i]);
	fill_logs(layout, label);
}

/* The uberblock itself is the sync thread's, once that runs. */
static uint64_t last_txg(struct pool *pool)
{
	uint64_t committed = pool->txgs ? txg_committed(pool) : 0;

	return committed ? committed : pool->uber.txg;
}

static void fill_label(struct pool *pool, enum label_state state, const struct label_layout *layout,
		       struct label *label)
{
	memset(label, 0, sizeof(*label));
	label->pool_guid = pool->guid;
	label->import_counter = pool->import_counter;
	label->seq = ++pool->label_seq;
	label->txg = last_txg(pool);
	label->time = time(NULL);
	label->features = POOL_FEATURES;
	label->host_id = pool->config->host_id;
	label->state = state;
	copy_text(label->name, sizeof(label->name), pool->name);
	copy_text(label->host, sizeof(label->host), pool->config->host ? pool->config->host : "");
	fill_layout(pool, layout, label);
}

/* Runs ios[], each for the device that it names; faults those that failed. */
static void run(struct pool *pool, struct devio *ios, struct pool_dev *const *devs, uint32_t n,
		const char *what)
{
	devio_run(ios, n);
	for (uint32_t i = 0; i < n; i++) {
		if (!ios[i].io.result || !pool_may_write(pool)) /* fenced: not its fault */
			continue;
		atomic_fetch_add(&devs[i]->write_errors, 1);
		pool_dev_fault(pool, devs[i], what, ios[i].io.result);
	}
}

static void flush(struct pool *pool, struct targets *t)
{
	struct devio ios[ALL_DEVS_MAX];

	keep_usable(t);
	for (uint32_t i = 0; i < t->n; i++)
		ios[i] = devio(t->devs[i]->dev, DEV_FLUSH, 0, NULL, 0);
	run(pool, ios, t->devs, t->n, "flush");
}

/* Writes the label, with each one's GUID, to one area of devices, then flushes them. */
static void write_areas(struct pool *pool, bool back, struct targets *t, struct label *copies)
{
	struct devio ios[ALL_DEVS_MAX];

	keep_usable(t);
	for (uint32_t i = 0; i < t->n; i++) {
		uint64_t area = back ? back_area(t->devs[i]->size) : 0;

		copies[i].dev_guid = t->devs[i]->guid;
		disk_seal(&copies[i].head, LABEL_MAGIC, sizeof(*copies));
		ios[i] = devio(t->devs[i]->dev, DEV_WRITE, area + LABEL_OFFSET, &copies[i],
			       sizeof(*copies));
	}
	run(pool, ios, t->devs, t->n, "writing a label");
	flush(pool, t);
}

void label_layout(const struct pool *pool, struct label_layout *out)
{
	*out = (struct label_layout){
	    .ngroups = pool->ngroups, .ndevs = pool->ndevs, .nlogs = pool->nlogs};
	memcpy(out->logs, pool->logs, sizeof(out->logs));
}

static bool listed(const struct pool *pool, const struct log_group *log)
{
	for (uint32_t i = 0; i < pool->nlogs; i++) {
		if (pool->logs[i] == log)
			return true;
	}
	return false;
}

static void all_targets(struct pool *pool, const struct label_layout *layout, bool only_new,
			struct targets *out)
{
	out->n = 0;
	for (uint32_t i = only_new ? pool->ndevs : 0; i < layout->ndevs; i++)
		out->devs[out->n++] = &pool->devs[i];
	for (uint32_t g = 0; g < layout->nlogs; g++) {
		struct log_group *log = layout->logs[g];

		for (uint32_t i = 0; i < log->ndevs && !(only_new && listed(pool, log)); i++)
			out->devs[out->n++] = &log->devs[i];
	}
	keep_usable(out);
}

int label_write_layout(struct pool *pool, enum label_state state, const struct label_layout *layout,
		       bool only_new)
{
	struct label *copies;
	struct targets t;

	if (!pool_may_write(pool))
		return -EIO;
	all_targets(pool, layout, only_new, &t);
	if (!t.n)
		return 0;
	copies = dev_buf_alloc((uint64_t)t.n * sizeof(*copies));
	if (!copies)
		return -ENOMEM;
	fill_label(pool, state, layout, copies);
	for (uint32_t i = 1; i < t.n; i++)
		memcpy(&copies[i], copies, sizeof(*copies));
	write_areas(pool, false, &t, copies);
	write_areas(pool, true, &t, copies);
	free(copies);
	return 0;
}

int label_write_all(struct pool *pool, enum label_state state)
{
	struct label_layout layout;
	int rc;

	label_layout(pool, &layout);
	rc = label_write_layout(pool, state, &layout, false);
	if (rc)
		return rc;
	return pool_may_write(pool) && pool_groups_usable(pool) ? 0 : -EIO;
}

int uber_write_slot(struct pool *pool, struct uberblock *uber, uint64_t number)
{
	uint64_t slot = UBER_OFFSET + number % UBER_SLOTS * sizeof(*uber);
	struct pool_dev *devs[2 * POOL_DEVS_MAX];
	struct devio ios[2 * POOL_DEVS_MAX];
	struct uberblock *copy;
	struct targets t;

	if (!pool_may_write(pool))
		return -EIO;
	copy = dev_buf_alloc(sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	disk_seal(&uber->head, UBER_MAGIC, sizeof(*uber));
	memcpy(copy, uber, sizeof(*copy));
	usable(pool, &t);
	for (uint32_t i = 0; i < t.n; i++) {
		struct pool_dev *dev = t.devs[i];

		ios[i] = devio(dev->dev, DEV_WRITE, slot, copy, sizeof(*copy));
		ios[t.n + i] =
		    devio(dev->dev, DEV_WRITE, back_area(dev->size) + slot, copy, sizeof(*copy));
		devs[i] = devs[t.n + i] = dev;
	}
	run(pool, ios, devs, 2 * t.n, "writing an uberblock");
	free(copy);
	return pool_may_write(pool) && pool_groups_usable(pool) ? 0 : -EIO;
}

int uber_write_all(struct pool *pool, struct uberblock *uber)
{
	return uber_write_slot(pool, uber, uber->txg);
}

/* Takes from one area's ring what is newer, or valid where nothing was. */
static void merge_ring(const struct pool *pool, const struct uberblock *from,
		       struct uberblock *ring)
{
	for (uint32_t i = 0; i < UBER_SLOTS; i++) {
		if (uber_validate(&from[i], pool->guid) ||
		    (ring[i].txg && uber_compare(&from[i], &ring[i]) <= 0))
			continue;
		ring[i] = from[i];
	}
}

/* ring[0]: the newest of each slot that a usable device has, txg 0 where none has one; ring[1] is
   room for another one. */
static void gather_ring(struct pool *pool, struct uberblock ring[2][UBER_SLOTS])
{
	struct targets t;

	memset(ring[0], 0, sizeof(ring[0]));
	usable(pool, &t);
	for (uint32_t i = 0; i < t.n; i++) {
		read_ring(t.devs[i]->dev, 0, ring[1]);
		merge_ring(pool, ring[1], ring[0]);
		read_ring(t.devs[i]->dev, back_area(t.devs[i]->size), ring[1]);
		merge_ring(pool, ring[1], ring[0]);
	}
}

/* Writes what the device's areas lack of ring[0], one after the other: what was there stays in one
   of them. */
static int mend_ring(struct pool_dev *dev, struct uberblock ring[2][UBER_SLOTS])
{
	uint64_t areas[2] = {0, back_area(dev->size)};
	int rc = 0;

	for (int a = 0; a < 2 && !rc; a++) {
		bool lacks = false;

		read_ring(dev->dev, areas[a], ring[1]);
		for (uint32_t i = 0; i < UBER_SLOTS; i++) {
			if (!ring[0][i].txg ||
			    !memcmp(&ring[1][i], &ring[0][i], sizeof(ring[0][i])))
				continue;
			ring[1][i] = ring[0][i];
			lacks = true;
		}
		if (!lacks)
			continue;
		rc = dev_write(dev->dev, areas[a] + UBER_OFFSET, ring[1], sizeof(ring[1]));
		rc = rc ? rc : dev_flush(dev->dev);
	}
	return rc;
}

int uber_level(struct pool *pool, struct pool_dev *only)
{
	struct uberblock(*ring)[UBER_SLOTS] = dev_buf_alloc(2 * sizeof(*ring));
	struct targets t;
	int rc = ring ? 0 : -ENOMEM;

	if (rc)
		return rc;
	gather_ring(pool, ring);
	if (only)
		rc = mend_ring(only, ring);
	usable(pool, &t);
	for (uint32_t i = 0; i < t.n && !only; i++) {
		int failed = mend_ring(t.devs[i], ring);

		if (failed)
			pool_dev_fault(pool, t.devs[i], "writing uberblocks", failed);
	}
	free(ring);
	return rc;
}

int pool_flush_all(struct pool *pool)
{
	struct targets t;
	uint32_t before;

	usable(pool, &t);
	before = t.n;
	flush(pool, &t);
	if (!pool_groups_usable(pool))
		return -EIO;
	keep_usable(&t);
	return t.n == before ? 0 : -ESTALE;
}
