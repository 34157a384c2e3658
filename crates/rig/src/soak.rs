//! Tells tests whether to run in their long form.

/// Returns whether `FENCEPOST_SOAK=1` is set, as `cargo xtask soak` does. Loops are long then, and nothing else runs beside them.
pub fn is_soak() -> bool {
    std::env::var_os("FENCEPOST_SOAK").is_some_and(|value| value == "1")
}
