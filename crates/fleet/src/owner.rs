//! Root in another user's folder: it acts there as that user, so that no link leads it where the user could
//! not go.

use crate::error::FleetError;
use crate::program;
use rustix::process::{Gid, geteuid, getgroups};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups};
use std::fs::{DirBuilder, Metadata};
use std::marker::PhantomData;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::{fmt, io};

/// A user in whose name root acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user's number.
    pub uid: u32,
    /// The numbers of the user's groups, the primary one first.
    pub groups: Vec<u32>,
}

impl Owner {
    /// In whose name this process acts in a folder, if it is root: in its own where the folder, or the one
    /// above it that is there, is root's and nobody else can change a name there; otherwise in that of the
    /// user who called `sudo`.
    ///
    /// # Errors
    /// Others can change names there, and nobody called `sudo`: root takes no orders of theirs.
    pub fn of(folder: &Path) -> Result<Option<Owner>, FleetError> {
        Owner::called_by(by_sudo(), folder)
    }

    /// The same for a task, which root itself may have submitted in another user's folder: it then acts in
    /// the name of that user.
    ///
    /// # Errors
    /// The folder is root's, others can change names there, and nobody called `sudo`.
    pub fn of_task(folder: &Path) -> Result<Option<Owner>, FleetError> {
        Owner::of_task_called_by(by_sudo(), folder)
    }

    fn of_task_called_by(caller: Option<[u32; 2]>, folder: &Path) -> Result<Option<Owner>, FleetError> {
        let found = folder.metadata().ok().filter(|found| found.uid() != 0);
        Owner::called_by(caller.or(found.map(|found| [found.uid(), found.gid()])), folder)
    }

    /// [`Owner::of`] for a process that this user and group called by `sudo`.
    pub(crate) fn called_by(caller: Option<[u32; 2]>, folder: &Path) -> Result<Option<Owner>, FleetError> {
        if !geteuid().is_root() {
            return Ok(None);
        }
        let there = folder.ancestors().find(|one| one.symlink_metadata().is_ok()).unwrap_or(Path::new("/"));
        match (refuse_others(there, false), caller) {
            (Ok(_), _) => Ok(None),
            (Err(_), Some([uid, gid])) => Ok(Some(Owner::with_groups(uid, gid))),
            (Err(refused), None) => Err(refused),
        }
    }

    /// True if `sudo` says who called it: then no other process decides.
    pub fn is_by_sudo() -> bool {
        by_sudo().is_some()
    }

    /// A user with the groups that the system knows of, or with this one.
    fn with_groups(uid: u32, gid: u32) -> Owner {
        let known = program::output("id", &["-G".to_owned(), uid.to_string()], "coreutils", &program::NEVER);
        let known = known.ok().and_then(|text| text.split(' ').map(|one| one.parse().ok()).collect());
        Owner { uid, groups: known.filter(|groups: &Vec<u32>| !groups.is_empty()).unwrap_or(vec![gid]) }
    }

    /// Until what is returned is dropped, this thread opens, makes and renames files as the user, and so do
    /// threads that it starts. It stays root in all else, but may do no more than any user; programs that it
    /// starts are root's, with the user's groups (credentials(7), capabilities(7), setfsuid(2)).
    ///
    /// # Errors
    /// This root may not act as the user.
    pub fn enter(&self) -> Result<AsOwner, FleetError> {
        let ids = [self.uid, self.groups.first().copied().unwrap_or(self.uid)];
        let entered = || {
            let before = AsOwner {
                groups: getgroups()?,
                capabilities: capabilities(None)?,
                ids: file_ids(),
                _of_this_thread: PhantomData,
            };
            let groups: Vec<Gid> = self.groups.iter().map(|group| Gid::from_raw(*group)).collect();
            set_thread_groups(&groups)?;
            set_file_ids(ids);
            // Without them, what leads through `/proc` to other processes' files leads root nowhere either.
            let effective = CapabilitySet::SETUID | CapabilitySet::SETGID;
            set_capabilities(None, CapabilitySets { effective, ..before.capabilities })?;
            if file_ids() == ids { Ok(before) } else { Err(rustix::io::Errno::PERM) }
        };
        entered().map_err(|error| {
            let (uid, error) = (self.uid, io::Error::from(error));
            FleetError::Refused(format!(
                "root cannot act as user {uid} in the job's folder ({error}): submit without sudo"
            ))
        })
    }

