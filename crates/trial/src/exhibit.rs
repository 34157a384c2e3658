//! Deliberately broken ways of buying. Each file says what is wrong and where it is seen.

pub mod none;
