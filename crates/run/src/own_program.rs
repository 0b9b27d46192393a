//! The program of a study that does its own I/O: what must be there before anything runs.

use crate::error::RunError;
use crate::options::Options;
use crate::program_error::ProgramError;
use iopj_core::files::read_regular_text;
use iopj_load::program::Figure;
use iopj_study::{Program, Study, StudyError, Variant};
use iopj_watch::WatchError;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The longest file with a process id, in bytes: PostgreSQL's has some lines more.
const LONGEST_PID_FILE: u64 = 64 << 10;

/// A study's program, checked.
pub(crate) struct OwnProgram {
    pub(crate) keys: Program,
    pub(crate) figure: Figure,
    /// The target that it is told.
    pub(crate) target: Option<PathBuf>,
}

/// Checks the figure that a study's program prints.
///
/// # Errors
/// A bad regular expression or JSON pointer.
pub(crate) fn figure_of(program: &Program) -> Result<Figure, StudyError> {
    let keys = &program.figure;
    Figure::new(&keys.name, keys.regex.as_deref(), keys.json.as_deref())
        .map_err(|error| StudyError(error.to_string()))
}

impl OwnProgram {
    /// The program of a study, with the target of the command line or of the store.
    ///
    /// # Errors
    /// A program is missing, or the target is, or a server does not run that
    /// nothing starts.
    pub(crate) fn of(
        keys: &Program,
        target: Option<PathBuf>,
        options: &Options,
    ) -> Result<OwnProgram, RunError> {
        let (figure, names) = (figure_of(keys)?, keys.programs());
        if let Some(missing) = names.iter().find(|name| !name.contains('{') && !is_there(name)) {
            return RunError::refuse(WatchError::NoProgram(missing.clone()).to_string());
        }
        if options.take_device.is_some() || !options.destroy_data.is_empty() {
            return RunError::refuse(
                "a program opens its target itself, so --destroy-data and --take-device allow nothing: \
                 leave them out",
            );
        }
        let target = match target {
            None if keys.needs_target() => {
                return RunError::refuse(
                    "the study's program is told {target}: name a file, a folder or a device by --target",
                );
            }
            Some(path) if !keys.needs_target() => {
                return RunError::refuse(format!(
                    "--target names {}, but no variant of the program is told {{target}}: write it where it \
                     belongs in a `command`, or leave the option out",
                    path.display()
                ));
            }
            target => target,
        };
        let target = target.map(|path| std::path::absolute(&path).unwrap_or(path));
        if keys.variants.iter().all(|variant| variant.before.is_empty()) {
            servers(&keys.watch).map_err(|error| RunError::Refused(error.to_string()))?;
        }
        Ok(OwnProgram { keys: keys.clone(), figure, target })
    }

    /// A command of a variant as it is run under a workload.
    pub(crate) fn words(&self, command: &[String], workload: &iopj_core::Workload) -> Vec<String> {
        Variant::fill(command, self.target.as_deref(), workload)
    }
}

/// The processes of servers, by the files that hold their ids: the first line of each.
pub(crate) fn servers(files: &[PathBuf]) -> Result<Vec<i32>, ProgramError> {
    let of = |path: &PathBuf| {
        let no = |why: String| ProgramError::Server { path: path.clone(), why };
        let text = read_regular_text(path, LONGEST_PID_FILE).map_err(|error| no(error.to_string()))?;
        let pid = text.lines().next().and_then(|line| line.trim().parse().ok()).filter(|pid| *pid > 0);
        // What it is instead may be somebody's secret.
        let pid: i32 = pid.ok_or_else(|| no("its first line is no process id".to_owned()))?;
        match Path::new(&format!("/proc/{pid}")).exists() {
            true => Ok(pid),
            false => Err(no(format!("there is no process {pid}"))),
        }
    };
    files.iter().map(of).collect()
}

/// True for a file that can be run, or one of that name in a folder of `PATH`.
fn is_there(name: &str) -> bool {
    let can_run = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return can_run(Path::new(name));
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    std::env::split_paths(&folders).any(|folder| can_run(&folder.join(name)))
}

/// For [`programs::named`]: what a study's own program is called.
pub(crate) fn names(study: &Study) -> Vec<String> {
    study.program.as_ref().map(Program::programs).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUDY: &str = "name = \"t\"\ngenerator = \"program\"\n[[workload]]\n[program]\nfigure = { name = \
                         \"tps\", unit = \"1/s\", regex = '(1)' }\n[[program.variants]]\nname = \"a\"\n";

    fn of(rest: &str, options: &Options) -> Result<(), String> {
        let study = Study::parse(&format!("{STUDY}{rest}"), "t").unwrap();
        let keys = study.program.as_ref().unwrap();
        OwnProgram::of(keys, options.target.clone(), options).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn what_does_not_fit_is_refused_before_anything_runs() {
        let allowed = Options::default();
        let with = |target: &str| Options { target: Some(target.into()), ..allowed.clone() };
        for (rest, options, part) in [
            ("command = [\"no-such-program\"]", &allowed, "no program `no-such-program`"),
            ("command = [\"sh\", \"{target}\"]", &allowed, "told {target}: name a file"),
            ("command = [\"sh\"]", &with("/x"), "no variant of the program is told {target}"),
        ] {
            let message = of(rest, options).unwrap_err();
            assert!(message.contains(part), "{message}");
        }
        of("command = [\"sh\", \"{target}\"]", &with("/x")).unwrap();
        let destroys = Options { destroy_data: vec!["/x".into()], ..allowed };
        assert!(of("command = [\"sh\"]", &destroys).unwrap_err().contains("--destroy-data"));
    }

    #[test]
    fn a_server_is_the_process_in_the_first_line_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = |text: &str| {
            let path = folder.path().join("pid");
            std::fs::write(&path, text).unwrap();
            servers(&[path]).map_err(|error| error.to_string())
        };
        let own = std::process::id().cast_signed();
        assert_eq!(file(&format!("{own}\n/data\n5432\n")), Ok(vec![own]));
        for (text, part) in [
            ("", "its first line is no process id"),
            ("-4\n", "no process id"),
            ("999999999\n", "no process 999"),
        ] {
            assert!(file(text).unwrap_err().contains(part));
        }
        let gone = servers(&[folder.path().join("gone")]).unwrap_err().to_string();
        assert!(gone.contains("No such file"), "{gone}");
    }
}
