use super::*;
use proptest::prelude::*;

/// Queues over memory of our own, with the test in the kernel's place. Indices start just below
/// the wrap-around of u32.
struct Simulated {
    words: Vec<AtomicU32>,
    sqes: Vec<u64>,
    cqes: Vec<u64>,
}

const START: u32 = u32::MAX - 5;

impl Simulated {
    fn new(entries: u32) -> Simulated {
        let words = [START, START, 0, START, START].map(AtomicU32::new).into();
        Simulated {
            words,
            sqes: vec![0; entries as usize * SQE_LEN / 8],
            cqes: vec![0; 2 * entries as usize * CQE_LEN / 8],
        }
    }

    fn queues(&mut self, entries: u32) -> (SubmissionRing, CompletionRing) {
        let word = |index: usize| NonNull::from(&self.words[index]);
        let sq = SubmissionRing {
            head: word(0),
            tail: word(1),
            flags: word(2),
            entries: NonNull::new(self.sqes.as_mut_ptr()).unwrap().cast(),
            stride: SQE_LEN,
            mask: entries - 1,
            local_tail: START,
            published: START,
            has_poller: false,
        };
        let cq = CompletionRing {
            head: word(3),
            tail: word(4),
            entries: NonNull::new(self.cqes.as_mut_ptr()).unwrap().cast(),
            stride: CQE_LEN,
            mask: 2 * entries - 1,
            local_head: START,
        };
        (sq, cq)
    }
}

/// Consumes all published entries as the kernel would, and completes each with its own number.
fn kernel(sq: &SubmissionRing, cq: &CompletionRing) -> u32 {
    // SAFETY: all pointers name memory of `Simulated`, which outlives the queues.
    unsafe {
        let tail = sq.tail.as_ref().load(Ordering::Acquire);
        let head = sq.head.as_ref().load(Ordering::Relaxed);
        let count = tail.wrapping_sub(head);
        for number in 0..count {
            let entry = sq.entries.add((head.wrapping_add(number) & sq.mask) as usize * sq.stride);
            let at = cq.tail.as_ref().load(Ordering::Relaxed);
            let place = cq.entries.add((at & cq.mask) as usize * cq.stride);
            place.cast::<u64>().write(entry.add(USER_DATA_AT).cast::<u64>().read());
            place.add(8).cast::<i32>().write(number as i32);
            cq.tail.as_ref().store(at.wrapping_add(1), Ordering::Release);
        }
        sq.head.as_ref().store(tail, Ordering::Release);
        count
    }
}

/// Takes up to `limit` completions, each once.
fn take(cq: &mut CompletionRing, limit: u32, mut each: impl FnMut(u64)) -> u32 {
    let count = cq.ready().min(limit);
    (0..count).for_each(|_| each(cq.take::<CQE_LEN>().0));
    count
}

fn push(sq: &mut SubmissionRing, user_data: u64) {
    let entry = sq.next(SQE_LEN);
    // SAFETY: the entry is ours until it is published.
    unsafe { entry.add(USER_DATA_AT).cast::<u64>().write(user_data) };
    sq.advance();
}

#[test]
fn what_is_taken_back_is_reported_and_never_seen_by_the_kernel() {
    let mut memory = Simulated::new(8);
    let (mut sq, mut cq) = memory.queues(8);
    let mut number = 0;
    let mut push_three = |sq: &mut SubmissionRing| {
        (0..3).for_each(|more| push(sq, number + more));
        number += 3;
    };
    // Three times: the entries go round and the indices wrap.
    for round in 0..3 {
        let first = round * 12;
        let (mut back, mut seen) = (Vec::new(), Vec::new());
        push_three(&mut sq);
        sq.publish();
        push_three(&mut sq);
        assert_eq!(sq.take_back_unpublished(|user_data| back.push(user_data)), 3);
        assert_eq!(back, [first + 3, first + 4, first + 5]);
        assert_eq!((sq.unpublished(), kernel(&sq, &cq)), (0, 3));
        push_three(&mut sq);
        sq.publish();
        push_three(&mut sq);
        back.clear();
        assert_eq!(sq.take_back_unconsumed(|user_data| back.push(user_data)), 6);
        assert_eq!(back, Vec::from_iter(first + 6..first + 12));
        assert_eq!((sq.unpublished(), sq.unconsumed(), kernel(&sq, &cq)), (0, 0, 0));
        take(&mut cq, u32::MAX, |user_data| seen.push(user_data));
        assert_eq!(seen, [first, first + 1, first + 2]);
    }
}

/// Linux stores the head after a batch (`io_submit_sqes`), and the completions of its entries may be
/// there before.
#[test]
fn a_poller_that_moves_the_head_late_is_not_a_full_queue() {
    let mut memory = Simulated::new(4);
    let (mut sq, mut cq) = memory.queues(4);
    sq.has_poller = true;
    (0..4).for_each(|number| push(&mut sq, number));
    sq.publish();
    let head = sq.published.wrapping_sub(sq.unconsumed());
    assert_eq!(kernel(&sq, &cq), 4);
    // SAFETY: the word is memory of `Simulated`.
    unsafe { sq.head.as_ref() }.store(head, Ordering::Release);
    assert_eq!(take(&mut cq, u32::MAX, drop), 4);
    (4..8).for_each(|number| push(&mut sq, number));
    assert_eq!((sq.unpublished(), sq.unconsumed()), (4, 4));
    let mut back = Vec::new();
    assert_eq!(sq.take_back_unpublished(|user_data| back.push(user_data)), 4);
    assert_eq!(back, [4, 5, 6, 7]);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn every_entry_comes_back_once_and_in_order(
        pushes in proptest::collection::vec(0u32..12, 1..40),
        power in 0u32..4,
    ) {
        let entries = 1 << power;
        let mut memory = Simulated::new(entries);
        let (mut sq, mut cq) = memory.queues(entries);
        let (mut pushed, mut seen) = (0u64, 0u64);
        for count in pushes {
            for _ in 0..count.min(entries) {
                push(&mut sq, pushed);
                pushed += 1;
            }
            prop_assert!(sq.unpublished() <= entries);
            sq.publish();
            let published = sq.unconsumed();
            prop_assert_eq!(kernel(&sq, &cq), published);
            prop_assert_eq!(sq.unconsumed(), 0);
            let limit = count.max(1);
            while cq.ready() > 0 {
                let taken = take(&mut cq, limit, |user_data| {
                    assert_eq!(user_data, seen);
                    seen += 1;
                });
                prop_assert!(taken <= limit);
            }
        }
        prop_assert_eq!(seen, pushed);
    }
}
