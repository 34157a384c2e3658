//! Ctrl-C as a question that is asked at safe points.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use nix::errno::Errno;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

static RECEIVED: AtomicI32 = AtomicI32::new(0);

extern "C" fn note(signal: i32) {
    RECEIVED.store(signal, Ordering::Relaxed);
}

/// Whether somebody asked this program to stop (SIGINT, SIGTERM, SIGHUP).
///
/// Once [listened to](Self::listen), these signals no longer end the program: it asks [`requested`](Self::requested) wherever it can stop,
/// and leaves by the ordinary way, so that children are killed and folders removed.
#[derive(Debug, Clone, Copy)]
pub struct Interrupt(Source);

#[derive(Debug, Clone, Copy)]
enum Source {
    Nobody,
    Signals,
    Flag(&'static AtomicBool),
}

impl Interrupt {
    /// Takes over the signals, for the whole program. SIGHUP is left alone where the program was started deaf to it: `nohup` promises that it
    /// goes on when the terminal is closed.
    ///
    /// # Errors
    /// The system's, when a handler cannot be installed.
    pub fn listen() -> Result<Self, Errno> {
        let action = SigAction::new(
            SigHandler::Handler(note),
            SaFlags::SA_RESTART,
            SigSet::empty(),
        );
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            // SAFETY: the handler only stores to an atomic, which may be done in a signal handler.
            let before = unsafe { sigaction(signal, &action) }?;
            if signal == Signal::SIGHUP && matches!(before.handler(), SigHandler::SigIgn) {
                // SAFETY: this is how the signal was treated before.
                unsafe { sigaction(signal, &before) }?;
            }
        }
        Ok(Self(Source::Signals))
    }

    /// One that never comes, for callers that leave signals alone.
    pub fn never() -> Self {
        Self(Source::Nobody)
    }

    /// One that comes when the flag is raised, as if by SIGTERM, for callers that have signals of their own.
    pub fn when(flag: &'static AtomicBool) -> Self {
        Self(Source::Flag(flag))
    }

    /// The signal that asked this program to stop, if any.
    pub fn requested(self) -> Option<Signal> {
        match self.0 {
            Source::Nobody => None,
            Source::Signals => Signal::try_from(RECEIVED.load(Ordering::Relaxed)).ok(),
            Source::Flag(flag) => flag.load(Ordering::Relaxed).then_some(Signal::SIGTERM),
        }
    }
}
