// SPDX-License-Identifier: LGPL-3.0-or-later
#include "cut_run.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/op.h"
#include "pool/ilog.h"
#include "pool_fixture.h"

#define ACL_UID 5000 /* + which */

/* ---- devices ---- */

static struct {
	char dir[64];
	char path[CUT_DEVS][96];
	const char *paths[CUT_DEVS];
	struct sim *media[CUT_DEVS];
} place;

int __real_dev_open(const char *path, int flags, struct dev **out);
int __wrap_dev_open(const char *path, int flags, struct dev **out);

int __wrap_dev_open(const char *path, int flags, struct dev **out)
{
	for (unsigned i = 0; i < CUT_DEVS; i++) {
		if (place.media[i] && strcmp(path, place.path[i]) == 0)
			return sim_open(place.media[i], flags, out);
	}
	return __real_dev_open(path, flags, out);
}

/* ---- a replay in small steps ---- */

static bool small_steps;
int __real_op_end(struct op *op, int err);
int __wrap_op_end(struct op *op, int err);

int __wrap_op_end(struct op *op, int err)
{
	struct pool *pool = op->fs->ds->pool;

	err = __real_op_end(op, err);
	if (small_steps && ilog_replaying(pool))
		txg_wait(pool, txg_open(pool)); /* if it fails, so will the import */
	return err;
}

void cut_replay_in_small_steps(bool yes)
{
	small_steps = yes;
}

/* ---- the simulated devices ---- */

