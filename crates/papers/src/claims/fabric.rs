//! The claims of *When NVMe over Fabrics Meets Arm*: one drive, local and remote.

mod figures;
mod sets;

use super::comparison::{Against, Comparison, Relation};
use super::data::{ClaimCell, Shape, TrialSet};
use super::metrics::{ClaimMetric, INTERRUPTS};
use super::parts::DerivedFigures;
use super::question::Question;
use super::{BASE, Definition};
use crate::published::{self, Sweep};
use figures::{
    HOST_BUSY, HOST_CPU, HOST_INTERRUPTS, MB_PER_S, MEAN_LATENCY, OTHER_KIND, P20, P50, P80, P95, SYSTEM,
    TARGET_BUSY, TARGET_CPU, TARGET_INTERRUPTS,
};
use iopj_analysis::grouping::unique;
use iopj_core::{Rw, Transport};
use iopj_record::Trial;
use sets::{is_here, is_local, is_moderated, is_remote, transport};

/// What is missing where no trial reached a drive over a wire.
const DRIVE: &str =
    "one drive local and over fabrics: [fabric] in the study, with transport local and tcp or rdma";

/// What to know about `local`.
const LOCAL_NOTE: &str = "local is the drive used by the target host's own iopj, where the paper's was in \
                          the x86 host: latencies and bandwidths are compared between the two hosts as they \
                          are. With transport here, a drive of the host itself, that is the local one. \
                          Write your hosts and drive into the study's [fabric].";

/// Its claims, in their order.
pub(super) const DEFINITIONS: &[Definition] = &[
    Definition {
        id: "fabric-1",
        text: "Sequential reads over growing request size: at 128 KiB the remote p95 is that of local \
               access; remote bandwidth stays within 20 % of it; target CPU falls as requests grow; host CPU \
               is least at 64 KiB and more at 128 KiB.",
        needs: &["one drive local and over fabrics", "read 4k to 128k, numjobs 8", "CPU of both hosts"],
        note: Some(LOCAL_NOTE),
        sets: sets::at_each_depth,
        parts: over_size,
        run: |_| "iopj run studies/fabric.toml --numjobs 8".to_owned(),
        published: &published::FABRIC_1_PRINTED,
        ..BASE
    },
    Definition {
        id: "fabric-2",
        text: "More processes: bandwidth peaks at four and stays; at sixteen the remote p95 is below the \
               local one.",
        needs: &["one drive local and over fabrics", "read 4k, numjobs 1 to 16"],
        note: Some(LOCAL_NOTE),
        sets: sets::at_each_depth,
        parts: over_processes,
        run: |_| "iopj run studies/fabric.toml --bs 4k".to_owned(),
        published: &published::FABRIC_2_PRINTED,
        ..BASE
    },
    Definition {
        id: "fabric-3",
        text: "Small random writes cost the remote host far more CPU than local access, mostly in the \
               kernel, at equal bandwidth.",
        needs: &["one drive local and over fabrics", "randwrite 4k, numjobs 8", "host CPU by kind"],
        note: Some(
            "local is done by the target host, so its CPU is compared only where both hosts have the same \
             processor; here is done by the host, and is compared always. The paper's figures count iowait, \
             which is idle time. Write your hosts and drive into the study's [fabric].",
        ),
        sets: sets::at_each_depth,
        parts: writes,
        run: |_| "iopj run studies/fabric-writes.toml --bs 4k --destroy-data HOST:DEVICE".to_owned(),
        ..BASE
    },
    Definition {
        id: "fabric-4",
        text: "On one target core with interrupt moderation: remote bandwidth dips between depth 4 and 16 \
               (target CPU is the limit); interrupts per I/O fall with depth while local stays at one; from \
               depth 64 on the remote p80 is below the local one at the same depth; at 128 remote \
               throughput is above, and CPU below, that at 32.",
        needs: &[
            "one drive local and over fabrics, one target core",
            "read 4k, iodepth 1 to 128",
            "interrupts of both hosts",
        ],
        note: Some(
            "Of local trials those with the most cores online are compared: on one core a local generator \
             shares it with the drive's interrupts, which the paper's did not. The paper never switched \
             moderation off. Write your hosts and drive into the study's [fabric].",
        ),
        sets: sets::over_depth,
        parts: over_depth,
        run: |_| "iopj run studies/fabric-depth.toml".to_owned(),
        published: &published::FABRIC_4_PRINTED,
        ..BASE
    },
];

