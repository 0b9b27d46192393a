//! The words of a watch. Every text of the program's own is made harmless.

use super::super::number::{decimal, percent, thousands};
use super::super::text::{WIDTH, escape, wrap};
use iopj_analysis::watch::{CacheFigures, DeviceFigures, ProgramFigures, WatchFigures};
use iopj_core::watch::{SeenPath, WatchCost, WatchSubject};
use iopj_record::watch::{WatchEnd, WatchInterval, WatchRecord};
use unicode_width::UnicodeWidthChar;

/// Columns of the word that begins a row.
const LABEL: usize = 8;
/// Between two figures of a row.
const GAP: &str = "  ";

/// One interval in one line, without its end.
pub fn line(interval: &WatchInterval) -> String {
    let figures = WatchFigures::of(&interval.evidence, &interval.paths);
    let mut parts = vec![format!("{:.1} s", interval.end_ns as f64 * 1e-9)];
    for device in &figures.devices {
        parts.push(escape(&device.name));
        parts.extend(rates(device));
        parts.extend(latency(device));
        parts.extend(per_io(device, None));
        parts.extend(contexts(device));
    }
    if let Some(program) = &figures.program {
        parts.extend(program_words(program));
    }
    parts.extend(power(&figures));
    parts.extend(names(&interval.paths));
    parts.join(GAP)
}

/// An interval as lines of at most `columns` columns, to be redrawn in place.
pub fn live(subject: &WatchSubject, interval: &WatchInterval, columns: usize) -> Vec<String> {
    let figures = WatchFigures::of(&interval.evidence, &interval.paths);
    let time = format!("{:.0} s", interval.end_ns as f64 * 1e-9);
    let mut rows = vec![row("watch", &[time, escape(&subject.to_string())], columns)];
    rows.extend(blocks(&figures, None, columns));
    rows.push(row("paths", &names(&interval.paths), columns));
    rows.push(row("cost", &cost(&interval.evidence.cost, figures.counted_share), columns));
    rows.concat().into_iter().map(|line| cut(&line, columns)).collect()
}

/// A whole watch.
pub fn summary(record: &WatchRecord) -> String {
    let figures = WatchFigures::of(&record.evidence, &record.paths);
    let time = format!("{:.1} s", figures.seconds);
    let mut rows = vec![row("watched", &[time, escape(&record.subject.to_string()), end(record.end)], WIDTH)];
    rows.extend(blocks(&figures, Some(figures.seconds), WIDTH));
    let mut text: String = rows.concat().into_iter().map(|line| line + "\n").collect();
    for path in &record.paths {
        let words = format!("{} ({})", escape(&path.name()), path.certainty);
        text.push_str(&lines(row("path", &[percent(path.share), words], WIDTH)));
        text.push_str(&wrap(&escape(&path.why), WIDTH, &" ".repeat(LABEL)));
    }
    if record.evidence.device_ios() == 0 && record.evidence.program.is_none() {
        text.push_str(&format!("the device did no I/O in {:.1} s\n", figures.seconds));
    }
    if let (true, Some(program)) = (record.paths.is_empty(), &record.evidence.program) {
        let words = match program.whole_disk_bytes {
            Some(_) => "not seen, because the program's end was hidden",
            None => "no I/O of files or devices was seen",
        };
        text.push_str(&lines(row("path", &[words.to_owned()], WIDTH)));
    }
    text.push_str(&lines(row("cost", &cost(&record.evidence.cost, figures.counted_share), WIDTH)));
    for denied in &record.denied {
        text.push_str(&wrap(&format!("without: {}", escape(denied)), WIDTH, ""));
    }
    text
}

fn lines(row: Vec<String>) -> String {
    row.into_iter().map(|line| line + "\n").collect()
}

/// The rows of the figures; system calls in all, if the time is given, else a second.
fn blocks(figures: &WatchFigures, over: Option<f64>, columns: usize) -> Vec<Vec<String>> {
    facts(figures, over).iter().map(|(label, words)| row(label, words, columns)).collect()
}

/// The figures in words, by what they are of; without a label they belong to those before them.
pub(in super::super) fn facts(figures: &WatchFigures, over: Option<f64>) -> Vec<(String, Vec<String>)> {
    let mut facts = Vec::new();
    for device in &figures.devices {
        facts.push((escape(&device.name), rates(device).into_iter().chain(latency(device)).collect()));
        let own = per_io(device, figures.program.as_ref()).into_iter().chain(contexts(device));
        facts.push((String::new(), own.collect()));
    }
    if let Some(program) = &figures.program {
        facts.push(("program".to_owned(), program_words(program)));
        facts.push(("calls".to_owned(), calls(program, over, figures.counted_share)));
    }
    facts.extend(figures.cache.as_ref().map(|cache| ("cache".to_owned(), cache_words(cache))));
    let machine = figures.machine;
    let kinds = [
        ("user", machine.user),
        ("system", machine.system),
        ("irq", machine.irq),
        ("softirq", machine.softirq),
        ("iowait", machine.iowait),
        ("steal", machine.steal),
        ("idle", machine.idle),
    ];
    let words = kinds.map(|(name, share)| format!("{name} {}", percent(share)));
    facts.push(("CPU".to_owned(), words.into()));
    facts.push(("power".to_owned(), power(figures)));
    facts
}

