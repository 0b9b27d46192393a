//! The keys of a JSON value as rows: each once, with its type and a value as an example.

use serde_json::Value;
use std::collections::BTreeMap;

/// Characters of an example.
const EXAMPLE: usize = 40;
/// Above so many members of the same type, keys are names and not words of the format.
const NAMES: usize = 40;

/// Last words of keys whose values name one machine or drive: the page has no example of them.
const OF_ONE: [&str; 2] = ["host", "serial"];

/// Each key below the value by its path (`[]` for each entry of a list, `*` for each of many names), with its
/// type and an example.
pub(super) fn keys(value: &Value) -> BTreeMap<String, (&'static str, String)> {
    let mut keys = BTreeMap::new();
    visit(value, String::new(), &mut keys);
    keys
}

fn visit(value: &Value, path: String, keys: &mut BTreeMap<String, (&'static str, String)>) {
    match value {
        Value::Object(members) => {
            let many = members.len() > NAMES;
            for (name, member) in members {
                let name = if many { "*" } else { name };
                let separator = if path.is_empty() { "" } else { "." };
                visit(member, format!("{path}{separator}{name}"), keys);
            }
        }
        Value::Array(entries) if !entries.is_empty() => {
            entries.iter().for_each(|entry| visit(entry, format!("{path}[]"), keys));
        }
        leaf => {
            let (of_type, mut text) = described(leaf);
            if OF_ONE.iter().any(|word| path.rsplit(['.', '[']).next() == Some(word)) {
                text = "...".to_owned();
            }
            let seen = keys.entry(path).or_insert((of_type, text.clone()));
            // What is null here may be a number there.
            if seen.0 == "null" {
                *seen = (of_type, text);
            }
        }
    }
}

fn described(leaf: &Value) -> (&'static str, String) {
    let of_type = match leaf {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    };
    let text = leaf.as_str().map_or_else(|| leaf.to_string(), str::to_owned);
    let shown: String = text.chars().take(EXAMPLE).collect();
    let dots = if shown.len() < text.len() { "..." } else { "" };
    (of_type, format!("{shown}{dots}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_key_is_there_once_with_what_it_holds() {
        let keys =
            keys(&json!({ "a": [{ "b": null }, { "b": 2.5, "c": "x".repeat(50) }], "d": [], "e": true }));
        let rows: Vec<_> = keys.iter().map(|(key, (of_type, _))| (key.as_str(), *of_type)).collect();
        assert_eq!(rows, [("a[].b", "number"), ("a[].c", "text"), ("d", "list"), ("e", "true or false")]);
        assert_eq!(keys["a[].b"].1, "2.5");
        let facts = json!({ "provenance": { "host": "db1", "vda.serial": "S1", "memory": "4 kB" } });
        let examples: Vec<String> = super::keys(&facts).into_values().map(|(_, example)| example).collect();
        assert_eq!(examples, ["...", "4 kB", "..."], "the builder's host and drive are not named");
        assert_eq!(keys["a[].c"].1, format!("{}...", "x".repeat(40)));
    }
}
