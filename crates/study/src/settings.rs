//! Tables of settings in a study: names with values, a list being an axis.

use crate::axis::{Axis, product};
use crate::error::{StudyError, error};
use iopj_core::Setting;
use std::collections::BTreeMap;

/// The combinations of a table's settings; one empty combination if it has none.
///
/// # Errors
/// An unknown setting, a value that it cannot have, an empty list.
pub(crate) fn matrix(
    table: &BTreeMap<String, Axis<toml::Value>>,
) -> Result<Vec<BTreeMap<Setting, String>>, StudyError> {
    let mut combinations = vec![BTreeMap::new()];
    for (name, axis) in table {
        let setting: Setting = name.parse().map_err(|e| StudyError(format!("{e}")))?;
        let mut values = Vec::new();
        for value in axis.values() {
            let text = match value {
                toml::Value::String(text) => text,
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(on) => if on { "1" } else { "0" }.to_owned(),
                other => {
                    return error(format!(
                        "the setting `{name}` cannot be {other}: write a text or a whole number"
                    ));
                }
            };
            setting.check(&text).map_err(|e| StudyError(e.to_string()))?;
            values.push(text);
        }
        if values.is_empty() {
            return error(format!("the setting `{name}` has no value: give it one, or leave it out"));
        }
        combinations = product(&combinations, &values, |combination, value| {
            combination.insert(setting, value.clone());
        });
    }
    Ok(combinations)
}
