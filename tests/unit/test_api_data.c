// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * File data against arrays of bytes: random writes, reads, truncations, punches and seeks by
 * several threads, over exports and imports, with small caches; and the corners one by one.
 * Every test ends with a check of the whole pool.
 */
#include <errno.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/op.h"
#include "pool_fixture.h"
#include <cmocka.h>

#define MIB (1u << 20)
#define THREADS 4

/* Also for threads, which must not leave through cmocka. */
#define CHECK(cond, ...)                                                                           \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			print_error("%s:%d: %s: ", __FILE__, __LINE__, #cond);                     \
			print_error(__VA_ARGS__);                                                  \
			print_error("\n");                                                         \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* ---- files ---- */

static struct tarn_inode *file_create(struct fixture *f, const char *name)
{
	struct tarn_create how = {.type = TARN_REG, .set = {.mask = TARN_SET_MODE, .mode = 0644}};
	struct tarn_attr post, dir_post;
	struct tarn_commit token;
	struct tarn_inode *root, *inode;
	int err;

	CHECK(!tarn_root(f->ds, &root), "root");
	err = tarn_create(NULL, root, name, &how, &inode, &post, &dir_post, &token);
	CHECK(!err, "%s: %s", name, strerror(-err));
	tarn_inode_put(root);
	return inode;
}

static struct tarn_inode *file_lookup(struct fixture *f, const char *name)
{
	struct tarn_inode *root, *inode;

	CHECK(!tarn_root(f->ds, &root), "root");
	CHECK(!tarn_lookup(NULL, root, name, &inode), "%s", name);
	tarn_inode_put(root);
	return inode;
}

static void set_prop(struct fixture *f, const char *name, const char *value)
{
	struct tarn_prop prop = {name, value};
	struct tarn_error err;

	CHECK(!tarn_dataset_set(f->engine, FIXTURE_POOL, &prop, 1, &err), "%s=%s", name, value);
}

static int truncate_to(struct tarn_inode *inode, uint64_t size)
{
	struct tarn_setattr set = {.mask = TARN_SET_SIZE, .size = size};
	struct tarn_attr post;
	struct tarn_commit token;
	int err = tarn_setattr(NULL, inode, &set, &post, &token);

	CHECK(err || post.size == size, "%llu", (unsigned long long)post.size);
	return err;
}

static int punch(struct tarn_inode *inode, uint64_t offset, uint64_t length)
{
	struct tarn_commit token;

	return tarn_punch(NULL, inode, offset, length, &token);
}

static struct tarn_attr attr_of(struct tarn_inode *inode)
{
	struct tarn_attr attr;

	CHECK(!tarn_getattr(inode, &attr), "getattr");
	return attr;
}

static void fill_random(uint64_t *random, uint8_t *to, size_t n)
{
	bool compressible = test_random(random) % 2;

	for (size_t i = 0; i < n; i++)
		to[i] = (uint8_t)(compressible ? 'a' + i % 7 : test_random(random));
}

/* ---- a file and its model ---- */

struct twin {
	struct tarn_inode *inode;
	uint8_t *bytes, *buf; /* `max` bytes; zeros beyond size */
	uint64_t size, max;
	uint64_t random;
	uint64_t change;
};

static void twin_begin(struct twin *t, struct tarn_inode *inode, uint64_t max, uint64_t seed)
{
	*t = (struct twin){.inode = inode, .max = max, .random = seed};
	t->bytes = calloc(1, max);
	t->buf = malloc(max);
	CHECK(t->bytes && t->buf, "memory");
}

static void twin_end(struct twin *t)
{
	tarn_inode_put(t->inode);
	free(t->bytes);
	free(t->buf);
}

static uint64_t below(struct twin *t, uint64_t n)
{
	return test_random(&t->random) % n;
}

/* Mostly short, now and then long. */
static void pick_range(struct twin *t, uint64_t *offset, uint64_t *length)
{
	uint64_t reach = below(t, 3) ? t->max / 50 : t->max;

	*offset = below(t, below(t, 3) ? t->max / 10 : t->max);
	*length = 1 + below(t, below(t, 2) ? reach : 2000);
	if (*length > t->max - *offset)
		*length = t->max - *offset;
	if (below(t, 4) == 0) {
		*offset &= ~(uint64_t)4095;
		*length = (*length + 4095) & ~(uint64_t)4095;
		if (*length > t->max - *offset)
			*length = t->max - *offset;
	}
}

