// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * What several simulated devices were asked and when they had done it, in one order: a run is
 * recorded once, then cut at each of its events without running it again. Owned by tests.
 *
 * An event is the submission of a write (or discard), its completion, or a flush's completion.
 * A cut at position p comes after the first p events: what had been submitted and no flush (or
 * the write's own durability) covers may have arrived, in any combination over all devices,
 * completed or not.
 *
 * Recording is safe with any threads. Cursors belong to one thread each, and come when the
 * recorded devices are closed. Aborts when memory is short.
 */
#ifndef TARN_DEV_SIM_TAPE_H
#define TARN_DEV_SIM_TAPE_H

#include "dev/sim.h"

#define TAPE_MEDIA 8

struct tape;

struct tape *tape_new(void);
void tape_free(struct tape *tape);

/* Records a closed medium without unflushed writes from now on; the nth one is number n of the
   media that a cut gives. The tape may be freed only when all that happens to sim is over. */
void tape_record(struct tape *tape, struct sim *sim);

/* Events so far: the position of a cut that comes now. */
uint64_t tape_position(struct tape *tape);

struct tape_cursor;

struct tape_cursor *tape_cursor_new(struct tape *tape);
void tape_cursor_free(struct tape_cursor *c);

/* Forward only. */
void tape_cursor_seek(struct tape_cursor *c, uint64_t position);
/* From here on as if the devices ignored flushes and wrote nothing durably. */
void tape_cursor_ignore_flushes(struct tape_cursor *c);

/* Writes that may have arrived or not, numbered by submission; length of one in sectors. */
uint64_t tape_cursor_unflushed(const struct tape_cursor *c);
uint64_t tape_cursor_length(const struct tape_cursor *c, uint64_t number);

/* The media after a cut here, one for each recorded; as for sim_cut(). */
void tape_cursor_cut(const struct tape_cursor *c, enum sim_cut how, uint64_t arg, uint64_t arg2,
		     struct sim **media);

#endif
