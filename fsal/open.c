// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Opens, shares and close. An open with a state (NFSv4, NLM shares) counts in the file's
 * share and keeps the inode open in the engine, so that it outlives its last name. An open
 * without one (NFSv3 CREATE) is only counted, because ganesha counts it too.
 */
#include "tarn_fsal.h"

#include <errno.h>
#include <string.h>

fsal_status_t share_check(struct tarn_object *object, struct state_t *state, bool bypass,
			  fsal_openflags_t access)
{
	bool locked = false, close_fd = false, reusing = false;
	fsal_status_t status =
	    fsal_find_fd(NULL, &object->handle, NULL, &object->share, bypass, state, access, NULL,
			 NULL, &locked, &close_fd, false, &reusing);

	if (locked)
		PTHREAD_RWLOCK_unlock(&object->handle.obj_lock);
	return status;
}

/* What an open does that others may forbid: to empty the file is to write. */
static fsal_openflags_t open_access(fsal_openflags_t flags)
{
	return FSAL_O_NFS_FLAGS(flags) | (flags & FSAL_O_TRUNC ? FSAL_O_WRITE : FSAL_O_CLOSED);
}

/* One more open, which adds flags to the share unless others forbid the access. */
static fsal_status_t open_count(struct tarn_object *object, fsal_openflags_t flags,
				fsal_openflags_t access)
{
	fsal_status_t status;

	PTHREAD_RWLOCK_wrlock(&object->handle.obj_lock);
	status = check_share_conflict(&object->share, access, false);
	if (!FSAL_IS_ERROR(status) && object->opens == 0)
		status = status_of(tarn_open(object->inode));
	if (!FSAL_IS_ERROR(status)) {
		object->opens++;
		update_share_counters(&object->share, FSAL_O_CLOSED, flags);
	}
	PTHREAD_RWLOCK_unlock(&object->handle.obj_lock);
	return status;
}

static void open_uncount(struct tarn_object *object, fsal_openflags_t flags)
{
	struct tarn_inode *last = NULL;

	PTHREAD_RWLOCK_wrlock(&object->handle.obj_lock);
	update_share_counters(&object->share, flags, FSAL_O_CLOSED);
	if (--object->opens == 0)
		last = tarn_inode_ref(object->inode);
	PTHREAD_RWLOCK_unlock(&object->handle.obj_lock);
	if (last) {
		/* May free a file without a name: not under the lock. */
		tarn_close(last);
		tarn_inode_put(last);
	}
}

static struct fsal_fd *fd_of(struct state_t *state)
{
	return &container_of(state, struct tarn_state, state)->fd;
}

/* The open of a file by a state, or by none. An object that nobody else knows yet can't
   conflict: MDCACHE merges it into the one that others know. */
static fsal_status_t open_take(struct tarn_object *object, struct state_t *state,
			       fsal_openflags_t flags, bool checked)
{
	if (!state) {
		PTHREAD_RWLOCK_wrlock(&object->handle.obj_lock);
		object->stateless++;
		PTHREAD_RWLOCK_unlock(&object->handle.obj_lock);
		return ok();
	}
	fsal_openflags_t access = checked ? open_access(flags) : FSAL_O_CLOSED;
	flags = FSAL_O_NFS_FLAGS(flags);
	fsal_status_t status = open_count(object, flags, access);
	if (!FSAL_IS_ERROR(status))
		fd_of(state)->openflags = flags;
	return status;
}

static void open_drop(struct tarn_object *object, struct state_t *state)
{
	if (!state) {
		PTHREAD_RWLOCK_wrlock(&object->handle.obj_lock);
		object->stateless--;
		PTHREAD_RWLOCK_unlock(&object->handle.obj_lock);
		return;
	}
	open_uncount(object, fd_of(state)->openflags);
	fd_of(state)->openflags = FSAL_O_CLOSED;
}

/* Empties a file that was not just made. The core checks permission later, too late. */
static int truncate_existing(struct tarn_inode *inode, struct tarn_commit *token)
{
	static const struct tarn_setattr empty = {.mask = TARN_SET_SIZE};
	struct tarn_cred cred = caller();
	int r = tarn_access(&cred, inode, FSAL_ACE_PERM_WRITE_DATA);

	return r == 0 ? tarn_setattr(&cred, inode, &empty, NULL, token) : r;
}

/* ---- open by name ---- */

struct opening {
	fsal_openflags_t flags;
	enum fsal_create_mode mode;
	const char *name;
	const struct fsal_attrlist *in;
	const char *verifier;
	/* results */
	struct tarn_inode *inode; /* referenced */
	bool created;
	struct tarn_attr post; /* if created */
	struct tarn_commit token;
};

