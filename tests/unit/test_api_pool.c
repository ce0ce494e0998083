// SPDX-License-Identifier: LGPL-3.0-or-later
/* The public calls for pools, on files in a temporary directory. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <tarn/dataset.h>
#include <tarn/pool.h>

#include "pool/label.h"
#include "pool/slab.h"

#define FILES 4
#define SIZE (64ll << 20)

static char dir[64];
static char path[FILES][96];
static const char *paths[FILES];
static struct tarn_engine *engine;
static struct tarn_error error;

static const struct tarn_config here = {
    .arc_max = 16 << 20, .dirty_max = 16 << 20, .threads = 2, .host = "here", .host_id = 1};
static const struct tarn_config there = {
    .arc_max = 16 << 20, .dirty_max = 16 << 20, .threads = 2, .host = "there", .host_id = 2};

static void make_file(const char *name, off_t size)
{
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	close(fd);
}

static void poke(const char *name, off_t offset, const void *bytes, size_t n)
{
	int fd = open(name, O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, n, offset), n);
	close(fd);
}

static int begin(void **state)
{
	(void)state;
	strcpy(dir, "/var/tmp/tarn-test-XXXXXX");
	assert_non_null(mkdtemp(dir));
	for (int i = 0; i < FILES; i++) {
		snprintf(path[i], sizeof(path[i]), "%s/disk%d", dir, i);
		paths[i] = path[i];
		make_file(path[i], SIZE);
	}
	assert_int_equal(tarn_engine_create(&here, &engine), 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	tarn_engine_destroy(engine);
	for (int i = 0; i < FILES; i++)
		unlink(path[i]);
	rmdir(dir);
	return 0;
}

static struct tarn_group_spec single(const char *const *at)
{
	return (struct tarn_group_spec){TARN_GROUP_SINGLE, 1, at, TARN_CLASS_DATA};
}

static struct tarn_group_spec mirror(const char *const *at, uint32_t n)
{
	return (struct tarn_group_spec){TARN_GROUP_MIRROR, n, at, TARN_CLASS_DATA};
}

static int create(const char *name, struct tarn_group_spec group, int flags)
{
	return tarn_pool_create(engine, name, &group, 1, NULL, 0, flags, &error);
}

static int import(const char *name, int flags)
{
	struct tarn_import_spec spec = {
	    .name = name, .paths = paths, .npaths = FILES, .flags = flags};

	return tarn_pool_import(engine, &spec, &error);
}

static void must(int rc)
{
	if (rc)
		fail_msg("%s: %s", strerror(-rc), error.text);
}

/* Refused with a text that holds `word`. */
static void refused(int rc, int code, const char *word)
{
	assert_int_equal(rc, code);
	assert_int_equal(error.code, code);
	if (!strstr(error.text, word))
		fail_msg("'%s' lacks '%s'", error.text, word);
}

static struct tarn_pool_status *status(const char *name)
{
	struct tarn_pool_status *s;

	assert_int_equal(tarn_pool_status(engine, name, &s), 0);
	return s;
}

/* ---- create ---- */

static void test_create(void **state)
{
	struct tarn_group_spec groups[2] = {mirror(paths, 2), mirror(paths + 2, 2)};
	struct tarn_prop props[] = {{"comment", "for the test"}, {"compression", "zstd-3"}};
	char(*names)[TARN_POOL_NAME_MAX + 1];
	struct tarn_pool_status *s;
	struct tarn_dataset *ds;
	uint32_t count;

	(void)state;
	must(tarn_pool_create(engine, "tank", groups, 2, props, 2, 0, &error));
	s = status("tank");
	assert_string_equal(s->name, "tank");
	assert_int_equal(s->ngroups, 2);
	assert_int_equal(s->ndevs, 4);
	assert_int_equal(s->groups[1].first_dev, 2);
	assert_int_equal(s->groups[0].kind, TARN_GROUP_MIRROR);
	assert_int_equal(s->state, TARN_DEV_ONLINE);
	assert_string_equal(s->devs[3].path, path[3]);
	/* 64 MiB less two label areas and the slab table's MiB: 15 slabs of 4 MiB. */
	assert_int_equal(s->groups[0].size, 60 << 20);
	assert_int_equal(s->size, 120 << 20);
	assert_int_equal(s->size, s->allocated + s->free);
	assert_true(s->allocated > 0 && s->txg > 0);
	assert_true(s->devs[0].writes > 0 && s->devs[0].write_bytes > 0);
	tarn_pool_status_free(s);
	assert_int_equal(tarn_pool_list(engine, &names, &count), 0);
	assert_int_equal(count, 1);
	assert_string_equal(names[0], "tank");
	free(names);
	assert_int_equal(tarn_dataset_open(engine, "tank", NULL, &ds), 0);
	tarn_dataset_put(ds);
	assert_int_equal(tarn_pool_status(engine, "tonk", &s), -ENXIO);
}

