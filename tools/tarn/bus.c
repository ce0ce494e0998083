// SPDX-License-Identifier: LGPL-3.0-or-later
#include "bus.h"

#include "tarn.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SERVICE "org.ganesha.nfsd"
#define OBJECT_PATH "/org/ganesha/nfsd/tarn"
#define INTERFACE_PREFIX "org.ganesha.nfsd.tarn."

struct bus_call {
	sd_bus *bus;
	sd_bus_message *message;
};

static void check(int r)
{
	if (r < 0)
		fail("cannot talk to the server over D-Bus: %s", strerror(-r));
}

static _Noreturn void fail_call(const sd_bus_error *error)
{
	static const struct {
		const char *name, *advice;
	} known[] = {
	    {"org.freedesktop.DBus.Error.ServiceUnknown",
	     "the NFS server is not running (nobody owns " SERVICE " on the system bus); start it "
	     "with: systemctl start nfs-ganesha"},
	    {"org.freedesktop.DBus.Error.NameHasNoOwner",
	     "the NFS server is not running; start it with: systemctl start nfs-ganesha"},
	    {"org.freedesktop.DBus.Error.UnknownObject",
	     "the NFS server runs without Tarn; it needs an export with FSAL { Name = TARN; }. If "
	     "it has one, /var/log/ganesha/ganesha.log says why Tarn did not start"},
	    {"org.freedesktop.DBus.Error.UnknownMethod",
	     "the NFS server runs without Tarn or with another version of it; it needs an export "
	     "with FSAL { Name = TARN; }, and libfsaltarn.so and tarn of the same version. If it "
	     "has both, /var/log/ganesha/ganesha.log says why Tarn did not start"},
	    {"org.freedesktop.DBus.Error.AccessDenied",
	     "only root may administrate pools: try sudo tarn"},
	    {"org.freedesktop.DBus.Error.NoReply",
	     "the NFS server ended before it answered; /var/log/ganesha/ganesha.log may say why"},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (sd_bus_error_has_name(error, known[i].name))
			fail("%s", known[i].advice);
	fail("%s", error->message && error->message[0] ? error->message : error->name);
}

/* The server owns its name a moment before Tarn is there: waits for that. */
static void wait_for_service(sd_bus *bus)
{
	const unsigned pause_us = 100000, pauses = 50;

	for (unsigned i = 0;; i++) {
		sd_bus_error error = SD_BUS_ERROR_NULL;
		int r = sd_bus_call_method(bus, SERVICE, OBJECT_PATH,
					   "org.freedesktop.DBus.Introspectable", "Introspect",
					   &error, NULL, "");

		if (r >= 0)
			return;
		if (i == pauses || !sd_bus_error_has_name(&error, SD_BUS_ERROR_UNKNOWN_OBJECT))
			fail_call(&error);
		sd_bus_error_free(&error);
		usleep(pause_us);
	}
}

static sd_bus *connect_bus(void)
{
	static sd_bus *bus;
	int r;

	if (bus)
		return bus;
	r = sd_bus_open_system(&bus);
	if (r == -EACCES || r == -EPERM)
		fail("only root may administrate pools: try sudo tarn");
	if (r < 0)
		fail("cannot reach the D-Bus system bus (%s); start it with: "
		     "systemctl start dbus",
		     strerror(-r));
	wait_for_service(bus);
	return bus;
}

struct bus_call *bus_call(const char *interface, const char *method)
{
	struct bus_call *call = checked(calloc(1, sizeof(*call)));
	char name[128];

	snprintf(name, sizeof(name), INTERFACE_PREFIX "%s", interface);
	call->bus = connect_bus();
	check(sd_bus_message_new_method_call(call->bus, &call->message, SERVICE, OBJECT_PATH, name,
					     method));
	return call;
}

void bus_string(struct bus_call *call, const char *text)
{
	check(sd_bus_message_append_basic(call->message, 's', text));
}

void bus_strings(struct bus_call *call, char *const *strings, size_t n)
{
	check(sd_bus_message_open_container(call->message, 'a', "s"));
	for (size_t i = 0; i < n; i++)
		bus_string(call, strings[i]);
	check(sd_bus_message_close_container(call->message));
}

void bus_props(struct bus_call *call, struct json_object *props)
{
	check(sd_bus_message_open_container(call->message, 'a', "{ss}"));
	json_object_object_foreach(props, key, value)
	{
		check(sd_bus_message_append(call->message, "{ss}", key,
					    json_object_get_string(value)));
	}
	check(sd_bus_message_close_container(call->message));
}

void bus_groups(struct bus_call *call, struct json_object *groups)
{
	sd_bus_message *m = call->message;

	check(sd_bus_message_open_container(m, 'a', "(sas)"));
	for (size_t i = 0; i < json_object_array_length(groups); i++) {
		struct json_object *group = json_object_array_get_idx(groups, i);
		struct json_object *devices = json_object_object_get(group, "devices");

		check(sd_bus_message_open_container(m, 'r', "sas"));
		bus_string(call, get_text(group, "kind"));
		check(sd_bus_message_open_container(m, 'a', "s"));
		for (size_t d = 0; d < json_object_array_length(devices); d++)
			bus_string(call,
				   json_object_get_string(json_object_array_get_idx(devices, d)));
		check(sd_bus_message_close_container(m));
		check(sd_bus_message_close_container(m));
	}
	check(sd_bus_message_close_container(m));
}

void bus_options(struct bus_call *call, struct json_object *options)
{
	sd_bus_message *m = call->message;

	check(sd_bus_message_open_container(m, 'a', "{sv}"));
	json_object_object_foreach(options, key, value)
	{
		if (json_object_is_type(value, json_type_boolean))
			check(sd_bus_message_append(m, "{sv}", key, "b",
						    json_object_get_boolean(value)));
		else if (json_object_is_type(value, json_type_int))
			check(sd_bus_message_append(m, "{sv}", key, "t",
						    json_object_get_uint64(value)));
		else
			check(sd_bus_message_append(m, "{sv}", key, "s",
						    json_object_get_string(value)));
	}
	check(sd_bus_message_close_container(m));
	json_object_put(options);
}

static struct json_object *read_value(sd_bus_message *m);

static struct json_object *read_basic(sd_bus_message *m, char type)
{
	union {
		const char *s;
		int b;
		uint64_t t;
		int64_t x;
	} value;

	check(sd_bus_message_read_basic(m, type, &value));
	switch (type) {
	case 's':
		return json_object_new_string(value.s);
	case 'b':
		return json_object_new_boolean(value.b);
	case 't':
		return json_object_new_uint64(value.t);
	case 'x':
		return json_object_new_int64(value.x);
	}
	fail("the server's reply has a value of the unknown type '%c'; tarn and the server are of "
	     "different versions",
	     type);
}

static struct json_object *read_dictionary(sd_bus_message *m)
{
	struct json_object *object = json_object_new_object();
	int r;

	while ((r = sd_bus_message_at_end(m, false)) == 0) {
		const char *key;

		check(sd_bus_message_enter_container(m, 'e', "sv"));
		check(sd_bus_message_read_basic(m, 's', &key));
		json_object_object_add(object, key, read_value(m));
		check(sd_bus_message_exit_container(m));
	}
	check(r);
	return object;
}

static struct json_object *read_sequence(sd_bus_message *m)
{
	struct json_object *array = json_object_new_array();
	int r;

	while ((r = sd_bus_message_at_end(m, false)) == 0)
		json_object_array_add(array, read_value(m));
	check(r);
	return array;
}

/* The next value of the message or of the container that has been entered. */
static struct json_object *read_value(sd_bus_message *m)
{
	struct json_object *value;
	const char *contents;
	char type;

	check(sd_bus_message_peek_type(m, &type, &contents));
	if (type != 'a' && type != 'r' && type != 'v')
		return read_basic(m, type);
	check(sd_bus_message_enter_container(m, type, contents));
	if (type == 'v')
		value = read_value(m);
	else if (type == 'a' && contents[0] == '{')
		value = read_dictionary(m);
	else
		value = read_sequence(m);
	check(sd_bus_message_exit_container(m));
	return value;
}

struct json_object *bus_send(struct bus_call *call)
{
	sd_bus_error error = SD_BUS_ERROR_NULL;
	sd_bus_message *reply;
	struct json_object *values;
	int r = sd_bus_call(call->bus, call->message, UINT64_MAX, &error, &reply);

	if (r < 0 && sd_bus_error_is_set(&error))
		fail_call(&error);
	check(r);
	values = read_sequence(reply);
	sd_bus_message_unref(reply);
	sd_bus_message_unref(call->message);
	free(call);
	return values;
}
