//! What libblkid finds on a device beside our own table: its low-level probing knows more formats, and all
//! their offsets. Where the program is missing, the table decides alone.

use std::fs::File;
use std::io::Read;
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
const AMBIVALENT: i32 = 8;
/// What of its output is read.
const MOST: u64 = 64 << 10;

/// The signature that it finds, in words for a message.
pub(super) fn probe(device: &File) -> Option<String> {
    let program = PLACES.into_iter().find(|place| Path::new(place).exists())?;
    // The descriptor itself, not a name that may lead elsewhere by now; a child has it by this process's
    // folder.
    let node = format!("/proc/{}/fd/{}", std::process::id(), device.as_fd().as_raw_fd());
    let mut command = Command::new(program);
    command.args(["--probe", "--output", "export", "--", &node]).env_clear();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let until = Instant::now() + LIMIT;
    // Its output fits into the pipe.
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < until => thread::sleep(LOOK),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    };
    let mut text = String::new();
    child.stdout.take()?.take(MOST).read_to_string(&mut text).ok()?;
    match status.code() {
        Some(0) => named(&text),
        Some(AMBIVALENT) => Some("several formats that blkid knows".to_owned()),
        _ => None,
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
}
