//! Ctrl-C as a question that is asked at safe points.

use std::sync::atomic::{AtomicI32, Ordering};

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
pub struct Interrupt {
    listening: bool,
}

impl Interrupt {
    /// Takes over the signals, for the whole program.
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
            unsafe { sigaction(signal, &action) }?;
        }
        Ok(Self { listening: true })
    }

    /// One that never comes, for callers that leave signals alone.
    pub fn never() -> Self {
        Self { listening: false }
    }

    /// The signal that asked this program to stop, if any.
    pub fn requested(self) -> Option<Signal> {
        let received = RECEIVED.load(Ordering::Relaxed);
        Signal::try_from(received).ok().filter(|_| self.listening)
    }
}
