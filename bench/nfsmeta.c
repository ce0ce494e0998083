// SPDX-License-Identifier: LGPL-3.0-or-later
//
// nfsmeta SERVER EXPORT CONNECTIONS DIRECTORIES FILES OPERATION[:TIMES]...
//
// A load of metadata operations on an NFSv3 server, for benchmarks. Makes DIRECTORIES new
// directories and runs each OPERATION, TIMES over, on all FILES (counted over all directories):
// every connection has its own share of the files and one call on its way. File number i is in
// directory i % DIRECTORIES and belongs to connection i % CONNECTIONS. Operations:
//
//   create       CREATE of an empty file
//   touch        what touch(1) does to a new name: LOOKUP, CREATE, SETATTR; timed as one
//   save         what a program does that wants its file to last: CREATE, WRITE of 4 KiB, COMMIT;
//                timed as one
//   lookup       LOOKUP by name
//   stat         GETATTR by handle
//   readdirplus  each connection lists one directory; timed by call, counted by entry
//   rename       to another name in the same directory
//   unlink       REMOVE; should come last: the directories are removed at the end
//
// Prints a line of JSON for each: {"op", "count", "seconds", "cpu", "p50", "p99"}, latencies in
// microseconds; cpu is what the process SERVER_PID of the environment took, in seconds. A "try
// later" answer is repeated after 5 ms and its time counted. Any error ends the program. One thread
// does it all, so the client takes little of the machine.
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <nfsc/libnfs.h> /* the others need it first */

#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>
#include <nfsc/libnfs-raw.h>

#define RETRY_NS 5000000u
#define LIST_BYTES 65536
#define SAVE_BYTES 4096

struct handle {
	uint32_t len;
	char bytes[64];
};

struct connection {
	struct rpc_context *rpc;
	unsigned file;   /* the one at work; of readdirplus: done when nonzero */
	unsigned step;   /* of touch and save */
	uint64_t cookie; /* of readdirplus */
	cookieverf3 verifier;
	uint64_t started;  /* the operation */
	uint64_t retry_at; /* 0: none waits */
	bool busy;
};

struct operation {
	const char *name;
	/* Sends the next call; what its answer means beyond success. */
	int (*send)(struct connection *c);
	/* Whether the operation is complete with this answer. */
	bool (*answer)(struct connection *c, void *data);
};

static struct connection *connections;
static unsigned nconnections, ndirs, nfiles;
static struct handle root, *dirs, *files;
static bool renamed;
static const struct operation *now;
static uint64_t *latencies;
static size_t nlatencies, count;

__attribute__((noreturn)) static void fail(const char *what, const char *why)
{
	fprintf(stderr, "nfsmeta: %s: %s\n", what, why);
	exit(1);
}

static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static nfs_fh3 fh(struct handle *h)
{
	return (nfs_fh3){{.data_len = h->len, .data_val = h->bytes}};
}

static void keep(struct handle *h, const char *bytes, uint32_t len)
{
	if (len > sizeof(h->bytes))
		fail(now ? now->name : "mount", "handle too long");
	h->len = len;
	memcpy(h->bytes, bytes, len);
}

static diropargs3 name_of(unsigned file, bool after_rename)
{
	static char names[8][32];
	static unsigned turn;
	char *name = names[turn++ % 8];

	snprintf(name, sizeof(names[0]), "%s%u", after_rename ? "renamed" : "file", file);
	return (diropargs3){.dir = fh(&dirs[file % ndirs]), .name = name};
}

/* ---- operations ---- */

static void on_reply(struct rpc_context *rpc, int status, void *data, void *arg);

static int send_create(struct connection *c)
{
	CREATE3args args = {.where = name_of(c->file, false), .how.mode = GUARDED};
	sattr3 *set = &args.how.createhow3_u.g_obj_attributes;

	set->mode.set_it = 1;
	set->mode.set_mode3_u.mode = 0644;
	return rpc_nfs3_create_async(c->rpc, on_reply, &args, c);
}

static bool answer_create(struct connection *c, void *data)
{
	CREATE3resok *ok = &((CREATE3res *)data)->CREATE3res_u.resok;

	if (!ok->obj.handle_follows)
		fail(now->name, "no handle in the answer");
	keep(&files[c->file], ok->obj.post_op_fh3_u.handle.data.data_val,
	     ok->obj.post_op_fh3_u.handle.data.data_len);
	return true;
}

static int send_lookup(struct connection *c)
{
	LOOKUP3args args = {.what = name_of(c->file, renamed)};

	return rpc_nfs3_lookup_async(c->rpc, on_reply, &args, c);
}

