//! Root in another user's folder: it acts there as that user, so that no link leads it where the user could
//! not go.

use crate::error::FleetError;
use rustix::process::{Gid, geteuid, getgroups};
use rustix::thread::set_thread_groups;
use std::fs::{DirBuilder, Metadata};
use std::marker::PhantomData;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fmt, io};

/// A user in whose name root acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user's number.
    pub uid: u32,
    /// The number of the user's group.
    pub gid: u32,
}

impl Owner {
    /// The user whose folder it is; `None` unless this process is root and the folder is another user's.
    ///
    /// # Errors
    /// There is no such folder.
    pub fn of(folder: &Path) -> Result<Option<Owner>, FleetError> {
        let found = folder.metadata().map_err(FleetError::io("open", folder))?;
        let is_anothers = geteuid().is_root() && found.uid() != 0;
        Ok(is_anothers.then(|| Owner { uid: found.uid(), gid: found.gid() }))
    }

    /// Until what is returned is dropped, this thread opens, makes and renames files as the user, and so do
    /// threads that it starts. It stays root in all else, and programs that it starts are root's, without its
    /// further groups (credentials(7), setfsuid(2)).
    ///
    /// # Errors
    /// This root may not act as the user.
    pub fn enter(self) -> Result<AsOwner, FleetError> {
        let entered = || {
            let (groups, ids) = (getgroups()?, file_ids());
            set_thread_groups(&[])?;
            let inside = AsOwner { groups, ids, _of_this_thread: PhantomData };
            set_file_ids([self.uid, self.gid]);
            if file_ids() == [self.uid, self.gid] { Ok(inside) } else { Err(rustix::io::Errno::PERM) }
        };
        entered().map_err(|error| {
            let (uid, error) = (self.uid, io::Error::from(error));
            FleetError::Refused(format!(
                "root cannot act as user {uid}, whose folder it is ({error}): submit without sudo"
            ))
        })
    }

    /// [`Owner::enter`], where there is an owner.
    pub(crate) fn enter_if(owner: Option<Owner>) -> Result<Option<AsOwner>, FleetError> {
        owner.map(Owner::enter).transpose()
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.uid, self.gid)
    }
}

impl FromStr for Owner {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Owner, Self::Err> {
        let numbers =
            text.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
        let (uid, gid) = numbers.ok_or("it is no UID:GID, such as 1000:1000")?;
        Ok(Owner { uid, gid })
    }
}

/// While it is there, this thread's files are another user's.
#[derive(Debug)]
pub struct AsOwner {
    /// What was before, which may be the same user.
    groups: Vec<Gid>,
    ids: [u32; 2],
    /// It ends in the thread in which it began.
    _of_this_thread: PhantomData<*const ()>,
}

impl Drop for AsOwner {
    fn drop(&mut self) {
        set_file_ids(self.ids);
        // Root may set what it had; without it, it could do less.
        let _ = set_thread_groups(&self.groups);
    }
}

/// The user and the group that this thread's files are checked for.
fn file_ids() -> [u32; 2] {
    // No user has this number, and no group: it changes nothing.
    set_file_ids([u32::MAX, u32::MAX])
}

/// Sets them, if the kernel lets this thread, and returns those before.
fn set_file_ids([uid, gid]: [u32; 2]) -> [u32; 2] {
    // SAFETY: both take plain numbers and change this thread alone.
    unsafe { [libc::setfsuid(uid), libc::setfsgid(gid)].map(i32::cast_unsigned) }
}

/// Makes a folder below `base`, in which only root can change what a name leads to. What others can change is
/// refused: `base`, once it is free of links, and all above it may be written by others with the sticky bit
/// alone, and each of `names` is a folder of root's.
///
/// # Errors
/// Others can change it.
pub(crate) fn roots_folder(base: &Path, names: &Path) -> Result<PathBuf, FleetError> {
    let there = base.ancestors().find(|one| one.symlink_metadata().is_ok()).unwrap_or(Path::new("/"));
    let missing = base.strip_prefix(there).unwrap_or(base);
    let mut at = there.canonicalize().map_err(FleetError::io("open", there))?;
    for folder in at.ancestors() {
        refuse_if(folder, |found| {
            !found.is_dir() || found.mode() & 0o022 != 0 && found.mode() & 0o1000 == 0
        })?;
    }
    for name in missing.components().chain(names.components()) {
        at.push(name);
        match DirBuilder::new().mode(0o755).create(&at) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(FleetError::io("make the folder", &at)(error));
            }
            _ => refuse_if(&at, |found| !found.is_dir() || found.mode() & 0o022 != 0)?,
        }
    }
    Ok(at)
}

