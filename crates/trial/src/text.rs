//! Text for people: numbers as they are written, lines that fit the screen, and colour.

pub mod ink;
pub mod numbers;
pub mod wrap;

/// The text with a capital letter.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + letters.as_str()
    })
}
