//! Standard output, standard error and files: results, and one message per error. A closed pipe is no error.

use crate::log;
use anyhow::Context;
use iopj_report::html::Figures;
use iopj_report::{escape, escape_json, escape_lines};
use rustix::fs::{CWD, OFlags, RenameFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::geteuid;
use serde_json::json;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// A usage or set-up error.
pub(crate) const USAGE: u8 = 2;
/// The study found failures.
pub(crate) const FAILURES: u8 = 1;
/// Interrupted by a signal.
pub(crate) const INTERRUPTED: u8 = 130;

/// Prints results, made harmless for whoever reads them. A reader that has seen enough (`| head`) is no
/// error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    print_as_it_is(&escape_lines(text))
}

fn print_as_it_is(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(anyhow::anyhow!("standard output cannot be written: {error}")),
        Ok(()) => Ok(()),
    }
}

/// Prints a value as JSON.
pub(crate) fn print_json(value: &serde_json::Value) -> anyhow::Result<()> {
    print_as_it_is(&escape_json(&format!("{value:#}\n")))
}

/// Prints what `write` writes, made harmless, while it is being written.
pub(crate) fn print_written<E: Into<anyhow::Error>>(
    form: Form,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> anyhow::Result<()> {
    let mut safe = Safe { form, lines: Vec::new(), out: io::stdout().lock(), failed: None };
    let written = write(&mut safe).map_err(Into::into).and_then(|()| Ok(safe.flush()?));
    match safe.failed {
        Some(io::ErrorKind::BrokenPipe) => Ok(()),
        Some(_) => written.context("standard output cannot be written"),
        None => written,
    }
}

/// What is printed while it is being written.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    Text,
    Json,
}

/// Passes whole lines on, made harmless.
struct Safe<W: Write> {
    form: Form,
    lines: Vec<u8>,
    out: W,
    /// How passing on failed: the error itself may reach the caller as a text.
    failed: Option<io::ErrorKind>,
}

/// How much of it waits for the end of a line.
const PASSED_AT_ONCE: usize = 1 << 16;

impl<W: Write> Safe<W> {
    fn pass_on(&mut self, up_to: usize) -> io::Result<()> {
        let rest = self.lines.split_off(up_to);
        let lines = std::mem::replace(&mut self.lines, rest);
        let text = String::from_utf8(lines)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        let safe = match self.form {
            Form::Text => escape_lines(&text),
            Form::Json => escape_json(&text),
        };
        self.out.write_all(safe.as_bytes()).inspect_err(|error| self.failed = Some(error.kind()))
    }
}

impl<W: Write> Write for Safe<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lines.extend_from_slice(bytes);
        if self.lines.len() >= PASSED_AT_ONCE
            && let Some(end) = self.lines.iter().rposition(|byte| *byte == b'\n')
        {
            self.pass_on(end + 1)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass_on(self.lines.len())?;
        self.out.flush().inspect_err(|error| self.failed = Some(error.kind()))
    }
}

/// Writes a file and prints its name.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    write_file(path, bytes)?;
    print(&format!("{}\n", path.display()))
}

/// Writes a file beside its name and renames it: there is the old one or the new one, whole. What is no
/// regular file, such as `/dev/stdout`, is written as it is; a drive never is.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    write_whole(path, bytes)
        .with_context(|| format!("{} cannot be written: name another file", path.display()))
}

pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if is_stream(path) {
        return fs::write(path, bytes);
    }
    refuse_links_of_others(path)?;
    let place = match fs::symlink_metadata(path) {
        // A link in a folder of others could lead root anywhere.
        Ok(found) if found.is_symlink() && is_root() => {
            return Err(io::Error::other("it is a symbolic link, which root does not follow"));
        }
        Ok(found) if found.is_symlink() => path.canonicalize()?,
        _ => path.to_owned(),
    };
    let before = fs::symlink_metadata(&place).ok();
    if before.as_ref().is_some_and(|found| !found.is_file()) {
        return write_special(&place, bytes);
    }
    // The mode of another's file would give root's to that user, and set-uid would give root itself.
    let own = before.filter(|before| before.uid() == geteuid().as_raw());
    let permissions = own.map(|before| fs::Permissions::from_mode(before.mode() & 0o777));
    let aside = aside(&place)?;
    write_aside(&aside, permissions, bytes)
        .and_then(|()| fs::rename(&aside, &place))
        .inspect_err(|_| drop(fs::remove_file(&aside)))
}

