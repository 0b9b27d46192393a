//! Physical region pages: how a command names the memory of its data, page by page.
//!
//! Source: NVM Express Base Specification 2.0, section 4.1.1. The first entry may begin anywhere in a page at
//! a multiple of four bytes; the second names the second page or a list; where a list continues, its page's
//! last entry names the next.

use super::device::PAGE;
use std::ptr::NonNull;

/// Entries of a page of a list.
const PER_PAGE: usize = PAGE / 8;

/// Pages that `len` bytes touch from byte `offset` of the first one on.
#[inline]
pub(super) fn pages_of(offset: usize, len: usize) -> usize {
    (offset + len).div_ceil(PAGE)
}

/// Bytes of list memory that a transfer of up to `len` bytes needs, wherever it begins. A list of less than a
/// page is a power of two long, so adjacent lists do not cross pages.
pub(super) fn list_len(len: usize) -> usize {
    let entries = pages_of(PAGE - 4, len) - 1;
    match entries {
        0 | 1 => 0,
        ..=PER_PAGE => entries.next_power_of_two() * 8,
        // Every page but the last gives one entry to the chain.
        _ => (entries - 1).div_ceil(PER_PAGE - 1) * PAGE,
    }
}

/// Where a list is written.
#[derive(Clone, Copy)]
pub(super) struct List<'a> {
    /// Its start as this process sees it.
    pub(super) base: NonNull<u64>,
    /// The pages that it lies in, as the device sees them.
    pub(super) pages: &'a [u64],
    /// Where it begins in the first of them.
    pub(super) offset: usize,
}

/// The second entry of a command that moves `len` bytes from byte `offset` of the first of `pages` on, more
/// than that page holds: the second page, or a list, which this writes.
///
/// # Safety
/// From the list's base on `list_len(len)` bytes may be written, and no command that the device has uses
/// them.
#[inline]
pub(super) unsafe fn second<'a>(
    pages: &[u64],
    offset: usize,
    len: usize,
    list: impl FnOnce() -> List<'a>,
) -> u64 {
    match pages_of(offset, len) {
        2 => pages[1],
        count => {
            let list = list();
            // SAFETY: by this function's condition.
            unsafe { write_list(&pages[1..count], list) };
            list.pages[0] + list.offset as u64
        }
    }
}

/// The second entries of all commands that begin where a slot does: a shorter transfer needs a shorter part
/// of the same list, as long as that has no chain.
#[derive(Clone, Copy)]
pub(super) struct Prepared {
    page: u64,
    list: u64,
}

impl Prepared {
    /// For up to `len` bytes from byte `offset` of the first of `pages` on; `None` where the list would have
    /// more than a page.
    ///
    /// # Safety
    /// As for [`second`], and nobody writes the list afterwards.
    pub(super) unsafe fn new<'a>(
        pages: &[u64],
        offset: usize,
        len: usize,
        list: impl FnOnce() -> List<'a>,
    ) -> Option<Prepared> {
        let page = pages.get(1).copied().unwrap_or(0);
        let list = match pages_of(offset, len) {
            ..=2 => page,
            count if count - 1 > PER_PAGE => return None,
            // SAFETY: by this function's condition.
            _ => unsafe { second(pages, offset, len, list) },
        };
        Some(Prepared { page, list })
    }

    /// The second entry of a command that touches `pages` pages, two or more.
    #[inline]
    pub(super) fn second(self, pages: usize) -> u64 {
        if pages == 2 { self.page } else { self.list }
    }
}

