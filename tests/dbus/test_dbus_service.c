// SPDX-License-Identifier: LGPL-3.0-or-later
/* What callers on the bus see: arguments, results, named errors, pages, and answers while
   other requests hang. */
#include "dbus.h"

#include "fake_engine.h"
#include "private_bus.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PREFIX "org.ganesha.nfsd.tarn."

static struct private_bus bus;
static struct tarn_engine engine;
static struct tarn_dbus *service;

static int set_up(void **state)
{
	(void)state;
	private_bus_start(&bus);
	fake_init(&engine);
	return tarn_dbus_attach(bus.server, &engine, &service);
}

static int tear_down(void **state)
{
	(void)state;
	private_bus_stop_dispatching(&bus);
	if (service)
		tarn_dbus_detach(service);
	private_bus_end(&bus);
	return 0;
}

/* Calls a method; the reply, or NULL with the error. */
#define CALL(error, interface, method, ...)                                                        \
	({                                                                                         \
		sd_bus_message *reply_ = NULL;                                                     \
		sd_bus_call_method(bus.client, "org.ganesha.nfsd", "/org/ganesha/nfsd/tarn",       \
				   PREFIX interface, method, error, &reply_, __VA_ARGS__);         \
		reply_;                                                                            \
	})

/* A call that must succeed and whose reply is of no interest. */
#define CALL_OK(interface, method, ...)                                                            \
	do {                                                                                       \
		sd_bus_error error_ = SD_BUS_ERROR_NULL;                                           \
		sd_bus_message *m_ = CALL(&error_, interface, method, __VA_ARGS__);                \
		if (!m_)                                                                           \
			fail_msg("%s: %s", error_.name, error_.message);                           \
		sd_bus_message_unref(m_);                                                          \
	} while (0)

/* A call that must fail with this error. */
#define CALL_FAILS(name_, text, interface, method, ...)                                            \
	do {                                                                                       \
		sd_bus_error error_ = SD_BUS_ERROR_NULL;                                           \
		assert_null(CALL(&error_, interface, method, __VA_ARGS__));                        \
		assert_string_equal(error_.name, PREFIX "Error." name_);                           \
		assert_string_equal(error_.message, text);                                         \
		sd_bus_error_free(&error_);                                                        \
	} while (0)

static void test_introspection(void **state)
{
	static const char *const wanted[] = {
	    "<interface name=\"" PREFIX "Pool\">",
	    "<interface name=\"" PREFIX "Dataset\">",
	    "<interface name=\"" PREFIX "Cache\">",
	    "<method name=\"Create\">\n   <arg name=\"name\" type=\"s\" direction=\"in\"/>\n",
	    "   <arg name=\"groups\" type=\"a(sas)\" direction=\"in\"/>\n",
	    "<arg name=\"next\" type=\"t\" direction=\"out\"/>",
	};
	sd_bus_message *reply = NULL;
	const char *xml;

	(void)state;
	assert_true(sd_bus_call_method(bus.client, "org.ganesha.nfsd", "/org/ganesha/nfsd/tarn",
				       "org.freedesktop.DBus.Introspectable", "Introspect", NULL,
				       &reply, "") >= 0);
	assert_true(sd_bus_message_read(reply, "s", &xml) > 0);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		assert_non_null(strstr(xml, wanted[i]));
	sd_bus_message_unref(reply);
}

