// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * One dataset. The keys of an inode lie together and in order (fs/key.h), so one walk sees each
 * inode whole; what connects inodes is compared afterwards (links.c).
 *
 * Findings wait until the walk is done (or there are many), for by then their inodes' names are
 * known.
 */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "check/impl.h"
#include "fs/fs.h"
#include "fs/key.h"

#define WAITING_MAX 1000

struct waiting {
	struct waiting *next;
	enum tarn_finding_kind kind;
	uint64_t inode;
	char text[];
};

struct dataset_walk {
	struct check *c;
	const struct dataset_seen *ds;
	struct inodes *table;
	struct place place; /* inode: the one whose keys are being walked */
	uint64_t used, logical, inodes;
	bool lost; /* what could not be read is not in the table and the sums */

	struct waiting *waiting, **waiting_end;
	unsigned nwaiting;

	/* The inode whose keys are being walked. */
	uint64_t ino;
	bool has_record, has_acl, has_target, has_inline;
	uint32_t target_len, inline_len;
	struct inode_record rec;
	uint64_t entries, cookies, entry_sum, cookie_sum, max_cookie;
	uint64_t space, max_end, nrecords;
};

/* ---- findings ---- */

static void report_waiting(struct dataset_walk *w)
{
	struct paths *paths = NULL;
	char path[PATH_ROOM];

	if (w->waiting && paths_new(w->c, &w->ds->rec.root, &paths))
		paths = NULL; /* no memory: by number only */
	while (w->waiting) {
		struct waiting *f = w->waiting;
		bool named = paths && f->inode && path_of(paths, w->table, f->inode, path);

		w->waiting = f->next;
		found_in(w->c, f->kind, w->ds->path, f->inode, named ? path : NULL, f->text);
		free(f);
	}
	w->waiting_end = &w->waiting;
	w->nwaiting = 0;
	paths_free(paths);
}

static void report_later(void *arg, enum tarn_finding_kind kind, uint64_t inode, const char *text)
{
	struct dataset_walk *w = arg;
	struct waiting *f = malloc(sizeof(*f) + strlen(text) + 1);

	if (!f) {
		found_in(w->c, kind, w->ds->path, inode, NULL, text);
		return;
	}
	*f = (struct waiting){.kind = kind, .inode = inode};
	strcpy(f->text, text);
	*w->waiting_end = f;
	w->waiting_end = &f->next;
	if (++w->nwaiting >= WAITING_MAX)
		report_waiting(w);
}

static void bad(struct dataset_walk *w, enum tarn_finding_kind kind, const char *what)
{
	report_later(w, kind, w->ino, what);
}

static void bad_numbers(struct dataset_walk *w, enum tarn_finding_kind kind, const char *what,
			uint64_t is, uint64_t should)
{
	found_at(&w->place, kind, "%s is %" PRIu64 ", should be %" PRIu64, what, is, should);
}

/* ---- one inode ---- */

static void check_regular(struct dataset_walk *w)
{
	struct inode_record *r = &w->rec;

	if (!!(r->flags & INODE_INLINE) != w->has_inline)
		bad(w, TARN_FOUND_INODE, "its inline flag and its content do not agree");
	if (w->has_inline && w->nrecords)
		bad(w, TARN_FOUND_DATA, "has inline content and records");
	if (w->has_inline && w->inline_len > r->size)
		bad_numbers(w, TARN_FOUND_DATA, "length of inline content", w->inline_len, r->size);
	if (w->space != r->space)
		bad_numbers(w, TARN_FOUND_DATA, "space", r->space, w->space);
	if (w->max_end > r->size && !(r->flags & INODE_TRUNCATED))
		bad_numbers(w, TARN_FOUND_DATA, "size", r->size, w->max_end);
}

static void check_directory(struct dataset_walk *w)
{
	struct inode_record *r = &w->rec;

	if (w->entries != w->cookies || w->entry_sum != w->cookie_sum)
		bad(w, TARN_FOUND_ENTRY, "its entries by name and by cookie do not agree");
	if (r->entries != w->entries)
		bad_numbers(w, TARN_FOUND_ENTRY, "number of entries", r->entries, w->entries);
	if (w->max_cookie >= r->next_cookie)
		bad_numbers(w, TARN_FOUND_ENTRY, "next cookie", r->next_cookie, w->max_cookie + 1);
	if (r->parent > UINT32_MAX)
		bad(w, TARN_FOUND_PARENT, "the number of its parent is out of range");
}

