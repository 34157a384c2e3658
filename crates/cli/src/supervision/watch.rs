//! What the supervisor does while the command runs: passes signals and renewals to the warden, and handles the warden's reports.

use std::time::{Duration, SystemTime};

use fencepost::clock::{BootClock, Clock, Moment};
use fencepost::{Fence, LostReason};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::channel::{Instruction, Report, WardenChannel};
use super::family::Family;
use super::messages::{self, Cause, Ending};
use super::signals::Signals;
use super::{Held, Supervised, Workload, terminal};

/// How the command ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The command ended, by itself or because it was asked to; contains its raw wait status.
    Ended(i32),
    /// The command could not be started; contains `errno`.
    NotStarted(i32),
    /// The lock was lost, and the command was stopped.
    Lost,
    /// The lock was held for as long as it may be, and the command was stopped. Only runs of jobs have such a limit.
    OverTime,
    /// The warden was killed, and the command with it.
    WardenDied,
}

/// Lets the warden start the command, and waits until it has ended.
pub(crate) async fn run_command(
    plan: &Supervised,
    held: &impl Held,
    channel: &mut WardenChannel,
    signals: &mut Signals,
) -> Outcome {
    let now = BootClock.now();
    let fence: Fence = held.fence();
    let mut watch = Watch {
        plan,
        held,
        channel,
        group: None,
        valid_until: Moment::ZERO,
        renewed_at: now,
        looked_at: now,
        frozen: Duration::ZERO,
        passed_a_pause: false,
        taken_away: false,
        gave_up: false,
        is_over_time: false,
        ending: None,
    };
    watch.channel.say(Instruction::Prepare).await;
    watch.tell_validity().await;
    watch.channel.say(Instruction::Start(fence.as_i64())).await;
    let outcome = watch.until_over(signals).await;
    if plan.takes_terminal {
        terminal::take_back();
    }
    outcome
}

struct Watch<'a, H> {
    plan: &'a Supervised,
    held: &'a H,
    channel: &'a mut WardenChannel,
    /// The command's process group, once it runs.
    group: Option<Pid>,
    /// The end of the lock that the warden was told last.
    valid_until: Moment,
    /// When the last successful renewal was noticed.
    renewed_at: Moment,
    looked_at: Moment,
    /// The longest time between two checks, if it was too long.
    frozen: Duration,
    /// Whether this process paused the command in order to pause itself.
    passed_a_pause: bool,
    /// Whether the store reported that this process no longer holds the lock.
    taken_away: bool,
    /// Whether this process gave up the lock, which it still holds.
    gave_up: bool,
    /// Whether the command is stopped because the lock may be held no longer.
    is_over_time: bool,
    /// The progress of stopping the command, once it has begun.
    ending: Option<Ending>,
}