/// A cell at a point of a sweep.
struct Point<'a> {
    cell: ClaimCell<'a>,
    is_local: bool,
    at: u32,
}

/// One drive, local and remote, at the points of a sweep.
struct Drive<'d, 'a> {
    data: &'d TrialSet<'a>,
    first: &'a Trial,
    wire: Transport,
    sweep: Sweep,
}

impl<'d, 'a> Drive<'d, 'a> {
    /// `None` if no trial of the set reached the drive over a wire.
    fn of(data: &'d TrialSet<'a>, sweep: Sweep) -> Option<Drive<'d, 'a>> {
        let first = data.trials.iter().find(|trial| is_remote(trial))?;
        Some(Drive { data, first, wire: transport(first)?, sweep })
    }

    /// The workload at a point of the sweep.
    fn shape(&self, at: u32) -> Shape {
        let Shape { iodepth, .. } = Shape::of(&self.first.workload);
        match self.sweep {
            Sweep::Size => Shape { rw: Rw::Read, bs: 1024 * at, iodepth, numjobs: 8 },
            Sweep::Processes => Shape { iodepth, numjobs: at, ..Shape::of_4k(Rw::Read) },
            Sweep::Writes => Shape { rw: Rw::Randwrite, bs: 1024 * at, iodepth, numjobs: 8 },
            Sweep::Depth => Shape { iodepth: at, ..Shape::of_4k(Rw::Read) },
        }
    }

    /// A point of the sweep in words.
    fn place(&self, at: u32) -> String {
        match self.sweep {
            Sweep::Size | Sweep::Writes => format!("{at}k"),
            Sweep::Processes => format!("numjobs {at}"),
            Sweep::Depth => format!("iodepth {at}"),
        }
    }

    fn point(&self, at: u32, words: [&str; 2], belongs: impl Fn(&Trial) -> bool) -> Point<'a> {
        let [name, route] = words;
        let is_local = [Transport::Local, Transport::Here].iter().any(|one| one.as_str() == name);
        let names = [name.to_owned(), format!("{} {route}", self.first.path)];
        let cell = self.data.cell_of((self.first.path, self.shape(at)), names, belongs);
        Point { cell, is_local, at }
    }

    fn local(&self, at: u32) -> Point<'a> {
        let name = if self.data.trials.iter().any(|trial| is_here(trial)) { "here" } else { "local" };
        self.point(at, [name, name], is_local)
    }

    fn remote(&self, at: u32) -> Point<'a> {
        let moderated = matches!(self.sweep, Sweep::Depth);
        let route = format!("over {}{}", self.wire, if moderated { " with moderation" } else { "" });
        let belongs = |trial: &Trial| is_remote(trial) && (!moderated || is_moderated(trial) == Some(true));
        self.point(at, [self.wire.as_str(), &route], belongs)
    }

    /// The remote drive while the network cards hold no interrupt back.
    fn unmoderated(&self, at: u32) -> Point<'a> {
        let (wire, route) = (self.wire.as_str(), format!("over {} without moderation", self.wire));
        let name = format!("{wire} without moderation");
        self.point(at, [&name, &route], |trial| is_remote(trial) && is_moderated(trial) == Some(false))
    }

    /// What the paper prints of a point.
    fn printed(&self, metric: ClaimMetric, point: &Point<'_>) -> Option<f64> {
        published::fabric(self.sweep, metric.name, point.at)[usize::from(point.is_local)]
    }

    /// A figure at one point compared with that at another.
    fn compare(
        &self,
        metric: ClaimMetric,
        mut one: Point<'a>,
        relation: Relation,
        mut other: Point<'a>,
    ) -> Question<'a> {
        let published = [&one, &other].map(|point| self.printed(metric, point));
        if one.at != other.at {
            for point in [&mut one, &mut other] {
                point.cell.name = format!("{} at {}", point.cell.name, self.place(point.at));
            }
        }
        let against = Against::Cell(other.cell);
        Question::Compare(Comparison { metric, cell: one.cell, relation, against, published })
    }

    /// The remote drive at one point and at another.
    fn between(&self, metric: ClaimMetric, one: u32, relation: Relation, other: u32) -> Question<'a> {
        self.compare(metric, self.remote(one), relation, self.remote(other))
    }

    /// The remote drive against the local one.
    fn against_local(&self, metric: ClaimMetric, relation: Relation, at: u32) -> Question<'a> {
        self.compare(metric, self.remote(at), relation, self.local(at))
    }
}