static void twin_read(struct twin *t, uint64_t offset, uint64_t length)
{
	uint64_t left = t->size > offset ? t->size - offset : 0;
	uint64_t expect = length < left ? length : left;
	size_t done;
	bool eof;
	int err;

	memset(t->buf, 0xee, length);
	err = fixture_read(t->inode, offset, t->buf, length, &done, &eof);
	CHECK(!err, "%s", strerror(-err));
	CHECK(done == expect, "%zu of %llu at %llu", done, (unsigned long long)expect,
	      (unsigned long long)offset);
	CHECK(eof == (length >= left), "eof");
	for (uint64_t i = 0; i < expect; i++)
		CHECK(t->buf[i] == t->bytes[offset + i],
		      "byte %llu is %02x, should be %02x (size %llu)",
		      (unsigned long long)(offset + i), t->buf[i], t->bytes[offset + i],
		      (unsigned long long)t->size);
}

static void twin_write(struct twin *t, uint64_t offset, uint64_t length)
{
	int err;

	fill_random(&t->random, t->buf, length);
	if (below(t, 8) == 0)
		memset(t->buf, 0, length);
	err = fixture_write(t->inode, offset, t->buf, length, below(t, 50) == 0);
	CHECK(!err, "%s", strerror(-err));
	memcpy(t->bytes + offset, t->buf, length);
	if (offset + length > t->size)
		t->size = offset + length;
}

static void twin_truncate(struct twin *t, uint64_t size)
{
	int err = truncate_to(t->inode, size);

	CHECK(!err, "%s", strerror(-err));
	if (size < t->size)
		memset(t->bytes + size, 0, t->size - size);
	t->size = size;
}

static void twin_punch(struct twin *t, uint64_t offset, uint64_t length)
{
	int err = punch(t->inode, offset, length);

	CHECK(!err, "%s", strerror(-err));
	if (offset < t->size)
		memset(t->bytes + offset, 0, length < t->size - offset ? length : t->size - offset);
}

/* Bytes that are not zero lie in data; a hole is all zeros. */
static void twin_seek(struct twin *t)
{
	uint64_t at = 0, data, hole;
	bool eof;

	while (at < t->size) {
		CHECK(!tarn_seek(t->inode, at, false, &data, &eof), "seek");
		if (eof)
			data = t->size;
		CHECK(data >= at && data <= t->size, "data at %llu", (unsigned long long)data);
		for (uint64_t i = at; i < data; i++)
			CHECK(!t->bytes[i], "byte %llu in a hole", (unsigned long long)i);
		if (data == t->size)
			break;
		CHECK(!tarn_seek(t->inode, data, true, &hole, &eof) && !eof, "seek");
		/* Zeros that were data a moment ago may be written by now, and a hole. */
		CHECK(hole >= data && hole <= t->size, "hole at %llu", (unsigned long long)hole);
		at = hole;
	}
	CHECK(!tarn_seek(t->inode, t->size, false, &data, &eof) && eof, "seek at the end");
}

static void twin_attr(struct twin *t)
{
	struct tarn_attr attr = attr_of(t->inode);

	CHECK(attr.size == t->size, "size %llu, should be %llu", (unsigned long long)attr.size,
	      (unsigned long long)t->size);
	CHECK(attr.change >= t->change, "change went back");
	CHECK(attr.space <= 2 * t->max, "space %llu", (unsigned long long)attr.space);
	t->change = attr.change;
}

static void twin_step(struct twin *t)
{
	uint64_t offset, length;

	pick_range(t, &offset, &length);
	switch (below(t, 12)) {
	case 0:
		twin_truncate(t, below(t, 2) ? offset : below(t, 5000));
		break;
	case 1:
		if (below(t, 4) == 0)
			twin_truncate(t, 0);
		break;
	case 2:
		twin_punch(t, offset, length);
		break;
	case 3:
		twin_seek(t);
		break;
	case 4:
		if (below(t, 10) == 0)
			CHECK(!fixture_fsync(t->inode), "fsync");
		break;
	case 5:
		twin_read(t, 0, t->max);
		break;
	case 6:
	case 7:
		twin_read(t, offset, length);
		break;
	default:
		twin_write(t, offset, length);
	}
	twin_attr(t);
}

/* ---- random operations by threads ---- */

static void *twin_thread(void *arg)
{
	struct twin *t = arg;

	for (unsigned i = 0; i < 60 * test_scale(); i++)
		twin_step(t);
	return NULL;
}