static void test_arguments(void **state)
{
	(void)state;
	CALL_OK("Pool", "Create", "sa(sas)a{ss}a{sv}", "p", 2, "single", 1, "/a", "mirror", 2, "/b",
		"/c", 2, "comment", "x", "compression", "zstd", 1, "force", "b", 1);
	assert_string_equal(engine.last, "create p single(/a) mirror(/b,/c) comment=x "
					 "compression=zstd flags=1");
	CALL_OK("Pool", "Create", "sa(sas)a{ss}a{sv}", "p", 0, 0, 0);
	assert_string_equal(engine.last, "create p flags=0");
	CALL_OK("Pool", "Add", "sa(sas)a{sv}", "p", 1, "single", 1, "/a", 2, "force", "b", 1,
		"dry_run", "b", 1);
	assert_string_equal(engine.last, "add p single(/a) flags=3");
	CALL_OK("Pool", "Add", "sa(sas)a{sv}", "p", 2, "log single", 1, "/a", "log mirror", 2, "/b",
		"/c", 0);
	assert_string_equal(engine.last, "add p log single(/a) log mirror(/b,/c) flags=0");
	CALL_OK("Pool", "Remove", "ssa{sv}", "p", "mirror-1", 1, "dry_run", "b", 1);
	assert_string_equal(engine.last, "remove p log single(mirror-1) flags=2");
	CALL_OK("Pool", "Offline", "ssa{sv}", "p", "/a", 0);
	assert_string_equal(engine.last, "offline p single(/a) flags=0");
	CALL_OK("Pool", "Offline", "ssa{sv}", "p", "/a", 2, "temporary", "b", 1, "dry_run", "b", 1);
	assert_string_equal(engine.last, "offline-t p single(/a) flags=2");
	CALL_OK("Pool", "Online", "ssa{sv}", "p", "/a", 1, "dry_run", "b", 1);
	assert_string_equal(engine.last, "online p single(/a) flags=2");
	CALL_OK("Pool", "Destroy", "sa{sv}", "p", 1, "dry_run", "b", 1);
	assert_string_equal(engine.last, "destroy p flags=2");
	CALL_OK("Pool", "Set", "sa{ss}a{sv}", "p", 1, "comment", "y", 0);
	assert_string_equal(engine.last, "set p comment=y flags=0");
	CALL_OK("Dataset", "Create", "sa{ss}a{sv}", "p/a", 1, "atime", "on", 1, "parents", "b", 1);
	assert_string_equal(engine.last, "fs-create-p p/a atime=on flags=0");
	CALL_OK("Dataset", "Destroy", "sa{sv}", "p/a", 1, "recursive", "b", 1);
	assert_string_equal(engine.last, "fs-destroy-r p/a flags=0");
	CALL_OK("Dataset", "Rename", "ssa{sv}", "p/a", "p/b", 0);
	assert_string_equal(engine.last, "fs-rename p/a to=p/b flags=0");
	CALL_OK("Dataset", "Inherit", "ssa{sv}", "p/a", "atime", 0);
	assert_string_equal(engine.last, "fs-inherit p/a atime= flags=0");
	CALL_OK("Cache", "SetLimits", "a{sv}", 1, "arc_max", "t", (uint64_t)1 << 40);
	assert_true(engine.arc_max == (uint64_t)1 << 40 && engine.dirty_max == 0);
}

static void test_import(void **state)
{
	sd_bus_message *reply;
	const char *name;

	(void)state;
	CALL_OK("Pool", "Import", "sasa{sv}", "old", 1, "/d", 2, "new_name", "s", "new", "rewind",
		"b", 1);
	assert_string_equal(engine.last, "import old guid=0 new=new paths=1 flags=8");
	CALL_OK("Pool", "Import", "sasa{sv}", "old", 1, "/d", 1, "drop_log", "b", 1);
	assert_string_equal(engine.last, "import old guid=0 new=- paths=1 flags=16");
	/* By GUID: the reply tells the name, and the history has it. */
	reply = CALL(NULL, "Pool", "Import", "sasa{sv}", "12345678901234567890", 0, 1, "command",
		     "s", "tarn x");
	assert_non_null(reply);
	assert_string_equal(engine.last,
			    "import - guid=12345678901234567890 new=- paths=0 flags=0");
	assert_true(sd_bus_message_read(reply, "s", &name) > 0);
	assert_string_equal(name, "p");
	assert_string_equal(engine.history[engine.nhistory - 1], "p: tarn x");
	sd_bus_message_unref(reply);
}

