//! The report as one HTML page.

use super::text::{drift_words, off, percent, saved, take, title, winner};
use super::winners::Mean;
use super::{Advice, FleetReport, KindReport, PathFigures, WorkloadReport};
use iopj_analysis::stats::{LEVEL, p_text};
use iopj_report::html::{BarFigure, BarGroup, PathBar, TablePage, TableSection, table_page};
use std::collections::BTreeMap;

/// The page.
pub fn page(report: &FleetReport) -> String {
    let sum = |of: fn(&KindReport) -> u64| report.kinds.iter().map(of).sum::<u64>().to_string();
    let fact = |number: String, what: &str| (number, what.to_owned());
    let facts = vec![
        fact(report.kinds.len().to_string(), "kinds of machines"),
        fact(report.hosts.to_string(), "hosts"),
        fact(report.stores.to_string(), "stores"),
        fact(sum(|kind| kind.trials), "trials"),
        fact(sum(|kind| kind.refuted), "refuted"),
        fact(sum(|kind| kind.failed), "failed"),
    ];
    table_page(&TablePage {
        over: "I/O paths of a fleet".to_owned(),
        title: "Fleet".to_owned(),
        place: format!("data set {}, generation {}", report.dataset.display(), report.generation),
        facts,
        sections: vec![
            roll_out(report),
            winners(report),
            figures(report),
            outliers(report),
            drift(report),
            kinds(report),
        ],
        end: "Made by iopj from a data set. This page is one file and loads nothing. Hosts are the \
              replicates: each counts once, by the mean over its stores. Refuted and failed trials \
              are counted. They are left out of every comparison, as are unproven and disturbed ones. \
              Intervals are of 95 %."
            .to_owned(),
    })
}

/// A row for each set-up of each kind, after the kind's own cells.
fn by_workload(report: &FleetReport, cells: impl Fn(&WorkloadReport) -> Vec<String>) -> Vec<Vec<String>> {
    let rows = report.kinds.iter().flat_map(|kind| kind.workloads.iter().map(move |one| (kind, one)));
    rows.map(|(kind, one)| [vec![title(kind), one.setup.clone()], cells(one)].concat()).collect()
}

fn roll_out(report: &FleetReport) -> TableSection {
    let cells = |one: &WorkloadReport| match &one.advice {
        None => vec!["nothing is verified on enough hosts".to_owned()],
        Some(advice) => vec![
            take(advice),
            advice.by.to_owned(),
            advice.decision.to_owned(),
            advice.p.map_or("-".to_owned(), |p| p_text(p, 3)),
            advice.hosts.to_string(),
            percent(advice.verified_share),
            saved(one, |advice| advice.joules),
            saved(one, |advice| advice.cpu),
            saved(one, |advice| advice.latency),
            advice.against.clone(),
        ],
    };
    TableSection {
        id: "roll-out",
        heading: "What to roll out to whom".to_owned(),
        lead: roll_out_lead(report),
        note: "The path with the least joules for each I/O where a meter measured the whole machine, else \
               with the least CPU time, among those that are verified on 95 % of the hosts and in 95 % of \
               the trials or more. It is compared with each of the others within hosts, those that have \
               the figure for all of these paths (paired t-tests, p-values corrected by Holm over all \
               kinds and set-ups). Savings are of each I/O against the path in the last column; below zero \
               it costs more."
            .to_owned(),
        bars: Vec::new(),
        columns: vec![
            ("kind", false),
            ("set-up", false),
            ("take", false),
            ("by", false),
            ("decision", false),
            ("p", true),
            ("hosts", true),
            ("verified on", true),
            ("joules saved", true),
            ("CPU saved", true),
            ("latency saved", true),
            ("against", false),
        ],
        rows: by_workload(report, cells),
    }
}

