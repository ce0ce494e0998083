// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Live inodes. The table is sharded; a shard's mutex guards its chains and its list of
 * idle inodes (no references, but their records), which is bounded. Shard mutexes are
 * taken under node latches (a version may go there): no tree function is called under one.
 *
 * A missing inode is loaded by who asks first: a placeholder in the table makes the
 * others wait, so a record read before a change can never replace the changed one.
 */
#include <errno.h>
#include <stdlib.h>

#include "fs/op.h"

#define SHARDS 32
#define IDLE_MAX 128 /* of a shard */
#define BUCKETS_MIN 16

struct shard {
	pthread_mutex_t lock;
	pthread_cond_t loaded;
	struct tarn_inode **bucket;
	uint32_t buckets, count; /* buckets: a power of two */
	struct tarn_inode idle;  /* head of a ring; next = least recently used */
	uint32_t nidle;
};

struct inode_table {
	atomic_ulong refs; /* the fs and each inode */
	struct shard shard[SHARDS];
};

/* ---- records ---- */

static bool time_valid(const struct disk_time *t)
{
	return t->nsec < 1000000000 && !t->zero;
}

static bool all_zero(const uint8_t *bytes, size_t len)
{
	while (len--)
		if (*bytes++)
			return false;
	return true;
}

int inode_record_validate(const void *bytes, uint32_t len)
{
	struct inode_record r;

	if (len != sizeof(r))
		return -EIO;
	memcpy(&r, bytes, sizeof(r));
	if (r.type < TARN_REG || r.type > TARN_SOCK || (r.mode & ~07777u) ||
	    (r.flags & ~(uint32_t)(INODE_ACL | INODE_VERIFIER | INODE_INLINE | INODE_TRUNCATED)) ||
	    r.size > INT64_MAX || !all_zero(r.zero, sizeof(r.zero)) ||
	    !all_zero(r.reserved, sizeof(r.reserved)))
		return -EIO;
	if (!time_valid(&r.atime) || !time_valid(&r.mtime) || !time_valid(&r.ctime) ||
	    !time_valid(&r.btime))
		return -EIO;
	if (r.type == TARN_DIR && (r.next_cookie < 3 || r.parent < ROOT_INO || r.size))
		return -EIO;
	if (r.type == TARN_REG && (r.recordsize < 4096 || r.recordsize > BLOCK_MAX ||
				   (r.recordsize & (r.recordsize - 1))))
		return -EIO;
	if (r.type == TARN_LNK && (r.size < 1 || r.size > TARN_SYMLINK_MAX))
		return -EIO;
	return 0;
}

int entry_validate(const void *bytes, uint32_t len)
{
	struct entry e;

	if (len < sizeof(e))
		return -EIO;
	memcpy(&e, bytes, sizeof(e));
	if (e.type < TARN_REG || e.type > TARN_SOCK || e.ino < FIRST_INO || e.ino > UINT32_MAX ||
	    e.cookie < 3 || !all_zero(e.zero, sizeof(e.zero)))
		return -EIO;
	return 0;
}

void disk_time_now(struct disk_time *out)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	*out = disk_time_of(&now);
}

struct disk_time disk_time_of(const struct timespec *ts)
{
	return (struct disk_time){.sec = ts->tv_sec, .nsec = (uint32_t)ts->tv_nsec};
}

static struct timespec timespec_of(const struct disk_time *t)
{
	return (struct timespec){.tv_sec = t->sec, .tv_nsec = t->nsec};
}

/* ---- the table ---- */

int inode_table_create(struct inode_table **out)
{
	struct inode_table *t = calloc(1, sizeof(*t));
	bool full = t;

	if (!t)
		return -ENOMEM;
	atomic_init(&t->refs, 1);
	for (unsigned i = 0; i < SHARDS; i++) {
		struct shard *s = &t->shard[i];

		pthread_mutex_init(&s->lock, NULL);
		pthread_cond_init(&s->loaded, NULL);
		s->buckets = BUCKETS_MIN;
		s->bucket = calloc(s->buckets, sizeof(struct tarn_inode *));
		s->idle.idle_prev = s->idle.idle_next = &s->idle;
		full = full && s->bucket;
	}
	*out = t;
	if (full)
		return 0;
	inode_table_drop(t);
	*out = NULL;
	return -ENOMEM;
}

