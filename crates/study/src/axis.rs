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
    /// How many values there are.
    pub(crate) fn count(&self) -> u64 {
        match self {
            Axis::One(_) => 1,
            Axis::Many(values) => values.len() as u64,
        }
    }

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
    #[cfg(test)]
    COMBINED.set(COMBINED.get() + all.len() as u64 * values.len() as u64);
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

#[cfg(test)]
thread_local! {
    /// Combinations that [`product`] has made on this thread.
    pub(crate) static COMBINED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}
