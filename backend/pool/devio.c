// SPDX-License-Identifier: LGPL-3.0-or-later
#include "pool/devio.h"

#include <semaphore.h>
#include <stdatomic.h>

struct devio_batch {
	atomic_uint left;
	sem_t done;
};

static void finished(struct dev_io *io)
{
	struct devio_batch *batch = ((struct devio *)io->owner)->batch;

	if (atomic_fetch_sub(&batch->left, 1) == 1)
		sem_post(&batch->done);
}

void devio_run(struct devio *ios, uint32_t n)
{
	struct devio_batch batch;

	if (!n)
		return;
	atomic_init(&batch.left, n);
	sem_init(&batch.done, 0, 0);
	for (uint32_t i = 0; i < n; i++) {
		struct devio *d = &ios[i];

		d->batch = &batch;
		d->io.iov = &d->iov;
		d->io.iovcnt = 1;
		d->io.owner = d;
		d->io.done = finished;
		dev_submit(d->dev, &d->io);
	}
	while (sem_wait(&batch.done))
		continue; /* interrupted */
	sem_destroy(&batch.done);
}
