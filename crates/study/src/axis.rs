//! An axis of a study's matrix: one value or a list of values.

use crate::error::{StudyError, error};
use iopj_core::Workload;
use serde::{Deserialize, Serialize};

/// A value or a list of values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "write one value or a list of them, of the right type and range")]
pub enum Axis<T> {
    /// Several values.
    Many(Vec<T>),
    /// One value.
    One(T),
}

impl<T: Clone> Axis<T> {
    pub(crate) fn values(&self) -> Vec<T> {
        match self {
            Axis::One(value) => vec![value.clone()],
            Axis::Many(values) => values.clone(),
        }
    }
}

/// Combines every workload so far with every value of an axis; `key` names the axis in messages.
///
/// # Errors
/// A bad value, or an empty list.
pub(crate) fn spread<T: Clone, V>(
    all: &mut Vec<Workload>,
    key: &str,
    axis: &Option<Axis<T>>,
    parse: impl Fn(&T) -> Result<V, String>,
    set: impl Fn(&mut Workload, &V),
) -> Result<(), StudyError> {
    let Some(axis) = axis else { return Ok(()) };
    let values: Result<Vec<V>, String> = axis.values().iter().map(parse).collect();
    let values = values.map_err(|e| StudyError(format!("{key}: {e}")))?;
    if values.is_empty() {
        return error(format!("`{key}` is an empty list: give it a value, or leave it out"));
    }
    *all = product(all, &values, set);
    Ok(())
}

/// Every element combined with every value.
pub(crate) fn product<T: Clone, V>(all: &[T], values: &[V], set: impl Fn(&mut T, &V)) -> Vec<T> {
    let each = |element: &T| {
        let with = |value: &V| {
            let mut element = element.clone();
            set(&mut element, value);
            element
        };
        values.iter().map(with).collect::<Vec<_>>()
    };
    all.iter().flat_map(each).collect()
}
