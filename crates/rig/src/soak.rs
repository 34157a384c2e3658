//! Whether the tests are to take their long form.

/// Whether `FENCEPOST_SOAK=1` is set, as `cargo xtask soak` does: loops are long then, and nothing else runs beside them.
pub fn is_soak() -> bool {
    std::env::var_os("FENCEPOST_SOAK").is_some_and(|value| value == "1")
}
