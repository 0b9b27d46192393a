//! The programs whose instructions are counted, and the command by which each does a number of I/Os.

use std::path::{Path, PathBuf};

/// A path (for fio: an engine) at one depth.
pub(crate) struct Case {
    pub(crate) path: String,
    pub(crate) iodepth: u32,
}

impl Case {
    pub(crate) fn new(path: &str, iodepth: u32) -> Case {
        Case { path: path.to_owned(), iodepth }
    }
}

pub(crate) enum Program {
    /// The built binary.
    Iopj(PathBuf),
    /// The installed fio.
    Fio,
    /// The built bench of the `nvme-user` engine, which works on a simulated drive; its cases are
    /// [`ENGINE_CASES`].
    Engine(PathBuf),
}

/// What the bench of the `nvme-user` engine does, at which depth, and the most instructions that one I/O or
/// poll may cost: an I/O whose completions arrive one by one (at depth 1 with an empty poll), an I/O whose
/// completions arrive all at once, one of 32 pages, an empty poll.
const ENGINE_CASES: &[(&str, u32, f64)] = &[
    ("single", 1, 180.0),
    ("single", 32, 150.0),
    ("batch", 32, 150.0),
    ("long", 1, 180.0),
    ("long", 32, 150.0),
    ("empty-poll", 32, 30.0),
];

/// The cases of [`Program::Engine`].
pub(crate) fn engine_cases() -> Vec<Case> {
    ENGINE_CASES.iter().map(|(mode, depth, _)| Case::new(mode, *depth)).collect()
}

/// The limit of a case of [`Program::Engine`].
pub(crate) fn engine_limit(case: &Case) -> Option<f64> {
    let is_this = |(mode, depth, _): &&(&str, u32, f64)| *mode == case.path && *depth == case.iodepth;
    ENGINE_CASES.iter().find(is_this).map(|(.., limit)| *limit)
}

impl Program {
    /// A word for its folder.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Program::Iopj(_) => "iopj",
            Program::Fio => "fio",
            Program::Engine(_) => "engine",
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Program::Iopj(_) => "iopj",
            Program::Fio => "fio",
            Program::Engine(_) => "the engine nvme-user alone (empty-poll: per poll)",
        }
    }

    /// Whether it reads a file.
    pub(crate) fn reads_file(&self) -> bool {
        !matches!(self, Program::Engine(_))
    }

    /// The functions that are counted, with what they call. None means everything: for fio, and for
    /// posix-aio, where glibc's threads do the I/O. Otherwise the generator's loop of iopj: the cost of a
    /// trial's end varies with its longest latency, by some 30 instructions per I/O of these runs.
    pub(crate) fn counted(&self, case: &Case) -> &'static [&'static str] {
        match self {
            Program::Fio => &[],
            Program::Iopj(_) if case.path.starts_with("posix-aio/") => &[],
            Program::Iopj(_) => &["*native::job::LoopOn*Job>::run"],
            Program::Engine(_) => &["*counted_push*", "*counted_round*", "*counted_wait*"],
        }
    }

    /// The store that this command leaves in `folder`.
    pub(crate) fn store(&self, case: &Case, ios: u64, folder: &Path) -> Option<PathBuf> {
        let path = case.path.replace('/', "-");
        let name = format!("{path}-{}-{ios}.iopj", case.iodepth);
        matches!(self, Program::Iopj(_)).then(|| folder.join(name))
    }

    /// Random reads of 4 KiB from `file`, `ios` of them; what the program keeps goes to `folder`.
    pub(crate) fn command(&self, case: &Case, ios: u64, file: &Path, folder: &Path) -> Vec<String> {
        match self {
            Program::Iopj(binary) => iopj(binary, case, ios, file, self.store(case, ios, folder)),
            Program::Fio => fio(case, ios, file),
            Program::Engine(bench) => {
                vec![
                    bench.display().to_string(),
                    case.path.clone(),
                    case.iodepth.to_string(),
                    ios.to_string(),
                ]
            }
        }
    }
}

fn iopj(binary: &Path, case: &Case, ios: u64, file: &Path, store: Option<PathBuf>) -> Vec<String> {
    let mut words = vec![binary.display().to_string(), "run".to_owned()];
    words.extend(
        "--rw randread --bs 4k --numjobs 1 --ramp-time 0s --replicates 1 --meters none"
            .split(' ')
            .map(str::to_owned),
    );
    for (option, value) in [
        ("--target", file.display().to_string()),
        ("--path", case.path.clone()),
        ("--iodepth", case.iodepth.to_string()),
        ("--ios", ios.to_string()),
    ] {
        words.extend([option.to_owned(), value]);
    }
    words.extend(store.iter().flat_map(|store| ["--store".to_owned(), store.display().to_string()]));
    words
}

fn fio(case: &Case, ios: u64, file: &Path) -> Vec<String> {
    // fio stops after reading the file once unless it is told how many bytes to read.
    let len = ios * 4096;
    let mut words = vec!["fio".to_owned()];
    words.extend(
        "--name=instructions --rw=randread --bs=4k --direct=1 --thread=1".split(' ').map(str::to_owned),
    );
    words.push(format!("--filename={}", file.display()));
    words.push(format!("--ioengine={}", case.path));
    words.push(format!("--iodepth={}", case.iodepth));
    words.push(format!("--io_size={len}"));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_of_iopj_is_counted_unless_other_threads_do_the_io() {
        let counted = |path| Program::Iopj("/t/iopj".into()).counted(&Case::new(path, 1)).len();
        assert_eq!((counted("posix-sio/syscall/interrupt"), counted("posix-aio/syscall/interrupt")), (1, 0));
        assert_eq!(Program::Fio.counted(&Case::new("psync", 1)), [""; 0]);
    }

    #[test]
    fn commands_name_case_length_and_file() {
        let case = Case::new("libaio/syscall/interrupt", 32);
        let (file, folder) = (Path::new("/d/data"), Path::new("/d"));
        let iopj = Program::Iopj("/t/iopj".into()).command(&case, 500, file, folder).join(" ");
        assert!(iopj.starts_with("/t/iopj run --rw randread --bs 4k"), "{iopj}");
        assert!(
            iopj.contains("--target /d/data --path libaio/syscall/interrupt --iodepth 32 --ios 500"),
            "{iopj}"
        );
        let fio = Program::Fio.command(&Case::new("psync", 1), 500, file, folder).join(" ");
        assert!(fio.ends_with("--filename=/d/data --ioengine=psync --iodepth=1 --io_size=2048000"), "{fio}");
        let engine =
            Program::Engine("/t/nvme_user".into()).command(&engine_cases()[5], 500, file, folder).join(" ");
        assert_eq!(engine, "/t/nvme_user empty-poll 32 500");
    }
}
