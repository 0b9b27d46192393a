//! `cargo xtask kernel-functions`: makes iopj-probe's table of kernel functions and their source folders from
//! kernel source trees. Each tree is unpacked and has the `.config` of Debian's x86-64 kernel of its series;
//! the table describes that kernel. No compiler runs: the sources and makefiles are read as far as the table
//! needs them.

mod config;
mod expand;
mod kbuild;
mod macros;
mod reader;
mod scan;
mod table;
mod tree;

use crate::options::{Options, Usage};
use crate::shell;
use crate::workspace::Workspace;
use anyhow::Result;
use flate2::{Compression, write::GzEncoder};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use table::Table;

/// The table's path in the repository.
const TABLE: &str = "crates/probe/data/functions.gz";

pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<()> {
    let mut trees = Vec::new();
    for tree in options.rest()? {
        let root = PathBuf::from(tree);
        trees.push((tree::series(&root)?, root));
    }
    if trees.is_empty() {
        return Err(Usage("name the kernel source trees".to_owned()).into());
    }
    trees.sort_by_key(|(series, _)| {
        series.split('.').map(|number| number.parse().unwrap_or(0)).collect::<Vec<u32>>()
    });
    let mut table = Table::new();
    for (number, (series, root)) in trees.iter().enumerate() {
        let definitions = shell::timed(&format!("functions of {series}"), || tree::definitions(root))?;
        table::add(&mut table, definitions, number);
    }
    let series: Vec<String> = trees.into_iter().map(|(series, _)| series).collect();
    let text = table::text(&table, &series);
    let path = workspace.root.join(TABLE);
    let mut file = GzEncoder::new(File::create(&path)?, Compression::best());
    file.write_all(text.as_bytes())?;
    let bytes = file.finish()?.metadata()?.len();
    println!(
        "{}: {} lines, {} KiB, {} KiB compressed",
        path.display(),
        text.lines().count(),
        text.len() / 1024,
        bytes / 1024
    );
    Ok(())
}
