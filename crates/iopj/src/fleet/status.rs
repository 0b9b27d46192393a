//! `iopj fleet status`: what has become of each host's job.

use super::{Way, exit_code};
use crate::args::StatusArgs;
use crate::output::{print, print_json};
use crate::signals;
use iopj_fleet::Campaign;
use iopj_fleet::job::State;
use iopj_report::escape;
use iopj_run::blocks::clock;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

pub(super) fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let campaign = Campaign::open(&args.folder)?;
    Way::of(&campaign, signals::stop_flag()).refresh()?;
    let known = campaign.all_known()?;
    if args.json {
        print_json(&serde_json::json!({ "campaign": campaign.id(), "hosts": known }))?;
    } else {
        print(&table(&known))?;
    }
    Ok(exit_code(&known))
}

/// A line for each host, and one for all.
pub(super) fn table(known: &BTreeMap<String, State>) -> String {
    let now_ms = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as u64);
    let row = |(host, state): (&String, &State)| {
        let since = Duration::from_secs(now_ms.saturating_sub(state.since_ms) / 1000);
        let trials = format!("{}/{}", state.done, state.planned);
        let reason = escape(state.reason.as_deref().unwrap_or_default());
        [escape(host), state.phase.word().to_owned(), trials, clock(since), reason]
    };
    let head = ["host", "state", "trials", "since", "reason"].map(str::to_owned);
    let rows: Vec<[String; 5]> = std::iter::once(head).chain(known.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2), width(3)];
    let line = |row: &[String; 5]| {
        let [host, state, trials, since, reason] = row;
        let [a, b, c, d] = widths;
        format!("{host:a$}  {state:b$}  {trials:>c$}  {since:>d$}  {reason}").trim_end().to_owned() + "\n"
    };
    let mut counts = BTreeMap::<&str, usize>::new();
    known.values().for_each(|state| *counts.entry(state.phase.word()).or_default() += 1);
    let counts: Vec<String> = counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
    let counts = if counts.is_empty() { "no host has begun".to_owned() } else { counts.join(", ") };
    rows.iter().map(line).collect::<String>() + &format!("{counts}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_fleet::job::Phase;

    #[test]
    fn each_host_has_a_line_and_the_last_one_counts() {
        let killed =
            State { done: 3, planned: 12, ..State::now(Phase::Killed, Some("by signal 9".to_owned())) };
        let known = [("n1".to_owned(), State::now(Phase::Waiting, None)), ("node-10".to_owned(), killed)];
        let text = table(&known.into());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("host     state    trials"), "{text}");
        assert!(
            lines[2].starts_with("node-10  killed     3/12") && lines[2].ends_with("  by signal 9"),
            "{text}"
        );
        assert_eq!(lines[3], "1 killed, 1 waiting");
    }
}
