//! Manual pages and completions.

use crate::args::Cli;
use crate::output::{print, write_whole};
use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// What divides a command's last words in its help: above it the exit codes, below it examples.
pub(crate) const EXAMPLES: &str = "Examples:\n";
/// The version in the footer of a page.
const SOURCE: &str = concat!("iopj ", env!("CARGO_PKG_VERSION"));

pub(crate) fn man(folder: &Path) -> anyhow::Result<ExitCode> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    std::fs::create_dir_all(folder)
        .and_then(|()| write_pages(&command, folder))
        .with_context(|| format!("manual pages cannot be written into {}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// The page of a command, and those of its subcommands.
fn write_pages(command: &Command, folder: &Path) -> io::Result<()> {
    let mut visible = command.get_subcommands().filter(|one| !one.is_hide_set());
    visible.try_for_each(|one| write_pages(one, folder))?;
    let name = command.get_display_name().unwrap_or(command.get_name());
    write_whole(&folder.join(format!("{name}.1")), &page(command)?)
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let man = Man::new(command.clone());
    // `render_title` leaves an empty date out, and the source then takes its place.
    let title = name.to_uppercase();
    let mut page = format!(".TH {title} 1 \"\" \"{SOURCE}\" \"iopj manual\"\n").into_bytes();
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    last_words(command, name).to_writer(&mut page)?;
    Ok(page)
}

/// The sections after the options.
fn last_words(command: &Command, name: &str) -> Roff {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (codes, examples) = help.split_once(EXAMPLES).unwrap_or((&help, ""));
    let mut roff = Roff::new();
    if let Some((_, codes)) = codes.trim().split_once(": ") {
        roff.control("SH", ["EXIT STATUS"]).text([roman(codes)]);
    }
    if !examples.is_empty() {
        roff.control("SH", ["EXAMPLES"]);
    }
    for line in examples.lines() {
        match line.strip_prefix("      ") {
            Some(what) => roff.text([roman(what)]),
            None => roff.control("TP", []).text([bold(line.trim())]),
        };
    }
    if name != "iopj" {
        roff.control("SH", ["SEE ALSO"]).text([bold("iopj"), roman("(1)")]);
    }
    roff
}

pub(crate) fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    print(&script(shell))?;
    Ok(ExitCode::SUCCESS)
}

fn script(shell: Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "iopj", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(command: &Command) -> Vec<&Command> {
        let visible = || command.get_subcommands().filter(|one| !one.is_hide_set());
        if visible().next().is_none() { vec![command] } else { visible().flat_map(leaves).collect() }
    }

    /// The title once was `iopj-compare 1 "" "compare "`.
    #[test]
    fn every_page_has_its_title_and_every_command_an_example() {
        let mut command = Cli::command().disable_help_subcommand(true);
        command.build();
        for leaf in leaves(&command) {
            let page = String::from_utf8(page(leaf).unwrap()).unwrap();
            let name = leaf.get_display_name().unwrap();
            let title = format!(".TH {} 1 \"\" \"{SOURCE}\" \"iopj manual\"\n", name.to_uppercase());
            assert!(page.is_ascii(), "{page}");
            assert!(page.starts_with(&title), "{page}");
            let line = format!(".SH NAME\n{} \\- ", name.replace('-', "\\-"));
            assert!(page.contains(&line) && page.contains(".SH EXAMPLES\n.TP\n\\fBiopj "), "{page}");
        }
        let page = String::from_utf8(page(&command).unwrap()).unwrap();
        assert!(page.contains(".SH \"EXIT STATUS\"\n0 success; 1 the study"), "{page}");
    }

    /// Help shows these examples; a mistyped one would be a lie.
    #[test]
    fn examples_are_commands_that_parse() {
        let mut command = Cli::command();
        command.build();
        for leaf in leaves(&command).into_iter().filter(|leaf| leaf.get_name() != "help") {
            let help = leaf.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples = help.lines().filter_map(|line| line.strip_prefix("  iopj"));
            for example in examples.filter(|line| !line.starts_with("    ")) {
                let example = example.split(['|', '>']).next().unwrap().replace('\'', "");
                let words = std::iter::once("iopj").chain(example.split_whitespace());
                assert!(Cli::command().try_get_matches_from(words).is_ok(), "{example}");
            }
        }
    }

    #[test]
    fn shells_complete_values_and_any_text_is_taken() {
        let script = script(Shell::Bash);
        for words in ["iops mb_per_s", "rw bs iodepth numjobs", "blocks welch student", "available posix-sio"]
        {
            assert!(script.contains(words), "{words}");
        }
        let line = ["iopj", "winners", "s.iopj", "--metric", "speed", "--test", "t"];
        assert!(Cli::command().try_get_matches_from(line).is_ok(), "what reads the text judges it");
        Cli::command().debug_assert();
    }
}
