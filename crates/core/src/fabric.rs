//! What a trial over fabrics shows beside the evidence of the host: the transport, the target host, and the
//! network interfaces on both sides.

use crate::counts::{CpuTimes, DeviceEvidence};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// How a drive is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// By the drive's own driver, on the machine that has the drive.
    #[default]
    Local,
    /// By its own driver, on the host: not the drive of the target host, but one like it.
    Here,
    /// As an NVMe over fabrics namespace on the machine that has the drive: no wire.
    Loop,
    /// NVMe over TCP.
    Tcp,
    /// NVMe over RDMA.
    Rdma,
}

impl Transport {
    /// Every transport.
    pub const ALL: [Transport; 5] =
        [Transport::Local, Transport::Here, Transport::Loop, Transport::Tcp, Transport::Rdma];

    /// The name in studies, and in the kernel (`trtype`) for those over fabrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Transport::Local => "local",
            Transport::Here => "here",
            Transport::Loop => "loop",
            Transport::Tcp => "tcp",
            Transport::Rdma => "rdma",
        }
    }

    /// True if a wire is between the two hosts.
    pub fn is_remote(self) -> bool {
        matches!(self, Transport::Tcp | Transport::Rdma)
    }

    /// True if the target host does the I/O itself.
    pub fn is_on_target(self) -> bool {
        matches!(self, Transport::Local | Transport::Loop)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that names no transport.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no transport `{0}`: there are local, here, loop, tcp and rdma")]
pub struct UnknownTransport(pub String);

impl FromStr for Transport {
    type Err = UnknownTransport;

    fn from_str(text: &str) -> Result<Transport, UnknownTransport> {
        let found = Transport::ALL.into_iter().find(|transport| transport.as_str() == text);
        found.ok_or_else(|| UnknownTransport(text.to_owned()))
    }
}

/// One of the two hosts of a study over fabrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostSide {
    /// The one that does the I/O.
    #[default]
    Host,
    /// The one that has the drive.
    Target,
}

impl HostSide {
    /// Both, the host first.
    pub const ALL: [HostSide; 2] = [HostSide::Host, HostSide::Target];

    /// The side's name.
    pub fn as_str(self) -> &'static str {
        match self {
            HostSide::Host => "host",
            HostSide::Target => "target",
        }
    }
}

/// The name of every meter of the target host begins with this; the study's own name for it follows.
pub const TARGET_METERS: &str = "target.";
/// The name under which a trial keeps the joules of both hosts together.
pub const BOTH_HOSTS: &str = "host+target";

/// The network between the two hosts by itself, measured before a block of trials.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkBaseline {
    /// The replicate of the block.
    pub block: u32,
    /// What carried it: `tcp` or `rdma`.
    pub transport: Transport,
    /// The program that measured, with its version: `iopj 0.1.0`, `iperf 3.12`, `perftest 23.04`.
    pub tool: String,
    /// The host to which the bytes of a stream went; of a latency the host that answered.
    pub server: HostSide,
    /// Bits per second of a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits_per_s: Option<f64>,
    /// Half of a round trip of a small message in ns, the median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<f64>,
    /// Why something is missing, with the remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// What is seen over a window besides the evidence of the host that does the I/O.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FabricEvidence {
    /// The transport that the host's kernel names for the controller; `local` or `here` for a drive of the
    /// machine that does the I/O.
    pub transport: Transport,
    /// How the host is connected, as its kernel shows it: `nr_io_queues`, `nr_poll_queues`, `queue_size`, ….
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub connection: BTreeMap<String, String>,
    /// Context switches of all cores of the host.
    pub context_switches: u64,
    /// How long the host was counted at rest before the window, in ns, where instructions are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest_ns: Option<u64>,
    /// The host's network interfaces that lead to the target host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nics: Vec<NicEvidence>,
    /// The target host; absent where no agent ran there, and where the target host did the I/O itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetHostEvidence>,
}

/// What the target host saw over the window of the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetHostEvidence {
    /// Length of its own window in ns: from its first reading to its last, which begins then; the host's
    /// window lies within.
    pub window_ns: u64,
    /// Its clock (`CLOCK_MONOTONIC_RAW`) less the host's, in ns, from exchanges over the control connection.
    pub clock_offset_ns: i64,
    /// How far that may be wrong, in ns: half of the quickest exchange.
    pub clock_uncertainty_ns: u64,
    /// How long it was counted at rest before the window, in ns, where instructions are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest_ns: Option<u64>,
    /// CPU time of all its cores by kind.
    pub cpu: CpuTimes,
    /// Context switches of all its cores.
    pub context_switches: u64,
    /// The drive that it exports.
    pub devices: Vec<DeviceEvidence>,
    /// Its network interfaces that lead to the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nics: Vec<NicEvidence>,
}

/// Counts of one network interface over a window, from `/sys/class/net/X/statistics` and `/proc/interrupts`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicEvidence {
    /// Kernel name, such as `enp1s0`.
    pub name: String,
    /// Its driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Its interrupts by vector; absent where they cannot be told apart, or where a vector or a core came or
    /// went in the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vectors: Option<Vec<VectorEvidence>>,
    /// Its settings at the window's end: `mtu`, `rx_usecs`, `gro_flush_timeout`, ….
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

impl NicEvidence {
    /// Interrupts of all its vectors.
    pub fn interrupts(&self) -> Option<u64> {
        Some(self.vectors.as_ref()?.iter().map(|vector| vector.interrupts).sum())
    }
}

/// Interrupts of one vector: one queue of a network interface, or a pair of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VectorEvidence {
    /// Interrupt number and name.
    pub name: String,
    /// Interrupts on all cores.
    pub interrupts: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_have_one_text_form() {
        for transport in Transport::ALL {
            assert_eq!(transport.to_string().parse(), Ok(transport));
            assert_eq!(serde_json::to_value(transport).unwrap(), transport.as_str());
        }
        let error = "fc".parse::<Transport>().unwrap_err().to_string();
        assert_eq!(error, "there is no transport `fc`: there are local, here, loop, tcp and rdma");
    }

    #[test]
    fn interrupts_are_unknown_where_vectors_are() {
        let of = |vectors| NicEvidence { vectors, ..NicEvidence::default() }.interrupts();
        let vector = |interrupts| VectorEvidence { name: "24 eth0-rx-0".to_owned(), interrupts };
        assert_eq!(of(None), None);
        assert_eq!(of(Some(vec![vector(3), vector(4)])), Some(7));
    }
}
