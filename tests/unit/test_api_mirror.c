// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * One device of a mirror or of a raidz does whatever devices do: it is damaged under the running
 * pool, away, back with what it held before, shorter, longer, without labels. The pool must go on,
 * every byte read must be right, and the other devices must hold all of it, with nothing wrong in
 * them.
 */
#include "pool_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { FILES = 40, FILE_MAX_SIZE = 400000, LABEL_AREA = 1 << 20, SLAB_TABLE = 8192 };
#define DEV_BYTES (192ull << 20)

struct file {
	uint64_t seed;
	uint32_t size; /* 0: there is none */
};

struct mirror {
	struct fixture f;
	uint64_t random;
	unsigned victim;
	bool away;
	struct file files[FILES];
};

static unsigned dice(struct mirror *m, unsigned sides)
{
	return (unsigned)(test_random(&m->random) >> 33) % sides;
}

/* ---- files ---- */

static void content(const struct file *file, uint8_t *out)
{
	uint64_t x = file->seed;

	for (uint32_t i = 0; i < file->size; i += 8) {
		uint64_t v = test_random(&x);

		memcpy(out + i, &v, 8);
	}
}

static void change_files(struct mirror *m, unsigned n)
{
	static uint8_t data[FILE_MAX_SIZE + 8];
	struct tarn_inode *root, *inode;

	assert_int_equal(tarn_root(m->f.ds, &root), 0);
	while (n--) {
		unsigned i = dice(m, FILES);
		struct file *file = &m->files[i];
		struct tarn_create how = {.type = TARN_REG};
		struct tarn_commit token;
		char name[16];
		int rc;

		snprintf(name, sizeof(name), "file%u", i);
		if (file->size) {
			assert_int_equal(tarn_unlink(NULL, root, name, 0, NULL, &token), 0);
			file->size = 0;
			if (dice(m, 4) == 0)
				continue;
		}
		*file = (struct file){test_random(&m->random), 1 + dice(m, FILE_MAX_SIZE)};
		content(file, data);
		rc = tarn_create(NULL, root, name, &how, &inode, NULL, NULL, &token);
		assert_int_equal(rc, 0);
		assert_int_equal(fixture_write(inode, 0, data, file->size, dice(m, 8) == 0), 0);
		tarn_inode_put(inode);
	}
	tarn_inode_put(root);
}

static void verify_files(struct mirror *m)
{
	static uint8_t data[FILE_MAX_SIZE + 8], want[FILE_MAX_SIZE + 8];
	struct tarn_inode *root, *inode;

	assert_int_equal(tarn_root(m->f.ds, &root), 0);
	for (unsigned i = 0; i < FILES; i++) {
		char name[16];
		size_t got;
		bool eof;

		snprintf(name, sizeof(name), "file%u", i);
		assert_int_equal(tarn_lookup(NULL, root, name, &inode),
				 m->files[i].size ? 0 : -ENOENT);
		if (!m->files[i].size)
			continue;
		content(&m->files[i], want);
		assert_int_equal(fixture_read(inode, 0, data, sizeof(data), &got, &eof), 0);
		assert_int_equal(got, m->files[i].size);
		assert_memory_equal(data, want, got);
		tarn_inode_put(inode);
	}
	tarn_inode_put(root);
}

/* ---- what happens to the victim ---- */

static void overwrite(const char *path, uint64_t offset, const void *data, size_t len)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, data, len, (off_t)offset), len);
	close(fd);
}

static void garble(struct mirror *m)
{
	uint8_t sector[4096];

	for (unsigned n = 1 + dice(m, 3000); n > 0; n--) {
		for (unsigned i = 0; i < sizeof(sector); i++)
			sector[i] = (uint8_t)test_random(&m->random);
		overwrite(m->f.path[m->victim],
			  (uint64_t)dice(m, (unsigned)(DEV_BYTES / sizeof(sector))) *
			      sizeof(sector),
			  sector, dice(m, 2) ? sizeof(sector) : 1);
	}
}

static void wipe_area(struct mirror *m, bool back)
{
	static const uint8_t zeros[LABEL_AREA];

	overwrite(m->f.path[m->victim], back ? DEV_BYTES - LABEL_AREA : 0, zeros, LABEL_AREA);
}

static void resize_victim(struct mirror *m, uint64_t bytes)
{
	assert_int_equal(truncate(m->f.path[m->victim], (off_t)bytes), 0);
}

static void hide(struct mirror *m, bool away)
{
	char other[112];

	/* Not in the folder that is searched. */
	snprintf(other, sizeof(other), "%s.away", m->f.dir);
	if (away != m->away)
		assert_int_equal(away ? rename(m->f.path[m->victim], other)
				      : rename(other, m->f.path[m->victim]),
				 0);
	m->away = away;
}

