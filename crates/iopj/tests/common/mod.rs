//! What tests of the command line share: a folder on a disk, the program, files of real bytes, loop devices,
//! mounts, and a lock for work that a machine can do only once at a time.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use iopj_lab::Arch;
use iopj_lab::cache::Cache;
use iopj_lab::kernels::{self, Kernel};
use std::fs::File;
use std::io::Write;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

/// A folder that is removed when dropped.
pub(crate) struct TestFolder(TempDir);

impl TestFolder {
    /// In another folder.
    pub(crate) fn in_folder(above: impl AsRef<Path>) -> std::io::Result<TestFolder> {
        tempfile::tempdir_in(above).map(TestFolder)
    }

    /// With a written file `data` of this many bytes.
    pub(crate) fn with_data(self, len: usize) -> TestFolder {
        written(&self.join("data"), len);
        self
    }
}

impl Deref for TestFolder {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.0.path()
    }
}

/// A folder on the file system of the build, which lies on a disk where `/tmp` may not.
pub(crate) fn folder() -> TestFolder {
    TestFolder::in_folder(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// The program under test in `folder`, with the words of `line` as its arguments.
pub(crate) fn iopj(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iopj"));
    command.current_dir(folder).args(line.split_whitespace());
    command
}

/// True if somebody outside of these tests measures on the same disk; then the remedy is to wait.
pub(crate) fn is_busy(words: &str) -> bool {
    let holders = ["` is in use by the run of iopj with process id", "` is in use by another run of iopj"];
    let busy = holders.iter().any(|holder| words.contains(holder));
    if busy {
        std::thread::sleep(Duration::from_millis(100));
    }
    busy
}

/// Runs to the end; returns the messages too. No run may panic.
pub(crate) fn output(command: &mut Command) -> (Output, String) {
    loop {
        let output = command.output().unwrap();
        let words = String::from_utf8(output.stderr.clone()).unwrap();
        assert!(!words.contains("panicked"), "{words}");
        if !is_busy(&words) {
            return (output, words);
        }
    }
}

/// The program's exit code, output and messages.
pub(crate) fn run(folder: &Path, line: &str) -> (i32, String, String) {
    let (output, messages) = output(&mut iopj(folder, line));
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap(), messages)
}

/// Asserts that a text has all of these parts.
#[track_caller]
pub(crate) fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

/// The messages of a command that must end with exit code 2.
#[track_caller]
pub(crate) fn refusal(folder: &Path, line: &str) -> String {
    let (output, words) = output(&mut iopj(folder, line));
    assert_eq!(output.status.code(), Some(2), "{line}: {words}");
    words
}

/// A policy that believes the first of two ways to be faster at depth 1, and tries nothing else.
pub(crate) fn believes([faster, slower]: [&str; 2]) -> String {
    format!(
        r#"exploration = 0.0
[[cell]]
op = "read"
size = 4096
in_flight = 1
ways = [
    {{ way = "{faster}", mean_ns = 1000.0 }},
    {{ way = "{slower}", mean_ns = 1e9 }},
]
"#
    )
}

/// A file of `len` bytes that no file system or drive can leave out, synced.
pub(crate) fn written(path: &Path, len: usize) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let word = |_| {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_ne_bytes()
    };
    let bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(word).take(len).collect();
    let mut file = File::create(path).unwrap();
    file.write_all(&bytes).unwrap();
    file.sync_all().unwrap();
}

/// SplitMix64: a printed seed reproduces what was drawn.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn from_clock() -> Random {
        let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
        eprintln!("seed {seed}");
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    pub(crate) fn below(&mut self, time: Duration) -> Duration {
        time.mul_f64((self.next() >> 11) as f64 / (1u64 << 53) as f64)
    }
}

pub(crate) fn is_root() -> bool {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// True to go on; otherwise the test is skipped, or fails under CI.
pub(crate) fn have(condition: bool, what: &str) -> bool {
    if !condition {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "needs {what}");
        eprintln!("skipped: needs {what}");
    }
    condition
}

/// True if this user can make loop devices.
pub(crate) fn have_loop() -> bool {
    let has_free = || Command::new("losetup").arg("-f").output().is_ok_and(|output| output.status.success());
    have(is_root() && has_free(), "root and a free loop device (losetup)")
}

/// True if this user can make loop devices and mount them.
pub(crate) fn have_mounts() -> bool {
    let has_tools =
        || ["mkfs.ext4", "mount"].iter().all(|tool| Command::new(tool).arg("-V").output().is_ok());
    have_loop() && have(has_tools(), "mount and mkfs.ext4")
}

/// True if events of this kernel can be counted; `folder` is for what finding out needs.
pub(crate) fn have_tracepoints(folder: &Path) -> bool {
    // Where tracefs is not mounted, the program mounts one for itself.
    let find = "[ -e /proc/sys/kernel/perf_event_paranoid ]\n[ -d /sys/kernel/tracing/events ] || mount -t \
                tracefs tracefs /sys/kernel/tracing\ncat \
                /sys/kernel/tracing/events/raw_syscalls/sys_enter/id";
    have(is_root(), "root")
        && have(apart(folder, find).status.success(), "a kernel with tracepoints (tracefs, perf events)")
}

