// What the programs that use libaio and POSIX AIO share: libaio's functions, control blocks, and trials.
#include "common.h"
#include <aio.h>
#include <dlfcn.h>
#include <linux/aio_abi.h>

#pragma GCC diagnostic ignored "-Wunused-function"

// libaio's functions, of the library that comes first.
static int (*setup)(int, aio_context_t *), (*destroy)(aio_context_t);
static int (*submit)(aio_context_t, long, struct iocb **);
static int (*get_events)(aio_context_t, long, long, struct io_event *, struct timespec *);
static int (*pget_events)(aio_context_t, long, long, struct io_event *, struct timespec *, sigset_t *);

// Finds them as a program does that is linked with libaio, or (RTLD_LOCAL) as a plugin does.
static void load_by(int scope) {
    void *libaio = dlopen("libaio.so.1", RTLD_NOW | scope);
    // As Debian calls it from trixie on.
    if (libaio == NULL) libaio = dlopen("libaio.so.1t64", RTLD_NOW | scope);
    need(libaio != NULL, "libaio.so.1");
    struct {
        const char *name;
        void *to;
    } all[] = {{"io_setup", &setup},
               {"io_destroy", &destroy},
               {"io_submit", &submit},
               {"io_getevents", &get_events},
               {"io_pgetevents", &pget_events}};
    for (size_t number = 0; number < sizeof all / sizeof *all; number++) {
        void *found = dlsym(RTLD_DEFAULT, all[number].name);
        if (found == NULL) found = dlsym(libaio, all[number].name);
        need(found != NULL, all[number].name);
        memcpy(all[number].to, &found, sizeof found);
    }
}

static void load(void) {
    load_by(RTLD_GLOBAL);
}

static struct iocb asked(int code, int fd, void *memory, size_t len, long offset, uint64_t data) {
    return (struct iocb){.aio_data = data, .aio_lio_opcode = code, .aio_fildes = fd,
                         .aio_buf = (uintptr_t)memory, .aio_nbytes = len, .aio_offset = offset};
}

// One I/O: what io_submit said, or the result of its event.
static void one(const char *what, aio_context_t context, struct iocb block) {
    struct iocb *list[] = {&block};
    struct io_event event;
    int taken = submit(context, 1, list);
    if (taken != 1) {
        printf("%s: refused by %d\n", what, taken);
        return;
    }
    need(get_events(context, 1, 1, &event, NULL) == 1, "its event");
    need(event.obj == (uintptr_t)&block && event.data == block.aio_data, "its own event");
    printf("%s: %lld\n", what, (long long)event.res);
}

// So many events that the library believes in one thread.
static void trial(aio_context_t context, int fd, char *memory) {
    struct iocb block = asked(IOCB_CMD_PREAD, fd, memory, BLOCK, 0, 0), *list[] = {&block};
    struct io_event event;
    for (int round = 0; round < 20; round++)
        need(submit(context, 1, list) == 1 && get_events(context, 1, 1, &event, NULL) == 1, "an event");
}

static struct aiocb io(int fd, void *memory, size_t len, off_t offset) {
    struct aiocb block;
    memset(&block, 0, sizeof block);
    block.aio_fildes = fd;
    block.aio_buf = memory;
    block.aio_nbytes = len;
    block.aio_offset = offset;
    block.aio_sigevent.sigev_notify = SIGEV_NONE;
    return block;
}

static void finish(const char *what, int begun, struct aiocb *block) {
    if (begun != 0) {
        printf("%s: refused by %d\n", what, errno);
        return;
    }
    const struct aiocb *list[] = {block};
    while (aio_error(block) == EINPROGRESS) need(aio_suspend(list, 1, NULL) == 0, "its end");
    int error = aio_error(block);
    printf("%s: %d %ld\n", what, error, (long)aio_return(block));
}

static void *suspends(void *block) {
    const struct aiocb *list[] = {block};
    while (aio_error(block) == EINPROGRESS) need(aio_suspend(list, 1, NULL) == 0, "its end");
    return NULL;
}

// So many that the library believes that threads ask for their own.
static void posix_trial(int fd, char *memory) {
    for (int round = 0; round < 10; round++) {
        struct aiocb block = io(fd, memory, BLOCK, 0);
        need(aio_read(&block) == 0, "a read");
        suspends(&block);
        need(aio_return(&block) == BLOCK, "its bytes");
    }
}
