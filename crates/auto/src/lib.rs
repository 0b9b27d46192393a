//! An engine that owns several and sends each request to the one that serves it best.
//!
//! [`Auto`] is an [`Engine`](iopj_engine::Engine) like the others of `iopj-engine`. It owns an interrupt
//! ring, a polled ring, a hybrid one, one with submission polling, and system calls; or, on a drive that was
//! taken from the kernel's driver, the driver in this process in its three modes. It takes those that the
//! target has. For each kind of request (read or write, by size) it keeps a route, which it revises after
//! some thousand I/Os by a [`Policy`] and by what it has seen. The crate serves an application alone: it
//! prints nothing and changes no setting.
//!
//! ```
//! use iopj_auto::{Aim, Auto};
//! use iopj_engine::{Engine, Pool, Request, Target};
//!
//! # let folder = tempfile::tempdir_in(".")?;
//! # let path = &folder.path().join("data");
//! # iopj_engine::target::make_file(path, 1 << 20, &mut |_| true)?;
//! let target = Target::open(path)?;
//! let pool = Pool::new(8, 4096)?;
//! let mut engine = Auto::builder().aim(Aim::Cpu).iodepth(8).open(&target, &pool)?;
//! for block in 0..100 {
//!     let offset = target.data_offset() + block * 4096;
//!     engine.push(Request::read(pool.acquire().expect("one is free"), 4096, offset).tagged(block))?;
//!     engine.wait(1, None, |completion| assert_eq!(completion.result, Ok(4096)))?;
//! }
//! for decision in engine.drain_log() {
//!     println!("{decision}"); // such as: read 4k, 1 in flight or more: from ... to ...: CPU time of ...
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! From the bottom up: `way` and `key` are the words, `policy` what is known beforehand, `seen` what an epoch
//! showed, `chooser` what decides (pure: a simulation may drive it), `engines` what is open, `auto` the
//! engine.

/// The examples of the guide are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/auto.md")]
mod guide {}

mod anchor;
mod auto;
mod builder;
pub mod chooser;
mod clock;
mod engines;
mod estimate;
#[cfg(feature = "evaluate")]
pub mod evaluate;
mod flight;
mod key;
mod log;
mod policy;
mod provenance;
mod seen;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
mod sleep;
mod timing;
mod watts;
mod way;

pub use auto::Auto;
pub use builder::{AutoBuilder, available};
pub use clock::{Clock, Crowding, Metered, SystemClock};
pub use key::{Band, Direction, Kind};
pub use log::{Counts, Decision, LOG_LEN, Why};
pub use policy::{Aim, Cell, Figures, Policy, PolicyError, policy_text};
pub use provenance::Provenance;
pub use seen::{Seen, Timed};
pub use way::{ParseWayError, Way};
