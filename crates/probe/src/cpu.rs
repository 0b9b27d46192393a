//! The cores that are online, and CPU time: of all cores by kind (`/proc/stat`, proc_stat(5)), of this
//! process (getrusage(2)) and of a child (wait4(2)).

use crate::error::ProbeError;
use crate::root::Root;
use iopj_core::evidence::{CpuTimes, ProcessEvidence};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Length of a clock tick in ns (`AT_CLKTCK`, getauxval(3)).
pub(crate) fn tick_ns() -> u64 {
    // 100 is what every Linux has shown to user space since 2.4.
    1_000_000_000_u64.checked_div(rustix::param::clock_ticks_per_second()).unwrap_or(10_000_000)
}

/// The cores that are online.
pub(crate) fn online(root: &Root) -> Result<Vec<u32>, ProbeError> {
    let file = "sys/devices/system/cpu/online";
    list(&root.text(file)?)
        .ok_or_else(|| ProbeError::Form { path: root.path(file), what: "list of processors" })
}

/// The numbers of a list such as `0-3,8`; `None` for another form, an empty list, and beyond 65,536.
pub(crate) fn list(text: &str) -> Option<Vec<u32>> {
    const MOST: u32 = 1 << 16;
    let mut numbers = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last >= MOST || first > last {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

/// CPU time since the machine started.
pub(crate) fn read(root: &Root, tick_ns: u64) -> Result<CpuTimes, ProbeError> {
    let file = "proc/stat";
    let what = "`cpu` line with eight counters";
    parse(&root.text(file)?, tick_ns).ok_or_else(|| ProbeError::Form { path: root.path(file), what })
}

fn parse(text: &str, tick_ns: u64) -> Option<CpuTimes> {
    let total = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let mut kinds = [0; 8];
    let mut words = total.split_whitespace();
    for kind in &mut kinds {
        *kind = words.next()?.parse::<u64>().ok()?.saturating_mul(tick_ns);
    }
    let [user, nice, system_ns, idle_ns, iowait_ns, irq_ns, softirq_ns, steal_ns] = kinds;
    let is_core = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let cores = u32::try_from(text.lines().filter(is_core).count()).ok()?;
    let user_ns = user.saturating_add(nice);
    Some(CpuTimes { user_ns, system_ns, idle_ns, iowait_ns, irq_ns, softirq_ns, steal_ns, cores })
}

/// CPU time from `earlier` to `later`. Idle and iowait may go back a little, which counts as none.
pub(crate) fn between(earlier: &CpuTimes, later: &CpuTimes) -> CpuTimes {
    CpuTimes {
        user_ns: later.user_ns.saturating_sub(earlier.user_ns),
        system_ns: later.system_ns.saturating_sub(earlier.system_ns),
        idle_ns: later.idle_ns.saturating_sub(earlier.idle_ns),
        iowait_ns: later.iowait_ns.saturating_sub(earlier.iowait_ns),
        irq_ns: later.irq_ns.saturating_sub(earlier.irq_ns),
        softirq_ns: later.softirq_ns.saturating_sub(earlier.softirq_ns),
        steal_ns: later.steal_ns.saturating_sub(earlier.steal_ns),
        cores: later.cores,
    }
}

/// Totals of this process.
pub(crate) fn usage() -> Result<ProcessEvidence, ProbeError> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a `rusage` that lives through the call, which writes nothing else.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } != 0 {
        return Err(ProbeError::Usage(io::Error::last_os_error()));
    }
    // SAFETY: `rusage` holds integers only, so zeroes are valid even where the kernel wrote nothing.
    Ok(totals(&unsafe { usage.assume_init() }))
}

/// How a child of this process ended, and its totals with those of its own children that it waited for.
#[derive(Debug)]
pub struct Reaped {
    /// How it ended.
    pub status: ExitStatus,
    /// CPU time and context switches.
    pub totals: ProcessEvidence,
    /// Bytes that it made the block layer read, and those that it wrote or made dirty: `read_bytes` and
    /// `write_bytes` of `/proc/PID/io` in whole sectors (getrusage(2), `ru_inblock` and `ru_oublock`).
    pub disk_bytes: [u64; 2],
}

