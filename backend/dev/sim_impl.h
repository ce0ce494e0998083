// SPDX-License-Identifier: LGPL-3.0-or-later
/* Between sim.c and sim_tape.c. */
#ifndef TARN_DEV_SIM_IMPL_H
#define TARN_DEV_SIM_IMPL_H

#include "dev/sim.h"
#include "dev/sim_image.h"

struct tape;

/* A medium of this content; takes the image over. */
struct sim *sim_from_image(const char *name, uint64_t size, uint32_t physical,
			   struct image *durable);

/* Of the recorded device that is number `medium`, under its lock. Submission returns what the
   completion is to be given. */
uint64_t tape_submitted(struct tape *tape, unsigned medium, const struct dev_io *io);
void tape_completed(struct tape *tape, unsigned medium, const struct dev_io *io,
		    uint64_t submitted);

/* What a tape must know of a medium; from now on sim tells it what happens. The content is a copy
   for the tape. */
struct sim_shape {
	const char *name; /* the medium's own */
	uint64_t size;
	uint32_t physical;
	struct image *content;
};
struct sim_shape sim_attach_tape(struct sim *sim, struct tape *tape, unsigned medium);

#endif