static void table_unref(struct inode_table *t)
{
	if (atomic_fetch_sub(&t->refs, 1) != 1)
		return;
	for (unsigned i = 0; i < SHARDS; i++) {
		pthread_mutex_destroy(&t->shard[i].lock);
		pthread_cond_destroy(&t->shard[i].loaded);
		free(t->shard[i].bucket);
	}
	free(t);
}

static uint64_t mix(uint64_t ino)
{
	return ino * 0x9e3779b97f4a7c15u >> 20;
}

/* Runs of 64 numbers share a shard: what one core creates stays in one. */
static struct shard *shard_of(struct inode_table *t, uint64_t ino)
{
	return &t->shard[mix(ino >> 6) % SHARDS];
}

static struct tarn_inode **chain_of(struct shard *s, uint64_t ino)
{
	return &s->bucket[mix(ino) & (s->buckets - 1)];
}

static void shard_grow(struct shard *s)
{
	uint32_t old = s->buckets;
	struct tarn_inode **bucket = calloc((size_t)old * 2, sizeof(struct tarn_inode *));
	struct tarn_inode **from = s->bucket;

	if (!bucket)
		return; /* longer chains do as well */
	s->bucket = bucket;
	s->buckets = old * 2;
	for (uint32_t i = 0; i < old; i++) {
		struct tarn_inode *inode, *next;

		for (inode = from[i]; inode; inode = next) {
			struct tarn_inode **chain = chain_of(s, inode->ino);

			next = inode->hash_next;
			inode->hash_next = *chain;
			*chain = inode;
		}
	}
	free(from);
}

static void shard_insert(struct shard *s, struct tarn_inode *inode)
{
	struct tarn_inode **chain;

	if (s->count >= s->buckets * 2)
		shard_grow(s);
	chain = chain_of(s, inode->ino);
	inode->hash_next = *chain;
	*chain = inode;
	inode->hashed = true;
	s->count++;
}

static void shard_remove(struct shard *s, struct tarn_inode *inode)
{
	struct tarn_inode **at = chain_of(s, inode->ino);

	while (*at != inode)
		at = &(*at)->hash_next;
	*at = inode->hash_next;
	inode->hashed = false;
	s->count--;
}

static struct tarn_inode *shard_find(struct shard *s, uint64_t ino)
{
	struct tarn_inode *inode = *chain_of(s, ino);

	while (inode && inode->ino != ino)
		inode = inode->hash_next;
	return inode;
}

static void idle_remove(struct shard *s, struct tarn_inode *inode)
{
	inode->idle_prev->idle_next = inode->idle_next;
	inode->idle_next->idle_prev = inode->idle_prev;
	inode->idle_next = inode->idle_prev = NULL;
	s->nidle--;
}

static void idle_append(struct shard *s, struct tarn_inode *inode)
{
	inode->idle_next = &s->idle;
	inode->idle_prev = s->idle.idle_prev;
	s->idle.idle_prev->idle_next = inode;
	s->idle.idle_prev = inode;
	s->nidle++;
}

static void shard_ref(struct shard *s, struct tarn_inode *inode)
{
	if (atomic_fetch_add(&inode->refs, 1) == 0)
		idle_remove(s, inode);
}

/* ---- an inode's memory ---- */

static struct tarn_inode *inode_of(struct versioned *v)
{
	return (struct tarn_inode *)((char *)v - offsetof(struct tarn_inode, versioned));
}

static void version_ref(struct versioned *v)
{
	tarn_inode_ref(inode_of(v));
}

static void version_unref(struct versioned *v)
{
	tarn_inode_put(inode_of(v));
}