impl<H: Held> Watch<'_, H> {
    async fn until_over(&mut self, signals: &mut Signals) -> Outcome {
        // Read reports first: if this process was paused, the report of a stop may be waiting.
        loop {
            let held = self.held;
            let is_told = self.taken_away;
            tokio::select! {
                biased;
                report = self.channel.receive() => match report {
                    Some(report) => {
                        if let Some(outcome) = self.handle_report(report).await {
                            return outcome;
                        }
                    }
                    None => return end_what_is_left().await,
                },
                signal = signals.next() => self.pass(signal).await,
                lost = held.lost(), if !is_told => self.end_lost(lost.reason()).await,
                () = tokio::time::sleep(self.plan.look_every()) => {}
            }
            self.look().await;
        }
    }

    async fn end_lost(&mut self, reason: LostReason) {
        self.taken_away = true;
        match reason {
            LostReason::Gone => self.channel.say(Instruction::Kill).await,
            LostReason::Unhealthy => {
                self.gave_up = true;
                let sigterm = Signal::SIGTERM as i32;
                self.channel.say(Instruction::Stop(sigterm)).await;
            }
            // The warden knows when the lock ends.
            _ => {}
        }
    }

    async fn look(&mut self) {
        let now = BootClock.now();
        let gap = now.saturating_duration_since(self.looked_at);
        self.looked_at = now;
        if gap > self.plan.ttl / 3 {
            self.frozen = self.frozen.max(gap);
        }
        self.tell_validity().await;
    }

    /// Tells the warden about renewals.
    async fn tell_validity(&mut self) {
        let now = BootClock.now();
        let until = now + self.held.valid_for();
        // Computed at different moments, the same end of a lease differs by the time between two readings of the clock.
        const JITTER: Duration = Duration::from_millis(1);
        if until > self.valid_until + JITTER && until > now {
            self.valid_until = until;
            self.renewed_at = now;
            self.channel.say(Instruction::ValidUntil(until)).await;
        }
    }

    async fn pass(&mut self, signal: Signal) {
        match signal {
            Signal::SIGTSTP => {
                self.passed_a_pause = true;
                self.channel.say(Instruction::Pass(signal as i32)).await;
                terminal::pause_self();
            }
            Signal::SIGCONT => self.go_on().await,
            signal if self.plan.workload == Workload::Service && is_end(signal) => {
                self.channel.say(Instruction::Stop(signal as i32)).await;
            }
            signal => self.channel.say(Instruction::Pass(signal as i32)).await,
        }
    }

    /// Continues after a pause. If the lock ended during the pause, the warden has stopped the command.
    async fn go_on(&mut self) {
        if let Some(group) = self.group
            && self.plan.takes_terminal
            && terminal::is_ours()
        {
            terminal::give_to(group);
        }
        self.channel
            .say(Instruction::Pass(Signal::SIGCONT as i32))
            .await;
    }

    async fn handle_report(&mut self, report: Report) -> Option<Outcome> {
        match report {
            Report::Started(pid) => self.group = Some(Pid::from_raw(pid)),
            Report::NotStarted(error) => return Some(Outcome::NotStarted(error)),
            Report::Ended(_) if self.gave_up => {
                let program = self.plan.program();
                messages::say(format!("{program} and all it started were stopped"));
                return Some(Outcome::Lost);
            }
            Report::Ended(status) => return Some(Outcome::Ended(status)),
            Report::Paused(_) if std::mem::take(&mut self.passed_a_pause) => {}
            Report::Paused(_) if self.plan.takes_terminal => {
                terminal::take_back();
                terminal::pause_job();
            }
            Report::Paused(signal) if signal != Signal::SIGTSTP as i32 => {
                messages::say(messages::shares_the_terminal(&self.plan.program()));
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
                messages::say(messages::stopped(&self.plan.program(), &ending));
                return Some(if self.is_over_time {
                    Outcome::OverTime
                } else {
                    Outcome::Lost
                });
            }
        }
        None
    }

    /// Prints that the lock is lost, unless that was printed already.
    async fn begin_ending(&mut self) -> &mut Ending {
        let now = BootClock.now();
        if self.ending.is_none() {
            // A renewal that is noticed only now came too late.
            let renewed_at = self.renewed_at;
            self.look().await;
            let cause = self.cause(
                now.saturating_duration_since(renewed_at),
                self.renewed_at > renewed_at,
            );
            self.is_over_time = matches!(cause, Cause::OverTime(_));
            messages::say(messages::lost(&self.plan.name, SystemTime::now(), &cause));
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
        self.taken_away && self.held.valid_for().is_zero() && self.valid_until > BootClock.now()
    }

    fn cause(&self, silent: Duration, came_late: bool) -> Cause {
        let room = self.plan.grace + self.plan.margin();
        if let Some(most) = self.held.is_over_time(room) {
            return Cause::OverTime(most);
        }
        if self.is_told_gone() {
            return Cause::Told(LostReason::Gone);
        }
        if !self.frozen.is_zero() {
            return Cause::Frozen(self.frozen);
        }
        match self.held.failed_renewals() {
            Some(failed) => Cause::Silence {
                silent,
                failed: failed.count,
                kind: failed.last_error.kind(),
                last: failed.last_error.message().to_owned(),
            },
            None if came_late => Cause::TooLate(silent),
            None => Cause::Unanswered(silent),
        }
    }
}

/// Returns whether the signal asks a program to end.
pub(super) fn is_end(signal: Signal) -> bool {
    matches!(
        signal,
        Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT
    )
}

/// Kills the command's descendants after the warden died. This process also adopts orphans, so they are its children now.
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
