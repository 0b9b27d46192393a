//! What the simulated controller's commands do.

use super::super::device::PAGE;
use super::{Cq, Sq, State};

/// Invalid Field in Command.
const INVALID_FIELD: u16 = 0x02;

/// Opcodes of I/O commands.
const FLUSH: u32 = 0x00;
const WRITE: u32 = 0x01;
const READ: u32 = 0x02;
const WRITE_ZEROES: u32 = 0x08;

/// Force Unit Access, of a write.
const FUA: u32 = 1 << 30;

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
            0x09 if words[10] == 0x0c => {
                let entry = u64::from_le_bytes(self.reach.read(prp1));
                self.seen.apst = (words[11] == 1).then_some(entry);
            }
            0x09 if words[10] == 0x0d => return Some((self.host_memory(words), 0)),
            0x09 if words[10] == 0x07 => return Some((0, (self.behaviour.pairs() - 1) * 0x1_0001)),
            0x09 if words[10] == self.behaviour.endless_feature => return None,
            0x09 => return Some((self.set_feature(words[10], words[11]), 0)),
            0x0a => return Some(self.get_feature(words[10])),
            0x05 => {
                assert!(entries <= self.behaviour.most_entries() && words[11] & 1 == 1);
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
                if !self.behaviour.never_aborts && self.hanging.contains(&which) {
                    self.hanging.retain(|hanging| *hanging != which);
                    self.complete(which.0, which.1, 0x07, 0);
                }
            }
            0x7c => self.shadow = Some((prp1, prp2)),
            other => panic!("opcode {other:#x}"),
        }
        Some((0, 0))
    }

    fn get_feature(&self, id: u32) -> (u16, u32) {
        self.behaviour.features.get(&id).map_or((INVALID_FIELD, 0), |value| (0, *value))
    }

    /// Sets a feature that it has, unless the feature refuses to change, or ignores the change.
    fn set_feature(&mut self, id: u32, value: u32) -> u16 {
        if self.behaviour.fixed_feature == id {
            return 0x10e;
        }
        match self.behaviour.features.get_mut(&id) {
            Some(_) if self.behaviour.deaf_feature == id => 0,
            Some(current) => {
                *current = value;
                0
            }
            None => INVALID_FIELD,
        }
    }

    /// Host Memory Buffer: takes the pages that the list names, each of which it must be able to reach, or
    /// gives them up.
    fn host_memory(&mut self, words: &[u32]) -> u16 {
        if words[11] & 1 == 0 {
            self.host_memory.clear();
            self.seen.host_memory_ends += 1;
            return 0;
        }
        if !self.host_memory.is_empty() {
            return 0x0c; // command sequence error
        }
        let list = u64::from(words[13]) | u64::from(words[14]) << 32;
        let (least, most) = self.behaviour.host_memory_parts;
        assert!(most == 0 || words[15] <= most.into(), "{} parts", words[15]);
        for part in 0..u64::from(words[15]) {
            let address = u64::from_le_bytes(self.reach.read(list + 16 * part));
            let pages = u32::from_le_bytes(self.reach.read(list + 16 * part + 8));
            assert!(pages >= least, "a part of {pages} pages");
            self.host_memory.extend((0..u64::from(pages)).map(|page| address + page * PAGE as u64));
        }
        assert_eq!(self.host_memory.len(), words[12] as usize);
        self.seen.host_pages = self.host_memory.len();
        self.use_host_memory();
        0
    }

    /// A drive may write into its buffer at any time.
    fn use_host_memory(&self) {
        for page in &self.host_memory {
            self.reach.write(page + PAGE as u64 - 8, &page.to_le_bytes());
        }
    }

    fn identify(&self, structure: u32, nsid: u32) -> [u8; PAGE] {
        let mut data = [0; PAGE];
        match structure {
            1 => {
                data[4..7].copy_from_slice(b"S 1");
                data[24..27].copy_from_slice(b"Sim");
                data[77] = self.behaviour.mdts.unwrap_or(9);
                data[257] = u8::from(self.behaviour.shadow);
                let (preferred, least) = self.behaviour.host_memory;
                data[272..276].copy_from_slice(&(preferred / PAGE as u32).to_le_bytes());
                data[276..280].copy_from_slice(&(least / PAGE as u32).to_le_bytes());
                data[332..336].copy_from_slice(&self.behaviour.host_memory_parts.0.to_le_bytes());
                data[336..338].copy_from_slice(&self.behaviour.host_memory_parts.1.to_le_bytes());
                data[263] = self.behaviour.power_states.len().saturating_sub(1) as u8;
                data[265] = u8::from(!self.behaviour.power_states.is_empty());
                for (state, (idle, entry, exit)) in
                    data[2048..].chunks_exact_mut(32).zip(&self.behaviour.power_states)
                {
                    state[3] = u8::from(*idle) << 1;
                    state[4..8].copy_from_slice(&entry.to_le_bytes());
                    state[8..12].copy_from_slice(&exit.to_le_bytes());
                }
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
        assert!(matches!(opcode, FLUSH | WRITE | READ | WRITE_ZEROES), "opcode {opcode:#x}");
        let moves_data = matches!(opcode, WRITE | READ);
        assert!(moves_data || words[6..10] == [0; 4], "memory for a command that moves no data");
        if opcode == FLUSH {
            self.seen.flushes += 1;
            return Some((0, 0));
        }
        let lba = u64::from(words[10]) | u64::from(words[11]) << 32;
        assert!(words[12] & FUA == 0 || opcode == WRITE, "FUA of opcode {opcode:#x}");
        let (start, len) = (lba as usize * 512, ((words[12] & !FUA) as usize + 1) * 512);
        if start + len > self.disk.len() {
            return Some((0x80, 0));
        }
        if opcode == WRITE_ZEROES {
            self.disk[start..start + len].fill(0);
            return Some((0, 0));
        }
        let mut at = start;
        for (address, bytes) in self.ranges(words, len) {
            if opcode == READ {
                self.reach.write(address, &self.disk[at..at + bytes]);
            } else {
                // SAFETY: the range is mapped and lies in one page.
                unsafe { std::ptr::copy(self.reach.at(address), self.disk[at..].as_mut_ptr(), bytes) };
            }
            at += bytes;
        }
        self.use_host_memory();
        self.seen.fuas += u64::from(words[12] & FUA != 0);
        *(if opcode == READ { &mut self.seen.reads } else { &mut self.seen.writes }) += 1;
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
