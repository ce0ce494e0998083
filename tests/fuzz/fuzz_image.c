// SPDX-License-Identifier: LGPL-3.0-or-later
/* runs 200 */
/*
 * A whole pool whose structures lie although every checksum is right. A small pool is made once by
 * the API, and all its metadata blocks are found. A run changes a few of them, seals what lies
 * above up to the uberblock, and then has the pool imported, read, changed and checked. Errors are
 * fine.
 *
 * An edit of the input: the piece (2 bytes), whether its stored form is changed instead of its
 * content (1 bit of 1 byte), then a change as fuzz_patch() takes it.
 */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <tarn/check.h>
#include <tarn/fs.h>
#include <unistd.h>

#include "dataset/catalog.h"
#include "pool/alog.h"
#include "pool/block.h"
#include "pool/chunk.h"
#include "pool/label.h"
#include "pool/slab.h"
#include "tree/node.h"

#define POOL "fuzz"
#define DEV_SIZE (64ull << 20)
#define CHUNKS_MAX 16
#define PIECES_MAX 4096
#define EDITS_MAX 16
#define VISITS_MAX 100 /* inodes that a walk looks at: directories may form circles */

static char path[4096];
static const char *const paths[] = {path};
static struct tarn_engine *engine;
static int fd;

/* The same identities each time, so that an input that crashes can be replayed. */
ssize_t getrandom(void *buf, size_t size, unsigned flags)
{
	static uint64_t state = 1;

	(void)flags;
	for (size_t i = 0; i < size; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		((uint8_t *)buf)[i] = (uint8_t)(state >> 56);
	}
	return (ssize_t)size;
}

/* ---- calls that wait ---- */

struct waiting {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done;
};

static void io_done(struct tarn_io *io)
{
	struct waiting *w = io->owner;

	pthread_mutex_lock(&w->lock);
	w->done = true;
	pthread_cond_signal(&w->cond);
	pthread_mutex_unlock(&w->lock);
}

static int transfer(struct tarn_inode *inode, bool write, uint64_t offset, void *buf, size_t len)
{
	struct waiting w = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
	struct iovec iov = {buf, len};
	struct tarn_io io = {.inode = inode,
			     .write = write,
			     .offset = offset,
			     .iov = &iov,
			     .iovcnt = 1,
			     .length = len,
			     .done = io_done,
			     .owner = &w};

	if (write)
		tarn_write(NULL, &io);
	else
		tarn_read(&io);
	pthread_mutex_lock(&w.lock);
	while (!w.done)
		pthread_cond_wait(&w.cond, &w.lock);
	pthread_mutex_unlock(&w.lock);
	return io.result;
}

/* ---- the pool ---- */

static struct tarn_inode *make(struct tarn_inode *dir, const char *name, enum tarn_type type,
			       const char *target)
{
	struct tarn_create how = {
	    .type = type, .set = {.mask = TARN_SET_MODE, .mode = 0755}, .target = target};
	struct tarn_commit token;
	struct tarn_inode *out;

	MUST(!tarn_create(NULL, dir, name, &how, &out, NULL, NULL, &token));
	return out;
}

static void make_file(struct tarn_inode *dir, const char *name, uint64_t offset, size_t len)
{
	struct tarn_inode *inode = make(dir, name, TARN_REG, NULL);
	uint8_t *data = malloc(len);

	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)(i * i >> 3);
	MUST(!transfer(inode, true, offset, data, len));
	free(data);
	tarn_inode_put(inode);
}

