//! The network between two hosts by itself: a stream and a ping-pong of our own, and what iperf3 and perftest
//! print. Which of them is used, and what is kept, is left to the caller.
//!
//! Our own test listens for a moment on a port that the kernel chooses, for one connection from one address
//! that begins with a token; then nothing listens any more.

mod iperf;
mod own;
mod perftest;
mod program;

pub use iperf::{Stream, iperf3};
pub use own::{Listener, Test, Token, run};
pub use perftest::{bits_per_s, latency_ns, version};
pub use program::{Ended, Serving, find, free_port, output};

use std::time::Duration;

/// How long a stream lasts.
pub const STREAM: Duration = Duration::from_secs(2);

/// Why the network was not measured: the cause and the remedy.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct NetworkError(pub String);
