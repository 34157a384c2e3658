//! The signals that a supervisor handles instead of dying from them.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use fencepost_rig::is_ignored;
use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

/// Signals that a supervisor passes on to the command.
pub(super) const PASSED_ON: [Signal; 7] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
];

/// Signals that pause and continue a job.
const JOB_CONTROL: [Signal; 2] = [Signal::SIGTSTP, Signal::SIGCONT];

/// Handlers for all these signals, except those that were ignored when the program started.
#[derive(Debug)]
pub(crate) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// Needs a runtime.
    pub(crate) fn listen() -> io::Result<Self> {
        let all = PASSED_ON.into_iter().chain(JOB_CONTROL);
        let all = all.filter(|signal| !is_ignored(*signal));
        let streams = all.map(|number| Ok((number, signal(SignalKind::from_raw(number as i32))?)));
        Ok(Self(streams.collect::<io::Result<_>>()?))
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (number, stream) in &mut self.0 {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        })
        .await
    }
}