fn apart(question: Question<'_>) -> Question<'_> {
    Question::Apart(Box::new(question))
}

/// The part of a claim to which no trial fits.
fn without_a_drive<'a>(text: &str, more: &str) -> Vec<Question<'a>> {
    vec![Question::missing_for(text, "", format!("{DRIVE}{more}"))]
}

fn over_size<'a>(data: &TrialSet<'a>) -> Vec<Question<'a>> {
    let Some(drive) = Drive::of(data, Sweep::Size) else {
        return without_a_drive("sequential reads over request size, remote and local", "");
    };
    let mut questions = vec![drive.against_local(P95, Relation::Equal(0.05), 128)];
    let sizes = [4, 8, 16, 32, 64, 128];
    questions.extend(sizes.map(|size| drive.against_local(MB_PER_S, Relation::NotLess(0.2), size)));
    questions.push(drive.between(TARGET_CPU, 128, Relation::Less, 4));
    questions.push(drive.between(HOST_CPU, 128, Relation::More, 64));
    questions.push(apart(drive.between(TARGET_BUSY, 128, Relation::Less, 4)));
    questions.push(apart(drive.between(HOST_BUSY, 128, Relation::More, 64)));
    questions.push(apart(drive.between(MB_PER_S, 128, Relation::More, 4)));
    questions
}

fn over_processes<'a>(data: &TrialSet<'a>) -> Vec<Question<'a>> {
    let Some(drive) = Drive::of(data, Sweep::Processes) else {
        return without_a_drive("reads over processes, remote and local", "");
    };
    vec![
        drive.between(MB_PER_S, 8, Relation::Equal(0.05), 4),
        drive.between(MB_PER_S, 16, Relation::Equal(0.05), 4),
        drive.against_local(P95, Relation::Less, 16),
        apart(drive.against_local(P20, Relation::More, 16)),
        apart(drive.between(TARGET_CPU, 16, Relation::More, 1)),
        apart(drive.between(HOST_CPU, 16, Relation::More, 1)),
    ]
}

fn writes<'a>(data: &TrialSet<'a>) -> Vec<Question<'a>> {
    let Some(drive) = Drive::of(data, Sweep::Writes) else {
        return without_a_drive("random writes, remote and local", "");
    };
    vec![
        twice(&drive, HOST_CPU),
        twice(&drive, HOST_BUSY),
        system_is_largest(&drive),
        drive.against_local(MB_PER_S, Relation::Equal(0.1), 4),
        apart(drive.against_local(MB_PER_S, Relation::Equal(0.1), 128)),
        apart(drive.against_local(P95, Relation::More, 128)),
        apart(drive.against_local(MEAN_LATENCY, Relation::Less, 128)),
    ]
}

/// Host CPU of small writes at least twice that of local ones, where the hosts' processors allow it.
fn twice<'a>(drive: &Drive<'_, 'a>, metric: ClaimMetric) -> Question<'a> {
    let (remote, local) = (drive.remote(4), drive.local(4));
    let published = [&remote, &local].map(|point| drive.printed(metric, point));
    let at = remote.cell.place();
    let comparison = Comparison {
        metric,
        cell: remote.cell,
        relation: Relation::NotLess(0.0),
        against: Against::Share(2.0, local.cell),
        published,
    };
    if drive.data.machine.unlike_hosts && !drive.data.trials.iter().any(|trial| is_here(trial)) {
        let need = "two hosts with the same processor and as many cores, because local is done by the target \
                    host, or transport here, a drive of the host itself";
        return Question::missing_for(comparison.text(), at, need.to_owned());
    }
    Question::Compare(comparison)
}

