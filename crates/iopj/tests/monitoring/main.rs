//! What other programs see of a run and of a watch: events on standard error, metrics, dashboards.

#[path = "../common/mod.rs"]
mod common;
mod dashboards;
mod events;
mod metrics;
mod servers;
