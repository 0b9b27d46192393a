//! What one line of the journal is about: a file of a setting, the driver of a PCI device, what a drive loses
//! by a change of its driver, which drive that is, an entry of NVMe over fabrics, or a file that was made.
//! Nothing else is ever written.

use super::allowed::{NotAllowed, is_driver_name, is_plain_value, is_serial};
use super::attribute::Attribute;
use super::binding::Binding;
use super::controller::Serial;
use super::drive_setting::DriveSetting;
use super::fabric_item::{ABSENT, FabricItem};
use super::made_file::MadeFile;
use iopj_engine::PciAddress;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// One thing that may be changed. It is made of checked parts alone, so no text from a journal can lead
/// elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    Attribute(Attribute),
    Driver(Binding),
    DriveSetting(DriveSetting),
    Serial(Serial),
    Fabric(FabricItem),
    MadeFile(MadeFile),
}

impl Item {
    /// The block device that it belongs to.
    pub(super) fn device(&self) -> Option<&str> {
        match self {
            Item::Attribute(attribute) => attribute.device(),
            Item::Driver(_) | Item::Serial(_) | Item::Fabric(_) | Item::MadeFile(_) => None,
            Item::DriveSetting(setting) => setting.device(),
        }
    }

    /// The controller of the drive that it belongs to, if there is one.
    pub(super) fn controller(&self, sys: &Path) -> Option<PciAddress> {
        match self {
            Item::DriveSetting(DriveSetting::Feature(address, _) | DriveSetting::Tolerance(address)) => {
                Some(*address)
            }
            Item::Attribute(attribute) if attribute.link().is_some() => attribute.link(),
            item => PciAddress::of_device(&sys.join("block").join(item.device()?)),
        }
    }

    /// The lock under which it is changed.
    pub(super) fn lock_name(&self) -> String {
        match self {
            Item::Attribute(attribute) => attribute.lock_name(),
            Item::Driver(binding) => binding.lock_name(),
            Item::DriveSetting(setting) => setting.lock_name(),
            Item::Serial(serial) => Binding(serial.0).lock_name(),
            Item::Fabric(item) => item.lock_name(),
            Item::MadeFile(file) => file.lock_name(),
        }
    }

    /// Its path in sysfs or beside it; a controller's feature has no file there.
    pub(super) fn file(&self, sys: &Path) -> PathBuf {
        match self {
            Item::Attribute(attribute) => attribute.file(sys),
            Item::Fabric(item) => item.place(sys),
            Item::MadeFile(file) => file.path().to_owned(),
            item => sys.join(item.to_string()),
        }
    }

    /// True for an old value that can be put back.
    pub(super) fn accepts(&self, old: &str) -> bool {
        match self {
            Item::Attribute(_) => is_plain_value(old),
            Item::Driver(_) => is_driver_name(old),
            Item::DriveSetting(setting) => setting.accepts(old),
            Item::Serial(_) => is_serial(old),
            Item::Fabric(_) | Item::MadeFile(_) => old == ABSENT,
        }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Attribute(attribute) => attribute.fmt(f),
            Item::Driver(binding) => binding.fmt(f),
            Item::DriveSetting(setting) => setting.fmt(f),
            Item::Serial(serial) => serial.fmt(f),
            Item::Fabric(item) => item.fmt(f),
            Item::MadeFile(file) => file.fmt(f),
        }
    }
}

impl FromStr for Item {
    type Err = NotAllowed;

    fn from_str(text: &str) -> Result<Item, NotAllowed> {
        let attribute = text.parse().map(Item::Attribute);
        let driver = attribute.or_else(|_: NotAllowed| text.parse().map(Item::Driver));
        let setting = driver.or_else(|_: NotAllowed| text.parse().map(Item::DriveSetting));
        let serial = setting.or_else(|_: NotAllowed| text.parse().map(Item::Serial));
        let fabric = serial.or_else(|_: NotAllowed| text.parse().map(Item::Fabric));
        fabric.or_else(|_: NotAllowed| text.parse().map(Item::MadeFile))
    }
}