/// What the largest kinds are to take, in words, where that is decided.
fn roll_out_lead(report: &FleetReport) -> Vec<String> {
    let sentence = |kind: &KindReport| {
        let mut takes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let decided = |advice: &&Advice| advice.decision != "undecided";
        let advised = kind.workloads.iter().filter_map(|one| Some((one, one.advice.as_ref()?)));
        for (one, advice) in advised.filter(|(_, advice)| decided(advice)) {
            takes.entry(&advice.path).or_default().push(&one.setup);
        }
        let all = kind.workloads.len();
        let take = |(path, workloads): (&str, Vec<&str>)| match workloads.len() {
            count if count == all => format!("{path} for everything"),
            _ => format!("{path} for {}", workloads.join(", ")),
        };
        let takes: Vec<String> = takes.into_iter().map(take).collect();
        (!takes.is_empty()).then(|| format!("{}: {}.", title(kind), takes.join("; ")))
    };
    report.kinds.iter().take(3).filter_map(sentence).collect()
}

fn winners(report: &FleetReport) -> TableSection {
    let cells = |one: &WorkloadReport| {
        let p = one.p.map_or("-".to_owned(), |p| p_text(p, 3));
        vec![winner(one), one.decision.to_owned(), p]
    };
    TableSection {
        id: "winners",
        heading: "Winners".to_owned(),
        lead: Vec::new(),
        note: "The path with the most I/Os per second, hosts compared with themselves (paired t-tests over \
               hosts), p-values corrected by Holm over all kinds and set-ups."
            .to_owned(),
        bars: Vec::new(),
        columns: vec![
            ("kind", false),
            ("set-up", false),
            ("most IOPS", false),
            ("decision", false),
            ("p", true),
        ],
        rows: by_workload(report, cells),
    }
}

fn figures(report: &FleetReport) -> TableSection {
    let mean = |value: &Option<Mean>, factor: f64, decimals: usize| match value {
        None => "-".to_owned(),
        Some(Mean { mean, interval: None }) => format!("{:.decimals$}", mean * factor),
        Some(Mean { mean, interval: Some((low, high)) }) => {
            let half = (high - low) / 2.0 * factor;
            format!("{:.decimals$} \u{b1} {half:.decimals$}", mean * factor)
        }
    };
    let mut rows = Vec::new();
    for kind in &report.kinds {
        for (one, path) in kind.workloads.iter().flat_map(|one| one.paths.iter().map(move |path| (one, path)))
        {
            rows.push(vec![
                title(kind),
                one.setup.clone(),
                path.path.clone(),
                format!("{} of {}", path.verified_hosts, path.hosts),
                mean(&path.iops, 1.0, 0),
                mean(&path.latency_ns, 1e-3, 1),
                mean(&path.latency_p99_ns, 1e-3, 1),
                mean(&path.cpu_ns_per_io, 1e-3, 2),
                mean(&path.joules_per_io, 1e6, 1),
            ]);
        }
    }
    let all = paths(report);
    TableSection {
        id: "figures",
        heading: "Figures".to_owned(),
        lead: Vec::new(),
        note: "Means over hosts with half of their 95 % interval, of the trials that compete. The \
               mean p99 is that of the trials' 99th percentiles; the percentile of all I/Os together is in \
               the data set's table of latencies."
            .to_owned(),
        bars: report.kinds.iter().map(|kind| bars(kind, &all)).collect(),
        columns: vec![
            ("kind", false),
            ("set-up", false),
            ("path", false),
            ("verified hosts", true),
            ("IOPS", true),
            ("mean us", true),
            ("mean p99 us", true),
            ("CPU us/IO", true),
            ("uJ/IO", true),
        ],
        rows,
    }
}

/// All paths; the place of each is its colour in every figure.
fn paths(report: &FleetReport) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    let workloads = report.kinds.iter().flat_map(|kind| &kind.workloads);
    for path in workloads.flat_map(|one| &one.paths) {
        if !all.contains(&path.path.as_str()) {
            all.push(&path.path);
        }
    }
    all
}