void cut_begin(void)
{
	strcpy(place.dir, "/var/tmp/tarn-test-XXXXXX");
	assert_non_null(mkdtemp(place.dir));
	for (unsigned i = 0; i < CUT_DEVS; i++) {
		int fd;

		snprintf(place.path[i], sizeof(place.path[i]), "%s/disk%u", place.dir, i);
		place.paths[i] = place.path[i];
		fd = open(place.path[i], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		assert_int_equal(ftruncate(fd, CUT_DEV_BYTES), 0);
		close(fd);
	}
}

void cut_end(void)
{
	for (unsigned i = 0; i < CUT_DEVS; i++)
		unlink(place.path[i]);
	rmdir(place.dir);
}

void cut_use(struct sim *const *media, unsigned n)
{
	for (unsigned i = 0; i < CUT_DEVS; i++)
		place.media[i] = i < n ? media[i] : NULL;
}

/* ---- the engine ---- */

/* A txg closes when somebody waits for it. */
static const struct tarn_config config = {
    .arc_max = TARN_LIMIT_MIN, .dirty_max = TARN_LIMIT_MIN, .threads = 1, .txg_seconds = 3600};

static int walk(struct tarn_dataset *root, const char *path, struct tarn_inode **out)
{
	struct tarn_inode *dir, *next;
	int rc = tarn_root(root, &dir);

	while (!rc && *path) {
		size_t len = strcspn(path, "/");
		char name[CUT_PATH_MAX];

		snprintf(name, sizeof(name), "%.*s", (int)len, path);
		rc = tarn_lookup(NULL, dir, name, &next);
		tarn_inode_put(dir);
		dir = next;
		path += len + (path[len] == '/');
	}
	*out = dir;
	return rc;
}

/* The directory of the last component. */
static int walk_parent(struct tarn_dataset *root, const char *path, struct tarn_inode **out,
		       const char **last)
{
	char dir[CUT_PATH_MAX] = "";
	const char *slash = strrchr(path, '/');

	*last = slash ? slash + 1 : path;
	if (slash)
		snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
	return walk(root, dir, out);
}

/* ---- operations ---- */

struct runner {
	struct tarn_engine *engine;
	struct tarn_dataset *ds;
	struct tarn_inode *opened[CUT_OPS_MAX];
	unsigned nopened;
	struct tape *tape;
};

static int do_create(struct tarn_inode *dir, const char *name, const struct cut_op *op,
		     unsigned index, struct tarn_commit *token)
{
	char target[16];
	struct tarn_create how = {.type = op->kind == CUT_CREATE ? op->n : TARN_REG,
				  .set = {.mask = TARN_SET_MODE, .mode = 0640},
				  .exclusive = op->kind == CUT_EXCLUSIVE,
				  .verifier = {(uint8_t)op->n}};
	struct tarn_inode *inode;
	int rc;

	snprintf(target, sizeof(target), "to%u", index + 1);
	if (how.type == TARN_LNK)
		how.target = target;
	if (how.type == TARN_BLK || how.type == TARN_CHR)
		how.rdev_major = how.rdev_minor = index + 1;
	rc = tarn_create(NULL, dir, name, &how, &inode, NULL, NULL, token);
	if (!rc)
		tarn_inode_put(inode);
	return rc;
}

static int do_rename(struct runner *k, struct tarn_inode *dir, const char *name,
		     const struct cut_op *op, struct tarn_commit *token)
{
	struct tarn_inode *to;
	const char *last;
	int rc = walk_parent(k->ds, op->to, &to, &last);

	if (rc)
		return rc;
	rc = tarn_rename(NULL, dir, name, to, last, NULL, NULL, token);
	tarn_inode_put(to);
	return rc;
}

static int do_name(struct runner *k, const struct cut_op *op, unsigned index,
		   struct tarn_commit *token)
{
	struct tarn_inode *dir;
	const char *name;
	int rc = walk_parent(k->ds, op->path, &dir, &name);

	if (rc)
		return rc;
	if (op->kind == CUT_UNLINK)
		rc = tarn_unlink(NULL, dir, name, -1, NULL, token);
	else if (op->kind == CUT_RENAME)
		rc = do_rename(k, dir, name, op, token);
	else
		rc = do_create(dir, name, op, index, token);
	tarn_inode_put(dir);
	return rc;
}

static int do_link(struct runner *k, struct tarn_inode *inode, const struct cut_op *op,
		   struct tarn_commit *token)
{
	struct tarn_inode *to;
	const char *last;
	int rc = walk_parent(k->ds, op->to, &to, &last);

	if (rc)
		return rc;
	rc = tarn_link(NULL, inode, to, last, NULL, NULL, token);
	tarn_inode_put(to);
	return rc;
}

static void io_done(struct tarn_io *io)
{
	sem_post(io->owner);
}

static int do_write(struct tarn_inode *inode, const struct cut_op *op, unsigned index,
		    struct tarn_commit *token)
{
	static __thread uint8_t data[CUT_UNITS][CUT_UNIT];
	sem_t done;
	struct iovec iov = {data, (size_t)op->m * CUT_UNIT};
	struct tarn_io io = {.inode = inode,
			     .write = true,
			     .stable = op->kind == CUT_STABLE,
			     .offset = (uint64_t)op->n * CUT_UNIT,
			     .iov = &iov,
			     .iovcnt = 1,
			     .length = iov.iov_len,
			     .done = io_done,
			     .owner = &done};

	for (unsigned i = 0; i < op->m; i++)
		cut_fill(index + 1, op->n + i, data[i]);
	sem_init(&done, 0, 0);
	tarn_write(NULL, &io);
	while (sem_wait(&done))
		continue;
	sem_destroy(&done);
	*token = io.token;
	return io.result ? io.result : io.transferred == io.length ? 0 : -EIO;
}

static int do_setattr(struct tarn_inode *inode, const struct cut_op *op, struct tarn_commit *token)
{
	union {
		struct tarn_acl acl;
		uint8_t room[sizeof(struct tarn_acl) + 2 * sizeof(struct tarn_ace)];
	} u = {.acl.count = op->n ? 2 : 0};
	struct tarn_setattr set = {.mode = op->n,
				   .uid = op->n,
				   .gid = op->n + 1,
				   .size = (uint64_t)op->n * CUT_UNIT,
				   .mtime = {.tv_sec = op->n},
				   .acl = &u.acl};

	u.acl.ace[0] = (struct tarn_ace){.who = TARN_WHO_UID, .mask = 1, .id = ACL_UID + op->n};
	u.acl.ace[1] = (struct tarn_ace){.who = TARN_WHO_OWNER, .mask = 3};
	switch (op->kind) {
	case CUT_TRUNCATE:
		set.mask = TARN_SET_SIZE;
		break;
	case CUT_MODE:
		set.mask = TARN_SET_MODE;
		break;
	case CUT_OWNER:
		set.mask = TARN_SET_UID | TARN_SET_GID;
		break;
	case CUT_TIMES:
		set.mask = TARN_SET_MTIME;
		break;
	default:
		set.mask = TARN_SET_ACL;
	}
	return tarn_setattr(NULL, inode, &set, NULL, token);
}

static int do_xattr(struct tarn_inode *inode, const struct cut_op *op, unsigned index,
		    struct tarn_commit *token)
{
	static __thread uint16_t value[TARN_XATTR_MAX / 2];
	char name[8];

	snprintf(name, sizeof(name), "x%u", op->n);
	if (op->kind == CUT_XATTR_REMOVE)
		return tarn_xattr_remove(NULL, inode, name, token);
	for (unsigned i = 0; i < op->m / 2; i++)
		value[i] = (uint16_t)(index + 1);
	return tarn_xattr_set(NULL, inode, name, value, op->m, TARN_XATTR_ANY, token);
}

static int do_inode(struct runner *k, const struct cut_op *op, unsigned index,
		    struct tarn_commit *token)
{
	uint64_t offset = (uint64_t)op->n * CUT_UNIT, length = (uint64_t)op->m * CUT_UNIT;
	struct tarn_inode *inode;
	int rc = walk(k->ds, op->path, &inode);

	if (rc)
		return rc;
	switch (op->kind) {
	case CUT_WRITE:
	case CUT_STABLE:
		rc = do_write(inode, op, index, token);
		break;
	case CUT_FSYNC:
		rc = fixture_fsync(inode);
		break;
	case CUT_PUNCH:
		rc = tarn_punch(NULL, inode, offset, length, token);
		break;
	case CUT_ALLOCATE:
		rc = tarn_allocate(NULL, inode, offset, length, token);
		break;
	case CUT_XATTR:
	case CUT_XATTR_REMOVE:
		rc = do_xattr(inode, op, index, token);
		break;
	case CUT_LINK:
		rc = do_link(k, inode, op, token);
		break;
	case CUT_OPEN:
		rc = tarn_open(inode);
		k->opened[k->nopened++] = tarn_inode_ref(inode);
		break;
	default:
		rc = do_setattr(inode, op, token);
	}
	tarn_inode_put(inode);
	return rc;
}

static const char *const properties[] = {"comment", "cut:n"};

static int do_admin(struct runner *k, const struct cut_op *op, unsigned ndevs)
{
	char path[CUT_PATH_MAX + 16], to[CUT_PATH_MAX + 16], value[16];
	struct tarn_prop props[] = {{properties[0], value}, {properties[1], value}};
	struct tarn_error err;

	snprintf(path, sizeof(path), CUT_POOL "/%s", op->path);
	snprintf(to, sizeof(to), CUT_POOL "/%s", op->to);
	snprintf(value, sizeof(value), "%u", op->n);
	switch (op->kind) {
	case CUT_FS_CREATE:
		return tarn_dataset_create(k->engine, path, NULL, 0, false, &err);
	case CUT_FS_DESTROY:
		return tarn_dataset_destroy(k->engine, path, true, 0, &err);
	case CUT_FS_RENAME:
		return tarn_dataset_rename(k->engine, path, to, &err);
	case CUT_FS_SET:
		return tarn_dataset_set(k->engine, path, props, 2, &err);
	case CUT_FS_INHERIT:
		return tarn_dataset_inherit(k->engine, path, properties[op->n], false, &err);
	case CUT_POOL_SET:
		return tarn_pool_prop_set(k->engine, CUT_POOL, "comment", value, &err);
	case CUT_LOG_REMOVE:
		return tarn_pool_remove(k->engine, CUT_POOL, place.paths[ndevs - 1], 0, &err);
	default: {
		struct tarn_group_spec spare = {TARN_GROUP_SINGLE, 1, &place.paths[ndevs],
						op->kind == CUT_ADD ? TARN_CLASS_DATA
								    : TARN_CLASS_LOG};

		return tarn_pool_add(k->engine, CUT_POOL, &spare, 1, TARN_FORCE, &err);
	}
	}
}

static int perform(struct runner *k, const struct cut_op *op, unsigned index, unsigned ndevs,
		   struct tarn_commit *token)
{
	switch (op->kind) {
	case CUT_CREATE:
	case CUT_EXCLUSIVE:
	case CUT_UNLINK:
	case CUT_RENAME:
		return do_name(k, op, index, token);
	case CUT_FS_CREATE:
	case CUT_FS_DESTROY:
	case CUT_FS_RENAME:
	case CUT_FS_SET:
	case CUT_FS_INHERIT:
	case CUT_POOL_SET:
	case CUT_ADD:
	case CUT_LOG_ADD:
	case CUT_LOG_REMOVE:
		return do_admin(k, op, ndevs);
	default:
		return do_inode(k, op, index, token);
	}
}

/* ---- recording ---- */

static int create(struct tarn_engine *engine, const struct cut_profile *profile, int flags,
		  struct tarn_error *err)
{
	struct tarn_group_spec groups[CUT_DEVS];
	bool one = profile->kind != TARN_GROUP_SINGLE;
	unsigned ndata = profile->ndevs - profile->nlogs, n = one ? 1 : ndata;

	for (unsigned i = 0; i < ndata; i++)
		groups[i] = (struct tarn_group_spec){TARN_GROUP_SINGLE, 1, &place.paths[i],
						     TARN_CLASS_DATA};
	if (one)
		groups[0] =
		    (struct tarn_group_spec){profile->kind, ndata, place.paths, TARN_CLASS_DATA};
	if (profile->nlogs)
		groups[n++] = (struct tarn_group_spec){
		    profile->nlogs > 1 ? TARN_GROUP_MIRROR : TARN_GROUP_SINGLE, profile->nlogs,
		    &place.paths[ndata], TARN_CLASS_LOG};
	return tarn_pool_create(engine, CUT_POOL, groups, n, NULL, 0, flags, err);
}

static void create_pool(struct runner *k, const struct cut_profile *profile)
{
	struct tarn_error err = {0};

	assert_int_equal(tarn_engine_create(&config, &k->engine), 0);
	if (create(k->engine, profile, 0, &err))
		fail_msg("pool create: %s", err.text);
	assert_int_equal(tarn_dataset_open(k->engine, CUT_POOL, NULL, &k->ds), 0);
}

static int run_one(struct cut_record *r, struct runner *k, unsigned i)
{
	static const struct tarn_commit none;
	const struct cut_op *op = &r->ops[i];
	struct tarn_commit token = {0};
	int rc;

	r->begun[i] = tape_position(k->tape);
	rc = perform(k, op, r->base + i, r->worlds[i].ndevs, &token);
	if (!rc && op->wait)
		rc = tarn_commit_wait(k->ds, token);
	r->nothing[i] = op->kind < CUT_STABLE ? memcmp(&token, &none, sizeof(token)) == 0
					      : op->kind == CUT_FSYNC || op->kind == CUT_OPEN;
	if ((op->wait && !r->nothing[i]) || (op->kind >= CUT_STABLE && op->kind < CUT_OPEN))
		r->acked[i] = tape_position(k->tape);
	return rc;
}

struct lane {
	struct cut_record *r;
	struct runner *k;
	pthread_t thread;
	unsigned done;
	int rc;
};

static void *run_lane(void *arg)
{
	struct lane *l = arg;

	while (!l->rc && l->done < l->r->nops)
		l->rc = run_one(l->r, l->k, l->done++);
	return NULL;
}

static void run_all(struct cut_record *first, struct runner *k)
{
	struct lane lanes[CUT_THREADS];
	unsigned n = 0;

	for (struct cut_record *r = first; r; r = r->next) {
		lanes[n] = (struct lane){.r = r, .k = k};
		assert_int_equal(pthread_create(&lanes[n].thread, NULL, run_lane, &lanes[n]), 0);
		n++;
	}
	for (unsigned i = 0; i < n; i++)
		pthread_join(lanes[i].thread, NULL);
	for (unsigned i = 0; i < n; i++) {
		char text[160];

		if (!lanes[i].rc)
			continue;
		cut_print_op(&lanes[i].r->ops[lanes[i].done - 1], text);
		fail_msg("operation %u, %s: %s", lanes[i].done - 1, text, strerror(-lanes[i].rc));
	}
}

static void end_pool(struct cut_record *first, struct runner *k)
{
	struct tarn_error err = {0};
	int rc;

	for (struct cut_record *r = first; r; r = r->next)
		r->begun[r->nops] = tape_position(k->tape);
	while (k->nopened) {
		struct tarn_inode *inode = k->opened[--k->nopened];

		tarn_close(inode);
		tarn_inode_put(inode);
	}
	tarn_dataset_put(k->ds);
	rc = first->destroys ? tarn_pool_destroy(k->engine, CUT_POOL, 0, &err)
			     : tarn_pool_export(k->engine, CUT_POOL, 0, &err);
	if (rc)
		fail_msg("the pool's end: %s", err.text);
	for (struct cut_record *r = first; r; r = r->next)
		r->acked[r->nops] = tape_position(k->tape);
	tarn_engine_destroy(k->engine);
}

void cut_plan(struct cut_record *r, const struct cut_profile *profile, const struct cut_op *ops,
	      unsigned nops)
{
	r->profile = profile;
	r->ops = ops;
	r->nops = nops;
	r->worlds = calloc(nops + 1, sizeof(*r->worlds));
	assert_non_null(r->worlds);
	memset(r->acked, 0xff, sizeof(r->acked));
	cut_world_init(&r->worlds[0], profile->ndevs);
	for (unsigned i = 0; i < nops; i++) {
		r->worlds[i + 1] = r->worlds[i];
		r->serial[i] =
		    cut_apply(&r->worlds[i + 1], &ops[i], r->base + i, cut_steps(&ops[i]));
	}
}

void cut_record(struct cut_record *r)
{
	struct sim *media[CUT_DEVS];
	unsigned n = r->profile->ndevs + 1;
	struct runner k = {.tape = tape_new()};

	r->tape = k.tape;
	for (unsigned i = 0; i < n; i++) {
		media[i] = sim_create(place.path[i], CUT_DEV_BYTES, 512);
		tape_record(r->tape, media[i]);
	}
	cut_use(media, n);
	create_pool(&k, r->profile);
	r->created = tape_position(r->tape);
	run_all(r, &k);
	end_pool(r, &k);
	r->end = tape_position(r->tape);
	cut_use(NULL, 0);
	for (unsigned i = 0; i < n; i++)
		sim_destroy(media[i]);
}

void cut_record_free(struct cut_record *r)
{
	if (r->tape)
		tape_free(r->tape);
	for (; r; r = r->next)
		free(r->worlds);
}

/* ---- what a cut may leave ---- */

/* An fsync answers for its inode alone: for the last change of it before. */
static unsigned answers_for(const struct cut_record *r, unsigned i)
{
	unsigned last = i;

	if (i == r->nops || r->ops[i].kind != CUT_FSYNC)
		return i + 1;
	while (last && (r->serial[last - 1] != r->serial[i] || r->nothing[last - 1]))
		last--;
	return last;
}

static bool settles(const struct cut_record *r, unsigned write, unsigned i)
{
	return i == write || i == r->nops ||
	       (i > write && r->ops[i].kind == CUT_FSYNC && r->serial[i] == r->serial[write]);
}

static void bounds_of(const struct cut_record *r, uint64_t position, struct cut_bounds *out)
{
	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; i <= r->nops; i++) {
		if (r->begun[i] < position && i < r->nops)
			out->most = i + 1;
		if (r->acked[i] > position)
			continue;
		if (answers_for(r, i) > out->least)
			out->least = answers_for(r, i);
		for (unsigned w = 0; w < r->nops; w++)
			out->settled[w] |= settles(r, w, i);
	}
	if (out->least > r->nops)
		out->least = r->nops;
	if (out->most < out->least) /* done without any write */
		out->most = out->least;
}

