//! The window of a trial as both hosts see it: where it begins and ends on each, and what they counted.

use super::ask::Ask;
use super::clock::Clock;
use super::counts::{between, context_switches};
use super::side::{Began, FabricSide};
use crate::error::TrialError;
use iopj_core::fabric::TargetHostEvidence;
use iopj_core::{FabricEvidence, Transport};
use iopj_meter::monotonic_raw_ns;
use iopj_probe::{Nics, marker};
use std::collections::BTreeMap;

impl FabricSide {
    /// The window of the trial at this position begins on both hosts. While the target host rests, this one
    /// waits for it, and so rests too.
    ///
    /// # Errors
    /// The agent is gone, or cannot read its counters.
    pub(crate) fn begin_window(&self, position: u64) -> Result<(), TrialError> {
        let began_ns = monotonic_raw_ns();
        marker::announce(position as u32 | marker::AT_REST);
        marker::begin();
        let rested = self.ask::<Option<u64>>(&Ask::Begin { position });
        marker::end();
        let waited_ns = monotonic_raw_ns() - began_ns;
        marker::announce(position as u32);
        let rest_ns = rested?.flatten().map(|there| [waited_ns, there]);
        let nics = self.nics.as_ref().map(Nics::sample).transpose()?;
        self.window.replace(Some(Began { rest_ns, context_switches: context_switches(), nics }));
        Ok(())
    }

    /// What both hosts saw since the window began.
    ///
    /// # Errors
    /// As for [`FabricSide::begin_window`].
    pub(crate) fn end_window(&self) -> Result<Option<FabricEvidence>, TrialError> {
        let Some(began) = self.window.take() else { return Ok(None) };
        let context_switches = context_switches().saturating_sub(began.context_switches);
        let last = self.nics.as_ref().map(Nics::sample).transpose()?;
        let nics = between(self.nics.as_ref(), began.nics, last);
        let target = self.ask::<TargetHostEvidence>(&Ask::End)?;
        let Clock { offset_ns, uncertainty_ns, .. } = self.clocks.borrow().last();
        let target = target.map(|target| TargetHostEvidence {
            clock_offset_ns: offset_ns,
            clock_uncertainty_ns: uncertainty_ns,
            rest_ns: began.rest_ns.map(|[_, there]| there),
            ..target
        });
        let (transport, connection) = match &self.connected {
            Some((connect, connected)) => {
                let named = self.host.transport(&connected.controller);
                let options = connect.options.iter().map(|(name, value)| (name.clone(), value.to_string()));
                let has_proven = self.must_prove && self.host.has_secret(&connected.controller);
                let proven = ("authenticated".to_owned(), has_proven.to_string());
                (named.unwrap_or(connect.transport), options.chain([proven]).collect())
            }
            None => (Transport::Local, BTreeMap::new()),
        };
        let rest_ns = began.rest_ns.map(|[here, _]| here);
        Ok(Some(FabricEvidence { transport, connection, context_switches, rest_ns, nics, target }))
    }
}
