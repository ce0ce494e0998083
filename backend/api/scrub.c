// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * A step of a scrub: goes on in the tree where the last one ended, as that tree is now, for a
 * number of bytes; then scrubs the blocks that it met, in the order in which they lie. What was
 * born after the scrub began is left out. All of it in one read epoch, so that nothing that was met
 * is used again before it has been read; steps are short enough for that.
 *
 * Trees in their order: the pool's, with the allocation log, then those of datasets by id. A
 * position is a tree and the first key that is still to be visited.
 */
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "api/job.h"
#include "pool/scrub.h"
#include "util/mem.h"

#define BLOCKS_MAX 4096 /* of a step */
/* On their way at once. */
#define FLIGHT_BLOCKS 32
#define FLIGHT_BYTES (16ull << 20)

struct met {
	struct block_scrub block;
	uint64_t inode; /* 0: metadata */
	struct scrub *scrub;
};

struct scrub {
	struct job_step *step;
	struct catalog_root tree;
	bool more;       /* the tree goes on behind the last key */
	uint64_t passed; /* bytes of the pool's data, in this step */
	struct met *met;
	size_t n, room;
	/* Where the next step goes on, if `more`. */
	uint32_t key_len;
	uint8_t key[JOB_POSITION_MAX];
	/* What could not be repaired. */
	struct damage *damage;
	size_t ndamage, damage_room;

	pthread_mutex_t lock; /* what follows */
	pthread_cond_t ended;
	unsigned blocks;
	uint64_t bytes;
};

static uint64_t block_bytes(const struct bp *bp)
{
	return (uint64_t)bp_sectors(bp) << SECTOR_SHIFT;
}

/* ---- meeting blocks ---- */

static void meet(struct scrub *s, const struct bp *bp, uint64_t inode)
{
	if (bp_is_hole(bp))
		return;
	s->passed += block_bytes(bp);
	if (bp->birth > s->step->rec.txg)
		return;
	s->met = mem_grow(s->met, s->n, &s->room, sizeof(*s->met));
	s->met[s->n++] = (struct met){.block = {.bp = *bp}, .inode = inode, .scrub = s};
}

static int on_node(void *arg, const struct bp *bp, unsigned level)
{
	struct scrub *s = arg;

	(void)level;
	s->step->io += block_bytes(bp);
	meet(s, bp, 0);
	return 0;
}

static int on_slot(void *arg, const void *key, uint32_t klen, enum slot_kind kind, const void *val,
		   uint32_t vlen, const struct bp *bp)
{
	struct scrub *s = arg;
	uint64_t inode = 0;

	(void)val, (void)vlen;
	if (s->tree.id && klen >= 8) {
		memcpy(&inode, key, 8);
		inode = be64toh(inode);
	}
	if (kind != SLOT_VALUE)
		meet(s, bp, inode);
	if (s->passed < s->step->budget && s->n < BLOCKS_MAX && !atomic_load(s->step->stop))
		return 0;
	/* The next key is this one and a zero byte, or a greater one. */
	memcpy(s->key, key, klen);
	s->key[klen] = 0;
	s->key_len = klen + 1;
	s->more = true;
	return 1;
}

static void add_damage(struct scrub *s, uint64_t inode)
{
	for (size_t i = 0; i < s->ndamage; i++) {
		if (s->damage[i].inode == inode) {
			s->damage[i].blocks++;
			return;
		}
	}
	s->damage = mem_grow(s->damage, s->ndamage, &s->damage_room, sizeof(*s->damage));
	s->damage[s->ndamage++] =
	    (struct damage){.dataset = s->tree.id, .inode = inode, .blocks = 1};
}

/* What the walk could not read has no good copy: it has tried them all. */
static int on_bad(void *arg, const struct bp *bp, unsigned level, int error)
{
	struct scrub *s = arg;

	(void)bp, (void)level, (void)error;
	s->step->rec.errors++;
	add_damage(s, 0);
	return 0;
}

static void on_log_block(void *arg, const struct bp *bp)
{
	meet(arg, bp, 0);
}

static int meet_all(struct scrub *s)
{
	static const struct tree_walk_ops ops = {on_node, on_slot, on_bad};
	struct job_step *step = s->step;
	int rc = 0;

	if (!s->tree.id && !step->rec.key_len)
		rc = catalog_log_blocks(step->p->catalog, on_log_block, s);
	if (!rc)
		rc = tree_walk_from(step->p->pool, step->cache, &s->tree.root, step->rec.key,
				    step->rec.key_len, &ops, s);
	return rc > 0 ? 0 : rc;
}

