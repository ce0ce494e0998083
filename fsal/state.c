// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Memory of open and lock states. Ganesha 4.3 drops the last reference to an NFSv4 state also
 * where no export is set (RELEASE_LOCKOWNER, FREE_STATEID: its issues 1062 and 1151) and then
 * calls free_state() of the export that is not there: a crash. So Tarn takes a reference of its
 * own when such a state ends, and frees it itself once that is the last one.
 */
#include "tarn_fsal.h"

#include <sal_data.h>

static struct tarn_state *tarn_state_of(struct state_t *state)
{
	return container_of(state, struct tarn_state, state);
}

static struct state_t *op_alloc_state(struct fsal_export *export, enum state_type type,
				      struct state_t *related)
{
	struct tarn_state *state = gsh_calloc(1, sizeof(*state));

	static_assert(offsetof(struct tarn_state, fd) == sizeof(struct state_t),
		      "ganesha's helpers look for the fd there");
	return init_state(&state->state, export, type, related);
}

/* Also for states that were never added, though close2() has seen them. */
static void op_free_state(struct fsal_export *export, struct state_t *state)
{
	(void)export;
	PTHREAD_MUTEX_lock(&TARN.ended_lock);
	glist_del(&tarn_state_of(state)->ended);
	PTHREAD_MUTEX_unlock(&TARN.ended_lock);
	gsh_free(tarn_state_of(state));
}

/* Lock held. No list of ganesha's names them any more: with one reference left it is ours. */
static void free_ended(void)
{
	struct glist_head *at, *next;

	glist_for_each_safe(at, next, &TARN.ended)
	{
		struct tarn_state *state = glist_entry(at, struct tarn_state, ended);

		if (atomic_fetch_int32_t(&state->state.state_refcount) != 1)
			continue;
		glist_del(&state->ended);
		PTHREAD_MUTEX_destroy(&state->state.state_mutex);
		gsh_free(state);
	}
}

void state_end(struct state_t *state)
{
	struct tarn_state *ended = tarn_state_of(state);

	if ((state->state_type != STATE_TYPE_SHARE && state->state_type != STATE_TYPE_LOCK) ||
	    state->state_obj != NULL)
		return;
	PTHREAD_MUTEX_lock(&TARN.ended_lock);
	free_ended();
	if (glist_null(&ended->ended)) {
		atomic_inc_int32_t(&state->state_refcount);
		glist_add_tail(&TARN.ended, &ended->ended);
	}
	PTHREAD_MUTEX_unlock(&TARN.ended_lock);
}

void states_init(void)
{
	PTHREAD_MUTEX_init(&TARN.ended_lock, NULL);
	glist_init(&TARN.ended);
}

void states_fini(void)
{
	PTHREAD_MUTEX_lock(&TARN.ended_lock);
	free_ended();
	PTHREAD_MUTEX_unlock(&TARN.ended_lock);
	PTHREAD_MUTEX_destroy(&TARN.ended_lock);
}

void state_export_ops(struct export_ops *ops)
{
	ops->alloc_state = op_alloc_state;
	ops->free_state = op_free_state;
}
