//! What Slurm says of its tasks: those it has, and how one ended.

use super::PACKAGE;
use crate::error::FleetError;
use crate::program::{self, words};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

/// How Slurm calls a task that ended with exit code 0.
pub(super) const COMPLETED: &str = "COMPLETED";
/// How it calls one that has not ended.
const LIVE: [&str; 5] = ["PENDING", "RUNNING", "SUSPENDED", "CONFIGURING", "COMPLETING"];

/// What it says of a task that has ended, or is about to.
const GONE: [&str; 2] = ["Invalid job id", "already completing or completed"];

/// A task that Slurm has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Live {
    /// Why it waits, or `None` in Slurm's words.
    pub(super) reason: String,
}

/// How a task ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) is_cancelled: bool,
    /// For the user.
    pub(super) text: String,
}

/// The tasks of these arrays that wait or run, by their names.
pub(super) fn live(ids: &[String], stop: &AtomicBool) -> Result<BTreeMap<String, Live>, FleetError> {
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    let arguments = [
        words(["--noheader", "--array", "--all", "--format=%i|%T|%r"]),
        vec![format!("--jobs={}", ids.join(","))],
    ];
    match program::output("squeue", &arguments.concat(), PACKAGE, stop) {
        Ok(text) => Ok(listed(&text)),
        // All of them ended some time ago.
        Err(FleetError::Program { reason, .. }) if reason.contains(GONE[0]) => Ok(BTreeMap::new()),
        Err(error) => Err(error),
    }
}

/// The job arrays of this name that are held.
pub(super) fn held(name: &str, stop: &AtomicBool) -> Result<BTreeSet<String>, FleetError> {
    let mut arguments = words(["--noheader", "--all", "--states=PENDING", "--format=%F|%Q"]);
    arguments.push(format!("--name={name}"));
    let text = program::output("squeue", &arguments, PACKAGE, stop)?;
    let lines = text.lines().filter_map(|line| line.trim().split_once('|'));
    // To hold is to give the priority 0; the reason comes later.
    Ok(lines.filter(|(_, priority)| *priority == "0").map(|(id, _)| id.to_owned()).collect())
}

/// Ends tasks of these arrays; an array that has ended meanwhile is no failure.
pub(super) fn end<const N: usize>(
    options: [&str; N],
    ids: &BTreeSet<String>,
    stop: &AtomicBool,
) -> Result<(), FleetError> {
    for id in ids {
        let arguments = [words(options), vec![id.clone()]].concat();
        match program::output("scancel", &arguments, PACKAGE, stop) {
            Err(FleetError::Program { reason, .. }) if GONE.iter().any(|gone| reason.contains(gone)) => {}
            ended => drop(ended?),
        }
    }
    Ok(())
}

fn listed(text: &str) -> BTreeMap<String, Live> {
    let line = |line: &str| {
        let mut fields = line.trim().split('|');
        let (task, _state, reason) = (fields.next()?, fields.next()?, fields.next()?);
        Some((task.to_owned(), Live { reason: reason.to_owned() }))
    };
    text.lines().filter_map(line).collect()
}

/// How a task ended: as slurmctld remembers it, for some minutes, or as the accounting does.
pub(super) fn ended(task: &str, stop: &AtomicBool) -> Ended {
    if !is_task(task) {
        return Ended { is_cancelled: false, text: "its record names no task of Slurm".to_owned() };
    }
    let shown = program::output("scontrol", &words(["show", "job", "--oneliner", task]), PACKAGE, stop);
    if let Some(ended) = shown.ok().and_then(|text| of_scontrol(&text)) {
        return ended;
    }
    let format = "--format=State,ExitCode";
    let accounted = program::output("sacct", &words(["-n", "-P", "-X", "-j", task, format]), PACKAGE, stop);
    accounted.ok().and_then(|text| of_sacct(&text)).unwrap_or_else(|| Ended {
        is_cancelled: false,
        text: "it ended without a word, and Slurm has forgotten how".to_owned(),
    })
}

/// `N_N`, and no option of a program.
fn is_task(task: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    task.split_once('_').is_some_and(|(array, number)| is_number(array) && is_number(number))
}

fn of_scontrol(text: &str) -> Option<Ended> {
    let field = |name: &str| {
        let mut words = text.lines().next()?.split_whitespace();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    };
    let (state, exit) = (field("JobState")?, field("ExitCode")?);
    if LIVE.contains(&state) {
        return None;
    }
    Some(in_words(state, exit, field("Reason").filter(|reason| *reason != "None")))
}

fn of_sacct(text: &str) -> Option<Ended> {
    let (state, exit) = text.lines().next()?.split_once('|')?;
    Some(in_words(state, exit, None))
}

/// `exit` is `CODE:SIGNAL`.
fn in_words(state: &str, exit: &str, reason: Option<&str>) -> Ended {
    let reason = reason.map_or(String::new(), |reason| format!(", {reason}"));
    let exit = match exit.split_once(':') {
        Some((code, "0")) => format!("exit code {code}"),
        Some((_, signal)) => format!("killed by signal {signal}"),
        None => format!("exit code {exit}"),
    };
    Ended { is_cancelled: state.starts_with("CANCELLED"), text: format!("Slurm: {state}{reason} ({exit})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_task_is_read_from_either_program() {
        let line = "JobId=5 ArrayJobId=4 ArrayTaskId=1 JobName=iopj JobState=NODE_FAIL Reason=NodeDown \
                    Dependency=(null) ExitCode=0:0 NodeList=n2";
        let ended = of_scontrol(line).unwrap();
        assert_eq!(ended.text, "Slurm: NODE_FAIL, NodeDown (exit code 0)");
        let ended = of_scontrol(&line.replace("NODE_FAIL", "FAILED").replace("0:0", "0:9")).unwrap();
        assert_eq!(ended.text, "Slurm: FAILED, NodeDown (killed by signal 9)");
        let ended = of_sacct("CANCELLED by 1000|0:15\n").unwrap();
        assert!(ended.is_cancelled && ended.text.ends_with("(killed by signal 15)"));
        assert_eq!([of_scontrol(""), of_sacct("")], [None, None]);
        assert_eq!(of_scontrol(&line.replace("NODE_FAIL", "RUNNING")), None, "it goes on");
    }

    #[test]
    fn live_tasks_are_listed_with_why_they_wait() {
        let live = listed("4_0|RUNNING|None\n4_1|PENDING|Resources\n");
        assert_eq!(live.len(), 2);
        assert_eq!(live["4_1"].reason, "Resources");
    }
}
