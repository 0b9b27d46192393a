//! fio as a generator: finds it, says which paths it can take, runs one job file to its end.
//!
//! The job file is written in [`job`], what SPDK's plugin needs is in [`spdk`], fio's JSON is read in
//! [`json`], and that of others job by job in [`runs`]. Counters around the run, the settings of the drive
//! and the verdict are left to the runner.

mod asking;
mod error;
pub mod job;
pub mod json;
mod ramp;
pub mod rate;
pub mod runs;
pub mod sizes;
pub mod spdk;
#[cfg(test)]
mod tests;
mod waiting;
mod watch;

use asking::{ANSWER_LIMIT, answer, memory_file, words};
pub use error::FioError;
use job::job_file;
pub use job::{Filename, FioJob, Phase};
pub use json::{Direction, FioLatency, FioOutput, Percentiles, parse};
pub use watch::FioWatch;

use iopj_core::evidence::ProcessEvidence;
use iopj_core::{IoPath, RingSubmission};
use rustix::io::Errno;
use rustix::process::{Signal, set_parent_process_death_signal};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::process::{CommandExt, parent_id};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The oldest version that is used, that of Ubuntu 22.04. `io_uring_cmd` came later: see `supports`.
pub const OLDEST: (u32, u32) = (3, 28);
/// How much of fio's output is read: its JSON is some 20 KB each time that it says how far it is.
const MOST_OUTPUT: u64 = 64 << 20;

/// An installed fio.
#[derive(Clone, Debug)]
pub struct Fio {
    program: PathBuf,
    version: (u32, u32),
    version_text: String,
    engines: Vec<String>,
    /// SPDK's plugin as the user named it.
    spdk_named: Option<PathBuf>,
    /// The result of the first search for SPDK's plugin.
    spdk: OnceLock<Result<PathBuf, spdk::SpdkLack>>,
}

impl Fio {
    /// Finds fio in the folders of `PATH` and asks it for its version and engines.
    ///
    /// # Errors
    /// [`FioError::Missing`], [`FioError::TooOld`] or [`FioError::NoAnswer`].
    pub fn find() -> Result<Fio, FioError> {
        Fio::find_in(&std::env::var_os("PATH").unwrap_or_default())
    }

    fn find_in(path: &OsStr) -> Result<Fio, FioError> {
        // A relative folder in PATH would run whatever lies in the current one.
        let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
        Fio::at(folders.map(|folder| folder.join("fio")).find(|p| is_program(p)).ok_or(FioError::Missing)?)
    }

    /// Asks the fio at `program` for its version and engines. It is run, so name only one that the user
    /// allows.
    ///
    /// # Errors
    /// [`FioError::TooOld`] or [`FioError::NoAnswer`].
    pub fn at(program: PathBuf) -> Result<Fio, FioError> {
        Fio::answering(program, ANSWER_LIMIT)
    }

    /// Each answer must come within the limit.
    fn answering(program: PathBuf, limit: Duration) -> Result<Fio, FioError> {
        let version_text = ask(&program, "--version", limit)?.trim().to_owned();
        let version = parse_version(&version_text).ok_or_else(|| FioError::NoAnswer {
            program: program.clone(),
            argument: "--version",
            reason: words([version_text.as_str()].into_iter()),
        })?;
        if version < OLDEST {
            return Err(FioError::TooOld { program, version: version_text });
        }
        let engines =
            ask(&program, "--enghelp", limit)?.lines().skip(1).map(|line| line.trim().to_owned()).collect();
        Ok(Fio { program, version, version_text, engines, spdk_named: None, spdk: OnceLock::new() })
    }

    /// The same fio with SPDK's plugin at `plugin` instead of the one in a known place. The plugin is loaded,
    /// so name only one that the user allows.
    #[must_use]
    pub fn with_spdk_plugin(self, plugin: PathBuf) -> Fio {
        Fio { spdk_named: Some(plugin), spdk: OnceLock::new(), ..self }
    }

    /// SPDK's plugin, looked for once.
    fn spdk_plugin(&self) -> Result<&Path, FioError> {
        let find = || spdk::find(self.spdk_named.as_deref(), &self.program, &self.version_text);
        self.spdk.get_or_init(find).as_deref().map_err(|lack| lack.clone().into())
    }

