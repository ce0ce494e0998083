// SPDX-License-Identifier: LGPL-3.0-or-later
#include "dev/sim_tape.h"
#include "dev/sim_impl.h"
#include "dev/sim_unflushed.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct event {
	enum { WRITE, DONE, FLUSHED } kind;
	unsigned medium;
	uint64_t submitted;      /* DONE: the event of its write; FLUSHED: the position then */
	struct unflushed *write; /* WRITE */
};

struct tape {
	pthread_mutex_t lock; /* guards all while recording */
	struct sim_shape shapes[TAPE_MEDIA];
	unsigned media;
	struct event *events;
	uint64_t count, room;
};

struct tape_cursor {
	const struct tape *tape;
	bool ignore_flushes;
	uint64_t at;
	struct image *durable[TAPE_MEDIA];
	struct unflushed_list unflushed; /* by tag: their event */
};

/* ---- recording ---- */

struct tape *tape_new(void)
{
	struct tape *tape = sim_alloc(sizeof(*tape));

	pthread_mutex_init(&tape->lock, NULL);
	return tape;
}

void tape_free(struct tape *tape)
{
	for (uint64_t i = 0; i < tape->count; i++) {
		if (tape->events[i].write)
			unflushed_free(tape->events[i].write);
	}
	for (unsigned i = 0; i < tape->media; i++) {
		image_free(tape->shapes[i].content);
		free((char *)tape->shapes[i].name);
	}
	free(tape->events);
	pthread_mutex_destroy(&tape->lock);
	free(tape);
}

void tape_record(struct tape *tape, struct sim *sim)
{
	struct sim_shape *shape = &tape->shapes[tape->media];

	assert(tape->media < TAPE_MEDIA);
	*shape = sim_attach_tape(sim, tape, tape->media++);
	shape->name = strdup(shape->name);
	if (!shape->name)
		abort();
}

/* Returns its number. */
static uint64_t append(struct tape *tape, struct event event)
{
	uint64_t number;

	pthread_mutex_lock(&tape->lock);
	if (tape->count == tape->room) {
		tape->room = tape->room ? 2 * tape->room : 1024;
		tape->events = realloc(tape->events, tape->room * sizeof(*tape->events));
		if (!tape->events)
			abort();
	}
	number = tape->count++;
	tape->events[number] = event;
	pthread_mutex_unlock(&tape->lock);
	return number;
}

uint64_t tape_submitted(struct tape *tape, unsigned medium, const struct dev_io *io)
{
	if (io->op == DEV_WRITE || io->op == DEV_DISCARD)
		return append(tape, (struct event){.kind = WRITE,
						   .medium = medium,
						   .write = unflushed_new(medium, io)});
	return tape_position(tape);
}

void tape_completed(struct tape *tape, unsigned medium, const struct dev_io *io, uint64_t submitted)
{
	if (io->op != DEV_READ)
		append(tape, (struct event){.kind = io->op == DEV_FLUSH ? FLUSHED : DONE,
					    .medium = medium,
					    .submitted = submitted});
}

uint64_t tape_position(struct tape *tape)
{
	uint64_t count;

	pthread_mutex_lock(&tape->lock);
	count = tape->count;
	pthread_mutex_unlock(&tape->lock);
	return count;
}

/* ---- cutting ---- */

struct tape_cursor *tape_cursor_new(struct tape *tape)
{
	struct tape_cursor *c = sim_alloc(sizeof(*c));

	c->tape = tape;
	for (unsigned i = 0; i < tape->media; i++)
		c->durable[i] = image_copy(tape->shapes[i].content);
	unflushed_init(&c->unflushed);
	return c;
}

void tape_cursor_free(struct tape_cursor *c)
{
	unflushed_clear(&c->unflushed);
	for (unsigned i = 0; i < c->tape->media; i++)
		image_free(c->durable[i]);
	free(c);
}

static void submitted(struct tape_cursor *c, const struct event *event)
{
	struct unflushed *w = unflushed_copy(event->write);

	w->tag = c->at;
	unflushed_append(&c->unflushed, w);
}

static void completed(struct tape_cursor *c, const struct event *event)
{
	struct unflushed *w = TAILQ_FIRST(&c->unflushed.head);

	while (w->tag != event->submitted)
		w = TAILQ_NEXT(w, link);
	w->done = c->at + 1;
	if (w->durable && !c->ignore_flushes)
		unflushed_settle(&c->unflushed, w, c->durable[w->medium]);
}

static void flushed(struct tape_cursor *c, const struct event *event)
{
	if (!c->ignore_flushes)
		unflushed_flush(&c->unflushed, event->medium, c->durable[event->medium],
				event->submitted);
}

void tape_cursor_seek(struct tape_cursor *c, uint64_t position)
{
	assert(position >= c->at && position <= c->tape->count);
	for (; c->at < position; c->at++) {
		const struct event *event = &c->tape->events[c->at];

		if (event->kind == WRITE)
			submitted(c, event);
		else if (event->kind == DONE)
			completed(c, event);
		else
			flushed(c, event);
	}
}

void tape_cursor_ignore_flushes(struct tape_cursor *c)
{
	c->ignore_flushes = true;
}

uint64_t tape_cursor_unflushed(const struct tape_cursor *c)
{
	return c->unflushed.count;
}

uint64_t tape_cursor_length(const struct tape_cursor *c, uint64_t number)
{
	const struct unflushed *w = TAILQ_FIRST(&c->unflushed.head);

	assert(number < c->unflushed.count);
	while (number--)
		w = TAILQ_NEXT(w, link);
	return w->count;
}

void tape_cursor_cut(const struct tape_cursor *c, enum sim_cut how, uint64_t arg, uint64_t arg2,
		     struct sim **media)
{
	struct image *images[TAPE_MEDIA];

	for (unsigned i = 0; i < c->tape->media; i++)
		images[i] = image_copy(c->durable[i]);
	unflushed_cut(&c->unflushed, images, how, arg, arg2);
	for (unsigned i = 0; i < c->tape->media; i++) {
		const struct sim_shape *shape = &c->tape->shapes[i];

		media[i] = sim_from_image(shape->name, shape->size, shape->physical, images[i]);
	}
}
