//! The numbers of tracepoints, from tracefs (Documentation/trace/ftrace.rst).

use crate::root::{Root, text};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Where tracefs is mounted: by itself, or since before Linux 4.1 inside of debugfs.
const PLACES: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// A tracefs that can be read.
#[derive(Debug)]
pub(crate) struct Tracefs {
    place: PathBuf,
    /// A mount of our own, gone when this is closed.
    _mount: Option<OwnedFd>,
}

impl Tracefs {
    /// The one that is mounted, else one that is mounted for this process alone, in no folder: nobody else
    /// sees it.
    pub(crate) fn find(root: &Root) -> io::Result<Tracefs> {
        let mounted = PLACES.iter().map(|place| root.path(place)).find(|place| place.join("events").is_dir());
        if let Some(place) = mounted {
            return Ok(Tracefs { place, _mount: None });
        }
        if root.path("") != Path::new("/") {
            return Err(Errno::NOENT.into());
        }
        let mount = detached()?;
        let place = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        Ok(Tracefs { place, _mount: Some(mount) })
    }

    /// Where the fields of a tracepoint are in its record, in bytes.
    pub(crate) fn offsets<const N: usize>(
        &self,
        tracepoint: &str,
        fields: [&str; N],
    ) -> io::Result<[usize; N]> {
        let file = self.place.join("events").join(tracepoint).join("format");
        let text = text(&file).map_err(io::Error::other)?;
        let mut offsets = [0; N];
        for (at, field) in offsets.iter_mut().zip(fields) {
            *at = offset(&text, field)
                .ok_or_else(|| io::Error::other(format!("`{}` has no field `{field}`", file.display())))?;
        }
        Ok(offsets)
    }

    /// The number of a tracepoint, such as `block/block_rq_complete`.
    pub(crate) fn id(&self, tracepoint: &str) -> io::Result<u64> {
        let file = self.place.join("events").join(tracepoint).join("id");
        let text = text(&file).map_err(io::Error::other)?;
        text.trim().parse().map_err(|_| io::Error::other(format!("`{}` holds no number", file.display())))
    }
}

/// The offset of a field in a tracepoint's `format`, whose lines begin with `field:dev_t dev;` and
/// `offset:8;`.
fn offset(format: &str, field: &str) -> Option<usize> {
    let of_line = |line: &str| {
        let (declaration, rest) = line.trim_start().strip_prefix("field:")?.split_once(';')?;
        let name = declaration.rsplit(' ').next()?.split('[').next()?;
        let offset = rest.trim_start().strip_prefix("offset:")?.split_once(';')?.0;
        (name == field).then(|| offset.parse().ok())?
    };
    format.lines().find_map(of_line)
}

/// A mount of tracefs in no folder (fsopen(2), fsmount(2); Linux 5.2).
fn detached() -> io::Result<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_names() {
        let format = "name: block_rq_issue\nID: 7\nformat:\n\tfield:int common_pid;\toffset:4;\tsize:4;\t\
                      signed:1;\n\n\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
                      \tfield:char comm[16];\toffset:44;\tsize:16;\tsigned:0;\n";
        let found = ["common_pid", "dev", "comm", "sector"].map(|field| offset(format, field));
        assert_eq!(found, [Some(4), Some(8), Some(44), None]);
    }

    #[test]
    fn numbers_are_those_of_the_first_place_that_is_there() {
        let tree = tempfile::tempdir().unwrap();
        let root = Root::new(tree.path()).unwrap();
        assert_eq!(Tracefs::find(&root).unwrap_err().raw_os_error(), Some(libc::ENOENT));
        for (place, id) in [("sys/kernel/debug/tracing", "7\n"), ("sys/kernel/tracing", "2107\n")] {
            let folder = tree.path().join(place).join("events/block/block_rq_complete");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("id"), id).unwrap();
            let found = Tracefs::find(&root).unwrap();
            assert_eq!(found.id("block/block_rq_complete").unwrap().to_string(), id.trim());
        }
        let found = Tracefs::find(&root).unwrap();
        assert!(found.id("timer/hrtimer_start").is_err());
        std::fs::write(tree.path().join("sys/kernel/tracing/events/block/block_rq_complete/id"), "x")
            .unwrap();
        assert!(found.id("block/block_rq_complete").unwrap_err().to_string().contains("holds no number"));
    }
}
