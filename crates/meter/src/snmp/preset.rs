//! The variables of two common families of power distribution units.

use super::ber::Oid;
use crate::config::ValueKind;
use serde::{Deserialize, Serialize};

/// Joules of a tenth of a kWh.
const TENTH_OF_KWH_J: f64 = 360_000.0;
/// Joules of a Wh.
const WH_J: f64 = 3_600.0;
/// `SensorTypeEnumeration` of PDU2-MIB.
const ACTIVE_POWER: u32 = 5;
const ACTIVE_ENERGY: u32 = 8;

/// A family's quantity.
///
/// APC and Schneider (PowerNet-MIB, `rPDU2`): `rPDU2OutletMeteredStatusPower` in W and `…Energy` in tenths of
/// a kWh by outlet, `rPDU2DeviceStatusPower` in hundredths of a kW and `…Energy` in tenths of a kWh of the
/// whole device; -1 where the model does not measure. Energy can be reset by the device's user.
///
/// Raritan PX2, PX3 and later (PDU2-MIB): `measurementsOutletSensorValue` and `measurementsInletSensorValue`
/// of `activePower(5)` in W and `activeEnergy(8)` in Wh, in steps of as many decimal digits as
/// `outletSensorDecimalDigits` and `inletSensorDecimalDigits` say. The device measures once a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SnmpPreset {
    /// Power of an APC outlet.
    ApcOutletPower,
    /// Energy of an APC outlet.
    ApcOutletEnergy,
    /// Power of an APC device.
    ApcDevicePower,
    /// Energy of an APC device.
    ApcDeviceEnergy,
    /// Power of a Raritan outlet.
    RaritanOutletPower,
    /// Energy of a Raritan outlet.
    RaritanOutletEnergy,
    /// Power of a Raritan inlet.
    RaritanInletPower,
    /// Energy of a Raritan inlet.
    RaritanInletEnergy,
}

/// Where an agent has a quantity, and what its value means.
pub(super) struct Quantity {
    pub(super) oid: Oid,
    /// The variable with the number of its decimal digits.
    pub(super) digits: Option<Oid>,
    pub(super) kind: ValueKind,
    /// W of a step, or J of a count, before the decimal digits.
    pub(super) unit: f64,
}

impl SnmpPreset {
    /// Whether the family numbers the units of a chain.
    pub(super) fn has_chain(self) -> bool {
        !matches!(
            self,
            Self::ApcOutletPower | Self::ApcOutletEnergy | Self::ApcDevicePower | Self::ApcDeviceEnergy
        )
    }

    /// The quantity of outlet, inlet or device `index` of unit `chain`.
    pub(super) fn quantity(self, chain: u32, index: u32) -> Quantity {
        use ValueKind::{Counter, Instant};
        let ((column, digits), sensor, kind, unit) = match self {
            Self::ApcOutletPower => ((apc(&[9, 4, 3, 1, 7]), None), None, Instant, 1.0),
            Self::ApcOutletEnergy => ((apc(&[9, 4, 3, 1, 11]), None), None, Counter, TENTH_OF_KWH_J),
            Self::ApcDevicePower => ((apc(&[4, 3, 1, 5]), None), None, Instant, 10.0),
            Self::ApcDeviceEnergy => ((apc(&[4, 3, 1, 9]), None), None, Counter, TENTH_OF_KWH_J),
            Self::RaritanOutletPower => (outlet(), Some(ACTIVE_POWER), Instant, 1.0),
            Self::RaritanOutletEnergy => (outlet(), Some(ACTIVE_ENERGY), Counter, WH_J),
            Self::RaritanInletPower => (inlet(), Some(ACTIVE_POWER), Instant, 1.0),
            Self::RaritanInletEnergy => (inlet(), Some(ACTIVE_ENERGY), Counter, WH_J),
        };
        let instance = match sensor {
            Some(sensor) => vec![chain, index, sensor],
            None => vec![index],
        };
        Quantity {
            oid: column.with(&instance),
            digits: digits.map(|digits| digits.with(&instance)),
            kind,
            unit,
        }
    }
}

/// Below PowerNet-MIB's `rPDU2`: enterprises.apc(318).products(1).hardware(1).26.
fn apc(arcs: &[u32]) -> Oid {
    Oid::enterprise(&[318, 1, 1, 26]).with(arcs)
}

/// A sensor's value, and its decimal digits, below raritan(13742).pdu2(6).
fn raritan(value: &[u32], digits: &[u32]) -> (Oid, Option<Oid>) {
    let below = |arcs: &[u32]| Oid::enterprise(&[13742, 6]).with(arcs);
    (below(value), Some(below(digits)))
}

/// `measurementsOutletSensorValue` and `outletSensorDecimalDigits`.
fn outlet() -> (Oid, Option<Oid>) {
    raritan(&[5, 4, 3, 1, 4], &[3, 5, 4, 1, 7])
}

/// `measurementsInletSensorValue` and `inletSensorDecimalDigits`.
fn inlet() -> (Oid, Option<Oid>) {
    raritan(&[5, 2, 3, 1, 4], &[3, 3, 4, 1, 7])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_names_the_variables_of_its_mib() {
        let quantity = |preset: SnmpPreset| {
            let quantity = preset.quantity(1, 3);
            (quantity.oid.to_string(), quantity.digits.map(|oid| oid.to_string()), quantity.unit)
        };
        let apc = |tail: &str, unit: f64| (format!("1.3.6.1.4.1.318.1.1.26.{tail}.3"), None, unit);
        assert_eq!(quantity(SnmpPreset::ApcOutletPower), apc("9.4.3.1.7", 1.0));
        assert_eq!(quantity(SnmpPreset::ApcOutletEnergy), apc("9.4.3.1.11", 360e3));
        assert_eq!(quantity(SnmpPreset::ApcDevicePower), apc("4.3.1.5", 10.0));
        assert_eq!(quantity(SnmpPreset::ApcDeviceEnergy), apc("4.3.1.9", 360e3));
        let raritan = |value: &str, digits: &str, sensor: u32, unit: f64| {
            let full = |column: &str| format!("1.3.6.1.4.1.13742.6.{column}.1.3.{sensor}");
            (full(value), Some(full(digits)), unit)
        };
        assert_eq!(quantity(SnmpPreset::RaritanOutletPower), raritan("5.4.3.1.4", "3.5.4.1.7", 5, 1.0));
        assert_eq!(quantity(SnmpPreset::RaritanOutletEnergy), raritan("5.4.3.1.4", "3.5.4.1.7", 8, 3600.0));
        assert_eq!(quantity(SnmpPreset::RaritanInletPower), raritan("5.2.3.1.4", "3.3.4.1.7", 5, 1.0));
        assert_eq!(quantity(SnmpPreset::RaritanInletEnergy), raritan("5.2.3.1.4", "3.3.4.1.7", 8, 3600.0));
    }
}