static void untouched(const char *name)
{
	static char zeros[1 << 20], found[1 << 20];
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	while ((n = read(fd, found, sizeof(found))) > 0)
		assert_memory_equal(found, zeros, (size_t)n);
	close(fd);
}

static void test_refusals(void **state)
{
	struct tarn_group_spec mixed[2] = {mirror(paths, 2), single(paths + 2)};
	const char *twice[2] = {path[0], path[0]};
	char link[128];
	const char *by_link[2] = {path[0], link};
	const char *absent[1] = {"/var/tmp/tarn-test-absent"}, *folder[1] = {dir};
	struct tarn_prop bad_name[] = {{"colour", "red"}}, bad_value[] = {{"compression", "lots"}};
	struct tarn_prop fixed[] = {{"capacity", "7"}};
	struct tarn_group_spec one = single(paths);

	(void)state;
	refused(create("mirror-1", one, 0), -EINVAL, "name");
	refused(create("1tank", one, 0), -EINVAL, "letter");
	refused(create("a b", one, 0), -EINVAL, "letters, digits");
	refused(create("", one, 0), -EINVAL, "name");
	refused(create("tank", single(absent), 0), -ENOENT, absent[0]);
	refused(create("tank", single(folder), 0), -ENOTBLK, "neither");
	refused(create("tank", mirror(twice, 2), 0), -EINVAL, "same device");
	snprintf(link, sizeof(link), "%s/link", dir);
	assert_int_equal(symlink(path[0], link), 0);
	refused(create("tank", mirror(by_link, 2), 0), -EINVAL, "same device");
	unlink(link);
	refused(create("tank", mirror(paths, 1), 0), -EINVAL, "2 to 8");
	refused(tarn_pool_create(engine, "tank", mixed, 2, NULL, 0, 0, &error), -EINVAL, "mixed");
	refused(tarn_pool_create(engine, "tank", NULL, 0, NULL, 0, 0, &error), -EINVAL, "no dev");
	refused(tarn_pool_create(engine, "tank", &one, 1, bad_name, 1, 0, &error), -EINVAL,
		"colour");
	refused(tarn_pool_create(engine, "tank", &one, 1, bad_value, 1, 0, &error), -EINVAL, "");
	refused(tarn_pool_create(engine, "tank", &one, 1, fixed, 1, 0, &error), -EINVAL,
		"capacity");
	make_file(path[3], SIZE - 4096);
	refused(create("tank", single(paths + 3), 0), -ENOSPC, "too small");
	make_file(path[3], SIZE);
	must(create("tank", one, TARN_DRY_RUN));
	for (int i = 0; i < FILES; i++)
		untouched(path[i]);
	must(tarn_pool_create(engine, "tank", mixed, 2, NULL, 0, TARN_FORCE, &error));
	refused(create("tank", single(paths + 3), 0), -EEXIST, "already");
	refused(create("tonk", one, TARN_FORCE), -EBUSY, "in use");
}

/* As LVM computes it: over the label's sector behind the sum. */
static uint32_t lvm_crc(const uint8_t *bytes, size_t n)
{
	uint32_t crc = 0xf597a6cf;

	while (n--) {
		crc ^= *bytes++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
	}
	return crc;
}

