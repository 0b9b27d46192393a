use super::*;
use crate::values::parse_paths;
use iopj_core::{Corunner, CorunnerKind};
use iopj_core::{Length, Rw};
use proptest::prelude::*;

const SMALL: &str = "name = \"t\"\npaths = [\"libaio/syscall/interrupt\"]\n[[workload]]\nrw = \"randread\"\n";

fn message(text: &str) -> String {
    let study = Study::parse(text, "t.toml");
    let check = |study: Study| -> Result<(), StudyError> {
        parse_paths(&study.paths)?;
        study.generators()?;
        study.settings_matrix()?;
        study.file_size()?;
        study.workloads.iter().try_for_each(|w| w.workloads().map(drop))
    };
    study.and_then(check).unwrap_err().to_string()
}

#[test]
fn a_co_runner_is_an_axis_of_which_none_is_a_value() {
    let text = format!(
        "{SMALL}corunner = [\"none\", \"spin\", \"memory\"]\ncorunner_cpus = \"3,0-1,1\"\ncorunner_nice = \
         [19, -5]\n"
    );
    let study = Study::parse(&text, "t").unwrap();
    let all = study.workloads[0].workloads().unwrap();
    let of = |kind, nice| Some(Corunner { kind, cpus: vec![0, 1, 3], nice });
    let (spin, memory) = (CorunnerKind::Spin, CorunnerKind::Memory);
    let expected = [None, None, of(spin, 19), of(spin, -5), of(memory, 19), of(memory, -5)];
    assert_eq!(all.iter().map(|workload| workload.corunner.clone()).collect::<Vec<_>>(), expected);
    // Without one, it has no niceness to differ in.
    let (cells, _) = crate::plan::cells(&study, &[]).unwrap();
    assert_eq!(cells.len(), 5);
    assert_eq!(Study::parse(&study.to_toml().unwrap(), "again").unwrap(), study);
    let plain = Study::parse(&format!("{SMALL}corunner = \"branch\"\n"), "t").unwrap();
    let expected = Some(Corunner::of(CorunnerKind::Branch));
    assert_eq!(plain.workloads[0].workloads().unwrap()[0].corunner, expected);
}

#[test]
fn a_wrong_co_runner_is_refused_with_what_is_right() {
    for (keys, words) in [
        ("corunner = \"spinn\"", "`spinn` is not a co-runner; write spin, memory, branch or none"),
        ("corunner = []", "`corunner` is an empty list"),
        ("corunner = 1", "corunner"),
        ("corunner = \"spin\"\ncorunner_nice = 20", "20 is not a niceness: write -20 (first served) to 19"),
        ("corunner = \"spin\"\ncorunner_nice = [0, -21]", "-21 is not a niceness"),
        ("corunner = \"spin\"\ncorunner_cpus = \"a\"", "corunner_cpus: `a` is not a list of processors"),
        ("corunner_nice = 3", "`corunner_nice` shapes a co-runner, and `corunner` is missing"),
        ("corunner_cpus = \"0\"", "`corunner_cpus` shapes a co-runner, and `corunner` is missing"),
    ] {
        let message = message(&format!("{SMALL}{keys}\n"));
        assert!(message.contains(words), "{keys}: {message}");
    }
}

#[test]
fn lists_are_axes() {
    let text = format!(
        "{SMALL}bs = [\"4k\", \"16k\"]\niodepth = [1, 2, 4]\nruntime = \"2s\"\ncpus_allowed = \"0-1,3\"\n"
    );
    let study = Study::parse(&text, "t").unwrap();
    let all = study.workloads[0].workloads().unwrap();
    assert_eq!(
        all.iter().map(|w| (w.bs, w.iodepth)).collect::<Vec<_>>(),
        [(4096, 1), (4096, 2), (4096, 4), (16384, 1), (16384, 2), (16384, 4)]
    );
    assert_eq!(all[0].cpus_allowed, [0, 1, 3]);
    assert_eq!(Study::parse(&study.to_toml().unwrap(), "again").unwrap(), study);
}

