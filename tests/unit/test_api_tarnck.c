// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * tarnck against every kind of damage that it is to find. One pool is made and its devices' content
 * kept; each test starts from that, damages one thing, and wants exactly the kinds of findings that
 * say so. What has no good bytes on the devices any more is flipped there; what verifies and is
 * wrong is put into the trees of a pool just imported, where nothing cached knows better.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/engine.h"
#include "dataset/impl.h"
#include "fs/fs.h"
#include "fs/key.h"
#include "pool/alloc.h"
#include "pool/chunk.h"
#include "pool/label.h"
#include "pool/slab.h"
#include "pool_fixture.h"

#include <cmocka.h>

#define DEV_BYTES (96ull << 20)
#define FILES 300 /* enough for a tree of two levels */
#define LARGE (700u << 10)
#define VALUE 20000u /* a large extended attribute */

static struct fixture f;
static char saved[2][128];

/* Of the root dataset. */
static struct {
	uint64_t dir, sub, other, file, alone, tiny, link, acl, attrs;
} ino;
static uint64_t child_id;

/* ---- content of the devices ---- */

static void copy_sparse(const char *from, const char *to)
{
	int in = open(from, O_RDONLY | O_CLOEXEC), out;
	char *buf = malloc(1 << 20);
	off_t size, at = 0;

	out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(in >= 0 && out >= 0 && buf);
	size = lseek(in, 0, SEEK_END);
	assert_int_equal(ftruncate(out, 0), 0);
	assert_int_equal(ftruncate(out, size), 0);
	while ((at = lseek(in, at, SEEK_DATA)) >= 0) {
		off_t end = lseek(in, at, SEEK_HOLE);

		while (at < end) {
			size_t want = (size_t)(end - at < 1 << 20 ? end - at : 1 << 20);
			ssize_t n = pread(in, buf, want, at);

			assert_true(n > 0);
			assert_int_equal(pwrite(out, buf, (size_t)n, at), n);
			at += n;
		}
	}
	free(buf);
	close(in);
	close(out);
}

static void save(void)
{
	for (unsigned i = 0; i < 2; i++) {
		snprintf(saved[i], sizeof(saved[i]), "%s.saved", f.path[i]);
		copy_sparse(f.path[i], saved[i]);
	}
}

static void flip(const char *path, uint64_t offset)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	uint8_t byte;

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
	byte ^= 0x10;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
	close(fd);
}

/* ---- the check ---- */

#define KIND(name) (1u << TARN_FOUND_##name)

struct findings {
	uint32_t kinds;
	unsigned count[TARN_FOUND_KINDS];
	char paths[4096]; /* of all findings that have one: " dataset:path" */
	char texts[8192];
};

static void note(void *arg, const struct tarn_finding *finding)
{
	struct findings *found = arg;
	size_t n = strlen(found->texts), p = strlen(found->paths);

	found->kinds |= 1u << finding->kind;
	found->count[finding->kind]++;
	snprintf(found->texts + n, sizeof(found->texts) - n, "[%s] %s\n",
		 tarn_finding_name(finding->kind), finding->text);
	if (finding->path)
		snprintf(found->paths + p, sizeof(found->paths) - p, " %s:%s", finding->dataset,
			 finding->path);
}

/* Assertions would leave the check with its devices open. */
static bool progress_good;

static void note_progress(void *arg, const struct tarn_check_progress *p)
{
	(void)arg;
	progress_good &= p->txg && (!p->total || p->done <= p->total);
}

static int run_check(const char *const *paths, uint32_t npaths, uint32_t uberblocks, int flags,
		     struct findings *found, struct tarn_check_result *result)
{
	struct tarn_check_spec spec = {.name = FIXTURE_POOL,
				       .paths = paths,
				       .npaths = npaths,
				       .flags = flags,
				       .uberblocks = uberblocks,
				       .finding = note,
				       .progress = note_progress,
				       .arg = found};
	struct tarn_error err = {0};

	int rc;

	memset(found, 0, sizeof(*found));
	progress_good = true;
	rc = tarn_check(&spec, result, &err);
	assert_true(progress_good);
	return rc;
}

static struct findings check_paths(const char *const *paths, uint32_t n)
{
	struct tarn_check_result result;
	struct findings found;

	assert_int_equal(run_check(paths, n, 1, 0, &found, &result), 0);
	return found;
}

/* The exported pool has findings of exactly these kinds. */
static struct findings expect(uint32_t kinds)
{
	struct findings found = check_paths(f.paths, 2);

	if (found.kinds != kinds)
		print_error("wanted %#x, found %#x:\n%s", kinds, found.kinds, found.texts);
	assert_int_equal(found.kinds, kinds);
	return found;
}

static void expect_path(const struct findings *found, const char *path)
{
	if (!strstr(found->paths, path))
		print_error("no %s in%s\n%s", path, found->paths, found->texts);
	assert_non_null(strstr(found->paths, path));
}

/* ---- the pool, imported ---- */

static struct engine_pool *use;
static struct tarn_dataset *ds; /* the root dataset, without any fs */

static void import(void)
{
	struct tarn_import_spec spec = {.name = FIXTURE_POOL, .paths = f.paths, .npaths = f.ndevs};
	struct tarn_error err = {0};
	int rc = tarn_pool_import(f.engine, &spec, &err);

	if (rc)
		print_error("import: %s\n", err.text);
	assert_int_equal(rc, 0);
	assert_int_equal(engine_pool_get(f.engine, FIXTURE_POOL, &use), 0);
	ds = catalog_root(use->catalog);
}

static void export(void)
{
	struct tarn_error err = {0};

	engine_pool_put(f.engine, use);
	use = NULL;
	assert_int_equal(tarn_pool_export(f.engine, FIXTURE_POOL, 0, &err), 0);
}

/* Before each test, whatever the last one has left. */
static int restore(void **state)
{
	(void)state;
	if (use)
		export();
	for (unsigned i = 0; i < 2; i++)
		copy_sparse(saved[i], f.path[i]);
	return 0;
}

static void commit(void)
{
	struct tx tx;

	assert_int_equal(tx_begin(use->pool, 0, TX_NORMAL, &tx), 0);
	tx_dirty(&tx, 1);
	tx_end(&tx);
	assert_int_equal(txg_wait(use->pool, tx.txg), 0);
}

/* val NULL: the key goes; hole: a file block that is one. */
static void change(const void *key, uint32_t klen, const void *val, uint32_t vlen,
		   const struct bp *bp)
{
	struct tree_miss miss;
	struct tx tx;
	int rc;

	for (;;) {
		assert_int_equal(tx_begin(use->pool, TREE_RESERVE(4), TX_NORMAL, &tx), 0);
		tx_dirty(&tx, 1);
		rc = bp    ? tree_put_bp(&tx, &ds->tree, key, klen, bp, &miss)
		     : val ? tree_put(&tx, &ds->tree, key, klen, val, vlen, &miss)
			   : tree_del(&tx, &ds->tree, key, klen, &miss);
		tx_end(&tx);
		if (rc != -EAGAIN)
			break;
		assert_int_equal(tree_fetch(&ds->tree, &miss), 0);
	}
	assert_int_equal(rc, 0);
	assert_int_equal(txg_wait(use->pool, tx.txg), 0);
}

