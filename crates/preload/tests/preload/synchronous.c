// Calls that wait. Each test says what it saw; with the library and without, that is the same.
#include "common.h"
#include <dirent.h>
#include <limits.h>
#include <linux/close_range.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/file.h>
#include <sys/time.h>

static void *volatile nothing = NULL;
static volatile int fewer = -1;

static void results(void) {
    int fd = make("data", 0, O_RDWR);
    warm(fd);
    char *memory = blocks(4);
    errno = 77;
    say("a block", pread(fd, memory, BLOCK, 5 * BLOCK));
    say("errno is kept", errno);
    say("its bytes", is_filled(memory, 5, BLOCK));
    say("four blocks", pread(fd, memory, 4 * BLOCK, 8 * BLOCK));
    say("the last of them", is_filled(memory + 3 * BLOCK, 11, BLOCK));
    say("across the end", pread(fd, memory, 2 * BLOCK, (BLOCKS - 1) * BLOCK));
    say("at the end", pread(fd, memory, BLOCK, (BLOCKS + 1) * BLOCK));
    say("far behind it", pread(fd, memory, BLOCK, 1L << 40));
    say("nothing", pread(fd, memory, 0, 0));
    say("before the beginning", pread(fd, memory, BLOCK, -BLOCK));
    say("an unaligned offset", pread(fd, memory, BLOCK, 1));
    say("an unaligned length", pread(fd, memory, BLOCK - 1, 0));
    say("an unaligned address", pread(fd, memory + 1, BLOCK, 0));
    say("no memory", pread(fd, nothing, BLOCK, 0));
    say("memory of nobody", pread(fd, (void *)0x10000, BLOCK, 0));
    say("memory that cannot be read", pwrite(fd, (void *)0x10000, BLOCK, 0));
    memset(memory, 200, BLOCK);
    say("a write", pwrite(fd, memory, BLOCK, 7 * BLOCK));
    memset(memory, 0, BLOCK);
    say("what it wrote", pread(fd, memory, BLOCK, 7 * BLOCK) + is_filled(memory, 200, BLOCK));
    struct iovec vectors[20];
    for (int number = 0; number < 20; number++) vectors[number] = (struct iovec){memory, BLOCK};
    vectors[1].iov_base = memory + BLOCK;
    say("two vectors", preadv(fd, vectors, 2, 9 * BLOCK));
    say("their bytes", is_filled(memory, 9, BLOCK) + 2 * is_filled(memory + BLOCK, 10, BLOCK));
    say("two vectors written", pwritev(fd, vectors, 2, 20 * BLOCK));
    say("read back", pread(fd, memory + 2 * BLOCK, 2 * BLOCK, 20 * BLOCK));
    say("the same", memcmp(memory, memory + 2 * BLOCK, 2 * BLOCK) == 0);
    say("twenty vectors", preadv(fd, vectors, 20, 0));
    say("no vector", preadv(fd, vectors, 0, 0));
    say("fewer than none", preadv(fd, vectors, fewer, 0));
    say("durable", pwritev2(fd, vectors, 1, 0, RWF_DSYNC));
    say("durable with times", pwritev2(fd, vectors, 1, 0, RWF_SYNC));
    say("by a flag of reads", preadv2(fd, vectors, 1, 0, RWF_HIPRI));
    say("by a flag that is none", preadv2(fd, vectors, 1, 0, 1 << 30));
    need(lseek(fd, 3 * BLOCK, SEEK_SET) == 3 * BLOCK, "a place");
    say("where the file stands", preadv2(fd, vectors, 1, -1, 0) + is_filled(memory, 3, BLOCK));
    say("it went on", lseek(fd, 0, SEEK_CUR));
    int reads = open(path_of("data"), O_RDONLY | O_DIRECT);
    int writes = open(path_of("data"), O_WRONLY | O_DIRECT);
    warm(reads);
    for (int round = 0; round < 40; round++) need(pwrite(writes, memory, BLOCK, 0) == BLOCK, "a write");
    say("a write where only reads are", pwrite(reads, memory, BLOCK, 0));
    say("a read where only writes are", pread(writes, memory, BLOCK, 0));
    int appends = open(path_of("data"), O_WRONLY | O_DIRECT | O_APPEND);
    say("appended", pwrite(appends, memory, BLOCK, 0) + lseek(appends, 0, SEEK_END));
    close(fd);
    say("closed", pread(fd, memory, BLOCK, 0));
    say("never open", pwrite(-1, memory, BLOCK, 0));
}

