//! The target: the file, block device or NVMe namespace that is read or written, checked before it is
//! touched.
//!
//! This file opens targets. `real` checks that a file's data are on its device, `safety` what may be written;
//! `topology` says what is below a device, `namespace` what commands to a namespace need, `taking` what
//! forbids taking a drive from its driver; `make` makes a file to measure on. The engines do the I/O.

mod another;
mod blkid;
mod bypass;
mod callers;
mod descriptor;
mod error;
mod header;
mod loops;
mod make;
mod mounts;
mod namespace;
mod real;
mod safety;
mod signature;
mod sys;
mod taking;
mod topology;
mod writers;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;

pub use descriptor::Descriptor;
pub use error::{DataFault, DiskUse, PassthroughFault, TakeRefusal, TargetError, TargetFault};
pub use header::{FileId, HEADER_LEN, ParseFileIdError};
pub use loops::LoopBacking;
pub use make::{is_file_made_as, make_file, make_file_as, make_stand_in, remove_file_made_as};
pub use namespace::NvmeNamespace;
pub use sys::{nvme_feature, nvme_namespace_feature, set_nvme_feature, set_nvme_namespace_feature};
pub use taking::{TakeClaims, TakePlan, claim_for_taking, plan_taking, visible_namespace};
pub use topology::leaf_devices;

use crate::system::attribute;
use bypass::Bypass;
use descriptor::Handle;
use error::shown;
use header::Header;
use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use sys::AlignedBuffer;
use topology::Sysfs;

const SYSFS: &str = "/sys";

/// What a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TargetKind {
    /// A regular file.
    File,
    /// A block device or, for reading, a partition.
    BlockDevice,
    /// The generic character device of an NVMe namespace, `/dev/ngXnY`.
    NvmeGeneric,
    /// A namespace of a controller that this process drives.
    NvmeUser,
}

/// What the user allows to be written.
#[derive(Clone, Copy, Debug)]
pub enum WritePermission<'a> {
    /// The file that iopj made under this identity.
    OwnFile {
        /// What [`make_file`] returned.
        id: &'a FileId,
    },
    /// Everything on a device.
    DestroyData {
        /// The device as the user named it, in addition to the target.
        device: &'a Path,
        /// True to overwrite a device that carries a known signature. Overrides nothing else.
        i_know: bool,
    },
}

/// The exclusive claims on the devices of a target that is written, held as long as anyone may write to it.
/// Holding them open is enough: the kernel drops a claim when its descriptor is closed.
type Claims = Arc<[File]>;

/// An open target. It holds its descriptor and, where it may be written, the exclusive claims on its devices.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    kind: TargetKind,
    writable: bool,
    /// Absent with a controller, which needs none.
    file: Option<Handle>,
    claims: Claims,
    data_offset: u64,
    data_len: u64,
    logical_block: u32,
    devices: Vec<String>,
    device_id: u64,
    nvme: Option<NvmeNamespace>,
    bypass: Option<Bypass>,
    warnings: Vec<String>,
    file_id: Option<FileId>,
    /// The descriptor is the caller's.
    is_callers: bool,
}

/// What a path names, found without opening it for I/O.
enum Node {
    File,
    Block,
    /// With the sysfs directory of the block device of the same namespace.
    Generic(PathBuf),
}

impl Target {
    /// Opens a target for reading.
    ///
    /// # Errors
    /// Nothing is there; it is not a file, block device or NVMe namespace; it is empty, or not a multiple of
    /// the logical block long; a permission is missing; a file's data do not all lie on its device; direct
    /// I/O is not possible.
    pub fn open(path: &Path) -> Result<Target, TargetError> {
        let node = open_node(path, true)?;
        match classify(path, &node)? {
            Node::File => Target::of_file(path, &node, None),
            Node::Block => Target::of_device(path, &node, None, None),
            Node::Generic(block) => Target::of_device(path, &node, Some(block), None),
        }
    }

    /// Opens a target for reading and writing. No descriptor that could write exists before every check has
    /// passed.
    ///
    /// # Errors
    /// As for [`Target::open`]; and whatever forbids a write: a file that is not the one named by its
    /// identity, a partition, a device that differs from the one to destroy, or that is mounted, swap, held,
    /// in use, or carries a signature.
    pub fn open_for_writing(path: &Path, permission: WritePermission<'_>) -> Result<Target, TargetError> {
        match permission {
            WritePermission::OwnFile { id } => {
                let node = open_node(path, false)?;
                safety::require_own_inode(path, &metadata(path, &node)?)?;
                Target::of_file(path, &node, Some(id))
            }
            WritePermission::DestroyData { device, i_know } => {
                let (node, kind, claims) = safety::find_and_claim(path, device, i_know)?;
                let generic = if let Node::Generic(block) = kind { Some(block) } else { None };
                Target::of_device(path, &node, generic, Some(claims))
            }
        }
    }

