//! I/O paths, units and io_uring's words as types, with their text forms; and the reading of files that
//! others name.
//!
//! This is what an engine and the adaptive engine need of iopj's vocabulary, and no more. `iopj-core` passes
//! all of it on.

pub mod files;
pub mod path;
pub mod units;
pub mod uring;

pub use path::{
    AioDescriptors, AutoPath, CompletionMode, IoPath, PolicyName, ProgramName, Ring, RingCompletion,
    RingSubmission, SioCompletion, Sleep, Spin, Submission, UserCompletion, Way,
};
pub use units::{format_bytes, format_duration, parse_bytes, parse_duration};
pub use uring::{RingFlag, RingThread};