fn system_is_largest<'a>(drive: &Drive<'_, 'a>) -> Question<'a> {
    let cell = drive.remote(4).cell;
    let printed = |kind: &str| published::fabric(Sweep::Writes, kind, 4)[0];
    let missing = [SYSTEM, OTHER_KIND].into_iter().filter_map(|metric| cell.lacks(metric, 1));
    Question::DerivedFigures(DerivedFigures {
        text: format!("CPU of the host by kind: {}, system more than any other", cell.name),
        at: cell.place(),
        relation: Relation::More,
        plan: drive.data.machine.plan(false, 1),
        samples: [SYSTEM, OTHER_KIND].map(|metric| cell.sample(metric)),
        names: [("system".to_owned(), printed("system")), ("next".to_owned(), printed("iowait"))],
        unit: SYSTEM.unit,
        missing: unique(missing),
        cells: vec![cell],
    })
}

/// The depths of the fourth sweep.
const DEPTHS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// A core that is busy within this share of all of its time is the limit, and interrupts within this share of
/// one per I/O are one.
const NEAR: f64 = 0.1;

fn over_depth<'a>(data: &TrialSet<'a>) -> Vec<Question<'a>> {
    let Some(drive) = Drive::of(data, Sweep::Depth) else {
        return without_a_drive("reads over depth, remote and local", ", and target.cpus_online = 1");
    };
    let mut questions = vec![drive.between(MB_PER_S, 16, Relation::Less, 4)];
    questions.extend(
        [TARGET_INTERRUPTS, HOST_INTERRUPTS].map(|metric| drive.between(metric, 128, Relation::Less, 1)),
    );
    questions.extend(DEPTHS.map(|depth| one_each(drive.local(depth))));
    // Remote against local.
    questions.extend([64, 128].map(|depth| drive.against_local(P80, Relation::Less, depth)));
    // Depth 128 against 32.
    questions.push(drive.between(MB_PER_S, 128, Relation::More, 32));
    questions.push(drive.between(TARGET_CPU, 128, Relation::Less, 32));
    // Moderation on against off at equal depth.
    for depth in [64, 128] {
        let on_off = [(TARGET_INTERRUPTS, Relation::Less), (MB_PER_S, Relation::More), (P95, Relation::Less)];
        questions.extend(on_off.map(|(metric, relation)| {
            drive.compare(metric, drive.remote(depth), relation, drive.unmoderated(depth))
        }));
    }
    questions.extend(depth_apart(&drive).into_iter().map(apart));
    questions
}

/// What the paper finds besides, on depth.
fn depth_apart<'a>(drive: &Drive<'_, 'a>) -> Vec<Question<'a>> {
    let busy = drive.remote(16).cell;
    let limit = Comparison {
        metric: TARGET_BUSY,
        cell: busy,
        relation: Relation::Equal(NEAR),
        against: Against::Number(100.0),
        published: [None; 2],
    };
    vec![
        Question::Compare(limit),
        drive.between(TARGET_BUSY, 128, Relation::Less, 32),
        drive.between(HOST_CPU, 128, Relation::Less, 32),
        drive.against_local(P95, Relation::Equal(0.05), 1),
        drive.against_local(P50, Relation::More, 8),
        drive.against_local(P95, Relation::More, 8),
        drive.against_local(P80, Relation::More, 16),
    ]
}

/// One interrupt of the drive for each I/O.
fn one_each(local: Point<'_>) -> Question<'_> {
    Question::Compare(Comparison {
        metric: INTERRUPTS,
        cell: local.cell,
        relation: Relation::Equal(NEAR),
        against: Against::Number(1.0),
        published: [None; 2],
    })
}
