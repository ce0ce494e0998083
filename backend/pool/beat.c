// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The heartbeat of an imported pool and the lease that it earns.
 *
 * Each second every usable device gets a read of its heartbeat sector, to see that nobody
 * else has taken the pool, then a write, in the front and the back area by turns. Requests are
 * asynchronous: a device that hangs keeps its own beat waiting, not the others'. The lease
 * counts from the submission of the last writes that succeeded.
 *
 * A lease that has lapsed comes back only by a check: the same chain goes on with a read of both
 * labels, on every device. Until then requests for changes wait in a list. They are written when
 * the pool turns out to be still this import's: nobody has changed anything on it meanwhile. Else
 * they fail, and the pool is fenced for good.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "pool/label.h"

enum check_result { CHECK_NONE, CHECK_OURS, CHECK_FAILED };

struct beat_dev {
	struct label_beat *beat;
	struct pool_dev *dev;
	struct dev_io io;
	struct iovec iov;
	struct heartbeat *buf;
	struct label *label; /* for checks */
	uint64_t count;
	uint64_t submitted;   /* BOOTTIME ns */
	_Atomic(uint64_t) ok; /* the same of the last write that succeeded, 0: none */
	atomic_bool busy;
	bool checking; /* the chain is part of a check */
	bool back;     /* of the label that is read */
	_Atomic(enum check_result) result;
};

