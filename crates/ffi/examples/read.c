/*
 * Reads 4 KiB blocks at random offsets of a file, 32 of them in flight, on the path that is named, or on those
 * that an engine chooses: `auto`, or `auto:POLICY` with a policy of iopj_auto_open.
 *
 *     cargo xtask ffi
 *     export PKG_CONFIG_PATH=$PWD/target/ffi
 *     cc -O2 -o read crates/ffi/examples/read.c $(pkg-config --cflags --libs iopj)
 *     LD_LIBRARY_PATH=target/ffi ./read io_uring/syscall/interrupt FILE 100000
 */
#include <iopj.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 32, LEN = 4096 };

/* The policy of a word that asks for an engine that chooses; another word names a path. */
static int chooses(const char *word, const char **policy)
{
    *policy = strncmp(word, "auto:", 5) == 0 ? word + 5 : NULL;
    return *policy != NULL || strcmp(word, "auto") == 0;
}

static void must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s: %s\n", what, iopj_last_error());
        exit(1);
    }
}

/* xorshift64: enough for offsets. */
static uint64_t random_number(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

int main(int count, char **words)
{
    if (count != 4) {
        fprintf(stderr, "usage: read PATH FILE READS, such as read auto:cpu FILE 100000\n");
        return 2;
    }
    uint64_t target = iopj_target_open(words[2]);
    must(target != 0, "target");
    const char *policy;
    int is_auto = chooses(words[1], &policy);
    struct iopj_availability found = { .available = 1 };
    must(is_auto || iopj_check(words[1], target, &found) == IOPJ_OK, "path");
    if (!found.available) {
        fprintf(stderr, "%s: %s; %s\n", words[1], found.reason, found.remedy);
        return 1;
    }
    struct iopj_target_info info;
    must(iopj_target_info(target, &info) == IOPJ_OK, "target");
    if (info.data_len < LEN) {
        fprintf(stderr, "%s: it is shorter than one read of %d bytes\n", words[2], LEN);
        return 1;
    }
    uint64_t pool = iopj_pool_new(DEPTH, LEN);
    must(pool != 0, "pool");
    uint64_t engine = is_auto ? iopj_auto_open(policy, target, pool, DEPTH)
                              : iopj_engine_open(words[1], target, pool, DEPTH);
    must(engine != 0, "engine");

    uint64_t reads = strtoull(words[3], NULL, 10), pushed = 0, done = 0, bytes = 0;
    while (done < reads) {
        struct iopj_buffer buffer;
        while (pushed < reads && iopj_buffer_acquire(pool, &buffer) == IOPJ_OK) {
            uint64_t block = random_number() % (info.data_len / LEN);
            struct iopj_request request = {
                .op = IOPJ_READ, .buffer = buffer.index, .len = LEN, .offset = info.data_offset + block * LEN,
            };
            must(iopj_push(engine, &request) == IOPJ_OK, "push");
            pushed++;
        }
        struct iopj_completion completions[DEPTH];
        int got = iopj_wait(engine, 1, -1, completions, DEPTH);
        must(got >= 0, "wait");
        for (int at = 0; at < got; at++) {
            if (completions[at].result != LEN) {
                fprintf(stderr, "a read ended with %" PRId64 "\n", completions[at].result);
                return 1;
            }
            /* The bytes are where iopj_buffer_get says, until the buffer is released. */
            must(iopj_buffer_release(pool, completions[at].buffer) == IOPJ_OK, "release");
            bytes += LEN;
        }
        done += (uint64_t)got;
    }
    char line[256];
    while (is_auto && iopj_auto_decision(engine, line, sizeof line) > 0)
        fprintf(stderr, "%s\n", line);
    must(iopj_engine_close(engine, -1) == IOPJ_OK, "close");
    must(iopj_pool_close(pool) == IOPJ_OK, "close");
    must(iopj_target_close(target) == IOPJ_OK, "close");
    printf("%" PRIu64 " reads, %" PRIu64 " bytes on %s\n", done, bytes, words[1]);
    return 0;
}
