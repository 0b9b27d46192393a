//! Energy as text: its part in the heading of a table, and the trials that a meter did not cover.

use super::results::has_combined;
use super::text::{escape, wrap};
use iopj_analysis::WorkloadTable;
use iopj_analysis::energy::lacks_of;
use iopj_record::{EnergySource, Trial};

/// The energy of a table.
pub(super) struct TableEnergy<'a> {
    /// The meter and the scope.
    pub(super) source: &'a EnergySource,
    /// True if the meter's accuracy is declared: then there are combined intervals.
    combined: bool,
}

impl<'a> TableEnergy<'a> {
    /// `None` if the table has no energy.
    pub(super) fn of(table: &'a WorkloadTable) -> Option<TableEnergy<'a>> {
        Some(TableEnergy { source: table.energy()?, combined: has_combined(table) })
    }

    /// What the heading of the table says.
    pub(super) fn heading(&self) -> String {
        format!(", energy: {}", self.source)
    }

    /// What the intervals are, for the footer.
    pub(super) fn words(&self) -> String {
        let mut text =
            "W is mean power and IO/J I/Os per joule, over replicates with energy; \u{b1} is half \
                        of the 95 % interval of the random part, by which paths are compared"
                .to_owned();
        if self.combined {
            text += "; \u{b1} all holds the meter's declared accuracy too";
        } else if !self.source.estimated {
            text += "; the meter declares no accuracy, so it is not included";
        }
        if self.source.estimated {
            text += "; est.: estimated by a model, not measured, and in no winner map, claim or comparison";
        }
        text
    }
}

/// The trials without joules of the source, or of any meter, by reason: this many by name where they are not
/// all. Empty if there are none.
pub(super) fn lacks_text(trials: &[Trial], source: Option<&EnergySource>, width: usize) -> String {
    const MOST: usize = 8;
    let mut text = String::new();
    for lack in lacks_of(trials, source) {
        text += &wrap(&format!("energy incomplete: {}", escape(&lack.to_string())), width, "");
        if lack.trials.len() == lack.of {
            continue;
        }
        for Trial { path, workload, replicate, .. } in lack.trials.iter().take(MOST) {
            text += &wrap(&format!("{path}, {}, replicate {}", workload.title(), replicate + 1), width, "  ");
        }
        if lack.trials.len() > MOST {
            text += &format!("  and {} more\n", lack.trials.len() - MOST);
        }
    }
    text
}
