//! An engine for Python: a worker thread that has it, and what Python's threads share with that thread.
//!
//! Engines and pools stay on one thread, so Python hands its requests to a worker and waits for their
//! flights. The worker never touches Python: it needs no lock of the interpreter, and may outlive it.

mod buffer;
mod file;
mod flight;
mod memory;
mod open;
mod pool;
mod shared;
mod slot;
mod worker;

pub(crate) use buffer::Buffer;
pub(crate) use file::{Engine, make_file};
pub(crate) use flight::Pending;