/// Waits for a child of this process if it has ended; `None` while it runs. The totals exclude other children
/// of this process, such as a meter's programs. Afterwards an ended child is gone, and its number may be
/// reused.
///
/// # Errors
/// `ECHILD` for a process that is not a child, or was already waited for.
pub fn reap(child: u32) -> io::Result<Option<Reaped>> {
    let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::zeroed());
    // SAFETY: both pointers are to values that live through the call, which writes nothing else.
    match unsafe { libc::wait4(child.cast_signed(), &raw mut status, libc::WNOHANG, usage.as_mut_ptr()) } {
        0 => Ok(None),
        pid if pid == child.cast_signed() => {
            // SAFETY: as in `usage`.
            let usage = unsafe { usage.assume_init() };
            let blocks = [usage.ru_inblock, usage.ru_oublock];
            let disk_bytes = blocks.map(|blocks| u64::try_from(blocks).unwrap_or(0).saturating_mul(512));
            Ok(Some(Reaped { status: ExitStatus::from_raw(status), totals: totals(&usage), disk_bytes }))
        }
        _ => Err(io::Error::last_os_error()),
    }
}

fn totals(usage: &libc::rusage) -> ProcessEvidence {
    ProcessEvidence {
        user_ns: time_ns(usage.ru_utime),
        system_ns: time_ns(usage.ru_stime),
        voluntary_switches: u64::try_from(usage.ru_nvcsw).unwrap_or(0),
        involuntary_switches: u64::try_from(usage.ru_nivcsw).unwrap_or(0),
    }
}

fn time_ns(time: libc::timeval) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let microseconds = u64::try_from(time.tv_usec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(microseconds.saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    #[test]
    fn kinds_and_cores_are_read() {
        let text = "cpu  3890 41305 20534 172719 11636 7 501 48 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\ncpu3 1 2 3 4 \
                    5 6 7 8 0 0\nintr 4007843 0\n";
        let cpu = parse(text, 10_000_000).unwrap();
        assert_eq!(cpu.user_ns, (3890 + 41305) * 10_000_000);
        assert_eq!((cpu.idle_ns, cpu.iowait_ns), (1_727_190_000_000, 116_360_000_000));
        assert_eq!((cpu.irq_ns, cpu.softirq_ns, cpu.steal_ns), (70_000_000, 5_010_000_000, 480_000_000));
        assert_eq!(cpu.cores, 2);
        assert_eq!(parse("cpu 1 2 3\n", 1), None);
    }

    #[test]
    fn real_cpu_time_grows_and_idle_never_underflows() {
        let root = Root::new(Path::new("/")).unwrap();
        let cpu = read(&root, tick_ns()).unwrap();
        assert!(cpu.cores >= 1 && cpu.total_ns() > 0);
        let back = CpuTimes { idle_ns: cpu.idle_ns + 1, ..cpu };
        assert_eq!(between(&back, &cpu).idle_ns, 0);
    }

    #[test]
    fn usage_counts_this_process() {
        let before = usage().unwrap();
        let mut sum = 0u64;
        while usage().unwrap() == before {
            sum = std::hint::black_box(sum + 1);
        }
        let after = usage().unwrap();
        assert!(after.user_ns + after.system_ns >= before.user_ns + before.system_ns);
    }

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(list("0-2,8,10-11\n"), Some(vec![0, 1, 2, 8, 10, 11]));
        for text in ["", "\n", "a", "3-1", "0-", "0-4294967295", "1,,2"] {
            assert_eq!(list(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_list_is_read_without_panic(text in "[0-9,-]{0,20}|\\PC*") {
            list(&text);
        }

        #[test]
        fn any_text_is_read_without_panic(
            text in "cpu  [0-9 ]{0,200}(\ncpu[0-9] ){0,3}|\\PC*",
            tick_ns: u64,
        ) {
            if let Some(cpu) = parse(&text, tick_ns) {
                prop_assert_eq!(between(&cpu, &cpu).idle_ns, 0);
            }
        }
    }
}
