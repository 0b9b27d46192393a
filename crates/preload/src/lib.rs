//! `libiopj_preload.so`: moves the direct I/O of an unmodified program onto the adaptive engine.
//!
//! Named in `LD_PRELOAD`, its functions come before those of the C library and of libaio that have the same
//! names: `pread` and its like, `io_submit`, `aio_read`. On descriptors of files and block devices with
//! O_DIRECT they do the I/O by an [`Auto`](iopj_auto::Auto), in the program's own buffers; everything else
//! goes to the function that the program meant. `docs/preload.md` says how it is used, and what it moves.
//!
//! From the bottom up: `sys` makes raw system calls, `heap` is the library's own memory, `real` finds the
//! functions behind ours, `stats` counts, `settings` reads the environment; `process` and `thread` are what a
//! process and a thread have, `stack` how much room one has, `owner` is a thread to others; `descriptors` and
//! `limits` say what may be moved. `moved` is an engine, `engines` are those of a thread for calls that wait,
//! `queue` those for calls that do not; `control_block` is an I/O of POSIX AIO, `context` one of libaio,
//! `state` all that a thread has, `events` what a program gets of libaio. Then the functions, by interface:
//! `synchronous`, `libaio`, `posix_aio`, `durable`; and `numbers`, which keeps the program's descriptors and
//! ours apart, `life` and `exec`, for beginning and end, and `ending`, which waits for what is in flight.

#![cfg_attr(
    test,
    allow(dead_code, reason = "the functions that stand before others are not called by tests")
)]

#[cfg(not(all(target_os = "linux", target_pointer_width = "64", target_endian = "little")))]
compile_error!("the library stands in for the C library of 64-bit Linux");

mod context;
mod control_block;
mod descriptors;
mod durable;
mod ending;
mod engines;
mod events;
mod exec;
mod heap;
mod libaio;
mod life;
mod limits;
mod moved;
mod numbers;
mod owner;
mod posix_aio;
mod process;
mod queue;
mod real;
mod settings;
mod stack;
mod state;
mod stats;
mod synchronous;
mod sys;
mod thread;

/// The engine and the library never wait for the program's allocator: a call may come while the program is in
/// it.
#[cfg(not(test))]
#[global_allocator]
static HEAP: heap::Heap = heap::Heap;