#[test]
fn rates_and_their_processes_are_axes() {
    let keys = "rate_iops = [100, 200]\nrate_process = [\"linear\", \"poisson\"]\nrate_iops_end = 300\n\
                burst_on = \"10ms\"\nburst_off = \"30ms\"\nruntime = \"2s\"\n";
    let study = Study::parse(&format!("{SMALL}{keys}"), "t").unwrap();
    let all = study.workloads[0].workloads().unwrap();
    let loads: Vec<(u32, String)> = all
        .iter()
        .map(|workload| workload.open.unwrap())
        .map(|open| (open.rate_iops, open.rate_process.to_string()))
        .collect();
    let expected = [(100, "linear"), (100, "poisson"), (200, "linear"), (200, "poisson")];
    assert_eq!(loads, expected.map(|(rate, process)| (rate, process.to_owned())));
    let open = all[0].open.unwrap();
    assert_eq!((open.rate_iops_end, open.burst.unwrap().off.as_millis()), (Some(300), 30));
    assert_eq!(Study::parse(&study.to_toml().unwrap(), "again").unwrap(), study);
}

/// What is left out decides whether the target must be one that may be written.
#[test]
fn a_trace_reads_and_writes_unless_its_writes_are_left_out() {
    let text = SMALL.replace("rw = \"randread\"", "read_iolog = \"t.csv\"");
    let of = |more: &str| {
        let study = Study::parse(&format!("{text}{more}\n"), "t").unwrap();
        study.workloads[0].workloads().unwrap().remove(0)
    };
    let whole = of("");
    assert_eq!((whole.rw, whole.bs, whole.length), (Rw::Randrw, 1 << 20, Length::WHOLE_TRACE));
    let reads = of("replay_skip = [\"write\", \"discard\"]\nbs = \"64k\"\nruntime = \"2s\"");
    let two_seconds = Length::Runtime(std::time::Duration::from_secs(2));
    assert_eq!((reads.rw, reads.bs, reads.length), (Rw::Randread, 64 << 10, two_seconds));
    assert!(of("replay_skip = \"write\"").rw.writes(), "discards are left");
    assert_eq!(of("replay_skip = \"read\"").rw, Rw::Randwrite);
}

#[test]
fn a_profile_is_asked_for_by_name() {
    assert!(!Study::parse(SMALL, "t").unwrap().profile);
    let study = Study::parse(&format!("profile = true\n{SMALL}"), "t").unwrap();
    assert!(study.profile && Study::parse(&study.to_toml().unwrap(), "again").unwrap().profile);
}

