//! A run over fabrics: the agent's questions and answers, its side on the target host, and this side.

mod ask;
mod checks;
mod clock;
mod counts;
mod lost;
mod meters;
mod network;
mod secret;
mod session;
mod side;
mod window;

pub(crate) use ask::Measure;
pub(crate) use ask::OpenDrive;
pub(crate) use checks::{check_options, target_name};
pub(crate) use counts::context_switches;
pub use session::serve_agent;
pub(crate) use side::{FabricSide, Far};
