/*
 * A QEMU plugin that counts executed instructions, loads and stores by address, while a window is open.
 *
 * The guest's program opens and closes windows with no-ops, the marks of `iopj_probe::marker`. Whenever a window
 * closes, its counts become one file `window-N` (N from 0) in the folder given as `out=FOLDER`, written under another
 * name and then renamed. All integers are little-endian:
 *
 *     8 bytes   "iopjwin1"
 *     u32       place of the trial
 *     u32       number of vCPUs
 *     u64       number of records
 *     u64       instructions executed at addresses that found no room in the table (see CAPACITY)
 *     u64 ...   instructions executed by each vCPU
 *     4 u64 ... records: address, executed, loads, stores; the first, of address 0, is all user space together; an
 *               address at which the guest changed the instruction has several
 *
 * What makes the counts exact:
 * - Every vCPU is a thread with counters of its own: no increment is lost.
 * - Counting is by instruction, not by block: a block that a fault or a device access cuts short counts as far as it
 *   came. An instruction that faults counts when it begins, and again when it is repeated.
 * - Loads and stores count when they have happened, except where versions and modes of QEMU differ in what they tell.
 *   On x86 a repeated string instruction counts its iterations, found from its accesses; a locked instruction counts one load
 *   and one store; calls, jumps and returns count what the processor's manual says. QEMU 7.2 goes on to charge a
 *   block's last instruction with accesses that come later, such as an interrupt's own, until another instruction
 *   that may access memory by a helper: hence `current`, and hence those fixed counts. On Arm an atomic instruction
 *   counts one load and one store, and an exclusive store one store, whether it succeeds or not.
 * - Counters only grow; a window is the difference to what was written before. Another vCPU that is between its look
 *   at `open_jobs` and its increment when the window closes brings that one instruction into the next window.
 *
 * The interface: QEMU's documentation, "QEMU TCG Plugins". Debian packages no header for it, so that the few
 * declarations that are needed stand here. They serve version 1 (QEMU up to 8.2) to 6.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef struct {
    const char *target_name;
    struct { int min, cur; } version;
    bool system_emulation;
    struct { int smp_vcpus, max_vcpus; } system;
} qemu_info_t;

enum { CB_NO_REGS = 0, MEM_RW = 3 };
typedef void (*insn_callback)(unsigned vcpu, void *data);
typedef void (*mem_callback)(unsigned vcpu, qemu_plugin_meminfo_t access, uint64_t address, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
/* Versions 1 and 2 return the bytes and take no more than the first argument; later ones fill `bytes`. */
void *qemu_plugin_insn_data(const struct qemu_plugin_insn *, void *bytes, size_t length);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, insn_callback, int flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, mem_callback, int flags, int rw, void *data);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t);
/* Gone since version 2, hence weak: whether it exists tells which version to declare. */
__attribute__((weak)) int qemu_plugin_n_vcpus(void);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv);

/* QEMU reads the version after loading. One that asks for more than 1 still takes 2. */
__attribute__((constructor)) static void declare_version(void)
{
    if (!qemu_plugin_n_vcpus)
        qemu_plugin_version = 2;
}

/* A kernel with all its modules has about a million instructions, of which a guest executes a part. */
#define CAPACITY (1u << 21)
#define SLOTS (2 * CAPACITY)
#define KERNEL_HALF 0xffff800000000000ull

struct count { uint64_t executed, loads, stores; };
struct record { uint64_t address; struct count count; };

/* Kinds of instructions, and the indices at which user space's are counted. */
enum kind { COUNTED, NO_ACCESS, LOAD, STORE, LOAD_STORE, IRET, REPEATED, REPEATED_TWICE, KINDS };
static const struct { unsigned char loads, stores, an_iteration; } accesses[KINDS] = {
    [LOAD] = { .loads = 1 },
    [STORE] = { .stores = 1 },
    [LOAD_STORE] = { .loads = 1, .stores = 1 },
    [IRET] = { .loads = 5 },
    [REPEATED] = { .an_iteration = 1 },
    [REPEATED_TWICE] = { .an_iteration = 2 },
};
enum { NO_ROOM = KINDS, FIRST_ADDRESS };

