// What programs seldom do, and may. Each test says what it saw; with the library and without, that is the
// same. One that would wait for ever ends by SIGALRM.
#include "async.h"
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sys/mman.h>

enum { LARGE = 1 << 20, PARTS = 8 };

// A file of PARTS megabytes, each of one byte.
static int make_large(char *memory) {
    int fd = open(path_of("large"), O_CREAT | O_TRUNC | O_RDWR | O_DIRECT, 0600);
    need(fd >= 0, "a file");
    for (int part = 0; part < PARTS; part++) {
        memset(memory, part + 1, LARGE);
        need(write(fd, memory, LARGE) == LARGE, "its parts");
    }
    need(fsync(fd) == 0, "its end");
    return fd;
}

static sigset_t mask(int how, bool all) {
    sigset_t signals, before;
    sigemptyset(&signals);
    if (all) sigfillset(&signals);
    need(pthread_sigmask(how, &signals, &before) == 0, "a mask");
    return before;
}

// Hands the kernel or the library PARTS large reads or writes.
static aio_context_t large_in_flight(int code, int fd, char *memory, struct iocb *all) {
    aio_context_t context = 0;
    struct iocb *list[PARTS];
    need(setup(PARTS, &context) == 0, "a context");
    trial(context, fd, memory);
    for (int part = 0; part < PARTS; part++) {
        all[part] = asked(code, fd, memory + part * LARGE, LARGE, part * LARGE, part);
        list[part] = &all[part];
    }
    need(submit(context, PARTS, list) == PARTS, "a taken list");
    return context;
}

// Nothing is written to the memory of what was in flight when a context has been destroyed, whatever signals
// are held off.
static void masked_destroy(void) {
    load();
    char *memory = blocks(PARTS * LARGE / BLOCK);
    int fd = make_large(memory);
    for (int round = 0; round < 3; round++) {
        enum { MANY = 8 * PARTS };
        static struct iocb all[MANY], *list[MANY];
        aio_context_t context = 0;
        need(setup(MANY, &context) == 0, "a context");
        trial(context, fd, memory);
        for (int number = 0; number < MANY; number++) {
            long place = number % PARTS * LARGE;
            all[number] = asked(IOCB_CMD_PREAD, fd, memory + place, LARGE, place, number);
            list[number] = &all[number];
        }
        need(submit(context, MANY, list) == MANY, "a taken list");
        mask(SIG_BLOCK, true);
        printf("destroyed: %d\n", destroy(context));
        // At once, the last byte of each.
        int touched = 0;
        for (int part = 0; part < PARTS; part++) memory[part * LARGE + LARGE - 1] = 99;
        usleep(30000);
        for (int part = 0; part < PARTS; part++) touched += memory[part * LARGE + LARGE - 1] != 99;
        printf("touched: %d\n", touched);
        mask(SIG_SETMASK, false);
        printf("again: %d\n", destroy(context));
    }
}

static void masked_wait(void) {
    load();
    alarm(20);
    char *memory = blocks(PARTS * LARGE / BLOCK);
    int fd = make_large(memory);
    struct iocb all[PARTS];
    struct io_event events[PARTS];
    aio_context_t context = large_in_flight(IOCB_CMD_PREAD, fd, memory, all);
    sigset_t usual = mask(SIG_BLOCK, true);
    printf("all: %d\n", pget_events(context, PARTS, PARTS, events, NULL, &usual));
    // What is nobody's comes never, but the time is over.
    struct timespec soon = {0, 30 * 1000 * 1000};
    printf("none: %d\n", pget_events(context, 1, PARTS, events, &soon, &usual));
    for (int part = 0; part < PARTS; part++)
        need(is_filled(memory + part * LARGE, part + 1, LARGE), "its bytes");
    need(destroy(context) == 0, "its end");
    // What is in flight when a process ends is written.
    pid_t child = fork();
    if (child == 0) {
        memset(memory, 77, PARTS * LARGE);
        mask(SIG_SETMASK, false);
        large_in_flight(IOCB_CMD_PWRITE, fd, memory, all);
        mask(SIG_BLOCK, true);
        _exit(0);
    }
    int status = 0;
    need(waitpid(child, &status, 0) == child, "its end");
    need(pread(fd, memory, PARTS * LARGE, 0) == PARTS * LARGE, "a read");
    printf("written: %d %d\n", status, is_filled(memory + BLOCK, 77, PARTS * LARGE - BLOCK));
}

