/*
 * Calls every function of iopj.h at random from two threads, with handles that are valid, closed, foreign, of
 * another kind or no handles at all, with null pointers, and with buffers that the caller may not have. A
 * model of what is open, held and in flight says which calls must fail. usage: misuse FOLDER CALLS SEED
 */
#include <iopj.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { THREADS = 2, MOST = 1 << 16, BUFFERS = 8, LEN = 8192, OPEN_AT_MOST = 2, DEPTH = 6, FUNCTIONS = 28 };
enum kind { TARGET, POOL, ENGINE, KINDS };
/* Where a buffer is. */
enum place { AWAY, HELD, IN_FLIGHT };

struct thing {
    uint64_t handle;
    enum kind kind;
    int owner, open;
    int pool;                  /* of an engine: the place of its pool */
    int in_flight;             /* of an engine */
    int chooses;               /* of an engine: it is one of iopj_auto_open */
    uint64_t start, end;       /* of an engine: the target's data */
    int engines;               /* of a pool: how many are open over it */
    enum place place[BUFFERS]; /* of a pool */
    int with[BUFFERS];         /* of a pool: the engine that a buffer is in flight with */
    void *memory;              /* of a pool that is the caller's memory */
};

struct caller {
    int number;
    uint64_t random, call, good, bad, completions;
    char file[512], id[IOPJ_FILE_ID_LEN];
    uint64_t of_function[FUNCTIONS];
    int function;
};

static struct thing things[MOST];
static atomic_int known;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *folder;
static uint64_t calls, seed;

#define CHECK(self, condition)                                                                        \
    do {                                                                                              \
        if (!(condition)) {                                                                           \
            fprintf(stderr, "line %d: seed %lu, thread %d, call %lu of function %d: %s; iopj: %s\n",  \
                    __LINE__, seed, (self)->number, (self)->call, (self)->function, #condition,       \
                    iopj_last_error());                                                               \
            abort();                                                                                  \
        }                                                                                             \
    } while (0)

static uint64_t next(struct caller *self, uint64_t below)
{
    self->random ^= self->random << 13;
    self->random ^= self->random >> 7;
    self->random ^= self->random << 17;
    return (self->random >> 11) % below;
}

static int one_in(struct caller *self, uint64_t count)
{
    return next(self, count) == 0;
}

/* A code of a failure must be known, have a text, and never be a panic. */
static void judge(struct caller *self, int64_t code, int must_fail)
{
    if (code >= 0) {
        CHECK(self, !must_fail);
        self->good++;
        return;
    }
    CHECK(self, code > IOPJ_ERROR_PANIC);
    CHECK(self, iopj_last_code() == code);
    CHECK(self, strlen(iopj_last_error()) > 10);
    self->bad++;
}

static void remember(struct caller *self, uint64_t handle, struct thing thing, int must_fail)
{
    judge(self, handle == 0 ? iopj_last_code() : 0, must_fail);
    if (handle == 0)
        return;
    thing.handle = handle;
    thing.owner = self->number;
    thing.open = 1;
    pthread_mutex_lock(&lock);
    int place = atomic_load(&known);
    if (place < MOST) {
        things[place] = thing;
        atomic_store(&known, place + 1);
        if (thing.kind == ENGINE)
            things[thing.pool].engines++;
    }
    pthread_mutex_unlock(&lock);
    CHECK(self, place < MOST);
}

static int open_of(struct caller *self, enum kind kind)
{
    int count = 0;
    for (int at = 0; at < atomic_load(&known); at++)
        count += things[at].owner == self->number && things[at].kind == kind && things[at].open;
    return count;
}

/* One of the things for which `want` holds, or NULL. */
static struct thing *choose(struct caller *self, enum kind kind, int own, int same_kind, int open)
{
    int count = atomic_load(&known);
    int from = count == 0 ? 0 : (int)next(self, (uint64_t)count);
    for (int step = 0; step < count; step++) {
        struct thing *thing = &things[(from + step) % count];
        int is_own = thing->owner == self->number;
        if (is_own != own || (thing->kind == kind) != same_kind)
            continue;
        if (!is_own || thing->open == open)
            return thing;
    }
    return NULL;
}

