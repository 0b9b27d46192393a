//! JSON as indented text in which long lists of numbers, such as the bins of a histogram, have a line each.

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use std::io::{self, Write};

/// The keys whose values have one line.
const LISTS: [&str; 2] = ["histogram", "series"];

/// A value as text at this depth of a document.
pub fn text(value: &Value, depth: usize) -> io::Result<String> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, Lines::default()))?;
    let line = format!("\n{}", "  ".repeat(depth));
    // No text of JSON has the end of a line in it.
    Ok(String::from_utf8_lossy(&text).replace('\n', &line))
}

#[derive(Default)]
struct Lines {
    pretty: PrettyFormatter<'static>,
    /// The key that was written last, while it is looked at.
    key: Option<String>,
    is_list: bool,
    /// How deep in a list this is.
    within: usize,
}

impl Lines {
    fn begin(&mut self) -> bool {
        if self.is_list || self.within > 0 {
            self.within += 1;
        }
        self.is_list = false;
        self.within > 0
    }

    fn end(&mut self) -> bool {
        let was_within = self.within > 0;
        self.within = self.within.saturating_sub(1);
        was_within
    }
}

impl Formatter for Lines {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.begin() { writer.write_all(b"[") } else { self.pretty.begin_array(writer) }
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.end() { writer.write_all(b"]") } else { self.pretty.end_array(writer) }
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        match self.within {
            0 => self.pretty.begin_array_value(writer, first),
            _ if first => Ok(()),
            _ => writer.write_all(b", "),
        }
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.within > 0 { Ok(()) } else { self.pretty.end_array_value(writer) }
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.begin() { writer.write_all(b"{") } else { self.pretty.begin_object(writer) }
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.end() { writer.write_all(b"}") } else { self.pretty.end_object(writer) }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.key = Some(String::new());
        match self.within {
            0 => self.pretty.begin_object_key(writer, first),
            _ if first => Ok(()),
            _ => writer.write_all(b", "),
        }
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if let Some(key) = &mut self.key {
            key.push_str(fragment);
        }
        writer.write_all(fragment.as_bytes())
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        let key = self.key.take().unwrap_or_default();
        self.is_list = self.within == 0 && LISTS.contains(&key.as_str());
        writer.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.is_list = false;
        if self.within > 0 { Ok(()) } else { self.pretty.end_object_value(writer) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Scripts look for lines such as `"verdict": "verified"`, and each bin had four lines.
    #[test]
    fn all_is_as_indented_as_ever_but_lists_of_numbers() {
        let value = json!({
            "a": { "histogram": [[1, 2], [3, 4]], "verdict": "x\ny" },
            "series": [{ "end_ns": 1, "ios": 2 }, { "end_ns": 2, "ios": [] }],
            "z": [1, {}, { "histogram": null }, []],
        });
        let expected = [
            "{",
            "    \"a\": {",
            "      \"histogram\": [[1, 2], [3, 4]],",
            "      \"verdict\": \"x\\ny\"",
            "    },",
            "    \"series\": [{\"end_ns\": 1, \"ios\": 2}, {\"end_ns\": 2, \"ios\": []}],",
            "    \"z\": [",
            "      1,",
            "      {},",
            "      {",
            "        \"histogram\": null",
            "      },",
            "      []",
            "    ]",
            "  }",
        ]
        .join("\n");
        assert_eq!(text(&value, 1).unwrap(), expected);
        let plain = json!({ "b": [1, { "c": ["histogram", 2] }], "d": {}, "e": [] });
        assert_eq!(text(&plain, 0).unwrap(), format!("{plain:#}"));
    }
}
