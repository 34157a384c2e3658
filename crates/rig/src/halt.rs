//! Lets a process stop itself at a chosen point.

use nix::sys::signal::{Signal, raise};

/// Stops this whole process, as SIGSTOP from outside would; returns when it is continued.
pub fn stop_self() {
    // Cannot fail: the signal exists, and a thread may signal itself.
    let _ = raise(Signal::SIGSTOP);
}
