// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The life of pools on simulated devices. Their client keeps one number and the chunk records
 * in a single block.
 */
#include "simpool.h"

#include "pool/block.h"
#include "pool/chunk.h"
#include "pool/config.h"
#include "pool/devstate.h"

/* ---- the client ---- */

#define RECORDS_MAX 64

struct root {
	uint64_t value;
	uint32_t nrecords;
	struct {
		uint64_t id;
		uint32_t length;
		uint8_t bytes[8192];
	} records[RECORDS_MAX];
};

struct client {
	struct txg_client ops;
	struct pool *pool;
	struct root *root; /* one block */
	_Atomic(uint64_t) value;
	uint64_t frozen;
	bool root_failed;
	struct pool_dev *back; /* to come back in the next sync */
	int back_result;
};

#define ROOT_SIZE ((uint32_t)(sizeof(struct root) + SECTOR_SIZE - 1) / SECTOR_SIZE * SECTOR_SIZE)
static_assert(sizeof(struct root) < BLOCK_MAX, "fits a block");

static void freeze(void *arg, uint64_t txg)
{
	struct client *c = arg;

	(void)txg;
	c->frozen = atomic_load(&c->value);
}

static int put_record(void *arg, uint64_t id, const void *record, uint32_t length)
{
	struct root *root = arg;
	uint32_t i = 0;

	while (i < root->nrecords && root->records[i].id != id)
		i++;
	if (!record) {
		assert_true(i < root->nrecords);
		root->records[i] = root->records[--root->nrecords];
		return 0;
	}
	assert_true(i < RECORDS_MAX && length <= sizeof(root->records[i].bytes));
	root->records[i].id = id;
	root->records[i].length = length;
	memcpy(root->records[i].bytes, record, length);
	root->nrecords += i == root->nrecords;
	return 0;
}

static int sync_root(void *arg, struct txg_sync *s)
{
	struct client *c = arg;
	atomic_bool failed = false;
	struct block_write w = {.lsize = ROOT_SIZE,
				.type = BP_NODE,
				.comp = COMP_LZ4,
				.cksum = CKSUM_XXH3,
				.class = BLOCK_META,
				.failed = &failed};
	struct root *copy = dev_buf_alloc(ROOT_SIZE);
	int rc;

	if (c->back)
		c->back_result = dev_bring_back(s, c->back, NULL);
	c->back = NULL;
	if (s->pass == 1 && !bp_is_hole(&s->root))
		sync_free(s, &s->root);
	rc = pool_dirty_chunks(s, put_record, c->root);
	c->root->value = c->frozen;
	memcpy(copy, c->root, ROOT_SIZE);
	w.data = copy;
	rc = rc ? rc : block_write(s, &w, &s->root);
	sync_wait_io(s);
	free(copy);
	return rc;
}

static void committed(void *arg, uint64_t txg)
{
	(void)arg, (void)txg;
}

static struct client *client_new(struct pool *pool)
{
	struct client *c = calloc(1, sizeof(*c));

	c->pool = pool;
	c->root = dev_buf_alloc(ROOT_SIZE);
	memset(c->root, 0, ROOT_SIZE);
	c->ops = (struct txg_client){
	    .arg = c, .freeze = freeze, .sync = sync_root, .committed = committed};
	return c;
}

static void client_free(struct client *c)
{
	free(c->root);
	free(c);
}

static void set(struct client *c, uint64_t value)
{
	struct tx tx;

	assert_int_equal(tx_begin(c->pool, ROOT_SIZE, TX_NORMAL, &tx), 0);
	atomic_store(&c->value, value);
	tx_end(&tx);
	assert_int_equal(txg_wait(c->pool, tx.txg), 0);
}

/* As tarn_pool_clear() does it. */
static int bring_back(struct client *c, struct pool_dev *dev)
{
	int rc = dev_check_label(c->pool, dev, dev->dev);

	if (rc)
		return rc;
	c->back = dev;
	set(c, atomic_load(&c->value));
	return c->back_result ? c->back_result : dev_record_state(c->pool, dev, false);
}

struct reading {
	struct block_read r;
	sem_t done;
};

static void read_done(struct block_read *r)
{
	sem_post(&((struct reading *)r)->done);
}

