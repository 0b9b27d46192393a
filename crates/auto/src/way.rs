//! The ways that `Auto` chooses among: a word of `iopj-core`, because a path may name one.

pub use iopj_path::path::{ParseWayError, Way};