static int send_touch(struct connection *c)
{
	if (c->step == 0)
		return send_lookup(c);
	if (c->step == 1)
		return send_create(c);
	SETATTR3args args = {.object = fh(&files[c->file])};
	args.new_attributes.atime.set_it = SET_TO_SERVER_TIME;
	args.new_attributes.mtime.set_it = SET_TO_SERVER_TIME;
	return rpc_nfs3_setattr_async(c->rpc, on_reply, &args, c);
}

static bool answer_touch(struct connection *c, void *data)
{
	if (c->step == 1)
		answer_create(c, data);
	c->step = (c->step + 1) % 3;
	return c->step == 0;
}

static int send_save(struct connection *c)
{
	static char content[SAVE_BYTES];

	if (c->step == 0)
		return send_create(c);
	if (c->step == 2) {
		COMMIT3args all = {.file = fh(&files[c->file])};
		return rpc_nfs3_commit_async(c->rpc, on_reply, &all, c);
	}
	WRITE3args args = {.file = fh(&files[c->file]),
			   .count = SAVE_BYTES,
			   .stable = UNSTABLE,
			   .data = {.data_len = SAVE_BYTES, .data_val = content}};
	/* Another content for each file, so that none is left out as a hole. */
	memcpy(content, &c->file, sizeof(c->file));
	content[SAVE_BYTES - 1] = 1;
	return rpc_nfs3_write_async(c->rpc, on_reply, &args, c);
}

static bool answer_save(struct connection *c, void *data)
{
	if (c->step == 0)
		answer_create(c, data);
	if (c->step == 1 && ((WRITE3res *)data)->WRITE3res_u.resok.count != SAVE_BYTES)
		fail(now->name, "a short write");
	c->step = (c->step + 1) % 3;
	return c->step == 0;
}

static int send_stat(struct connection *c)
{
	GETATTR3args args = {.object = fh(&files[c->file])};

	return rpc_nfs3_getattr_async(c->rpc, on_reply, &args, c);
}

static int send_rename(struct connection *c)
{
	RENAME3args args = {.from = name_of(c->file, false), .to = name_of(c->file, true)};

	return rpc_nfs3_rename_async(c->rpc, on_reply, &args, c);
}

static int send_unlink(struct connection *c)
{
	REMOVE3args args = {.object = name_of(c->file, renamed)};

	return rpc_nfs3_remove_async(c->rpc, on_reply, &args, c);
}

static bool answer_plain(struct connection *c, void *data)
{
	(void)c, (void)data;
	return true;
}

static int send_list(struct connection *c)
{
	READDIRPLUS3args args = {
	    .dir = fh(&dirs[(size_t)(c - connections) % ndirs]),
	    .cookie = c->cookie,
	    .dircount = LIST_BYTES,
	    .maxcount = LIST_BYTES,
	};

	memcpy(args.cookieverf, c->verifier, sizeof(args.cookieverf));
	return rpc_nfs3_readdirplus_async(c->rpc, on_reply, &args, c);
}

static bool answer_list(struct connection *c, void *data)
{
	READDIRPLUS3resok *ok = &((READDIRPLUS3res *)data)->READDIRPLUS3res_u.resok;

	memcpy(c->verifier, ok->cookieverf, sizeof(c->verifier));
	for (entryplus3 *e = ok->reply.entries; e; e = e->nextentry) {
		c->cookie = e->cookie;
		count++;
	}
	if (ok->reply.eof)
		c->file = nfiles; /* this connection has done its part */
	return true;
}

static const struct operation operations[] = {
    {"create", send_create, answer_create},  {"touch", send_touch, answer_touch},
    {"lookup", send_lookup, answer_plain},   {"stat", send_stat, answer_plain},
    {"rename", send_rename, answer_plain},   {"unlink", send_unlink, answer_plain},
    {"readdirplus", send_list, answer_list}, {"save", send_save, answer_save},
};

/* ---- running one ---- */

static void send_call(struct connection *c)
{
	c->busy = true;
	c->retry_at = 0;
	if (now->send(c) != 0)
		fail(now->name, rpc_get_error(c->rpc));
}

static void next_call(struct connection *c)
{
	c->busy = false;
	if (c->file >= nfiles)
		return;
	if (c->step == 0)
		c->started = clock_ns();
	send_call(c);
}