static void put_lvm(void)
{
	uint8_t sector[512] = "LABELONE\1";
	uint32_t crc;

	sector[20] = 0x20;
	memcpy(sector + 24, "LVM2 001", 8);
	crc = lvm_crc(sector + 20, sizeof(sector) - 20);
	memcpy(sector + 16, &crc, 4);
	poke(path[0], 512, sector, sizeof(sector));
}

static void put_md(void)
{
	poke(path[0], 4096, "\xfc\x4e\x2b\xa9\1\0\0", 8);
	poke(path[0], 4096 + 0x90, "\x08\0\0\0\0\0\0", 8);
}

static void put_zfs(void)
{
	for (int i = 0; i < 5; i++)
		poke(path[0], (128 << 10) + i * 1024, "\x0c\xb1\xba\0\0\0\0", 8);
}

static void put_ext2(void)
{
	poke(path[0], 1024, "\x10\0\0\0\0\x40\0", 8);
	poke(path[0], 1024 + 56, "\x53\xef", 2);
	poke(path[0], 1024 + 76, "\1", 1);
}

static void put_luks(void)
{
	poke(path[0], 0, "LUKS\xba\xbe\0\1", 8);
}

static void put_dos(void)
{
	unsigned char mbr[512] = {0};

	mbr[446 + 4] = 0x83; /* one Linux partition from sector 2048 */
	mbr[446 + 9] = 8;
	mbr[446 + 13] = 0x10;
	mbr[510] = 0x55;
	mbr[511] = 0xaa;
	poke(path[0], 0, mbr, sizeof(mbr));
}

static void test_foreign_signatures(void **state)
{
	static const struct {
		const char *what;
		void (*put)(void);
	} kinds[] = {
	    {"LVM2_member", put_lvm}, {"linux_raid_member", put_md}, {"zfs_member", put_zfs},
	    {"ext2", put_ext2},       {"crypto_LUKS", put_luks},     {"dos", put_dos},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		kinds[i].put();
		refused(create("tank", single(paths), 0), -EEXIST, kinds[i].what);
		assert_non_null(strstr(error.text, "-f"));
		must(create("tank", single(paths), TARN_FORCE | TARN_DRY_RUN));
		refused(create("tank", single(paths), 0), -EEXIST, kinds[i].what);
		must(create("tank", single(paths), TARN_FORCE));
		/* Neither it nor the pool is there any more. */
		must(tarn_pool_destroy(engine, "tank", 0, &error));
		must(create("tank", single(paths), 0));
		must(tarn_pool_destroy(engine, "tank", 0, &error));
	}
}

static void test_other_pools_label(void **state)
{
	struct tarn_import_candidate *found;
	uint32_t count;

	(void)state;
	must(create("tank", single(paths), 0));
	must(tarn_pool_export(engine, "tank", 0, &error));
	refused(create("tonk", single(paths), 0), -EEXIST, "'tank'");
	must(create("tonk", single(paths), TARN_FORCE));
	must(tarn_pool_export(engine, "tonk", 0, &error));
	assert_int_equal(tarn_pool_scan(engine, paths, FILES, &found, &count), 0);
	assert_int_equal(count, 1);
	assert_string_equal(found[0].name, "tonk");
	free(found);
}

/* ---- life ---- */

