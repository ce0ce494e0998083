// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * One dataset. The keys of an inode lie together and in order (fs/key.h), so one walk sees each
 * inode whole; what connects inodes (names to link counts, directories to parents) is
 * compared afterwards from a table of a few bytes per inode.
 */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "check/impl.h"
#include "fs/fs.h"
#include "fs/key.h"

/* What the table keeps of an inode number, whether met as an inode or in an entry. */
struct known {
	bool exists, orphan, used; /* used: its bit in the inode map */
	uint8_t type;
	uint32_t nlink;
	uint64_t gen;
	uint64_t parent; /* directory: as its record says */
	/* From entries: */
	uint32_t names;
	uint64_t entry_gen; /* of the last one seen */
	uint8_t entry_type;
	uint64_t in_dir;  /* of the last one seen */
	uint32_t subdirs; /* directory: entries in it that are directories */
};

struct dataset_walk {
	struct check *c;
	const struct dataset_seen *ds;
	char name[64];       /* for messages */
	struct known *known; /* by number */
	uint64_t nknown;
	uint64_t used, logical, inodes;

	/* The inode whose keys are being walked. */
	uint64_t ino;
	bool has_record, has_acl, has_target, has_inline;
	uint32_t target_len, inline_len;
	struct inode_record rec;
	uint64_t entries, cookies, entry_sum, cookie_sum, max_cookie;
	uint64_t space, max_end, nrecords;
};

#define INO_MAX ((uint64_t)1 << 32)

static void bad(struct dataset_walk *w, const char *what)
{
	found(w->c, "%s: inode %" PRIu64 ": %s", w->name, w->ino, what);
}

static void bad_numbers(struct dataset_walk *w, const char *what, uint64_t is, uint64_t should)
{
	found(w->c, "%s: inode %" PRIu64 ": %s is %" PRIu64 ", should be %" PRIu64, w->name, w->ino,
	      what, is, should);
}

static struct known *known(struct dataset_walk *w, uint64_t ino)
{
	if (ino >= INO_MAX)
		return NULL;
	if (ino >= w->nknown) {
		uint64_t n = w->nknown ? w->nknown : 1024;
		struct known *more;

		while (n <= ino)
			n *= 2;
		more = realloc(w->known, n * sizeof(*more));
		if (!more)
			return NULL;
		memset(more + w->nknown, 0, (n - w->nknown) * sizeof(*more));
		w->known = more;
		w->nknown = n;
	}
	return &w->known[ino];
}

/* ---- one inode ---- */

static void check_regular(struct dataset_walk *w)
{
	struct inode_record *r = &w->rec;
	struct known *k = known(w, w->ino);

	if (!!(r->flags & INODE_INLINE) != w->has_inline)
		bad(w, "its inline flag and its content do not agree");
	if (w->has_inline && w->nrecords)
		bad(w, "has inline content and records");
	if (w->has_inline && w->inline_len > r->size)
		bad_numbers(w, "length of inline content", w->inline_len, r->size);
	if (w->space != r->space)
		bad_numbers(w, "space", r->space, w->space);
	if (w->max_end > r->size && !(k && k->orphan))
		bad_numbers(w, "end of its last record", w->max_end, r->size);
}

static void check_directory(struct dataset_walk *w)
{
	struct inode_record *r = &w->rec;

	if (w->entries != w->cookies || w->entry_sum != w->cookie_sum)
		bad(w, "its entries by name and by cookie do not agree");
	if (r->entries != w->entries)
		bad_numbers(w, "number of entries", r->entries, w->entries);
	if (w->max_cookie >= r->next_cookie)
		bad_numbers(w, "next cookie", r->next_cookie, w->max_cookie + 1);
}

