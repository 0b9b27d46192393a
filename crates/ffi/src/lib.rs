//! The C interface of iopj's engines: targets, pools, engines, requests and completions by handles.
//!
//! The header is `include/iopj.h`, `cargo xtask ffi` makes the libraries, and README.md says how C uses them.
//! A function here does what the one of its name in `iopj-engine` does; the crate adds what C cannot be
//! trusted with. Handles are numbers, so a wrong one is an error; buffers are known by
//! where they are, so a wrong one is an error; no panic leaves a call.

#[cfg(not(panic = "unwind"))]
compile_error!("without unwinding, a panic would end the C program: build iopj-ffi with panic = \"unwind\"");

mod auto;
mod buffers;
mod driven;
mod engine;
mod error;
mod handle;
mod pointers;
mod pool;
mod table;
mod target;

// Every `#[unsafe(no_mangle)]` is sound: the names begin with `iopj_`, and nothing else defines such names.
pub use auto::*;
pub use engine::*;
pub use error::*;
pub use pool::*;
pub use target::*;