    /// Takes a block device as what it shows: the file of this identity, which another host made and exports.
    /// Its header is kept from I/O, as it is in the file.
    ///
    /// # Errors
    /// It does not begin with that header, is not as long as the file, or cannot be read.
    pub fn of_exported_file(self, id: &FileId) -> Result<Target, TargetError> {
        let Target { path, file, data_len, logical_block, .. } = &self;
        let header = match file {
            Some(file) => read_header(path, file, *data_len, *logical_block)?,
            None => None,
        };
        safety::require_own_header(path, header.as_ref(), *data_len, id)?;
        let data_len = data_len - HEADER_LEN;
        Ok(Target { data_offset: HEADER_LEN, data_len, file_id: Some(*id), ..self })
    }

    fn of_file(path: &Path, node: &File, own: Option<&FileId>) -> Result<Target, TargetError> {
        let inode = metadata(path, node)?;
        let size = inode.size();
        refuse_page_cache(path, node)?;
        let remedy = "name a file with data, or let iopj make one";
        require_size(path, size, 1, remedy)?;
        let plain =
            sys::reopen(node, false, 0).map_err(|e| TargetError::opening(path, access(false), false, e))?;
        let mut warnings: Vec<String> = real::require_written(path, &plain, size)?.into_iter().collect();
        let logical_block = file_logical_block(path, node)?;
        require_size(path, size, logical_block, remedy)?;
        let mut file = open_direct(path, node, false)?;
        let header = read_header(path, &file, size, logical_block)?;
        if let Some(id) = own {
            safety::require_own_header(path, header.as_ref(), size, id)?;
        }
        if own.is_some() {
            file = open_direct(path, node, true)?;
        }
        let devices = file_devices(path, node, inode.dev(), &mut warnings)?;
        let header = header.filter(|header| header.file_len() == Some(size));
        let data_offset = if header.is_some() { HEADER_LEN } else { 0 };
        Ok(Target {
            path: path.to_owned(),
            kind: TargetKind::File,
            writable: own.is_some(),
            file: Some(file.into()),
            claims: Claims::default(),
            data_offset,
            data_len: size - data_offset,
            logical_block,
            devices,
            device_id: inode.dev(),
            nvme: None,
            bypass: None,
            warnings,
            file_id: header.map(|header| header.id),
            is_callers: false,
        })
    }

    /// A block device; with `generic` (the sysfs directory of the namespace's block device), an NVMe generic
    /// device.
    fn of_device(
        path: &Path,
        node: &File,
        generic: Option<PathBuf>,
        claims: Option<Vec<File>>,
    ) -> Result<Target, TargetError> {
        let device_id = metadata(path, node)?.rdev();
        let writable = claims.is_some();
        let (kind, flags) = match generic {
            Some(_) => (TargetKind::NvmeGeneric, 0),
            None => (TargetKind::BlockDevice, libc::O_DIRECT),
        };
        let file = sys::reopen(node, writable, flags)
            .map_err(|e| TargetError::opening(path, access(writable), true, e))?;
        let nvme = generic.as_deref().map(|block| NvmeNamespace::of(path, &file, block)).transpose()?;
        let (data_len, logical_block) = match (&generic, nvme) {
            // sysfs counts in sectors of 512 bytes, whatever the logical block.
            (Some(block), Some(namespace)) => {
                (attribute::<u64>(block, "size").unwrap_or(0).saturating_mul(512), namespace.logical_block())
            }
            _ => (
                sys::block_device_size(&file)
                    .map_err(TargetError::system(path, "asking its size (BLKGETSIZE64)"))?,
                sys::logical_block_size(&file)
                    .map_err(TargetError::system(path, "asking its logical block (BLKSSZGET)"))?,
            ),
        };
        require_size(path, data_len, logical_block, NO_CAPACITY)?;
        let dir = generic.or_else(|| Sysfs::new(Path::new(SYSFS)).block_dir(device_id).ok());
        let number = dir.as_deref().and_then(topology::number);
        let leaves = number.and_then(|number| leaf_devices(Path::new(SYSFS), number).ok());
        Ok(Target {
            path: path.to_owned(),
            kind,
            writable,
            file: Some(file.into()),
            claims: claims.unwrap_or_default().into(),
            data_offset: 0,
            data_len,
            logical_block,
            devices: leaves.unwrap_or_default(),
            device_id,
            nvme,
            bypass: None,
            warnings: dir.map(|dir| device_warnings(path, &dir, data_len)).unwrap_or_default(),
            file_id: None,
            is_callers: false,
        })
    }

