//! Jobs of another kind that do I/O beside those of a workload, on a path of their own.

use crate::workload::{JobsBeside, Workload};
use std::fmt;

/// What they do, and by which path: `write 8k iodepth 1 numjobs 1 by libaio/syscall/interrupt`.
impl fmt::Display for JobsBeside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.workload.title(), self.path)
    }
}

impl Workload {
    /// The workload's own jobs, without those beside.
    pub fn alone(&self) -> Workload {
        Workload { beside: Vec::new(), ..self.clone() }
    }

    /// The jobs beside, as the key `beside` has them; empty without any.
    pub fn beside_text(&self) -> String {
        self.beside.iter().map(JobsBeside::to_string).collect::<Vec<_>>().join(" beside ")
    }

    /// True if jobs of any kind write.
    pub fn writes(&self) -> bool {
        self.rw.writes() || self.beside.iter().any(|jobs| jobs.workload.rw.writes())
    }

    /// True if jobs of any kind read.
    pub fn reads(&self) -> bool {
        self.rw.reads() || self.beside.iter().any(|jobs| jobs.workload.rw.reads())
    }

    /// Jobs of all kinds.
    pub fn all_jobs(&self) -> u32 {
        self.beside.iter().map(|jobs| jobs.workload.numjobs).fold(self.numjobs, u32::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Rw;

    fn log() -> JobsBeside {
        let workload = Workload { rw: Rw::Write, bs: 8192, fdatasync: 1, numjobs: 2, ..Workload::default() };
        JobsBeside { path: "posix-sio/syscall/interrupt".parse().unwrap(), workload }
    }

    #[test]
    fn jobs_beside_are_part_of_a_workload() {
        let readers = Workload::default();
        let both = Workload { beside: vec![log()], ..readers.clone() };
        assert_eq!((readers.writes(), both.writes(), both.reads(), both.all_jobs()), (false, true, true, 3));
        assert_eq!(both.alone(), readers);
        assert_ne!(both, readers);
        assert_eq!(
            both.title(),
            "randread 4k iodepth 1 numjobs 1 beside write 8k iodepth 1 numjobs 2 fdatasync 1 by \
             posix-sio/syscall/interrupt"
        );
        let json = serde_json::to_value(&both).unwrap();
        assert_eq!(json["beside"][0]["path"], "posix-sio/syscall/interrupt");
        assert_eq!(serde_json::from_value::<Workload>(json).unwrap(), both);
        assert!(!serde_json::to_string(&readers).unwrap().contains("beside"));
    }
}
