//! The table itself: the folder of a function by its name, its module and its series; unpacked once.

use super::{Series, names};
use flate2::read::GzDecoder;
use std::collections::BTreeSet;
use std::io::Read;
use std::sync::OnceLock;

/// The table as `cargo xtask kernel-functions` writes it.
const PACKED: &[u8] = include_bytes!("../../data/functions.gz");
/// The folder that represents any outside the table.
const ELSEWHERE: &str = "?";
/// Folders with headers for all of the kernel.
const SHARED: &[&str] = &["include/", "arch/x86/include/"];

/// What a function becomes a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit<'a> {
    BuiltIn,
    /// Whatever includes the header.
    Header,
    Module(&'a str),
    /// Nothing in Debian's kernels.
    Unbuilt,
}

/// Functions of one folder that become a part of the same.
#[derive(Debug)]
struct Block {
    folder: &'static str,
    unit: Unit<'static>,
    /// Series that have any of them, a bit each.
    series: u32,
}

/// Functions by name, and where the series have them.
#[derive(Debug)]
pub(super) struct FunctionTable {
    series: Vec<Series>,
    blocks: Vec<Block>,
    /// Name, number of the block, and the series, a bit each; sorted.
    functions: Vec<(&'static str, u16, u32)>,
}

impl FunctionTable {
    /// The only table there is.
    pub(super) fn get() -> &'static FunctionTable {
        static TABLE: OnceLock<FunctionTable> = OnceLock::new();
        static TEXT: OnceLock<String> = OnceLock::new();
        TABLE.get_or_init(|| FunctionTable::parse(TEXT.get_or_init(unpack)))
    }

    fn parse(text: &'static str) -> FunctionTable {
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default().trim_start_matches("series ");
        let series: Vec<Series> = first.split(' ').filter_map(super::parse).collect();
        let all = u32::MAX >> 32_usize.saturating_sub(series.len()).min(31);
        let mut table = FunctionTable { series, blocks: Vec::new(), functions: Vec::new() };
        for line in lines {
            let (word, second) = line.trim_start_matches(' ').split_once(' ').unwrap_or((line.trim(), ""));
            if !line.starts_with(' ') {
                table.blocks.push(Block { folder: word, unit: unit(second), series: 0 });
            } else if let (Ok(number), Some(block)) =
                (u16::try_from(table.blocks.len()), table.blocks.last_mut())
            {
                let bits = u32::from_str_radix(second, 16).unwrap_or(all);
                table.functions.push((word, number - 1, bits));
                block.series |= bits;
            }
        }
        table.functions.sort_unstable();
        table
    }

    pub(super) fn series(&self) -> &[Series] {
        &self.series
    }

    /// The folder of a function in one of the series, by number. `debian` says that the kernel is Debian's
    /// own: the table knows what of it is built in, a module, or neither; in others all of this may differ.
    pub(super) fn folder(
        &self,
        series: usize,
        name: &str,
        module: Option<&str>,
        debian: bool,
    ) -> Option<&'static str> {
        let mut blocks = self.blocks_of(series, name);
        if let (true, Some(kin)) = (blocks.is_empty(), names::kin(name)) {
            blocks = self.blocks_of(series, &kin);
        }
        let unit = module.map_or(Unit::BuiltIn, Unit::Module);
        let known = module.is_none() || self.blocks_near(series, unit, "").next().is_some();
        // Of a module outside the table only what it takes from headers can be known.
        let meant = |block: &Block| match block.unit {
            Unit::Header => self.sees(series, unit, block.folder),
            own if known => own == unit,
            _ => block.folder == ELSEWHERE,
        };
        let folders = |holds: &dyn Fn(&Block) -> bool| -> BTreeSet<&'static str> {
            blocks.iter().filter(|block| holds(block)).map(|block| block.folder).collect()
        };
        if debian || module.is_some() && known {
            return only(&folders(&meant));
        }
        let built = folders(&|block| meant(block) || matches!(block.unit, Unit::BuiltIn | Unit::Module(_)));
        if built.is_empty() { only(&folders(&|_| true)) } else { only(&built) }
    }

    /// Blocks of a series that have a function.
    fn blocks_of(&self, series: usize, name: &str) -> Vec<&Block> {
        let first = self.functions.partition_point(|(known, ..)| *known < name);
        let same = self.functions[first..].iter().take_while(|(known, ..)| *known == name);
        let here = same.filter(|(.., bits)| bits >> series & 1 == 1);
        here.map(|(_, block, _)| &self.blocks[usize::from(*block)]).collect()
    }

    /// Whether code of `unit` may include headers of `folder`: those for all, and those of its own
    /// neighbourhood.
    fn sees(&self, series: usize, unit: Unit<'_>, folder: &str) -> bool {
        SHARED.iter().any(|shared| folder.starts_with(shared))
            || self.blocks_near(series, unit, folder).next().is_some()
    }

    /// Blocks of a unit in `folder`, below it or above it.
    fn blocks_near(&self, series: usize, unit: Unit<'_>, folder: &str) -> impl Iterator<Item = &Block> {
        let near = move |block: &&Block| block.folder.starts_with(folder) || folder.starts_with(block.folder);
        self.blocks
            .iter()
            .filter(move |block| block.unit == unit && block.series >> series & 1 == 1)
            .filter(near)
    }
}

