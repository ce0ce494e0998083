// SPDX-License-Identifier: LGPL-3.0-or-later
#include "dev/sim.h"
#include "dev/impl.h"
#include "dev/sim_image.h"
#include "dev/sim_impl.h"
#include "dev/sim_unflushed.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

struct fault {
	SLIST_ENTRY(fault) link;
	enum dev_op op;
	uint64_t offset, length;
	int error;
	uint64_t left; /* 0 = for ever */
};

struct sim {
	pthread_mutex_t lock; /* guards everything here and the queues of the open devices */
	char *name;
	uint64_t size;
	uint32_t physical;
	struct image *current; /* what reads see: durable and all unflushed writes */
	struct image *durable;
	struct unflushed_list unflushed; /* done by the clock of `writes` */
	uint64_t writes;                 /* good ones so far: the ordinal of the last */
	struct tape *tape;               /* NULL: not recorded */
	unsigned tape_medium;
	SLIST_HEAD(, fault) faults;
	bool lose, gone, hold, tear;
	uint64_t order; /* state of the random order of completion; 0 = as submitted */
	void (*on_write)(struct sim *, uint64_t nth, void *);
	void *on_write_arg;
	SLIST_HEAD(, sim_dev) open;
	bool open_for_writing;
};

struct sim_dev {
	struct dev dev;
	struct sim *sim;
	pthread_t thread;
	SLIST_ENTRY(sim_dev) link;    /* under the medium's lock */
	pthread_cond_t wake;          /* a request came, hold ended, the device closes */
	struct dev_io *queue, **tail; /* under the medium's lock, as the next two */
	uint64_t queued;
	bool closing;
};

/* The medium */

struct sim *sim_from_image(const char *name, uint64_t size, uint32_t physical,
			   struct image *durable)
{
	struct sim *sim = sim_alloc(sizeof(*sim));

	sim->name = strdup(name);
	if (!sim->name)
		abort();
	sim->size = size;
	sim->physical = physical;
	sim->durable = durable;
	sim->current = image_copy(durable);
	pthread_mutex_init(&sim->lock, NULL);
	unflushed_init(&sim->unflushed);
	SLIST_INIT(&sim->faults);
	SLIST_INIT(&sim->open);
	return sim;
}

struct sim *sim_create(const char *name, uint64_t size, uint32_t physical)
{
	struct image *empty = image_new(size / SECTOR_SIZE);

	return sim_from_image(name, size, physical, empty);
}

static void clear_faults(struct sim *sim, enum dev_op op)
{
	struct fault *fault = SLIST_FIRST(&sim->faults), *next;

	for (; fault; fault = next) {
		next = SLIST_NEXT(fault, link);
		if (fault->op == op) {
			SLIST_REMOVE(&sim->faults, fault, fault, link);
			free(fault);
		}
	}
}

void sim_destroy(struct sim *sim)
{
	assert(SLIST_EMPTY(&sim->open));
	unflushed_clear(&sim->unflushed);
	for (enum dev_op op = DEV_READ; op <= DEV_DISCARD; op++)
		clear_faults(sim, op);
	image_free(sim->current);
	image_free(sim->durable);
	pthread_mutex_destroy(&sim->lock);
	free(sim->name);
	free(sim);
}

struct sim_shape sim_attach_tape(struct sim *sim, struct tape *tape, unsigned medium)
{
	assert(SLIST_EMPTY(&sim->open) && !sim->unflushed.count && !sim->tape);
	sim->tape = tape;
	sim->tape_medium = medium;
	return (struct sim_shape){.name = sim->name,
				  .size = sim->size,
				  .physical = sim->physical,
				  .content = image_copy(sim->durable)};
}

/* Power cuts */

struct sim *sim_cut(struct sim *sim, enum sim_cut how, uint64_t arg, uint64_t arg2)
{
	struct image *image;

