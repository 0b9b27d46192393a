//! Metrics in a file, for hosts on which nothing may listen: node_exporter's textfile collector reads it.

use super::MetricsText;
use super::error::MetricsError;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

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
    /// [`MetricsError::Write`].
    pub fn create(path: &Path, text: &MetricsText) -> Result<MetricsFile, MetricsError> {
        let mut new = path.as_os_str().to_owned();
        new.push(".new");
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
        // What a process that died has left. A link that somebody put there is removed, and not followed.
        match fs::remove_file(&self.new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        File::create_new(&self.new)?.write_all(bytes)?;
        fs::rename(&self.new, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

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
        assert_eq!(mode & 0o400, 0o400);
    }

    #[test]
    fn a_link_at_the_name_beside_it_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, kept) = (folder.path().join("m.prom"), folder.path().join("kept"));
        fs::write(&kept, "mine").unwrap();
        symlink(&kept, folder.path().join("m.prom.new")).unwrap();
        MetricsFile::create(&path, &text("a 1\n")).unwrap();
        assert_eq!(fs::read_to_string(&kept).unwrap(), "mine");
        assert_eq!(fs::read_to_string(&path).unwrap(), "a 1\n");
    }

    #[test]
    fn a_folder_that_is_missing_is_refused_with_the_option() {
        let error = MetricsFile::create(Path::new("/no/such/m.prom"), &text("")).unwrap_err().to_string();
        assert!(error.contains("`/no/such/m.prom`") && error.contains("--metrics"), "{error}");
    }
}