fn refuse_if(folder: &Path, is_wrong: impl Fn(&Metadata) -> bool) -> Result<(), FleetError> {
    let found = folder.symlink_metadata().map_err(FleetError::io("open", folder))?;
    if found.uid() == 0 && !is_wrong(&found) {
        return Ok(());
    }
    Err(FleetError::Refused(format!(
        "root keeps a store only where others can change no name, and they can change `{}`: name by \
         --scratch a folder that is root's, with all above it",
        folder.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::is_root;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown};

    const USER: Owner = Owner { uid: 65_532, gid: 65_531 };

    #[test]
    fn root_has_another_users_rights_to_files_for_a_while() {
        if !is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (secret, theirs) = (folder.path().join("secret"), folder.path().join("theirs"));
        fs::write(&secret, "s").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o640)).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(&theirs).unwrap();
        chown(&theirs, Some(USER.uid), Some(USER.gid)).unwrap();
        assert_eq!(Owner::of(&theirs).unwrap(), Some(USER));
        assert_eq!(Owner::of(folder.path()).unwrap(), None, "it is root's own");
        assert_eq!((USER.to_string().parse(), "65532".parse::<Owner>().is_err()), (Ok(USER), true));
        let groups = getgroups().unwrap();
        let inside = USER.enter().unwrap();
        drop(USER.enter().unwrap());
        // Also where the group of root might read it.
        assert_eq!(fs::read(&secret).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(fs::write(folder.path().join("new"), "").is_err());
        fs::write(theirs.join("new"), "").unwrap();
        let program = std::process::Command::new("cat").arg(&secret).output().unwrap();
        assert_eq!(program.stdout, b"s", "a program is root's");
        drop(inside);
        let new = fs::metadata(theirs.join("new")).unwrap();
        assert_eq!((new.uid(), new.gid()), (USER.uid, USER.gid));
        assert_eq!((fs::read(&secret).unwrap(), getgroups().unwrap()), (b"s".to_vec(), groups));
        assert!(geteuid().is_root());
    }

    #[test]
    fn root_keeps_a_store_only_where_others_can_change_no_name() {
        if !is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let made = roots_folder(&at("missing/base"), Path::new("c-1/n1")).unwrap();
        assert_eq!(made, folder.path().canonicalize().unwrap().join("missing/base/c-1/n1"));
        assert_eq!(roots_folder(&at("missing/base"), Path::new("c-1/n1")).unwrap(), made, "again");
        let refused = |base: &str, names: &str, what: &str| {
            let error = roots_folder(&at(base), Path::new(names)).unwrap_err().to_string();
            assert!(error.contains(&format!("they can change `{}`", at(what).display())), "{error}");
        };
        for name in ["theirs", "open", "sticky", "sticky/theirs"] {
            fs::create_dir(at(name)).unwrap();
        }
        let mode =
            |name: &str, mode| fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        mode("open", 0o777);
        mode("sticky", 0o1777);
        for name in ["theirs", "sticky/theirs"] {
            chown(at(name), Some(USER.uid), Some(USER.gid)).unwrap();
        }
        refused("theirs", "c-1", "theirs");
        refused("theirs/below", "c-1", "theirs");
        refused("open", "c-1", "open");
        refused("sticky", "theirs/c-1", "sticky/theirs");
        roots_folder(&at("sticky"), Path::new("c-1")).unwrap();
        // A link leads to what is root's, and its owner can let it lead elsewhere in the next moment.
        std::os::unix::fs::symlink(at("missing"), at("sticky/link")).unwrap();
        refused("sticky", "link/c-1", "sticky/link");
        let through = roots_folder(&at("sticky/link"), Path::new("c-2")).unwrap();
        assert!(through.ends_with("missing/c-2"), "no name of it is a link: {}", through.display());
        assert!(!at("missing/c-1").exists() && !at("theirs/c-1").exists());
    }
}
