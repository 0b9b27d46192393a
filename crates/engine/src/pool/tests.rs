//! The pool: who has a buffer, and when its memory goes.

use super::*;
use crate::region::HUGE_PAGE;
use proptest::prelude::*;

#[test]
fn a_buffer_has_one_owner_and_keeps_its_bytes() {
    let pool = Pool::new(2, 512).unwrap();
    let mut first = pool.acquire().unwrap();
    let second = pool.acquire().unwrap();
    assert_eq!((first.index(), second.index(), first.len()), (0, 1, 512));
    assert!(pool.acquire().is_none() && pool.available() == 0);
    first[511] = 9;
    assert_eq!(pool.address(0).as_ptr() as usize % ALIGNMENT, 0);
    drop(first);
    let again = pool.acquire().unwrap();
    assert_eq!((again.index(), again[511], second[511]), (0, 9, 0));
}

#[test]
fn a_buffer_in_flight_is_nobodys_and_holds_the_pool() {
    let pool = Pool::new(2, 512).unwrap();
    let index = pool.acquire().unwrap().take_off();
    assert_eq!((pool.available(), pool.holders()), (1, 2));
    // SAFETY: the buffer took off above, and lands here alone.
    let buffer = unsafe { pool.land(index) };
    assert_eq!(pool.holders(), 2);
    drop(buffer);
    assert_eq!((pool.available(), pool.holders()), (2, 1));
}

#[test]
fn buffers_may_begin_within_a_page() {
    let pool = Pool::shifted(2, 4096, 20).unwrap();
    let mut buffers: Vec<Buffer> = std::iter::from_fn(|| pool.acquire()).collect();
    for (number, buffer) in buffers.iter_mut().enumerate() {
        buffer.fill(number as u8 + 1);
        assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 20);
    }
    for (number, buffer) in buffers.iter().enumerate() {
        assert!(buffer.iter().all(|byte| *byte == number as u8 + 1));
    }
    let region = pool.region().unwrap();
    assert_eq!((region.iov_base as usize % ALIGNMENT, region.iov_len), (0, 2 * 8192));
}

#[test]
fn pools_of_threads_share_a_region() {
    let region = Region::new(4 * 4096).unwrap();
    let here = Pool::within(&region, 2, 4096).unwrap();
    std::thread::scope(|scope| {
        let theirs = scope.spawn(|| {
            let pool = Pool::within(&region, 2, 4000).unwrap();
            let mut buffer = pool.acquire().unwrap();
            buffer.fill(1);
            buffer.as_ptr() as usize
        });
        let ours = here.acquire().unwrap().as_ptr() as usize;
        assert!(theirs.join().unwrap().abs_diff(ours) >= 2 * 4096);
    });
    assert!(here.acquire().unwrap().iter().all(|byte| *byte == 0));
    let message = Pool::within(&region, 3, 4096).unwrap_err().to_string();
    assert!(message.starts_with("the region has no 12288 bytes in one piece left"), "{message}");
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no huge pages")]
fn a_pool_in_huge_pages_says_how_many_it_lacks() {
    // More than any machine has free.
    let message = Pool::huge(1 << 20, 1 << 24).unwrap_err().to_string();
    assert!(message.contains("8388608 free huge pages of 2 MiB"), "{message}");
    match Pool::huge(3, 512) {
        Ok(pool) => {
            assert!(pool.is_huge() && (pool.region().unwrap().iov_base as usize).is_multiple_of(HUGE_PAGE));
            assert_eq!(pool.region().unwrap().iov_len, HUGE_PAGE);
        }
        Err(error) => assert_eq!(error, PoolError::NoHugePages { pages: 1 }),
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri ends where it cannot have what is asked for")]
fn what_no_machine_has_is_refused() {
    assert!(matches!(Pool::new(u32::MAX, u32::MAX), Err(PoolError::NoMemory { .. })));
}

/// Forks and gives what the child found.
#[cfg(not(miri))]
fn in_a_child(check: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child only calls `check` and ends without running anything else of this process.
    match unsafe { libc::fork() } {
        0 => {
            let holds = check();
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!holds)) }
        }
        child => {
            let mut status = 1;
            // SAFETY: `status` lives through the call.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            status == 0
        }
    }
}

