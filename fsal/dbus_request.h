// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * One method call: its arguments, its reply and its errors. Private to fsal/dbus*.c.
 *
 * A method's function runs in a thread of its own and owns its request alone. It takes the
 * arguments in their order (the signature has been checked), calls the engine, and puts the
 * results in their order.
 */
#ifndef TARN_FSAL_DBUS_REQUEST_H
#define TARN_FSAL_DBUS_REQUEST_H

#include <dbus/dbus.h>
#include <tarn/pool.h>

/* Rows of a reply when the caller names no limit, and at most. */
#define PAGE_DEFAULT 1000
#define PAGE_MAX 10000
/* A reply ends its page early beyond this: 32 MiB would cost the connection. */
#define PAGE_BYTES (8u << 20)

/* The a{sv} argument. A method lists the ones it knows; others are refused. */
struct request_options {
	dbus_bool_t force, dry_run, recursive, parents, raw, read_only, rewind, drop_log;
	dbus_bool_t temporary;
	const char *command;   /* for the pool's history */
	const char *new_name;  /* NULL = keep */
	const char *after;     /* page starts behind this path */
	uint64_t first, limit; /* page starts at this row; rows of a page */
	uint64_t arc_max, dirty_max;
};

/* A container of the reply being written. */
struct out {
	DBusMessageIter iter;
	size_t bytes; /* about, written so far */
	bool opened;  /* iter is to be closed or abandoned */
	bool failed;  /* no memory */
};

struct request {
	struct tarn_engine *engine;
	const struct method *method;
	DBusMessage *message;
	DBusMessageIter in;
	struct request_options options;
	struct out out;
	struct tarn_error error;
	struct request_block *memory; /* of the arguments, freed with the request */
};

struct method {
	const char *interface, *name;
	/* "name:signature" of each argument, separated by spaces */
	const char *in, *out;
	const char *options; /* keys of the a{sv}, separated by spaces; NULL = no such argument */
	bool instant;        /* answers from memory, never waits for a device */
	int (*run)(struct request *rq);
};

/* End with a zeroed element. */
extern const struct method dbus_pool_methods[];
extern const struct method dbus_dataset_methods[];
extern const struct method dbus_cache_methods[];

/* Arguments. They stay valid as long as the request. NULL and -ENOMEM in rq->error on
   lack of memory; n = 0 gives a pointer too. */
const char *take_string(struct request *rq);
const char **take_strings(struct request *rq, uint32_t *n);
struct tarn_prop *take_props(struct request *rq, uint32_t *n);
/* Also NULL for an unknown kind (-EINVAL). */
struct tarn_group_spec *take_groups(struct request *rq, uint32_t *n);
int take_options(struct request *rq);
void request_free_memory(struct request *rq);

/* The engine's flags that the options ask for. */
int request_flags(const struct request *rq);
/* Rows of the page asked for. */
uint32_t request_limit(const struct request *rq);

/* Sets the error text if the engine gave none; returns result. */
int request_fail(struct request *rq, int result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Appends the command to the history of the pool of this path, unless it was a dry run. */
void request_record(struct request *rq, const char *path);

/* Results. Text that is not UTF-8 is escaped: libdbus would end the process. */
void put_text(struct out *out, const char *text);
void put_u64(struct out *out, uint64_t value);
void put_i64(struct out *out, int64_t value);
void put_open(struct out *parent, int type, const char *signature, struct out *child);
void put_close(struct out *parent, struct out *child);
/* Entries of an a{sv}. */
void put_entry_text(struct out *dict, const char *key, const char *text);
void put_entry_u64(struct out *dict, const char *key, uint64_t value);
void put_entry_i64(struct out *dict, const char *key, int64_t value);
void put_entry_bool(struct out *dict, const char *key, bool value);
/* An entry whose value is an array of the given element signature, written to array. */
struct out_array {
	struct out entry, variant, array;
};
void put_entry_open(struct out *dict, const char *key, const char *element, struct out_array *a);
void put_entry_close(struct out *dict, struct out_array *a);

#endif
