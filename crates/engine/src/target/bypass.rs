//! The target of kernel bypass: a namespace of a controller that this process drives.

use super::error::{TargetError, TargetFault};
use super::{Claims, Target, TargetKind};
use crate::nvme_user::{Controller, NamespaceInfo};
use std::path::Path;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct Bypass {
    controller: Arc<Controller>,
    namespace: NamespaceInfo,
}

impl Target {
    /// The namespace `nsid` of a controller that this process drives. `path` is its name in messages: the
    /// kernel's block device, which does not exist while the controller is taken. Whether it may be written
    /// was decided before it was taken.
    ///
    /// # Errors
    /// The controller does not have the namespace, or it cannot be used (metadata, protection information).
    pub fn open_bypass(
        path: &Path,
        controller: &Arc<Controller>,
        nsid: u32,
        writable: bool,
    ) -> Result<Target, TargetError> {
        let address = controller.address();
        let Some(namespace) =
            controller.namespaces().iter().find(|namespace| namespace.nsid == nsid).cloned()
        else {
            let numbers: Vec<String> =
                controller.namespaces().iter().map(|other| other.nsid.to_string()).collect();
            let has = if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") };
            return Err(TargetFault::NoNamespace { nsid, controller: address, has }.of(path));
        };
        if let Some(reason) = namespace.unusable {
            return Err(TargetFault::UnusableNamespace { nsid, controller: address, reason }.of(path));
        }
        Ok(Target {
            path: path.to_owned(),
            kind: TargetKind::NvmeUser,
            writable,
            file: None,
            claims: Claims::default(),
            data_offset: 0,
            data_len: namespace.blocks << namespace.lba_shift,
            logical_block: 1 << namespace.lba_shift,
            devices: Vec::new(),
            device_id: 0,
            nvme: None,
            bypass: Some(Bypass { controller: Arc::clone(controller), namespace }),
            warnings: Vec::new(),
            file_id: None,
            is_callers: false,
        })
    }

    /// True if a pool for this target must be [`Pool::huge`](crate::Pool::huge): its controller reaches
    /// memory by physical addresses, and only huge pages stay where they are.
    pub fn needs_huge_pages(&self) -> bool {
        self.controller().is_some_and(|controller| controller.needs_huge_pages())
    }

    /// The controller that this process drives, where the target is one of its namespaces.
    pub fn controller(&self) -> Option<&Arc<Controller>> {
        self.bypass.as_ref().map(|bypass| &bypass.controller)
    }

    pub(crate) fn bypass(&self) -> Option<(&Arc<Controller>, &NamespaceInfo)> {
        self.bypass.as_ref().map(|bypass| (&bypass.controller, &bypass.namespace))
    }

    /// Says that the kernel's driver does not have the device.
    pub(crate) fn taken(&self) -> String {
        match self.controller() {
            Some(controller) => {
                format!("the device {} is taken from the kernel's driver", controller.address())
            }
            None => "the device is taken from the kernel's driver".to_owned(),
        }
    }
}
