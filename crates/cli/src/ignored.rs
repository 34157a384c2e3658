//! Detects signals that were already ignored when this program started.

use std::mem::MaybeUninit;

use nix::libc;
use nix::sys::signal::Signal;

/// Whether the parent process set this signal to be ignored, as `nohup` does or a shell for background jobs. The program should then keep
/// ignoring it.
///
/// Call this before installing a handler for the signal.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action the call only writes the current action to the pointer, unless it fails.
    let action = unsafe {
        match libc::sigaction(signal as i32, std::ptr::null(), action.as_mut_ptr()) {
            0 => action.assume_init(),
            _ => return false,
        }
    };
    action.sa_sigaction == libc::SIG_IGN
}