/// True for this process's own streams, which lead to a file where the shell has made one.
fn is_stream(path: &Path) -> bool {
    let is_number = |name: &OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    [Path::new("/dev/stdout"), Path::new("/dev/stderr")].contains(&path)
        || ["/dev/fd", "/proc/self/fd"].iter().any(|of| path.parent() == Some(Path::new(of)))
            && path.file_name().is_some_and(is_number)
}

/// Writes what is there and no file: a pipe, a terminal.
fn write_special(place: &Path, bytes: &[u8]) -> io::Result<()> {
    let is_drive = |found: io::Result<fs::Metadata>| found.map(|found| found.file_type().is_block_device());
    let refused = || Err(io::Error::other("it is a drive, which only --target names"));
    // Before it is opened, and again once nothing can come in its place.
    if is_drive(fs::symlink_metadata(place))? {
        return refused();
    }
    let mut file = open_special(place)?;
    if is_drive(file.metadata())? {
        return refused();
    }
    file.write_all(bytes)
}

/// How long a pipe may have no reader: whoever makes one may start the reader a moment later.
const READER: Duration = Duration::from_millis(if cfg!(test) { 100 } else { 10_000 });

/// Opens what is there and no file, through no link, and waits for nobody who may never come.
fn open_special(place: &Path) -> io::Result<fs::File> {
    let until = Instant::now() + READER;
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = loop {
        match fs::OpenOptions::new().write(true).custom_flags(flags).open(place) {
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                if Instant::now() > until {
                    return Err(io::Error::other("it is a pipe or a socket, and nobody reads it"));
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            opened => break opened?,
        }
    };
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Refuses a way for root to a file through a link of another user: it could lead anywhere, and be another
/// one by now.
fn refuse_links_of_others(path: &Path) -> io::Result<()> {
    let folders = path.ancestors().skip(1).filter(|folder| is_root() && !folder.as_os_str().is_empty());
    for folder in folders {
        let found = fs::symlink_metadata(folder);
        if found.is_ok_and(|found| found.is_symlink() && found.uid() != 0) {
            return Err(io::Error::other(format!(
                "its folder {} is a symbolic link of another user, which root does not follow",
                folder.display()
            )));
        }
    }
    Ok(())
}

fn write_aside(aside: &Path, permissions: Option<fs::Permissions>, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::File::create_new(aside)?;
    permissions.map_or(Ok(()), |permissions| file.set_permissions(permissions))?;
    file.write_all(bytes).and_then(|()| file.sync_all())
}

/// A name beside a file that nobody can guess.
fn aside(path: &Path) -> io::Result<PathBuf> {
    let mut random = [0; 8];
    fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".new{:016x}", u64::from_ne_bytes(random)));
    Ok(name.into())
}

fn is_root() -> bool {
    geteuid().is_root()
}

/// Why a command or an option is refused that this build lists and leaves out.
#[cfg(not(feature = "parquet"))]
pub(crate) fn without_parquet(what: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "`{what}` is not in this build, which leaves Parquet out: build iopj by `cargo build --release \
         --features parquet`, or install a package of it, which has all"
    )
}

/// Writes a file for the option that names it, as [`write_file`] does.
#[cfg(feature = "parquet")]
pub(crate) fn write_for(option: &str, path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    write_whole(path, bytes)
        .with_context(|| format!("{option}: {} cannot be written: name another place", path.display()))
}