/// Lines of a row, broken between figures; none without figures.
fn row(label: &str, parts: &[String], columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = format!("{label:<LABEL$}");
    let mut is_empty = true;
    for part in parts {
        if !is_empty && width(&line) + GAP.len() + width(part) > columns {
            lines.push(std::mem::replace(&mut line, " ".repeat(LABEL)));
            is_empty = true;
        }
        if !is_empty {
            line.push_str(GAP);
        } else if width(&line) > LABEL {
            line.push(' ');
        }
        line.push_str(part);
        is_empty = false;
    }
    if !parts.is_empty() {
        lines.push(line);
    }
    lines
}

fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// As much of a line as fits.
fn cut(line: &str, columns: usize) -> String {
    let mut used = 0;
    line.chars()
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= columns
        })
        .collect()
}

fn rates(device: &DeviceFigures) -> Vec<String> {
    let of = |verb: &str, iops: f64, megabytes: f64| {
        format!("{verb} {} IOPS {} MB/s", thousands(iops), decimal(megabytes))
    };
    let mut words = Vec::new();
    if device.read_iops > 0.0 || device.write_iops == 0.0 {
        words.push(of("read", device.read_iops, device.read_mb_per_s));
    }
    if device.write_iops > 0.0 {
        words.push(of("write", device.write_iops, device.write_mb_per_s));
    }
    words
}

fn latency(device: &DeviceFigures) -> Vec<String> {
    let us = |ns: f64| decimal(ns / 1e3);
    let mut words: Vec<String> =
        device.latency_ns_mean.map(|ns| format!("mean {} us", us(ns))).into_iter().collect();
    if let Some(seen) = device.sampled.filter(|seen| seen.count > 0) {
        let at = [seen.p50_ns, seen.p99_ns, seen.p99_9_ns].map(|ns| us(ns as f64));
        words.push(format!("p50 {} p99 {} p99.9 {} us of {} samples", at[0], at[1], at[2], seen.count));
    }
    words
}

fn per_io(device: &DeviceFigures, program: Option<&ProgramFigures>) -> Vec<String> {
    let mut words = Vec::new();
    let mut add = |name: &str, value: Option<f64>| {
        words.extend(value.map(|value| format!("{value:.2} {name}/IO")));
    };
    add("interrupts", device.interrupts_per_io);
    if let Some(program) = program {
        add("switches", program.switches_per_io);
        add("calls", program.calls_per_io);
    }
    words
}

/// Who completed, and whether the kernel's workers issued.
fn contexts(device: &DeviceFigures) -> Vec<String> {
    let Some(shares) = device.completed else { return Vec::new() };
    let kinds = ["hard interrupt", "soft interrupt", "kernel worker", "thread"];
    let named = kinds.iter().zip(shares).filter(|(_, share)| *share >= 0.0005);
    let words: Vec<String> = named.map(|(kind, share)| format!("{kind} {}", percent(share))).collect();
    let mut words = vec![format!("completed by {}", words.join(", "))];
    let issued = device.issued_by_workers.filter(|share| *share >= 0.0005);
    words.extend(issued.map(|share| format!("issued by kernel workers {}", percent(share))));
    words
}

fn program_words(program: &ProgramFigures) -> Vec<String> {
    let counted =
        |count: u32, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    vec![
        format!("user {} system {} cores", decimal(program.user_cores), decimal(program.system_cores)),
        counted(program.processes, "process", "processes"),
        counted(program.threads, "thread", "threads"),
        format!("{} switches/s", thousands(program.switches_per_s)),
    ]
}

/// System calls by name, the most frequent first: a second, or in all of some time; `~` before what was
/// counted for a part of it.
fn calls(program: &ProgramFigures, over: Option<f64>, counted_share: Option<f64>) -> Vec<String> {
    let unit = if over.is_some() { "" } else { "/s" };
    let about = if counted_share.is_some_and(|share| share < 1.0) { "~" } else { "" };
    let text =
        |name: &str, rate: f64| format!("{name} {about}{}{unit}", thousands(rate * over.unwrap_or(1.0)));
    let mut all: Vec<&(String, f64)> = program.calls.iter().collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let entries = program.ring_entries_per_s.filter(|rate| *rate > 0.0);
    let total = program.calls_per_s.map(|rate| text("all", rate));
    let entries = entries.map(|rate| text("ring entries", rate));
    total.into_iter().chain(entries).chain(all.into_iter().map(|(name, rate)| text(name, *rate))).collect()
}