static void make_attributes(struct tarn_inode *dir)
{
	struct tarn_inode *inode = make(dir, "attributes", TARN_REG, NULL);
	struct tarn_acl *acl = calloc(1, sizeof(*acl) + 3 * sizeof(acl->ace[0]));
	struct tarn_setattr set = {.mask = TARN_SET_ACL, .acl = acl};
	struct tarn_commit token;
	static char value[20000];

	acl->count = 3;
	acl->ace[0] = (struct tarn_ace){.who = TARN_WHO_OWNER, .mask = 7};
	acl->ace[1] = (struct tarn_ace){.type = 1, .who = TARN_WHO_UID, .mask = 2, .id = 5};
	acl->ace[2] = (struct tarn_ace){.who = TARN_WHO_EVERYONE, .mask = 1};
	MUST(!tarn_setattr(NULL, inode, &set, NULL, &token));
	MUST(!tarn_xattr_set(NULL, inode, "small", "value", 5, TARN_XATTR_ANY, &token));
	MUST(!tarn_xattr_set(NULL, inode, "large", value, sizeof(value), TARN_XATTR_ANY, &token));
	free(acl);
	tarn_inode_put(inode);
}

/* Something of each kind; what is removed again goes into the log and the deferred frees. */
static void fill_first(struct tarn_inode *root)
{
	struct tarn_inode *dir = make(root, "dir", TARN_DIR, NULL), *sub;
	char name[32];

	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "file-%d", i);
		tarn_inode_put(make(dir, name, TARN_REG, NULL));
	}
	sub = make(dir, "sub", TARN_DIR, NULL);
	tarn_inode_put(make(sub, "deep", TARN_FIFO, NULL));
	tarn_inode_put(make(sub, "link", TARN_LNK, "../file-1"));
	make_file(root, "tiny", 0, 100);
	make_file(root, "big", 0, 400000);
	make_file(root, "holes", 1 << 20, 5000);
	make_file(root, "gone", 0, 50000);
	make_attributes(root);
	tarn_inode_put(sub);
	tarn_inode_put(dir);
}

static void commit(struct tarn_dataset *ds, struct tarn_inode *root)
{
	struct tarn_setattr set = {.mask = TARN_SET_MTIME_NOW};
	struct tarn_commit token;

	MUST(!tarn_setattr(NULL, root, &set, NULL, &token));
	MUST(!tarn_commit_wait(ds, token));
}

/* As a cut finds it: active, with an orphan (that is still open) and deferred frees. */
static struct tarn_inode *make_pool(void)
{
	struct tarn_group_spec group = {TARN_GROUP_SINGLE, 1, paths, TARN_CLASS_DATA};
	struct tarn_prop props[] = {{"compression", "zstd"}, {"user:prop", "x"}};
	struct tarn_inode *root, *orphan;
	struct tarn_error err = {0};
	struct tarn_dataset *ds;
	struct tarn_commit token;

	MUST(!tarn_pool_create(engine, POOL, &group, 1, NULL, 0, 0, &err));
	MUST(!tarn_dataset_create(engine, POOL "/a", props, 2, false, &err));
	MUST(!tarn_dataset_create(engine, POOL "/a/b", NULL, 0, false, &err));
	MUST(!tarn_pool_prop_set(engine, POOL, "comment", "a pool", &err));
	MUST(!tarn_pool_history_add(engine, POOL, "pool create"));
	MUST(!tarn_dataset_open(engine, POOL "/a", NULL, &ds));
	MUST(!tarn_root(ds, &root));
	fill_first(root);
	orphan = make(root, "orphan", TARN_REG, NULL);
	MUST(!tarn_open(orphan));
	commit(ds, root);
	MUST(!tarn_unlink(NULL, root, "gone", -1, NULL, &token));
	MUST(!tarn_unlink(NULL, root, "orphan", -1, NULL, &token));
	commit(ds, root);
	commit(ds, root);
	tarn_inode_put(root);
	tarn_dataset_put(ds);
	return orphan;
}

/* ---- the image, its sectors and its pieces ---- */

static uint8_t *image; /* DEV_SIZE bytes */
static uint8_t used[DEV_SIZE / SECTOR_SIZE];

static struct {
	uint64_t id;
	uint64_t column[CHUNK_COLS_MAX]; /* device offsets; 0: none */
	uint32_t spare;                  /* sectors from here on hold what has grown */
} chunks[CHUNKS_MAX];
static unsigned nchunks;

enum piece_kind { LABEL, UBER, SLAB_PAGE, BLOCK };

