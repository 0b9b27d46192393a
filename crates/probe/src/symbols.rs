//! A kernel's symbol table, from the text of its `/proc/kallsyms` (kernel: `kernel/kallsyms.c`).

use crate::error::{ProbeError, SymbolsError};
use crate::root;
use std::path::Path;

/// A kernel function, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Address of its first instruction.
    pub address: u64,
    /// The function's name, without what the compiler appends to it for a part or a copy.
    pub function: String,
    /// The module that holds it; absent for what is built in.
    pub module: Option<String>,
    /// True if the compiler moved this part out of the function's body (`.cold`, `.part.0`).
    pub is_part: bool,
    /// Other names of the same address, the more informative ones first.
    pub aliases: Vec<String>,
}

impl Symbol {
    /// The source directory that `of` gives for the function's name or one of its aliases.
    pub fn directory(&self, of: &dyn Fn(&str, Option<&str>) -> Option<String>) -> Option<String> {
        let mut names = std::iter::once(&self.function).chain(&self.aliases);
        names.find_map(|name| of(name, self.module.as_deref()))
    }
}

/// The kernel's and its modules' functions by address.
#[derive(Clone, Debug)]
pub struct Symbols {
    /// In ascending order of address; `None` for data and for the end of the text.
    entries: Vec<(u64, Option<Symbol>)>,
}

/// The longest function, if no other symbol marks its end.
const LONGEST_BYTES: u64 = 64 * 1024;

impl Symbols {
    /// Reads the text of `/proc/kallsyms`: address, type, name and, for a module's, its name in brackets.
    /// Lines of another form are skipped.
    pub fn parse(text: &str) -> Result<Symbols, SymbolsError> {
        let mut lines: Vec<KallsymsLine<'_>> = text.lines().filter_map(KallsymsLine::parse).collect();
        if !lines.iter().any(|line| line.is_function) {
            return Err(SymbolsError::Empty);
        }
        lines.retain(|line| line.address != 0);
        if !lines.iter().any(|line| line.is_function) {
            return Err(SymbolsError::Hidden);
        }
        lines.sort_by(|a, b| {
            (a.address, !a.is_function, a.rank()).cmp(&(b.address, !b.is_function, b.rank()))
        });
        let entries = lines.chunk_by(|a, b| a.address == b.address);
        Ok(Symbols { entries: entries.map(|same| (same[0].address, symbol(same))).collect() })
    }

    /// The symbols of the kernel that runs here.
    ///
    /// # Errors
    /// [`ProbeError::Read`] if there is no `/proc/kallsyms`, [`ProbeError::Symbols`] if it shows this user no
    /// addresses.
    pub fn of_this_kernel() -> Result<Symbols, ProbeError> {
        Ok(Symbols::parse(&root::text(Path::new("/proc/kallsyms"))?)?)
    }

    /// The function that an address is in.
    pub fn find(&self, address: u64) -> Option<&Symbol> {
        let after = self.entries.partition_point(|(start, _)| *start <= address);
        let symbol = self.entries[..after].last()?.1.as_ref()?;
        (address - symbol.address < LONGEST_BYTES).then_some(symbol)
    }

    /// The address of a function that is built into the kernel.
    pub fn address_of(&self, function: &str) -> Option<u64> {
        let is_it =
            |symbol: &&Symbol| symbol.function == function && symbol.module.is_none() && !symbol.is_part;
        self.iter().find(is_it).map(|symbol| symbol.address)
    }

    /// All functions and their parts, in ascending order of address.
    pub fn iter(&self) -> impl Iterator<Item = &Symbol> {
        self.entries.iter().filter_map(|(_, symbol)| symbol.as_ref())
    }
}