void cut_bounds(const struct cut_record *r, uint64_t position, struct cut_bounds *out)
{
	unsigned n = 0;

	for (const struct cut_record *lane = r; lane; lane = lane->next)
		bounds_of(lane, position, &out[n++]);
	if (position < r->created || (r->destroys && r->begun[r->nops] < position))
		out->presence = CUT_MAY;
	if (r->destroys && r->acked[r->nops] <= position)
		out->presence = CUT_MUST_NOT;
}

/* ---- what is there ---- */

struct sight {
	struct cut_world *w;
	struct tarn_inode *inodes[CUT_INODES]; /* by their number in w; referenced: each is one */
	struct tarn_engine *engine;
	bool whole; /* no device may be missing */
	char *why;
	int rc;
};

static void sight_fail(struct sight *s, const char *what, const char *name, int rc)
{
	if (!s->rc)
		snprintf(s->why, CUT_WHY, "%s of %.200s: %s", what, name, strerror(-rc));
	s->rc = rc ? rc : -EIO;
}

static int see_value(void *arg, const char *name, const char *value, enum tarn_prop_source source,
		     const char *from)
{
	(void)name;
	(void)from;
	if (source == TARN_PROP_LOCAL)
		*(uint32_t *)arg = (uint32_t)strtoul(value, NULL, 10);
	return 0;
}

