//! What joins two machines: a network without anything else on it, and a serial line for the agent.
//!
//! Datagrams between two unix sockets carry the frames (qemu(1), `-netdev dgram`). A receiver's socket takes
//! ten of them at first, and what does not fit is lost, so each machine has a network namespace of its own,
//! in which that number is raised; nothing of this host changes.

use super::arguments::Arguments;
use std::io;

/// The name of the serial port that joins the agent with the run.
pub const AGENT_PORT: &str = "org.iopj.agent";

/// Frames that a receiver's socket holds (unix(7), `max_dgram_qlen`).
const FRAMES: &[u8] = b"4096";
const FRAMES_FILE: &std::ffi::CStr = c"/proc/sys/net/unix/max_dgram_qlen";

/// A network card.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Nic {
    /// virtio-net: no interrupt moderation.
    #[default]
    Virtio,
    /// Intel's 82574, which moderates its interrupts.
    E1000e,
}

impl Nic {
    /// Every card.
    pub const ALL: [Nic; 2] = [Nic::Virtio, Nic::E1000e];

    /// The card's name, as `--nic` takes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Nic::Virtio => "virtio",
            Nic::E1000e => "e1000e",
        }
    }

    /// The module that drives it.
    pub fn module(self) -> &'static str {
        match self {
            Nic::Virtio => "virtio_net",
            Nic::E1000e => "e1000e",
        }
    }

    fn device(self) -> &'static str {
        match self {
            Nic::Virtio => "virtio-net-pci",
            Nic::E1000e => "e1000e",
        }
    }
}

/// One machine's end of the wire. Paths are relative to its run folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wire {
    /// The card.
    pub nic: Nic,
    /// This end's socket, and the other's.
    pub sockets: [String; 2],
    /// The last byte of the card's address.
    pub address: u8,
    /// The serial line's socket; the first end listens there.
    pub serial: String,
    /// This end listens for the other.
    pub listens: bool,
}

impl Wire {
    pub(super) fn arguments(&self, line: &mut Arguments) {
        let [local, remote] = &self.sockets;
        line.extend([
            "-netdev",
            &format!(
                "dgram,id=wire,local.type=unix,local.path={local},remote.type=unix,remote.path={remote}"
            ),
            "-device",
            &format!("{},netdev=wire,romfile=,mac=52:54:00:00:00:{:02x}", self.nic.device(), self.address),
        ]);
        let end = if self.listens { "server=on,wait=off" } else { "reconnect=1" };
        line.extend(["-chardev", &format!("socket,id=agent,path={},{end}", self.serial)]);
        line.extend(["-device", &format!("virtserialport,chardev=agent,name={AGENT_PORT}")]);
    }
}

/// Gives the calling process a network of its own whose sockets take more datagrams. Only for a child that
/// has not yet become its program: it allocates nothing.
///
/// # Errors
/// The kernel refuses; without root it needs user namespaces.
pub(super) fn own_network() -> io::Result<()> {
    use rustix::thread::{UnshareFlags, unshare_unsafe};
    // SAFETY: neither flag changes what other threads share with this one, for the process has no others.
    let unshare = |flags| unsafe { unshare_unsafe(flags) };
    unshare(UnshareFlags::NEWNET).or_else(|_| unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNET))?;
    let file = rustix::fs::open(FRAMES_FILE, rustix::fs::OFlags::WRONLY, rustix::fs::Mode::empty())?;
    rustix::io::write(&file, FRAMES)?;
    Ok(())
}
