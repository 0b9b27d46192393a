//! Runs that are cut short: a device that starts failing, Ctrl-C. Finished trials remain, and the run can be
//! continued.

use crate::common::{LoopDevice, alone, folder, have_loop, iopj, refusal, says, tool, written};
use crate::live::Live;
use crate::{PLAIN, output, succeeds};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;

/// A study of some seconds.
const LONGER: &str = "--meters none --iodepth 1 --runtime 500ms --ramp-time 0s --replicates 9 --path \
                      posix-sio/syscall/interrupt";

fn trials(folder: &Path, store: &str) -> Vec<Value> {
    let (text, _) = succeeds(&mut iopj(folder, &format!("report --json {store}")));
    let value: Value = serde_json::from_str(&text).unwrap();
    value["trials"].as_array().unwrap().clone()
}

/// The other file was deleted.
#[test]
fn a_file_in_the_place_of_the_one_that_was_made_stays() {
    let folder = folder();
    let line = "run --meters none --size 4m --store m.iopj --path posix-sio/syscall/interrupt --iodepth 1 \
                --ramp-time 0s --runtime 1s --replicates 2";
    let mut live = Live::start(iopj(&folder, line));
    live.until("1/2 ");
    fs::rename(folder.join("m.iopj-data"), folder.join("elsewhere")).unwrap();
    fs::write(folder.join("m.iopj-data"), "precious").unwrap();
    let (code, words) = live.end();
    assert!(matches!(code, Some(0 | 1)), "{words}");
    assert_eq!(fs::read_to_string(folder.join("m.iopj-data")).unwrap(), "precious");
}

/// Its trials were mixed into the store.
#[test]
fn a_run_is_not_continued_on_another_drive() {
    let Some(folder) = have_loop().then(folder) else { return };
    let _alone = alone();
    for name in ["first", "second"] {
        written(&folder.join(name), 16 << 20);
    }
    let device = LoopDevice::new(&folder.join("first"), "--direct-io=on");
    let node = device.node().to_owned();
    let mut live = Live::start(iopj(&folder, &format!("run --target {node} {LONGER} --store x.iopj")));
    live.until("1/9 ");
    live.interrupt();
    live.end();
    drop(device);
    // The same node, and a drive of the same size.
    tool(&format!("losetup --direct-io=on {node} {}", folder.join("second").display()));
    let message = refusal(&folder, "run --resume x.iopj");
    tool(&format!("losetup --detach {node}"));
    says(&message, &["the drive had the backing file ", "continue on the same drive"]);
    assert_eq!(fs::metadata(folder.join("x.iopj")).map(|file| file.is_file()).ok(), Some(true));
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
    // It ended with 0, as if nothing had failed, and measured none of them ever.
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("failed: measure their blocks again by `iopj run --resume "), "{words}");
    assert!(words.contains("x.iopj --again failed`"), "{words}");
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
