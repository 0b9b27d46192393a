// libaio and POSIX AIO. Each test says what it saw; with the library and without, that is the same.
#include "async.h"
#include <dirent.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/time.h>

static int by_data(const void *one, const void *two) {
    const struct io_event *first = one, *second = two;
    return (first->data > second->data) - (first->data < second->data);
}

static void libaio(void) {
    load();
    int fd = make("data", 0, O_RDWR);
    char *memory = blocks(16);
    aio_context_t context = 0;
    need(setup(16, &context) == 0, "a context");
    trial(context, fd, memory);
    struct iocb all[16], *list[16];
    struct io_event events[32];
    for (int number = 0; number < 16; number++) {
        all[number] = asked(IOCB_CMD_PREAD, fd, memory + number * BLOCK, BLOCK, number * BLOCK, number);
        list[number] = &all[number];
    }
    printf("taken: %d\n", submit(context, 16, list));
    int found = 0;
    while (found < 16) {
        int more = get_events(context, 1, 32 - found, events + found, NULL);
        need(more > 0, "events");
        found += more;
    }
    qsort(events, 16, sizeof *events, by_data);
    for (int number = 0; number < 16; number++)
        printf("%d: %lld %d\n", (int)events[number].data, (long long)events[number].res,
               is_filled(memory + number * BLOCK, number, BLOCK));
    memset(memory, 99, BLOCK);
    one("a write", context, asked(IOCB_CMD_PWRITE, fd, memory, BLOCK, 3 * BLOCK, 5));
    one("what it wrote", context, asked(IOCB_CMD_PREAD, fd, memory + BLOCK, BLOCK, 3 * BLOCK, 6));
    printf("its bytes: %d\n", is_filled(memory + BLOCK, 99, BLOCK));
    struct iocb durable = asked(IOCB_CMD_PWRITE, fd, memory, BLOCK, 0, 7);
    durable.aio_rw_flags = RWF_DSYNC;
    one("durable", context, durable);
    one("across the end", context, asked(IOCB_CMD_PREAD, fd, memory, 2 * BLOCK, (BLOCKS - 1) * BLOCK, 8));
    one("at the end", context, asked(IOCB_CMD_PREAD, fd, memory, BLOCK, (BLOCKS + 1) * BLOCK, 8));
    one("unaligned", context, asked(IOCB_CMD_PREAD, fd, memory, BLOCK, 1, 8));
    one("memory of nobody", context, asked(IOCB_CMD_PREAD, fd, (void *)0x10000, BLOCK, 0, 8));
    one("not open", context, asked(IOCB_CMD_PREAD, 900, memory, BLOCK, 0, 8));
    int reads = open(path_of("data"), O_RDONLY | O_DIRECT);
    one("a write where only reads are", context, asked(IOCB_CMD_PWRITE, reads, memory, BLOCK, 0, 8));
    one("no such code", context, asked(77, fd, memory, BLOCK, 0, 8));
    struct iovec vector = {memory, BLOCK};
    one("a vector", context, asked(IOCB_CMD_PREADV, fd, &vector, 1, 0, 8));
    int plain = open(path_of("data"), O_RDONLY);
    one("buffered", context, asked(IOCB_CMD_PREAD, plain, memory, 100, 1, 8));
    struct iocb notified = asked(IOCB_CMD_PREAD, fd, memory, BLOCK, 0, 9);
    int descriptor = eventfd(0, 0);
    notified.aio_flags = IOCB_FLAG_RESFD;
    notified.aio_resfd = descriptor;
    one("with a descriptor", context, notified);
    uint64_t count = 0;
    need(read(descriptor, &count, 8) == 8, "a number");
    printf("notified: %d\n", (int)count);
    // A list in which the third is refused.
    struct iocb third = asked(IOCB_CMD_PREAD, 900, memory, BLOCK, 0, 0);
    struct iocb *mixed[] = {&all[0], &all[1], &third, &all[2]};
    printf("two of four: %d\n", submit(context, 4, mixed));
    for (found = 0; found < 2;) found += get_events(context, 1, 2, events, NULL);
    struct timespec soon = {0, 20 * 1000 * 1000};
    printf("nothing comes: %d\n", get_events(context, 1, 1, events, &soon));
    printf("none is asked for: %d\n", get_events(context, 0, 1, events, &soon));
    printf("none of some: %d\n", submit(context, 1, list) + get_events(context, 1, 1, events, NULL));
    printf("fewer than none: %d\n", get_events(context, -1, 1, events, NULL));
    printf("a wrong context: %d\n", submit(12345, 1, list));
    // Closed while it is in flight.
    printf("again: %d\n", submit(context, 8, list));
    close(fd);
    for (found = 0; found < 8;) found += get_events(context, 1, 8, events + found, NULL);
    qsort(events, 8, sizeof *events, by_data);
    for (int number = 4; number < 8; number++)
        printf("%d: %lld %d\n", number, (long long)events[number].res,
               is_filled(memory + number * BLOCK, number, BLOCK));
    printf("closed: %d\n", submit(context, 1, list));
    fd = open(path_of("data"), O_RDWR | O_DIRECT);
    for (int number = 0; number < 16; number++) all[number].aio_fildes = fd;
    printf("left behind: %d\n", submit(context, 16, list));
    printf("destroyed: %d %d\n", destroy(context), destroy(context));
}

