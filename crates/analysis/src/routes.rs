//! Which ways an engine took that chooses them.

use iopj_core::{Routes, Way};
use iopj_record::Measurement;

/// A clause on what an engine that chooses its way did in these trials together; `None` of any other.
pub(crate) fn took(measured: &[&Measurement]) -> Option<String> {
    let of = |one: &&'_ Measurement| -> Option<Routes> {
        Some(Routes::clone(one.evidence.engine.as_ref()?.routes.as_deref()?))
    };
    let all: Vec<Routes> = measured.iter().filter_map(of).collect();
    let sum = |count: &dyn Fn(&Routes) -> u64| all.iter().map(count).fold(0, u64::saturating_add);
    let total = sum(&Routes::ios);
    if total == 0 {
        return None;
    }
    let mut ways: Vec<(Way, u64)> =
        Way::ALL.into_iter().map(|way| (way, sum(&|one| one.ios_by(|other| other == way)))).collect();
    ways.retain(|(_, ios)| *ios > 0);
    ways.sort_by_key(|(_, ios)| std::cmp::Reverse(*ios));
    let share = |(way, ios): &(Way, u64)| format!("{way} for {:.1} %", 100.0 * *ios as f64 / total as f64);
    let ways: Vec<String> = ways.iter().map(share).collect();
    let lost = sum(&|one| one.failures);
    let lost = if lost > 0 { format!("; {lost} ways failed and were left") } else { String::new() };
    let switches = sum(&|one| one.switches);
    Some(format!("took {} of its I/Os, {switches} changes of route{lost}", ways.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::Route;
    use iopj_core::evidence::{EngineEvidence, Evidence};

    #[test]
    fn what_was_taken_is_said_over_all_trials_the_most_first() {
        let measured = |ways: &[(Way, u64)], switches| {
            let ways = ways.iter().map(|&(way, ios)| Route { way, ios, pass_ios: 0 }).collect();
            let routes = Some(Box::new(Routes { ways, switches, ..Routes::default() }));
            let engine = Some(EngineEvidence { routes, ..EngineEvidence::default() });
            Measurement { evidence: Evidence { engine, ..Evidence::default() }, ..Measurement::default() }
        };
        let one = measured(&[(Way::Interrupt, 10), (Way::Sqpoll, 300)], 2);
        let other = measured(&[(Way::Interrupt, 90)], 1);
        let text = took(&[&one, &other]).unwrap();
        let says = "took io_uring/sqpoll/interrupt for 75.0 %, io_uring/syscall/interrupt for 25.0 % of its \
                    I/Os, 3 changes of route";
        assert_eq!(text, says);
        assert_eq!(took(&[&Measurement::default()]), None);
    }
}