struct label_beat {
	struct pool *pool;
	uint64_t nonce;
	struct dev_gate gate;
	_Atomic(uint64_t) lease; /* BOOTTIME ns from which BEAT_LEASE counts */
	atomic_bool lapsed;      /* set by whoever sees it first, under lock; cleared by a check */
	uint64_t since;          /* when */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t cond; /* stop; hurry; a request has ended */
	bool stop, hurry;
	unsigned busy;
	bool running;
	struct dev_io *kept, **kept_end; /* requests that wait */
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

static uint64_t label_offset(uint64_t size, bool back)
{
	return (back ? size - LABEL_AREA : 0) + LABEL_OFFSET;
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

bool pool_may_write(struct pool *pool)
{
	return !pool->read_only && !atomic_load(&pool->suspended);
}

/* ---- the lease and the gate ---- */

static bool over(uint64_t since)
{
	return boottime() - since > BEAT_LEASE * 1000000000ull;
}

static void give_back(struct label_beat *beat, int error)
{
	struct dev_io *io, *next;

	pthread_mutex_lock(&beat->lock);
	io = beat->kept;
	beat->kept = NULL;
	beat->kept_end = &beat->kept;
	pthread_mutex_unlock(&beat->lock);
	for (; io; io = next) {
		next = io->next;
		dev_resubmit(io, error);
	}
}

/* For good. */
static void fence(struct label_beat *beat, enum tarn_pool_halt halt, const char *why)
{
	struct pool *pool = beat->pool;

	pthread_mutex_lock(&beat->lock);
	atomic_store(&beat->lapsed, true);
	pthread_mutex_unlock(&beat->lock);
	if (!atomic_exchange(&pool->suspended, true)) {
		atomic_store(&pool->halt, halt);
		pool_log(pool, TARN_LOG_ERROR, "stops writing for good: %s", why);
	}
	give_back(beat, -EROFS);
}

/* Lock held. Whether it has lapsed; *news: just now. */
static bool lapse(struct label_beat *beat, bool *news)
{
	*news = !atomic_load(&beat->lapsed) && over(atomic_load(&beat->lease));
	if (*news) {
		beat->since = boottime();
		atomic_store(&beat->lapsed, true);
		beat->hurry = true;
		pthread_cond_broadcast(&beat->cond);
	}
	return atomic_load(&beat->lapsed);
}

static void tell_lapse(struct label_beat *beat)
{
	pool_log(beat->pool, TARN_LOG_WARN,
		 "no heartbeat for more than %d seconds: writes wait until it is known that no "
		 "other host has taken the pool",
		 BEAT_LEASE);
}

static bool lapses(struct label_beat *beat)
{
	bool news, yes;

	pthread_mutex_lock(&beat->lock);
	yes = lapse(beat, &news);
	pthread_mutex_unlock(&beat->lock);
	if (news)
		tell_lapse(beat);
	return yes;
}

static bool pass(struct dev_gate *gate, struct dev_io *io)
{
	struct label_beat *beat =
	    (struct label_beat *)((char *)gate - offsetof(struct label_beat, gate));
	bool news, keep;

	if (!atomic_load(&beat->lapsed) && !over(atomic_load(&beat->lease)))
		return true;
	pthread_mutex_lock(&beat->lock);
	keep = lapse(beat, &news);
	if (keep) {
		io->next = NULL;
		*beat->kept_end = io;
		beat->kept_end = &io->next;
	}
	pthread_mutex_unlock(&beat->lock);
	if (news)
		tell_lapse(beat);
	return !keep;
}

void beat_gate(struct pool *pool, struct dev *dev)
{
	if (dev)
		dev->gate = pool->beat ? &pool->beat->gate : NULL;
}

static void gate_all(struct pool *pool)
{
	for (uint32_t i = 0; i < pool->ndevs; i++)
		beat_gate(pool, pool->devs[i].dev);
	for (uint32_t g = 0; g < pool->nlogs; g++) {
		for (uint32_t i = 0; i < pool->logs[g]->ndevs; i++)
			beat_gate(pool, pool->logs[g]->devs[i].dev);
	}
}

bool beat_lapsed(struct pool *pool)
{
	return pool->beat && atomic_load(&pool->beat->lapsed) && !atomic_load(&pool->suspended);
}

/* ---- somebody else's ---- */

void beat_read_all(struct pool *pool, struct heartbeat *beats)
{
	for (uint32_t i = 0; i < pool->ndevs; i++) {
		struct pool_dev *dev = &pool->devs[i];

		if (!dev->dev ||
		    heartbeat_read(dev->dev, dev->size, pool->guid, dev->guid, &beats[i]))
			memset(&beats[i], 0, sizeof(beats[i]));
	}
}

bool beat_moves(struct pool *pool, const struct heartbeat *beats, unsigned seconds)
{
	struct heartbeat *now = calloc(pool->ndevs, sizeof(*now));
	uint64_t until = boottime() + seconds * 1000000000ull;
	bool moved = false;

	if (!now)
		return true; /* as good as "not known to be dead" */
	for (;;) {
		beat_read_all(pool, now);
		moved = memcmp(beats, now, pool->ndevs * sizeof(*now)) != 0;
		if (moved || boottime() >= until)
			break;
		nanosleep(&(struct timespec){.tv_nsec = 250000000}, NULL);
	}
	free(now);
	return moved;
}

/* ---- the chain of one device: read, look, write; in a check read the labels, look ---- */

static void end(struct beat_dev *bd)
{
	struct label_beat *beat = bd->beat;

	pthread_mutex_lock(&beat->lock);
	atomic_store(&bd->busy, false);
	if (--beat->busy == 0)
		pthread_cond_broadcast(&beat->cond);
	pthread_mutex_unlock(&beat->lock);
}

static void submit(struct beat_dev *bd, enum dev_op op, uint64_t offset, void *buf, size_t length,
		   void (*done)(struct dev_io *io))
{
	bd->iov = (struct iovec){.iov_base = buf, .iov_len = length};
	bd->io = (struct dev_io){.op = op,
				 .offset = offset,
				 .length = length,
				 .iov = &bd->iov,
				 .iovcnt = 1,
				 .ungated = true,
				 .owner = bd,
				 .done = done};
	dev_submit(bd->dev->dev, &bd->io);
}

static void submit_beat(struct beat_dev *bd, enum dev_op op, void (*done)(struct dev_io *io))
{
	submit(bd, op, beat_offset(bd->dev->size, bd->count & 1), bd->buf, sizeof(*bd->buf), done);
}

static void end_check(struct beat_dev *bd, enum check_result result)
{
	atomic_store(&bd->result, result);
	end(bd);
}

enum label_says { SAYS_NOTHING, SAYS_OURS, SAYS_TAKEN, SAYS_GONE };

static enum label_says label_says(const struct beat_dev *bd)
{
	const struct pool *pool = bd->beat->pool;
	const struct label *label = bd->label;

	switch (label_validate(label)) {
	case 0:
		break;
	case -ENOENT:
		return SAYS_GONE;
	case -ENOTSUP:
		return SAYS_TAKEN;
	default: /* damaged, or being written */
		return SAYS_NOTHING;
	}
	if (label->pool_guid != pool->guid || label->dev_guid != bd->dev->guid ||
	    label->import_counter > pool->import_counter)
		return SAYS_TAKEN;
	if (label->import_counter < pool->import_counter)
		return SAYS_NOTHING;
	return label->host_id == pool->config->host_id && label->state == LABEL_ACTIVE ? SAYS_OURS
										       : SAYS_TAKEN;
}

static void read_label(struct beat_dev *bd, bool back);

static void label_came(struct dev_io *io)
{
	struct beat_dev *bd = io->owner;
	enum label_says says = io->result ? SAYS_GONE : label_says(bd);
	bool ours = says == SAYS_OURS || atomic_load(&bd->result) == CHECK_OURS;

	if (says == SAYS_TAKEN)
		fence(bd->beat, TARN_HALT_TAKEN, "another host has imported it");
	if (says == SAYS_TAKEN || says == SAYS_GONE) {
		end_check(bd, CHECK_FAILED);
	} else if (bd->back) {
		end_check(bd, ours ? CHECK_OURS : CHECK_FAILED);
	} else {
		atomic_store(&bd->result, ours ? CHECK_OURS : CHECK_NONE);
		read_label(bd, true);
	}
}

static void read_label(struct beat_dev *bd, bool back)
{
	bd->back = back;
	submit(bd, DEV_READ, label_offset(bd->dev->size, back), bd->label, sizeof(*bd->label),
	       label_came);
}

static void written(struct dev_io *io)
{
	struct beat_dev *bd = io->owner;

	if (io->result) {
		atomic_fetch_add(&bd->dev->write_errors, 1);
		end_check(bd, CHECK_FAILED);
		return;
	}
	atomic_store(&bd->ok, bd->submitted);
	if (bd->checking)
		read_label(bd, false);
	else
		end(bd);
}

/* What an earlier import has left, or writes late, is not. */
static bool someone_else(const struct beat_dev *bd)
{
	const struct label_beat *beat = bd->beat;

	if (bd->io.result || heartbeat_validate(bd->buf, beat->pool->guid, bd->dev->guid))
		return false;
	return bd->buf->import_counter > beat->pool->import_counter ||
	       (bd->buf->import_counter == beat->pool->import_counter &&
		bd->buf->nonce != beat->nonce);
}

static void looked(struct dev_io *io)
{
	struct beat_dev *bd = io->owner;
	struct pool *pool = bd->beat->pool;

	if (someone_else(bd))
		fence(bd->beat, TARN_HALT_TAKEN, "another host has imported it");
	/* After a pause what was read before it says nothing. */
	if (atomic_load(&pool->suspended) ||
	    (!bd->checking && atomic_load(&bd->beat->lease) && lapses(bd->beat))) {
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
	bd->buf->boot_id = pool->config->boot_id;
	disk_seal(&bd->buf->head, BEAT_MAGIC, sizeof(*bd->buf));
	bd->submitted = boottime();
	submit_beat(bd, DEV_WRITE, written);
}

/* ---- the thread ---- */

static bool make_ready(struct label_beat *beat, struct pool_dev *dev, bool checking)
{
	struct beat_dev *bd = &beat->devs[dev->index];

	bd->beat = beat;
	bd->dev = dev;
	bd->buf = bd->buf ? bd->buf : dev_buf_alloc(sizeof(*bd->buf));
	if (checking && !bd->label)
		bd->label = dev_buf_alloc(sizeof(*bd->label));
	return bd->buf && (bd->label || !checking);
}

static void start_chain(struct label_beat *beat, struct pool_dev *dev, bool checking)
{
	struct beat_dev *bd = &beat->devs[dev->index];

	if (!pool_dev_usable(dev) || atomic_load(&bd->busy))
		return;
	atomic_store(&bd->result, CHECK_NONE);
	if (!make_ready(beat, dev, checking))
		return;
	bd->checking = checking;
	bd->count++;
	pthread_mutex_lock(&beat->lock);
	atomic_store(&bd->busy, true);
	beat->busy++;
	pthread_mutex_unlock(&beat->lock);
	submit_beat(bd, DEV_READ, looked);
}

static void start_all(struct label_beat *beat, bool checking)
{
	uint32_t ndevs = __atomic_load_n(&beat->pool->ndevs, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < ndevs; i++)
		start_chain(beat, &beat->pool->devs[i], checking);
}

/* When as many devices of a group as it needs had been written, all of them: other hosts that see
   as many see one of those. */
static uint64_t group_beats(const struct label_beat *beat, const struct pool_group *group)
{
	uint32_t needs = pool_kind_needs(group->kind, group->ndevs);
	uint64_t last = 0;

	for (uint32_t i = 0; i < group->ndevs; i++) {
		uint64_t ok = atomic_load(&beat->devs[group->first_dev + i].ok);
		uint32_t newer = 0;

		for (uint32_t k = 0; k < group->ndevs; k++)
			newer += atomic_load(&beat->devs[group->first_dev + k].ok) >= ok;
		if (newer >= needs && ok > last)
			last = ok;
	}
	return last;
}

/* From when on a lease counts: the worst group decides. */
static uint64_t last_beats(struct label_beat *beat)
{
	struct pool *pool = beat->pool;
	uint32_t ngroups = __atomic_load_n(&pool->ngroups, __ATOMIC_ACQUIRE);
	uint64_t last = UINT64_MAX;

	for (uint32_t g = 0; g < ngroups; g++) {
		uint64_t own = group_beats(beat, &pool->groups[g]);

		last = own < last ? own : last;
	}
	return last;
}

/* A group just added has no beat yet: the lease waits for it, it does not run out. */
static void renew(struct label_beat *beat)
{
	uint64_t last = last_beats(beat);

	if (last > atomic_load(&beat->lease))
		atomic_store(&beat->lease, last);
}

/* Until all chains have ended, or a second has passed, or stop, or there is a check to be made. */
static void pause_beat(struct label_beat *beat, bool for_chains)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec++;
	pthread_mutex_lock(&beat->lock);
	while (!beat->stop && !beat->hurry && !(for_chains && !beat->busy)) {
		if (pthread_cond_timedwait(&beat->cond, &beat->lock, &until) == ETIMEDOUT)
			break;
	}
	beat->hurry = false;
	pthread_mutex_unlock(&beat->lock);
}

static bool stopped(struct label_beat *beat)
{
	pthread_mutex_lock(&beat->lock);
	bool stop = beat->stop;
	pthread_mutex_unlock(&beat->lock);
	return stop;
}

static bool idle(struct label_beat *beat)
{
	pthread_mutex_lock(&beat->lock);
	bool yes = !beat->busy;
	pthread_mutex_unlock(&beat->lock);
	return yes;
}

/* What the devices of a group have found. One that hangs may still find something: CHECK_NONE. */
static enum check_result group_result(struct label_beat *beat, const struct pool_group *group)
{
	uint32_t ours = 0;

	for (uint32_t i = 0; i < group->ndevs; i++) {
		uint32_t index = group->first_dev + i;
		enum check_result one = atomic_load(&beat->devs[index].result);

		if (!pool_dev_usable(&beat->pool->devs[index]))
			continue;
		if (one == CHECK_NONE)
			return CHECK_NONE;
		ours += one == CHECK_OURS;
	}
	return ours >= pool_kind_needs(group->kind, group->ndevs) ? CHECK_OURS : CHECK_FAILED;
}

/* Every usable device has been asked and none belongs to somebody else, each group has as
   many as it needs that said so themselves, and all that not long ago. */
static void decide(struct label_beat *beat)
{
	uint32_t ngroups = __atomic_load_n(&beat->pool->ngroups, __ATOMIC_ACQUIRE);
	uint64_t last = last_beats(beat);
	bool ours = !over(last), failed = false;

	for (uint32_t g = 0; g < ngroups; g++) {
		enum check_result result = group_result(beat, &beat->pool->groups[g]);

		ours = ours && result == CHECK_OURS;
		failed = failed || result == CHECK_FAILED;
	}
	if (failed && over(beat->since))
		fence(beat, TARN_HALT_HEARTBEAT, "no heartbeat can be written");
	if (!ours || atomic_load(&beat->pool->suspended))
		return;
	pool_log(beat->pool, TARN_LOG_WARN, "goes on: no other host has taken it");
	pthread_mutex_lock(&beat->lock);
	atomic_store(&beat->lease, last);
	atomic_store(&beat->lapsed, false);
	pthread_mutex_unlock(&beat->lock);
	give_back(beat, 0);
}

static void check(struct label_beat *beat)
{
	start_all(beat, true);
	pause_beat(beat, true);
	if (idle(beat))
		decide(beat);
	if (atomic_load(&beat->lapsed))
		pause_beat(beat, false);
}

static void *beat_main(void *arg)
{
	struct label_beat *beat = arg;

	while (!stopped(beat)) {
		if (atomic_load(&beat->pool->suspended)) {
			give_back(beat, -EROFS);
			pause_beat(beat, false);
		} else if (lapses(beat)) {
			check(beat);
		} else {
			start_all(beat, false);
			pause_beat(beat, false);
			if (!lapses(beat))
				renew(beat);
		}
	}
	return NULL;
}

static int first_beat(struct label_beat *beat)
{
	uint64_t began = boottime();

	start_all(beat, false);
	while (!over(began)) {
		pause_beat(beat, true);
		renew(beat);
		if (atomic_load(&beat->pool->suspended))
			return -EREMOTE;
		if (atomic_load(&beat->lease))
			return 0;
		if (idle(beat))
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
	beat->gate.pass = pass;
	beat->kept_end = &beat->kept;
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
	if (!rc) {
		gate_all(pool);
		rc = -pthread_create(&beat->thread, NULL, beat_main, beat);
	}
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
	if (atomic_load(&beat->lapsed))
		fence(beat, TARN_HALT_HEARTBEAT, "it ends while no heartbeat is written");
	pool->beat = NULL;
	gate_all(pool);
	pthread_cond_destroy(&beat->cond);
	pthread_mutex_destroy(&beat->lock);
	for (uint32_t i = 0; i < POOL_DEVS_MAX; i++) {
		free(beat->devs[i].buf);
		free(beat->devs[i].label);
	}
	free(beat);
}