static aio_context_t shared;

static void *gets_sixteen(void *sum) {
    struct io_event events[16];
    for (int found = 0; found < 16;) {
        int more = get_events(shared, 1, 16, events, NULL);
        need(more > 0, "events");
        for (int number = 0; number < more; number++)
            *(long *)sum += events[number].res + events[number].data;
        found += more;
    }
    return NULL;
}

static void *submits(void *list) {
    need(submit(shared, 16, list) == 16, "a taken list");
    return NULL;
}

static void libaio_threads(void) {
    load();
    int fd = make("data", 0, O_RDWR);
    char *memory = blocks(16);
    need(setup(64, &shared) == 0, "a context");
    trial(shared, fd, memory);
    struct iocb all[16], *list[16];
    for (int number = 0; number < 16; number++) {
        all[number] = asked(IOCB_CMD_PREAD, fd, memory + number * BLOCK, BLOCK, number * BLOCK, number);
        list[number] = &all[number];
    }
    for (int round = 0; round < 6; round++) {
        long sum = 0;
        pthread_t one, two;
        if (round % 3 == 0) submits(list); // before the other comes
        need(!pthread_create(&one, NULL, gets_sixteen, &sum), "a thread");
        if (round % 3 == 1) {
            usleep(2000); // while it waits
            submits(list);
        }
        if (round % 3 == 2) { // by a thread that ends at once
            need(!pthread_create(&two, NULL, submits, list) && !pthread_join(two, NULL), "a thread");
        }
        need(!pthread_join(one, NULL), "its end");
        printf("sum: %ld\n", sum);
    }
    pid_t child = fork();
    if (child == 0) _exit(submit(shared, 1, list) == -EINVAL ? 0 : 1);
    int status = 0;
    need(waitpid(child, &status, 0) == child, "its end");
    printf("a child has no contexts: %d\n", status == 0);
    printf("destroyed: %d\n", destroy(shared));
}

static int rings(void) {
    int found = 0;
    DIR *numbers = opendir("/proc/self/fd");
    need(numbers != NULL, "a folder");
    for (struct dirent *entry; (entry = readdir(numbers)) != NULL;) {
        char target[64] = "";
        if (readlinkat(dirfd(numbers), entry->d_name, target, sizeof target - 1) > 0)
            found += strstr(target, "io_uring") != NULL;
    }
    closedir(numbers);
    return found;
}

static void *destroys(void *context) {
    return (void *)(intptr_t)destroy(*(aio_context_t *)context);
}

// What a thread has for its contexts goes when others destroy them.
static void libaio_destroyed(void) {
    load();
    int fd = make("data", 0, O_RDWR);
    char *memory = blocks(1);
    for (int round = 0; round < 4; round++) {
        aio_context_t context = 0;
        pthread_t thread;
        void *result = NULL;
        need(setup(4, &context) == 0, "a context");
        trial(context, fd, memory);
        need(!pthread_create(&thread, NULL, destroys, &context), "a thread");
        need(!pthread_join(thread, &result), "its end");
        printf("destroyed: %d\n", (int)(intptr_t)result);
    }
    // That of the last is there until the next is used.
    printf("no more than one: %d\n", rings() <= 1);
}

static volatile sig_atomic_t handled;

static void handles(int signal) {
    (void)signal;
    handled++;
}

static void in_a_while(void) {
    struct sigaction action = {.sa_handler = handles};
    struct itimerval once = {{0, 0}, {0, 20000}};
    need(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &once, NULL) == 0, "a timer");
}

static void interrupted(void) {
    load();
    struct io_event event;
    struct epoll_event other;
    need(setup(4, &shared) == 0, "a context");
    int fd = make("data", 0, O_RDWR), epoll = epoll_create1(0);
    char *memory = blocks(1);
    trial(shared, fd, memory);
    struct iocb block = asked(IOCB_CMD_PREAD, fd, memory, BLOCK, 0, 1), *list[] = {&block};
    // What comes of the I/O interrupts no other call.
    for (int round = 0; round < 5; round++) {
        need(submit(shared, 1, list) == 1, "a taken block");
        printf("nothing: %d\n", epoll_wait(epoll, &other, 1, 20));
        need(get_events(shared, 1, 1, &event, NULL) == 1, "its event");
        printf("nothing after it: %d\n", epoll_wait(epoll, &other, 1, 20));
    }
    in_a_while();
    printf("interrupted: %d\n", get_events(shared, 1, 1, &event, NULL));
    need(submit(shared, 1, list) == 1, "a taken block");
    in_a_while();
    // One comes, and the other never does.
    struct io_event two[2];
    printf("one of two: %d\n", get_events(shared, 2, 2, two, NULL));
    printf("handled: %d\n", handled);
    // Nor does the end of a ring.
    printf("destroyed: %d\n", destroy(shared));
    for (int round = 0; round < 4; round++) printf("nothing: %d\n", epoll_wait(epoll, &other, 1, 20));
}