static void check_content(struct dataset_walk *w)
{
	if (w->rec.type == TARN_DIR)
		check_directory(w);
	else if (w->entries || w->cookies)
		bad(w, TARN_FOUND_INODE, "has entries but is no directory");
	if (w->rec.type == TARN_REG)
		check_regular(w);
	else if (w->nrecords || w->has_inline)
		bad(w, TARN_FOUND_INODE, "has data but is no regular file");
	if ((w->rec.type == TARN_LNK) != w->has_target ||
	    (w->has_target && w->target_len != w->rec.size))
		bad(w, TARN_FOUND_INODE, "its link target does not fit its record");
	if (!!(w->rec.flags & INODE_ACL) != w->has_acl)
		bad(w, TARN_FOUND_ATTRIBUTE, "its ACL flag and its ACL do not agree");
}

static void end_inode(struct dataset_walk *w)
{
	struct known *k;

	if (w->ino < ROOT_INO)
		return;
	k = inode_known(w->table, w->ino);
	if (!w->has_record || !k) {
		/* Its record may be in what is lost. A destroyed dataset goes key by key from its
		   first one, a record before what belongs to it. */
		if (!w->lost && !(w->ds->destroyed && !w->inodes))
			bad(w, TARN_FOUND_INODE, "has keys but no record");
		return;
	}
	if (k->names && (k->gen != w->rec.gen || k->type != w->rec.type))
		k->flags |= KNOWN_MISNAMED;
	k->flags |= KNOWN_EXISTS | (w->rec.flags & INODE_TRUNCATED ? KNOWN_TRUNCATED : 0);
	k->type = w->rec.type;
	k->gen = w->rec.gen;
	k->nlink = w->rec.nlink;
	k->parent = (uint32_t)w->rec.parent;
	w->inodes++;
	w->c->result->inodes++;
	if (k->flags & KNOWN_ORPHAN && !k->nlink)
		return; /* being removed: some of its keys have gone, its record goes last */
	if (!w->lost && !w->ds->destroyed)
		check_content(w);
}

static void begin_inode(struct dataset_walk *w, uint64_t ino)
{
	w->ino = w->place.inode = ino;
	w->has_record = w->has_acl = w->has_target = w->has_inline = false;
	w->entries = w->cookies = w->entry_sum = w->cookie_sum = w->max_cookie = 0;
	w->space = w->max_end = w->nrecords = 0;
	memset(&w->rec, 0, sizeof(w->rec));
}

/* ---- keys ---- */

/* Order-independent: entries come by name once and by cookie once. */
static uint64_t entry_hash(const struct entry *e, const void *name, uint32_t len)
{
	return XXH3_64bits_withSeed(name, len, XXH3_64bits(e, sizeof(*e)));
}

static void know_entry(struct dataset_walk *w, const struct entry *e)
{
	struct known *k = inode_known(w->table, e->ino);
	struct known *dir = inode_known(w->table, w->ino);

	if (!k || !dir)
		return;
	if (!(k->flags & KNOWN_EXISTS) && !k->names) {
		k->gen = e->gen;
		k->type = e->type;
	} else if (k->gen != e->gen || k->type != e->type) {
		k->flags |= KNOWN_MISNAMED;
	}
	k->names++;
	k->in_dir = (uint32_t)w->ino;
	k->in_cookie = (uint32_t)e->cookie;
	dir->subdirs += e->type == TARN_DIR;
}

static void on_entry(struct dataset_walk *w, const uint8_t *name, uint32_t nlen, const void *val,
		     uint32_t vlen)
{
	struct entry e;

	if (vlen != sizeof(e) || entry_validate(val, vlen) || nlen == 0 || nlen > TARN_NAME_MAX ||
	    memchr(name, '/', nlen) || memchr(name, '\0', nlen)) {
		bad(w, TARN_FOUND_ENTRY, "an entry that is malformed");
		return;
	}
	memcpy(&e, val, sizeof(e));
	w->entries++;
	w->entry_sum += entry_hash(&e, name, nlen);
	if (w->ino < ROOT_INO || w->ino > UINT32_MAX)
		return;
	know_entry(w, &e);
}

static void on_cookie(struct dataset_walk *w, const uint8_t *key, uint32_t klen, const void *val,
		      uint32_t vlen)
{
	struct entry e;

	if (klen != 17 || vlen <= sizeof(e) || entry_validate(val, sizeof(e))) {
		bad(w, TARN_FOUND_ENTRY, "a cookie that is malformed");
		return;
	}
	memcpy(&e, val, sizeof(e));
	if (key_get_u64(key) != e.cookie)
		bad(w, TARN_FOUND_ENTRY, "a cookie under another's key");
	w->cookies++;
	w->cookie_sum += entry_hash(&e, (const char *)val + sizeof(e), vlen - sizeof(e));
	if (e.cookie > w->max_cookie)
		w->max_cookie = e.cookie;
}

