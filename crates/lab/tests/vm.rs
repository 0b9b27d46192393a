//! Real guests: boots, results, and every way in which a guest can end badly.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use iopj_lab::image::{GuestFile, GuestSpec, ModuleWish, Program, build};
use iopj_lab::vm::{
    Accelerator, Backend, Drive, Ended, Fault, Kvm, MachineSpec, Qmp, RunFolder, VmError, kvm, missing_tools, run,
};

/// A kernel of the cache.
struct Kernel {
    release: String,
    image: PathBuf,
    modules: PathBuf,
}

/// The cached kernel of this series; `None`, said on stderr, where this test cannot run.
fn kernel(series: &str) -> Option<Kernel> {
    let kernels = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache"),
    }
    .join("iopj/lab/kernels");
    let release = fs::read_dir(&kernels).ok().and_then(|entries| {
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter(|name| name.starts_with(&format!("{series}."))).max()
    });
    match release {
        Some(release) if missing_tools().is_empty() => {
            let folder = kernels.join(&release);
            let modules = folder.join("lib/modules").join(&release);
            Some(Kernel { image: folder.join("vmlinux"), modules, release })
        }
        _ => {
            let needs = format!("QEMU, a static busybox and kernel {series} (iopj lab kernels {series})");
            assert!(std::env::var_os("CI").is_none(), "needs {needs}");
            eprintln!("skipped: needs {needs}");
            None
        }
    }
}

fn tcg() -> Accelerator {
    Accelerator::Tcg { icount: false, plugin: None }
}

fn nvme() -> Drive {
    Drive::Nvme { max_ioqpairs: 8, backend: Backend::Null { size_bytes: 1 << 30, latency_ns: 0 } }
}

/// A folder with a machine in it.
struct Bench {
    cache: tempfile::TempDir,
    folder: RunFolder,
    machine: MachineSpec,
}

impl Bench {
    fn new(kernel: &Kernel, guest: &GuestSpec) -> Bench {
        let cache = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(cache.path()).unwrap();
        let initramfs = folder.path().join("initramfs");
        build(guest, &kernel.modules, &kernel.release, &initramfs).unwrap();
        let machine = MachineSpec {
            kernel: kernel.image.clone(),
            initramfs,
            accelerator: tcg(),
            vcpus: 2,
            memory_mib: 1024,
            drives: vec![nvme()],
            kernel_arguments: Vec::new(),
            iommu: false,
            time_limit: Duration::from_secs(120),
        };
        Bench { cache, folder, machine }
    }

    fn out(&self) -> PathBuf {
        self.cache.path().join("out")
    }

    fn run(&self, line: &mut dyn FnMut(&str)) -> Result<Ended, VmError> {
        fs::create_dir_all(self.out()).unwrap();
        run(&self.machine, &self.folder, &self.out(), &AtomicBool::new(false), line)
    }
}

fn guest(script: &str) -> GuestSpec {
    let modules = vec![ModuleWish { name: "nvme".into(), options: vec!["poll_queues=2".into()] }];
    GuestSpec { modules, script: script.into(), ..GuestSpec::default() }
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap().trim().to_owned()
}

/// Boots, reads the emulated drive, runs a program of the host, and gives its results back.
fn boots(series: &str) {
    let Some(kernel) = kernel(series) else { return };
    let script = "uname -r >/out/release\n\
                  cat /sys/class/nvme/nvme0/serial >/out/serial\n\
                  cat /sys/module/nvme/parameters/poll_queues >/out/poll_queues\n\
                  dd if=/dev/nvme0n1 bs=4096 count=4 iflag=direct 2>/dev/null | wc -c >/out/bytes\n\
                  tests --list >/out/list 2>&1; mkdir /out/sub; cat /given >/out/sub/given\n\
                  grep -c . /proc/kallsyms >/out/symbols; grep -m1 ' [tT] ' /proc/kallsyms >/out/symbol\n\
                  echo 'hello from the guest'; exit 7\n";
    let mut guest = guest(script);
    guest.programs.push(Program::running("tests"));
    guest.files.push(GuestFile { path: "/given".into(), content: b"as given".to_vec(), mode: 0o644 });
    let bench = Bench::new(&kernel, &guest);
    let mut lines = Vec::new();
    let ended = bench.run(&mut |line| lines.push(line.to_owned())).unwrap();
    eprintln!("{}: up after {:?}, off after {:?}", kernel.release, ended.boot, ended.total);
    assert_eq!(ended.status, 7, "{lines:?}");
    assert!(lines.contains(&"hello from the guest".to_owned()), "{lines:?}");
    let out = bench.out();
    assert_eq!(read(&out, "release"), kernel.release);
    assert_eq!(read(&out, "serial"), "iopjlab");
    assert_eq!(read(&out, "poll_queues"), "2");
    assert_eq!(read(&out, "bytes"), "16384");
    assert_eq!(read(&out, "sub/given"), "as given");
    assert!(read(&out, "list").contains("a_current_kernel_boots: test"), "{}", read(&out, "list"));
    assert!(!read(&out, "symbol").starts_with("0000000000000000"));
}

