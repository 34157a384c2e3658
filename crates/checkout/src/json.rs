//! What this API accepts in JSON beyond what serde derives: whole numbers in either notation, and for a struct only an object.
//!
//! `2` and `2.0` are the same number, and `1.5` is not a whole number. The code that serde derives for a struct also accepts a list of its
//! fields in order. Our API promises objects, and a list that happens to fit is most likely a mistake of the client.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Number;

/// Beyond this, floating point numbers cannot represent every whole number.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Returns the whole number that a JSON number stands for, or `None` if it is not whole or too large.
pub fn whole(number: &Number) -> Option<i64> {
    let float = number.as_f64().filter(|float| float.fract() == 0.0);
    let exact = float.filter(|float| float.abs() < EXACT);
    number.as_i64().or(exact.map(|float| float as i64))
}

/// A `T` that was deserialized from an object.
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OnlyMaps(PhantomData))
    }
}

struct OnlyMaps<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OnlyMaps<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// Deserializes a field that is an object.
pub(crate) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Object::deserialize(deserializer).map(|Object(inner)| inner)
}

/// Deserializes a field that is a list of objects.
pub(crate) fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let all: Vec<Object<T>> = Vec::deserialize(deserializer)?;
    Ok(all.into_iter().map(|Object(inner)| inner).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_numbers_are_accepted() {
        let read = |text: &str| whole(&serde_json::from_str(text).unwrap());
        assert_eq!(read("2"), Some(2));
        assert_eq!(read("2.0"), Some(2));
        assert_eq!(read("-0.0"), Some(0));
        assert_eq!(read("9223372036854775807"), Some(i64::MAX));
        for none in [
            "1.5",
            "9223372036854775808",
            "1e300",
            "18446744073709551615",
        ] {
            assert_eq!(read(none), None, "{none}");
        }
    }
}
