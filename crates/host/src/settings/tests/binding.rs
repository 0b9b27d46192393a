//! Taking and giving back on a fixture whose files a stand-in for the kernel watches: it moves the driver's
//! link and lets block devices come and go. The real kernel is met in the lab.

mod disks;
mod drive_settings;
mod items;

use super::super::binding::Binding;
use super::super::fixture::{BOOT_ID, Fixture, assert_refused, host_at};
use super::super::item::Item;
use super::super::*;
use super::restore::{journal, kill, play, wait_for};
use iopj_engine::target::TakePlan;
use iopj_engine::{Isolation, PciAddress};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const ADDRESS: &str = "0000:01:00.0";
const DEVICE: &str = "sys/devices/pci0000:00/0000:01:00.0";
const DRIVERS: [&str; 3] = ["nvme", "vfio-pci", "uio"];

fn address() -> PciAddress {
    ADDRESS.parse().unwrap()
}

fn plan(driver: Option<&str>) -> TakePlan {
    let driver = driver.map(str::to_owned);
    let namespaces = driver.iter().filter(|name| *name == "nvme").map(|_| "nvme0n1".to_owned()).collect();
    TakePlan { address: address(), driver, namespaces, group: Some(7), isolation: Isolation::Iommu }
}

/// What the stand-in for the kernel does, and what it has seen written.
struct Kernel {
    root: PathBuf,
    /// A driver that takes nothing.
    refusing: Mutex<Option<&'static str>>,
    written: Mutex<Vec<String>>,
    pinned: Mutex<String>,
    /// When the disks come: as with the real kernel, a while after the driver.
    coming: Mutex<Option<Instant>>,
    /// When they can be used: a while after their folders have come.
    usable: Mutex<Option<Instant>>,
    /// Held while it does something.
    busy: Mutex<()>,
    stop: AtomicBool,
}

impl Kernel {
    fn path(&self, file: &str) -> PathBuf {
        self.root.join(file)
    }

    /// Takes what was written to a control file.
    fn written(&self, file: &str, name: String) -> bool {
        let text = fs::read_to_string(self.path(file)).unwrap_or_default();
        if text != ADDRESS {
            return false;
        }
        fs::write(self.path(file), "").unwrap();
        // What was written before it is seen before it.
        self.look_at_override();
        self.written.lock().unwrap().push(name);
        true
    }

    fn look_at_override(&self) {
        let text = fs::read_to_string(self.path(&format!("{DEVICE}/driver_override"))).unwrap_or_default();
        let (now, mut pinned) = (text.trim().to_owned(), self.pinned.lock().unwrap());
        if !text.is_empty() && now != *pinned {
            self.written.lock().unwrap().push(format!("override {now}"));
            *pinned = now;
        }
    }

    fn step(&self) {
        let _busy = self.busy.lock().unwrap();
        self.look_at_override();
        let is_due = |when: &Mutex<Option<Instant>>| {
            when.lock().unwrap().take_if(|due| *due <= Instant::now()).is_some()
        };
        if is_due(&self.coming) {
            self.disks_come();
            *self.usable.lock().unwrap() = Some(Instant::now() + Duration::from_millis(4));
        }
        if is_due(&self.usable) {
            self.disks_get_usable();
        }
        for driver in DRIVERS {
            let file = |name: &str| format!("sys/bus/pci/drivers/{driver}/{name}");
            if self.written(&file("unbind"), format!("unbind {driver}"))
                && self.driver().as_deref() == Some(driver)
            {
                self.disks_go();
                fs::remove_file(self.path(&format!("{DEVICE}/driver"))).unwrap();
            }
            if self.written(&file("bind"), format!("bind {driver}")) {
                self.bind(driver);
            }
        }
        if self.written("sys/bus/pci/drivers_probe", "probe".to_owned()) {
            let text = fs::read_to_string(self.path(&format!("{DEVICE}/driver_override"))).unwrap();
            self.bind(DRIVERS.into_iter().find(|driver| text.trim() == *driver).unwrap_or("nvme"));
        }
    }

    fn driver(&self) -> Option<String> {
        let link = fs::read_link(self.path(&format!("{DEVICE}/driver"))).ok()?;
        Some(link.file_name().unwrap().to_str().unwrap().to_owned())
    }