static void on_record(struct dataset_walk *w, const uint8_t *key, uint32_t klen,
		      const struct bp *bp)
{
	uint64_t offset = klen == 17 ? key_get_u64(key) : 1;
	uint32_t size = w->rec.recordsize;

	w->nrecords++;
	if (!w->has_record)
		return; /* told once, by end_inode() */
	if (!size || offset % size || offset > INT64_MAX || bp->lsize > size) {
		bad(w, TARN_FOUND_DATA, "a data record that does not fit its file");
		return;
	}
	if (bp_is_hole(bp))
		return;
	if (bp->type != BP_DATA)
		bad(w, TARN_FOUND_DATA, "a data record that is no data");
	w->space += (uint64_t)bp_sectors(bp) << SECTOR_SHIFT;
	/* The last record reaches beyond the end: only where it begins counts. */
	w->max_end = offset + 1;
}

static void on_acl(struct dataset_walk *w, uint32_t klen, const void *val, uint32_t vlen)
{
	uint32_t n = vlen / sizeof(struct tarn_ace);
	const uint8_t *at = val;
	bool good = klen == 9 && n && vlen % sizeof(struct tarn_ace) == 0 && n <= ACL_STORED_MAX;

	w->has_acl = true;
	for (uint32_t i = 0; good && i < n; i++) {
		struct tarn_ace ace;

		memcpy(&ace, at + i * sizeof(ace), sizeof(ace));
		good = ace.type <= ACE_ALARM && ace.who <= TARN_WHO_GID &&
		       !(ace.flags & ~(uint32_t)ACE_FLAGS) && !(ace.mask & ~(uint32_t)ACE_MASK);
	}
	if (!good)
		bad(w, TARN_FOUND_ATTRIBUTE, "its ACL is malformed");
}

static void on_imap(struct dataset_walk *w, const uint8_t *key, uint32_t klen, const uint8_t *val,
		    uint32_t vlen)
{
	uint64_t index = klen == 17 ? key_get_u64(key) : UINT64_MAX;

	if (vlen != 512 || index >= ((uint64_t)1 << 32) / 4096) {
		bad(w, TARN_FOUND_INODE_MAP, "a malformed page of the inode map");
		return;
	}
	for (uint32_t i = 0; i < 4096; i++) {
		struct known *k;

		if (!(val[i / 8] >> (i % 8) & 1))
			continue;
		k = inode_known(w->table, index * 4096 + i);
		if (k)
			k->flags |= KNOWN_USED;
	}
}

static void on_orphan(struct dataset_walk *w, const uint8_t *key, uint32_t klen, const void *val,
		      uint32_t vlen)
{
	struct known *k = klen == 17 && vlen == 8 ? inode_known(w->table, key_get_u64(key)) : NULL;
	uint64_t from;

	if (!k) {
		bad(w, TARN_FOUND_ORPHAN, "a malformed entry in the list of orphans");
		return;
	}
	memcpy(&from, val, 8);
	k->flags |= from == ORPHAN_ALL ? KNOWN_ORPHAN : KNOWN_SHRINKING;
}

static void on_inode_key(struct dataset_walk *w, const uint8_t *key, uint32_t klen, const void *val,
			 uint32_t vlen, const struct bp *bp)
{
	switch (key[8]) {
	case KEY_INODE:
		if (klen != 9 || inode_record_validate(val, vlen)) {
			bad(w, TARN_FOUND_INODE, "its record is malformed");
			break;
		}
		w->has_record = true;
		memcpy(&w->rec, val, sizeof(w->rec));
		break;
	case KEY_ACL:
		on_acl(w, klen, val, vlen);
		break;
	case KEY_TARGET:
		w->has_target = true;
		w->target_len = vlen;
		break;
	case KEY_INLINE:
		w->has_inline = true;
		w->inline_len = vlen;
		break;
	case KEY_XATTR:
		if (klen == 9 || klen > 9 + TARN_NAME_MAX || vlen > TARN_XATTR_MAX)
			bad(w, TARN_FOUND_ATTRIBUTE, "a malformed extended attribute");
		break;
	case KEY_ENTRY:
		on_entry(w, key + 9, klen - 9, val, vlen);
		break;
	case KEY_COOKIE:
		on_cookie(w, key, klen, val, vlen);
		break;
	case KEY_RECORD:
		on_record(w, key, klen, bp);
		break;
	default:
		bad(w, TARN_FOUND_INODE, "a key of unknown kind");
	}
}

/* ---- the walk ---- */

static void count(struct dataset_walk *w, const struct bp *bp, const struct place *place)
{
	refs_mark(w->c, bp, place);
	w->used += (uint64_t)bp_sectors(bp) << SECTOR_SHIFT;
	w->logical += bp->lsize;
}

/* Of nodes it is not known whose keys they hold. */
static struct place dataset_place(const struct dataset_walk *w)
{
	struct place place = w->place;

