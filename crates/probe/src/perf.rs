//! `perf_event_open(2)`: the kernel's numbers (include/uapi/linux/perf_event.h) as far as they are used here,
//! counters, and the meaning of its refusals.

use crate::root::Root;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

/// `PERF_TYPE_HARDWARE`, `PERF_TYPE_SOFTWARE`, `PERF_TYPE_TRACEPOINT`, `PERF_TYPE_RAW`.
pub(crate) const TYPE_HARDWARE: u32 = 0;
pub(crate) const TYPE_SOFTWARE: u32 = 1;
pub(crate) const TYPE_TRACEPOINT: u32 = 2;
pub(crate) const TYPE_RAW: u32 = 4;
/// `PERF_COUNT_HW_INSTRUCTIONS`, `PERF_COUNT_SW_CPU_CLOCK`.
pub(crate) const HARDWARE_INSTRUCTIONS: u64 = 1;
pub(crate) const SOFTWARE_CPU_CLOCK: u64 = 0;
/// `PERF_COUNT_SW_TASK_CLOCK` (ns), `PERF_COUNT_SW_CONTEXT_SWITCHES`.
pub(crate) const SOFTWARE_TASK_CLOCK: u64 = 1;
pub(crate) const SOFTWARE_SWITCHES: u64 = 3;
/// Where the config of `PERF_TYPE_HARDWARE` holds the PMU's type, for processors with two kinds of cores.
pub(crate) const HARDWARE_PMU_SHIFT: u32 = 32;

/// `PERF_SAMPLE_IDENTIFIER`, `PERF_SAMPLE_IP`, `PERF_SAMPLE_TID`: the fields of a sample, in this order.
const SAMPLE_FIELDS: u64 = 1 << 16 | 1 | 1 << 1;
/// `PERF_FORMAT_TOTAL_TIME_ENABLED`, `PERF_FORMAT_TOTAL_TIME_RUNNING`.
const READ_FIELDS: u64 = 1 | 1 << 1;
/// `PERF_FORMAT_GROUP`.
const READ_GROUP: u64 = 1 << 3;
const FLAG_DISABLED: u64 = 1;
const FLAG_INHERIT: u64 = 1 << 1;
const FLAG_EXCLUDE_IDLE: u64 = 1 << 7;
const FLAG_ENABLE_ON_EXEC: u64 = 1 << 12;
const FLAG_EXCLUDE_GUEST: u64 = 1 << 20;
const FD_CLOEXEC: libc::c_ulong = 1 << 3;
/// `PERF_FLAG_PID_CGROUP`.
const PID_CGROUP: libc::c_ulong = 1 << 2;
/// `PERF_SAMPLE_TID`, `PERF_SAMPLE_TIME`, `PERF_SAMPLE_RAW`: the fields of a tracepoint's sample, in the
/// kernel's order.
const RECORD_FIELDS: u64 = 1 << 1 | 1 << 2 | 1 << 10;

/// `PERF_EVENT_IOC_ENABLE`, `_DISABLE`, `_SET_OUTPUT`, `_SET_FILTER`, `_ID`.
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
const IOC_SET_FILTER: libc::c_ulong = 0x4008_2406;
/// `PERF_IOC_FLAG_GROUP`.
const WHOLE_GROUP: libc::c_int = 1;
const IOC_ID: libc::c_ulong = 0x8008_2407;

/// The first published form of `struct perf_event_attr`, which every kernel accepts.
#[derive(Default)]
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

/// Whose events are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Everything that runs on this core.
    Core(u32),
    /// This thread, wherever it runs.
    Thread(i32),
    /// Every thread of the processes that the calling thread starts from now on, from their `execve` on.
    Children,
    /// This thread, and every thread and process that it starts from now on.
    Lineage(i32),
    /// The same from the thread's next `execve` on.
    LineageFromExec(i32),
    /// What the processes of a control group, by a descriptor of its folder, do on this core.
    Cgroup(libc::c_int, u32),
}

/// An event that is counted. Closed when dropped.
#[derive(Debug)]
pub(crate) struct Counter(File);

impl Counter {
    /// Opens an event of one core, whatever runs there, not yet counting: a sample every `period` counts.
    /// Guests of this machine are left out; a software event leaves out the idle task too. The kernel
    /// throttles a core that takes too many samples between two ticks, and an idle core has no ticks
    /// (kernel/events/core.c, `__perf_event_account_interrupt`).
    pub(crate) fn sampled(kind: u32, config: u64, period: u64, cpu: u32) -> io::Result<Counter> {
        let exclude_idle = if kind == TYPE_SOFTWARE { FLAG_EXCLUDE_IDLE } else { 0 };
        let attributes = Attributes {
            kind,
            config,
            sample_period: period,
            sample_type: SAMPLE_FIELDS,
            read_format: READ_FIELDS,
            flags: FLAG_DISABLED | FLAG_EXCLUDE_GUEST | exclude_idle,
            ..Attributes::default()
        };
        Counter::open(attributes, Whose::Core(cpu))
    }