static void test_export_import(void **state)
{
	struct tarn_import_spec spec = {.paths = (const char *const[]){dir}, .npaths = 1};
	struct tarn_import_candidate *found;
	struct tarn_pool_status *s;
	struct tarn_dataset *ds;
	uint32_t count;
	uint64_t guid;

	(void)state;
	must(create("tank", mirror(paths, 2), 0));
	must(tarn_dataset_create(engine, "tank/a", NULL, 0, false, &error));
	s = status("tank");
	guid = s->guid;
	tarn_pool_status_free(s);
	refused(import("tank", 0), -EEXIST, "'tank' is imported already");
	assert_int_equal(tarn_dataset_open(engine, "tank/a", NULL, &ds), 0);
	must(tarn_pool_export(engine, "tank", 0, &error));
	tarn_dataset_put(ds); /* a reference outlives the pool */
	assert_int_equal(tarn_dataset_open(engine, "tank/a", NULL, &ds), -ENXIO);
	refused(tarn_pool_export(engine, "tank", 0, &error), -ENXIO, "tank");

	assert_int_equal(tarn_pool_scan(engine, spec.paths, 1, &found, &count), 0);
	assert_int_equal(count, 1);
	assert_string_equal(found[0].name, "tank");
	assert_true(found[0].guid == guid && found[0].importable && !found[0].active);
	assert_int_equal(found[0].devs_found, 2);
	assert_int_equal(found[0].devs_total, 2);
	assert_true(found[0].txg > 0);
	free(found);

	spec.guid = guid;
	spec.new_name = "lake";
	spec.flags = TARN_DRY_RUN;
	must(tarn_pool_import(engine, &spec, &error));
	assert_int_equal(tarn_pool_status(engine, "lake", &s), -ENXIO);
	spec.flags = 0;
	must(tarn_pool_import(engine, &spec, &error));
	assert_int_equal(tarn_dataset_open(engine, "lake/a", NULL, &ds), 0);
	tarn_dataset_put(ds);
	must(create("tank", single(paths + 2), 0));
	must(tarn_pool_export(engine, "lake", 0, &error));
	spec.new_name = NULL;
	must(tarn_pool_import(engine, &spec, &error));
	must(tarn_pool_export(engine, "lake", 0, &error));
	spec.new_name = "tank";
	refused(tarn_pool_import(engine, &spec, &error), -EEXIST, "-N");
	spec.guid++;
	refused(tarn_pool_import(engine, &spec, &error), -ENOENT, "GUID");
}

/* "a/nnn.../nnn...", of so many bytes. */
static void long_path(char *out, size_t bytes)
{
	size_t at = (size_t)sprintf(out, "a");

	while (at < bytes) {
		size_t n = bytes - at - 1 < TARN_NAME_MAX ? bytes - at - 1 : TARN_NAME_MAX;

		out[at] = '/';
		memset(out + at + 1, 'n', n);
		at += n + 1;
	}
	out[at] = 0;
}

static int note_longest(void *arg, const struct tarn_dataset_info *info)
{
	size_t *longest = arg, len = strlen(info->path);

	*longest = len > *longest ? len : *longest;
	return 0;
}

/* A pool's new name makes all paths longer; there is room for TARN_PATH_MAX - 1 bytes. */
static void test_long_name(void **state)
{
	struct tarn_import_spec spec = {.name = "a", .paths = paths, .npaths = FILES};
	char deep[TARN_PATH_MAX];
	size_t longest = 0;

	(void)state;
	long_path(deep, TARN_PATH_MAX - 2);
	must(create("a", single(paths), 0));
	must(tarn_dataset_create(engine, deep, NULL, 0, true, &error));
	must(tarn_pool_export(engine, "a", 0, &error));
	for (int flags = 0; flags <= TARN_READ_ONLY; flags += TARN_READ_ONLY) {
		spec.flags = flags;
		spec.new_name = "abc";
		refused(tarn_pool_import(engine, &spec, &error), -ENAMETOOLONG, "-N");
	}
	/* Nothing has the name that was refused. */
	spec.flags = 0;
	spec.new_name = NULL;
	must(tarn_pool_import(engine, &spec, &error));
	must(tarn_pool_export(engine, "a", 0, &error));
	spec.new_name = "ab";
	must(tarn_pool_import(engine, &spec, &error));
	assert_int_equal(tarn_dataset_list(engine, "ab", true, note_longest, &longest), 0);
	assert_int_equal(longest, TARN_PATH_MAX - 1);
}

/* What can't be opened for want of descriptors is there: no pool begins without it. */
static void test_no_descriptors(void **state)
{
	struct rlimit limit, few;
	struct tarn_pool_status *s;
	int rc = -EMFILE, base = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)state;
	close(base);
	must(create("tank", mirror(paths, 4), 0));
	must(tarn_pool_export(engine, "tank", 0, &error));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	few = limit;
	for (int n = 1; rc && n < 64; n++) {
		few.rlim_cur = (rlim_t)(base + n);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		rc = import("tank", 0);
		setrlimit(RLIMIT_NOFILE, &limit);
		if (rc)
			refused(rc, -EMFILE, strerror(EMFILE));
	}
	must(rc);
	s = status("tank");
	assert_int_equal(s->state, TARN_DEV_ONLINE);
	tarn_pool_status_free(s);
}

