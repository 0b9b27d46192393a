//! Settings of the host: what may be changed, the locks, the journal under `/run/iopj`, changing and putting
//! back; and the driver of a PCI device, which a run takes from it and gives back.
//!
//! A setting belongs to the host and the boot. Each change is journalled and synced before it is made, so
//! that the next start, or `iopj restore`, puts it back after any death. Which settings a trial needs, and
//! when a signal ends a run, is left to the runner.

mod allowed;
mod attribute;
mod binding;
mod change;
mod controller;
mod controller_setting;
mod dma_latency;
mod drive_setting;
mod error;
mod ethtool;
mod fabric;
mod fabric_item;
mod fabric_removal;
mod files;
mod host;
mod item;
mod journal;
mod latency_setting;
mod lock;
mod made_file;
mod nvme_name;
mod restore;
mod taken;
mod taking;

pub use change::Settings;
pub(crate) use controller_setting::coalescing;
pub(crate) use dma_latency::current as current_dma_latency;
pub use error::{NotRestored, SettingsError, in_use};
pub use fabric::{Connect, Connected, Export, Exported};
pub use host::Host;
pub(crate) use journal::serial;
pub use journal::{Change, undone_by};
pub use lock::DeviceLocks;
pub use nvme_name::{NQN_OF_UUID, Uuid, is_nqn};
pub use restore::{LeftAlone, RestoreReport, Restored};

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