	pthread_mutex_lock(&sim->lock);
	image = image_copy(sim->durable);
	unflushed_cut(&sim->unflushed, &image, how, arg, arg2);
	pthread_mutex_unlock(&sim->lock);
	return sim_from_image(sim->name, sim->size, sim->physical, image);
}

uint64_t sim_unflushed(struct sim *sim)
{
	uint64_t count;

	pthread_mutex_lock(&sim->lock);
	count = sim->unflushed.count;
	pthread_mutex_unlock(&sim->lock);
	return count;
}

/* Controls */

void sim_on_write(struct sim *sim, void (*fn)(struct sim *, uint64_t nth, void *), void *arg)
{
	pthread_mutex_lock(&sim->lock);
	sim->on_write = fn;
	sim->on_write_arg = arg;
	pthread_mutex_unlock(&sim->lock);
}

void sim_fail(struct sim *sim, enum dev_op op, uint64_t offset, uint64_t length, int error,
	      uint64_t count)
{
	struct fault *fault;

	assert(error <= 0);
	pthread_mutex_lock(&sim->lock);
	if (error) {
		fault = sim_alloc(sizeof(*fault));
		fault->op = op;
		fault->offset = offset;
		fault->length = length;
		fault->error = error;
		fault->left = count;
		SLIST_INSERT_HEAD(&sim->faults, fault, link);
	} else {
		clear_faults(sim, op);
	}
	pthread_mutex_unlock(&sim->lock);
}

static void set(struct sim *sim, bool *control, bool on)
{
	struct sim_dev *d;

	pthread_mutex_lock(&sim->lock);
	*control = on;
	for (d = SLIST_FIRST(&sim->open); d; d = SLIST_NEXT(d, link))
		pthread_cond_signal(&d->wake);
	pthread_mutex_unlock(&sim->lock);
}

void sim_lose_writes(struct sim *sim, bool on)
{
	set(sim, &sim->lose, on);
}

void sim_tear(struct sim *sim, bool on)
{
	set(sim, &sim->tear, on);
}

void sim_gone(struct sim *sim, bool on)
{
	set(sim, &sim->gone, on);
}

void sim_hold(struct sim *sim, bool on)
{
	set(sim, &sim->hold, on);
}

void sim_reorder(struct sim *sim, uint64_t seed)
{
	pthread_mutex_lock(&sim->lock);
	sim->order = seed;
	pthread_mutex_unlock(&sim->lock);
}

/* Direct access */

/* Part of one sector: bytes to put there, or, without them, a mask to flip bits with. */
struct edit {
	uint64_t sector;
	size_t start, length;
	const uint8_t *bytes;
	uint8_t mask;
};

static void edit_sector(struct sector **sector, const struct edit *e)
{
	sector_own(sector);
	for (size_t i = 0; i < e->length; i++) {
		uint8_t *byte = &(*sector)->data[e->start + i];

		*byte = e->bytes ? e->bytes[i] : *byte ^ e->mask;
	}
}

static void edit(struct sim *sim, const struct edit *e)
{
	struct unflushed *w;

	edit_sector(image_at(sim->current, e->sector), e);
	edit_sector(image_at(sim->durable, e->sector), e);
	for (w = TAILQ_FIRST(&sim->unflushed.head); w; w = TAILQ_NEXT(w, link)) {
		if (e->sector >= w->first && e->sector - w->first < w->count)
			edit_sector(&w->sectors[e->sector - w->first], e);
	}
}

void sim_flip(struct sim *sim, uint64_t offset, uint8_t xor_mask)
{
	struct edit e = {.sector = offset / SECTOR_SIZE,
			 .start = offset % SECTOR_SIZE,
			 .length = 1,
			 .mask = xor_mask};

	pthread_mutex_lock(&sim->lock);
	edit(sim, &e);
	pthread_mutex_unlock(&sim->lock);
}

static size_t within_sector(uint64_t offset, size_t length)
{
	size_t room = SECTOR_SIZE - offset % SECTOR_SIZE;

	return length < room ? length : room;
}