static int create_file(struct tarn_inode *dir, struct opening *open)
{
	struct tarn_cred cred = caller();
	struct tarn_create how = {.type = TARN_REG};
	int r = attrs_set(open->in, &how.set);

	if (r != 0)
		return r;
	/* The mode of an exclusive create is ganesha's guess: a client's comes with SETATTR. */
	if (open->mode == FSAL_EXCLUSIVE)
		how.set.mask &= ~(uint32_t)TARN_SET_MODE;
	if (open->mode == FSAL_EXCLUSIVE || open->mode == FSAL_EXCLUSIVE_41) {
		how.exclusive = true;
		memcpy(how.verifier, open->verifier, sizeof(how.verifier));
	}
	r = tarn_create(&cred, dir, open->name, &how, &open->inode, &open->post, NULL,
			&open->token);
	attrs_set_done(&how.set);
	if (r == 0)
		open->created = true;
	else if (r == -EEXIST && open->inode && open->mode == FSAL_UNCHECKED)
		r = 0;
	return r;
}

static int open_name(struct tarn_inode *dir, struct opening *open)
{
	int r = name_check(open->name);

	if (r == 0 && open->mode == FSAL_NO_CREATE)
		r = tarn_lookup(NULL, dir, open->name, &open->inode);
	else if (r == 0)
		r = create_file(dir, open);
	if (r == 0 && !open->created && (open->flags & FSAL_O_TRUNC) &&
	    tarn_inode_type(open->inode) == TARN_REG)
		r = truncate_existing(open->inode, &open->token);
	return r;
}

static fsal_status_t type_check(enum tarn_type type)
{
	switch (type) {
	case TARN_REG:
		return ok();
	case TARN_DIR:
		return fsalstat(ERR_FSAL_ISDIR, EISDIR);
	default:
		return fsalstat(ERR_FSAL_SYMLINK, 0);
	}
}

static fsal_status_t open_by_name(struct fsal_obj_handle *handle, struct opening *open,
				  struct state_t *state, struct fsal_obj_handle **out,
				  struct fsal_attrlist *attrs)
{
	bool changes = open->mode != FSAL_NO_CREATE || (open->flags & FSAL_O_TRUNC);
	struct tarn_inode *dir;
	fsal_status_t status;
	int r = object_inode(object_of(handle), &dir);

	if (r != 0)
		return status_of(r);
	if (!changes) {
		status = status_of(open_name(dir, open));
	} else if (durable_reserve()) {
		r = open_name(dir, open);
		status = durable_finish(dir, r, open->token);
	} else {
		status = try_later();
	}
	tarn_inode_put(dir);
	if (!FSAL_IS_ERROR(status))
		status = type_check(tarn_inode_type(open->inode));
	if (!FSAL_IS_ERROR(status))
		status = attrs_optional(open->inode, open->created ? &open->post : NULL, attrs);
	if (FSAL_IS_ERROR(status)) {
		if (open->inode)
			tarn_inode_put(open->inode);
		return status;
	}
	struct tarn_object *object = object_new(open->inode);
	status = open_take(object, state, open->flags, false);
	if (FSAL_IS_ERROR(status))
		object->handle.obj_ops->release(&object->handle);
	else
		*out = &object->handle;
	return status;
}

/* ---- open by handle ---- */

/* EXIST if the file was not made with this verifier. */
static fsal_status_t verifier_check(struct tarn_object *object, const char *verifier)
{
	struct tarn_inode *inode;
	bool matches = false;
	int r = object_inode(object, &inode);

	if (r != 0)
		return status_of(r);
	r = tarn_verifier_matches(inode, (const uint8_t *)verifier, &matches);
	tarn_inode_put(inode);
	if (r == 0 && !matches)
		r = -EEXIST;
	return status_of(r);
}

/* Empties the file of an open object, durably. */
static fsal_status_t truncate_open(struct tarn_object *object)
{
	struct tarn_commit token = {0};
	struct tarn_inode *inode;
	int r = object_inode(object, &inode);

	if (r != 0)
		return status_of(r);
	fsal_status_t status = try_later();
	if (durable_reserve()) {
		r = truncate_existing(inode, &token);
		status = durable_finish(inode, r, token);
	}
	tarn_inode_put(inode);
	return status;
}

