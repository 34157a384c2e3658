//! Signals that this program was started without hearing.

use std::mem::MaybeUninit;

use nix::libc;
use nix::sys::signal::Signal;

/// Whether this program was started so that it ignores a signal, by `nohup` or in the background: then it keeps ignoring it.
///
/// To be asked before anything listens for the signal.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action the call only writes the present one, and does so unless it fails.
    let action = unsafe {
        match libc::sigaction(signal as i32, std::ptr::null(), action.as_mut_ptr()) {
            0 => action.assume_init(),
            _ => return false,
        }
    };
    action.sa_sigaction == libc::SIG_IGN
}
