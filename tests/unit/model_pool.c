// SPDX-License-Identifier: LGPL-3.0-or-later
#include "model_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dev/sim.h"

/* The devices that dev_open() gives out; set while nobody calls it. */
static struct {
	const char *path;
	struct sim *sim;
} media[MODEL_DEVS];

int __real_dev_open(const char *path, int flags, struct dev **out);
int __wrap_dev_open(const char *path, int flags, struct dev **out);

int __wrap_dev_open(const char *path, int flags, struct dev **out)
{
	for (int i = 0; i < MODEL_DEVS; i++)
		if (media[i].path && !strcmp(media[i].path, path))
			return sim_open(media[i].sim, flags & DEV_OPEN_RDONLY, out);
	return __real_dev_open(path, flags, out);
}

static int failed(struct model_pool *p, const char *what, const char *why)
{
	snprintf(p->error, sizeof(p->error), "%s: %s", what, why);
	return -1;
}

/* The last error that the engine logged. */
static char logged[256];
static pthread_mutex_t logged_lock = PTHREAD_MUTEX_INITIALIZER;

static void on_log(enum tarn_log_level level, const char *text)
{
	if (level != TARN_LOG_ERROR)
		return;
	pthread_mutex_lock(&logged_lock);
	snprintf(logged, sizeof(logged), "%s", text);
	pthread_mutex_unlock(&logged_lock);
}

void model_pool_last_error(char *out, size_t room)
{
	pthread_mutex_lock(&logged_lock);
	snprintf(out, room, "%s", logged);
	pthread_mutex_unlock(&logged_lock);
}

static int start_engine(struct model_pool *p)
{
	struct tarn_config config = {.arc_max = 16 << 20,
				     .dirty_max = 16 << 20,
				     .threads = 2,
				     .host = "model",
				     .host_id = 1,
				     .log = on_log};
	int rc = tarn_engine_create(&config, &p->engine);

	return rc ? failed(p, "engine", strerror(-rc)) : 0;
}

static int open_root(struct model_pool *p)
{
	int rc = tarn_dataset_open(p->engine, MODEL_POOL, NULL, &p->ds);

	return rc ? failed(p, "dataset open", strerror(-rc)) : 0;
}

const char *model_pool_dir;

void model_pool_dir_remove(const char *dir)
{
	char path[96];

	for (uint32_t i = 0; i < MODEL_DEVS; i++) {
		snprintf(path, sizeof(path), "%s/disk%u", dir, i);
		unlink(path);
	}
	rmdir(dir);
}

