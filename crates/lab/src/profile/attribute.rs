//! From counts by address to costs by function.

use super::{DebugInfo, Record, Window};
use iopj_core::{Cost, CostKind, CostProfile, CostSource, FunctionCost, Space};
use iopj_probe::{Symbol, Symbols};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The columns that the plugin counts.
const KINDS: [CostKind; 4] = [CostKind::Calls, CostKind::Instructions, CostKind::Loads, CostKind::Stores];

/// A profile per trial, by its position in the plan.
///
/// Counts cover the trial's whole window and all vCPUs. A trial whose jobs did not overlap leaves several
/// windows, which are added up. Functions of one name and module are one entry, with the parts that the
/// compiler split off. `calls` are the executions of its first instruction; those of a part count only if the
/// table has no body of that function. Everything that no symbol covers is one entry with an empty name.
///
/// `directory` gives the source directory of a function by its name and module; if an address has several
/// names, it is asked for each until it knows one. `debug_info` is asked first.
pub fn profiles(
    windows: &[Window],
    symbols: &Symbols,
    directory: &dyn Fn(&str, Option<&str>) -> Option<String>,
    debug_info: Option<&DebugInfo>,
) -> BTreeMap<u32, CostProfile> {
    let bodies = bodies(symbols);
    let mut directories = HashMap::new();
    let mut directory_of = |symbol: &Symbol| -> Option<String> {
        let known = directories.entry(symbol.address).or_insert_with(|| {
            let by_address = debug_info.and_then(|debug_info| debug_info.directory(symbol.address));
            by_address.or_else(|| symbol.directory(directory))
        });
        known.clone()
    };
    let mut places: BTreeMap<u32, BTreeMap<Key<'_>, FunctionCost>> = BTreeMap::new();
    for window in windows {
        let functions = places.entry(window.place).or_default();
        for record in &window.records {
            let symbol = if record.address == 0 { None } else { symbols.find(record.address) };
            let entry = functions.entry(key(record, symbol)).or_insert_with(|| empty(record, symbol));
            entry.cost += cost(record, symbol, &bodies);
            if let (None, Some(symbol)) = (&entry.directory, symbol) {
                entry.directory = directory_of(symbol);
            }
        }
        let unknown = Record { address: u64::MAX, executed: window.no_room, ..Record::default() };
        functions.entry(key(&unknown, None)).or_insert_with(|| empty(&unknown, None)).cost +=
            cost(&unknown, None, &bodies);
    }
    let profile = |functions: BTreeMap<_, FunctionCost>| {
        CostProfile::new(CostSource::Exact, KINDS.to_vec(), functions.into_values().collect())
    };
    places.into_iter().map(|(place, functions)| (place, profile(functions))).collect()
}

/// A profile without `share` of another, which was counted while the machine rested: no count falls below
/// zero.
pub fn without(whole: &CostProfile, rest: &CostProfile, share: f64) -> CostProfile {
    let identity =
        |function: &FunctionCost| (function.space, function.function.clone(), function.module.clone());
    let at_rest: HashMap<_, Cost> = rest.functions.iter().map(|one| (identity(one), one.cost)).collect();
    let less = |count: u64, rest: u64| count.saturating_sub((rest as f64 * share).round() as u64);
    let functions = whole.functions.iter().map(|function| {
        let rest = at_rest.get(&identity(function)).copied().unwrap_or_default();
        let cost = function.cost;
        let cost = Cost {
            calls: less(cost.calls, rest.calls),
            instructions: less(cost.instructions, rest.instructions),
            loads: less(cost.loads, rest.loads),
            stores: less(cost.stores, rest.stores),
            cpu_ns: cost.cpu_ns,
        };
        FunctionCost { cost, ..function.clone() }
    });
    CostProfile::new(whole.source.clone(), whole.kinds.clone(), functions.collect())
}

/// What identifies an entry: in the kernel or not, function, module.
type Key<'a> = (bool, &'a str, Option<&'a str>);

fn key<'a>(record: &Record, symbol: Option<&'a Symbol>) -> Key<'a> {
    (
        record.address != 0,
        symbol.map_or("", |symbol| &symbol.function),
        symbol.and_then(|symbol| symbol.module.as_deref()),
    )
}

fn empty(record: &Record, symbol: Option<&Symbol>) -> FunctionCost {
    FunctionCost {
        space: if record.address == 0 { Space::User } else { Space::Kernel },
        function: symbol.map(|symbol| symbol.function.clone()).unwrap_or_default(),
        module: symbol.and_then(|symbol| symbol.module.clone()),
        directory: None,
        cost: Cost::default(),
    }
}

/// The functions, with their modules, that have a body besides their parts.
fn bodies(symbols: &Symbols) -> HashSet<(&str, Option<&str>)> {
    let bodies = symbols.iter().filter(|symbol| !symbol.is_part);
    bodies.map(|symbol| (symbol.function.as_str(), symbol.module.as_deref())).collect()
}