static void *in_own_blocks(void *number) {
    int first = (int)(intptr_t)number * 8, fd = open(path_of("data"), O_RDWR | O_DIRECT);
    char *memory = blocks(2);
    for (int round = 0; round < 100; round++) {
        int block = first + round % 8;
        memset(memory, round + first, BLOCK);
        need(pwrite(fd, memory, BLOCK, (off_t)block * BLOCK) == BLOCK, "a write");
        need(pread(fd, memory + BLOCK, BLOCK, (off_t)block * BLOCK) == BLOCK, "a read");
        need(is_filled(memory + BLOCK, round + first, BLOCK), "the bytes");
    }
    close(fd);
    return NULL;
}

static void threads(void) {
    int fd = make("data", 0, O_RDWR);
    pthread_t threads[4];
    for (int number = 0; number < 4; number++)
        need(!pthread_create(&threads[number], NULL, in_own_blocks, (void *)(intptr_t)number), "a thread");
    for (int number = 0; number < 4; number++) need(!pthread_join(threads[number], NULL), "its end");
    char *memory = blocks(1);
    for (int number = 0; number < 4; number++) {
        need(pread(fd, memory, BLOCK, (off_t)number * 8 * BLOCK) == BLOCK, "a read");
        say("a thread wrote", (unsigned char)memory[0]);
    }
}

static void forks(void) {
    int fd = make("data", 0, O_RDWR);
    warm(fd);
    char *memory = blocks(1);
    for (int round = 0; round < 20; round++) {
        pid_t child = round % 2 ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        need(child >= 0, "a child");
        if (child == 0) {
            for (int again = 0; again < 40; again++) {
                memset(memory, round + 100, BLOCK);
                if (pwrite(fd, memory, BLOCK, (off_t)round * BLOCK) != BLOCK) _exit(1);
                if (pread(fd, memory, BLOCK, 40 * BLOCK) != BLOCK || !is_filled(memory, 40, BLOCK)) _exit(2);
            }
            _exit(0);
        }
        // Beside the child.
        for (int again = 0; again < 40; again++)
            need(pread(fd, memory, BLOCK, 50 * BLOCK) == BLOCK && is_filled(memory, 50, BLOCK), "a read");
        int status = 0;
        need(waitpid(child, &status, 0) == child, "its end");
        say("child", status);
        need(pread(fd, memory, BLOCK, (off_t)round * BLOCK) == BLOCK, "a read");
        say("it wrote", (unsigned char)memory[0]);
    }
    pid_t child = vfork();
    if (child == 0) _exit(7);
    int status = 0;
    need(waitpid(child, &status, 0) == child, "its end");
    say("a child in the same memory", WEXITSTATUS(status));
}

static void *reads_until_told(void *done) {
    int fd = open(path_of("data"), O_RDWR | O_DIRECT);
    char *memory = blocks(1);
    for (int block = 0; !*(volatile bool *)done; block = (block + 1) % BLOCKS) {
        need(pread(fd, memory, BLOCK, (off_t)block * BLOCK) == BLOCK, "a read");
        need(is_filled(memory, block, BLOCK), "its bytes");
    }
    close(fd);
    return NULL;
}

// Forks while other threads are in the library, and holding whatever they hold.
static void forks_beside(void) {
    int fd = make("data", 0, O_RDWR);
    volatile bool done = false;
    pthread_t threads[3];
    for (int number = 0; number < 3; number++)
        need(!pthread_create(&threads[number], NULL, reads_until_told, (void *)&done), "a thread");
    long bad = 0;
    for (int round = 0; round < 60; round++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            warm(fd);
            _exit(0);
        }
        int status = 0;
        need(waitpid(child, &status, 0) == child, "its end");
        bad += status != 0;
    }
    say("bad children", bad);
    say("a program", WEXITSTATUS(system("exit 3")));
    done = true;
    for (int number = 0; number < 3; number++) need(!pthread_join(threads[number], NULL), "its end");
}

// A child has copies of them, which are its own.
static void in_child(pid_t (*fork)(void), volatile int fd, volatile int ring) {
    volatile pid_t child = fork();
    if (child == 0) _exit(dup2(fd, ring) == ring && close(ring) == 0 ? 0 : 1);
    int status = 0;
    need(waitpid(child, &status, 0) == child && status == 0, "a number of a child");
}