    /// [`Owner::enter`], where there is an owner.
    ///
    /// # Errors
    /// As for [`Owner::enter`].
    pub fn enter_if(owner: Option<&Owner>) -> Result<Option<AsOwner>, FleetError> {
        owner.map(Owner::enter).transpose()
    }
}

/// The user and the group who called `sudo`, as it says (sudo(8), "ENVIRONMENT").
fn by_sudo() -> Option<[u32; 2]> {
    let number = |name| std::env::var(name).ok()?.parse().ok();
    Some([number("SUDO_UID")?, number("SUDO_GID")?]).filter(|[uid, _]| *uid != 0)
}

impl fmt::Display for Owner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups: Vec<String> = self.groups.iter().map(u32::to_string).collect();
        write!(out, "{}:{}", self.uid, groups.join(","))
    }
}

impl FromStr for Owner {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Owner, Self::Err> {
        let numbers = || {
            let (uid, groups) = text.split_once(':')?;
            let groups = groups.split(',').map(|one| one.parse().ok()).collect::<Option<Vec<u32>>>()?;
            Some(Owner { uid: uid.parse().ok()?, groups })
        };
        numbers().ok_or("it is no UID:GID,..., such as 1000:1000,100")
    }
}

/// While it is there, this thread's files are another user's.
#[derive(Debug)]
pub struct AsOwner {
    /// What was before, which may be the same user.
    groups: Vec<Gid>,
    capabilities: CapabilitySets,
    ids: [u32; 2],
    /// An `AsOwner` ends in the thread in which it began.
    _of_this_thread: PhantomData<*const ()>,
}

impl Drop for AsOwner {
    fn drop(&mut self) {
        set_file_ids(self.ids);
        // Root may set what it had; without it, it could do less.
        let _ = set_thread_groups(&self.groups);
        let _ = set_capabilities(None, self.capabilities);
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

/// The users whose word counts for this process: itself, root, and the owner of the folder, if there is one.
pub(crate) fn trusted(owner: Option<&Owner>) -> Vec<u32> {
    [geteuid().as_raw(), 0].into_iter().chain(owner.map(|owner| owner.uid)).collect()
}

/// Makes a folder below `base` in which only this user can read, or change what a name leads to: each of
/// `names` is a folder of its own. For root also `base` and all above it are root's, and others may write
/// there with the sticky bit alone.
///
/// # Errors
/// Others can change it.
pub(crate) fn own_folder(base: &Path, names: &Path) -> Result<PathBuf, FleetError> {
    let own = geteuid();
    if !own.is_root() {
        crate::files::make_folder(base)?;
        return own_folders(base.to_owned(), names.components().map(|name| (name, 0o700)));
    }
    let there = base.ancestors().find(|one| one.symlink_metadata().is_ok()).unwrap_or(Path::new("/"));
    let missing = base.strip_prefix(there).unwrap_or(base);
    let at = refuse_others(there, true)?;
    let all = missing.components().map(|name| (name, 0o755));
    own_folders(at, all.chain(names.components().map(|name| (name, 0o700))))
}

/// Makes folders, each below the one before, unless they are there, and this user's.
fn own_folders<'a>(
    mut at: PathBuf,
    names: impl Iterator<Item = (Component<'a>, u32)>,
) -> Result<PathBuf, FleetError> {
    for (name, mode) in names {
        at.push(name);
        match DirBuilder::new().mode(mode).create(&at) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(FleetError::io("make the folder", &at)(error));
            }
            _ => refuse_if(&at, |found| !found.is_dir() || is_open(found))?,
        }
    }
    Ok(at)
}

/// Refuses a folder of which others can change a name, or a name above it; returns it without links. Others
/// may write above it with the sticky bit, and in it if it `may_be_sticky`.
fn refuse_others(folder: &Path, may_be_sticky: bool) -> Result<PathBuf, FleetError> {
    let real = folder.canonicalize().map_err(FleetError::io("open", folder))?;
    refuse_if(&real, |found| !found.is_dir() || (is_open(found) && !may_be_sticky))?;
    for above in real.ancestors() {
        refuse_if(above, |found| is_open(found) && found.mode() & 0o1000 == 0)?;
    }
    Ok(real)
}

/// True if others than its owner may change names there. The bits of the group are also those of users and
/// groups that an access control list names (acl(5)), whatever the group is.
fn is_open(found: &Metadata) -> bool {
    found.mode() & 0o022 != 0
}

