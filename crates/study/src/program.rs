//! `[program]`: a program that does its own I/O, the variants of it that are compared, and the figure that it
//! reports.

use crate::error::{StudyError, error};
use crate::keys::{check_keys, fields_of};
use crate::matrix::WorkloadMatrix;
use iopj_core::{IoPath, Length, ProgramName, Workload};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// `[program]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// What it reports of itself.
    pub figure: FigureKeys,
    /// Files with the process ids of servers that do the I/O on the program's behalf.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watch: Vec<PathBuf>,
    /// What is compared.
    #[serde(default)]
    pub variants: Vec<Variant>,
}

/// The figure, and where it stands in the program's standard output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureKeys {
    /// Its name, such as `transactions`.
    pub name: String,
    /// Its unit. One that ends in `/s` is of a rate.
    pub unit: String,
    /// A regular expression whose first group is the figure; the last match counts.
    pub regex: Option<String>,
    /// Its place in a JSON document (a JSON pointer, RFC 6901).
    pub json: Option<String>,
}

/// `[[program.variants]]`: programs with their arguments; no shell reads them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name; it takes the place of the path as `program:NAME`.
    pub name: String,
    /// Run before a trial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// The program: its life is the window.
    pub command: Vec<String>,
    /// Run after a trial, whatever came of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}

/// Keys of a workload that a program can be told.
const TOLD: [&str; 6] = ["rw", "rwmixread", "bs", "iodepth", "numjobs", "runtime"];
/// The word in braces that stands for the target.
const TARGET: &str = "target";

impl Program {
    /// Checks the keys of a study whose generator is a program, or not.
    ///
    /// # Errors
    /// What is missing, what a program cannot have, or that there is a program and another generator.
    pub(crate) fn check_table(
        table: &toml::Table,
        generators: &[&str],
        source: &str,
    ) -> Result<(), StudyError> {
        let is_program = generators.contains(&"program");
        let Some(program) = table.get("program") else {
            return match is_program {
                false => Ok(()),
                true => error(format!(
                    "{source}: generator = \"program\" needs a table [program] with `figure`, and at least \
                     one [[program.variants]] with `name` and `command`"
                )),
            };
        };
        if generators != ["program"] {
            return error(format!(
                "{source}: [program] is for generator = \"program\" alone, and the generator is {}: write \
                 that, or leave [program] out",
                generators.join(" and ")
            ));
        }
        let toml::Value::Table(program) = program else {
            return error(format!("{source}: `program` is a table: write [program]"));
        };
        check_keys(program, fields_of::<Program>(), source, " in [program]")?;
        if let Some(toml::Value::Table(figure)) = program.get("figure") {
            check_keys(figure, fields_of::<FigureKeys>(), source, " in program.figure")?;
        }
        let variants = program.get("variants").and_then(toml::Value::as_array);
        for variant in variants.into_iter().flatten().filter_map(toml::Value::as_table) {
            check_keys(variant, fields_of::<Variant>(), source, " in [[program.variants]]")?;
        }
        // A study in a store has the defaults written out.
        let is_default =
            |value: &toml::Value| value.as_bool() == Some(false) || value.as_str() == Some(DEFAULT_SIZE);
        let of_others = |key: &&&str| table.get(**key).is_some_and(|value| !is_default(value));
        if let Some(key) = NOT_OF_PROGRAMS.iter().find(of_others) {
            return error(format!("{source}: a program cannot have `{key}`: leave it out"));
        }
        let workloads = table.get("workload").and_then(toml::Value::as_array);
        for workload in workloads.into_iter().flatten().filter_map(toml::Value::as_table) {
            if let Some(key) = workload.keys().find(|key| !TOLD.contains(&key.as_str())) {
                let all = TOLD.join(", ");
                return error(format!(
                    "{source}: a program cannot have `{key}` in [[workload]]: it can be told {all}, and the \
                     variants in [[program.variants]] take the place of `paths`"
                ));
            }
        }
        Ok(())
    }

