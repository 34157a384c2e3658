//! The names of `trial names`: pairs that a careless lock takes for one name, and names that one process holds at once.

use super::{FIRST_LOCK, SECOND_LOCK};

/// Ten bytes, of which long names consist.
macro_rules! ten {
    () => {
        "warehouse/"
    };
}

/// Seventy bytes.
macro_rules! seventy {
    () => {
        concat!(ten!(), ten!(), ten!(), ten!(), ten!(), ten!(), ten!())
    };
}

/// Two names that are nearly the same.
pub type Pair = [&'static str; 2];

/// The pairs. They differ in case, in the last byte, by what may be cut off, by what may be replaced or dropped, and at the end of a
/// long name: locks have been seen to keep 64, 128 or 255 bytes.
pub const PAIRS: [Pair; 8] = [
    ["order_A", "order_a"],
    ["order_7", "order_8"],
    ["order_1", "order_10"],
    ["order/B", "order_B"],
    ["{order}:1", "{order}:2"],
    [concat!(seventy!(), "A"), concat!(seventy!(), "B")],
    [
        concat!(seventy!(), seventy!(), "A"),
        concat!(seventy!(), seventy!(), "B"),
    ],
    [
        concat!(seventy!(), seventy!(), seventy!(), seventy!(), "A"),
        concat!(seventy!(), seventy!(), seventy!(), seventy!(), "B"),
    ],
];

/// The names that one process holds at once. The second is released first.
pub const TOGETHER: [&str; 3] = [FIRST_LOCK, SECOND_LOCK, "product_C"];

/// Returns every name of the trial.
pub(super) fn all() -> Vec<&'static str> {
    PAIRS.into_iter().flatten().chain(TOGETHER).collect()
}

/// The longest name that is shown as it is.
const SHOWN_BYTES: usize = 40;

/// Returns the name, or the beginning and the end of a long one.
pub fn shown(name: &str) -> String {
    if name.len() <= SHOWN_BYTES {
        return name.to_owned();
    }
    let letters: Vec<char> = name.chars().collect();
    let (head, tail) = (letters.iter().take(10), letters.len().saturating_sub(4));
    let [head, tail]: [String; 2] = [head.collect(), letters[tail..].iter().collect()];
    format!("{head}…{tail} ({} bytes)", name.len())
}

/// Returns how alike two names are: "which differ in case only", or "whose first 70 bytes are the same".
pub fn likeness(one: &str, other: &str) -> String {
    if one.eq_ignore_ascii_case(other) {
        return "which differ in case only".into();
    }
    let same = one.bytes().zip(other.bytes());
    match same.take_while(|(one, other)| one == other).count() {
        0 => "which have nothing in common".into(),
        1 => "whose first byte is the same".into(),
        bytes => format!("whose first {bytes} bytes are the same"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_another_and_the_long_ones_share_what_locks_cut_off() {
        let mut names = all();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 2 * PAIRS.len() + TOGETHER.len());
        for kept in [64, 128, 255] {
            let is_alike = |[one, other]: &&Pair| one.get(..kept + 1) == other.get(..kept + 1);
            let long = |[one, _]: &&Pair| one.len() > kept + 1;
            assert!(
                PAIRS.iter().filter(long).any(|pair| is_alike(&pair)),
                "{kept}"
            );
        }
    }

    #[test]
    fn a_long_name_is_shown_by_its_ends() {
        assert_eq!(shown("order_7"), "order_7");
        assert_eq!(shown(PAIRS[6][1]), "warehouse/…se/B (141 bytes)");
    }

    #[test]
    fn what_two_names_have_in_common_is_said() {
        for (one, other, words) in [
            ("order_A", "order_a", "which differ in case only"),
            ("order_1", "order_10", "whose first 7 bytes are the same"),
            ("xy", "xz", "whose first byte is the same"),
            ("a", "b", "which have nothing in common"),
        ] {
            assert_eq!(likeness(one, other), words);
        }
    }
}