#[test]
fn an_old_kernel_boots() {
    boots("5.10");
}

#[test]
fn a_current_kernel_boots() {
    boots("6.18");
}

/// A guest of 5.10 that runs this script with this drive.
fn bench(script: &str, drive: Drive) -> Option<Bench> {
    let mut bench = Bench::new(&kernel("5.10")?, &guest(script));
    bench.machine.drives = vec![drive];
    Some(bench)
}

/// No QEMU runs in a bench's folder.
fn assert_gone(bench: &Bench) {
    let pid = machine_pid(bench.folder.path()).unwrap();
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
}

fn machine_pid(folder: &Path) -> Option<u32> {
    fs::read_to_string(folder.join("machine")).ok()?.split(' ').next()?.parse().ok()
}

#[test]
fn a_guest_that_hangs_ends_at_its_limit_with_its_last_lines() {
    let Some(mut bench) = bench("echo 'the last line'; sleep 1000", nvme()) else { return };
    bench.machine.time_limit = Duration::from_secs(15);
    let error = bench.run(&mut |_| {}).unwrap_err();
    let VmError::TimeLimit { console, .. } = &error else { panic!("{error}") };
    assert_eq!(console.last().unwrap(), "the last line");
    assert!(error.to_string().starts_with("the guest did not end within 15 s: look at its last lines"), "{error}");
    assert_gone(&bench);
}

#[test]
fn a_panic_is_told_apart() {
    let Some(bench) = bench("echo c >/proc/sysrq-trigger; sleep 1000", nvme()) else { return };
    let error = bench.run(&mut |_| {}).unwrap_err();
    let VmError::Panic { panic, .. } = &error else { panic!("{error}") };
    assert!(panic.contains("sysrq triggered crash"), "{error}");
    assert_gone(&bench);
}

#[test]
fn a_guest_that_switches_itself_off_handed_nothing_out() {
    let Some(bench) = bench("poweroff -f", nvme()) else { return };
    let error = bench.run(&mut |_| {}).unwrap_err();
    assert!(matches!(error, VmError::NoOutput { .. }), "{error}");
}

#[test]
fn a_stop_flag_ends_the_machine() {
    let Some(bench) = bench("echo up; sleep 1000", nvme()) else { return };
    let stop = AtomicBool::new(false);
    let mut line = |line: &str| stop.store(stop.load(Ordering::Relaxed) || line == "up", Ordering::Relaxed);
    let error = run(&bench.machine, &bench.folder, bench.cache.path(), &stop, &mut line).unwrap_err();
    assert!(matches!(error, VmError::Stopped), "{error}");
    assert_gone(&bench);
}

#[test]
fn a_module_option_that_does_not_exist_is_the_guests_word() {
    let Some(kernel) = kernel("5.10") else { return };
    let mut guest = guest("true");
    guest.modules[0].name = "null_blk".into();
    guest.modules[0].options = vec!["queue_mode=9".into()];
    let error = Bench::new(&kernel, &guest).run(&mut |_| {}).unwrap_err();
    let VmError::Guest { cause, .. } = &error else { panic!("{error}") };
    assert!(cause.starts_with("modules: ") && cause.contains("null_blk.ko"), "{error}");
}

