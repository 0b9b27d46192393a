//! Starting an agent: over ssh, or at the other end of a stream that is there already.

use crate::client::Client;
use crate::error::FabricError;
use crate::line;
use crate::push;
use crate::ssh::{Control, Link};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

/// Where an agent runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A host as ssh takes it: a name of the user's configuration, or `user@host`.
    Ssh(String),
    /// The other end of a stream, such as a serial port: a device or a socket's file by its full path.
    Stream(PathBuf),
}

impl FromStr for Destination {
    type Err = FabricError;

    fn from_str(text: &str) -> Result<Destination, FabricError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:@[]%".contains(c);
        match text {
            _ if text.starts_with('/') => Ok(Destination::Stream(text.into())),
            // A leading hyphen would make it an option of ssh.
            _ if !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain) => {
                Ok(Destination::Ssh(text.to_owned()))
            }
            _ => Err(FabricError::Destination(text.to_owned())),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Ssh(host) => f.write_str(host),
            Destination::Stream(path) => path.display().fmt(f),
        }
    }
}

/// How an agent is started.
#[derive(Clone, Debug)]
pub struct Start<'a> {
    /// Where.
    pub destination: &'a Destination,
    /// The command that is iopj there, such as `iopj` or `sudo -n iopj`.
    pub command: &'a str,
    /// Copy this host's iopj there first, and use that one.
    pub push: bool,
    /// The program that is ssh here.
    pub ssh: &'a str,
    /// The version of this iopj.
    pub version: &'static str,
}

impl Start<'_> {
    /// Starts an agent and begins a session with it.
    ///
    /// # Errors
    /// [`FabricError`]: ssh does not get there, or no agent of this version answers.
    pub fn agent(&self, stop: &AtomicBool) -> Result<Client, FabricError> {
        let host = self.destination.to_string();
        match self.destination {
            Destination::Stream(path) => {
                let streams =
                    line::open(path).map_err(FabricError::io(format!("open {}", path.display())))?;
                Client::begin(&host, streams, None, self.version, stop)
            }
            Destination::Ssh(destination) => {
                let control = Control::open(self.ssh, destination, stop)?;
                let command = match self.push {
                    true => push::push(&control, self.command, stop)?,
                    false => self.command.to_owned(),
                };
                let mut link = Link::start(control, &format!("{command} agent"))?;
                let streams = link.streams()?;
                Client::begin(&host, streams, Some(link), self.version, stop)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_never_an_option() {
        for good in ["storage1", "root@storage1", "10.1.0.1", "root@[fe80::1%eth0]"] {
            assert_eq!(good.parse::<Destination>().unwrap(), Destination::Ssh(good.to_owned()));
        }
        assert_eq!(
            "/dev/vport0p1".parse::<Destination>().unwrap(),
            Destination::Stream("/dev/vport0p1".into())
        );
        for bad in ["", "-oProxyCommand=x", "a b", "a;b", "$(x)"] {
            assert!(bad.parse::<Destination>().is_err(), "{bad}");
        }
    }
}