static struct piece {
	enum piece_kind kind;
	uint32_t size;
	uint64_t at[2]; /* LABEL, UBER, SLAB_PAGE: where both copies lie */
	uint64_t magic;
	struct bp bp;
	int parent; /* -1: none */
	uint32_t parent_at;
	uint8_t *good, *work;
	bool dirty;
} pieces[PIECES_MAX];
static unsigned npieces;

static struct label *label_of_image(void)
{
	return (struct label *)(image + LABEL_OFFSET);
}

static void read_image(void)
{
	image = malloc(DEV_SIZE);
	MUST(image && pread(fd, image, DEV_SIZE, 0) == (ssize_t)DEV_SIZE);
	for (uint64_t i = 0; i < DEV_SIZE; i += SECTOR_SIZE) {
		uint8_t *sector = image + i;

		used[i / SECTOR_SIZE] = *sector || memcmp(sector, sector + 1, SECTOR_SIZE - 1);
	}
}

static void write_image(void)
{
	MUST(!ftruncate(fd, 0) && !ftruncate(fd, DEV_SIZE));
	for (uint64_t i = 0; i < DEV_SIZE / SECTOR_SIZE; i++) {
		if (used[i])
			MUST(pwrite(fd, image + i * SECTOR_SIZE, SECTOR_SIZE, i * SECTOR_SIZE) ==
			     SECTOR_SIZE);
	}
}

static struct piece *add_piece(enum piece_kind kind, uint64_t magic, const void *content,
			       uint32_t size, uint64_t at, uint64_t again)
{
	struct piece *p = &pieces[npieces++];

	MUST(npieces < PIECES_MAX);
	*p = (struct piece){.kind = kind,
			    .size = size,
			    .at = {at, again},
			    .magic = magic,
			    .parent = -1,
			    .good = malloc(size),
			    .work = malloc(size)};
	memcpy(p->good, content, size);
	return p;
}

static unsigned chunk_index(uint64_t id)
{
	unsigned i = 0;

	while (i < nchunks && chunks[i].id != id)
		i++;
	if (i == nchunks) {
		MUST(nchunks < CHUNKS_MAX);
		chunks[nchunks++].id = id;
	}
	return i;
}

static void find_slabs(void)
{
	const struct label_dev *dev = &label_of_image()->devs[0];
	const struct slab_page *a = (struct slab_page *)(image + LABEL_AREA);
	const struct slab_page *b = a + dev->table_pages;
	const struct slab_page *best = slab_page_valid(b, dev->guid, 0) && b->seq > a->seq ? b : a;
	uint32_t slab_bytes = 1u << label_of_image()->groups[0].slab_shift;

	add_piece(SLAB_PAGE, SLAB_MAGIC, best, sizeof(*best), LABEL_AREA,
		  LABEL_AREA + (uint64_t)dev->table_pages * SECTOR_SIZE);
	for (uint32_t i = 0; i < dev->slab_count && i < SLAB_PAGE_ENTRIES; i++) {
		const struct slab_entry *e = &best->entries[i];
		unsigned c;

		if (!e->chunk)
			continue;
		c = chunk_index(e->chunk);
		chunks[c].column[e->column] = dev->slab_start + (uint64_t)i * slab_bytes;
		chunks[c].spare = slab_bytes / SECTOR_SIZE;
	}
}

static const struct uberblock *newest_uber(void)
{
	const struct uberblock *ring = (struct uberblock *)(image + UBER_OFFSET), *best = NULL;

	for (unsigned i = 0; i < UBER_SLOTS; i++) {
		if (!uber_validate(&ring[i], label_of_image()->pool_guid) &&
		    (!best || uber_compare(&ring[i], best) > 0))
			best = &ring[i];
	}
	return best;
}