static uint32_t get(const void *key, uint32_t klen, void *buf, uint32_t room, struct bp *bp)
{
	struct tree_miss miss;
	struct tree_val v;
	int rc;

	while ((rc = tree_get(&ds->tree, key, klen, buf, room, &v, &miss)) == -EAGAIN)
		assert_int_equal(tree_fetch(&ds->tree, &miss), 0);
	assert_int_equal(rc, 0);
	if (bp)
		*bp = v.bp;
	tree_val_put(&v);
	return v.len;
}

static struct inode_record record_of(uint64_t n)
{
	struct inode_record rec;
	uint8_t key[KEY_ROOM];

	assert_int_equal(get(key, key_make(key, n, KEY_INODE), &rec, sizeof(rec), NULL),
			 sizeof(rec));
	return rec;
}

static void set_record(uint64_t n, const struct inode_record *rec)
{
	uint8_t key[KEY_ROOM];

	change(key, key_make(key, n, KEY_INODE), rec, sizeof(*rec), NULL);
}

static struct entry entry_of(uint64_t dir, const char *name)
{
	struct entry e;
	uint8_t key[KEY_ROOM];

	get(key, key_name(key, dir, KEY_ENTRY, name), &e, sizeof(e), NULL);
	return e;
}

static void put_entry(uint64_t dir, const char *name, const struct entry *e)
{
	uint8_t key[KEY_ROOM];
	struct {
		struct entry e;
		char name[256];
	} cookie = {.e = *e};

	strcpy(cookie.name, name);
	change(key, key_name(key, dir, KEY_ENTRY, name), e, sizeof(*e), NULL);
	change(key, key_u64(key, dir, KEY_COOKIE, e->cookie), &cookie,
	       (uint32_t)(sizeof(*e) + strlen(name)), NULL);
}

/* Both, and the count. */
static void add_entry(uint64_t dir, const char *name, uint64_t n, uint8_t type)
{
	struct inode_record rec = record_of(dir);
	struct entry e = {.ino = n, .cookie = rec.next_cookie, .type = type};

	e.gen = n < 100000 ? record_of(n).gen : 1;
	rec.entries++;
	rec.next_cookie++;
	rec.nlink += type == TARN_DIR;
	set_record(dir, &rec);
	put_entry(dir, name, &e);
}

static void drop_entry(uint64_t dir, const char *name)
{
	struct inode_record rec = record_of(dir);
	struct entry e = entry_of(dir, name);
	uint8_t key[KEY_ROOM];

	rec.entries--;
	rec.nlink -= e.type == TARN_DIR;
	set_record(dir, &rec);
	change(key, key_name(key, dir, KEY_ENTRY, name), NULL, 0, NULL);
	change(key, key_u64(key, dir, KEY_COOKIE, e.cookie), NULL, 0, NULL);
}

/* Changes one member of an inode's record in an imported pool. */
#define EDIT(number, member, value)                                                                \
	do {                                                                                       \
		struct inode_record rec = record_of(number);                                       \
		rec.member = (value);                                                              \
		set_record(number, &rec);                                                          \
	} while (0)

/* ---- making the pool ---- */

static struct tarn_inode *make(struct tarn_inode *dir, const char *name, enum tarn_type type)
{
	struct tarn_create how = {.type = type,
				  .set = {.mask = TARN_SET_MODE, .mode = 0755},
				  .target = type == TARN_LNK ? "dir/file" : NULL};
	struct tarn_commit token;
	struct tarn_inode *out;

	assert_int_equal(tarn_create(NULL, dir, name, &how, &out, NULL, NULL, &token), 0);
	return out;
}

static uint64_t number_and_put(struct tarn_inode *inode)
{
	uint64_t n = tarn_inode_number(inode);

	tarn_inode_put(inode);
	return n;
}

static void fill(struct tarn_inode *inode, uint32_t bytes, uint64_t seed)
{
	uint8_t *data = malloc(bytes);

	for (uint32_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)test_random(&seed);
	assert_int_equal(fixture_write(inode, 0, data, bytes, false), 0);
	free(data);
}

static void make_attrs(struct tarn_inode *root)
{
	struct tarn_inode *inode = make(root, "attrs", TARN_REG);
	struct tarn_commit token;
	uint8_t *value = malloc(VALUE);

	for (uint32_t i = 0; i < VALUE; i++)
		value[i] = (uint8_t)(i * i >> 3);
	assert_int_equal(tarn_xattr_set(NULL, inode, "large", value, VALUE, TARN_XATTR_ANY, &token),
			 0);
	assert_int_equal(tarn_xattr_set(NULL, inode, "small", value, 10, TARN_XATTR_ANY, &token),
			 0);
	free(value);
	ino.attrs = number_and_put(inode);
}

static void make_acl(struct tarn_inode *root)
{
	struct tarn_acl *acl = calloc(1, sizeof(*acl) + sizeof(acl->ace[0]));
	struct tarn_setattr set = {.mask = TARN_SET_ACL, .acl = acl};
	struct tarn_inode *inode = make(root, "acl", TARN_REG);
	struct tarn_commit token;

	acl->count = 1;
	acl->ace[0] = (struct tarn_ace){.who = TARN_WHO_UID, .mask = ACE_READ_DATA, .id = 1000};
	assert_int_equal(tarn_setattr(NULL, inode, &set, NULL, &token), 0);
	free(acl);
	ino.acl = number_and_put(inode);
}

static void make_files(void)
{
	struct tarn_inode *root, *dir, *file, *inode;
	struct tarn_commit token;
	char name[32];

	assert_int_equal(tarn_root(f.ds, &root), 0);
	dir = make(root, "dir", TARN_DIR);
	ino.sub = number_and_put(make(dir, "sub", TARN_DIR));
	ino.other = number_and_put(make(root, "other", TARN_DIR));
	file = make(dir, "file", TARN_REG);
	fill(file, LARGE, 1);
	assert_int_equal(tarn_link(NULL, file, root, "hard\n\xff", NULL, NULL, &token), 0);
	inode = make(root, "alone", TARN_REG);
	fill(inode, 5000, 2);
	ino.alone = number_and_put(inode);
	inode = make(root, "tiny", TARN_REG);
	fill(inode, 20, 3);
	ino.tiny = number_and_put(inode);
	ino.link = number_and_put(make(root, "link", TARN_LNK));
	make_acl(root);
	make_attrs(root);
	for (unsigned i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "many%u", i);
		tarn_inode_put(make(root, name, TARN_REG));
	}
	ino.dir = number_and_put(dir);
	assert_int_equal(fixture_fsync(file), 0);
	ino.file = number_and_put(file);
	tarn_inode_put(root);
}

static void make_child(void)
{
	const struct tarn_prop prop = {"compression", "zstd"};
	struct tarn_error err = {0};
	struct tarn_dataset *child;
	struct tarn_inode *root, *inode;

	assert_int_equal(
	    tarn_dataset_create(f.engine, FIXTURE_POOL "/child", &prop, 1, false, &err), 0);
	assert_int_equal(tarn_dataset_open(f.engine, FIXTURE_POOL "/child", NULL, &child), 0);
	child_id = tarn_dataset_id(child);
	assert_int_equal(tarn_root(child, &root), 0);
	inode = make(root, "file", TARN_REG);
	fill(inode, 100000, 4);
	assert_int_equal(fixture_fsync(inode), 0);
	tarn_inode_put(inode);
	tarn_inode_put(root);
	tarn_dataset_put(child);
}

