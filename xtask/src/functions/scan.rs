//! What a source file defines under a configuration: its own functions, those of its macros, and the sources
//! that it includes.

use super::config::Config;
use super::expand::{self, Found, Macros};
use super::macros;
use super::reader::{self, Item, Kind};

/// Registers that a retpoline may jump by.
const REGISTERS: &[&str] = &[
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15", "array",
];

/// A file's definitions, and sources that it includes by `#include "….c"`.
pub(super) struct Scan {
    pub(super) functions: Vec<Found>,
    pub(super) included: Vec<String>,
}

impl Scan {
    /// Reads a C file; `scopes` are the macros of headers that it may see.
    pub(super) fn of_c(text: &str, config: &Config, scopes: [&Macros; 2]) -> Scan {
        let lines = Lines::new(text, config);
        let mut own = Macros::default();
        own.read(text, |line| lines.kept(line) != Some(false));
        Scan { functions: functions(text, &lines, &[&own, scopes[0], scopes[1]]), included: lines.included }
    }

    /// Reads an assembler file, whose labels are functions too.
    pub(super) fn of_assembler(text: &str, config: &Config) -> Scan {
        let lines = Lines::new(text, config);
        let mut found = Vec::new();
        // A line is a statement; brackets need not match across lines.
        for (number, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line)) {
            let kept = lines.kept(number);
            found.extend(functions(line, &lines, &[]).into_iter().map(|one| Found { kept, ..one }));
            let label = |name| Found { name, folder: None, kept, weak: false, local: true };
            found.extend(labels(line).into_iter().map(label));
        }
        Scan { functions: found, included: Vec::new() }
    }
}

fn functions(text: &str, lines: &Lines, scopes: &[&Macros]) -> Vec<Found> {
    let mut functions = Vec::new();
    for Item { name, line, kind } in reader::items(&reader::blank(text)) {
        let kept = lines.kept(line);
        match kind {
            Kind::Function { weak, local } => {
                functions.push(Found { name: name.to_owned(), folder: None, kept, weak, local });
                // Only the file's own `#define`: a header's would rename other files' functions.
                for other in scopes.first().iter().flat_map(|own| own.renamed(name)) {
                    functions.push(Found { name: other.clone(), folder: None, kept: None, weak, local });
                }
            }
            Kind::Use(arguments) => {
                let made = expand::uses(name, arguments, scopes).into_iter();
                let kept = |one: &Found| if kept == Some(true) { one.kept } else { kept };
                functions.extend(made.map(|one| Found { kept: kept(&one), ..one }));
            }
        }
    }
    functions
}

/// The labels in a line of assembler, and those of its macros for thunks.
fn labels(line: &str) -> Vec<String> {
    if let Some(thunk) = line.trim_start().strip_prefix("THUNK") {
        let name = thunk.trim().split([',', ' ']).next().unwrap_or_default();
        if macros::is_name(name) {
            return vec![name.to_owned()];
        }
    }
    if line.contains("__x86_indirect_") && line.contains("_thunk") {
        let kinds = ["", "call_", "jump_", "its_"].iter();
        return kinds
            .flat_map(|kind| REGISTERS.iter().map(move |name| format!("__x86_indirect_{kind}thunk_{name}")))
            .collect();
    }
    let label = line.split_once(':').map(|(label, _)| label).filter(|label| !label.starts_with(".L"));
    label
        .filter(|label| macros::is_name(label.trim_start_matches('.')))
        .map(str::to_owned)
        .into_iter()
        .collect()
}

/// Which lines a configuration keeps, and the sources that they include.
pub(super) struct Lines {
    kept: Vec<Option<bool>>,
    included: Vec<String>,
}

impl Lines {
    pub(super) fn new(text: &str, config: &Config) -> Lines {
        let mut lines = Lines { kept: Vec::new(), included: Vec::new() };
        let mut conditions: Vec<Branch> = Vec::new();
        let guard = guard(text);
        for line in text.lines() {
            if let Some(directive) = line.trim_start().strip_prefix('#') {
                lines.directive(directive.trim_start(), guard, config, &mut conditions);
            }
            let unknown = conditions.iter().any(|branch| branch.holds.is_none());
            let left_out = conditions.iter().any(|branch| branch.holds == Some(false));
            lines.kept.push(if unknown && !left_out { None } else { Some(!left_out) });
        }
        lines
    }

    /// Whether the line with this number, counted from 1, is kept; `None` if that depends on more.
    pub(super) fn kept(&self, line: usize) -> Option<bool> {
        self.kept.get(line.saturating_sub(1)).copied().unwrap_or(Some(true))
    }

