//! The assertions on errors that the tests of all stores share.

use fencepost::{Effect, Error, ErrorKind};

/// Asserts that the error has this kind and effect, that its text contains `words`, and that it shows nobody's password, which is "secret"
/// in all tests.
#[track_caller]
pub fn assert_error(error: &Error, kind: ErrorKind, effect: Effect, words: &str) {
    assert_kind(error, kind, words);
    assert_eq!(error.effect(), effect, "{error}");
}

/// Asserts the same as [`assert_error`], whatever the effect, which depends on how far a request got before its time was up.
#[track_caller]
pub fn assert_kind(error: &Error, kind: ErrorKind, words: &str) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert!(text.contains(words), "{words:?} in {text}");
    assert!(!text.contains("secret"), "{text}");
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
}
