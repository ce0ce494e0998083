// SPDX-License-Identifier: LGPL-3.0-or-later
#include "dbus.h"

#include "dbus_request.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OBJECT_PATH "/org/ganesha/nfsd/tarn"
#define ERROR_PREFIX "org.ganesha.nfsd.tarn.Error."

/* Requests at work at once. Those that wait for devices leave room for those that never do,
   so that a status is answered however many hang. */
#define MAX_WAITING 64
#define MAX_RUNNING 96

/* A reply sent while the dispatching thread sleeps on the connection leaves only when it wakes,
   in ganesha up to 100 ms later. So it stays awake for a moment for a request that may be
   answered at once, unless so many run that this is unlikely. */
#define PATIENCE_MS 50
#define PATIENCE_RUNNING 8

struct tarn_dbus {
	DBusConnection *connection;
	struct tarn_engine *engine;

	pthread_mutex_t lock; /* protects what follows; nothing else is taken under it */
	pthread_cond_t ended; /* a request has */
	bool stopping;
	unsigned running, waiting; /* requests; those of them that are not instant */
	/* The thread that ended last. It joins the one before it, so that after joining this
	   one no thread runs code of ours any more. */
	pthread_t last;
	bool has_last;
};

/* A request's thread and what it works on. */
struct job {
	struct tarn_dbus *service;
	bool *answered; /* set at the end for who waits, NULL if nobody does; under the lock */
	struct request request;
};

static const struct method *const interfaces[] = {dbus_pool_methods, dbus_dataset_methods,
						  dbus_cache_methods};
#define N_INTERFACES (sizeof(interfaces) / sizeof(interfaces[0]))

static const char *error_name(int code)
{
	static const struct {
		int code;
		const char *name;
	} names[] = {
	    {ENOSPC, "NoSpace"},
	    {EDQUOT, "QuotaExceeded"},
	    {EEXIST, "Exists"},
	    {ENOENT, "NotFound"},
	    {ENXIO, "NotFound"},
	    {ENODEV, "MissingDevice"},
	    {EBUSY, "Busy"},
	    {EAGAIN, "Busy"},
	    {ENOTEMPTY, "NotEmpty"},
	    {EINVAL, "InvalidArgument"},
	    {ENAMETOOLONG, "InvalidArgument"},
	    {E2BIG, "InvalidArgument"},
	    {ERANGE, "InvalidArgument"},
	    {EXDEV, "InvalidArgument"},
	    {EOPNOTSUPP, "NotSupported"},
	    {EIO, "IO"},
	    {EBADMSG, "Damaged"},
	    {EILSEQ, "Damaged"},
	    {EUCLEAN, "Damaged"},
	    {EROFS, "ReadOnly"},
	    {EREMOTE, "HostMismatch"},
	    {EPERM, "AccessDenied"},
	    {EACCES, "AccessDenied"},
	    {ENOMEM, "NoMemory"},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].code == code)
			return names[i].name;
	return "Failed";
}

static DBusMessage *error_reply(DBusMessage *message, int result, const char *text)
{
	char name[128], fallback[256];
	struct out out = {0};
	DBusMessage *reply;

	snprintf(name, sizeof(name), ERROR_PREFIX "%s", error_name(-result));
	if (!text[0])
		text = strerror_r(-result, fallback, sizeof(fallback));
	reply = dbus_message_new_error(message, name, NULL);
	if (!reply)
		return NULL;
	dbus_message_iter_init_append(reply, &out.iter);
	put_text(&out, text);
	return reply;
}

/* Takes over reply, which may be NULL for lack of memory. */
static void send_reply(DBusConnection *connection, DBusMessage *message, DBusMessage *reply)
{
	if (!reply)
		return;
	if (!dbus_message_get_no_reply(message))
		dbus_connection_send(connection, reply, NULL);
	dbus_message_unref(reply);
}

static void refuse(struct tarn_dbus *service, DBusMessage *message, int result, const char *text)
{
	send_reply(service->connection, message, error_reply(message, result, text));
}

static void run_request(struct tarn_dbus *service, struct request *rq)
{
	DBusMessage *reply = dbus_message_new_method_return(rq->message);
	int r = -ENOMEM;

	if (reply) {
		dbus_message_iter_init_append(reply, &rq->out.iter);
		dbus_message_iter_init(rq->message, &rq->in);
		r = rq->method->run(rq);
		if (!r && rq->out.failed)
			r = -ENOMEM;
	}
	if (r) {
		if (reply)
			dbus_message_unref(reply);
		reply = error_reply(rq->message, r, rq->error.text);
	}
	send_reply(service->connection, rq->message, reply);
	request_free_memory(rq);
}