    /// The program's path.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Major and minor version, such as (3, 33).
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// The version as fio prints it, such as `fio-3.33`.
    pub fn version_text(&self) -> &str {
        &self.version_text
    }

    /// Checks that this fio can take the path. io_uring paths are accepted with and without
    /// `+split`: fio has one way, see [`note`].
    ///
    /// # Errors
    /// [`FioError::Unsupported`] if no fio can, [`FioError::MissingEngine`] if this one cannot,
    /// [`FioError::Spdk`] if SPDK's plugin is missing or of another fio.
    pub fn supports(&self, path: &IoPath) -> Result<(), FioError> {
        let engine = job::engine_name(path)?;
        if *path == IoPath::Spdk {
            return self.spdk_plugin().map(|_| ());
        }
        if self.engines.iter().any(|known| known == engine) {
            return Ok(());
        }
        Err(FioError::MissingEngine {
            version: self.version_text.clone(),
            engine: engine.to_owned(),
            path: path.to_string(),
        })
    }

    /// Runs one job to its end and returns fio's output and what the process cost. Meanwhile it calls `tick`
    /// once a second, and `look` with the process's id, again after the time that `look` returns. It checks
    /// `stop` every 50 ms; once that is true, fio gets SIGINT, and SIGKILL 5 s later. fio is killed if the
    /// calling thread dies, and has a process group of its own, so Ctrl-C reaches it through `stop` alone. No
    /// shell is run and no file is written: job and output are in memory, because a file could be on the
    /// drive under test.
    ///
    /// # Errors
    /// All but those of [`Fio::find`].
    pub fn run(
        &self,
        job: &FioJob<'_>,
        stop: &AtomicBool,
        tick: &mut dyn FnMut(),
        look: &mut dyn FnMut(u32) -> Duration,
    ) -> Result<(FioOutput, ProcessEvidence), FioError> {
        let mut started = self.start(job)?;
        let (status, process, stopped) =
            waiting::wait(&started.child, stop, tick, look).map_err(|e| os("waiting for fio", e))?;
        if stopped {
            return Err(FioError::Stopped);
        }
        Ok((self.ended(job, &mut started, status)?, process))
    }

    /// Starts a job.
    fn start(&self, job: &FioJob<'_>) -> Result<Started, FioError> {
        self.supports(&job.path)?;
        match job.filename {
            Filename::File(filename) => check_length(job, filename)?,
            Filename::Namespace { address, .. } => spdk::require_huge_pages(address, job.workload)?,
        }
        let text = job_file(job)?;
        let mut job_text = memory_file("fio-job").map_err(|e| os("no memory file for fio's job", e))?;
        let output = memory_file("fio-output").map_err(|e| os("no memory file for fio's output", e))?;
        let errors = memory_file("fio-errors").map_err(|e| os("no memory file for fio's errors", e))?;
        job_text
            .write_all(text.as_bytes())
            .and_then(|()| job_text.rewind())
            .map_err(|e| os("fio's job", e))?;
        let mut command = self.command(job.status_interval);
        if job.path == IoPath::Spdk {
            // By `ioengine=PATH` fio would unload the plugin while its threads still end (SPDK's README).
            command.env("LD_PRELOAD", self.spdk_plugin()?);
        }
        let share = |file: &File| file.try_clone().map(Stdio::from).map_err(|e| os("fio's output", e));
        command.stdin(job_text).stdout(share(&output)?).stderr(share(&errors)?);
        let child =
            command.spawn().map_err(|e| os(&format!("`{}` cannot be run", self.program.display()), e))?;
        Ok(Started { child, output, errors })
    }

    /// The result of a job that has ended.
    fn ended(
        &self,
        job: &FioJob<'_>,
        started: &mut Started,
        status: ExitStatus,
    ) -> Result<FioOutput, FioError> {
        let output = contents(&mut started.output).map_err(|e| os("reading fio's output", e))?;
        let errors = contents(&mut started.errors).map_err(|e| os("reading fio's errors", e))?;
        self.outcome(&job.path, status, &output, &errors)
    }

