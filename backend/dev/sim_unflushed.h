// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Writes that a power cut may lose: those that no flush has covered, of one simulated medium or
 * of several that lose power together. For sim.c and sim_tape.c. Not locked. Writes are in the
 * order of their submission. Aborts when memory is short.
 */
#ifndef TARN_DEV_SIM_UNFLUSHED_H
#define TARN_DEV_SIM_UNFLUSHED_H

#include "dev/sim.h"
#include "dev/sim_image.h"

#include <sys/queue.h>

/* A write or discard. */
struct unflushed {
	TAILQ_ENTRY(unflushed) link;
	unsigned medium;
	bool durable;          /* by itself, once it is done */
	uint64_t done;         /* when, by the owner's clock; 0: not yet */
	uint64_t tag;          /* the owner's */
	uint64_t first, count; /* sectors */
	struct sector *sectors[];
};

struct unflushed_list {
	TAILQ_HEAD(unflushed_head, unflushed) head;
	uint64_t count;
};

/* Content and durability as io has them; in no list. */
struct unflushed *unflushed_new(unsigned medium, const struct dev_io *io);
struct unflushed *unflushed_copy(const struct unflushed *w);
void unflushed_free(struct unflushed *w);

void unflushed_init(struct unflushed_list *list);
void unflushed_clear(struct unflushed_list *list);
void unflushed_append(struct unflushed_list *list, struct unflushed *w);

/* Puts the first `count` sectors of w into the image. */
void unflushed_apply(const struct unflushed *w, struct image *image, uint64_t count);

/* Makes w durable and frees it: in its place, older writes have nothing else to bring. */
void unflushed_settle(struct unflushed_list *list, struct unflushed *w, struct image *durable);
/* A flush of a medium: settles all that was done when its clock showed `upto`. */
void unflushed_flush(struct unflushed_list *list, unsigned medium, struct image *durable,
		     uint64_t upto);

/* Puts those that arrived before the cut into images, by medium. */
void unflushed_cut(const struct unflushed_list *list, struct image *const *images, enum sim_cut how,
		   uint64_t arg, uint64_t arg2);

/* splitmix64: any seed gives a good sequence. */
uint64_t sim_random(uint64_t *state);

#endif
