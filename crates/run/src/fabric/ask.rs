//! What a run asks the agent on the target host, and what it gets.

use iopj_core::Setting;
use iopj_engine::target::FileId;
use iopj_fabric::network::Token;
use iopj_host::settings::{Export, Restored};
use iopj_metering::energy::OpenMeters;
use iopj_record::Measurement;
use iopj_study::SteadyStateKeys;
use iopj_study::plan::Cell;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

/// A question.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    /// The time now: `CLOCK_MONOTONIC_RAW` in ns.
    Clock,
    /// Open and lock the drive: [`Opened`].
    Open(OpenDrive),
    /// Change a setting: the changes that it took, [`iopj_host::settings::Change`].
    Set {
        /// The setting.
        setting: Setting,
        /// Its value.
        value: String,
    },
    /// Export the drive: [`iopj_host::settings::Exported`].
    Export(Export),
    /// Take the export away; nothing is answered.
    Unexport(Export),
    /// The window of the trial at this position in the study's order begins: how long the target host was
    /// counted at rest before, in ns, if it was.
    Begin {
        /// The position.
        position: u64,
    },
    /// The window has ended: [`iopj_core::fabric::TargetHostEvidence`] without the clock.
    End,
    /// Measure a trial there: [`Done`].
    Measure(Box<Measure>),
    /// Open meters: [`iopj_metering::energy::OpenedMeters`].
    OpenMeters(OpenMeters),
    /// What they have read since: [`iopj_metering::energy::FarReadings`].
    Readings,
    /// End them: a [`iopj_metering::energy::Cost`] of each.
    StopMeters,
    /// The network by itself: as the question says.
    Network(AskNetwork),
    /// Put everything back: [`PutBackThere`].
    PutBack,
}

/// What the target host put back, and what it could not.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct PutBackThere {
    pub(crate) restored: Vec<Restored>,
    pub(crate) warnings: Vec<String>,
}

/// A question about the network.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AskNetwork {
    /// Whether a program is there.
    Has(Program),
    /// Listen on this address for one connection: the port.
    Listen {
        /// The study's address, which is one of the target host.
        address: IpAddr,
        /// Who may connect.
        peer: IpAddr,
        /// How it shows who it is.
        token: Token,
    },
    /// What the connection brought: bits per second of a stream to the target host.
    Counted,
    /// Serve one test by a program: the port.
    Serve {
        /// The program.
        program: Program,
        /// As in `Listen`.
        address: IpAddr,
        /// The bytes go to its client.
        is_reversed: bool,
    },
    /// End that program.
    Ended,
}

/// A program that measures a network between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Program {
    Iperf3,
    IbSendLat,
    IbSendBw,
}

/// The drive on the target host, and what may be done to it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OpenDrive {
    /// Its full path; of a file that is made, the folder in which it is made.
    pub(crate) device: PathBuf,
    /// The bytes of data of the file that is made; `None` for a drive.
    #[serde(default)]
    pub(crate) made_bytes: Option<u64>,
    /// The study writes, and names the drive for it unless a file is made.
    pub(crate) writes: bool,
    /// Overwrite it even if it carries a known signature.
    pub(crate) i_know: bool,
    /// This host's address on the network between the two, if it is known.
    #[serde(default)]
    pub(crate) towards: Option<IpAddr>,
}

/// A drive that is open and locked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Opened {
    /// Facts about the machine and the drive.
    pub(crate) provenance: BTreeMap<String, String>,
    /// What to know about the drive.
    pub(crate) warnings: Vec<String>,
    /// The kernel's target can authenticate hosts.
    pub(crate) authenticates: bool,
    /// Bytes that may be touched.
    pub(crate) bytes: u64,
    /// The file that was made, by its full path, and the identity in its header.
    #[serde(default)]
    pub(crate) made: Option<(PathBuf, FileId)>,
}

/// A trial for the target host's own iopj.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Measure {
    /// The cell.
    pub(crate) cell: Cell,
    /// The seed of the study.
    pub(crate) seed: u64,
    /// Its place in the study's order.
    pub(crate) position: u64,
    /// Its replicate.
    pub(crate) replicate: u32,
    /// The study's rule for the end of a ramp.
    pub(crate) steadystate: SteadyStateKeys,
}

/// A trial that the target host's own iopj measured.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Done {
    /// What was measured, without histograms.
    pub(crate) measurement: Measurement,
    /// The histograms of all I/Os, of reads and of writes, in HdrHistogram's V2 encoding.
    pub(crate) histograms: [Vec<u8>; 3],
    /// When the load went on and off, on the target host's `CLOCK_MONOTONIC_RAW`.
    pub(crate) load_raw_ns: Vec<u64>,
}
