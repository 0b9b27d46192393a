// What is in flight when a process ends or becomes another program, a context when it is destroyed while a
// thread waits, and what aio_fsync comes after. Each test says what it saw; with the library and without,
// that is the same. One that would wait for ever ends by SIGALRM.
#include "async.h"

enum { PART = 128 << 10, PARTS = 64 };

static pthread_barrier_t barrier;
static int shared_fd;
static struct aiocb given;
static volatile sig_atomic_t handled;

static void handles(int signal) {
    (void)signal;
    handled++;
}

static void meet(void) {
    pthread_barrier_wait(&barrier);
}

static void hold_off_all(int how) {
    sigset_t signals;
    sigfillset(&signals);
    sigdelset(&signals, SIGALRM);
    need(pthread_sigmask(how, &signals, NULL) == 0, "a mask");
}

static void wait_for(pid_t child) {
    int status = 0;
    need(waitpid(child, &status, 0) == child, "its end");
    printf("ended: %d\n", status);
}

// An empty file: a ring leaves writes that make it longer to threads of the kernel's, which begin few at a
// time.
static int empty(void) {
    int fd = open(path_of("grows"), O_CREAT | O_TRUNC | O_RDWR | O_DIRECT, 0600);
    need(fd >= 0, "a file");
    return fd;
}

static void say_parts(void) {
    int fd = open(path_of("grows"), O_RDONLY | O_DIRECT), written = 0;
    char *memory = blocks(PART / BLOCK);
    for (int part = 0; part < PARTS; part++) {
        memset(memory, 0, PART);
        need(pread(fd, memory, PART, (off_t)part * PART) >= 0, "a read");
        written += is_filled(memory, part + 1, PART);
    }
    printf("written: %d\n", written);
    free(memory);
    close(fd);
}

// Has all parts in flight.
static void write_all(void) {
    static struct iocb all[PARTS], *list[PARTS];
    aio_context_t context = 0;
    char *memory = blocks(PARTS * PART / BLOCK);
    need(setup(PARTS, &context) == 0, "a context");
    trial(context, shared_fd, memory);
    int fd = empty();
    for (int part = 0; part < PARTS; part++) {
        memset(memory + part * PART, part + 1, PART);
        all[part] = asked(IOCB_CMD_PWRITE, fd, memory + part * PART, PART, (long)part * PART, part);
        list[part] = &all[part];
    }
    need(submit(context, PARTS, list) == PARTS, "a taken list");
}

static void *writes_all(void *unused) {
    (void)unused;
    write_all();
    meet();
    for (;;) pause();
    return NULL;
}

static void begin_thread(void *(*runs)(void *), void *argument, pthread_t *thread) {
    need(!pthread_create(thread, NULL, runs, argument), "a thread");
}

// A child has copies of all descriptors for a while: a ring is not waited for then when its process ends.
static void copy_descriptors(void) {
    if (fork() == 0) {
        usleep(100000);
        raise(SIGKILL); // so that it counts nothing
    }
}

// The last that a process does.
static void writes_at_end(void) {
    write_all();
    copy_descriptors();
}

// A process ends while another of its threads has writes in flight, which are written; so are those of a
// handler of quick_exit's.
static void exits(void) {
    load();
    alarm(20);
    shared_fd = make("data", 0, O_RDWR);
    void (*ends[])(int) = {exit, _exit, quick_exit, quick_exit};
    fflush(stdout);
    for (int way = 0; way < 4; way++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread;
            alarm(20); // it inherits none
            if (way == 3) {
                need(!at_quick_exit(writes_at_end), "a handler");
                quick_exit(0);
            }
            need(!pthread_barrier_init(&barrier, NULL, 2), "a barrier");
            begin_thread(writes_all, NULL, &thread);
            meet();
            copy_descriptors();
            ends[way](0);
        }
        wait_for(child);
        say_parts();
        fflush(stdout);
    }
}

static void *asks(void *unused) {
    (void)unused;
    // Whoever has it is asked for it.
    while (aio_error(&given) == EINPROGRESS) usleep(100);
    return NULL;
}

static void become(const char *program, char *memory) {
    pthread_t other;
    char *arguments[] = {"endings", "lives", folder, NULL};
    posix_trial(shared_fd, memory);
    memset(memory, 99, BLOCK);
    write_all();
    given = io(shared_fd, memory, BLOCK, 7 * BLOCK);
    need(aio_write(&given) == 0, "a write");
    hold_off_all(SIG_BLOCK);
    begin_thread(asks, NULL, &other);
    usleep(2000);
    fflush(stdout);
    copy_descriptors();
    int failed = execv(program, arguments);
    printf("failed: %d %d\n", failed, errno);
    finish("in flight before", 0, &given);
    need(!pthread_join(other, NULL), "its end");
}