/* Not in the table; one reference. */
static struct tarn_inode *inode_alloc(struct fs *fs, uint64_t ino)
{
	struct tarn_inode *inode = calloc(1, sizeof(*inode));

	if (!inode)
		return NULL;
	inode->ds = tarn_dataset_ref(fs->ds);
	inode->table = fs->inodes;
	atomic_fetch_add(&inode->table->refs, 1);
	inode->ino = ino;
	atomic_init(&inode->refs, 1);
	alock_init(&inode->lock);
	versioned_init(&inode->versioned, &inode->rec, sizeof(inode->rec), version_ref,
		       version_unref);
	return inode;
}

static void inode_free(struct tarn_inode *inode)
{
	versioned_fini(&inode->versioned);
	alock_destroy(&inode->lock);
	table_unref(inode->table);
	tarn_dataset_put(inode->ds);
	free(inode);
}

static void inode_take(struct tarn_inode *inode, const struct inode_record *rec)
{
	inode->rec = *rec;
	inode->gen = rec->gen;
	inode->type = rec->type;
	atomic_store(&inode->orphan, rec->nlink == 0);
}

struct tarn_inode *tarn_inode_ref(struct tarn_inode *inode)
{
	atomic_fetch_add(&inode->refs, 1);
	return inode;
}

void tarn_inode_put(struct tarn_inode *inode)
{
	unsigned refs = atomic_load(&inode->refs);
	struct tarn_inode *gone = NULL;
	struct shard *s;

	while (refs > 1)
		if (atomic_compare_exchange_weak(&inode->refs, &refs, refs - 1))
			return;
	s = shard_of(inode->table, inode->ino);
	pthread_mutex_lock(&s->lock);
	if (atomic_fetch_sub(&inode->refs, 1) == 1) {
		if (!inode->hashed) {
			gone = inode;
		} else {
			idle_append(s, inode);
			if (s->nidle > IDLE_MAX) {
				gone = s->idle.idle_next;
				idle_remove(s, gone);
				shard_remove(s, gone);
			}
		}
	}
	pthread_mutex_unlock(&s->lock);
	if (gone)
		inode_free(gone);
}

void inode_table_drop(struct inode_table *t)
{
	for (unsigned i = 0; i < SHARDS; i++) {
		struct shard *s = &t->shard[i];
		struct tarn_inode *gone = NULL, *inode;

		pthread_mutex_lock(&s->lock);
		for (uint32_t b = 0; s->bucket && b < s->buckets; b++)
			while ((inode = s->bucket[b])) {
				shard_remove(s, inode);
				atomic_store(&inode->dead, true);
				if (atomic_load(&inode->refs) == 0) {
					idle_remove(s, inode);
					inode->hash_next = gone;
					gone = inode;
				}
			}
		pthread_mutex_unlock(&s->lock);
		while ((inode = gone)) {
			gone = inode->hash_next;
			inode_free(inode);
		}
	}
	table_unref(t);
}

/* ---- finding and loading ---- */

static int inode_load(struct fs *fs, struct tarn_inode *inode)
{
	struct inode_record rec;
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_make(key, inode->ino, KEY_INODE), len;
	struct tree_miss miss;
	int err;

	do {
		err = fs_read(fs, key, klen, &rec, sizeof(rec), sizeof(rec), &len, &miss);
		err = fs_fetch(fs, &miss, err);
	} while (err == -EAGAIN);
	if (!err)
		err = inode_record_validate(&rec, len);
	if (!err)
		inode_take(inode, &rec);
	/* In memory, and not in the table: a new inode of that number is just being made
	   (inode_insert()), and who asks for it has the handle of an older one. */
	return err == -ENOENT || err == -EBUSY ? -ESTALE : err;
}

