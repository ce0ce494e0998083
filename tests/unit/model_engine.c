// SPDX-License-Identifier: LGPL-3.0-or-later
#include "model_engine.h"

#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define FILLER MODEL_POOL "/filler"
#define FILLER_NAME "filler"

static void *must_alloc(size_t size)
{
	void *p = calloc(1, size ? size : 1);

	if (!p)
		abort();
	return p;
}

void outcome_free(struct outcome *out)
{
	free(out->data);
	free(out->acl);
}

static void note(struct engine_side *e, const struct tarn_commit *token)
{
	struct tarn_commit *newest = token->number ? &e->logged : &e->unlogged;

	pthread_mutex_lock(&e->token_lock);
	if (token->number ? token->number > newest->number : token->txg > newest->txg)
		*newest = *token;
	pthread_mutex_unlock(&e->token_lock);
}

/* ---- waiting ---- */

struct waiting {
	sem_t done;
	int result;
};

static void wake(void *arg, int result)
{
	struct waiting *w = arg;

	w->result = result;
	sem_post(&w->done);
}

static int await(struct waiting *w)
{
	while (sem_wait(&w->done))
		; /* interrupted */
	sem_destroy(&w->done);
	return w->result;
}

static void io_done(struct tarn_io *io)
{
	wake(io->owner, io->result);
}

static int do_io(const struct tarn_cred *cred, struct tarn_io *io, uint8_t *buf, size_t len)
{
	struct waiting w;
	struct iovec iov[2] = {{buf, len / 3}, {buf + len / 3, len - len / 3}};

	sem_init(&w.done, 0, 0);
	io->iov = len < 3 ? iov + 1 : iov;
	io->iovcnt = len < 3 ? 1 : 2;
	if (len < 3)
		iov[1] = (struct iovec){buf, len};
	io->length = len;
	io->done = io_done;
	io->owner = &w;
	if (io->write)
		tarn_write(cred, io);
	else
		tarn_read(io);
	return await(&w);
}

static int do_fsync(struct tarn_inode *inode)
{
	struct waiting w;

	sem_init(&w.done, 0, 0);
	tarn_fsync(inode, wake, &w);
	return await(&w);
}

static void wait_commit(struct engine_side *e, const struct op *op, struct outcome *out)
{
	struct tarn_commit logged, unlogged;
	struct waiting w;

	pthread_mutex_lock(&e->token_lock);
	logged = e->logged;
	unlogged = e->unlogged;
	pthread_mutex_unlock(&e->token_lock);
	out->rc = tarn_commit_wait(e->pool.ds, unlogged);
	if (out->rc)
		return;
	if (!op->a) {
		out->rc = tarn_commit_wait(e->pool.ds, logged);
		return;
	}
	sem_init(&w.done, 0, 0);
	tarn_commit_async(e->pool.ds, logged, wake, &w);
	out->rc = await(&w);
}

/* ---- handles ---- */

static void release(struct engine_side *e, unsigned h)
{
	if (e->open[h])
		tarn_close(e->handle[h]);
	if (e->handle[h])
		tarn_inode_put(e->handle[h]);
	e->open[h] = false;
	e->handle[h] = NULL;
}

/* Takes the reference over. */
static void found(struct engine_side *e, const struct op *op, struct tarn_inode *inode,
		  struct outcome *out)
{
	out->ino = tarn_inode_number(inode);
	out->gen = tarn_inode_generation(inode);
	if (op->thread || op->to == NO_HANDLE) {
		tarn_inode_put(inode);
		return;
	}
	release(e, op->to);
	e->handle[op->to] = inode;
}

int engine_bind(struct engine_side *e, unsigned h, struct tarn_dataset *ds, uint64_t ino,
		uint64_t gen)
{
	int rc;

	release(e, h);
	rc = tarn_inode_get(ds, ino, gen, &e->handle[h]);
	if (rc)
		e->handle[h] = NULL;
	return rc;
}

int engine_let_go(struct engine_side *e)
{
	struct tarn_attr attr;
	int rc = 0;

	for (unsigned h = 0; h < ALL_HANDLES; h++) {
		if (e->handle[h]) {
			int answer = tarn_getattr(e->handle[h], &attr);

			if (answer != -ENXIO && answer != -ESTALE)
				rc = -1;
		}
		release(e, h);
	}
	e->logged = e->unlogged = (struct tarn_commit){0};
	return rc;
}

int engine_fsync(struct engine_side *e, unsigned h)
{
	return e->handle[h] ? do_fsync(e->handle[h]) : 0;
}

/* ---- names ---- */

