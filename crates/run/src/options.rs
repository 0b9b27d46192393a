//! What the command line says besides the study.

use iopj_core::Allow;
use iopj_engine::PciAddress;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The options of a run that are not part of the study.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The target; without one a file is made.
    pub target: Option<PathBuf>,
    /// The devices that may be overwritten: the target, or over fabrics `HOST:DEVICE` and the drive of this
    /// host.
    pub destroy_data: Vec<PathBuf>,
    /// Overwrite a device even if it carries a known signature.
    pub i_know: bool,
    /// What the study may do.
    pub allow: Allow,
    /// The controller that is taken from its driver for the paths of kernel bypass.
    pub take_device: Option<PciAddress>,
    /// Take it even if no IOMMU keeps it out of foreign memory.
    pub i_know_no_iommu: bool,
    /// The store; without one the study's name in the current folder.
    pub store: Option<PathBuf>,
    /// The file that the caller keeps metrics in.
    pub metrics: Option<PathBuf>,
    /// The replicates of a resumed run whose blocks are measured again.
    pub again: Vec<u32>,
    /// Copy this iopj to the target host, and let that copy be the agent.
    pub push: bool,
    /// Follow policies of another machine, kernel or drive too; the store says so.
    pub anyway: bool,
    /// How long to wait for another run on the same drive; without it, that run is an error.
    pub wait: Option<Duration>,
    /// The drives that were found to be allowed, by the kernel's names, with their serial numbers: what is
    /// below the target once it is locked must be these. Without it, any may be there.
    pub drives: Option<BTreeMap<String, Option<String>>>,
}
