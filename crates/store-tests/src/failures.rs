//! The assertion on errors that the tests of all stores share.

use fencepost::{Effect, Error, ErrorKind};

/// Asserts that the error has this kind and effect, that its text contains `words`, and that it shows nobody's password, which is "secret"
/// in all tests.
#[track_caller]
pub fn is(error: &Error, kind: ErrorKind, effect: Effect, words: &str) {
    let text = error.to_string();
    assert_eq!((error.kind(), error.effect()), (kind, effect), "{text}");
    assert!(text.contains(words), "{words:?} in {text}");
    assert!(!text.contains("secret"), "{text}");
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
}
