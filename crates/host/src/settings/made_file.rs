//! A file that a run makes to measure on, and that goes with the run: its name in the journal, and its
//! removal, if it still is that very file.

use super::allowed::NotAllowed;
use iopj_engine::target::{FileId, remove_file_made_as};
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

/// What stands before the path in the text form, and before the identity in the file's name.
const KIND: &str = "made-file";
const NAME: &str = "iopj-";

/// A file in a folder that is named by its full path without links, with its identity in its own name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MadeFile {
    id: FileId,
    path: PathBuf,
}

impl MadeFile {
    /// A new one in a folder that is named by its full path without links; `None` if the name is not plain
    /// text, which no journal could hold.
    pub(super) fn new(folder: &Path) -> io::Result<Option<MadeFile>> {
        let id = FileId::random()?;
        let file = MadeFile { id, path: folder.join(format!("{NAME}{id}")) };
        Ok((file.to_string().parse().as_ref() == Ok(&file)).then_some(file))
    }

    pub(super) fn id(&self) -> FileId {
        self.id
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn lock_name(&self) -> String {
        format!("file:{}", self.id)
    }

    /// Removes the file, if it is there: what it was then. Another file of its name stays, and is noted.
    pub(super) fn remove(&self, notes: &mut Vec<String>) -> io::Result<Option<String>> {
        match remove_file_made_as(self.id, &self.path) {
            Ok(removed) => Ok(removed.then(|| "present".to_owned())),
            Err(error) if error.is_not_ours() => {
                notes.push(format!("{error}: left alone"));
                Ok(None)
            }
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

impl fmt::Display for MadeFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{KIND}{}", self.path.display())
    }
}

impl FromStr for MadeFile {
    type Err = NotAllowed;

    fn from_str(text: &str) -> Result<MadeFile, NotAllowed> {
        let text = text.strip_prefix(KIND).ok_or(NotAllowed)?;
        let path: PathBuf = Path::new(text).components().collect();
        let name = path.file_name().and_then(|name| name.to_str()).ok_or(NotAllowed)?;
        let id: FileId = name.strip_prefix(NAME).and_then(|id| id.parse().ok()).ok_or(NotAllowed)?;
        let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        let is_whole = path.is_absolute() && path.components().all(is_plain);
        // `//` and an id in another form are nothing that is written here.
        let is_same = path.to_str() == Some(text) && name == format!("{NAME}{id}");
        if is_whole && is_same { Ok(MadeFile { id, path }) } else { Err(NotAllowed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::fixture::Fixture;
    use std::fs;

    const ID: &str = "00112233445566778899aabbccddeeff";

    #[test]
    fn a_made_file_has_one_text_form() {
        for good in [format!("made-file/iopj-{ID}"), format!("made-file/srv/a b/iopj-{ID}")] {
            assert_eq!(good.parse::<MadeFile>().ok().map(|file| file.to_string()), Some(good));
        }
        for bad in [
            "made-file".to_owned(),
            "made-file/etc/passwd".to_owned(),
            format!("made-file/srv/../iopj-{ID}"),
            format!("made-file/srv//iopj-{ID}"),
            format!("made-file/srv/iopj-{ID}/"),
            format!("made-file/srv/iopj-{}", ID.to_uppercase()),
            format!("made-filesrv/iopj-{ID}"),
            format!("/srv/iopj-{ID}"),
        ] {
            assert!(bad.parse::<MadeFile>().is_err(), "{bad}");
        }
    }

    /// Direct I/O does not work in memory.
    fn on_disk() -> tempfile::TempDir {
        tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap()
    }

    #[test]
    fn a_made_file_is_journalled_and_goes_at_the_end() {
        let (fixture, folder) = (Fixture::empty(), on_disk());
        fixture.with_settings(&[], |settings| {
            let mut journals = Vec::new();
            let mut look = |_| {
                journals = fixture.journals();
                true
            };
            let (path, id) = settings.make_file(folder.path(), 8192, &mut look).unwrap();
            assert!(journals[0].contains(&format!("/iopj-{id}")), "{journals:?}");
            assert_eq!(path.parent().unwrap(), fs::canonicalize(folder.path()).unwrap());
            assert!(path.exists());
            assert_eq!(settings.restore().unwrap().len(), 1);
            assert!(!path.exists());
        });
        assert!(fixture.journals().is_empty());
    }

    #[test]
    fn a_dead_runs_file_is_removed_and_no_other_of_its_name() {
        let (fixture, folder) = (Fixture::empty(), on_disk());
        let made = fixture.with_settings(&[], |settings| {
            let made = settings.make_file(folder.path(), 8192, &mut |_| true).unwrap().0;
            // What a killed run leaves: its lock is gone, its journal stays.
            let journal = fixture.journals().remove(0);
            fs::write(folder.path().join("journal"), journal).unwrap();
            fs::copy(&made, folder.path().join("copy")).unwrap();
            made
        });
        assert!(!made.exists());
        let leave = |file: &str| {
            fs::copy(folder.path().join(file), &made).unwrap();
            let journal = fixture.path("run/iopj/journal-1-1.jsonl");
            fs::copy(folder.path().join("journal"), &journal).unwrap();
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&journal, fs::Permissions::from_mode(0o600)).unwrap();
            fixture.host().restore_left_behind().unwrap()
        };
        let report = leave("copy");
        assert_eq!((report.restored.len(), report.failed.len()), (1, 0), "{report:?}");
        assert!(!made.exists());
        let report = leave("journal");
        assert_eq!((report.restored.len(), report.failed.len()), (0, 0), "{report:?}");
        assert!(report.notes[0].contains("left alone"), "{report:?}");
        assert!(made.exists());
    }
}
