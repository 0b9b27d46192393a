//! What a job counts under an open load, besides what every job does.

use super::pace::Flight;
use super::recorder::Recorder;
use crate::trace::Op;

/// What a job counts under an open load. All times are in ns.
pub(crate) struct OpenTally {
    /// Latencies from submission of whole I/Os, and their exact sum.
    pub(crate) submission: Recorder,
    pub(crate) submission_sum_ns: u64,
    /// I/Os that were issued; the sum and the maximum of the times by which they were late, and the last one.
    pub(crate) issued: u64,
    pub(crate) lag_sum_ns: u64,
    pub(crate) lag_max_ns: u64,
    pub(crate) last_lag_ns: u64,
    /// For how long the oldest I/O that was not issued had been due when the time was over.
    pub(crate) behind_ns: u64,
    /// I/Os that were due and never issued.
    pub(crate) unissued: u64,
    /// Bytes that reads and writes were to move.
    pub(crate) issued_bytes: [u64; 2],
    /// Durable writes of a trace.
    pub(crate) durable_writes: u64,
    /// Bytes that whole ones moved.
    pub(crate) whole_bytes: u64,
    /// Latencies of flushes and fsyncs from when they were due; discards that are complete.
    pub(crate) syncs: Recorder,
    pub(crate) syncs_sum_ns: u64,
    pub(crate) discards: u64,
    /// Sleeps between arrivals, and how long they were in all.
    pub(crate) sleeps: u64,
    pub(crate) slept_ns: u64,
}

impl OpenTally {
    pub(crate) fn new() -> OpenTally {
        OpenTally {
            submission: Recorder::new(),
            submission_sum_ns: 0,
            issued: 0,
            lag_sum_ns: 0,
            lag_max_ns: 0,
            last_lag_ns: 0,
            behind_ns: 0,
            unissued: 0,
            issued_bytes: [0; 2],
            durable_writes: 0,
            whole_bytes: 0,
            syncs: Recorder::new(),
            syncs_sum_ns: 0,
            discards: 0,
            sleeps: 0,
            slept_ns: 0,
        }
    }

    /// Empties it in its place.
    pub(crate) fn reset(&mut self) {
        self.submission.reset();
        self.syncs.reset();
        (self.submission_sum_ns, self.issued, self.issued_bytes) = (0, 0, [0; 2]);
        self.durable_writes = 0;
        (self.syncs_sum_ns, self.discards, self.whole_bytes) = (0, 0, 0);
        (self.lag_sum_ns, self.lag_max_ns, self.last_lag_ns) = (0, 0, 0);
        (self.behind_ns, self.unissued, self.sleeps, self.slept_ns) = (0, 0, 0, 0);
    }

    /// An I/O was issued so long after it was due.
    #[inline]
    pub(super) fn issued(&mut self, flight: &Flight, lag_ns: u64) {
        self.issued += 1;
        if flight.op.transfers() {
            self.issued_bytes[usize::from(flight.op.is_write())] += u64::from(flight.len);
            self.durable_writes += u64::from(flight.op == Op::WriteDsync);
        }
        self.lag_sum_ns += lag_ns;
        self.lag_max_ns = self.lag_max_ns.max(lag_ns);
        self.last_lag_ns = lag_ns;
    }

    /// A whole I/O is complete, so long after it was issued.
    #[inline]
    pub(crate) fn complete(&mut self, bytes: u32, latency_ns: u64) {
        self.whole_bytes += u64::from(bytes);
        self.submission.record(latency_ns);
        self.submission_sum_ns += latency_ns;
    }

    /// A flush or an fsync is complete.
    pub(crate) fn synced(&mut self, latency_ns: u64) {
        self.syncs.record(latency_ns);
        self.syncs_sum_ns += latency_ns;
    }

    pub(crate) fn slept(&mut self, ns: u64) {
        self.sleeps += 1;
        self.slept_ns += ns;
    }

    /// Adds what another job has counted; times by which jobs are behind are not added up.
    pub(crate) fn add(&mut self, other: &OpenTally) {
        self.submission.add(&other.submission);
        self.submission_sum_ns += other.submission_sum_ns;
        self.issued += other.issued;
        self.lag_sum_ns += other.lag_sum_ns;
        self.lag_max_ns = self.lag_max_ns.max(other.lag_max_ns);
        self.last_lag_ns = self.last_lag_ns.max(other.last_lag_ns);
        self.behind_ns = self.behind_ns.max(other.behind_ns);
        self.unissued += other.unissued;
        for (sum, part) in self.issued_bytes.iter_mut().zip(other.issued_bytes) {
            *sum += part;
        }
        self.durable_writes += other.durable_writes;
        self.syncs.add(&other.syncs);
        self.syncs_sum_ns += other.syncs_sum_ns;
        self.discards += other.discards;
        self.whole_bytes += other.whole_bytes;
        self.sleeps += other.sleeps;
        self.slept_ns += other.slept_ns;
    }
}