#[test]
fn settings_multiply() {
    let text =
        SMALL.replace("[[workload]]", "[settings]\nnomerges = [0, 2]\nscheduler = \"none\"\n[[workload]]");
    let combinations = Study::parse(&text, "t").unwrap().settings_matrix().unwrap();
    let texts: Vec<String> = combinations
        .iter()
        .map(|c| c.iter().map(|(s, v)| format!("{s}={v}")).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(texts, ["scheduler=none nomerges=0", "scheduler=none nomerges=2"]);
}

#[test]
fn bad_studies_are_refused_by_name() {
    for (from, to, part) in [
        ("rw =", "rww =", "unknown key `rww` in [[workload]]: did you mean `rw`?"),
        ("name =", "nmae =", "unknown key `nmae`: did you mean `name`?"),
        ("name =", "zzzzzzzzz = 1\nname =", "there are name, paths"),
        ("libaio/syscall/interrupt", "libaio/syscall/poll", "no completion `poll`"),
        ("[\"libaio/syscall/interrupt\"]", "[]", "`paths` is an empty list"),
        ("randread", "trim", "`trim` is not a value of rw"),
        ("rw =", "iodepth = 0\nrw =", "iodepth: 0 is too few"),
        ("rw =", "numjobs = [1, 0]\nrw =", "numjobs: 0 is too few"),
        ("rw =", "bs = []\nrw =", "`bs` is an empty list"),
        ("name =", "profile = 1\nname =", "line 1"),
        ("rw =", "bs = \"4q\"\nrw =", "`4q` is not a size"),
        ("rw =", "runtime = \"0s\"\nrw =", "`runtime` is 0"),
        ("rw =", "runtime = \"1s\"\nios = 5\nrw =", "both `runtime` and `ios`"),
        ("rw =", "cpus_allowed = \"3-1\"\nrw =", "is not a list of processors"),
        ("rw =", "iodepth = \"many\"\nrw =", "line 4"),
        ("rw =", "rate_iops = 0\nrw =", "rate_iops: 0 is no load: the least is 1"),
        ("rw =", "rate_iops = [9, 20000000]\nrw =", "rate_iops: 20000000 is one I/O every 50 ns, faster"),
        ("rw =", "rate_iops = 9\nrate_iops_end = 0\nrw =", "rate_iops_end: 0 is no load"),
        (
            "rw =",
            "rate_process = \"poisson\"\nrw =",
            "`rate_process` shapes an open load, and `rate_iops` is",
        ),
        ("rw =", "rate_iops = 9\nrate_process = \"even\"\nrw =", "`even` is not a rate_process"),
        ("rw =", "rate_iops = 9\nburst_on = \"1s\"\nrw =", "`burst_on` without `burst_off`"),
        ("rw =", "rate_iops = 9\nburst_on = \"0s\"\nburst_off = \"1s\"\nrw =", "`burst_on` is 0"),
        ("rw =", "rate_iops = 9\nrate_iops_end = 8\nios = 5\nrw =", "give `runtime` instead of `ios`"),
        (
            "rw =",
            "replay_scale = 2\nrw =",
            "`replay_scale` shapes the replay of a trace, and `read_iolog` is",
        ),
        (
            "rw =",
            "read_iolog = \"t\"\nrw =",
            "`rw` and `read_iolog`: the trace says what is read and written",
        ),
        ("rw = \"randread\"", "read_iolog = \"t\"\nreplay_map = \"cut\"", "`cut` is not refuse or wrap"),
        ("rw = \"randread\"", "read_iolog = \"t\"\nreplay_align = \"3k\"", "no power of two; write 4k"),
        ("rw = \"randread\"", "read_iolog = \"t\"\nreplay_time_scale = 0", "0 would last for ever"),
        (
            "rw = \"randread\"",
            "read_iolog = \"t\"\nreplay_skip = \"trim\"",
            "`trim` is not an operation; there are",
        ),
        ("[[workload]]", "[workload]", "write [[workload]]"),
        ("[[workload]]", "generator = \"dd\"\n[[workload]]", "no generator `dd`"),
        ("[[workload]]", "[settings]\nnomerge = 1\n[[workload]]", "nomerges"),
        ("name = \"t\"", "name = ", "is not TOML: line 1"),
    ] {
        let text = SMALL.replace(from, to);
        let message = message(&text);
        assert!(message.contains(part), "{message} (wanted {part})");
        assert!(!message.contains('\n'), "one line: {message}");
    }
}

/// The type that was expected was named in Rust's words, and no remedy.
#[test]
fn a_value_of_the_wrong_type_is_answered_with_the_right_one() {
    for (line, remedy) in [
        ("runtime = 1", "line 4, `runtime = 1`: a time is a text with a unit: write runtime = \"1s\""),
        ("ramp_time = 0", "write ramp_time = \"0s\""),
        ("ramp_time = 0.0", "write ramp_time = \"0s\""),
        ("runtime = 0", "write runtime = \"10s\""),
        ("ramp_time = 0.5", "write ramp_time = \"500ms\""),
        ("runtime = [\"1s\", \"2s\"]", "it takes one value, not a list: write runtime = \"1s\""),
        ("ios = [5, 6]", "not a list: write ios = 5"),
        ("bs = 4096", "a size is a text: write bs = \"4k\""),
        ("bs = [\n4096,\n\"8k\"]", "line 4, `bs = [`: a size is a text: write bs = [\"4k\", \"8k\"]"),
        ("iodepth = \"4\"", "it takes a whole number of 1 or more: write iodepth = 4"),
        ("iodepth = [1, -1]", "write iodepth = [1, 1]"),
        ("rwmixread = 300", "it takes a whole number from 0 to 100: write rwmixread = 100"),
        ("cpus_allowed = [0, 1]", "a text with numbers and ranges: write cpus_allowed = \"0,1\""),
        ("blocksize = \"4k\"", "unknown key `blocksize` in [[workload]]: did you mean `bs`?"),
        ("replicates = 3", "`replicates` is a key of the study: write it above the first [[workload]]"),
    ] {
        let message = message(&format!("{}{line}\n", SMALL.replace("rw = \"randread\"\n", "")));
        assert!(message.ends_with(remedy), "{message} (wanted {remedy})");
    }
    for (line, remedy) in [
        ("idle = 3", "write idle = \"3s\""),
        ("profile = \"no\"", "it takes true or false: write profile = false"),
        ("seed = -1", "it takes a whole number of 0 or more: write seed = 0"),
        ("generator = 1", "it takes a text: write generator = \"native\""),
        ("settings = 3", "it is a table: write the line [settings], and below it a line such as scheduler"),
        ("runtime = \"1s\"", "`runtime` is a key of a workload: write it below a line [[workload]]"),
    ] {
        let message = message(&format!("{line}\n{SMALL}"));
        assert!(message.contains(remedy), "{message} (wanted {remedy})");
    }
}

/// A missing key was named at best, without what to write.
#[test]
fn what_is_missing_is_shown_by_an_example() {
    for (text, remedy) in [
        ("", "`name` is missing: write name = \"my-study\" above the first [[workload]]"),
        ("name = \"t\"", "`paths` is missing: write paths = \"available\""),
        ("name = \"t\"\npaths = \"available\"", "has no workload: write the line [[workload]], and below it"),
        ("name = \"t\"\npaths = \"available\"\nworkload = []", "has no workload: write the line"),
    ] {
        let message = message(text);
        assert!(message.contains(remedy), "{message} (wanted {remedy})");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(
        text in "\\PC{0,80}", line in "[a-z]{1,8} = (\\[?\"?[0-9a-z]{0,5}\"?\\]?)",
    ) {
        let _ = Study::parse(&text, "t");
        if let Ok(study) = Study::parse(&format!("{SMALL}{line}\n"), "t") {
            let _ = study.workloads.iter().try_for_each(|w| w.workloads().map(drop));
        }
    }
}

/// A study that iopj is shipped with.
fn shipped(file: &str) -> Study {
    let path = format!("{}/../../studies/{file}", env!("CARGO_MANIFEST_DIR"));
    Study::parse(&std::fs::read_to_string(path).unwrap(), file).unwrap()
}

#[test]
fn every_shipped_study_is_planned_under_the_name_of_its_file() {
    let available =
        ["posix-sio/syscall/interrupt".parse().unwrap(), "libaio/syscall/interrupt".parse().unwrap()];
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies")).unwrap();
    let files: Vec<String> = folder.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert!(files.contains(&"iface23-fio.toml".to_owned()), "{files:?}");
    for file in files {
        let study = shipped(&file);
        assert_eq!(format!("{}.toml", study.name), file);
        crate::plan::cells(&study, &available).unwrap_or_else(|why| panic!("{file}: {why}"));
    }
}

#[test]
fn the_papers_matrix_of_interfaces_is_of_fio_alone() {
    let study = shipped("iface23-fio.toml");
    let (cells, left_out) = crate::plan::cells(&study, &[]).unwrap();
    // Of nine paths, reads and writes of three sizes: six depths, two of the paths at the first alone, and
    // five thread counts.
    assert_eq!((cells.len(), left_out.total()), (6 * (9 + 5 * 7) + 6 * 5 * 9, 6 * 5 * 2));
    assert!(cells.iter().all(|cell| cell.generator == iopj_core::Generator::Fio));
    let spdk = cells.iter().filter(|cell| cell.path == iopj_core::IoPath::Spdk).count();
    assert_eq!(spdk, 6 * (6 + 5));
}
