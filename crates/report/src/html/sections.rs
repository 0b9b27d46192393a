//! The sections with figures, in the order of the page.

use super::figure::Section;
use super::model::Model;
use super::{
    by_path, cost_bars, cpu, kinds, loads, maps, over_axis, percentiles, power, timeline, two_hosts,
};
use iopj_analysis::power::PowerTrace;

/// All sections with figures, in the order of the page.
pub(super) fn sections(model: &Model<'_>, power: &[PowerTrace]) -> Vec<Section> {
    let mut sections = vec![by_path::verdicts(model)];
    let timed = model.emulated.is_none();
    if timed {
        sections.extend([loads::curves(model), loads::fronts(model)]);
    }
    sections.push(maps::section(model));
    sections.extend([two_hosts::section(model), kinds::section(model)]);
    sections.extend(over_axis::sections(model));
    sections.extend([by_path::section(model), cost_bars::section(model)]);
    if timed {
        sections.extend([
            percentiles::section(model),
            percentiles::distributions(model),
            cpu::kinds(model),
            cpu::against_power(model),
            timeline::section(model),
            power::section(model, power),
        ]);
    }
    // A section without figures says what is missing only where the study could have shown it.
    sections.retain(|section| {
        !section.groups.is_empty() || !section.words.is_empty() || !section.tables.is_empty()
    });
    unique(&mut sections);
    sections
}

/// Figures of different workloads with one title get numbers.
fn unique(sections: &mut [Section]) {
    let mut seen = std::collections::BTreeMap::new();
    for figure in
        sections.iter_mut().flat_map(|section| &mut section.groups).flat_map(|group| &mut group.figures)
    {
        let times: &mut usize = seen.entry(figure.id.clone()).or_default();
        *times += 1;
        if *times > 1 {
            figure.id += &format!("-{times}");
        }
    }
}
