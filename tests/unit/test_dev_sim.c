// SPDX-License-Identifier: LGPL-3.0-or-later
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dev/sim.h"
#include "dev/sim_tape.h"
#include "dev_request.h"

#define SECTORS 2048
#define SIZE ((uint64_t)SECTORS * SECTOR_SIZE)
#define AT(sector) ((uint64_t)(sector)*SECTOR_SIZE)

struct setup {
	struct sim *sim;
	struct dev *dev;
	uint8_t *buf; /* 16 sectors */
};

static int set_up(void **state)
{
	struct setup *s = calloc(1, sizeof(*s));

	s->sim = sim_create("sim", SIZE + 100, 512);
	assert_int_equal(sim_open(s->sim, 0, &s->dev), 0);
	s->buf = dev_buf_alloc(16 * SECTOR_SIZE);
	*state = s;
	return 0;
}

static int tear_down(void **state)
{
	struct setup *s = *state;

	dev_close(s->dev);
	sim_destroy(s->sim);
	free(s->buf);
	free(s);
	return 0;
}

static int put(struct setup *s, unsigned sector, unsigned count, uint8_t value)
{
	memset(s->buf, value, count * SECTOR_SIZE);
	return dev_write(s->dev, AT(sector), s->buf, count * SECTOR_SIZE);
}

/* The value that fills the whole sector, -1 if there is none. */
static int filled(const uint8_t *sector)
{
	for (unsigned i = 1; i < SECTOR_SIZE; i++) {
		if (sector[i] != sector[0])
			return -1;
	}
	return sector[0];
}

static int get(struct setup *s, unsigned sector)
{
	assert_int_equal(dev_read(s->dev, AT(sector), s->buf, SECTOR_SIZE), 0);
	return filled(s->buf);
}

static int peek(struct sim *sim, unsigned sector)
{
	uint8_t data[SECTOR_SIZE];

	sim_peek(sim, AT(sector), data, sizeof(data));
	return filled(data);
}

static int peek_cut(struct sim *sim, unsigned sector, enum sim_cut how, uint64_t arg, uint64_t arg2)
{
	struct sim *after = sim_cut(sim, how, arg, arg2);
	int value = peek(after, sector);

	sim_destroy(after);
	return value;
}

static void tells_its_geometry(void **state)
{
	struct setup *s = *state;

	assert_int_equal(s->dev->geo.size, SIZE);
	assert_int_equal(s->dev->geo.physical, 512);
	assert_int_equal(s->dev->geo.optimal, 65536);
	assert_true(s->dev->geo.discard);
	assert_string_equal(s->dev->path, "sim");
	assert_int_equal(dev_refresh_geometry(s->dev), 0);
	assert_int_equal(s->dev->geo.size, SIZE);
}

static void reads_what_was_written(void **state)
{
	struct setup *s = *state;

	assert_int_equal(get(s, 7), 0);
	assert_int_equal(put(s, 7, 3, 0xa5), 0);
	assert_int_equal(get(s, 6), 0);
	for (unsigned i = 7; i < 10; i++)
		assert_int_equal(get(s, i), 0xa5);
	assert_int_equal(get(s, 10), 0);
	assert_int_equal(put(s, SECTORS - 1, 1, 0x11), 0);
	assert_int_equal(get(s, SECTORS - 1), 0x11);
	assert_int_equal(s->dev->stats.writes, 2);
	assert_int_equal(s->dev->stats.write_bytes, 4 * SECTOR_SIZE);
	assert_int_equal(s->dev->stats.reads, 7);
	assert_int_equal(s->dev->stats.read_bytes, 7 * SECTOR_SIZE);
}

static void one_writer_many_readers(void **state)
{
	struct setup *s = *state;
	struct dev *other;

	assert_int_equal(sim_open(s->sim, 0, &other), -EBUSY);
	assert_int_equal(put(s, 1, 1, 9), 0);
	assert_int_equal(sim_open(s->sim, DEV_OPEN_RDONLY, &other), 0);
	assert_int_equal(dev_read(other, AT(1), s->buf, SECTOR_SIZE), 0);
	assert_int_equal(filled(s->buf), 9);
	assert_int_equal(dev_write(other, AT(1), s->buf, SECTOR_SIZE), -EROFS);
	assert_int_equal(dev_flush(other), -EROFS);
	dev_close(other);
	dev_close(s->dev);
	assert_int_equal(sim_open(s->sim, 0, &s->dev), 0);
	assert_int_equal(get(s, 1), 9);
}

