//! `iopj import`: results of other programs as a store.

use crate::args::{ImportArgs, ImportFormat};
use crate::output::{print, print_json};
use iopj_report::escape;
use std::process::ExitCode;

pub(crate) fn import(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let ImportFormat::Fio { files, store, kernel, json } = &args.format;
    let imported = iopj_import::fio(files, store, *kernel)?;
    if *json {
        print_json(&serde_json::to_value(&imported)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&format!("{imported}\nstore: {}\n", escape(&store.display().to_string())))?;
    Ok(ExitCode::SUCCESS)
}