fn cost(record: &Record, symbol: Option<&Symbol>, bodies: &HashSet<(&str, Option<&str>)>) -> Cost {
    let is_call = symbol.is_some_and(|symbol| {
        let has_body = || bodies.contains(&(symbol.function.as_str(), symbol.module.as_deref()));
        symbol.address == record.address && !(symbol.is_part && has_body())
    });
    Cost {
        calls: if is_call { record.executed } else { 0 },
        instructions: record.executed,
        loads: record.loads,
        stores: record.stores,
        cpu_ns: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
ffffffff81000000 T blk_poll
ffffffff81000100 t blk_poll.cold
ffffffff81000200 t orphan.part.0
ffffffff81000300 T __memcpy
ffffffff81000300 W memcpy
ffffffff81000400 T _etext
ffffffffc0000000 t nvme_poll\t[nvme]
ffffffffc0000100 t nvme_poll\t[other]
";

    fn window(place: u32, records: &[[u64; 4]]) -> Window {
        let record =
            |&[address, executed, loads, stores]: &[u64; 4]| Record { address, executed, loads, stores };
        Window { place, vcpus: vec![], no_room: 3, records: records.iter().map(record).collect() }
    }

    fn directory(function: &str, module: Option<&str>) -> Option<String> {
        match (function, module) {
            ("blk_poll", None) => Some("block/".to_owned()),
            ("nvme_poll", Some("nvme")) => Some("drivers/nvme/host/".to_owned()),
            ("__memcpy", None) => Some("arch/x86/lib/".to_owned()),
            _ => None,
        }
    }

    /// Module, directory, calls, instructions, loads, stores by function.
    type Row<'a> = (Option<&'a str>, Option<&'a str>, [u64; 4]);

    fn rows(profile: &CostProfile) -> BTreeMap<(bool, &str, Option<&str>), Row<'_>> {
        let row = |f: &FunctionCost| [f.cost.calls, f.cost.instructions, f.cost.loads, f.cost.stores];
        let functions = profile.functions.iter();
        functions
            .map(|f| {
                let key = (f.space == Space::User, f.function.as_str(), f.module.as_deref());
                (key, (f.module.as_deref(), f.directory.as_deref(), row(f)))
            })
            .collect()
    }

    #[test]
    fn addresses_are_added_up_by_function_and_module() {
        let records = [
            [0, 500, 50, 5],
            [0xffffffff81000000, 10, 1, 0],
            [0xffffffff81000004, 9, 0, 2],
            [0xffffffff81000100, 2, 1, 1],
            [0xffffffff81000200, 4, 0, 0],
            [0xffffffff81000300, 7, 7, 7],
            [0xffffffff81000400, 100, 0, 0],
            [0xffffffffc0000000, 20, 0, 0],
            [0xffffffffc0000100, 30, 0, 0],
        ];
        let symbols = Symbols::parse(TEXT).unwrap();
        let profiles = profiles(&[window(4, &records)], &symbols, &directory, None);
        let profile = &profiles[&4];
        assert_eq!((profile.source.clone(), profile.kinds.as_slice()), (CostSource::Exact, &KINDS[..]));
        let expected: [(_, Row<'_>); 7] = [
            ((false, "", None), (None, None, [0, 103, 0, 0])),
            ((false, "blk_poll", None), (None, Some("block/"), [10, 21, 2, 3])),
            ((false, "memcpy", None), (None, Some("arch/x86/lib/"), [7, 7, 7, 7])),
            ((false, "nvme_poll", Some("nvme")), (Some("nvme"), Some("drivers/nvme/host/"), [20, 20, 0, 0])),
            ((false, "nvme_poll", Some("other")), (Some("other"), None, [30, 30, 0, 0])),
            ((false, "orphan", None), (None, None, [4, 4, 0, 0])),
            ((true, "", None), (None, None, [0, 500, 50, 5])),
        ];
        assert_eq!(rows(profile), BTreeMap::from(expected));
    }

    #[test]
    fn windows_of_one_place_are_added_up_and_places_kept_apart() {
        let symbols = Symbols::parse(TEXT).unwrap();
        let windows = [
            window(1, &[[0xffffffff81000000, 10, 1, 0]]),
            window(2, &[[0xffffffff81000000, 5, 0, 0]]),
            window(1, &[[0xffffffff81000000, 1, 0, 1], [0, 8, 0, 0]]),
        ];
        let profiles = profiles(&windows, &symbols, &directory, None);
        assert_eq!(profiles.keys().copied().collect::<Vec<_>>(), [1, 2]);
        let kernel = profiles[&1].total(Space::Kernel);
        assert_eq!([kernel.calls, kernel.instructions, kernel.loads, kernel.stores], [11, 17, 1, 1]);
        assert_eq!(profiles[&1].total(Space::User).instructions, 8);
        assert_eq!(profiles[&2].total(Space::Kernel).instructions, 8);
    }

    #[test]
    fn what_a_machine_executes_at_rest_is_taken_off() {
        let profile = |functions: &[(&str, u64)]| {
            let cost = |instructions| Cost { instructions, loads: instructions / 2, ..Cost::default() };
            let function = |&(name, instructions): &(&str, u64)| FunctionCost {
                space: Space::Kernel,
                function: name.to_owned(),
                module: None,
                directory: None,
                cost: cost(instructions),
            };
            let functions = functions.iter().map(function).collect();
            CostProfile::new(CostSource::Exact, KINDS.to_vec(), functions)
        };
        let (whole, rest) = (
            profile(&[("nvmet_req_complete", 500), ("tick_sched_handle", 100), ("cpuidle_enter", 40)]),
            profile(&[("tick_sched_handle", 40), ("cpuidle_enter", 30), ("update_wall_time", 8)]),
        );
        // The window was twice as long as the rest.
        let expected = profile(&[("nvmet_req_complete", 500), ("tick_sched_handle", 20)]);
        assert_eq!(without(&whole, &rest, 2.0), expected);
    }
}
