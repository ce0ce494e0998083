// SPDX-License-Identifier: LGPL-3.0-or-later
//
// Preloaded into user-mode Linux (see uml-client). Its 6.1 kernel keeps 2696 bytes of a
// process's floating point state, and a host refuses to set less than all of what its CPU has:
// 11008 bytes with AMX. This ptrace() pads with the initial (zero) state of the rest, which
// programs in the guest never use.
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

static char state[65536];
static size_t host_size;

long ptrace(enum __ptrace_request request, ...)
{
	long (*next)(enum __ptrace_request, ...) =
		(long (*)(enum __ptrace_request, ...))dlsym(RTLD_NEXT, "ptrace");
	struct iovec *given;
	struct iovec full;
	va_list args;
	pid_t pid;
	void *addr;

	va_start(args, request);
	pid = va_arg(args, pid_t);
	addr = va_arg(args, void *);
	given = va_arg(args, struct iovec *);
	va_end(args);
	if (request != PTRACE_SETREGSET || addr != (void *)NT_X86_XSTATE)
		return next(request, pid, addr, given);

	if (!host_size) {
		full = (struct iovec){.iov_base = state, .iov_len = sizeof(state)};
		if (next(PTRACE_GETREGSET, pid, addr, &full) < 0)
			return -1;
		host_size = full.iov_len;
		memset(state, 0, sizeof(state));
	}
	if (given->iov_len >= host_size)
		return next(request, pid, addr, given);
	memcpy(state, given->iov_base, given->iov_len);
	full = (struct iovec){.iov_base = state, .iov_len = host_size};
	return next(request, pid, addr, &full);
}