static void on_reply(struct rpc_context *rpc, int status, void *data, void *arg)
{
	struct connection *c = arg;

	if (status != RPC_STATUS_SUCCESS)
		fail(now->name, rpc_get_error(rpc));
	nfsstat3 result = *(nfsstat3 *)data; /* every NFSv3 answer begins with it */
	if (result == NFS3ERR_JUKEBOX) {
		c->retry_at = clock_ns() + RETRY_NS;
		return;
	}
	if (now->send == send_touch && c->step == 0 && result == NFS3ERR_NOENT)
		result = NFS3_OK;
	if (result != NFS3_OK)
		fail(now->name, nfsstat3_to_str(result));
	if (now->answer(c, data)) {
		latencies[nlatencies++] = clock_ns() - c->started;
		if (now->send != send_list) {
			c->file += nconnections;
			count++;
		}
	}
	next_call(c);
}

static bool poll_once(struct pollfd *fds)
{
	nfds_t n = 0;
	uint64_t time = clock_ns();

	for (unsigned i = 0; i < nconnections; i++) {
		struct connection *c = &connections[i];
		if (c->retry_at != 0 && c->retry_at <= time)
			send_call(c);
		if (!c->busy)
			continue;
		fds[n++] = (struct pollfd){.fd = rpc_get_fd(c->rpc),
					   .events = (short)rpc_which_events(c->rpc)};
	}
	if (n == 0)
		return false;
	if (poll(fds, n, 5) < 0 && errno != EINTR)
		fail("poll", strerror(errno));
	n = 0;
	for (unsigned i = 0; i < nconnections; i++) {
		struct connection *c = &connections[i];
		if (!c->busy)
			continue;
		if (fds[n].revents != 0 && rpc_service(c->rpc, fds[n].revents) != 0)
			fail(now->name, rpc_get_error(c->rpc));
		n++;
	}
	return true;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double percentile_us(unsigned percent)
{
	return (double)latencies[(nlatencies - 1) * percent / 100] / 1000;
}

static unsigned number(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*end != '\0' || value == 0 || value > 10000000)
		fail(text, "not a number from 1 to 10000000");
	return (unsigned)value;
}

/* CPU seconds that the server has taken so far. */
static double server_cpu(void)
{
	const char *pid = getenv("SERVER_PID");
	unsigned long user = 0, system = 0;
	char path[64];

	if (!pid)
		return 0;
	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	FILE *f = fopen(path, "r");
	if (!f || fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
			 &user, &system) != 2)
		fail(path, "can't be read");
	fclose(f);
	return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* NAME or NAME:TIMES; returns TIMES. */
static unsigned choose(char *name)
{
	char *times = strchr(name, ':');

	if (times)
		*times++ = '\0';
	now = NULL;
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
		if (strcmp(operations[i].name, name) == 0)
			now = &operations[i];
	}
	if (!now)
		fail(name, "no such operation");
	return times ? number(times) : 1;
}

static void pass(struct pollfd *fds)
{
	for (unsigned i = 0; i < nconnections; i++) {
		struct connection *c = &connections[i];
		c->file = i;
		c->cookie = 0;
		memset(c->verifier, 0, sizeof(c->verifier));
		next_call(c);
	}
	while (poll_once(fds))
		;
}

static void run(char *name, struct pollfd *fds)
{
	unsigned times = choose(name);
	/* readdirplus makes the most calls: one for each entry, at worst, and its end. */
	size_t most = ((size_t)nfiles + 3) * nconnections * times;

	latencies = malloc(most * sizeof(*latencies));
	if (!latencies)
		fail("memory", strerror(ENOMEM));
	nlatencies = count = 0;
	double cpu = server_cpu();
	uint64_t start = clock_ns();
	for (unsigned i = 0; i < times; i++)
		pass(fds);
	double seconds = (double)(clock_ns() - start) / 1e9;
	cpu = server_cpu() - cpu;
	renamed |= now->send == send_rename;
	qsort(latencies, nlatencies, sizeof(*latencies), compare);
	printf("{\"op\": \"%s\", \"count\": %zu, \"seconds\": %.6f, \"cpu\": %.2f, \"p50\": %.1f, "
	       "\"p99\": %.1f}\n",
	       name, count, seconds, cpu, percentile_us(50), percentile_us(99));
	fflush(stdout);
	free(latencies);
}

/* ---- before and after: one call at a time ---- */

struct answer {
	bool done;
	nfsstat3 result;
	struct handle handle;
};

