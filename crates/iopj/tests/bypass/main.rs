//! Kernel bypass in real guests: emulated NVMe drives behind an emulated IOMMU, taken from their driver and
//! given back.

mod chosen;
#[path = "../common/mod.rs"]
mod common;
mod content;
mod failures;
mod guest;
mod host;
mod refusals;
mod runs;
mod soak;
