//! What a run needs of its caller, from its first step to its last.

use crate::options::Options;
use iopj_host::settings::Host;
use iopj_metering::Progress;
use std::sync::atomic::AtomicBool;

/// What a run needs of its caller, from its first step to its last.
pub(crate) struct RunContext<'a> {
    pub(crate) host: Host,
    pub(crate) options: &'a Options,
    pub(crate) progress: &'a mut dyn Progress,
    /// Set by Ctrl-C.
    pub(crate) stop: &'a AtomicBool,
}

impl<'a> RunContext<'a> {
    /// A run on this host.
    pub(crate) fn new(
        options: &'a Options,
        progress: &'a mut dyn Progress,
        stop: &'a AtomicBool,
    ) -> RunContext<'a> {
        RunContext { host: Host::new(), options, progress, stop }
    }
}