static void befall(struct mirror *m, bool live)
{
	if (m->away)
		return;
	switch (dice(m, 7)) {
	case 0:
	case 1:
		garble(m);
		break;
	case 2:
		wipe_area(m, false);
		break;
	case 3:
		wipe_area(m, true);
		break;
	case 4:
		if (!live) {
			wipe_area(m, false);
			wipe_area(m, true);
		}
		break;
	case 5:
		resize_victim(m, dice(m, (unsigned)DEV_BYTES));
		break;
	case 6:
		resize_victim(m, DEV_BYTES + dice(m, 100 << 20));
		break;
	}
}

/* ---- the pool ---- */

static void export_pool(struct mirror *m)
{
	struct tarn_error err = {0};

	tarn_dataset_put(m->f.ds);
	if (tarn_pool_export(m->f.engine, FIXTURE_POOL, 0, &err))
		fail_msg("export: %s", err.text);
}

static int try_import(struct mirror *m, const char *const *paths, uint32_t npaths,
		      struct tarn_error *err)
{
	struct tarn_import_spec spec = {.name = FIXTURE_POOL, .paths = paths, .npaths = npaths};
	int rc = tarn_pool_import(m->f.engine, &spec, err);

	if (!rc)
		assert_int_equal(tarn_dataset_open(m->f.engine, FIXTURE_POOL, NULL, &m->f.ds), 0);
	return rc;
}

/* Devices by their folder: names do not matter. */
static void import_pool(struct mirror *m)
{
	const char *folder = m->f.dir;
	struct tarn_error err = {0};

	if (try_import(m, &folder, 1, &err))
		fail_msg("import: %s", err.text);
}

/* That the other device is all there is, or that the victim holds less. */
static void print_finding(void *arg, const struct tarn_finding *finding)
{
	switch (finding->kind) {
	case TARN_FOUND_DEVICE:
	case TARN_FOUND_COLUMN:
		break;
	default:
		print_error("tarnck: %s: %s\n", tarn_finding_name(finding->kind), finding->text);
		++*(unsigned *)arg;
	}
}

static void check(const char *const *paths, uint32_t npaths)
{
	unsigned wrong = 0;
	struct tarn_check_spec spec = {.name = FIXTURE_POOL,
				       .paths = paths,
				       .npaths = npaths,
				       .uberblocks = TARN_CHECK_STATES,
				       .finding = print_finding,
				       .arg = &wrong};
	struct tarn_check_result result;
	struct tarn_error err = {0};

	if (tarn_check(&spec, &result, &err))
		fail_msg("tarnck: %s", err.text);
	assert_int_equal(wrong, 0);
}

static void check_survivor(struct mirror *m)
{
	const char *others[FIXTURE_DEVS_MAX];
	uint32_t n = 0;

	for (unsigned i = 0; i < m->f.ndevs; i++) {
		if (i != m->victim)
			others[n++] = m->f.path[i];
	}
	check(others, n);
}

/* Of an exported pool, whose devices are all here. */
static void end(struct mirror *m)
{
	tarn_engine_destroy(m->f.engine);
	for (unsigned i = 0; i < m->f.ndevs; i++)
		unlink(m->f.path[i]);
	rmdir(m->f.dir);
}

static void mishaps(enum tarn_group_kind kind, unsigned ndevs, unsigned rounds)
{
	struct mirror m = {0};

	m.random = test_seed();
	fixture_begin_kind(&m.f, ndevs, DEV_BYTES, kind, NULL);
	m.victim = dice(&m, ndevs);
	change_files(&m, 60);
	for (unsigned round = 0; round < rounds * test_scale(); round++) {
		change_files(&m, dice(&m, 30));
		if (dice(&m, 2))
			befall(&m, true);
		change_files(&m, dice(&m, 10));
		verify_files(&m);
		export_pool(&m);
		check_survivor(&m);
		if (dice(&m, 2))
			befall(&m, false);
		hide(&m, dice(&m, 3) == 0);
		import_pool(&m);
		verify_files(&m);
	}
	export_pool(&m);
	/* The victim has gone for good. */
	hide(&m, true);
	check_survivor(&m);
	import_pool(&m);
	verify_files(&m);
	export_pool(&m);
	hide(&m, false);
	end(&m);
}

static void test_mishaps(void **state)
{
	(void)state;
	mishaps(TARN_GROUP_MIRROR, 2, 12);
}

static void test_mishaps_of_raidz(void **state)
{
	(void)state;
	mishaps(TARN_GROUP_RAIDZ1, 4, 6);
	mishaps(TARN_GROUP_RAIDZ2, 4, 3);
}

/* A change of the pool that waits for its txg. */
static void commit(struct mirror *m)
{
	const struct tarn_prop comment = {.name = "comment", .value = "x"};
	struct tarn_error err = {0};

	assert_int_equal(tarn_dataset_set(m->f.engine, FIXTURE_POOL, &comment, 1, &err), 0);
}

