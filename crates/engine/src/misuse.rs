//! What must not compile, as documentation tests. Each case stands beside the same code without the mistake,
//! so it fails for that mistake and no other.
//!
//! A buffer cannot be used after it was pushed:
//!
//! ```
//! # use iopj_engine::*;
//! fn fill(engine: &mut impl Engine, mut buffer: Buffer) {
//!     buffer.fill(1);
//!     engine.push(Request::write(buffer, 4096, 0)).unwrap();
//! }
//! ```
//!
//! ```compile_fail,E0382
//! # use iopj_engine::*;
//! fn fill(engine: &mut impl Engine, mut buffer: Buffer) {
//!     engine.push(Request::write(buffer, 4096, 0)).unwrap();
//!     buffer.fill(1);
//! }
//! ```
//!
//! A request cannot be pushed, and so not completed, twice:
//!
//! ```
//! # use iopj_engine::*;
//! fn push(engine: &mut impl Engine, request: Request) {
//!     engine.push(request).unwrap();
//! }
//! ```
//!
//! ```compile_fail,E0382
//! # use iopj_engine::*;
//! fn push(engine: &mut impl Engine, request: Request) {
//!     engine.push(request).unwrap();
//!     engine.push(request).unwrap();
//! }
//! ```
//!
//! A completion's buffer cannot be taken twice:
//!
//! ```
//! # use iopj_engine::*;
//! fn take(completion: Completion) -> [Option<Buffer>; 1] {
//!     [completion.into_buffer()]
//! }
//! ```
//!
//! ```compile_fail,E0382
//! # use iopj_engine::*;
//! fn take(completion: Completion) -> [Option<Buffer>; 2] {
//!     [completion.into_buffer(), completion.into_buffer()]
//! }
//! ```
//!
//! A region goes to another thread; a pool, a buffer and an engine stay:
//!
//! ```
//! fn send<T: Send>() {}
//! send::<iopj_engine::Region>();
//! ```
//!
//! ```compile_fail,E0277
//! fn send<T: Send>() {}
//! send::<iopj_engine::Pool>();
//! ```
//!
//! ```compile_fail,E0277
//! fn send<T: Send>() {}
//! send::<iopj_engine::Buffer>();
//! ```
//!
//! ```compile_fail,E0277
//! fn send<T: Send>() {}
//! send::<iopj_engine::IoUring>();
//! ```
