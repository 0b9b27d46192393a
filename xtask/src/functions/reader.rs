//! The top level of a C or assembler file in the kernel's style, read without a compiler: definitions of
//! functions, which are heads that end in `name(…)` before an opening brace, and uses of macros.

/// Words with an argument that may follow a function's own.
const ATTRIBUTES: &str = "\
    __acquire __acquires __acquires_shared __aligned __alloc_size __attribute__ __cond_acquires \
    __cond_acquires_shared __cond_lock __cond_releases __context__ __guarded_by __malloc __must_hold \
    __must_hold_shared __nonnull __printf __realloc_size __release __releases __releases_shared __scanf \
    __section";

/// Words of types that begin a function's head.
const TYPES: &[&str] = &["bool", "int", "long", "struct", "unsigned", "void"];

/// A function's definition or a macro's use.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item<'a> {
    pub(super) name: &'a str,
    /// Line where the head or the statement ends, counted from 1.
    pub(super) line: usize,
    pub(super) kind: Kind<'a>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    /// A function; another file may replace a weak one, and only its own file sees a local one.
    Function { weak: bool, local: bool },
    /// What may be a macro's use, with the text between its brackets.
    Use(&'a str),
}

/// Everything at the top level of `text`, in which [`blank`] has replaced comments, strings and directives.
pub(super) fn items(text: &str) -> Vec<Item<'_>> {
    let mut items = Vec::new();
    let (mut braces, mut brackets, mut start, mut line) = (0_usize, 0_usize, 0, 1);
    let mut at_line_start = true;
    for (at, byte) in text.bytes().enumerate() {
        // In the kernel's style these close and open what is at the top level, whatever the branches of `#if`
        // did before.
        if at_line_start && matches!(byte, b'{' | b'}') {
            (braces, brackets) = (usize::from(byte == b'}'), 0);
        }
        match byte {
            b'(' if braces == 0 => brackets += 1,
            b')' if braces == 0 => brackets = brackets.saturating_sub(1),
            b'{' if brackets == 0 => {
                if braces == 0 {
                    head(&text[start..at], true, line, &mut items);
                }
                braces += 1;
            }
            b'}' if brackets == 0 => {
                braces = braces.saturating_sub(1);
                start = at + 1;
            }
            b';' if braces == 0 && brackets == 0 => {
                head(&text[start..at], false, line, &mut items);
                start = at + 1;
            }
            b'\n' => line += 1,
            _ => {}
        }
        at_line_start = byte == b'\n';
    }
    head(&text[start..], false, line, &mut items);
    items
}

/// Reads the text between two statements: uses of macros and, before a brace, a function's head.
fn head<'a>(text: &'a str, brace: bool, end: usize, items: &mut Vec<Item<'a>>) {
    let Some((groups, initialised)) = groups(text) else { return };
    let line = |at: usize| end - text[at..].matches('\n').count();
    // A name without lower-case letters is a macro's, unless a type precedes it.
    let own = |(at, name, _): &&Group<'_>| {
        let before = text[..*at].rsplit(')').next().unwrap_or_default();
        let typed = || before.contains('*') || TYPES.iter().any(|word| has_word(before, word));
        !ATTRIBUTES.split_whitespace().any(|word| word == *name)
            && (name.bytes().any(|byte| byte.is_ascii_lowercase()) || typed())
    };
    let function = groups.iter().rev().find(own).filter(|_| brace && !initialised).map(|(at, ..)| *at);
    for (at, name, arguments) in groups {
        // GNU's extern inline functions are compiled elsewhere.
        if Some(at) == function
            && ["extern", "__FORTIFY_INLINE"].iter().any(|word| has_word(&text[..at], word))
        {
            continue;
        }
        let kind = if Some(at) == function {
            Kind::Function { weak: has_word(&text[..at], "__weak"), local: has_word(&text[..at], "static") }
        } else {
            Kind::Use(arguments)
        };
        let line = if matches!(kind, Kind::Use(_)) { line(at) } else { end };
        items.push(Item { name, line, kind });
    }
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c| !is_word(c)).any(|own| own == word)
}

/// A `name(…)`: where it begins, the name, and what is in the brackets.
type Group<'a> = (usize, &'a str, &'a str);

/// Each `name(…)` of `text` outside other brackets and before an `=`, and whether there is one. `None` for
/// brackets that do not match.
fn groups(text: &str) -> Option<(Vec<Group<'_>>, bool)> {
    let (mut depth, mut open, mut groups) = (0_usize, 0, Vec::new());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => {
                open = if depth == 0 { at } else { open };
                depth += 1;
            }
            b')' => {
                depth = depth.checked_sub(1)?;
                let before = text[..open].trim_end();
                let start = before.rfind(|c| !is_word(c)).map_or(0, |at| at + 1);
                if depth == 0 && super::macros::is_name(&before[start..]) {
                    groups.push((start, &before[start..], &text[open + 1..at]));
                }
            }
            b'=' if depth == 0 => return Some((groups, true)),
            _ => {}
        }
    }
    (depth == 0).then_some((groups, false))
}

