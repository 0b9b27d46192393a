//! The same for many hosts, some at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What `act` makes of each item, in the order of the items; at most `parallel` at the same time.
pub(crate) fn each<T: Sync, R: Send>(items: &[T], parallel: usize, act: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let made = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..parallel.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { return };
                    let result = act(item);
                    made.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((index, result));
                }
            });
        }
    });
    let mut made = made.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    made.sort_by_key(|(index, _)| *index);
    made.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_the_items() {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let squares = each(&(0..50).collect::<Vec<u64>>(), 3, |number| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::yield_now();
            now.fetch_sub(1, Ordering::SeqCst);
            number * number
        });
        assert_eq!(squares, (0..50).map(|number| number * number).collect::<Vec<u64>>());
        assert!(most.into_inner() <= 3);
        assert_eq!(each(&[] as &[u8], 3, |_| ()), []);
    }
}