/* Finds the inode or puts a placeholder in its place; referenced. */
static int inode_find(struct fs *fs, struct shard *s, uint64_t ino, struct tarn_inode **out,
		      bool *load)
{
	struct tarn_inode *inode;
	int err = 0;

	pthread_mutex_lock(&s->lock);
	inode = shard_find(s, ino);
	*load = !inode;
	if (inode) {
		shard_ref(s, inode);
		while (inode->loading)
			pthread_cond_wait(&s->loaded, &s->lock);
		err = inode->load_error;
	} else {
		inode = inode_alloc(fs, ino);
		if (inode) {
			inode->loading = true;
			shard_insert(s, inode);
		} else {
			err = -ENOMEM;
			*load = false;
		}
	}
	pthread_mutex_unlock(&s->lock);
	*out = inode;
	return err;
}

int inode_get(struct fs *fs, uint64_t ino, uint64_t gen, struct tarn_inode **out)
{
	struct shard *s = shard_of(fs->inodes, ino);
	struct tarn_inode *inode;
	bool load;
	int err;

	if (ino < ROOT_INO || ino > UINT32_MAX)
		return -ESTALE;
	err = inode_find(fs, s, ino, &inode, &load);
	if (load) {
		err = inode_load(fs, inode);
		pthread_mutex_lock(&s->lock);
		inode->loading = false;
		inode->load_error = err;
		if (err)
			atomic_store(&inode->dead, true);
		if (err && inode->hashed)
			shard_remove(s, inode);
		pthread_cond_broadcast(&s->loaded);
		pthread_mutex_unlock(&s->lock);
	}
	if (!err && (atomic_load(&inode->dead) || (gen && inode->gen != gen)))
		err = -ESTALE;
	if (err && inode) {
		tarn_inode_put(inode);
		inode = NULL;
	}
	*out = inode;
	return err;
}

void inode_forget(struct tarn_inode *inode)
{
	struct shard *s = shard_of(inode->table, inode->ino);

	pthread_mutex_lock(&s->lock);
	atomic_store(&inode->dead, true);
	if (inode->hashed)
		shard_remove(s, inode);
	pthread_mutex_unlock(&s->lock);
}

/* ---- new inodes ---- */

/* Nothing may be where the map says that a number is free: the map may be damaged. */
static int number_check(struct op *op, uint64_t ino)
{
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_make(key, ino, KEY_INODE), len;
	int err = fs_read(op->fs, key, klen, NULL, 0, 0, &len, &op->miss);

	return err == -ENOENT ? 0 : !err || err == -EBUSY ? -EIO : err;
}

int inode_new_prepare(struct op *op, struct tarn_inode **inode)
{
	uint64_t ino;
	int err = 0;

	if (!*inode) {
		err = imap_take(op, &ino);
		if (err)
			return err;
		*inode = inode_alloc(op->fs, ino);
		if (!*inode) {
			imap_give_back(op->fs, ino);
			return -ENOMEM;
		}
	}
	err = imap_pin(op, (*inode)->ino);
	if (!err)
		err = op_pin_inode(op, *inode);
	if (err)
		return err;
	err = number_check(op, (*inode)->ino);
	if (err == -EIO) {
		/* The number stays taken: the next create gets another one. */
		tarn_inode_put(*inode);
		*inode = NULL;
	}
	return err;
}

void inode_new_cancel(struct fs *fs, struct tarn_inode *inode)
{
	if (!inode)
		return;
	imap_give_back(fs, inode->ino);
	tarn_inode_put(inode);
}

static void inode_insert(struct op *op, struct tarn_inode *inode)
{
	struct shard *s = shard_of(inode->table, inode->ino);
	struct tarn_inode *old;

	imap_use(op, inode->ino);
	op_dirty(op, inode);
	dataset_count_inodes(op->fs->ds, &op->tx, 1);

	pthread_mutex_lock(&s->lock);
	/* A placeholder of somebody with an old handle may be in the way. It finds itself
	   out of the table and answers -ESTALE. */
	old = shard_find(s, inode->ino);
	if (old) {
		assert(old->loading);
		atomic_store(&old->dead, true);
		shard_remove(s, old);
	}
	shard_insert(s, inode);
	pthread_mutex_unlock(&s->lock);
}

