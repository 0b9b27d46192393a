//! Where two common families of power distribution units keep power and energy.

use super::ber::Oid;
use super::config::SnmpKind;
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

/// A quantity's place in an agent.
pub(super) struct Place {
    pub(super) oid: Oid,
    /// The variable that tells its decimal digits.
    pub(super) digits: Option<Oid>,
    pub(super) kind: SnmpKind,
    /// W of a step, or J of a count; without the digits.
    pub(super) unit: f64,
}

impl SnmpPreset {
    /// If the family counts the units of a chain apart.
    pub(super) fn has_chain(self) -> bool {
        !matches!(
            self,
            Self::ApcOutletPower | Self::ApcOutletEnergy | Self::ApcDevicePower | Self::ApcDeviceEnergy
        )
    }

    /// The place of outlet, inlet or device `index` of unit `chain`.
    pub(super) fn place(self, chain: u32, index: u32) -> Place {
        use SnmpKind::{Counter, Instant};
        let (column, digits, sensor, kind, unit) = match self {
            Self::ApcOutletPower => (apc(&[9, 4, 3, 1, 7]), None, None, Instant, 1.0),
            Self::ApcOutletEnergy => (apc(&[9, 4, 3, 1, 11]), None, None, Counter, TENTH_OF_KWH_J),
            Self::ApcDevicePower => (apc(&[4, 3, 1, 5]), None, None, Instant, 10.0),
            Self::ApcDeviceEnergy => (apc(&[4, 3, 1, 9]), None, None, Counter, TENTH_OF_KWH_J),
            Self::RaritanOutletPower => (outlet(), Some(outlet_digits()), Some(ACTIVE_POWER), Instant, 1.0),
            Self::RaritanOutletEnergy => {
                (outlet(), Some(outlet_digits()), Some(ACTIVE_ENERGY), Counter, WH_J)
            }
            Self::RaritanInletPower => (inlet(), Some(inlet_digits()), Some(ACTIVE_POWER), Instant, 1.0),
            Self::RaritanInletEnergy => (inlet(), Some(inlet_digits()), Some(ACTIVE_ENERGY), Counter, WH_J),
        };
        let instance = match sensor {
            Some(sensor) => vec![chain, index, sensor],
            None => vec![index],
        };
        Place { oid: column.with(&instance), digits: digits.map(|digits| digits.with(&instance)), kind, unit }
    }
}

/// Below PowerNet-MIB's `rPDU2`: enterprises.apc(318).products(1).hardware(1).26.
fn apc(arcs: &[u32]) -> Oid {
    enterprise(&[318, 1, 1, 26]).with(arcs)
}

/// `measurementsOutletSensorValue`: raritan(13742).pdu2(6).measurements(5).
fn outlet() -> Oid {
    enterprise(&[13742, 6, 5, 4, 3, 1, 4])
}

/// `outletSensorDecimalDigits`.
fn outlet_digits() -> Oid {
    enterprise(&[13742, 6, 3, 5, 4, 1, 7])
}

/// `measurementsInletSensorValue`.
fn inlet() -> Oid {
    enterprise(&[13742, 6, 5, 2, 3, 1, 4])
}

/// `inletSensorDecimalDigits`.
fn inlet_digits() -> Oid {
    enterprise(&[13742, 6, 3, 3, 4, 1, 7])
}

fn enterprise(arcs: &[u32]) -> Oid {
    Oid::enterprise(arcs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_names_the_variables_of_its_mib() {
        let place = |preset: SnmpPreset| {
            let place = preset.place(1, 3);
            (place.oid.to_string(), place.digits.map(|oid| oid.to_string()), place.unit)
        };
        let apc = |tail: &str, unit: f64| (format!("1.3.6.1.4.1.318.1.1.26.{tail}.3"), None, unit);
        assert_eq!(place(SnmpPreset::ApcOutletPower), apc("9.4.3.1.7", 1.0));
        assert_eq!(place(SnmpPreset::ApcOutletEnergy), apc("9.4.3.1.11", 360e3));
        assert_eq!(place(SnmpPreset::ApcDevicePower), apc("4.3.1.5", 10.0));
        assert_eq!(place(SnmpPreset::ApcDeviceEnergy), apc("4.3.1.9", 360e3));
        let raritan = |value: &str, digits: &str, sensor: u32, unit: f64| {
            let full = |column: &str| format!("1.3.6.1.4.1.13742.6.{column}.1.3.{sensor}");
            (full(value), Some(full(digits)), unit)
        };
        assert_eq!(place(SnmpPreset::RaritanOutletPower), raritan("5.4.3.1.4", "3.5.4.1.7", 5, 1.0));
        assert_eq!(place(SnmpPreset::RaritanOutletEnergy), raritan("5.4.3.1.4", "3.5.4.1.7", 8, 3600.0));
        assert_eq!(place(SnmpPreset::RaritanInletPower), raritan("5.2.3.1.4", "3.3.4.1.7", 5, 1.0));
        assert_eq!(place(SnmpPreset::RaritanInletEnergy), raritan("5.2.3.1.4", "3.3.4.1.7", 8, 3600.0));
    }
}
