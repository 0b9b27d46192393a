//! The book's reference as Markdown: a page for each command, the metrics, and the keys of a workload.

use crate::args::Cli;
use crate::meta::EXAMPLES;
use crate::output::write_whole;
use anyhow::Context;
use clap::{Arg, Command, CommandFactory};
use iopj_analysis::metric::Metric;
use iopj_study::WorkloadMatrix;
use iopj_study::keys::fields_of;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn reference(folder: &Path) -> anyhow::Result<ExitCode> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let whole =
        [("commands", all(&command)), ("metrics", metrics()), ("workload-keys", workload_keys(&command))];
    let commands = visible(&command).map(|one| (one.get_name(), page(one)));
    let mut pages = whole.into_iter().map(|(name, text)| (format!("{name}.md"), text)).collect::<Vec<_>>();
    pages.extend(commands.map(|(name, text)| (format!("iopj-{name}.md"), text)));
    let write = |(name, text): &(String, String)| write_whole(&folder.join(name), text.as_bytes());
    std::fs::create_dir_all(folder)
        .and_then(|()| pages.iter().try_for_each(write))
        .with_context(|| format!("the reference cannot be written into {}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|one| !one.is_hide_set())
}

/// The page of all commands.
fn all(command: &Command) -> String {
    let about =
        |one: &Command| cell(&sentence(&one.get_about().map(ToString::to_string).unwrap_or_default()));
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let codes = help.split(EXAMPLES).next().unwrap_or_default().trim().to_owned();
    let mut text = format!(
        "# Command line\n\n{}\n\n| command | does |\n|---|---|\n",
        sentence(&command.get_about().map(ToString::to_string).unwrap_or_default())
    );
    for one in visible(command) {
        let name = one.get_name();
        let _ = writeln!(text, "| [`iopj {name}`](iopj-{name}.md) | {} |", about(one));
    }
    let _ = write!(text, "\n{codes}\n");
    text
}

/// The page of a command, with its subcommands below it.
fn page(command: &Command) -> String {
    let mut text = String::new();
    describe(command, 1, &mut text);
    text
}

fn describe(command: &Command, level: usize, text: &mut String) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string);
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let _ = write!(text, "{} `{name}`\n\n{}\n\n", "#".repeat(level), sentence(&about.unwrap_or_default()));
    let _ = write!(text, "```text\n{usage}\n```\n\n");
    for (heading, arguments) in groups(command) {
        let _ = write!(text, "| {heading} | meaning |\n|---|---|\n");
        arguments.iter().for_each(|argument| text.push_str(&row(argument)));
        text.push('\n');
    }
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (before, examples) = help.split_once(EXAMPLES).unwrap_or((&help, ""));
    let (examples, after) = examples.split_once("\n\n").unwrap_or((examples, ""));
    for words in [before.trim(), after.trim()].into_iter().filter(|words| !words.is_empty()) {
        let _ = write!(text, "{words}\n\n");
    }
    let mut example = "";
    for line in examples.lines() {
        match line.strip_prefix("      ") {
            Some(what) => {
                let _ = write!(text, "{what}:\n\n```sh\n{example}\n```\n\n");
            }
            None => example = line.trim(),
        }
    }
    visible(command).for_each(|one| describe(one, level + 1, text));
}

/// The arguments of a command by the heading that its help gives them, in its order.
fn groups(command: &Command) -> Vec<(String, Vec<&Arg>)> {
    let mut groups: Vec<(String, Vec<&Arg>)> = Vec::new();
    for argument in command.get_arguments().filter(|argument| is_shown(argument)) {
        let of_kind = if argument.is_positional() { "argument" } else { "option" };
        let heading = argument.get_help_heading().unwrap_or(of_kind).to_lowercase();
        match groups.iter_mut().find(|(name, _)| *name == heading) {
            Some((_, of_it)) => of_it.push(argument),
            None => groups.push((heading, vec![argument])),
        }
    }
    groups
}

/// Every command has `--help`, which says no more than this page.
fn is_shown(argument: &Arg) -> bool {
    !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str())
}

/// An argument with its values, its meaning and its default.
fn row(argument: &Arg) -> String {
    let takes = argument.get_action().takes_values();
    let names = argument.get_value_names().filter(|_| takes).unwrap_or_default();
    let values: Vec<String> = names.iter().map(|name| format!("<{name}>")).collect();
    let long = argument.get_long().map(|long| format!("--{long}"));
    let short = argument.get_short().map(|short| format!("-{short}"));
    let words: Vec<String> = [short, long].into_iter().flatten().collect();
    let words = [words.join(", "), values.join(" ")];
    let words = words.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(" ");
    format!("| `{words}` | {} |\n", meaning(argument))
}

