//! Real programs as meters.

use super::*;
use crate::clock::monotonic_raw_ns;
use crate::meter::{Scope, Wrap};
use proptest::prelude::*;
use std::path::Path;
use std::time::Instant;

fn channel(kind: ChannelKind) -> Channel {
    Channel::new("plug", Scope::System, kind)
}

fn start(script: &str) -> CommandMeter {
    let command = ["sh", "-c", script].map(str::to_owned);
    CommandMeter::start(&command, channel(ChannelKind::Instant), Allow::ALL).unwrap()
}

/// The limit for a program to print something or end, which takes far less.
const PATIENCE: Duration = Duration::from_secs(300);

/// Reads until something comes.
fn next(meter: &mut CommandMeter) -> Result<Reading, MeterError> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let mut out = Vec::new();
        meter.read(&mut out)?;
        if let Some(reading) = out.pop() {
            return Ok(reading);
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("nothing came");
}

#[test]
fn a_program_prints_watts_then_ends() {
    let before_ns = monotonic_raw_ns();
    let mut meter = start("echo; echo 12.5; read -r never; exit 0");
    let reading = next(&mut meter).unwrap();
    assert_eq!((reading.channel, reading.value, reading.own_ns), (0, Value::Watts(12.5), None));
    assert!(before_ns <= reading.begin_ns && reading.begin_ns <= reading.end_ns && reading.wall_ns > 0);
    assert_eq!(next(&mut meter), Err(MeterError::Ended));
}

#[test]
fn a_program_may_have_a_clock_of_its_own() {
    let mut meter = start("echo 1763640000.000000001 7; sleep 100");
    let reading = next(&mut meter).unwrap();
    assert_eq!((reading.value, reading.own_ns), (Value::Watts(7.0), Some(1_763_640_000_000_000_001)));
}

#[test]
fn a_line_that_is_no_number_is_shown_and_the_next_one_counts() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let wait = format!("until [ -e {} ]; do sleep 0.01; done", go.display());
    let mut meter = start(&format!("printf 'Watts\\033[2J\\n'; {wait}; echo 5; sleep 100"));
    let error = next(&mut meter).unwrap_err();
    let want = "`sh` printed `Watts\\u{1b}[2J`, which is not a power: it must print lines of `watts` or \
                `timestamp watts`";
    assert_eq!(error, MeterError::Retry(want.into()));
    std::fs::write(go, "").unwrap();
    assert_eq!(next(&mut meter).unwrap().value, Value::Watts(5.0));
}

#[test]
fn a_long_line_is_cut_and_half_a_line_does_not_count() {
    let mut meter = start("head -c 100000 /dev/zero | tr '\\0' 7; echo; sleep 0.3; printf 5");
    let error = next(&mut meter).unwrap_err().to_string();
    assert!(error.contains(&format!("printed `{}`", "7".repeat(LONGEST_LINE as usize))), "{error}");
    assert_eq!(next(&mut meter), Err(MeterError::Ended));
}

#[test]
fn a_silent_program_holds_up_nobody() {
    let mut meter = start("sleep 100");
    let mut out = Vec::new();
    for _ in 0..1000 {
        meter.read(&mut out).unwrap();
    }
    assert_eq!(out, []);
}

#[test]
fn a_failing_program_is_fatal_and_its_arguments_stay_secret() {
    let mut meter = start("password=tulip; exit 3");
    let error = next(&mut meter).unwrap_err();
    assert_eq!(error, MeterError::Fatal("`sh` ended with exit status: 3: run it by hand to see why".into()));
}

#[test]
fn nothing_runs_without_leave() {
    let kinds = [
        (ChannelKind::Instant, Allow::NOTHING),
        (ChannelKind::Counter { joules_per_count: 1.0, wrap: None::<Wrap> }, Allow::ALL),
    ];
    let command = ["/nonexistent/meter".to_owned(), "tulip".to_owned()];
    let errors = kinds
        .map(|(kind, allow)| CommandMeter::start(&command, channel(kind), allow).unwrap_err().to_string());
    assert!(errors[0].ends_with("which is not allowed: say --allow exec"), "{}", errors[0]);
    assert!(errors[1].contains("prints watts, not a count"), "{}", errors[1]);
    let error =
        CommandMeter::start(&command, channel(ChannelKind::Instant), Allow::ALL).unwrap_err().to_string();
    assert!(error.starts_with("`/nonexistent/meter` cannot be started (No such file"), "{error}");
    assert!(!error.contains("tulip"));
    assert!(
        CommandMeter::start(&[], channel(ChannelKind::Instant), Allow::ALL)
            .unwrap_err()
            .to_string()
            .contains("no program")
    );
}

/// A zombie that its new parent has not yet reaped is dead.
fn alive(process: u32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat"))
        .unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

/// Drops a meter whose program printed the number of its child: both are gone afterwards.
fn assert_all_end(mut meter: CommandMeter) {
    let Value::Watts(grandchild) = next(&mut meter).unwrap().value else { panic!() };
    let child = meter.child.id();
    assert!(alive(grandchild as u32));
    drop(meter);
    assert!(!Path::new("/proc").join(child.to_string()).exists());
    let start = Instant::now();
    while alive(grandchild as u32) && start.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(!alive(grandchild as u32));
}

#[test]
fn the_program_and_its_children_end_with_the_meter() {
    // The program has ended, its child has not. Both ignore SIGTERM.
    assert_all_end(start("trap '' TERM; sh -c 'echo $$; exec sleep 100' &"));
    assert_all_end(start("trap '' TERM; sh -c 'echo $$; exec sleep 100' & wait; sleep 100"));
}

#[test]
fn lines_have_one_or_two_numbers() {
    assert_eq!(parse("12.5"), Some((None, 12.5)));
    assert_eq!(parse(" 1e2\t"), Some((None, 100.0)));
    assert_eq!(parse("-0.5"), Some((None, -0.5)));
    assert_eq!(parse("10 3"), Some((Some(10_000_000_000), 3.0)));
    assert_eq!(parse("0.1234567899 3"), Some((Some(123_456_789), 3.0)));
    for line in [
        "",
        "W",
        "3 W",
        "3W",
        "NaN",
        "inf",
        "1 2 3",
        "1,5",
        "-1 2",
        "1. .",
        "1e3 2",
        "9223372036855 1",
        ". 1",
        "1e999",
    ] {
        assert_eq!(parse(line), None, "{line}");
    }
}

proptest! {
    #[test]
    fn any_line_is_taken(line in "\\PC{0,60}", near in "[-+0-9. eE]{0,30}") {
        for (_, watts) in [parse(&line), parse(&near)].into_iter().flatten() {
            prop_assert!(watts.is_finite());
        }
    }

    #[test]
    fn what_is_printed_comes_back(own_ns in 0..i64::MAX, watts in -1e6..1e6f64) {
        let line = format!("{}.{:09} {watts}", own_ns / 1_000_000_000, own_ns % 1_000_000_000);
        prop_assert_eq!(parse(&line), Some((Some(own_ns), watts)));
    }
}
