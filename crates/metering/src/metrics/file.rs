//! Metrics in a file, for hosts on which nothing may listen: node_exporter's textfile collector reads it.

use super::MetricsText;
use super::error::MetricsError;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// How every text of metrics begins.
const START: &[u8] = b"# HELP iopj_";

/// A file that is replaced as a whole, so that no reader sees a part of it.
#[derive(Debug)]
pub struct MetricsFile {
    path: PathBuf,
    /// Beside it; collectors do not read a name that ends so.
    new: PathBuf,
}

impl MetricsFile {
    /// The file of this name, written once at once.
    ///
    /// # Errors
    /// [`MetricsError::Write`], also where something stands that is no file of metrics: it is left alone.
    pub fn create(path: &Path, text: &MetricsText) -> Result<MetricsFile, MetricsError> {
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
        for path in [path, Path::new(&new)] {
            refuse_foreign(path).map_err(|error| MetricsError::Write { path: path.to_owned(), error })?;
        }
        let file = MetricsFile { path: path.to_owned(), new: new.into() };
        file.set(text).map(|()| file)
    }

    /// Replaces the text: the format 0.0.4, because collectors of files do not read OpenMetrics.
    ///
    /// # Errors
    /// [`MetricsError::Write`]; the old text is still there.
    pub fn set(&self, text: &MetricsText) -> Result<(), MetricsError> {
        self.replace(text.plain.as_bytes()).map_err(|error| {
            let _ = fs::remove_file(&self.new);
            MetricsError::Write { path: self.path.clone(), error }
        })
    }

    /// Removes it.
    pub fn remove(self) {
        let _ = fs::remove_file(&self.path);
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        // What a process that died has left.
        match fs::remove_file(&self.new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = File::create_new(&self.new)?;
        // Whatever the mask is: a collector is another user.
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(bytes)?;
        // On the disk now, and not in the next trial's window.
        file.sync_all()?;
        fs::rename(&self.new, &self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

/// Refuses what would be lost: a device, a link, or a file that does not begin as metrics of iopj do.
fn refuse_foreign(path: &Path) -> io::Result<()> {
    let meta = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        meta => meta?,
    };
    let is_ours = || -> io::Result<bool> {
        let mut start = Vec::new();
        File::open(path)?.take(START.len() as u64).read_to_end(&mut start)?;
        Ok(START.starts_with(&start))
    };
    if meta.is_file() && is_ours()? {
        return Ok(());
    }
    Err(io::Error::new(ErrorKind::AlreadyExists, "it is there, and holds no metrics of iopj"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn text(plain: &str) -> MetricsText {
        MetricsText { plain: plain.to_owned(), openmetrics: String::new() }
    }

    #[test]
    fn the_text_is_replaced_as_a_whole_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("iopj.prom");
        let file = MetricsFile::create(&path, &text("a 1\n")).unwrap();
        let mut reader = File::open(&path).unwrap();
        file.set(&text("a 2\nb 3\n")).unwrap();
        let mut old = String::new();
        io::Read::read_to_string(&mut reader, &mut old).unwrap();
        assert_eq!(old, "a 1\n", "a reader has the text that it has opened");
        assert_eq!(fs::read_to_string(&path).unwrap(), "a 2\nb 3\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
    }

    /// `--metrics /dev/null` would have put a file in the device's place, and then removed it; `--metrics
    /// study.iopj` would have put one in the place of a store.
    #[test]
    fn what_is_no_file_of_metrics_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("kept"), "mine").unwrap();
        for name in ["m.prom", "m.prom.new"] {
            symlink(at("kept"), at(name)).unwrap();
            let error =
                MetricsFile::create(&at("m.prom"), &text("# HELP iopj_a A\n")).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("holds no metrics"), "{error}");
            fs::remove_file(at(name)).unwrap();
        }
        assert!(MetricsFile::create(&at("kept"), &text("")).is_err());
        assert_eq!(fs::read_to_string(at("kept")).unwrap(), "mine");
        let null = MetricsFile::create(Path::new("/dev/null"), &text(""));
        assert!(null.is_err() && !fs::metadata("/dev/null").unwrap().is_file());
        // One that a process left is taken over, and so is what it left beside it.
        fs::write(at("m.prom"), "# HELP iopj_run The study.\n").unwrap();
        fs::write(at("m.prom.new"), "# HE").unwrap();
        MetricsFile::create(&at("m.prom"), &text("# HELP iopj_a A\n")).unwrap();
        assert_eq!(fs::read_to_string(at("m.prom")).unwrap(), "# HELP iopj_a A\n");
    }

    #[test]
    fn a_folder_that_is_missing_is_refused_with_the_option() {
        let error = MetricsFile::create(Path::new("/no/such/m.prom"), &text("")).unwrap_err().to_string();
        assert!(error.contains("`/no/such/m.prom`") && error.contains("--metrics"), "{error}");
    }
}