void sim_poke(struct sim *sim, uint64_t offset, const void *buf, size_t length)
{
	const uint8_t *bytes = buf;

	pthread_mutex_lock(&sim->lock);
	while (length) {
		struct edit e = {.sector = offset / SECTOR_SIZE,
				 .start = offset % SECTOR_SIZE,
				 .length = within_sector(offset, length),
				 .bytes = bytes};

		edit(sim, &e);
		bytes += e.length;
		offset += e.length;
		length -= e.length;
	}
	pthread_mutex_unlock(&sim->lock);
}

void sim_peek(struct sim *sim, uint64_t offset, void *buf, size_t length)
{
	uint8_t *to = buf;

	pthread_mutex_lock(&sim->lock);
	while (length) {
		size_t n = within_sector(offset, length);

		memcpy(to, image_read(sim->current, offset / SECTOR_SIZE) + offset % SECTOR_SIZE,
		       n);
		to += n;
		offset += n;
		length -= n;
	}
	pthread_mutex_unlock(&sim->lock);
}

/* Requests; called with the lock held */

static int find_fault(struct sim *sim, const struct dev_io *io)
{
	struct fault *fault;
	int error;

	if (sim->gone)
		return -ENXIO;
	for (fault = SLIST_FIRST(&sim->faults); fault; fault = SLIST_NEXT(fault, link)) {
		if (fault->op != io->op)
			continue;
		if (io->op != DEV_FLUSH && (io->offset - fault->offset >= fault->length) &&
		    (fault->offset - io->offset >= io->length))
			continue;
		error = fault->error;
		if (fault->left && --fault->left == 0) {
			SLIST_REMOVE(&sim->faults, fault, fault, link);
			free(fault);
		}
		return error;
	}
	return 0;
}

static void read_sectors(struct sim *sim, struct dev_io *io)
{
	uint64_t sector = io->offset / SECTOR_SIZE;

	for (int i = 0; i < io->iovcnt; i++) {
		uint8_t *to = io->iov[i].iov_base;

		for (size_t at = 0; at < io->iov[i].iov_len; at += SECTOR_SIZE)
			memcpy(to + at, image_read(sim->current, sector++), SECTOR_SIZE);
	}
}

/* The first `count` sectors of a write or discard. */
static void write_sectors(struct sim *sim, struct dev_io *io, uint64_t count)
{
	struct unflushed *w;

	sim->writes++;
	if (sim->lose)
		return;
	w = unflushed_new(0, io);
	w->done = sim->writes;
	while (w->count > count)
		sector_drop(w->sectors[--w->count]);
	unflushed_apply(w, sim->current, w->count);
	unflushed_append(&sim->unflushed, w);
	if (w->durable)
		unflushed_settle(&sim->unflushed, w, sim->durable);
}

static void flush(struct sim *sim, uint64_t upto)
{
	if (!sim->lose)
		unflushed_flush(&sim->unflushed, 0, sim->durable, upto);
}

static int perform(struct sim *sim, struct dev_io *io)
{
	int rc = io->result ? io->result : find_fault(sim, io);

	if (rc && sim->tear && !sim->gone && !io->result && io->op == DEV_WRITE)
		write_sectors(sim, io, io->length / SECTOR_SIZE / 2);
	if (rc)
		return rc;
	if (io->op == DEV_READ)
		read_sectors(sim, io);
	else if (io->op == DEV_FLUSH)
		flush(sim, io->moved);
	else
		write_sectors(sim, io, io->length / SECTOR_SIZE);
	if (sim->tape && !sim->lose)
		tape_completed(sim->tape, sim->tape_medium, io, io->rest.iov_len);
	return 0;
}

static struct dev_io *take(struct sim_dev *d)
{
	uint64_t skip = d->sim->order ? sim_random(&d->sim->order) % d->queued : 0;
	struct dev_io **place = &d->queue, *io;

	while (skip--)
		place = &(*place)->next;
	io = *place;
	*place = io->next;
	if (!*place)
		d->tail = place;
	d->queued--;
	return io;
}

