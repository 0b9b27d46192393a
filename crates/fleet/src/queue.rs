//! The hosts that wait for their turn: the next is one whose drives no other host of the campaign runs on, as
//! far as that is known.

use crate::job::State;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A host, and what tells its drives from others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Turn {
    pub(crate) host: String,
    pub(crate) drives: Vec<String>,
    /// What is recorded before its job is started; `None` if that runs already.
    pub(crate) start: Option<State>,
}

/// What is to be done next.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    /// It is the turn of this host.
    Begins(Turn),
    /// This host's turn does not come.
    Never {
        turn: Turn,
        drive: String,
        /// The host whose job may still run on the drive.
        by: String,
    },
}

#[derive(Debug, Default)]
struct Inside {
    waiting: VecDeque<Turn>,
    taken: BTreeSet<String>,
    /// Drives on which a job may still run that nobody can ask, with its host.
    kept: BTreeMap<String, String>,
}

impl Inside {
    /// To follow a job that runs already starts nothing.
    fn is_free(&self, turn: &Turn) -> bool {
        turn.start.is_none() || !turn.drives.iter().any(|drive| self.taken.contains(drive))
    }

    fn kept(&self, turn: &Turn) -> Option<(String, String)> {
        let drive = turn.drives.iter().find(|drive| self.kept.contains_key(*drive));
        let drive = drive.filter(|_| turn.start.is_some())?;
        Some((drive.clone(), self.kept.get(drive)?.clone()))
    }
}

/// Hosts in line.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    inside: Mutex<Inside>,
    freed: Condvar,
}

impl Queue {
    pub(crate) fn of(turns: Vec<Turn>) -> Queue {
        Queue {
            inside: Mutex::new(Inside { waiting: turns.into(), ..Inside::default() }),
            freed: Condvar::new(),
        }
    }

    /// The next host whose drives are free, or one that waits in vain; waits for either. `None` once no host
    /// waits.
    pub(crate) fn next(&self) -> Option<Next> {
        let mut inside = self.lock();
        loop {
            let kept = inside.waiting.iter().enumerate().find_map(|(index, turn)| {
                let (drive, by) = inside.kept(turn)?;
                Some((index, drive, by))
            });
            if let Some((index, drive, by)) = kept {
                return inside.waiting.remove(index).map(|turn| Next::Never { turn, drive, by });
            }
            let free = inside.waiting.iter().position(|turn| inside.is_free(turn));
            match free.and_then(|index| inside.waiting.remove(index)) {
                Some(turn) => {
                    inside.taken.extend(turn.drives.iter().cloned());
                    return Some(Next::Begins(turn));
                }
                None if inside.waiting.is_empty() => return None,
                None => inside = self.freed.wait(inside).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Frees the drives of a host whose job is known to have ended.
    pub(crate) fn free(&self, turn: &Turn) {
        self.lock().taken.retain(|drive| !turn.drives.contains(drive));
        self.freed.notify_all();
    }

    /// Gives these drives to nobody: the job of this host may still run on them, and it cannot be asked.
    pub(crate) fn keep(&self, host: &str, drives: &[String]) {
        self.lock().kept.extend(drives.iter().map(|drive| (drive.clone(), host.to_owned())));
        self.freed.notify_all();
    }

    /// Lets no other host begin.
    pub(crate) fn close(&self) {
        self.lock().waiting.clear();
        self.freed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Phase;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread;

    fn turn(host: &str, drive: &str) -> Turn {
        let start = Some(State::now(Phase::Running, None));
        Turn { host: host.to_owned(), drives: vec![drive.to_owned()], start }
    }

    fn begins(queue: &Queue) -> Option<Turn> {
        match queue.next()? {
            Next::Begins(turn) => Some(turn),
            never => panic!("{never:?}"),
        }
    }

    #[test]
    fn a_host_whose_drive_is_taken_lets_others_go_first() {
        let queue = Queue::of(vec![turn("a", "1"), turn("b", "1"), turn("c", "2")]);
        let a = begins(&queue).unwrap();
        assert_eq!([&a.host, &begins(&queue).unwrap().host], ["a", "c"]);
        queue.free(&a);
        assert_eq!(begins(&queue).unwrap().host, "b");
        assert_eq!(begins(&queue), None);
    }

    /// The drive of a host that was lost went to the next one, while the job may have run on.
    #[test]
    fn the_drive_of_a_lost_host_is_given_to_nobody() {
        let running = Turn { start: None, ..turn("r", "1") };
        let queue = Queue::of(vec![turn("a", "1"), running, turn("b", "1"), turn("c", "2")]);
        let a = begins(&queue).unwrap();
        queue.keep(&a.host, &a.drives);
        let Some(Next::Never { turn, drive, by }) = queue.next() else { panic!("b begins beside a") };
        assert_eq!([&*turn.host, &*drive, &*by], ["b", "1", "a"]);
        assert_eq!(begins(&queue).unwrap().host, "r", "to follow a job starts none");
        assert_eq!(begins(&queue).unwrap().host, "c");
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn never_two_hosts_run_on_one_drive() {
        let turns = (0..60).map(|n| turn(&n.to_string(), &(n % 3).to_string())).collect();
        let (queue, ran) = (Queue::of(turns), AtomicUsize::new(0));
        let busy: Vec<AtomicBool> = (0..3).map(|_| AtomicBool::new(false)).collect();
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    while let Some(turn) = begins(&queue) {
                        let drive = &busy[turn.drives[0].parse::<usize>().unwrap()];
                        assert!(!drive.swap(true, Ordering::SeqCst));
                        thread::yield_now();
                        drive.store(false, Ordering::SeqCst);
                        ran.fetch_add(1, Ordering::SeqCst);
                        queue.free(&turn);
                    }
                });
            }
        });
        assert_eq!(ran.into_inner(), 60);
    }
}
