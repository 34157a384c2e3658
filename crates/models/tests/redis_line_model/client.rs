//! The client's state machine in the Redis line model: Idle → Want → Hold → Releasing → Idle.

use crate::invariants::Promise;
use crate::plain_commands::Attempt;
use crate::setup::Setup;
use crate::state::{Answer, Client, Command, Link, Message, Noted, Phase, Request, State, Ticks};
use crate::variants::Flaw;

/// How a wait begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Manner {
    Script,
    PlainCommands,
}

/// How a grant arrived.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Reply,
    Push,
}

impl Client {
    /// Sends a command. On a cut link it is lost, and the client does not know yet.
    pub(crate) fn send(&mut self, request: Request) {
        self.send_for(self.wait, request);
    }

    fn send_for(&mut self, wait: u8, request: Request) {
        let command = Command {
            request,
            wait,
            stamp_age: 0,
            ticket: if request == Request::Acquire {
                self.ticket
            } else {
                0
            },
            lift: std::mem::take(&mut self.lift_due),
            floor: self.highest_epoch,
            is_holders: wait == self.wait && self.noted.has_held,
        };
        if self.link == Link::Up {
            self.commands.push(command);
        }
    }

    pub(crate) fn start(&mut self, manner: Manner) {
        self.phase = Phase::Want;
        match manner {
            Manner::Script => self.ask(),
            Manner::PlainCommands => {
                self.send(Request::PlainCommands(Attempt::new(self.last_epoch + 1)))
            }
        }
    }

    /// Returns whether the first request of a wait may be plain commands. The first request of a connection never is.
    pub(crate) fn may_use_plain_commands(&self, setup: &Setup) -> bool {
        setup.plain_commands && self.last_epoch > 0 && !self.lift_due
    }

    /// Sends ACQUIRE with the token, member and ticket of this wait, whether or not it is the first time.
    pub(crate) fn ask(&mut self) {
        self.send(if self.only_tries {
            Request::Try
        } else {
            Request::Acquire
        });
    }

    /// Returns whether a timer may send another command.
    pub(crate) fn may_beat(&self, setup: &Setup) -> bool {
        self.link == Link::Up && self.unanswered() < setup.pipeline
    }

    /// Ends a wait or a hold: a guard was dropped, a wait was cancelled, or a lease expired.
    pub(crate) fn release(&mut self) {
        self.phase = Phase::Releasing;
        if self.link != Link::Down {
            self.send(Request::Release);
        }
    }

    /// Continues after a reconnect: repeats RELEASE until it is answered, or asks again with the same token. A holder renews by
    /// timer.
    pub(crate) fn resume(&mut self, setup: &Setup) {
        if self.unsettled > 0 {
            if setup.has(Flaw::NextWaitForgetsTheRelease) {
                self.unsettled = 0;
            } else {
                self.send_for(self.unsettled, Request::Release);
            }
        }
        match self.phase {
            Phase::Want => self.ask(),
            Phase::Releasing if setup.has(Flaw::ReleaseIsSentOnce) => self.finish(setup),
            Phase::Releasing => self.send(Request::Release),
            Phase::Idle | Phase::Hold | Phase::Done => {}
        }
    }

    /// Starts the next wait before the RELEASE of this one is answered. Both use one connection, in order.
    pub(crate) fn start_next(&mut self, setup: &Setup, manner: Manner) {
        let releasing = self.wait;
        self.finish(setup);
        self.unsettled = releasing;
        self.start(manner);
    }

    fn finish(&mut self, setup: &Setup) {
        self.belief = 0;
        self.ticket = 0;
        self.noted = Noted::default();
        if self.wait < setup.waits {
            self.wait += 1;
            self.phase = Phase::Idle;
        } else {
            self.phase = Phase::Done;
        }
    }

    /// Handles a grant that had expired when it arrived: asks again, unless a request is already pending.
    fn ask_after_stale_grant(&mut self, setup: &Setup) {
        if self.may_beat(setup) {
            self.ask();
        }
    }
}

