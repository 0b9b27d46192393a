//! JSON that many trials have in common, in memory once.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ops::Deref;
use std::sync::Arc;

/// A value of JSON that its copies share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SharedValue(Arc<Value>);

impl SharedValue {
    /// Becomes a copy of another one if it is equal.
    pub(crate) fn share(&mut self, other: &SharedValue) {
        if self == other {
            self.0 = Arc::clone(&other.0);
        }
    }
}

impl Deref for SharedValue {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl From<Value> for SharedValue {
    fn from(value: Value) -> SharedValue {
        SharedValue(Arc::new(value))
    }
}

impl Serialize for SharedValue {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SharedValue {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<SharedValue, D::Error> {
        Value::deserialize(deserializer).map(SharedValue::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The power state took half of the memory of a store's trials.
    #[test]
    fn equal_values_are_in_memory_once() {
        let of = |text: &str| serde_json::from_str::<SharedValue>(text).unwrap();
        let first = of(r#"{"turbo":1}"#);
        let (mut same, mut other) = (of(r#"{ "turbo": 1 }"#), of(r#"{"turbo":0}"#));
        assert!(!Arc::ptr_eq(&first.0, &same.0));
        same.share(&first);
        other.share(&first);
        assert!(Arc::ptr_eq(&first.0, &same.0));
        assert_eq!(
            (other["turbo"].as_u64(), serde_json::to_string(&same).unwrap().as_str()),
            (Some(0), r#"{"turbo":1}"#)
        );
    }
}
