// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * File data: the public reads, writes and syncs (data.c), and what range.c needs of them.
 *
 * An operation on data is a state machine (struct data_op) that never blocks its thread: for
 * missing nodes and blocks, the inode's lock, a throttled tx and the commit it leaves a callback
 * and goes on in a worker. docs/data.md tells the whole.
 */
#ifndef TARN_FS_DATA_H
#define TARN_FS_DATA_H

#include "fs/fs.h"

#define INLINE_MAX 1024u /* content of that many bytes lies in the tree */

/* Makes a range within the file zeros; where whole records are covered they go. Blocks: not
   from a worker. The dataset is entered, no locks held. */
int data_zero(struct tarn_inode *inode, uint64_t offset, uint64_t length, bool strip_suid,
	      struct tarn_commit *token);

/* At replay: these bytes, as a write puts them. Blocks. */
int data_restore(struct tarn_inode *inode, uint64_t offset, const void *bytes, uint64_t length);

#endif