/* A device that no longer knows which slab is whose: its copies are lost, and no slab of it may be
   given back by who held it before, for it has a new owner by then. */
static void test_lost_slab_table(void **state)
{
	static const uint8_t zeros[SLAB_TABLE];
	struct mirror m = {0};

	(void)state;
	m.random = test_seed();
	fixture_begin(&m.f, 2, DEV_BYTES, true, NULL);
	change_files(&m, 60);
	for (unsigned round = 0; round < 4; round++) {
		export_pool(&m);
		overwrite(m.f.path[m.victim], LABEL_AREA, zeros, sizeof(zeros));
		import_pool(&m);
		verify_files(&m);
		/* Old chunks go, new ones come. */
		for (unsigned txg = 0; txg < 8; txg++) {
			change_files(&m, 40);
			commit(&m);
		}
		verify_files(&m);
	}
	export_pool(&m);
	check(m.f.paths, 2);
	end(&m);
}

static void copy_file(const char *from, const char *to)
{
	static uint8_t buf[1 << 20];
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ssize_t n;

	assert_true(in >= 0 && out >= 0);
	while ((n = read(in, buf, sizeof(buf))) > 0)
		assert_int_equal(write(out, buf, (size_t)n), n);
	close(in);
	close(out);
}

/*
 * Copies of devices lie in the folder where the pool is searched. While nobody can tell which is
 * which, the pool is refused; later the older ones are passed over.
 */
static void check_old_copies(bool mirror)
{
	struct mirror m = {0};
	struct tarn_error err = {0};
	char before[112], after[112];
	const char *folder = m.f.dir;

	m.random = test_seed();
	fixture_begin(&m.f, 2, DEV_BYTES, mirror, NULL);
	change_files(&m, 60);
	export_pool(&m);
	snprintf(before, sizeof(before), "%s/a-copy", m.f.dir);
	snprintf(after, sizeof(after), "%s/z-copy", m.f.dir);
	copy_file(m.f.path[0], before);
	copy_file(m.f.path[1], after);
	assert_int_equal(try_import(&m, &folder, 1, &err), -EEXIST);
	assert_non_null(strstr(err.text, "copies of one device"));
	assert_int_equal(try_import(&m, m.f.paths, 2, &err), 0);
	for (int i = 0; i < 3; i++) {
		verify_files(&m);
		change_files(&m, 60);
		export_pool(&m);
		import_pool(&m);
	}
	verify_files(&m);
	unlink(before);
	unlink(after);
	fixture_end(&m.f);
}

static void test_old_copies(void **state)
{
	(void)state;
	check_old_copies(false);
	check_old_copies(true);
}

/* By the names and sizes alone. */
static bool is_history(struct mirror *m, const struct file *files)
{
	struct tarn_inode *root, *inode;
	bool same = true;

	assert_int_equal(tarn_root(m->f.ds, &root), 0);
	for (unsigned i = 0; i < FILES; i++) {
		struct tarn_attr attr = {0};
		char name[16];

		snprintf(name, sizeof(name), "file%u", i);
		if (tarn_lookup(NULL, root, name, &inode) == 0) {
			assert_int_equal(tarn_getattr(inode, &attr), 0);
			tarn_inode_put(inode);
		}
		same &= attr.size == files[i].size;
	}
	tarn_inode_put(root);
	return same;
}

/*
 * Each device was used without the other: two histories of one pool. With both there again, one
 * of the two is the pool, as it was; the other device's copies are not mixed into it.
 */
static void test_two_histories(void **state)
{
	struct file histories[2][FILES];
	struct mirror m = {0};

	(void)state;
	m.random = test_seed();
	fixture_begin(&m.f, 2, DEV_BYTES, true, NULL);
	change_files(&m, 60);
	export_pool(&m);
	memcpy(histories[0], m.files, sizeof(m.files));
	memcpy(histories[1], m.files, sizeof(m.files));
	for (unsigned i = 0; i < 2; i++) {
		m.victim = !i;
		hide(&m, true);
		memcpy(m.files, histories[i], sizeof(m.files));
		import_pool(&m);
		verify_files(&m);
		change_files(&m, 30 + dice(&m, 60));
		export_pool(&m);
		memcpy(histories[i], m.files, sizeof(m.files));
		hide(&m, false);
	}
	import_pool(&m);
	memcpy(m.files, histories[!is_history(&m, histories[0])], sizeof(m.files));
	for (int i = 0; i < 3; i++) {
		verify_files(&m);
		change_files(&m, 60);
		export_pool(&m);
		import_pool(&m);
	}
	verify_files(&m);
	export_pool(&m);
	end(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_mishaps),         cmocka_unit_test(test_mishaps_of_raidz),
	    cmocka_unit_test(test_lost_slab_table), cmocka_unit_test(test_old_copies),
	    cmocka_unit_test(test_two_histories),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