static void local_by(int scope) {
    load_by(scope);
    int fd = make("data", 0, O_RDWR);
    char *memory = blocks(1);
    aio_context_t context = 0;
    printf("too many: %d\n", setup(-1, &context));
    printf("made: %d\n", setup(4, &context));
    trial(context, fd, memory);
    one("a read", context, asked(IOCB_CMD_PREAD, fd, memory, BLOCK, 5 * BLOCK, 1));
    printf("its bytes: %d\n", is_filled(memory, 5, BLOCK));
    one("no such code", context, asked(77, fd, memory, BLOCK, 0, 2));
    struct io_event event;
    struct timespec soon = {0, 1000 * 1000};
    sigset_t none;
    sigemptyset(&none);
    printf("none: %d\n", get_events(context, 1, 1, &event, &soon));
    printf("none: %d\n", pget_events(context, 1, 1, &event, &soon, &none));
    printf("fewer than none: %d\n", get_events(context, -1, 1, &event, NULL));
    printf("a wrong context: %d\n", submit(12345, 1, NULL));
    errno = 7;
    printf("destroyed: %d %d, errno %d\n", destroy(context), destroy(context), errno);
}

static void local(void) {
    local_by(RTLD_LOCAL);
}

static int shared_fd;
static volatile bool cleaned;
static volatile int rounds;

static void clean(void *argument) {
    (void)argument;
    cleaned = true;
}

// One that is to be cancelled, while it calls what is no cancellation point.
static void *cancels_itself(void *memory) {
    aio_context_t context = 0;
    pthread_cleanup_push(clean, NULL);
    need(pthread_cancel(pthread_self()) == 0 && setup(4, &context) == 0, "a context");
    for (rounds = 0; rounds < 5; rounds++) trial(context, shared_fd, memory);
    need(destroy(context) == 0, "its end");
    pthread_testcancel();
    pthread_cleanup_pop(0);
    return NULL;
}

static void late_cancel(void) {
    load();
    shared_fd = make("data", 0, O_RDWR);
    char *memory = blocks(1);
    for (int round = 0; round < 3; round++) {
        pthread_t thread;
        void *result = NULL;
        cleaned = false;
        need(!pthread_create(&thread, NULL, cancels_itself, memory), "a thread");
        need(!pthread_join(thread, &result), "its end");
        printf("cancelled after %d: %d\n", rounds, (result == PTHREAD_CANCELED) + 2 * cleaned);
    }
}

// What is submitted where signals are held off, as in a handler, comes back while others are in flight.
static void in_a_handler(void) {
    load();
    int fd = make("data", 0, O_RDWR);
    char *memory = blocks(2);
    aio_context_t context = 0;
    need(setup(8, &context) == 0, "a context");
    trial(context, fd, memory);
    struct iocb first = asked(IOCB_CMD_PREAD, fd, memory, BLOCK, 0, 1), *one[] = {&first};
    mask(SIG_BLOCK, true);
    need(submit(context, 1, one) == 1, "a taken block");
    mask(SIG_SETMASK, false);
    int found = 0;
    for (int round = 0; round < 200 && !found; round++) {
        struct iocb next = asked(IOCB_CMD_PREAD, fd, memory + BLOCK, BLOCK, 0, 2), *list[] = {&next};
        struct io_event events[4];
        need(submit(context, 1, list) == 1, "a taken block");
        for (int seen = 0; seen == 0;) {
            usleep(500);
            int count = get_events(context, 1, 4, events, NULL);
            for (int number = 0; number < count; number++) {
                found += events[number].data == 1;
                seen += events[number].data == 2;
            }
        }
    }
    printf("found: %d\n", found);
}

static struct aiocb given;
static pthread_barrier_t barrier;

static void *reads_with_mask(void *memory) {
    mask(SIG_BLOCK, true);
    posix_trial(shared_fd, memory);
    given = io(shared_fd, memory, BLOCK, 4 * BLOCK);
    need(aio_read(&given) == 0, "a read");
    pthread_barrier_wait(&barrier);
    // Until the other has got it.
    pthread_barrier_wait(&barrier);
    return NULL;
}

