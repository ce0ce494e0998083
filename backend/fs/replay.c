// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Replay: what the intent log holds beyond the last commit is done again, by the same means as
 * the first time. A record may be met whose change is there already, if a cut came during a replay:
 * doing it again changes nothing.
 */
#include <errno.h>
#include <stdlib.h>

#include "dataset/catalog.h"
#include "fs/data.h"
#include "fs/op.h"
#include "pool/ilog.h"

#define ITEMS_MAX 12
#define INODE_FORM (INODE_INLINE | INODE_TRUNCATED) /* how the content lies here and now */

/* A dataset that the log changes. */
struct target {
	struct target *next;
	uint64_t id;
	struct tarn_dataset *ds; /* referenced and entered; NULL: there is none any more */
	struct fs *fs;
};

struct replay {
	struct catalog *cat;
	struct target *targets;
	uint64_t skipped;
	struct lost_changes *lost;
};

/* ---- one record, its keys and inodes ---- */

struct change {
	struct redo_view item[ITEMS_MAX];
	unsigned n;
	uint64_t bytes;
	struct redo_inode inodes[OP_INODES];
	struct tarn_inode *inode[OP_INODES]; /* referenced once found or made */
	bool is_new[OP_INODES];
	unsigned ninodes;
	uint64_t purged; /* number of an inode that goes with this change; 0: none */
	struct tarn_inode *victim;
	struct removal removal;
};

static int add_inode(struct change *c, const struct redo_view *v)
{
	struct redo_inode *in = &c->inodes[c->ninodes];

	if (v->vlen != sizeof(*in) || c->ninodes == OP_INODES)
		return -EIO;
	memcpy(in, v->val, sizeof(*in));
	c->ninodes++;
	return inode_record_validate(&in->rec, sizeof(in->rec));
}

static int add_purge(struct change *c, const struct redo_view *v)
{
	if (v->vlen != sizeof(c->purged) || c->purged)
		return -EIO;
	memcpy(&c->purged, v->val, sizeof(c->purged));
	return c->purged ? 0 : -EIO;
}

static int change_of(const void *record, uint32_t len, struct change *c)
{
	struct redo_view v;
	uint32_t at = 0;
	bool bad = false;
	int err = 0;

	memset(c, 0, sizeof(*c));
	while (!err && redo_next(record, len, &at, &v, &bad)) {
		if (v.kind == REDO_INODE) {
			err = add_inode(c, &v);
		} else if (v.kind == REDO_PURGE) {
			err = add_purge(c, &v);
		} else if (v.kind == REDO_PUT || v.kind == REDO_DEL) {
			if (c->n == ITEMS_MAX || !v.klen || v.vlen > TREE_VALUE_MAX)
				return -EIO;
			c->item[c->n++] = v;
			c->bytes += v.vlen;
		}
	}
	return bad ? -EIO : err;
}

/* Finds those that exist; one of another generation has gone by now. */
static int find_inodes(struct fs *fs, struct change *c)
{
	for (unsigned i = 0; i < c->ninodes; i++) {
		int err = inode_get(fs, c->inodes[i].ino, 0, &c->inode[i]);

		if (err && err != -ESTALE)
			return err;
		c->is_new[i] = err == -ESTALE;
		if (err)
			c->inode[i] = NULL;
		else if (c->inode[i]->gen != c->inodes[i].rec.gen ||
			 c->inode[i]->type != c->inodes[i].rec.type)
			return -EIO;
	}
	return 0;
}

/* The inode that goes, if it is still there. It may have more keys now than when it went, whose
   removal in several steps may not begin before its name is gone: then it becomes an orphan. One
   that is an orphan goes by inode_purge(), which knows the list. */
static int find_victim(struct fs *fs, struct change *c)
{
	int err = c->purged ? inode_get(fs, c->purged, 0, &c->victim) : -ESTALE;

	if (err == -ESTALE) {
		c->victim = NULL;
		return 0;
	}
	if (err)
		return err;
	c->removal.now = false;
	return atomic_load(&c->victim->orphan) ? 0 : removal_look(fs, c->victim, &c->removal);
}

static int change_pin(struct op *op, struct change *c)
{
	int err = c->victim ? removal_pin(op, c->victim, &c->removal) : 0;

	for (unsigned i = 0; !err && i < c->n; i++)
		err = op_pin(op, c->item[i].key, c->item[i].klen);
	for (unsigned i = 0; !err && i < c->ninodes; i++)
		err = c->is_new[i] ? inode_claim(op, c->inodes[i].ino, &c->inode[i])
				   : op_pin_inode(op, c->inode[i]);
	return err;
}

static void restore(struct op *op, struct tarn_inode *inode, const struct inode_record *logged)
{
	struct inode_record *rec = op_dirty(op, inode), was;

	pthread_mutex_lock(&inode->versioned.lock);
	was = *rec;
	*rec = *logged;
	rec->space = was.space;
	rec->flags = (logged->flags & ~(uint32_t)INODE_FORM) | (was.flags & INODE_FORM);
	pthread_mutex_unlock(&inode->versioned.lock);
	if (rec->nlink == 0)
		atomic_store(&inode->orphan, true);
}

static void change_apply(struct op *op, struct change *c)
{
	for (unsigned i = 0; i < c->n; i++) {
		const struct redo_view *v = &c->item[i];

		if (v->kind == REDO_PUT)
			op_put(op, v->key, v->klen, v->val, v->vlen);
		else
			op_del(op, v->key, v->klen);
	}
	for (unsigned i = 0; i < c->ninodes; i++) {
		struct inode_record rec = c->inodes[i].rec;

		if (!c->is_new[i]) {
			restore(op, c->inode[i], &rec);
			continue;
		}
		rec.space = 0;
		rec.flags &= ~(uint32_t)INODE_FORM;
		inode_restore(op, c->inode[i], &rec);
	}
	if (c->victim)
		removal_apply(op, c->victim, &c->removal);
}

