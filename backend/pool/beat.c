// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The heartbeat of an imported pool and the lease that it earns.
 *
 * Each second every usable device gets a read of its heartbeat sector, to see that nobody
 * else has taken the pool, then a write, in the front and the back area by turns. Requests are
 * asynchronous: a device that hangs keeps its own beat waiting, not the others'. The lease
 * counts from the submission of the last writes that succeeded.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "pool/label.h"

struct beat_dev {
	struct label_beat *beat;
	struct pool_dev *dev;
	struct dev_io io;
	struct iovec iov;
	struct heartbeat *buf;
	uint64_t count;
	uint64_t submitted;   /* BOOTTIME ns */
	_Atomic(uint64_t) ok; /* the same of the last write that succeeded, 0: none */
	bool mine[2];         /* areas that hold this import's last beat */
	atomic_bool busy;
};

struct label_beat {
	struct pool *pool;
	uint64_t nonce;
	_Atomic(uint64_t) lease; /* BOOTTIME ns from which BEAT_LEASE counts */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t cond; /* stop; a request has ended */
	bool stop;
	unsigned busy;
	bool running;
	struct beat_dev devs[POOL_DEVS_MAX];
};

int heartbeat_validate(const struct heartbeat *beat, uint64_t pool_guid, uint64_t dev_guid)
{
	int rc = disk_check(&beat->head, BEAT_MAGIC, sizeof(*beat));

	if (rc)
		return rc;
	return beat->pool_guid == pool_guid && beat->dev_guid == dev_guid ? 0 : -ENOENT;
}

static uint64_t beat_offset(uint64_t size, bool back)
{
	return (back ? size - LABEL_AREA : 0) + BEAT_OFFSET;
}

int heartbeat_read(struct dev *dev, uint64_t size, uint64_t pool_guid, uint64_t dev_guid,
		   struct heartbeat *out)
{
	struct heartbeat *buf = dev_buf_alloc(sizeof(*buf));
	int rc = -ENOENT;

	if (!buf)
		return -ENOMEM;
	for (int back = 0; back < 2; back++) {
		if (dev_read(dev, beat_offset(size, back), buf, sizeof(*buf)) ||
		    heartbeat_validate(buf, pool_guid, dev_guid))
			continue;
		if (rc || buf->import_counter > out->import_counter ||
		    (buf->import_counter == out->import_counter && buf->count > out->count))
			memcpy(out, buf, sizeof(*out));
		rc = 0;
	}
	free(buf);
	return rc;
}

static uint64_t boottime(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void fence(struct pool *pool, const char *why)
{
	if (!atomic_exchange(&pool->suspended, true))
		pool_log(pool, TARN_LOG_ERROR, "stops writing for good: %s", why);
}

bool pool_may_write(struct pool *pool)
{
	struct label_beat *beat = pool->beat;

	if (pool->read_only || atomic_load(&pool->suspended))
		return false;
	if (beat && boottime() - atomic_load(&beat->lease) > BEAT_LEASE * 1000000000ull) {
		fence(pool, "no heartbeat could be written for too long");
		return false;
	}
	return true;
}

/* ---- somebody else's ---- */

static void read_all(struct pool *pool, struct heartbeat *beats)
{
	for (uint32_t i = 0; i < pool->ndevs; i++) {
		struct pool_dev *dev = &pool->devs[i];

		if (!dev->dev ||
		    heartbeat_read(dev->dev, dev->size, pool->guid, dev->guid, &beats[i]))
			memset(&beats[i], 0, sizeof(beats[i]));
	}
}

bool beat_moves(struct pool *pool, unsigned seconds)
{
	struct heartbeat *before = calloc(2 * pool->ndevs, sizeof(*before));
	struct heartbeat *now = before + pool->ndevs;
	uint64_t until = boottime() + seconds * 1000000000ull;
	bool moved = false;

	if (!before)
		return true; /* as good as "not known to be dead" */
	read_all(pool, before);
	while (!moved && boottime() < until) {
		nanosleep(&(struct timespec){.tv_nsec = 250000000}, NULL);
		read_all(pool, now);
		moved = memcmp(before, now, pool->ndevs * sizeof(*now)) != 0;
	}
	free(before);
	return moved;
}

/* ---- the chain of one device: read, look, write ---- */

static void end(struct beat_dev *bd)
{
	struct label_beat *beat = bd->beat;

	pthread_mutex_lock(&beat->lock);
	atomic_store(&bd->busy, false);
	if (--beat->busy == 0)
		pthread_cond_broadcast(&beat->cond);
	pthread_mutex_unlock(&beat->lock);
}

static void submit(struct beat_dev *bd, enum dev_op op, void (*done)(struct dev_io *io))
{
	bd->iov = (struct iovec){.iov_base = bd->buf, .iov_len = sizeof(*bd->buf)};
	bd->io = (struct dev_io){.op = op,
				 .offset = beat_offset(bd->dev->size, bd->count & 1),
				 .length = sizeof(*bd->buf),
				 .iov = &bd->iov,
				 .iovcnt = 1,
				 .owner = bd,
				 .done = done};
	dev_submit(bd->dev->dev, &bd->io);
}

static void written(struct dev_io *io)
{
	struct beat_dev *bd = io->owner;

	bd->mine[bd->count & 1] = !io->result;
	if (!io->result)
		atomic_store(&bd->ok, bd->submitted);
	else
		atomic_fetch_add(&bd->dev->write_errors, 1);
	end(bd);
}

static bool someone_else(const struct beat_dev *bd)
{
	const struct label_beat *beat = bd->beat;

	/* Before the first own write an area holds what the last owner left. */
	return bd->mine[bd->count & 1] && !bd->io.result &&
	       !heartbeat_validate(bd->buf, beat->pool->guid, bd->dev->guid) &&
	       bd->buf->nonce != beat->nonce;
}

static void looked(struct dev_io *io)
{
	struct beat_dev *bd = io->owner;
	struct pool *pool = bd->beat->pool;

	if (someone_else(bd))
		fence(pool, "another host has imported it");
	if (atomic_load(&pool->suspended)) {
		end(bd);
		return;
	}
	memset(bd->buf, 0, sizeof(*bd->buf));
	bd->buf->pool_guid = pool->guid;
	bd->buf->dev_guid = bd->dev->guid;
	bd->buf->import_counter = pool->import_counter;
	bd->buf->host_id = pool->config->host_id;
	bd->buf->nonce = bd->beat->nonce;
	bd->buf->count = bd->count;
	disk_seal(&bd->buf->head, BEAT_MAGIC, sizeof(*bd->buf));
	bd->submitted = boottime();
	submit(bd, DEV_WRITE, written);
}

/* ---- the thread ---- */

static void start_chain(struct label_beat *beat, uint32_t i)
{
	struct beat_dev *bd = &beat->devs[i];

	if (!pool_dev_usable(&beat->pool->devs[i]) || atomic_load(&bd->busy))
		return;
	if (!bd->buf) {
		bd->buf = dev_buf_alloc(sizeof(*bd->buf));
		if (!bd->buf)
			return;
		bd->beat = beat;
		bd->dev = &beat->pool->devs[i];
	}
	bd->count++;
	pthread_mutex_lock(&beat->lock);
	atomic_store(&bd->busy, true);
	beat->busy++;
	pthread_mutex_unlock(&beat->lock);
	submit(bd, DEV_READ, looked);
}

static void start_all(struct label_beat *beat)
{
	uint32_t ndevs = __atomic_load_n(&beat->pool->ndevs, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < ndevs; i++)
		start_chain(beat, i);
}

/* The best device of each group counts, the worst group decides. */
static void renew(struct label_beat *beat)
{
	struct pool *pool = beat->pool;
	uint32_t ngroups = __atomic_load_n(&pool->ngroups, __ATOMIC_ACQUIRE);
	uint64_t lease = UINT64_MAX;

	for (uint32_t g = 0; g < ngroups; g++) {
		const struct pool_group *group = &pool->groups[g];
		uint64_t best = 0;

		for (uint32_t i = 0; i < group->ndevs; i++) {
			uint64_t ok = atomic_load(&beat->devs[group->first_dev + i].ok);

			best = ok > best ? ok : best;
		}
		lease = best < lease ? best : lease;
	}
	/* A group just added has no beat yet: the lease waits for it, it does not run out. */
	if (lease > atomic_load(&beat->lease))
		atomic_store(&beat->lease, lease);
}

/* Until all chains have ended, or a second has passed, or stop. */
static void pause_beat(struct label_beat *beat, bool for_chains)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec++;
	pthread_mutex_lock(&beat->lock);
	while (!beat->stop && !(for_chains && !beat->busy)) {
		if (pthread_cond_timedwait(&beat->cond, &beat->lock, &until) == ETIMEDOUT)
			break;
	}
	pthread_mutex_unlock(&beat->lock);
}

