//! Analysis and its texts together: constructed records, through metrics, tables, maps and comparisons, to
//! what a reader sees.

mod corunner;
mod efficiency;
mod energy;
mod figure;
mod gate;
mod layouts;
mod score;
mod split;