/* By thread 0 alone, so that it is the ACL that the operation left. */
static void note_acl(const struct op *op, struct tarn_inode *inode, struct outcome *out)
{
	if (!op->thread && !out->rc && tarn_acl_get(inode, &out->acl))
		out->acl = NULL;
}

static void create(struct engine_side *e, const struct op *op, struct outcome *out)
{
	char target[64];
	struct tarn_create how = {.type = (enum tarn_type)op->a,
				  .target = target,
				  .rdev_major = (uint32_t)op->b,
				  .rdev_minor = (uint32_t)op->b + 1,
				  .exclusive = op->c != 0};
	struct tarn_commit token = {0};
	struct tarn_inode *inode = NULL;

	model_target(op->b, target);
	if (op->b < 010000) {
		how.set.mask = TARN_SET_MODE;
		how.set.mode = (uint32_t)op->b;
	}
	memcpy(how.verifier, &op->c, 8);
	out->rc = tarn_create(model_user(op->user), e->handle[op->h], name_text(op->name), &how,
			      &inode, &out->post[0], &out->post[1], &token);
	note(e, &token);
	if (!inode)
		return;
	note_acl(op, inode, out);
	found(e, op, inode, out);
}

static void lookup(struct engine_side *e, const struct op *op, struct outcome *out)
{
	struct tarn_inode *inode;

	out->rc = tarn_lookup(NULL, e->handle[op->h], name_text(op->name), &inode);
	if (!out->rc)
		found(e, op, inode, out);
}

static void change_name(struct engine_side *e, const struct op *op, struct outcome *out)
{
	const struct tarn_cred *cred = model_user(op->user);
	struct tarn_inode *h = e->handle[op->h], *h2 = e->handle[op->h2];
	struct tarn_attr *post = out->post;
	struct tarn_commit token = {0};

	if (op->kind == OP_LINK)
		out->rc = tarn_link(cred, h, h2, name_text(op->name), &post[0], &post[1], &token);
	else if (op->kind == OP_UNLINK)
		out->rc = tarn_unlink(cred, h, name_text(op->name), (int)(op->a % 3) - 1, &post[1],
				      &token);
	else
		out->rc = tarn_rename(cred, h, name_text(op->name), h2, name_text(op->name2),
				      &post[0], &post[1], &token);
	note(e, &token);
}

struct listing {
	struct outcome *out;
	uint64_t cookie, left;
};

static bool on_entry(void *arg, const struct tarn_dirent *entry)
{
	struct listing *l = arg;
	struct seen_entry *s;

	l->cookie = entry->cookie;
	if (strcmp(entry->name, FILLER_NAME)) {
		l->out->data = realloc(l->out->data, l->out->len + sizeof(*s));
		if (!l->out->data)
			abort();
		s = (struct seen_entry *)(l->out->data + l->out->len);
		memset(s, 0, sizeof(*s));
		snprintf(s->name, sizeof(s->name), "%s", entry->name);
		s->cookie = entry->cookie;
		s->ino = tarn_inode_number(entry->inode);
		l->out->len += sizeof(*s);
	}
	return --l->left != 0;
}

static void list(struct engine_side *e, const struct op *op, struct outcome *out)
{
	struct listing l = {.out = out};
	bool eof = false;

	while (!out->rc && !eof) {
		l.left = op->a;
		out->rc = tarn_readdir(e->handle[op->h], l.cookie, on_entry, &l, &eof);
	}
}

static void readlink(struct engine_side *e, const struct op *op, struct outcome *out)
{
	char *target;

	out->rc = tarn_readlink(e->handle[op->h], &target);
	if (!out->rc) {
		out->len = strlen(target);
		out->data = (uint8_t *)target;
	}
}

/* ---- inodes ---- */

static void get(struct engine_side *e, const struct op *op, struct outcome *out)
{
	struct tarn_inode *old = e->handle[op->h], *inode;

	out->rc = tarn_inode_get(tarn_inode_dataset(old), tarn_inode_number(old),
				 tarn_inode_generation(old), &inode);
	if (!out->rc)
		found(e, op, inode, out);
}

static void open_close(struct engine_side *e, const struct op *op, struct outcome *out)
{
	if (op->kind == OP_DROP) {
		release(e, op->h);
	} else if (op->kind == OP_CLOSE) {
		if (e->open[op->h])
			tarn_close(e->handle[op->h]);
		e->open[op->h] = false;
	} else if (!e->open[op->h]) {
		out->rc = tarn_open(e->handle[op->h]);
		e->open[op->h] = !out->rc;
	}
}