    fn command(&self, status_interval: Option<Duration>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--output-format=json+", "--eta=never"]).process_group(0);
        if let Some(interval) = status_interval {
            command.arg(format!("--status-interval={}ms", interval.as_millis()));
        }
        command.arg("-");
        let parent = std::process::id();
        let put_back = crate::descriptors::put_back();
        // SAFETY: between fork and exec the closure makes three system calls that are
        // async-signal-safe, allocates nothing and takes no lock.
        unsafe {
            command.pre_exec(move || {
                put_back();
                set_parent_process_death_signal(Some(Signal::KILL))?;
                // If the parent died before the call above, no signal will come.
                if parent_id() == parent { Ok(()) } else { Err(Errno::SRCH.into()) }
            })
        };
        command
    }

    fn outcome(
        &self,
        path: &IoPath,
        status: ExitStatus,
        output: &str,
        errors: &str,
    ) -> Result<FioOutput, FioError> {
        if let Some(engine) = missing_engine(errors) {
            let (version, path) = (self.version_text.clone(), path.to_string());
            return Err(FioError::MissingEngine { version, engine: engine.to_owned(), path });
        }
        let result = parse(output);
        let error = result.as_ref().map_or(0, |result| result.error);
        if status.success() && error == 0 {
            return result;
        }
        let words = match words(errors.lines().chain(json::prelude(output))) {
            none if none.is_empty() && error != 0 => io::Error::from_raw_os_error(error).to_string(),
            none if none.is_empty() => "it said nothing".to_owned(),
            words => words,
        };
        Err(FioError::Failed { status: status.to_string(), words })
    }
}

/// A fio that runs, and its outputs.
struct Started {
    child: Child,
    output: File,
    errors: File,
}

fn os(what: &str, source: io::Error) -> FioError {
    FioError::Os { what: what.to_owned(), source }
}

/// How fio differs from the path's definition, for a reader of its result. Empty for most paths.
pub fn note(path: &IoPath) -> &'static str {
    match (path, path.ring().map(|ring| (ring.submission, ring.registered))) {
        (IoPath::Spdk, _) => {
            "fio's start holds that of SPDK, and a thread of the plugin polls the admin queue once a second"
        }
        (IoPath::PosixAio(_), _) => {
            "fio asks `aio_error` of every I/O in flight before it sleeps in `aio_suspend`"
        }
        (_, Some((RingSubmission::Syscall { split: false }, _))) => {
            "fio submits and waits by separate system calls, as `+split` does"
        }
        (_, Some((RingSubmission::Sqpoll { .. }, false))) => {
            "fio registers the file (not the buffers) under sqpoll"
        }
        _ => "",
    }
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

fn ask(program: &Path, argument: &'static str, limit: Duration) -> Result<String, FioError> {
    let no_answer = |reason| FioError::NoAnswer { program: program.to_owned(), argument, reason };
    let output = answer(Command::new(program).arg(argument), limit);
    let output = output.map_err(|error| no_answer(error.to_string()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(no_answer(output.status.to_string())),
    }
}

/// `fio-3.33` and builds between releases, such as `fio-3.33-12-gabcdef`.
pub fn parse_version(text: &str) -> Option<(u32, u32)> {
    let numbers = text.strip_prefix("fio-")?.split('-').next()?;
    let (major, rest) = numbers.split_once('.')?;
    Some((major.parse().ok()?, rest.split('.').next()?.parse().ok()?))
}

/// Refuses a short file: fio would lengthen it even for reads, whatever `allow_file_create` says.
fn check_length(job: &FioJob<'_>, filename: &Path) -> Result<(), FioError> {
    let os =
        |source| FioError::Os { what: format!("`{}` cannot be given to fio", filename.display()), source };
    let metadata = filename.metadata().map_err(os)?;
    let kind = metadata.file_type();
    if kind.is_block_device() || kind.is_char_device() {
        return Ok(());
    }
    let end = job.offset.saturating_add(job.size);
    if metadata.len() < end {
        return Err(FioError::TooShort { filename: filename.to_owned(), len: metadata.len(), end });
    }
    Ok(())
}

fn contents(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(MOST_OUTPUT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn missing_engine(errors: &str) -> Option<&str> {
    errors.lines().find_map(|line| line.strip_prefix("fio: engine ")?.strip_suffix(" not loadable"))
}
