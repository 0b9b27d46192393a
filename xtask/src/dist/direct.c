/*
 * Reads a file with direct I/O, block by block, as programs do whose reads the preload library moves.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static char block[4096] __attribute__((aligned(4096)));

int main(int count, char *const words[])
{
    int file = count == 2 ? open(words[1], O_RDONLY | O_DIRECT | O_CLOEXEC) : -1;
    if (file < 0) {
        perror("direct: the file to read");
        return 1;
    }
    off_t at = 0;
    ssize_t got;
    while ((got = pread(file, block, sizeof block, at)) > 0)
        at += got;
    printf("direct: %lld bytes\n", (long long)at);
    return got != 0 || at == 0;
}
