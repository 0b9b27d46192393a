//! What a run makes for NVMe over fabrics, and takes away again: entries of the kernel's target (nvmet) and
//! connections of its host. Each is journalled before it is made, and made of checked parts alone.

mod connection;
mod export;

pub use connection::{Connect, Connected};
pub use export::{Export, Exported};
