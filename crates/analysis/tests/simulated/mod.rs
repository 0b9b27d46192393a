//! Shared by the simulations: the paths, and the tolerance of a simulated share.

use iopj_core::IoPath;

/// 99.9 % of a normal distribution is within this many standard deviations.
pub(crate) const Z_999: f64 = 3.2905;

const PATHS: [&str; 9] = [
    "posix-sio/syscall/interrupt",
    "posix-sio/syscall/poll",
    "posix-sio/syscall/hybrid",
    "posix-aio/syscall/interrupt",
    "libaio/syscall/interrupt",
    "io_uring/syscall/interrupt",
    "io_uring/syscall/poll",
    "io_uring/sqpoll/interrupt",
    "io_uring/sqpoll/poll",
];

/// All of them, in an order that means nothing.
pub(crate) fn paths() -> Vec<IoPath> {
    PATHS.iter().map(|path| path.parse().unwrap()).collect()
}

/// The interval that contains 99.9 % of simulations of an event of this probability.
pub(crate) fn error(probability: f64, draws: usize) -> f64 {
    Z_999 * (probability * (1.0 - probability) / draws as f64).sqrt()
}