// The numbers of the library's rings are nobody's, and nobody gets them.
static void rings(int fd) {
    DIR *numbers = opendir("/proc/self/fd");
    need(numbers != NULL, "a folder");
    int found = 0;
    for (struct dirent *entry; (entry = readdir(numbers)) != NULL;) {
        char link[512], target[512] = "";
        snprintf(link, sizeof link, "/proc/self/fd/%s", entry->d_name);
        if (readlink(link, target, sizeof target - 1) < 0 || strstr(target, "io_uring") == NULL) continue;
        int ring = atoi(entry->d_name);
        found++;
        in_child(fork, fd, ring);
        in_child(vfork, fd, ring);
        need(ring > 100 && close(ring) == -1 && errno == EBADF, "no such number");
        need(dup2(fd, ring) == -1 && errno == EBUSY, "a number that is taken");
    }
    closedir(numbers);
    need(found > 0 || getenv("IOPJ_PRELOAD_STATS") == NULL, "a ring");
}

static void numbers(void) {
    int one = make("one", 0, O_RDWR), two = make("two", 100, O_RDWR);
    char *memory = blocks(1);
    warm(one);
    warm(two);
    rings(one);
    int copy = dup(one);
    warm(copy);
    close(one);
    say("by the copy", pread(copy, memory, BLOCK, BLOCK) + memory[0]);
    say("by the closed one", pread(one, memory, BLOCK, BLOCK));
    say("put over", dup2(two, copy) == copy);
    say("reads the other", pread(copy, memory, BLOCK, BLOCK) + memory[0]);
    // Behind the library.
    one = open(path_of("one"), O_RDWR | O_DIRECT);
    warm(one);
    need(syscall(SYS_dup3, two, one, 0) == one, "a number");
    say("put over by a system call", pread(one, memory, BLOCK, BLOCK) + memory[0]);
    need(syscall(SYS_close, one) == 0, "an end");
    say("closed by a system call", pread(one, memory, BLOCK, BLOCK));
    need(syscall(SYS_openat, AT_FDCWD, path_of("one"), O_RDONLY) == one, "the same number");
    say("buffered now", pread(one, memory + 1, 100, 1) + memory[1]);
    int ends[2];
    need(pipe(ends) == 0 && write(ends[1], memory, 512) == 512, "a pipe");
    need(syscall(SYS_dup3, ends[0], one, 0) == one, "a number");
    say("a pipe now", pread(one, memory, 512, 0));
    int fd = open(path_of("one"), O_RDWR | O_DIRECT);
    warm(fd);
    need(fcntl(fd, F_SETFL, 0) == 0, "flags");
    say("without O_DIRECT", pread(fd, memory, 100, 3 * BLOCK + 7) + memory[0]);
    int third = fcntl(fd, F_DUPFD, 100);
    say("a number from 100 on", third);
    say("its bytes", pread(third, memory, 100, 3 * BLOCK + 7) + memory[0]);
    int next = open(path_of("two"), O_RDONLY);
    say("the next number is the lowest", next < 20);
    // Everything but the standard ones, as a daemon does: what was open is closed, and nothing is broken.
    say("a range", close_range(3, ~0U, 0));
    say("closed with it", pread(fd, memory, BLOCK, 0));
    fd = open(path_of("two"), O_RDWR | O_DIRECT);
    say("the first number", fd);
    warm(fd);
    say("goes on", pread(fd, memory, BLOCK, 2 * BLOCK) + memory[0]);
    closefrom(3);
    for (int number = 3; number < 1024; number++) need(close(number) == -1 && errno == EBADF, "nothing open");
    fd = open(path_of("two"), O_RDWR | O_DIRECT);
    warm(fd);
    say("and again", pread(fd, memory, BLOCK, 2 * BLOCK) + memory[0]);
}

static void *warms(void *fd) {
    warm((int)(intptr_t)fd);
    return NULL;
}

// Threads whose stacks are no larger than they must be.
static void stacks(void) {
    int fd = make("data", 0, O_RDWR);
    for (size_t len = 24 << 10; len <= 1 << 20; len *= 2) {
        pthread_attr_t attributes;
        pthread_t thread;
        need(!pthread_attr_init(&attributes) && !pthread_attr_setstacksize(&attributes, len), "a stack");
        need(!pthread_create(&thread, &attributes, warms, (void *)(intptr_t)fd), "a thread");
        need(!pthread_join(thread, NULL), "its end");
        say("a thread with little room has read", (long)len);
    }
}

static volatile sig_atomic_t grown;

static void grows(int signal) {
    (void)signal;
    grown++;
}

