//! Macros with arguments, and the functions that using them defines.

use super::macros;
use super::reader::{self, Kind};
use std::collections::HashMap;

/// How deeply macros may be nested.
const DEPTH: usize = 6;

/// Macros by name.
#[derive(Default)]
pub(super) struct Macros {
    /// Macros with arguments; several where branches of `#if` have one each.
    functions: HashMap<String, Vec<Macro>>,
    /// Names, and the names that replace them.
    renames: HashMap<String, Vec<String>>,
}

struct Macro {
    parameters: Vec<String>,
    body: String,
}

impl Macros {
    /// Adds the macros of `text`; `kept` says whether the line of that number, counted from 1, may count.
    pub(super) fn read(&mut self, text: &str, kept: impl Fn(usize) -> bool) {
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let Some(definition) = line.trim_start().strip_prefix('#').map(str::trim_start) else { continue };
            let Some(definition) = definition.strip_prefix("define") else { continue };
            let mut whole = definition.trim_start().to_owned();
            while whole.ends_with('\\') {
                whole.pop();
                whole.push(' ');
                whole.push_str(lines.next().map_or("", |(_, line)| line.trim_end()));
            }
            if kept(number + 1) {
                self.add(&whole);
            }
        }
    }

    /// The names that may replace `name` when the code is compiled.
    pub(super) fn renamed(&self, name: &str) -> &[String] {
        self.renames.get(name).map_or(&[], Vec::as_slice)
    }

    fn add(&mut self, definition: &str) {
        if let [name, other] = definition.split_whitespace().collect::<Vec<_>>()[..]
            && macros::is_name(name)
            && macros::is_name(other)
            && name != other
        {
            self.renames.entry(name.to_owned()).or_default().push(other.to_owned());
            return;
        }
        let Some((name, rest)) = definition.split_once('(') else { return };
        let Some((parameters, body)) = rest.split_once(')') else { return };
        // Without brackets it defines no function.
        if !macros::is_name(name) || !body.contains('(') {
            return;
        }
        let parameters = parameters.split(',').map(|word| word.trim().to_owned()).collect();
        self.functions
            .entry(name.to_owned())
            .or_default()
            .push(Macro { parameters, body: reader::blank(body) });
    }
}

impl Macro {
    /// The body with `arguments` for the parameters, pasted.
    fn fill(&self, arguments: &str) -> String {
        let given = split(arguments);
        let value = |word: &str| -> Option<String> {
            let at = self
                .parameters
                .iter()
                .position(|own| own == word || word == "__VA_ARGS__" && own == "...")?;
            let rest = given.get(at..).unwrap_or_default();
            Some(if self.parameters[at].ends_with("...") {
                rest.join(", ")
            } else {
                (*rest.first()?).to_owned()
            })
        };
        let mut text = String::new();
        let mut rest = self.body.as_str();
        while let Some(first) = rest.chars().next() {
            let end = rest.find(|c| !reader::is_word(c)).unwrap_or(rest.len()).max(first.len_utf8());
            let (word, after) = rest.split_at(end);
            match value(word) {
                Some(value) => text.push_str(&value),
                None => text.push_str(word),
            }
            rest = after;
        }
        text.split("##").map(str::trim).collect::<Vec<_>>().join("")
    }
}

/// The arguments of a macro's use.
fn split(arguments: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0_i32, 0, Vec::new());
    for (at, byte) in arguments.bytes().enumerate() {
        match byte {
            b'(' | b'{' | b'[' => depth += 1,
            b')' | b'}' | b']' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(arguments[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(arguments[start..].trim());
    parts
}

/// A function found in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) name: String,
    /// Folder of the code, if it is not the file's.
    pub(super) folder: Option<&'static str>,
    /// Whether the configuration keeps it; `None` if that depends on more.
    pub(super) kept: Option<bool>,
    /// Whether another file may replace it.
    pub(super) weak: bool,
    /// Whether only its own file sees it.
    pub(super) local: bool,
}

/// The functions that the use `name(arguments)` makes, by a rule or else by the first of `scopes` that has
/// the macro. If each branch of an `#if` has its own macro, one of them may not be kept.
pub(super) fn uses(name: &str, arguments: &str, scopes: &[&Macros]) -> Vec<Found> {
    let mut made = Vec::new();
    expand(name, arguments, scopes, DEPTH, &mut made);
    made
}

fn expand(name: &str, arguments: &str, scopes: &[&Macros], depth: usize, made: &mut Vec<Found>) {
    if let Some((folder, names)) = macros::functions(name, &split(arguments)) {
        let weak = macros::is_weak(name);
        let of = |name| Found { name, folder, kept: Some(true), weak, local: false };
        made.extend(names.into_iter().map(of));
        return;
    }
    if depth == 0 {
        return;
    }
    let Some(found) = scopes.iter().find_map(|scope| scope.functions.get(name)) else {
        for other in scopes.iter().flat_map(|scope| scope.renamed(name)) {
            expand(other, arguments, scopes, depth - 1, made);
        }
        return;
    };
    let first = made.len();
    for one in found {
        let text = one.fill(arguments);
        for item in reader::items(&text) {
            match item.kind {
                Kind::Function { weak, local } => {
                    let name = item.name.to_owned();
                    made.push(Found { name, folder: None, kept: Some(true), weak, local });
                }
                Kind::Use(arguments) => expand(item.name, arguments, scopes, depth - 1, made),
            }
        }
    }
    if found.len() > 1 {
        made[first..].iter_mut().for_each(|one| one.kept = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, name: &str, arguments: &str) -> Vec<String> {
        let mut macros = Macros::default();
        macros.read(text, |_| true);
        uses(name, arguments, &[&macros]).into_iter().map(|made| made.name).collect()
    }

    #[test]
    fn a_macro_makes_functions() {
        let show =
            "#define SHOW(__name, f) \\\nstatic ssize_t __name##_show(void) \\\n{ \\\n\treturn f(1); \\\n}\n";
        assert_eq!(names(show, "SHOW", "a, b"), ["a_show"]);
        let nested = format!("{show}#define BOTH(a) SHOW(x_ ## a, 1) \\\n int a(void) {{ }}\n");
        assert_eq!(names(&nested, "BOTH", "b"), ["x_b_show", "b"]);
        assert_eq!(names(&format!("{show}#define VIEW SHOW\n"), "VIEW", "a, b"), ["a_show"]);
        assert_eq!(names("#define D(n, t...) DEFINE_EVENT(c, n, t)\n", "D", "a, b, c"), ["__traceiter_a"]);
    }

    #[test]
    fn a_macro_that_uses_itself_ends() {
        assert_eq!(names("#define A(x) A(x##x)\n", "A", "b"), [""; 0]);
    }
}
