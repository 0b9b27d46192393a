//! Keys of tables: what a type takes, asked of its own `Deserialize`, and the message about one that it does
//! not.

use crate::error::{StudyError, error};
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor, value};
use serde::forward_to_deserialize_any;
use std::cell::Cell;

/// The keys of a struct that derives `Deserialize`; none for any other type.
pub fn fields_of<T: DeserializeOwned>() -> &'static [&'static str] {
    let fields = Cell::new(&[][..]);
    let _ = T::deserialize(Asking(&fields));
    fields.get()
}

/// fio's other names of keys.
const FIO_NAMES: [(&str, &str); 3] = [("blocksize", "bs"), ("readwrite", "rw"), ("ioengine", "paths")];

/// Refuses a key that is not `known`; `source` and `place` say in the message where it is.
///
/// # Errors
/// The unknown key, with the nearest right one.
pub fn check_keys(table: &toml::Table, known: &[&str], source: &str, place: &str) -> Result<(), StudyError> {
    let Some(unknown) = table.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
    let distance = |name: &&&str| strsim::damerau_levenshtein(name, unknown);
    let fio_name = FIO_NAMES.iter().find(|(name, key)| name == unknown && known.contains(key));
    let advice = match known.iter().min_by_key(distance) {
        _ if fio_name.is_some() => {
            fio_name.map_or(String::new(), |(_, key)| format!("did you mean `{key}`?"))
        }
        Some(nearest) if distance(&nearest) <= 1 + nearest.len() / 3 => format!("did you mean `{nearest}`?"),
        _ => format!("there are {}", known.join(", ")),
    };
    error(format!("{source}: unknown key `{unknown}`{place}: {advice}"))
}

/// Gives no value, but keeps the fields that a struct asks for.
struct Asking<'a>(&'a Cell<&'static [&'static str]>);

impl<'de> Deserializer<'de> for Asking<'_> {
    type Error = value::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, value::Error> {
        self.0.set(fields);
        Err(value::Error::custom("asked"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, value::Error> {
        Err(value::Error::custom("no struct"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    #[allow(dead_code, reason = "only its fields' names are asked for")]
    struct Table {
        one: u8,
        #[serde(default)]
        the_other: Option<String>,
    }

    #[test]
    fn a_struct_has_keys_and_no_other_type_has() {
        assert_eq!(fields_of::<Table>(), ["one", "the-other"]);
        assert!(fields_of::<String>().is_empty());
    }
}
