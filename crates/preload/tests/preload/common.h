// What the programs share: a file of numbered blocks for direct I/O, and lines that do not differ between
// runs.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 4096, BLOCKS = 64 };

static char folder[4096];

static void need(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "%s: errno %d\n", what, errno);
        exit(3);
    }
}

static const char *path_of(const char *name) {
    static _Thread_local char path[8192];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static char *blocks(size_t count) {
    void *memory = NULL;
    need(posix_memalign(&memory, BLOCK, count * BLOCK) == 0, "memory");
    memset(memory, 0, count * BLOCK);
    return memory;
}

// A file whose block n is filled with `first` + n, with half a block more at its end.
static int make(const char *name, int first, int flags) {
    int fd = open(path_of(name), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    need(fd >= 0, "a file");
    char block[BLOCK];
    for (int number = 0; number < BLOCKS; number++) {
        memset(block, first + number, BLOCK);
        need(write(fd, block, BLOCK) == BLOCK, "its blocks");
    }
    need(write(fd, block, BLOCK / 2) == BLOCK / 2 && fsync(fd) == 0 && close(fd) == 0, "its end");
    fd = open(path_of(name), flags | O_DIRECT);
    need(fd >= 0, "it for direct I/O");
    return fd;
}

static bool is_filled(const char *memory, int byte, size_t len) {
    for (size_t at = 0; at < len; at++)
        if ((unsigned char)memory[at] != (unsigned char)byte) return false;
    return true;
}

// Reads until a descriptor has an engine.
__attribute__((unused)) static void warm(int fd) {
    char *memory = blocks(1);
    for (int round = 0; round < 40; round++) need(pread(fd, memory, BLOCK, 0) == BLOCK, "a read");
    free(memory);
}

__attribute__((unused)) static void say(const char *what, long result) {
    printf("%s: %ld %d\n", what, result, result < 0 ? errno : 0);
    fflush(stdout);
}

struct test {
    const char *name;
    void (*run)(void);
};

static int run(struct test *tests, int argc, char **argv) {
    need(argc == 3, "usage: program TEST FOLDER");
    snprintf(folder, sizeof folder, "%s", argv[2]);
    for (; tests->name; tests++)
        if (strcmp(tests->name, argv[1]) == 0) {
            tests->run();
            return 0;
        }
    return 2;
}
