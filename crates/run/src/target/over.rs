//! A target that is reached over fabrics: connecting and disconnecting between trials, and what both hosts
//! see over a window.

use super::access::{Access, Extent, Over};
use crate::error::TrialError;
use crate::fabric::{FabricSide, context_switches};
use iopj_core::{FabricEvidence, Transport};
use iopj_host::settings::DeviceLocks;
use iopj_probe::Probe;
use iopj_study::FabricCell;
use std::cell::Cell;
use std::sync::atomic::AtomicBool;

impl Access {
    /// The target is reached over fabrics.
    pub(crate) fn with_fabric(mut self, side: Option<FabricSide>) -> Access {
        self.over = side.map(|side| Over::Host(Box::new(side)));
        self
    }

    /// This host does the I/O on a drive of its own: the target host of a study, or the host on a drive like
    /// the target's.
    pub(crate) fn watch_alone(&mut self, transport: Transport) {
        self.over = Some(Over::Alone(transport, Cell::new(0)));
    }

    /// The other host, in a study over fabrics.
    pub(crate) fn side(&self) -> Option<&FabricSide> {
        match &self.over {
            Some(Over::Host(side)) => Some(side),
            _ => None,
        }
    }

    /// The other host, in a study over fabrics, to be asked for a trial.
    pub(crate) fn side_mut(&mut self) -> Option<&mut FabricSide> {
        match &mut self.over {
            Some(Over::Host(side)) => Some(side),
            _ => None,
        }
    }

    /// Connects to the drive as a cell wants it, in a study over fabrics, and opens what appears.
    ///
    /// # Errors
    /// Either host refuses, or the drive is not the same any more.
    pub(crate) fn connect(&mut self, cell: &FabricCell, stop: &AtomicBool) -> Result<(), TrialError> {
        self.disconnect()?;
        let Some(Over::Host(side)) = &mut self.over else { return Ok(()) };
        let device = side.connect_again(cell, stop)?;
        let host = side.host().clone();
        self.spec = self.spec.at(&device);
        let target = self.open_again()?;
        if Extent::of(&target) != self.extent {
            return Err(TrialError::Changed(format!(
                "{} came back over {} with another size, so it is not the same drive any more: start a new \
                 run",
                target.path().display(),
                cell.transport
            )));
        }
        let locks = host.lock(target.devices())?;
        let probe = Probe::new(target.devices())?;
        (self.settings, self.noted) = (host.settings(target.devices(), &locks), 0);
        self.hold(target, probe);
        Ok(())
    }

    /// Ends the connection, and changes this host's settings as a cell wants them that needs none.
    ///
    /// # Errors
    /// The connection does not go, or a setting cannot be made.
    pub(crate) fn stand_aside(&mut self, cell: &FabricCell) -> Result<(), TrialError> {
        self.disconnect()?;
        Ok(self.side_mut().map_or(Ok(()), |side| side.set_here(cell))?)
    }

    /// Looks at the connection while a trial runs.
    pub(crate) fn watch(&self) {
        if let Some(side) = self.side() {
            side.watch();
        }
    }

    /// What a trial gave, unless its connection broke.
    pub(crate) fn unbroken<T>(&self, done: Result<T, TrialError>) -> Result<T, TrialError> {
        match self.side().and_then(FabricSide::broken) {
            Some(broke) => Err(broke),
            None => done,
        }
    }

    /// Closes the drive and ends the connection to it, in a study over fabrics.
    ///
    /// # Errors
    /// A setting of the drive cannot be put back, or the connection does not go.
    pub(crate) fn disconnect(&mut self) -> Result<(), TrialError> {
        if self.side().is_none() {
            return Ok(());
        }
        self.let_go();
        let restored = self.settings.restore();
        // The next connection may have the name of this one: its lock is let go.
        let host = self.side().map(FabricSide::host);
        if let (Ok(_), Some(host)) = (&restored, host) {
            (self.settings, self.noted) = (host.settings(&[], &DeviceLocks::none()), 0);
        }
        self.side_mut().map_or(Ok(()), FabricSide::disconnect)?;
        Ok(restored.map(drop)?)
    }

    /// The window of the trial at this position is about to begin: the other host counts from now on. Returns
    /// what the drive has counted.
    ///
    /// # Errors
    /// The other host is gone, or the drive does not answer.
    pub(crate) fn begin_window(&self, position: u64) -> Result<Option<[u64; 2]>, TrialError> {
        let counted = self.counted()?;
        match &self.over {
            Some(Over::Host(side)) => side.begin_window(position)?,
            Some(Over::Alone(_, before)) => before.set(context_switches()),
            None => {}
        }
        Ok(counted)
    }

    /// A window has ended. Returns what the drive has counted.
    ///
    /// # Errors
    /// As for [`Access::begin_window`].
    pub(crate) fn end_window(&self) -> Result<Option<[u64; 2]>, TrialError> {
        let seen = match &self.over {
            Some(Over::Host(side)) => side.end_window()?,
            Some(Over::Alone(transport, before)) => Some(FabricEvidence {
                transport: *transport,
                context_switches: context_switches().saturating_sub(before.get()),
                ..FabricEvidence::default()
            }),
            None => None,
        };
        self.seen.replace(seen);
        self.counted()
    }

    /// What both hosts saw over the last window.
    pub(crate) fn fabric_evidence(&self) -> Option<FabricEvidence> {
        self.seen.take()
    }
}