static void *serve(void *arg)
{
	struct sim_dev *d = arg;
	struct sim *sim = d->sim;

	pthread_mutex_lock(&sim->lock);
	while (!d->closing) {
		if (!d->queue || sim->hold) {
			pthread_cond_wait(&d->wake, &sim->lock);
			continue;
		}
		struct dev_io *io = take(d);
		int result = perform(sim, io);
		bool wrote = !result && (io->op == DEV_WRITE || io->op == DEV_DISCARD);
		uint64_t nth = sim->writes;
		void (*on_write)(struct sim *, uint64_t, void *) = sim->on_write;
		void *on_write_arg = sim->on_write_arg;

		pthread_mutex_unlock(&sim->lock);
		if (wrote && on_write)
			on_write(sim, nth, on_write_arg);
		dev_complete(io, result);
		pthread_mutex_lock(&sim->lock);
	}
	pthread_mutex_unlock(&sim->lock);
	return NULL;
}

/* The device */

static void sim_submit(struct dev *dev, struct dev_io *io)
{
	struct sim_dev *d = (struct sim_dev *)dev;

	pthread_mutex_lock(&d->sim->lock);
	if (io->op == DEV_FLUSH)
		io->moved = d->sim->writes; /* the last write that the flush covers */
	if (d->sim->tape && !io->result)
		io->rest.iov_len = tape_submitted(d->sim->tape, d->sim->tape_medium, io);
	*d->tail = io;
	d->tail = &io->next;
	d->queued++;
	pthread_mutex_unlock(&d->sim->lock);
	pthread_cond_signal(&d->wake); /* the device stays until this call is over */
}

static int sim_size(struct dev *dev, uint64_t *size)
{
	*size = ((struct sim_dev *)dev)->sim->size;
	return 0;
}

static void detach(struct sim_dev *d)
{
	pthread_mutex_lock(&d->sim->lock);
	SLIST_REMOVE(&d->sim->open, d, sim_dev, link);
	if (!d->dev.readonly)
		d->sim->open_for_writing = false;
	pthread_mutex_unlock(&d->sim->lock);
	pthread_cond_destroy(&d->wake);
	dev_fini(&d->dev);
	free(d);
}

static void sim_close(struct dev *dev)
{
	struct sim_dev *d = (struct sim_dev *)dev;

	set(d->sim, &d->closing, true);
	pthread_join(d->thread, NULL);
	detach(d);
}

static const struct dev_ops sim_ops = {.submit = sim_submit, .size = sim_size, .close = sim_close};

static int attach(struct sim_dev *d)
{
	struct sim *sim = d->sim;
	int rc = 0;

	pthread_mutex_lock(&sim->lock);
	if (sim->gone)
		rc = -ENXIO;
	else if (!d->dev.readonly && sim->open_for_writing)
		rc = -EBUSY;
	if (!rc) {
		SLIST_INSERT_HEAD(&sim->open, d, link);
		sim->open_for_writing |= !d->dev.readonly;
	}
	pthread_mutex_unlock(&sim->lock);
	return rc;
}

int sim_open(struct sim *sim, int flags, struct dev **out)
{
	struct sim_dev *d = sim_alloc(sizeof(*d));
	int rc;

	d->sim = sim;
	d->tail = &d->queue;
	d->dev.readonly = flags & DEV_OPEN_RDONLY;
	d->dev.geo = (struct dev_geometry){
	    .physical = sim->physical, .optimal = DEV_OPTIMAL_DEFAULT, .discard = !d->dev.readonly};
	pthread_cond_init(&d->wake, NULL);
	rc = attach(d);
	if (rc) {
		pthread_cond_destroy(&d->wake);
		free(d);
		return rc;
	}
	rc = dev_init(&d->dev, &sim_ops, sim->name);
	if (!rc)
		rc = dev_refresh_geometry(&d->dev);
	if (!rc)
		rc = -pthread_create(&d->thread, NULL, serve, d);
	if (rc)
		detach(d);
	else
		*out = &d->dev;
	return rc;
}
