// SPDX-License-Identifier: LGPL-3.0-or-later
//
// engine DEVICE THREADS SECONDS OPERATION...
//
// The engine without NFS, for benchmarks: makes a pool on DEVICE, overwriting what is there, and
// runs each OPERATION with THREADS threads, each with a file and a directory of its own and
// one call on its way. Operations:
//
//   write, read            1 MiB, sequential, over and over
//   randwrite, randread    4 KiB, aligned
//   create, stat, lookup, rename, unlink
//
// Reads come from the cache. Each operation runs SECONDS; those of the second line end when
// a thread has done as many files as it created. Changes are not waited for one by one, but the
// time includes one commit at the end. Prints a line of JSON for each: {"op", "count",
// "seconds", "p50", "p99"}, latencies in microseconds (to 6 %). Data is incompressible.
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tarn/fs.h>
#include <tarn/pool.h>

#define LARGE (1u << 20)
#define SMALL 4096u
#define TOTAL_DATA (256ull << 20) /* over all threads */
#define SUB_BITS 4                /* buckets per power of two: 16 */
#define BUCKETS (64u << SUB_BITS)

struct worker {
	pthread_t thread;
	uint64_t random;
	struct tarn_inode *file, *dir;
	char *buffer;
	uint64_t position;
	sem_t done;
	unsigned created;
	struct tarn_inode **files;
	/* of the operation at work */
	uint64_t count;
	uint64_t latencies[BUCKETS];
	struct tarn_commit commit;
};

struct operation {
	const char *name;
	bool by_file; /* ends after the files created */
	int (*run)(struct worker *w, unsigned i);
};

static struct tarn_dataset *dataset;
static struct worker *workers;
static unsigned nworkers;
static uint64_t file_size, deadline;
static const struct operation *now;
static bool renamed;

__attribute__((noreturn)) static void fail(const char *what, const char *why)
{
	fprintf(stderr, "engine: %s: %s\n", what, why);
	exit(1);
}

static void check(int result, const char *what)
{
	if (result != 0)
		fail(what, strerror(-result));
}

static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t next_random(struct worker *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random;
}

/* ---- latencies ---- */

static unsigned bucket_of(uint64_t ns)
{
	if (ns < 1u << SUB_BITS)
		return (unsigned)ns;
	unsigned shift = 63 - (unsigned)__builtin_clzll(ns) - SUB_BITS;
	return ((shift + 1) << SUB_BITS) + (unsigned)(ns >> shift) - (1u << SUB_BITS);
}

static double bucket_us(unsigned bucket)
{
	unsigned shift = bucket >> SUB_BITS;
	uint64_t low = bucket & ((1u << SUB_BITS) - 1);

	return (double)(shift ? (low + (1u << SUB_BITS)) << (shift - 1) : low) / 1000;
}

static double percentile_us(const uint64_t *buckets, uint64_t count, unsigned percent)
{
	uint64_t below = 0;
	unsigned i = 0;

	while (i < BUCKETS - 1 && (below += buckets[i]) * 100 < count * percent)
		i++;
	return bucket_us(i);
}

/* ---- operations ---- */

static void io_done(struct tarn_io *io)
{
	struct worker *w = io->owner;

	sem_post(&w->done);
}

static int data(struct worker *w, bool write, uint64_t offset, size_t length)
{
	struct iovec iov = {.iov_base = w->buffer, .iov_len = length};
	struct tarn_io io = {
	    .inode = w->file,
	    .write = write,
	    .offset = offset,
	    .iov = &iov,
	    .iovcnt = 1,
	    .length = length,
	    .done = io_done,
	    .owner = w,
	};

	if (write) {
		/* Another block each time, as incompressible as the first. */
		memcpy(w->buffer, &(uint64_t){next_random(w)}, sizeof(uint64_t));
		tarn_write(NULL, &io);
	} else {
		tarn_read(&io);
	}
	while (sem_wait(&w->done) != 0)
		;
	if (io.result == 0 && io.transferred != length)
		return -EIO;
	if (write)
		w->commit = io.token;
	return io.result;
}