static void test_missing_mirror_device(void **state)
{
	struct tarn_pool_status *s;
	char hidden[128];

	(void)state;
	must(create("tank", mirror(paths, 2), 0));
	must(tarn_pool_export(engine, "tank", 0, &error));
	snprintf(hidden, sizeof(hidden), "%s.away", path[1]);
	assert_int_equal(rename(path[1], hidden), 0);
	must(import("tank", 0));
	s = status("tank");
	assert_int_equal(s->state, TARN_DEV_DEGRADED);
	assert_int_equal(s->groups[0].state, TARN_DEV_DEGRADED);
	assert_int_equal(s->devs[0].state, TARN_DEV_ONLINE);
	assert_int_equal(s->devs[1].state, TARN_DEV_MISSING);
	assert_string_equal(s->devs[1].path, path[1]);
	tarn_pool_status_free(s);
	must(tarn_dataset_create(engine, "tank/new", NULL, 0, false, &error));
	must(tarn_pool_export(engine, "tank", 0, &error));
	assert_int_equal(rename(hidden, path[1]), 0);
	must(import("tank", TARN_READ_ONLY));
	s = status("tank");
	/* It has missed the new dataset, which is not rebuilt now. */
	assert_int_equal(s->state, TARN_DEV_DEGRADED);
	assert_int_equal(s->groups[0].state, TARN_DEV_DEGRADED);
	assert_int_equal(s->devs[0].state, TARN_DEV_ONLINE);
	assert_int_equal(s->devs[0].stale, 0);
	assert_int_equal(s->devs[1].state, TARN_DEV_DEGRADED);
	assert_true(s->devs[1].stale > 0);
	tarn_pool_status_free(s);
	must(tarn_pool_export(engine, "tank", 0, &error));
	must(import("tank", 0));
	enum tarn_dev_state state_now;
	do {
		usleep(1000);
		s = status("tank");
		state_now = s->state;
		tarn_pool_status_free(s);
	} while (state_now != TARN_DEV_ONLINE);
	struct tarn_dataset *ds;
	assert_int_equal(tarn_dataset_open(engine, "tank/new", NULL, &ds), 0);
	tarn_dataset_put(ds);
}

static void test_missing_single_device(void **state)
{
	struct tarn_group_spec groups[2] = {single(paths), single(paths + 1)};
	struct tarn_import_candidate *found;
	uint32_t count;

	(void)state;
	must(tarn_pool_create(engine, "tank", groups, 2, NULL, 0, 0, &error));
	must(tarn_pool_export(engine, "tank", 0, &error));
	make_file(path[1], SIZE);
	assert_int_equal(tarn_pool_scan(engine, paths, FILES, &found, &count), 0);
	assert_int_equal(count, 1);
	assert_false(found[0].importable);
	assert_int_equal(found[0].devs_found, 1);
	free(found);
	refused(import("tank", 0), -ENODEV, path[1]);
}

static void test_foreign_host(void **state)
{
	struct tarn_import_candidate *found;
	struct tarn_engine *other;
	struct tarn_import_spec spec = {.name = "tank", .paths = paths, .npaths = FILES};
	uint32_t count;

	(void)state;
	must(create("tank", single(paths), 0));
	assert_int_equal(tarn_engine_create(&there, &other), 0);
	refused(tarn_pool_import(other, &spec, &error), -EBUSY, "in use");
	/* A read-only import would not be kept out by the device, but by the label. */
	spec.flags = TARN_READ_ONLY;
	refused(tarn_pool_import(other, &spec, &error), -EREMOTE, "host here");
	assert_non_null(strstr(error.text, "-f"));
	assert_int_equal(tarn_pool_scan(other, paths, FILES, &found, &count), 0);
	assert_int_equal(count, 1);
	assert_true(found[0].active);
	assert_string_equal(found[0].host, "here");
	free(found);
	must(tarn_pool_export(engine, "tank", 0, &error));
	spec.flags = 0;
	must(tarn_pool_import(other, &spec, &error));
	tarn_engine_destroy(other); /* exports */
	must(import("tank", 0));
}