static void cut_keeps_what_was_flushed(void **state)
{
	struct setup *s = *state;

	assert_int_equal(put(s, 0, 1, 1), 0);
	assert_int_equal(dev_flush(s->dev), 0);
	assert_int_equal(sim_unflushed(s->sim), 0);
	assert_int_equal(put(s, 0, 1, 2), 0);
	assert_int_equal(sim_unflushed(s->sim), 1);
	assert_int_equal(peek_cut(s->sim, 0, SIM_CUT_NONE, 0, 0), 1);
	assert_int_equal(peek_cut(s->sim, 0, SIM_CUT_ALL, 0, 0), 2);
	assert_int_equal(get(s, 0), 2);
}

static void cut_chooses_among_unflushed_writes(void **state)
{
	struct setup *s = *state;

	/* Number 0 writes sectors 0-2, 1 writes 1-3, 2 writes 2-5. */
	assert_int_equal(put(s, 0, 3, 10), 0);
	assert_int_equal(put(s, 1, 3, 11), 0);
	assert_int_equal(put(s, 2, 4, 12), 0);
	assert_int_equal(sim_unflushed(s->sim), 3);

	static const struct {
		enum sim_cut how;
		uint64_t arg, arg2;
		int expect[6];
	} cases[] = {
	    {SIM_CUT_NONE, 0, 0, {0, 0, 0, 0, 0, 0}},
	    {SIM_CUT_ALL, 0, 0, {10, 11, 12, 12, 12, 12}},
	    {SIM_CUT_ONLY, 1, 0, {0, 11, 11, 11, 0, 0}},
	    {SIM_CUT_BUT, 1, 0, {10, 10, 12, 12, 12, 12}},
	    {SIM_CUT_BUT, 2, 0, {10, 11, 11, 11, 0, 0}},
	    {SIM_CUT_TORN, 2, 0, {10, 11, 11, 11, 0, 0}},
	    {SIM_CUT_TORN, 2, 1, {10, 11, 12, 11, 0, 0}},
	    {SIM_CUT_TORN, 2, 3, {10, 11, 12, 12, 12, 0}},
	    {SIM_CUT_TORN, 0, 2, {10, 10, 0, 0, 0, 0}},
	};
	for (unsigned c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		for (unsigned i = 0; i < 6; i++)
			assert_int_equal(
			    peek_cut(s->sim, i, cases[c].how, cases[c].arg, cases[c].arg2),
			    cases[c].expect[i]);
	}
}

static void random_cut_is_some_of_the_writes_in_some_order(void **state)
{
	struct setup *s = *state;
	bool seen[3] = {false};

	assert_int_equal(put(s, 0, 1, 1), 0);
	assert_int_equal(put(s, 0, 1, 2), 0);
	for (uint64_t seed = 0; seed < 64; seed++) {
		int value = peek_cut(s->sim, 0, SIM_CUT_RANDOM, seed, 0);

		assert_in_range(value, 0, 2);
		seen[value] = true;
		assert_int_equal(peek_cut(s->sim, 0, SIM_CUT_RANDOM, seed, 0), value);
	}
	assert_true(seen[0] && seen[1] && seen[2]);
}

static void medium_after_a_cut_is_a_medium(void **state)
{
	struct setup *s = *state;
	struct setup after = {.buf = s->buf};

	assert_int_equal(put(s, 3, 1, 3), 0);
	after.sim = sim_cut(s->sim, SIM_CUT_ALL, 0, 0);
	assert_int_equal(sim_unflushed(after.sim), 0);
	assert_int_equal(sim_open(after.sim, 0, &after.dev), 0);
	assert_int_equal(after.dev->geo.size, SIZE);
	assert_int_equal(get(&after, 3), 3);
	assert_int_equal(put(&after, 3, 1, 4), 0);
	assert_int_equal(get(s, 3), 3);
	assert_int_equal(put(s, 3, 1, 5), 0);
	assert_int_equal(get(&after, 3), 4);
	dev_close(after.dev);
	sim_destroy(after.sim);
}