/* Counts a request in. */
static int begin(struct tarn_dbus *service, bool instant)
{
	int r = 0;

	pthread_mutex_lock(&service->lock);
	if (service->stopping)
		r = -ECANCELED;
	else if (service->running >= MAX_RUNNING || (!instant && service->waiting >= MAX_WAITING))
		r = -EBUSY;
	if (!r) {
		service->running++;
		service->waiting += !instant;
	}
	pthread_mutex_unlock(&service->lock);
	return r;
}

/* Counts it out. service may be gone afterwards. */
static void end(struct tarn_dbus *service, bool instant)
{
	service->waiting -= !instant;
	service->running--;
	pthread_cond_broadcast(&service->ended);
	pthread_mutex_unlock(&service->lock);
}

static void *job_thread(void *arg)
{
	struct job *job = arg;
	struct tarn_dbus *service = job->service;
	bool instant = job->request.method->instant, has_previous;
	pthread_t previous;

	run_request(service, &job->request);
	dbus_message_unref(job->request.message);

	pthread_mutex_lock(&service->lock);
	if (job->answered)
		*job->answered = true;
	free(job);
	previous = service->last;
	has_previous = service->has_last;
	service->last = pthread_self();
	service->has_last = true;
	end(service, instant);
	if (has_previous)
		pthread_join(previous, NULL);
	return NULL;
}

/* Waits a moment for the job, which is gone if it has set *answered. */
static void wait_briefly(struct tarn_dbus *service, struct job *job, bool *answered)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += PATIENCE_MS * 1000000l;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&service->lock);
	while (!*answered && service->running <= PATIENCE_RUNNING)
		if (pthread_cond_timedwait(&service->ended, &service->lock, &until))
			break;
	if (!*answered)
		job->answered = NULL;
	pthread_mutex_unlock(&service->lock);
}

static int start_job(struct tarn_dbus *service, const struct method *method, DBusMessage *message)
{
	struct job *job;
	bool answered = false;
	pthread_t thread;
	int r = begin(service, method->instant);

	if (r)
		return r;
	job = calloc(1, sizeof(*job));
	r = job ? 0 : -ENOMEM;
	if (!r) {
		job->service = service;
		job->answered = &answered;
		job->request.engine = service->engine;
		job->request.method = method;
		job->request.message = dbus_message_ref(message);
		r = -pthread_create(&thread, NULL, job_thread, job);
	}
	if (r) {
		if (job)
			dbus_message_unref(message);
		free(job);
		pthread_mutex_lock(&service->lock);
		end(service, method->instant);
		return r;
	}
	wait_briefly(service, job, &answered);
	return 0;
}

static const struct method *find_method(const char *interface, const char *name)
{
	for (size_t i = 0; i < N_INTERFACES; i++)
		for (const struct method *m = interfaces[i]; m->name; m++)
			if (!strcmp(m->name, name) && !strcmp(m->interface, interface))
				return m;
	return NULL;
}

/* Splits the next "name:signature" off; false at the end. */
static bool next_arg(const char **args, char name[64], char signature[64])
{
	int used = 0;

	if (sscanf(*args, " %63[^:]:%63s%n", name, signature, &used) != 2)
		return false;
	*args += used;
	return true;
}

/* Answers at once if the arguments are not those of the method. */
static bool signature_fits(struct tarn_dbus *service, const struct method *method,
			   DBusMessage *message)
{
	char name[64], one[64], all[256] = "", text[512];
	const char *args = method->in;

	while (next_arg(&args, name, one))
		strncat(all, one, sizeof(all) - strlen(all) - 1);
	if (dbus_message_has_signature(message, all))
		return true;
	snprintf(text, sizeof(text), "%s takes arguments of type '%s', not '%s'", method->name, all,
		 dbus_message_get_signature(message));
	refuse(service, message, -EINVAL, text);
	return false;
}

static void describe_args(FILE *xml, const char *args, const char *direction)
{
	char name[64], signature[64];

	while (next_arg(&args, name, signature))
		fprintf(xml, "   <arg name=\"%s\" type=\"%s\" direction=\"%s\"/>\n", name,
			signature, direction);
}