/// The folder, if there is only one and it is known.
fn only(folders: &BTreeSet<&'static str>) -> Option<&'static str> {
    let first = folders.first().copied().filter(|first| *first != ELSEWHERE)?;
    (folders.len() == 1).then_some(first)
}

fn unit<'a>(word: &'a str) -> Unit<'a> {
    match word {
        "built-in" => Unit::BuiltIn,
        "header" => Unit::Header,
        "unbuilt" => Unit::Unbuilt,
        module => Unit::Module(module),
    }
}

/// The table's text. A damaged table is cut short; the tests check that this one is whole.
fn unpack() -> String {
    let mut text = String::new();
    let _ = GzDecoder::new(PACKED).read_to_string(&mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_table_is_whole_and_sorted() {
        let mut text = String::new();
        GzDecoder::new(PACKED).read_to_string(&mut text).unwrap();
        let mut lines = text.lines();
        assert!(lines.next().unwrap().starts_with("series 5.10 6.1 "));
        let (mut block, mut name) = ("", "");
        for line in lines {
            match line.strip_prefix(' ') {
                None => {
                    let (folder, unit) = line.split_once(' ').unwrap();
                    assert!(folder == ELSEWHERE || folder.ends_with('/'), "{line}");
                    assert!(!unit.is_empty() && !unit.contains(' '), "{line}");
                    let folder_before = block.split(' ').next().unwrap_or_default();
                    assert!(folder_before <= folder && block != line, "{line} after {block}");
                    (block, name) = (line, "");
                }
                Some(function) => {
                    let (function, bits) = function.split_once(' ').unwrap_or((function, "1"));
                    assert!(name < function, "{function} after {name} in {block}");
                    assert!(u32::from_str_radix(bits, 16).is_ok_and(|bits| bits > 0), "{line}");
                    name = function;
                }
            }
        }
        let table = FunctionTable::get();
        assert!(table.series.is_sorted() && table.blocks.len() < usize::from(u16::MAX));
        assert!(table.functions.len() > 100_000);
    }

    fn small() -> FunctionTable {
        FunctionTable::parse(
            "series 5.10 6.1\n? any\n far\nblock/ built-in\n both\n moved 1\n one\ndrivers/a/ a\n both\n \
             far\n own\ndrivers/a/ header\n inline\ndrivers/b/ b\n alone\n both\n own\nmm/ built-in\n \
             both\n moved 2\ninclude/linux/ header\n inline\nkernel/ unbuilt\n left_out\n one\n",
        )
    }

    #[test]
    fn a_function_is_looked_for_where_its_unit_can_have_it() {
        let table = small();
        let folder = |series, name, module| table.folder(series, name, module, true);
        assert_eq!(folder(0, "one", None), Some("block/"));
        assert_eq!(folder(0, "moved", None), Some("block/"));
        assert_eq!(folder(1, "moved", None), Some("mm/"));
        assert_eq!(folder(0, "both", None), None);
        assert_eq!(folder(0, "both", Some("b")), Some("drivers/b/"));
        assert_eq!(folder(0, "own", Some("a")), Some("drivers/a/"));
        assert_eq!(folder(0, "own", None), None);
        assert_eq!(folder(0, "one", Some("a")), None);
        assert_eq!(folder(0, "inline", Some("a")), None);
        assert_eq!(folder(0, "inline", Some("b")), Some("include/linux/"));
        assert_eq!(folder(0, "inline", Some("strange")), Some("include/linux/"));
        assert_eq!(folder(0, "far", Some("a")), Some("drivers/a/"));
        assert_eq!(folder(0, "far", Some("strange")), None);
        assert_eq!(folder(0, "one", Some("strange")), None);
        assert_eq!(folder(0, "none", None), None);
    }

    #[test]
    fn in_a_kernel_of_another_make_every_built_definition_may_be_meant() {
        let table = small();
        let folder = |name, module| table.folder(0, name, module, false);
        assert_eq!(folder("one", None), Some("block/"));
        assert_eq!(folder("own", Some("a")), Some("drivers/a/"));
        assert_eq!(folder("own", None), None);
        assert_eq!(folder("far", None), None);
        assert_eq!(folder("alone", None), Some("drivers/b/"));
        assert_eq!(folder("left_out", None), Some("kernel/"));
        assert_eq!(folder("moved", Some("strange")), Some("block/"));
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_parser(text in "(series|[a-z/]* [a-z]*| [a-z]+ [0-9a-f]*|\n| ){0,40}") {
            FunctionTable::parse(Box::leak(text.into_boxed_str()));
        }
    }
}
