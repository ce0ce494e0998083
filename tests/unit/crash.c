// SPDX-License-Identifier: LGPL-3.0-or-later
/*
 * What a test that crashes says. cmocka's own handlers speak for the thread that runs the tests
 * only: a crash in any other ends the program without a word. So cmocka gets none, and a fatal
 * signal prints where its thread is and then does what it does by default; the sanitizers have
 * better reports of their own. (Failed assertions in other threads: CMOCKA_TEST_ABORT in
 * tests/run.)
 */
#include <execinfo.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

typedef void (*handler_t)(int);

/* Hides libc's from cmocka, the only one here who calls it. */
handler_t signal(int sig, handler_t handler)
{
	(void)sig, (void)handler;
	return SIG_DFL;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

static void crashed(int sig)
{
	void *frames[64];

	backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
	raise(sig);
}

__attribute__((constructor)) static void catch_crashes(void)
{
	static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
	struct sigaction action = {.sa_handler = crashed, .sa_flags = SA_RESETHAND | SA_NODEFER};
	void *frame;

	backtrace(&frame, 1); /* loads what it needs now, not in the handler */
	for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++)
		sigaction(fatal[i], &action, NULL);
}

#endif
