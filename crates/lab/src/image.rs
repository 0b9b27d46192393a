//! The guest's root: an initramfs of busybox, programs of the host with their libraries, and kernel modules,
//! written without root and without other programs.

mod cpio;
mod error;
pub(crate) mod init;
mod modules;
mod program;

pub use error::ImageError;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::arch::Arch;
use crate::host_tools::find;
use cpio::Archive;
pub use modules::{ModuleWish, built_in_options, has_module};
pub use program::Program;

/// What a guest contains and does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuestSpec {
    /// The guest's processor.
    pub arch: Arch,
    /// A busybox for it; this host's own if it has the same.
    pub busybox: Option<PathBuf>,
    /// Programs of the host, found in the guest as `/bin/NAME`.
    pub programs: Vec<Program>,
    /// Kernel modules that are loaded before the script runs, in this order, each after what it needs.
    pub modules: Vec<ModuleWish>,
    /// Further files.
    pub files: Vec<GuestFile>,
    /// A script for busybox's shell. Its output goes to the console; what it leaves in `/out` is handed out
    /// with its exit status.
    pub script: String,
}

/// The script of a guest with a shell on its console; it ends with the shell. A session's end hangs up its
/// terminal and discards unprinted output: stty first waits until everything is printed.
pub const SHELL: &str = "setsid cttyhack sh -c 'sh; stty sane' </dev/console >/dev/console 2>&1\n";

/// A file of the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestFile {
    /// The path from the guest's root.
    pub path: String,
    /// The content.
    pub content: Vec<u8>,
    /// The permission bits, `0o644`.
    pub mode: u32,
}

/// Writes the initramfs for this guest and the kernel `release`, whose modules are uncompressed in
/// `kernel_modules` (the folder that holds modules.dep).
///
/// # Errors
/// [`ImageError`]: what is missing on the host or in the kernel, and how to get it.
pub fn build(spec: &GuestSpec, kernel_modules: &Path, release: &str, out: &Path) -> Result<(), ImageError> {
    let mut archive = base(spec.busybox.as_deref())?;
    archive.folder(init::OUT_FOLDER);
    let library_folders = add_programs(&mut archive, spec)?;
    // The port for the guest's output needs both, whatever the caller wants.
    let mut wishes = spec.modules.clone();
    wishes.extend(["virtio_pci", "virtio_console"].map(ModuleWish::plain));
    let loads = modules::order(kernel_modules, release, &wishes)?;
    for load in &loads {
        archive.host_file(&init::module_path(load), &modules::file(kernel_modules, release, load)?, 0o644);
    }
    for file in &spec.files {
        archive.bytes(&file.path, file.content.clone(), file.mode);
    }
    archive.bytes("lab/run", spec.script.clone().into_bytes(), 0o755);
    archive.bytes("init", init::script(&loads, &library_folders).into_bytes(), 0o755);
    write(&archive, out)
}

/// Writes an initramfs of busybox alone whose first process is this script.
pub(crate) fn build_bare(script: &str, out: &Path) -> Result<(), ImageError> {
    let mut archive = base(None)?;
    archive.bytes("init", script.as_bytes().to_vec(), 0o755);
    write(&archive, out)
}

fn write(archive: &Archive, out: &Path) -> Result<(), ImageError> {
    let at_out = |source| ImageError::File { path: out.to_path_buf(), source };
    let mut writer = BufWriter::with_capacity(1 << 20, File::create(out).map_err(at_out)?);
    archive.write(&mut writer).map_err(|(path, source)| ImageError::File { path, source })?;
    writer.flush().map_err(at_out)
}

/// Busybox, the names of its applets, and the folders that the init script mounts on. This host's busybox
/// says which applets there are, for it may be unable to run the guest's.
fn base(of_guest: Option<&Path>) -> Result<Archive, ImageError> {
    let own = find("busybox").ok_or(ImageError::NoBusybox)?;
    let busybox = of_guest.unwrap_or(&own);
    if program::interpreter(busybox)?.is_some() {
        return Err(ImageError::DynamicBusybox(busybox.to_owned()));
    }
    let applets = Command::new(&own)
        .arg("--list")
        .output()
        .map_err(|source| ImageError::File { path: own.clone(), source })?;
    let mut archive = Archive::default();
    for folder in ["dev", "proc", "sys", "tmp", "run", "root", "etc", "sbin", "mnt"] {
        archive.folder(folder);
    }
    // The kernel opens it for the first process, before anything is mounted.
    archive.character("dev/console", 5, 1);
    for applet in String::from_utf8_lossy(&applets.stdout).split_ascii_whitespace() {
        archive.link(&format!("bin/{applet}"), "busybox");
    }
    archive.host_file("bin/busybox", busybox, 0o755);
    Ok(archive)
}

/// A program's path in the archive. `init.sh` copies programs into `/tmp` and `/run` after mounting these.
fn place(name: &str) -> String {
    match name.strip_prefix('/') {
        None => format!("bin/{name}"),
        Some(path) if ["tmp/", "run/"].iter().any(|folder| path.starts_with(folder)) => {
            format!("lab/late/{path}")
        }
        Some(path) => path.to_owned(),
    }
}

/// Adds programs and their libraries; returns the libraries' folders.
fn add_programs(archive: &mut Archive, spec: &GuestSpec) -> Result<Vec<String>, ImageError> {
    let mut folders = BTreeSet::new();
    for program in &spec.programs {
        archive.host_file(&place(&program.name), &program.host, 0o755);
        for library in program.libraries(spec.arch)? {
            archive.host_file(&library.to_string_lossy(), &library, 0o755);
            folders.extend(library.parent().map(|folder| folder.to_string_lossy().into_owned()));
        }
    }
    Ok(folders.into_iter().collect())
}
