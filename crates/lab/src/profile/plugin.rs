//! The QEMU plugin beside a run: its file, the argument that loads it, and the windows that it left.

use super::{ProfileError, Window};
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The plugin's shared object; `None` on machines that it is not built for.
#[cfg(profiler)]
const LIBRARY: Option<&[u8]> = Some(include_bytes!(concat!(env!("OUT_DIR"), "/window.so")));
#[cfg(not(profiler))]
const LIBRARY: Option<&[u8]> = None;

/// The profiler's plugin, ready in a folder.
#[derive(Debug)]
pub struct Plugin {
    library: PathBuf,
    windows: PathBuf,
}

impl Plugin {
    /// Writes the plugin into a run's folder, and makes a new folder for its windows there.
    pub fn install(run: &Path) -> Result<Plugin, ProfileError> {
        let library = run.join("window.so");
        fs::write(&library, LIBRARY.ok_or(ProfileError::Host)?).map_err(at(&library))?;
        let windows = run.join("windows");
        fs::create_dir(&windows).map_err(at(&windows))?;
        Ok(Plugin { library, windows })
    }

    /// The shared object that QEMU is to load, under `-accel tcg`.
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// The folder for its windows: the plugin's argument `out`.
    pub fn out(&self) -> &Path {
        &self.windows
    }

    /// QEMU's arguments that load the plugin.
    fn arguments(&self) -> [OsString; 2] {
        let mut value = OsString::from("file=");
        value.push(quoted(&self.library));
        value.push(",out=");
        value.push(quoted(&self.windows));
        ["-plugin".into(), value]
    }

    /// Starts an empty machine with the plugin, to see whether this QEMU takes it.
    pub fn check(&self, qemu: &Path) -> Result<(), ProfileError> {
        let failed = |source| ProfileError::Qemu { qemu: qemu.into(), source };
        let mut machine = Command::new(qemu)
            .args([
                "-machine",
                "none",
                "-accel",
                "tcg",
                "-nodefaults",
                "-display",
                "none",
                "-monitor",
                "stdio",
            ])
            .args(self.arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        if let Some(mut monitor) = machine.stdin.take() {
            // One that refuses the plugin is gone before it reads this; its status tells.
            let _ = monitor.write_all(b"quit\n");
        }
        let ended = machine.wait_with_output().map_err(failed)?;
        if ended.status.success() {
            return Ok(());
        }
        let said =
            String::from_utf8_lossy(&ended.stderr).lines().next().unwrap_or("it said nothing").to_owned();
        Err(ProfileError::Refused { qemu: qemu.into(), said })
    }

    /// The windows that were closed, in the order of their ends.
    pub fn windows(&self) -> Result<Vec<Window>, ProfileError> {
        (0..)
            .map(|number| self.windows.join(format!("window-{number}")))
            .take_while(|path| path.exists())
            .map(|path| {
                let bytes = fs::read(&path).map_err(at(&path))?;
                Window::parse(&bytes).map_err(|source| ProfileError::Window { path, source })
            })
            .collect()
    }
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> ProfileError {
    move |source| ProfileError::Io { path: path.into(), source }
}

/// A path inside an option's value, where QEMU ends it at a single comma.
fn quoted(path: &Path) -> OsString {
    let bytes = path.as_os_str().as_bytes().iter();
    OsString::from_vec(
        bytes.flat_map(|byte| std::iter::repeat_n(*byte, if *byte == b',' { 2 } else { 1 })).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_in_a_path_is_doubled() {
        let plugin = Plugin { library: "/a,b/window.so".into(), windows: "/a,b/windows".into() };
        assert_eq!(plugin.arguments(), ["-plugin", "file=/a,,b/window.so,out=/a,,b/windows"]);
    }

    #[test]
    fn windows_end_where_their_numbers_do_and_a_damaged_one_is_named() {
        let run = tempfile::tempdir().unwrap();
        let plugin = Plugin { library: run.path().join("window.so"), windows: run.path().into() };
        assert_eq!(plugin.windows().unwrap(), []);
        let whole = [b"iopjwin1".as_slice(), &7u32.to_le_bytes(), &[0; 20]].concat();
        fs::write(run.path().join("window-0"), &whole).unwrap();
        fs::write(run.path().join("window-2"), &whole).unwrap();
        let windows = plugin.windows().unwrap();
        assert_eq!(windows, [Window { place: 7, vcpus: vec![], no_room: 0, records: vec![] }]);
        fs::write(run.path().join("window-1"), "iopjwin1").unwrap();
        let message = plugin.windows().unwrap_err().to_string();
        assert!(message.contains("window-1` is not a window of this profiler (it is cut short"), "{message}");
    }

    #[test]
    fn a_program_that_is_no_qemu_is_named() {
        let run = tempfile::tempdir().unwrap();
        let plugin = Plugin { library: run.path().join("window.so"), windows: run.path().into() };
        let message = plugin.check(Path::new("/bin/false")).unwrap_err().to_string();
        assert!(
            message.starts_with("`/bin/false` does not take the profiler's plugin (it said nothing)"),
            "{message}"
        );
        let message = plugin.check(Path::new("/no/qemu")).unwrap_err().to_string();
        assert!(message.starts_with("`/no/qemu` does not start"), "{message}");
    }
}
