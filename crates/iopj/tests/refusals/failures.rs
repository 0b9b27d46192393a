//! Runs that are cut short: a device that starts failing, Ctrl-C. Finished trials remain, and the run can be
//! continued.

use crate::common::{LoopDevice, alone, folder, have_loop, iopj, written};
use crate::live::Live;
use crate::{PLAIN, output, succeeds};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;

fn trials(folder: &Path, store: &str) -> Vec<Value> {
    let (text, _) = succeeds(&mut iopj(folder, &format!("report --json {store}")));
    let value: Value = serde_json::from_str(&text).unwrap();
    value["trials"].as_array().unwrap().clone()
}

#[test]
fn failing_device_leaves_recorded_failures_and_a_study_that_goes_on() {
    let Some(folder) = have_loop().then(folder) else { return };
    let _alone = alone();
    let here = &folder;
    let image = here.join("image");
    written(&image, 16 << 20);
    let device = LoopDevice::new(&image, "--direct-io=on");
    let paths = "--path posix-sio/syscall/interrupt,posix-aio/syscall/interrupt,libaio/syscall/interrupt,\
                 io_uring/syscall/interrupt";
    let line = format!("run --target {} --meters none --store x.iopj {paths}", device.node());
    let line = format!("{line} --rw randread --iodepth 1 --runtime 2s --ramp-time 0s --replicates 2");
    let mut live = Live::start(iopj(here, &line));
    live.until("2/8 ");
    // A loop device answers with EIO beyond the end of its file.
    File::options().write(true).open(&image).unwrap().set_len(4096).unwrap();
    let (code, words) = live.end();
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("8/8 "), "{words}");
    assert!(words.contains("failed: 8/8 ") && words.contains("Input/output error (os error 5)"), "{words}");
    let trials = trials(here, "x.iopj");
    assert_eq!(trials.len(), 8);
    assert_eq!(trials[0]["status"], "measured");
    // The run may be some trials ahead of this reader of its messages.
    let first = trials.iter().position(|trial| trial["status"] == "failed").unwrap();
    for trial in &trials[first..] {
        assert_eq!(trial["status"], "failed", "{trial}");
        let error = trial["error"].as_str().unwrap();
        assert!(
            error.contains("I/Os failed") && error.contains("Input/output error (os error 5)"),
            "{error}"
        );
    }
    let (text, _) = succeeds(&mut iopj(here, "report x.iopj"));
    assert!(text.contains("8 of 8 trials") && text.contains("failed"), "{text}");
    assert!(text.contains("Input/output error (os error 5)"), "{text}");
    // Nothing is missing: there is nothing to resume.
    let (output, words) = output(&mut iopj(here, "run --resume x.iopj"));
    assert!(matches!(output.status.code(), Some(0 | 1)), "{words}");
    assert_eq!(self::trials(here, "x.iopj").len(), 8);
}

#[test]
fn interrupted_study_keeps_its_trials_and_is_completed_by_resume() {
    let _alone = alone();
    let here = &*folder();
    let study = "name = \"t\"\npaths = [\"posix-sio/syscall/interrupt\", \
                 \"libaio/syscall/interrupt\"]\nreplicates = 3\nsize = \"4m\"\nmeters = \
                 \"none\"\n[[workload]]\nruntime = \"1s\"\n";
    fs::write(here.join("t.toml"), study).unwrap();
    let mut live = Live::start(iopj(here, "run t.toml"));
    live.until("3/6 ");
    live.interrupt();
    let (code, words) = live.end();
    assert_eq!(code, Some(130), "{words}");
    let first = trials(here, "t.iopj");
    // Two were finished when the third was announced; on a slow machine some of the next are, too.
    let count = first.len();
    assert!((2..6).contains(&count), "{words}");
    let last = words.lines().last().unwrap();
    let plural = if count == 5 { "" } else { "s" };
    let missing = format!("interrupted with {} trial{plural} missing: ", 6 - count);
    assert!(last.contains(&missing) && last.contains("`iopj run --resume t.iopj`"), "{last}");
    assert!(here.join("t.iopj-data").exists());
    let (text, _) = succeeds(&mut iopj(here, "run --resume t.iopj"));
    assert!(text.contains("6 of 6 trials"), "{text}");
    let all = trials(here, "t.iopj");
    assert_eq!(all[..count], first);
    let each: BTreeSet<String> =
        all.iter().map(|trial| format!("{} {}", trial["path"], trial["replicate"])).collect();
    assert_eq!((all.len(), each.len()), (6, 6), "{each:?}");
    assert!(all.iter().all(|trial| trial["status"] == "measured"), "{all:?}");
    let names: Vec<_> = fs::read_dir(here).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "the study and its store: {names:?}");
}

#[test]
fn interrupted_before_the_first_trial_nothing_is_left() {
    let _alone = alone();
    let folder = folder();
    let mut live = Live::start(iopj(&folder, &format!("run {PLAIN}")));
    live.until("writing quick.iopj-data (1g)");
    live.interrupt();
    let (code, words) = live.end();
    assert_eq!(code, Some(130), "{words}");
    assert!(words.contains("interrupted before the first trial: nothing was kept"), "{words}");
    assert_eq!(fs::read_dir(&*folder).unwrap().count(), 0);
}
