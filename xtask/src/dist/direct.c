/*
 * Reads a file with direct I/O, block by block, as programs do whose reads the preload library moves; then ends
 * a thread in the middle of its reads.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static char block[4096] __attribute__((aligned(4096)));
static int file;
static volatile int reads, cleaned, ended;

static void clean(void *argument)
{
    (void)argument;
    cleaned++;
}

static void *reads_for_ever(void *argument)
{
    pthread_cleanup_push(clean, NULL);
    while (pread(file, block, sizeof block, 0) == sizeof block)
        reads++;
    ended = 1;
    pthread_cleanup_pop(0);
    return argument;
}

/* 0 if the thread ended where it was cancelled. */
static int cancelled(void)
{
    pthread_t thread;
    void *result = NULL;
    reads = 0;
    if (pthread_create(&thread, NULL, reads_for_ever, NULL) != 0)
        return 1;
    while (reads < 200 && !ended)
        usleep(100);
    return pthread_cancel(thread) != 0 || pthread_join(thread, &result) != 0 || result != PTHREAD_CANCELED;
}

int main(int count, char *const words[])
{
    file = count == 2 ? open(words[1], O_RDONLY | O_DIRECT | O_CLOEXEC) : -1;
    if (file < 0) {
        perror("direct: the file to read");
        return 1;
    }
    off_t at = 0;
    ssize_t got;
    while ((got = pread(file, block, sizeof block, at)) > 0)
        at += got;
    printf("direct: %lld bytes\n", (long long)at);
    if (got != 0 || at == 0)
        return 1;
    for (int round = 1; round <= 20; round++) {
        if (cancelled() != 0 || cleaned != round) {
            printf("direct: thread %d was not cancelled\n", round);
            return 1;
        }
    }
    printf("direct: %d threads were cancelled\n", cleaned);
    return 0;
}
