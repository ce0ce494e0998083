// SPDX-License-Identifier: LGPL-3.0-or-later
#include "tarn_fsal.h"

#include <errno.h>

bool durable_reserve(void)
{
	if (atomic_fetch_add(&TARN.durable_now, 1) < TARN.durable_max)
		return true;
	durable_release();
	return false;
}

void durable_release(void)
{
	atomic_fetch_sub(&TARN.durable_now, 1);
}

fsal_status_t durable_finish(struct tarn_inode *inode, int result, struct tarn_commit token)
{
	/* Executed but not known to be durable is an I/O error: "try later" would run it twice. */
	if (result == 0 && token.txg != 0 &&
	    tarn_commit_wait(tarn_inode_dataset(inode), token) != 0)
		result = -EIO;
	durable_release();
	return status_of(result);
}
