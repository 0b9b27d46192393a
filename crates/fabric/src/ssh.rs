//! The user's own ssh: a control connection, commands over it, and why it ends.
//!
//! ssh runs in batch mode, so it never waits for a password, and with the user's own configuration: the
//! checks of host keys are the user's. One control connection carries every command of a study.

use crate::bounded::{INTERVAL, Said, ended, streamed};
use crate::error::FabricError;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long ssh may take to get there.
const LIMIT: Duration = Duration::from_secs(60);
/// How long an agent may take to put everything back once its input has ended.
const LAST: Duration = Duration::from_secs(30);
/// The longest answer that is read, in bytes; a job's is some KiB.
const LONGEST_ANSWER: u64 = 4 << 20;
/// The longest wait for an answer: a job may take a minute to put everything back.
const LONGEST_WAIT: Duration = Duration::from_secs(180);
/// The longest time for a command with an input: a copy of this iopj over a slow line takes minutes.
const LONGEST_COPY: Duration = Duration::from_secs(900);

/// A control connection of ssh: a master that the other commands of a study share. It ends with the thread
/// that opened it.
#[derive(Debug)]
pub struct Control {
    pub(crate) host: String,
    program: String,
    folder: PathBuf,
    master: Child,
    said: Said,
}

impl Control {
    /// Connects to a host by the program that is ssh here.
    ///
    /// # Errors
    /// [`FabricError::Ssh`]: it does not get there, with the remedy.
    pub fn open(program: &str, host: &str, stop: &AtomicBool) -> Result<Control, FabricError> {
        let folder =
            private_folder().map_err(FabricError::io("make a folder for ssh's control connection"))?;
        let mut command = ssh(program, &folder);
        // Dies with this process, whatever kills it: nothing stays connected.
        end_with_parent(&mut command);
        command.args(["-M", "-N", "-o", "ControlPersist=no", "--"]).arg(host);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut master = command.spawn().map_err(|error| {
            let _ = fs::remove_dir(&folder);
            let reason = format!("ssh does not start ({error}): install the package openssh-client");
            FabricError::Ssh { host: host.to_owned(), reason }
        })?;
        let said = Said::of(master.stderr.take());
        let mut control =
            Control { host: host.to_owned(), program: program.to_owned(), folder, master, said };
        let began = Instant::now();
        while !control.socket().exists() {
            let exited = control.master.try_wait().map_err(FabricError::io("wait for ssh"))?;
            if exited.is_some() || began.elapsed() > LIMIT || stop.load(Ordering::Relaxed) {
                let said = if exited.is_some() { control.said.last_of_all() } else { control.said.last() };
                let reason = refusal(exited, &said, "");
                return Err(FabricError::Ssh { host: host.to_owned(), reason });
            }
            thread::sleep(INTERVAL);
        }
        Ok(control)
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("s")
    }

    /// Runs a command there with this input, unless `stop` is set before it ends: its output.
    ///
    /// # Errors
    /// It failed there, with what it said last; the connection is lost; or it was stopped.
    pub fn run(&self, command: &str, input: Stdio, stop: &AtomicBool) -> Result<String, FabricError> {
        self.answer(command, input, LONGEST_COPY, stop)
    }

    /// Runs a command there that answers in a few lines, unless `stop` is set before it ends.
    ///
    /// # Errors
    /// As for [`Control::run`].
    pub fn ask(&self, command: &str, stop: &AtomicBool) -> Result<String, FabricError> {
        self.answer(command, Stdio::null(), LONGEST_WAIT, stop)
    }