fn meaning(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string);
    let mut meaning = cell(&sentence(&help.unwrap_or_default()));
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let takes = argument.get_action().takes_values();
    let values: Vec<String> =
        argument.get_possible_values().iter().map(|one| one.get_name().into()).collect();
    if takes && !values.is_empty() && !argument.is_hide_possible_values_set() {
        let _ = write!(meaning, " One of `{}`.", values.join("`, `"));
    }
    if takes && !defaults.is_empty() {
        let _ = write!(meaning, " By default `{}`.", defaults.join(","));
    }
    meaning
}

/// The text with a stop at its end.
fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() || text.ends_with(['.', ':']) { text.to_owned() } else { format!("{text}.") }
}

/// The text as a table's cell takes it. A placeholder would otherwise be taken for HTML.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}

fn metrics() -> String {
    let mut text = "# Metrics\n\nWhat `--metric` takes. \"Better\" says which value wins; a value that is a \
                    time means nothing\nunder emulation.\n\n| word | is | unit | better | time |\n\
                    |---|---|---|---|---|\n"
        .to_owned();
    for metric in Metric::ALL {
        let better = if metric.more_is_better() { "more" } else { "less" };
        let time = if metric.is_time() { "yes" } else { "no" };
        let (word, title, unit) = (metric.as_str(), metric.title(), metric.unit());
        let _ = writeln!(text, "| `{word}` | {title} | {unit} | {better} | {time} |");
    }
    text
}

/// The keys of `[[workload]]`. Each that is also an option of `iopj run` has its meaning from there.
fn workload_keys(command: &Command) -> String {
    let run = command.find_subcommand("run");
    let meaning_of = |key: &str| {
        let argument = run?.get_arguments().find(|one| one.get_id() == key)?;
        Some(meaning(argument))
    };
    let mut text = "# Keys of a workload\n\nEvery key of a `[[workload]]` table. One that is also an option \
                    of `iopj run` has its\nmeaning from there; the others stand only in studies.\n\n\
                    | key | meaning |\n|---|---|\n"
        .to_owned();
    for key in fields_of::<WorkloadMatrix>() {
        let option = if *key == "paths" { "path" } else { key };
        let meaning = meaning_of(option).unwrap_or_else(|| "only in studies".to_owned());
        let _ = writeln!(text, "| `{key}` | {meaning} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built() -> Command {
        let mut command = Cli::command().disable_help_subcommand(true);
        command.build();
        command
    }

    /// Every option and every argument of every command, so that none is left out by a new kind of argument.
    #[test]
    fn pages_have_every_command_and_option() {
        fn holds(page: &str, command: &Command) {
            assert!(page.contains(&format!("`{}`\n", command.get_bin_name().unwrap())), "{page}");
            for argument in command.get_arguments().filter(|argument| is_shown(argument)) {
                assert!(page.contains(&row(argument)), "{argument:?}");
                let named = argument.get_long().map_or_else(|| "<".to_owned(), |long| format!("--{long}"));
                assert!(row(argument).contains(&named), "{argument:?}");
            }
            visible(command).for_each(|one| holds(page, one));
        }
        let command = built();
        assert!(visible(&command).count() > 15);
        visible(&command).for_each(|one| holds(&page(one), one));
        let all = all(&command);
        assert!(visible(&command).all(|one| all.contains(&format!("[`iopj {}`](", one.get_name()))), "{all}");
    }

    #[test]
    fn examples_are_blocks_with_what_they_do() {
        let command = built();
        let page = page(command.find_subcommand("restore").unwrap());
        let example = "Restore the settings that a killed run left changed:\n\n```sh\niopj restore\n```\n";
        assert!(page.contains(example), "{page}");
    }

    #[test]
    fn metrics_and_keys_are_those_of_the_code() {
        let text = metrics();
        assert!(Metric::ALL.iter().all(|metric| text.contains(&format!("| `{}` |", metric.as_str()))));
        assert!(text.contains("| `latency_p99` | p99 latency | ns | less | yes |"), "{text}");
        let keys = workload_keys(&built());
        assert!(fields_of::<WorkloadMatrix>().iter().all(|key| keys.contains(&format!("| `{key}` | "))));
        assert!(keys.contains("| `iodepth` | I/Os that each job keeps in flight. |"), "{keys}");
        assert!(!keys.contains("| `runtime` | only"), "{keys}");
    }
}