static void discard_is_a_write_of_zeros(void **state)
{
	struct setup *s = *state;

	assert_int_equal(put(s, 0, 4, 1), 0);
	assert_int_equal(dev_flush(s->dev), 0);
	assert_int_equal(request_run(s->dev, DEV_DISCARD, AT(1), NULL, AT(2)), 0);
	static const int expect[] = {1, 0, 0, 1};
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(get(s, i), expect[i]);
		assert_int_equal(peek_cut(s->sim, i, SIM_CUT_NONE, 0, 0), 1);
		assert_int_equal(peek_cut(s->sim, i, SIM_CUT_ALL, 0, 0), expect[i]);
	}
	assert_int_equal(s->dev->stats.discards, 1);
}

static void flush_covers_only_what_had_completed(void **state)
{
	struct setup *s = *state;
	struct request before, during, flush;
	uint8_t *second = dev_buf_alloc(SECTOR_SIZE);

	memset(s->buf, 1, SECTOR_SIZE);
	memset(second, 2, SECTOR_SIZE);
	request_start(&before, s->dev, DEV_WRITE, AT(0), s->buf, SECTOR_SIZE);
	assert_int_equal(request_wait(&before), 0);
	sim_hold(s->sim, true);
	request_start(&during, s->dev, DEV_WRITE, AT(0), second, SECTOR_SIZE);
	request_start(&flush, s->dev, DEV_FLUSH, 0, NULL, 0);
	sim_hold(s->sim, false);
	assert_int_equal(request_wait(&during), 0);
	assert_int_equal(request_wait(&flush), 0);
	assert_int_equal(sim_unflushed(s->sim), 1);
	assert_int_equal(peek_cut(s->sim, 0, SIM_CUT_NONE, 0, 0), 1);
	assert_int_equal(get(s, 0), 2);
	assert_int_equal(dev_flush(s->dev), 0);
	assert_int_equal(peek_cut(s->sim, 0, SIM_CUT_NONE, 0, 0), 2);
	free(second);
}

static int put_durably(struct setup *s, unsigned sector, unsigned count, uint8_t value)
{
	struct request r;

	memset(s->buf, value, count * SECTOR_SIZE);
	request_start_durable(&r, s->dev, AT(sector), s->buf, count * SECTOR_SIZE);
	return request_wait(&r);
}

static void durable_write_covers_itself_alone(void **state)
{
	struct setup *s = *state;

	assert_int_equal(put(s, 0, 4, 1), 0);
	assert_int_equal(put_durably(s, 1, 2, 2), 0);
	assert_int_equal(put(s, 2, 2, 3), 0);
	static const struct {
		enum sim_cut how;
		uint64_t arg;
		int expect[4];
	} cases[] = {
	    {SIM_CUT_NONE, 0, {0, 2, 2, 0}},
	    {SIM_CUT_ALL, 0, {1, 2, 3, 3}},
	    {SIM_CUT_ONLY, 0, {1, 2, 2, 1}},
	    {SIM_CUT_ONLY, 1, {0, 2, 3, 3}},
	};
	assert_int_equal(sim_unflushed(s->sim), 2);
	for (unsigned c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(peek_cut(s->sim, i, cases[c].how, cases[c].arg, 0),
					 cases[c].expect[i]);
	}
	assert_int_equal(dev_flush(s->dev), 0);
	static const int expect[] = {1, 2, 3, 3};
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(peek_cut(s->sim, i, SIM_CUT_NONE, 0, 0), expect[i]);
}

static void failed_or_lost_durable_write_changes_nothing(void **state)
{
	struct setup *s = *state;

	sim_fail(s->sim, DEV_WRITE, AT(1), AT(1), -EIO, 1);
	assert_int_equal(put_durably(s, 1, 1, 1), -EIO);
	assert_int_equal(get(s, 1), 0);
	sim_lose_writes(s->sim, true);
	assert_int_equal(put_durably(s, 1, 1, 2), 0);
	assert_int_equal(get(s, 1), 0);
	assert_int_equal(peek_cut(s->sim, 1, SIM_CUT_ALL, 0, 0), 0);
}

