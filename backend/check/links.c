// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * What connects the inodes of a dataset: names to link counts, directories to parents. Compared
 * from a table, in pages by number, of what the walk has seen.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "check/impl.h"
#include "fs/fs.h"

#define INO_MAX ((uint64_t)1 << 32)
#define PAGE_INODES 4096
#define PAGES (INO_MAX / PAGE_INODES)

struct inodes {
	bool out_of_memory;
	uint64_t end; /* above all numbers in pages */
	struct known *page[PAGES];
};

int inodes_new(struct inodes **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void inodes_free(struct inodes *inodes)
{
	for (uint64_t i = 0; inodes && i < inodes->end / PAGE_INODES; i++)
		free(inodes->page[i]);
	free(inodes);
}

bool inodes_complete(const struct inodes *inodes)
{
	return !inodes->out_of_memory;
}

struct known *inode_known(struct inodes *inodes, uint64_t ino)
{
	struct known **page = &inodes->page[ino % INO_MAX / PAGE_INODES];

	if (ino >= INO_MAX)
		return NULL;
	if (!*page)
		*page = calloc(PAGE_INODES, sizeof(**page));
	if (!*page) {
		inodes->out_of_memory = true;
		return NULL;
	}
	if (ino >= inodes->end)
		inodes->end = (ino / PAGE_INODES + 1) * PAGE_INODES;
	return &(*page)[ino % PAGE_INODES];
}

const struct known *inode_lookup(const struct inodes *inodes, uint64_t ino)
{
	const struct known *page = ino < INO_MAX ? inodes->page[ino / PAGE_INODES] : NULL;

	return page ? &page[ino % PAGE_INODES] : NULL;
}

struct links {
	struct inodes *inodes;
	struct place place; /* inode: the one at hand */
};

static void bad(const struct links *l, enum tarn_finding_kind kind, const char *what)
{
	l->place.report(l->place.arg, kind, l->place.inode, what);
}

static void bad_numbers(const struct links *l, enum tarn_finding_kind kind, const char *what,
			uint64_t is, uint64_t should)
{
	found_at(&l->place, kind, "%s is %" PRIu64 ", should be %" PRIu64, what, is, should);
}

static void check_orphan(const struct links *l, const struct known *k)
{
	bool removed = !k->nlink;

	if (removed && !(k->flags & KNOWN_ORPHAN))
		bad(l, TARN_FOUND_ORPHAN, "has no link and is not in the list of orphans");
	if (!removed && (k->flags & KNOWN_ORPHAN))
		bad(l, TARN_FOUND_ORPHAN, "is in the list of orphans, but has a link");
	if (!removed && !(k->flags & KNOWN_TRUNCATED) != !(k->flags & KNOWN_SHRINKING))
		bad(l, TARN_FOUND_ORPHAN,
		    k->flags & KNOWN_SHRINKING
			? "is listed as being truncated, its record does not say so"
			: "is being truncated, but is not in the list of orphans");
}

static void check_directory(const struct links *l, const struct known *k)
{
	if (k->nlink && k->nlink != 2 + k->subdirs)
		bad_numbers(l, TARN_FOUND_LINKS, "link count", k->nlink, 2 + k->subdirs);
	if (l->place.inode == ROOT_INO) {
		if (k->names || k->parent != ROOT_INO)
			bad(l, TARN_FOUND_PARENT, "the root directory has a name or a parent");
	} else if (k->nlink && k->names != 1) {
		bad_numbers(l, TARN_FOUND_PARENT, "number of names of a directory", k->names, 1);
	} else if (k->nlink && k->parent != k->in_dir) {
		bad_numbers(l, TARN_FOUND_PARENT, "number of the parent directory", k->parent,
			    k->in_dir);
	}
}

static void check_inode(const struct links *l, const struct known *k)
{
	if (k->flags & KNOWN_MISNAMED)
		bad(l, TARN_FOUND_ENTRY, "an entry names another generation or type of it");
	if (!(k->flags & KNOWN_USED))
		bad(l, TARN_FOUND_INODE_MAP, "exists, but its number is free in the inode map");
	check_orphan(l, k);
	if (!k->nlink && k->names)
		bad(l, TARN_FOUND_LINKS, "is removed, but has a name");
	if (k->type == TARN_DIR)
		check_directory(l, k);
	else if (k->nlink && k->names != k->nlink)
		bad_numbers(l, TARN_FOUND_LINKS, "link count", k->nlink, k->names);
}

static void check_absent(const struct links *l, const struct known *k)
{
	if (k->names)
		found_at(&l->place, TARN_FOUND_ENTRY, "does not exist, but directory %u names it",
			 k->in_dir);
	else if (k->flags & (KNOWN_ORPHAN | KNOWN_SHRINKING))
		bad(l, TARN_FOUND_ORPHAN, "does not exist, but is in the list of orphans");
	else if (k->flags & KNOWN_USED)
		bad(l, TARN_FOUND_INODE_MAP,
		    "does not exist, but its number is used in the inode map");
}

/* A directory that is neither known to lead to the root nor known not to. */
static bool undecided(const struct known *k)
{
	return k && (k->flags & KNOWN_EXISTS) && k->type == TARN_DIR &&
	       !(k->flags & (KNOWN_CONNECTED | KNOWN_APART));
}

/* Every directory leads up to the root. Each is passed a few times at most: the way up is marked
   apart when it is first gone, so that a circle ends where it began, and anew if it ends well. */
static void check_connected(const struct links *l, struct known *start)
{
	uint64_t at = l->place.inode;
	struct known *k = start;
	bool good;

	while (at != ROOT_INO && undecided(k)) {
		k->flags |= KNOWN_APART;
		at = k->parent;
		k = (struct known *)inode_lookup(l->inodes, at);
	}
	good = at == ROOT_INO || (k && (k->flags & KNOWN_CONNECTED));
	if (!good) {
		bad(l, TARN_FOUND_PARENT, "the directory does not hang below the root");
		return;
	}
	for (uint64_t i = l->place.inode; i != at; i = k->parent) {
		k = (struct known *)inode_lookup(l->inodes, i);
		k->flags = (uint8_t)((k->flags & ~KNOWN_APART) | KNOWN_CONNECTED);
	}
}

static void each(struct links *l, void (*fn)(const struct links *l, struct known *k))
{
	for (uint64_t i = ROOT_INO; i < l->inodes->end; i++) {
		struct known *k = (struct known *)inode_lookup(l->inodes, i);

		if (!k) {
			i |= PAGE_INODES - 1; /* the page is not there */
			continue;
		}
		l->place.inode = i;
		fn(l, k);
	}
}

static void compare(const struct links *l, struct known *k)
{
	if (k->flags & KNOWN_EXISTS)
		check_inode(l, k);
	else
		check_absent(l, k);
}

static void connect(const struct links *l, struct known *k)
{
	if (l->place.inode != ROOT_INO && undecided(k) && k->nlink)
		check_connected(l, k);
}

void check_links(struct inodes *inodes, const struct place *place)
{
	struct links l = {.inodes = inodes, .place = *place};
	const struct known *root = inode_lookup(inodes, ROOT_INO);

	if (!root || !(root->flags & KNOWN_EXISTS) || root->type != TARN_DIR) {
		l.place.inode = ROOT_INO;
		bad(&l, TARN_FOUND_PARENT, "there is no root directory");
	}
	each(&l, compare);
	each(&l, connect);
}