static void *reads_and_ends(void *block) {
    need(aio_read(block) == 0, "a read");
    return NULL;
}

static void posix_aio(void) {
    int fd = make("data", 0, O_RDWR);
    char *memory = blocks(16);
    posix_trial(fd, memory);
    struct aiocb all[16], *list[16];
    for (int number = 0; number < 16; number++) {
        all[number] = io(fd, memory + number * BLOCK, BLOCK, number * BLOCK);
        need(aio_read(&all[number]) == 0, "a read");
    }
    for (int number = 15; number >= 0; number--) {
        finish("a read", 0, &all[number]);
        need(is_filled(memory + number * BLOCK, number, BLOCK), "its bytes");
    }
    memset(memory, 99, BLOCK);
    struct aiocb block = io(fd, memory, BLOCK, 3 * BLOCK);
    finish("a write", aio_write(&block), &block);
    block = io(fd, memory + BLOCK, BLOCK, 3 * BLOCK);
    finish("what it wrote", aio_read(&block), &block);
    printf("its bytes: %d\n", is_filled(memory + BLOCK, 99, BLOCK));
    block = io(fd, memory, 2 * BLOCK, (BLOCKS - 1) * BLOCK);
    finish("across the end", aio_read(&block), &block);
    block = io(fd, memory, BLOCK, (BLOCKS + 1) * BLOCK);
    finish("at the end", aio_read(&block), &block);
    block = io(fd, memory, BLOCK, 1);
    finish("unaligned", aio_read(&block), &block);
    block = io(fd, (void *)0x10000, BLOCK, 0);
    finish("memory of nobody", aio_read(&block), &block);
    block = io(900, memory, BLOCK, 0);
    finish("not open", aio_read(&block), &block);
    int reads = open(path_of("data"), O_RDONLY | O_DIRECT);
    block = io(reads, memory, BLOCK, 0);
    finish("a write where only reads are", aio_write(&block), &block);
    for (int mode = LIO_WAIT, round = 0; round < 2; round++, mode = LIO_NOWAIT) {
        for (int number = 0; number < 16; number++) {
            all[number] = io(fd, memory + number * BLOCK, BLOCK, number * BLOCK);
            all[number].aio_lio_opcode = number % 2 ? LIO_READ : LIO_WRITE;
            list[number] = &all[number];
        }
        printf("a list: %d\n", lio_listio(mode, list, 16, NULL));
        for (int number = 0; number < 16; number++) finish("of a list", 0, &all[number]);
    }
    all[0] = io(fd, memory, BLOCK, 0);
    all[0].aio_lio_opcode = LIO_READ;
    all[1] = io(fd, (void *)0x10000, BLOCK, 0);
    all[1].aio_lio_opcode = LIO_READ;
    int failed = lio_listio(LIO_WAIT, list, 2, NULL);
    printf("a list that fails: %d %d %d\n", failed, errno, aio_error(&all[1]));
    block = io(fd, memory, BLOCK, 5 * BLOCK);
    struct aiocb sync = io(fd, NULL, 0, 0);
    need(aio_write(&block) == 0, "a write");
    finish("made durable", aio_fsync(O_DSYNC, &sync), &sync);
    printf("before it: %d\n", aio_error(&block));
    printf("nothing to cancel: %d\n", aio_cancel(fd, &block) == AIO_ALLDONE);
    // glibc's: it notifies by a signal.
    struct sigaction action = {.sa_handler = handles};
    need(sigaction(SIGUSR1, &action, NULL) == 0, "a handler");
    struct aiocb notified = io(fd, memory, BLOCK, 8 * BLOCK);
    notified.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
    notified.aio_sigevent.sigev_signo = SIGUSR1;
    need(aio_read(&notified) == 0, "a read");
    for (int round = 0; round < 2000 && !handled; round++) usleep(1000);
    finish("notified", 0, &notified);
    printf("by a signal: %d\n", handled);
    const struct aiocb *none[] = {NULL, NULL};
    struct timespec soon = {0, 1000000};
    int waited = aio_suspend(none, 2, &soon);
    printf("for nothing: %d\n", waited);
}

static struct aiocb *awaited;