    fn bind(&self, driver: &str) {
        if *self.refusing.lock().unwrap() == Some(driver) || self.driver().is_some() {
            return;
        }
        symlink(self.path("sys/bus/pci/drivers").join(driver), self.path(&format!("{DEVICE}/driver")))
            .unwrap();
        if driver == "nvme" {
            *self.coming.lock().unwrap() = Some(Instant::now() + Duration::from_millis(4));
        }
    }

    /// Their folders, as yet without what comes last.
    fn disks_come(&self) {
        let disk = self.controller_comes().join("nvme0n1");
        fs::create_dir_all(disk.join("queue")).unwrap();
        for (file, value) in [("serial", "S-1\n"), ("stat", "\n")] {
            fs::write(disk.join(file), value).unwrap();
        }
        symlink(disk, self.path("sys/block/nvme0n1")).unwrap();
    }

    fn disks_get_usable(&self) {
        // The drive may be pulled by now.
        let Ok(disk) = fs::canonicalize(self.path("sys/block/nvme0n1")) else { return };
        for (file, value) in [("scheduler", "none"), ("nr_requests", "1023"), ("io_timeout", "30000")] {
            fs::write(disk.join("queue").join(file), format!("{value}\n")).unwrap();
        }
        if self.path("dev/nvme0").exists() {
            fs::write(disk.join("queue/write_cache"), "write back\n").unwrap();
        }
        fs::create_dir(disk.join("bdi")).unwrap();
    }

    fn disks_go(&self) {
        *self.coming.lock().unwrap() = None;
        *self.usable.lock().unwrap() = None;
        let _ = fs::remove_file(self.path("sys/block/nvme0n1"));
        let _ = fs::remove_dir_all(self.path(&format!("{DEVICE}/nvme")));
    }

    /// True where nothing written waits to be done.
    fn is_idle(&self) -> bool {
        let _busy = self.busy.lock().unwrap();
        let files = DRIVERS.iter().flat_map(|driver| [format!("{driver}/unbind"), format!("{driver}/bind")]);
        let files = files
            .map(|file| format!("sys/bus/pci/drivers/{file}"))
            .chain(["sys/bus/pci/drivers_probe".to_owned()]);
        files.into_iter().all(|file| fs::read_to_string(self.path(&file)).is_ok_and(|text| text.is_empty()))
    }
}

/// A host with one drive, bound to `driver`.
struct Machine {
    fixture: Fixture,
    kernel: Arc<Kernel>,
    thread: Option<JoinHandle<()>>,
}

impl Machine {
    fn new(driver: Option<&str>) -> Machine {
        let fixture = Fixture::empty();
        let root = fixture.root().to_owned();
        for driver in DRIVERS {
            for file in ["bind", "unbind"] {
                fixture.write(&format!("sys/bus/pci/drivers/{driver}/{file}"), "");
                fs::write(fixture.path(&format!("sys/bus/pci/drivers/{driver}/{file}")), "").unwrap();
            }
        }
        fs::write(fixture.path("sys/bus/pci/drivers_probe"), "").unwrap();
        fs::create_dir_all(fixture.path("sys/block")).unwrap();
        fixture.write(&format!("{DEVICE}/driver_override"), "(null)");
        fixture.link(&format!("sys/bus/pci/devices/{ADDRESS}"), DEVICE);
        let (refusing, written) = (Mutex::new(None), Mutex::new(Vec::new()));
        let pinned = Mutex::new("(null)".to_owned());
        let kernel = Arc::new(Kernel {
            root,
            refusing,
            written,
            pinned,
            coming: Mutex::new(None),
            usable: Mutex::new(None),
            busy: Mutex::new(()),
            stop: AtomicBool::new(false),
        });
        driver.inspect(|driver| kernel.bind(driver));
        if kernel.coming.lock().unwrap().take().is_some() {
            kernel.disks_come();
            kernel.disks_get_usable();
        }
        let running = Arc::clone(&kernel);
        let thread = thread::spawn(move || {
            while !running.stop.load(Ordering::Relaxed) {
                running.step();
                thread::sleep(Duration::from_millis(1));
            }
        });
        Machine { fixture, kernel, thread: Some(thread) }
    }

