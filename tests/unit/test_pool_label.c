// SPDX-License-Identifier: LGPL-3.0-or-later
#include <sys/syscall.h>
#include <unistd.h>

#include "simpool.h"

#define BACK (SIM_SIZE - LABEL_AREA)

static struct label label; /* too big for the stack */

static void write_labels(struct simpool *sp, enum label_state state)
{
	pthread_mutex_lock(&sp->pool.config_lock);
	assert_int_equal(label_write_all(&sp->pool, state), 0);
	pthread_mutex_unlock(&sp->pool.config_lock);
}

/* ---- label block ---- */

static void test_label_round_trip(void **state)
{
	struct simpool *sp = simpool_new(2, 1);

	(void)state;
	sp->pool.uber.txg = 77;
	write_labels(sp, LABEL_ACTIVE);
	write_labels(sp, LABEL_EXPORTED);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(label_read(sp->pool.devs[i].dev, &label), 0);
		assert_int_equal(label.pool_guid, 0xabcdef);
		assert_int_equal(label.dev_guid, 100 + i);
		assert_int_equal(label.seq, 2);
		assert_int_equal(label.txg, 77);
		assert_int_equal(label.state, LABEL_EXPORTED);
		assert_string_equal(label.name, "tank");
		assert_string_equal(label.host, "testhost");
		assert_int_equal(label.host_id, 0x1234);
		assert_int_equal(label.ngroups, 2);
		assert_int_equal(label.ndevs, 3);
		assert_int_equal(label.groups[1].first_dev, 2);
		assert_int_equal(label.devs[2].guid, 102);
		assert_int_equal(label.devs[2].slab_count, 15);
		assert_string_equal(label.devs[1].path, "/dev/sim1");
		assert_int_equal(sim_unflushed(sp->sims[i]), 0);
	}
	simpool_free(sp);
}

static void test_label_damage(void **state)
{
	struct simpool *sp = simpool_new(0, 1);
	struct dev *dev = sp->pool.devs[0].dev;
	uint64_t areas[2] = {0, BACK};

	(void)state;
	assert_int_equal(label_read(dev, &label), -ENOENT);
	write_labels(sp, LABEL_ACTIVE);
	for (int area = 0; area < 2; area++) {
		/* Any single byte: here each of the header, and a sample of the rest. */
		for (uint64_t at = 0; at < LABEL_SIZE; at += at < 4096 ? 1 : 997) {
			sim_flip(sp->sims[0], areas[area] + LABEL_OFFSET + at, 0x40);
			assert_int_equal(label_read(dev, &label), 0);
			assert_int_equal(label.dev_guid, 100);
			sim_flip(sp->sims[0], areas[!area] + LABEL_OFFSET + 200, 0x01);
			assert_int_equal(label_read(dev, &label), -EIO);
			sim_flip(sp->sims[0], areas[!area] + LABEL_OFFSET + 200, 0x01);
			sim_flip(sp->sims[0], areas[area] + LABEL_OFFSET + at, 0x40);
		}
	}
	/* Unreadable is as bad as damaged. */
	sim_fail(sp->sims[0], DEV_READ, LABEL_OFFSET, LABEL_SIZE, -EIO, 0);
	assert_int_equal(label_read(dev, &label), 0);
	sim_fail(sp->sims[0], DEV_READ, 0, SIM_SIZE, -EIO, 0);
	assert_int_equal(label_read(dev, &label), -EIO);
	simpool_free(sp);
}

static void test_label_newer_format(void **state)
{
	struct simpool *sp = simpool_new(0, 1);
	struct dev *dev = sp->pool.devs[0].dev;

	(void)state;
	write_labels(sp, LABEL_ACTIVE);
	assert_int_equal(label_read(dev, &label), 0);
	label.features = 1ull << 63;
	disk_seal(&label.head, LABEL_MAGIC, sizeof(label));
	assert_int_equal(label_validate(&label), -ENOTSUP);
	sim_poke(sp->sims[0], LABEL_OFFSET, &label, sizeof(label));
	sim_poke(sp->sims[0], BACK + LABEL_OFFSET, &label, sizeof(label));
	assert_int_equal(label_read(dev, &label), -ENOTSUP);
	assert_int_equal(label_wipe(dev, SIM_SIZE), 0);
	assert_int_equal(label_read(dev, &label), -ENOENT);
	simpool_free(sp);
}

