//! Text for people: numbers as they are written, lines that fit the screen, and colour.

pub mod ink;
pub mod numbers;
pub mod wrap;
