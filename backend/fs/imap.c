// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Inode numbers: a bitmap in pages of 4096, each a record with versions. Pages are loaded
 * when the search comes to them and stay. Each core takes numbers from a window of its
 * own, the 64 numbers of one word, so that creates on different cores change different leaves.
 *
 * One mutex guards all of it; it is taken under inode locks and in txs, and node latches
 * are taken under it.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "fs/op.h"

#define WORDS (IMAP_PAGE_BYTES / 8)
#define PAGE_INODES (WORDS * 64)
#define PAGES_MAX ((1ull << 32) / PAGE_INODES)
#define WINDOWS 16
#define GROW 64

struct page {
	atomic_uint refs; /* the map and each version */
	uint64_t index;
	uint64_t used[WORDS]; /* as in the tree */
	uint64_t busy[WORDS]; /* taken, not used yet */
	uint64_t claimed;     /* words that are someone's window */
	struct versioned versioned;
};

struct window {
	struct page *page; /* NULL: none */
	unsigned word;
};

struct imap {
	pthread_mutex_t lock;
	struct page **page;
	uint64_t npages; /* room */
	uint64_t first;  /* no page below has a free number outside of windows */
	struct window window[WINDOWS];
};

static struct page *page_of(struct versioned *v)
{
	return (struct page *)((char *)v - offsetof(struct page, versioned));
}

static void page_ref(struct versioned *v)
{
	atomic_fetch_add(&page_of(v)->refs, 1);
}

static void page_unref(struct versioned *v)
{
	struct page *page = page_of(v);

	if (atomic_fetch_sub(&page->refs, 1) != 1)
		return;
	versioned_fini(v);
	free(page);
}

int imap_create(struct fs *fs, struct imap **out)
{
	struct imap *imap = calloc(1, sizeof(*imap));

	(void)fs;
	if (!imap)
		return -ENOMEM;
	pthread_mutex_init(&imap->lock, NULL);
	*out = imap;
	return 0;
}

void imap_destroy(struct imap *imap)
{
	for (uint64_t i = 0; i < imap->npages; i++)
		if (imap->page[i])
			page_unref(&imap->page[i]->versioned);
	free(imap->page);
	pthread_mutex_destroy(&imap->lock);
	free(imap);
}

void imap_format(uint64_t page[WORDS])
{
	memset(page, 0, IMAP_PAGE_BYTES);
	page[0] = (1u << FIRST_INO) - 1;
}

/* Room for the page's pointer. */
static int grow(struct imap *imap, uint64_t index)
{
	uint64_t n = index + GROW + imap->npages / 2;
	struct page **page;

	if (index < imap->npages)
		return 0;
	page = realloc(imap->page, n * sizeof(*page));
	if (!page)
		return -ENOMEM;
	memset(page + imap->npages, 0, (n - imap->npages) * sizeof(*page));
	imap->page = page;
	imap->npages = n;
	return 0;
}

/* Lock held. -EAGAIN: not in memory. */
static int page_get(struct op *op, uint64_t index, struct page **out)
{
	struct imap *imap = op->fs->imap;
	struct page *page;
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_u64(key, 0, KEY_IMAP, index), len;
	int err = grow(imap, index);

	if (err)
		return err;
	*out = imap->page[index];
	if (*out)
		return 0;
	page = calloc(1, sizeof(*page));
	if (!page)
		return -ENOMEM;
	err = fs_read(op->fs, key, klen, page->used, IMAP_PAGE_BYTES, IMAP_PAGE_BYTES, &len,
		      &op->miss);
	if (err && err != -ENOENT) {
		free(page);
		return err;
	}
	if (index == 0)
		page->used[0] |= (1u << FIRST_INO) - 1;
	atomic_init(&page->refs, 1);
	page->index = index;
	versioned_init(&page->versioned, page->used, IMAP_PAGE_BYTES, page_ref, page_unref);
	imap->page[index] = *out = page;
	return 0;
}

static uint64_t free_in(const struct page *page, unsigned word)
{
	return ~(page->used[word] | page->busy[word]);
}