    /// Opens a tracepoint by its number in tracefs, not yet counting, for the records that pass `filter`
    /// (Documentation/trace/events.rst, "Event filtering"). Nothing is sampled: a hit costs an addition.
    pub(crate) fn tracepoint(id: u64, filter: &CStr, whose: Whose) -> io::Result<Counter> {
        let counter = Counter::unfiltered(id, whose)?;
        counter.set_filter(filter).map(|()| counter)
    }

    /// The same for all records.
    pub(crate) fn unfiltered(id: u64, whose: Whose) -> io::Result<Counter> {
        let flags = FLAG_DISABLED | inherited(whose);
        Counter::open(Attributes { kind: TYPE_TRACEPOINT, config: id, flags, ..Attributes::default() }, whose)
    }

    /// Opens the first event of a group, which is counted, read and stopped as a whole: a context switch
    /// passes over all of it at once while it is stopped. Not yet counting.
    pub(crate) fn leading(kind: u32, config: u64, whose: Whose) -> io::Result<Counter> {
        let flags = FLAG_DISABLED | inherited(whose);
        let attributes = Attributes { kind, config, flags, read_format: READ_GROUP, ..Attributes::default() };
        Counter::open(attributes, whose)
    }

    /// Adds an event to the group of `leader`, which is of the same threads.
    pub(crate) fn following(kind: u32, config: u64, whose: Whose, leader: &Counter) -> io::Result<Counter> {
        let flags = inherited(whose) & FLAG_INHERIT;
        let attributes = Attributes { kind, config, flags, read_format: READ_GROUP, ..Attributes::default() };
        Counter::open_in(attributes, whose, leader.as_raw_fd())
    }

    /// Begins to count a whole group, or stops.
    pub(crate) fn enable_group(&self, on: bool) -> io::Result<()> {
        self.control(if on { IOC_ENABLE } else { IOC_DISABLE }, WHOLE_GROUP)
    }