static int tape_peek(struct tape_cursor *c, unsigned medium, unsigned sector, enum sim_cut how,
		     uint64_t arg)
{
	struct sim *media[2];
	int value;

	tape_cursor_cut(c, how, arg, 0, media);
	value = peek(media[medium], sector);
	sim_destroy(media[0]);
	sim_destroy(media[1]);
	return value;
}

/* Two devices, recorded together: one write to each, a flush of the first, a durable write. */
static struct tape *record_two(struct setup *s)
{
	struct setup other = {.buf = s->buf};
	struct tape *tape = tape_new();

	dev_close(s->dev);
	other.sim = sim_create("other", SIZE, 512);
	tape_record(tape, s->sim);
	tape_record(tape, other.sim);
	assert_int_equal(sim_open(s->sim, 0, &s->dev), 0);
	assert_int_equal(sim_open(other.sim, 0, &other.dev), 0);
	assert_int_equal(put(s, 1, 2, 1), 0);
	assert_int_equal(put(&other, 1, 1, 2), 0);
	assert_int_equal(tape_position(tape), 4);
	assert_int_equal(dev_flush(s->dev), 0);
	assert_int_equal(tape_position(tape), 5);
	assert_int_equal(put_durably(&other, 2, 1, 3), 0);
	assert_int_equal(get(s, 1), 1);
	assert_int_equal(tape_position(tape), 7);
	dev_close(other.dev);
	sim_destroy(other.sim);
	return tape;
}

static void tape_is_cut_at_each_event(void **state)
{
	struct tape *tape = record_two(*state);
	struct tape_cursor *c = tape_cursor_new(tape);

	assert_int_equal(tape_cursor_unflushed(c), 0);
	tape_cursor_seek(c, 1); /* submitted: may have arrived */
	assert_int_equal(tape_cursor_unflushed(c), 1);
	assert_int_equal(tape_cursor_length(c, 0), 2);
	assert_int_equal(tape_peek(c, 0, 1, SIM_CUT_NONE, 0), 0);
	assert_int_equal(tape_peek(c, 0, 1, SIM_CUT_ALL, 0), 1);
	tape_cursor_seek(c, 4);
	assert_int_equal(tape_cursor_unflushed(c), 2);
	assert_int_equal(tape_peek(c, 0, 1, SIM_CUT_ONLY, 1), 0);
	assert_int_equal(tape_peek(c, 1, 1, SIM_CUT_ONLY, 1), 2);
	tape_cursor_seek(c, 5); /* one device's flush */
	assert_int_equal(tape_cursor_unflushed(c), 1);
	assert_int_equal(tape_peek(c, 0, 2, SIM_CUT_NONE, 0), 1);
	assert_int_equal(tape_peek(c, 1, 1, SIM_CUT_NONE, 0), 0);
	tape_cursor_seek(c, 6);
	assert_int_equal(tape_peek(c, 1, 2, SIM_CUT_NONE, 0), 0);
	assert_int_equal(tape_peek(c, 1, 2, SIM_CUT_BUT, 0), 3);
	tape_cursor_seek(c, 7); /* the durable write is done */
	assert_int_equal(tape_cursor_unflushed(c), 1);
	assert_int_equal(tape_peek(c, 1, 2, SIM_CUT_NONE, 0), 3);
	tape_cursor_free(c);
	tape_free(tape);
}

static void tape_can_ignore_flushes(void **state)
{
	struct tape *tape = record_two(*state);
	struct tape_cursor *c = tape_cursor_new(tape);

	tape_cursor_seek(c, 5);
	tape_cursor_ignore_flushes(c);
	tape_cursor_seek(c, 7);
	assert_int_equal(tape_cursor_unflushed(c), 2);
	assert_int_equal(tape_peek(c, 0, 1, SIM_CUT_NONE, 0), 1);
	assert_int_equal(tape_peek(c, 1, 2, SIM_CUT_NONE, 0), 0);
	tape_cursor_free(c);
	tape_free(tape);
}

struct calls {
	atomic_uint count;
	unsigned wrong;
	unsigned sector;
};

/* On the nth write, n-1 writes and this one must be on the medium. */
static void check_write(struct sim *sim, uint64_t nth, void *arg)
{
	struct calls *calls = arg;

	if (nth != atomic_fetch_add(&calls->count, 1) + 1u || sim_unflushed(sim) != nth ||
	    peek_cut(sim, calls->sector, SIM_CUT_ALL, 0, 0) != (int)nth ||
	    peek_cut(sim, calls->sector, SIM_CUT_BUT, nth - 1, 0) != (int)nth - 1)
		calls->wrong++;
}