/// What an I/O takes, by path, for each set-up of a kind.
fn bars(kind: &KindReport, paths: &[&str]) -> BarGroup {
    let latency: fn(&PathFigures) -> Option<Mean> = |path| path.latency_ns;
    let cpu: fn(&PathFigures) -> Option<Mean> = |path| path.cpu_ns_per_io;
    let of =
        [(latency, "mean latency", "latency in us", 1), (cpu, "CPU time", "CPU time in us for each I/O", 2)];
    let mut figures = Vec::new();
    for one in &kind.workloads {
        for (value, what, axis, decimals) in of {
            let bar = |path: &PathFigures| {
                let Mean { mean, interval } = value(path)?;
                Some(PathBar {
                    label: path.path.clone(),
                    series: paths.iter().position(|other| *other == path.path)?,
                    value: mean / 1e3,
                    interval: interval.map(|(low, high)| (low / 1e3, high / 1e3)),
                    text: format!("{:.decimals$}", mean / 1e3),
                })
            };
            let bars = one.paths.iter().filter_map(bar).collect();
            figures.push(BarFigure {
                caption: format!("{}: {what}", one.setup),
                axis: axis.to_owned(),
                bars,
            });
        }
    }
    BarGroup { heading: title(kind), figures }
}

fn outliers(report: &FleetReport) -> TableSection {
    let all = report.kinds.iter().flat_map(|kind| kind.outliers.iter().map(move |one| (kind, one)));
    let rows: Vec<Vec<String>> = all
        .map(|(kind, one)| vec![title(kind), one.host.clone(), off(one.of_kind, one.deviations)])
        .collect();
    let lead = match rows.len() {
        0 => "No host is far from the others of its kind.".to_owned(),
        count => format!("{count} hosts are far from the others of their kind."),
    };
    TableSection {
        id: "outliers",
        heading: "Outliers".to_owned(),
        lead: vec![lead],
        note: "A host's latency over the median of its kind, the median over set-ups and paths; far is more \
               than 3.5 robust standard deviations (1.4826 MAD) and 5 % from the middle. Kinds of fewer \
               than 5 hosts have no outliers."
            .to_owned(),
        bars: Vec::new(),
        columns: vec![("kind", false), ("host", false), ("how far", false)],
        rows,
    }
}

fn drift(report: &FleetReport) -> TableSection {
    let known = report.kinds.iter().filter_map(|kind| Some((kind, kind.drift.as_ref()?)));
    let rows: Vec<Vec<String>> =
        known.clone().map(|(kind, drift)| vec![title(kind), drift_words(drift)]).collect();
    let shown = known.filter(|(_, drift)| drift.p < LEVEL).count();
    TableSection {
        id: "drift",
        heading: "Drift over months".to_owned(),
        lead: vec![format!("Latency drifts on {shown} of {} kinds of machines.", report.kinds.len())],
        note:
            "The slope of a straight line through each host's mean latency over time, relative to it, mean \
               over set-ups and paths, then over hosts; hosts of three stores or more. P-values are \
               corrected by Holm over all kinds."
                .to_owned(),
        bars: Vec::new(),
        columns: vec![("kind", false), ("what a month changes", false)],
        rows,
    }
}

fn kinds(report: &FleetReport) -> TableSection {
    let share = |part: u64, kind: &KindReport| percent(part as f64 / kind.trials.max(1) as f64);
    let row = |kind: &KindReport| {
        vec![
            kind.machine.clone(),
            kind.drive.clone(),
            kind.kernel.clone(),
            kind.hosts.to_string(),
            kind.stores.to_string(),
            kind.trials.to_string(),
            share(kind.refuted, kind),
            share(kind.failed, kind),
        ]
    };
    TableSection {
        id: "kinds",
        heading: "Kinds of machines".to_owned(),
        lead: Vec::new(),
        note: "A trial is refuted if the evidence shows another path than the one that was asked for."
            .to_owned(),
        bars: Vec::new(),
        columns: vec![
            ("machine", false),
            ("drive", false),
            ("kernel", false),
            ("hosts", true),
            ("stores", true),
            ("trials", true),
            ("refuted", true),
            ("failed", true),
        ],
        rows: report.kinds.iter().map(row).collect(),
    }
}
