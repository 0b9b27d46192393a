//! `iopj export`: a store in a format for other programs.

use crate::args::ExportArgs;
use crate::opened::open;
use crate::output::{Form, print_json, print_written};
use iopj_record::export::Detail;
use std::process::ExitCode;

pub(crate) fn export(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let store = open(&args.store)?;
    if let Some(watch) = store.watch()?.filter(|_| !args.format.csv) {
        print_json(&serde_json::to_value(&watch)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.format.csv {
        print_written(Form::Text, |out| store.write_csv(out))?;
    } else {
        print_written(Form::Json, |out| store.write_json(Detail::Full, out))?;
    }
    Ok(ExitCode::SUCCESS)
}
