//! Joules that are not there yet: of trials whose meters were read by a run that has not ended, or was
//! killed.

use crate::json_column::from_json;
use iopj_core::{EnergyOutcome, Scope, TrialEnergy};
use rusqlite::Connection;
use rusqlite::types::Type;
use serde::Deserialize;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

/// The meters that were read while a trial loaded the machine. A run that was killed between the mark of a
/// trial and the trial itself has left a mark of what another session measured: a mark ends with its trial's
/// window.
const METERS: &str = "FROM (SELECT DISTINCT trial.id AS trial, mark.session AS session FROM trial \
                      JOIN mark ON mark.position = trial.position AND mark.kind = 'load' AND \
                      json_extract(mark.times_ns, '$[#-1]') = \
                      json_extract(trial.measurement, '$.window_raw_ns[1]') \
                      WHERE trial.error IS NULL) AS loaded \
                      JOIN meter ON meter.session = loaded.session";
/// No name of a channel is longer, in bytes, and no channel is contained in more than so many.
const LONGEST_NAME: usize = 1024;
const MOST_LEVELS: usize = 64;

/// What a meter's record says of its scopes.
#[derive(Deserialize)]
struct Meter {
    channels: Vec<Part>,
    /// An estimate's, which has no channels.
    #[serde(default)]
    model: Option<Part>,
}

/// A channel, or a model.
#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    name: String,
    scope: Scope,
    /// The channel that contains it; of the same scope, it counts each joule.
    #[serde(default)]
    parent: Option<String>,
}

/// The energy of each trial that has none yet: pending, by each scope of each meter that was read.
pub(crate) fn all(connection: &Connection) -> rusqlite::Result<HashMap<i64, Vec<TrialEnergy>>> {
    let sql = format!("SELECT loaded.trial, meter.id, meter.name, meter.record {METERS} ORDER BY meter.id");
    let mut select = connection.prepare(&sql)?;
    let mut rows = select.query([])?;
    let (mut all, mut meters) = (HashMap::<i64, Vec<TrialEnergy>>::new(), HashMap::new());
    while let Some(row) = rows.next()? {
        let of_meter: &Vec<TrialEnergy> = match meters.entry(row.get::<_, i64>(1)?) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(pending(row.get(2)?, named(from_json(row, 3)?)?)),
        };
        all.entry(row.get(0)?).or_default().extend(of_meter.iter().cloned());
    }
    Ok(all)
}

/// Refuses a meter with a name that no meter has: each trial would have it.
fn named(meter: Meter) -> rusqlite::Result<Meter> {
    match meter.channels.iter().all(|channel| channel.name.len() <= LONGEST_NAME) {
        true => Ok(meter),
        false => Err(rusqlite::Error::InvalidColumnType(3, "meter.record".to_owned(), Type::Text)),
    }
}

/// What is pending of a trial that this meter was read for.
fn pending(meter: String, Meter { channels, model }: Meter) -> Vec<TrialEnergy> {
    let mut scopes: BTreeMap<Scope, Vec<String>> = BTreeMap::new();
    // Of two of one name the first counts.
    let by_name: HashMap<&str, &Part> = channels.iter().rev().map(|one| (one.name.as_str(), one)).collect();
    for channel in channels.iter().filter(|channel| !is_contained(&by_name, channel)) {
        scopes.entry(channel.scope).or_default().push(channel.name.clone());
    }
    let estimated = model.is_some();
    scopes.extend(model.map(|model| (model.scope, Vec::new())));
    let of_scope = |(scope, channels)| TrialEnergy {
        meter: meter.clone(),
        scope,
        channels,
        estimated,
        rules: 0,
        outcome: EnergyOutcome::Pending,
    };
    scopes.into_iter().map(of_scope).collect()
}

/// Whether a channel above this one, at any distance, is of its scope.
fn is_contained(by_name: &HashMap<&str, &Part>, channel: &Part) -> bool {
    let parent = |of: &Part| by_name.get(of.parent.as_deref()?).copied();
    // A meter may make a ring of them.
    let above = std::iter::successors(parent(channel), |one| parent(one)).take(MOST_LEVELS);
    above.into_iter().any(|one| one.scope == channel.scope)
}

/// Whether a measured trial has none yet.
pub(crate) fn any(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = format!(
        "SELECT EXISTS (SELECT 1 {METERS} WHERE NOT EXISTS (SELECT 1 FROM energy WHERE energy.trial = \
         loaded.trial))"
    );
    connection.query_row(&sql, [], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, scope: Scope, parent: &str) -> Part {
        Part { name: name.to_owned(), scope, parent: Some(parent.to_owned()) }
    }

    /// A ring of a thousand channels took ten seconds, and a name of a megabyte all memory.
    #[test]
    fn a_ring_of_channels_ends_and_a_name_has_a_limit() {
        let ring = |at: usize| part(&format!("c{at}"), Scope::Core, &format!("c{}", (at + 1) % 20_000));
        let mut channels: Vec<Part> = (0..20_000).map(ring).collect();
        channels.push(part("p", Scope::Package, "c0"));
        let found = pending("m".to_owned(), Meter { channels, model: None });
        assert_eq!(found.iter().map(|one| &one.channels[..]).collect::<Vec<_>>(), [["p"]]);
        for (length, is_right) in [(LONGEST_NAME, true), (LONGEST_NAME + 1, false)] {
            let channels = vec![part(&"x".repeat(length), Scope::Package, "")];
            assert_eq!(named(Meter { channels, model: None }).is_ok(), is_right);
        }
    }
}