static bool stopped(struct label_beat *beat)
{
	pthread_mutex_lock(&beat->lock);
	bool stop = beat->stop;
	pthread_mutex_unlock(&beat->lock);
	return stop;
}

static void *beat_main(void *arg)
{
	struct label_beat *beat = arg;

	while (!stopped(beat)) {
		start_all(beat);
		pause_beat(beat, false);
		renew(beat);
		pool_may_write(beat->pool); /* an idle owner must notice too */
	}
	return NULL;
}

static int first_beat(struct label_beat *beat)
{
	uint64_t began = boottime();

	start_all(beat);
	while (boottime() - began < BEAT_LEASE * 1000000000ull) {
		pause_beat(beat, true);
		renew(beat);
		if (atomic_load(&beat->lease))
			return 0;
		pthread_mutex_lock(&beat->lock);
		bool over = !beat->busy;
		pthread_mutex_unlock(&beat->lock);
		if (over)
			break;
	}
	return -EIO;
}

int beat_start(struct pool *pool)
{
	struct label_beat *beat = calloc(1, sizeof(*beat));
	pthread_condattr_t attr;
	int rc;

	if (!beat)
		return -ENOMEM;
	beat->pool = pool;
	pthread_mutex_init(&beat->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&beat->cond, &attr);
	pthread_condattr_destroy(&attr);
	pool->beat = beat;
	if (getrandom(&beat->nonce, sizeof(beat->nonce), 0) != sizeof(beat->nonce))
		rc = -EIO;
	else
		rc = first_beat(beat);
	if (!rc)
		rc = -pthread_create(&beat->thread, NULL, beat_main, beat);
	beat->running = !rc;
	if (rc)
		beat_stop(pool);
	return rc;
}

void beat_stop(struct pool *pool)
{
	struct label_beat *beat = pool->beat;

	if (!beat)
		return;
	pthread_mutex_lock(&beat->lock);
	beat->stop = true;
	pthread_cond_broadcast(&beat->cond);
	pthread_mutex_unlock(&beat->lock);
	if (beat->running)
		pthread_join(beat->thread, NULL);
	pthread_mutex_lock(&beat->lock);
	while (beat->busy)
		pthread_cond_wait(&beat->cond, &beat->lock);
	pthread_mutex_unlock(&beat->lock);
	pool->beat = NULL;
	pthread_cond_destroy(&beat->cond);
	pthread_mutex_destroy(&beat->lock);
	for (uint32_t i = 0; i < POOL_DEVS_MAX; i++)
		free(beat->devs[i].buf);
	free(beat);
}