/* The lowest word with free numbers that is nobody's window. */
static int window_claim(struct op *op, struct window *w)
{
	struct imap *imap = op->fs->imap;

	for (; imap->first < PAGES_MAX; imap->first++) {
		struct page *page;
		int err = page_get(op, imap->first, &page);

		if (err)
			return err;
		for (unsigned i = 0; i < WORDS; i++) {
			if ((page->claimed >> i & 1) || !free_in(page, i))
				continue;
			page->claimed |= 1ull << i;
			*w = (struct window){.page = page, .word = i};
			return 0;
		}
	}
	return -ENOSPC;
}

int imap_take(struct op *op, uint64_t *ino)
{
	struct imap *imap = op->fs->imap;
	int cpu = sched_getcpu();
	struct window *w = &imap->window[(cpu < 0 ? 0 : cpu) % WINDOWS];
	int err = 0;

	pthread_mutex_lock(&imap->lock);
	if (w->page && !free_in(w->page, w->word)) {
		w->page->claimed &= ~(1ull << w->word);
		w->page = NULL;
	}
	if (!w->page)
		err = window_claim(op, w);
	if (!err) {
		unsigned bit = (unsigned)__builtin_ctzll(free_in(w->page, w->word));

		w->page->busy[w->word] |= 1ull << bit;
		*ino = w->page->index * PAGE_INODES + w->word * 64 + bit;
	}
	pthread_mutex_unlock(&imap->lock);
	return err;
}

/* Lock held: the number is free again. */
static void freed(struct imap *imap, const struct page *page)
{
	if (imap->first > page->index)
		imap->first = page->index;
}

static struct page *loaded(struct imap *imap, uint64_t ino)
{
	return imap->page[ino / PAGE_INODES];
}

static unsigned word_of(uint64_t ino)
{
	return (unsigned)(ino % PAGE_INODES / 64);
}

static uint64_t bit_of(uint64_t ino)
{
	return 1ull << (ino % 64);
}

void imap_give_back(struct fs *fs, uint64_t ino)
{
	struct imap *imap = fs->imap;
	struct page *page;

	pthread_mutex_lock(&imap->lock);
	page = loaded(imap, ino);
	page->busy[word_of(ino)] &= ~bit_of(ino);
	freed(imap, page);
	pthread_mutex_unlock(&imap->lock);
}

int imap_pin(struct op *op, uint64_t ino)
{
	struct imap *imap = op->fs->imap;
	struct page *page;
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_u64(key, 0, KEY_IMAP, ino / PAGE_INODES);
	int err;

	pthread_mutex_lock(&imap->lock);
	err = page_get(op, ino / PAGE_INODES, &page);
	/* Others may use this memory up in this txg; then no more is needed in it. */
	if (!err)
		err = versioned_prepare(&page->versioned, op->tx.txg);
	pthread_mutex_unlock(&imap->lock);
	return err ? err : op_pin(op, key, klen);
}

static struct page *page_dirty(struct op *op, uint64_t ino)
{
	struct page *page = loaded(op->fs->imap, ino);
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_u64(key, 0, KEY_IMAP, page->index);

	versioned_dirty(&page->versioned, &op->tx, op_tree(op), key, klen);
	return page;
}

void imap_use(struct op *op, uint64_t ino)
{
	struct imap *imap = op->fs->imap;
	struct page *page;

	pthread_mutex_lock(&imap->lock);
	page = page_dirty(op, ino);
	page->used[word_of(ino)] |= bit_of(ino);
	page->busy[word_of(ino)] &= ~bit_of(ino);
	pthread_mutex_unlock(&imap->lock);
}

int imap_claim(struct op *op, uint64_t ino)
{
	struct imap *imap = op->fs->imap;
	int err = ino < FIRST_INO || ino > UINT32_MAX ? -EIO : imap_pin(op, ino);

	if (err)
		return err;
	pthread_mutex_lock(&imap->lock);
	if (loaded(imap, ino)->used[word_of(ino)] & bit_of(ino))
		err = -EEXIST;
	else
		loaded(imap, ino)->busy[word_of(ino)] |= bit_of(ino);
	pthread_mutex_unlock(&imap->lock);
	return err;
}

void imap_free(struct op *op, uint64_t ino)
{
	struct imap *imap = op->fs->imap;
	struct page *page;

	pthread_mutex_lock(&imap->lock);
	page = page_dirty(op, ino);
	page->used[word_of(ino)] &= ~bit_of(ino);
	freed(imap, page);
	pthread_mutex_unlock(&imap->lock);
}
