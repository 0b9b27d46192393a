//! All that reads or changes the state of the host: its settings with their journal and restore, drives that
//! are taken from their driver, the power state, the machine.

pub mod drive_facts;
mod kernel_log;
pub mod machine;
mod nvme_features;
pub mod power;
pub mod settings;
mod sysfs;