/* Each cut while labels are rewritten leaves a whole old or a whole new one. */
struct cuts {
	uint64_t seed;
	unsigned n, old, new;
};

static void check_cut(struct cuts *c, struct sim *cut)
{
	struct dev *dev;

	assert_int_equal(sim_open(cut, DEV_OPEN_RDONLY, &dev), 0);
	assert_int_equal(label_read(dev, &label), 0);
	assert_true(label.seq == 1 || label.seq == 2);
	c->old += label.seq == 1;
	c->new += label.seq == 2;
	c->n++;
	dev_close(dev);
	sim_destroy(cut);
}

static void cut_here(struct sim *sim, uint64_t nth, void *arg)
{
	struct cuts *c = arg;
	uint64_t last = sim_unflushed(sim) - 1;

	(void)nth;
	for (uint64_t sectors = 0; sectors <= LABEL_SIZE / SECTOR_SIZE; sectors += 3)
		check_cut(c, sim_cut(sim, SIM_CUT_TORN, last, sectors));
	check_cut(c, sim_cut(sim, SIM_CUT_NONE, 0, 0));
	check_cut(c, sim_cut(sim, SIM_CUT_ALL, 0, 0));
	for (int i = 0; i < 20; i++)
		check_cut(c, sim_cut(sim, SIM_CUT_RANDOM, test_random(&c->seed), 0));
}

static void test_label_cut(void **state)
{
	struct simpool *sp = simpool_new(0, 1);
	struct cuts cuts = {.seed = test_seed()};

	(void)state;
	write_labels(sp, LABEL_ACTIVE);
	sim_on_write(sp->sims[0], cut_here, &cuts);
	write_labels(sp, LABEL_EXPORTED);
	sim_on_write(sp->sims[0], NULL, NULL);
	assert_true(cuts.n > 60);
	assert_true(cuts.old > 0 && cuts.new > 0);
	simpool_free(sp);
}

/* What a label may say, told anew. */
static void check_sane(const struct label *l)
{
	uint32_t devs = 0;

	assert_true(l->ngroups >= 1 && l->ngroups <= POOL_GROUPS_MAX);
	for (uint32_t g = 0; g < l->ngroups; g++) {
		assert_int_equal(l->groups[g].first_dev, devs);
		assert_true(l->groups[g].ndevs >= 1 && l->groups[g].ndevs <= 8);
		assert_true(l->groups[g].slab_shift >= 22 && l->groups[g].slab_shift <= 30);
		for (uint32_t i = devs; i < devs + l->groups[g].ndevs; i++) {
			const struct label_dev *d = &l->devs[i];
			unsigned __int128 end = (unsigned __int128)d->slab_count
						<< l->groups[g].slab_shift;

			assert_true(d->slab_start + end + LABEL_AREA <= d->size);
			assert_true(d->slab_count <= 126ull * d->table_pages);
			assert_true(LABEL_AREA + 8192ull * d->table_pages <= d->slab_start);
			assert_true(strlen(d->path) <= TARN_DEV_PATH_MAX);
		}
		devs += l->groups[g].ndevs;
	}
	assert_int_equal(devs, l->ndevs);
	assert_true(strlen(l->name) <= TARN_POOL_NAME_MAX && strlen(l->host) <= LABEL_HOST_MAX);
}

/* A byte that says something: the label's head, its groups, its devices. */
static size_t random_place(uint64_t *seed)
{
	uint64_t r = test_random(seed);

	switch (r % 3) {
	case 0:
		return 32 + r / 3 % 240;
	case 1:
		return offsetof(struct label, groups) + r / 3 % 64;
	default:
		return offsetof(struct label, devs) + r / 3 % (3 * sizeof(struct label_dev));
	}
}

