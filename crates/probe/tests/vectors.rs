//! Disks of many kinds in made-up trees of `/proc` and `/sys`: which interrupts are theirs.

use iopj_core::evidence::DeviceEvidence;
use iopj_probe::{Edge, Probe, ProbeError, Who};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

const PORT: &str = "pci0000:00/0000:00:1c.0";

struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        tree.file("proc/stat", "cpu  1 2 3 4 5 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n");
        tree.file("proc/sys/kernel/osrelease", "6.1.0-amd64\n");
        // A bridge above the disks with a vector of its own, which is never theirs.
        tree.signalled(PORT, &[24]);
        tree
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A disk at `place` below `/sys/devices`.
    fn disk(&self, name: &str, place: &str) {
        self.file(&format!("sys/devices/{place}/queue/scheduler"), "none [mq-deadline] bfq\n");
        self.did(place, 0);
        fs::create_dir_all(self.0.path().join("sys/block")).unwrap();
        symlink(Path::new("../devices").join(place), self.0.path().join("sys/block").join(name)).unwrap();
    }

    /// The disk's counters after this many reads of 4 KiB.
    fn did(&self, place: &str, ios: u64) {
        let stat = format!("{ios} 0 {} 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n", ios * 8);
        self.file(&format!("sys/devices/{place}/stat"), &stat);
    }

    fn signalled(&self, place: &str, irqs: &[u32]) {
        for irq in irqs {
            self.file(&format!("sys/devices/{place}/msi_irqs/{irq}"), "msix\n");
        }
        self.file(&format!("sys/devices/{place}/irq"), "16\n");
    }

    /// Each line's count on one core is its number times `times`, on the other `times`.
    fn interrupts(&self, lines: &[(u32, &str)], times: u32) {
        let mut text = "           CPU0       CPU1\n".to_owned();
        for (irq, description) in lines {
            writeln!(text, "{irq:>4}: {:>10} {times:>10} {description}", irq * times).unwrap();
        }
        text.push_str(" NMI:          0          0   Non-maskable interrupts\n ERR:          0\n");
        self.file("proc/interrupts", &text);
    }

    fn probe(&self, names: &[&str]) -> Result<Probe, ProbeError> {
        Probe::with_root(self.0.path(), &names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    /// The evidence of one disk while every line counts once more and `meanwhile` happens.
    fn evidence(&self, name: &str, lines: &[(u32, &str)], meanwhile: impl FnOnce()) -> DeviceEvidence {
        self.interrupts(lines, 1);
        let probe = self.probe(&[name]).unwrap();
        let before = probe.snapshot(Who::Child, Edge::Begin).unwrap();
        self.interrupts(lines, 2);
        meanwhile();
        let mut evidence = before.until(&probe.snapshot(Who::Child, Edge::End).unwrap());
        evidence.devices.remove(0)
    }

    /// Vectors and interrupts of one disk.
    fn vectors(&self, name: &str, lines: &[(u32, &str)]) -> (Vec<String>, Option<u64>) {
        let evidence = self.evidence(name, lines, || {});
        (evidence.vectors, evidence.interrupts)
    }
}

fn nothing() -> (Vec<String>, Option<u64>) {
    (Vec::new(), None)
}

#[test]
fn nvme_counts_its_io_queues() {
    let tree = Tree::new();
    let place = &format!("{PORT}/0000:01:00.0");
    tree.signalled(place, &[40, 41, 42, 43]);
    tree.disk("nvme0n1", &format!("{place}/nvme/nvme0/nvme0n1"));
    let lines = [
        (24, "PCI-MSI 458752-edge      PCIe PME, aerdrv"),
        (40, "PCI-MSI 524288-edge      nvme0q0"),
        (41, "PCI-MSI 524289-edge      nvme0q1"),
        (42, "PCI-MSI 524290-edge      nvme0q2"),
        (44, "PCI-MSI 624290-edge      nvme1q1"),
    ];
    let expected = (vec!["41 nvme0q1".to_owned(), "42 nvme0q2".to_owned()], Some(41 + 1 + 42 + 1));
    assert_eq!(tree.vectors("nvme0n1", &lines), expected);
}

#[test]
fn nvme_with_a_single_vector_counts_it() {
    let tree = Tree::new();
    let place = &format!("{PORT}/0000:01:00.0");
    tree.signalled(place, &[40]);
    tree.disk("nvme0n1", &format!("{place}/nvme/nvme0/nvme0n1"));
    let lines = [(40, "PCI-MSI-0000:01:00.0   0-edge      nvme0q0, nvme0q1")];
    assert_eq!(tree.vectors("nvme0n1", &lines), (vec!["40 nvme0q0, nvme0q1".to_owned()], Some(41)));
}

/// Two controllers of one subsystem, with namespaces 1 and 2 on both: heads, and hidden paths.
fn multipath() -> (Tree, [String; 2]) {
    let tree = Tree::new();
    let controllers = [0, 1].map(|n| format!("{PORT}/0000:0{}:00.0/nvme/nvme{n}", n + 1));
    for namespace in [1, 2] {
        let head = format!("nvme0n{namespace}");
        tree.disk(&head, &format!("virtual/nvme-subsystem/nvme-subsys0/{head}"));
        for (n, controller) in controllers.iter().enumerate() {
            tree.disk(&format!("nvme0c{n}n{namespace}"), &format!("{controller}/nvme0c{n}n{namespace}"));
        }
    }
    for n in [0, 1] {
        tree.signalled(&format!("{PORT}/0000:0{}:00.0", n + 1), &[40 + 10 * n, 41 + 10 * n]);
    }
    (tree, controllers)
}

const MULTIPATH: [(u32, &str); 4] = [
    (40, "PCI-MSI 1-edge      nvme0q0"),
    (41, "PCI-MSI 2-edge      nvme0q1"),
    (50, "PCI-MSI 3-edge      nvme1q0"),
    (51, "PCI-MSI 4-edge      nvme1q1"),
];

#[test]
fn a_path_of_a_multipath_disk_has_its_own_controllers_vectors() {
    let (tree, controllers) = multipath();
    let evidence = tree.evidence("nvme0c1n1", &MULTIPATH, || {
        tree.did(&format!("{}/nvme0c0n1", controllers[0]), 70);
        tree.did(&format!("{}/nvme0c1n1", controllers[1]), 30);
    });
    assert_eq!(evidence.vectors, ["51 nvme1q1"]);
    assert_eq!((evidence.reads, evidence.read_sectors), (30, 240));
    assert_eq!(evidence.interrupts, Some(51 + 1));
    assert_eq!(tree.vectors("nvme0n1", &MULTIPATH), nothing());
}

#[test]
fn another_namespace_that_is_busy_hides_the_interrupts() {
    let (tree, controllers) = multipath();
    let evidence = tree.evidence("nvme0c0n1", &MULTIPATH, || {
        tree.did(&format!("{}/nvme0c0n1", controllers[0]), 5_000);
        tree.did(&format!("{}/nvme0c0n2", controllers[0]), 6);
    });
    assert_eq!((evidence.interrupts, evidence.vectors.len()), (None, 1));
}

#[test]
fn a_path_over_a_network_has_no_vectors() {
    let tree = Tree::new();
    tree.disk("nvme0c0n1", "virtual/nvme-fabrics/ctl/nvme0/nvme0c0n1");
    assert_eq!(tree.vectors("nvme0c0n1", &MULTIPATH), nothing());
}

#[test]
fn a_vector_that_vanishes_or_changes_hands_hides_the_interrupts() {
    let tree = Tree::new();
    let place = &format!("{PORT}/0000:01:00.0");
    tree.signalled(place, &[41, 42]);
    tree.disk("nvme0n1", &format!("{place}/nvme/nvme0/nvme0n1"));
    let lines = [(41, "PCI-MSI 524289-edge      nvme0q1"), (42, "PCI-MSI 524290-edge      nvme0q2")];
    let interrupts =
        |later: &[(u32, &str)]| tree.evidence("nvme0n1", &lines, || tree.interrupts(later, 2)).interrupts;
    assert_eq!(interrupts(&lines), Some(41 + 1 + 42 + 1));
    assert_eq!(interrupts(&lines[..1]), None);
    assert_eq!(interrupts(&[lines[0], (42, "PCI-MSI 524290-edge      nvme0q3")]), None);
    let offline =
        "           CPU0\n  41: 82 PCI-MSI 524289-edge      nvme0q1\n  42: 84 PCI-MSI 1-edge      nvme0q2\n";
    let without_core = tree.evidence("nvme0n1", &lines, || tree.file("proc/interrupts", offline));
    assert_eq!((without_core.interrupts, without_core.vectors.len()), (None, 2));
}

#[test]
fn flushes_and_discards_are_distinguished() {
    let tree = Tree::new();
    tree.disk("zram0", "virtual/block/zram0");
    let evidence = tree.evidence("zram0", &[], || {
        tree.file("sys/devices/virtual/block/zram0/stat", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n");
    });
    assert_eq!((evidence.reads, evidence.writes), (1, 5));
    assert_eq!((evidence.discards, evidence.flushes), (12, 16));
}

#[test]
fn ahci_counts_while_its_other_ports_are_idle() {
    let tree = Tree::new();
    let place = "pci0000:00/0000:00:17.0";
    tree.signalled(place, &[30]);
    let port = |n: u32| {
        format!("{place}/ata{n}/host{n}/target{n}:0:0/{n}:0:0:0/block/sd{}", if n == 1 { "a" } else { "b" })
    };
    tree.disk("sda", &port(1));
    tree.disk("sdb", &port(2));
    let lines = [(30, "PCI-MSI 376832-edge      ahci[0000:00:17.0]")];
    let alone = tree.evidence("sda", &lines, || tree.did(&port(1), 2_000));
    assert_eq!((alone.interrupts, &alone.vectors[..]), (Some(31), &["30 ahci[0000:00:17.0]".to_owned()][..]));
    let disturbed = tree.evidence("sda", &lines, || {
        tree.did(&port(1), 4_000);
        tree.did(&port(2), 500);
    });
    assert_eq!((disturbed.reads, disturbed.interrupts), (2_000, None));
}

#[test]
fn an_interrupt_line_counts_only_if_one_driver_handles_it() {
    let tree = Tree::new();
    let place = "pci0000:00/0000:00:1f.2";
    tree.file(&format!("sys/devices/{place}/irq"), "19\n");
    tree.disk("sda", &format!("{place}/ata1/host0/target0:0:0/0:0:0:0/block/sda"));
    let alone = [(19, "IO-APIC  19-fasteoi   ata_piix")];
    assert_eq!(tree.vectors("sda", &alone), (vec!["19 ata_piix".to_owned()], Some(20)));
    assert_eq!(tree.vectors("sda", &[(19, "IO-APIC  19-fasteoi   ata_piix, ehci_hcd:usb1")]), nothing());
}

#[test]
fn virtio_over_pci_counts_its_request_queues() {
    let tree = Tree::new();
    let place = "pci0000:00/0000:00:02.0";
    tree.signalled(place, &[35, 36, 37]);
    tree.disk("vda", &format!("{place}/virtio1/block/vda"));
    let lines = [
        (35, "PCI-MSIX-0000:00:02.0   0-edge      virtio1-config"),
        (36, "PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0"),
        (37, "PCI-MSIX-0000:00:02.0   2-edge      virtio1-req.1"),
        (38, "PCI-MSIX-0000:00:03.0   1-edge      virtio10-req.0"),
    ];
    let expected =
        (vec!["36 virtio1-req.0".to_owned(), "37 virtio1-req.1".to_owned()], Some(36 + 1 + 37 + 1));
    assert_eq!(tree.vectors("vda", &lines), expected);
    let few = [
        (35, "PCI-MSIX-0   0-edge      virtio1-config"),
        (36, "PCI-MSIX-0   1-edge      virtio1-virtqueues"),
    ];
    assert_eq!(tree.vectors("vda", &few), (vec!["36 virtio1-virtqueues".to_owned()], Some(37)));
}

#[test]
fn virtio_scsi_counts_its_request_queue() {
    let tree = Tree::new();
    tree.disk("sda", "pci0000:00/0000:00:04.0/virtio0/host0/target0:0:0/0:0:0:0/block/sda");
    let lines = [
        (26, "PCI-MSIX-0   1-edge      virtio0-control"),
        (27, "PCI-MSIX-0   2-edge      virtio0-event"),
        (28, "PCI-MSIX-0   3-edge      virtio0-request"),
    ];
    assert_eq!(tree.vectors("sda", &lines), (vec!["28 virtio0-request".to_owned()], Some(29)));
}

#[test]
fn virtio_over_mmio_is_known_by_its_name() {
    let tree = Tree::new();
    tree.disk("vda", "platform/soc/a003e00.virtio_mmio/virtio3/block/vda");
    let lines = [(45, "GICv3  79 Edge      virtio3"), (46, "GICv3  78 Edge      virtio2")];
    assert_eq!(tree.vectors("vda", &lines), (vec!["45 virtio3".to_owned()], Some(46)));
}

#[test]
fn disks_that_do_not_interrupt_have_no_vectors() {
    let tree = Tree::new();
    tree.disk("zram0", "virtual/block/zram0");
    tree.disk("loop0", "virtual/block/loop0");
    let usb = "pci0000:00/0000:00:14.0";
    tree.signalled(usb, &[33]);
    tree.disk("sdc", &format!("{usb}/usb1/1-1/1-1:1.0/host5/target5:0:0/5:0:0:0/block/sdc"));
    let lines = [(33, "PCI-MSI 327680-edge      xhci_hcd"), (41, "PCI-MSI 524289-edge      nvme0q1")];
    for name in ["zram0", "loop0", "sdc"] {
        assert_eq!(tree.vectors(name, &lines), nothing(), "{name}");
    }
}

#[test]
fn settings_are_those_of_the_queue() {
    let tree = Tree::new();
    tree.disk("zram0", "virtual/block/zram0");
    tree.file("sys/devices/virtual/block/zram0/queue/io_poll", "0\n");
    tree.file("sys/devices/virtual/block/zram0/queue/io_poll_delay", "-1\n");
    let expected = [("io_poll", "0"), ("io_poll_delay", "-1"), ("scheduler", "mq-deadline")];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(*tree.evidence("zram0", &[], || {}).settings, expected.into());
}

#[test]
fn what_is_not_there_is_named() {
    let tree = Tree::new();
    tree.disk("zram0", "virtual/block/zram0");
    let message = |result: Result<Probe, ProbeError>| result.unwrap_err().to_string();
    assert!(message(tree.probe(&["zram0"])).contains("proc/interrupts` cannot be read"));
    tree.interrupts(&[], 1);
    for name in ["sda", "zram0p1", "", "../zram0", "zram0/queue"] {
        assert!(message(tree.probe(&[name])).starts_with(&format!("`{name}` is not a whole disk")), "{name}");
    }
    let probe = tree.probe(&["zram0"]).unwrap();
    tree.file("sys/devices/virtual/block/zram0/stat", "1 2 3\n");
    assert!(
        probe.snapshot(Who::Child, Edge::End).unwrap_err().to_string().contains("has no eleven counters")
    );
    fs::remove_file(tree.0.path().join("sys/devices/virtual/block/zram0/stat")).unwrap();
    assert!(matches!(probe.snapshot(Who::Child, Edge::End), Err(ProbeError::Read { .. })));
}

/// While `/proc/interrupts` is read a submission poller spins on: its CPU time then is before the window, or
/// after it.
#[test]
fn what_threads_do_while_the_machine_is_read_is_not_in_the_window() {
    let tree = Tree::new();
    tree.interrupts(&[], 1);
    let probe = tree.probe(&[]).unwrap();
    let poller = |cpu_ns: u64| tree.file("proc/self/task/77/schedstat", &format!("{cpu_ns} 0 0\n"));
    tree.file("proc/self/task/77/stat", "77 (iou-sqp-7) S 1 2 3 4 5 6 7 8 9 10 0 0 0 0 20 0 1 0 99 0\n");
    tree.file("proc/self/task/77/status", "voluntary_ctxt_switches:\t0\nnonvoluntary_ctxt_switches:\t0\n");
    poller(1_000);
    let interrupts = tree.0.path().join("proc/interrupts");
    let text = fs::read(&interrupts).unwrap();
    fs::remove_file(&interrupts).unwrap();
    let name = std::ffi::CString::new(interrupts.as_os_str().as_bytes()).unwrap();
    // SAFETY: the name is a text that ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    // The file is open for writing once it is open for reading, and is read to its end once that is closed.
    let spin_while_it_is_read = |cpu_ns| {
        let mut file = fs::OpenOptions::new().write(true).open(&interrupts).unwrap();
        poller(cpu_ns);
        file.write_all(&text).unwrap();
    };
    let who = Who::ThisProcess { jobs: &[], own: &[] };
    let snapshot = |edge, cpu_ns| {
        std::thread::scope(|scope| {
            scope.spawn(move || spin_while_it_is_read(cpu_ns));
            probe.snapshot(who, edge).unwrap()
        })
    };
    let before = snapshot(Edge::Begin, 2_000);
    poller(2_050);
    let evidence = before.until(&snapshot(Edge::End, 9_000));
    assert_eq!(
        evidence.threads.iter().map(|thread| (thread.tid, thread.cpu_ns)).collect::<Vec<_>>(),
        [(77, 50)]
    );
}