    /// Checks what the keys say.
    ///
    /// # Errors
    /// What is missing or wrong, with the remedy.
    pub(crate) fn check(&self, workloads: &[WorkloadMatrix]) -> Result<(), StudyError> {
        self.figure.check()?;
        if self.variants.is_empty() {
            return error(
                "[program] has no variants: write the line [[program.variants]], and below it `name` and \
                 `command`",
            );
        }
        let mut names = BTreeSet::new();
        for variant in &self.variants {
            let name = variant.path()?;
            if !names.insert(name) {
                return error(format!(
                    "[[program.variants]] has two of the name `{}`: give one another name",
                    variant.name
                ));
            }
            variant.check()?;
        }
        let used = self.placeholders();
        let written = workloads.iter().flat_map(written_keys);
        match written.into_iter().find(|key| !used.contains(*key)) {
            Some(key) => error(format!(
                "`{key}` is in [[workload]], but no variant of the program is told it: write {{{key}}} \
                 where it belongs in a `command`, or leave `{key}` out"
            )),
            None => Ok(()),
        }
    }

    /// The paths whose place the variants take.
    ///
    /// # Errors
    /// The name cannot follow `program:`.
    pub fn paths(&self) -> Result<Vec<IoPath>, StudyError> {
        self.variants.iter().map(Variant::path).collect()
    }

    /// The variant of a path.
    pub fn variant(&self, path: IoPath) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.path() == Ok(path))
    }

    /// The programs that it names: the first word of each command.
    pub fn programs(&self) -> Vec<String> {
        let words = self.variants.iter().flat_map(Variant::commands).filter_map(|command| command.first());
        let all: BTreeSet<&String> = words.collect();
        all.into_iter().cloned().collect()
    }

    /// True if a variant is told the target.
    pub fn needs_target(&self) -> bool {
        self.placeholders().contains(TARGET)
    }

    /// The workload with the keys that the program is told.
    pub(crate) fn told(&self, workload: Workload) -> Workload {
        let used = self.placeholders();
        let told = TOLD.into_iter().filter(|key| used.contains(*key)).map(str::to_owned).collect();
        Workload { told: Some(told), ..workload }
    }

    /// The words in braces of all commands.
    fn placeholders(&self) -> BTreeSet<&str> {
        self.variants.iter().flat_map(Variant::commands).flatten().flat_map(|word| in_braces(word)).collect()
    }
}

/// The size of a file that is made, where a study does not say.
pub(crate) const DEFAULT_SIZE: &str = "1g";

/// Keys of a study that say something to iopj's own generators, or to its target.
const NOT_OF_PROGRAMS: [&str; 9] = [
    "paths",
    "fio",
    "fabric",
    "precondition",
    "profile",
    "size",
    "steadystate",
    "steadystate_duration",
    "steadystate_limit",
];

impl FigureKeys {
    fn check(&self) -> Result<(), StudyError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if self.name.is_empty() || self.name.len() > 40 || !self.name.chars().all(is_plain) {
            return error(format!(
                "program.figure: `{}` cannot name a figure: write up to 40 letters, digits and `_`, such as \
                 transactions",
                self.name
            ));
        }
        let is_unit = |c: char| !c.is_control();
        if self.unit.is_empty() || self.unit.len() > 40 || !self.unit.chars().all(is_unit) {
            return error("program.figure: `unit` is empty or too long: write one such as 1/s");
        }
        match (&self.regex, &self.json) {
            (Some(_), None) | (None, Some(_)) => Ok(()),
            (None, None) => error(
                "program.figure says not where the figure is: add `regex`, such as 'tps = ([0-9.]+)', or \
                 `json`, such as \"/jobs/0/read/iops\"",
            ),
            (Some(_), Some(_)) => error("program.figure has both `regex` and `json`: leave one out"),
        }
    }
}

