//! From a kernel function to the folder of its source file, by kernel series.
//!
//! The table is made from kernel sources by `cargo xtask kernel-functions`, with the configurations of
//! Debian's x86-64 kernels, and is in `data/functions.gz`. It says only what is certain.

mod arm64;
mod names;
mod table;

use table::FunctionTable;

/// A kernel's series, such as 5.10.
pub type Series = (u32, u32);

/// The folder of the source file that defines `function`, with a slash at its end (`drivers/nvme/host/`), in
/// the kernel `release` as `uname -r` says it (`5.10.0-46-amd64`); `module` is the name in brackets in
/// `/proc/kallsyms`.
///
/// Suffixes that compilers give to parts and copies of functions do not matter. A header's inline function
/// that was compiled separately belongs to the header. `None` means that the table does not know the
/// function, or knows it in several folders that may all be meant. In a kernel that is not Debian's (by its
/// release) that is every folder with code that Debian builds, because such a kernel may build in what is a
/// module in Debian's.
///
/// In a kernel for 64-bit Arm (Debian's `-arm64`) what x86 alone has is left out, and what Arm alone has
/// comes from a list of its own.
///
/// A release of a [series](series()) outside the table gives `None`, unless it is between two series of the
/// table that both have the function in the same single folder.
pub fn directory(release: &str, function: &str, module: Option<&str>) -> Option<&'static str> {
    let (series, name) = (parse(release)?, names::plain(function));
    let found = in_table(release, series, name, module);
    if !release.ends_with("-arm64") {
        return found;
    }
    let of_arm = || arm64::folder(name).filter(|_| module.is_none());
    found.filter(|folder| !folder.starts_with("arch/x86/")).or_else(of_arm)
}

/// The folder by the table alone.
fn in_table(release: &str, series: Series, name: &str, module: Option<&str>) -> Option<&'static str> {
    let table = FunctionTable::get();
    let debian = release.ends_with("-amd64") && !release.contains("-rt-");
    let after = table.series().partition_point(|known| *known < series);
    if table.series().get(after) == Some(&series) {
        return table.folder(after, name, module, debian);
    }
    let older = table.folder(after.checked_sub(1)?, name, module, debian)?;
    let newer = (after < table.series().len()).then(|| table.folder(after, name, module, debian))??;
    (older == newer).then_some(older)
}

/// The kernel series that the table covers, oldest first.
pub fn series() -> &'static [Series] {
    FunctionTable::get().series()
}

/// The series of a kernel release: its first two numbers.
fn parse(release: &str) -> Option<Series> {
    let (major, rest) = release.split_once('.')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some((major.parse().ok()?, rest[..end].parse().ok()?))
}

#[cfg(test)]
mod tests;
