// SPDX-License-Identifier: LGPL-3.0-or-later
#include <errno.h>
#include <semaphore.h>

#include "pool/pool.h"
#include "tree/impl.h"

static void fetch_done(struct cache_read *r)
{
	struct tree_miss *miss = r->owner;
	struct tree *t = miss->tree;
	int rc = r->result;

	if (rc == 0)
		cache_unref(r->obj);
	read_leave(t->pool, miss->epoch);
	miss->fn(miss->arg, rc);
}

void tree_fetch_async(struct tree *t, struct tree_miss *miss, void (*fn)(void *arg, int result),
		      void *arg)
{
	enum bp_type type = miss->value ? BP_VALUE : BP_NODE;

	miss->tree = t;
	miss->fn = fn;
	miss->arg = arg;
	miss->read = (struct cache_read){.bp = miss->bp, .done = fetch_done, .owner = miss};
	if (bp_valid(&miss->bp, miss->max_birth) && miss->bp.type == type) {
		cache_read(t->cache, t->pool, miss->value ? &cache_type_value : &cache_type_node,
			   &miss->read);
		return;
	}
	read_leave(t->pool, miss->epoch);
	fn(arg, -EIO);
}

struct fetch_wait {
	sem_t done;
	int result;
};

static void fetch_wake(void *arg, int result)
{
	struct fetch_wait *wait = arg;

	wait->result = result;
	sem_post(&wait->done);
}

int tree_fetch(struct tree *t, struct tree_miss *miss)
{
	struct fetch_wait wait;

	tx_assert_none();
	sem_init(&wait.done, 0, 0);
	tree_fetch_async(t, miss, fetch_wake, &wait);
	while (sem_wait(&wait.done))
		;
	sem_destroy(&wait.done);
	return wait.result;
}

void tree_miss_drop(struct tree *t, struct tree_miss *miss)
{
	read_leave(t->pool, miss->epoch);
}