static void wait_answer(struct rpc_context *rpc, int sent, struct answer *a, const char *what)
{
	if (sent != 0)
		fail(what, rpc_get_error(rpc));
	while (!a->done) {
		struct pollfd fd = {.fd = rpc_get_fd(rpc), .events = (short)rpc_which_events(rpc)};
		if (poll(&fd, 1, 100) < 0 && errno != EINTR)
			fail(what, strerror(errno));
		if (rpc_service(rpc, fd.revents) != 0)
			fail(what, rpc_get_error(rpc));
	}
	if (a->result != NFS3_OK)
		fail(what, nfsstat3_to_str(a->result));
	a->done = false;
}

static void on_done(struct rpc_context *rpc, int status, void *data, void *arg)
{
	struct answer *a = arg;

	(void)data;
	if (status != RPC_STATUS_SUCCESS)
		fail("connect", rpc_get_error(rpc));
	a->done = true;
}

static void on_mount(struct rpc_context *rpc, int status, void *data, void *arg)
{
	mountres3 *res = data;

	on_done(rpc, status, data, arg);
	if (res->fhs_status != MNT3_OK)
		fail("mount", "refused");
	fhandle3 *handle = &res->mountres3_u.mountinfo.fhandle;
	keep(&root, handle->fhandle3_val, handle->fhandle3_len);
}

static void on_directory(struct rpc_context *rpc, int status, void *data, void *arg)
{
	struct answer *a = arg;
	MKDIR3res *res = data;

	on_done(rpc, status, data, arg);
	a->result = res->status;
	if (a->result == NFS3_OK) {
		nfs_fh3 *handle = &res->MKDIR3res_u.resok.obj.post_op_fh3_u.handle;
		keep(&a->handle, handle->data.data_val, handle->data.data_len);
	}
}

static void on_removed(struct rpc_context *rpc, int status, void *data, void *arg)
{
	struct answer *a = arg;

	on_done(rpc, status, data, arg);
	a->result = ((RMDIR3res *)data)->status;
}

static void connect_all(const char *server, char *export)
{
	struct rpc_context *rpc = rpc_init_context();
	struct answer a = {.done = false};

	wait_answer(rpc,
		    rpc_connect_program_async(rpc, server, MOUNT_PROGRAM, MOUNT_V3, on_done, &a),
		    &a, "mount service");
	wait_answer(rpc, rpc_mount3_mnt_async(rpc, on_mount, export, &a), &a, export);
	rpc_destroy_context(rpc);
	for (unsigned i = 0; i < nconnections; i++) {
		rpc = connections[i].rpc = rpc_init_context();
		wait_answer(
		    rpc, rpc_connect_program_async(rpc, server, NFS_PROGRAM, NFS_V3, on_done, &a),
		    &a, "NFS service");
	}
}

static diropargs3 directory(unsigned i)
{
	static char name[48];

	snprintf(name, sizeof(name), "nfsmeta.%d.%u", (int)getpid(), i);
	return (diropargs3){.dir = fh(&root), .name = name};
}

static void make_directories(void)
{
	struct rpc_context *rpc = connections[0].rpc;
	struct answer a = {.done = false};

	for (unsigned i = 0; i < ndirs; i++) {
		MKDIR3args args = {.where = directory(i)};
		args.attributes.mode.set_it = 1;
		args.attributes.mode.set_mode3_u.mode = 0755;
		wait_answer(rpc, rpc_nfs3_mkdir_async(rpc, on_directory, &args, &a), &a, "mkdir");
		dirs[i] = a.handle;
	}
}

static void remove_directories(void)
{
	struct rpc_context *rpc = connections[0].rpc;
	struct answer a = {.done = false};

	for (unsigned i = 0; i < ndirs; i++) {
		RMDIR3args args = {.object = directory(i)};
		wait_answer(rpc, rpc_nfs3_rmdir_async(rpc, on_removed, &args, &a), &a, "rmdir");
	}
}

int main(int argc, char **argv)
{
	if (argc < 7) {
		fputs("usage: nfsmeta SERVER EXPORT CONNECTIONS DIRECTORIES FILES "
		      "OPERATION[:TIMES]...\n",
		      stderr);
		return 2;
	}
	nconnections = number(argv[3]);
	ndirs = number(argv[4]);
	nfiles = number(argv[5]);
	connections = calloc(nconnections, sizeof(*connections));
	dirs = calloc(ndirs, sizeof(*dirs));
	files = calloc(nfiles, sizeof(*files));
	struct pollfd *fds = calloc(nconnections, sizeof(*fds));
	if (!connections || !dirs || !files || !fds)
		fail("memory", strerror(ENOMEM));
	connect_all(argv[1], argv[2]);
	make_directories();
	for (int i = 6; i < argc; i++)
		run(argv[i], fds);
	remove_directories();
	return 0;
}