    /// A new descriptor of the very same inode with a file description of its own: close-on-exec, direct
    /// (except an NVMe generic device), for writing too where the target may be written. It keeps the
    /// target's claims.
    ///
    /// # Errors
    /// Descriptors ran out, or a permission was withdrawn; a controller that this process drives has no
    /// descriptor.
    pub fn reopen(&self) -> Result<Descriptor, TargetError> {
        let flags = if self.kind == TargetKind::NvmeGeneric { 0 } else { libc::O_DIRECT };
        let Some(file) = &self.file else {
            return Err(TargetFault::Taken(self.taken()).of(&self.path));
        };
        if let Some(same) = file.of_callers() {
            return Ok(Descriptor::new(same, &self.claims));
        }
        let file = sys::reopen(file, self.writable, flags);
        let is_device = self.kind != TargetKind::File;
        let file = file.map_err(|e| TargetError::opening(&self.path, access(self.writable), is_device, e))?;
        Ok(Descriptor::new(file.into(), &self.claims))
    }

    /// The path that was asked for.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the target is.
    pub fn kind(&self) -> TargetKind {
        self.kind
    }

    /// True if the target was opened for writing.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// The first byte that I/O may touch: [`HEADER_LEN`] in a file that iopj made, else 0.
    pub fn data_offset(&self) -> u64 {
        self.data_offset
    }

    /// Bytes from [`Target::data_offset`] on that I/O may touch, a multiple of the logical block.
    pub fn data_len(&self) -> u64 {
        self.data_len
    }

    /// Alignment in bytes of the offsets and lengths of direct I/O.
    pub fn logical_block(&self) -> u32 {
        self.logical_block
    }

    /// Kernel names of the whole disks below, as under `/sys/block`, sorted; empty where there are none, as
    /// on a network file system.
    pub fn devices(&self) -> &[String] {
        &self.devices
    }

    /// Device number (`dev_t`): of the device itself, or of the file system that a file lies on.
    pub fn device_id(&self) -> u64 {
        self.device_id
    }

    /// The namespace of an NVMe generic device.
    pub fn nvme(&self) -> Option<NvmeNamespace> {
        self.nvme
    }

    /// Sentences for the user about what may keep I/O from reaching the medium.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What tells a file from another of its name and size, where its file system keeps that: its inode, and
    /// when it was made.
    pub fn inode(&self) -> Option<String> {
        let file = self.file.as_ref().filter(|_| self.kind == TargetKind::File)?;
        sys::inode(file).ok().flatten()
    }

    /// The identity in the header of a file that iopj made.
    pub fn file_id(&self) -> Option<&FileId> {
        self.file_id.as_ref()
    }
}

const NO_CAPACITY: &str =
    "give it a capacity (zram: disksize; loop: losetup; a card reader: a card), or name another device";

fn access(write: bool) -> &'static str {
    if write { "opened for writing" } else { "opened for reading" }
}

fn metadata(path: &Path, node: &File) -> Result<Metadata, TargetError> {
    node.metadata().map_err(TargetError::system(path, "asking what it is"))
}

fn open_node(path: &Path, follow: bool) -> Result<File, TargetError> {
    sys::open_path(path, follow).map_err(|e| TargetError::opening(path, "reached", false, e))
}

/// What the path names; anything that cannot be a target is refused.
fn classify(path: &Path, node: &File) -> Result<Node, TargetError> {
    let inode = metadata(path, node)?;
    let kind = inode.file_type();
    let wrong = |what| TargetFault::WrongKind(what).of(path);
    if kind.is_file() {
        Ok(Node::File)
    } else if kind.is_block_device() {
        Ok(Node::Block)
    } else if kind.is_char_device() {
        let block = Sysfs::new(Path::new(SYSFS)).block_of_generic(inode.rdev());
        block.map(Node::Generic).ok_or_else(|| wrong("character device that is not an NVMe namespace"))
    } else if kind.is_dir() {
        Err(TargetFault::Directory.of(path))
    } else {
        Err(wrong(if kind.is_fifo() { "fifo" } else { "socket" }))
    }
}

fn require_size(
    path: &Path,
    bytes: u64,
    logical_block: u32,
    remedy: &'static str,
) -> Result<(), TargetError> {
    if bytes == 0 {
        return Err(TargetFault::Empty(remedy).of(path));
    }
    if !bytes.is_multiple_of(logical_block.into()) {
        return Err(TargetFault::NotMultiple { bytes, logical_block }.of(path));
    }
    Ok(())
}

