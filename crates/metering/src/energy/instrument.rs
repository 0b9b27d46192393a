//! Whether two meters of a study are one instrument that is read at one place: their joules are then never
//! added.

use std::collections::BTreeSet;

/// Kinds that read what the machine itself has. A management controller without an address is its own too.
const OF_MACHINE: [&str; 3] = ["rapl", "hwmon", "nvme"];

/// Why the meters of two machines may be one, or `None` if they are two. A meter without a table is the
/// machine's own.
pub(super) fn shared(here: Option<&toml::Table>, there: Option<&toml::Table>) -> Option<String> {
    let (here, there) = (here?, there?);
    let (Some(one), Some(other)) = (Instrument::of(here), Instrument::of(there)) else { return None };
    match (one, other) {
        (Instrument::Program(one), Instrument::Program(other)) => (one == other)
            .then(|| "run the same program with the same arguments, and may read one instrument".to_owned()),
        (Instrument::At(one), Instrument::At(other)) => {
            one.overlaps(&other).then(|| format!("read one instrument at {} at the same place", one.address))
        }
        _ => None,
    }
}

/// What a meter's table says about where its values come from.
enum Instrument {
    /// A program and its arguments.
    Program(Vec<String>),
    /// A device on the network.
    At(Device),
}

/// A device on the network, and what of it is read; no place at all stands for all of it.
struct Device {
    kind: String,
    address: String,
    places: BTreeSet<String>,
}

impl Device {
    /// Whether two read the same. Two kinds of one device may: it serves its figures in several ways.
    fn overlaps(&self, other: &Device) -> bool {
        let is_same_place = self.kind != other.kind
            || self.places.is_empty()
            || other.places.is_empty()
            || !self.places.is_disjoint(&other.places);
        self.address == other.address && is_same_place
    }
}

impl Instrument {
    /// The instrument of a table; `None` for one that belongs to the machine that reads it.
    fn of(table: &toml::Table) -> Option<Instrument> {
        let kind = text(table, "kind")?;
        if OF_MACHINE.contains(&kind) {
            return None;
        }
        if let Some(toml::Value::Array(words)) = table.get("command") {
            return Some(Instrument::Program(words.iter().map(ToString::to_string).collect()));
        }
        let address = address_of(text(table, "url").or_else(|| text(table, "host"))?);
        let is_own = address == "localhost" || address == "::1" || address.starts_with("127.");
        let places = places(kind, table);
        (!is_own).then(|| Instrument::At(Device { kind: kind.to_owned(), address, places }))
    }
}

/// What of a device a table reads.
fn places(kind: &str, table: &toml::Table) -> BTreeSet<String> {
    let tables = |key: &str| match table.get(key) {
        Some(toml::Value::Array(values)) => values.iter().filter_map(toml::Value::as_table).collect(),
        _ => Vec::new(),
    };
    let keys = |table: &toml::Table, keys: &[&str]| {
        let values = keys.iter().filter_map(|key| table.get(*key).map(|value| format!("{key} {value}")));
        values.collect::<Vec<_>>().join(", ")
    };
    match kind {
        "http" => {
            let path = text(table, "url").map(path_of).unwrap_or_default();
            let outlet = table.get("outlet").map_or("0".to_owned(), ToString::to_string);
            let of_value = |value: &toml::Table| {
                format!("{path} outlet {outlet} {}", keys(value, &["pointer", "metric", "labels"]))
            };
            let values: BTreeSet<String> = tables("values").into_iter().map(of_value).collect();
            if values.is_empty() { BTreeSet::from([format!("{path} outlet {outlet} ")]) } else { values }
        }
        "snmp" => tables("channels").into_iter().map(|one| keys(one, &["oid", "preset", "index"])).collect(),
        _ => text(table, "chassis").map(str::to_owned).into_iter().collect(),
    }
}

