//! What goes on beside the trials of a study: meters on their threads and the energy that they show, what the
//! user sees, and metrics on their way to Prometheus.

pub mod energy;
mod error;
pub mod metrics;
mod progress;

pub use error::MeteringError;
#[cfg(any(test, feature = "testing"))]
pub use progress::Said;
pub use progress::{Progress, unix_ns};
