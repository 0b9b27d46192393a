//! The page of a watched program: which paths it takes and what shows it, its figures as a whole and over
//! time, and what could not be seen.

use super::figure::Section;
use super::frame;
use super::text::{capital, escape, readable};
use crate::number::percent;
use crate::table::Table;
use crate::watch::text::{cost, end, facts};
use iopj_analysis::watch::WatchFigures;
use iopj_core::watch::{SeenPath, WatchSubject};
use iopj_record::watch::WatchRecord;

pub(super) fn page(record: &WatchRecord, time: &Section) -> String {
    let figures = WatchFigures::of(&record.evidence, &record.paths);
    let mut links = vec![("paths", "Paths"), ("whole", "Figures"), ("time", "Over time")];
    links.extend((!record.denied.is_empty()).then_some(("missing", "Not seen")));
    links.push(("provenance", "Provenance"));
    let mut html = frame::head(&name(&record.subject));
    html += &title_block(record, &figures);
    html += &frame::contents(&links);
    html += "<main id=\"main\">";
    html += &paths(record);
    html += &whole(record, &figures);
    html += &match time.groups.is_empty() {
        true => {
            "<section id=\"time\"><h2>Over time</h2><p>The store holds no interval with I/O or CPU time: \
                 there is nothing to show over time.</p></section>"
                .to_owned()
        }
        false => frame::section(time),
    };
    html += &missing(record);
    html += &provenance(record);
    html + &frame::end(
        "Made by iopj from the store of a watch. This page is one file and loads nothing. Nothing is claimed \
         about what the program was asked to do.",
    )
}

/// What is watched in few words: of a command its program.
fn name(subject: &WatchSubject) -> String {
    match subject {
        WatchSubject::Command(words) => words.first().cloned().unwrap_or_default(),
        other => other.to_string(),
    }
}

fn title_block(record: &WatchRecord, figures: &WatchFigures) -> String {
    let command = match &record.subject {
        WatchSubject::Command(words) => format!("<code>{}</code>, ", escape(&words.join(" "))),
        _ => String::new(),
    };
    let kernel = record.provenance.get("kernel");
    let kernel = kernel.map_or(String::new(), |kernel| format!(", Linux {}", escape(kernel)));
    let kind = match &record.subject {
        WatchSubject::Device(_) => "Watched disk",
        _ => "Watched program",
    };
    let items: String =
        numbers(figures).into_iter().map(|(value, what)| format!("<li><b>{value}</b> {what}</li>")).collect();
    format!(
        "<header><p class=\"over\">{kind}</p><h1>{}</h1><p class=\"place\">{command}{}{kernel}</p><ul \
         class=\"facts\">{items}</ul></header>",
        escape(&name(&record.subject)),
        end(record.end)
    )
}

/// The figures that one looks for first.
fn numbers(figures: &WatchFigures) -> Vec<(String, &'static str)> {
    let disks = &figures.devices;
    let mut numbers = vec![(readable(figures.seconds), "seconds")];
    if !disks.is_empty() {
        let iops = disks.iter().map(|disk| disk.read_iops + disk.write_iops).sum();
        let megabytes = disks.iter().map(|disk| disk.read_mb_per_s + disk.write_mb_per_s).sum();
        numbers.extend([(readable(iops), "IOPS of its disks"), (readable(megabytes), "MB/s")]);
    }
    if let [disk] = &disks[..] {
        numbers.extend(disk.latency_ns_mean.map(|ns| (readable(ns / 1e3), "\u{b5}s mean latency")));
    }
    if let Some(program) = &figures.program {
        let about = if figures.counted_share.is_some_and(|share| share < 1.0) { "~" } else { "" };
        numbers.extend(program.switches_per_io.map(|per_io| (readable(per_io), "context switches per I/O")));
        let calls = program.calls_per_io.map(|per_io| about.to_owned() + &readable(per_io));
        numbers.extend(calls.map(|calls| (calls, "system calls per I/O")));
    }
    numbers
}

fn paths(record: &WatchRecord) -> String {
    let table = Table::of(&record.paths)
        .name("path", |path: &SeenPath| escape(&path.name()))
        .right("share", |path| percent(path.share))
        .left("how sure", |path| path.certainty.to_string())
        .left("what shows it", |path| escape(&path.why));
    let words = match record.paths.is_empty() {
        false => table.html("Paths seen", true),
        true if record.evidence.program.is_none() => {
            "<p>Paths belong to programs, and a whole disk was watched.</p>".to_owned()
        }
        true => "<p>No I/O of files or devices was seen.</p>".to_owned(),
    };
    let note = "<p class=\"note\">The most used first, with its share of the calls and ring entries that \
                give I/O to the kernel. Proven: events were counted that nothing else causes; else \
                inferred.</p>";
    let note = if record.paths.is_empty() { "" } else { note };
    format!("<section id=\"paths\"><h2>Paths seen</h2>{note}{words}</section>")
}

/// The figures of the whole time, as on a terminal.
fn whole(record: &WatchRecord, figures: &WatchFigures) -> String {
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    let cost = ("cost of watching".to_owned(), cost(&record.evidence.cost, figures.counted_share));
    for (label, words) in facts(figures, Some(figures.seconds)).into_iter().chain([cost]) {
        match rows.last_mut() {
            Some((_, last)) if label.is_empty() => last.extend(words),
            _ => rows.push((label, words)),
        }
    }
    rows.retain(|(_, words)| !words.is_empty());
    let table = Table::of(&rows)
        .name("of", |(label, _)| escape(label))
        .left("figures", |(_, words)| words.iter().map(|one| escape(one)).collect::<Vec<_>>().join("<br>"));
    let idle = record.evidence.device_ios() == 0;
    let idle = if idle { "<p>Its disks did no I/O in this time.</p>" } else { "" };
    format!(
        "<section id=\"whole\"><h2>Figures of the whole time</h2><p class=\"note\">Those of a disk are of \
         everybody who uses it; per I/O is per read or write that the program's disks completed. ~ stands \
         before counts of a part of the time, which are scaled up.</p>{idle}{}</section>",
        table.html("Figures of the whole time", true)
    )
}

fn missing(record: &WatchRecord) -> String {
    let items: String =
        record.denied.iter().map(|why| format!("<li>{}</li>", escape(&capital(why)))).collect();
    match items.is_empty() {
        true => items,
        false => {
            format!("<section id=\"missing\"><h2>Not seen</h2><ul class=\"plain\">{items}</ul></section>")
        }
    }
}

fn provenance(record: &WatchRecord) -> String {
    let subject = record.subject.to_string();
    let intervals = record.intervals.len().to_string();
    let facts = [("watched", subject.as_str()), ("followed", &record.followed), ("intervals", &intervals)];
    let facts: Vec<(&str, &str)> = facts.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    format!("<section id=\"provenance\">{}</section>", frame::provenance(&facts, &record.provenance))
}