static int client_load(struct client *c)
{
	struct reading reading = {
	    .r = {.bp = c->pool->uber.root, .buf = c->root, .done = read_done}};
	int rc;

	assert_int_equal(c->pool->uber.root.lsize, ROOT_SIZE);
	sem_init(&reading.done, 0, 0);
	reading.r.epoch = read_enter(c->pool);
	block_read(c->pool, &reading.r);
	while (sem_wait(&reading.done))
		continue;
	read_leave(c->pool, reading.r.epoch);
	sem_destroy(&reading.done);
	rc = reading.r.result;
	for (uint32_t i = 0; i < c->root->nrecords && !rc; i++)
		rc = pool_load_chunk(c->pool, c->root->records[i].id, c->root->records[i].bytes,
				     c->root->records[i].length);
	rc = rc ? rc : pool_load_done(c->pool);
	atomic_store(&c->value, c->root->value);
	if (!rc && !c->pool->read_only)
		rc = txg_start(c->pool, &c->ops);
	return rc;
}

/* ---- devices and pools ---- */

static struct tarn_config host_a = {.host = "anna", .host_id = 1, .txg_seconds = 600};
static struct tarn_config host_b = {.host = "bert", .host_id = 2, .txg_seconds = 600};
static struct workq *wq;

static struct sim *sims[SIM_MAX];

static struct dev *open_sim(struct sim *sim, int flags)
{
	struct dev *dev;

	assert_int_equal(sim_open(sim, flags, &dev), 0);
	return dev;
}

static struct client *create(enum tarn_group_kind kind, uint32_t ndevs)
{
	struct pool_new_dev devs[SIM_MAX];
	struct pool_new_group group = {.kind = kind, .ndevs = ndevs, .devs = devs};
	static const char *const paths[] = {"/dev/s0", "/dev/s1", "/dev/s2", "/dev/s3"};
	struct client *c;
	struct pool *pool;

	for (uint32_t i = 0; i < ndevs; i++) {
		if (!sims[i])
			sims[i] = sim_create(paths[i], SIM_SIZE, 512);
		devs[i] = (struct pool_new_dev){open_sim(sims[i], 0), paths[i]};
	}
	assert_int_equal(pool_create("tank", &group, 1, &host_a, wq, &pool), 0);
	c = client_new(pool);
	assert_int_equal(txg_start(pool, &c->ops), 0);
	set(c, 1);
	return c;
}

struct opening {
	const struct tarn_config *config;
	uint64_t guid;
	uint32_t skip;
	int flags, dev_flags;
	unsigned watch;    /* seconds for a heartbeat; 0: one, nobody is there */
	struct sim **sims; /* NULL elements: not given */
	uint32_t nsims;
};

static struct tarn_error error;

static int open_pool(const struct opening *o, struct client **out)
{
	struct dev *devs[SIM_MAX];
	const char *paths[SIM_MAX];
	uint32_t n = 0;
	struct pool *pool;
	int rc;

	for (uint32_t i = 0; i < o->nsims; i++) {
		static const char *const found_at[] = {"/dev/f0", "/dev/f1", "/dev/f2", "/dev/f3"};

		if (!o->sims[i])
			continue;
		devs[n] = open_sim(o->sims[i], o->dev_flags);
		paths[n++] = found_at[i];
	}
	struct pool_open_args args = {.guid = o->guid,
				      .devs = devs,
				      .paths = paths,
				      .ndevs = n,
				      .flags = o->flags,
				      .skip_uberblocks = o->skip,
				      .watch_seconds = o->watch ? o->watch : 1};
	rc = pool_open(&args, o->config ? o->config : &host_a, wq, &pool, &error);
	if (rc)
		return rc;
	*out = client_new(pool);
	rc = client_load(*out);
	if (rc) {
		pool_close(pool, false);
		client_free(*out);
	}
	return rc;
}

static void close_pool(struct client *c, bool exported)
{
	assert_int_equal(pool_close(c->pool, exported), 0);
	client_free(c);
}

static struct client *reopen(uint64_t guid, uint32_t nsims)
{
	struct opening o = {.guid = guid, .sims = sims, .nsims = nsims};
	struct client *c;

	assert_int_equal(open_pool(&o, &c), 0);
	return c;
}

static int drop_sims(void **state)
{
	(void)state;
	for (int i = 0; i < SIM_MAX; i++) {
		if (sims[i])
			sim_destroy(sims[i]);
		sims[i] = NULL;
	}
	return 0;
}

/* ---- tests ---- */

static void test_slab_size(void **state)
{
	(void)state;
	assert_int_equal(pool_slab_shift(64ull << 20), 22);
	assert_int_equal(pool_slab_shift(64ull << 30), 22);
	assert_int_equal(pool_slab_shift(127ull << 30), 22);
	assert_int_equal(pool_slab_shift(128ull << 30), 23);
	assert_int_equal(pool_slab_shift(1ull << 40), 26);
	assert_int_equal(pool_slab_shift(16ull << 40), 30);
	assert_int_equal(pool_slab_shift(60ull << 40), 30);
}

