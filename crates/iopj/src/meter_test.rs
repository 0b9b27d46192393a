//! `iopj meter test`: some readings of each meter of a study, with their age and noise.

use crate::output::{FAILURES, INTERRUPTED, fail, note, print, print_json};
use crate::signals;
use crate::study;
use iopj_core::Allow;
use iopj_core::format_duration;
use iopj_metering::energy::{ChannelCheck, MeterCheck, READINGS, check};
use iopj_report::{WIDTH, escape, wrap};
use iopj_run::read_study;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(crate) fn test(study: Option<&Path>, allow: Allow, json: bool) -> anyhow::Result<ExitCode> {
    let read = |path: &Path| anyhow::Ok(read_study(&study::text(path)?, &path.display().to_string())?);
    let study = study.map(read).transpose()?;
    let stop = signals::stop_flag();
    let meters = check(study.as_ref(), allow, stop, &mut note)?;
    if json {
        print_json(&serde_json::to_value(&meters)?)?;
    } else if meters.is_empty() {
        print(
            "no meter was found: `iopj meter list` shows the meters of this machine, and why others are \
             missing\n",
        )?;
    } else {
        print(&meters.iter().map(text).collect::<String>())?;
    }
    if stop.load(Ordering::Relaxed) {
        fail(&anyhow::anyhow!("interrupted before each meter was read {READINGS} times"));
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let failed = meters.iter().any(|meter| meter.error.is_some());
    Ok(if failed { ExitCode::from(FAILURES) } else { ExitCode::SUCCESS })
}

/// A meter with its channels.
fn text(meter: &MeterCheck) -> String {
    let head = match &meter.note {
        Some(note) => format!("{}: {}: {note}", meter.name, meter.kind),
        None => {
            let every = format_duration(Duration::from_secs_f64(meter.interval_s));
            format!("{}: {}, read every {every}", meter.name, meter.kind)
        }
    };
    let mut text = format!("{}\n", escape(&head));
    text.extend(meter.channels.iter().map(channel));
    if let Some(error) = &meter.error {
        text += &wrap(&escape(&format!("cannot be read: {error}")), WIDTH, "  ");
    }
    text
}

/// A channel: its readings, then what they show.
fn channel(channel: &ChannelCheck) -> String {
    let ChannelCheck { name, scope, kind, unit, resolution, accuracy, readings, .. } = channel;
    let values: Vec<String> = readings.iter().map(|one| significant(one.value)).collect();
    let mut facts = Vec::new();
    facts.extend(channel.seen_interval_s.map(|seconds| format!("a value every {}", time(seconds))));
    facts.extend(channel.noise_w.map(|watts| format!("noise {} W (standard deviation)", significant(watts))));
    facts.extend(age(channel));
    facts
        .extend((channel.assumed_age_s > 0.0).then(|| {
            format!("a value may be {} old when it is read (`age_s`)", time(channel.assumed_age_s))
        }));
    facts.extend(match readings.len() {
        READINGS.. => None,
        1 => Some("only 1 reading".to_owned()),
        fewer => Some(format!("only {fewer} readings")),
    });
    facts.push(match *resolution {
        0.0 => "resolution not stated".to_owned(),
        step => format!("resolution {step} {unit}"),
    });
    facts.push(format!("accuracy {accuracy}"));
    facts.extend(channel.least_runtime_s.filter(|seconds| *seconds > 0.0).map(|seconds| {
        format!("joules need a `runtime` of {} or more", format_duration(Duration::from_secs_f64(seconds)))
    }));
    facts.extend(channel.no_joules.clone());
    let head = format!("{scope} {name}, {kind}, {unit}: {}", values.join("  "));
    wrap(&escape(&head), WIDTH, "  ") + &wrap(&escape(&facts.join("; ")), WIDTH, "    ")
}

/// The least and the greatest age of the readings.
fn age(channel: &ChannelCheck) -> Option<String> {
    let ages = || channel.readings.iter().map(|one| one.age_s);
    let (least, most) = (ages().reduce(f64::min)?, ages().reduce(f64::max)?);
    if most == 0.0 {
        return Some("age not known: the meter gives no time stamp".to_owned());
    }
    let range = match (time(least), time(most)) {
        (least, most) if least == most => least,
        (least, most) => format!("{least} to {most}"),
    };
    let by = match channel.readings.iter().any(|one| one.by_own_time) {
        true => "by the meter's time stamps, including the error of its clock",
        false => "by the time that a reading takes",
    };
    Some(format!("age {range} {by}"))
}

/// Seconds with a unit.
fn time(seconds: f64) -> String {
    match seconds.abs() {
        size if size >= 1.0 => format!("{} s", significant(seconds)),
        size if size >= 1e-3 => format!("{} ms", significant(seconds * 1e3)),
        _ => format!("{:.0} us", seconds * 1e6),
    }
}

/// Four digits at most.
fn significant(value: f64) -> String {
    let decimals = if value == 0.0 { 0 } else { (3 - value.abs().log10().floor() as i32).clamp(0, 3) };
    let text = format!("{value:.*}", decimals as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_metering::energy::ReadingCheck;

    #[test]
    fn a_meter_shows_its_readings_with_age_noise_and_the_least_runtime() {
        let reading = |value, age_s| ReadingCheck { value, age_s, by_own_time: false };
        let channel = ChannelCheck {
            name: "power".into(),
            scope: "system".into(),
            kind: "instant",
            unit: "W",
            resolution: 0.1,
            accuracy: "not stated".into(),
            readings: vec![reading(40.0, 0.002), reading(41.25, 0.0034)],
            assumed_age_s: 10.0,
            seen_interval_s: Some(1.003),
            noise_w: Some(0.884),
            least_runtime_s: Some(5.0),
            no_joules: None,
        };
        let meter = MeterCheck {
            name: "psu\u{1b}".into(),
            kind: "http",
            interval_s: 1.0,
            channels: vec![channel],
            note: None,
            error: Some("it ended".into()),
        };
        let shown = text(&meter).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            shown,
            "psu\\u{1b}: http, read every 1s system power, instant, W: 40 41.25 a value every 1.003 s; noise \
             0.884 W (standard deviation); age 2 ms to 3.4 ms by the time that a reading takes; a value \
             may be 10 s old when it is read (`age_s`); only 2 readings; resolution 0.1 W; accuracy not \
             stated; joules need a `runtime` of 5s or more cannot be read: it ended"
        );
        let log = MeterCheck { channels: vec![], note: Some("later".into()), error: None, ..meter };
        assert_eq!(text(&log), "psu\\u{1b}: http: later\n");
        assert_eq!([1e-5, 12.0, -83.2].map(time), ["10 us", "12 s", "-83.2 s"]);
        assert_eq!([12345.0, 0.0].map(significant), ["12345", "0"]);
    }
}