static uint64_t next_position(struct worker *w)
{
	uint64_t position = w->position;

	w->position = (position + LARGE) % file_size;
	return position;
}

static uint64_t random_position(struct worker *w)
{
	return next_random(w) % (file_size / SMALL) * SMALL;
}

static int run_write(struct worker *w, unsigned i)
{
	(void)i;
	return data(w, true, next_position(w), LARGE);
}

static int run_read(struct worker *w, unsigned i)
{
	(void)i;
	return data(w, false, next_position(w), LARGE);
}

static int run_randwrite(struct worker *w, unsigned i)
{
	(void)i;
	return data(w, true, random_position(w), SMALL);
}

static int run_randread(struct worker *w, unsigned i)
{
	(void)i;
	return data(w, false, random_position(w), SMALL);
}

static const char *name_of(char name[32], unsigned i, bool after_rename)
{
	snprintf(name, 32, "%s%u", after_rename ? "renamed" : "file", i);
	return name;
}

static int create(struct worker *w, struct tarn_inode *dir, const char *name, enum tarn_type type,
		  struct tarn_inode **out)
{
	struct tarn_create how = {.type = type, .set = {.mask = TARN_SET_MODE, .mode = 0755}};

	return tarn_create(NULL, dir, name, &how, out, NULL, NULL, &w->commit);
}

static int run_create(struct worker *w, unsigned i)
{
	char name[32];

	if ((i & (i - 1)) == 0) { /* room for the next power of two */
		size_t room = i ? 2 * (size_t)i : 1;
		w->files = realloc(w->files, room * sizeof(*w->files));
		if (!w->files)
			return -ENOMEM;
	}
	int r = create(w, w->dir, name_of(name, i, false), TARN_REG, &w->files[i]);
	if (r == 0)
		w->created = i + 1;
	return r;
}

static int run_stat(struct worker *w, unsigned i)
{
	struct tarn_attr attr;

	return tarn_getattr(w->files[i], &attr);
}

static int run_lookup(struct worker *w, unsigned i)
{
	struct tarn_inode *inode;
	char name[32];
	int r = tarn_lookup(NULL, w->dir, name_of(name, i, renamed), &inode);

	if (r == 0)
		tarn_inode_put(inode);
	return r;
}

static int run_rename(struct worker *w, unsigned i)
{
	char from[32], to[32];

	return tarn_rename(NULL, w->dir, name_of(from, i, false), w->dir, name_of(to, i, true),
			   NULL, NULL, &w->commit);
}

static int run_unlink(struct worker *w, unsigned i)
{
	char name[32];

	tarn_inode_put(w->files[i]);
	return tarn_unlink(NULL, w->dir, name_of(name, i, renamed), 0, NULL, &w->commit);
}

static const struct operation operations[] = {
    {"write", false, run_write},         {"read", false, run_read},
    {"randwrite", false, run_randwrite}, {"randread", false, run_randread},
    {"create", false, run_create},       {"stat", true, run_stat},
    {"lookup", true, run_lookup},        {"rename", true, run_rename},
    {"unlink", true, run_unlink},
};

/* ---- running one ---- */

static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t start = clock_ns();

	for (unsigned i = 0; now->by_file ? i < w->created : start < deadline; i++) {
		check(now->run(w, i), now->name);
		uint64_t end = clock_ns();
		w->latencies[bucket_of(end - start)]++;
		w->count++;
		start = end;
	}
	return NULL;
}