	place.inode = 0;
	return place;
}

static int on_node(void *arg, const struct bp *bp, unsigned level)
{
	struct dataset_walk *w = arg;
	struct place place = dataset_place(w);

	(void)level;
	count(w, bp, &place);
	verify_block(w->c, bp, &place, 0);
	return 0;
}

static int on_bad(void *arg, const struct bp *bp, unsigned level, int error)
{
	struct dataset_walk *w = arg;
	struct place place = dataset_place(w);
	char text[128];

	(void)level;
	w->lost = w->c->lost = true;
	if (bp_valid(bp, bp->birth)) {
		count(w, bp, &place);
		verify_block(w->c, bp, &place, error);
	} else {
		found_at(&place, TARN_FOUND_NODE, "block %s can't be one", bp_print(bp, text));
	}
	return 0;
}

static void on_block(struct dataset_walk *w, enum slot_kind kind, const struct bp *bp)
{
	count(w, bp, &w->place);
	if (kind == SLOT_LARGE || !(w->c->spec->flags & TARN_CHECK_METADATA))
		verify_block(w->c, bp, &w->place, 0);
}

static int on_slot(void *arg, const void *key_, uint32_t klen, enum slot_kind kind, const void *val,
		   uint32_t vlen, const struct bp *bp)
{
	struct dataset_walk *w = arg;
	const uint8_t *key = key_;
	uint64_t be, ino;

	if (klen < 9) {
		struct place place = dataset_place(w);

		found_at(&place, TARN_FOUND_INODE, "a key of %u bytes", klen);
		if (kind != SLOT_VALUE && !bp_is_hole(bp))
			on_block(w, kind, bp);
		return 0;
	}
	memcpy(&be, key, 8);
	ino = be64toh(be);
	if (ino != w->ino) {
		end_inode(w);
		begin_inode(w, ino);
	}
	if (kind != SLOT_VALUE && !bp_is_hole(bp))
		on_block(w, kind, bp);
	if ((kind == SLOT_BLOCK) != (key[8] == KEY_RECORD))
		bad(w, TARN_FOUND_INODE, "a key whose value is of the wrong kind");
	else if (ino == 0 && key[8] == KEY_IMAP)
		on_imap(w, key, klen, val, vlen);
	else if (ino == 0 && key[8] == KEY_ORPHAN)
		on_orphan(w, key, klen, val, vlen);
	else if (ino < ROOT_INO || ino > UINT32_MAX)
		bad(w, TARN_FOUND_INODE, "a key of no inode");
	else
		on_inode_key(w, key, klen, val, vlen, bp);
	return 0;
}

/* ---- the whole ---- */

static void check_usage(struct dataset_walk *w)
{
	const struct dataset_record *r = &w->ds->rec;
	const struct place place = dataset_place(w);
	const struct {
		const char *what;
		uint64_t is, should;
	} sums[] = {
	    {"used", r->used, w->used},
	    {"logical", r->logical, w->logical},
	    {"inodes", r->inodes, w->inodes},
	};

	for (unsigned i = 0; i < (w->ds->destroyed ? 2 : 3); i++)
		if (sums[i].is != sums[i].should)
			found_at(&place, TARN_FOUND_USAGE,
				 "its %s is %" PRIu64 ", a recount gives %" PRIu64, sums[i].what,
				 sums[i].is, sums[i].should);
}

static void compare(struct dataset_walk *w)
{
	const struct place place = dataset_place(w);

	if (w->lost)
		return;
	check_usage(w);
	if (w->ds->destroyed || bp_is_hole(&w->ds->rec.root))
		return;
	if (inodes_complete(w->table))
		check_links(w->table, &place);
	else
		found_at(&place, TARN_FOUND_LINKS, "out of memory: links are not compared");
}

void check_dataset(struct check *c, const struct dataset_seen *ds)
{
	static const struct tree_walk_ops ops = {on_node, on_slot, on_bad};
	struct dataset_walk *w = calloc(1, sizeof(*w));

	if (!w || inodes_new(&w->table)) {
		free(w);
		c->lost = true;
		found_in(c, TARN_FOUND_DATASET, ds->path, 0, NULL,
			 "out of memory: the dataset is not checked");
		return;
	}
	w->c = c;
	w->ds = ds;
	w->waiting_end = &w->waiting;
	w->place = (struct place){.report = report_later, .arg = w};
	c->result->datasets++;
	if (tree_walk(c->pool, c->cache, &ds->rec.root, &ops, w)) {
		report_later(w, TARN_FOUND_DATASET, 0,
			     "out of memory: the dataset is not checked further");
		w->lost = c->lost = true;
	}
	end_inode(w);
	verify_wait(c);
	compare(w);
	report_waiting(w);
	inodes_free(w->table);
	free(w);
}
