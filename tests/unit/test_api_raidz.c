// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * A raidz pool through the public API: damage in each column of its blocks is found by tarnck, told
 * by device, and healed by reading; what it says of its space; devices lost while it is written.
 */
#include "pool_fixture.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "dataset/catalog.h"
#include "pool/chunk.h"
#include "pool/label.h"
#include "tree/tree.h"

#define DEVS 4
#define DEV_BYTES (128ull << 20)
#define BLOCKS 64

/* Whole records, one with an end in a column, one of two sectors, one of a single one. */
static const uint32_t sizes[] = {1 << 20, 300001, 8000, 4000};
#define FILES (sizeof(sizes) / sizeof(sizes[0]))

static uint8_t data[1 << 20], back[1 << 20];

static void content(unsigned i)
{
	uint64_t x = i + 1;

	for (uint32_t k = 0; k + 8 <= sizeof(data); k += 8) {
		uint64_t v = test_random(&x);

		memcpy(data + k, &v, 8);
	}
}

static void write_files(struct fixture *f, unsigned first)
{
	struct tarn_create how = {.type = TARN_REG};
	struct tarn_inode *root, *inode;
	struct tarn_commit token;

	assert_int_equal(tarn_root(f->ds, &root), 0);
	for (unsigned i = 0; i < FILES; i++) {
		char name[16];

		snprintf(name, sizeof(name), "file%u", first + i);
		content(first + i);
		assert_int_equal(tarn_create(NULL, root, name, &how, &inode, NULL, NULL, &token),
				 0);
		assert_int_equal(fixture_write(inode, 0, data, sizes[i], false), 0);
		assert_int_equal(fixture_fsync(inode), 0);
		tarn_inode_put(inode);
	}
	tarn_inode_put(root);
}

static void read_files(struct fixture *f, unsigned first)
{
	struct tarn_inode *root, *inode;

	assert_int_equal(tarn_root(f->ds, &root), 0);
	for (unsigned i = 0; i < FILES; i++) {
		char name[16];
		size_t got;
		bool eof;

		snprintf(name, sizeof(name), "file%u", first + i);
		content(first + i);
		assert_int_equal(tarn_lookup(NULL, root, name, &inode), 0);
		assert_int_equal(fixture_read(inode, 0, back, sizes[i], &got, &eof), 0);
		assert_int_equal(got, sizes[i]);
		assert_memory_equal(data, back, got);
		tarn_inode_put(inode);
	}
	tarn_inode_put(root);
}

static void export_pool(struct fixture *f)
{
	struct tarn_error err = {0};

	tarn_dataset_put(f->ds);
	if (tarn_pool_export(f->engine, FIXTURE_POOL, 0, &err))
		fail_msg("export: %s", err.text);
}

static int try_import(struct fixture *f, const char *const *paths, uint32_t n)
{
	struct tarn_import_spec spec = {.name = FIXTURE_POOL, .paths = paths, .npaths = n};
	struct tarn_error err = {0};
	int rc = tarn_pool_import(f->engine, &spec, &err);

	return rc ? rc : tarn_dataset_open(f->engine, FIXTURE_POOL, NULL, &f->ds);
}

/* ---- where columns lie ---- */

struct column {
	char path[96];
	uint64_t offset;
};
struct block {
	unsigned data, used, ncols;
	uint32_t psize;
	struct column cols[DEVS];
};
struct view {
	struct pool *pool;
	struct block blocks[BLOCKS];
	unsigned n;
};

static int on_slot(void *arg, const void *key, uint32_t klen, enum slot_kind kind, const void *val,
		   uint32_t vlen, const struct bp *bp)
{
	struct view *v = arg;
	const struct chunk *c;
	struct block *b = &v->blocks[v->n];
	struct stripe st;

	(void)key;
	(void)klen;
	(void)val;
	(void)vlen;
	if (kind != SLOT_BLOCK || bp_is_hole(bp))
		return 0;
	assert_true(v->n++ < BLOCKS);
	c = chunk_find(v->pool, bp->chunk);
	assert_non_null(c);
	st = chunk_stripe(c, bp->psize);
	*b = (struct block){.data = chunk_parity(c) ? st.data : c->ncols,
			    .used = chunk_parity(c) ? stripe_used_cols(&st) : c->ncols,
			    .ncols = c->ncols,
			    .psize = bp->psize};
	for (unsigned i = 0; i < c->ncols; i++) {
		strcpy(b->cols[i].path, v->pool->devs[c->cols[i].dev].path);
		b->cols[i].offset = chunk_offset(v->pool, c, i, bp->sector);
	}
	return 0;
}

static int on_pool_slot(void *arg, const void *key_, uint32_t klen, enum slot_kind kind,
			const void *val, uint32_t vlen, const struct bp *bp)
{
	static const struct tree_walk_ops ops = {NULL, on_slot, NULL};
	const uint8_t *key = key_;
	struct dataset_record rec;
	struct view *v = arg;

	(void)klen;
	(void)kind;
	(void)bp;
	if (key[0] != CAT_DATASET)
		return 0;
	assert_int_equal(vlen, sizeof(rec));
	memcpy(&rec, val, sizeof(rec));
	return tree_walk(v->pool, NULL, &rec.root, &ops, v);
}

