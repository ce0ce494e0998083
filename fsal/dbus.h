// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * The administration service: object /org/ganesha/nfsd/tarn on the bus name that its
 * process owns (org.ganesha.nfsd inside the server). docs/dbus.md describes the methods.
 *
 * Owns its object path and one thread for each request being worked on: the thread that
 * dispatches the connection takes requests in and never waits for one longer than a moment, so
 * a device that hangs holds up no other service and no other request. Who may call is the bus
 * policy's decision: ganesha's admits root alone.
 */
#ifndef TARN_FSAL_DBUS_H
#define TARN_FSAL_DBUS_H

#include <dbus/dbus.h>

struct tarn_engine;
struct tarn_dbus;

/* Serves engine on a connection that somebody else dispatches. */
int tarn_dbus_attach(DBusConnection *connection, struct tarn_engine *engine,
		     struct tarn_dbus **out);

/* Takes no more requests, and returns when all are answered. Call it from the thread that
   dispatches the connection, or when nobody dispatches any more. */
void tarn_dbus_detach(struct tarn_dbus *service);

/* Attaches to the server's own connection to the system bus. From any thread, once the
   server has connected; -ENOTCONN if there is no bus. */
int tarn_dbus_start(struct tarn_engine *engine);

/* Undoes tarn_dbus_start(), if it succeeded. After the server's own D-Bus shutdown. */
void tarn_dbus_stop(void);

#endif