static int make_pool(void **state)
{
	struct tarn_error err = {0};

	(void)state;
	fixture_begin(&f, 2, DEV_BYTES, true, NULL);
	make_files();
	make_child();
	tarn_dataset_put(f.ds);
	f.ds = NULL;
	assert_int_equal(tarn_pool_export(f.engine, FIXTURE_POOL, 0, &err), 0);
	save();
	return 0;
}

static int drop_pool(void **state)
{
	restore(state);
	import();
	engine_pool_put(f.engine, use);
	use = NULL;
	assert_int_equal(tarn_dataset_open(f.engine, FIXTURE_POOL, NULL, &f.ds), 0);
	for (unsigned i = 0; i < 2; i++)
		unlink(saved[i]);
	fixture_end(&f);
	return 0;
}

/* ---- where blocks lie: the exported pool, opened as the checker does ---- */

struct view {
	struct workq *wq;
	struct pool *pool;
	struct bp root, leaf, pool_root, large, data, small, child_data; /* holes: not found */
	struct bp alog;
	uint64_t walked; /* dataset being walked */
};

static int view_node(void *arg, const struct bp *bp, unsigned level)
{
	struct view *v = arg;

	if (!level && bp_is_hole(&v->leaf))
		v->leaf = *bp;
	return 0;
}

static int view_slot(void *arg, const void *key_, uint32_t klen, enum slot_kind kind,
		     const void *val, uint32_t vlen, const struct bp *bp)
{
	struct view *v = arg;
	const uint8_t *key = key_;
	uint64_t be, n;

	(void)klen;
	(void)val;
	(void)vlen;
	memcpy(&be, key, 8);
	n = be64toh(be);
	if (kind == SLOT_LARGE && n == ino.attrs && v->walked != child_id)
		v->large = *bp;
	if (kind != SLOT_BLOCK || bp_is_hole(bp))
		return 0;
	if (v->walked == child_id)
		v->child_data = *bp;
	else if (n == ino.file && key_get_u64(key) == 0)
		v->data = *bp;
	else if (n == ino.alone)
		v->small = *bp;
	return 0;
}

static int view_pool_slot(void *arg, const void *key_, uint32_t klen, enum slot_kind kind,
			  const void *val, uint32_t vlen, const struct bp *bp)
{
	static const struct tree_walk_ops ops = {view_node, view_slot, NULL};
	struct view *v = arg;
	const uint8_t *key = key_;
	struct dataset_record rec;
	uint64_t be;

	(void)klen;
	(void)kind;
	(void)bp;
	if (key[0] != CAT_DATASET)
		return 0;
	assert_int_equal(vlen, sizeof(rec));
	memcpy(&rec, val, sizeof(rec));
	memcpy(&be, key + 1, 8);
	v->walked = be64toh(be);
	if (!rec.parent)
		v->root = rec.root;
	return tree_walk(v->pool, NULL, &rec.root, &ops, v);
}

static void view_open(struct view *v)
{
	static const struct tree_walk_ops ops = {NULL, view_pool_slot, NULL};
	static const struct tarn_config config;
	struct pool_open_args args = {
	    .paths = f.paths, .ndevs = 2, .flags = TARN_READ_ONLY | TARN_FORCE};
	struct label *label = dev_buf_alloc(sizeof(*label));
	struct dev *devs[2];
	struct tarn_error err = {0};

	memset(v, 0, sizeof(*v));
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(dev_open(f.path[i], DEV_OPEN_RDONLY, &devs[i]), 0);
	assert_int_equal(label_read(devs[0], label), 0);
	args.guid = label->pool_guid;
	args.devs = devs;
	free(label);
	assert_int_equal(workq_create(1, &v->wq), 0);
	assert_int_equal(pool_open(&args, &config, v->wq, &v->pool, &err), 0);
	v->pool_root = v->pool->uber.root;
	v->alog = v->pool->uber.alog;
	assert_int_equal(tree_walk(v->pool, NULL, &v->pool_root, &ops, v), 0);
	assert_false(bp_is_hole(&v->data) || bp_is_hole(&v->child_data) || bp_is_hole(&v->large));
	assert_true(v->root.level > 0);
}

static void view_close(struct view *v)
{
	pool_close(v->pool, false);
	workq_destroy(v->wq);
}

/* Flips a bit of the block's byte `at` in the copies of mask. */
static void flip_block(const struct view *v, const struct bp *bp, uint32_t at, unsigned mask)
{
	const struct chunk *c = chunk_find(v->pool, bp->chunk);

	assert_non_null(c);
	assert_int_equal(c->ncols, 2);
	for (unsigned i = 0; i < 2; i++)
		if (mask & 1u << i)
			flip(v->pool->devs[c->cols[i].dev].path,
			     chunk_offset(v->pool, c, i, bp->sector) + at);
}

#define FLIP(block, at, mask)                                                                      \
	do {                                                                                       \
		struct view v;                                                                     \
		view_open(&v);                                                                     \
		flip_block(&v, &v.block, (at), (mask));                                            \
		view_close(&v);                                                                    \
	} while (0)

/* ---- blocks ---- */

static void data_one_copy(void)
{
	FLIP(data, 100, 1);
}

static void data_other_copy(void)
{
	FLIP(data, 70000, 2);
}

static void data_both_copies(void)
{
	FLIP(data, 100, 3);
}

static void compressed_both_copies(void)
{
	FLIP(child_data, 5, 3);
}

static void padding(void)
{
	FLIP(small, 8191, 1);
}

static void large_value_one_copy(void)
{
	FLIP(large, 0, 2);
}

static void large_value_both_copies(void)
{
	FLIP(large, 0, 3);
}

static void root_one_copy(void)
{
	FLIP(root, 20, 1);
}

static void root_both_copies(void)
{
	FLIP(root, 20, 3);
}

static void leaf_one_copy(void)
{
	FLIP(leaf, 0, 2);
}

static void leaf_both_copies(void)
{
	FLIP(leaf, 0, 3);
}

static void pool_tree_one_copy(void)
{
	FLIP(pool_root, 3, 1);
}

static void pool_tree_both_copies(void)
{
	FLIP(pool_root, 3, 3);
}

static void log_one_copy(void)
{
	FLIP(alog, 50, 1);
}

static void log_both_copies(void)
{
	FLIP(alog, 50, 3);
}

/* ---- devices ---- */

static void front_label(void)
{
	flip(f.path[0], LABEL_OFFSET + 200);
}

static void back_label(void)
{
	flip(f.path[1], DEV_BYTES - LABEL_AREA + LABEL_OFFSET + 5000);
}

static uint64_t newest_txg(void)
{
	struct view v;
	uint64_t txg;

	view_open(&v);
	txg = v.pool->uber.txg;
	view_close(&v);
	return txg;
}

static uint64_t slot(uint64_t txg)
{
	return UBER_OFFSET + txg % UBER_SLOTS * sizeof(struct uberblock);
}

