use super::*;
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
    assert_eq!((cells.len(), left_out), (6 * (9 + 5 * 7) + 6 * 5 * 9, 6 * 5 * 2));
    assert!(cells.iter().all(|cell| cell.generator == iopj_core::Generator::Fio));
    let spdk = cells.iter().filter(|cell| cell.path == iopj_core::IoPath::Spdk).count();
    assert_eq!(spdk, 6 * (6 + 5));
}
