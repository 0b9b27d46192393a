//! The table's text: `series` and the kernel series, then one line per folder and unit. The lines below it,
//! each after a space, are its functions, with the series that have it as hexadecimal bits unless all have
//! it.

use super::kbuild::Unit;
use super::tree::Definition;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Folders whose modules the table has, because an I/O may run or meet them. The table has everything that is
/// built in.
const MODULES: &str = "\
    arch/x86/ block/ crypto/ drivers/acpi/ drivers/block/ drivers/cpufreq/ drivers/cpuidle/ drivers/dax/ \
    drivers/idle/ drivers/infiniband/core/ drivers/infiniband/sw/ drivers/iommu/ drivers/md/ \
    drivers/net/ethernet/intel/e1000/ drivers/net/ethernet/intel/e1000e/ drivers/nvdimm/ drivers/nvme/ \
    drivers/pci/ drivers/vfio/ drivers/virtio/ fs/btrfs/ fs/configfs/ fs/ext4/ fs/f2fs/ fs/fuse/ fs/iomap/ \
    fs/jbd2/ fs/overlayfs/ fs/xfs/ include/ io_uring/ kernel/ lib/ mm/ net/core/ net/ipv4/ net/ipv6/ \
    net/packet/ net/sched/ net/tls/ security/ virt/";
/// Folders whose own modules count, but not those of the folders below.
const FLAT: &[&str] = &["drivers/ata/", "drivers/net/", "drivers/scsi/", "fs/", "net/"];
/// Folders for which the table also has what Debian leaves out, because other kernels have it.
const UNBUILT: &str = "\
    arch/x86/entry/ arch/x86/include/ arch/x86/kernel/ arch/x86/lib/ arch/x86/mm/ block/ drivers/nvme/ \
    include/linux/ io_uring/ kernel/ lib/ mm/";
/// The folder of functions outside the table.
const ELSEWHERE: &str = "?";
/// The module that represents any outside the table.
const ANY: &str = "any";

/// Folder and unit of a function in the table, and the series that have it there, one bit each.
pub(super) type Table = BTreeMap<(String, Unit), BTreeMap<String, u32>>;

/// Adds the definitions of the series `number`, counted from 0.
pub(super) fn add(table: &mut Table, definitions: BTreeSet<Definition>, number: usize) {
    let built_in = definitions.iter().filter(|definition| definition.unit == Unit::BuiltIn);
    let built_in: BTreeSet<String> = built_in.map(|definition| definition.folder.clone()).collect();
    let (held, others): (Vec<_>, Vec<_>) =
        definitions.into_iter().partition(|definition| is_held(definition, &built_in));
    let names: BTreeSet<String> = held.iter().map(|definition| definition.name.clone()).collect();
    for Definition { name, folder, unit } in held {
        *table.entry((folder, unit)).or_default().entry(name).or_default() |= 1 << number;
    }
    // A name that the table knows but other code uses too must not count as the table's.
    for Definition { name, unit, .. } in
        others.into_iter().filter(|definition| names.contains(&definition.name))
    {
        let unit = if unit == Unit::Unbuilt { unit } else { Unit::Module(ANY.to_owned()) };
        *table.entry((ELSEWHERE.to_owned(), unit)).or_default().entry(name).or_default() |= 1 << number;
    }
}

/// Whether the table has a definition; `built_in` are the folders with code that is built in.
fn is_held(definition: &Definition, built_in: &BTreeSet<String>) -> bool {
    let folder = definition.folder.as_str();
    let within = |folders: &str| folders.split_whitespace().any(|held| folder.starts_with(held));
    match definition.unit {
        Unit::BuiltIn => true,
        Unit::Header if built_in.contains(folder) => true,
        Unit::Header | Unit::Module(_) => within(MODULES) || FLAT.contains(&folder),
        Unit::Unbuilt => within(UNBUILT) || folder == "fs/",
    }
}

/// The table's text for `series`, in the order of their bits.
pub(super) fn text(table: &Table, series: &[String]) -> String {
    let all = (1_u32 << series.len()) - 1;
    let mut text = format!("series {}\n", series.join(" "));
    for ((folder, unit), functions) in table {
        let unit = match unit {
            Unit::BuiltIn => "built-in",
            Unit::Header => "header",
            Unit::Module(name) => name,
            Unit::Unbuilt => "unbuilt",
        };
        let _ = writeln!(text, "{folder} {unit}");
        for (name, bits) in functions {
            let _ = if *bits == all { writeln!(text, " {name}") } else { writeln!(text, " {name} {bits:x}") };
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(name: &str, folder: &str, unit: Unit) -> Definition {
        Definition { name: name.to_owned(), folder: folder.to_owned(), unit }
    }

    #[test]
    fn the_text_has_blocks_names_and_series() {
        let mut table = Table::new();
        let nvme = || definition("nvme_poll", "drivers/nvme/host/", Unit::Module("nvme".to_owned()));
        let poll = || definition("blk_poll", "block/", Unit::BuiltIn);
        let far = || definition("blk_poll", "drivers/gpu/drm/x/", Unit::Module("x".to_owned()));
        let unheld = || definition("x_poll", "drivers/gpu/drm/x/", Unit::Module("x".to_owned()));
        add(&mut table, BTreeSet::from([nvme(), poll(), far(), unheld()]), 0);
        add(&mut table, BTreeSet::from([nvme()]), 1);
        let expected = "series 5.10 6.1\n? any\n blk_poll 1\nblock/ built-in\n blk_poll \
                        1\ndrivers/nvme/host/ nvme\n nvme_poll\n";
        assert_eq!(text(&table, &["5.10".to_owned(), "6.1".to_owned()]), expected);
    }
}