/// Writes a file that must not exist yet, for the option that names it: it is there whole, or not at all.
pub(crate) fn write_new(option: &str, path: &Path, text: &str) -> anyhow::Result<()> {
    let written = || {
        refuse_links_of_others(path)?;
        let aside = aside(path)?;
        write_aside(&aside, None, text.as_bytes())
            .and_then(|()| rename_to_new(&aside, path))
            .inspect_err(|_| drop(fs::remove_file(&aside)))
    };
    written().map_err(|error: io::Error| {
        let name = path.display();
        let remedy = match error.kind() {
            io::ErrorKind::AlreadyExists => "name a file that does not exist".to_owned(),
            _ => format!("{error}: name another place"),
        };
        anyhow::anyhow!("{option}: {name} cannot be written: {remedy}")
    })
}

/// Gives a file a name that nothing has.
fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every file system knows this.
        Err(Errno::INVAL | Errno::NOSYS) if fs::symlink_metadata(to).is_err() => fs::rename(from, to),
        Err(Errno::INVAL | Errno::NOSYS) => Err(io::ErrorKind::AlreadyExists.into()),
        renamed => Ok(renamed?),
    }
}

/// Writes every figure into a folder, as SVG in light and dark and as PDF.
pub(crate) fn write_figures(folder: &Path, figures: &Figures) -> anyhow::Result<()> {
    fs::create_dir_all(folder)
        .with_context(|| format!("the folder {} cannot be made: name another one", folder.display()))?;
    for (name, svg) in figures.svg().into_iter().chain(figures.dark_svg()) {
        write(&folder.join(name), svg.as_bytes())?;
    }
    for (name, pdf) in figures.pdf() {
        write(&folder.join(name), &pdf)?;
    }
    Ok(())
}

/// Prints a line for the user beside the results.
pub(crate) fn note(text: &str) {
    if log::is_json() {
        return log::message("note", text);
    }
    let _ = writeln!(io::stderr(), "{}", escape(text));
}

/// Prints an error in one line. What it quotes from foreign files is escaped for the terminal.
pub(crate) fn fail(error: &anyhow::Error) -> ExitCode {
    let message = message(error);
    if log::is_json() {
        log::event(log::Level::Error, "error", json!({ "message": message }));
    } else {
        let _ = writeln!(io::stderr(), "iopj: {}", escape(&message));
    }
    ExitCode::from(USAGE)
}