static void run(const char *name, double seconds)
{
	uint64_t buckets[BUCKETS] = {0}, count = 0;

	now = NULL;
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
		if (strcmp(operations[i].name, name) == 0)
			now = &operations[i];
	}
	if (!now)
		fail(name, "no such operation");
	uint64_t start = clock_ns();
	deadline = start + (uint64_t)(seconds * 1e9);
	for (unsigned i = 0; i < nworkers; i++) {
		struct worker *w = &workers[i];
		w->count = w->position = 0;
		w->commit = (struct tarn_commit){0};
		memset(w->latencies, 0, sizeof(w->latencies));
		check(-pthread_create(&w->thread, NULL, work, w), "thread");
	}
	for (unsigned i = 0; i < nworkers; i++) {
		pthread_join(workers[i].thread, NULL);
		check(tarn_commit_wait(dataset, workers[i].commit), "commit");
		count += workers[i].count;
		for (unsigned j = 0; j < BUCKETS; j++)
			buckets[j] += workers[i].latencies[j];
	}
	renamed |= now->run == run_rename;
	printf(
	    "{\"op\": \"%s\", \"count\": %llu, \"seconds\": %.6f, \"p50\": %.1f, \"p99\": %.1f}\n",
	    name, (unsigned long long)count, (double)(clock_ns() - start) / 1e9,
	    percentile_us(buckets, count, 50), percentile_us(buckets, count, 99));
	fflush(stdout);
}

static void worker_init(struct worker *w, unsigned number)
{
	struct tarn_inode *root;
	char name[32];

	w->random = 0x9e3779b97f4a7c15u * (number + 1);
	w->buffer = malloc(LARGE);
	if (!w->buffer)
		fail("memory", strerror(ENOMEM));
	for (size_t i = 0; i < LARGE; i += sizeof(uint64_t))
		memcpy(w->buffer + i, &(uint64_t){next_random(w)}, sizeof(uint64_t));
	sem_init(&w->done, 0, 0);
	check(tarn_root(dataset, &root), "root");
	snprintf(name, sizeof(name), "data%u", number);
	check(create(w, root, name, TARN_REG, &w->file), name);
	snprintf(name, sizeof(name), "dir%u", number);
	check(create(w, root, name, TARN_DIR, &w->dir), name);
	tarn_inode_put(root);
	for (uint64_t offset = 0; offset < file_size; offset += LARGE)
		check(data(w, true, offset, LARGE), "fill");
	check(tarn_commit_wait(dataset, w->commit), "fill");
}

static void worker_fini(struct worker *w)
{
	tarn_inode_put(w->file);
	tarn_inode_put(w->dir);
	sem_destroy(&w->done);
	free(w->files);
	free(w->buffer);
}

int main(int argc, char **argv)
{
	struct tarn_config config = {.arc_max = 2 * TOTAL_DATA};
	struct tarn_engine *engine;
	struct tarn_error err;

	if (argc < 5 || atoi(argv[2]) < 1 || atoi(argv[2]) > 256) {
		fputs("usage: engine DEVICE THREADS SECONDS OPERATION...\n", stderr);
		return 2;
	}
	const char *device = argv[1];
	struct tarn_group_spec group = {.kind = TARN_GROUP_SINGLE, .ndevs = 1, .paths = &device};
	nworkers = (unsigned)atoi(argv[2]);
	file_size = TOTAL_DATA / nworkers / LARGE * LARGE;
	check(tarn_engine_create(&config, &engine), "engine");
	if (tarn_pool_create(engine, "bench", &group, 1, NULL, 0, TARN_FORCE, &err) != 0)
		fail(device, err.text);
	check(tarn_dataset_open(engine, "bench", NULL, &dataset), "dataset");
	workers = calloc(nworkers, sizeof(*workers));
	if (!workers)
		fail("memory", strerror(ENOMEM));
	for (unsigned i = 0; i < nworkers; i++)
		worker_init(&workers[i], i);
	for (int i = 4; i < argc; i++)
		run(argv[i], atof(argv[3]));
	for (unsigned i = 0; i < nworkers; i++)
		worker_fini(&workers[i]);
	free(workers);
	tarn_dataset_put(dataset);
	if (tarn_pool_destroy(engine, "bench", 0, &err) != 0)
		fail(device, err.text);
	tarn_engine_destroy(engine);
	return 0;
}
