//! A second handle of an open target, for what opens engines on it later.

use super::error::TargetError;
use super::{Claims, Target, TargetKind, access};
use std::sync::Arc;

impl Target {
    /// Another handle of the same target, with the same descriptor and claims: the devices stay claimed until
    /// both are gone.
    ///
    /// # Errors
    /// Descriptors ran out.
    pub fn another(&self) -> Result<Target, TargetError> {
        let is_device = self.kind != TargetKind::File;
        let opening = |error| TargetError::opening(&self.path, access(self.writable), is_device, error);
        let claims: Claims = Arc::clone(&self.claims);
        Ok(Target {
            path: self.path.clone(),
            kind: self.kind,
            writable: self.writable,
            file: self.file.as_ref().map(|file| file.try_clone().map_err(opening)).transpose()?,
            claims,
            data_offset: self.data_offset,
            data_len: self.data_len,
            logical_block: self.logical_block,
            devices: self.devices.clone(),
            device_id: self.device_id,
            nvme: self.nvme,
            bypass: self.bypass.clone(),
            warnings: self.warnings.clone(),
            file_id: self.file_id,
            is_callers: self.is_callers,
        })
    }
}
