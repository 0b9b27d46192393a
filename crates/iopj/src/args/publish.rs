//! The options that publish figures while they are measured.

use clap::{Args, ValueHint};
use std::path::PathBuf;

#[derive(Debug, Default, Args)]
pub(crate) struct PublishArgs {
    /// Serve the figures to Prometheus over HTTP, on this port of 127.0.0.1, or on this address and port
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Keep the figures in this file, for node_exporter's textfile collector; its name ends in .prom there
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) metrics: Option<PathBuf>,
}