/// Refuses file systems that live in the page cache. New kernels accept `O_DIRECT` on tmpfs and serve it from
/// memory.
fn refuse_page_cache(path: &Path, node: &File) -> Result<(), TargetError> {
    const RAMFS_MAGIC: u64 = 0x8584_58f6;
    let magic =
        sys::file_system_magic(node).map_err(TargetError::system(path, "asking for its file system"))?;
    if [RAMFS_MAGIC, libc::TMPFS_MAGIC as u64, libc::HUGETLBFS_MAGIC as u64].contains(&magic) {
        return Err(no_direct_io(path, node));
    }
    Ok(())
}

fn no_direct_io(path: &Path, node: &File) -> TargetError {
    let mount = mounts::of_file(node).ok().flatten();
    let file_system = mount.map_or_else(|| "a file system".to_owned(), |mount| mount.fs_type);
    TargetFault::NoDirectIo(file_system).of(path)
}

fn open_direct(path: &Path, node: &File, write: bool) -> Result<File, TargetError> {
    sys::reopen(node, write, libc::O_DIRECT).map_err(|e| match e.raw_os_error() {
        Some(libc::EINVAL) => no_direct_io(path, node),
        _ => TargetError::opening(path, access(write), false, e),
    })
}

/// What statx says, else the logical block of the file system's device, else a page, which suits every
/// device.
fn file_logical_block(path: &Path, node: &File) -> Result<u32, TargetError> {
    match sys::dio_offset_align(node).ok().flatten() {
        Some(0) => Err(no_direct_io(path, node)),
        Some(bytes) => Ok(bytes),
        None => {
            let dir = Sysfs::new(Path::new(SYSFS)).block_dir(metadata(path, node)?.dev()).ok();
            let block = dir.and_then(|dir| attribute(&topology::whole(&dir), "queue/logical_block_size"));
            Ok(block.filter(|bytes| *bytes > 0).unwrap_or(4096))
        }
    }
}

fn read_header(
    path: &Path,
    file: &File,
    size: u64,
    logical_block: u32,
) -> Result<Option<Header>, TargetError> {
    let length = u64::from(logical_block).max(4096);
    if size < length {
        return Ok(None);
    }
    let mut buffer = AlignedBuffer::new(length as usize);
    file.read_exact_at(buffer.bytes(), 0).map_err(TargetError::system(path, "reading its first block"))?;
    Ok(Header::decode(buffer.bytes()))
}

/// The whole disks below a file: by the file system's device number, or by its mount if that number names no
/// device (major 0).
fn file_devices(
    path: &Path,
    node: &File,
    device: u64,
    warnings: &mut Vec<String>,
) -> Result<Vec<String>, TargetError> {
    let sysfs = Sysfs::new(Path::new(SYSFS));
    let mount = mounts::of_file(node).map_err(TargetError::system(path, "looking for its mount"))?;
    let numbers = match &mount {
        _ if libc::major(device) != 0 => vec![device],
        Some(mount) => sysfs.devices_of_mount(mount),
        None => Vec::new(),
    };
    let mut leaves: Vec<String> =
        numbers.iter().filter_map(|number| leaf_devices(Path::new(SYSFS), *number).ok()).flatten().collect();
    leaves.sort();
    leaves.dedup();
    if leaves.is_empty() {
        let fs_type = mount.map_or_else(|| "a file system".to_owned(), |mount| mount.fs_type);
        warnings.push(format!(
            "`{}` is on {fs_type}, which shows no block device here: iopj cannot see what reaches a medium",
            shown(path)
        ));
    }
    Ok(leaves)
}

/// Warnings about a block device that may answer reads without its medium.
fn device_warnings(path: &Path, dir: &Path, size: u64) -> Vec<String> {
    let dir = topology::whole(dir);
    let path = shown(path);
    if let Some(stored) = attribute::<String>(&dir, "mm_stat").and_then(|text| zram_stored(&text)) {
        let warning = format!(
            "`{path}` stores {stored} of its {size} bytes: the rest was never written or is uniform, and is \
             read without work; write it in full with incompressible data"
        );
        return if stored < size { vec![warning] } else { Vec::new() };
    }
    if attribute::<u64>(&dir, "queue/discard_max_bytes").unwrap_or(0) > 0 {
        return vec![format!(
            "`{path}` supports discard: blocks that were trimmed or never written may be answered without \
             the medium"
        )];
    }
    Vec::new()
}

/// Bytes that zram really stores, from its `mm_stat` (Documentation/admin-guide/blockdev/zram.rst): the
/// original size, less the pages of one repeated word that it includes.
fn zram_stored(mm_stat: &str) -> Option<u64> {
    let fields: Vec<u64> = mm_stat.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let [original, _compressed, _used, _limit, _max, same_pages, ..] = fields[..] else { return None };
    Some(original.saturating_sub(same_pages.saturating_mul(rustix::param::page_size() as u64)))
}
