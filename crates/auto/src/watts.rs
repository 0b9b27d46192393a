//! What time and CPU time draw, as a policy's figures have it: energy is seldom measured while an engine
//! runs, but these are.

use crate::key::{Band, Kind};
use crate::policy::{Aim, Cell, Figures, Policy};
use crate::way::Way;

/// Figures that are needed at least.
const LEAST: usize = 6;

/// Joules of a nanosecond, of a nanosecond of CPU time, and of a wake-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Watts {
    of_time: f64,
    of_cpu: f64,
    of_wake: f64,
}

/// Time, CPU time and wake-ups.
const PARTS: usize = 3;

/// What a busy processor usually draws over what an idle machine does, and the ns of a busy processor that a
/// wake-up draws; each with the deviation of its logarithm.
const USUAL: [(f64, f64); PARTS - 1] = [(0.1, 1.5), (2e3, 1.5)];
/// Steps after which what is found changes no more.
const STEPS: usize = 30;

/// What an I/O takes on a way, and what it draws.
struct Row {
    way: Way,
    kind: Kind,
    band: usize,
    parts: [f64; PARTS],
    joules: f64,
}

impl Row {
    fn of(cell: &Cell, figures: &Figures) -> Option<Row> {
        let (mean_ns, cpu_ns, joules) = (figures.mean_ns?, figures.cpu_ns?, figures.joules?);
        let (way, time_ns) = (figures.way, mean_ns / f64::from(cell.in_flight));
        let (time_ns, cpu_ns) = consistent(way, time_ns, cpu_ns);
        let parts = [time_ns, cpu_ns, wakes(way, cell.in_flight)];
        let band = Band::of(cell.in_flight).index();
        let is_some = joules > 0.0 && parts[0] > 0.0;
        is_some.then_some(Row { way, kind: cell.kind(), band, parts, joules })
    }
}

impl Watts {
    /// Those that explain a policy's joules best. `None` for another aim, or where too few figures are
    /// complete.
    ///
    /// Least squares of the logarithms, for figures err by factors. They err in what is explained as in what
    /// explains it, so each row is weighed by figures that err otherwise (instrumental variables: Wald,
    /// Annals of Mathematical Statistics 11:3, 1940): else wake-ups, of which the number is known, would seem
    /// to draw what belongs to figures that err. What the figures leave open is held to be as usual, the more
    /// so the more they scatter.
    pub(crate) fn of(policy: &Policy) -> Option<Watts> {
        if policy.aim != Aim::IosPerJoule {
            return None;
        }
        let figures = policy.cells.iter().flat_map(|cell| cell.ways.iter().map(move |one| (cell, one)));
        let rows: Vec<Row> = figures.filter_map(|(cell, one)| Row::of(cell, one)).collect();
        if rows.len() < LEAST {
            return None;
        }
        let of_all: f64 = rows.iter().map(|row| (row.joules / row.parts[0]).ln()).sum();
        let mut logs = [of_all / rows.len() as f64; PARTS];
        for (part, (usual, _)) in USUAL.into_iter().enumerate() {
            logs[part + 1] = logs[part] + usual.ln();
        }
        let next: Vec<Vec<usize>> = rows.iter().map(|row| neighbours(row, &rows)).collect();
        for _ in 0..STEPS {
            logs = step(&rows, &next, logs);
        }
        let [of_time, of_cpu, of_wake] = logs.map(f64::exp);
        Some(Watts { of_time, of_cpu, of_wake })
    }

    /// What an I/O draws with so many in flight.
    pub(crate) fn joules(&self, time_ns: f64, cpu_ns: f64, way: Way, in_flight: u32) -> f64 {
        self.of_time * time_ns + self.of_cpu * cpu_ns + self.of_wake * wakes(way, in_flight)
    }

    /// What a processor that works draws in so many ns.
    pub(crate) fn of_cpu(&self, cpu_ns: f64) -> f64 {
        self.of_cpu * cpu_ns
    }
}

/// A way that spins is busy all the time, so that its figures say the same twice.
fn consistent(way: Way, time_ns: f64, cpu_ns: f64) -> (f64, f64) {
    let processors = way.busy_processors();
    let mean_ns = (time_ns * cpu_ns / processors).sqrt();
    if way.spins() { (mean_ns, mean_ns * processors) } else { (time_ns, cpu_ns) }
}