static void end_inode(struct dataset_walk *w)
{
	struct known *k;

	if (w->ino < ROOT_INO)
		return;
	k = known(w, w->ino);
	if (!w->has_record || !k) {
		bad(w, "has keys but no record");
		return;
	}
	k->exists = true;
	k->type = w->rec.type;
	k->nlink = w->rec.nlink;
	k->gen = w->rec.gen;
	k->parent = w->rec.parent;
	w->inodes++;
	w->c->result->inodes++;
	if (k->orphan && k->nlink == 0)
		return; /* being removed: some of its keys have gone */
	if (w->rec.type == TARN_DIR)
		check_directory(w);
	else if (w->entries || w->cookies)
		bad(w, "has entries but is no directory");
	if (w->rec.type == TARN_REG)
		check_regular(w);
	else if (w->nrecords || w->has_inline)
		bad(w, "has data but is no regular file");
	if ((w->rec.type == TARN_LNK) != w->has_target ||
	    (w->has_target && w->target_len != w->rec.size))
		bad(w, "its link target does not fit its record");
	if (!!(w->rec.flags & INODE_ACL) != w->has_acl)
		bad(w, "its ACL flag and its ACL do not agree");
}

static void begin_inode(struct dataset_walk *w, uint64_t ino)
{
	w->ino = ino;
	w->has_record = w->has_acl = w->has_target = w->has_inline = false;
	w->entries = w->cookies = w->entry_sum = w->cookie_sum = w->max_cookie = 0;
	w->space = w->max_end = w->nrecords = 0;
	memset(&w->rec, 0, sizeof(w->rec));
}

/* ---- keys ---- */

/* Order-independent: entries come by name once and by cookie once. */
static uint64_t entry_hash(const struct entry *e, const char *name, uint32_t len)
{
	return XXH3_64bits_withSeed(name, len, XXH3_64bits(e, sizeof(*e)));
}

static void on_entry(struct dataset_walk *w, const uint8_t *name, uint32_t nlen, const void *val,
		     uint32_t vlen)
{
	struct entry e;
	struct known *k;

	if (entry_validate(val, vlen) || nlen == 0 || nlen > TARN_NAME_MAX) {
		bad(w, "an entry that is malformed");
		return;
	}
	memcpy(&e, val, sizeof(e));
	w->entries++;
	w->entry_sum += entry_hash(&e, (const char *)name, nlen);
	k = known(w, e.ino);
	if (!k) {
		bad(w, "an entry with an inode number out of range");
		return;
	}
	k->names++;
	k->entry_gen = e.gen;
	k->entry_type = e.type;
	k->in_dir = w->ino;
	if (e.type == TARN_DIR) {
		k = known(w, w->ino); /* the table may have moved */
		if (k)
			k->subdirs++;
	}
}

static void on_cookie(struct dataset_walk *w, const uint8_t *key, uint32_t klen, const void *val,
		      uint32_t vlen)
{
	struct entry e;

	if (klen != 17 || vlen <= sizeof(e) || entry_validate(val, sizeof(e))) {
		bad(w, "a cookie that is malformed");
		return;
	}
	memcpy(&e, val, sizeof(e));
	if (key_get_u64(key) != e.cookie)
		bad(w, "a cookie under another's key");
	w->cookies++;
	w->cookie_sum += entry_hash(&e, (const char *)val + sizeof(e), vlen - sizeof(e));
	if (e.cookie > w->max_cookie)
		w->max_cookie = e.cookie;
}

static void on_record(struct dataset_walk *w, const uint8_t *key, uint32_t klen,
		      enum slot_kind kind, const struct bp *bp)
{
	uint64_t offset = klen == 17 ? key_get_u64(key) : 1;
	uint32_t size = w->rec.recordsize;

	if (kind != SLOT_BLOCK || !size || offset % size || bp->lsize > size) {
		bad(w, "a data record that does not fit its file");
		return;
	}
	w->nrecords++;
	if (bp_is_hole(bp))
		return;
	if (bp->type != BP_DATA)
		bad(w, "a data record that is no data");
	w->space += (uint64_t)bp_sectors(bp) << SECTOR_SHIFT;
	/* The last record reaches beyond the end: only where it begins counts. */
	w->max_end = offset + 1;
}