/* The block whose bp lies at `at` of the parent's content, if it is one. */
static void add_block(unsigned parent, uint32_t at)
{
	struct piece *p;
	struct bp bp;
	uint8_t *content;

	memcpy(&bp, pieces[parent].good + at, sizeof(bp));
	if (bp_is_hole(&bp))
		return;
	content = malloc(bp.lsize);
	MUST(!block_decompress(bp.comp,
			       image + chunks[chunk_index(bp.chunk)].column[0] +
				   (uint64_t)bp.sector * SECTOR_SIZE,
			       bp.psize, content, bp.lsize));
	p = add_piece(BLOCK, 0, content, bp.lsize, 0, 0);
	free(content);
	p->bp = bp;
	p->parent = (int)parent;
	p->parent_at = at;
}

static bool holds_dataset(const struct node_entry *e)
{
	return e->kind == SLOT_VALUE && e->klen == 9 && e->bytes[0] == CAT_DATASET &&
	       e->vlen == sizeof(struct dataset_record);
}

/* What the content of a piece refers to. */
static void add_children(unsigned n, uint64_t alog_tail)
{
	const struct piece *p = &pieces[n];
	const struct node_head *head = (struct node_head *)p->good;
	const uint16_t *offset = (uint16_t *)(p->good + sizeof(*head));

	if (p->kind == UBER) {
		add_block(n, offsetof(struct uberblock, root));
		add_block(n, offsetof(struct uberblock, alog));
	} else if (p->kind == BLOCK && p->bp.type == BP_ALLOC_LOG) {
		const struct alog_block *log = (struct alog_block *)p->good;

		if (log->prev.birth >= alog_tail)
			add_block(n, offsetof(struct alog_block, prev));
	} else if (p->kind == BLOCK && p->bp.type == BP_NODE) {
		for (unsigned i = 0; i < head->count; i++) {
			const struct node_entry *e = (struct node_entry *)(p->good + offset[i]);

			if (e->kind != SLOT_VALUE || holds_dataset(e))
				add_block(n, offset[i] + sizeof(*e) + e->klen);
		}
	}
}

static void find_pieces(void)
{
	const struct uberblock *uber = newest_uber();
	uint64_t slot = UBER_OFFSET + uber->txg % UBER_SLOTS * SECTOR_SIZE;
	uint64_t back = DEV_SIZE - LABEL_AREA;

	add_piece(LABEL, LABEL_MAGIC, label_of_image(), LABEL_SIZE, LABEL_OFFSET,
		  back + LABEL_OFFSET);
	find_slabs();
	add_piece(UBER, UBER_MAGIC, uber, sizeof(*uber), slot, back + slot);
	for (unsigned i = 0; i < npieces; i++)
		add_children(i, uber->alog_tail);
}

/* ---- editing ---- */

static struct edit {
	unsigned piece;
	bool stored;
	uint32_t at, length;
	uint8_t bytes[32];
} edits[EDITS_MAX];
static unsigned nedits;

static void read_edits(struct fuzz_input *in)
{
	for (nedits = 0; nedits < EDITS_MAX && fuzz_left(in) > 7; nedits++) {
		struct edit *e = &edits[nedits];

		e->piece = fuzz_number(in, 2) % npieces;
		e->stored = fuzz_number(in, 1) % 8 == 7;
		e->at = fuzz_number(in, 3);
		e->length = 1 + fuzz_number(in, 1) % sizeof(e->bytes);
		fuzz_bytes(in, e->bytes, e->length);
	}
}

static void apply_edits(unsigned piece, bool stored, uint8_t *content, uint32_t size)
{
	for (unsigned i = 0; i < nedits; i++) {
		const struct edit *e = &edits[i];
		uint32_t at = e->at % size;

		if (e->piece == piece && e->stored == stored)
			memcpy(content + at, e->bytes,
			       e->length < size - at ? e->length : size - at);
	}
}

/* Packs the content as its bp says if it fits its old place, else elsewhere as it is. */
static void pack(struct piece *p, struct bp *bp, uint8_t *stored)
{
	uint32_t room = bp_sectors(bp) * SECTOR_SIZE,
		 sectors = (p->size + SECTOR_SIZE - 1) / SECTOR_SIZE;
	uint32_t n = bp->comp ? block_compress(bp->comp, bp->comp == COMP_ZSTD ? 3 : 0, p->work,
					       p->size, stored, room)
			      : 0;

	if (n) {
		bp->psize = n;
		return;
	}
	memcpy(stored, p->work, p->size);
	bp->comp = COMP_OFF;
	bp->psize = p->size;
	if (p->size > room)
		bp->sector = chunks[chunk_index(bp->chunk)].spare -= sectors;
}

