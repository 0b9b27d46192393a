//! An entry that a run makes for NVMe over fabrics, as data and text: of the kernel's target (nvmet), or the
//! connections of its host. It is made of checked parts alone.

use super::allowed::NotAllowed;
use super::nvme_name::{Uuid, is_nqn};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// An entry that did not exist before the run: the old value of each of them.
pub(super) const ABSENT: &str = "absent";

/// One entry that a run makes. Its text form is not a path of sysfs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FabricItem {
    /// A subsystem of nvmet that bears this id, with its namespace, its links to ports and its list of hosts:
    /// `nvmet/subsystems/UUID`.
    Subsystem(Uuid),
    /// A host that nvmet knows, with its secret: `nvmet/hosts/UUID`.
    Host(Uuid),
    /// A port of nvmet made for the subsystem with this id: `nvmet/ports/N/UUID`.
    Port(u16, Uuid),
    /// The controllers that the host with this id has for a subsystem: `nvme-fabrics/HOSTID/NQN`.
    Controllers(Uuid, String),
}

impl FabricItem {
    /// The lock under which a dead run's entry is removed.
    pub(super) fn lock_name(&self) -> String {
        match self {
            FabricItem::Subsystem(id) | FabricItem::Host(id) | FabricItem::Port(_, id) => {
                format!("nvmet:{id}")
            }
            FabricItem::Controllers(host, _) => format!("nvme-fabrics:{host}"),
        }
    }

    /// Where it is, for messages.
    pub(super) fn place(&self, sys: &Path) -> PathBuf {
        let nvmet = nvmet(sys);
        match self {
            FabricItem::Subsystem(id) => nvmet.join("subsystems").join(id.nqn()),
            FabricItem::Host(id) => nvmet.join("hosts").join(id.nqn()),
            FabricItem::Port(number, _) => nvmet.join("ports").join(number.to_string()),
            FabricItem::Controllers(_, nqn) => sys.join("class/nvme-fabrics/ctl").join(nqn),
        }
    }
}

/// The target's folder in configfs.
pub(super) fn nvmet(sys: &Path) -> PathBuf {
    sys.join("kernel/config/nvmet")
}

impl fmt::Display for FabricItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FabricItem::Subsystem(id) => write!(f, "nvmet/subsystems/{id}"),
            FabricItem::Host(id) => write!(f, "nvmet/hosts/{id}"),
            FabricItem::Port(number, id) => write!(f, "nvmet/ports/{number}/{id}"),
            FabricItem::Controllers(host, nqn) => write!(f, "nvme-fabrics/{host}/{nqn}"),
        }
    }
}

impl FromStr for FabricItem {
    type Err = NotAllowed;

    fn from_str(text: &str) -> Result<FabricItem, NotAllowed> {
        let id = |text: &str| text.parse::<Uuid>().map_err(|_| NotAllowed);
        let item = match text.split('/').collect::<Vec<_>>()[..] {
            ["nvmet", "subsystems", uuid] => FabricItem::Subsystem(id(uuid)?),
            ["nvmet", "hosts", uuid] => FabricItem::Host(id(uuid)?),
            ["nvmet", "ports", number, uuid] => {
                FabricItem::Port(number.parse().map_err(|_| NotAllowed)?, id(uuid)?)
            }
            ["nvme-fabrics", host, nqn] if is_nqn(nqn) => FabricItem::Controllers(id(host)?, nqn.to_owned()),
            _ => return Err(NotAllowed),
        };
        if item.to_string() == text { Ok(item) } else { Err(NotAllowed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "11111111-2222-4333-8444-555555555555";

    #[test]
    fn entries_have_one_text_form() {
        for text in [
            format!("nvmet/subsystems/{ID}"),
            format!("nvmet/hosts/{ID}"),
            format!("nvmet/ports/40001/{ID}"),
            format!("nvme-fabrics/{ID}/nqn.2014-08.org.nvmexpress:uuid:{ID}"),
        ] {
            assert_eq!(text.parse::<FabricItem>().unwrap().to_string(), text);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_leads_elsewhere(text in concat!(
            "(nvmet|nvme-fabrics)",
            "(/(subsystems|hosts|ports|\\.\\.|[0-9a-f-]{0,40}|.{0,6})){0,4}",
        )) {
            if let Ok(item) = text.parse::<FabricItem>() {
                proptest::prop_assert_eq!(item.to_string(), text.clone());
                proptest::prop_assert!(!text.contains(".."));
            }
        }
    }
}