/* The data blocks of the exported pool. */
static void view(struct fixture *f, struct view *v)
{
	static const struct tree_walk_ops ops = {NULL, on_pool_slot, NULL};
	static const struct tarn_config config;
	struct pool_open_args args = {
	    .paths = f->paths, .ndevs = DEVS, .flags = TARN_READ_ONLY | TARN_FORCE};
	struct label *label = dev_buf_alloc(sizeof(*label));
	struct dev *devs[DEVS];
	struct tarn_error err = {0};
	struct workq *wq;

	v->n = 0;
	for (unsigned i = 0; i < DEVS; i++)
		assert_int_equal(dev_open(f->path[i], DEV_OPEN_RDONLY, &devs[i]), 0);
	assert_int_equal(label_read(devs[0], label), 0);
	args.guid = label->pool_guid;
	args.devs = devs;
	free(label);
	assert_int_equal(workq_create(1, &wq), 0);
	assert_int_equal(pool_open(&args, &config, wq, &v->pool, &err), 0);
	assert_int_equal(tree_walk(v->pool, NULL, &v->pool->uber.root, &ops, v), 0);
	pool_close(v->pool, false);
	workq_destroy(wq);
}

static void flip(const struct column *c)
{
	int fd = open(c->path, O_RDWR | O_CLOEXEC);
	uint8_t byte;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, (off_t)c->offset + 77), 1);
	byte ^= 0x10;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)c->offset + 77), 1);
	close(fd);
}

/* ---- tarnck ---- */

struct found {
	unsigned n, count[TARN_FOUND_KINDS];
	char text[512]; /* of the last one */
};

static void note(void *arg, const struct tarn_finding *finding)
{
	struct found *found = arg;

	found->n++;
	found->count[finding->kind]++;
	snprintf(found->text, sizeof(found->text), "%s", finding->text);
}

static struct found check(const char *const *paths, uint32_t n)
{
	struct found found = {0};
	struct tarn_check_spec spec = {.name = FIXTURE_POOL,
				       .paths = paths,
				       .npaths = n,
				       .uberblocks = 1,
				       .finding = note,
				       .arg = &found};
	struct tarn_check_result result;
	struct tarn_error err = {0};

	if (tarn_check(&spec, &result, &err))
		fail_msg("tarnck: %s", err.text);
	return found;
}

/* One wrong byte in any column: tarnck names the device and what it has; two: the block is lost. */
static void test_tarnck(void **state)
{
	struct fixture f;
	struct view v;

	(void)state;
	fixture_begin_kind(&f, DEVS, DEV_BYTES, TARN_GROUP_RAIDZ1, NULL);
	write_files(&f, 0);
	export_pool(&f);
	view(&f, &v);
	assert_true(v.n >= FILES);
	for (unsigned i = 0; i < v.n; i++) {
		const struct block *b = &v.blocks[i];
		const char *what = b->ncols < DEVS ? "copy" : "data";
		struct found found;

		/* Of the many alike, a few. */
		if (i > 2 && b->psize == v.blocks[i - 1].psize)
			continue;
		for (unsigned col = 0; col < b->ncols; col++) {
			flip(&b->cols[col]);
			found = check(f.paths, DEVS);
			assert_int_equal(found.n, 1);
			assert_int_equal(found.count[TARN_FOUND_COPY], 1);
			assert_non_null(strstr(found.text, b->cols[col].path));
			assert_non_null(strstr(found.text, col >= b->data ? "parity" : what));
			flip(&b->cols[col]);
		}
		flip(&b->cols[0]);
		flip(&b->cols[b->ncols - 1]);
		found = check(f.paths, DEVS);
		assert_int_equal(found.count[TARN_FOUND_BLOCK], 1);
		flip(&b->cols[0]);
		flip(&b->cols[b->ncols - 1]);
	}
	assert_int_equal(check(f.paths, DEVS).n, 0);
	/* Without one device all is there; it is missed. */
	for (unsigned i = 0; i < DEVS; i++) {
		const char *paths[DEVS - 1];
		unsigned n = 0;

		for (unsigned k = 0; k < DEVS; k++) {
			if (k != i)
				paths[n++] = f.path[k];
		}
		struct found found = check(paths, n);

		assert_int_equal(found.n, 1);
		assert_int_equal(found.count[TARN_FOUND_DEVICE], 1);
	}
	assert_int_equal(try_import(&f, f.paths, DEVS), 0);
	read_files(&f, 0);
	fixture_end(&f);
}

static uint64_t checksum_errors(struct fixture *f)
{
	struct tarn_pool_status *s;
	uint64_t n = 0;

	assert_int_equal(tarn_pool_status(f->engine, FIXTURE_POOL, &s), 0);
	for (uint32_t i = 0; i < s->ndevs; i++)
		n += s->devs[i].checksum_errors;
	tarn_pool_status_free(s);
	return n;
}