/// Whether a character may be part of a name.
pub(super) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// `text` with spaces for its comments, strings, characters and preprocessor lines; lines stay where they
/// are.
pub(super) fn blank(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let (mut at, mut fresh) = (0, true);
    while at < bytes.len() {
        let rest = &bytes[at..];
        let length = match rest[0] {
            b'#' if fresh => directive(rest),
            b'/' if rest.starts_with(b"/*") => {
                rest.windows(2).skip(2).position(|pair| pair == b"*/").map_or(rest.len(), |end| end + 4)
            }
            b'/' if rest.starts_with(b"//") => {
                rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
            }
            quote @ (b'"' | b'\'') => quoted(rest, quote),
            byte => {
                fresh = byte == b'\n' || fresh && byte.is_ascii_whitespace();
                out.push(byte);
                at += 1;
                continue;
            }
        };
        out.extend(rest[..length].iter().map(|byte| if *byte == b'\n' { b'\n' } else { b' ' }));
        at += length;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Bytes of a preprocessor line with its continuations, up to the line's end.
fn directive(text: &[u8]) -> usize {
    let mut comment = false;
    for at in 0..text.len() {
        match text[at] {
            b'/' if text[at..].starts_with(b"/*") => comment = true,
            b'*' if text[at..].starts_with(b"*/") => comment = false,
            b'\n' if !comment && text[at - 1] != b'\\' => return at,
            _ => {}
        }
    }
    text.len()
}

/// Bytes of a string or a character, not beyond its line.
fn quoted(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 1,
            b'\n' => return at,
            byte if byte == quote => return at + 1,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<(String, usize)> {
        let function = |item: &Item<'_>| matches!(item.kind, Kind::Function { .. });
        items(&blank(text))
            .into_iter()
            .filter(function)
            .map(|item| (item.name.to_owned(), item.line))
            .collect()
    }

    #[test]
    fn definitions_are_found() {
        assert_eq!(
            names("static int a(int b)\n{\n\tif (b) {\n\t}\n}\n\nvoid c(void) { }\n"),
            [("a".into(), 2), ("c".into(), 7)]
        );
        assert_eq!(names("struct a {\n\tint b;\n};\nint c = (1), d[] = { f(1) };\n"), []);
        assert_eq!(names("EXPORT_IT(a)\n\nint b(u32 c)\n\t__releases(c)\n{\n}\n"), [("b".into(), 5)]);
        assert_eq!(
            names("int declared(void);\n#define x(y) \\\n\tint y(void) { }\n/* int c(void) { } */\n"),
            []
        );
        assert_eq!(
            names("extern __always_inline int a(void) { }\nstruct c *I_C(int d)\n{\n}\n"),
            [("I_C".into(), 3)]
        );
        assert_eq!(names("char *s = \"int a(void) {\";\nchar t = '{';\nint b(void) {}\n"), [("b".into(), 3)]);
    }

    #[test]
    fn branches_with_a_brace_each_end_with_the_function() {
        let text =
            "int a(int b)\n{\n#ifdef X\n\tif (b) {\n#else\n\tif (!b) {\n#endif\n\t}\n}\nint c(void)\n{\n}\n";
        assert_eq!(names(text), [("a".into(), 2), ("c".into(), 11)]);
    }

    #[test]
    fn weak_and_local_functions_are_marked() {
        let found = items("void __weak a(void)\n{\n}\nstatic void b(void)\n{\n}\n");
        assert_eq!(found[0].kind, Kind::Function { weak: true, local: false });
        assert_eq!(found[1].kind, Kind::Function { weak: false, local: true });
    }

    #[test]
    fn uses_of_macros_are_found() {
        let found =
            items("SHOW(a, 1)\nSHOW(b, (2))\n\nSYSCALL_DEFINE1(read, int, c)\n{\n\tf(c);\n}\nlast(d);\n");
        let uses: Vec<_> = found.iter().map(|item| (item.name, item.line, &item.kind)).collect();
        let used = |text| Kind::Use(text);
        assert_eq!(uses[0], ("SHOW", 1, &used("a, 1")));
        assert_eq!(uses[1], ("SHOW", 2, &used("b, (2)")));
        assert_eq!(uses[2], ("SYSCALL_DEFINE1", 4, &used("read, int, c")));
        assert_eq!(uses[3], ("last", 8, &used("d")));
        assert_eq!(uses.len(), 4);
        let event = items(
            "TRACE_EVENT(e,\n\tTP_fast_assign(\n\t\tif (a) {\n\t\t\tb = 1;\n\t\t}\n\t)\n);\nint c(void) { \
             }\n",
        );
        assert_eq!(
            event.iter().map(|item| (item.name, item.line)).collect::<Vec<_>>(),
            [("TRACE_EVENT", 1), ("c", 8)]
        );
    }
}