static void on_imap(struct dataset_walk *w, const uint8_t *key, uint32_t klen, const uint8_t *val,
		    uint32_t vlen)
{
	uint64_t first = klen == 17 ? key_get_u64(key) * 4096 : INO_MAX;

	if (vlen != 512 || first >= INO_MAX) {
		bad(w, "a malformed page of the inode map");
		return;
	}
	for (uint32_t i = 0; i < 4096; i++) {
		struct known *k;

		if (!(val[i / 8] >> (i % 8) & 1))
			continue;
		k = known(w, first + i);
		if (k)
			k->used = true;
	}
}

static void on_orphan(struct dataset_walk *w, const uint8_t *key, uint32_t klen, uint32_t vlen)
{
	struct known *k = klen == 17 && vlen == 8 ? known(w, key_get_u64(key)) : NULL;

	if (k)
		k->orphan = true;
	else
		bad(w, "a malformed entry in the list of orphans");
}

static void on_inode_key(struct dataset_walk *w, const uint8_t *key, uint32_t klen,
			 enum slot_kind kind, const void *val, uint32_t vlen, const struct bp *bp)
{
	switch (key[8]) {
	case KEY_INODE:
		if (klen != 9 || inode_record_validate(val, vlen)) {
			bad(w, "its record is malformed");
			break;
		}
		w->has_record = true;
		memcpy(&w->rec, val, sizeof(w->rec));
		break;
	case KEY_ACL:
		w->has_acl = true;
		if (klen != 9 || vlen == 0 || vlen % sizeof(struct tarn_ace) ||
		    vlen / sizeof(struct tarn_ace) > TARN_ACE_MAX)
			bad(w, "its ACL is malformed");
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
			bad(w, "a malformed extended attribute");
		break;
	case KEY_ENTRY:
		on_entry(w, key + 9, klen - 9, val, vlen);
		break;
	case KEY_COOKIE:
		on_cookie(w, key, klen, val, vlen);
		break;
	case KEY_RECORD:
		on_record(w, key, klen, kind, bp);
		break;
	default:
		bad(w, "a key of unknown kind");
	}
}

/* ---- the walk ---- */

static void count(struct dataset_walk *w, const struct bp *bp)
{
	refs_mark(w->c, bp, w->name);
	w->used += (uint64_t)bp_sectors(bp) << SECTOR_SHIFT;
	w->logical += bp->lsize;
}

static int on_node(void *arg, const struct bp *bp, unsigned level)
{
	struct dataset_walk *w = arg;

	(void)level;
	w->c->result->blocks++;
	count(w, bp);
	return 0;
}

static int on_bad(void *arg, const struct bp *bp, unsigned level, int error)
{
	struct dataset_walk *w = arg;
	char text[128];

	found(w->c, "%s: level %u block %s: %s; what lies below it is lost", w->name, level,
	      bp_print(bp, text), strerror(-error));
	return 0;
}

static int on_slot(void *arg, const void *key_, uint32_t klen, enum slot_kind kind, const void *val,
		   uint32_t vlen, const struct bp *bp)
{
	struct dataset_walk *w = arg;
	const uint8_t *key = key_;
	uint64_t be, ino;

	if (klen < 9) {
		found(w->c, "%s: a key of %u bytes", w->name, klen);
		return 0;
	}
	memcpy(&be, key, 8);
	ino = be64toh(be);
	if (ino != w->ino) {
		end_inode(w);
		begin_inode(w, ino);
	}
	if (kind != SLOT_VALUE && !bp_is_hole(bp)) {
		count(w, bp);
		if (kind == SLOT_BLOCK)
			check_block(w->c, bp, w->name);
	}
	if (ino == 0 && key[8] == KEY_IMAP)
		on_imap(w, key, klen, val, vlen);
	else if (ino == 0 && key[8] == KEY_ORPHAN)
		on_orphan(w, key, klen, vlen);
	else if (ino < ROOT_INO)
		bad(w, "a key of unknown kind");
	else if ((kind == SLOT_BLOCK) != (key[8] == KEY_RECORD))
		bad(w, "a key whose value is of the wrong kind");
	else
		on_inode_key(w, key, klen, kind, val, vlen, bp);
	return 0;
}