static void seal_block(unsigned n)
{
	static uint8_t stored[BLOCK_MAX + SECTOR_SIZE];
	struct piece *p = &pieces[n];
	struct piece *parent = &pieces[p->parent];
	struct bp bp = p->bp, *slot = (struct bp *)(parent->work + p->parent_at), out;
	unsigned c = chunk_index(bp.chunk);

	memset(stored, 0, sizeof(stored));
	pack(p, &bp, stored);
	apply_edits(n, true, stored, bp.psize);
	block_checksum(bp.cksum, stored, bp.psize, bp.sum);
	for (unsigned i = 0; i < CHUNK_COLS_MAX; i++) {
		if (chunks[c].column[i])
			MUST(pwrite(fd, stored, bp_sectors(&bp) * SECTOR_SIZE,
				    chunks[c].column[i] + (uint64_t)bp.sector * SECTOR_SIZE) > 0);
	}
	memcpy(&out, slot, sizeof(out));
	out.sector = bp.sector;
	out.psize = bp.psize;
	out.comp = bp.comp;
	memcpy(out.sum, bp.sum, sizeof(out.sum));
	memcpy(slot, &out, sizeof(out));
}

/* From the leaves up: a parent is changed after its children's bps have got their sums. */
static void forge(void)
{
	for (unsigned i = 0; i < nchunks; i++)
		chunks[i].spare = (1u << label_of_image()->groups[0].slab_shift) / SECTOR_SIZE;
	for (unsigned i = 0; i < nedits; i++) {
		for (int n = (int)edits[i].piece; n >= 0 && !pieces[n].dirty;
		     n = pieces[n].parent) {
			pieces[n].dirty = true;
			memcpy(pieces[n].work, pieces[n].good, pieces[n].size);
		}
	}
	for (unsigned n = npieces; n-- > 0;) {
		struct piece *p = &pieces[n];

		if (!p->dirty)
			continue;
		p->dirty = false;
		apply_edits(n, false, p->work, p->size);
		if (p->kind == BLOCK) {
			seal_block(n);
			continue;
		}
		disk_seal((struct disk_head *)p->work, p->magic, p->size);
		for (unsigned i = 0; i < 2; i++)
			MUST(pwrite(fd, p->work, p->size, p->at[i]) == (ssize_t)p->size);
	}
}

/* ---- using what was imported ---- */

struct visit {
	unsigned left;
	bool change;
};

static bool count_xattr(void *arg, const char *name)
{
	static uint8_t value[TARN_XATTR_MAX];
	size_t len = sizeof(value);

	if (!tarn_xattr_get(arg, name, value, &len))
		MUST(len <= sizeof(value));
	return true;
}

static void read_file(struct tarn_inode *inode, uint64_t size)
{
	static uint8_t data[1 << 17];
	uint64_t at;
	bool eof;

	transfer(inode, false, 0, data, sizeof(data));
	transfer(inode, false, size > 1000 ? size - 1000 : 0, data, sizeof(data));
	tarn_seek(inode, 0, true, &at, &eof);
	tarn_seek(inode, 5000, false, &at, &eof);
}

static void read_inode(struct tarn_inode *inode)
{
	struct tarn_cred cred = {.uid = 5, .gid = 6};
	struct tarn_acl *acl;
	struct tarn_attr attr;
	char *target;
	bool eof;

	if (tarn_getattr(inode, &attr))
		return;
	MUST(attr.type >= TARN_REG && attr.type <= TARN_SOCK && !(attr.mode & ~07777u));
	if (!tarn_acl_get(inode, &acl)) {
		fuzz_touch(acl->ace, acl->count * sizeof(acl->ace[0]));
		free(acl);
	}
	tarn_access(&cred, inode, 1);
	tarn_xattr_list(inode, NULL, count_xattr, inode, &eof);
	if (attr.type == TARN_REG)
		read_file(inode, attr.size);
	if (attr.type == TARN_LNK && !tarn_readlink(inode, &target)) {
		MUST(strlen(target) <= TARN_SYMLINK_MAX);
		free(target);
	}
}