/// The symbol of lines with one address; none if they name no function.
fn symbol(same: &[KallsymsLine<'_>]) -> Option<Symbol> {
    let (first, others) = same.split_first().filter(|(first, _)| first.is_function)?;
    let mut aliases: Vec<String> = Vec::new();
    for other in others.iter().filter(|other| other.is_function).map(|other| function(other.name)) {
        if other != function(first.name) && !aliases.iter().any(|alias| alias == other) {
            aliases.push(other.to_owned());
        }
    }
    Some(Symbol {
        address: first.address,
        function: function(first.name).to_owned(),
        module: first.module.map(str::to_owned),
        is_part: is_part(first.name),
        aliases,
    })
}

struct KallsymsLine<'a> {
    address: u64,
    is_function: bool,
    name: &'a str,
    module: Option<&'a str>,
}

impl<'a> KallsymsLine<'a> {
    /// A line, unless it is of another form or a mark inside the text.
    fn parse(line: &'a str) -> Option<KallsymsLine<'a>> {
        let mut words = line.split_ascii_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let kind = words.next()?;
        let name = words.next()?;
        let module = words.next().and_then(|module| module.strip_prefix('[')?.strip_suffix(']'));
        let is_text = matches!(kind, "t" | "T" | "w" | "W");
        if is_text && is_mark(name) {
            return None;
        }
        Some(KallsymsLine { address, is_function: is_text && !is_end(name), name, module })
    }

    /// The lower, the more informative: no padding before a function, no part, few leading underscores,
    /// short; the name itself only makes the choice the same everywhere.
    fn rank(&self) -> (bool, bool, usize, usize, &str) {
        let underscores = self.name.len() - self.name.trim_start_matches('_').len();
        (self.name.starts_with(PADDING), self.name.contains('.'), underscores, self.name.len(), self.name)
    }
}

/// The bytes before a function that CONFIG_CALL_PADDING reserves have a symbol of their own.
const PADDING: &str = "__pfx_";

/// Symbols of the linker script that begin or end a section and name no function.
fn is_mark(name: &str) -> bool {
    name.ends_with("text_start")
        || name.ends_with("text_end")
        || matches!(name, "_text" | "_stext" | "_sinittext")
}

/// Symbols of the linker script after which no function follows.
fn is_end(name: &str) -> bool {
    matches!(name, "_etext" | "_einittext" | "__init_end")
}

/// The function's name: without `.cold`, `.part.0`, `.isra.0`, `.constprop.0` and the padding's prefix.
fn function(name: &str) -> &str {
    let name = name.strip_prefix(PADDING).unwrap_or(name);
    match name.find('.') {
        Some(dot) if dot > 0 => &name[..dot],
        _ => name,
    }
}

fn is_part(name: &str) -> bool {
    name.starts_with(PADDING) || name.split('.').skip(1).any(|suffix| suffix == "cold" || suffix == "part")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "\
000000000000a000 A cpu_number
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000000 T startup_64
ffffffff81000100 T __x64_sys_getppid
ffffffff81000100 T __do_sys_getppid
ffffffff81000100 T __ia32_sys_getppid
ffffffff810001f0 t __pfx_blk_poll
ffffffff81000200 T blk_poll
ffffffff81000300 T __irqentry_text_start
ffffffff81000300 W memcpy
ffffffff81000300 T __memcpy
ffffffff81000380 t blk_poll.cold
ffffffff81000400 t mq_ops.isra.0
ffffffff81001000 T _etext
ffffffff81002000 d some_data
ffffffff82000000 T _sinittext
ffffffff82000000 T start_kernel
ffffffffc0001000 t nvme_poll\t[nvme]
ffffffffc0002000 r __func__.5\t[nvme]
ffffffffc0100000 t bpf_prog_6deef7357e7b4530\t[bpf]
";

    fn found(symbols: &Symbols, address: u64) -> Option<(String, Option<String>, bool)> {
        symbols
            .find(address)
            .map(|symbol| (symbol.function.clone(), symbol.module.clone(), symbol.address == address))
    }

    fn name(function: &str, is_entry: bool) -> Option<(String, Option<String>, bool)> {
        Some((function.to_owned(), None, is_entry))
    }

    #[test]
    fn addresses_find_their_function() {
        let symbols = Symbols::parse(TEXT).unwrap();
        assert_eq!(found(&symbols, 0xffffffff80ffffff), None);
        assert_eq!(found(&symbols, 0xffffffff81000000), name("startup_64", true));
        assert_eq!(found(&symbols, 0xffffffff81000200), name("blk_poll", true));
        assert_eq!(found(&symbols, 0xffffffff810002ff), name("blk_poll", false));
        assert_eq!(found(&symbols, 0xffffffff81000401), name("mq_ops", false));
        assert_eq!(found(&symbols, 0xffffffff82000001), name("start_kernel", false));
        let nvme = Some(("nvme_poll".to_owned(), Some("nvme".to_owned()), false));
        assert_eq!(found(&symbols, 0xffffffffc0001fff), nvme);
        let bpf = found(&symbols, 0xffffffffc0100000).unwrap();
        assert_eq!((bpf.1.as_deref(), bpf.2), (Some("bpf"), true));
    }

    #[test]
    fn data_the_end_of_the_text_and_what_is_too_far_are_no_function() {
        let symbols = Symbols::parse(TEXT).unwrap();
        for address in
            [0xffffffff81001000, 0xffffffff81001234, 0xffffffff81002001, 0xffffffffc0002000, 0xa001]
        {
            assert_eq!(found(&symbols, address), None, "{address:#x}");
        }
        assert!(symbols.find(0xffffffffc0100000 + LONGEST_BYTES - 1).is_some());
        assert_eq!(symbols.find(0xffffffffc0100000 + LONGEST_BYTES), None);
        assert_eq!(symbols.find(u64::MAX), None);
    }

    #[test]
    fn of_several_names_the_most_telling_is_chosen_whatever_their_order() {
        let mut lines: Vec<&str> = TEXT.lines().collect();
        for _ in 0..2 {
            let symbols = Symbols::parse(&lines.join("\n")).unwrap();
            let getppid = symbols.find(0xffffffff81000100).unwrap();
            assert_eq!(getppid.function, "__do_sys_getppid");
            assert_eq!(getppid.aliases, ["__x64_sys_getppid", "__ia32_sys_getppid"]);
            let memcpy = symbols.find(0xffffffff81000300).unwrap();
            assert_eq!(
                (memcpy.function.as_str(), memcpy.aliases.as_slice()),
                ("memcpy", &["__memcpy".to_owned()][..])
            );
            lines.reverse();
        }
    }

    #[test]
    fn parts_bear_the_functions_name() {
        let symbols = Symbols::parse(TEXT).unwrap();
        let parts: Vec<_> = symbols.iter().filter(|symbol| symbol.function == "blk_poll").collect();
        assert_eq!(parts.iter().map(|part| part.is_part).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(symbols.address_of("blk_poll"), Some(0xffffffff81000200));
        assert_eq!(symbols.address_of("nvme_poll"), None);
        assert_eq!(function("blk_mq_poll.part.0.constprop.3"), "blk_mq_poll");
        assert!(!is_part("a.isra.0") && is_part("a.isra.0.cold") && is_part("a.part.0"));
    }

    #[test]
    fn tables_without_functions_or_addresses_are_refused() {
        assert_eq!(Symbols::parse("").unwrap_err(), SymbolsError::Empty);
        assert_eq!(Symbols::parse("ffffffff81002000 d some_data\n").unwrap_err(), SymbolsError::Empty);
        let hidden = "0000000000000000 T _text\n0000000000000000 T blk_poll\n";
        assert_eq!(Symbols::parse(hidden).unwrap_err(), SymbolsError::Hidden);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(
            text in "([0-9a-f]{0,17}[ \t]?[tTwWdA ]? ?[a-z._]{0,8}(\t\\[[a-z]*\\]?)?\n?){0,20}",
            address: u64,
        ) {
            if let Ok(symbols) = Symbols::parse(&text) {
                let _ = symbols.find(address);
            }
        }

        #[test]
        fn whoever_is_found_begins_at_or_before(address in 0xffffffff80000000u64..=u64::MAX) {
            let symbols = Symbols::parse(TEXT).unwrap();
            if let Some(symbol) = symbols.find(address) {
                prop_assert!(symbol.address <= address);
            }
        }
    }
}
