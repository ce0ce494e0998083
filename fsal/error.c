// SPDX-License-Identifier: LGPL-3.0-or-later
#include "tarn_fsal.h"

#include <errno.h>
#include <string.h>

/*
 * Every FSAL error is chosen for what v3 and v4 clients are told. -ENXIO means that the
 * pool is away and may come again; NOMEM would drop a v3 request without an answer.
 */
static fsal_errors_t error_of(int code)
{
	switch (code) {
	case 0:
		return ERR_FSAL_NO_ERROR;
	case ENXIO:
	case EAGAIN:
	case EBUSY:
	case ETIMEDOUT:
	case ENOMEM:
		return ERR_FSAL_DELAY;
	case ESTALE:
		return ERR_FSAL_STALE;
	case EPERM:
		return ERR_FSAL_PERM;
	case EACCES:
		return ERR_FSAL_ACCESS;
	case ENOENT:
		return ERR_FSAL_NOENT;
	case EEXIST:
		return ERR_FSAL_EXIST;
	case EXDEV:
		return ERR_FSAL_XDEV;
	case ENOTDIR:
		return ERR_FSAL_NOTDIR;
	case EISDIR:
		return ERR_FSAL_ISDIR;
	case EINVAL:
	case ELOOP:
		return ERR_FSAL_INVAL;
	case EFBIG:
	case EOVERFLOW:
		return ERR_FSAL_FBIG;
	case ENOSPC:
		return ERR_FSAL_NOSPC;
	case EDQUOT:
		return ERR_FSAL_DQUOT;
	case EROFS:
		return ERR_FSAL_ROFS;
	case EMLINK:
		return ERR_FSAL_MLINK;
	case ENAMETOOLONG:
		return ERR_FSAL_NAMETOOLONG;
	case ENOTEMPTY:
		return ERR_FSAL_NOTEMPTY;
	case EOPNOTSUPP:
		return ERR_FSAL_NOTSUPP;
	case ENODATA:
		return ERR_FSAL_NOXATTR;
	case ERANGE:
	case E2BIG:
		return ERR_FSAL_XATTR2BIG;
	case EIO:
		return ERR_FSAL_IO;
	default:
		LogMajor(COMPONENT_FSAL, "Unexpected error %d (%s) answered as an I/O error", code,
			 strerror(code));
		return ERR_FSAL_IO;
	}
}

fsal_status_t status_of(int result)
{
	return fsalstat(error_of(-result), -result);
}