static void test_label_fuzz(void **state)
{
	struct simpool *sp = simpool_new(2, 1);
	struct label *good = malloc(sizeof(*good));
	uint64_t seed = test_seed();
	unsigned accepted = 0, refused = 0;

	(void)state;
	write_labels(sp, LABEL_ACTIVE);
	assert_int_equal(label_read(sp->pool.devs[0].dev, good), 0);
	for (int round = 0; round < 3000; round++) {
		memcpy(&label, good, sizeof(label));
		for (uint64_t n = 1 + test_random(&seed) % 4; n; n--)
			((uint8_t *)&label)[random_place(&seed)] ^= 1 + test_random(&seed) % 255;
		if (memcmp(&label, good, sizeof(label)))
			assert_int_equal(label_validate(&label), -EIO);
		disk_seal(&label.head, LABEL_MAGIC, sizeof(label));
		if (label_validate(&label)) {
			refused++;
		} else {
			accepted++;
			check_sane(&label);
		}
	}
	assert_true(accepted && refused);
	free(good);
	simpool_free(sp);
}

/* ---- uberblocks ---- */

static struct uberblock uber_of(struct simpool *sp, uint64_t import, uint64_t txg)
{
	return (struct uberblock){
	    .pool_guid = sp->pool.guid,
	    .import_counter = import,
	    .txg = txg,
	    .next_chunk = 5,
	    .generation = 6,
	    .root = {.chunk = 1,
		     .lsize = 4096,
		     .psize = 4096,
		     .type = BP_NODE,
		     .cksum = CKSUM_XXH3,
		     .birth = txg},
	};
}

static void commit(struct simpool *sp, uint64_t import, uint64_t txg)
{
	struct uberblock uber = uber_of(sp, import, txg);

	assert_int_equal(uber_write_all(&sp->pool, &uber), 0);
	assert_int_equal(pool_flush_all(&sp->pool), 0);
}

static struct uberblock ring[UBER_RING];

static uint32_t read_ring(struct simpool *sp, uint32_t dev)
{
	uint32_t n;

	assert_int_equal(uber_read(sp->pool.devs[dev].dev, SIM_SIZE, sp->pool.guid, ring, &n), 0);
	return n;
}

static void test_uber_ring(void **state)
{
	struct simpool *sp = simpool_new(2, 0);

	(void)state;
	assert_int_equal(read_ring(sp, 0), 0);
	for (uint64_t txg = 1; txg <= 100; txg++)
		commit(sp, 1, txg);
	for (uint32_t dev = 0; dev < 2; dev++) {
		assert_int_equal(read_ring(sp, dev), UBER_SLOTS);
		for (uint32_t i = 0; i < UBER_SLOTS; i++)
			assert_int_equal(ring[i].txg, 100 - i);
	}
	/* A later import counts more than a greater txg. */
	commit(sp, 2, 50);
	assert_int_equal(read_ring(sp, 0), UBER_SLOTS);
	assert_int_equal(ring[0].txg, 50);
	assert_int_equal(ring[1].txg, 100);
	/* Another pool's are not seen. */
	sp->pool.guid++;
	assert_int_equal(read_ring(sp, 0), 0);
	simpool_free(sp);
}

static void test_uber_damage(void **state)
{
	struct simpool *sp = simpool_new(0, 1);
	uint64_t slot = UBER_OFFSET + 7 * SECTOR_SIZE;

	(void)state;
	commit(sp, 1, 6);
	commit(sp, 1, 7);
	for (unsigned at = 0; at < SECTOR_SIZE; at++) {
		sim_flip(sp->sims[0], slot + at, 0x10);
		assert_int_equal(read_ring(sp, 0), 2);
		sim_flip(sp->sims[0], BACK + slot + at, 0x20);
		assert_int_equal(read_ring(sp, 0), 1);
		assert_int_equal(ring[0].txg, 6);
		sim_flip(sp->sims[0], BACK + slot + at, 0x20);
		sim_flip(sp->sims[0], slot + at, 0x10);
	}
	/* A sector that cannot be read loses only itself. */
	sim_fail(sp->sims[0], DEV_READ, slot, SECTOR_SIZE, -EIO, 0);
	assert_int_equal(read_ring(sp, 0), 2);
	sim_fail(sp->sims[0], DEV_READ, BACK, LABEL_AREA, -EIO, 0);
	assert_int_equal(read_ring(sp, 0), 1);
	assert_int_equal(ring[0].txg, 6);
	simpool_free(sp);
}