void inode_new(struct op *op, struct tarn_inode *inode, const struct inode_record *rec)
{
	inode_take(inode, rec);
	inode->gen = atomic_fetch_add(&op->fs->next_gen, 1);
	inode->rec.gen = inode->gen;
	inode->rec.change = op->fs->floor + 1;
	inode_insert(op, inode);
}

/* ---- replay ---- */

int inode_claim(struct op *op, uint64_t ino, struct tarn_inode **inode)
{
	int err = 0;

	if (!*inode) {
		err = imap_claim(op, ino);
		if (err)
			return err;
		*inode = inode_alloc(op->fs, ino);
		if (!*inode) {
			imap_give_back(op->fs, ino);
			return -ENOMEM;
		}
	}
	return op_pin_inode(op, *inode);
}

void inode_restore(struct op *op, struct tarn_inode *inode, const struct inode_record *rec)
{
	inode_take(inode, rec);
	inode_insert(op, inode);
}

/* ---- changing ---- */

int inode_pin(struct tx *tx, struct tarn_inode *inode, struct tree_pin *pin, struct tree_miss *miss)
{
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_make(key, inode->ino, KEY_INODE);
	int err = versioned_prepare(&inode->versioned, tx->txg);

	if (err)
		return err;
	return tree_pin(tx, &inode->ds->tree, key, klen, pin, miss);
}

struct inode_record *inode_dirty(struct tx *tx, struct tarn_inode *inode)
{
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_make(key, inode->ino, KEY_INODE);

	versioned_dirty(&inode->versioned, tx, &inode->ds->tree, key, klen);
	return &inode->rec;
}

void inode_touch(struct tarn_inode *inode, struct inode_record *rec, bool mtime)
{
	uint64_t floor = fs_of(inode->ds)->floor;

	rec->change = rec->change < floor ? floor + 1 : rec->change + 1;
	disk_time_now(&rec->ctime);
	if (mtime)
		rec->mtime = rec->ctime;
}

void inode_space_add(struct tarn_inode *inode, int64_t bytes)
{
	pthread_mutex_lock(&inode->versioned.lock);
	inode->rec.space += (uint64_t)bytes;
	pthread_mutex_unlock(&inode->versioned.lock);
}

void inode_space_settle(struct tarn_inode *inode, uint64_t txg, int64_t bytes)
{
	versioned_settle(&inode->versioned, txg, offsetof(struct inode_record, space), bytes);
}

void inode_attr(const struct tarn_inode *inode, struct tarn_attr *out)
{
	const struct inode_record *rec = &inode->rec;
	pthread_mutex_t *lock = (pthread_mutex_t *)&inode->versioned.lock;

	*out = (struct tarn_attr){
	    .type = rec->type,
	    .mode = rec->mode,
	    .nlink = rec->nlink,
	    .uid = rec->uid,
	    .gid = rec->gid,
	    .rdev_major = rec->rdev_major,
	    .rdev_minor = rec->rdev_minor,
	    .size = rec->type == TARN_DIR ? rec->entries + 2 : rec->size,
	    .ino = inode->ino,
	    .gen = inode->gen,
	    .atime = timespec_of(&rec->atime),
	    .mtime = timespec_of(&rec->mtime),
	    .ctime = timespec_of(&rec->ctime),
	    .btime = timespec_of(&rec->btime),
	    .change = rec->change,
	};
	pthread_mutex_lock(lock);
	out->space = rec->space;
	pthread_mutex_unlock(lock);
	/* Directories that programs may look for below this one: the children's roots, too. */
	if (tarn_inode_is_root(inode))
		out->nlink += inode->ds->nchildren;
	/* Some programs take a file without blocks for one without data. */
	if (rec->flags & INODE_INLINE)
		out->space = 512;
}