static void see_dataset(struct sight *s, struct tarn_inode *inode, struct cut_inode *out)
{
	struct tarn_error err;
	char path[TARN_PATH_MAX];

	tarn_dataset_path(tarn_inode_dataset(inode), path);
	for (unsigned i = 0; i < 2; i++) {
		int rc = tarn_dataset_get(s->engine, path, properties[i], true, see_value,
					  &out->values[i], &err);

		if (rc && rc != -ENOENT) /* user properties are there when they are set */
			sight_fail(s, "properties", path, rc);
	}
	out->dataset = true;
}

static void see_data(struct sight *s, struct tarn_inode *inode, const char *name, uint64_t size,
		     struct cut_inode *out)
{
	static uint8_t data[CUT_UNITS * CUT_UNIT];
	size_t got;
	bool eof;
	int rc;

	out->units = size % CUT_UNIT || size > sizeof(data) ? CUT_BAD : (uint32_t)(size / CUT_UNIT);
	if (out->units == CUT_BAD || !size)
		return;
	rc = fixture_read(inode, 0, data, sizeof(data), &got, &eof);
	if (rc || got != size) {
		sight_fail(s, "data", name, rc);
		return;
	}
	for (unsigned i = 0; i < out->units; i++)
		out->data[i] = (uint16_t)cut_stamp(data + (size_t)i * CUT_UNIT, i);
}

