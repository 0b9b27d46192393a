//! Reads and writes a file, a block device or an NVMe namespace on every path that Linux offers, behind one
//! trait: synchronous calls, POSIX AIO, libaio, io_uring, NVMe passthrough, and an NVMe driver of its own.
//!
//! An [`Engine`] does I/O on one [`Target`] with the buffers of one [`Pool`], for the thread that opened it.
//! All I/O is direct (`O_DIRECT`). The crate serves an application alone: it changes no setting and prints
//! nothing.
//!
//! # Reading at depth
//!
//! A [`Buffer`] is taken from the pool, moves into the engine with a [`Request`], and comes out with the
//! [`Completion`]. [`Engine::push`] queues a request; [`Engine::wait`] submits what is queued, waits, and
//! hands each completion to a closure.
//!
//! ```
//! use iopj_engine::{Engine, IoUring, Pool, Request, Target};
//!
//! const DEPTH: u32 = 8;
//! const LEN: u32 = 4096;
//!
//! # let folder = tempfile::tempdir_in(".")?;
//! # let file = &folder.path().join("data");
//! iopj_engine::target::make_file(file, 1 << 20, &mut |_| true)?; // 1 MiB of random bytes
//! let target = Target::open(file)?;
//! let pool = Pool::new(DEPTH, LEN)?;
//! let mut engine = IoUring::builder().iodepth(DEPTH).open(&target, &pool)?;
//!
//! let mut offset = target.data_offset();
//! let end = offset + target.data_len();
//! let mut bytes = 0;
//! while offset < end || engine.in_flight() > 0 {
//!     while offset < end && let Some(buffer) = pool.acquire() {
//!         engine.push(Request::read(buffer, LEN, offset).tagged(offset))?;
//!         offset += u64::from(LEN);
//!     }
//!     engine.wait(1, None, |completion| {
//!         bytes += u64::from(completion.result.unwrap());
//!         let buffer = completion.into_buffer().unwrap(); // the block at offset `completion.tag`
//!         let _data: &[u8] = &buffer;
//!     })?; // a buffer that is dropped goes back to the pool
//! }
//! assert_eq!(bytes, 1 << 20);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Every interface has such a builder: [`PosixSio`], [`PosixAio`], [`Libaio`], [`IoUring`],
//! [`NvmePassthrough`], [`NvmeUser`].
//!
//! # Choosing a path at run time
//!
//! A path is named by its text: interface, submission and completion, such as `io_uring/syscall/interrupt`.
//! [`open`] opens an engine for it, as an object; [`open_on`] as one of its interface, from which
//! [`AnyEngine::visit`] leads to code without any decision per I/O. [`check::check`] tries a path by one
//! read. Where it does not work, it says why and what would make it work.
//!
//! ```
//! use iopj_engine::check::{Availability, check};
//! use iopj_engine::{IoPath, Target};
//!
//! # let folder = tempfile::tempdir_in(".")?;
//! # let path = &folder.path().join("data");
//! # iopj_engine::target::make_file(path, 4096, &mut |_| true)?;
//! let target = Target::open(path)?;
//! for path in IoPath::all() {
//!     match check(path, &target) {
//!         Availability::Available { notes } => println!("{path}: works {notes:?}"),
//!         Availability::Unavailable { reason, remedy } => println!("{path}: {reason}; {remedy}"),
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Errors
//!
//! There are five kinds. [`PoolError`]: the pool has no memory. [`target::TargetError`]: the target cannot be
//! used, and the message says what to do. [`EngineError`]: the engine could not be opened, or is finished.
//! [`Refused`]: the engine does not take a request, and gives it back with its buffer. [`IoError`]: one I/O
//! failed; it comes with the [`Completion`], and the engine goes on.
//!
//! ```
//! use iopj_engine::target::{TargetError, TargetFault};
//! use iopj_engine::{Cause, Engine, Pool, PosixSio, Request, Target};
//!
//! let error = Target::open("no/such/file".as_ref()).unwrap_err();
//! assert!(matches!(error, TargetError::Unfit { fault: TargetFault::NotFound, .. }));
//!
//! # let folder = tempfile::tempdir_in(".")?;
//! # let path = &folder.path().join("data");
//! # iopj_engine::target::make_file(path, 4096, &mut |_| true)?;
//! let target = Target::open(path)?;
//! let pool = Pool::new(1, 4096)?;
//! let mut engine = PosixSio::builder().open(&target, &pool)?;
//! // Direct I/O needs aligned offsets.
//! let refused = engine.push(Request::read(pool.acquire().unwrap(), 4096, 1)).unwrap_err();
//! assert!(matches!(refused.error().cause(), Cause::Unaligned { offset: 1, .. }));
//! drop(refused); // and with it the buffer
//! assert_eq!(pool.available(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Writing
//!
//! [`Target::open_for_writing`] opens a file that [`target::make_file`] made, or a whole device that nobody
//! uses and that is named twice. Everything else is refused, so nothing is overwritten by mistake. Besides
//! reads and writes there are vectored ones, flushes, discards and writes of zeros ([`Op`]), where
//! [`Engine::supports`] says so.
//!
//! # Threads, memory and the end
//!
//! An engine stays on its thread; open one per thread, on the same target. A pool belongs to a thread too,
//! and several engines share it; pools of several threads share a [`Region`], which may be the caller's own
//! memory. A dropped engine waits for what is in flight for at most five seconds ([`Engine::close`] for as
//! long as it is told), then leaks what the kernel still uses, so the kernel never writes into freed memory.
//!
//! # Features
//!
//! - `sim`: an engine without a device ([`sim`]) and a simulated NVMe drive, for tests.
//! - `tokio`: a future per request, on tokio's current-thread runtime (the module `asynchronous`).

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("iopj measures Linux on 64-bit machines");

/// The examples of the guide are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
mod guide {}

mod any;
mod aside;
#[cfg(feature = "tokio")]
pub mod asynchronous;
pub mod check;
mod control_blocks;
mod drain;
mod engine;
mod error;
mod gate;
mod libaio;
#[cfg(doctest)]
mod misuse;
mod mmap;
mod null;
pub mod nvme_user;
mod obstacle;
mod pci;
mod pool;
mod posix_aio;
mod posix_sio;
mod rare;
mod region;
mod remedy;
mod request;
mod ring;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
mod syscall;
mod system;
pub mod target;

pub use any::{AnyEngine, Visitor, open, open_on};
pub use aside::{close_rings_of_parent, is_ring, keep_rings_from, rings_closed};
pub use engine::{Counters, DynEngine, Engine, Leaked, Registration, RouteCounts, Setup, sealed};
pub use error::{Cause, EngineError, Refused};
pub use gate::MAX_IODEPTH;
pub use iopj_path::path::{self, IoPath};
pub use libaio::{Libaio, LibaioBuilder};
pub use null::Null;
pub use nvme_user::{NvmeUser, NvmeUserBuilder};
pub use pci::{Isolation, ParsePciAddressError, PciAddress};
pub use pool::{Buffer, Pool};
pub use posix_aio::{PosixAio, PosixAioBuilder};
pub use posix_sio::{PosixSio, PosixSioBuilder};
pub use region::{PoolError, Region};
pub use request::{Buffers, Completion, IoError, Op, Operation, Request, Transfer};
pub use ring::{IoUring, KernelCpus, NvmePassthrough, RingBuilder, RingEngine};
pub use target::Target;
