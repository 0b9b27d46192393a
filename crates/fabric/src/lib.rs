//! Two hosts: the agent that runs on the target host, how it is started and spoken to, and the guardian that
//! puts a host's settings back after any death.
//!
//! The agent speaks [`frame`]s over its standard input and output, or over any other stream of bytes. Nothing
//! listens on any port, but for the moment of a test of the [`network`]. What is asked and answered is left
//! to the caller: [`Client::ask`] sends any value, and a [`Handler`] answers it.

mod agent;
mod bounded;
mod client;
mod error;
pub mod frame;
pub mod guardian;
mod line;
pub mod network;
mod patient;
mod push;
mod ssh;
mod start;

pub use agent::{Handler, Served, serve};
pub use bounded::{CutShort, Ended, ended, streamed};
pub use client::Client;
pub use error::FabricError;
pub use frame::Hello;
pub use push::{push, sha256};
pub use ssh::Control;
pub use start::{Destination, Start};

#[cfg(test)]
mod tests;