// A file that may not grow: a signal says so.
static void limits(void) {
    int fd = make("data", 0, O_RDWR);
    char *memory = blocks(1);
    struct sigaction action = {.sa_handler = grows};
    need(sigaction(SIGXFSZ, &action, NULL) == 0, "a handler");
    for (int round = 0; round < 2; round++) {
        // After reads by an engine, a limit that is new and one that is another.
        struct rlimit limit = {(BLOCKS + 8 + round) * BLOCK, RLIM_INFINITY};
        warm(fd);
        need(setrlimit(RLIMIT_FSIZE, &limit) == 0, "a limit");
    }
    say("within it", pwrite(fd, memory, BLOCK, (BLOCKS + 4) * BLOCK));
    say("beyond it", pwrite(fd, memory, BLOCK, (BLOCKS + 9) * BLOCK));
    say("signals", grown);
    say("reads", pread(fd, memory, BLOCK, BLOCK) + memory[0]);
}

// A number that names files of two devices in turn, for each of which there must be another engine.
static void devices(void) {
    int fd = make("data", 7, O_RDWR), device = open(path_of("device"), O_RDWR | O_DIRECT);
    need(device >= 0, "a device");
    char *memory = blocks(1);
    int epoll = epoll_create1(0);
    struct epoll_event event;
    for (int round = 0; round < 6; round++) {
        int from = round % 2 ? open(path_of("data"), O_RDWR | O_DIRECT) : device;
        warm(fd);
        need(dup2(from, fd) == fd, "a number");
        warm(fd);
        say("reads", pread(fd, memory, BLOCK, BLOCK) + memory[0]);
        // The end of the other engine interrupts no call.
        for (int again = 0; again < 4; again++) say("nothing", epoll_wait(epoll, &event, 1, 15));
    }
}

// A lock of the process ends when any of its descriptors of the file is closed.
static void locks(void) {
    int fd = make("data", 0, O_RDWR);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 100};
    need(fcntl(fd, F_SETLK, &lock) == 0, "a lock");
    int locked = open(path_of("locked"), O_CREAT | O_RDWR, 0600);
    need(flock(locked, LOCK_EX) == 0, "another lock");
    pthread_t thread;
    warm(fd);
    need(!pthread_create(&thread, NULL, warms, (void *)(intptr_t)fd), "a thread");
    need(!pthread_join(thread, NULL), "its end");
    pid_t child = fork();
    if (child == 0) {
        struct flock asked = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 100};
        _exit(fcntl(fd, F_GETLK, &asked) == 0 && asked.l_type == F_WRLCK ? 0 : 1);
    }
    int status = 0;
    need(waitpid(child, &status, 0) == child, "its end");
    say("the lock is there", status == 0);
}

static volatile sig_atomic_t handled, wrong;
static int other;
static char *others_memory;

static void reads_too(int signal) {
    (void)signal;
    int before = errno;
    handled++;
    if (pread(other, others_memory, BLOCK, BLOCK) != BLOCK || !is_filled(others_memory, 101, BLOCK)) wrong++;
    errno = before;
}

static void often(void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    need(sigaction(SIGALRM, &action, NULL) == 0, "a handler");
    struct itimerval timer = {{0, 500}, {0, 500}};
    need(setitimer(ITIMER_REAL, &timer, NULL) == 0, "a timer");
}

static void never(void) {
    struct itimerval timer = {{0, 0}, {0, 0}};
    need(setitimer(ITIMER_REAL, &timer, NULL) == 0, "no timer");
}

static void signals(void) {
    int fd = make("data", 0, O_RDWR);
    other = make("other", 100, O_RDWR);
    others_memory = blocks(1);
    char *memory = blocks(1);
    warm(fd);
    often(reads_too);
    long bad = 0;
    while (handled < 100) {
        int block = rand() % BLOCKS;
        long result = pread(fd, memory, BLOCK, (off_t)block * BLOCK);
        if (result != BLOCK || !is_filled(memory, block, BLOCK)) bad++;
    }
    never();
    say("bad reads", bad);
    say("in the handler", wrong);
}

static sigjmp_buf out;

static void leaps(int signal) {
    (void)signal;
    siglongjmp(out, 1);
}

