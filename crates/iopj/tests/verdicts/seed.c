/* Loaded into iopj (LD_PRELOAD) to falsify what it measures, as SEEDED says: `cache` opens everything without O_DIRECT,
 * `poller` has a ring with a submission poller that nobody uses. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int seeded(const char *what) {
    const char *word = getenv("SEEDED");
    return word && !strcmp(word, what);
}

int open64(const char *path, int flags, ...) {
    int (*next)(const char *, int, ...) = dlsym(RTLD_NEXT, "open64");
    va_list arguments;
    va_start(arguments, flags);
    int mode = va_arg(arguments, int);
    va_end(arguments);
    return next(path, seeded("cache") ? flags & ~O_DIRECT : flags, mode);
}

__attribute__((constructor)) static void poller(void) {
    /* struct io_uring_params: sq_entries, cq_entries, flags, sq_thread_cpu, sq_thread_idle, ... */
    unsigned params[30] = {0, 0, 1 << 1 /* IORING_SETUP_SQPOLL */, 0, 1 /* ms */};
    if (seeded("poller") && syscall(425 /* io_uring_setup */, 4, params) < 0)
        abort();
}