static int make_device(struct model_pool *p, uint32_t i, uint64_t bytes)
{
	char dir[sizeof(p->dir)];
	int fd, rc;

	memcpy(dir, p->dir, sizeof(dir));
	snprintf(p->path[i], sizeof(p->path[i]), "%s/disk%u", dir, i);
	p->paths[i] = p->path[i];
	fd = open(p->path[i], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	rc = fd < 0 ? -1 : ftruncate(fd, (off_t)bytes);
	if (fd >= 0)
		close(fd);
	media[i].path = p->path[i];
	media[i].sim = sim_create(p->path[i], bytes, SECTOR_SIZE);
	return rc ? failed(p, p->path[i], strerror(errno)) : 0;
}

static int create_pool(struct model_pool *p, unsigned layout, uint64_t recordsize)
{
	uint32_t n = p->ndevs;
	struct tarn_group_spec groups[MODEL_DEVS];
	struct tarn_error err = {0};
	char value[24];
	struct tarn_prop prop = {"recordsize", value};

	snprintf(value, sizeof(value), "%llu", (unsigned long long)recordsize);
	for (uint32_t i = 0; i < p->ndevs; i++)
		groups[i] =
		    (struct tarn_group_spec){TARN_GROUP_SINGLE, 1, &p->paths[i], TARN_CLASS_DATA};
	if (layout == LAYOUT_MIRROR)
		groups[0] =
		    (struct tarn_group_spec){TARN_GROUP_MIRROR, n, p->paths, TARN_CLASS_DATA};
	if (layout == LAYOUT_LOG)
		groups[1] = (struct tarn_group_spec){TARN_GROUP_MIRROR, n - 1, &p->paths[1],
						     TARN_CLASS_LOG};
	n = layout == LAYOUT_MIRROR ? 1 : layout == LAYOUT_LOG ? 2 : n;
	if (tarn_pool_create(p->engine, MODEL_POOL, groups, n, &prop, 1, 0, &err))
		return failed(p, "pool create", err.text);
	return 0;
}

int model_pool_create(struct model_pool *p, unsigned layout, uint64_t megabytes,
		      uint64_t recordsize)
{
	static const uint32_t ndevs[LAYOUTS] = {1, 2, 2, 3};
	int rc = 0;

	*p = (struct model_pool){.mirror = layout >= LAYOUT_MIRROR, .ndevs = ndevs[layout]};
	logged[0] = 0;
	strcpy(p->dir, model_pool_dir ? model_pool_dir : MODEL_POOL_DIR);
	if (!model_pool_dir && !mkdtemp(p->dir))
		return failed(p, p->dir, strerror(errno));
	for (uint32_t i = 0; i < p->ndevs && !rc; i++)
		rc = make_device(p, i, megabytes << 20);
	rc = rc ? rc : start_engine(p);
	rc = rc ? rc : create_pool(p, layout, recordsize);
	return rc ? rc : open_root(p);
}

static void put_root(struct model_pool *p)
{
	if (p->ds)
		tarn_dataset_put(p->ds);
	p->ds = NULL;
}

int model_pool_export(struct model_pool *p)
{
	struct tarn_error err = {0};

	put_root(p);
	if (tarn_pool_export(p->engine, MODEL_POOL, 0, &err))
		return failed(p, "export", err.text);
	return 0;
}

void model_pool_cut(struct model_pool *p, uint64_t seed)
{
	/* What one device did is known to others only after it was done. */
	for (uint32_t i = 0; i < p->ndevs; i++)
		sim_hold(media[i].sim, true);
	for (uint32_t i = 0; i < p->ndevs; i++)
		p->cut[i] = sim_cut(media[i].sim, SIM_CUT_RANDOM, seed + i, 0);
	for (uint32_t i = 0; i < p->ndevs; i++) {
		sim_gone(media[i].sim, true);
		sim_hold(media[i].sim, false);
	}
}

int model_pool_power_on(struct model_pool *p)
{
	put_root(p);
	tarn_engine_destroy(p->engine);
	p->engine = NULL;
	for (uint32_t i = 0; i < p->ndevs; i++) {
		sim_destroy(media[i].sim);
		media[i].sim = p->cut[i];
	}
	return start_engine(p);
}

static void on_finding(void *arg, const struct tarn_finding *finding)
{
	struct model_pool *p = arg;
	bool explained = p->harmed && (finding->kind <= TARN_FOUND_COPY);

	if (!explained && !p->error[0])
		snprintf(p->error, sizeof(p->error), "tarnck: %s: %s",
			 tarn_finding_name(finding->kind), finding->text);
}

int model_pool_check(struct model_pool *p)
{
	struct tarn_check_spec spec = {.name = MODEL_POOL,
				       .paths = p->paths,
				       .npaths = p->ndevs,
				       .uberblocks = TARN_CHECK_STATES,
				       .finding = on_finding,
				       .arg = p};
	struct tarn_check_result result;
	struct tarn_error err = {0};

	p->error[0] = 0;
	if (tarn_check(&spec, &result, &err))
		return failed(p, "tarnck", err.text);
	return p->error[0] ? -1 : 0;
}

int model_pool_import(struct model_pool *p, unsigned way)
{
	struct tarn_import_spec spec = {.name = MODEL_POOL,
					.paths = p->paths,
					.npaths = p->ndevs,
					.flags = way == MOUNT_REWIND      ? TARN_REWIND
						 : way == MOUNT_READ_ONLY ? TARN_READ_ONLY
									  : 0};
	struct tarn_error err = {0};

	if (tarn_pool_import(p->engine, &spec, &err))
		return failed(p, "import", err.text);
	return open_root(p);
}

/* ---- faults ---- */

void model_pool_fault(struct model_pool *p, const struct op *op)
{
	static const enum dev_op ops[] = {[FAULT_READ] = DEV_READ,
					  [FAULT_WRITE] = DEV_WRITE,
					  [FAULT_TORN] = DEV_WRITE,
					  [FAULT_FLUSH] = DEV_FLUSH};
	struct sim *sim = media[p->ndevs - 1].sim;

	p->harmed = true;
	switch (op->a) {
	case FAULT_GONE:
		sim_gone(sim, true);
		break;
	case FAULT_FLIP:
		for (uint64_t i = 0, x = op->c; i < op->b; i++) {
			x = x * 6364136223846793005 + 1442695040888963407;
			/* In the first part, where there is something. */
			sim_flip(sim, (x >> 16) % (16 << 20), (uint8_t)(1 + (x >> 8) % 255));
		}
		break;
	default:
		sim_tear(sim, op->a == FAULT_TORN);
		sim_fail(sim, ops[op->a], 0, UINT64_MAX, -EIO, op->b);
	}
}

int model_pool_repair(struct model_pool *p)
{
	struct tarn_error err = {0};

	for (uint32_t i = 0; i < p->ndevs; i++) {
		for (enum dev_op op = DEV_READ; op <= DEV_DISCARD; op++)
			sim_fail(media[i].sim, op, 0, 0, 0, 0);
		sim_tear(media[i].sim, false);
		sim_gone(media[i].sim, false);
	}
	if (p->ds && tarn_pool_clear(p->engine, MODEL_POOL, &err) && err.code != -EROFS)
		return failed(p, "clear", err.text);
	return 0;
}

void model_pool_remove(struct model_pool *p)
{
	put_root(p);
	if (p->engine)
		tarn_engine_destroy(p->engine);
	for (uint32_t i = 0; i < MODEL_DEVS; i++) {
		if (media[i].sim)
			sim_destroy(media[i].sim);
		media[i].path = NULL;
		media[i].sim = NULL;
	}
	if (!model_pool_dir)
		model_pool_dir_remove(p->dir);
}
