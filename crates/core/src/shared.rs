//! Values that many records have in common, in memory once.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A value that its copies share until one of them is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared<T>(Arc<T>);

impl<T: PartialEq> Shared<T> {
    /// Becomes a copy of another one if it is equal.
    pub fn share(&mut self, other: &Shared<T>) {
        if self == other {
            self.0 = Arc::clone(&other.0);
        }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Shared<T> {
        Shared(Arc::new(value))
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Shared<T>, D::Error> {
        T::deserialize(deserializer).map(Shared::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_in_memory_once_until_one_is_changed() {
        let of = |text: &str| serde_json::from_str::<Shared<Vec<u8>>>(text).unwrap();
        let (first, mut same, mut other) = (of("[1, 2]"), of("[1,2]"), of("[3]"));
        assert!(!Arc::ptr_eq(&first.0, &same.0));
        same.share(&first);
        other.share(&first);
        assert!(Arc::ptr_eq(&first.0, &same.0) && *other == [3]);
        same.push(3);
        assert_eq!((serde_json::to_string(&same).unwrap().as_str(), first.len()), ("[1,2,3]", 2));
    }
}
