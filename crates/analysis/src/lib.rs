//! Pure functions over records: cells and tables, statistics, winner maps, comparisons, advice, explained
//! costs.

pub mod admission;
pub mod advise;
pub mod answer;
pub mod asked;
pub mod axis;
pub mod choice;
pub mod compare;
pub mod contrast;
pub mod cost;
pub mod efficiency;
pub mod energy;
pub mod exact;
pub mod explain;
pub mod figure;
pub mod grouping;
pub mod hosts;
pub mod kinds;
pub mod least;
pub mod metric;
pub mod network;
pub mod noise;
pub mod open_load;
pub mod path_order;
pub mod power;
pub mod published_costs;
pub mod routes;
pub mod run_so_far;
pub mod score;
pub mod sequential;
pub mod stats;
pub mod steady;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod two_hosts;
pub mod watch;
pub mod watch_timeline;
pub mod winner;
pub mod without_unsteady;
pub mod workload_table;

pub use admission::Admission;
pub use workload_table::{
    CellMeans, CellRow, CorunnerMeans, FigureMeans, Times, WorkloadTable, workload_tables,
};
