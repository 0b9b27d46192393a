//! What time and CPU time draw, as a policy's figures have it: no energy is measured while an engine runs,
//! but these are.

use crate::policy::{Aim, Policy};
use crate::way::Way;

/// Figures that are needed at least.
const LEAST: usize = 6;
/// For how long a processor that works draws what a wake-up does, in ns: one of these.
const WAKES_NS: [f64; 6] = [0.0, 1e3, 2e3, 4e3, 8e3, 16e3];

/// Joules of a nanosecond, and of a nanosecond of CPU time; and of how much CPU time a wake-up draws as much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Watts {
    of_time: f64,
    of_cpu: f64,
    wake_ns: f64,
}

/// What draws joules.
struct Drawn {
    time_ns: f64,
    cpu_ns: f64,
    wakes: f64,
}

impl Watts {
    /// Those that explain a policy's joules best, by least squares of relative errors; none is negative.
    /// `None` for another aim, or where too few figures are complete.
    pub(crate) fn of(policy: &Policy) -> Option<Watts> {
        let mut rows = Vec::new();
        for cell in policy.cells.iter().filter(|_| policy.aim == Aim::IosPerJoule) {
            for figures in &cell.ways {
                if let (Some(mean_ns), Some(cpu_ns), Some(joules)) =
                    (figures.mean_ns, figures.cpu_ns, figures.joules)
                    && joules > 0.0
                {
                    let time_ns = mean_ns / f64::from(cell.in_flight);
                    let (time_ns, cpu_ns) = consistent(figures.way, time_ns, cpu_ns);
                    let wakes = wakes(figures.way, cell.in_flight);
                    let by = joules.recip();
                    rows.push(Drawn { time_ns: by * time_ns, cpu_ns: by * cpu_ns, wakes: by * wakes });
                }
            }
        }
        if rows.len() < LEAST {
            return None;
        }
        let fits = WAKES_NS.into_iter().filter_map(|wake_ns| fit(&rows, wake_ns));
        fits.min_by(|one, other| one.misfit(&rows).total_cmp(&other.misfit(&rows)))
    }

    /// What an I/O draws with so many in flight.
    pub(crate) fn joules(&self, time_ns: f64, cpu_ns: f64, way: Way, in_flight: u32) -> f64 {
        self.sum(&Drawn { time_ns, cpu_ns, wakes: wakes(way, in_flight) })
    }

    /// What a processor that works draws in so many ns.
    pub(crate) fn of_cpu(&self, cpu_ns: f64) -> f64 {
        self.of_cpu * cpu_ns
    }

    fn sum(&self, drawn: &Drawn) -> f64 {
        self.of_time * drawn.time_ns + self.of_cpu * (drawn.cpu_ns + self.wake_ns * drawn.wakes)
    }

    fn misfit(&self, rows: &[Drawn]) -> f64 {
        rows.iter().map(|row| (self.sum(row) - 1.0).powi(2)).sum()
    }
}

/// A way that spins is busy all the time, so that its figures say the same twice.
fn consistent(way: Way, time_ns: f64, cpu_ns: f64) -> (f64, f64) {
    let processors = way.busy_processors();
    let mean_ns = 0.5 * (time_ns + cpu_ns / processors);
    if way.spins() { (mean_ns, mean_ns * processors) } else { (time_ns, cpu_ns) }
}

/// Wake-ups of an I/O: one finds about half of the others in flight complete.
fn wakes(way: Way, in_flight: u32) -> f64 {
    if way.spins() { 0.0 } else { 2.0 / f64::from(in_flight + 1) }
}

/// Factors by which each row adds up to 1, as nearly as it can be: the normal equations. Where one would be
/// negative, it is 0, and the other is found alone.
fn fit(rows: &[Drawn], wake_ns: f64) -> Option<Watts> {
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        rows.iter().map(|row| of(row.time_ns, row.cpu_ns + wake_ns * row.wakes)).sum()
    };
    let (time, cpu) = (sum(&|time, _| time), sum(&|_, cpu| cpu));
    let (time2, cpu2, both) =
        (sum(&|time, _| time * time), sum(&|_, cpu| cpu * cpu), sum(&|time, cpu| time * cpu));
    let single = time2 * cpu2 - both * both;
    if time2 <= 0.0 || cpu2 <= 0.0 || single <= 1e-9 * time2 * cpu2 {
        return None;
    }
    let of_time = (time * cpu2 - cpu * both) / single;
    let of_cpu = (cpu * time2 - time * both) / single;
    Some(match (of_time > 0.0, of_cpu > 0.0) {
        (true, true) => Watts { of_time, of_cpu, wake_ns },
        (true, false) => Watts { of_time: time / time2, of_cpu: 0.0, wake_ns },
        (false, _) => Watts { of_time: 0.0, of_cpu: cpu / cpu2, wake_ns },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Direction;
    use crate::policy::{Cell, Figures};

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

    #[test]
    fn what_draws_is_found_in_the_figures_of_a_policy() {
        let watts = Watts::of(&policy(&FIGURES, |mean, cpu| 1e-9 * (20.0 * mean + 5.0 * cpu))).unwrap();
        assert!((watts.of_time / 20e-9 - 1.0).abs() < 1e-6, "{watts:?}");
        assert!((watts.of_cpu / 5e-9 - 1.0).abs() < 1e-6, "{watts:?}");
        assert!((watts.joules(10e3, 3e3, Way::Interrupt, 1) / 215e-6 - 1.0).abs() < 1e-6);
        let with_wakes =
            |way: Way, mean, cpu| 1e-9 * (20.0 * mean + 5.0 * cpu) + if way.spins() { 0.0 } else { 20e-6 };
        let mut woken = policy(&FIGURES, |_, _| 0.0);
        for figures in &mut woken.cells[0].ways {
            let (mean, cpu) = (figures.mean_ns.unwrap(), figures.cpu_ns.unwrap());
            figures.joules = Some(with_wakes(figures.way, mean, cpu));
        }
        let watts = Watts::of(&woken).unwrap();
        assert_eq!(watts.wake_ns, 4e3);
        assert!((watts.of_time / 20e-9 - 1.0).abs() < 1e-6, "{watts:?}");
        assert!((watts.of_cpu(2e9) - 10.0).abs() < 1e-6);
    }

    #[test]
    fn nothing_draws_less_than_nothing_and_few_figures_say_nothing() {
        let watts = Watts::of(&policy(&FIGURES, |mean, cpu| 1e-9 * (20.0 * mean - 0.5 * cpu))).unwrap();
        assert!(watts.of_cpu == 0.0 && watts.of_time > 0.0, "{watts:?}");
        let watts = Watts::of(&policy(&FIGURES, |mean, cpu| 1e-9 * (20.0 * cpu - 0.5 * mean))).unwrap();
        assert!(watts.of_time == 0.0 && watts.of_cpu > 0.0, "{watts:?}");
        let joules = |mean, _| 1e-9 * mean;
        assert_eq!(Watts::of(&policy(&FIGURES[..5], joules)), None);
        assert_eq!(Watts::of(&Policy { aim: Aim::Cpu, ..policy(&FIGURES, joules) }), None);
        let spinning = [(Way::Poll, 12e3, 12e3); 6];
        assert_eq!(Watts::of(&policy(&spinning, joules)), None, "what cannot be told apart");
    }
}
