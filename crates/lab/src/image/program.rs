//! A program and the shared libraries that it needs, found by asking the program's own loader.

use iopj_core::files::open_regular;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::ImageError;
use crate::arch::Arch;
use crate::elf::{self, ProgramHeader, number};
use crate::host_tools::find;

/// A program of the host that goes into the guest as `/bin/NAME`, or under its own path, with its loader and
/// libraries at the host's paths. A script brings the program that its first line names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The name in the guest: a name in `/bin`, or a whole path.
    pub name: String,
    /// The file on the host.
    pub host: PathBuf,
}

impl Program {
    /// The program that runs now, even if its file has been replaced since it started.
    pub fn running(name: &str) -> Program {
        // By number: the loader, asked about /proc/self/exe, would look at itself.
        Program { name: name.to_owned(), host: PathBuf::from(format!("/proc/{}/exe", std::process::id())) }
    }

    /// The iopj for a processor: the program that runs now, or `iopj-ARCHITECTURE` beside it.
    ///
    /// # Errors
    /// [`ImageError::NoIopj`] if there is none.
    pub fn iopj(arch: Arch) -> Result<Program, ImageError> {
        if arch == Arch::HOST {
            return Ok(Program::running("iopj"));
        }
        let own = std::env::current_exe().unwrap_or_default();
        let host = own.with_file_name(format!("iopj-{arch}"));
        if host.is_file() {
            return Ok(Program { name: "iopj".to_owned(), host });
        }
        Err(ImageError::NoIopj { arch, path: host })
    }

    /// The program of this name in the folders of `$PATH`.
    ///
    /// # Errors
    /// [`ImageError::NoProgram`] if there is none.
    pub fn named(name: &str) -> Result<Program, ImageError> {
        match find(name) {
            Some(host) => Ok(Program { name: name.to_owned(), host }),
            None => Err(ImageError::NoProgram(name.to_owned())),
        }
    }

    /// The program with this name in `$PATH`, or at this absolute path, which it keeps in the guest; for a
    /// script, its interpreter too.
    ///
    /// # Errors
    /// [`ImageError::NoProgram`], [`ImageError::RelativeProgram`], [`ImageError::Unreadable`], or a script
    /// that cannot be read.
    pub fn called(called: &str) -> Result<Vec<Program>, ImageError> {
        if !called.contains('/') {
            return Ok(vec![Program::named(called)?]);
        }
        let host = PathBuf::from(called);
        if !host.is_absolute() {
            return Err(ImageError::RelativeProgram(host));
        }
        open_regular(&host).map_err(|source| ImageError::Unreadable { path: host.clone(), source })?;
        let mut programs = vec![Program { name: called.to_owned(), host: host.clone() }];
        for interpreter in script_interpreters(&host)? {
            programs.extend(Program::called(&interpreter)?);
        }
        Ok(programs)
    }

    /// The loader and the shared libraries, as absolute paths of the host; empty for a static program, which
    /// one for another processor than this host's must be.
    ///
    /// The loader is run with `--list` (ld.so(8)), which glibc's and musl's loaders both know and which does
    /// not start the program.
    pub(super) fn libraries(&self, arch: Arch) -> Result<Vec<PathBuf>, ImageError> {
        if script_line(&self.host)?.is_some() {
            return Ok(Vec::new());
        }
        let path = || self.host.clone();
        if Elf::open(&self.host)?.is_some_and(|elf| elf.machine() != Some(arch.elf_machine())) {
            return Err(ImageError::OtherProcessor { path: path(), arch });
        }
        let loader = match interpreter(&self.host)? {
            Some(_) if arch != Arch::HOST => return Err(ImageError::Dynamic { path: path(), arch }),
            // A plugin names no loader: the program that loads it has this machine's.
            None if is_shared_object(&self.host)? => interpreter(Path::new("/proc/self/exe"))?,
            named => named,
        };
        let Some(loader) = loader else { return Ok(Vec::new()) };
        let output = Command::new(&loader)
            .arg("--list")
            .arg(&self.host)
            .output()
            .map_err(|source| ImageError::File { path: loader.clone(), source })?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let cause = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(ImageError::Libraries { program: self.host.clone(), cause });
        }
        let mut libraries = listed(&text).map_err(|library| ImageError::Libraries {
            program: self.host.clone(),
            cause: format!("{library} is missing"),
        })?;
        libraries.push(loader);
        libraries.sort();
        libraries.dedup();
        Ok(libraries)
    }
}