static uint32_t see_xattr(struct sight *s, struct tarn_inode *inode, unsigned n)
{
	static uint16_t value[TARN_XATTR_MAX / 2];
	size_t len = sizeof(value);
	char name[8];
	int rc;

	snprintf(name, sizeof(name), "x%u", n);
	rc = tarn_xattr_get(inode, name, value, &len);
	if (rc == -ENODATA)
		return 0;
	if (rc)
		sight_fail(s, "xattr", name, rc);
	for (size_t i = 1; !rc && i < len / 2; i++) {
		if (value[i] != value[0])
			return CUT_BAD;
	}
	return (uint32_t)len << 16 | value[0];
}

static uint32_t see_acl(struct sight *s, struct tarn_inode *inode, const char *name)
{
	struct tarn_acl *acl;
	uint32_t which = 0;
	int rc = tarn_acl_get(inode, &acl);

	if (rc) {
		sight_fail(s, "acl", name, rc);
		return CUT_BAD;
	}
	for (uint32_t i = 0; i < acl->count; i++) {
		if (acl->ace[i].who == TARN_WHO_UID)
			which = acl->ace[i].id - ACL_UID;
	}
	free(acl);
	return which;
}

static void see_special(struct sight *s, struct tarn_inode *inode, const char *name,
			const struct tarn_attr *attr, struct cut_inode *out)
{
	char *target;
	int rc;

	if (attr->type == TARN_LNK) {
		rc = tarn_readlink(inode, &target);
		if (rc) {
			sight_fail(s, "target", name, rc);
			return;
		}
		out->target = strncmp(target, "to", 2) == 0
				  ? (uint32_t)strtoul(target + 2, NULL, 10)
				  : CUT_BAD;
		free(target);
	}
	if (attr->type == TARN_BLK || attr->type == TARN_CHR)
		out->rdev = attr->rdev_major == attr->rdev_minor ? attr->rdev_major : CUT_BAD;
}