static void describe(FILE *xml)
{
	fputs(DBUS_INTROSPECT_1_0_XML_DOCTYPE_DECL_NODE
	      "<node>\n <interface name=\"" DBUS_INTERFACE_INTROSPECTABLE "\">\n"
	      "  <method name=\"Introspect\">\n"
	      "   <arg name=\"data\" type=\"s\" direction=\"out\"/>\n"
	      "  </method>\n </interface>\n",
	      xml);
	for (size_t i = 0; i < N_INTERFACES; i++) {
		fprintf(xml, " <interface name=\"%s\">\n", interfaces[i]->interface);
		for (const struct method *m = interfaces[i]; m->name; m++) {
			fprintf(xml, "  <method name=\"%s\">\n", m->name);
			describe_args(xml, m->in, "in");
			describe_args(xml, m->out, "out");
			fputs("  </method>\n", xml);
		}
		fputs(" </interface>\n", xml);
	}
	fputs("</node>\n", xml);
}

static DBusHandlerResult introspect(struct tarn_dbus *service, DBusMessage *message)
{
	char *text = NULL;
	size_t size;
	FILE *xml = open_memstream(&text, &size);
	DBusMessage *reply = NULL;

	if (xml) {
		describe(xml);
		if (!fclose(xml))
			reply = dbus_message_new_method_return(message);
	}
	if (reply)
		dbus_message_append_args(reply, DBUS_TYPE_STRING, &text, DBUS_TYPE_INVALID);
	free(text);
	if (!reply)
		return DBUS_HANDLER_RESULT_NEED_MEMORY;
	send_reply(service->connection, message, reply);
	return DBUS_HANDLER_RESULT_HANDLED;
}

static DBusHandlerResult handle(DBusConnection *connection, DBusMessage *message, void *user_data)
{
	struct tarn_dbus *service = user_data;
	const char *interface = dbus_message_get_interface(message);
	const struct method *method;
	int r;

	(void)connection;
	if (dbus_message_is_method_call(message, DBUS_INTERFACE_INTROSPECTABLE, "Introspect"))
		return introspect(service, message);
	if (dbus_message_get_type(message) != DBUS_MESSAGE_TYPE_METHOD_CALL || !interface)
		return DBUS_HANDLER_RESULT_NOT_YET_HANDLED;
	method = find_method(interface, dbus_message_get_member(message));
	if (!method)
		return DBUS_HANDLER_RESULT_NOT_YET_HANDLED;
	if (!signature_fits(service, method, message))
		return DBUS_HANDLER_RESULT_HANDLED;
	r = start_job(service, method, message);
	if (r == -EBUSY)
		refuse(service, message, r, "too many requests are waiting for devices");
	else if (r == -ECANCELED)
		refuse(service, message, -EBUSY, "the server is shutting down");
	else if (r)
		refuse(service, message, r, "");
	return DBUS_HANDLER_RESULT_HANDLED;
}

int tarn_dbus_attach(DBusConnection *connection, struct tarn_engine *engine, struct tarn_dbus **out)
{
	static const DBusObjectPathVTable vtable = {.message_function = handle};
	struct tarn_dbus *service = calloc(1, sizeof(*service));
	pthread_condattr_t monotonic;

	if (!service)
		return -ENOMEM;
	service->connection = dbus_connection_ref(connection);
	service->engine = engine;
	pthread_mutex_init(&service->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&service->ended, &monotonic);
	pthread_condattr_destroy(&monotonic);
	/* A lost bus must not end the process: files are served without it. */
	dbus_connection_set_exit_on_disconnect(connection, FALSE);
	if (!dbus_connection_register_object_path(connection, OBJECT_PATH, &vtable, service)) {
		dbus_connection_unref(connection);
		free(service);
		return -ENOMEM;
	}
	*out = service;
	return 0;
}

void tarn_dbus_detach(struct tarn_dbus *service)
{
	dbus_connection_unregister_object_path(service->connection, OBJECT_PATH);
	pthread_mutex_lock(&service->lock);
	service->stopping = true;
	while (service->running > 0)
		pthread_cond_wait(&service->ended, &service->lock);
	pthread_mutex_unlock(&service->lock);
	if (service->has_last)
		pthread_join(service->last, NULL);
	dbus_connection_flush(service->connection);
	dbus_connection_unref(service->connection);
	pthread_cond_destroy(&service->ended);
	pthread_mutex_destroy(&service->lock);
	free(service);
}

/* The server's one service; set and cleared by its start and shutdown alone. */
static struct tarn_dbus *server_service;

int tarn_dbus_start(struct tarn_engine *engine)
{
	/* libdbus keeps one shared connection to each bus: the one that owns the name. */
	DBusConnection *connection = dbus_bus_get(DBUS_BUS_SYSTEM, NULL);
	int r;

	if (!connection)
		return -ENOTCONN;
	r = tarn_dbus_attach(connection, engine, &server_service);
	dbus_connection_unref(connection);
	return r;
}

void tarn_dbus_stop(void)
{
	if (!server_service)
		return;
	tarn_dbus_detach(server_service);
	server_service = NULL;
}