static void sum(const char *name, uint64_t out[2])
{
	uint64_t buf[512];
	int fd = open(name, O_RDONLY | O_CLOEXEC);

	out[0] = out[1] = 0;
	while (read(fd, buf, sizeof(buf)) > 0) {
		for (int i = 0; i < 512; i++) {
			out[0] += buf[i];
			out[1] += out[0];
		}
	}
	close(fd);
}

static void test_read_only_import(void **state)
{
	struct tarn_group_spec more = single(paths + 1);
	struct tarn_pool_status *s;
	uint64_t before[2], after[2];

	(void)state;
	must(create("tank", single(paths), 0));
	must(tarn_pool_export(engine, "tank", 0, &error));
	sum(path[0], before);
	must(import("tank", TARN_READ_ONLY));
	s = status("tank");
	assert_true(s->read_only && s->txg > 0 && s->size > 0);
	tarn_pool_status_free(s);
	refused(tarn_dataset_create(engine, "tank/a", NULL, 0, false, &error), -EROFS, "read-only");
	refused(tarn_pool_add(engine, "tank", &more, 1, 0, &error), -EROFS, "read-only");
	refused(tarn_pool_destroy(engine, "tank", 0, &error), -EROFS, "read-only");
	refused(tarn_pool_prop_set(engine, "tank", "comment", "x", &error), -EROFS, "");
	must(tarn_pool_export(engine, "tank", 0, &error));
	sum(path[0], after);
	assert_memory_equal(before, after, sizeof(before));
}

static void test_add(void **state)
{
	struct tarn_group_spec same = mirror(paths + 2, 2), other = single(paths + 2);
	struct tarn_pool_status *s;

	(void)state;
	must(create("tank", mirror(paths, 2), 0));
	refused(tarn_pool_add(engine, "tank", &other, 1, 0, &error), -EINVAL, "mixed");
	refused(tarn_pool_add(engine, "tonk", &same, 1, 0, &error), -ENXIO, "tonk");
	must(tarn_pool_add(engine, "tank", &same, 1, TARN_DRY_RUN, &error));
	untouched(path[2]);
	must(tarn_pool_add(engine, "tank", &same, 1, 0, &error));
	for (int round = 0; round < 2; round++) {
		s = status("tank");
		assert_int_equal(s->ngroups, 2);
		assert_int_equal(s->ndevs, 4);
		assert_int_equal(s->size, 120 << 20);
		tarn_pool_status_free(s);
		must(tarn_pool_export(engine, "tank", 0, &error));
		must(import("tank", 0));
	}
}

static void test_destroy(void **state)
{
	struct tarn_import_candidate *found;
	struct tarn_pool_status *s;
	uint32_t count;

	(void)state;
	must(create("tank", mirror(paths, 2), 0));
	must(tarn_pool_destroy(engine, "tank", TARN_DRY_RUN, &error));
	tarn_pool_status_free(status("tank"));
	must(tarn_pool_destroy(engine, "tank", 0, &error));
	assert_int_equal(tarn_pool_status(engine, "tank", &s), -ENXIO);
	refused(tarn_pool_destroy(engine, "tank", 0, &error), -ENXIO, "tank");
	assert_int_equal(tarn_pool_scan(engine, paths, FILES, &found, &count), 0);
	assert_int_equal(count, 0);
	free(found);
	must(create("tank", mirror(paths, 2), 0));
}

static struct uberblock newest_uberblock(const char *name)
{
	struct uberblock best = {0}, uber;
	int fd = open(name, O_RDONLY | O_CLOEXEC);

