// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Calls to the server over the system bus. Replies and a{sv} arguments are JSON values:
 * dictionaries are objects, arrays and structures are arrays.
 *
 * Everything here ends the program with exit status 1 and a message when the server cannot
 * be reached or refuses, so callers see successful replies only.
 */
#ifndef TARN_TOOLS_BUS_H
#define TARN_TOOLS_BUS_H

#include <json-c/json.h>
#include <stddef.h>
#include <systemd/sd-bus.h>

/* Append arguments, in the order of the method's signature. */
struct bus_call;
struct bus_call *bus_call(const char *interface, const char *method);
void bus_string(struct bus_call *call, const char *text);
void bus_strings(struct bus_call *call, char *const *strings, size_t n);
/* An object of strings as a{ss}. */
void bus_props(struct bus_call *call, struct json_object *props);
/* An array of {"kind": ..., "devices": [...]} as a(sas). */
void bus_groups(struct bus_call *call, struct json_object *groups);
/* An object of booleans, integers and strings as a{sv}. */
void bus_options(struct bus_call *call, struct json_object *options);

/* Sends the call and frees it. Returns the array of the reply's values; waits as long as
   it takes. */
struct json_object *bus_send(struct bus_call *call);

#endif
