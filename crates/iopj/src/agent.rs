//! `iopj agent`: the target host's side of a run over fabrics; and the guardian of either side.

use crate::output::FAILURES;
use iopj_fabric::Served;
use iopj_fabric::guardian::{Guardian, guard as wait_and_restore};
use iopj_host::settings::Host;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

pub(crate) fn agent(rest_ms: Option<u64>) -> anyhow::Result<ExitCode> {
    if io::stdin().is_terminal() {
        anyhow::bail!(
            "the agent speaks to another iopj, not to a terminal: `iopj run` starts it over ssh for a study \
             with [fabric]"
        );
    }
    // What it leaves changed if it is killed, the guardian puts back.
    let _guardian = Guardian::start()?;
    let served = iopj_run::serve_agent(io::stdin(), io::stdout(), rest_ms.map(Duration::from_millis))?;
    if let Served::Unreadable(why) = served {
        anyhow::bail!("the host at the other end is not understood: {why}; speak to the agent by `iopj run`");
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn guard(guarded: u32) -> anyhow::Result<ExitCode> {
    Ok(if wait_and_restore(&Host::new(), guarded) { ExitCode::SUCCESS } else { ExitCode::from(FAILURES) })
}
