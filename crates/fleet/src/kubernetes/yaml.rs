//! A JSON value as YAML that a person can read: blocks, and text of several lines as it is.

use serde_json::Value;
use std::fmt::Write;

/// The document.
pub(super) fn document(value: &Value) -> String {
    let mut text = String::new();
    block(value, 0, &mut text);
    text
}

/// Writes a value below a key or a dash, whose line has been begun.
fn block(value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                text.push_str(&indent);
                text.push_str(&scalar(key));
                text.push(':');
                after(value, depth, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let mut inner = String::new();
                match item {
                    Value::Object(map) if !map.is_empty() => block(item, depth + 1, &mut inner),
                    _ => {
                        after(item, depth, text_of_item(&indent, text));
                        continue;
                    }
                }
                // The first key stands on the dash's line.
                let _ = write!(text, "{indent}- {}", inner.trim_start());
            }
        }
        other => {
            let _ = writeln!(text, "{indent}{}", flow(other));
        }
    }
}

fn text_of_item<'t>(indent: &str, text: &'t mut String) -> &'t mut String {
    text.push_str(indent);
    text.push('-');
    text
}

/// Writes what follows a colon or a dash.
fn after(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            text.push('\n');
            block(value, depth + 1, text);
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            block(value, depth + 1, text);
        }
        Value::String(lines) if is_literal(lines) => {
            text.push_str(" |\n");
            let indent = "  ".repeat(depth + 1);
            for line in lines.lines() {
                let line = if line.is_empty() { String::new() } else { format!("{indent}{line}") };
                let _ = writeln!(text, "{line}");
            }
        }
        other => {
            let _ = writeln!(text, " {}", flow(other));
        }
    }
}

/// Whether a text of several lines can stand as it is: its end is one line feed, and its first line shows
/// how far it is indented.
fn is_literal(text: &str) -> bool {
    let has_end = text.ends_with('\n') && !text.ends_with("\n\n");
    let is_plain = !text.chars().any(|c| c.is_control() && c != '\n');
    has_end && is_plain && text.lines().count() > 1 && !text.starts_with([' ', '\n'])
}

/// A value in one line.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        other => other.to_string(),
    }
}

/// A word that YAML takes for nothing but a text stands bare; others as in JSON, which YAML reads too.
fn scalar(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let words = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let is_word = words.contains(&text.to_ascii_lowercase().as_str());
    if begins && !is_word && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_manifest_reads_as_one() {
        let value = json!({
            "kind": "Job",
            "spec": { "nodes": 3, "add": ["SYSLOG", "1"], "none": {}, "yes": "no" },
            "data": { "study.toml": "a = 1\n\n  b = \"x: #\"\n" },
            "list": [{ "name": "a", "at": { "path": "/x" } }, []],
        });
        let text = "\
data:
  study.toml: |
    a = 1

      b = \"x: #\"
kind: Job
list:
  - at:
      path: /x
    name: a
  - []
spec:
  add:
    - SYSLOG
    - \"1\"
  nodes: 3
  none: {}
  \"yes\": \"no\"
";
        assert_eq!(document(&value), text);
    }
}