static void test_errors(void **state)
{
	static const struct {
		int code;
		const char *name;
	} codes[] = {
	    {ENOSPC, "NoSpace"},
	    {EEXIST, "Exists"},
	    {ENOENT, "NotFound"},
	    {EBUSY, "Busy"},
	    {ENOTEMPTY, "NotEmpty"},
	    {EINVAL, "InvalidArgument"},
	    {EIO, "IO"},
	    {EROFS, "ReadOnly"},
	    {EREMOTE, "HostMismatch"},
	    {ENOTSUP, "NotSupported"},
	    {ENXIO, "NotFound"},
	    {EPIPE, "Failed"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		sd_bus_error error = SD_BUS_ERROR_NULL;
		char path[32], name[64], text[64];

		snprintf(path, sizeof(path), "error-%d", codes[i].code);
		snprintf(name, sizeof(name), PREFIX "Error.%s", codes[i].name);
		snprintf(text, sizeof(text), "Refused '%s'", path);
		assert_null(CALL(&error, "Pool", "Destroy", "sa{sv}", path, 0));
		assert_string_equal(error.name, name);
		assert_string_equal(error.message, text);
		sd_bus_error_free(&error);
	}
	CALL_FAILS("NoSpace", strerror(ENOSPC), "Pool", "Destroy", "sa{sv}", "bare-28", 0);
	CALL_FAILS("NotFound", "no pool 'q' is imported; 'tarn pool import' shows which can be",
		   "Pool", "Status", "s", "q");
}

static void test_bad_arguments(void **state)
{
	sd_bus_error error = SD_BUS_ERROR_NULL;

	(void)state;
	CALL_FAILS("InvalidArgument", "Status takes arguments of type 's', not 'u'", "Pool",
		   "Status", "u", 3);
	CALL_FAILS("InvalidArgument", "Clear has no option 'force'; it knows: command", "Pool",
		   "Clear", "sa{sv}", "p", 1, "force", "b", 1);
	CALL_FAILS("InvalidArgument", "option 'force' must be of type 'b'", "Pool", "Destroy",
		   "sa{sv}", "p", 1, "force", "s", "yes");
	CALL_FAILS("InvalidArgument",
		   "unknown kind of group 'raid9': use single, mirror, raidz1, raidz2 or raidz3, "
		   "or one of "
		   "the first two after 'log '",
		   "Pool", "Add", "sa(sas)a{sv}", "p", 1, "raid9", 1, "/a", 0);
	CALL_FAILS("InvalidArgument", "a limit is at least 8 MiB and at most this machine's memory",
		   "Cache", "SetLimits", "a{sv}", 1, "arc_max", "t", (uint64_t)1);
	CALL_FAILS("InvalidArgument", "no limit given: set arc_max or dirty_max", "Cache",
		   "SetLimits", "a{sv}", 0);
	assert_string_equal(engine.last, "");
	assert_null(CALL(&error, "Pool", "Explode", ""));
	assert_string_equal(error.name, "org.freedesktop.DBus.Error.UnknownMethod");
	sd_bus_error_free(&error);
}

/* The entered a{sv} has this text or number for key. Stands at its end afterwards. */
static void check_entry(sd_bus_message *dict, const char *key, const char *wanted)
{
	const char *name, *contents, *text;
	bool found = false;
	char number[32];
	uint64_t value;

	assert_true(sd_bus_message_rewind(dict, false) >= 0);
	while (sd_bus_message_enter_container(dict, 'e', "sv") > 0) {
		assert_true(sd_bus_message_read(dict, "s", &name) > 0);
		assert_true(sd_bus_message_peek_type(dict, NULL, &contents) > 0);
		if (strcmp(name, key)) {
			sd_bus_message_skip(dict, "v");
		} else if (!strcmp(contents, "s")) {
			assert_true(sd_bus_message_read(dict, "v", "s", &text) > 0);
			assert_string_equal(text, wanted);
			found = true;
		} else {
			assert_true(sd_bus_message_read(dict, "v", "t", &value) > 0);
			snprintf(number, sizeof(number), "%llu", (unsigned long long)value);
			assert_string_equal(number, wanted);
			found = true;
		}
		sd_bus_message_exit_container(dict);
	}
	assert_true(found);
}

/* Enters the array of dictionaries that the key of the entered dictionary holds. */
static void enter_entry(sd_bus_message *dict, const char *key)
{
	const char *name;

	assert_true(sd_bus_message_rewind(dict, false) >= 0);
	while (sd_bus_message_enter_container(dict, 'e', "sv") > 0) {
		assert_true(sd_bus_message_read(dict, "s", &name) > 0);
		if (!strcmp(name, key)) {
			assert_true(sd_bus_message_enter_container(dict, 'v', "aa{sv}") > 0);
			assert_true(sd_bus_message_enter_container(dict, 'a', "a{sv}") > 0);
			return;
		}
		sd_bus_message_skip(dict, "v");
		sd_bus_message_exit_container(dict);
	}
	fail_msg("no key %s", key);
}

static void test_status(void **state)
{
	sd_bus_message *m = CALL(NULL, "Pool", "Status", "s", "p");

	(void)state;
	assert_non_null(m);
	assert_true(sd_bus_message_enter_container(m, 'a', "{sv}") > 0);
	check_entry(m, "state", "DEGRADED");
	check_entry(m, "guid", "12345678901234567890");
	check_entry(m, "allocated", "1000");
	enter_entry(m, "groups");
	assert_true(sd_bus_message_enter_container(m, 'a', "{sv}") > 0);
	check_entry(m, "kind", "mirror");
	enter_entry(m, "devices");
	assert_true(sd_bus_message_enter_container(m, 'a', "{sv}") > 0);
	check_entry(m, "path", FAKE_DEVICE_SHOWN);
	sd_bus_message_exit_container(m);
	assert_true(sd_bus_message_enter_container(m, 'a', "{sv}") > 0);
	check_entry(m, "state", "FAULTED");
	check_entry(m, "checksum_errors", "7");
	sd_bus_message_exit_container(m);
	assert_int_equal(sd_bus_message_enter_container(m, 'a', "{sv}"), 0);
	sd_bus_message_unref(m);
	m = CALL(NULL, "Pool", "Status", "s", "p");
	assert_true(sd_bus_message_enter_container(m, 'a', "{sv}") > 0);
	enter_entry(m, "logs");
	assert_true(sd_bus_message_enter_container(m, 'a', "{sv}") > 0);
	check_entry(m, "kind", "single");
	enter_entry(m, "devices");
	assert_true(sd_bus_message_enter_container(m, 'a', "{sv}") > 0);
	check_entry(m, "path", "/dev/log");
	sd_bus_message_unref(m);
	m = CALL(NULL, "Pool", "Status", "s", "p");
	assert_true(sd_bus_message_enter_container(m, 'a', "{sv}") > 0);
	enter_entry(m, "lost_in");
	assert_true(sd_bus_message_enter_container(m, 'a', "{sv}") > 0);
	check_entry(m, "dataset", "p/lossy");
	check_entry(m, "changes", "9");
	sd_bus_message_unref(m);
}

static void test_text_is_escaped(void **state)
{
	sd_bus_message *m = CALL(NULL, "Pool", "Get", "s", "p");
	const char *name, *value, *source;

	(void)state;
	assert_non_null(m);
	assert_true(sd_bus_message_enter_container(m, 'a', "(sss)") > 0);
	assert_true(sd_bus_message_read(m, "(sss)", &name, &value, &source) > 0);
	assert_string_equal(value, "caf\\351");
	sd_bus_message_unref(m);
}

static void test_jobs(void **state)
{
	sd_bus_message *m = CALL(NULL, "Pool", "Errors", "s", "p");
	const char *object;
	uint64_t blocks;

	(void)state;
	assert_non_null(m);
	assert_true(sd_bus_message_enter_container(m, 'a', "(st)") > 0);
	assert_true(sd_bus_message_read(m, "(st)", &object, &blocks) > 0);
	assert_string_equal(object, "p:/caf\\351");
	assert_int_equal(blocks, 2);
	sd_bus_message_unref(m);
	CALL_OK("Pool", "Scrub", "ssa{sv}", "p", "start", 0);
	assert_string_equal(engine.last, "scrub p flags=0");
	CALL_OK("Pool", "Scrub", "ssa{sv}", "p", "pause", 0);
	assert_string_equal(engine.last, "pause p flags=0");
	CALL_OK("Pool", "Scrub", "ssa{sv}", "p", "stop", 0);
	assert_string_equal(engine.last, "stop p flags=0");
	CALL_FAILS("InvalidArgument", "a scrub has no action 'go', only start, pause and stop",
		   "Pool", "Scrub", "ssa{sv}", "p", "go", 0);
	CALL_FAILS("Busy", "Refused 'error-16'", "Pool", "Scrub", "ssa{sv}", "error-16", "start",
		   0);
	CALL_OK("Pool", "Resilver", "sa{sv}", "p", 0);
	assert_string_equal(engine.last, "resilver p flags=0");
	CALL_OK("Pool", "SetJobs", "sa{ss}a{sv}", "p", 1, "priority", "7", 0);
	assert_string_equal(engine.last, "jobs p priority=7 flags=0");
}

static void test_history(void **state)
{
	sd_bus_message *m;
	const char *text;
	int64_t when;
	uint64_t next = 0, rows = 0;

	(void)state;
	CALL_OK("Pool", "Clear", "sa{sv}", "p", 1, "command", "s", "tarn pool clear p");
	assert_string_equal(engine.history[0], "p: tarn pool clear p");
	CALL_OK("Pool", "Add", "sa(sas)a{sv}", "p", 0, 1, "dry_run", "b", 1);
	assert_int_equal(engine.nhistory, 1);
	/* A dataset's changes are in the history of its pool; without a command the method
	   is named. */
	CALL_OK("Dataset", "Set", "sa{ss}a{sv}", "p/a/b", 0, 0);
	assert_string_equal(engine.history[1], "p: org.ganesha.nfsd.tarn.Dataset.Set p/a/b");
	CALL_FAILS("NoSpace", "Refused 'error-28'", "Pool", "Clear", "sa{sv}", "error-28", 0);
	assert_int_equal(engine.nhistory, 2);

	for (; engine.nhistory < 2500; engine.nhistory++)
		snprintf(engine.history[engine.nhistory], 64, "event %u", engine.nhistory);
	do {
		m = CALL(NULL, "Pool", "History", "sa{sv}", "p", 2, "first", "t", next, "limit",
			 "t", (uint64_t)999);
		assert_non_null(m);
		assert_true(sd_bus_message_enter_container(m, 'a', "(xs)") > 0);
		while (sd_bus_message_read(m, "(xs)", &when, &text) > 0) {
			assert_int_equal(when, rows);
			assert_string_equal(text, engine.history[rows]);
			rows++;
		}
		sd_bus_message_exit_container(m);
		assert_true(sd_bus_message_read(m, "t", &next) > 0);
		assert_true(next == 0 || next == rows);
		sd_bus_message_unref(m);
	} while (next);
	assert_int_equal(rows, 2500);
}

/* Reads a page of datasets, checks that it goes on at row *at; true if there is another. */
static bool read_page(const char *after, uint64_t limit, unsigned *at, char next[64])
{
	sd_bus_message *m = CALL(NULL, "Dataset", "List", "sasa{sv}", "", 0, 3, "recursive", "b", 1,
				 "after", "s", after, "limit", "t", limit);
	unsigned rows = 0;
	const char *text;

	assert_non_null(m);
	assert_true(sd_bus_message_enter_container(m, 'a', "a{sv}") > 0);
	while (sd_bus_message_enter_container(m, 'a', "{sv}") > 0) {
		check_entry(m, "name", engine.datasets[*at]);
		sd_bus_message_exit_container(m);
		(*at)++;
		rows++;
	}
	assert_true(rows > 0 && rows <= limit);
	sd_bus_message_exit_container(m);
	assert_true(sd_bus_message_read(m, "s", &text) > 0);
	snprintf(next, 64, "%s", text);
	sd_bus_message_unref(m);
	return next[0];
}

static void test_dataset_pages(void **state)
{
	/* "a-b" comes behind "a/x": a parent's children follow it at once. */
	static const char *const paths[] = {"p",     "p/a",     "p/a/x", "p/a/x/y", "p/a/z",
					    "p/a-b", "p/a-b/c", "p/a.b", "p/ab",    "p/b"};
	enum { N = sizeof(paths) / sizeof(paths[0]) };

	(void)state;
	engine.datasets = paths;
	engine.ndatasets = N;
	for (uint64_t limit = 1; limit <= N + 1; limit++) {
		char next[64] = "";
		unsigned at = 0;

		while (read_page(next, limit, &at, next))
			;
		assert_int_equal(at, N);
	}
	CALL_FAILS("NotFound", "there is no dataset 'q'; 'tarn fs list' shows all", "Dataset",
		   "List", "sasa{sv}", "q", 0, 0);
}

static void test_dataset_properties(void **state)
{
	const char *name, *value, *source, *from;
	sd_bus_message *m = CALL(NULL, "Dataset", "Get", "sasa{sv}", "p", 3, "recordsize", "my:own",
				 "compression", 1, "raw", "b", 1);

	(void)state;
	assert_non_null(m);
	assert_true(sd_bus_message_enter_container(m, 'a', "(ssss)") > 0);
	assert_true(sd_bus_message_read(m, "(ssss)", &name, &value, &source, &from) > 0);
	assert_string_equal(name, "recordsize");
	assert_string_equal(value, "131072");
	assert_string_equal(source, "inherited");
	assert_string_equal(from, "p");
	/* my:own is set nowhere and has no row. */
	assert_true(sd_bus_message_read(m, "(ssss)", &name, &value, &source, &from) > 0);
	assert_string_equal(name, "compression");
	assert_string_equal(source, "default");
	assert_string_equal(from, "");
	assert_int_equal(sd_bus_message_at_end(m, false), 1);
	sd_bus_message_unref(m);
	CALL_FAILS("InvalidArgument", "Refused 'error-22'", "Dataset", "Get", "sasa{sv}", "p", 1,
		   "nonsense", 0);
}

static unsigned answered;

static int count_answer(sd_bus_message *m, void *arg, sd_bus_error *error)
{
	(void)arg;
	(void)error;
	assert_false(sd_bus_message_is_method_error(m, NULL));
	answered++;
	return 0;
}

static void call_hanging(const char *name)
{
	assert_true(sd_bus_call_method_async(bus.client, NULL, "org.ganesha.nfsd",
					     "/org/ganesha/nfsd/tarn", PREFIX "Pool", "Create",
					     count_answer, NULL, "sa(sas)a{ss}a{sv}", name, 0, 0,
					     0) >= 0);
}

static void wait_answers(unsigned n)
{
	while (answered < n) {
		if (sd_bus_process(bus.client, NULL) == 0)
			assert_true(sd_bus_wait(bus.client, UINT64_MAX) >= 0);
	}
}

/* As many requests as may hang do; those that need no device are answered all the same. */
static void test_answers_while_others_hang(void **state)
{
	(void)state;
	answered = 0;
	for (int i = 0; i < 64; i++)
		call_hanging("hang");
	assert_true(sd_bus_flush(bus.client) >= 0);
	fake_wait_hanging(&engine, 64);
	CALL_FAILS("Busy", "too many requests are waiting for devices", "Pool", "Create",
		   "sa(sas)a{ss}a{sv}", "other", 0, 0, 0);
	CALL_OK("Pool", "Status", "s", "p");
	CALL_OK("Pool", "List", "");
	CALL_OK("Cache", "Statistics", "");
	assert_int_equal(answered, 0);
	fake_release(&engine);
	wait_answers(64);
	CALL_OK("Pool", "Create", "sa(sas)a{ss}a{sv}", "other", 0, 0, 0);
}

static void *release_later(void *arg)
{
	fake_wait_hanging(&engine, 1);
	fake_release(&engine);
	return arg;
}

/* Detaching waits for the request at work, and its answer arrives. */
static void test_detach_drains(void **state)
{
	pthread_t thread;

	(void)state;
	answered = 0;
	call_hanging("hang");
	assert_true(sd_bus_flush(bus.client) >= 0);
	fake_wait_hanging(&engine, 1);
	private_bus_stop_dispatching(&bus);
	assert_int_equal(pthread_create(&thread, NULL, release_later, NULL), 0);
	tarn_dbus_detach(service);
	service = NULL;
	pthread_join(thread, NULL);
	assert_string_equal(engine.last, "create hang flags=0");
	wait_answers(1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    TEST(test_introspection),
	    TEST(test_arguments),
	    TEST(test_import),
	    TEST(test_errors),
	    TEST(test_bad_arguments),
	    TEST(test_status),
	    TEST(test_text_is_escaped),
	    TEST(test_history),
	    TEST(test_jobs),
	    TEST(test_dataset_pages),
	    TEST(test_dataset_properties),
	    TEST(test_answers_while_others_hang),
	    TEST(test_detach_drains),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
