// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * Data. READ and WRITE are handed to the engine and answered from its threads; no worker
 * waits for a device. Bytes under way are bounded: beyond that clients are asked to come
 * again, as ganesha has no limit of its own.
 */
#include "tarn_fsal.h"

#include "export_mgr.h"
#include "nfs_proto_data.h"

#include <errno.h>
#include <unistd.h>

/* A READ or WRITE under way. */
struct request {
	struct tarn_io io;
	struct tarn_object *object;
	struct fsal_io_arg *arg;
	fsal_async_cb done_cb;
	void *caller_arg;
	struct gsh_export *ctx_export;
	struct fsal_export *fsal_export;
};

static bool io_reserve(size_t bytes)
{
	uint64_t before = atomic_fetch_add(&TARN.io_now, bytes);

	if (before == 0 || before + bytes <= TARN.options.io_max)
		return true;
	atomic_fetch_sub(&TARN.io_now, bytes);
	return false;
}

/* In an engine thread, or in the worker's before it has returned. */
static void request_done(struct tarn_io *io)
{
	struct request *rq = io->owner;
	struct req_op_context ctx;
	fsal_status_t status = status_of(io->result);

	if (io->result == 0) {
		rq->arg->io_amount = io->transferred;
		if (io->write)
			rq->arg->fsal_stable = io->stable;
		else
			rq->arg->end_of_file = io->eof;
	}
	atomic_fetch_sub(&TARN.io_now, io->length);
	tarn_inode_put(io->inode);
	/* The callback works in the name of the export. Object and arguments may be gone
	   once it has been called. */
	get_gsh_export_ref(rq->ctx_export);
	init_op_context_simple(&ctx, rq->ctx_export, rq->fsal_export);
	rq->done_cb(&rq->object->handle, status, rq->arg, rq->caller_arg);
	release_op_context();
	gsh_free(rq);
}

static fsal_status_t request_start(struct request *rq, bool bypass, bool write)
{
	struct fsal_io_arg *arg = rq->arg;
	struct tarn_inode *inode;
	size_t length = 0;
	fsal_status_t status =
	    share_check(rq->object, arg->state, bypass, write ? FSAL_O_WRITE : FSAL_O_READ);

	if (FSAL_IS_ERROR(status))
		return status;
	for (int i = 0; i < arg->iov_count; i++)
		length += arg->iov[i].iov_len;
	int r = object_inode(rq->object, &inode);
	if (r != 0)
		return status_of(r);
	if (!io_reserve(length)) {
		tarn_inode_put(inode);
		return try_later();
	}
	rq->ctx_export = op_ctx->ctx_export;
	rq->fsal_export = op_ctx->fsal_export;
	rq->io = (struct tarn_io){
	    .inode = inode,
	    .write = write,
	    .stable = write && arg->fsal_stable,
	    .offset = arg->offset,
	    .iov = arg->iov,
	    .iovcnt = arg->iov_count,
	    .length = length,
	    .done = request_done,
	    .owner = rq,
	};
	if (write) {
		struct tarn_cred cred = caller();
		tarn_write(&cred, &rq->io);
	} else {
		tarn_read(&rq->io);
	}
	return ok();
}

/*
 * Ganesha 4.3 calls read2() for READ_PLUS as if it were READ and then answers "no data, end of
 * file", whatever was read. Refused, clients use READ from then on.
 */
static bool is_read_plus(void)
{
	if (op_ctx->req_type != NFS_REQUEST || op_ctx->nfs_vers != NFS_V4)
		return false;
	const struct nfs_request *rq = container_of(op_ctx, struct nfs_request, op_context);
	const struct compound_data *compound = rq->proc_data;

	return compound->opcode == NFS4_OP_READ_PLUS;
}

static void request(struct fsal_obj_handle *handle, bool bypass, fsal_async_cb done_cb,
		    struct fsal_io_arg *arg, void *caller_arg, bool write)
{
	fsal_status_t status;

	if (handle->type != REGULAR_FILE) {
		status = fsalstat(ERR_FSAL_INVAL, 0);
	} else if (!write && is_read_plus()) {
		status = fsalstat(ERR_FSAL_NOTSUPP, 0);
	} else {
		struct request *rq = gsh_calloc(1, sizeof(*rq));
		rq->object = object_of(handle);
		rq->arg = arg;
		rq->done_cb = done_cb;
		rq->caller_arg = caller_arg;
		status = request_start(rq, bypass, write);
		if (!FSAL_IS_ERROR(status))
			return; /* the engine has it */
		gsh_free(rq);
	}
	done_cb(handle, status, arg, caller_arg);
}

