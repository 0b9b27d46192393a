//! What the kernel says while something is done (Documentation/ABI/testing/dev-kmsg).

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The kernel's messages from a moment on.
pub(crate) struct KernelLog(Option<File>);

impl KernelLog {
    /// From now on. A user who may not read them hears nothing.
    pub(crate) fn from_now(dev: &Path) -> KernelLog {
        let open = || {
            let mut options = OpenOptions::new();
            options.read(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
            let mut file = options.open(dev.join("kmsg"))?;
            file.seek(SeekFrom::End(0))?;
            std::io::Result::Ok(file)
        };
        KernelLog(open().ok())
    }

    /// The messages so far that begin with a word, without control characters.
    pub(crate) fn beginning_with(&mut self, word: &str) -> Vec<String> {
        /// One read gives one record; longer ones than this are not made (`PRINTK_MESSAGE_MAX`).
        const RECORD: usize = 8192;
        /// Records that are looked at.
        const MOST: usize = 1000;
        let mut said = Vec::new();
        let Some(file) = &mut self.0 else { return said };
        let mut record = vec![0; RECORD];
        for _ in 0..MOST {
            match file.read(&mut record) {
                Ok(0) => break,
                Ok(len) => said.extend(message(&record[..len]).filter(|text| text.starts_with(word))),
                // Older records were overwritten; the next read goes on behind them.
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::PIPE.raw_os_error()) => {}
                Err(_) => break,
            }
        }
        said
    }
}

/// The text of a record: `PRIORITY,NUMBER,TIME,FLAGS[,…];TEXT`, its properties in lines of their own.
fn message(record: &[u8]) -> Option<String> {
    let record = String::from_utf8_lossy(record);
    let (_, text) = record.lines().next()?.split_once(';')?;
    Some(text.chars().filter(|c| !c.is_control()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_its_text_alone() {
        let record =
            b"3,1204,99120,-;nvme nvme0: Connect command failed\x1b, error wo/DNR bit: 6\n DEVICE=c\n";
        assert_eq!(message(record).unwrap(), "nvme nvme0: Connect command failed, error wo/DNR bit: 6");
        assert_eq!(message(b"nonsense"), None);
    }

    #[test]
    fn without_the_log_nothing_is_heard() {
        let empty = tempfile::tempdir().unwrap();
        assert!(KernelLog::from_now(empty.path()).beginning_with("nvme").is_empty());
    }

    /// Root may write the log, and only what was said since is heard.
    #[test]
    fn what_was_said_since_is_heard() {
        let Ok(mut out) = OpenOptions::new().write(true).open("/dev/kmsg") else { return };
        let say = |out: &mut File, text: &str| std::io::Write::write_all(out, text.as_bytes()).is_ok();
        if !say(&mut out, "<7>iopj test: before") {
            return;
        }
        let mut log = KernelLog::from_now(Path::new("/dev"));
        let mine = format!("iopj test {}", std::process::id());
        assert!(say(&mut out, &format!("<7>{mine}: since")) && say(&mut out, "<7>other: since"));
        assert_eq!(log.beginning_with("iopj test "), [format!("{mine}: since")]);
        assert!(log.beginning_with("iopj test ").is_empty());
    }
}
