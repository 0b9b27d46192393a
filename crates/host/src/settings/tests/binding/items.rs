//! The texts of journal items: only what iopj may write can be read from them.

use super::*;
use crate::settings::allowed::is_driver_name;
use crate::settings::attribute::Attribute;
use proptest::prelude::*;

proptest! {
    #[test]
    fn no_text_leads_outside_of_what_may_be_written(
        start in "(bus/pci/|block/|\\.\\./|/|)(devices|drivers|sda|\\.\\.)/",
        middle in "(0000:01:00\\.0|10000:e1:1f\\.7|0000:01:00\\.9|\\.\\.|nvme|queue|\\PC{0,6})",
        rest in concat!(
            "(/(driver|driver_override|remove|unbind|nomerges|write_cache|nvme/feature/0[268C]h|",
            "nvme/power/pm_qos_latency_tolerance_us|nvme/serial|\\.\\.|\\PC{0,4})){0,3}",
        ),
        old in "(nvme|vfio-pci|none|\\.\\.|[a-z./\\-_]{0,12}|\\PC{0,8})",
    ) {
        let text = format!("{start}{middle}{rest}");
        let Ok(item) = text.parse::<Item>() else { return Ok(()) };
        prop_assert_eq!(item.to_string(), text.clone());
        prop_assert!(!text.split('/').any(|part| part.is_empty() || part.starts_with('.')));
        match item {
            Item::Attribute(_) => { text.parse::<Attribute>().unwrap(); }
            Item::Driver(binding) => {
                prop_assert_eq!(text, format!("bus/pci/devices/{}/driver", binding.0));
                if Item::Driver(binding).accepts(&old) {
                    prop_assert!(is_driver_name(&old) && !old.contains(['/', '.']));
                }
            }
            Item::DriveSetting(setting) => prop_assert!(!setting.accepts(&old) || !old.contains(['/', '.'])),
            // It is never written.
            Item::Serial(serial) => {
                prop_assert_eq!(text, format!("bus/pci/devices/{}/nvme/serial", serial.0));
            }
            Item::Fabric(_) => prop_assert!(text.starts_with("nvm")),
            Item::MadeFile(_) => prop_assert!(text.starts_with("made-file/")),
        }
    }
}

#[test]
fn a_binding_has_one_text() {
    let binding = Binding(address());
    assert_eq!(binding.to_string().parse(), Ok(binding));
    for text in [
        "bus/pci/devices/0000:01:00.0",
        "bus/pci/devices/01:00.0/driver",
        "bus/pci/devices/0000:01:00.0/driver/",
    ] {
        assert!(text.parse::<Binding>().is_err(), "{text}");
    }
}
