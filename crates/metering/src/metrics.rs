//! Metrics of a run or a watch, on their way to Prometheus: served over HTTP, or kept in a file. What the
//! text says is somebody else's.

mod accept;
mod error;
mod file;
mod own_name;
mod serve;

pub use error::MetricsError;
pub use file::MetricsFile;
pub(crate) use serve::THREAD_NAME;
pub use serve::{MetricsServer, Scrapes};

/// The same metrics in the two formats that scrapers ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsText {
    /// OpenMetrics 1.0.
    pub openmetrics: String,
    /// The text format 0.0.4.
    pub plain: String,
}