static void test_create_and_open(void **state)
{
	struct client *c = create(TARN_GROUP_MIRROR, 2);
	uint64_t guid = c->pool->guid, txg;

	(void)state;
	set(c, 42);
	txg = c->pool->uber.txg;
	assert_int_equal(c->pool->import_counter, 1);
	close_pool(c, true);
	c = reopen(guid, 2);
	assert_int_equal(c->value, 42);
	assert_true(c->pool->was_exported);
	assert_string_equal(c->pool->name, "tank");
	assert_string_equal(c->pool->devs[1].path, "/dev/f1");
	assert_int_equal(c->pool->import_counter, 2);
	assert_true(c->pool->first_txg > txg);
	set(c, 43);
	close_pool(c, false);
	c = reopen(guid, 2);
	assert_false(c->pool->was_exported);
	assert_int_equal(c->value, 43);
	assert_int_equal(c->pool->import_counter, 3);
	assert_int_equal(c->pool->uber.import_counter, 2);
	close_pool(c, true);
}

static void test_bad_arguments(void **state)
{
	struct pool_new_dev dev;
	struct pool_new_group group = {.kind = TARN_GROUP_MIRROR, .ndevs = 1, .devs = &dev};
	struct sim *small = sim_create("small", SIM_SIZE - 4096, 512);
	struct pool *pool;

	(void)state;
	sims[0] = sim_create("sim", SIM_SIZE, 512);
	dev = (struct pool_new_dev){open_sim(sims[0], 0), "/dev/s0"};
	assert_int_equal(pool_create("tank", &group, 1, &host_a, wq, &pool), -EINVAL);
	group.kind = TARN_GROUP_SINGLE;
	dev.dev = open_sim(sims[0], 0); /* was closed */
	assert_int_equal(pool_create("mirror", &group, 1, &host_a, wq, &pool), -EINVAL);
	dev.dev = open_sim(small, 0);
	assert_int_equal(pool_create("tank", &group, 1, &host_a, wq, &pool), -ENOSPC);
	assert_int_equal(sim_unflushed(sims[0]), 0);
	sim_destroy(small);
}

static void fail_from_then_on(struct sim *sim, uint64_t nth, void *arg)
{
	if (nth == *(uint64_t *)arg)
		sim_fail(sim, DEV_WRITE, 0, SIM_SIZE, -ENOSPC, 0);
}

/* A device that fails at any of the writes of a create: there is no pool, and none to be imported
   from the other one. */
static void test_create_fails(void **state)
{
	static const char *const paths[] = {"/dev/s0", "/dev/s1"};
	struct label *label = dev_buf_alloc(sizeof(*label));
	struct pool *pool = NULL;
	uint64_t good;

	(void)state;
	for (good = 1; !pool && good < 100; good++) {
		struct pool_new_dev devs[2];
		struct pool_new_group group = {.kind = TARN_GROUP_MIRROR, .ndevs = 2, .devs = devs};
		struct dev *dev;

		for (int i = 0; i < 2; i++) {
			sims[i] = sim_create(paths[i], SIM_SIZE, 512);
			devs[i] = (struct pool_new_dev){open_sim(sims[i], 0), paths[i]};
		}
		sim_on_write(sims[1], fail_from_then_on, &good);
		if (pool_create("tank", &group, 1, &host_a, wq, &pool)) {
			dev = open_sim(sims[0], DEV_OPEN_RDONLY);
			assert_int_equal(label_read(dev, label), -ENOENT);
			dev_close(dev);
			drop_sims(NULL);
			pool = NULL;
		}
	}
	assert_non_null(pool);
	assert_true(good > 6); /* both areas: wiped, then labelled */
	for (int i = 0; i < 2; i++)
		assert_int_equal(pool->devs[i].state, TARN_DEV_ONLINE);
	pool_destroy(pool);
	free(label);
}

