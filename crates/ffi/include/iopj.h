/*
 * iopj: every way that Linux offers to do one I/O, behind one interface.
 *
 * Functions return IOPJ_OK or a negative code, those that count a number from 0 on, and those that open a
 * handle, or 0. iopj_last_error says why the last call of this thread failed. Handles belong to the thread
 * that opened them. README.md beside this file's folder says the rest.
 */

#ifndef IOPJ_H
#define IOPJ_H

/* cbindgen writes this file: cargo xtask ffi --header. */

#include <stddef.h>
#include <stdint.h>

// The call did what it says.
#define IOPJ_OK 0

// A null pointer, a text or a number that the call does not take.
#define IOPJ_ERROR_ARGUMENT -1

// The handle is closed, of another kind, of another thread, or made up; or there are no more handles.
#define IOPJ_ERROR_HANDLE -2

// A buffer that the caller does not have: it is in flight, it was released, or there is none of this index.
#define IOPJ_ERROR_BUFFER -3

// The target cannot be opened or made.
#define IOPJ_ERROR_TARGET -4

// The pool has no memory.
#define IOPJ_ERROR_POOL -5

// The engine cannot be opened, or is finished.
#define IOPJ_ERROR_ENGINE -6

// The engine does not take the request; nothing was done, and the caller still has the buffer.
#define IOPJ_ERROR_REFUSED -7

// As many requests are in flight as the engine takes; the caller still has the buffer.
#define IOPJ_ERROR_FULL -8

// All buffers of the pool are with the caller or in flight.
#define IOPJ_ERROR_NO_BUFFER -9

// The pool has an engine that is open.
#define IOPJ_ERROR_BUSY -10

// It is closed, and requests that had not ended keep their memory for ever.
#define IOPJ_ERROR_LEAKED -11

// A fault of iopj's own.
#define IOPJ_ERROR_PANIC -12

// Bytes of the text of a file's identity: 32 hexadecimal digits and the zero byte.
#define IOPJ_FILE_ID_LEN 33

// Reads `len` bytes at `offset` into the buffer.
#define IOPJ_READ 0

// Writes the buffer's first `len` bytes at `offset`.
#define IOPJ_WRITE 1

// Makes everything durable whose completion came before: fdatasync(2), or the drive's own command.
#define IOPJ_FLUSH 2

// As `IOPJ_FLUSH`, with the file's times: fsync(2).
#define IOPJ_FSYNC 3

// Says that `len` bytes at `offset` are not needed any more.
#define IOPJ_DISCARD 4

// Makes `len` bytes at `offset` read as zeros.
#define IOPJ_WRITE_ZEROES 5

// As `IOPJ_WRITE`, and the data are durable when it completes: `RWF_DSYNC`, or a drive's FUA.
#define IOPJ_WRITE_DSYNC 6

// As `IOPJ_WRITE_DSYNC`, with the file's times: `RWF_SYNC`.
#define IOPJ_WRITE_SYNC 7

// The buffer of a completion whose request had none.
#define IOPJ_NO_BUFFER UINT32_MAX

// `system_calls` of an engine whose system calls cannot be counted.
#define IOPJ_NOT_COUNTED UINT64_MAX

// What a target is like.
struct iopj_target_info {
    // The first byte that I/O may touch.
    uint64_t data_offset;
    // Bytes from there on that I/O may touch, a multiple of `logical_block`.
    uint64_t data_len;
    // What the offsets and lengths of I/O must be multiples of, in bytes.
    uint32_t logical_block;
    // 1 if it may be written, else 0.
    uint32_t writable;
    // The identity of a file that iopj made, as text; else empty.
    char file_id[IOPJ_FILE_ID_LEN];
};

// Whether a path works on a target. The texts are never `NULL`, but may be empty; they are valid until the
// thread calls `iopj_check` again, or ends.
struct iopj_availability {
    // 1 if one read was done on the path, else 0.
    int32_t available;
    // If it works: what to know before trusting it, such as a kernel that is known to fall back.
    const char *notes;
    // If it does not: why.
    const char *reason;
    // If it does not: what would make it work.
    const char *remedy;
};

