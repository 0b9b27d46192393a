//! A run over fabrics: the questions to the agent and its answers, and this side.

pub(crate) mod ask;
mod checks;
mod clock;
pub(crate) mod counts;
mod lost;
pub(crate) mod meters;
pub(crate) mod network;
mod secret;
mod side;
mod window;

pub(crate) use ask::Measure;
pub(crate) use ask::OpenDrive;
pub(crate) use checks::{check_options, target_name};
pub(crate) use counts::context_switches;
pub(crate) use side::{FabricSide, Far};
