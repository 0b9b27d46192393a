//! A simulated meter of what a machine draws: wrong by a factor throughout, and by another at each reading;
//! and other programs draw, too, now and then.

use crate::evaluate::chance::Chance;
use crate::timing::CROWDING_EVERY_NS;

/// By up to what share it is wrong throughout.
const WRONG: f64 = 0.1;
/// The deviation of what is wrong at each reading, as a share.
const SCATTERS: f64 = 0.02;

/// How likely it is at a reading that other programs begin to draw, or end; and by up to what share.
const BEGIN: f64 = 0.01;
const END: f64 = 0.1;
const OTHERS: f64 = 0.5;

/// A meter that is read ten times a second at the most.
pub(in crate::evaluate) struct Meter {
    chance: Chance,
    factor: f64,
    next_ns: f64,
    /// What was drawn by the latest reading, by the truth and by the meter.
    drawn: f64,
    said: f64,
    /// What other programs draw, as a share.
    others: f64,
}

impl Meter {
    pub(in crate::evaluate) fn new(mut chance: Chance) -> Meter {
        let factor = chance.between(1.0 - WRONG, 1.0 + WRONG);
        Meter { chance, factor, next_ns: 0.0, drawn: 0.0, said: 0.0, others: 0.0 }
    }

    /// What it says at this time, when so much was drawn; `None` if it was read just before.
    pub(super) fn read(&mut self, now_ns: f64, drawn: f64) -> Option<f64> {
        if now_ns < self.next_ns {
            return None;
        }
        let off = self.factor * (1.0 + self.others) * (1.0 + SCATTERS * self.chance.normal());
        self.said += (drawn - self.drawn) * off.max(0.0);
        let (is_busy, chance) = (self.others > 0.0, self.chance.share());
        if is_busy && chance < END {
            self.others = 0.0;
        } else if !is_busy && chance < BEGIN {
            self.others = self.chance.between(0.0, OTHERS);
        }
        (self.next_ns, self.drawn) = (now_ns + CROWDING_EVERY_NS as f64, drawn);
        Some(self.said)
    }
}
