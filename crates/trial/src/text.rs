//! Text for people: formatted numbers, wrapped lines and colour.

pub mod ink;
pub mod numbers;
pub mod wrap;

/// Capitalises the first letter.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + letters.as_str()
    })
}