/// The first line of a script, without `#!`.
fn script_line(path: &Path) -> Result<Option<String>, ImageError> {
    let file_error = |source| ImageError::File { path: path.to_path_buf(), source };
    let mut begin = Vec::new();
    // The kernel reads no more (BINPRM_BUF_SIZE).
    open_regular(path).map_err(file_error)?.take(256).read_to_end(&mut begin).map_err(file_error)?;
    let line = begin.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(line.strip_prefix(b"#!").map(|line| String::from_utf8_lossy(line).trim().to_owned()))
}

/// What runs a script: the program of its first line and, after `env`, the one that `env` looks for.
/// Busybox's shell is in the guest.
fn script_interpreters(path: &Path) -> Result<Vec<String>, ImageError> {
    let Some(line) = script_line(path)? else { return Ok(Vec::new()) };
    let mut words = line.split_ascii_whitespace().map(str::to_owned);
    let Some(program) = words.next().filter(|program| program != "/bin/sh") else { return Ok(Vec::new()) };
    let looked_for = words.find(|word| !word.starts_with('-') && !word.contains('='));
    let is_env = program.ends_with("/env");
    Ok(std::iter::once(program).chain(looked_for.filter(|_| is_env)).collect())
}

/// True for an ELF file that is loaded into a program (a `.so`, whatever its name): dynamic, and without an
/// interpreter.
fn is_shared_object(path: &Path) -> Result<bool, ImageError> {
    let Some(elf) = Elf::open(path)? else { return Ok(false) };
    // A program that was linked statically to run anywhere is dynamic as well, but has an entry point.
    let starts = number::<8>(&elf.header, 24) != Some(0);
    Ok(!starts && elf.program_headers.iter().any(|header| header.kind == elf::DYNAMIC))
}

/// What is read of an ELF file.
struct Elf {
    file: File,
    header: Vec<u8>,
    program_headers: Vec<ProgramHeader>,
}

impl Elf {
    /// The processor that it is for, by its number.
    fn machine(&self) -> Option<u64> {
        number::<2>(&self.header, 0x12)
    }

    /// Opens a file; `None` if it is no 64-bit little-endian ELF file.
    fn open(path: &Path) -> Result<Option<Elf>, ImageError> {
        let file_error = |source| ImageError::File { path: path.to_path_buf(), source };
        let mut file = open_regular(path).map_err(file_error)?;
        let mut header = Vec::new();
        file.by_ref().take(elf::HEADER_BYTES as u64).read_to_end(&mut header).map_err(file_error)?;
        let known = header.len() == elf::HEADER_BYTES && header.starts_with(b"\x7fELF\x02\x01");
        let Some((offset, size, count)) = elf::table(&header).filter(|(_, size, _)| known && *size >= 56)
        else {
            return Ok(None);
        };
        file.seek(SeekFrom::Start(offset)).map_err(file_error)?;
        let mut table = Vec::new();
        file.by_ref().take(size * count).read_to_end(&mut table).map_err(file_error)?;
        let entries = table.chunks_exact(size as usize);
        let program_headers = entries.filter_map(|entry| elf::program_header(entry, 0)).collect();
        Ok(Some(Elf { file, header, program_headers }))
    }
}

/// The absolute paths that `ld.so --list` prints; the error is the first library that was not found.
fn listed(text: &str) -> Result<Vec<PathBuf>, String> {
    let mut libraries = Vec::new();
    for line in text.lines().map(str::trim) {
        let (name, place) = line.split_once(" => ").unwrap_or((line, line));
        if place == "not found" {
            return Err(name.to_owned());
        }
        // The rest of the line is the address; what has no path is the kernel's own object.
        let place = place.rsplit_once(" (").map_or(place, |(place, _)| place);
        if place.starts_with('/') {
            libraries.push(PathBuf::from(place));
        }
    }
    Ok(libraries)
}