static void newest_uberblock_one_copy(void)
{
	flip(f.path[0], slot(newest_txg()) + 70);
}

static void older_uberblock_one_copy(void)
{
	flip(f.path[1], DEV_BYTES - LABEL_AREA + slot(newest_txg() - 2) + 70);
}

static void newest_uberblock_everywhere(void)
{
	uint64_t at = slot(newest_txg()) + 40;

	for (unsigned i = 0; i < 2; i++) {
		flip(f.path[i], at);
		flip(f.path[i], DEV_BYTES - LABEL_AREA + at);
	}
}

static void slab_page_one_copy(void)
{
	flip(f.path[0], LABEL_AREA + 60);
}

static void slab_page_both_copies(void)
{
	struct view v;
	uint64_t second;

	view_open(&v);
	second = LABEL_AREA + (uint64_t)v.pool->devs[1].table_pages * SECTOR_SIZE;
	view_close(&v);
	flip(f.path[1], LABEL_AREA + 60);
	flip(f.path[1], second + 60);
}

static void both_labels(void)
{
	flip(f.path[1], LABEL_OFFSET + 200);
	flip(f.path[1], DEV_BYTES - LABEL_AREA + LABEL_OFFSET + 200);
}

/* ---- inodes ---- */

static void wrong_link_count(void)
{
	EDIT(ino.file, nlink, 3);
}

static void wrong_directory_link_count(void)
{
	EDIT(ino.dir, nlink, 2);
}

static void no_record(void)
{
	uint8_t key[KEY_ROOM];

	change(key, key_make(key, ino.file, KEY_INODE), NULL, 0, NULL);
}

static void malformed_record(void)
{
	EDIT(ino.file, type, 99);
}

static void flag_without_inline(void)
{
	EDIT(ino.tiny, flags, 0);
}

static void inline_beyond_size(void)
{
	EDIT(ino.tiny, size, 19);
}

static void wrong_space(void)
{
	EDIT(ino.file, space, 4096);
}

static void size_before_records(void)
{
	EDIT(ino.file, size, 1);
}

static void record_between(void)
{
	uint8_t key[KEY_ROOM];
	struct bp hole = bp_hole(1, 4096);

	change(key, key_u64(key, ino.file, KEY_RECORD, 5000), NULL, 0, &hole);
}

static void shared_block(void)
{
	uint8_t key[KEY_ROOM];
	struct inode_record rec = record_of(ino.alone);
	struct bp bp;

	get(key, key_u64(key, ino.file, KEY_RECORD, 0), NULL, 0, &bp);
	rec.space += (uint64_t)bp_sectors(&bp) << SECTOR_SHIFT;
	rec.size = 2 * rec.recordsize;
	set_record(ino.alone, &rec);
	change(key, key_u64(key, ino.alone, KEY_RECORD, rec.recordsize), NULL, 0, &bp);
}

static void wrong_target_length(void)
{
	EDIT(ino.link, size, 3);
}

static void acl_flag_missing(void)
{
	EDIT(ino.acl, flags, 0);
}

static void malformed_acl(void)
{
	struct tarn_ace ace = {.type = 9};
	uint8_t key[KEY_ROOM];

	change(key, key_make(key, ino.acl, KEY_ACL), &ace, sizeof(ace), NULL);
}

static void nameless_xattr(void)
{
	uint8_t key[KEY_ROOM];

	change(key, key_make(key, ino.attrs, KEY_XATTR), "x", 1, NULL);
}

static void unknown_kind(void)
{
	uint8_t key[KEY_ROOM];

	change(key, key_make(key, ino.file, 99), "x", 1, NULL);
}

static void short_key(void)
{
	change("abc", 3, "x", 1, NULL);
}

static void key_of_no_inode(void)
{
	uint8_t key[KEY_ROOM];

	change(key, key_make(key, 1, KEY_INODE), "x", 1, NULL);
}

static void block_under_another_kind(void)
{
	uint8_t key[KEY_ROOM];
	struct bp hole = bp_hole(1, 4096);

	change(key, key_name(key, ino.attrs, KEY_XATTR, "block"), NULL, 0, &hole);
}

/* ---- the inode map, orphans ---- */

static void set_number(uint64_t n, bool used)
{
	uint8_t key[KEY_ROOM], page[512];
	uint32_t klen = key_u64(key, 0, KEY_IMAP, n / 4096);

	assert_int_equal(get(key, klen, page, sizeof(page), NULL), sizeof(page));
	n %= 4096;
	page[n / 8] = (uint8_t)((page[n / 8] & ~(1u << n % 8)) | (unsigned)used << n % 8);
	change(key, klen, page, sizeof(page), NULL);
}

static void number_free(void)
{
	set_number(ino.file, false);
}

static void number_used(void)
{
	set_number(4000, true);
}

static void malformed_map(void)
{
	uint8_t key[KEY_ROOM];

	change(key, key_u64(key, 0, KEY_IMAP, 5), "x", 1, NULL);
}

static void list_orphan(uint64_t n, uint64_t from)
{
	uint8_t key[KEY_ROOM];

	change(key, key_u64(key, 0, KEY_ORPHAN, n), &from, sizeof(from), NULL);
}

static void orphan_of_nothing(void)
{
	list_orphan(4000, ORPHAN_ALL);
}

static void orphan_with_links(void)
{
	list_orphan(ino.file, ORPHAN_ALL);
}

static void truncation_of_nothing(void)
{
	list_orphan(ino.file, 10);
}

static void unlisted_truncation(void)
{
	EDIT(ino.file, flags, INODE_TRUNCATED);
}

static void unlisted_orphan(void)
{
	uint64_t root = 2;

	drop_entry(root, "alone");
	EDIT(ino.alone, nlink, 0);
}

static void removed_with_name(void)
{
	EDIT(ino.alone, nlink, 0);
	list_orphan(ino.alone, ORPHAN_ALL);
}

static void malformed_orphan(void)
{
	uint8_t key[KEY_ROOM];

	change(key, key_u64(key, 0, KEY_ORPHAN, ino.file), "x", 1, NULL);
}

/* ---- directories ---- */

static void name_without_cookie(void)
{
	struct entry e = entry_of(2, "alone");
	uint8_t key[KEY_ROOM];

	change(key, key_u64(key, 2, KEY_COOKIE, e.cookie), NULL, 0, NULL);
}

static void cookie_without_name(void)
{
	uint8_t key[KEY_ROOM];

	change(key, key_name(key, ino.dir, KEY_ENTRY, "file"), NULL, 0, NULL);
}

static void name_missing(void)
{
	drop_entry(ino.dir, "file");
}

static void entry_of_nothing(void)
{
	add_entry(ino.other, "ghost", 500000, TARN_REG);
}

static void entry_of_another_generation(void)
{
	struct entry e = entry_of(ino.dir, "file");

	e.gen++;
	put_entry(ino.dir, "file", &e);
}

static void wrong_entry_count(void)
{
	EDIT(ino.dir, entries, 7);
}

static void wrong_next_cookie(void)
{
	EDIT(ino.dir, next_cookie, 3);
}

