// SPDX-License-Identifier: LGPL-3.0-or-later
/* The sync: a frozen txg becomes the newest state of the pool. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "pool/alog.h"
#include "pool/devstate.h"
#include "pool/ilog.h"
#include "pool/label.h"
#include "pool/slab.h"
#include "pool/txgs_impl.h"

/* Each pass but the first answers a failure of the one before. A pool that fails so often is not
   going to be committed. */
#define PASSES_MAX 8
#define IO_BYTES_MAX (64ull << 20)

/* ---- writes in flight ---- */

void sync_io_begin(struct pool *pool, uint64_t bytes)
{
	struct txgs *t = pool->txgs;

	pthread_mutex_lock(&t->io_lock);
	while (t->io_count && t->io_bytes + bytes > IO_BYTES_MAX)
		pthread_cond_wait(&t->io_done, &t->io_lock);
	t->io_bytes += bytes;
	t->io_count++;
	pthread_mutex_unlock(&t->io_lock);
}

void sync_io_end(struct pool *pool, uint64_t bytes, bool failed)
{
	struct txgs *t = pool->txgs;

	pthread_mutex_lock(&t->io_lock);
	t->io_bytes -= bytes;
	t->io_count--;
	t->io_failed |= failed;
	pthread_cond_broadcast(&t->io_done);
	pthread_mutex_unlock(&t->io_lock);
}

bool sync_wait_io(struct txg_sync *s)
{
	struct txgs *t = s->pool->txgs;
	bool failed;

	pthread_mutex_lock(&t->io_lock);
	while (t->io_count)
		pthread_cond_wait(&t->io_done, &t->io_lock);
	failed = t->io_failed;
	pthread_mutex_unlock(&t->io_lock);
	return failed;
}

static void forget_failures(struct txgs *t)
{
	pthread_mutex_lock(&t->io_lock);
	t->io_failed = false;
	pthread_mutex_unlock(&t->io_lock);
}

/* ---- frees ---- */

static void judge(struct txg_sync *s, const struct free_item *item)
{
	struct bp bp = item->obj ? s->pool->txgs->client->take_obj(item->obj) : item->bp;

	if (!bp_is_hole(&bp))
		item->owner->ops->freed(item->owner, s, &bp);
}

/* Those that open context queued, then those of the sync, which grow while they are judged. */
static bool take_frees(struct txgs *t, struct free_list *out)
{
	struct free_list *from;

	pthread_mutex_lock(&t->lock);
	from = t->frozen_frees.n ? &t->frozen_frees : &t->sync_frees;
	*out = *from;
	*from = (struct free_list){0};
	pthread_mutex_unlock(&t->lock);
	return out->n > 0;
}

void txg_process_frees(struct txg_sync *s)
{
	struct free_list list;

	while (take_frees(s->pool->txgs, &list)) {
		for (size_t i = 0; i < list.n; i++)
			judge(s, &list.items[i]);
		free(list.items);
	}
	free(list.items);
}

/* ---- the sync ---- */

/* What was written to a device that is out of use now may not be there: its columns of all chunks
   written in this txg are stale. */
static int give_up_columns(struct txg_sync *s)
{
	uint32_t ndevs = __atomic_load_n(&s->pool->ndevs, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < ndevs; i++) {
		if (!pool_dev_usable(&s->pool->devs[i]) && !alloc_written_stale(s, i))
			return -EIO;
	}
	return 0;
}

static void make_uberblock(const struct txg_sync *s, struct uberblock *uber)
{
	const struct uberblock *last = &s->pool->uber;

	uber->pool_guid = s->pool->guid;
	uber->import_counter = s->pool->import_counter;
	uber->txg = s->txg;
	uber->time = (uint64_t)time(NULL);
	uber->features = last->features;
	uber->root = s->root;
	chunks_counters(s->pool, &uber->next_chunk, &uber->generation);
	ilog_uberblock(s->pool, uber);
}

/* -EAGAIN: something failed and was taken out of use; what it concerns is to be written anew. */
static int sync_pass(struct txg_sync *s, struct uberblock *uber)
{
	struct txgs *t = s->pool->txgs;
	int rc;

	forget_failures(t);

	/* Data, nodes bottom-up, tasks, chunk records, the pool tree: all in sectors that no
	   uberblock's tree refers to. A cut leaves the last txg; a failed block sets its flag and
	   is written elsewhere by the next pass. */
	rc = t->client->sync(t->client->arg, s);
	if (rc)
		return rc;
	txg_process_frees(s);

	/* The allocation log, last of the blocks: it holds all that was allocated and freed above,
	   and itself. A cut leaves the last txg, whose log knows nothing of these sectors. */
	rc = alog_write(s, &uber->alog, &uber->alog_tail);
	if (rc)
		return rc;

	/* Slab tables: claims of new chunks, each page in the copy that the last uberblock does not
	   need. A cut leaves the last txg, which ignores claims from after it. */
	rc = slab_sync(s);

	/* No write may be unanswered when devices are flushed: a flush covers what has completed.
	 */
	if (sync_wait_io(s) && !rc)
		rc = -EAGAIN;

	/* Now all of it is durable or its device is out of use. A cut still leaves the last txg. */
	if (!rc || rc == -EAGAIN) {
		int flushed = pool_flush_all(s->pool);

		if (flushed && flushed != -ESTALE)
			return flushed;
	}
	if (rc && rc != -EAGAIN)
		return rc;
	if (give_up_columns(s))
		return -EIO;

	/* Columns became stale, or a chunk was made, after the records were written: the list of
	   live chunks has to say so before anything is committed. */
	return rc || chunks_any_dirty(s->pool) ? -EAGAIN : 0;
}

static int commit(struct txg_sync *s, struct uberblock *uber)
{
	struct pool *pool = s->pool;
	int rc;

	/* The uberblock, to all. A cut while it is written leaves this txg or the last one; both
	   are whole, on any device that is asked. */
	make_uberblock(s, uber);
	rc = uber_write_all(pool, uber);
	if (rc && rc != -ESTALE)
		return rc;

	/* From here on a cut leaves this txg. A device that fails is behind by an uberblock, not by
	   data: its columns are current. */
	rc = pool_flush_all(pool);
	if (rc && rc != -ESTALE)
		return rc;
	pool->uber = *uber;
	return 0;
}

int txg_sync(struct txgs *t, uint64_t txg)
{
	struct pool *pool = t->pool;
	struct txg_sync s = {.pool = pool, .txg = txg, .root = pool->uber.root, .wq = t->wq};
	struct uberblock uber = {0};
	int rc = -EAGAIN;

	while (rc == -EAGAIN && s.pass < PASSES_MAX) {
		if (!pool_may_write(pool))
			return -EROFS;
		s.pass++;
		rc = sync_pass(&s, &uber);
	}
	/* Buffers are the client's again only when no device holds one. */
	sync_wait_io(&s);
	if (rc)
		return rc == -EAGAIN ? -EIO : rc;
	rc = commit(&s, &uber);
	if (rc)
		return rc;

	/* Durable, also on devices that leave now. First those who wait for that; then what it
	   makes free. */
	devs_leave(pool);
	txg_publish(t, txg);
	t->client->committed(t->client->arg, txg);
	alog_committed(pool);
	alloc_committed(&s);
	chunks_reap(pool);
	throttle_settle(t, txg);
	return 0;
}
