//! A machine's folder. It names its owner: if that was killed, the next start removes machine and folder.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::VmError;

/// Names the QEMU of a run folder: process id, start time in clock ticks since boot, and which boot that was.
const MACHINE_FILE: &str = "machine";

/// The folder of one machine: its initramfs, socket, archive and messages. Locked while its owner lives,
/// removed when dropped.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    held: File,
}

/// What [`clean`] found and ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Folders of dead owners that were removed.
    pub folders: u32,
    /// Machines that had outlived their owner and were killed.
    pub machines: u32,
}

impl RunFolder {
    /// Makes a folder under `CACHE/runs`, after removing those of dead owners.
    ///
    /// # Errors
    /// [`VmError::File`] if the cache cannot be written.
    pub fn create(cache: &Path) -> Result<RunFolder, VmError> {
        let runs = cache.join("runs");
        fs::create_dir_all(&runs).map_err(VmError::at(&runs))?;
        let _guard = guard(&runs)?;
        sweep(&runs)?;
        for number in 0_u32.. {
            let path = runs.join(format!("{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(VmError::at(&path)(error)),
                Ok(()) => {
                    let held = File::open(&path).map_err(VmError::at(&path))?;
                    held.lock().map_err(VmError::at(&path))?;
                    return Ok(RunFolder { path, held });
                }
            }
        }
        unreachable!("more folders than numbers")
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path of a file in the folder that is short however deep the cache is: a socket's address has 108
    /// bytes (unix(7)). Valid in this process while this value lives.
    pub(super) fn short_path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.held.as_raw_fd()))
    }

    /// Notes which process runs the machine.
    pub(super) fn note_machine(&self, pid: u32) -> Result<(), VmError> {
        let path = self.path.join(MACHINE_FILE);
        let Some(process) = Process::of(pid) else { return Ok(()) };
        fs::write(&path, process.text()).map_err(VmError::at(&path))
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next start.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders of dead owners in `CACHE/runs`, and kills their machines if they still run.
///
/// # Errors
/// [`VmError::File`] if the folder cannot be read or written.
pub fn clean(cache: &Path) -> Result<Cleaned, VmError> {
    let runs = cache.join("runs");
    if !runs.exists() {
        return Ok(Cleaned::default());
    }
    let _guard = guard(&runs)?;
    sweep(&runs)
}

/// Held while folders are made and removed: a folder is never seen before its owner has locked it.
fn guard(runs: &Path) -> Result<File, VmError> {
    let folder = File::open(runs).map_err(VmError::at(runs))?;
    folder.lock().map_err(VmError::at(runs))?;
    Ok(folder)
}

fn sweep(runs: &Path) -> Result<Cleaned, VmError> {
    let mut cleaned = Cleaned::default();
    for entry in fs::read_dir(runs).map_err(VmError::at(runs))? {
        let path = entry.map_err(VmError::at(runs))?.path();
        let Ok(folder) = File::open(&path) else { continue };
        if folder.try_lock().is_err() {
            continue;
        }
        if fs::read_to_string(path.join(MACHINE_FILE))
            .ok()
            .and_then(|text| Process::parse(&text))
            .is_some_and(|it| it.kill())
        {
            cleaned.machines += 1;
        }
        fs::remove_dir_all(&path).map_err(VmError::at(&path))?;
        cleaned.folders += 1;
    }
    Ok(cleaned)
}

/// A process, distinguished by its start time from a later one with the same number. Its command line is not
/// enough: a process that was just started may not have one yet, because `vfork` returns before `execve` has
/// laid out the arguments.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    pid: u32,
    start_ticks: u64,
    boot: String,
}

impl Process {
    fn of(pid: u32) -> Option<Process> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned();
        Some(Process { pid, start_ticks: start_ticks(&stat)?, boot })
    }

    fn text(&self) -> String {
        format!("{} {} {}\n", self.pid, self.start_ticks, self.boot)
    }

    fn parse(text: &str) -> Option<Process> {
        let mut words = text.split_ascii_whitespace();
        let process = Process {
            pid: words.next()?.parse().ok()?,
            start_ticks: words.next()?.parse().ok()?,
            boot: words.next()?.to_owned(),
        };
        words.next().is_none().then_some(process)
    }

    /// Kills it if it is still the same process; returns whether it did.
    fn kill(&self) -> bool {
        let Some(pid) = self.pid.try_into().ok().and_then(Pid::from_raw) else { return false };
        let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        // The descriptor holds the process, so what is read now is of the one that is killed.
        Process::of(self.pid).as_ref() == Some(self) && pidfd_send_signal(descriptor, Signal::KILL).is_ok()
    }
}

/// Field 22 of /proc/PID/stat (proc(5)); the name in field 2 may hold spaces and parentheses.
fn start_ticks(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_dead_owners_machine_ends_and_its_folder_goes() {
        let cache = tempfile::tempdir().unwrap();
        let living = RunFolder::create(cache.path()).unwrap();
        let mut machine = Command::new("sleep").arg("600").spawn().unwrap();
        let dead = cache.path().join("runs/1-0");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join(MACHINE_FILE), Process::of(machine.id()).unwrap().text()).unwrap();
        assert_eq!(clean(cache.path()).unwrap(), Cleaned { folders: 1, machines: 1 });
        assert!(!machine.wait().unwrap().success());
        assert!(living.path().is_dir() && !dead.exists());
        let path = living.path().to_path_buf();
        drop(living);
        assert!(!path.exists());
    }

    #[test]
    fn a_process_that_only_has_the_number_is_left_alone() {
        let cache = tempfile::tempdir().unwrap();
        let mut other = Command::new("sleep").arg("600").spawn().unwrap();
        let mut process = Process::of(other.id()).unwrap();
        process.start_ticks -= 1;
        let dead = cache.path().join("runs/1-0");
        fs::create_dir_all(&dead).unwrap();
        fs::write(dead.join(MACHINE_FILE), process.text()).unwrap();
        assert_eq!(clean(cache.path()).unwrap(), Cleaned { folders: 1, machines: 0 });
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    /// A machine noted before `execve` had finished was never found again.
    #[test]
    fn a_machine_is_found_again_whatever_its_command_line_became() {
        let mut machine = Command::new("sh").args(["-c", "sleep 0.1; exec sleep 600"]).spawn().unwrap();
        let noted = Process::of(machine.id()).unwrap();
        let line = format!("/proc/{}/cmdline", machine.id());
        while fs::read(&line).unwrap() != b"sleep\x00600\0" {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(noted.kill());
        assert!(!machine.wait().unwrap().success());
    }

    #[test]
    fn a_start_time_is_found_behind_any_name() {
        let fields: Vec<String> = (3..=30).map(|field| field.to_string()).collect();
        assert_eq!(start_ticks(&format!("7 (a) b) {}", fields.join(" "))), Some(22));
    }

    proptest::proptest! {
        #[test]
        fn a_noted_process_reads_back(
            pid in 1..u32::MAX,
            start_ticks in 0..u64::MAX,
            boot in "[0-9a-f-]{36}",
        ) {
            let process = Process { pid, start_ticks, boot };
            assert_eq!(Process::parse(&process.text()), Some(process));
        }

        #[test]
        fn any_note_is_read_without_panic(text in ".{0,100}", stat in ".{0,100}") {
            Process::parse(&text);
            start_ticks(&stat);
        }
    }
}
