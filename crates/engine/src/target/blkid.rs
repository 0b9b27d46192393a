//! What libblkid finds on a device beside our own table: its low-level probing knows more formats, and all
//! their offsets. Where the program is missing, the table decides alone.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Where distributions have it; a user's `PATH` may name another.
const PLACES: [&str; 4] = ["/usr/sbin/blkid", "/sbin/blkid", "/usr/bin/blkid", "/bin/blkid"];
/// The longest that it may take: it reads some MiB.
const LIMIT: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);
/// Its statuses (blkid(8)): nothing was found, and several formats that contradict each other.
const NOTHING: i32 = 2;
const AMBIVALENT: i32 = 8;
/// What of its output is read.
const MOST: u64 = 64 << 10;

/// The signature that it finds, in words for a message.
///
/// # Errors
/// blkid is there, and does not say what is on the device.
pub(super) fn probe(device: &File) -> io::Result<Option<String>> {
    match PLACES.into_iter().find(|place| Path::new(place).exists()) {
        Some(program) => probe_by(program, device).map_err(|error| {
            io::Error::other(format!("`{program}` does not tell ({error}): see why it fails, or remove it"))
        }),
        None => Ok(None),
    }
}

fn probe_by(program: &str, device: &File) -> io::Result<Option<String>> {
    // The descriptor itself, not a name that may lead elsewhere by now; a child has it by this process's
    // folder.
    let node = format!("/proc/{}/fd/{}", std::process::id(), device.as_fd().as_raw_fd());
    let mut command = Command::new(program);
    command.args(["--probe", "--output", "export", "--", &node]).env_clear();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let until = Instant::now() + LIMIT;
    // Its output fits into the pipe.
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() < until => thread::sleep(LOOK),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(io::Error::other(format!("it did not end within {} s", LIMIT.as_secs())));
            }
        }
    };
    let mut text = String::new();
    let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    output.take(MOST).read_to_string(&mut text)?;
    match status.code() {
        Some(0) => Ok(named(&text)),
        Some(NOTHING) => Ok(None),
        Some(AMBIVALENT) => Ok(Some("several formats that blkid knows".to_owned())),
        _ => Err(io::Error::other(status.to_string())),
    }
}

/// The format in its output, a line `KEY=VALUE` each.
fn named(text: &str) -> Option<String> {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let name = value("TYPE").or_else(|| value("PTTYPE"))?;
    Some(format!("the format `{}`, as blkid calls it", name.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_named_before_a_partition_table() {
        let both = "DEVNAME=/dev/sda\nPTTYPE=dos\nUSAGE=raid\nTYPE=promise_fasttrack_raid_member\n";
        assert_eq!(named(both).unwrap(), "the format `promise_fasttrack_raid_member`, as blkid calls it");
        assert_eq!(named("PTTYPE=atari\n").unwrap(), "the format `atari`, as blkid calls it");
        assert_eq!(named("DEVNAME=/dev/sda\nUUID=x\n"), None);
    }

    /// One that failed was taken for one that finds nothing.
    #[test]
    fn a_blkid_that_fails_says_nothing_of_a_device() {
        let device = File::open("/dev/null").unwrap();
        let error = |program: &str| probe_by(program, &device).unwrap_err().to_string();
        assert_eq!(error("/bin/false"), "exit status: 1");
        assert!(error("/no/blkid").contains("No such file"));
        assert_eq!(probe_by("/bin/true", &device).unwrap(), None);
    }
}