// After a leap out of a handler nothing may write to the buffer of a read any more.
static void leap(void) {
    int fd = make("data", 0, O_RDWR);
    char *memory = blocks(1);
    warm(fd);
    static volatile int leapt, touched;
    if (sigsetjmp(out, 1) != 0) {
        memset(memory, 250, BLOCK);
        for (volatile int pause = 0; pause < 200000; pause++) {}
        if (!is_filled(memory, 250, BLOCK)) touched++;
        leapt++;
    }
    struct sigaction action = {.sa_handler = leaps};
    need(sigaction(SIGALRM, &action, NULL) == 0, "a handler");
    struct itimerval once = {{0, 0}, {0, 300}};
    if (leapt < 50) {
        need(setitimer(ITIMER_REAL, &once, NULL) == 0, "a timer");
        for (int block = 0;; block = (block + 1) % BLOCKS)
            need(pread(fd, memory, BLOCK, (off_t)block * BLOCK) == BLOCK, "a read");
    }
    say("leaps", leapt);
    say("touched", touched);
    need(pread(fd, memory, BLOCK, 9 * BLOCK) == BLOCK, "a read");
    say("goes on", memory[0]);
}

static volatile bool cleaned, has_begun;

static void clean(void *argument) {
    (void)argument;
    cleaned = true;
}

static void *reads_for_ever(void *fd) {
    char *memory = blocks(1);
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    warm((int)(intptr_t)fd);
    has_begun = true;
    for (int round = 0; round < 200; round++)
        need(pread((int)(intptr_t)fd, memory, BLOCK, 0) == BLOCK, "a read");
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
    pthread_cleanup_push(clean, NULL);
    for (;;) need(pread((int)(intptr_t)fd, memory, BLOCK, 0) == BLOCK, "a read");
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancel(void) {
    int fd = make("data", 0, O_RDWR);
    for (int round = 0; round < 5; round++) {
        cleaned = has_begun = false;
        pthread_t thread;
        need(!pthread_create(&thread, NULL, reads_for_ever, (void *)(intptr_t)fd), "a thread");
        while (!has_begun) usleep(100);
        need(!pthread_cancel(thread), "a wish");
        void *result = NULL;
        need(!pthread_join(thread, &result), "its end");
        say("cancelled", (result == PTHREAD_CANCELED) + 2 * cleaned);
    }
    char *memory = blocks(1);
    say("others go on", pread(fd, memory, BLOCK, 6 * BLOCK) + memory[0]);
}

// A process all of whose direct I/O is done in a handler.
static void handler_only(void) {
    other = make("other", 100, O_RDWR);
    others_memory = blocks(1);
    need(signal(SIGUSR1, reads_too) != SIG_ERR, "a handler");
    for (int round = 0; round < 100; round++) raise(SIGUSR1);
    say("handled", handled);
    say("in the handler", wrong);
}

// As many vectors as there are in memory, and no number that the kernel takes.
static void vectors_without_end(void) {
    int fd = make("data", 0, O_RDWR);
    char *memory = blocks(1);
    size_t room = BLOCK;
    char *page = mmap(NULL, 2 * room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(page != MAP_FAILED && mprotect(page + room, room, PROT_NONE) == 0, "a page");
    struct iovec *vectors = (void *)page;
    for (size_t number = 0; number < room / sizeof *vectors; number++)
        vectors[number] = (struct iovec){memory, BLOCK};
    warm(fd);
    say("vectors without end", preadv(fd, vectors, INT_MAX, 0));
}

// A thread that gets descriptors of its own while it closes.
static void unshared(void) {
    alarm(20);
    int fd = make("data", 0, O_RDWR);
    char *memory = blocks(1);
    need(dup2(fd, 3) == 3, "a number");
    warm(3);
    say("a range", close_range(4, ~0U, CLOSE_RANGE_UNSHARE));
    say("goes on", pread(3, memory, BLOCK, 2 * BLOCK) + memory[0]);
    say("closed", fcntl(4, F_GETFD));
}

static void buffered(void) {
    int fd = open(path_of("plain"), O_CREAT | O_TRUNC | O_RDWR, 0600);
    char memory[1000];
    for (int round = 0; round < 50; round++) {
        memset(memory, round, sizeof memory);
        need(pwrite(fd, memory, sizeof memory, round * 7) == sizeof memory, "a write");
        need(pread(fd, memory, sizeof memory, round * 7) == sizeof memory, "a read");
    }
    say("its length", lseek(fd, 0, SEEK_END));
}

int main(int argc, char **argv) {
    struct test tests[] = {
        {"results", results}, {"threads", threads}, {"forks", forks},   {"numbers", numbers},
        {"locks", locks},     {"signals", signals}, {"leap", leap},     {"cancel", cancel},
        {"buffered", buffered}, {"stacks", stacks}, {"limits", limits}, {"devices", devices},
        {"forks_beside", forks_beside}, {"handler_only", handler_only}, {"unshared", unshared},
        {"vectors_without_end", vectors_without_end}, {NULL, NULL},
    };
    return run(tests, argc, argv);
}