/* ---- what connects inodes ---- */

static void check_links(struct dataset_walk *w, const struct known *k)
{
	if (k->names && (k->entry_gen != k->gen || k->entry_type != k->type))
		bad(w, "an entry names another generation or type of it");
	if (!k->used)
		bad(w, "exists, but its number is free in the inode map");
	if (k->orphan && k->nlink == 0) {
		if (k->names)
			bad(w, "is removed, but has a name");
		return;
	}
	if (k->nlink == 0)
		bad(w, "has no link and is not in the list of orphans");
	if (k->type != TARN_DIR) {
		if (k->names != k->nlink)
			bad_numbers(w, "link count", k->nlink, k->names);
		return;
	}
	if (k->nlink != 2 + k->subdirs)
		bad_numbers(w, "link count", k->nlink, 2 + k->subdirs);
	if (w->ino == ROOT_INO) {
		if (k->names || k->parent != ROOT_INO)
			bad(w, "the root directory has a name or a parent");
	} else if (k->names != 1) {
		bad_numbers(w, "number of names of a directory", k->names, 1);
	} else if (k->parent != k->in_dir) {
		bad_numbers(w, "parent", k->parent, k->in_dir);
	}
}

/* Every directory leads up to the root: marks of what is known to are kept in in_dir. */
static void check_reachable(struct dataset_walk *w)
{
	for (uint64_t i = FIRST_INO; i < w->nknown; i++) {
		uint64_t at = i, steps = 0;

		if (!w->known[i].exists || w->known[i].type != TARN_DIR || !w->known[i].nlink)
			continue;
		while (at != ROOT_INO && at < w->nknown && w->known[at].exists &&
		       steps <= w->inodes) {
			at = w->known[at].parent;
			steps++;
		}
		if (at != ROOT_INO) {
			w->ino = i;
			bad(w, "the directory does not hang below the root");
		}
	}
}

static void check_table(struct dataset_walk *w)
{
	for (w->ino = ROOT_INO; w->ino < w->nknown; w->ino++) {
		struct known *k = &w->known[w->ino];

		if (k->exists)
			check_links(w, k);
		else if (k->names)
			found(w->c,
			      "%s: inode %" PRIu64 " does not exist, but directory %" PRIu64
			      " names it",
			      w->name, w->ino, k->in_dir);
		else if (k->used && !w->ds->destroyed)
			bad(w, "does not exist, but its number is used in the inode map");
		else if (k->orphan)
			bad(w, "does not exist, but is in the list of orphans");
	}
	check_reachable(w);
}

static void check_usage(struct dataset_walk *w)
{
	const struct dataset_record *r = &w->ds->rec;
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
			found(w->c, "%s: its %s is %" PRIu64 ", a recount gives %" PRIu64, w->name,
			      sums[i].what, sums[i].is, sums[i].should);
}

void check_dataset(struct check *c, const struct dataset_seen *ds)
{
	static const struct tree_walk_ops ops = {on_node, on_slot, on_bad};
	struct dataset_walk *w = calloc(1, sizeof(*w));

	if (!w) {
		found(c, "out of memory: dataset '%s' is not checked", ds->name);
		return;
	}
	w->c = c;
	w->ds = ds;
	snprintf(w->name, sizeof(w->name), "%s%.50s", ds->destroyed ? "destroyed " : "dataset ",
		 ds->name);
	c->result->datasets++;
	if (!bp_is_hole(&ds->rec.root)) {
		if (tree_walk(c->pool, NULL, &ds->rec.root, &ops, w))
			found(c, "%s: its root can't be read", w->name);
		end_inode(w);
	}
	if (!ds->destroyed)
		check_table(w);
	check_usage(w);
	free(w->known);
	free(w);
}