/// An error with its causes, except those whose text is already in the message.
fn message(error: &anyhow::Error) -> String {
    let mut message = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !message.contains(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CSV of many trials was a text in memory before it was printed.
    #[test]
    fn what_is_printed_piece_by_piece_is_as_what_is_printed_at_once() {
        let line = "a,\u{1b}[2J,\u{202e}é\r\n";
        for (form, whole) in [(Form::Text, escape_lines as fn(&str) -> String), (Form::Json, escape_json)] {
            let text = line.repeat(PASSED_AT_ONCE / 8) + "an end";
            let mut safe = Safe { form, lines: Vec::new(), out: Vec::new(), failed: None };
            text.as_bytes().chunks(7).for_each(|piece| safe.write_all(piece).unwrap());
            assert!(safe.lines.len() < PASSED_AT_ONCE);
            safe.flush().unwrap();
            assert!(safe.out == whole(&text).into_bytes());
        }
    }

    /// A page overwrote a disk that a link led to, or a file, where its own name began with `/dev`.
    #[test]
    fn an_output_goes_to_a_file_a_pipe_or_a_terminal_and_through_no_link_of_roots() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("victim"), "old").unwrap();
        std::os::unix::fs::symlink(at("victim"), at("link")).unwrap();
        let up = "../".repeat(folder.path().components().count() + 1);
        for name in [at("link"), Path::new("/dev").join(format!("{up}{}", at("link").display()))] {
            assert_eq!(write_whole(&name, b"new").is_ok(), !is_root(), "{}", name.display());
        }
        assert_eq!(fs::read(at("victim")).unwrap(), if is_root() { b"old" } else { b"new" });
        for stream in ["/dev/stdout", "/dev/stderr", "/dev/fd/63", "/proc/self/fd/1"] {
            assert!(is_stream(Path::new(stream)));
        }
        for other in ["/dev/shm/x", "/dev/fd/../sda", "/dev/fd/sda", "/dev/stdout/x", "/dev/sda", "x"] {
            assert!(!is_stream(Path::new(other)));
        }
        write_whole(Path::new("/dev/null"), b"x").unwrap();
        let drives = fs::read_dir("/sys/block").into_iter().flatten().flatten();
        for drive in drives.map(|drive| Path::new("/dev").join(drive.file_name())).filter(|one| one.exists())
        {
            // Opened for nothing but this test's word, and not at all: it says so before.
            let error = write_special(&drive, b"").unwrap_err().to_string();
            assert!(error.contains("it is a drive"), "{error}");
        }
    }

    /// An empty set-uid file of a user's at the name of root's page made the page a way to root.
    #[test]
    fn only_the_mode_of_ones_own_file_is_kept_and_never_set_uid() {
        let folder = tempfile::tempdir().unwrap();
        let written = |name: &str, mode: u32, owner: Option<u32>| {
            let path = folder.path().join(name);
            fs::write(&path, "old").unwrap();
            std::os::unix::fs::chown(&path, owner, owner).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            write_whole(&path, b"new").unwrap();
            fs::metadata(&path).unwrap().mode() & 0o7777
        };
        assert_eq!(written("own", 0o640, None), 0o640);
        assert_eq!(written("set-uid", 0o6775, None), 0o775);
        if is_root() {
            assert_eq!(written("theirs", 0o6777, Some(65534)) & 0o7022, 0);
        }
    }

    #[test]
    fn a_pipe_that_nobody_reads_and_a_folder_by_anothers_link_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        rustix::fs::mkfifoat(CWD, at("pipe"), 0o644.into()).unwrap();
        let error = write_whole(&at("pipe"), b"x").unwrap_err().to_string();
        assert!(error.contains("nobody reads it"), "{error}");
        let reader = std::thread::spawn({
            let pipe = at("pipe");
            move || fs::read(pipe).unwrap()
        });
        while write_whole(&at("pipe"), &[7; 100_000]).is_err() {}
        assert_eq!(reader.join().unwrap(), [7; 100_000]);
        fs::create_dir(at("folder")).unwrap();
        std::os::unix::fs::symlink(at("folder"), at("link")).unwrap();
        write_whole(&at("link/page"), b"x").unwrap();
        if is_root() {
            std::os::unix::fs::lchown(at("link"), Some(65534), Some(65534)).unwrap();
            let error = write_whole(&at("link/page"), b"y").unwrap_err().to_string();
            assert!(error.contains("a symbolic link of another user"), "{error}");
            let error = write_new("-o", &at("link/new"), "y").unwrap_err().to_string();
            assert!(error.contains("a symbolic link of another user"), "{error}");
            assert_eq!(fs::read(at("folder/page")).unwrap(), b"x");
        }
    }

    /// A full disk left an empty file, and then the remedy was another name.
    #[test]
    fn a_new_file_is_whole_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        write_new("-o", &at("new"), "text").unwrap();
        let again = write_new("-o", &at("new"), "other").unwrap_err().to_string();
        assert_eq!(again.rsplit_once(": ").map(|(_, last)| last), Some("name a file that does not exist"));
        assert_eq!(fs::read_to_string(at("new")).unwrap(), "text");
        let lost = write_new("-o", &at("none/new"), "text").unwrap_err().to_string();
        assert!(lost.contains("No such file or directory") && lost.ends_with("name another place"), "{lost}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// The message about a missing program once ended in "No such file or directory" twice.
    #[test]
    fn a_cause_that_a_message_contains_is_not_repeated() {
        let error =
            iopj_lab::image::Program::called("/no/plugin").context("the study names a program").unwrap_err();
        assert_eq!(
            message(&error),
            "the study names a program: `/no/plugin` cannot be read (No such file or directory (os error \
             2)): build it, or name a file that exists"
        );
        let error = anyhow::Error::from(io::Error::from(io::ErrorKind::NotFound)).context("it is gone");
        assert_eq!(message(&error), "it is gone: entity not found");
    }
}