static bool is_arm;
static const char *folder;
static int interface_version;
static int vcpus;
static struct vcpu {
    struct count *counts;  /* by index */
    struct count *written; /* the same, as of the last window's end */
    void *current;         /* index of the instruction that began last */
} __attribute__((aligned(64))) *vcpu_state;

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t slots[SLOTS];         /* hash of the address -> index, 0 for none */
static uint64_t addresses[CAPACITY];  /* by index */
static unsigned char kinds[CAPACITY]; /* by index */
static uint32_t used = FIRST_ADDRESS;

static pthread_mutex_t window_lock = PTHREAD_MUTEX_INITIALIZER;
static int open_jobs; /* the window is open while this is above zero */
static uint32_t place;
static unsigned windows;

/* Moves and an addition in machine code: only this vCPU writes; whoever closes the window reads. */
static inline void bump(uint64_t *counter)
{
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

static inline bool window_is_open(void)
{
    return __atomic_load_n(&open_jobs, __ATOMIC_RELAXED) > 0;
}

static void count_execution(unsigned vcpu, void *index)
{
    if (!window_is_open())
        return;
    vcpu_state[vcpu].current = index;
    bump(&vcpu_state[vcpu].counts[(uintptr_t)index].executed);
}

static void count_access(unsigned vcpu, qemu_plugin_meminfo_t access, uint64_t address, void *index)
{
    (void)address;
    if (!window_is_open() || vcpu_state[vcpu].current != index)
        return;
    struct count *count = &vcpu_state[vcpu].counts[(uintptr_t)index];
    bump(qemu_plugin_mem_is_store(access) ? &count->stores : &count->loads);
}

/* What a counter has counted since the last call. */
static uint64_t since(uint64_t *now, uint64_t *before)
{
    uint64_t more = __atomic_load_n(now, __ATOMIC_RELAXED) - *before;
    if (more)
        *before += more;
    return more;
}

/* Adds to `sum` what a vCPU counted at an index since the last call; the instructions among it. */
static uint64_t take(struct count *sum, int vcpu, uint32_t index)
{
    struct count *now = &vcpu_state[vcpu].counts[index], *before = &vcpu_state[vcpu].written[index];
    struct count more = { since(&now->executed, &before->executed), since(&now->loads, &before->loads),
                          since(&now->stores, &before->stores) };
    more.loads += more.executed * accesses[kinds[index]].loads;
    more.stores += more.executed * accesses[kinds[index]].stores;
    if (accesses[kinds[index]].an_iteration)
        more.executed = (more.loads + more.stores) / accesses[kinds[index]].an_iteration;
    sum->executed += more.executed;
    sum->loads += more.loads;
    sum->stores += more.stores;
    return more.executed;
}

/* Ends a window: what was counted since the last one is written, or dropped. */
static void end_window(bool write)
{
    uint32_t end = __atomic_load_n(&used, __ATOMIC_ACQUIRE), head[2] = { place, (uint32_t)vcpus };
    uint64_t *totals = calloc((size_t)vcpus, sizeof *totals), lengths[2] = { 1, 0 };
    struct record *records = calloc(end, sizeof *records), no_room = { 0 };
    bool whole = totals && records;
    for (uint32_t index = 0; whole && index < end; index++) {
        struct record *record = index < KINDS ? records : index == NO_ROOM ? &no_room : &records[lengths[0]];
        for (int vcpu = 0; vcpu < vcpus; vcpu++)
            totals[vcpu] += take(&record->count, vcpu, index);
        record->address = addresses[index];
        if (index >= FIRST_ADDRESS && (record->count.executed || record->count.loads || record->count.stores))
            lengths[0]++;
    }
    lengths[1] = no_room.count.executed;
    if (write) {
        char path[4096], partial[4096];
        snprintf(path, sizeof path, "%s/window-%u", folder, windows);
        snprintf(partial, sizeof partial, "%s/partial-%u", folder, windows++);
        FILE *file = fopen(partial, "wb");
        whole = whole && file && fwrite("iopjwin1", 8, 1, file) && fwrite(head, sizeof head, 1, file) &&
                fwrite(lengths, sizeof lengths, 1, file) && fwrite(totals, sizeof *totals * (size_t)vcpus, 1, file) &&
                fwrite(records, sizeof *records * lengths[0], 1, file);
        if (file && fclose(file))
            whole = false;
        if (!whole || rename(partial, path))
            fprintf(stderr, "iopj: %s cannot be written: %s\n", path, strerror(errno));
    }
    free(records);
    free(totals);
}

enum { ZERO, ONE, BEGIN, END };

static void mark(unsigned vcpu, void *code)
{
    (void)vcpu;
    pthread_mutex_lock(&window_lock);
    switch ((uintptr_t)code) {
    case ZERO:
    case ONE:
        /* A trial that died with its window open: what comes is another's. */
        if (open_jobs > 0) {
            __atomic_store_n(&open_jobs, 0, __ATOMIC_SEQ_CST);
            end_window(false);
        }
        place = place << 1 | (uint32_t)(uintptr_t)code;
        break;
    case BEGIN:
        __atomic_add_fetch(&open_jobs, 1, __ATOMIC_SEQ_CST);
        break;
    case END:
        if (open_jobs > 0 && __atomic_sub_fetch(&open_jobs, 1, __ATOMIC_SEQ_CST) == 0)
            end_window(true);
        break;
    }
    pthread_mutex_unlock(&window_lock);
}

/* An instruction of Arm, which has four bytes; 0, which is undefined, for anything else. */
static uint32_t arm_word(const unsigned char *bytes, size_t size)
{
    return size == 4 ? bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (uint32_t)bytes[3] << 24 : 0;
}

/* The code of a mark, or -1. */
static int mark_code(const unsigned char *bytes, size_t size)
{
    static const unsigned char prefix[4] = { 0x0f, 0x1f, 0x84, 0x00 }, suffix[3] = { 'O', 'P', 'J' };
    if (is_arm) {
        uint32_t word = arm_word(bytes, size);
        return (word & 0xff9fffff) == 0xd289ea1f ? (int)(word >> 21 & 3) : -1;
    }
    bool is_mark = size == 8 && !memcmp(bytes, prefix, 4) && !memcmp(bytes + 5, suffix, 3) && bytes[4] <= END;
    return is_mark ? bytes[4] : -1;
}

/* Encodings: Arm's manual, C4.1, loads and stores. */
static enum kind arm_kind_of(uint32_t word)
{
    if ((word & 0x3f200c00) == 0x38200000) /* LDADD and the like, SWP; LDAPR, which is among them, only loads */
        return (word & 0x3ffffc00) == 0x38bfc000 ? COUNTED : LOAD_STORE;
    if ((word & 0x3fa07c00) == 0x08a07c00 || (word & 0xbfa07c00) == 0x08207c00) /* CAS, CASP */
        return LOAD_STORE;
    if ((word & 0x3fc00000) == 0x08000000) /* STXR, STLXR */
        return STORE;
    return COUNTED;
}

/* Opcodes and prefixes: Intel's manual, volume 2. */
static enum kind x86_kind_of(const unsigned char *bytes, size_t size)
{
    bool repeated = false, locked = false;
    size_t at = 0;
    for (; at < size && bytes[at] && strchr("\xf0\xf2\xf3\x2e\x36\x3e\x26\x64\x65\x66\x67", bytes[at]); at++) {
        repeated = repeated || bytes[at] == 0xf2 || bytes[at] == 0xf3;
        locked = locked || bytes[at] == 0xf0;
    }
    if (at < size && (bytes[at] & 0xf0) == 0x40) /* REX */
        at++;
    unsigned char opcode = at < size ? bytes[at] : 0, next = at + 1 < size ? bytes[at + 1] : 0xff;
    bool in_memory = next < 0xc0; /* the operand, where `next` describes one */
    unsigned extension = next >> 3 & 7;
    if (locked || ((opcode & 0xfe) == 0x86 && in_memory)) /* XCHG locks by itself */
        return LOAD_STORE;
    if (opcode == 0xe8 || (opcode == 0xff && extension == 2)) /* CALL */
        return opcode == 0xff && in_memory ? LOAD_STORE : STORE;
    if (opcode == 0xc2 || opcode == 0xc3 || (opcode == 0xff && extension == 4 && in_memory)) /* RET, JMP */
        return LOAD;
    if (opcode == 0xcf)
        return IRET;
    if ((opcode & 0xf0) == 0x70 || (opcode & 0xfc) == 0xe0 || (opcode & 0xfd) == 0xe9 ||
        (opcode == 0xff && extension == 4)) /* Jcc, LOOP, JMP */
        return NO_ACCESS;
    if (opcode == 0x0f && ((next & 0xf0) == 0x80 || next == 0x05 || next == 0x07)) /* Jcc, SYSCALL, SYSRET */
        return NO_ACCESS;
    if (!repeated || at + 1 != size)
        return COUNTED;
    if (opcode >= 0xa4 && opcode <= 0xa7) /* MOVS, CMPS */
        return REPEATED_TWICE;
    if ((opcode & 0xfc) == 0x6c || (opcode >= 0xaa && opcode <= 0xaf)) /* INS, OUTS, STOS, LODS, SCAS */
        return REPEATED;
    return COUNTED;
}

/* The index of an address, made at its first translation and kept at all later ones. The kernel patches its own code:
 * another kind of instruction at the same address has another index. */
static uint32_t index_of(uint64_t address, enum kind kind)
{
    if (address < KERNEL_HALF)
        return kind;
    pthread_mutex_lock(&table_lock);
    uint32_t slot = (uint32_t)(address * 0x9e3779b97f4a7c15ull >> 32) % SLOTS;
    while (slots[slot] && (addresses[slots[slot]] != address || kinds[slots[slot]] != kind))
        slot = (slot + 1) % SLOTS;
    uint32_t index = slots[slot];
    if (!index && used == CAPACITY) {
        index = NO_ROOM;
    } else if (!index) {
        index = slots[slot] = used;
        addresses[index] = address;
        kinds[index] = kind;
        __atomic_store_n(&used, used + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&table_lock);
    return index;
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    size_t length = qemu_plugin_tb_n_insns(tb);
    for (size_t i = 0; i < length; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        unsigned char copy[15] = { 0 }; /* no instruction is longer */
        size_t size = qemu_plugin_insn_size(insn) < sizeof copy ? qemu_plugin_insn_size(insn) : sizeof copy;
        void *returned = qemu_plugin_insn_data(insn, copy, size);
        const unsigned char *bytes = interface_version >= 3 ? copy : returned;
        int code = mark_code(bytes, size);
        if (code >= 0) {
            qemu_plugin_register_vcpu_insn_exec_cb(insn, mark, CB_NO_REGS, (void *)(uintptr_t)code);
            continue;
        }
        enum kind kind = is_arm ? arm_kind_of(arm_word(bytes, size)) : x86_kind_of(bytes, size);
        void *index = (void *)(uintptr_t)index_of(qemu_plugin_insn_vaddr(insn), kind);
        qemu_plugin_register_vcpu_insn_exec_cb(insn, count_execution, CB_NO_REGS, index);
        if (kind == COUNTED || accesses[kind].an_iteration)
            qemu_plugin_register_vcpu_mem_cb(insn, count_access, CB_NO_REGS, MEM_RW, index);
    }
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (!strncmp(argv[i], "out=", 4))
            folder = strdup(argv[i] + 4);
    is_arm = !strcmp(info->target_name, "aarch64");
    if (!folder || !info->system_emulation || (!is_arm && strcmp(info->target_name, "x86_64"))) {
        fprintf(stderr, "iopj: the profiler needs out=FOLDER and a whole x86_64 or aarch64 machine\n");
        return -1;
    }
    interface_version = info->version.cur;
    vcpus = info->system.max_vcpus;
    vcpu_state = aligned_alloc(64, (size_t)vcpus * sizeof *vcpu_state);
    for (struct vcpu *vcpu = vcpu_state; vcpu && vcpu < vcpu_state + vcpus; vcpu++) {
        *vcpu = (struct vcpu){ calloc(CAPACITY, sizeof *vcpu->counts), calloc(CAPACITY, sizeof *vcpu->written), NULL };
        if (!vcpu->counts || !vcpu->written)
            vcpu_state = NULL;
    }
    if (!vcpu_state) {
        fprintf(stderr, "iopj: no memory for the profiler's counters\n");
        return -1;
    }
    for (unsigned char kind = 0; kind < KINDS; kind++)
        kinds[kind] = kind;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    return 0;
}