/// The host of an address, without scheme, path and port.
fn address_of(text: &str) -> String {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((v6, _)) => v6,
        // An IPv6 address without brackets has no port.
        None if authority.matches(':').count() > 1 => authority,
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.to_ascii_lowercase()
}

/// What follows the host and the scheme of an address.
fn path_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or("", |at| rest[at..].trim_end_matches('/'))
}

fn text<'t>(table: &'t toml::Table, key: &str) -> Option<&'t str> {
    table.get(key).and_then(toml::Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_shared(here: &str, there: &str) -> bool {
        let [here, there] = [here, there].map(|text| text.parse::<toml::Table>().unwrap());
        let one = shared(Some(&here), Some(&there));
        assert_eq!(one, shared(Some(&there), Some(&here)));
        one.is_some()
    }

    #[test]
    fn one_outlet_of_one_instrument_is_found_however_it_is_written() {
        let shelly = |more: &str| format!("kind = \"http\"\npreset = \"shelly-gen2\"\n{more}");
        let first = shelly("url = \"http://192.0.2.7\"");
        assert!(is_shared(&first, &shelly("url = \"http://192.0.2.7:80/\"\noutlet = 0\ninterval = \"2s\"")));
        assert!(!is_shared(&first, &shelly("url = \"http://192.0.2.7\"\noutlet = 1")));
        assert!(!is_shared(&first, &shelly("url = \"http://192.0.2.8\"")));
        let pdu = |host: &str, outlets: &[u32]| {
            let channel = |index: &u32| {
                format!("{{ name = \"o{index}\", preset = \"apc-outlet-power\", index = {index} }}")
            };
            let channels: Vec<String> = outlets.iter().map(channel).collect();
            format!("kind = \"snmp\"\nhost = \"{host}\"\nchannels = [{}]", channels.join(", "))
        };
        assert!(is_shared(&pdu("PDU.lab", &[1, 2]), &pdu("pdu.lab", &[2, 3])));
        assert!(!is_shared(&pdu("pdu.lab", &[1, 2]), &pdu("pdu.lab", &[3, 4])));
        let value = |pointer: &str| {
            format!("kind = \"http\"\nurl = \"http://i.lab/now\"\nvalues = [{{ pointer = \"{pointer}\" }}]")
        };
        assert!(is_shared(&value("/0/w"), &value("/0/w")) && !is_shared(&value("/0/w"), &value("/1/w")));
    }

    #[test]
    fn one_controller_is_one_whichever_way_it_is_asked() {
        let redfish = |host: &str| format!("kind = \"redfish\"\nurl = \"https://{host}/\"");
        assert!(is_shared(&redfish("192.0.2.9"), "kind = \"ipmi\"\nhost = \"192.0.2.9\""));
        assert!(!is_shared(&redfish("192.0.2.9"), &redfish("192.0.2.10")));
        // Two blades of one enclosure.
        let blade = |name: &str| format!("{}\nchassis = \"{name}\"", redfish("[2001:db8::9]:443"));
        assert!(
            !is_shared(&blade("Blade1"), &blade("Blade2")) && is_shared(&blade("Blade1"), &blade("Blade1"))
        );
        assert!(is_shared(&blade("Blade1"), "kind = \"ipmi\"\nhost = \"2001:DB8::9\""));
        // A machine's own, and what it serves to itself.
        let local = "kind = \"http\"\nurl = \"http://127.0.0.1:9100/metrics\"\nvalues = [{ metric = \"w\" }]";
        for own in ["kind = \"ipmi\"", "kind = \"rapl\"", local] {
            assert!(!is_shared(own, own), "{own}");
        }
        assert_eq!(shared(None, Some(&"kind = \"rapl\"".parse().unwrap())), None);
    }

    #[test]
    fn one_program_with_the_same_arguments_may_read_one_instrument() {
        let program = |outlet: u32| format!("kind = \"command\"\ncommand = [\"watts\", \"{outlet}\"]");
        assert!(is_shared(&program(1), &program(1)) && !is_shared(&program(1), &program(2)));
    }
}