static void waits(int signal) {
    (void)signal;
    suspends(awaited);
    handled++;
}

// A handler that waits for what its own thread has begun; and one of ours in a list with one of glibc's.
static void posix_aio_waits(void) {
    int fd = make("data", 0, O_RDWR), plain = open(path_of("data"), O_RDONLY);
    char *memory = blocks(2);
    posix_trial(fd, memory);
    struct sigaction action = {.sa_handler = waits};
    need(sigaction(SIGUSR2, &action, NULL) == 0, "a handler");
    for (int round = 0; round < 20; round++) {
        struct aiocb block = io(fd, memory, BLOCK, round * BLOCK);
        awaited = &block;
        need(aio_read(&block) == 0 && raise(SIGUSR2) == 0, "a signal");
        finish("awaited in a handler", 0, &block);
        struct aiocb direct = io(fd, memory, BLOCK, round * BLOCK);
        struct aiocb buffered = io(plain, memory + BLOCK, 100, 3);
        const struct aiocb *list[] = {&direct, NULL, &buffered};
        need(aio_read(&direct) == 0 && aio_read(&buffered) == 0, "two reads");
        while (aio_error(&direct) == EINPROGRESS || aio_error(&buffered) == EINPROGRESS) {
            need(aio_suspend(list, 3, NULL) == 0, "an end");
            need(aio_error(&direct) != EINPROGRESS || aio_error(&buffered) != EINPROGRESS, "it");
            for (int number = 0; number < 3; number += 2)
                if (list[number] != NULL && aio_error(list[number]) != EINPROGRESS) list[number] = NULL;
            if (list[0] == NULL && list[2] == NULL) break;
        }
        printf("both: %ld %ld\n", (long)aio_return(&direct), (long)aio_return(&buffered));
    }
    printf("handled: %d\n", handled);
}

// One that asks for another's, which waits for its end.
static void posix_aio_threads(void) {
    int fd = make("data", 0, O_RDWR);
    char *memory = blocks(1);
    posix_trial(fd, memory);
    for (int round = 0; round < 3; round++) {
        pthread_t thread;
        struct aiocb block = io(fd, memory, BLOCK, 6 * BLOCK);
        need(aio_read(&block) == 0 && !pthread_create(&thread, NULL, suspends, &block), "a thread");
        need(!pthread_join(thread, NULL), "its end");
        finish("seen by another", 0, &block);
        block = io(fd, memory, BLOCK, 7 * BLOCK);
        need(!pthread_create(&thread, NULL, reads_and_ends, &block), "a thread");
        need(!pthread_join(thread, NULL), "its end");
        finish("begun by one that has ended", 0, &block);
        printf("its bytes: %d\n", is_filled(memory, 7, BLOCK));
    }
}

static void ended_in_flight(void) {
    int fd = make("data", 0, O_RDWR);
    char *memory = blocks(1);
    posix_trial(fd, memory);
    pthread_t thread;
    struct aiocb block = io(fd, memory, BLOCK, 7 * BLOCK);
    need(!pthread_create(&thread, NULL, reads_and_ends, &block) && !pthread_join(thread, NULL), "a thread");
    finish("begun by one that has ended", 0, &block);
    printf("its bytes: %d\n", is_filled(memory, 7, BLOCK));
}

static void closed_in_flight(void) {
    char *memory = blocks(32);
    int fd = make("data", 0, O_RDWR);
    posix_trial(fd, memory);
    memset(memory, 44, 16 * BLOCK);
    struct aiocb all[32];
    for (int number = 0; number < 32; number++) {
        all[number] = io(fd, memory + number * BLOCK, BLOCK, number * BLOCK);
        need((number < 16 ? aio_write(&all[number]) : aio_read(&all[number])) == 0, "an I/O");
    }
    close(fd);
    for (int number = 0; number < 32; number++) {
        // glibc's threads look the number up when they come to it, and may find it closed.
        while (aio_error(&all[number]) == EINPROGRESS) usleep(100);
        int error = aio_error(&all[number]);
        long result = aio_return(&all[number]);
        need((error == 0 && result == BLOCK) || (error == EBADF && result == -1), "its end");
        if (error == 0 && number >= 16) need(is_filled(memory + number * BLOCK, number, BLOCK), "its bytes");
    }
    printf("all have ended\n");
}

int main(int argc, char **argv) {
    struct test tests[] = {
        {"libaio_destroyed", libaio_destroyed},
        {"libaio", libaio},       {"libaio_threads", libaio_threads},     {"interrupted", interrupted},
        {"posix_aio", posix_aio}, {"posix_aio_threads", posix_aio_threads},
        {"posix_aio_waits", posix_aio_waits},
        {"ended_in_flight", ended_in_flight},
        {"closed_in_flight", closed_in_flight}, {NULL, NULL},
    };
    return run(tests, argc, argv);
}