static void malformed_entry(void)
{
	uint8_t key[KEY_ROOM];

	change(key, key_name(key, ino.dir, KEY_ENTRY, "short"), "x", 1, NULL);
}

static void malformed_cookie(void)
{
	uint8_t key[KEY_ROOM];

	change(key, key_u64(key, ino.dir, KEY_COOKIE, 1000), "x", 1, NULL);
}

static void wrong_parent(void)
{
	EDIT(ino.sub, parent, ino.other);
}

static void directory_with_two_names(void)
{
	add_entry(ino.other, "again", ino.sub, TARN_DIR);
}

static void circle(void)
{
	drop_entry(2, "dir");
	add_entry(ino.sub, "dir", ino.dir, TARN_DIR);
	EDIT(ino.dir, parent, ino.sub);
}

static void root_with_parent(void)
{
	EDIT(2, parent, ino.dir);
}

/* ---- space, the pool tree ---- */

static void task(int (*fn)(struct catalog *cat, struct txg_sync *s, void *arg), void *arg)
{
	assert_int_equal(catalog_task(use->catalog, fn, arg), 0);
}

static int leak_task(struct catalog *cat, struct txg_sync *s, void *arg)
{
	struct chunk *chunk;
	uint32_t sector;

	(void)cat;
	(void)arg;
	return alloc_run(s, BLOCK_DATA, 5, &chunk, &sector);
}

static void leaked(void)
{
	task(leak_task, NULL);
}

static int free_task(struct catalog *cat, struct txg_sync *s, void *arg)
{
	(void)cat;
	sync_free(s, arg);
	return 0;
}

static void freed(void)
{
	uint8_t key[KEY_ROOM];
	struct bp bp;

	get(key, key_u64(key, ino.file, KEY_RECORD, 0), NULL, 0, &bp);
	task(free_task, &bp);
}

static void released(void)
{
	freed();
	for (unsigned i = 0; i < 2 * TXG_KEEP; i++)
		commit();
}

struct cat_change {
	uint8_t key[CAT_KEY_ROOM];
	uint32_t klen;
	const void *val; /* NULL: goes */
	uint32_t vlen;
};

static int cat_task(struct catalog *cat, struct txg_sync *s, void *arg)
{
	const struct cat_change *c = arg;

	return c->val ? cat_put(cat, s, c->key, c->klen, c->val, c->vlen)
		      : cat_del(cat, s, c->key, c->klen);
}

static void change_id(enum catalog_key kind, uint64_t id, const void *val, uint32_t vlen)
{
	struct cat_change c = {.val = val, .vlen = vlen};

	c.klen = cat_key_id(c.key, kind, id);
	task(cat_task, &c);
}

static void change_named(enum catalog_key kind, uint64_t id, const char *name, const void *val,
			 uint32_t vlen)
{
	struct cat_change c = {.val = val, .vlen = vlen};

	c.klen = cat_key_id_name(c.key, kind, id, name);
	task(cat_task, &c);
}

static struct dataset_record dataset_of(uint64_t id)
{
	uint8_t key[CAT_KEY_ROOM];
	struct dataset_record rec;
	uint32_t len;

	assert_int_equal(
	    cat_get(use->catalog, key, cat_key_id(key, CAT_DATASET, id), &rec, sizeof(rec), &len),
	    0);
	return rec;
}

#define EDIT_DATASET(id, member, value)                                                            \
	do {                                                                                       \
		struct dataset_record rec = dataset_of(id);                                        \
		rec.member = (value);                                                              \
		change_id(CAT_DATASET, (id), &rec, sizeof(rec));                                   \
	} while (0)

static void wrong_used(void)
{
	EDIT_DATASET(ds->id, used, rec.used + 4096);
}

static void wrong_logical(void)
{
	EDIT_DATASET(child_id, logical, 1);
}

static void wrong_inodes(void)
{
	EDIT_DATASET(child_id, inodes, rec.inodes - 1);
}

static void root_of_another_level(void)
{
	EDIT_DATASET(ds->id, root.level, 5);
}

static void root_that_is_data(void)
{
	EDIT_DATASET(child_id, root.type, BP_DATA);
}

static void root_of_another_birth(void)
{
	EDIT_DATASET(child_id, root.birth, rec.root.birth + 1000);
}

static void root_beyond_its_chunk(void)
{
	EDIT_DATASET(child_id, root.sector, 1u << 20);
}

static void root_in_no_chunk(void)
{
	EDIT_DATASET(child_id, root.chunk, 77777);
}

static void no_parent(void)
{
	EDIT_DATASET(child_id, parent, 1234);
}

static void dataset_circle(void)
{
	change_named(CAT_CHILD, ds->id, "child", NULL, 0);
	change_named(CAT_CHILD, child_id, "child", &child_id, 8);
	EDIT_DATASET(child_id, parent, child_id);
}

static void dataset_without_name(void)
{
	change_named(CAT_CHILD, ds->id, "child", NULL, 0);
}

static void dataset_with_two_names(void)
{
	change_named(CAT_CHILD, ds->id, "kid", &child_id, 8);
}

static void name_of_no_dataset(void)
{
	const uint64_t id = 4321;

	change_named(CAT_CHILD, ds->id, "ghost", &id, 8);
}

static void malformed_name(void)
{
	change_named(CAT_CHILD, ds->id, "short", "x", 1);
}

static void short_dataset_record(void)
{
	change_id(CAT_DESTROYED, 3, "x", 1);
}

static void live_and_destroyed(void)
{
	struct dataset_record rec = dataset_of(child_id);

	rec.root = bp_hole(0, 0);
	rec.used = rec.logical = 0;
	change_id(CAT_DESTROYED, child_id, &rec, sizeof(rec));
}

static void bad_property(void)
{
	change_named(CAT_PROP, child_id, "compression", "brotli", 6);
}

static void property_of_nothing(void)
{
	change_named(CAT_PROP, 999, "compression", "lz4", 3);
}

static void unknown_pool_key(void)
{
	change_id('Z', 1, "x", 1);
}

static void change_state(const void *val, uint32_t vlen)
{
	struct cat_change c = {.val = val, .vlen = vlen};

	c.klen = cat_key(c.key, CAT_STATE);
	task(cat_task, &c);
}

static void no_state(void)
{
	change_state(NULL, 0);
}

static void state_behind(void)
{
	const struct catalog_state state = {.next_dataset = 1, .next_history = 1000};

	change_state(&state, sizeof(state));
}

static void history_ahead(void)
{
	change_id(CAT_HISTORY, 1u << 30, "12345678text", 12);
}

static void short_history(void)
{
	change_id(CAT_HISTORY, 0, "x", 1);
}

static void malformed_chunk(void)
{
	change_id(CAT_CHUNK, 5000, "garbage that is no record", 25);
}

static void chunk_never_made(void)
{
	size_t len = sizeof(struct chunk_record) + 2 * sizeof(struct chunk_record_col);
	struct chunk_record *r = calloc(1, len);

	*r = (struct chunk_record){
	    .sectors = 1024, .profile = PROFILE_MIRROR, .ncols = 2, .packing = 1};
	r->cols[0].slab = r->cols[1].slab = 3;
	r->cols[1].dev = 1;
	change_id(CAT_CHUNK, UINT64_MAX, r, (uint32_t)len);
	free(r);
}