static void run_twins(struct twin *twins, unsigned n, void *(*fn)(void *))
{
	pthread_t thread[2 * THREADS];

	for (unsigned i = 0; i < n; i++)
		CHECK(!pthread_create(&thread[i], NULL, fn, &twins[i]), "thread");
	for (unsigned i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
}

static void test_random_operations(void **state)
{
	static const char *const recordsize[THREADS] = {"4K", "16K", "128K", "1M"};
	struct fixture f;
	struct twin twins[THREADS];
	uint64_t seed = test_seed();
	char name[16];

	(void)state;
	fixture_begin(&f, 1, 512ull * MIB, false, NULL);
	for (unsigned i = 0; i < THREADS; i++) {
		set_prop(&f, "recordsize", recordsize[i]);
		snprintf(name, sizeof(name), "f%u", i);
		twin_begin(&twins[i], file_create(&f, name), (i + 1) * 700000, seed + i + 1);
	}
	for (unsigned round = 0; round < 4; round++) {
		run_twins(twins, THREADS, twin_thread);
		for (unsigned i = 0; i < THREADS; i++)
			tarn_inode_put(twins[i].inode);
		fixture_remount(&f);
		set_prop(&f, "compression", round % 2 ? "zstd" : "off");
		for (unsigned i = 0; i < THREADS; i++) {
			snprintf(name, sizeof(name), "f%u", i);
			twins[i].inode = file_lookup(&f, name);
			twin_attr(&twins[i]);
			twin_read(&twins[i], 0, twins[i].max);
			twin_seek(&twins[i]);
		}
	}
	for (unsigned i = 0; i < THREADS; i++)
		twin_end(&twins[i]);
	fixture_end(&f);
}

/* ---- threads in one file, each in stripes of its own ---- */

#define STRIPE 1500u

struct striper {
	struct twin *t;
	unsigned index;
	uint64_t random;
};

static void *striper_thread(void *arg)
{
	struct striper *s = arg;
	uint64_t stripes = s->t->max / STRIPE / THREADS;
	uint8_t buf[STRIPE];
	size_t done;
	bool eof;

	for (unsigned i = 0; i < 300 * test_scale(); i++) {
		uint64_t n = test_random(&s->random) % stripes;
		uint64_t at = (n * THREADS + s->index) * STRIPE;

		if (test_random(&s->random) % 3) {
			fill_random(&s->random, buf, STRIPE);
			CHECK(!fixture_write(s->t->inode, at, buf, STRIPE, false), "write");
			memcpy(s->t->bytes + at, buf, STRIPE);
		} else if (test_random(&s->random) % 8 == 0) {
			CHECK(!punch(s->t->inode, at, STRIPE), "punch");
			memset(s->t->bytes + at, 0, STRIPE);
		} else {
			CHECK(!fixture_read(s->t->inode, at, buf, STRIPE, &done, &eof), "read");
			CHECK(!memcmp(buf, s->t->bytes + at, done), "stripe at %llu",
			      (unsigned long long)at);
		}
	}
	return NULL;
}

static void test_one_file(void **state)
{
	static const char *const recordsize[] = {"4K", "128K"};
	uint64_t seed = test_seed();

	(void)state;
	for (unsigned r = 0; r < 2; r++) {
		struct striper s[THREADS];
		pthread_t thread[THREADS];
		struct fixture f;
		struct twin t;

		fixture_begin(&f, 1, 512ull * MIB, false, NULL);
		set_prop(&f, "recordsize", recordsize[r]);
		twin_begin(&t, file_create(&f, "shared"), 600000, seed);
		twin_truncate(&t, t.max);
		for (unsigned i = 0; i < THREADS; i++) {
			s[i] = (struct striper){&t, i, seed + i + 1};
			CHECK(!pthread_create(&thread[i], NULL, striper_thread, &s[i]), "thread");
		}
		for (unsigned i = 0; i < THREADS; i++)
			pthread_join(thread[i], NULL);
		twin_read(&t, 0, t.max);
		tarn_inode_put(t.inode);
		fixture_remount(&f);
		t.inode = file_lookup(&f, "shared");
		twin_read(&t, 0, t.max);
		twin_end(&t);
		fixture_end(&f);
	}
}

/* ---- everything at once in one file ---- */

/* A byte is 0 or the only other one that belongs there. */
static uint8_t byte_at(uint64_t offset)
{
	return (uint8_t)((offset * 0x9e3779b97f4a7c15u) >> 56) | 1;
}

static void chaos_write(struct striper *s, uint64_t at, uint64_t n)
{
	uint8_t *buf = malloc(n);

	CHECK(buf, "memory");
	for (uint64_t i = 0; i < n; i++)
		buf[i] = byte_at(at + i);
	CHECK(!fixture_write(s->t->inode, at, buf, n, false), "write");
	free(buf);
}

static void chaos_read(struct striper *s, uint64_t at, uint64_t n)
{
	uint8_t *buf = malloc(n);
	size_t done;
	bool eof;

	CHECK(buf, "memory");
	CHECK(!fixture_read(s->t->inode, at, buf, n, &done, &eof), "read");
	for (uint64_t i = 0; i < done; i++)
		CHECK(!buf[i] || buf[i] == byte_at(at + i), "byte %llu is %02x",
		      (unsigned long long)(at + i), buf[i]);
	free(buf);
}

static void *chaos_thread(void *arg)
{
	struct striper *s = arg;

	for (unsigned i = 0; i < 200 * test_scale(); i++) {
		uint64_t at = test_random(&s->random) % s->t->max;
		uint64_t n = 1 + test_random(&s->random) % 30000, out;
		bool eof;

		if (test_random(&s->random) % 4 == 0)
			at %= 1200;
		switch (test_random(&s->random) % 10) {
		case 0:
			CHECK(!truncate_to(s->t->inode, at), "truncate");
			break;
		case 1:
			CHECK(!punch(s->t->inode, at, n * 3), "punch");
			break;
		case 2:
			CHECK(!tarn_seek(s->t->inode, at, n % 2, &out, &eof), "seek");
			break;
		case 3:
			if (n % 8 == 0)
				CHECK(!fixture_fsync(s->t->inode), "fsync");
			break;
		case 4:
		case 5:
		case 6:
			chaos_read(s, at, n * 2);
			break;
		default:
			chaos_write(s, at, n);
		}
	}
	return NULL;
}

static void test_chaos(void **state)
{
	uint64_t seed = test_seed();
	struct striper s[THREADS];
	pthread_t thread[THREADS];
	struct fixture f;
	struct twin t;

	(void)state;
	fixture_begin(&f, 1, 256ull * MIB, false, NULL);
	set_prop(&f, "recordsize", "16K");
	twin_begin(&t, file_create(&f, "chaos"), 400000, seed);
	for (unsigned i = 0; i < THREADS; i++) {
		s[i] = (struct striper){&t, i, seed + i + 1};
		CHECK(!pthread_create(&thread[i], NULL, chaos_thread, &s[i]), "thread");
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	tarn_inode_put(t.inode);
	fixture_remount(&f);
	t.inode = file_lookup(&f, "chaos");
	chaos_read(s, 0, t.max);
	twin_end(&t);
	fixture_end(&f);
}

/* ---- the pool goes while writes come ---- */

struct until_gone {
	struct twin t;
	sem_t *busy;
};

static void *until_gone(void *arg)
{
	struct until_gone *u = arg;
	struct twin *t = &u->t;
	int err = 0;

	for (unsigned i = 0; !err; i++) {
		uint64_t at = below(t, t->max / 4096) * 4096;

		fill_random(&t->random, t->buf, 4096);
		err = fixture_write(t->inode, at, t->buf, 4096, below(t, 10) == 0);
		CHECK(!err || err == -ENXIO, "%s", strerror(-err));
		if (!err) {
			memcpy(t->bytes + at, t->buf, 4096);
			t->size = at + 4096 > t->size ? at + 4096 : t->size;
		}
		if (i == 20)
			sem_post(u->busy);
	}
	return NULL;
}

static void test_export(void **state)
{
	uint64_t seed = test_seed();
	struct until_gone u[THREADS];
	pthread_t thread[THREADS];
	struct fixture f;
	char name[16];
	sem_t busy;

	(void)state;
	sem_init(&busy, 0, 0);
	fixture_begin(&f, 1, 256ull * MIB, false, NULL);
	for (unsigned i = 0; i < THREADS; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		twin_begin(&u[i].t, file_create(&f, name), 500000, seed + i);
		u[i].busy = &busy;
		CHECK(!pthread_create(&thread[i], NULL, until_gone, &u[i]), "thread");
	}
	for (unsigned i = 0; i < THREADS; i++)
		sem_wait(&busy);
	fixture_remount(&f);
	for (unsigned i = 0; i < THREADS; i++) {
		struct twin *t = &u[i].t;

		pthread_join(thread[i], NULL);
		tarn_inode_put(t->inode);
		snprintf(name, sizeof(name), "f%u", i);
		t->inode = file_lookup(&f, name);
		twin_attr(t);
		twin_read(t, 0, t->max);
		twin_end(t);
	}
	fixture_end(&f);
	sem_destroy(&busy);
}

/* ---- many writes in flight ---- */

#define FLIGHT 200

struct flight {
	struct tarn_io io;
	struct iovec iov;
	sem_t *landed;
};

static void landed(struct tarn_io *io)
{
	struct flight *w = io->owner;

	sem_post(w->landed);
}

static void launch(struct flight *w, struct twin *t, sem_t *sem, uint64_t offset, size_t length)
{
	fill_random(&t->random, t->bytes + offset, length);
	w->landed = sem;
	w->iov = (struct iovec){t->bytes + offset, length};
	w->io = (struct tarn_io){.inode = t->inode,
				 .write = true,
				 .stable = below(t, 20) == 0,
				 .offset = offset,
				 .iov = &w->iov,
				 .iovcnt = 1,
				 .length = length,
				 .done = landed,
				 .owner = w};
	if (offset + length > t->size)
		t->size = offset + length;
	tarn_write(NULL, &w->io);
}

static int by_change(const void *a, const void *b)
{
	const struct flight *x = a, *y = b;

	return x->io.post.change < y->io.post.change ? -1 : x->io.post.change > y->io.post.change;
}

/* Sizes and change numbers in the answers are those of some order of the writes. */
static void check_order(struct flight *w, unsigned n)
{
	uint64_t size = 0;

	qsort(w, n, sizeof(*w), by_change);
	for (unsigned i = 0; i < n; i++) {
		uint64_t end = w[i].io.offset + w[i].io.length;

		CHECK(w[i].io.result == 0, "%s", strerror(-w[i].io.result));
		CHECK(!i || w[i].io.post.change > w[i - 1].io.post.change, "change repeats");
		size = end > size ? end : size;
		CHECK(w[i].io.post.size == size, "size %llu, should be %llu",
		      (unsigned long long)w[i].io.post.size, (unsigned long long)size);
	}
}

static void test_in_flight(void **state)
{
	struct flight *w = calloc(FLIGHT, sizeof(*w));
	struct fixture f;
	struct twin t;
	sem_t sem;

	(void)state;
	CHECK(w, "memory");
	sem_init(&sem, 0, 0);
	fixture_begin(&f, 1, 512ull * MIB, false, NULL);
	twin_begin(&t, file_create(&f, "flight"), FLIGHT * 33333ull, test_seed());
	for (unsigned i = 0; i < FLIGHT; i++)
		launch(&w[i], &t, &sem, (i * 77 % FLIGHT) * 33333ull, 33333);
	for (unsigned i = 0; i < FLIGHT; i++)
		sem_wait(&sem);
	check_order(w, FLIGHT);
	twin_read(&t, 0, t.max);
	tarn_inode_put(t.inode);
	fixture_remount(&f);
	t.inode = file_lookup(&f, "flight");
	twin_read(&t, 0, t.max);
	twin_end(&t);
	fixture_end(&f);
	sem_destroy(&sem);
	free(w);
}

/* ---- tiny files ---- */

static void test_tiny(void **state)
{
	static const unsigned sizes[] = {1, 511, 1023, 1024, 1025, 4095, 4096, 4097};
	struct fixture f;
	uint64_t seed = test_seed();

	(void)state;
	fixture_begin(&f, 1, 256ull * MIB, false, NULL);
	for (unsigned i = 0; i < 8; i++)
		for (unsigned j = 0; j < 8; j++) {
			struct twin t;
			char name[16];

			snprintf(name, sizeof(name), "t%u.%u", i, j);
			twin_begin(&t, file_create(&f, name), 10000, seed + i * 8 + j);
			twin_write(&t, 0, sizes[i]);
			if (sizes[i] <= 1024)
				CHECK(attr_of(t.inode).space > 0, "a file with data has blocks");
			twin_read(&t, 0, t.max);
			twin_truncate(&t, sizes[j]);
			twin_read(&t, 0, t.max);
			twin_truncate(&t, 9000);
			twin_read(&t, 0, t.max);
			twin_punch(&t, sizes[j] / 2, 100);
			twin_write(&t, sizes[j], 3);
			twin_write(&t, sizes[i] - 1, 1);
			twin_read(&t, 0, t.max);
			twin_read(&t, 1000, 50);
			twin_truncate(&t, 0);
			twin_write(&t, 5, 10);
			twin_read(&t, 0, t.max);
			twin_seek(&t);
			twin_attr(&t);
			twin_end(&t);
		}
	fixture_end(&f);
}

/* ---- truncation in many steps ---- */

static void test_truncate(void **state)
{
	struct fixture f;
	struct twin t;

	(void)state;
	fixture_begin(&f, 1, 512ull * MIB, false, NULL);
	set_prop(&f, "recordsize", "4K");
	set_prop(&f, "compression", "off");
	twin_begin(&t, file_create(&f, "long"), 5 * MIB, test_seed());
	for (unsigned i = 0; i < 3; i++) {
		memset(t.bytes, 'x', t.max);
		t.size = t.max;
		CHECK(!fixture_write(t.inode, 0, t.bytes, t.max, i == 1), "write");
		if (i)
			CHECK(!fixture_fsync(t.inode), "fsync");
		twin_truncate(&t, 12345);
		CHECK(attr_of(t.inode).space == 4 * 4096, "%llu",
		      (unsigned long long)attr_of(t.inode).space);
		twin_truncate(&t, t.max);
		twin_read(&t, 0, t.max);
	}
	tarn_inode_put(t.inode);
	fixture_remount(&f);
	t.inode = file_lookup(&f, "long");
	twin_read(&t, 0, t.max);
	twin_end(&t);
	fixture_end(&f);
}

/* What the first tx of a long truncation leaves, if nothing comes after it. */
static void truncate_begin(struct twin *t, uint64_t size)
{
	struct tarn_inode *inode = t->inode;
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_u64(key, 0, KEY_ORPHAN, inode->ino);
	struct fs *fs;
	struct op op;
	int err;

	CHECK(!fs_enter(inode, &fs), "enter");
	alock_write(&inode->lock);
	do {
		err = op_begin(&op, fs, TREE_RESERVE(2), TX_FREEING);
		if (!err)
			err = op_pin_inode(&op, inode);
		if (!err)
			err = op_pin(&op, key, klen);
		if (!err) {
			struct inode_record *rec = inode_dirty(&op.tx, inode);

			rec->size = size;
			rec->flags |= INODE_TRUNCATED;
			op_put(&op, key, klen, &size, sizeof(size));
		}
		err = op_end(&op, err);
	} while (err == -EAGAIN);
	alock_unlock(&inode->lock);
	dataset_leave(inode->ds);
	CHECK(!err, "%s", strerror(-err));
	memset(t->bytes + size, 0, t->size - size);
	t->size = size;
}

static void test_interrupted(void **state)
{
	struct fixture f;
	struct twin t;

	(void)state;
	fixture_begin(&f, 1, 256ull * MIB, false, NULL);
	set_prop(&f, "recordsize", "4K");
	set_prop(&f, "compression", "off");
	twin_begin(&t, file_create(&f, "long"), 3 * MIB, test_seed());
	for (unsigned i = 0; i < 2; i++) {
		memset(t.bytes, 'x', t.max);
		t.size = t.max;
		CHECK(!fixture_write(t.inode, 0, t.bytes, t.max, false), "write");
		truncate_begin(&t, 8192);
		/* Nothing old comes back. */
		CHECK(fixture_write(t.inode, 100000, "new", 3, false) == -EIO, "grown");
		twin_read(&t, 0, t.max);
		twin_write(&t, 100, 3);
		if (i) {
			tarn_inode_put(t.inode);
			fixture_remount(&f);
			t.inode = file_lookup(&f, "long");
		}
		twin_truncate(&t, t.max);
		CHECK(attr_of(t.inode).space == 8192, "space");
		twin_read(&t, 0, t.max);
	}
	twin_write(&t, 100000, 3);
	twin_read(&t, 0, t.max);
	twin_end(&t);
	fixture_end(&f);
}

/* ---- holes ---- */

static void test_holes(void **state)
{
	struct fixture f;
	struct twin t;
	uint64_t out;
	bool eof;

	(void)state;
	fixture_begin(&f, 1, 256ull * MIB, false, NULL);
	set_prop(&f, "recordsize", "16K");
	twin_begin(&t, file_create(&f, "sparse"), MIB, test_seed());
	/* Not written yet: data all the same. */
	CHECK(!fixture_write(t.inode, 65536, "data", 4, false), "write");
	memcpy(t.bytes + 65536, "data", 4);
	t.size = 65540;
	CHECK(!tarn_seek(t.inode, 0, false, &out, &eof) && !eof && out == 65536, "unsynced data");
	CHECK(!tarn_seek(t.inode, 0, true, &out, &eof) && !eof && out == 0, "hole at 0");
	CHECK(!tarn_seek(t.inode, 65536, true, &out, &eof) && !eof && out == 65540, "end");
	twin_truncate(&t, MIB);
	CHECK(!fixture_fsync(t.inode), "fsync");
	CHECK(!tarn_seek(t.inode, 0, false, &out, &eof) && out == 65536, "data");
	CHECK(!tarn_seek(t.inode, 65536, true, &out, &eof) && out == 65536 + 4096, "hole");
	CHECK(!tarn_seek(t.inode, 70000, false, &out, &eof) && eof, "no more data");
	CHECK(attr_of(t.inode).space == 4096, "space");
	/* A record of zeros takes nothing once it is written. */
	memset(t.buf, 0, 65536);
	CHECK(!fixture_write(t.inode, 131072, t.buf, 65536, false), "write");
	tarn_inode_put(t.inode);
	fixture_remount(&f);
	t.inode = file_lookup(&f, "sparse");
	CHECK(attr_of(t.inode).space == 4096, "space");
	CHECK(!tarn_seek(t.inode, 131072, false, &out, &eof) && eof, "zeros are a hole");
	twin_read(&t, 0, t.max);
	twin_punch(&t, 65536, 16384);
	CHECK(attr_of(t.inode).space == 0, "space");
	twin_read(&t, 0, t.max);
	twin_end(&t);
	fixture_end(&f);
}

/* ---- limits and answers ---- */

/* Where there is a hole already, a hole changes times and mode as anywhere. */
static void test_hole_in_hole(void **state)
{
	struct tarn_cred user = {.uid = 1000, .gid = 1000};
	struct tarn_setattr set = {.mask = TARN_SET_MODE, .mode = 04755};
	struct tarn_attr before, after;
	struct tarn_commit token;
	struct tarn_inode *file;
	struct fixture f;

	(void)state;
	fixture_begin(&f, 1, 64ull * MIB, false, NULL);
	file = file_create(&f, "short");
	assert_int_equal(fixture_write(file, 0, "short", 5, false), 0);
	assert_int_equal(truncate_to(file, 200000), 0);
	assert_int_equal(tarn_setattr(NULL, file, &set, &before, &token), 0);
	assert_int_equal(tarn_punch(&user, file, 90000, 4096, &token), 0);
	assert_int_not_equal(token.txg, 0);
	assert_int_equal(tarn_getattr(file, &after), 0);
	assert_int_equal(after.mode, 0755);
	assert_int_equal(after.size, 200000);
	assert_true(after.change > before.change);
	/* Behind the end nothing changes. */
	assert_int_equal(tarn_punch(&user, file, 200000, 4096, &token), 0);
	assert_int_equal(token.txg, 0);
	tarn_inode_put(file);
	fixture_end(&f);
}

static void test_answers(void **state)
{
	struct tarn_cred user = {.uid = 1000, .gid = 1000};
	struct tarn_setattr set = {.mask = TARN_SET_MODE, .mode = 06755};
	struct tarn_commit token;
	struct tarn_attr post;
	struct tarn_inode *inode, *root;
	struct fixture f;
	struct flight w = {0};
	sem_t sem;
	size_t done;
	bool eof;
	char c = 'x';

	(void)state;
	sem_init(&sem, 0, 0);
	fixture_begin(&f, 1, 256ull * MIB, false, NULL);
	inode = file_create(&f, "file");
	CHECK(!tarn_root(f.ds, &root), "root");
	CHECK(fixture_write(root, 0, &c, 1, false) == -EISDIR, "a directory");
	CHECK(fixture_read(root, 0, &c, 1, &done, &eof) == -EISDIR, "a directory");
	tarn_inode_put(root);
	CHECK(fixture_write(inode, (uint64_t)1 << 62, &c, 1, false) == -EFBIG, "too big");
	CHECK(fixture_write(inode, UINT64_MAX, &c, 1, false) == -EFBIG, "too big");
	CHECK(truncate_to(inode, ((uint64_t)1 << 62) + 1) == -EFBIG, "too big");
	CHECK(!fixture_write(inode, ((uint64_t)1 << 62) - 1, &c, 1, true), "the last byte");
	CHECK(!fixture_read(inode, ((uint64_t)1 << 62) - 1, &c, 1, &done, &eof), "read");
	CHECK(done == 1 && eof && c == 'x', "the last byte");
	CHECK(!fixture_read(inode, UINT64_MAX, &c, 1, &done, &eof) && !done && eof, "beyond");
	CHECK(!fixture_write(inode, 0, &c, 0, false), "nothing");
	CHECK(!truncate_to(inode, 0), "truncate");

	/* A write of a user takes suid and sgid, one of the superuser does not. */
	CHECK(!tarn_setattr(NULL, inode, &set, &post, &token), "chmod");
	CHECK(!fixture_write(inode, 0, &c, 1, false), "write");
	CHECK(attr_of(inode).mode == 06755, "mode");
	w.landed = &sem;
	w.iov = (struct iovec){&c, 1};
	w.io = (struct tarn_io){.inode = inode,
				.write = true,
				.iov = &w.iov,
				.iovcnt = 1,
				.length = 1,
				.done = landed,
				.owner = &w};
	tarn_write(&user, &w.io);
	sem_wait(&sem);
	CHECK(!w.io.result && w.io.post.mode == 0755, "mode %o", w.io.post.mode);

	set_prop(&f, "readonly", "on");
	CHECK(fixture_write(inode, 0, &c, 1, false) == -EROFS, "readonly");
	CHECK(punch(inode, 0, 1) == -EROFS, "readonly");
	set_prop(&f, "readonly", "off");
	fixture_remount(&f);
	CHECK(fixture_write(inode, 0, &c, 1, false) == -ENXIO, "an inode of before");
	CHECK(fixture_read(inode, 0, &c, 1, &done, &eof) == -ENXIO, "an inode of before");
	CHECK(fixture_fsync(inode) == -ENXIO, "an inode of before");
	tarn_inode_put(inode);
	fixture_end(&f);
	sem_destroy(&sem);
}

/* ---- a full pool ---- */

/* Writes until there is no room; what was accepted is in the model. */
static void fill(struct twin *t, size_t piece)
{
	int err = 0;

	while (!err && t->size + piece <= t->max) {
		for (size_t i = 0; i < piece; i++)
			t->buf[i] = (uint8_t)test_random(&t->random);
		err = fixture_write(t->inode, t->size, t->buf, piece, false);
		CHECK(!err || err == -ENOSPC, "%s", strerror(-err));
		if (!err) {
			memcpy(t->bytes + t->size, t->buf, piece);
			t->size += piece;
		}
	}
	CHECK(err == -ENOSPC, "never full");
}

static void test_full(void **state)
{
	struct fixture f;
	struct twin t;
	struct tarn_commit token;

	(void)state;
	fixture_begin(&f, 1, 96ull * MIB, false, NULL);
	twin_begin(&t, file_create(&f, "big"), 128ull * MIB, test_seed());
	fill(&t, MIB);
	fill(&t, 4096);
	twin_attr(&t);
	CHECK(tarn_allocate(NULL, t.inode, 0, 1ull << 40, &token) == -ENOSPC, "allocate");
	twin_attr(&t);
	CHECK(!tarn_allocate(NULL, t.inode, 0, t.size, &token), "allocate what is there");
	tarn_inode_put(t.inode);
	fixture_remount(&f);
	t.inode = file_lookup(&f, "big");
	twin_read(&t, 0, t.max);
	/* On the full pool, part of it goes, and there is room again. */
	twin_punch(&t, 1000, 20 * MIB + 777);
	twin_truncate(&t, t.size - 10 * MIB - 5);
	CHECK(!fixture_fsync(t.inode), "fsync");
	for (unsigned i = 0; i < 8; i++)
		twin_write(&t, (4 + i) * MIB + 5, MIB);
	twin_read(&t, 0, t.max);
	twin_truncate(&t, 0);
	CHECK(!fixture_fsync(t.inode), "fsync");
	fill(&t, MIB);
	twin_read(&t, 0, t.max);
	twin_end(&t);
	fixture_end(&f);
}

static void test_allocate(void **state)
{
	struct fixture f;
	struct twin t;
	struct tarn_commit token;

	(void)state;
	fixture_begin(&f, 1, 256ull * MIB, false, NULL);
	twin_begin(&t, file_create(&f, "file"), MIB, test_seed());
	twin_write(&t, 0, 5000);
	CHECK(!tarn_allocate(NULL, t.inode, 1000, 100000, &token) && token.txg, "allocate");
	t.size = 101000;
	twin_attr(&t);
	CHECK(!tarn_allocate(NULL, t.inode, 0, 1000, &token), "allocate");
	twin_attr(&t);
	twin_read(&t, 0, t.max);
	CHECK(tarn_allocate(NULL, t.inode, 0, 0, &token) == -EINVAL, "nothing");
	CHECK(tarn_allocate(NULL, t.inode, 1, UINT64_MAX, &token) == -EFBIG, "too much");
	twin_end(&t);
	fixture_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_tiny),         cmocka_unit_test(test_holes),
	    cmocka_unit_test(test_truncate),     cmocka_unit_test(test_interrupted),
	    cmocka_unit_test(test_hole_in_hole), cmocka_unit_test(test_answers),
	    cmocka_unit_test(test_allocate),     cmocka_unit_test(test_in_flight),
	    cmocka_unit_test(test_one_file),     cmocka_unit_test(test_random_operations),
	    cmocka_unit_test(test_chaos),        cmocka_unit_test(test_export),
	    cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