static void attributes(struct engine_side *e, const struct op *op, struct outcome *out)
{
	struct {
		struct tarn_acl acl;
		struct tarn_ace room[MODEL_ACES];
	} given;
	struct tarn_setattr set = {.mask = TARN_SET_ACL, .acl = &given.acl};
	struct tarn_commit token = {0};
	struct tarn_inode *inode = e->handle[op->h];

	if (op->kind == OP_GETATTR) {
		out->rc = tarn_getattr(inode, &out->post[0]);
		return;
	}
	if (op->kind == OP_SETACL)
		model_make_acl((uint32_t)op->a, op->b, &given.acl);
	else
		model_make_set(op, &set);
	out->rc = tarn_setattr(model_user(op->user), inode, &set, &out->post[0], &token);
	note(e, &token);
	if (set.mask & (TARN_SET_ACL | TARN_SET_MODE))
		note_acl(op, inode, out);
}

static void getacl(struct engine_side *e, const struct op *op, struct outcome *out)
{
	struct tarn_acl *acl;

	out->rc = tarn_acl_get(e->handle[op->h], &acl);
	if (out->rc)
		return;
	out->len = acl->count * sizeof(acl->ace[0]);
	out->data = must_alloc(out->len);
	memcpy(out->data, acl->ace, out->len);
	free(acl);
}

static void verify(struct engine_side *e, const struct op *op, struct outcome *out)
{
	uint8_t verifier[8];
	bool matches = false;

	memcpy(verifier, &op->a, 8);
	out->rc = tarn_verifier_matches(e->handle[op->h], verifier, &matches);
	out->value = matches;
}

/* ---- data ---- */

static void read_data(struct engine_side *e, const struct op *op, struct outcome *out)
{
	struct tarn_io io = {.inode = e->handle[op->h], .offset = op->a};

	out->data = must_alloc(op->b);
	memset(out->data, 0xEE, op->b);
	out->rc = do_io(NULL, &io, out->data, op->b);
	out->len = io.transferred;
	out->eof = io.eof;
}

static void write_part(struct engine_side *e, const struct op *op, uint8_t *buf, size_t from,
		       size_t to, struct outcome *out)
{
	struct tarn_io io = {.inode = e->handle[op->h],
			     .write = true,
			     .stable = op->name == 1,
			     .offset = op->a + from};

	out->rc = do_io(model_user(op->user), &io, buf + from, to - from);
	out->post[0] = io.post;
	out->value += io.transferred;
	/* Data becomes durable by fsync; its token would commit everything. */
}

static void write_data(struct engine_side *e, const struct op *op, bool tear, struct outcome *out)
{
	uint8_t *buf = must_alloc(op->b);

	model_fill(buf, op->b, op->c);
	if (tear) {
		write_part(e, op, buf, 0, op->b / 2, out);
		atomic_fetch_add(&e->halves, 1);
		while (atomic_load(&e->busy))
			sched_yield();
	}
	write_part(e, op, buf, tear ? op->b / 2 : 0, op->b, out);
	free(buf);
}

static void change_range(struct engine_side *e, const struct op *op, struct outcome *out)
{
	struct tarn_commit token = {0};

	if (op->kind == OP_PUNCH)
		out->rc = tarn_punch(model_user(op->user), e->handle[op->h], op->a, op->b, &token);
	else
		out->rc =
		    tarn_allocate(model_user(op->user), e->handle[op->h], op->a, op->b, &token);
	note(e, &token);
}

/* ---- extended attributes ---- */

static void set_xattr(struct engine_side *e, const struct op *op, struct outcome *out)
{
	struct tarn_inode *inode = e->handle[op->h];
	struct tarn_commit token = {0};
	uint8_t *value;

	if (op->kind == OP_XREMOVE) {
		out->rc =
		    tarn_xattr_remove(model_user(op->user), inode, model_xattr(op->name), &token);
	} else {
		value = must_alloc(op->a);
		model_fill(value, op->a, op->b);
		out->rc = tarn_xattr_set(model_user(op->user), inode, model_xattr(op->name), value,
					 op->a, (enum tarn_xattr_how)(op->c % 3), &token);
		free(value);
	}
	note(e, &token);
}

static void get_xattr(struct engine_side *e, const struct op *op, struct outcome *out)
{
	size_t len = op->a;

	out->data = must_alloc(op->a);
	out->rc = tarn_xattr_get(e->handle[op->h], model_xattr(op->name), out->data, &len);
	out->value = len;
	out->len = len;
}

struct xattr_list {
	uint64_t set, left;
	char last[TARN_NAME_MAX + 1];
	bool sorted;
};

