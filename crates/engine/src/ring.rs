//! The engines on io_uring: the raw ring, its entries and set-up, and the engine over both, which each kind
//! of entry makes an [`IoUring`] or an [`NvmePassthrough`].

mod builder;
mod engine;
mod entry;
mod io_uring;
mod nvme_passthrough;
mod raw;
mod setup;

pub use builder::{IoUring, NvmePassthrough, RingBuilder};
pub use engine::RingEngine;
pub(crate) use io_uring::fallocate_mode;
#[cfg(test)]
pub(crate) use raw::{RawRing, SqPoller};
pub use setup::KernelCpus;
pub(crate) use setup::require_ring_for_callers;