/* ---- scrubbing them ---- */

/* As they lie in chunks, and so on devices. */
static int by_place(const void *a, const void *b)
{
	const struct bp *x = &((const struct met *)a)->block.bp;
	const struct bp *y = &((const struct met *)b)->block.bp;

	if (x->chunk != y->chunk)
		return x->chunk < y->chunk ? -1 : 1;
	return (x->sector > y->sector) - (x->sector < y->sector);
}

static void scrubbed(struct block_scrub *block)
{
	struct scrub *s = block->owner;

	pthread_mutex_lock(&s->lock);
	s->blocks--;
	s->bytes -= block_bytes(&block->bp);
	pthread_cond_signal(&s->ended);
	pthread_mutex_unlock(&s->lock);
}

static void wait_room(struct scrub *s, uint64_t bytes)
{
	pthread_mutex_lock(&s->lock);
	while (s->blocks && (s->blocks >= FLIGHT_BLOCKS || s->bytes + bytes > FLIGHT_BYTES))
		pthread_cond_wait(&s->ended, &s->lock);
	s->blocks++;
	s->bytes += bytes;
	pthread_mutex_unlock(&s->lock);
}

static void wait_all(struct scrub *s)
{
	pthread_mutex_lock(&s->lock);
	while (s->blocks)
		pthread_cond_wait(&s->ended, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

static void scrub_met(struct scrub *s)
{
	struct job_step *step = s->step;
	size_t n = 0;

	if (s->n)
		qsort(s->met, s->n, sizeof(*s->met), by_place);
	for (; n < s->n && !atomic_load(step->stop); n++) {
		struct met *m = &s->met[n];

		m->block.done = scrubbed;
		m->block.owner = s;
		wait_room(s, block_bytes(&m->block.bp));
		block_scrub(step->p->pool, &m->block);
	}
	wait_all(s);
	for (size_t i = 0; i < n; i++) {
		const struct met *m = &s->met[i];

		step->io += m->block.read + m->block.repaired;
		step->rec.repaired += m->block.repaired;
		if (!m->block.result)
			continue;
		step->rec.errors++;
		add_damage(s, m->inode);
	}
}

/* ---- the step ---- */

static void advance(struct scrub *s)
{
	struct job_record *rec = &s->step->rec;
	uint64_t left = catalog_used_after(s->step->p->catalog, s->tree.id);

	rec->done += s->passed;
	if (s->more) {
		rec->place = s->tree.id;
		rec->key_len = s->key_len;
		memcpy(rec->key, s->key, s->key_len);
	} else {
		rec->place = s->tree.id + 1;
		rec->key_len = 0;
	}
	/* What is left of this tree is known only before the first step in it: then it is all of
	   it. The last total holds unless it is too small. */
	if (rec->total < rec->done + left || !s->more)
		rec->total = rec->done + left;
}

static int step_in_epoch(struct scrub *s)
{
	struct job_step *step = s->step;
	struct job_record *rec = &step->rec;
	int rc;

	if (!catalog_next_root(step->p->catalog, rec->place - 1, &s->tree))
		return 1;
	if (s->tree.id != rec->place)
		rec->key_len = 0;
	rc = meet_all(s);
	if (rc)
		return rc;
	scrub_met(s);
	return 0;
}

int scrub_step(struct job_step *step)
{
	struct scrub s = {.step = step};
	struct read_epoch epoch = read_enter(step->p->pool);
	int rc;

	pthread_mutex_init(&s.lock, NULL);
	pthread_cond_init(&s.ended, NULL);
	rc = step_in_epoch(&s);
	read_leave(step->p->pool, epoch);
	if (!rc && !atomic_load(step->stop)) {
		rc = damaged_add(step->p->catalog, step->id, s.damage, (uint32_t)s.ndamage);
		advance(&s);
	}
	if (rc == 1) {
		step->rec.total = step->rec.done;
		rc = damaged_finish(step);
		rc = rc ? rc : 1;
	}
	pthread_cond_destroy(&s.ended);
	pthread_mutex_destroy(&s.lock);
	free(s.met);
	free(s.damage);
	return rc;
}
