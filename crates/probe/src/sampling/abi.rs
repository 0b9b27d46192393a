//! The words of `perf_event_open(2)` (include/uapi/linux/perf_event.h), as far as they are used here.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

/// `PERF_TYPE_HARDWARE`, `PERF_TYPE_SOFTWARE`, `PERF_TYPE_RAW`.
pub(super) const TYPE_HARDWARE: u32 = 0;
pub(super) const TYPE_SOFTWARE: u32 = 1;
pub(super) const TYPE_RAW: u32 = 4;
/// `PERF_COUNT_HW_INSTRUCTIONS`, `PERF_COUNT_SW_CPU_CLOCK`.
pub(super) const HARDWARE_INSTRUCTIONS: u64 = 1;
pub(super) const SOFTWARE_CPU_CLOCK: u64 = 0;
/// Where `PERF_TYPE_HARDWARE` carries the type of the PMU, for processors with two kinds of cores.
pub(super) const HARDWARE_PMU_SHIFT: u32 = 32;

/// `PERF_SAMPLE_IDENTIFIER`, `PERF_SAMPLE_IP`, `PERF_SAMPLE_TID`: the fields of a sample, in this order.
const SAMPLE_FIELDS: u64 = 1 << 16 | 1 | 1 << 1;
/// `PERF_FORMAT_TOTAL_TIME_ENABLED`, `PERF_FORMAT_TOTAL_TIME_RUNNING`.
const READ_FIELDS: u64 = 1 | 1 << 1;
const FLAG_DISABLED: u64 = 1;
const FLAG_EXCLUDE_IDLE: u64 = 1 << 7;
const FLAG_EXCLUDE_GUEST: u64 = 1 << 20;
const FD_CLOEXEC: libc::c_ulong = 1 << 3;

/// `PERF_EVENT_IOC_ENABLE`, `_DISABLE`, `_SET_OUTPUT`, `_ID`.
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
const IOC_ID: libc::c_ulong = 0x8008_2407;

/// The first published form of `struct perf_event_attr`, which every kernel takes.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

/// An event that is counted on one core, whoever runs there. Closed when dropped.
#[derive(Debug)]
pub(super) struct Counter(File);

impl Counter {
    /// Opens it, not yet counting: a sample every `period` counts. What guests of this machine do is left out; so is the
    /// idle task by a software event. The kernel throttles a core that takes more samples from one tick to the next than
    /// belong to one, and an idle core has no ticks (kernel/events/core.c, `__perf_event_account_interrupt`).
    pub(super) fn open(kind: u32, config: u64, period: u64, cpu: u32) -> io::Result<Counter> {
        let exclude_idle = if kind == TYPE_SOFTWARE { FLAG_EXCLUDE_IDLE } else { 0 };
        let attributes = Attributes {
            kind,
            size: size_of::<Attributes>() as u32,
            config,
            sample_period: period,
            sample_type: SAMPLE_FIELDS,
            read_format: READ_FIELDS,
            flags: FLAG_DISABLED | FLAG_EXCLUDE_GUEST | exclude_idle,
            wakeup_events: 0,
            bp_type: 0,
            config1: 0,
        };
        let (anybody, no_group): (libc::pid_t, libc::c_int) = (-1, -1);
        // SAFETY: `attributes` is as long as its `size` says and outlives the call, which only reads it.
        let fd = unsafe {
            libc::syscall(libc::SYS_perf_event_open, &raw const attributes, anybody, cpu, no_group, FD_CLOEXEC)
        };
        match i32::try_from(fd) {
            // SAFETY: the kernel has just given us this descriptor and nobody else owns it.
            Ok(fd) if fd >= 0 => Ok(Counter(unsafe { File::from_raw_fd(fd) })),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The identity that its samples carry.
    pub(super) fn id(&self) -> io::Result<u64> {
        let mut id = 0u64;
        // SAFETY: the descriptor is open, and the kernel writes one u64 to `id`, which outlives the call.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), IOC_ID as _, &raw mut id) };
        if result == 0 { Ok(id) } else { Err(io::Error::last_os_error()) }
    }

    /// Puts its samples into the ring of another counter on the same core.
    pub(super) fn share_ring_of(&self, other: &Counter) -> io::Result<()> {
        self.control(IOC_SET_OUTPUT, other.0.as_raw_fd())
    }

    pub(super) fn enable(&self) -> io::Result<()> {
        self.control(IOC_ENABLE, 0)
    }

    pub(super) fn disable(&self) -> io::Result<()> {
        self.control(IOC_DISABLE, 0)
    }

    /// Time in ns for which it was enabled, and for which it did count: less where the PMU has too few counters.
    pub(super) fn times_ns(&self) -> io::Result<[u64; 2]> {
        let mut bytes = [0u8; 24];
        io::Read::read_exact(&mut &self.0, &mut bytes)?;
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        Ok([word(8), word(16)])
    }

    fn control(&self, request: libc::c_ulong, argument: libc::c_int) -> io::Result<()> {
        // SAFETY: the descriptor is open, and these requests take a number, no pointer.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), request as _, argument) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl AsRawFd for Counter {
    fn as_raw_fd(&self) -> libc::c_int {
        self.0.as_raw_fd()
    }
}
