// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * A message bus of the test's own, with one connection that owns org.ganesha.nfsd and is
 * dispatched by a thread, as in the server, and one for the client.
 */
#ifndef TARN_TESTS_PRIVATE_BUS_H
#define TARN_TESTS_PRIVATE_BUS_H

#include <dbus/dbus.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <systemd/sd-bus.h>

struct private_bus {
	char address[512];
	pid_t daemon;
	DBusConnection *server;
	pthread_t dispatcher;
	atomic_bool stop;
	sd_bus *client;
};

void private_bus_start(struct private_bus *bus);
/* Also when it has stopped already. */
void private_bus_stop_dispatching(struct private_bus *bus);
/* After private_bus_stop_dispatching(). */
void private_bus_end(struct private_bus *bus);

#endif