fn cache_words(cache: &CacheFigures) -> Vec<String> {
    let mut words: Vec<String> =
        cache.read_mb_per_s.map(|rate| format!("asked for {} MB/s", decimal(rate))).into_iter().collect();
    words.extend(cache.hits.map(|hits| format!("hits {}", percent(hits))));
    words.push(format!("read from devices {} MB/s", decimal(cache.fetched_mb_per_s)));
    words.extend(
        cache.readahead.map(|times| format!("a device's read is {} times the program's", decimal(times))),
    );
    if cache.write_mb_per_s > 0.0 {
        words.push(format!("written {} MB/s", decimal(cache.write_mb_per_s)));
    }
    if cache.write_mb_per_s > 0.0 || cache.dirtied_mb_per_s > 0.0 {
        words.push(format!("to be written back {} MB/s", decimal(cache.dirtied_mb_per_s)));
    }
    words
}

fn power(figures: &WatchFigures) -> Vec<String> {
    let words = figures.power.iter().map(|power| {
        let per_joule = power.ios_per_joule.map_or(String::new(), |ios| format!(", {} IO/J", thousands(ios)));
        format!("{} ({}) {} W{per_joule}", escape(&power.meter), power.scope, decimal(power.watts))
    });
    words.collect()
}

fn names(paths: &[SeenPath]) -> Vec<String> {
    let name = |path: &SeenPath| format!("{} {} ({})", path.name(), percent(path.share), path.certainty);
    paths.iter().map(name).map(|text| escape(&text)).collect()
}

/// What watching cost.
pub(in super::super) fn cost(cost: &WatchCost, counted_share: Option<f64>) -> Vec<String> {
    let Some(share) = counted_share else { return Vec::new() };
    let mut words = vec![
        format!("counted {} of the time", percent(share)),
        format!("sampled {}", percent(cost.sampled_share)),
        format!("estimated slowdown {:.2} %", 100.0 * cost.slowdown),
        format!(
            "an event costs {:.0} ns, a context switch {:.0} ns more, a sampled event {:.0} ns",
            cost.event_ns, cost.switch_ns, cost.sample_ns
        ),
    ];
    if cost.lost_samples > 0 {
        words.push(format!("{} samples lost", cost.lost_samples));
    }
    words
}

/// How a watch ended.
pub(in super::super) fn end(end: WatchEnd) -> String {
    match end {
        WatchEnd::Exited(code) => format!("ended with exit code {code}"),
        WatchEnd::Signalled(signal) => format!("ended by signal {signal}"),
        WatchEnd::Stopped => "still running".to_owned(),
        WatchEnd::Gone => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::watch::SeenCaching;
    use iopj_record::testing::watches::{evidence, path, watch};
    use proptest::prelude::*;

    fn interval() -> WatchInterval {
        let paths = vec![path(SeenCaching::Direct)];
        WatchInterval { end_ns: 2_000_000_000, evidence: evidence(), paths }
    }

    #[test]
    fn a_line_names_rates_contexts_and_path() {
        let text = line(&interval());
        for part in [
            "2.0 s  vda  read 500 IOPS 2.05 MB/s  mean 50.0 us",
            "0.90 interrupts/IO",
            "completed by soft interrupt 75.0 %, thread 25.0 %",
            "rapl package-0 (package) 10.0 W, 50 IO/J",
            "posix-sio/syscall/interrupt 100.0 % (proven)",
        ] {
            assert!(text.contains(part), "`{part}` is missing in: {text}");
        }
    }

    #[test]
    fn the_sum_says_how_it_ended_what_shows_each_path_and_what_is_missing() {
        let text = summary(&watch(0));
        for part in [
            "ended with exit code 3",
            "posix-sio, buffered (proven)",
            "500 calls of pread64",
            "hits 50.0 %",
            "estimated slowdown 0.00 %",
            "all ~1,500  pread64 ~1,250",
            "without: latencies are not sampled: no tracefs",
            "1.50 switches/IO  1.50 calls/IO",
        ] {
            assert!(text.contains(part), "`{part}` is missing in: {text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(text.lines().all(|line| width(line) <= WIDTH), "{text}");
    }

    #[test]
    fn a_hidden_end_is_not_said_to_be_no_io() {
        let mut watch = watch(0);
        watch.paths.clear();
        assert!(summary(&watch).contains("no I/O of files or devices was seen"));
        watch.evidence.program.as_mut().unwrap().whole_disk_bytes = Some([0, 6_000_000]);
        let text = summary(&watch);
        assert!(text.contains("not seen, because the program's end was hidden"), "{text}");
        assert!(text.contains("to be written back 3.00 MB/s"), "{text}");
    }

    proptest! {
        #[test]
        fn no_line_of_the_view_is_wider_than_the_terminal(columns in 1usize..200) {
            let subject = WatchSubject::Command(vec!["\u{4e2d}".repeat(40), "b".repeat(90)]);
            for line in live(&subject, &interval(), columns) {
                prop_assert!(width(&line) <= columns, "{} {}", columns, line);
            }
        }
    }
}
