//! What a run has open.

use super::MadeFile;
use super::access::Access;
use iopj_host::settings::DeviceLocks;
use std::sync::Arc;

/// What a run has open, in the order in which it is dropped: the drives are closed and their settings put
/// back, then a made file goes, and then the locks.
pub(crate) struct Drives {
    pub(crate) access: Access,
    /// A drive of this host beside the target host's, in a study over fabrics that has one.
    pub(crate) here: Option<Access>,
    /// The file that the run has made, which is removed when it is dropped, unless it is kept.
    pub(crate) made: Option<MadeFile>,
    /// None over fabrics: there the drive has another name at each connection, and so another lock.
    pub(crate) _locks: Option<Arc<DeviceLocks>>,
}

impl Drives {
    /// Both, where there are two.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Access> {
        [Some(&self.access), self.here.as_ref()].into_iter().flatten()
    }

    /// Both, where there are two.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Access> {
        [Some(&mut self.access), self.here.as_mut()].into_iter().flatten()
    }
}
