//! A watched program as text: one line an interval, a view that is redrawn in place, the sum in the end, and
//! metrics for Prometheus.

mod metrics;
pub(super) mod text;

pub use metrics::metrics;
pub use text::{line, live, summary};
