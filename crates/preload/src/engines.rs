//! The engines of a thread for calls that wait: opened when a descriptor has proved worth it.

use crate::descriptors::{self, File};
use crate::moved::Moved;
use crate::stats::Reason;
use crate::sys;
use std::ffi::c_int;

/// Calls of a thread on a descriptor before it gets an engine: a file of which only a header is read is not
/// worth one.
const WARM_UP: u32 = 32;
/// The most descriptors that a thread remembers.
const MOST_OPEN: usize = 64;

/// The engines of a thread, by descriptor. An engine belongs to the number: it holds nothing open, and goes
/// on when another file of the same device is open there.
#[derive(Default)]
pub(crate) struct Engines {
    entries: Vec<Entry>,
    calls: u64,
}

struct Entry {
    fd: c_int,
    file: File,
    used: u64,
    engine: Opened,
}

enum Opened {
    /// After so many calls.
    NotYet(u32),
    Now(Box<Moved>),
    /// It could not be opened, or it failed.
    Never,
}

impl Entry {
    fn is_open(&self) -> bool {
        matches!(self.engine, Opened::Now(_))
    }
}

impl Engines {
    /// The entry of a descriptor.
    ///
    /// # Errors
    /// It may not be moved, or there is no room.
    pub(crate) fn number(&mut self, fd: c_int, file: File) -> Result<usize, Reason> {
        self.calls += 1;
        let number = match self.entries.iter().position(|entry| entry.fd == fd) {
            Some(number) => number,
            None => self.add(fd, file)?,
        };
        let entry = &mut self.entries[number];
        entry.used = self.calls;
        if entry.file != file {
            // Another file than the one that was asked about.
            descriptors::forget(fd);
            descriptors::may_move(fd)?;
            if entry.file.device != file.device {
                entry.engine = Opened::NotYet(WARM_UP);
            }
            entry.file = file;
        }
        Ok(number)
    }

    fn add(&mut self, fd: c_int, file: File) -> Result<usize, Reason> {
        let entry = Entry { fd, file, used: self.calls, engine: Opened::NotYet(WARM_UP) };
        if self.entries.len() < MOST_OPEN {
            self.entries.push(entry);
            return Ok(self.entries.len() - 1);
        }
        let idle = self.entries.iter().enumerate().filter(|(_, entry)| !entry.is_open());
        let oldest = idle.min_by_key(|(_, entry)| entry.used).map(|(number, _)| number);
        let number = oldest.or_else(|| self.closed()).ok_or(Reason::Engines)?;
        self.entries[number] = entry;
        Ok(number)
    }

    /// An entry with an engine whose number is closed.
    fn closed(&self) -> Option<usize> {
        self.entries.iter().position(|entry| entry.is_open() && sys::file_status(entry.fd).is_none())
    }

    /// The engine of an entry, which is opened when it is time.
    ///
    /// # Errors
    /// There is none yet, or none at all.
    pub(crate) fn open(&mut self, number: usize) -> Result<&mut Moved, Reason> {
        let entry = &mut self.entries[number];
        if let Opened::NotYet(calls) = &mut entry.engine {
            if *calls > 0 {
                *calls -= 1;
                return Err(Reason::WarmUp);
            }
            *calls = WARM_UP;
            match Moved::open(entry.fd, 1, None) {
                Ok(moved) => entry.engine = Opened::Now(Box::new(moved)),
                Err(Reason::NoEngine) => entry.engine = Opened::Never,
                Err(reason) => {
                    // There may be room the next time.
                    if let Some(closed) = self.closed().filter(|_| reason == Reason::Engines) {
                        self.entries[closed].engine = Opened::NotYet(WARM_UP);
                    }
                    return Err(reason);
                }
            }
        }
        match &mut self.entries[number].engine {
            Opened::Now(moved) => Ok(moved),
            _ => Err(Reason::NoEngine),
        }
    }

    /// Ends an engine that failed: there is no other.
    pub(crate) fn give_up(&mut self, number: usize) {
        self.entries[number].engine = Opened::Never;
    }

    /// Counts what the engines have done and not said.
    pub(crate) fn tell(&mut self) {
        for entry in &mut self.entries {
            if let Opened::Now(moved) = &mut entry.engine {
                moved.tell();
            }
        }
    }
}
