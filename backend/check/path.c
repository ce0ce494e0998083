// SPDX-License-Identifier: LGPL-3.0-or-later
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "check/impl.h"
#include "fs/fs.h"
#include "fs/key.h"

struct paths {
	struct tree tree;
	struct tree_miss miss;
	struct {
		struct entry entry;
		char name[TARN_NAME_MAX];
	} cookie;
};

int paths_new(const struct check *c, const struct bp *root, struct paths **out)
{
	struct paths *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	tree_init(&p->tree, c->pool, c->cache, NULL, root, COMP_OFF, CKSUM_XXH3);
	*out = p;
	return 0;
}

void paths_free(struct paths *p)
{
	if (!p)
		return;
	tree_fini(&p->tree);
	free(p);
}

/* The entry's name, in p->cookie.name; its length, 0 if it can't be had. */
static uint32_t entry_name(struct paths *p, uint64_t dir, uint64_t cookie)
{
	uint8_t key[KEY_ROOM];
	uint32_t klen = key_u64(key, dir, KEY_COOKIE, cookie);
	struct tree_val v;
	int rc;

	while ((rc = tree_get(&p->tree, key, klen, &p->cookie, sizeof(p->cookie), &v, &p->miss)) ==
	       -EAGAIN)
		if ((rc = tree_fetch(&p->tree, &p->miss)))
			return 0;
	if (rc)
		return 0;
	tree_val_put(&v);
	return v.len > sizeof(struct entry) && v.len <= sizeof(p->cookie)
		   ? v.len - (uint32_t)sizeof(struct entry)
		   : 0;
}

bool path_of(struct paths *p, const struct inodes *inodes, uint64_t ino, char out[PATH_ROOM])
{
	size_t from = PATH_ROOM - 1;

	out[from] = '\0';
	if (ino == ROOT_INO)
		out[--from] = '/';
	while (ino != ROOT_INO) {
		const struct known *k = inode_lookup(inodes, ino);
		char name[4 * TARN_NAME_MAX + 1];
		size_t len = 0;

		if (k && k->names)
			len = entry_name(p, k->in_dir, k->in_cookie);
		if (len)
			len = printable(p->cookie.name, len, name, sizeof(name));
		/* A name each at least: a circle ends here, too. */
		if (!len || len + 1 > from)
			return false;
		from -= len;
		memcpy(out + from, name, len);
		out[--from] = '/';
		ino = k->in_dir;
	}
	memmove(out, out + from, PATH_ROOM - from);
	return true;
}
