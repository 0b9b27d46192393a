//! A campaign over the user's own ssh: some hosts at a time. A job goes on when its connection breaks.

use crate::campaign::{BySsh, Campaign};
use crate::each::each;
use crate::error::FleetError;
use crate::files;
use crate::hosts::destination;
use crate::job::{Drive, Look, Phase, State, TOO_LATE};
use crate::queue::{Next, Queue, Turn};
use crate::transfer;
use iopj_fabric::{Control, FabricError, push};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a lost connection is tried again before its host is given up.
const PATIENCE: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_millis(100);
/// How much of an answer that is none a message quotes, in characters.
const LONGEST_QUOTE: usize = 200;
/// The file of a campaign that every host gets.
const TOLD: &str = "job.json";

/// A campaign over ssh, and what is needed to run it.
pub struct Ssh<'a> {
    campaign: &'a Campaign,
    by: &'a BySsh,
    /// Set by Ctrl-C.
    stop: &'a AtomicBool,
    say: &'a (dyn Fn(&str) + Sync),
}

/// A host that does not do what it is asked, as its record says it.
struct Failure(Phase, String);

impl From<FabricError> for Failure {
    fn from(error: FabricError) -> Failure {
        Failure(Phase::Lost, error.to_string())
    }
}

/// What is known of a job that is not followed any more.
enum End {
    /// It has ended.
    Known,
    /// It may go on.
    Unknown,
}

/// A connection to one host.
struct Session {
    control: Control,
    command: String,
    /// As a shell reads it.
    folder: String,
}

impl Session {
    /// Asks there about the job, or for something to be done with it.
    fn ask(&self, what: &str, stop: &AtomicBool) -> Result<Look, Failure> {
        let Session { control, command, folder } = self;
        let answer = control.ask(&format!("{command} fleet job {folder} {what}"), stop);
        let answer = answer.map_err(|error| {
            let text = error.to_string();
            let is_missing = text.contains("exit status: 127");
            let has_no_fleet = text.contains("exit status: 2");
            let remedy = match (is_missing, has_no_fleet) {
                (true, _) => "; install iopj there, or let --push copy this one",
                (_, true) => "; if an older iopj is there, let --push copy this one",
                _ => "",
            };
            Failure(Phase::Lost, format!("{text}{remedy}"))
        })?;
        let line = answer.lines().last().unwrap_or_default();
        serde_json::from_str(line).map_err(|_| {
            let line: String = line.chars().take(LONGEST_QUOTE).collect();
            let reason = format!("`{command}` there answers `{line}`: let --push copy this iopj there");
            Failure(Phase::Lost, reason)
        })
    }
}

