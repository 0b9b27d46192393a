//! Ctrl-C: the first one is answered at once and begins nothing new; the second one ends the program.

use crate::PLAIN;
use crate::common::{LoopDevice, alone, folder, have_loop, iopj, written};
use crate::live::Live;
use crate::succeeds;
use std::fs;
use std::path::PathBuf;

const SAYS: &str = "stopping: nothing new begins, and settings are put back; a second signal ends iopj at \
                    once, after which `iopj restore` puts them back\n";

/// Nothing was said until the run had ended.
#[test]
fn ctrl_c_is_answered_and_nothing_new_begins() {
    let _alone = alone();
    let here = &*folder().with_data(1 << 20);
    let line = PLAIN.replace("--ios 200", "--runtime 60s").replace("--replicates 1", "--replicates 9");
    let mut live = Live::start(iopj(here, &format!("run --target data {line}")));
    live.until("1/9 ");
    live.signal(libc::SIGINT);
    live.until("stopping: ");
    let (code, words) = live.end();
    assert_eq!(code, Some(130), "{words}");
    assert_eq!(words.matches(SAYS).count(), 1, "{words}");
    assert!(!words.contains("2/9 "), "{words}");
    assert!(
        words.ends_with("interrupted with 9 trials missing: `iopj run --resume quick.iopj`\n"),
        "{words}"
    );
}

#[test]
fn ctrl_c_is_an_event_for_who_reads_events() {
    let _alone = alone();
    let here = &*folder().with_data(1 << 20);
    let line = PLAIN.replace("--ios 200", "--runtime 60s");
    let mut live = Live::start(iopj(here, &format!("--log-format json run --target data {line}")));
    live.until("{\"event\":\"trial\"");
    live.signal(libc::SIGTERM);
    let (code, words) = live.end();
    assert_eq!(code, Some(130), "{words}");
    let events: Vec<serde_json::Value> =
        words.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let stopping: Vec<_> = events.iter().filter(|event| event["event"] == "stopping").collect();
    let [stopping] = stopping[..] else { panic!("{words}") };
    assert_eq!((&stopping["level"], &stopping["message"]), (&"info".into(), &SAYS.trim_end().into()));
    let time = stopping["time"].as_str().unwrap();
    assert!(time.len() == "2026-01-01T00:00:00.000Z".len() && time.ends_with('Z'), "{time}");
}

/// Both signals are there before the program goes on, so it cannot put back what it changed between them.
#[test]
fn a_second_signal_ends_a_run_at_once_and_restore_puts_back() {
    let Some(folder) = have_loop().then(folder) else { return };
    let _alone = alone();
    written(&folder.join("image"), 4 << 20);
    let device = LoopDevice::new(&folder.join("image"), "");
    let attribute = PathBuf::from(format!("/sys/block/{}/queue/nomerges", device.name()));
    let value = || fs::read_to_string(&attribute).unwrap().trim().to_owned();
    let before = value();
    let study = "name = \"s\"\npaths = \"posix-sio/syscall/interrupt\"\nmeters = \"none\"\n[settings]\n\
                 nomerges = 2\n[[workload]]\nrw = \"randread\"\nruntime = \"60s\"\n";
    fs::write(folder.join("s.toml"), study).unwrap();
    let mut live = Live::start(iopj(&folder, &format!("run s.toml --target {}", device.node())));
    live.until("1/");
    while value() != "2" {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    [libc::SIGSTOP, libc::SIGINT, libc::SIGTERM, libc::SIGCONT]
        .iter()
        .for_each(|signal| live.signal(*signal));
    let (code, words) = live.end();
    assert_eq!(code, Some(130), "{words}");
    assert!(!words.contains("interrupted with"), "it ended without its last words: {words}");
    assert_eq!(value(), "2", "it was put back although a second signal came");
    let (text, _) = succeeds(&mut iopj(&folder, "restore"));
    assert_eq!(value(), before, "{text}");
}
