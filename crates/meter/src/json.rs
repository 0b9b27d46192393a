//! A number in a JSON document, found by its pointer (RFC 6901).

use serde_json::Value;
use thiserror::Error;

/// Why a document does not give a number. The text never repeats what the document holds.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum JsonError {
    /// It is not JSON, or is cut off.
    #[error("answers with something that is not JSON: check that it is the meter's path")]
    NotJson,
    /// Nothing is there.
    #[error("has nothing at `{0}`: compare the pointer with its answer")]
    Nothing(String),
    /// `null` is there.
    #[error("has no value at `{0}` now")]
    Null(String),
    /// Something other than a finite number is there.
    #[error("has no number at `{0}`: compare the pointer with its answer")]
    NoNumber(String),
}

impl JsonError {
    /// Whether the next reading may succeed: a `null`, or an answer that is incomplete.
    pub fn is_passing(&self) -> bool {
        matches!(self, JsonError::NotJson | JsonError::Null(_))
    }
}

/// Reads a document.
///
/// # Errors
/// [`JsonError::NotJson`]; also for documents nested deeper than 127 levels.
pub fn parse_json(text: &str) -> Result<Value, JsonError> {
    serde_json::from_str(text).map_err(|_| JsonError::NotJson)
}

/// The finite number at `pointer`; it may be quoted, as some instruments do.
///
/// # Errors
/// [`JsonError`] says what is there instead.
pub fn json_value(document: &Value, pointer: &str) -> Result<f64, JsonError> {
    let number = match document.pointer(pointer) {
        None => return Err(JsonError::Nothing(pointer.to_owned())),
        Some(Value::Null) => return Err(JsonError::Null(pointer.to_owned())),
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(_) => None,
    };
    number.filter(|number| number.is_finite()).ok_or_else(|| JsonError::NoNumber(pointer.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn pointers_find_numbers_as_the_rfc_says() {
        // The document of RFC 6901, section 5, with numbers in all places.
        let document = json!({
            "foo": [10, 11.5], "": 0, "a/b": 1, "c%d": 2, "m~n": 8, "q": "3.25 ", "n": null, "t": true,
        });
        let read = |pointer| json_value(&document, pointer);
        assert_eq!(read("/foo/0"), Ok(10.0));
        assert_eq!(read("/foo/1"), Ok(11.5));
        assert_eq!(
            (read("/"), read("/a~1b"), read("/c%d"), read("/m~0n")),
            (Ok(0.0), Ok(1.0), Ok(2.0), Ok(8.0))
        );
        assert_eq!(read("/q"), Ok(3.25));
        assert_eq!(read("/n"), Err(JsonError::Null("/n".into())));
        assert_eq!(read("/t"), Err(JsonError::NoNumber("/t".into())));
        assert_eq!(read("/foo"), Err(JsonError::NoNumber("/foo".into())));
        for nothing in ["/foo/2", "/foo/01", "/foo/-", "/x", "foo"] {
            assert_eq!(read(nothing), Err(JsonError::Nothing(nothing.into())), "{nothing}");
        }
    }

    #[test]
    fn texts_that_are_no_finite_numbers_are_refused() {
        for text in ["", "NaN", "inf", "1 W", "1e999"] {
            assert_eq!(json_value(&json!([text]), "/0"), Err(JsonError::NoNumber("/0".into())), "{text}");
        }
        assert_eq!(parse_json("{\"power\": 2"), Err(JsonError::NotJson));
        assert_eq!(parse_json(&"[".repeat(100_000)), Err(JsonError::NotJson));
    }

    proptest! {
        #[test]
        fn a_number_under_any_key_is_found(key in ".*", number in -1e9f64..1e9) {
            let pointer = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
            let text = serde_json::to_string(&json!({ key: number })).unwrap();
            prop_assert_eq!(json_value(&parse_json(&text).unwrap(), &pointer), Ok(number));
        }

        #[test]
        fn any_text_and_pointer_are_read_or_refused(text in ".*", pointer in ".*") {
            if let Ok(document) = parse_json(&text) {
                prop_assert!(json_value(&document, &pointer).map_or(true, f64::is_finite));
            }
        }
    }
}
