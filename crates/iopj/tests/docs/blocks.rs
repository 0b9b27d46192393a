//! The commands of a document: lines of its `sh` blocks, lines behind `$` in other blocks, and what stands in
//! backquotes in its text; and the files that its blocks of TOML are.

/// A command, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// `file:line`.
    pub(crate) place: String,
    /// As one line, without its comment.
    pub(crate) text: String,
}

/// A document taken apart.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// Of the blocks.
    pub(crate) commands: Vec<Command>,
    /// `iopj ...` in backquotes, which may be a part of a command.
    pub(crate) mentioned: Vec<Command>,
    /// Studies: their names and texts.
    pub(crate) studies: Vec<(String, String)>,
    /// Lines of blocks without a language that look like commands.
    pub(crate) unmarked: Vec<String>,
}

/// Programs whose name begins a line that is a command.
const PROGRAMS: [&str; 4] = ["iopj", "cargo", "fio", "modprobe"];

impl Document {
    pub(crate) fn read(file: &str, text: &str) -> Document {
        let mut document = Document::default();
        // The language of the block, and what of a command the lines before said.
        let (mut block, mut begun, mut toml) = (None, String::new(), String::new());
        for (number, line) in (1..).zip(text.lines()) {
            let place = format!("{file}:{number}");
            if let Some(language) = line.trim_start().strip_prefix("```") {
                if block == Some("toml") {
                    document.studies.extend(study(&toml));
                }
                block = if block.is_some() { None } else { Some(language) };
                (begun, toml) = (String::new(), String::new());
                continue;
            }
            match block {
                None => document.mentioned.extend(mentioned(&place, line)),
                Some("sh") => document.commands.extend(continued(&place, line, &mut begun)),
                Some("toml") => toml = toml + line + "\n",
                Some(language) => match line.strip_prefix("$ ") {
                    Some(line) => document.commands.extend(continued(&place, line, &mut begun)),
                    None if language.is_empty() && begins_program(line) => document.unmarked.push(place),
                    None => {}
                },
            }
        }
        document
    }
}

fn begins_program(line: &str) -> bool {
    line.split_whitespace().next().is_some_and(|word| PROGRAMS.contains(&word))
}

/// The command that ends on this line, if one does.
fn continued(place: &str, line: &str, begun: &mut String) -> Option<Command> {
    let line = without_comment(line).trim();
    if let Some(part) = line.strip_suffix('\\') {
        *begun = format!("{begun}{} ", part.trim());
        return None;
    }
    let text = std::mem::take(begun) + line;
    (!text.is_empty()).then(|| Command { place: place.to_owned(), text })
}

/// A line up to a `#` that begins a word outside of quotes.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (at, letter) in line.char_indices() {
        match (quote, letter) {
            (None, '#') if before == ' ' => return &line[..at],
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            _ => {}
        }
        before = letter;
    }
    line
}

/// What stands in backquotes on a line and begins with `iopj` and a command.
fn mentioned(place: &str, line: &str) -> Vec<Command> {
    let spans = line.split('`').skip(1).step_by(2).filter(|text| text.starts_with("iopj "));
    spans.map(|text| Command { place: place.to_owned(), text: text.to_owned() }).collect()
}

/// A block that is a whole study, by its name.
fn study(toml: &str) -> Option<(String, String)> {
    let name = toml.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))?;
    toml.contains("[[workload]]").then(|| (name.to_owned(), toml.to_owned()))
}

/// The words of a command as a shell has them, up to what it does with the output.
pub(crate) fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in text.chars() {
        match (quote, letter) {
            // `2>FILE` begins with the descriptor.
            (None, '>') => {
                word.take_if(|word| word.chars().all(|letter| letter.is_ascii_digit()));
                break;
            }
            (None, '|' | '<' | '&' | ';') => break,
            (None, ' ') => words.extend(word.take()),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (Some(open), _) if open == letter => quote = None,
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[test]
fn a_document_is_taken_apart() {
    let text = r#"Say `iopj run X` or `iopj`.
```sh
# no
iopj check   # which
iopj run --name a \
    --bs '4k # 8k'
```
```text
$ iopj b
output
```
```
iopj c
```
```toml
name = "s"
[[workload]]
```
"#;
    let document = Document::read("d.md", text);
    let of = |commands: &[Command]| {
        commands.iter().map(|one| format!("{} {}", one.place, one.text)).collect::<Vec<_>>()
    };
    let commands = ["d.md:4 iopj check", "d.md:6 iopj run --name a --bs '4k # 8k'", "d.md:9 iopj b"];
    assert_eq!(of(&document.commands), commands);
    assert_eq!(of(&document.mentioned), ["d.md:1 iopj run X"]);
    assert_eq!(document.unmarked, ["d.md:13"]);
    assert_eq!(document.studies, [("s".to_owned(), "name = \"s\"\n[[workload]]\n".to_owned())]);
}

#[test]
fn words_are_those_of_a_shell() {
    assert_eq!(words("iopj run --path '*/poll' \"a b\" > x"), ["iopj", "run", "--path", "*/poll", "a b"]);
    assert_eq!(words("a ''|b"), ["a", ""]);
}
