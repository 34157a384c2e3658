//! Turns Ctrl-C into a flag that the program checks at safe points.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use nix::errno::Errno;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

static RECEIVED: AtomicI32 = AtomicI32::new(0);

extern "C" fn note(signal: i32) {
    RECEIVED.store(signal, Ordering::Relaxed);
}

/// Whether a signal asked this program to stop (SIGINT, SIGTERM, SIGHUP).
///
/// After [`listen`](Self::listen), these signals no longer end the program. It checks [`requested`](Self::requested) wherever it can stop, and
/// returns in the ordinary way, so that children are killed and folders removed.
#[derive(Debug, Clone, Copy)]
pub struct Interrupt(Source);

#[derive(Debug, Clone, Copy)]
enum Source {
    Nobody,
    Signals,
    Flag(&'static AtomicBool),
}

impl Interrupt {
    /// Installs handlers for the signals, for the whole program. SIGHUP stays ignored if it was ignored at the start, because `nohup` promises
    /// that the program goes on when the terminal is closed.
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
            // SAFETY: the handler only stores to an atomic, which is async-signal-safe.
            let before = unsafe { sigaction(signal, &action) }?;
            if signal == Signal::SIGHUP && matches!(before.handler(), SigHandler::SigIgn) {
                // SAFETY: restores the previous disposition.
                unsafe { sigaction(signal, &before) }?;
            }
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
