// SPDX-License-Identifier: LGPL-3.0-or-later
#include "private_bus.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char configuration[] =
    "<busconfig><type>session</type><listen>unix:tmpdir=/tmp</listen><auth>EXTERNAL</auth>"
    "<policy context=\"default\"><allow send_destination=\"*\" eavesdrop=\"true\"/><allow "
    "eavesdrop=\"true\"/>"
    "<allow own=\"*\"/></policy></busconfig>";

static void start_daemon(struct private_bus *bus)
{
	char path[] = "/tmp/tarn-test-bus.XXXXXX", config[64], print[32];
	int file = mkstemp(path), out[2];
	ssize_t length;

	assert_true(file >= 0);
	assert_int_equal(write(file, configuration, sizeof(configuration) - 1),
			 sizeof(configuration) - 1);
	close(file);
	assert_int_equal(pipe(out), 0);
	snprintf(config, sizeof(config), "--config-file=%s", path);
	snprintf(print, sizeof(print), "--print-address=%d", out[1]);
	bus->daemon = fork();
	assert_true(bus->daemon >= 0);
	if (bus->daemon == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execlp("dbus-daemon", "dbus-daemon", config, "--nofork", print, NULL);
		_exit(127);
	}
	close(out[1]);
	length = read(out[0], bus->address, sizeof(bus->address) - 1);
	assert_true(length > 0);
	bus->address[length] = '\0';
	bus->address[strcspn(bus->address, "\n")] = '\0';
	close(out[0]);
	unlink(path);
}

static void *dispatch(void *arg)
{
	struct private_bus *bus = arg;

	while (!bus->stop && dbus_connection_read_write_dispatch(bus->server, 20))
		;
	return NULL;
}

void private_bus_start(struct private_bus *bus)
{
	memset(bus, 0, sizeof(*bus));
	start_daemon(bus);
	bus->server = dbus_connection_open_private(bus->address, NULL);
	assert_non_null(bus->server);
	assert_true(dbus_bus_register(bus->server, NULL));
	assert_int_equal(dbus_bus_request_name(bus->server, "org.ganesha.nfsd", 0, NULL),
			 DBUS_REQUEST_NAME_REPLY_PRIMARY_OWNER);
	assert_int_equal(pthread_create(&bus->dispatcher, NULL, dispatch, bus), 0);
	assert_int_equal(sd_bus_new(&bus->client), 0);
	assert_true(sd_bus_set_address(bus->client, bus->address) >= 0);
	assert_true(sd_bus_set_bus_client(bus->client, true) >= 0);
	assert_true(sd_bus_start(bus->client) >= 0);
}

void private_bus_stop_dispatching(struct private_bus *bus)
{
	if (bus->stop)
		return;
	bus->stop = true;
	pthread_join(bus->dispatcher, NULL);
}

void private_bus_end(struct private_bus *bus)
{
	sd_bus_flush_close_unref(bus->client);
	dbus_connection_close(bus->server);
	dbus_connection_unref(bus->server);
	kill(bus->daemon, SIGKILL);
	waitpid(bus->daemon, NULL, 0);
}