/* What an open does with the file it has: the verifier, and emptying it. */
static fsal_status_t open_effects(struct tarn_object *object, struct state_t *state,
				  fsal_openflags_t flags, enum fsal_create_mode mode,
				  const char *verifier)
{
	fsal_status_t status = ok();

	if (mode == FSAL_EXCLUSIVE || mode == FSAL_EXCLUSIVE_41)
		status = verifier_check(object, verifier);
	if (FSAL_IS_ERROR(status) || !(flags & FSAL_O_TRUNC))
		return status;
	if (!state)
		status = share_check(object, NULL, true, FSAL_O_WRITE);
	return FSAL_IS_ERROR(status) ? status : truncate_open(object);
}

/* Files of a read-only dataset are not opened for writing: a write that fails may be noticed late.
   Without a state (NFSv3 CREATE) nothing is known of what the client wants. */
static fsal_status_t write_check(struct tarn_inode *inode, struct state_t *state,
				 fsal_openflags_t flags)
{
	return state && (flags & FSAL_O_WRITE) ? status_of(tarn_writable(inode)) : ok();
}

static fsal_status_t open_by_handle(struct tarn_object *object, struct state_t *state,
				    fsal_openflags_t flags, enum fsal_create_mode mode,
				    const char *verifier, struct fsal_attrlist *attrs)
{
	struct tarn_inode *inode;
	int r = object_inode(object, &inode); /* alive again before it is opened */

	if (r != 0)
		return status_of(r);
	fsal_status_t status = write_check(inode, state, flags);
	if (!FSAL_IS_ERROR(status))
		status = open_take(object, state, flags, true);
	if (!FSAL_IS_ERROR(status)) {
		status = open_effects(object, state, flags, mode, verifier);
		/* MDCACHE would put attributes told here over newer ones of its own. Told none, it
		   looks for itself. */
		if (!FSAL_IS_ERROR(status) && attrs && (attrs->request_mask & ATTR_RDATTR_ERR))
			attrs->valid_mask = ATTR_RDATTR_ERR;
		else if (!FSAL_IS_ERROR(status))
			status = attrs_optional(inode, NULL, attrs);
		if (FSAL_IS_ERROR(status))
			open_drop(object, state);
	}
	tarn_inode_put(inode);
	return status;
}

/* ---- methods ---- */

static fsal_status_t op_open2(struct fsal_obj_handle *handle, struct state_t *state,
			      fsal_openflags_t flags, enum fsal_create_mode mode, const char *name,
			      struct fsal_attrlist *in, fsal_verifier_t verifier,
			      struct fsal_obj_handle **out, struct fsal_attrlist *attrs,
			      bool *perm_check)
{
	struct opening open = {
	    .flags = flags, .mode = mode, .name = name, .in = in, .verifier = verifier};
	fsal_status_t status;

	if (name == NULL) {
		status = open_by_handle(object_of(handle), state, flags, mode, verifier, attrs);
		*perm_check = !FSAL_IS_ERROR(status);
		return status;
	}
	*out = NULL;
	status = open_by_name(handle, &open, state, out, attrs);
	*perm_check = !FSAL_IS_ERROR(status) && !open.created;
	return status;
}

/* What can't be read now does not differ: the open that follows says what is wrong. */
static bool op_check_verifier(struct fsal_obj_handle *handle, fsal_verifier_t verifier)
{
	return verifier_check(object_of(handle), verifier).major != ERR_FSAL_EXIST;
}

/* Exchanges a share of the state for another one, unless others forbid the access. */
static fsal_status_t share_change(struct tarn_object *object, struct fsal_fd *fd,
				  fsal_openflags_t after, fsal_openflags_t access)
{
	fsal_openflags_t before = fd->openflags;

	/* Without its own old share it conflicts with others' only. */
	PTHREAD_RWLOCK_wrlock(&object->handle.obj_lock);
	update_share_counters(&object->share, before, FSAL_O_CLOSED);
	fsal_status_t status = check_share_conflict(&object->share, access, false);
	if (FSAL_IS_ERROR(status))
		after = before;
	update_share_counters(&object->share, FSAL_O_CLOSED, after);
	fd->openflags = after;
	PTHREAD_RWLOCK_unlock(&object->handle.obj_lock);
	return status;
}

/*
 * Ganesha checks permission when an owner opens a file, but not when the same owner opens it
 * once more for more (an upgrade). Reading is allowed also to those who may execute, and what
 * was open before a restart is not asked for again.
 */