impl<'a> Ssh<'a> {
    /// A campaign over ssh.
    pub fn new(
        campaign: &'a Campaign,
        by: &'a BySsh,
        stop: &'a AtomicBool,
        say: &'a (dyn Fn(&str) + Sync),
    ) -> Ssh<'a> {
        Ssh { campaign, by, stop, say }
    }

    /// Runs the jobs of all hosts that are not complete, to their ends. What becomes of each is recorded;
    /// Ctrl-C leaves them running.
    ///
    /// # Errors
    /// Two hosts share a drive, or the campaign's folder cannot be written.
    pub fn submit(&self) -> Result<(), FleetError> {
        files::write_json(&self.told(), &self.campaign.plan().job)?;
        // Hosts that are not asked for any more may have a job that runs, and with it a drive.
        self.look_at(|host, state| state.may_run() && !self.by.hosts.contains(host))?;
        let known = self.campaign.all_known()?;
        let is_open = |host: &&String| known.get(*host).is_none_or(|state| !state.phase.is_complete());
        let hosts: Vec<String> = self.by.hosts.iter().filter(is_open).cloned().collect();
        let answers = each(&hosts, self.by.parallel, |host| self.tell_and_look(host));
        let mut looks = BTreeMap::new();
        for (host, answer) in hosts.iter().zip(answers) {
            match answer {
                _ if self.is_stopped() => return Ok(()),
                Err(failure) => self.failed(host, failure)?,
                Ok(look) => match look.state.clone().filter(|state| state.phase.is_complete()) {
                    Some(state) => self.keep(host, &state)?,
                    None => drop(looks.insert(host.clone(), look)),
                },
            }
        }
        self.run(self.queue(&looks)?)
    }

    /// The hosts in line. Those that run already come first: their drives are taken. So are those of hosts
    /// that may run and cannot be asked.
    fn queue(&self, looks: &BTreeMap<String, Look>) -> Result<(usize, Queue), FleetError> {
        let known = self.campaign.all_known()?;
        let may_run = |host: &str| known.get(host).is_some_and(State::may_run);
        let others = || known.iter().filter(|(host, state)| !looks.contains_key(*host) && state.may_run());
        let followed = others().filter(|(_, state)| state.phase == Phase::Running);
        let mut turns: Vec<(bool, Turn)> = followed
            .clone()
            .map(|(host, state)| {
                (false, Turn { host: host.clone(), drives: state.drive_keys(), start: None })
            })
            .collect();
        turns.extend(looks.iter().map(|(host, look)| {
            let start = (!look.is_running()).then(|| look.being_started());
            // A start of before may be on its way there.
            let is_new = start.is_some() && !may_run(host);
            (is_new, Turn { host: host.clone(), drives: look.drive_keys(), start })
        }));
        let drives_of =
            |host: &'_ str, drives: &[Drive], keys: Vec<String>| -> Vec<(String, Drive, String)> {
                let with_key = keys.into_iter().zip(drives.iter().cloned());
                with_key.map(|(key, drive)| (key, drive, host.to_owned())).collect()
            };
        let of_looks = looks.iter().map(|(host, look)| drives_of(host, &look.drives, look.drive_keys()));
        let of_others = followed.map(|(host, state)| drives_of(host, &state.drives, state.drive_keys()));
        self.check_machines(looks, of_looks.chain(of_others).flatten())?;
        turns.sort_by_key(|(is_new, _)| *is_new);
        let count = turns.len();
        let queue = Queue::of(turns.into_iter().map(|(_, turn)| turn).collect());
        let lost = others().filter(|(_, state)| state.phase == Phase::Lost);
        lost.for_each(|(host, state)| queue.keep(host, &state.drive_keys()));
        Ok((count, queue))
    }

    fn run(&self, (count, queue): (usize, Queue)) -> Result<(), FleetError> {
        let parallel = self.by.parallel.clamp(1, count.max(1));
        let work = || -> Result<(), FleetError> {
            while let Some(next) = queue.next() {
                let done = match next {
                    Next::Begins(turn) => self.follow(&turn).map(|end| match end {
                        End::Known => queue.free(&turn),
                        End::Unknown => queue.keep(&turn.host, &turn.drives),
                    }),
                    Next::Never { turn, drive, by } => self.failed(&turn.host, self.kept(&drive, &by)),
                };
                if done.is_err() || self.is_stopped() {
                    queue.close();
                }
                done?;
            }
            Ok(())
        };
        let numbers: Vec<usize> = (0..parallel).collect();
        each(&numbers, parallel, |_| work()).into_iter().collect()
    }

    /// Why the turn of a host does not come that has this drive.
    fn kept(&self, drive: &str, by: &str) -> Failure {
        let record = self.campaign.record(by);
        let reason = format!(
            "the job of {by} may still run on the same drive `{drive}`, and {by} cannot be asked: submit \
             again once it is back; if it is gone for good, delete `{}` first",
            record.display()
        );
        Failure(Phase::Refused, reason)
    }

    /// Starts a host's job unless it runs, and follows it to its end.
    fn follow(&self, turn: &Turn) -> Result<End, FleetError> {
        let host = turn.host.as_str();
        // It was reached a moment ago; to start a job twice does no harm.
        let (mut what, mut is_told) = ("--await".to_owned(), false);
        if let Some(state) = &turn.start {
            // Whoever ends this submit now leaves a job that may run, and the next one has to know it.
            self.keep(host, state)?;
            // Whoever cancels says so first, and then ends what may run: one of the two sees the other.
            if self.campaign.is_cancelled()? {
                self.failed(host, Failure(Phase::Cancelled, TOO_LATE.to_owned()))?;
                return Ok(End::Known);
            }
            what = format!("--start --cancels {}", self.campaign.cancels());
        }
        let mut session = None;
        let mut reached = Instant::now();
        loop {
            let asked = self.ask_again(host, &mut session, &what);
            if self.is_stopped() {
                return Ok(End::Unknown);
            }
            match asked {
                Ok(Look { state: Some(state), .. }) => {
                    (reached, what) = (Instant::now(), "--await".to_owned());
                    self.keep(host, &state)?;
                    if state.phase.is_over() {
                        self.tell_end(host, &state);
                        return Ok(End::Known);
                    }
                    if !std::mem::replace(&mut is_told, true) {
                        (self.say)(&format!("{host}: running"));
                    }
                }
                Ok(_) => {
                    let reason = "the job did not start; its folder there has its log".to_owned();
                    self.failed(host, Failure(Phase::Killed, reason))?;
                    return Ok(End::Known);
                }
                Err(_) if reached.elapsed() < PATIENCE => {
                    session = None;
                    self.pause();
                }
                Err(Failure(phase, reason)) => {
                    let goes_on = "its job goes on if the host lives: submit again takes it up";
                    self.failed(host, Failure(phase, format!("{reason}; {goes_on}")))?;
                    return Ok(End::Unknown);
                }
            }
        }
    }

    /// Asks over the session there is, or a new one.
    fn ask_again(&self, host: &str, session: &mut Option<Session>, what: &str) -> Result<Look, Failure> {
        let open = match session.take() {
            Some(open) => open,
            None => self.session(host)?,
        };
        let look = open.ask(what, self.stop);
        *session = Some(open);
        look
    }

    fn pause(&self) {
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until && !self.is_stopped() {
            thread::sleep(INTERVAL);
        }
    }

    fn session(&self, host: &str) -> Result<Session, Failure> {
        let control = Control::open("ssh", &destination(host), self.stop)?;
        let command = match self.by.push {
            true => push(&control, &self.by.command, self.stop)?,
            false => self.by.command.clone(),
        };
        let id = self.campaign.id();
        let folder = match &self.by.folder {
            Some(folder) => quoted(&folder.join(id).to_string_lossy()),
            None => format!("\"$HOME\"/.local/state/iopj/fleet/{id}"),
        };
        Ok(Session { control, command, folder })
    }

    fn tell_and_look(&self, host: &str) -> Result<Look, Failure> {
        let session = self.session(host)?;
        let failed = |error| Failure(Phase::Lost, format!("cannot read {}: {error}", self.told().display()));
        let told = File::open(self.told()).map_err(failed)?;
        let folder = &session.folder;
        // Where others may write, one of them may have made a folder of that name before.
        let own = format!("test -O {folder} && test ! -h {folder}");
        let others = "it belongs to another user, or is a link: remove it there, or name another --scratch";
        let copy = format!(
            "umask 077 && mkdir -p {folder} && {{ {own} || {{ echo {folder}: {} >&2; exit 1; }}; }} && cat \
             >{folder}/new.$$ && mv {folder}/new.$$ {folder}/{TOLD}",
            quoted(others)
        );
        session.control.run(&copy, told.into(), self.stop)?;
        let look = session.ask("--look", self.stop)?;
        if look.state.as_ref().is_some_and(|state| !state.phase.is_over() || state.phase.is_complete()) {
            // Whatever would refuse it now, it runs or has run.
            return Ok(look);
        }
        let (theirs, ours) = (&look.version, &self.campaign.plan().job.version);
        if theirs != ours {
            let reason = format!(
                "iopj {theirs} is there, and this is iopj {ours}: use the same on both; --push copies this \
                 one there"
            );
            return Err(Failure(Phase::Refused, reason));
        }
        match &look.refusal {
            Some(reason) => Err(Failure(Phase::Refused, reason.clone())),
            None => Ok(look),
        }
    }

    /// Refuses two hosts with one drive, unless they may take turns, and notes two that are one machine.
    fn check_machines(
        &self,
        looks: &BTreeMap<String, Look>,
        drives: impl Iterator<Item = (String, Drive, String)>,
    ) -> Result<(), FleetError> {
        let drives = shared(drives);
        let text = drives.iter().map(|(drive, hosts)| {
            let drive = drive.serial.as_deref().map_or(drive.name.clone(), |serial| format!("`{serial}`"));
            format!("{} have the same drive {drive}", hosts.join(" and "))
        });
        let text = text.collect::<Vec<_>>().join("; ");
        if !drives.is_empty() && self.campaign.plan().job.wait_ms.is_none() {
            return Err(FleetError::Refused(format!(
                "{text}: name one of them, or let them take turns by --wait"
            )));
        }
        if !drives.is_empty() {
            (self.say)(&format!("{text}: they take turns"));
        }
        for (_, hosts) in shared(looks.iter().map(|(host, look)| (&look.boot, (), host.clone()))) {
            (self.say)(&format!(
                "note: {} are one machine: jobs that run there at the same time disturb each other's figures",
                hosts.join(", ")
            ));
        }
        Ok(())
    }

    /// Asks again about hosts of which the last that is known may have passed.
    ///
    /// # Errors
    /// The campaign's folder cannot be written.
    pub fn refresh(&self) -> Result<(), FleetError> {
        self.look_at(|_, state| matches!(state.phase, Phase::Running | Phase::Lost))
    }

    fn look_at(&self, is_meant: impl Fn(&String, &State) -> bool) -> Result<(), FleetError> {
        let known = self.campaign.all_known()?;
        let hosts: Vec<_> = known.into_iter().filter(|(host, state)| is_meant(host, state)).collect();
        let looks = each(&hosts, self.by.parallel, |(host, _)| self.session(host)?.ask("--look", self.stop));
        for ((host, before), look) in hosts.iter().zip(looks) {
            match look {
                Ok(Look { state: Some(state), .. }) => self.keep(host, &state)?,
                Ok(_) => self.keep(host, &unheard_of(before))?,
                Err(Failure(_, reason)) => {
                    let state = State { reason: Some(reason), ..before.clone() };
                    self.campaign.keep(host, &state)?;
                }
            }
        }
        Ok(())
    }

    /// Fetches the stores of these hosts; each has its file, or why it did not come.
    pub fn fetch(&self, hosts: &[String]) -> Vec<(String, Result<PathBuf, FleetError>)> {
        let fetched = each(hosts, self.by.parallel, |host| self.fetch_one(host));
        hosts.iter().cloned().zip(fetched).collect()
    }

    fn fetch_one(&self, host: &str) -> Result<PathBuf, FleetError> {
        let refused = |Failure(_, reason)| FleetError::Refused(reason);
        let session = self.session(host).map_err(refused)?;
        let to = self.campaign.store(host);
        let Session { control, command, folder } = &session;
        let send = format!("{command} fleet store {folder}/run.iopj");
        match control.stream(&send, self.stop, |stream| transfer::receive(stream, &to))? {
            (Err(FleetError::NoStore(_)), Some(failure)) => return Err(failure.into()),
            (received, _) => received?,
        }
        Ok(to)
    }

    /// Ends the jobs that run, waits until each has put everything back, and lets no other begin of those
    /// that a submit still has in line.
    ///
    /// # Errors
    /// The campaign's folder cannot be written.
    pub fn cancel(&self) -> Result<(), FleetError> {
        let stop = format!("--stop --cancels {}", self.campaign.cancel()?);
        let known = self.campaign.all_known()?;
        for (host, _) in known.iter().filter(|(_, state)| state.phase == Phase::Waiting) {
            self.failed(host, Failure(Phase::Cancelled, TOO_LATE.to_owned()))?;
        }
        let may_run = |state: &State| matches!(state.phase, Phase::Running | Phase::Lost);
        let hosts: Vec<_> = known.into_iter().filter(|(_, state)| may_run(state)).collect();
        let looks = each(&hosts, self.by.parallel, |(host, _)| self.session(host)?.ask(&stop, self.stop));
        for ((host, before), look) in hosts.iter().zip(looks) {
            match look {
                Ok(Look { state, .. }) => {
                    let state = state.unwrap_or_else(|| before.became(Phase::Cancelled, None));
                    self.keep(host, &state)?;
                    self.tell_end(host, &state);
                }
                Err(failure) => self.failed(host, failure)?,
            }
        }
        Ok(())
    }

    fn keep(&self, host: &str, state: &State) -> Result<(), FleetError> {
        let fetched = self.campaign.known(host)?.and_then(|before| before.fetched);
        self.campaign.keep(host, &State { fetched, ..state.clone() })
    }

    fn failed(&self, host: &str, failure: Failure) -> Result<(), FleetError> {
        let Failure(phase, reason) = failure;
        // ssh's messages begin with the host.
        let said = reason.strip_prefix(&format!("{}: ", destination(host))).unwrap_or(&reason).to_owned();
        let state = match self.campaign.known(host)? {
            None => State::now(phase, Some(said)),
            Some(before) if before.may_run() => before.became(phase, Some(said)),
            // Its end is known, also of a host that is lost from now on.
            Some(before) => State { began_ms: None, process: None, ..before.became(phase, Some(said)) },
        };
        self.keep(host, &state)?;
        self.tell_end(host, &state);
        Ok(())
    }

    fn tell_end(&self, host: &str, state: &State) {
        let State { phase, reason, done, planned, .. } = state;
        let reason = reason.as_deref().map_or(String::new(), |reason| format!(": {reason}"));
        (self.say)(&format!("{host}: {}{reason} ({done} of {planned} trials)", phase.word()));
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn told(&self) -> PathBuf {
        self.campaign.folder().join(Path::new(TOLD))
    }
}