/// The iopj that guests run, and that boots the lab's: the release build that `cargo xtask test` names, or
/// else cargo's own.
pub(crate) fn iopj_of_guests() -> PathBuf {
    std::env::var_os("IOPJ_IN_GUESTS").map_or_else(|| env!("CARGO_BIN_EXE_iopj").into(), PathBuf::from)
}

/// The kernel of this series for a guest. If there is none, returns `None` and says on stderr why, and the
/// remedy.
pub(crate) fn kernel(series: &str) -> Option<Kernel> {
    match Cache::open()
        .map_err(Into::into)
        .and_then(|cache| kernels::fetch(&cache, Arch::HOST, series, &mut |_| {}))
    {
        Ok(kernel) => Some(kernel),
        Err(error) => {
            have(false, &format!("kernel {series}: {error}"));
            None
        }
    }
}

/// Held while a test measures or changes the machine: only one run at a time may use a disk. Or while it has
/// guests that measure: those of two tests would take each other's processors.
pub(crate) struct Alone(#[expect(dead_code, reason = "holds the lock")] File);

/// Waits for the machine, which other checkouts and users share.
pub(crate) fn alone() -> Alone {
    locked("iopj-tests.lock")
}

/// Waits until no other test has guests that measure.
pub(crate) fn alone_with_guests() -> Alone {
    locked("iopj-tests-guests.lock")
}

fn locked(name: &str) -> Alone {
    let folders = [PathBuf::from("/run/lock"), std::env::temp_dir()];
    // Opened first: in a folder that all may write to, the kernel lets nobody create a file that another
    // owns.
    let open = |folder: &PathBuf| {
        let path = folder.join(name);
        File::open(&path).or_else(|_| File::create(&path)).ok()
    };
    let file = folders.iter().find_map(open).expect("a place for the tests' lock");
    let asked = Instant::now();
    // SAFETY: the descriptor is open; the lock goes with it.
    assert_eq!(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }, 0);
    // `cargo xtask test` subtracts it from the test's time.
    eprintln!("waited {} s for the machine", asked.elapsed().as_secs());
    Alone(file)
}

/// Runs a tool to its end; returns its output.
pub(crate) fn tool(line: &str) -> String {
    let mut words = line.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Copies a program so it can be run. A tool makes the copy: what this process writes could still be open in
/// a child of another test, and then not be run.
pub(crate) fn install(program: &Path, to: &Path) {
    tool(&format!("install -m 755 {} {}", program.display(), to.display()));
}

/// A tool that undoes what a test did.
pub(crate) struct Undo(pub(crate) String);

impl Drop for Undo {
    fn drop(&mut self) {
        let mut words = self.0.split_whitespace();
        let _ = Command::new(words.next().unwrap_or("true")).args(words).status();
    }
}

/// What each loop device begins with. It keeps what a test left that was killed.
const FIRST: [(&str, &str); 3] = [("nomerges", "0"), ("rq_affinity", "1"), ("scheduler", "none")];

/// A loop device, detached when dropped.
pub(crate) struct LoopDevice {
    pub(crate) path: PathBuf,
    _undo: Undo,
}

impl LoopDevice {
    /// Over the file `image`, with losetup's `options`.
    pub(crate) fn new(image: &Path, options: &str) -> LoopDevice {
        let path = tool(&format!("losetup {options} -f --show {}", image.display()));
        let device = LoopDevice { _undo: Undo(format!("losetup -d {path}")), path: path.into() };
        let queue = Path::new("/sys/block").join(device.name()).join("queue");
        for (setting, value) in FIRST {
            // Only root can change them, and so only root need do this.
            let _ = std::fs::write(queue.join(setting), value);
        }
        device
    }

    /// The node, as `/dev/loop0`.
    pub(crate) fn node(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// The kernel's name, as `loop0`.
    pub(crate) fn name(&self) -> &str {
        self.node().trim_start_matches("/dev/")
    }
}

/// Runs a shell's script in a mount namespace of its own, from which no mount gets out. Its root is the root
/// of a mount: that of a plain chroot is none, and there neither runc nor `unshare --mount` can keep their
/// mounts to themselves. Puts its own root below `folder`. Only for root.
pub(crate) fn apart(folder: &Path, script: &str) -> Output {
    let own = TestFolder::in_folder(folder).unwrap();
    // Mounts spread from the mount that they are made on, and that of a plain chroot cannot be kept from it.
    let place = own.join("place");
    let _tmpfs = mounted("-t tmpfs tmpfs", &place);
    std::fs::create_dir(place.join("root")).unwrap();
    let enter = "mount --make-private \"$0\"\nmount --rbind / \"$0/root\"\nmount --make-rprivate \
                 \"$0/root\"\nexec chroot \"$0/root\" sh -ec \"$1\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "unchanged", "sh", "-ec", enter]).arg(&place).arg(script);
    command.output().unwrap()
}

/// Mounts `what` (with mount's options before it) on a new folder `at`, until the guard is dropped.
pub(crate) fn mounted(what: &str, at: &Path) -> Undo {
    std::fs::create_dir(at).unwrap();
    tool(&format!("mount {what} {}", at.display()));
    Undo(format!("umount {}", at.display()))
}