// A thread that waits for what another has begun, which holds off every signal and does nothing.
static void unreachable(void) {
    alarm(20);
    shared_fd = make("data", 0, O_RDWR);
    pthread_t thread;
    need(!pthread_barrier_init(&barrier, NULL, 2), "a barrier");
    need(!pthread_create(&thread, NULL, reads_with_mask, blocks(1)), "a thread");
    pthread_barrier_wait(&barrier);
    finish("of another", 0, &given);
    pthread_barrier_wait(&barrier);
    need(!pthread_join(thread, NULL), "its end");
}

static aio_context_t contexts[2];

static void *destroys(void *number) {
    int own = (int)(intptr_t)number;
    static struct iocb all[2][PARTS];
    contexts[own] = large_in_flight(IOCB_CMD_PREAD, shared_fd, blocks(PARTS * LARGE / BLOCK), all[own]);
    pthread_barrier_wait(&barrier);
    long result = destroy(contexts[!own]);
    pthread_barrier_wait(&barrier);
    return (void *)result;
}

// Two threads that destroy each other's.
static void crossed(void) {
    load();
    alarm(20);
    shared_fd = make_large(blocks(LARGE / BLOCK));
    pthread_t threads[2];
    need(!pthread_barrier_init(&barrier, NULL, 2), "a barrier");
    for (int round = 0; round < 2; round++) {
        void *results[2];
        for (int number = 0; number < 2; number++)
            need(!pthread_create(&threads[number], NULL, destroys, (void *)(intptr_t)number), "a thread");
        for (int number = 0; number < 2; number++)
            need(!pthread_join(threads[number], &results[number]), "its end");
        printf("destroyed: %ld %ld\n", (long)results[0], (long)results[1]);
    }
}

static int ends[2];

static void *forks_in_flight(void *memory) {
    posix_trial(shared_fd, memory);
    memset(memory, 200, BLOCK);
    struct aiocb block = io(shared_fd, memory, BLOCK, 5 * BLOCK);
    need(aio_write(&block) == 0, "a write");
    pid_t child = fork();
    if (child == 0) {
        char told;
        need(read(ends[0], &told, 1) == 1, "a word");
        return NULL; // its last thread, so the process ends
    }
    finish("the parent's", 0, &block);
    memset(memory, 201, BLOCK);
    need(pwrite(shared_fd, memory, BLOCK, 5 * BLOCK) == BLOCK, "a later write");
    need(write(ends[1], "x", 1) == 1, "a word");
    int status = 0;
    need(waitpid(child, &status, 0) == child, "its end");
    need(pread(shared_fd, memory, BLOCK, 5 * BLOCK) == BLOCK, "a read");
    printf("the later: %d %d\n", status, is_filled(memory, 201, BLOCK));
    return NULL;
}

// A child does not write again what its parent had in flight.
static void child_ends(void) {
    shared_fd = make("data", 0, O_RDWR);
    need(pipe(ends) == 0, "a pipe");
    for (int round = 0; round < 3; round++) {
        pthread_t thread;
        need(!pthread_create(&thread, NULL, forks_in_flight, blocks(1)), "a thread");
        need(!pthread_join(thread, NULL), "its end");
    }
}

// I/Os on one place of one descriptor: glibc does them one after the other.
static void overlaps(void) {
    char *memory = blocks(PARTS * LARGE / BLOCK);
    int fd = make_large(memory);
    posix_trial(fd, memory);
    long last = LARGE - BLOCK;
    char *large = memory, *small = memory + LARGE, *read = memory + 2 * LARGE;
    for (int round = 0; round < 6; round++) {
        memset(large, 10 + round, LARGE);
        memset(small, 100 + round, BLOCK);
        struct aiocb one = io(fd, large, LARGE, 0), two = io(fd, small, BLOCK, last);
        struct aiocb three = io(fd, read, BLOCK, last);
        // One that glibc has, in turn the first, the second and none.
        struct aiocb *notified = round % 3 == 0 ? &one : round % 3 == 1 ? &two : NULL;
        if (notified != NULL) {
            notified->aio_sigevent.sigev_notify = SIGEV_SIGNAL;
            notified->aio_sigevent.sigev_signo = SIGURG; // which is ignored
        }
        need(aio_write(&one) == 0 && aio_write(&two) == 0 && aio_read(&three) == 0, "three");
        finish("three", 0, &three);
        finish("two", 0, &two);
        finish("one", 0, &one);
        printf("read the second: %d\n", is_filled(read, 100 + round, BLOCK));
        need(pread(fd, read, BLOCK, last) == BLOCK, "a read");
        printf("ends with it: %d\n", is_filled(read, 100 + round, BLOCK));
        struct aiocb of_list[2] = {io(fd, large, LARGE, LARGE), io(fd, small, BLOCK, LARGE + last)};
        struct aiocb *list[2] = {&of_list[0], &of_list[1]};
        of_list[0].aio_lio_opcode = of_list[1].aio_lio_opcode = LIO_WRITE;
        need(lio_listio(LIO_WAIT, list, 2, NULL) == 0, "a list");
        need(pread(fd, read, BLOCK, LARGE + last) == BLOCK, "a read");
        printf("as the list has it: %d\n", is_filled(read, 100 + round, BLOCK));
    }
}

