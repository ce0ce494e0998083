// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * A simulated device in memory, with the faults that real ones have: the ground for
 * power-cut, fault and model tests. Owned by tests; pool/ sees only struct dev.
 *
 * Content model: `durable` is what survives a power cut; writes since the last good
 * flush are kept in order as unflushed writes on top of it. A flush makes durable what
 * had been written when it was submitted, no more. A durable write is durable as soon as it is
 * made, and what older unflushed writes had in its place has lost its meaning. A discard is a write
 * of zeros, counted among the writes. Reads see all writes. All functions may be called from any
 * thread, the callback too. Each open device has one thread, which completes requests one by one,
 * by default in the order of submission. Aborts when memory is short. A recorded medium
 * (sim_tape.h) is in use by its tape.
 */
#ifndef TARN_DEV_SIM_H
#define TARN_DEV_SIM_H

#include "dev/dev.h"

struct sim; /* the medium: outlives the struct dev opened on it */

struct sim *sim_create(const char *name, uint64_t size, uint32_t physical);
void sim_destroy(struct sim *sim);

/* Opens the medium as a device; only one may be open for writing (-EBUSY). */
int sim_open(struct sim *sim, int flags, struct dev **out);

/* A copy of the medium as it would be found after a power cut now: durable content plus
   the chosen unflushed writes. */
enum sim_cut {
	SIM_CUT_NONE,   /* no unflushed write arrived */
	SIM_CUT_ALL,    /* all did */
	SIM_CUT_ONLY,   /* only number arg (0 = oldest) */
	SIM_CUT_BUT,    /* all but number arg */
	SIM_CUT_TORN,   /* all before arg, and the first arg2 sectors of number arg */
	SIM_CUT_RANDOM, /* a random subset and order, seed arg */
};
struct sim *sim_cut(struct sim *sim, enum sim_cut how, uint64_t arg, uint64_t arg2);
uint64_t sim_unflushed(struct sim *sim); /* number of unflushed writes */

/* Called after each good write with its ordinal (from 1) on this medium, from the completing
   thread, before the write's owner is told. fn NULL: no more calls. */
void sim_on_write(struct sim *sim, void (*fn)(struct sim *, uint64_t nth, void *), void *arg);

/* Fault controls; each stays until changed. `error` is 0 or -errno. A request that fails
   changes nothing, but for torn writes. */
void sim_fail(struct sim *sim, enum dev_op op, uint64_t offset, uint64_t length, int error,
	      uint64_t count);           /* requests touching the range fail; error 0 clears
					    all rules of op; count 0 = for ever; a flush touches
					    every range */
void sim_tear(struct sim *sim, bool on); /* of a write that fails, the first half arrives */
void sim_flip(struct sim *sim, uint64_t offset, uint8_t xor_mask); /* silent corruption */
void sim_lose_writes(struct sim *sim, bool on);   /* completes writes and flushes, stores nothing */
void sim_gone(struct sim *sim, bool on);          /* every request fails with -ENXIO */
void sim_hold(struct sim *sim, bool on);          /* requests wait until released (slow, hung) */
void sim_reorder(struct sim *sim, uint64_t seed); /* complete in random order; 0 = in order */

/* Direct access to the medium for damage tests, bypassing the device: sees what a read sees;
   a poke changes that, what is durable and the unflushed writes alike, as sim_flip() does. */
void sim_peek(struct sim *sim, uint64_t offset, void *buf, size_t length);
void sim_poke(struct sim *sim, uint64_t offset, const void *buf, size_t length);

#endif