	for (int i = 0; i < UBER_SLOTS; i++) {
		assert_int_equal(pread(fd, &uber, sizeof(uber), UBER_OFFSET + i * sizeof(uber)),
				 sizeof(uber));
		if (!disk_check(&uber.head, UBER_MAGIC, sizeof(uber)) &&
		    uber_compare(&uber, &best) > 0)
			best = uber;
	}
	close(fd);
	return best;
}

/* Breaks every copy of the block, on a device whose slab table is one page at 1 MiB. */
static void break_block(const char *name, const struct bp *bp)
{
	static const char zeros[64];
	struct slab_page page;
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	unsigned copies = 0;

	assert_int_equal(pread(fd, &page, sizeof(page), LABEL_AREA), sizeof(page));
	close(fd);
	for (unsigned slab = 0; slab < 15; slab++) {
		if (page.entries[slab].chunk != bp->chunk)
			continue;
		poke(name, (2 << 20) + ((off_t)slab << 22) + bp->sector * 4096ll, zeros,
		     sizeof(zeros));
		copies++;
	}
	assert_int_equal(copies, 2);
}

static void test_rewind(void **state)
{
	struct tarn_import_candidate *found;
	struct uberblock newest;
	struct tarn_dataset *ds;
	uint32_t count;

	(void)state;
	must(create("tank", single(paths), 0));
	must(tarn_dataset_create(engine, "tank/kept", NULL, 0, false, &error));
	for (int i = 0; i < 3; i++) /* the second copy of the slab table's page follows */
		assert_int_equal(tarn_pool_history_add(engine, "tank", "x"), 0);
	must(tarn_pool_export(engine, "tank", 0, &error));
	must(import("tank", TARN_REWIND)); /* nothing is wrong, so nothing is lost */
	must(tarn_dataset_create(engine, "tank/lost", NULL, 0, false, &error));
	must(tarn_pool_export(engine, "tank", 0, &error));

	/* The newest states, until one has lost nothing. */
	for (int lost = 0; lost < 3; lost++) {
		newest = newest_uberblock(path[0]);
		break_block(path[0], &newest.root);
		refused(import("tank", 0), -EIO, "-F");
		assert_int_equal(tarn_pool_scan(engine, paths, FILES, &found, &count), 0);
		assert_false(found[0].active);
		free(found);
		refused(import("tank", TARN_DRY_RUN), -EIO, "-F");
		must(import("tank", TARN_REWIND | TARN_DRY_RUN));
		must(import("tank", TARN_REWIND));
		assert_int_equal(tarn_dataset_open(engine, "tank/kept", NULL, &ds), 0);
		tarn_dataset_put(ds);
		must(tarn_pool_export(engine, "tank", 0, &error));
		must(import("tank", 0));
		must(tarn_pool_export(engine, "tank", 0, &error));
	}
}

/* ---- properties, history, events ---- */

struct seen {
	char comment[64], comment_source[16], health[16], guid[32];
	unsigned n;
};

static void see(void *arg, const char *prop, const char *value, const char *source)
{
	struct seen *seen = arg;

	seen->n++;
	if (strcmp(prop, "comment") == 0) {
		snprintf(seen->comment, sizeof(seen->comment), "%s", value);
		snprintf(seen->comment_source, sizeof(seen->comment_source), "%s", source);
	}
	if (strcmp(prop, "health") == 0)
		snprintf(seen->health, sizeof(seen->health), "%s", value);
	if (strcmp(prop, "guid") == 0)
		snprintf(seen->guid, sizeof(seen->guid), "%s", value);
}

static void test_properties(void **state)
{
	struct seen seen = {0};

	(void)state;
	must(create("tank", single(paths), 0));
	assert_int_equal(tarn_pool_prop_list(engine, "tank", see, &seen), 0);
	assert_int_equal(seen.n, 10);
	assert_string_equal(seen.comment_source, "default");
	assert_string_equal(seen.health, "ONLINE");
	must(tarn_pool_prop_set(engine, "tank", "comment", "old disks", &error));
	refused(tarn_pool_prop_set(engine, "tank", "size", "1", &error), -EINVAL, "size");
	refused(tarn_pool_prop_set(engine, "tank", "colour", "1", &error), -EINVAL, "colour");
	refused(tarn_pool_prop_set(engine, "tank", "comment", "a\nb", &error), -EINVAL, "control");
	refused(tarn_pool_prop_set(engine, "tonk", "comment", "a", &error), -ENXIO, "tonk");
	must(tarn_pool_export(engine, "tank", 0, &error));
	must(import("tank", 0));
	assert_int_equal(tarn_pool_prop_list(engine, "tank", see, &seen), 0);
	assert_string_equal(seen.comment, "old disks");
	assert_string_equal(seen.comment_source, "local");
}