static void test_uber_features(void **state)
{
	struct simpool *sp = simpool_new(0, 1);
	struct uberblock uber = uber_of(sp, 1, 8);
	uint32_t n;

	(void)state;
	commit(sp, 1, 7);
	uber.features = 1;
	assert_int_equal(uber_write_all(&sp->pool, &uber), 0);
	/* Never falls back silently to an older state. */
	assert_int_equal(uber_read(sp->pool.devs[0].dev, SIM_SIZE, sp->pool.guid, ring, &n),
			 -ENOTSUP);
	simpool_free(sp);
}

static void test_uber_cut(void **state)
{
	struct simpool *sp = simpool_new(0, 1);
	struct uberblock uber = uber_of(sp, 1, 2 + UBER_SLOTS);
	uint64_t seed = test_seed();

	(void)state;
	for (uint64_t txg = 1; txg < 2 + UBER_SLOTS; txg++)
		commit(sp, 1, txg);
	assert_int_equal(uber_write_all(&sp->pool, &uber), 0);
	for (int i = 0; i < 50; i++) {
		struct sim *cut = sim_cut(sp->sims[0], SIM_CUT_RANDOM, test_random(&seed), 0);
		struct dev *dev;
		uint32_t n;

		assert_int_equal(sim_open(cut, DEV_OPEN_RDONLY, &dev), 0);
		assert_int_equal(uber_read(dev, SIM_SIZE, sp->pool.guid, ring, &n), 0);
		assert_true(ring[0].txg == 1 + UBER_SLOTS || ring[0].txg == 2 + UBER_SLOTS);
		dev_close(dev);
		sim_destroy(cut);
	}
	simpool_free(sp);
}

static void test_uber_fuzz(void **state)
{
	struct simpool *sp = simpool_new(0, 1);
	uint64_t seed = test_seed();

	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct uberblock uber = uber_of(sp, 1, 9);

		for (uint64_t n = 1 + test_random(&seed) % 3; n; n--)
			((uint8_t *)&uber)[32 + test_random(&seed) % 192] ^=
			    1 + test_random(&seed) % 255;
		disk_seal(&uber.head, UBER_MAGIC, sizeof(uber));
		if (uber_validate(&uber, sp->pool.guid))
			continue;
		assert_true(uber.txg && uber.import_counter);
		assert_int_equal(uber.root.type, BP_NODE);
		assert_true(uber.root.birth <= uber.txg);
		assert_true(uber.root.psize <= uber.root.lsize && uber.root.lsize <= BLOCK_MAX);
	}
	simpool_free(sp);
}

/* What would wrap around in what counts on from it is refused. */
static void test_greatest_numbers(void **state)
{
	struct simpool *sp = simpool_new(0, 1);
	struct uberblock uber;

	(void)state;
	for (int i = 0; i < 8; i++) {
		uber = uber_of(sp, 1, 9);
		uint64_t max = i < 2 ? FORMAT_IMPORT_MAX : FORMAT_NUMBER_MAX;
		uint64_t *number[] = {&uber.import_counter, &uber.txg, &uber.next_chunk,
				      &uber.generation};

		*number[i / 2] = max + i % 2;
		disk_seal(&uber.head, UBER_MAGIC, sizeof(uber));
		assert_int_equal(uber_validate(&uber, sp->pool.guid), i % 2 ? -EIO : 0);
	}
	write_labels(sp, LABEL_ACTIVE);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(label_read(sp->pool.devs[0].dev, &label), 0);
		uint64_t max = i < 2 ? FORMAT_IMPORT_MAX : FORMAT_NUMBER_MAX;
		uint64_t *number[] = {&label.import_counter, &label.seq, &label.txg};

		*number[i / 2] = max + i % 2;
		disk_seal(&label.head, LABEL_MAGIC, sizeof(label));
		assert_int_equal(label_validate(&label), i % 2 ? -EIO : 0);
	}
	simpool_free(sp);
}

/* ---- failures ---- */