    fn answer(
        &self,
        command: &str,
        input: Stdio,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<String, FabricError> {
        let child = self.command(command).stdin(input).spawn().map_err(FabricError::io("run ssh"))?;
        let ended = ended(child, limit, LONGEST_ANSWER, stop).map_err(FabricError::io("wait for ssh"))?;
        match ended.cut_short {
            None if ended.status.success() => Ok(text(&ended.output)),
            None => Err(self.failed(command, ended.status, &ended.said)),
            Some(why) => {
                let reason = format!("`{command}` there failed: {why}");
                Err(FabricError::Ssh { host: self.host.clone(), reason })
            }
        }
    }

    /// Runs a command there, and gives its output to `take` while it comes. Returns what `take` made of it
    /// and, if the command failed there, why.
    ///
    /// # Errors
    /// ssh does not start.
    pub fn stream<T>(
        &self,
        command: &str,
        stop: &AtomicBool,
        take: impl FnOnce(&mut dyn Read) -> T,
    ) -> Result<(T, Option<FabricError>), FabricError> {
        let child = self.command(command).stdin(Stdio::null()).spawn();
        let child = child.map_err(FabricError::io("run ssh"))?;
        let (taken, status, said) = streamed(child, stop, take).map_err(FabricError::io("wait for ssh"))?;
        let failure = (!status.success()).then(|| self.failed(command, status, &said));
        Ok((taken, failure))
    }

    fn command(&self, command: &str) -> Command {
        let mut ssh = ssh(&self.program, &self.folder);
        ssh.arg("--").arg(&self.host).arg(command).stdout(Stdio::piped()).stderr(Stdio::piped());
        ssh
    }

    fn failed(&self, command: &str, status: ExitStatus, said: &str) -> FabricError {
        let last = said.lines().last().unwrap_or_default();
        let reason = format!("`{command}` failed there ({status}): {last}");
        FabricError::Ssh { host: self.host.clone(), reason }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = self.master.kill();
        let _ = self.master.wait();
        let _ = fs::remove_file(self.socket());
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The process that carries an agent's streams.
#[derive(Debug)]
pub(crate) struct Link {
    child: Child,
    said: Said,
    command: String,
    /// Ends after the child.
    _control: Control,
}

impl Link {
    pub(crate) fn start(control: Control, command: &str) -> Result<Link, FabricError> {
        let mut ssh = ssh(&control.program, &control.folder);
        end_with_parent(&mut ssh);
        ssh.args(["-T", "--"]).arg(&control.host).arg(command);
        ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = ssh.spawn().map_err(FabricError::io("run ssh"))?;
        let said = Said::of(child.stderr.take());
        Ok(Link { child, said, command: command.to_owned(), _control: control })
    }

    pub(crate) fn streams(
        &mut self,
    ) -> Result<(impl Read + Send + use<>, impl io::Write + Send + use<>), FabricError> {
        let missing = || FabricError::io("run ssh")(io::ErrorKind::BrokenPipe.into());
        Ok((self.child.stdout.take().ok_or_else(missing)?, self.child.stdin.take().ok_or_else(missing)?))
    }

    /// Why the process failed, if it did: what ssh or the far side said last.
    pub(crate) fn failure(&mut self) -> Option<String> {
        let until = Instant::now() + Duration::from_secs(2);
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return None,
                Ok(Some(status)) => {
                    return Some(refusal(Some(status), &self.said.last_of_all(), &self.command));
                }
                Ok(None) if Instant::now() < until => thread::sleep(INTERVAL),
                _ => return None,
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The agent's input has ended: it puts everything back, and then ends, and ssh with it.
        let until = Instant::now() + LAST;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            thread::sleep(INTERVAL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Why ssh ended, and what to do. `command` is what it was to run there, if it got so far.
fn refusal(status: Option<ExitStatus>, said: &str, command: &str) -> String {
    let said_so = if said.is_empty() { String::new() } else { format!(" (`{said}`)") };
    let Some(status) = status else {
        return format!("ssh did not get there within {} s{said_so}", LIMIT.as_secs());
    };
    let has = |text: &str| said.contains(text);
    match status.code() {
        _ if has("Permission denied") => format!(
            "ssh may not log in{said_so}: iopj never asks for a password, so set up a key (`ssh-copy-id`) \
             or an agent that holds it"
        ),
        _ if has("Host key verification failed") => format!(
            "ssh does not know the host's key, or it changed{said_so}: connect once by hand (`ssh HOST`) \
             and check it"
        ),
        _ if has("Could not resolve") => format!("ssh finds no such host{said_so}: check its name"),
        _ if has("refused") || has("timed out") || has("No route") => {
            format!("ssh does not get there{said_so}: check that the host is up and runs an ssh server")
        }
        Some(127) => format!(
            "there is no `{}`{said_so}: install iopj there, or let --push copy this one",
            command.trim_end_matches(" agent")
        ),
        Some(126) => format!("`{command}` cannot be run there{said_so}: is it built for that processor?"),
        _ => format!("ssh ended ({status}){said_so}"),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// ssh without questions, by a control connection in `folder`.
fn ssh(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    // Ctrl-C goes to every process of the terminal's group: the run still has to speak to its agent then.
    command.process_group(0);
    command.arg("-S").arg(folder.join("s"));
    for option in ["BatchMode=yes", "ConnectTimeout=20", "ServerAliveInterval=3", "ServerAliveCountMax=3"] {
        command.args(["-o", option]);
    }
    command
}

/// Lets a command die with the thread that starts it.
fn end_with_parent(command: &mut Command) {
    // SAFETY: between fork and exec only prctl is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
            Ok(())
        });
    }
}

/// What the folders of sockets begin with, before 16 digits.
const FOLDER: &str = "iopj-";
/// How old such a folder is before its connection is not about to begin any more.
const LEFT_FOR: Duration = Duration::from_secs(600);

/// Removes the folders of processes that were killed: their connections ended with them, so they are empty.
/// One with a socket stays, as only empty folders can be removed so.
fn remove_left(parent: &Path, age: Duration) {
    let is_ours = |name: &str| {
        let digits = name.strip_prefix(FOLDER).unwrap_or_default();
        digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_old = || entry.metadata().and_then(|found| found.modified()).ok()?.elapsed().ok();
        if entry.file_name().to_str().is_some_and(is_ours) && is_old().is_some_and(|old| old >= age) {
            // What is another user's stays, too.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// A new folder that only this user may look into, with a short path: a socket's name has at most 107 bytes.
fn private_folder() -> io::Result<PathBuf> {
    let parent = Path::new("/tmp");
    remove_left(parent, LEFT_FOR);
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let name: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = parent.join(format!("{FOLDER}{name}"));
    DirBuilder::new().mode(0o700).create(&folder)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn each_refusal_of_ssh_has_its_remedy() {
        let of = |code: i32, said: &str| refusal(Some(ExitStatus::from_raw(code << 8)), said, "iopj agent");
        assert!(of(255, "root@h: Permission denied (publickey,password).").contains("`ssh-copy-id`"));
        assert!(of(255, "Host key verification failed.").contains("connect once by hand"));
        assert!(
            of(255, "ssh: Could not resolve hostname x: Name or service not known").contains("no such host")
        );
        assert!(of(127, "bash: line 1: iopj: command not found").contains("there is no `iopj`"));
        assert!(of(126, "cannot execute binary file: Exec format error").contains("that processor"));
        assert_eq!(of(1, ""), "ssh ended (exit status: 1)");
    }

    /// A program in the place of ssh, which another process makes: a file that this one writes could still be
    /// open in a child of another test, and then it cannot be run.
    fn in_place_of_ssh(folder: &Path, answer: &str) -> String {
        let program = folder.join("ssh");
        let text = format!(
            "#!/bin/sh\nfor word; do [ \"$word\" != -M ] || {{ : >\"$2\"; exec sleep 600; }}; done\n\
             for word; do [ \"$word\" != -- ] || found=yes; done\n[ \"$found\" ] || exit 9\n{answer}\n"
        );
        let made = Command::new("sh")
            .args(["-c", "printf %s \"$1\" >\"$2\" && chmod 755 \"$2\"", "sh", &text])
            .arg(&program)
            .status();
        assert!(made.unwrap().success());
        program.display().to_string()
    }

    /// Each run that was killed left one.
    #[test]
    fn folders_of_dead_connections_are_removed_and_no_others() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| fs::create_dir(parent.path().join(name)).unwrap();
        ["iopj-0123456789abcdef", "iopj-fedcba9876543210", "iopj-mine", "x"].into_iter().for_each(make);
        fs::write(parent.path().join("iopj-fedcba9876543210/s"), "").unwrap();
        remove_left(parent.path(), Duration::from_secs(600));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 4, "they may be about to begin");
        remove_left(parent.path(), Duration::ZERO);
        let mut left: Vec<_> =
            fs::read_dir(parent.path()).unwrap().map(|one| one.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["iopj-fedcba9876543210", "iopj-mine", "x"]);
    }

    /// 64 KiB filled the pipe, and the program waited for a reader while it was waited for.
    #[test]
    fn a_long_banner_holds_nothing_up_and_an_answer_without_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(false);
        let long = "head -c 300000 /dev/zero | tr '\\0' x >&2; head -c 300000 /dev/zero | tr '\\0' y; echo; \
                    echo end";
        let program = in_place_of_ssh(folder.path(), long);
        let control = Control::open(&program, "n1", &stop).unwrap();
        let answer = control.ask("x", &stop).unwrap();
        assert_eq!((answer.len(), answer.lines().last()), (300_004, Some("end")));
        assert_eq!(control.run("x", Stdio::null(), &stop).unwrap().len(), 300_004);
        drop(control);
        let program = in_place_of_ssh(folder.path(), "yes");
        let control = Control::open(&program, "n1", &stop).unwrap();
        let error = control.ask("x", &stop).unwrap_err().to_string();
        assert!(error.contains("failed there") || error.contains("says more than an answer is"), "{error}");
        let (taken, failure) =
            control.stream("x", &stop, |stream| stream.read(&mut [0; 9]).unwrap()).unwrap();
        assert!(taken > 0 && failure.is_some());
        stop.store(true, Ordering::Relaxed);
        let (taken, _) = control.stream("x", &stop, |stream| stream.read(&mut [0; 9]).is_err()).unwrap();
        assert!(taken, "Ctrl-C ends a fetch");
    }
}
