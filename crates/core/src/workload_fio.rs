//! A workload as options of fio.

use crate::workload::{Workload, WriteSync};

impl Workload {
    /// What each I/O is, as fio's options: direction, sizes, flushes, and writes that are durable.
    pub fn fio_options(&self) -> Vec<(&'static str, String)> {
        let mut options = vec![("rw", self.rw.to_string())];
        if self.rw.is_mixed() {
            options.push(("rwmixread", self.rwmixread.to_string()));
        }
        options.push(match &self.sizes {
            Some(sizes) => ("bssplit", sizes.to_string()),
            None => ("bs", self.bs.to_string()),
        });
        let flushes = [("fsync", self.fsync), ("fdatasync", self.fdatasync)];
        let asked = flushes.into_iter().filter(|(_, writes)| *writes > 0);
        options.extend(asked.map(|(key, writes)| (key, writes.to_string())));
        if self.sync != WriteSync::None {
            options.push(("sync", self.sync.to_string()));
        }
        options
    }

    /// A rate as fio's `rate_iops`. fio holds reads and writes to a rate each, so that of a mixed workload is
    /// shared out by `rwmixread`; a rate of 0 would be none at all.
    pub fn fio_rate_iops(&self, rate: u64) -> String {
        if !self.rw.is_mixed() {
            return rate.to_string();
        }
        let reads = rate.saturating_mul(self.rwmixread.into()).div_ceil(100);
        format!("{},{}", reads.max(1), rate.saturating_sub(reads).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Rw;

    #[test]
    fn the_keys_are_fios() {
        let text = |workload: &Workload| -> String {
            workload.fio_options().iter().map(|(key, value)| format!("{key}={value} ")).collect()
        };
        let plain = Workload::default();
        assert_eq!(text(&plain), "rw=randread bs=4096 ");
        let all = Workload {
            rw: Rw::Randrw,
            rwmixread: 70,
            sizes: Some("4k/60:64k/40,8k".parse().unwrap()),
            fsync: 8,
            fdatasync: 4,
            sync: WriteSync::Dsync,
            ..plain
        };
        assert_eq!(
            text(&all),
            "rw=randrw rwmixread=70 bssplit=4k/60:64k/40,8k/100 fsync=8 fdatasync=4 sync=dsync "
        );
    }
}
