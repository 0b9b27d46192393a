//! Time of the cores in each idle state (Documentation/admin-guide/pm/cpuidle.rst, "Representation of Idle
//! States").

use crate::root::{Root, is_numbered, names, text_if_there};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The idle states of every core, as the kernel listed them when the probe was made. Empty if it has no
/// cpuidle.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdleStates {
    /// Name and the file of the time, in µs.
    states: Vec<(String, PathBuf)>,
}

/// The times in µs, in the order of the states; absent for a core that has none now, such as an offline one.
pub(crate) type IdleTimes = Vec<Option<u64>>;

impl IdleStates {
    pub(crate) fn find(root: &Root) -> IdleStates {
        let cpus = root.path("sys/devices/system/cpu");
        let mut states = Vec::new();
        for cpu in names(&cpus).iter().filter(|name| is_numbered(name, "cpu")) {
            let folder = cpus.join(cpu).join("cpuidle");
            for state in names(&folder).iter().filter(|name| is_numbered(name, "state")) {
                let state = folder.join(state);
                if let Ok(Some(name)) = text_if_there(&state.join("name")) {
                    states.push((name.trim().to_owned(), state.join("time")));
                }
            }
        }
        IdleStates { states }
    }

    /// The times now. What cannot be read is absent: no verdict depends on it.
    pub(crate) fn read(&self) -> IdleTimes {
        let time = |file: &PathBuf| text_if_there(file).ok()??.trim().parse().ok();
        self.states.iter().map(|(_, file)| time(file)).collect()
    }

    /// Time in ns from `earlier` to `later` by state name, summed over the cores that have the state at both.
    /// The kernel adds a stay when the core leaves the state, so a stay during a snapshot counts where it
    /// ends.
    pub(crate) fn between(&self, earlier: &IdleTimes, later: &IdleTimes) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for ((name, _), times) in self.states.iter().zip(earlier.iter().zip(later)) {
            if let (Some(earlier_us), Some(later_us)) = times {
                let time_ns = later_us.saturating_sub(*earlier_us).saturating_mul(1000);
                let sum = sums.entry(name.clone()).or_insert(0_u64);
                *sum = sum.saturating_add(time_ns);
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn write(root: &Path, cpu: u32, state: u32, name: &str, time_us: &str) {
        let folder = root.join(format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("name"), format!("{name}\n")).unwrap();
        fs::write(folder.join("time"), format!("{time_us}\n")).unwrap();
    }

    #[test]
    fn times_are_summed_over_the_cores_by_the_states_name() {
        let tree = tempfile::tempdir().unwrap();
        let cpus = tree.path().join("sys/devices/system/cpu");
        // The driver's own folder, and a file beside the cores.
        fs::create_dir_all(cpus.join("cpuidle")).unwrap();
        fs::write(cpus.join("online"), "0-2\n").unwrap();
        // A second kind of core has its C6 at another place in the list.
        for (cpu, deep) in [(0, 2), (1, 2), (10, 1)] {
            write(tree.path(), cpu, 0, "POLL", "7");
            write(tree.path(), cpu, deep, "C6", "1000");
        }
        let states = IdleStates::find(&Root::new(tree.path()).unwrap());
        let before = states.read();
        for (cpu, deep, time) in [(0, 2, "1500"), (1, 2, "1020"), (10, 1, "999")] {
            write(tree.path(), cpu, deep, "C6", time);
        }
        let expected =
            |poll_ns, deep_ns| BTreeMap::from([("C6".to_owned(), deep_ns), ("POLL".to_owned(), poll_ns)]);
        assert_eq!(states.between(&before, &states.read()), expected(0, 520_000));
        // A core that has gone offline takes its states along: what it had before is not counted.
        fs::remove_dir_all(cpus.join("cpu0/cpuidle")).unwrap();
        write(tree.path(), 10, 0, "POLL", "9");
        assert_eq!(states.between(&before, &states.read()), expected(2_000, 20_000));
        write(tree.path(), 10, 0, "POLL", "no number");
        assert_eq!(states.between(&before, &states.read()), expected(0, 20_000));
    }

    #[test]
    fn a_kernel_without_idle_states_has_none() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir_all(tree.path().join("sys/devices/system/cpu/cpu0")).unwrap();
        let states = IdleStates::find(&Root::new(tree.path()).unwrap());
        assert!(states.between(&states.read(), &states.read()).is_empty());
    }
}