/* ---- one table of all that ---- */

struct damage {
	const char *name;
	void (*to_devices)(void);
	void (*to_pool)(void); /* imported */
	uint32_t kinds;
	const char *path; /* one of the findings' */
};
#define TO_DEVICES(fn, kinds, path)                                                                \
	{                                                                                          \
#fn, fn, NULL, kinds, path                                                         \
	}
#define TO_POOL(fn, kinds, path)                                                                   \
	{                                                                                          \
#fn, NULL, fn, kinds, path                                                         \
	}

static struct damage damages[] = {
    TO_DEVICES(data_one_copy, KIND(COPY), "tank:/"),
    TO_DEVICES(data_other_copy, KIND(COPY), "tank:/"),
    TO_DEVICES(data_both_copies, KIND(BLOCK), "tank:/"),
    TO_DEVICES(compressed_both_copies, KIND(BLOCK), "tank/child:/file"),
    TO_DEVICES(padding, KIND(COPY), "tank:/alone"),
    TO_DEVICES(large_value_one_copy, KIND(COPY), "tank:/attrs"),
    TO_DEVICES(large_value_both_copies, KIND(BLOCK), NULL),
    TO_DEVICES(root_one_copy, KIND(COPY), NULL),
    TO_DEVICES(root_both_copies, KIND(BLOCK), NULL),
    TO_DEVICES(leaf_one_copy, KIND(COPY), NULL),
    TO_DEVICES(leaf_both_copies, KIND(BLOCK), NULL),
    TO_DEVICES(pool_tree_one_copy, KIND(COPY), NULL),
    TO_DEVICES(pool_tree_both_copies, KIND(BLOCK), NULL),
    TO_DEVICES(log_one_copy, KIND(COPY), NULL),
    TO_DEVICES(log_both_copies, KIND(ALLOC_LOG), NULL),

    TO_DEVICES(front_label, KIND(LABEL), NULL),
    TO_DEVICES(back_label, KIND(LABEL), NULL),
    TO_DEVICES(both_labels, KIND(DEVICE), NULL),
    TO_DEVICES(newest_uberblock_one_copy, KIND(UBERBLOCK), NULL),
    TO_DEVICES(older_uberblock_one_copy, KIND(UBERBLOCK), NULL),
    TO_DEVICES(newest_uberblock_everywhere, KIND(UBERBLOCK), NULL),
    TO_DEVICES(slab_page_one_copy, KIND(SLAB_TABLE), NULL),
    TO_DEVICES(slab_page_both_copies, KIND(SLAB_TABLE) | KIND(COLUMN), NULL),

    TO_POOL(wrong_link_count, KIND(LINKS), "tank:/"),
    TO_POOL(wrong_directory_link_count, KIND(LINKS), "tank:/dir"),
    TO_POOL(no_record, KIND(INODE) | KIND(ENTRY) | KIND(USAGE), "tank:/"),
    TO_POOL(malformed_record, KIND(INODE) | KIND(ENTRY) | KIND(USAGE), "tank:/"),
    TO_POOL(flag_without_inline, KIND(INODE), "tank:/tiny"),
    TO_POOL(inline_beyond_size, KIND(DATA), "tank:/tiny"),
    TO_POOL(wrong_space, KIND(DATA), "tank:/"),
    TO_POOL(size_before_records, KIND(DATA), "tank:/"),
    TO_POOL(record_between, KIND(DATA), "tank:/"),
    TO_POOL(shared_block, KIND(SHARED) | KIND(USAGE), "tank:/alone"),
    TO_POOL(wrong_target_length, KIND(INODE), "tank:/link"),
    TO_POOL(acl_flag_missing, KIND(ATTRIBUTE), "tank:/acl"),
    TO_POOL(malformed_acl, KIND(ATTRIBUTE), "tank:/acl"),
    TO_POOL(nameless_xattr, KIND(ATTRIBUTE), "tank:/attrs"),
    TO_POOL(unknown_kind, KIND(INODE), "tank:/"),
    TO_POOL(short_key, KIND(INODE), NULL),
    TO_POOL(key_of_no_inode, KIND(INODE), NULL),
    TO_POOL(block_under_another_kind, KIND(INODE), "tank:/attrs"),

    TO_POOL(number_free, KIND(INODE_MAP), "tank:/"),
    TO_POOL(number_used, KIND(INODE_MAP), NULL),
    TO_POOL(malformed_map, KIND(INODE_MAP), NULL),
    TO_POOL(orphan_of_nothing, KIND(ORPHAN), NULL),
    TO_POOL(orphan_with_links, KIND(ORPHAN), "tank:/"),
    TO_POOL(truncation_of_nothing, KIND(ORPHAN), "tank:/"),
    TO_POOL(unlisted_truncation, KIND(ORPHAN), "tank:/"),
    TO_POOL(unlisted_orphan, KIND(ORPHAN), NULL),
    TO_POOL(removed_with_name, KIND(LINKS), "tank:/alone"),
    TO_POOL(malformed_orphan, KIND(ORPHAN), NULL),

    TO_POOL(name_without_cookie, KIND(ENTRY), "tank:/"),
    TO_POOL(cookie_without_name, KIND(ENTRY) | KIND(LINKS), "tank:/dir"),
    TO_POOL(name_missing, KIND(LINKS), "tank:/hard\\012\\377"),
    TO_POOL(entry_of_nothing, KIND(ENTRY), "tank:/other/ghost"),
    TO_POOL(entry_of_another_generation, KIND(ENTRY), "tank:/"),
    TO_POOL(wrong_entry_count, KIND(ENTRY), "tank:/dir"),
    TO_POOL(wrong_next_cookie, KIND(ENTRY), "tank:/dir"),
    TO_POOL(malformed_entry, KIND(ENTRY), "tank:/dir"),
    TO_POOL(malformed_cookie, KIND(ENTRY), "tank:/dir"),
    TO_POOL(wrong_parent, KIND(PARENT), "tank:/dir/sub"),
    TO_POOL(directory_with_two_names, KIND(PARENT), "/"),
    TO_POOL(circle, KIND(PARENT), NULL),
    TO_POOL(root_with_parent, KIND(PARENT), "tank:/"),