static void op_read2(struct fsal_obj_handle *handle, bool bypass, fsal_async_cb done_cb,
		     struct fsal_io_arg *arg, void *caller_arg)
{
	request(handle, bypass, done_cb, arg, caller_arg, false);
}

static void op_write2(struct fsal_obj_handle *handle, bool bypass, fsal_async_cb done_cb,
		      struct fsal_io_arg *arg, void *caller_arg)
{
	request(handle, bypass, done_cb, arg, caller_arg, true);
}

/* ---- COMMIT: ganesha wants it answered in the worker ---- */

struct commit {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done;
	int result;
};

static void commit_done(void *arg, int result)
{
	struct commit *commit = arg;

	PTHREAD_MUTEX_lock(&commit->lock);
	commit->done = true;
	commit->result = result;
	pthread_cond_signal(&commit->cond);
	PTHREAD_MUTEX_unlock(&commit->lock);
}

static int fsync_wait(struct tarn_inode *inode)
{
	struct commit commit = {.done = false};

	PTHREAD_MUTEX_init(&commit.lock, NULL);
	PTHREAD_COND_init(&commit.cond, NULL);
	tarn_fsync(inode, commit_done, &commit);
	PTHREAD_MUTEX_lock(&commit.lock);
	while (!commit.done)
		pthread_cond_wait(&commit.cond, &commit.lock);
	PTHREAD_MUTEX_unlock(&commit.lock);
	PTHREAD_COND_destroy(&commit.cond);
	PTHREAD_MUTEX_destroy(&commit.lock);
	return commit.result;
}

static fsal_status_t op_commit2(struct fsal_obj_handle *handle, off_t offset, size_t length)
{
	struct tarn_inode *inode;
	int r = object_inode(object_of(handle), &inode);

	(void)offset, (void)length; /* the whole file: a commit writes the pool's txg anyway */
	if (r != 0)
		return status_of(r);
	fsal_status_t status = try_later();
	if (durable_reserve()) {
		status = status_of(fsync_wait(inode));
		durable_release();
	}
	tarn_inode_put(inode);
	return status;
}

/* ---- holes ---- */

static fsal_status_t op_seek2(struct fsal_obj_handle *handle, struct state_t *state,
			      struct io_info *info)
{
	struct tarn_inode *inode;
	uint64_t offset = info->io_content.hole.di_offset, found = 0;
	bool eof = false, hole = info->io_content.what == NFS4_CONTENT_HOLE;
	fsal_status_t status = share_check(object_of(handle), state, false, FSAL_O_READ);

	if (FSAL_IS_ERROR(status))
		return status;
	if (!hole && info->io_content.what != NFS4_CONTENT_DATA)
		return fsalstat(ERR_FSAL_UNION_NOTSUPP, 0);
	int r = object_inode(object_of(handle), &inode);
	if (r != 0)
		return status_of(r);
	r = tarn_seek(inode, offset, hole, &found, &eof);
	tarn_inode_put(inode);
	if (r != 0)
		return status_of(r);
	if (found <= offset && eof) /* the file ends before the offset: RFC 7862 15.11.3 */
		return fsalstat(ERR_FSAL_NXIO, ENXIO);
	info->io_content.hole.di_offset = found;
	info->io_eof = eof;
	return ok();
}

static fsal_status_t op_fallocate(struct fsal_obj_handle *handle, struct state_t *state,
				  uint64_t offset, uint64_t length, bool allocate)
{
	struct tarn_cred cred = caller();
	struct tarn_commit token = {0};
	struct tarn_inode *inode;
	fsal_status_t status = share_check(object_of(handle), state, false, FSAL_O_WRITE);

	if (FSAL_IS_ERROR(status))
		return status;
	int r = object_inode(object_of(handle), &inode);
	if (r != 0)
		return status_of(r);
	status = try_later();
	if (durable_reserve()) {
		r = allocate ? tarn_allocate(&cred, inode, offset, length, &token)
			     : tarn_punch(&cred, inode, offset, length, &token);
		status = durable_finish(inode, r, token);
	}
	tarn_inode_put(inode);
	return status;
}

void io_ops(struct fsal_obj_ops *ops)
{
	ops->read2 = op_read2;
	ops->write2 = op_write2;
	ops->commit2 = op_commit2;
	ops->seek2 = op_seek2;
	ops->fallocate = op_fallocate;
}