#[test]
fn an_image_that_is_no_kernel_is_refused() {
    let Some(mut bench) = bench("true", nvme()) else { return };
    bench.machine.kernel = "/bin/sh".into();
    bench.machine.time_limit = Duration::from_secs(20);
    let error = bench.run(&mut |_| {}).unwrap_err();
    eprintln!("{error}");
    bench.machine.kernel = bench.folder.path().join("machine");
    let error = bench.run(&mut |_| {}).unwrap_err();
    eprintln!("{error}");
}

#[test]
fn kvm_answers_within_its_limit() {
    let Some(kernel) = kernel("5.10") else { return };
    let cache = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let answer = kvm(cache.path(), &kernel.image).unwrap();
    eprintln!("{answer:?} after {:?}", start.elapsed());
    if let Kvm::Fails(cause) = &answer {
        assert!(!cause.is_empty());
    }
    assert_eq!(kvm(cache.path(), &kernel.image).unwrap(), answer);
    assert_eq!(fs::read_dir(cache.path().join("runs")).map_or(0, Iterator::count), 0);
}

const OWNER: &str = "IOPJ_TEST_OWNER";

/// Not a test of its own: the process that [`a_killed_owner_leaves_no_machine`] kills.
#[test]
fn owner_of_a_machine() {
    let Some(cache) = std::env::var_os(OWNER) else { return };
    let Some(bench) = bench("echo up; sleep 1000", nvme()) else { return };
    let folder = RunFolder::create(Path::new(&cache)).unwrap();
    println!();
    run(&bench.machine, &folder, bench.cache.path(), &AtomicBool::new(false), &mut |line| println!("{line}")).unwrap();
}

#[test]
fn a_killed_owner_leaves_no_machine() {
    if kernel("5.10").is_none() {
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "owner_of_a_machine", "--nocapture"])
        .env(OWNER, cache.path())
        .env("TMPDIR", cache.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "up"));
    let folder = fs::read_dir(cache.path().join("runs")).unwrap().next().unwrap().unwrap().path();
    let pid = machine_pid(&folder).unwrap();
    assert!(Path::new(&format!("/proc/{pid}")).exists());
    owner.kill().unwrap();
    owner.wait().unwrap();
    // The kernel's signal arrives on its own time.
    let alive = || fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    let end = Instant::now() + Duration::from_secs(10);
    while alive() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!alive());
    assert!(folder.exists());
    let next = RunFolder::create(cache.path()).unwrap();
    assert!(!folder.exists() && next.path().exists());
}

#[test]
fn reads_fail_as_told() {
    let script = "for n in 0 1 2 3; do dd if=/dev/nvme0n1 bs=4096 skip=$n count=1 iflag=direct >/dev/null 2>&1; echo $?; done >/out/codes\n\
                  dd if=/dev/nvme0n1 bs=4096 skip=1 count=1 iflag=direct 2>/out/error >/dev/null; dmesg | tail -5";
    let backend = Backend::ReadErrors { size_bytes: 1 << 30, fault: Fault::Sectors(vec![8, 31]) };
    let Some(bench) = bench(script, Drive::Nvme { max_ioqpairs: 8, backend }) else { return };
    bench.run(&mut |line| eprintln!("{line}")).unwrap();
    assert_eq!(read(&bench.out(), "codes"), "0\n1\n0\n1");
    assert!(read(&bench.out(), "error").contains("Input/output error"));
}

#[test]
fn reads_fail_after_so_many() {
    let script = "n=0; while [ $n -lt 1000 ] && dd if=/dev/nvme0n1 bs=4096 skip=1000 count=1 iflag=direct >/dev/null 2>&1; do n=$((n+1)); done\n\
                  echo $n >/out/good; dd if=/dev/nvme0n1 bs=4096 count=1 skip=7 iflag=direct 2>/dev/null; echo $? >/out/code";
    let backend = Backend::ReadErrors { size_bytes: 1 << 30, fault: Fault::After(100) };
    let Some(bench) = bench(script, Drive::Nvme { max_ioqpairs: 8, backend }) else { return };
    bench.run(&mut |line| eprintln!("{line}")).unwrap();
    let good: u32 = read(&bench.out(), "good").parse().unwrap();
    eprintln!("good {good}");
    assert!(good > 50 && good <= 100);
    assert_eq!(read(&bench.out(), "code"), "1");
}