static void see_regular(struct sight *s, struct tarn_inode *inode, const char *name,
			const struct tarn_attr *attr, struct cut_inode *out)
{
	for (unsigned i = 1; i < 4; i++) {
		uint8_t verifier[8] = {(uint8_t)i};
		bool matches;

		if (!tarn_verifier_matches(inode, verifier, &matches) && matches)
			out->verifier = i;
	}
	for (unsigned i = 0; i < CUT_XATTRS; i++)
		out->xattr[i] = see_xattr(s, inode, i);
	out->acl = see_acl(s, inode, name);
	see_data(s, inode, name, attr->size, out);
}

static void see_inode(struct sight *s, struct tarn_inode *inode, const char *name,
		      struct cut_inode *out)
{
	struct tarn_attr attr;
	int rc = tarn_getattr(inode, &attr);

	if (rc) {
		sight_fail(s, "attributes", name, rc);
		return;
	}
	out->type = (uint8_t)attr.type;
	out->mode = attr.mode;
	out->uid = attr.uid;
	out->gid = attr.gid;
	out->mtime = (uint32_t)attr.mtime.tv_sec;
	if (attr.type == TARN_REG)
		see_regular(s, inode, name, &attr, out);
	else
		see_special(s, inode, name, &attr, out);
	if (attr.type != TARN_DIR && attr.nlink != out->nlink && !s->rc) {
		snprintf(s->why, CUT_WHY, "%s: %u links, but more or fewer names", name,
			 attr.nlink);
		s->rc = -EIO;
	}
}

struct listing {
	struct sight *s;
	unsigned dir;
	struct tarn_inode *of;
};

static void see_dir(struct sight *s, struct tarn_inode *dir, unsigned number);

/* Takes over the reference. */
static unsigned number_of(struct sight *s, struct tarn_inode *inode, bool *is_new)
{
	unsigned i = 1;

	while (i < CUT_INODES && s->inodes[i] != inode)
		i++;
	*is_new = i == CUT_INODES;
	if (*is_new) {
		i = cut_inode_new(s->w);
		s->inodes[i] = inode;
		s->w->inodes[i].type = (uint8_t)tarn_inode_type(inode);
	} else {
		tarn_inode_put(inode);
	}
	return i;
}

static bool see_entry(void *arg, const struct tarn_dirent *entry)
{
	struct listing *l = arg;
	struct sight *s = l->s;
	struct tarn_inode *inode;
	bool is_new;
	unsigned i;
	int rc = tarn_lookup(NULL, l->of, entry->name, &inode);

	if (rc) {
		sight_fail(s, "lookup", entry->name, rc);
		return false;
	}
	if (inode != entry->inode)
		sight_fail(s, "lookup, another inode than listed,", entry->name, 0);
	i = number_of(s, inode, &is_new);
	cut_name_add(s->w, l->dir, entry->name, i);
	if (is_new && tarn_inode_type(inode) == TARN_DIR) {
		see_inode(s, inode, entry->name, &s->w->inodes[i]);
		if (tarn_inode_dataset(inode) != tarn_inode_dataset(l->of))
			see_dataset(s, inode, &s->w->inodes[i]);
		see_dir(s, inode, i);
	}
	return !s->rc;
}

static void see_dir(struct sight *s, struct tarn_inode *dir, unsigned number)
{
	struct listing l = {.s = s, .dir = number, .of = dir};
	bool eof;
	int rc = tarn_readdir(dir, 0, see_entry, &l, &eof);

	if (rc)
		sight_fail(s, "listing", "a directory", rc);
}

static void see_pool(struct sight *s)
{
	struct tarn_pool_status *status;
	int rc = tarn_pool_status(s->engine, CUT_POOL, &status);

	if (rc) {
		sight_fail(s, "status", CUT_POOL, rc);
		return;
	}
	s->w->ndevs = status->ndevs;
	if ((s->whole && status->state != TARN_DEV_ONLINE) || status->data_errors)
		sight_fail(s, "health", CUT_POOL, 0);
	tarn_pool_status_free(status);
}