static void test_failed_flush(void **state)
{
	struct simpool *sp = simpool_new(2, 0);
	struct uberblock uber = uber_of(sp, 1, 1);

	(void)state;
	sim_fail(sp->sims[0], DEV_FLUSH, 0, SIM_SIZE, -EIO, 1);
	assert_int_equal(pool_flush_all(&sp->pool), -ESTALE);
	assert_int_equal(sp->pool.devs[0].state, TARN_DEV_FAULTED);
	assert_int_equal(sp->pool.devs[1].state, TARN_DEV_ONLINE);
	/* Not asked again, and no uberblock goes there. */
	assert_int_equal(pool_flush_all(&sp->pool), 0);
	assert_int_equal(sp->pool.devs[0].dev->stats.flushes, 1);
	assert_int_equal(uber_write_all(&sp->pool, &uber), 0);
	assert_int_equal(read_ring(sp, 0), 0);
	assert_int_equal(read_ring(sp, 1), 1);
	sim_fail(sp->sims[1], DEV_WRITE, 0, SIM_SIZE, -EIO, 1);
	assert_int_equal(uber_write_all(&sp->pool, &uber), -EIO);
	assert_int_equal(pool_flush_all(&sp->pool), -EIO);
	simpool_free(sp);
}

static void test_failed_label_write(void **state)
{
	struct simpool *sp = simpool_new(2, 1);

	(void)state;
	sim_fail(sp->sims[1], DEV_WRITE, BACK, LABEL_AREA, -EIO, 0);
	write_labels(sp, LABEL_ACTIVE);
	assert_int_equal(sp->pool.devs[1].state, TARN_DEV_FAULTED);
	sim_fail(sp->sims[2], DEV_FLUSH, 0, SIM_SIZE, -EIO, 0);
	pthread_mutex_lock(&sp->pool.config_lock);
	assert_int_equal(label_write_all(&sp->pool, LABEL_ACTIVE), -EIO);
	pthread_mutex_unlock(&sp->pool.config_lock);
	simpool_free(sp);
}

static void test_nothing_written(void **state)
{
	struct simpool *sp = simpool_new(0, 1);
	struct uberblock uber = uber_of(sp, 1, 1);

	(void)state;
	for (int i = 0; i < 2; i++) {
		sp->pool.read_only = i == 0;
		atomic_store(&sp->pool.suspended, i == 1);
		assert_false(pool_may_write(&sp->pool));
		assert_int_equal(uber_write_all(&sp->pool, &uber), -EIO);
		assert_int_equal(label_write_all(&sp->pool, LABEL_ACTIVE), -EIO);
	}
	assert_int_equal(sp->pool.devs[0].dev->stats.writes, 0);
	simpool_free(sp);
}

/* ---- heartbeat ---- */

/* The clock of leases: s that a pause of the whole process lasts; not 0: when it was stopped, so
   that no pause but these counts. */
static _Atomic(uint64_t) skipped, stopped;

int clock_gettime(clockid_t id, struct timespec *now)
{
	int rc = syscall(SYS_clock_gettime, id, now);

	if (id == CLOCK_BOOTTIME && atomic_load(&stopped))
		*now = (struct timespec){.tv_sec = atomic_load(&stopped)};
	if (id == CLOCK_BOOTTIME)
		now->tv_sec += atomic_load(&skipped);
	return rc;
}

static void pause_process(void)
{
	atomic_fetch_add(&skipped, 60);
}

static bool moves(struct pool *pool, const struct heartbeat *since, unsigned seconds)
{
	struct heartbeat *beats = calloc(pool->ndevs, sizeof(*beats));
	bool yes;

	beat_read_all(pool, beats);
	yes = beat_moves(pool, since ? since : beats, seconds);
	free(beats);
	return yes;
}

/* A millisecond, in loops that wait for something that must come. */
static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void test_beat(void **state)
{
	struct simpool *sp = simpool_new(2, 1);
	struct heartbeat beat;

	(void)state;
	assert_false(moves(&sp->pool, NULL, 1));
	assert_int_equal(beat_start(&sp->pool), 0);
	for (uint32_t i = 0; i < 3; i++) {
		while (
		    heartbeat_read(sp->pool.devs[i].dev, SIM_SIZE, sp->pool.guid, 100 + i, &beat))
			continue;
		assert_int_equal(beat.host_id, 0x1234);
		assert_int_equal(beat.import_counter, 1);
	}
	assert_true(moves(&sp->pool, NULL, 30));
	beat_stop(&sp->pool);
	assert_false(moves(&sp->pool, NULL, 1));
	simpool_free(sp);
}

