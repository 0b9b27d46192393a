//! The policy of a cost model: the ways of each operation, size and depth that it was calibrated by, in the
//! order of what they are chosen for.

use anyhow::anyhow;
use iopj_auto::{Aim, Band, Cell, Direction, Figures, Kind, Policy, PolicyError, Provenance, Way};
use iopj_core::workload::Rw;
use iopj_model::{Case, Model, Quantity};
use std::collections::{BTreeMap, BTreeSet};

/// The policy of a model.
///
/// # Errors
/// No way that can be chosen was measured; or nothing that decides about the aim was.
pub(crate) fn derive(model: &Model, aim: Aim, bound_p99_ns: Option<u64>) -> anyhow::Result<Policy> {
    let cells: Vec<Cell> = requests(model)
        .into_iter()
        .map(|(kind, in_flight)| cell(model, aim, bound_p99_ns, kind, in_flight))
        .filter(|cell| !cell.ways.is_empty())
        .collect();
    if cells.is_empty() {
        return Err(anyhow!(
            "the model knows no way that can be chosen: calibrate it by a store with {}",
            Way::ALL.map(|way| way.to_string()).join(", ")
        ));
    }
    let policy =
        Policy { aim, bound_p99_ns, provenance: Some(provenance(model)), cells, ..Policy::default() };
    policy.check().map_err(|error| match error {
        PolicyError::NoJoules => anyhow!("{error}"),
        other => anyhow!("the policy of this model cannot be written: {other}"),
    })?;
    Ok(policy)
}

/// Operations with sizes, and the bands of requests in flight, between the least and the most that calibrated
/// the model.
fn requests(model: &Model) -> Vec<(Kind, u32)> {
    let mut most: BTreeMap<Kind, u32> = BTreeMap::new();
    for case in &model.cases {
        let directions = [(Direction::Read, case.rw.reads()), (Direction::Write, case.rw.writes())];
        for (direction, _) in directions.into_iter().filter(|(_, is_done)| *is_done) {
            let deepest = most.entry(Kind::new(direction, case.bs)).or_default();
            *deepest = case.depth().max(*deepest);
        }
    }
    let bands = |deepest: u32| (0..8).map(|power| 1_u32 << power).take_while(move |least| *least <= deepest);
    most.into_iter().flat_map(|(kind, deepest)| bands(deepest).map(move |least| (kind, least))).collect()
}

/// The ways of one kind of request, with so many in flight: those within the bound first, then by the aim.
fn cell(model: &Model, aim: Aim, bound: Option<u64>, kind: Kind, in_flight: u32) -> Cell {
    let measured: BTreeSet<_> = model.paths();
    let known = |way: &Way| {
        // This process's own sleep before polling is no path that a study measures.
        *way != Way::SleepPoll && measured.contains(&way.path()) && (*way != Way::Sio || in_flight == 1)
    };
    let ways = Way::ALL.into_iter().filter(known).filter_map(|way| figures(model, way, kind, in_flight));
    let mut ways: Vec<Figures> = ways.collect();
    let key = |figures: &Figures| {
        let is_beyond = bound.zip(figures.p99_ns).is_some_and(|(bound, p99)| p99 > bound as f64);
        let by = match aim {
            Aim::Latency => figures.mean_ns,
            Aim::Cpu => figures.cpu_ns,
            Aim::IosPerJoule => figures.joules,
        };
        // Beyond the bound the fastest is the next best.
        (is_beyond, if is_beyond { figures.p99_ns } else { by }.unwrap_or(f64::INFINITY))
    };
    ways.sort_by(|a, b| {
        let ((a_beyond, a), (b_beyond, b)) = (key(a), key(b));
        a_beyond.cmp(&b_beyond).then(a.total_cmp(&b))
    });
    Cell { op: kind.direction(), size: kind.most_bytes(), in_flight: Band::of(in_flight).least(), ways }
}

/// What a way is predicted to take, of one job; `None` without a latency.
fn figures(model: &Model, way: Way, kind: Kind, in_flight: u32) -> Option<Figures> {
    // Sizes of a class are up to its most: a model of 4 KiB answers for the class that ends there.
    let like = model.cases.iter().find(|case| {
        let is_done = match kind.direction() {
            Direction::Read => case.rw.reads(),
            Direction::Write => case.rw.writes(),
        };
        is_done && Kind::new(kind.direction(), case.bs) == kind
    })?;
    let rw = match (kind.direction(), like.rw.is_random()) {
        (Direction::Read, true) => Rw::Randread,
        (Direction::Read, false) => Rw::Read,
        (Direction::Write, true) => Rw::Randwrite,
        (Direction::Write, false) => Rw::Write,
    };
    let case = Case { path: way.path(), rw, iodepth: in_flight, numjobs: 1, ..*like };
    let of = |quantity| model.predict(&case, quantity).ok().map(|one| rounded(one.value));
    let joules = model.predict(&case, Quantity::IosPerJoule).ok().map(|one| 1.0 / one.value);
    Some(Figures {
        way,
        mean_ns: Some(of(Quantity::LatencyMean)?),
        p99_ns: of(Quantity::LatencyP99),
        cpu_ns: of(Quantity::CpuPerIo),
        joules,
    })
}

/// Whole ns: a policy is read by people.
fn rounded(ns: f64) -> f64 {
    ns.round()
}

/// Machine, kernel and drives of the store that calibrated the model.
fn provenance(model: &Model) -> Provenance {
    let fact = |name: &str| model.provenance.get(name).cloned().filter(|value| !value.is_empty());
    let drive = drives(&model.provenance);
    Provenance { store: fact("store"), cpu_model: fact("cpu_model"), kernel: fact("kernel"), drive }
}

/// The drives of a store's provenance, by their models.
pub(super) fn drives(provenance: &BTreeMap<String, String>) -> Option<String> {
    let fact = |name: &str| provenance.get(name).cloned().filter(|value| !value.is_empty());
    let named = |device: &str| fact(&format!("{device}.model")).unwrap_or_else(|| device.to_owned());
    Some(fact("devices")?.split(' ').map(named).collect::<Vec<_>>().join(", "))
}