    /// The counts of a group of this many events, those of children that have ended included.
    pub(crate) fn group_counts(&self, events: usize) -> io::Result<Vec<u64>> {
        let mut bytes = vec![0u8; 8 * (1 + events)];
        io::Read::read_exact(&mut &self.0, &mut bytes)?;
        let words = bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word));
        Ok(words.skip(1).collect())
    }

    /// Opens a tracepoint of one core whose every record is sampled whole, not yet counting.
    pub(crate) fn recorded(id: u64, filter: &CStr, cpu: u32) -> io::Result<Counter> {
        let attributes = Attributes {
            kind: TYPE_TRACEPOINT,
            config: id,
            sample_period: 1,
            sample_type: RECORD_FIELDS,
            flags: FLAG_DISABLED,
            ..Attributes::default()
        };
        let counter = Counter::open(attributes, Whose::Core(cpu))?;
        counter.set_filter(filter).map(|()| counter)
    }

    /// Counts only the records that pass from now on; a tracepoint with a filter takes no other.
    pub(crate) fn set_filter(&self, filter: &CStr) -> io::Result<()> {
        // SAFETY: the descriptor is open, and the kernel reads the C string, which outlives the call.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), IOC_SET_FILTER as _, filter.as_ptr()) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn open(attributes: Attributes, whose: Whose) -> io::Result<Counter> {
        let no_group: libc::c_int = -1;
        Counter::open_in(attributes, whose, no_group)
    }

    fn open_in(attributes: Attributes, whose: Whose, group: libc::c_int) -> io::Result<Counter> {
        let attributes = Attributes { size: size_of::<Attributes>() as u32, ..attributes };
        let (pid, cpu, cgroup): (libc::pid_t, libc::c_int, libc::c_ulong) = match whose {
            Whose::Core(cpu) => (-1, cpu.cast_signed(), 0),
            Whose::Thread(tid) | Whose::Lineage(tid) | Whose::LineageFromExec(tid) => (tid, -1, 0),
            Whose::Children => (0, -1, 0),
            Whose::Cgroup(fd, cpu) => (fd, cpu.cast_signed(), PID_CGROUP),
        };
        let flags = FD_CLOEXEC | cgroup;
        // SAFETY: `attributes` is as long as its `size` says and outlives the call, which only reads it.
        let fd = unsafe {
            libc::syscall(libc::SYS_perf_event_open, &raw const attributes, pid, cpu, group, flags)
        };
        match i32::try_from(fd) {
            // SAFETY: the kernel has just given us this descriptor and nobody else owns it.
            Ok(fd) if fd >= 0 => Ok(Counter(unsafe { File::from_raw_fd(fd) })),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// A tracepoint's count, including children that have ended.
    pub(crate) fn count(&self) -> io::Result<u64> {
        let mut bytes = [0u8; 8];
        io::Read::read_exact(&mut &self.0, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// The identity that its samples carry.
    pub(crate) fn id(&self) -> io::Result<u64> {
        let mut id = 0u64;
        // SAFETY: the descriptor is open, and the kernel writes one u64 to `id`, which outlives the call.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), IOC_ID as _, &raw mut id) };
        if result == 0 { Ok(id) } else { Err(io::Error::last_os_error()) }
    }

    /// Puts its samples into the ring of another counter on the same core.
    pub(crate) fn share_ring_of(&self, other: &Counter) -> io::Result<()> {
        self.control(IOC_SET_OUTPUT, other.0.as_raw_fd())
    }

    pub(crate) fn enable(&self) -> io::Result<()> {
        self.control(IOC_ENABLE, 0)
    }

    pub(crate) fn disable(&self) -> io::Result<()> {
        self.control(IOC_DISABLE, 0)
    }

    /// Time in ns for which it was enabled, and for which it counted: less if the PMU has too few counters.
    pub(crate) fn times_ns(&self) -> io::Result<[u64; 2]> {
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

/// The flags by which threads and processes are counted that the watched ones start.
fn inherited(whose: Whose) -> u64 {
    match whose {
        Whose::Children | Whose::LineageFromExec(_) => FLAG_INHERIT | FLAG_ENABLE_ON_EXEC,
        Whose::Lineage(_) => FLAG_INHERIT,
        Whose::Core(_) | Whose::Thread(_) | Whose::Cgroup(..) => 0,
    }
}

/// Why the kernel counts no events for this user, each reason with its remedy.
#[derive(Debug, thiserror::Error)]
pub enum EventsError {
    /// `EACCES`: this user may not see what the whole machine does. The setting as the kernel shows it.
    #[error(
        "this user may not watch every core (kernel.perf_event_paranoid is {0}): run as root, grant \
         CAP_PERFMON, or `sysctl kernel.perf_event_paranoid=-1`"
    )]
    NotAllowed(String),
    /// `EPERM`: a container or the kernel's lockdown forbids the system call to everybody.
    #[error(
        "the system call perf_event_open is forbidden here: allow it in the container's seccomp profile \
         together with CAP_PERFMON, or run outside the container (kernel lockdown `confidentiality` \
         forbids it too)"
    )]
    Forbidden,
    /// `ENOSYS`: the kernel was built without it.
    #[error(
        "this kernel has no perf events: boot one with CONFIG_PERF_EVENTS, or allow perf_event_open in the \
         container's seccomp profile"
    )]
    Missing,
    /// `EMFILE`: each core takes one descriptor per event; this many are needed in all.
    #[error("this takes {0} descriptors, more than this process may have: raise the limit by `ulimit -n`")]
    Descriptors(usize),
    /// Any other refusal of the kernel.
    #[error(
        "the kernel refused to count events ({0}): do without them, and please report the kernel's version"
    )]
    Os(io::Error),
}

impl EventsError {
    /// The meaning of a refusal if this many descriptors are needed in all.
    pub(crate) fn of(source: io::Error, root: &Root, needed: usize) -> EventsError {
        match source.raw_os_error() {
            Some(libc::EACCES) => {
                let paranoid = root.text("proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
                EventsError::NotAllowed(paranoid.trim().to_owned())
            }
            Some(libc::EPERM) => EventsError::Forbidden,
            Some(libc::ENOSYS) => EventsError::Missing,
            Some(libc::EMFILE | libc::ENFILE) => EventsError::Descriptors(needed),
            _ => EventsError::Os(source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_its_remedy() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("proc/sys/kernel")).unwrap();
        std::fs::write(tree.path().join("proc/sys/kernel/perf_event_paranoid"), "2\n").unwrap();
        let root = Root::new(tree.path()).unwrap();
        for (code, words) in [
            (libc::EACCES, "is 2): run as root"),
            (libc::EACCES, "sysctl kernel.perf_event_paranoid=-1"),
            (libc::EPERM, "seccomp"),
            (libc::ENOSYS, "CONFIG_PERF_EVENTS"),
            (libc::EMFILE, "2048 descriptors"),
            (libc::EMFILE, "ulimit -n"),
            (libc::ENODEV, "kernel's version"),
        ] {
            let message = EventsError::of(io::Error::from_raw_os_error(code), &root, 2048).to_string();
            assert!(message.contains(words), "{code}: {message}");
        }
    }
}