static volatile bool done, has_met;

// Has always some in flight.
static void *reads_on(void *memory) {
    enum { MANY = 16 };
    struct aiocb all[MANY];
    for (int number = 0; number < MANY; number++) {
        all[number] = io(shared_fd, (char *)memory + number * BLOCK, BLOCK, number * BLOCK);
        need(aio_read(&all[number]) == 0, "a read");
    }
    for (int number = 0, left = MANY; left > 0; number = (number + 1) % MANY) {
        suspends(&all[number]);
        need(aio_return(&all[number]) == BLOCK, "its bytes");
        if (!has_met) pthread_barrier_wait(&barrier);
        has_met = true;
        if (done) left--;
        else need(aio_read(&all[number]) == 0, "a read");
    }
    return NULL;
}

// What begins after a call of aio_fsync does not hold it up.
static void syncs_beside(void) {
    alarm(20);
    shared_fd = make("data", 0, O_RDWR);
    char *memory = blocks(1);
    pthread_t thread;
    posix_trial(shared_fd, memory);
    need(!pthread_barrier_init(&barrier, NULL, 2), "a barrier");
    need(!pthread_create(&thread, NULL, reads_on, blocks(16)), "a thread");
    pthread_barrier_wait(&barrier);
    struct aiocb block = io(shared_fd, memory, BLOCK, 40 * BLOCK), sync = io(shared_fd, NULL, 0, 0);
    need(aio_write(&block) == 0, "a write");
    finish("made durable", aio_fsync(O_DSYNC, &sync), &sync);
    printf("before it: %d\n", aio_error(&block));
    done = true;
    need(!pthread_join(thread, NULL), "its end");
}

static struct aiocb *awaited;

static void waits(int signal) {
    (void)signal;
    suspends(awaited);
}

// On a stack of another making.
static void other_stack(void) {
    int fd = make("data", 0, O_RDWR);
    char *memory = blocks(1);
    posix_trial(fd, memory);
    enum { ROOM = 256 << 10 };
    char *room = mmap(NULL, ROOM + BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(room != MAP_FAILED && mprotect(room, BLOCK, PROT_NONE) == 0, "a stack");
    stack_t stack = {.ss_sp = room + BLOCK, .ss_size = ROOM};
    struct sigaction action = {.sa_handler = waits, .sa_flags = SA_ONSTACK};
    need(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR2, &action, NULL) == 0, "a handler");
    for (int round = 0; round < 300; round++) {
        struct aiocb block = io(fd, memory, BLOCK, (round % BLOCKS) * BLOCK);
        awaited = &block;
        need(aio_read(&block) == 0 && raise(SIGUSR2) == 0, "a signal");
        need(aio_error(&block) == 0 && aio_return(&block) == BLOCK, "its end");
        need(is_filled(memory, round % BLOCKS, BLOCK), "its bytes");
    }
    printf("all have ended\n");
}

// The kernel waits for I/O on a file before it changes its length or its extents.
static void changed_in_flight(void) {
    load();
    alarm(20);
    char *memory = blocks(PARTS * LARGE / BLOCK);
    int fd = make_large(memory);
    struct iocb all[PARTS];
    struct io_event events[PARTS];
    aio_context_t context = large_in_flight(IOCB_CMD_PWRITE, fd, memory, all);
    printf("shorter: %d\n", ftruncate(fd, 3 * LARGE));
    int found = 0;
    while (found < PARTS) found += get_events(context, 1, PARTS, events + found, NULL);
    printf("its length: %ld\n", (long)lseek(fd, 0, SEEK_END));
}

