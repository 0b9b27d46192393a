//! The subcommands of `iopj lab`.

use super::allow::AllowArgs;
use super::examples;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use iopj_lab::Arch;
use iopj_lab::session::Device;
use iopj_lab::vm::Nic;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// List the kernels on offer, or fetch some
    #[command(after_help = examples::LAB_KERNELS)]
    Kernels {
        /// Series or releases to fetch, such as 5.10
        series: Vec<String>,
        /// Processor that they are for
        #[arg(long, value_parser = arch(), default_value = Arch::HOST.as_str())]
        arch: Arch,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Boot a kernel, run studies on an emulated drive, and copy their stores out
    #[command(after_help = examples::LAB_RUN)]
    Run(LabRunArgs),
    /// Boot a kernel with an emulated drive and open a shell
    #[command(after_help = examples::LAB_SHELL)]
    Shell(GuestArgs),
    /// Stop and remove what dead runs left behind
    #[command(after_help = examples::LAB_CLEAN)]
    Clean {
        /// Remove the fetched kernels too
        #[arg(long)]
        kernels: bool,
    },
    /// Keep the kernel's counters switched on until it is stopped, and print a line once they are on; guests
    /// run it
    #[command(hide = true)]
    HoldCounters,
    /// Emulate RDMA on a network card; guests run it
    #[command(hide = true)]
    SoftRoce {
        /// The card's kernel name
        card: String,
    },
}

/// The drives of guests by name.
fn device() -> impl TypedValueParser<Value = Device> {
    let named = Device::ALL.map(|device| PossibleValue::new(device.as_str()).help(device.about()));
    PossibleValuesParser::new(named).try_map(|name| {
        Device::ALL.into_iter().find(|device| device.as_str() == name).ok_or("no such device")
    })
}

/// The processors of guests by name.
fn arch() -> impl TypedValueParser<Value = Arch> {
    PossibleValuesParser::new(Arch::ALL.map(Arch::as_str)).try_map(|name| name.parse::<Arch>())
}

/// The network cards of guests by name.
fn nic() -> impl TypedValueParser<Value = Nic> {
    let named = Nic::ALL.map(|nic| PossibleValue::new(nic.as_str()));
    PossibleValuesParser::new(named)
        .try_map(|name| Nic::ALL.into_iter().find(|nic| nic.as_str() == name).ok_or("no such card"))
}

#[derive(Debug, Args)]
pub(crate) struct GuestArgs {
    /// Series (5.10), release (5.10.0-46-amd64), `host`, or an image together with --modules
    #[arg(long)]
    pub(crate) kernel: String,
    /// Folder of the image's modules
    #[arg(long, value_name = "DIR")]
    pub(crate) modules: Option<PathBuf>,
    /// Drive
    #[arg(long, value_parser = device(), default_value = "nvme")]
    pub(crate) device: Device,
    /// Processor of the guest; another than this machine's is emulated, and needs an iopj for it
    #[arg(long, value_parser = arch(), default_value = Arch::HOST.as_str())]
    pub(crate) arch: Arch,
    /// Virtual processors
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=8))]
    pub(crate) vcpus: u32,
}

#[derive(Debug, Args)]
pub(crate) struct LabRunArgs {
    /// Study files, run one after another in one boot
    #[arg(required = true, value_name = "STUDY")]
    pub(crate) studies: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) guest: GuestArgs,
    /// Run a study over fabrics in two guests on one wire: the host, and the target host with the drive
    #[arg(long)]
    pub(crate) pair: bool,
    /// Processor of the target host; by default that of the host
    #[arg(long, value_parser = arch(), requires = "pair")]
    pub(crate) target_arch: Option<Arch>,
    /// Virtual processors of the target host; by default as many as the host has
    #[arg(long, value_name = "N", requires = "pair", value_parser = clap::value_parser!(u32).range(1..=8))]
    pub(crate) target_vcpus: Option<u32>,
    /// Network card of both guests
    #[arg(long, value_parser = nic(), default_value = "virtio", requires = "pair")]
    pub(crate) nic: Nic,
    /// Count every instruction, load and store, for `iopj explain`; one study only
    #[arg(long)]
    pub(crate) exact: bool,
    /// Kernel with debug information, from which the source directory of each function is known
    #[arg(long, value_name = "FILE", requires = "exact")]
    pub(crate) vmlinux: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) allow: AllowArgs,
    /// Store to write, for a single study; by default the study's name in the current folder
    #[arg(long)]
    pub(crate) store: Option<PathBuf>,
    /// Stop the guest after this time, whatever it is running; then there is no store
    #[arg(long, value_name = "TIME", default_value = "15m")]
    pub(crate) time_limit: String,
}