static void test_names(void **state)
{
	static const char *const good[] = {"a", "tank", "T_1.x:y-z", "logs", "cache1", "Mirror"};
	static const char *const bad[] = {"",        "1a",     "_a",    "a b",    "a/b", "\xc3\xa4",
					  "mirrors", "raidz2", "draid", "spares", "log", "cache"};
	char name[80];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		assert_null(pool_name_problem(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_non_null(pool_name_problem(bad[i]));
	memset(name, 'a', sizeof(name));
	name[63] = 0;
	assert_null(pool_name_problem(name));
	name[63] = 'a';
	name[64] = 0;
	assert_non_null(pool_name_problem(name));
}

static void test_missing_devices(void **state)
{
	struct client *c = create(TARN_GROUP_MIRROR, 2);
	uint64_t guid = c->pool->guid;
	struct sim *only[2] = {sims[0], NULL};
	struct opening o = {.guid = guid, .sims = only, .nsims = 2};

	(void)state;
	set(c, 5);
	close_pool(c, true);
	/* One is away, the other goes on. */
	assert_int_equal(open_pool(&o, &c), 0);
	assert_int_equal(c->pool->devs[0].state, TARN_DEV_ONLINE);
	assert_int_equal(c->pool->devs[1].state, TARN_DEV_MISSING);
	assert_string_equal(c->pool->devs[1].path, "/dev/s1");
	assert_int_equal(c->value, 5);
	set(c, 6);
	set(c, 7);
	close_pool(c, true);
	/* The one that was away does not win. */
	c = reopen(guid, 2);
	assert_int_equal(c->value, 7);
	assert_int_equal(c->pool->devs[1].state, TARN_DEV_ONLINE);
	assert_true(c->pool->devs[1].seen_txg < c->pool->devs[0].seen_txg);
	set(c, 8);
	close_pool(c, true);
	/* None at all. */
	only[0] = NULL;
	assert_int_equal(open_pool(&o, &c), -ENOENT);
}

static void test_missing_single(void **state)
{
	struct client *c = create(TARN_GROUP_SINGLE, 1);
	struct pool_new_dev dev;
	struct pool_new_group group = {.kind = TARN_GROUP_SINGLE, .ndevs = 1, .devs = &dev};
	struct sim *only[2] = {NULL, NULL};
	struct opening o = {.guid = c->pool->guid, .sims = only, .nsims = 2};

	(void)state;
	sims[1] = sim_create("second", SIM_SIZE, 512);
	dev = (struct pool_new_dev){open_sim(sims[1], 0), "/dev/second"};
	assert_int_equal(pool_add_groups(c->pool, &group, 1), 0);
	set(c, 2);
	close_pool(c, true);
	only[0] = sims[0];
	assert_int_equal(open_pool(&o, &c), -ENODEV);
	assert_non_null(strstr(error.text, "/dev/second"));
	only[1] = sims[1];
	assert_int_equal(open_pool(&o, &c), 0);
	assert_int_equal(c->value, 2);
	close_pool(c, true);
}

/* The newest of a device: the second one, in front, may not have come before the pool was closed.
 */
static void peek_beat(struct sim *sim, struct heartbeat *beat)
{
	struct heartbeat back;

	sim_peek(sim, BEAT_OFFSET, beat, sizeof(*beat));
	sim_peek(sim, SIM_SIZE - LABEL_AREA + BEAT_OFFSET, &back, sizeof(back));
	if (back.count > beat->count)
		*beat = back;
}

/* The owner's next heartbeat comes with the first label of the new one. */
static void owner_wakes(struct sim *sim, uint64_t nth, void *arg)
{
	struct heartbeat *beat = arg;

	(void)nth;
	beat->count++;
	disk_seal(&beat->head, BEAT_MAGIC, sizeof(*beat));
	sim_poke(sim, BEAT_OFFSET, beat, sizeof(*beat));
}

static void test_owner_wakes(void **state)
{
	struct client *c = create(TARN_GROUP_MIRROR, 2);
	struct opening o = {.config = &host_b, .guid = c->pool->guid, .sims = sims, .nsims = 2};
	struct heartbeat beat;

	(void)state;
	close_pool(c, false);
	peek_beat(sims[0], &beat);
	sim_on_write(sims[0], owner_wakes, &beat);
	o.flags = TARN_FORCE;
	assert_int_equal(open_pool(&o, &c), -EREMOTE);
	sim_on_write(sims[0], NULL, NULL);
	/* The labels are this host's, but the heartbeat is not: it still takes force. */
	o.flags = 0;
	assert_int_equal(open_pool(&o, &c), -EREMOTE);
	assert_non_null(strstr(error.text, "another host"));
	assert_non_null(strstr(error.text, "-f"));
	o.flags = TARN_FORCE;
	assert_int_equal(open_pool(&o, &c), 0);
	close_pool(c, true);
}

static void test_foreign_host(void **state)
{
	struct client *c = create(TARN_GROUP_MIRROR, 2);
	struct opening o = {.config = &host_b, .guid = c->pool->guid, .sims = sims, .nsims = 2};
	struct opening alive = o;

	(void)state;
	/* While its owner lives, force does not help. It may be slow. */
	alive.flags = TARN_FORCE;
	alive.watch = 60;
	alive.dev_flags = DEV_OPEN_RDONLY;
	assert_int_equal(open_pool(&alive, &c), -EREMOTE);
	assert_non_null(strstr(error.text, "anna"));
	close_pool(c, false);
	assert_int_equal(open_pool(&o, &c), -EREMOTE);
	assert_non_null(strstr(error.text, "anna"));
	assert_non_null(strstr(error.text, "-f"));
	o.flags = TARN_FORCE;
	assert_int_equal(open_pool(&o, &c), 0);
	assert_int_equal(c->value, 1);
	close_pool(c, true);
	/* Exported: no questions. */
	o.config = &host_a;
	o.flags = 0;
	assert_int_equal(open_pool(&o, &c), 0);
	close_pool(c, true);
}

/* Two copies of one virtual machine have one id, until they are booted. */
static void test_host_of_the_same_id(void **state)
{
	struct tarn_config first = {.host = "vm", .host_id = 3, .boot_id = 1, .txg_seconds = 600};
	struct tarn_config second = first;
	struct client *c = create(TARN_GROUP_MIRROR, 2);
	struct opening o = {.config = &first, .guid = c->pool->guid, .sims = sims, .nsims = 2};
	struct opening alive;

	(void)state;
	close_pool(c, true);
	assert_int_equal(open_pool(&o, &c), 0);
	second.boot_id = 2;
	o.config = &second;
	alive = o;
	alive.watch = 240;
	alive.dev_flags = DEV_OPEN_RDONLY;
	assert_int_equal(open_pool(&alive, &c), -EREMOTE);
	assert_non_null(strstr(error.text, "is using pool"));
	close_pool(c, false);
	/* The owner is dead: it was this host before its last boot. */
	assert_int_equal(open_pool(&o, &c), 0);
	close_pool(c, true);
}

static void test_read_only(void **state)
{
	struct client *c = create(TARN_GROUP_SINGLE, 1);
	struct opening o = {.guid = c->pool->guid,
			    .flags = TARN_READ_ONLY,
			    .dev_flags = DEV_OPEN_RDONLY,
			    .sims = sims,
			    .nsims = 1};
	struct opening writable = {
	    .guid = o.guid, .flags = TARN_READ_ONLY, .sims = sims, .nsims = 1};

	(void)state;
	set(c, 9);
	close_pool(c, false);
	assert_int_equal(open_pool(&o, &c), 0);
	assert_int_equal(c->value, 9);
	close_pool(c, true);
	/* Not one write, though the device would take it. */
	assert_int_equal(open_pool(&writable, &c), 0);
	assert_int_equal(c->pool->devs[0].dev->stats.writes, 0);
	assert_int_equal(pool_add_groups(c->pool, NULL, 0), -EROFS);
	close_pool(c, true);
	/* And it is as it was: not exported. */
	c = reopen(o.guid, 1);
	assert_false(c->pool->was_exported);
	assert_int_equal(c->pool->import_counter, 2);
	close_pool(c, true);
}

static void test_rewind(void **state)
{
	struct client *c = create(TARN_GROUP_MIRROR, 2);
	uint64_t guid = c->pool->guid;
	struct sim *only[2] = {sims[0], NULL};
	struct opening o = {
	    .guid = guid, .skip = 2, .flags = TARN_REWIND, .sims = sims, .nsims = 2};

	(void)state;
	for (uint64_t value = 2; value <= 9; value++)
		set(c, value);
	close_pool(c, true);
	/* Without the second device. */
	o.sims = only;
	assert_int_equal(open_pool(&o, &c), 0);
	assert_int_equal(c->value, 7);
	set(c, 100);
	close_pool(c, true);
	/* It comes back with an abandoned future. */
	c = reopen(guid, 2);
	assert_int_equal(c->value, 100);
	set(c, 101);
	close_pool(c, true);
	c = reopen(guid, 2);
	assert_int_equal(c->value, 101);
	close_pool(c, true);
	o.skip = 100;
	assert_int_equal(open_pool(&o, &c), -ENOENT);
}

/* A newest uberblock that is damaged everywhere leaves the one before. */
static void test_uberblock_lost(void **state)
{
	struct client *c = create(TARN_GROUP_SINGLE, 1);
	uint64_t guid = c->pool->guid, slot;

	(void)state;
	set(c, 2);
	set(c, 3);
	slot = UBER_OFFSET + c->pool->uber.txg % UBER_SLOTS * SECTOR_SIZE;
	close_pool(c, false);
	sim_flip(sims[0], slot + 50, 1);
	sim_flip(sims[0], SIM_SIZE - LABEL_AREA + slot + 50, 1);
	c = reopen(guid, 1);
	assert_int_equal(c->value, 2);
	set(c, 4);
	close_pool(c, false);
	c = reopen(guid, 1);
	assert_int_equal(c->value, 4);
	close_pool(c, true);
}

static void test_copies(void **state)
{
	struct client *c = create(TARN_GROUP_MIRROR, 2);
	struct sim *three[3];
	struct opening o = {.guid = c->pool->guid, .sims = three, .nsims = 3};

	(void)state;
	close_pool(c, true);
	three[0] = sims[0];
	three[1] = sims[1];
	three[2] = sims[2] = sim_cut(sims[0], SIM_CUT_ALL, 0, 0);
	assert_int_equal(open_pool(&o, &c), -EEXIST);
	/* An older copy is just not used. */
	c = reopen(o.guid, 2);
	set(c, 2);
	close_pool(c, true);
	assert_int_equal(open_pool(&o, &c), 0);
	assert_int_equal(c->value, 2);
	close_pool(c, true);
}

static void test_destroy(void **state)
{
	struct client *c = create(TARN_GROUP_MIRROR, 2);
	struct opening o = {.guid = c->pool->guid, .sims = sims, .nsims = 2};

	(void)state;
	assert_int_equal(pool_destroy(c->pool), 0);
	client_free(c);
	assert_int_equal(open_pool(&o, &c), -ENOENT);
}

/* ---- power cuts: a copy of all media after every write of one of them ---- */

#define CUTS_MAX 400

struct cuts {
	struct sim *media[CUTS_MAX][SIM_MAX];
	uint32_t n, nsims;
	uint64_t seed;
	pthread_mutex_t lock;
};

static void cut_all(struct sim *sim, uint64_t nth, void *arg)
{
	struct cuts *cuts = arg;

	(void)sim, (void)nth;
	pthread_mutex_lock(&cuts->lock);
	for (int how = 0; how < 2 && cuts->n < CUTS_MAX; how++, cuts->n++) {
		for (uint32_t i = 0; i < cuts->nsims; i++)
			cuts->media[cuts->n][i] =
			    how ? sim_cut(sims[i], SIM_CUT_NONE, 0, 0)
				: sim_cut(sims[i], SIM_CUT_RANDOM, test_random(&cuts->seed), 0);
	}
	pthread_mutex_unlock(&cuts->lock);
}

static struct cuts *cuts_begin(uint32_t nsims)
{
	struct cuts *cuts = calloc(1, sizeof(*cuts));

	cuts->nsims = nsims;
	cuts->seed = test_seed();
	pthread_mutex_init(&cuts->lock, NULL);
	for (uint32_t i = 0; i < nsims; i++)
		sim_on_write(sims[i], cut_all, cuts);
	return cuts;
}

static void cuts_stop(struct cuts *cuts)
{
	for (uint32_t i = 0; i < cuts->nsims; i++)
		sim_on_write(sims[i], NULL, NULL);
	assert_true(cuts->n > 0);
}

static void cuts_free(struct cuts *cuts)
{
	for (uint32_t k = 0; k < cuts->n; k++) {
		for (uint32_t i = 0; i < cuts->nsims; i++)
			sim_destroy(cuts->media[k][i]);
	}
	free(cuts);
}

/* Import after each cut: one of two values; and a commit after that holds. */
static void check_cuts(struct cuts *cuts, uint64_t guid, uint64_t before, uint64_t after)
{
	for (uint32_t k = 0; k < cuts->n; k++) {
		struct opening o = {.guid = guid, .sims = cuts->media[k], .nsims = cuts->nsims};
		struct client *c;
		int rc = open_pool(&o, &c);

		if (rc)
			fail_msg("cut %u: %s: %s", k, strerror(-rc), error.text);
		assert_true(c->value == before || c->value == after);
		set(c, 1000);
		close_pool(c, false);
		assert_int_equal(open_pool(&o, &c), 0);
		assert_int_equal(c->value, 1000);
		close_pool(c, true);
	}
}

static void test_cut_import(void **state)
{
	struct client *c = create(TARN_GROUP_MIRROR, 2);
	uint64_t guid = c->pool->guid;
	struct cuts *cuts;

	(void)state;
	set(c, 2);
	set(c, 3);
	close_pool(c, false);
	cuts = cuts_begin(2);
	c = reopen(guid, 2);
	set(c, 4);
	cuts_stop(cuts);
	close_pool(c, true);
	check_cuts(cuts, guid, 3, 4);
	cuts_free(cuts);
}

/* Whatever a rewind had overwritten when the power went: the newest uberblock is a whole state. */
static void test_cut_rewind(void **state)
{
	struct client *c = create(TARN_GROUP_SINGLE, 1);
	struct opening o = {
	    .guid = c->pool->guid, .skip = 2, .flags = TARN_REWIND, .sims = sims, .nsims = 1};
	bool seen[32] = {0};
	struct cuts *cuts;

	(void)state;
	for (uint64_t value = 2; value <= 9; value++)
		set(c, value);
	close_pool(c, false);
	cuts = cuts_begin(1);
	assert_int_equal(open_pool(&o, &c), 0);
	for (uint64_t value = 20; value <= 24; value++)
		set(c, value);
	cuts_stop(cuts);
	close_pool(c, true);
	for (uint32_t k = 0; k < cuts->n; k++) {
		for (o.skip = 0; o.skip < 3; o.skip++) {
			struct sim *cut = sim_cut(cuts->media[k][0], SIM_CUT_ALL, 0, 0);

			o.sims = &cut;
			assert_int_equal(open_pool(&o, &c), 0);
			assert_true(c->value < 10 || (c->value >= 20 && c->value <= 24));
			if (!o.skip)
				seen[c->value] = true;
			close_pool(c, true);
			sim_destroy(cut);
		}
	}
	assert_true(seen[9] && seen[7] && seen[20] && seen[23] && !seen[8]);
	cuts_free(cuts);
}

static void test_cut_add(void **state)
{
	struct client *c = create(TARN_GROUP_SINGLE, 1);
	struct pool_new_dev dev;
	struct pool_new_group group = {.kind = TARN_GROUP_SINGLE, .ndevs = 1, .devs = &dev};
	uint64_t guid = c->pool->guid;
	struct cuts *cuts;

	(void)state;
	set(c, 2);
	sims[1] = sim_create("second", SIM_SIZE, 512);
	dev = (struct pool_new_dev){open_sim(sims[1], 0), "/dev/second"};
	cuts = cuts_begin(2);
	assert_int_equal(pool_add_groups(c->pool, &group, 1), 0);
	assert_int_equal(c->pool->ndevs, 2);
	set(c, 3);
	set(c, 4);
	set(c, 5);
	cuts_stop(cuts);
	close_pool(c, true);
	for (uint32_t k = 0; k < cuts->n; k++) {
		struct opening o = {.guid = guid, .sims = cuts->media[k], .nsims = 2};

		if (open_pool(&o, &c))
			fail_msg("cut %u: %s", k, error.text);
		assert_in_range(c->value, 2, 5);
		close_pool(c, true);
	}
	cuts_free(cuts);
}

/* A device that fails while it is added is not part of the pool. */
static void test_failed_add(void **state)
{
	struct client *c = create(TARN_GROUP_SINGLE, 1);
	struct pool_new_dev dev;
	struct pool_new_group group = {.kind = TARN_GROUP_SINGLE, .ndevs = 1, .devs = &dev};
	uint64_t guid = c->pool->guid;

	(void)state;
	sims[1] = sim_create("second", SIM_SIZE, 512);
	for (uint64_t skip = 0; skip < 3; skip++) {
		static const uint64_t broken[] = {LABEL_AREA, UBER_OFFSET, SIM_SIZE - LABEL_AREA};

		sim_fail(sims[1], DEV_WRITE, 0, SIM_SIZE, 0, 0);
		sim_fail(sims[1], DEV_WRITE, broken[skip], LABEL_AREA / 2, -EIO, 0);
		dev = (struct pool_new_dev){open_sim(sims[1], 0), "/dev/second"};
		assert_int_not_equal(pool_add_groups(c->pool, &group, 1), 0);
		assert_int_equal(c->pool->ndevs, 1);
		set(c, 2 + skip);
	}
	close_pool(c, true);
	sim_fail(sims[1], DEV_WRITE, 0, SIM_SIZE, 0, 0);
	c = reopen(guid, 1);
	assert_int_equal(c->value, 4);
	dev = (struct pool_new_dev){open_sim(sims[1], 0), "/dev/second"};
	assert_int_equal(pool_add_groups(c->pool, &group, 1), 0);
	close_pool(c, true);
	c = reopen(guid, 2);
	close_pool(c, true);
}

static void test_cut_create(void **state)
{
	struct client *c;
	struct cuts *cuts;

	(void)state;
	for (int i = 0; i < 2; i++)
		sims[i] = sim_create("sim", SIM_SIZE, 512);
	cuts = cuts_begin(2);
	c = create(TARN_GROUP_MIRROR, 2);
	cuts_stop(cuts);
	for (uint32_t k = 0; k < cuts->n; k++) {
		struct opening o = {.guid = c->pool->guid, .sims = cuts->media[k], .nsims = 2};
		struct client *again;
		int rc = open_pool(&o, &again);

		if (!rc) {
			assert_int_equal(again->value, 1);
			close_pool(again, true);
		} else {
			assert_int_equal(rc, -ENOENT);
		}
	}
	close_pool(c, true);
	cuts_free(cuts);
}

/* A mirror's device fails in use, is taken out, and is brought back. */
/* In how many places the newest root can be read. */
static unsigned root_copies(const struct client *c)
{
	return chunk_good_cols(c->pool, chunk_find(c->pool, c->pool->uber.root.chunk));
}

static void test_fault_and_restore(void **state)
{
	struct client *c = create(TARN_GROUP_MIRROR, 2);
	uint64_t guid = c->pool->guid;

	(void)state;
	sim_fail(sims[0], DEV_FLUSH, 0, SIM_SIZE, -EIO, 0);
	set(c, 2);
	assert_int_equal(c->pool->devs[0].state, TARN_DEV_FAULTED);
	assert_int_equal(bring_back(c, &c->pool->devs[0]), -EIO);
	assert_int_equal(c->pool->devs[0].state, TARN_DEV_FAULTED);
	sim_fail(sims[0], DEV_FLUSH, 0, SIM_SIZE, 0, 0);
	set(c, 3);
	assert_int_equal(bring_back(c, &c->pool->devs[0]), 0);
	assert_int_equal(c->pool->devs[0].state, TARN_DEV_ONLINE);
	set(c, 4);
	close_pool(c, true);
	c = reopen(guid, 2);
	assert_int_equal(c->value, 4);
	close_pool(c, true);
}

/* What is written after a device has come back is on it, too. */
static void test_back_in_use(void **state)
{
	struct client *c = create(TARN_GROUP_MIRROR, 2);
	struct pool_dev *dev = &c->pool->devs[0];

	(void)state;
	assert_int_equal(root_copies(c), 2);
	sim_gone(sims[0], true);
	set(c, 2);
	assert_int_equal(dev->state, TARN_DEV_FAULTED);
	assert_int_equal(root_copies(c), 1);
	sim_gone(sims[0], false);
	assert_int_equal(bring_back(c, dev), 0);
	set(c, 3);
	assert_int_equal(root_copies(c), 2);
	close_pool(c, true);
}

/* A device that fails all writes of blocks, but none of labels and slab tables, is no reason to
   stop. */
static void fail_blocks(enum tarn_group_kind kind, uint32_t ndevs)
{
	struct client *c = create(kind, ndevs);
	uint64_t from = c->pool->devs[0].slab_start;

	sim_fail(sims[0], DEV_WRITE, from, SIM_SIZE - from - LABEL_AREA, -EIO, 0);
	for (uint64_t value = 2; value < 12; value++)
		set(c, value);
	assert_false(atomic_load(&c->pool->suspended));
	close_pool(c, true);
}

static void test_blocks_fail(void **state)
{
	fail_blocks(TARN_GROUP_MIRROR, 2);
	drop_sims(state);
	fail_blocks(TARN_GROUP_RAIDZ1, 3);
	drop_sims(state);
	fail_blocks(TARN_GROUP_RAIDZ2, 4);
}

#define TEST(fn) cmocka_unit_test_teardown(fn, drop_sims)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_slab_size),      TEST(test_create_and_open), TEST(test_bad_arguments),
	    TEST(test_create_fails),   TEST(test_names),           TEST(test_missing_devices),
	    TEST(test_missing_single), TEST(test_foreign_host),    TEST(test_host_of_the_same_id),
	    TEST(test_read_only),      TEST(test_rewind),          TEST(test_uberblock_lost),
	    TEST(test_copies),         TEST(test_destroy),         TEST(test_cut_import),
	    TEST(test_cut_rewind),     TEST(test_cut_add),         TEST(test_owner_wakes),
	    TEST(test_failed_add),     TEST(test_cut_create),      TEST(test_fault_and_restore),
	    TEST(test_back_in_use),    TEST(test_blocks_fail),
	};
	int failed;

	assert_int_equal(workq_create(2, &wq), 0);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	workq_destroy(wq);
	return failed;
}