static void *reads_with_one_held_off(void *memory) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR2);
    need(pthread_sigmask(SIG_BLOCK, &signals, NULL) == 0, "a mask");
    for (int round = 0; round < 400; round++) {
        need(pread(shared_fd, memory, BLOCK, round % BLOCKS * BLOCK) == BLOCK, "a read");
        need(is_filled(memory, round % BLOCKS, BLOCK), "its bytes");
    }
    return NULL;
}

// A thread that leaves a signal to others, as a handler does, and all its life.
static void held_off(void) {
    shared_fd = make("data", 0, O_RDWR);
    need(signal(SIGUSR2, waits) != SIG_ERR, "a handler");
    pthread_t thread;
    need(!pthread_create(&thread, NULL, reads_with_one_held_off, blocks(1)), "a thread");
    need(!pthread_join(thread, NULL), "its end");
    printf("has read\n");
}

// Reads in a child that has the memory of its parent.
static void read_by_child(void) {
    int fd = make("data", 0, O_RDWR);
    char *memory = blocks(1);
    warm(fd);
    for (int round = 0; round < 3; round++) {
        int status = 0;
        pid_t child = vfork();
        if (child == 0) {
            long done = pread(fd, memory, BLOCK, 5 * BLOCK);
            _exit(done == BLOCK && is_filled(memory, 5, BLOCK) ? 0 : 1);
        }
        need(waitpid(child, &status, 0) == child, "its end");
        printf("a child: %d\n", status);
        need(pread(fd, memory, BLOCK, 7 * BLOCK) == BLOCK && is_filled(memory, 7, BLOCK), "a read");
    }
}

static int watch(void *address) {
    struct perf_event_attr event = {.type = PERF_TYPE_BREAKPOINT, .size = sizeof event,
                                    .bp_type = HW_BREAKPOINT_RW, .bp_addr = (uintptr_t)address, .bp_len = 8,
                                    .exclude_kernel = 1, .exclude_hv = 1};
    return (int)syscall(SYS_perf_event_open, &event, 0, -1, -1, 0);
}

static long accesses(int watcher) {
    uint64_t count = 0;
    need(read(watcher, &count, 8) == 8, "a count");
    return (long)count;
}

// The processor counts what this process reads or writes of a buffer: nothing, for the kernel does.
static void copies(void) {
    load();
    int fd = make("data", 1, O_RDWR);
    char *memory = blocks(1);
    warm(fd);
    aio_context_t context = 0;
    need(setup(4, &context) == 0, "a context");
    trial(context, fd, memory);
    posix_trial(fd, memory);
    int watcher = watch(memory);
    if (watcher < 0) {
        printf("no breakpoints\n");
        return;
    }
    for (int code = 0; code < 2; code++) {
        for (int round = 0; round < 20; round++) {
            long done = code ? pwrite(fd, memory, BLOCK, BLOCK) : pread(fd, memory, BLOCK, BLOCK);
            need(done == BLOCK, "a call");
            int by_libaio = code ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
            one("by libaio", context, asked(by_libaio, fd, memory, BLOCK, BLOCK, 1));
            struct aiocb block = io(fd, memory, BLOCK, BLOCK);
            finish("by POSIX AIO", code ? aio_write(&block) : aio_read(&block), &block);
        }
        printf("accesses: %ld\n", accesses(watcher));
    }
    need(is_filled(memory, 2, BLOCK), "its bytes");
    printf("its own are seen: %d\n", accesses(watcher) > 0);
}

int main(int argc, char **argv) {
    struct test tests[] = {
        {"masked_destroy", masked_destroy}, {"masked_wait", masked_wait},   {"local", local},
        {"late_cancel", late_cancel},       {"in_a_handler", in_a_handler}, {"unreachable", unreachable},
        {"crossed", crossed},               {"child_ends", child_ends},     {"overlaps", overlaps},
        {"syncs_beside", syncs_beside},     {"other_stack", other_stack},   {"copies", copies},
        {"changed_in_flight", changed_in_flight}, {"held_off", held_off},
        {"read_by_child", read_by_child},   {NULL, NULL},
    };
    return run(tests, argc, argv);
}