/* By number (then by address: a removed inode and its successor may meet). */
static void sorted(struct tarn_inode *const inode[INODE_LOCKS], struct tarn_inode *out[INODE_LOCKS])
{
	unsigned n = 0;

	for (unsigned i = 0; i < INODE_LOCKS; i++) {
		unsigned at = n;

		if (!inode[i])
			continue;
		while (at && (out[at - 1]->ino > inode[i]->ino ||
			      (out[at - 1]->ino == inode[i]->ino && out[at - 1] > inode[i])))
			at--;
		if (at && out[at - 1] == inode[i])
			continue;
		memmove(out + at + 1, out + at, (n - at) * sizeof(*out));
		out[at] = inode[i];
		n++;
	}
	while (n < INODE_LOCKS)
		out[n++] = NULL;
}

void inodes_lock(struct tarn_inode *const inode[INODE_LOCKS])
{
	struct tarn_inode *order[INODE_LOCKS];

	sorted(inode, order);
	for (unsigned i = 0; i < INODE_LOCKS && order[i]; i++)
		alock_write(&order[i]->lock);
}

void inodes_unlock(struct tarn_inode *const inode[INODE_LOCKS])
{
	struct tarn_inode *order[INODE_LOCKS];

	sorted(inode, order);
	for (unsigned i = 0; i < INODE_LOCKS && order[i]; i++)
		alock_unlock(&order[i]->lock);
}

/* ---- public ---- */

int tarn_root(struct tarn_dataset *ds, struct tarn_inode **out)
{
	struct fs *fs;
	int err = dataset_enter(ds);

	*out = NULL;
	if (err)
		return err;
	err = fs_get(ds, &fs);
	if (!err)
		err = inode_get(fs, ROOT_INO, 0, out);
	dataset_leave(ds);
	return err;
}

int tarn_inode_get(struct tarn_dataset *ds, uint64_t ino, uint64_t gen, struct tarn_inode **out)
{
	struct fs *fs;
	int err = dataset_enter(ds);

	*out = NULL;
	if (err)
		return err;
	err = fs_get(ds, &fs);
	if (!err)
		err = inode_get(fs, ino, gen, out);
	/* Unlinked and not open: only its removal is still to come. */
	if (!err && atomic_load(&(*out)->orphan) && atomic_load(&(*out)->opens) == 0) {
		tarn_inode_put(*out);
		*out = NULL;
		err = -ESTALE;
	}
	dataset_leave(ds);
	return err;
}

struct tarn_dataset *tarn_inode_dataset(struct tarn_inode *inode)
{
	return inode->ds;
}

uint64_t tarn_inode_number(const struct tarn_inode *inode)
{
	return inode->ino;
}

uint64_t tarn_inode_generation(const struct tarn_inode *inode)
{
	return inode->gen;
}

bool tarn_inode_is_root(const struct tarn_inode *inode)
{
	return inode->ino == ROOT_INO;
}

enum tarn_type tarn_inode_type(const struct tarn_inode *inode)
{
	return inode->type;
}

int tarn_open(struct tarn_inode *inode)
{
	int err = dataset_enter(inode->ds);

	if (err)
		return err;
	/* The lock orders this against the unlink and the reaper's look at opens. */
	alock_read(&inode->lock);
	if (atomic_load(&inode->dead) ||
	    (atomic_load(&inode->orphan) && atomic_load(&inode->opens) == 0))
		err = -ESTALE;
	else
		atomic_fetch_add(&inode->opens, 1);
	alock_unlock(&inode->lock);
	dataset_leave(inode->ds);
	return err;
}

void tarn_close(struct tarn_inode *inode)
{
	unsigned opens = atomic_fetch_sub(&inode->opens, 1);

	assert(opens > 0);
	if (opens != 1 || !atomic_load(&inode->orphan) || dataset_enter(inode->ds))
		return;
	reap_kick(inode);
	dataset_leave(inode->ds);
}

int tarn_getattr(struct tarn_inode *inode, struct tarn_attr *out)
{
	int err = dataset_enter(inode->ds);

	if (err)
		return err;
	alock_read(&inode->lock);
	if (atomic_load(&inode->dead))
		err = -ESTALE;
	else
		inode_attr(inode, out);
	alock_unlock(&inode->lock);
	dataset_leave(inode->ds);
	return err;
}