    fn directive(&mut self, text: &str, guard: Option<&str>, config: &Config, conditions: &mut Vec<Branch>) {
        let (word, rest) = text.split_at(text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len()));
        let rest = rest.split("/*").next().unwrap_or_default().split("//").next().unwrap_or_default().trim();
        match word {
            "ifndef" if guard == Some(rest) => conditions.push(Branch::new(Some(true))),
            "ifdef" => conditions.push(Branch::new(config.defined(rest))),
            "ifndef" => conditions.push(Branch::new(config.defined(rest).map(|defined| !defined))),
            "if" => conditions.push(Branch::new(config.condition(rest))),
            "elif" => {
                conditions.last_mut().into_iter().for_each(|branch| branch.next(config.condition(rest)))
            }
            "else" => conditions.last_mut().into_iter().for_each(|branch| branch.next(Some(true))),
            "endif" => drop(conditions.pop()),
            "include" => {
                let file = rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
                self.included.extend(file.filter(|file| file.ends_with(".c")).map(str::to_owned));
            }
            _ => {}
        }
    }
}

/// The name that keeps a header from being read twice.
fn guard(text: &str) -> Option<&str> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix('#')).map(str::trim_start);
    let name = lines.next()?.strip_prefix("ifndef")?.trim();
    (lines.next()?.strip_prefix("define")?.split_whitespace().next()? == name).then_some(name)
}

/// The branch of an `#if` that the reader is in.
struct Branch {
    holds: Option<bool>,
    /// Whether an earlier branch held; `None` if one may have.
    before: Option<bool>,
}

impl Branch {
    fn new(holds: Option<bool>) -> Branch {
        Branch { holds, before: Some(false) }
    }

    fn next(&mut self, own: Option<bool>) {
        self.before = match (self.before, self.holds) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        };
        self.holds = match self.before {
            Some(true) => Some(false),
            Some(false) => own,
            None => own.filter(|own| !own),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(text: &str, config: &str) -> Scan {
        Scan::of_c(text, &Config::parse(config), [&Macros::default(), &Macros::default()])
    }

    #[test]
    fn a_header_stub_is_left_out() {
        let text = "#ifndef _PSI_H\n#define _PSI_H\n#ifdef CONFIG_PSI\nvoid a(void);\n#else /* no \
                    */\nstatic inline void a(void) {}\n#endif\nstatic inline int b(void) { return 0; \
                    }\n#endif\n";
        let found = scan(text, "CONFIG_PSI=y\n").functions;
        let found: Vec<_> =
            found.iter().map(|found| (found.name.as_str(), found.kept, found.local)).collect();
        assert_eq!(found, [("a", Some(false), true), ("b", Some(true), true)]);
    }

    #[test]
    fn branches_after_one_that_may_hold_may_hold() {
        let text =
            "#if A\nint a(void) {}\n#elif defined(CONFIG_B)\nint b(void) {}\n#else\nint c(void) {}\n#endif\n";
        let found = scan(text, "").functions;
        assert_eq!(found.iter().map(|found| found.kept).collect::<Vec<_>>(), [None, Some(false), None]);
    }

    #[test]
    fn sources_and_macros_are_found() {
        let scan = scan(
            "#include \"rt.c\"\n#include \"sched.h\"\n#define A(b) int b##_c(void) { \
             }\nA(x)\nSYSCALL_DEFINE0(fork)\n{\n}\n",
            "",
        );
        assert_eq!(scan.included, ["rt.c"]);
        assert_eq!(
            scan.functions.iter().map(|found| found.name.as_str()).collect::<Vec<_>>(),
            ["x_c", "__x64_sys_fork"]
        );
    }

    #[test]
    fn labels_of_assembler_are_functions() {
        let names = |text: &str| {
            let scan = Scan::of_assembler(text, &Config::parse(""));
            scan.functions.into_iter().map(|found| found.name).collect::<Vec<_>>()
        };
        assert_eq!(
            names("SYM_FUNC_START(memcpy)\n.Lhere:\n\tmov %rax, 8(%rbx)\n.E_copy:\n"),
            ["memcpy", ".E_copy"]
        );
        assert_eq!(names("\tTHUNK preempt_schedule_thunk, preempt_schedule\n"), ["preempt_schedule_thunk"]);
        assert!(
            names("SYM_INNER_LABEL(__x86_indirect_thunk_\\reg, SYM_L_GLOBAL)\n")
                .contains(&"__x86_indirect_thunk_r11".to_owned())
        );
    }
}