/* A handle, and what it is to if it is a valid one. */
static uint64_t pick(struct caller *self, enum kind kind, struct thing **valid)
{
    *valid = NULL;
    uint64_t way = next(self, 100);
    struct thing *thing = choose(self, kind, 1, 1, 1);
    if (way < 85) {
        *valid = thing;
        return thing ? thing->handle : 0;
    }
    if (way < 95) {
        int is_stale = way < 88, is_foreign = way >= 88 && way < 92;
        thing = choose(self, kind, !is_foreign, way < 90 || one_in(self, 2), !is_stale);
        if (thing && !(thing->owner == self->number && thing->kind == kind && thing->open))
            return thing->handle;
        return 0;
    }
    if (way < 98 && thing)
        return thing->handle ^ (uint64_t)1 << next(self, 64);
    return one_in(self, 2) ? 0 : self->random * 0x9e3779b97f4a7c15u;
}

static const char *path_text(struct caller *self)
{
    static const char *paths[] = {
        "posix-sio/syscall/interrupt", "posix-aio/syscall/interrupt", "libaio/syscall/interrupt",
        "io_uring/syscall/interrupt", "io_uring/syscall/interrupt+registered", "io_uring/syscall/poll",
        "io_uring/sqpoll/interrupt", "nvme-user/doorbell/poll", "spdk/doorbell/poll", "no/such/path", "\xff/a/b", NULL,
    };
    return !one_in(self, 4) ? paths[1 + next(self, 4)] : paths[next(self, sizeof paths / sizeof *paths)];
}

/* Discards and zeros leave holes in the thread's file, with which it is no target any more. */
static void make_anew(struct caller *self)
{
    CHECK(self, strstr(iopj_last_error(), "hole") || strstr(iopj_last_error(), "never written"));
    CHECK(self, unlink(self->file) == 0);
    CHECK(self, iopj_make_file(self->file, 1 << 18, self->id) == IOPJ_OK);
}

static void on_targets(struct caller *self, int function)
{
    struct thing *target, made = { .kind = TARGET };
    struct iopj_target_info info;
    struct iopj_availability found;
    char file[600], id[IOPJ_FILE_ID_LEN];
    int is_null = one_in(self, 10);
    uint64_t handle = pick(self, TARGET, &target);
    snprintf(file, sizeof file, "%s/%d.%lu", folder, self->number, self->call);
    switch (function) {
    case 0:
        if (open_of(self, TARGET) < OPEN_AT_MOST) {
            const char *name = is_null ? NULL : one_in(self, 4) ? file : self->file;
            handle = iopj_target_open(name);
            remember(self, handle, made, name != self->file);
            if (handle == 0 && name == self->file)
                make_anew(self);
        }
        break;
    case 1:
        if (open_of(self, TARGET) < OPEN_AT_MOST) {
            memcpy(id, self->id, sizeof id);
            int is_wrong = one_in(self, 3);
            if (is_wrong)
                id[next(self, 32)] = "g+ \xff"[next(self, 4)];
            handle = iopj_target_open_made(self->file, is_null ? NULL : id);
            remember(self, handle, made, is_null || is_wrong);
            if (handle == 0 && !is_null && !is_wrong)
                make_anew(self);
        }
        break;
    case 2:
        handle = iopj_target_open_device(self->file, is_null ? NULL : self->file, (int)next(self, 3));
        remember(self, handle, made, 1);
        break;
    case 3:
        judge(self, iopj_target_info(handle, is_null ? NULL : &info), !target || is_null);
        break;
    case 4:
        judge(self, iopj_target_close(handle), !target);
        if (target)
            target->open = 0;
        break;
    case 5:
        if (one_in(self, 20) && !is_null) {
            judge(self, iopj_make_file(file, 4096, id), 0);
            unlink(file);
        } else {
            judge(self, iopj_make_file(is_null ? NULL : self->file, 4096, is_null ? id : NULL), 1);
            judge(self, iopj_make_file(self->file, 4096, id), 1);
        }
        break;
    case 6: {
        const char *path = path_text(self);
        int code = iopj_check(path, handle, is_null ? NULL : &found);
        judge(self, code, !target || !path || is_null);
        if (code == IOPJ_OK)
            CHECK(self, found.available == (strlen(found.reason) == 0));
        break;
    }
    }
}

