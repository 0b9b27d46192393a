//! JSON that many trials have in common, in memory once, and parsed only where it is looked at.

use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// A value of JSON that its copies share.
#[derive(Clone, Debug, Default)]
pub struct SharedValue(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// As it was read; empty if it was not.
    text: Box<str>,
    value: OnceLock<Value>,
}

impl SharedValue {
    /// Becomes a copy of another one if it has the same text; otherwise it is parsed.
    ///
    /// # Errors
    /// The text is no value that can be in memory: it is nested too deeply, or a number is too large.
    pub fn share(&mut self, other: &SharedValue) -> serde_json::Result<()> {
        if self.0.text.is_empty() {
            return Ok(());
        }
        if self.0.text == other.0.text {
            self.0 = Arc::clone(&other.0);
        } else {
            let value = serde_json::from_str(&self.0.text)?;
            // Whoever looked at it before has parsed the same.
            let _ = self.0.value.set(value);
        }
        Ok(())
    }
}

impl Deref for SharedValue {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.0.value.get_or_init(|| serde_json::from_str(&self.0.text).unwrap_or_default())
    }
}

impl PartialEq for SharedValue {
    fn eq(&self, other: &SharedValue) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || **self == **other
    }
}

impl From<Value> for SharedValue {
    fn from(value: Value) -> SharedValue {
        SharedValue(Arc::new(Inner { text: Box::default(), value: value.into() }))
    }
}

impl Serialize for SharedValue {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SharedValue {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<SharedValue, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer).map_err(D::Error::custom)?;
        let text: Box<str> = raw.into();
        Ok(SharedValue(Arc::new(Inner { text, value: OnceLock::new() })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> SharedValue {
        serde_json::from_str(text).unwrap()
    }

    /// The power state took half of the memory of a store's trials, and a fifth of a report's time.
    #[test]
    fn equal_values_are_in_memory_once_and_parsed_where_they_are_looked_at() {
        let first = of(r#"{"turbo":1}"#);
        let (mut same, mut other) = (of(r#"{"turbo":1}"#), of(r#"{"turbo":0}"#));
        assert!(!Arc::ptr_eq(&first.0, &same.0));
        same.share(&first).unwrap();
        assert!(Arc::ptr_eq(&first.0, &same.0) && first.0.value.get().is_none());
        other.share(&first).unwrap();
        assert_eq!(
            (other["turbo"].as_u64(), serde_json::to_string(&same).unwrap().as_str()),
            (Some(0), r#"{"turbo":1}"#)
        );
    }

    #[test]
    fn values_are_equal_whatever_their_text_is() {
        let made = SharedValue::from(serde_json::json!({ "turbo": 1 }));
        assert_eq!(of(r#"{ "turbo" : 1 }"#), made);
        assert_ne!(of(r#"{"turbo":2}"#), made);
        assert_eq!(SharedValue::default(), SharedValue::from(Value::Null));
        // As part of a value that is parsed already.
        let parsed = serde_json::from_value(serde_json::json!([{ "turbo": 1 }])).unwrap();
        assert_eq!(vec![made], Vec::<SharedValue>::clone(&parsed));
    }

    #[test]
    fn what_cannot_be_in_memory_is_an_error_and_not_null() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        assert!(of(&deep).share(&SharedValue::default()).is_err());
        assert!(of("1e999").share(&SharedValue::default()).is_err());
    }
}