/// Wake-ups of an I/O: one finds about half of the others in flight complete.
fn wakes(way: Way, in_flight: u32) -> f64 {
    if way.spins() { 0.0 } else { 2.0 / f64::from(in_flight + 1) }
}

/// The figures of the same way at the next depths.
fn neighbours(row: &Row, rows: &[Row]) -> Vec<usize> {
    let is_next =
        |other: &Row| (other.way, other.kind) == (row.way, row.kind) && other.band.abs_diff(row.band) == 1;
    (0..rows.len()).filter(|at| is_next(&rows[*at])).collect()
}

/// How much a row counts for each part: by what the part draws of its neighbours' figures, whose errors are
/// others; by the row itself where there are none.
fn weights(own: [f64; PARTS], next: &[usize], shares: &[[f64; PARTS]]) -> [f64; PARTS] {
    match next.len() {
        0 => own,
        count => {
            std::array::from_fn(|part| next.iter().map(|at| shares[*at][part]).sum::<f64>() / count as f64)
        }
    }
}

/// One step of Gauss and Newton for the logarithms of what the parts draw.
fn step(rows: &[Row], next: &[Vec<usize>], logs: [f64; PARTS]) -> [f64; PARTS] {
    let (mut lines, mut squares) = ([[0.0; PARTS + 1]; PARTS], 0.0);
    let draws = logs.map(f64::exp);
    let drawn = |row: &Row| -> f64 { (0..PARTS).map(|part| draws[part] * row.parts[part]).sum() };
    let share = |row: &Row| -> [f64; PARTS] {
        let drawn = drawn(row);
        std::array::from_fn(|part| draws[part] * row.parts[part] / drawn)
    };
    let shares: Vec<[f64; PARTS]> = rows.iter().map(share).collect();
    for (at, row) in rows.iter().enumerate() {
        let share = shares[at];
        let by = weights(share, &next[at], &shares);
        let over = (row.joules / drawn(row)).ln();
        squares += over * over;
        for line in 0..PARTS {
            for column in 0..PARTS {
                lines[line][column] += by[line] * share[column];
            }
            lines[line][PARTS] += by[line] * over;
        }
    }
    for (part, (usual, deviation)) in USUAL.into_iter().enumerate() {
        let weight = squares / rows.len() as f64 / deviation.powi(2);
        let over = usual.ln() - (logs[part + 1] - logs[part]);
        for (line, sign) in [(part, -1.0), (part + 1, 1.0)] {
            lines[line][part] -= sign * weight;
            lines[line][part + 1] += sign * weight;
            lines[line][PARTS] += sign * weight * over;
        }
    }
    let determinant = |of: [[f64; PARTS]; PARTS]| {
        let [[a, b, c], [d, e, f], [g, h, i]] = of;
        a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
    };
    let matrix = lines.map(|[a, b, c, _]| [a, b, c]);
    let whole = determinant(matrix);
    std::array::from_fn(|part| {
        let mut with = matrix;
        (0..PARTS).for_each(|line| with[line][part] = lines[line][PARTS]);
        let change = determinant(with) / whole;
        logs[part] + if change.is_finite() { change.clamp(-1.0, 1.0) } else { 0.0 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Direction;

    fn policy(figures: &[(Way, f64, f64)], joules: impl Fn(f64, f64) -> f64) -> Policy {
        let ways = figures.iter().map(|(way, mean, cpu)| Figures {
            mean_ns: Some(*mean),
            cpu_ns: Some(*cpu),
            joules: Some(joules(*mean, *cpu)),
            ..Figures::unknown(*way)
        });
        let cell = Cell { op: Direction::Read, size: 4096, in_flight: 1, ways: ways.collect() };
        Policy { aim: Aim::IosPerJoule, cells: vec![cell], ..Policy::default() }
    }

    const FIGURES: [(Way, f64, f64); 6] = [
        (Way::Interrupt, 20e3, 5e3),
        (Way::Poll, 12e3, 12e3),
        (Way::Hybrid, 14e3, 7e3),
        (Way::Sqpoll, 13e3, 26e3),
        (Way::Sio, 19e3, 4e3),
        (Way::SleepPoll, 13e3, 6e3),
    ];

    fn is_near(found: f64, truth: f64, by: f64) -> bool {
        (found / truth).ln().abs() < by
    }

    #[test]
    fn what_draws_is_found_in_the_figures_of_a_policy() {
        let mut policy = policy(&FIGURES, |_, _| 0.0);
        for figures in &mut policy.cells[0].ways {
            let (mean, cpu) = (figures.mean_ns.unwrap(), figures.cpu_ns.unwrap());
            figures.joules = Some(1e-9 * (20.0 * mean + 5.0 * cpu) + 20e-6 * wakes(figures.way, 1));
        }
        let watts = Watts::of(&policy).unwrap();
        for (found, truth) in [(watts.of_time, 20e-9), (watts.of_cpu, 5e-9), (watts.of_wake, 20e-6)] {
            assert!(is_near(found, truth, 1e-3), "{watts:?}");
        }
        assert!(is_near(watts.joules(10e3, 3e3, Way::Interrupt, 1), 235e-6, 1e-3));
        assert!(is_near(watts.of_cpu(2e9), 10.0, 1e-3));
    }

    #[test]
    fn figures_that_err_tell_ways_apart() {
        let (mut found, mut seed) = (Vec::new(), 1u64);
        let mut err = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            0.5 + (seed >> 11) as f64 / (1u64 << 53) as f64
        };
        for _ in 0..20 {
            let mut cells = Vec::new();
            for (size, in_flight) in (0..32).map(|at| (512 << (at / 8), 1 << (at % 8))) {
                let figures = |(way, mean, cpu): &(Way, f64, f64)| {
                    let mean = mean * f64::from(in_flight).sqrt();
                    let time = mean / f64::from(in_flight);
                    let cpu = if way.spins() { time * way.busy_processors() } else { cpu.min(time) };
                    let joules = 1e-9 * (70.0 * time + 5.0 * cpu) + 2e-6 * wakes(*way, in_flight);
                    let [mean_ns, cpu_ns, joules] = [mean, cpu, joules].map(|value| Some(value * err()));
                    Figures { mean_ns, cpu_ns, joules, ..Figures::unknown(*way) }
                };
                let ways = FIGURES.iter().map(figures).collect();
                cells.push(Cell { op: Direction::Read, size, in_flight, ways });
            }
            let watts = Watts::of(&Policy { aim: Aim::IosPerJoule, cells, ..Policy::default() }).unwrap();
            let ratio = |way: [Way; 2], [one, other]: [(f64, f64); 2]| {
                watts.joules(one.0, one.1, way[0], 1) / watts.joules(other.0, other.1, way[1], 1)
            };
            found.push(ratio([Way::Poll, Way::Interrupt], [(90e3, 90e3), (100e3, 5e3)]));
        }
        // The truth is 6750 over 7027 uJ.
        let mean = found.iter().sum::<f64>() / found.len() as f64;
        assert!(is_near(mean, 6750.0 / 7027.0, 0.04), "{found:?}");
        assert!(found.iter().all(|one| is_near(*one, 6750.0 / 7027.0, 0.2)), "{found:?}");
    }

    #[test]
    fn what_the_figures_leave_open_is_as_usual_and_few_figures_say_nothing() {
        let joules = |mean, _| 1e-9 * mean;
        let spinning = [(Way::Poll, 12e3, 12e3); 6];
        let watts = Watts::of(&policy(&spinning, joules)).unwrap();
        let usual = [watts.of_cpu / watts.of_time, watts.of_wake / watts.of_cpu];
        assert!(is_near(usual[0], USUAL[0].0, 0.1) && is_near(usual[1], USUAL[1].0, 0.1), "{watts:?}");
        let watts = Watts::of(&policy(&FIGURES, |mean, cpu| 1e-9 * (20.0 * mean - 0.5 * cpu))).unwrap();
        assert!(watts.of_cpu > 0.0 && watts.of_cpu < 0.1 * watts.of_time, "{watts:?}");
        assert_eq!(Watts::of(&policy(&FIGURES[..5], joules)), None);
        assert_eq!(Watts::of(&Policy { aim: Aim::Cpu, ..policy(&FIGURES, joules) }), None);
    }
}