    TO_POOL(leaked, KIND(LEAK), NULL),
    TO_POOL(freed, KIND(UNALLOCATED), NULL),
    TO_POOL(released, KIND(UNALLOCATED) | KIND(BLOCK), "tank:/"),
    TO_POOL(wrong_used, KIND(USAGE), NULL),
    TO_POOL(wrong_logical, KIND(USAGE), NULL),
    TO_POOL(wrong_inodes, KIND(USAGE), NULL),
    TO_POOL(root_of_another_level, KIND(NODE), NULL),
    TO_POOL(root_that_is_data, KIND(NODE), NULL),
    TO_POOL(root_of_another_birth, KIND(NODE), NULL),
    TO_POOL(root_beyond_its_chunk, KIND(BLOCK), NULL),
    TO_POOL(root_in_no_chunk, KIND(BLOCK), NULL),
    TO_POOL(no_parent, KIND(DATASET), NULL),
    TO_POOL(dataset_circle, KIND(DATASET), NULL),
    TO_POOL(dataset_without_name, KIND(DATASET), NULL),
    TO_POOL(dataset_with_two_names, KIND(DATASET), NULL),
    TO_POOL(name_of_no_dataset, KIND(DATASET), NULL),
    TO_POOL(malformed_name, KIND(POOL_TREE), NULL),
    TO_POOL(short_dataset_record, KIND(POOL_TREE), NULL),
    TO_POOL(live_and_destroyed, KIND(DATASET), NULL),
    TO_POOL(bad_property, KIND(PROPERTY), NULL),
    TO_POOL(property_of_nothing, KIND(PROPERTY), NULL),
    TO_POOL(unknown_pool_key, KIND(POOL_TREE), NULL),
    TO_POOL(no_state, KIND(POOL_TREE), NULL),
    TO_POOL(state_behind, KIND(POOL_TREE), NULL),
    TO_POOL(history_ahead, KIND(POOL_TREE), NULL),
    TO_POOL(short_history, KIND(POOL_TREE), NULL),
    TO_POOL(malformed_chunk, KIND(CHUNK), NULL),
    TO_POOL(chunk_never_made, KIND(CHUNK), NULL),
};
#define DAMAGES (sizeof(damages) / sizeof(damages[0]))

static void test_damage(void **state)
{
	const struct damage *d = *state;
	struct findings found;

	if (d->to_devices) {
		d->to_devices();
	} else {
		import();
		d->to_pool();
		export();
	}
	found = expect(d->kinds);
	if (d->path)
		expect_path(&found, d->path);
}

/* ---- what is no damage ---- */

static void expect_good(const char *const *paths)
{
	struct tarn_check_result result;
	struct findings found;

	assert_int_equal(run_check(paths, 2, 3, 0, &found, &result), 0);
	assert_string_equal(found.texts, "");
	assert_int_equal(result.findings, 0);
}

static void test_good_pool(void **state)
{
	struct tarn_check_result result;
	struct findings found;

	(void)state;
	assert_int_equal(run_check(f.paths, 2, 3, 0, &found, &result), 0);
	assert_string_equal(found.texts, "");
	assert_int_equal(result.findings, 0);
	assert_int_equal(result.uberblocks, 3);
	assert_string_equal(result.name, FIXTURE_POOL);
	assert_int_equal(result.datasets, 3 * 2);
	/* All copies are read once, though three states are checked. */
	assert_true(result.read >= 2 * (uint64_t)LARGE);
	assert_true(result.read < result.bytes);
}

static void test_metadata_only(void **state)
{
	struct tarn_check_result result;
	struct findings found;

	(void)state;
	data_both_copies();
	assert_int_equal(run_check(f.paths, 2, 1, TARN_CHECK_METADATA, &found, &result), 0);
	assert_int_equal(found.kinds, 0);
	assert_true(result.read < LARGE);
}

/* The dataset "gone", of files with so many keys that it is destroyed in many steps. */
static void fill_gone(void)
{
	const struct tarn_prop prop = {"recordsize", "4K"};
	struct tarn_inode *root, *inode;
	struct tarn_dataset *gone;
	struct tarn_error err = {0};
	char name[32];

	assert_int_equal(tarn_dataset_create(f.engine, "tank/gone", &prop, 1, false, &err), 0);
	assert_int_equal(tarn_dataset_open(f.engine, "tank/gone", NULL, &gone), 0);
	assert_int_equal(tarn_root(gone, &root), 0);
	for (unsigned i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "file%u", i);
		inode = make(root, name, TARN_REG);
		fill(inode, 300000, i);
		tarn_inode_put(inode);
	}
	tarn_inode_put(root);
	tarn_dataset_put(gone);
}

/* Files that come and go, some of them open when the pool goes, datasets too. */
static void stir(uint64_t *seed)
{
	struct tarn_inode *root, *open = NULL;
	struct tarn_error err = {0};
	struct tarn_commit token;
	char name[32];

	assert_int_equal(tarn_dataset_open(f.engine, FIXTURE_POOL, NULL, &f.ds), 0);
	assert_int_equal(tarn_root(f.ds, &root), 0);
	fill_gone();
	for (unsigned i = 0; i < 200; i++) {
		struct tarn_inode *inode;

		snprintf(name, sizeof(name), "stir%u", (unsigned)(test_random(seed) % 50));
		if (tarn_unlink(NULL, root, name, 0, NULL, &token) == -ENOENT) {
			inode = make(root, name, TARN_REG);
			fill(inode, 1 + (uint32_t)(test_random(seed) % 300000), i);
			if (i % 16 == 0)
				assert_int_equal(fixture_fsync(inode), 0);
			tarn_inode_put(inode);
		}
	}
	open = make(root, "open", TARN_REG);
	fill(open, 200000, 7);
	assert_int_equal(tarn_open(open), 0);
	assert_int_equal(tarn_unlink(NULL, root, "open", 0, NULL, &token), 0);
	assert_int_equal(tarn_dataset_destroy(f.engine, "tank/gone", false, 0, &err), 0);
	usleep((unsigned)(test_random(seed) % 3000)); /* export finds it gone to any extent */
	tarn_inode_put(root);
	tarn_dataset_put(f.ds);
	f.ds = NULL;
	export();
	tarn_close(open);
	tarn_inode_put(open);
}

static void test_dirty_history(void **state)
{
	uint64_t seed = test_seed();

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		import();
		stir(&seed);
		expect_good(f.paths);
	}
}

/* As a power cut leaves it: not exported. What a cut may tear is passed over. */
static void test_not_exported(void **state)
{
	char path[2][128];
	const char *paths[2] = {path[0], path[1]};
	uint64_t txg;

	(void)state;
	import();
	EDIT(ino.file, mode, 0600);
	EDIT(ino.file, mode, 0640);
	txg = txg_committed(use->pool);
	for (unsigned i = 0; i < 2; i++) {
		snprintf(path[i], sizeof(path[i]), "%s.cut", f.path[i]);
		copy_sparse(f.path[i], path[i]);
	}
	export();
	expect_good(paths);
	flip(path[0], slot(txg) + 50);
	flip(path[1], LABEL_OFFSET + 50);
	flip(path[1], LABEL_AREA + 50);
	expect_good(paths);
	flip(path[1], DEV_BYTES - LABEL_AREA + slot(txg - 1) + 50);
	assert_int_equal(check_paths(paths, 2).kinds, KIND(UBERBLOCK));
	for (unsigned i = 0; i < 2; i++)
		unlink(path[i]);
}

static void test_used_pool_is_refused(void **state)
{
	struct tarn_check_result result;
	struct findings found;

	(void)state;
	import();
	assert_int_equal(run_check(f.paths, 2, 1, 0, &found, &result), -EBUSY);
	export();
	assert_int_equal(found.kinds, 0);
}

/* ---- devices that were away ---- */

static void test_missing_device(void **state)
{
	(void)state;
	assert_int_equal(check_paths(f.paths, 1).kinds, KIND(DEVICE));
}

static void test_device_that_was_away(void **state)
{
	(void)state;
	f.ndevs = 1;
	import();
	f.ndevs = 2;
	for (unsigned i = 0; i < 4; i++)
		EDIT(ino.file, mode, 0600 + i);
	export();
	expect(KIND(DEVICE) | KIND(COLUMN));
}

