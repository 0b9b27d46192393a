//! The profiler's QEMU plugin in a run's folder: its file, and the windows that it left.

use super::{ProfileError, Window};
use crate::vm;
use std::fs;
use std::path::{Path, PathBuf};

/// The plugin's shared object; `None` on machines that it is not built for.
#[cfg(profiler)]
const LIBRARY: Option<&[u8]> = Some(include_bytes!(concat!(env!("OUT_DIR"), "/window.so")));
#[cfg(not(profiler))]
const LIBRARY: Option<&[u8]> = None;

/// The exact profiler, ready in a run's folder.
#[derive(Debug)]
pub struct Profiler {
    library: PathBuf,
    windows: PathBuf,
}

impl Profiler {
    /// Writes the plugin into a run's folder, and makes a new folder for its windows there.
    pub fn install(run: &Path) -> Result<Profiler, ProfileError> {
        let library = run.join("window.so");
        fs::write(&library, LIBRARY.ok_or(ProfileError::Host)?).map_err(at(&library))?;
        let windows = run.join("windows");
        fs::create_dir(&windows).map_err(at(&windows))?;
        Ok(Profiler { library, windows })
    }

    /// The plugin for QEMU to load, under `-accel tcg`; its windows go to the folder `out`.
    pub fn plugin(&self) -> vm::Plugin {
        let out = self.windows.to_string_lossy().into_owned();
        vm::Plugin { path: self.library.clone(), arguments: vec![("out".to_owned(), out)] }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_in_a_path_is_doubled() {
        let profiler = Profiler { library: "/a,b/window.so".into(), windows: "/a,b/windows".into() };
        assert_eq!(profiler.plugin().option(), "/a,,b/window.so,out=/a,,b/windows");
    }

    #[test]
    fn windows_end_where_their_numbers_do_and_a_damaged_one_is_named() {
        let run = tempfile::tempdir().unwrap();
        let profiler = Profiler { library: run.path().join("window.so"), windows: run.path().into() };
        assert_eq!(profiler.windows().unwrap(), []);
        let whole = [b"iopjwin1".as_slice(), &7u32.to_le_bytes(), &[0; 20]].concat();
        fs::write(run.path().join("window-0"), &whole).unwrap();
        fs::write(run.path().join("window-2"), &whole).unwrap();
        let windows = profiler.windows().unwrap();
        assert_eq!(windows, [Window { place: 7, vcpus: vec![], no_room: 0, records: vec![] }]);
        fs::write(run.path().join("window-1"), "iopjwin1").unwrap();
        let message = profiler.windows().unwrap_err().to_string();
        assert!(message.contains("window-1` is not a window of this profiler (it is cut short"), "{message}");
    }
}