impl Variant {
    fn path(&self) -> Result<IoPath, StudyError> {
        let name: ProgramName =
            self.name.parse().map_err(|why| StudyError(format!("[[program.variants]]: {why}")))?;
        Ok(IoPath::Program(name))
    }

    fn commands(&self) -> [&Vec<String>; 3] {
        [&self.before, &self.command, &self.after]
    }

    fn check(&self) -> Result<(), StudyError> {
        let name = &self.name;
        if self.command.first().is_none_or(String::is_empty) {
            return error(format!(
                "the variant `{name}` has no command: write the program and its arguments as a list, such as \
                 [\"pgbench\", \"-T\", \"10\"]"
            ));
        }
        let words = || self.commands().into_iter().flatten();
        if words().any(|word| word.contains('\0')) {
            return error(format!("the variant `{name}` has an argument with a zero byte: leave it out"));
        }
        let unknown = |word: &&str| *word != TARGET && !TOLD.contains(word);
        match words().flat_map(|word| in_braces(word)).find(unknown) {
            Some(word) => error(format!(
                "the variant `{name}` has {{{word}}}, which stands for nothing: there are {{{TARGET}}}, {}; \
                 braces that are the program's own go into a script of its own",
                TOLD.map(|key| format!("{{{key}}}")).join(", ")
            )),
            None => Ok(()),
        }
    }

    /// A command of this variant with the values that it is told.
    pub fn fill(command: &[String], target: Option<&Path>, workload: &Workload) -> Vec<String> {
        let value = |key: &str| match key {
            TARGET => target.map(|path| path.to_string_lossy().into_owned()),
            "rw" => Some(workload.rw.to_string()),
            "rwmixread" => Some(workload.rwmixread.to_string()),
            "bs" => Some(workload.bs.to_string()),
            "iodepth" => Some(workload.iodepth.to_string()),
            "numjobs" => Some(workload.numjobs.to_string()),
            "runtime" => match workload.length {
                Length::Runtime(time) => Some(time.as_secs_f64().to_string()),
                Length::Ios(_) => None,
            },
            _ => None,
        };
        let text = |piece: Piece<'_>| match piece {
            Piece::Plain(text) => text.to_owned(),
            Piece::Key(key) => value(key).unwrap_or_else(|| format!("{{{key}}}")),
        };
        command.iter().map(|word| pieces(word).map(text).collect()).collect()
    }
}

/// A part of an argument.
enum Piece<'a> {
    Plain(&'a str),
    Key(&'a str),
}

/// The parts of an argument: a word of small letters in braces is a key, unless `$` precedes it, as in
/// shells.
fn pieces(word: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = word;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let key = |(at, _): (usize, &str)| {
            let (key, _) = rest[at + 1..].split_once('}')?;
            let is_word =
                !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            (is_word && !rest[..at].ends_with('$')).then_some((at, key))
        };
        let (piece, len) = match rest.match_indices('{').find_map(key) {
            Some((0, key)) => (Piece::Key(key), key.len() + 2),
            Some((at, _)) => (Piece::Plain(&rest[..at]), at),
            None => (Piece::Plain(rest), rest.len()),
        };
        rest = &rest[len..];
        Some(piece)
    })
}

fn in_braces(word: &str) -> impl Iterator<Item = &str> {
    pieces(word).filter_map(|piece| match piece {
        Piece::Key(key) => Some(key),
        Piece::Plain(_) => None,
    })
}

/// The keys that a matrix says something about.
fn written_keys(matrix: &WorkloadMatrix) -> Vec<&'static str> {
    let written = [
        matrix.rw.is_some(),
        matrix.rwmixread.is_some(),
        matrix.bs.is_some(),
        matrix.iodepth.is_some(),
        matrix.numjobs.is_some(),
        matrix.runtime.is_some(),
    ];
    TOLD.into_iter().zip(written).filter(|(_, is_written)| *is_written).map(|(key, _)| key).collect()
}

#[cfg(test)]
mod tests;