// What a pool is like.
struct iopj_pool_info {
    // Number of buffers.
    uint32_t count;
    // Length of a buffer in bytes.
    uint32_t buffer_len;
    // Buffers that are neither with the caller nor in flight.
    uint32_t available;
    // 1 if the pool lies in huge pages, else 0.
    uint32_t huge;
};

// A buffer that the caller has.
struct iopj_buffer {
    // Its bytes, aligned to 4096. They are the caller's until the buffer is pushed, released, or its pool
    // closed, and again from its completion on; to touch them in between is the caller's fault.
    void *bytes;
    // Its length in bytes.
    uint32_t len;
    // Its index in the pool, by which requests and completions name it.
    uint32_t index;
};

// One request.
struct iopj_request {
    // What to do, such as `IOPJ_READ`.
    uint32_t op;
    // Index of a buffer that the caller has, for reads and writes.
    uint32_t buffer;
    // Length in bytes, a multiple of the target's logical block. Flushes have none.
    uint64_t len;
    // Offset on the target in bytes, such a multiple too, from the target's `data_offset` on.
    uint64_t offset;
    // Returned with the completion.
    uint64_t tag;
};

// The end of one request.
struct iopj_completion {
    // The request's tag.
    uint64_t tag;
    // Bytes moved (fewer than asked for: a partial I/O; 0 where nothing is moved), or a negative errno;
    // after an NVMe status, `-EIO`.
    int64_t result;
    // The NVMe status of a failed command (code in bits 0 to 7, type in bits 8 to 10), else 0.
    uint32_t nvme_status;
    // Index of the request's buffer, which the caller has again, or `IOPJ_NO_BUFFER`.
    uint32_t buffer;
};

