// SPDX-License-Identifier: LGPL-3.0-or-later
/* runs 50000 */
/* ACLs: whatever a client sends or a device holds, checking it, chmod and inheritance keep the
   rules. */
#include "fuzz.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/acl.h"

static struct tarn_acl *acl_of(struct fuzz_input *in)
{
	uint32_t count = fuzz_number(in, 1) % 64;
	struct tarn_acl *acl = calloc(1, sizeof(*acl) + count * sizeof(acl->ace[0]));

	acl->count = count;
	for (uint32_t i = 0; i < count; i++) {
		struct tarn_ace *ace = &acl->ace[i];

		ace->type = fuzz_number(in, 1) % 5;
		ace->who = fuzz_number(in, 1) % 6;
		ace->flags = fuzz_number(in, 1);
		ace->mask = fuzz_number(in, 4) & (ACE_MASK | 0x80000000);
		ace->id = fuzz_number(in, 1);
	}
	return acl;
}

static void check_chmod(const struct tarn_acl *acl, uint32_t mode, bool is_dir)
{
	struct tarn_acl *changed = acl_chmod(acl, mode, is_dir);

	MUST(changed->count <= 2 * acl->count + 5);
	MUST(acl_to_mode(changed, mode) == mode);
	free(changed);
}

/* As an inode is made: what it inherits, then its mode. */
static void check_inherit(const struct tarn_acl *acl, uint32_t mode, bool is_dir)
{
	struct tarn_acl *child;

	MUST(!acl_inherit(acl, is_dir, &child));
	if (!child)
		return;
	MUST(child->count && child->count <= acl->count && !acl_validate(child));
	check_chmod(child, mode, is_dir);
	free(child);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, data + size};
	uint32_t mode = fuzz_number(&in, 2) & 07777, mask = fuzz_number(&in, 3);
	gid_t groups[2] = {fuzz_number(&in, 1), fuzz_number(&in, 1)};
	struct tarn_cred cred = {
	    .uid = fuzz_number(&in, 1), .gid = fuzz_number(&in, 1), .ngroups = 2, .groups = groups};
	struct inode_record rec = {.uid = fuzz_number(&in, 1), .gid = fuzz_number(&in, 1)};
	struct tarn_acl *acl = acl_of(&in);
	bool is_dir = mode & 1;
	int rc;

	rec.type = is_dir ? TARN_DIR : TARN_REG;
	rec.mode = mode;
	if (!acl_validate(acl)) {
		rc = acl_check(acl, &rec, &cred, mask);
		MUST(rc == 0 || rc == -EACCES);
		MUST((acl_to_mode(acl, mode) & ~07777u) == 0);
		check_chmod(acl, mode, is_dir);
		check_inherit(acl, mode, is_dir);
	}
	free(acl);
	return 0;
}