    fn settings<T>(&self, work: impl FnOnce(&mut Settings) -> T) -> T {
        let devices: &[&str] =
            if self.fixture.path("sys/block/nvme0n1").exists() { &["nvme0n1"] } else { &[] };
        self.fixture.with_settings(devices, work)
    }

    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.kernel.written.lock().unwrap())
    }

    fn is_pinned(&self) -> bool {
        !matches!(self.fixture.read(&format!("{DEVICE}/driver_override")).as_str(), "" | "(null)")
    }

    /// Lays down a journal as a dead run leaves it.
    fn journal(&self, old: &str) -> PathBuf {
        let header =
            format!(r#"{{"iopj_journal":1,"boot_id":"{BOOT_ID}","pid":77,"begun_ns":1,"devices":[]}}"#);
        let line = format!(r#"{{"file":"bus/pci/devices/{ADDRESS}/driver","old":"{old}","new":"vfio-pci"}}"#);
        journal(&self.fixture, 1, &header, &format!("{line}\n"))
    }

    fn restore(&self) -> RestoreReport {
        super::restore::restore(&self.fixture)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kernel.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn a_drive_is_taken_and_given_back_step_by_step() {
    let machine = Machine::new(Some("nvme"));
    let queue = format!("{DEVICE}/nvme/nvme0/nvme0n1/queue");
    machine.fixture.write(&format!("{queue}/scheduler"), "kyber");
    machine.fixture.write(&format!("{queue}/io_timeout"), "5000");
    machine.settings(|settings| {
        for round in 0..2 {
            settings.take(&plan(Some("nvme"))).unwrap();
            assert_eq!(machine.kernel.driver().as_deref(), Some("vfio-pci"));
            assert_eq!(machine.seen(), ["override vfio-pci", "unbind nvme", "probe"]);
            let journal = machine.fixture.journals().remove(0);
            let lines: Vec<&str> = journal.lines().collect();
            assert!(lines[0].contains(r#"{"name":"nvme0n1","serial":"S-1"}"#), "{journal}");
            assert_eq!(
                lines[1],
                r#"{"file":"bus/pci/devices/0000:01:00.0/nvme/serial","old":"S-1","new":"S-1"}"#
            );
            assert_eq!(lines[2], r#"{"file":"block/nvme0n1/queue/io_timeout","old":"5000","new":"5000"}"#);
            assert_eq!(lines[3], r#"{"file":"block/nvme0n1/queue/nr_requests","old":"1023","new":"1023"}"#);
            assert_eq!(lines[4], r#"{"file":"block/nvme0n1/queue/scheduler","old":"kyber","new":"kyber"}"#);
            let driver = r#"{"file":"bus/pci/devices/0000:01:00.0/driver","old":"nvme","new":"vfio-pci"}"#;
            assert_eq!(lines[5..], vec![driver; round + 1]);
            settings.give_back(address()).unwrap();
            assert_eq!(machine.kernel.driver().as_deref(), Some("nvme"));
            assert_eq!(machine.seen(), ["override ", "unbind vfio-pci", "bind nvme"]);
            assert_eq!(
                machine.fixture.read(&format!("{queue}/scheduler")),
                "kyber",
                "the driver's own is `none`"
            );
            assert_eq!(
                machine.fixture.read(&format!("{queue}/io_timeout")),
                "5000",
                "the driver's own is 30000"
            );
        }
        let changes: Vec<_> =
            settings.changes().iter().map(|change| (change.old.as_str(), change.new.as_str())).collect();
        assert_eq!(
            changes,
            [("nvme", "vfio-pci"), ("vfio-pci", "nvme"), ("nvme", "vfio-pci"), ("vfio-pci", "nvme")]
        );
        settings.give_back(address()).unwrap();
        assert_eq!(settings.restore().unwrap(), []);
    });
    assert_eq!((machine.seen(), machine.fixture.journals().len()), (vec![], 0));
}

#[test]
fn what_is_not_given_back_goes_back_with_the_settings() {
    let machine = Machine::new(Some("nvme"));
    machine.settings(|settings| {
        settings.take(&plan(Some("nvme"))).unwrap();
        let restored = settings.restore().unwrap();
        let file = machine.fixture.path("sys/bus/pci/devices/0000:01:00.0/driver");
        assert_eq!(restored, [Restored { file, from: "vfio-pci".into(), to: "nvme".into() }]);
        settings.take(&plan(Some("nvme"))).unwrap();
    });
    // The second time by being dropped.
    assert_eq!(machine.kernel.driver().as_deref(), Some("nvme"));
    assert!(machine.fixture.path("sys/block/nvme0n1").exists() && !machine.is_pinned());
    assert_eq!(machine.fixture.journals(), [""; 0]);
}

#[test]
fn a_drive_without_a_driver_has_none_again() {
    let machine = Machine::new(None);
    machine.settings(|settings| {
        settings.take(&plan(None)).unwrap();
        assert!(machine.fixture.journals()[0].contains(r#""old":"none","new":"vfio-pci""#));
        settings.give_back(address()).unwrap();
    });
    assert_eq!(machine.kernel.driver(), None);
    assert_eq!(machine.seen(), ["override vfio-pci", "probe", "override ", "unbind vfio-pci"]);
}

#[test]
fn a_drive_of_vfio_pci_is_locked_and_stays_there() {
    let machine = Machine::new(Some("vfio-pci"));
    machine.settings(|settings| {
        settings.take(&plan(Some("vfio-pci"))).unwrap();
        machine.settings(|other| {
            let message = other.take(&plan(Some("vfio-pci"))).unwrap_err().to_string();
            assert!(message.starts_with("`pci:0000:01:00.0` is in use by the run of iopj with"), "{message}");
        });
        settings.give_back(address()).unwrap();
    });
    assert_eq!(machine.seen(), [""; 0]);
    assert_eq!(machine.kernel.driver().as_deref(), Some("vfio-pci"));
}

#[test]
fn a_driver_that_does_not_come_leaves_the_drive_with_the_old_one() {
    let mut machine = Machine::new(Some("nvme"));
    machine.fixture.limit = Some(Duration::from_secs(2));
    *machine.kernel.refusing.lock().unwrap() = Some("vfio-pci");
    machine.settings(|settings| {
        let message = settings.take(&plan(Some("nvme"))).unwrap_err().to_string();
        assert!(
            message.starts_with(
                "0000:01:00.0 could not be taken from its driver: after 2 s its driver is `none`"
            ),
            "{message}"
        );
        assert!(message.ends_with("it is back with its driver"), "{message}");
        assert_eq!(machine.kernel.driver().as_deref(), Some("nvme"));
        assert_eq!(settings.restore().unwrap(), []);
        assert!(!machine.is_pinned());
        // A plan that is out of date changes nothing.
        let changed = "its driver changed to `nvme` after iopj looked at it; try again";
        assert_refused(settings.take(&plan(Some("uio"))), &[changed]);
        // An old driver that refuses is reported, and tried again.
        *machine.kernel.refusing.lock().unwrap() = None;
        settings.take(&plan(Some("nvme"))).unwrap();
        *machine.kernel.refusing.lock().unwrap() = Some("nvme");
        let kept = "could not be given back to its driver: after 2 s its driver is `none`, not `nvme`";
        assert_refused(settings.give_back(address()), &[kept]);
        assert_refused(settings.restore(), &["its driver is `none`, not `nvme`", "`iopj restore`"]);
        *machine.kernel.refusing.lock().unwrap() = None;
        assert_eq!(settings.restore().unwrap().len(), 1);
    });
    assert_eq!(machine.kernel.driver().as_deref(), Some("nvme"));
}

#[test]
fn a_drive_that_is_open_through_vfio_is_not_touched() {
    for how in 0..4 {
        let machine = Machine::new(Some("nvme"));
        let fixture = &machine.fixture;
        fixture.link(&format!("{DEVICE}/iommu_group"), "sys/kernel/iommu_groups/7");
        fixture.write(&format!("{DEVICE}/vfio-dev/vfio3/dev"), "510:3");
        fs::create_dir_all(fixture.path("proc/4711/fd")).unwrap();
        let descriptor = |target: &Path| symlink(target, fixture.path("proc/4711/fd/9")).unwrap();
        machine.settings(|settings| {
            settings.take(&plan(Some("nvme"))).unwrap();
            machine.seen();
            match how {
                0 => descriptor(&fixture.path("dev/vfio/7")),
                1 => descriptor(&fixture.path("dev/vfio/noiommu-7")),
                2 => descriptor(&fixture.path("dev/vfio/devices/vfio3")),
                _ => {
                    descriptor(Path::new("anon_inode:[vfio-device]"));
                    fixture
                        .write("proc/4711/fdinfo/9", &format!("flags: 02\nvfio-device-syspath: /{DEVICE}"));
                }
            }
            let open = "the process with id 4711 has it open through VFIO: end that";
            assert_refused(settings.give_back(address()), &[open]);
            assert_refused(settings.restore(), &["id 4711"]);
            assert_eq!((machine.seen(), machine.is_pinned()), (vec![], true));
            fs::remove_file(fixture.path("proc/4711/fd/9")).unwrap();
            // Another group is nobody's business.
            descriptor(&fixture.path("dev/vfio/70"));
            settings.give_back(address()).unwrap();
        });
    }
}

#[test]
fn a_drive_that_was_pulled_is_noted() {
    let machine = Machine::new(Some("vfio-pci"));
    fs::remove_file(machine.fixture.path("sys/bus/pci/devices/0000:01:00.0")).unwrap();
    machine.journal("nvme");
    let report = machine.restore();
    assert!(report.notes[0].contains("0000:01:00.0/driver is gone"), "{report:?}");
    assert_eq!((report.failed.len(), machine.fixture.journals().len()), (0, 0));
}

#[test]
fn a_drive_that_somebody_bound_meanwhile_is_left_alone() {
    for (driver, old) in [("nvme", "none"), ("uio", "nvme")] {
        let machine = Machine::new(Some(driver));
        machine.journal(old);
        let report = machine.restore();
        let note = format!("0000:01:00.0 is now bound to `{driver}`, and not by this run: left alone");
        assert_eq!((report.notes, report.restored.len(), machine.seen()), (vec![note], 0, vec![]));
        assert_eq!(machine.fixture.journals(), [""; 0]);
    }
}

#[test]
fn a_dead_runs_drive_waits_for_the_run_that_has_it_now() {
    let machine = Machine::new(Some("vfio-pci"));
    machine.journal("nvme");
    machine.settings(|settings| {
        settings.take(&plan(Some("vfio-pci"))).unwrap();
        let report = machine.restore();
        assert!(report.left_alone[0].reason.starts_with("`pci:0000:01:00.0` is in use by"), "{report:?}");
    });
    assert_eq!(machine.restore().restored.len(), 1);
    assert_eq!(machine.kernel.driver().as_deref(), Some("nvme"));
}

/// Not a test of its own: the run that `a_killed_run_gives_its_drive_back` kills.
#[test]
fn part_takes_without_end() {
    let Some(root) = super::restore::child_root() else { return };
    let host = host_at(&root);
    let devices = ["nvme0n1".to_owned()];
    let locks = host.lock(&devices).unwrap();
    let mut settings = host.settings(&devices, &locks);
    loop {
        fs::write(root.join("changed"), "").unwrap();
        settings.take(&plan(Some("nvme"))).unwrap();
        settings.give_back(address()).unwrap();
    }
}

#[test]
fn a_killed_run_gives_its_drive_back() {
    let machine = Machine::with_features();
    let kept = machine.kept();
    machine.fixture.write(&format!("{DEVICE}/nvme/nvme0/nvme0n1/queue/scheduler"), "kyber");
    for moment in 0..12u32 {
        let child = play(module_path!(), "part_takes_without_end", &machine.fixture);
        wait_for(&machine.fixture.path("changed"));
        thread::sleep(Duration::from_micros(u64::from(moment) * 1500));
        kill(child);
        fs::remove_file(machine.fixture.path("changed")).unwrap();
        // The kernel ends a write before the process that made it can die.
        while !machine.kernel.is_idle() {
            thread::sleep(Duration::from_millis(1));
        }
        let report = machine.restore();
        assert_eq!((report.failed, report.left_alone), (vec![], vec![]), "killed at moment {moment}");
        assert_eq!(machine.kernel.driver().as_deref(), Some("nvme"), "killed at moment {moment}");
        assert_eq!(
            machine.fixture.read("sys/block/nvme0n1/queue/scheduler"),
            "kyber",
            "killed at moment {moment}"
        );
        assert!(!machine.is_pinned(), "killed at moment {moment}");
        assert_eq!((machine.kept(), report.notes), (kept.clone(), vec![]), "killed at moment {moment}");
        assert_eq!(machine.fixture.journals(), [""; 0]);
    }
}

#[test]
fn a_forged_driver_undoes_nothing() {
    for old in ["../../../etc", "", "nvme/unbind", "a b", ".nvme", "nvme\\u0000", "nvme.."] {
        let machine = Machine::new(Some("vfio-pci"));
        machine.journal(old);
        let report = machine.restore();
        assert!(
            report.failed[0].reason.contains("cannot be put back: it is not a single word"),
            "{old}: {report:?}"
        );
        assert_eq!(machine.seen(), [""; 0]);
    }
}
