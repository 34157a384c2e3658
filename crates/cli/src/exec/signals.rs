//! The signals that `exec` hears.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

use crate::ignored::is_ignored;

/// What is passed on to the command as it comes.
pub(super) const PASSED_ON: [Signal; 7] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
];

/// What pauses and continues a job.
const JOB_CONTROL: [Signal; 2] = [Signal::SIGTSTP, Signal::SIGCONT];

/// All of them that are not ignored, from now on heard instead of followed.
#[derive(Debug)]
pub(super) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// Needs a runtime.
    pub(super) fn listen() -> io::Result<Self> {
        let all = PASSED_ON.into_iter().chain(JOB_CONTROL);
        let all = all.filter(|signal| !is_ignored(*signal));
        let streams = all.map(|number| Ok((number, signal(SignalKind::from_raw(number as i32))?)));
        Ok(Self(streams.collect::<io::Result<_>>()?))
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Signal {
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
