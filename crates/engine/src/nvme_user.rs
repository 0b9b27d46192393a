//! `nvme-user`: kernel bypass, by iopj's own NVMe driver in user space, on VFIO.
//!
//! A [`Controller`] is opened once and shared; each engine has a queue pair of its own on it and touches
//! nothing else while it does I/O: no lock, no allocation, and with polled completion no system call. From
//! the bottom up: `device` (a trait: what the driver needs of its device), `vfio` (the real device),
//! `registers`, `dma` (memory that the device sees), `queue`, `command` and `prp` (what it reads there),
//! `admin`, `controller`, `features`, `prior_state` and `pairs` (setting it up), `engine` (doing I/O) and
//! `waiting` (poll, interrupt, hybrid).
//!
//! Sources: NVM Express Base Specification 2.0, NVM Command Set Specification 1.0, PCIe Transport
//! Specification 1.0.

mod admin;
mod command;
mod controller;
mod device;
mod dma;
mod engine;
mod features;
mod flights;
mod identify;
mod irq;
mod open;
mod pairs;
mod prior_state;
mod prp;
mod queue;
mod registers;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
#[cfg(test)]
mod tests;
mod vfio;
mod waiting;

pub(crate) use admin::PageData;
pub use controller::{Controller, Identity};
pub use engine::NvmeUser;
pub use features::{Apst, HostMemory};
pub use identify::{IoCounts, NamespaceFault, NamespaceInfo};
pub(crate) use identify::{io_counts, metadata_bytes};
pub use open::NvmeUserBuilder;
pub use prior_state::{FeatureState, FeatureValue, PriorState};
pub(crate) use vfio::no_iommu;