/// The client reads its next reply.
pub(crate) fn receive_reply(state: &mut State, setup: &Setup, index: usize) {
    let message = state.clients[index].replies.remove(0);
    let client = &mut state.clients[index];
    if message.wait == client.unsettled && matches!(message.answer, Answer::Released { .. }) {
        client.unsettled = 0;
    }
    if message.wait != client.wait {
        return;
    }
    match (client.phase, message.answer) {
        (Phase::Want | Phase::Hold, Answer::Granted { .. }) => {
            take_grant(state, setup, index, message, By::Reply);
        }
        (Phase::Want, Answer::Queued { ticket }) => client.ticket = ticket,
        (Phase::Want, Answer::Gone) if client.link == Link::Up => client.ask(),
        (Phase::Want, Answer::Declined { lift }) if client.link == Link::Up => {
            client.last_epoch = 0;
            client.lift_due |= lift;
            client.ask();
        }
        (Phase::Want, Answer::Busy) => client.finish(setup),
        (Phase::Hold, Answer::Kept) => {
            let left = setup.times.ttl.saturating_sub(message.stamp_age);
            client.belief = client.belief.max(left);
        }
        (Phase::Hold, Answer::Lost) => client.finish(setup),
        (Phase::Releasing, Answer::Released { was_held }) => {
            let reports_a_release =
                was_held || client.belief > 0 || setup.has(Flaw::ZeroMeansReleased);
            let noted = client.noted;
            client.finish(setup);
            if noted.has_held && reports_a_release && !noted.let_go && !noted.lease_forgotten {
                state.convict(Promise::ReleaseIsHonest);
            }
        }
        _ => {}
    }
}

/// The client reads one of the pushes that have arrived.
pub(crate) fn receive_push(state: &mut State, setup: &Setup, index: usize, push: usize) {
    let message = state.clients[index].pushes.remove(push);
    let client = &state.clients[index];
    let matches = message.wait == client.wait || setup.has(Flaw::PushMatchedByName);
    if matches && matches!(client.phase, Phase::Want | Phase::Hold) {
        take_grant(state, setup, index, message, By::Push);
    }
}

fn take_grant(state: &mut State, setup: &Setup, index: usize, message: Message, by: By) {
    let Answer::Granted { fence, lease } = message.answer else {
        return;
    };
    let left = validity(setup, lease, message.stamp_age, by);
    let client = &mut state.clients[index];
    // The server has lost its counter since, and the client that handed the lock on knew less than this one.
    let is_behind = fence < client.highest_epoch && client.phase == Phase::Want;
    let looks = !setup.has(Flaw::LowGrantTaken) && !setup.has(Flaw::FloorIgnored);
    if is_behind && looks {
        return client.ask_after_stale_grant(setup);
    }
    client.last_epoch = fence;
    if setup.slow_clock {
        client.highest_epoch = client.highest_epoch.max(fence);
    }
    // A message that arrived before the server restarted is about a lease that the server may have forgotten.
    client.noted.lease_forgotten |= client.link == Link::Cut || (message.is_forgotten && left > 0);
    if client.phase == Phase::Hold {
        client.belief = client.belief.max(left);
    } else if left == 0 {
        client.ask_after_stale_grant(setup);
    } else {
        client.phase = Phase::Hold;
        client.belief = left;
        client.noted.has_held = true;
        let is_late = client.noted.lease_forgotten;
        let is_low = if setup.slow_clock {
            is_behind
        } else {
            fence <= state.guarded
        };
        if is_low && !is_late {
            state.convict(Promise::FencesGrow);
        }
        state.guarded = state.guarded.max(fence);
    }
}

/// Returns how long the lease is still valid, counted from when the stamped request was sent.
fn validity(setup: &Setup, lease: Ticks, stamp_age: Ticks, by: By) -> Ticks {
    if by == By::Push && setup.has(Flaw::ValidityFromReceipt) {
        return lease;
    }
    let left = lease.saturating_sub(stamp_age);
    if setup.has(Flaw::StaleGrantTaken) {
        return left.max(1);
    }
    left
}