static struct heartbeat read_beat(struct simpool *sp)
{
	struct heartbeat beat;

	assert_int_equal(heartbeat_read(sp->pool.devs[0].dev, SIM_SIZE, sp->pool.guid, 100, &beat),
			 0);
	return beat;
}

static void poke_beat(struct simpool *sp, struct heartbeat *beat)
{
	disk_seal(&beat->head, BEAT_MAGIC, sizeof(*beat));
	sim_poke(sp->sims[0], BEAT_OFFSET, beat, sizeof(*beat));
	sim_poke(sp->sims[0], BACK + BEAT_OFFSET, beat, sizeof(*beat));
}

/* Another host's heartbeat, in place of ours: it has taken over. */
static void test_beat_taken_over(void **state)
{
	struct simpool *sp = simpool_new(0, 1);
	struct heartbeat beat;

	(void)state;
	assert_int_equal(beat_start(&sp->pool), 0);
	beat = read_beat(sp);
	beat.host_id++;
	beat.nonce++;
	/* Ours may be on its way over it once; the other host repeats it, too. */
	for (; !atomic_load(&sp->pool.suspended); nap())
		poke_beat(sp, &beat);
	assert_int_equal(atomic_load(&sp->pool.halt), TARN_HALT_TAKEN);
	assert_false(pool_may_write(&sp->pool));
	simpool_free(sp);
}

/* The last beat of an owner that this import has followed comes late: it counts for nothing. */
static void test_beat_late(void **state)
{
	struct simpool *sp = simpool_new(0, 1);
	struct heartbeat beat;

	(void)state;
	sp->pool.import_counter = 7;
	assert_int_equal(beat_start(&sp->pool), 0);
	beat = read_beat(sp);
	beat.import_counter = 6;
	beat.host_id++;
	beat.nonce++;
	for (int i = 0; i < 2; i++) {
		poke_beat(sp, &beat);
		while (read_beat(sp).import_counter != 7)
			nap();
	}
	assert_false(atomic_load(&sp->pool.suspended));
	simpool_free(sp);
}

/* An import behind one that has just come does not begin. */
static void test_beat_too_late(void **state)
{
	struct simpool *sp = simpool_new(0, 1);
	struct heartbeat beat;

	(void)state;
	sp->pool.import_counter = 7;
	assert_int_equal(beat_start(&sp->pool), 0);
	beat_stop(&sp->pool);
	beat = read_beat(sp);
	sp->pool.import_counter = 6;
	assert_int_equal(beat_start(&sp->pool), -EREMOTE);
	assert_false(pool_may_write(&sp->pool));
	assert_int_equal(read_beat(sp).count, beat.count);
	simpool_free(sp);
}

/* ---- a lease that lapses ---- */

/* A write as others make it. */
struct probe {
	struct dev_io io;
	struct iovec iov;
	atomic_int ended;
};

static void probe_done(struct dev_io *io)
{
	atomic_store(&((struct probe *)io->owner)->ended, 1);
}

static void probe_write(struct simpool *sp, struct probe *p)
{
	void *buf = dev_buf_alloc(SECTOR_SIZE);

	memset(buf, 0x5a, SECTOR_SIZE);
	atomic_store(&p->ended, 0);
	p->iov = (struct iovec){buf, SECTOR_SIZE};
	p->io = (struct dev_io){.op = DEV_WRITE,
				.offset = 8 << 20,
				.length = SECTOR_SIZE,
				.iov = &p->iov,
				.iovcnt = 1,
				.owner = p,
				.done = probe_done};
	dev_submit(sp->pool.devs[0].dev, &p->io);
}

static int probe_result(struct probe *p)
{
	while (!atomic_load(&p->ended))
		nap();
	free(p->iov.iov_base);
	return p->io.result;
}

static bool probe_there(struct simpool *sp)
{
	uint8_t byte;

	sim_peek(sp->sims[0], 8 << 20, &byte, 1);
	return byte == 0x5a;
}