static void change_inode(struct tarn_inode *inode)
{
	static uint8_t data[9000] = {1, 2, 3};
	struct tarn_setattr mode = {.mask = TARN_SET_MODE, .mode = 0640};
	struct tarn_setattr cut = {.mask = TARN_SET_SIZE, .size = 3000};
	struct tarn_commit token;

	tarn_setattr(NULL, inode, &mode, NULL, &token);
	tarn_xattr_set(NULL, inode, "new", data, 100, TARN_XATTR_ANY, &token);
	tarn_xattr_remove(NULL, inode, "large", &token);
	if (tarn_inode_type(inode) != TARN_REG)
		return;
	transfer(inode, true, 2000, data, sizeof(data));
	tarn_punch(NULL, inode, 0, 4096, &token);
	tarn_setattr(NULL, inode, &cut, NULL, &token);
}

static void change_dir(struct tarn_inode *dir, const char *first)
{
	struct tarn_create how = {.type = TARN_REG, .set = {.mask = TARN_SET_MODE, .mode = 0600}};
	struct tarn_inode *out = NULL;
	struct tarn_commit token;

	if (!tarn_create(NULL, dir, "made", &how, &out, NULL, NULL, &token))
		tarn_link(NULL, out, dir, "linked", NULL, NULL, &token);
	if (out)
		tarn_inode_put(out);
	if (*first) {
		tarn_rename(NULL, dir, first, dir, "renamed", NULL, NULL, &token);
		tarn_unlink(NULL, dir, "renamed", -1, NULL, &token);
	}
	tarn_unlink(NULL, dir, "made", -1, NULL, &token);
}

struct listing {
	struct tarn_inode *found[VISITS_MAX];
	unsigned n;
	char first[TARN_NAME_MAX + 1];
};

static bool take_entry(void *arg, const struct tarn_dirent *entry)
{
	struct listing *list = arg;

	MUST(strlen(entry->name) <= TARN_NAME_MAX);
	if (!list->n)
		strcpy(list->first, entry->name);
	list->found[list->n++] = tarn_inode_ref(entry->inode);
	return list->n < VISITS_MAX;
}

static void visit(struct tarn_inode *inode, struct visit *v)
{
	struct listing *list;
	bool eof;

	if (!v->left)
		return;
	v->left--;
	read_inode(inode);
	if (v->change)
		change_inode(inode);
	if (tarn_inode_type(inode) != TARN_DIR)
		return;
	list = calloc(1, sizeof(*list));
	tarn_readdir(inode, 0, take_entry, list, &eof);
	for (unsigned i = 0; i < list->n; i++) {
		visit(list->found[i], v);
		tarn_inode_put(list->found[i]);
	}
	if (v->change)
		change_dir(inode, list->first);
	free(list);
}

static void visit_dataset(const char *name, bool change)
{
	struct visit v = {VISITS_MAX, change};
	struct tarn_inode *root;
	struct tarn_dataset *ds;
	struct tarn_statfs st;

	if (tarn_dataset_open(engine, name, NULL, &ds))
		return;
	tarn_dataset_statfs(ds, &st);
	if (!tarn_root(ds, &root)) {
		visit(root, &v);
		tarn_inode_put(root);
	}
	tarn_dataset_put(ds);
}

static void ignore_prop(void *arg, const char *prop, const char *value, const char *source)
{
	(void)arg;
	fuzz_touch(prop, strlen(prop));
	fuzz_touch(value, strlen(value));
	fuzz_touch(source, strlen(source));
}

static void ignore_history(void *arg, time_t when, const char *text)
{
	(void)arg, (void)when;
	fuzz_touch(text, strlen(text));
}