#[cfg(not(miri))]
#[test]
fn a_forked_child_neither_has_the_pool_nor_unmaps_what_it_has_in_its_place() {
    let pool = Pool::new(2, 4096).unwrap();
    let mut buffer = pool.acquire().unwrap();
    buffer.fill(7);
    let iovec = pool.region().unwrap();
    let is_mapped = || {
        let mut pages = [0u8; 2];
        // SAFETY: mincore(2) reads no memory of the range; `pages` has a byte for each of its pages.
        unsafe { libc::mincore(iovec.iov_base, iovec.iov_len, pages.as_mut_ptr()) == 0 }
    };
    let copy = pool.clone();
    assert!(in_a_child(move || {
        let gone = !is_mapped();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: a new mapping that replaces none.
        let own = unsafe { libc::mmap(iovec.iov_base, iovec.iov_len, libc::PROT_READ, flags, -1, 0) };
        drop((copy, buffer, pool));
        gone && own == iovec.iov_base && is_mapped()
    }));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    /// Buffers are taken, dropped, sent on flights and landed in any order: each has one owner all the time.
    #[test]
    fn every_buffer_is_in_one_place(
        steps in prop::collection::vec((0u8..4, any::<prop::sample::Index>()), 1..80),
    ) {
        let pool = Pool::new(4, 512).unwrap();
        let (mut held, mut flying): (Vec<Buffer>, Vec<u32>) = (Vec::new(), Vec::new());
        for (step, which) in steps {
            match step {
                0 => held.extend(pool.acquire()),
                1 if !held.is_empty() => drop(held.remove(which.index(held.len()))),
                2 if !held.is_empty() => flying.push(held.remove(which.index(held.len())).take_off()),
                3 if !flying.is_empty() => {
                    let index = flying.remove(which.index(flying.len()));
                    // SAFETY: the index is of a flight that has not landed.
                    held.push(unsafe { pool.land(index) });
                }
                _ => {}
            }
            for buffer in &mut held {
                let index = buffer.index() as u8;
                buffer[0] = index;
            }
            let mut all: Vec<u32> = held.iter().map(Buffer::index).chain(flying.iter().copied()).collect();
            all.sort_unstable();
            all.dedup();
            prop_assert_eq!(all.len(), held.len() + flying.len(), "a buffer has two owners");
            prop_assert_eq!(all.len() + pool.available() as usize, 4);
            prop_assert!(held.iter().all(|buffer| u32::from(buffer[0]) == buffer.index()));
            prop_assert_eq!(pool.holders(), 1 + held.len() + flying.len());
        }
        for index in flying {
            // SAFETY: as above.
            drop(unsafe { pool.land(index) });
        }
        drop(held);
        prop_assert_eq!(pool.holders(), 1);
    }
}

#[test]
fn lent_memory_is_where_the_caller_has_it_and_rust_sees_none_of_it() {
    let pool = Pool::lent(2);
    let mut memory = [0_u8; 64];
    let base = NonNull::from(&mut memory).cast::<u8>();
    // SAFETY: nothing is pushed to an engine.
    let lend = |at: NonNull<u8>, len| unsafe { pool.lend(at, len) };
    let buffer = lend(base, 64).unwrap();
    assert_eq!((pool.address(buffer.index()), pool.extent(buffer.index()), buffer.len()), (base, 64, 0));
    let second = lend(base, 32).unwrap();
    assert!(lend(base, 1).is_none(), "both are lent");
    let index = buffer.index();
    drop(buffer);
    assert_eq!(
        pool.address(pool.acquire().unwrap().index()),
        base,
        "what an engine takes back is where it was"
    );
    assert_eq!((index, pool.extent(second.index())), (0, 32));
    assert!(lend(base, (1 << 30) + 1).is_none(), "more than a gibibyte");
    assert!(pool.region().is_none() && !pool.is_huge());
    let own = Pool::new(1, 512).unwrap();
    // SAFETY: as above.
    assert!(unsafe { own.lend(base, 64) }.is_none(), "it has memory of its own");
}
