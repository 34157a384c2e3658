//! The signals of this process and of those that it starts: Ctrl-C as a flag, ignored signals, and a process that stops itself.
//!
//! A process inherits which signals are ignored and blocked; `nohup` and shells with background jobs rely on that. A test that sends
//! signals must not depend on how the test itself was started.

use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{
    SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, raise, sigaction, signal,
    sigprocmask,
};

static RECEIVED: AtomicI32 = AtomicI32::new(0);

extern "C" fn note(signal: i32) {
    RECEIVED.store(signal, Ordering::Relaxed);
}

/// Whether a signal asked this program to stop (SIGINT, SIGTERM, SIGHUP).
///
/// After [`listen`](Self::listen), these signals no longer end the program. It checks [`requested`](Self::requested) wherever it can stop,
/// and returns in the ordinary way, so that children are killed and folders removed.
#[derive(Debug, Clone, Copy)]
pub struct Interrupt(Source);

#[derive(Debug, Clone, Copy)]
enum Source {
    Nobody,
    Signals,
    Flag(&'static AtomicBool),
}

impl Interrupt {
    /// Installs handlers for the signals, for the whole program. SIGHUP stays ignored if it was ignored at the start, because `nohup`
    /// promises that the program goes on when the terminal is closed.
    ///
    /// # Errors
    /// Returns the system's error if a handler cannot be installed.
    pub fn listen() -> Result<Self, Errno> {
        let action = SigAction::new(
            SigHandler::Handler(note),
            SaFlags::SA_RESTART,
            SigSet::empty(),
        );
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            if signal == Signal::SIGHUP && is_ignored(signal) {
                continue;
            }
            // SAFETY: the handler only stores to an atomic, which is async-signal-safe.
            unsafe { sigaction(signal, &action) }?;
        }
        Ok(Self(Source::Signals))
    }

    /// Returns an interrupt that never happens, for callers that do not handle signals.
    pub fn never() -> Self {
        Self(Source::Nobody)
    }

    /// Returns an interrupt that happens when the flag is set, as if by SIGTERM, for callers that handle signals themselves.
    pub fn when(flag: &'static AtomicBool) -> Self {
        Self(Source::Flag(flag))
    }

    /// Returns the signal that asked this program to stop, if any.
    pub fn requested(self) -> Option<Signal> {
        match self.0 {
            Source::Nobody => None,
            Source::Signals => Signal::try_from(RECEIVED.load(Ordering::Relaxed)).ok(),
            Source::Flag(flag) => flag.load(Ordering::Relaxed).then_some(Signal::SIGTERM),
        }
    }
}

/// Returns whether the parent process set this signal to be ignored, as `nohup` does or a shell for background jobs. A program should then
/// keep ignoring it.
///
/// Call this before installing a handler for the signal.
pub fn is_ignored(signal: Signal) -> bool {
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

/// Makes the command start as from a terminal: with no signal ignored or blocked, whatever this process inherited.
pub fn with_default_signals(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only `sigaction` and `sigprocmask` are called, which are async-signal-safe.
    unsafe { command.pre_exec(|| Ok(reset()?)) }
}

fn reset() -> Result<(), Errno> {
    for number in Signal::iterator() {
        if !matches!(number, Signal::SIGKILL | Signal::SIGSTOP) {
            // SAFETY: no handler is installed.
            unsafe { signal(number, SigHandler::SigDfl) }?;
        }
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
}

/// Stops this whole process, as SIGSTOP from outside would; returns when it is continued.
pub fn stop_self() {
    // Cannot fail: the signal exists, and a thread may signal itself.
    let _ = raise(Signal::SIGSTOP);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_process_ignores_is_not_handed_on() {
        // SAFETY: no handler is installed, and nothing else in this program uses the signal.
        unsafe { signal(Signal::SIGUSR2, SigHandler::SigIgn) }.unwrap();
        let ignored = |command: &mut Command| {
            let output = command.arg("SigIgn").arg("/proc/self/status").output();
            let text = String::from_utf8(output.unwrap().stdout).unwrap();
            let mask = text.split_whitespace().last().unwrap().to_owned();
            u64::from_str_radix(&mask, 16).unwrap() & (1 << (Signal::SIGUSR2 as i32 - 1)) != 0
        };
        assert!(is_ignored(Signal::SIGUSR2) && !is_ignored(Signal::SIGUSR1));
        assert!(ignored(&mut Command::new("grep")));
        assert!(!ignored(with_default_signals(&mut Command::new("grep"))));
    }
}
