//! Advice as JSON.

use iopj_analysis::advise::{Advice, AdviseQuestion, Answer, Asked, Candidate, Carried, Group, Highest};
use iopj_analysis::answer::More;
use serde_json::{Value, json};

/// Advice, with the question's bounds and rate.
pub fn advice(advice: &Advice, question: &AdviseQuestion) -> Value {
    json!({
        "objective": advice.objective,
        "metric": advice.metric.as_str(),
        "cost": advice.cost.as_str(),
        "energy": advice.source,
        "bounds": question.bounds,
        "rate": question.rate,
        "groups": advice.groups.iter().map(group).collect::<Vec<Value>>(),
        "baselines": advice.baselines,
    })
}

fn group(group: &Group) -> Value {
    let between = match &group.asked {
        Some(Asked::Between { rate, same }) => json!({ "rate": rate, "way": same }),
        _ => Value::Null,
    };
    let shared = ["iodepth", "iodepth_batch_submit", "iodepth_batch_complete_min", "numjobs", "rate_iops"];
    let mut workload = json!(group.workload);
    if let Some(fields) = workload.as_object_mut() {
        shared.iter().for_each(|key| drop(fields.remove(*key)));
    }
    json!({
        "workload": workload,
        "generator": group.generator.as_str(),
        "between": between,
        "answers": group.answers.iter().map(answer).collect::<Vec<Value>>(),
        "highest": group.highest.as_ref().map(highest),
    })
}

fn highest(highest: &Highest) -> Value {
    let at = |at: &Option<(u64, Candidate)>| {
        at.as_ref().map(|(rate, one)| json!({ "rate": rate, "figures": candidate(one) }))
    };
    let carried =
        |one: &Carried| json!({ "way": one.way, "carries": at(&one.at), "beyond": at(&one.beyond) });
    let looser =
        highest.looser.as_ref().map(|(ns, rate, way)| json!({ "bound_ns": ns, "rate": rate, "way": way }));
    json!({ "ways": highest.ways.iter().map(carried).collect::<Vec<Value>>(), "looser": looser })
}

fn answer(answer: &Answer) -> Value {
    let cell = &answer.cell;
    let open = cell.open().map(|(place, open)| {
        let more = if let More::Replicates(count) = open.more { Some(count) } else { None };
        json!({ "way": place.path, "difference": open.difference, "more_replicates": more })
    });
    let ranking = cell.ranking.iter().map(|place| {
        json!({
            "way": place.path,
            "mean": place.summary.mean,
            "interval": place.summary.interval,
            "p": place.p,
            "ratio": place.contrast.and_then(|contrast| contrast.ratio),
        })
    });
    let savings = match &answer.savings {
        Some(Ok(savings)) => json!({ "rate": savings.rate, "against": savings.all }),
        Some(Err(why)) => json!({ "lacks": why.to_string() }),
        None => Value::Null,
    };
    json!({
        "load": answer.load,
        "metric": answer.metric.as_str(),
        "decision": cell.decision().as_str(),
        "way": answer.way(),
        "p": cell.p,
        "p_equal": cell.equal,
        "open": open,
        "ranking": ranking.collect::<Vec<Value>>(),
        "ways": answer.candidates.iter().map(candidate).collect::<Vec<Value>>(),
        "nearest": answer.nearest().filter(|_| answer.way().is_none()).map(|one| &one.way),
        "savings": savings,
        "flips": answer.flips,
        "recipe": answer.recipe,
    })
}

fn candidate(one: &Candidate) -> Value {
    let mut value = json!(one);
    value["cost"] = json!(one.cost.map(|cost| json!({ "mean": cost.mean, "interval": cost.interval })));
    value["upper_ns"] = json!(one.tail.as_ref().and_then(|tail| tail.upper()).map(|(upper, _)| upper));
    value["eligible"] = json!(one.is_eligible());
    value
}
