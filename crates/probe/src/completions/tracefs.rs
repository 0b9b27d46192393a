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
pub(super) struct Tracefs {
    place: PathBuf,
    /// A mount of our own, gone when this is closed.
    _mount: Option<OwnedFd>,
}

impl Tracefs {
    /// The one that is mounted, else one that is mounted for this process alone, in no folder: nobody else
    /// sees it.
    pub(super) fn find(root: &Root) -> io::Result<Tracefs> {
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

    /// The number of a tracepoint, such as `block/block_rq_complete`.
    pub(super) fn id(&self, tracepoint: &str) -> io::Result<u64> {
        let file = self.place.join("events").join(tracepoint).join("id");
        let text = text(&file).map_err(io::Error::other)?;
        text.trim().parse().map_err(|_| io::Error::other(format!("`{}` holds no number", file.display())))
    }
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
