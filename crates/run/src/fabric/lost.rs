//! What breaks while a study over fabrics runs, the connection or the agent: found, said, and made anew.

use super::ask::Opened;
use super::clock::Clocks;
use super::side::FabricSide;
use crate::error::TrialError;
use iopj_fabric::FabricError;
use iopj_host::settings::SettingsError;
use iopj_study::FabricCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a target host that was there before is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is tried meanwhile.
const BETWEEN_TRIES: Duration = Duration::from_secs(1);

impl FabricSide {
    /// Looks at the connection while a trial runs. The kernel takes at least `reconnect_delay`, two seconds,
    /// to make a broken one anew, so a look each second finds it.
    pub(crate) fn watch(&self) {
        if let Some((_, connected)) = &self.connected {
            let is_live =
                self.host().controller_state(&connected.controller).is_some_and(|state| state == "live");
            self.trouble.broke.set(self.trouble.broke.get() || !is_live);
        }
    }

    /// Why the trial that has just run does not count, if its connection broke.
    pub(crate) fn broken(&self) -> Option<TrialError> {
        let (connect, connected) = self.connected.as_ref()?;
        // What the target sent before it ended the connection arrives before the end does, so the I/Os of a
        // trial may all be done on one that is dead.
        self.host().try_connection(&connected.controller);
        self.watch();
        // An agent that was lost took its export with it, and says so itself.
        if !self.trouble.broke.get() || self.trouble.no_agent.get() {
            return None;
        }
        let now = match self.host().controller_state(&connected.controller).as_deref() {
            Some("live") => "came back, so its figures are not those of the path".to_owned(),
            Some(state) if !state.starts_with("deleting") => {
                format!("is not back (the controller is {state})")
            }
            _ => {
                let limit = connect.options.get("ctrl_loss_tmo");
                format!(
                    "was given up{}",
                    limit.map_or_else(String::new, |s| format!(" after ctrl_loss_tmo, {s} s"))
                )
            }
        };
        Some(TrialError::Broke { host: self.host_name(), place: connect.place(), now })
    }

    /// Reaches the drive as [`FabricSide::connect`] does. If the target is away, and was there before, it is
    /// waited for; then there are a new agent, if it was lost, and a new export.
    ///
    /// # Errors
    /// As for [`FabricSide::connect`], from the last try.
    pub(crate) fn connect_again(
        &mut self,
        cell: &FabricCell,
        stop: &AtomicBool,
    ) -> Result<PathBuf, TrialError> {
        let mut is_first = true;
        let device = self.patiently(stop, |side| {
            if !std::mem::take(&mut is_first) {
                // Whatever broke the connection may have harmed the export.
                side.unexport()?;
            }
            side.connect(cell)
        })?;
        self.may_be_waited_for();
        Ok(device)
    }

    /// The target has been reached: if it is away later, it may come back.
    pub(crate) fn may_be_waited_for(&self) {
        self.trouble.may_come_back.set(true);
    }

    /// Sees to it that the agent answers.
    ///
    /// # Errors
    /// It was lost, and no other starts.
    pub(crate) fn agent_again(&mut self, stop: &AtomicBool) -> Result<(), TrialError> {
        self.patiently(stop, |_| Ok(()))
    }

    /// True if the agent was lost, and no other started.
    pub(crate) fn has_no_agent(&self) -> bool {
        self.client.is_none() && self.trouble.no_agent.get()
    }

    fn patiently<T>(
        &mut self,
        stop: &AtomicBool,
        mut work: impl FnMut(&mut Self) -> Result<T, TrialError>,
    ) -> Result<T, TrialError> {
        let until = Instant::now() + PATIENCE;
        loop {
            let revived = self.revive(stop);
            // A new agent is refused the drive for as long as the lost one is being cleaned up after.
            let has_none = revived.as_ref().is_err_and(|error| !matches!(error, TrialError::Changed(_)));
            let done = revived.and_then(|()| work(self));
            let Err(error) = &done else { return done };
            let is_away = has_none || is_away(error);
            let is_over = Instant::now() > until || stop.load(Ordering::Relaxed);
            if is_over || !is_away || !self.trouble.may_come_back.get() {
                // What did not come back is not waited for again.
                self.trouble.may_come_back.set(!is_away && self.trouble.may_come_back.get());
                return done;
            }
            thread::sleep(BETWEEN_TRIES);
        }
    }