// What an engine has done since it was opened, without its set-up.
struct iopj_counters {
    // System calls, or `IOPJ_NOT_COUNTED` for `posix-aio`, whose calls glibc makes.
    uint64_t system_calls;
    // Of these, calls that handed I/O to the kernel; of `posix-aio`, calls that handed I/O to glibc.
    uint64_t submit_calls;
    // Of the system calls, those that only woke a sleeping submission poller.
    uint64_t wakeups;
    // Writes to doorbell registers by `nvme-user`.
    uint64_t doorbells;
    // Of these, those of completion queues.
    uint64_t completion_doorbells;
    // Polls of the completion queue by `nvme-user` that found nothing.
    uint64_t empty_polls;
    // Sleeps before polling by `nvme-user` with hybrid completion.
    uint64_t sleeps;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The text of the last call of this thread that failed: it names the thing, the cause and the remedy. Empty
// if none has failed yet; never `NULL`. It is valid until another call of this thread fails, or the thread
// ends. A call that succeeds leaves it as it is.
const char *iopj_last_error(void);

// The code of the last call of this thread that failed, or `IOPJ_OK` if none has failed yet.
int32_t iopj_last_code(void);

// Opens a file, a block device or an NVMe namespace (`/dev/ngXnY`) for reading. All I/O is direct
// (`O_DIRECT`). Returns its handle, or 0.
//
// # Safety
// `file` is `NULL` (which is an error), or a text that ends with a zero byte.
uint64_t iopj_target_open(const char *file);

// Opens a file for reading and writing that `iopj_make_file` made under this identity. Any other file is
// refused. Returns its handle, or 0.
//
// # Safety
// `file` and `id` are `NULL` (which is an error), or texts that end with a zero byte.
uint64_t iopj_target_open_made(const char *file, const char *id);

// Opens a whole device for reading and writing: its data will be lost, so it is named twice, as `file` and
// as `destroy`. One that is mounted, swap, held or in use is refused, and one that carries a known
// signature unless `i_know` is 1. Returns its handle, or 0.
//
// # Safety
// `file` and `destroy` are `NULL` (which is an error), or texts that end with a zero byte.
uint64_t iopj_target_open_device(const char *file, const char *destroy, int32_t i_know);

// Says what a target is like.
//
// # Safety
// `info` is `NULL` (which is an error), or may be written.
int32_t iopj_target_info(uint64_t target, struct iopj_target_info *info);

// Closes a target. Engines that were opened on it go on: each has a descriptor of its own.
int32_t iopj_target_close(uint64_t target);

// Makes a file with `data_len` bytes of random data, written in full past the page cache and synced. It is
// 1 MiB longer than its data: a header before them names it as iopj's. `id` gets its identity, by which
// `iopj_target_open_made` opens it for writing. Nothing may have its name. Blocks until all is written.
//
// # Safety
// `file` is `NULL` (which is an error), or a text that ends with a zero byte; `id` is `NULL` (which is an
// error), or `IOPJ_FILE_ID_LEN` bytes that may be written.
int32_t iopj_make_file(const char *file, uint64_t data_len, char *id);

// Tries a path, such as `io_uring/syscall/interrupt`, by one read of one logical block of a target, and says
// whether it works. It writes nothing and changes no setting. Returns `IOPJ_OK` whether it works or not.
//
// # Safety
// `path` is `NULL` (which is an error), or a text that ends with a zero byte; `availability` is `NULL`
// (which is an error), or may be written.
int32_t iopj_check(const char *path, uint64_t target, struct iopj_availability *availability);

// Maps `count` buffers of `len` bytes, each aligned to 4096 bytes and zeroed. Returns the pool's handle, or
// 0.
uint64_t iopj_pool_new(uint32_t count, uint32_t len);

// As `iopj_pool_new`, in huge pages of 2 MiB.
uint64_t iopj_pool_huge(uint32_t count, uint32_t len);

// Makes `count` buffers of `buffer_len` bytes of the caller's memory, without a copy: `len` bytes from
// `base` on, both multiples of 4096. Each buffer takes `buffer_len` bytes, rounded up to a multiple of 4096.
// Returns the pool's handle, or 0.
//
// The memory must outlive the pool: it may be unmapped or used otherwise only after `iopj_pool_close` has
// returned `IOPJ_OK` for the pool. If that says `IOPJ_ERROR_LEAKED`, or if the thread ended with the pool
// open, it must stay as it is until the process ends.
//
// # Safety
// `base` is `NULL` (which is an error), or the `len` bytes from it on may be read and written until then, by
// nobody but this pool and whoever has a buffer of it.
uint64_t iopj_pool_adopt(void *base, size_t len, uint32_t count, uint32_t buffer_len);

// Says what a pool is like.
//
// # Safety
// `info` is `NULL` (which is an error), or may be written.
int32_t iopj_pool_info(uint64_t pool, struct iopj_pool_info *info);

// Closes a pool, with the buffers that the caller has: their bytes must not be touched any more. All engines
// over it must be closed before, or it says `IOPJ_ERROR_BUSY` and stays open.
//
// It says `IOPJ_ERROR_LEAKED`, and is closed, if the pool is of the caller's memory and a request that had
// not ended when its engine was closed still uses it.
int32_t iopj_pool_close(uint64_t pool);

// Takes a buffer of a pool, the one that came back last. What is in it is what was left in it.
//
// # Safety
// `buffer` is `NULL` (which is an error), or may be written.
int32_t iopj_buffer_acquire(uint64_t pool, struct iopj_buffer *buffer);

// Says where the bytes of a buffer are that the caller has, such as one that came with a completion.
//
// # Safety
// `buffer` is `NULL` (which is an error), or may be written.
int32_t iopj_buffer_get(uint64_t pool, uint32_t index, struct iopj_buffer *buffer);

// Gives a buffer back to its pool: its bytes must not be touched any more.
int32_t iopj_buffer_release(uint64_t pool, uint32_t index);

// Opens the engine of a path, such as `io_uring/syscall/interrupt`, on a target for up to `iodepth` requests
// in flight over the buffers of a pool. Returns its handle, or 0.
//
// # Safety
// `path` is `NULL` (which is an error), or a text that ends with a zero byte.
uint64_t iopj_engine_open(const char *path, uint64_t target, uint64_t pool, uint32_t iodepth);

// Queues a request without submitting it. Its buffer is in flight from here to its completion: whoever
// touches its bytes in between races with the kernel, and iopj cannot tell. If the call fails, nothing was
// done, and the caller still has the buffer.
//
// # Safety
// `request` is `NULL` (which is an error), or may be read.
int32_t iopj_push(uint64_t engine, const struct iopj_request *request);

// Hands everything queued to the kernel or the device without waiting for completions. `posix-sio` cannot:
// it does the I/O here, and blocks.
int32_t iopj_submit(uint64_t engine);

// Fetches what is complete, without submitting and without sleeping. Returns how many completions there are
// in the array, from 0 to `capacity`, or a negative code. What does not fit comes with the next call.
//
// # Safety
// `completions` is `NULL` (which is an error), or `capacity` elements that may be written.
int32_t iopj_reap(uint64_t engine, struct iopj_completion *completions, uint32_t capacity);

// Submits what is queued, waits until `min` completions can be fetched (at most as many as are in flight) or
// `timeout_ns` nanoseconds are over, and fetches what is complete; a negative timeout is none. Returns how
// many completions there are in the array, from 0 to `capacity`, or a negative code. What does not fit comes
// with the next call, and counts for its `min`. A `min` of 0 never sleeps. `posix-sio` blocks as long as the
// I/O takes.
//
// # Safety
// `completions` is `NULL` (which is an error), or `capacity` elements that may be written.
int32_t iopj_wait(uint64_t engine,
                  uint32_t min,
                  int64_t timeout_ns,
                  struct iopj_completion *completions,
                  uint32_t capacity);

// Requests that were pushed and whose completion was not fetched, or a negative code.
int32_t iopj_in_flight(uint64_t engine);

// 1 if the engine has the operation, such as `IOPJ_FLUSH`, else 0; or a negative code. The target may still
// fail it.
int32_t iopj_supports(uint64_t engine, uint32_t op);

// Gives a descriptor that becomes readable when `iopj_reap` may find something, to join an event loop; -1
// where there is none, as where the engine polls. It is the engine's: do not close it. It says nothing about
// completions that did not fit into an array: call `iopj_reap` until it returns less than the capacity.
//
// # Safety
// `descriptor` is `NULL` (which is an error), or may be written.
int32_t iopj_descriptor(uint64_t engine, int32_t *descriptor);

// Says what an engine has done so far.
//
// # Safety
// `counters` is `NULL` (which is an error), or may be written.
int32_t iopj_counters(uint64_t engine, struct iopj_counters *counters);

// Closes an engine: cancels what is in flight and waits for it for at most `timeout_ns` nanoseconds (a
// negative timeout is none). Completions that were not fetched are lost, and their buffers go back to the
// pool. It says `IOPJ_ERROR_LEAKED`, and is closed, if requests had not ended by then: their buffers never
// come back, and their memory is never freed, because a leak is safe and a free is not.
int32_t iopj_engine_close(uint64_t engine, int64_t timeout_ns);

// Opens an engine that chooses among the paths that a target has, for up to `iodepth` requests in flight
// over the buffers of a pool. It is used and closed as any other engine. `policy` is `NULL` for the least
// latency; `latency`, `cpu`, or another aim; or the name of a policy file, which has a `/` or a `.` in it.
// Returns its handle, or 0.
//
// # Safety
// `policy` is `NULL`, or a text that ends with a zero byte.
uint64_t iopj_auto_open(const char *policy, uint64_t target, uint64_t pool, uint32_t iodepth);

// As `iopj_auto_open`, with a meter, which corrects what a policy says of joules. `meter` returns the joules
// that the whole machine has drawn, since whenever, or a negative number while it cannot be read. It is
// asked ten times a second at the most, within calls that wait or ask for completions, and must not call
// iopj. It is not asked any more once the engine is closed.
//
// # Safety
// `policy` is `NULL`, or a text that ends with a zero byte. `meter` is `NULL` (which is an error), or may be
// called with `context` by this thread until then.
uint64_t iopj_auto_open_metered(const char *policy,
                                uint64_t target,
                                uint64_t pool,
                                uint32_t iodepth,
                                double (*meter)(void *context),
                                void *context);

// Writes the oldest decision of such an engine that was not asked for yet, as a line of text that ends with
// a zero byte; what does not fit into `capacity` bytes is cut off. Returns the length of the whole line, 0
// if there is none, or a negative code.
//
// # Safety
// `line` is `NULL` (which is an error), or `capacity` bytes that may be written.
int32_t iopj_auto_decision(uint64_t engine, char *line, size_t capacity);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* IOPJ_H */