/// Writes `entries` and, between the pages of the list, its chain.
///
/// # Safety
/// As for [`second`].
unsafe fn write_list(mut entries: &[u64], list: List<'_>) {
    let mut at = list.base;
    for next in &list.pages[1..] {
        if entries.len() <= PER_PAGE {
            break;
        }
        // SAFETY: more entries than one page holds follow, so by the condition this whole page of the list is
        // ours.
        unsafe {
            at.copy_from_nonoverlapping(NonNull::from(entries).cast(), PER_PAGE - 1);
            at.add(PER_PAGE - 1).write(*next);
            at = at.add(PER_PAGE);
        }
        entries = &entries[PER_PAGE - 1..];
    }
    assert!(entries.len() <= PER_PAGE, "the list has the pages that it needs");
    // SAFETY: `list_len` counted these entries, which fit into the page that `at` lies in.
    unsafe { at.copy_from_nonoverlapping(NonNull::from(entries).cast(), entries.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads entries as a controller does: the ranges of memory, each within a page.
    fn walk(prp1: u64, prp2: u64, len: usize, list_page: impl Fn(u64) -> Vec<u64>) -> Vec<(u64, usize)> {
        let first = len.min(PAGE - (prp1 as usize % PAGE));
        let mut ranges = vec![(prp1, first)];
        let mut left = len - first;
        if left <= PAGE {
            ranges.extend((left > 0).then_some((prp2, left)));
            return ranges;
        }
        let (mut list, mut at) = (list_page(prp2), 0);
        while left > 0 {
            // The last entry of a page is a chain where more than a page of data is left.
            if at + 1 == list.len() && left > PAGE {
                (list, at) = (list_page(list[at]), 0);
                continue;
            }
            ranges.push((list[at], left.min(PAGE)));
            left -= left.min(PAGE);
            at += 1;
        }
        ranges
    }

    fn check(offset: usize, len: usize, list_offset: usize) {
        let pages: Vec<u64> =
            (0..pages_of(offset, len) as u64).map(|page| 0x10_0000 + page * 0x3000).collect();
        let bytes = list_len(len);
        let list_offset = if bytes < PAGE { (list_offset * bytes) % PAGE } else { 0 };
        let list_pages: Vec<u64> =
            (0..bytes.div_ceil(PAGE) as u64 + 1).map(|page| 0x8000_0000 + page * 0x2000).collect();
        let mut memory = vec![0u64; bytes / 8];
        let list =
            List { base: NonNull::from(&mut memory[..]).cast(), pages: &list_pages, offset: list_offset };
        // SAFETY: `memory` has the bytes that `list_len` says, and no device has them.
        let prp2 = if pages.len() == 1 { 0 } else { unsafe { second(&pages, offset, len, || list) } };
        let prp1 = pages[0] + offset as u64;
        let ranges = walk(prp1, prp2, len, |address| {
            let page =
                list_pages.iter().position(|page| (*page..*page + PAGE as u64).contains(&address)).unwrap();
            let start = page * PER_PAGE;
            let in_page = (address - list_pages[page]) as usize;
            assert_eq!(in_page, if page == 0 { list_offset } else { 0 });
            let room = (PAGE - in_page) / 8;
            memory[start..memory.len().min(start + room)].to_vec()
        });
        // What was prepared for the longest transfer serves a shorter one.
        let longest = if list_len(len) > PAGE { len } else { (PER_PAGE * PAGE).min(len * 2) };
        let all: Vec<u64> =
            (0..pages_of(offset, longest) as u64).map(|page| 0x10_0000 + page * 0x3000).collect();
        let mut room = vec![0u64; list_len(longest).max(bytes) / 8];
        let list = List { base: NonNull::from(&mut room[..]).cast(), ..list };
        // SAFETY: as above.
        let prepared = unsafe { Prepared::new(&all, offset, longest, || list) };
        assert_eq!(prepared.is_none(), pages_of(offset, longest) - 1 > PER_PAGE);
        if let Some(prepared) = prepared.filter(|_| pages.len() > 1) {
            assert_eq!(prepared.second(pages.len()), prp2);
            let entries = if pages.len() > 2 { pages.len() - 1 } else { 0 };
            assert_eq!(room[..entries], memory[..entries]);
        }
        let expected: Vec<(u64, usize)> = (0..pages.len())
            .map(|page| {
                let begin = if page == 0 { offset } else { 0 };
                let end = (offset + len - page * PAGE).min(PAGE);
                (pages[page] + begin as u64, end - begin)
            })
            .collect();
        assert_eq!(ranges, expected);
    }

    #[test]
    fn entries_at_the_edges_of_pages_and_lists() {
        let counts = [1, 2, 3, 513, 256, 257, 512, 514, 1024, 1025, 1535, 1536];
        for pages in counts.into_iter().take(if cfg!(miri) { 4 } else { counts.len() }) {
            for (offset, len) in
                [(0, pages * PAGE), (0, pages * PAGE - 512), (4, pages * PAGE), (PAGE - 4, pages * PAGE)]
            {
                check(offset, len, 0);
            }
        }
        assert_eq!([list_len(512), list_len(4096), list_len(8192), list_len(1 << 20)], [0, 0, 16, 2048]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 512 }))]
        #[test]
        fn every_byte_is_named_once_and_in_order(
            dwords in 0usize..1024,
            len in 1usize..6 << 20,
            at in 0usize..256,
        ) {
            let len = if cfg!(miri) { len % 100_000 + 1 } else { len };
            check(dwords * 4, len, at);
        }
    }
}