    /// Starts another agent in the place of one that was lost. What that one had made is taken back by its
    /// guardian.
    fn revive(&mut self, stop: &AtomicBool) -> Result<(), TrialError> {
        if !self.trouble.no_agent.get() {
            return Ok(());
        }
        self.client = None;
        self.exported = None;
        self.may_be_given_again()?;
        // A host that was started again has another clock.
        self.clocks.replace(Clocks::default());
        let before = self.opened.take();
        let of = |opened: &Option<Opened>| {
            opened.as_ref().map(|opened| (identity(&opened.provenance), opened.bytes))
        };
        let started = self.start_agent(stop);
        let is_same = of(&before) == of(&self.opened);
        if started.is_err() || !is_same {
            // The drive of the run stays the one that it began with.
            (self.client, self.opened) = (None, before);
        }
        started?;
        if !is_same {
            let host = self.host_name();
            return Err(TrialError::Changed(format!(
                "{host}: the drive there is not the same any more: start a new run"
            )));
        }
        self.trouble.no_agent.set(false);
        Ok(())
    }

    /// Refuses to go on with another agent where it cannot be known that the drive is the same.
    fn may_be_given_again(&self) -> Result<(), TrialError> {
        let host = self.host_name();
        if self.keys.folder.is_some() {
            return Err(TrialError::Changed(format!(
                "{host}: the agent was lost, and the file that it had made went with it: `iopj run --resume` \
                 makes a new one"
            )));
        }
        let opened = self.opened.as_ref();
        if self.writes && !opened.is_some_and(|opened| has_serial(&opened.provenance)) {
            return Err(TrialError::Changed(format!(
                "{host}: the agent was lost, and the drive there has no serial number that tells it from \
                 another, so no more is written: see to the agent, then `iopj run --resume`"
            )));
        }
        Ok(())
    }
}

/// True if a drive among these facts has a serial number.
fn has_serial(facts: &BTreeMap<String, String>) -> bool {
    facts.keys().any(|name| name.ends_with(".serial"))
}

/// True if the target or its agent does not answer, where others are refused.
fn is_away(error: &TrialError) -> bool {
    match error {
        TrialError::Settings(SettingsError::NotConnected { is_away, .. }) => *is_away,
        TrialError::Fabric(error) => !matches!(error, FabricError::Refused { .. }),
        _ => false,
    }
}

/// What tells a drive from others, among the facts about it.
fn identity(facts: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let is_of_drive = |name: &str| [".serial", ".model", ".sectors"].iter().any(|end| name.ends_with(end));
    let own = facts.iter().filter(|(name, _)| is_of_drive(name));
    own.map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_is_away_is_told_from_one_that_refuses() {
        let not_connected = |is_away| {
            let (place, reason) = ("10.1.0.1".to_owned(), "no".to_owned());
            TrialError::Settings(SettingsError::NotConnected { place, reason, is_away })
        };
        let (host, reason) = ("storage1".to_owned(), "no".to_owned());
        assert!(is_away(&not_connected(true)) && !is_away(&not_connected(false)));
        assert!(is_away(&FabricError::Lost { host: host.clone(), reason: reason.clone() }.into()));
        assert!(!is_away(&FabricError::Refused { host, reason }.into()));
        assert!(!is_away(&TrialError::Changed("it is another drive".to_owned())));
    }

    /// Another drive behind the same name would be overwritten.
    #[test]
    fn a_drive_is_known_by_its_serial_its_model_and_its_size() {
        let facts = |serial: &str, kernel: &str| {
            let all = [("nvme0n1.serial", serial), ("nvme0n1.sectors", "2048"), ("kernel", kernel)];
            all.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
        };
        assert_eq!(identity(&facts("S1", "6.12")), identity(&facts("S1", "6.18")));
        assert_ne!(identity(&facts("S1", "6.12")), identity(&facts("S2", "6.12")));
    }
}
