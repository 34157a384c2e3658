//! While the command runs: signals go down, validity goes down, reports come up.

use std::time::{Duration, SystemTime};

use fencepost::clock::BootClock;
use fencepost::{Clock, Guard, LostReason, Moment};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::channel::{Order, Report, WardenChannel};
use super::family::Family;
use super::signals::Signals;
use super::words::{self, Cause, Ending};
use super::{Plan, terminal};

/// How the command's time under the lock was over.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It ended by itself: what the system says about how.
    Ended(i32),
    /// It could not be started: the system's number of the error.
    NotStarted(i32),
    /// The lock was lost, and the command was ended.
    Lost,
    /// The warden was killed, and with it the command.
    WardenDied,
}

/// Starts the command through the warden and stays with it to the end.
pub(super) async fn over(
    plan: &Plan,
    guard: &Guard,
    channel: WardenChannel,
    signals: &mut Signals,
) -> Outcome {
    let now = BootClock.now();
    let mut watch = Watch {
        plan,
        guard,
        channel,
        group: None,
        valid_until: Moment::ZERO,
        renewed_at: now,
        looked_at: now,
        frozen: Duration::ZERO,
        passed_a_pause: false,
        taken_away: false,
        ending: None,
    };
    watch.tell_validity().await;
    watch
        .channel
        .say(Order::Start(guard.fence().as_i64()))
        .await;
    let outcome = watch.until_over(signals).await;
    if plan.takes_terminal {
        terminal::take_back();
    }
    outcome
}

struct Watch<'a> {
    plan: &'a Plan,
    guard: &'a Guard,
    channel: WardenChannel,
    /// The command's process group, once it runs.
    group: Option<Pid>,
    /// What the warden was told.
    valid_until: Moment,
    /// When a renewal was last seen to have succeeded.
    renewed_at: Moment,
    looked_at: Moment,
    /// The longest time between two looks, if it was too long.
    frozen: Duration,
    /// The command was told to pause by this process, which pauses itself.
    passed_a_pause: bool,
    /// The store said that the lock is not ours.
    taken_away: bool,
    /// How the stop goes, once it has begun.
    ending: Option<Ending>,
}

impl Watch<'_> {
    async fn until_over(&mut self, signals: &mut Signals) -> Outcome {
        // Reports are read first: one of a stop may lie there since before this process was paused.
        loop {
            let guard = self.guard;
            let is_told = self.taken_away;
            tokio::select! {
                biased;
                report = self.channel.hear() => match report {
                    Some(report) => {
                        if let Some(outcome) = self.hear(report).await {
                            return outcome;
                        }
                    }
                    None => return end_what_is_left().await,
                },
                signal = signals.next() => self.pass(signal).await,
                lost = guard.lost(), if !is_told => {
                    self.taken_away = true;
                    if lost.reason() == LostReason::Gone {
                        self.channel.say(Order::Kill).await;
                    }
                }
                () = tokio::time::sleep(self.plan.look_every()) => {}
            }
            self.look().await;
        }
    }

    async fn look(&mut self) {
        let now = BootClock.now();
        let gap = now.since(self.looked_at);
        self.looked_at = now;
        if gap > self.plan.ttl / 3 {
            self.frozen = self.frozen.max(gap);
        }
        self.tell_validity().await;
    }

    /// Lets the warden know of renewals.
    async fn tell_validity(&mut self) {
        let now = BootClock.now();
        let until = now + self.guard.valid_for();
        // The same end, computed at different moments, differs by the time between two readings of the clock.
        const JITTER: Duration = Duration::from_millis(1);
        if until > self.valid_until + JITTER && until > now {
            self.valid_until = until;
            self.renewed_at = now;
            self.channel.say(Order::ValidUntil(until)).await;
        }
    }

    async fn pass(&mut self, signal: Signal) {
        match signal {
            Signal::SIGTSTP => {
                self.passed_a_pause = true;
                self.channel.say(Order::Pass(signal as i32)).await;
                terminal::pause_self();
            }
            Signal::SIGCONT => self.go_on().await,
            signal => self.channel.say(Order::Pass(signal as i32)).await,
        }
    }

    /// After a pause: the warden has ended the command meanwhile if the lock did not last.
    async fn go_on(&mut self) {
        if let Some(group) = self.group
            && self.plan.takes_terminal
            && terminal::is_ours()
        {
            terminal::give_to(group);
        }
        self.channel.say(Order::Pass(Signal::SIGCONT as i32)).await;
    }

    async fn hear(&mut self, report: Report) -> Option<Outcome> {
        match report {
            Report::Started(pid) => self.group = Some(Pid::from_raw(pid)),
            Report::NotStarted(error) => return Some(Outcome::NotStarted(error)),
            Report::Ended(status) => return Some(Outcome::Ended(status)),
            Report::Paused(_) if std::mem::take(&mut self.passed_a_pause) => {}
            Report::Paused(_) if self.plan.takes_terminal => {
                terminal::take_back();
                terminal::pause_job();
            }
            Report::Paused(signal) if signal != Signal::SIGTSTP as i32 => {
                words::say(words::shares_the_terminal(&self.plan.program()));
            }
            Report::Paused(_) => {}
            Report::Stopping(at) => {
                self.begin_ending().await.asked_at = Some(at);
            }
            Report::Killing(at) => {
                self.begin_ending().await.killed_at = Some(at);
            }
            Report::Gone(at) => {
                let mut ending = *self.begin_ending().await;
                ending.gone_at = at;
                words::say(words::stopped(&self.plan.program(), &ending));
                return Some(Outcome::Lost);
            }
        }
        None
    }

    /// Says that the lock is lost, when that was not said yet.
    async fn begin_ending(&mut self) -> &mut Ending {
        let now = BootClock.now();
        if self.ending.is_none() {
            // A renewal that is seen only now came too late.
            let renewed_at = self.renewed_at;
            self.look().await;
            let cause = self.cause(now.since(renewed_at), self.renewed_at > renewed_at);
            words::say(words::lost(&self.plan.name, SystemTime::now(), &cause));
        }
        let is_told = self.is_told_gone();
        self.ending.get_or_insert(Ending {
            asked_at: None,
            killed_at: None,
            gone_at: now,
            valid_until: (!is_told).then_some(self.valid_until),
        })
    }

    fn is_told_gone(&self) -> bool {
        self.taken_away && self.guard.valid_for().is_zero() && self.valid_until > BootClock.now()
    }

    fn cause(&self, silent: Duration, came_late: bool) -> Cause {
        if self.is_told_gone() {
            return Cause::Told(LostReason::Gone);
        }
        if !self.frozen.is_zero() {
            return Cause::Frozen(self.frozen);
        }
        match self.guard.renewal_trouble() {
            Some((failed, error)) => Cause::Silence {
                silent,
                failed,
                kind: error.kind(),
                last: error.message().to_owned(),
            },
            None if came_late => Cause::TooLate(silent),
            None => Cause::Unanswered(silent),
        }
    }
}

/// The warden is gone, and what it watched has come to this process, which adopts orphans too.
async fn end_what_is_left() -> Outcome {
    let left = Family::without_leader();
    while !left.is_gone() {
        left.signal(Signal::SIGKILL);
        tokio::time::sleep(Duration::from_millis(3)).await;
        let reap = || nix::sys::wait::waitpid(None, Some(nix::sys::wait::WaitPidFlag::WNOHANG));
        while matches!(reap(), Ok(status) if status.pid().is_some()) {}
    }
    Outcome::WardenDied
}
