//! The network between two hosts by itself: its baselines over the blocks of a study.

use super::grouping::{grouped, unique};
use super::stats::{Summary, summarize};
use iopj_core::Transport;
use iopj_core::fabric::{HostSide, NetworkBaseline};

/// One way to measure the network, over all blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkRow<'a> {
    /// What carried it.
    pub transport: Transport,
    /// The host that served, to which the bytes went.
    pub server: HostSide,
    /// The program that measured.
    pub tool: &'a str,
    /// Blocks before which it measured, with those where it failed.
    pub blocks: usize,
    /// Gb/s of a stream.
    pub gbits_per_s: Option<Summary>,
    /// Half of a round trip of a small message in us.
    pub latency_us: Option<Summary>,
    /// Why something is missing, each reason once.
    pub failures: Vec<&'a str>,
}

/// A row for each transport, server and program, in the order in which they first measured.
pub fn network_rows(networks: &[NetworkBaseline]) -> Vec<NetworkRow<'_>> {
    let keyed = networks.iter().map(|one| ((one.transport, one.server, one.tool.as_str()), one));
    let rows = grouped(keyed).into_iter();
    rows.map(|((transport, server, tool), all)| {
        let summary = |of: fn(&NetworkBaseline) -> Option<f64>| {
            summarize(&all.iter().filter_map(|one| of(one)).collect::<Vec<f64>>())
        };
        NetworkRow {
            transport,
            server,
            tool,
            blocks: all.len(),
            gbits_per_s: summary(|one| one.bits_per_s.map(|bits| bits / 1e9)),
            latency_us: summary(|one| one.latency_ns.map(|ns| ns / 1e3)),
            failures: unique(all.iter().filter_map(|one| one.failure.as_deref())),
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_one_direction_are_one_row() {
        let of = |server, block, gbits: Option<f64>, failure: Option<&str>| NetworkBaseline {
            block,
            transport: Transport::Tcp,
            tool: "iperf 3.12".to_owned(),
            server,
            bits_per_s: gbits.map(|gbits| gbits * 1e9),
            latency_ns: gbits.map(|_| 3260.0),
            failure: failure.map(str::to_owned),
        };
        let why = "no answer";
        let networks = [
            of(HostSide::Target, 0, Some(45.0), None),
            of(HostSide::Host, 0, None, Some(why)),
            of(HostSide::Target, 1, Some(46.0), None),
            of(HostSide::Host, 1, None, Some(why)),
        ];
        let rows = network_rows(&networks);
        let [to_target, to_host] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((to_target.server, to_target.blocks), (HostSide::Target, 2));
        assert_eq!(to_target.gbits_per_s.map(|one| (one.n, one.mean)), Some((2, 45.5)));
        assert_eq!(to_target.latency_us.map(|one| one.mean), Some(3.26));
        assert_eq!((to_host.gbits_per_s, to_host.latency_us), (None, None));
        assert_eq!((to_host.blocks, &to_host.failures[..]), (2, &[why][..]));
    }
}
