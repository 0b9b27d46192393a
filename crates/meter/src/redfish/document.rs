//! Redfish documents: links, and the power and energy of a chassis.
//!
//! Source: DMTF DSP8010, schemas `Power` (`PowerControl`), `EnvironmentMetrics` (`PowerWatts`,
//! `EnergyJoules`, `EnergykWh`) and `Chassis`; DSP0266 for links.

use crate::decimal::step_of;
use crate::json::{JsonError, parse_json};
use serde_json::Value;

/// Joules of one kWh.
const JOULES_PER_KWH: f64 = 3.6e6;
/// The longest averaging interval that is used, in min: a day.
const LONGEST_INTERVAL_MIN: f64 = 1440.0;

/// A mean power and its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanPower {
    /// The mean.
    pub watts: f64,
    /// Length of the interval that ends now.
    pub window_ns: u64,
}

/// An energy since the counter's start, and its smallest step as far as its decimals show it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CountedEnergy {
    /// The energy.
    pub joules: f64,
    /// The step.
    pub resolution_j: f64,
}

/// What one document says about a chassis; `None` for what it leaves out or gives as `null`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ChassisPower {
    /// Power now.
    pub watts: Option<f64>,
    /// Mean power.
    pub mean: Option<MeanPower>,
    /// Energy.
    pub energy: Option<CountedEnergy>,
}

/// Reads a `Power` or an `EnvironmentMetrics` document.
///
/// Of `PowerControl` only the first entry counts: the others are its parts or other functions. A mean counts
/// only with an interval above 0.
///
/// # Errors
/// [`JsonError::NotJson`].
pub fn parse_redfish(text: &str) -> Result<ChassisPower, JsonError> {
    let document = parse_json(text)?;
    let number =
        |pointer: &str| document.pointer(pointer).and_then(Value::as_f64).filter(|number| *number >= 0.0);
    let window_min = number("/PowerControl/0/PowerMetrics/IntervalInMin");
    let mean = window_min.filter(|min| *min > 0.0 && *min <= LONGEST_INTERVAL_MIN).and_then(|min| {
        let watts = number("/PowerControl/0/PowerMetrics/AverageConsumedWatts")?;
        Some(MeanPower { watts, window_ns: (min * 60e9) as u64 })
    });
    let counted = |number: f64, factor: f64| CountedEnergy {
        joules: number * factor,
        resolution_j: step_of(number) * factor,
    };
    let energy = number("/EnergyJoules/Reading").map(|joules| counted(joules, 1.0));
    Ok(ChassisPower {
        watts: number("/PowerWatts/Reading").or_else(|| number("/PowerControl/0/PowerConsumedWatts")),
        mean,
        energy: energy.or_else(|| number("/EnergykWh/Reading").map(|kwh| counted(kwh, JOULES_PER_KWH))),
    })
}

/// The path that `pointer` links to; `None` for other hosts, which must not get the credentials.
pub(crate) fn link(document: &Value, pointer: &str) -> Option<String> {
    let path = document.pointer(pointer)?.get("@odata.id")?.as_str()?;
    is_local(path).then(|| path.to_owned())
}

/// The paths of a collection's members.
pub(crate) fn members(document: &Value) -> Vec<String> {
    let members = document.get("Members").and_then(Value::as_array);
    members.into_iter().flatten().filter_map(|member| link(member, "")).collect()
}

/// Whether it is a path on the same host, of characters that a request line can carry.
pub(crate) fn is_local(path: &str) -> bool {
    path.starts_with('/') && !path.starts_with("//") && path.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn a_power_document_tells_its_first_control() {
        let text = r##"{"@odata.type": "#Power.v1_5_3.Power", "PowerControl": [
            {"MemberId": "0", "PowerConsumedWatts": 344,
             "PowerMetrics": {"IntervalInMin": 20, "AverageConsumedWatts": 319.5}},
            {"MemberId": "1", "Name": "CPU", "PowerConsumedWatts": 120}]}"##;
        let power = parse_redfish(text).unwrap();
        assert_eq!(power.watts, Some(344.0));
        assert_eq!(power.mean, Some(MeanPower { watts: 319.5, window_ns: 1_200_000_000_000 }));
        assert_eq!(power.energy, None);
    }

    #[test]
    fn environment_metrics_tell_power_and_energy() {
        let text = r#"{"PowerWatts": {"Reading": 374.2}, "EnergykWh": {"Reading": 325.675},
            "EnergyJoules": {"Reading": 1172430000}}"#;
        let both = parse_redfish(text).unwrap();
        assert_eq!(both.watts, Some(374.2));
        assert_eq!(both.energy, Some(CountedEnergy { joules: 1_172_430_000.0, resolution_j: 1.0 }));
        let energy = parse_redfish(r#"{"EnergykWh": {"Reading": 325.675}}"#).unwrap().energy.unwrap();
        assert!(
            (energy.joules - 1_172_430_000.0).abs() < 1e-3 && (energy.resolution_j - 3600.0).abs() < 1e-6
        );
    }

    #[test]
    fn what_is_null_negative_or_without_interval_is_absent() {
        let absent = [
            json!({"PowerControl": [{"PowerConsumedWatts": null,
                "PowerMetrics": {"IntervalInMin": 0, "AverageConsumedWatts": 5}}]}),
            json!({"PowerControl": [{"PowerConsumedWatts": -1,
                "PowerMetrics": {"IntervalInMin": 1e300, "AverageConsumedWatts": 5}}]}),
            json!({"PowerControl": [], "PowerWatts": 3, "EnergyJoules": {"Reading": "7"}}),
            json!([]),
            json!(null),
        ];
        for document in absent {
            assert_eq!(parse_redfish(&document.to_string()), Ok(ChassisPower::default()), "{document}");
        }
        assert_eq!(parse_redfish("{"), Err(JsonError::NotJson));
    }

    #[test]
    fn links_stay_on_the_host() {
        let collection = json!({"Members": [{"@odata.id": "/redfish/v1/Chassis/1"}, {"@odata.id": "//evil/x"},
            {"@odata.id": "https://evil/"}, {"@odata.id": "/a b"}, {"@odata.id": 3}, 4,
            {"@odata.id": "/x\r\nHost: y"}]});
        assert_eq!(members(&collection), ["/redfish/v1/Chassis/1"]);
        assert_eq!(link(&json!({"Power": {"@odata.id": "/p"}}), "/Power"), Some("/p".to_owned()));
        assert_eq!(members(&json!({"Members": {}})), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(
            text in concat!(
                r#".{0,40}|\{"(PowerWatts|EnergykWh|EnergyJoules)": \{"Reading": "#,
                r#"(-?[0-9]{1,30}(\.[0-9]{1,3})?(e[0-9]{1,3})?|null|"x")\}\}"#
            ),
        ) {
            if let Ok(power) = parse_redfish(&text) {
                prop_assert!(power.watts.is_none_or(|watts| watts.is_finite() && watts >= 0.0));
                prop_assert!(
                    power.energy.is_none_or(|energy| energy.joules >= 0.0 && energy.resolution_j > 0.0)
                );
            }
        }
    }
}