static void callback_sees_each_write(void **state)
{
	struct setup *s = *state;
	struct calls calls = {.sector = 5};

	sim_on_write(s->sim, check_write, &calls);
	for (unsigned i = 1; i <= 20; i++) {
		assert_int_equal(put(s, 5, 1, i), 0);
		assert_int_equal(calls.count, i);
	}
	sim_fail(s->sim, DEV_WRITE, 0, SIZE, -EIO, 1);
	assert_int_equal(put(s, 5, 1, 99), -EIO);
	assert_int_equal(calls.count, 20);
	sim_on_write(s->sim, NULL, NULL);
	assert_int_equal(put(s, 5, 1, 99), 0);
	assert_int_equal(calls.count, 20);
	assert_int_equal(calls.wrong, 0);
}

static void faults_hit_what_touches_the_range(void **state)
{
	struct setup *s = *state;

	assert_int_equal(put(s, 0, 16, 1), 0);
	sim_fail(s->sim, DEV_READ, AT(4) + 100, AT(2), -ENODATA, 0); /* sectors 4, 5, 6 */
	assert_int_equal(get(s, 3), 1);
	for (unsigned i = 4; i < 7; i++)
		assert_int_equal(dev_read(s->dev, AT(i), s->buf, SECTOR_SIZE), -ENODATA);
	assert_int_equal(get(s, 7), 1);
	assert_int_equal(dev_read(s->dev, AT(0), s->buf, AT(5)), -ENODATA);
	assert_int_equal(dev_read(s->dev, AT(6), s->buf, AT(5)), -ENODATA);
	assert_int_equal(dev_read(s->dev, AT(0), s->buf, AT(16)), -ENODATA);
	assert_int_equal(dev_read(s->dev, AT(0), s->buf, AT(4)), 0);
	assert_int_equal(s->dev->stats.read_errors, 6);
	assert_int_equal(put(s, 5, 1, 2), 0);
	sim_fail(s->sim, DEV_READ, 0, 0, 0, 0);
	assert_int_equal(get(s, 5), 2);
}

static void faults_end_by_count(void **state)
{
	struct setup *s = *state;

	sim_fail(s->sim, DEV_WRITE, AT(2), AT(1), -EIO, 2);
	assert_int_equal(put(s, 2, 1, 1), -EIO);
	assert_int_equal(put(s, 1, 3, 2), -EIO);
	assert_int_equal(put(s, 2, 1, 3), 0);
	assert_int_equal(get(s, 1), 0);
	assert_int_equal(get(s, 2), 3);
	assert_int_equal(s->dev->stats.write_errors, 2);
	assert_int_equal(s->dev->stats.write_bytes, SECTOR_SIZE);
}

static void torn_writes_arrive_in_part(void **state)
{
	struct setup *s = *state;

	assert_int_equal(put(s, 0, 8, 1), 0);
	sim_tear(s->sim, true);
	sim_fail(s->sim, DEV_WRITE, AT(2), AT(1), -EIO, 1);
	assert_int_equal(put(s, 0, 8, 2), -EIO);
	assert_int_equal(get(s, 3), 2);
	assert_int_equal(get(s, 4), 1);
	assert_int_equal(put(s, 4, 4, 3), 0);
	assert_int_equal(get(s, 7), 3);
}

static void failed_flush_keeps_writes_volatile(void **state)
{
	struct setup *s = *state;

	assert_int_equal(put(s, 0, 1, 1), 0);
	sim_fail(s->sim, DEV_FLUSH, 0, SIZE, -EIO, 1);
	assert_int_equal(dev_flush(s->dev), -EIO);
	assert_int_equal(s->dev->stats.flush_errors, 1);
	assert_int_equal(sim_unflushed(s->sim), 1);
	assert_int_equal(peek_cut(s->sim, 0, SIM_CUT_NONE, 0, 0), 0);
	assert_int_equal(dev_flush(s->dev), 0);
	assert_int_equal(peek_cut(s->sim, 0, SIM_CUT_NONE, 0, 0), 1);
}