static void see_pool_property(void *arg, const char *prop, const char *value, const char *source)
{
	(void)source;
	if (strcmp(prop, "comment") == 0)
		((struct sight *)arg)->w->comment = (uint32_t)strtoul(value, NULL, 10);
}

/* Directories first: then the names of the others have been counted. */
static bool see_all(struct sight *s, struct tarn_dataset *ds)
{
	struct tarn_inode *root;
	int rc = tarn_root(ds, &root);

	cut_world_init(s->w, 0);
	see_pool(s);
	rc = rc ? rc : tarn_pool_prop_list(s->engine, CUT_POOL, see_pool_property, s);
	if (rc) {
		sight_fail(s, "root", CUT_POOL, rc);
		return false;
	}
	see_dataset(s, root, &s->w->inodes[0]);
	see_dir(s, root, 0);
	for (unsigned i = 1; i < CUT_INODES; i++) {
		if (s->inodes[i] && !s->rc && s->w->inodes[i].type != TARN_DIR) {
			const struct cut_name *n = s->w->names;

			while (!n->used || n->inode != i)
				n++;
			see_inode(s, s->inodes[i], n->name, &s->w->inodes[i]);
		}
	}
	for (unsigned i = 1; i < CUT_INODES; i++) {
		if (s->inodes[i])
			tarn_inode_put(s->inodes[i]);
	}
	tarn_inode_put(root);
	return !s->rc;
}

/* ---- comparing ---- */

static bool is_there(const struct cut_world *w, uint32_t serial)
{
	unsigned i = 0;

	while (i < CUT_INODES && (!w->inodes[i].used || w->inodes[i].serial != serial))
		i++;
	return i < CUT_INODES;
}

/* The unstable writes among the first n operations that may be missing. */
static unsigned optional(const struct cut_record *r, const struct cut_bounds *b, unsigned n,
			 unsigned out[CUT_OPS_MAX])
{
	unsigned count = 0;

	for (unsigned i = 0; i < n; i++) {
		if (r->ops[i].kind == CUT_WRITE && !b->settled[i] &&
		    is_there(&r->worlds[n], r->serial[i]))
			out[count++] = i;
	}
	return count;
}

/* The first n operations without those that `missing` says, and of the last one only `steps`. */
static void build(const struct cut_record *r, unsigned n, const unsigned *optional, unsigned count,
		  uint64_t missing, unsigned steps, struct cut_world *out)
{
	unsigned next = 0;

	*out = r->worlds[0];
	for (unsigned i = 0; i < n; i++) {
		if (next < count && optional[next] == i) {
			if (missing >> next++ & 1)
				continue;
		}
		cut_apply(out, &r->ops[i], r->base + i, i + 1 == n ? steps : cut_steps(&r->ops[i]));
	}
}

static bool fits_first(const struct cut_record *r, const struct cut_bounds *b,
		       const struct cut_world *found, unsigned n)
{
	static struct cut_world allowed;
	unsigned writes[CUT_OPS_MAX], count = optional(r, b, n, writes);
	unsigned all = n ? cut_steps(&r->ops[n - 1]) : 1;
	char why[CUT_WHY];

	if (count > 12)
		count = 12; /* the later ones are then there or this is a fault */
	for (unsigned steps = n > b->least ? 1 : all; steps <= all; steps++) {
		for (uint64_t missing = 0; missing < 1u << count; missing++) {
			build(r, n, writes, count, missing, steps, &allowed);
			if (cut_same(found, &allowed, why))
				return true;
		}
	}
	return false;
}

static bool fits(const struct cut_record *r, const struct cut_bounds *b,
		 const struct cut_world *found, char why[CUT_WHY])
{
	char text[160] = "nothing", first[256], last[256];

	for (unsigned n = b->least; n <= b->most; n++) {
		if (cut_same(found, &r->worlds[n], last))
			return true;
	}
	for (unsigned n = b->least; n <= b->most; n++) {
		if (fits_first(r, b, found, n))
			return true;
	}
	cut_same(found, &r->worlds[b->least], first);
	cut_same(found, &r->worlds[b->most], last);
	if (b->least)
		cut_print_op(&r->ops[b->least - 1], text);
	snprintf(why, CUT_WHY,
		 "not what %u to %u operations leave (%s is durable); the least: %s; the most: %s",
		 b->least, b->most, text, first, last);
	return false;
}

/* Each thread's part. */
static bool all_fit(const struct cut_record *r, const struct cut_bounds *b,
		    const struct cut_world *found, char why[CUT_WHY])
{
	static struct cut_world part;

	for (; r; r = r->next, b++) {
		part = *found;
		for (unsigned i = 0; i < CUT_NAMES && r->own; i++) {
			if (part.names[i].dir == 0 && strcmp(part.names[i].name, r->own) != 0)
				part.names[i].used = false;
		}
		if (!fits(r, b, &part, why))
			return false;
	}
	return true;
}

