//! The scripts, each one atomic, as they run inside Redis.

use crate::advance::Next;
use crate::invariants::Promise;
use crate::setup::Setup;
use crate::state::{Answer, Channel, Command, Entry, Link, Message, Request, State, Ticks, Token};
use crate::variants::Flaw;

/// Which of a client's connections a command came by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    Current,
    /// One that the client has given up: nobody reads the answer.
    Previous,
}

/// Executes a command that has reached the server.
pub(crate) fn execute(state: &mut State, setup: &Setup, client: usize, command: Command, via: Via) {
    let token = Token {
        client: client as u8,
        wait: command.wait,
    };
    let channel = match via {
        _ if setup.poll_mode => Channel::Silent,
        Via::Current => Channel::Current,
        Via::Previous => Channel::Previous,
    };
    let mut script = Script {
        lift: command.lift && !setup.has(Flaw::NeverLifts),
        state,
        setup,
        token,
        channel,
        command,
    };
    if !setup.has(Flaw::LiftWaitsForAGrant) {
        script.lift_fence();
    }
    let answer = match command.request {
        Request::Acquire => script.acquire(),
        Request::Try => script.try_acquire(),
        Request::BeatWaiting => script.beat_waiting(),
        Request::BeatHolding => script.beat_holding(),
        Request::Leave => script.leave(),
    };
    if via == Via::Current && state.clients[client].link == Link::Up {
        state.clients[client].replies.push(Message {
            answer,
            wait: command.wait,
            stamp_age: command.stamp_age,
        });
    }
}

/// A command while it runs.
pub(crate) struct Script<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) setup: &'a Setup,
    pub(crate) token: Token,
    pub(crate) channel: Channel,
    pub(crate) command: Command,
    pub(crate) lift: bool,
}

impl Script<'_> {
    fn acquire(&mut self) -> Answer {
        let ttl = self.setup.times.ttl;
        if self.state.server.key.is_none() && self.state.server.line.is_empty() {
            return self.take(ttl);
        }
        if self.state.server.is_owned_by(self.token) {
            return self.confirm(ttl);
        }
        let stood_in_line = self.state.server.entry(self.token).is_some();
        let told_ticket = self.enter_line(self.command.ticket);
        if stood_in_line || self.command.ticket > 0 {
            self.refresh();
        }
        if self.state.server.key.is_none()
            && let Next::Caller { fence } = self.advance(Some(ttl))
        {
            return Answer::Granted { fence, lease: ttl };
        }
        Answer::Queued {
            ticket: match self.state.server.entry(self.token) {
                Some(entry) if !self.setup.has(Flaw::QueuedTellsTheTimeNow) => entry.ticket,
                _ => told_ticket,
            },
        }
    }

    /// Enters nowhere and overtakes nobody; but those in line who are dead must not keep it out.
    fn try_acquire(&mut self) -> Answer {
        let ttl = self.setup.times.ttl;
        if self.state.server.is_owned_by(self.token) {
            return self.confirm(ttl);
        }
        if self.state.server.key.is_none() {
            let is_free = self.state.server.line.is_empty()
                || self.setup.has(Flaw::TryOvertakes)
                || (!self.setup.has(Flaw::TryTrustsTheLine)
                    && matches!(self.advance(None), Next::Nobody));
            if is_free {
                return self.take(ttl);
            }
        }
        if self.state.server.key.is_none() && !self.somebody_stands_before(u8::MAX) {
            self.state.convict(Promise::TryFindsAFreeLock);
        }
        Answer::Busy
    }

    fn beat_waiting(&mut self) -> Answer {
        let lease = self.setup.times.claim;
        if self.state.server.is_owned_by(self.token) {
            return self.confirm_waiter(lease);
        }
        let Some(&Entry { ticket, .. }) = self.state.server.entry(self.token) else {
            if !self.setup.has(Flaw::BeatEntersTheLine) {
                return Answer::Gone;
            }
            let ticket = self.enter_line(0);
            return Answer::Queued { ticket };
        };
        self.refresh();
        if self.state.server.key.is_none()
            && !self.setup.has(Flaw::BeatDoesNotAdvance)
            && let Next::Caller { fence } = self.advance(Some(lease))
        {
            return Answer::Granted { fence, lease };
        }
        Answer::Queued { ticket }
    }

    fn beat_holding(&mut self) -> Answer {
        if !self.state.server.is_owned_by(self.token) {
            return Answer::Lost;
        }
        self.extend(self.setup.times.ttl);
        Answer::Kept
    }

    fn leave(&mut self) -> Answer {
        let is_owner = self.state.server.is_owned_by(self.token);
        if is_owner || (self.setup.has(Flaw::ReleaseDoesNotCompare) && self.has_held()) {
            if !self.setup.has(Flaw::CancelOnlyLeavesTheLine) || self.has_held() {
                self.release();
            }
            return Answer::Left { released: true };
        }
        if !self.setup.has(Flaw::LeaveKeepsTheEntry) {
            self.drop_entry(self.token);
        }
        if !self.setup.has(Flaw::LeaveKeepsTheRecord) {
            self.drop_record(self.token);
        }
        if self.state.server.key.is_none() {
            self.advance(None);
        }
        Answer::Left { released: false }
    }

    fn release(&mut self) {
        let wait = self.token.wait;
        let client = self.state.client(self.token);
        client.noted.let_go |= client.wait == wait;
        if let Next::Nobody = self.advance(None) {
            self.state.server.key = None;
        }
    }

    fn has_held(&self) -> bool {
        let client = &self.state.clients[usize::from(self.token.client)];
        client.wait == self.token.wait && client.noted.has_held
    }

    /// `SET NX` by somebody for whom nobody alive has to wait.
    fn take(&mut self, lease: Ticks) -> Answer {
        let fence = self.draw_fence();
        self.grant(self.token, fence, lease, false);
        Answer::Granted { fence, lease }
    }

    /// The caller owns the key already.
    fn confirm(&mut self, lease: Ticks) -> Answer {
        self.extend(lease);
        self.drop_entry(self.token);
        self.drop_record(self.token);
        self.told_fence(lease)
    }

    fn confirm_waiter(&mut self, lease: Ticks) -> Answer {
        if let Some(key) = &mut self.state.server.key {
            key.remaining = match self.setup.has(Flaw::BeatShortensTheLease) {
                true => lease,
                false => key.remaining.max(lease),
            };
        }
        self.told_fence(lease)
    }

    fn extend(&mut self, lease: Ticks) {
        if let Some(key) = &mut self.state.server.key {
            key.remaining = key.remaining.max(lease);
            key.is_claim = false;
        }
    }
}