static void flip_is_silent_and_stays(void **state)
{
	struct setup *s = *state;

	assert_int_equal(put(s, 2, 1, 0x0f), 0);
	struct sim *before = sim_cut(s->sim, SIM_CUT_ALL, 0, 0);
	sim_flip(s->sim, AT(2) + 10, 0xff);
	assert_int_equal(get(s, 2), -1);
	assert_int_equal(s->buf[9], 0x0f);
	assert_int_equal(s->buf[10], 0xf0);
	assert_int_equal(s->buf[11], 0x0f);
	assert_int_equal(dev_flush(s->dev), 0);
	assert_int_equal(peek_cut(s->sim, 2, SIM_CUT_NONE, 0, 0), -1);
	assert_int_equal(peek(before, 2), 0x0f);
	sim_destroy(before);
}

static void poke_changes_everything(void **state)
{
	struct setup *s = *state;
	uint8_t data[SECTOR_SIZE + 200];

	assert_int_equal(put(s, 0, 3, 1), 0);
	memset(data, 7, sizeof(data));
	sim_poke(s->sim, SECTOR_SIZE - 100, data, sizeof(data));
	assert_int_equal(get(s, 1), 7);
	assert_int_equal(get(s, 0), -1);
	assert_int_equal(s->buf[SECTOR_SIZE - 101], 1);
	assert_int_equal(s->buf[SECTOR_SIZE - 100], 7);
	assert_int_equal(get(s, 2), -1);
	assert_int_equal(s->buf[99], 7);
	assert_int_equal(s->buf[100], 1);
	assert_int_equal(peek_cut(s->sim, 1, SIM_CUT_NONE, 0, 0), 7);
	assert_int_equal(peek_cut(s->sim, 1, SIM_CUT_ALL, 0, 0), 7);
	memset(data, 0, sizeof(data));
	sim_peek(s->sim, SECTOR_SIZE - 100, data, sizeof(data));
	for (unsigned i = 0; i < sizeof(data); i++)
		assert_int_equal(data[i], 7);
}

static void lost_writes_look_good(void **state)
{
	struct setup *s = *state;

	assert_int_equal(put(s, 0, 1, 1), 0);
	sim_lose_writes(s->sim, true);
	assert_int_equal(put(s, 0, 1, 2), 0);
	assert_int_equal(dev_flush(s->dev), 0);
	assert_int_equal(get(s, 0), 1);
	assert_int_equal(peek_cut(s->sim, 0, SIM_CUT_NONE, 0, 0), 0);
	sim_lose_writes(s->sim, false);
	assert_int_equal(dev_flush(s->dev), 0);
	assert_int_equal(peek_cut(s->sim, 0, SIM_CUT_NONE, 0, 0), 1);
}

static void gone_fails_everything(void **state)
{
	struct setup *s = *state;
	struct dev *other;

	sim_gone(s->sim, true);
	assert_int_equal(put(s, 0, 1, 1), -ENXIO);
	assert_int_equal(dev_read(s->dev, 0, s->buf, SECTOR_SIZE), -ENXIO);
	assert_int_equal(dev_flush(s->dev), -ENXIO);
	assert_int_equal(request_run(s->dev, DEV_DISCARD, 0, NULL, SECTOR_SIZE), -ENXIO);
	assert_int_equal(sim_open(s->sim, DEV_OPEN_RDONLY, &other), -ENXIO);
	sim_gone(s->sim, false);
	assert_int_equal(get(s, 0), 0);
}

#define HELD 12

static unsigned completed[HELD], completions;

static void note(struct dev_io *io)
{
	struct request *r = io->owner;

	completed[completions++] = io->offset / SECTOR_SIZE;
	sem_post(&r->done);
}

/* Submits HELD writes while the device holds them; returns when all have completed. */
static void complete_held(struct setup *s)
{
	struct request r[HELD];

	completions = 0;
	sim_hold(s->sim, true);
	for (unsigned i = 0; i < HELD; i++) {
		r[i].iov = (struct iovec){.iov_base = s->buf, .iov_len = SECTOR_SIZE};
		r[i].io = (struct dev_io){.op = DEV_WRITE,
					  .offset = AT(i),
					  .length = SECTOR_SIZE,
					  .iov = &r[i].iov,
					  .iovcnt = 1,
					  .done = note,
					  .owner = &r[i]};
		sem_init(&r[i].done, 0, 0);
		dev_submit(s->dev, &r[i].io);
	}
	assert_int_equal(sim_unflushed(s->sim), 0);
	sim_hold(s->sim, false);
	for (unsigned i = 0; i < HELD; i++)
		assert_int_equal(request_wait(&r[i]), 0);
	assert_int_equal(sim_unflushed(s->sim), HELD);
	assert_int_equal(dev_flush(s->dev), 0);
}

