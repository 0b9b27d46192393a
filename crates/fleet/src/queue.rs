//! The hosts that wait for their turn: the next is one whose drives no other host of the campaign runs on.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A host, and what tells its drives from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) host: String,
    pub(crate) drives: Vec<String>,
}

#[derive(Debug, Default)]
struct Inside {
    waiting: VecDeque<Turn>,
    taken: BTreeSet<String>,
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
            inside: Mutex::new(Inside { waiting: turns.into(), taken: BTreeSet::new() }),
            freed: Condvar::new(),
        }
    }

    /// The next host whose drives are free; waits for one. `None` once no host waits.
    pub(crate) fn next(&self) -> Option<Turn> {
        let mut inside = self.lock();
        loop {
            let taken = &inside.taken;
            let is_free = |turn: &Turn| turn.drives.iter().all(|drive| !taken.contains(drive));
            match inside.waiting.iter().position(is_free).and_then(|index| inside.waiting.remove(index)) {
                Some(turn) => {
                    inside.taken.extend(turn.drives.iter().cloned());
                    return Some(turn);
                }
                None if inside.waiting.is_empty() => return None,
                None => inside = self.freed.wait(inside).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Frees the drives of a host that has ended.
    pub(crate) fn free(&self, turn: &Turn) {
        let mut inside = self.lock();
        inside.taken.retain(|drive| !turn.drives.contains(drive));
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
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread;

    fn turn(host: &str, drive: &str) -> Turn {
        Turn { host: host.to_owned(), drives: vec![drive.to_owned()] }
    }

    #[test]
    fn a_host_whose_drive_is_taken_lets_others_go_first() {
        let queue = Queue::of(vec![turn("a", "1"), turn("b", "1"), turn("c", "2")]);
        let a = queue.next().unwrap();
        assert_eq!([&a.host, &queue.next().unwrap().host], ["a", "c"]);
        queue.free(&a);
        assert_eq!(queue.next().unwrap().host, "b");
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
                    while let Some(turn) = queue.next() {
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