fn refuse_if(folder: &Path, is_wrong: impl Fn(&Metadata) -> bool) -> Result<(), FleetError> {
    let found = folder.symlink_metadata().map_err(FleetError::io("open", folder))?;
    let own = geteuid();
    if found.uid() == own.as_raw() && !is_wrong(&found) {
        return Ok(());
    }
    let folder = folder.display();
    Err(FleetError::Refused(match own.is_root() {
        true => format!(
            "root works only where others can change no name, and they can change `{folder}`: name a folder \
             that is root's, with all above it (--scratch for the store)"
        ),
        false => format!(
            "`{folder}` is not a folder of your own that others cannot write, so what is there may be \
             another's: remove it, or name another --scratch"
        ),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::is_root;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown};

    const UID: u32 = 65_532;
    const GID: u32 = 65_531;

    fn user() -> Owner {
        Owner { uid: UID, groups: vec![GID, 7] }
    }

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
        chown(&theirs, Some(UID), Some(GID)).unwrap();
        let found = Owner { uid: UID, groups: vec![GID] };
        let of = |folder: &Path| Owner::called_by(None, folder);
        assert_eq!(Owner::of_task_called_by(None, &theirs).unwrap(), Some(found));
        for below in [theirs.clone(), theirs.join("a/b")] {
            let orders = of(&below).unwrap_err().to_string();
            assert!(orders.contains(&format!("they can change `{}`", theirs.display())), "{orders}");
        }
        assert_eq!(of(folder.path()).unwrap(), None, "it is root's own");
        // An access control list gives a user no more than the bits of the group.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o775)).unwrap();
        assert!(of(folder.path()).is_err());
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let by_sudo = |folder: &Path| Owner::called_by(Some([UID + 1, 9]), folder).unwrap();
        let caller = Owner { uid: UID + 1, groups: vec![9] };
        assert_eq!([by_sudo(&theirs), by_sudo(Path::new("/tmp"))], [(); 2].map(|()| Some(caller.clone())));
        assert_eq!(by_sudo(folder.path()), None, "it is root's own still");
        let open = of(Path::new("/tmp")).unwrap_err().to_string();
        assert!(open.contains("they can change `/tmp`"), "{open}");
        assert_eq!((user().to_string().parse(), "65532".parse::<Owner>().is_err()), (Ok(user()), true));
        let groups = getgroups().unwrap();
        // The way through `/proc` to what another process of root's has open.
        let mut other =
            std::process::Command::new("sleep").arg("60").current_dir(folder.path()).spawn().unwrap();
        let through = Path::new("/proc").join(other.id().to_string()).join("cwd/theirs");
        assert!(through.exists());
        let inside = user().enter().unwrap();
        drop(user().enter().unwrap());
        assert_eq!(fs::read_dir(&through).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        other.kill().unwrap();
        other.wait().unwrap();
        // Also where the group of root might read it.
        assert_eq!(fs::read(&secret).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(fs::write(folder.path().join("new"), "").is_err());
        fs::write(theirs.join("new"), "").unwrap();
        let program = std::process::Command::new("cat").arg(&secret).output().unwrap();
        assert_eq!(program.stdout, b"s", "a program is root's");
        drop(inside);
        assert!(fs::set_permissions(&theirs, fs::Permissions::from_mode(0o700)).is_ok(), "all rights again");
        let new = fs::metadata(theirs.join("new")).unwrap();
        assert_eq!((new.uid(), new.gid()), (UID, GID));
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
        let made = own_folder(&at("missing/base"), Path::new("c-1/n1")).unwrap();
        assert_eq!(made, folder.path().canonicalize().unwrap().join("missing/base/c-1/n1"));
        assert_eq!(own_folder(&at("missing/base"), Path::new("c-1/n1")).unwrap(), made, "again");
        let refused = |base: &str, names: &str, what: &str| {
            let error = own_folder(&at(base), Path::new(names)).unwrap_err().to_string();
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
            chown(at(name), Some(UID), Some(GID)).unwrap();
        }
        refused("theirs", "c-1", "theirs");
        refused("theirs/below", "c-1", "theirs");
        refused("open", "c-1", "open");
        refused("sticky", "theirs/c-1", "sticky/theirs");
        own_folder(&at("sticky"), Path::new("c-1")).unwrap();
        // A link leads to what is root's, and its owner can let it lead elsewhere in the next moment.
        std::os::unix::fs::symlink(at("missing"), at("sticky/link")).unwrap();
        refused("sticky", "link/c-1", "sticky/link");
        let through = own_folder(&at("sticky/link"), Path::new("c-2")).unwrap();
        assert!(through.ends_with("missing/c-2"), "no name of it is a link: {}", through.display());
        assert!(!at("missing/c-1").exists() && !at("theirs/c-1").exists());
    }
}
