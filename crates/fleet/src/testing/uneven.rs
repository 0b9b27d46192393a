//! In what stores of a real fleet differ: how many trials they have, of which paths, with which settings, by
//! which generator, and whether a meter watched.

use crate::testing::host::Host;
use iopj_record::{Generator, Outcome, Trial};

/// What is special about a store.
#[derive(Default)]
pub struct Uneven {
    /// It has so many trials more of everything.
    pub more_replicates: u32,
    /// Its host does not say its name.
    pub is_nameless: bool,
    lacks_sqpoll: bool,
    lacks_meter: bool,
    /// One path in it is slower than elsewhere, and takes more.
    slow_path: Option<&'static str>,
    governor: Option<&'static str>,
    is_by_fio: bool,
}

impl Uneven {
    /// Of a host and month: nothing in an even fleet.
    pub fn of(host: Host, month: usize, is_uneven: bool) -> Uneven {
        let number = host.number;
        if !is_uneven {
            return Uneven::default();
        }
        Uneven {
            more_replicates: u32::from((number + month) % 4 == 1),
            is_nameless: number % 50 == 7,
            lacks_sqpoll: number % 5 == 2 && (month % 2 == 1 || host.machine == 1),
            lacks_meter: number % 9 == 4 && month >= 3,
            slow_path: ["io_uring/syscall/interrupt", "libaio/syscall/interrupt"].get(number % 7).copied(),
            governor: (number.is_multiple_of(3) && month == 4).then_some("powersave"),
            is_by_fio: number % 8 == 1 && month == 3,
        }
    }

    /// The trial as this store has it, if it has it.
    pub fn changed(&self, mut trial: Trial) -> Option<Trial> {
        let path = trial.path.to_string();
        if self.lacks_sqpoll && path == "io_uring/sqpoll/poll" {
            return None;
        }
        if let Some(governor) = self.governor {
            trial.settings.insert("governor".to_owned(), governor.to_owned());
        }
        if self.is_by_fio {
            trial.generator = Generator::Fio;
        }
        if let Outcome::Measured(one) = &mut trial.outcome {
            if self.lacks_meter {
                one.energy.clear();
            }
            if self.slow_path == Some(&path) || self.governor.is_some() {
                one.ios = one.ios * 9 / 10;
            }
        }
        Some(trial)
    }
}