/// The program interpreter that a 64-bit ELF file names (PT_INTERP); `None` for a static program.
pub(super) fn interpreter(path: &Path) -> Result<Option<PathBuf>, ImageError> {
    let not_elf = || ImageError::NotElf(path.to_path_buf());
    let file_error = |source| ImageError::File { path: path.to_path_buf(), source };
    let Elf { mut file, program_headers, .. } = Elf::open(path)?.ok_or_else(not_elf)?;
    let Some(segment) = program_headers.iter().find(|header| header.kind == elf::INTERPRETER) else {
        return Ok(None);
    };
    file.seek(SeekFrom::Start(segment.offset)).map_err(file_error)?;
    let mut name = Vec::new();
    // No path is longer than PATH_MAX.
    file.take(segment.bytes.min(4096)).read_to_end(&mut name).map_err(file_error)?;
    let name = name.strip_suffix(b"\0").ok_or_else(not_elf)?;
    Ok(Some(PathBuf::from(std::ffi::OsStr::from_bytes(name))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_lists_what_this_program_needs() {
        let libraries = Program::running("iopj").libraries(Arch::HOST).unwrap();
        let loader = interpreter(Path::new("/proc/self/exe")).unwrap().unwrap();
        assert!(libraries.contains(&loader), "{libraries:?}");
        assert!(libraries.iter().any(|library| library.ends_with("libc.so.6")), "{libraries:?}");
        assert!(libraries.iter().all(|library| library.is_file()), "{libraries:?}");
    }

    #[test]
    fn a_plugin_brings_its_libraries_and_a_script_its_interpreter() {
        // Any library that this program has is a shared object like a plugin.
        let libc = Program::running("iopj").libraries(Arch::HOST).unwrap();
        let libc = libc.iter().find(|library| library.ends_with("libc.so.6")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("meter");
        let called = |path: &Path| Program::called(path.to_str().unwrap());
        let names = |line: &str| -> Vec<String> {
            std::fs::write(&script, format!("{line}\necho 1\n")).unwrap();
            called(&script).unwrap().into_iter().map(|program| program.name).collect()
        };
        let own = script.to_str().unwrap().to_owned();
        assert_eq!(names("#!/bin/sh -e"), std::slice::from_ref(&own));
        assert_eq!(called(&script).unwrap()[0].libraries(Arch::HOST).unwrap(), Vec::<PathBuf>::new());
        assert_eq!(names("#! /bin/cat"), [own.clone(), "/bin/cat".to_owned()]);
        assert_eq!(names("#!/usr/bin/env -S A=1 cat"), [own, "/usr/bin/env".to_owned(), "cat".to_owned()]);
        assert!(called(libc).unwrap()[0].libraries(Arch::HOST).is_ok());
        let message = Program::called("build/spdk_nvme").unwrap_err().to_string();
        assert!(message.contains("`build/spdk_nvme`") && message.contains("whole path"), "{message}");
        assert!(Program::called("no-such-program-here").is_err());
    }

    #[test]
    fn a_program_for_another_processor_must_be_linked_statically() {
        let other = Arch::ALL.into_iter().find(|arch| *arch != Arch::HOST).unwrap();
        let own = Program::running("iopj");
        let message = own.libraries(other).unwrap_err().to_string();
        assert!(message.contains(&format!("is not a program for {other}")), "{message}");
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = std::fs::read("/proc/self/exe").unwrap();
        bytes[0x12] = other.elf_machine() as u8;
        let host = folder.path().join("iopj");
        std::fs::write(&host, bytes).unwrap();
        let foreign = Program { name: "iopj".to_owned(), host };
        let message = foreign.libraries(other).unwrap_err().to_string();
        assert!(message.contains("link it statically"), "{message}");
        let message = Program::iopj(other).unwrap_err().to_string();
        assert!(message.contains(&format!("/iopj-{other}`: build it by")), "{message}");
    }

    #[test]
    fn what_is_not_elf_is_refused() {
        let error = interpreter(Path::new("/proc/self/stat")).unwrap_err().to_string();
        assert_eq!(error, "`/proc/self/stat` is not a 64-bit ELF program: name one that is");
    }

    #[test]
    fn the_list_is_read() {
        let text = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibm.so.6 => /lib/x/libm.so.6 \
                    (0x00007f84)\n\t/lib64/ld.so.2 (0x7f)\n";
        assert_eq!(
            listed(text),
            Ok(vec![PathBuf::from("/lib/x/libm.so.6"), PathBuf::from("/lib64/ld.so.2")])
        );
        assert_eq!(listed("\tlibaio.so.1 => not found\n"), Err("libaio.so.1".to_owned()));
    }

    proptest::proptest! {
        #[test]
        fn no_header_makes_it_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("program");
            let mut elf = b"\x7fELF\x02\x01".to_vec();
            elf.extend(bytes);
            std::fs::write(&file, elf).unwrap();
            let _ = interpreter(&file);
        }
    }
}