struct lines {
	char text[3][32];
	unsigned n;
};

static void line(void *arg, time_t when, const char *text)
{
	struct lines *lines = arg;

	assert_true(when > 0 && lines->n < 3);
	snprintf(lines->text[lines->n++], 32, "%s", text);
}

static void test_history(void **state)
{
	struct lines lines = {0};

	(void)state;
	must(create("tank", single(paths), 0));
	assert_int_equal(tarn_pool_history_add(engine, "tank", "pool create tank"), 0);
	assert_int_equal(tarn_pool_history_add(engine, "tank", "fs create tank/a"), 0);
	must(tarn_pool_export(engine, "tank", 0, &error));
	must(import("tank", 0));
	assert_int_equal(tarn_pool_history(engine, "tank", line, &lines), 0);
	assert_int_equal(lines.n, 2);
	assert_string_equal(lines.text[0], "pool create tank");
	assert_string_equal(lines.text[1], "fs create tank/a");
	assert_int_equal(tarn_pool_history_add(engine, "tonk", "x"), -ENXIO);
}

struct events {
	char text[128];
};

static void changed(void *arg, const char *name, uint64_t guid, bool present)
{
	struct events *events = arg;
	size_t n = strlen(events->text);
	struct tarn_pool_status *s;

	assert_true(guid != 0);
	/* There when it has come, not to be had any more before it goes. */
	assert_int_equal(tarn_pool_status(engine, name, &s), present ? 0 : -ENXIO);
	if (present)
		tarn_pool_status_free(s);
	snprintf(events->text + n, sizeof(events->text) - n, "%c%s ", present ? '+' : '-', name);
}

static void test_on_change(void **state)
{
	struct events events = {0};

	(void)state;
	tarn_pool_on_change(engine, changed, &events);
	must(create("tank", single(paths), 0));
	must(tarn_pool_export(engine, "tank", 0, &error));
	must(import("tank", 0));
	must(tarn_pool_destroy(engine, "tank", 0, &error));
	tarn_pool_on_change(engine, NULL, NULL);
	must(create("quiet", single(paths), 0));
	assert_string_equal(events.text, "+tank -tank +tank -tank ");
}

static void test_limits(void **state)
{
	struct tarn_cache_stats stats;

	(void)state;
	assert_int_equal(tarn_engine_set_limits(engine, 32 << 20, 0), 0);
	tarn_engine_cache_stats(engine, &stats);
	assert_int_equal(stats.max, 32 << 20);
	assert_int_equal(tarn_engine_set_limits(engine, 1, 0), -EINVAL);
	assert_int_equal(tarn_engine_set_limits(engine, 0, UINT64_MAX), -EINVAL);
	assert_int_equal(tarn_engine_set_limits(engine, 0, 64 << 20), 0);
	tarn_engine_cache_stats(engine, &stats);
	assert_int_equal(stats.max, 32 << 20);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_create),
	    TEST(test_refusals),
	    TEST(test_foreign_signatures),
	    TEST(test_other_pools_label),
	    TEST(test_export_import),
	    TEST(test_long_name),
	    TEST(test_no_descriptors),
	    TEST(test_missing_mirror_device),
	    TEST(test_missing_single_device),
	    TEST(test_foreign_host),
	    TEST(test_read_only_import),
	    TEST(test_add),
	    TEST(test_destroy),
	    TEST(test_rewind),
	    TEST(test_properties),
	    TEST(test_history),
	    TEST(test_on_change),
	    TEST(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