static bool on_xattr(void *arg, const char *name)
{
	struct xattr_list *l = arg;
	unsigned x = 0;

	while (x < XATTRS && strcmp(model_xattr(x), name))
		x++;
	l->sorted &= x < XATTRS && strcmp(l->last, name) < 0;
	l->set |= 1ull << x;
	snprintf(l->last, sizeof(l->last), "%s", name);
	return --l->left != 0;
}

static void list_xattrs(struct engine_side *e, const struct op *op, struct outcome *out)
{
	struct xattr_list l = {.sorted = true};
	bool eof = false;

	while (!out->rc && !eof) {
		l.left = op->a;
		out->rc = tarn_xattr_list(e->handle[op->h], l.last[0] ? l.last : NULL, on_xattr, &l,
					  &eof);
	}
	out->value = l.sorted ? l.set : UINT64_MAX;
}

/* ---- datasets ---- */

static void say(struct outcome *out, const char *text)
{
	size_t len = strlen(text);

	out->data = realloc(out->data, out->len + len + 1);
	if (!out->data)
		abort();
	memcpy(out->data + out->len, text, len);
	out->len += len;
}

static int on_prop(void *arg, const char *name, const char *value, enum tarn_prop_source source,
		   const char *from)
{
	char text[2 * TARN_PATH_MAX];

	(void)name;
	snprintf(text, sizeof(text), "%.1000s %d %s\n", value, source, from ? from : "");
	say(arg, text);
	return 0;
}

static int on_dataset(void *arg, const struct tarn_dataset_info *info)
{
	if (strcmp(info->path, FILLER)) {
		say(arg, info->path);
		say(arg, "\n");
	}
	return 0;
}

static void root_of(struct engine_side *e, const struct op *op, struct outcome *out)
{
	struct tarn_dataset *ds, *again;
	struct tarn_statfs space;
	struct tarn_inode *root;

	out->rc = tarn_dataset_open(e->pool.engine, dataset_text(op->name), NULL, &ds);
	if (out->rc)
		return;
	if (op->kind == OP_STATFS) {
		out->rc = tarn_dataset_statfs(ds, &space);
		out->value = space.avail <= space.free && space.free <= space.total &&
			     space.ffree <= space.files && space.files < 1u << 31;
	} else {
		out->value = tarn_dataset_id(ds);
		out->rc = tarn_dataset_open_id(e->pool.engine, tarn_dataset_pool_guid(ds),
					       out->value, &again);
		if (!out->rc) {
			out->rc = tarn_root(again, &root);
			tarn_dataset_put(again);
		}
		if (!out->rc)
			found(e, op, root, out);
	}
	tarn_dataset_put(ds);
}

static void administer(struct engine_side *e, const struct op *op, struct outcome *out)
{
	struct tarn_engine *engine = e->pool.engine;
	const char *path = dataset_text(op->name);
	unsigned p = op->name2 % PROPS;
	struct tarn_prop prop = {prop_names[p], prop_values[p][op->b % PROP_VALUES]};
	struct tarn_error err = {0};

	switch (op->kind) {
	case OP_DCREATE:
		out->rc = tarn_dataset_create(engine, path, &prop, 1, op->a, &err);
		break;
	case OP_DDESTROY:
		out->rc = tarn_dataset_destroy(engine, path, op->a, op->b ? TARN_DRY_RUN : 0, &err);
		break;
	case OP_DRENAME:
		out->rc = tarn_dataset_rename(engine, path, dataset_text(op->name2), &err);
		break;
	case OP_DSET:
		prop.value = prop_values[p][op->a % PROP_VALUES];
		out->rc = tarn_dataset_set(engine, path, &prop, 1, &err);
		break;
	case OP_DINHERIT:
		out->rc = tarn_dataset_inherit(engine, path, prop.name, op->a, &err);
		break;
	case OP_DGET:
		out->rc = tarn_dataset_get(engine, path, prop.name, true, on_prop, out, &err);
		break;
	case OP_DLIST:
		out->rc = tarn_dataset_list(engine, path, op->a, on_dataset, out);
		break;
	default:
		root_of(e, op, out);
	}
}

/* ---- space ---- */

int engine_start(struct engine_side *e)
{
	struct tarn_prop raw = {"compression", "off"};
	struct tarn_error err;

	pthread_mutex_init(&e->token_lock, NULL);
	return tarn_dataset_create(e->pool.engine, FILLER, &raw, 1, false, &err);
}

