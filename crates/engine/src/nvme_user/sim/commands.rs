//! What the simulated controller's commands do.

use super::super::registers::PAGE;
use super::{Cq, Sq, State};

impl State {
    pub(super) fn admin(&mut self, words: &[u32]) -> Option<(u16, u32)> {
        let prp1 = u64::from(words[6]) | u64::from(words[7]) << 32;
        let prp2 = u64::from(words[8]) | u64::from(words[9]) << 32;
        let (id, entries) = ((words[10] & 0xffff) as usize, (words[10] >> 16) + 1);
        let opcode = words[0] & 0xff;
        if self.behaviour.admin_hangs && opcode != 0x06 {
            return None;
        }
        match opcode {
            0x06 => {
                let data = self.identify(words[10], words[1]);
                self.reach.write(prp1, &data);
            }
            0x02 => {
                assert_eq!(words[10], 2 | 127 << 16);
                let mut log = [0; 512];
                log[64..72].copy_from_slice(&self.seen.reads.to_le_bytes());
                log[80..88].copy_from_slice(&self.seen.writes.to_le_bytes());
                self.reach.write(prp1, &log);
            }
            0x09 => return Some((0, (self.behaviour.pairs - 1) * 0x1_0001)),
            0x05 => {
                assert!(entries <= self.behaviour.most_entries && words[11] & 1 == 1);
                let vector = (words[11] & 2 != 0).then_some((words[11] >> 16) as usize);
                self.completion[id] = Some(Cq { base: prp1, entries, head: 0, tail: 0, phase: 1, vector });
            }
            0x01 => {
                assert!(self.completion[id].is_some() && words[11] == (id as u32) << 16 | 1);
                self.submission[id] = Some(Sq { base: prp1, entries, head: 0, tail: 0 });
            }
            0x00 => {
                self.submission[id] = None;
                self.hanging.retain(|(queue, _)| *queue != id);
            }
            0x04 => {
                assert!(self.submission[id].is_none(), "a completion queue in use");
                self.completion[id] = None;
            }
            0x08 => {
                self.seen.aborts += 1;
                let which = (id, (words[10] >> 16) as u16);
                if self.behaviour.aborts && self.hanging.contains(&which) {
                    self.hanging.retain(|hanging| *hanging != which);
                    self.complete(which.0, which.1, 0x07, 0);
                }
            }
            0x7c => self.shadow = Some((prp1, prp2)),
            other => panic!("opcode {other:#x}"),
        }
        Some((0, 0))
    }

    fn identify(&self, structure: u32, nsid: u32) -> [u8; PAGE] {
        let mut data = [0; PAGE];
        match structure {
            1 => {
                data[4..7].copy_from_slice(b"S 1");
                data[24..27].copy_from_slice(b"Sim");
                data[77] = self.behaviour.mdts;
                data[257] = u8::from(self.behaviour.shadow);
                (data[512], data[513]) = (0x66, 0x44);
            }
            2 => data[0] = 1,
            0 => {
                assert_eq!(nsid, 1);
                data[0..8].copy_from_slice(&(self.disk.len() as u64 / 512).to_le_bytes());
                data[128..130].copy_from_slice(&self.behaviour.metadata.to_le_bytes());
                data[130] = 9;
            }
            other => panic!("CNS {other}"),
        }
        data
    }

    pub(super) fn io(&mut self, id: usize, words: &[u32]) -> Option<(u16, u32)> {
        if self.behaviour.hangs {
            self.hanging.push((id, (words[0] >> 16) as u16));
            return None;
        }
        if self.behaviour.status != 0 {
            return Some((self.behaviour.status, 0));
        }
        let opcode = words[0] & 0xff;
        if opcode == 0 {
            self.seen.flushes += 1;
            return Some((0, 0));
        }
        let lba = u64::from(words[10]) | u64::from(words[11]) << 32;
        let (start, len) = (lba as usize * 512, (words[12] as usize + 1) * 512);
        if start + len > self.disk.len() {
            return Some((0x80, 0));
        }
        let mut at = start;
        for (address, bytes) in self.ranges(words, len) {
            if opcode == 2 {
                self.reach.write(address, &self.disk[at..at + bytes]);
            } else {
                // SAFETY: the range is mapped and lies in one page.
                unsafe { std::ptr::copy(self.reach.at(address), self.disk[at..].as_mut_ptr(), bytes) };
            }
            at += bytes;
        }
        *(if opcode == 2 { &mut self.seen.reads } else { &mut self.seen.writes }) += 1;
        Some((0, 0))
    }

    /// The ranges of memory that a command names.
    fn ranges(&self, words: &[u32], len: usize) -> Vec<(u64, usize)> {
        let prp1 = u64::from(words[6]) | u64::from(words[7]) << 32;
        let prp2 = u64::from(words[8]) | u64::from(words[9]) << 32;
        assert_eq!(prp1 % 4, 0);
        let first = len.min(PAGE - prp1 as usize % PAGE);
        let mut ranges = vec![(prp1, first)];
        let mut left = len - first;
        let (mut at, is_list) = (prp2, left > PAGE);
        while left > 0 {
            let mut page = at;
            if is_list {
                page = u64::from_le_bytes(self.reach.read(at));
                if at as usize % PAGE == PAGE - 8 && left > PAGE {
                    at = page;
                    continue;
                }
                at += 8;
            }
            assert_eq!(page % PAGE as u64, 0, "an entry that begins within a page");
            ranges.push((page, left.min(PAGE)));
            left -= left.min(PAGE);
        }
        ranges
    }
}