/* As it is after an import: labels, then beats. */
static struct simpool *owned(uint32_t nmirror, uint32_t nsingle)
{
	struct simpool *sp = simpool_new(nmirror, nsingle);

	sp->pool.import_counter = 5;
	atomic_store(&stopped, 1000);
	assert_int_equal(label_write_all(&sp->pool, LABEL_ACTIVE), 0);
	assert_int_equal(beat_start(&sp->pool), 0);
	return sp;
}

/* While there is something that keeps the check from its end. */
static void let_lapse(struct simpool *sp)
{
	pause_process();
	while (!beat_lapsed(&sp->pool) && !atomic_load(&sp->pool.suspended))
		nap();
}

/* Nobody has taken it: what was to be written is, after a beat that all can see. */
static void test_pause(void **state)
{
	struct simpool *sp = owned(2, 1);
	struct heartbeat *before = calloc(sp->pool.ndevs, sizeof(*before));
	struct probe p;

	(void)state;
	for (int i = 0; i < 3; i++) {
		sim_poke(sp->sims[0], 8 << 20, "", 1);
		beat_read_all(&sp->pool, before);
		pause_process();
		probe_write(sp, &p);
		assert_int_equal(probe_result(&p), 0);
		assert_true(probe_there(sp));
		assert_true(moves(&sp->pool, before, 0));
		assert_true(pool_may_write(&sp->pool));
	}
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(atomic_load(&sp->pool.devs[i].write_errors), 0);
	free(before);
	simpool_free(sp);
}

/* The stalled device of a group holds all back until it says something; nothing is written before,
   though a write was on its way when the process stood still. */
static void test_pause_stalled(void **state)
{
	struct simpool *sp = owned(0, 2);
	struct probe p;

	(void)state;
	sim_hold(sp->sims[1], true);
	let_lapse(sp);
	probe_write(sp, &p);
	for (int i = 0; i < 20; i++, nap()) {
		assert_true(beat_lapsed(&sp->pool));
		assert_false(atomic_load(&p.ended));
		assert_false(probe_there(sp));
	}
	sim_hold(sp->sims[1], false);
	assert_int_equal(probe_result(&p), 0);
	assert_false(beat_lapsed(&sp->pool));
	simpool_free(sp);
}

static void take_over(struct simpool *sp, uint32_t index, uint32_t parts)
{
	struct label *label = dev_buf_alloc(sizeof(*label));

	assert_int_equal(label_read(sp->pool.devs[index].dev, label), 0);
	label->import_counter++;
	label->host_id++;
	disk_seal(&label->head, LABEL_MAGIC, sizeof(*label));
	if (parts & 1)
		sim_poke(sp->sims[index], LABEL_OFFSET, label, sizeof(*label));
	if (parts & 2)
		sim_poke(sp->sims[index], BACK + LABEL_OFFSET, label, sizeof(*label));
	free(label);
}

/* One label of another host, wherever it is, and nothing more is written, nor ever again. */
static void test_pause_taken(void **state)
{
	(void)state;
	for (uint32_t index = 0; index < 3; index++) {
		for (uint32_t parts = 1; parts <= 3; parts++) {
			struct simpool *sp = owned(2, 1);
			struct probe p;

			take_over(sp, index, parts);
			pause_process();
			probe_write(sp, &p);
			assert_int_equal(probe_result(&p), -EROFS);
			assert_false(probe_there(sp));
			assert_int_equal(atomic_load(&sp->pool.halt), TARN_HALT_TAKEN);
			assert_false(pool_may_write(&sp->pool));
			probe_write(sp, &p);
			assert_int_equal(probe_result(&p), -EROFS);
			simpool_free(sp);
		}
	}
}

/* Taken, exported and wiped are all the same: it is not ours any more. A label that is being
   written says nothing yet. */