static void on_pools(struct caller *self, int function)
{
    struct thing *pool, made = { .kind = POOL };
    struct iopj_pool_info info;
    struct iopj_buffer buffer;
    int is_null = one_in(self, 20);
    uint32_t index = one_in(self, 50) ? (uint32_t)self->random : (uint32_t)next(self, BUFFERS + 1);
    uint64_t handle = pick(self, POOL, &pool);
    int is_held = pool && index < BUFFERS && pool->place[index] == HELD;
    int may_open = open_of(self, POOL) < OPEN_AT_MOST, code;
    switch (function) {
    case 7:
        if (may_open)
            remember(self, iopj_pool_new(BUFFERS, LEN), made, 0);
        break;
    case 8: /* There may be huge pages or not. */
        if (may_open && one_in(self, 4)) {
            handle = iopj_pool_huge(BUFFERS, LEN);
            remember(self, handle, made, 0);
        }
        break;
    case 9:
        if (may_open) {
            int is_short = one_in(self, 3), is_odd = one_in(self, 3);
            size_t len = BUFFERS * LEN;
            made.memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            char *base = is_null ? NULL : (char *)made.memory + (is_odd ? 512 : 0);
            handle = iopj_pool_adopt(base, is_short ? len / 2 : len - (is_odd ? 512 : 0), BUFFERS, LEN);
            if (handle == 0)
                munmap(made.memory, len);
            remember(self, handle, made, is_null || is_short || is_odd);
        }
        break;
    case 10:
        code = iopj_pool_info(handle, is_null ? NULL : &info);
        judge(self, code, !pool || is_null);
        if (code == IOPJ_OK)
            CHECK(self, info.count == BUFFERS && info.buffer_len == LEN);
        break;
    case 11:
        code = iopj_pool_close(handle);
        judge(self, code, !pool || pool->engines > 0);
        if (pool && pool->engines == 0) {
            CHECK(self, code == IOPJ_OK || code == IOPJ_ERROR_LEAKED);
            pool->open = 0;
            if (pool->memory && code == IOPJ_OK)
                munmap(pool->memory, BUFFERS * LEN);
        }
        break;
    case 12:
        code = iopj_buffer_acquire(handle, is_null ? NULL : &buffer);
        judge(self, code, !pool || is_null);
        if (code == IOPJ_OK) {
            CHECK(self, buffer.index < BUFFERS && pool->place[buffer.index] == AWAY);
            pool->place[buffer.index] = HELD;
            memset(buffer.bytes, 7, buffer.len);
        }
        break;
    case 13:
        code = iopj_buffer_get(handle, index, is_null ? NULL : &buffer);
        judge(self, code, !is_held || is_null);
        if (code == IOPJ_OK)
            memset(buffer.bytes, 9, buffer.len);
        break;
    case 14:
        code = iopj_buffer_release(handle, index);
        judge(self, code, !is_held);
        CHECK(self, (code == IOPJ_OK) == is_held);
        if (is_held)
            pool->place[index] = AWAY;
        break;
    }
}

/* A meter of the thread's own. */
static double joules(void *context)
{
    return (double)((struct caller *)context)->random;
}

static void open_engine(struct caller *self, int chooses)
{
    static const char *const policies[] = { NULL, "latency", "cpu", "ios_per_joule", "speed", "no/such/policy" };
    static const uint32_t depths[] = { 0, 1, DEPTH, DEPTH, DEPTH, DEPTH, DEPTH, 100000 };
    struct thing *target, *pool, made = { .kind = ENGINE, .chooses = chooses };
    uint64_t of_target = pick(self, TARGET, &target), of_pool = pick(self, POOL, &pool);
    const char *path = path_text(self);
    uint32_t depth = depths[next(self, 8)];
    if (open_of(self, ENGINE) >= OPEN_AT_MOST)
        return;
    struct iopj_target_info info;
    if (target && iopj_target_info(of_target, &info) == IOPJ_OK) {
        made.start = info.data_offset;
        made.end = info.data_offset + info.data_len;
    }
    made.pool = pool ? (int)(pool - things) : 0;
    int must_fail = !target || !pool || depth == 0 || depth == 100000;
    if (chooses) {
        int policy = (int)next(self, 6);
        int is_metered = one_in(self, 3), has_meter = !one_in(self, 4);
        uint64_t handle = is_metered
            ? iopj_auto_open_metered(policies[policy], of_target, of_pool, depth, has_meter ? joules : NULL, self)
            : iopj_auto_open(policies[policy], of_target, of_pool, depth);
        remember(self, handle, made, must_fail || policy > 2 || (is_metered && !has_meter));
        return;
    }
    uint64_t handle = iopj_engine_open(path, of_target, of_pool, depth);
    remember(self, handle, made, must_fail || !path);
}