static void held_requests_complete_in_order(void **state)
{
	complete_held(*state);
	for (unsigned i = 0; i < HELD; i++)
		assert_int_equal(completed[i], i);
}

static void reordered_requests_all_complete(void **state)
{
	struct setup *s = *state;
	unsigned first[HELD], seen = 0, in_place = 0;

	sim_reorder(s->sim, 42);
	complete_held(s);
	for (unsigned i = 0; i < HELD; i++) {
		seen |= 1u << completed[i];
		in_place += completed[i] == i;
	}
	assert_int_equal(seen, (1u << HELD) - 1);
	assert_in_range(in_place, 0, HELD - 1);
	memcpy(first, completed, sizeof(first));
	sim_reorder(s->sim, 42);
	complete_held(s);
	assert_memory_equal(first, completed, sizeof(first));
}

static void refuses_what_breaks_the_rules(void **state)
{
	struct setup *s = *state;
	struct dev *dev = s->dev;

	assert_int_equal(dev_read(dev, 0, s->buf, 512), -EINVAL);
	assert_int_equal(dev_read(dev, 0, s->buf, 0), -EINVAL);
	assert_int_equal(dev_read(dev, 512, s->buf, SECTOR_SIZE), -EINVAL);
	assert_int_equal(dev_read(dev, 0, s->buf + 512, SECTOR_SIZE), -EINVAL);
	assert_int_equal(dev_read(dev, SIZE, s->buf, SECTOR_SIZE), -ENXIO);
	assert_int_equal(dev_write(dev, SIZE - SECTOR_SIZE, s->buf, AT(2)), -ENXIO);
	assert_int_equal(dev_read(dev, -AT(1), s->buf, AT(2)), -ENXIO);

	struct iovec iov[2] = {{s->buf, SECTOR_SIZE}, {s->buf, SECTOR_SIZE}};
	static const struct {
		uint64_t length;
		int iovcnt;
	} bad[] = {{AT(2), 0}, {AT(2), -1}, {AT(2), DEV_MAX_IOV + 1}, {AT(2), 1}, {AT(1), 2}};
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct request r = {.io = {.op = DEV_READ,
					   .length = bad[i].length,
					   .iov = iov,
					   .iovcnt = bad[i].iovcnt,
					   .done = request_done,
					   .owner = &r}};

		sem_init(&r.done, 0, 0);
		dev_submit(dev, &r.io);
		assert_int_equal(request_wait(&r), -EINVAL);
	}
	assert_int_equal(dev->stats.reads + dev->stats.writes, 0);
	assert_int_equal(dev->stats.read_errors + dev->stats.write_errors, 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    T(tells_its_geometry),
	    T(reads_what_was_written),
	    T(one_writer_many_readers),
	    T(cut_keeps_what_was_flushed),
	    T(cut_chooses_among_unflushed_writes),
	    T(random_cut_is_some_of_the_writes_in_some_order),
	    T(medium_after_a_cut_is_a_medium),
	    T(discard_is_a_write_of_zeros),
	    T(flush_covers_only_what_had_completed),
	    T(durable_write_covers_itself_alone),
	    T(failed_or_lost_durable_write_changes_nothing),
	    T(tape_is_cut_at_each_event),
	    T(tape_can_ignore_flushes),
	    T(callback_sees_each_write),
	    T(faults_hit_what_touches_the_range),
	    T(faults_end_by_count),
	    T(torn_writes_arrive_in_part),
	    T(failed_flush_keeps_writes_volatile),
	    T(flip_is_silent_and_stays),
	    T(poke_changes_everything),
	    T(lost_writes_look_good),
	    T(gone_fails_everything),
	    T(held_requests_complete_in_order),
	    T(reordered_requests_all_complete),
	    T(refuses_what_breaks_the_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
