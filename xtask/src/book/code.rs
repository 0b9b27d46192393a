//! What sources document: fields of structs, constants and settings, with their `///` comments.

/// A documented item of a source file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// What is documented: the line after its comment and attributes, without its indentation.
    pub(super) line: String,
    /// The comment, as one line.
    pub(super) meaning: String,
    /// The name that serde gives it in files, if that is another.
    renamed: Option<String>,
}

impl Item {
    /// The name of a field and its type.
    pub(super) fn field(&self) -> Option<(&str, &str)> {
        let (name, of_type) = self.line.trim_start_matches("pub ").trim_end_matches(',').split_once(": ")?;
        Some((self.renamed.as_deref().unwrap_or(name), of_type))
    }

    /// The name of a public constant, and its value.
    pub(super) fn constant(&self) -> Option<(&str, &str)> {
        let (name, value) = self.line.strip_prefix("pub const ")?.split_once(": ")?;
        Some((name, value.split_once(" = ")?.1.trim_end_matches(';')))
    }

    /// The name that a line `Variant = "name",` gives.
    pub(super) fn named(&self) -> Option<&str> {
        self.line.split_once(" = \"")?.1.strip_suffix("\",")
    }
}

/// The items of a source file with a comment, up to its tests.
pub(super) fn items(text: &str) -> Vec<Item> {
    let mut items = lines(text);
    items.retain(|item| !item.meaning.is_empty());
    items
}

/// Every line of a source file, up to its tests, with the comment and the name that belong to it.
fn lines(text: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let (mut meaning, mut renamed) = (String::new(), None);
    let text = text.split("#[cfg(test)]").next().unwrap_or(text);
    for line in text.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("///") {
            meaning = format!("{meaning} {}", words.trim()).trim().to_owned();
        } else if line.starts_with("#[") {
            renamed = renamed.or_else(|| name_of(line));
        } else {
            items.push(Item { line: line.to_owned(), meaning, renamed });
            (meaning, renamed) = (String::new(), None);
        }
    }
    items
}

fn name_of(attribute: &str) -> Option<String> {
    attribute.split_once("rename = \"")?.1.split('"').next().map(str::to_owned)
}

/// The fields of a struct of a source file, with and without a comment.
pub(super) fn fields(text: &str, name: &str) -> Vec<Item> {
    let begin = text.lines().position(|line| line.trim_start_matches("pub ") == format!("struct {name} {{"));
    let body = text.lines().skip(begin.map_or(usize::MAX, |begin| begin + 1));
    let body: Vec<&str> = body.take_while(|line| *line != "}").collect();
    lines(&body.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"/// A study.
pub struct Study {
    /// Its
    /// name.
    pub name: String,
    /// Loads.
    #[serde(default, rename = "load")]
    pub loads: Vec<u8>,
    pub bare: u8,
}

/// Least.
pub const LEAST: f64 = 0.5;
/// Off.
Off = "off",
#[cfg(test)]
/// No.
pub const NO: u8 = 1;
"#;

    #[test]
    fn fields_have_their_names_in_files() {
        let fields = fields(SOURCE, "Study");
        let seen: Vec<_> = fields.iter().map(|field| (field.field(), field.meaning.as_str())).collect();
        let name = (Some(("name", "String")), "Its name.");
        assert_eq!(seen, [name, (Some(("load", "Vec<u8>")), "Loads."), (Some(("bare", "u8")), "")]);
        assert_eq!(super::fields(SOURCE, "Gone"), []);
    }

    #[test]
    fn constants_and_names_end_with_the_tests() {
        let items = items(SOURCE);
        let constants: Vec<_> = items.iter().filter_map(Item::constant).collect();
        assert_eq!(constants, [("LEAST", "0.5")]);
        assert_eq!(items.iter().filter_map(Item::named).collect::<Vec<_>>(), ["off"]);
    }
}
