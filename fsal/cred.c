// SPDX-License-Identifier: LGPL-3.0-or-later
#include "tarn_fsal.h"

struct tarn_cred caller(void)
{
	const struct user_cred *creds = &op_ctx->creds;

	return (struct tarn_cred){
	    .uid = creds->caller_uid,
	    .gid = creds->caller_gid,
	    .ngroups = creds->caller_glen,
	    .groups = creds->caller_garray,
	};
}