/* It took all writes and kept none. */
static void test_lying_device(void **state)
{
	uint64_t seed = 5;
	struct findings found;

	(void)state;
	import();
	stir(&seed);
	copy_sparse(saved[1], f.path[1]);
	found = check_paths(f.paths, 2);
	assert_true(found.kinds & KIND(DEVICE));
	assert_true(found.kinds & KIND(COPY));
	assert_int_equal(found.kinds & ~(KIND(DEVICE) | KIND(COPY) | KIND(COLUMN)), 0);
}

/* ---- damage without a plan: any answer will do, but there is one ---- */

static void flip_somewhere(unsigned dev, uint64_t *seed)
{
	int fd = open(f.path[dev], O_RDONLY | O_CLOEXEC);
	off_t at = lseek(fd, (off_t)(test_random(seed) % (DEV_BYTES - (1 << 20))), SEEK_DATA);

	close(fd);
	if (at >= 0)
		flip(f.path[dev], (uint64_t)at + test_random(seed) % SECTOR_SIZE);
}

static void test_random_flips(void **state)
{
	uint64_t seed = test_seed();

	for (unsigned i = 0; i < 10 * test_scale(); i++) {
		struct tarn_check_result result;
		struct findings found;

		restore(state);
		for (unsigned k = 0; k < 1u << i % 10; k++)
			flip_somewhere((unsigned)test_random(&seed) % 2, &seed);
		run_check(f.paths, 2, 3, 0, &found, &result);
	}
}

static uint32_t random_key(uint8_t key[KEY_ROOM], uint64_t *seed)
{
	static const uint8_t kinds[] = {KEY_IMAP,   KEY_ORPHAN, KEY_INODE, KEY_ACL,    KEY_TARGET,
					KEY_INLINE, KEY_XATTR,  KEY_ENTRY, KEY_COOKIE, 77};
	uint64_t n = test_random(seed) % 12;

	if (n == 11)
		n = test_random(seed) >> (test_random(seed) % 60);
	key_make(key, n, kinds[test_random(seed) % sizeof(kinds)]);
	n = test_random(seed) % 3 ? test_random(seed) % 8 : test_random(seed);
	n = htobe64(n);
	memcpy(key + 9, &n, 8);
	return test_random(seed) % 4 ? 17 : 9;
}

/* Half of the values are a real record with a byte changed. */
static uint32_t random_value(uint8_t *value, const struct inode_record *rec, uint64_t *seed)
{
	uint32_t len = (uint32_t)(test_random(seed) % 40);

	if (test_random(seed) % 2) {
		memcpy(value, rec, len = sizeof(*rec));
		value[test_random(seed) % len] = (uint8_t)test_random(seed);
	} else {
		for (uint32_t i = 0; i < len; i++)
			value[i] = (uint8_t)(test_random(seed) >> 8 & 7);
	}
	return len;
}

static void test_random_keys(void **state)
{
	uint64_t seed = test_seed();

	for (unsigned i = 0; i < 3 * test_scale(); i++) {
		struct tarn_check_result result;
		struct inode_record recs[3];
		struct findings found;

		restore(state);
		import();
		recs[0] = record_of(ino.dir);
		recs[1] = record_of(ino.file);
		recs[2] = record_of(ino.link);
		for (unsigned k = 0; k < 60; k++) {
			uint8_t key[KEY_ROOM], value[512];
			uint32_t klen = random_key(key, &seed);
			uint32_t vlen = random_value(value, &recs[k % 3], &seed);

			change(key, klen, value, vlen, NULL);
		}
		export();
		assert_int_equal(run_check(f.paths, 2, 1, 0, &found, &result), 0);
		assert_true(result.findings > 0);
	}
}

/* ---- the program ---- */

/* Its exit status; the first bytes of its output. */
static int run_program(const char *options, char *output, size_t room)
{
	char command[512];
	FILE *pipe;
	size_t n;

	snprintf(command, sizeof(command), "%s %s -d %s -d %s 2>&1", TARNCK, options, f.path[0],
		 f.path[1]);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	n = fread(output, 1, room - 1, pipe);
	output[n] = '\0';
	return WEXITSTATUS(pclose(pipe));
}

static void expect_output(const char *output, const char *part)
{
	if (!strstr(output, part))
		print_error("no %s in: %s\n", part, output);
	assert_non_null(strstr(output, part));
}

static void test_program(void **state)
{
	char out[4096];

	(void)state;
	assert_int_equal(run_program("", out, sizeof(out)), 0);
	expect_output(out, "no findings");
	assert_int_equal(run_program("-q -u 3", out, sizeof(out)), 0);
	assert_string_equal(out, "");
	assert_int_equal(run_program("-p -q", out, sizeof(out)), 0);
	expect_output(out, "MiB");
	assert_int_equal(run_program("-j", out, sizeof(out)), 0);
	expect_output(out, "{\"version\":1,\"findings\":[],\n\"result\":{\"pool\":\"tank\"");
	padding();
	assert_int_equal(run_program("", out, sizeof(out)), 1);
	expect_output(out, "tank:/alone (inode ");
	expect_output(out, "1 finding\n");
	assert_int_equal(run_program("-j", out, sizeof(out)), 1);
	expect_output(out, "{\"kind\":\"copy\",\"txg\":");
	expect_output(out, "\"dataset\":\"tank\",\"inode\":");
	expect_output(out, "\"path\":\"/alone\",\"text\":\"");
	expect_output(out, "\"findings\":1,");
	assert_int_equal(run_program("other", out, sizeof(out)), 2);
	expect_output(out, "tarnck: no pool");
	assert_int_equal(run_program("-j other", out, sizeof(out)), 2);
	expect_output(out, "{\"version\":1,\"findings\":[],\n\"error\":\"no pool");
	assert_int_equal(run_program("-u 4", out, sizeof(out)), 2);
	expect_output(out, "usage:");
}

int main(void)
{
	static const struct CMUnitTest others[] = {
	    cmocka_unit_test_setup(test_good_pool, restore),
	    cmocka_unit_test_setup(test_metadata_only, restore),
	    cmocka_unit_test_setup(test_dirty_history, restore),
	    cmocka_unit_test_setup(test_not_exported, restore),
	    cmocka_unit_test_setup(test_used_pool_is_refused, restore),
	    cmocka_unit_test_setup(test_missing_device, restore),
	    cmocka_unit_test_setup(test_device_that_was_away, restore),
	    cmocka_unit_test_setup(test_lying_device, restore),
	    cmocka_unit_test_setup(test_random_flips, restore),
	    cmocka_unit_test_setup(test_random_keys, restore),
	    cmocka_unit_test_setup(test_program, restore),
	};
	struct CMUnitTest tests[DAMAGES + sizeof(others) / sizeof(others[0])];
	size_t n = sizeof(others) / sizeof(others[0]);

	memcpy(tests, others, sizeof(others));
	for (size_t i = 0; i < DAMAGES; i++)
		tests[n++] =
		    (struct CMUnitTest){damages[i].name, test_damage, restore, NULL, &damages[i]};
	return _cmocka_run_group_tests("tarnck", tests, n, make_pool, drop_pool);
}