static int filler_file(struct engine_side *e, struct tarn_inode **out)
{
	struct tarn_create how = {.type = TARN_REG};
	struct tarn_dataset *ds;
	struct tarn_commit token;
	struct tarn_inode *root;
	int rc = tarn_dataset_open(e->pool.engine, FILLER, NULL, &ds);

	if (rc)
		return rc;
	rc = tarn_root(ds, &root);
	tarn_dataset_put(ds);
	if (rc)
		return rc;
	rc = tarn_create(NULL, root, "x", &how, out, NULL, NULL, &token);
	tarn_inode_put(root);
	return rc == -EEXIST ? 0 : rc;
}

int engine_fill(struct engine_side *e)
{
	size_t size = 1 << 20;
	uint8_t *buf = must_alloc(size);
	struct tarn_inode *file = NULL;
	struct tarn_attr attr;
	int rc = filler_file(e, &file);

	model_fill(buf, size, 3);
	if (!rc)
		rc = tarn_getattr(file, &attr);
	while (!rc && size >= 4096) {
		struct tarn_io io = {.inode = file, .write = true, .offset = attr.size};

		rc = do_io(NULL, &io, buf, size);
		if (!rc)
			attr = io.post;
		if (rc == -ENOSPC) {
			size /= 8;
			rc = 0;
		}
	}
	if (file)
		tarn_inode_put(file);
	free(buf);
	return rc == -ENOSPC ? 0 : rc;
}

int engine_drain(struct engine_side *e)
{
	struct tarn_setattr empty = {.mask = TARN_SET_SIZE};
	struct tarn_inode *file = NULL;
	struct tarn_commit token;
	int rc = filler_file(e, &file);

	if (rc == -ENOSPC) /* nothing was ever filled */
		return 0;
	/* Freed space comes back some commits later; until then only what frees some is done. */
	for (int i = 0; i < 6 && !rc; i++) {
		rc = tarn_setattr(NULL, file, &empty, NULL, &token);
		token.number = 0; /* not the log, the txg */
		if (rc == -ENOSPC && i > 0)
			rc = 0;
		else if (!rc)
			rc = tarn_commit_wait(e->pool.ds, token);
	}
	if (file)
		tarn_inode_put(file);
	return rc;
}

/* ---- all ---- */

static void do_inode(struct engine_side *e, const struct op *op, enum lie lie, struct outcome *out)
{
	switch (op->kind) {
	case OP_READDIR:
		list(e, op, out);
		break;
	case OP_READLINK:
		readlink(e, op, out);
		break;
	case OP_VERIFY:
		verify(e, op, out);
		break;
	case OP_GET:
		get(e, op, out);
		break;
	case OP_GETACL:
		getacl(e, op, out);
		break;
	case OP_ACCESS:
		out->rc = tarn_access(model_user(op->user), e->handle[op->h], (uint32_t)op->a);
		break;
	case OP_WRITABLE:
		out->rc = tarn_writable(e->handle[op->h]);
		break;
	case OP_READ:
		read_data(e, op, out);
		break;
	case OP_WRITE:
		write_data(e, op, lie == LIE_TEAR, out);
		break;
	case OP_PUNCH:
	case OP_ALLOCATE:
		change_range(e, op, out);
		break;
	case OP_SEEK:
		out->rc = tarn_seek(e->handle[op->h], op->a, op->b, &out->value, &out->eof);
		break;
	case OP_FSYNC:
		out->rc = do_fsync(e->handle[op->h]);
		break;
	default:
		attributes(e, op, out);
	}
}

void engine_do(struct engine_side *e, const struct op *op, struct outcome *out)
{
	enum lie lie = e->lie ? e->lie(op) : LIE_NOT;

	memset(out, 0, sizeof(*out));
	if (lie == LIE_DROP)
		return;
	switch (op->kind) {
	case OP_CREATE:
		create(e, op, out);
		break;
	case OP_LOOKUP:
		lookup(e, op, out);
		break;
	case OP_LINK:
	case OP_UNLINK:
	case OP_RENAME:
		change_name(e, op, out);
		break;
	case OP_DROP:
	case OP_OPEN:
	case OP_CLOSE:
		open_close(e, op, out);
		break;
	case OP_WAIT:
		wait_commit(e, op, out);
		break;
	case OP_XSET:
	case OP_XREMOVE:
		set_xattr(e, op, out);
		break;
	case OP_XGET:
		get_xattr(e, op, out);
		break;
	case OP_XLIST:
		list_xattrs(e, op, out);
		break;
	default:
		if (op->kind >= OP_DCREATE)
			administer(e, op, out);
		else
			do_inode(e, op, lie, out);
	}
}
