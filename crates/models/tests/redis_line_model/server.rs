//! The scripts of the Redis line, each executed atomically by the server.

use crate::advance::{Given, Next};
use crate::invariants::Promise;
use crate::setup::Setup;
use crate::state::{
    Answer, Channel, Client, Command, Entry, Link, Message, Owner, Request, State, Ticks, Token,
};
use crate::variants::Flaw;

/// The connection of a client that a command arrived on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    Current,
    /// A connection that the client has abandoned: nobody reads the answer.
    Previous,
}

/// Executes a command that has reached the server.
pub(crate) fn execute(
    state: &mut State,
    setup: &Setup,
    client: usize,
    mut command: Command,
    via: Via,
) {
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
    let mut is_forgotten = false;
    let answer = match &mut command.request {
        Request::Acquire => script.acquire(),
        Request::Try => script.try_acquire(),
        Request::PlainCommands(attempt) => {
            is_forgotten = attempt.is_forgotten;
            match script.run_next(attempt) {
                Some(answer) => answer,
                None => return state.clients[client].unread(via).insert(0, command),
            }
        }
        Request::BeatWaiting => script.beat_waiting(),
        Request::BeatHolding => script.beat_holding(),
        Request::Release => script.release(),
    };
    if via == Via::Current && state.clients[client].link == Link::Up {
        state.clients[client].replies.push(Message {
            answer,
            wait: command.wait,
            stamp_age: command.stamp_age,
            is_forgotten,
        });
    }
}

impl Client {
    /// Returns the commands that the server has not read.
    fn unread(&mut self, via: Via) -> &mut Vec<Command> {
        match via {
            Via::Current => &mut self.commands,
            Via::Previous => self.previous.get_or_insert_default(),
        }
    }
}

/// A command during its execution.
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
        self.give_up_guess();
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

    /// Neither joins the line nor overtakes anybody. Dead waiters in line must not keep it out.
    fn try_acquire(&mut self) -> Answer {
        let ttl = self.setup.times.ttl;
        self.give_up_guess();
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

    /// A client that asks again after plain commands that were not granted may have guessed wrong, or bypassed the line. Its
    /// key counts as free.
    fn give_up_guess(&mut self) {
        let believes = self.command.is_holders && !self.setup.has(Flaw::HolderLosesItsGuess);
        if self.holds_a_guess() && !believes && !self.setup.has(Flaw::GuessConfirmed) {
            self.state.server.key = None;
        }
    }

    /// Returns whether the key belongs to the caller, with a guessed epoch.
    fn holds_a_guess(&self) -> bool {
        let key = self.state.server.key.filter(|key| key.is_guessed);
        key.is_some_and(|key| key.owner == Owner::Ours(self.token))
    }

    fn beat_waiting(&mut self) -> Answer {
        let lease = self.setup.times.waiter_lease;
        if self.holds_a_guess() && !self.setup.has(Flaw::BeatTrustsAGuess) {
            return Answer::Gone;
        }
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
        self.bury();
        Answer::Queued { ticket }
    }

    fn beat_holding(&mut self) -> Answer {
        if !self.state.server.is_owned_by(self.token) {
            return Answer::Lost;
        }
        self.extend(self.setup.times.ttl);
        Answer::Kept
    }

    /// Ends a lease, or leaves the line.
    fn release(&mut self) -> Answer {
        let is_owner = self.state.server.is_owned_by(self.token);
        if is_owner || (self.setup.has(Flaw::ReleaseDoesNotCompare) && self.has_held()) {
            if !self.setup.has(Flaw::CancelOnlyLeavesTheLine) || self.has_held() {
                self.end_lease();
            }
            return Answer::Released { was_held: true };
        }
        if !self.setup.has(Flaw::ReleaseKeepsTheEntry) {
            self.drop_entry(self.token);
        }
        if !self.setup.has(Flaw::ReleaseKeepsTheRecord) {
            self.drop_record(self.token);
        }
        if self.state.server.key.is_none() {
            self.advance(None);
        }
        Answer::Released { was_held: false }
    }

    fn end_lease(&mut self) {
        let wait = self.token.wait;
        let client = self.state.client(self.token);
        client.noted.let_go |= client.wait == wait;
        if self.may_wait_for_it() {
            if let Next::Nobody = self.advance(None) {
                self.state.server.key = None;
            }
            return;
        }
        self.state.server.key = None;
        if self.somebody_stands_before(u8::MAX) {
            self.state.convict(Promise::ReleaseHandsOn);
        }
    }

    /// Returns whether the line must be checked. Plain commands that were not granted may have bypassed it.
    fn may_wait_for_it(&self) -> bool {
        let is_granted = self.command.is_holders || self.setup.has(Flaw::CancelDoesNotLook);
        let key = self.state.server.key;
        !is_granted || key.is_none_or(|key| key.is_marked || key.owner == Owner::Plain)
    }

    fn has_held(&self) -> bool {
        let client = &self.state.clients[usize::from(self.token.client)];
        client.wait == self.token.wait && client.noted.has_held
    }

    /// `SET NX` by a client that no living waiter precedes.
    fn take(&mut self, lease: Ticks) -> Answer {
        let fence = self.draw_fence();
        self.grant(self.token, fence, lease, Given::Free);
        Answer::Granted { fence, lease }
    }

    /// The caller already owns the key.
    fn confirm(&mut self, lease: Ticks) -> Answer {
        self.extend(lease);
        self.drop_entry(self.token);
        self.drop_record(self.token);
        self.told_fence(lease)
    }

    fn confirm_waiter(&mut self, lease: Ticks) -> Answer {
        if let Some(key) = &mut self.state.server.key {
            key.remaining = if self.setup.has(Flaw::BeatShortensTheLease) {
                lease
            } else {
                key.remaining.max(lease)
            };
        }
        self.told_fence(lease)
    }

    fn extend(&mut self, lease: Ticks) {
        if let Some(key) = &mut self.state.server.key {
            key.remaining = key.remaining.max(lease);
            key.has_waiter_lease = false;
        }
    }
}