static void push(struct caller *self)
{
    struct thing *engine;
    uint64_t handle = pick(self, ENGINE, &engine), odd[] = { 0, 1, 512, LEN + 512, 1u << 31, UINT64_MAX };
    struct iopj_request request = {
        .op = (uint32_t)(one_in(self, 8) ? next(self, 10) : next(self, 2)),
        .buffer = one_in(self, 10) ? (uint32_t)self->random : (uint32_t)next(self, BUFFERS),
        .len = one_in(self, 12) ? odd[next(self, 6)] : 4096 * next(self, 3),
        .offset = one_in(self, 12) ? self->random >> next(self, 64) : 4096 * (256 + next(self, 60)),
        .tag = self->random,
    };
    struct thing *pool = engine ? &things[engine->pool] : NULL;
    for (uint32_t at = 0; pool && at < BUFFERS && !one_in(self, 10); at++)
        if (pool->place[at] == HELD)
            request.buffer = at;
    int moves = request.op == IOPJ_READ || request.op == IOPJ_WRITE || request.op == IOPJ_WRITE_DSYNC
        || request.op == IOPJ_WRITE_SYNC;
    int is_held = pool && request.buffer < BUFFERS && pool->place[request.buffer] == HELD;
    int is_flush = request.op == IOPJ_FLUSH || request.op == IOPJ_FSYNC, is_null = one_in(self, 30);
    int is_within = engine && request.offset >= engine->start && request.offset <= engine->end
        && request.len <= engine->end - request.offset;
    int code = iopj_push(handle, is_null ? NULL : &request);
    judge(self, code, !engine || is_null || (moves && !is_held) || request.op > IOPJ_WRITE_SYNC
          || (!is_flush && !is_within));
    if (code != IOPJ_OK)
        return;
    engine->in_flight++;
    if (moves) {
        pool->place[request.buffer] = IN_FLIGHT;
        pool->with[request.buffer] = (int)(engine - things);
    }
}

static void fetch(struct caller *self, int waits)
{
    struct thing *engine;
    uint64_t handle = pick(self, ENGINE, &engine);
    uint32_t capacity = one_in(self, 12) ? 0 : 1 + (uint32_t)next(self, 3);
    /* Exactly as long as is said, so the address sanitizer sees an element too many. */
    struct iopj_completion *got = malloc((capacity + 1) * sizeof *got - sizeof *got + 1);
    int is_null = one_in(self, 20);
    int64_t limits[] = { -1, 0, 1000, 1000000, INT64_MIN };
    int count = waits ? iopj_wait(handle, (uint32_t)next(self, 10), limits[next(self, 5)], is_null ? NULL : got,
                                  capacity)
                      : iopj_reap(handle, is_null ? NULL : got, capacity);
    judge(self, count, !engine || is_null || capacity == 0);
    CHECK(self, count <= (int)capacity);
    for (int at = 0; at < count; at++) {
        self->completions++;
        engine->in_flight--;
        uint32_t buffer = got[at].buffer;
        if (buffer == IOPJ_NO_BUFFER)
            continue;
        struct thing *pool = &things[engine->pool];
        CHECK(self, buffer < BUFFERS && pool->place[buffer] == IN_FLIGHT);
        CHECK(self, pool->with[buffer] == (int)(engine - things));
        pool->place[buffer] = HELD;
    }
    free(got);
}

