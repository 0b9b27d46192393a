//! What issues the I/O of a trial: the native generator and fio; traces; what works beside it; the ramp's
//! end, and the pass before the window.

pub mod corunner;
pub mod descriptors;
pub mod fio;
pub mod latencies;
pub mod native;
pub mod pass;
pub mod program;
pub mod steadystate;
pub mod trace;