static void test_pause_label(void **state)
{
	struct simpool *sp = owned(0, 1);
	struct label *label = dev_buf_alloc(sizeof(*label)), *torn = dev_buf_alloc(sizeof(*torn));
	struct probe p;

	(void)state;
	assert_int_equal(label_read(sp->pool.devs[0].dev, label), 0);
	memcpy(torn, label, sizeof(*label));
	torn->txg++; /* without a new sum */
	sim_poke(sp->sims[0], LABEL_OFFSET, torn, sizeof(*torn));
	pause_process();
	probe_write(sp, &p);
	assert_int_equal(probe_result(&p), 0); /* the other one is good */
	sim_poke(sp->sims[0], BACK + LABEL_OFFSET, torn, sizeof(*torn));
	let_lapse(sp);
	probe_write(sp, &p);
	for (int i = 0; i < 20; i++, nap())
		assert_false(atomic_load(&p.ended));
	sim_poke(sp->sims[0], LABEL_OFFSET, label, sizeof(*label));
	assert_int_equal(probe_result(&p), 0);
	label->state = LABEL_EXPORTED;
	disk_seal(&label->head, LABEL_MAGIC, sizeof(*label));
	sim_poke(sp->sims[0], LABEL_OFFSET, label, sizeof(*label));
	pause_process();
	probe_write(sp, &p);
	assert_int_equal(probe_result(&p), -EROFS);
	free(label);
	free(torn);
	simpool_free(sp);
}

/* A mirror whose one half fails goes on with the other; without both it stops for good. */
static void test_pause_failing(void **state)
{
	struct simpool *sp = owned(2, 0);
	struct probe p;

	(void)state;
	sim_gone(sp->sims[1], true);
	pause_process();
	probe_write(sp, &p);
	assert_int_equal(probe_result(&p), 0);
	sim_gone(sp->sims[0], true);
	pause_process();
	probe_write(sp, &p);
	pause_process(); /* no device has said anything for so long */
	assert_int_equal(probe_result(&p), -EROFS);
	assert_int_equal(atomic_load(&sp->pool.halt), TARN_HALT_HEARTBEAT);
	sim_gone(sp->sims[0], false);
	sim_gone(sp->sims[1], false);
	assert_false(pool_may_write(&sp->pool));
	simpool_free(sp);
}

/* A hung device of a mirror costs nothing. */
static void test_beat_lease(void **state)
{
	struct simpool *sp = owned(2, 0);
	struct heartbeat beat = {0};

	(void)state;
	sim_hold(sp->sims[0], true);
	for (int i = 0; i < 2; i++) {
		uint64_t count;

		atomic_fetch_add(&skipped, BEAT_LEASE - 1);
		assert_int_equal(
		    heartbeat_read(sp->pool.devs[1].dev, SIM_SIZE, sp->pool.guid, 101, &beat), 0);
		count = beat.count;
		/* One may have begun before, one begins now, and one after the lease is renewed. */
		for (; beat.count < count + 3; nap())
			assert_int_equal(heartbeat_read(sp->pool.devs[1].dev, SIM_SIZE,
							sp->pool.guid, 101, &beat),
					 0);
		assert_false(beat_lapsed(&sp->pool));
	}
	sim_hold(sp->sims[0], false);
	simpool_free(sp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_label_round_trip),
	    cmocka_unit_test(test_label_damage),
	    cmocka_unit_test(test_label_newer_format),
	    cmocka_unit_test(test_label_cut),
	    cmocka_unit_test(test_label_fuzz),
	    cmocka_unit_test(test_uber_ring),
	    cmocka_unit_test(test_uber_damage),
	    cmocka_unit_test(test_uber_features),
	    cmocka_unit_test(test_uber_cut),
	    cmocka_unit_test(test_uber_fuzz),
	    cmocka_unit_test(test_greatest_numbers),
	    cmocka_unit_test(test_failed_flush),
	    cmocka_unit_test(test_failed_label_write),
	    cmocka_unit_test(test_nothing_written),
	    cmocka_unit_test(test_beat),
	    cmocka_unit_test(test_beat_taken_over),
	    cmocka_unit_test(test_beat_late),
	    cmocka_unit_test(test_beat_too_late),
	    cmocka_unit_test(test_beat_lease),
	    cmocka_unit_test(test_pause),
	    cmocka_unit_test(test_pause_stalled),
	    cmocka_unit_test(test_pause_taken),
	    cmocka_unit_test(test_pause_label),
	    cmocka_unit_test(test_pause_failing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