/* A column of each block lies, with the data or the parity that stands in for it. Reading heals. */
static void test_heals(void **state)
{
	struct fixture f;
	struct view v;

	(void)state;
	fixture_begin_kind(&f, DEVS, DEV_BYTES, TARN_GROUP_RAIDZ2, NULL);
	write_files(&f, 0);
	export_pool(&f);
	view(&f, &v);
	for (unsigned i = 0; i < v.n; i++) {
		flip(&v.blocks[i].cols[0]);
		flip(&v.blocks[i].cols[v.blocks[i].ncols - 1]);
	}
	assert_int_equal(check(f.paths, DEVS).n, 2 * v.n);
	assert_int_equal(try_import(&f, f.paths, DEVS), 0);
	read_files(&f, 0);
	assert_true(checksum_errors(&f) >= v.n);
	export_pool(&f);
	/* Of copies a read may have met only good ones. */
	unsigned left = check(f.paths, DEVS).n, copies = 0;

	for (unsigned i = 0; i < v.n; i++)
		copies += v.blocks[i].ncols < DEVS;
	assert_true(left <= 2 * copies);
	assert_int_equal(try_import(&f, f.paths, DEVS), 0);
	export_pool(&f);
	for (unsigned i = 0; i < v.n; i++) {
		for (unsigned col = 0; col < 3; col++)
			flip(&v.blocks[i].cols[col]);
	}
	assert_int_equal(check(f.paths, DEVS).count[TARN_FOUND_BLOCK], v.n - copies);
	assert_int_equal(try_import(&f, f.paths, DEVS), 0);
	tarn_dataset_put(f.ds);
	tarn_engine_destroy(f.engine);
	for (unsigned i = 0; i < DEVS; i++)
		unlink(f.path[i]);
	rmdir(f.dir);
}

/* A change of the pool that waits for its txg. */
static void commit(struct fixture *f)
{
	const struct tarn_prop comment = {.name = "comment", .value = "x"};
	struct tarn_error err = {0};

	assert_int_equal(tarn_dataset_set(f->engine, FIXTURE_POOL, &comment, 1, &err), 0);
}

/* Usable bytes are those of the devices without the parity; large files take what they hold. */
static void test_space(void **state)
{
	static const enum tarn_group_kind kinds[] = {TARN_GROUP_RAIDZ1, TARN_GROUP_RAIDZ2,
						     TARN_GROUP_RAIDZ3};

	(void)state;
	for (unsigned k = 0; k < 3; k++) {
		unsigned columns = DEVS - 1 - k;
		struct tarn_pool_status *s;
		struct fixture f;
		uint64_t before;

		fixture_begin_kind(&f, DEVS, DEV_BYTES, kinds[k], NULL);
		assert_int_equal(tarn_pool_status(f.engine, FIXTURE_POOL, &s), 0);
		assert_in_range(s->size, columns * (DEV_BYTES - (12 << 20)), columns * DEV_BYTES);
		before = s->allocated;
		tarn_pool_status_free(s);
		for (unsigned i = 0; i < 16; i++)
			write_files(&f, i * FILES);
		commit(&f);
		assert_int_equal(tarn_pool_status(f.engine, FIXTURE_POOL, &s), 0);
		/* 16 times 1.3 MB; rows have a padded end, and chunks of copies count as a whole.
		 */
		assert_in_range(s->allocated - before, 20 << 20, (24 << 20) + 2 * (8 << 20));
		assert_int_equal(s->free, s->size - s->allocated);
		tarn_pool_status_free(s);
		fixture_end(&f);
	}
}

/* Devices go one after the other over imports, and return; what was written meanwhile is there. */
static void test_devices_come_and_go(void **state)
{
	struct fixture f;
	unsigned n = 0;

	(void)state;
	fixture_begin_kind(&f, DEVS, DEV_BYTES, TARN_GROUP_RAIDZ2, NULL);
	write_files(&f, n++ * FILES);
	/* Two are away at a time. The one that stays has all that was written meanwhile. */
	for (unsigned round = 0; round < 2; round++) {
		const char *paths[] = {f.path[round], f.path[round + 1]};

		export_pool(&f);
		assert_int_equal(try_import(&f, paths, 2), 0);
		write_files(&f, n++ * FILES);
		for (unsigned i = 0; i < n; i++)
			read_files(&f, i * FILES);
	}
	export_pool(&f);
	assert_int_equal(try_import(&f, f.paths, 1), -ENODEV);
	assert_int_equal(try_import(&f, f.paths, DEVS), 0);
	for (unsigned i = 0; i < n; i++)
		read_files(&f, i * FILES);
	write_files(&f, n * FILES);
	read_files(&f, n * FILES);
	assert_int_equal(checksum_errors(&f), 0);
	export_pool(&f);
	tarn_engine_destroy(f.engine);
	for (unsigned i = 0; i < DEVS; i++)
		unlink(f.path[i]);
	rmdir(f.dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_tarnck),
	    cmocka_unit_test(test_heals),
	    cmocka_unit_test(test_space),
	    cmocka_unit_test(test_devices_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
