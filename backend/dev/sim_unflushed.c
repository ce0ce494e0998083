// SPDX-License-Identifier: LGPL-3.0-or-later
#include "dev/sim_unflushed.h"

#include <stdlib.h>
#include <string.h>

uint64_t sim_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

struct unflushed *unflushed_new(unsigned medium, const struct dev_io *io)
{
	uint64_t count = io->length / SECTOR_SIZE, n = 0;
	struct unflushed *w = sim_alloc(sizeof(*w) + count * sizeof(w->sectors[0]));

	w->medium = medium;
	w->durable = io->durable;
	w->first = io->offset / SECTOR_SIZE;
	w->count = count;
	for (int i = 0; io->op == DEV_WRITE && i < io->iovcnt; i++) {
		const uint8_t *from = io->iov[i].iov_base;

		for (size_t at = 0; at < io->iov[i].iov_len; at += SECTOR_SIZE)
			w->sectors[n++] = sector_new(from + at);
	}
	return w;
}

struct unflushed *unflushed_copy(const struct unflushed *w)
{
	size_t size = sizeof(*w) + w->count * sizeof(w->sectors[0]);
	struct unflushed *copy = sim_alloc(size);

	memcpy(copy, w, size);
	for (uint64_t i = 0; i < w->count; i++)
		sector_hold(copy->sectors[i]);
	return copy;
}

void unflushed_free(struct unflushed *w)
{
	for (uint64_t i = 0; i < w->count; i++)
		sector_drop(w->sectors[i]);
	free(w);
}

void unflushed_init(struct unflushed_list *list)
{
	TAILQ_INIT(&list->head);
	list->count = 0;
}

static void forget(struct unflushed_list *list, struct unflushed *w)
{
	TAILQ_REMOVE(&list->head, w, link);
	list->count--;
	unflushed_free(w);
}

void unflushed_clear(struct unflushed_list *list)
{
	while (!TAILQ_EMPTY(&list->head))
		forget(list, TAILQ_FIRST(&list->head));
}

void unflushed_append(struct unflushed_list *list, struct unflushed *w)
{
	TAILQ_INSERT_TAIL(&list->head, w, link);
	list->count++;
}

void unflushed_apply(const struct unflushed *w, struct image *image, uint64_t count)
{
	for (uint64_t i = 0; i < count && i < w->count; i++)
		image_set(image, w->first + i, w->sectors[i]);
}

static void supersede(struct unflushed *older, const struct unflushed *w)
{
	for (uint64_t i = 0; i < w->count; i++) {
		uint64_t at = w->first + i - older->first;

		if (at >= older->count)
			continue;
		sector_drop(older->sectors[at]);
		older->sectors[at] = sector_hold(w->sectors[i]);
	}
}

void unflushed_settle(struct unflushed_list *list, struct unflushed *w, struct image *durable)
{
	struct unflushed *older;

	for (older = TAILQ_FIRST(&list->head); older != w; older = TAILQ_NEXT(older, link)) {
		if (older->medium == w->medium)
			supersede(older, w);
	}
	unflushed_apply(w, durable, w->count);
	forget(list, w);
}

void unflushed_flush(struct unflushed_list *list, unsigned medium, struct image *durable,
		     uint64_t upto)
{
	struct unflushed *w = TAILQ_FIRST(&list->head), *next;

	for (; w; w = next) {
		next = TAILQ_NEXT(w, link);
		if (w->medium == medium && w->done && w->done <= upto)
			unflushed_settle(list, w, durable);
	}
}

/* ---- power cuts ---- */

static void cut_random(const struct unflushed_list *list, struct image *const *images,
		       uint64_t seed)
{
	const struct unflushed **writes = sim_alloc((list->count + 1) * sizeof(*writes)), *w;
	uint64_t n = 0;

	for (w = TAILQ_FIRST(&list->head); w; w = TAILQ_NEXT(w, link)) {
		if (sim_random(&seed) & 1)
			writes[n++] = w;
	}
	while (n) {
		uint64_t i = sim_random(&seed) % n;

		unflushed_apply(writes[i], images[writes[i]->medium], writes[i]->count);
		writes[i] = writes[--n];
	}
	free(writes);
}

/* How many sectors of write i arrive. */
static uint64_t arriving(enum sim_cut how, uint64_t i, uint64_t arg, uint64_t arg2)
{
	switch (how) {
	case SIM_CUT_ALL:
		return UINT64_MAX;
	case SIM_CUT_ONLY:
		return i == arg ? UINT64_MAX : 0;
	case SIM_CUT_BUT:
		return i == arg ? 0 : UINT64_MAX;
	case SIM_CUT_TORN:
		return i < arg ? UINT64_MAX : i == arg ? arg2 : 0;
	default:
		return 0;
	}
}

void unflushed_cut(const struct unflushed_list *list, struct image *const *images, enum sim_cut how,
		   uint64_t arg, uint64_t arg2)
{
	const struct unflushed *w;
	uint64_t i = 0;

	if (how == SIM_CUT_RANDOM) {
		cut_random(list, images, arg);
		return;
	}
	for (w = TAILQ_FIRST(&list->head); w; w = TAILQ_NEXT(w, link))
		unflushed_apply(w, images[w->medium], arriving(how, i++, arg, arg2));
}