static fsal_status_t upgrade_check(struct tarn_inode *inode, struct state_t *state,
				   fsal_openflags_t before, fsal_openflags_t after)
{
	fsal_openflags_t added = after & ~before & FSAL_O_RDWR;
	struct tarn_cred cred = caller();
	uint32_t access = 0;

	if (!added || state->state_type != STATE_TYPE_SHARE || (after & FSAL_O_RECLAIM))
		return ok();
	if (added & FSAL_O_READ)
		access |= FSAL_ACE_PERM_READ_DATA;
	if (added & FSAL_O_WRITE)
		access |= FSAL_ACE_PERM_WRITE_DATA | FSAL_ACE_PERM_APPEND_DATA;
	int r = tarn_access(&cred, inode, access);
	if (r == -EACCES && !(added & FSAL_O_WRITE))
		r = tarn_access(&cred, inode, FSAL_ACE_PERM_EXECUTE);
	return status_of(r);
}

/* Another share for an open state, which may empty the file as well. */
static fsal_status_t reopen(struct tarn_object *object, struct state_t *state,
			    struct tarn_inode *inode, fsal_openflags_t flags)
{
	struct fsal_fd *fd = fd_of(state);
	fsal_openflags_t before = fd->openflags;
	fsal_status_t status = write_check(inode, state, flags & ~before);

	if (!FSAL_IS_ERROR(status))
		status = upgrade_check(inode, state, before, flags);
	if (FSAL_IS_ERROR(status))
		return status;
	status = share_change(object, fd, FSAL_O_NFS_FLAGS(flags), open_access(flags));
	if (FSAL_IS_ERROR(status) || !(flags & FSAL_O_TRUNC))
		return status;
	status = truncate_open(object);
	if (FSAL_IS_ERROR(status))
		(void)share_change(object, fd, before, FSAL_O_CLOSED);
	return status;
}

static fsal_status_t op_reopen2(struct fsal_obj_handle *handle, struct state_t *state,
				fsal_openflags_t flags)
{
	struct tarn_object *object = object_of(handle);
	struct tarn_inode *inode;

	if (fd_of(state)->openflags == FSAL_O_CLOSED)
		return open_by_handle(object, state, flags, FSAL_NO_CREATE, NULL, NULL);
	int r = object_inode(object, &inode);
	if (r != 0)
		return status_of(r);
	fsal_status_t status = reopen(object, state, inode, flags);
	tarn_inode_put(inode);
	return status;
}

/* Called for lock states too: they hold nothing here. */
static fsal_status_t op_close2(struct fsal_obj_handle *handle, struct state_t *state)
{
	if (fd_of(state)->openflags != FSAL_O_CLOSED)
		open_drop(object_of(handle), state);
	state_end(state);
	return ok();
}

/* Ends the opens without a state. Ganesha takes one from its count; the others go here. */
static fsal_status_t op_close(struct fsal_obj_handle *handle)
{
	struct tarn_object *object = object_of(handle);

	PTHREAD_RWLOCK_wrlock(&handle->obj_lock);
	unsigned ended = object->stateless;
	object->stateless = 0;
	PTHREAD_RWLOCK_unlock(&handle->obj_lock);
	if (ended == 0)
		return fsalstat(ERR_FSAL_NOT_OPENED, 0);
	if (ended > 1)
		atomic_sub_size_t(&open_fd_count, ended - 1);
	return ok();
}

/* MDCACHE had an object for the file that dupe was made for: it gets dupe's opens. dupe is
   released next, or closed first if this fails. */
static fsal_status_t op_merge(struct fsal_obj_handle *handle, struct fsal_obj_handle *dupe_handle)
{
	struct tarn_object *object = object_of(handle), *dupe = object_of(dupe_handle);
	fsal_status_t status = ok();

	if (handle == dupe_handle || handle->type != REGULAR_FILE)
		return status;
	if (dupe->opens > 0) {
		struct tarn_inode *inode;
		int r = object_inode(object, &inode);
		if (r != 0)
			return status_of(r);
		status = open_count(object, FSAL_O_CLOSED, FSAL_O_CLOSED);
		tarn_inode_put(inode);
		if (FSAL_IS_ERROR(status))
			return status;
		status = merge_share(handle, &object->share, &dupe->share);
		open_uncount(FSAL_IS_ERROR(status) ? object : dupe, FSAL_O_CLOSED);
	}
	if (!FSAL_IS_ERROR(status)) {
		PTHREAD_RWLOCK_wrlock(&handle->obj_lock);
		object->stateless += dupe->stateless;
		PTHREAD_RWLOCK_unlock(&handle->obj_lock);
	}
	return status;
}

void open_ops(struct fsal_obj_ops *ops)
{
	ops->open2 = op_open2;
	ops->reopen2 = op_reopen2;
	ops->check_verifier = op_check_verifier;
	ops->close = op_close;
	ops->close2 = op_close2;
	ops->merge = op_merge;
}