// A thread becomes another program, or fails to, while it has writes in flight, was asked for one, and holds
// off the signal by which it was.
static void executes(void) {
    load();
    alarm(20);
    shared_fd = make("data", 0, O_RDWR);
    char *memory = blocks(1);
    char *programs[] = {"/no/such/program", "/proc/self/exe"};
    fflush(stdout);
    for (int number = 0; number < 2; number++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            become(programs[number], memory);
            exit(0);
        }
        wait_for(child);
        need(pread(shared_fd, memory, BLOCK, 7 * BLOCK) == BLOCK, "a read");
        printf("written: %d\n", is_filled(memory, 99, BLOCK));
        fflush(stdout);
    }
}

// What the program is then: it takes every signal that there is.
static void lives(void) {
    hold_off_all(SIG_UNBLOCK);
    say_parts();
}

static void *writes_and_hides(void *memory) {
    given = io(shared_fd, memory, BLOCK, 4 * BLOCK);
    need(aio_write(&given) == 0, "a write");
    hold_off_all(SIG_BLOCK);
    meet();
    // Until the other has called aio_fsync.
    meet();
    usleep(50000);
    suspends(&given);
    return NULL;
}

// aio_fsync comes after what a thread has in flight that cannot be asked for it, and does not wait for it but
// where it is to notify.
static void syncs_at_once(void) {
    alarm(20);
    shared_fd = make("data", 0, O_RDWR);
    pthread_t thread;
    posix_trial(shared_fd, blocks(1));
    struct sigaction action = {.sa_handler = handles};
    need(sigaction(SIGUSR1, &action, NULL) == 0, "a handler");
    need(!pthread_barrier_init(&barrier, NULL, 2), "a barrier");
    begin_thread(writes_and_hides, blocks(1), &thread);
    meet();
    struct aiocb one = io(shared_fd, NULL, 0, 0), two = io(shared_fd, NULL, 0, 0), wrong = one;
    two.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
    two.aio_sigevent.sigev_signo = SIGUSR1;
    printf("begun: %d\n", aio_fsync(O_DSYNC, &one));
    int refused = aio_fsync(12345, &wrong);
    printf("refused: %d %d\n", refused, errno);
    wrong.aio_fildes = 900;
    refused = aio_fsync(O_SYNC, &wrong);
    printf("refused: %d %d\n", refused, errno);
    meet();
    printf("begun: %d\n", aio_fsync(O_SYNC, &two));
    for (int round = 0; round < 10000 && !handled; round++) usleep(1000);
    finish("one", 0, &one);
    finish("two", 0, &two);
    printf("notified: %d, before them: %d\n", (int)handled, aio_error(&given));
    need(!pthread_join(thread, NULL), "its end");
}

static aio_context_t context;
static volatile pid_t waiter;

static void *waits(void *unused) {
    (void)unused;
    struct io_event event;
    waiter = gettid();
    return (void *)(intptr_t)get_events(context, 1, 1, &event, NULL);
}

// Waits until that thread waits in the kernel. Debian trixie's libaio waits by io_pgetevents.
static void let_it_wait(void) {
    char path[64], call[16] = "";
    do {
        usleep(1000);
        snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)waiter);
        int fd = waiter != 0 ? open(path, O_RDONLY) : -1;
        if (fd >= 0 && read(fd, call, sizeof call - 1) < 0) call[0] = 0;
        if (fd >= 0) close(fd);
    } while (atoi(call) != SYS_io_getevents && atoi(call) != SYS_io_pgetevents);
}

// A thread that waits for what never comes has a context last.
static void destroyed_under_a_wait(void) {
    load();
    alarm(20);
    shared_fd = make("data", 0, O_RDWR);
    char *memory = blocks(1);
    for (int round = 0; round < 3; round++) {
        pthread_t thread;
        void *result = NULL;
        context = waiter = 0;
        need(setup(4, &context) == 0, "a context");
        trial(context, shared_fd, memory);
        begin_thread(waits, NULL, &thread);
        let_it_wait();
        printf("destroyed: %d\n", destroy(context));
        need(!pthread_join(thread, &result), "its end");
        printf("its wait: %d\n", (int)(intptr_t)result);
    }
}

int main(int argc, char **argv) {
    struct test tests[] = {
        {"exits", exits},
        {"executes", executes},
        {"lives", lives},
        {"syncs_at_once", syncs_at_once},
        {"destroyed_under_a_wait", destroyed_under_a_wait},
        {NULL, NULL},
    };
    return run(tests, argc, argv);
}