/* ---- verification ---- */

struct findings {
	char *why;
};

static void on_finding(void *arg, const struct tarn_finding *finding)
{
	struct findings *f = arg;
	size_t len = strlen(f->why);

	snprintf(f->why + len, CUT_WHY - len, "tarnck, txg %llu: %s; ",
		 (unsigned long long)finding->txg, finding->text);
}

static bool check(unsigned n, bool thorough, char why[CUT_WHY])
{
	struct findings f = {why};
	struct tarn_check_spec spec = {.name = CUT_POOL,
				       .paths = place.paths,
				       .npaths = n,
				       .uberblocks = thorough ? TARN_CHECK_STATES : 1,
				       .finding = on_finding,
				       .arg = &f};
	struct tarn_check_result result;
	struct tarn_error err = {0};

	why[0] = '\0';
	if (tarn_check(&spec, &result, &err))
		return snprintf(why, CUT_WHY, "tarnck: %s", err.text), false;
	return !result.findings;
}

/* It can be worked on as any other. */
static int work_on(struct tarn_engine *engine, struct tarn_dataset *ds)
{
	static const struct cut_op ops[] = {
	    {.kind = CUT_CREATE, .path = "after", .n = TARN_REG, .wait = true},
	    {.kind = CUT_STABLE, .path = "after", .n = 0, .m = 200},
	    {.kind = CUT_UNLINK, .path = "after", .wait = true},
	};
	struct runner k = {.engine = engine, .ds = ds};
	struct tarn_commit token = {0};
	int rc = 0;

	for (unsigned i = 0; i < 3 && !rc; i++) {
		rc = perform(&k, &ops[i], i, 0, &token);
		if (!rc && ops[i].wait)
			rc = tarn_commit_wait(ds, token);
	}
	return rc;
}

static bool look(const struct cut_record *r, const struct cut_bounds *bounds,
		 struct tarn_engine *engine, bool thorough, char why[CUT_WHY])
{
	static struct cut_world found;
	struct sight s = {
	    .w = &found, .engine = engine, .whole = bounds->presence == CUT_MUST, .why = why};
	struct tarn_dataset *ds;
	bool good;
	int rc = tarn_dataset_open(engine, CUT_POOL, NULL, &ds);

	if (rc)
		return snprintf(why, CUT_WHY, "the root dataset: %s", strerror(-rc)), false;
	good = see_all(&s, ds) && all_fit(r, bounds, &found, why);
	if (good && thorough) {
		rc = work_on(engine, ds);
		if (rc)
			snprintf(why, CUT_WHY, "it can't be worked on: %s", strerror(-rc));
		good = !rc;
	}
	tarn_dataset_put(ds);
	return good;
}

/* Without a pool the devices can become one, by force where something was left of it. */
static bool make_anew(const struct cut_record *r, const struct cut_bounds *bounds,
		      struct tarn_engine *engine, char why[CUT_WHY])
{
	struct tarn_error err = {0};

	if (!create(engine, r->profile, bounds->presence == CUT_MAY ? TARN_FORCE : 0, &err))
		return true;
	snprintf(why, CUT_WHY, "pool create: %s", err.text);
	return false;
}

static bool import_and_look(const struct cut_record *r, const struct cut_bounds *bounds, unsigned n,
			    bool thorough, char why[CUT_WHY])
{
	struct tarn_import_spec spec = {.name = CUT_POOL, .paths = place.paths, .npaths = n};
	struct tarn_engine *engine;
	struct tarn_error err = {0};
	bool good, there;
	int rc = tarn_engine_create(&config, &engine);

	if (rc)
		return snprintf(why, CUT_WHY, "no engine: %s", strerror(-rc)), false;
	there = !tarn_pool_import(engine, &spec, &err);
	good = bounds->presence == CUT_MAY || there == (bounds->presence == CUT_MUST);
	if (!good)
		snprintf(why, CUT_WHY, "import: %s", there ? "it was destroyed" : err.text);
	else
		good = there ? look(r, bounds, engine, thorough, why)
			     : make_anew(r, bounds, engine, why);
	tarn_engine_destroy(engine);
	return good;
}

bool cut_verify(const struct cut_record *r, const struct cut_bounds *bounds,
		struct sim *const *media, unsigned n, bool thorough, char why[CUT_WHY])
{
	bool good;

	cut_use(media, n);
	good = bounds->presence != CUT_MUST || check(n, thorough, why);
	good = good && import_and_look(r, bounds, n, thorough, why);
	if (good && thorough && bounds->presence == CUT_MUST)
		good = check(n, thorough, why);
	cut_use(NULL, 0);
	return good;
}