static void on_engines(struct caller *self, int function)
{
    struct thing *engine;
    struct iopj_counters counters;
    int32_t descriptor, is_null = one_in(self, 20), code;
    uint64_t handle;
    if (function == 15 || function == 26)
        return open_engine(self, function == 26);
    if (function == 16)
        return push(self);
    if (function == 18 || function == 19)
        return fetch(self, function == 19);
    handle = pick(self, ENGINE, &engine);
    switch (function) {
    case 17:
        judge(self, iopj_submit(handle), !engine);
        break;
    case 20:
        code = iopj_in_flight(handle);
        judge(self, code, !engine);
        if (engine)
            CHECK(self, code == engine->in_flight);
        break;
    case 21:
        judge(self, iopj_supports(handle, (uint32_t)next(self, 8)), !engine);
        judge(self, iopj_supports(handle, 8 + (uint32_t)next(self, 1000)), 1);
        break;
    case 22:
        judge(self, iopj_descriptor(handle, is_null ? NULL : &descriptor), !engine || is_null);
        break;
    case 23:
        judge(self, iopj_counters(handle, is_null ? NULL : &counters), !engine || is_null);
        break;
    case 24:
        code = iopj_engine_close(handle, one_in(self, 2) ? -1 : 60000000000);
        judge(self, code, !engine);
        if (engine) {
            struct thing *pool = &things[engine->pool];
            CHECK(self, code == IOPJ_OK);
            engine->open = 0;
            pool->engines--;
            for (int at = 0; at < BUFFERS; at++)
                if (pool->place[at] == IN_FLIGHT && pool->with[at] == (int)(engine - things))
                    pool->place[at] = AWAY;
        }
        break;
    case 25:
        CHECK(self, iopj_last_error() != NULL && iopj_last_code() <= 0);
        break;
    case 27: {
        char line[200];
        size_t capacity = one_in(self, 4) ? next(self, 3) : sizeof line;
        code = iopj_auto_decision(handle, is_null ? NULL : line, capacity);
        judge(self, code, !engine || is_null || capacity == 0 || !engine->chooses);
        if (code > 0)
            CHECK(self, strlen(line) == ((size_t)code < capacity ? (size_t)code : capacity - 1));
        break;
    }
    }
}

static void *misuse(void *of)
{
    struct caller *self = of;
    snprintf(self->file, sizeof self->file, "%s/%d", folder, self->number);
    CHECK(self, iopj_make_file(self->file, 1 << 18, self->id) == IOPJ_OK);
    /* What does I/O comes more often; what opens and closes does not. */
    static const int more[] = { 0, 1, 7, 12, 12, 14, 15, 16, 16, 16, 16, 16, 16, 17, 19, 19, 19, 20 };
    for (self->call = 0; self->call < calls / THREADS; self->call++) {
        int function = one_in(self, 3) ? (int)next(self, FUNCTIONS) : more[next(self, sizeof more / sizeof *more)];
        /* Without an engine little can be tried: what it needs comes first. */
        if (function >= 12 && open_of(self, ENGINE) == 0 && !one_in(self, 4))
            function = open_of(self, TARGET) == 0 ? (int)next(self, 2) : open_of(self, POOL) == 0 ? 7 : 15;
        self->function = function;
        self->of_function[function]++;
        if (function < 7)
            on_targets(self, function);
        else if (function < 15)
            on_pools(self, function);
        else
            on_engines(self, function);
    }
    return NULL; /* What is open is closed by the thread's end. */
}

int main(int count, char **words)
{
    if (count != 4) {
        fprintf(stderr, "usage: misuse FOLDER CALLS SEED\n");
        return 2;
    }
    folder = words[1];
    calls = strtoull(words[2], NULL, 10);
    seed = strtoull(words[3], NULL, 10);
    struct caller callers[THREADS] = { 0 }, self = { .number = THREADS };
    pthread_t threads[THREADS];
    for (int at = 0; at < THREADS; at++) {
        callers[at].number = at;
        callers[at].random = (seed * THREADS + (uint64_t)at + 1) * 0x9e3779b97f4a7c15u;
        CHECK(&self, pthread_create(&threads[at], NULL, misuse, &callers[at]) == 0);
    }
    for (int at = 0; at < THREADS; at++) {
        CHECK(&self, pthread_join(threads[at], NULL) == 0);
        self.good += callers[at].good;
        self.bad += callers[at].bad;
        self.completions += callers[at].completions;
    }
    for (int at = 0; at < FUNCTIONS; at++)
        CHECK(&self, callers[0].of_function[at] + callers[1].of_function[at] > 0 || calls < 2000);
    for (int at = 0; at < atomic_load(&known); at++) {
        judge(&self, iopj_target_close(things[at].handle), 1);
        judge(&self, iopj_pool_close(things[at].handle), 1);
        judge(&self, iopj_engine_close(things[at].handle, -1), 1);
    }
    printf("%lu calls did what they say, %lu failed as they should, %lu completions came\n", self.good, self.bad,
           self.completions);
    return 0;
}