static int do_change(struct fs *fs, struct change *c)
{
	struct op op;
	unsigned changes = c->n + 2 * c->ninodes;
	int err = find_inodes(fs, c);

	if (!err)
		err = find_victim(fs, c);
	if (c->victim)
		changes += removal_changes(&c->removal);
	while (!err) {
		err = op_begin(&op, fs, TREE_RESERVE(changes) + c->bytes, TX_FREEING);
		if (!err)
			err = change_pin(&op, c);
		if (!err)
			change_apply(&op, c);
		err = op_end(&op, err);
		if (err != -EAGAIN)
			break;
		err = 0;
	}
	for (unsigned i = 0; i < c->ninodes; i++) {
		if (err && c->is_new[i])
			inode_new_cancel(fs, c->inode[i]);
		else if (c->inode[i])
			tarn_inode_put(c->inode[i]);
	}
	if (c->victim) {
		if (!err && !c->removal.now)
			err = inode_purge(fs, c->victim);
		tarn_inode_put(c->victim);
	}
	return err;
}

/* ---- what is bigger than keys ---- */

static int with_inode(struct fs *fs, const struct redo_view *v)
{
	struct redo_data data;
	struct tarn_inode *inode;
	struct tarn_commit token;
	int err;

	if (v->vlen < sizeof(data))
		return -EIO;
	memcpy(&data, v->val, sizeof(data));
	err = inode_get(fs, data.ino, 0, &inode);
	if (err)
		return err == -ESTALE ? 0 : err; /* gone: a later record has been done before */
	if (v->kind == REDO_DATA) {
		err = data_restore(inode, data.offset, (const char *)v->val + sizeof(data),
				   v->vlen - sizeof(data));
	} else {
		alock_write(&inode->lock);
		err = range_truncate(inode, data.offset, &token);
		alock_unlock(&inode->lock);
	}
	tarn_inode_put(inode);
	return err;
}

static int do_big(struct fs *fs, const void *record, uint32_t len)
{
	struct redo_view v;
	uint32_t at = 0;
	bool bad;
	int err = 0;

	while (!err && redo_next(record, len, &at, &v, &bad)) {
		if (v.kind == REDO_DATA || v.kind == REDO_TRUNCATE)
			err = with_inode(fs, &v);
	}
	return err;
}

/* ---- all records ---- */

static int open_target(struct replay *r, struct target *t)
{
	int err = catalog_find_id(r->cat, t->id, &t->ds);

	if (err == -ENOENT || err == -ESTALE) {
		t->ds = NULL;
		return 0;
	}
	if (err)
		return err;
	err = dataset_enter(t->ds);
	if (!err) {
		err = fs_get(t->ds, &t->fs);
		if (err)
			dataset_leave(t->ds);
	}
	if (err) {
		tarn_dataset_put(t->ds);
		t->ds = NULL;
	}
	return err;
}

static int target_of(struct replay *r, uint64_t id, struct target **out)
{
	struct target *t = r->targets;
	int err;

	while (t && t->id != id)
		t = t->next;
	*out = t;
	if (t)
		return 0;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->id = id;
	err = open_target(r, t);
	if (err) {
		free(t);
		return err;
	}
	t->next = r->targets;
	r->targets = *out = t;
	return 0;
}

static int do_record(void *arg, const void *record, uint32_t len)
{
	struct replay *r = arg;
	struct redo_head head;
	struct target *t;
	struct change *c;
	int err;

	if (len < sizeof(head))
		return -EIO;
	memcpy(&head, record, sizeof(head));
	err = target_of(r, head.dataset, &t);
	if (err)
		return err;
	if (!t->ds) {
		r->skipped++;
		return 0;
	}
	c = malloc(sizeof(*c));
	if (!c)
		return -ENOMEM;
	err = change_of(record, len, c);
	if (!err)
		err = do_big(t->fs, record, len);
	if (!err && (c->n || c->ninodes || c->purged))
		err = do_change(t->fs, c);
	free(c);
	return err;
}

static void lose_record(void *arg, const void *record, uint32_t len)
{
	struct lost_changes *lost = ((struct replay *)arg)->lost;
	struct redo_head head;
	uint32_t i = 0;

	if (len < sizeof(head))
		return;
	memcpy(&head, record, sizeof(head));
	while (i < lost->n && lost->in[i].dataset != head.dataset)
		i++;
	if (i == LOST_DATASETS_MAX)
		return;
	if (i == lost->n)
		lost->in[lost->n++].dataset = head.dataset;
	lost->in[i].changes++;
}

int redo_replay(struct catalog *cat, struct pool *pool, uint64_t *count, struct lost_changes *lost)
{
	struct replay r = {.cat = cat, .lost = lost};
	struct ilog_replay to = {.record = do_record, .lost = lose_record, .arg = &r};
	int err;

	*lost = (struct lost_changes){0};
	err = ilog_replay(pool, &to, count, &lost->total);
	/* Before the log that shows it is given up. */
	if (!err && lost->total)
		err = catalog_lost_add(cat, lost);
	if (!err)
		ilog_start(pool);
	while (r.targets) {
		struct target *t = r.targets;

		r.targets = t->next;
		if (t->ds) {
			if (!err)
				reaper_resume(t->fs);
			dataset_leave(t->ds);
			tarn_dataset_put(t->ds);
		}
		free(t);
	}
	if (r.skipped)
		pool_log(pool, TARN_LOG_WARN,
			 "%llu changes in the intent log are of datasets that are gone",
			 (unsigned long long)r.skipped);
	return err;
}