static int keep_path(void *arg, const struct tarn_dataset_info *info)
{
	char(*list)[TARN_PATH_MAX] = arg;

	for (unsigned i = 0; i < 8; i++) {
		if (!list[i][0]) {
			strcpy(list[i], info->path);
			break;
		}
	}
	return 0;
}

static int each_value(void *arg, const char *name, const char *value, enum tarn_prop_source source,
		      const char *from)
{
	(void)arg, (void)source, (void)from;
	fuzz_touch(name, strlen(name));
	fuzz_touch(value, strlen(value));
	return 0;
}

static void use_pool(bool change)
{
	static char list[8][TARN_PATH_MAX];
	struct tarn_pool_status *status;
	struct tarn_error err = {0};

	memset(list, 0, sizeof(list));
	if (!tarn_pool_status(engine, POOL, &status))
		tarn_pool_status_free(status);
	tarn_pool_prop_list(engine, POOL, ignore_prop, NULL);
	tarn_pool_history(engine, POOL, ignore_history, NULL);
	tarn_dataset_list(engine, POOL, true, keep_path, list);
	for (unsigned i = 0; i < 8 && list[i][0]; i++) {
		tarn_dataset_get(engine, list[i], NULL, false, each_value, NULL, &err);
		visit_dataset(list[i], change);
	}
	if (change) {
		tarn_dataset_create(engine, POOL "/new", NULL, 0, false, &err);
		tarn_dataset_destroy(engine, POOL "/a", true, 0, &err);
	}
}

/* Whether it could be imported. */
static bool import_and_use(int flags, bool change)
{
	struct tarn_import_spec spec = {.paths = paths, .npaths = 1, .flags = flags};
	struct tarn_import_candidate *found;
	struct tarn_error err = {0};
	uint32_t n;

	if (tarn_pool_scan(engine, paths, 1, &found, &n))
		return false;
	spec.guid = n ? found[0].guid : 0;
	spec.new_name = POOL;
	free(found);
	if (!n)
		return false;
	if (tarn_pool_import(engine, &spec, &err)) {
		MUST(err.text[0]);
		return false;
	}
	use_pool(change);
	tarn_pool_export(engine, POOL, 0, &err);
	return true;
}

static void ignore_finding(void *arg, const struct tarn_finding *finding)
{
	(void)arg;
	MUST(tarn_finding_name(finding->kind) && finding->text[0]);
}

static uint64_t check(void)
{
	struct tarn_check_spec spec = {
	    .paths = paths, .npaths = 1, .uberblocks = 1, .finding = ignore_finding};
	struct tarn_check_result result = {0};
	struct tarn_error err = {0};

	return tarn_check(&spec, &result, &err) ? 1 : result.findings;
}

/* ---- libFuzzer ---- */

/* At an orderly end; after a crash the image is still there. */
static void remove_image(void)
{
	unlink(path);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const struct tarn_config config = {.arc_max = 16 << 20,
						  .dirty_max = 16 << 20,
						  .threads = 1,
						  .host = "host",
						  .host_id = 1,
						  .txg_seconds = 60};
	const char *dir = getenv("TMPDIR");
	struct tarn_error err = {0};
	struct tarn_inode *orphan;

	(void)argc, (void)argv;
	snprintf(path, sizeof(path), "%s/tarn-fuzz-%d", dir ? dir : "/tmp", (int)getpid());
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	MUST(fd >= 0 && !ftruncate(fd, DEV_SIZE) && !atexit(remove_image));
	MUST(!tarn_engine_create(&config, &engine));
	orphan = make_pool();
	read_image();
	tarn_close(orphan);
	tarn_inode_put(orphan);
	MUST(!tarn_pool_export(engine, POOL, 0, &err));
	find_pieces();
	write_image();
	MUST(check() == 0);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, data + size};

	write_image();
	read_edits(&in);
	forge();
	check();
	import_and_use(TARN_READ_ONLY, false);
	if (import_and_use(0, true))
		check();
	return 0;
}
