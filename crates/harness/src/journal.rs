//! Journals of settings: whatever a line says, only what is on the list of settings is put back.

use iopj_host::settings;

/// The first line of a journal of a drive `sda`.
const HEADER: &str =
    r#"{"iopj_journal":1,"boot_id":"b","pid":7,"begun_ns":9,"devices":[{"name":"sda","serial":"S"}]}"#;

/// A file that a run made, by its whole path.
const MADE: &str = "made-file/";
/// Where all that is put back is: below `/sys` and `/proc/sys`, entries of NVMe over fabrics, files that were
/// made.
const ROOTS: [&str; 9] = [
    "block/",
    "bus/pci/devices/",
    "class/net/",
    "devices/system/cpu/",
    "module/nvmet_tcp/",
    "proc/sys/net/core/",
    "nvme-fabrics/",
    "nvmet/",
    MADE,
];

/// The text after a sound first line, or a whole journal.
pub(crate) fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let text =
        if text.starts_with("{\"iopj_journal\"") { text.into_owned() } else { format!("{HEADER}\n{text}") };
    let Ok(changes) = settings::undone_by(&text) else { return };
    for (file, value) in changes {
        assert!(ROOTS.iter().any(|root| file.starts_with(root)), "{file} is on no list");
        assert!(!file.split('/').any(|part| part == ".." || part == "."), "{file} leads elsewhere");
        let name = file.rsplit('/').next().unwrap_or_default();
        assert!(!file.starts_with(MADE) || name.starts_with("iopj-"), "{file} is no file of ours");
        let is_plain = value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        assert!(is_plain && value.len() <= 512, "{value:?} is put back");
        // What it says, it says again.
        let line = serde_json::json!({ "file": file, "old": value, "new": "" });
        let again = settings::undone_by(&format!("{HEADER}\n{line}\n"));
        assert!(again.is_err() || again.is_ok_and(|again| again == [(file, value)]));
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let line = |file: &str, old: &str| {
        serde_json::json!({ "file": file, "old": old, "new": "2" }).to_string() + "\n"
    };
    let files = [
        ("block/sda/queue/nomerges", "0"),
        ("block/sda/queue/scheduler", "mq-deadline"),
        ("devices/system/cpu/cpufreq/policy0/scaling_governor", "schedutil"),
        ("devices/system/cpu/cpu0/cpuidle/state1/disable", "0"),
        ("bus/pci/devices/0000:00:04.0/driver", "nvme"),
        ("made-file/srv/iopj-00000000000000000000000000000000", "absent"),
        ("made-file/etc/passwd", "absent"),
        ("class/net/eth0/mtu", "1500"),
        ("block/sda/queue/nomerges", "0\u{7}"),
        ("../../etc/passwd", "root"),
        ("block/../../etc/passwd", "root"),
    ];
    let mut seeds: Vec<Vec<u8>> = files.iter().map(|(file, old)| line(file, old).into_bytes()).collect();
    seeds.push(format!("{HEADER}\n{}", line(files[0].0, files[0].1)).into_bytes());
    seeds.push(files.iter().take(3).map(|(file, old)| line(file, old)).collect::<String>().into_bytes());
    seeds
}