/// The state of a job that its host, which answers, knows nothing of.
fn unheard_of(before: &State) -> State {
    match (before.may_run(), &before.process) {
        (false, _) => before.clone(),
        (true, None) => {
            let reason = "it was told to start, and has not begun: submit again if this stays";
            State { reason: Some(reason.to_owned()), ..before.clone() }
        }
        (true, Some(_)) => before.became(Phase::Killed, Some("its folder there is gone".to_owned())),
    }
}

/// What several hosts have, with these hosts; `key` tells one from another.
fn shared<K: Ord, T>(all: impl Iterator<Item = (K, T, String)>) -> Vec<(T, Vec<String>)> {
    let mut by_key = BTreeMap::<K, (T, Vec<String>)>::new();
    for (key, what, host) in all {
        by_key.entry(key).or_insert_with(|| (what, Vec::new())).1.push(host);
    }
    by_key.into_values().filter(|(_, hosts)| hosts.len() > 1).collect()
}

/// A word as a shell reads it.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Drive;

    #[test]
    fn hosts_with_one_drive_are_found() {
        let drive = |serial: &str| Drive { name: "sda".to_owned(), serial: Some(serial.to_owned()) };
        let all = [("S1", "n1"), ("S11", "n2"), ("S1", "n7")];
        let found = shared(all.iter().map(|(key, host)| ((*key).to_owned(), drive(key), (*host).to_owned())));
        assert_eq!(found, [(drive("S1"), vec!["n1".to_owned(), "n7".to_owned()])]);
    }

    #[test]
    fn a_folder_with_a_quote_stays_one_word() {
        assert_eq!(quoted("/srv/it's $HOME"), r"'/srv/it'\''s $HOME'");
    }
}
